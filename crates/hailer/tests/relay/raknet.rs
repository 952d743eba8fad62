//! RakNet: the C++ library of the npm package `raknet-native`, which `bedrock-protocol` uses.

use super::relay;
use hailer::respond::RelayVerification;
use hailer_testkit::npm;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// Process of Node.js. Killed when dropped.
pub(super) struct Node(pub(super) Child);

impl Node {
    pub(super) fn start(modules: &std::path::Path, role: &str, port: u16) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/relay/raknet.js");
        let mut node = Command::new("node");
        node.arg(script).arg(role).arg(port.to_string());
        node.env("NODE_PATH", modules);
        node.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(node.spawn().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn players_of_raknet_join_and_play() {
    let Some(modules) = npm::modules("raknet-native") else {
        return;
    };
    // The library takes no port that the system chooses.
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let game = free.local_addr().unwrap();
    drop(free);
    let mut server = Node::start(&modules, "server", game.port());
    // It also complains about the system.
    let lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line == "ready"));
    let pool = relay(game, RelayVerification::Echo);
    let mut players = Node::start(&modules, "client", pool.addresses()[0].port());
    let output = players.0.stdout.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let line = receiver.recv_timeout(LIMIT);
    drop(players);
    reader.join().unwrap();
    let counts = &pool.stop()[0].counts;
    assert_eq!(line.as_deref(), Ok("played: 5 of 5"), "{counts:?}");
}
