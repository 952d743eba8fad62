//! 7 Days to Die: the information that servers send to the game's own browser. TCP, on the port of
//! the game.
//!
//! ```text
//!   client                    server
//!     (connects)
//!                        ◄─  length in 5 digits, lines `Key:Value;`
//! ```
//!
//! The client sends nothing. The server sends once and closes.
//!
//! Limits: bodies of 40,000 bytes. The responder sends texts of up to 500 bytes and messages of up
//! to 4 KiB. Rules that do not fit are left out.

use crate::model::{Address, Codes, Extra, Rule, Status, Text, Value, without_controls};
use crate::one_request::{Mark, Message, OneStream, frame_of};
use crate::protocol::{Doc, Fault, Info};
use crate::sample::Server;
use crate::wire::{Error, Reader, by_content, cut, deviations, filled};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use compact_str::CompactString;
use memchr::memchr;

deviations! {
    BINARY_LENGTH "binary-length" "the length has two bytes instead of five digits, as in old builds";
    SHORT_BODY "short-body" "the connection ends before the length is reached; the lines up to there count";
    NO_TYPE "no-type" "the lines have no `GameType`";
    INVALID_UTF8 "invalid-utf8" "a value is not valid UTF-8";
}

/// The protocol.
pub static PROTOCOL: OneStream = OneStream {
    info: &Info {
        id: "seven-days",
        title: "7 Days to Die",
        port: 26900,
        declares_charset: false,
        fields: &[
            Doc::new("game-type", "Game, if it is not `7DTD`"),
            Doc::new("save", "Name of the saved game"),
            Doc::new("day", "Day in the game"),
            Doc::new(
                "details",
                "False if the server is up but sends no information, because it is too long",
            ),
        ],
        deviations: ALL,
        has_responder: true,
        ..Info::CONNECTED
    },
    messages: &[
        Message::reply("information", Mark::Is(|bytes| starts(bytes, GAME_START))).certain(),
        // Without digits, anything could be a length.
        Message::reply("information", Mark::Is(has_digits)),
        Message::reply("information", Mark::Is(|bytes| starts(bytes, OLD_START))),
        Message::reply("information", Mark::Known(|bytes| starts(bytes, b""))),
    ],
    frame: |bytes| {
        Ok(match lengths(bytes)? {
            Some([header, body]) => frame_of(bytes.len(), header + body),
            None if bytes.first().is_some_and(u8::is_ascii_digit) => {
                frame_of(bytes.len(), HEADER_BYTES)
            }
            None => frame_of(bytes.len(), bytes.len() + 1),
        })
    },
    read,
    reply: Some(reply),
    sample: sample_status,
    ..OneStream::PLAIN
};

/// Bytes of the length in digits, with CR LF.
const HEADER_BYTES: usize = 7;
/// Bytes of the length of old builds.
const OLD_HEADER_BYTES: usize = 2;
/// Start of the body of old builds.
const OLD_START: &[u8] = b"GameType:";
/// Longest body in bytes.
const MAX_BYTES: usize = 40_000;
/// Start of the body of the game.
const GAME_START: &[u8] = b"GameType:7DTD;";
/// Value of `GameType`.
const GAME_TYPE: &[u8] = b"7DTD";

/// Ticks of a day in the game.
const TICKS_PER_DAY: i64 = 24_000;

