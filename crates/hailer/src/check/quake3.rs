//! Requirements of Quake 3 (spec/quake3.md).

use super::client::{ClientRequirement, ClientSuite, Observe, ObservedRequest, Observer};
use super::*;
use hailer_proto::quake3::deviation as known;
use hailer_proto::quake3::message::{Kind, Reply, Request};

deviations! {
    static;
    STATUS_OFF "status-off" "a request for the status gets no reply, one for the info does";
    LONG_CHALLENGE "long-challenge-dropped" "a challenge of 100 characters is cut, not returned, or not answered";
    BARE_DROPPED "bare-request-dropped" "a request without a challenge gets no reply";
    LINE_END_DROPPED "line-end-dropped" "a request with a line feed at its end gets no reply";
    OTHER_COUNT "other-count" "info and status have different counts of players, such as without bots";
    NOT_UTF8 "not-utf8" "texts are not UTF-8, so clients guess the code page";
}

pub(super) static SUITE: Suite = Suite {
    protocol: "quake3",
    // ioquake3 answers a burst of 10 requests, then one per second. DarkPlaces answers one per second.
    interval: Duration::from_millis(1_100),
    never_sent: "Commands such as rcon and connect, because servers block their senders, and challenges \
        above 128 characters, which old engines do not check.",
    mild: &[
        mild_note("no-line-feed").effect("Clients that read whole lines miss the last player"),
        mild_note("empty-line").effect("Clients that count lines show a player too many"),
        mild_note("duplicate-key").effect("Clients show one or the other of two values"),
        mild_note("no-value").effect("Clients that read pairs reject the last setting"),
        mild_warning("backslash-in-value")
            .effect("Clients show the rest of the value as other settings"),
        mild_note("variables-after-players")
            .effect("Clients show the settings after the players as one more player"),
        mild_warning("odd-player").effect("Clients leave out a player or show a wrong name"),
        mild_note("missing-players").effect("Clients list a part of the players"),
        mild_warning("no-count").effect("Clients show no number of players"),
    ],
    requirements: &[
        error("quake3/1.1", "#7", baseline)
            .title("Requests for status or info are answered")
            .effect("No client can query the server"),
        error("quake3/2.1", "#4", info_layout)
            .title("The info reply is a command, a line feed and an infostring")
            .effect("The server browser of the game does not list the server"),
        error("quake3/2.2", "#5", status_layout)
            .title("The status reply is a command, an infostring and a line for each player")
            .effect("Clients show no players or no settings")
            .deviations(&[&STATUS_OFF]),
        warning("quake3/2.3", "#2", echoed_challenge)
            .title("Both replies return the challenge")
            .effect(
                "Anyone who guesses the port of a client can forge a reply, and late replies are \
                mixed up",
            )
            .deviations(&[&known::NO_CHALLENGE, &known::EMPTY_CHALLENGE]),
        error("quake3/2.4", "#10", injected_challenge)
            .title("A challenge cannot add variables to the reply")
            .effect("Clients show variables that the sender of the request chose"),
        note("quake3/2.5", "#2", long_challenge)
            .title("A challenge of 100 characters is returned")
            .effect("Clients with long challenges drop the reply")
            .deviations(&[&LONG_CHALLENGE]),
        warning("quake3/2.6", "#2", bare_request)
            .title("A request without a challenge is answered")
            .effect("Simple clients and old browsers do not find the server")
            .deviations(&[&BARE_DROPPED]),
        note("quake3/2.7", "#2", line_end)
            .title("A line feed at the end of a request is accepted")
            .effect("Clients that end requests like a console do not find the server")
            .deviations(&[&LINE_END_DROPPED]),
        warning("quake3/3.1", "#5", same_values)
            .title("Info and status agree on the map and the number of players")
            .effect("Counts jump, depending on the request of the client")
            .deviations(&[&OTHER_COUNT]),
        note("quake3/3.2", "#5", count_is_list)
            .title("The status lists as many players as it counts")
            .effect("Lists of players are incomplete")
            .deviations(&[&known::MISSING_PLAYERS]),
        note("quake3/3.3", "#3", encoding)
            .title("Texts are ASCII or UTF-8")
            .effect("Clients show garbled names")
            .deviations(&[&NOT_UTF8]),
        error("quake3/4.1", "#10", strays)
            .title("Replies, unknown commands and other datagrams get no reply")
            .effect("One forged datagram makes two servers reply to each other endlessly"),
        warning("quake3/5.1", "#11", amplification)
            .title("No reply has more than 1400 bytes")
            .effect(
                "Forged addresses get over 100 times what was sent for them, and some networks \
                drop fragments",
            )
            .deviations(&[&FRAGMENTED]),
        error("quake3/6.1", "#11", requests_per_second)
            .title("The server survives 50 requests/s and limits its replies")
            .effect("Forged addresses get as many bytes as the server can send")
            .load(),
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[
        ClientRequirement::warning(4)
            .title("A request has a challenge")
            .effect("Forged and late replies look like real ones"),
        ClientRequirement::note(5)
            .title("The challenge has at most 8 characters")
            .effect("FiveM does not answer longer ones"),
        ClientRequirement::warning(6)
            .title("Each query has another challenge")
            .effect("A late reply to an earlier query is taken for a new one"),
    ],
    deviations: &[],
    observe: Observe::Datagram(observe),
};

const INFO: &[u8] = b"\xFF\xFF\xFF\xFFgetinfo";
const STATUS: &[u8] = b"\xFF\xFF\xFF\xFFgetstatus";
const MAX_PACKET: usize = 1_400;

fn is_reply(bytes: &[u8]) -> bool {
    Reply::kind_of(bytes).is_some()
}

/// Eight letters, which every server returns.
fn challenge(p: &mut Probe<'_>) -> Vec<u8> {
    let random = p.random();
    (0..8)
        .map(|i| b'a' + (random >> (8 * i)) as u8 % 26)
        .collect()
}

/// Sends a request with a challenge. Returns it and the reply.
fn answered(p: &mut Probe<'_>, command: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Outcome> {
    let socket = p.open()?;
    let request = [command, b" ", &challenge(p)].concat();
    let reply = p.reply(socket, &request, &is_reply, "no reply")?;
    Ok((request, reply))
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    answered(p, INFO).is_ok()
}

fn read(bytes: &[u8]) -> Result<Reply<'_>, Outcome> {
    Ok(Reply::read(bytes, &mut Notes::default())?)
}

