//! Requirements of OneQuery V2 (spec/onequery.md).

use super::client::{ClientRequirement, ClientSuite, Observe, ObservedRequest, Observer};
use super::*;
use hailer_proto::onequery::deviation as known;
use hailer_proto::onequery::message::{Flags, Reply, parse_reply};
use hailer_proto::onequery::v1;
use std::collections::HashSet;

deviations! {
    static;
    SHORT_QUERY_DROPPED "short-query-dropped" "a query below 51 bytes gets no reply, as in HyQuery";
    NEGATIVE_OFFSET_UNANSWERED "negative-offset-unanswered" "a query for players from an offset below 0 gets no reply; the reference logs a stack trace";
    UNKNOWN_TYPE_DROPPED "unknown-type-dropped" "a query of an unknown type gets no reply";
    BROKEN_TOKEN_DROPPED "broken-token-dropped" "a query whose auth token does not fit gets no reply, as in HyQuery";
    VERSION_1 "version-1-unverified" "version 1 is on: any address, also a forged one, gets the server info";
    UNSTABLE_ORDER "unstable-order" "the same page requested twice has other players";
    COUNTS_DIFFER "counts-differ" "server info and list have different numbers of players";
    LITTLE_ENDIAN_UUID "little-endian-uuid" "UUIDs are not in network order";
}

