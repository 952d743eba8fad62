//! The last answer of a server: fields that a row of the list does not show, and its datagrams,
//! explained field by field by the regular parser.

use crate::sample::Millis;
use crate::state::LastStatus;
use crate::state::find::{SearchTerms, natural};
use crate::web::page::past::PlayerOrder;
use crate::web::show::{self, ShortText};
use hailer::proto::model::{
    Extra, Member, PLAYER_MEMBERS, Player, Roster, STATUS_MEMBERS, Status, Unit, Value,
};
use hailer::proto::registry;
use hailer::proto::wire::{Deviation, Field, Notes};
use hailer::proto::{DatagramContext, Protocol};
use std::cmp::Ordering;
use std::fmt::Write;

/// Maximum number of fields shown, over all datagrams; the others are counted.
const MAX_FIELDS: usize = 800;
/// Maximum number of datagrams shown.
const MAX_DATAGRAMS: usize = 32;
/// Maximum number of bytes shown per field, and bytes per line.
const MAX_FIELD_BYTES: usize = 64;
const BYTES_PER_ROW: usize = 16;
/// Maximum number of rules, extras and players shown, and maximum length of a value in characters.
const MAX_ENTRIES: usize = 500;
const MAX_VALUE_CHARS: usize = 600;

/// Details of a status that a row does not show.
#[derive(Default)]
pub(crate) struct Details {
    /// Rules of the server.
    pub(crate) rules: Vec<Entry>,
    /// Fields of this protocol only.
    pub(crate) extras: Vec<Entry>,
    /// Deviations from the protocol: name and meaning.
    pub(crate) deviations: Vec<Entry>,
    /// Game mode, as the server names it.
    pub(crate) mode: Option<ShortText>,
    /// Address that the server reports for itself.
    pub(crate) own_address: Option<String>,
    /// Why the list of players is incomplete, or can be.
    pub(crate) roster: Option<&'static str>,
    pub(crate) players: PlayerTable,
    /// Whether the server has rules and extras, even if the search hides all of them.
    pub(crate) has_rules: bool,
    pub(crate) has_extras: bool,
}

/// The listed players.
#[derive(Default)]
pub(crate) struct PlayerTable {
    /// Members that at least one player has.
    pub(crate) columns: Vec<&'static Member<Player>>,
    /// Whether a player has extras.
    pub(crate) has_extras: bool,
    pub(crate) rows: Vec<PlayerRow>,
    /// Number of players not shown.
    pub(crate) more: usize,
}

/// A listed player.
pub(crate) struct PlayerRow {
    pub(crate) name: ShortText,
    /// A value for each column, and as text.
    values: Vec<Option<Value>>,
    pub(crate) cells: Vec<ShortText>,
    pub(crate) extras: ShortText,
}

/// Name, explanation and value.
pub(crate) struct Entry {
    pub(crate) key: ShortText,
    pub(crate) help: &'static str,
    pub(crate) value: ShortText,
}

impl Details {
    /// Shows the status of the last reply.
    pub(crate) fn of(last: &LastStatus, protocol: Option<&dyn Protocol>) -> Self {
        let status = last.status().unwrap_or_default();
        let info = protocol.map(Protocol::info);
        let mut details = Self {
            mode: status.mode.as_deref().map(|mode| show::cut(mode, 60)),
            own_address: status.address.as_ref().map(|address| {
                let host = address.host.as_deref().unwrap_or("…");
                let port = address.port.map(|port| format!(":{port}"));
                show::cut(&format!("{host}{}", port.unwrap_or_default()), 120).text
            }),
            roster: match status.players.roster {
                Roster::Partial if status.players.has_all_players() => {
                    Some("The list has more players than the count that the server reports.")
                }
                Roster::Partial => {
                    Some("The list has fewer players than the count that the server reports.")
                }
                Roster::Sample if status.players.has_all_players() => Some(
                    "Sessions are not recorded, because the server lists only a sample when it has more players.",
                ),
                Roster::Sample => Some(
                    "The server lists only a sample of its players, so sessions are not recorded.",
                ),
                Roster::Refused => {
                    Some("The server requires an authentication token to list players.")
                }
                _ => None,
            },
            ..Self::default()
        };
        for rule in status.rules.iter().take(MAX_ENTRIES) {
            details.rules.push(Entry::new(&rule.key, "", &rule.value));
        }
        for member in STATUS_MEMBERS {
            if let Some(value) = (member.value)(&status) {
                let entry = Entry::new(member.title, member.help, &text(&value));
                details.extras.push(entry);
            }
        }
        for extra in status.extra.iter().take(MAX_ENTRIES) {
            let docs = info.map(|info| info.fields).unwrap_or_default();
            let doc = docs.iter().find(|doc| doc.key == extra.key);
            let help = doc.map_or("", |doc| doc.help);
            let value = text(&extra.value);
            details
                .extras
                .push(Entry::new(&title(&extra.key), help, &value));
        }
        for deviation in status.deviations.iter().take(MAX_ENTRIES) {
            let entry = Entry::new(deviation.name, deviation.help, "");
            details.deviations.push(entry);
        }
        details.players = PlayerTable::of(last, &status);
        details
    }
}

