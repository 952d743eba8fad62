//! `hailer gamedig` in the query of LinuxGSM, with a simulated server for each type of its default
//! configurations that node-gamedig knows; next to node-gamedig itself, where it is installed.

use crate::farm::port;
use crate::support::{Server, closed, protocol, status};
use crate::tool::Serve;
use hailer::Status;
use hailer::proto::Text;
use hailer::proto::model::Rule;
use hailer::respond::farm::{Farm, FarmConfig};
use hailer_testkit::npm;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Types of the default configurations (`querytype`), the protocols of their servers here, and
/// whether node-gamedig knows them only as old ids, which its command rejects.
const TYPES: &[(&str, &str, bool)] = &[
    ("protocol-valve", "a2s", false),
    ("protocol-ase", "ase", false),
    ("protocol-gamespy1", "gamespy1", false),
    ("protocol-quake1", "quake1", false),
    ("protocol-quake2", "quake2", false),
    ("protocol-quake3", "quake3", false),
    ("protocol-unreal2", "unreal2", false),
    ("minecraft", "minecraft-status", false),
    ("mbe", "minecraft-bedrock", false),
    ("gtasam", "samp", false),
    ("teamspeak3", "teamspeak3", false),
    ("ut3", "gamespy3", true),
    ("jc2mp", "gamespy3", true),
];

/// Types whose map node-gamedig does not find, although the servers send it.
const MAPS_MISSED: &[&str] = &["protocol-quake1", "gtasam"];

/// Usual port of TeamSpeak for voice.
const VOICE_PORT: u16 = 9987;
const NEEDED: &str = "HAILER_NEEDS_JQ";

/// Values that LinuxGSM has after a query, by name.
type Known = BTreeMap<String, String>;

/// Returns whether there is jq. Prints that a test is skipped without it, unless it is required.
fn has_jq() -> bool {
    let has_jq = Command::new("jq").arg("--version").output().is_ok();
    if !has_jq {
        assert!(std::env::var_os(NEEDED).is_none(), "jq is not installed");
        eprintln!("skipped: jq is not installed");
    }
    has_jq
}

/// Runs the query of LinuxGSM with a program.
fn query(gamedig: &str, kind: &str, address: SocketAddr) -> Known {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/linuxgsm.sh");
    let output = Command::new("sh")
        .arg(script)
        .args([kind, &address.ip().to_string(), &address.port().to_string()])
        .arg(VOICE_PORT.to_string())
        .env("GAMEDIG", gamedig)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let known: Known = lines
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    assert_eq!(
        known.len(),
        8,
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    known
}

/// Returns the command of this program.
fn own() -> String {
    format!("{} gamedig", env!("CARGO_BIN_EXE_hailer"))
}

/// Returns the command of node-gamedig, if it is installed.
fn theirs() -> Option<String> {
    let modules = npm::modules("gamedig")?;
    Some(format!("node {}/gamedig/bin/gamedig.js", modules.display()))
}

/// Returns the name that node-gamedig reads from a status.
fn name(status: &Status) -> String {
    let text = status.name.as_ref().or(status.motd.as_ref());
    text.map(Text::plain).unwrap_or_default()
}

/// Compares what LinuxGSM knows with the status of the server.
fn check(kind: &str, status: &Status, known: &Known) {
    let number = |name: &str| known[name].parse::<i64>().unwrap();
    let players = number("players") + number("bots");
    if kind == "teamspeak3" {
        // LinuxGSM reads the number of clients, those of queries included.
        assert!(players >= status.players.online.unwrap(), "{known:?}");
    } else {
        let listed = status.players.list.len() as i64;
        assert_eq!(players, listed, "{kind}: {known:?}");
    }
    assert_eq!(known["error"], "0", "{kind}: {known:?}");
    assert_eq!(
        Some(number("maxplayers")),
        status.players.max,
        "{kind}: {known:?}"
    );
    if let Some(map) = &status.map {
        assert_eq!(known["map"], *map, "{kind}: {known:?}");
    }
}

#[test]
fn every_query_type_has_the_right_values() {
    if !has_jq() || !cfg!(target_os = "linux") {
        return;
    }
    let mut ids: Vec<&str> = TYPES.iter().map(|(_, id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut args = vec!["127.86.0.0/24".to_owned()];
    for id in &ids {
        args.extend(["--protocol".to_owned(), (*id).to_owned()]);
        // node-gamedig asks TeamSpeak at its usual port.
        if *id != "teamspeak3" {
            args.extend(["--port".to_owned(), format!("{id}=0")]);
        }
    }
    let serve = Serve::farm(ids.len(), args);
    let farm = Farm::new(FarmConfig::new([127, 86, 0, 0].into(), 24)).unwrap();
    let theirs = theirs();
    // Each run of node-gamedig is a new process, so only a few at a time.
    std::thread::scope(|scope| {
        for types in TYPES.chunks(4) {
            let (serve, farm, theirs) = (&serve, &farm, &theirs);
            scope.spawn(move || {
                for (kind, id, is_old) in types {
                    let end = format!(" for {id}");
                    let line = serve.listening.iter().find(|line| line.ends_with(&end));
                    let address = SocketAddr::from(([127, 86, 0, 9], port(line.unwrap())));
                    let status = farm.status(protocol(id), address).unwrap();
                    let known = query(&own(), kind, address);
                    check(kind, &status, &known);
                    match theirs.as_ref().filter(|_| !is_old) {
                        Some(gamedig) => {
                            let other = answered(gamedig, kind, address);
                            compare(kind, &known, other);
                        }
                        None => assert_eq!(known["name"], name(&status), "{kind}: {known:?}"),
                    }
                }
            });
        }
    });
}

/// Returns the result of node-gamedig. On a busy machine, it may time out.
fn answered(gamedig: &str, kind: &str, address: SocketAddr) -> Known {
    let mut tries = (0..3).map(|_| query(gamedig, kind, address));
    let found = tries.find(|known| known["error"] == "0");
    found.unwrap_or_else(|| panic!("{kind}: node-gamedig has no answer"))
}

/// Compares both results.
fn compare(kind: &str, known: &Known, mut other: Known) {
    if MAPS_MISSED.contains(&kind) {
        assert_eq!(other["map"], "", "{kind}");
        other.insert("map".into(), known["map"].clone());
    }
    assert_eq!(*known, other, "{kind}");
}

#[test]
fn rules_and_failures_are_read() {
    if !has_jq() {
        return;
    }
    // The rule of ARK that LinuxGSM shows as the mode.
    let mut ark = status("House of ARK", &["Alice", "Bob"]);
    let rule = |key: &str, value: &str| Rule {
        key: key.into(),
        value: value.into(),
    };
    ark.rules = vec![rule("GameMode_s", "TestGameMode_C"), rule("x", "1")];
    let server = Server::of(&[protocol("a2s")], &ark);
    let known = query(&own(), "protocol-valve", server.address);
    for (name, value) in [
        ("error", "0"),
        ("name", "House of ARK"),
        ("players", "2"),
        ("maxplayers", "20"),
        ("map", "harbour"),
    ] {
        assert_eq!(known[name], value, "{known:?}");
    }
    if let Some(theirs) = theirs() {
        assert_eq!(known, answered(&theirs, "protocol-valve", server.address));
    }
    // LinuxGSM counts the characters of the error.
    let known = query(&own(), "protocol-valve", closed());
    let length: u32 = known["error"].parse().unwrap();
    assert!(length > 0, "{known:?}");
    assert_eq!((&*known["players"], &*known["name"]), ("0", ""));
}
