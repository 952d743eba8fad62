//! Perfect Dark, PC port: host, players, stage and scenario. UDP.
//!
//! ```text
//!   client                server
//!     "PDQM" 01     ─►
//!        ◄─  "PDQM" 01 length version flags counts stage scenario host ROM mod checksum
//! ```
//!
//! Little-endian. The client's address is not verified.
//!
//! Limits of the responder: at most 64 bytes of the name, 16 of the ROM and 24 of the mod folder; in
//! short replies 40 of the name only (spec/perfect-dark.md#8).

use crate::model::{Extra, Status, Text, Value, without_controls};
use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Amplification, Doc, Fault, Info, Responder, Verdict};
use crate::sample::Server;
use crate::token::Epoch;
use crate::wire::{Error, Reader, Writer, by_content, cut, deviations, filled, first_nul};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

deviations! {
    SUM_CHECKSUM "sum-checksum" "the checksum is the sum of the wiki";
    WRONG_CHECKSUM "wrong-checksum" "the checksum is neither that of the server nor that of the wiki";
    WRONG_LENGTH "wrong-length" "the length of the datagram is another one";
    FURTHER_FIELDS "further-fields" "bytes follow the mod folder before the checksum";
}

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "perfect-dark",
        title: "Perfect Dark (PC port)",
        port: 27_100,
        declares_charset: false,
        amplification: Amplification {
            request: REQUEST.len(),
            reply: MAX_REPLY,
        },
        fields: &[
            Doc::new("protocol", "Version of the game's network protocol"),
            Doc::new(
                "in-progress",
                "Whether a game is in progress; players can join only before it",
            ),
            Doc::new("flags", "All flags, if the server sets unknown ones"),
            Doc::new("stage", "Number of the stage"),
            Doc::new("scenario", "Number of the scenario, if it has no name"),
            Doc::new("rom", "Id of the ROM, such as `ntsc-final`"),
            Doc::new("mod", "Name of the mod folder"),
        ],
        deviations: ALL,
        has_responder: true,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::constant("request", "magic", REQUEST).certain(),
        Message::request("request of a kind", Mark::Is(is_request), |r| {
            r.constant(REQUEST, "magic")?;
            r.u8("kind").map(|_| ())
        })
        .certain(),
        Message::reply("reply", Mark::Start(REQUEST)).certain(),
    ],
    read,
    responder: Some(|status, _, options| {
        options.check(&[])?;
        Ok(Arc::new(PerfectDarkResponder::new(status)))
    }),
    sample: sample_status,
    ..OneDatagram::PLAIN
};

/// The request, and the start of a reply.
const REQUEST: &[u8] = b"PDQM\x01";
/// Length of the checksum in bytes.
const CHECKSUM: usize = 2;
/// Length of a reply in bytes, without the bytes of its texts.
const FRAME: usize = 16 + 3 * 3 + CHECKSUM;
/// Longest texts in bytes: name, ROM and mod folder.
const MAX_TEXTS: [usize; 3] = [64, 16, 24];
/// Longest texts of a short reply, which has at most 3 times the bytes of the request, with headers.
const SHORT_TEXTS: [usize; 3] = [40, 0, 0];
/// Longest reply in bytes.
const MAX_REPLY: usize = FRAME + MAX_TEXTS[0] + MAX_TEXTS[1] + MAX_TEXTS[2];
/// ROM of a status without one.
const USUAL_ROM: &str = "ntsc-final";
/// Flag of a game in progress.
const IN_PROGRESS: u8 = 1;
/// Stage of the lobby.
const INSTITUTE: u8 = 0x26;

/// Names of the scenarios.
const SCENARIOS: [&str; 6] = [
    "Combat",
    "Hold the Briefcase",
    "Hacker Central",
    "Pop a Cap",
    "King of the Hill",
    "Capture the Case",
];

/// Stages of the combat simulator.
const STAGES: [(u8, &str); 16] = [
    (0x17, "Ravine"),
    (0x1F, "Complex"),
    (0x20, "G5 Building"),
    (0x25, "Temple"),
    (0x29, "Pipes"),
    (0x32, "Skedar"),
    (0x39, "Base"),
    (0x3B, "Area 52"),
    (0x3C, "Warehouse"),
    (0x3D, "Car Park"),
    (0x41, "Ruins"),
    (0x42, "Sewers"),
    (0x43, "Felicity"),
    (0x44, "Fortress"),
    (0x45, "Villa"),
    (0x47, "Grid"),
];

/// Returns whether bytes are a request. One fork has a sixth byte (spec/perfect-dark.md#2).
fn is_request(bytes: &[u8]) -> bool {
    bytes.starts_with(REQUEST) && bytes.len() <= REQUEST.len() + 1
}

