//! The responder: one pong, encoded once (spec/minecraft-bedrock.md#10).
//!
//! Limits: the text of a pong has at most 380 bytes, and that of a short reply at most 96.

use super::message::{self, MODES, Ping};
use crate::model::{Codes, Status, Text, Value, is_control};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::Epoch;
use crate::wire::{Notes, cut};
use alloc::{format, string::String, vec::Vec};
use core::net::SocketAddr;

/// Longest text of a pong in bytes. Clients of the game accept 397, of which a part may be reserved.
const MAX_TEXT: usize = 380;
/// Longest text of a short reply in bytes: with headers, the reply to the shortest ping is at most 3
/// times as long.
const MAX_SHORT_TEXT: usize = 96;
/// Length of the longest pong.
pub(super) const MAX_REPLY: usize = message::PONG_HEADER + 2 + MAX_TEXT;
/// Longest version, in bytes.
const MAX_VERSION: usize = 16;
/// Longest second line in bytes.
const MAX_LEVEL: usize = 100;
/// Length of the longest character, in bytes. Name and second line keep at least one character.
const MAX_CHARACTER: usize = 4;
/// Second line if the status has none. Clients hide servers whose second line is empty.
const DEFAULT_LEVEL: &str = "Hailer";
/// Name if the status has none.
const DEFAULT_NAME: &str = "Minecraft server";
const DEFAULT_PORT: i64 = 19_132;

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "protocol",
        "Number of the game's protocol; by default that of the status, else 0; clients of the game mark the server \
               as outdated if it is not theirs",
    ),
    Doc::new(
        "guid",
        "Number of the server; by default that of the status, else derived from the name",
    ),
    Doc::new(
        "edition",
        "\"MCPE\" or \"MCEE\" (Education Edition); by default that of the status, else \"MCPE\"",
    ),
    Doc::new(
        "look-open",
        "true reports one slot more than players on a full server, so that clients can try to join; default false",
    ),
];

/// Options of the responder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BedrockConfig {
    /// Number of the game's protocol; `None` takes it from the status.
    pub protocol: Option<u32>,
    /// Number of the server; `None` takes it from the status or derives it from the name.
    pub guid: Option<u64>,
    /// Whether to identify as Education Edition; `None` takes it from the status.
    pub is_education: Option<bool>,
    /// Whether a full server reports one slot more than players.
    pub has_open_slot: bool,
}

impl BedrockConfig {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let int = |key, max: i64| -> Result<Option<i64>, OptionError> {
            options
                .value(key)
                .map(|_| options.int(key, 0, 0..=max))
                .transpose()
        };
        let edition = options.word("edition", &["MCPE", "MCEE"])?;
        Ok(Self {
            protocol: int("protocol", i64::from(u32::MAX))?.map(|number| number as u32),
            guid: int("guid", i64::MAX)?.map(|number| number as u64),
            is_education: edition.map(|edition| edition == "MCEE"),
            has_open_slot: options.bool("look-open", false)?,
        })
    }
}

/// Responder of one server.
#[derive(Debug)]
pub struct BedrockResponder {
    guid: u64,
    /// Whether the server has free slots.
    is_open: bool,
    /// Length of the text and the text.
    text: Vec<u8>,
    /// The same for short replies.
    short_text: Vec<u8>,
}

