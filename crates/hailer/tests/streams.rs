//! Stream protocols of the responder pool, on loopback only.
#![cfg(unix)]

use hailer::client::ClientConfig;
use hailer::proto::Text;
use hailer::proto::minecraft_query;
use hailer::proto::protocol::JoinAttempt;
use hailer::proto::wire::{self, Notes};
use hailer::proto::{
    Ask, Connection, ConnectionStep, Cookie, DatagramContext, Epoch, Exchange, Explanation, Info,
    Keys, Options, Protocol, Received, Responder, ResponderResult, Transport, Verdict, registry,
};
use hailer::respond::{Board, Counts, ListenerConfig, PoolConfig, ResponderPool};
use hailer::support::listen::ConnectionLimits;
use hailer::{Client, Status, Target};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(10);
/// Reply to `big`, larger than the buffers of a connection.
const BIG_REPLY: usize = 32 << 20;

/// A protocol of lines. The first byte of a connection is its own.
struct Lines {
    info: Info,
    first: u8,
}

const fn info(id: &'static str) -> Info {
    Info {
        id,
        title: id,
        port: 1,
        has_responder: true,
        ..Info::CONNECTED
    }
}

static A_LINES: Lines = Lines {
    info: info("a-lines"),
    first: b'a',
};
static B_LINES: Lines = Lines {
    info: info("b-lines"),
    first: b'b',
};

struct LineResponder(u8, Arc<str>);

struct LineConnection {
    first: u8,
    motd: Arc<str>,
    has_consumed: bool,
    join: Option<JoinAttempt>,
}

impl Protocol for Lines {
    fn info(&self) -> &'static Info {
        match self.first {
            b'a' => &A_LINES.info,
            _ => &B_LINES.info,
        }
    }

    fn exchange(&self, _: &Ask, _: Cookie) -> Box<dyn Exchange> {
        unreachable!("only the server is tested")
    }

    fn responder(&self, status: &Status, _: &Keys, _: &Options) -> ResponderResult {
        let motd = status.motd.as_ref().map_or("", Text::raw);
        Ok(Arc::new(LineResponder(self.first, motd.into())))
    }

    fn explain(&self, _: &[u8], _: DatagramContext<'_>, _: &mut Notes) -> Option<Explanation> {
        None
    }
}

impl Responder for LineResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(LineConnection {
            first: self.0,
            motd: self.1.clone(),
            has_consumed: false,
            join: None,
        }))
    }
}

impl Connection for LineConnection {
    fn receive(&mut self, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        let mut consumed = 0;
        let mut step = ConnectionStep::Wait;
        if !self.has_consumed && bytes.first() != Some(&self.first) {
            step = ConnectionStep::Pass;
        }
        while let (ConnectionStep::Wait, Some(length)) = (
            step,
            bytes[consumed..].iter().position(|byte| *byte == b'\n'),
        ) {
            let line = &bytes[consumed..consumed + length];
            consumed += length + 1;
            self.has_consumed = true;
            match line.strip_prefix(&[self.first]).unwrap_or(line) {
                b"status" => out.extend_from_slice(format!("{}\n", self.motd).as_bytes()),
                b"big" => out.resize(out.len() + BIG_REPLY, b'.'),
                b"bye" => step = ConnectionStep::Close,
                b"join" => {
                    self.join = Some(JoinAttempt {
                        name: "Alice".into(),
                        ..JoinAttempt::default()
                    });
                    out.extend_from_slice(b"later\n");
                    step = ConnectionStep::Close;
                }
                b"skip" => {}
                _ => step = ConnectionStep::Bad(wire::Error::bad("line", 0, "a known one")),
            }
        }
        Received { consumed, step }
    }

    fn join_attempt(&self) -> Option<&JoinAttempt> {
        self.join.as_ref()
    }
}

fn status(motd: &str) -> Status {
    Status {
        motd: Some(Text::unformatted(motd)),
        ..Status::default()
    }
}

