//! A door over UDP: joins wake the game, queries and forged datagrams do not, and clients are passed
//! on while it runs.

use super::quic::{client, game, play};
use super::raknet::Node;
use hailer::Status;
use hailer::door::{Entrance, Request, Requests, State, View};
use hailer::proto::joins::{self, FAMILIES};
use hailer::proto::registry;
use hailer::respond::{Board, Counts, ListenerConfig, PoolConfig, ResponderPool};
use hailer_testkit::{npm, vector};
use quinn::{ConnectionError, TransportErrorCode};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// A door with its listener.
struct Door {
    pool: ResponderPool,
    board: Board,
    entrance: Entrance,
    requests: Requests,
}

impl Door {
    /// Starts a listener with these protocols. The door shows [`State::Asleep`].
    fn new(protocols: &[&str]) -> Self {
        let protocols: Vec<_> = protocols
            .iter()
            .map(|id| registry::find(id).unwrap())
            .collect();
        let board = Board::new(&protocols, &Status::default()).unwrap();
        let (entrance, requests) = Entrance::new();
        board.set_entrance(Some(entrance.clone()));
        let listener = ListenerConfig {
            address: "127.0.0.1:0".parse().unwrap(),
            board: board.clone(),
            relay: None,
            inherited: None,
        };
        let mut config = PoolConfig::default();
        config.workers = 1;
        config.budget.is_loopback_limited = true;
        Self {
            pool: ResponderPool::start(vec![listener], &config).unwrap(),
            board,
            entrance,
            requests,
        }
    }

    fn address(&self) -> SocketAddr {
        self.pool.addresses()[0]
    }

    fn show(&self, state: State, game: SocketAddr) {
        let game = Some(game);
        self.entrance.show(View { state, game });
    }

    fn counts(&self) -> Counts {
        self.pool.counts()[0].counts.clone()
    }

