//! Bytes ⇄ messages of version 2. The only file that knows their offsets (spec/onequery.md#1 to
//! #3).
//!
//! Limits: a reply has at most 1,400 bytes and an auth token at most [`MAX_AUTH_TOKEN`].

use super::deviation::*;
use crate::model::uuid_text;
use crate::protocol::{DatagramContext, Direction, Explanation};
use crate::wire::{Error, Notes, Reader, Writer, by_content, counted};
use alloc::format;
use alloc::vec::Vec;
use core::fmt;

/// First eight bytes of a request.
pub const REQUEST_MAGIC: &[u8; 8] = b"ONEQUERY";
/// First eight bytes of a reply.
pub const REPLY_MAGIC: &[u8; 8] = b"ONEREPLY";
/// HyQuery's second request magic, for the same messages.
pub(super) const HYQUERY_REQUEST_MAGIC: &[u8; 8] = b"HYQUERY2";
/// HyQuery's second reply magic, for the same messages.
pub(super) const HYQUERY_REPLY_MAGIC: &[u8; 8] = b"HYREPLY2";

/// Length of every magic.
pub(super) const MAGIC: usize = 8;
/// Length of Hailer's challenge requests; longer ones are accepted too.
pub const CHALLENGE_REQUEST: usize = 9;
/// Length of every challenge reply.
pub const CHALLENGE_REPLY: usize = 48;
/// Length of a query with all fields except the auth token.
pub const QUERY: usize = 51;
/// Longest auth token: keeps a request as short as the longest reply, so that it fits the buffers
/// of servers.
pub const MAX_AUTH_TOKEN: usize = MAX_REPLY - QUERY - 2;
/// Counts of players above this are implausible.
pub const MAX_PLAUSIBLE_PLAYERS: i32 = 1_000_000;
/// Longest reply that the protocol allows.
pub const MAX_REPLY: usize = 1_400;
/// Magic, version, flags, request id, payload length.
pub(super) const REPLY_HEADER: usize = 17;
/// Type and length.
pub(super) const TLV_HEADER: usize = 4;
/// Total, count, offset.
pub(super) const PAGE_HEADER: usize = 12;
/// An entry of a page whose name is empty.
pub(super) const ENTRY: usize = 18;

const TYPE_CHALLENGE: u8 = 0;
const TYPE_BASIC: u8 = 1;
const TYPE_PLAYERS: u8 = 2;
const VERSION_CHALLENGE: u8 = 0;
const VERSION_REPLY: u8 = 1;
const TLV_SERVER_INFO: u16 = 1;
const TLV_PLAYERS: u16 = 2;
/// The only flag of a request.
const AUTH_TOKEN_FOLLOWS: u16 = 0x0001;

/// Flags of a reply. Unknown bits are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// More players follow this page.
    pub const MORE: Self = Self(0x0001);
    /// The endpoint requires an auth token.
    pub const REFUSED: Self = Self(0x0002);
    /// Counts and players cover a whole network of servers.
    pub const NETWORK: Self = Self(0x0010);
    /// The server info ends with host and port.
    pub const ADDRESS: Self = Self(0x0020);

    const NAMES: [(Self, &str); 4] = [
        (Self::MORE, "more"),
        (Self::REFUSED, "refused"),
        (Self::NETWORK, "network"),
        (Self::ADDRESS, "address"),
    ];

    /// Returns whether all of these flags are set.
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns these flags, with `flags` added if `wished`.
    #[must_use]
    pub fn with(self, flags: Self, wished: bool) -> Self {
        if wished { Self(self.0 | flags.0) } else { self }
    }
}

/// Proof that the client receives datagrams sent to its address. Opaque to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub [u8; 32]);

/// The part of the status that a query requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Name, MOTD, counts, version.
    Basic,
    /// A page of players.
    Players,
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Requests a challenge token.
    Challenge,
    /// Requests a part of the status, with a challenge token.
    Query(Query<'a>),
}

/// Query of one endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// The part of the status that was requested.
    pub endpoint: Endpoint,
    /// Challenge token from the challenge reply.
    pub token: Token,
    /// Request id to be echoed.
    pub id: u32,
    /// Index of the first player of the requested page.
    pub offset: i32,
    /// Auth token for endpoints that are not public.
    pub auth_token: Option<&'a [u8]>,
}

impl fmt::Debug for Query<'_> {
    /// Returns the query without its auth token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            endpoint,
            id,
            offset,
            ..
        } = self;
        write!(f, "Query({endpoint:?}, id {id}, offset {offset})")
    }
}

