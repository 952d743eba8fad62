//! A status to pairs and tables.

use super::MAX_FIELD_NAME;
use super::status::{MAX_ROW, NO_TEAM, codes, first_team, is_member_key, is_name_field};
use crate::model::{Player, Status, Value};
use crate::wire::{Latin1, cut, decimal};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use compact_str::CompactString;

/// Longest key that a responder sends, in bytes.
const MAX_KEY: usize = 64;
/// Longest value that a responder sends, in bytes.
const MAX_VALUE: usize = 256;
/// Limit of fields besides the known ones, for each row.
const MAX_FIELDS: usize = 16;

/// Contents of the replies of a GameSpy responder, as clean text.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Game and version.
    pub basic: Vec<(String, String)>,
    /// The other known keys.
    pub info: Vec<(String, String)>,
    /// Rules of the server, as keys and values.
    pub rules: Vec<(String, String)>,
    /// Players. Every row has a field `player`.
    pub players: Vec<Row>,
    /// Teams. Every row has a field `team`.
    pub teams: Vec<Row>,
    /// Whether texts are UTF-8 instead of ISO-8859-1.
    is_utf8: bool,
}

/// A row of a table. Field names have no suffix.
#[derive(Debug)]
pub(crate) struct Row {
    /// Number of the row, or slot of the player.
    pub number: u32,
    /// Names and values.
    pub fields: Vec<(String, String)>,
}

/// Differences between the protocols.
pub(crate) struct Dialect {
    /// Characters that end a text. They become spaces.
    pub ends: &'static [char],
    /// Field name of the score.
    pub score: &'static str,
    /// Whether rows keep the slots of players.
    pub has_slots: bool,
    /// Whether every player has a score and a ping, 0 if the status has none: rust gamedig refuses
    /// the reply otherwise.
    pub needs_members: bool,
    /// Whether a key means something else than a setting.
    pub is_reserved: fn(&str) -> bool,
}

impl Outgoing {
    /// Collects the contents from a status.
    pub(crate) fn new(status: &Status, dialect: &Dialect) -> Self {
        let status = &*status.with_codes(codes(status.game.as_deref()));
        let clean = |text: &str| dialect.clean(text, MAX_VALUE);
        let pair = |key: &str, value: &str| (key.to_string(), clean(value));
        let option = |key: &str, value: Option<&str>| value.map(|value| pair(key, value));
        let name = match &status.name {
            Some(name) => String::from(name.raw()),
            None => status.title().unwrap_or_default(),
        };
        let address = status.address.as_ref();
        let port = address.and_then(|address| address.port);
        // Clients refuse replies without the key.
        let has_password = if status.has_password == Some(true) {
            "1"
        } else {
            "0"
        };
        let mut info: Vec<_> = alloc::vec![pair("hostname", &name)];
        info.extend(port.map(|port| pair("hostport", &port.to_string())));
        info.extend(option(
            "hostip",
            address.and_then(|address| address.host.as_deref()),
        ));
        info.push(pair("mapname", status.map.as_deref().unwrap_or_default()));
        info.push(pair("gametype", status.mode.as_deref().unwrap_or_default()));
        info.push(pair("numplayers", &status.players.count().to_string()));
        info.extend(
            status
                .players
                .max
                .map(|max| pair("maxplayers", &max.to_string())),
        );
        info.push(pair("password", has_password));
        // Clients refuse replies without a version, or show another one.
        let version = pair("gamever", status.version.as_deref().unwrap_or_default());
        let game = option("gamename", status.game.as_deref());
        let mut out = Self {
            basic: game.into_iter().chain([version]).collect(),
            info,
            rules: dialect.rules(status),
            players: Vec::new(),
            teams: dialect.teams(status),
            is_utf8: false,
        };
        out.players = dialect.players(status, &out.teams);
        out.is_utf8 = status.is_utf8 || !out.texts().all(fits_latin1);
        out
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let pairs = [&self.basic, &self.info, &self.rules].into_iter().flatten();
        let rows = self.players.iter().chain(&self.teams);
        pairs
            .chain(rows.flat_map(|row| &row.fields))
            .flat_map(|(key, value)| [key.as_str(), value.as_str()])
    }

    /// Appends a text in the encoding of the reply.
    pub(crate) fn text(&self, text: &str, out: &mut Vec<u8>) {
        if self.is_utf8 {
            out.extend_from_slice(text.as_bytes());
        } else {
            out.extend(text.chars().map(|c| Latin1::byte(c).unwrap_or(b'?')));
        }
    }

    /// Returns all pairs, group by group.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &(String, String)> {
        [&self.basic, &self.info, &self.rules].into_iter().flatten()
    }
}

impl Row {
    /// Returns the value of a field, or an empty text.
    pub(crate) fn value(&self, field: &str) -> &str {
        let mut fields = self.fields.iter();
        fields
            .find(|(name, _)| name == field)
            .map_or("", |(_, value)| value)
    }

    /// Returns the names of all fields of these rows, each once.
    pub(crate) fn columns(rows: &[Self], limit: usize) -> Vec<&str> {
        let mut columns: Vec<&str> = Vec::new();
        for (name, _) in rows.iter().flat_map(|row| &row.fields) {
            if columns.len() < limit && !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
        columns
    }
}

impl Dialect {
    /// Returns a text of at most `limit` bytes without the characters that would end it.
    fn clean(&self, text: &str, limit: usize) -> String {
        let text = cut(text, limit);
        let replace = |c: char| if self.ends.contains(&c) { ' ' } else { c };
        text.chars().map(replace).collect()
    }

