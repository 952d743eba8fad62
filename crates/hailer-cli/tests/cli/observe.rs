//! `hailer serve status` and `hailer top` against a simulated control socket of `hailer serve`.

use crate::schema::check;
use crate::terminal::Terminal;
use crate::tool::{assert_harmless, command, finish, run};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A folder with a short name, since socket paths must be short. Removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hailer-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("hailer")).unwrap();
        Self(folder)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("hailer/serve.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn snapshot(pid: u32, seconds: f64, state: &str) -> Value {
    let received = 1000 + (seconds * 50.0) as u64;
    json!({
        "schema": "hailer/serve-status/2", "version": "0.1.0", "pid": pid, "started_at_ms": 1_795_000_000_000_u64, "uptime_s": seconds,
        "workers": 2,
        "listeners": [{
            "address": "127.0.0.1:25565", "protocols": ["minecraft-query"],
            "counts": {
                "received": received, "answered": received / 2, "unverified": received / 4, "received_bytes": received * 11,
                "sent_bytes": received * 300, "relayed": 0, "relayed_back": 0, "lost": 0,
                "requests": { "minecraft-query": received },
                "answers": { "minecraft-query": { "answer": received / 2, "unverified": received / 4 } },
                "dropped": { "token": received / 4 },
            },
        }],
        "budget": { "left_bytes": 900_000, "bytes_per_s": 1_000_000, "networks": 3, "networks_max": 8192 },
        "relay": { "sessions": 0, "sessions_max": 0 },
        "sources": [{ "name": "lob\u{1b}by", "kind": "file", "age_s": 2.5, "state": state, "last_error": null }],
        "top": [{ "prefix": "192.0.2.0/24", "packets_per_s": 40.0, "bytes_per_s": 440.0, "replies_per_s": 0.0, "reply_bytes_per_s": 0.0 }],
    })
}

/// Serves the report of a responder with this process number to as many clients as `clients`, then
/// ends.
fn pretend(
    path: &Path,
    pid: u32,
    state: &'static str,
    clients: usize,
) -> std::thread::JoinHandle<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let started = Instant::now();
        for _ in 0..clients {
            answer(listener.accept().unwrap().0, pid, state, started);
        }
    })
}

