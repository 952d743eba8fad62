//! `hailer serve` as a service: relay, reload, signals and secrets, under load.

use crate::tool::{Serve, Temporary, address, run};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a result. Machines that run tests may be busy.
const WAIT: Duration = Duration::from_secs(15);

/// Runs these tests one at a time: the flood of one may cause the system to drop datagrams of
/// another.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what `hailer serve status --json` prints about the server with this control socket.
fn status(control: &Path) -> Value {
    let control = control.to_str().unwrap();
    let shown = run(["serve", "status", "--json", "--control", control]);
    shown.ends_with(0).json().swap_remove(0)
}

/// Returns a client that receives from the server only.
fn client(from: &str, to: &str) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket
}

fn token(client: &UdpSocket) -> Option<[u8; 4]> {
    client.send(b"\xFE\xFD\x09\x01\x02\x03\x04").unwrap();
    let reply = receive(client, 9)?;
    let number: i32 = std::str::from_utf8(&reply[5..reply.len() - 1])
        .unwrap()
        .parse()
        .unwrap();
    Some(number.to_be_bytes())
}

fn stat(client: &UdpSocket, token: [u8; 4]) -> Option<String> {
    client
        .send(&[b"\xFE\xFD\x00\x01\x02\x03\x04", &token[..], &[0; 4]].concat())
        .unwrap();
    receive(client, 0).map(|reply| String::from_utf8_lossy(&reply).into_owned())
}

/// Returns the next reply of the given kind. Skips late replies to earlier requests that timed out.
fn receive(client: &UdpSocket, kind: u8) -> Option<Vec<u8>> {
    let mut reply = [0; 2_048];
    loop {
        let length = client.recv(&mut reply).ok()?;
        if reply[0] == kind {
            return Some(reply[..length].to_vec());
        }
    }
}

/// Runs a full Minecraft Query. Returns the last reply.
fn ask(client: &UdpSocket) -> Option<String> {
    stat(client, token(client)?)
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < WAIT, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn relays_other_datagrams_to_the_game_and_back() {
    let _alone = alone();
    let game = UdpSocket::bind("127.0.0.1:0").unwrap();
    game.set_read_timeout(Some(WAIT)).unwrap();
    let behind = game.local_addr().unwrap();
    let control = std::env::temp_dir().join(format!("hailer-relay-{}.sock", std::process::id()));
    let metrics = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let text = |workers: u32, sessions: u32| {
        format!(
            "[[server]]\nlisten = \"127.0.0.1:0\"\nrelay = \"{behind}\"\n[engine]\nworkers = {workers}\n\
             relay = {{ sessions = {sessions} }}\n[observe]\nmetrics = \"{metrics}\"\ncontrol = \"{}\"\n",
            control.display()
        )
    };
    let config = Temporary::file("relay.toml", text(2, 1));
    let serve = Serve::start(1, ["--config", config.text()]);
    let [one, two] = [(); 2].map(|()| client("127.0.0.1", &serve.address()));
    let mut buffer = [0; 64];
    one.send(b"login").unwrap();
    let (length, session) = game.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"login");
    game.send_to(b"welcome", session).unwrap();
    game.send_to(b"world", session).unwrap();
    for expected in [&b"welcome"[..], b"world"] {
        let length = one.recv(&mut buffer).unwrap();
        assert_eq!(
            &buffer[..length],
            expected,
            "the reply must come from the queried address"
        );
    }
    one.send(b"play").unwrap();
    game.recv_from(&mut buffer).unwrap();
    assert!(ask(&one).is_some(), "queries must not be relayed");
    two.send(b"no room").unwrap();
    let counts = || status(&control)["listeners"][0]["counts"].clone();
    until("a drop", || counts()["dropped"]["relay-full"] == 1);
    let counts = counts();
    assert_eq!(
        (
            &counts["relayed"],
            &counts["relayed_back"],
            &counts["received"]
        ),
        (&2.into(), &2.into(), &5.into())
    );
    assert_eq!(
        (
            &counts["requests"]["minecraft-query"],
            &counts["requests"]["ugp"]
        ),
        (&2.into(), &0.into())
    );
    assert_eq!(
        (
            &status(&control)["relay"]["sessions"],
            &status(&control)["relay"]["sessions_max"]
        ),
        (&1.into(), &2.into())
    );
    let shown = run(["serve", "status", "--control", control.to_str().unwrap()])
        .ends_with(0)
        .out;
    assert!(
        shown.contains("relay: 1 session of 2 open") && shown.contains("passed back"),
        "{shown}"
    );
    let mut page = String::new();
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    stream.read_to_string(&mut page).unwrap();
    for (series, labels, value) in [
        ("relayed_datagrams_total", "", 2),
        ("relayed_back_datagrams_total", "", 2),
        ("lost_datagrams_total", "", 0),
        ("requests_total", ",protocol=\"minecraft-query\"", 2),
        ("requests_total", ",protocol=\"ugp\"", 0),
        ("dropped_datagrams_total", ",reason=\"relay-full\"", 1),
    ] {
        let line = format!(
            "hailer_serve_{series}{{listener=\"{}\"{labels}}} {value}\n",
            serve.address()
        );
        assert!(page.contains(&line), "{line}{page}");
    }
    assert!(page.contains("\nhailer_serve_relay_sessions 1\n"), "{page}");
    // A reload changes the limits and keeps the sessions. The number of threads stays the same.
    std::fs::write(config.text(), text(7, 2)).unwrap();
    serve.signal("HUP");
    until("other bounds", || {
        status(&control)["relay"]["sessions_max"] == 4
    });
    two.send(b"now").unwrap();
    let (length, _) = game.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"now");
    one.send(b"still me").unwrap();
    assert_eq!(game.recv_from(&mut buffer).unwrap().1, session);
    assert_eq!(status(&control)["workers"], 2);
    let (code, output) = serve.stop("TERM");
    assert_eq!(code, Some(0), "{output}");
    let note = "warning: restart hailer to apply workers = 7 (2 now); all else is applied\n";
    assert!(output.contains(note), "{output}");
}