/// Returns the lengths of header and body. `None` if the header is incomplete.
fn lengths(bytes: &[u8]) -> Result<Option<[usize; 2]>, Error> {
    let is_digits = match bytes.first() {
        None => return Ok(None),
        Some(byte) => byte.is_ascii_digit(),
    };
    let lengths = if is_digits {
        let mut length = 0;
        for (at, byte) in bytes.iter().take(5).enumerate() {
            if !byte.is_ascii_digit() {
                return Err(Error::bad("length", at, "five digits"));
            }
            length = length * 10 + usize::from(byte - b'0');
        }
        let end = bytes.get(5..).unwrap_or_default();
        let end = end.get(..2).unwrap_or(end);
        if !b"\r\n".starts_with(end) {
            return Err(Error::bad("end of the length", 5, "CR LF"));
        }
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        [HEADER_BYTES, length]
    } else {
        let Some(length) = bytes.first_chunk() else {
            return Ok(None);
        };
        [OLD_HEADER_BYTES, u16::from_be_bytes(*length).into()]
    };
    if lengths[1] > MAX_BYTES {
        return Err(Error::limit("length", 0, MAX_BYTES));
    }
    // Other services start with letters too.
    let start = bytes.get(OLD_HEADER_BYTES..).unwrap_or_default();
    let start = start.get(..OLD_START.len()).unwrap_or(start);
    if !is_digits && !OLD_START.starts_with(start) {
        return Err(Error::bad("key", OLD_HEADER_BYTES, "GameType"));
    }
    Ok(Some(lengths))
}

/// Returns whether the bytes have a whole header, and a body that starts like this.
fn starts(bytes: &[u8], start: &[u8]) -> bool {
    let header = lengths(bytes).ok().flatten();
    header.is_some_and(|[header, _]| {
        let body = bytes.get(header..).unwrap_or_default();
        body.starts_with(start)
    })
}

fn has_digits(bytes: &[u8]) -> bool {
    starts(bytes, b"") && bytes.first().is_some_and(u8::is_ascii_digit)
}

