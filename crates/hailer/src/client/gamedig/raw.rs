//! The member `raw` of results: for each protocol, the names that node-gamedig gives to what the
//! server sent.
//!
//! Fields that the table does not name follow with Hailer's names.

use super::GamedigOptions;
use super::state::shown;
use hailer_proto::Status;
use hailer_proto::model::{Player, Rule, Value};

/// Named values.
type Table = Vec<(String, Value)>;

/// Where a member of `raw` comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Name,
    Motd,
    Map,
    Mode,
    Game,
    Version,
    Online,
    Max,
    Bots,
    Host,
    Port,
    /// 0 or 1.
    Password,
    /// 0 or 1.
    AntiCheat,
    /// True or false.
    HasAntiCheat,
    /// An extra field.
    Extra(&'static str),
    /// The first letter of an extra field.
    Letter(&'static str),
    /// The words of an extra field, which are divided by commas.
    Words(&'static str),
    /// An extra field as text.
    Text(&'static str),
    /// Whether an extra field is a number other than 0.
    Flag(&'static str),
}

/// Where the rules are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// Members of `raw`.
    Members,
    /// Members of `raw.rules`, which is there if rules were requested.
    Table,
}

/// Which values are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// All that Hailer knows as numbers.
    Known,
    /// None: all values are texts.
    None,
    /// All texts that look like numbers. `true` and `false` are flags.
    Any,
}

/// How a protocol marks bots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bots {
    /// It does not.
    None,
    /// They have no latency.
    WithoutPing,
    /// By their number. Bots have been there for the longest time.
    Longest,
}

/// The shape of `raw` in one protocol.
pub(super) struct Shape {
    protocol: &'static str,
    fields: &'static [(&'static str, Source)],
    rules: Rules,
    numbers: Numbers,
    /// Names of members of players that differ: ours, theirs. An empty name leaves one out.
    player: &'static [(&'static str, &'static str)],
    player_numbers: Numbers,
    /// Seconds of one unit of the time of players.
    time_unit_s: f64,
    pub(super) bots: Bots,
    /// Adds members that no column describes.
    more: Option<fn(&Status, &mut Table, &GamedigOptions)>,
}

const PLAIN: Shape = Shape {
    protocol: "",
    fields: &[],
    rules: Rules::Members,
    numbers: Numbers::Known,
    player: &[],
    player_numbers: Numbers::Known,
    time_unit_s: 1.0,
    bots: Bots::None,
    more: None,
};

use self::Source::{
    AntiCheat, Extra, Flag, Game, HasAntiCheat, Host, Letter, Map, Max, Mode, Motd, Name, Online,
    Password, Port, Text, Version, Words,
};

/// Keys of GameSpy's servers.
const GAMESPY: &[(&str, Source)] = &[
    ("hostname", Name),
    ("gamename", Game),
    ("gamever", Version),
    ("mapname", Map),
    ("gametype", Mode),
    ("numplayers", Online),
    ("maxplayers", Max),
    ("hostip", Host),
    ("hostport", Port),
    ("password", Password),
];

