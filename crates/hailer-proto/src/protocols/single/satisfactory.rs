//! Satisfactory: the lightweight query of dedicated servers, since 1.0 and before it. UDP.
//!
//! ```text
//!   client                            server
//!     D5 F6 00 01 cookie 01     ─►
//!                 ◄─  D5 F6 01 01 cookie state build flags parts name 01
//! ```
//!
//! Little-endian. The client's address is not verified. Replies are short
//! (spec/satisfactory.md#8).
//!
//! Limits: the name that the responder sends has at most 100 bytes, in short replies 60.

use crate::model::{Codes, Extra, Status, Text, Value, without_controls};
use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Amplification, Ask, Cookie, Doc, Fault, Info, Responder, Verdict};
use crate::sample::Server;
use crate::token::Epoch;
use crate::wire::{Error, Notes, Reader, by_content, cut, deviations, hexadecimal};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::{format, vec::Vec};
use core::net::SocketAddr;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "satisfactory",
        title: "Satisfactory",
        port: 7777,
        place: 14,
        amplification: Amplification {
            request: REQUEST,
            reply: SHORTEST_REPLY + MAX_NAME,
        },
        fields: &[
            Doc::new(
                "state",
                "State: `offline`, `idle` (no save is loaded), `loading`, `playing`, or a number",
            ),
            Doc::new("modded", "Whether the server has mods"),
            Doc::new("flags", "All flags, if the server sets unknown ones"),
            Doc::new(
                "parts",
                "Parts of the state with the number of their last change",
            ),
            Doc::new("beacon-port", "Port of the beacon, before 1.0"),
        ],
        deviations: ALL,
        has_responder: true,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::request("poll", Mark::Start(b"\xD5\xF6\0"), read_request).certain(),
        Message::request("legacy poll", Mark::Is(is_legacy_request), read_request),
        Message::reply("state", Mark::Start(b"\xD5\xF6\x01")).certain(),
        Message::reply("legacy state", Mark::Is(is_legacy_reply)),
    ],
    requests: Some(requests),
    is_answer: |request, reply, _| cookie_of(request) == cookie_of(reply),
    read,
    responder: Some(|status, _, options| {
        options.check(PROTOCOL.info.options)?;
        Ok(Arc::new(SatisfactoryResponder::new(status)))
    }),
    sample: |seed| {
        let mut server = Server::new(seed);
        let state = server.random.pick(&["idle", "loading", "playing"]);
        let is_modded = server.random.below(3) == 0;
        Status {
            name: Some(Text::unformatted(server.name)),
            version: Some("416835".into()),
            extra: [Extra::new("state", state), Extra::new("modded", is_modded)].into(),
            ..Status::default()
        }
    },
};

/// Starts every message since 1.0.
const MAGIC: &[u8] = b"\xD5\xF6";
/// Type and version of a request and of a reply.
const POLL: &[u8] = &[0, 1];
const STATE: &[u8] = &[1, 1];
/// Starts of a request and of a reply before 1.0.
const LEGACY_POLL: &[u8] = &[0, 0];
const LEGACY_STATE: &[u8] = &[1, 0];
/// Ends every message since 1.0.
const END: &[u8] = &[1];
/// Length of a request in bytes.
const REQUEST: usize = 13;
/// Length of a reply without name and parts, in bytes.
const SHORTEST_REPLY: usize = 29;
/// Default port of queries before 1.0.
const LEGACY_PORT: u16 = 15_777;
/// Flag of a server with mods.
const FLAG_MODDED: u64 = 1;
/// Names of the states.
const STATES: [&str; 4] = ["offline", "idle", "loading", "playing"];
/// Names of the parts of a state.
const PARTS: [&str; 4] = ["server-state", "options", "advanced-settings", "saves"];

fn is_legacy_request(bytes: &[u8]) -> bool {
    bytes.len() == 10 && bytes.starts_with(LEGACY_POLL)
}

fn is_legacy_reply(bytes: &[u8]) -> bool {
    bytes.len() == 17 && bytes.starts_with(LEGACY_STATE)
}

/// Returns the cookie of a message.
fn cookie_of(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(MAGIC).unwrap_or(bytes);
    rest.get(2..10)
}

