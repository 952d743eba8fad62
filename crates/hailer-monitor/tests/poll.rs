//! Polls of real responders on loopback, for some seconds.

use hailer::client::ClientConfig;
use hailer::proto::Text;
use hailer::proto::games::{Game, QueryPort};
use hailer::proto::{Player, registry};
use hailer::respond::{Board, ListenerConfig, PoolConfig, ResponderPool};
use hailer::support::catalog;
use hailer::{Client, Status};
use hailer_monitor::health::State;
use hailer_monitor::history::Batch;
use hailer_monitor::poll::{PollConfig, PollResult, Poller};
use hailer_monitor::sample::{Event, EventKind};
use hailer_monitor::server::{Origin, Server, ServerId};
use hailer_monitor::state::{LastStatus, StateTable, Update};
use hailer_testkit::servers::dns::{Dns, Record};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn server(id: i64, target: String) -> Server {
    let group = String::new();
    let labels = BTreeMap::new();
    let interval = Some(Duration::from_secs(1));
    Server {
        id: ServerId(id),
        name: format!("server-{id}"),
        target,
        group,
        labels,
        interval,
        origin: Origin::Configuration,
    }
}

fn status(version: &str, players: i64) -> Status {
    let mut status = Status {
        version: Some(version.into()),
        motd: Some(Text::unformatted("Hello")),
        ..Status::default()
    };
    status.players.online = Some(players);
    status.players.max = Some(20);
    status
}