fn value<'a>(reply: &Reply<'a>, key: &str) -> Option<&'a [u8]> {
    reply.info.find(key)
}

fn info_layout(p: &mut Probe<'_>) -> Verdict {
    let (request, reply) = answered(p, INFO)?;
    p.layout(&request, &reply)
}

fn status_layout(p: &mut Probe<'_>) -> Verdict {
    let Ok((request, reply)) = answered(p, STATUS) else {
        return deviates(&STATUS_OFF, "no reply to getstatus");
    };
    if Reply::kind_of(&reply) == Some(Kind::Info) {
        return deviates(
            &known::INFO_FOR_STATUS,
            format!("an info of {}", counted(reply.len(), "byte")),
        );
    }
    p.layout(&request, &reply)
}

fn echoed_challenge(p: &mut Probe<'_>) -> Verdict {
    for command in [INFO, STATUS] {
        let Ok((request, reply)) = answered(p, command) else {
            continue;
        };
        let sent = &request[request.len() - 8..];
        let reply = read(&reply)?;
        let name = match reply.kind {
            Kind::Info => "info",
            Kind::Status => "status",
        };
        match value(&reply, "challenge") {
            Some(found) if found == sent => {}
            Some(b"") => {
                return deviates(
                    &known::EMPTY_CHALLENGE,
                    format!("the {name} has an empty one"),
                );
            }
            Some(_) => return fail(format!("the {name} has another challenge")),
            None => return deviates(&known::NO_CHALLENGE, format!("the {name} has none")),
        }
    }
    pass("eight letters came back")
}

fn injected_challenge(p: &mut Probe<'_>) -> Verdict {
    for text in [&b"a\\hailer\\1"[..], b"a;hailer", b"a\"hailer"] {
        let socket = p.open()?;
        let request = [INFO, b" ", text].concat();
        let Some(reply) = p.ask_once(socket, &request, &is_reply) else {
            continue;
        };
        let reply = read(&reply)?;
        if value(&reply, "hailer").is_some() || value(&reply, "challenge") == Some(text) {
            let text = String::from_utf8_lossy(text).into_owned();
            return fail(format!("the challenge {text:?} is part of the reply"));
        }
    }
    pass("challenges with \\ ; \" are not returned")
}

fn long_challenge(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let long = vec![b'h'; 100];
    let request = [INFO, b" ", &long].concat();
    let Some(reply) = p.ask(socket, &request, &is_reply) else {
        return deviates(&LONG_CHALLENGE, "no reply to 100 characters");
    };
    let reply = read(&reply)?;
    let returned = value(&reply, "challenge").unwrap_or_default().to_vec();
    if returned == long {
        return pass("100 characters came back");
    }
    let (request, reply) = answered(p, INFO)?;
    let short = request.get(request.len() - 8..);
    if value(&read(&reply)?, "challenge") != short {
        not_applicable("the server returns no challenge")
    } else {
        deviates(
            &LONG_CHALLENGE,
            format!("{} of 100 characters came back", returned.len()),
        )
    }
}

