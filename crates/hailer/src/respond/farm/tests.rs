use super::*;
use hailer_proto::{Ask, Cookie, Frame, Input, Roster, Step, Transport};
use proptest::prelude::*;
use std::collections::{HashSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const START: Duration = Duration::from_secs(1_795_000_000);
const LOOPBACK: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 0);

fn client_address() -> SocketAddr {
    "127.0.0.1:50000".parse().unwrap()
}

fn server(number: u32, port: u16) -> SocketAddr {
    // Spread over the network, without its ends.
    SocketAddr::from((
        Ipv4Addr::from(0x7F00_0001 + number.wrapping_mul(0x9E37_79B1) % 0x00FF_FFFE),
        port,
    ))
}

fn config() -> FarmConfig {
    FarmConfig {
        variants: 64,
        ..FarmConfig::new(LOOPBACK, 8)
    }
}

fn farm(config: FarmConfig) -> Farm {
    Farm::new(config).unwrap()
}

/// Returns the status that a client reads, and the length of the longest reply. Without loss and
/// delay.
fn query(
    port: &mut FarmPort<'_>,
    protocol: &dyn Protocol,
    address: SocketAddr,
) -> Option<(Status, usize)> {
    let mut exchange = protocol.exchange(&Ask::default(), Cookie(7));
    let mut outbox = Outbox::new();
    let mut request = Vec::new();
    let mut longest = 0;
    let mut replies = VecDeque::new();
    let mut step = exchange.handle(Input::Start, &mut request);
    for _ in 0..100 {
        match &step {
            Step::Send | Step::SendMore => {
                port.receive(
                    START,
                    client_address(),
                    Some(address.ip()),
                    &request,
                    &mut outbox,
                );
                for (to, from, bytes) in outbox.pending() {
                    assert_eq!((to, from), (client_address(), Some(address.ip())));
                    longest = longest.max(bytes.len());
                    replies.push_back(bytes.to_vec());
                }
                outbox.clear();
                request.clear();
            }
            Step::Done(status) => return Some(((**status).clone(), longest)),
            Step::Wait | Step::Progress => {}
            other => panic!("{address}: {other:?}"),
        }
        step = if step == Step::SendMore {
            exchange.handle(Input::Continue, &mut request)
        } else {
            let reply = replies.pop_front()?;
            exchange.handle(Input::Datagram(&reply), &mut request)
        };
    }
    panic!("{address}: no end");
}

/// Runs an exchange on a connection to an address. Returns the status, or the error of the system.
fn query_stream(protocol: &dyn Protocol, address: SocketAddr) -> std::io::Result<Status> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut exchange = protocol.exchange(&Ask::default(), Cookie(7));
    let mut request = Vec::new();
    let mut bytes = Vec::new();
    let mut step = exchange.handle(Input::Start, &mut request);
    loop {
        if step == Step::Send {
            // In two pieces, so that the farm gets an incomplete request.
            let (first, second) = request.split_at(request.len() / 2);
            stream.write_all(first)?;
            stream.write_all(second)?;
            request.clear();
        }
        let frame = exchange.frame(&bytes).unwrap();
        let Frame::Complete(length @ 1..) = frame else {
            let mut buffer = [0; 1_000];
            let length = stream.read(&mut buffer)?;
            if length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&buffer[..length]);
            step = Step::Wait;
            continue;
        };
        let message: Vec<u8> = bytes.drain(..length).collect();
        step = exchange.handle(Input::Datagram(&message), &mut request);
        match step {
            Step::Done(status) => return Ok(*status),
            Step::Send | Step::Wait | Step::Progress => {}
            other => panic!("{address}: {other:?}"),
        }
    }
}

