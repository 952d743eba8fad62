//! Bytes ⇄ packets: frames, handshakes, pings, and the legacy forms (spec/minecraft-status.md#2).
//! The JSON of a status is in `reply.rs`.

use super::deviation::*;
use crate::wire::{Error, ErrorKind, Notes, Reader, cut, utf16};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Maximum length of a packet without its length field: a varint of 3 bytes.
pub const MAX_PACKET_BYTES: usize = 2_097_151;
/// Maximum number of UTF-16 units in the host of a handshake that a client sends.
pub const MAX_HOST_UNITS: usize = 255;
/// Maximum number of UTF-16 units in a legacy reply.
pub const MAX_LEGACY_UNITS: usize = 32_767;

/// Packet id of a handshake, a status request, a status reply and a disconnect.
pub const ID_STATUS: i32 = 0;
/// Packet id of a ping and a pong.
pub const ID_PING: i32 = 1;
/// Length of a ping or pong with its length field.
pub const PING_BYTES: usize = 10;

/// First byte of every legacy request.
pub const LEGACY_PING: u8 = 0xFE;
/// Second byte of legacy requests from 1.4 on.
const NEWER: u8 = 0x01;
/// Third byte of the 1.6 form: a plugin message follows.
const PLUGIN_MESSAGE: u8 = 0xFA;
/// Start of the 1.6 form.
pub const FULL_START: &[u8] = &[LEGACY_PING, NEWER, PLUGIN_MESSAGE];
/// Channel of that plugin message, in UTF-16 with its number of units.
const CHANNEL: &[u8] = b"\0\x0B\0M\0C\0|\0P\0i\0n\0g\0H\0o\0s\0t";
/// First byte of a legacy reply.
pub const KICK: u8 = 0xFF;
/// Length of the header of a legacy reply: the packet id and the number of units.
pub const KICK_HEADER: usize = 3;
/// Protocol number in the legacy requests of clients from 1.7 on, and in their servers' replies.
pub const MODERN: u8 = 127;

/// A UTF-16 unit as on the wire.
type Unit = [u8; 2];
const SECTION: Unit = [0x00, 0xA7];
const NUL: Unit = [0, 0];
/// Start of a reply of 1.4 and later, whose parts are separated by NULs.
const NEWER_START: [Unit; 3] = [SECTION, [0, b'1'], NUL];

/// Appends a varint.
pub fn write_varint(value: i32, out: &mut Vec<u8>) {
    let mut rest = value as u32;
    while rest > 0x7F {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a text with its length.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    write_varint(text.len() as i32, out);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a packet with its length.
pub fn write_packet(body: &[u8], out: &mut Vec<u8>) {
    write_varint(body.len() as i32, out);
    out.extend_from_slice(body);
}

/// Parses a varint of at most `limit` bytes at an offset. Returns the value and the offset after
/// it, or `None` if more bytes are needed.
fn varint_at(
    bytes: &[u8],
    at: usize,
    limit: usize,
    field: &'static str,
) -> Result<Option<(i32, usize)>, Error> {
    let mut value = 0u32;
    for (i, byte) in bytes.iter().skip(at).take(limit).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * i as u32);
        if byte & 0x80 == 0 {
            return Ok(Some((value as i32, at + i + 1)));
        }
    }
    if bytes.len().saturating_sub(at) < limit {
        return Ok(None);
    }
    let expected = match limit {
        3 => "a varint of at most 3 bytes",
        _ => "a varint of at most 5 bytes",
    };
    Err(Error::bad(field, at, expected))
}

/// Reads a varint of at most `limit` bytes.
pub(super) fn varint(
    r: &mut Reader<'_, '_>,
    limit: usize,
    field: &'static str,
) -> Result<i32, Error> {
    let at = r.at();
    let Some((value, end)) = varint_at(r.whole(), at, limit, field)? else {
        let have = r.remaining();
        r.take(have + 1, field)?;
        return Err(Error::bad(field, at, "a varint"));
    };
    r.take(end - at, field)?;
    r.note(at, field, || value.to_string());
    Ok(value)
}

/// The extent of the first packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Offset of the packet id.
    pub start: usize,
    /// Offset after the packet, as its length says.
    pub end: usize,
}

