//! The web page of `hailer monitor`, with the settings of its configuration.

use crate::tool::{Process, Serve, Temporary, command, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest wait for a result. Machines that run tests may be busy.
const WAIT: Duration = Duration::from_secs(20);

/// A running monitor and its address.
struct Monitor {
    process: Process,
    address: String,
}

impl Monitor {
    fn start(config: &Temporary) -> Self {
        Self::start_with(&["monitor", "--config", config.text()], &[])
    }

    fn start_with(args: &[&str], more: &[&str]) -> Self {
        let args = args.iter().chain(more).chain(&["--for", "60s"]);
        let mut process = Process::start(&mut command(args));
        let mut line = String::new();
        let mut out = BufReader::new(process.child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let address = line
            .trim_end()
            .rsplit_once("http://")
            .unwrap_or_else(|| panic!("{line:?}"))
            .1
            .to_owned();
        Self { process, address }
    }

    fn send(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        write!(
            stream,
            "{head}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    /// Sends a request and returns the whole response.
    fn ask(&self, line: &str, headers: &str, body: &str) -> String {
        let mut received = String::new();
        let mut stream = self.send(
            &format!("{line} HTTP/1.1\r\nconnection: close\r\n{headers}"),
            body,
        );
        stream.read_to_string(&mut received).unwrap();
        received
    }

    fn get(&self, path: &str, host: &str) -> String {
        self.ask(&format!("GET {path}"), &format!("host: {host}"), "")
    }
}

#[test]
fn page_follows_the_configuration() {
    let serve = Serve::with(&["--demo"]);
    let token = Temporary::file("page-token", "0123456789abcdef0123456789abcdef\n");
    let history = Temporary::path("page.db");
    let config = |rest: &str| {
        let text = format!(
            "[monitor]\nlisten = \"127.0.0.1:0\"\nhistory = \"{}\"\ninterval = \"1s\"\ntoken-file = \"{}\"\n{rest}\n\
             [[server]]\nname = \"lobby\"\ntarget = \"{}\"\n",
            history.text(),
            token.text(),
            serve.url("minecraft-query"),
        );
        Temporary::file("page.toml", text)
    };
    let file = config(
        "page = \"https://status.example.com\"\nbadges = false\nbehind-proxy = true\nmax-servers = 2",
    );
    let mut monitor = Monitor::start(&file);
    let start = Instant::now();
    while !monitor
        .get("/api/v1/servers/lobby", "localhost")
        .contains("\"state\":\"up\"")
    {
        assert!(start.elapsed() < WAIT, "no response");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(
        monitor
            .get("/", "127.0.0.1:80")
            .contains("href=\"/server/lobby\"")
    );
    assert!(
        monitor
            .get("/", "status.example.com")
            .starts_with("HTTP/1.1 200")
    );
    let refused = monitor.get("/api/v1/totals", "evil.example.com");
    assert!(
        refused.starts_with("HTTP/1.1 421")
            && refused.contains("hosts = [\\\"evil.example.com\\\"]"),
        "{refused}"
    );
    assert!(
        monitor
            .get("/badge/lobby.svg", "localhost")
            .starts_with("HTTP/1.1 404")
    );
    assert!(
        monitor
            .get("/widget/lobby", "localhost")
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        monitor
            .get("/healthz", "localhost")
            .contains("\"status\":\"ok\"")
    );

    let headers = "host: localhost\r\ncontent-type: application/json\r\n\
                   authorization: Bearer 0123456789abcdef0123456789abcdef";
    let server = |name| format!("{{\"name\":\"{name}\",\"target\":\"ugp://127.0.0.9\"}}");
    let add = |name| monitor.ask("POST /api/v1/servers", headers, &server(name));
    assert!(add("second").starts_with("HTTP/1.1 201"));
    let full = add("third");
    assert!(
        full.starts_with("HTTP/1.1 409") && full.contains("the limit of 2 servers is reached"),
        "{full}"
    );

    // An open page does not delay the exit.
    let mut page = monitor.send(
        "GET /live/rows?ids=1&since=0 HTTP/1.1\r\nhost: localhost",
        "",
    );
    page.read_exact(&mut [0; 12]).unwrap();
    monitor.process.signal("TERM");
    let start = Instant::now();
    assert!(monitor.process.wait_at_most(WAIT).success());
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    let mut rest = Vec::new();
    assert!(
        page.read_to_end(&mut rest).is_ok(),
        "the stream was not ended properly"
    );
}

/// Returns the command that a page shows.
fn command_in(page: &str) -> Vec<String> {
    let (_, rest) = page.split_once("<pre>").unwrap_or_else(|| panic!("{page}"));
    let (command, _) = rest.split_once("</pre>").unwrap();
    command.split(' ').map(str::to_owned).collect()
}

#[test]
fn empty_overview_shows_a_working_command() {
    let token = Temporary::file("empty-token", "0123456789abcdef0123456789abcdef\n");
    let history = Temporary::path("empty.db");
    let config = |rest: &str| {
        Temporary::file(
            "empty.toml",
            format!(
                "[monitor]\nlisten = \"127.0.0.1:0\"\nhistory = \"{}\"\n{rest}",
                history.text()
            ),
        )
    };
    let monitor = Monitor::start(&config(&format!("token-file = \"{}\"\n", token.text())));
    let page = monitor.get("/", &monitor.address);
    let command = command_in(&page);
    assert_eq!(command[..3], ["hailer", "monitor", "add"]);
    let words = command[1..].iter().map(|word| match word.as_str() {
        "minecraft-query://play.example.com" => "minecraft-query://127.0.0.1:9".to_owned(),
        "FILE" => token.text().to_owned(),
        word => word.to_owned(),
    });
    let added = run(words);
    assert_eq!(added.code(), Some(0), "{}", added.err);
    let page = monitor.get("/", &monitor.address);
    assert!(page.contains("href=\"/server/lobby\""), "{page}");
    drop(monitor);

    // Without a token, the page does not suggest the API.
    let history = Temporary::path("empty-2.db");
    let file = Temporary::file(
        "empty-2.toml",
        format!(
            "[monitor]\nlisten = \"127.0.0.1:0\"\nhistory = \"{}\"\n",
            history.text()
        ),
    );
    let monitor = Monitor::start(&file);
    let command = command_in(&monitor.get("/", &monitor.address));
    assert_eq!(
        command,
        ["hailer", "monitor", "minecraft-query://play.example.com"]
    );
    let history = Temporary::path("empty-3.db");
    let started = Monitor::start_with(
        &["monitor", "minecraft-query://127.0.0.1:9"],
        &["--listen", "127.0.0.1:0", "--history", history.text()],
    );
    let page = started.get("/", &started.address);
    assert!(page.contains("href=\"/server/"), "{page}");
}
