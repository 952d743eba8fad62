//! Requirements of Minecraft Status (spec/minecraft-status.md).

use super::behavior::RATE_LIMIT;
use super::client::{ClientRequirement, ClientSuite, Observe, Observer, SeenConnection, VALID};
use super::probe::{baseline, found};
use super::{
    Cost, Outcome, Probe, Requirement, Severity, SocketId, Suite, Verdict, counted, deviates, fail,
    load, mild, not_applicable, pass,
};
use hailer_proto::Deviation;
use hailer_proto::minecraft_status::deviation as known;
use hailer_proto::minecraft_status::message::{
    Handshake, Intent, LegacyReply, LegacyRequest, PING_BYTES, is_ping, legacy_length, read_ping,
    read_status_request, reply_length, write_packet, write_string, write_varint,
};
use hailer_proto::wire::{Notes, Reader};
use std::time::Duration;

static NO_LEGACY: Deviation = Deviation {
    name: "no-legacy-reply",
    help: "a ping in a form before 1.7 gets no reply",
};
static PING_FIRST_REFUSED: Deviation = Deviation {
    name: "ping-first-refused",
    help: "a ping without a status request gets no pong; BungeeCord closes the connection",
};
static PIPELINED_PING: Deviation = Deviation {
    name: "pipelined-ping-refused",
    help: "a ping in the same write as the status request gets no pong, as in Velocity",
};
static STAYS_OPEN: Deviation = Deviation {
    name: "stays-open",
    help: "a connection without a request stays open for more than 35 s",
};
static LARGE_SAMPLE: Deviation = Deviation {
    name: "large-sample",
    help: "more than 12 players are listed",
};
static INVALID_STAYS_OPEN: Deviation = Deviation {
    name: "invalid-stays-open",
    help: "a connection with an invalid packet stays open",
};
static ODD_ICON: Deviation = Deviation {
    name: "odd-icon",
    help: "the icon is not an image of 64 by 64 pixels",
};

