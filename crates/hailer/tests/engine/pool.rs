//! The responder pool on real sockets.

use hailer::Status;
use hailer::door::Entrance;
use hailer::proto::Text;
use hailer::proto::minecraft_query;
use hailer::proto::{Keys, Options, Protocol, registry};
use hailer::respond::{Board, Budget, ListenerConfig, PoolConfig, ResponderPool};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const HANDSHAKE: &[u8] = b"\xFE\xFD\x09\x01\x02\x03\x04";
const WAIT: Duration = Duration::from_secs(5);

fn status(motd: &str) -> Status {
    Status {
        motd: Some(Text::unformatted(motd)),
        ..Status::default()
    }
}

pub(super) fn board(motd: &str) -> Board {
    let protocols = registry::datagram_responders()
        .map(|protocol| (protocol, Options::default()))
        .collect();
    Board::with_options(protocols, Keys::new([7; 16]), &status(motd)).unwrap()
}

pub(super) fn post(address: &str, board: &Board) -> ListenerConfig {
    ListenerConfig {
        address: address.parse().unwrap(),
        board: board.clone(),
        relay: None,
        inherited: None,
    }
}

pub(super) fn config(workers: usize) -> PoolConfig {
    let mut config = PoolConfig::default();
    config.workers = workers;
    config.is_portable = is_portable();
    config
}

/// Returns whether this is the copy of the tests for the portable implementation.
fn is_portable() -> bool {
    module_path!().ends_with("portable")
}

/// Returns a client at its own address that receives from the server only.
pub(super) fn client(from: &str, to: SocketAddr) -> UdpSocket {
    // macOS has one loopback address.
    let socket = UdpSocket::bind((from, 0)).or_else(|_| UdpSocket::bind("127.0.0.1:0"));
    let socket = socket.unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket
}

fn exchange(client: &UdpSocket, request: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = [0; 4_096];
    client.send(request).unwrap();
    match client.recv(&mut buffer) {
        Ok(length) => Some(buffer[..length].to_vec()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Runs a full query. Returns the MOTD of the answer.
pub(super) fn ask(client: &UdpSocket) -> Option<String> {
    let challenge = exchange(client, HANDSHAKE)?;
    let token: i32 = std::str::from_utf8(&challenge[5..challenge.len() - 1])
        .unwrap()
        .parse()
        .unwrap();
    let stat = exchange(
        client,
        &[
            b"\xFE\xFD\x00\x01\x02\x03\x04",
            &token.to_be_bytes()[..],
            &[0; 4],
        ]
        .concat(),
    )?;
    let text = String::from_utf8_lossy(&stat[25..]).into_owned();
    text.split('\0').next().map(ToOwned::to_owned)
}

fn dropped(pool: &ResponderPool, reason: &str) -> u64 {
    pool.counts()
        .iter()
        .filter_map(|done| done.counts.dropped.get(reason))
        .sum()
}

/// Waits for a condition: workers publish their counters several times per second.
pub(super) fn until(mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < WAIT, "timed out");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn answers_the_published_status_and_can_be_silenced() {
    let board = board("old");
    let pool = ResponderPool::start(vec![post("127.0.0.1:0", &board)], &config(2)).unwrap();
    let client = client("127.0.0.1", pool.addresses()[0]);
    assert_eq!(ask(&client).as_deref(), Some("old"));
    board.publish(&status("new")).unwrap();
    assert_eq!(ask(&client).as_deref(), Some("new"));
    board.silence();
    board.rotate([8; 16]).unwrap();
    client
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    assert_eq!(ask(&client), None);
    until(|| dropped(&pool, "stale") == 1);
    board.publish(&status("back")).unwrap();
    client.set_read_timeout(Some(WAIT)).unwrap();
    assert_eq!(ask(&client).as_deref(), Some("back"));
}

#[test]
fn a_reload_under_load_loses_no_query() {
    let keys = || Keys::new([7; 16]);
    let fresh = |motd: &str| {
        Board::with_options(
            vec![(
                &minecraft_query::PROTOCOL as &dyn Protocol,
                Options::default(),
            )],
            keys(),
            &status(motd),
        )
        .unwrap()
    };
    let pool = ResponderPool::start(vec![post("127.0.0.1:0", &fresh("0"))], &config(2)).unwrap();
    let address = pool.addresses()[0];
    let stop = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    let lost = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let stop = &stop;
            let sent = &sent;
            let lost = &lost;
            scope.spawn(move || {
                let client = client(&format!("127.0.{i}.1"), address);
                while !stop.load(Ordering::Relaxed) {
                    sent.fetch_add(1, Ordering::Relaxed);
                    lost.fetch_add(u64::from(ask(&client).is_none()), Ordering::Relaxed);
                }
            });
        }
        for i in 1..=40 {
            std::thread::sleep(Duration::from_millis(25));
            // A different status board, and a second address that comes and goes. The first is
            // configured as port 0.
            let mut posts = vec![post("127.0.0.1:0", &fresh(&i.to_string()))];
            posts.extend((i % 2 == 0).then(|| post("[::1]:0", &board("second"))));
            pool.reload(posts).unwrap();
            assert_eq!(pool.addresses()[0], address);
        }
        assert_eq!(ask(&client("127.0.0.1", address)).as_deref(), Some("40"));
        stop.store(true, Ordering::Relaxed);
    });
    let sent = sent.into_inner();
    let lost = lost.into_inner();
    assert!(sent > 500 && lost == 0, "{lost} of {sent} lost");
}

