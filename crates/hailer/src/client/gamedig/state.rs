//! An answer in the shape of node-gamedig's results.

use super::raw::{self, Shape};
use super::{GamedigOptions, has_rules};
use crate::answer::Answer;
use crate::client::answers::Answers;
use crate::target::Target;
use hailer_proto::Status;
use hailer_proto::model::{Player, Text, Value};
use serde::{Deserialize, Serialize};

/// Result of node-gamedig. The fields have its names and order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GamedigState {
    /// Name of the server, or else its message of the day. Empty if the server sends neither.
    pub name: String,
    /// Map, or empty.
    pub map: String,
    /// Whether players need a password.
    pub password: bool,
    /// The values that the server sent, with the names that node-gamedig uses in each protocol, as a
    /// [table](Value::Table).
    pub raw: Value,
    /// Version of game or server, or empty.
    pub version: String,
    /// Maximum number of players, or 0.
    pub maxplayers: i64,
    /// Number of players, with bots in some protocols, or 0.
    pub numplayers: i64,
    /// The players.
    pub players: Vec<GamedigPlayer>,
    /// The bots, in protocols that distinguish them.
    pub bots: Vec<GamedigPlayer>,
    /// Port of the query.
    #[serde(rename = "queryPort")]
    pub query_port: u16,
    /// Host and port for players.
    pub connect: String,
    /// Latency in whole milliseconds.
    pub ping: u64,
}

/// Player of a [`GamedigState`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GamedigPlayer {
    /// Name, or empty.
    pub name: String,
    /// Further fields, as a [table](Value::Table).
    pub raw: Value,
}

impl GamedigState {
    /// Converts an answer.
    pub(super) fn new(answer: &Answer, target: &Target, options: &GamedigOptions) -> Self {
        let info = answer.transcript.protocol;
        let is_voice = matches!(info.id, "teamspeak2" | "teamspeak3");
        let game_port = || target.game.and_then(|game| game.port);
        // A service knows the server by its own port; TeamSpeak has one for all voice servers.
        let port = if is_voice || info.service.is_some() {
            let given = options.port.and_then(|port| u16::try_from(port).ok());
            given.or_else(game_port).unwrap_or(0)
        } else {
            answer.transcript.address.port()
        };
        let has_rules = has_rules(info.id, target.game, options);
        Self::of_answer(answer, port, has_rules, options)
    }

