//! Requirements of Minecraft Query (spec/minecraft-query.md).

use super::client::{ClientRequirement, ClientSuite, Observe, ObservedRequest, Observer};
use super::*;
use hailer_proto::minecraft_query::deviation as known;
use hailer_proto::minecraft_query::message::{
    SessionId, Stat, Token as Parsed, parse_challenge, parse_stat,
};
use hailer_proto::{Roster, Value};

deviations! {
    static;
    SHORT_HANDSHAKE "answers-short-handshake" "a handshake below 7 bytes gets a reply, whose id can hold bytes of another client's datagram";
    LAST_HANDSHAKE_ID "last-handshake-id" "the reply to a stat has the session id of the last handshake";
    ODD_LENGTH_DROPPED "odd-length-dropped" "a stat that has neither 11 nor 15 bytes gets no reply";
    ONE_TOKEN_PER_ADDRESS "one-token-per-address" "a handshake from another port of the same address ends the token";
    NEW_TOKEN_ENDS_OLD "new-token-ends-old" "a second handshake from the same port ends the first token";
    TOKEN_ZERO "token-zero" "a challenge token is 0";
    TOKEN_ECHO "token-echo" "the challenge token is the four bytes that the client added to its handshake";
    TOKEN_NEGATIVE "token-negative" "a challenge token is negative";
    MIXED_ENCODINGS "mixed-encodings" "the texts of one reply have different encodings";
    LATIN_1 "latin-1-text" "texts are ISO-8859-1, although the version is not one before 1.21.11";
    COUNT_NOT_LIST "count-not-list" "the number of names is not the number of players";
    UNKNOWN_TYPE "answers-unknown-type" "a request of an unknown type gets a reply";
    NO_BASIC_STAT "no-basic-stat" "no reply to a request for a basic stat, but one to a request for a full one";
    SHORT_STAT "answers-short-stat" "a stat without a whole token gets a reply";
}

