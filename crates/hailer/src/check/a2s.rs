//! Requirements of A2S (spec/a2s.md).

use super::client::{ClientRequirement, ClientSuite, Observe, ObservedRequest, Observer};
use super::*;
use hailer_proto::Depth;
use hailer_proto::a2s::SPLIT;
use hailer_proto::a2s::deviation as known;
use hailer_proto::a2s::message::{Info, Reply, parse_reply};

deviations! {
    static;
    INFO_WITHOUT_CHALLENGE "info-without-challenge" "the info is sent to addresses that are not verified, as before December 2020";
    PADDED_INFO_DROPPED "padded-info-dropped" "an info request with bytes after its end gets no reply, as behind strict filters";
    RULES_NEVER "rules-never" "requests for rules get no reply";
    PLAYERS_NEVER "players-never" "requests for players get no reply";
    ZEROS_NO_CHALLENGE "zeros-no-challenge" "a request with the challenge 00000000 gets no new challenge";
    COUNTS_DIFFER "counts-differ" "info and list have different numbers of players";
}

pub(super) static SUITE: Suite = Suite {
    protocol: "a2s",
    // A common limit is 3 requests per second, averaged over 30 s; some servers allow one.
    interval: Duration::from_millis(1_050),
    never_sent: "More than one request per second without --load, because servers stop answering the \
        sender until its average falls.",
    mild: &[
        mild_note("control-bytes")
            .effect("The server sorts to the top of lists, or its name shows boxes"),
        mild_note("no-edf").effect("Clients do not learn the port of the game"),
        mild_note("app-id-zero").effect("Clients that read only the short id do not know the game"),
        mild_note("odd-type").effect("Clients show an unknown operating system or kind of server"),
        mild_warning("info-without-challenge")
            .effect("Forged addresses get up to 11 times what was sent for them"),
        mild_warning("cut-edf").effect("Clients fail or show a wrong port"),
        mild_note("unknown-edf").effect("Clients do not read what follows the known fields"),
        mild_note("no-mod-block").effect("Clients that expect a mod there show shifted fields"),
        mild_note("no-anti-cheat").effect("Clients do not show whether the server has anti-cheat"),
        mild_note("both-info").effect("Clients show one or the other of two forms"),
        mild_warning("players-never").effect("Clients list no players, after a timeout"),
        mild_warning("players-count-low").effect("Clients list a part of the players"),
        mild_note("players-hidden").effect("Clients list no players"),
        mild_note("ship-extra").effect("Clients that compare the length reject the list"),
        mild_note("rules-no-nul").effect("Clients show a part of the last rule"),
        mild_note("binary-rules").effect("Clients show rules that are not text"),
        mild_note("zeros").effect("Clients that do not request again show the server as offline"),
        mild_warning("big-datagram")
            .effect("Some networks drop fragments, so clients list no players or rules there"),
        mild_note("split-gold-source")
            .effect("Clients that know only the parts of Source report malformed replies"),
        mild_warning("split-uneven")
            .effect("Clients that place parts by their size report malformed replies"),
    ],
    requirements: &[
        error("a2s/1.1", "#8", answers)
            .title("An info request is answered")
            .effect("No client can query the server"),
        warning("a2s/2.1", "#2.1", info_challenge)
            .title("The info needs a challenge")
            .effect("Forged addresses get up to 11 times what was sent for them")
            .deviations(&[&INFO_WITHOUT_CHALLENGE]),
        warning("a2s/2.2", "#2.1", challenge_layout)
            .title("A challenge reply has 9 bytes")
            .effect("Clients that compare the length find no challenge"),
        error("a2s/2.3", "#2.1", list_challenge)
            .title("Requests for players and rules without a challenge get one")
            .effect("Forged addresses get up to 1000 times what was sent for them")
            .deviations(&[&known::NO_CHALLENGE]),
        error("a2s/2.4", "#2.1", wrong_challenge)
            .title("A wrong challenge gets no data")
            .effect("Forged addresses get replies: the server amplifies attacks"),
        note("a2s/2.5", "#2.1", zero_challenge)
            .title("A request with the challenge 0 gets a new challenge")
            .effect("Clients that start with zeros find no players")
            .deviations(&[&ZEROS_NO_CHALLENGE]),
        warning("a2s/2.6", "#2.1", one_challenge)
            .title("One challenge is valid for info, players and rules, repeatedly")
            .effect("Clients need twice as many round trips, and some report a challenge loop")
            .deviations(&[&known::CHALLENGE_EACH]),
        challenge::other_address::<A2s>("a2s/2.7", "#2.1")
            .title("The challenge of one address is not valid for another")
            .effect("An attacker uses a challenge of its own for forged addresses"),
        challenge::other_port::<A2s>("a2s/2.8", "#11")
            .title("The challenge is valid for every port of its address"),
        note("a2s/2.9", "#11", challenge::lifetime::<A2s>)
            .title("A challenge expires after at most 90 s, and not before 10 s")
            .effect(
                "A challenge that leaked once can be used by attackers for as long as the server \
                runs",
            )
            .deviations(&[&LONG_LIFETIME])
            .waits(100),
        note("a2s/2.10", "#11", padded_info)
            .title("An info request with bytes after its end is answered")
            .effect("Clients of later versions do not find the server")
            .deviations(&[&PADDED_INFO_DROPPED]),
        error("a2s/3.1", "#3", |p| layout(p, INFO, None))
            .title("The info reply has all fields and the extra data flag")
            .effect("Clients fail, or show a wrong game or port"),
        error("a2s/3.2", "#5", |p| {
            layout(p, PLAYERS, Some(&PLAYERS_NEVER))
        })
        .title("The players reply has a count and that many entries")
        .effect("Clients fail or list wrong players")
        .deviations(&[&PLAYERS_NEVER]),
        warning("a2s/3.3", "#6", |p| layout(p, RULES, Some(&RULES_NEVER)))
            .title("The rules reply has a count and that many pairs")
            .effect("Clients fail or show no rules")
            .deviations(&[&RULES_NEVER]),
        note("a2s/3.4", "#10.2", same_counts)
            .title("Info and list have the same number of players")
            .effect("Lists of players are incomplete, or hold players who have left")
            .deviations(&[&COUNTS_DIFFER]),
        error("a2s/3.5", "#7.1", parts)
            .title("Long replies are split into parts of at most 1400 bytes that fit together")
            .effect("Some networks drop fragments, and clients report malformed replies")
            .deviations(&[
                &known::BIG_DATAGRAM,
                &known::SPLIT_NO_SIZE,
                &known::SPLIT_GOLD_SOURCE,
                &known::SPLIT_COMPRESSED_NO_SIZE,
                &known::SPLIT_UNEVEN,
                &known::SPLIT_NO_HEADER,
            ]),
        warning("a2s/3.6", "#3", encoding)
            .title("Texts are UTF-8 and end with a whole character")
            .effect("Clients show garbled names, or reject the reply")
            .deviations(&[&known::NOT_UTF8, &known::CUT_TEXT]),
        error("a2s/4.1", "#11", strays)
            .title("Replies, parts, other types and random bytes get no reply")
            .effect("One forged datagram makes two servers reply to each other endlessly"),
        error("a2s/5.1", "#11", amplification)
            .title("No reply to an unverified address is more than 5 times its request")
            .effect("Forged addresses get many times what was sent for them")
            .deviations(&[&INFO_WITHOUT_CHALLENGE]),
        survives("a2s/6.1", "#1", requests_per_second).title(
            "The server survives 50 requests/s, and limits replies to addresses without a \
                challenge",
        ),
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[
        ClientRequirement::error(4)
            .title("A challenge in reply to an info request is followed")
            .effect("Servers since December 2020 look offline"),
        ClientRequirement::error(5)
            .title("The four bytes of a challenge are sent back unchanged")
            .effect("Players and rules are never answered"),
        ClientRequirement::warning(6)
            .title("A challenge is used from the port that got it")
            .effect("Servers that bind challenges to ports do not reply"),
    ],
    deviations: &[],
    observe: Observe::Datagram(observe),
};

/// Types of messages (spec/a2s.md#2).
const INFO: u8 = b'T';
const PLAYERS: u8 = b'U';
const RULES: u8 = b'V';
const INFO_TEXT: &[u8] = b"Source Engine Query\0";
const ASK_CHALLENGE: [u8; 4] = [0xFF; 4];
const MAX_DATAGRAM: usize = 1_400;
/// Challenges that are followed in one request.
const MAX_ROUNDS: usize = 5;

type Challenge = [u8; 4];

fn request(kind: u8, challenge: Option<Challenge>) -> Vec<u8> {
    let text: &[u8] = if kind == INFO { INFO_TEXT } else { b"" };
    let challenge = challenge.unwrap_or_default();
    [&[0xFF; 4], &[kind][..], text, &challenge].concat()
}

fn info_request() -> Vec<u8> {
    [&[0xFF; 4], &[INFO][..], INFO_TEXT].concat()
}

/// A datagram with this type, not split.
fn has_type(bytes: &[u8], kind: u8) -> bool {
    bytes.starts_with(&[0xFF, 0xFF, 0xFF, 0xFF, kind])
}

fn challenge_of(bytes: &[u8]) -> Option<Challenge> {
    let challenge = bytes.get(5..9).filter(|_| has_type(bytes, b'A'))?;
    challenge.try_into().ok()
}

/// Whether a datagram has data: info, players, rules, or a part of them.
fn is_data(bytes: &[u8]) -> bool {
    bytes.starts_with(SPLIT) || b"ImDE".iter().any(|kind| has_type(bytes, *kind))
}

fn is_any(bytes: &[u8]) -> bool {
    is_data(bytes) || challenge_of(bytes).is_some()
}

/// Gets a challenge with a request for players. `None` if the server has none.
fn challenge(p: &mut Probe<'_>, socket: SocketId) -> Result<Option<Challenge>, Outcome> {
    // The info is the request that every server answers.
    for request in [info_request(), request(PLAYERS, Some(ASK_CHALLENGE))] {
        let Some(reply) = p.ask(socket, &request, &is_any) else {
            continue;
        };
        if let Some(challenge) = challenge_of(&reply) {
            return Ok(Some(challenge));
        }
        p.drain(socket);
    }
    Ok(None)
}

fn verified(p: &mut Probe<'_>) -> Result<(SocketId, Challenge), Outcome> {
    let socket = p.open()?;
    match challenge(p, socket)? {
        Some(challenge) => Ok((socket, challenge)),
        None => not_applicable("the server sends no challenges"),
    }
}

/// Sends a request, follows challenges, and returns the first datagram with data.
fn data(p: &mut Probe<'_>, socket: SocketId, kind: u8) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut datagram = if kind == INFO {
        info_request()
    } else {
        request(kind, Some(ASK_CHALLENGE))
    };
    for _ in 0..MAX_ROUNDS {
        let reply = p.ask(socket, &datagram, &is_any)?;
        match challenge_of(&reply) {
            Some(challenge) => datagram = request(kind, Some(challenge)),
            None => return Some((datagram, reply)),
        }
    }
    None
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    let Ok(socket) = p.open() else { return false };
    p.ask(socket, &info_request(), &is_any).is_some()
}

