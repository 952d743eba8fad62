//! The network mode of OneQuery against a real Redis 7: writes, reads and failures.

#![allow(missing_docs, unreachable_pub)]

mod partition;

use hailer::Status;
use hailer::proto::Value as Field;
use hailer::proto::{Player, Text};
use hailer::respond::network::{Mode, Network, NetworkConfig};
use hailer_testkit::redis::{PREFIX, Raw, Server, free_port, is_installed, now};
use hailer_testkit::servers;
use redis::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ALICE: [u8; 16] = [0xA1; 16];
const BOB: [u8; 16] = [0xB0; 16];
const A: &str = "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1";
const B: &str = "b0b0b0b0-b0b0-b0b0-b0b0-b0b0b0b0b0b0";

/// A heartbeat interval that tests can wait for.
const BEAT: Duration = Duration::from_millis(400);
/// A heartbeat interval longer than any test.
const NEVER: Duration = Duration::from_secs(200);

fn config(url: &str, id: &str, heartbeat: Duration) -> NetworkConfig {
    let mut config = NetworkConfig::new(url).unwrap();
    config.server_id = id.into();
    config.name = Some(format!("Name of {id}"));
    config.heartbeat = heartbeat;
    config.has_any_interval = true;
    config
}

fn member(server: &Server, id: &str, heartbeat: Duration) -> Network {
    Network::start(config(&server.url(), id, heartbeat)).unwrap()
}

