//! Clients under test: our own, which pass, and the same with one mistake each.

use hailer::check::client::{Observer, SeenConnection};
use hailer::proto::{Ask, Cookie, Destination, Epoch, Input, Protocol, Transport, registry};
use hailer::support::drive::{Action, ExchangeDriver, QueryLimits};
use std::net::SocketAddr;
use std::time::Duration;

/// Time that a datagram needs for one direction.
const ONE_WAY: Duration = Duration::from_millis(5);
/// Time between two queries of a user.
const PAUSE: Duration = Duration::from_secs(20);

/// A client with at most one mistake.
#[derive(Clone, Copy)]
struct TestedClient {
    protocol: &'static str,
    name: &'static str,
    /// Numbers of the requirements that it misses.
    misses: &'static [u32],
    retries: u32,
    /// Whether all queries have the same random numbers.
    has_one_cookie: bool,
    /// Returns the datagrams that are sent in place of one.
    send: fn(&[u8]) -> Vec<Vec<u8>>,
    /// Changes a reply, after the datagram that was sent last.
    receive: fn(&[u8], &mut Vec<u8>),
    /// Returns the port of a datagram, from the port of the query.
    port: fn(u16, &[u8]) -> u16,
}

impl TestedClient {
    const fn of(protocol: &'static str, name: &'static str, misses: &'static [u32]) -> Self {
        Self {
            protocol,
            name,
            misses,
            retries: 3,
            has_one_cookie: false,
            send: |bytes| vec![bytes.to_vec()],
            receive: |_, _| {},
            port: |port, _| port,
        }
    }
}

/// Replaces the bytes from an offset on, if the datagram has them.
fn replaced(bytes: &[u8], at: usize, new: &[u8]) -> Vec<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    if let Some(old) = bytes.get_mut(at..at + new.len()) {
        old.copy_from_slice(new);
    }
    vec![bytes]
}

fn is_stat(bytes: &[u8]) -> bool {
    bytes.get(2) == Some(&0)
}

