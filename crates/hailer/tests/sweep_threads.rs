//! Sweeps in several threads: each probe ends once, positions match the results, and the limits
//! apply to all threads together.
#![cfg(any(target_os = "linux", windows))]

use hailer::proto::{Protocol, registry};
use hailer::respond::farm::{Farm, FarmConfig};
use hailer::sweep::{
    self, Collector, Counts, Exclusions, ListSource, Position, ProbeResult, ProbeSource, Progress,
    Sink, SourceConfig, SweepConfig,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest time of one sweep in these tests.
const LIMIT: Duration = Duration::from_secs(60);

fn find(id: &str) -> &'static dyn Protocol {
    registry::find(id).unwrap()
}

/// Results that were passed on, by index.
type Passed = Arc<Mutex<BTreeMap<u64, (SocketAddr, String)>>>;

/// Sink of a thread.
struct Part {
    passed: Passed,
    held: Option<Vec<(u64, (SocketAddr, String))>>,
    stop: Arc<AtomicBool>,
}

impl Part {
    fn pass(&self, index: u64, end: (SocketAddr, String)) {
        let before = self.passed.lock().unwrap().insert(index, end);
        assert!(before.is_none(), "{index} ends twice");
    }
}

impl Sink for Part {
    fn record(&mut self, result: ProbeResult) {
        let end = match &result.result {
            Ok(answer) => (
                answer.transcript.address,
                answer.status.title().unwrap_or_default(),
            ),
            Err(error) => (
                error.transcript().expect("an address").address,
                error.kind().to_string(),
            ),
        };
        match &mut self.held {
            Some(held) => held.push((result.index, end)),
            None => self.pass(result.index, end),
        }
    }

    fn report_progress(&mut self, progress: &Progress<'_>) {
        assert!((progress.position)().is_none());
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn hold(&mut self) {
        assert!(self.held.is_none(), "held twice");
        self.held = Some(Vec::new());
    }

    fn release(&mut self) {
        let held = self.held.take().expect("results are held");
        held.into_iter()
            .for_each(|(index, end)| self.pass(index, end));
    }
}

/// Sink of the sweep. Checks that each position matches the results.
struct Whole {
    passed: Passed,
    stop: Arc<AtomicBool>,
    /// The sweep is stopped after this many positions.
    stop_after: usize,
    /// Indices that an earlier part of the sweep has finished.
    finished: BTreeSet<u64>,
    positions: usize,
    last: Option<Position>,
    started: Instant,
}

impl Sink for Whole {
    fn record(&mut self, _: ProbeResult) {
        panic!("results belong to the threads");
    }

    fn report_progress(&mut self, progress: &Progress<'_>) {
        assert!(self.started.elapsed() < LIMIT, "the sweep does not end");
        let Some(position) = (progress.position)() else {
            return;
        };
        self.positions += 1;
        if self.positions == self.stop_after {
            self.stop.store(true, Ordering::Relaxed);
        }
        let mut known: BTreeSet<u64> = self.passed.lock().unwrap().keys().copied().collect();
        known.extend(&self.finished);
        assert!(position.unfinished.is_sorted_by(|a, b| a < b));
        for index in &position.unfinished {
            assert!(known.insert(*index), "{index} is finished and unfinished");
        }
        assert!(
            known.iter().copied().eq(0..position.next),
            "an index is missing"
        );
        self.last = Some(position);
    }

    fn is_position_due(&self) -> bool {
        true
    }
}

fn config() -> SweepConfig {
    let mut config = SweepConfig::default();
    config.rate_limits.rate = f64::INFINITY;
    config.rate_limits.per_network = f64::INFINITY;
    config
}

fn list(lines: &[String]) -> ListSource {
    let mut collector = Collector::new(&[]).unwrap();
    lines.iter().for_each(|line| collector.add(line).unwrap());
    let targets = collector.finish(&Exclusions::default()).unwrap();
    ListSource::new(targets, Arc::default(), SourceConfig::default())
}

/// Runs the source from a position. Returns the results, the last position and the counts.
fn run(
    config: &SweepConfig,
    source: &mut ListSource,
    finished: BTreeSet<u64>,
    threads: usize,
    stop_after: usize,
) -> (BTreeMap<u64, (SocketAddr, String)>, Whole, Counts) {
    let passed = Passed::default();
    let stop = Arc::<AtomicBool>::default();
    let part = || Part {
        passed: passed.clone(),
        held: None,
        stop: stop.clone(),
    };
    let mut parts: Vec<Part> = (0..threads).map(|_| part()).collect();
    let mut whole = Whole {
        passed: passed.clone(),
        stop: stop.clone(),
        stop_after,
        finished,
        positions: 0,
        last: None,
        started: Instant::now(),
    };
    let counts = sweep::run_threads(config, source, &mut whole, &mut parts).unwrap();
    let passed = std::mem::take(&mut *passed.lock().unwrap());
    (passed, whole, counts)
}

/// Runs `act` with a farm of servers over UDP and TCP. `act` gets the ports.
fn with_farm(change: impl Fn(&mut FarmConfig), act: impl FnOnce(&Farm, u16, u16)) {
    let mut config = FarmConfig::new(Ipv4Addr::new(127, 0, 0, 0), 8);
    config.ports = vec![(find("minecraft-query"), 0), (find("minecraft-status"), 0)];
    change(&mut config);
    let farm = Farm::new(config).unwrap();
    let bound = farm.bind().unwrap();
    let stop = AtomicBool::new(false);
    struct StopOnDrop<'a>(&'a AtomicBool);
    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| farm.run(&bound, &stop));
        let _stopper = StopOnDrop(&stop);
        act(&farm, bound[0].port(), bound[1].port());
    });
}

