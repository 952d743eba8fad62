//! Checks that neither side allocates once its buffers have grown. This must be the only test in
//! the file, because the allocator counts for the whole process.

use hailer_udp::{Inbox, Outbox, Socket, SocketConfig, wait};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::net::Ipv4Addr;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn batches_take_no_memory() {
    let mut config = SocketConfig::default();
    config.has_destination = true;
    config.has_timestamps = true;
    config.has_refusals = true;
    for portable in [false, true] {
        config.is_portable = portable;
        let socket = Socket::bind((Ipv4Addr::LOCALHOST, 0).into(), &config).unwrap();
        let mut inbox = Inbox::new();
        let mut outbox = Outbox::new();
        let closed = std::net::UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut round = || {
            for _ in 0..100 {
                outbox.push(
                    socket.local_addr(),
                    Some(Ipv4Addr::LOCALHOST.into()),
                    |out| out.extend([7; 20]),
                );
            }
            outbox.push(closed, None, |out| out.extend([7; 20]));
            socket.send(&mut outbox).unwrap();
            let mut datagrams = 0;
            while datagrams < 100 {
                wait(&[&socket], false, Duration::from_secs(5)).unwrap();
                socket.receive(&mut inbox).unwrap();
                datagrams += inbox
                    .iter()
                    .filter(|received| received.bytes == [7; 20])
                    .count();
            }
            assert_eq!(
                socket.refusals(&mut |_| ()).unwrap(),
                usize::from(socket.capabilities().has_refusals)
            );
        };
        round();
        let region = Region::new(ALLOCATOR);
        round();
        let change = region.change();
        assert_eq!(
            (change.allocations, change.reallocations),
            (0, 0),
            "portable: {portable}"
        );
    }
}