/// Finds the extent of the first packet. Returns `None` if more bytes are needed.
///
/// # Errors
///
/// Fails if the length is above [`MAX_PACKET_BYTES`].
pub fn packet(bytes: &[u8]) -> Result<Option<Packet>, Error> {
    Ok(
        varint_at(bytes, 0, 3, "packet length")?.map(|(length, start)| Packet {
            start,
            end: start + length as usize,
        }),
    )
}

/// Returns the number of bytes of the message at the start of a status connection, as far as the
/// bytes show: `Ok(n)` if it has `n` bytes and they are here, `Err(n)` if at least `n` are needed.
///
/// # Errors
///
/// Fails if the bytes start neither a status reply nor a kick.
pub fn reply_length(bytes: &[u8]) -> Result<Result<usize, usize>, Error> {
    if let Some(length) = foreign_length(bytes) {
        return Ok(length);
    }
    match bytes {
        [] | [KICK] => return Ok(Err(bytes.len() + 1)),
        [KICK, 0, ..] => return legacy_length(bytes),
        // Zero bytes between packets.
        [0, ..] => return Ok(Ok(1)),
        _ => {}
    }
    let Some(packet) = packet(bytes)? else {
        return Ok(Err(bytes.len() + 1));
    };
    let Some((id, at)) = varint_at(bytes, packet.start, 5, "packet id")? else {
        return Ok(Err(bytes.len() + 1));
    };
    if id != ID_STATUS {
        return Err(no_status(id, packet.start));
    }
    let Some((length, start)) = varint_at(bytes, at, 5, "JSON length")? else {
        return Ok(Err(bytes.len() + 1));
    };
    let length = json_length(length, at)?;
    Ok(at_least(packet.end.max(start + length), bytes))
}

/// Returns the error of a packet that is no status reply.
pub(super) fn no_status(id: i32, at: usize) -> Error {
    Error {
        field: "packet id",
        at,
        kind: ErrorKind::Other {
            found: id.into(),
            expected: "0, a status reply",
        },
    }
}

/// Returns whether the bytes hold the whole text of a status reply, which is not empty. The length
/// of its packet can be higher than what the server sends.
pub fn has_whole_text(bytes: &[u8]) -> bool {
    let text = || {
        let packet = packet(bytes).ok()??;
        let (id, at) = varint_at(bytes, packet.start, 5, "packet id").ok()??;
        let (length, start) = varint_at(bytes, at, 5, "JSON length").ok()??;
        let length = json_length(length, at).ok().filter(|_| id == ID_STATUS)?;
        bytes.get(start..start + length)
    };
    text().is_some_and(|text| !text.is_empty())
}

/// Returns the length of a message, as [`reply_length`] does.
fn at_least(length: usize, bytes: &[u8]) -> Result<usize, usize> {
    if length <= bytes.len() {
        Ok(length)
    } else {
        Err(length)
    }
}

pub(super) fn json_length(length: i32, at: usize) -> Result<usize, Error> {
    let length = usize::try_from(length)
        .map_err(|_| Error::bad("JSON length", at, "a length, not below 0"))?;
    if length <= MAX_PACKET_BYTES {
        Ok(length)
    } else {
        Err(Error::limit("JSON length", at, MAX_PACKET_BYTES))
    }
}

/// Like [`reply_length`], for the reply to a legacy request.
///
/// # Errors
///
/// Fails if the bytes do not start a kick, or if it is too long.
pub fn legacy_length(bytes: &[u8]) -> Result<Result<usize, usize>, Error> {
    if let Some(length) = foreign_length(bytes) {
        return Ok(length);
    }
    match bytes {
        [] => Ok(Err(1)),
        [KICK, high, low, ..] => {
            let units = usize::from(u16::from_be_bytes([*high, *low]));
            if units > MAX_LEGACY_UNITS {
                return Err(Error::limit("text", 1, MAX_LEGACY_UNITS));
            }
            Ok(at_least(KICK_HEADER + units * size_of::<Unit>(), bytes))
        }
        [KICK, ..] => Ok(Err(KICK_HEADER)),
        _ => Err(Error::bad("packet id", 0, "FF (kick)")),
    }
}

/// Starts of the replies of other servers, with their meaning.
const FOREIGN: [(&[u8], &str); 2] = [
    (b"HTTP/", "it replied in HTTP, so it is a web server"),
    (
        &[0x15, 0x03],
        "it replied with a TLS alert, so its port expects TLS",
    ),
];