impl BedrockResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, config: &BedrockConfig) -> Self {
        let status = &*status.with_codes(Codes::Bedrock);
        let texts = status.name.iter().chain(&status.motd);
        let lines = texts.flat_map(|text| text.raw().lines().map(field));
        let mut lines =
            lines.filter(|line| !Text::bedrock(line.as_str()).plain().trim().is_empty());
        let name = lines.next().unwrap_or_else(|| DEFAULT_NAME.into());
        let guid = match status.extra("guid") {
            _ if config.guid.is_some() => config.guid,
            Some(Value::Str(guid)) => guid.parse().ok(),
            _ => None,
        };
        let guid = guid.unwrap_or_else(|| hash(&name));
        let count = |count: i64| count.clamp(0, i64::from(i32::MAX));
        let online = count(status.players.count());
        let max = count(status.players.max.unwrap_or(0));
        let is_open = online < max;
        let max = if config.has_open_slot && !is_open {
            online + 1
        } else {
            max
        };
        let text = |key| match status.extra(key) {
            Some(Value::Str(text)) => Some(field(text)),
            _ => None,
        };
        let int = |key| match status.extra(key) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        };
        let is_education = config
            .is_education
            .unwrap_or_else(|| text("edition").as_deref() == Some("MCEE"));
        let protocol = config
            .protocol
            .map(i64::from)
            .or_else(|| int("protocol"))
            .unwrap_or(0)
            .clamp(0, i64::from(u32::MAX));
        let map = status.map.as_deref().map(field);
        let level = text("level-name").or(map).or_else(|| lines.next());
        let level = level.filter(|level| !level.trim().is_empty());
        let level = level.unwrap_or_else(|| DEFAULT_LEVEL.into());
        let version = field(status.version.as_deref().unwrap_or_default());
        let version = Some(cut(&version, MAX_VERSION)).filter(|version| !version.is_empty());
        let mode = status.mode.as_deref().unwrap_or_default();
        let mode = MODES.iter().find(|known| known.eq_ignore_ascii_case(mode));
        let port = status.address.as_ref().and_then(|address| address.port);
        let port = port.map_or(DEFAULT_PORT, i64::from).max(1);
        let ipv6_port = int("ipv6-port").unwrap_or(DEFAULT_PORT + 1);
        let advertisement = Parts {
            name: &name,
            level: cut(&level, MAX_LEVEL),
            before: format!(
                "{protocol};{};{online};{max};{guid};",
                version.unwrap_or("0")
            ),
            edition: if is_education { "MCEE;" } else { "MCPE;" },
            after: format!(
                "{};{};{port};{};",
                mode.copied().unwrap_or("Survival"),
                int("number").unwrap_or(1).clamp(0, 1),
                ipv6_port.clamp(1, 65_535)
            ),
        };
        Self {
            guid,
            is_open,
            text: advertisement.encode(MAX_TEXT),
            short_text: advertisement.encode(MAX_SHORT_TEXT),
        }
    }

    /// Returns the number of a ping that is to be answered, or the reason to drop it.
    fn admit(&self, bytes: &[u8]) -> Result<u64, &'static str> {
        let ping = Ping::read(bytes, &mut Notes::discarding()).map_err(|_| "malformed")?;
        if ping.is_for_open && ping.guid.is_none() {
            return Err("malformed");
        }
        if ping.is_for_open && !self.is_open {
            return Err("full");
        }
        Ok(ping.time)
    }
}

impl Responder for BedrockResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !message::is_ping(bytes) {
            return Verdict::Pass;
        }
        match self.admit(bytes) {
            Err(reason) => Verdict::Drop(reason),
            Ok(time) => {
                message::write_pong_header(time, self.guid, out);
                out.extend_from_slice(&self.text);
                Verdict::Reply { is_verified: false }
            }
        }
    }

    /// Returns a pong with a shorter name and second line (spec/minecraft-bedrock.md#10).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let time = message::is_ping(request).then(|| self.admit(request));
        let Some(Ok(time)) = time else {
            return false;
        };
        message::write_pong_header(time, self.guid, out);
        out.extend_from_slice(&self.short_text);
        true
    }
}

/// The text of a pong, except for separators after name and second line.
struct Parts<'a> {
    edition: &'static str,
    name: &'a str,
    /// Fields between name and second line.
    before: String,
    level: &'a str,
    after: String,
}