/// Returns the request since 1.0 and the one before, that of the port first.
fn requests(ask: &Ask, cookie: Cookie) -> Vec<Vec<u8>> {
    let cookie = &cookie.derive(0).to_le_bytes()[..];
    let mut requests = Vec::from([
        [MAGIC, POLL, cookie, END].concat(),
        [LEGACY_POLL, cookie].concat(),
    ]);
    if ask.to.port == LEGACY_PORT {
        requests.reverse();
    }
    requests
}

fn read_request(r: &mut Reader<'_, '_>) -> Result<(), Error> {
    let is_legacy = is_legacy_request(r.whole());
    if is_legacy {
        r.constant(LEGACY_POLL, "type")?;
    } else {
        r.constant(MAGIC, "magic")?;
        r.constant(POLL, "type and version")?;
    }
    read_cookie(r)?;
    if !is_legacy {
        r.constant(END, "end")?;
    }
    r.end()
}

fn read_cookie(r: &mut Reader<'_, '_>) -> Result<(), Error> {
    let at = r.at();
    let cookie: [u8; 8] = r.array("cookie")?;
    r.note(at, "cookie", || hexadecimal(&cookie));
    Ok(())
}

/// Reads a reply (spec/satisfactory.md#3 and #6).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let is_legacy = is_legacy_reply(r.whole());
    if is_legacy {
        r.constant(LEGACY_STATE, "type")?;
    } else {
        r.constant(MAGIC, "magic")?;
        r.constant(STATE, "type and version")?;
    }
    read_cookie(r)?;
    let state = r.u8("state")?;
    let name = STATES.get(usize::from(state));
    let state = name.map_or(Value::Int(state.into()), |name| Value::from(*name));
    status.add_extra("state", Some(state));
    let build = r.u32_le("build")?;
    status.version = (build != 0).then(|| build.to_string().into());
    if is_legacy {
        let port = r.u16_le("beacon port")?;
        status.add_extra("beacon-port", Some(i64::from(port)));
        return Ok(());
    }
    let flags = r.u64_le("flags")?;
    status.add_extra("modded", Some(flags & FLAG_MODDED != 0));
    let has_others = flags & !FLAG_MODDED != 0;
    status.add_extra("flags", has_others.then_some(flags as i64));
    let mut parts = Vec::new();
    for index in 0..usize::from(r.u8("number of parts")?) {
        r.notes().group("parts", index);
        parts.push((r.u8("id")?, r.u16_le("version")?));
    }
    r.notes().ungroup();
    let length = r.u16_le("length of the name")?;
    let at = r.at();
    let name = r.take(length.into(), "name")?;
    r.note(at, "name", || format!("{:?}", by_content(name).0));
    status.name = (!name.is_empty()).then(|| Text::by_content(name));
    r.constant(END, "end")?;
    r.trailing(&TRAILING_BYTES);
    let parts = parts.into_iter().map(|(id, version)| {
        let name = PARTS.get(usize::from(id));
        let name = name.map_or_else(|| format!("part-{id}").into(), |name| (*name).into());
        (name, Value::Int(version.into()))
    });
    let parts: Vec<_> = parts.collect();
    status.add_extra("parts", (!parts.is_empty()).then_some(Value::Table(parts)));
    Ok(())
}

/// Longest name of the responder in bytes.
const MAX_NAME: usize = 100;
/// Longest name of a short reply in bytes: with headers, it is at most 3 times as long as the
/// request.
const TINY_NAME: usize = 60;
/// State of a server whose status has none: playing.
const PLAYING: u8 = 3;

/// Responder of one server: the replies after the cookie, encoded once (spec/satisfactory.md#7).
struct SatisfactoryResponder {
    body: Vec<u8>,
    tiny_body: Vec<u8>,
}