impl<'a> Request<'a> {
    /// Reads a request like the reference: a query may end anywhere after its token
    /// (spec/onequery.md#5).
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        magic(&mut r, [REQUEST_MAGIC, HYQUERY_REQUEST_MAGIC])?;
        let endpoint = match r.u8("type")? {
            TYPE_CHALLENGE => {
                r.trailing(&TRAILING_BYTES);
                return Ok(Self::Challenge);
            }
            TYPE_BASIC => Endpoint::Basic,
            TYPE_PLAYERS => Endpoint::Players,
            _ => {
                r.notes().deviation(&UNKNOWN_TYPE, 8);
                Endpoint::Basic
            }
        };
        let token = token(&mut r)?;
        let mut query = Query {
            endpoint,
            token,
            id: 0,
            offset: 0,
            auth_token: None,
        };
        if r.remaining() >= 4 {
            query.id = r.u32_le("request id")?;
        }
        if bytes.len() >= QUERY {
            let flags = flags(&mut r, &[(AUTH_TOKEN_FOLLOWS, "auth token")])?;
            query.offset = r.i32_le("offset")?;
            if query.offset < 0 {
                r.notes().deviation(&NEGATIVE_OFFSET, QUERY - 4);
            }
            if flags & AUTH_TOKEN_FOLLOWS != 0 {
                query.auth_token = auth_token(&mut r)?;
            }
        } else {
            r.notes().deviation(&SHORT_REQUEST, bytes.len());
        }
        r.trailing(&TRAILING_BYTES);
        Ok(Self::Query(query))
    }

    /// Appends the request with all its fields. An auth token that exceeds the limit is left out.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer(out);
        w.bytes(REQUEST_MAGIC);
        let query = match self {
            Self::Query(query) => query,
            Self::Challenge => {
                w.u8(TYPE_CHALLENGE);
                return;
            }
        };
        w.u8(match query.endpoint {
            Endpoint::Basic => TYPE_BASIC,
            Endpoint::Players => TYPE_PLAYERS,
        });
        w.bytes(&query.token.0).u32_le(query.id);
        match query
            .auth_token
            .filter(|token| (1..=MAX_AUTH_TOKEN).contains(&token.len()))
        {
            None => w.u16_le(0).i32_le(query.offset),
            Some(token) => w
                .u16_le(AUTH_TOKEN_FOLLOWS)
                .i32_le(query.offset)
                .u16_le(token.len() as u16)
                .bytes(token),
        };
    }
}

/// Reads an auth token. A truncated or empty one counts as absent, not as an error, because the
/// query may not need it. Explanations do not show it.
fn auth_token<'a>(r: &mut Reader<'a, '_>) -> Result<Option<&'a [u8]>, Error> {
    let at = r.at();
    let token = match r.rest() {
        [low, high, rest @ ..] => rest.get(..usize::from(u16::from_le_bytes([*low, *high]))),
        _ => None,
    };
    let token = token.filter(|token| !token.is_empty());
    let length = token.map_or(r.remaining(), |token| 2 + token.len());
    r.take(length, "auth token")?;
    r.note(at, "auth token", || counted(length, "byte") + ", not shown");
    r.notes().secret();
    if token.is_none() {
        r.notes().deviation(&BROKEN_AUTH_TOKEN, at);
    }
    Ok(token)
}

/// Returns whether these bytes are a challenge reply.
pub fn is_challenge(bytes: &[u8]) -> bool {
    is_reply(bytes) && bytes.get(8) == Some(&VERSION_CHALLENGE)
}

/// Returns the request id of a reply to a query, of any version.
pub fn reply_id(bytes: &[u8]) -> Option<u32> {
    let id = bytes
        .get(11..15)
        .filter(|_| is_reply(bytes) && !is_challenge(bytes))?;
    id.try_into().ok().map(u32::from_le_bytes)
}

fn is_reply(bytes: &[u8]) -> bool {
    bytes.starts_with(REPLY_MAGIC) || bytes.starts_with(HYQUERY_REPLY_MAGIC)
}

/// Reads a challenge reply.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_challenge(bytes: &[u8], notes: &mut Notes) -> Result<Token, Error> {
    let mut r = Reader::new(bytes, notes);
    magic(&mut r, [REPLY_MAGIC, HYQUERY_REPLY_MAGIC])?;
    if r.u8("version")? != VERSION_CHALLENGE {
        return Err(Error::bad("version", 8, "0 (challenge)"));
    }
    let token = token(&mut r)?;
    let at = r.at();
    let reserved = r.raw(r.remaining().min(CHALLENGE_REPLY - at), "reserved")?;
    if bytes.len() < CHALLENGE_REPLY {
        r.notes().deviation(&SHORT_CHALLENGE, bytes.len());
    }
    if reserved.iter().any(|&byte| byte != 0) {
        r.notes().deviation(&RESERVED_NOT_ZERO, at);
    }
    r.trailing(&TRAILING_BYTES);
    Ok(token)
}

/// Appends a challenge reply.
pub fn write_challenge(token: Token, out: &mut Vec<u8>) {
    Writer(out)
        .bytes(REPLY_MAGIC)
        .u8(VERSION_CHALLENGE)
        .bytes(&token.0)
        .bytes(&[0; 7]);
}

