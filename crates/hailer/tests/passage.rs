//! Joins that are passed on to a game, connections of proxies, and several servers on one port, on
//! loopback only.
#![cfg(unix)]

use hailer::door::{Entrance, Request, Requests, State, View};
use hailer::proto::minecraft_status::message::{Handshake, Intent, write_status_request};
use hailer::proto::{Extra, Keys, Options, Text, minecraft_query, minecraft_status};
use hailer::respond::{
    Board, Counts, ListenerConfig, PoolConfig, ResponderPool, SourceLimits, StreamConfig,
};
use hailer::support::proxy_protocol::{ProxiedAddresses, ProxyHeader, Version};
use hailer::{Status, Target};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(10);
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn board_with(motd: &str, kick: &str) -> Board {
    let status = Status {
        motd: Some(Text::unformatted(motd)),
        ..Status::default()
    };
    let options = Options::default().with("kick", kick);
    let keys = Keys::new([7; 16]);
    Board::with_options(vec![(&minecraft_status::PROTOCOL, options)], keys, &status).unwrap()
}

fn board(kick: &str) -> Board {
    board_with("here", kick)
}

fn listener(address: SocketAddr, board: &Board) -> ListenerConfig {
    ListenerConfig {
        address,
        board: board.clone(),
        relay: None,
        inherited: None,
    }
}

fn start(boards: &[Board]) -> (ResponderPool, SocketAddr) {
    start_with(boards, |_| ())
}

/// Starts a pool in which all boards share a port.
fn start_with(
    boards: &[Board],
    change: impl FnOnce(&mut PoolConfig),
) -> (ResponderPool, SocketAddr) {
    let mut config = PoolConfig::default();
    config.workers = 1;
    change(&mut config);
    let free = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let listeners = boards.iter().map(|board| listener(free, board)).collect();
    let pool = ResponderPool::start(listeners, &config).unwrap();
    assert!(pool.addresses().iter().all(|address| *address == free));
    (pool, free)
}

/// Returns a board with a door.
fn with_door(board: Board) -> (Board, Entrance, Requests) {
    let (entrance, requests) = Entrance::new();
    board.set_entrance(Some(entrance.clone()));
    (board, entrance, requests)
}

fn show(entrance: &Entrance, state: State, game: &TcpListener) {
    let game = Some(game.local_addr().unwrap());
    entrance.show(View { state, game });
}

fn game() -> TcpListener {
    TcpListener::bind(ANY).unwrap()
}

