//! Tests over loopback: the behavior of both implementations, and their capabilities.

use hailer_udp::{Inbox, Outbox, Refusal, Socket, SocketConfig, wait};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(5);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn config(change: impl FnOnce(&mut SocketConfig)) -> SocketConfig {
    let mut config = SocketConfig::default();
    change(&mut config);
    config
}

fn bind(address: IpAddr, change: impl FnOnce(&mut SocketConfig)) -> Socket {
    Socket::bind((address, 0).into(), &config(change)).unwrap()
}

/// Runs a test with both implementations, on systems that have two.
fn both(test: impl Fn(bool)) {
    for portable in [false, true] {
        println!("portable: {portable}");
        test(portable);
    }
}

/// Returns two sockets that report refusals.
fn pair(is_portable: bool) -> [Socket; 2] {
    [(); 2].map(|()| {
        bind(V4, |config| {
            config.is_portable = is_portable;
            config.has_refusals = true;
        })
    })
}

/// Returns the loopback addresses of this machine.
fn families() -> Vec<IpAddr> {
    let there = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
    if !there(&V6) {
        println!("This machine has no ::1: tested over IPv4 only.");
    }
    [V4, V6].into_iter().filter(there).collect()
}

/// Waits for a datagram or the timeout.
fn receive(socket: &Socket, inbox: &mut Inbox) -> usize {
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        let count = socket.receive(inbox).unwrap();
        if count > 0 {
            return count;
        }
        wait(&[socket], false, Duration::from_millis(100)).unwrap();
    }
    0
}

fn nothing_waits(socket: &Socket) {
    assert_eq!(socket.receive(&mut Inbox::with_max_length(9)).unwrap(), 0);
}

/// Checks that all datagrams arrive unchanged and in order, and come back in the same way.
fn there_and_back(ours: &Socket, theirs: &Socket, payloads: &[Vec<u8>]) -> TestCaseResult {
    let mut outbox = Outbox::new();
    let mut inbox = Inbox::new();
    let mut back = Inbox::new();
    payloads
        .iter()
        .for_each(|payload| outbox.push(theirs.local_addr(), None, |out| out.extend(payload)));
    let mut datagrams = 0;
    let mut echoed = 0;
    while echoed < payloads.len() {
        ours.send(&mut outbox).unwrap();
        prop_assert!(receive(theirs, &mut inbox) > 0);
        let mut answers = Outbox::new();
        for received in inbox.iter() {
            prop_assert_eq!(received.from, ours.local_addr());
            prop_assert_eq!(received.bytes, &payloads[datagrams]);
            answers.push(received.from, received.to, |out| out.extend(received.bytes));
            datagrams += 1;
        }
        while echoed < datagrams {
            theirs.send(&mut answers).unwrap();
            prop_assert!(receive(ours, &mut back) > 0);
            for received in back.iter() {
                prop_assert_eq!(received.from, theirs.local_addr());
                prop_assert_eq!(received.bytes, &payloads[echoed]);
                echoed += 1;
            }
        }
    }
    prop_assert!(outbox.is_empty() && outbox.take_unsent().is_empty());
    Ok(())
}

#[test]
fn transfers_datagrams_of_any_length() {
    let payload = |length: usize| (0..length).map(|i| (i % 251) as u8).collect::<Vec<_>>();
    both(|portable| {
        for family in families() {
            let small = |config: &mut SocketConfig| config.is_portable = portable;
            let ours = bind(family, small);
            let theirs = bind(family, small);
            for length in [0, 1, 1_472, 65_507] {
                there_and_back(&ours, &theirs, &[payload(length)]).unwrap();
            }
            nothing_waits(&ours);
            nothing_waits(&theirs);
        }
    });
}

proptest! {
    #![proptest_config(Config { cases: 32, failure_persistence: None, ..Config::default() })]
    #[test]
    fn transfers_many_datagrams_in_order(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 1..150),
        portable: bool,
        destination: bool,
        timestamps: bool,
    ) {
        for family in families() {
            // The queue must hold all of them even if the system counts a page for each.
            let all = |config: &mut SocketConfig| {
                config.receive_buffer = Some(4 << 20);
                config.is_portable = portable;
                config.has_destination = destination;
                config.has_timestamps = timestamps;
            };
            there_and_back(&bind(family, all), &bind(family, all), &payloads)?;
        }
    }
}

