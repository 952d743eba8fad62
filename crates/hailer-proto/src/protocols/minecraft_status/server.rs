//! The responder: status, pong, the legacy forms, and a kick for players who try to join
//! (spec/minecraft-status.md#10).
//!
//! All replies are encoded once. Limits for each connection: 4 KiB of input in all, one status
//! request; the crate `hailer` limits time and number.

use super::component::{self, clean};
use super::message::{self, Handshake, Intent, LegacyForm, LegacyLogin, LegacyRequest, Listing};
use super::{component::MAX_TEXT_BYTES, mods};
use crate::model::{Codes, Icon, Player, Status, Text, Value, colored, uuid_text};
use crate::protocol::{
    Connection, ConnectionStep, JoinAttempt, OptionError, Options, Received, Responder, Verdict,
};
use crate::token::Epoch;
use crate::wire::{Error, ErrorKind, Notes, Reader, json};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Protocol number in replies to clients without one: that of 1.21.8.
pub const NEWEST: i32 = 772;
/// Maximum number of players in a sample, as in the game.
pub const MAX_SAMPLE: usize = 12;
/// Maximum length of the JSON in UTF-16 units. The game allows 32,767.
const MAX_JSON_UNITS: usize = 30_000;
/// Maximum length of the MOTD in UTF-16 units.
const MAX_MOTD_UNITS: usize = 2_048;
/// Maximum length of version and names in UTF-16 units.
const MAX_NAME_UNITS: usize = 64;
/// Maximum length of the text of a legacy reply in UTF-16 units. Old clients accept 256; below that,
/// the start of the reply is never that of a current packet.
const MAX_LEGACY_UNITS: usize = 255;
/// Maximum number of bytes that a connection may send.
const MAX_INPUT_BYTES: usize = 4_096;
/// Length of the shortest handshake with its packet length: id, number, empty host, port, intent.
const MIN_HANDSHAKE_BYTES: usize = 7;
/// Maximum length of a packet of a client: a handshake with what BungeeCord appends to the host.
const MAX_REQUEST_BYTES: usize = 3_200;

/// Kick message without the option `kick`.
const DEFAULT_KICK: &str = "This server only shows its status.";
/// Version of a status that has none.
const DEFAULT_VERSION: &str = "Minecraft";

/// Responder for one server.
#[derive(Debug)]
pub struct StatusResponder {
    replies: Arc<Replies>,
}

/// Encoded replies, shared by all connections.
#[derive(Debug)]
struct Replies {
    beta: Vec<u8>,
    legacy: Vec<u8>,
    /// The JSON before and after the protocol number.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Protocol number; `None` to repeat that of the client.
    protocol: Option<i32>,
    kick: Vec<u8>,
    legacy_kick: Vec<u8>,
}

impl StatusResponder {
    /// Creates a responder for this status.
    ///
    /// # Errors
    ///
    /// Names the option with an invalid value.
    pub fn new(status: &Status, options: &Options) -> Result<Self, OptionError> {
        let protocol = match options.value("protocol") {
            None => match status.extra("protocol") {
                Some(Value::Int(number)) => i32::try_from(*number).ok(),
                _ => None,
            },
            Some(Value::Str(word)) if word == "echo" => None,
            Some(Value::Int(number)) if i32::try_from(*number).is_ok() => Some(*number as i32),
            Some(_) => {
                return Err(OptionError::new(
                    "protocol",
                    "must be \"echo\" or a protocol number, a whole number of 32 bits",
                ));
            }
        };
        let kick = match options.value("kick") {
            None => DEFAULT_KICK,
            Some(Value::Str(text)) if text.len() <= MAX_TEXT_BYTES => text,
            Some(_) => {
                return Err(OptionError::new("kick", "must be a text of at most 64 KiB"));
            }
        };
        let own_icon = match options.value("icon") {
            None => None,
            Some(Value::Str(text)) => {
                Some(Icon::from_data_uri(text).map_err(|error| OptionError {
                    key: "icon".into(),
                    problem: format!("{error}").into(),
                })?)
            }
            Some(_) => return Err(OptionError::new("icon", "must be a text")),
        };
        let icon = own_icon.as_ref().or(status.icon.as_ref());
        let own = status.with_codes(Codes::Legacy);
        // Components have all colors, other texts only those with a code.
        let (head, tail) = encode(&own, &motd(status), icon);
        // A text can contain what a program or a player has sent.
        let is_shown = |c: &char| *c == '\n' || !c.is_control();
        let kick: String = colored(kick).chars().filter(is_shown).collect();
        let kick = Text::legacy(kick);
        let mut replies = Replies {
            beta: Vec::new(),
            legacy: Vec::new(),
            head,
            tail,
            protocol,
            kick: disconnect(&kick),
            legacy_kick: Vec::new(),
        };
        let line = legacy_line(&kick);
        message::write_kick(
            message::cut_units(&line, MAX_LEGACY_UNITS),
            &mut replies.legacy_kick,
        );
        write_legacy(&own, protocol, &mut replies);
        Ok(Self {
            replies: Arc::new(replies),
        })
    }
}