fn accept(game: &TcpListener) -> TcpStream {
    game.set_nonblocking(true).unwrap();
    let started = Instant::now();
    loop {
        match game.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(WAIT)).unwrap();
                return stream;
            }
            Err(error) => assert!(started.elapsed() < WAIT, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

fn handshake(host: &str, intent: Intent) -> Vec<u8> {
    let mut out = Vec::new();
    let (protocol, port) = (772, 25565);
    let host = host.into();
    Handshake {
        protocol,
        host,
        port,
        intent,
    }
    .write(&mut out);
    out
}

fn join_as(host: &str, name: &str) -> Vec<u8> {
    let mut out = handshake(host, Intent::Login);
    out.extend([name.len() as u8 + 2, 0, name.len() as u8]);
    out.extend(name.bytes());
    out
}

fn join() -> Vec<u8> {
    join_as("mc.example.org", "Alice")
}

fn exactly(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Reads to the end, or a reset.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn counts(pool: &ResponderPool) -> Counts {
    pool.counts()[0].counts.clone()
}

fn until(mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < WAIT, "timed out");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_join_reaches_the_running_game_unchanged() {
    let (board, entrance, _requests) = with_door(board("no"));
    let (pool, address) = start(&[board]);
    let game = game();
    show(&entrance, State::Running, &game);
    // In one piece, at every split, and with more behind it.
    let request = [&join()[..], b"more bytes of the login"].concat();
    for split in 0..request.len() {
        let mut client = connect(address);
        let (first, second) = request.split_at(split);
        client.write_all(first).unwrap();
        if split % 3 == 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
        client.write_all(second).unwrap();
        let mut served = accept(&game);
        assert_eq!(exactly(&mut served, request.len()), request, "{split}");
    }
    // Both directions, more than any buffer holds, and the client ends its side first.
    let mut client = connect(address);
    client.write_all(&request).unwrap();
    let mut served = accept(&game);
    exactly(&mut served, request.len());
    until(|| entrance.visits() == 1);
    let big: Vec<u8> = (0..20 << 20).map(|i: u32| (i / 7) as u8).collect();
    let mut writer = client.try_clone().unwrap();
    let sent = big.clone();
    let upload = std::thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    served.read_to_end(&mut received).unwrap();
    upload.join().unwrap();
    assert!(received == big);
    let download = std::thread::spawn(move || {
        served.write_all(&big).unwrap();
        big
    });
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert!(received == download.join().unwrap());
    until(|| entrance.visits() == 0);
    let counts = counts(&pool);
    let joins = request.len() as u64 + 1;
    assert_eq!(counts.relayed_connections, joins);
    assert_eq!(counts.join_attempts, joins);
    assert_eq!(
        counts.relayed_bytes,
        joins * request.len() as u64 + received.len() as u64
    );
    assert_eq!(counts.relayed_back_bytes, received.len() as u64);
    assert_eq!((counts.answered, counts.open_relayed_connections), (0, 0));
    assert!(counts.dropped.is_empty(), "{:?}", counts.dropped);
}

/// Logins before 1.7: the server replies first with a request for encryption.
#[test]
fn logins_of_old_versions_are_passed_on() {
    let (board, entrance, _requests) = with_door(board("no"));
    let (pool, address) = start(&[board]);
    let game = game();
    show(&entrance, State::Running, &game);
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_be_bytes).collect() };
    let newer = |protocol: u8| {
        let name = [&[2, protocol, 0, 5][..], &utf16("Alice")].concat();
        [&name[..], b"\0\x09", &utf16("localhost"), &[0, 0, 99, 221]].concat()
    };
    let old = [&[2, 0, 21][..], &utf16("Alice;localhost:25565")].concat();
    for login in [newer(78), newer(74), newer(61), newer(39), newer(31), old] {
        let mut client = connect(address);
        client.write_all(&login).unwrap();
        let mut served = accept(&game);
        assert_eq!(exactly(&mut served, login.len()), login);
        served.write_all(b"\xFD\0\x01\0-").unwrap();
        assert_eq!(exactly(&mut client, 5), b"\xFD\0\x01\0-");
        client.write_all(b"\xFC\0\x80 key").unwrap();
        assert_eq!(exactly(&mut served, 7), b"\xFC\0\x80 key");
    }
    assert_eq!(counts(&pool).join_attempts, 6);
    assert_eq!(counts(&pool).answered, 0);
}

#[test]
fn a_join_is_held_until_the_game_runs() {
    let (board, entrance, mut requests) = with_door(board("Starting up"));
    let (pool, address) = start(&[board]);
    let game = game();
    let mut client = connect(address);
    client.write_all(&join()).unwrap();
    until(
        || matches!(requests.try_recv(), Ok(Request::Join { attempt, .. }) if attempt.name == "Alice"),
    );
    show(&entrance, State::Starting, &game);
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(counts(&pool).held_connections, 1);
    assert_eq!(entrance.visits(), 0);
    // A client that leaves is not held.
    let mut leaver = connect(address);
    leaver.write_all(&join()).unwrap();
    until(|| counts(&pool).held_connections == 2);
    drop(leaver);
    until(|| counts(&pool).held_connections == 1);
    client.write_all(b"while held").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    show(&entrance, State::Running, &game);
    let mut served = accept(&game);
    let expected = [&join()[..], b"while held"].concat();
    assert_eq!(exactly(&mut served, expected.len()), expected);
    served.write_all(b"welcome").unwrap();
    assert_eq!(exactly(&mut client, 7), b"welcome");
    until(|| counts(&pool).held_connections == 0);
    assert_eq!(counts(&pool).open_relayed_connections, 1);
}

