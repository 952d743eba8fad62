//! Fuzz bodies: each accepts any bytes and asserts properties that must hold for all of them.
//!
//! They are part of the library so that they are compiled and linted with it. `tests/fuzz.rs` runs
//! them over the committed corpus and some random inputs with every `cargo test`; `cargo bolero
//! test explain` runs them for longer.

use crate::joins::{FAMILIES, JoinVerdict};
use crate::master::{Entry, ListQuery, MASTERS, MasterTransport};
use crate::model::{Address, Extra, Player, Rule, Status, Text, Value};
use crate::protocol::{
    Ask, Connection, ConnectionStep, Cookie, DatagramContext, Depth, Exchange, Input, Options,
    Protocol, Responder, Step, Verdict,
};
use crate::protocols::a2s;
use crate::registry::PROTOCOLS;
use crate::testing::memory::Server;
use crate::token::{Epoch, Keys};
use crate::wire::{Notes, by_content};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use compact_str::CompactString;
use core::net::{Ipv4Addr, SocketAddr};

/// Explains the bytes in every protocol, with the assertions of [`explain_as`].
pub fn explain(bytes: &[u8]) {
    for protocol in PROTOCOLS {
        explain_as(*protocol, bytes);
    }
}

/// Explains the bytes in one protocol with every context, also as a reply to their first half.
/// Collecting fields must not change the result, every field and error must lie within the bytes,
/// and a given direction must be kept.
pub fn explain_as(protocol: &dyn Protocol, bytes: &[u8]) {
    let (half, _) = bytes.split_at(bytes.len() / 2);
    for seen in [
        DatagramContext::Unknown,
        DatagramContext::Request,
        DatagramContext::Reply,
        DatagramContext::ReplyTo(half),
    ] {
        let mut notes = Notes::explaining();
        let mut silent = Notes::default();
        let explanation = protocol.explain(bytes, seen, &mut notes);
        assert_eq!(explanation, protocol.explain(bytes, seen, &mut silent));
        assert_eq!(notes.deviations(), silent.deviations());
        assert!(
            notes
                .fields()
                .iter()
                .all(|field| field.range.start <= field.range.end)
        );
        assert!(
            notes
                .fields()
                .iter()
                .all(|field| field.range.end <= bytes.len())
        );
        assert!(notes.deviations().iter().all(|(_, at)| *at <= bytes.len()));
        let Some(explanation) = explanation else {
            continue;
        };
        assert!(
            seen.direction()
                .is_none_or(|direction| direction == explanation.direction)
        );
        assert!(
            explanation
                .error
                .is_none_or(|error| error.at <= bytes.len())
        );
    }
}

/// Parses a list of a master server. The first byte selects the kind, the second the size of the
/// pieces of a body. The pieces must not change the result, and entries must not outgrow the bytes.
pub fn master(bytes: &[u8]) {
    let [kind, piece, bytes @ ..] = bytes else {
        return;
    };
    let Some(master) = MASTERS.get(usize::from(*kind) % MASTERS.len()) else {
        return;
    };
    // The shortest entry has six bytes, or the text `a:1`.
    let most = bytes.len() / 3;
    match master.transport {
        MasterTransport::Datagram(_, open) => {
            for path in ["", "68", "1.41", "hexenworld"] {
                let query = ListQuery { path, filter: "" };
                let Ok(mut list) = open(&query) else {
                    continue;
                };
                let mut count = 0;
                let mut keep = |_: Entry<'_>| count += 1;
                list.receive(bytes, &mut keep);
                list.receive(bytes, &mut keep);
                list.request(&mut Vec::new());
                list.settle();
                assert!(count <= 2 * most);
            }
        }
        MasterTransport::Http(open) => {
            let read = |size: usize| {
                let mut list = open();
                let mut entries: Vec<String> = Vec::new();
                let mut keep = |entry: Entry<'_>| entries.push(alloc::format!("{entry}"));
                let mut result = Ok(());
                for piece in bytes.chunks(size) {
                    result = result.and_then(|()| list.receive(piece, &mut keep));
                }
                (entries, result.and_then(|()| list.finish()))
            };
            let whole = read(bytes.len().max(1));
            assert_eq!(whole, read(usize::from(*piece).max(1)));
            assert!(whole.0.len() <= most);
        }
    }
}