pub(super) static SUITE: Suite = Suite {
    protocol: "minecraft-query",
    interval: Duration::from_millis(100),
    never_sent: "Malformed requests to servers for Bedrock clients, because Nukkit blocks the sender of \
        a request below 7 bytes for 600 s, and to proxies of the family of BungeeCord, because \
        one stray datagram ends the query service of a fork.",
    mild: &[
        mild_note("doubled-nul")
            .effect("Clients that read the token up to the end of the datagram find no number"),
        mild_warning("missing-nul").effect("Clients that wait for the last NUL reject the reply"),
        mild_warning("zero-padding").effect("Clients that compare the constants reject the reply"),
        mild_warning("geyser-header").effect("Clients that compare the constants reject the reply"),
        mild_warning("odd-padding").effect("Clients that compare the constants reject the reply"),
        mild_warning("spaced-key")
            .effect("Clients that know the key without its space show no value"),
        mild_warning("nul-in-motd").effect("Clients show a part of the MOTD as other values"),
        mild_warning("nul-in-value").effect("Clients mix up keys and values"),
        mild_note("duplicate-key").effect("Clients show one or the other of two values"),
        mild_warning("repeated-hostname").effect("Clients show the address as the MOTD"),
        mild_warning("unended-list")
            .effect("Clients that wait for the end of the list reject the reply"),
        mild_warning("odd-number").effect("Clients show no count or port, or 0"),
    ],
    requirements: &[
        error("minecraft-query/1.1", "#6.5", answers)
            .title("A handshake and a full stat are answered")
            .effect("No client can query the server"),
        error("minecraft-query/2.1", "#3.1", handshake_layout)
            .title("The handshake reply is the session id and a token in decimal text with one NUL")
            .effect("Clients find no token and report a timeout"),
        warning("minecraft-query/2.2", "#7.1", long_handshake)
            .title("A handshake with four more bytes is answered")
            .effect(
                "node-gamedig and sites built on it show the server as offline, or attackers \
                choose the token",
            )
            .deviations(&[&TOKEN_ECHO]),
        warning("minecraft-query/2.3", "#2.4", high_session_id)
            .title("A session id with bytes from 80 up comes back unchanged")
            .effect("Clients that draw ids at random fail in 15 of 16 queries")
            .deviations(&[&known::MANGLED_SESSION_ID]),
        warning("minecraft-query/2.4", "#7.1", short_handshake)
            .title("A handshake below 7 bytes gets no reply")
            .effect(
                "The reply shows bytes of other clients, and forged requests get up to 7 times \
                their size",
            )
            .deviations(&[&SHORT_HANDSHAKE]),
        error("minecraft-query/3.1", "#3.2", basic_layout)
            .title("A stat of 11 bytes gets the basic form with the port in two bytes")
            .effect("Clients of the basic stat show a wrong MOTD or port, or a timeout")
            .deviations(&[&known::FULL_FOR_BASIC, &NO_BASIC_STAT, &known::PORT_AS_TEXT]),
        error("minecraft-query/3.2", "#3.3", full_layout)
            .title("A stat of 15 bytes gets the full form with its constants and ten pairs")
            .effect("Clients that compare the constants or need a key crash or show no players")
            .deviations(&[&known::BASIC_FOR_FULL]),
        error("minecraft-query/3.3", "#2.3", other_padding)
            .title("The padding of a full stat can have any value")
            .effect("Generic GameSpy clients (node-gamedig, opengsq, qstat) show no players")
            .deviations(&[&known::BASIC_FOR_FULL]),
        warning("minecraft-query/3.4", "#2.4", own_session_id)
            .title("A stat is answered with its own session id")
            .effect(
                "Clients with a new id for each datagram, such as mcstatus, get no reply or drop \
                it",
            )
            .deviations(&[&LAST_HANDSHAKE_ID]),
        note("minecraft-query/3.5", "#7.1", odd_length)
            .title("A stat of another length from 11 bytes on gets the basic form")
            .effect("Clients that send more bytes than vanilla get no reply")
            .deviations(&[&ODD_LENGTH_DROPPED, &known::FULL_FOR_BASIC]),
        warning("minecraft-query/3.6", "#7.1", short_stat)
            .title("A stat below 11 bytes gets no reply")
            .effect("Requests without a token get a status, which forged addresses can use")
            .deviations(&[&SHORT_STAT]),
        note("minecraft-query/3.7", "#7.1", unknown_type)
            .title("A request of an unknown type gets no reply")
            .effect("Scanners take the port for another service")
            .deviations(&[&UNKNOWN_TYPE]),
        error("minecraft-query/4.1", "#3.2", same_values)
            .title("Basic and full stat have the same values")
            .effect("Clients show another port or map, depending on the form that they request"),
        note("minecraft-query/4.2", "#3.3", count_is_list)
            .title("The list has as many names as the count says")
            .effect("Lists of players are incomplete, or hold names that are not players")
            .deviations(&[&COUNT_NOT_LIST]),
        warning("minecraft-query/4.3", "#4.1", one_encoding)
            .title(
                "All texts of a reply have one encoding, UTF-8 unless the version is before \
                1.21.11",
            )
            .effect("Half of all clients show a garbled MOTD or garbled names")
            .deviations(&[&LATIN_1, &MIXED_ENCODINGS]),
        error("minecraft-query/5.1", "#7.2", wrong_token)
            .title("A stat with a wrong token gets no reply")
            .effect("Forged addresses get full replies: the server amplifies attacks"),
        error("minecraft-query/5.2", "#7.2", guessed_token)
            .title("The token cannot be guessed")
            .effect("Forged addresses get full replies: the server amplifies attacks"),
        challenge::other_address::<MinecraftQuery>("minecraft-query/5.3", "#7.2"),
        challenge::other_port::<MinecraftQuery>("minecraft-query/5.4", "#7.2"),
        warning("minecraft-query/5.5", "#6.5", handshake_elsewhere)
            .title("A handshake from another port leaves the token valid")
            .effect("One of two clients behind the same address gets no reply")
            .deviations(&[&ONE_TOKEN_PER_ADDRESS]),
        note("minecraft-query/5.6", "#7.2", repeated_handshake)
            .title("A repeated handshake leaves the earlier token valid")
            .effect("A handshake that the network duplicates costs the client a retry")
            .deviations(&[&NEW_TOKEN_ENDS_OLD]),
        warning("minecraft-query/5.7", "#6.5", replayed_token)
            .title("A token can be used repeatedly")
            .effect("A lost reply cannot be requested again, so queries fail on lossy networks"),
        warning("minecraft-query/5.8", "#7.2", positive_token)
            .title("Tokens are positive and not 0")
            .effect(
                "node-gamedig and opengsq leave out a 0, and older clients crash on negative \
                tokens",
            )
            .deviations(&[&TOKEN_ZERO, &TOKEN_NEGATIVE]),
        warning(
            "minecraft-query/5.9",
            "#7.2",
            challenge::lifetime::<MinecraftQuery>,
        )
        .title("A token expires after at most 60 s, and not before 5 s")
        .effect("A token that leaked once can be used by attackers for as long as the server runs")
        .deviations(&[&LONG_LIFETIME])
        .waits(70),
        error("minecraft-query/6.1", "#7.1", strays)
            .title("Datagrams of other protocols get no reply and do not stop the service")
            .effect(
                "Scanners and node-gamedig, which sends a RakNet ping with each query, take \
                queries down",
            ),
        error("minecraft-query/6.2", "#7.4", handshake_amplification)
            .title("The handshake reply has at most 17 bytes")
            .effect("Forged addresses get more bytes than were sent for them"),
        note("minecraft-query/6.3", "#7.4", full_size)
            .title("The full stat fits one packet of 1400 bytes")
            .effect("Some networks drop fragments, and several clients read only 4096 bytes")
            .deviations(&[&FRAGMENTED]),
        warning("minecraft-query/6.4", "#9", latency)
            .title("Replies arrive within 0.5 s")
            .effect("qstat gives up after 0.5 s"),
        survives("minecraft-query/7.1", "#7.1", stats_per_second)
            .title("The server survives 50 stats/s with a valid token"),
    ],
    client: Some(&CLIENT),
};

