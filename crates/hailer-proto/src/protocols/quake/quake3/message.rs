//! Bytes ⇄ messages. The only file that knows the layout (spec/quake3.md#2 to #5).

use super::deviation::*;
use crate::protocol::{Direction, Explanation};
use crate::protocols::quake::infostring::{
    Dialect, Infostring, Word, decode, open_values, read_lines, words,
};
use crate::wire::{Error, Notes, Reader, Utf8, by_content, decimal};
use alloc::{format, vec::Vec};
use core::ops::Range;

/// Starts every message outside of a game session.
pub const OUT_OF_BAND: [u8; 4] = [0xFF; 4];
/// Follows it in requests to servers of Medal of Honor, which skip one byte.
const TO_SERVER: u8 = 2;
/// Follows it in replies of these servers.
const FROM_SERVER: u8 = 1;
/// Longest challenge that servers return.
pub const MAX_CHALLENGE: usize = 128;
/// Length of the shortest status request in bytes.
pub(super) const STATUS_REQUEST: usize = OUT_OF_BAND.len() + GET_STATUS.len();

const GET_INFO: &str = "getinfo";
const GET_STATUS: &str = "getstatus";
const INFO: &[u8] = b"infoResponse";
const STATUS: &[u8] = b"statusResponse";
/// Marks an info of FiveM and RedM, which do not escape backslashes.
const CITIZEN_FX: &[u8] = b"\\gamename\\CitizenFX\\";
/// The keys whose values owners choose, and the key after them, in their order.
const CITIZEN_FX_KEYS: [&str; 4] = ["hostname", "gametype", "mapname", "iv"];
const DIALECT: Dialect = Dialect {
    no_value: &NO_VALUE,
    duplicate: &DUPLICATE_KEY,
    empty_line: &EMPTY_LINE,
    no_line_feed: Some(&NO_LINE_FEED),
    variables_after_players: Some(&VARIABLES_AFTER_PLAYERS),
    decode,
};

/// Request of a Quake 3 client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The part of the status that was requested.
    pub kind: Kind,
    /// Any text; the server returns it. Empty if there is none.
    pub challenge: &'a [u8],
    /// Whether it has the byte for the direction that Medal of Honor requires.
    pub is_directed: bool,
}

/// Subject of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Name, map and counts.
    Info,
    /// All variables and the players.
    Status,
}

impl<'a> Request<'a> {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&OUT_OF_BAND);
        if self.is_directed {
            out.push(TO_SERVER);
        }
        let word = match self.kind {
            Kind::Info => GET_INFO,
            Kind::Status => GET_STATUS,
        };
        out.extend_from_slice(word.as_bytes());
        if !self.challenge.is_empty() {
            out.push(b' ');
            out.extend_from_slice(self.challenge);
        }
    }

    /// Returns the requested part, if the bytes start like a request.
    pub fn kind_of(bytes: &[u8]) -> Option<Kind> {
        let body = bytes.strip_prefix(&OUT_OF_BAND)?;
        let body = body.strip_prefix(&[TO_SERVER]).unwrap_or(body);
        let is = |word: &str| {
            let rest = body.split_at_checked(word.len());
            rest.is_some_and(|(start, rest)| {
                start.eq_ignore_ascii_case(word.as_bytes())
                    && !rest.first().is_some_and(u8::is_ascii_alphabetic)
            })
        };
        if is(GET_STATUS) {
            Some(Kind::Status)
        } else if is(GET_INFO) {
            Some(Kind::Info)
        } else {
            None
        }
    }

    /// Parses a request. Servers accept any case, and a line feed or NUL at the end.
    ///
    /// # Errors
    ///
    /// Fails if the command is unknown, or the challenge too long or not made of printable
    /// characters that an infostring can hold.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let kind = Self::kind_of(bytes);
        let mut r = Reader::new(bytes, notes);
        r.constant(&OUT_OF_BAND, "header")?;
        let is_directed = direction(&mut r, TO_SERVER)?;
        let at = r.at();
        let kind = kind.ok_or(Error::bad("command", at, "getinfo or getstatus"))?;
        let length = match kind {
            Kind::Info => GET_INFO.len(),
            Kind::Status => GET_STATUS.len(),
        };
        let word = r.take(length, "command")?;
        r.note(at, "command", || format!("{:?}", by_content(word).0));
        let rest = r.rest();
        let at = r.at() + rest.len() - rest.trim_ascii_start().len();
        let end = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | 0);
        let challenge = rest
            .trim_ascii_start()
            .split(end)
            .next()
            .unwrap_or_default();
        let is_allowed = |byte: &u8| byte.is_ascii_graphic() && !b"\\/;\"%".contains(byte);
        if challenge.len() > MAX_CHALLENGE || !challenge.iter().all(is_allowed) {
            let expected = "at most 128 visible characters other than \\ / ; \" %";
            return Err(Error::bad("challenge", at, expected));
        }
        if !challenge.is_empty() {
            let value = || format!("{:?}", by_content(challenge).0);
            r.notes()
                .field(at..at + challenge.len(), "challenge", value);
        }
        Ok(Self {
            kind,
            challenge,
            is_directed,
        })
    }
}

