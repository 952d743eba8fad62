//! The last answer of a server: fields beyond those of a row, and its datagrams explained field by
//! field by the regular parser.

use crate::state::LastStatus;
use crate::web::find::{SearchTerms, natural};
use crate::web::show::{self, Cut};
use compact_str::CompactString;
use hailer::proto::wire::{Deviation, Field, Notes};
use hailer::proto::{DatagramContext, Protocol};
use hailer::registry;
use serde_json::Value;
use std::fmt::Write;

/// Maximum number of fields shown, over all datagrams; the others are counted.
const FIELDS: usize = 800;
/// Maximum number of datagrams shown.
const DATAGRAMS: usize = 32;
/// Maximum number of bytes shown per field, and bytes per line.
const BYTES: usize = 64;
const ROW: usize = 16;
/// Maximum number of rules, extras and players shown, and maximum length of a value in characters.
const ENTRIES: usize = 500;
const VALUE: usize = 600;

/// Details of a status beyond those of a row.
#[derive(Default)]
pub(crate) struct Details {
    /// Rules of the server.
    pub(crate) rules: Vec<Entry>,
    /// Fields of this protocol only.
    pub(crate) extras: Vec<Entry>,
    /// Deviations from the protocol: name and meaning.
    pub(crate) deviations: Vec<Entry>,
    /// Game mode.
    pub(crate) mode: Option<Cut>,
    /// Address that the server reports for itself.
    pub(crate) own_address: Option<String>,
    /// Why the list of players is incomplete, if it is.
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
    pub(crate) key: Cut,
    pub(crate) help: &'static str,
    pub(crate) value: Cut,
}

impl Details {
    /// Reads an answer in the form of `schema/answer-v2.json`.
    pub(crate) fn of(said: &LastStatus, protocol: Option<&dyn Protocol>) -> Self {
        let answer: Value = serde_json::from_slice(&said.answer).unwrap_or_default();
        let status = &answer["status"];
        let info = protocol.map(Protocol::info);
        let help = |key: &str| {
            let docs = info.map(|info| info.fields).unwrap_or_default();
            docs.iter()
                .find(|doc| doc.key == key)
                .map_or("", |doc| doc.help)
        };
        let meaning = |name: &str| {
            let all = info.map(|info| info.deviations).unwrap_or_default();
            all.iter()
                .find(|deviation| deviation.name == name)
                .map_or("", |deviation| deviation.help)
        };
        let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        let rules = list(&status["rules"]).into_iter().take(ENTRIES);
        let extras = status["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .take(ENTRIES);
        let deviations = list(&status["deviations"]).into_iter().take(ENTRIES);
        let address = &status["address"];
        let own_address = match (address["host"].as_str(), address["port"].as_u64()) {
            (None, None) => None,
            (host, port) => {
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                Some(show::cut(&format!("{}{port}", host.unwrap_or("…")), 120).text)
            }
        };
        let mut details = Self {
            rules: rules
                .map(|rule| Entry::new(&text(&rule["key"]), "", &text(&rule["value"])))
                .collect(),
            extras: extras
                .map(|(key, value)| Entry::new(key, help(key), &text(value)))
                .collect(),
            deviations: deviations
                .map(|name| Entry::new(&text(&name), meaning(&text(&name)), ""))
                .collect(),
            mode: status["mode"].as_str().map(|mode| show::cut(mode, 60)),
            own_address,
            roster: match status["players"]["roster"].as_str() {
                Some("partial") => {
                    Some("The list has fewer players than the count that the server reports.")
                }
                Some("refused") => {
                    Some("The server requires an authentication token to list players.")
                }
                _ => None,
            },
            ..Self::default()
        };
        // The stored names decide what may be shown (privacy); the answer only adds details.
        let listed = list(&status["players"]["list"]);
        let player = |(name, listed): (&CompactString, Option<&Value>)| {
            let listed =
                listed.filter(|listed| listed["name"]["plain"].as_str() == Some(name.as_str()));
            Entry::new(
                name,
                "",
                &listed
                    .and_then(|listed| listed.get("extra"))
                    .map(text)
                    .unwrap_or_default(),
            )
        };
        let listed = listed.iter().map(Some).chain(std::iter::repeat(None));
        details.players = said
            .players
            .iter()
            .zip(listed)
            .take(ENTRIES)
            .map(player)
            .collect();
        details.more_players = said.players.len().saturating_sub(ENTRIES);
        details
    }
}

impl Details {
    /// Hides entries that do not match the search.
    pub(crate) fn keep(&mut self, words: &SearchTerms) {
        (self.has_rules, self.has_extras) = (!self.rules.is_empty(), !self.extras.is_empty());
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
            value: show::cut(value, VALUE),
        }
    }
}