pub(super) static SUITE: Suite = Suite {
    protocol: "onequery",
    interval: Duration::from_millis(120),
    never_sent: "Requests to other servers than the named one, because JSPrismarine, a server for \
        Bedrock clients, crashes on this protocol.",
    mild: &[
        mild_warning("implausible-count").effect("Sites show a number of players that cannot be"),
        mild_note("more-past-total").effect("Clients request one more page, which is empty"),
        mild_warning("offset-not-asked")
            .effect("Clients that count from the requested offset leave out players"),
        mild_warning("repeated-player").effect("Clients list players twice"),
        mild_warning("count-not-total")
            .effect("Clients list more or fewer players than they count"),
        mild_warning("version-1-unverified")
            .effect("Forged addresses get about ten times what was sent for them"),
        mild_note("hyquery-layout").effect(
            "Clients that know only the layout of OneQuery show garbled values in version 1",
        ),
    ],
    requirements: &[
        error("onequery/1.1", "#10", answers)
            .title("A challenge and a basic query are answered")
            .effect("No client can query the server"),
        error("onequery/2.1", "#3.1", challenge_layout)
            .title("The challenge reply has 48 bytes, the last seven zero")
            .effect("GameQ rejects the reply, and sites built on it show the server as offline"),
        warning("onequery/2.2", "#5", padded_challenge)
            .title("Bytes after a challenge request are ignored")
            .effect("Clients that pad requests get no reply"),
        error("onequery/2.3", "#5", strays)
            .title("The magic alone, a reply and other texts get no reply")
            .effect("Two servers can be made to reply to each other endlessly"),
        error("onequery/3.1", "#3.3", |p| layout(p, BASIC))
            .title("The basic reply has the header and one server info")
            .effect("Clients show no status"),
        error("onequery/3.2", "#3.4", |p| layout(p, PLAYERS))
            .title("The players reply has the header and one page")
            .effect("Clients list no players"),
        error("onequery/3.3", "#2.2", echoed_id)
            .title("The request id comes back bit for bit")
            .effect("Clients drop all replies, or mix up pages"),
        note("onequery/3.4", "#5", short_query)
            .title("A query of 41 bytes is answered with the id 0")
            .effect("Minimal clients get no reply")
            .deviations(&[&SHORT_QUERY_DROPPED]),
        warning("onequery/3.5", "#5", later_version)
            .title("Bytes after a query and unknown flags are ignored")
            .effect("Clients of later versions get no reply"),
        note("onequery/3.6", "#5", unknown_type)
            .title("A query of an unknown type is answered as basic")
            .effect("Clients of later versions do not notice that the server is there")
            .deviations(&[&UNKNOWN_TYPE_DROPPED]),
        error("onequery/3.7", "#1.1", uuid_order)
            .title("UUIDs are in network order")
            .effect("Sites link every player to a profile that does not exist")
            .deviations(&[&LITTLE_ENDIAN_UUID]),
        warning("onequery/3.8", "#1.1", encoding)
            .title("Texts are UTF-8")
            .effect("Clients show garbled names, or reject the reply")
            .deviations(&[&known::INVALID_UTF8]),
        error("onequery/4.1", "#7.2", pages_end)
            .title("Following the pages ends, with as many players as the total")
            .effect("Clients loop endlessly, or list players twice")
            .deviations(&[
                &known::COUNT_NOT_TOTAL,
                &known::REPEATED_PLAYER,
                &known::OFFSET_NOT_ASKED,
            ]),
        error("onequery/4.2", "#5", past_the_end)
            .title("A page past the end is empty, without the flag for more")
            .effect("Clients loop endlessly when players leave while they read"),
        warning("onequery/4.3", "#5", negative_offset)
            .title("An offset below 0 counts as 0")
            .effect("Every such datagram fills the log of the server with a stack trace")
            .deviations(&[&NEGATIVE_OFFSET_UNANSWERED]),
        warning("onequery/4.4", "#5", any_offset)
            .title("A page can start at every player")
            .effect("Clients that continue after a lost page list wrong players"),
        warning("onequery/4.5", "#7.3", stable_order)
            .title("The same page has the same players")
            .effect("Lists of several pages have duplicates and gaps")
            .deviations(&[&UNSTABLE_ORDER]),
        warning("onequery/4.6", "#12.4", same_count)
            .title("Server info and list have the same number of players")
            .effect("Sites show another number of players than they list, or an empty server")
            .deviations(&[&COUNTS_DIFFER]),
        error("onequery/5.1", "#5", wrong_token)
            .title("A query with a wrong challenge token gets no reply")
            .effect("Forged addresses get replies: the server amplifies attacks"),
        challenge::other_address::<OneQuery>("onequery/5.2", "#4"),
        warning("onequery/5.3", "#4", other_port)
            .title(
                "The token is valid for every port of its address, any number of times, for every \
                type",
            )
            .effect("Clients that open a socket for each query get no reply")
            .deviations(&[&BOUND_TO_PORT]),
        warning("onequery/5.4", "#4", challenge::lifetime::<OneQuery>)
            .title("A token is valid for at least 60 s and at most 120 s")
            .effect(
                "Long lists fail, or a token that leaked once is good for as long as the server \
                runs",
            )
            .deviations(&[&LONG_LIFETIME])
            .waits(130),
        warning("onequery/6.1", "#6.1", wrong_auth_token)
            .title("A wrong auth token does no harm on a public endpoint")
            .effect("Clients with one token for several servers see servers as offline"),
        note("onequery/6.2", "#6.1", broken_auth_token)
            .title("An auth token that does not fit its datagram is no token")
            .effect("Clients with a faulty length get no reply")
            .deviations(&[&BROKEN_TOKEN_DROPPED]),
        error("onequery/6.3", "#6.2", refusals)
            .title("A refusal discloses nothing")
            .effect("A server that protects its status discloses it to everyone")
            .deviations(&[&known::REFUSED_BUT_DISCLOSED]),
        error("onequery/6.4", "#6.1", right_auth_token)
            .title(
                "The right auth token opens what is refused without one, and a wrong one does not",
            )
            .effect("Clients with the token get no status, or everyone gets what is protected"),
        error("onequery/7.1", "#7.1", challenge_amplification)
            .title("The challenge reply is at most 5.4 times its request")
            .effect("Forged addresses get many times what was sent for them"),
        warning("onequery/7.2", "#7.1", sizes)
            .title("No reply has more than 1400 bytes")
            .effect("Some networks drop fragments, so the server looks offline there")
            .deviations(&[&known::OVER_1400]),
        error("onequery/7.3", "#8", version_1)
            .title("Version 1 is off")
            .effect(
                "Forged addresses get up to 7000 times what was sent for them, and protected \
                players are listed",
            )
            .deviations(&[&VERSION_1, &known::HYQUERY_LAYOUT]),
        survives("onequery/8.1", "#5", queries_per_second)
            .title("The server survives 50 queries/s with a valid token"),
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[
        ClientRequirement::warning(4)
            .title("A query has at least 51 bytes")
            .effect("HyQuery drops shorter ones"),
        ClientRequirement::error(5)
            .title("A reply with another request id is ignored")
            .effect("Late and forged pages mix up the list of players"),
        ClientRequirement::error(6)
            .title("The next page is requested from the offset of the page plus its count")
            .effect("Lists of players have gaps or end early"),
        ClientRequirement::error(7)
            .title("The 32 bytes of the challenge token are sent back unchanged")
            .effect("No server replies to the query"),
    ],
    // Both plugins ignore bytes after a query, such as the length 0 of an auth token.
    deviations: &[&known::SHORT_REQUEST, &known::TRAILING_BYTES],
    observe: Observe::Datagram(observe),
};

/// Types of requests (spec/onequery.md#2).
const BASIC: u8 = 1;
const PLAYERS: u8 = 2;
/// Requests of version 1 (spec/onequery.md#8.1).
const VERSION_1_BASIC: [u8; 9] = *b"HYQUERY\0\0";
const VERSION_1_FULL: [u8; 9] = *b"HYQUERY\0\x01";
/// Never the right auth token.
const WRONG_AUTH_TOKEN: &str = "not the token";
/// More pages than any server has.
const MAX_PAGES: usize = 256;
const MAX_REPLY: usize = 1_400;
const CHALLENGE: &[u8; 9] = b"ONEQUERY\0";
/// Offset of the flags in a query.
const FLAGS: usize = 45;

type Token = [u8; 32];

fn query(kind: u8, token: &Token, id: u32, offset: i32) -> Vec<u8> {
    [
        &b"ONEQUERY"[..],
        &[kind],
        token,
        &id.to_le_bytes(),
        &[0, 0],
        &offset.to_le_bytes(),
    ]
    .concat()
}

/// Returns a query with the auth token of the check, if it has one. The requirements of auth tokens
/// send [`query`] instead.
fn own_query(p: &Probe<'_>, kind: u8, token: &Token, id: u32, offset: i32) -> Vec<u8> {
    let request = query(kind, token, id, offset);
    match &p.config.auth_token {
        Some(auth_token) => with_auth_token(request, auth_token.reveal()),
        None => request,
    }
}

/// Adds an auth token to a query.
fn with_auth_token(request: Vec<u8>, auth_token: &str) -> Vec<u8> {
    let length = u16::try_from(auth_token.len()).unwrap_or(u16::MAX);
    let mut request = with_declared_token(request, length);
    request.extend(auth_token.as_bytes());
    request
}

/// Adds the flag and the length of an auth token to a query.
fn with_declared_token(mut request: Vec<u8>, length: u16) -> Vec<u8> {
    if let Some(flags) = request.get_mut(FLAGS) {
        *flags |= 1;
    }
    request.extend(length.to_le_bytes());
    request
}

fn is_challenge_reply(bytes: &[u8]) -> bool {
    bytes.starts_with(b"ONEREPLY\0")
}

fn is_query_reply(bytes: &[u8]) -> bool {
    bytes.starts_with(b"ONEREPLY\x01")
}

fn has_id(id: u32) -> impl Fn(&[u8]) -> bool {
    move |bytes| is_query_reply(bytes) && bytes.get(11..15) == Some(&id.to_le_bytes())
}

/// Returns what a reply to this id is. Every reply of a server that changes ids counts, because
/// another requirement tests the ids.
fn is_reply_to(p: &Probe<'_>, id: u32) -> impl Fn(&[u8]) -> bool + use<> {
    let is_any = p.facts.has_other_ids;
    move |bytes| is_query_reply(bytes) && (is_any || has_id(id)(bytes))
}

/// Sends a query and returns its reply.
fn reply_to(p: &mut Probe<'_>, socket: SocketId, request: &[u8], id: u32) -> Option<Vec<u8>> {
    let is_reply = is_reply_to(p, id);
    p.ask(socket, request, &is_reply)
}

fn challenge(p: &mut Probe<'_>, socket: SocketId) -> Result<Token, Outcome> {
    let reply = p.reply(
        socket,
        CHALLENGE,
        &is_challenge_reply,
        "no reply to a challenge request",
    )?;
    match reply.get(9..41).and_then(|token| token.try_into().ok()) {
        Some(token) => Ok(token),
        None => fail("the challenge reply has no whole token"),
    }
}

fn verified(p: &mut Probe<'_>) -> Result<(SocketId, Token), Outcome> {
    let socket = p.open()?;
    let token = challenge(p, socket)?;
    Ok((socket, token))
}

/// Sends one query with a new token. Returns request and reply.
fn answered(p: &mut Probe<'_>, kind: u8) -> Result<(Vec<u8>, Vec<u8>), Outcome> {
    let auth_token = p.config.auth_token.clone();
    answered_with(p, kind, auth_token.as_ref().map(Secret::reveal))
}

/// As [`answered`], with another auth token than that of the check, or without one.
fn answered_with(
    p: &mut Probe<'_>,
    kind: u8,
    auth_token: Option<&str>,
) -> Result<(Vec<u8>, Vec<u8>), Outcome> {
    let (socket, token) = verified(p)?;
    let id = p.random() as u32;
    let mut request = query(kind, &token, id, 0);
    if let Some(auth_token) = auth_token {
        request = with_auth_token(request, auth_token);
    }
    match reply_to(p, socket, &request, id) {
        Some(reply) => Ok((request, reply)),
        None => fail("no reply with the id of the request"),
    }
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    answered(p, BASIC).is_ok()
}

/// A page of players.
struct Page {
    total: i64,
    offset: i64,
    has_more: bool,
    players: Vec<[u8; 16]>,
    length: usize,
}

fn page(p: &mut Probe<'_>, socket: SocketId, token: &Token, offset: i32) -> Result<Page, Outcome> {
    let id = p.random() as u32;
    let Some(reply) = reply_to(p, socket, &own_query(p, PLAYERS, token, id, offset), id) else {
        return fail(format!("no reply to players from {offset}"));
    };
    read_page(&reply)
}

fn read_page(bytes: &[u8]) -> Result<Page, Outcome> {
    let reply = read(bytes)?;
    let is_refused = reply.flags.has(Flags::REFUSED);
    applies(!is_refused, "players need an auth token")?;
    let Some(page) = reply.page else {
        return fail("a players reply without a page");
    };
    Ok(Page {
        total: page.total.into(),
        offset: page.offset.into(),
        has_more: reply.flags.has(Flags::MORE),
        players: page.players.iter().map(|(_, uuid)| *uuid).collect(),
        length: bytes.len(),
    })
}

fn read(bytes: &[u8]) -> Result<Reply<'_>, Outcome> {
    Ok(parse_reply(bytes, &mut Notes::default())?)
}

