//! Bytes ⇄ messages. The only file that knows the layout (spec/samp.md#2 and #3).

use super::deviation::{CUT_LINKS, SHORT_INFO, TRAILING_BYTES};
use crate::protocol::{Direction, Explanation};
use crate::wire::codepage::decode;
use crate::wire::{Deviation, Error, Notes, Reader, counted};
use alloc::{format, vec::Vec};

/// Length of a request in bytes, and of what precedes the body of a reply.
pub const HEADER: usize = 11;
/// Length of the bytes that a ping carries.
const PING: usize = 4;
/// Length of the version of VC-MP in bytes.
pub const VERSION: usize = 12;
/// Most rules that are read.
const MAX_RULES: usize = 512;
/// Most players that are read.
const MAX_PLAYERS: usize = 1_000;

/// The game, by the first bytes of its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Game {
    /// SA-MP and open.mp.
    #[default]
    SanAndreas,
    /// VC-MP.
    ViceCity,
}

impl Game {
    const ALL: [Self; 2] = [Self::SanAndreas, Self::ViceCity];

    /// Returns the start of a request.
    pub fn request_magic(self) -> &'static [u8; 4] {
        match self {
            Self::SanAndreas => b"SAMP",
            Self::ViceCity => b"VCMP",
        }
    }

    /// Returns the start of a reply.
    pub fn reply_magic(self) -> &'static [u8; 4] {
        match self {
            Self::SanAndreas => b"SAMP",
            Self::ViceCity => b"MP04",
        }
    }

    fn of_request(bytes: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|game| bytes.starts_with(game.request_magic()))
    }

    fn of_reply(bytes: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|game| bytes.starts_with(game.reply_magic()))
    }
}

/// Subject of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Name and counts.
    Info,
    /// Rules.
    Rules,
    /// Names and scores.
    Players,
    /// Ids, names, scores and pings.
    Details,
    /// Links of open.mp.
    Links,
    /// Bytes that come back.
    Ping,
    /// Remote console.
    Console,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Info,
        Self::Rules,
        Self::Players,
        Self::Details,
        Self::Links,
        Self::Ping,
        Self::Console,
    ];

    /// Returns the byte that names the kind.
    pub fn byte(self) -> u8 {
        match self {
            Self::Info => b'i',
            Self::Rules => b'r',
            Self::Players => b'c',
            Self::Details => b'd',
            Self::Links => b'o',
            Self::Ping => b'p',
            Self::Console => b'x',
        }
    }

    /// Returns the kind that a byte names.
    pub fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    /// Returns the names of request and reply.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Info => ["info request", "info reply"],
            Self::Rules => ["rules request", "rules reply"],
            Self::Players => ["players request", "players reply"],
            Self::Details => ["details request", "details reply"],
            Self::Links => ["links request", "links reply"],
            Self::Ping => ["ping request", "ping reply"],
            Self::Console => ["console request", "console reply"],
        }
    }
}

/// Request of an SA-MP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Game that defines the layout.
    pub game: Game,
    /// Address and port of the server, as the client knows them. The server returns them.
    pub address: [u8; 6],
    /// Requested part.
    pub kind: Kind,
    /// Bytes of a ping, or the command for the console.
    pub rest: &'a [u8],
}

impl<'a> Request<'a> {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(self.game.request_magic());
        out.extend(self.address);
        out.push(self.kind.byte());
        out.extend(self.rest);
    }

    /// Returns the game of a request, if the bytes are long enough to be one.
    pub fn game_of(bytes: &[u8]) -> Option<Game> {
        Game::of_request(bytes).filter(|_| bytes.len() >= HEADER)
    }

    /// Parses a request of an SA-MP client.
    ///
    /// # Errors
    ///
    /// Fails if the letter is unknown or the length is not that of the request.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let game = Game::of_request(bytes);
        let mut r = Reader::new(bytes, notes);
        let game = game.ok_or(Error::bad("magic", 0, "SAMP or VCMP"))?;
        let (address, kind) = header(&mut r)?;
        let rest = match kind {
            Kind::Ping => r.raw(PING, "ping")?,
            Kind::Console => {
                let rest = r.take(r.remaining(), "command")?;
                r.note(HEADER, "command", || counted(rest.len(), "byte"));
                r.notes().secret();
                rest
            }
            _ => &[],
        };
        r.end()?;
        Ok(Self {
            game,
            address,
            kind,
            rest,
        })
    }
}

/// Reply of an SA-MP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Game that defines the layout.
    pub game: Game,
    /// Returned address and port.
    pub address: [u8; 6],
    /// Bytes after the header.
    pub body: Body<'a>,
}