#[test]
fn a_held_client_gets_the_text_of_the_board_of_that_moment() {
    let (first, entrance, _requests) = with_door(board("Starting up"));
    let (pool, address) = start(&[first]);
    let game = game();
    show(&entrance, State::Starting, &game);
    let mut client = connect(address);
    client.write_all(&join()).unwrap();
    until(|| counts(&pool).held_connections == 1);
    let later = board("It \u{1}failed\u{1B}[31m\n\"today\"");
    later.set_entrance(Some(entrance.clone()));
    pool.reload(vec![listener(address, &later)]).unwrap();
    let started = Instant::now();
    show(&entrance, State::Failed, &game);
    let text = rest(&mut client);
    assert!(started.elapsed() >= Duration::from_secs(2));
    assert!(text.contains("It ") && text.contains("today"), "{text:?}");
    // The text is JSON, without control characters.
    let json = &text[text.find('{').unwrap()..];
    assert!(!json.chars().any(char::is_control), "{json:?}");
    let parsed: serde_json::Value = serde_json::from_str(json).unwrap();
    assert!(!parsed.to_string().contains("\\u00"), "{parsed}");
    let all = counts(&pool);
    assert_eq!((all.answered, all.held_connections), (1, 0));

    // A game that is shown as running and accepts no connections.
    drop(game);
    let gone = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    entrance.show(View {
        state: State::Running,
        game: Some(gone),
    });
    let mut client = connect(address);
    client.write_all(&join()).unwrap();
    assert!(rest(&mut client).contains("today"));
    until(|| entrance.visits() == 0);
}

#[test]
fn refused_clients_and_queries_are_answered() {
    let (board, entrance, mut requests) = with_door(board("You may not wake it"));
    entrance.admit(|_, attempt| attempt.name != "Alice");
    let (pool, address) = start(&[board]);
    let mut client = connect(address);
    client.write_all(&join()).unwrap();
    assert!(rest(&mut client).contains("You may not wake it"));
    for query in [
        &b"\xFE\x01"[..],
        b"\xFE",
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0",
        b"\x10\0\xFF",
    ] {
        let mut client = connect(address);
        client.write_all(query).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        rest(&mut client);
    }
    let answer = hailer::blocking::query(format!("minecraft-status://{address}")).unwrap();
    assert_eq!(answer.status.motd.unwrap().plain(), "here");
    assert!(requests.try_recv().is_err(), "no request wakes the game");
    assert_eq!(counts(&pool).join_attempts, 1);
    // While it runs, queries are still answered here.
    let game = game();
    show(&entrance, State::Running, &game);
    hailer::blocking::query(format!("minecraft-status://{address}")).unwrap();
    assert_eq!(counts(&pool).relayed_connections, 0);
}

#[test]
fn bytes_of_no_protocol_reach_the_running_game() {
    let (board, entrance, mut requests) = with_door(board("no"));
    let (_pool, address) = start(&[board]);
    let game = game();
    let foreign = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let send = || {
        let mut client = connect(address);
        client.write_all(foreign).unwrap();
        client
    };
    assert_eq!(rest(&mut send()), "");
    assert!(requests.try_recv().is_err());
    show(&entrance, State::Running, &game);
    let mut client = send();
    let mut served = accept(&game);
    assert_eq!(exactly(&mut served, foreign.len()), foreign);
    served.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
    drop(served);
    assert_eq!(rest(&mut client), "HTTP/1.1 200 OK\r\n");
    // With `wake = "traffic"`, they start it.
    show(&entrance, State::Asleep, &game);
    entrance.set_wakes_on_traffic(true);
    let _client = send();
    until(|| requests.try_recv().is_ok());
    show(&entrance, State::Running, &game);
    assert_eq!(exactly(&mut accept(&game), foreign.len()), foreign);
}