pub(super) static SUITE: Suite = Suite {
    protocol: "minecraft-status",
    // BungeeCord closes the fourth connection of an address within 4 s.
    interval: Duration::from_millis(1_500),
    never_sent: "Login packets, because servers log or block clients that fail to join.",
    mild: &[
        mild(
            "uuid-odd",
            Severity::Note,
            "Clients that require UUIDs reject the list of players",
        ),
        mild(
            "protocol-127",
            Severity::Note,
            "Old clients show the server as outdated",
        ),
        mild("legacy-neg", Severity::Note, "Old clients show -1 players"),
        mild(
            "favicon-other",
            Severity::Note,
            "The server has no icon in the list",
        ),
        mild(
            "formatted-motd",
            Severity::Note,
            "Clients of the beta show a part of the MOTD as the number of players",
        ),
        mild(
            "trailing-json",
            Severity::Note,
            "Clients that compare the length reject the status",
        ),
        mild(
            "length-wrong",
            Severity::Warning,
            "Clients that compare the lengths reject the status or wait for more",
        ),
        mild(
            "unknown-color",
            Severity::Note,
            "Clients show the text without its color",
        ),
        mild(
            "duplicate-keys",
            Severity::Note,
            "Clients show one or the other of two values",
        ),
        mild(
            "favicon-lf",
            Severity::Note,
            "Clients that decode strictly show no icon",
        ),
        mild(
            "float",
            Severity::Note,
            "Clients that need whole numbers reject the status",
        ),
        mild(
            "mods-unreadable",
            Severity::Note,
            "Clients show a part of the mods",
        ),
        mild(
            "legacy-trailing",
            Severity::Note,
            "Old clients show a wrong maximum",
        ),
        mild("odd-count", Severity::Note, "Old clients show no count"),
        mild(
            "nul-in-motd",
            Severity::Note,
            "Old clients show a part of the MOTD as the number of players",
        ),
        mild(
            "invalid-stays-open",
            Severity::Warning,
            "Scanners use up the connections of the server",
        ),
    ],
    requirements: &[
        Requirement {
            id: "minecraft-status/1.1",
            title: "A status request is answered",
            section: "spec/minecraft-status.md#4",
            severity: Severity::Error,
            effect: "The server looks offline in every list",
            deviations: &[],
            cost: Cost::Low,
            probe: baseline,
        },
        Requirement {
            id: "minecraft-status/2.1",
            title: "The status is one packet with JSON as its only text",
            section: "spec/minecraft-status.md#5",
            severity: Severity::Error,
            effect: "Clients report an invalid reply",
            deviations: &[],
            cost: Cost::Low,
            probe: layout,
        },
        Requirement {
            id: "minecraft-status/2.2",
            title: "The JSON has version, players and description, with values of the right type",
            section: "spec/minecraft-status.md#5",
            severity: Severity::Warning,
            effect: "Older clients and several libraries fail with an error",
            deviations: &[],
            cost: Cost::Low,
            probe: members,
        },
        Requirement {
            id: "minecraft-status/2.3",
            title: "The pong returns the 8 bytes of the ping",
            section: "spec/minecraft-status.md#4",
            severity: Severity::Warning,
            effect: "The game shows a red cross instead of the latency",
            deviations: &[&known::NO_PONG],
            cost: Cost::Low,
            probe: pong,
        },
        Requirement {
            id: "minecraft-status/2.4",
            title: "A request in several segments is answered",
            section: "spec/minecraft-status.md#3",
            severity: Severity::Error,
            effect: "Players on slow or tunnelled connections see the server as offline",
            deviations: &[],
            cost: Cost::Low,
            probe: segments,
        },
        Requirement {
            id: "minecraft-status/2.5",
            title: "A ping without a status request is answered",
            section: "spec/minecraft-status.md#4",
            severity: Severity::Note,
            effect: "Tools that only measure the latency show the server as offline",
            deviations: &[&PING_FIRST_REFUSED],
            cost: Cost::Low,
            probe: ping_first,
        },
        Requirement {
            id: "minecraft-status/2.6",
            title: "Status request and ping in one write are both answered",
            section: "spec/minecraft-status.md#4",
            severity: Severity::Note,
            effect: "Clients that send all requests together show no latency",
            deviations: &[&PIPELINED_PING],
            cost: Cost::Low,
            probe: pipelined,
        },
        Requirement {
            id: "minecraft-status/2.7",
            title: "Every protocol number is answered",
            section: "spec/minecraft-status.md#4",
            severity: Severity::Warning,
            effect: "Clients of other versions, and most libraries, see the server as offline",
            deviations: &[&known::NUMBER_REFUSED],
            cost: Cost::Low,
            probe: numbers,
        },
        Requirement {
            id: "minecraft-status/2.8",
            title: "A host with the mark of Forge is answered",
            section: "spec/minecraft-status.md#4",
            severity: Severity::Warning,
            effect: "Players with Forge see the server as offline",
            deviations: &[],
            cost: Cost::Low,
            probe: forge,
        },
        Requirement {
            id: "minecraft-status/2.9",
            title: "Texts are UTF-8",
            section: "spec/minecraft-status.md#3",
            severity: Severity::Warning,
            effect: "Clients show garbled names, or reject the reply",
            deviations: &[&known::INVALID_UTF8],
            cost: Cost::Low,
            probe: encoding,
        },
        Requirement {
            id: "minecraft-status/3.1",
            title: "The form of 1.6 is answered",
            section: "spec/minecraft-status.md#2.1",
            severity: Severity::Note,
            effect: "Clients of 1.6 and some monitors do not find the server",
            deviations: &[&NO_LEGACY],
            cost: Cost::Low,
            probe: legacy_1_6,
        },
        Requirement {
            id: "minecraft-status/3.2",
            title: "The form of 1.4, FE 01, is answered",
            section: "spec/minecraft-status.md#2.1",
            severity: Severity::Note,
            effect: "Load balancers and PHP scripts do not find the server",
            deviations: &[&NO_LEGACY],
            cost: Cost::Low,
            probe: legacy_1_4,
        },
        Requirement {
            id: "minecraft-status/3.3",
            title: "The form of the beta, FE, is answered",
            section: "spec/minecraft-status.md#2.1",
            severity: Severity::Note,
            effect: "The oldest clients do not find the server",
            deviations: &[&NO_LEGACY],
            cost: Cost::Low,
            probe: legacy_beta,
        },
        Requirement {
            id: "minecraft-status/4.1",
            title: "The JSON has at most 32767 UTF-16 units",
            section: "spec/minecraft-status.md#5.1",
            severity: Severity::Error,
            effect: "The game rejects the reply, so the server looks offline",
            deviations: &[],
            cost: Cost::Low,
            probe: size,
        },
        Requirement {
            id: "minecraft-status/4.2",
            title: "The icon has 64 by 64 pixels, and at most 12 players are listed",
            section: "spec/minecraft-status.md#5",
            severity: Severity::Warning,
            effect: "The game shows no icon, or a list that is taller than the screen",
            deviations: &[&ODD_ICON, &LARGE_SAMPLE],
            cost: Cost::Low,
            probe: icon_and_sample,
        },
        Requirement {
            id: "minecraft-status/5.1",
            title: "Invalid packets close the connection and do not stop the service",
            section: "spec/minecraft-status.md#3",
            severity: Severity::Error,
            effect: "Scanners take the server down or fill its connections",
            deviations: &[&INVALID_STAYS_OPEN],
            cost: Cost::Low,
            probe: invalid,
        },
        Requirement {
            id: "minecraft-status/5.2",
            title: "A connection without a whole request is closed within 35 s",
            section: "spec/minecraft-status.md#10",
            severity: Severity::Warning,
            effect: "Slow clients use up the connections of the server",
            deviations: &[&STAYS_OPEN],
            cost: Cost::Wait(40),
            probe: half_open,
        },
        Requirement {
            id: "minecraft-status/6.1",
            title: "The server survives 50 connections/s",
            section: "spec/minecraft-status.md#10",
            severity: Severity::Error,
            effect: "A few server lists together take the server down",
            deviations: &[&RATE_LIMIT],
            cost: Cost::Load,
            probe: connections_per_second,
        },
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[
        ClientRequirement {
            number: 4,
            title: "The handshake has the port of the server, most significant byte first",
            severity: Severity::Warning,
            effect: "Proxies that choose the server by host and port choose a wrong one",
        },
        ClientRequirement {
            number: 5,
            title: "The handshake has the host as typed",
            severity: Severity::Warning,
            effect: "Proxies and protection services show another server",
        },
        ClientRequirement {
            number: 6,
            title: "A reply in several segments is read to its end",
            severity: Severity::Error,
            effect: "Servers with icons or long texts look offline",
        },
    ],
    deviations: &[],
    observe: Observe::Stream(observe),
};

/// Status as the intent of a handshake, and the status request.
const STATUS: i32 = 1;
const REQUEST: [u8; 2] = [1, 0];
const MAX_UNITS: usize = 32_767;
const MAX_SAMPLE: usize = 12;
/// Longest wait for the end of a connection after bytes that cannot be a request.
const MAX_OPEN: Duration = Duration::from_secs(35);

fn handshake(protocol: i32, host: &str, port: u16) -> Vec<u8> {
    let mut body = vec![0];
    write_varint(protocol, &mut body);
    write_string(host, &mut body);
    body.extend(port.to_be_bytes());
    write_varint(STATUS, &mut body);
    let mut out = Vec::new();
    write_packet(&body, &mut out);
    out
}

/// A handshake as the user typed the host, and a status request.
fn request(p: &Probe<'_>, protocol: i32) -> Vec<u8> {
    let host = p.config.host.as_str();
    let mut bytes = handshake(protocol, host, p.config.port);
    bytes.extend(REQUEST);
    bytes
}

fn ping(payload: u64) -> Vec<u8> {
    [&[9, 1][..], &payload.to_be_bytes()].concat()
}

fn is_whole(bytes: &[u8]) -> bool {
    !matches!(reply_length(bytes), Ok(Err(_)))
}

fn is_kick(bytes: &[u8]) -> bool {
    !matches!(legacy_length(bytes), Ok(Err(_)))
}

fn has_ten(bytes: &[u8]) -> bool {
    bytes.len() >= PING_BYTES
}

/// Sends a request on a new connection and reads the status.
fn status(p: &mut Probe<'_>, protocol: i32) -> Result<(SocketId, Vec<u8>), Outcome> {
    let request = request(p, protocol);
    sent(p, &[&request])
}

/// Sends pieces on a new connection, with a pause between them, and reads the status.
fn sent(p: &mut Probe<'_>, pieces: &[&[u8]]) -> Result<(SocketId, Vec<u8>), Outcome> {
    let socket = p.open()?;
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            p.sleep(Duration::from_millis(30));
        }
        p.send(socket, piece);
    }
    let start = p.now();
    let longest = 2 * p.config.timeout;
    let (bytes, is_closed) = p.read(socket, longest, &is_whole);
    if bytes.is_empty() {
        return fail(if is_closed {
            "the connection is closed without a status"
        } else {
            "no status"
        });
    }
    p.facts.slowest = p.facts.slowest.max(p.now() - start);
    Ok((socket, bytes))
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    status(p, -1).is_ok()
}

