//! Bytes ⇄ messages. The only file that knows offsets (spec/ugp.md#2 to #6).

use super::deviation::*;
use super::table::{self, player, player_extra, section, server, server_extra, team};
use crate::model::{Extra, Player, Rule, Text, Value};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, Utf8, cut};
use alloc::borrow::Cow;
use alloc::{format, vec::Vec};
use compact_str::CompactString;

/// First five bytes of every message.
pub const MAGIC: [u8; 5] = *b"\xFF\xFFUGP";
/// Length of a ping and of its reply, in bytes.
pub const PING_LENGTH: usize = 8;
/// Length of the shortest request for any field, in bytes.
pub const QUERY_MIN: usize = 10;
/// Length of the longest request.
pub const QUERY_MAX: usize = 14;
/// Longest text in a string, in bytes. The length byte also counts the NUL.
pub const TEXT_MAX: usize = 254;

/// The NUL that ends the magic, and the only known version.
const VERSION: [u8; 2] = [0, 1];
const PING: u8 = 0x00;
const QUERY: u8 = 0x01;
const PING_REPLY: u8 = 0x80;
const QUERY_REPLY: u8 = 0x81;
/// Length of header, game id and sections of a query reply, in bytes.
pub(super) const REPLY_HEADER: usize = PING_LENGTH + 2;

/// Request of a UGP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests a reply without content.
    Ping,
    /// Requests sections.
    Query(QueryFlags),
}

/// The fields that a query requests. Unknown flags are kept in their byte, except unknown sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryFlags {
    /// The server section, by its [flags](server).
    pub server: Option<u8>,
    /// Players or teams.
    pub list: Option<ListFlags>,
    /// The rule section, by its flags, whose meaning is unknown.
    pub rules: Option<u8>,
}

/// Players or teams, never both: the order of their flags in one request is disputed (spec/ugp.md#5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFlags {
    /// The player section.
    Players {
        /// [Flags](player) of the fields.
        fields: u8,
        /// [Flags](player_extra) of more fields; sent only if `fields` has [`player::EXTRA`].
        extra: u8,
    },
    /// The team section.
    Teams {
        /// [Flags](team) of the fields.
        fields: u8,
    },
}

impl Request {
    /// Parses a request. The types of replies are invalid.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(&MAGIC, "magic")?;
        r.constant(&VERSION, "version")?;
        let at = r.at();
        let request = match r.raw(1, "type")? {
            [PING] => Self::Ping,
            [QUERY] => Self::Query(QueryFlags::read(&mut r)?),
            _ => return Err(Error::bad("type", at, "0 (ping) or 1 (query)")),
        };
        let surplus = r.remaining();
        if surplus > 0 {
            r.raw(surplus, "surplus")?;
        }
        Ok(request)
    }

    /// Appends the request to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ping => write_header(PING, out),
            Self::Query(requested) => {
                write_header(QUERY, out);
                requested.write(out);
            }
        }
    }
}

impl QueryFlags {
    /// Parses the flags. If a request names players and teams, the players are kept, in the order
    /// that current servers document.
    fn read(r: &mut Reader<'_, '_>) -> Result<Self, Error> {
        let sections = flags(r, "request flags", section::NAMES)?;
        let mut requested = Self::default();
        if sections & section::SERVER != 0 {
            requested.server = Some(flags(r, "server flags", server::NAMES)?);
        }
        if sections & section::PLAYERS != 0 {
            let (fields, extra) = player_flags(r, flags)?;
            requested.list = Some(ListFlags::Players { fields, extra });
        }
        if sections & section::TEAMS != 0 {
            let fields = flags(r, "team flags", team::NAMES)?;
            requested.list.get_or_insert(ListFlags::Teams { fields });
        }
        if sections & section::RULES != 0 {
            requested.rules = Some(flags(r, "rule flags", &[])?);
        }
        Ok(requested)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.sections());
        out.extend(self.server);
        match self.list {
            Some(ListFlags::Players { fields, extra }) if fields & player::EXTRA != 0 => {
                out.extend([fields, extra]);
            }
            Some(ListFlags::Players { fields, .. } | ListFlags::Teams { fields }) => {
                out.push(fields);
            }
            None => {}
        }
        out.extend(self.rules);
    }

    /// Returns the requested [sections](section).
    pub fn sections(&self) -> u8 {
        let list = match self.list {
            Some(ListFlags::Players { .. }) => section::PLAYERS,
            Some(ListFlags::Teams { .. }) => section::TEAMS,
            None => 0,
        };
        let server = if self.server.is_some() {
            section::SERVER
        } else {
            0
        };
        let rules = if self.rules.is_some() {
            section::RULES
        } else {
            0
        };
        server | list | rules
    }

    /// Returns whether this may be the reply: it has only requested sections.
    pub fn covers(&self, given: &QueryReply<'_>) -> bool {
        given.sections & !self.sections() == 0
    }
}

