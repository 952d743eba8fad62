//! Bytes ⇄ messages. The only file that knows the layout (spec/quake2.md#2 to #4).

use super::deviation::*;
use crate::protocol::{Direction, Explanation};
use crate::protocols::quake::infostring::{Dialect, Infostring, Word, decode, read_lines, words};
use crate::wire::{Error, Notes, Reader, whole_number};
use alloc::{format, vec::Vec};

/// Starts every message outside of a game session.
pub const OUT_OF_BAND: [u8; 4] = [0xFF; 4];
/// Number of Quake 2's own protocol.
pub const PROTOCOL: i64 = 34;
/// Length of the shortest status request in bytes.
pub(super) const STATUS_REQUEST: usize = OUT_OF_BAND.len() + 6;

const DIALECT: Dialect = Dialect {
    no_value: &NO_VALUE,
    duplicate: &DUPLICATE_KEY,
    empty_line: &EMPTY_LINE,
    no_line_feed: Some(&NO_LINE_FEED),
    variables_after_players: None,
    decode,
};

/// Request of a Quake 2 client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for a sign of life.
    Ping,
    /// Asks for name, map and counts, with the number of the client's protocol.
    Info(i64),
    /// Asks for all variables and the players.
    Status,
}

impl Request {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(OUT_OF_BAND);
        match self {
            Self::Ping => out.extend(b"ping\n"),
            Self::Info(protocol) => out.extend(format!("info {protocol}\n").bytes()),
            Self::Status => out.extend(b"status\n"),
        }
    }

    /// Parses a request; `None` if it is none of this protocol. Servers ignore the number in a status
    /// request, which belongs to QuakeWorld.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Option<Self> {
        let body = bytes.strip_prefix(&OUT_OF_BAND)?;
        let text = body.trim_ascii_end();
        let text = text.strip_suffix(b"\0").unwrap_or(text).trim_ascii_end();
        let mut parts = words(text, OUT_OF_BAND.len());
        let command = parts.next()?;
        let argument = parts.next();
        let request = match (command.bytes, argument) {
            (b"ping", None) => Self::Ping,
            (b"status", None) => Self::Status,
            (b"status", Some(bits)) => bits.number().map(|_| Self::Status)?,
            (b"info", Some(version)) => Self::Info(version.number()?),
            _ => return None,
        };
        if parts.next().is_some() {
            return None;
        }
        command.note("command", notes);
        if let Some(version) = argument {
            version.note("protocol", notes);
        }
        Some(request)
    }
}

/// Reply of a Quake 2 server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A sign of life.
    Ping,
    /// Name, map and counts.
    Info(Summary<'a>),
    /// The server has another protocol number.
    WrongVersion,
    /// All variables and the players.
    Status(Infostring<'a>, Vec<Line<'a>>),
    /// A text for people, such as the reason for a ban.
    Print(&'a [u8]),
}

/// The line of an info reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary<'a> {
    /// Name of the server.
    pub name: &'a [u8],
    /// Name of the map.
    pub map: &'a [u8],
    /// Number of players online.
    pub online: i64,
    /// Maximum number of players.
    pub max: i64,
}

