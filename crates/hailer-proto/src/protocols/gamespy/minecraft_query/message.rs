//! Bytes ⇄ messages. The only file that knows offsets (spec/minecraft-query.md#2, #3 and #6).

use super::deviation::*;
use crate::protocol::{DatagramContext, Direction, Explanation};
pub use crate::protocols::gamespy::qr2::{MAGIC, SessionId};
use crate::protocols::gamespy::qr2::{
    REPLY_HEADER, SPLITNUM, TYPE_CHALLENGE as TYPE_HANDSHAKE, TYPE_QUERY as TYPE_STAT,
};
use crate::wire::{Error, Notes, Reader, Writer, by_content, decimal, first_nul, nuls};
use alloc::vec::Vec;
use alloc::{format, string::String};
use core::ops::Range;
use memchr::{memchr, memrchr};

/// Length of Hailer's handshake requests; longer ones are accepted too.
pub const HANDSHAKE_LENGTH: usize = 7;
/// Length of Hailer's basic stat requests.
pub const BASIC_LENGTH: usize = 11;
/// Length of a request for a full stat. All other lengths request a basic stat.
pub const FULL_LENGTH: usize = 15;
/// Longest handshake reply that Hailer sends: ten digits, because its tokens are positive.
pub const CHALLENGE_MAX: usize = 16;

/// First bytes of a full stat, before the pairs.
pub(super) const PAIRS_START: &[u8; 11] = b"splitnum\0\x80\0";
/// Longest accepted value of `splitnum`, in bytes without its NUL. It usually has one byte, or two
/// if encoded as UTF-8.
const MAX_SPLITNUM_VALUE: usize = 8;
const GEYSER_START: &[u8; 11] = b"GeyserMC\0\x80\0";
/// Ends the last value and the pairs, and starts the list of players.
const PLAYERS_START: &[u8; 12] = b"\0\0\x01player_\0\0";
/// The part of the separator after the NUL of the last value.
pub(super) const PAIRS_END: &[u8] = b"\0\x01player_\0\0";
/// The same bytes from Paper 1.17, whose constants have four bytes each.
const WIDE_PAIRS_END: &[u8; 20] = b"\0\0\0\0\0\0\0\x01player_\0\0\0\0\0";
/// End of the list from Paper 1.17 without its first NUL.
const WIDE_LIST_END: &[u8] = b"\0\0\0";
/// Bytes between the empty key that ends the pairs and the first player.
const PLAYERS_PADDING: usize = 10;
/// Limit of pairs in a full stat. Servers send about a dozen, and with many plugins a few dozen.
const MAX_PAIRS: usize = 1_024;
/// The challenge token as the client returns it to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// Decimal text in the handshake reply, and four big-endian bytes in the stat request.
    Number(i32),
    /// The same four bytes in both, as in Nukkit since 2019.
    Raw([u8; 4]),
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests a challenge token.
    Handshake {
        /// Session id to be echoed.
        session: SessionId,
    },
    /// Requests the status of a Minecraft Query server.
    Stat {
        /// Session id to be echoed.
        session: SessionId,
        /// Challenge token from the handshake reply.
        token: Token,
        /// Whether to request a full stat instead of a basic one.
        is_full: bool,
    },
}

impl Request {
    /// Reads a request as vanilla servers do: by magic, type and length.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(&MAGIC, "magic")?;
        let kind = r.u8("type")?;
        let session = SessionId::read(&mut r)?;
        let request = match kind {
            TYPE_HANDSHAKE => Self::Handshake { session },
            TYPE_STAT => {
                let token = Token::Number(r.i32_be("token")?);
                Self::Stat {
                    session,
                    token,
                    is_full: bytes.len() == FULL_LENGTH,
                }
            }
            _ => return Err(Error::bad("type", 2, "9 (handshake) or 0 (stat)")),
        };
        let padding = r.remaining();
        if padding > 0 {
            r.raw(padding, "padding")?;
        }
        Ok(request)
    }

    /// Appends the request to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer(out);
        w.bytes(&MAGIC);
        match *self {
            Self::Handshake { session } => {
                w.u8(TYPE_HANDSHAKE).bytes(&session.0);
            }
            Self::Stat {
                session,
                token,
                is_full,
            } => {
                w.u8(TYPE_STAT).bytes(&session.0);
                match token {
                    Token::Number(number) => w.i32_be(number),
                    Token::Raw(bytes) => w.bytes(&bytes),
                };
                match (is_full, token) {
                    (false, _) => {}
                    (true, Token::Number(_)) => drop(w.bytes(&[0; 4])),
                    // Nukkit, the only server with raw tokens, requires twice the padding.
                    (true, Token::Raw(_)) => drop(w.bytes(&[0; 8])),
                }
            }
        }
    }
}

/// Returns the type byte of a reply; `None` if this is not a reply.
pub fn reply_type(bytes: &[u8]) -> Option<u8> {
    bytes
        .first()
        .copied()
        .filter(|kind| matches!(*kind, TYPE_HANDSHAKE | TYPE_STAT))
}

/// Returns whether these bytes are a stat reply of this session.
pub fn is_stat(bytes: &[u8], session: SessionId) -> bool {
    bytes.first() == Some(&TYPE_STAT) && bytes.get(1..REPLY_HEADER) == Some(&session.0)
}