/// Reads the byte for the direction, if there is one.
fn direction(r: &mut Reader<'_, '_>, expected: u8) -> Result<bool, Error> {
    let has_direction = r.rest().first() == Some(&expected);
    if has_direction {
        r.raw(1, "direction")?;
    }
    Ok(has_direction)
}

/// Reply of a Quake 3 server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Kind of the reply. A server may send the info instead of a status that is too long.
    pub kind: Kind,
    /// Variables of the server.
    pub info: Infostring<'a>,
    /// Players of a status reply.
    pub players: Vec<Line<'a>>,
    /// Whether it has the byte for the direction, as from Medal of Honor.
    pub is_directed: bool,
    /// The bytes of a status, checked together: most names need no further check.
    pub utf8: Utf8<'a>,
}

/// The player of one line: `score ping "name"`, with a team before or after the name in some games.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line<'a> {
    /// Score; `None` if it is not a number.
    pub score: Option<i64>,
    /// The score as text, if it is not a number.
    pub score_text: Option<&'a [u8]>,
    /// Round trip in milliseconds.
    pub ping: Option<i64>,
    /// Number of the team.
    pub team: Option<i64>,
    /// Name with its color codes.
    pub name: &'a [u8],
    /// Further words after the name.
    pub further: Vec<&'a [u8]>,
}

impl<'a> Reply<'a> {
    /// Returns what bytes report, if they start like a reply.
    pub fn kind_of(bytes: &[u8]) -> Option<Kind> {
        let body = bytes.strip_prefix(&OUT_OF_BAND)?;
        let body = body.strip_prefix(&[FROM_SERVER]).unwrap_or(body);
        match body {
            _ if body.starts_with(INFO) => Some(Kind::Info),
            _ if body.starts_with(STATUS) => Some(Kind::Status),
            _ => None,
        }
    }

