//! Servers of all responders, with their options and with several statuses.

use hailer::Status;
use hailer::proto::{Keys, Options, Player, Protocol, Roster, Rule, Text, registry};
use hailer::respond::{Board, ListenerConfig, PoolConfig, ResponderPool};
use serde_json::{Map, Value, json};
use std::net::Ipv4Addr;

/// Contents of the replies of a server.
pub(crate) struct Server {
    /// The id of a protocol with its default options, or a name from [`VARIANTS`].
    pub(crate) name: &'static str,
    /// Protocols at its port. Hailer reads the first one.
    pub(crate) protocols: &'static [&'static str],
    /// Options of the first protocol.
    options: fn(Options) -> Options,
}

impl Server {
    pub(crate) fn protocol(&self) -> &'static str {
        self.protocols.first().copied().unwrap_or_default()
    }
}

const fn variant(
    name: &'static str,
    protocols: &'static [&'static str],
    options: fn(Options) -> Options,
) -> Server {
    Server {
        name,
        protocols,
        options,
    }
}

fn large(options: Options) -> Options {
    options.with("max-reply", 65_507)
}

/// Options that change replies.
const VARIANTS: &[Server] = &[
    variant("a2s-anonymous", &["a2s"], |o| {
        o.with("players", "anonymous")
    }),
    // Number of a game, without which some clients read no long lists.
    variant("a2s-game", &["a2s"], |o| {
        o.with("app-id", 440).with("info-challenge", "never")
    }),
    variant("ase-large", &["ase"], large),
    variant("bedrock-education", &["minecraft-bedrock"], |o| {
        o.with("edition", "MCEE").with("look-open", true)
    }),
    variant("doom3-large", &["doom3"], large),
    variant("fivem", &["quake3", "fivem-http"], |o| o),
    variant("gamespy1-large", &["gamespy1"], large),
    variant("gamespy2-large", &["gamespy2"], large),
    variant("gamespy3-open", &["gamespy3"], |o| {
        o.with("challenge", false)
    }),
    variant("hexenworld", &["quake1"], |o| o.with("game", "hexenworld")),
    variant("minecraft-query-small", &["minecraft-query"], |o| {
        o.with("max-reply", 1_400)
    }),
    variant("minecraft-query-utf8", &["minecraft-query"], |o| {
        o.with("encoding", "utf-8")
    }),
    variant("mumble-version", &["mumble"], |o| {
        o.with("version", "1.2.3")
    }),
    variant("quake-wars", &["doom3"], |o| o.with("game", "quake-wars")),
    variant("quake1-large", &["quake1"], large),
    variant("quake2-large", &["quake2"], large),
    variant("quake3-large", &["quake3"], large),
    variant("quake4", &["doom3"], |o| o.with("game", "quake4")),
    variant("samp-large", &["samp"], large),
    variant("teeworlds-0.6", &["teeworlds"], |o| {
        o.with("versions", "0.6")
    }),
    variant("teeworlds-0.7", &["teeworlds"], |o| {
        o.with("versions", "0.7")
    }),
    variant("teeworlds-large", &["teeworlds"], large),
    variant("ugp-full", &["ugp"], |o| large(o).with("profile", "full")),
    variant("unreal2-large", &["unreal2"], large),
    variant("vcmp", &["samp"], |o| o.with("game", "vcmp")),
];

pub(crate) const STATUSES: &[&str] = &[
    "usual", "nobody", "crowd", "rules", "empty", "long", "accents", "colors", "bare",
];

/// Returns the address of the servers: one for each process where the system has them, because
/// sockets that share ports get ports of the same user's other processes too.
pub(crate) fn host() -> Ipv4Addr {
    if !cfg!(target_os = "linux") {
        return Ipv4Addr::LOCALHOST;
    }
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 77, high, low.clamp(1, 254))
}

/// Returns the status with this name, as a server has it.
pub(crate) fn status(kind: &str, server: &Server) -> Status {
    let protocol = server.protocol();
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
        "bare" => {
            return Status {
                name: Some(name),
                ..Status::default()
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
                key: format!("rule{i}").into(),
                value: format!("value_{i}").into(),
            })
            .collect(),
        ..Status::default()
    };
    if server.name == "fivem" {
        // As its servers have it: node-gamedig counts listed players without.
        let (key, value) = ("iv".into(), "1".into());
        status.rules.push(Rule { key, value });
    }
    status.players.max = Some(players.max(32));
    status.players.online = Some(players);
    let player = |i| Player::named(text(&format!("{player}{i}")));
    status.players.set_list((0..players).map(player).collect());
    status
}

pub(crate) fn sorted(names: impl IntoIterator<Item = String>) -> Value {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort();
    names.into()
}

/// Returns the fields of a status as clients read them.
pub(crate) fn fields(status: &Status) -> Map<String, Value> {
    let players = &status.players;
    let pair = |rule: &&Rule| {
        let number = rule.key.strip_prefix("rule");
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

/// All servers with all [`STATUSES`].
pub(crate) struct Servers {
    pub(crate) servers: Vec<Server>,
    pool: ResponderPool,
}

impl Servers {
    pub(crate) fn start() -> Self {
        let ids = registry::responders().into_iter();
        let ids = ids.map(|protocol| protocol.info().id);
        let of_protocol = |id: &'static str| variant(id, vec![id].leak(), |options| options);
        let mut servers: Vec<_> = ids.map(of_protocol).collect();
        servers.extend(VARIANTS.iter().map(|server| Server { ..*server }));
        let listeners = servers.iter().flat_map(listeners).collect();
        let pool = ResponderPool::start(listeners, &PoolConfig::default()).expect("free ports");
        Self { servers, pool }
    }

    /// Returns all servers, each with its ports in the order of [`STATUSES`].
    pub(crate) fn with_ports(&self) -> Vec<(&Server, Vec<u16>)> {
        let ports: Vec<u16> = self.pool.addresses().iter().map(|at| at.port()).collect();
        let ports = ports.chunks(STATUSES.len()).map(<[u16]>::to_vec);
        self.servers.iter().zip(ports).collect()
    }
}

/// Returns a listener of a server for each status.
fn listeners(server: &Server) -> impl Iterator<Item = ListenerConfig> {
    let find = |id: &&str| registry::find(id).expect("a protocol");
    STATUSES.iter().map(move |kind| {
        let mut protocols: Vec<(&'static dyn Protocol, _)> = server
            .protocols
            .iter()
            .map(|id| (find(id), Options::default()))
            .collect();
        if let Some((_, options)) = protocols.first_mut() {
            *options = (server.options)(Options::default());
        }
        let board = Board::with_options(protocols, Keys::new([7; 16]), &status(kind, server));
        ListenerConfig {
            address: (host(), 0).into(),
            board: board.unwrap_or_else(|error| panic!("{}: {error}", server.name)),
            relay: None,
            inherited: None,
        }
    })
}
