//! Handshakes of Source and SA-MP, as their clients and servers send them.

use super::relay;
use hailer::respond::{RelayVerification, ResponderPool};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// A player and the game server behind the relay.
struct Scene {
    pool: ResponderPool,
    game: UdpSocket,
    player: UdpSocket,
    /// The address of the player that the game server sees.
    session: Option<SocketAddr>,
}

fn socket(host: u8) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, host, 1), 0)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> Option<(Vec<u8>, SocketAddr)> {
    let mut buffer = [0; 2_048];
    match socket.recv_from(&mut buffer) {
        Ok((length, from)) => Some((buffer[..length].to_vec(), from)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(error) => panic!("{error}"),
    }
}

impl Scene {
    fn new(verification: RelayVerification) -> Self {
        let game = UdpSocket::bind("127.0.0.1:0").unwrap();
        game.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let pool = relay(game.local_addr().unwrap(), verification);
        let player = socket(1);
        player.connect(pool.addresses()[0]).unwrap();
        Self {
            pool,
            game,
            player,
            session: None,
        }
    }

    /// The player sends; the game server receives the same.
    fn send(&mut self, bytes: &[u8]) {
        self.player.send(bytes).unwrap();
        let (received, from) = receive(&self.game).expect("a datagram at the game server");
        assert_eq!(received, bytes);
        assert_eq!(*self.session.get_or_insert(from), from, "one session");
    }

    /// The game server replies. Returns whether the player receives the same.
    fn reply(&self, bytes: &[u8]) -> bool {
        self.game.send_to(bytes, self.session.unwrap()).unwrap();
        let received = receive(&self.player);
        assert!(received.iter().all(|(received, _)| received == bytes));
        received.is_some()
    }

    fn dropped(&self, reason: &str) -> u64 {
        let counts = &self.pool.counts()[0].counts;
        counts.dropped.get(reason).copied().unwrap_or_default()
    }
}

#[test]
fn a_client_of_source_repeats_the_challenge() {
    let mut scene = Scene::new(RelayVerification::Echo);
    let own = 0x0B5A_17C3_u32.to_le_bytes();
    let challenge = 0x6D2E_91F4_u32.to_le_bytes();
    let get = [b"\xFF\xFF\xFF\xFFqconnect0x", &b"0B5A17C3\0"[..]].concat();
    scene.send(&get);
    let header = b"\xFF\xFF\xFF\xFFA3IOZ";
    let auth = b"\x03\0\0\0\0\0\x7F\x8B\x45\x02\x10\x01\x40\x01\x00000000\0";
    assert!(scene.reply(&[&header[..], &challenge, &own, auth].concat()));
    // Protocol 24, a ticket of Steam.
    let name = b"Player\0\x00002000\0";
    let connect = [
        b"\xFF\xFF\xFF\xFFk\x18\0\0\0\x03\0\0\0",
        &challenge[..],
        &own,
        name,
    ]
    .concat();
    scene.send(&connect);
    assert!(scene.reply(&[b"\xFF\xFF\xFF\xFFB", &own[..], b"0000000000\0"].concat()));
    // The state of the game, far above the ratio.
    let state = vec![0xA5; 1_200];
    assert!((0..50).all(|_| scene.reply(&state)));
}

#[test]
fn a_client_of_samp_plays_within_the_ratio() {
    for verification in [RelayVerification::Echo, RelayVerification::Ratio] {
        let mut scene = Scene::new(verification);
        // The client sends the cookie mixed with a constant.
        let cookie = 0x3A7C_u16;
        scene.send(&[24, 0, 0]);
        assert!(scene.reply(&[&[26][..], &cookie.to_le_bytes()].concat()));
        scene.send(&[&[24][..], &(cookie ^ 0x6969).to_le_bytes()].concat());
        assert!(scene.reply(&[25, 0]));
        // The request for a connection, and its acceptance with the number of the player.
        scene.send(b"\0\0\x40\x0Bpassword");
        assert!(scene.reply(b"\xE3\0\0\x40\x22\x7F\0\0\x01\x1E\x61\x07\0\xC3\x17\x5A\x0B"));
        // Joining and the first second: 30 updates of the player, and replies twice as long.
        scene.send(&[0x5A; 80]);
        for number in 0..30 {
            let mut update = [0x20; 68];
            update[..4].copy_from_slice(&u32::to_be_bytes(number));
            scene.send(&update);
            assert!(scene.reply(&[0x41; 164]), "{number}");
        }
        // A flood of replies ends at the ratio.
        let replies = (0..20).map(|_| scene.game.send_to(&[9; 1_200], scene.session.unwrap()));
        assert_eq!(replies.flatten().count(), 20);
        while receive(&scene.player).is_some() {}
        assert!(scene.dropped("relay ratio") >= 17, "{verification:?}");
    }
}