/// Returns whether these bytes are a handshake reply.
pub fn is_challenge(bytes: &[u8]) -> bool {
    bytes.first() == Some(&TYPE_HANDSHAKE)
}

/// Reads a handshake reply. Returns `None` if it belongs to another session. Without `session`,
/// accepts any session.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_challenge(
    bytes: &[u8],
    session: Option<SessionId>,
    notes: &mut Notes,
) -> Result<Option<Token>, Error> {
    let mut r = Reader::new(bytes, notes);
    if r.u8("type")? != TYPE_HANDSHAKE {
        return Err(Error::bad("type", 0, "9 (handshake)"));
    }
    let length = match session {
        Some(session) if r.rest().starts_with(&session.0) => 4,
        Some(session) => match mangled_length(r.rest(), Some(session)) {
            Some(length) => length,
            None => return Ok(None),
        },
        None => match mangled_length(r.rest(), None) {
            Some(length) if length > 4 => length,
            _ => 4,
        },
    };
    let echoed = r.raw(length, "session id")?;
    if session.map_or(length != 4, |session| echoed != session.0) {
        r.notes().deviation(&MANGLED_SESSION_ID, 1);
    }
    token(&mut r).map(Some)
}

/// Length of a session id that the server decoded as text and encoded again: invalid bytes became
/// U+FFFD or a question mark.
fn mangled_length(bytes: &[u8], session: Option<SessionId>) -> Option<usize> {
    let mut rest = bytes;
    for i in 0..4 {
        let own = session.and_then(|session| session.0.get(i).copied());
        rest = match rest {
            [first, tail @ ..] if Some(*first) == own => tail,
            [0xEF, 0xBF, 0xBD, tail @ ..] | [b'?', tail @ ..] => tail,
            [_, tail @ ..] if session.is_none() => tail,
            _ => return None,
        };
    }
    Some(bytes.len() - rest.len())
}

/// spec/minecraft-query.md#6.1
fn token(r: &mut Reader<'_, '_>) -> Result<Token, Error> {
    let at = r.at();
    let payload = r.rest();
    let end = payload
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(payload.len());
    let (digits, tail) = payload.split_at(end);
    // A few servers send numbers above 2^31. The same 32 bits are sent back.
    let number =
        decimal(digits).filter(|n| (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(n));
    let only_nul = tail.iter().all(|&byte| byte == 0);
    match (number, payload) {
        (Some(number), _) if only_nul => {
            r.take(payload.len(), "token")?;
            r.note(at, "token", || format!("{number}"));
            match tail.len() {
                0 => r.notes().deviation(&MISSING_NUL, at + end),
                1 => {}
                _ => r.notes().deviation(&DOUBLED_NUL, at + end),
            }
            Ok(Token::Number(number as i32))
        }
        (_, &[a, b, c, d, 0]) => {
            r.raw(5, "token")?;
            r.notes().deviation(&RAW_TOKEN, at);
            Ok(Token::Raw([a, b, c, d]))
        }
        (Some(number), _) => {
            r.take(end + 1, "token")?;
            r.note(at, "token", || format!("{number}"));
            r.trailing(&TRAILING_BYTES);
            Ok(Token::Number(number as i32))
        }
        (None, []) => Err(Error::short("token", at, 1)),
        (None, _) => Err(Error::bad("token", at, "decimal digits and a NUL")),
    }
}

/// A stat reply, borrowed from its datagram. Texts are bytes without their NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stat<'a> {
    /// A basic stat.
    Basic(Basic<'a>),
    /// A full stat.
    Full(Full<'a>),
}

/// A basic stat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Basic<'a> {
    /// Message of the day.
    pub motd: &'a [u8],
    /// `SMP`, or `CMP` on some servers in creative mode.
    pub game_type: &'a [u8],
    /// Name of the world.
    pub map: &'a [u8],
    /// Number of players online.
    pub online: Option<i64>,
    /// Maximum number of players.
    pub max: Option<i64>,
    /// Port of the game.
    pub port: Option<u16>,
    /// Address in the configuration of the server.
    pub host: &'a [u8],
}

/// A full stat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Full<'a> {
    /// Keys and values in the order sent.
    pub pairs: Vec<(Key<'a>, &'a [u8])>,
    /// Names of players in the order sent.
    pub players: Vec<&'a [u8]>,
    /// The [bits](Key::bit) of the keys so far.
    known: u16,
}

/// A key of a full stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// Message of the day; on the oldest servers a second one is the address.
    Hostname,
    /// `SMP`, or `CMP` on some servers in creative mode.
    GameType,
    /// `MINECRAFT` or `MINECRAFTPE`.
    GameId,
    /// Version of the game, or a range of them.
    Version,
    /// Software and plugins (spec/minecraft-query.md#4.3).
    Plugins,
    /// Name of the world.
    Map,
    /// Number of players online.
    NumPlayers,
    /// Maximum number of players.
    MaxPlayers,
    /// Port of the game.
    HostPort,
    /// Address in the configuration of the server.
    HostIp,
    /// Any other key.
    Other(&'a [u8]),
}