/// Waits until a condition is true. Returns how long that took.
async fn until(what: &str, mut so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !so() {
        assert!(
            started.elapsed() < Duration::from_secs(8),
            "not within 8 seconds: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    started.elapsed()
}

async fn connected(network: &Network) {
    until("connected", || network.health().is_connected).await;
}

fn names(status: &Status) -> Vec<String> {
    assert_eq!(
        status.players.online,
        Some(status.players.list.len() as i64),
        "the count equals the length of the list"
    );
    servers::names(status)
}

fn is_network(status: &Status) -> bool {
    status.extra("network") == Some(&Field::Bool(true))
}

fn ttl(raw: &mut Raw, key: &str) -> i64 {
    raw.run(&format!("TTL {key}"))
}

/// The keys of spec/onequery.md#12.2 and spec/onequery.md#12.3, read back one by one.
#[tokio::test(flavor = "multi_thread")]
async fn writes_the_documented_keys() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let mut raw = server.raw();
    let mut config = config(&server.url(), "lobby", NEVER);
    config.mode = Mode::Publish;
    config.host = Some("play.example.com".into());
    let before = now();
    let network = Network::start(config).unwrap();
    let mut status = Status::default();
    status.players.max = Some(50);
    network.publish(&status);
    until("registered", || {
        raw.run::<Option<String>>("HGET @server:lobby maxPlayers")
            .as_deref()
            == Some("50")
    })
    .await;
    assert_eq!(raw.run::<Vec<String>>("SMEMBERS @servers"), ["lobby"]);
    assert_eq!(ttl(&mut raw, "@servers"), -1);
    let mut hash: BTreeMap<String, String> = raw.run("HGETALL @server:lobby");
    let heartbeat: u128 = hash.remove("lastHeartbeat").unwrap().parse().unwrap();
    assert!((before..=now()).contains(&heartbeat));
    let fields = [
        ("serverName", "Name of lobby"),
        ("playerCount", "0"),
        ("maxPlayers", "50"),
        ("port", "5520"),
        ("host", "play.example.com"),
    ];
    assert_eq!(
        hash,
        fields
            .map(|(field, value)| (field.to_owned(), value.to_owned()))
            .into()
    );
    assert!((80..=90).contains(&ttl(&mut raw, "@server:lobby")));
    let online =
        json!({ "type": "server_online", "serverId": "lobby", "serverName": "Name of lobby" });
    assert_eq!(raw.events(), [online]);

    // A player of another server, which runs the reference implementation, moves here.
    raw.register("arena", 1);
    raw.entry("arena", A, r#"{"username":"Alice","joinTime":1}"#);
    raw.run::<Value>(&format!("SET @player:{A} arena EX 90"));
    network.joined(ALICE, "<Al\u{EF}ce & \"co\">");
    until("joined", || {
        raw.run::<Option<String>>(&format!("GET @player:{A}"))
            .as_deref()
            == Some("lobby")
    })
    .await;
    let entry: String = raw.run(&format!("HGET @server:lobby:players {A}"));
    let joined = serde_json::from_str::<serde_json::Value>(&entry).unwrap()["joinTime"]
        .as_i64()
        .unwrap();
    assert!((before..=now()).contains(&(joined as u128)));
    assert_eq!(
        entry,
        format!(r#"{{"username":"<Alïce & \"co\">","joinTime":{joined}}}"#)
    );
    assert_eq!(raw.run::<String>("HGET @server:lobby playerCount"), "1");
    assert_eq!(raw.run::<String>("HGET @server:arena playerCount"), "0");
    assert_eq!(raw.run::<i64>("EXISTS @server:arena:players"), 0);
    assert!((80..=90).contains(&ttl(&mut raw, &format!("@player:{A}"))));
    let name = "<Al\u{EF}ce & \"co\">";
    let join = json!({ "type": "join", "uuid": A, "server": "lobby", "username": name, "serverName": "Name of lobby" });
    assert_eq!(raw.events().last(), Some(&join));

    // A player who is already on another server is not reported as having left it.
    network.joined(BOB, "Bob");
    until("joined", || {
        raw.run::<String>("HGET @server:lobby playerCount") == "2"
    })
    .await;
    raw.run::<Value>(&format!("SET @player:{B} arena EX 90"));
    let events = raw.events().len();
    network.left(BOB);
    network.left(ALICE);
    network.left(ALICE);
    until("left", || {
        raw.run::<i64>(&format!("EXISTS @player:{A}")) == 0
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(raw.run::<String>(&format!("GET @player:{B}")), "arena");
    assert_eq!(
        raw.events()[events..],
        [json!({ "type": "leave", "uuid": A, "server": "lobby" })]
    );

    network.joined(ALICE, "Alice");
    until("joined", || {
        raw.run::<i64>(&format!("EXISTS @player:{A}")) == 1
    })
    .await;
    network.stop().await;
    assert_eq!(raw.run::<Vec<String>>("SMEMBERS @servers"), ["arena"]);
    assert_eq!(
        raw.run::<i64>("EXISTS @server:lobby @server:lobby:players"),
        0
    );
    assert_eq!(
        raw.run::<i64>(&format!("EXISTS @player:{A}")),
        1,
        "left to expire"
    );
    assert_eq!(
        raw.events().last(),
        Some(&json!({ "type": "server_offline", "serverId": "lobby" }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_renew_and_repair_entries() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let mut raw = server.raw();
    let network = member(&server, "lobby", BEAT);
    connected(&network).await;
    network.joined(ALICE, "Alice");
    until("joined", || {
        raw.run::<i64>(&format!("EXISTS @player:{A}")) == 1
    })
    .await;
    for key in [
        "@server:lobby",
        "@server:lobby:players",
        &format!("@player:{A}"),
    ] {
        raw.run::<Value>(&format!("EXPIRE {key} 30"));
    }
    raw.run::<Value>("HSET @server:lobby playerCount 17");
    raw.entry("lobby", B, r#"{"username":"Ghost","joinTime":1}"#);
    let took = until("put right", || {
        raw.run::<String>("HGET @server:lobby playerCount") == "1"
    })
    .await;
    assert!(took < BEAT * 2, "{took:?}");
    for key in [
        "@server:lobby",
        "@server:lobby:players",
        &format!("@player:{A}"),
    ] {
        assert!(ttl(&mut raw, key) > 80, "{key}");
    }
    assert_eq!(raw.run::<Vec<String>>("HKEYS @server:lobby:players"), [A]);
    let online = raw
        .events()
        .iter()
        .filter(|event| event["type"] == "server_online")
        .count();
    assert_eq!(online, 1, "heartbeats must not add events");
    // A heartbeat does not take back a player who moved to another server.
    raw.register("arena", 1);
    raw.entry("arena", A, r#"{"username":"Alice","joinTime":2}"#);
    raw.run::<Value>(&format!("SET @player:{A} arena EX 90"));
    until("moved on", || {
        raw.run::<i64>("EXISTS @server:lobby:players") == 0
    })
    .await;
    assert_eq!(raw.run::<String>(&format!("GET @player:{A}")), "arena");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_see_each_other() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let lobby = member(&server, "lobby", BEAT);
    let arena = member(&server, "arena", BEAT);
    let mut status = Status {
        motd: Some(Text::unformatted("Of the lobby")),
        ..Status::default()
    };
    for (network, max) in [(&lobby, 10), (&arena, 20)] {
        connected(network).await;
        status.players.max = Some(max);
        network.publish(&status);
    }
    lobby.joined(ALICE, "Alice");
    arena.joined(BOB, "Bob");
    for network in [&lobby, &arena] {
        let mut updates = network.updates();
        let both = updates.wait_for(|status| status.players.list.len() == 2);
        let both = tokio::time::timeout(Duration::from_secs(2), both)
            .await
            .expect("both")
            .unwrap()
            .clone();
        assert_eq!(names(&both), ["Alice", "Bob"]);
        assert!(is_network(&both));
    }
    until("both counts", || lobby.status().players.max == Some(30)).await;
    assert_eq!(lobby.view().find(&BOB).unwrap().id, "arena");
    assert_eq!(lobby.view().matching("AR*").count(), 1);

    // While players move, every status lists them exactly once.
    lobby.moved(ALICE, "arena");
    arena.joined(ALICE, "Alice");
    for _ in 0..250 {
        assert_eq!(names(&lobby.status()), ["Alice", "Bob"]);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    until("moved", || {
        lobby
            .view()
            .find(&ALICE)
            .is_some_and(|place| place.id == "arena")
    })
    .await;
    until("moved", || arena.view().servers[0].players.len() == 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((lobby.view().count(), arena.view().count()), (2, 2));

    let mut all: Vec<_> = (0..500u32)
        .map(|i| {
            let uuid = Some(u128::from(i).to_be_bytes());
            Player {
                uuid,
                ..Player::named(Text::unformatted(format!("Player {i}")))
            }
        })
        .collect();
    all.push(Player::named(Text::unformatted("Nobody knows")));
    assert_eq!(lobby.set_players(&all), 1);
    until("a crowd", || arena.status().players.count() == 502).await;
    lobby.set_players(&all[..3]);
    until("gone home", || arena.status().players.count() == 5).await;
    lobby.stop().await;
    until("a stop", || names(&arena.status()) == ["Alice", "Bob"]).await;
    arena.stop().await;
}

/// The stream keeps about 1,000 events, and the next full read of all servers is 15 s away.
#[tokio::test(flavor = "multi_thread")]
async fn players_are_seen_when_the_stream_overflows() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let lobby = member(&server, "lobby", NEVER);
    let arena = member(&server, "arena", NEVER);
    connected(&lobby).await;
    lobby.joined(BOB, "Bob");
    until("Bob", || names(&arena.status()) == ["Bob"]).await;
    let player = |i: u32| Player {
        uuid: Some(u128::from(i).to_be_bytes()),
        ..Player::named(Text::unformatted(format!("Player {i}")))
    };
    lobby.set_players(&(0..4_000).map(player).collect::<Vec<_>>());
    until("a crowd", || arena.status().players.count() == 4_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_servers_of_the_reference_implementation() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let mut raw = server.raw();
    raw.register("arena", 9);
    raw.entry(
        "arena",
        A,
        r#"{"username":"\u003cAlice\u0026\u0027\u003d\u003e","joinTime":1773792000000}"#,
    );
    raw.entry(
        "arena",
        "c0c0c0c0-c0c0-c0c0-c0c0-c0c0c0c0c0c0",
        r#"{"joinTime":1773792000000}"#,
    );
    raw.entry("arena", "d0d0d0d0-d0d0-d0d0-d0d0-d0d0d0d0d0d0", "no JSON");
    raw.entry("arena", "nobody", r#"{"username":"Nobody"}"#);
    // Invalid entries must not prevent valid ones from being read.
    raw.run::<Value>("SET @server:broken text");
    raw.run::<Value>("SADD @servers broken vanished");
    raw.event("no JSON");
    let network = member(&server, "lobby", NEVER);
    let mut status = Status {
        motd: Some(Text::unformatted("Here")),
        ..Status::default()
    };
    status.players.max = Some(10);
    network.publish(&status);
    until("a list", || names(&network.status()) == ["<Alice&'=>"]).await;
    let status = network.status();
    assert!(is_network(&status));
    assert_eq!(
        (status.players.max, status.motd.as_ref().unwrap().raw()),
        (Some(50), "Here")
    );
    let health = network.health();
    assert!(health.skipped >= 4 && health.errors == 0, "{health:?}");
    assert_eq!((health.servers, health.players), (1, 1));
    let place = network.view().find(&ALICE).unwrap().clone();
    assert_eq!(
        (&*place.name, place.port, place.players[&ALICE].joined),
        ("Server arena", 5521, 1_773_792_000_000)
    );
    // A server id without a hash is removed from the shared set.
    until("removed", || {
        raw.run::<i64>("SISMEMBER @servers vanished") == 0
    })
    .await;
    assert!(
        raw.events()
            .contains(&json!({ "type": "server_offline", "serverId": "vanished" }))
    );

    raw.event("{}");
    raw.event(&format!(
        r#"{{"uuid":"{B}","server":"arena","username":"B\u0026ob","type":"join","serverName":"Server arena"}}"#
    ));
    let took = until("an event", || {
        names(&network.status()) == ["<Alice&'=>", "B&ob"]
    })
    .await;
    assert!(took < Duration::from_millis(600), "{took:?}");
    raw.event(&format!(
        r#"{{"type":"leave","server":"arena","uuid":"{A}"}}"#
    ));
    until("a leave", || names(&network.status()) == ["B&ob"]).await;
    // A new server announces itself and already has players.
    raw.register("mine", 1);
    raw.entry("mine", A, r#"{"username":"Alice","joinTime":1}"#);
    until("a new server", || network.status().players.count() == 2).await;
    raw.event(r#"{"type":"server_offline","serverId":"arena"}"#);
    until("a stop", || names(&network.status()) == ["Alice"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_answered_without_redis() {
    if !is_installed() {
        return;
    }
    let mut server = Server::start();
    let lobby = member(&server, "lobby", BEAT);
    let arena = member(&server, "arena", BEAT);
    connected(&lobby).await;
    connected(&arena).await;
    lobby.joined(ALICE, "Alice");
    arena.joined(BOB, "Bob");
    until("both", || {
        names(&lobby.status()).len() == 2 && names(&arena.status()).len() == 2
    })
    .await;
    let mut updates = arena.updates();
    updates
        .wait_for(|status| status.players.list.len() == 2)
        .await
        .unwrap();
    // From here on, every answer must list at least two players.
    let watch = tokio::spawn(async move {
        let mut fewest = usize::MAX;
        while updates.changed().await.is_ok() {
            fewest = fewest.min(updates.borrow_and_update().players.list.len());
        }
        fewest
    });

    server.kill();
    until("noticed", || {
        !lobby.health().is_connected && !arena.health().is_connected
    })
    .await;
    assert_eq!(names(&arena.status()), ["Alice", "Bob"]);
    assert!(is_network(&arena.status()));
    arena.joined([0xC0; 16], "Carol");
    assert_eq!(
        names(&arena.status()),
        ["Alice", "Bob", "Carol"],
        "the local players are always right"
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(arena.health().age.unwrap() > Duration::from_millis(400));
    assert!(arena.health().last_error.unwrap().contains("127.0.0.1"));

    server.run();
    let mut raw = server.raw();
    let whole = |raw: &mut Raw| {
        let counts = ["lobby", "arena"]
            .map(|id| raw.run::<Option<i64>>(&format!("HGET @server:{id} playerCount")));
        counts == [Some(1), Some(2)]
            && raw.run::<i64>("SCARD @servers") == 2
            && raw.run::<i64>("HLEN @server:lobby:players") == 1
            && raw.run::<i64>("HLEN @server:arena:players") == 2
            && raw.run::<i64>(&format!("EXISTS @player:{A} @player:{B}")) == 2
    };
    // The backoff between two attempts to connect may have grown to 2.25 s.
    let took = until("restored", || whole(&mut raw)).await;
    assert!(took < Duration::from_millis(2_500) + BEAT, "{took:?}");
    until("seen", || {
        names(&lobby.status()) == ["Alice", "Bob", "Carol"]
    })
    .await;

    // The database is emptied while we are connected: the next heartbeat restores our entries.
    raw.run::<Value>("FLUSHALL");
    let took = until("restored", || whole(&mut raw)).await;
    assert!(took < BEAT + Duration::from_millis(300), "{took:?}");
    tokio::time::sleep(BEAT * 2).await;
    assert_eq!(names(&lobby.status()), ["Alice", "Bob", "Carol"]);
    drop(arena);
    assert!(watch.await.unwrap() >= 2);
}

/// Lists must not shrink only because some servers register again sooner than others.
#[tokio::test(flavor = "multi_thread")]
async fn servers_have_time_to_register_again_after_data_loss() {
    if !is_installed() {
        return;
    }
    let mut server = Server::start();
    let mut config = config(&server.url(), "lobby", BEAT);
    config.stale = Duration::from_secs(3);
    let network = Network::start(config).unwrap();
    connected(&network).await;
    let mut raw = server.raw();
    raw.register("arena", 1);
    raw.entry("arena", B, r#"{"username":"Bob","joinTime":1}"#);
    until("Bob", || names(&network.status()) == ["Bob"]).await;
    server.kill();
    until("lost", || !network.health().is_connected).await;
    server.run();
    connected(&network).await;
    tokio::time::sleep(BEAT * 2).await;
    assert_eq!(names(&network.status()), ["Bob"]);
    until("missed", || names(&network.status()).is_empty()).await;
}

/// A reload while Redis is unavailable keeps the network view and the local players.
#[tokio::test(flavor = "multi_thread")]
async fn reload_keeps_the_view_while_redis_is_unavailable() {
    if !is_installed() {
        return;
    }
    let mut server = Server::start();
    let a = member(&server, "a", BEAT);
    let b = member(&server, "b", BEAT);
    a.set_status(&with_players(&[("Alice", Some(ALICE))]));
    b.set_status(&with_players(&[("Bob", Some(BOB))]));
    until("a sees b", || names(&a.status()).len() == 2).await;
    server.kill();
    let mut renamed = config(&server.url(), "a", BEAT);
    renamed.name = Some("Another name".into());
    let a = {
        let successor = Network::start_after(renamed, Some(&a)).unwrap();
        drop(a);
        successor
    };
    // The local players are listed immediately, and the network view was never lost.
    a.set_status(&with_players(&[("Alice", Some(ALICE)), ("Zoe", None)]));
    let status = a.status();
    assert_eq!(names(&status), ["Alice", "Bob", "Zoe"]);
    assert!(is_network(&status));
    // A different network starts without a view.
    let mut another = config(&server.url(), "a", BEAT);
    another.network_id = "another".into();
    let other = Network::start_after(another, Some(&a)).unwrap();
    assert_eq!(names(&other.status()), [""; 0]);
    assert_eq!(names(&a.status()).len(), 3);
}

fn with_players(players: &[(&str, Option<[u8; 16]>)]) -> Status {
    let mut status = Status::default();
    status.players.max = Some(20);
    let player = |(name, uuid): &(&str, Option<[u8; 16]>)| Player {
        uuid: *uuid,
        ..Player::named(Text::unformatted(*name))
    };
    status
        .players
        .set_list(players.iter().map(player).collect());
    status.players.online = Some(players.len() as i64);
    status
}

/// Players without a UUID are listed locally and not shared; of two players with the same UUID, the
/// first is shared.
#[tokio::test(flavor = "multi_thread")]
async fn local_players_are_listed_and_shared_once_by_uuid() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let mut raw = server.raw();
    let network = member(&server, "a", NEVER);
    connected(&network).await;
    let mut status = with_players(&[("Alice", Some(ALICE)), ("Nobody", None), ("Bob", Some(BOB))]);
    assert_eq!(network.set_status(&status), 1);
    until("shared", || {
        raw.run::<Vec<String>>("HKEYS @server:a:players").len() == 2
    })
    .await;
    assert_eq!(names(&network.status()), ["Alice", "Bob", "Nobody"]);
    let events = raw.events().len();
    // The same players again, with a duplicate of Alice: nothing is written.
    status.players.list.push(status.players.list[0].clone());
    for _ in 0..3 {
        assert_eq!(network.set_status(&status), 1);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(raw.events().len(), events);
    let status = network.status();
    assert_eq!(
        (status.players.list.len(), status.players.online),
        (3, Some(3))
    );
    // Players without names are included in the count.
    let mut counted = with_players(&[("Alice", Some(ALICE))]);
    counted.players.online = Some(30);
    network.set_status(&counted);
    let status = network.status();
    assert_eq!(
        (status.players.list.len(), status.players.online),
        (1, Some(30))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_to_a_redis_that_starts_later() {
    if !is_installed() {
        return;
    }
    let mut server = Server::absent(&[]);
    let started = Instant::now();
    let mut config = config(&server.url(), "lobby", NEVER);
    config.keep_view = Duration::from_millis(300);
    let network = Network::start(config).unwrap();
    network.joined(ALICE, "Alice");
    assert!(started.elapsed() < Duration::from_millis(100));
    assert_eq!(names(&network.status()), ["Alice"]);
    until("errors", || network.health().errors > 1).await;
    assert!(!is_network(&network.status()) && network.health().age.is_none());
    server.run();
    connected(&network).await;
    let mut raw = server.raw();
    assert_eq!(raw.run::<Vec<String>>("HKEYS @server:lobby:players"), [A]);
    raw.register("arena", 1);
    raw.entry("arena", B, r#"{"username":"Bob","joinTime":1}"#);
    until("both", || names(&network.status()).len() == 2).await;
    // After an outage longer than the lifetime of a view, the status lists local players only and
    // is marked as local.
    server.kill();
    let mut updates = network.updates();
    let local = updates.wait_for(|status| names(status) == ["Alice"] && !is_network(status));
    tokio::time::timeout(Duration::from_secs(4), local)
        .await
        .expect("local")
        .unwrap();
}

/// No server can send heartbeats during an outage, so none is reported missing afterwards, not even
/// by the first server that reconnects.
#[tokio::test(flavor = "multi_thread")]
async fn long_outage_removes_no_server() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let mut raw = server.raw();
    let mut config = config(&server.url(), "lobby", BEAT);
    config.stale = Duration::from_secs(2);
    config.refresh = Duration::from_millis(300);
    let network = Network::start(config).unwrap();
    raw.register("arena", 1);
    raw.entry("arena", B, r#"{"username":"Bob","joinTime":1}"#);
    until("Bob", || names(&network.status()) == ["Bob"]).await;
    server.freeze(true);
    until("noticed", || !network.health().is_connected).await;
    server.freeze(false);
    connected(&network).await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(1_500) {
        assert_eq!(names(&network.status()), ["Bob"]);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    until("missed", || names(&network.status()).is_empty()).await;
}

/// Expired views are not restored, even briefly, when Redis returns.
#[tokio::test(flavor = "multi_thread")]
async fn expired_view_is_not_restored() {
    if !is_installed() {
        return;
    }
    let mut server = Server::start();
    let mut config = config(&server.url(), "lobby", BEAT);
    config.keep_view = Duration::from_millis(300);
    let network = Network::start(config).unwrap();
    let mut raw = server.raw();
    raw.register("arena", 1);
    raw.entry("arena", B, r#"{"username":"Bob","joinTime":1}"#);
    until("Bob", || names(&network.status()) == ["Bob"]).await;
    server.kill();
    until("local", || !is_network(&network.status())).await;
    server.run();
    let started = Instant::now();
    while !is_network(&network.status()) {
        assert!(started.elapsed() < Duration::from_secs(8));
    }
    assert!(network.view().matching("arena").next().is_none());
    assert_eq!(names(&network.status()), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permission_is_not_retried_repeatedly() {
    if !is_installed() {
        return;
    }
    let mut server = Server::absent(&[
        "--user",
        "hailer",
        "on",
        ">s3cret",
        "~onequery:*",
        "+@all",
        "-xread",
    ]);
    server.run();
    let url = format!("redis://hailer:s3cret@127.0.0.1:{}", server.port());
    let network = Network::start(config(&url, "lobby", BEAT)).unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let health = network.health();
    assert!(
        (1..=7).contains(&health.errors) && health.last_error.unwrap().contains("xread"),
        "{}",
        health.errors
    );
}

/// A connection counts as lost after 3 s without a reply.
#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_redis_blocks_nothing() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let network = member(&server, "lobby", BEAT);
    connected(&network).await;
    server.freeze(true);
    network.joined(ALICE, "Alice");
    let mut updates = network.updates();
    let text = updates.wait_for(|status| names(status) == ["Alice"]);
    tokio::time::timeout(Duration::from_millis(500), text)
        .await
        .expect("the update did not arrive in time")
        .unwrap();
    until("noticed", || !network.health().is_connected).await;
    server.freeze(false);
    connected(&network).await;
    let mut raw = server.raw();
    until("written", || {
        raw.run::<Vec<String>>("HKEYS @server:lobby:players") == [A]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_heartbeats_are_removed() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let mut raw = server.raw();
    let mut config = config(&server.url(), "lobby", BEAT);
    config.stale = Duration::from_millis(1_200);
    let lobby = Network::start(config).unwrap();
    let arena = member(&server, "arena", BEAT);
    arena.joined(BOB, "Bob");
    raw.register("old", 1);
    raw.entry("old", A, r#"{"username":"Alice","joinTime":1}"#);
    until("all", || names(&lobby.status()) == ["Alice", "Bob"]).await;
    // One server stops its heartbeats. The other continues and must not be removed.
    let took = until("missed", || names(&lobby.status()) == ["Bob"]).await;
    assert!(took < Duration::from_millis(1_600), "{took:?}");
    raw.register("old", 1);
    until("back", || names(&lobby.status()) == ["Alice", "Bob"]).await;
    drop(arena);
    until("missed", || {
        !names(&lobby.status()).contains(&"Bob".to_owned())
    })
    .await;
}

/// In this case, the reference implementation has wrong counts permanently (spec/onequery.md#12.4).
#[tokio::test(flavor = "multi_thread")]
async fn restarted_server_has_correct_counts() {
    if !is_installed() {
        return;
    }
    let server = Server::start();
    let mut raw = server.raw();
    let lobby = member(&server, "lobby", BEAT);
    let arena = member(&server, "arena", BEAT);
    for (uuid, name) in [(ALICE, "Alice"), (BOB, "Bob"), ([0xC0; 16], "Carol")] {
        arena.joined(uuid, name);
    }
    until("all", || names(&lobby.status()).len() == 3).await;
    // Killed without unregistering.
    drop(arena);
    let arena = member(&server, "arena", BEAT);
    arena.joined(ALICE, "Alice");
    arena.joined(BOB, "Bob");
    until("no ghosts", || names(&lobby.status()) == ["Alice", "Bob"]).await;
    tokio::time::sleep(BEAT * 2).await;
    assert_eq!(names(&lobby.status()), ["Alice", "Bob"]);
    assert_eq!(raw.run::<String>("HGET @server:arena playerCount"), "2");
    assert_eq!(raw.run::<i64>("HLEN @server:arena:players"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_passwords_and_databases() {
    if !is_installed() {
        return;
    }
    let user = [
        "--user",
        "hailer",
        "on",
        ">s3c@r:e/t",
        "~onequery:*",
        "+@all",
        "--requirepass",
        "0ther",
    ];
    let mut server = Server::absent(&user);
    server.run();
    let port = server.port();
    let mut raw = Raw::connect(&format!("redis://:0ther@127.0.0.1:{port}/3"));
    let url = format!("redis://hailer:s3c%40r%3Ae%2Ft@127.0.0.1:{port}/3");
    let network = Network::start(config(&url, "lobby", NEVER)).unwrap();
    connected(&network).await;
    assert_eq!(raw.run::<Vec<String>>("SMEMBERS @servers"), ["lobby"]);
    let mut config = config(&format!("redis://127.0.0.1:{port}/3"), "lobby-2", NEVER);
    config.redis.log_in(Some("hailer"), "s3c@r:e/t");
    connected(&Network::start(config.clone()).unwrap()).await;

    config.redis.log_in(Some("hailer"), "wr0ng");
    let refused = Network::start(config).unwrap();
    until("refused", || refused.health().last_error.is_some()).await;
    let shown = format!(
        "{refused:?} {:?} {network:?} {:?}",
        refused.health(),
        network.health()
    );
    assert!(shown.contains("authentication failed"), "{shown}");
    for secret in ["wr0ng", "s3c", "0ther"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// A cluster of one node. Transactions and scripts must keep to one slot there too.
#[tokio::test(flavor = "multi_thread")]
async fn works_with_a_redis_cluster() {
    if !is_installed() {
        return;
    }
    let bus = free_port().to_string();
    let mut server = Server::absent(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus,
        "--cluster-announce-ip",
        "127.0.0.1",
    ]);
    server.run();
    let mut raw = server.raw();
    raw.run::<Value>("CLUSTER ADDSLOTSRANGE 0 16383");
    until("a cluster", || {
        raw.run::<String>("CLUSTER INFO")
            .contains("cluster_state:ok")
    })
    .await;
    let join = |id: &str| {
        let mut config = config(&server.url(), id, BEAT);
        config.redis.is_cluster = true;
        Network::start(config).unwrap()
    };
    let lobby = join("lobby");
    let arena = join("arena");
    lobby.joined(ALICE, "Alice");
    arena.joined(BOB, "Bob");
    let both = |network: &Network| names(&network.status()) == ["Alice", "Bob"];
    until("both", || both(&lobby) && both(&arena)).await;
    assert_eq!(
        raw.run::<Vec<String>>(&format!("HKEYS {PREFIX}server:lobby:players")),
        [A]
    );
    assert_eq!(lobby.health().errors, 0, "{:?}", lobby.health());
}

/// The connection requires the certificate of the authority that signed the server's. The test
/// creates both with `openssl`.
#[tokio::test(flavor = "multi_thread")]
async fn tls_verifies_the_server() {
    if !is_installed() {
        return;
    }
    let port = free_port().to_string();
    let folder = std::env::temp_dir();
    let [key, cert] =
        ["key", "pem"].map(|kind| folder.join(format!("hailer-redis-tls-{port}.{kind}")));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args([
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .args([
            "-keyout".as_ref(),
            key.as_os_str(),
            "-out".as_ref(),
            cert.as_os_str(),
        ])
        .stderr(Stdio::null())
        .status();
    let Ok(true) = made.map(|status| status.success()) else {
        eprintln!("skipped: openssl is not installed");
        return;
    };
    let [key_file, cert_file] = [&key, &cert].map(|path| path.to_str().unwrap());
    let options = [
        "--tls-port",
        &port,
        "--tls-auth-clients",
        "no",
        "--tls-ca-cert-file",
        cert_file,
    ];
    let files = ["--tls-cert-file", cert_file, "--tls-key-file", key_file];
    let mut server = Server::absent(&[&options[..], &files[..]].concat());
    server.run();
    let mut config = config(&format!("rediss://127.0.0.1:{port}"), "lobby", BEAT);
    let stranger = Network::start(config.clone()).unwrap();
    config.redis.authorities = Some(std::fs::read(&cert).unwrap());
    let network = Network::start(config).unwrap();
    connected(&network).await;
    assert_eq!(
        server.raw().run::<Vec<String>>("SMEMBERS @servers"),
        ["lobby"]
    );
    until("refused", || {
        stranger
            .health()
            .last_error
            .is_some_and(|error| error.contains("ertificate"))
    })
    .await;
    assert!(!stranger.health().is_connected);
    for file in [key, cert] {
        std::fs::remove_file(file).unwrap();
    }
}
