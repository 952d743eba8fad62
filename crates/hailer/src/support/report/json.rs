//! JSON serialization without serde, because a sweep writes up to 100,000 lines per second
//! (`docs/decisions/0010-json-writer.md`). Tests compare the output with serde's.

use super::{AnswerLine, ErrorRecord};
use hailer_proto::model::{Extra, Players, Roster, Rule, Value, is_control, uuid_digits};
use hailer_proto::{Player, Status, Text};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};

/// Appends a quoted string. Characters that control a terminal are escaped, including those that
/// JSON allows unescaped.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if is_tame(text) {
        out.extend_from_slice(text.as_bytes());
    } else {
        escaped(out, text, true);
    }
    out.push(b'"');
}

/// Appends a quoted name of the schema, which needs no escapes.
fn name(out: &mut Vec<u8>, name: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
}

/// Appends an integer.
pub fn int<N: itoa::Integer>(out: &mut Vec<u8>, number: N) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number, or `null` if JSON cannot represent it.
pub fn float(out: &mut Vec<u8>, number: f64) {
    finite(out, number.is_finite().then_some(number));
}

fn finite<N: zmij::Float>(out: &mut Vec<u8>, number: Option<N>) {
    match number {
        Some(number) => out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends milliseconds with microsecond precision, rounded like
/// [`milliseconds`](super::milliseconds).
pub fn milliseconds(out: &mut Vec<u8>, milliseconds: f64) {
    let micros = (milliseconds * 1e3).round();
    if !(0.0..1e15).contains(&micros) {
        return float(out, milliseconds);
    }
    let micros = micros as u64;
    int(out, micros / 1_000);
    let [.., hundreds, tens, ones] =
        [0, micros / 100 % 10, micros / 10 % 10, micros % 10].map(|digit| b'0' + digit as u8);
    let shown = if ones != b'0' {
        3
    } else if tens != b'0' {
        2
    } else {
        1
    };
    out.push(b'.');
    out.extend_from_slice(&[hundreds, tens, ones][..shown]);
}

/// Appends an address and a port without quotes. IPv6 addresses are in brackets.
pub fn address(out: &mut Vec<u8>, address: SocketAddr) {
    let IpAddr::V4(ip) = address.ip() else {
        let _ = write!(out, "{address}");
        return;
    };
    for (i, octet) in ip.octets().into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        int(out, octet);
    }
    out.push(b':');
    int(out, address.port());
}

/// Appends players in the format of the schema.
pub fn players(out: &mut Vec<u8>, players: &[Player]) {
    list(out, players, player);
}

/// Appends rules in the format of the schema.
pub fn rules(out: &mut Vec<u8>, rules: &[Rule]) {
    list(out, rules, |out, rule| {
        out.extend_from_slice(b"{\"key\":");
        string(out, &rule.key);
        out.extend_from_slice(b",\"value\":");
        string(out, &rule.value);
        out.push(b'}');
    });
}

/// Appends protocol-specific values in the format of the schema.
pub fn extras(out: &mut Vec<u8>, extras: &[Extra]) {
    object(
        out,
        extras.iter().map(|extra| (&*extra.key, &extra.value)),
        string,
        value,
    );
}

/// Appends a list in the given order.
pub fn list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Returns the name that the schema uses for a kind of player list.
pub fn roster(roster: Roster) -> &'static str {
    match roster {
        Roster::Refused => "refused",
        Roster::Partial => "partial",
        Roster::Whole => "whole",
        Roster::Sample => "sample",
        _ => "absent",
    }
}

