//! Detection in simulated time: how long it takes, how many datagrams it costs and what it finds, for
//! each protocol at its own port and at others. Each server has a separate loopback address, so
//! that it can have its usual port.

use hailer::client::{Answers, ClientConfig};
use hailer::proto::protocol::PAUSE_MS;
use hailer::proto::registry;
use hailer::proto::token::Keys;
use hailer::proto::{ConnectionStep, Epoch, Options, Protocol, Responder, Transport};
use hailer::respond::{Board, Budget, Service};
use hailer::{Client, Error, Status};
use hailer_testkit::golden;
use hailer_testkit::servers::{protocol, status};
use hailer_testkit::vector::{self, Line};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const ODD_PORT: u16 = 40_003;
const MINECRAFT: u16 = 25_565;
const MAX_DATAGRAMS: u32 = 12;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Behavior of a simulated port.
#[derive(Clone, Copy)]
enum At {
    Closed,
    /// Receives and never replies.
    Silent,
    Server(&'static dyn Protocol),
    /// OneQuery 1.x or HyQuery: replies only to requests of version 1.
    OneQuery1,
}

impl At {
    fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

/// A host with a port. Ends on drop.
struct HostServer {
    address: SocketAddr,
    datagrams: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl HostServer {
    /// Starts servers on an unused loopback address, which reply after `latency`.
    async fn start(port: u16, udp: &[At], tcp: At, latency: Duration) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let [.., high, low] = (std::process::id() ^ (number << 8)).to_be_bytes();
        let host = Ipv4Addr::new(127, 64 + (number >> 8) as u8, high, low.clamp(1, 254));
        let address = SocketAddr::from((host, port));
        let datagrams = Arc::new(AtomicU32::new(0));
        let mut tasks = JoinSet::new();
        if !udp.iter().any(At::is_closed) {
            let socket = Arc::new(UdpSocket::bind(address).await.unwrap());
            let mut servers: Vec<DatagramServer> =
                udp.iter().filter_map(DatagramServer::new).collect();
            let count = datagrams.clone();
            tasks.spawn(async move {
                let mut buffer = [0; 2_048];
                loop {
                    let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                    for server in &mut servers {
                        let replies = server.answer(from, &buffer[..length]);
                        let socket = socket.clone();
                        tokio::spawn(async move {
                            sleep(latency).await;
                            for reply in replies {
                                let _ = socket.send_to(&reply, from).await;
                            }
                        });
                    }
                }
            });
        }
        if !tcp.is_closed() {
            let listener = TcpListener::bind(address).await.unwrap();
            tasks.spawn(async move {
                let mut connections = JoinSet::new();
                loop {
                    let (stream, from) = listener.accept().await.unwrap();
                    connections.spawn(serve_stream(stream, from, tcp, latency));
                }
            });
        }
        Self {
            address,
            datagrams,
            _tasks: tasks,
        }
    }
}

fn sample() -> Status {
    status("Harbour", &["Alice", "Bob"])
}

/// A request of a recorded conversation with its replies.
type RecordedRequest = (Vec<u8>, Vec<Vec<u8>>);

enum DatagramServer {
    Responder(Box<Service>),
    Version1(Arc<dyn Responder>),
    Recorded(Vec<RecordedRequest>),
}

impl DatagramServer {
    fn new(at: &At) -> Option<Self> {
        let protocol = match at {
            At::Closed | At::Silent => return None,
            At::Server(protocol) => protocol,
            At::OneQuery1 => {
                let options = Options::default().with("v1", true);
                let keys = Keys::new([7; 16]);
                let responder = protocol("onequery").responder(&sample(), &keys, &options);
                return Some(Self::Version1(responder.unwrap()));
            }
        };
        Some(if protocol.info().has_responder {
            let board = Board::new(&[*protocol], &sample()).unwrap();
            Self::Responder(Box::new(Service::new(board, Budget::default())))
        } else {
            Self::Recorded(recorded(*protocol)?)
        })
    }

