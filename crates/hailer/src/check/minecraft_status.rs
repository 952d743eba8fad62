//! Requirements of Minecraft Status (spec/minecraft-status.md).

use super::client::{ClientRequirement, ClientSuite, Observe, Observer, SeenConnection, VALID};
use super::*;
use hailer_proto::minecraft_status::deviation as known;
use hailer_proto::minecraft_status::message::{
    Handshake, Intent, LegacyReply, LegacyRequest, PING_BYTES, is_ping, legacy_length, read_ping,
    read_status_request, reply_length, write_packet, write_string, write_varint,
};
use hailer_proto::wire::{Notes, Reader};

deviations! {
    static;
    NO_LEGACY "no-legacy-reply" "a ping in a form before 1.7 gets no reply";
    PING_FIRST_REFUSED "ping-first-refused" "a ping without a status request gets no pong; BungeeCord closes the connection";
    PIPELINED_PING "pipelined-ping-refused" "a ping in the same write as the status request gets no pong, as in Velocity";
    STAYS_OPEN "stays-open" "a connection without a request stays open for more than 35 s";
    LARGE_SAMPLE "large-sample" "more than 12 players are listed";
    INVALID_STAYS_OPEN "invalid-stays-open" "a connection with an invalid packet stays open";
    ODD_ICON "odd-icon" "the icon is not an image of 64 by 64 pixels";
}

pub(super) static SUITE: Suite = Suite {
    protocol: "minecraft-status",
    // BungeeCord closes the fourth connection of an address within 4 s.
    interval: Duration::from_millis(1_500),
    never_sent: "Login packets, because servers log or block clients that fail to join.",
    mild: &[
        mild_note("uuid-odd").effect("Clients that require UUIDs reject the list of players"),
        mild_note("protocol-127").effect("Old clients show the server as outdated"),
        mild_note("legacy-neg").effect("Old clients show -1 players"),
        mild_note("favicon-other").effect("The server has no icon in the list"),
        mild_note("formatted-motd")
            .effect("Clients of the beta show a part of the MOTD as the number of players"),
        mild_note("trailing-json").effect("Clients that compare the length reject the status"),
        mild_warning("length-wrong")
            .effect("Clients that compare the lengths reject the status or wait for more"),
        mild_note("unknown-color").effect("Clients show the text without its color"),
        mild_note("duplicate-keys").effect("Clients show one or the other of two values"),
        mild_note("favicon-lf").effect("Clients that decode strictly show no icon"),
        mild_note("float").effect("Clients that need whole numbers reject the status"),
        mild_note("mods-unreadable").effect("Clients show a part of the mods"),
        mild_note("legacy-trailing").effect("Old clients show a wrong maximum"),
        mild_note("odd-count").effect("Old clients show no count"),
        mild_note("nul-in-motd")
            .effect("Old clients show a part of the MOTD as the number of players"),
        mild_warning("invalid-stays-open").effect("Scanners use up the connections of the server"),
    ],
    requirements: &[
        error("minecraft-status/1.1", "#4", baseline)
            .title("A status request is answered")
            .effect("The server looks offline in every list"),
        error("minecraft-status/2.1", "#5", layout)
            .title("The status is one packet with JSON as its only text")
            .effect("Clients report an invalid reply"),
        warning("minecraft-status/2.2", "#5", members)
            .title("The JSON has version, players and description, with values of the right type")
            .effect("Older clients and several libraries fail with an error"),
        warning("minecraft-status/2.3", "#4", pong)
            .title("The pong returns the 8 bytes of the ping")
            .effect("The game shows a red cross instead of the latency")
            .deviations(&[&known::NO_PONG]),
        error("minecraft-status/2.4", "#3", segments)
            .title("A request in several segments is answered")
            .effect("Players on slow or tunnelled connections see the server as offline"),
        note("minecraft-status/2.5", "#4", ping_first)
            .title("A ping without a status request is answered")
            .effect("Tools that only measure the latency show the server as offline")
            .deviations(&[&PING_FIRST_REFUSED]),
        note("minecraft-status/2.6", "#4", pipelined)
            .title("Status request and ping in one write are both answered")
            .effect("Clients that send all requests together show no latency")
            .deviations(&[&PIPELINED_PING]),
        warning("minecraft-status/2.7", "#4", numbers)
            .title("Every protocol number is answered")
            .effect("Clients of other versions, and most libraries, see the server as offline")
            .deviations(&[&known::NUMBER_REFUSED]),
        warning("minecraft-status/2.8", "#4", forge)
            .title("A host with the mark of Forge is answered")
            .effect("Players with Forge see the server as offline"),
        warning("minecraft-status/2.9", "#3", encoding)
            .title("Texts are UTF-8")
            .effect("Clients show garbled names, or reject the reply")
            .deviations(&[&known::INVALID_UTF8]),
        note("minecraft-status/3.1", "#2.1", legacy_1_6)
            .title("The form of 1.6 is answered")
            .effect("Clients of 1.6 and some monitors do not find the server")
            .deviations(&[&NO_LEGACY]),
        note("minecraft-status/3.2", "#2.1", |p| legacy(p, &[0xFE, 1]))
            .title("The form of 1.4, FE 01, is answered")
            .effect("Load balancers and PHP scripts do not find the server")
            .deviations(&[&NO_LEGACY]),
        note("minecraft-status/3.3", "#2.1", |p| legacy(p, &[0xFE]))
            .title("The form of the beta, FE, is answered")
            .effect("The oldest clients do not find the server")
            .deviations(&[&NO_LEGACY]),
        error("minecraft-status/4.1", "#5.1", size)
            .title("The JSON has at most 32767 UTF-16 units")
            .effect("The game rejects the reply, so the server looks offline"),
        warning("minecraft-status/4.2", "#5", icon_and_sample)
            .title("The icon has 64 by 64 pixels, and at most 12 players are listed")
            .effect("The game shows no icon, or a list that is taller than the screen")
            .deviations(&[&ODD_ICON, &LARGE_SAMPLE]),
        error("minecraft-status/5.1", "#3", invalid)
            .title("Invalid packets close the connection and do not stop the service")
            .effect("Scanners take the server down or fill its connections")
            .deviations(&[&INVALID_STAYS_OPEN]),
        warning("minecraft-status/5.2", "#10", half_open)
            .title("A connection without a whole request is closed within 35 s")
            .effect("Slow clients use up the connections of the server")
            .deviations(&[&STAYS_OPEN])
            .waits(40),
        survives("minecraft-status/6.1", "#10", connections_per_second)
            .title("The server survives 50 connections/s")
            .effect("A few server lists together take the server down"),
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[
        ClientRequirement::warning(4)
            .title("The handshake has the port of the server, most significant byte first")
            .effect("Proxies that choose the server by host and port choose a wrong one"),
        ClientRequirement::warning(5)
            .title("The handshake has the host as typed")
            .effect("Proxies and protection services show another server"),
        ClientRequirement::error(6)
            .title("A reply in several segments is read to its end")
            .effect("Servers with icons or long texts look offline"),
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
    pass_if(units <= MAX_UNITS, text)
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
    // A length of one byte and an id that no packet has.
    let mut noise = p.noise(64, 63);
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
    ensure(still_answers(p), "the server stopped answering")?;
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
    applies(bytes.is_empty(), "the server replies to one byte")?;
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
