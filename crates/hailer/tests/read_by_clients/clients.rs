//! The clients: which protocols they read, and how they are run.

use super::servers::{STATUSES, Server, Servers, fields, host, sorted};
use futures_util::StreamExt;
use hailer::Client;
use hailer_testkit::{npm, pypi, qstat};
use serde_json::{Map, Value, json};
use std::process::Command;
use std::sync::Mutex;

/// Servers, and the types of a client that read them: by its name, or else by its first protocol.
type Types = &'static [(&'static str, &'static str)];

/// Number of servers that Hailer, qstat and the crate gamedig read at the same time.
const AT_ONCE: usize = 16;

/// In place of a type: the client does not read this variant.
const NOT_READ: &str = "-";

/// Clients that return one status in several forms. An empty type is the protocol.
const CLIENTS: &[(&str, &[Types])] = &[
    (
        "gamedig",
        &[
            npm::GAMEDIG_TYPES,
            &[
                ("fivem", "protocol-fivem"),
                ("hexenworld", "protocol-hexen2"),
                ("openttd-udp", "protocol-openttd"),
                ("vcmp", "protocol-vcmp"),
            ],
        ],
    ),
    (
        "opengsq",
        &[&[
            ("a2s", ""),
            ("ase", ""),
            ("battlefield", ""),
            ("doom3", ""),
            ("fivem", "fivem"),
            ("gamespy1", ""),
            ("gamespy2", ""),
            ("gamespy3", ""),
            ("hexenworld", NOT_READ),
            ("minecraft-bedrock", ""),
            ("minecraft-query", ""),
            ("minecraft-status", ""),
            ("quake1", ""),
            ("quake2", ""),
            ("quake3", ""),
            ("samp", ""),
            ("satisfactory", ""),
            ("teamspeak3", ""),
            ("unreal2", ""),
            ("vcmp", "vcmp"),
        ]],
    ),
    ("python-a2s", &[&[("a2s", "")]]),
    (
        "mcstatus",
        &[&[
            ("minecraft-bedrock", ""),
            ("minecraft-query", ""),
            ("minecraft-status", ""),
        ]],
    ),
    ("samp-query", &[&[("samp", ""), ("vcmp", NOT_READ)]]),
    (
        "qstat",
        &[&[
            ("a2s", "a2s"),
            ("ase", "eye"),
            ("battlefield", "bfbc2"),
            ("doom3", "dm3s"),
            ("fivem", NOT_READ),
            ("gamespy1", "gps"),
            ("gamespy2", "gs2"),
            ("gamespy3", "gs4"),
            ("gamespy3-open", "gs3"),
            ("hexenworld", "hws"),
            ("minecraft-query", "gs4"),
            ("mumble", "mumble"),
            ("openttd-udp", "ottds"),
            ("quake-wars", "etqws"),
            ("quake1", "qws"),
            ("quake2", "q2s"),
            ("quake3", "q3s"),
            ("quake4", "q4s"),
            ("starmade", "starmade"),
            ("teamspeak2", "ts2,port=8767"),
            ("teamspeak3", "ts3,port=9987"),
            ("teeworlds", "tees"),
            ("teeworlds-0.7", NOT_READ),
            ("unreal2", "ut2s"),
        ]],
    ),
    (
        "rust-gamedig",
        &[&[
            ("a2s", ""),
            ("fivem", NOT_READ),
            ("gamespy1", ""),
            ("gamespy2", ""),
            ("gamespy3", ""),
            ("hexenworld", NOT_READ),
            ("minecraft-bedrock", ""),
            ("minecraft-status", ""),
            ("quake1", ""),
            ("quake2", ""),
            ("quake3", ""),
            ("unreal2", ""),
        ]],
    ),
];

/// Ports of a game that types of qstat derive that of the query from.
const QSTAT_OFFSETS: &[(&str, u16)] = &[("eye", 123), ("ut2s", 1)];

/// One server that a client read.
pub(crate) struct Reading {
    pub(crate) client: &'static str,
    pub(crate) server: &'static str,
    pub(crate) protocol: &'static str,
    pub(crate) status: &'static str,
    pub(crate) fields: Map<String, Value>,
}

/// One server to be read.
pub(crate) struct Task {
    reading: Reading,
    /// Type of the client, or else the protocol.
    pub(crate) kind: &'static str,
    pub(crate) port: u16,
}

fn kind(types: &[Types], server: &Server) -> Option<&'static str> {
    let of = |name| {
        let mut types = types.iter().copied().flatten();
        types.find(|(id, _)| *id == name).map(|(_, kind)| *kind)
    };
    let kind = of(server.name).or_else(|| of(server.protocol()));
    let kind = kind.filter(|kind| *kind != NOT_READ)?;
    Some(if kind.is_empty() {
        server.protocol()
    } else {
        kind
    })
}

/// Returns the servers that a client reads. Hailer reads all.
fn tasks(servers: &Servers, client: &'static str) -> Vec<Task> {
    let types = CLIENTS.iter().find(|(name, _)| *name == client);
    let mut tasks = Vec::new();
    for (server, ports) in servers.with_ports() {
        let kind = match types {
            Some((_, types)) => kind(types, server),
            None => Some(server.protocol()),
        };
        let Some(kind) = kind else { continue };
        for (status, port) in STATUSES.iter().zip(ports) {
            let reading = Reading {
                client,
                server: server.name,
                protocol: server.protocol(),
                status,
                fields: Map::new(),
            };
            tasks.push(Task {
                reading,
                kind,
                port,
            });
        }
    }
    tasks
}