static CLIENTS: &[TestedClient] = &[
    TestedClient::of("minecraft-query", "Hailer", &[]),
    TestedClient {
        send: |bytes| vec![bytes[..bytes.len().min(5)].to_vec()],
        ..TestedClient::of("minecraft-query", "cut requests", &[1])
    },
    TestedClient {
        retries: 0,
        ..TestedClient::of("minecraft-query", "no retries", &[2])
    },
    TestedClient {
        send: |bytes| vec![bytes.to_vec(); 2],
        ..TestedClient::of("minecraft-query", "every datagram twice", &[3])
    },
    TestedClient {
        send: |bytes| replaced(bytes, 3, &[bytes[3] | 0x80]),
        receive: |_, reply| reply[1] &= 0x7F,
        ..TestedClient::of("minecraft-query", "ids of any bytes", &[4])
    },
    TestedClient {
        send: |bytes| replaced(bytes, 3, &[bytes[3] ^ u8::from(is_stat(bytes))]),
        receive: |_, reply| reply[1] ^= u8::from(reply[0] == 0),
        ..TestedClient::of("minecraft-query", "a new id for each datagram", &[5])
    },
    TestedClient {
        port: |port, bytes| port + u16::from(is_stat(bytes)),
        ..TestedClient::of("minecraft-query", "a socket for each datagram", &[6])
    },
    TestedClient {
        receive: |sent, reply| reply[1..5].copy_from_slice(&sent[3..7]),
        ..TestedClient::of("minecraft-query", "replies with any id", &[7])
    },
    // qstat takes the forged reply for that of a server without tokens if its token has one digit.
    TestedClient {
        receive: |sent, reply| {
            if reply[1..5] != sent[3..7] && reply.len() > 8 {
                reply[1..5].copy_from_slice(&sent[3..7]);
            }
        },
        ..TestedClient::of(
            "minecraft-query",
            "as qstat: tokens of several digits",
            &[7],
        )
    },
    TestedClient {
        send: |bytes| {
            let id = [bytes[3] ^ u8::from(is_stat(bytes))];
            replaced(&replaced(bytes, 3, &id)[0], 11, &[1])
        },
        receive: |sent, reply| match reply[0] {
            0 => reply[1] ^= 1,
            _ => reply[1..5].copy_from_slice(&sent[3..7]),
        },
        ..TestedClient::of("minecraft-query", "three mistakes together", &[5, 7, 9])
    },
    TestedClient {
        send: |bytes| {
            let is_negative = is_stat(bytes) && bytes[7] & 0x80 != 0;
            let token = if is_negative {
                &[0x7F, 0xFF, 0xFF, 0xFF][..]
            } else {
                b""
            };
            replaced(bytes, 7, token)
        },
        ..TestedClient::of("minecraft-query", "no negative tokens", &[8])
    },
    TestedClient {
        send: |bytes| replaced(bytes, 11, &[0xFF, 0xFF, 0xFF, 1]),
        ..TestedClient::of("minecraft-query", "the padding of GameSpy", &[9])
    },
    TestedClient {
        send: |bytes| {
            let mut bytes = replaced(bytes, 11, &[0xFF, 0xFF, 0xFF, 1]).remove(0);
            if is_stat(&bytes) && bytes.get(7..11) == Some(&[0; 4]) {
                bytes.drain(7..11);
            }
            vec![bytes]
        },
        ..TestedClient::of(
            "minecraft-query",
            "node-gamedig: a token of 0 is left out",
            &[8, 9],
        )
    },
    TestedClient::of("onequery", "Hailer", &[]),
    TestedClient {
        send: |bytes| vec![bytes[..bytes.len().min(45)].to_vec()],
        ..TestedClient::of("onequery", "queries of 45 bytes", &[4])
    },
    TestedClient {
        send: |bytes| match bytes.len() {
            51 => vec![[bytes, &[0, 0]].concat()],
            _ => vec![bytes.to_vec()],
        },
        ..TestedClient::of("onequery", "auth tokens of length 0", &[])
    },
    TestedClient {
        receive: |sent, reply| {
            if reply.starts_with(b"ONEREPLY\x01") && sent.len() > 45 {
                reply[11..15].copy_from_slice(&sent[41..45]);
            }
        },
        ..TestedClient::of("onequery", "replies with any id", &[5])
    },
    TestedClient {
        send: |bytes| {
            let mut bytes = bytes.to_vec();
            if bytes.get(8) == Some(&2) && bytes[47] != 0 {
                bytes[47] += 1;
            }
            vec![bytes]
        },
        ..TestedClient::of("onequery", "an offset after the next player", &[6])
    },
    TestedClient {
        send: |bytes| replaced(bytes, 9, &[0; 32]),
        ..TestedClient::of("onequery", "a token of zeros", &[7])
    },
    TestedClient::of("ugp", "Hailer", &[]),
    TestedClient {
        send: |bytes| match bytes.get(8) {
            Some(flags) => {
                let flags = flags | 6;
                vec![[&bytes[..8], &[flags], &bytes[9..], &[7, 7]].concat()]
            }
            None => vec![bytes.to_vec()],
        },
        ..TestedClient::of("ugp", "players and teams together", &[4])
    },
    TestedClient {
        send: |bytes| replaced(bytes, 6, &[2]),
        ..TestedClient::of("ugp", "version 2", &[1])
    },
    TestedClient::of("minecraft-bedrock", "Hailer", &[]),
    TestedClient {
        send: |bytes| vec![bytes[..25].to_vec()],
        ..TestedClient::of("minecraft-bedrock", "pings of 25 bytes", &[4])
    },
    TestedClient {
        has_one_cookie: true,
        ..TestedClient::of("minecraft-bedrock", "one time for all queries", &[5])
    },
    TestedClient {
        send: |bytes| replaced(bytes, 9, &[1]),
        ..TestedClient::of("minecraft-bedrock", "another magic", &[1])
    },
    TestedClient::of("a2s", "Hailer", &[]),
    TestedClient {
        send: |bytes| vec![bytes[..bytes.len().min(25)].to_vec()],
        ..TestedClient::of("a2s", "the info without its challenge", &[4])
    },
    TestedClient {
        send: |bytes| {
            let at = bytes.len() - 4;
            let is_list = bytes.get(4) != Some(&b'T') && bytes[at..] != [0xFF; 4];
            replaced(bytes, at, &[bytes[at] ^ u8::from(is_list)])
        },
        ..TestedClient::of("a2s", "a challenge with one other bit", &[5])
    },
    TestedClient {
        port: |port, bytes| port + u16::from(bytes.len() > 25),
        ..TestedClient::of("a2s", "a socket for each request", &[6])
    },
    TestedClient::of("quake3", "Hailer", &[]),
    TestedClient {
        send: |bytes| {
            let end = bytes.iter().position(|byte| *byte == b' ');
            vec![bytes[..end.unwrap_or(bytes.len())].to_vec()]
        },
        ..TestedClient::of("quake3", "no challenge", &[4])
    },
    TestedClient {
        send: |bytes| vec![[bytes, b"abcd"].concat()],
        ..TestedClient::of("quake3", "a challenge of 12 characters", &[5])
    },
    TestedClient {
        has_one_cookie: true,
        ..TestedClient::of("quake3", "one challenge for all queries", &[6])
    },
];