/// Reply of a UGP server.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "pings are rare, and a sweep would allocate for each other answer"
)]
pub enum Reply<'a> {
    /// Reply to a ping.
    Ping,
    /// Reply to a query.
    Query(QueryReply<'a>),
}

/// The reply to a query. The flags of a section apply to all its entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryReply<'a> {
    /// Number of the [game](table::GAMES).
    pub game: u8,
    /// [Sections](section) of the reply, by its own flags.
    pub sections: u8,
    /// The server section.
    pub server: Option<Server<'a>>,
    /// The player section.
    pub players: Option<Vec<Player>>,
    /// The team section. Its layout is assumed (spec/ugp.md#9.3).
    pub teams: Option<Vec<Team<'a>>>,
    /// The rule section.
    pub rules: Option<Vec<Rule>>,
}

/// The server section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server<'a> {
    /// Game, as the server reports it.
    pub game: Option<WireText<'a>>,
    /// Whether a password is required. This field and the next two are assumed (spec/ugp.md#9.2).
    pub has_password: Option<bool>,
    /// Version of the server.
    pub version: Option<WireText<'a>>,
    /// Operating system of the server.
    pub os: Option<WireText<'a>>,
    /// Name of the server.
    pub name: Option<WireText<'a>>,
    /// Game mode of the server.
    pub mode: Option<WireText<'a>>,
    /// Name of the current map.
    pub map: Option<WireText<'a>>,
    /// Number of players online.
    pub online: Option<u8>,
    /// Maximum number of players.
    pub max: Option<u8>,
}

/// A team in a reply of a UGP server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Team<'a> {
    /// Name of the team.
    pub name: Option<WireText<'a>>,
    /// Score of the team.
    pub score: Option<i32>,
    /// Number of members online.
    pub players: Option<u8>,
    /// Color; the order of its channels is not known.
    pub color: Option<u32>,
}

/// A text, borrowed from its datagram unless it is ISO-8859-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireText<'a>(Cow<'a, str>);

impl<'a> WireText<'a> {
    /// Creates a text. The bytes may end with one NUL and need not be UTF-8.
    #[cold]
    fn odd(bytes: &'a [u8], at: usize, utf8: Utf8<'a>, notes: &mut Notes) -> Self {
        match bytes.last() {
            Some(0) => {}
            Some(_) => notes.deviation(&UNCLOSED_STRING, at),
            None => notes.deviation(&ZERO_LENGTH_STRING, at),
        }
        let end = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        let (text, cut, latin1) = utf8.decode_cut(bytes.get(..end).unwrap_or_default());
        if cut {
            notes.deviation(&CUT_TEXT, at);
        }
        if latin1 {
            notes.deviation(&LATIN_1_TEXT, at);
        }
        Self(text)
    }

    /// Returns the text as received.
    pub fn text(self) -> Text {
        let latin1 = matches!(self.0, Cow::Owned(_));
        Text::unformatted(self.0).from_single_byte(latin1)
    }

    /// Returns the text without control characters.
    pub fn plain(self) -> CompactString {
        Text::unformatted(self.0).into_short()
    }
}

impl<'a> Reply<'a> {
    /// Parses a reply by its own flags, independent of the request (spec/ugp.md#10.1).
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(&MAGIC, "magic")?;
        let at = r.at();
        if r.raw(VERSION.len(), "version")? != VERSION {
            r.notes().deviation(&ODD_VERSION, at);
        }
        let at = r.at();
        let kind = r.raw(1, "type")?;
        if let [PING | QUERY] = kind {
            r.notes().deviation(&UNMARKED_TYPE, at);
        }
        let answer = match kind {
            [PING | PING_REPLY] => Self::Ping,
            [QUERY | QUERY_REPLY] => Self::Query(QueryReply::read(&mut r)?),
            _ => {
                return Err(Error::bad(
                    "type",
                    at,
                    "80 (ping reply) or 81 (query reply)",
                ));
            }
        };
        r.trailing(&TRAILING_BYTES);
        Ok(answer)
    }
}

impl<'a> QueryReply<'a> {
    fn read(r: &mut Reader<'a, '_>) -> Result<Self, Error> {
        let at = r.at();
        let [game] = r.array("game id")?;
        r.note(at, "game id", || {
            format!("{game} ({})", table::game_name(game).unwrap_or("unknown"))
        });
        let sections = known_flags(r, "request flags", section::NAMES)?;
        let has = |bit| sections & bit != 0;
        let utf8 = Utf8::start_of(r.rest());
        let server = has(section::SERVER)
            .then(|| Server::read(r, utf8))
            .transpose()?;
        let online = server.as_ref().and_then(|server| server.online);
        Ok(Self {
            game,
            sections,
            server,
            players: has(section::PLAYERS)
                .then(|| players(r, utf8, online))
                .transpose()?,
            teams: has(section::TEAMS).then(|| teams(r, utf8)).transpose()?,
            rules: has(section::RULES).then(|| rules(r, utf8)).transpose()?,
        })
    }
}

