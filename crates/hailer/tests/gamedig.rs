//! node-gamedig, the most used query client, against all responders that it has a protocol for. On
//! loopback only.
//!
//! Until its first socket is bound, it opens one for each query, and sends later requests from the
//! last of them. So a program that starts with several queries sends from several ports.
#![cfg(unix)]

use hailer::Status;
use hailer::proto::registry;
use hailer::respond::{Board, ListenerConfig, PoolConfig, ResponderPool};
use hailer_testkit::{npm, statuses};

/// Protocols, and a type that reads all three of them at one port.
const MINECRAFT: &[(&str, &str)] = &[
    ("minecraft-query", "minecraft"),
    ("minecraft-status", "minecraft"),
];

/// Numbers of queries at the same time.
const COUNTS: &[usize] = &[1, 5, 40];

#[test]
fn node_gamedig_gets_all_its_answers() {
    let Some(mut gamedig) = npm::run_module("gamedig", include_str!("gamedig.mjs")) else {
        return;
    };
    // TeamSpeak servers have the voice port of their status, or the usual one.
    let status = Status {
        address: None,
        ..statuses::plain(3)
    };
    let listener = |(id, _): &(&str, &str)| {
        let protocol = registry::responders()
            .into_iter()
            .find(|protocol| protocol.info().id == *id)
            .expect(id);
        ListenerConfig {
            address: ([127, 0, 0, 1], 0).into(),
            board: Board::new(&[protocol], &status).expect(id),
            relay: None,
            inherited: None,
        }
    };
    let types = || npm::GAMEDIG_TYPES.iter().chain(MINECRAFT);
    let listeners = types().map(listener).collect();
    let pool = ResponderPool::start(listeners, &PoolConfig::default()).expect("free ports");
    let runs: Vec<(&str, u16, &[usize])> = types()
        .zip(pool.addresses())
        .map(|((_, kind), address)| (*kind, address.port(), COUNTS))
        .collect();
    let argument = serde_json::to_string(&runs).expect("names and numbers");
    let output = gamedig.arg(argument).output().expect("node runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let results: Vec<Vec<Vec<String>>> = serde_json::from_str(&printed).unwrap_or_else(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {printed}{errors}")
    });
    assert_eq!(results.len(), runs.len());
    let mut failures = Vec::new();
    for ((kind, _, _), results) in runs.iter().zip(&results) {
        assert!(results.iter().map(Vec::len).eq(COUNTS.iter().copied()));
        for names in results {
            let mut failed = names.iter().filter(|name| name.starts_with("error:"));
            let count = failed.clone().count();
            if let Some(first) = failed.next() {
                failures.push(format!(
                    "{kind}: {count} of {} failed: {first}",
                    names.len()
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The ids that the installed package has, present and old ones.
#[test]
fn all_ids_of_node_gamedig_are_known() {
    const IDS: &str = "import { games, protocols } from 'gamedig'
        const olds = Object.values(games).map((game) => game.extra?.old_id).filter(Boolean)
        const names = Object.keys(protocols).map((name) => 'protocol-' + name)
        console.log(JSON.stringify([Object.keys(games), olds, names]))";
    let Some(mut gamedig) = npm::run_module("gamedig", IDS) else {
        return;
    };
    let output = gamedig.output().expect("node runs");
    let lists: [Vec<String>; 3] = serde_json::from_slice(&output.stdout).expect("three lists");
    assert!(lists[0].len() > 300 && lists[1].len() > 100, "{lists:?}");
    let unknown: Vec<&String> = lists
        .iter()
        .flatten()
        .filter(|id| !hailer::client::gamedig::is_known(id))
        .collect();
    // Internal parts of the package: helpers that read lists of servers.
    let internal =
        |id: &str| id.ends_with("master") || ["protocol-core", "protocol-epic"].contains(&id);
    let unknown: Vec<_> = unknown.into_iter().filter(|id| !internal(id)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