#[test]
fn a_port_without_protocols_is_a_relay() {
    let game = game();
    let (entrance, _requests) = Entrance::new();
    show(&entrance, State::Running, &game);
    let relay = Board::new(&[], &Status::default()).unwrap();
    relay.set_stream_config(StreamConfig {
        relay: Some(entrance),
        ..StreamConfig::default()
    });
    let (pool, address) = start(std::slice::from_ref(&relay));
    // The server sends first.
    let mut client = connect(address);
    let mut served = accept(&game);
    served.write_all(b"SSH-2.0-x\r\n").unwrap();
    assert_eq!(exactly(&mut client, 11), b"SSH-2.0-x\r\n");
    // Reloads keep it, also one that removes the listener.
    let others = board("other");
    pool.reload(vec![listener(address, &relay), listener(ANY, &others)])
        .unwrap();
    client.write_all(b"one").unwrap();
    assert_eq!(exactly(&mut served, 3), b"one");
    pool.reload(vec![listener(ANY, &others)]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    served.write_all(b"two").unwrap();
    assert_eq!(exactly(&mut client, 3), b"two");
    drop(served);
    assert_eq!(rest(&mut client), "");
}

fn header(source: &str, version: Version) -> Vec<u8> {
    let mut out = Vec::new();
    let addresses = ProxiedAddresses {
        source: source.parse().unwrap(),
        destination: "198.51.100.1:25565".parse().unwrap(),
    };
    addresses.write(version, &mut out);
    out
}

#[test]
fn trusted_proxies_name_their_clients() {
    let (board, entrance, mut requests) = with_door(board("no"));
    let config = StreamConfig {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        proxy_protocol: Some(Version::V2),
        ..StreamConfig::default()
    };
    board.set_stream_config(config);
    let (pool, address) = start(std::slice::from_ref(&board));
    let game = game();
    for (version, source) in [
        (Version::V1, "203.0.113.9:4242"),
        (Version::V2, "[2001:db8::9]:4242"),
    ] {
        let request = [&header(source, version)[..], &join()].concat();
        for split in [0, 1, 20, request.len() - 3] {
            show(&entrance, State::Asleep, &game);
            let mut client = connect(address);
            client.write_all(&request[..split]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            client.write_all(&request[split..]).unwrap();
            let mut found = None;
            until(|| {
                found = requests.try_recv().ok();
                found.is_some()
            });
            let Some(Request::Join { source: seen, .. }) = found else {
                panic!("{found:?}");
            };
            assert_eq!(seen.to_string(), source);
            show(&entrance, State::Running, &game);
            let mut served = accept(&game);
            // The game gets the address of the client in version 2, before all else.
            let expected = [&header(source, Version::V2)[..], &join()].concat();
            assert_eq!(exactly(&mut served, expected.len()), expected);
            drop(client);
            assert_eq!(rest(&mut served), "");
        }
    }
    // The header is no part of the bytes of players.
    until(|| counts(&pool).open_connections == 0);
    assert_eq!(counts(&pool).relayed_bytes, 8 * join().len() as u64);
    // A proxy must send a header; its health checks have one without a client.
    let mut client = connect(address);
    client.write_all(&join()).unwrap();
    assert_eq!(rest(&mut client), "");
    until(|| counts(&pool).dropped.get("malformed") == Some(&1));
    let mut check = connect(address);
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0\xFE\x01";
    check.write_all(local).unwrap();
    assert!(rest(&mut check).starts_with('\u{FFFD}'));

    // From outside, a header is no part of any protocol.
    board.set_stream_config(StreamConfig {
        trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
        ..StreamConfig::default()
    });
    show(&entrance, State::Asleep, &game);
    for version in [Version::V1, Version::V2] {
        let mut client = connect(address);
        let request = [&header("203.0.113.9:4242", version)[..], &join()].concat();
        client.write_all(&request).unwrap();
        assert_eq!(rest(&mut client), "");
    }
    assert!(requests.try_recv().is_err());
    until(|| counts(&pool).dropped.get("no query") == Some(&2));
    assert!(ProxyHeader::read(&join()).is_err());
}

#[test]
fn one_source_cannot_use_up_the_held_connections() {
    let (board, entrance, _requests) = with_door(board("Full"));
    board.set_stream_config(StreamConfig {
        trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
        ..StreamConfig::default()
    });
    let (pool, address) = start_with(&[board], |config| {
        config.connections.total = 2_048;
        config.passages.held = SourceLimits {
            total: 64,
            per_network: 16,
        };
        config.passages.relayed = SourceLimits {
            total: 128,
            per_network: 24,
        };
    });
    let game = game();
    show(&entrance, State::Starting, &game);
    let mut attackers: Vec<TcpStream> = (0..1_024)
        .map(|i| {
            let mut client = connect(address);
            let source = format!("203.0.113.{}:{}", i % 256, 1_024 + i);
            let request = [&header(&source, Version::V2)[..], &join()].concat();
            client.write_all(&request).unwrap();
            client
        })
        .collect();
    until(|| counts(&pool).held_connections == 16 && counts(&pool).answered == 1_024 - 16);
    // Slow handshakes of the same source, and queries, change nothing for others.
    attackers.extend((0..64).map(|i| {
        let mut client = connect(address);
        let source = format!("203.0.113.7:{}", 2_048 + i);
        let request = [&header(&source, Version::V1)[..], &join()[..9]].concat();
        client.write_all(&request).unwrap();
        client
    }));
    let honest: Vec<TcpStream> = (0..8)
        .map(|i| {
            let mut client = connect(address);
            let request = [&header(&format!("192.0.2.{i}:7"), Version::V2)[..], &join()].concat();
            client.write_all(&request).unwrap();
            client
        })
        .collect();
    until(|| counts(&pool).held_connections == 24);
    let mut query = connect(address);
    query
        .write_all(&[&header("198.51.100.7:7", Version::V1)[..], b"\xFE\x01"].concat())
        .unwrap();
    assert!(!rest(&mut query).is_empty());
    show(&entrance, State::Running, &game);
    until(|| counts(&pool).open_relayed_connections == 24);
    // A flood of logins from the same source while the game runs.
    for i in 0..64 {
        let mut client = connect(address);
        let request = [
            &header(&format!("203.0.113.9:{}", 3_000 + i), Version::V2)[..],
            &join(),
        ]
        .concat();
        client.write_all(&request).unwrap();
        attackers.push(client);
    }
    until(|| counts(&pool).dropped.get("relay full") == Some(&56));
    assert_eq!(counts(&pool).open_relayed_connections, 32);
    let mut served: Vec<TcpStream> = (0..32).map(|_| accept(&game)).collect();
    for game in &mut served {
        exactly(game, join().len());
        game.write_all(b"welcome").unwrap();
    }
    for mut client in honest {
        assert_eq!(exactly(&mut client, 7), b"welcome");
    }
    drop(attackers);
    drop(served);
    until(|| entrance.visits() == 0 && counts(&pool).open_relayed_connections == 0);
}

fn hosts(names: &[&str]) -> StreamConfig {
    StreamConfig {
        hosts: names.iter().map(|name| name.to_string()).collect(),
        ..StreamConfig::default()
    }
}

/// Returns the MOTD of a status request with this host.
fn motd(address: SocketAddr, host: &str) -> String {
    let mut client = connect(address);
    let mut request = handshake(host, Intent::Status);
    write_status_request(&mut request);
    client.write_all(&request).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let text = rest(&mut client);
    let found = ["survival", "creative", "lobby"]
        .into_iter()
        .find(|name| text.contains(name));
    found.unwrap_or("none").to_owned()
}

#[test]
fn servers_on_one_port_are_chosen_by_host() {
    let long = format!("{}.example.org", "a".repeat(243));
    let survival = board_with("survival", "no survival");
    survival.set_stream_config(hosts(&["survival.example.org", &long]));
    let (creative, entrance, mut requests) = with_door(board_with("creative", "no creative"));
    creative.set_stream_config(hosts(&["creative.example.org"]));
    let status = Status {
        motd: Some(Text::unformatted("lobby")),
        ..Status::default()
    };
    let lobby = Board::new(
        &[&minecraft_status::PROTOCOL, &minecraft_query::PROTOCOL],
        &status,
    )
    .unwrap();
    let all = [survival.clone(), creative.clone(), lobby.clone()];
    let (pool, address) = start(&all);
    for (host, expected) in [
        ("survival.example.org", "survival"),
        ("SURVIVAL.Example.org.", "survival"),
        ("survival.example.org\0FML3\0", "survival"),
        ("survival.example.org///192.0.2.7:1///2", "survival"),
        (&long, "survival"),
        ("creative.example.org", "creative"),
        ("example.org", "lobby"),
        ("127.0.0.1", "lobby"),
        ("", "lobby"),
    ] {
        assert_eq!(motd(address, host), expected, "{host}");
    }
    // A handshake in pieces, with pauses.
    let mut client = connect(address);
    let mut request = handshake("creative.example.org", Intent::Status);
    write_status_request(&mut request);
    std::thread::sleep(Duration::from_millis(150));
    for piece in request.chunks(9) {
        client.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(150));
    }
    client.shutdown(Shutdown::Write).unwrap();
    assert!(rest(&mut client).contains("creative"));
    // Old forms: with a host, and without.
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_be_bytes).collect() };
    let read = |bytes: &[u8]| {
        let mut client = connect(address);
        client.write_all(bytes).unwrap();
        rest(&mut client).replace('\0', "")
    };
    let old_login = [
        b"\x02\0\x25".to_vec(),
        utf16("Alice;survival.example.org:25565....."),
    ]
    .concat();
    assert!(read(&old_login).contains("no survival"));
    let login = [
        b"\x02\x27\0\x05".to_vec(),
        utf16("Alice"),
        b"\0\x14".to_vec(),
        utf16("survival.example.org"),
        vec![0, 0, 99, 221],
    ]
    .concat();
    assert!(read(&login).contains("no survival"));
    assert!(read(b"\xFE\x01").contains("lobby"));
    assert!(read(b"\xFE").contains("lobby"));
    hailer::blocking::query(format!("minecraft-query://{address}")).unwrap();
    // Each has its own counters and its own door.
    let connections: Vec<u64> = pool
        .counts()
        .iter()
        .map(|one| one.counts.connections)
        .collect();
    assert_eq!(connections, [5 + 2, 1 + 1, 3 + 2]);
    let _client = {
        let mut client = connect(address);
        client
            .write_all(&join_as("Creative.example.org.", "Bob"))
            .unwrap();
        client
    };
    until(
        || matches!(requests.try_recv(), Ok(Request::Join { attempt, .. }) if attempt.host == "creative.example.org"),
    );
    drop(entrance);
    // A reload with a different order keeps the sockets and counters.
    let reordered = [&lobby, &creative].map(|board| listener(address, board));
    pool.reload(reordered.into()).unwrap();
    assert_eq!(motd(address, "survival.example.org"), "lobby");
    assert_eq!(motd(address, "creative.example.org"), "creative");
    hailer::blocking::query(format!("minecraft-query://{address}")).unwrap();
    let counts = pool.counts();
    assert_eq!(counts[0].counts.connections, 5 + 1);
    assert_eq!(counts[1].counts.connections, 2 + 1 + 1);
    until(|| pool.counts()[0].counts.received == 4);
    // Without a default, unknown hosts get nothing.
    pool.reload(vec![
        listener(address, &survival),
        listener(address, &creative),
    ])
    .unwrap();
    assert_eq!(motd(address, "survival.example.org"), "survival");
    assert_eq!(motd(address, "unknown.example.org"), "none");
    assert_eq!(read(b"\xFE\x01"), "");
    let target: Target = format!("minecraft-status://{address}").parse().unwrap();
    assert!(hailer::blocking::query(target).is_err());
}