/// Brings the fields that a client returned to the form of [`fields`].
fn normalized(mut read: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::String(raw)) = read.remove("raw") {
        let pair = |i: &usize| {
            // In lists, a name and its value are members of one object.
            let key = format!("\"rule{i}\"");
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

/// Turns an error into the field that has it.
pub(crate) fn failed(error: &impl ToString) -> Map<String, Value> {
    Map::from_iter([("error".into(), error.to_string().into())])
}

fn object(fields: Value) -> Map<String, Value> {
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Reads all servers by one command.
fn run(mut command: Command, mut tasks: Vec<Task>, argument: fn(&Task) -> Value) -> Vec<Reading> {
    let servers: Vec<Value> = tasks.iter().map(argument).collect();
    let arguments = [Value::from(servers).to_string(), host().to_string()];
    let output = command.args(arguments).output().expect("the client starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let read: Vec<Map<String, Value>> = serde_json::from_str(&printed).unwrap_or_else(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {} bytes printed. {errors}", printed.len())
    });
    assert_eq!(read.len(), tasks.len());
    for (task, fields) in tasks.iter_mut().zip(read) {
        task.reading.fields = normalized(fields);
    }
    tasks.into_iter().map(|task| task.reading).collect()
}

/// Reads each server by one call, some of them at a time.
fn run_each(tasks: Vec<Task>, read: fn(&Task) -> Map<String, Value>) -> Vec<Reading> {
    let tasks = Mutex::new(tasks);
    let readings = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let task = tasks.lock().expect("no panic").pop();
                    let Some(mut task) = task else { break };
                    task.reading.fields = normalized(read(&task));
                    readings.lock().expect("no panic").push(task.reading);
                }
            });
        }
    });
    readings.into_inner().expect("no panic")
}

fn read_hailer(tasks: Vec<Task>) -> Vec<Reading> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let client = Client::default();
    let read = async |mut task: Task| {
        let url = format!("{}://{}:{}", task.kind, host(), task.port);
        task.reading.fields = match client.query(url.as_str()).await {
            Ok(answer) => fields(&answer.status),
            Err(error) => failed(&error),
        };
        task.reading
    };
    let readings = futures_util::stream::iter(tasks.into_iter().map(read));
    runtime.block_on(readings.buffered(AT_ONCE).collect())
}

fn read_qstat(task: &Task) -> Map<String, Value> {
    let offset = QSTAT_OFFSETS.iter().find(|(kind, _)| *kind == task.kind);
    let port = task.port - offset.map_or(0, |(_, offset)| *offset);
    let command = qstat::query(task.kind, &format!("{}:{port}", host()));
    let output = command.expect("installed").output().expect("qstat starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let servers: Vec<Value> = match serde_json::from_str(&printed) {
        Ok(servers) => servers,
        Err(error) => return failed(&format!("{error}: {printed}")),
    };
    let Some(server) = servers
        .first()
        .filter(|server| server["status"] == "online")
    else {
        return failed(&format!("no status: {printed}"));
    };
    let rules = &server["rules"];
    let rule = |names: &[&str]| {
        let mut values = names.iter().map(|name| &rules[*name]);
        values.find(|value| !value.is_null()).cloned()
    };
    let players = server["players"].as_array().cloned().unwrap_or_default();
    let names: Vec<Value> = players
        .iter()
        .map(|player| player["name"].clone())
        .collect();
    object(json!({
        "name": server["name"],
        "map": server["map"],
        "online": server["numplayers"],
        "max": server["maxplayers"],
        "players": names,
        "password": rule(&[
            "password", "_password", "needpass", "g_needpass", "si_usePass", "si_needPass",
            "server_password", "virtualserver_flag_password", "GamePassword",
        ]),
        "version": rule(&[
            "gamever", "_version", "*version", "si_version", "virtualserver_version", "version",
            "ServerVersion",
        ]),
        "raw": rules.to_string(),
    }))
}

/// Reads all servers with Hailer and all clients that are installed.
pub(crate) fn read_all(servers: &Servers) -> Vec<Reading> {
    let mut readings = Vec::new();
    let tasks = |client| tasks(servers, client);
    std::thread::scope(|scope| {
        let mut threads = vec![scope.spawn(move || read_hailer(tasks("hailer")))];
        threads.push(scope.spawn(move || run_each(tasks("rust-gamedig"), super::gamedig::read)));
        if let Some(command) = npm::run_module("gamedig", include_str!("gamedig.mjs")) {
            let argument = |task: &Task| json!([task.kind, task.port]);
            threads.push(scope.spawn(move || run(command, tasks("gamedig"), argument)));
        }
        if let Some(command) = pypi::run_script(include_str!("pypi.py")) {
            let clients = ["opengsq", "python-a2s", "mcstatus", "samp-query"];
            let tasks = clients.into_iter().flat_map(tasks).collect();
            let argument = |task: &Task| json!([task.reading.client, task.kind, task.port]);
            threads.push(scope.spawn(move || run(command, tasks, argument)));
        }
        if qstat::is_installed() {
            threads.push(scope.spawn(move || run_each(tasks("qstat"), read_qstat)));
        }
        for thread in threads {
            readings.extend(thread.join().expect("the client runs"));
        }
    });
    readings
}
