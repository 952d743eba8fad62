//! The history on real databases: SQLite in a temporary folder, and a PostgreSQL that the test
//! starts.

#![allow(missing_docs, unreachable_pub)]

mod export;
mod frozen;
mod migrate;
mod queue;
mod rollups;
mod start;
mod store;

use hailer_monitor::history::{History, NewServer};
use hailer_monitor::sample::{Millis, Sample};
use hailer_monitor::server::{Origin, Server, ServerId};
pub use hailer_testkit::folder::Folder;
use hailer_testkit::postgres;

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub fn new(name: &str) -> NewServer {
    NewServer {
        name: name.into(),
        target: format!("ugp://{name}.example.com"),
        group: "games".into(),
        labels: [("region".into(), "eu".into())].into(),
        interval: None,
        origin: Origin::Configuration,
    }
}

pub async fn add(history: &History, name: &str) -> Server {
    history.add(&new(name)).await.unwrap()
}

/// Returns a sample with an answer.
pub fn sample(server: ServerId, at: Millis, players: u32) -> Sample {
    Sample {
        latency: Some(20_000 + players / 100 * 100),
        players: Some(players),
        max: Some(100),
        is_answered: true,
        sent: 2,
        resent: 0,
        ..silence(server, at)
    }
}

/// Returns a sample without an answer.
pub fn silence(server: ServerId, at: Millis) -> Sample {
    Sample {
        observed_ms: 0,
        server,
        at,
        is_answered: false,
        players: None,
        max: None,
        latency: None,
        sent: 3,
        resent: 2,
    }
}