/// Defines the keys once for both directions: a table for lookups, and a `match`, which needs a few
/// comparisons instead of about twenty.
macro_rules! keys {
    ($($key:ident $name:literal $(or $spaced:literal)?),* $(,)?) => {
        /// The keys of vanilla servers in their order, and their names.
        pub(super) const KEYS: &[(&[u8], Key<'static>)] = &[$(($name, Key::$key)),*];

        /// The order of the list.
        enum Rank {
            $($key),*
        }

        /// Returns the positions of the values if these are the ten keys in the usual order, as
        /// most servers send them.
        fn vanilla_values(region: &[u8]) -> Option<[Range<usize>; KEYS.len()]> {
            let mut rest = region;
            let values = [$({
                rest = rest.strip_prefix($name)?.strip_prefix(b"\0")?;
                let start = region.len() - rest.len();
                let length = first_nul(rest)?;
                rest = rest.get(length + 1..)?;
                start..start + length
            }),*];
            rest.is_empty().then_some(values)
        }

        impl<'a> Key<'a> {
            /// Returns the bit of a known key, or 0.
            pub(super) fn bit(self) -> u16 {
                match self {
                    $(Self::$key => 1 << Rank::$key as u16,)*
                    Self::Other(_) => 0,
                }
            }

            /// Parses a key in either spelling. `true` means the spelling with a space.
            fn spelled(bytes: &'a [u8]) -> (Self, bool) {
                match bytes {
                    $($name => (Self::$key, false), $($spaced => (Self::$key, true),)?)*
                    other => (Self::Other(other), false),
                }
            }
        }
    };
}

keys! {
    Hostname b"hostname" or b"host name",
    GameType b"gametype" or b"game type",
    GameId b"game_id" or b"game id",
    Version b"version",
    Plugins b"plugins",
    Map b"map",
    NumPlayers b"numplayers" or b"num players",
    MaxPlayers b"maxplayers" or b"max players",
    HostPort b"hostport" or b"host port",
    HostIp b"hostip" or b"host ip",
}

impl<'a> Key<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        Self::spelled(bytes).0
    }

    /// Returns whether this is one of the ten known keys, in either spelling.
    pub(super) fn is_known(bytes: &'a [u8]) -> bool {
        !matches!(Self::read(bytes), Self::Other(_))
    }
}

/// Parses a stat reply of any server. `is_full_asked` is the kind that was requested, if known; the
/// content decides (spec/minecraft-query.md#6.2).
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_stat<'a>(
    bytes: &'a [u8],
    is_full_asked: Option<bool>,
    notes: &mut Notes,
) -> Result<Stat<'a>, Error> {
    let mut r = Reader::new(bytes, notes);
    if r.u8("type")? != TYPE_STAT {
        return Err(Error::bad("type", 0, "0 (stat)"));
    }
    SessionId::read(&mut r)?;
    if is_full(r.rest(), is_full_asked) {
        if is_full_asked == Some(false) {
            r.notes().deviation(&FULL_FOR_BASIC, 0);
        }
        return parse_full(&mut r).map(Stat::Full);
    }
    if is_full_asked == Some(true) {
        // A reply with an unknown start reads as a basic stat only by chance. If it does not,
        // report the error as for a full stat.
        let Some(layout) = basic_layout(bytes) else {
            return parse_full(&mut r).map(Stat::Full);
        };
        r.notes().deviation(&BASIC_FOR_FULL, 0);
        return parse_basic(&mut r, Some(layout)).map(Stat::Basic);
    }
    let layout = basic_layout(bytes);
    parse_basic(&mut r, layout).map(Stat::Basic)
}

fn is_full(rest: &[u8], is_full_asked: Option<bool>) -> bool {
    // No basic stat has the MOTD "splitnum". MiNET sends it with different bytes and keys after it.
    if rest.starts_with(SPLITNUM) || rest.starts_with(GEYSER_START) {
        return true;
    }
    let Some((start, pairs)) = rest.split_at_checked(PAIRS_START.len()) else {
        return false;
    };
    let key_follows = starts_with_key(pairs);
    let odd_start_allowed = is_full_asked == Some(true) || start.iter().all(|&byte| byte == 0);
    key_follows && odd_start_allowed
}

/// Returns whether the text up to the first NUL is one of the ten keys.
fn starts_with_key(pairs: &[u8]) -> bool {
    let mut texts = pairs.split(|&byte| byte == 0);
    texts.next().is_some_and(Key::is_known)
}

/// Length of the start of a full stat, before the pairs: `splitnum` and a value with its NUL, or
/// the usual 11 bytes.
fn start_length(rest: &[u8]) -> usize {
    let usual = PAIRS_START.len();
    if rest.get(usual..).is_some_and(starts_with_key) {
        return usual;
    }
    let value = rest.strip_prefix(SPLITNUM).unwrap_or_default();
    match value
        .iter()
        .take(MAX_SPLITNUM_VALUE)
        .position(|&byte| byte == 0)
    {
        Some(end) => SPLITNUM.len() + end + 1,
        None => usual,
    }
}

/// Typical length of a short name with its NUL, in bytes; used to reserve memory.
const SHORT_NAME: usize = 6;

