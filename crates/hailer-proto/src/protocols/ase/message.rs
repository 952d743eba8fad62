//! Bytes ⇄ messages (spec/ase.md#2 to #4).

use super::deviation::*;
use crate::protocol::{DatagramContext, Direction, Explanation};
use crate::wire::{Error, ErrorKind, Notes, Reader, by_content, first_nul, whole_number};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The kinds of requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything as text.
    Full,
    /// No rules, and of players the names only.
    Short,
    /// No list.
    Counts,
}

impl Kind {
    /// Returns the byte that requests this kind.
    pub fn request(self) -> u8 {
        match self {
            Self::Full => b's',
            Self::Short => b'r',
            Self::Counts => b'x',
        }
    }

    /// Returns the first bytes of a reply.
    pub fn magic(self) -> &'static [u8; 4] {
        match self {
            Self::Full => b"EYE1",
            Self::Short => b"EYE2",
            Self::Counts => b"EYE3",
        }
    }

    /// Returns the kind that a byte requests.
    pub fn of_request(byte: u8) -> Option<Self> {
        match byte {
            b's' => Some(Self::Full),
            b'r' | b'b' => Some(Self::Short),
            b'x' => Some(Self::Counts),
            _ => None,
        }
    }

    /// Returns the kind of a reply.
    pub fn of_reply(bytes: &[u8]) -> Option<Self> {
        [Self::Full, Self::Short, Self::Counts]
            .into_iter()
            .find(|kind| bytes.starts_with(kind.magic()))
    }
}

/// Requests the version alone, which the reply has without a header (MTA).
pub const VERSION_REQUEST: u8 = b'v';
/// Most rules, and most players, that are read.
const MAX_ENTRIES: usize = 1_024;
/// Key of a rule of Hailer's responder: the number of listed players, if it is not that of all.
pub const LISTED: &str = "listed";
/// Longest text, in bytes: the length byte counts itself.
pub const MAX_TEXT: usize = 254;

/// Bits of a player's flag byte, in the order of the texts.
pub mod flag {
    /// Name.
    pub const NAME: u8 = 0x01;
    /// Team.
    pub const TEAM: u8 = 0x02;
    /// Skin.
    pub const SKIN: u8 = 0x04;
    /// Score.
    pub const SCORE: u8 = 0x08;
    /// Latency in milliseconds.
    pub const PING: u8 = 0x10;
    /// Time since the player joined.
    pub const TIME: u8 = 0x20;
}

/// A reply, borrowed from its datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Game.
    pub game: &'a [u8],
    /// Port of the game, as text.
    pub port: Option<&'a [u8]>,
    /// Name of the server.
    pub name: &'a [u8],
    /// Game mode of the server.
    pub mode: &'a [u8],
    /// Map. In short replies, other facts follow it, each after a NUL.
    pub map: &'a [u8],
    /// Version of the server.
    pub version: &'a [u8],
    /// Whether a password is needed: `0` or `1`, as text.
    pub password: &'a [u8],
    /// Number of players online.
    pub online: Option<i64>,
    /// Maximum number of players.
    pub max: Option<i64>,
    /// Keys and values.
    pub rules: Vec<(&'a [u8], &'a [u8])>,
    /// Players, as far as they are listed.
    pub players: Vec<Player<'a>>,
}

/// A player. Texts that the server did not send are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Player<'a> {
    /// Name of the player.
    pub name: &'a [u8],
    /// Team of the player.
    pub team: &'a [u8],
    /// Skin of the player.
    pub skin: &'a [u8],
    /// Score of the player.
    pub score: &'a [u8],
    /// Latency of the player in milliseconds.
    pub ping: &'a [u8],
    /// Time since the player joined.
    pub time: &'a [u8],
}

/// Reads a text after its length byte, which counts itself.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let [length] = r.array(field)?;
    let Some(length) = length.checked_sub(1) else {
        return Err(Error::bad(
            field,
            at,
            "a length from 1, which counts itself",
        ));
    };
    let text = r.take(length.into(), field)?;
    r.note(at, field, || format!("{:?}", by_content(text).0));
    Ok(text)
}

