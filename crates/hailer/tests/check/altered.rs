//! Our own responders with one mistake each. The mistakes are those of real software, where the spec
//! page names it.

use hailer::check::MemoryWire;
use hailer::proto::{
    Connection, ConnectionStep, Epoch, Keys, Options, Protocol, Received, Responder, Status,
    registry,
};
use hailer_testkit::statuses;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How a server differs from our responder.
#[derive(Clone, Copy)]
enum Change {
    /// Time stands still.
    StopsClock,
    /// All clients have one address.
    OneAddress,
    /// Reads another request.
    Reads(fn(&mut Vec<u8>)),
    /// Does not reply to some requests.
    Drops(fn(&[u8]) -> bool),
    /// Sends another text in each reply.
    Replaces(&'static [u8], &'static [u8]),
    /// Sends a pong with this text after its edition. `GUID` stands for the number in its header.
    Pongs(&'static str),
    /// Changes each reply.
    Sends(fn(&mut Vec<u8>)),
    /// Changes all replies to a request.
    Replies(fn(&[u8], &mut Vec<Vec<u8>>, &mut Memory)),
}
use Change::*;

/// A responder with changes.
struct Altered {
    responder: Arc<dyn Responder>,
    memory: Memory,
    changes: [Option<Change>; 3],
}

/// State of a server between requests.
#[derive(Default)]
struct Memory {
    /// Number of datagrams so far.
    count: u32,
    /// Earlier requests.
    requests: HashSet<Vec<u8>>,
}

impl Change {
    fn change_request(self, now: &mut Duration, from: &mut SocketAddr, request: &mut Vec<u8>) {
        match self {
            StopsClock => *now = Duration::ZERO,
            OneAddress => *from = ([192, 0, 2, 7], 1).into(),
            Reads(change) => change(request),
            _ => {}
        }
    }

    fn change_replies(self, request: &[u8], replies: &mut Vec<Vec<u8>>, memory: &mut Memory) {
        match self {
            Drops(is_dropped) if is_dropped(request) => replies.clear(),
            Replaces(old, new) => replies
                .iter_mut()
                .for_each(|reply| replace(reply, old, new)),
            Pongs(text) => replies.iter_mut().for_each(|reply| pong(reply, text)),
            Sends(change) => replies.iter_mut().for_each(change),
            Replies(change) => change(request, replies, memory),
            _ => {}
        }
    }
}

impl Altered {
    fn datagram(&mut self, now: Duration, from: SocketAddr, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.memory.count += 1;
        let (mut now, mut from, mut request) = (now, from, bytes.to_vec());
        for change in self.changes.into_iter().flatten() {
            change.change_request(&mut now, &mut from, &mut request);
        }
        let epoch = Epoch::at(1_800_000_000 + now.as_secs());
        let mut replies = self.responder.replies(from, epoch, &request);
        for change in self.changes.into_iter().flatten() {
            change.change_replies(bytes, &mut replies, &mut self.memory);
        }
        self.memory.requests.insert(bytes.to_vec());
        replies
    }
}

/// A server with a mistake.
pub(crate) struct Mistake {
    pub(crate) protocol: &'static str,
    pub(crate) name: &'static str,
    /// Numbers of the requirements that it fails or deviates from; all others pass.
    pub(crate) fails: &'static [&'static str],
    changes: [Option<Change>; 3],
    players: usize,
    options: fn() -> Options,
}

/// Returns a server with three players, and default options.
const fn of(protocol: &'static str, name: &'static str, fails: &'static [&'static str]) -> Mistake {
    Mistake {
        protocol,
        name,
        fails,
        changes: [None; 3],
        players: 3,
        options: Options::default,
    }
}

impl Mistake {
    /// Adds a change, at most three.
    const fn with(mut self, change: Change) -> Self {
        let mut place = 0;
        while self.changes[place].is_some() {
            place += 1;
        }
        self.changes[place] = Some(change);
        self
    }

    const fn players(mut self, players: usize) -> Self {
        self.players = players;
        self
    }

    const fn options(mut self, options: fn() -> Options) -> Self {
        self.options = options;
        self
    }

    pub(crate) fn wire(&self) -> MemoryWire {
        let protocol = registry::find(self.protocol).unwrap();
        let mut server = Altered {
            responder: responder(protocol, &statuses::plain(self.players), &(self.options)()),
            memory: Memory::default(),
            changes: self.changes,
        };
        MemoryWire::new(move |now, from, bytes| server.datagram(now, from, bytes))
    }
}

