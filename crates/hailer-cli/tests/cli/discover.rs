//! `hailer discover` over real links between network namespaces, and on loopback.

use crate::tool::{Process, command, run};
#[cfg(target_os = "linux")]
use hailer_testkit::namespace;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

/// Starts `hailer serve` in another namespace, and returns it once it listens.
#[cfg(target_os = "linux")]
fn serve_apart(link: u8, args: &[&str]) -> Process {
    let mut command = namespace::apart(env!("CARGO_BIN_EXE_hailer"));
    command
        .args(["serve", "--control", "off", "--for", "60s"])
        .args(args)
        .stdout(std::process::Stdio::piped());
    let mut serve = Process::start(&mut command);
    namespace::link(serve.child.id(), link).unwrap();
    let mut line = String::new();
    let out = serve.child.stdout.as_mut().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening"), "{line}");
    serve
}

#[cfg(target_os = "linux")]
fn targets(lines: &[Value]) -> Vec<&str> {
    let targets = lines.iter().filter_map(|line| line["target"].as_str());
    let mut targets: Vec<&str> = targets.collect();
    targets.sort_unstable();
    targets
}

#[test]
#[cfg(target_os = "linux")]
fn finds_servers_of_every_linked_network() {
    if !namespace::is_inside_for("discover::finds_servers_of_every_linked_network") {
        return;
    }
    // Bound to all addresses: the responder receives broadcasts, and replies from its own address.
    let quake = [
        "--listen",
        "0.0.0.0",
        "--name",
        "Harbour",
        "-p",
        "quake3",
        "-p",
        "a2s",
        "-p",
        "teeworlds",
        "-p",
        "minecraft-bedrock",
        "-p",
        "quake2",
        "-p",
        "quake1",
        "-p",
        "doom3",
    ];
    let _first = serve_apart(1, &quake);
    let _second = serve_apart(
        2,
        &[
            "--listen",
            "0.0.0.0:25565",
            "--motd",
            "&aLake",
            "-p",
            "minecraft-status",
            "-p",
            "minecraft-query",
            "--lan-announce",
        ],
    );
    let found = run(["discover", "--json", "--timeout", "4s"]).ends_with(0);
    assert_eq!(found.err, "");
    let lines = found.json();
    let expected = [
        "a2s://10.77.1.2:27015",
        "doom3://10.77.1.2:27666",
        "minecraft-bedrock://10.77.1.2:19132",
        // Announced over multicast, and found by a broadcast of the query: one server.
        "minecraft://10.77.2.2:25565",
        "quake1://10.77.1.2:27500",
        "quake2://10.77.1.2:27910",
        "quake3://10.77.1.2:27960",
        "teeworlds://10.77.1.2:8303",
    ];
    assert_eq!(targets(&lines), expected);
    for line in &lines {
        assert_eq!(line["ok"], true, "{line}");
    }
    let of_game = run(["discover", "--game", "quake2", "--timeout", "500ms"]).ends_with(0);
    of_game.shows(&["quake2://10.77.1.2:27910"]);
    assert_eq!(of_game.out.lines().count(), 2, "{}", of_game.out);

    // Only the second network.
    let near = namespace::near(2).to_string();
    let args = quake3_at(&near);
    let none = run(args.iter().chain(&["--timeout", "300ms"])).ends_with(1);
    none.warns(&["no server found on near2"]);
    assert_eq!(none.out, "");
}

#[test]
#[cfg(target_os = "linux")]
fn ignores_replies_of_other_networks() {
    if !namespace::is_inside_for("discover::ignores_replies_of_other_networks") {
        return;
    }
    let serve = serve_apart(
        1,
        &["--listen", "0.0.0.0", "--name", "Harbour", "-p", "quake3"],
    );
    // The server replies from an address that is not in the network of the interface.
    let pid = serve.child.id();
    namespace::ip_there(pid, "address add 10.99.0.2/32 dev far1").unwrap();
    namespace::ip_there(pid, "route del 10.77.1.0/30 dev far1").unwrap();
    namespace::ip_there(pid, "route add 10.77.1.0/30 dev far1 src 10.99.0.2").unwrap();
    let found = run(["discover", "-p", "quake3", "--json", "--timeout", "500ms"]);
    let lines = found.json();
    let foreign = lines
        .iter()
        .filter(|line| line["target"].as_str().unwrap().contains("10.99"));
    assert_eq!(foreign.count(), 0, "{}", found.out);
}

