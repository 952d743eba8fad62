//! Queries of games over real sockets on loopback: ports, protocols, and rows that programs add.

use hailer::client::{ClientConfig, FieldSource, QueryLimits};
use hailer::proto::games::{Game, QueryPort, Quirk};
use hailer::support::catalog;
use hailer::{Client, Target};
use hailer_testkit::servers::{ANY, GAME, Server, Stream, apart, protocol, status};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn client() -> Client {
    let mut config = ClientConfig::default();
    let mut limits = QueryLimits::default();
    limits.timeout = Duration::from_secs(5);
    limits.retries = 0;
    config.limits = limits;
    Client::new(config)
}

fn server(id: &str) -> Server {
    Server::of(&[protocol(id)], &status("Harbour", &["Alice"]))
}

#[tokio::test]
async fn a_game_is_queried_at_its_query_port() {
    let server = server("ugp");
    let query = QueryPort::Fixed(server.port());
    catalog::add_game(Game {
        id: "fixed-port",
        query,
        ..GAME
    })
    .unwrap();
    let target = format!("fixed-port://{}", server.address.ip());
    let answer = client().query(target.as_str()).await.unwrap();
    assert_eq!(answer.transcript.address, server.address);
}

#[tokio::test]
async fn the_given_port_comes_before_the_derived_one() {
    let given = server("ugp");
    let derived = server("ugp");
    let query = QueryPort::Fixed(derived.port());
    catalog::add_game(Game {
        id: "both-ports",
        query,
        ..GAME
    })
    .unwrap();
    // Both servers are on the same address, so the port selects one.
    let target = format!("both-ports://{}", given.address);
    assert_eq!(given.address.ip(), derived.address.ip());
    let answer = client().query(target.as_str()).await.unwrap();
    assert_eq!(answer.transcript.address, given.address);
}