static CLIENT: ClientSuite = ClientSuite {
    requirements: &[
        ClientRequirement::warning(4)
            .title("The session id has no byte above 7F")
            .effect("Vanilla servers mangle such ids, so that the client finds no token"),
        ClientRequirement::note(5)
            .title("Handshake and stat have the same session id")
            .effect(
                "Vanilla servers reply with the id of the handshake, and the client drops the \
                reply",
            ),
        ClientRequirement::warning(6)
            .title("The stat comes from the port of its handshake")
            .effect("Servers that bind tokens to ports do not reply"),
        ClientRequirement::error(7)
            .title("A handshake reply with another session id is ignored")
            .effect("A forged datagram makes the query fail"),
        ClientRequirement::error(8)
            .title("Every token is sent back, also a negative one and 0")
            .effect("Half of the queries of BungeeCord fail, and all of PyMine"),
        ClientRequirement::note(9)
            .title("The padding of a full stat is zero")
            .effect("PyMine lists no players for another padding"),
    ],
    deviations: &[],
    observe: Observe::Datagram(observe),
};

/// Magic and types (spec/minecraft-query.md#2).
const HANDSHAKE: [u8; 3] = [0xFE, 0xFD, 9];
const STAT: [u8; 3] = [0xFE, 0xFD, 0];
/// The longest handshake reply without a mangled id.
const MAX_HANDSHAKE_REPLY: usize = 17;
const MAX_PACKET: usize = 1_400;
/// Padding of a full stat for servers whose tokens are raw bytes.
const RAW_PADDING: usize = 8;

/// A token as the server sent it, in the four bytes of a stat.
#[derive(Clone, Copy, PartialEq)]
struct StatToken {
    bytes: [u8; 4],
    /// Padding that a full stat needs.
    padding: usize,
}

impl StatToken {
    fn number(self) -> i32 {
        i32::from_be_bytes(self.bytes)
    }
}

fn handshake(id: [u8; 4]) -> Vec<u8> {
    [&HANDSHAKE[..], &id].concat()
}

fn stat(id: [u8; 4], token: StatToken, padding: &[u8]) -> Vec<u8> {
    [&STAT[..], &id, &token.bytes, padding].concat()
}

fn full_stat(id: [u8; 4], token: StatToken) -> Vec<u8> {
    stat(id, token, &[0; 8][..token.padding])
}

fn is_handshake_reply(bytes: &[u8]) -> bool {
    bytes.first() == Some(&9)
}

fn is_stat_reply(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0) && bytes.len() > 5
}