/// The reply to a query, borrowed from its datagram. Texts are bytes without their length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Flags of the reply.
    pub flags: Flags,
    /// Echo of the request id.
    pub id: u32,
    /// The reply to a basic query. Some servers also send it with a refusal.
    pub info: Option<ServerInfo<'a>>,
    /// The reply to a players query.
    pub page: Option<Page<'a>>,
}

/// Server info: all fields but the players.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo<'a> {
    /// The server's name.
    pub name: &'a [u8],
    /// Message of the day.
    pub motd: &'a [u8],
    /// Number of players online.
    pub online: i32,
    /// Maximum number of players.
    pub max: i32,
    /// Version of the game.
    pub version: &'a [u8],
    /// Number of the game's own protocol.
    pub protocol_version: i32,
    /// Checksum of the game's own protocol.
    pub protocol_hash: &'a [u8],
    /// Host and port, only with [`Flags::ADDRESS`].
    pub address: Option<(&'a [u8], u16)>,
}

impl ServerInfo<'_> {
    /// Returns whether both counts are 0, as in the server info that the protocol allows in a
    /// refusal. A real server has room for at least one player.
    pub fn is_minimal(&self) -> bool {
        self.online == 0 && self.max == 0
    }
}

/// A page of the list of players.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page<'a> {
    /// Players in the whole list.
    pub total: u32,
    /// Index of the first player of this page.
    pub offset: u32,
    /// Names and UUIDs, network byte order.
    pub players: Vec<(&'a [u8], [u8; 16])>,
}

/// Reads the reply to a query.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_reply<'a>(bytes: &'a [u8], notes: &mut Notes) -> Result<Reply<'a>, Error> {
    let mut r = Reader::new(bytes, notes);
    magic(&mut r, [REPLY_MAGIC, HYQUERY_REPLY_MAGIC])?;
    if r.u8("version")? != VERSION_REPLY {
        return Err(Error::bad("version", 8, "0 (challenge) or 1"));
    }
    let names = Flags::NAMES.map(|(flag, name)| (flag.0, name));
    let flags = Flags(flags(&mut r, &names)?);
    let mut answer = Reply {
        flags,
        id: r.u32_le("request id")?,
        info: None,
        page: None,
    };
    let length = r.u16_le("payload length")?;
    read_payload(&mut within(&mut r, length)?, &mut answer)?;
    r.take(length.into(), "payload")?;
    r.trailing(&TRAILING_BYTES);
    if bytes.len() > MAX_REPLY {
        r.notes().deviation(&OVER_1400, MAX_REPLY);
    }
    let discloses =
        answer.page.is_some() || answer.info.as_ref().is_some_and(|info| !info.is_minimal());
    if flags.has(Flags::REFUSED) && discloses {
        r.notes().deviation(&REFUSED_BUT_DISCLOSED, REPLY_HEADER);
    }
    Ok(answer)
}

/// Parses the parts. The first of several parts of one type counts; unknown types are skipped.
fn read_payload<'a>(r: &mut Reader<'a, '_>, answer: &mut Reply<'a>) -> Result<(), Error> {
    while r.remaining() > 0 {
        let kind = r.u16_le("tlv type")?;
        let length = r.u16_le("tlv length")?;
        // A refusal can have an empty part in place of its content (spec/onequery.md#6.2).
        if length == 0 && answer.flags.has(Flags::REFUSED) {
            continue;
        }
        let mut value = within(r, length)?;
        match kind {
            TLV_SERVER_INFO if answer.info.is_none() => {
                answer.info = Some(read_info(&mut value, answer.flags)?);
                value.trailing(&TRAILING_BYTES);
            }
            TLV_PLAYERS if answer.page.is_none() => {
                answer.page = Some(read_page(&mut value, answer.flags)?);
                value.trailing(&TRAILING_BYTES);
            }
            _ => drop(value.raw(value.remaining(), "tlv value")?),
        }
        r.take(length.into(), "tlv value")?;
    }
    Ok(())
}

/// spec/onequery.md#3.3
fn read_info<'a>(r: &mut Reader<'a, '_>, flags: Flags) -> Result<ServerInfo<'a>, Error> {
    let mut info = ServerInfo {
        name: string(r, "name")?,
        motd: string(r, "motd")?,
        online: count(r, "players")?,
        max: count(r, "max players")?,
        version: string(r, "game version")?,
        protocol_version: r.i32_le("protocol version")?,
        protocol_hash: string(r, "protocol hash")?,
        address: None,
    };
    if flags.has(Flags::ADDRESS) {
        info.address = Some((string(r, "host")?, r.u16_le("port")?));
    }
    Ok(info)
}