/// The JSON of a status: the text after packet length, id and text length.
fn json(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| *byte == b'{');
    start.and_then(|at| bytes.get(at..)).unwrap_or_default()
}

/// Names of deviations of the packet itself, not of its JSON.
const FRAMING: [&str; 5] = [
    known::TRAILING_JSON.name,
    known::TRAILING_BYTES.name,
    known::LENGTH_WRONG.name,
    known::EMPTY_STATUS.name,
    known::LEGACY_KICK.name,
];
fn layout(p: &mut Probe<'_>) -> Verdict {
    let (_, bytes) = status(p, -1)?;
    let mut notes = Notes::default();
    let seen = hailer_proto::DatagramContext::Reply;
    let explanation = p.protocol.explain(&bytes, seen, &mut notes);
    let text = counted(bytes.len(), "byte");
    match explanation {
        None => fail(format!("{text} that are no status")),
        Some(found) if found.error.is_some() => {
            let error = found.error.map(|error| error.to_string());
            fail(error.unwrap_or_default())
        }
        Some(_) => found(
            notes
                .met()
                .filter(|met| FRAMING.contains(&met.name))
                .collect(),
            text,
        ),
    }
}

fn members(p: &mut Probe<'_>) -> Verdict {
    let status = p.status()?;
    let mut of_json = p.own(status.deviations.iter().copied());
    of_json.retain(|met| !FRAMING.contains(&met.name));
    let version = status.version.as_deref().unwrap_or("unknown");
    found(of_json, format!("version {version:?}"))
}

