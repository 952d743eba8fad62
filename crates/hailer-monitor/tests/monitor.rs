//! A monitor without its pages, with real responders on loopback.

use hailer::Status;
use hailer::proto::registry;
use hailer::proto::{Player, Text};
use hailer::respond::{Board, ListenerConfig, PoolConfig, ResponderPool};
use hailer_monitor::health::State;
use hailer_monitor::history::{History, NewServer};
use hailer_monitor::monitor::{Monitor, MonitorConfig};
use hailer_monitor::sample::unix_millis;
use hailer_monitor::server::{Origin, ServerId};
use hailer_testkit::folder::Folder;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

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

/// A rename in the configuration keeps the number, and so the history, of a server.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_server_keeps_its_history() {
    let history = History::open("sqlite::memory:").await.unwrap();
    let monitor = Monitor::start(history.clone(), MonitorConfig::default())
        .await
        .unwrap();
    let server = |name: &str| NewServer::new(name, "ugp://127.0.0.1:9", Origin::Configuration);
    monitor.follow(vec![server("old")]).await.unwrap();
    let id = monitor.live().named("old").unwrap().server.id;
    let names = [("new".to_owned(), "old".to_owned())];
    // The file keeps the key after the first time.
    for _ in 0..2 {
        monitor.rename(&names).await.unwrap();
        monitor.follow(vec![server("new")]).await.unwrap();
        assert_eq!(monitor.live().named("new").unwrap().server.id, id);
        assert!(monitor.live().named("old").is_none());
    }
    let current = history.current_name("old").await.unwrap();
    assert_eq!(current.as_deref(), Some("new"));
    monitor.stop().await;
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

/// The clock is set back by an hour, once between two runs and once while the monitor runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_back_by_an_hour_hides_no_outage() {
    const HOUR: i64 = 3_600_000;
    let (pool, port) = respond("Alice");
    let folder = Folder::new("clock");
    let url = format!("sqlite:{}", folder.path().join("history.db").display());
    let start = async |ahead: i64| {
        let mut config = MonitorConfig::default();
        config.poll.interval = Duration::from_secs(1);
        config.poll.sweep.limits.timeout = Duration::from_millis(200);
        let clock = config.poll.clock.clone();
        clock.set_offset(ahead);
        let history = History::open(&url).await.unwrap();
        let monitor = Monitor::start(history.clone(), config).await.unwrap();
        (monitor, history, clock)
    };
    let (monitor, ..) = start(2 * HOUR).await;
    let target = format!("minecraft-query://127.0.0.1:{port}");
    let new = NewServer::new("lobby", target, Origin::Api);
    let server = monitor.watchlist().add(new).await.unwrap();
    state(&monitor, server.id, State::Up, 2 * HOUR).await;
    monitor.stop().await;

    let (monitor, history, clock) = start(HOUR).await;
    state(&monitor, server.id, State::Up, HOUR).await;
    clock.set_offset(0);
    state(&monitor, server.id, State::Up, 0).await;
    pool.stop();
    state(&monitor, server.id, State::Down, 0).await;
    let row = monitor.live().row(server.id).unwrap();
    assert!(row.since <= unix_millis(), "the outage begins now");
    monitor.stop().await;
    let history = {
        drop(history);
        History::open(&url).await.unwrap()
    };
    let states = history.last_states().await.unwrap();
    assert_eq!(states[0].1, State::Down, "also in the history");
}

/// Waits until the last sample is at most 5 s from the time `ahead` of now, and has this state.
async fn state(monitor: &Monitor, server: ServerId, wanted: State, ahead: i64) {
    let end = Instant::now() + Duration::from_secs(15);
    loop {
        let row = monitor.live().row(server).unwrap();
        let is_current = row
            .last_sample
            .is_some_and(|last| (unix_millis() + ahead - last.at).abs() < 5_000);
        if is_current && row.state == wanted {
            return;
        }
        assert!(Instant::now() < end, "not {wanted:?}: {row:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