/// Sends a handshake and returns the token.
fn token(p: &mut Probe<'_>, socket: SocketId, id: [u8; 4]) -> Result<StatToken, Outcome> {
    let reply = p.reply(
        socket,
        &handshake(id),
        &is_handshake_reply,
        "no reply to a handshake",
    )?;
    let parsed = parse_challenge(&reply, Some(SessionId(id)), &mut Notes::default());
    match parsed {
        Ok(Some(Parsed::Number(number))) => Ok(StatToken {
            bytes: number.to_be_bytes(),
            padding: 4,
        }),
        Ok(Some(Parsed::Raw(bytes))) => Ok(StatToken {
            bytes,
            padding: RAW_PADDING,
        }),
        Ok(None) => fail("the handshake reply has another session id"),
        Err(error) => fail(format!("handshake reply: {error}")),
    }
}

/// Leaves out well-formed but unusual requests for servers that block senders.
fn spare_bedrock(p: &Probe<'_>) -> Result<(), Outcome> {
    if p.facts.is_bedrock {
        p.spare_fragile()
    } else {
        Ok(())
    }
}

/// Opens a socket and gets a token for it.
fn verified(p: &mut Probe<'_>) -> Result<(SocketId, [u8; 4], StatToken), Outcome> {
    let socket = p.open()?;
    let id = p.plain_id();
    let token = token(p, socket, id)?;
    Ok((socket, id, token))
}

/// Requests a full stat with a token. Returns the reply.
fn full(p: &mut Probe<'_>) -> Result<(Vec<u8>, Vec<u8>), Outcome> {
    let (socket, id, token) = verified(p)?;
    let request = full_stat(id, token);
    let reply = p.reply(socket, &request, &is_stat_reply, "no reply to a full stat")?;
    Ok((request, reply))
}

fn still_answers(p: &mut Probe<'_>) -> bool {
    full(p).is_ok()
}

fn answers(p: &mut Probe<'_>) -> Verdict {
    let verdict = baseline(p)?;
    let status = p.status()?;
    let is_bedrock = status.game.as_deref() == Some("MINECRAFTPE")
        || status.rules.iter().any(|rule| rule.key == "server_engine")
        || matches!(status.extra("software"), Some(Value::Str(name)) if name.contains("Nukkit") || name.contains("PocketMine"));
    if is_bedrock {
        p.facts.is_bedrock = true;
        p.facts.fragile =
            Some("servers of this family block senders of malformed requests for 600 s");
    } else if status.map.as_deref() == Some("BungeeCord_Proxy") {
        p.facts.fragile =
            Some("in a fork of BungeeCord, one malformed datagram ends the query service");
    }
    Ok(verdict)
}

/// Sends a handshake from a new socket. Returns it and its reply.
fn shaken(p: &mut Probe<'_>) -> Result<(Vec<u8>, Vec<u8>), Outcome> {
    let socket = p.open()?;
    let request = handshake(p.plain_id());
    let silence = "no reply to a handshake";
    let reply = p.reply(socket, &request, &is_handshake_reply, silence)?;
    Ok((request, reply))
}

fn handshake_layout(p: &mut Probe<'_>) -> Verdict {
    let (request, reply) = shaken(p)?;
    p.layout(&request, &reply)
}

fn long_handshake(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let added = [0, 0x12, 0x34, 0x56];
    let request = [&handshake(p.plain_id())[..], &added].concat();
    let reply = p.reply(
        socket,
        &request,
        &is_handshake_reply,
        "no reply to 11 bytes",
    )?;
    match parse_challenge(&reply, None, &mut Notes::default()) {
        Ok(Some(Parsed::Number(number))) if number.to_be_bytes() == added => {
            deviates(&TOKEN_ECHO, format!("11 bytes get the token {number}"))
        }
        _ => pass("11 bytes get a token"),
    }
}

fn high_session_id(p: &mut Probe<'_>) -> Verdict {
    let socket = p.open()?;
    let id = [0x81, 0xF5, 0x07, 0xC3];
    let request = handshake(id);
    let reply = p.reply(socket, &request, &is_handshake_reply, "no reply")?;
    if reply.get(1..5) == Some(&id) {
        return pass("the four bytes came back");
    }
    p.layout(&request, &reply)
}

fn short_handshake(p: &mut Probe<'_>) -> Verdict {
    p.spare_fragile()?;
    for length in [3, 6] {
        let socket = p.open()?;
        let request = handshake(p.plain_id());
        let request = &request[..length];
        if let Some(reply) = p.ask_once(socket, request, &|_| true) {
            let text = p.amplification(request.len(), reply.len());
            return deviates(&SHORT_HANDSHAKE, text);
        }
    }
    pass("no reply to 3 and 6 bytes")
}

