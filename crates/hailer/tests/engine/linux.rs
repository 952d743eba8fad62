//! Tests that need Linux: the address that a datagram was sent to, and networks that stay with one worker.

use super::pool::{HANDSHAKE, ask, board, client, config, post, until};
use hailer::respond::ResponderPool;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

#[test]
fn replies_come_from_the_address_that_was_queried() {
    let pool = ResponderPool::start(vec![post("0.0.0.0:0", &board("here"))], &config(3)).unwrap();
    let port = pool.addresses()[0].port();
    for network in 0..16 {
        let to = SocketAddr::from(([127, 0, 9, network], port));
        assert_eq!(
            ask(&client(&format!("127.0.{network}.1"), to)).as_deref(),
            Some("here")
        );
    }
    // The networks are in one list or spread over two.
    until(|| pool.top_talkers().len() >= 8);
    assert!(
        pool.top_talkers()
            .iter()
            .all(|top| top.requests_per_s == top.replies_per_s
                && top.request_bytes_per_s < top.reply_bytes_per_s)
    );
    until(|| pool.top_talkers().is_empty());
    let done = pool.stop();
    assert_eq!(
        (done[0].counts.unverified, done[0].counts.answered),
        (16, 16)
    );
}

#[test]
fn inherited_sockets_of_one_address_share_its_networks() {
    use socket2::{Domain, Socket, Type};
    let bind = |address: SocketAddr| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&address.into()).unwrap();
        UdpSocket::from(socket)
    };
    let first = bind("127.0.0.1:0".parse().unwrap());
    let address = first.local_addr().unwrap();
    // Three sockets for two workers: the third must not receive datagrams.
    let handed = [first, bind(address), bind(address)];
    let mut taken = post(&address.to_string(), &board("handed"));
    taken.inherited = Some(handed.into());
    let mut config = config(2);
    config.budget.is_loopback_limited = true;
    config.budget.unverified_packets = 1;
    let pool = ResponderPool::start(vec![taken], &config).unwrap();
    for network in 0..16 {
        // The system would choose a socket by the port. With one worker per network, there is one
        // burst of 4.
        let ports = [(); 12].map(|()| client(&format!("127.0.{network}.1"), address));
        ports
            .iter()
            .for_each(|client| assert_eq!(client.send(HANDSHAKE).unwrap(), HANDSHAKE.len()));
        let packets = |client: &UdpSocket| {
            client
                .set_read_timeout(Some(Duration::from_millis(10)))
                .unwrap();
            client.recv(&mut [0; 64]).is_ok()
        };
        let packets = ports.iter().filter(|client| packets(client)).count();
        assert!((4..=5).contains(&packets), "{network}: {packets}");
    }
    let received: u64 = pool.stop().iter().map(|done| done.counts.received).sum();
    assert_eq!(received, 16 * 12);
}
