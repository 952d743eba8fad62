//! Known failures of other clients, one test each. The first group runs in simulated time, the
//! second on loopback sockets with short timeouts.

use hailer::client::ClientConfig;
use hailer::proto::wire::Notes;
use hailer::proto::{
    Ask, Cookie, DatagramContext, Depth, Epoch, Keys, Options, Protocol, Responder, registry,
};
use hailer::support::drive::{Action, ExchangeDriver, ExchangeError, ExchangeOutput, QueryLimits};
use hailer::{Client, Error, Target};
use hailer_testkit::statuses::{self, Random};
use proptest::prelude::*;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn client_address() -> SocketAddr {
    ([192, 0, 2, 7], 50_000).into()
}

fn responder(protocol: &dyn Protocol, players: usize) -> Arc<dyn Responder> {
    let responder = protocol.responder(
        &statuses::plain(players),
        &Keys::new([7; 16]),
        &Options::default(),
    );
    responder.expect("no options are good options")
}

fn reply_to(responder: &dyn Responder, request: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    responder.answer(client_address(), Epoch(59_833_333), request, &mut reply);
    reply
}

/// Result of a query, when it ended, and its cost.
struct End {
    result: Result<ExchangeOutput, ExchangeError>,
    at: Duration,
    sent: u32,
    received: u32,
}

/// Runs a query in simulated time against a scripted server. The script gets each request and the
/// time, and returns datagrams with the delay of each after the request.
fn query(
    protocol: &dyn Protocol,
    limits: QueryLimits,
    server: impl FnMut(&[u8], Duration) -> Vec<(Duration, Vec<u8>)>,
) -> End {
    query_for(protocol, &Ask::default(), limits, server)
}

/// Like `query`, with the given `Ask`.
fn query_for(
    protocol: &dyn Protocol,
    ask: &Ask,
    limits: QueryLimits,
    mut server: impl FnMut(&[u8], Duration) -> Vec<(Duration, Vec<u8>)>,
) -> End {
    let mut drive = ExchangeDriver::new(protocol.exchange(ask, Cookie(1)), limits);
    let mut out = Vec::new();
    let mut now = Duration::ZERO;
    let mut sent = 0;
    let mut received = 0;
    let mut flights: Vec<(Duration, Vec<u8>)> = Vec::new();
    let mut action = drive.start(now, &mut out);
    loop {
        match action {
            Action::Send | Action::SendMore | Action::Reconnect => {
                sent += 1;
                flights.extend(
                    server(&out, now)
                        .into_iter()
                        .map(|(delay, bytes)| (now + delay, bytes)),
                );
                flights.sort_by_key(|(at, _)| *at);
            }
            Action::Wait | Action::Progress => {}
            Action::End(result) => {
                return End {
                    result,
                    at: now,
                    sent,
                    received,
                };
            }
        }
        out.clear();
        if matches!(action, Action::SendMore) {
            action = drive.resume(now, &mut out);
            continue;
        }
        action = match flights.first() {
            Some((at, _)) if *at <= drive.due() => {
                let (at, bytes) = flights.remove(0);
                now = at;
                received += 1;
                drive.datagram(now, &bytes, &mut out)
            }
            _ => {
                now = drive.due();
                drive.tick(now, &mut out)
            }
        };
        assert!(
            sent < 100_000 && received < 100_000,
            "{} does not end",
            protocol.info().id
        );
    }
}

/// Asserts the limits of every query: its deadline, and the number of datagrams, which a server
/// must not be able to raise.
fn bounded(protocol: &dyn Protocol, end: &End, limits: QueryLimits, most_sent: u32) {
    let id = protocol.info().id;
    assert!(end.at <= limits.deadline, "{id}: ended at {:?}", end.at);
    assert!(end.sent <= most_sent, "{id}: {} datagrams sent", end.sent);
    assert!(
        end.received <= limits.max_datagrams + 1,
        "{id}: {} datagrams received",
        end.received
    );
}

