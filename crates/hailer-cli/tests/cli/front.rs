//! `hailer serve` in front of games: relays over TCP, hosts, and headers of the PROXY protocol.

use crate::tool::{Process, Serve, Temporary, command, finish_started, run};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for a result. Machines that run tests may be busy.
const WAIT: Duration = Duration::from_secs(15);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Returns the counts of the first address.
fn counts(control: &Path) -> Value {
    let control = control.to_str().unwrap();
    let shown = run(["serve", "status", "--json", "--control", control]);
    let status = shown.ends_with(0).json().swap_remove(0);
    assert_eq!(status["listeners"].as_array().unwrap().len(), 1, "{status}");
    status["listeners"][0]["counts"].clone()
}

/// Players of 12w builds join worlds behind one port, by the host that they typed.
#[test]
fn players_of_old_builds_join_worlds_by_host() {
    let world = |build: &str| {
        let world = Serve::world(&["--world", "flat", "--view-distance", "3", "--build", build]);
        let port = world.address().rsplit(':').next().unwrap().to_owned();
        (world, port)
    };
    let port = free_port();
    let text = |world_port: &str, motd: &str| {
        format!(
            "[[server]]\nlisten = \"minecraft-status=127.0.0.1:{port}\"\nhosts = [\"localhost\"]\n\
             relay = \"tcp:localhost:{world_port}\"\nstatus = {{ motd = \"{motd}\" }}\n\
             [[server]]\nlisten = \"minecraft-status=127.0.0.1:{port}\"\nstatus = {{ motd = \"Lobby\" }}\n\
             options.minecraft-status.kick = \"No game here\"\n"
        )
    };
    let (mut running, mut world_port) = world("12w16a");
    let config = Temporary::file("front.toml", text(&world_port, "World"));
    let control = Temporary::path("front.sock");
    let serve = Serve::start(2, ["--config", config.text(), "--control", control.text()]);
    let at = |host: &str| format!("{host}:{port}");
    let motd = |host: &str| {
        let output = run([
            "query",
            "--json",
            &format!("minecraft-status://{}", at(host)),
        ]);
        let answer = output.ends_with(0).json().swap_remove(0);
        answer["status"]["motd"]["plain"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!([motd("localhost"), motd("127.0.0.1")], ["World", "Lobby"]);
    let join = |build: &str, time: &'static str| {
        ["join", &at("localhost"), "--build", build, "--for", time].map(str::to_owned)
    };
    let started = Instant::now();
    let reload = |world_port: &str, motd_now: &str| {
        std::fs::write(config.text(), text(world_port, motd_now)).unwrap();
        serve.signal("HUP");
        while motd("localhost") != motd_now {
            assert!(started.elapsed() < 2 * WAIT);
        }
    };
    run(join("12w16a", "500ms")).ends_with(0);
    for build in ["12w22a", "12w30e"] {
        (running, world_port) = world(build);
        reload(&world_port, build);
        run(join(build, "500ms")).ends_with(0);
    }
    let refused = run(["join", &at("127.0.0.1"), "--for", "500ms"]).ends_with(1);
    refused.warns(&["No game here"]);
    // A reload keeps the players.
    let player = Process::start(&mut command(join("12w30e", "3s")));
    while counts(control.as_ref())["open_relayed_connections"] != 1 {
        assert!(started.elapsed() < 2 * WAIT);
        std::thread::sleep(Duration::from_millis(20));
    }
    reload(&free_port().to_string(), "Changed");
    finish_started(player).ends_with(0);
    drop(running);
    let counts = counts(control.as_ref());
    assert_eq!(counts["relayed_connections"], 4);
    assert_eq!(counts["open_relayed_connections"], 0);
    assert!(
        counts["relayed_back_bytes"].as_u64() > Some(1_000),
        "{counts}"
    );
    assert_eq!(counts["join_attempts"], 5);
}

/// A port without protocols passes on all bytes, and addresses of clients in both directions.
#[test]
fn a_port_without_protocols_passes_on_addresses() {
    let game = TcpListener::bind("127.0.0.1:0").unwrap();
    let game_port = game.local_addr().unwrap().port();
    let text = format!(
        "[[server]]\nlisten = \"relay=127.0.0.1:0\"\nrelay = \"tcp:127.0.0.1:{game_port}\"\n\
         trusted-proxies = \"127.0.0.0/8\"\nproxy-protocol = 1\nstatus = {{}}\n"
    );
    let config = Temporary::file("relay.toml", text);
    let serve = Serve::start(1, ["--config", config.text()]);
    assert!(
        serve.listening[0].ends_with(" for the game"),
        "{:?}",
        serve.listening
    );
    let mut client = TcpStream::connect(serve.address()).unwrap();
    client.set_read_timeout(Some(WAIT)).unwrap();
    client
        .write_all(b"PROXY TCP4 203.0.113.9 198.51.100.1 4242 25565\r\nhello")
        .unwrap();
    let (mut served, _) = game.accept().unwrap();
    served.set_read_timeout(Some(WAIT)).unwrap();
    let expected = b"PROXY TCP4 203.0.113.9 198.51.100.1 4242 25565\r\nhello";
    let mut received = [0; 53];
    served.read_exact(&mut received).unwrap();
    assert_eq!(received, *expected);
    served.write_all(b"welcome").unwrap();
    drop(served);
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "welcome");
}
