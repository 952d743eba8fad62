//! Queries and sweeps from a chosen local address and port.

use hailer::client::ClientConfig;
use hailer::{Client, Error};
use hailer_testkit::servers::{ANY, Server, Stream, apart, protocol, status};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// Returns a server that records where requests come from.
fn recording(ids: &[&str]) -> (Server, Arc<Mutex<Vec<SocketAddr>>>) {
    let protocols: Vec<_> = ids.iter().map(|id| protocol(id)).collect();
    let board = hailer::respond::Board::new(&protocols, &status("Source", &["Alice"])).unwrap();
    let mut service = hailer::respond::Service::new(board, Default::default());
    let seen: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
    let record = seen.clone();
    let server = Server::run(apart(), move |socket, bytes, from| {
        record.lock().unwrap().push(from);
        for reply in service.answer(from, bytes) {
            let _ = socket.send_to(reply, from);
        }
    });
    (server, seen)
}

fn client(source: SocketAddr) -> Client {
    let mut config = ClientConfig::default();
    config.source = Some(source);
    Client::new(config)
}

/// Returns a local address with a free port.
fn free_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

#[tokio::test]
async fn several_servers_are_queried_from_one_port() {
    let servers = [["ugp"], ["a2s"], ["minecraft-query"]].map(|ids| (recording(&ids), ids[0]));
    let source = free_port();
    let client = client(source);
    let targets = servers
        .iter()
        .map(|((server, _), id)| format!("{id}://{}", server.address));
    let targets: Vec<String> = targets.collect();
    let mut answers = client.query_many(targets.iter().map(String::as_str), 3);
    let mut count = 0;
    while let Some((target, answers)) = answers.next().await {
        let answers = answers.unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_eq!(answers.best().status.title().as_deref(), Some("Source"));
        count += 1;
    }
    assert_eq!(count, 3);
    for ((_, seen), id) in &servers {
        let seen = seen.lock().unwrap();
        assert!(
            !seen.is_empty() && seen.iter().all(|from| *from == source),
            "{id}: {seen:?}"
        );
    }
}

#[tokio::test]
async fn several_protocols_of_a_server_share_the_port() {
    for id in [
        "quake3",
        "ugp",
        "a2s",
        "minecraft-query",
        "minecraft-bedrock",
    ] {
        let (server, seen) = recording(&[id]);
        let source = free_port();
        let answer = client(source)
            .query(server.address.to_string().as_str())
            .await;
        assert_eq!(answer.unwrap().transcript.protocol.id, id);
        let seen = seen.lock().unwrap();
        assert!(seen.iter().all(|from| *from == source), "{id}: {seen:?}");
    }
}

#[tokio::test]
async fn connections_come_from_the_address() {
    let seen: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
    let record = seen.clone();
    let server = Stream::run(ANY, move |stream| {
        record.lock().unwrap().push(stream.peer_addr().unwrap());
    });
    let source: SocketAddr = ([127, 0, 0, 9], 0).into();
    for id in ["minecraft-status", "eco"] {
        let target = format!("{id}://{}", server.address);
        client(source).query(target.as_str()).await.unwrap_err();
    }
    let seen = seen.lock().unwrap();
    assert!(
        seen.len() >= 2 && seen.iter().all(|from| from.ip() == source.ip()),
        "{seen:?}"
    );
}

#[tokio::test]
async fn unusable_sources_are_errors_of_the_query() {
    let (server, _) = recording(&["ugp"]);
    let foreign: SocketAddr = ([192, 0, 2, 7], 0).into();
    let used = UdpSocket::bind("127.0.0.1:0").unwrap();
    let v6: SocketAddr = "[::1]:0".parse().unwrap();
    for source in [foreign, used.local_addr().unwrap(), v6] {
        let target = format!("ugp://{}", server.address);
        let error = client(source).query(target.as_str()).await.unwrap_err();
        assert!(
            matches!(error, Error::Unreachable { .. }),
            "{source}: {error}"
        );
    }
}