impl Parts<'_> {
    /// Encodes length and text, of at most `limit` bytes. Cuts first the name, then the second
    /// line; below that, leaves out fields from the end.
    fn encode(&self, limit: usize) -> Vec<u8> {
        let start = self.edition.len() + ";".len() + self.before.len();
        let rest = ";".len() + self.after.len();
        let text = match limit.checked_sub(start + rest) {
            Some(room) if room >= 2 * MAX_CHARACTER => {
                let level = whole(self.level, room / 2);
                let name = whole(self.name, room - level.len());
                format!(
                    "{}{name};{}{level};{}",
                    self.edition, self.before, self.after
                )
            }
            _ => {
                let name = whole(self.name, limit.saturating_sub(start));
                format!("{}{name};{}", self.edition, self.before)
            }
        };
        let mut out = Vec::new();
        out.extend((text.len() as u16).to_be_bytes());
        out.extend(text.as_bytes());
        out
    }
}

/// Returns the start of a text, of at most `limit` bytes but at least one character, without half a
/// formatting code.
fn whole(text: &str, limit: usize) -> &str {
    let start = cut(text, limit);
    let start = if start.len() < text.len() {
        start.trim_end_matches('\u{A7}')
    } else {
        start
    };
    if start.is_empty() {
        text.chars()
            .next()
            .map_or(text, |first| cut(text, first.len_utf8()))
    } else {
        start
    }
}

/// Returns the lines of a text with their formatting codes.
/// Returns a text that can be a field: without control characters, separators and escapes.
fn field(text: &str) -> String {
    let kept = text.chars().filter(|&c| c != '\\' && !is_control(c));
    kept.map(|c| if c == ';' { ':' } else { c }).collect()
}

/// Returns a number below 2^63 for a name (FNV-1a).
fn hash(name: &str) -> u64 {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    });
    hash >> 1
}

#[cfg(test)]
mod tests {
    use super::super::message::Pong;
    use super::*;
    use crate::model::{Address, Extra};
    use alloc::string::ToString;
    use alloc::vec;

    const FROM: &str = "192.0.2.7:50000";

    fn ping(is_for_open: bool, guid: Option<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let time = 0x0102_0304_0506_0708;
        Ping {
            time,
            is_for_open,
            guid,
        }
        .write(&mut bytes);
        bytes
    }

    fn answer(responder: &BedrockResponder, request: &[u8]) -> (Verdict, Vec<u8>) {
        let mut out = Vec::new();
        let verdict = responder.answer(FROM.parse().unwrap(), Epoch(1), request, &mut out);
        (verdict, out)
    }

