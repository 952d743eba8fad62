//! Bytes ⇄ messages. The only file that knows their offsets (spec/a2s.md#1 to #6).
//!
//! Limits: at most [`MAX_RULES`] rules; a player list is limited by the length of its message.

use super::deviation::*;
use super::{SINGLE, SPLIT, split};
use crate::protocol::{DatagramContext, Direction, Explanation};
use crate::wire::codepage::CodePage;
use crate::wire::{Deviation, Error, ErrorKind, Notes, Reader, Writer, first_nul};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Text of an info request.
pub const INFO_TEXT: &[u8; 20] = b"Source Engine Query\0";
/// Length of an info request without a challenge.
pub const INFO_REQUEST: usize = 25;
/// Length of a challenge reply.
pub const CHALLENGE_REPLY: usize = 9;
/// Length of the shortest request that gets a challenge.
pub const SHORTEST_REQUEST: usize = 5;
/// Longest datagram that engines send; longer ones are a [deviation](BIG_DATAGRAM).
pub const MAX_DATAGRAM: usize = 1_400;
/// Limit on rules in one reply. Real servers send at most 200.
pub const MAX_RULES: usize = 8_192;
/// App id of The Ship, whose replies have more fields.
pub const THE_SHIP: u32 = 2_400;
/// App ids are the low 24 bits of a game id.
const APP_ID_BITS: u64 = 0x00FF_FFFF;
/// A player entry with an empty name.
const PLAYER_ENTRY: usize = 10;
/// Deaths and money of one player of The Ship.
const SHIP_ENTRY: usize = 8;
/// Engines cut texts at this length or more, in bytes.
const SHORTEST_CUT: usize = 31;

/// Message types, the fifth byte of a single datagram.
mod kind {
    pub(super) const INFO_REQUEST: u8 = b'T';
    pub(super) const PLAYERS_REQUEST: u8 = b'U';
    pub(super) const RULES_REQUEST: u8 = b'V';
    pub(super) const CHALLENGE_REQUEST: u8 = b'W';
    pub(super) const PING_REQUEST: u8 = b'i';
    pub(super) const INFO: u8 = b'I';
    pub(super) const OLD_INFO: u8 = b'm';
    pub(super) const SHORT_INFO: u8 = b'C';
    pub(super) const PLAYERS: u8 = b'D';
    pub(super) const RULES: u8 = b'E';
    pub(super) const CHALLENGE: u8 = b'A';
    pub(super) const PING: u8 = b'j';
}

/// Four opaque bytes that prove the address of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge(pub [u8; 4]);

impl Challenge {
    /// The value that requests a challenge.
    pub const REQUEST: Self = Self([0xFF; 4]);
}

/// Request of an A2S client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests name, map, counts and more.
    Info(Option<Challenge>),
    /// Requests the player list. `None` if the request is too short for a challenge.
    Players(Option<Challenge>),
    /// Requests the rules. `None` if the request is too short for a challenge.
    Rules(Option<Challenge>),
    /// Requests a challenge, in the old form.
    Challenge,
    /// Requests an empty reply, in the old form.
    Ping,
    /// A request of 1999.
    Word(Word),
}

/// Requests of GoldSource servers of 1999 to 2003.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Requests the [old info reply](OldInfo).
    Details,
    /// Requests the player list.
    Players,
    /// Requests the rules.
    Rules,
    /// Requests a short form of the info reply.
    Info,
    /// Requests an empty reply.
    Ping,
    /// Requests the info as text.
    InfoString,
}

impl Word {
    const ALL: [Self; 6] = [
        Self::Details,
        Self::Players,
        Self::Rules,
        Self::Info,
        Self::Ping,
        Self::InfoString,
    ];

    fn text(self) -> &'static [u8] {
        match self {
            Self::Details => b"details",
            Self::Players => b"players",
            Self::Rules => b"rules",
            Self::Info => b"info",
            Self::Ping => b"ping",
            Self::InfoString => b"infostring",
        }
    }

    /// Returns the word that is the whole rest of a request, with or without its NUL.
    fn find(rest: &[u8]) -> Option<Self> {
        let word = rest.strip_suffix(b"\0").unwrap_or(rest);
        Self::ALL.into_iter().find(|known| known.text() == word)
    }
}