/// A client that watches gets 20 lines, one every 100 ms.
fn answer(mut stream: UnixStream, pid: u32, state: &str, started: Instant) {
    let mut request = String::new();
    BufReader::new(stream.try_clone().unwrap())
        .read_line(&mut request)
        .unwrap();
    let lines = match &*request {
        "{\"get\":\"status\"}\n" => 1,
        "{\"watch\":100}\n" => 20,
        other => panic!("{other:?}"),
    };
    for _ in 0..lines {
        if writeln!(
            stream,
            "{}",
            snapshot(pid, 5.0 + started.elapsed().as_secs_f64(), state)
        )
        .is_err()
        {
            return;
        }
        if lines > 1 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn status_shows_a_running_responder() {
    let folder = Folder::new("status");
    let path = folder.socket();
    let control = ["serve", "status", "--control", path.to_str().unwrap()];
    for (state, code) in [("fresh", 0), ("stale", 0), ("silent", 1), ("never", 1)] {
        let server = pretend(&path, 7, state, 2);
        let finished = run(control.iter().chain(&["--json"])).ends_with(code);
        let lines = check("serve-status-v2.json", &finished);
        assert_eq!(
            (lines.len(), &lines[0]["sources"][0]["state"]),
            (1, &state.into())
        );
        assert_harmless(&finished.out, false);
        let finished = run(control).ends_with(code);
        for expected in [
            "process 7",
            "127.0.0.1:25565",
            "minecraft-query",
            "wrong or old challenge token",
            "192.0.2.0/24",
        ] {
            assert!(
                finished.out.contains(expected),
                "{expected}: {}",
                finished.out
            );
        }
        assert_harmless(&finished.out, false);
        server.join().unwrap();
    }
    // The path that both sides use by default.
    let server = pretend(&path, 8, "fresh", 1);
    let mut by_default = command(["serve", "status"]);
    by_default.env("XDG_RUNTIME_DIR", &folder.0);
    assert!(
        finish(by_default, None)
            .ends_with(0)
            .out
            .contains("process 8")
    );
    server.join().unwrap();
}

#[test]
fn unreachable_responder_error_names_the_correction() {
    let folder = Folder::new("nobody");
    let path = folder.socket();
    drop(UnixListener::bind(&path).unwrap());
    for path in [path.to_str().unwrap(), "/no/such/socket"] {
        for args in [
            &["serve", "status", "--control", path][..],
            &["serve", "status", "--json", "--control", path],
        ] {
            let finished = run(args).ends_with(1);
            assert!(
                finished
                    .err
                    .starts_with("error: no hailer serve listens at ")
                    && finished.err.contains("--control")
            );
            assert_eq!(
                (finished.err.lines().count(), &*finished.out),
                (1, ""),
                "{}",
                finished.err
            );
        }
    }
    run(["top", "--control", "/no/such/socket"]).fails_as_usage("`hailer serve status --json`");
    run(["serve", "--demo", "status"]).ends_with(2);
    run(["serve", "--metrics", "0.0.0.0:9570"]).ends_with(2);
    run(["top", "--every", "10ms"]).ends_with(2);
}

fn top(path: &Path) -> Terminal {
    Terminal::start([
        "top",
        "--every",
        "100ms",
        "--control",
        path.to_str().unwrap(),
    ])
}

#[test]
fn top_draws_and_restores_the_terminal() {
    let folder = Folder::new("top");
    let path = folder.socket();
    for signal in ["key", "TERM"] {
        let server = pretend(&path, 7, "fresh", 1);
        let mut top = top(&path);
        top.sees("process7,");
        top.sees("█");
        top.ends_by(signal);
        server.join().unwrap();
    }
}

#[test]
fn top_waits_for_a_responder_that_restarts() {
    let folder = Folder::new("restart");
    let path = folder.socket();
    let server = pretend(&path, 7, "fresh", 1);
    let mut top = top(&path);
    top.sees("process7,");
    // The stream of the first responder ends after 2 s.
    top.sees("lost");
    server.join().unwrap();
    let server = pretend(&path, 9, "fresh", 1);
    top.sees("restarted");
    // In raw mode, Ctrl-C is an ordinary key.
    top.press("\x03");
    assert_eq!(top.wait(), Some(0));
    server.join().unwrap();
}

#[test]
fn service_files_are_valid() {
    let folder = Folder::new("units");
    let binary = env!("CARGO_BIN_EXE_hailer");
    let config = folder.0.join("servers.toml");
    std::fs::write(&config, "[[server]]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let files = ["hailer-serve.service", "hailer-serve.socket"].map(|name| {
        let text = std::fs::read_to_string(format!(
            "{}/../../contrib/systemd/{name}",
            env!("CARGO_MANIFEST_DIR")
        ));
        let text = text
            .unwrap()
            .replace("/etc/hailer/servers.toml", config.to_str().unwrap());
        let file = folder.0.join(name);
        std::fs::write(&file, text.replace("/usr/bin/hailer", binary)).unwrap();
        file
    });
    // `hailer` accepts each command line of the service.
    let service = std::fs::read_to_string(&files[0]).unwrap();
    let lines = service.lines().filter(|line| !line.starts_with('#'));
    let commands: Vec<_> = lines
        .filter_map(|line| line.split_once(&format!("={binary} ")))
        .collect();
    assert_eq!(
        commands.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["ExecStartPre", "ExecStart", "ExecReload"]
    );
    for (_, args) in commands {
        let check = ["--check-config"]
            .into_iter()
            .filter(|flag| !args.contains(flag));
        run(args.split(' ').chain(check)).ends_with(0);
    }
    match Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(&files)
        .output()
    {
        Ok(finished) => assert!(
            finished.status.success(),
            "{}",
            String::from_utf8_lossy(&finished.stderr)
        ),
        Err(error) => eprintln!("systemd-analyze: {error}"),
    }
}

#[test]
fn the_monitor_unit_is_valid_and_hardened() {
    let folder = Folder::new("monitor-unit");
    let binary = env!("CARGO_BIN_EXE_hailer");
    let config = folder.0.join("monitor.toml");
    std::fs::write(
        &config,
        "[[server]]\nname = \"a\"\ntarget = \"ugp://127.0.0.1\"\n",
    )
    .unwrap();
    let unit = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../contrib/systemd/hailer-monitor.service"
    );
    let text = std::fs::read_to_string(unit)
        .unwrap()
        .replace("/etc/hailer/monitor.toml", config.to_str().unwrap())
        .replace("/usr/bin/hailer", binary);
    let file = folder.0.join("hailer-monitor.service");
    std::fs::write(&file, &text).unwrap();
    let mut commands = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, args)) = line.split_once(&format!("={binary} ")) {
            commands.push(name);
            let check = Some("--check-config").filter(|flag| !args.contains(flag));
            run(args.split(' ').chain(check)).ends_with(0);
        }
    }
    assert_eq!(commands, ["ExecStartPre", "ExecStart", "ExecReload"]);
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&file)
        .output();
    match verify {
        Ok(out) => assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(error) => return eprintln!("skipped: systemd-analyze: {error}"),
    }
    // The threshold is in tenths of a point.
    let exposure = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=20"])
        .arg(&file)
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&exposure.stdout).into_owned();
    assert!(exposure.status.success(), "{report}");
    assert!(report.contains("Overall exposure level"), "{report}");
}