/// Returns the meaning of a reply of another kind of server, as a clause about the server.
pub fn foreign(bytes: &[u8]) -> Option<&'static str> {
    let mut starts = FOREIGN.iter();
    starts
        .find(|(start, _)| bytes.starts_with(start))
        .map(|(_, meaning)| *meaning)
}

/// Returns the length of a reply of another kind of server, of which only the start is known.
fn foreign_length(bytes: &[u8]) -> Option<Result<usize, usize>> {
    if bytes.is_empty() {
        return None;
    }
    FOREIGN.iter().find_map(|(start, _)| {
        if bytes.starts_with(start) {
            return Some(Ok(bytes.len()));
        }
        start.starts_with(bytes).then_some(Err(start.len()))
    })
}

/// Intent of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Status.
    Status,
    /// Login.
    Login,
    /// Transfer from another server, since 1.20.5.
    Transfer,
}

/// The first packet of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake<'a> {
    /// Protocol number of the client; -1 if it has none.
    pub protocol: i32,
    /// Host as sent, with what mods and proxies append to it.
    pub host: Cow<'a, str>,
    /// Port.
    pub port: u16,
    /// Purpose of the connection.
    pub intent: Intent,
}

impl<'a> Handshake<'a> {
    /// Longest accepted host in bytes: BungeeCord appends the profile of a player, with the signature
    /// of its skin.
    const MAX_HOST_BYTES: usize = 3_072;

    /// Parses one packet.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or invalid, with its offset.
    pub fn read(r: &mut Reader<'a, '_>) -> Result<Self, Error> {
        let start = r.at();
        let length = varint(r, 3, "packet length")?;
        let end = r.at() + length as usize;
        if varint(r, 5, "packet id")? != ID_STATUS {
            return Err(Error::bad("packet id", start + 1, "0, a handshake"));
        }
        let protocol = varint(r, 5, "protocol")?;
        let host = string(r, Self::MAX_HOST_BYTES, "host")?;
        let port = r.u16_be("port")?;
        let at = r.at();
        let intent = match varint(r, 5, "intent")? {
            1 => Intent::Status,
            2 => Intent::Login,
            3 => Intent::Transfer,
            _ => return Err(Error::bad("intent", at, "1 to 3")),
        };
        if r.at() == end {
            Ok(Self {
                protocol,
                host,
                port,
                intent,
            })
        } else {
            Err(Error::bad(
                "packet length",
                start,
                "the length of the handshake",
            ))
        }
    }

    /// Appends the packet.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(self.host.len() + 16);
        write_varint(ID_STATUS, &mut body);
        write_varint(self.protocol, &mut body);
        write_string(&self.host, &mut body);
        body.extend(self.port.to_be_bytes());
        let intent = match self.intent {
            Intent::Status => 1,
            Intent::Login => 2,
            Intent::Transfer => 3,
        };
        write_varint(intent, &mut body);
        write_packet(&body, out);
    }

    /// Returns the host for comparisons: in lower case, without a trailing dot and without what
    /// Forge (NUL) and TCPShield (`///`) append.
    pub fn host_name(&self) -> String {
        host_name(&self.host)
    }
}

/// Returns a host of a handshake for comparisons.
pub(super) fn host_name(host: &str) -> String {
    let end = host.find('\0').unwrap_or(host.len());
    let host = host.get(..end).unwrap_or_default();
    let host = host.split("///").next().unwrap_or_default();
    host.strip_suffix('.').unwrap_or(host).to_lowercase()
}

/// Reads a text of at most `limit` bytes.
fn string<'a>(
    r: &mut Reader<'a, '_>,
    limit: usize,
    field: &'static str,
) -> Result<Cow<'a, str>, Error> {
    let at = r.at();
    let Some((length, start)) = varint_at(r.whole(), at, 5, field)? else {
        let have = r.remaining();
        r.take(have + 1, field)?;
        return Err(Error::bad(field, at, "a varint"));
    };
    let length =
        usize::try_from(length).map_err(|_| Error::bad(field, at, "a length, not below 0"))?;
    if length > limit {
        return Err(Error::limit(field, at, limit));
    }
    r.take(start - at, field)?;
    let text = core::str::from_utf8(r.take(length, field)?)
        .map_err(|error| Error::bad(field, start + error.valid_up_to(), "UTF-8"))?;
    r.note(at, field, || format!("{text:?}"));
    Ok(Cow::Borrowed(text))
}