/// Sends two requests to a responder. The first byte selects the protocol and the second one is the
/// length of the first request. The rest is the second request, and also the texts of the status.
/// Hailer's parser must read each reply without an error or deviation, and unverified sources get
/// no more than the documented amplification.
pub fn responder(bytes: &[u8]) {
    let Some((protocol, bytes)) = pick(bytes) else {
        return;
    };
    let Some((&length, bytes)) = bytes.split_first() else {
        return;
    };
    let (first, second) = bytes.split_at(bytes.len().min(usize::from(length)));
    let Some(responder) = build(protocol, &status(second)) else {
        return;
    };
    if let Some(mut connection) = responder.connection(client_address()) {
        return converse(protocol, &mut *connection, [first, second]);
    }
    let mut reply = Vec::new();
    for request in [first, second, first] {
        reply.clear();
        let verdict = responder.answer(client_address(), EPOCH, request, &mut reply);
        let Verdict::Reply { is_verified } = verdict else {
            assert!(
                reply.is_empty(),
                "a verdict without a reply leaves the buffer alone"
            );
            continue;
        };
        let amplification = protocol.info().amplification;
        assert!(is_verified || reply.len() <= amplification.reply);
        assert!(
            is_verified
                || reply.len() * amplification.request <= request.len() * amplification.reply
        );
        readable(protocol, &reply);
        for index in 1..MAX_CONTINUATIONS {
            reply.clear();
            let has_more = responder.continuation(request, is_verified, index, &mut reply);
            assert_eq!(has_more, !reply.is_empty());
            if !has_more {
                break;
            }
            assert!(
                is_verified,
                "by default an unverified source gets one datagram"
            );
            readable(protocol, &reply);
        }
    }
}

/// Sends bytes in two pieces to the server side of a connection. Replies must be readable, and
/// nothing is sent after the end of the connection.
fn converse(protocol: &dyn Protocol, connection: &mut dyn Connection, pieces: [&[u8]; 2]) {
    let mut unread: Vec<u8> = Vec::new();
    let check = |reply: &[u8]| {
        // A reply may consist of several messages, and the first one is explained.
        if !reply.is_empty() {
            let seen = DatagramContext::Reply;
            let explanation = protocol.explain(reply, seen, &mut Notes::default());
            assert!(explanation.is_some_and(|explanation| explanation.error.is_none()));
        }
    };
    let mut greeting = Vec::new();
    let step = connection.open(&mut greeting);
    check(&greeting);
    if step != ConnectionStep::Wait {
        return;
    }
    for piece in pieces {
        unread.extend_from_slice(piece);
        let mut reply = Vec::new();
        let received = connection.receive(EPOCH, &unread, &mut reply);
        assert!(received.consumed <= unread.len());
        if received.step == ConnectionStep::Pass {
            assert!(reply.is_empty(), "a passed connection gets no reply");
        }
        check(&reply);
        if received.step != ConnectionStep::Wait {
            return;
        }
        unread.drain(..received.consumed);
    }
    let mut reply = Vec::new();
    let paused = connection.pause(&unread, &mut reply);
    assert!(paused.consumed <= unread.len());
    check(&reply);
}