/// Bits of the networks of these tests: farms of other systems than Linux need a socket for each
/// address.
const BITS: u8 = if cfg!(target_os = "linux") { 21 } else { 26 };

#[test]
fn each_server_has_one_result_with_its_status() {
    sweep_farms(BITS, false);
}

#[test]
fn the_portable_implementation_reads_the_same() {
    sweep_farms(25, true);
}

/// Sweeps two networks with this prefix length, with one thread and with several.
fn sweep_farms(bits: u8, is_portable: bool) {
    with_farm(
        |config| {
            config.delay = Duration::from_millis(20);
            config.is_portable = is_portable;
            if is_portable || cfg!(not(target_os = "linux")) {
                config.networks = vec![(Ipv4Addr::new(127, 30, 0, 0), bits)];
            }
        },
        |farm, udp, tcp| {
            let lines = [
                format!("minecraft-query://127.30.0.0/{bits}:{udp}"),
                format!("minecraft-status://127.30.0.0/{bits}:{tcp}"),
            ];
            let mut config = config();
            config.limits.retries = 5;
            config.is_portable = is_portable;
            for threads in [1, 2, 5] {
                let mut source = list(&lines);
                let total = source.total().unwrap();
                let (ends, whole, counts) =
                    run(&config, &mut source, BTreeSet::new(), threads, usize::MAX);
                assert_eq!(ends.len() as u64, total);
                for (address, end) in ends.values() {
                    let id = if address.port() == udp {
                        "minecraft-query"
                    } else {
                        "minecraft-status"
                    };
                    let status = farm.status(find(id), *address).unwrap();
                    assert_eq!(*end, status.title().unwrap_or_default(), "{address}");
                }
                assert_eq!((counts.answered, counts.probes), (total, total));
                let last = whole.last.unwrap();
                assert_eq!((last.next, last.unfinished.len()), (total, 0));
            }
        },
    );
}

#[test]
fn a_stopped_sweep_continues_with_any_number_of_threads() {
    with_farm(
        |config| {
            config.delay = Duration::from_millis(10);
            config.silent = 0.05;
        },
        |_, udp, tcp| {
            let lines = [
                format!("minecraft-query://127.40.0.0/21:{udp}"),
                format!("minecraft-status://127.40.0.0/22:{tcp}"),
            ];
            let mut config = config();
            config.limits.timeout = Duration::from_millis(300);
            // Slow enough for several positions.
            config.max_in_flight = 100;
            let digest = list(&lines).digest();
            let mut finished = BTreeMap::new();
            let mut position = Position::default();
            let mut stops = 0;
            for threads in [3, 1, 2, 4, 2] {
                let mut source = list(&lines);
                assert_eq!(source.digest(), digest);
                source.resume(&position);
                let stop_after = if threads == 2 && stops > 2 {
                    usize::MAX
                } else {
                    3
                };
                let before = finished.keys().copied().collect();
                let (ends, whole, _) = run(&config, &mut source, before, threads, stop_after);
                for (index, end) in ends {
                    assert!(finished.insert(index, end).is_none(), "{index} ends twice");
                }
                stops += usize::from(whole.positions > 0);
                position = whole.last.unwrap();
            }
            let total = list(&lines).total().unwrap();
            assert_eq!((position.next, position.unfinished.len()), (total, 0));
            let addresses: BTreeSet<_> = finished.values().map(|(address, _)| *address).collect();
            assert_eq!(addresses.len() as u64, total);
        },
    );
}

#[test]
fn threads_share_the_rate_limits() {
    // Receives, and never replies.
    let silent = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut config = config();
    config.limits.timeout = Duration::from_millis(50);
    config.limits.retries = 0;
    config.rate_limits.rate = 200.0;
    let started = Instant::now();
    let mut source = list(&[format!("minecraft-query://127.50.0.0/23:{port}")]);
    let (ends, _, counts) = run(&config, &mut source, BTreeSet::new(), 4, usize::MAX);
    let took = started.elapsed().as_secs_f64();
    assert_eq!((ends.len(), counts.timed_out), (512, 512));
    // A burst of 64, and the rest at 200 in a second.
    assert!(took >= 2.2, "{took} s");
    config.rate_limits.rate = f64::INFINITY;
    config.rate_limits.per_network = 100.0;
    let started = Instant::now();
    let mut source = list(&[format!("minecraft-query://127.51.0.0/24:{port}")]);
    let (ends, ..) = run(&config, &mut source, BTreeSet::new(), 4, usize::MAX);
    assert_eq!(ends.len(), 256);
    assert!(started.elapsed().as_secs_f64() >= 2.4);
}