fn basic_layout(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, token) = verified(p)?;
    let request = stat(id, token, &[]);
    match p.ask(socket, &request, &is_stat_reply) {
        Some(reply) => p.layout(&request, &reply),
        None => deviates(&NO_BASIC_STAT, "no reply to 11 bytes"),
    }
}

fn full_layout(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, token) = verified(p)?;
    // 15 bytes, also if the server wants more.
    let request = stat(id, token, &[0; 4]);
    let reply = p.reply(socket, &request, &is_stat_reply, "no reply to 15 bytes")?;
    p.layout(&request, &reply)
}

fn other_padding(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, token) = verified(p)?;
    let request = stat(id, token, &[0xFF, 0xFF, 0xFF, 1]);
    let reply = p.reply(
        socket,
        &request,
        &is_stat_reply,
        "no reply to the padding FF FF FF 01",
    )?;
    match parse_stat(&reply, Some(true), &mut Notes::default()) {
        Ok(Stat::Full(_)) => pass("the padding FF FF FF 01 gets the full form"),
        Ok(Stat::Basic(_)) => deviates(
            &known::BASIC_FOR_FULL,
            "the padding FF FF FF 01 gets the basic form",
        ),
        Err(error) => fail(error.to_string()),
    }
}

fn own_session_id(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, token) = verified(p)?;
    let mut other = p.plain_id();
    other[0] = id[0] ^ 1;
    let request = full_stat(other, token);
    let reply = p.reply(
        socket,
        &request,
        &is_stat_reply,
        "no reply to a stat whose id is not that of the handshake",
    )?;
    match reply.get(1..5) {
        Some(found) if found == other => pass("the id of the stat"),
        Some(found) if found == id => deviates(&LAST_HANDSHAKE_ID, "the id of the handshake"),
        _ => fail("an id that was never sent"),
    }
}

fn odd_length(p: &mut Probe<'_>) -> Verdict {
    spare_bedrock(p)?;
    let (socket, id, token) = verified(p)?;
    let request = stat(id, token, &[0]);
    let Some(reply) = p.ask(socket, &request, &is_stat_reply) else {
        return deviates(&ODD_LENGTH_DROPPED, "no reply to 12 bytes");
    };
    match parse_stat(&reply, None, &mut Notes::default()) {
        Ok(Stat::Basic(_)) => pass("12 bytes get the basic form"),
        Ok(Stat::Full(_)) => deviates(&known::FULL_FOR_BASIC, "12 bytes get the full form"),
        Err(error) => fail(error.to_string()),
    }
}

fn short_stat(p: &mut Probe<'_>) -> Verdict {
    p.spare_fragile()?;
    let (socket, id, token) = verified(p)?;
    for length in [7, 10] {
        let request = stat(id, token, &[]);
        if let Some(reply) = p.ask_once(socket, &request[..length], &is_stat_reply) {
            let text = format!("{length} bytes get {}", reply.len());
            return deviates(&SHORT_STAT, text);
        }
    }
    pass("no reply to 7 and 10 bytes")
}

fn unknown_type(p: &mut Probe<'_>) -> Verdict {
    spare_bedrock(p)?;
    let (socket, id, token) = verified(p)?;
    let mut request = full_stat(id, token);
    request[2] = 5;
    match p.ask_once(socket, &request, &|_| true) {
        None => pass("no reply to type 5"),
        Some(reply) => deviates(
            &UNKNOWN_TYPE,
            format!("type 5 gets {}", counted(reply.len(), "byte")),
        ),
    }
}

/// A stat, read leniently.
struct Values {
    map: String,
    max: Option<i64>,
    port: Option<u16>,
}

fn values(reply: &[u8]) -> Result<Values, Outcome> {
    match parse_stat(reply, None, &mut Notes::default()) {
        Ok(Stat::Basic(basic)) => Ok(Values {
            map: String::from_utf8_lossy(basic.map).into_owned(),
            max: basic.max,
            port: basic.port,
        }),
        Ok(Stat::Full(_)) => not_applicable("the server sends only the full form"),
        Err(error) => fail(error.to_string()),
    }
}

