//! The last answer of a server: fields that a row of the list does not show, and its datagrams,
//! explained field by field by the regular parser.

use crate::state::LastStatus;
use crate::state::find::{SearchTerms, natural};
use crate::web::show::{self, ShortText};
use hailer::proto::model::{PLAYER_MEMBERS, Roster, STATUS_MEMBERS, Value};
use hailer::proto::wire::{Deviation, Field, Notes};
use hailer::proto::{DatagramContext, Protocol};
use hailer::registry;
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
    pub(crate) players: Vec<Entry>,
    /// Number of players not shown.
    pub(crate) more_players: usize,
    /// Whether the server has rules and extras, even if the search hides all of them.
    pub(crate) has_rules: bool,
    pub(crate) has_extras: bool,
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
            details.extras.push(Entry::new(extra.key, help, &value));
        }
        for deviation in status.deviations.iter().take(MAX_ENTRIES) {
            let entry = Entry::new(deviation.name, deviation.help, "");
            details.deviations.push(entry);
        }
        // The names come from the row, which honors the privacy settings. The status only adds the
        // other fields of a player.
        for (nth, name) in last.players.iter().take(MAX_ENTRIES).enumerate() {
            let listed = status.players.list.get(nth);
            let listed = listed.filter(|player| player.name.plain() == *name);
            let mut value = String::new();
            if let Some(player) = listed {
                for member in PLAYER_MEMBERS {
                    if let Some(own) = (member.value)(player) {
                        let nth = usize::from(!value.is_empty());
                        named(&mut value, nth, member.title, &own);
                    }
                }
                for extra in &player.extra {
                    let nth = usize::from(!value.is_empty());
                    named(&mut value, nth, extra.key, &extra.value);
                }
            }
            details.players.push(Entry::new(name, "", &value));
        }
        details.more_players = last.players.len().saturating_sub(MAX_ENTRIES);
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
        for list in [&mut self.rules, &mut self.extras, &mut self.players] {
            list.retain(fits);
        }
        self.more_players = 0;
    }

    /// Sorts players by name.
    pub(crate) fn sort_players(&mut self) {
        self.players
            .sort_by(|a, b| natural(&a.key.text, &b.key.text));
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

/// A datagram, explained.
pub(crate) struct Datagram {
    pub(crate) message: String,
    pub(crate) length: String,
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
        length: show::count(bytes.len() as u64),
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
        assert!(texts(&details.extras).contains(&"plugins=Tides\u{A0}2.1".to_owned()));
        assert_eq!(texts(&details.players), ["Ada=", "Cy="]);
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
            assert_eq!(details.players.len(), 2, "{broken}");
        }
    }

    #[test]
    fn a_sample_is_named_if_players_are_missing() {
        let roster = |online: Option<i64>| {
            let answer = serde_json::json!({"schema": "hailer/answer/2", "status": {
                "players": {"online": online, "roster": "sample", "list": [{"name": "Ada"}]},
            }});
            let last = LastStatus {
                answer: answer.to_string().as_bytes().into(),
                ..LastStatus::default()
            };
            Details::of(&last, None).roster.unwrap()
        };
        for online in [None, Some(2)] {
            let text = roster(online);
            assert!(text.starts_with("The server lists only a sample"), "{text}");
        }
        let text = roster(Some(1));
        assert!(text.ends_with("when it has more players."), "{text}");
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
