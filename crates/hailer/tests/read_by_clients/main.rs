//! Third-party clients against our responders: every field that a client returns has the
//! configured value, or the difference is in a table with its reason. On loopback only.
#![cfg(unix)]

use hailer::proto::{Player, Text};
use hailer::proto::{Roster, Rule, registry};
use hailer::respond::{Board, ListenerConfig, PoolConfig, ResponderPool};
use hailer::{Client, Status};
use hailer_testkit::{npm, pypi};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::process::Command;

mod differences;
use differences::DIFFERENCES;

/// Clients, protocols, and the types of node-gamedig that speak them. Hailer is a client too: what
/// it reads differently is a limit of the protocol, for all clients that read the same.
const CLIENTS: &[(&str, &[(&str, &str)])] = &[
    (
        "gamedig",
        &[
            ("a2s", "protocol-valve"),
            ("ase", "protocol-ase"),
            ("battlefield", "protocol-battlefield"),
            ("doom3", "protocol-doom3"),
            ("gamespy1", "protocol-gamespy1"),
            ("gamespy2", "protocol-gamespy2"),
            ("gamespy3", "protocol-gamespy3"),
            ("minecraft-bedrock", "protocol-minecraftbedrock"),
            ("minecraft-query", "protocol-gamespy3"),
            ("minecraft-status", "protocol-minecraftvanilla"),
            ("mumble", "protocol-mumbleping"),
            ("quake1", "protocol-quake1"),
            ("quake2", "protocol-quake2"),
            ("quake3", "protocol-quake3"),
            ("samp", "protocol-samp"),
            ("starmade", "protocol-starmade"),
            ("teamspeak2", "protocol-teamspeak2"),
            ("teamspeak3", "protocol-teamspeak3"),
            ("unreal2", "protocol-unreal2"),
        ],
    ),
    (
        "opengsq",
        &[
            ("a2s", ""),
            ("ase", ""),
            ("battlefield", ""),
            ("doom3", ""),
            ("gamespy1", ""),
            ("gamespy2", ""),
            ("gamespy3", ""),
            ("minecraft-bedrock", ""),
            ("minecraft-query", ""),
            ("minecraft-status", ""),
            ("quake1", ""),
            ("quake2", ""),
            ("quake3", ""),
            ("samp", ""),
            ("teamspeak3", ""),
            ("unreal2", ""),
        ],
    ),
    ("python-a2s", &[("a2s", "")]),
    (
        "mcstatus",
        &[
            ("minecraft-bedrock", ""),
            ("minecraft-query", ""),
            ("minecraft-status", ""),
        ],
    ),
    ("samp-query", &[("samp", "")]),
];

const STATUSES: &[&str] = &[
    "usual", "nobody", "crowd", "rules", "empty", "long", "accents", "colors",
];

/// Returns the address of the servers: one for each process where the system has them, because
/// sockets that share ports get ports of the same user's other processes too.
fn host() -> Ipv4Addr {
    if !cfg!(target_os = "linux") {
        return Ipv4Addr::LOCALHOST;
    }
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 77, high, low.clamp(1, 254))
}

/// Returns the status with this name, as a server of the protocol has it.
fn status(kind: &str, protocol: &str) -> Status {
    let text = |text: &str| match protocol {
        "quake1" | "quake2" | "quake3" | "doom3" => Text::carets(text, Default::default()),
        "unreal2" => Text::unreal(text),
        _ => Text::legacy(text),
    };
    let mut name = text("Usual name");
    let (mut map, mut version) = ("usual_map", "1.2.3");
    let (mut players, mut rules) = (3, 2);
    let mut player = "player_";
    match kind {
        "nobody" => players = 0,
        "crowd" => players = 300,
        "rules" => rules = 200,
        "empty" => (name, map, version, players, rules) = (text(""), "", "", 0, 0),
        "long" => name = text(&"long name ".repeat(12)[..119]),
        "accents" => {
            name = text("Gr\u{FC}\u{DF}e aus K\u{F6}ln");
            map = "stra\u{DF}e";
            player = "Zo\u{EB}_";
        }
        "colors" => {
            name = match protocol {
                "quake3" | "doom3" => text("^1Red name"),
                kind if kind.starts_with("minecraft") => text("\u{A7}cRed name"),
                _ => name,
            };
        }
        _ => {}
    }
    let mut status = Status {
        motd: Some(name.clone()),
        name: Some(name),
        map: Some(map.into()),
        version: Some(version.into()),
        has_password: Some(kind == "usual"),
        rules: (0..rules)
            .map(|i| Rule {
                key: format!("rule_{i}").into(),
                value: format!("value_{i}").into(),
            })
            .collect(),
        ..Status::default()
    };
    status.players.max = Some(players.max(32));
    status.players.online = Some(players);
    let player = |i| Player::named(text(&format!("{player}{i}")));
    status.players.set_list((0..players).map(player).collect());
    status
}

fn sorted(names: impl IntoIterator<Item = String>) -> Value {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort();
    names.into()
}