fn same_values(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, token) = verified(p)?;
    let request = stat(id, token, &[]);
    let Some(reply) = p.ask(socket, &request, &is_stat_reply) else {
        return not_applicable("the server sends only the full form");
    };
    let basic = values(&reply)?;
    let status = p.status()?;
    let port = status.address.as_ref().and_then(|address| address.port);
    let map = status.map.as_deref().unwrap_or_default();
    let mut differences = Vec::new();
    if let (Some(basic), Some(full)) = (basic.port, port)
        && basic != full
    {
        let swapped = if basic.swap_bytes() == full {
            ", which is big-endian"
        } else {
            ""
        };
        differences.push(format!("port {basic} and {full}{swapped}"));
    }
    if let (Some(basic), Some(full)) = (basic.max, status.players.max)
        && basic != full
    {
        differences.push(format!("at most {basic} and {full} players"));
    }
    // Both are ASCII, or a comparison would need the encoding.
    if basic.map.is_ascii() && map.is_ascii() && basic.map != map {
        differences.push(format!("map {:?} and {map:?}", basic.map));
    }
    if differences.is_empty() {
        pass(format!("map {map:?}, port {}", port.unwrap_or_default()))
    } else {
        fail(differences.join("; "))
    }
}

fn count_is_list(p: &mut Probe<'_>) -> Verdict {
    let players = &p.status()?.players;
    let has_list = players.roster != Roster::Absent;
    applies(has_list, "the reply to a full stat has no list")?;
    let (count, listed) = (players.online.unwrap_or(0), players.list.len());
    let names = counted(listed, "name");
    let text = format!("the count is {count}, with {names}");
    pass_or(usize::try_from(count) == Ok(listed), &COUNT_NOT_LIST, text)
}

/// Whether a version is empty, or a plain number before 1.21.11, the first with UTF-8.
fn may_be_before_utf8(version: &str) -> bool {
    if version.is_empty() {
        return true;
    }
    let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    numbers.is_some_and(|numbers| numbers < vec![1, 21, 11])
}

fn one_encoding(p: &mut Probe<'_>) -> Verdict {
    let (_, reply) = full(p)?;
    if let Ok(Stat::Basic(_)) = parse_stat(&reply, None, &mut Notes::default()) {
        return not_applicable("the server sends no version in reply to a full stat");
    }
    let version = p.status()?.version.clone().unwrap_or_default();
    let body = reply.get(16..).unwrap_or_default();
    let mut utf8 = 0;
    let mut latin1 = 0;
    for text in body
        .split(|byte| *byte == 0)
        .filter(|text| !text.is_ascii())
    {
        match std::str::from_utf8(text) {
            Ok(_) => utf8 += 1,
            Err(_) => latin1 += 1,
        }
    }
    let texts = |count| counted(count, "text");
    match (utf8, latin1) {
        (0, 0) => pass("all texts are ASCII, so the encoding does not show"),
        (_, 0) => pass(format!("UTF-8 in {}", texts(utf8))),
        (0, _) if may_be_before_utf8(&version) => pass(format!(
            "ISO-8859-1 in {}, as in other servers before 1.21.11",
            texts(latin1)
        )),
        (0, _) => deviates(
            &LATIN_1,
            format!("ISO-8859-1 in {}, version {version:?}", texts(latin1)),
        ),
        _ => deviates(
            &MIXED_ENCODINGS,
            format!("UTF-8 in {}, ISO-8859-1 in {}", texts(utf8), texts(latin1)),
        ),
    }
}

fn wrong_token(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, token) = verified(p)?;
    for flipped in [1_u8, 0x80] {
        let mut wrong = token;
        wrong.bytes[3] ^= flipped;
        if let Some(reply) = p.ask_once(socket, &full_stat(id, wrong), &is_stat_reply) {
            let text = p.amplification(15, reply.len());
            return fail(format!("a token with one other bit gets a status; {text}"));
        }
    }
    pass("no reply to a token with one other bit")
}

fn guessed_token(p: &mut Probe<'_>) -> Verdict {
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let (socket, id, token) = verified(p)?;
        // An attacker can send the handshake too, but gets no token.
        let zero = StatToken {
            bytes: [0; 4],
            ..token
        };
        if let Some(reply) = p.ask_once(socket, &full_stat(id, zero), &is_stat_reply) {
            let text = p.amplification(15, reply.len());
            return fail(format!("the token 0 gets a status; {text}"));
        }
        tokens.push(token.number());
    }
    let (Some(least), Some(most)) = (tokens.iter().min(), tokens.iter().max()) else {
        return not_applicable("no token");
    };
    match i64::from(*most) - i64::from(*least) {
        1..=16 => fail(format!("tokens {tokens:?} are consecutive")),
        _ => pass("the token 0 gets no reply, and tokens are not consecutive"),
    }
}