/// Body of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Name and counts.
    Info(Info<'a>),
    /// Keys and values.
    Rules(Rules<'a>),
    /// Players, with scores or details.
    Players(Vec<Player<'a>>),
    /// Links of open.mp: Discord, light banner, dark banner, logo.
    Links([&'a [u8]; 4]),
    /// Bytes of a ping.
    Ping(&'a [u8]),
    /// Text of the console.
    Console(&'a [u8]),
}

/// Name and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info<'a> {
    /// Version (VC-MP).
    pub version: Option<&'a [u8]>,
    /// Whether a password is needed.
    pub password: u8,
    /// Number of players online.
    pub players: u16,
    /// Maximum number of players.
    pub max: u16,
    /// Name of the server.
    pub name: &'a [u8],
    /// Game mode of the server.
    pub mode: &'a [u8],
    /// Language, or the map of old servers.
    pub language: &'a [u8],
}

/// A player in a reply of an SA-MP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Player<'a> {
    /// Number of the player.
    pub id: Option<u8>,
    /// Name of the player.
    pub name: &'a [u8],
    /// Score. VC-MP sends none.
    pub score: Option<i32>,
    /// Round trip in milliseconds.
    pub ping: Option<u32>,
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        Game::of_reply(bytes).is_some()
    }

    /// Parses a reply of an SA-MP server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let game = Game::of_reply(bytes);
        let mut r = Reader::new(bytes, notes);
        let game = game.ok_or(Error::bad("magic", 0, "SAMP or MP04"))?;
        let (address, kind) = header(&mut r)?;
        let body = match kind {
            Kind::Info => Body::Info(info(&mut r, game)?),
            Kind::Rules => Body::Rules(list(&mut r, "rules", MAX_RULES, |r| {
                Ok((text(r, "key")?, text(r, "value")?))
            })?),
            Kind::Players => Body::Players(list(&mut r, "players", MAX_PLAYERS, |r| {
                player(r, game == Game::SanAndreas, false)
            })?),
            Kind::Details => Body::Players(list(&mut r, "players", MAX_PLAYERS, |r| {
                player(r, true, true)
            })?),
            Kind::Links => Body::Links(links(&mut r)),
            Kind::Ping => Body::Ping(r.raw(PING, "ping")?),
            Kind::Console => {
                let at = r.at();
                let length = r.u16_le("length")?;
                let line = r.take(length.into(), "text")?;
                r.note(at + 2, "text", || format!("{:?}", decode(line)));
                Body::Console(line)
            }
        };
        r.trailing(&TRAILING_BYTES);
        Ok(Self {
            game,
            address,
            body,
        })
    }
}

/// Reads what precedes a body: returned address and kind.
fn header(r: &mut Reader<'_, '_>) -> Result<([u8; 6], Kind), Error> {
    r.raw(4, "magic")?;
    let at = r.at();
    let address: [u8; 6] = r.array("address")?;
    r.note(at, "address", || {
        let [a, b, c, d, low, high] = address;
        format!("{a}.{b}.{c}.{d}:{}", u16::from_le_bytes([low, high]))
    });
    let at = r.at();
    let [byte] = r.array("kind")?;
    r.note(at, "kind", || format!("{:?}", char::from(byte)));
    let kind = Kind::of_byte(byte).ok_or(Error::bad("kind", at, "i, r, c, d, o, p or x"))?;
    Ok((address, kind))
}

fn info<'a>(r: &mut Reader<'a, '_>, game: Game) -> Result<Info<'a>, Error> {
    let version = match game {
        Game::SanAndreas => None,
        Game::ViceCity => {
            let at = r.at();
            let field = r.take(VERSION, "version")?;
            let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
            r.note(at, "version", || format!("{:?}", decode(text)));
            Some(text)
        }
    };
    let mut info = Info {
        version,
        password: r.u8("password")?,
        players: r.u16_le("players")?,
        max: r.u16_le("max players")?,
        name: long_text(r, "name")?,
        ..Info::default()
    };
    let at = r.at();
    for (field, value) in [
        ("game mode", &mut info.mode),
        ("language", &mut info.language),
    ] {
        match long_text(r, field) {
            Ok(text) => *value = text,
            Err(_) => {
                cut(r, &SHORT_INFO, at);
                break;
            }
        }
    }
    Ok(info)
}

/// Takes the rest of a reply that is cut.
fn cut(r: &mut Reader<'_, '_>, deviation: &'static Deviation, at: usize) {
    r.notes().deviation(deviation, at);
    r.skip_rest();
}

/// Keys and values.
pub type Rules<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Reads a count, at most `limit`, and its entries.
fn list<'a, 'n, T>(
    r: &mut Reader<'a, 'n>,
    name: &'static str,
    limit: usize,
    mut entry: impl FnMut(&mut Reader<'a, 'n>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let at = r.at();
    let count = usize::from(r.u16_le("count")?);
    if count > limit {
        return Err(Error::limit("count", at, limit));
    }
    let mut entries = Vec::new();
    for index in 0..count {
        r.notes().group(name, index);
        entries.push(entry(r)?);
    }
    r.notes().ungroup();
    Ok(entries)
}

fn player<'a>(
    r: &mut Reader<'a, '_>,
    has_score: bool,
    has_details: bool,
) -> Result<Player<'a>, Error> {
    let mut player = Player::default();
    if has_details {
        player.id = Some(r.u8("id")?);
    }
    player.name = text(r, "name")?;
    if has_score {
        player.score = Some(r.i32_le("score")?);
    }
    if has_details {
        player.ping = Some(r.u32_le("ping")?);
    }
    Ok(player)
}

fn links<'a>(r: &mut Reader<'a, '_>) -> [&'a [u8]; 4] {
    let fields = ["Discord link", "light banner", "dark banner", "logo"];
    fields.map(|field| {
        let at = r.at();
        long_text(r, field).unwrap_or_else(|_| {
            cut(r, &CUT_LINKS, at);
            &[]
        })
    })
}