impl Request {
    /// Parses a request. Returns `None` if the bytes are not a request of this protocol: game
    /// servers receive other messages with the same first four bytes.
    pub fn parse(bytes: &[u8], notes: &mut Notes) -> Option<Self> {
        let rest = bytes.strip_prefix(SINGLE)?;
        if let Some(word) = Word::find(rest) {
            let mut r = Reader::new(bytes, notes);
            r.constant(SINGLE, "header").ok()?;
            text(&mut r, rest.len(), "word").ok()?;
            return Some(Self::Word(word));
        }
        let (&kind, rest) = rest.split_first()?;
        let is_request = match kind {
            kind::INFO_REQUEST => rest.starts_with(INFO_TEXT),
            kind::PLAYERS_REQUEST | kind::RULES_REQUEST | kind::CHALLENGE_REQUEST => true,
            kind::PING_REQUEST => matches!(rest, [] | [0]),
            _ => false,
        };
        if !is_request {
            return None;
        }
        let mut r = Reader::new(bytes, notes);
        r.constant(SINGLE, "header").ok()?;
        read_type(&mut r).ok()?;
        let request = match kind {
            kind::INFO_REQUEST => {
                text(&mut r, INFO_TEXT.len(), "text").ok()?;
                let challenge = if r.remaining() >= 4 {
                    Some(challenge(&mut r).ok()?)
                } else {
                    None
                };
                Self::Info(challenge)
            }
            kind::PLAYERS_REQUEST => Self::Players(short_challenge(&mut r)),
            kind::RULES_REQUEST => Self::Rules(short_challenge(&mut r)),
            kind::CHALLENGE_REQUEST => Self::Challenge,
            _ => {
                let length = r.remaining();
                r.raw(length, "terminator").ok()?;
                Self::Ping
            }
        };
        r.trailing(&TRAILING_BYTES);
        Some(request)
    }

    /// Appends the request.
    pub fn write(self, out: &mut Vec<u8>) {
        let mut w = Writer(out);
        w.bytes(SINGLE);
        let (kind, challenge) = match self {
            Self::Info(challenge) => {
                w.u8(kind::INFO_REQUEST).bytes(INFO_TEXT);
                if let Some(Challenge(bytes)) = challenge {
                    w.bytes(&bytes);
                }
                return;
            }
            Self::Word(word) => {
                w.bytes(word.text()).u8(0);
                return;
            }
            Self::Players(challenge) => (kind::PLAYERS_REQUEST, challenge),
            Self::Rules(challenge) => (kind::RULES_REQUEST, challenge),
            Self::Challenge => (kind::CHALLENGE_REQUEST, None),
            Self::Ping => (kind::PING_REQUEST, None),
        };
        w.u8(kind);
        if let Some(Challenge(bytes)) = challenge {
            w.bytes(&bytes);
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Info(_) => "info request",
            Self::Players(_) => "players request",
            Self::Rules(_) => "rules request",
            Self::Challenge => "challenge request",
            Self::Ping => "ping request",
            Self::Word(_) => "word request",
        }
    }
}

/// A reply in one datagram, or joined from several, borrowed from its bytes. Texts are bytes
/// without their NUL.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<'a> {
    /// A challenge.
    Challenge(Challenge),
    /// Info in the Source form.
    Info(Info<'a>),
    /// Info in the GoldSource form.
    OldInfo(OldInfo<'a>),
    /// The player list.
    Players(Players<'a>),
    /// The rules.
    Rules(Rules<'a>),
    /// Reply to a ping.
    Ping,
}

impl Reply<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Challenge(_) => "challenge reply",
            Self::Info(_) => "info reply",
            Self::OldInfo(OldInfo { details: None, .. }) => "short info reply",
            Self::OldInfo(_) => "old info reply",
            Self::Players(_) => "players reply",
            Self::Rules(_) => "rules reply",
            Self::Ping => "ping reply",
        }
    }
}

/// Info in the Source form (spec/a2s.md#3).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info<'a> {
    /// Version of the protocol: 17, or an engine's own.
    pub protocol: u8,
    /// Name of the server.
    pub name: &'a [u8],
    /// Name of the current map.
    pub map: &'a [u8],
    /// Folder of the game.
    pub folder: &'a [u8],
    /// Name of the game; in many games the mission or mode.
    pub game: &'a [u8],
    /// Low 16 bits of the app id, or 0.
    pub app_id: u16,
    /// Number of players, bots included.
    pub players: u8,
    /// Maximum number of players.
    pub max: u8,
    /// Number of bots among them.
    pub bots: u8,
    /// Letter of the server type.
    pub server_type: u8,
    /// Letter of the operating system.
    pub system: u8,
    /// Not 0 if the server has a password.
    pub password: u8,
    /// Not 0 if the server uses VAC.
    pub anti_cheat: u8,
    /// Whether the reply ends before this field, so that the fields from the bots on are not known.
    pub is_cut: bool,
    /// Only The Ship sends it.
    pub ship: Option<Ship>,
    /// Version of the game.
    pub version: &'a [u8],
    /// Further fields; `None` if the reply ends before their flags.
    pub extra: Option<ExtraData<'a>>,
}

impl Info<'_> {
    /// Returns the app id: the 24 bits of the game id, or the 16 bits if those are missing or 0.
    pub fn full_app_id(&self) -> u32 {
        let game_id = self.extra.as_ref().and_then(|extra| extra.game_id);
        let app_id = game_id.map(|id| (id & APP_ID_BITS) as u32);
        app_id.filter(|id| *id != 0).unwrap_or(self.app_id.into())
    }
}