impl Details {
    /// Hides entries that do not match the search.
    pub(crate) fn keep(&mut self, words: &SearchTerms) {
        self.has_rules = !self.rules.is_empty();
        self.has_extras = !self.extras.is_empty();
        if words.is_empty() {
            return;
        }
        let fits = |entry: &Entry| words.are_in_one_of(&[entry.key.whole(), entry.value.whole()]);
        for list in [&mut self.rules, &mut self.extras] {
            list.retain(fits);
        }
        self.players.keep(words);
    }
}

impl PlayerTable {
    fn of(last: &LastStatus, status: &Status) -> Self {
        let mut table = Self {
            more: last.players.len().saturating_sub(MAX_ENTRIES),
            ..Self::default()
        };
        // The names come from the row, which honors the privacy settings. The status only adds the
        // other fields of a player.
        let listed: Vec<_> = last
            .players
            .iter()
            .zip(0..MAX_ENTRIES)
            .map(|(name, place)| {
                let player = status.players.list.get(place);
                (name, player.filter(|player| player.name.plain() == *name))
            })
            .collect();
        let is_known = |member: &&Member<Player>| {
            let mut players = listed.iter().filter_map(|(_, player)| *player);
            players.any(|player| (member.value)(player).is_some())
        };
        table.columns = PLAYER_MEMBERS.iter().filter(is_known).collect();
        for (name, player) in listed {
            let row = PlayerRow::of(name, player, &table.columns);
            table.has_extras |= !row.extras.text.is_empty();
            table.rows.push(row);
        }
        table
    }

    /// Returns whether the table has no players.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of players, including those not shown.
    pub(crate) fn count(&self) -> usize {
        self.rows.len() + self.more
    }

    /// Returns whether the server reports only names.
    pub(crate) fn has_only_names(&self) -> bool {
        self.columns.is_empty() && !self.has_extras
    }

    /// Returns the value of `aria-sort` for the heading with this order.
    pub(crate) fn direction(&self, heading: PlayerOrder, chosen: PlayerOrder) -> &'static str {
        let is_text = |key| {
            let column = self.columns.iter().position(|member| member.key == key);
            let mut rows = self.rows.iter();
            column.is_some_and(|column| {
                rows.any(|row| matches!(row.values.get(column), Some(Some(Value::Str(_)))))
            })
        };
        match heading {
            _ if heading != chosen => "none",
            PlayerOrder::Member(key) if !is_text(key) => "descending",
            _ => "ascending",
        }
    }

    /// Hides players that do not match the search.
    fn keep(&mut self, words: &SearchTerms) {
        self.rows.retain(|row| {
            let mut texts = vec![row.name.whole(), row.extras.whole()];
            texts.extend(row.cells.iter().map(ShortText::whole));
            words.are_in_one_of(&texts)
        });
        self.more = 0;
    }

    /// Sorts the players.
    pub(crate) fn sort(&mut self, order: PlayerOrder) {
        match order {
            PlayerOrder::Server => {}
            PlayerOrder::Name => self
                .rows
                .sort_by(|a, b| natural(&a.name.text, &b.name.text)),
            PlayerOrder::Member(key) => {
                let column = self.columns.iter().position(|member| member.key == key);
                if let Some(column) = column {
                    self.rows.sort_by(|a, b| {
                        let [a, b] = [a, b].map(|row| row.values.get(column)?.as_ref());
                        by_value(a, b)
                    });
                }
            }
        }
    }
}