/// Versions that the packages of npm know, from the oldest to the newest: one of each form of the
/// login. `HAILER_TEST_ALL_VERSIONS` adds the others.
const VERSIONS: &[&str] = &[
    "1.7", "1.8.8", "1.12.2", "1.16.5", "1.19", "1.20.1", "1.20.4", "1.21.4", "26.1",
];
/// The other versions.
const OTHER_VERSIONS: &[&str] = &[
    "1.9.4", "1.10.2", "1.11.2", "1.13.2", "1.14.4", "1.15.2", "1.17.1", "1.18.2", "1.19.2",
    "1.19.3", "1.19.4", "1.20", "1.20.2", "1.20.6", "1.21.1", "1.21.3", "1.21.5", "1.21.6",
    "1.21.8", "1.21.9", "1.21.11",
];

/// Real clients join through the door: they are held until the game runs.
#[test]
fn clients_of_node_join_through_the_door() {
    let Some(mut clients) =
        hailer_testkit::npm::run_module("mineflayer", include_str!("passage.mjs"))
    else {
        return;
    };
    let mut versions = VERSIONS.to_vec();
    if std::env::var_os("HAILER_TEST_ALL_VERSIONS").is_some() {
        versions.extend(OTHER_VERSIONS);
    }
    // The version that mineflayer chooses is that of the status.
    let status = Status {
        motd: Some(Text::unformatted("here")),
        version: Some("1.20.1".into()),
        extra: vec![Extra::new("protocol", 763)],
        ..Status::default()
    };
    let board = Board::new(&[&minecraft_status::PROTOCOL], &status).unwrap();
    let (board, entrance, mut requests) = with_door(board);
    let (pool, door) = start(&[board]);
    let port = TcpListener::bind(ANY).unwrap().local_addr().unwrap().port();
    let game = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    clients.args([door.port(), port].map(|port| port.to_string()));
    clients.args(&versions);
    let mut clients = clients.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(clients.stdout.take().unwrap()).lines();
    // The door of each client opens a while after it has knocked, and closes when it has joined.
    let opening = entrance.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let opener = std::thread::spawn(move || {
        let mut names = Vec::new();
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
            if let Ok(Request::Join { attempt, .. }) = requests.try_recv() {
                names.push((attempt.name.to_string(), attempt.host.to_string()));
                let game = Some(game);
                opening.show(View {
                    state: State::Starting,
                    game,
                });
                std::thread::sleep(Duration::from_millis(100));
                opening.show(View {
                    state: State::Running,
                    game,
                });
            }
        }
        names
    });
    let mut joined = Vec::new();
    for line in lines {
        joined.push(line.unwrap());
        entrance.show(View::default());
    }
    assert!(clients.wait().unwrap().success(), "after {joined:?}");
    let expected: Vec<String> = versions
        .iter()
        .chain(&["mineflayer"])
        .map(|version| format!("joined {version}"))
        .collect();
    assert_eq!(joined, expected);
    assert_eq!(counts(&pool).relayed_connections, expected.len() as u64);
    is_over.store(true, Ordering::Relaxed);
    let names = opener.join().unwrap();
    let expected = versions.iter().map(|version| {
        (
            format!("P{}", version.replace('.', "_")),
            "mc.example.org".to_owned(),
        )
    });
    let expected: Vec<_> = expected
        .chain([("Bot".into(), "127.0.0.1".into())])
        .collect();
    assert_eq!(names, expected);
}