/// Tokens, tested with full stats.
struct MinecraftQuery;

impl Challenged for MinecraftQuery {
    const TOKEN: &'static str = "token";
    const REPLY: &'static str = "a status";
    const REFUSAL: &'static str = "no reply to";
    const STEP: Duration = Duration::from_secs(5);
    const SHORTEST: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(65);

    fn request(p: &mut Probe<'_>) -> Result<(SocketId, Vec<u8>), Outcome> {
        let (socket, id, token) = verified(p)?;
        Ok((socket, full_stat(id, token)))
    }

    fn is_reply(bytes: &[u8]) -> bool {
        is_stat_reply(bytes)
    }
}

fn handshake_elsewhere(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, first) = verified(p)?;
    let (_, _, second) = verified(p)?;
    match p.ask(socket, &full_stat(id, first), &is_stat_reply) {
        Some(_) => pass("both tokens are valid"),
        None if first == second => fail("the token, which is the same for both, got no reply"),
        None => deviates(
            &ONE_TOKEN_PER_ADDRESS,
            "the token got no reply after a handshake from another port",
        ),
    }
}

fn repeated_handshake(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, first) = verified(p)?;
    let second = token(p, socket, id)?;
    p.drain(socket);
    match p.ask(socket, &full_stat(id, first), &is_stat_reply) {
        Some(_) if first == second => pass("the same token again"),
        Some(_) => pass("both tokens are valid"),
        None => deviates(&NEW_TOKEN_ENDS_OLD, "the first token got no reply"),
    }
}

fn replayed_token(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, token) = verified(p)?;
    let request = full_stat(id, token);
    for number in 1..=3 {
        if p.ask(socket, &request, &is_stat_reply).is_none() {
            return fail(format!("stat {number} with the same token got no reply"));
        }
    }
    pass("three stats with one token")
}

fn positive_token(p: &mut Probe<'_>) -> Verdict {
    let mut numbers = Vec::new();
    // Of eight random numbers, all are positive in 1 of 256 cases.
    for _ in 0..8 {
        let token = verified(p)?.2;
        let is_number = token.padding != RAW_PADDING;
        applies(is_number, "the tokens are raw bytes, without a sign")?;
        numbers.push(token.number());
    }
    let text = format!("tokens {numbers:?}");
    if numbers.contains(&0) {
        return deviates(&TOKEN_ZERO, text);
    }
    if numbers.iter().any(|number| *number < 0) {
        return deviates(&TOKEN_NEGATIVE, text);
    }
    pass(text)
}

fn strays(p: &mut Probe<'_>) -> Verdict {
    p.spare_fragile()?;
    // Not the magic of this protocol.
    let noise = p.noise(40, 0x55);
    let raknet_ping = [
        &[1][..],
        &[0; 8],
        b"\x00\xFF\xFF\x00\xFE\xFE\xFE\xFE\xFD\xFD\xFD\xFD\x12\x34\x56\x78",
        &[0; 8],
    ]
    .concat();
    let strays = [
        ("an empty datagram", Vec::new()),
        ("a RakNet ping", raknet_ping),
        ("a list ping", vec![0xFE, 1]),
        ("40 random bytes", noise),
        ("1400 bytes", vec![0x55; 1_400]),
    ];
    p.strays(&strays, &still_answers)
}

fn handshake_amplification(p: &mut Probe<'_>) -> Verdict {
    let (request, reply) = shaken(p)?;
    let text = p.amplification(request.len(), reply.len());
    pass_if(reply.len() <= MAX_HANDSHAKE_REPLY, text)
}

fn full_size(p: &mut Probe<'_>) -> Verdict {
    let (request, reply) = full(p)?;
    let text = p.amplification(request.len(), reply.len());
    if reply.len() > MAX_PACKET {
        deviates(&FRAGMENTED, text)
    } else {
        pass(format!("{text}, with a valid token"))
    }
}

fn latency(p: &mut Probe<'_>) -> Verdict {
    let slowest = p.facts.slowest;
    p.measure("slowest_reply_ms", slowest.as_secs_f64() * 1e3);
    let text = format!("the slowest reply took {} ms", slowest.as_millis());
    pass_if(slowest <= Duration::from_millis(500), text)
}