#[test]
fn truncates_datagrams_to_the_length_of_the_inbox() {
    both(|portable| {
        let ours = bind(V4, |_| ());
        let theirs = bind(V4, |config| config.is_portable = portable);
        let mut outbox = Outbox::new();
        let mut inbox = Inbox::with_max_length(5);
        outbox.push(theirs.local_addr(), None, |out| out.extend(b"123456789"));
        outbox.push(theirs.local_addr(), None, |out| out.extend(b"next"));
        ours.send(&mut outbox).unwrap();
        let mut datagrams = Vec::new();
        while datagrams.len() < 2 && receive(&theirs, &mut inbox) > 0 {
            datagrams.extend(inbox.iter().map(|received| received.bytes.to_vec()));
        }
        assert_eq!(datagrams, [b"12345".to_vec(), b"next".to_vec()]);
    });
}

#[test]
fn replies_from_the_address_that_received() {
    for family in families() {
        let everywhere = if family.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let server = bind(everywhere, |config| config.has_destination = true);
        if !server.capabilities().has_destination {
            println!("This system does not report destination addresses.");
            continue;
        }
        let client = bind(family, |_| ());
        // IPv6 has one loopback address.
        let addresses: Vec<IpAddr> = if family.is_ipv4() {
            (1..=200)
                .map(|i| Ipv4Addr::new(127, 0, 0, i).into())
                .collect()
        } else {
            vec![V6]
        };
        let mut outbox = Outbox::new();
        let mut inbox = Inbox::new();
        for address in &addresses {
            outbox.push((*address, server.local_addr().port()).into(), None, |out| {
                out.extend(address.to_string().bytes());
            });
        }
        assert_eq!(client.send(&mut outbox).unwrap(), addresses.len());
        let mut left = addresses.len();
        while left > 0 && receive(&server, &mut inbox) > 0 {
            for received in inbox.iter() {
                let to = received.to.unwrap();
                assert_eq!(to.to_string().as_bytes(), received.bytes);
                outbox.push(received.from, Some(to), |out| out.extend(received.bytes));
            }
            left -= inbox.iter().len();
        }
        assert_eq!(server.send(&mut outbox).unwrap(), addresses.len());
        let mut datagrams = Vec::new();
        while datagrams.len() < addresses.len() && receive(&client, &mut inbox) > 0 {
            for received in inbox.iter() {
                assert_eq!(received.from.ip().to_string().as_bytes(), received.bytes);
                datagrams.push(received.from.ip());
            }
        }
        assert_eq!(datagrams, addresses);
    }
}

/// Returns a port on which nothing listens.
fn closed(address: IpAddr) -> SocketAddr {
    UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap()
}

#[test]
fn reports_closed_ports_promptly() {
    for family in families() {
        // With every kind of metadata.
        let socket = bind(family, |config| {
            config.has_refusals = true;
            config.has_destination = true;
            config.has_timestamps = true;
        });
        if !socket.capabilities().has_refusals {
            println!("This system does not tell refusals.");
            continue;
        }
        let closed = closed(family);
        let mut outbox = Outbox::new();
        outbox.push(closed, None, |out| out.extend(b"anybody there?"));
        socket.send(&mut outbox).unwrap();
        wait(&[&socket], false, TIMEOUT).unwrap();
        let mut datagrams = Vec::new();
        let mut receive_all = |refusal: Refusal<'_>| {
            datagrams.push((refusal.to, refusal.error.kind(), refusal.quoted.to_vec()));
        };
        assert_eq!(socket.refusals(&mut receive_all).unwrap(), 1);
        assert_eq!(
            datagrams,
            [(
                closed,
                ErrorKind::ConnectionRefused,
                b"anybody there?".to_vec()
            )]
        );
        nothing_waits(&socket);
        assert_eq!(
            socket
                .refusals(&mut |_| panic!("there was only one"))
                .unwrap(),
            0
        );
    }
}