fn answers(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    if p.ask(socket, CHALLENGE, &is_challenge_reply).is_none() {
        let version_1 = p.ask_once(socket, &VERSION_1_BASIC, &is_version_1);
        return match version_1 {
            Some(_) => fail("only version 1 is answered, no challenge request"),
            None => fail(p.silence()),
        };
    }
    let token = challenge(p, socket)?;
    let id = p.random() as u32;
    let request = own_query(p, BASIC, &token, id, 0);
    match p.ask(socket, &request, &is_query_reply) {
        Some(reply) => {
            p.facts.has_other_ids = !has_id(id)(&reply);
            pass(format!("a challenge, and {}", counted(reply.len(), "byte")))
        }
        None => fail("no reply to a basic query"),
    }
}

fn challenge_layout(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let reply = p.reply(socket, CHALLENGE, &is_challenge_reply, "no reply")?;
    p.layout(CHALLENGE, &reply)
}

fn padded_challenge(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let request = [&CHALLENGE[..], &[0xA5; 42]].concat();
    match p.ask(socket, &request, &is_challenge_reply) {
        Some(_) => pass("51 bytes get a token"),
        None => fail("no reply to 51 bytes"),
    }
}

fn strays(p: &mut Probe<'_>) -> Verdict {
    // The game's own protocol, QUIC, has bit 6 set in every packet, so that it drops these.
    let noise = p.noise(51, 0x15);
    let strays = [
        ("8 bytes of magic", b"ONEQUERY".to_vec()),
        ("another case", b"onequery\0".to_vec()),
        ("a reply", [&b"ONEREPLY\0"[..], &[0; 39]].concat()),
        ("51 random bytes", noise),
    ];
    p.strays(&strays, &still_answers)
}

