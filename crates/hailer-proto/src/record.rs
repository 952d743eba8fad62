//! Statuses from JSON.
//!
//! In: the `status` object of `schema/answer-v2.json`. Out: a status whose deviations are those of
//! the protocols.
//!
//! May import: `crate::model`, `crate::registry`, `crate::wire`.

use crate::model::{Address, Extra, Icon, Players, Rule, Status, Text, read_extras};
use crate::registry;
use crate::wire::{Deviation, UNKNOWN_DEVIATION};
use alloc::vec::Vec;
use compact_str::CompactString;
use serde::{Deserialize, Deserializer};

/// A status as JSON has it: its deviations are names. For programs that define other protocols,
/// whose deviations `Deserialize` of [`Status`] does not know.
///
/// Missing members are unknown or empty. Other members are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StatusRecord {
    name: Option<Text>,
    motd: Option<Text>,
    game: Option<CompactString>,
    mode: Option<CompactString>,
    map: Option<CompactString>,
    version: Option<CompactString>,
    players: Players,
    rules: Vec<Rule>,
    address: Option<Address>,
    password: Option<bool>,
    anti_cheat: Option<bool>,
    icon: Option<Icon>,
    #[serde(deserialize_with = "read_extras")]
    extra: Vec<Extra>,
    deviations: Vec<CompactString>,
}

impl StatusRecord {
    /// Returns the status, whose deviations `find` looks up by name. All that it does not find become
    /// one [`UNKNOWN_DEVIATION`].
    pub fn into_status(self, find: impl Fn(&str) -> Option<&'static Deviation>) -> Status {
        let mut status = Status {
            name: self.name,
            motd: self.motd,
            game: self.game,
            mode: self.mode,
            map: self.map,
            version: self.version,
            players: self.players,
            rules: self.rules,
            address: self.address,
            has_password: self.password,
            has_anti_cheat: self.anti_cheat,
            icon: self.icon,
            extra: self.extra,
            ..Status::default()
        };
        let names = self.deviations.iter();
        status.add_deviations(names.map(|name| find(name).unwrap_or(&UNKNOWN_DEVIATION)));
        status
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = StatusRecord::deserialize(deserializer)?;
        Ok(record.into_status(registry::deviation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Player;
    use crate::model::{Carets, Codes, Roster, Rows, Value};
    use alloc::vec;

    fn read(json: &str) -> Status {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn members_of_later_versions_are_ignored_or_kept() {
        assert_eq!(read("{}"), Status::default());
        let status = read(
            r#"{"name": null, "ping": {"new": [1]}, "players": {"roster": "hidden", "list": [{"name": {"plain": "A", "raw": "A", "html": ""}, "rank": 1}]},
                "extra": {"new-key": {"a": [1, 2.5, "b", true, null]}}, "deviations": ["new", "newer", "unreadable-message"]}"#,
        );
        assert_eq!(status.players.roster, Roster::Partial);
        assert_eq!(status.players.list, [Player::named(Text::unformatted("A"))]);
        let list = vec![
            1.into(),
            Value::Float(2.5),
            "b".into(),
            true.into(),
            Value::Float(f64::NAN),
        ];
        let table = Value::Table(vec![("a".into(), Value::List(list))]);
        assert_eq!(status.extra, [Extra::new("new-key", table)]);
        let names: Vec<&str> = status.deviations.iter().map(|met| met.name).collect();
        assert_eq!(names, ["unknown-deviation", "unreadable-message"]);
    }

    #[test]
    fn times_without_a_number_are_not_unknown_times() {
        let players = r#"{"players": {"list": [{"name": {"plain": "A"}, "time_s": null}, {"name": {"plain": "B"}}]}}"#;
        let list = read(players).players.list;
        assert!(list[0].time_s.is_some_and(f32::is_nan) && list[1].time_s.is_none());
        assert!(list[0] == list[0].clone() && list[0] != list[1]);
    }

    #[test]
    fn values_are_equal_if_their_json_is() {
        let mut rows = Rows::with_capacity(&(&["name", "version"] as &[_]), 2);
        rows.push([Some("WorldEdit"), Some("5.3")]);
        rows.push([Some("Shy"), None]);
        for value in [
            Value::Rows(rows),
            Value::Point([0.5, -1.0, f64::INFINITY]),
            Value::Float(1.0),
            Value::Int(1),
        ] {
            let json = serde_json::to_string(&value).unwrap();
            let back: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(back, value);
            assert_eq!(value, back);
            assert_eq!(serde_json::to_string(&back).unwrap(), json);
            for other in [Value::Int(2), Value::Float(2.0), Value::List(vec![])] {
                assert_ne!(value, other);
                assert_ne!(other, value);
                assert_ne!(back, other);
            }
        }
        assert_ne!(Value::Int(1), Value::Float(1.0));
    }

    #[test]
    fn the_protocol_decides_between_codes_with_one_plain_form() {
        let name = |codes: Codes, raw: &str| Status {
            name: Some(codes.parse(raw)),
            ..Status::default()
        };
        for (codes, raw) in [
            (Codes::Bedrock, "\u{A7}l\u{A7}aHello"),
            (Codes::Carets(Carets::Digit), "^8Hello"),
            (Codes::Unreal, "\u{1B}\u{1}\u{1}\u{1}Hello"),
        ] {
            let status = name(codes, raw);
            let mut back = read(&serde_json::to_string(&status).unwrap());
            assert_ne!(back, status, "{raw:?}");
            back.assume_codes(codes);
            assert_eq!(back, status, "{raw:?}");
            back.assume_codes(Codes::None);
            assert_eq!(back, status, "{raw:?}");
        }
    }

    #[test]
    fn invalid_members_are_errors() {
        for json in [
            r#"{"name": "text"}"#,
            r#"{"icon": "data:"}"#,
            r#"{"players": {"list": [{}]}}"#,
            r#"{"players": {"list": [{"name": {"plain": ""}, "uuid": "0"}]}}"#,
            r#"{"address": {"port": 65536}}"#,
        ] {
            assert!(serde_json::from_str::<Status>(json).is_err(), "{json}");
        }
    }
}