/// Reads the packet that starts a login. The fields after the name differ by version: see
/// [`LoginStart::uuid`]. The reader ends after the packet.
///
/// # Errors
///
/// Names the field that is truncated or invalid, with its offset.
pub fn read_login_start<'a>(r: &mut Reader<'a, '_>) -> Result<LoginStart<'a>, Error> {
    /// Names have at most 16 characters.
    const MAX_NAME_BYTES: usize = 64;
    let start = r.at();
    let length = varint(r, 3, "packet length")?;
    let end = r.at() + length as usize;
    if varint(r, 5, "packet id")? != ID_STATUS {
        return Err(Error::bad("packet id", start + 1, "0, a login start"));
    }
    let name = string(r, MAX_NAME_BYTES, "name")?;
    let Some(rest) = end.checked_sub(r.at()) else {
        return Err(Error::bad(
            "packet length",
            start,
            "a length that holds the name",
        ));
    };
    let rest = match rest {
        0 => &[][..],
        rest => r.raw(rest, "rest of the login")?,
    };
    Ok(LoginStart { name, rest })
}

/// A login start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginStart<'a> {
    /// Name of the player.
    pub name: Cow<'a, str>,
    /// Bytes after the name, which depend on the version.
    rest: &'a [u8],
}

impl LoginStart<'_> {
    /// Returns the UUID of the player, which clients send since 1.19.1. It is unverified. `protocol`:
    /// the number of the handshake.
    pub fn uuid(&self, protocol: i32) -> Option<[u8; 16]> {
        /// 1.19.1 and 1.19.2: a signed key may precede the UUID.
        const WITH_KEY: i32 = 760;
        match self.rest.split_last_chunk()? {
            // Since 1.20.2.
            ([], uuid) => Some(*uuid),
            ([1], uuid) => Some(*uuid),
            ([.., 1], uuid) if protocol == WITH_KEY => Some(*uuid),
            _ => None,
        }
    }
}

/// Appends a status request.
pub fn write_status_request(out: &mut Vec<u8>) {
    out.extend([1, ID_STATUS as u8]);
}

/// Reads a status request.
///
/// # Errors
///
/// Fails if the bytes are another packet.
pub fn read_status_request(r: &mut Reader<'_, '_>) -> Result<(), Error> {
    let start = r.at();
    if varint(r, 3, "packet length")? != 1 {
        return Err(Error::bad("packet length", start, "1, a status request"));
    }
    let start = r.at();
    match varint(r, 5, "packet id")? {
        ID_STATUS => Ok(()),
        _ => Err(Error::bad("packet id", start, "0, a status request")),
    }
}

/// Appends a ping or pong.
pub fn write_ping(payload: u64, out: &mut Vec<u8>) {
    out.extend([9, ID_PING as u8]);
    out.extend(payload.to_be_bytes());
}

/// Reads a ping or pong.
///
/// # Errors
///
/// Fails if the bytes are another packet.
pub fn read_ping(r: &mut Reader<'_, '_>) -> Result<u64, Error> {
    let start = r.at();
    if varint(r, 3, "packet length")? != 9 {
        return Err(Error::bad("packet length", start, "9, a ping"));
    }
    let start = r.at();
    if varint(r, 5, "packet id")? != ID_PING {
        return Err(Error::bad("packet id", start, "1, a ping"));
    }
    let payload = r.i64_be("payload")?;
    Ok(payload as u64)
}

/// Returns whether these bytes are a ping or pong.
pub fn is_ping(bytes: &[u8]) -> bool {
    matches!(bytes, [9, 1, ..]) && bytes.len() >= PING_BYTES
}

/// A form of the request of clients before 1.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyForm {
    /// `FE`: Beta 1.8 to 1.3.
    Beta,
    /// `FE 01`: 1.4 and 1.5.
    Short,
    /// `FE 01 FA` with host and port: 1.6.
    Full,
}

/// Returns whether the first bytes of a client can be a legacy request. A packet of 254 bytes, and
/// some longer ones, start with the same byte.
pub fn is_legacy_request(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [LEGACY_PING] | [LEGACY_PING, NEWER] | [LEGACY_PING, NEWER, PLUGIN_MESSAGE, ..]
    )
}

/// A request of a client before 1.7.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyRequest {
    /// Its form.
    pub form: LegacyForm,
    /// Protocol number of the client, in the full form.
    pub protocol: Option<u8>,
    /// Host, in the full form.
    pub host: String,
    /// Port, in the full form.
    pub port: Option<u16>,
}