#[test]
fn an_address_in_use_changes_nothing() {
    let taken = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let board = board("still");
    let pool = ResponderPool::start(vec![post("127.0.0.1:0", &board)], &config(2)).unwrap();
    let address = pool.addresses()[0];
    let hold = UdpSocket::bind(taken).unwrap();
    let posts = || {
        vec![
            post("127.0.0.1:0", &board),
            post(&taken.to_string(), &board),
        ]
    };
    assert_eq!(pool.reload(posts()).unwrap_err().address, taken);
    assert_eq!(pool.addresses(), [address]);
    assert_eq!(ask(&client("127.0.0.1", address)).as_deref(), Some("still"));
    drop(hold);
    pool.reload(posts()).unwrap();
    assert_eq!(ask(&client("127.0.0.1", taken)).as_deref(), Some("still"));
    let twice = vec![
        post(&taken.to_string(), &board),
        post(&taken.to_string(), &board),
    ];
    assert_eq!(
        pool.reload(twice).unwrap_err().address,
        taken,
        "two listeners with the same address must be refused"
    );
}

/// Starts a pool with a relay to a game server.
fn relayed(sessions: usize, idle: Duration) -> (UdpSocket, ListenerConfig, PoolConfig) {
    let game = UdpSocket::bind("127.0.0.1:0").unwrap();
    game.set_read_timeout(Some(WAIT)).unwrap();
    let mut listener = post("127.0.0.1:0", &board("front"));
    listener.relay = Some(Entrance::always_open(game.local_addr().ok()));
    let mut config = config(1);
    config.relay_sessions = sessions;
    config.relay_idle = idle;
    (game, listener, config)
}

/// Asserts that the game server receives these bytes. Returns the sender's address.
fn receive(game: &UdpSocket, expected: &[u8]) -> SocketAddr {
    let mut buffer = [0; 2_048];
    let (length, from) = game.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], expected);
    from
}