/// A machine announces worlds at 1,000 ports, whose servers accept connections and are silent.
#[test]
#[cfg(target_os = "linux")]
fn forged_announcements_take_little_time() {
    if !namespace::is_inside_for("discover::forged_announcements_take_little_time") {
        return;
    }
    let _link = serve_apart(1, &["--listen", "0.0.0.0", "-p", "quake3"]);
    let own = namespace::near(1);
    let socket = UdpSocket::bind((own, 0)).unwrap();
    let listeners: Vec<_> = (20_000..20_200)
        .map(|port| std::net::TcpListener::bind((own, port)).unwrap())
        .collect();
    std::thread::spawn(move || {
        for port in (20_000..21_000).cycle() {
            let text = format!("[MOTD]world[/MOTD][AD]{port}[/AD]");
            let _ = socket.send_to(text.as_bytes(), "224.0.2.60:4445");
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    let discover = |flags: &[&str]| {
        let own = own.to_string();
        let start = Instant::now();
        let args = ["discover", "-p", "minecraft-status", "--json", "-i", &own];
        let found = run([&args, flags].concat()).ends_with(0);
        (found, start.elapsed())
    };
    let (found, took) = discover(&["--timeout", "500ms", "--max-ports", "1000"]);
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert!(found.json().len() > 500, "{}", found.err);

    drop(listeners);
    let (found, _) = discover(&["--timeout", "500ms"]);
    assert_eq!(found.json().len(), 16, "{}", found.out);
    let crowded = format!("{own} has more than 16 servers: the others are left out");
    found.warns(&[&crowded]);
    let (found, _) = discover(&["--timeout", "500ms", "--max-servers", "3"]);
    assert_eq!(found.json().len(), 3, "{}", found.out);
    found.warns(&["more than 3 servers"]);
}

#[test]
fn a_broadcast_on_loopback_finds_servers_of_this_machine() {
    // Any free port.
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let listen = format!("0.0.0.0:{port}");
    let mut serve = command([
        "serve", "-p", "quake3", "--name", "Harbour", "--listen", &listen,
    ]);
    serve.args(["--control", "off", "--for", "60s"]);
    let mut serve = Process::start(&mut serve);
    let mut line = String::new();
    BufReader::new(serve.child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let port = port.to_string();
    let args = [&quake3_at("127.0.0.1")[..], &["--port", &port]].concat();
    let flags = ["--timeout", "500ms"];
    let found = run(args.iter().chain(&flags)).ends_with(0);
    found.shows(&["Harbour"]);
    let target = format!("quake3://127.0.0.1:{port}");
    found.shows(&[&target]);

    let mut watch = command(&args);
    watch.args(flags).args(["--watch", "--json"]);
    let mut watch = Process::start(&mut watch);
    let mut line = String::new();
    BufReader::new(watch.child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["target"], target);

    let ended = run(args
        .iter()
        .chain(&flags)
        .chain(&["--watch", "--for", "700ms"]));
    assert!(ended.ends_with(0).out.contains(&target));
}

#[test]
fn wrong_arguments_are_reported() {
    run(["discover", "-i", "nowhere0"]).fails_as_usage("no such interface");
    run(["discover", "-i", "127.0.0.1", "-p", "samp"]).fails_as_usage("query them by address");
    let long = run(["discover", "--timeout", "2min"]).ends_with(2);
    long.warns(&["100ms to 1min"]);
    run(["discover", "--game", "no-such-game", "-i", "127.0.0.1"]).fails_as_usage("unknown game");
    let silent = quake3_at("127.0.0.1");
    let none = run(silent.iter().chain(&["--port", "9", "--timeout", "200ms"])).ends_with(1);
    none.warns(&["no server found on lo"]);
}

/// Returns the arguments of a search for Quake 3 on one interface.
fn quake3_at(interface: &str) -> [&str; 5] {
    ["discover", "-i", interface, "-p", "quake3"]
}