impl Responder for StatusResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(StatusConnection {
            replies: self.replies.clone(),
            state: State::Start,
            consumed: 0,
            protocol: NEWEST,
            join: None,
        }))
    }
}

/// Returns the MOTD of a status, or else its name.
fn motd(status: &Status) -> Text {
    let texts = [&status.motd, &status.name].into_iter().flatten();
    let found = texts.clone().find(|text| !text.plain().trim().is_empty());
    found.or(status.motd.as_ref()).cloned().unwrap_or_default()
}

fn version(status: &Status) -> String {
    let version = status.version.as_deref().unwrap_or_default();
    let version = clean(message::cut_units(version, MAX_NAME_UNITS));
    match Text::legacy(&*version).into_short() {
        plain if plain.is_empty() => DEFAULT_VERSION.into(),
        plain => plain.into(),
    }
}

/// The game uses 32-bit counts.
fn count(count: i64) -> i64 {
    count.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
}

/// Encodes the JSON before and after the protocol number. Leaves out the icon, then the sample,
/// then the mods, until it is short enough.
fn encode(status: &Status, motd: &Text, icon: Option<&Icon>) -> (Vec<u8>, Vec<u8>) {
    let mut head = Vec::from(*b"{\"version\":{\"name\":");
    json::write_text(&version(status), &mut head);
    head.extend(*b",\"protocol\":");
    let mut tail = Vec::new();
    for (has_icon, has_sample, has_mods) in [
        (true, true, true),
        (false, true, true),
        (false, false, true),
        (false, false, false),
    ] {
        tail.clear();
        tail.extend(*b"},\"players\":{\"max\":");
        let players = &status.players;
        tail.extend(format!("{}", count(players.max.unwrap_or(0))).bytes());
        tail.extend(format!(",\"online\":{}", count(players.count())).bytes());
        if has_sample && !players.list.is_empty() {
            sample(&players.list, &mut tail);
        }
        tail.extend(*b"},\"description\":");
        component::write(motd, MAX_MOTD_UNITS, &mut tail);
        if let Some(icon) = icon.filter(|_| has_icon) {
            tail.extend(*b",\"favicon\":");
            json::write_text(icon.data_uri(), &mut tail);
        }
        for (extra, key) in [
            ("enforces-secure-chat", "enforcesSecureChat"),
            ("previews-chat", "previewsChat"),
            ("prevents-chat-reports", "preventsChatReports"),
            ("is-modded", "isModded"),
        ] {
            if let Some(Value::Bool(value)) = status.extra(extra) {
                tail.extend(format!(",\"{key}\":{value}").bytes());
            }
        }
        if has_mods {
            mods::write(status, &mut tail);
        }
        tail.push(b'}');
        let units = core::str::from_utf8(&tail).map_or(0, |text| text.encode_utf16().count());
        if units <= MAX_JSON_UNITS {
            break;
        }
    }
    (head, tail)
}

fn sample(players: &[Player], out: &mut Vec<u8>) {
    out.extend(*b",\"sample\":[");
    for (i, player) in players.iter().take(MAX_SAMPLE).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend(*b"{\"name\":");
        json::write_text(
            &clean(message::cut_units(player.name.raw(), MAX_NAME_UNITS)),
            out,
        );
        let uuid = uuid_text(&player.uuid.unwrap_or_default());
        out.extend(format!(",\"id\":\"{uuid}\"}}").bytes());
    }
    out.push(b']');
}

/// Encodes a disconnect during login.
fn disconnect(text: &Text) -> Vec<u8> {
    let mut json = Vec::new();
    component::write(text, MAX_MOTD_UNITS, &mut json);
    packet_with(&[&json])
}

/// Appends a packet with id 0 and one text in pieces.
fn packet_with(pieces: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write_packet_with(pieces, &mut out);
    out
}

