//! Requirements of the ping of Minecraft Bedrock (spec/minecraft-bedrock.md).

use super::client::{ClientRequirement, ClientSuite, Observe, ObservedRequest, Observer};
use super::*;
use hailer_proto::Depth;
use hailer_proto::minecraft_bedrock::deviation as known;
use hailer_proto::minecraft_bedrock::message::{Advertisement, Pong};

deviations! {
    static;
    NO_OPEN_PONG "no-open-pong" "a ping for servers with free slots (id 02) gets no reply";
    LONG_PING_DROPPED "long-ping-dropped" "a ping with bytes after its 33 gets no pong";
}

pub(super) static SUITE: Suite = Suite {
    protocol: "minecraft-bedrock",
    interval: Duration::from_millis(300),
    never_sent: "Pings below 33 bytes, unknown ids below 80 and short queries, because RakLib, \
        go-raknet and old Nukkit block their senders for up to 600 s, and pings with another \
        magic, because they end servers with jsp-raknet.",
    mild: &[
        mild_note("extra-fields")
            .effect("Clients that require exactly twelve fields reject the pong"),
        mild_note("no-final-separator").effect("Clients that count semicolons miss the last field"),
        mild_warning("empty-version").effect("Clients show no version"),
        mild_warning("guid-not-a-number")
            .effect("Clients that read the guid as a number reject the pong"),
        mild_warning("cut-text").effect("Clients that trust the length reject the pong"),
        mild_note("escaped-separator")
            .effect("Clients that split at every separator show shifted fields"),
        mild_warning("final-backslash").effect("Clients that know escapes show shifted fields"),
        mild_warning("odd-protocol")
            .effect("Clients that need a number of the protocol reject the pong"),
        mild_warning("no-count").effect("Clients show no count, or 0"),
        mild_note("negative-guid").effect("Clients that read the guid without a sign reject it"),
        mild_note("other-guid").effect("Clients that compare both guids show two servers"),
        mild_note("odd-mode").effect("Clients show an unknown game mode"),
        mild_note("odd-port").effect("Clients that use the port of the pong do not reach the game"),
    ],
    requirements: &[
        error("minecraft-bedrock/1.1", "#2", answers)
            .title("A ping is answered")
            .effect("The server is not in the list of any player"),
        error("minecraft-bedrock/2.1", "#4", layout)
            .title("The pong has id, time, guid, magic and a text of twelve fields")
            .effect("Clients crash on missing fields or show undefined"),
        error("minecraft-bedrock/2.2", "#3", echoed_time)
            .title("The time of the ping comes back unchanged")
            .effect("Clients drop the pong or show a wrong latency"),
        warning("minecraft-bedrock/2.3", "#10", stable_guid)
            .title("The guid is the same in every pong")
            .effect("The game lists the server several times"),
        note("minecraft-bedrock/2.4", "#5", open_ping)
            .title("A ping for servers with free slots is answered unless the server is full")
            .effect("Clients that look for free slots do not find the server")
            .deviations(&[&NO_OPEN_PONG]),
        note("minecraft-bedrock/2.5", "#10", long_ping)
            .title("A ping with bytes after its end is answered")
            .effect("Clients of later versions do not find the server")
            .deviations(&[&LONG_PING_DROPPED]),
        error("minecraft-bedrock/3.1", "#6", shown)
            .title("Edition and second line are those that the game shows")
            .effect("The game hides servers without a second line"),
        error("minecraft-bedrock/3.2", "#3", text_length)
            .title("The text has at most 397 bytes")
            .effect("The game drops the pong, so the server is not in its list"),
        error("minecraft-bedrock/3.3", "#4.1", separators)
            .title("Name, version and counts cannot be mistaken for each other")
            .effect("The server disappears from the list of the game")
            .deviations(&[
                &known::SEPARATOR_IN_NAME,
                &known::SEPARATOR_IN_LEVEL,
                &known::UNKNOWN_LAYOUT,
            ]),
        warning("minecraft-bedrock/3.4", "#4.2", encoding)
            .title("The text is UTF-8")
            .effect("Players and clients see a garbled name")
            .deviations(&[&known::LATIN_1_TEXT]),
        error("minecraft-bedrock/4.1", "#5", strays)
            .title("Datagrams of unknown sessions get no pong and do not stop the service")
            .effect("Late packets of disconnected players take the list entry down"),
        error("minecraft-bedrock/5.1", "#7", amplification)
            .title("The pong is at most 432 bytes")
            .effect("Forged addresses get up to 1000 times what was sent for them"),
        error("minecraft-bedrock/6.1", "#7", pings_per_second)
            .title("The server survives 50 pings/s and limits its pongs")
            .effect("Forged addresses get as many bytes as the server can send")
            .load(),
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[
        ClientRequirement::error(4)
            .title("A ping has at least 33 bytes")
            .effect("RakLib and go-raknet block the sender of a shorter one for up to 600 s"),
        ClientRequirement::note(5)
            .title("Each query has another time")
            .effect("A late pong of an earlier query shows a wrong latency"),
    ],
    deviations: &[],
    observe: Observe::Datagram(observe),
};

const MAGIC: &[u8; 16] = b"\x00\xFF\xFF\x00\xFE\xFE\xFE\xFE\xFD\xFD\xFD\xFD\x12\x34\x56\x78";
const PING: u8 = 1;
const OPEN_PING: u8 = 2;
/// Longest text and pong that the game reads (spec/minecraft-bedrock.md#3).
const MAX_TEXT: usize = 397;
const MAX_PONG: usize = 432;

fn ping(id: u8, time: u64) -> Vec<u8> {
    [&[id][..], &time.to_be_bytes(), MAGIC, &time.to_le_bytes()].concat()
}

fn is_pong(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x1C)
}