fn parse_full<'a>(r: &mut Reader<'a, '_>) -> Result<Full<'a>, Error> {
    let at = r.at();
    let start = r.raw(start_length(r.rest()), "start of pairs")?;
    if start != PAIRS_START {
        let zero = start.iter().all(|&byte| byte == 0);
        let deviation = if start == GEYSER_START {
            &GEYSER_HEADER
        } else if zero {
            &ZERO_PADDING
        } else {
            &ODD_PADDING
        };
        r.notes().deviation(deviation, at);
    }
    // Use the last separator: a MOTD may contain a copy, names of players cannot.
    let whole = r.whole();
    let from = r.at() - 1;
    let split = last_players_start(whole.get(from..).unwrap_or_default()).map(|found| from + found);
    let wide = split.and_then(|split| wide_pairs_end(whole, split).filter(|wide| *wide >= from));
    let (split, pairs_end, list_end) = match wide {
        Some(wide) => (Some(wide), WIDE_PAIRS_END.as_slice(), WIDE_LIST_END),
        None => (split, PAIRS_END, [].as_slice()),
    };
    let players = split.map_or(0, |split| (whole.len() - split) / SHORT_NAME);
    let mut full = Full {
        pairs: Vec::with_capacity(KEYS.len()),
        players: Vec::with_capacity(players),
        known: 0,
    };
    match split {
        Some(split) => {
            // Without pairs, the first NUL of the separator is the last byte of the start.
            if split >= r.at() {
                parse_pairs(r, split, start != GEYSER_START, &mut full)?;
                r.take(1, "pair.value")?;
            }
            let at = r.at();
            r.take(pairs_end.len(), "start of players")?;
            r.note(at, "start of players", || {
                format!("{}", pairs_end.escape_ascii()).replace("x00", "0")
            });
            if wide.is_some() {
                r.notes().deviation(&WIDE_CONSTANTS, at);
            }
        }
        None => parse_pairs_without_separator(r, &mut full)?,
    }
    parse_players(r, &mut full, list_end)?;
    if full.known.count_ones() as usize != KEYS.len() {
        r.notes().deviation(&MISSING_KEY, at);
    }
    Ok(full)
}

/// Returns the offset of the last separator between pairs and players. Searches for its third byte,
/// which is rare in text.
fn last_players_start(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    loop {
        let rare = memrchr(PLAYERS_START[2], bytes.get(..end)?)?;
        let start = rare.checked_sub(2)?;
        if bytes.get(start..)?.starts_with(PLAYERS_START) {
            return Some(start);
        }
        end = rare;
    }
}

/// Returns the offset of the last value's NUL if the separator at `split` is that of Paper 1.17
/// (spec/minecraft-query.md#6.4).
fn wide_pairs_end(whole: &[u8], split: usize) -> Option<usize> {
    let narrow = PAIRS_END.len() - 2;
    let wide = WIDE_PAIRS_END.len() - 5;
    let start = (split + 1 + narrow).checked_sub(wide)?;
    let is_wide = whole.get(start..)?.starts_with(WIDE_PAIRS_END);
    let end = start.checked_sub(1)?;
    (is_wide && whole.get(end) == Some(&0)).then_some(end)
}

/// Parses the pairs up to `end`, the offset of the last value's NUL.
fn parse_pairs<'a>(
    r: &mut Reader<'a, '_>,
    end: usize,
    is_ordered: bool,
    full: &mut Full<'a>,
) -> Result<(), Error> {
    let whole = r.whole();
    let start = r.at();
    // Includes the NUL of the last value.
    let region = whole.get(start..=end).unwrap_or_default();
    if let Some(values) = vanilla_values(region) {
        for (index, (&(name, key), value)) in KEYS.iter().zip(values).enumerate() {
            r.notes().group("pair", index);
            let at = start + value.start;
            text(r, at - 1 - name.len()..at - 1, "key");
            full.pairs
                .push((key, text(r, at..start + value.end, "value")));
            full.known |= key.bit();
        }
    } else {
        let ranges = ranges(region, start);
        let pieces = Pieces {
            whole,
            ranges: &ranges,
        };
        for (index, Layout { key, first, last }) in
            lay_out(pieces, is_ordered).into_iter().enumerate()
        {
            r.notes().group("pair", index);
            let (Some(key), Some(first_range), Some(last_range)) =
                (ranges.get(key), ranges.get(first), ranges.get(last))
            else {
                return Err(Error::short("pair.value", end, 1));
            };
            limit_pairs(index, key.start)?;
            let name = read_key(r, key.clone(), full);
            let value = text(r, first_range.start..last_range.end, "value");
            if first != last {
                let motd = name == Key::Hostname;
                r.notes().deviation(
                    if motd { &NUL_IN_MOTD } else { &NUL_IN_VALUE },
                    first_range.end,
                );
            }
            full.pairs.push((name, value));
        }
    }
    r.notes().ungroup();
    r.take(end.saturating_sub(r.at()), "pair.value").map(drop)
}

/// A key and the pieces of its value: more than one if the value contains NULs.
struct Layout {
    key: usize,
    first: usize,
    last: usize,
}

