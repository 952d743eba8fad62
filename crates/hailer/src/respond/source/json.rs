//! Reads a status from JSON: the `status` object of `schema/answer-v2.json`.
//!
//! ```json
//! { "motd": "Hello", "players": { "max": 20, "list": ["Alice", { "name": "Bob", "uuid": "…" }] } }
//! ```
//!
//! Programs and people write it. Short forms and missing members are accepted, unknown members are
//! errors:
//!
//! - Members may be missing or `null`. Without `online` the listed players are counted; without
//!   `roster` it follows from that count.
//! - A text is a string, in which section signs are codes, or `{"plain": …, "raw": …}`.
//! - `players` may be just the list. A player is a name or an object. Rules are a list of keys and
//!   values, or an object.
//! - `software` and `plugins` may be members of the status itself. A plugin is a name, or an object
//!   with a name and a version.
//! - Keys of `extra` and names in `deviations` must be documented by a protocol.
//! - A whole line of `hailer query --json` is accepted too: its `status` counts.

use hailer_proto::minecraft_query;
use hailer_proto::model::{Address, Extra, Icon, Roster, Rule, Value, printable, uuid_from_text};
use hailer_proto::wire::Deviation;
use hailer_proto::{Info, Player, Status, Text, registry};
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Maximum size of a document, enough for 20,000 players.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum length of an error in characters, since errors quote the document.
const MAX_PROBLEM: usize = 200;

/// Error in a JSON status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct ReadError {
    /// Line of the error, counted from 1.
    pub line: usize,
    /// Description in one line that is safe to print.
    pub problem: String,
}

/// Reads a status, in time and memory proportional to the document.
///
/// # Errors
/// The document is longer than [`MAX_BYTES`], is invalid JSON, or has unknown members.
pub fn status(json: &[u8]) -> Result<Status, ReadError> {
    if json.len() > MAX_BYTES {
        return Err(ReadError {
            line: 1,
            problem: format!("longer than {MAX_BYTES} bytes"),
        });
    }
    // Serde would accept a list as the members of an object, in order.
    if json
        .trim_ascii_start()
        .first()
        .is_some_and(|byte| *byte != b'{')
    {
        return Err(ReadError {
            line: 1,
            problem: "a status is an object: {…}".into(),
        });
    }
    // A line of `hailer query --json` has a `schema` member; a status does not.
    match serde_json::from_slice(json) {
        Ok(SchemaInput { schema: Some(_) }) => {
            let line: AnswerInput = serde_json::from_slice(json).map_err(|e| error(&e))?;
            match line.status {
                Some(input) => Ok(input.into()),
                None => Err(ReadError {
                    line: 1,
                    problem: "an answer without a status: the query failed".into(),
                }),
            }
        }
        _ => serde_json::from_slice(json)
            .map(StatusInput::into)
            .map_err(|e| error(&e)),
    }
}

fn error(error: &serde_json::Error) -> ReadError {
    let text = error.to_string();
    // The line number is a field of the error, so the text does not repeat it.
    let place = format!(" at line {} column {}", error.line(), error.column());
    let problem = printable(text.strip_suffix(&place).unwrap_or(&text))
        .chars()
        .take(MAX_PROBLEM)
        .collect();
    ReadError {
        line: error.line().max(1),
        problem,
    }
}