/// Formats a JSON value for readers, up to the maximum length.
fn text(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

fn write(out: &mut String, value: &Value) {
    if out.len() > VALUE * 4 {
        return;
    }
    match value {
        Value::Null => out.push_str(show::NOTHING),
        Value::Bool(is_so) => out.push_str(if *is_so { "yes" } else { "no" }),
        Value::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Value::String(text) => out.push_str(text),
        Value::Array(values) => {
            for (place, value) in values.iter().enumerate() {
                out.push_str(if place > 0 { ", " } else { "" });
                write(out, value);
            }
        }
        // Name and version are clear without their keys.
        Value::Object(entries)
            if entries.len() == 2
                && entries.contains_key("name")
                && entries.contains_key("version") =>
        {
            write(out, &entries["name"]);
            out.push('\u{A0}');
            write(out, &entries["version"]);
        }
        Value::Object(entries) => {
            for (place, (key, value)) in entries.iter().enumerate() {
                let _ = write!(out, "{}{key}\u{A0}", if place > 0 { " · " } else { "" });
                write(out, value);
            }
        }
    }
}

/// An explained datagram.
pub(crate) struct Datagram {
    pub(crate) message: String,
    pub(crate) length: String,
    pub(crate) fields: Vec<Line>,
    /// Number of fields not shown.
    pub(crate) more: usize,
    pub(crate) deviations: Vec<String>,
    pub(crate) error: Option<String>,
}

/// A field, or bytes that belong to no field.
pub(crate) struct Line {
    pub(crate) offset: usize,
    pub(crate) bytes: String,
    pub(crate) name: String,
    pub(crate) value: Cut,
}

/// Explains the datagrams of the last answer.
pub(crate) fn explain(said: &LastStatus, protocol: Option<&dyn Protocol>) -> Vec<Datagram> {
    let mut left = FIELDS;
    let replies = said.replies.iter().take(DATAGRAMS);
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
    for field in notes.fields().iter().filter(|field| field.secret) {
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
            fields.push(Line::bare(shown, digits(shown..field.range.start), ""));
        }
        fields.push(Line {
            offset: field.range.start,
            bytes: digits(field.range.clone()),
            name: show::cut(&field.name, 80).text,
            value: show::cut(value(field), VALUE / 2),
        });
        shown = shown.max(field.range.end);
    }
    let more = notes.fields().len().saturating_sub(*left);
    *left = left.saturating_sub(notes.fields().len());
    let error = found.and_then(|found| found.error);
    if shown < bytes.len() && more == 0 {
        fields.push(Line::bare(
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

impl Line {
    fn bare(offset: usize, bytes: String, name: &str) -> Self {
        Self {
            offset,
            bytes,
            name: name.into(),
            value: Cut::default(),
        }
    }
}

/// Returns the value of a field; secrets are hidden.
fn value(field: &Field) -> &str {
    if field.secret { "hidden" } else { &field.value }
}

/// Formats bytes as hexadecimal lines; bytes of secrets are dots.
fn hexadecimal(bytes: &[u8], hidden: &[bool], range: std::ops::Range<usize>) -> String {
    let mut out = String::new();
    for (place, at) in range.clone().take(BYTES).enumerate() {
        if place > 0 {
            out.push(if place % ROW == 0 { '\n' } else { ' ' });
        }
        match (bytes.get(at), hidden.get(at)) {
            (Some(byte), Some(false)) => {
                let _ = write!(out, "{byte:02x}");
            }
            _ => out.push_str("··"),
        }
    }
    if range.len() > BYTES {
        let _ = write!(
            out,
            "\n… {} more",
            show::count((range.len() - BYTES) as u64)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_a_broken_one_is_no_harm() {
        let protocol = registry::find("minecraft-query");
        let deviation = protocol.unwrap().info().deviations[0];
        let answer = serde_json::json!({"status": {
            "rules": [{"key": "a\u{202E}b", "value": "c"}, 7],
            "extra": {"software": "Paper", "plugins": [{"name": "Tides", "version": "2.1"}], "other": null},
            "deviations": [deviation.name, "no-such"],
            "players": {"roster": "partial", "list": [{"name": {"plain": "Ada"}, "extra": {"id": 3}}, {"name": {"plain": "Bo"}}]},
            "address": {"host": "10.0.0.1", "port": 1},
        }});
        let said = |answer: &[u8]| LastStatus {
            answer: answer.into(),
            players: ["Ada".into(), "Cy".into()].into(),
            ..LastStatus::default()
        };
        let details = Details::of(&said(answer.to_string().as_bytes()), protocol);
        let texts = |entries: &[Entry]| {
            entries
                .iter()
                .map(|e| format!("{}={}", e.key.text, e.value.text))
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(&details.rules), ["ab=c", "–=–"]);
        assert!(texts(&details.extras).contains(&"plugins=Tides\u{A0}2.1".to_owned()));
        assert_eq!(
            texts(&details.players),
            ["Ada=id\u{A0}3", "Cy="],
            "details of other players are ignored"
        );
        assert_eq!(
            (details.deviations[0].help, details.deviations[1].help),
            (deviation.help, "")
        );
        assert_eq!(
            (details.own_address.as_deref(), details.roster.is_some()),
            (Some("10.0.0.1:1"), true)
        );
        for broken in [
            "",
            "{",
            "[]",
            r#"{"status":{"rules":{},"extra":[],"players":3}}"#,
        ] {
            assert_eq!(
                Details::of(&said(broken.as_bytes()), None).players.len(),
                2,
                "{broken}"
            );
        }
    }

    #[test]
    fn any_bytes_are_explained_within_bounds() {
        for protocol in registry::PROTOCOLS.iter().copied().map(Some).chain([None]) {
            for seed in 0..40_u8 {
                let reply: Vec<u8> = (0..2_000_usize)
                    .map(|at| (at as u8).wrapping_mul(seed) ^ seed)
                    .collect();
                let said = LastStatus {
                    replies: vec![reply.into(); 3],
                    ..LastStatus::default()
                };
                let datagrams = explain(&said, protocol);
                let lines: usize = datagrams.iter().map(|datagram| datagram.fields.len()).sum();
                assert!(datagrams.len() == 3 && lines <= 2 * FIELDS + 3);
                assert!(
                    datagrams
                        .iter()
                        .flat_map(|datagram| &datagram.fields)
                        .all(|line| line.bytes.len() < 4 * BYTES)
                );
            }
        }
        let line = hexadecimal(&[1, 2, 3], &[false, true, false], 0..3);
        assert_eq!(line, "01 ·· 03", "a secret is not shown");
    }
}