fn info<'a>(bytes: &'a [u8]) -> Option<Info<'a>> {
    match parse_reply(bytes, true, None, &mut Notes::default()) {
        Ok(Reply::Info(info)) => Some(info),
        _ => None,
    }
}

fn answers(p: &mut Probe<'_>) -> Verdict {
    // Learns the time of a reply, too.
    ensure(still_answers(p), p.silence())?;
    match p.query(Depth::Full) {
        Ok(status) => {
            let text = format!("{:?}", status.title().unwrap_or_default());
            p.facts.status = Some(status);
            pass(text)
        }
        // Players and rules have their own requirements.
        Err(reason) => pass(format!(
            "the info is answered, but a whole query fails: {reason}"
        )),
    }
}

fn info_challenge(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    match p.ask(socket, &info_request(), &is_any) {
        None => fail("no reply to 25 bytes"),
        Some(reply) if is_data(&reply) => {
            let text = p.amplification(info_request().len(), reply.len());
            deviates(&INFO_WITHOUT_CHALLENGE, text)
        }
        Some(_) => pass("25 bytes get a challenge"),
    }
}

fn challenge_layout(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let request = request(PLAYERS, Some(ASK_CHALLENGE));
    let is_challenge = |bytes: &[u8]| challenge_of(bytes).is_some();
    match p.ask(socket, &request, &is_challenge) {
        Some(reply) => p.layout(&request, &reply),
        None => not_applicable("the server sends no challenge for players"),
    }
}