fn responder(protocol: &dyn Protocol, status: &Status, options: &Options) -> Arc<dyn Responder> {
    let keys = Keys::new([7; 16]);
    protocol.responder(status, &keys, options).unwrap()
}

/// Replaces the first occurrence of a text.
fn replace(bytes: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    if let Some(at) = bytes.windows(old.len()).position(|window| window == old) {
        bytes.splice(at..at + old.len(), new.iter().copied());
    }
}

/// Clears the mark of replies in a message of UGP.
fn unmark(bytes: &mut [u8]) {
    if let Some(kind) = bytes.get_mut(7) {
        *kind &= 0x7F;
    }
}

/// Reads one message as another.
fn read_as(bytes: &mut Vec<u8>, start: &[u8], other: &[u8]) {
    if bytes.starts_with(start) {
        *bytes = other.to_vec();
    }
}

/// Returns whether a request of Bedrock is for servers with free slots.
fn is_open_ping(request: &[u8]) -> bool {
    request.first() == Some(&2)
}

fn is_getstatus(request: &[u8]) -> bool {
    request.windows(9).any(|word| word == b"getstatus")
}

/// Removes the values of the challenge, and their key unless `keeps_key`.
fn cut_challenge(reply: &mut Vec<u8>, keeps_key: bool) {
    let key = b"\\challenge\\";
    let find = |reply: &[u8]| reply.windows(key.len()).position(|part| part == key);
    while let Some(at) = find(reply) {
        let start = at + key.len();
        let value = reply[start..].iter();
        let end = start + value.take_while(|byte| **byte != b'\n').count();
        reply.drain(if keeps_key { start } else { at }..end);
        if keeps_key {
            break;
        }
    }
}

fn max_reply() -> Options {
    Options::default().with("max-reply", 65_507)
}

fn no_info_challenge() -> Options {
    Options::default().with("info-challenge", "never")
}