fn stats_per_second(p: &mut Probe<'_>) -> Verdict {
    let (socket, id, token) = verified(p)?;
    load::requests(p, socket, &full_stat(id, token), true, &still_answers)
}

/// Tokens that clients get in turn, and the one in forged replies.
const CLIENT_TOKENS: [i32; 3] = [9_513_307, -1_234_567, 0];
/// As long as the others: qstat takes a token of one digit for a server without tokens.
const FORGED_TOKEN: i32 = 7_654_321;

fn observe(o: &mut Observer, seen: &ObservedRequest<'_>) -> Vec<Vec<u8>> {
    let (Some(kind), Some(id)) = (seen.bytes.get(2), seen.bytes.get(3..7)) else {
        return Vec::new();
    };
    if *kind == 9 {
        observe_handshake(o, seen, id)
    } else {
        observe_stat(o, seen, id)
    }
}

/// Sends a forged reply with another id until a client has fallen for one, and one of the tokens instead of that of the simulated
/// server.
fn observe_handshake(o: &mut Observer, seen: &ObservedRequest<'_>, id: &[u8]) -> Vec<Vec<u8>> {
    o.require(4, id.is_ascii(), "an id byte above 7F");
    let own = o.answers(seen, seen.bytes);
    let parsed = own.first().and_then(|reply| {
        let id = SessionId(id.try_into().ok()?);
        parse_challenge(reply, Some(id), &mut Notes::default()).ok()?
    });
    let Some(Parsed::Number(own)) = parsed else {
        return Vec::new();
    };
    // A repeated handshake gets the same token, so that the order of replies does not matter.
    let first = o.port(seen.from);
    let repeated = first.id.strip_prefix(id).filter(|_| !first.is_used);
    let repeated = repeated.and_then(|token| token.try_into().ok());
    let token = repeated.map_or(
        CLIENT_TOKENS[o.tokens % CLIENT_TOKENS.len()],
        i32::from_be_bytes,
    );
    o.tokens += usize::from(repeated.is_none());
    // One mistake must not hide the others.
    let is_forged = !o.has_missed(7, seen.from.ip());
    let port = o.port(seen.from);
    port.id = [id, &token.to_be_bytes()].concat();
    port.token = own.to_be_bytes().into();
    port.is_used = false;
    // A client that gives up because of the forged reply sends no stat.
    port.awaited = is_forged.then_some((7, seen.now));
    let reply = [&[9], id, token.to_string().as_bytes(), &[0]].concat();
    if !is_forged {
        return vec![reply];
    }
    let mut forged = [&[9], id, FORGED_TOKEN.to_string().as_bytes(), &[0]].concat();
    forged[1] ^= 1;
    vec![forged, reply]
}

/// Passes a stat to the simulated server, with the token of that server.
fn observe_stat(o: &mut Observer, seen: &ObservedRequest<'_>, id: &[u8]) -> Vec<Vec<u8>> {
    let port = o.port(seen.from);
    port.is_used = true;
    let port = port.clone();
    let has_handshake = !port.id.is_empty();
    o.require(6, has_handshake, "a stat from a port without a handshake");
    if !has_handshake {
        // It belongs to the handshake of another port.
        let ip = seen.from.ip();
        let ports = o.ports.iter_mut().filter(|(from, _)| from.ip() == ip);
        for (_, port) in ports {
            port.awaited = None;
        }
    }
    let Some(token) = seen.bytes.get(7..11) else {
        o.require(8, false, "a stat without a token");
        return Vec::new();
    };
    if !has_handshake {
        return Vec::new();
    }
    o.require(
        7,
        token != FORGED_TOKEN.to_be_bytes(),
        "the token of a forged reply was used",
    );
    if token == FORGED_TOKEN.to_be_bytes() {
        return Vec::new();
    }
    o.require(5, port.id.starts_with(id), "another id in the stat");
    let is_same = port.id.ends_with(token);
    o.require(8, is_same, "another token than the one in the reply");
    if !is_same {
        return Vec::new();
    }
    let padding = &seen.bytes[11..];
    if !padding.is_empty() {
        let is_zero = padding.iter().all(|byte| *byte == 0);
        o.require(9, is_zero, "a padding other than zeros");
    }
    let request = [&seen.bytes[..7], &port.token, padding].concat();
    o.answers(seen, &request)
}
