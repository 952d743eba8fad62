//! Requirements of UGP (spec/ugp.md).

use super::behavior::FRAGMENTED;
use super::client::{ClientRequirement, ClientSuite, Observe, ObservedRequest, Observer};
use super::probe::baseline;
use super::{
    Cost, Outcome, Probe, Requirement, Severity, Suite, Verdict, counted, deviates, fail, load,
    mild, not_applicable, pass,
};
use hailer_proto::Deviation;
use hailer_proto::ugp::deviation as known;
use hailer_proto::ugp::message::{QueryReply, Reply};
use hailer_proto::wire::Notes;
use std::time::Duration;

static EMPTY_SELECTION_DROPPED: Deviation = Deviation {
    name: "empty-selection-dropped",
    help: "a query for no section gets no reply",
};
static EXTRA_BYTES_DROPPED: Deviation = Deviation {
    name: "extra-bytes-dropped",
    help: "a query with bytes after its flags gets no reply",
};
static MORE_THAN_ASKED: Deviation = Deviation {
    name: "more-than-asked",
    help: "a reply has sections or fields that were not requested",
};
static OVER_1024: Deviation = Deviation {
    name: "over-1024",
    help: "a reply is longer than 1024 bytes, the smallest buffer of a known client",
};

pub(super) static SUITE: Suite = Suite {
    protocol: "ugp",
    interval: Duration::from_millis(150),
    never_sent: "Requests for players and teams together, because the order of their flags is disputed.",
    mild: &[
        mild(
            "odd-version",
            Severity::Warning,
            "Clients that compare the version drop the reply",
        ),
        mild(
            "unmarked-type",
            Severity::Warning,
            "Clients that compare the type drop the reply",
        ),
        mild(
            "zero-length-string",
            Severity::Warning,
            "Clients that expect a NUL in each string show shifted fields",
        ),
        mild(
            "unclosed-string",
            Severity::Warning,
            "Clients that drop the last byte of a string cut the text",
        ),
    ],
    requirements: &[
        Requirement {
            id: "ugp/1.1",
            title: "Queries for server, players and rules are answered",
            section: "spec/ugp.md#10.2",
            severity: Severity::Error,
            effect: "No client can query the server",
            deviations: &[],
            cost: Cost::Low,
            probe: baseline,
        },
        Requirement {
            id: "ugp/2.1",
            title: "A ping gets 8 bytes with the type 80",
            section: "spec/ugp.md#4",
            severity: Severity::Warning,
            effect: "Clients that measure the latency with pings show the server as offline",
            deviations: &[&known::UNMARKED_TYPE],
            cost: Cost::Low,
            probe: ping,
        },
        Requirement {
            id: "ugp/3.1",
            title: "The reply to a query for the server has the header and the fields of its flags",
            section: "spec/ugp.md#6.1",
            severity: Severity::Error,
            effect: "Clients show shifted or garbled fields",
            deviations: &[&known::UNMARKED_TYPE],
            cost: Cost::Low,
            probe: server_layout,
        },
        Requirement {
            id: "ugp/3.2",
            title: "The reply to a query for players has a count, flags and entries",
            section: "spec/ugp.md#6.2",
            severity: Severity::Error,
            effect: "Clients list wrong players",
            deviations: &[],
            cost: Cost::Low,
            probe: players_layout,
        },
        Requirement {
            id: "ugp/3.3",
            title: "The reply to a query for rules has a count and pairs",
            section: "spec/ugp.md#6.4",
            severity: Severity::Error,
            effect: "Clients list wrong rules",
            deviations: &[],
            cost: Cost::Low,
            probe: rules_layout,
        },
        Requirement {
            id: "ugp/3.4",
            title: "Each field of a reply was requested",
            section: "spec/ugp.md#6",
            severity: Severity::Error,
            effect: "Clients that read by their own flags show shifted fields",
            deviations: &[&MORE_THAN_ASKED],
            cost: Cost::Low,
            probe: only_requested,
        },
        Requirement {
            id: "ugp/3.5",
            title: "A query for no section gets a reply without sections",
            section: "spec/ugp.md#9.1",
            severity: Severity::Note,
            effect: "Clients cannot query only the game",
            deviations: &[&EMPTY_SELECTION_DROPPED],
            cost: Cost::Low,
            probe: empty_selection,
        },
        Requirement {
            id: "ugp/3.6",
            title: "Bytes after the flags are ignored",
            section: "spec/ugp.md#5",
            severity: Severity::Note,
            effect: "Clients with flags of later versions get no reply",
            deviations: &[&EXTRA_BYTES_DROPPED],
            cost: Cost::Low,
            probe: extra_bytes,
        },
        Requirement {
            id: "ugp/3.7",
            title: "The player count is the number of listed players",
            section: "spec/ugp.md#11.2",
            severity: Severity::Warning,
            effect: "Clients that read as many players as the count says fail",
            deviations: &[&known::ODD_PLAYER_COUNT],
            cost: Cost::Low,
            probe: count_is_list,
        },
        Requirement {
            id: "ugp/3.8",
            title: "Texts are UTF-8 and end with a whole character",
            section: "spec/ugp.md#2",
            severity: Severity::Warning,
            effect: "Clients show garbled names, or reject the reply",
            deviations: &[&known::LATIN_1_TEXT, &known::CUT_TEXT],
            cost: Cost::Low,
            probe: encoding,
        },
        Requirement {
            id: "ugp/4.1",
            title: "Replies, other versions and truncated queries get no reply",
            section: "spec/ugp.md#11.1",
            severity: Severity::Error,
            effect: "One forged datagram makes two servers reply to each other endlessly",
            deviations: &[],
            cost: Cost::Low,
            probe: strays,
        },
        Requirement {
            id: "ugp/5.1",
            title: "No reply has more than 1024 bytes",
            section: "spec/ugp.md#11.3",
            severity: Severity::Error,
            effect: "Forged addresses get hundreds of times what was sent for them, and clients with small buffers fail",
            deviations: &[&OVER_1024, &FRAGMENTED],
            cost: Cost::Low,
            probe: amplification,
        },
        Requirement {
            id: "ugp/6.1",
            title: "The server survives 50 queries/s and limits its replies",
            section: "spec/ugp.md#11.4",
            severity: Severity::Error,
            effect: "Forged addresses get as many bytes as the server can send",
            deviations: &[],
            cost: Cost::Load,
            probe: queries_per_second,
        },
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[ClientRequirement {
        number: 4,
        title: "Players and teams are not requested together",
        severity: Severity::Warning,
        effect: "The order of their flags is disputed, so that servers misread the request",
    }],
    deviations: &[],
    observe: Observe::Datagram(observe),
};

const HEADER: [u8; 7] = *b"\xFF\xFFUGP\x00\x01";
/// The server section with all undisputed fields (spec/ugp.md#10.2).
const SERVER: [u8; 3] = [1, 0x01, 0x7D];
const PLAYERS: [u8; 5] = [1, 0x03, 0x7D, 0x7F, 0x3D];
/// The name of the server, and id, name and ping of each player.
const FEWER_FIELDS: [u8; 5] = [1, 0x03, 0x04, 0x43, 0x01];
const RULES: [u8; 4] = [1, 0x09, 0x7D, 0x07];

fn request(flags: &[u8]) -> Vec<u8> {
    [&HEADER, flags].concat()
}

fn is_reply(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xFF\xFFUGP") && bytes.len() >= 8
}

fn ask(p: &mut Probe<'_>, request: &[u8]) -> Result<Vec<u8>, Outcome> {
    let socket = p.open()?;
    match p.ask(socket, request, &is_reply) {
        Some(reply) => Ok(reply),
        None => fail("no reply"),
    }
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    ask(p, &request(&SERVER)).is_ok()
}

fn read(bytes: &[u8]) -> Result<QueryReply<'_>, Outcome> {
    match Reply::read(bytes, &mut Notes::default()) {
        Ok(Reply::Query(reply)) => Ok(reply),
        Ok(Reply::Ping) => fail("a ping reply to a query"),
        Err(error) => fail(error.to_string()),
    }
}

