//! The sweep engine in simulated time against our own responders: loss, delay, reordering,
//! duplicates, forgeries and overflowing queues. No socket and no sleep, so every run is the same.

use hailer::proto::wire::Notes;
use hailer::proto::{
    Ask, Cookie, DatagramContext, Epoch, Exchange, Explanation, Info, Input, Keys, Options,
    Protocol, Responder, ResponderResult, Step, registry,
};
use hailer::sweep::{
    Collector, Exclusions, ListSource, Next, Outboxes, Position, Probe, ProbeResult, ProbeSource,
    Progress, RateLimits, Sink, SourceConfig, SweepConfig, SweepEngine,
};
use hailer::{Error, Status};
use hailer_testkit::statuses::{self, Random};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const VARIANTS: u64 = 64;
const STEP: Duration = Duration::from_millis(1);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The simulated world: the servers, the network between us and them, and our receive queue.
struct World {
    random: Random,
    servers: BTreeMap<&'static str, Vec<Server>>,
    /// Share of servers that never reply, in percent.
    silent: u64,
    loss: u64,
    twice: u64,
    /// Shortest and longest delay of one direction, in milliseconds.
    delay: (u64, u64),
    /// Ports that nothing listens on: the host refuses their datagrams immediately.
    closed: BTreeSet<u16>,
    /// Datagrams that all servers together can answer in a millisecond through one shared queue,
    /// and the length of that queue.
    capacity: usize,
    queue: VecDeque<(SocketAddr, Vec<u8>)>,
    queue_length: usize,
    /// Datagrams that we can read in a millisecond, and the length of our receive queue.
    reads: usize,
    inbox_length: usize,
    inbox: VecDeque<(Duration, SocketAddr, Vec<u8>)>,
    overflows: u64,
    under_way: BinaryHeap<Reverse<(Duration, u64, Passage)>>,
    passages: u64,
    sent: BTreeMap<Duration, usize>,
    /// Replies lost because the queue of the servers was full.
    dropped: u64,
    /// Time at which the sweep starts.
    start: Duration,
}

/// A server, and the status that a client gets from it on an undisturbed network.
type Server = (Arc<dyn Responder>, Status);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Passage {
    To(SocketAddr, Vec<u8>),
    From(SocketAddr, Vec<u8>),
    Refusal(SocketAddr, Vec<u8>),
}

fn us() -> SocketAddr {
    "192.0.2.1:50000".parse().unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let keys = Keys::new([7; 16]);
        let server = |protocol: &&'static dyn Protocol, variant: u64| {
            let mut status = statuses::plain((variant % 12) as usize);
            status.map = Some(format!("map {variant}").into());
            status.version = Some(format!("1.{variant}").into());
            let responder = protocol
                .responder(&status, &keys, &Options::default())
                .unwrap();
            let expected = expected(*protocol, &*responder);
            (responder, expected)
        };
        let servers = registry::defaults()
            .map(|protocol| {
                (
                    protocol.info().id,
                    (0..VARIANTS)
                        .map(|variant| server(&protocol, variant))
                        .collect(),
                )
            })
            .collect();
        Self {
            random: Random(seed),
            servers,
            silent: 0,
            loss: 0,
            twice: 0,
            delay: (10, 10),
            closed: BTreeSet::new(),
            capacity: usize::MAX,
            queue: VecDeque::new(),
            queue_length: usize::MAX,
            reads: usize::MAX,
            inbox_length: usize::MAX,
            inbox: VecDeque::new(),
            overflows: 0,
            under_way: BinaryHeap::new(),
            passages: 0,
            sent: BTreeMap::new(),
            dropped: 0,
            start: Duration::ZERO,
        }
    }

    fn is_silent(&self, address: SocketAddr) -> bool {
        mix(address) % 100 < self.silent
    }

    fn expected(&self, address: SocketAddr, protocol: &str) -> Option<&Status> {
        let is_there = !self.is_silent(address) && !self.closed.contains(&address.port());
        is_there.then(|| &self.servers[protocol][(mix(address) / 100 % VARIANTS) as usize].1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        percent > 0 && self.random.bits() % 100 < percent
    }

    fn pass(&mut self, now: Duration, passage: &Passage) {
        let (least, most) = self.delay;
        for _ in 0..=u8::from(self.chance(self.twice)) {
            if self.chance(self.loss) {
                continue;
            }
            let delay = ms(least + self.random.bits() % (most - least + 1));
            self.passages += 1;
            self.under_way
                .push(Reverse((now + delay, self.passages, passage.clone())));
        }
    }

    /// Passes on all datagrams of an outbox.
    fn pass_all(&mut self, now: Duration, out: &mut Outboxes) {
        for (to, bytes) in taken(out) {
            self.pass(now, &Passage::To(to, bytes));
        }
    }

    /// Delivers all datagrams that are due by `now`. Returns the refusals that reached us.
    fn run(&mut self, now: Duration) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut refusals = Vec::new();
        while let Some(Reverse((at, ..))) = self.under_way.peek()
            && *at <= now
        {
            let Some(Reverse((at, _, passage))) = self.under_way.pop() else {
                break;
            };
            match passage {
                Passage::To(to, bytes) if self.closed.contains(&to.port()) => {
                    self.pass(at, &Passage::Refusal(to, bytes));
                }
                Passage::To(to, bytes) if self.capacity == usize::MAX => self.serve(at, to, &bytes),
                Passage::To(to, bytes) if self.queue.len() < self.queue_length => {
                    self.queue.push_back((to, bytes));
                }
                Passage::To(..) => self.dropped += 1,
                Passage::From(from, bytes) if self.inbox.len() < self.inbox_length => {
                    self.inbox.push_back((at, from, bytes));
                }
                Passage::From(..) => self.overflows += 1,
                Passage::Refusal(to, bytes) => refusals.push((to, bytes)),
            }
        }
        for _ in 0..self.capacity {
            let Some((to, bytes)) = self.queue.pop_front() else {
                break;
            };
            self.serve(now, to, &bytes);
        }
        refusals
    }

    fn serve(&mut self, now: Duration, to: SocketAddr, bytes: &[u8]) {
        if self.is_silent(to) {
            return;
        }
        let place = (mix(to) / 100 % VARIANTS) as usize;
        let mut reply = Vec::new();
        for servers in self.servers.values() {
            servers[place].0.answer(us(), Epoch(1), bytes, &mut reply);
            if !reply.is_empty() {
                break;
            }
        }
        if !reply.is_empty() {
            self.pass(now, &Passage::From(to, reply));
        }
    }
}