impl<'a> Server<'a> {
    fn read(r: &mut Reader<'a, '_>, utf8: Utf8<'a>) -> Result<Self, Error> {
        let fields = known_flags(r, "server flags", server::NAMES)?;
        let has = |bit| fields & bit != 0;
        let game = has(server::GAME)
            .then(|| text(r, utf8, "game name"))
            .transpose()?;
        let known = |r| known_flags(r, "extra server flags", server_extra::NAMES);
        let state = has(server::EXTRA).then(|| known(r)).transpose()?;
        let is = |bit| state.is_some_and(|state| state & bit != 0);
        Ok(Self {
            game,
            has_password: state.map(|_| is(server_extra::PASSWORD)),
            version: is(server_extra::VERSION)
                .then(|| text(r, utf8, "version"))
                .transpose()?,
            os: is(server_extra::OS)
                .then(|| text(r, utf8, "os"))
                .transpose()?,
            name: has(server::NAME)
                .then(|| text(r, utf8, "server name"))
                .transpose()?,
            mode: has(server::MODE)
                .then(|| text(r, utf8, "mode"))
                .transpose()?,
            map: has(server::MAP).then(|| text(r, utf8, "map")).transpose()?,
            online: has(server::ONLINE)
                .then(|| r.u8("player count"))
                .transpose()?,
            max: has(server::MAX).then(|| r.u8("max players")).transpose()?,
        })
    }
}

/// Parses the player section (spec/ugp.md#6.2). Memory is not reserved by the count: the list grows
/// as its bytes are read.
fn players<'a>(
    r: &mut Reader<'a, '_>,
    utf8: Utf8<'a>,
    online: Option<u8>,
) -> Result<Vec<Player>, Error> {
    let at = r.at();
    let count = r.u8("number of players")?;
    if online.is_some_and(|online| online != count) {
        r.notes().deviation(&ODD_PLAYER_COUNT, at);
    }
    let (fields, extra) = if count > 0 {
        player_flags(r, known_flags)?
    } else {
        (0, 0)
    };
    // Players without a field take no bytes, so only the count would limit them.
    let count = if fields & !player::EXTRA | extra == 0 {
        0
    } else {
        usize::from(count)
    };
    // Reserve little: the count is unverified until the entries are read.
    let mut players = Vec::with_capacity(count.min(16));
    for index in 0..count {
        r.notes().group("player", index);
        players.push(player(r, utf8, fields, extra)?);
    }
    r.notes().ungroup();
    Ok(players)
}

fn player<'a>(
    r: &mut Reader<'a, '_>,
    utf8: Utf8<'a>,
    fields: u8,
    extra: u8,
) -> Result<Player, Error> {
    let room =
        ((fields & !(player::NAME | player::EXTRA)).count_ones() + extra.count_ones()) as usize;
    let mut player = Player {
        extra: Vec::with_capacity(room),
        ..Player::default()
    };
    let mut say = |key, value: Value| player.extra.push(Extra::new(key, value));
    if fields & player::ID != 0 {
        say("id", i64::from(r.u8("id")?).into());
    }
    if fields & player::NAME != 0 {
        player.name = text(r, utf8, "name")?.text();
    }
    if fields & player::TEAM != 0 {
        say("team", i64::from(r.u8("team")?).into());
    }
    if fields & player::SCORE != 0 {
        say("score", i64::from(r.i32_le("score")?).into());
    }
    if fields & player::KILLS != 0 {
        say("kills", i64::from(r.i32_le("kills")?).into());
    }
    if fields & player::DEATHS != 0 {
        say("deaths", i64::from(r.i32_le("deaths")?).into());
    }
    if extra & player_extra::PING != 0 {
        say("ping", i64::from(r.u16_le("ping")?).into());
    }
    if extra & player_extra::JOINED != 0 {
        // A value above `i64::MAX` is invalid in any unit.
        if let Ok(joined) = i64::try_from(r.u64_le("time joined")?) {
            say("joined", joined.into());
        }
    }
    if extra & player_extra::POSITION != 0 {
        let position = [
            r.f32_le("position x")?,
            r.f32_le("position y")?,
            r.f32_le("position z")?,
        ];
        // JSON cannot represent numbers that are not finite.
        if position.iter().all(|axis| axis.is_finite()) {
            say("position", Value::Point(position.map(f64::from)));
        }
    }
    if extra & player_extra::HEALTH != 0 {
        say("health", i64::from(r.u8("health")?).into());
    }
    if extra & player_extra::ARMOUR != 0 {
        say("armour", i64::from(r.u8("armour")?).into());
    }
    if extra & player_extra::SKIN != 0 {
        say("skin", i64::from(r.u8("skin")?).into());
    }
    Ok(player)
}