/// Fields of The Ship.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ship {
    /// Number of the mode.
    pub mode: u8,
    /// Witnesses needed for an arrest.
    pub witnesses: u8,
    /// Seconds before an arrest.
    pub duration: u8,
}

/// Optional fields at the end of an info reply: the extra data flag and what it announces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraData<'a> {
    /// Flags as sent, with unknown ones.
    pub flags: u8,
    /// Port of the game.
    pub port: Option<u16>,
    /// Steam id of the server.
    pub steam_id: Option<u64>,
    /// Port and name of SourceTV.
    pub tv: Option<(u16, &'a [u8])>,
    /// Tags, separated by commas in most games.
    pub keywords: Option<&'a [u8]>,
    /// Game id; its low 24 bits are the app id.
    pub game_id: Option<u64>,
}

/// Flags of [`ExtraData`].
mod edf {
    pub(super) const PORT: u8 = 0x80;
    pub(super) const STEAM_ID: u8 = 0x10;
    pub(super) const TV: u8 = 0x40;
    pub(super) const KEYWORDS: u8 = 0x20;
    pub(super) const GAME_ID: u8 = 0x01;
    pub(super) const KNOWN: u8 = PORT | STEAM_ID | TV | KEYWORDS | GAME_ID;
}

/// Info in the GoldSource forms (spec/a2s.md#4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OldInfo<'a> {
    /// Address in the server's own view, with port.
    pub address: &'a [u8],
    /// Name of the server.
    pub name: &'a [u8],
    /// Name of the current map.
    pub map: &'a [u8],
    /// Folder of the game.
    pub folder: &'a [u8],
    /// Name of the game.
    pub game: &'a [u8],
    /// Number of players, bots included.
    pub players: u8,
    /// Maximum number of players.
    pub max: u8,
    /// Version of the protocol: 47 or 48.
    pub protocol: u8,
    /// Further fields; the short form has none.
    pub details: Option<Details<'a>>,
}

/// Fields that only the long form of [`OldInfo`] has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details<'a> {
    /// Letter of the server type.
    pub server_type: u8,
    /// Letter of the operating system.
    pub system: u8,
    /// Not 0 if the server has a password.
    pub password: u8,
    /// The running mod, if it describes itself.
    pub game_mod: Option<GameMod<'a>>,
    /// Not 0 if the server uses VAC; `None` in servers from before VAC.
    pub anti_cheat: Option<u8>,
    /// Bots; `None` in servers that do not count them.
    pub bots: Option<u8>,
}

/// Description of a mod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GameMod<'a> {
    /// Address of the web site.
    pub url: &'a [u8],
    /// Address of a download.
    pub download: &'a [u8],
    /// Version of the mod.
    pub version: i32,
    /// Size of the download in bytes.
    pub size: i32,
    /// Not 0 if the mod is only for several players.
    pub is_multiplayer_only: u8,
    /// Not 0 if the mod replaces the game's library.
    pub has_own_library: u8,
}

/// The player list (spec/a2s.md#5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Players<'a> {
    /// Count as sent.
    pub count: u8,
    /// The entries that are complete.
    pub list: Vec<Player<'a>>,
    /// Deaths and money of the first players; only The Ship sends them.
    pub ship: Vec<(i32, i32)>,
}

/// An entry of the player list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Player<'a> {
    /// 0 in most engines, else the index in the list.
    pub index: u8,
    /// Name; empty while the player joins, or if the server does not disclose it.
    pub name: &'a [u8],
    /// Score of the player.
    pub score: i32,
    /// Seconds since the player joined. Any value occurs, even NaN.
    pub time_s: f32,
}

/// The rules (spec/a2s.md#6).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules<'a> {
    /// Names and values that are complete, in order. Names may repeat.
    pub list: Vec<(&'a [u8], &'a [u8])>,
}

/// Parses a reply. `app_id` is that of the info reply, if known: the player list of The Ship has
/// more fields. `has_header` is `false` for joined replies without the first four bytes.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_reply<'a>(
    bytes: &'a [u8],
    has_header: bool,
    app_id: Option<u32>,
    notes: &mut Notes,
) -> Result<Reply<'a>, Error> {
    let mut r = Reader::new(bytes, notes);
    if has_header {
        r.constant(SINGLE, "header")?;
    }
    let at = r.at();
    if r.rest().starts_with(SINGLE) {
        r.constant(SINGLE, "second header")?;
        r.notes().deviation(&DOUBLED_HEADER, at);
    }
    let at = r.at();
    let reply = match read_type(&mut r)? {
        kind::CHALLENGE => Reply::Challenge(challenge(&mut r)?),
        kind::INFO => Reply::Info(read_info(&mut r)?),
        kind::OLD_INFO => Reply::OldInfo(read_old_info(&mut r, true)?),
        kind::SHORT_INFO => Reply::OldInfo(read_old_info(&mut r, false)?),
        kind::PLAYERS => Reply::Players(read_players(&mut r, app_id)?),
        kind::RULES => Reply::Rules(read_rules(&mut r)?),
        kind::PING => {
            let length = r.remaining();
            r.raw(length, "filling")?;
            Reply::Ping
        }
        _ => {
            return Err(Error::bad(
                "type",
                at,
                "a type of reply: A, C, D, E, I, j or m",
            ));
        }
    };
    r.trailing(&TRAILING_BYTES);
    Ok(reply)
}