fn ping(p: &mut Probe<'_>) -> Verdict {
    let request = request(&[0]);
    let reply = ask(p, &request)?;
    p.layout(&request, &reply)
}

fn layout(p: &mut Probe<'_>, flags: &[u8]) -> Verdict {
    let request = request(flags);
    let reply = ask(p, &request)?;
    p.layout(&request, &reply)
}

fn server_layout(p: &mut Probe<'_>) -> Verdict {
    layout(p, &SERVER)
}

fn players_layout(p: &mut Probe<'_>) -> Verdict {
    layout(p, &PLAYERS)
}

fn rules_layout(p: &mut Probe<'_>) -> Verdict {
    layout(p, &RULES)
}

fn only_requested(p: &mut Probe<'_>) -> Verdict {
    // Only the name.
    let reply = ask(p, &request(&[1, 0x01, 0x04]))?;
    let sections = reply.get(9).copied().unwrap_or_default();
    let fields = reply.get(10).copied().unwrap_or_default();
    if sections & !0x01 != 0 {
        return deviates(&MORE_THAN_ASKED, format!("sections {sections:02x} for 01"));
    }
    if fields & !0x04 != 0 {
        return deviates(&MORE_THAN_ASKED, format!("fields {fields:02x} for 04"));
    }
    let parsed = read(&reply)?;
    if parsed.server.is_none_or(|server| server.name.is_none()) {
        return fail("the name is missing");
    }
    let mut detail = "only the name";
    for requested in [PLAYERS, FEWER_FIELDS] {
        let reply = ask(p, &request(&requested))?;
        let mut notes = Notes::explaining();
        let _ = Reply::read(&reply, &mut notes);
        let [_, sections, _, fields, extra] = requested;
        for (name, requested) in [
            ("request flags", sections),
            ("player flags", fields),
            ("extra player flags", extra),
        ] {
            let mut given = notes.fields().iter().filter(|field| field.name == name);
            let given = given.next().and_then(|field| reply.get(field.range.start));
            let given = given.copied().unwrap_or_default();
            if given & !requested != 0 {
                let text = format!("{name} {given:02x} for {requested:02x}");
                return deviates(&MORE_THAN_ASKED, text);
            }
            if name == "player flags" && given != 0 {
                detail = "only the name, and of players only requested fields";
            }
        }
    }
    pass(detail)
}