fn write_packet_with(pieces: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut header = Vec::with_capacity(8);
    message::write_varint(message::ID_STATUS, &mut header);
    message::write_varint(length as i32, &mut header);
    message::write_varint((header.len() + length) as i32, out);
    out.extend_from_slice(&header);
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Returns a text in one line, with only the codes of the game's versions before 1.16.
fn legacy_line(text: &Text) -> String {
    let line = text.with_legacy_colors();
    line.replace('\n', " ").replace('\0', "")
}

fn write_legacy(status: &Status, protocol: Option<i32>, replies: &mut Replies) {
    let motd = motd(status);
    // A negative count means unknown.
    let count = |number: i64| Some(count(number).max(0));
    let mut listing = Listing {
        motd: motd.plain().replace('\n', " ").replace('\u{A7}', ""),
        online: count(status.players.count()),
        max: count(status.players.max.unwrap_or(0)),
        protocol: Some(i64::from(protocol.unwrap_or(NEWEST))),
        version: Some(version(status)),
    };
    listing.write_beta(MAX_LEGACY_UNITS, &mut replies.beta);
    listing.motd = legacy_line(&motd);
    listing.write_newer(MAX_LEGACY_UNITS, &mut replies.legacy);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was consumed.
    Start,
    /// After a handshake for the status.
    Status,
    /// After the status reply.
    Replied,
    /// After a handshake for a login.
    Login,
    /// After the last reply.
    Closed,
}

/// Server side of one connection.
#[derive(Debug)]
struct StatusConnection {
    replies: Arc<Replies>,
    state: State,
    consumed: usize,
    /// Protocol number of the client.
    protocol: i32,
    join: Option<JoinAttempt>,
}

/// Result of handling the start of the bytes: the number of bytes consumed, or the end.
enum Progress {
    Consumed(usize),
    Short,
    Close(usize),
}

impl Connection for StatusConnection {
    fn receive(&mut self, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        let mut consumed = 0;
        let step = loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            if self.consumed + consumed + rest.len() > MAX_INPUT_BYTES {
                break ConnectionStep::Bad(Error::limit("connection", 0, MAX_INPUT_BYTES));
            }
            match self.packet(rest, out) {
                Ok(Progress::Consumed(length)) => consumed += length,
                Ok(Progress::Short) => break ConnectionStep::Wait,
                Ok(Progress::Close(length)) => {
                    consumed += length;
                    self.state = State::Closed;
                    break ConnectionStep::Close;
                }
                Err(_) if self.state == State::Start && self.consumed + consumed == 0 => {
                    break ConnectionStep::Pass;
                }
                Err(error) => {
                    self.state = State::Closed;
                    break ConnectionStep::Bad(error);
                }
            }
        };
        self.consumed += consumed;
        Received { consumed, step }
    }

    fn pause(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        // The beta form, or the start of the 1.6 form, which some clients send without the rest.
        let reply = match (self.state, bytes) {
            (State::Start, [message::LEGACY_PING]) => &self.replies.beta,
            (State::Start, bytes) if message::is_legacy_request(bytes) => &self.replies.legacy,
            _ => {
                return Received {
                    consumed: 0,
                    step: ConnectionStep::Wait,
                };
            }
        };
        out.extend_from_slice(reply);
        self.state = State::Closed;
        Received {
            consumed: bytes.len(),
            step: ConnectionStep::Close,
        }
    }

    fn join_attempt(&self) -> Option<&JoinAttempt> {
        self.join.as_ref()
    }
}