fn list_challenge(p: &mut Probe<'_>) -> Verdict {
    let mut answered = 0;
    for kind in [PLAYERS, RULES] {
        let socket = p.open()?;
        let request = request(kind, Some(ASK_CHALLENGE));
        match p.ask(socket, &request, &is_any) {
            Some(reply) if is_data(&reply) => {
                let text = p.amplification(request.len(), reply.len());
                return deviates(&known::NO_CHALLENGE, text);
            }
            Some(_) => answered += 1,
            None => {}
        }
    }
    match answered {
        0 => not_applicable("the server answers neither players nor rules"),
        _ => pass(format!("a challenge for {}", counted(answered, "request"))),
    }
}

fn wrong_challenge(p: &mut Probe<'_>) -> Verdict {
    let (socket, challenge) = verified(p)?;
    let mut wrong = challenge;
    wrong[1] ^= 0x10;
    let needs_challenge = p
        .ask(socket, &info_request(), &is_any)
        .is_some_and(|reply| challenge_of(&reply).is_some());
    for kind in [INFO, PLAYERS, RULES] {
        // A server that sends the info to everyone does not look at its challenge.
        if kind == INFO && !needs_challenge {
            continue;
        }
        let request = request(kind, Some(wrong));
        if let Some(reply) = p.ask_once(socket, &request, &is_data) {
            let text = p.amplification(request.len(), reply.len());
            return fail(format!("one other bit gets data; {text}"));
        }
    }
    pass("one other bit gets no data")
}