    /// Waits for a request of a client. Returns its address and the name of the player.
    fn joined(&mut self) -> (SocketAddr, String) {
        let end = Instant::now() + LIMIT;
        loop {
            match self.requests.try_recv() {
                Ok(Request::Join { source, attempt }) => return (source, attempt.name.into()),
                Ok(other) => panic!("{other:?}"),
                Err(_) => assert!(Instant::now() < end, "no join: {:?}", self.counts()),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn until(what: &str, mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A player with a socket.
struct Player(UdpSocket);

impl Player {
    fn new(door: &Door) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(door.address()).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self(socket)
    }

    fn send(&self, bytes: &[u8]) {
        self.0.send(bytes).unwrap();
    }

    fn receive(&self) -> Vec<u8> {
        let mut buffer = [0; 2_048];
        let length = self.0.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }

    fn ask(&self, bytes: &[u8]) -> Vec<u8> {
        self.send(bytes);
        self.receive()
    }

    /// Sends the handshake of Source up to the connect.
    fn join_source(&self) {
        let challenge = self.ask(b"\xFF\xFF\xFF\xFFq\x01\x02\x03\x040000000000\0");
        assert_eq!(challenge[4..9], *b"A3IOZ");
        assert_eq!(challenge[13..17], *b"\x01\x02\x03\x04");
        let connect = [
            b"\xFF\xFF\xFF\xFFk\x18\0\0\0\x02\0\0\0",
            &challenge[9..17],
            b"Gordon\0\08622567\0key\0",
        ];
        self.send(&connect.concat());
    }

    /// Sends a connect of ENet, as peer `peer`.
    fn connect_enet(&self, peer: u8) {
        let connect = [
            &b"\x8F\xFF\x12\x34\x82\xFF\0\x01\0"[..],
            &[peer],
            b"\xFF\xFF\0\0\x05\x78\0\x01\0\0\0\0\0\x02\0\0\0\0\0\0\0\0",
            b"\0\0\x13\x88\0\0\0\x02\0\0\0\x02\xAB\xCD\xEF\x01\0\0\0\0",
        ];
        self.send(&connect.concat());
    }

    /// Checks the reply to a connect of ENet as its library does, and acknowledges it.
    fn acknowledge_enet(&self, peer: u8, reply: &[u8]) {
        assert_eq!(reply.len(), 48);
        assert_eq!(reply[..2], [0x80, peer], "for us, with a time");
        assert_eq!(reply[4..6], [0x83, 0xFF]);
        assert_eq!(reply[32..44], *b"\0\0\x13\x88\0\0\0\x02\0\0\0\x02");
        assert_eq!(reply[44..], *b"\xAB\xCD\xEF\x01");
        let session = reply[11] << 4;
        let acknowledge = [
            &[reply[8] | session, reply[9], 0x01, 0xFF],
            &reply[6..8],
            &reply[6..8],
            &reply[2..4],
        ];
        self.send(&acknowledge.concat());
    }
}

#[test]
fn a_client_of_source_wakes_the_game_and_is_passed_on() {
    let mut door = Door::new(&["a2s"]);
    let player = Player::new(&door);
    player.join_source();
    let (source, name) = door.joined();
    assert_eq!(
        (source, name.as_str()),
        (player.0.local_addr().unwrap(), "Gordon")
    );
    // While it starts, the client repeats its request until the game replies.
    let game = UdpSocket::bind("127.0.0.1:0").unwrap();
    game.set_read_timeout(Some(LIMIT)).unwrap();
    door.show(State::Starting, game.local_addr().unwrap());
    until("the worker sees the start", || {
        player.send(b"\xFF\xFF\xFF\xFFq\x01\x02\x03\x040000000000\0");
        door.counts()
            .dropped
            .get("asleep")
            .is_some_and(|count| *count > 0)
    });
    door.show(State::Running, game.local_addr().unwrap());
    game.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2_048];
    until("the game gets the request", || {
        player.send(b"\xFF\xFF\xFF\xFFq\x01\x02\x03\x040000000000\0");
        game.recv_from(&mut buffer)
            .is_ok_and(|(length, _)| buffer[..length].starts_with(b"\xFF\xFF\xFF\xFFq"))
    });
    // Queries are still answered by the door.
    let query = b"\xFF\xFF\xFF\xFFTSource Engine Query\0";
    let reply = player.ask(query);
    assert!(reply.starts_with(b"\xFF\xFF\xFF\xFFA"), "{reply:02x?}");
}

#[test]
fn a_refused_client_of_source_reads_why() {
    let mut door = Door::new(&["a2s"]);
    door.entrance.admit(|_, attempt| attempt.name != "Gordon");
    let text = "ask the admin";
    let status = Status {
        motd: Some(hailer::proto::Text::unformatted(text)),
        ..Status::default()
    };
    door.board.publish(&status).unwrap();
    let player = Player::new(&door);
    player.join_source();
    let rejection = player.receive();
    assert_eq!(
        rejection,
        b"\xFF\xFF\xFF\xFF9\x01\x02\x03\x04ask the admin\0"
    );
    assert!(door.requests.try_recv().is_err());
    assert_eq!(door.entrance.refused(), 1);
}

#[test]
fn a_client_of_enet_wakes_the_game_and_is_disconnected() {
    let mut door = Door::new(&["ugp"]);
    let player = Player::new(&door);
    player.connect_enet(5);
    let reply = player.receive();
    player.acknowledge_enet(5, &reply);
    let (source, _) = door.joined();
    assert_eq!(source, player.0.local_addr().unwrap());
    let disconnect = player.receive();
    let session = reply[10] << 4;
    assert_eq!(disconnect, [session, 5, 0x44, 0xFF, 0, 0, 0, 0, 0, 0]);
    until("the join is counted", || door.counts().join_attempts == 1);
}

#[test]
fn sources_that_keep_sending_wake_a_game_of_unknown_handshake() {
    let mut door = Door::new(&["a2s"]);
    let player = Player::new(&door);
    for is_wanted in [false, true] {
        door.entrance.set_wakes_on_traffic(is_wanted);
        for _ in 0..9 {
            player.send(b"play");
            std::thread::sleep(Duration::from_millis(400));
        }
        if is_wanted {
            assert_eq!(door.joined().0, player.0.local_addr().unwrap());
        } else {
            assert!(door.requests.try_recv().is_err());
        }
    }
}

/// Clients count while they are established, and their sessions end with the game.
#[test]
fn sessions_are_visits_until_the_game_ends() {
    let door = Door::new(&["a2s"]);
    let game = UdpSocket::bind("127.0.0.1:0").unwrap();
    game.set_read_timeout(Some(LIMIT)).unwrap();
    let at = game.local_addr().unwrap();
    door.show(State::Running, at);
    let mut buffer = [0; 64];
    let join = |game: &UdpSocket, buffer: &mut [u8]| {
        let player = Player::new(&door);
        let mut from = None;
        until("the game gets a datagram", || {
            player.send(b"hello");
            from = game.recv_from(buffer).ok().map(|(_, from)| from);
            from.is_some()
        });
        game.send_to(b"token", from.unwrap()).unwrap();
        assert_eq!(player.receive(), b"token");
        player
    };
    let player = join(&game, &mut buffer);
    assert_eq!(door.entrance.visits(), 0, "not established");
    player.send(b"token");
    until("a visit", || door.entrance.visits() == 1);
    // A stopping game keeps its clients, and gets no new ones.
    door.show(State::Stopping, at);
    until("no new client", || {
        Player::new(&door).send(b"hello");
        door.counts().dropped.contains_key("asleep")
    });
    game.set_nonblocking(true).unwrap();
    while game.recv(&mut buffer).is_ok() {}
    game.set_nonblocking(false).unwrap();
    player.send(b"bye");
    let length = game.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..length], *b"bye");
    door.show(State::Asleep, at);
    until("no visit", || door.entrance.visits() == 0);
    // Another address is another game.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    door.show(State::Running, other.local_addr().unwrap());
    join(&other, &mut buffer);
}

#[test]
fn failures_to_reach_the_game_are_reported() {
    let door = Door::new(&["a2s"]);
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap();
    drop(free);
    door.show(State::Running, closed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let is_reported = runtime.unwrap().block_on(async {
        let unreachable = door.entrance.unreachable();
        let player = Player::new(&door);
        let send = async {
            loop {
                player.send(b"hello");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = unreachable => true,
            () = send => false,
            () = tokio::time::sleep(LIMIT) => false,
        }
    });
    assert!(is_reported);
}

/// Pings, queries, scans and forged tokens: 10,000 of each kind and family.
#[test]
fn queries_scans_and_forged_datagrams_wake_nothing() {
    let mut door = Door::new(&["minecraft-bedrock", "a2s", "onequery", "ugp"]);
    assert!(FAMILIES.iter().all(|family| {
        family
            .protocols
            .iter()
            .any(|id| joins::of_protocol(id).is_some())
    }));
    let mut kinds: Vec<Vec<u8>> = Vec::new();
    // Queries and noise of all protocols.
    kinds.extend(vector::all_vectors().into_iter().map(|vector| vector.bytes));
    let magic = b"\x00\xFF\xFF\x00\xFE\xFE\xFE\xFE\xFD\xFD\xFD\xFD\x12\x34\x56\x78";
    let forged = [
        [
            &[7],
            &magic[..],
            &[0; 5],
            &[4, 0, 0, 0, 0, 0x4A, 0xBC],
            &[0; 10],
        ]
        .concat(),
        [
            &b"\xC0\0\0\0\x01\x08abcdefgh\0\x18hailer\0\x01"[..],
            &[0; 1_190],
        ]
        .concat(),
        [
            &b"\xFF\xFF\xFF\xFFk\x18\0\0\0\x02\0\0\0"[..],
            &[0; 8],
            b"Gordon\0\0",
        ]
        .concat(),
        b"\x10\0\x01\xFF\0\0\0\0\0\0".to_vec(),
    ];
    // Requests for challenges, which a scanner sends without the next step.
    let half = [
        [&[5], &magic[..], &[0; 400]].concat(),
        [&b"\xC0\0\0\0\x01\x08abcdefgh\0\0"[..], &[0; 1_184]].concat(),
        b"\xFF\xFF\xFF\xFFq\x01\x02\x03\x040000000000\0".to_vec(),
        [&b"\x8F\xFF\0\0\x82\xFF\0\x01\0\0"[..], &[0; 42]].concat(),
    ];
    let scanner = Player::new(&door);
    scanner.0.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2_048];
    let mut sent = 0_u64;
    let mut send = |bytes: &[u8], door: &Door| {
        // The send queue may be full for a moment.
        while scanner.0.send(bytes).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        sent += 1;
        while scanner.0.recv(&mut buffer).is_ok() {}
        if sent.is_multiple_of(1_000) {
            until("the worker is done", || door.counts().received >= sent);
        }
        sent
    };
    for round in 0..10_000_u32 {
        send(&kinds[round as usize % kinds.len()], &door);
        let number = round.wrapping_mul(0x9E37_79B9).to_be_bytes();
        for (datagram, at) in forged.iter().zip([17, 24, 13, 6]) {
            let mut datagram = datagram.clone();
            datagram[at..at + 4].copy_from_slice(&number);
            send(&datagram, &door);
        }
        send(&half[round as usize % 4], &door);
    }
    let total = send(b"end", &door);
    until("the worker is done", || door.counts().received >= total);
    assert!(total > 60_000);
    assert!(door.requests.try_recv().is_err(), "{:?}", door.counts());
    let counts = door.counts();
    assert_eq!(counts.join_attempts, 0);
    assert!(counts.dropped["token"] >= 39_000, "{counts:?}");
    assert!(counts.unverified > 1_000, "{counts:?}");
}

/// A client of QUIC wakes the game. Those that come while it starts are connected when it runs.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_quic_wake_the_game_and_join() {
    let mut door = Door::new(&["onequery"]);
    let to = door.address();
    let status = Status {
        motd: Some(hailer::proto::Text::unformatted("Starting, join again")),
        ..Status::default()
    };
    door.board.publish(&status).unwrap();
    // The connection that wakes the game cannot continue with it, and reads why.
    let first = client(Ipv4Addr::LOCALHOST.into());
    let connecting = first.connect(to, "localhost").unwrap();
    let closed = timeout(LIMIT, connecting).await.unwrap().unwrap_err();
    let ConnectionError::ConnectionClosed(close) = &closed else {
        panic!("{closed:?}");
    };
    assert_eq!(close.error_code, TransportErrorCode::CONNECTION_REFUSED);
    assert_eq!(close.reason, "Starting, join again");
    let (source, host) = loop {
        let Request::Join { source, attempt } = door.requests.recv().await.unwrap() else {
            continue;
        };
        break (source, attempt.host);
    };
    assert_eq!(source.port(), first.local_addr().unwrap().port());
    assert_eq!(host, "localhost", "SNI");
    let game = game();
    door.show(State::Starting, game);
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The first client has repeated its Initial.
    while door.requests.try_recv().is_ok() {}
    let second = tokio::spawn(timeout(LIMIT, play(Ipv4Addr::LOCALHOST.into(), to)));
    tokio::time::sleep(Duration::from_millis(700)).await;
    door.show(State::Running, game);
    let received = second.await.unwrap();
    assert!(received.is_ok_and(|bytes| bytes > 0), "{:?}", door.counts());
    assert!(door.requests.try_recv().is_err(), "one wake is enough");
}

/// Clients of RakNet repeat their first request, so those that wake the game play on it.
#[test]
fn clients_of_raknet_wake_the_game_and_play() {
    let Some(modules) = npm::modules("raknet-native") else {
        return;
    };
    let mut door = Door::new(&["minecraft-bedrock"]);
    let mut players = Node::start(&modules, "client", door.address().port());
    let output = players.0.stdout.take().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let (_, name) = door.joined();
    assert_eq!(name, "");
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let game = free.local_addr().unwrap();
    drop(free);
    door.show(State::Starting, game);
    let mut server = Node::start(&modules, "server", game.port());
    let lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line == "ready"));
    door.show(State::Running, game);
    let line = receiver.recv_timeout(LIMIT);
    drop(players);
    reader.join().unwrap();
    assert_eq!(line.as_deref(), Ok("played: 5 of 5"), "{:?}", door.counts());
}