fn board(motd: &str) -> Board {
    Board::new(
        &[&minecraft_query::PROTOCOL, &A_LINES, &B_LINES],
        &status(motd),
    )
    .unwrap()
}

fn listener(address: SocketAddr, board: &Board) -> ListenerConfig {
    ListenerConfig {
        address,
        board: board.clone(),
        relay: None,
        inherited: None,
    }
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn config(limits: ConnectionLimits) -> PoolConfig {
    let mut config = PoolConfig::default();
    config.workers = 1;
    config.connections = limits;
    config
}

/// Starts a pool with one listener.
fn start(board: &Board, limits: ConnectionLimits) -> (ResponderPool, SocketAddr) {
    let pool = ResponderPool::start(vec![listener(ANY, board)], &config(limits)).unwrap();
    let address = pool.addresses()[0];
    (pool, address)
}

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        first_byte: WAIT,
        idle: Some(WAIT),
        stalled: WAIT,
        lifetime: Some(2 * WAIT),
        ..ConnectionLimits::default()
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

/// Sends bytes and returns everything until the end of the connection.
fn converse(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(bytes).unwrap();
    rest(&mut stream)
}

/// Reads until the end of the connection, or until it is reset.
fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    String::from_utf8(text).unwrap()
}

fn counts(pool: &ResponderPool) -> Counts {
    pool.counts()[0].counts.clone()
}

fn dropped(pool: &ResponderPool, reason: &str) -> u64 {
    counts(pool).dropped.get(reason).copied().unwrap_or(0)
}

fn until(mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < WAIT, "timed out");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn both_transports_share_a_port() {
    let (pool, address) = start(&board("here"), limits());
    assert_eq!(converse(address, b"astatus\nbye\n"), "here\n");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(WAIT)).unwrap();
    client
        .send_to(b"\xFE\xFD\x09\x01\x02\x03\x04", address)
        .unwrap();
    assert!(client.recv(&mut [0; 64]).unwrap() > 5);
    until(|| counts(&pool).received == 1);
    let counts = counts(&pool);
    assert_eq!((counts.connections, counts.answered), (1, 1));
    let of = |id| {
        let mut all = counts.by_protocol.iter();
        all.find(|of| of.id == id)
            .map(|of| (of.requests, of.answered, of.unverified))
    };
    assert_eq!(of("a-lines"), Some((1, 1, 0)));
    assert_eq!(of("minecraft-query"), Some((1, 0, 1)));
    assert_eq!(of("b-lines"), None);
    assert_eq!((counts.bytes_in, counts.bytes_out >= 5), (12 + 7, true));
    assert!(counts.dropped.is_empty(), "{:?}", counts.dropped);
}