#[tokio::test]
async fn the_derived_port_is_tried_if_the_given_one_is_silent() {
    let server = server("ugp");
    let silent = UdpSocket::bind((server.address.ip(), 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let query = QueryPort::Offset(i32::from(server.port()) - i32::from(port));
    let port = Some(port);
    catalog::add_game(Game {
        id: "derived-port",
        port,
        query,
        ..GAME
    })
    .unwrap();
    let target = format!("derived-port://{}", silent.local_addr().unwrap());
    let started = Instant::now();
    let answer = client().query(target.as_str()).await.unwrap();
    assert_eq!(answer.transcript.address, server.address);
    // Well before the timeout of the given port.
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_closed_port_leads_to_the_derived_one() {
    let server = server("ugp");
    let closed = UdpSocket::bind((server.address.ip(), 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let query = QueryPort::FirstOf(&[QueryPort::Same, QueryPort::Fixed(1)]);
    catalog::add_game(Game {
        id: "closed-port",
        query,
        ..GAME
    })
    .unwrap();
    let error = client()
        .query(format!("closed-port://{closed}").as_str())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "port-closed");
    let query = QueryPort::Fixed(server.port());
    catalog::add_game(Game {
        id: "closed-port",
        query,
        ..GAME
    })
    .unwrap();
    let answer = client()
        .query(format!("closed-port://{closed}").as_str())
        .await
        .unwrap();
    assert_eq!(answer.transcript.address, server.address);
}

#[tokio::test]
async fn addresses_are_those_of_the_query_port() {
    let query = QueryPort::Offset(1);
    catalog::add_game(Game {
        id: "address-port",
        port: Some(700),
        query,
        ..GAME
    })
    .unwrap();
    for (target, port) in [
        ("address-port://192.0.2.7", 701),
        ("address-port://192.0.2.7:700", 701),
        ("address-port://192.0.2.7:800", 800),
    ] {
        let target: Target = target.parse().unwrap();
        let addresses = client().addresses(&target).await.unwrap();
        assert_eq!(addresses.first().unwrap().port(), port, "{target}");
    }
}

// --- several protocols ---

const TWO_PROTOCOLS: Game = Game {
    protocols: &["onequery", "minecraft-query"],
    quirks: &[Quirk::PlayersNeed("enable-query=true")],
    ..GAME
};

#[tokio::test]
async fn answers_in_several_protocols_are_merged() {
    let protocols = ["onequery", "minecraft-query"].map(protocol);
    let server = Server::of(&protocols, &status("Harbour", &["Alice", "Bob"]));
    catalog::add_game(Game {
        id: "merged-game",
        ..TWO_PROTOCOLS
    })
    .unwrap();
    let target = format!("merged-game://{}", server.address);
    let answers = client().detect(target.as_str()).await.unwrap();
    assert_eq!(answers.len(), 2);
    assert!(answers.others().is_empty());
    let best = answers.best();
    assert_eq!(best.transcript.protocol.id, "onequery");
    assert!(best.notes.is_empty(), "{:?}", best.notes);
    assert!(!best.sources.is_empty());
    let is_from_query = |source: &FieldSource| source.protocol == "minecraft-query";
    assert!(best.sources.iter().all(is_from_query), "{:?}", best.sources);
    assert!(answers.iter().all(|answer| answer.sources.is_empty()));
    assert_eq!(best.status.players.list.len(), 2);
}

#[tokio::test]
async fn missing_names_are_explained_soon() {
    let mut unlisted = status("Harbour", &[]);
    unlisted.players.online = Some(3);
    let server = Server::of(&[protocol("onequery")], &unlisted);
    catalog::add_game(Game {
        id: "half-game",
        ..TWO_PROTOCOLS
    })
    .unwrap();
    let started = Instant::now();
    let target = format!("half-game://{}", server.address);
    let answer = client().query(target.as_str()).await.unwrap();
    // The timeout is 5 s, but the answer waits only 1 s for the other protocol.
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(
        answer.notes,
        [
            "Player names are missing because Minecraft Query is disabled, filtered or on another port: it needs enable-query=true"
        ]
    );
}

#[tokio::test]
async fn the_answering_port_is_noted() {
    let server = server("ugp");
    let closed = UdpSocket::bind((server.address.ip(), 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let query = QueryPort::Fixed(server.port());
    catalog::add_game(Game {
        id: "noted-port",
        query,
        ..GAME
    })
    .unwrap();
    let answer = client()
        .query(format!("noted-port://{closed}").as_str())
        .await
        .unwrap();
    let expected = format!(
        "The query port {} answered, not the given port {}",
        server.port(),
        closed.port()
    );
    assert_eq!(answer.notes, [expected]);
}

// --- hosts without a protocol ---

#[tokio::test]
async fn the_second_wave_finds_less_common_protocols() {
    let server = Server::at(apart(), &[protocol("ugp")], &status("Harbour", &[]));
    let started = Instant::now();
    let answer = client()
        .query(server.address.to_string().as_str())
        .await
        .unwrap();
    assert_eq!(answer.transcript.protocol.id, "ugp");
    assert!(started.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn a_silent_host_receives_few_datagrams() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let mut config = ClientConfig::default();
    config.limits.timeout = Duration::from_millis(100);
    config.limits.retries = 20;
    let target = silent.local_addr().unwrap().to_string();
    let error = Client::new(config)
        .detect(target.as_str())
        .await
        .unwrap_err();
    let sent: u32 = error
        .transcripts()
        .iter()
        .map(|transcript| transcript.sent)
        .sum();
    let mut buffer = [0; 2_048];
    let mut received = 0;
    while let Ok((length, _)) = silent.recv_from(&mut buffer) {
        received += 1;
        // RakNet servers block the sender of such a packet, unless it is their own ping.
        let is_ping = buffer[0] == 1 && length == 33;
        assert!(
            length > 0 && (buffer[0] >= 80 || is_ping),
            "{:02x?}",
            &buffer[..length]
        );
    }
    assert_eq!(received, 12);
    // Requests over TCP were refused.
    assert_eq!(sent, received);
}

#[tokio::test]
async fn new_connections_count_before_the_first_answer() {
    // A server that closes every connection without a reply.
    let accepted = Arc::<AtomicUsize>::default();
    let count = accepted.clone();
    let server = Stream::run(ANY, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let target = server.address.to_string();
    let error = client().detect(target.as_str()).await.unwrap_err();
    assert_eq!(accepted.load(Ordering::Relaxed), 2);
    let reports = error.protocol_reports().join("\n");
    assert!(reports.contains("it closed the connection"), "{reports}");
    // With a protocol there is no such limit, and every form of the request is tried.
    let target = format!("minecraft-status://{target}");
    client().detect(target.as_str()).await.unwrap_err();
    assert!(accepted.load(Ordering::Relaxed) > 4);
}

#[tokio::test]
async fn on_request_every_protocol_is_tried() {
    let server = server("teeworlds");
    let target = server.address.to_string();
    let error = client().query(target.as_str()).await.unwrap_err();
    assert_eq!(error.kind(), "silence");
    let answers = client().query_all(target.as_str()).await.unwrap();
    assert_eq!(answers.best().transcript.protocol.id, "teeworlds");
}