fn read_type(r: &mut Reader<'_, '_>) -> Result<u8, Error> {
    let at = r.at();
    let [kind] = r.array("type")?;
    r.note(at, "type", || format!("{:?}", char::from(kind)));
    Ok(kind)
}

fn challenge(r: &mut Reader<'_, '_>) -> Result<Challenge, Error> {
    let at = r.at();
    let challenge = r.array("challenge")?;
    r.note(at, "challenge", || crate::wire::hexadecimal(&challenge));
    Ok(Challenge(challenge))
}

fn short_challenge(r: &mut Reader<'_, '_>) -> Option<Challenge> {
    let found = challenge(r).ok();
    if found.is_none() {
        let at = r.at();
        let length = r.remaining();
        r.raw(length, "challenge").ok();
        r.notes().deviation(&SHORT_CHALLENGE, at);
    }
    found
}

fn read_info<'a>(r: &mut Reader<'a, '_>) -> Result<Info<'a>, Error> {
    let mut info = Info {
        protocol: r.u8("protocol")?,
        ..Info::default()
    };
    let at = r.at();
    info.name = string(r, "name")?;
    if info.name.iter().any(u8::is_ascii_control) {
        r.notes().deviation(&CONTROL_BYTES, at);
    }
    info.map = string(r, "map")?;
    info.folder = string(r, "folder")?;
    info.game = string(r, "game")?;
    let app_id_at = r.at();
    info.app_id = r.u16_le("app id")?;
    info.players = r.u8("players")?;
    info.max = r.u8("max players")?;
    if let Err(Error { at, .. }) = read_flags(r, &mut info) {
        info.is_cut = true;
        r.notes().deviation(&CUT_INFO, at);
        return Ok(info);
    }
    if u32::from(info.app_id) == THE_SHIP {
        info.ship = read_ship(r).ok();
    }
    let version_at = r.at();
    info.version = match first_nul(r.rest()) {
        Some(length) => text(r, length + 1, "version")?,
        None => {
            r.notes().deviation(&CUT_INFO, version_at);
            text(r, r.remaining(), "version")?
        }
    };
    if r.remaining() == 0 {
        let at = r.at();
        r.notes().deviation(&NO_EDF, at);
        return Ok(info);
    }
    let extra = info.extra.insert(ExtraData::default());
    if let Err(Error { at, .. }) = read_extra_data(r, extra) {
        r.notes().deviation(&CUT_EDF, at);
        let length = r.remaining();
        r.raw(length, "cut fields")?;
    }
    let low_bits = info.full_app_id() & 0xFFFF;
    if info.app_id == 0 && low_bits != 0 {
        r.notes().deviation(&APP_ID_ZERO, app_id_at);
    }
    Ok(info)
}

fn read_flags(r: &mut Reader<'_, '_>, info: &mut Info<'_>) -> Result<(), Error> {
    info.bots = r.u8("bots")?;
    info.server_type = letter(r, "server type", b"dlp")?;
    info.system = letter(r, "system", b"lwmo")?;
    info.password = r.u8("password")?;
    info.anti_cheat = r.u8("anti-cheat")?;
    Ok(())
}

fn read_ship(r: &mut Reader<'_, '_>) -> Result<Ship, Error> {
    Ok(Ship {
        mode: r.u8("mode")?,
        witnesses: r.u8("witnesses")?,
        duration: r.u8("duration")?,
    })
}

/// Reads the fields that are there (spec/a2s.md#3.1).
fn read_extra_data<'a>(r: &mut Reader<'a, '_>, found: &mut ExtraData<'a>) -> Result<(), Error> {
    let at = r.at();
    let [flags] = r.array("extra data flag")?;
    r.note(at, "extra data flag", || format!("{flags:#04x}"));
    found.flags = flags;
    if flags & edf::PORT != 0 {
        found.port = Some(r.u16_le("port")?);
    }
    if flags & edf::STEAM_ID != 0 {
        found.steam_id = Some(r.u64_le("steam id")?);
    }
    if flags & edf::TV != 0 {
        found.tv = Some((r.u16_le("tv port")?, string(r, "tv name")?));
    }
    if flags & edf::KEYWORDS != 0 {
        found.keywords = Some(string(r, "keywords")?);
    }
    if flags & !edf::KNOWN != 0 {
        // The place of unknown fields is unknown, so the rest stays raw.
        r.notes().deviation(&UNKNOWN_EDF, at);
        let length = r.remaining();
        r.raw(length, "unknown fields")?;
    } else if flags & edf::GAME_ID != 0 {
        found.game_id = Some(r.u64_le("game id")?);
    }
    Ok(())
}