impl LegacyRequest {
    /// Parses a request of a Minecraft Status client.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or invalid, with its offset.
    pub fn read(r: &mut Reader<'_, '_>) -> Result<Self, Error> {
        let at = r.at();
        if r.raw(1, "packet id")? != [LEGACY_PING] {
            return Err(Error::bad("packet id", at, "FE (list ping)"));
        }
        let mut request = Self {
            form: LegacyForm::Beta,
            protocol: None,
            host: String::new(),
            port: None,
        };
        if r.remaining() == 0 {
            return Ok(request);
        }
        let at = r.at();
        if r.raw(1, "form")? != [NEWER] {
            return Err(Error::bad("form", at, "01 (1.4 and later)"));
        }
        request.form = LegacyForm::Short;
        if r.remaining() == 0 {
            return Ok(request);
        }
        request.form = LegacyForm::Full;
        let at = r.at();
        if r.raw(1, "second packet id")? != [PLUGIN_MESSAGE] {
            return Err(Error::bad("second packet id", at, "FA (plugin message)"));
        }
        r.constant(CHANNEL, "channel")?;
        let at = r.at();
        let rest = usize::from(r.u16_be("rest length")?);
        let start = r.at();
        request.protocol = Some(r.u8("protocol")?);
        request.host = utf16(r.utf16_be(MAX_HOST_UNITS, "host")?);
        let port_at = r.at();
        let port = r.i32_be("port")?;
        request.port = Some(
            u16::try_from(port).map_err(|_| Error::bad("port", port_at, "a port, 0 to 65535"))?,
        );
        if r.at() - start == rest {
            Ok(request)
        } else {
            Err(Error::bad(
                "rest length",
                at,
                "the length of protocol, host and port",
            ))
        }
    }
}

/// Length of a request of 1.4, with which the longer request of 1.6 starts.
pub const SHORT_REQUEST_BYTES: usize = 2;

/// Appends a legacy request in one of its forms.
pub fn write_legacy_request(form: LegacyForm, host: &str, port: u16, out: &mut Vec<u8>) {
    out.push(LEGACY_PING);
    if form == LegacyForm::Beta {
        return;
    }
    out.push(NEWER);
    if form == LegacyForm::Short {
        return;
    }
    out.push(PLUGIN_MESSAGE);
    out.extend_from_slice(CHANNEL);
    let units = cut_units(host, MAX_HOST_UNITS).encode_utf16();
    let count = units.clone().count();
    out.extend((7 + 2 * count as u16).to_be_bytes());
    out.push(MODERN);
    out.extend((count as u16).to_be_bytes());
    out.extend(units.flat_map(u16::to_be_bytes));
    out.extend(i32::from(port).to_be_bytes());
}

/// Returns the longest prefix of `text` with at most `limit` UTF-16 units.
pub fn cut_units(text: &str, limit: usize) -> &str {
    // No character has more units than bytes.
    if text.len() <= limit {
        return text;
    }
    let mut units = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        units += c.len_utf16();
        (units > limit).then_some(at)
    });
    cut(text, end.unwrap_or(text.len()))
}

/// Appends a kick in the form before 1.7. The text must have at most [`MAX_LEGACY_UNITS`] units.
pub fn write_kick(text: &str, out: &mut Vec<u8>) {
    let units = text.encode_utf16();
    out.push(KICK);
    out.extend((units.clone().count() as u16).to_be_bytes());
    out.extend(units.flat_map(u16::to_be_bytes));
}

/// The status in a legacy reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Message of the day.
    pub motd: String,
    /// Number of players online.
    pub online: Option<i64>,
    /// Maximum number of players.
    pub max: Option<i64>,
    /// Protocol number of the game, from 1.4 on. Absent if it names no version.
    pub protocol: Option<i64>,
    /// Version of the game, from 1.4 on.
    pub version: Option<String>,
}

/// A reply in the form before 1.7.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegacyReply {
    /// Status of a Minecraft server.
    Listing(Listing),
    /// The text that a player would get.
    Kick(String),
}