fn pong(p: &mut Probe<'_>) -> Verdict {
    let (socket, _) = status(p, -1)?;
    let request = ping(p.random());
    p.send(socket, &request);
    let longest = p.config.timeout;
    let (reply, _) = p.read(socket, longest, &has_ten);
    if reply.is_empty() {
        return deviates(&known::NO_PONG, "no pong");
    }
    if reply != request {
        return deviates(&known::NO_PONG, format!("{} other bytes", reply.len()));
    }
    pass("the 8 bytes came back")
}

fn segments(p: &mut Probe<'_>) -> Verdict {
    let request = request(p, -1);
    let middle = request.len() / 2;
    let (first, rest) = request.split_at(1);
    let (second, third) = rest.split_at(middle - 1);
    let (_, bytes) = sent(p, &[first, second, third])?;
    pass(format!(
        "three segments get {}",
        counted(bytes.len(), "byte")
    ))
}

fn ping_first(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let ping = ping(p.random());
    let host = p.config.host.clone();
    p.send(
        socket,
        &[handshake(-1, &host, p.config.port), ping].concat(),
    );
    let longest = p.config.timeout;
    match p.read(socket, longest, &has_ten) {
        (reply, _) if is_ping(&reply) => pass("the pong without a status"),
        (_, true) => deviates(&PING_FIRST_REFUSED, "the connection is closed"),
        _ => deviates(&PING_FIRST_REFUSED, "no pong"),
    }
}