pub(super) fn line(line: &AnswerLine<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"schema\":\"");
    out.extend_from_slice(line.schema.as_bytes());
    out.extend_from_slice(b"\",\"target\":");
    string(out, line.target);
    out.extend_from_slice(if line.ok {
        b",\"ok\":true"
    } else {
        b",\"ok\":false"
    });
    member(out, b",\"protocol\":", line.protocol, string);
    member(out, b",\"address\":", line.address, |out, value| {
        out.push(b'"');
        address(out, value);
        out.push(b'"');
    });
    member(out, b",\"latency_ms\":", line.latency_ms, milliseconds);
    member(out, b",\"title\":", line.title.as_deref(), string);
    member(
        out,
        b",\"datagrams_sent\":",
        line.datagrams_sent,
        int::<u32>,
    );
    member(
        out,
        b",\"datagrams_received\":",
        line.datagrams_received,
        int::<u32>,
    );
    out.extend_from_slice(b",\"refused\":");
    list(out, &line.refused, |out, endpoint| string(out, endpoint));
    member(out, b",\"status\":", line.status, status);
    member(out, b",\"error\":", line.error.as_deref(), failed);
    if !line.sources.is_empty() {
        out.extend_from_slice(b",\"sources\":");
        object(
            out,
            line.sources
                .iter()
                .map(|source| (&*source.field, &*source.protocol)),
            string,
            string,
        );
    }
    if !line.notes.is_empty() {
        out.extend_from_slice(b",\"notes\":");
        list(out, line.notes, |out, note| string(out, note));
    }
    out.push(b'}');
}

fn status(out: &mut Vec<u8>, status: &Status) {
    let Status {
        name: title,
        motd,
        game,
        mode,
        map,
        version,
        players,
        rules: config,
        address,
        has_password,
        has_anti_cheat,
        icon,
        extra,
        refused: _,
        deviations,
        is_utf8: _,
    } = status;
    member(out, b"{\"name\":", title.as_ref(), text);
    member(out, b",\"motd\":", motd.as_ref(), text);
    for (key, value) in [
        (&b",\"game\":"[..], game),
        (b",\"mode\":", mode),
        (b",\"map\":", map),
        (b",\"version\":", version),
    ] {
        member(out, key, value.as_deref(), string);
    }
    out.extend_from_slice(b",\"players\":");
    on(out, players);
    out.extend_from_slice(b",\"rules\":");
    rules(out, config);
    member(out, b",\"address\":", address.as_ref(), |out, address| {
        member(out, b"{\"host\":", address.host.as_deref(), string);
        member(out, b",\"port\":", address.port, int::<u16>);
        out.push(b'}');
    });
    for (member, flag) in [
        (&b",\"password\":"[..], has_password),
        (b",\"anti_cheat\":", has_anti_cheat),
    ] {
        if let Some(flag) = flag {
            out.extend_from_slice(member);
            out.extend_from_slice(if *flag { b"true" } else { b"false" });
        }
    }
    if let Some(icon) = icon {
        out.extend_from_slice(b",\"icon\":");
        name(out, icon.data_uri());
    }
    out.extend_from_slice(b",\"extra\":");
    extras(out, extra);
    out.extend_from_slice(b",\"deviations\":");
    list(out, deviations, |out, deviation| name(out, deviation.name));
    out.push(b'}');
}

fn on(out: &mut Vec<u8>, on: &Players) {
    let Players {
        online,
        max,
        bots,
        roster: what,
        list,
    } = on;
    member(out, b"{\"online\":", *online, int::<i64>);
    member(out, b",\"max\":", *max, int::<i64>);
    optional(out, b",\"bots\":", *bots, int);
    out.extend_from_slice(b",\"roster\":\"");
    out.extend_from_slice(roster(*what).as_bytes());
    out.extend_from_slice(b"\",\"list\":");
    players(out, list);
    out.push(b'}');
}