/// Parses a whole decimal number with an optional sign. Other text is a deviation.
fn number(text: &[u8], at: usize, notes: &mut Notes) -> Option<i64> {
    let number = whole_number(text);
    if number.is_none() {
        notes.deviation(&ODD_NUMBER, at);
    }
    number
}

fn number_text(r: &mut Reader<'_, '_>, field: &'static str) -> Result<Option<i64>, Error> {
    let at = r.at();
    let text = text(r, field)?;
    Ok(number(text, at, r.notes()))
}

/// Reads a reply of any kind.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse<'a>(bytes: &'a [u8], notes: &mut Notes) -> Result<Reply<'a>, Error> {
    let mut r = Reader::new(bytes, notes);
    let Some(kind) = Kind::of_reply(bytes) else {
        return Err(Error::bad("magic", 0, "EYE1, EYE2 or EYE3"));
    };
    r.raw(kind.magic().len(), "magic")?;
    let mut reply = Reply {
        game: text(&mut r, "game")?,
        ..Reply::default()
    };
    if kind != Kind::Counts {
        reply.port = Some(text(&mut r, "port")?);
    }
    reply.name = text(&mut r, "name")?;
    reply.mode = text(&mut r, "game type")?;
    reply.map = text(&mut r, "map")?;
    reply.version = text(&mut r, "version")?;
    if kind == Kind::Full {
        reply.password = text(&mut r, "password")?;
        reply.online = number_text(&mut r, "players")?;
        reply.max = number_text(&mut r, "max players")?;
        parse_rules(&mut r, &mut reply)?;
        parse_players(&mut r, &mut reply);
        return Ok(reply);
    }
    reply.password = match r.u8("password")? {
        0 => b"0",
        _ => b"1",
    };
    if kind == Kind::Short {
        r.u8("serial check")?;
    }
    reply.online = Some(r.u8("players")?.into());
    reply.max = Some(r.u8("max players")?.into());
    if kind == Kind::Short {
        parse_names(&mut r, &mut reply);
    }
    r.trailing(&TRAILING_BYTES);
    Ok(reply)
}

/// Reads rules up to the empty key. Players follow only a list that is whole.
///
/// # Errors
///
/// A length is 0.
fn parse_rules<'a>(r: &mut Reader<'a, '_>, reply: &mut Reply<'a>) -> Result<(), Error> {
    loop {
        let at = r.at();
        if r.remaining() == 0 {
            r.notes().deviation(&MISSING_END, at);
            break;
        }
        r.notes().group("rules", reply.rules.len());
        match parse_rule(r) {
            Ok((b"", _)) => break,
            Ok(rule) if reply.rules.len() < MAX_ENTRIES => reply.rules.push(rule),
            Err(error) if matches!(error.kind, ErrorKind::Bad(_)) => return Err(error),
            _ => {
                cut(r, at);
                return Ok(());
            }
        }
    }
    r.notes().ungroup();
    Ok(())
}

/// Reads a key and its value. An empty key has none.
fn parse_rule<'a>(r: &mut Reader<'a, '_>) -> Result<(&'a [u8], &'a [u8]), Error> {
    let key = text(r, "key")?;
    let value = if key.is_empty() {
        &[]
    } else {
        text(r, "value")?
    };
    Ok((key, value))
}

/// Reads players up to the end of the datagram. An incomplete one is dropped.
fn parse_players<'a>(r: &mut Reader<'a, '_>, reply: &mut Reply<'a>) {
    while r.remaining() > 0 {
        let at = r.at();
        if reply.players.len() == MAX_ENTRIES {
            return cut(r, at);
        }
        r.notes().group("players", reply.players.len());
        match parse_player(r) {
            Ok(player) => reply.players.push(player),
            Err(_) => return cut(r, at),
        }
    }
    r.notes().ungroup();
}

