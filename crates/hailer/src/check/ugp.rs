//! Requirements of UGP (spec/ugp.md).

use super::client::{ClientRequirement, ClientSuite, Observe, ObservedRequest, Observer};
use super::*;
use hailer_proto::ugp::deviation as known;
use hailer_proto::ugp::message::{QueryReply, Reply};

deviations! {
    static;
    EMPTY_SELECTION_DROPPED "empty-selection-dropped" "a query for no section gets no reply";
    EXTRA_BYTES_DROPPED "extra-bytes-dropped" "a query with bytes after its flags gets no reply";
    MORE_THAN_ASKED "more-than-asked" "a reply has sections or fields that were not requested";
    OVER_1024 "over-1024" "a reply is longer than 1024 bytes, the smallest buffer of a known client";
}

pub(super) static SUITE: Suite = Suite {
    protocol: "ugp",
    interval: Duration::from_millis(150),
    never_sent: "Requests for players and teams together, because the order of their flags is disputed.",
    mild: &[
        mild_warning("odd-version").effect("Clients that compare the version drop the reply"),
        mild_warning("unmarked-type").effect("Clients that compare the type drop the reply"),
        mild_warning("zero-length-string")
            .effect("Clients that expect a NUL in each string show shifted fields"),
        mild_warning("unclosed-string")
            .effect("Clients that drop the last byte of a string cut the text"),
    ],
    requirements: &[
        error("ugp/1.1", "#10.2", baseline)
            .title("Queries for server, players and rules are answered")
            .effect("No client can query the server"),
        warning("ugp/2.1", "#4", |p| layout(p, &[0]))
            .title("A ping gets 8 bytes with the type 80")
            .effect("Clients that measure the latency with pings show the server as offline")
            .deviations(&[&known::UNMARKED_TYPE]),
        error("ugp/3.1", "#6.1", |p| layout(p, &SERVER))
            .title("The reply to a query for the server has the header and the fields of its flags")
            .effect("Clients show shifted or garbled fields")
            .deviations(&[&known::UNMARKED_TYPE]),
        error("ugp/3.2", "#6.2", |p| layout(p, &PLAYERS))
            .title("The reply to a query for players has a count, flags and entries")
            .effect("Clients list wrong players"),
        error("ugp/3.3", "#6.4", |p| layout(p, &RULES))
            .title("The reply to a query for rules has a count and pairs")
            .effect("Clients list wrong rules"),
        error("ugp/3.4", "#6", only_requested)
            .title("Each field of a reply was requested")
            .effect("Clients that read by their own flags show shifted fields")
            .deviations(&[&MORE_THAN_ASKED]),
        note("ugp/3.5", "#9.1", empty_selection)
            .title("A query for no section gets a reply without sections")
            .effect("Clients cannot query only the game")
            .deviations(&[&EMPTY_SELECTION_DROPPED]),
        note("ugp/3.6", "#5", extra_bytes)
            .title("Bytes after the flags are ignored")
            .effect("Clients with flags of later versions get no reply")
            .deviations(&[&EXTRA_BYTES_DROPPED]),
        warning("ugp/3.7", "#11.2", count_is_list)
            .title("The player count is the number of listed players")
            .effect("Clients that read as many players as the count says fail")
            .deviations(&[&known::ODD_PLAYER_COUNT]),
        warning("ugp/3.8", "#2", encoding)
            .title("Texts are UTF-8 and end with a whole character")
            .effect("Clients show garbled names, or reject the reply")
            .deviations(&[&known::LATIN_1_TEXT, &known::CUT_TEXT]),
        error("ugp/4.1", "#11.1", strays)
            .title("Replies, other versions and truncated queries get no reply")
            .effect("One forged datagram makes two servers reply to each other endlessly"),
        error("ugp/5.1", "#11.3", amplification)
            .title("No reply has more than 1024 bytes")
            .effect(
                "Forged addresses get hundreds of times what was sent for them, and clients with \
                small buffers fail",
            )
            .deviations(&[&OVER_1024, &FRAGMENTED]),
        error("ugp/6.1", "#11.4", queries_per_second)
            .title("The server survives 50 queries/s and limits its replies")
            .effect("Forged addresses get as many bytes as the server can send")
            .load(),
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[ClientRequirement::warning(4)
        .title("Players and teams are not requested together")
        .effect("The order of their flags is disputed, so that servers misread the request")],
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
    let reply = p.reply(socket, request, &is_reply, "no reply")?;
    Ok(reply)
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    ask(p, &request(&SERVER)).is_ok()
}

fn read(bytes: &[u8]) -> Result<QueryReply<'_>, Outcome> {
    match Reply::read(bytes, &mut Notes::default())? {
        Reply::Query(reply) => Ok(reply),
        Reply::Ping => fail("a ping reply to a query"),
    }
}

fn layout(p: &mut Probe<'_>, flags: &[u8]) -> Verdict {
    let request = request(flags);
    let reply = ask(p, &request)?;
    p.layout(&request, &reply)
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
    let has_name = parsed.server.is_some_and(|server| server.name.is_some());
    ensure(has_name, "the name is missing")?;
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
    // Not the start of a query, and of no session of the game's network library.
    let noise = p.noise(30, 0x15);
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