/// Returns the fields of a status as clients read them.
fn fields(status: &Status) -> Map<String, Value> {
    let players = &status.players;
    let pair = |rule: &&Rule| {
        let number = rule.key.strip_prefix("rule_");
        number.is_some() && number == rule.value.strip_prefix("value_")
    };
    let names = players.list.iter().map(|player| player.name.plain());
    let list = (players.roster != Roster::Absent).then(|| sorted(names));
    let rules = status.rules.iter().filter(pair).count();
    let fields = json!({
        "name": status.name.as_ref().or(status.motd.as_ref()).map(Text::plain),
        "map": status.map,
        "online": players.online,
        "max": players.max,
        "players": list,
        "password": status.has_password,
        "version": status.version,
        "rules": (rules > 0).then_some(rules),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Brings the fields that a client printed to the form of [`fields`].
fn normalized(mut read: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::String(raw)) = read.remove("raw") {
        let pair = |i: &usize| {
            // In lists, a name and its value are members of one object.
            let key = format!("\"rule_{i}\"");
            raw.match_indices(&key).any(|(at, _)| {
                let after: String = raw[at + key.len()..].chars().take(30).collect();
                after.contains(&format!("\"value_{i}\""))
            })
        };
        read.insert("rules".into(), (0..200).filter(pair).count().into());
    }
    if let Some(Value::Array(names)) = read.get("players") {
        let names = names.iter().map(|name| name.as_str().unwrap_or("").into());
        read.insert("players".into(), sorted(names));
    }
    for field in ["online", "max"] {
        let number = read.get(field).and_then(Value::as_str).map(str::parse);
        if let Some(Ok::<i64, _>(number)) = number {
            read.insert(field.into(), number.into());
        }
    }
    let password = match read.get("password") {
        Some(Value::String(text)) => Some(text != "0" && !text.is_empty() && text != "False"),
        Some(Value::Number(number)) => Some(number.as_i64() != Some(0)),
        _ => None,
    };
    if let Some(password) = password {
        read.insert("password".into(), password.into());
    }
    read
}

/// Runs a client for all servers. Returns the fields that it read of each.
fn run(mut command: Command, servers: &[Value]) -> Vec<Map<String, Value>> {
    let argument = Value::from(servers).to_string();
    let output = command
        .args([argument, host().to_string()])
        .output()
        .expect("the client starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let read: Vec<Map<String, Value>> = serde_json::from_str(&printed).unwrap_or_else(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {} bytes printed. {errors}", printed.len())
    });
    assert_eq!(read.len(), servers.len());
    read.into_iter().map(normalized).collect()
}

/// Reads all servers with Hailer, as [`run`].
fn run_hailer(servers: &[(&str, u16)]) -> Vec<Map<String, Value>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = Client::default();
        let mut read = Vec::new();
        for (protocol, port) in servers {
            let url = format!("{protocol}://{}:{port}", host());
            read.push(match client.query(url.as_str()).await {
                Ok(answer) => fields(&answer.status),
                Err(error) => Map::from_iter([("error".into(), error.to_string().into())]),
            });
        }
        read
    })
}

/// Servers of all protocols of [`CLIENTS`] with all [`STATUSES`].
struct Servers {
    protocols: Vec<&'static str>,
    pool: ResponderPool,
}

impl Servers {
    /// Starts them. Sockets that share ports get ports from the system that others of this process
    /// have, so it starts again until all ports differ.
    fn start() -> Self {
        let protocols: BTreeSet<_> = CLIENTS.iter().flat_map(|(_, types)| *types).collect();
        let protocols: BTreeSet<_> = protocols.iter().map(|(protocol, _)| *protocol).collect();
        for _ in 0..100 {
            let listeners = protocols.iter().flat_map(|id| listeners(id)).collect();
            let pool = ResponderPool::start(listeners, &PoolConfig::default()).expect("free ports");
            let addresses = pool.addresses();
            if addresses.iter().collect::<BTreeSet<_>>().len() == addresses.len() {
                let protocols = protocols.into_iter().collect();
                return Self { protocols, pool };
            }
        }
        panic!("ports of servers are equal")
    }

    /// Returns the ports of a protocol in the order of [`STATUSES`].
    fn ports(&self, protocol: &str) -> Vec<u16> {
        let at = self.protocols.iter().position(|id| *id == protocol);
        let at = at.expect("listed") * STATUSES.len();
        let addresses = self.pool.addresses();
        let addresses = addresses.into_iter().skip(at).take(STATUSES.len());
        addresses.map(|address| address.port()).collect()
    }
}

/// Returns a listener of a protocol for each status.
fn listeners(id: &str) -> impl Iterator<Item = ListenerConfig> {
    let mut responders = registry::responders().into_iter();
    let protocol = responders.find(|protocol| protocol.info().id == id);
    let protocol = protocol.expect("a responder");
    STATUSES.iter().map(move |kind| ListenerConfig {
        address: (host(), 0).into(),
        board: Board::new(&[protocol], &status(kind, protocol.info().id)).expect("options"),
        relay: None,
        inherited: None,
    })
}

