//! Fields of a sweep's output: columns of CSV and Parquet, and members of flat JSON.

use hailer::client::Transcript;
use hailer::proto::model::{Extra, Rule};
use hailer::proto::wire::Deviation;
use hailer::proto::{Player, Text};
use hailer::support::report::{json, milliseconds};
use hailer::{Answer, Error, Status};
use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

/// One output field.
pub(crate) struct Field {
    /// Name of the column or member.
    pub(crate) name: &'static str,
    /// Description for users.
    pub(crate) help: &'static str,
    /// Kind of the values.
    pub(crate) kind: Kind,
    /// Returns the value for a result.
    pub(crate) get: for<'a> fn(&Record<'a>) -> Cell<'a>,
}

/// Kind of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Flag,
    Int,
    Number,
    Time,
    /// A list of players with name and UUID.
    Players,
    /// A list of keys and values.
    Rules,
    /// A list of strings.
    Words,
    /// A JSON object as text.
    Json,
}

impl Kind {
    /// Returns the name for users.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Flag => "true or false",
            Self::Int => "whole number",
            Self::Number => "number",
            Self::Time => "time",
            Self::Players | Self::Rules | Self::Words => "list",
            Self::Json => "object",
        }
    }
}

/// One result, with its target.
pub(crate) struct Record<'a> {
    /// As typed, or `protocol://address`.
    pub(crate) target: &'a str,
    pub(crate) at: SystemTime,
    pub(crate) result: &'a Result<Answer, Error>,
}