#[derive(Deserialize)]
struct SchemaInput {
    schema: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct AnswerInput {
    status: Option<StatusInput>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct StatusInput {
    name: Option<TextInput>,
    motd: Option<TextInput>,
    game: Option<String>,
    mode: Option<String>,
    map: Option<String>,
    version: Option<String>,
    software: Option<String>,
    plugins: Option<Plugins>,
    players: Option<Players>,
    rules: Option<Rules>,
    address: Option<AddressInput>,
    password: Option<bool>,
    anti_cheat: Option<bool>,
    icon: Option<IconInput>,
    extra: Option<Extras<false>>,
    deviations: Option<Vec<Named>>,
}

/// Players: an object, or just the list.
#[derive(Default)]
struct Players(PlayersInput);

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct PlayersInput {
    /// A missing value is counted from the list. `null` means unknown.
    #[serde(deserialize_with = "nullable")]
    online: Option<Option<i64>>,
    max: Option<i64>,
    bots: Option<i64>,
    roster: Option<Roster>,
    list: Option<Vec<PlayerInput>>,
}

impl<'de> Deserialize<'de> for Players {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Players;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or a list of players")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Players, A::Error> {
                let mut list = Vec::new();
                while let Some(player) = seq.next_element()? {
                    list.push(player);
                }
                Ok(Players(PlayersInput {
                    list: Some(list),
                    ..PlayersInput::default()
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Players, A::Error> {
                PlayersInput::deserialize(de::value::MapAccessDeserializer::new(map)).map(Players)
            }
        }
        deserializer.deserialize_any(MembersVisitor)
    }
}

fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct AddressInput {
    host: Option<String>,
    port: Option<u16>,
}

impl From<StatusInput> for Status {
    fn from(input: StatusInput) -> Self {
        let mut status = Self {
            name: input.name.map(|text| text.0),
            motd: input.motd.map(|text| text.0),
            game: input.game.map(Into::into),
            mode: input.mode.map(Into::into),
            map: input.map.map(Into::into),
            version: input.version.map(Into::into),
            rules: input.rules.map(|rules| rules.0).unwrap_or_default(),
            has_password: input.password,
            has_anti_cheat: input.anti_cheat,
            icon: input.icon.map(|icon| icon.0),
            extra: input.extra.map(|extra| extra.0).unwrap_or_default(),
            deviations: input
                .deviations
                .into_iter()
                .flatten()
                .map(|named| named.0)
                .collect(),
            ..Self::default()
        };
        // The short forms override extras with the same name.
        if let Some(software) = input.software {
            status.extra.retain(|extra| extra.key != "software");
            status.extra.push(Extra::new("software", software));
        }
        if let Some(Plugins(plugins)) = input.plugins {
            status.extra.retain(|extra| extra.key != "plugins");
            let plugins = plugins
                .iter()
                .map(|plugin| (&*plugin.name, &*plugin.version));
            status.extra.extend(minecraft_query::plugins(plugins));
        }
        status.address = input.address.map(|AddressInput { host, port }| Address {
            host: host.map(Into::into),
            port,
        });
        let players = input.players.unwrap_or_default().0;
        let list: Option<Vec<Player>> = players
            .list
            .map(|list| list.into_iter().map(|player| player.0).collect());
        let counted = list
            .as_ref()
            .and_then(|list| i64::try_from(list.len()).ok());
        status.players.online = players.online.unwrap_or(counted);
        status.players.max = players.max;
        status.players.bots = players.bots;
        if let Some(list) = list {
            status.players.set_list(list);
        }
        if let Some(roster) = players.roster {
            status.players.roster = roster;
        }
        status
    }
}

struct TextInput(Text);

impl<'de> Deserialize<'de> for TextInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Members {
            plain: Option<String>,
            raw: Option<String>,
        }
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = TextInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or {\"plain\": …, \"raw\": …}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextInput, E> {
                Ok(TextInput(Text::legacy(text)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextInput, A::Error> {
                match Members::deserialize(de::value::MapAccessDeserializer::new(map))? {
                    Members {
                        plain: Some(plain),
                        raw: Some(raw),
                    } => Ok(TextInput(Text::with_plain(&raw, &plain))),
                    Members { raw: Some(raw), .. } => Ok(TextInput(Text::legacy(raw))),
                    Members {
                        plain: Some(plain),
                        raw: None,
                    } => Ok(TextInput(Text::unformatted(plain))),
                    Members {
                        plain: None,
                        raw: None,
                    } => Err(de::Error::invalid_length(0, &self)),
                }
            }
        }
        deserializer.deserialize_any(MembersVisitor)
    }
}

struct PlayerInput(Player);

impl<'de> Deserialize<'de> for PlayerInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Members {
            name: TextInput,
            uuid: Option<UuidInput>,
            score: Option<i64>,
            time_s: Option<f32>,
            team: Option<String>,
            latency_ms: Option<i32>,
            extra: Option<Extras<true>>,
        }
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = PlayerInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or {\"name\": …, \"uuid\": …}")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<PlayerInput, E> {
                Ok(PlayerInput(Player::named(Text::legacy(name))))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PlayerInput, A::Error> {
                let input = Members::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let extra = input.extra.map(|extra| extra.0).unwrap_or_default();
                Ok(PlayerInput(Player {
                    name: input.name.0,
                    uuid: input.uuid.map(|uuid| uuid.0),
                    score: input.score,
                    time_s: input.time_s,
                    team: input.team.map(Into::into),
                    latency_ms: input.latency_ms,
                    extra,
                }))
            }
        }
        deserializer.deserialize_any(MembersVisitor)
    }
}

/// List of plugins: names, or objects with a version.
struct Plugins(Vec<Plugin>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plugin {
    name: String,
    #[serde(default)]
    version: String,
}

impl<'de> Deserialize<'de> for Plugins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a plugin: a name, or {\"name\": …, \"version\": …}"
        )]
        enum Form {
            Name(String),
            Table(Plugin),
        }
        let forms = Vec::<Form>::deserialize(deserializer)?;
        let plugin = |form| match form {
            Form::Name(name) => Plugin {
                name,
                version: String::new(),
            },
            Form::Table(plugin) => plugin,
        };
        Ok(Self(forms.into_iter().map(plugin).collect()))
    }
}

