//! `hailer gamedig`.

use crate::support::closed;
use crate::tool::{Serve, Temporary, assert_harmless, command, finish, run};
use hailer_testkit::npm;
use serde_json::Value;
use std::process::Command;

/// Types, and the members of `raw` that their servers have for scripts such as those of LinuxGSM.
const TYPES: [(&str, &str, &[&str]); 7] = [
    (
        "a2s",
        "csgo",
        &["/raw/numbots", "/raw/appId", "/raw/players/0/name"],
    ),
    ("gamespy2", "protocol-gamespy2", &["/raw/numplayers"]),
    ("minecraft-bedrock", "mbe", &["/raw/bedrock/raw/mcVersion"]),
    (
        "minecraft-status",
        "minecraft",
        &["/raw/vanilla/raw/version/name"],
    ),
    ("quake3", "q3a", &["/raw/version", "/raw/sv_hostname"]),
    ("samp", "gtasam", &["/raw/rules/version"]),
    (
        "teamspeak3",
        "teamspeak3",
        &["/raw/virtualserver_clientsonline"],
    ),
];

/// Fields that do not depend on the moment.
const FIELDS: [&str; 4] = ["map", "numplayers", "maxplayers", "connect"];

fn farm() -> Serve {
    let ports = TYPES.map(|(protocol, ..)| ["--protocol", protocol, "--port"]);
    let ports = ports.into_iter().flat_map(|[option, protocol, port]| {
        [
            option.into(),
            protocol.into(),
            port.into(),
            format!("{protocol}=0"),
        ]
    });
    let network = ["127.96.4.0/29".to_owned()];
    Serve::farm(TYPES.len(), network.into_iter().chain(ports))
}

/// Returns the arguments for one server of the farm.
fn arguments(farm: &Serve, protocol: &str, kind: &str) -> Vec<String> {
    let end = format!(" for {protocol}");
    let line = farm
        .listening
        .iter()
        .find_map(|line| line.strip_suffix(&end));
    let port = line.and_then(|line| line.rsplit(':').next());
    let port = port.expect("a line for each protocol").to_owned();
    let place = match protocol {
        "teamspeak3" => "127.96.4.1:9987".into(),
        _ => format!("127.96.4.1:{port}"),
    };
    let words = [
        "--type",
        kind,
        "--givenPortOnly",
        "--teamspeakQueryPort",
        &port,
        &place,
    ];
    words.map(Into::into).into()
}

#[test]
fn prints_what_node_gamedig_prints() {
    let farm = farm();
    for (protocol, kind, members) in TYPES {
        let arguments = arguments(&farm, protocol, kind);
        let output = run(["gamedig".into()].iter().chain(&arguments)).ends_with(0);
        assert!(output.err.is_empty(), "{}", output.err);
        assert_harmless(&output.out, false);
        let own = output.json().remove(0);
        for member in members {
            assert!(
                own.pointer(member).is_some(),
                "{kind}: no {member} in {own}"
            );
        }
        let Some(modules) = npm::modules("gamedig") else {
            continue;
        };
        let mut theirs = Command::new("node");
        theirs
            .arg(modules.join("gamedig/bin/gamedig.js"))
            .args(&arguments);
        let theirs = finish(theirs, None).ends_with(0).json().remove(0);
        let names = |value: &Value| -> Vec<String> {
            let members = value.as_object().expect("an object");
            members.keys().cloned().collect()
        };
        assert_eq!(names(&own), names(&theirs), "{kind}");
        let differing: Vec<&str> = FIELDS
            .into_iter()
            // The query of TeamSpeak counts itself, and has numbers as texts; so do those of Quake.
            .filter(|field| protocol != "teamspeak3" || *field == "connect")
            .filter(|field| as_text(&own[field]) != as_text(&theirs[field]))
            .collect();
        // Only other members of SA-MP's reply have the map.
        let expected: &[&str] = if protocol == "samp" { &["map"] } else { &[] };
        assert_eq!(differing, expected, "{kind}: {own}\n{theirs}");
        let players = |value: &Value| {
            let list = value["players"].as_array().expect("a list");
            let mut names: Vec<String> =
                list.iter().map(|player| as_text(&player["name"])).collect();
            names.sort();
            names
        };
        assert_eq!(players(&own).len(), players(&theirs).len(), "{kind}");
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), Into::into)
}

#[test]
fn failures_are_json_too() {
    let closed = closed().to_string();
    let line = |arguments: &[&str]| {
        let output = run(["gamedig"].iter().chain(arguments)).ends_with(0);
        output.json().remove(0)
    };
    for (arguments, error, reason) in [
        (&[][..], "No game specified", None),
        (
            &["--type", "gopher", "h"][..],
            "Invalid game: gopher",
            Some("hailer games"),
        ),
        (
            &["--type", "protocol-gopher", "h"],
            "Protocol definition file missing: gopher",
            None,
        ),
        (
            &["--type", "csgo", "--maxRetries", "2", &closed],
            "Failed all 2 attempts",
            Some("nothing listens"),
        ),
        (
            &["--type", "csgo", "--port", "70000", "h"],
            "Failed all 1 attempts",
            Some("no port"),
        ),
        (
            &["--type", "asa", "h"],
            "Failed all 1 attempts",
            Some("Epic"),
        ),
        (&["--type", "csgo"], "Failed all 1 attempts", Some("needed")),
    ] {
        let line = line(arguments);
        assert_eq!(line["error"], error, "{line}");
        let found = line["reason"].as_str();
        let is_expected = reason.map(|reason| found.is_some_and(|found| found.contains(reason)));
        assert!(is_expected.unwrap_or(found.is_none()), "{line}");
    }
    let output = run(["gamedig", "--debug", "--type", "csgo", &closed]).ends_with(0);
    output.shows(&["Error: Failed all 1 attempts", "nothing listens"]);
    let output = run(["gamedig", "--pretty", "--type", "x"]).ends_with(0);
    assert!(
        output
            .out
            .starts_with("{\n  \"error\": \"Invalid game: x\""),
        "{}",
        output.out
    );
}

#[test]
#[cfg(unix)]
fn a_link_named_gamedig_is_the_command() {
    let folder = Temporary::path("gamedig-link");
    std::fs::create_dir(folder.text()).expect("a folder");
    let link = std::path::Path::new(folder.text()).join("gamedig");
    let program = command([""; 0]).get_program().to_owned();
    std::os::unix::fs::symlink(program, &link).expect("a link");
    let mut gamedig = Command::new(&link);
    gamedig.args(["--type", "gopher", "host"]);
    let output = finish(gamedig, None).ends_with(0);
    output.shows(&["\"error\":\"Invalid game: gopher\""]);
    let mut gamedig = Command::new(&link);
    gamedig.arg("--help");
    finish(gamedig, None)
        .ends_with(0)
        .shows(&["--givenPortOnly"]);
}