fn zero_challenge(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let zeros = request(PLAYERS, Some([0; 4]));
    match p.ask(socket, &zeros, &is_any) {
        Some(reply) if challenge_of(&reply).is_some() => pass("zeros get a challenge"),
        Some(_) => {
            let without = request(PLAYERS, Some(ASK_CHALLENGE));
            match p.ask(socket, &without, &is_any) {
                Some(reply) if is_data(&reply) => {
                    not_applicable("the server sends players without a challenge")
                }
                _ => fail("zeros get data"),
            }
        }
        None => deviates(&ZEROS_NO_CHALLENGE, "no reply to zeros"),
    }
}

fn one_challenge(p: &mut Probe<'_>) -> Verdict {
    let (socket, challenge) = verified(p)?;
    let mut answered = Vec::new();
    for (name, kind) in [
        ("players", PLAYERS),
        ("info", INFO),
        ("rules", RULES),
        ("players", PLAYERS),
    ] {
        let Some(reply) = p.ask(socket, &request(kind, Some(challenge)), &is_any) else {
            continue;
        };
        p.drain(socket);
        match challenge_of(&reply) {
            Some(new) if new != challenge => {
                return deviates(
                    &known::CHALLENGE_EACH,
                    format!("{name} got a new challenge"),
                );
            }
            Some(_) => return fail(format!("{name} got the same challenge again")),
            None => answered.push(name),
        }
    }
    pass(format!("one challenge for {}", answered.join(", ")))
}