    fn answer(&mut self, from: SocketAddr, request: &[u8]) -> Vec<Vec<u8>> {
        match self {
            Self::Responder(service) => service.answer(from, request).map(<[u8]>::to_vec).collect(),
            Self::Version1(responder) => {
                let mut reply = Vec::new();
                if request.starts_with(b"HYQUERY\0") {
                    responder.answer(from, Epoch(1), request, &mut reply);
                }
                if reply.is_empty() {
                    Vec::new()
                } else {
                    vec![reply]
                }
            }
            Self::Recorded(pairs) => {
                let pair = pairs.iter().find(|(known, _)| known == request);
                pair.map(|(_, replies)| replies.clone()).unwrap_or_default()
            }
        }
    }
}

/// Returns the requests and replies of the first complete conversation of a protocol.
fn recorded(protocol: &'static dyn Protocol) -> Option<Vec<RecordedRequest>> {
    let conversations = vector::conversations(protocol);
    let complete = conversations.iter().find(|conversation| {
        let has_loss = conversation.lines.iter().any(|(_, line)| {
            matches!(
                line,
                Line::Timeout | Line::Bad(_) | Line::Fail(_) | Line::GiveUp
            )
        });
        conversation.ask.depth == hailer::proto::Depth::Full && !has_loss
    })?;
    let mut pairs: Vec<RecordedRequest> = Vec::new();
    for (_, line) in &complete.lines {
        match line {
            Line::Sent(bytes) | Line::SentMore(bytes) => pairs.push((bytes.clone(), Vec::new())),
            Line::Received(bytes) => pairs.last_mut()?.1.push(bytes.clone()),
            _ => {}
        }
    }
    Some(pairs)
}

/// Serves a connection; a silent one never ends.
async fn serve_stream(mut stream: TcpStream, from: SocketAddr, at: At, latency: Duration) {
    let At::Server(protocol) = at else {
        return std::future::pending().await;
    };
    let keys = Keys::new([7; 16]);
    let responder = protocol
        .responder(&sample(), &keys, &Options::default())
        .unwrap();
    let Some(mut connection) = responder.connection(from) else {
        return;
    };
    let mut out = Vec::new();
    let mut step = connection.open(&mut out);
    let mut unread = Vec::new();
    loop {
        if !out.is_empty() {
            sleep(latency).await;
            if stream.write_all(&out).await.is_err() {
                return;
            }
            out.clear();
        }
        if step != ConnectionStep::Wait {
            return;
        }
        let mut buffer = [0; 4_096];
        let received = match timeout(ms(PAUSE_MS), stream.read(&mut buffer)).await {
            Ok(Ok(length @ 1..)) => {
                unread.extend_from_slice(&buffer[..length]);
                connection.receive(Epoch(1), &unread, &mut out)
            }
            Ok(_) => return,
            Err(_) => connection.pause(&unread, &mut out),
        };
        unread.drain(..received.consumed.min(unread.len()));
        step = received.step;
    }
}

/// Result of one detection.
struct Found {
    result: Result<Answers, Error>,
    took: Duration,
    datagrams: u32,
}

impl Found {
    fn has(&self, id: &str) -> bool {
        let answers = self.result.as_ref().is_ok();
        answers
            && self
                .result
                .iter()
                .flatten()
                .any(|answer| answer.transcript.protocol.id == id)
    }

    fn ids(&self) -> Vec<&'static str> {
        let answers = self.result.iter().flatten();
        answers
            .map(|answer| answer.transcript.protocol.id)
            .collect()
    }
}

async fn detect(port: u16, udp: &[At], tcp: At, latency: Duration, scheme: &str) -> Found {
    let host = HostServer::start(port, udp, tcp, latency).await;
    let client = Client::new(ClientConfig::default());
    let started = Instant::now();
    let target = format!("{scheme}{}", host.address);
    let result = client.detect(target.as_str()).await;
    let took = started.elapsed();
    // Late datagrams count too.
    sleep(ms(2_000)).await;
    Found {
        result,
        took,
        datagrams: host.datagrams.load(Ordering::Relaxed),
    }
}

/// Returns what is at UDP and at TCP if a protocol is at one of them, and `other` at the other.
fn beside(protocol: &'static dyn Protocol, other: At) -> (At, At) {
    if protocol.info().transport == Transport::Datagram {
        (At::Server(protocol), other)
    } else {
        (other, At::Server(protocol))
    }
}

/// Returns the protocols that a test can simulate: those with a responder, and those whose recorded
/// requests do not depend on random numbers.
fn simulated() -> Vec<&'static dyn Protocol> {
    let mut protocols = registry::PROTOCOLS.to_vec();
    protocols.retain(|protocol| {
        let info = protocol.info();
        let is_recorded = || {
            info.transport == Transport::Datagram
                && recorded(*protocol).is_some_and(|pairs| {
                    let mut request = Vec::new();
                    let ask = hailer::proto::Ask::default();
                    let mut exchange = protocol.exchange(&ask, hailer::proto::Cookie(99));
                    exchange.handle(hailer::proto::Input::Start, &mut request);
                    pairs.first().is_some_and(|(first, _)| *first == request)
                })
        };
        protocol.info().service.is_none() && (info.has_responder || is_recorded())
    });
    protocols
}