fn pipelined(p: &mut Probe<'_>) -> Verdict {
    let ping = ping(p.random());
    let request = [request(p, -1), ping].concat();
    let (socket, mut bytes) = sent(p, &[&request])?;
    // The 8 bytes of the pong have their own requirement.
    let has_pong = |bytes: &[u8]| {
        let at = bytes.len().saturating_sub(PING_BYTES);
        bytes.get(at..).is_some_and(is_ping)
    };
    if !has_pong(&bytes) {
        let longest = p.config.timeout;
        let (more, _) = p.read(socket, longest, &has_ten);
        bytes.extend(more);
    }
    if has_pong(&bytes) {
        pass("status and pong")
    } else {
        deviates(&PIPELINED_PING, "the status without a pong")
    }
}

fn numbers(p: &mut Probe<'_>) -> Verdict {
    for number in [47, 767, i32::MAX] {
        if status(p, number).is_err() {
            let text = format!("no status for the protocol number {number}");
            return deviates(&known::NUMBER_REFUSED, text);
        }
    }
    pass("47, 767 and 2147483647 get a status")
}

fn forge(p: &mut Probe<'_>) -> Verdict {
    let host = format!("{}\0FML3\0", p.config.host);
    let request = [handshake(-1, &host, p.config.port), REQUEST.to_vec()].concat();
    sent(p, &[&request])?;
    pass("a host with FML3 gets a status")
}

/// Sends a ping in a form before 1.7.
fn legacy(p: &mut Probe<'_>, request: &[u8]) -> Verdict {
    let socket = p.open()?;
    p.send(socket, request);
    let longest = 2 * p.config.timeout;
    let (bytes, is_closed) = p.read(socket, longest, &is_kick);
    if bytes.is_empty() {
        let text = if is_closed {
            "the connection is closed"
        } else {
            "no reply"
        };
        return deviates(&NO_LEGACY, text);
    }
    let mut notes = Notes::default();
    let parsed = LegacyReply::read(&mut Reader::new(&bytes, &mut notes));
    match parsed {
        Ok(LegacyReply::Listing(listing)) => {
            let count = |count: Option<i64>| count.map_or("?".into(), |count| count.to_string());
            let text = format!(
                "{:?}, {} of {}",
                listing.motd,
                count(listing.online),
                counted(count(listing.max), "player")
            );
            found(notes.met().collect(), text)
        }
        Ok(LegacyReply::Kick(text)) => fail(format!("a kick: {text:?}")),
        Err(error) => fail(error.to_string()),
    }
}

fn legacy_1_6(p: &mut Probe<'_>) -> Verdict {
    let host: Vec<u8> = p
        .config
        .host
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    let channel: Vec<u8> = "MC|PingHost"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    let request = [
        &[0xFE, 1, 0xFA, 0, 11][..],
        &channel,
        &(7 + host.len() as u16).to_be_bytes(),
        &[78],
        &(host.len() as u16 / 2).to_be_bytes(),
        &host,
        &i32::from(p.config.port).to_be_bytes(),
    ]
    .concat();
    legacy(p, &request)
}

fn legacy_1_4(p: &mut Probe<'_>) -> Verdict {
    legacy(p, &[0xFE, 1])
}

fn legacy_beta(p: &mut Probe<'_>) -> Verdict {
    legacy(p, &[0xFE])
}

fn encoding(p: &mut Probe<'_>) -> Verdict {
    let met = p.tested(p.status()?.deviations.iter().copied());
    found(met, "all texts of the JSON".into())
}

fn size(p: &mut Probe<'_>) -> Verdict {
    let (_, bytes) = status(p, -1)?;
    let text = String::from_utf8_lossy(json(&bytes)).into_owned();
    let units = text.encode_utf16().count();
    p.measure("json_units", units as f64);
    let text = counted(units, "unit");
    if units > MAX_UNITS {
        fail(text)
    } else {
        pass(text)
    }
}

/// Returns width and height of a PNG image, from its header.
fn dimensions(png: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(png.get(at..at + 4)?.try_into().ok()?));
    Some((number(16)?, number(20)?))
}