/// Decides which pieces between NULs are keys and which are values (spec/minecraft-query.md#6.4).
fn lay_out(pieces: Pieces<'_, '_>, is_ordered: bool) -> Vec<Layout> {
    let known = |i: usize| {
        pieces
            .get(i)
            .map(Key::read)
            .filter(|key| !matches!(key, Key::Other(_)))
    };
    let mut places = Vec::with_capacity(KEYS.len());
    let mut next = 0;
    if is_ordered && !pieces.are_whole() && known(0) == Some(Key::Hostname) {
        // The MOTD extends to the last game type, so it includes anything that looks like a key. A
        // game type repeated at the very end does not count: the counts must follow it.
        let is_count = |&i: &usize| matches!(known(i), Some(Key::NumPlayers | Key::MaxPlayers));
        let counts = (0..pieces.len())
            .rev()
            .find(is_count)
            .unwrap_or(pieces.len());
        if let Some(game_type) = (2..counts).rev().find(|&i| known(i) == Some(Key::GameType)) {
            places.push(Layout {
                key: 0,
                first: 1,
                last: game_type - 1,
            });
            next = game_type;
        }
    }
    while next < pieces.len() {
        // Keys and values alternate, so an odd number of pieces means that a value contains a NUL:
        // where a piece in a key's position is not a known key and the next one is.
        let first = next + 1;
        let mut last = next + 1;
        let odd_left = |last: usize| {
            pieces
                .len()
                .checked_sub(last + 1)
                .is_some_and(|left| left % 2 == 1)
        };
        while odd_left(last) && known(last + 1).is_none() && known(last + 2).is_some() {
            last += 1;
        }
        places.push(Layout {
            key: next,
            first,
            last,
        });
        next = last + 1;
    }
    places
}

/// The pieces between NULs.
#[derive(Clone, Copy)]
struct Pieces<'a, 'r> {
    whole: &'a [u8],
    ranges: &'r [Range<usize>],
}

impl<'a> Pieces<'a, '_> {
    fn get(&self, i: usize) -> Option<&'a [u8]> {
        self.whole.get(self.ranges.get(i)?.clone())
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns whether keys and values clearly alternate: the MOTD, the game type after it, and
    /// each of the ten keys once. A MOTD cannot imitate this, because the real pairs follow it.
    fn are_whole(&self) -> bool {
        if self.len() > 2 * MAX_PAIRS || !self.len().is_multiple_of(2) {
            return false;
        }
        let mut seen = 0;
        for i in 0..self.len() / 2 {
            let key = self.get(2 * i).map_or(Key::Other(&[]), Key::read);
            let bit = key.bit();
            if seen & bit != 0 || i == 0 && key != Key::Hostname || i == 1 && key != Key::GameType {
                return false;
            }
            seen |= bit;
        }
        seen.count_ones() as usize == KEYS.len()
    }
}

/// Reading a pair compares it with all earlier ones, so the number of pairs needs a limit.
fn limit_pairs(index: usize, at: usize) -> Result<(), Error> {
    if index < MAX_PAIRS {
        Ok(())
    } else {
        Err(Error::limit("pair.key", at, MAX_PAIRS))
    }
}

/// Ranges that end at a NUL. A region that contains a single NUL has no range.
fn ranges(region: &[u8], base: usize) -> Vec<Range<usize>> {
    let mut start = base;
    let mut ranges = Vec::with_capacity(2 * KEYS.len());
    if region.len() > 1 {
        for end in nuls(region).map(|end| base + end) {
            ranges.push(start..end);
            start = end + 1;
        }
    }
    ranges
}

fn read_key<'a>(r: &mut Reader<'a, '_>, range: Range<usize>, full: &mut Full<'a>) -> Key<'a> {
    let at = range.start;
    let (key, spaced) = Key::spelled(text(r, range, "key"));
    if spaced {
        r.notes().deviation(&SPACED_KEY, at);
    }
    let again = match key.bit() {
        0 => full.pairs.iter().any(|(present, _)| *present == key),
        bit => full.known & bit != 0,
    };
    if again {
        r.notes().deviation(
            if key == Key::Hostname {
                &REPEATED_HOSTNAME
            } else {
                &DUPLICATE_KEY
            },
            at,
        );
    }
    full.known |= key.bit();
    key
}

/// Returns the bytes of a range ahead of the cursor, without moving it. The NUL after them belongs
/// to the field.
#[inline(always)]
fn text<'a>(r: &mut Reader<'a, '_>, range: Range<usize>, field: &'static str) -> &'a [u8] {
    let whole = r.whole();
    let bytes = whole.get(range.clone()).unwrap_or_default();
    r.notes()
        .field(range.start..whole.len().min(range.end + 1), field, || {
            display(bytes)
        });
    bytes
}

/// Reads text up to the next NUL and consumes the NUL, which may be missing at the end of the
/// datagram.
fn ended_text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<(&'a [u8], bool), Error> {
    let at = r.at();
    let rest = r.rest();
    let length = memchr(0, rest);
    let bytes = r.take(length.unwrap_or(rest.len()), field)?;
    r.take(usize::from(length.is_some()), field)?;
    r.note(at, field, || display(bytes));
    Ok((bytes, length.is_some()))
}