fn player(out: &mut Vec<u8>, player: &Player) {
    let Player {
        name,
        uuid,
        score,
        time_s,
        team,
        latency_ms,
        extra,
    } = player;
    out.extend_from_slice(b"{\"name\":");
    text(out, name);
    if let Some(uuid) = uuid {
        out.extend_from_slice(b",\"uuid\":\"");
        out.extend_from_slice(&uuid_digits(uuid));
        out.push(b'"');
    }
    optional(out, b",\"score\":", *score, int);
    if let Some(time_s) = time_s {
        out.extend_from_slice(b",\"time_s\":");
        finite(out, time_s.is_finite().then_some(*time_s));
    }
    optional(out, b",\"team\":", team.as_deref(), string);
    optional(out, b",\"latency_ms\":", *latency_ms, int);
    if !extra.is_empty() {
        out.extend_from_slice(b",\"extra\":");
        extras(out, extra);
    }
    out.push(b'}');
}

fn text(out: &mut Vec<u8>, text: &Text) {
    let raw = text.raw();
    out.extend_from_slice(b"{\"plain\":\"");
    // Without codes, both members are equal.
    if is_tame(raw) && !text.may_have_codes() {
        out.extend_from_slice(raw.as_bytes());
        out.extend_from_slice(b"\",\"raw\":\"");
        out.extend_from_slice(raw.as_bytes());
    } else {
        text.runs()
            .for_each(|(_, piece)| escaped(out, piece, false));
        out.extend_from_slice(b"\",\"raw\":\"");
        escaped(out, raw, true);
    }
    out.extend_from_slice(b"\"}");
}

fn failed(out: &mut Vec<u8>, failed: &ErrorRecord) {
    let ErrorRecord {
        kind,
        message,
        datagram,
        datagram_offset,
        datagram_bytes,
    } = failed;
    out.extend_from_slice(b"{\"kind\":");
    name(out, kind.as_str());
    out.extend_from_slice(b",\"message\":");
    string(out, message);
    optional(out, b",\"datagram\":", datagram.as_deref(), string);
    optional(out, b",\"datagram_offset\":", *datagram_offset, int);
    optional(out, b",\"datagram_bytes\":", *datagram_bytes, int);
    out.push(b'}');
}

fn value(out: &mut Vec<u8>, it: &Value) {
    match it {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => int(out, *number),
        Value::Float(number) => float(out, *number),
        Value::Str(text) => string(out, text),
        Value::List(values) => list(out, values, value),
        Value::Table(entries) => object(
            out,
            entries.iter().map(|(key, value)| (&**key, value)),
            string,
            value,
        ),
        Value::Rows(rows) => list(out, rows.iter(), |out, row| object(out, row, name, string)),
        Value::Point(axes) => list(out, *axes, float),
        // Fallback for future kinds of values.
        other => string(out, &other.to_string()),
    }
}

fn object<'a, T>(
    out: &mut Vec<u8>,
    entries: impl Iterator<Item = (&'a str, T)>,
    key: impl Fn(&mut Vec<u8>, &str),
    value: impl Fn(&mut Vec<u8>, T),
) {
    out.push(b'{');
    for (i, (named, it)) in entries.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        key(out, named);
        out.push(b':');
        value(out, it);
    }
    out.push(b'}');
}