/// spec/ugp.md#9.3
fn teams<'a>(r: &mut Reader<'a, '_>, utf8: Utf8<'a>) -> Result<Vec<Team<'a>>, Error> {
    let count = r.u8("number of teams")?;
    let fields = if count > 0 {
        known_flags(r, "team flags", team::NAMES)?
    } else {
        0
    };
    let count = if fields == 0 { 0 } else { usize::from(count) };
    let has = |bit| fields & bit != 0;
    let mut teams = Vec::new();
    for index in 0..count {
        r.notes().group("team", index);
        teams.push(Team {
            name: has(team::NAME).then(|| text(r, utf8, "name")).transpose()?,
            score: has(team::SCORE).then(|| r.i32_le("score")).transpose()?,
            players: has(team::PLAYERS)
                .then(|| r.u8("player count"))
                .transpose()?,
            color: has(team::COLOR).then(|| r.u32_le("color")).transpose()?,
        });
    }
    r.notes().ungroup();
    Ok(teams)
}

/// spec/ugp.md#6.4
fn rules<'a>(r: &mut Reader<'a, '_>, utf8: Utf8<'a>) -> Result<Vec<Rule>, Error> {
    let count = usize::from(r.u8("number of rules")?);
    let mut rules = Vec::new();
    for index in 0..count {
        r.notes().group("rule", index);
        rules.push(Rule {
            key: text(r, utf8, "key")?.plain(),
            value: text(r, utf8, "value")?.plain(),
        });
    }
    r.notes().ungroup();
    Ok(rules)
}

type Flags =
    fn(&mut Reader<'_, '_>, &'static str, &'static [(u8, &'static str)]) -> Result<u8, Error>;

/// Reads the player flags, and the extra flags if the player flags include them.
fn player_flags(r: &mut Reader<'_, '_>, flags: Flags) -> Result<(u8, u8), Error> {
    let fields = flags(r, "player flags", player::NAMES)?;
    let extra = match fields & player::EXTRA {
        0 => 0,
        _ => flags(r, "extra player flags", player_extra::NAMES)?,
    };
    Ok((fields, extra))
}

fn flags(
    r: &mut Reader<'_, '_>,
    field: &'static str,
    names: &'static [(u8, &'static str)],
) -> Result<u8, Error> {
    let at = r.at();
    let [flags] = r.array(field)?;
    r.note(at, field, || table::describe(flags, names));
    Ok(flags)
}

/// Parses the flags of a reply. Unknown flags add no bytes that could be skipped.
fn known_flags(
    r: &mut Reader<'_, '_>,
    field: &'static str,
    names: &'static [(u8, &'static str)],
) -> Result<u8, Error> {
    let at = r.at();
    let given = flags(r, field, names)?;
    let known = names.iter().fold(0, |known, (bit, _)| known | bit);
    if given & !known != 0 {
        r.notes().deviation(&UNKNOWN_FLAGS, at);
    }
    Ok(given & known)
}

/// Reads a string: its length with the NUL, the text, the NUL (spec/ugp.md#2).
fn text<'a>(
    r: &mut Reader<'a, '_>,
    utf8: Utf8<'a>,
    field: &'static str,
) -> Result<WireText<'a>, Error> {
    let at = r.at();
    let [length] = r.array(field)?;
    let bytes = r.take(usize::from(length), field)?;
    let text = match bytes.split_last() {
        // The case of nearly all strings.
        Some((0, text)) if text.last() != Some(&0) => utf8.find(text),
        _ => None,
    };
    let text_of = text.map_or_else(
        || WireText::odd(bytes, at, utf8, r.notes()),
        |text| WireText(Cow::Borrowed(text)),
    );
    r.note(at, field, || format!("{:?}", text_of.0));
    Ok(text_of)
}

fn write_header(kind: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION);
    out.push(kind);
}

/// Appends a ping reply.
pub fn write_ping_reply(out: &mut Vec<u8>) {
    write_header(PING_REPLY, out);
}

/// Appends the header of a query reply, before its sections.
pub fn write_reply_header(game: u8, sections: u8, out: &mut Vec<u8>) {
    write_header(QUERY_REPLY, out);
    out.extend([game, sections]);
}