    fn text(status: &Status, config: &BedrockConfig) -> String {
        let (_, reply) = answer(&BedrockResponder::new(status, config), &ping(false, None));
        let length = usize::from(u16::from_be_bytes([reply[33], reply[34]]));
        assert_eq!(reply.len(), 35 + length);
        let mut notes = Notes::default();
        Pong::read(&reply, &mut notes).unwrap();
        assert_eq!(notes.met().count(), 0, "{:?}", notes.deviations());
        String::from_utf8(reply[35..].to_vec()).unwrap()
    }

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::bedrock("\u{A7}aHi; \\you\n\u{7}")),
            version: Some("1.21.60".into()),
            mode: Some("creative".into()),
            address: Some(Address {
                host: None,
                port: Some(19_140),
            }),
            extra: vec![
                Extra::new("edition", "MCEE"),
                Extra::new("protocol", 776),
                Extra::new("guid", "12"),
                Extra::new("level-name", "World"),
                Extra::new("number", 0),
                Extra::new("ipv6-port", 19_141),
            ],
            ..Status::default()
        };
        status.players.online = Some(3);
        status.players.max = Some(4);
        status
    }

    #[test]
    fn the_text_has_twelve_fields() {
        let config = BedrockConfig::default();
        assert_eq!(
            text(&status(), &config),
            "MCEE;\u{A7}aHi: you;776;1.21.60;3;4;12;World;Creative;0;19140;19141;"
        );
        let empty = text(&Status::default(), &config);
        let guid = hash("Minecraft server");
        assert_eq!(
            empty,
            format!("MCPE;Minecraft server;0;0;0;0;{guid};Hailer;Survival;1;19132;19133;")
        );
        let motd = Status {
            motd: Some(Text::legacy("\n\u{A7}a\nFirst\n \nSecond\nThird")),
            ..Status::default()
        };
        assert!(text(&motd, &config).starts_with("MCPE;First;0;0;0;0;"));
        assert!(text(&motd, &config).contains(";Second;Survival;"));
        let motd = Status {
            map: Some("m".into()),
            ..motd
        };
        assert!(text(&motd, &config).starts_with("MCPE;First;0;0;0;0;"));
        assert!(text(&motd, &config).contains(";m;Survival;"));
        let motd = Status {
            motd: Some(Text::legacy(
                "\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}8\u{A7}0\u{A7}0Orange",
            )),
            ..Status::default()
        };
        assert!(text(&motd, &config).starts_with("MCPE;\u{A7}6Orange;"));
    }

    /// FNV-1a.
    #[test]
    fn numbers_of_servers_are_stable() {
        assert_eq!(hash(""), 0xCBF2_9CE4_8422_2325 >> 1);
        assert_eq!(hash("a"), 0xAF63_DC4C_8601_EC8C >> 1);
        assert_eq!(hash("foobar"), 0x8594_4171_F739_67E8 >> 1);
    }

    #[test]
    fn only_cut_texts_lose_half_a_code() {
        assert_eq!(whole("ab\u{A7}", 4), "ab\u{A7}");
        assert_eq!(whole("ab\u{A7}c", 4), "ab");
        assert_eq!(whole("\u{4E2D}x", 2), "\u{4E2D}");
        assert_eq!(whole("", 0), "");
    }

    #[test]
    fn options_replace_the_status() {
        let options = Options::default()
            .with("protocol", 800)
            .with("guid", 5)
            .with("edition", "MCPE")
            .with("look-open", true);
        let config = BedrockConfig::read(&options).unwrap();
        let mut full = status();
        full.players.max = Some(3);
        assert!(text(&full, &config).contains(";800;1.21.60;3;4;5;"));
        full.players.max = Some(5);
        assert!(text(&full, &config).contains(";800;1.21.60;3;5;5;"));
        let zero = Options::default().with("protocol", 0).with("guid", 0);
        let zero = BedrockConfig::read(&zero).unwrap();
        assert_eq!((zero.protocol, zero.guid), (Some(0), Some(0)));
        let error = |key, value: Value| {
            let options = Options::default().with(key, value);
            BedrockConfig::read(&options).unwrap_err().to_string()
        };
        assert!(error("protocol", (-1).into()).contains("from 0 to 4294967295"));
        assert!(error("guid", "x".into()).contains("whole number"));
        assert!(error("edition", "Java".into()).contains("\"MCPE\", \"MCEE\""));
        assert!(error("look-open", 1.into()).contains("true or false"));
        assert!(error("challenge", true.into()).contains("known are protocol"));
    }

    #[test]
    fn only_pings_are_answered() {
        let mut status = status();
        let open = BedrockResponder::new(&status, &BedrockConfig::default());
        let reply = Verdict::Reply { is_verified: false };
        assert_eq!(answer(&open, &ping(false, Some(1))).0, reply);
        assert_eq!(answer(&open, &ping(false, None)).0, reply);
        assert_eq!(answer(&open, &ping(true, Some(1))).0, reply);
        assert_eq!(
            answer(&open, &ping(true, None)).0,
            Verdict::Drop("malformed")
        );
        assert_eq!(
            answer(&open, &ping(false, Some(1))[..30]).0,
            Verdict::Drop("malformed")
        );
        let (_, pong) = answer(&open, &ping(false, None));
        assert_eq!(pong[..9], [0x1C, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(pong[9..17], 12_u64.to_be_bytes());
        for other in [&pong[..], b"", b"\x01", b"\xFE\xFD\x09\0\0\0\x01", &[1; 33]] {
            assert_eq!(
                answer(&open, other),
                (Verdict::Pass, vec![]),
                "{other:02x?}"
            );
        }
        status.players.online = Some(4);
        let full = BedrockResponder::new(&status, &BedrockConfig::default());
        assert_eq!(
            answer(&full, &ping(true, Some(1))),
            (Verdict::Drop("full"), vec![])
        );
        assert_eq!(answer(&full, &ping(false, Some(1))).0, reply);
    }

    #[test]
    fn the_whole_limit_is_used() {
        let text = |unit: &str, before: usize, limit| {
            let parts = Parts {
                edition: "MCPE;",
                name: &unit.repeat(500),
                before: "b".repeat(before),
                level: &unit.repeat(500),
                after: "Survival;1;19132;19133;".into(),
            };
            String::from_utf8(parts.encode(limit)[2..].to_vec()).unwrap()
        };
        for limit in [MAX_SHORT_TEXT, MAX_TEXT] {
            // Without name and second line, the text has 30 bytes more than `before`.
            for before in 0..=71 {
                let room = limit.checked_sub(before + 30).filter(|room| *room >= 8);
                let is_whole = room.is_some();
                let names = text("x", before, limit);
                assert_eq!(names.len(), limit, "{before}");
                assert_eq!(names.ends_with("19133;"), is_whole, "{before}");
                if let (Some(room), Some((_, end))) = (room, names.rsplit_once('b')) {
                    let level = end.split_once(';').unwrap().0;
                    assert_eq!(level.len(), room / 2, "{before}: {names}");
                }
                for unit in ["\u{A7}a\u{4E2D}", "\u{1F600}", "\u{E9}"] {
                    let names = text(unit, before, limit);
                    assert!(names.len() <= limit, "{before}: {names}");
                    assert!(
                        names.len() + 2 * unit.len() > limit || !is_whole,
                        "{before}"
                    );
                    assert!(names.starts_with("MCPE;") && !names.starts_with("MCPE;;"));
                }
            }
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_codes() {
        let mut status = status();
        for unit in ["x", "\u{A7}a\u{4E2D}", "\u{1F600}"] {
            status.name = Some(Text::bedrock(unit.repeat(500)));
            status.extra[3] = Extra::new("level-name", unit.repeat(500));
            status.version = Some(unit.repeat(500).into());
            let text = text(&status, &BedrockConfig::default());
            assert!(
                (MAX_TEXT - 8..=MAX_TEXT).contains(&text.len()),
                "{}",
                text.len()
            );
            assert!(!text.contains("\u{A7};"));
        }
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        for (name, protocol) in [("x", 1), ("\u{4E2D}\u{4E2D}", i64::MAX)] {
            status.name = Some(Text::bedrock(name.repeat(300)));
            status.version = Some("\u{E9}".repeat(50).into());
            status.extra[1] = Extra::new("protocol", protocol);
            status.extra[2] = Extra::new("guid", u64::MAX.to_string());
            status.players.online = Some(i64::MAX);
            status.players.max = Some(i64::MAX);
            let responder = BedrockResponder::new(&status, &BedrockConfig::default());
            for request in [ping(false, None), ping(false, Some(1))] {
                let mut out = Vec::new();
                assert!(responder.short_reply(&request, &mut out));
                assert!(out.len() + 28 <= 3 * (request.len() + 28), "{}", out.len());
                let pong = Pong::read(&out, &mut Notes::default()).unwrap();
                let text = pong.text.unwrap();
                assert_eq!(
                    (text.online, text.max),
                    (Some(2_147_483_647), Some(2_147_483_647))
                );
                assert!(!text.name.is_empty());
            }
            assert!(
                !responder.short_reply(&ping(true, Some(1)), &mut Vec::new()),
                "full"
            );
            assert!(!responder.short_reply(b"game traffic", &mut Vec::new()));
        }
        let short = BedrockResponder::new(&self::status(), &BedrockConfig::default());
        let mut out = Vec::new();
        assert!(short.short_reply(&ping(false, None), &mut out));
        assert_eq!(
            out[35..],
            answer(&short, &ping(false, None)).1[35..],
            "fits"
        );
    }
}