fn layout(p: &mut Probe<'_>, kind: u8) -> Verdict {
    let (request, reply) = answered(p, kind)?;
    p.layout(&request, &reply)
}

fn echoed_id(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    for id in [0xFFFF_FFFF, 0x8000_0000, 0x0102_0304, 0] {
        let request = own_query(p, BASIC, &token, id, 0);
        let Some(reply) = p.ask(socket, &request, &is_query_reply) else {
            return fail(format!("no reply to the id {id:08x}"));
        };
        if !has_id(id)(&reply) {
            return fail(format!("the id {id:08x} does not come back"));
        }
    }
    pass("four ids came back")
}

fn short_query(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let request = query(BASIC, &token, 0, 0);
    match p.ask(socket, &request[..41], &is_query_reply) {
        Some(reply) if has_id(0)(&reply) => pass("41 bytes get the id 0"),
        Some(_) => fail("41 bytes get an id that was not sent"),
        None => deviates(&SHORT_QUERY_DROPPED, "no reply to 41 bytes"),
    }
}

fn later_version(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let id = p.random() as u32;
    let request = [query(BASIC, &token, id, 0), vec![0xA5; 9]].concat();
    let reply = reply_to(p, socket, &request, id);
    ensure(reply.is_some(), "no reply to 60 bytes")?;
    let mut request = query(BASIC, &token, id, 0);
    request[45] = 0xFE;
    request[46] = 0x80;
    match reply_to(p, socket, &request, id) {
        Some(_) => pass("60 bytes and unknown flags get replies"),
        None => fail("no reply to unknown flags"),
    }
}

