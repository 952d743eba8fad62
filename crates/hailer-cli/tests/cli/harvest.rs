//! `hailer sweep` of a `hailer farm` with loss and delay: each server is written once, with its
//! real status.
//!
//! `HAILER_SWEEP_TARGETS=1000000 cargo test --release -p hailer-cli --test cli harvest` runs it
//! with 1,000,000 servers.

use crate::farm::port;
use crate::support::{ids, protocol};
use crate::tool::{Process, Serve, Temporary, command};
use hailer::respond::farm::{Farm, FarmConfig};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const SEED: u64 = 11;
const SILENT: f64 = 0.2;
/// 2 % of all round trips are lost. With five retries, fewer than one server in 10^9 stays without
/// a reply.
const WEATHER: [&str; 13] = [
    "--protocol=minecraft-query",
    "--protocol=ugp",
    "--protocol=onequery",
    "--silent=20%",
    "--loss=1%",
    "--duplicates=5%",
    "--delay=10ms",
    "--jitter=20ms",
    "--seed=11",
    "--port=minecraft-query=0",
    "--port=ugp=0",
    "--port=onequery=0",
    "127.0.0.0/8",
];
const FLAGS: [&str; 6] = [
    "-q",
    "--rate=unlimited",
    "--per-network=unlimited",
    "--retries=5",
    "--deadline=30s",
    "-o",
];

/// Returns the number of servers to probe.
fn number() -> u32 {
    std::env::var("HAILER_SWEEP_TARGETS").map_or(12_000, |number| number.parse().unwrap())
}

/// Longest time for the sweep, far more than it needs.
fn timeout() -> Duration {
    Duration::from_secs(60 + u64::from(number()) / 2_000)
}

/// Returns one range of `each` servers for each protocol.
fn ranges(serve: &Serve, each: u32) -> Vec<(String, u32)> {
    let ranges = serve
        .listening
        .iter()
        .zip(ids())
        .zip([16, 64, 112])
        .map(|((line, id), begin)| {
            let first = Ipv4Addr::new(127, begin, 0, 0);
            let last = Ipv4Addr::from(u32::from(first) + each - 1);
            (format!("{id}://{first}-{last}:{}", port(line)), each)
        });
    ranges.collect()
}

/// Runs a sweep, compares each line with the farm, and adds the servers that replied to `answered`.
/// Returns the number of probes.
fn sweep(
    ranges: &[(String, u32)],
    more: &[&str],
    farm: &Farm,
    answered: &mut HashSet<String>,
) -> u64 {
    let output = Temporary::path("harvest.ndjson");
    let summary = Temporary::path("harvest.json");
    let mut command = command(["sweep"]);
    command
        .args(ranges.iter().map(|(range, _)| range))
        .args(FLAGS)
        .arg(output.text());
    command.args(["--summary", summary.text()]).args(more);
    assert_eq!(
        Process::start(&mut command).wait_at_most(timeout()).code(),
        Some(0)
    );
    let mut lines = 0_u64;
    let mut partial = 0;
    for line in BufReader::new(File::open(&output).unwrap()).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let target = line["target"].as_str().unwrap();
        let (id, address) = target.split_once("://").unwrap();
        let address: SocketAddr = address.parse().unwrap();
        let status = farm
            .status(protocol(id), address)
            .unwrap_or_else(|| panic!("{target} is silent: {line}"));
        let mut expected = serde_json::to_value(&status).unwrap();
        // UGP marks answers whose player list timed out. It requests the list twice, so both
        // requests are lost in one of 2,500 exchanges.
        if line["status"]["extra"]["unanswered"] == "players" {
            partial += 1;
            expected["players"]["roster"] = "absent".into();
            expected["players"]["list"] = Value::Array(Vec::new());
            expected["extra"]["unanswered"] = "players".into();
        }
        assert_eq!(line["status"], expected, "{target}");
        assert!(
            answered.insert(target.to_owned()),
            "{target} was written twice"
        );
        lines += 1;
    }
    let summary: Value = serde_json::from_slice(&fs::read(&summary).unwrap()).unwrap();
    let counts = &summary["counts"];
    assert_eq!(
        (&summary["end"], &counts["answered"]),
        (&"finished".into(), &lines.into()),
        "{summary}"
    );
    assert_eq!(
        counts["probes"],
        lines + counts["timed_out"].as_u64().unwrap(),
        "{summary}"
    );
    assert!(
        [&counts["datagrams_resent"], &counts["duplicate_datagrams"]]
            .iter()
            .all(|count| count.as_u64() > Some(0)),
        "{summary}"
    );
    assert!(
        partial < 10 + lines / 1_000,
        "{partial} of {lines} answers lack the player list"
    );
    println!("{summary}, {partial} without players");
    counts["probes"].as_u64().unwrap()
}

#[test]
fn each_server_is_written_once_with_and_without_shares() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let serve = Serve::start_command("farm", 6 * timeout(), 3, WEATHER);
    let each = number() / 3;
    let ranges = &ranges(&serve, each);
    let mut config = FarmConfig::new([127, 0, 0, 0].into(), 8);
    config.seed = SEED;
    config.silent = SILENT;
    let farm = &Farm::new(config).unwrap();

    let mut whole = HashSet::new();
    assert_eq!(sweep(ranges, &[], farm, &mut whole), u64::from(3 * each));
    // Each server in the output is correct and unique. This counts the missing ones.
    for (line, id) in serve.listening.iter().zip(ids()) {
        let first = ranges
            .iter()
            .find_map(|(range, _)| range.strip_prefix(&format!("{id}://")))
            .unwrap();
        let first: Ipv4Addr = first.split('-').next().unwrap().parse().unwrap();
        for ip in (0..each).map(|i| Ipv4Addr::from(u32::from(first) + i)) {
            let address = SocketAddr::from((ip, port(line)));
            let lives = farm.status(protocol(id), address).is_some();
            assert_eq!(
                lives,
                whole.contains(&format!("{id}://{address}")),
                "{id}://{address}"
            );
        }
    }
    // Split into shares, as for four machines that run at the same time.
    let shares = std::thread::scope(|scope| {
        let share = |share: &'static str| {
            let mut answered = HashSet::new();
            let asked = sweep(ranges, &["--shard", share], farm, &mut answered);
            (asked, answered)
        };
        let shares = ["1/4", "2/4", "3/4", "4/4"].map(|name| scope.spawn(move || share(name)));
        shares.map(|share| share.join().unwrap())
    });
    let mut together = HashSet::new();
    for (asked, answered) in shares {
        assert!(asked.abs_diff(u64::from(3 * each / 4)) <= 1, "{asked}");
        for target in answered {
            assert!(whole.contains(&target), "{target}");
            assert!(together.insert(target), "a target is in two shares");
        }
    }
    assert_eq!(together.len(), whole.len());
}