struct IconInput(Icon);

impl<'de> Deserialize<'de> for IconInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Icon::from_data_uri(&text)
            .map(Self)
            .map_err(de::Error::custom)
    }
}

struct UuidInput([u8; 16]);

impl<'de> Deserialize<'de> for UuidInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            de::Error::custom(format_args!(
                "{text:?} is not a UUID, which has 32 hexadecimal digits"
            ))
        };
        uuid_from_text(&text).map(Self).ok_or_else(wrong)
    }
}

struct Rules(Vec<Rule>);

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Members {
            key: String,
            value: ValueText,
        }
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Rules;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of {\"key\": …, \"value\": …}, or an object")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Rules, A::Error> {
                let mut rules = Vec::new();
                while let Some(Members { key, value }) = seq.next_element()? {
                    rules.push(Rule {
                        key: key.into(),
                        value: value.0.into(),
                    });
                }
                Ok(Rules(rules))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rules, A::Error> {
                let mut rules = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, ValueText>()? {
                    rules.push(Rule {
                        key: key.into(),
                        value: value.0.into(),
                    });
                }
                Ok(Rules(rules))
            }
        }
        deserializer.deserialize_any(MembersVisitor)
    }
}

/// Value of a rule: a text, or a number or flag, which is converted to text.
struct ValueText(String);