#[test]
fn refused_datagrams_do_not_affect_others() {
    const EACH: u32 = 1_000;
    both(|portable| {
        for family in families() {
            let change = |config: &mut SocketConfig| {
                config.has_refusals = true;
                config.is_portable = portable;
            };
            let ours = bind(family, change);
            let theirs = bind(family, change);
            let closed = closed(family);
            let mut outbox = Outbox::new();
            let mut inbox = Inbox::new();
            let mut good = 0;
            let mut refused = BTreeMap::new();
            let mut sent = 0;
            let mut receive_all = |refusal: Refusal<'_>| {
                assert_eq!(
                    (refusal.to, refusal.error.kind()),
                    (closed, ErrorKind::ConnectionRefused)
                );
                *refused
                    .entry(u32::from_be_bytes(refusal.quoted.try_into().unwrap()))
                    .or_insert(0) += 1;
            };
            // In several steps, receiving in between, so that no queue overflows.
            for piece in 0..EACH / 50 {
                for number in 50 * piece..50 * (piece + 1) {
                    outbox.push(closed, None, |out| out.extend(number.to_be_bytes()));
                    outbox.push(theirs.local_addr(), None, |out| {
                        out.extend(number.to_be_bytes());
                    });
                }
                sent += ours.send(&mut outbox).unwrap();
                assert!(outbox.is_empty() && outbox.take_unsent().is_empty());
                ours.receive(&mut inbox).unwrap();
                ours.refusals(&mut receive_all).unwrap();
                while theirs.receive(&mut inbox).unwrap() > 0 {
                    for received in inbox.iter() {
                        assert_eq!(received.bytes, u32::to_be_bytes(good));
                        good += 1;
                    }
                }
            }
            assert_eq!((sent, good), (2 * EACH as usize, EACH));
            let reported = if ours.capabilities().has_refusals {
                EACH as usize
            } else {
                0
            };
            assert_eq!(refused.len(), reported);
            assert!(refused.values().all(|times| *times == 1));
        }
    });
}

#[test]
fn threads_can_share_a_socket() {
    const EACH: u32 = 250;
    both(|portable| {
        let change = |config: &mut SocketConfig| {
            config.receive_buffer = Some(4 << 20);
            config.has_refusals = true;
            config.is_portable = portable;
        };
        let ours = bind(V4, change);
        let theirs = bind(V4, change);
        let closed = closed(V4);
        let done = AtomicBool::new(false);
        // Between the sender's calls, refusals of its datagrams become pending errors, and are
        // removed again.
        let refused = std::thread::scope(|scope| {
            let hearing = scope.spawn(|| {
                let mut inbox = Inbox::with_max_length(9);
                let mut refused = 0;
                while !done.load(Ordering::Acquire) {
                    assert_eq!(ours.receive(&mut inbox).unwrap(), 0);
                    refused += ours.refusals(&mut |_| ()).unwrap();
                }
                refused + ours.refusals(&mut |_| ()).unwrap()
            });
            let mut outbox = Outbox::new();
            for number in 0..EACH {
                outbox.push(closed, None, |_| ());
                outbox.push(theirs.local_addr(), None, |out| {
                    out.extend(number.to_be_bytes());
                });
                // After too many interruptions, the call returns early: call it again.
                while number % 20 == 0 && !outbox.is_empty() {
                    ours.send(&mut outbox).unwrap();
                }
            }
            while !outbox.is_empty() {
                ours.send(&mut outbox).unwrap();
            }
            assert!(outbox.take_unsent().is_empty());
            done.store(true, Ordering::Release);
            hearing.join().unwrap()
        });
        assert_eq!(
            refused,
            if ours.capabilities().has_refusals {
                EACH as usize
            } else {
                0
            }
        );
        let mut inbox = Inbox::with_max_length(9);
        let mut next = 0;
        while next < EACH && receive(&theirs, &mut inbox) > 0 {
            for received in inbox.iter() {
                assert_eq!(received.bytes, u32::to_be_bytes(next));
                next += 1;
            }
        }
        assert_eq!(next, EACH);
    });
}