    fn of_answer(
        answer: &Answer,
        query_port: u16,
        has_rules: bool,
        options: &GamedigOptions,
    ) -> Self {
        let status = &*answer.status;
        let shape = raw::shape(answer.transcript.protocol.id);
        let plain = |text: &Text| shown(text, options);
        let (players, bots) = players(status, shape, options);
        let title = status.name.as_ref().or(status.motd.as_ref());
        Self {
            name: title.map(plain).unwrap_or_default().trim().into(),
            map: map(status),
            password: status.has_password.unwrap_or(false),
            raw: raw::of(status, shape, has_rules, options),
            version: text(status.version.as_deref()),
            maxplayers: status.players.max.unwrap_or(0),
            numplayers: status.players.count(),
            players,
            bots,
            query_port,
            connect: connect(answer, query_port, options),
            ping: u64::try_from(answer.latency.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Converts the answers of a Minecraft server. Later ones are better: Bedrock, then the status,
    /// then the query, but name and map of Bedrock count most.
    pub(super) fn of_minecraft(answers: &Answers, options: &GamedigOptions) -> Self {
        let find = |id: &str| {
            let found = answers
                .iter()
                .find(|answer| answer.transcript.protocol.id == id);
            found.map(|answer| {
                Self::of_answer(answer, answer.transcript.address.port(), true, options)
            })
        };
        let parts = [
            ("vanilla", find("minecraft-status")),
            ("gamespy", find("minecraft-query")),
            ("bedrock", find("minecraft-bedrock")),
        ];
        let best = answers.best();
        let mut state = Self::of_answer(best, best.transcript.address.port(), true, options);
        let [(_, vanilla), (_, gamespy), (_, bedrock)] = &parts;
        state.players.clear();
        for part in [bedrock, vanilla, gamespy].into_iter().flatten() {
            if !part.players.is_empty() {
                state.players.clone_from(&part.players);
            }
        }
        for part in [vanilla, gamespy, bedrock].into_iter().flatten() {
            if !part.name.is_empty() {
                state.name.clone_from(&part.name);
            }
            if part.numplayers != 0 {
                state.numplayers = part.numplayers;
            }
            if part.maxplayers != 0 {
                state.maxplayers = part.maxplayers;
            }
        }
        let part_of = |part: &Option<Self>, field: fn(&Self) -> &String| {
            part.as_ref()
                .map(field)
                .filter(|text| !text.is_empty())
                .cloned()
        };
        let version = part_of(bedrock, |part| &part.version);
        let version = version.or_else(|| part_of(vanilla, |part| &part.version));
        state.version = version
            .or_else(|| part_of(gamespy, |part| &part.version))
            .unwrap_or_default();
        let map = part_of(bedrock, |part| &part.map);
        state.map = map
            .or_else(|| part_of(gamespy, |part| &part.map))
            .unwrap_or_default();
        state.connect = address(options, state.query_port);
        let words: Vec<&str> = state.name.split_whitespace().collect();
        state.name = words.join(" ");
        let latencies = answers.iter().map(|answer| answer.latency.as_millis());
        state.ping = latencies
            .min()
            .and_then(|ms| u64::try_from(ms).ok())
            .unwrap_or(0);
        let raw = parts.into_iter();
        let raw = raw.filter_map(|(name, part)| Some((name.into(), part?.into_value())));
        state.raw = Value::Table(raw.collect());
        state
    }

    /// Returns the state as a value, for the parts of a Minecraft server.
    fn into_value(self) -> Value {
        let list = |players: Vec<GamedigPlayer>| {
            let player = |player: GamedigPlayer| {
                Value::Table(vec![
                    ("name".into(), player.name.into()),
                    ("raw".into(), player.raw),
                ])
            };
            Value::List(players.into_iter().map(player).collect())
        };
        let fields = [
            ("name", self.name.into()),
            ("map", self.map.into()),
            ("password", self.password.into()),
            ("raw", self.raw),
            ("version", self.version.into()),
            ("maxplayers", self.maxplayers.into()),
            ("numplayers", self.numplayers.into()),
            ("players", list(self.players)),
            ("bots", list(self.bots)),
            ("queryPort", i64::from(self.query_port).into()),
            ("connect", self.connect.into()),
            ("ping", i64::try_from(self.ping).unwrap_or(i64::MAX).into()),
        ];
        Value::Table(
            fields
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }
}

/// Returns the map, or the name of the world, which servers of Bedrock have.
fn map(status: &Status) -> String {
    let level = || status.extra("level-name").map(ToString::to_string);
    let map = status.map.as_deref().map(Into::into);
    map.or_else(level).unwrap_or_default()
}

fn text(text: Option<&str>) -> String {
    text.unwrap_or_default().into()
}

/// Returns a text with or without its color codes.
pub(super) fn shown(text: &Text, options: &GamedigOptions) -> String {
    if options.strips_colors {
        text.plain()
    } else {
        text.raw().into()
    }
}

/// Returns the address for players: the port that the server reports, or else that of the query.
fn connect(answer: &Answer, query_port: u16, options: &GamedigOptions) -> String {
    let status = &*answer.status;
    if let Some(guild) = &options.guild {
        let invitation = status.extra("invite").map(ToString::to_string);
        return invitation.unwrap_or_else(|| format!("https://discordapp.com/channels/{guild}"));
    }
    // Servers of Bedrock report a port that is often not the one that players reach them at.
    let is_reliable = answer.transcript.protocol.id != "minecraft-bedrock";
    let address = status.address.as_ref().filter(|_| is_reliable);
    let port = address.and_then(|address| address.port);
    self::address(options, port.unwrap_or(query_port))
}

/// Returns the host of the options with this port.
fn address(options: &GamedigOptions, port: u16) -> String {
    let host = match (&*options.host, &options.address) {
        ("", Some(address)) => address,
        _ => &options.host,
    };
    format!("{}:{port}", without_port(host))
}

/// Removes the port after a host. IPv6 addresses have none.
fn without_port(host: &str) -> &str {
    match host.split_once(':') {
        Some((name, port)) if !port.contains(':') => name,
        _ => host,
    }
}

/// Divides the list into players and bots.
fn players(
    status: &Status,
    shape: &Shape,
    options: &GamedigOptions,
) -> (Vec<GamedigPlayer>, Vec<GamedigPlayer>) {
    let player = |player: &&Player| GamedigPlayer {
        name: shown(&player.name, options),
        raw: raw::of_player(player, shape),
    };
    let list: Vec<&Player> = status.players.list.iter().collect();
    match shape.bots {
        raw::Bots::None => (list.iter().map(player).collect(), Vec::new()),
        raw::Bots::WithoutPing => {
            let is_bot = |player: &&&Player| player.latency_ms.is_none_or(|ping| ping == 0);
            let (bots, players): (Vec<&Player>, Vec<&Player>) =
                list.iter().copied().partition(|player| is_bot(&player));
            let convert = |list: Vec<&Player>| list.iter().map(player).collect();
            (convert(players), convert(bots))
        }
        raw::Bots::Longest => {
            // The players with the longest times count as bots.
            let mut list = list;
            let time = |player: &Player| match player.time_s {
                Some(-1.0) => f32::MAX,
                time => time.unwrap_or(0.0),
            };
            list.sort_by(|a, b| time(a).total_cmp(&time(b)));
            list.reverse();
            let bots = status.players.bots.unwrap_or(0);
            let bots = usize::try_from(bots).unwrap_or(0).min(list.len());
            let (bots, players) = list.split_at(bots);
            let convert = |list: &[&Player]| list.iter().map(player).collect();
            (convert(players), convert(bots))
        }
    }
}