/// Reads a reply (spec/perfect-dark.md#3).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    r.constant(REQUEST, "magic")?;
    let length_at = r.at();
    let length = r.u16_le("length")?;
    status
        .extra
        .push(Extra::new("protocol", i64::from(r.u32_le("version")?)));
    let flags = r.u8("flags")?;
    let is_in_progress = flags & IN_PROGRESS != 0;
    status.extra.push(Extra::new("in-progress", is_in_progress));
    let unknown = (flags & !IN_PROGRESS != 0).then_some(flags);
    status.add_extra("flags", unknown.map(i64::from));
    status.players.online = Some(r.u8("players")?.into());
    status.players.max = Some(r.u8("max players")?.into());
    let stage = r.u8("stage")?;
    status.extra.push(Extra::new("stage", i64::from(stage)));
    let known = STAGES.iter().find(|(number, _)| *number == stage);
    status.map = known.map(|(_, name)| (*name).into());
    let scenario = r.u8("scenario")?;
    let name = SCENARIOS.get(usize::from(scenario));
    status.mode = name.map(|name| (*name).into());
    let unknown = name.is_none().then_some(scenario);
    status.add_extra("scenario", unknown.map(i64::from));
    let host = text(r, "host")?;
    status.name = (!host.is_empty()).then(|| Text::by_content(host));
    status.add_extra("rom", filled(text(r, "ROM")?).map(Value::Str));
    status.add_extra("mod", filled(text(r, "mod folder")?).map(Value::Str));
    let at = r.at();
    let further = r.remaining().saturating_sub(CHECKSUM);
    if further > 0 {
        r.raw(further, "further fields")?;
        r.notes().deviation(&FURTHER_FIELDS, at);
    }
    let at = r.at();
    let summed = r.whole().get(..at).unwrap_or_default();
    match r.u16_le("checksum")? {
        sum if sum == checksum(summed) => {}
        sum if sum == wiki_checksum(summed) => r.notes().deviation(&SUM_CHECKSUM, at),
        _ => r.notes().deviation(&WRONG_CHECKSUM, at),
    }
    if usize::from(length) != r.whole().len() {
        r.notes().deviation(&WRONG_LENGTH, length_at);
    }
    Ok(())
}

/// Reads a text after its length, which counts the NUL.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let length = u16::from_le_bytes(r.array(field)?);
    let text = r.take(length.into(), field)?;
    let text = first_nul(text).and_then(|end| text.get(..end));
    let text = text.ok_or(Error::bad(field, at, "a text that ends with a NUL"))?;
    r.note(at, field, || format!("{:?}", by_content(text).0));
    Ok(text)
}

/// Returns the checksum of a reply (spec/perfect-dark.md#5).
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |sum: u16, byte| {
        let mut x = sum >> 8 ^ u16::from(*byte);
        x ^= x >> 4;
        sum.wrapping_add(sum << 8 ^ x << 12 ^ x << 5 ^ x)
    })
}

/// Returns the checksum that the wiki describes.
fn wiki_checksum(bytes: &[u8]) -> u16 {
    let add = |sum: u32, byte: &u8| sum.wrapping_add(u32::from(*byte)) % 65_521;
    bytes.iter().fold(1, add) as u16
}

/// Responder of one server.
struct PerfectDarkResponder {
    reply: Vec<u8>,
    short_reply: Vec<u8>,
}

impl PerfectDarkResponder {
    fn new(status: &Status) -> Self {
        let names = status.name.iter().chain(&status.motd);
        let mut names = names.map(|name| without_controls(&name.plain()));
        let name = names.find(|name| !name.trim().is_empty());
        let texts = [
            name.unwrap_or_default(),
            text_of(status, "rom").unwrap_or_else(|| USUAL_ROM.into()),
            text_of(status, "mod").unwrap_or_default(),
        ];
        let head = head(status);
        Self {
            reply: write(&head, &texts, MAX_TEXTS),
            short_reply: write(&head, &texts, SHORT_TEXTS),
        }
    }
}