/// Feeds datagrams and timeouts to an exchange and asserts that the status stays in proportion to
/// the received bytes.
///
/// The first byte selects the protocol, the second the depth. Commands follow: 0 is a timeout; 1 is
/// a datagram, with its length in two bytes and its bytes; 3 is the deadline. Any other byte sends
/// the reply of Hailer's responder to the last request. The next byte is the number of changes to
/// it, each given by an offset (two bytes) and a number to add.
pub fn exchange(bytes: &[u8]) {
    let Some((protocol, bytes)) = pick(bytes) else {
        return;
    };
    let Some((&depth, bytes)) = bytes.split_first() else {
        return;
    };
    let depth = match depth % 3 {
        0 => Depth::Full,
        1 => Depth::Basic,
        _ => Depth::Ping,
    };
    let mut input = Orders(bytes);
    let responder = build(protocol, &status(b"Steve\0Alex"));
    let mut exchange = protocol.exchange(
        &Ask {
            depth,
            ..Ask::default()
        },
        Cookie(1),
    );
    let mut sent = Vec::new();
    let mut out = Vec::new();
    let mut datagrams = 0;
    let mut step = exchange.handle(Input::Start, &mut out);
    let mut server = responder
        .as_deref()
        .map(|responder| Server::new(responder, client_address(), EPOCH));
    loop {
        match step {
            Step::Send | Step::SendMore => core::mem::swap(&mut sent, &mut out),
            Step::Reconnect => {
                server.iter_mut().for_each(Server::reconnect);
                core::mem::swap(&mut sent, &mut out);
            }
            Step::Wait | Step::Progress | Step::Bad(_) => {
                assert!(out.is_empty(), "only a step that sends fills the buffer");
            }
            Step::Fail(_) => return,
            Step::Done(status) => {
                assert!(
                    size(&status) <= STATUS_BYTES * datagrams + STATUS_CONSTANT,
                    "{} from {datagrams}",
                    size(&status)
                );
                return;
            }
        }
        out.clear();
        if step == Step::SendMore {
            step = exchange.handle(Input::Continue, &mut out);
            continue;
        }
        step = match input.next() {
            None => return,
            Some(0) => exchange.handle(Input::Timeout, &mut out),
            Some(3) => exchange.handle(Input::GiveUp, &mut out),
            Some(1) => {
                let datagram = input.datagram();
                datagrams += datagram.len();
                exchange.handle(Input::Datagram(datagram), &mut out)
            }
            Some(_) => {
                let Some(server) = &mut server else {
                    return;
                };
                let mut replies = server.request(&sent).into_iter();
                let mut reply = replies.next().unwrap_or_default();
                input.mutate(&mut reply);
                datagrams += reply.len();
                let mut step = exchange.handle(Input::Datagram(&reply), &mut out);
                for reply in replies {
                    if !matches!(step, Step::Wait | Step::Progress) {
                        break;
                    }
                    datagrams += reply.len();
                    step = exchange.handle(Input::Datagram(&reply), &mut out);
                }
                step
            }
        };
    }
}

/// Passes two datagrams to a detector of joins. The first byte selects the family, the second is the
/// length of the first datagram. No challenge is more than three times its request, and only the
/// second datagram can be a join: with the token of a challenge, which is inserted at each place of
/// it.
pub fn joins(bytes: &[u8]) {
    let [family, length, rest @ ..] = bytes else {
        return;
    };
    let Some(family) = FAMILIES.get(usize::from(*family) % FAMILIES.len()) else {
        return;
    };
    let detector = family.detector(&Keys::new([7; 16]));
    let (first, second) = rest.split_at(rest.len().min(usize::from(*length)));
    let mut out = Vec::new();
    let mut detect = |datagram: &[u8]| {
        out.clear();
        let verdict = detector.detect(client_address(), EPOCH, datagram, &mut out);
        assert_eq!(verdict == JoinVerdict::Challenge, !out.is_empty());
        assert!(out.len() + 28 <= 3 * (datagram.len() + 28));
        (verdict, out.clone())
    };
    let (verdict, challenge) = detect(first);
    assert!(
        !matches!(verdict, JoinVerdict::Join(_)),
        "a join without a challenge"
    );
    detect(second);
    for at in 0..second.len().min(64) {
        let (before, after) = second.split_at(at);
        let start = challenge.len().saturating_sub(at);
        let (_, token) = challenge.split_at(start);
        let datagram = [before, token, after].concat();
        if let (JoinVerdict::Join(attempt), _) = detect(&datagram) {
            assert!(attempt.name.len() <= 64);
            let mut reply = Vec::new();
            let is_sent = detector.dismiss(&datagram, "full", false, &mut reply);
            assert_eq!(is_sent, !reply.is_empty());
        }
    }
}