impl StatusConnection {
    /// Handles the first packet of the bytes.
    fn packet(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        if self.state == State::Closed {
            return Ok(Progress::Close(bytes.len()));
        }
        match (self.state, bytes) {
            (_, []) => return Ok(Progress::Short),
            (State::Start, bytes) if message::is_legacy_request(bytes) => {
                return self.legacy(bytes, out);
            }
            // A packet of two bytes is never a handshake.
            (State::Start, [LegacyLogin::ID, ..]) => return self.legacy_login(bytes, out),
            _ => {}
        }
        let Some(packet) = message::packet(bytes)? else {
            return Ok(Progress::Short);
        };
        if packet.end == packet.start {
            // Zero bytes between packets, but not before the first.
            return match self.state {
                State::Start => Err(Error::bad("packet length", 0, "1 or more")),
                _ => Ok(Progress::Consumed(packet.end)),
            };
        }
        if packet.end > MAX_REQUEST_BYTES {
            return Err(Error::limit("packet length", 0, MAX_REQUEST_BYTES));
        }
        let mut notes = Notes::discarding();
        let Some(whole) = bytes.get(..packet.end) else {
            return self.incomplete(bytes, packet.end);
        };
        let mut r = Reader::new(whole, &mut notes);
        match self.state {
            State::Start => self.handshake(&Handshake::read(&mut r)?),
            State::Login => {
                let login = message::read_login_start(&mut r)?;
                if let Some(join) = &mut self.join {
                    join.name = login.name.as_ref().into();
                    join.uuid = login.uuid(join.protocol);
                }
                out.extend_from_slice(&self.replies.kick);
                return Ok(Progress::Close(bytes.len()));
            }
            State::Status if !message::is_ping(whole) => {
                message::read_status_request(&mut r)?;
                r.end()?;
                self.status(out);
                self.state = State::Replied;
            }
            _ => {
                let payload = message::read_ping(&mut r)?;
                r.end()?;
                message::write_ping(payload, out);
                return Ok(Progress::Close(bytes.len()));
            }
        }
        Ok(Progress::Consumed(packet.end))
    }

    /// Checks the start of an incomplete packet, so that other protocols do not have to wait.
    fn incomplete(&self, bytes: &[u8], total: usize) -> Result<Progress, Error> {
        let too_short = Error::bad("packet length", 0, "that of the handshake");
        if self.state == State::Start {
            if total < MIN_HANDSHAKE_BYTES {
                return Err(too_short);
            }
            let mut notes = Notes::discarding();
            let mut r = Reader::new(bytes, &mut notes);
            match Handshake::read(&mut r) {
                Err(Error {
                    kind: ErrorKind::Short { need },
                    ..
                }) if bytes.len() + need <= total => {}
                // The handshake is longer than the packet.
                Err(Error {
                    kind: ErrorKind::Short { .. },
                    ..
                }) => return Err(too_short),
                Err(error) => return Err(error),
                // A whole handshake in a longer packet.
                Ok(_) => return Err(too_short),
            }
        }
        Ok(Progress::Short)
    }

    fn handshake(&mut self, handshake: &Handshake<'_>) {
        self.protocol = handshake.protocol;
        self.state = match handshake.intent {
            Intent::Status => State::Status,
            Intent::Login | Intent::Transfer => {
                self.join = Some(JoinAttempt {
                    name: Default::default(),
                    uuid: None,
                    host: handshake.host_name().into(),
                    port: handshake.port,
                    protocol: handshake.protocol,
                });
                State::Login
            }
        };
    }

    fn status(&self, out: &mut Vec<u8>) {
        let protocol = match (self.replies.protocol, self.protocol) {
            (Some(protocol), _) => protocol,
            (None, client) if client < 0 => NEWEST,
            (None, client) => client,
        };
        let number = format!("{protocol}");
        write_packet_with(
            &[&self.replies.head, number.as_bytes(), &self.replies.tail],
            out,
        );
    }

    /// Replies to a request in one of the forms before 1.7.
    fn legacy(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let mut notes = Notes::discarding();
        let mut r = Reader::new(bytes, &mut notes);
        match LegacyRequest::read(&mut r) {
            // The start of another form, until a pause shows that nothing follows.
            Ok(request) if request.form == LegacyForm::Beta => return Ok(Progress::Short),
            Ok(_) => {}
            // A 1.6 form in several segments, or without its end.
            Err(Error {
                kind: ErrorKind::Short { .. },
                ..
            }) => return Ok(Progress::Short),
            // minecraft-server-util sends the 1.6 form in bytes instead of UTF-16. Three bytes are
            // enough to know that a reply is expected.
            Err(_) if bytes.starts_with(message::FULL_START) => {}
            Err(error) => return Err(error),
        }
        out.extend_from_slice(&self.replies.legacy);
        Ok(Progress::Close(bytes.len()))
    }

    /// Kicks a player of a version before 1.7.
    fn legacy_login(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, Error> {
        let Some(login) = LegacyLogin::read(bytes)? else {
            return Ok(Progress::Short);
        };
        self.join = Some(JoinAttempt {
            name: login.name.into(),
            uuid: None,
            host: message::host_name(&login.host).into(),
            port: login.port.unwrap_or(0),
            protocol: login.protocol.map_or(0, i32::from),
        });
        out.extend_from_slice(&self.replies.legacy_kick);
        Ok(Progress::Close(bytes.len()))
    }
}