impl<'de> Deserialize<'de> for ValueText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl Visitor<'_> for MembersVisitor {
            type Value = ValueText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or a flag")
            }

            fn visit_str<E>(self, text: &str) -> Result<ValueText, E> {
                Ok(ValueText(text.into()))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<ValueText, E> {
                Ok(ValueText(flag.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<ValueText, E> {
                Ok(ValueText(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<ValueText, E> {
                Ok(ValueText(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<ValueText, E> {
                Ok(ValueText(number.to_string()))
            }
        }
        deserializer.deserialize_any(MembersVisitor)
    }
}

/// Documented deviation.
struct Named(&'static Deviation);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        registry::deviation(&name)
            .map(Self)
            .ok_or_else(|| de::Error::custom(format_args!("unknown deviation {name:?}")))
    }
}

/// Extras of a player or of a server, which have different keys.
struct Extras<const OF_PLAYER: bool>(Vec<Extra>);

impl<'de, const OF_PLAYER: bool> Deserialize<'de> for Extras<OF_PLAYER> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<const OF_PLAYER: bool>;
        impl<'de, const OF_PLAYER: bool> Visitor<'de> for MembersVisitor<OF_PLAYER> {
            type Value = Extras<OF_PLAYER>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut extras: Vec<Extra> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let key = known(&name, OF_PLAYER).map_err(de::Error::custom)?;
                    if extras.iter().any(|extra| extra.key == key) {
                        return Err(de::Error::duplicate_field(key));
                    }
                    if let Some(value) = map.next_value::<Option<Value>>()? {
                        extras.push(Extra::new(key, value));
                    }
                }
                Ok(Extras(extras))
            }
        }
        deserializer.deserialize_map(MembersVisitor::<OF_PLAYER>)
    }
}

/// Returns the documented key with this name.
fn known(name: &str, of_player: bool) -> Result<&'static str, String> {
    let keys = |info: &'static Info| {
        if of_player {
            info.player_fields
        } else {
            info.fields
        }
    };
    let mut known: Vec<&'static str> = Vec::new();
    for doc in registry::PROTOCOLS
        .iter()
        .flat_map(|protocol| keys(protocol.info()))
    {
        if doc.key == name {
            return Ok(doc.key);
        }
        if !known.contains(&doc.key) {
            known.push(doc.key);
        }
    }
    let name: String = name.chars().take(40).collect();
    Err(format!(
        "unknown extra {name:?}; known are {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use crate::support::report;
    use crate::transcript::Transcript;
    use proptest::prelude::*;
    use std::path::Path;
    use std::time::Duration;

    fn read(json: &str) -> Result<Status, String> {
        status(json.as_bytes()).map_err(|error| error.to_string())
    }

    /// Writes, reads and writes again. Asserts that both results are equal.
    fn assert_reads_back(parsed: &Status) {
        let json = serde_json::to_value(parsed).unwrap();
        let read =
            status(json.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }

    /// Returns the line of `hailer query --json` for a status.
    fn line(status: Status) -> Vec<u8> {
        let address = "192.0.2.7:25565".parse().unwrap();
        let protocol = registry::PROTOCOLS[0].info();
        let transcript = Transcript {
            sent: 1,
            received: 1,
            ..Transcript::new(protocol, address)
        };
        let mut line = Vec::new();
        report::AnswerLine::answered("x", &Answer::new(transcript, status.into(), Duration::ZERO))
            .write(&mut line);
        line
    }

    /// Reads the status of every recorded conversation back unchanged, alone and as part of a line.
    #[test]
    fn reads_every_recorded_status_back() {
        let mut count = 0;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/conversations");
        let mut folders = vec![root];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) else {
                    continue;
                };
                // Long lists of players are stored as a digest, which is no status.
                if json.get("players_listed").is_some() {
                    continue;
                }
                let parsed = status(text.as_bytes())
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert_eq!(
                    serde_json::to_value(&parsed).unwrap(),
                    json,
                    "{}",
                    path.display()
                );
                let again = status(&line(parsed)).unwrap();
                assert_eq!(
                    serde_json::to_value(&again).unwrap(),
                    json,
                    "{}",
                    path.display()
                );
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
    }

    #[test]
    fn reads_short_forms() {
        let parsed = read(
            r#"{ "name": "§aBob's", "motd": { "plain": "5 § a head" }, "players": { "max": 9, "list": ["Ann", { "name": "Bo",
                "uuid": "00000000000040008000000000000001", "extra": { "ping": 41, "position": [1.0, null, 3] } }] },
                "rules": { "pvp": true, "rate": 2, "owner": "me" }, "extra": { "software": null, "password": false } }"#,
        )
        .unwrap();
        assert_eq!(
            (
                parsed.name.as_ref().unwrap().plain().as_str(),
                parsed.players.online
            ),
            ("Bob's", Some(2))
        );
        assert_eq!(parsed.motd.as_ref().unwrap().plain(), "5 § a head");
        assert_eq!(
            (parsed.players.max, parsed.players.roster),
            (Some(9), Roster::Whole)
        );
        assert_eq!(
            parsed.players.list[1].uuid.map(u128::from_be_bytes),
            Some(0x4000_8000_0000_0000_0001)
        );
        let rules: Vec<_> = parsed
            .rules
            .iter()
            .map(|rule| (rule.key.as_str(), rule.value.as_str()))
            .collect();
        assert_eq!(rules, [("pvp", "true"), ("rate", "2"), ("owner", "me")]);
        assert_eq!(
            (parsed.extra.len(), parsed.extra("password")),
            (1, Some(&Value::Bool(false)))
        );
        assert_reads_back(&parsed);
        assert_eq!(read("{}"), Ok(Status::default()));
        assert_eq!(
            read(r#"{ "players": null, "extra": null, "rules": null, "address": null }"#),
            Ok(Status::default())
        );
        let line = r#"{ "schema": "hailer/answer/2", "target": "x", "address": "192.0.2.7:1", "status": { "map": "m" } }"#;
        assert_eq!(read(line).unwrap().map.as_deref(), Some("m"));
    }

    #[test]
    fn plugins_may_stand_in_the_status_itself() {
        let parsed = read(
            r#"{ "software": "Paper", "plugins": ["Shy", { "name": "WorldEdit", "version": "7.3" }], "extra": { "software": "x" } }"#,
        )
        .unwrap();
        assert_eq!(parsed.extra.len(), 2);
        assert_eq!(parsed.extra("software"), Some(&Value::Str("Paper".into())));
        let plugins = serde_json::to_value(parsed.extra("plugins")).unwrap();
        assert_eq!(
            plugins,
            serde_json::json!([{ "name": "Shy" }, { "name": "WorldEdit", "version": "7.3" }])
        );
        let problem = read("{\n\"plugins\": [3]}").unwrap_err();
        assert!(problem.starts_with("2: a plugin: a name, or"), "{problem}");
    }

    #[test]
    fn errors_name_their_line() {
        for (json, expected) in [
            ("", "1: EOF while parsing a value"),
            ("{\n\"motd\": \"half", "2: EOF while parsing a string"),
            (
                "{\n\n\"motdd\": 1}",
                "3: unknown field `motdd`, expected one of `name`, `motd`",
            ),
            (
                "{\n\"players\": {\"online\": \"many\"}}",
                "2: invalid type: string \"many\", expected i64",
            ),
            (
                "{\"players\": {\"online\": 1e999}}",
                "1: number out of range",
            ),
            (
                "{\"players\": {\"online\": 99999999999999999999}}",
                "1: invalid type: floating point",
            ),
            ("{\"players\": {\"list\": [{}]}}", "1: missing field `name`"),
            (
                "{\"players\": {\"list\": [{\n\"name\": \"a\", \"uuid\": \"12\"}]}}",
                "2: \"12\" is not a UUID",
            ),
            (
                "{\"name\": 1}",
                "1: invalid type: integer `1`, expected a text, or {\"plain\": …, \"raw\": …}",
            ),
            (
                "{\n\"extra\": {\"softwear\": 1}}",
                "2: unknown extra \"softwear\"; known are software, plugins",
            ),
            ("{\"deviations\": [\"x\"]}", "1: unknown deviation \"x\""),
            (
                "{\"map\": \"a\", \"map\": \"b\"}",
                "1: duplicate field `map`",
            ),
            ("{} {}", "1: trailing characters"),
            ("[]", "1: a status is an object: {…}"),
            (
                "\n{\"players\": 3}",
                "2: invalid type: integer `3`, expected an object, or a list of players",
            ),
            (
                "{\"schema\": \"hailer/answer/2\", \"status\": null}",
                "1: an answer without a status",
            ),
            ("{\"a\u{1b}[2J\u{202e}\": 1}", "1: "),
        ] {
            let problem = read(json).unwrap_err();
            assert!(
                problem.starts_with(expected) && problem.len() < 600,
                "{json:?}: {problem}"
            );
            assert_eq!(printable(&problem), problem);
        }
    }

    #[test]
    fn rejects_deep_and_long_documents() {
        let deep = |n| {
            format!(
                "{{\"extra\": {{\"software\": {}1{}}}}}",
                "[".repeat(n),
                "]".repeat(n)
            )
        };
        assert!(read(&deep(100)).is_ok());
        assert!(
            read(&deep(200_000))
                .unwrap_err()
                .contains("recursion limit")
        );
        assert!(
            read(&" ".repeat(MAX_BYTES + 1))
                .unwrap_err()
                .contains("longer than")
        );
    }

    proptest! {
        #[test]
        fn never_panics(json in r#"(\{|\}|\[|\]|,|:|"(name|motd|players|list|extra|rules|raw|uuid|id)"|-?[0-9]{1,25}|null|true|1e[0-9]{3}| |\n){0,40}"#) {
            let _ = read(&json);
        }

        #[test]
        fn rejects_half_a_document(cut in 0_usize..95) {
            let whole = r#"{"motd": "Hello", "players": {"online": 1, "max": 20, "list": [{"name": "Alice", "uuid": null}]}}"#;
            prop_assert!(read(whole).is_ok() && read(&whole[..cut]).is_err());
        }
    }
}