/// Takes the datagrams out of an outbox.
fn taken(out: &mut Outboxes) -> Vec<(SocketAddr, Vec<u8>)> {
    let pending = out.v4.pending();
    let all = pending.map(|(to, _, bytes)| (to, bytes.to_vec())).collect();
    out.v4.clear();
    all
}

fn mix(address: SocketAddr) -> u64 {
    let ip = match address.ip() {
        std::net::IpAddr::V4(ip) => u64::from(ip.to_bits()),
        std::net::IpAddr::V6(ip) => ip.to_bits() as u64,
    };
    hailer::proto::Cookie(ip).derive(u64::from(address.port()))
}

/// Returns the status that the client gets from a server when nothing disturbs the exchange.
fn expected(protocol: &dyn Protocol, responder: &dyn Responder) -> Status {
    use hailer::proto::testing::memory;
    use hailer::proto::{Ask, Cookie, Step};
    let mut exchange = protocol.exchange(&Ask::default(), Cookie(1));
    let mut server = memory::Server::new(responder, us(), Epoch(1));
    match memory::run(&mut *exchange, &mut server, |_, _| {}) {
        Step::Done(status) => *status,
        other => panic!("{other:?}"),
    }
}

/// A probe source with a fixed list.
struct List {
    probes: VecDeque<Probe>,
    total: u64,
}

impl List {
    fn new(probes: impl IntoIterator<Item = (SocketAddr, &'static dyn Protocol)>) -> Self {
        let probe = |(index, (address, protocol))| Probe {
            index: index as u64,
            address,
            protocol,
            game: None,
            name: None,
            srv: None,
        };
        let probes: VecDeque<_> = probes.into_iter().enumerate().map(probe).collect();
        Self {
            total: probes.len() as u64,
            probes,
        }
    }

    fn after(mut self, position: &Position) -> Self {
        self.probes.retain(|probe| {
            probe.index >= position.next || position.unfinished.contains(&probe.index)
        });
        self
    }
}

impl ProbeSource for List {
    fn next(&mut self) -> Next {
        self.probes.pop_front().map_or(Next::Done, Next::Probe)
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }
}

#[derive(Default)]
struct Ends(Vec<ProbeResult>);

impl Sink for Ends {
    fn record(&mut self, end: ProbeResult) {
        self.0.push(end);
    }

