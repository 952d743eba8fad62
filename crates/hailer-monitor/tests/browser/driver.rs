//! Controls Chromium through the DevTools protocol: JSON over one WebSocket.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tungstenite::{Message, WebSocket};

/// Time limit of every wait; the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A headless Chromium, killed on drop.
pub(crate) struct Browser {
    child: Child,
    profile: PathBuf,
    socket: WebSocket<TcpStream>,
    last: u64,
    /// Session id of the current page.
    session: Option<String>,
    /// Errors of the page: exceptions, policy violations, failed requests.
    pub(crate) complaints: Vec<String>,
}

impl Browser {
    /// Starts Chromium; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let profile = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("chromium-{}", std::process::id()));
        std::fs::create_dir_all(&profile).unwrap();
        let mut command = Command::new("chromium");
        // Chromium has no sandbox as root; the test loads trusted pages only. No host name
        // resolves, so it contacts no other host.
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-pings",
        ]);
        command.args([
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--hide-scrollbars",
        ]);
        command
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.display()));
        command
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().ok()?;
        let start = Instant::now();
        let address = loop {
            // First line: port; second line: path of the socket.
            let output =
                std::fs::read_to_string(profile.join("DevToolsActivePort")).unwrap_or_default();
            if let Some((port, path)) = output.split_once('\n') {
                break format!("ws://127.0.0.1:{port}{}", path.trim());
            }
            assert!(start.elapsed() < TIMEOUT, "Chromium printed no address");
            std::thread::sleep(Duration::from_millis(50));
        };
        let place = address
            .trim_start_matches("ws://")
            .split('/')
            .next()
            .unwrap();
        let stream = TcpStream::connect(place).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (socket, _) = tungstenite::client(&address, stream).unwrap();
        Some(Self {
            child,
            profile,
            socket,
            last: 0,
            session: None,
            complaints: Vec::new(),
        })
    }

    /// Opens a page of this size with its own cookies.
    pub(crate) fn page(&mut self, width: u32, height: u32, is_phone: bool) {
        self.session = None;
        let context =
            self.call("Target.createBrowserContext", &json!({}))["browserContextId"].clone();
        let page = json!({"url": "about:blank", "browserContextId": context});
        let target = self.call("Target.createTarget", &page)["targetId"].clone();
        let session = self.call(
            "Target.attachToTarget",
            &json!({"targetId": target, "flatten": true}),
        );
        self.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        let scale = if is_phone { 2 } else { 1 };
        let screen = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", &screen);
        self.complaints.clear();
    }

    /// Emulates the color scheme of the system.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
    }

    /// Emulates the preference for reduced motion.
    pub(crate) fn calm(&mut self) {
        let features = json!([{"name": "prefers-reduced-motion", "value": "reduce"}]);
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
    }

    /// Disables scripts of the page; expressions of tests still run.
    pub(crate) fn without_scripts(&mut self) {
        self.call(
            "Emulation.setScriptExecutionDisabled",
            &json!({"value": true}),
        );
    }

    pub(crate) fn open(&mut self, address: &str) {
        self.eval("window.isOld = true");
        let answer = self.call("Page.navigate", &json!({ "url": address }));
        assert!(answer["errorText"].is_null(), "{address}: {answer}");
        self.wait("!window.isOld && document.readyState === 'complete'");
    }

    /// Evaluates an expression, and waits for promises.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &ask);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.eval(expression)
            .as_str()
            .unwrap_or_else(|| panic!("{expression} is no text"))
            .to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let start = Instant::now();
        // A page that is being loaded may be incomplete.
        let expression =
            format!("(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()");
        while self.eval(&expression) != true {
            assert!(
                start.elapsed() < TIMEOUT,
                "it never came true: {expression}"
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Presses keys by name: `/`, `a`, `Tab`, `Enter`.
    pub(crate) fn keys(&mut self, keys: &[&str]) {
        for key in keys {
            let (text, code) = match *key {
                "Enter" => ("\r", 13),
                "Tab" => ("", 9),
                "Escape" => ("", 27),
                "ArrowLeft" => ("", 37),
                "ArrowRight" => ("", 39),
                letter => (letter, 0),
            };
            let kind = if text.is_empty() {
                "rawKeyDown"
            } else {
                "keyDown"
            };
            let down =
                json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", &down);
            self.call(
                "Input.dispatchKeyEvent",
                &json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
            );
        }
    }

    /// Moves the mouse within an element, to a position given as shares of its width and height.
    /// Returns that position on the page.
    pub(crate) fn point(&mut self, element: &str, across: f64, down: f64) -> Value {
        let place = format!(
            "(() => {{ const one = {element}; one.scrollIntoView({{block: 'center'}}); const box = one.getBoundingClientRect();
             return [box.x + box.width * {across}, box.y + box.height * {down}] }})()"
        );
        let place = self.eval(&place);
        self.call(
            "Input.dispatchMouseEvent",
            &json!({"type": "mouseMoved", "x": place[0], "y": place[1]}),
        );
        place
    }

    /// Clicks an element with the mouse.
    pub(crate) fn click(&mut self, element: &str) {
        let place = self.point(element, 0.5, 0.5);
        for kind in ["mousePressed", "mouseReleased"] {
            let click = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &click);
        }
    }

    /// Saves a screenshot into the temporary folder of the build. `is_whole`: of the whole page
    /// instead of the window.
    pub(crate) fn picture(&mut self, name: &str, is_whole: bool) {
        let answer = self.call(
            "Page.captureScreenshot",
            &json!({"format": "png", "captureBeyondViewport": is_whole}),
        );
        let bytes = BASE64_STANDARD
            .decode(answer["data"].as_str().unwrap())
            .unwrap();
        std::fs::write(
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png")),
            bytes,
        )
        .unwrap();
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.socket
            .send(Message::text(command.to_string()))
            .unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else {
                continue;
            };
            let mut received: Value = serde_json::from_str(&text).unwrap();
            match received["method"].as_str() {
                Some("Runtime.exceptionThrown") => {
                    self.complaints
                        .push(received["params"]["exceptionDetails"].to_string());
                }
                Some("Log.entryAdded") => {
                    self.complaints
                        .push(received["params"]["entry"].to_string());
                }
                _ => {}
            }
            if received["id"] == self.last {
                // A page that is being left cannot evaluate expressions.
                if method == "Runtime.evaluate" && received["error"]["code"] == -32000 {
                    return Value::Null;
                }
                assert!(
                    received["error"].is_null(),
                    "{method}: {}",
                    received["error"]
                );
                return received["result"].take();
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its child processes may still write for a moment.
        for _ in 0..20 {
            if std::fs::remove_dir_all(&self.profile).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