/// Servers of datagram protocols.
pub(crate) static MISTAKES: &[Mistake] = &[
    of("ugp", "without deviations", &[]),
    of("ugp", "replies count as requests", &["4.1"]).with(Reads(|bytes| unmark(bytes))),
    of("ugp", "types of requests in replies", &["2.1", "3.1"]).with(Sends(|bytes| unmark(bytes))),
    of("ugp", "all fields for every request", &["3.4"]).with(Reads(|bytes| {
        if let (Some(1), Some(flags)) = (bytes.get(8).copied(), bytes.get_mut(9)) {
            *flags = 0x7D;
        }
    })),
    of("ugp", "the time joined for every request", &["3.4"])
        .with(Replaces(
            b"\x01\x03\x00\x09player_0\0",
            b"\x01\x43\x02\x00\x09player_0\0\x88\x77\x66\x55\x44\x33\x22\x11",
        ))
        .players(1),
    of("ugp", "no limit for replies", &["5.1"])
        .players(127)
        .options(max_reply),
    of("ugp", "only usual lengths", &["3.5", "3.6"]).with(Drops(|request| {
        request.len() > 12 || request.get(8) == Some(&0)
    })),
    of("ugp", "a name in ISO-8859-1", &["3.8"]).with(Replaces(b"Plain name", b"Pl\xE4in n\xE4me")),
    of("ugp", "other versions count as version 1", &["4.1"]).with(Reads(|bytes| {
        if bytes.starts_with(b"\xFF\xFFUGP\0\x02") {
            bytes[6] = 1;
        }
    })),
    of("minecraft-bedrock", "without deviations", &[]),
    of(
        "minecraft-bedrock",
        "Cloudburst: no pong for id 02",
        &["2.4"],
    )
    .with(Drops(is_open_ping)),
    of("minecraft-bedrock", "another guid in each pong", &["2.3"]).with(Replies(
        |_, replies, memory| {
            for guid in replies.iter_mut().filter_map(|reply| reply.get_mut(16)) {
                *guid = memory.count as u8;
            }
        },
    )),
    of(
        "minecraft-bedrock",
        "Cloudburst: a semicolon in the name",
        &["3.3"],
    )
    .with(Pongs(
        "Two;halves;712;1.20;3;20;GUID;World;Survival;1;19132;19133;",
    )),
    of("minecraft-bedrock", "no second line", &["3.1"]).with(Pongs(
        "Invented;712;1.20;3;20;GUID;;Survival;1;19132;19133;",
    )),
    of("minecraft-bedrock", "PocketMine: nine fields", &["2.1"])
        .with(Pongs("Invented;766;1.21;1;20;GUID;PocketMine-MP;Survival;")),
    of("minecraft-bedrock", "Dragonfly: fourteen fields", &["2.1"]).with(Pongs(
        "Invented;898;1.21;3;20;GUID;Sub;Creative;1;19132;19132;0;0;",
    )),
    of(
        "minecraft-bedrock",
        "Nukkit of 2019: no version, a UUID as guid",
        &["2.1", "2.4"],
    )
    .with(Drops(is_open_ping))
    .with(Pongs(
        "Invented;388;;3;20;9f26e7b0-5844-3bcc-8aa5-3c9e1f60d7b2;Sub;Survival;",
    )),
    of(
        "minecraft-bedrock",
        "official server with lan-visibility off: no text",
        &["2.1"],
    )
    .with(Sends(|reply| reply.truncate(33))),
    of("minecraft-bedrock", "a name in ISO-8859-1", &["3.4"]).with(Replaces(b"Plain", b"Pl\xE4in")),
    of("minecraft-bedrock", "another time in pongs", &["2.2"]).with(Replies(
        |_, replies, memory| {
            for time in replies.iter_mut().filter_map(|reply| reply.get_mut(8)) {
                *time ^= u8::from(memory.count > 4);
            }
        },
    )),
    of(
        "minecraft-bedrock",
        "Nukkit 1.0: six fields, no pong for id 02",
        &["2.1", "2.4", "3.1"],
    )
    .with(Drops(is_open_ping))
    .with(Pongs("Invented;712;1.0;3;20")),
    of("minecraft-bedrock", "a name of 900 bytes", &["3.2", "5.1"]).with(Sends(|reply| {
        let name = "n".repeat(900);
        pong(
            reply,
            &format!("{name};712;1.20;3;20;GUID;World;Survival;1;1;1;"),
        );
    })),
    of("a2s", "without deviations", &[]),
    of("a2s", "Source before December 2020", &["2.1"]).options(no_info_challenge),
    of("a2s", "challenges of ports", &["2.8"])
        .options(|| Options::default().with("bind-port", true)),
    of("a2s", "challenges do not expire", &["2.9"]).with(StopsClock),
    of("a2s", "one challenge for everyone", &["2.7"]).with(OneAddress),
    of("a2s", "Valheim: no rules", &["3.3"]).with(Drops(|request| request.get(4) == Some(&b'V'))),
    of("a2s", "filter of lengths", &["2.10"]).with(Drops(|request| {
        request.get(4) == Some(&b'T') && !matches!(request.len(), 25 | 29)
    })),
    of("a2s", "Steam library: one long datagram", &["3.5"])
        .with(Replies(|_, replies, _| join(replies)))
        .players(200),
    of(
        "a2s",
        "a plugin of Hytale: info for everyone, one long datagram",
        &["2.1", "3.5"],
    )
    .with(Replies(|_, replies, _| join(replies)))
    .players(200)
    .options(no_info_challenge),
    of("a2s", "HLTV: no challenges at all", &["2.1", "2.3"])
        // Only the address counts for lists, and it never changes here.
        .with(StopsClock)
        .with(Reads(|bytes| {
            if let [0xFF, 0xFF, 0xFF, 0xFF, b'U' | b'V', ..] = bytes[..] {
                bytes.truncate(5);
                bytes.extend([0xFF; 4]);
            }
        }))
        .with(Replies(|request, replies, _| {
            let list = match request.get(4) {
                Some(b'U') => b"\xFF\xFF\xFF\xFFD\x01\0Ann\0\x05\0\0\0\0\0\x80?".to_vec(),
                Some(b'V') => b"\xFF\xFF\xFF\xFFE\x01\0rule\0value\0".to_vec(),
                _ => return,
            };
            if !replies.is_empty() {
                *replies = vec![list];
            }
        }))
        .players(1)
        .options(no_info_challenge),
    of("a2s", "Rust: a new challenge for each request", &["2.6"]).with(Replies(
        |request, replies, memory| {
            let is_list = matches!(request.get(4), Some(b'U' | b'V'));
            if is_list && request.get(5..9) != Some(&[0xFF; 4]) && memory.requests.contains(request)
            {
                let number = memory.count.to_be_bytes();
                *replies = vec![[&b"\xFF\xFF\xFF\xFFA"[..], &number].concat()];
            }
        },
    )),
    of("a2s", "HLDS: a name in a code page", &["3.6"])
        .with(Replaces(b"Plain name", b"Pl\xE4in name")),
    of("a2s", "CS:GO: a list that ends before its count", &["3.2"]).with(Sends(|reply| {
        if let [0xFF, 0xFF, 0xFF, 0xFF, b'D', count, ..] = &mut reply[..] {
            *count += 1;
        }
    })),
    of("a2s", "no new challenge for zeros", &["2.5"]).with(Drops(|request| {
        request.get(5..9) == Some(&[0; 4]) && request.get(4) != Some(&b'T')
    })),
    of("a2s", "replies count as requests", &["4.1"]).with(Reads(|bytes| {
        read_as(
            bytes,
            b"\xFF\xFF\xFF\xFFI",
            b"\xFF\xFF\xFF\xFFTSource Engine Query\0",
        )
    })),
    of("quake3", "without deviations", &[]),
    of("quake3", "Call of Duty: no challenge", &["2.3"])
        .with(Sends(|reply| cut_challenge(reply, false))),
    of("quake3", "FiveM: no status", &["2.2"]).with(Drops(is_getstatus)),
    of("quake3", "replies count as requests", &["4.1"]).with(Reads(|bytes| {
        read_as(
            bytes,
            b"\xFF\xFF\xFF\xFFinfoResponse",
            b"\xFF\xFF\xFF\xFFgetinfo",
        )
    })),
    of("quake3", "every challenge is returned", &["2.4"]).with(Replies(|request, replies, _| {
        let text = request.strip_prefix(b"\xFF\xFF\xFF\xFFgetinfo ");
        if let (Some(text), true) = (text, replies.is_empty()) {
            let start = b"\xFF\xFF\xFF\xFFinfoResponse\n\\hostname\\a\\challenge\\";
            replies.push([&start[..], text].concat());
        }
    })),
    of("quake3", "a status of several fragments", &["5.1"])
        .players(120)
        .options(max_reply),
    of("quake3", "texts in a code page", &["3.3"]).with(Replaces(b"Plain name", b"Pl\xE4in name")),
    of("quake3", "Warsow: an empty challenge", &["2.3"])
        .with(Sends(|reply| cut_challenge(reply, true))),
    of("quake3", "DarkPlaces: an info for a long status", &["2.2"]).with(Replies(
        |request, replies, _| {
            for reply in replies.iter_mut().filter(|_| is_getstatus(request)) {
                replace(reply, b"statusResponse", b"infoResponse");
                if let Some(at) = reply.iter().rposition(|byte| *byte == b'\\') {
                    let line = reply[at..].iter().position(|byte| *byte == b'\n');
                    reply.truncate(at + line.unwrap_or_default());
                }
            }
        },
    )),
    of("quake3", "requests in one form only", &["2.6", "2.7"]).with(Drops(|request| {
        request.ends_with(b"getinfo") || request.ends_with(b"\n")
    })),
];

