//! A monitor without its pages, with real responders on loopback.

use hailer::proto::registry;
use hailer::respond::{Board, ListenerConfig, PoolConfig, ResponderPool};
use hailer::{Player, Status, Text};
use hailer_monitor::history::{History, NewServer};
use hailer_monitor::monitor::{Monitor, MonitorConfig};
use hailer_monitor::server::{Origin, ServerId};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

fn respond(player: &str) -> (ResponderPool, u16) {
    let mut status = Status::default();
    status.players.list = vec![Player::named(Text::unformatted(player))];
    let protocols: Vec<_> = registry::datagram_responders().collect();
    let board = Board::new(&protocols, &status).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let post = ListenerConfig {
        address: any,
        board,
        relay: None,
        inherited: None,
    };
    let pool = ResponderPool::start(vec![post], &PoolConfig::default()).unwrap();
    let port = pool.addresses()[0].port();
    (pool, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_start_again_when_a_server_is_added_again() {
    let (pool, port) = respond("Alice");
    let history = History::open("sqlite::memory:").await.unwrap();
    let mut config = MonitorConfig::default();
    config.poll.interval = Duration::from_secs(1);
    let monitor = Monitor::start(history.clone(), config).await.unwrap();
    let lobby = NewServer {
        name: "lobby".into(),
        target: format!("minecraft-query://127.0.0.1:{port}"),
        group: String::new(),
        labels: BTreeMap::new(),
        interval: None,
        origin: Origin::Api,
    };
    let server = monitor.watchlist().add(lobby.clone()).await.unwrap();
    let first = until(&history, server.id, 1).await[0];
    // Wait long enough that the next sample has a different time.
    assert!(monitor.watchlist().remove(server.id).await.unwrap());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(
        monitor.watchlist().add(lobby).await.unwrap().id,
        server.id,
        "with its history"
    );
    let times = until(&history, server.id, 2).await;
    assert!(times.contains(&first), "{times:?}");
    monitor.stop().await;
    pool.stop();
}

/// Waits for `count` sessions, all of Alice, and returns when they began.
async fn until(history: &History, server: ServerId, count: usize) -> Vec<i64> {
    for _ in 0..80 {
        let sessions = history.sessions(server, i64::MAX, 10).await.unwrap();
        assert!(sessions.iter().all(|session| session.player == "Alice"));
        if sessions.len() == count {
            return sessions.iter().map(|session| session.first).collect();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("there are no {count} sessions");
}
