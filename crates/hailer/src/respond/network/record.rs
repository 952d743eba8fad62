//! The hash of a server and the entries of its players (spec/onequery.md#12.2).

use hailer_proto::Text;
use hailer_proto::model::uuid_from_text;
use serde_json::Value;

/// Maximum size of a name, an id or a host in bytes. Longer ones in Redis are cut or skipped.
pub(super) const MAX_TEXT: usize = 255;

/// The fields of the hash of a server, in the order in which they are read.
pub(super) const FIELDS: [&str; 6] = [
    "serverName",
    "playerCount",
    "maxPlayers",
    "port",
    "lastHeartbeat",
    "host",
];

/// The hash of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) host: Option<String>,
    pub(super) port: u16,
    pub(super) max: i64,
    /// Number of players as reported by the server. The list has precedence.
    pub(super) count: Option<i64>,
    /// Milliseconds since 1970 by the clock of that server.
    pub(super) heartbeat: Option<i64>,
}

impl Record {
    /// Parses the values of [`FIELDS`]; `None` if all are missing. Numbers are parsed leniently,
    /// like in the reference.
    pub(super) fn read(values: &[Option<Vec<u8>>]) -> Option<Self> {
        if values.iter().all(Option::is_none) {
            return None;
        }
        let text = |i: usize| values.get(i)?.as_deref().map(text);
        let number = |i: usize| text(i)?.trim().parse::<i64>().ok();
        Some(Self {
            name: text(0).unwrap_or_default(),
            count: number(1),
            max: number(2).unwrap_or(100).max(0),
            port: number(3)
                .and_then(|port| port.try_into().ok())
                .unwrap_or(5520),
            heartbeat: number(4),
            host: text(5).filter(|host| !host.trim().is_empty()),
        })
    }

    /// Returns fields and values, without the count, which only the script knows.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("serverName", self.name.clone()),
            ("maxPlayers", self.max.to_string()),
            ("port", self.port.to_string()),
        ];
        fields.extend(
            self.heartbeat
                .map(|heartbeat| ("lastHeartbeat", heartbeat.to_string())),
        );
        fields.extend(self.host.clone().map(|host| ("host", host)));
        fields
    }
}

/// A player on a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Name of the player in the game.
    pub name: Text,
    /// When the player joined, in milliseconds since 1970 by the clock of that server.
    pub joined: i64,
}

impl Member {
    /// Parses a field and a value of a players hash; `None` without a valid UUID and name.
    pub(super) fn read(field: &[u8], value: &[u8], now: i64) -> Option<([u8; 16], Self)> {
        let uuid = uuid(std::str::from_utf8(field).ok()?)?;
        // Parsed as a tree, because the reference accepts duplicate members too.
        let Value::Object(entry) = serde_json::from_slice(value).ok()? else {
            return None;
        };
        let name = entry
            .get("username")?
            .as_str()
            .filter(|name| !name.trim().is_empty())?;
        let joined = entry.get("joinTime").and_then(integer).unwrap_or(now);
        Some((
            uuid,
            Self {
                name: Text::unformatted(cut(name)),
                joined,
            },
        ))
    }

    /// Returns the value for a players hash.
    pub(super) fn write(&self) -> String {
        let name = Value::from(self.name.raw());
        format!(r#"{{"username":{name},"joinTime":{}}}"#, self.joined)
    }
}

fn integer(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| Some(value.as_f64()? as i64))
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// Parses a UUID with hyphens, in any case.
pub(super) fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = text.match_indices('-').map(|(at, _)| at);
    hyphens.eq([8, 13, 18, 23]).then(|| uuid_from_text(text))?
}

/// Converts bytes to text of limited length.
pub(super) fn text(bytes: &[u8]) -> String {
    let most = &bytes[..bytes.len().min(MAX_TEXT * 4)];
    cut(&String::from_utf8_lossy(most)).to_owned()
}

/// Cuts a text to the maximum length, at a character boundary.
pub(super) fn cut(text: &str) -> &str {
    hailer_proto::wire::cut(text, MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::model::uuid_text;
    use proptest::prelude::*;

    fn values(texts: [Option<&str>; 6]) -> Vec<Option<Vec<u8>>> {
        texts
            .map(|text| text.map(|text| text.as_bytes().to_vec()))
            .to_vec()
    }

    #[test]
    fn parses_numbers_leniently() {
        let bad = values([
            Some("Lobby"),
            Some("x"),
            Some(""),
            Some("70000"),
            Some("soon"),
            Some(" "),
        ]);
        let record = Record::read(&bad).unwrap();
        let wanted = Record {
            name: "Lobby".into(),
            host: None,
            port: 5520,
            max: 100,
            count: None,
            heartbeat: None,
        };
        assert_eq!(record, wanted);
        assert_eq!(Record::read(&values([None; 6])), None);
        assert!(Record::read(&values([None, Some("3"), None, None, None, None])).is_some());
    }

    #[test]
    fn reads_an_entry_of_the_reference() {
        let uuid = "00010203-0405-0607-0809-0A0B0C0D0E0F";
        let gson = br#"{"username":"\u003cA\u0026B\u003d\u0027\u003e","joinTime":1773792000000}"#;
        let (bytes, member) = Member::read(uuid.as_bytes(), gson, 0).unwrap();
        assert_eq!(uuid_text(&bytes), uuid.to_lowercase());
        assert_eq!(
            (member.name.raw(), member.joined),
            ("<A&B='>", 1_773_792_000_000)
        );
    }

    #[test]
    fn skips_invalid_entries() {
        let uuid = b"00010203-0405-0607-0809-0a0b0c0d0e0f";
        for broken in [
            r#"{}"#,
            "",
            "null",
            r#"{"username":null}"#,
            r#"{"username":7}"#,
            r#"{"username":" "}"#,
            "[1",
        ] {
            assert_eq!(Member::read(uuid, broken.as_bytes(), 0), None, "{broken}");
        }
        assert_eq!(Member::read(b"nobody", br#"{"username":"A"}"#, 0), None);
        let (_, member) = Member::read(uuid, br#"{"username":"A","joinTime":"x"}"#, 9).unwrap();
        assert_eq!(member.joined, 9, "only the time is broken");
    }

    proptest! {
        #[test]
        fn entries_survive_a_round_trip(name in "\\PC{1,40}", joined in 0..i64::MAX, uuid: [u8; 16]) {
            prop_assume!(!name.trim().is_empty());
            let member = Member { name: Text::unformatted(cut(&name)), joined };
            let read = Member::read(uuid_text(&uuid).as_bytes(), member.write().as_bytes(), 0);
            prop_assert_eq!(read, Some((uuid, member)));
        }

        #[test]
        fn records_survive_a_round_trip(name in "\\PC{0,60}", port: u16, max in 0..i64::MAX, heartbeat: Option<i64>, host in "[a-z.]{0,9}") {
            let host = Some(host).filter(|host| !host.is_empty());
            let record = Record { name, host, port, max, count: None, heartbeat };
            let fields = record.fields();
            let value = |name: &str| fields.iter().find(|field| field.0 == name).map(|field| field.1.clone().into_bytes());
            prop_assert_eq!(Record::read(&FIELDS.map(value)), Some(record));
        }

        #[test]
        fn nothing_panics(bytes: Vec<u8>, field: Vec<u8>) {
            let _ = Member::read(&field, &bytes, 0);
            let _ = text(&bytes);
            let _ = Record::read(&[Some(bytes.clone()), Some(bytes.clone()), Some(bytes.clone()), Some(bytes)]);
        }
    }
}