/// Joins all parts into one datagram.
fn join(replies: &mut Vec<Vec<u8>>) {
    if replies.len() > 1 {
        let parts = std::mem::take(replies);
        let whole: Vec<_> = parts.iter().filter_map(|part| part.get(12..)).collect();
        replies.push(whole.concat());
    }
}

/// Replaces the text of a pong after its edition. `GUID` stands for the number in its header.
fn pong(reply: &mut Vec<u8>, text: &str) {
    let guid = reply.get(9..17).map(|guid| guid.try_into().unwrap());
    let guid = u64::from_be_bytes(guid.unwrap_or_default());
    let text = format!("MCPE;{text}").replace("GUID", &guid.to_string());
    reply.truncate(33);
    reply.extend((text.len() as u16).to_be_bytes());
    reply.extend(text.bytes());
}

/// A connection with a mistake.
struct AlteredConnection {
    server: Box<dyn Connection>,
    mistake: StreamMistake,
    is_first: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum StreamMistake {
    Nothing,
    /// A ping before the status closes the connection.
    PingFirst,
    /// The pong is not the ping.
    OtherPong,
    /// Only one protocol number is answered.
    OneNumber,
    /// A request must be in one segment.
    OneSegment,
    /// No reply to forms before 1.7.
    NoLegacy,
    /// A ping in the same write as the status request gets no pong.
    Pipelined,
    /// Texts are ISO-8859-1.
    Latin1,
    /// Each reply arrives in many segments, which is correct.
    InSegments,
}

const CLOSE: Received = Received {
    consumed: 0,
    step: ConnectionStep::Close,
};

impl Connection for AlteredConnection {
    fn receive(&mut self, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let is_legacy = bytes.first() == Some(&0xFE);
        let handshake = packet(bytes).filter(|_| !is_legacy);
        let rest = handshake.map(|handshake| &bytes[handshake.len()..]);
        let is_refused = match self.mistake {
            _ if !is_first => false,
            StreamMistake::PingFirst => rest.is_some_and(|rest| rest.starts_with(&[9, 1])),
            StreamMistake::OneNumber => handshake.is_some_and(|bytes| bytes.get(2) != Some(&0xFF)),
            StreamMistake::OneSegment => !is_legacy && handshake.is_none(),
            StreamMistake::NoLegacy => is_legacy,
            _ => false,
        };
        if is_refused {
            return CLOSE;
        }
        // Velocity closes the connection before the pong.
        let is_pipelined = rest.is_some_and(|rest| rest.len() > 2 && rest.starts_with(&[1, 0]));
        if self.mistake == StreamMistake::Pipelined && is_first && is_pipelined {
            let request = &bytes[..bytes.len() - 10];
            self.server.receive(epoch, request, out);
            return CLOSE;
        }
        let start = out.len();
        let received = self.server.receive(epoch, bytes, out);
        let reply = &mut out[start..];
        if self.mistake == StreamMistake::OtherPong
            && let Some(at) = reply.len().checked_sub(10)
            && reply[at..].starts_with(&[9, 1])
        {
            reply[at + 9] ^= 1;
        }
        if self.mistake == StreamMistake::Latin1
            && let Some(at) = reply.windows(5).position(|text| text == b"Plain")
        {
            reply[at + 2] = 0xE4;
        }
        received
    }

