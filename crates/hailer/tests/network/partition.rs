//! A real Redis behind a real link that fails. TCP delivers some writes late, after the link
//! returns; they must do no harm.
#![cfg(target_os = "linux")]

use crate::{ALICE, BOB, is_network, until};
use hailer::proto::minecraft_query;
use hailer::proto::{Keys, Options, Protocol};
use hailer::respond::network::{Mode, Network, NetworkConfig};
use hailer::respond::{Board, ListenerConfig, PoolConfig, ResponderPool};
use hailer::{Client, Status};
use hailer_testkit::namespace;
use hailer_testkit::redis::{Raw, is_installed};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CAROL: [u8; 16] = [0xC0; 16];
const DAVE: [u8; 16] = [0xD0; 16];
const ERIN: [u8; 16] = [0xE0; 16];
const FRANK: [u8; 16] = [0xF0; 16];

/// The shortest heartbeat interval that the configuration allows. Everything must be restored
/// within it.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long the link is interrupted. A loss is noticed after 3 s without a reply.
const CUT_FOR: Duration = Duration::from_secs(4);
/// How long the result is checked. TCP retransmits data from before the break 6.2 s later, unless a
/// shorter timeout is set.
const WATCH: Duration = Duration::from_secs(7);

/// The link that fails, and one for the test itself.
const LINK: u8 = 0;
const SAFE: u8 = 1;

/// How a link fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Break {
    /// Our interface is down: nothing is sent, and the system reports an error.
    Down,
    /// Our packets arrive. Redis's packets are dropped without an error.
    Deaf,
}

/// A Redis in its own network namespace.
struct Redis(Child);

impl Redis {
    fn start() -> Self {
        let mut command = namespace::apart("redis-server");
        command.args([
            "--bind",
            "0.0.0.0",
            "--protected-mode",
            "no",
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            "/tmp",
        ]);
        let redis = Self(command.stdout(Stdio::null()).spawn().unwrap());
        for link in [LINK, SAFE] {
            namespace::link(redis.0.id(), link).unwrap();
        }
        redis
    }