    /// Parses a reply of a Quake 3 server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let kind = Self::kind_of(bytes);
        let mut r = Reader::new(bytes, notes);
        r.constant(&OUT_OF_BAND, "header")?;
        let is_directed = direction(&mut r, FROM_SERVER)?;
        let at = r.at();
        let kind = kind.ok_or(Error::bad("command", at, "infoResponse or statusResponse"))?;
        r.constant(
            match kind {
                Kind::Info => INFO,
                Kind::Status => STATUS,
            },
            "command",
        )?;
        // Some servers end the line with a blank before the line feed.
        let blanks = r
            .rest()
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\r'))
            .count();
        r.take(blanks, "command")?;
        r.constant(b"\n", "line feed")?;
        let at = r.at();
        let rest = r.rest();
        match kind {
            Kind::Info => {
                let end = rest.iter().rposition(|byte| !matches!(byte, b'\n' | 0));
                let info = rest.get(..end.map_or(0, |end| end + 1)).unwrap_or_default();
                let is_open = memchr::memmem::find(info, CITIZEN_FX).is_some();
                let open = if is_open {
                    open_values(info, &CITIZEN_FX_KEYS)
                } else {
                    Vec::new()
                };
                let has_backslash = |range: &Range<usize>| {
                    let value = info.get(range.clone());
                    value.is_some_and(|value| value.contains(&b'\\'))
                };
                if let Some(range) = open.iter().find(|range| has_backslash(range)) {
                    notes.deviation(&BACKSLASH_IN_VALUE, at + range.start);
                }
                let info = Infostring::read_open(info, at, &open, notes, &DIALECT)?;
                let players = Vec::new();
                Ok(Self {
                    kind,
                    info,
                    players,
                    is_directed,
                    utf8: Utf8::default(),
                })
            }
            Kind::Status => {
                let (info, players) = read_lines(rest, at, notes, &DIALECT, |line, at, notes| {
                    let usual = Line::usual(line).filter(|_| !notes.has_fields());
                    usual.or_else(|| Some(Line::read(line, at, notes)))
                })?;
                Ok(Self {
                    kind,
                    info,
                    players,
                    is_directed,
                    utf8: Utf8::start_of(rest),
                })
            }
        }
    }
}

impl<'a> Line<'a> {
    /// Parses a line of the usual form, `score ping "name"`, without notes. Returns what
    /// [`Line::read`] returns, in less time.
    fn usual(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let mut number = || {
            let end = rest.iter().position(|byte| *byte == b' ')?;
            let (word, after) = rest.split_at_checked(end)?;
            rest = after.get(1..)?;
            decimal(word)
        };
        let (score, ping) = (number()?, number()?);
        Some(Self {
            score: Some(score),
            ping: Some(ping),
            name: rest.strip_prefix(b"\"")?.strip_suffix(b"\"")?,
            ..Self::default()
        })
    }

    /// Parses a line at offset `at`. Any line can be parsed.
    fn read(line: &'a [u8], at: usize, notes: &mut Notes) -> Self {
        // The name is everything between the first and the last quote. A line that is cut lacks the
        // last one.
        let first = line.iter().position(|byte| *byte == b'"');
        let last = line.iter().rposition(|byte| *byte == b'"');
        let is_quoted = first.is_some();
        let first = first.unwrap_or_else(|| numbers_end(line));
        let last = last.filter(|last| *last > first).unwrap_or_else(|| {
            notes.deviation(&ODD_PLAYER, at);
            line.len()
        });
        let mut player = Self::default();
        let before = line.get(..first).unwrap_or_default();
        let has_score = words(before, at).nth(1).is_some();
        for (place, word) in words(before, at).enumerate() {
            let number = word.number();
            // Medal of Honor sends no score.
            let place = place + usize::from(!has_score && number.is_some());
            let name = match place {
                0 if number.is_none() => {
                    player.score_text = Some(word.bytes);
                    "score"
                }
                0 => {
                    player.score = number;
                    "score"
                }
                1 => {
                    player.ping = number;
                    "ping"
                }
                2 => {
                    player.team = number;
                    "team"
                }
                _ => {
                    player.further.push(word.bytes);
                    "further"
                }
            };
            word.note(name, notes);
            if number.is_none() {
                notes.deviation(&ODD_PLAYER, word.at);
            }
        }
        if player.ping.is_none() {
            notes.deviation(&ODD_PLAYER, at);
        }
        let name_start = first + usize::from(is_quoted);
        let name = Word {
            bytes: line.get(name_start..last).unwrap_or_default(),
            at: at + name_start,
            is_quoted,
        };
        name.note("name", notes);
        player.name = name.bytes;
        let after = line.get(last + 1..).unwrap_or_default();
        for word in words(after, at + last + 1) {
            match word.number() {
                Some(team) if player.team.is_none() => {
                    word.note("team", notes);
                    player.team = Some(team);
                }
                _ => {
                    word.note("further", notes);
                    player.further.push(word.bytes);
                }
            }
        }
        player
    }
}