/// Rows, by protocol.
#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    Shape {
        protocol: "a2s",
        fields: &[
            ("protocol", Extra("protocol")), ("folder", Extra("folder")), ("game", Game),
            ("appId", Extra("app-id")), ("numbots", Source::Bots),
            ("listentype", Letter("server-type")), ("environment", Letter("system")),
            ("secure", AntiCheat), ("shipmode", Extra("mode-number")),
            ("shipwitnesses", Extra("witnesses")), ("shipduration", Extra("duration")),
            ("steamid", Extra("steam-id")), ("sourcetvport", Extra("tv-port")),
            ("sourcetvname", Extra("tv-name")), ("tags", Words("keywords")),
        ],
        rules: Rules::Table, bots: Bots::Longest, more: Some(a2s), ..PLAIN
    },
    Shape {
        protocol: "armagetron",
        fields: &[
            ("hostname", Host), ("versionmin", Extra("min-version")),
            ("versionmax", Extra("max-version")), ("options", Extra("options")),
            ("uri", Extra("website")),
        ],
        ..PLAIN
    },
    Shape {
        protocol: "ase",
        fields: &[("gamename", Game), ("gametype", Mode)],
        numbers: Numbers::None, ..PLAIN
    },
    Shape {
        protocol: "battlefield",
        fields: &[
            ("gametype", Mode), ("roundsplayed", Extra("rounds-played")),
            ("roundstotal", Extra("rounds")), ("targetscore", Extra("target-score")),
            ("status", Extra("online-state")), ("ranked", Extra("ranked")),
            ("punkbuster", HasAntiCheat), ("uptime", Extra("uptime")),
            ("roundtime", Extra("round-time")), ("punkbusterversion", Extra("punkbuster-version")),
            ("joinqueue", Extra("join-queue")), ("region", Extra("region")),
            ("pingsite", Extra("ping-site")), ("country", Extra("country")),
            ("quickmatch", Extra("matchmaking")),
        ],
        more: Some(battlefield), ..PLAIN
    },
    Shape {
        protocol: "cs2d",
        fields: &[
            ("registeredOnly", Extra("registered-only")), ("fogOfWar", Extra("fog-of-war")),
            ("friendlyFire", Extra("friendly-fire")), ("luaScripts", Extra("lua")),
            ("forceLight", Extra("forced-light")), ("gamemode", Extra("mode-number")),
            ("numbots", Source::Bots), ("recoil", Extra("recoil")),
            ("offScreenDamage", Extra("damage-off-screen")), ("hasDownloads", Extra("downloads")),
        ],
        ..PLAIN
    },
    Shape {
        protocol: "doom3",
        fields: &[
            ("protocolVersion", Extra("protocol-version")), ("gamename", Game),
            ("si_version", Version), ("si_name", Name), ("si_map", Map), ("si_gameType", Mode),
            ("si_maxPlayers", Max), ("si_usePass", Password), ("ranked", Extra("ranked")),
            ("timeleft", Extra("time-left-ms")), ("gamestate", Extra("state")),
        ],
        numbers: Numbers::None, player: &[("clan", "clantag"), ("bot", "")],
        bots: Bots::WithoutPing, ..PLAIN
    },
    Shape { protocol: "eco", fields: &[("Description", Name), ("Version", Version)], ..PLAIN },
    Shape {
        protocol: "ffow",
        fields: &[
            ("protocol", Extra("protocol-version")), ("mod", Extra("mod")), ("gamemode", Mode),
            ("description", Motd), ("listentype", Extra("server-type")),
            ("environment", Extra("system")), ("secure", AntiCheat), ("averagefps", Extra("fps")),
            ("round", Extra("round")), ("maxrounds", Extra("rounds")),
            ("timeleft", Extra("time-left-s")),
        ],
        rules: Rules::Table, bots: Bots::Longest, more: Some(a2s), ..PLAIN
    },
    Shape {
        protocol: "gamespy1",
        fields: GAMESPY, numbers: Numbers::Any, player_numbers: Numbers::Any, more: Some(gamespy1),
        ..PLAIN
    },
    Shape { protocol: "gamespy2", fields: GAMESPY, numbers: Numbers::None, ..PLAIN },
    Shape {
        protocol: "gamespy3",
        fields: GAMESPY, numbers: Numbers::None, more: Some(gamespy3), ..PLAIN
    },
    Shape { protocol: "mafia2mp", fields: &[("gamemode", Mode)], ..PLAIN },
    Shape {
        protocol: "minecraft-bedrock",
        fields: &[
            ("edition", Extra("edition")), ("protocolVersion", Text("protocol")),
            ("mcVersion", Version), ("serverId", Text("guid")), ("gameMode", Mode),
            ("nintendoOnly", Flag("number")), ("ipv4Port", Text("port")),
            ("ipv6Port", Text("ipv6-port")),
        ],
        ..PLAIN
    },
    Shape {
        protocol: "minecraft-query",
        fields: &[
            ("hostname", Motd), ("gametype", Mode), ("game_id", Game), ("version", Version),
            ("map", Map), ("numplayers", Online), ("maxplayers", Max), ("hostport", Port),
            ("hostip", Host),
        ],
        numbers: Numbers::None, more: Some(gamespy3), ..PLAIN
    },
    Shape { protocol: "minecraft-status", more: Some(minecraft_status), ..PLAIN },
    Shape {
        protocol: "mumble",
        fields: &[("allowedbandwidth", Extra("bandwidth"))],
        more: Some(mumble), ..PLAIN
    },
    Shape {
        protocol: "openttd",
        fields: &[
            ("ticks_playing", Extra("ticks")), ("grfs", Extra("extensions")),
            ("date_current", Extra("date")), ("date_start", Extra("start-date")),
            ("maxcompanies", Extra("max-companies")), ("numcompanies", Extra("companies")),
            ("numspectators", Extra("spectators")), ("map_width", Extra("width")),
            ("map_height", Extra("height")), ("landscape", Extra("landscape")),
            ("dedicated", Extra("dedicated")),
        ],
        ..PLAIN
    },
    Shape {
        protocol: "quake1",
        fields: &[
            ("hostname", Name), ("map", Map), ("mode", Mode), ("*gamedir", Game),
            ("*version", Version), ("maxclients", Max), ("needpass", Password),
        ],
        numbers: Numbers::None,
        player: &[("top-color", "color1"), ("bottom-color", "color2"), ("name-bytes", "")],
        time_unit_s: 60.0, bots: Bots::WithoutPing, ..PLAIN
    },
    Shape {
        protocol: "quake2",
        fields: &[
            ("hostname", Name), ("mapname", Map), ("gamename", Game), ("version", Version),
            ("maxclients", Max), ("needpass", Password), ("protocol", Extra("protocol")),
        ],
        numbers: Numbers::None, player: &[("score", "frags")], bots: Bots::WithoutPing, ..PLAIN
    },
    Shape {
        protocol: "quake3",
        fields: &[
            ("sv_hostname", Name), ("mapname", Map), ("gamename", Game), ("g_gametype", Mode),
            ("version", Version), ("sv_maxclients", Max), ("bots", Source::Bots),
            ("g_needpass", Password), ("protocol", Extra("protocol")),
        ],
        numbers: Numbers::None, player: &[("score", "frags")], bots: Bots::WithoutPing, ..PLAIN
    },
    Shape {
        protocol: "samp",
        fields: &[("gamemode", Mode), ("map", Extra("language"))],
        rules: Rules::Table, numbers: Numbers::None, ..PLAIN
    },
    Shape { protocol: "satisfactory", more: Some(satisfactory), ..PLAIN },
    Shape {
        protocol: "savage2",
        fields: &[
            ("time", Extra("time")), ("nextmap", Extra("next-map")),
            ("location", Extra("location")), ("minplayers", Extra("min-players")),
            ("gametype", Mode), ("minlevel", Extra("min-level")),
        ],
        ..PLAIN
    },
    Shape {
        protocol: "starmade",
        fields: &[
            ("infoVersion", Extra("info-version")), ("description", Motd),
            ("startTime", Extra("start")),
        ],
        more: Some(|_, raw, _| add_default(raw, "infoVersion", 2.into())), ..PLAIN
    },
    Shape {
        protocol: "teamspeak2",
        fields: &[
            ("server_name", Name), ("server_platform", Extra("platform")),
            ("server_welcomemessage", Motd), ("server_password", Password),
            ("server_maxusers", Max), ("server_currentusers", Online),
            ("server_currentchannels", Extra("channels")), ("server_uptime", Extra("uptime")),
            ("server_udpport", Port),
        ],
        numbers: Numbers::None,
        player: &[("id", "p_id"), ("channel", "c_id"), ("time", "logintime"), ("idle-time", "idletime")],
        player_numbers: Numbers::None, ..PLAIN
    },
    Shape {
        protocol: "teamspeak3",
        fields: &[
            ("virtualserver_name", Name), ("virtualserver_welcomemessage", Motd),
            ("virtualserver_platform", Extra("platform")), ("virtualserver_version", Version),
            ("virtualserver_maxclients", Max), ("virtualserver_flag_password", Password),
            ("virtualserver_queryclientsonline", Extra("query-clients")),
            ("virtualserver_channelsonline", Extra("channels")),
            ("virtualserver_uptime", Extra("uptime")), ("virtualserver_port", Port),
            ("virtualserver_status", Extra("state")),
            ("virtualserver_reserved_slots", Extra("reserved-slots")),
            ("virtualserver_total_ping", Extra("average-ping")),
        ],
        numbers: Numbers::None, player: &[("id", "clid"), ("channel", "cid")],
        player_numbers: Numbers::None, more: Some(teamspeak3), ..PLAIN
    },
    Shape {
        protocol: "tribes1",
        fields: &[
            ("gametype", Game), ("dedicated", Extra("dedicated")), ("cpuSpeed", Extra("cpu-mhz")),
            ("mod", Extra("mods")), ("type", Mode), ("motd", Motd), ("teams", Extra("teams")),
        ],
        ..PLAIN
    },
    Shape {
        protocol: "tshock",
        fields: &[
            ("name", Name), ("port", Port), ("playercount", Online), ("maxplayers", Max),
            ("world", Map), ("serverversion", Version), ("uptime", Extra("uptime")),
        ],
        rules: Rules::Table, ..PLAIN
    },
    Shape {
        protocol: "unreal2",
        fields: &[
            ("serverid", Extra("server-id")), ("ip", Host), ("gametype", Mode),
            ("mutators", Extra("mutators")), ("wavecurrent", Extra("wave")),
            ("wavetotal", Extra("last-wave")), ("flags", Extra("flags")), ("skill", Extra("skill")),
            ("scoreboard", Extra("scoreboard")),
        ],
        rules: Rules::Table, numbers: Numbers::None, player: &[("statistics-id", "statsId")],
        more: Some(unreal2), bots: Bots::WithoutPing, ..PLAIN
    },
];