#[test]
fn requests_may_be_split_at_every_byte() {
    let (pool, address) = start(&board("split"), limits());
    let request = b"astatus\nskip\nstatus\nbye\n";
    for split in 0..=request.len() {
        let mut stream = connect(address);
        stream.write_all(&request[..split]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        stream.write_all(&request[split..]).unwrap();
        assert_eq!(rest(&mut stream), "split\nsplit\n", "{split}");
    }
    let mut stream = connect(address);
    for byte in request {
        stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(rest(&mut stream), "split\nsplit\n");
    assert_eq!(counts(&pool).answered, request.len() as u64 + 2);
}

#[test]
fn the_first_protocol_that_knows_the_bytes_answers() {
    let (pool, address) = start(&board("mine"), limits());
    assert_eq!(converse(address, b"bstatus\nbye\n"), "mine\n");
    assert_eq!(converse(address, b"cstatus\n"), "");
    assert_eq!(converse(address, b"awhat?\n"), "");
    assert_eq!(converse(address, b"astatus\nwhat?\n"), "mine\n");
    assert_eq!(converse(address, b"abye\n"), "");
    until(|| counts(&pool).open_connections == 0);
    let counts = counts(&pool);
    let of = counts.by_protocol.iter();
    let of: Vec<_> = of.map(|of| (of.id, of.requests, of.answered)).collect();
    assert_eq!(of, [("b-lines", 1, 1), ("a-lines", 3, 1)]);
    assert_eq!(counts.connections, 5);
    let dropped: Vec<_> = counts.dropped.into_iter().collect();
    assert_eq!(
        dropped,
        [("malformed", 1), ("no query", 1), ("unfinished", 1)]
    );
}

#[test]
fn bytes_after_the_last_request_do_not_lose_the_reply() {
    let (_pool, address) = start(&board("whole"), limits());
    let request = [b"astatus\nbye\n", &[b'.'; 20_000][..]].concat();
    for _ in 0..20 {
        let mut stream = connect(address);
        // The server may have closed the connection before the last bytes.
        let _ = stream.write_all(&request);
        assert_eq!(rest(&mut stream), "whole\n");
    }
}

#[test]
fn silent_and_dripping_clients_are_closed() {
    let limits = ConnectionLimits {
        first_byte: Duration::from_millis(200),
        lifetime: Some(Duration::from_millis(600)),
        ..limits()
    };
    let (pool, address) = start(&board("slow"), limits);
    let started = Instant::now();
    assert_eq!(rest(&mut connect(address)), "");
    assert!(started.elapsed() >= limits.first_byte);
    let mut dripping = connect(address);
    while dripping.write_all(b"a").is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(started.elapsed() >= limits.first_byte + limits.lifetime.unwrap());
    until(|| dropped(&pool, "slow") == 2);
    assert_eq!(converse(address, b"astatus\nbye\n"), "slow\n");
}

#[test]
fn clients_that_close_their_side_get_their_reply() {
    let (pool, address) = start(&board("half"), limits());
    let mut stream = connect(address);
    stream.write_all(b"astatus\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), "half\n");
    for part in [&b""[..], b"asta"] {
        let mut stream = connect(address);
        stream.write_all(part).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(&mut stream), "");
    }
    until(|| dropped(&pool, "unfinished") == 2);
    assert_eq!(counts(&pool).answered, 1);
}

#[test]
fn new_clients_are_answered_in_a_flood_of_idle_connections() {
    let limits = ConnectionLimits {
        total: 16,
        ..limits()
    };
    let (pool, address) = start(&board("open"), limits);
    let flood: Vec<_> = (0..100).map(|_| connect(address)).collect();
    assert_eq!(converse(address, b"astatus\nbye\n"), "open\n");
    until(|| dropped(&pool, "evicted") >= 85);
    assert!(counts(&pool).open_connections <= 16);
    // A reload may change the limits.
    pool.configure(&config(ConnectionLimits { total: 4, ..limits }));
    drop(flood);
    until(|| counts(&pool).open_connections == 0);
    let _flood: Vec<_> = (0..20).map(|_| connect(address)).collect();
    until(|| counts(&pool).connections == 121);
    assert_eq!(counts(&pool).open_connections, 4);
}

#[test]
fn long_input_is_bounded() {
    let (pool, address) = start(&board("bounded"), limits());
    // Nothing is claimed, and nothing is consumed.
    for (prefix, length) in [(&b"a"[..], 5_000), (b"askip\n", 9_000)] {
        let mut stream = connect(address);
        let _ = stream.write_all(&[prefix, &vec![b'x'; length]].concat());
        assert_eq!(rest(&mut stream), "");
    }
    // Everything is consumed.
    let mut stream = connect(address);
    let _ = stream.write_all(&[b"a", &b"skip\n".repeat(14_000)[..]].concat());
    assert_eq!(rest(&mut stream), "");
    until(|| dropped(&pool, "oversized") == 3);
    assert!(counts(&pool).bytes_in <= 5_000 + 9_100 + 64 * 1_024 + 3 * 1_024);
}

#[test]
fn replies_to_one_source_have_a_budget() {
    let mut config = config(limits());
    config.budget.is_loopback_limited = true;
    config.budget.verified_packets = 2;
    let listeners = vec![listener(ANY, &board("Hi"))];
    let pool = ResponderPool::start(listeners, &config).unwrap();
    let address = pool.addresses()[0];
    // The burst is 4 s.
    for _ in 0..8 {
        assert_eq!(converse(address, b"astatus\nbye\n"), "Hi\n");
    }
    assert_eq!(converse(address, b"astatus\n"), "");
    until(|| dropped(&pool, "budget") == 1);
    // A larger budget applies to the next connection.
    config.budget.verified_packets = 200;
    pool.configure(&config);
    until(|| converse(address, b"astatus\nbye\n") == "Hi\n");
}

#[test]
fn clients_that_do_not_read_are_closed() {
    let limits = ConnectionLimits {
        stalled: Duration::from_millis(300),
        ..limits()
    };
    let (pool, address) = start(&board("stalled"), limits);
    let mut stream = connect(address);
    stream.write_all(b"abig\n").unwrap();
    until(|| counts(&pool).unsent == 1);
    until(|| counts(&pool).open_connections == 0);
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    assert!(received.len() < BIG_REPLY);
}

#[test]
fn connections_see_the_current_status() {
    let board = board("one");
    let (pool, address) = start(&board, limits());
    let mut early = connect(address);
    assert_eq!(converse(address, b"astatus\nbye\n"), "one\n");
    board.publish(&status("two")).unwrap();
    early.write_all(b"astatus\nbye\n").unwrap();
    assert_eq!(rest(&mut early), "two\n");
    board.silence();
    assert_eq!(converse(address, b"astatus\nbye\n"), "");
    assert_eq!(dropped(&pool, "stale"), 1);
    board.publish(&status("three")).unwrap();
    assert_eq!(converse(address, b"astatus\nbye\n"), "three\n");
}

#[test]
fn join_attempts_are_reported_once() {
    let board = board("asleep");
    let (pool, address) = start(&board, limits());
    assert_eq!(converse(address, b"ajoin\n"), "later\n");
    let (sender, attempts) = std::sync::mpsc::channel();
    board.on_join(move |source, attempt| {
        let _ = sender.send((source, attempt.clone()));
    });
    let mut stream = connect(address);
    let source = stream.local_addr().unwrap();
    stream.write_all(b"astatus\n").unwrap();
    stream.write_all(b"join\n").unwrap();
    assert_eq!(rest(&mut stream), "asleep\nlater\n");
    let (from, attempt) = attempts.recv_timeout(WAIT).unwrap();
    assert_eq!((from, attempt.name.as_str()), (source, "Alice"));
    // Attempts count without a current status, too.
    board.silence();
    assert_eq!(converse(address, b"ajoin\n"), "");
    assert_eq!(attempts.recv_timeout(WAIT).unwrap().1, attempt);
    assert_eq!(converse(address, b"abye\n"), "");
    assert!(attempts.try_recv().is_err());
    assert_eq!(counts(&pool).join_attempts, 3);
}

#[test]
fn a_reload_keeps_sockets_whose_address_stays() {
    let (pool, address) = start(&board("old"), limits());
    let mut early = connect(address);
    let new = board("new");
    // The port is fixed now, and the configured one is still 0.
    pool.reload(vec![listener(ANY, &new), listener(ANY, &new)])
        .unwrap();
    assert_eq!(pool.addresses()[0], address);
    early.write_all(b"astatus\nbye\n").unwrap();
    assert_eq!(rest(&mut early), "new\n");
    assert_eq!(converse(address, b"astatus\nbye\n"), "new\n");
    let second = pool.addresses()[1];
    assert_ne!(second, address);
    assert_eq!(converse(second, b"astatus\nbye\n"), "new\n");
    assert_eq!(counts(&pool).connections, 2);

    // Connections that were made before the end of their listener are answered.
    let mut late = connect(second);
    late.write_all(b"astatus\nbye\n").unwrap();
    pool.reload(vec![listener(ANY, &new)]).unwrap();
    assert_eq!(rest(&mut late), "new\n");
    until(|| TcpStream::connect(second).is_err());

    // A stream protocol may come and go. Its connections stay open, and its socket does not.
    let mut open = connect(address);
    open.write_all(b"astatus\n").unwrap();
    assert_eq!(open.read(&mut [0; 64]).unwrap(), 4);
    let datagrams = Board::new(&[&minecraft_query::PROTOCOL], &status("udp")).unwrap();
    pool.reload(vec![listener(ANY, &datagrams)]).unwrap();
    assert_eq!(pool.addresses(), [address]);
    until(|| TcpStream::connect(address).is_err());
    pool.reload(vec![listener(ANY, &new)]).unwrap();
    assert_eq!(pool.addresses(), [address]);
    assert_eq!(converse(address, b"astatus\nbye\n"), "new\n");
    open.write_all(b"status\nbye\n").unwrap();
    assert_eq!(rest(&mut open), "new\n");
}

#[test]
fn waiting_connections_are_answered_before_the_end() {
    let (pool, address) = start(&board("last"), limits());
    let mut streams: Vec<_> = (0..20).map(|_| connect(address)).collect();
    for stream in &mut streams {
        stream.write_all(b"astatus\nbye\n").unwrap();
    }
    let idle = connect(address);
    let counts = pool.stop();
    for stream in &mut streams {
        assert_eq!(rest(stream), "last\n");
    }
    assert_eq!(counts[0].counts.answered, 20);
    assert_eq!(counts[0].counts.open_connections, 0);
    drop(idle);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_port_in_use_is_an_error_of_its_transport() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let start = |board| ResponderPool::start(vec![listener(address, &board)], &config(limits()));
    let error = start(board("taken")).err().unwrap();
    assert_eq!(
        (error.address, error.transport, error.cause.kind()),
        (address, Transport::Stream, ErrorKind::AddrInUse)
    );
    assert!(error.to_string().contains("over TCP"), "{error}");
    // Datagrams alone do not need the TCP port.
    let pool = start(Board::new(&[&minecraft_query::PROTOCOL], &status("udp")).unwrap()).unwrap();
    let other = Board::new(&[&A_LINES], &status("tcp")).unwrap();
    let new = listener(address, &board("taken"));
    assert_eq!(
        pool.reload(vec![new]).unwrap_err().transport,
        Transport::Stream
    );
    assert_eq!(pool.addresses(), [address]);
    // Streams alone do not need the UDP port.
    drop((pool, taken));
    let _taken = UdpSocket::bind(address).unwrap();
    let pool = ResponderPool::start(vec![listener(address, &other)], &config(limits())).unwrap();
    assert_eq!(converse(address, b"astatus\nbye\n"), "tcp\n");
    drop(pool);
}

#[test]
fn the_client_reads_every_stream_protocol() {
    let responders = registry::responders();
    for protocol in &responders {
        if protocol.info().transport != Transport::Stream {
            continue;
        }
        let id = protocol.info().id;
        let status = protocol.sample(7);
        // Next to all others on the same port.
        let board = Board::new(&responders, &status).unwrap();
        let (pool, address) = start(&board, limits());
        let target: Target = format!("{id}://{address}").parse().unwrap();
        // Not the other protocols of a game with the same name.
        let target = target.with_protocol(*protocol);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = Client::new(ClientConfig::default());
        let answer = runtime.block_on(client.query(&target)).unwrap();
        assert_eq!(answer.transcript.protocol.id, id);
        assert_eq!(answer.status.players.max, status.players.max, "{id}");
        assert_eq!(counts(&pool).answered, 1, "{id}");
    }
}

/// Some servers send before the client: immediately on a separate port, and after a pause next to
/// other protocols.
#[test]
fn servers_that_send_first_wait_on_a_shared_port() {
    let sends_first = registry::find("seven-days").unwrap();
    let other = registry::find("minecraft-status").unwrap();
    for (protocols, wait) in [(&[sends_first][..], 0), (&[other, sends_first], 100)] {
        let board = Board::new(protocols, &status("here")).unwrap();
        let (pool, address) = start(&board, limits());
        let started = Instant::now();
        let mut stream = connect(address);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.contains("GameType:7DTD;"), "{text}");
        assert!(started.elapsed() >= Duration::from_millis(wait));
        assert_eq!(counts(&pool).answered, 1);
    }
}

/// Requests of clients before 1.7 have no end.
#[test]
fn a_pause_completes_requests_without_an_end() {
    let protocol = registry::find("minecraft-status").unwrap();
    let board = Board::new(&[protocol, &A_LINES], &status("here")).unwrap();
    let (pool, address) = start(&board, limits());
    let reply = |pieces: &[&[u8]]| {
        let mut stream = connect(address);
        for piece in pieces {
            stream.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let beta = reply(&[b"\xFE"]);
    assert!(
        beta.starts_with(b"\xFF\0\x08\0h\0e\0r\0e\0\xA7"),
        "{beta:02x?}"
    );
    let newer = reply(&[b"\xFE\x01"]);
    assert!(newer.starts_with(b"\xFF\0"), "{newer:02x?}");
    assert_ne!(newer, beta);
    assert_eq!(reply(&[b"\xFE", b"\x01"]), newer);
    assert_eq!(reply(&[b"\xFE", b"\x01", b"\xFA", b"\0\x0B"]), newer);
    assert_eq!(reply(&[b"\xFE\x01\xFA"]), newer);
    assert_eq!(counts(&pool).answered, 5);
    // A pause changes nothing for other protocols.
    let mut stream = connect(address);
    for piece in [b"asta", b"tus\n", b"bye\n"] {
        stream.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(150));
    }
    assert_eq!(rest(&mut stream), "here\n");
}

/// Every listener is answered, whichever one is queried and however many wait.
#[test]
fn any_number_of_listeners_is_answered() {
    for count in [1, 64, 65, 300, 2_000] {
        if 2 * count + 300 > hailer::sweep::max_connections() {
            eprintln!("skipped: {count} listeners need more open files than the system allows");
            continue;
        }
        let board = Board::new(&[&A_LINES], &status("here")).unwrap();
        let listeners = vec![listener(ANY, &board); count];
        let pool = ResponderPool::start(listeners, &config(limits())).unwrap();
        let addresses = pool.addresses();
        let query = |address: SocketAddr, how: &str| {
            let reply = converse(address, b"astatus\nbye\n");
            assert_eq!(reply, "here\n", "one of {count} listeners, {how}");
        };
        (0..5).for_each(|_| query(addresses[count / 2], "alone"));
        for address in &addresses {
            query(*address, "in turn");
        }
        // A linear congruential generator.
        let mut random = 1usize;
        for _ in 0..count {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            query(addresses[(random >> 33) % count], "in random order");
        }
        // Many clients that wait at the same time.
        let mut clients: Vec<_> = addresses
            .iter()
            .step_by(count.div_ceil(200))
            .map(|address| connect(*address))
            .collect();
        for client in &mut clients {
            client.write_all(b"astatus\nbye\n").unwrap();
        }
        for client in &mut clients {
            assert_eq!(rest(client), "here\n", "{count} listeners at the same time");
        }
        let answered: u64 = pool.stop().iter().map(|of| of.counts.answered).sum();
        assert_eq!(answered as usize, 5 + 2 * count + clients.len());
    }
}