/// Reads the information (spec/seven-days.md#2 and #6).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let pairs = read_pairs(r)?;
    if pairs.is_empty() {
        status.extra.push(Extra::new("details", false));
    }
    for (key, value) in pairs {
        set(status, key, value);
    }
    Ok(())
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Reads keys and values. No pairs mean that the server sends no information.
fn read_pairs<'a>(r: &mut Reader<'a, '_>) -> Result<Vec<Pair<'a>>, Error> {
    let bytes = r.whole();
    let Some([header, length]) = lengths(bytes)? else {
        return Err(Error::short(
            "length",
            0,
            HEADER_BYTES.saturating_sub(bytes.len()),
        ));
    };
    r.take(header, "length")?;
    r.note(0, "length", || format!("{length}"));
    if header == OLD_HEADER_BYTES {
        r.notes().deviation(&BINARY_LENGTH, 0);
    }
    if length == 0 {
        r.end()?;
        return Ok(Vec::new());
    }
    if r.remaining() > length {
        return Err(Error::bad("length", 0, "that of the lines"));
    }
    let is_short = r.remaining() < length;
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    let mut has_type = false;
    // Start of the last value, which the next line may continue.
    let mut value_start = header;
    while r.remaining() > 0 {
        let at = r.at();
        let end = memchr(b'\n', r.rest());
        let line = r.take(end.unwrap_or(r.remaining()), "line")?;
        r.take(end.is_some().into(), "line")?;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = memchr(b':', line) else {
            if line.is_empty() {
                continue;
            }
            // A line without a colon continues the value before it. Other services greet with
            // text that has no pair.
            let Some((_, value)) = pairs.last_mut() else {
                return Err(Error::bad("key", at, "a key and a colon"));
            };
            let whole = bytes.get(value_start..at + line.len()).unwrap_or_default();
            *value = whole.strip_suffix(b";").unwrap_or(whole);
            continue;
        };
        let (key, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default();
        let value = value.strip_suffix(b";").unwrap_or(value);
        value_start = at + colon + 1;
        has_type |= key == b"GameType";
        if core::str::from_utf8(value).is_err() {
            r.notes().deviation(&INVALID_UTF8, value_start);
        }
        r.note(at, "pair", || {
            format!("{:?} = {:?}", by_content(key).0, by_content(value).0)
        });
        pairs.push((key, value));
    }
    if !has_type {
        r.notes().deviation(&NO_TYPE, header);
    }
    if is_short {
        let at = r.at();
        r.notes().deviation(&SHORT_BODY, at);
    }
    Ok(pairs)
}

/// Adds one pair to a status (spec/seven-days.md#6).
fn set(status: &mut Status, key: &[u8], value: &[u8]) {
    let text = |value: &[u8]| (!value.is_empty()).then(|| Text::by_content(value));
    let number = core::str::from_utf8(value)
        .ok()
        .and_then(|value| value.parse::<i64>().ok());
    let boolean = match value {
        b"True" => Some(true),
        b"False" => Some(false),
        _ => None,
    };
    match (key, number, boolean) {
        (b"GameType", ..) if value == GAME_TYPE => return,
        (b"GameType", ..) => {
            status.add_extra("game-type", filled(value));
            return;
        }
        (b"GameHost", ..) => status.name = text(value),
        (b"GameName", ..) => {
            status.add_extra("save", filled(value));
            return;
        }
        (b"ServerDescription", ..) => status.motd = text(value),
        (b"LevelName", ..) => status.map = filled(value),
        (b"GameMode", ..) => status.mode = filled(value),
        (b"ServerVersion", ..) => status.version = filled(value),
        (b"IP", ..) => address(status).host = filled(value),
        (b"Port", Some(port @ 0..=0xFFFF), _) => address(status).port = Some(port as u16),
        (b"CurrentPlayers", Some(online), _) => status.players.online = Some(online),
        (b"MaxPlayers", Some(max), _) => status.players.max = Some(max),
        (b"IsPasswordProtected", _, Some(boolean)) => status.has_password = Some(boolean),
        (b"EACEnabled", _, Some(boolean)) => status.has_anti_cheat = Some(boolean),
        (b"CurrentServerTime", Some(ticks @ 0..), _) => {
            let day = ticks / TICKS_PER_DAY + 1;
            status.extra.push(Extra::new("day", day));
        }
        _ => {}
    }
    let is_member = matches!(
        key,
        b"GameHost" | b"ServerDescription" | b"LevelName" | b"GameMode" | b"ServerVersion" | b"IP"
    );
    // Members keep the text. Numbers that do not parse stay readable as rules.
    let is_number = matches!(key, b"Port" | b"CurrentPlayers" | b"MaxPlayers") && number.is_some();
    let is_truth = matches!(key, b"IsPasswordProtected" | b"EACEnabled") && boolean.is_some();
    if !(is_member || is_number || is_truth) {
        let decode = |bytes: &[u8]| -> CompactString { by_content(bytes).0.into() };
        status.rules.push(Rule {
            key: decode(key),
            value: decode(value),
        });
    }
}

fn address(status: &mut Status) -> &mut Address {
    status.address.get_or_insert_default()
}

/// Longest text in bytes.
const MAX_TEXT: usize = 500;
/// Longest body in bytes.
const MAX_BODY: usize = 4_096;
/// Keys of rules that are not sent: members of the status, addresses and ids.
const HIDDEN: [&str; 14] = [
    "GameType",
    "GameHost",
    "GameName",
    "ServerDescription",
    "LevelName",
    "GameMode",
    "ServerVersion",
    "Port",
    "CurrentPlayers",
    "MaxPlayers",
    "IsPasswordProtected",
    "EACEnabled",
    "IP",
    "SteamID",
];
/// Another id that is not sent.
const UNIQUE_ID: &str = "UniqueId";

/// Encodes the information for a status (spec/seven-days.md#7).
fn reply(status: &Status) -> Vec<u8> {
    let status = &*status.with_codes(Codes::None);
    let mut body = Vec::new();
    body.extend(b"GameType:7DTD;\r\n");
    let plain = |text: Option<&Text>| text.map(Text::plain);
    let name = plain(status.name.as_ref());
    let motd = plain(status.motd.as_ref());
    let save = match status.extra("save") {
        Some(Value::Str(save)) => Some(save.as_str()),
        _ => None,
    };
    for (key, value) in [
        ("GameHost", name.as_deref()),
        ("GameName", save),
        ("LevelName", status.map.as_deref()),
        ("GameMode", status.mode.as_deref()),
        ("ServerVersion", status.version.as_deref()),
        ("ServerDescription", motd.as_deref()),
    ] {
        if let Some(value) = value {
            add(key, value, &mut body);
        }
    }
    let port = status.address.as_ref().and_then(|address| address.port);
    for (key, number) in [
        ("Port", port.map(i64::from)),
        ("CurrentPlayers", Some(status.players.count())),
        ("MaxPlayers", status.players.max),
    ] {
        if let Some(number) = number {
            add(key, &format!("{number}"), &mut body);
        }
    }
    for (key, value) in [
        ("IsPasswordProtected", status.has_password),
        ("EACEnabled", status.has_anti_cheat),
    ] {
        if let Some(value) = value {
            add(key, if value { "True" } else { "False" }, &mut body);
        }
    }
    let mut lines = Vec::new();
    for rule in &status.rules {
        let key = without_controls(&rule.key);
        if HIDDEN.contains(&key.as_str()) || key == UNIQUE_ID || key.contains([':', '\n']) {
            continue;
        }
        lines.clear();
        add(&key, &rule.value, &mut lines);
        if body.len() + lines.len() + 2 <= MAX_BODY {
            body.extend_from_slice(&lines);
        }
    }
    body.extend(b"\r\n");
    with_length(&body)
}

fn with_length(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::from(format!("{:05}\r\n", body.len()));
    out.extend(body);
    out
}

/// Appends a pair, in one line.
fn add(key: &str, value: &str, out: &mut Vec<u8>) {
    let value = without_controls(value);
    for piece in [cut(key, MAX_TEXT), ":", cut(&value, MAX_TEXT), ";\r\n"] {
        out.extend(piece.bytes());
    }
}

const RULES: &[(&str, &[&str])] = &[
    ("Region", &["Europe", "NorthAmericaEast"]),
    ("GameDifficulty", &["1", "2", "3"]),
    ("DayNightLength", &["60", "90"]),
    ("AllowCrossplay", &["True", "False"]),
];

fn sample_status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    let motd = random.text(&["survive; together", "caf\u{E9}: open", "\u{2605} season 7"]);
    status.motd = Some(Text::unformatted(motd));
    status.mode = Some("GameModeSurvival".into());
    status.version = Some("V.2.4.7".into());
    status.has_password = Some(random.below(8) == 0);
    status.has_anti_cheat = Some(random.below(2) == 0);
    status.address = Some(Address {
        host: None,
        port: Some(26_900),
    });
    status.players.online = Some(server.players.len() as i64);
    status.players.max = Some(64);
    let ticks = random.below(2_400_000) as i64;
    status
        .extra
        .push(Extra::new("save", random.text(&["World1", "Saturday"])));
    status
        .extra
        .push(Extra::new("day", ticks / TICKS_PER_DAY + 1));
    let rule = |key: &str, value: &str| Rule {
        key: key.into(),
        value: value.into(),
    };
    status.rules.extend(random.rules(RULES));
    status
        .rules
        .push(rule("CurrentServerTime", &ticks.to_string()));
    server.status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Notes;

    #[test]
    fn values_may_have_colons_and_semicolons() {
        let body = b"GameType:7DTD;\r\nServerDescription:a: b; c\r\nmore;;\r\nX:1\r\n\r\n";
        let message = with_length(body);
        let mut notes = Notes::default();
        let pairs = read_pairs(&mut Reader::new(&message, &mut notes)).unwrap();
        assert_eq!(
            pairs,
            [
                (&b"GameType"[..], &b"7DTD"[..]),
                (b"ServerDescription", b"a: b; c\r\nmore;"),
                (b"X", b"1"),
            ]
        );
        let mut notes = Notes::default();
        let empty = read_pairs(&mut Reader::new(b"00000\r\n", &mut notes));
        assert_eq!(empty, Ok(Vec::new()));
        assert_eq!(notes.met().count(), 0);
        for wrong in [
            &b"0012x"[..],
            b"00012\n",
            b"99999\r\n",
            b"\xFF\xFF",
            b"\0\x10\0",
        ] {
            assert!(lengths(wrong).is_err(), "{wrong:?}");
        }
    }
}