/// Returns the shape of a protocol. Those without a row have the usual one.
pub(super) fn shape(protocol: &str) -> &'static Shape {
    let row = SHAPES.iter().find(|shape| shape.protocol == protocol);
    row.unwrap_or(&PLAIN)
}

/// Returns `raw` for a status whose rules were requested or not.
pub(super) fn of(
    status: &Status,
    shape: &Shape,
    has_rules: bool,
    options: &GamedigOptions,
) -> Value {
    let mut raw = Table::new();
    for (key, from) in shape.fields {
        let value = field(status, *from, options);
        let value = value.map(|value| match value {
            Value::Str(text) if !is_text(key) => by_look(&text, shape.numbers),
            value => converted(value, shape.numbers),
        });
        raw.extend(value.map(|value| ((*key).to_owned(), value)));
    }
    for extra in &status.extra {
        let is_named = |(_, from): &(&str, Source)| matches!(from, Extra(key) | Flag(key) | Letter(key) | Words(key) | Text(key) if *key == extra.key);
        if !shape.fields.iter().any(is_named) && !has(&raw, &extra.key) {
            raw.push((extra.key.to_string(), extra.value.clone()));
        }
    }
    if shape.rules == Rules::Members {
        for Rule { key, value } in &status.rules {
            let key = match shape.numbers {
                Numbers::Any => key.as_str().to_lowercase(),
                _ => key.to_string(),
            };
            if !has(&raw, &key) {
                let value = match is_text(&key) {
                    true => value.as_str().into(),
                    false => by_look(value, shape.numbers),
                };
                raw.push((key, value));
            }
        }
    } else if has_rules {
        raw.push(("rules".into(), rules(&status.rules)));
    }
    if let Some(more) = shape.more {
        more(status, &mut raw, options);
    }
    table(raw)
}