/// Compares two values for a list: the highest number first, texts in alphabetical order, missing
/// values last.
fn by_value(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Int(a)), Some(Value::Int(b))) => b.cmp(a),
        (Some(Value::Float(a)), Some(Value::Float(b))) => b.total_cmp(a),
        (Some(a), Some(b)) => natural(&text(a), &text(b)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

impl PlayerRow {
    fn of(name: &str, player: Option<&Player>, columns: &[&'static Member<Player>]) -> Self {
        let value = |member: &&'static Member<Player>| (member.value)(player?);
        let values: Vec<Option<Value>> = columns.iter().map(value).collect();
        let cell = |(member, value): (&&'static Member<Player>, &Option<Value>)| {
            let value = value.as_ref();
            let cell = value.map(|value| with_unit(value, member.unit));
            show::cut(&cell.unwrap_or_default(), 60)
        };
        let cells = columns.iter().zip(&values).map(cell).collect();
        let listed = player.iter().flat_map(|player| &player.extra);
        let extras: Vec<String> = listed.filter_map(of_player).collect();
        let extras = extras.join(" · ");
        Self {
            name: show::cut(name, 80),
            values,
            cells,
            extras: show::cut(&extras, MAX_VALUE_CHARS),
        }
    }
}

/// Formats a value of a player for people.
fn with_unit(value: &Value, unit: Option<Unit>) -> String {
    match (value, unit) {
        (Value::Float(seconds), Some(Unit::Seconds)) => show::length((seconds * 1_000.0) as Millis),
        (value, Some(unit)) => format!("{}\u{A0}{}", text(value), unit.symbol()),
        (value, None) => text(value),
    }
}

impl Entry {
    fn new(key: &str, help: &'static str, value: &str) -> Self {
        Self {
            key: show::cut(key, 80),
            help,
            value: show::cut(value, MAX_VALUE_CHARS),
        }
    }
}

/// Formats a key as a title: `max-players` becomes `Max players`.
fn title(key: &str) -> String {
    let mut title = key.replace('-', " ");
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// Formats a value for people. Stops at four times the length that is shown.
fn text(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

fn write(out: &mut String, value: &Value) {
    if out.len() > MAX_VALUE_CHARS * 4 {
        return;
    }
    match value {
        Value::List(values) => {
            for (nth, value) in values.iter().enumerate() {
                out.push_str(if nth > 0 { ", " } else { "" });
                write(out, value);
            }
        }
        Value::Table(entries) => match &entries[..] {
            // A name and a version need no labels.
            [(name, first), (version, second)] if name == "name" && version == "version" => {
                write(out, first);
                out.push('\u{A0}');
                write(out, second);
            }
            _ => {
                for (nth, (key, value)) in entries.iter().enumerate() {
                    named(out, nth, key, value);
                }
            }
        },
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn named(out: &mut String, nth: usize, key: &str, value: &Value) {
    out.push_str(if nth == 0 { "" } else { " · " });
    let _ = write!(out, "{key}\u{A0}");
    write(out, value);
}

/// Formats a field of a player. A flag is its name, or nothing.
fn of_player(extra: &Extra) -> Option<String> {
    let key = match &*extra.key {
        "text" => "text of the owner".to_owned(),
        key => key.replace('-', " "),
    };
    match &extra.value {
        Value::Bool(false) => None,
        Value::Bool(true) => Some(key),
        value => {
            let mut out = String::new();
            named(&mut out, 0, &key, value);
            Some(out)
        }
    }
}

/// A datagram, explained.
pub(crate) struct Datagram {
    pub(crate) message: String,
    /// Numbers of bytes and of fields.
    pub(crate) size: String,
    pub(crate) fields: Vec<FieldLine>,
    /// Number of fields not shown.
    pub(crate) more: usize,
    pub(crate) deviations: Vec<String>,
    pub(crate) error: Option<String>,
}

/// A field, or bytes that belong to no field.
pub(crate) struct FieldLine {
    pub(crate) offset: usize,
    pub(crate) bytes: String,
    pub(crate) name: String,
    pub(crate) value: ShortText,
}

/// Explains the datagrams of the last answer.
pub(crate) fn explain(latest: &LastStatus, protocol: Option<&dyn Protocol>) -> Vec<Datagram> {
    let mut left = MAX_FIELDS;
    let replies = latest.replies.iter().take(MAX_DATAGRAMS);
    replies
        .map(|bytes| datagram(bytes, protocol, &mut left))
        .collect()
}

fn datagram(bytes: &[u8], protocol: Option<&dyn Protocol>, left: &mut usize) -> Datagram {
    let mut notes = Notes::explaining();
    // Without a configured protocol, the bytes decide.
    let found = match protocol {
        Some(protocol) => protocol.explain(bytes, DatagramContext::Reply, &mut notes),
        None => registry::explain(bytes, DatagramContext::Reply).map(|(_, found, seen)| {
            notes = seen;
            found
        }),
    };
    let mut hidden = vec![false; bytes.len()];
    for field in notes.fields().iter().filter(|field| field.is_secret) {
        hidden
            .get_mut(field.range.clone())
            .unwrap_or_default()
            .fill(true);
    }
    let digits = |range: std::ops::Range<usize>| hexadecimal(bytes, &hidden, range);
    let mut fields = Vec::new();
    let mut shown = 0;
    for field in notes.fields().iter().take(*left) {
        if field.range.start > shown {
            fields.push(FieldLine::bare(shown, digits(shown..field.range.start), ""));
        }
        fields.push(FieldLine {
            offset: field.range.start,
            bytes: digits(field.range.clone()),
            name: show::cut(&field.name, 80).text,
            value: show::cut(value(field), MAX_VALUE_CHARS / 2),
        });
        shown = shown.max(field.range.end);
    }
    let more = notes.fields().len().saturating_sub(*left);
    *left = left.saturating_sub(notes.fields().len());
    let error = found.and_then(|found| found.error);
    if shown < bytes.len() && more == 0 {
        fields.push(FieldLine::bare(
            shown,
            digits(shown..bytes.len()),
            if error.is_some() { "unparsed" } else { "" },
        ));
    }
    let deviation = |(deviation, at): &(&'static Deviation, usize)| {
        format!("{} at offset {at}: {}", deviation.name, deviation.help)
    };
    Datagram {
        message: found.map_or("unknown", |found| found.message).into(),
        size: format!(
            "{}, {}",
            show::counted(bytes.len() as u64, "byte"),
            show::counted((fields.len() + more) as u64, "field")
        ),
        fields,
        more,
        deviations: notes.deviations().iter().map(deviation).collect(),
        error: error.map(|error| error.to_string()),
    }
}

impl FieldLine {
    fn bare(offset: usize, bytes: String, name: &str) -> Self {
        Self {
            offset,
            bytes,
            name: name.into(),
            value: ShortText::default(),
        }
    }
}

/// Returns the value of a field; secrets are hidden.
fn value(field: &Field) -> &str {
    if field.is_secret {
        "hidden"
    } else {
        &field.value
    }
}

/// Formats bytes as hexadecimal lines; bytes of secrets are dots.
fn hexadecimal(bytes: &[u8], hidden: &[bool], range: std::ops::Range<usize>) -> String {
    let mut out = String::new();
    for (place, at) in range.clone().take(MAX_FIELD_BYTES).enumerate() {
        if place > 0 {
            out.push(if place % BYTES_PER_ROW == 0 {
                '\n'
            } else {
                ' '
            });
        }
        match (bytes.get(at), hidden.get(at)) {
            (Some(byte), Some(false)) => {
                let _ = write!(out, "{byte:02x}");
            }
            _ => out.push_str("··"),
        }
    }
    if range.len() > MAX_FIELD_BYTES {
        let _ = write!(
            out,
            "\n… {} more",
            show::count((range.len() - MAX_FIELD_BYTES) as u64)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_status_is_shown_and_a_broken_one_is_ignored() {
        let protocol = registry::find("minecraft-query");
        let deviation = &protocol.unwrap().info().deviations[0];
        let answer = serde_json::json!({"schema": "hailer/answer/2", "status": {
            "rules": [{"key": "a\u{202E}b", "value": "c"}],
            "extra": {"software": "Paper", "plugins": [{"name": "Tides", "version": "2.1"}]},
            "deviations": [deviation.name],
            "players": {"roster": "partial", "list": [{"name": "Ada"}, {"name": "Bo"}]},
            "address": {"host": "10.0.0.1", "port": 1},
        }});
        let last = |answer: &[u8]| LastStatus {
            answer: answer.into(),
            players: ["Ada".into(), "Cy".into()].into(),
            ..LastStatus::default()
        };
        let last_status = last(answer.to_string().as_bytes());
        assert!(last_status.status().is_some());
        let details = Details::of(&last_status, protocol);
        let texts = |entries: &[Entry]| {
            entries
                .iter()
                .map(|e| format!("{}={}", e.key.text, e.value.text))
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(&details.rules), ["ab=c"]);
        assert!(texts(&details.extras).contains(&"Plugins=Tides\u{A0}2.1".to_owned()));
        let names = details.players.rows.iter().map(|row| &*row.name.text);
        assert_eq!(names.collect::<Vec<_>>(), ["Ada", "Cy"]);
        assert_eq!(details.deviations[0].help, deviation.help);
        assert_eq!(
            (details.own_address.as_deref(), details.roster.is_some()),
            (Some("10.0.0.1:1"), true)
        );
        for broken in [
            "",
            "{",
            "[]",
            r#"{"schema":1,"status":{"rules":{},"extra":[]}}"#,
        ] {
            let details = Details::of(&last(broken.as_bytes()), None);
            assert_eq!(details.players.count(), 2, "{broken}");
        }
    }

    #[test]
    fn players_are_sorted_by_a_column() {
        let answer = serde_json::json!({"schema": "hailer/answer/2", "status": {
            "players": {"roster": "whole", "list": [
                {"name": "Bo", "score": 3, "time_s": 61.5, "latency_ms": 40},
                {"name": "Ada", "score": 12, "time_s": 7.0, "team": "Red"},
                {"name": "Cy", "extra": {"spectator": true}},
                {"name": "Dee", "score": -1, "team": "Blue"},
            ]},
        }});
        let last = LastStatus {
            answer: answer.to_string().as_bytes().into(),
            players: ["Bo".into(), "Ada".into(), "Cy".into(), "Dee".into()].into(),
            ..LastStatus::default()
        };
        let mut players = Details::of(&last, None).players;
        let keys: Vec<_> = players.columns.iter().map(|member| member.key).collect();
        assert_eq!(keys, ["score", "time_s", "team", "latency_ms"]);
        let cells = players.rows[0].cells.iter().map(|cell| &*cell.text);
        let expected = ["3", "1\u{202F}min", "", "40\u{A0}ms"];
        assert_eq!(cells.collect::<Vec<_>>(), expected);
        assert_eq!(players.rows[2].extras.text, "spectator");
        for (order, expected, direction) in [
            (
                PlayerOrder::Member("score"),
                ["Ada", "Bo", "Dee", "Cy"],
                "descending",
            ),
            (
                PlayerOrder::Member("time_s"),
                ["Bo", "Ada", "Dee", "Cy"],
                "descending",
            ),
            (
                PlayerOrder::Member("team"),
                ["Dee", "Ada", "Bo", "Cy"],
                "ascending",
            ),
            (PlayerOrder::Name, ["Ada", "Bo", "Cy", "Dee"], "ascending"),
        ] {
            players.sort(order);
            let names = players.rows.iter().map(|row| &*row.name.text);
            assert_eq!(names.collect::<Vec<_>>(), expected, "{order:?}");
            assert_eq!(players.direction(order, order), direction);
            assert_eq!(players.direction(order, PlayerOrder::Server), "none");
        }
        players.keep(&SearchTerms::of("red"));
        assert_eq!(players.rows.len(), 1);
    }

    #[test]
    fn lists_that_do_not_match_the_count_are_explained() {
        let note = |roster: &str, online: Option<i64>| {
            let answer = serde_json::json!({"schema": "hailer/answer/2", "status": {
                "players": {"online": online, "roster": roster, "list": [{"name": "Ada"}]},
            }});
            let last = LastStatus {
                answer: answer.to_string().as_bytes().into(),
                ..LastStatus::default()
            };
            Details::of(&last, None).roster.unwrap()
        };
        for online in [None, Some(2)] {
            let text = note("sample", online);
            assert!(text.starts_with("The server lists only a sample"), "{text}");
        }
        let text = note("sample", Some(1));
        assert!(text.ends_with("when it has more players."), "{text}");
        let text = note("partial", Some(2));
        assert!(text.starts_with("The list has fewer players"), "{text}");
        let text = note("partial", Some(0));
        assert!(text.starts_with("The list has more players"), "{text}");
    }

    #[test]
    fn any_bytes_are_explained_within_bounds() {
        for protocol in registry::PROTOCOLS.iter().copied().map(Some).chain([None]) {
            for seed in 0..40_u8 {
                let reply: Vec<u8> = (0..2_000_usize)
                    .map(|at| (at as u8).wrapping_mul(seed) ^ seed)
                    .collect();
                let latest = LastStatus {
                    replies: vec![reply.into(); 3],
                    ..LastStatus::default()
                };
                let datagrams = explain(&latest, protocol);
                let lines: usize = datagrams.iter().map(|datagram| datagram.fields.len()).sum();
                assert!(datagrams.len() == 3 && lines <= 2 * MAX_FIELDS + 3);
                assert!(
                    datagrams
                        .iter()
                        .flat_map(|datagram| &datagram.fields)
                        .all(|line| line.bytes.len() < 4 * MAX_FIELD_BYTES)
                );
            }
        }
        let line = hexadecimal(&[1, 2, 3], &[false, true, false], 0..3);
        assert_eq!(line, "01 ·· 03", "a secret is not shown");
    }
}