fn read_old_info<'a>(r: &mut Reader<'a, '_>, is_long: bool) -> Result<OldInfo<'a>, Error> {
    let mut info = OldInfo {
        address: string(r, "address")?,
        ..OldInfo::default()
    };
    let at = r.at();
    info.name = string(r, "name")?;
    if info.name.iter().any(u8::is_ascii_control) {
        r.notes().deviation(&CONTROL_BYTES, at);
    }
    info.map = string(r, "map")?;
    info.folder = string(r, "folder")?;
    info.game = string(r, "game")?;
    info.players = r.u8("players")?;
    info.max = r.u8("max players")?;
    info.protocol = r.u8("protocol")?;
    if is_long {
        info.details = Some(read_details(r)?);
    }
    Ok(info)
}

fn read_details<'a>(r: &mut Reader<'a, '_>) -> Result<Details<'a>, Error> {
    let mut details = Details {
        server_type: letter(r, "server type", b"dlp")?,
        system: letter(r, "system", b"lwmo")?,
        password: r.u8("password")?,
        ..Details::default()
    };
    let at = r.at();
    if r.u8("is mod")? == 1 {
        if r.remaining() <= 2 {
            r.notes().deviation(&NO_MOD_BLOCK, at);
        } else {
            details.game_mod = Some(read_mod(r)?);
        }
    }
    if r.remaining() < 2 {
        let at = r.at();
        r.notes().deviation(&NO_ANTI_CHEAT, at);
    }
    if r.remaining() > 0 {
        details.anti_cheat = Some(r.u8("anti-cheat")?);
    }
    if r.remaining() > 0 {
        details.bots = Some(r.u8("bots")?);
    }
    Ok(details)
}

fn read_mod<'a>(r: &mut Reader<'a, '_>) -> Result<GameMod<'a>, Error> {
    let url = string(r, "mod url")?;
    let download = string(r, "mod download url")?;
    string(r, "reserved")?;
    Ok(GameMod {
        url,
        download,
        version: r.i32_le("mod version")?,
        size: r.i32_le("mod size")?,
        is_multiplayer_only: r.u8("mod is multiplayer only")?,
        has_own_library: r.u8("mod has own library")?,
    })
}

/// Reads entries to the end of the message, because counts are wrong where they wrap or where the
/// list was cut.
fn read_players<'a>(r: &mut Reader<'a, '_>, app_id: Option<u32>) -> Result<Players<'a>, Error> {
    let count = r.u8("count")?;
    let counted = usize::from(count);
    let mut players = Players {
        count,
        list: Vec::with_capacity(counted.min(r.remaining() / PLAYER_ENTRY)),
        ship: Vec::new(),
    };
    if counted == 255 && r.remaining() == 0 {
        let at = r.at() - 1;
        r.notes().deviation(&PLAYERS_HIDDEN, at);
        return Ok(players);
    }
    let is_ship = app_id == Some(THE_SHIP);
    let mut is_truncated = false;
    let mut has_ship_fields = false;
    while r.remaining() > 0 && !is_truncated {
        let listed = players.list.len();
        has_ship_fields = listed == counted && (is_ship || r.remaining() == counted * SHIP_ENTRY);
        if has_ship_fields {
            break;
        }
        let name = r.rest().get(1..).and_then(first_nul);
        let name = name.filter(|length| r.remaining() >= PLAYER_ENTRY + length);
        if listed == counted {
            // The list is complete, and something else follows.
            if name.is_none() {
                break;
            }
            let at = r.at();
            r.notes().deviation(&PLAYERS_COUNT_LOW, at);
        }
        is_truncated = name.is_none();
        if let Some(length) = name {
            r.notes().group("player", listed);
            players.list.push(Player {
                index: r.u8("index")?,
                name: text(r, length + 1, "name")?,
                score: r.i32_le("score")?,
                time_s: r.f32_le("time")?,
            });
        }
    }
    if has_ship_fields {
        if !is_ship {
            let at = r.at();
            r.notes().deviation(&SHIP_EXTRA, at);
        }
        while r.remaining() >= SHIP_ENTRY && players.ship.len() < counted {
            r.notes().group("player", players.ship.len());
            players.ship.push((r.i32_le("deaths")?, r.i32_le("money")?));
        }
    }
    r.notes().ungroup();
    let lacks_ship = is_ship && players.ship.len() < players.list.len();
    if is_truncated || lacks_ship || players.list.len() < counted {
        let at = r.at();
        let length = r.remaining();
        r.raw(length, "cut entry")?;
        r.notes().deviation(&PLAYERS_TRUNCATED, at);
    }
    Ok(players)
}