/// Name of a message, and the part of it that distinguishes requests with the same message.
type RequestKind = (&'static str, Option<Vec<u8>>);

/// Returns the kind of a request, determined from its bytes and independent of the exchange.
fn kind(protocol: &dyn Protocol, request: &[u8]) -> RequestKind {
    let mut notes = Notes::default();
    let explained = protocol
        .explain(request, DatagramContext::Request, &mut notes)
        .expect("our own requests are of the protocol");
    let part = match protocol.info().id {
        // The token is different in each request.
        "minecraft-query" => None,
        "onequery" => request.get(47..51),
        _ => Some(request),
    };
    (explained.message, part.map(<[u8]>::to_vec))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// With lost, late, repeated or unreadable replies, no request is sent more than `retries + 1`
    /// times in the whole query. A server that replied only to handshakes once received 630
    /// datagrams.
    #[test]
    fn each_request_is_sent_at_most_retries_plus_one_times(
        seed: u64, retries in 0_u32..5, players in 0_usize..120, answered_kinds in 0_usize..5, loss in 0_u64..60,
        unreadable in 0_u64..40, delay in 0_u64..60, is_basic: bool,
    ) {
        for protocol in registry::datagram_responders() {
            let responder = responder(protocol, players);
            let mut ask = Ask::default();
            if is_basic {
                ask.depth = Depth::Basic;
            }
            let mut limits = QueryLimits::default();
            limits.retries = retries;
            limits.timeout = ms(20);
            let mut random = Random(seed | 1);
            let mut sends: Vec<(RequestKind, u32)> = Vec::new();
            let end = query_for(protocol, &ask, limits, |request, _| {
                let mut kind = kind(protocol, request);
                // The request that ends the list is a second one (spec/unreal2.md#5).
                let has_info = sends.iter().any(|((message, _), _)| *message != kind.0);
                if protocol.info().id == "unreal2" && kind.0 == "info request" && has_info {
                    kind.0 = "info request after the list";
                }
                let place = match sends.iter().position(|(known, _)| *known == kind) {
                    Some(place) => place,
                    None => {
                        sends.push((kind, 0));
                        sends.len() - 1
                    }
                };
                sends[place].1 += 1;
                if place >= answered_kinds || random.bits() % 100 < loss {
                    return Vec::new();
                }
                let mut reply = reply_to(&*responder, request);
                if random.bits() % 100 < unreadable {
                    reply.truncate(random.bits() as usize % (reply.len() + 1));
                }
                let copies = 1 + usize::from(random.bits().is_multiple_of(8));
                vec![(ms(random.bits() % (delay + 1)), reply); copies]
            });
            let id = protocol.info().id;
            for (kind, count) in &sends {
                prop_assert!(*count <= retries + 1, "{id}: {kind:?} {count} times with {retries} retries");
            }
            prop_assert_eq!(end.sent, sends.iter().map(|(_, count)| count).sum::<u32>());
        }
    }
}

/// gamedig (Rust): an endless A2S challenge, 202,411 requests in 22 s. Here the server immediately
/// answers each request with a new challenge.
#[test]
fn endless_challenge() {
    for protocol in registry::datagram_responders() {
        let limits = QueryLimits::default();
        let mut first = Vec::new();
        let responder = responder(protocol, 3);
        let mut keys = Random(1);
        let end = query(protocol, limits, |request, _| {
            if first.is_empty() {
                first = request.to_vec();
            }
            let fresh = protocol.responder(
                &statuses::plain(3),
                &Keys::new([keys.bits() as u8; 16]),
                &Options::default(),
            );
            let fresh = fresh.expect("no options are good options");
            let challenge = reply_to(&*fresh, &first);
            // Contains the session of this request, if it is at the same offset as in the first
            // one.
            vec![(
                ms(1),
                if challenge.is_empty() {
                    reply_to(&*responder, &first)
                } else {
                    challenge
                },
            )]
        });
        bounded(protocol, &end, limits, 16);
    }
}

/// qstat: a server can keep it in an endless loop of 16,000 requests/s. Here each request is
/// answered immediately with the second most recent reply.
#[test]
fn endless_loop_on_a_stale_answer() {
    for protocol in registry::datagram_responders() {
        let responder = responder(protocol, 300);
        let limits = QueryLimits::default();
        let mut last = b"nothing yet".to_vec();
        let end = query(protocol, limits, |request, _| {
            let stale = std::mem::replace(&mut last, reply_to(&*responder, request));
            vec![(ms(1), stale)]
        });
        bounded(protocol, &end, limits, 64);
    }
}

/// gamedig (Rust): a reply sent in parts every 500 ms, with a timeout of 1 s, keeps the query
/// running for more than 20 s.
#[test]
fn dripped_datagrams() {
    for protocol in registry::datagram_responders() {
        let limits = QueryLimits::default();
        let responder = responder(protocol, 3);
        for piece in [
            &b""[..],
            b"\0",
            b"\x09\x0F\x0F\x0F\x0F",
            b"ONEREPLY",
            b"\xFF\xFFUGP",
        ] {
            let end = query(protocol, limits, |_, _| {
                (1..200).map(|i| (ms(500 * i), piece.to_vec())).collect()
            });
            bounded(protocol, &end, limits, 16);
            assert!(
                end.result.is_err(),
                "{}: {:?} from {piece:02x?}",
                protocol.info().id,
                end.result
            );
            assert!(
                end.at <= ms(4_000),
                "{}: unrelated datagrams prolonged the wait to {:?}",
                protocol.info().id,
                end.at
            );
        }
        // Prefixes of the real reply, one byte longer each time.
        let end = query(protocol, limits, |request, _| {
            let reply = reply_to(&*responder, request);
            (1..reply.len().min(40))
                .map(|i| (ms(500 * i as u64), reply[..i].to_vec()))
                .collect()
        });
        bounded(protocol, &end, limits, 64);
    }
}

/// In all but two other clients, a reply that announces 2 GiB or never ends costs hundreds of
/// megabytes. Here each request is answered with 100 datagrams of the largest size that UDP allows.
#[test]
fn oversized_replies() {
    for protocol in registry::datagram_responders() {
        let responder = responder(protocol, 3);
        for filling in [0u8, b'a', 0xFF] {
            let limits = QueryLimits::default();
            let end = query(protocol, limits, |request, _| {
                let mut reply = reply_to(&*responder, request);
                reply.resize(65_507, filling);
                vec![(ms(1), reply); 100]
            });
            bounded(protocol, &end, limits, 64);
        }
    }
    // Unrelated datagrams of this size end the query by its byte budget.
    let limits = QueryLimits::default();
    let end = query(registry::PROTOCOLS[0], limits, |_, _| {
        vec![(ms(1), vec![0xAA; 65_507]); 1_000]
    });
    assert!(
        matches!(end.result, Err(ExchangeError::Flood { bytes, .. }) if bytes <= limits.max_bytes + 65_507)
    );
}

/// Endless distinct pages with one player each that all announce another page. The deadline or the
/// page limit of the exchange ends the query.
#[test]
fn endless_distinct_pages() {
    let Some(protocol) = registry::find("onequery") else {
        return;
    };
    let responder = responder(protocol, 3);
    for delay in [ms(0), ms(1), ms(40)] {
        let limits = QueryLimits::default();
        let end = query(protocol, limits, |request, _| {
            let reply = match (request.get(8), request.get(41..45), request.get(47..51)) {
                (Some(2), Some(id), Some(offset)) => page(id, offset),
                _ => reply_to(&*responder, request),
            };
            vec![(delay, reply)]
        });
        bounded(protocol, &end, limits, 4_096 + 8);
        if let Ok(report) = end.result {
            assert!(report.status.players.list.len() <= 4_096);
        }
    }
}

/// Builds a page of one player at this offset, of 4,000,000,000 players (spec/onequery.md#3.4).
fn page(id: &[u8], offset: &[u8]) -> Vec<u8> {
    let uuid = [offset, &[7; 12]].concat();
    [
        b"ONEREPLY\x01\x01\x00",
        id,
        &[35, 0, 2, 0, 31, 0],
        &[0xFF; 4],
        &[1, 0, 0, 0],
        offset,
        &[1, 0],
        b"a",
        &uuid,
    ]
    .concat()
}

/// Flips each bit in the first bytes of every reply after the first, one at a time: flags and
/// counts that announce more data.
#[test]
fn every_bit_of_the_header_turned() {
    for protocol in registry::datagram_responders() {
        let responder = responder(protocol, 300);
        for bit in 0..64 * 8 {
            let limits = QueryLimits::default();
            let mut transcript = 0;
            let end = query(protocol, limits, |request, _| {
                transcript += 1;
                let mut reply = reply_to(&*responder, request);
                if let (true, Some(byte)) = (transcript > 1, reply.get_mut(bit / 8)) {
                    *byte ^= 1 << (bit % 8);
                }
                vec![(ms(1), reply)]
            });
            bounded(protocol, &end, limits, 4_096);
        }
    }
}

/// gamedig (Rust): a split packet that claims 4 GiB takes 1.4 s and reserves 4 GiB. Here each
/// number in a reply is set to its maximum, at each offset. `allocation.rs` of hailer-proto
/// measures how much memory parsing may use.
#[test]
fn huge_counts() {
    let started = Instant::now();
    for protocol in registry::datagram_responders() {
        let responder = responder(protocol, 12);
        for width in [1, 2, 4, 8] {
            for value in [0xFF, 0x7F, 0x80, b'9'] {
                for place in 0..120 {
                    let limits = QueryLimits::default();
                    let end = query(protocol, limits, |request, _| {
                        let mut reply = reply_to(&*responder, request);
                        let end = reply.len().min(place + width);
                        reply
                            .get_mut(place..end)
                            .into_iter()
                            .flatten()
                            .for_each(|byte| *byte = value);
                        vec![(ms(1), reply)]
                    });
                    bounded(protocol, &end, limits, 4_096);
                    if let Ok(report) = &end.result {
                        assert!(
                            report.status.players.list.len() <= 65_507,
                            "invented players"
                        );
                    }
                }
            }
        }
    }
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "a large count costs time: {:?}",
        started.elapsed()
    );
}