/// One reading: client, protocol, status, fields.
type Reading = (&'static str, &'static str, &'static str, Map<String, Value>);

/// Reads all servers with the clients that this command runs.
fn read(
    servers: &Servers,
    clients: &[&str],
    argument: impl Fn(&str, &str, &str, u16) -> Value,
    run: impl FnOnce(&[Value]) -> Vec<Map<String, Value>>,
) -> Vec<Reading> {
    let mut arguments = Vec::new();
    let mut readings: Vec<Reading> = Vec::new();
    for (client, types) in CLIENTS
        .iter()
        .filter(|(client, _)| clients.contains(client))
    {
        for (protocol, kind) in *types {
            for (status, port) in STATUSES.iter().zip(servers.ports(protocol)) {
                arguments.push(argument(client, protocol, kind, port));
                readings.push((client, protocol, status, Map::new()));
            }
        }
    }
    for (reading, fields) in readings.iter_mut().zip(run(&arguments)) {
        reading.3 = fields;
    }
    readings
}

/// Reads all servers with Hailer and all clients that are installed.
fn read_all(servers: &Servers) -> Vec<Reading> {
    let mut ports = Vec::new();
    let mut readings: Vec<Reading> = Vec::new();
    for protocol in &servers.protocols {
        for (status, port) in STATUSES.iter().zip(servers.ports(protocol)) {
            ports.push((*protocol, port));
            readings.push(("hailer", protocol, status, Map::new()));
        }
    }
    for (reading, fields) in readings.iter_mut().zip(run_hailer(&ports)) {
        reading.3 = fields;
    }
    std::thread::scope(|scope| {
        let gamedig = npm::run_module("gamedig", include_str!("gamedig.mjs")).map(|command| {
            scope.spawn(|| {
                let argument = |_: &str, _: &str, kind: &str, port| json!([kind, port]);
                read(servers, &["gamedig"], argument, |list| run(command, list))
            })
        });
        let pypi = pypi::run_script(include_str!("pypi.py")).map(|command| {
            scope.spawn(|| {
                let clients = ["opengsq", "python-a2s", "mcstatus", "samp-query"];
                let argument =
                    |client: &str, protocol: &str, _: &str, port| json!([client, protocol, port]);
                read(servers, &clients, argument, |list| run(command, list))
            })
        });
        for thread in [gamedig, pypi].into_iter().flatten() {
            readings.extend(thread.join().expect("the client runs"));
        }
    });
    readings
}

#[test]
fn clients_read_what_is_configured() {
    let servers = Servers::start();
    let readings = read_all(&servers);
    let hailer = |protocol: &str, status: &str, field: &str| {
        let mut own = readings.iter().filter(|reading| reading.0 == "hailer");
        let reading = own.find(|reading| reading.1 == protocol && reading.2 == status);
        reading.and_then(|reading| reading.3.get(field)).cloned()
    };
    let mut used = vec![BTreeSet::new(); DIFFERENCES.len()];
    let mut unknown = Vec::new();
    for (client, protocol, kind, read) in &readings {
        let configured = fields(&status(kind, protocol));
        for (field, value) in read {
            let expected = configured.get(field).unwrap_or(&Value::Null);
            let own = hailer(protocol, kind, field).unwrap_or_default();
            let is_limit = match *client {
                // Hailer reads an empty text as none. A field that the usual status lacks too is not in
                // the protocol.
                "hailer" if value.is_null() => {
                    let usual = hailer(protocol, "usual", field);
                    usual == Some(Value::Null) || *expected == json!("") || *expected == json!([])
                }
                "hailer" => false,
                _ => value.is_null() || *value == own || own.is_null() && is_empty(value),
            };
            if is_limit || value == expected || expected.is_null() && is_empty(value) {
                continue;
            }
            let found = [*client, *protocol, *kind, field.as_str()];
            let mut known = DIFFERENCES.iter().zip(&mut used);
            match known.find(|(difference, _)| difference.has(found)) {
                Some((_, used)) => used.extend(found),
                None => unknown.push(format!(
                    "{}: {} instead of {}",
                    found.join(" "),
                    short(value),
                    short(expected)
                )),
            }
        }
    }
    let clients: BTreeSet<_> = readings.iter().map(|reading| reading.0).collect();
    for (difference, used) in DIFFERENCES.iter().zip(&used) {
        let mut unused = difference.members();
        // Clients that are not installed.
        if difference.clients().any(|client| !clients.contains(client)) {
            continue;
        }
        unused.retain(|member| !used.contains(member));
        if !unused.is_empty() {
            let reason = difference.reason;
            unknown.push(format!(
                "{difference:?}: not found with {unused:?}; listed since {reason:?}"
            ));
        }
    }
    assert!(
        unknown.is_empty(),
        "{}\n{}",
        unknown.join("\n"),
        unknown.len()
    );
}

/// Returns whether a client that does not know a value returns this.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        other => other.as_i64() == Some(0),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text
        .chars()
        .take(if value.is_array() { 60 } else { 400 })
        .collect();
    match value {
        Value::Array(list) => format!("{} names: {short}", list.len()),
        _ => short,
    }
}