fn read_rules<'a>(r: &mut Reader<'a, '_>) -> Result<Rules<'a>, Error> {
    let count_at = r.at();
    let count = r.u16_le("count")?;
    let counted = usize::from(count);
    let mut list = Vec::with_capacity(counted.min(r.remaining() / 2));
    while let Some(entry) = rule_length(r.rest()) {
        if list.len() == MAX_RULES {
            return Err(Error::limit("rules", r.at(), MAX_RULES));
        }
        r.notes().group("rule", list.len());
        let start = r.at();
        let name = string(r, "name")?;
        let value = if is_binary_chunk(name) {
            let length = start + entry - r.at();
            let value = r.raw(length, "chunk")?;
            value.strip_suffix(b"\0").unwrap_or(value)
        } else {
            string(r, "value")?
        };
        list.push((name, value));
    }
    // The counted rules may lack the NUL of the last value.
    let name_length = first_nul(r.rest()).filter(|_| list.len() + 1 == counted);
    if let Some(length) = name_length {
        r.notes().group("rule", list.len());
        let name = text(r, length + 1, "name")?;
        let at = r.at();
        let value = r.raw(r.remaining(), "value without NUL")?;
        list.push((name, value));
        r.notes().deviation(&RULES_NO_NUL, at);
    }
    r.notes().ungroup();
    let is_negative = count.cast_signed() < 0;
    if is_negative || list.len() > counted {
        r.notes().deviation(&RULES_COUNT_LOW, count_at);
    }
    // Bytes after all the counted rules are no part of the list.
    let is_cut = r.remaining() > 0 && list.len() != counted;
    if is_cut || (list.len() < counted && !is_negative) {
        let at = r.at();
        let length = r.remaining();
        r.raw(length, "cut entry")?;
        r.notes().deviation(&RULES_TRUNCATED, at);
    }
    Ok(Rules { list })
}

/// Returns whether the value of a rule is binary, so that its bytes are not a text
/// (spec/a2s.md#6.1).
fn is_binary_chunk(name: &[u8]) -> bool {
    matches!(name, &[number, total] if total < b' ' && (1..=total).contains(&number))
}

/// Returns the length of the rule at the start of the bytes, if it is whole.
fn rule_length(bytes: &[u8]) -> Option<usize> {
    let name = first_nul(bytes)? + 1;
    Some(name + first_nul(bytes.get(name..)?)? + 1)
}

/// Reads a letter and notes those that are not usual.
fn letter(r: &mut Reader<'_, '_>, field: &'static str, usual: &[u8]) -> Result<u8, Error> {
    let at = r.at();
    let [letter] = r.array(field)?;
    r.note(at, field, || format!("{:?}", char::from(letter)));
    if !usual.contains(&letter) {
        r.notes().deviation(&ODD_TYPE, at);
    }
    Ok(letter)
}

/// Reads a text up to its NUL.
fn string<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    match first_nul(r.rest()) {
        Some(length) => text(r, length + 1, field),
        None => {
            let at = r.at() + r.remaining();
            let kind = ErrorKind::Short { need: 1 };
            Err(Error { field, at, kind })
        }
    }
}

/// Reads a text of `length` bytes, and returns it without the NUL at its end.
fn text<'a>(r: &mut Reader<'a, '_>, length: usize, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let bytes = r.take(length, field)?;
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if !bytes.is_ascii()
        && let (_, Some(deviation)) = decode(bytes)
    {
        r.notes().deviation(deviation, at);
    }
    r.note(at, field, || format!("{:?}", decode(bytes).0));
    Ok(bytes)
}

/// Decodes a text: UTF-8, also if it was cut inside a character, or else Windows-1252.
pub fn decode(bytes: &[u8]) -> (Cow<'_, str>, Option<&'static Deviation>) {
    let error = match core::str::from_utf8(bytes) {
        Ok(text) => return (Cow::Borrowed(text), None),
        Err(error) => error,
    };
    if error.error_len().is_none()
        && bytes.len() >= SHORTEST_CUT
        && let Some(whole) = bytes.get(..error.valid_up_to())
        && !whole.is_ascii()
    {
        let whole = core::str::from_utf8(whole).unwrap_or_default();
        return (Cow::Borrowed(whole), Some(&CUT_TEXT));
    }
    let text = CodePage::Western.decode(bytes);
    (Cow::Owned(text.into()), Some(&NOT_UTF8))
}

/// Appends a challenge reply.
pub(super) fn write_challenge(Challenge(bytes): Challenge, out: &mut Vec<u8>) {
    Writer(out).bytes(SINGLE).u8(kind::CHALLENGE).bytes(&bytes);
}

/// Appends an info reply. Its texts must not contain NUL.
pub(super) fn write_info(info: &Info<'_>, out: &mut Vec<u8>) {
    let mut w = Writer(out);
    w.bytes(SINGLE).u8(kind::INFO).u8(info.protocol);
    for text in [info.name, info.map, info.folder, info.game] {
        w.bytes(text).u8(0);
    }
    w.u16_le(info.app_id)
        .u8(info.players)
        .u8(info.max)
        .u8(info.bots)
        .u8(info.server_type)
        .u8(info.system)
        .u8(info.password)
        .u8(info.anti_cheat);
    if let Some(ship) = info.ship {
        w.u8(ship.mode).u8(ship.witnesses).u8(ship.duration);
    }
    w.bytes(info.version).u8(0);
    if let Some(extra) = &info.extra {
        write_extra_data(extra, &mut w);
    }
}

