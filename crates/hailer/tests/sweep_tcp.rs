//! Sweeps of stream protocols against real sockets on loopback. A server that listens on all
//! addresses plays a whole network.
#![cfg(target_os = "linux")]

use hailer::Status;
use hailer::proto::Text;
use hailer::proto::{ConnectionStep, Epoch, Keys, Options, Protocol, Transport, registry};
use hailer::respond::farm::{Farm, FarmConfig};
use hailer::sweep::{
    self, Collector, Counts, Exclusions, ListSource, ProbeResult, Progress, Sink, SourceConfig,
    SweepConfig, TcpClose,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time of one sweep in these tests.
const LIMIT: Duration = Duration::from_secs(30);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the stream protocol of the registry.
fn stream() -> &'static dyn Protocol {
    registry::PROTOCOLS
        .iter()
        .copied()
        .find(|protocol| protocol.info().transport == Transport::Stream)
        .expect("the registry has a stream protocol")
}

/// A server on one port of all loopback addresses. Stops when dropped.
struct Server {
    port: u16,
    accepted: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server. `serve` gets each connection, in the server's thread.
    fn run(mut serve: impl FnMut(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::<AtomicUsize>::default();
        let stop = Arc::<AtomicBool>::default();
        let count = accepted.clone();
        let is_stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !is_stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((connection, from)) => {
                        assert!(from.ip().is_loopback());
                        count.fetch_add(1, Ordering::Relaxed);
                        connection.set_nonblocking(false).unwrap();
                        connection.set_read_timeout(Some(LIMIT)).unwrap();
                        serve(connection);
                    }
                    Err(_) => std::thread::sleep(Duration::from_micros(200)),
                }
            }
        });
        Self {
            port,
            accepted,
            stop,
            thread: Some(thread),
        }
    }

    /// Starts a server that answers with our responder, `chunk` bytes at a time.
    fn answering(chunk: usize) -> Self {
        let status = status();
        let keys = Keys::new([7; 16]);
        let responder = stream()
            .responder(&status, &keys, &Options::default())
            .unwrap();
        Self::run(move |mut connection| {
            let from = connection.peer_addr().unwrap();
            let mut server = responder.connection(from).unwrap();
            let mut unread = Vec::new();
            let mut buffer = [0; 1_024];
            while let Ok(length @ 1..) = connection.read(&mut buffer) {
                unread.extend_from_slice(&buffer[..length]);
                let mut reply = Vec::new();
                let received = server.receive(Epoch(1), &unread, &mut reply);
                unread.drain(..received.consumed);
                for piece in reply.chunks(chunk) {
                    let _ = connection.write_all(piece);
                    let _ = connection.flush();
                }
                if received.step != ConnectionStep::Wait {
                    break;
                }
            }
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|end| end.is_ok()));
    }
}

/// Stops a farm when dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn status() -> Status {
    let mut status = Status {
        motd: Some(Text::unformatted("Hello")),
        ..Status::default()
    };
    status.players.online = Some(3);
    status.players.max = Some(20);
    status
}

/// Collects the ends of a sweep by address.
#[derive(Default)]
struct Ends {
    by_address: BTreeMap<SocketAddr, String>,
    indices: BTreeSet<u64>,
    counts: Counts,
    started: Option<Instant>,
}

impl Sink for Ends {
    fn record(&mut self, result: ProbeResult) {
        assert!(self.indices.insert(result.index), "an index ends twice");
        let (address, end) = match &result.result {
            Ok(answer) => (
                Some(answer.transcript.address),
                answer.status.title().unwrap_or_default(),
            ),
            Err(error) => (
                error.transcript().map(|transcript| transcript.address),
                error.kind().to_string(),
            ),
        };
        let address = address.expect("an address");
        assert!(
            self.by_address.insert(address, end).is_none(),
            "{address} ends twice"
        );
    }