/// Challenges, tested with requests for players.
struct A2s;

impl Challenged for A2s {
    const TOKEN: &'static str = "challenge";
    const REPLY: &'static str = "data";
    const REFUSAL: &'static str = "no data for";
    const STEP: Duration = Duration::from_secs(10);
    const SHORTEST: Duration = Duration::from_secs(10);
    const LONGEST: Duration = Duration::from_secs(95);

    fn request(p: &mut Probe<'_>) -> Result<(SocketId, Vec<u8>), Outcome> {
        let (socket, challenge) = verified(p)?;
        let request = request(PLAYERS, Some(challenge));
        let reply = p.ask(socket, &request, &is_data);
        applies(reply.is_some(), "the server sends no players")?;
        Ok((socket, request))
    }

    fn is_reply(bytes: &[u8]) -> bool {
        is_data(bytes)
    }

    fn is_valid(p: &mut Probe<'_>, socket: SocketId, request: &[u8]) -> bool {
        let reply = p.ask(socket, request, &is_any);
        reply.is_some_and(|reply| is_data(&reply))
    }

    fn check_reuse(p: &mut Probe<'_>, socket: SocketId, request: &[u8]) -> Result<(), Outcome> {
        p.drain(socket);
        applies(
            Self::is_valid(p, socket, request),
            "each challenge is valid once",
        )
    }
}

fn padded_info(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let request = [info_request(), vec![0; 64]].concat();
    match p.ask(socket, &request, &is_any) {
        Some(_) => pass("89 bytes get a reply"),
        None => deviates(&PADDED_INFO_DROPPED, "no reply to 89 bytes"),
    }
}

fn layout(p: &mut Probe<'_>, kind: u8, never: Option<&'static Deviation>) -> Verdict {
    let socket = p.open()?;
    match (data(p, socket, kind), never) {
        (Some((_, reply)), _) if reply.starts_with(SPLIT) => {
            // The query of the first requirement has joined the parts.
            let lists: &[&str] = if kind == PLAYERS {
                &["players-", "ship-"]
            } else {
                &["rules-", "binary-"]
            };
            let mut met = p.own(p.status()?.deviations.iter().copied());
            met.retain(|met| lists.iter().any(|list| met.name.starts_with(list)));
            found(met, "split into parts, joined".into())
        }
        (Some((request, reply)), _) => p.layout(&request, &reply),
        (None, Some(never)) => deviates(never, "no reply"),
        (None, None) => fail("no reply"),
    }
}

fn same_counts(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let Some((_, reply)) = data(p, socket, INFO) else {
        return fail("no reply to info");
    };
    let Some(count) = info(&reply).map(|info| usize::from(info.players)) else {
        return not_applicable("the info has the old form");
    };
    let listed = p.status()?.players.list.len();
    let text = format!(
        "{} in the info, {listed} in the list",
        counted(count, "player")
    );
    // The count has one byte.
    pass_or(count == listed % 256, &COUNTS_DIFFER, text)
}

fn parts(p: &mut Probe<'_>) -> Verdict {
    let mut longest = 0;
    let mut parts = 0;
    for kind in [PLAYERS, RULES] {
        let socket = p.open()?;
        let Some((_, first)) = data(p, socket, kind) else {
            continue;
        };
        longest = longest.max(first.len());
        if first.starts_with(SPLIT) {
            parts += 1;
            let quiet = p.quiet();
            while let Received::Bytes(part) = p.receive(socket, quiet) {
                longest = longest.max(part.len());
                parts += 1;
            }
        }
    }
    p.measure("longest_datagram_bytes", longest as f64);
    let text = format!(
        "{}, the longest datagram has {}",
        counted(parts, "part"),
        counted(longest, "byte")
    );
    let mut deviations = Vec::new();
    if longest > MAX_DATAGRAM {
        deviations.push(&known::BIG_DATAGRAM);
    }
    let mut whole = p.tested(p.status()?.deviations.iter().copied());
    whole.retain(|met| met.name != known::BIG_DATAGRAM.name);
    deviations.extend(whole);
    found(deviations, text)
}