/// spec/onequery.md#3.4
fn read_page<'a>(r: &mut Reader<'a, '_>, flags: Flags) -> Result<Page<'a>, Error> {
    let total = natural(r, "total")?;
    let count = natural(r, "count")?;
    let offset = natural(r, "page offset")?;
    // The remaining bytes limit the capacity, because the count may be wrong.
    let mut players = Vec::with_capacity((count as usize).min(r.remaining() / ENTRY));
    for index in 0..count {
        r.notes().group("player", index as usize);
        players.push((string(r, "name")?, uuid(r)?));
    }
    r.notes().ungroup();
    if flags.has(Flags::MORE) && offset.saturating_add(count) >= total {
        r.notes().deviation(&MORE_PAST_TOTAL, 9);
    }
    Ok(Page {
        total,
        offset,
        players,
    })
}

/// Appends everything before the payload of a reply to a query.
pub(super) fn write_reply_header(flags: Flags, id: u32, payload: usize, out: &mut Vec<u8>) {
    let mut w = Writer(out);
    w.bytes(REPLY_MAGIC)
        .u8(VERSION_REPLY)
        .u16_le(flags.0)
        .u32_le(id)
        .u16_le(payload as u16);
}

/// Appends server info as the only part of a payload.
pub(super) fn write_info(info: &ServerInfo<'_>, out: &mut Vec<u8>) {
    let start = out.len() + TLV_HEADER;
    let mut w = Writer(out);
    w.u16_le(TLV_SERVER_INFO).u16_le(0);
    write_string(info.name, &mut w);
    write_string(info.motd, &mut w);
    w.i32_le(info.online).i32_le(info.max);
    write_string(info.version, &mut w);
    w.i32_le(info.protocol_version);
    write_string(info.protocol_hash, &mut w);
    if let Some((host, port)) = info.address {
        write_string(host, &mut w);
        w.u16_le(port);
    }
    let length = (out.len() - start) as u16;
    if let Some(field) = out.get_mut(start - 2..start) {
        field.copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends everything before the entries of a page. `entries` is their length in bytes.
pub(super) fn write_page_header(
    total: usize,
    count: usize,
    offset: usize,
    entries: usize,
    out: &mut Vec<u8>,
) {
    let mut w = Writer(out);
    w.u16_le(TLV_PLAYERS).u16_le((PAGE_HEADER + entries) as u16);
    w.u32_le(total as u32)
        .u32_le(count as u32)
        .u32_le(offset as u32);
}

/// Appends an entry of a page.
pub(super) fn write_entry(name: &[u8], uuid: &[u8; 16], out: &mut Vec<u8>) {
    let mut w = Writer(out);
    write_string(name, &mut w);
    w.bytes(uuid);
}

/// Reads one of two constants; the second is HyQuery's.
fn magic(r: &mut Reader<'_, '_>, [own, hyquery]: [&'static [u8; 8]; 2]) -> Result<(), Error> {
    if r.rest().starts_with(hyquery) {
        r.notes().deviation(&HYQUERY_MAGIC, 0);
        return r.constant(hyquery, "magic");
    }
    r.constant(own, "magic")
}

fn token(r: &mut Reader<'_, '_>) -> Result<Token, Error> {
    let at = r.at();
    r.raw(32, "challenge token")?
        .try_into()
        .map(Token)
        .map_err(|_| Error::bad("challenge token", at, "32 bytes"))
}

fn flags(r: &mut Reader<'_, '_>, names: &[(u16, &str)]) -> Result<u16, Error> {
    let at = r.at();
    let flags = u16::from_le_bytes(r.array("flags")?);
    r.note(at, "flags", || {
        let set = names.iter().filter(|(bit, _)| flags & bit != 0);
        set.fold(format!("{flags:#06x}"), |text, (_, name)| text + " " + name)
    });
    Ok(flags)
}

/// Reads a count of players, unchanged.
fn count(r: &mut Reader<'_, '_>, field: &'static str) -> Result<i32, Error> {
    let at = r.at();
    let count = r.i32_le(field)?;
    if !(0..=MAX_PLAUSIBLE_PLAYERS).contains(&count) {
        r.notes().deviation(&IMPLAUSIBLE_COUNT, at);
    }
    Ok(count)
}

/// Reads a signed number that must not be negative.
pub(super) fn natural(r: &mut Reader<'_, '_>, field: &'static str) -> Result<u32, Error> {
    let at = r.at();
    u32::try_from(r.i32_le(field)?).map_err(|_| Error::bad(field, at, "no number below zero"))
}

/// Reads a text after its length.
pub(super) fn string<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let length = u16::from_le_bytes(r.array(field)?);
    let bytes = r.take(length.into(), field)?;
    let (text, latin1) = by_content(bytes);
    r.note(at, field, || format!("{text:?}"));
    if latin1 {
        r.notes().deviation(&INVALID_UTF8, at + 2);
    }
    Ok(bytes)
}

/// Reads sixteen bytes in network order: no part of a UUID is little-endian.
pub(super) fn uuid(r: &mut Reader<'_, '_>) -> Result<[u8; 16], Error> {
    let at = r.at();
    let uuid = r.array("uuid")?;
    r.note(at, "uuid", || uuid_text(&uuid));
    Ok(uuid)
}

/// Appends a text, which the caller has cut to fit, and its length.
pub(super) fn write_string(text: &[u8], w: &mut Writer<'_>) {
    w.u16_le(text.len() as u16).bytes(text);
}

/// Returns a reader for the next `length` bytes, or for the remaining ones if there are fewer. Its
/// offsets are those of the outer reader.
fn within<'a, 'r>(r: &'r mut Reader<'a, '_>, length: u16) -> Result<Reader<'a, 'r>, Error> {
    let whole = r.whole();
    let at = r.at();
    let mut inner = Reader::new(
        whole.get(..at + usize::from(length)).unwrap_or(whole),
        r.notes(),
    );
    inner.take(at, "part")?;
    Ok(inner)
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let direction = seen.direction();
    let explained =
        |message, direction, error| Some(Explanation::certain(message, direction, error));
    let is_request = bytes.starts_with(REQUEST_MAGIC) || bytes.starts_with(HYQUERY_REQUEST_MAGIC);
    if is_request && direction != Some(Direction::Reply) {
        let error = Request::read(bytes, notes).err();
        return explained(request_name(bytes), Direction::Request, error);
    }
    if is_reply(bytes) && direction != Some(Direction::Request) {
        let error = if is_challenge(bytes) {
            parse_challenge(bytes, notes).err()
        } else {
            explain_reply(bytes, seen.request(), notes).err()
        };
        return explained(reply_name(bytes), Direction::Reply, error);
    }
    None
}

fn explain_reply(bytes: &[u8], request: Option<&[u8]>, notes: &mut Notes) -> Result<(), Error> {
    let answer = parse_reply(bytes, notes)?;
    let request = request.and_then(|request| Request::read(request, &mut Notes::discarding()).ok());
    if let (Some(Request::Query(query)), Some(page)) = (request, answer.page)
        && i64::from(query.offset) != i64::from(page.offset)
        && query.id == answer.id
    {
        notes.deviation(&OFFSET_NOT_ASKED, REPLY_HEADER);
    }
    Ok(())
}

fn request_name(bytes: &[u8]) -> &'static str {
    match bytes.get(8) {
        Some(&TYPE_CHALLENGE) => "challenge request",
        Some(&TYPE_PLAYERS) => "players request",
        Some(_) => "basic request",
        None => "request",
    }
}

fn reply_name(bytes: &[u8]) -> &'static str {
    let u16_at = |at: usize| Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let refused = u16_at(9).is_some_and(|flags| Flags(flags).has(Flags::REFUSED));
    match (bytes.get(8), u16_at(REPLY_HEADER)) {
        (Some(&VERSION_CHALLENGE), _) => "challenge reply",
        (Some(&VERSION_REPLY), _) if refused => "refusal",
        (Some(&VERSION_REPLY), Some(TLV_SERVER_INFO)) => "basic reply",
        (Some(&VERSION_REPLY), Some(TLV_PLAYERS)) => "players reply",
        _ => "reply",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ErrorKind;
    use alloc::string::{String, ToString};
    use alloc::vec;

    const TOKEN: Token = Token([0x5A; 32]);

    fn request(bytes: &[u8]) -> (Result<Request<'_>, Error>, Vec<&'static str>) {
        let mut notes = Notes::default();
        (
            Request::read(bytes, &mut notes),
            notes.met().map(|met| met.name).collect(),
        )
    }

    fn answer(bytes: &[u8]) -> (Result<Reply<'_>, Error>, Vec<&'static str>) {
        let mut notes = Notes::default();
        (
            parse_reply(bytes, &mut notes),
            notes.met().map(|met| met.name).collect(),
        )
    }

    fn fields(bytes: &[u8]) -> Vec<String> {
        let mut notes = Notes::explaining();
        explain(bytes, DatagramContext::Unknown, &mut notes);
        notes
            .fields()
            .iter()
            .map(|field| [&*field.name, &field.value].join("="))
            .collect()
    }

    fn reply(flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut reply = Vec::new();
        write_reply_header(Flags(flags), 0x0403_0201, payload.len(), &mut reply);
        [reply, payload.to_vec()].concat()
    }

    fn info() -> ServerInfo<'static> {
        ServerInfo {
            name: b"Hytale",
            motd: b"Hi",
            online: 2,
            max: 50,
            version: b"1.0",
            protocol_version: 3,
            protocol_hash: b"0A1B2C3D",
            address: None,
        }
    }

    fn info_reply(flags: u16, info: &ServerInfo<'_>) -> Vec<u8> {
        let mut payload = Vec::new();
        write_info(info, &mut payload);
        reply(flags, &payload)
    }

    fn page_reply(flags: u16, total: usize, offset: usize, names: &[&[u8]]) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut payload = Vec::new();
        for name in names {
            write_entry(name, &core::array::from_fn(|i| i as u8), &mut entries);
        }
        write_page_header(total, names.len(), offset, entries.len(), &mut payload);
        payload.extend(entries);
        reply(flags, &payload)
    }

    /// A players query with id 01 02 03 04, offset 2 and an auth token of three bytes: 56 bytes.
    fn full_query() -> Vec<u8> {
        let mut bytes = Vec::new();
        let query = Query {
            endpoint: Endpoint::Players,
            token: TOKEN,
            id: 0x0403_0201,
            offset: 2,
            auth_token: Some(b"abc"),
        };
        Request::Query(query).write(&mut bytes);
        assert_eq!(request(&bytes), (Ok(Request::Query(query)), vec![]));
        bytes
    }

    /// spec/onequery.md#3.5
    #[test]
    fn worked_bytes() {
        let basic = b"ONEREPLY\x01\x20\0\x01\x02\x03\x04\x36\0\x01\0\x32\0\x06\0Hytale\x02\0Hi\x02\0\0\0\x32\0\0\0\
            \x03\x001.0\x03\0\0\0\x08\x000A1B2C3D\x07\0example\x90\x15";
        let info = ServerInfo {
            address: Some((b"example", 5520)),
            ..info()
        };
        assert_eq!(info_reply(0x20, &info), basic);
        let read = Reply {
            flags: Flags(0x20),
            id: 0x0403_0201,
            info: Some(info),
            page: None,
        };
        assert_eq!(answer(basic), (Ok(read), vec![]));

        let players =
            b"ONEREPLY\x01\x01\0\x01\x02\x03\x04\x25\0\x02\0\x21\0\x02\0\0\0\x01\0\0\0\0\0\0\0\
            \x03\0Ann\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0A\x0B\x0C\x0D\x0E\x0F";
        assert_eq!(page_reply(1, 2, 0, &[b"Ann"]), players);
        let page = Page {
            total: 2,
            offset: 0,
            players: vec![(b"Ann", core::array::from_fn(|i| i as u8))],
        };
        let read = Reply {
            flags: Flags::MORE,
            id: 0x0403_0201,
            info: None,
            page: Some(page),
        };
        assert_eq!(answer(players), (Ok(read), vec![]));

        let mut challenge = Vec::new();
        write_challenge(TOKEN, &mut challenge);
        assert_eq!(challenge, [b"ONEREPLY\0", &TOKEN.0[..], &[0; 7]].concat());
        assert_eq!(challenge.len(), CHALLENGE_REPLY);
        assert_eq!(
            parse_challenge(&challenge, &mut Notes::default()),
            Ok(TOKEN)
        );
    }

    #[test]
    fn explained_field_by_field() {
        let query = [
            "magic=4f 4e 45 51 55 45 52 59",
            "type=2",
            &["challenge token=", &["5a"; 32].join(" ")].concat(),
            "request id=67305985",
            "flags=0x0001 auth token",
            "offset=2",
            "auth token length=3",
            "auth token=5 bytes, not shown",
        ];
        let seen = fields(&full_query());
        assert_eq!(seen[..6], query[..6]);
        assert!(
            !seen.concat().contains("61 62 63"),
            "the auth token stays secret"
        );
        let seen = fields(&page_reply(0x8011, 2, 0, &[b"Ann"]));
        assert_eq!(seen[2], "flags=0x8011 more network");
        assert_eq!(seen[10], "player[0].name=\"Ann\"");
        assert_eq!(
            seen[11],
            "player[0].uuid=00010203-0405-0607-0809-0a0b0c0d0e0f"
        );
    }

    /// spec/onequery.md#5: how short a query may be.
    #[test]
    fn a_query_may_end_after_its_token() {
        let whole = full_query();
        for length in 0..=whole.len() {
            let (read, deviations) = request(&whole[..length]);
            let query = match read {
                Ok(Request::Query(query)) => query,
                Ok(Request::Challenge) => panic!(),
                Err(error) => {
                    assert!(length < 41, "{length}: {error}");
                    assert!(matches!(error.kind, ErrorKind::Short { .. }));
                    continue;
                }
            };
            assert_eq!((query.endpoint, query.token), (Endpoint::Players, TOKEN));
            assert_eq!(
                query.id,
                if length < 45 { 0 } else { 0x0403_0201 },
                "{length}"
            );
            assert_eq!(query.offset, if length < 51 { 0 } else { 2 }, "{length}");
            assert_eq!(
                query.auth_token.is_some(),
                length == whole.len(),
                "{length}"
            );
            assert_eq!(deviations.contains(&"short-request"), length < 51);
            assert_eq!(
                deviations.contains(&"broken-auth-token"),
                (51..56).contains(&length)
            );
            assert_eq!(
                deviations.contains(&"trailing-bytes"),
                length < 51 && length != 41 && length != 45
            );
        }
    }

    /// spec/onequery.md#5: what is ignored in a request.
    #[test]
    fn junk_flags_and_types_in_requests() {
        assert_eq!(request(b"ONEQUERY\0"), (Ok(Request::Challenge), vec![]));
        assert_eq!(
            request(b"ONEQUERY\0junk"),
            (Ok(Request::Challenge), vec!["trailing-bytes"])
        );
        assert_eq!(
            request(b"HYQUERY2\0"),
            (Ok(Request::Challenge), vec!["hyquery-magic"])
        );
        let mut query = full_query();
        query.truncate(QUERY);
        query[45..47].copy_from_slice(&[0xFE, 0xFF]);
        let (read, deviations) = request(&query);
        assert!(matches!(
            read,
            Ok(Request::Query(Query {
                auth_token: None,
                offset: 2,
                ..
            }))
        ));
        assert!(deviations.is_empty(), "unknown flags are no deviation");
        query[50] = 0x80;
        assert_eq!(request(&query).1, ["negative-offset"]);
        for kind in 3..=255 {
            query[8] = kind;
            let (read, deviations) = request(&query);
            assert!(matches!(
                read,
                Ok(Request::Query(Query {
                    endpoint: Endpoint::Basic,
                    ..
                }))
            ));
            assert_eq!(deviations, ["unknown-type", "negative-offset"]);
        }
        query.extend_from_slice(b"junk");
        assert!(request(&query).1.contains(&"trailing-bytes"));
    }

    /// spec/onequery.md#6.1: too long, missing or empty is no auth token, and no error.
    #[test]
    fn a_broken_auth_token_is_none() {
        let query = full_query();
        for tail in [
            &b""[..],
            b"\x03",
            b"\x03\0",
            b"\x03\0ab",
            b"\0\0",
            b"\0\0abc",
            b"\xFF\xFFabc",
        ] {
            let bytes = [&query[..QUERY], tail].concat();
            let (read, deviations) = request(&bytes);
            assert!(
                matches!(
                    read,
                    Ok(Request::Query(Query {
                        auth_token: None,
                        ..
                    }))
                ),
                "{tail:?}"
            );
            assert_eq!(deviations, ["broken-auth-token"], "{tail:?}");
        }
        let bytes = [&query[..], b"junk"].concat();
        let (read, deviations) = request(&bytes);
        assert!(matches!(
            read,
            Ok(Request::Query(Query {
                auth_token: Some(b"abc"),
                ..
            }))
        ));
        assert_eq!(deviations, ["trailing-bytes"]);
    }

    #[test]
    fn a_reply_cut_anywhere_is_an_error() {
        let address = ServerInfo {
            address: Some((b"example", 5520)),
            ..info()
        };
        for whole in [
            info_reply(0x20, &address),
            page_reply(1, 9, 2, &[b"Ann", b"", b"Bob"]),
        ] {
            assert!(answer(&whole).0.is_ok());
            for length in 0..whole.len() {
                assert!(
                    answer(&whole[..length]).0.is_err(),
                    "{length} of {}",
                    whole.len()
                );
            }
        }
        let mut challenge = Vec::new();
        write_challenge(TOKEN, &mut challenge);
        for length in 0..challenge.len() {
            let mut notes = Notes::default();
            assert_eq!(
                parse_challenge(&challenge[..length], &mut notes).is_ok(),
                length >= 41
            );
            assert_eq!(
                notes.met().any(|met| met.name == "short-challenge"),
                length >= 41
            );
        }
    }

    #[test]
    fn errors_name_field_and_offset() {
        let error = |bytes: &[u8]| answer(bytes).0.unwrap_err().to_string();
        let page = page_reply(0, 9, 2, &[b"Ann"]);
        assert_eq!(
            error(&page[..40]),
            "uuid at offset 38: ends 14 bytes too early"
        );
        let changed = |at: usize, byte| {
            let mut page = page.clone();
            page[at] = byte;
            page
        };
        assert_eq!(
            error(&changed(8, 2)),
            "version at offset 8: expected 0 (challenge) or 1"
        );
        assert_eq!(
            error(&changed(24, 0x80)),
            "total at offset 21: expected no number below zero"
        );
        assert_eq!(
            error(&changed(28, 0xFF)),
            "count at offset 25: expected no number below zero"
        );
        assert_eq!(
            error(&changed(32, 0xFF)),
            "page offset at offset 29: expected no number below zero"
        );
        assert_eq!(
            error(&changed(25, 2)),
            "name at offset 54: ends 2 bytes too early",
            "more entries than there are"
        );
        assert_eq!(
            error(&changed(28, 0x7F)),
            "name at offset 54: ends 2 bytes too early",
            "many more"
        );
        assert_eq!(
            error(&changed(15, 200)),
            "payload at offset 17: ends 163 bytes too early"
        );
        assert_eq!(
            error(&changed(19, 200)),
            "tlv value at offset 21: ends 167 bytes too early"
        );
        // A name must not extend beyond its part.
        assert_eq!(
            error(&changed(19, 12)),
            "name at offset 33: ends 2 bytes too early"
        );
    }

    #[test]
    fn deviations_of_replies() {
        let met = |bytes: &[u8]| {
            let (read, deviations) = answer(bytes);
            assert!(read.is_ok(), "{read:?}");
            deviations
        };
        let long = [b'm'; 3000];
        assert_eq!(
            met(&info_reply(
                0,
                &ServerInfo {
                    motd: &long,
                    ..info()
                }
            )),
            ["over-1400"]
        );
        assert_eq!(
            met(&info_reply(
                0,
                &ServerInfo {
                    name: b"caf\xE9",
                    ..info()
                }
            )),
            ["invalid-utf8"]
        );
        assert_eq!(met(&info_reply(2, &info())), ["refused-but-disclosed"]);
        assert_eq!(met(&reply(2, b"")), Vec::<&str>::new());
        assert_eq!(met(&page_reply(1, 3, 2, &[b"Ann"])), ["more-past-total"]);
        assert_eq!(met(&page_reply(1, 4, 2, &[b"Ann"])), Vec::<&str>::new());
        assert_eq!(
            met(&[&info_reply(0, &info())[..], &[0]].concat()),
            ["trailing-bytes"]
        );
        let mut hyquery = info_reply(0, &info());
        hyquery[..8].copy_from_slice(b"HYREPLY2");
        assert_eq!(met(&hyquery), ["hyquery-magic"]);
        // Without its flag, the bytes of an address are trailing bytes.
        let address = ServerInfo {
            address: Some((b"example", 5520)),
            ..info()
        };
        assert_eq!(met(&info_reply(0, &address)), ["trailing-bytes"]);
        let mut challenge = Vec::new();
        write_challenge(TOKEN, &mut challenge);
        challenge.extend_from_slice(b"!");
        challenge[47] = 1;
        let mut notes = Notes::default();
        assert_eq!(parse_challenge(&challenge, &mut notes), Ok(TOKEN));
        let met: Vec<_> = notes.met().map(|met| met.name).collect();
        assert_eq!(met, ["reserved-not-zero", "trailing-bytes"]);
    }

    #[test]
    fn unknown_parts_are_stepped_over() {
        let mut payload = b"\x07\0\x03\0new".to_vec();
        write_info(&info(), &mut payload);
        payload.extend_from_slice(b"\x08\0\0\0");
        write_info(&ServerInfo::default(), &mut payload);
        let bytes = reply(0x8000, &payload);
        let (read, deviations) = answer(&bytes);
        let read = read.unwrap();
        assert_eq!(
            (read.flags, read.info, read.page),
            (Flags(0x8000), Some(info()), None)
        );
        assert!(deviations.is_empty());
    }

    #[test]
    fn every_message_is_recognized_by_its_magic() {
        let name = |bytes: &[u8], seen: Option<Direction>| {
            explain(
                bytes,
                seen.map_or(DatagramContext::Unknown, DatagramContext::from),
                &mut Notes::default(),
            )
            .map(|found| found.message)
        };
        let mut challenge = Vec::new();
        write_challenge(TOKEN, &mut challenge);
        let cases: [(&[u8], &str, Direction); 9] = [
            (b"ONEQUERY", "request", Direction::Request),
            (b"ONEQUERY\0", "challenge request", Direction::Request),
            (b"HYQUERY2\x01", "basic request", Direction::Request),
            (&full_query(), "players request", Direction::Request),
            (&challenge, "challenge reply", Direction::Reply),
            (&info_reply(0, &info()), "basic reply", Direction::Reply),
            (
                &page_reply(0, 1, 0, &[b"Ann"]),
                "players reply",
                Direction::Reply,
            ),
            (&info_reply(0x22, &info()), "refusal", Direction::Reply),
            (b"ONEREPLY\x02", "reply", Direction::Reply),
        ];
        for (bytes, message, direction) in cases {
            let other = if direction == Direction::Request {
                Direction::Reply
            } else {
                Direction::Request
            };
            assert_eq!(name(bytes, None), Some(message));
            assert_eq!(name(bytes, Some(direction)), Some(message));
            assert_eq!(name(bytes, Some(other)), None);
        }
        for foreign in [
            &b""[..],
            b"ONEQUER",
            b"onequery\0",
            b"HYQUERY\0\0",
            b"\xFE\xFD\x09",
        ] {
            assert_eq!(name(foreign, None), None);
        }
    }
}