/// Sends a compressed reply of A2S to an exchange that has requested the lists. Its data is the
/// start of valid data, with the length in the first byte, and then the other bytes. The CRC-32
/// does not match, so the exchange must report an error and keep nothing.
pub fn compressed(bytes: &[u8]) {
    const INFO: &[u8] = b"\xFF\xFF\xFF\xFFI\x11\0\0\0\0\0\0\0\0\0dl\0\0\0\0";
    const HEADER: &[u8] = b"\xFE\xFF\xFF\xFF\x01\0\0\x80\x01\0\0\0\x04\0\0\0\0\0";
    let Some((&length, bytes)) = bytes.split_first() else {
        return;
    };
    let valid = a2s::COMPRESSED_SAMPLE;
    let valid = valid.get(..usize::from(length)).unwrap_or(valid);
    let mut exchange = a2s::A2sExchange::new(&Ask::default());
    let mut out = Vec::new();
    exchange.handle(Input::Start, &mut out);
    assert_eq!(exchange.handle(Input::Datagram(INFO), &mut out), Step::Send);
    out.clear();
    let datagram = [HEADER, valid, bytes].concat();
    let step = exchange.handle(Input::Datagram(&datagram), &mut out);
    assert!(out.is_empty());
    // Without its magic, the data is a part of unknown layout.
    if length < 3 || step == Step::Progress {
        return;
    }
    assert_eq!(step, Step::Wait);
    let end = exchange.handle(Input::GiveUp, &mut out);
    assert!(
        matches!(&end, Step::Done(status) if status.rules.is_empty() && status.extra("list-error").is_some()),
        "{end:?}"
    );
}

/// Parses the bytes as formatted text. The output for terminals contains no control character of
/// the input, and the original bytes can be restored.
pub fn text(bytes: &[u8]) {
    let (decoded, latin1) = by_content(bytes);
    let text = Text::legacy(decoded).from_single_byte(latin1);
    assert_eq!(&*text.bytes(), bytes);
    let harmless = |c: char| {
        c == '\n'
            || !(c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'))
    };
    assert!(text.plain().chars().all(harmless));
    // The only escape sequences are those of `Text`: ESC [ digits and semicolons m.
    let ansi = text.ansi();
    let mut pieces = ansi.split('\x1b');
    assert!(
        pieces
            .next()
            .is_none_or(|first| first.chars().all(harmless))
    );
    for piece in pieces {
        let rest = piece
            .strip_prefix('[')
            .and_then(|piece| piece.split_once('m'));
        let ours = |(codes, rest): (&str, &str)| {
            codes
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b';')
                && rest.chars().all(harmless)
        };
        assert!(rest.is_some_and(ours), "{piece:?}");
    }
    let shown: String = text.runs().map(|(_, piece)| piece).collect();
    assert!(shown.len() <= text.raw().len());
}

/// Largest size of a status per received byte. One byte of ISO-8859-1 becomes two of UTF-8, a rule
/// of two empty texts has one byte on the wire and 48 in memory, and a player with a name of one
/// letter has two bytes on the wire and [`size_of::<Player>()`] in memory.
pub const STATUS_BYTES: usize = 128;
/// Largest size of a status in bytes if nothing was received.
pub const STATUS_CONSTANT: usize = 4096;

/// Largest number of datagrams of a reply that are checked.
const MAX_CONTINUATIONS: usize = 64;

const EPOCH: Epoch = Epoch(59_833_333);

fn client_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 7), 50_000))
}

/// Returns the protocol that the first byte selects, and the rest.
fn pick(bytes: &[u8]) -> Option<(&'static dyn Protocol, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let protocol = PROTOCOLS.get(usize::from(first) % PROTOCOLS.len())?;
    Some((*protocol, rest))
}

fn build(protocol: &dyn Protocol, status: &Status) -> Option<Arc<dyn Responder>> {
    let responder = protocol.responder(status, &Keys::new([7; 16]), &Options::default());
    assert_eq!(
        responder.is_ok(),
        protocol.info().has_responder,
        "no options are good options"
    );
    responder.ok()
}

