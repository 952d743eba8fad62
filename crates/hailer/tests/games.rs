//! Queries of games over real sockets on loopback: ports, protocols, and rows that programs add.

use hailer::proto::games::{Game, QueryPort};
use hailer::{Client, ClientConfig, QueryLimits, Target, catalog};
use hailer_testkit::servers::{Server, protocol, status};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const GAME: Game = Game {
    id: "",
    name: "Harbour Wars",
    protocols: &["ugp"],
    port: Some(9),
    query: QueryPort::Same,
    srv: None,
    quirks: &[],
    sources: "",
    aliases: &[],
};

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
    let (given, derived) = (server("ugp"), server("ugp"));
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