/// A value of a field. The [`Kind`] of the field determines the possible variants.
pub(crate) enum Cell<'a> {
    Nothing,
    /// An identifier of Hailer.
    Word(&'a str),
    /// A target, or text from a server.
    Foreign(&'a str),
    /// Text from a server, with formatting codes.
    Plain(&'a Text),
    /// A message of Hailer, which may quote text from a server.
    Sentence(String),
    Address(SocketAddr),
    Ip(IpAddr),
    Flag(bool),
    Int(i64),
    /// Duration in milliseconds.
    Milliseconds(f64),
    /// Microseconds since 1970, UTC.
    Time(i64),
    Players(&'a [Player]),
    Rules(&'a [Rule]),
    Words(&'a [&'static Deviation]),
    Json(&'a [Extra]),
}

/// All fields, in the order of the columns.
#[rustfmt::skip]
pub(crate) const FIELDS: [Field; 33] = [
    Field { name: "target", kind: Kind::Text, help: "The target as typed; of an address, protocol://address", get: |record| Cell::Foreign(record.target) },
    Field { name: "time", kind: Kind::Time, help: "When its end was known, UTC", get: |record| Cell::Time(micros(record.at)) },
    Field { name: "ok", kind: Kind::Flag, help: "Whether it answered", get: |record| Cell::Flag(record.result.is_ok()) },
    Field { name: "protocol", kind: Kind::Text, help: "Id of the protocol", get: |record| record.transcript().map_or(Cell::Nothing, |transcript| Cell::Word(transcript.protocol.id)) },
    Field { name: "address", kind: Kind::Text, help: "Address and port queried, IPv6 in brackets", get: |record| record.transcript().map_or(Cell::Nothing, |transcript| Cell::Address(transcript.address)) },
    Field { name: "ip", kind: Kind::Text, help: "Address queried", get: |record| record.transcript().map_or(Cell::Nothing, |transcript| Cell::Ip(transcript.address.ip())) },
    Field { name: "port", kind: Kind::Int, help: "Port queried", get: |record| record.transcript().map_or(Cell::Nothing, |transcript| Cell::Int(transcript.address.port().into())) },
    Field { name: "latency_ms", kind: Kind::Number, help: "Shortest time between a request and its reply, milliseconds", get: |record| record.answer().map_or(Cell::Nothing, |answer| Cell::Milliseconds(milliseconds(answer.latency))) },
    Field { name: "datagrams_sent", kind: Kind::Int, help: "Datagrams sent to it, repeated ones included", get: |record| record.transcript().map_or(Cell::Nothing, |transcript| Cell::Int(transcript.sent.into())) },
    Field { name: "datagrams_received", kind: Kind::Int, help: "Datagrams received from it", get: |record| record.transcript().map_or(Cell::Nothing, |transcript| Cell::Int(transcript.received.into())) },
    Field { name: "title", kind: Kind::Text, help: "Name of the server, else the first readable line of its MOTD", get: |record| record.status().and_then(Status::title).map_or(Cell::Nothing, Cell::Sentence) },
    Field { name: "name", kind: Kind::Text, help: "The server's name, without codes", get: |record| record.text(|status| status.name.as_ref()) },
    Field { name: "name_raw", kind: Kind::Text, help: "The server's name with its codes", get: |record| record.word(|status| status.name.as_ref().map(Text::raw)) },
    Field { name: "motd", kind: Kind::Text, help: "Message of the day, without codes", get: |record| record.text(|status| status.motd.as_ref()) },
    Field { name: "motd_raw", kind: Kind::Text, help: "Message of the day with its codes", get: |record| record.word(|status| status.motd.as_ref().map(Text::raw)) },
    Field { name: "game", kind: Kind::Text, help: "The game, as the server calls it", get: |record| record.word(|status| status.game.as_deref()) },
    Field { name: "mode", kind: Kind::Text, help: "Game mode", get: |record| record.word(|status| status.mode.as_deref()) },
    Field { name: "map", kind: Kind::Text, help: "Map or world", get: |record| record.word(|status| status.map.as_deref()) },
    Field { name: "version", kind: Kind::Text, help: "Version of game or server", get: |record| record.word(|status| status.version.as_deref()) },
    Field { name: "players_online", kind: Kind::Int, help: "Number of online players, as reported by the server", get: |record| record.int(|status| status.players.online) },
    Field { name: "players_max", kind: Kind::Int, help: "Maximum number of players", get: |record| record.int(|status| status.players.max) },
    Field { name: "players", kind: Kind::Players, help: "Online players: names, and UUIDs where the protocol has them", get: |record| record.status().map_or(Cell::Nothing, |status| Cell::Players(&status.players.list)) },
    Field { name: "bots", kind: Kind::Int, help: "Number of bots, which the number of players may include or not", get: |record| record.int(|status| status.players.bots) },
    Field { name: "roster", kind: Kind::Text, help: "State of the list of players: absent, refused, partial, whole or sample", get: |record| record.status().map_or(Cell::Nothing, |status| Cell::Word(json::roster(status.players.roster))) },
    Field { name: "rules", kind: Kind::Rules, help: "Rules that the server publishes", get: |record| record.status().map_or(Cell::Nothing, |status| Cell::Rules(&status.rules)) },
    Field { name: "reported_host", kind: Kind::Text, help: "Address that the server reports as its own", get: |record| record.word(|status| status.address.as_ref()?.host.as_deref()) },
    Field { name: "reported_port", kind: Kind::Int, help: "Port that the server reports as its own", get: |record| record.int(|status| status.address.as_ref()?.port.map(i64::from)) },
    Field { name: "password", kind: Kind::Flag, help: "Whether players need a password to join", get: |record| record.flag(|status| status.has_password) },
    Field { name: "anti_cheat", kind: Kind::Flag, help: "Whether the server uses the anti-cheat software of its platform, such as VAC", get: |record| record.flag(|status| status.has_anti_cheat) },
    Field { name: "extra", kind: Kind::Json, help: "Values that only this protocol has", get: |record| record.status().map_or(Cell::Nothing, |status| Cell::Json(&status.extra)) },
    Field { name: "deviations", kind: Kind::Words, help: "Accepted deviations from the protocol", get: |record| record.status().map_or(Cell::Nothing, |status| Cell::Words(&status.deviations)) },
    Field { name: "error_kind", kind: Kind::Text, help: "Kind of failure; with --failed", get: |record| record.result.as_ref().err().map_or(Cell::Nothing, |error| Cell::Word(error.kind().as_str())) },
    Field { name: "error_message", kind: Kind::Text, help: "Description of the failure; with --failed", get: |record| record.result.as_ref().err().map_or(Cell::Nothing, |error| Cell::Sentence(error.to_string())) },
];

/// Default columns of CSV.
pub(crate) const USUAL: &[&str] = &[
    "target",
    "protocol",
    "address",
    "latency_ms",
    "title",
    "motd",
    "game",
    "mode",
    "map",
    "version",
    "players_online",
    "players_max",
];

/// Returns the field with this name.
pub(crate) fn find(name: &str) -> Option<&'static Field> {
    static LIST: &[Field] = &FIELDS;
    LIST.iter().find(|field| field.name == name)
}

impl<'a> Record<'a> {
    fn answer(&self) -> Option<&'a Answer> {
        self.result.as_ref().ok()
    }

    fn status(&self) -> Option<&'a Status> {
        self.answer().map(|answer| &*answer.status)
    }

    fn transcript(&self) -> Option<&'a Transcript> {
        match self.result {
            Ok(answer) => Some(&answer.transcript),
            Err(error) => error.transcript(),
        }
    }

    fn text(&self, of: impl FnOnce(&'a Status) -> Option<&'a Text>) -> Cell<'a> {
        self.status()
            .and_then(of)
            .map_or(Cell::Nothing, Cell::Plain)
    }

    fn word(&self, of: impl FnOnce(&'a Status) -> Option<&'a str>) -> Cell<'a> {
        self.status()
            .and_then(of)
            .map_or(Cell::Nothing, Cell::Foreign)
    }

    fn flag(&self, of: impl FnOnce(&'a Status) -> Option<bool>) -> Cell<'a> {
        self.status().and_then(of).map_or(Cell::Nothing, Cell::Flag)
    }

    fn int(&self, of: impl FnOnce(&'a Status) -> Option<i64>) -> Cell<'a> {
        self.status().and_then(of).map_or(Cell::Nothing, Cell::Int)
    }
}

fn micros(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_micros()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer::proto::model::{PLAYER_MEMBERS, STATUS_MEMBERS};

    /// The JSON schema and the columns have every member of the model, with the same meaning.
    #[test]
    fn members_of_the_model_are_columns_and_in_the_schema() {
        let schema = include_str!("../../../../schema/answer-v2.json");
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        let described = |object: &str, key: &str| {
            let member = &schema["$defs"][object]["properties"][key]["description"];
            member.as_str().unwrap_or_default().to_owned()
        };
        for member in STATUS_MEMBERS {
            let field = find(member.key).unwrap_or_else(|| panic!("no column {}", member.key));
            assert_eq!(field.help, member.help);
            let object = if member.key == "bots" {
                "players"
            } else {
                "status"
            };
            let description = described(object, member.key);
            assert!(
                description.starts_with(member.help),
                "{}: {description}",
                member.key
            );
        }
        for member in PLAYER_MEMBERS {
            let description = described("player", member.key);
            assert!(
                description.starts_with(member.help),
                "{}: {description}",
                member.key
            );
        }
    }
}