fn unknown_type(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let id = p.random() as u32;
    let request = own_query(p, 7, &token, id, 0);
    let Some(bytes) = reply_to(p, socket, &request, id) else {
        return deviates(&UNKNOWN_TYPE_DROPPED, "no reply to type 7");
    };
    let reply = read(&bytes)?;
    ensure(reply.page.is_none(), "type 7 gets players")?;
    pass("type 7 gets the basic reply")
}

fn uuid_order(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let page = page(p, socket, &token, 0)?;
    // Version and variant of RFC 9562 are in bytes 6 and 8. Numbers with the least significant byte
    // first have them elsewhere.
    let is_uuid = |uuid: &[u8; 16]| (1..=8).contains(&(uuid[6] >> 4)) && uuid[8] >> 6 == 2;
    let reversed = |uuid: &[u8; 16]| {
        let mut whole = *uuid;
        whole.reverse();
        let mut halves = *uuid;
        halves[..8].reverse();
        halves[8..].reverse();
        [whole, halves]
    };
    let named: Vec<_> = page
        .players
        .iter()
        .filter(|uuid| **uuid != [0; 16])
        .collect();
    let right = named.iter().filter(|uuid| is_uuid(uuid)).count();
    let wrong = named
        .iter()
        .filter(|uuid| !is_uuid(uuid) && reversed(uuid).iter().any(is_uuid))
        .count();
    match (named.len(), right, wrong) {
        (0, ..) => not_applicable("nobody is online"),
        // A quarter of random bytes has the variant, and half of these a version.
        (all, 0, wrong) if wrong > all / 2 => {
            deviates(&LITTLE_ENDIAN_UUID, format!("{wrong} of {all} UUIDs"))
        }
        (all, right, _) => pass(format!("{right} of {all} have a version and variant")),
    }
}

fn encoding(p: &mut Probe<'_>) -> Verdict {
    let replies = [answered(p, BASIC)?, answered(p, PLAYERS)?];
    p.test_texts(&replies)
}

fn pages_end(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let mut seen = HashSet::new();
    let mut repeated = 0;
    let mut is_other_offset = false;
    let mut offset = 0_i64;
    for number in 1..=MAX_PAGES {
        let page = page(p, socket, &token, i32::try_from(offset).unwrap_or(i32::MAX))?;
        let count = page.players.len();
        is_other_offset |= page.offset != offset;
        for uuid in &page.players {
            repeated += usize::from(*uuid != [0; 16] && !seen.insert(*uuid));
        }
        let next = page.offset + count as i64;
        if page.has_more && count == 0 {
            return fail(format!(
                "the page at offset {offset} has no players, but announces more"
            ));
        }
        if page.has_more && next <= offset {
            return fail(format!(
                "the page at offset {offset} starts at {} and ends at {next}, but announces more",
                page.offset
            ));
        }
        if page.has_more && next < page.total {
            offset = next;
            continue;
        }
        let pages = counted(number, "page");
        let text = format!(
            "{} on {pages}, total {}",
            counted(next, "player"),
            page.total
        );
        let mut met = Vec::new();
        if page.has_more {
            met.push(&known::MORE_PAST_TOTAL);
        }
        if is_other_offset {
            met.push(&known::OFFSET_NOT_ASKED);
        }
        if repeated > 0 {
            met.push(&known::REPEATED_PLAYER);
        }
        if next != page.total {
            met.push(&known::COUNT_NOT_TOTAL);
        }
        return found(met, text);
    }
    fail(format!("no end after {MAX_PAGES} pages"))
}

