//! Requirements of the ping of Minecraft Bedrock (spec/minecraft-bedrock.md).

use super::client::{ClientRequirement, ClientSuite, Observe, ObservedRequest, Observer};
use super::probe::found;
use super::{
    Cost, Outcome, Probe, Requirement, Severity, Suite, Verdict, counted, deviates, fail, load,
    mild, not_applicable, pass,
};
use hailer_proto::minecraft_bedrock::deviation as known;
use hailer_proto::minecraft_bedrock::message::{Advertisement, Pong};
use hailer_proto::wire::Notes;
use hailer_proto::{Depth, Deviation};
use std::time::Duration;

static NO_OPEN_PONG: Deviation = Deviation {
    name: "no-open-pong",
    help: "a ping for servers with free slots (id 02) gets no reply",
};
static LONG_PING_DROPPED: Deviation = Deviation {
    name: "long-ping-dropped",
    help: "a ping with bytes after its 33 gets no pong",
};

pub(super) static SUITE: Suite = Suite {
    protocol: "minecraft-bedrock",
    interval: Duration::from_millis(300),
    never_sent: "Pings below 33 bytes, unknown ids below 80 and short queries, because RakLib, go-raknet and old Nukkit block their senders \
                 for up to 600 s, and pings with another magic, because they end servers with jsp-raknet.",
    mild: &[
        mild(
            "extra-fields",
            Severity::Note,
            "Clients that require exactly twelve fields reject the pong",
        ),
        mild(
            "no-final-separator",
            Severity::Note,
            "Clients that count semicolons miss the last field",
        ),
        mild(
            "empty-version",
            Severity::Warning,
            "Clients show no version",
        ),
        mild(
            "guid-not-a-number",
            Severity::Warning,
            "Clients that read the guid as a number reject the pong",
        ),
        mild(
            "cut-text",
            Severity::Warning,
            "Clients that trust the length reject the pong",
        ),
        mild(
            "escaped-separator",
            Severity::Note,
            "Clients that split at every separator show shifted fields",
        ),
        mild(
            "final-backslash",
            Severity::Warning,
            "Clients that know escapes show shifted fields",
        ),
        mild(
            "odd-protocol",
            Severity::Warning,
            "Clients that need a number of the protocol reject the pong",
        ),
        mild("no-count", Severity::Warning, "Clients show no count, or 0"),
        mild(
            "negative-guid",
            Severity::Note,
            "Clients that read the guid without a sign reject it",
        ),
        mild(
            "other-guid",
            Severity::Note,
            "Clients that compare both guids show two servers",
        ),
        mild(
            "odd-mode",
            Severity::Note,
            "Clients show an unknown game mode",
        ),
        mild(
            "odd-port",
            Severity::Note,
            "Clients that use the port of the pong do not reach the game",
        ),
    ],
    requirements: &[
        Requirement {
            id: "minecraft-bedrock/1.1",
            title: "A ping is answered",
            section: "spec/minecraft-bedrock.md#2",
            severity: Severity::Error,
            effect: "The server is not in the list of any player",
            deviations: &[],
            cost: Cost::Low,
            probe: answers,
        },
        Requirement {
            id: "minecraft-bedrock/2.1",
            title: "The pong has id, time, guid, magic and a text of twelve fields",
            section: "spec/minecraft-bedrock.md#4",
            severity: Severity::Error,
            effect: "Clients crash on missing fields or show undefined",
            deviations: &[],
            cost: Cost::Low,
            probe: layout,
        },
        Requirement {
            id: "minecraft-bedrock/2.2",
            title: "The time of the ping comes back unchanged",
            section: "spec/minecraft-bedrock.md#3",
            severity: Severity::Error,
            effect: "Clients drop the pong or show a wrong latency",
            deviations: &[],
            cost: Cost::Low,
            probe: echoed_time,
        },
        Requirement {
            id: "minecraft-bedrock/2.3",
            title: "The guid is the same in every pong",
            section: "spec/minecraft-bedrock.md#10",
            severity: Severity::Warning,
            effect: "The game lists the server several times",
            deviations: &[],
            cost: Cost::Low,
            probe: stable_guid,
        },
        Requirement {
            id: "minecraft-bedrock/2.4",
            title: "A ping for servers with free slots is answered unless the server is full",
            section: "spec/minecraft-bedrock.md#5",
            severity: Severity::Note,
            effect: "Clients that look for free slots do not find the server",
            deviations: &[&NO_OPEN_PONG],
            cost: Cost::Low,
            probe: open_ping,
        },
        Requirement {
            id: "minecraft-bedrock/2.5",
            title: "A ping with bytes after its end is answered",
            section: "spec/minecraft-bedrock.md#10",
            severity: Severity::Note,
            effect: "Clients of later versions do not find the server",
            deviations: &[&LONG_PING_DROPPED],
            cost: Cost::Low,
            probe: long_ping,
        },
        Requirement {
            id: "minecraft-bedrock/3.1",
            title: "Edition and second line are those that the game shows",
            section: "spec/minecraft-bedrock.md#6",
            severity: Severity::Error,
            effect: "The game hides servers without a second line",
            deviations: &[],
            cost: Cost::Low,
            probe: shown,
        },
        Requirement {
            id: "minecraft-bedrock/3.2",
            title: "The text has at most 397 bytes",
            section: "spec/minecraft-bedrock.md#3",
            severity: Severity::Error,
            effect: "The game drops the pong, so the server is not in its list",
            deviations: &[],
            cost: Cost::Low,
            probe: text_length,
        },
        Requirement {
            id: "minecraft-bedrock/3.3",
            title: "Name, version and counts cannot be mistaken for each other",
            section: "spec/minecraft-bedrock.md#4.1",
            severity: Severity::Error,
            effect: "The server disappears from the list of the game",
            deviations: &[
                &known::SEPARATOR_IN_NAME,
                &known::SEPARATOR_IN_LEVEL,
                &known::UNKNOWN_LAYOUT,
            ],
            cost: Cost::Low,
            probe: separators,
        },
        Requirement {
            id: "minecraft-bedrock/3.4",
            title: "The text is UTF-8",
            section: "spec/minecraft-bedrock.md#4.2",
            severity: Severity::Warning,
            effect: "Players and clients see a garbled name",
            deviations: &[&known::LATIN_1_TEXT],
            cost: Cost::Low,
            probe: encoding,
        },
        Requirement {
            id: "minecraft-bedrock/4.1",
            title: "Datagrams of unknown sessions get no pong and do not stop the service",
            section: "spec/minecraft-bedrock.md#5",
            severity: Severity::Error,
            effect: "Late packets of disconnected players take the list entry down",
            deviations: &[],
            cost: Cost::Low,
            probe: strays,
        },
        Requirement {
            id: "minecraft-bedrock/5.1",
            title: "The pong is at most 432 bytes",
            section: "spec/minecraft-bedrock.md#7",
            severity: Severity::Error,
            effect: "Forged addresses get up to 1000 times what was sent for them",
            deviations: &[],
            cost: Cost::Low,
            probe: amplification,
        },
        Requirement {
            id: "minecraft-bedrock/6.1",
            title: "The server survives 50 pings/s and limits its pongs",
            section: "spec/minecraft-bedrock.md#7",
            severity: Severity::Error,
            effect: "Forged addresses get as many bytes as the server can send",
            deviations: &[],
            cost: Cost::Load,
            probe: pings_per_second,
        },
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[
        ClientRequirement {
            number: 4,
            title: "A ping has at least 33 bytes",
            severity: Severity::Error,
            effect: "RakLib and go-raknet block the sender of a shorter one for up to 600 s",
        },
        ClientRequirement {
            number: 5,
            title: "Each query has another time",
            severity: Severity::Note,
            effect: "A late pong of an earlier query shows a wrong latency",
        },
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
    match p.ask(socket, &request, &is_pong) {
        Some(reply) => Ok((request, reply)),
        None => fail("no pong"),
    }
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    pong(p).is_ok()
}

fn read(bytes: &[u8]) -> Result<Pong<'_>, Outcome> {
    Pong::read(bytes, &mut Notes::default()).map_err(|error| Outcome::Fail(error.to_string()))
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
    if level.trim().is_empty() {
        return fail("the second line is empty");
    }
    pass(format!("{edition}, second line {level:?}"))
}

fn text_length(p: &mut Probe<'_>) -> Verdict {
    let (_, reply) = pong(p)?;
    let length = reply.len().saturating_sub(35);
    let text = counted(length, "byte");
    if length > MAX_TEXT {
        fail(text)
    } else {
        pass(text)
    }
}

fn separators(p: &mut Probe<'_>) -> Verdict {
    let (_, reply) = pong(p)?;
    let mut notes = Notes::default();
    let parsed = Pong::read(&reply, &mut notes);
    let pong = parsed.map_err(|error| Outcome::Fail(error.to_string()))?;
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
    let mut noise: Vec<u8> = (0..60).map(|_| p.random() as u8).collect();
    // Datagrams of sessions start with 80 and above.
    noise[0] = 0x84;
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
    if reply.len() > MAX_PONG {
        fail(text)
    } else {
        pass(text)
    }
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