fn bare_request(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    match p.ask(socket, INFO, &is_reply) {
        Some(_) => pass("getinfo without a challenge gets a reply"),
        None => deviates(&BARE_DROPPED, "no reply to getinfo without a challenge"),
    }
}

fn line_end(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let request = [INFO, b" ", &challenge(p), b"\n"].concat();
    match p.ask(socket, &request, &is_reply) {
        Some(_) => pass("a line feed at the end gets a reply"),
        None => deviates(&LINE_END_DROPPED, "no reply to a line feed at the end"),
    }
}

/// Requests the status.
fn status(p: &mut Probe<'_>) -> Result<Vec<u8>, Outcome> {
    match answered(p, STATUS) {
        Ok((_, reply)) if Reply::kind_of(&reply) == Some(Kind::Status) => Ok(reply),
        _ => not_applicable("the server sends no status"),
    }
}

fn same_values(p: &mut Probe<'_>) -> Verdict {
    let status = status(p)?;
    let (_, info) = answered(p, INFO)?;
    let (info, status) = (read(&info)?, read(&status)?);
    let maps = [&info, &status].map(|reply| value(reply, "mapname").unwrap_or_default());
    if maps[0] != maps[1] {
        let maps = maps.map(String::from_utf8_lossy);
        return fail(format!("map {:?} and {:?}", maps[0], maps[1]));
    }
    let listed = status.players.len() as i64;
    let count = info.info.number("clients");
    let text = format!(
        "{} in the info, {listed} in the status",
        counted(count.unwrap_or(0), "player")
    );
    pass_or(count == Some(listed), &OTHER_COUNT, text)
}

fn count_is_list(p: &mut Probe<'_>) -> Verdict {
    let status = status(p)?;
    let status = read(&status)?;
    let listed = status.players.len() as i64;
    let Some(count) = status.info.number("clients") else {
        return not_applicable("the status has no count");
    };
    let text = format!("{}, {}", counted(count, "player"), counted(listed, "line"));
    if count > listed {
        deviates(&known::MISSING_PLAYERS, text)
    } else {
        pass(text)
    }
}

fn encoding(p: &mut Probe<'_>) -> Verdict {
    let (_, reply) = answered(p, INFO)?;
    let reply = status(p).unwrap_or(reply);
    // The header is not a text.
    match std::str::from_utf8(reply.get(4..).unwrap_or_default()) {
        Ok(text) if text.is_ascii() => pass("ASCII"),
        Ok(_) => pass("UTF-8"),
        Err(error) => deviates(&NOT_UTF8, format!("at offset {}", error.valid_up_to() + 4)),
    }
}

fn strays(p: &mut Probe<'_>) -> Verdict {
    // Not the header of this protocol: game traffic of an unknown player.
    let noise = p.noise(40, 0x15);
    let strays = [
        (
            "an info reply",
            b"\xFF\xFF\xFF\xFFinfoResponse\n\\a\\b".to_vec(),
        ),
        (
            "a status reply",
            b"\xFF\xFF\xFF\xFFstatusResponse\n\\a\\b\n".to_vec(),
        ),
        (
            "an unknown command",
            b"\xFF\xFF\xFF\xFFhailercheck".to_vec(),
        ),
        ("the header alone", vec![0xFF; 4]),
        ("40 random bytes", noise),
    ];
    p.strays(&strays, &still_answers)
}

fn amplification(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let (request, reply) = match p.ask(socket, STATUS, &is_reply) {
        Some(reply) => (STATUS.to_vec(), reply),
        None => answered(p, INFO)?,
    };
    let text = p.amplification(request.len(), reply.len());
    if reply.len() > MAX_PACKET {
        deviates(&FRAGMENTED, text)
    } else {
        pass(text)
    }
}

fn requests_per_second(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    load::requests(p, socket, STATUS, false, &still_answers)
}

fn observe(o: &mut Observer, seen: &ObservedRequest<'_>) -> Vec<Vec<u8>> {
    let mut notes = Notes::default();
    if let Ok(request) = Request::read(seen.bytes, &mut notes) {
        let challenge = request.challenge.to_vec();
        o.require(4, !challenge.is_empty(), "no challenge");
        if !challenge.is_empty() {
            let text = counted(challenge.len(), "character");
            o.require(5, challenge.len() <= 8, &text);
            let mut others = o.ports.iter().filter(|(port, _)| **port != seen.from);
            let is_used = others.any(|(_, port)| port.id == challenge);
            o.require(6, !is_used, "the challenge of an earlier query");
            o.port(seen.from).id = challenge;
        }
    }
    o.answers(seen, seen.bytes)
}