fn past_the_end(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let page = page(p, socket, &token, i32::MAX)?;
    if page.has_more || !page.players.is_empty() {
        return fail(format!(
            "{}, more: {}",
            counted(page.players.len(), "player"),
            page.has_more
        ));
    }
    pass(format!("an empty page of {}", counted(page.length, "byte")))
}

fn negative_offset(p: &mut Probe<'_>) -> Verdict {
    // Only one datagram: the reference logs a stack trace for each.
    let (socket, token) = verified(p)?;
    let first = page(p, socket, &token, 0)?;
    let id = p.random() as u32;
    let is_reply = is_reply_to(p, id);
    match p.ask_once(socket, &own_query(p, PLAYERS, &token, id, -1), &is_reply) {
        None => deviates(&NEGATIVE_OFFSET_UNANSWERED, "no reply to the offset -1"),
        Some(reply) => {
            let page = read_page(&reply)?;
            if page.players.first() == first.players.first() {
                pass("the offset -1 gets the first page")
            } else {
                fail("the offset -1 gets another page than 0")
            }
        }
    }
}

fn any_offset(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let first = page(p, socket, &token, 0)?;
    let Some(second) = first.players.get(1) else {
        return not_applicable("fewer than two players are online");
    };
    let from_second = page(p, socket, &token, 1)?;
    if from_second.players.first() == Some(second) && from_second.offset == 1 {
        pass("the offset 1 starts with the second player")
    } else {
        fail("the offset 1 does not start with the second player")
    }
}

fn stable_order(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let first = page(p, socket, &token, 0)?;
    let again = page(p, socket, &token, 0)?;
    let are_several = first.players.len() >= 2;
    applies(are_several, "fewer than two players are online")?;
    if first.players == again.players {
        pass(format!("{}, twice", counted(first.players.len(), "player")))
    } else {
        deviates(&UNSTABLE_ORDER, "two pages from 0 differ")
    }
}

fn same_count(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    // A player may join between the two requests.
    for _ in 0..3 {
        let before = online(p)?;
        let total = page(p, socket, &token, 0)?.total;
        if before == total {
            return pass(format!("{total} in both"));
        }
        if online(p)? == before {
            let text = format!("{before} in the server info, {total} in the list");
            return deviates(&COUNTS_DIFFER, text);
        }
    }
    not_applicable("players keep joining and leaving")
}

/// Returns the number of players of the server info.
fn online(p: &mut Probe<'_>) -> Result<i64, Outcome> {
    let (_, reply) = answered(p, BASIC)?;
    let reply = read(&reply)?;
    let is_refused = reply.flags.has(Flags::REFUSED);
    applies(!is_refused, "the server info needs an auth token")?;
    match reply.info {
        Some(info) => Ok(info.online.into()),
        None => fail("a basic reply without server info"),
    }
}

fn wrong_token(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let mut flipped = token;
    flipped[20] ^= 1;
    let mut old = token;
    // Another window number, as in the tokens of the reference.
    old[3] = old[3].wrapping_sub(1);
    for (name, wrong) in [
        ("zero", [0; 32]),
        ("a token with one other bit", flipped),
        ("a token of another time", old),
    ] {
        for kind in [BASIC, PLAYERS] {
            let id = p.random() as u32;
            let request = own_query(p, kind, &wrong, id, 0);
            if let Some(reply) = p.ask_once(socket, &request, &is_query_reply) {
                let text = p.amplification(request.len(), reply.len());
                return fail(format!("{name} gets a reply; {text}"));
            }
        }
    }
    pass("no reply to zero, to one other bit, and to another time")
}

/// Tokens, tested with basic queries.
struct OneQuery;

impl Challenged for OneQuery {
    const TOKEN: &'static str = "token";
    const REPLY: &'static str = "a reply";
    const REFUSAL: &'static str = "no reply to";
    const STEP: Duration = Duration::from_secs(15);
    const SHORTEST: Duration = Duration::from_secs(60);
    const LONGEST: Duration = Duration::from_secs(125);

    fn request(p: &mut Probe<'_>) -> Result<(SocketId, Vec<u8>), Outcome> {
        let (socket, token) = verified(p)?;
        let id = p.random() as u32;
        Ok((socket, own_query(p, BASIC, &token, id, 0)))
    }