    fn pause(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        self.server.pause(bytes, out)
    }
}

/// The first packet, if it is whole. Its length has one byte.
fn packet(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..1 + usize::from(*bytes.first()?))
}

/// Servers of Minecraft Status.
pub(crate) fn streams() -> Vec<(&'static str, &'static [&'static str], MemoryWire)> {
    const STREAMS: &[(&str, &[&str], StreamMistake)] = &[
        ("without deviations", &[], StreamMistake::Nothing),
        (
            "BungeeCord: replies in several segments",
            &[],
            StreamMistake::InSegments,
        ),
        (
            "BungeeCord: a ping must follow a status",
            &["2.5"],
            StreamMistake::PingFirst,
        ),
        ("another pong", &["2.3"], StreamMistake::OtherPong),
        (
            "one protocol number only",
            &["2.7"],
            StreamMistake::OneNumber,
        ),
        (
            "requests in one segment only",
            &["2.4"],
            StreamMistake::OneSegment,
        ),
        (
            "Cuberite: no forms before 1.7",
            &["3.1", "3.2", "3.3"],
            StreamMistake::NoLegacy,
        ),
        (
            "Velocity: no pong to a ping in the same write",
            &["2.6"],
            StreamMistake::Pipelined,
        ),
        ("texts in ISO-8859-1", &["2.9"], StreamMistake::Latin1),
    ];
    STREAMS
        .iter()
        .map(|&(name, fails, mistake)| {
            let protocol = registry::find("minecraft-status").unwrap();
            let responder = responder(protocol, &statuses::plain(3), &Options::default());
            let wire = MemoryWire::connections(move |from| {
                let server = responder.connection(from)?;
                Some(Box::new(AlteredConnection {
                    server,
                    mistake,
                    is_first: true,
                }))
            });
            let wire = match mistake {
                StreamMistake::InSegments => wire.with_segments(3),
                _ => wire,
            };
            (name, fails, wire)
        })
        .collect()
}