    fn rules(&self, status: &Status) -> Vec<(String, String)> {
        let mut rules: Vec<(String, String)> = Vec::new();
        for rule in &status.rules {
            let key = self.clean(&rule.key, MAX_KEY);
            let is_taken = is_member_key(key.as_bytes()) || (self.is_reserved)(&key);
            if key.is_empty() || is_taken || rules.iter().any(|(earlier, _)| *earlier == key) {
                continue;
            }
            rules.push((key, self.clean(&rule.value, MAX_VALUE)));
        }
        rules
    }

    /// Returns the teams of the status, then those that only players name.
    fn teams(&self, status: &Status) -> Vec<Row> {
        let mut teams: Vec<Row> = Vec::new();
        let listed = match status.extra("teams") {
            Some(Value::List(teams)) => teams.as_slice(),
            _ => &[],
        };
        for team in listed {
            let Value::Table(entries) = team else {
                continue;
            };
            let name = entries.iter().find(|(key, _)| key == "name");
            let name = name.map(|(_, name)| name.to_string()).unwrap_or_default();
            let mut fields = alloc::vec![(String::from("team"), self.clean(&name, MAX_VALUE))];
            let others = entries
                .iter()
                .filter(|(key, _)| !["name", "team", "teamname"].contains(&&**key));
            self.add_fields(others, &mut fields);
            self.add_team(fields, &mut teams);
        }
        for player in &status.players.list {
            let name = player.team.as_deref().unwrap_or_default();
            self.add_team(
                alloc::vec![(String::from("team"), self.clean(name, MAX_VALUE))],
                &mut teams,
            );
        }
        teams
    }

    /// Adds a team unless its name is empty or another team has it.
    fn add_team(&self, mut fields: Vec<(String, String)>, teams: &mut Vec<Row>) {
        // Clients refuse teams without the field.
        if !fields.iter().any(|(field, _)| field == "score") {
            fields.push(("score".into(), "0".into()));
        }
        let row = Row {
            number: teams.len() as u32,
            fields,
        };
        let name = row.value("team");
        let is_known = teams.iter().any(|team| team.value("team") == name);
        if !name.trim().is_empty() && !is_known && row.number <= MAX_ROW {
            teams.push(row);
        }
    }

    fn players(&self, status: &Status, teams: &[Row]) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for player in &status.players.list {
            let name = self.clean(player.name.raw(), MAX_VALUE);
            let next = rows.last().map_or(0, |last| last.number + 1);
            let number = match player.extra.iter().find(|extra| extra.key == "slot") {
                Some(slot) if self.has_slots => {
                    slot_number(&slot.value).map_or(next, |s| s.max(next))
                }
                _ => next,
            };
            if name.is_empty() || number > MAX_ROW {
                continue;
            }
            let mut fields = alloc::vec![(String::from("player"), name)];
            self.add_members(player, status.game.as_deref(), teams, &mut fields);
            for extra in player.extra.iter().filter(|extra| extra.key == "fields") {
                if let Value::Table(entries) = &extra.value {
                    let others = entries
                        .iter()
                        .filter(|(key, _)| !is_name_field(key.as_bytes()) && key != "team");
                    self.add_fields(others, &mut fields);
                }
            }
            rows.push(Row { number, fields });
        }
        rows
    }

    fn add_members(
        &self,
        player: &Player,
        game: Option<&str>,
        teams: &[Row],
        fields: &mut Vec<(String, String)>,
    ) {
        let default = self.needs_members.then_some(0);
        if let Some(score) = player.score.or(default) {
            fields.push((self.score.into(), score.to_string()));
        }
        if let Some(ping) = player.latency_ms.map(i64::from).or(default) {
            fields.push(("ping".into(), ping.to_string()));
        }
        let name = self.clean(player.team.as_deref().unwrap_or_default(), MAX_VALUE);
        // Clients refuse players without the field, and qstat adds the next pair to a name that no
        // known field follows.
        let team = teams.iter().find(|team| team.value("team") == name);
        let number = team.map(|team| (team.number + first_team(game)).to_string());
        fields.push(("team".into(), number.unwrap_or_else(|| NO_TEAM.into())));
    }

    /// Adds further fields of a row, each once.
    fn add_fields<'a>(
        &self,
        entries: impl Iterator<Item = &'a (CompactString, Value)>,
        fields: &mut Vec<(String, String)>,
    ) {
        for (name, value) in entries.take(MAX_FIELDS) {
            let value = self.clean(&value.to_string(), MAX_VALUE);
            let is_repeated = fields.iter().any(|(known, _)| known == name);
            if is_field_name(name) && !is_repeated && !value.trim().is_empty() {
                fields.push((String::from(name.as_str()), value));
            }
        }
    }
}

fn slot_number(slot: &Value) -> Option<u32> {
    match slot {
        Value::Int(slot) => u32::try_from(*slot).ok(),
        _ => None,
    }
}

/// Returns whether every GameSpy protocol can carry a field name.
fn is_field_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MAX_FIELD_NAME).contains(&name.len())
        && name.bytes().all(is_allowed)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns whether ISO-8859-1 can represent a text, and its bytes are not also valid UTF-8: readers
/// detect the encoding by content.
pub(crate) fn fits_latin1(text: &str) -> bool {
    let bytes: Option<Vec<u8>> = text.chars().map(Latin1::byte).collect();
    bytes.is_some_and(|bytes| text.is_ascii() || core::str::from_utf8(&bytes).is_err())
}

/// Returns whether a key is a known word with the number of a row, such as `frags_3` or `score_t1`.
/// Parsers take such keys for fields of players and teams.
pub(crate) fn has_index(key: &str) -> bool {
    key.rsplit_once('_').is_some_and(|(_, end)| {
        let digits = end.strip_prefix('t').unwrap_or(end);
        decimal(digits.as_bytes()).is_some()
    })
}