/// The empty key ends the pairs, and any ten bytes follow (spec/minecraft-query.md#6.4).
fn parse_pairs_without_separator<'a>(
    r: &mut Reader<'a, '_>,
    full: &mut Full<'a>,
) -> Result<(), Error> {
    for index in 0.. {
        let at = r.at();
        let length = r.rest().iter().position(|&byte| byte == 0);
        let Some(length) = length else {
            return Err(Error::short("end of pairs", at, 1));
        };
        if length == 0 {
            r.take(1, "end of pairs")?;
            break;
        }
        r.notes().group("pair", index);
        limit_pairs(index, at)?;
        let key = read_key(r, at..at + length, full);
        r.take(length + 1, "pair.key")?;
        let (value, ended) = ended_text(r, "value")?;
        if !ended {
            return Err(Error::short("end of pairs", r.at(), 1));
        }
        full.pairs.push((key, value));
    }
    r.notes().ungroup();
    let at = r.at();
    let padding = r.raw(PLAYERS_PADDING, "start of players")?;
    let zero = padding.iter().all(|&byte| byte == 0);
    r.notes()
        .deviation(if zero { &ZERO_PADDING } else { &ODD_PADDING }, at);
    Ok(())
}

/// `further_end`: bytes that may follow the NUL that ends the list.
fn parse_players<'a>(
    r: &mut Reader<'a, '_>,
    full: &mut Full<'a>,
    further_end: &[u8],
) -> Result<(), Error> {
    let whole = r.whole();
    let list = r.at();
    let mut start = list;
    let mut ends = nuls(r.rest()).map(|end| list + end);
    let end = loop {
        match ends.next() {
            Some(end) if end == start => break Some(end),
            Some(end) => {
                r.notes().group("player", full.players.len());
                full.players.push(text(r, start..end, "name"));
                start = end + 1;
            }
            None if start == whole.len() => break None,
            None => {
                r.notes().group("player", full.players.len());
                text(r, start..whole.len(), "name");
                return Err(Error::short("player.name", start, 1));
            }
        }
    };
    r.notes().ungroup();
    r.take(start - list, "players")?;
    match end {
        Some(_)
            if r.rest()
                .get(1..)
                .is_some_and(|rest| rest.starts_with(further_end)) =>
        {
            r.raw(1 + further_end.len(), "end of players")?;
        }
        Some(_) => drop(r.raw(1, "end of players")?),
        None => r.notes().deviation(&UNENDED_LIST, start),
    }
    r.trailing(&TRAILING_BYTES);
    Ok(())
}

/// Offsets of the fields of a basic stat, found from the right (spec/minecraft-query.md#6.3).
#[derive(Clone, Copy)]
struct BasicLayout {
    motd_end: usize,
    map_end: usize,
    is_port_text: bool,
}

/// Number of NULs from the right that may end the maximum: that of a text port, up to two in a
/// binary port, and the NUL of the maximum.
const MAX_END_CANDIDATES: usize = 5;

/// Finds the fields of a basic stat from the right, because MOTD and map may contain NULs and
/// imitate the fields after them. Prefers a known game type, then a map without NUL, then a binary
/// port.
fn basic_layout(bytes: &[u8]) -> Option<BasicLayout> {
    let end = bytes.len() - usize::from(bytes.last() == Some(&0));
    let nul_before = |at: usize| {
        bytes
            .get(REPLY_HEADER..at)?
            .iter()
            .rposition(|&byte| byte == 0)
            .map(|i| i + REPLY_HEADER)
    };
    let mut best: Option<((bool, bool, bool), BasicLayout)> = None;
    let mut max_end = end;
    for _ in 0..MAX_END_CANDIDATES {
        let Some(nul) = nul_before(max_end) else {
            break;
        };
        max_end = nul;
        let Some(after) = bytes.get(max_end + 1..end) else {
            continue;
        };
        let is_port_text = is_text_port(after);
        let binary = after.get(2..).is_some_and(|host| !host.contains(&0));
        let (Some(online_end), true) = (nul_before(max_end), is_port_text || binary) else {
            continue;
        };
        let Some(map_end) = nul_before(online_end) else {
            continue;
        };
        let number = |from: usize, to: usize| bytes.get(from + 1..to).and_then(decimal);
        if number(online_end, max_end).is_none() || number(map_end, online_end).is_none() {
            continue;
        }
        let known_type = |motd_end: &usize| {
            let after = bytes.get(motd_end + 1..map_end).unwrap_or_default();
            after.starts_with(b"SMP\0") || after.starts_with(b"CMP\0")
        };
        let known = (REPLY_HEADER..map_end)
            .rev()
            .filter(|&i| bytes.get(i) == Some(&0))
            .find(known_type);
        let Some(motd_end) = known.or_else(|| nul_before(nul_before(map_end)?)) else {
            continue;
        };
        let map = bytes.get(motd_end + 1..map_end).unwrap_or_default();
        let whole_map = map.iter().filter(|&&byte| byte == 0).count() == 1;
        let rank = (known.is_some(), whole_map, !is_port_text);
        // On a tie, the leftmost wins, which is found last: the port may contain a NUL and a digit.
        if best.is_none_or(|(best, _)| rank >= best) {
            best = Some((
                rank,
                BasicLayout {
                    motd_end,
                    map_end,
                    is_port_text,
                },
            ));
        }
    }
    best.map(|(_, layout)| layout)
}