/// Appends a member that is `null` without a value.
fn member<T>(out: &mut Vec<u8>, key: &[u8], value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    out.extend_from_slice(key);
    match value {
        Some(value) => write(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a member, or nothing without a value.
fn optional<T>(
    out: &mut Vec<u8>,
    key: &[u8],
    value: Option<T>,
    write: impl FnOnce(&mut Vec<u8>, T),
) {
    if let Some(value) = value {
        out.extend_from_slice(key);
        write(out, value);
    }
}

/// Returns whether a text contains only ASCII characters that need no escape. Almost all texts do.
#[inline]
fn is_tame(text: &str) -> bool {
    // Check eight bytes at a time. The last eight may overlap the ones before.
    match text.as_bytes().last_chunk::<8>() {
        Some(last) => text
            .as_bytes()
            .as_chunks()
            .0
            .iter()
            .chain([last])
            .all(|eight| are_tame(*eight)),
        None => text
            .bytes()
            .all(|byte| byte.is_ascii() && !SUSPECTS[usize::from(byte)]),
    }
}

#[inline]
fn are_tame(bytes: [u8; 8]) -> bool {
    const LOW: u64 = u64::from_ne_bytes([0x7F; 8]);
    let all = |byte| u64::from_ne_bytes([byte; 8]);
    let word = u64::from_ne_bytes(bytes);
    let low = u64::from_ne_bytes(bytes) & LOW;
    // Sets the highest bit of each byte that differs from `byte`, which is below 0x80.
    let is_not = |byte| (low ^ all(byte)) + LOW;
    let printed = low + all(0x80 - b' ');
    !word & printed & is_not(b'"') & is_not(b'\\') & is_not(0x7F) | LOW == u64::MAX
}

/// Bytes that may start an escaped character. Checking them is faster than decoding each character.
const SUSPECTS: [bool; 256] = {
    let mut suspects = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        suspects[byte] = byte < 0x20
            || matches!(
                byte as u8,
                b'"' | b'\\' | 0x7F | 0xC2 | 0xD8 | 0xE1 | 0xE2 | 0xEF | 0xF3
            );
        byte += 1;
    }
    suspects
};

/// Appends a text. Control characters are escaped if `keep` is set, and otherwise left out.
fn escaped(out: &mut Vec<u8>, text: &str, keep: bool) {
    let bytes = text.as_bytes();
    let mut written = 0;
    let mut next = 0;
    while let Some(&byte) = bytes.get(next) {
        let at = next;
        if let Some(eight) = bytes[at..].first_chunk()
            && are_tame(*eight)
        {
            next += eight.len();
            continue;
        }
        next += 1;
        if !SUSPECTS[usize::from(byte)] {
            continue;
        }
        let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) else {
            continue;
        };
        let is_control = is_control(c) && c != '\n';
        let short: &[u8] = match c {
            '"' => b"\\\"",
            '\\' => b"\\\\",
            '\n' => b"\\n",
            _ if is_control && !keep => b"",
            '\r' => b"\\r",
            '\t' => b"\\t",
            '\u{8}' => b"\\b",
            '\u{c}' => b"\\f",
            _ if is_control => b"",
            _ => continue,
        };
        out.extend_from_slice(&bytes[written..at]);
        out.extend_from_slice(short);
        if short.is_empty() && keep {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
        written = at + c.len_utf8();
    }
    out.extend_from_slice(&bytes[written..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Answer, FieldSource};
    use crate::error::Error;
    use crate::support::report::AnswerRecord;
    use crate::transcript::Transcript;
    use hailer_proto::model::{Address, Icon, Rows};
    use hailer_proto::registry;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use std::time::Duration;

    fn text() -> impl Strategy<Value = Text> {
        (
            ".{0,12}|[a-z0-9 ]{0,20}|([§&][0-9a-flx]|[\"\\\\\n\r\t\u{0}\u{1b}\u{9b}\u{202e}\u{2028}é名👩]|a){0,12}",
            any::<bool>(),
        )
            .prop_map(|(raw, codes)| if codes { Text::legacy(raw) } else { Text::unformatted(raw) })
    }

    /// Numbers with 15 digits. With more, the shortest text of a number depends on the algorithm.
    fn number() -> impl Strategy<Value = f64> {
        any::<f64>().prop_map(|number| format!("{number:.14e}").parse().unwrap_or(number))
    }

    fn value() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            number().prop_map(Value::Float),
            ".{0,6}".prop_map(Value::from),
        ];
        plain.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Value::List),
                // A JSON object with a duplicate key loses one of the values in a map.
                option::of(("[a-z]{1,3}", inner)).prop_map(|entry| Value::Table(
                    entry
                        .map(|(key, value)| (key.into(), value))
                        .into_iter()
                        .collect()
                )),
                vec(
                    (option::of(".{0,6}|[a-z.]{0,30}"), option::of(".{0,6}")),
                    0..3
                )
                .prop_map(|all| {
                    let mut rows = Rows::with_capacity(&(&["one", "two"] as &[_]), all.len());
                    all.iter()
                        .for_each(|(one, two)| rows.push([one.as_deref(), two.as_deref()]));
                    Value::Rows(rows)
                }),
                [number(), number(), number()].prop_map(Value::Point),
            ]
        })
    }

    fn extra() -> impl Strategy<Value = Vec<Extra>> {
        option::of(value()).prop_map(|value| {
            value
                .map(|value| Extra::new("some-key", value))
                .into_iter()
                .collect()
        })
    }

    fn status() -> impl Strategy<Value = Status> {
        let word = || option::of(".{0,8}|[a-z.]{0,8}");
        let session = (
            option::of(any::<i64>()),
            // Few enough digits that every algorithm for the shortest decimal gives the same.
            option::of((0_u16..).prop_map(|eighths| f32::from(eighths) / 8.0)),
            option::of(".{0,6}"),
            option::of(any::<i32>()),
        );
        let player = (text(), option::of(any::<[u8; 16]>()), session, extra()).prop_map(
            |(name, uuid, (score, time_s, team, latency_ms), extra)| Player {
                name,
                uuid,
                score,
                time_s,
                team: team.map(Into::into),
                latency_ms,
                extra,
            },
        );
        let flags = (
            option::of(any::<bool>()),
            option::of(any::<bool>()),
            option::of(vec(any::<u8>(), 0..20)),
        );
        let rule = (".{0,6}", ".{0,6}").prop_map(|(key, value)| Rule {
            key: key.into(),
            value: value.into(),
        });
        let address = (word(), option::of(any::<u16>())).prop_map(|(host, port)| Address {
            host: host.map(Into::into),
            port,
        });
        let deviations = &registry::PROTOCOLS[0].info().deviations;
        (
            (
                option::of(text()),
                option::of(text()),
                word(),
                word(),
                word(),
                word(),
            ),
            (
                option::of(any::<i64>()),
                option::of(any::<i64>()),
                option::of(any::<i64>()),
                0..5_usize,
                vec(player, 0..4),
            ),
            flags,
            (
                vec(rule, 0..3),
                option::of(address),
                extra(),
                0..deviations.len(),
            ),
        )
            .prop_map(
                |(
                    (name, motd, game, mode, map, version),
                    (online, max, bots, what, list),
                    (has_password, has_anti_cheat, icon),
                    (rules, address, extra, count),
                )| {
                    let roster = [
                        Roster::Absent,
                        Roster::Refused,
                        Roster::Partial,
                        Roster::Whole,
                        Roster::Sample,
                    ][what];
                    let icon = icon.map(|bytes| [b"\x89PNG\r\n\x1a\n", &bytes[..]].concat());
                    let deviations = deviations[..count].to_vec();
                    let [game, mode, map, version] =
                        [game, mode, map, version].map(|text| text.map(Into::into));
                    Status {
                        name,
                        motd,
                        game,
                        mode,
                        map,
                        version,
                        players: Players {
                            online,
                            max,
                            bots,
                            roster,
                            list,
                        },
                        rules,
                        address,
                        has_password,
                        has_anti_cheat,
                        icon: icon.and_then(|png| Icon::from_png(&png).ok()),
                        extra,
                        refused: &[],
                        deviations,
                        is_utf8: false,
                    }
                },
            )
    }

    /// Returns this number of sources of fields.
    fn sources(count: usize) -> Vec<FieldSource> {
        let field = |i| format!("extra.key-{i}").into();
        let source = |i| FieldSource {
            field: field(i),
            protocol: "ugp".into(),
        };
        (0..count).map(source).collect()
    }

    fn has_exponent(json: &str) -> bool {
        let is_one = |&[digit, e, sign]: &[u8; 3]| {
            digit.is_ascii_digit() && e == b'e' && !sign.is_ascii_alphabetic()
        };
        json.as_bytes().array_windows().any(is_one)
    }

    fn check(line: &AnswerLine<'_>) {
        let mut out = Vec::new();
        line.write(&mut out);
        let ours = String::from_utf8(out).unwrap();
        assert!(!ours.chars().any(is_control), "{ours:?}");
        let serdes = serde_json::to_string(line).unwrap();
        // If serde escapes the same characters and no number has an exponent, the bytes are equal.
        if !serdes.chars().any(is_control) && !has_exponent(&ours) && !has_exponent(&serdes) {
            assert_eq!(ours, serdes);
        }
        let record: AnswerRecord = serde_json::from_str(&ours).unwrap();
        assert_eq!(record, AnswerRecord::from(line));
        let again = serde_json::to_string(&record).unwrap();
        let [ours, serdes, again] = [ours, serdes, again]
            .map(|json| serde_json::from_str::<serde_json::Value>(&json).unwrap());
        assert_eq!(ours, serdes);
        assert_eq!(ours, again);
    }

    proptest! {
        #[test]
        fn matches_serde(
            status in status(), target in ".{0,20}", address: SocketAddr, nanos in 0..100_000_000_000_u64, sent: u32, received: u32,
        ) {
            // The flow label of IPv6 is no part of the text of an address.
            let mut address = address;
            if let SocketAddr::V6(v6) = &mut address {
                v6.set_flowinfo(0);
            }
            let transcript = Transcript { sent, received, ..Transcript::new(registry::PROTOCOLS[0].info(), address) };
            let count = status.rules.len();
            let answer = Answer {
                sources: sources(count),
                notes: vec![target.clone(); count],
                ..Answer::new(transcript.clone(), status.into(), Duration::from_nanos(nanos))
            };
            check(&AnswerLine::answered(&target, &answer));
            prop_assert_eq!(&serde_json::from_str::<Answer>(&serde_json::to_string(&answer).unwrap()).unwrap(), &answer);
            check(&AnswerLine::failed(&target, &Error::Silence { transcript: Box::new(transcript.clone()), after: answer.latency }));
            check(&AnswerLine::failed(&target, &Error::NameNotFound { name: target.clone() }));
            let fault = Box::new(hailer_proto::Fault::Misbehaved("nonsense"));
            check(&AnswerLine::failed(&target, &Error::Malformed { transcript: Box::new(transcript), fault, datagram: target.repeat(10).into() }));
        }
    }

    #[test]
    fn plain_characters_are_not_escaped() {
        for byte in 0..=0x7F_u8 {
            let expected = matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
            for length in 1..20 {
                for at in 0..length {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    assert_eq!(
                        is_tame(std::str::from_utf8(&text).unwrap()),
                        expected,
                        "{byte} at {at} of {length}"
                    );
                }
            }
        }
        assert!(
            is_tame("")
                && !is_tame("\u{80}")
                && !is_tame("seven ch\u{E9}")
                && !is_tame("\u{10FFFF}aaaaaaaa")
        );
    }

    #[test]
    fn every_control_character_is_escaped() {
        for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
            let mut out = Vec::new();
            string(&mut out, c.encode_utf8(&mut [0; 4]));
            let text = String::from_utf8(out).unwrap();
            assert!(!text.chars().any(is_control), "{c:?}");
            assert_eq!(
                serde_json::from_str::<String>(&text).unwrap(),
                c.to_string()
            );
        }
    }

    #[test]
    fn times_are_short() {
        for (nanos, expected) in [
            (0, "0.0"),
            (1_000, "0.001"),
            (80_000_000, "80.0"),
            (12_340_499, "12.34"),
            (1_200_500, "1.201"),
        ] {
            let mut out = Vec::new();
            milliseconds(
                &mut out,
                super::super::milliseconds(Duration::from_nanos(nanos)),
            );
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