fn empty_selection(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let Some(reply) = p.ask_once(socket, &request(&[1, 0]), &is_reply) else {
        return deviates(&EMPTY_SELECTION_DROPPED, "no reply to the flags 00");
    };
    match read(&reply)?.sections {
        0 => pass("a reply without sections"),
        sections => fail(format!("the sections {sections:02x}")),
    }
}

fn extra_bytes(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let longer = [request(&SERVER), vec![0; 5]].concat();
    match p.ask(socket, &longer, &is_reply) {
        Some(_) => pass("five more bytes get the reply"),
        None => deviates(&EXTRA_BYTES_DROPPED, "no reply to five more bytes"),
    }
}

fn count_is_list(p: &mut Probe<'_>) -> Verdict {
    let reply = ask(p, &request(&PLAYERS))?;
    let reply = read(&reply)?;
    let Some(players) = reply.players else {
        return not_applicable("the reply has no players");
    };
    let count = reply.server.and_then(|server| server.online);
    let text = counted(players.len(), "player") + " listed";
    match count {
        Some(count) if usize::from(count) != players.len() => {
            deviates(&known::ODD_PLAYER_COUNT, format!("{text}, {count} counted"))
        }
        _ => pass(text),
    }
}

fn encoding(p: &mut Probe<'_>) -> Verdict {
    let mut replies = Vec::new();
    for flags in [&SERVER[..], &PLAYERS, &RULES] {
        let request = request(flags);
        let reply = ask(p, &request)?;
        replies.push((request, reply));
    }
    p.test_texts(&replies)
}

fn strays(p: &mut Probe<'_>) -> Verdict {
    let mut noise: Vec<u8> = (0..30).map(|_| p.random() as u8).collect();
    // Not the start of a query, and of no session of the game's network library.
    noise[0] = 0x15;
    let strays = [
        ("a ping reply", request(&[0x80])),
        ("a query reply", request(&[0x81, 1, 0])),
        ("version 2", b"\xFF\xFFUGP\x00\x02\x01\x01\x7D".to_vec()),
        ("a query without its last byte", request(&[1, 1])),
        ("the magic alone", HEADER[..5].to_vec()),
        ("30 random bytes", noise),
    ];
    p.strays(&strays, &still_answers)
}

fn amplification(p: &mut Probe<'_>) -> Verdict {
    let mut longest = (0, 0);
    for flags in [&SERVER[..], &PLAYERS, &RULES] {
        let request = request(flags);
        let reply = ask(p, &request)?;
        if reply.len() > longest.1 {
            longest = (request.len(), reply.len());
        }
    }
    let text = p.amplification(longest.0, longest.1);
    match longest.1 {
        ..=1024 => pass(text),
        1025..=1400 => deviates(&OVER_1024, text),
        _ => Ok(Outcome::Deviation {
            found: vec![&OVER_1024, &FRAGMENTED],
            detail: text,
        }),
    }
}

fn queries_per_second(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    load::requests(p, socket, &request(&PLAYERS), false, &still_answers)
}

/// Flags of players and teams in a request.
const PLAYERS_AND_TEAMS: u8 = 0x06;

fn observe(o: &mut Observer, seen: &ObservedRequest<'_>) -> Vec<Vec<u8>> {
    if let Some(flags) = seen.bytes.get(8) {
        let is_both = flags & PLAYERS_AND_TEAMS == PLAYERS_AND_TEAMS;
        o.require(4, !is_both, "players and teams in one request");
    }
    o.answers(seen, seen.bytes)
}