fn icon_and_sample(p: &mut Probe<'_>) -> Verdict {
    let status = p.status()?;
    let listed = status.players.list.len();
    let mut deviations = Vec::new();
    if listed > MAX_SAMPLE {
        deviations.push(&LARGE_SAMPLE);
    }
    let icon = match &status.icon {
        None => "no icon".to_owned(),
        Some(icon) => match dimensions(&icon.to_png()) {
            Some((64, 64)) => "an icon of 64 by 64 pixels".into(),
            Some((width, height)) => {
                deviations.push(&ODD_ICON);
                format!("an icon of {width} by {height} pixels")
            }
            None => {
                deviations.push(&ODD_ICON);
                "an icon without a size".into()
            }
        },
    };
    found(
        deviations,
        format!("{icon}, {} listed", counted(listed, "player")),
    )
}

fn invalid(p: &mut Probe<'_>) -> Verdict {
    let mut noise: Vec<u8> = (0..64).map(|_| p.random() as u8).collect();
    // A length of one byte and an id that no packet has.
    noise[0] = 63;
    noise[1] = 0x7E;
    let invalid: [(&str, &[u8]); 4] = [
        ("an unknown packet", &noise),
        ("a length of 5 bytes", &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0]),
        ("a host of 70000 bytes", &[6, 0, 0xFF, 5, 0xF0, 0xA2, 4]),
        ("an intent of 9", &[7, 0, 0, 1, b'h', 0, 1, 9, 1, 0]),
    ];
    let mut open = Vec::new();
    for (name, bytes) in invalid {
        let socket = p.open()?;
        p.send(socket, bytes);
        let longest = p.config.timeout;
        let (reply, is_closed) = p.read(socket, longest, &|_| false);
        if !is_closed && reply.is_empty() {
            open.push(name);
        }
    }
    if !still_answers(p) {
        return fail("the server stopped answering");
    }
    if open.is_empty() {
        pass("four invalid requests, each connection closed")
    } else {
        deviates(
            &INVALID_STAYS_OPEN,
            format!("still answers; open after {}", open.join(", ")),
        )
    }
}

fn half_open(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    // The length of a handshake without the rest.
    p.send(socket, &[0x10]);
    let start = p.now();
    let (bytes, is_closed) = p.read(socket, MAX_OPEN, &|_| false);
    let seconds = (p.now() - start).as_secs_f64();
    p.measure("open_s", seconds);
    if !bytes.is_empty() {
        return not_applicable("the server replies to one byte");
    }
    if is_closed {
        pass(format!("closed after {seconds:.1} s"))
    } else {
        deviates(&STAYS_OPEN, format!("open after {seconds:.0} s"))
    }
}

fn connections_per_second(p: &mut Probe<'_>) -> Verdict {
    let request = request(p, -1);
    load::connections(p, &request, &still_answers)
}

fn observe(o: &mut Observer, seen: &SeenConnection) {
    let mut notes = Notes::default();
    let mut r = Reader::new(&seen.bytes, &mut notes);
    o.require(
        6,
        !seen.is_cut,
        "the connection was closed before the end of the reply",
    );
    let (port, host) = if seen.bytes.first() == Some(&0xFE) {
        match LegacyRequest::read(&mut r) {
            // Only the form of 1.6 has them.
            Ok(request) => (request.port, request.port.map(|_| request.host)),
            Err(error) => return o.judge(VALID, Some(error.to_string())),
        }
    } else {
        match Handshake::read(&mut r) {
            Ok(handshake) if handshake.intent != Intent::Status => {
                return o.require(VALID, false, "a login instead of a request for the status");
            }
            Ok(handshake) => (Some(handshake.port), Some(handshake.host.into_owned())),
            Err(error) => return o.judge(VALID, Some(error.to_string())),
        }
    };
    let mut problem = None;
    while r.remaining() > 0 && problem.is_none() {
        let read = if is_ping(r.rest()) {
            read_ping(&mut r).map(drop)
        } else {
            read_status_request(&mut r)
        };
        problem = read.err().map(|error| error.to_string());
    }
    o.judge(VALID, problem);
    if let Some(found) = port {
        let order = if found.swap_bytes() == seen.port {
            ", with the least significant byte first"
        } else {
            ""
        };
        let text = format!("the port {found} instead of {}{order}", seen.port);
        o.require(4, found == seen.port, &text);
    }
    if let Some(host) = host {
        o.require(5, !host.is_empty(), "an empty host");
    }
}