/// Returns the part of a reply from the version to the scenario.
fn head(status: &Status) -> Vec<u8> {
    let stage = number_of(status, "stage").or_else(|| {
        let map = status.map.as_deref()?;
        let mut stages = STAGES.iter();
        let stage = stages.find(|(_, name)| map.eq_ignore_ascii_case(name))?;
        Some(stage.0)
    });
    let scenario = number_of(status, "scenario").or_else(|| {
        let mode = status.mode.as_deref()?;
        let mut names = SCENARIOS.iter();
        u8::try_from(names.position(|name| mode.eq_ignore_ascii_case(name))?).ok()
    });
    let version = match status.extra("protocol") {
        Some(Value::Int(version)) => u32::try_from(*version).ok(),
        _ => None,
    };
    let is_in_progress = status.extra("in-progress") == Some(&Value::Bool(true));
    let flags = number_of(status, "flags").unwrap_or(u8::from(is_in_progress) * IN_PROGRESS);
    let count = |number: i64| number.clamp(0, u8::MAX.into()) as u8;
    let mut out = Vec::new();
    let mut w = Writer(&mut out);
    w.u32_le(version.unwrap_or(0)).u8(flags);
    w.u8(count(status.players.count()));
    w.u8(count(status.players.max.unwrap_or(0)));
    w.u8(stage.unwrap_or(INSTITUTE)).u8(scenario.unwrap_or(0));
    out
}

/// Returns a reply with texts of at most these lengths.
fn write(head: &[u8], texts: &[String; 3], limits: [usize; 3]) -> Vec<u8> {
    let mut body = Vec::from(head);
    for (text, limit) in texts.iter().zip(limits) {
        let text = cut(text, limit);
        let mut w = Writer(&mut body);
        w.u16_le(text.len() as u16 + 1).bytes(text.as_bytes()).u8(0);
    }
    let length = REQUEST.len() + 2 + body.len() + CHECKSUM;
    let mut out = Vec::with_capacity(length);
    let mut w = Writer(&mut out);
    w.bytes(REQUEST).u16_le(length as u16).bytes(&body);
    let sum = checksum(&out);
    Writer(&mut out).u16_le(sum);
    out
}

/// Returns an extra that is a number of one byte.
fn number_of(status: &Status, key: &str) -> Option<u8> {
    match status.extra(key) {
        Some(Value::Int(number)) => u8::try_from(*number).ok(),
        _ => None,
    }
}

/// Returns an extra that is a text, without control characters.
fn text_of(status: &Status, key: &str) -> Option<String> {
    match status.extra(key) {
        Some(Value::Str(text)) => Some(without_controls(text)),
        _ => None,
    }
}

impl Responder for PerfectDarkResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !is_request(bytes) {
            return Verdict::Pass;
        }
        out.extend_from_slice(&self.reply);
        Verdict::Reply { is_verified: false }
    }

    /// Returns the reply with a shorter name, without ROM and mod folder (spec/perfect-dark.md#8).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let is_request = is_request(request);
        if is_request {
            out.extend_from_slice(&self.short_reply);
        }
        is_request
    }
}

fn sample_status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let (stage, map) = server.random.pick(&STAGES);
    let mode = server.random.text(&SCENARIOS);
    let is_in_progress = server.random.below(2) == 0;
    let name = Text::unformatted(server.name.clone());
    let mut status = server.counts();
    status.name = Some(name);
    status.map = Some(map.into());
    status.mode = Some(mode.into());
    status.extra = [
        Extra::new("protocol", 12),
        Extra::new("in-progress", is_in_progress),
        Extra::new("stage", i64::from(stage)),
        Extra::new("rom", USUAL_ROM),
    ]
    .into();
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Notes;

    #[test]
    fn replies_are_bounded() {
        let long = "\u{4E2D}".repeat(100);
        let mut status = Status {
            name: Some(Text::unformatted(long.clone())),
            map: Some("skedar".into()),
            mode: Some("pop a cap".into()),
            ..Status::default()
        };
        status.extra.push(Extra::new("rom", "ntsc-final"));
        status.extra.push(Extra::new("mod", long));
        let responder = PerfectDarkResponder::new(&status);
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut out = Vec::new();
        let verdict = responder.answer(from, Epoch(1), REQUEST, &mut out);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert!(out.len() <= MAX_REPLY, "{}", out.len());
        let mut found = Status::default();
        let mut notes = Notes::default();
        read(&mut Reader::new(&out, &mut notes), &mut found).unwrap();
        assert_eq!(notes.met().count(), 0);
        assert_eq!(found.map.as_deref(), Some("Skedar"));
        assert_eq!(found.mode.as_deref(), Some("Pop a Cap"));
        let mut short = Vec::new();
        assert!(responder.short_reply(REQUEST, &mut short));
        assert!(short.len() + 28 <= 3 * (REQUEST.len() + 28));
        // A reply begins with a request.
        assert!(!responder.short_reply(&out, &mut Vec::new()));
        let verdict = responder.answer(from, Epoch(1), &out, &mut Vec::new());
        assert_eq!(verdict, Verdict::Pass);
    }

    #[test]
    fn checksums() {
        assert_eq!(checksum(REQUEST), 0xB64C);
        assert_eq!(wiki_checksum(REQUEST), 0x50 + 0x44 + 0x51 + 0x4D + 2);
    }
}