    fn set(&self, how: Break, broken: bool) {
        match how {
            Break::Down => namespace::ip(&format!(
                "link set near{LINK} {}",
                if broken { "down" } else { "up" }
            )),
            Break::Deaf => {
                let what = if broken { "add" } else { "del" };
                namespace::ip_there(
                    self.0.id(),
                    &format!("route {what} blackhole {}/32", namespace::near(LINK)),
                )
            }
        }
        .unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn url(link: u8) -> String {
    format!("redis://{}:6379", namespace::far(link))
}

fn member(link: u8, id: &str, mode: Mode) -> Network {
    let mut config = NetworkConfig::new(&url(link)).unwrap();
    config.server_id = id.into();
    config.heartbeat = HEARTBEAT;
    config.mode = mode;
    Network::start(config).unwrap()
}

/// Queries over OneQuery continuously, expecting at least two players each time. Returns the number
/// of queries.
async fn ask(network: &Network, over: Arc<AtomicBool>) -> tokio::task::JoinHandle<u32> {
    let mut updates = network.updates();
    let protocols: Vec<(&dyn Protocol, _)> = vec![(&minecraft_query::PROTOCOL, Options::default())];
    let board =
        Board::with_options(protocols, Keys::new([7; 16]), &updates.borrow_and_update()).unwrap();
    let post = ListenerConfig {
        address: ([127, 0, 0, 1], 0).into(),
        board: board.clone(),
        relay: None,
        inherited: None,
    };
    let pool = ResponderPool::start(vec![post], &PoolConfig::default()).unwrap();
    tokio::spawn(async move {
        while updates.changed().await.is_ok() {
            board.publish(&updates.borrow_and_update()).unwrap();
        }
    });
    let target = format!("minecraft-query://{}", pool.addresses()[0]);
    tokio::spawn(async move {
        let client = Client::default();
        let mut count = 0;
        while !over.load(Ordering::Relaxed) {
            let answer = client.query(target.as_str()).await.expect("an answer");
            assert!(
                answer.status.players.list.len() >= 2,
                "{:?}",
                answer.status.players
            );
            assert!(
                answer.latency < Duration::from_millis(500),
                "{:?}",
                answer.latency
            );
            count += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(pool);
        count
    })
}

async fn survive(how: Break) {
    let redis = Redis::start();
    let mut raw = Raw::connect(&url(SAFE));
    // Several servers, since the time of their next attempt to connect is random.
    let lobbies: Vec<_> = (0..6)
        .map(|i| member(LINK, &format!("lobby-{i}"), Mode::Aggregate))
        .collect();
    let clerk = member(LINK, "clerk", Mode::Publish);
    let arena = member(SAFE, "arena", Mode::Aggregate);
    let all = || lobbies.iter().chain([&clerk, &arena]);
    until("connected", || {
        all().all(|network| network.health().is_connected)
    })
    .await;
    lobbies[0].joined(ALICE, "Alice");
    lobbies[1].joined(FRANK, "Frank");
    arena.joined(BOB, "Bob");
    let see = |names: &[&str]| {
        lobbies
            .iter()
            .chain([&arena])
            .all(|network| sees(&network.status(), names))
    };
    until("all", || see(&["Alice", "Bob", "Frank"])).await;
    let over = Arc::new(AtomicBool::new(false));
    let answers = ask(&lobbies[0], over.clone()).await;

    redis.set(how, true);
    let cut_at = Instant::now();
    // This write is under way when the link fails, and outdated when the link returns.
    clerk.joined(CAROL, "Carol");
    tokio::time::sleep(Duration::from_millis(100)).await;
    clerk.left(CAROL);
    lobbies[0].joined(DAVE, "Dave");
    lobbies[1].left(FRANK);
    arena.joined(ERIN, "Erin");
    until("noticed", || {
        lobbies
            .iter()
            .chain([&clerk])
            .all(|network| !network.health().is_connected)
    })
    .await;
    let noticed = cut_at.elapsed();
    assert!(noticed < Duration::from_millis(3_500), "{noticed:?}");
    let status = lobbies[0].status();
    assert!(
        is_network(&status) && sees(&status, &["Alice", "Bob", "Dave", "Frank"]),
        "{status:?}"
    );
    tokio::time::sleep(CUT_FOR.saturating_sub(cut_at.elapsed())).await;

    redis.set(how, false);
    let back_at = Instant::now();
    let mut on = |id: &str| {
        raw.run::<Vec<String>>(&format!("HKEYS @server:{id}:players"))
            .len()
    };
    until("written", || {
        (on("lobby-0"), on("lobby-1"), on("clerk"), on("arena")) == (2, 0, 0, 2)
    })
    .await;
    let written = back_at.elapsed();
    until("seen", || see(&["Alice", "Bob", "Dave", "Erin"])).await;
    let seen = back_at.elapsed();
    println!(
        "{how:?}: noticed after {noticed:?}; after the link was back: written within {written:?}, seen within {seen:?}"
    );
    assert!(written.max(seen) < HEARTBEAT);
    while cut_at.elapsed() < WATCH {
        assert!(
            see(&["Alice", "Bob", "Dave", "Erin"]),
            "{:?}",
            arena.status().players
        );
        assert_eq!(on("clerk"), 0, "a write from before the break arrived late");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    over.store(true, Ordering::Relaxed);
    assert!(answers.await.expect("a query was not answered") > 100);
}

fn sees(status: &Status, names: &[&str]) -> bool {
    let mut seen: Vec<_> = status
        .players
        .list
        .iter()
        .map(|player| player.name.raw())
        .collect();
    seen.sort_unstable();
    seen == names
}

fn run(test: &str, how: Break) {
    if is_installed() && namespace::is_inside_for(test) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(survive(how));
    }
}

#[test]
fn queries_are_answered_while_the_link_is_down() {
    run(
        "partition::queries_are_answered_while_the_link_is_down",
        Break::Down,
    );
}

#[test]
fn queries_are_answered_while_the_link_drops_replies() {
    run(
        "partition::queries_are_answered_while_the_link_drops_replies",
        Break::Deaf,
    );
}