// macOS has one loopback address.
#[cfg(not(target_os = "macos"))]
#[test]
fn streams_have_the_status_of_the_farm() {
    let protocol = registry::find("minecraft-status").unwrap();
    for delay in [0, 30] {
        let farm = farm(FarmConfig {
            ports: vec![(protocol, 0)],
            silent: 0.1,
            refusing: 0.2,
            delay: Duration::from_millis(delay),
            ..config()
        });
        let bound = farm.bind().unwrap();
        let port = bound[0].port();
        assert_eq!(bound[0].transport(), Transport::Stream);
        let stop = AtomicBool::new(false);
        let mut answers = 0;
        let mut refused = 0;
        let counts = std::thread::scope(|scope| {
            let farm_thread = scope.spawn(|| farm.run(&bound, &stop));
            for number in 0..100 {
                let address = server(number, port);
                let IpAddr::V4(ip) = address.ip() else {
                    unreachable!()
                };
                let Some(status) = farm.status(protocol, address) else {
                    let slot = farm.place(ip, port);
                    if slot.is_refusing && !slot.is_silent {
                        let error = query_stream(protocol, address).unwrap_err();
                        assert_ne!(error.kind(), ErrorKind::WouldBlock, "{address}");
                        refused += 1;
                    }
                    continue;
                };
                let started = Instant::now();
                assert_eq!(query_stream(protocol, address).unwrap(), status);
                // The status and the pong.
                assert!(started.elapsed() >= Duration::from_millis(2 * delay));
                answers += 1;
            }
            stop.store(true, Ordering::Relaxed);
            farm_thread.join().unwrap()
        });
        assert!(answers > 50 && refused > 5, "{answers}, {refused}");
        assert_eq!((counts.answered, counts.refused), (answers, refused));
        assert_eq!(counts.connections, answers + refused);
        assert_eq!((counts.received, counts.dropped.len()), (0, 0));
        assert!(counts.bytes_out > counts.bytes_in);
    }
}

// macOS has one loopback address.
#[cfg(not(target_os = "macos"))]
#[test]
fn a_portable_farm_has_a_socket_for_each_address() {
    let query = registry::find("minecraft-query").unwrap();
    let ugp = registry::find("ugp").unwrap();
    let small = |networks| FarmConfig {
        networks,
        ports: vec![(query, 0), (ugp, 0)],
        is_portable: true,
        ..config()
    };
    let wide = farm(small(vec![(LOOPBACK, 8)]));
    assert!(matches!(
        wide.bind(),
        Err(FarmBindError::TooManySockets { needed: 33_554_432 })
    ));
    // The networks overlap.
    let networks = [(0, 27), (16, 28)].map(|(last, bits)| (Ipv4Addr::new(127, 31, 0, last), bits));
    let farm = farm(FarmConfig {
        silent: 0.2,
        delay: Duration::from_millis(5),
        ..small(networks.into())
    });
    let bound = farm.bind().unwrap();
    let ports: Vec<u16> = bound.iter().map(BoundPort::port).collect();
    assert!(ports[0] != ports[1] && !ports.contains(&0), "{ports:?}");
    let stop = AtomicBool::new(false);
    let mut answers = 0;
    let counts = std::thread::scope(|scope| {
        let farm_thread = scope.spawn(|| farm.run(&bound, &stop));
        for number in 0..32 {
            let address = SocketAddr::from(([127, 31, 0, number], ports[1]));
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            // The reply comes from the address that was queried.
            socket.connect(address).unwrap();
            let is_silent = farm.status(ugp, address).is_none();
            let wait = if is_silent { 20 } else { 20_000 };
            let wait = Duration::from_millis(wait);
            socket.set_read_timeout(Some(wait)).unwrap();
            let mut exchange = ugp.exchange(&Ask::default(), Cookie(7));
            let mut request = Vec::new();
            assert_eq!(exchange.handle(Input::Start, &mut request), Step::Send);
            socket.send(&request).unwrap();
            assert_eq!(socket.recv(&mut [0; 2_048]).is_err(), is_silent);
            answers += u64::from(!is_silent);
        }
        stop.store(true, Ordering::Relaxed);
        farm_thread.join().unwrap()
    });
    assert!((10..32).contains(&answers), "{answers}");
    assert_eq!((counts.received, counts.answered), (32, answers));
    assert_eq!(counts.silent, 32 - answers);
}

// macOS has one loopback address.
#[cfg(not(target_os = "macos"))]
#[test]
fn streams_are_limited() {
    let protocol = registry::find("minecraft-status").unwrap();
    let farm = farm(FarmConfig {
        ports: vec![(protocol, 0)],
        max_connections: 2,
        ..config()
    });
    let bound = farm.bind().unwrap();
    let address = server(1, bound[0].port());
    let stop = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let farm_thread = scope.spawn(|| farm.run(&bound, &stop));
        let idle = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let mut third = TcpStream::connect(address).unwrap();
        third.write_all(b"\xFE\x01").unwrap();
        third
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let waits = third.read(&mut [0; 9]).unwrap_err();
        assert!(matches!(
            waits.kind(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut
        ));
        drop(idle);
        third
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        assert!(
            third.read(&mut [0; 9]).unwrap() > 0,
            "accepted after the others"
        );
        let mut garbage = TcpStream::connect(address).unwrap();
        garbage.write_all(&[0xC3; 64 << 10]).unwrap();
        // The farm closes the connection, with a reset because of the unread bytes.
        while matches!(garbage.read(&mut [0; 9]), Ok(1..)) {}
        stop.store(true, Ordering::Relaxed);
        farm_thread.join().unwrap()
    });
    assert_eq!((counts.connections, counts.answered), (4, 1));
    assert_eq!(counts.dropped.values().sum::<u64>(), 3, "{counts:?}");
}