impl SatisfactoryResponder {
    fn new(status: &Status) -> Self {
        let status = &*status.with_codes(Codes::None);
        let names = status.name.iter().chain(&status.motd);
        let mut names = names.map(|name| without_controls(&name.plain()));
        let name = names.find(|name| !name.trim().is_empty());
        let name = name.unwrap_or_default();
        let build = status.version.as_deref();
        let build: u32 = build.and_then(|build| build.parse().ok()).unwrap_or(0);
        let state = match status.extra("state") {
            Some(Value::Str(name)) => STATES.iter().position(|state| state == name),
            Some(Value::Int(state)) => usize::try_from(*state).ok(),
            _ => None,
        };
        let state = state.and_then(|state| u8::try_from(state).ok());
        let is_modded = status.extra("modded") == Some(&Value::Bool(true));
        let flags = match status.extra("flags") {
            Some(Value::Int(flags)) => *flags as u64,
            _ if is_modded => FLAG_MODDED,
            _ => 0,
        };
        let body = |limit: usize| {
            let name = cut(&name, limit);
            let mut out = Vec::from([state.unwrap_or(PLAYING)]);
            out.extend(build.to_le_bytes());
            out.extend(flags.to_le_bytes());
            out.push(0);
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name.bytes());
            out.extend(END);
            out
        };
        Self {
            body: body(MAX_NAME),
            tiny_body: body(TINY_NAME),
        }
    }
}

fn write_reply(request: &[u8], body: &[u8], out: &mut Vec<u8>) {
    out.extend(MAGIC);
    out.extend(STATE);
    out.extend(request.iter().skip(4).take(8));
    out.extend(body);
}

fn is_request(bytes: &[u8]) -> bool {
    read_request(&mut Reader::new(bytes, &mut Notes::discarding())).is_ok()
}

impl Responder for SatisfactoryResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !bytes.starts_with(b"\xD5\xF6\0") {
            return Verdict::Pass;
        }
        if !is_request(bytes) {
            return Verdict::Drop("malformed");
        }
        write_reply(bytes, &self.body, out);
        Verdict::Reply { is_verified: false }
    }

    /// Returns the reply with a shorter name (spec/satisfactory.md#7).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let is_usual = request.starts_with(MAGIC) && is_request(request);
        if is_usual {
            write_reply(request, &self.tiny_body, out);
        }
        is_usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use crate::token::Keys;

    #[test]
    fn messages_both_ways() {
        let sample = PROTOCOL.sample(4);
        let responder = SatisfactoryResponder::new(&sample);
        let requests = requests(&Ask::default(), Cookie(7));
        for request in &requests {
            assert!(is_request(request));
            assert!((0..request.len()).all(|end| !is_request(&request[..end])));
        }
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut reply = Vec::new();
        responder.answer(from, Epoch(1), &requests[0], &mut reply);
        assert_eq!(cookie_of(&reply), cookie_of(&requests[0]));
        assert_eq!(cookie_of(&reply), cookie_of(&requests[1]));
        let read = |bytes: &[u8]| {
            let mut status = Status::default();
            let mut notes = Notes::default();
            read(&mut Reader::new(bytes, &mut notes), &mut status).map(|()| status)
        };
        assert_eq!(read(&reply), Ok(sample));
        for end in 0..reply.len() {
            assert!(read(&reply[..end]).is_err());
        }
    }

    #[test]
    fn replies_are_bounded() {
        let mut status = Status {
            name: Some(Text::unformatted("\u{4E2D}".repeat(100))),
            version: Some("416835".into()),
            ..Status::default()
        };
        status.extra.push(Extra::new("state", "idle"));
        status.extra.push(Extra::new("modded", true));
        let keys = Keys::new([7; 16]);
        let responder = PROTOCOL.responder(&status, &keys, &crate::Options::default());
        let responder = responder.unwrap();
        let request = b"\xD5\xF6\0\x01hailer07\x01";
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut out = Vec::new();
        let verdict = responder.answer(from, Epoch(1), request, &mut out);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        let start = b"\xD5\xF6\x01\x01hailer07\x01\x43\x5C\x06\0\x01\0\0\0\0\0\0\0\0\x63\0";
        assert!(out.starts_with(start), "{out:02x?}");
        assert!(out.len() <= SHORTEST_REPLY + MAX_NAME);
        let mut short = Vec::new();
        assert!(responder.short_reply(request, &mut short));
        assert!(short.len() + 28 <= 3 * (REQUEST + 28), "{}", short.len());
        for (other, verdict) in [
            (&out[..], Verdict::Pass),
            (&request[..12], Verdict::Drop("malformed")),
            (b"\0\0hailer07", Verdict::Pass),
            (b"", Verdict::Pass),
        ] {
            assert_eq!(
                responder.answer(from, Epoch(1), other, &mut Vec::new()),
                verdict
            );
        }
    }
}
