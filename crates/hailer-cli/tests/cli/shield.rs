//! The example of docs/serve.md for a Source server that is flooded with queries, in namespaces: as the
//! page has it, with a flood of requests from forged sources.

use crate::condition::with_players;
use crate::support::{Server, bind, protocol};
use crate::tool::{Process, Temporary, command};
use hailer::respond::{Board, Budget, Service};
use hailer_testkit::namespace;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::process::Stdio;

/// Datagrams per second and seconds of the flood. A build without optimization on a busy machine
/// receives that many. `HAILER_FLOOD` replaces them, as in `HAILER_FLOOD="40000 30"`.
const FLOOD: &str = "4000 4";

/// Returns a game server: it replies to A2S, and to any other datagram with the same bytes.
fn game(port: u16) -> Server {
    let board = Board::new(&[protocol("a2s")], &with_players(3, 24)).unwrap();
    let mut service = Service::new(board, Budget::default());
    Server::run(
        bind(Ipv4Addr::LOCALHOST, port),
        move |socket, bytes, from| {
            if bytes.starts_with(b"game ") {
                let _ = socket.send_to(bytes, from);
                return;
            }
            for reply in service.answer(from, bytes) {
                let _ = socket.send_to(reply, from);
            }
        },
    )
}

#[test]
fn clients_and_players_are_served_during_a_flood() {
    if !namespace::is_inside_for("shield::clients_and_players_are_served_during_a_flood") {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```toml\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("```")?.0));
    let example: Vec<&str> = blocks.filter(|block| block.contains(":27016")).collect();
    assert_eq!(example.len(), 1);
    let example = example[0].replace("192.0.2.1", &namespace::near(1).to_string());
    let config = Temporary::file("shield.toml", example);

    let rate = std::env::var("HAILER_FLOOD").unwrap_or_else(|_| FLOOD.into());
    let mut attack = namespace::apart("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/flood.py");
    attack
        .args([script, &namespace::near(1).to_string(), "27015"])
        .args(rate.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut attack = Process::start(&mut attack);
    namespace::link(attack.child.id(), 1).unwrap();
    // Replies to forged sources leave through the link.
    namespace::ip(&format!("route add default via {}", namespace::far(1))).unwrap();

    let _game = game(27016);
    let mut serve = command(["serve", "--control", "off", "--for", "120s"]);
    serve.args(["--config", config.text()]);
    let mut serve = Process::start(&mut serve);
    let mut line = String::new();
    let out = serve.child.stdout.as_mut().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening"), "{line}");

    attack.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut text = String::new();
    let out = attack.child.stdout.as_mut().unwrap();
    BufReader::new(out).read_line(&mut text).unwrap();
    let figures: Value = serde_json::from_str(&text).unwrap();
    eprintln!("{figures}");
    let figure = |name: &str| figures[name].as_f64().unwrap();
    let wanted: f64 = rate.split(' ').next().unwrap().parse().unwrap();
    assert!(figure("forged") >= wanted, "{figures}");
    assert!(figure("queries") >= 10.0, "{figures}");
    assert!(figure("answered") >= 0.9 * figure("queries"), "{figures}");
    assert!(figure("pongs") >= 0.9 * figure("pings"), "{figures}");
}