/// Asserts that Hailer's parser reads Hailer's reply without an error or deviation.
fn readable(protocol: &dyn Protocol, reply: &[u8]) {
    let mut notes = Notes::default();
    let explanation = protocol.explain(reply, DatagramContext::Reply, &mut notes);
    assert!(
        explanation.is_some_and(|explanation| explanation.error.is_none()),
        "{explanation:?} of {reply:02x?}"
    );
    assert_eq!(notes.met().next(), None, "{reply:02x?}");
}

/// Returns a status that has the bytes in every text.
fn status(bytes: &[u8]) -> Status {
    let mut pieces = bytes
        .split(|&byte| byte == 0)
        .map(|piece| CompactString::from(by_content(piece).0));
    let mut next = || pieces.next().unwrap_or_default();
    let mut status = Status {
        name: Some(Text::legacy(by_content(bytes).0)),
        motd: Some(Text::legacy(next())),
        game: Some(next()),
        mode: Some(next()),
        map: Some(next()),
        version: Some(next()),
        rules: alloc::vec![Rule {
            key: next(),
            value: next()
        }],
        address: Some(Address {
            host: Some(next()),
            port: Some(bytes.len() as u16),
        }),
        extra: alloc::vec![Extra::new("software", Value::from(next()))],
        ..Status::default()
    };
    status.players.max = i64::try_from(bytes.len()).ok();
    status.players.set_list(
        pieces
            .map(|name| Player::named(Text::legacy(name)))
            .collect(),
    );
    status
}

/// Returns the size of the texts and lists of a status, in bytes.
fn size(status: &Status) -> usize {
    fn value(of: &Value) -> usize {
        size_of::<Value>()
            + match of {
                Value::Str(text) => text.len(),
                Value::List(values) => values.iter().map(value).sum(),
                Value::Table(entries) => entries
                    .iter()
                    .map(|(key, of)| size_of::<String>() + key.len() + value(of))
                    .sum(),
                Value::Rows(rows) => rows
                    .iter()
                    .flatten()
                    .map(|(_, of)| size_of::<CompactString>() + of.len())
                    .sum(),
                _ => 0,
            }
    }
    let extras = |extras: &[Extra]| {
        extras
            .iter()
            .map(|extra| size_of::<&str>() + value(&extra.value))
            .sum::<usize>()
    };
    let text = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.raw().len());
    let string = |text: &Option<CompactString>| text.as_ref().map_or(0, |text| text.len());
    let player =
        |player: &Player| size_of::<Player>() + player.name.raw().len() + extras(&player.extra);
    let rule = |rule: &Rule| size_of::<Rule>() + rule.key.len() + rule.value.len();
    let team = |player: &Player| string(&player.team);
    text(&status.name)
        + status.players.list.iter().map(team).sum::<usize>()
        + status.icon.as_ref().map_or(0, |icon| icon.data_uri().len())
        + text(&status.motd)
        + [&status.game, &status.mode, &status.map, &status.version]
            .into_iter()
            .map(string)
            .sum::<usize>()
        + status
            .address
            .as_ref()
            .map_or(0, |address| string(&address.host))
        + status.players.list.iter().map(player).sum::<usize>()
        + status.rules.iter().map(rule).sum::<usize>()
        + extras(&status.extra)
        + status.deviations.len() * size_of::<&str>()
}

/// The remaining commands for an exchange.
struct Orders<'a>(&'a [u8]);

impl<'a> Orders<'a> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> usize {
        usize::from(self.next().unwrap_or_default()) << 8
            | usize::from(self.next().unwrap_or_default())
    }

    fn datagram(&mut self) -> &'a [u8] {
        let length = self.number().min(self.0.len());
        let (datagram, rest) = self.0.split_at(length);
        self.0 = rest;
        datagram
    }

    fn mutate(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.next().unwrap_or_default() {
            let at = self.number();
            let add = self.next().unwrap_or_default();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = byte.wrapping_add(add);
            }
        }
    }
}