/// Clients in simulated time.
struct Session {
    client: TestedClient,
    observer: Observer,
    now: Duration,
    /// Replies on their way.
    replies: Vec<(Duration, Vec<u8>)>,
    last: Vec<u8>,
}

impl Session {
    fn send(&mut self, port: u16, bytes: &[u8]) {
        self.last = bytes.to_vec();
        for datagram in (self.client.send)(bytes) {
            let from = SocketAddr::from(([192, 0, 2, 7], (self.client.port)(port, bytes)));
            let epoch = Epoch::at(1_800_000_000 + self.now.as_secs());
            let at = self.now + ONE_WAY;
            let replies = self.observer.datagram(at, epoch, from, &datagram);
            let replies = replies.into_iter().map(|reply| (at + ONE_WAY, reply));
            self.replies.extend(replies);
        }
    }

    /// Runs one query to its end.
    fn query(&mut self, protocol: &dyn Protocol, port: u16, cookie: u64) {
        let mut limits = QueryLimits::default();
        limits.retries = self.client.retries;
        let mut driver =
            ExchangeDriver::new(protocol.exchange(&Ask::default(), Cookie(cookie)), limits);
        let mut out = Vec::new();
        self.replies.clear();
        let mut action = driver.start(self.now, &mut out);
        for _ in 0..1_000 {
            match action {
                Action::SendMore => {
                    self.send(port, &out);
                    out.clear();
                    action = driver.resume(self.now, &mut out);
                    continue;
                }
                Action::Send => self.send(port, &out),
                Action::End(_) => return,
                Action::Reconnect | Action::Wait | Action::Progress => {}
            }
            out.clear();
            let is_next = |(at, _): &(Duration, Vec<u8>)| *at <= driver.due();
            if self.replies.first().is_some_and(is_next) {
                let (at, mut reply) = self.replies.remove(0);
                self.now = at;
                (self.client.receive)(&self.last, &mut reply);
                action = driver.datagram(self.now, &reply, &mut out);
            } else {
                self.now = driver.due();
                action = driver.tick(self.now, &mut out);
            }
        }
        panic!("{}: the query does not end", self.client.name);
    }
}

/// Returns the numbers of the requirements that a client meets and misses, after four queries.
fn judged(client: TestedClient) -> (Vec<u32>, Vec<(u32, String)>) {
    let protocol = registry::find(client.protocol).unwrap();
    let mut session = Session {
        client,
        observer: Observer::new(protocol, [7; 16]).unwrap(),
        now: Duration::ZERO,
        replies: Vec::new(),
        last: Vec::new(),
    };
    for number in 0..4_u16 {
        let cookie = if client.has_one_cookie { 1 } else { number };
        session.query(protocol, 40_000 + 10 * number, cookie.into());
        session.now += PAUSE;
    }
    results(&session.observer, session.now)
}