/// Returns `raw` of a player.
pub(super) fn of_player(player: &Player, shape: &Shape) -> Value {
    let mut raw = Table::new();
    let mut add = |key: &str, value: Value| {
        let renamed = shape.player.iter().find(|(own, _)| *own == key);
        let key = renamed.map_or(key, |(_, theirs)| *theirs);
        if !key.is_empty() {
            raw.push((key.to_owned(), converted(value, shape.player_numbers)));
        }
    };
    if let Some(uuid) = &player.uuid {
        add("id", hailer_proto::model::uuid_text(uuid).into());
    }
    for extra in player.extra.iter().filter(|extra| extra.key != "fields") {
        add(&extra.key, extra.value.clone());
    }
    if let Some(score) = player.score {
        add("score", score.into());
    }
    if let Some(time) = player.time_s {
        add("time", float(f64::from(time) / shape.time_unit_s));
    }
    if let Some(team) = &player.team {
        add("team", by_look(team, Numbers::Any));
    }
    if let Some(ping) = player.latency_ms {
        add("ping", i64::from(ping).into());
    }
    // Fields of GameSpy that have no member.
    let fields = player.extra.iter().find(|extra| extra.key == "fields");
    if let Some(Value::Table(fields)) = fields.map(|extra| &extra.value) {
        for (key, value) in fields {
            let value = match value {
                Value::Str(text) => by_look(text, shape.player_numbers),
                other => other.clone(),
            };
            add(key, value);
        }
    }
    table(raw)
}