#[tokio::test(start_paused = true)]
async fn detection_of_each_protocol_is_fast_and_quiet() {
    let mut table = String::from(
        "Time in ms, datagrams and result of `hailer query HOST:PORT`, for a server alone on its host.\n\
         The other transport at its port is closed or open and silent. -: not found; a word: the protocol found.\n\n",
    );
    let cases = [
        ("own port", None, At::Closed),
        ("own, open", None, At::Silent),
        ("odd port", Some(ODD_PORT), At::Closed),
        ("odd, open", Some(ODD_PORT), At::Silent),
        ("25565", Some(MINECRAFT), At::Closed),
        ("25565, open", Some(MINECRAFT), At::Silent),
    ];
    write!(table, "{:<18}", "protocol").unwrap();
    for (title, ..) in cases {
        write!(table, "{title:<23}").unwrap();
    }
    let mut complaints = Vec::new();
    for protocol in simulated() {
        let info = protocol.info();
        write!(table, "\n{:<18}", info.id).unwrap();
        for (title, port, other) in cases {
            let (udp, tcp) = beside(protocol, other);
            let port = port.unwrap_or(info.port);
            let found = detect(port, &[udp], tcp, Duration::ZERO, "").await;
            let took = found.took.as_millis();
            let result = match found.ids().first() {
                Some(id) if *id == info.id => "",
                Some(id) => id,
                None => "-",
            };
            let cell = format!("{took} {} {result}", found.datagrams);
            write!(table, "{cell:<23}").unwrap();
            if found.datagrams > MAX_DATAGRAMS {
                complaints.push(format!(
                    "{}, {title}: {} datagrams",
                    info.id, found.datagrams
                ));
            }
            let is_common = ["ugp", "a2s", "quake3", "minecraft-bedrock"].contains(&info.id);
            if is_common && (took > 150 || !found.has(info.id)) {
                complaints.push(format!("{}, {title}: {:?}", info.id, found.took));
            }
            if info.id == "onequery" && !found.has(info.id) {
                complaints.push(format!("{}, {title}: not found", info.id));
            }
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    let table: String = lines.collect();
    complaints.extend(golden::check("detection.txt", &table).err());
    golden::settle(&complaints);
}

#[tokio::test(start_paused = true)]
async fn minecraft_is_complete_as_soon_as_both_protocols_have_answered() {
    let [query, list] = ["minecraft-query", "minecraft-status"].map(|id| At::Server(protocol(id)));
    for port in [MINECRAFT, ODD_PORT] {
        for (udp, tcp, limit, ids) in [
            (
                query,
                list,
                50,
                &["minecraft-query", "minecraft-status"][..],
            ),
            (At::Closed, list, 150, &["minecraft-status"]),
            (At::Silent, list, 150, &["minecraft-status"]),
            (query, At::Closed, 150, &["minecraft-query"]),
        ] {
            let found = detect(port, &[udp], tcp, Duration::ZERO, "").await;
            assert_eq!(found.ids(), ids, "{port}");
            assert!(found.took <= ms(limit), "{port} {ids:?}: {:?}", found.took);
            assert!(found.datagrams <= MAX_DATAGRAMS, "{}", found.datagrams);
            // The same with the game named.
            let found = detect(port, &[udp], tcp, Duration::ZERO, "minecraft://").await;
            assert_eq!(found.ids(), ids, "{port}");
            assert!(found.took <= ms(limit), "{port} {ids:?}: {:?}", found.took);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn far_servers_cost_at_most_two_and_a_half_round_trips_more() {
    let latency = ms(80);
    for id in [
        "minecraft-query",
        "minecraft-status",
        "ugp",
        "a2s",
        "quake3",
        "minecraft-bedrock",
    ] {
        for other in [At::Closed, At::Silent] {
            let (udp, tcp) = beside(protocol(id), other);
            let direct = detect(ODD_PORT, &[udp], tcp, latency, &format!("{id}://")).await;
            let found = detect(ODD_PORT, &[udp], tcp, latency, "").await;
            assert!(found.has(id), "{id}: {:?}", found.result);
            let more = found.took.saturating_sub(direct.took);
            let limit = latency * 5 / 2;
            assert!(more <= limit, "{id}: {:?}, {more:?} more", found.took);
            assert!(
                found.datagrams <= MAX_DATAGRAMS,
                "{id}: {}",
                found.datagrams
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn disturbing_requests_are_sent_only_to_silent_hosts() {
    let onequery = protocol("onequery");
    for id in ["minecraft-bedrock", "ugp", "minecraft-query"] {
        let host = HostServer::start(
            ODD_PORT,
            &[At::Server(protocol(id)), At::Server(onequery)],
            At::Closed,
            Duration::ZERO,
        )
        .await;
        let client = Client::new(ClientConfig::default());
        let answers = client
            .detect(host.address.to_string().as_str())
            .await
            .unwrap();
        assert!(
            answers
                .iter()
                .all(|answer| answer.transcript.protocol.id == id)
        );
    }
    let found = detect(ODD_PORT, &[At::OneQuery1], At::Closed, Duration::ZERO, "").await;
    assert!(
        found.has("onequery") && found.took < ms(1_500),
        "{:?}",
        found.took
    );
    assert!(found.datagrams <= MAX_DATAGRAMS, "{}", found.datagrams);
    let silent = detect(ODD_PORT, &[At::Silent], At::Closed, Duration::ZERO, "").await;
    assert!(silent.result.is_err());
    assert_eq!(silent.datagrams, MAX_DATAGRAMS);
}