fn encoding(p: &mut Probe<'_>) -> Verdict {
    let met = p.tested(p.status()?.deviations.iter().copied());
    found(met, "info, players and rules".into())
}

fn strays(p: &mut Probe<'_>) -> Verdict {
    // Not the header of this protocol.
    let noise = p.noise(40, 0x15);
    let of = |kind: u8| [&[0xFF; 4], &[kind][..], &[0; 8]].concat();
    let strays = [
        ("an info reply", of(b'I')),
        ("a players reply", of(b'D')),
        ("a challenge", of(b'A')),
        ("a part", [&SPLIT[..], &[0; 20]].concat()),
        ("an info request without its text", of(INFO)),
        ("the header alone", vec![0xFF; 4]),
        ("40 random bytes", noise),
    ];
    p.strays(&strays, &still_answers)
}

fn amplification(p: &mut Probe<'_>) -> Verdict {
    let requests = [
        info_request(),
        request(PLAYERS, Some(ASK_CHALLENGE)),
        request(RULES, Some(ASK_CHALLENGE)),
    ];
    let mut worst = (1, 0, 0.0);
    for request in requests {
        let socket = p.open()?;
        let Some(first) = p.ask(socket, &request, &is_any) else {
            continue;
        };
        let mut bytes = first.len();
        let quiet = p.quiet();
        while let Received::Bytes(more) = p.receive(socket, quiet) {
            bytes += more.len();
        }
        let ratio = bytes as f64 / request.len() as f64;
        if ratio > worst.2 {
            worst = (request.len(), bytes, ratio);
        }
    }
    let text = p.amplification(worst.0, worst.1);
    match worst.2 {
        ..=5.0 => pass(text),
        _ if worst.0 == info_request().len() => deviates(&INFO_WITHOUT_CHALLENGE, text),
        _ => fail(text),
    }
}

fn requests_per_second(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let first = info_request();
    let is_info = p
        .ask(socket, &first, &is_any)
        .is_some_and(|reply| is_data(&reply));
    if is_info {
        return load::requests(p, socket, &first, false, &still_answers);
    }
    let (socket, challenge) = verified(p)?;
    let request = request(INFO, Some(challenge));
    load::requests(p, socket, &request, true, &still_answers)
}

fn observe(o: &mut Observer, seen: &ObservedRequest<'_>) -> Vec<Vec<u8>> {
    let sent = match seen.bytes.get(4).copied() {
        Some(INFO) => seen.bytes.get(25..29),
        _ => seen.bytes.get(5..9),
    };
    // Both ask for a challenge.
    let sent = sent.filter(|sent| *sent != ASK_CHALLENGE && *sent != [0; 4]);
    let known = o.port(seen.from).token.clone();
    if let Some(sent) = sent {
        let is_moved = known != sent && o.ports.values().any(|port| port.token == sent);
        o.require(6, !is_moved, "the challenge of another port");
        if !is_moved {
            o.require(
                5,
                known == sent,
                "another challenge than the one in the reply",
            );
        }
    }
    let is_info = seen.bytes.get(4) == Some(&INFO);
    // The id of a port is set while its client must follow a challenge.
    let must_follow = !o.port(seen.from).id.is_empty();
    if is_info && must_follow {
        o.require(
            4,
            sent.is_some(),
            "the info is requested again without the challenge",
        );
    }
    o.port(seen.from).id.clear();
    let replies = o.answers(seen, seen.bytes);
    let challenge = replies.first().and_then(|reply| challenge_of(reply));
    if let Some(challenge) = challenge {
        let port = o.port(seen.from);
        port.token = challenge.into();
        if is_info {
            port.id = challenge.into();
            port.awaited = Some((4, seen.now));
        }
    }
    replies
}