/// Returns a member of the status.
fn field(status: &Status, from: Source, options: &GamedigOptions) -> Option<Value> {
    let text = |text: Option<&str>| text.map(Value::from);
    let address = status.address.as_ref();
    let bit = |flag: bool| Value::Int(i64::from(flag));
    match from {
        Name => status.name.as_ref().map(|name| shown(name, options).into()),
        Motd => status.motd.as_ref().map(|motd| motd.raw().into()),
        Map => text(status.map.as_deref()),
        Mode => text(status.mode.as_deref()),
        Game => text(status.game.as_deref()),
        Version => text(status.version.as_deref()),
        Online => status.players.online.map(Value::Int),
        Max => status.players.max.map(Value::Int),
        Source::Bots => status.players.bots.map(Value::Int),
        Host => address.and_then(|address| text(address.host.as_deref())),
        Port => address?.port.map(|port| i64::from(port).into()),
        Password => status.has_password.map(bit),
        AntiCheat => status.has_anti_cheat.map(bit),
        HasAntiCheat => status.has_anti_cheat.map(Value::Bool),
        Extra(key) => status.extra(key).cloned(),
        Flag(key) => status
            .extra(key)
            .map(|value| (*value != Value::Int(0)).into()),
        Text(key) => status.extra(key).map(|value| value.to_string().into()),
        Letter(key) => status.extra(key).map(letter),
        Words(key) => {
            let words = status.extra(key)?.to_string();
            Some(Value::List(words.split(',').map(Value::from).collect()))
        }
    }
}

/// Returns the first letter of a name, as A2S has it.
fn letter(value: &Value) -> Value {
    let name = value.to_string();
    match name.as_str() {
        "relay" => "p".into(),
        name => name.get(..1).unwrap_or_default().into(),
    }
}

/// Converts a value that Hailer knows the type of.
fn converted(value: Value, numbers: Numbers) -> Value {
    match (numbers, value) {
        (Numbers::None, Value::Int(number)) => number.to_string().into(),
        (Numbers::None, Value::Float(number)) => number.to_string().into(),
        (Numbers::None, Value::Bool(flag)) => i64::from(flag).to_string().into(),
        (_, Value::Float(number)) => float(number),
        (_, value) => value,
    }
}

/// Returns a number as JavaScript writes it: without a fraction if it has none.
fn float(number: f64) -> Value {
    let whole = number as i64;
    if whole as f64 == number {
        Value::Int(whole)
    } else {
        Value::Float(number)
    }
}

/// Converts a text by its content.
fn by_look(text: &str, numbers: Numbers) -> Value {
    if numbers == Numbers::Any {
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return text.eq_ignore_ascii_case("true").into();
        }
        let is_number = text.bytes().any(|byte| byte.is_ascii_digit())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
        if let (true, Ok(number)) = (is_number, text.parse()) {
            return float(number);
        }
    }
    text.into()
}

/// Returns whether the values of a key are texts, even if they look like numbers.
fn is_text(key: &str) -> bool {
    key.contains("name") || ["website", "gametype", "gamemode", "player"].contains(&key)
}

/// Removes a member and returns it.
fn take(raw: &mut Table, key: &str) -> Option<Value> {
    let place = raw.iter().position(|(known, _)| known == key)?;
    Some(raw.remove(place).1)
}

/// Adds a member that is missing.
fn add_default(raw: &mut Table, key: &str, value: Value) {
    if !has(raw, key) {
        raw.push((key.to_owned(), value));
    }
}

fn has(raw: &Table, key: &str) -> bool {
    raw.iter().any(|(known, _)| known == key)
}