/// gamedig (Rust): 37 panics for 3,000 targets with mutated replies; other clients return errors of
/// their libraries. Here no query panics, each ends in time, and most mutations are detected.
#[test]
fn mutated_replies() {
    for protocol in registry::datagram_responders() {
        let responder = responder(protocol, 12);
        let expected = query(protocol, QueryLimits::default(), |request, _| {
            vec![(ms(1), reply_to(&*responder, request))]
        });
        let expected = expected.result.expect("an answer in clear weather").status;
        let mut same = 0;
        let mut silent = 0;
        for seed in 0..3_000 {
            let mut random = Random(seed);
            let limits = QueryLimits::default();
            let end = query(protocol, limits, |request, _| {
                let mut reply = reply_to(&*responder, request);
                mutate(&mut reply, &mut random);
                vec![(ms(1), reply)]
            });
            bounded(protocol, &end, limits, 4_096);
            match &end.result {
                Ok(report) if report.status == expected => same += 1,
                Ok(report) if report.status.deviations.is_empty() => silent += 1,
                _ => {}
            }
        }
        // Texts have no checksum, so a changed letter cannot be detected. Most mutations must be,
        // where the reply has lengths or counts besides its texts.
        let is_all_text = ALL_TEXT.contains(&protocol.info().id);
        assert!(
            silent < if is_all_text { 2_900 } else { 1_500 },
            "{}: {silent} of 3,000 wrong and not detected, {same} right",
            protocol.info().id
        );
    }
}