/// Writes the fields that are present, and their flags.
fn write_extra_data(found: &ExtraData<'_>, w: &mut Writer<'_>) {
    let flag = |is_present: bool, flag: u8| if is_present { flag } else { 0 };
    w.u8(flag(found.port.is_some(), edf::PORT)
        | flag(found.steam_id.is_some(), edf::STEAM_ID)
        | flag(found.tv.is_some(), edf::TV)
        | flag(found.keywords.is_some(), edf::KEYWORDS)
        | flag(found.game_id.is_some(), edf::GAME_ID));
    if let Some(port) = found.port {
        w.u16_le(port);
    }
    if let Some(id) = found.steam_id {
        w.bytes(&id.to_le_bytes());
    }
    if let Some((port, name)) = found.tv {
        w.u16_le(port).bytes(name).u8(0);
    }
    if let Some(keywords) = found.keywords {
        w.bytes(keywords).u8(0);
    }
    if let Some(id) = found.game_id {
        w.bytes(&id.to_le_bytes());
    }
}

/// Appends the start of a players reply. The entries follow.
pub(super) fn write_players_header(count: u8, out: &mut Vec<u8>) {
    Writer(out).bytes(SINGLE).u8(kind::PLAYERS).u8(count);
}

/// Appends an entry of the player list. The name must not contain NUL.
pub(super) fn write_player(player: Player<'_>, out: &mut Vec<u8>) {
    Writer(out)
        .u8(player.index)
        .bytes(player.name)
        .u8(0)
        .i32_le(player.score)
        .bytes(&player.time_s.to_le_bytes());
}

/// Appends the start of a rules reply. The entries follow.
pub(super) fn write_rules_header(count: u16, out: &mut Vec<u8>) {
    Writer(out).bytes(SINGLE).u8(kind::RULES).u16_le(count);
}

/// Appends a rule. Its texts must not contain NUL.
pub(super) fn write_rule(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    Writer(out).bytes(name).u8(0).bytes(value).u8(0);
}

/// Explains a datagram of either direction.
pub(super) fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let direction = seen.direction();
    if direction != Some(Direction::Reply)
        && let Some(request) = Request::parse(bytes, notes)
    {
        return Some(Explanation {
            message: request.name(),
            direction: Direction::Request,
            is_certain: matches!(request, Request::Info(_)),
            error: None,
        });
    }
    if direction == Some(Direction::Request) {
        return None;
    }
    let is_split = bytes.starts_with(SPLIT);
    if !is_split && !bytes.starts_with(SINGLE) {
        return None;
    }
    if bytes.len() > MAX_DATAGRAM {
        notes.deviation(&BIG_DATAGRAM, MAX_DATAGRAM);
    }
    let explanation = |message, is_certain, error| Explanation {
        message,
        direction: Direction::Reply,
        is_certain,
        error,
    };
    if is_split {
        let error = split::explain(bytes, notes).err();
        return Some(explanation("split part", false, error));
    }
    match parse_reply(bytes, true, None, notes) {
        Ok(reply) => {
            let is_info = matches!(reply, Reply::Info(_) | Reply::OldInfo(_));
            Some(explanation(reply.name(), is_info, None))
        }
        // Other protocols use the same first four bytes, with words after them.
        Err(error) if error.field == "type" => None,
        Err(error) => Some(explanation(failed_name(bytes), false, Some(error))),
    }
}

/// Returns the name of a reply that does not parse.
fn failed_name(bytes: &[u8]) -> &'static str {
    let message = bytes.strip_prefix(SINGLE).unwrap_or(bytes);
    let message = message.strip_prefix(SINGLE).unwrap_or(message);
    match message.first() {
        Some(&kind::INFO) => "info reply",
        Some(&kind::OLD_INFO) => "old info reply",
        Some(&kind::SHORT_INFO) => "short info reply",
        Some(&kind::PLAYERS) => "players reply",
        Some(&kind::RULES) => "rules reply",
        _ => "challenge reply",
    }
}