/// Reads a text with a length of one byte.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let [length] = r.array(field)?;
    let text = r.take(length.into(), field)?;
    r.note(at, field, || format!("{:?}", decode(text)));
    Ok(text)
}

/// Reads a text with a length of four bytes.
fn long_text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let length = u32::from_le_bytes(r.array(field)?);
    let text = r.take(length as usize, field)?;
    r.note(at, field, || format!("{:?}", decode(text)));
    Ok(text)
}

/// Parses one datagram to collect its notes. Requests and replies of SA-MP have the same start;
/// without a known direction, the length decides.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let can_be_request = Game::of_request(bytes).is_some();
    let can_be_reply = Reply::is_reply(bytes);
    let kind = bytes.get(HEADER - 1).and_then(|byte| Kind::of_byte(*byte));
    let looks_like_request = match kind {
        Some(Kind::Ping | Kind::Console) | None => true,
        Some(_) => bytes.len() <= HEADER,
    };
    let found = match direction {
        Some(Direction::Request) if can_be_request => Direction::Request,
        Some(Direction::Reply) if can_be_reply => Direction::Reply,
        Some(_) => return None,
        None if can_be_request && (looks_like_request || !can_be_reply) => Direction::Request,
        None if can_be_reply => Direction::Reply,
        None => return None,
    };
    let names = kind.map_or(["request", "reply"], Kind::names);
    let [request, reply] = names;
    let (message, error) = match found {
        Direction::Request => (request, Request::read(bytes, notes).err()),
        Direction::Reply => (reply, Reply::read(bytes, notes).err()),
    };
    Some(Explanation::certain(message, found, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn requests_both_ways() {
        for (game, kind, rest) in [
            (Game::SanAndreas, Kind::Info, &b""[..]),
            (Game::ViceCity, Kind::Players, b""),
            (Game::SanAndreas, Kind::Ping, b"abcd"),
            (Game::SanAndreas, Kind::Console, b"\x02\0pw"),
        ] {
            let request = Request {
                game,
                address: [192, 0, 2, 7, 0x61, 0x1E],
                kind,
                rest,
            };
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(Request::read(&out, &mut Notes::default()), Ok(request));
            assert_eq!(Request::game_of(&out), Some(game));
            for end in 0..out.len() {
                let cut = Request::read(&out[..end], &mut Notes::default());
                assert!(cut.is_err() || kind == Kind::Console && end >= HEADER);
            }
        }
        let long = b"SAMP\xC0\0\x02\x07\x61\x1Eix";
        let error = Request::read(long, &mut Notes::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "end of message at offset 11: 1 byte left over"
        );
    }

    #[test]
    fn errors_name_field_and_offset() {
        let read = |rest: &[u8]| {
            let bytes = [&b"SAMP\xC0\0\x02\x07\x61\x1E"[..], rest].concat();
            Reply::read(&bytes, &mut Notes::default())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            read(b"q"),
            "kind at offset 10: expected i, r, c, d, o, p or x"
        );
        assert!(read(b"i\0\0\0\0\0\xFF\xFF\xFF\x7F").starts_with("name at offset 20: ends "));
    }

    #[test]
    fn lists_with_missing_entries_are_rejected() {
        let read = |rest: &[u8]| {
            let bytes = [&b"SAMP\xC0\0\x02\x07\x61\x1E"[..], rest].concat();
            Reply::read(&bytes, &mut Notes::default()).map(drop)
        };
        let error = |rest: &[u8]| read(rest).unwrap_err().to_string();
        assert_eq!(
            error(b"r\xFF\xFF\x07lagcomp\x02On"),
            "count at offset 11: more than 512, the most accepted"
        );
        assert_eq!(
            error(b"r\x02\0\x07lagcomp\x02On"),
            "key at offset 24: ends 1 byte too early"
        );
        assert_eq!(
            error(b"c\x01\0\x02Al\0"),
            "score at offset 16: ends 3 bytes too early"
        );
        let players = b"c\x02\0\x02Al\x0F\0\0\0\x02Bo\xFD\xFF\xFF\xFF";
        assert!(read(players).is_ok());
        for end in 1..players.len() {
            assert!(error(&players[..end]).contains(" too early"), "{end}");
        }
    }
}