/// The player of one line: `score ping "name"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line<'a> {
    /// Score of the player.
    pub score: Option<i64>,
    /// Round trip in milliseconds.
    pub ping: Option<i64>,
    /// Name of the player.
    pub name: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Returns the name of a reply, if bytes start like one.
    pub fn name_of(bytes: &[u8]) -> Option<&'static str> {
        let body = bytes.strip_prefix(&OUT_OF_BAND)?;
        match body {
            [b'a', b'c', b'k', ..] => Some("ping reply"),
            [b'i', b'n', b'f', b'o', b'\n', ..] => Some("info reply"),
            [b'p', b'r', b'i', b'n', b't', b'\n', b'\\', ..] => Some("status reply"),
            [b'p', b'r', b'i', b'n', b't', b'\n', ..] => Some("print"),
            _ => None,
        }
    }

    /// Parses a reply of a Quake 2 server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let name = Self::name_of(bytes);
        let mut r = Reader::new(bytes, notes);
        r.constant(&OUT_OF_BAND, "header")?;
        match name {
            Some("ping reply") => r.constant(b"ack", "command").map(|()| Self::Ping),
            Some("info reply") => {
                r.constant(b"info\n", "command")?;
                Self::info(r.rest(), r.at(), notes)
            }
            Some(kind) => {
                r.constant(b"print\n", "command")?;
                let at = r.at();
                let rest = r.rest();
                if kind == "status reply" {
                    let line = |line, at, notes: &mut Notes| Some(Line::read(line, at, notes));
                    let (info, players) = read_lines(rest, at, notes, &DIALECT, line)?;
                    return Ok(Self::Status(info, players));
                }
                r.take(rest.len(), "text")?;
                r.note(at, "text", || format!("{:?}", decode(rest)));
                Ok(Self::Print(rest))
            }
            None => Err(Error::bad("command", r.at(), "print, info or ack")),
        }
    }

    /// Parses the line of an info reply from its end, because the name can contain spaces.
    fn info(bytes: &'a [u8], at: usize, notes: &mut Notes) -> Result<Self, Error> {
        // As in a status reply, a NUL may be last.
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        let line = match bytes.strip_suffix(b"\n") {
            Some(line) => line,
            None => {
                notes.deviation(&NO_LINE_FEED, at + bytes.len());
                bytes
            }
        };
        if line.ends_with(b": wrong version") {
            notes.field(at..at + line.len(), "text", || {
                format!("{:?}", decode(line))
            });
            return Ok(Self::WrongVersion);
        }
        let slash = line.iter().rposition(|byte| *byte == b'/');
        let error = || Error::bad("counts", at, "players/maximum at the end of the line");
        let slash = slash.ok_or_else(error)?;
        let before = line.get(..slash).unwrap_or_default();
        let count_at = last_word(before);
        let before_count = before.get(..count_at).unwrap_or_default();
        let map_end = before_count.trim_ascii_end().len();
        let before_map = before_count.get(..map_end).unwrap_or_default();
        let map_at = last_word(before_map);
        let name = before_map.get(..map_at).unwrap_or_default();
        let name_at = name.len() - name.trim_ascii_start().len();
        let count = before.get(count_at..);
        let max = line.get(slash + 1..);
        let online = count.and_then(whole_number);
        let max_count = max.and_then(whole_number);
        let (online, max_count) = online.zip(max_count).ok_or_else(error)?;
        let summary = Summary {
            name: name.trim_ascii(),
            map: before_map.get(map_at..).unwrap_or_default(),
            online,
            max: max_count,
        };
        let field = |bytes, start: usize| Word {
            bytes,
            at: at + start,
            is_quoted: false,
        };
        field(summary.name, name_at).note("name", notes);
        field(summary.map, map_at).note("map", notes);
        field(count.unwrap_or_default(), count_at).note("players", notes);
        field(max.unwrap_or_default(), slash + 1).note("maximum", notes);
        Ok(Self::Info(summary))
    }
}

/// Returns where the last word of a line starts.
fn last_word(line: &[u8]) -> usize {
    let line = line.trim_ascii_end();
    line.iter()
        .rposition(|byte| *byte == b' ')
        .map_or(0, |space| space + 1)
}