fn table(raw: Table) -> Value {
    Value::Table(
        raw.into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect(),
    )
}

fn rules(rules: &[Rule]) -> Value {
    let mut raw = Table::new();
    for Rule { key, value } in rules {
        match raw
            .iter_mut()
            .find(|(known, _)| known.as_str() == key.as_str())
        {
            Some((_, known)) => *known = value.as_str().into(),
            None => raw.push((key.to_string(), value.as_str().into())),
        }
    }
    table(raw)
}

/// Adds the list of players as A2S sends it, and the tags of DayZ.
fn a2s(status: &Status, raw: &mut Table, options: &GamedigOptions) {
    let player = |player: &Player| {
        let score = player.score.unwrap_or(0);
        let time = f64::from(player.time_s.unwrap_or(0.0));
        table(vec![
            ("name".into(), shown(&player.name, options).into()),
            ("score".into(), score.into()),
            ("time".into(), float(time)),
        ])
    };
    let players = status.players.list.iter().map(player).collect();
    raw.push(("players".into(), Value::List(players)));
    let is_dayz = status.extra("app-id") == Some(&Value::Int(DAYZ));
    if let (true, Some(tags)) = (is_dayz, status.extra("keywords")) {
        dayz(&tags.to_string(), raw);
    }
}

/// App id of DayZ.
const DAYZ: i64 = 221_100;

/// Adds what the tags of DayZ mean.
fn dayz(tags: &str, raw: &mut Table) {
    let contains = |word: &str| tags.split(',').any(|tag| tag.contains(word));
    let flag = |raw: &mut Table, key: &str, flag: bool| raw.push((key.into(), flag.into()));
    let [private, external] = ["privHive", "external"].map(contains);
    flag(raw, "dlcEnabled", contains("isDLC"));
    flag(raw, "firstPerson", contains("no3rd"));
    flag(raw, "privateHive", private);
    flag(raw, "external", external);
    flag(raw, "official", !private && !external);
    let time = tags.split(',').rfind(|tag| tag.contains(':'));
    raw.extend(time.map(|time| ("time".to_owned(), time.into())));
    for (start, key) in [("etm", "dayAcceleration"), ("entm", "nightAcceleration")] {
        let values = tags.split(',').filter_map(|tag| tag.strip_prefix(start));
        let value = values.filter_map(|value| value.parse().ok()).next_back();
        raw.extend(value.map(|value| (key.to_owned(), float(value))));
    }
}

/// Adds the scores of the teams.
fn battlefield(status: &Status, raw: &mut Table, _: &GamedigOptions) {
    if let Some(Value::List(scores)) = status.extra("scores") {
        raw.retain(|(key, _)| key != "scores");
        let team = |score: &Value| {
            table(vec![(
                "tickets".into(),
                converted(score.clone(), Numbers::Known),
            )])
        };
        raw.push((
            "teams".into(),
            Value::List(scores.iter().map(team).collect()),
        ));
    }
}

/// Makes the names of the teams a table by number.
fn gamespy1(_: &Status, raw: &mut Table, _: &GamedigOptions) {
    let teams = take(raw, "teams");
    let mut names = Table::new();
    if let Some(Value::List(teams)) = teams {
        for (number, team) in teams.iter().enumerate() {
            let Value::Table(fields) = team else { continue };
            let name = fields.iter().find(|(key, _)| key == "name");
            names.extend(name.map(|(_, name)| (number.to_string(), name.clone())));
        }
    }
    raw.push(("teams".into(), table(names)));
}

/// Adds the rows of players and teams.
fn gamespy3(status: &Status, raw: &mut Table, options: &GamedigOptions) {
    let mut lists = Table::new();
    let player = |player: &Player| {
        let mut row = vec![("player".to_owned(), shown(&player.name, options).into())];
        if let Value::Table(fields) = of_player(player, &PLAIN) {
            let fields = fields.into_iter();
            row.extend(
                fields.map(|(key, value)| (key.to_string(), converted(value, Numbers::None))),
            );
        }
        table(row)
    };
    if !status.players.list.is_empty() {
        let rows = status.players.list.iter().map(player).collect();
        lists.push((String::new(), Value::List(rows)));
    }
    if let Some(Value::List(teams)) = take(raw, "teams") {
        let row = |team: Value| {
            let Value::Table(fields) = team else {
                return team;
            };
            let fields = fields.into_iter().map(|(key, value)| {
                let key = if key == "name" { "team" } else { &key };
                (key.to_owned(), converted(value, Numbers::None))
            });
            table(fields.collect())
        };
        let rows = teams.into_iter().map(row).collect();
        lists.push(("t".into(), Value::List(rows)));
    }
    raw.push(("playerTeamInfo".into(), table(lists)));
}