/// Appends a string of at most 254 bytes, cut between characters.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    let text = cut(text, TEXT_MAX);
    out.push(text.len() as u8 + 1);
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let kind = bytes.get(PING_LENGTH - 1).copied();
    // Without a direction, a reply of unmarked type is recognized only if it is too long for a
    // request.
    let answer = kind.is_some_and(|kind| kind >= PING_REPLY) || bytes.len() > QUERY_MAX;
    let direction = direction.unwrap_or(if answer {
        Direction::Reply
    } else {
        Direction::Request
    });
    let error = match direction {
        Direction::Request => Request::read(bytes, notes).err(),
        Direction::Reply => Reply::read(bytes, notes).err(),
    };
    let message = match (direction, kind) {
        (Direction::Request, Some(PING)) => "ping request",
        (Direction::Request, Some(QUERY)) => "query request",
        (Direction::Request, _) => "request",
        (Direction::Reply, Some(PING | PING_REPLY)) => "ping reply",
        (Direction::Reply, Some(QUERY | QUERY_REPLY)) => "query reply",
        (Direction::Reply, _) => "reply",
    };
    Some(Explanation::certain(message, direction, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const HEADER: &[u8] = b"\xFF\xFFUGP\x00\x01\x81\x01";
    /// Returns the flags of one section with all fields, except the extra server flags.
    const SERVER: &[u8] = b"\x7D\x05Game\0\x05Name\0\x05Mode\0\x04Map\0\x02\x20";
    /// Two players with all fields.
    const PLAYERS: &[u8] = b"\x02\x7F\x3F\
        \x09\x03Al\0\x07\x01\0\0\0\xFE\xFF\xFF\xFF\x03\x01\0\0\
        \x4F\x01\0\0\0\0\0\0\0\x80\0\0\x80\x3F\0\0\0\xC0\0\0\x20\x41\x62\x63\x15\
        \xFF\x01\0\xFF\0\0\0\x80\0\0\0\0\0\0\0\0\
        \xFF\xFF\x05\0\0\0\0\0\0\0\0\0\xC0\x7F\0\0\0\0\0\0\0\0\0\0\0";

    fn read(bytes: &[u8]) -> (Result<Reply<'_>, Error>, Vec<&'static str>) {
        let mut notes = Notes::explaining();
        let answer = Reply::read(bytes, &mut notes);
        (answer, notes.met().map(|met| met.name).collect())
    }

    /// The bytes are leaked because an answer borrows from them.
    fn given(bytes: &[u8]) -> (QueryReply<'static>, Vec<&'static str>) {
        match read(bytes.to_vec().leak()) {
            (Ok(Reply::Query(given)), met) => (given, met),
            other => panic!("{other:?}"),
        }
    }

    fn query(sections: u8, body: &[u8]) -> Vec<u8> {
        [HEADER, &[sections], body].concat()
    }

    fn unformatted(text: &str) -> Text {
        Text::unformatted(text)
    }

    fn text_of(text: &str) -> WireText<'_> {
        WireText(text.into())
    }

    #[test]
    fn worked_requests_both_ways() {
        let server = Some(0x6C);
        let list = Some(ListFlags::Players {
            fields: 0x7F,
            extra: 0x3D,
        });
        let cases: [(Request, &[u8]); 6] = [
            (Request::Ping, b"\xFF\xFFUGP\0\x01\0"),
            (
                Request::Query(QueryFlags::default()),
                b"\xFF\xFFUGP\0\x01\x01\0",
            ),
            (
                Request::Query(QueryFlags {
                    server,
                    rules: Some(7),
                    ..QueryFlags::default()
                }),
                b"\xFF\xFFUGP\0\x01\x01\x09\x6C\x07",
            ),
            (
                Request::Query(QueryFlags {
                    server,
                    list,
                    ..QueryFlags::default()
                }),
                b"\xFF\xFFUGP\0\x01\x01\x03\x6C\x7F\x3D",
            ),
            (
                Request::Query(QueryFlags {
                    list: Some(ListFlags::Players {
                        fields: 3,
                        extra: 0,
                    }),
                    ..QueryFlags::default()
                }),
                b"\xFF\xFFUGP\0\x01\x01\x02\x03",
            ),
            (
                Request::Query(QueryFlags {
                    list: Some(ListFlags::Teams { fields: 0x0F }),
                    rules: Some(7),
                    server,
                }),
                b"\xFF\xFFUGP\0\x01\x01\x0D\x6C\x0F\x07",
            ),
        ];
        for (request, bytes) in cases {
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(out, bytes);
            assert_eq!(Request::read(bytes, &mut Notes::default()), Ok(request));
            for length in 0..bytes.len() {
                let cut = Request::read(&bytes[..length], &mut Notes::default());
                assert!(cut.is_err(), "{bytes:02x?} cut to {length}: {cut:?}");
            }
        }
    }

    #[test]
    fn every_request_flag() {
        for sections in 0..=u8::MAX {
            for fields in 0..=u8::MAX {
                let bytes = [
                    HEADER[..7].to_vec(),
                    [1, sections].into(),
                    [fields; 5].into(),
                ]
                .concat();
                let request = Request::read(&bytes, &mut Notes::default()).unwrap();
                let Request::Query(requested) = request else {
                    panic!()
                };
                let both = section::PLAYERS | section::TEAMS;
                let known = sections
                    & if sections & both == both {
                        0x0F & !section::TEAMS
                    } else {
                        0x0F
                    };
                assert_eq!(
                    requested.sections(),
                    known,
                    "of players and teams the players are kept"
                );
                let mut written = Vec::new();
                request.write(&mut written);
                assert_eq!(Request::read(&written, &mut Notes::default()), Ok(request));
                assert!((PING_LENGTH + 1..=QUERY_MAX).contains(&written.len()));
            }
        }
    }

    #[test]
    fn an_answer_is_no_request() {
        for kind in (0..=u8::MAX).filter(|kind| !matches!(kind, 0 | 1)) {
            let bytes = [&HEADER[..7], &[kind, 1, 0x6C]].concat();
            let error = Request::read(&bytes, &mut Notes::default()).unwrap_err();
            assert_eq!(
                error.to_string(),
                "type at offset 7: expected 0 (ping) or 1 (query)"
            );
        }
    }

    #[test]
    fn worked_answers() {
        let rules = query(9, b"\x6C\x05Test\0\x03DM\0\x02\x20\x01\x06Owner\0\x03Me\0");
        assert_eq!(rules.len(), 35);
        let (answer, met) = given(&rules);
        let server = Server {
            name: Some(text_of("Test")),
            mode: Some(text_of("DM")),
            online: Some(2),
            max: Some(32),
            ..Server::default()
        };
        assert_eq!((answer.game, answer.sections, met.len()), (1, 9, 0));
        assert_eq!(answer.server.as_ref(), Some(&server));
        assert_eq!(
            answer.rules,
            Some(
                [Rule {
                    key: "Owner".into(),
                    value: "Me".into()
                }]
                .into()
            )
        );
        assert_eq!(answer.players, None);

        // The request had 7F: the flags of the reply count.
        let players = query(
            3,
            b"\x6C\x05Test\0\x03DM\0\x02\x20\x02\x03\0\x03Al\0\x01\x03Bo\0",
        );
        assert_eq!(players.len(), 35);
        let (answer, met) = given(&players);
        let player = |id: i64, name| Player {
            name: unformatted(name),
            extra: [Extra::new("id", id)].into(),
            ..Player::default()
        };
        assert_eq!(
            answer.players,
            Some([player(0, "Al"), player(1, "Bo")].into())
        );
        assert_eq!((answer.server, met.len()), (Some(server), 0));
        assert_eq!(read(b"\xFF\xFFUGP\0\x01\x80"), (Ok(Reply::Ping), [].into()));
    }

    #[test]
    fn every_field_of_a_player() {
        let (answer, met) = given(&query(2, PLAYERS));
        assert!(met.is_empty(), "{met:?}");
        let players = answer.players.unwrap();
        let shown = |player: &Player| {
            let fields = player
                .extra
                .iter()
                .map(|extra| format!("{} {}", extra.key, extra.value));
            fields.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(players[0].name, unformatted("Al"));
        assert_eq!(
            shown(&players[0]),
            "id 9; team 7; score 1; kills -2; deaths 259; ping 335; position 1, -2, 10; health 98; armour 99; skin 21"
        );
        assert_eq!(players[1].name, unformatted(""));
        assert_eq!(
            shown(&players[1]),
            "id 255; team 255; score -2147483648; kills 0; deaths 0; ping 65535; joined 5; health 0; armour 0; skin 0",
            "a position that is not a number is left out"
        );
    }

    #[test]
    fn every_player_flag_has_its_width() {
        let width = |flags: u8, widths: [usize; 6]| -> usize {
            (0..6)
                .filter(|bit| flags >> bit & 1 != 0)
                .map(|bit| widths[bit])
                .sum()
        };
        for fields in 0..=0x7F_u8 {
            for extra in 0..=0x3F_u8 {
                let more = fields & player::EXTRA != 0;
                let mut length = width(fields, [1, 2, 1, 4, 4, 4]);
                length += if more {
                    width(extra, [2, 8, 12, 1, 1, 1])
                } else {
                    0
                };
                let head = if more {
                    [1, fields, extra].to_vec()
                } else {
                    [1, fields].to_vec()
                };
                // With ones, every string has length 1; the NUL is missing, but the lengths are
                // valid.
                let body = [head, alloc::vec![1; length]].concat();
                let (answer, met) = given(&query(2, &body));
                assert!(!met.contains(&"trailing-bytes"), "{fields:02x} {extra:02x}");
                assert_eq!(answer.players.unwrap().len(), usize::from(length > 0));
                assert!(length == 0 || read(&query(2, &body[..body.len() - 1])).0.is_err());
            }
        }
    }

    #[test]
    fn every_server_flag() {
        let pieces: [(u8, &[u8]); 7] = [
            (server::GAME, b"\x02G\0"),
            (server::EXTRA, b"\x07\x02V\0\x02O\0"),
            (server::NAME, b"\x02N\0"),
            (server::MODE, b"\x02D\0"),
            (server::MAP, b"\x02M\0"),
            (server::ONLINE, b"\x03"),
            (server::MAX, b"\x09"),
        ];
        for fields in 0..=0x7F {
            let present = |flag: u8| fields & flag != 0;
            let parts = pieces
                .iter()
                .filter(|(flag, _)| present(*flag))
                .map(|(_, bytes)| *bytes);
            let body = [&[fields], &*parts.collect::<Vec<_>>().concat()].concat();
            let (answer, met) = given(&query(1, &body));
            assert!(met.is_empty(), "{fields:02x}: {met:?}");
            let text = |flag, text| present(flag).then(|| text_of(text));
            let expected = Server {
                game: text(server::GAME, "G"),
                has_password: present(server::EXTRA).then_some(true),
                version: text(server::EXTRA, "V"),
                os: text(server::EXTRA, "O"),
                name: text(server::NAME, "N"),
                mode: text(server::MODE, "D"),
                map: text(server::MAP, "M"),
                online: present(server::ONLINE).then_some(3),
                max: present(server::MAX).then_some(9),
            };
            assert_eq!(answer.server, Some(expected), "{fields:02x}");
        }
        let (answer, _) = given(&query(1, b"\x06\x00\x02N\0"));
        let server = answer.server.unwrap();
        assert_eq!(
            (server.has_password, server.version, server.os),
            (Some(false), None, None)
        );
    }

    #[test]
    fn sections_in_the_order_of_their_flags() {
        let teams = b"\x01\x0F\x04Red\0\x05\0\0\0\x02\xFF\0\0\x80";
        let rules = b"\x01\x02k\0\x02v\0";
        let (answer, met) = given(&query(
            0x0F,
            &[SERVER, b"\x02\x01\x04\x05", teams, rules].concat(),
        ));
        assert!(met.is_empty(), "{met:?}");
        assert_eq!(answer.server.unwrap().map, Some(text_of("Map")));
        assert_eq!(answer.players.unwrap().len(), 2);
        let team = Team {
            name: Some(text_of("Red")),
            score: Some(5),
            players: Some(2),
            color: Some(0x8000_00FF),
        };
        assert_eq!(answer.teams, Some([team].into()));
        assert_eq!(
            answer.rules,
            Some(
                [Rule {
                    key: "k".into(),
                    value: "v".into()
                }]
                .into()
            )
        );
        assert_eq!(
            given(&query(0, b"")).0,
            QueryReply {
                game: 1,
                ..QueryReply::default()
            }
        );
    }

    #[test]
    fn every_deviation_is_accepted_by_name() {
        let ping = |version: u8, kind: u8| [&HEADER[..6], &[version, kind]].concat();
        let cases: [(Vec<u8>, &[&str]); 15] = [
            (ping(2, 0x80), &["odd-version"]),
            (ping(1, 0), &["unmarked-type"]),
            (ping(0, 0), &["odd-version", "unmarked-type"]),
            ([&ping(1, 0x80), &b"x"[..]].concat(), &["trailing-bytes"]),
            (
                [&HEADER[..7], b"\x01\x05\x01\x20\x07"].concat(),
                &["unmarked-type"],
            ),
            (query(0x80, b""), &["unknown-flags"]),
            (query(1, b"\x80"), &["unknown-flags"]),
            (query(2, b"\x01\x81\x05"), &["unknown-flags"]),
            (query(1, b"\x04\0"), &["zero-length-string"]),
            (query(1, b"\x04\x02ab"), &["unclosed-string"]),
            (
                query(1, b"\x04\x23abcdefghijklmnopqrstuvwxyz1234567\xC3\0"),
                &["cut-text"],
            ),
            (query(1, b"\x04\x04\xE9ab\0"), &["latin-1-text"]),
            (query(3, b"\x20\x03\x01\x01\x05"), &["odd-player-count"]),
            (query(3, b"\x20\x03\0"), &["odd-player-count"]),
            (query(1, b"\x04\x04ab\0\0"), &[]),
        ];
        for (bytes, expected) in &cases {
            let (answer, met) = read(bytes);
            assert!(answer.is_ok(), "{bytes:02x?}: {answer:?}");
            assert_eq!(met, *expected, "{bytes:02x?}");
        }
        for deviation in ALL {
            assert!(
                cases.iter().any(|(_, met)| met.contains(&deviation.name)),
                "{}",
                deviation.name
            );
        }
        let name = |bytes| {
            given(&query(1, bytes))
                .0
                .server
                .unwrap()
                .name
                .unwrap()
                .text()
        };
        assert_eq!(name(b"\x04\x04\xE9ab\0").raw(), "\u{E9}ab");
        assert_eq!(&*name(b"\x04\x04\xE9ab\0").bytes(), b"\xE9ab");
        assert_eq!(name(b"\x04\x02ab").raw(), "ab");
        assert_eq!(name(b"\x04\x05ab\0\0\0").raw(), "ab");
    }

    #[test]
    fn cut_anywhere_is_an_error_with_its_place() {
        let answers = [
            query(
                0x0B,
                &[SERVER, PLAYERS, b"\x02\x02k\0\x02v\0\x02l\0\x01\0"].concat(),
            ),
            query(
                0x04,
                b"\x02\x0F\x04Red\0\x05\0\0\0\x02\xFF\0\0\x80\x01\0\0\0\0\0\0\0\0\0\0",
            ),
            query(0x01, b"\x02\x07\x02V\0\x02O\0"),
        ];
        for bytes in answers {
            assert!(read(&bytes).0.is_ok());
            for length in 0..bytes.len() {
                let error = read(&bytes[..length]).0.unwrap_err();
                assert!(error.at <= length, "{error} in {length} bytes");
            }
        }
    }

    #[test]
    fn hostile_counts() {
        let error = |sections, body: &[u8]| read(&query(sections, body)).0.unwrap_err().to_string();
        assert_eq!(
            error(2, b"\xFF\x03\x01\x02A\0"),
            "id at offset 16: ends 1 byte too early"
        );
        assert_eq!(
            error(2, b"\xFF"),
            "player flags at offset 11: ends 1 byte too early"
        );
        assert_eq!(
            error(4, b"\xFF\x0F"),
            "name at offset 12: ends 1 byte too early"
        );
        assert_eq!(
            error(8, b"\xFF\x01\0\x01\0"),
            "key at offset 15: ends 1 byte too early"
        );
        assert_eq!(
            error(1, b"\x04\xFFab\0"),
            "server name at offset 12: ends 252 bytes too early"
        );
        // Entries without fields take no bytes, so none are listed.
        assert_eq!(given(&query(2, b"\xFF\0")).0.players, Some(Vec::new()));
        assert_eq!(given(&query(2, b"\xFF\x40\0")).0.players, Some(Vec::new()));
        assert_eq!(given(&query(4, b"\xFF\0")).0.teams, Some(Vec::new()));
    }

    #[test]
    fn any_bytes_are_read_without_panic() {
        let mut state = 1_u32;
        for _ in 0..20_000 {
            let mut bytes = query(0x0F, SERVER);
            for _ in 0..64 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bytes.push((state >> 24) as u8);
                let place = state as usize >> 8 & 0x1F;
                if place >= 9 {
                    bytes[place] = (state >> 16) as u8;
                }
            }
            let _ = read(&bytes);
            let _ = explain(&bytes, None, &mut Notes::explaining());
        }
    }

    #[test]
    fn explaining_both_ways() {
        let explained = |bytes: &[u8], direction| {
            let mut notes = Notes::explaining();
            let explanation = explain(bytes, direction, &mut notes)?;
            Some((
                explanation.message,
                explanation.direction,
                explanation.error.map(|error| error.to_string()),
            ))
        };
        let rules = query(8, b"\x01\x02k\0\x02v\0");
        let unmarked = [&HEADER[..7], b"\x01", &rules[8..]].concat();
        assert_eq!(
            explained(&rules, None),
            Some(("query reply", Direction::Reply, None))
        );
        assert_eq!(
            explained(&unmarked, None),
            Some(("query reply", Direction::Reply, None)),
            "too long for a request"
        );
        assert_eq!(
            explained(b"\xFF\xFFUGP\0\x01\0", None),
            Some(("ping request", Direction::Request, None))
        );
        assert_eq!(
            explained(b"\xFF\xFFUGP\0\x01\0", Some(Direction::Reply)),
            Some(("ping reply", Direction::Reply, None))
        );
        assert_eq!(
            explained(b"\xFF\xFFUGP\0\x01\x01\x01\x7D", None),
            Some(("query request", Direction::Request, None))
        );
        assert_eq!(
            explained(&rules, Some(Direction::Request)),
            Some((
                "request",
                Direction::Request,
                Some("type at offset 7: expected 0 (ping) or 1 (query)".into())
            ))
        );
        assert_eq!(
            explained(b"\xFF\xFFUGP\0\x01", None),
            Some((
                "request",
                Direction::Request,
                Some("type at offset 7: ends 1 byte too early".into())
            ))
        );
        assert_eq!(explained(b"\xFF\xFF\xFF\xFFTSource", None), None);

        let mut notes = Notes::explaining();
        explain(&rules, None, &mut notes);
        let fields: Vec<_> = notes
            .fields()
            .iter()
            .map(|field| format!("{}: {}", field.name, field.value))
            .collect();
        assert_eq!(
            fields,
            [
                "magic: ff ff 55 47 50",
                "version: 00 01",
                "type: 81",
                "game id: 1 (gta:iii)",
                "request flags: 08: rules",
                "number of rules: 1",
                "rule[0].key: \"k\"",
                "rule[0].value: \"v\"",
            ]
        );
        let covered: usize = notes.fields().iter().map(|field| field.range.len()).sum();
        assert_eq!(covered, rules.len());
    }
}