impl<'a> Line<'a> {
    /// Parses a line at offset `at`. Any line can be parsed.
    fn read(line: &'a [u8], at: usize, notes: &mut Notes) -> Self {
        let mut player = Self::default();
        let mut has_name = false;
        let mut words = words(line, at).enumerate();
        for (place, word) in words.by_ref() {
            let number = word.number().filter(|_| !word.is_quoted);
            match place {
                0 => player.score = number,
                1 => player.ping = number,
                2 => player.name = word.bytes,
                _ => notes.deviation(&PLAYER_ADDRESS, word.at),
            }
            has_name |= place == 2;
            if (place < 2) == number.is_none() {
                notes.deviation(&ODD_PLAYER, word.at);
            }
            let names = ["score", "ping", "name"];
            word.note(names.get(place).unwrap_or(&"address"), notes);
        }
        if !has_name {
            notes.deviation(&ODD_PLAYER, at);
        }
        player
    }
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let is_request = direction != Some(Direction::Reply);
    if let Some(request) = is_request.then(|| Request::read(bytes, notes)).flatten() {
        let message = match request {
            Request::Ping => "ping request",
            Request::Info(_) => "info request",
            Request::Status => "status request",
        };
        return Some(Explanation {
            message,
            direction: Direction::Request,
            // QuakeWorld has the same requests, except for that of the info.
            is_certain: matches!(request, Request::Info(_)),
            error: None,
        });
    }
    if direction == Some(Direction::Request) {
        return None;
    }
    let message = Reply::name_of(bytes)?;
    Some(Explanation {
        message,
        direction: Direction::Reply,
        is_certain: matches!(message, "info reply" | "status reply"),
        error: Reply::read(bytes, notes).err(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::quake::infostring::MAX_LINES;
    use alloc::string::ToString;
    use compact_str::CompactString;

    fn bytes(body: &str) -> Vec<u8> {
        [&OUT_OF_BAND, body.as_bytes()].concat()
    }

    fn met(notes: &Notes) -> Vec<&'static str> {
        notes.met().map(|met| met.name).collect()
    }

    #[test]
    fn requests_both_ways() {
        for (request, body) in [
            (Request::Ping, "ping\n"),
            (Request::Info(34), "info 34\n"),
            (Request::Status, "status\n"),
        ] {
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(out, bytes(body));
            for end in ["", "\n", "\0", "\n\0", " \n"] {
                let text = body.trim_end().to_string() + end;
                let read = Request::read(&bytes(&text), &mut Notes::default());
                assert_eq!(read, Some(request), "{text:?}");
            }
        }
        let numbered = Request::read(&bytes("status 23\n"), &mut Notes::default());
        assert_eq!(numbered, Some(Request::Status));
        for other in [
            "status x",
            "statusx",
            "STATUS",
            "info",
            "info x",
            "info 34 5",
            "",
            "pin",
        ] {
            assert_eq!(
                Request::read(&bytes(other), &mut Notes::default()),
                None,
                "{other}"
            );
        }
        assert_eq!(
            Request::read(b"\xFF\xFF\xFFstatus", &mut Notes::default()),
            None
        );
    }

    #[test]
    fn summaries_are_read_from_the_end() {
        let read = |body: &str| -> (CompactString, CompactString, i64, i64) {
            let bytes = bytes(&format!("info\n{body}"));
            match Reply::read(&bytes, &mut Notes::explaining()) {
                Ok(Reply::Info(summary)) => (
                    decode(summary.name),
                    decode(summary.map),
                    summary.online,
                    summary.max,
                ),
                other => panic!("{other:?}"),
            }
        };
        let expected = |name: &str, map: &str, online, max| (name.into(), map.into(), online, max);
        assert_eq!(
            read("            Test    q2dm1  2/ 8\n"),
            expected("Test", "q2dm1", 2, 8)
        );
        assert_eq!(
            read("a b/c longer than sixteen base1 10/16\n"),
            expected("a b/c longer than sixteen", "base1", 10, 16)
        );
        assert_eq!(read(" q2dm1  0/ 8\n"), expected("", "q2dm1", 0, 8));
        for bad in ["", "\n", "Test q2dm1 2\n", "Test q2dm1 x/8\n", "/\n"] {
            let bytes = bytes(&format!("info\n{bad}"));
            let error = Reply::read(&bytes, &mut Notes::default()).unwrap_err();
            assert!(error.to_string().contains("counts at offset 9"), "{bad}");
        }
        let mut notes = Notes::default();
        assert_eq!(
            Reply::read(&bytes("info\nTest: wrong version"), &mut notes),
            Ok(Reply::WrongVersion)
        );
        assert_eq!(met(&notes), ["no-line-feed"]);
    }

    #[test]
    fn player_lines() {
        let read = |line: &'static str| {
            let mut notes = Notes::explaining();
            let line = Line::read(line.as_bytes(), 0, &mut notes);
            (line, met(&notes))
        };
        let line = |score, ping, name: &'static str| Line {
            score,
            ping,
            name: name.as_bytes(),
        };
        assert_eq!(
            read("-3 50 \"A l\""),
            (line(Some(-3), Some(50), "A l"), Vec::new())
        );
        assert_eq!(
            read("3 0 \"a\"b\""),
            (line(Some(3), Some(0), "a\"b"), Vec::new())
        );
        assert_eq!(
            read("3 50 \"Al\" \"192.0.2.1:27901\""),
            (line(Some(3), Some(50), "Al"), ["player-address"].into())
        );
        for odd in ["3 50", "x 50 \"Al\"", "3", "3 \"50\" \"Al\"", "3 50 60"] {
            assert_eq!(read(odd).1, ["odd-player"], "{odd}");
        }
    }

    #[test]
    fn other_texts_are_no_status() {
        let read = |body: &str| format!("{:?}", Reply::read(&bytes(body), &mut Notes::default()));
        assert!(read("print\nYou are banned.\n").starts_with("Ok(Print("));
        assert!(read("ack").starts_with("Ok(Ping"));
        assert!(read("printx").starts_with("Err"));
        let lines = "1 1 \"\"\n".repeat(MAX_LINES + 1);
        assert!(read(&format!("print\n\\a\\b\n{lines}")).contains("Limit"));
    }
}