/// PyMine writes the port as digits, a NUL and the address; a binary port is two bytes, followed by
/// the address.
fn is_text_port(rest: &[u8]) -> bool {
    let Some(end) = rest.iter().position(|&byte| byte == 0) else {
        return false;
    };
    let (digits, host) = rest.split_at(end);
    let digits_fit = (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    digits_fit && host.len() > 1 && host.iter().skip(1).all(u8::is_ascii_graphic)
}

fn parse_basic<'a>(
    r: &mut Reader<'a, '_>,
    layout: Option<BasicLayout>,
) -> Result<Basic<'a>, Error> {
    let at = r.at();
    let first_nul = r
        .rest()
        .iter()
        .position(|&byte| byte == 0)
        .map(|length| at + length);
    let Some(motd_end) = layout.as_ref().map(|layout| layout.motd_end).or(first_nul) else {
        return Err(Error::short("motd", at, 1));
    };
    let motd = text(r, at..motd_end, "motd");
    r.take(motd.len(), "motd")?;
    r.take(1, "motd")?;
    if first_nul.is_some_and(|nul| nul < motd_end) {
        r.notes().deviation(&NUL_IN_MOTD, at);
    }
    let game_type = inner_text(r, "game type")?;
    let map = match layout {
        Some(layout) if r.at() <= layout.map_end => {
            let map = text(r, r.at()..layout.map_end, "map");
            r.take(map.len(), "map")?;
            r.take(1, "map")?;
            map
        }
        _ => inner_text(r, "map")?,
    };
    if map.contains(&0) {
        let at = r.at();
        r.notes().deviation(&NUL_IN_VALUE, at);
    }
    let online = number(r, "players")?;
    let max = number(r, "max players")?;
    let port = if layout.is_some_and(|layout| layout.is_port_text) {
        let at = r.at();
        r.notes().deviation(&PORT_AS_TEXT, at);
        number(r, "port")?.and_then(|port| u16::try_from(port).ok())
    } else {
        Some(r.u16_le("port")?)
    };
    let at = r.at();
    let (host, ended) = ended_text(r, "host")?;
    if !ended {
        r.notes().deviation(&MISSING_NUL, at + host.len());
    }
    r.trailing(&TRAILING_BYTES);
    Ok(Basic {
        motd,
        game_type,
        map,
        online,
        max,
        port,
        host,
    })
}

/// Reads text whose NUL is required, because more fields must follow.
fn inner_text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    match ended_text(r, field)? {
        (text, true) => Ok(text),
        (text, false) => Err(Error::short(field, at, text.len().max(1))),
    }
}

fn number(r: &mut Reader<'_, '_>, field: &'static str) -> Result<Option<i64>, Error> {
    let at = r.at();
    let number = decimal(inner_text(r, field)?);
    if number.is_none() {
        r.notes().deviation(&ODD_NUMBER, at);
    }
    Ok(number)
}