impl LegacyReply {
    /// Parses one packet.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or part of another packet, with its offset.
    pub fn read(r: &mut Reader<'_, '_>) -> Result<Self, Error> {
        let at = r.at();
        if r.raw(1, "packet id")? != [KICK] {
            return Err(Error::bad("packet id", at, "FF (kick)"));
        }
        let bytes = r.utf16_be(MAX_LEGACY_UNITS, "text")?;
        let (units, _) = bytes.as_chunks();
        let at = r.at() - bytes.len();
        let listing = if units.starts_with(&NEWER_START) {
            Listing::newer(units, at, r.notes())
        } else {
            Listing::beta(units, at, r.notes())
        };
        r.trailing(&TRAILING_BYTES);
        Ok(match listing {
            Some(listing) => Self::Listing(listing),
            None => Self::Kick(utf16(bytes)),
        })
    }
}

impl Listing {
    /// Appends a reply of Beta 1.8 to 1.3. The MOTD must not contain a section sign; it is cut if
    /// the text would have more than `limit` units.
    pub fn write_beta(&self, limit: usize, out: &mut Vec<u8>) {
        let counts = format!(
            "\u{A7}{}\u{A7}{}",
            self.online.unwrap_or_default(),
            self.max.unwrap_or_default()
        );
        let motd = cut_units(&self.motd, limit.saturating_sub(counts.chars().count()));
        write_kick(&format!("{motd}{counts}"), out);
    }

    /// Appends a reply of 1.4 and later. No text may contain a NUL; the MOTD is cut if the text
    /// would have more than `limit` units.
    pub fn write_newer(&self, limit: usize, out: &mut Vec<u8>) {
        let before = format!(
            "\u{A7}1\0{}\0{}\0",
            self.protocol.unwrap_or_default(),
            self.version.as_deref().unwrap_or_default(),
        );
        let after = format!(
            "\0{}\0{}",
            self.online.unwrap_or_default(),
            self.max.unwrap_or_default()
        );
        let used = before.encode_utf16().count() + after.len();
        let motd = cut_units(&self.motd, limit.saturating_sub(used));
        write_kick(&format!("{before}{motd}{after}"), out);
    }

    /// Parses from the end, because the last section signs always belong to the protocol.
    fn beta(units: &[Unit], at: usize, notes: &mut Notes) -> Option<Self> {
        let mut parts = units.rsplitn(3, |unit| *unit == SECTION);
        let max = parts.next()?;
        let online = parts.next()?;
        let motd = parts.next()?;
        count(max).or(count(online))?;
        let mut parts = Parts { at, notes };
        if motd.contains(&SECTION) {
            parts.notes.deviation(&FORMATTED_MOTD, parts.at);
        }
        Some(Self {
            motd: parts.text("motd", motd),
            online: parts.count("online", online),
            max: parts.count("max", max),
            ..Self::default()
        })
    }

    fn newer(units: &[Unit], at: usize, notes: &mut Notes) -> Option<Self> {
        let is_nul = |unit: &Unit| *unit == NUL;
        let mut parts = units.splitn(4, is_nul).skip(1);
        let protocol = parts.next()?;
        let version = parts.next()?;
        let rest = parts.next()?;
        // The MOTD may contain NULs, so the counts are read from the end if they are numbers.
        let mut parts = rest.rsplitn(3, is_nul);
        let mut max = parts.next()?;
        let mut online = parts.next()?;
        let mut motd = parts.next()?;
        let mut trailing = None;
        if count(online).and(count(max)).is_none() {
            let mut parts = rest.splitn(4, is_nul);
            motd = parts.next()?;
            online = parts.next()?;
            max = parts.next()?;
            trailing = parts.next();
        }
        let mut parts = Parts {
            at: at + size_of_val(&NEWER_START),
            notes,
        };
        let protocol_at = parts.at;
        let mut protocol = parts.number("protocol", protocol);
        if protocol == Some(i64::from(MODERN)) {
            parts.notes.deviation(&PROTOCOL_127, protocol_at);
            protocol = None;
        }
        let listing = Self {
            protocol,
            version: Some(parts.text("version", version)),
            motd: {
                if motd.contains(&NUL) {
                    parts.notes.deviation(&NUL_IN_MOTD, parts.at);
                }
                parts.text("motd", motd)
            },
            online: parts.count("online", online),
            max: parts.count("max", max),
        };
        if let Some(trailing) = trailing {
            parts.notes.deviation(&LEGACY_TRAILING, parts.at);
            parts.text("trailing text", trailing);
        }
        Some(listing)
    }
}

fn count(units: &[Unit]) -> Option<i64> {
    utf16(units.as_flattened()).parse().ok()
}