/// Formats a number as text, for values above the range of signed numbers.
pub(super) fn decimal(number: u64) -> String {
    format!("{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn rules(count: usize) -> Result<usize, Error> {
        let mut bytes = Vec::new();
        write_rules_header(count as u16, &mut bytes);
        for _ in 0..count {
            write_rule(b"a", b"", &mut bytes);
        }
        match parse_reply(&bytes, true, None, &mut Notes::default())? {
            Reply::Rules(rules) => Ok(rules.list.len()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_datagrams_above_the_limit_are_big() {
        for (length, is_big) in [(MAX_DATAGRAM, false), (MAX_DATAGRAM + 1, true)] {
            let mut bytes = Vec::from(*b"\xFF\xFF\xFF\xFFj");
            bytes.resize(length, b'0');
            let mut notes = Notes::default();
            explain(&bytes, Direction::Reply.into(), &mut notes);
            assert_eq!(notes.met().any(|met| met.name == "big-datagram"), is_big);
        }
    }

    #[test]
    fn other_words_are_not_pings() {
        let parse = |rest: &[u8]| {
            let bytes = [SINGLE, rest].concat();
            Request::parse(&bytes, &mut Notes::default())
        };
        assert_eq!(parse(b"i"), Some(Request::Ping));
        assert_eq!(parse(b"i\0"), Some(Request::Ping));
        for other in [&b"ix"[..], b"i\0\0", b"infostrings\0"] {
            assert_eq!(parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn an_app_id_of_zero_is_named_only_if_the_game_id_has_another() {
        for (game_id, expected) in [(0, &[][..]), (1 << 24, &[]), (440, &["app-id-zero"])] {
            let info = Info {
                server_type: b'd',
                system: b'l',
                extra: Some(ExtraData {
                    game_id: Some(game_id),
                    ..ExtraData::default()
                }),
                ..Info::default()
            };
            let mut bytes = Vec::new();
            write_info(&info, &mut bytes);
            let mut notes = Notes::default();
            parse_reply(&bytes, true, None, &mut notes).unwrap();
            let met: Vec<_> = notes.met().map(|met| met.name).collect();
            assert_eq!(met, expected, "{game_id}");
        }
    }

    #[test]
    fn more_fields_of_the_ship_than_players_are_trailing_bytes() {
        let mut bytes = Vec::new();
        write_players_header(1, &mut bytes);
        let player = Player {
            index: 0,
            name: b"Ann",
            score: 1,
            time_s: 2.0,
        };
        write_player(player, &mut bytes);
        bytes.extend([7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0]);
        let mut notes = Notes::default();
        let Ok(Reply::Players(players)) = parse_reply(&bytes, true, Some(THE_SHIP), &mut notes)
        else {
            panic!()
        };
        assert_eq!(players.ship, [(7, 8)]);
        let met: Vec<_> = notes.met().map(|met| met.name).collect();
        assert_eq!(met, ["trailing-bytes"]);
    }

    #[test]
    fn only_long_texts_are_cut() {
        let start = "\u{E9}".repeat(14);
        for (filling, expected) in [("x", &NOT_UTF8), ("xx", &CUT_TEXT)] {
            let text = [start.as_bytes(), filling.as_bytes(), b"\xC3"].concat();
            assert_eq!(text.len() == SHORTEST_CUT, filling == "xx");
            assert_eq!(decode(&text).1, Some(expected));
        }
        // The accented letter at the end is the only sign of the encoding.
        let accented = [b"x".repeat(30).as_slice(), b"\xE9"].concat();
        assert_eq!(decode(&accented).1, Some(&NOT_UTF8));
    }

    /// spec/a2s.md#10.1
    #[test]
    fn fields_before_the_end_of_a_cut_reply_are_kept() {
        let extra = ExtraData {
            port: Some(27_016),
            steam_id: Some(9),
            tv: Some((27_020, b"tv")),
            keywords: Some(b"a,b"),
            game_id: Some(440),
            ..ExtraData::default()
        };
        let info = Info {
            name: b"Pier",
            app_id: 440,
            server_type: b'd',
            system: b'l',
            extra: Some(extra),
            ..Info::default()
        };
        let mut bytes = Vec::new();
        write_info(&info, &mut bytes);
        let start = bytes.len() - 27;
        for end in start..bytes.len() {
            let mut notes = Notes::default();
            let reply = parse_reply(&bytes[..end], true, None, &mut notes);
            let Ok(Reply::Info(cut)) = reply else {
                panic!("{reply:?}")
            };
            let met: Vec<_> = notes.met().map(|met| met.name).collect();
            assert_eq!((met, cut.full_app_id()), (vec!["cut-edf"], 440), "{end}");
            let found = cut.extra.unwrap();
            let present = [
                found.port.is_some(),
                found.steam_id.is_some(),
                found.tv.is_some(),
                found.keywords.is_some(),
                found.game_id.is_some(),
            ];
            // The fields end at these offsets after the flags.
            let whole = [2, 10, 15, 19, 27].map(|length| end >= start + length);
            assert_eq!(present, whole, "{end}");
        }
    }

    #[test]
    fn the_number_of_rules_is_limited() {
        assert_eq!(rules(MAX_RULES), Ok(MAX_RULES));
        let error = rules(MAX_RULES + 1).unwrap_err();
        let limit = ErrorKind::Limit { limit: MAX_RULES };
        assert_eq!(
            (error.field, error.at, error.kind),
            ("rules", 7 + 3 * MAX_RULES, limit)
        );
    }
}