/// Receives requests for challenge tokens at different addresses.
fn pings(port: &mut FarmPort<'_>, count: u32, out: &mut Outbox) {
    for number in 0..count {
        port.receive(
            START,
            client_address(),
            Some(server(number, 0).ip()),
            b"\xFE\xFD\x09\x01\x02\x03\x04",
            out,
        );
    }
}

#[test]
fn clients_read_exactly_the_status_of_the_farm() {
    let ports = registry::datagram_responders().map(|protocol| (protocol, protocol.info().port));
    let farm = farm(FarmConfig {
        ports: ports.collect(),
        variants: 4_096,
        silent: 0.1,
        refusing: 0.5,
        ..config()
    });
    // Some protocols share a default port.
    let mut ports: Vec<u16> = Vec::new();
    for protocol in registry::datagram_responders() {
        let port = protocol.info().port;
        if !ports.contains(&port) {
            ports.push(port);
        }
        let index = ports.iter().position(|known| *known == port).unwrap();
        let mut farm_port = farm.port(index, port);
        let mut players = 0;
        let mut bytes = 0;
        let mut answers = 0;
        let mut titles = HashSet::new();
        let has_list = (0..20).any(|seed| !protocol.sample(seed).players.list.is_empty());
        for number in 0..3_000 {
            let address = server(number, port);
            let received = query(&mut farm_port, protocol, address);
            let reported = farm.status(protocol, address);
            assert_eq!(
                received.as_ref().map(|(status, _)| status),
                reported.as_ref(),
                "{address} {}",
                protocol.info().id
            );
            let Some((status, longest)) = received else {
                continue;
            };
            let roster = if has_list {
                Roster::Whole
            } else {
                Roster::Absent
            };
            assert_eq!(
                (status.players.roster, status.deviations.len()),
                (roster, 0)
            );
            answers += 1;
            players += usize::try_from(status.players.count()).unwrap();
            bytes += longest;
            titles.insert(status.title());
        }
        let id = protocol.info().id;
        eprintln!(
            "{id}: {} players, {} bytes, {} titles",
            players / answers,
            bytes / answers,
            titles.len()
        );
        // Mumble sends no name, and Satisfactory no counts.
        let sample = protocol.sample(0);
        let has_counts = sample.players.online.is_some();
        assert!(
            !has_counts || (6..=10).contains(&(players / answers)),
            "{id}"
        );
        assert!(sample.title().is_none() || titles.len() > 50, "{id}");
        assert!(
            id != "minecraft-query" || (380..=420).contains(&(bytes / answers)),
            "{}",
            bytes / answers
        );
    }
}

#[test]
fn texts_travel_in_both_encodings() {
    let farm = farm(config());
    let motds: Vec<_> = (0..64)
        .filter_map(|variant| farm.sample(farm.services[0].protocol, variant).motd)
        .collect();
    let latin1 = |motd: &&hailer_proto::Text| std::str::from_utf8(&motd.bytes()).is_err();
    let accented = |motd: &&hailer_proto::Text| {
        motd.plain()
            .chars()
            .any(|c| ('\u{A1}'..='\u{FF}').contains(&c))
    };
    assert!(motds.iter().filter(latin1).filter(accented).count() > 5);
    assert!(
        motds
            .iter()
            .filter(|motd| !latin1(motd) && !motd.raw().is_ascii())
            .count()
            > 5
    );
}