/// Protocols whose replies are words and separators only.
const ALL_TEXT: &[&str] = &[
    "gamespy1",
    "gamespy2",
    "gamespy3",
    "minecraft-bedrock",
    "quake1",
    "quake2",
    "quake3",
];

/// Applies one or two of eight kinds of damage to a reply.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(2) {
        let length = bytes.len() as u64;
        let a = random.below(length) as usize;
        let b = random.below(length) as usize;
        let piece = a.min(b)..a.max(b);
        match random.below(8) {
            0 if length > 0 => bytes[a] ^= 1 << random.below(8),
            1 if length > 0 => bytes[a] = [0, 0x7F, 0x80, 0xFF][random.below(4) as usize],
            2 => drop(bytes.drain(piece)),
            3 => bytes.extend_from_within(piece),
            4 if length > 0 => (0..4).for_each(|_| bytes[random.below(length) as usize] = 0),
            5 => bytes.truncate(a),
            6 => bytes.extend((0..random.below(40)).map(|_| random.bits() as u8)),
            _ => bytes
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_add(u8::from(random.chance(5)))),
        }
    }
}

// ---- on loopback -------------------------------------------------------------------------------

fn short() -> QueryLimits {
    let mut limits = QueryLimits::default();
    limits.timeout = ms(120);
    limits.retries = 2;
    limits.deadline = ms(1_000);
    limits
}

fn ask(protocol: &'static dyn Protocol, server: SocketAddr) -> Result<hailer::Answer, Error> {
    let mut config = ClientConfig::default();
    config.limits = short();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut target: Target = format!("{}://{server}", protocol.info().id)
        .parse()
        .expect("a target");
    // The game of this name may have more protocols.
    target.game = None;
    runtime.block_on(Client::new(config).query(&target))
}