fn parse_player<'a>(r: &mut Reader<'a, '_>) -> Result<Player<'a>, Error> {
    let flags = r.u8("flags")?;
    let mut player = Player::default();
    for (bit, field, name) in [
        (flag::NAME, &mut player.name, "name"),
        (flag::TEAM, &mut player.team, "team"),
        (flag::SKIN, &mut player.skin, "skin"),
        (flag::SCORE, &mut player.score, "score"),
        (flag::PING, &mut player.ping, "ping"),
        (flag::TIME, &mut player.time, "time"),
    ] {
        if flags & bit != 0 {
            *field = text(r, name)?;
        }
    }
    Ok(player)
}

/// Reads names up to the end of the datagram. Without space, the server sends empty ones.
fn parse_names<'a>(r: &mut Reader<'a, '_>, reply: &mut Reply<'a>) {
    while r.remaining() > 0 {
        let at = r.at();
        if reply.players.len() == MAX_ENTRIES {
            return cut(r, at);
        }
        r.notes().group("players", reply.players.len());
        match text(r, "name") {
            Ok(name) => reply.players.push(Player {
                name,
                ..Player::default()
            }),
            Err(_) => return cut(r, at),
        }
    }
    r.notes().ungroup();
}

/// Takes an incomplete player at the end of the datagram.
fn cut(r: &mut Reader<'_, '_>, at: usize) {
    let rest = r.remaining();
    let _ = r.take(rest, "rest");
    r.notes().ungroup();
    r.notes().deviation(&CUT_LIST, at);
}

/// The facts that follow the map in short replies, each after a NUL (spec/ase.md#4).
pub fn map_parts(map: &[u8]) -> (&[u8], Option<(i64, i64)>) {
    let Some(end) = first_nul(map) else {
        return (map, None);
    };
    let (name, rest) = map.split_at(end);
    let counts = rest.get(1..).unwrap_or_default();
    let counts = counts.split(|&byte| byte == 0).next().unwrap_or_default();
    let counts = core::str::from_utf8(counts).ok();
    let counts = counts.and_then(|counts| counts.split_once('/'));
    let counts = counts.and_then(|(online, max)| Some((online.parse().ok()?, max.parse().ok()?)));
    (name, counts)
}

/// Appends a text with its length, cut between characters.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    let text = crate::wire::cut(text, MAX_TEXT);
    out.push(text.len() as u8 + 1);
    out.extend_from_slice(text.as_bytes());
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let direction = seen.direction();
    if let (Some(kind), true) = (Kind::of_reply(bytes), direction != Some(Direction::Request)) {
        return Some(Explanation::certain(
            match kind {
                Kind::Full => "full reply",
                Kind::Short => "short reply",
                Kind::Counts => "counts reply",
            },
            Direction::Reply,
            parse(bytes, notes).err(),
        ));
    }
    if direction != Some(Direction::Request) && seen.request() == Some(&[VERSION_REQUEST]) {
        notes.field(0..bytes.len(), "version", || by_content(bytes).0.into());
        return Some(Explanation::guess("version reply", Direction::Reply, None));
    }
    let &[byte] = bytes else {
        return None;
    };
    if byte == VERSION_REQUEST && direction != Some(Direction::Reply) {
        notes.field(0..1, "kind", || "v".into());
        return Some(Explanation::guess(
            "version request",
            Direction::Request,
            None,
        ));
    }
    let kind = Kind::of_request(byte).filter(|_| direction != Some(Direction::Reply))?;
    notes.field(0..1, "kind", || String::from(char::from(byte)));
    Some(Explanation::guess(
        match kind {
            Kind::Full => "full request",
            Kind::Short => "short request",
            Kind::Counts => "counts request",
        },
        Direction::Request,
        None,
    ))
}

/// Returns an error for a reply of another kind.
pub fn wrong_kind() -> Error {
    Error::bad("magic", 0, "the kind of reply that was requested")
}