/// The parts of a text in order, with their positions for the notes.
struct Parts<'n> {
    at: usize,
    notes: &'n mut Notes,
}

impl Parts<'_> {
    /// Returns the next part, and skips it and its separator.
    fn text(&mut self, field: &'static str, units: &[Unit]) -> String {
        let text = utf16(units.as_flattened());
        let length = size_of_val(units);
        self.notes
            .field(self.at..self.at + length, field, || format!("{text:?}"));
        self.at += length + size_of::<Unit>();
        text
    }

    fn number(&mut self, field: &'static str, units: &[Unit]) -> Option<i64> {
        let at = self.at;
        self.text(field, units);
        let number = count(units);
        if number.is_none() {
            self.notes.deviation(&ODD_COUNT, at);
        }
        number
    }

    /// Like [`number`](Self::number), for a count of players.
    fn count(&mut self, field: &'static str, units: &[Unit]) -> Option<i64> {
        let at = self.at;
        let count = self.number(field, units);
        if count == Some(-1) {
            self.notes.deviation(&LEGACY_NEG, at);
            return None;
        }
        count
    }
}

/// A login attempt of a client before 1.7, as far as it is complete.
#[derive(Debug)]
pub struct LegacyLogin {
    /// Name of the player.
    pub name: String,
    /// Host, if the client sent it.
    pub host: String,
    /// Port, if the client sent it.
    pub port: Option<u16>,
    /// Protocol number, from 1.3 on.
    pub protocol: Option<u8>,
}

impl LegacyLogin {
    /// First byte of a login.
    pub const ID: u8 = 0x02;

    /// Parses the first packet of a client of 1.3 to 1.6, or of an older one. Returns `Ok(None)` if
    /// more bytes are needed.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a login.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, Error> {
        let mut notes = Notes::discarding();
        let mut r = Reader::new(bytes, &mut notes);
        match Self::parse(&mut r) {
            Ok(login) => Ok(Some(login)),
            Err(Error {
                kind: ErrorKind::Short { .. },
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(r: &mut Reader<'_, '_>) -> Result<Self, Error> {
        if r.raw(1, "packet id")? != [Self::ID] {
            return Err(Error::bad("packet id", 0, "02 (login)"));
        }
        let next = r.u8("protocol")?;
        if next == 0 {
            // Until 1.2.5: one text, the high byte of whose length is always 0.
            let count = usize::from(r.u8("length")?);
            let text = utf16(r.take(count * size_of::<Unit>(), "name")?);
            let (name, address) = text.split_once(';').unwrap_or((&text, ""));
            let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
            return Ok(Self {
                name: name.into(),
                host: host.into(),
                port: port.parse().ok(),
                protocol: None,
            });
        }
        let name = utf16(r.utf16_be(64, "name")?);
        let host = utf16(r.utf16_be(MAX_HOST_UNITS, "host")?);
        let port = r.i32_be("port")?;
        Ok(Self {
            name,
            host,
            port: u16::try_from(port).ok(),
            protocol: Some(next),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_can_be_whole_in_a_packet_that_is_not() {
        let bytes = b"\x20\x00\x02{}";
        assert!(has_whole_text(bytes));
        for length in 0..bytes.len() {
            assert!(!has_whole_text(&bytes[..length]), "{length}");
        }
        assert!(!has_whole_text(b"\x20\x00\x00{}"), "no text");
        assert!(!has_whole_text(b"\x20\x01\x02{}"), "another packet");
    }

    #[test]
    fn a_kick_with_section_signs_is_no_listing() {
        for (text, is_listing) in [
            ("Come back \u{A7}clater\u{A7}r!", false),
            ("Quay\u{A7}few\u{A7}20", true),
            ("Quay\u{A7}3\u{A7}many", true),
        ] {
            let mut bytes = Vec::new();
            write_kick(text, &mut bytes);
            let mut notes = Notes::default();
            let reply = LegacyReply::read(&mut Reader::new(&bytes, &mut notes)).unwrap();
            let found = matches!(reply, LegacyReply::Listing(_));
            assert_eq!(found, is_listing, "{text}");
        }
    }

    #[test]
    fn hosts_are_compared_without_additions() {
        for host in [
            "Play.Example.org",
            "play.example.org.",
            "play.example.org\0FML2\0",
            "play.example.org///192.0.2.7:50000///1700000000",
        ] {
            assert_eq!(host_name(host), "play.example.org", "{host:?}");
        }
    }
}