    fn report_progress(&mut self, _: &Progress<'_>) {}
}

fn addresses(count: u32) -> impl Iterator<Item = SocketAddr> {
    // Consecutive addresses would be in the same network and share its rate limit.
    (0..count).map(|i| {
        SocketAddr::from((
            0x7F00_0001u32
                .wrapping_add(i.reverse_bits() >> 8)
                .to_be_bytes(),
            25_565,
        ))
    })
}

fn minecraft(count: u32) -> List {
    List::new(addresses(count).map(|address| (address, registry::PROTOCOLS[0])))
}

fn fast(rate: f64) -> SweepConfig {
    let mut config = SweepConfig::default();
    config.rate_limits = unlimited();
    config.rate_limits.rate = rate;
    config
}

fn unlimited() -> RateLimits {
    let mut pace = RateLimits::default();
    pace.rate = f64::INFINITY;
    pace.bandwidth = f64::INFINITY;
    pace.per_network = f64::INFINITY;
    pace
}

struct Run {
    engine: SweepEngine,
    ends: Vec<ProbeResult>,
    time: Duration,
    largest: usize,
}

/// Runs a sweep in simulated time. `interfere` is called in each step and may add or inspect
/// datagrams.
fn sweep_with(
    config: SweepConfig,
    world: &mut World,
    list: &mut List,
    mut interfere: impl FnMut(Duration, &mut SweepEngine, &mut Outboxes, &mut Ends) -> bool,
) -> Run {
    let mut engine = SweepEngine::new(config, [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let mut now = world.start;
    let mut largest = 0;
    while !engine.is_done() {
        for (to, quoted) in world.run(now) {
            engine.receive_refusal(
                now,
                to,
                &io::ErrorKind::ConnectionRefused.into(),
                &quoted,
                &mut ends,
            );
        }
        for _ in 0..world.reads.min(world.inbox.len()) {
            let Some((at, from, bytes)) = world.inbox.pop_front() else {
                break;
            };
            engine.receive(now, from, now - at, &bytes, &mut out, &mut ends);
        }
        engine.record_drops(now, world.overflows);
        if world.inbox.is_empty() {
            engine.tick(now, &mut out, &mut ends);
        }
        if !interfere(now, &mut engine, &mut out, &mut ends) {
            break;
        }
        // In batches, like the worker: one call starts only a few probes in a millisecond.
        for _ in 0..8 {
            engine.start_probes(now, list, &mut out, &mut ends);
            for outbox in [&mut out.v4, &mut out.v6] {
                let sent: Vec<_> = outbox
                    .pending()
                    .map(|(to, _, bytes)| (to, bytes.to_vec()))
                    .collect();
                *world.sent.entry(now).or_default() += sent.len();
                sent.into_iter()
                    .for_each(|(to, bytes)| world.pass(now, &Passage::To(to, bytes)));
                outbox.clear();
            }
        }
        largest = largest.max(engine.in_flight());
        now += STEP;
        assert!(
            now < world.start + Duration::from_secs(3_600),
            "it must end"
        );
    }
    Run {
        engine,
        ends: ends.0,
        time: now,
        largest,
    }
}

fn sweep(config: SweepConfig, world: &mut World, list: &mut List) -> Run {
    sweep_with(config, world, list, |_, _, _, _| true)
}

/// Checks that each index has one result and that each complete answer equals the server's status.
/// At most `may_be_lost` reachable servers may have a partial answer or none.
fn check(world: &World, run: &Run, total: u64, may_be_lost: usize) {
    let indices: BTreeSet<u64> = run.ends.iter().map(|end| end.index).collect();
    assert_eq!(
        (indices.len(), run.ends.len()),
        (total as usize, total as usize),
        "each exactly once"
    );
    let mut lost = 0;
    for end in &run.ends {
        match &end.result {
            Ok(answer) => {
                let expected =
                    world.expected(answer.transcript.address, answer.transcript.protocol.id);
                let is_partial = answer.status.extra("unanswered").is_some();
                assert!(
                    is_partial || Some(&*answer.status) == expected,
                    "{:?}",
                    answer.transcript
                );
                lost += usize::from(is_partial);
            }
            Err(Error::Silence { transcript, .. }) => {
                lost += usize::from(
                    world
                        .expected(transcript.address, transcript.protocol.id)
                        .is_some(),
                );
            }
            Err(Error::PortClosed { transcript }) => {
                assert!(world.closed.contains(&transcript.address.port()));
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(lost <= may_be_lost, "{lost} lost");
    let counts = run.engine.counts();
    let ended = counts.answered
        + counts.timed_out
        + counts.port_closed
        + counts.unreachable
        + counts.invalid;
    assert_eq!((ended, counts.probes), (total, total));
    assert_eq!(run.engine.in_flight(), 0);
}

#[test]
fn each_server_has_one_result_with_its_status() {
    let mut world = World::new(1);
    world.loss = 1;
    world.silent = 20;
    world.twice = 2;
    world.delay = (5, 120);
    let all = addresses(6_000)
        .flat_map(|address| registry::defaults().map(move |protocol| (address, protocol)));
    let mut list = List::new(all);
    let run = sweep(fast(50_000.0), &mut world, &mut list);
    // With 1 % loss in each direction, three tries fail about once in 100,000 times, in each of two
    // or three stages.
    check(&world, &run, 18_000, 4);
    assert!(
        run.engine.counts().duplicate_datagrams > 0 && run.engine.counts().datagrams_resent > 0
    );
}

#[test]
fn rate_is_set_by_the_configuration_and_not_by_the_window() {
    for rate in [1_000.0, 100_000.0] {
        let mut world = World::new(2);
        world.silent = 20;
        world.delay = (40, 40);
        let mut list = minecraft((rate * 2.0) as u32);
        let run = sweep(fast(rate), &mut world, &mut list);
        check(&world, &run, (rate * 2.0) as u64, 0);
        let sent: usize = world.sent.values().sum();
        // The last silent servers take until their timeout.
        let tail = ms(2_000);
        let reached = sent as f64 / (run.time - tail).as_secs_f64();
        assert!(reached > rate * 0.85, "{reached} of {rate}");
        let mut so_far = 0;
        for (at, count) in &world.sent {
            so_far += count;
            // Requests that a reply triggers are sent immediately and charged afterwards.
            let replies = 1.0;
            assert!(
                so_far as f64 <= rate * (at.as_secs_f64() + replies) + 100.0,
                "{so_far} at {at:?}"
            );
        }
    }
}

#[test]
fn window_shrinks_when_a_network_queue_grows() {
    let mut world = World::new(3);
    world.delay = (20, 20);
    // The servers handle 30 datagrams per millisecond, and the queue holds 200 ms of them.
    world.capacity = 30;
    world.queue_length = 6_000;
    let mut list = minecraft(100_000);
    let run = sweep(fast(f64::INFINITY), &mut world, &mut list);
    check(&world, &run, 100_000, 0);
    let best = Duration::from_secs_f64(200_000.0 / 30_000.0);
    assert!(
        run.time < best * 5 / 4 + ms(500),
        "{:?}, at best {best:?}",
        run.time
    );
    assert!(world.dropped < 500, "{} dropped", world.dropped);
    assert!(run.largest < 9_000, "{} in flight", run.largest);
}

#[test]
fn replies_lost_in_our_receive_queue_are_requested_again() {
    let mut world = World::new(4);
    world.delay = (20, 20);
    world.reads = 20;
    world.inbox_length = 200;
    let mut list = minecraft(50_000);
    let run = sweep(fast(f64::INFINITY), &mut world, &mut list);
    check(&world, &run, 50_000, 0);
    let counts = run.engine.counts();
    assert!(
        counts.dropped_datagrams > 0 && counts.resent_after_overflow > 0,
        "the queue did not overflow: {counts:?}"
    );
    assert!(
        counts.dropped_datagrams < 10_000,
        "the window did not shrink in time: {counts:?}"
    );
    assert_eq!(counts.timed_out, 0);
}

#[test]
fn silent_servers_get_a_third_request_on_lossy_networks() {
    for (loss, tries) in [(0, 2), (2, 3)] {
        let mut world = World::new(21);
        world.silent = 20;
        world.loss = loss;
        world.delay = (40, 60);
        let config = fast(20_000.0);
        let timeout = config.limits.timeout;
        let run = sweep(config, &mut world, &mut minecraft(60_000));
        check(&world, &run, 60_000, 20);
        let mut after = Vec::new();
        let mut sent = 0;
        for end in &run.ends {
            if let Err(Error::Silence {
                transcript,
                after: took,
            }) = &end.result
            {
                after.push(*took);
                sent += u64::from(transcript.sent);
            }
        }
        let counts = run.engine.counts();
        // Some servers stopped replying after their first reply.
        assert!(
            sent - (counts.resent_in_vain + counts.timed_out) < 50,
            "{sent} sent: {counts:?}"
        );
        let each = sent as f64 / counts.timed_out as f64;
        // The loss rate is not known yet when the first servers time out.
        assert!(
            (each - f64::from(tries)).abs() < 0.2,
            "{each} datagrams to each server of {}",
            counts.timed_out
        );
        let shortest = after.iter().min().unwrap();
        let longest = after.iter().max().unwrap();
        // Two stages, each with at most three datagrams.
        assert!(
            *shortest >= timeout - ms(10) && *longest <= timeout * 6,
            "{shortest:?} to {longest:?}"
        );
    }
}

#[test]
fn closed_ports_end_their_probe_immediately() {
    let mut world = World::new(5);
    world.closed.insert(25_565);
    let mut list = minecraft(1_000);
    let run = sweep(fast(1_000_000.0), &mut world, &mut list);
    check(&world, &run, 1_000, 0);
    assert_eq!(
        (
            run.engine.counts().port_closed,
            run.engine.counts().datagrams_resent
        ),
        (1_000, 0)
    );
    assert!(run.time < ms(150), "{:?}", run.time);
}

#[test]
fn forged_and_late_datagrams_are_counted_and_ignored() {
    let mut world = World::new(6);
    world.delay = (5, 60);
    world.twice = 30;
    let mut forger = World::new(99);
    forger.delay = (0, 0);
    let mut list = minecraft(2_000);
    let mut random = Random(5);
    let keys = Keys::new([1; 16]);
    let mut lie = statuses::plain(3);
    lie.map = Some("forged".into());
    let liar = registry::PROTOCOLS[0]
        .responder(&lie, &keys, &Options::default())
        .unwrap();
    let run = sweep_with(
        fast(20_000.0),
        &mut world,
        &mut list,
        |now, engine, out, ends| {
            for address in addresses(2_000)
                .skip((random.bits() % 1_900) as usize)
                .take(10)
            {
                // Replies with unknown session ids, refusals of datagrams that were never sent, and
                // noise.
                let session = (random.bits() as u32 & 0x0F0F_0F0F).to_be_bytes();
                let challenge = [&[9][..], &session, b"1\0"].concat();
                let stat = [
                    &[0][..],
                    &session,
                    b"Forged\0SMP\0forged\x001\x002\0\xDD\x63h\0",
                ]
                .concat();
                let mut reply = Vec::new();
                liar.answer(
                    us(),
                    Epoch(1),
                    &[&[0xFE, 0xFD, 9][..], &session].concat(),
                    &mut reply,
                );
                for bytes in [&challenge, &stat, &reply, &b"noise"[..].to_vec()] {
                    engine.receive(now, address, Duration::ZERO, bytes, out, ends);
                    engine.receive(
                        now,
                        (address.ip(), 25_566).into(),
                        Duration::ZERO,
                        bytes,
                        out,
                        ends,
                    );
                }
                let quoted = [&[0xFE, 0xFD, 9][..], &session].concat();
                engine.receive_refusal(
                    now,
                    address,
                    &io::ErrorKind::ConnectionRefused.into(),
                    &quoted,
                    ends,
                );
            }
            true
        },
    );
    check(&world, &run, 2_000, 0);
    let counts = run.engine.counts();
    assert!(
        counts.stray_datagrams > 0 && counts.duplicate_datagrams > 0 && counts.forged_refusals > 0,
        "{counts:?}"
    );
}

#[test]
fn connections_open_in_small_batches() {
    let protocol = registry::find("minecraft-status").unwrap();
    let mut list = List::new(addresses(200).map(|address| (address, protocol)));
    let mut engine = SweepEngine::new(fast(f64::INFINITY), [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let batches = [(); 3].map(|()| engine.start_probes(ms(1), &mut list, &mut out, &mut ends));
    assert_eq!(batches, [64, 32, 32]);
    assert_eq!(engine.open_connections(), 128);
}

#[test]
fn replies_from_other_addresses_or_ports_are_ignored() {
    let elsewhere = |address: SocketAddr, port| SocketAddr::new(address.ip(), port);
    let mut world = World::new(7);
    world.delay = (5, 5);
    let mut list = minecraft(3);
    let mut moved = 0;
    let mut engine = SweepEngine::new(fast(1_000.0), [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    for millis in 0..10_000 {
        let now = ms(millis);
        engine.tick(now, &mut out, &mut ends);
        engine.start_probes(now, &mut list, &mut out, &mut ends);
        world.pass_all(now, &mut out);
        world.run(now);
        while let Some((_, from, bytes)) = world.inbox.pop_front() {
            moved += 1;
            engine.receive(
                now,
                elsewhere(from, from.port() + 1),
                Duration::ZERO,
                &bytes,
                &mut out,
                &mut ends,
            );
        }
    }
    assert_eq!(
        (engine.counts().timed_out, engine.counts().stray_datagrams),
        (3, moved)
    );
}

#[test]
fn many_servers_at_one_address() {
    let mut world = World::new(8);
    world.delay = (5, 50);
    world.silent = 10;
    let ports = (1_000..3_000).map(|port| {
        (
            SocketAddr::from(([127, 0, 0, 1], port)),
            registry::PROTOCOLS[0],
        )
    });
    let mut list = List::new(ports);
    let run = sweep(fast(10_000.0), &mut world, &mut list);
    check(&world, &run, 2_000, 0);
}

#[test]
fn each_network_has_a_rate_limit() {
    let mut world = World::new(9);
    world.delay = (5, 5);
    let mut config = fast(100_000.0);
    config.rate_limits.per_network = 100.0;
    // A thousand servers in one network, among a thousand in others.
    let crowd = (0..1_000u32)
        .map(|i| SocketAddr::from(([127, 200, 7, (i % 250) as u8], 25_565 + (i / 250) as u16)));
    let mixed = crowd
        .zip(addresses(1_000))
        .flat_map(|(crowd, other)| [crowd, other]);
    let mut list = List::new(mixed.map(|address| (address, registry::PROTOCOLS[0])));
    let mut others_done = Duration::ZERO;
    let run = sweep_with(config, &mut world, &mut list, |now, engine, _, _| {
        if engine.counts().answered < 1_000 {
            others_done = now;
        }
        true
    });
    check(&world, &run, 2_000, 0);
    // Each server needs two datagrams.
    assert!(
        (ms(19_500)..ms(22_000)).contains(&run.time),
        "{:?}",
        run.time
    );
    assert!(
        others_done < ms(1_000),
        "other networks were delayed: {others_done:?}"
    );
}

#[test]
fn stopped_sweep_resumes_from_its_checkpoint() {
    for stop in [1, 40, 90, 333] {
        let mut world = World::new(10);
        world.delay = (5, 80);
        world.silent = 20;
        let mut position = Position::default();
        let mut list = minecraft(5_000);
        let mut first = sweep_with(
            fast(20_000.0),
            &mut world,
            &mut list,
            |now, engine, _, _| {
                position = engine.position(&minecraft(0));
                now < ms(stop)
            },
        );
        world.under_way.clear();
        let mut rest = sweep(
            fast(20_000.0),
            &mut world,
            &mut minecraft(5_000).after(&position),
        );
        assert!(!first.ends.is_empty() || stop < 300);
        first.ends.append(&mut rest.ends);
        let indices: BTreeSet<u64> = first.ends.iter().map(|end| end.index).collect();
        assert_eq!((indices.len(), first.ends.len()), (5_000, 5_000));
    }
}

/// Sweeps one silent server with the given time step. Returns when each request was sent, and when
/// the sweep ended.
fn silence(config: SweepConfig, step: Duration) -> (Vec<Duration>, Duration) {
    let mut engine = SweepEngine::new(config, [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let mut list = minecraft(1);
    let mut now = Duration::ZERO;
    let mut sent = Vec::new();
    while !engine.is_done() {
        engine.tick(now, &mut out, &mut ends);
        engine.start_probes(now, &mut list, &mut out, &mut ends);
        sent.extend(out.v4.pending().map(|_| now));
        out.v4.clear();
        now += step;
        assert!(now < Duration::from_secs(100_000), "it must end");
    }
    assert!(matches!(
        ends.0[..],
        [ProbeResult {
            result: Err(Error::Silence { .. }),
            ..
        }]
    ));
    (sent, now)
}

#[test]
fn configured_timeouts_and_retries_are_kept() {
    let took = |timeout, retries, deadline| {
        let mut config = fast(1_000.0);
        config.limits.timeout = timeout;
        config.limits.retries = retries;
        config.limits.deadline = deadline;
        let (sent, took) = silence(config, ms(1));
        // Each wait ends with a tick of the engine, which comes every 8 ms.
        (sent.len(), took.as_millis() / 50 * 50)
    };
    assert_eq!(took(ms(1_000), 2, ms(10_000)), (3, 3_000));
    assert_eq!(took(ms(1_000), 0, ms(10_000)), (1, 1_000));
    assert_eq!(
        took(ms(1_000), 3, ms(500)),
        (1, 500),
        "the deadline is shorter than the timeout"
    );
    assert_eq!(
        took(ms(1_000), 3, ms(1_500)),
        (2, 1_500),
        "the deadline ends the last wait early"
    );
    assert_eq!(took(ms(10), 100, ms(10_000)).0, 101);
    let mut config = fast(1_000.0);
    config.limits.timeout = Duration::MAX;
    config.limits.deadline = Duration::MAX;
    assert_eq!(silence(config, ms(100)).0.len(), 3, "no overflow");
}

/// The second timeout sends two requests of which old servers of A2S know one (spec/a2s.md#8).
#[test]
fn all_datagrams_of_a_retry_are_sent() {
    let mut config = fast(1_000.0);
    config.limits.retries = 3;
    let mut engine = SweepEngine::new(config, [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let a2s = registry::find("a2s").unwrap();
    let mut list = List::new(addresses(2).map(|address| (address, a2s)));
    let mut now = Duration::ZERO;
    let mut sent: BTreeMap<SocketAddr, Vec<String>> = BTreeMap::new();
    while !engine.is_done() {
        engine.tick(now, &mut out, &mut ends);
        engine.start_probes(now, &mut list, &mut out, &mut ends);
        let pending: Vec<_> = out.v4.pending().collect();
        let mut replies = Vec::new();
        for (to, _, bytes) in pending {
            let text = String::from_utf8_lossy(&bytes[4..]);
            let text = text.trim_end_matches('\0').to_string();
            // The first server replies.
            let is_known = text == "info" && Some(to) == addresses(2).next();
            replies.extend(is_known.then_some(to));
            sent.entry(to).or_default().push(text);
        }
        out.v4.clear();
        for from in replies {
            let info = b"\xFF\xFF\xFF\xFFC192.0.2.2:27015\0Old Quay\0m\0f\0g\0\x05\x10\x2F";
            engine.receive(now, from, Duration::ZERO, info, &mut out, &mut ends);
        }
        now += ms(8);
        assert!(now < Duration::from_secs(100), "it must end");
    }
    let letter = "TSource Engine Query";
    let tries = [letter, letter, "details", "info", letter];
    let [first, second] = addresses(2).map(|to| &sent[&to]).collect::<Vec<_>>()[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(second[..], tries);
    assert_eq!(first[..4], tries[..4]);
    assert_eq!(first[4], "players");
    let statuses = ends.0.iter().filter_map(|end| end.result.as_ref().ok());
    let names: Vec<_> = statuses
        .filter_map(|answer| answer.status.title())
        .collect();
    assert_eq!(names, ["Old Quay"]);
}

/// However coarse the steps of the simulated clock are.
#[test]
fn round_trip_times_are_exact_to_the_microsecond() {
    for start in [0, 200, 999] {
        let mut engine = SweepEngine::new(fast(1_000.0), [9; 16]);
        let mut out = Outboxes::default();
        let mut ends = Ends::default();
        let mut world = World::new(1);
        let mut now = Duration::from_micros(5_000 + start);
        world.delay = (0, 0);
        let mut list = minecraft(1);
        engine.start_probes(now, &mut list, &mut out, &mut ends);
        while ends.0.is_empty() {
            world.pass_all(now, &mut out);
            world.run(now);
            now += Duration::from_micros(700);
            let (_, from, bytes) = world.inbox.pop_front().unwrap();
            engine.receive(now, from, Duration::ZERO, &bytes, &mut out, &mut ends);
        }
        let round_trip = ends.0[0].result.as_ref().unwrap().latency;
        assert_eq!(
            round_trip,
            Duration::from_micros(700),
            "sent {start} µs after the millisecond"
        );
    }
}

#[test]
fn slow_servers_are_waited_for_without_retries() {
    // Most are near, and one in 200 takes almost as long as it may.
    let mut world = World::new(11);
    let mut config = fast(5_000.0);
    config.limits.retries = 0;
    let mut engine = SweepEngine::new(config, [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let mut list = minecraft(5_000);
    let mut now = Duration::ZERO;
    while !engine.is_done() {
        world.run(now);
        while let Some((_, from, bytes)) = world.inbox.pop_front() {
            engine.receive(now, from, Duration::ZERO, &bytes, &mut out, &mut ends);
        }
        engine.tick(now, &mut out, &mut ends);
        engine.start_probes(now, &mut list, &mut out, &mut ends);
        let sent = taken(&mut out);
        for (to, bytes) in sent {
            let delay = if mix(to).is_multiple_of(200) { 450 } else { 5 };
            world.delay = (delay, delay);
            world.pass(now, &Passage::To(to, bytes));
        }
        world.delay = (5, 5);
        now += STEP;
    }
    assert_eq!(engine.counts().timed_out, 0);
}

/// The delay jumps to a value that first tries can no longer measure.
#[test]
fn sudden_delay_changes_are_learned() {
    let mut world = World::new(12);
    world.delay = (20, 20);
    let mut list = minecraft(60_000);
    let mut resent = 0;
    let mut engine = SweepEngine::new(fast(4_000.0), [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let mut now = Duration::ZERO;
    while !engine.is_done() {
        world.delay = if now < ms(5_000) {
            (20, 20)
        } else {
            (200, 200)
        };
        if now == ms(15_000) {
            resent = engine.counts().datagrams_resent;
        }
        world.run(now);
        while let Some((_, from, bytes)) = world.inbox.pop_front() {
            engine.receive(now, from, Duration::ZERO, &bytes, &mut out, &mut ends);
        }
        engine.tick(now, &mut out, &mut ends);
        for _ in 0..8 {
            engine.start_probes(now, &mut list, &mut out, &mut ends);
            world.pass_all(now, &mut out);
        }
        now += STEP;
    }
    assert_eq!(engine.counts().timed_out, 0);
    assert!(now > ms(20_000), "the sweep ended too early: {now:?}");
    let more = engine.counts().datagrams_resent - resent;
    assert!(
        more < 1_000,
        "{more} requests repeated long after the change"
    );
}

/// A source with a long run of targets that cannot be probed.
struct Wrong(u64);

impl ProbeSource for Wrong {
    fn next(&mut self) -> Next {
        self.0 += 1;
        assert!(self.0 < 10_000, "one call never returns");
        let error = Error::NameNotFound {
            name: "nobody".into(),
        };
        Next::Failed {
            index: self.0 - 1,
            target: "nobody".into(),
            error,
        }
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

#[test]
fn invalid_targets_do_not_block_the_engine() {
    let mut engine = SweepEngine::new(fast(1_000.0), [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    assert!(
        engine.start_probes(ms(1), &mut Wrong(0), &mut out, &mut ends) > 0,
        "the list has more targets"
    );
    assert!((1..=64).contains(&ends.0.len()));
    assert_eq!(
        engine.position(&Wrong(0)),
        Position {
            next: ends.0.len() as u64,
            unfinished: vec![]
        }
    );
}

/// A source that never has a target ready and never ends.
struct Never;

impl ProbeSource for Never {
    fn next(&mut self) -> Next {
        Next::Pending
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

#[test]
fn waiting_engine_does_not_spin() {
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let mut idle = |config: SweepConfig, source: &mut dyn ProbeSource| {
        let mut engine = SweepEngine::new(config, [9; 16]);
        let mut now = Duration::ZERO;
        let mut calls = 0;
        while now < ms(3_000) {
            engine.tick(now, &mut out, &mut ends);
            while engine.start_probes(now, source, &mut out, &mut ends) > 0 {
                out.v4.clear();
            }
            out.v4.clear();
            calls += 1;
            now = engine
                .next_due(now, ms(50))
                .max(now + Duration::from_micros(100));
        }
        calls
    };
    let later = idle(fast(1_000_000.0), &mut Never);
    assert!(
        later <= 1_000,
        "{later} calls while the list has no target ready"
    );
    let mut crowded = fast(1_000_000.0);
    crowded.rate_limits.per_network = 1.0;
    let one = |count: u16| {
        List::new((1..=count).map(|port| {
            (
                SocketAddr::from(([127, 0, 0, 1], port)),
                registry::PROTOCOLS[0],
            )
        }))
    };
    let booked = idle(crowded.clone(), &mut one(1_000));
    assert!(
        booked <= 1_000,
        "{booked} calls while a network has used up its rate limit"
    );
    crowded.max_in_flight = 1;
    let full = idle(crowded, &mut one(1_000));
    assert!(full <= 1_000, "{full} calls while the window is full");
}

#[test]
fn extreme_configurations_finish() {
    for (rate, per_network, bits, largest) in [
        (0.25, f64::INFINITY, f64::INFINITY, 9),
        (f64::INFINITY, 0.1, f64::INFINITY, 9),
        (9.0, 1e9, 50.0, 9),
        (9.0, 9.0, 1e9, 0),
    ] {
        let mut world = World::new(13);
        let mut config = fast(rate);
        config.rate_limits.per_network = per_network;
        config.rate_limits.bandwidth = bits;
        config.max_in_flight = largest;
        let run = sweep(config, &mut world, &mut minecraft(5));
        check(&world, &run, 5, 0);
    }
    let mut config = fast(9.0);
    config.rate_limits.per_network = 0.0;
    let mut engine = SweepEngine::new(config, [9; 16]);
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let same = (1..100).map(|port| {
        (
            SocketAddr::from(([127, 0, 0, 1], port)),
            registry::PROTOCOLS[0],
        )
    });
    engine.start_probes(ms(1), &mut List::new(same), &mut out, &mut ends);
    assert!(out.len() < 10, "a rate of 0 allows one burst");
}

/// Start times at which the engine's short timestamps wrap around. Simulating a whole year would
/// take too long.
const MOMENTS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_micros((1 << 32) - 200_000),
    Duration::from_millis((1 << 32) - 200),
    Duration::from_micros((8_192 << 16) - 200_000),
];

fn rates(least: f64) -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::INFINITY),
        least..least * 20.0,
        least * 20.0..least * 1e4
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any network and any configuration, every index has one result, and checkpoints include
    /// it until then.
    #[test]
    fn each_probe_has_one_result_in_any_weather(
        (seed, moment) in (any::<u64>(), 0..MOMENTS.len()),
        (silent, loss, twice) in (0..100u64, prop_oneof![Just(0), 0..60u64], 0..50u64),
        (least, more) in (0..300u64, 0..400u64),
        (capacity, reads) in (prop_oneof![Just(usize::MAX), 1..20usize], prop_oneof![Just(usize::MAX), 2..20usize]),
        (rate, bits, per_network) in (rates(20.0), rates(20_000.0), rates(5.0)),
        (timeout, deadline, retries) in (1..2_000u64, 1..9_000u64, prop_oneof![0..5u32, Just(100)]),
        largest in prop_oneof![Just(750_000), 1..50usize],
        crowded: bool,
    ) {
        let mut world = World::new(seed);
        world.silent = silent;
        world.loss = loss;
        world.twice = twice;
        world.delay = (least, least + more);
        world.capacity = capacity;
        world.queue_length = 100;
        world.reads = reads;
        world.inbox_length = 40;
        world.start = MOMENTS[moment];
        world.closed.insert(25_567);
        let mut config = fast(rate);
        config.rate_limits.bandwidth = bits;
        config.rate_limits.per_network = per_network;
        config.max_in_flight = largest;
        config.limits.timeout = ms(timeout);
        config.limits.deadline = ms(deadline);
        config.limits.retries = retries;
        let destination = |i: u32| if crowded { SocketAddr::from(([127, 0, 0, (i % 40) as u8], 25_565 + (i % 3) as u16)) } else { SocketAddr::from((0x7F00_0001u32.wrapping_add(i.reverse_bits() >> 8).to_be_bytes(), 25_565)) };
        let all = (0..40).flat_map(|i| registry::defaults().map(move |protocol| (destination(i), protocol)));
        let mut list = List::new(all);
        let total = list.total;
        let mut steps = 0;
        let mut run = sweep_with(config, &mut world, &mut list, |_, engine, _, ends| {
            steps += 1;
            if steps % 97 == 0 {
                let Position { next, unfinished } = engine.position(&minecraft(0));
                let ended: BTreeSet<u64> = ends.0.iter().map(|end| end.index).collect();
                let known: BTreeSet<u64> = unfinished.iter().copied().chain(ended).collect();
                assert_eq!(known.len(), unfinished.len() + ends.0.len(), "none twice");
                assert!(known.into_iter().eq(0..next), "none missing");
            }
            true
        });
        // UGP replies do not name the request that they belong to, so a late duplicate may be
        // paired with the wrong request.
        let (guessed, sure): (Vec<ProbeResult>, Vec<ProbeResult>) = std::mem::take(&mut run.ends)
            .into_iter()
            .partition(|end| end.result.as_ref().is_ok_and(|answer| answer.transcript.protocol.id == "ugp"));
        let indices: BTreeSet<u64> = guessed.iter().chain(&sure).map(|end| end.index).collect();
        prop_assert_eq!((indices.len() as u64, guessed.len() + sure.len()), (total, total as usize));
        for end in &sure {
            match &end.result {
                Ok(answer) => prop_assert!(
                    answer.status.extra("unanswered").is_some()
                        || Some(&*answer.status) == world.expected(answer.transcript.address, answer.transcript.protocol.id)
                ),
                Err(Error::PortClosed { transcript }) => prop_assert_eq!(transcript.address.port(), 25_567),
                Err(error) => prop_assert!(matches!(error, Error::Silence { .. }), "{}", error),
            }
        }
        let counts = run.engine.counts();
        prop_assert_eq!((counts.answered + counts.timed_out + counts.port_closed, counts.probes), (total, total));
        prop_assert_eq!(run.engine.position(&minecraft(0)), Position { next: total, unfinished: vec![] });
    }
}

#[test]
fn silent_servers_share_the_rate_limit_of_their_network() {
    let mut world = World::new(14);
    world.silent = 100;
    let mut config = fast(100_000.0);
    config.rate_limits.per_network = 100.0;
    let crowd = (0..600u16).map(|i| {
        (
            SocketAddr::from(([127, 200, 7, (i % 200) as u8], 25_565 + i / 200)),
            registry::PROTOCOLS[0],
        )
    });
    let run = sweep(config, &mut world, &mut List::new(crowd));
    check(&world, &run, 600, 0);
    let sent: usize = world.sent.values().sum();
    assert_eq!(sent, 1_800);
    let times: Vec<(Duration, usize)> =
        world.sent.iter().map(|(at, count)| (*at, *count)).collect();
    // In each window of 5 s.
    for (first, (from, _)) in times.iter().enumerate() {
        let count: usize = times[first..]
            .iter()
            .take_while(|(at, _)| *at < *from + ms(5_000))
            .map(|(_, count)| count)
            .sum();
        assert!(count <= 600, "{count} in five seconds from {from:?}");
    }
}

/// A protocol that is not in the registry. Its exchange stores everything it receives and never
/// completes.
struct Greedy;

static GREEDY: Info = Info {
    id: "greedy",
    title: "Greedy",
    port: 4_242,
    has_responder: true,
    ..Info::DATAGRAM
};

impl Protocol for Greedy {
    fn info(&self) -> &'static Info {
        &GREEDY
    }

    fn exchange(&self, _: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(GreedyExchange(0))
    }

    fn responder(&self, _: &Status, _: &Keys, _: &Options) -> ResponderResult {
        unimplemented!("this test needs no responder")
    }

    fn explain(&self, _: &[u8], _: DatagramContext<'_>, _: &mut Notes) -> Option<Explanation> {
        None
    }
}

struct GreedyExchange(usize);

impl Exchange for GreedyExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Datagram(bytes) => self.0 += bytes.len(),
            Input::GiveUp => {
                let mut status = Status::default();
                status.players.online = Some(self.0 as i64);
                return Step::Done(Box::new(status));
            }
            _ => {}
        }
        out.push(b'?');
        Step::Send
    }

    fn stage(&self) -> usize {
        self.0
    }
}

#[test]
fn total_memory_of_exchanges_is_limited() {
    let mut config = fast(f64::INFINITY);
    config.max_memory = 1 << 20;
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let mut engine = SweepEngine::new(config.clone(), [7; 16]);
    let mut list = List::new(addresses(100).map(|address| (address, &Greedy as &dyn Protocol)));
    while engine.start_probes(ms(1), &mut list, &mut out, &mut ends) > 0 {
        out.v4.clear();
    }
    let datagram = [0; 1_000];
    for round in 1..=20 {
        for address in addresses(100) {
            let now = ms(1 + round);
            engine.receive(now, address, Duration::ZERO, &datagram, &mut out, &mut ends);
            out.v4.clear();
            assert!(
                engine.memory() <= config.max_memory,
                "{} bytes in round {round}",
                engine.memory()
            );
        }
    }
    let ended = engine.counts().memory_limited;
    assert!((80..100).contains(&ended), "{ended} exchanges ended early");
    assert_eq!(ends.0.len() as u64, ended);
    // They end with the status received so far.
    for end in &ends.0 {
        let online = end.result.as_ref().unwrap().status.players.online;
        assert!(online >= Some(1_000), "{online:?}");
    }
}

#[test]
fn sweeps_with_custom_protocols() {
    let mut collector = Collector::new(&[&Greedy]).unwrap();
    collector.add("192.0.2.1").unwrap();
    collector.add("192.0.2.8/31").unwrap();
    let targets = collector.finish(&Exclusions::default()).unwrap();
    let mut list = ListSource::new(targets, Arc::default(), SourceConfig::default());
    let mut out = Outboxes::default();
    let mut ends = Ends::default();
    let mut engine = SweepEngine::new(fast(f64::INFINITY), [7; 16]);
    while engine.start_probes(ms(1), &mut list, &mut out, &mut ends) > 0 {}
    let mut addresses: Vec<String> = out.v4.pending().map(|(to, ..)| to.to_string()).collect();
    addresses.sort_unstable();
    assert_eq!(
        addresses,
        ["192.0.2.1:4242", "192.0.2.8:4242", "192.0.2.9:4242"]
    );
    assert_eq!(engine.in_flight(), 3);
}