/// Sends a ping. Returns it and the pong.
fn pong(p: &mut Probe<'_>) -> Result<(Vec<u8>, Vec<u8>), Outcome> {
    let socket = p.open()?;
    let request = ping(PING, p.random());
    let reply = p.reply(socket, &request, &is_pong, "no pong")?;
    Ok((request, reply))
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    pong(p).is_ok()
}

fn read(bytes: &[u8]) -> Result<Pong<'_>, Outcome> {
    Ok(Pong::read(bytes, &mut Notes::default())?)
}

fn text(bytes: &[u8]) -> Result<Advertisement<'_>, Outcome> {
    match read(bytes)?.text {
        Some(text) => Ok(text),
        None => not_applicable("the pong has no text"),
    }
}

fn answers(p: &mut Probe<'_>) -> Verdict {
    let Ok((_, reply)) = pong(p) else {
        return fail(p.silence());
    };
    // Fails if the pong is not usable, which has its own requirements.
    if let Ok(status) = p.query(Depth::Full) {
        p.facts.status = Some(status);
    }
    pass(format!("a pong of {}", counted(reply.len(), "byte")))
}

fn layout(p: &mut Probe<'_>) -> Verdict {
    let (request, reply) = pong(p)?;
    p.layout(&request, &reply)
}

fn echoed_time(p: &mut Probe<'_>) -> Verdict {
    for time in [p.random(), u64::MAX, 0] {
        let socket = p.open()?;
        let Some(reply) = p.ask(socket, &ping(PING, time), &is_pong) else {
            return fail(format!("no pong for the time {time:016x}"));
        };
        let found = read(&reply)?.time;
        if found != time {
            return fail(format!("{time:016x} came back as {found:016x}"));
        }
    }
    pass("three times came back")
}

fn stable_guid(p: &mut Probe<'_>) -> Verdict {
    let (_, first) = pong(p)?;
    let (_, second) = pong(p)?;
    let guids = (read(&first)?.guid, read(&second)?.guid);
    if guids.0 == guids.1 {
        pass(format!("{:016x}", guids.0))
    } else {
        fail(format!("{:016x}, then {:016x}", guids.0, guids.1))
    }
}