#[test]
fn silent_servers_are_a_fixed_share() {
    let farms = [1, 1, 2].map(|seed| {
        farm(FarmConfig {
            silent: 0.2,
            seed,
            ..config()
        })
    });
    let protocol = registry::datagram_responders().next().unwrap();
    let silent = |farm: &Farm, port| -> HashSet<u32> {
        (0..20_000)
            .filter(|number| farm.status(protocol, server(*number, port)).is_none())
            .collect()
    };
    let first = silent(&farms[0], 1);
    // Five standard deviations.
    assert!((3_717..=4_283).contains(&first.len()), "{}", first.len());
    assert_eq!(first, silent(&farms[1], 1));
    assert_ne!(first, silent(&farms[2], 1));
    assert_ne!(
        first,
        silent(&farms[0], 2),
        "another port is another server"
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let replies = |seed| {
        let farm = farm(FarmConfig {
            loss: 0.1,
            duplicates: 0.1,
            seed,
            ..config()
        });
        let mut port = farm.port(0, 25_565);
        let mut outbox = Outbox::new();
        pings(&mut port, 200, &mut outbox);
        let all: Vec<_> = outbox
            .pending()
            .map(|(to, from, bytes)| (to, from, bytes.to_vec()))
            .collect();
        all
    };
    assert_eq!(replies(1), replies(1));
    assert_ne!(replies(1), replies(2));
}

#[test]
fn loss_and_duplicates_are_shares() {
    let farm = farm(FarmConfig {
        loss: 0.1,
        duplicates: 0.2,
        ..config()
    });
    let mut port = farm.port(0, 25_565);
    let mut outbox = Outbox::new();
    pings(&mut port, 20_000, &mut outbox);
    let counts = port.counts();
    // Each way a tenth: 0.81 arrive, of which a fifth twice. Five standard deviations.
    assert!(
        (3_800 - 280..3_800 + 280).contains(&counts.lost),
        "{counts:?}"
    );
    assert!(
        (3_240 - 270..3_240 + 270).contains(&counts.duplicated),
        "{counts:?}"
    );
    assert_eq!(counts.answered, 20_000 - counts.lost + counts.duplicated);
    assert_eq!(outbox.len() as u64, counts.answered);
    let bytes: usize = outbox.pending().map(|(.., bytes)| bytes.len()).sum();
    assert_eq!(bytes as u64, counts.bytes_out);
    let all: Vec<_> = outbox
        .pending()
        .map(|(_, from, bytes)| (from, bytes))
        .collect();
    assert_eq!(
        all.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64,
        counts.duplicated
    );
}

#[test]
fn everything_can_be_lost() {
    let farm = farm(FarmConfig {
        loss: 1.0,
        ..config()
    });
    let mut port = farm.port(0, 25_565);
    let mut outbox = Outbox::new();
    pings(&mut port, 100, &mut outbox);
    assert_eq!((port.counts().lost, outbox.len()), (100, 0));
}

#[test]
fn drops_datagrams_to_other_addresses() {
    let mut farm = farm(FarmConfig {
        networks: vec![(Ipv4Addr::new(127, 7, 0, 0), 16)],
        ..config()
    });
    for beyond in [false, true] {
        farm.can_leave_loopback = beyond;
        for (from, to, answered) in [
            ("127.0.0.1:1", Some("127.7.0.0"), true),
            ("127.0.0.1:1", Some("127.7.255.255"), true),
            ("127.0.0.1:1", Some("127.8.0.0"), false),
            ("127.0.0.1:1", Some("192.0.2.7"), false),
            ("127.0.0.1:1", Some("::1"), false),
            ("127.0.0.1:1", None, false),
            ("192.0.2.7:1", Some("127.7.0.1"), beyond),
        ] {
            let mut port = farm.port(0, 25_565);
            let mut outbox = Outbox::new();
            let to = to.map(|to| to.parse().unwrap());
            port.receive(
                START,
                from.parse().unwrap(),
                to,
                b"\xFE\xFD\x09\x01\x02\x03\x04",
                &mut outbox,
            );
            assert_eq!(
                (outbox.len(), port.counts().foreign),
                (answered.into(), (!answered).into()),
                "{from} {to:?}"
            );
        }
    }
    farm.networks = vec![Network::new(LOOPBACK, 8).unwrap()];
    assert!(!farm.holds(Ipv4Addr::new(127, 255, 255, 255)) && !farm.holds(LOOPBACK));
}

#[test]
fn refuses_public_networks() {
    let of = |networks: &[(&str, u8)], can_leave_loopback| {
        let networks = networks
            .iter()
            .map(|(address, bits)| (address.parse().unwrap(), *bits))
            .collect();
        Farm::new(FarmConfig {
            networks,
            can_leave_loopback,
            variants: 1,
            ..config()
        })
        .map(drop)
    };
    assert_eq!(of(&[("127.0.0.0", 8), ("127.3.2.1", 32)], false), Ok(()));
    for (address, bits) in [
        ("127.0.0.0", 7),
        ("10.0.0.0", 8),
        ("0.0.0.0", 0),
        ("128.0.0.0", 8),
    ] {
        let open = Err(FarmError::Open(address.parse().unwrap(), bits));
        assert_eq!(of(&[("127.0.0.0", 8), (address, bits)], false), open);
        assert_eq!(of(&[(address, bits)], true), Ok(()));
    }
    assert_eq!(of(&[("127.0.0.0", 33)], false), Err(FarmError::Network));
    assert_eq!(of(&[], false), Err(FarmError::Network));
}

#[test]
fn settings_are_checked() {
    let refused = |change: fn(&mut FarmConfig)| {
        let mut config = config();
        change(&mut config);
        Farm::new(config).err()
    };
    assert_eq!(
        refused(|s| s.silent = 1.01),
        Some(FarmError::Share("silent"))
    );
    assert_eq!(
        refused(|s| s.loss = f64::NAN),
        Some(FarmError::Share("loss"))
    );
    assert_eq!(
        refused(|s| s.duplicates = -0.1),
        Some(FarmError::Share("duplicates"))
    );
    assert_eq!(
        refused(|s| s.delay = Duration::from_secs(61)),
        Some(FarmError::Time("delay"))
    );
    assert_eq!(refused(|s| s.variants = 0), Some(FarmError::Variants));
    assert_eq!(refused(|s| s.ports.clear()), Some(FarmError::NoProtocol));
    assert_eq!(
        refused(|s| s.refusing = 2.0),
        Some(FarmError::Share("refusing"))
    );
}

#[test]
fn protocols_share_ports_and_have_several() {
    let [a, b]: [&'static dyn Protocol; 2] =
        ["minecraft-query", "ugp"].map(|id| registry::find(id).unwrap());
    let farm = farm(FarmConfig {
        ports: vec![
            (a, 1_000),
            (b, 1_000),
            (a, 2_000),
            (a, 0),
            (b, 0),
            (a, 1_000),
        ],
        ..config()
    });
    assert_eq!((farm.ports(), farm.services.len()), (4, 2));
    for (index, port, expected) in [
        (0, 1_000, [true, true]),
        (1, 2_000, [true, false]),
        (3, 7_777, [false, true]),
    ] {
        let mut farm_port = farm.port(index, port);
        for (protocol, expected) in [a, b].into_iter().zip(expected) {
            let reported =
                query(&mut farm_port, protocol, server(5, port)).map(|(status, _)| status);
            assert_eq!(
                reported,
                farm.status(protocol, server(5, port)).filter(|_| expected)
            );
        }
        assert_eq!(
            farm_port.counts().dropped.get("no query"),
            expected.contains(&false).then_some(&1)
        );
    }
}

proptest! {
    /// Each reply arrives when it is due: not before the delay, not after the jitter, and in the
    /// order of arrival.
    #[test]
    fn delays_are_kept(delay in 0_u64..100, jitter in 0_u64..100, seed: u64, step in 1_u64..20) {
        let millis = Duration::from_millis;
        let farm = farm(FarmConfig { delay: millis(delay), jitter: millis(jitter), seed, variants: 1, ..config() });
        let mut port = farm.port(0, 25_565);
        let mut outbox = Outbox::new();
        pings(&mut port, 100, &mut outbox);
        let mut sent = Vec::new();
        let mut arrived = 0;
        let mut passed = 0;
        while passed <= delay + jitter + step {
            let due = port.due();
            port.release(START + millis(passed), usize::MAX, &mut outbox);
            if outbox.len() > arrived {
                prop_assert!(passed >= delay);
                prop_assert!(delay + jitter == 0 || due <= Some(START + millis(passed)));
            }
            arrived = outbox.len();
            passed += step;
        }
        sent.extend(outbox.pending().map(|(_, from, _)| from.unwrap()));
        prop_assert_eq!((sent.len(), port.due()), (100, None));
        let order: Vec<_> = (0..100).map(|number| server(number, 0).ip()).collect();
        prop_assert!(jitter != 0 || sent == order, "equal delays keep the order");
        prop_assert!(jitter < 5 || sent != order, "unequal delays do not");
        prop_assert_eq!(sent.into_iter().collect::<HashSet<_>>(), order.into_iter().collect::<HashSet<_>>());
    }
}

#[test]
fn limits_delayed_replies() {
    let farm = farm(FarmConfig {
        delay: Duration::from_secs(1),
        max_delayed: 50,
        ..config()
    });
    let mut port = farm.port(0, 25_565);
    let mut outbox = Outbox::new();
    for round in 1..=3 {
        pings(&mut port, 80, &mut outbox);
        assert_eq!((port.counts().queue_full, outbox.len()), (30 * round, 0));
        let later = START + Duration::from_secs(1);
        port.release(later, 20, &mut outbox);
        assert_eq!(outbox.len(), 20, "as many as there is room for");
        port.release(later, usize::MAX, &mut outbox);
        assert_eq!((outbox.len(), port.counts().answered), (50, 50 * round));
        assert_eq!(port.delayed.places(), 50, "places are used again");
        outbox.clear();
    }
}