    fn is_reply(bytes: &[u8]) -> bool {
        is_query_reply(bytes)
    }
}

fn other_port(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    for kind in [PLAYERS, BASIC, PLAYERS] {
        let id = p.random() as u32;
        if reply_to(p, socket, &own_query(p, kind, &token, id, 0), id).is_none() {
            return fail("the token is not valid for several queries");
        }
    }
    let other = p.open()?;
    let id = p.random() as u32;
    match reply_to(p, other, &own_query(p, BASIC, &token, id, 0), id) {
        Some(_) => pass("three queries, and one from another port"),
        None => deviates(&BOUND_TO_PORT, "no reply at another port"),
    }
}

/// Returns whether a reply is a refusal.
fn is_refused(bytes: &[u8]) -> Result<bool, Outcome> {
    Ok(read(bytes)?.flags.has(Flags::REFUSED))
}

/// Whether the basic endpoint needs no auth token.
fn public(p: &mut Probe<'_>) -> Result<(), Outcome> {
    let (_, bytes) = answered_with(p, BASIC, None)?;
    applies(!is_refused(&bytes)?, "the basic endpoint is not public")
}

fn wrong_auth_token(p: &mut Probe<'_>) -> Verdict {
    public(p)?;
    let (_, bytes) = answered_with(p, BASIC, Some(WRONG_AUTH_TOKEN))?;
    ensure(!is_refused(&bytes)?, "a wrong auth token is refused")?;
    pass("a wrong auth token gets the status")
}

fn broken_auth_token(p: &mut Probe<'_>) -> Verdict {
    public(p)?;
    let (socket, token) = verified(p)?;
    for length in [500, 0] {
        let id = p.random() as u32;
        let request = with_declared_token(query(BASIC, &token, id, 0), length);
        if reply_to(p, socket, &request, id).is_none() {
            let text = format!("no reply to an empty auth token with the length {length}");
            return deviates(&BROKEN_TOKEN_DROPPED, text);
        }
    }
    pass("the lengths 500 and 0 get the status")
}

fn refusals(p: &mut Probe<'_>) -> Verdict {
    let mut refused = 0;
    for kind in [BASIC, PLAYERS] {
        let (_, bytes) = answered_with(p, kind, None)?;
        let mut notes = Notes::default();
        let reply = parse_reply(&bytes, &mut notes)?;
        if !reply.flags.has(Flags::REFUSED) {
            continue;
        }
        refused += 1;
        if notes
            .met()
            .any(|met| met.name == known::REFUSED_BUT_DISCLOSED.name)
        {
            let text = format!(
                "a refusal of {} has the server info",
                counted(bytes.len(), "byte")
            );
            return deviates(&known::REFUSED_BUT_DISCLOSED, text);
        }
    }
    match refused {
        0 => not_applicable("both endpoints are public"),
        _ => pass(format!("{} without content", counted(refused, "refusal"))),
    }
}

fn right_auth_token(p: &mut Probe<'_>) -> Verdict {
    let Some(auth_token) = p.config.auth_token.clone() else {
        return not_applicable("it needs the auth token: --auth-token-file");
    };
    let mut opened = Vec::new();
    for (kind, name) in [(BASIC, "server info"), (PLAYERS, "players")] {
        if !is_refused(&answered_with(p, kind, None)?.1)? {
            continue;
        }
        if is_refused(&answered_with(p, kind, Some(auth_token.reveal()))?.1)? {
            return fail(format!("the auth token does not open the {name}"));
        }
        if !is_refused(&answered_with(p, kind, Some(WRONG_AUTH_TOKEN))?.1)? {
            return fail(format!("a wrong auth token opens the {name}"));
        }
        opened.push(name);
    }
    applies(!opened.is_empty(), "both endpoints are public")?;
    let opened = opened.join(" and ");
    pass(format!(
        "the auth token opens {opened}, and a wrong one does not"
    ))
}

fn challenge_amplification(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let reply = p.reply(socket, CHALLENGE, &is_challenge_reply, "no reply")?;
    let text = p.amplification(CHALLENGE.len(), reply.len());
    pass_if(reply.len() <= 48, text)
}