/// Starts a server on loopback in a thread. The script returns, for each request, datagrams and the
/// sockets that send them. The server stops after 1 s without a request.
fn serve(
    socket: UdpSocket,
    mut answer: impl FnMut(&[u8], SocketAddr) -> Vec<(Option<UdpSocket>, Vec<u8>)> + Send + 'static,
) -> (SocketAddr, Arc<AtomicU32>, JoinHandle<()>) {
    let address = socket.local_addr().expect("a bound socket");
    socket
        .set_read_timeout(Some(ms(1_000)))
        .expect("a time-out");
    let requests = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&requests);
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            counter.fetch_add(1, Ordering::Relaxed);
            for (other, bytes) in answer(&buffer[..length], from) {
                let _ = other.as_ref().unwrap_or(&socket).send_to(&bytes, from);
            }
        }
    });
    (address, requests, thread)
}

/// gamedig (Rust) accepts replies from any address. First the real replies come from 127.0.0.2 and
/// from another port, and must be ignored. Then false replies come from there, and must not replace
/// the real ones.
#[test]
fn replies_from_another_address() {
    for protocol in registry::datagram_responders() {
        for own_too in [false, true] {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            let port = socket.local_addr().expect("a bound socket").port();
            // Some systems lack 127.0.0.2; there, only the other port is tested.
            let others: Vec<UdpSocket> = [
                SocketAddr::from(([127, 0, 0, 2], port)),
                SocketAddr::from(([127, 0, 0, 1], 0)),
            ]
            .into_iter()
            .filter_map(|address| UdpSocket::bind(address).ok())
            .collect();
            let own = responder(protocol, 3);
            let forged = responder(protocol, 7);
            let (server, requests, thread) = serve(socket, move |request, from| {
                let reply = |responder: &dyn Responder| {
                    let mut reply = Vec::new();
                    responder.answer(from, Epoch(59_833_333), request, &mut reply);
                    reply
                };
                let clone = |other: &UdpSocket| other.try_clone().ok();
                let mut replies: Vec<_> = others
                    .iter()
                    .map(|other| (clone(other), reply(&*forged)))
                    .collect();
                if own_too {
                    replies.push((None, reply(&*own)));
                }
                replies
            });
            let started = Instant::now();
            let accepts_other_ports = protocol.info().has_replies_from_other_ports;
            match ask(protocol, server) {
                Ok(answer) => {
                    let has_counts = protocol.sample(0).players.online.is_some();
                    let sent = if own_too { 3 } else { 7 };
                    let count = if has_counts { sent } else { 0 };
                    assert_eq!(answer.status.players.count(), count, "{:?}", answer.status);
                    assert!(own_too || accepts_other_ports && !answer.notes.is_empty());
                }
                Err(Error::Silence { .. }) => assert!(!own_too),
                Err(other) => panic!("{other}"),
            }
            assert!(started.elapsed() < ms(1_500));
            assert!(requests.load(Ordering::Relaxed) <= 12);
            thread.join().expect("the server ends");
        }
    }
}

/// Endless and slow replies against the real client and its sockets: it keeps its deadline in real
/// time.
#[test]
fn the_deadline_holds_by_the_wall_clock() {
    let threads: Vec<_> = registry::datagram_responders()
        .map(|protocol| {
            std::thread::spawn(move || {
                let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
                let mut random = Random(9);
                let (server, requests, thread) = serve(socket, move |_, _| {
                    (0..20)
                        .map(|_| {
                            (
                                None,
                                (0..random.below(200))
                                    .map(|_| random.bits() as u8)
                                    .collect(),
                            )
                        })
                        .collect()
                });
                let started = Instant::now();
                let end = ask(protocol, server);
                assert!(
                    end.is_err(),
                    "{}: {:?}",
                    protocol.info().id,
                    end.map(|answer| answer.status)
                );
                assert!(
                    started.elapsed() < ms(1_500),
                    "{}: {:?}",
                    protocol.info().id,
                    started.elapsed()
                );
                assert!(
                    requests.load(Ordering::Relaxed) <= 16,
                    "{}: {requests:?} requests",
                    protocol.info().id
                );
                thread.join().expect("the server ends");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
}