/// Builds the JSON that Minecraft servers send.
fn minecraft_status(status: &Status, raw: &mut Table, _: &GamedigOptions) {
    let mut version = Table::new();
    version.extend(field_named(
        "name",
        status.version.as_deref().map(Value::from),
    ));
    version.extend(field_named("protocol", status.extra("protocol").cloned()));
    let mut players = Table::new();
    players.extend(field_named("max", status.players.max.map(Value::Int)));
    players.extend(field_named("online", status.players.online.map(Value::Int)));
    if !status.players.list.is_empty() {
        let player = |player: &Player| {
            let id = player
                .uuid
                .as_ref()
                .map(|uuid| hailer_proto::model::uuid_text(uuid).into());
            let mut row = Table::from([("name".into(), player.name.raw().into())]);
            row.extend(field_named("id", id));
            table(row)
        };
        let sample = status.players.list.iter().map(player).collect();
        players.push(("sample".into(), Value::List(sample)));
    }
    raw.retain(|(key, _)| key != "protocol");
    raw.push(("version".into(), table(version)));
    raw.push(("players".into(), table(players)));
    let motd = status.motd.as_ref();
    raw.extend(field_named(
        "description",
        motd.map(|motd| motd.raw().into()),
    ));
    add_default(raw, "bcc", table(Table::new()));
    let icon = status.icon.as_ref().map(|icon| icon.data_uri().into());
    raw.extend(field_named("favicon", icon));
}

fn field_named(key: &str, value: Option<Value>) -> Option<(String, Value)> {
    value.map(|value| (key.to_owned(), value))
}

/// Adds the parts of the version.
fn mumble(status: &Status, raw: &mut Table, _: &GamedigOptions) {
    let version = status.version.as_deref().unwrap_or_default();
    let keys = ["versionMajor", "versionMinor", "versionPatch"];
    for (key, number) in keys.into_iter().zip(version.split('.')) {
        raw.push((key.into(), by_look(number, Numbers::Any)));
    }
}

/// Adds the number of clients, which includes those of queries.
fn teamspeak3(status: &Status, raw: &mut Table, _: &GamedigOptions) {
    let queries = match status.extra("query-clients") {
        Some(Value::Int(queries)) => *queries,
        _ => 0,
    };
    if let Some(online) = status.players.online {
        let clients = online.saturating_add(queries).to_string();
        raw.push(("virtualserver_clientsonline".into(), clients.into()));
    }
}

/// Adds state and flags as numbers.
fn satisfactory(status: &Status, raw: &mut Table, _: &GamedigOptions) {
    const STATES: [&str; 4] = ["offline", "idle", "loading", "playing"];
    let state = status.extra("state").map(|state| {
        let name = state.to_string();
        let number = STATES.iter().position(|known| *known == name);
        number.map_or_else(|| state.clone(), |number| Value::Int(number as i64))
    });
    let modded = status
        .extra("modded")
        .map(|modded| *modded == Value::Bool(true));
    let flags = status.extra("flags").cloned();
    let flags = flags.or(modded.map(|modded| i64::from(modded).into()));
    raw.extend(field_named("serverState", state));
    raw.extend(field_named("serverFlags", flags));
}

/// Moves the mutators out of the rules, and adds members that node-gamedig always has.
fn unreal2(_: &Status, raw: &mut Table, _: &GamedigOptions) {
    if let Some(Value::Table(mut rules)) = take(raw, "rules") {
        rules.retain(|(key, _)| key != "Mutator" && key != "mutator");
        raw.push(("rules".into(), Value::Table(rules)));
    }
    add_default(raw, "mutators", Value::List(Vec::new()));
    add_default(raw, "scoreboard", table(Table::new()));
}