fn results(observer: &Observer, now: Duration) -> (Vec<u32>, Vec<(u32, String)>) {
    let judgements = observer.judgements(now);
    let met = judgements
        .iter()
        .filter(|(_, judgement)| judgement.result() == "pass");
    let missed = judgements
        .iter()
        .filter(|(_, judgement)| judgement.result() == "fail");
    (
        met.map(|(requirement, _)| requirement.number).collect(),
        missed
            .map(|(requirement, judgement)| (requirement.number, judgement.detail.clone()))
            .collect(),
    )
}

/// Our own clients pass and show every requirement; each mistake misses its requirement only.
#[test]
fn clients_miss_exactly_what_they_do_wrong() {
    let mut unexpected = Vec::new();
    for client in CLIENTS {
        let (met, missed) = judged(*client);
        let numbers: Vec<u32> = missed.iter().map(|(number, _)| *number).collect();
        if numbers != client.misses {
            unexpected.push(format!("{} {}: {missed:?}", client.protocol, client.name));
        }
        if client.misses.is_empty() {
            let protocol = registry::find(client.protocol).unwrap();
            let suite = hailer::check::suite(protocol).unwrap().client.unwrap();
            let all: Vec<u32> = suite.all().map(|requirement| requirement.number).collect();
            assert_eq!(met, all, "{} does not show all", client.protocol);
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}

/// A client without retries is started again by its user: that is no retry.
#[test]
fn another_query_is_no_retry() {
    let protocol = registry::find("quake3").unwrap();
    let request = b"\xFF\xFF\xFF\xFFgetinfo abcdefgh";
    for (port, seconds, is_met) in [
        (1, 3, true),
        (1, 11, true),
        (1, 13, false),
        (2, 3, true),
        (2, 6, false),
    ] {
        let mut observer = Observer::new(protocol, [7; 16]).unwrap();
        let mut send = |port, at| {
            let from = SocketAddr::from(([192, 0, 2, 7], port));
            observer.datagram(Duration::from_secs(at), Epoch::at(1), from, request);
        };
        send(1, 0);
        send(port, seconds);
        let (met, missed) = results(&observer, Duration::from_secs(30));
        assert_eq!(
            met.contains(&2),
            is_met,
            "port {port}, {seconds} s: {missed:?}"
        );
    }
}

/// Clients that open a socket for each try also draw a new id for it, as mcstatus does. A second
/// run at the same instant is no retry, and does not hide the missing one of the first.
#[test]
fn a_retry_from_another_port_may_have_another_id() {
    for (protocol, one, two) in [
        (
            "quake3",
            &b"\xFF\xFF\xFF\xFFgetinfo abcdefgh"[..],
            &b"\xFF\xFF\xFF\xFFgetinfo ijklmnop"[..],
        ),
        (
            "minecraft-query",
            b"\xFE\xFD\x09\x01\x02\x03\x04",
            b"\xFE\xFD\x09\x05\x06\x07\x08",
        ),
    ] {
        let protocol = registry::find(protocol).unwrap();
        for (requests, expected) in [
            (&[(1, 0, one), (2, 1_000, two), (1, 5_000, one)][..], "pass"),
            (&[(1, 0, one), (2, 1_000, two), (1, 13_000, one)], "fail"),
            (&[(1, 0, one), (2, 1_000, one)], "pass"),
            (&[(1, 0, one), (2, 3_000, two)], "pass"),
            (&[(1, 0, one), (2, 50, two)], "fail"),
            (&[(1, 0, one), (2, 6_000, two)], "fail"),
        ] {
            let mut observer = Observer::new(protocol, [7; 16]).unwrap();
            for (port, at, request) in requests {
                let from = SocketAddr::from(([192, 0, 2, 7], *port));
                observer.datagram(Duration::from_millis(*at), Epoch::at(1), from, request);
            }
            let judgements = observer.judgements(Duration::from_secs(30));
            let mut all = judgements.iter();
            let (_, judgement) = all
                .find(|(requirement, _)| requirement.number == 2)
                .unwrap();
            assert_eq!(judgement.result(), expected, "{requests:?}");
        }
    }
}

/// Another request from another port is not the lost one again, as in python-a2s.
#[test]
fn another_request_is_no_retry() {
    let protocol = registry::find("a2s").unwrap();
    let mut observer = Observer::new(protocol, [7; 16]).unwrap();
    for (port, seconds, request) in [
        (1, 0, &b"\xFF\xFF\xFF\xFFTSource Engine Query\0"[..]),
        (2, 3, b"\xFF\xFF\xFF\xFFU\xFF\xFF\xFF\xFF"),
    ] {
        let from = SocketAddr::from(([192, 0, 2, 7], port));
        observer.datagram(Duration::from_secs(seconds), Epoch::at(1), from, request);
    }
    let (_, missed) = results(&observer, Duration::from_secs(30));
    assert_eq!(missed.first().map(|(number, _)| *number), Some(2));
}

/// Requests of a client of Minecraft Status.
#[test]
fn status_clients_are_judged_by_their_connection() {
    let protocol = registry::find("minecraft-status").unwrap();
    assert_eq!(protocol.info().transport, Transport::Stream);
    let ask = Ask {
        to: Destination {
            host: "mc.example.test".into(),
            port: 25_565,
            ..Destination::default()
        },
        ..Ask::default()
    };
    let mut own = Vec::new();
    protocol
        .exchange(&ask, Cookie(1))
        .handle(Input::Start, &mut own);
    let changed = |at: usize, new: &[u8]| {
        let mut bytes = own.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    let port = own.windows(2).position(|two| two == [0x63, 0xDD]).unwrap();
    let ping = [9, 1, 0, 0, 0, 0, 0, 0, 0, 5];
    let legacy = |rest: u16| {
        let utf16 = |text: &str| {
            text.encode_utf16()
                .flat_map(u16::to_be_bytes)
                .collect::<Vec<_>>()
        };
        [
            &[0xFE, 1, 0xFA, 0, 11][..],
            &utf16("MC|PingHost"),
            &rest.to_be_bytes(),
            &[78, 0, 4],
            &utf16("host"),
            &25_565_u32.to_be_bytes(),
        ]
        .concat()
    };
    let cases: Vec<(&str, Vec<u8>, bool, &[u32])> = vec![
        ("Hailer", own.clone(), false, &[]),
        ("with a ping", [&own[..], &ping].concat(), false, &[]),
        ("a login", changed(port + 2, &[2]), false, &[1]),
        ("a cut ping", [&own[..], &ping[..9]].concat(), false, &[1]),
        (
            "another packet",
            [&own[..], &[3, 0, 1, 2]].concat(),
            false,
            &[1],
        ),
        ("no handshake", vec![1, 0], false, &[1]),
        (
            "the port in the other order",
            changed(port, &[0xDD, 0x63]),
            false,
            &[4],
        ),
        (
            "no host",
            vec![6, 0, 47, 0, 0x63, 0xDD, 1, 1, 0],
            false,
            &[5],
        ),
        ("gone before the end", own.clone(), true, &[6]),
        ("the beta form", vec![0xFE], false, &[]),
        ("the form of 1.4", vec![0xFE, 1], false, &[]),
        ("the form of 1.6", legacy(15), false, &[]),
        (
            "the form of 1.6 with a wrong length",
            legacy(14),
            false,
            &[1],
        ),
        (
            "the form of 1.6 without its end",
            vec![0xFE, 1, 0xFA],
            false,
            &[1],
        ),
    ];
    let from = ([192, 0, 2, 7], 1).into();
    let mut observer = Observer::new(protocol, [7; 16]).unwrap();
    observer.connection_ended(Duration::ZERO, from, SeenConnection::default());
    assert_eq!(observer.request_count(), 0, "a silent connection");
    assert_eq!(results(&observer, Duration::ZERO), (vec![], vec![]));

    for (name, bytes, is_cut, expected) in cases {
        let mut observer = Observer::new(protocol, [7; 16]).unwrap();
        let seen = SeenConnection {
            bytes,
            port: 25_565,
            is_cut,
        };
        observer.connection_ended(Duration::ZERO, from, seen);
        let (_, missed) = results(&observer, Duration::ZERO);
        let numbers: Vec<u32> = missed.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, expected, "{name}: {missed:?}");
    }
}