fn sizes(p: &mut Probe<'_>) -> Verdict {
    let (request, basic) = answered(p, BASIC)?;
    let (_, players) = answered(p, PLAYERS)?;
    let longest = basic.len().max(players.len());
    let text = p.amplification(request.len(), longest);
    if longest > MAX_REPLY {
        deviates(&known::OVER_1400, text)
    } else {
        pass(format!("{text}, with a valid token"))
    }
}

fn is_version_1(bytes: &[u8]) -> bool {
    v1::is_reply(bytes)
}

fn version_1(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let Some(basic) = p.ask_once(socket, &VERSION_1_BASIC, &is_version_1) else {
        return pass("no reply to version 1");
    };
    let is_full = |bytes: &[u8]| v1::is_reply(bytes) && bytes.get(8) == Some(&1);
    let mut notes = Notes::default();
    if let Some(full) = p.ask_once(socket, &VERSION_1_FULL, &is_full) {
        let lists = v1::read_reply(&full, &mut Notes::default())
            .map(|reply| (reply.players.len(), reply.plugins.len()));
        let text = match lists {
            // HyQuery hides its lists by default.
            Ok((0, 0)) => None,
            Ok((players, plugins)) => Some(format!(
                "{} and {}",
                counted(players, "player"),
                counted(plugins, "plugin")
            )),
            Err(_) => Some("lists".into()),
        };
        if let Some(lists) = text {
            let text = p.amplification(VERSION_1_FULL.len(), full.len());
            return fail(format!("any address gets {lists} in version 1; {text}"));
        }
    }
    let mut met = vec![&VERSION_1];
    let parsed = v1::read_reply(&basic, &mut notes);
    met.extend(
        notes
            .met()
            .filter(|met| met.name == known::HYQUERY_LAYOUT.name),
    );
    let mut text = p.amplification(VERSION_1_BASIC.len(), basic.len());
    if let Err(error) = parsed {
        text = format!("{error}; {text}");
    }
    found(met, text)
}

fn queries_per_second(p: &mut Probe<'_>) -> Verdict {
    let (socket, token) = verified(p)?;
    let request = own_query(p, BASIC, &token, 1, 0);
    load::requests(p, socket, &request, true, &still_answers)
}

/// The offset after the player of a forged page.
const FORGED_OFFSET: u32 = 7_777;

fn observe(o: &mut Observer, seen: &ObservedRequest<'_>) -> Vec<Vec<u8>> {
    // Clients fall back to version 1, which has no tokens and ids.
    if seen.bytes.starts_with(v1::REQUEST_MAGIC) {
        return Vec::new();
    }
    let kind = seen.bytes.get(8).copied().unwrap_or_default();
    if kind != 0 {
        o.require(4, seen.bytes.len() >= 51, "a query below 51 bytes");
    }
    let replies = o.answers(seen, seen.bytes);
    if kind != 0 && seen.bytes.len() >= 41 {
        // Only the token decides whether such a query is answered.
        o.require(
            7,
            !replies.is_empty(),
            "a token that this address did not get, or one older than 90 s",
        );
    }
    let number = |at: usize| {
        let bytes = seen.bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let (PLAYERS, Some(id), Some(offset)) = (kind, number(41), number(47)) else {
        return replies;
    };
    let expected = o.port(seen.from).next_offset;
    if let Some(expected) = expected.filter(|_| offset > 0) {
        let is_forged = offset == FORGED_OFFSET;
        o.require(5, !is_forged, "the page after a forged one was requested");
        if !is_forged {
            let text = format!("offset {offset} instead of {expected}");
            o.require(6, offset <= expected, &text);
        }
    }
    let parsed = replies.first().and_then(|reply| read_page(reply).ok());
    if let Some(page) = parsed.filter(|page| page.has_more) {
        let next = page.offset + page.players.len() as i64;
        o.port(seen.from).next_offset = u32::try_from(next).ok();
    }
    let forged = [
        &b"ONEREPLY\x01\x01\0"[..],
        &(id ^ 1).to_le_bytes(),
        &[35, 0, 2, 0, 31, 0],
        &9_999_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
        &(FORGED_OFFSET - 1).to_le_bytes(),
        &[1, 0, b'x'],
        &[0x99; 16],
    ];
    // One mistake must not hide the others.
    let is_forged = !o.has_missed(5, seen.from.ip());
    let mut all: Vec<_> = is_forged.then(|| forged.concat()).into_iter().collect();
    all.extend(replies);
    all
}