#[test]
fn reload_changes_the_budget() {
    let control = std::env::temp_dir().join(format!("hailer-budget-{}.sock", std::process::id()));
    let text = |kib: u32, metrics: &str| {
        format!(
            "[[server]]\nlisten = \"127.0.0.1:0\"\n[engine]\nbudget.unverified-total = \"{kib}KiB\"\n[observe]\n{metrics}"
        )
    };
    let config = Temporary::file("budget.toml", text(64, ""));
    let serve = Serve::start(
        1,
        [
            "--config",
            config.text(),
            "--control",
            control.to_str().unwrap(),
        ],
    );
    let total = || status(&control)["budget"]["bytes_per_s"].as_u64().unwrap();
    until("the first budget", || total() == 64 << 10);
    std::fs::write(config.text(), text(32, "metrics = \"127.0.0.1:9\"\n")).unwrap();
    serve.signal("HUP");
    until("the second budget", || total() == 32 << 10);
    let (_, output) = serve.stop("TERM");
    assert!(
        output.contains("warning: restart hailer to apply [observe]; all else is applied\n"),
        "{output}"
    );
}

/// Runs full queries from several networks until `during` returns. Returns the number of queries,
/// and of those without a reply.
fn under_load(addresses: &[String], during: impl FnOnce()) -> (u64, u64) {
    let stop = AtomicBool::new(false);
    let queries = AtomicU64::new(0);
    let lost = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (i, address) in addresses.iter().enumerate() {
            let stop = &stop;
            let queries = &queries;
            let lost = &lost;
            scope.spawn(move || {
                let client = client(&format!("127.0.{i}.1"), address);
                while !stop.load(Ordering::Relaxed) {
                    queries.fetch_add(1, Ordering::Relaxed);
                    lost.fetch_add(u64::from(ask(&client).is_none()), Ordering::Relaxed);
                    // Fast enough for a query to be in flight at all times, slow enough for other
                    // tests.
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
        }
        during();
        stop.store(true, Ordering::Relaxed);
    });
    (queries.into_inner(), lost.into_inner())
}

#[test]
fn reloads_under_load_lose_no_request() {
    let _alone = alone();
    let behind = Serve::with(&["--protocol", "minecraft-query", "--motd", "behind"]);
    let polled = behind.url("minecraft-query");
    let token = Temporary::file("token", "0123456789abcdef0123456789abcdef\n");
    let file = Temporary::file("status.json", "{ \"motd\": \"filed\" }");
    let push = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let text = |motd: &str| {
        let head = "[[server]]\nlisten = \"127.0.0.1:0\"\nprotocols = [\"minecraft-query\"]\n";
        format!(
            "{head}status.motd = \"{motd}\"\n{head}source.file = \"{}\"\n{head}source.poll = \"{}\"\n\
             {head}source.push = {{ listen = \"{push}\", token-file = \"{}\" }}\n",
            file.text(),
            polled,
            token.text()
        )
    };
    let config = Temporary::file("load.toml", text("0"));
    let serve = Serve::start(4, ["--config", config.text()]);
    let addresses: Vec<_> = serve.listening.iter().map(|line| address(line)).collect();
    let put = || {
        let body = "{ \"motd\": \"pushed\" }";
        let head = format!(
            "PUT /status HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(push).unwrap();
        write!(
            stream,
            "{head}Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n{body}"
        )
        .unwrap();
        let mut output = String::new();
        stream.read_to_string(&mut output).unwrap();
        assert!(output.starts_with("HTTP/1.1 204"), "{output}");
    };
    put();
    let motds = ["0", "filed", "behind", "pushed"];
    let output = |at: usize| ask(&client("127.0.0.1", &addresses[at])).unwrap_or_default();
    for (at, motd) in motds.iter().enumerate() {
        let quick = client("127.0.0.1", &addresses[at]);
        quick
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        until(motd, || {
            ask(&quick).is_some_and(|output| output.contains(motd))
        });
    }
    // Statuses that were pushed, polled or read stay valid across reloads: a sender that pushed
    // once does not push again.
    drop(behind);
    let (queries, lost) = under_load(&addresses, || {
        for i in 1..=15 {
            std::fs::write(config.text(), text(&i.to_string())).unwrap();
            serve.signal("HUP");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert!(queries > 500 && lost == 0, "{lost} of {queries} lost");
    until("the last file", || output(0).contains("\x0015\0"));
    for (at, motd) in motds.iter().enumerate().skip(1) {
        assert!(output(at).contains(motd), "{motd}");
    }
    put();
    let (code, output) = serve.stop("TERM");
    assert_eq!(code, Some(0), "{output}");
    assert!(
        !output.contains("keeping the old configuration")
            && !output.contains("the other sources keep running")
            && output
                .matches("configuration reloaded: 4 servers on 4 addresses")
                .count()
                >= 10,
        "{output}"
    );
}

#[test]
fn stops_immediately_under_load() {
    let _alone = alone();
    let serve = Serve::with(&["--protocol", "minecraft-query"]);
    let to = serve.address();
    let stop = AtomicBool::new(false);
    let (code, output, took) = std::thread::scope(|scope| {
        for i in 0..2 {
            let stop = &stop;
            let to = &to;
            scope.spawn(move || {
                // Faster than the server can reply, and the replies are never read.
                let socket = UdpSocket::bind((format!("127.0.{i}.1"), 0)).unwrap();
                let until = Instant::now() + Duration::from_secs(5);
                while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                    let _ = socket.send_to(b"\xFE\xFD\x09\x01\x02\x03\x04", to);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        let started = Instant::now();
        let (code, output) = serve.stop("TERM");
        stop.store(true, Ordering::Relaxed);
        (code, output, started.elapsed())
    });
    assert_eq!(code, Some(0), "{output}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    // Each received datagram was answered.
    let summary = output.lines().last().unwrap_or_default();
    let number = |word: &str| -> u64 {
        let before = summary.split(word).next().unwrap().trim_end();
        before
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap_or_else(|_| panic!("{summary}"))
    };
    assert!(
        number("datagrams received") == number("answered (") && number("not answered") == 0,
        "{summary}"
    );
}

#[test]
fn tokens_stay_valid_after_a_restart_and_a_secret_change() {
    let _alone = alone();
    // A separate address, so that no other test takes the port between two starts.
    let here = UdpSocket::bind("127.0.77.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let text = |listen: &str, secret: Option<&str>, motd: &str| {
        let secret = secret
            .map(|secret| format!("secret = \"{secret}\"\n"))
            .unwrap_or_default();
        format!(
            "[[server]]\nlisten = \"{listen}\"\nprotocols = [\"minecraft-query\"]\nstatus.motd = \"{motd}\"\n{secret}"
        )
    };
    let first = "00112233445566778899aabbccddeeff";
    let second = "ffeeddccbbaa99887766554433221100";
    let start = |listen: &str, secret: &str| {
        let config = Temporary::file("node.toml", text(listen, Some(secret), "start"));
        (Serve::start(1, ["--config", config.text()]), config)
    };
    let (node, _) = start(&here, first);
    let (other, _) = start("127.0.77.1:0", first);
    // From one socket, since a token is bound to the port too.
    let socket = UdpSocket::bind("127.0.77.2:0").unwrap();
    let at = |address: &str, wait: Duration| {
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(wait)).unwrap();
        &socket
    };
    let get = |address: &str| token(at(address, WAIT)).unwrap();
    let good = |address: &str, token| stat(at(address, WAIT), token).is_some();
    let bad = |address: &str, token| stat(at(address, Duration::from_millis(500)), token).is_none();
    let old = get(&here);
    assert!(
        good(&here, old) && good(&other.address(), old),
        "a node rejects a valid token"
    );
    node.stop("TERM");
    let (node, _) = start(&here, first);
    assert!(good(&here, old), "after a restart");
    assert!(
        good(&here, get(&other.address())),
        "the token of the other node, after a restart"
    );
    node.stop("TERM");
    let (node, _) = start(&here, second);
    assert!(
        bad(&here, old),
        "a token of another secret must be rejected"
    );
    node.stop("TERM");
    // The secret changes with a reload. Tokens of the previous secret stay valid for one change.
    let (node, config) = start(&here, first);
    let reread = |secret: Option<&str>, motd: &str| {
        std::fs::write(config.text(), text(&here, secret, motd)).unwrap();
        node.signal("HUP");
        until(motd, || {
            ask(at(&here, Duration::from_secs(1))).is_some_and(|output| output.contains(motd))
        });
    };
    reread(Some(second), "second");
    assert!(good(&here, old), "the previous secret must stay valid");
    reread(Some(second), "again");
    assert!(
        good(&here, old),
        "a reload with the same secret must change nothing"
    );
    let new = get(&here);
    reread(None, "random");
    assert!(bad(&here, old) && good(&here, new), "two generations");
}

/// Connections wait while too many files are open, which is logged once. Both commands answer the
/// ping of 1.4.
#[test]
fn too_many_open_files_are_logged_once() {
    let _alone = alone();
    for serve in [
        Serve::with(&["--protocol", "minecraft-status"]),
        Serve::world(&[]),
    ] {
        let id = Pid::from_raw(serve.id() as i32);
        let usual = getrlimit(Resource::Nofile);
        let too_few = Rlimit {
            current: Some(3),
            maximum: usual.maximum,
        };
        let before = prlimit(id, Resource::Nofile, too_few).unwrap();
        let mut waiting = TcpStream::connect(serve.address()).unwrap();
        waiting.set_read_timeout(Some(WAIT)).unwrap();
        waiting.write_all(&[0xFE, 1]).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        prlimit(id, Resource::Nofile, before).unwrap();
        let mut reply = [0];
        waiting.read_exact(&mut reply).unwrap();
        assert_eq!(reply, [0xFF]);
        let (code, output) = serve.stop("TERM");
        assert_eq!(code, Some(0), "{output}");
        let lines = output
            .lines()
            .filter(|line| line.contains("none can be accepted"));
        assert_eq!(lines.count(), 1, "{output}");
    }
}

#[test]
fn repeated_log_lines_are_limited_and_counted() {
    let _alone = alone();
    let files: Vec<_> = (0..30).map(|_| Temporary::file("bad.json", "{")).collect();
    let block = |file: &Temporary| {
        format!(
            "[[server]]\nlisten = \"127.0.0.1:0\"\nprotocols = [\"ugp\"]\nsource.file = \"{}\"\n",
            file.text()
        )
    };
    let config = Temporary::file("bad.toml", files.iter().map(block).collect::<String>());
    let started = Instant::now();
    let serve = Serve::start(30, ["--config", config.text()]);
    let to = serve.address();
    let flood = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sent = 0;
    while started.elapsed() < Duration::from_secs(3) {
        for bad in [&b"\xFF\xFFUGP\0\x01\x80"[..], b"nothing that anybody knows"] {
            sent += u64::from(flood.send_to(bad, &to).is_ok());
        }
        // Each time, each file has a different error.
        for (i, file) in files.iter().enumerate().filter(|_| sent % 1_000 == 0) {
            std::fs::write(file.text(), "\n".repeat(i + sent as usize % 17) + "{").unwrap();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let (code, output) = serve.stop("TERM");
    let seconds = started.elapsed().as_secs() as usize + 1;
    assert_eq!(code, Some(0), "{output}");
    let lines = output.lines().count();
    assert!(
        lines <= 5 + 5 + 2 * seconds,
        "{lines} in {seconds} s:\n{output}"
    );
    let of_sources = output
        .lines()
        .filter(|line| line.contains(": source: ") && !line.contains("suppressed"))
        .count();
    let held = output
        .lines()
        .find(|line| line.contains("source: suppressed "))
        .unwrap_or_else(|| panic!("{output}"));
    let held: usize = held.split(' ').nth(3).unwrap().parse().unwrap();
    assert!(
        held + of_sources > 30,
        "each source failed at least once: {output}"
    );
    let summary = output.lines().last().unwrap();
    let half = sent / 2;
    for expected in [
        format!("{sent} datagrams received: 0 answered, {sent} not answered"),
        format!("{half} malformed"),
        format!("{half} in no protocol served here"),
    ] {
        assert!(summary.contains(&expected), "{expected}: {summary}");
    }
}