/// Sends from the client, replies with a challenge from the game server, and sends the challenge from
/// the client. Returns the client address that the game server sees.
fn join(client: &UdpSocket, game: &UdpSocket) -> SocketAddr {
    client.send(b"login").unwrap();
    let session = receive(game, b"login");
    let challenge = u64::from(session.port()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let challenge = challenge.to_be_bytes();
    game.send_to(&challenge, session).unwrap();
    let mut buffer = [0; 64];
    assert_eq!(client.recv(&mut buffer).unwrap(), challenge.len());
    client.send(&buffer[..challenge.len()]).unwrap();
    assert_eq!(receive(game, &challenge), session);
    session
}

#[test]
fn relays_unclaimed_datagrams_and_the_replies() {
    let (game, listener, config) = relayed(2, Duration::from_secs(2));
    let pool = ResponderPool::start(vec![listener.clone()], &config).unwrap();
    let address = pool.addresses()[0];
    let [one, two, three] = [(); 3].map(|()| client("127.0.0.1", address));
    let [as_one, as_two] = [&one, &two].map(|client| join(client, &game));
    assert_ne!(as_one, as_two, "each player must have a separate session");
    three.send(b"too many").unwrap();
    until(|| dropped(&pool, "relay full") == 1);
    let long = vec![0x55; 1_400];
    for _ in 0..80 {
        game.send_to(&long, as_two).unwrap();
    }
    game.send_to(b"hello", as_one).unwrap();
    let mut buffer = [0; 2_048];
    assert_eq!(one.recv(&mut buffer).unwrap(), b"hello".len());
    for _ in 0..80 {
        assert_eq!(two.recv(&mut buffer).unwrap(), long.len());
    }
    assert_eq!(
        ask(&one).as_deref(),
        Some("front"),
        "queries must not be relayed"
    );
    // A reload with the same game server keeps the sessions.
    pool.reload(vec![listener]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    one.send(b"still me").unwrap();
    assert_eq!(receive(&game, b"still me"), as_one);
    until(|| pool.counts()[0].counts.sessions == 0);
    three.send(b"now there is room").unwrap();
    receive(&game, b"now there is room");
    let counts = &pool.stop()[0].counts;
    assert_eq!((counts.relayed, counts.relayed_back), (6, 83));
}

#[test]
fn relayed_replies_to_an_unverified_source_keep_the_ratio() {
    let (game, listener, mut config) = relayed(8, Duration::from_secs(60));
    config.budget.is_loopback_limited = true;
    let pool = ResponderPool::start(vec![listener], &config).unwrap();
    let victim = client("127.0.0.1", pool.addresses()[0]);
    victim.send(b"20 bytes of junk ...").unwrap();
    let session = receive(&game, b"20 bytes of junk ...");
    for _ in 0..50 {
        game.send_to(&[9; 20], session).unwrap();
    }
    until(|| dropped(&pool, "relay ratio") >= 47);
    victim.send(b"20 bytes of junk ...").unwrap();
    receive(&game, b"20 bytes of junk ...");
    game.send_to(&[9; 1_200], session).unwrap();
    until(|| dropped(&pool, "relay ratio") == 48);
    let counts = &pool.stop()[0].counts;
    assert_eq!(counts.relayed_back, 3);
}

#[test]
fn limits_replies_to_unverified_sources() {
    let mut config = config(2);
    config.budget = Budget::default();
    config.budget.is_loopback_limited = true;
    config.budget.unverified_packets = 10;
    let pool = ResponderPool::start(vec![post("127.0.0.1:0", &board("poor"))], &config).unwrap();
    let client = client("127.0.0.1", pool.addresses()[0]);
    client
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    (0..200).for_each(|_| assert_eq!(client.send(HANDSHAKE).unwrap(), HANDSHAKE.len()));
    let packets = (0..)
        .take_while(|_| client.recv(&mut [0; 64]).is_ok())
        .count();
    assert!((40..=50).contains(&packets), "a burst of 4 s: {packets}");
    until(|| dropped(&pool, "budget") == 200 - packets as u64);
}

#[test]
fn answers_on_an_inherited_socket() {
    let handed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut taken = post(&handed.local_addr().unwrap().to_string(), &board("handed"));
    taken.inherited = Some([handed].into());
    let pool = ResponderPool::start(
        vec![taken.clone(), post("127.0.0.1:0", &board("own"))],
        &config(2),
    )
    .unwrap();
    for (i, address) in pool.addresses().into_iter().enumerate() {
        let expected = ["handed", "own"][i];
        (1..8).for_each(|i| {
            assert_eq!(
                ask(&client(&format!("127.0.{i}.1"), address)).as_deref(),
                Some(expected)
            );
        });
    }
    pool.reload(vec![taken.clone()]).unwrap();
    assert_eq!(
        ask(&client("127.0.0.1", taken.address)).as_deref(),
        Some("handed")
    );
}

#[test]
fn applies_new_settings_without_a_restart() {
    let (game, listener, mut config) = relayed(1, Duration::from_secs(60));
    config.budget.is_loopback_limited = true;
    let pool = ResponderPool::start(vec![listener], &config).unwrap();
    let [one, two] = [(); 2].map(|()| client("127.0.0.1", pool.addresses()[0]));
    join(&one, &game);
    two.send(b"two").unwrap();
    until(|| dropped(&pool, "relay full") == 1);
    config.workers = 7;
    config.relay_sessions = 2;
    config.budget.unverified_packets = 1;
    config.budget.unverified_total = 512 << 10;
    pool.configure(&config);
    until(|| pool.remaining_budget().bytes_per_second == 512 << 10);
    assert_eq!((pool.workers(), pool.config().relay_sessions), (1, 2));
    two.send(b"two").unwrap();
    assert!(
        game.recv(&mut [0; 16]).is_ok(),
        "the new limit must permit another session"
    );
    (0..20).for_each(|_| assert_eq!(two.send(HANDSHAKE).unwrap(), HANDSHAKE.len()));
    two.set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let packets = (0..).take_while(|_| two.recv(&mut [0; 64]).is_ok()).count();
    assert!(
        (3..=4).contains(&packets),
        "1 per second, and a burst of 4 with one spent on the relay: {packets}"
    );
}