/// Receives results until `is_enough`, for at most 10 s.
async fn until(
    results: &mut tokio::sync::mpsc::Receiver<Vec<PollResult>>,
    mut is_enough: impl FnMut(&Batch) -> bool,
) -> Batch {
    let mut all = Batch::default();
    let end = tokio::time::Instant::now() + Duration::from_secs(10);
    while !is_enough(&all) {
        let some = tokio::time::timeout_at(end, results.recv()).await;
        let Ok(Some(some)) = some else {
            panic!("not within ten seconds; so far {all:?}")
        };
        some.into_iter().for_each(|result| all.add(result));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_servers_and_reports_changes() {
    let protocols: Vec<_> = registry::defaults().collect();
    let board = Board::new(&protocols, &status("1.0", 7)).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let post = ListenerConfig {
        address: any,
        board: board.clone(),
        relay: None,
        inherited: None,
    };
    let pool = ResponderPool::start(vec![post], &PoolConfig::default()).unwrap();
    let port = pool.addresses()[0].port();
    // The listener is dropped here, so its port is closed.
    let closed = std::net::TcpListener::bind(any)
        .unwrap()
        .local_addr()
        .unwrap();

    let live = Arc::new(StateTable::default());
    let (poll, mut batches) = Poller::start(PollConfig::default(), live.clone()).unwrap();
    for (id, protocol) in protocols.iter().enumerate() {
        let target = format!("{}://127.0.0.1:{port}", protocol.info().id);
        poll.watch(server(id as i64, target), None).unwrap();
    }
    poll.watch(server(10, format!("onequery://localhost:{port}")), None)
        .unwrap();
    poll.watch(server(11, format!("minecraft-status://{closed}")), None)
        .unwrap();
    let wrong = poll
        .watch(server(12, "127.0.0.1".into()), None)
        .unwrap_err();
    assert_eq!(
        wrong,
        "127.0.0.1: no protocol; write it as PROTOCOL://127.0.0.1"
    );

    let words = |batch: &Batch, word: &str| {
        let mut ids: Vec<i64> = batch
            .events
            .iter()
            .filter(|event| event.kind.word() == word)
            .map(|e| e.server.0)
            .collect();
        ids.sort_unstable();
        ids
    };
    let begun = until(&mut batches, |batch| {
        words(batch, "up").len() == 4 && words(batch, "down").len() == 1
    })
    .await;
    assert_eq!(
        (words(&begun, "up"), words(&begun, "down")),
        (vec![0, 1, 2, 10], vec![11]),
        "{:?}",
        begun.events
    );
    let answered: Vec<_> = begun
        .samples
        .iter()
        .filter(|sample| sample.is_answered)
        .collect();
    assert!(
        answered
            .iter()
            .all(|sample| sample.players == Some(7) && sample.max == Some(20)),
        "{answered:?}"
    );
    assert!(
        answered
            .iter()
            .all(|sample| sample.latency.is_some_and(|latency| latency < 1_000_000))
    );
    let mut times: Vec<_> = begun
        .samples
        .iter()
        .map(|sample| (sample.server, sample.at))
        .collect();
    times.sort_unstable();
    times
        .windows(2)
        .for_each(|pair| assert_ne!(pair[0], pair[1], "one sample of one time"));
    let row = live.named("server-0").unwrap();
    let last_status = row.last_status.unwrap();
    assert_eq!(
        (row.state, last_status.version.as_deref()),
        (State::Up, Some("1.0"))
    );
    let json: serde_json::Value = serde_json::from_slice(&last_status.answer).unwrap();
    assert_eq!(
        (&json["ok"], &json["status"]["players"]["online"]),
        (&true.into(), &7.into())
    );
    assert!(
        !last_status.replies.is_empty()
            && last_status.replies.iter().all(|reply| !reply.is_empty())
    );
    assert_eq!(
        live.named("server-11").unwrap().error.unwrap().kind,
        "port-closed"
    );

    board.publish(&status("2.0", 9)).unwrap();
    let changed = until(&mut batches, |batch| words(batch, "version").contains(&0)).await;
    let event = changed
        .events
        .iter()
        .find(|event| event.server == ServerId(0))
        .unwrap();
    let EventKind::Version(difference) = &event.kind else {
        panic!("{event:?}")
    };
    assert_eq!(
        (difference.from.as_deref(), difference.to.as_deref()),
        (Some("1.0"), Some("2.0"))
    );

    poll.forget(ServerId(1));
    assert_eq!(live.len(), protocols.len() + 1);
    pool.stop();
    let ended = until(&mut batches, |batch| words(batch, "down").len() == 3).await;
    assert_eq!(words(&ended, "down"), [0, 2, 10]);
    let row = live.named("server-0").unwrap();
    assert_eq!(
        (row.state, row.last_status.unwrap().version.as_deref()),
        (State::Down, Some("2.0")),
        "what it said is kept"
    );
}

/// After a restart, the state table has statuses from the history.
#[tokio::test(flavor = "multi_thread")]
async fn the_stored_status_stays_until_the_server_answers() {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(any).unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let live = Arc::new(StateTable::default());
    let (poll, mut batches) = Poller::start(PollConfig::default(), live.clone()).unwrap();
    poll.watch(server(1, format!("minecraft-status://{closed}")), None)
        .unwrap();
    let stored = Arc::new(LastStatus {
        version: Some("1.0".into()),
        ..LastStatus::default()
    });
    let update = Update::of(vec![ServerId(1)]);
    live.change(update, |row| row.last_status = Some(stored.clone()));
    let version = || {
        let status = live.named("server-1").unwrap().last_status?;
        status.version.as_ref().map(|version| version.to_string())
    };
    let polled = until(&mut batches, |batch| batch.samples.len() >= 2).await;
    assert!(polled.samples.iter().all(|sample| !sample.is_answered));
    assert_eq!(version().as_deref(), Some("1.0"));
    // An answer replaces it.
    let board = Board::new(
        &[registry::find("minecraft-status").unwrap()],
        &status("2.0", 7),
    );
    let listener = ListenerConfig {
        address: closed,
        board: board.unwrap(),
        relay: None,
        inherited: None,
    };
    // Another process may have taken the port.
    let Ok(pool) = ResponderPool::start(vec![listener], &PoolConfig::default()) else {
        return;
    };
    until(&mut batches, |batch| {
        batch.samples.iter().any(|sample| sample.is_answered)
    })
    .await;
    assert_eq!(version().as_deref(), Some("2.0"));
    pool.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_server_to_its_new_address() {
    let [here, there] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(Ipv4Addr::from);
    let start = |address: SocketAddr| {
        let board = Board::new(
            &registry::datagram_responders().collect::<Vec<_>>(),
            &status("1.0", 7),
        )
        .unwrap();
        ResponderPool::start(
            vec![ListenerConfig {
                address,
                board,
                relay: None,
                inherited: None,
            }],
            &PoolConfig::default(),
        )
    };
    let old = start((here, 0).into()).unwrap();
    let port = old.addresses()[0].port();
    // Only Linux has more than one loopback address by default.
    let Ok(new) = start((there, port).into()) else {
        return;
    };
    let zone = Arc::new(Mutex::new(vec![(
        "moves.test",
        Record::Address(here.into()),
    )]));
    let dns = Dns::changing(zone.clone());
    let config = PollConfig {
        name_server: Some(dns.address()),
        interval: Duration::from_secs(1),
        ..PollConfig::default()
    };
    let (poll, mut batches) = Poller::start(config, Arc::default()).unwrap();
    poll.watch(server(1, format!("ugp://moves.test:{port}")), None)
        .unwrap();
    until(&mut batches, |batch| {
        batch.events.iter().any(|event| event.kind == EventKind::Up)
    })
    .await;
    // The poller resolves the name again before the cached result expires, because the old address
    // no longer replies.
    zone.lock()
        .unwrap()
        .push(("moves.test", Record::Address(there.into())));
    old.stop();
    let is_other = |event: &Event| matches!(event.kind, EventKind::Address(_));
    let moved = until(&mut batches, |batch| batch.events.iter().any(is_other)).await;
    let words: Vec<&str> = moved
        .events
        .iter()
        .map(|event| event.kind.word())
        .filter(|word| *word != "down")
        .collect();
    assert_eq!(words.last(), Some(&"address"), "{moved:?}");
    let EventKind::Address(difference) = &moved.events.last().unwrap().kind else {
        panic!("{moved:?}")
    };
    assert_eq!(
        difference.to.as_deref(),
        Some(&*format!("127.0.0.2:{port}"))
    );
    new.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_srv_record() {
    let here = Ipv4Addr::LOCALHOST;
    let closed = std::net::UdpSocket::bind((here, 0)).unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let host = "host.test";
    let service = Record::Service { host, port };
    let dns = Dns::with(&[
        ("_minecraft._tcp.play.test", service),
        (host, Record::Address(here.into())),
    ]);
    let config = PollConfig {
        name_server: Some(dns.address()),
        ..PollConfig::default()
    };
    let live = Arc::new(StateTable::default());
    let (poll, mut results) = Poller::start(config, live.clone()).unwrap();
    // One protocol over UDP, one over TCP, and a game with both.
    let targets = ["minecraft-query", "minecraft-status", "minecraft"];
    for (id, protocol) in (1..).zip(targets) {
        let target = format!("{protocol}://play.test");
        poll.watch(server(id, target), None).unwrap();
    }
    until(&mut results, |_| {
        // The first poll may come before the lookup.
        (1..=3).all(|id| {
            let error = live
                .named(&format!("server-{id}"))
                .and_then(|row| row.error);
            error.is_some_and(|error| error.kind == "port-closed")
        })
    })
    .await;
    for id in 1..=3 {
        let error = live.named(&format!("server-{id}")).unwrap().error.unwrap();
        let record = format!("; the SRV record of play.test leads to {host}:{port}");
        assert!(error.message.contains(&record), "{}", error.message);
    }
}

/// A server that is down takes several timeouts to fail, which may be longer than its interval. The
/// monitor must not report that it misses samples.
#[tokio::test(flavor = "multi_thread")]
async fn overlapping_polls_are_not_missed_samples() {
    let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let target = format!("minecraft-query://{}", silent.local_addr().unwrap());
    let (poll, mut results) = Poller::start(PollConfig::default(), Arc::default()).unwrap();
    poll.watch(server(1, target), None).unwrap();
    let ended = until(&mut results, |batch| batch.samples.len() >= 2).await;
    let gap = ended.samples[1].at - ended.samples[0].at;
    assert!(gap > 1_000, "polls overlap: {gap} ms apart");
    assert_eq!(poll.counts().missed.load(Ordering::Relaxed), 0);
}

/// Serves each connection in a new thread, which ends with its connection.
fn serve_streams(serve: fn(TcpStream) -> std::io::Result<()>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Starts a server of some protocols on one port.
fn start(protocols: &[&str], status: &Status) -> ResponderPool {
    let protocols: Vec<_> = protocols
        .iter()
        .map(|id| registry::find(id).unwrap())
        .collect();
    let post = ListenerConfig {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        board: Board::new(&protocols, status).unwrap(),
        relay: None,
        inherited: None,
    };
    ResponderPool::start(vec![post], &PoolConfig::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_misuse_connections_are_bounded() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    // A valid beginning of a long reply, byte for byte.
    let dripping = serve_streams(|mut stream| {
        stream.write_all(&[0xFD, 0x7F, 0x00, 0xFA, 0x7F])?;
        loop {
            stream.write_all(b"x")?;
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let endless = serve_streams(|mut stream| {
        stream.write_all(&[0xFF, 0xFF, 0x7F, 0x00, 0xFA, 0xFF, 0x7F])?;
        loop {
            stream.write_all(&[b'x'; 4_096])?;
        }
    });
    let closing = serve_streams(|mut stream| stream.read(&mut [0; 64]).map(drop));
    let good = start(&["minecraft-status"], &status("1.0", 7));

    let mut config = PollConfig::default();
    let mut limits = config.sweep.limits;
    limits.timeout = Duration::from_millis(150);
    limits.deadline = Duration::from_millis(700);
    limits.max_bytes = 64 << 10;
    config.sweep.limits = limits;
    let live = Arc::new(StateTable::default());
    let (poll, mut batches) = Poller::start(config, live.clone()).unwrap();
    let bad = [
        silent.local_addr().unwrap(),
        refusing,
        dripping,
        endless,
        closing,
    ];
    // Many of each kind must not keep the others from being polled.
    for (id, address) in (1..).zip(bad.iter().cycle().take(200)) {
        let target = format!("minecraft-status://{address}");
        poll.watch(server(id, target), None).unwrap();
    }
    let target = format!("minecraft-status://{}", good.addresses()[0]);
    poll.watch(server(1_000, target), None).unwrap();
    let polled = until(&mut batches, |batch| {
        let count = |id| {
            batch
                .samples
                .iter()
                .filter(|sample| sample.server == ServerId(id))
                .count()
        };
        (1..=200).all(|id| count(id) >= 2) && count(1_000) >= 4
    })
    .await;
    let of_good = polled
        .samples
        .iter()
        .filter(|sample| sample.server == ServerId(1_000));
    assert!(
        of_good
            .clone()
            .all(|sample| sample.is_answered && sample.players == Some(7))
    );
    assert_eq!(poll.counts().missed.load(Ordering::Relaxed), 0);
    // The same limits as in a single query have the same results.
    let mut config = ClientConfig::default();
    config.limits = limits;
    let client = Client::new(config);
    for (id, expected) in (1..).zip(["silence", "port-closed", "malformed", "flood", "refused"]) {
        let row = live.named(&format!("server-{id}")).unwrap();
        assert_eq!(row.state, State::Down, "{id}");
        let queried = client.query(row.server.target.as_str()).await;
        let error = queried.unwrap_err();
        assert_eq!(error.kind(), expected, "{error}");
        assert_eq!(row.error.unwrap().kind, expected, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_always_has_more_to_send_is_down() {
    let informational = serve_streams(|mut stream| {
        loop {
            stream.write_all(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100))?;
        }
    });
    let live = Arc::new(StateTable::default());
    let (poll, mut batches) = Poller::start(PollConfig::default(), live.clone()).unwrap();
    poll.watch(server(1, format!("eco://{informational}")), None)
        .unwrap();
    until(&mut batches, |batch| batch.samples.len() >= 3).await;
    let row = live.named("server-1").unwrap();
    assert_eq!(row.state, State::Down);
    assert_eq!(row.error.unwrap().kind, "malformed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_game_is_polled_in_all_its_protocols() {
    let mut crowded = status("1.21.8", 0);
    let names: Vec<String> = (0..40).map(|number| format!("Player{number}")).collect();
    let named = |name: &String| Player::named(Text::unformatted(name.as_str()));
    crowded.players.online = Some(40);
    crowded.players.max = Some(50);
    crowded.players.set_list(names.iter().map(named).collect());
    let both = start(&["minecraft-status", "minecraft-query"], &crowded);
    let only_status = start(&["minecraft-status"], &crowded);
    let only_query = start(&["minecraft-query"], &crowded);

    let live = Arc::new(StateTable::default());
    let (poll, mut batches) = Poller::start(PollConfig::default(), live.clone()).unwrap();
    for (id, pool) in (1..).zip([&both, &only_status, &only_query]) {
        let target = format!("minecraft://{}", pool.addresses()[0]);
        poll.watch(server(id, target), None).unwrap();
    }
    let polled = until(&mut batches, |batch| batch.samples.len() >= 9).await;
    assert!(
        polled
            .samples
            .iter()
            .all(|sample| sample.is_answered && sample.players == Some(40)),
        "{:?}",
        polled.samples
    );
    let [both, only_status, only_query] = [1, 2, 3].map(|id| {
        let row = live.named(&format!("server-{id}")).unwrap();
        let status = row.last_status.unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&status.answer).unwrap();
        (status, answer)
    });
    assert_eq!(both.0.protocol, Some("minecraft-status"));
    assert!(both.0.is_whole && !both.0.is_sample);
    assert_eq!(both.0.players.len(), 40);
    assert_eq!(both.1["sources"]["players.list"], "minecraft-query");
    assert_eq!(both.0.version.as_deref(), Some("1.21.8"));
    assert!(only_status.0.is_sample && !only_status.0.is_whole);
    let note = only_status.1["notes"][0].as_str().unwrap();
    assert!(note.contains("enable-query"), "{note}");
    assert_eq!(only_query.0.protocol, Some("minecraft-query"));
    assert!(only_query.0.is_whole);
    let changes = polled
        .events
        .iter()
        .filter(|event| event.kind != EventKind::Up);
    assert_eq!(changes.count(), 0, "{:?}", polled.events);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_query_port_of_a_game_is_found() {
    catalog::add_game(Game {
        id: "poll-test",
        name: "Poll Test",
        protocols: &["ugp"],
        port: Some(7_777),
        query: QueryPort::FirstOf(&[QueryPort::Same, QueryPort::Offset(1)]),
        srv: None,
        quirks: &[],
        sources: "",
        aliases: &[],
    })
    .unwrap();
    let pool = start(&["ugp"], &status("1.0", 7));
    let port = pool.addresses()[0].port();
    let live = Arc::new(StateTable::default());
    let (poll, mut batches) = Poller::start(PollConfig::default(), live.clone()).unwrap();
    let target = format!("poll-test://127.0.0.1:{}", port - 1);
    poll.watch(server(1, target), None).unwrap();
    let polled = until(&mut batches, |batch| batch.samples.len() >= 3).await;
    assert!(polled.samples.iter().all(|sample| sample.is_answered));
    let status = live.named("server-1").unwrap().last_status.unwrap();
    assert_eq!(status.address.map(|address| address.port()), Some(port));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_server_gets_the_name_of_its_target() {
    static HANDSHAKE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let address = serve_streams(|mut stream| {
        let mut buffer = [0; 64];
        let length = stream.read(&mut buffer)?;
        HANDSHAKE.lock().unwrap().extend(&buffer[..length]);
        Ok(())
    });
    let (poll, mut batches) = Poller::start(PollConfig::default(), Arc::default()).unwrap();
    let target = format!("minecraft://localhost:{}", address.port());
    poll.watch(server(1, target), None).unwrap();
    until(&mut batches, |_| {
        let handshake = HANDSHAKE.lock().unwrap();
        handshake.windows(9).any(|part| part == b"localhost")
    })
    .await;
}