fn display(bytes: &[u8]) -> String {
    format!("{:?}", by_content(bytes).0)
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let direction = seen.direction();
    let asked = seen
        .request()
        .and_then(|request| Request::read(request, &mut Notes::discarding()).ok());
    let explained = |message, direction, is_certain, error| {
        Some(Explanation {
            message,
            direction,
            is_certain,
            error,
        })
    };
    if direction != Some(Direction::Reply) && bytes.starts_with(&MAGIC) {
        let request = Request::read(bytes, notes);
        let message = match (&request, bytes.get(2)) {
            (Ok(Request::Handshake { .. }), _) | (Err(_), Some(&TYPE_HANDSHAKE)) => {
                "handshake request"
            }
            (Ok(Request::Stat { is_full: true, .. }), _) => "full stat request",
            (Ok(Request::Stat { is_full: false, .. }), _) => "basic stat request",
            (Err(_), Some(&TYPE_STAT)) => "stat request",
            (Err(_), _) => "request",
        };
        return explained(message, Direction::Request, true, request.err());
    }
    if direction == Some(Direction::Request) {
        return None;
    }
    match reply_type(bytes)? {
        TYPE_HANDSHAKE => {
            let session = match asked {
                Some(Request::Handshake { session } | Request::Stat { session, .. }) => {
                    Some(session)
                }
                None => None,
            };
            let error = match parse_challenge(bytes, session, notes) {
                // The reply belongs to another session, so it does not match this request.
                Ok(None) => parse_challenge(bytes, None, notes).err(),
                read => read.err(),
            };
            explained("handshake reply", Direction::Reply, false, error)
        }
        _ => {
            let is_full_asked = match asked {
                Some(Request::Stat { is_full, .. }) => Some(is_full),
                _ => None,
            };
            let stat = parse_stat(bytes, is_full_asked, notes);
            let start = bytes.get(REPLY_HEADER..).unwrap_or_default();
            let full = start.starts_with(PAIRS_START) || start.starts_with(GEYSER_START);
            let message = match &stat {
                Ok(Stat::Full(_)) => "full stat reply",
                Ok(Stat::Basic(_)) => "basic stat reply",
                Err(_) if full => "full stat reply",
                Err(_) => "stat reply",
            };
            explained(message, Direction::Reply, full, stat.err())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ErrorKind;

    const PLAYERS: &[u8] = b"\0\x01player_\0\0\0";

    type Pairs = Vec<(String, String)>;

    /// Reads a full stat of these pieces, each with its NUL. Returns it with the names of its
    /// deviations.
    fn read(start: &[u8], pieces: &[&str]) -> (Result<Pairs, Error>, Vec<&'static str>) {
        let mut bytes = [b"\0\0\0\0\0".as_slice(), start].concat();
        for piece in pieces {
            bytes.extend(piece.bytes());
            bytes.push(0);
        }
        bytes.extend(PLAYERS);
        let mut notes = Notes::default();
        let shown = |(key, value): &(Key<'_>, &[u8])| {
            let name = KEYS
                .iter()
                .find(|(_, known)| known == key)
                .map(|(name, _)| by_content(name).0.into_owned());
            let other = if let Key::Other(name) = key {
                by_content(name).0.into_owned()
            } else {
                String::new()
            };
            (name.unwrap_or(other), by_content(value).0.into_owned())
        };
        let pairs = match parse_stat(&bytes, Some(true), &mut notes) {
            Ok(Stat::Full(full)) => Ok(full.pairs.iter().map(shown).collect()),
            Ok(Stat::Basic(basic)) => panic!("{basic:?}"),
            Err(error) => Err(error),
        };
        (pairs, notes.met().map(|met| met.name).collect())
    }

    fn value(pairs: &[(String, String)], key: &str) -> String {
        pairs
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    }

    #[test]
    fn decimals_are_those_of_the_standard_library() {
        let odd = [
            "",
            "-",
            "+",
            "+-1",
            "1a",
            "\u{663}",
            " 1",
            "9223372036854775808",
            "-9223372036854775809",
        ];
        let even = [
            "0",
            "-0",
            "+7",
            "007",
            "9223372036854775807",
            "-9223372036854775808",
        ];
        for text in odd.iter().chain(&even) {
            assert_eq!(decimal(text.as_bytes()), text.parse().ok(), "{text:?}");
        }
    }

    #[test]
    fn a_value_may_be_the_name_of_a_key() {
        let pieces = [
            "hostname",
            "A",
            "gametype",
            "SMP",
            "numplayers",
            "1",
            "map",
            "w",
            "vote-by",
            "map",
        ];
        let (pairs, met) = read(PAIRS_START, &pieces);
        let pairs = pairs.unwrap();
        assert_eq!(
            (value(&pairs, "vote-by"), value(&pairs, "map")),
            ("map".into(), "w".into())
        );
        assert_eq!(met, ["missing-key"]);
    }

    #[test]
    fn a_nul_in_a_value_leaves_an_odd_number_of_pieces() {
        let pieces = [
            "hostname",
            "A",
            "gametype",
            "SMP",
            "map",
            "w",
            "x",
            "numplayers",
            "1",
            "maxplayers",
            "2",
        ];
        let (pairs, met) = read(PAIRS_START, &pieces);
        let pairs = pairs.unwrap();
        assert_eq!(
            (value(&pairs, "map"), value(&pairs, "maxplayers")),
            ("w\0x".into(), "2".into())
        );
        assert_eq!(met, ["nul-in-value", "missing-key"]);
    }

    #[test]
    fn a_motd_that_imitates_pairs_stays_a_motd_behind_every_start_but_geysers() {
        let pieces = [
            "hostname",
            "A",
            "map",
            "FAKE",
            "gametype",
            "X",
            "gametype",
            "SMP",
            "map",
            "real",
            "numplayers",
            "1",
        ];
        for start in [
            PAIRS_START,
            &[0; 11],
            b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b",
        ] {
            let pairs = read(start, &pieces).0.unwrap();
            assert_eq!(
                value(&pairs, "hostname"),
                "A\0map\0FAKE\0gametype\0X",
                "{start:?}"
            );
            assert_eq!(value(&pairs, "map"), "real");
        }
        let (pairs, met) = read(
            GEYSER_START,
            &[
                "hostname",
                "A",
                "version",
                "1",
                "gametype",
                "SMP",
                "numplayers",
                "1",
            ],
        );
        assert_eq!(value(&pairs.unwrap(), "version"), "1");
        assert!(!met.contains(&"nul-in-motd"));
    }

    #[test]
    fn too_many_pairs_are_refused() {
        let pieces: Vec<String> = (0..2 * MAX_PAIRS + 2).map(|i| format!("{i}")).collect();
        let pieces: Vec<&str> = ["map", "w"]
            .into_iter()
            .chain(pieces.iter().map(String::as_str))
            .collect();
        let limit = ErrorKind::Limit { limit: MAX_PAIRS };
        assert_eq!(
            read(PAIRS_START, &pieces).0.map_err(|error| error.kind),
            Err(limit)
        );
        assert!(read(PAIRS_START, &pieces[..2 * MAX_PAIRS]).0.is_ok());
        // The same without the start of the players, where the empty key ends the pairs.
        let mut bytes = [b"\0\0\0\0\0".as_slice(), &[0; 11]].concat();
        pieces
            .iter()
            .for_each(|piece| bytes.extend([piece.as_bytes(), b"\0"].concat()));
        bytes.extend([0; 12]);
        assert_eq!(
            parse_stat(&bytes, Some(true), &mut Notes::default())
                .unwrap_err()
                .kind,
            limit
        );
    }
}