#[test]
fn reports_datagrams_that_can_never_be_sent() {
    both(|portable| {
        let [ours, theirs] = pair(portable);
        let mut outbox = Outbox::new();
        let mut inbox = Inbox::new();
        let bad = [
            SocketAddr::from((V4, 0)),
            SocketAddr::from((Ipv4Addr::BROADCAST, 9)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, 9)),
        ];
        for i in 0..100_u8 {
            for bad in bad {
                outbox.push(bad, None, |out| out.push(i));
            }
            outbox.push(theirs.local_addr(), None, |out| out.push(i));
        }
        outbox.push(theirs.local_addr(), None, |out| out.extend([0; 65_508]));
        assert_eq!(ours.send(&mut outbox).unwrap(), 100);
        assert!(outbox.is_empty());
        let unsent: Vec<_> = outbox
            .take_unsent()
            .into_iter()
            .map(|unsent| unsent.to)
            .collect();
        let expected: Vec<_> = (0..100)
            .flat_map(|_| bad)
            .chain([theirs.local_addr()])
            .collect();
        assert_eq!(unsent, expected);
        let mut next = 0;
        while next < 100 && receive(&theirs, &mut inbox) > 0 {
            for received in inbox.iter() {
                assert_eq!(received.bytes, [next]);
                next += 1;
            }
        }
        assert_eq!(next, 100);
        assert_eq!(
            ours.refusals(&mut |_| panic!("the system's own errors are no refusals"))
                .unwrap(),
            0
        );
    });
}

#[test]
fn counts_overflows() {
    both(|portable| {
        let ours = bind(V4, |_| ());
        let theirs = bind(V4, |config| {
            config.receive_buffer = Some(4_096);
            config.is_portable = portable;
        });
        let mut outbox = Outbox::new();
        let mut inbox = Inbox::new();
        let mut received = 0;
        for _ in 0..1_000 {
            outbox.push(theirs.local_addr(), None, |out| out.extend([7; 100]));
        }
        assert_eq!(ours.send(&mut outbox).unwrap(), 1_000);
        while theirs.receive(&mut inbox).unwrap() > 0 {
            received += inbox.iter().len();
        }
        println!("{received} of 1000 received");
        assert!(received < 1_000);
        let lost = if theirs.capabilities().has_overflows {
            1_000 - received as u64
        } else {
            0
        };
        assert_eq!(theirs.overflows(), lost);
    });
}

#[test]
fn accepts_any_queue_size() {
    both(|portable| {
        let socket = |size| {
            bind(V4, |config| {
                config.receive_buffer = Some(size);
                config.send_buffer = Some(size);
                config.is_portable = portable;
            })
        };
        let small = socket(0);
        let large = socket(100_000);
        let huge = socket(usize::MAX);
        let capabilities = large.capabilities();
        assert!(
            capabilities.receive_buffer >= 100_000 && capabilities.send_buffer >= 100_000,
            "{capabilities:?}"
        );
        assert!(small.capabilities().receive_buffer < capabilities.receive_buffer);
        assert!(huge.capabilities().receive_buffer >= capabilities.receive_buffer);
    });
}

#[test]
fn reports_the_time_in_the_queue() {
    let ours = bind(V4, |_| ());
    let theirs = bind(V4, |config| config.has_timestamps = true);
    let mut outbox = Outbox::new();
    let mut inbox = Inbox::new();
    outbox.push(theirs.local_addr(), None, |_| ());
    // A system may start to record times only a moment after the first socket has requested them.
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let start = Instant::now();
        outbox.push(theirs.local_addr(), None, |_| ());
        ours.send(&mut outbox).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        assert!(receive(&theirs, &mut inbox) > 0);
        for received in inbox.iter() {
            assert_eq!(
                received.waited.is_some(),
                theirs.capabilities().has_timestamps
            );
            let waited = received.waited.unwrap_or_default();
            assert!(
                waited <= start.elapsed() + Duration::from_millis(1),
                "{waited:?}"
            );
            longest = longest.max(waited);
        }
        if !theirs.capabilities().has_timestamps || longest >= Duration::from_millis(29) {
            return;
        }
    }
    panic!("a datagram was in the queue for 30 ms, and {longest:?} were reported");
}