    fn report_progress(&mut self, progress: &Progress<'_>) {
        self.counts = progress.counts.clone();
        let started = self.started.get_or_insert_with(Instant::now);
        assert!(started.elapsed() < LIMIT, "the sweep does not end");
    }
}

fn config() -> SweepConfig {
    let mut config = SweepConfig::default();
    config.rate_limits.rate = f64::INFINITY;
    config.rate_limits.per_network = f64::INFINITY;
    config
}

fn sweep(targets: &str, config: &SweepConfig) -> Ends {
    let mut collector = Collector::new(&[stream()]).unwrap();
    collector.read("list", targets.as_bytes(), Err).unwrap();
    let targets = collector.finish(&Exclusions::default()).unwrap();
    let mut source = ListSource::new(targets, Arc::default(), SourceConfig::default());
    let mut ends = Ends::default();
    ends.counts = sweep::run(config, &mut source, &mut ends).unwrap();
    ends
}

fn number_of(ends: &Ends, wanted: &str) -> usize {
    ends.by_address
        .values()
        .filter(|end| *end == wanted)
        .count()
}

#[test]
fn every_server_answers_once() {
    for close in [TcpClose::Reset, TcpClose::Fin] {
        for chunk in [usize::MAX, 1] {
            let server = Server::answering(chunk);
            let mut config = config();
            config.tcp_close = close;
            let ends = sweep(&format!("127.0.1.0/24:{}", server.port), &config);
            assert_eq!(ends.by_address.len(), 256);
            assert_eq!(number_of(&ends, "Hello"), 256, "{:?}", ends.by_address);
            assert_eq!(ends.counts.answered, 256);
            assert_eq!(server.accepted.load(Ordering::Relaxed) % 256, 0);
        }
    }
}