/// Returns where a line without quotes has its name: after at most two numbers.
fn numbers_end(line: &[u8]) -> usize {
    let numbers = words(line, 0).take(2);
    let numbers = numbers.take_while(|word| word.number().is_some());
    let end = numbers.last().map_or(0, |word| word.at + word.bytes.len());
    let rest = line.get(end..).unwrap_or_default();
    line.len() - rest.trim_ascii_start().len()
}

/// Appends the start of a reply, up to the infostring.
pub fn write_start(kind: Kind, out: &mut Vec<u8>) {
    out.extend_from_slice(&OUT_OF_BAND);
    out.extend_from_slice(match kind {
        Kind::Info => INFO,
        Kind::Status => STATUS,
    });
    out.push(b'\n');
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let (found, kind) = match (Request::kind_of(bytes), Reply::kind_of(bytes)) {
        (Some(kind), _) => (Direction::Request, kind),
        (_, Some(kind)) => (Direction::Reply, kind),
        _ => return None,
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let (message, error) = match (found, kind) {
        (Direction::Request, Kind::Info) => ("info request", Request::read(bytes, notes).err()),
        (Direction::Request, Kind::Status) => ("status request", Request::read(bytes, notes).err()),
        (Direction::Reply, Kind::Info) => ("info reply", Reply::read(bytes, notes).err()),
        (Direction::Reply, Kind::Status) => ("status reply", Reply::read(bytes, notes).err()),
    };
    Some(Explanation::certain(message, found, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::quake::infostring::{MAX_LINES, decode};
    use alloc::string::ToString;

    #[test]
    fn usual_lines_are_read_as_others() {
        let usual = |line: &str| {
            let found = Line::usual(line.as_bytes());
            let mut notes = Notes::default();
            let read = Line::read(line.as_bytes(), 0, &mut notes);
            assert!(
                found.is_none() || found == Some(read) && notes.met().count() == 0,
                "{line}"
            );
            found.is_some()
        };
        for line in ["12 48 \"Al\"", "-5 0 \"\"", "1 2 \"a \"b\" c\""] {
            assert!(usual(line), "{line}");
        }
        for line in [
            "",
            "1",
            "1 2",
            "1 2 \"",
            "1 2 3 \"Al\"",
            "1 2 \"Al\" 3",
            "1  2 \"Al\"",
            " 1 2 \"Al\"",
            "x 2 \"Al\"",
            "1 \"2\" \"Al\"",
            "1 2 Al",
        ] {
            assert!(!usual(line), "{line}");
        }
    }

    #[test]
    fn requests_both_ways() {
        for (kind, challenge, bytes) in [
            (Kind::Info, &b""[..], &b"\xFF\xFF\xFF\xFFgetinfo"[..]),
            (
                Kind::Status,
                b"hailer7",
                b"\xFF\xFF\xFF\xFFgetstatus hailer7",
            ),
        ] {
            let request = Request {
                kind,
                challenge,
                is_directed: false,
            };
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(out, bytes);
            for end in [&b""[..], b"\n", b"\0", b" ", b" more\0"] {
                let mut longer = out.to_ascii_uppercase();
                longer.truncate(4 + 9.min(out.len() - 4));
                longer.extend(&out[longer.len()..]);
                longer.extend(end);
                if challenge.is_empty() && end == b" more\0" {
                    continue;
                }
                let read = Request::read(&longer, &mut Notes::default());
                assert_eq!(read, Ok(request), "{longer:?}");
            }
        }
        let error = |body: &str| {
            let bytes = [&OUT_OF_BAND, body.as_bytes()].concat();
            Request::read(&bytes, &mut Notes::default())
                .unwrap_err()
                .field
        };
        assert_eq!(error("getinfos"), "command");
        assert_eq!(error("get"), "command");
        assert_eq!(error("getinfo a\\b"), "challenge");
        assert_eq!(error(&format!("getinfo {}", "x".repeat(129))), "challenge");
        assert_eq!(Request::kind_of(b"\xFF\xFF\xFFgetinfo"), None);
    }

    fn line(text: &str) -> (Line<'_>, Vec<&'static str>) {
        let mut notes = Notes::explaining();
        let line = Line::read(text.as_bytes(), 0, &mut notes);
        (line, notes.met().map(|met| met.name).collect())
    }

    #[test]
    fn forms_of_player_lines() {
        let plain = Line {
            score: Some(-3),
            ping: Some(50),
            name: b"Al",
            ..Line::default()
        };
        let with_team = Line {
            team: Some(2),
            ..plain.clone()
        };
        assert_eq!(line("-3 50 \"Al\""), (plain.clone(), Vec::new()));
        assert_eq!(line("-3 50 2 \"Al\""), (with_team.clone(), Vec::new()));
        assert_eq!(line("-3 50 \"Al\" 2"), (with_team.clone(), Vec::new()));
        let further = Line {
            further: [&b"x y"[..], b"7"].into(),
            ..with_team
        };
        // The last quote ends the name.
        assert_eq!(line("-3 50 2 x \"Al\" 7").0.further, [&b"x"[..], b"7"]);
        assert_eq!(further.name, b"Al");
        assert_eq!(line("1 999 \"a\"b\"").0.name, b"a\"b");
        let odd = ["odd-player"];
        let (word, met) = line("dead 50 \"Al\"");
        assert_eq!(
            (word.score, word.score_text, &met[..]),
            (None, Some(&b"dead"[..]), &odd[..])
        );
        assert_eq!(line("\"Al\"").1, odd);
        let no_score = Line {
            score: None,
            ..plain.clone()
        };
        assert_eq!(line("50 \"Al\""), (no_score, Vec::new()));
        // Without quotes, and cut within the name or before it.
        for text in ["-3 50 Al", "-3 50 \"Al"] {
            assert_eq!(line(text), (plain.clone(), odd.into()));
        }
        assert_eq!(line("Al Bo").0.name, b"Al Bo");
        let (unnamed, met) = line("-3 50 ");
        assert_eq!((unnamed.ping, unnamed.name), (Some(50), &b""[..]));
        assert_eq!(met, odd);
    }

    #[test]
    fn replies_that_are_not_read() {
        let error = |body: &str| {
            let bytes = [&OUT_OF_BAND, body.as_bytes()].concat();
            Reply::read(&bytes, &mut Notes::default())
                .unwrap_err()
                .to_string()
        };
        assert!(error("print\nx").contains("expected infoResponse"));
        assert!(error("infoResponse").contains("line feed at offset 16"));
        assert!(error("infoResponse\nx").contains("infostring at offset 17"));
        let lines = "1 1 \"\"\n".repeat(MAX_LINES + 1);
        assert!(error(&format!("statusResponse\n\\a\\b\n{lines}")).contains("more than 1024"));
    }

    #[test]
    fn a_nul_at_the_end_is_no_player() {
        let bytes = b"\xFF\xFF\xFF\xFFstatusResponse\n\\a\\1\n3 4 \"Al\"\n\0";
        let reply = Reply::read(bytes, &mut Notes::default()).unwrap();
        assert_eq!(reply.players.len(), 1);
    }

    #[test]
    fn lines_are_separated_from_variables() {
        let mut notes = Notes::default();
        let bytes = b"\xFF\xFF\xFF\xFFstatusResponse \n\\a\\1\n3 4 \"Al\"\n\n\\b\\2";
        let reply = Reply::read(bytes, &mut notes).unwrap();
        assert_eq!(reply.players.len(), 1);
        let rules = reply.info.rules(decode);
        assert_eq!(rules.len(), 2);
        assert_eq!(
            notes.met().map(|met| met.name).collect::<Vec<_>>(),
            ["empty-line", "no-line-feed", "variables-after-players"]
        );
    }
}