#[cfg(unix)]
#[test]
fn sockets_share_an_address_only_if_all_allow_it() {
    both(|portable| {
        let change = |config: &mut SocketConfig| {
            config.is_port_shared = true;
            config.is_portable = portable;
        };
        let first = bind(V4, change);
        let second = Socket::bind(first.local_addr(), &config(change)).unwrap();
        assert_eq!(first.local_addr(), second.local_addr());
        let third = Socket::bind(
            first.local_addr(),
            &config(|config| config.is_portable = portable),
        );
        assert_eq!(third.unwrap_err().kind(), ErrorKind::AddrInUse);
        // Each datagram arrives at one of them.
        let mut outbox = Outbox::new();
        let mut inbox = Inbox::new();
        let mut datagrams = 0;
        for _ in 0..20 {
            outbox.push(first.local_addr(), None, |_| ());
            bind(V4, change).send(&mut outbox).unwrap();
        }
        let end = Instant::now() + TIMEOUT;
        while datagrams < 20 && Instant::now() < end {
            wait(&[&first, &second], false, Duration::from_millis(50)).unwrap();
            datagrams += first.receive(&mut inbox).unwrap() + second.receive(&mut inbox).unwrap();
        }
        assert_eq!(datagrams, 20);
    });
}

#[test]
fn shared_sockets_get_different_free_ports() {
    // Enough for a repeated port, if the system may choose one.
    let sockets: Vec<Socket> = (0..600)
        .map(|_| {
            bind([127, 0, 0, 1].into(), |config| {
                config.is_port_shared = true;
                config.receive_buffer = None;
            })
        })
        .collect();
    let ports: std::collections::HashSet<u16> = sockets
        .iter()
        .map(|socket| socket.local_addr().port())
        .collect();
    assert_eq!(ports.len(), sockets.len());
}

#[test]
fn wait_ends_with_the_first_event_or_the_timeout() {
    both(|portable| {
        let [ours, theirs] = pair(portable);
        let both = [&ours, &theirs];
        let timed = |writable, timeout| {
            let start = Instant::now();
            wait(&both, writable, timeout).unwrap();
            start.elapsed()
        };
        // Also below a millisecond.
        for timeout in [
            Duration::ZERO,
            Duration::from_micros(300),
            Duration::from_millis(30),
        ] {
            let took = timed(false, timeout);
            assert!((timeout..timeout + TIMEOUT).contains(&took), "{took:?}");
        }
        assert!(timed(true, TIMEOUT) < TIMEOUT);
        let mut outbox = Outbox::new();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| timed(false, Duration::MAX));
            std::thread::sleep(Duration::from_millis(20));
            outbox.push(theirs.local_addr(), None, |_| ());
            ours.send(&mut outbox).unwrap();
            assert!(waiting.join().unwrap() < TIMEOUT);
        });
        assert_eq!(receive(&theirs, &mut Inbox::new()), 1);
        if ours.capabilities().has_refusals {
            outbox.push(closed(V4), None, |_| ());
            ours.send(&mut outbox).unwrap();
            assert!(timed(false, TIMEOUT) < TIMEOUT);
        }
        assert!(
            wait(&[&ours; 17], false, TIMEOUT)
                .unwrap_err()
                .to_string()
                .contains("16")
        );
    });
}

#[cfg(target_os = "linux")]
#[test]
fn one_network_goes_to_one_socket() {
    let mut config = SocketConfig::default();
    config.is_port_shared = true;
    config.spread = 3;
    let first = Socket::bind("127.0.0.1:0".parse().unwrap(), &config).unwrap();
    assert!(first.capabilities().has_spread);
    let address = first.local_addr();
    let sockets = [
        first,
        Socket::bind(address, &config).unwrap(),
        Socket::bind(address, &config).unwrap(),
    ];
    let mut used = [0; 3];
    for network in 0..60 {
        for host in 1..5 {
            let from = UdpSocket::bind(SocketAddr::from(([127, 0, network, host], 0))).unwrap();
            from.send_to(b"x", address).unwrap();
        }
        let mut inbox = Inbox::new();
        let datagrams = sockets
            .each_ref()
            .map(|socket| socket.receive(&mut inbox).unwrap());
        assert!(datagrams.contains(&4), "{datagrams:?}");
        used.iter_mut()
            .zip(datagrams)
            .for_each(|(used, datagrams)| *used += datagrams / 4);
    }
    assert!(
        used.iter().all(|&used| used > 8),
        "and the networks are spread: {used:?}"
    );
}