fn open_ping(p: &mut Probe<'_>) -> Verdict {
    let players = &p.status()?.players;
    if players
        .online
        .zip(players.max)
        .is_some_and(|(online, max)| online >= max)
    {
        return not_applicable("the server is full");
    }
    let socket = p.open()?;
    let request = ping(OPEN_PING, p.random());
    match p.ask(socket, &request, &is_pong) {
        Some(_) => pass("id 02 gets a pong"),
        None => deviates(&NO_OPEN_PONG, "no pong for id 02"),
    }
}

fn long_ping(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let request = [ping(PING, p.random()), vec![0; 16]].concat();
    match p.ask(socket, &request, &is_pong) {
        Some(_) => pass("49 bytes get a pong"),
        None => deviates(&LONG_PING_DROPPED, "no pong for 49 bytes"),
    }
}

fn shown(p: &mut Probe<'_>) -> Verdict {
    let (_, reply) = pong(p)?;
    let text = text(&reply)?;
    let edition = text.edition.unwrap_or_default();
    let level = text.level.unwrap_or_default();
    if edition != "MCPE" && edition != "MCEE" {
        return fail(format!("the edition is {edition:?}"));
    }
    ensure(!level.trim().is_empty(), "the second line is empty")?;
    pass(format!("{edition}, second line {level:?}"))
}

fn text_length(p: &mut Probe<'_>) -> Verdict {
    let (_, reply) = pong(p)?;
    let length = reply.len().saturating_sub(35);
    let text = counted(length, "byte");
    pass_if(length <= MAX_TEXT, text)
}

fn separators(p: &mut Probe<'_>) -> Verdict {
    let (_, reply) = pong(p)?;
    let mut notes = Notes::default();
    let pong = Pong::read(&reply, &mut notes)?;
    let Some(text) = pong.text else {
        return not_applicable("the pong has no text");
    };
    let name = text.name.into_owned();
    let guesses = p.tested(notes.met());
    if !guesses.is_empty() {
        return found(guesses, format!("the name {name:?}"));
    }
    match (text.protocol, text.online, text.max) {
        (Some(_), Some(online), Some(max)) => {
            pass(format!("{name:?}, {online} of {}", counted(max, "player")))
        }
        _ => fail("the counts are not at their place"),
    }
}

fn encoding(p: &mut Probe<'_>) -> Verdict {
    let reply = pong(p)?;
    p.test_texts(&[reply])
}

fn strays(p: &mut Probe<'_>) -> Verdict {
    // Datagrams of sessions start with 80 and above.
    let noise = p.noise(60, 0x84);
    let strays = [
        ("a datagram of an unknown session", noise),
        ("an acknowledgement", vec![0xC0, 0, 1, 1, 0, 0, 0]),
        ("1400 bytes of an unknown session", vec![0x8C; 1_400]),
    ];
    p.strays(&strays, &still_answers)
}

fn amplification(p: &mut Probe<'_>) -> Verdict {
    let (request, reply) = pong(p)?;
    let text = p.amplification(request.len(), reply.len());
    pass_if(reply.len() <= MAX_PONG, text)
}

fn pings_per_second(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let request = ping(PING, p.random());
    load::requests(p, socket, &request, false, &still_answers)
}

fn observe(o: &mut Observer, seen: &ObservedRequest<'_>) -> Vec<Vec<u8>> {
    let text = format!("a ping of {}", counted(seen.bytes.len(), "byte"));
    o.require(4, seen.bytes.len() >= 33, &text);
    let time = seen.bytes.get(1..9).unwrap_or_default().to_vec();
    let mut others = o.ports.iter().filter(|(port, _)| **port != seen.from);
    let is_used = others.any(|(_, port)| port.id == time);
    o.require(5, !is_used, "the time of an earlier query");
    o.port(seen.from).id = time;
    o.answers(seen, seen.bytes)
}