#[test]
fn distinguishes_closed_ports_from_silent_servers() {
    let server = Server::answering(usize::MAX);
    let closed = {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    // Accepted by the system, but never read.
    let silent = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let mut config = config();
    config.limits.timeout = ms(100);
    config.limits.retries = 1;
    let targets = format!(
        "127.0.2.0/28:{}\n127.0.2.0/28:{closed}\n127.0.2.0/28:{silent_port}",
        server.port
    );
    let ends = sweep(&targets, &config);
    assert_eq!(ends.by_address.len(), 48);
    assert_eq!(number_of(&ends, "Hello"), 16);
    assert_eq!(number_of(&ends, "port-closed"), 16);
    assert_eq!(number_of(&ends, "silence"), 16, "{:?}", ends.by_address);
    assert_eq!(ends.counts.port_closed, 16);
    assert_eq!(ends.counts.timed_out, 16);
}

#[test]
fn dripping_endless_and_closing_servers_end() {
    let endless = Server::run(|mut connection| {
        std::thread::spawn(move || {
            let chunk = [0x41; 16 << 10];
            while connection.write_all(&chunk).is_ok() {}
        });
    });
    let dripping = Server::run(|mut connection| {
        std::thread::spawn(move || {
            while connection.write_all(&[0xFF]).is_ok() {
                std::thread::sleep(ms(20));
            }
        });
    });
    let closing = Server::run(drop);
    let mut config = config();
    config.limits.timeout = ms(100);
    config.limits.retries = 1;
    let targets = [&endless, &dripping, &closing]
        .map(|server| format!("127.0.3.0/29:{}\n", server.port))
        .concat();
    let started = Instant::now();
    let ends = sweep(&targets, &config);
    assert_eq!(ends.by_address.len(), 24);
    assert_eq!(ends.counts.answered, 0, "{:?}", ends.by_address);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(
        ends.counts.bytes_received < 24 << 21,
        "{} bytes",
        ends.counts.bytes_received
    );
    for server in [&endless, &dripping, &closing] {
        let has_end = |address: &SocketAddr| address.port() == server.port;
        assert_eq!(ends.by_address.keys().filter(|a| has_end(a)).count(), 8);
    }
}

#[test]
fn a_farm_of_thousands_is_read_exactly() {
    for delay in [0, 40] {
        let mut farm = FarmConfig::new(Ipv4Addr::new(127, 0, 0, 0), 8);
        farm.ports = vec![(stream(), 0)];
        farm.silent = 0.1;
        farm.refusing = 0.1;
        farm.delay = ms(delay);
        let farm = Farm::new(farm).unwrap();
        let bound = farm.bind().unwrap();
        let port = bound[0].port();
        let mut config = config();
        config.limits.retries = 1;
        let stop = AtomicBool::new(false);
        let (ends, counts) = std::thread::scope(|scope| {
            let farm = scope.spawn(|| farm.run(&bound, &stop));
            // Also if the sweep panics.
            let stopper = StopOnDrop(&stop);
            let ends = sweep(&format!("127.20.0.0/21:{port}"), &config);
            drop(stopper);
            (ends, farm.join().unwrap())
        });
        assert_eq!(ends.by_address.len(), 2_048);
        let mut silent = 0;
        for (address, end) in &ends.by_address {
            match farm.status(stream(), *address) {
                Some(status) => {
                    assert_eq!(*end, status.title().unwrap_or_default(), "{address}");
                }
                None => {
                    let known = ["silence", "refused", "port-closed"];
                    assert!(known.contains(&&**end), "{address}: {end}");
                    silent += u64::from(end == "silence");
                }
            }
        }
        assert_eq!(counts.silent, silent);
        assert!((100..310).contains(&silent), "{silent}");
        assert!(counts.refused >= 100, "{counts:?}");
        assert_eq!(counts.answered, ends.counts.answered);
    }
}

/// The list ping before 1.4 is one byte, and ends with a pause.
#[test]
fn a_farm_answers_requests_without_an_end() {
    let mut config = FarmConfig::new(Ipv4Addr::new(127, 0, 0, 0), 8);
    config.ports = vec![(registry::find("minecraft-status").unwrap(), 0)];
    config.silent = 0.0;
    config.refusing = 0.0;
    let farm = Farm::new(config).unwrap();
    let bound = farm.bind().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, bound[0].port()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| farm.run(&bound, &stop));
        let _stopper = StopOnDrop(&stop);
        let reply = |pieces: &[&[u8]]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            for piece in pieces {
                stream.write_all(piece).unwrap();
                std::thread::sleep(ms(20));
            }
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let beta = reply(&[b"\xFE"]);
        let newer = reply(&[b"\xFE\x01"]);
        assert!(beta.starts_with(b"\xFF\0"), "{beta:02x?}");
        assert!(newer.starts_with(b"\xFF\0"), "{newer:02x?}");
        assert_ne!(beta, newer);
        assert_eq!(reply(&[b"\xFE", b"\x01"]), newer, "the pause starts again");
    });
}

#[test]
fn streams_and_datagrams_share_a_sweep() {
    let server = Server::answering(usize::MAX);
    let targets = format!("127.0.4.0/28:{}\nugp://127.0.4.0/28:9", server.port);
    let mut config = config();
    config.limits.timeout = ms(100);
    config.limits.retries = 0;
    let ends = sweep(&targets, &config);
    assert_eq!(ends.by_address.len(), 32);
    assert_eq!(number_of(&ends, "Hello"), 16);
    assert_eq!(number_of(&ends, "port-closed"), 16, "{:?}", ends.by_address);
}

#[test]
fn rate_limits_apply_to_connections() {
    let server = Server::answering(usize::MAX);
    let mut config = config();
    // Each server takes two: the connection and the request. The first 64 are a burst.
    config.rate_limits.rate = 100.0;
    let started = Instant::now();
    let ends = sweep(&format!("127.0.5.0/25:{}", server.port), &config);
    assert_eq!(number_of(&ends, "Hello"), 128);
    assert!(started.elapsed() >= ms(1_500), "{:?}", started.elapsed());
}
