//! Sweep engine without sockets and clocks: takes the time and the received datagrams, returns
//! datagrams to send.
//!
//! The slot of a probe in flight has 34 bytes: address, protocol, game, number of retries and times.
//! Until the server replies, the engine rebuilds the exchange for each datagram. That works because
//! an exchange derives all its random values from its cookie, and the cookie is a hash of a secret
//! and the probe. Only a server that has replied gets a [driver](ExchangeDriver).
//!
//! Limits: 65,536 probes wait for the rate limit of their networks, at most 60 s ahead; a reply may
//! take 240 s and a query 30 days; [`SweepConfig::max_in_flight`] and [`SweepConfig::max_memory`]
//! limit the memory. At most four batches of datagrams wait to be sent, and one for each reply of a
//! received batch.
//!
//! In: probes, received datagrams, the time. Out: datagrams to send, answers.
//!
//! May import: `crate::answer`, `crate::error`, `crate::merge`, `crate::support`, `crate::sweep`,
//! `crate::target`, `crate::transcript`, `hailer_proto`, `hailer_udp`.

mod connections;
mod flight;
mod pace;
pub(super) mod services;
mod window;

pub use connections::ConnectionOrder;
pub use pace::{PrefixLimiter, Throttle};
pub use services::{DefaultKinds, TargetKind};

use connections::Connections;
pub(crate) use connections::STREAM_BATCH;

use crate::answer::Answer;
use crate::error::Error;
use crate::merge;
use crate::support::drive::{Action, ExchangeDriver, ExchangeError, ExchangeOutput, QueryLimits};
use crate::sweep::ListError;
use crate::sweep::{Counts, Next, Position, Probe, ProbeResult, ProbeSource, Sink, SweepConfig};
use crate::target::TargetError;
use crate::transcript::{Datagram, Transcript};
use flight::{Id, ProbeTable, TICK};
use hailer_proto::model::encoding;
use hailer_proto::{Ask, Cookie, Depth, Direction, Game, Protocol};
use hailer_udp::{BATCH, Outbox};
pub(crate) use pace::SharedLimits;
use services::KindNumber;
use siphasher::sip::SipHasher24;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hasher;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use window::{Delays, Window};

/// Largest number of probes that wait for the rate limit of their network. Above it, no probe is
/// started.
const MAX_WAITING: usize = 1 << 16;
/// Longest wait of a probe for the rate limit of its network. A longer one holds up the whole
/// sweep, which keeps the waiting probes few.
const MAX_BOOKED: Duration = Duration::from_secs(60);
/// Upper bound of the configured timeout: the timer wheel of [`ProbeTable`] covers only about 268 s.
const MAX_TIMEOUT: Duration = Duration::from_secs(240);
/// Longest deadline of a query: its start is stored in 32 bits of milliseconds.
const MAX_DEADLINE: Duration = Duration::from_secs(30 * 86_400);

/// Estimated memory of an exchange that has received a reply, in bytes.
const MEMORY_PER_EXCHANGE: usize = 1_024;
/// Estimated memory for each byte received. A player of 18 bytes takes about 100 bytes once parsed.
const MEMORY_PER_BYTE: usize = 6;

/// Datagrams to send, by address family.
#[derive(Debug, Default)]
pub struct Outboxes {
    /// Datagrams to IPv4 addresses.
    pub v4: Outbox,
    /// Datagrams to IPv6 addresses.
    pub v6: Outbox,
}

impl Outboxes {
    /// Returns the outbox for an address.
    pub fn of(&mut self, to: SocketAddr) -> &mut Outbox {
        if to.is_ipv4() {
            &mut self.v4
        } else {
            &mut self.v6
        }
    }

    /// Returns the number of datagrams that wait to be sent.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns whether no datagram waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Engine of a sweep. The caller passes the time and the received datagrams, and sends the datagrams
/// that the engine puts into the [`Outboxes`].
pub struct SweepEngine {
    config: SweepConfig,
    /// Limits of a query once the server has replied, with the full timeout.
    limits: QueryLimits,
    secret: [u8; 16],
    flight: ProbeTable,
    drivers: Vec<Option<ExchangeDriver>>,
    free_drivers: Vec<u32>,
    /// Estimated memory of all drivers, in bytes.
    memory: usize,
    /// Targets as typed, for those that are names.
    names: HashMap<Id, Arc<str>>,
    /// The SRV records that led to the servers, as clauses for errors.
    srv_records: HashMap<Id, Arc<str>>,
    /// First port of the probes that have come to another query port of their game.
    first_ports: HashMap<Id, u16>,
    /// The request to servers that have no player list.
    ask_without_players: Ask,
    /// Received datagrams, if they are kept.
    replies: HashMap<Id, Vec<Datagram>>,
    rate_limits: SharedLimits,
    window: Window,
    delays: Delays,
    counts: Counts,
    /// Longest time that a datagram received now may have waited in our receive queue, for systems
    /// without timestamps.
    lag: Duration,
    /// Last known overflow of our receive queue. Replies to earlier datagrams may be lost.
    overflowed: Option<Duration>,
    next_index: u64,
    /// Kind of the last probe and its number. Most probes have the kind of the one before, and a
    /// search takes longer.
    last_kind: Option<(TargetKind, KindNumber)>,
    /// Probe from the source that is not started because its network is booked too far ahead.
    held: Option<(Probe, Duration)>,
    /// No probe can start before this time.
    idle_until: Duration,
    is_drained: bool,
    found: Vec<Id>,
    scratch: Vec<u8>,
    connections: Connections,
}

impl fmt::Debug for SweepEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SweepEngine")
            .field("config", &self.config)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl SweepEngine {
    /// Creates an engine at time zero. The cookies are derived from the secret.
    pub fn new(config: SweepConfig, secret: [u8; 16]) -> Self {
        let [seed, other] = seeds(&secret);
        let limits = SharedLimits::new(&config.rate_limits, Cookie(other).derive(seed));
        Self::with_limits(config, secret, limits)
    }

    /// Creates an engine that shares its rate limits with others, whose time zero is the same.
    pub(crate) fn with_limits(
        mut config: SweepConfig,
        secret: [u8; 16],
        rate_limits: SharedLimits,
    ) -> Self {
        let [seed, other] = seeds(&secret);
        let mut limits = config.limits;
        limits.deadline = limits.deadline.min(MAX_DEADLINE);
        limits.timeout = limits.timeout.min(limits.deadline).min(MAX_TIMEOUT);
        limits.retries = limits.retries.min(u32::from(u8::MAX - 1));
        config.max_in_flight = config.max_in_flight.max(1);
        Self {
            limits,
            secret,
            flight: ProbeTable::new(Cookie(seed).derive(other)),
            drivers: Vec::new(),
            free_drivers: Vec::new(),
            memory: 0,
            names: HashMap::new(),
            srv_records: HashMap::new(),
            first_ports: HashMap::new(),
            ask_without_players: Ask {
                has_players: false,
                ..config.ask.clone()
            },
            replies: HashMap::new(),
            rate_limits,
            window: Window::new(config.max_in_flight),
            delays: Delays::new(limits.timeout),
            counts: Counts::default(),
            lag: Duration::ZERO,
            overflowed: None,
            next_index: 0,
            last_kind: None,
            held: None,
            idle_until: Duration::ZERO,
            is_drained: false,
            found: Vec::new(),
            scratch: Vec::new(),
            connections: Connections::default(),
            config,
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the number of probes that are not finished.
    pub fn in_flight(&self) -> usize {
        self.flight.len() + usize::from(self.held.is_some())
    }

    /// Returns whether the source is exhausted and all probes are finished.
    pub fn is_done(&self) -> bool {
        self.is_drained && self.in_flight() == 0
    }

    /// Returns the position of the sweep, for a checkpoint.
    pub fn position(&self, source: &dyn ProbeSource) -> Position {
        let Position {
            next,
            mut unfinished,
        } = source.position();
        unfinished.extend(self.flight.ids().map(|id| self.flight.slot(id).index()));
        unfinished.extend(self.held.as_ref().map(|(probe, _)| probe.index));
        unfinished.sort_unstable();
        let next = next
            .max(self.next_index)
            .max(unfinished.last().map_or(0, |last| last + 1));
        Position { next, unfinished }
    }

    /// Starts as many probes as the rate limits, the window and one batch allow. Returns how many
    /// targets the source returned. Probes of busy networks wait; targets whose names did not resolve
    /// end here.
    pub fn start_probes(
        &mut self,
        now: Duration,
        source: &mut dyn ProbeSource,
        out: &mut Outboxes,
        sink: &mut dyn Sink,
    ) -> usize {
        let mut given = 0;
        let batch = if self.open_connections() > 0 {
            STREAM_BATCH
        } else {
            BATCH
        };
        self.idle_until = now;
        while given < batch
            && out.len() < BATCH
            && !self.is_drained
            && self.rate_limits.is_ready(now)
        {
            if self.flight.in_window() >= self.window.size() {
                self.window.limits();
                break;
            }
            if self.flight.waiting() >= MAX_WAITING
                || self.flight.len() >= self.config.max_in_flight
            {
                break;
            }
            let (probe, due) = match self.held.take() {
                Some(held) => held,
                None => match source.next() {
                    Next::Probe(probe) => {
                        given += 1;
                        self.next_index = self.next_index.max(probe.index + 1);
                        let due = self.rate_limits.book(probe.address.ip(), now);
                        (probe, due)
                    }
                    Next::Failed {
                        index,
                        target,
                        error,
                    } => {
                        given += 1;
                        self.next_index = self.next_index.max(index + 1);
                        self.counts.unresolved += 1;
                        sink.record(ProbeResult {
                            index,
                            name: Some(target),
                            result: Err(error),
                        });
                        continue;
                    }
                    Next::Repeat { index, is_failed } => {
                        given += 1;
                        self.next_index = self.next_index.max(index + 1);
                        self.counts.unresolved += u64::from(is_failed);
                        continue;
                    }
                    Next::Pending => {
                        self.idle_until = now + source.retry_after();
                        break;
                    }
                    Next::Done => {
                        self.is_drained = true;
                        break;
                    }
                },
            };
            if due > now + MAX_BOOKED {
                self.idle_until = due - MAX_BOOKED;
                self.held = Some((probe, due));
                break;
            }
            if self.lacks_connection(&probe) {
                self.idle_until = now + source.retry_after();
                self.held = Some((probe, due));
                break;
            }
            self.begin(now, probe, due, out, sink);
        }
        given
    }

    fn begin(
        &mut self,
        now: Duration,
        probe: Probe,
        due: Duration,
        out: &mut Outboxes,
        sink: &mut dyn Sink,
    ) {
        let kind = TargetKind {
            protocol: probe.protocol,
            game: probe.game,
        };
        let Some(kind) = self.number_of(kind) else {
            self.counts.unresolved += 1;
            let target = match &probe.name {
                Some(name) => name.to_string(),
                None => format!("{}://{}", probe.protocol.info().id, probe.address),
            };
            let problem = ListError::TooManyKinds.to_string();
            sink.record(ProbeResult {
                index: probe.index,
                name: probe.name,
                result: Err(Error::Target(TargetError::new(&target, problem))),
            });
            return;
        };
        let id = self
            .flight
            .insert(probe.address, kind, probe.index, now, due);
        if let Some(name) = probe.name {
            self.names.insert(id, name);
        }
        if let Some(srv) = probe.srv {
            self.srv_records.insert(id, srv);
        }
        if due <= now {
            self.send_first(now, id, out, sink);
        }
    }

    /// Returns the number of a kind, or `None` if all numbers are in use.
    fn number_of(&mut self, kind: TargetKind) -> Option<KindNumber> {
        if let Some((last, number)) = self.last_kind
            && last.is_same(kind)
        {
            return Some(number);
        }
        let number = services::number_of(kind)?;
        self.last_kind = Some((kind, number));
        Some(number)
    }

    fn send_first(&mut self, now: Duration, id: Id, out: &mut Outboxes, sink: &mut dyn Sink) {
        self.counts.probes += u64::from(self.is_at_first_port(id));
        self.flight.set_sent(id);
        let slot = self.flight.slot_mut(id);
        slot.began = now.as_millis() as u32;
        slot.sent_or_driver = now.as_micros() as u32;
        if self.is_stream(id) {
            return self.connect(now, id);
        }
        self.send_again(now, id, out, sink);
    }

    /// Sends the datagram of the current try to a server that has not replied.
    fn send_again(&mut self, now: Duration, id: Id, out: &mut Outboxes, sink: &mut dyn Sink) {
        let (to, wait) = (self.flight.address(id), self.wait(now, id));
        let (mut drive, mut action) = self.replay(id, now, out.of(to).draft());
        loop {
            match action {
                Action::Send | Action::SendMore | Action::Reconnect => {
                    let length = out.of(to).commit(to, None);
                    self.flight.slot_mut(id).sent_or_driver = now.as_micros() as u32;
                    self.flight.wake_at(id, now + wait);
                    self.sent(to.ip(), length);
                }
                Action::Wait | Action::Progress => self.flight.wake_at(id, now + wait),
                Action::End(end) => return self.end(now, id, Some(&drive), end, sink),
            }
            if !matches!(action, Action::SendMore) {
                return;
            }
            self.rate_limits.owe(to.ip(), now);
            action = drive.resume(now, out.of(to).draft());
        }
    }

    /// Returns how long to wait for a reply to a datagram sent now. The last try waits twice as
    /// long as the others.
    fn wait(&self, now: Duration, id: Id) -> Duration {
        let is_last =
            u32::from(self.flight.slot(id).resends) >= self.delays.retries(self.limits.retries);
        let usual = self.delays.wait();
        let wait = if is_last { usual * 2 } else { usual };
        wait.min(self.limits.timeout)
            .min(self.limits.deadline.saturating_sub(self.took(now, id)))
    }

    /// Returns how long a query has taken so far, in whole milliseconds.
    fn took(&self, now: Duration, id: Id) -> Duration {
        let millis = (now.as_millis() as u32).wrapping_sub(self.flight.slot(id).began);
        Duration::from_millis(millis.into())
    }

    /// Returns when the last datagram was sent to a server that has not replied.
    fn last_send(&self, now: Duration, id: Id) -> Duration {
        before(now, self.flight.slot(id).sent_or_driver)
    }

    fn sent(&mut self, to: IpAddr, length: usize) {
        self.rate_limits.spend(to, length);
        self.counts.datagrams_sent += 1;
        self.counts.bytes_sent += length as u64;
    }

    /// Rebuilds the driver of a server that has not replied, and writes its last datagram to `out`.
    fn replay(&self, id: Id, now: Duration, out: &mut Vec<u8>) -> (ExchangeDriver, Action) {
        let slot = self.flight.slot(id);
        let exchange = self.protocol(id).exchange(self.ask(id), self.cookie(id));
        let sent = self.last_send(now, id);
        // The start is rounded to milliseconds and may seem later than the send, which has
        // microseconds.
        let began = now.saturating_sub(self.took(now, id)).min(sent);
        ExchangeDriver::replayed(
            exchange,
            self.limits,
            began,
            sent,
            u32::from(slot.resends),
            out,
        )
    }

    fn kind(&self, id: Id) -> TargetKind {
        services::kind(self.flight.kind(id))
    }

    fn protocol(&self, id: Id) -> &'static dyn Protocol {
        self.kind(id).protocol
    }

    /// Returns the parts of the status that a probe requests.
    fn ask(&self, id: Id) -> &Ask {
        if self.kind(id).has_player_list() {
            &self.config.ask
        } else {
            &self.ask_without_players
        }
    }

    /// Returns the cookie of a probe. It cannot be guessed from the cookies of other probes.
    fn cookie(&self, id: Id) -> Cookie {
        let (slot, address) = (self.flight.slot(id), self.flight.address(id));
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        match address.ip() {
            IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
            IpAddr::V6(ip) => hasher.write_u128(ip.to_bits()),
        }
        hasher.write_u64(
            u64::from(address.port()) << 48 ^ u64::from(self.flight.kind(id)) << 40 ^ slot.index(),
        );
        Cookie(hasher.finish())
    }

    /// Sets the size of our receive queue, in bytes. Call it before the first probe.
    pub fn set_receive_buffer(&mut self, bytes: usize) {
        self.window.holds(bytes);
    }

    /// Sets the time since our receive queue was last seen empty. No datagram received from now on
    /// has waited longer than that in the queue. Our own delay must not count as delay of the
    /// network.
    pub fn set_receive_lag(&mut self, lag: Duration) {
        self.lag = lag;
        self.window.lag(lag);
    }

    /// Processes a received datagram. `waited` is its time in our receive queue, or zero if
    /// unknown.
    pub fn receive(
        &mut self,
        now: Duration,
        from: SocketAddr,
        waited: Duration,
        bytes: &[u8],
        out: &mut Outboxes,
        sink: &mut dyn Sink,
    ) {
        self.counts.datagrams_received += 1;
        self.counts.bytes_received += bytes.len() as u64;
        let mut found = std::mem::take(&mut self.found);
        self.flight.find(from, &mut found);
        found.retain(|id| !self.flight.slot(*id).is_waiting() && !self.is_stream(*id));
        if found.is_empty() {
            self.counts.stray_datagrams += 1;
        } else if !found
            .iter()
            .any(|id| self.offer(now, *id, waited, bytes, out, sink))
        {
            self.counts.duplicate_datagrams += 1;
        }
        self.found = found;
        if self.memory > self.config.max_memory {
            self.free_memory(now, sink);
        }
    }

    /// Passes a datagram to one of the probes of its sender. Returns whether it belonged to that
    /// probe.
    fn offer(
        &mut self,
        now: Duration,
        id: Id,
        waited: Duration,
        bytes: &[u8],
        out: &mut Outboxes,
        sink: &mut dyn Sink,
    ) -> bool {
        let to = self.flight.address(id);
        let at = now.saturating_sub(waited);
        let slot = self.flight.slot(id);
        // `None` if the server had replied before, `Some(None)` if it is unclear which try the
        // reply belongs to.
        let mut first_delay = None;
        // The driver of an exchange that the first reply ends. It is not stored.
        let mut ended = None;
        let (action, due) = if slot.has_answered() {
            let Some(drive) = &mut self.drivers[slot.sent_or_driver as usize] else {
                return false;
            };
            self.memory += bytes.len() * MEMORY_PER_BYTE;
            (drive.datagram(at, bytes, out.of(to).draft()), drive.due())
        } else {
            let is_first_try = slot.resends == 0;
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.clear();
            let (mut drive, mut action) = self.replay(id, now, &mut scratch);
            while matches!(action, Action::SendMore) {
                action = drive.resume(drive.last_send(), &mut scratch);
            }
            self.scratch = scratch;
            let kept = if waited.is_zero() { self.lag } else { waited };
            let received_at = now - kept.min(now);
            first_delay = Some(is_first_try.then(|| received_at.saturating_sub(drive.last_send())));
            let action = drive.datagram(at, bytes, out.of(to).draft());
            let due = drive.due();
            // Store nothing for a datagram that may be forged. After a retry the exchange may have
            // state, so keep it.
            if is_first_try && matches!(action, Action::Wait) {
                return false;
            }
            if matches!(action, Action::End(_)) {
                ended = Some(drive);
            } else {
                self.keep(id, drive);
            }
            (action, due)
        };
        if self.config.has_replies {
            let reply = Datagram {
                direction: Direction::Reply,
                at: self.took(at, id),
                bytes: bytes.to_vec(),
            };
            self.replies.entry(id).or_default().push(reply);
        }
        match action {
            Action::Wait => {
                self.flight.wake_at(id, due);
                return false;
            }
            Action::Progress => self.flight.wake_at(id, due),
            Action::Send | Action::SendMore | Action::Reconnect => {
                self.send_kept(now, id, action, out, sink);
                self.window.alive_asked();
            }
            Action::End(end) => self.end(now, id, ended.as_ref(), end, sink),
        }
        if let Some(delay) = first_delay {
            self.window.alive_asked();
            match delay {
                Some(delay) => {
                    self.window.delay(delay);
                    self.delays.add(delay);
                }
                // The server was alive, and a datagram to or from it was lost.
                None => {
                    self.window.alive_lost();
                    self.delays.late();
                }
            }
        }
        true
    }

    /// Sends the datagrams of a driver that is kept: the one in the draft and those that follow it.
    /// Ends the probe if the last one ends the exchange, as a disconnect does. Returns the number of
    /// datagrams.
    fn send_kept(
        &mut self,
        now: Duration,
        id: Id,
        mut action: Action,
        out: &mut Outboxes,
        sink: &mut dyn Sink,
    ) -> u64 {
        let to = self.flight.address(id);
        let place = self.flight.slot(id).sent_or_driver as usize;
        let mut count = 0;
        while matches!(action, Action::Send | Action::SendMore) {
            let length = out.of(to).commit(to, None);
            self.sent(to.ip(), length);
            // Sent despite the rate limit: the server waits, and its token expires.
            self.rate_limits.owe(to.ip(), now);
            count += 1;
            let Some(driver) = &mut self.drivers[place] else {
                break;
            };
            action = match action {
                Action::SendMore => driver.resume(now, out.of(to).draft()),
                _ => Action::Wait,
            };
            let due = driver.due();
            self.flight.wake_at(id, due);
        }
        if let Action::End(end) = action {
            self.end(now, id, None, end, sink);
        }
        count
    }

    /// Returns the estimated memory of all exchanges that have received a reply, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Ends the largest exchanges until a sixteenth of the memory limit is free again.
    fn free_memory(&mut self, now: Duration, sink: &mut dyn Sink) {
        let mut exchanges: Vec<(usize, Id)> = Vec::new();
        for id in self.flight.ids() {
            let slot = self.flight.slot(id);
            if slot.has_answered()
                && let Some(driver) = &self.drivers[slot.sent_or_driver as usize]
            {
                exchanges.push((memory_of(driver), id));
            }
        }
        exchanges.sort_unstable();
        let wanted = self.config.max_memory - self.config.max_memory / 16;
        while self.memory > wanted
            && let Some((_, id)) = exchanges.pop()
        {
            let place = self.flight.slot(id).sent_or_driver as usize;
            let Some(driver) = &mut self.drivers[place] else {
                continue;
            };
            let bytes = driver.received_bytes();
            let end = driver.take_partial().ok_or(ExchangeError::Flood { bytes });
            self.counts.memory_limited += 1;
            self.end(now, id, None, end, sink);
        }
    }

    /// Stores the driver of a server that has replied.
    fn keep(&mut self, id: Id, drive: ExchangeDriver) {
        let place = match self.free_drivers.pop() {
            Some(place) => {
                self.drivers[place as usize] = Some(drive);
                place
            }
            None => {
                self.drivers.push(Some(drive));
                self.drivers.len() as u32 - 1
            }
        };
        self.memory += self.drivers[place as usize].as_ref().map_or(0, memory_of);
        self.flight.set_overdue(id, false);
        self.flight.slot_mut(id).set_answered(place);
    }

    /// Processes an ICMP error. If it quotes a datagram that was not sent, it is forged and
    /// ignored.
    pub fn receive_refusal(
        &mut self,
        now: Duration,
        to: SocketAddr,
        error: &io::Error,
        quoted: &[u8],
        sink: &mut dyn Sink,
    ) {
        let mut found = std::mem::take(&mut self.found);
        self.flight.find(to, &mut found);
        let mut is_ours = false;
        for &id in &found {
            let slot = self.flight.slot(id);
            // Ignore refusals from servers that have replied; if really gone, they time out.
            if slot.is_waiting() || slot.has_answered() || self.is_stream(id) {
                is_ours |= slot.has_answered();
                continue;
            }
            let mut request = std::mem::take(&mut self.scratch);
            request.clear();
            let (drive, _) = self.replay(id, now, &mut request);
            let matches = request.starts_with(quoted) || quoted.starts_with(&request);
            self.scratch = request;
            if matches {
                is_ours = true;
                let transcript = Box::new(self.transcript(id, Some(&drive)));
                let error = match error.kind() {
                    io::ErrorKind::ConnectionRefused => Error::PortClosed { transcript },
                    _ => Error::Unreachable {
                        transcript,
                        cause: copy(error),
                    },
                };
                self.finish(now, id, Err(error), sink);
            }
        }
        self.counts.forged_refusals += u64::from(!is_ours && !found.is_empty());
        self.found = found;
    }

    /// Records that our receive queue has lost `total` datagrams so far.
    pub fn record_drops(&mut self, now: Duration, total: u64) {
        if total > self.counts.dropped_datagrams {
            self.counts.dropped_datagrams = total;
            self.overflowed = Some(now);
            self.window.overflow();
        }
    }

    /// Records that the system's send queue was full.
    pub fn record_full_send_queue(&mut self) {
        self.window.overflow();
    }

    /// Processes timeouts. Call it only when the receive queue is empty, because a reply that is
    /// still in the queue is not late.
    pub fn tick(&mut self, now: Duration, out: &mut Outboxes, sink: &mut dyn Sink) {
        while out.len() < 4 * BATCH
            && let Some(id) = self.flight.wake(now)
        {
            let slot = self.flight.slot(id);
            if slot.is_waiting() {
                if self.postpone(now, id) {
                    continue;
                }
                match self.rate_limits.turn(self.flight.address(id).ip(), now) {
                    Some(later) => self.flight.wake_at(id, later),
                    None => self.send_first(now, id, out, sink),
                }
            } else if self.is_stream(id) {
                if self.flight.slot(id).has_answered() {
                    self.remind_stream(now, id, sink);
                } else {
                    self.connect_timed_out(now, id, sink);
                }
            } else if slot.has_answered() {
                self.remind(now, id, out, sink);
            } else {
                self.silence(now, id, out, sink);
            }
        }
        self.delays.adapt(now);
        self.window
            .adapt(now, self.flight.in_window(), self.delays.wait());
    }

    /// Ends a probe whose server has not replied for `after`.
    fn end_silent(&mut self, now: Duration, id: Id, after: Duration, sink: &mut dyn Sink) {
        self.end(now, id, None, Err(ExchangeError::Silence { after }), sink);
    }

    /// Handles a timeout of a server that has not replied.
    fn silence(&mut self, now: Duration, id: Id, out: &mut Outboxes, sink: &mut dyn Sink) {
        let (sent, took) = (self.last_send(now, id), self.took(now, id));
        let retries = self.delays.retries(self.limits.retries);
        let slot = self.flight.slot_mut(id);
        let is_our_fault = self.overflowed.is_some_and(|at| at >= sent) && slot.forgive();
        if is_our_fault {
            // Neither the retry nor the time since it counts.
            slot.began = slot.began.wrapping_add((now - sent).as_millis() as u32);
        } else if took >= self.limits.deadline || u32::from(slot.resends) >= retries {
            // Wait for the rest of the full timeout, since unusually slow servers still count.
            let left = self.limits.timeout.saturating_sub(took);
            if left > TICK {
                self.flight.set_overdue(id, true);
                return self.flight.wake_at(id, now + left);
            }
            return self.end_silent(now, id, took, sink);
        } else {
            slot.resends += 1;
        }
        self.flight.set_overdue(id, false);
        self.counts.datagrams_resent += 1;
        self.counts.resent_after_overflow += u64::from(is_our_fault);
        self.rate_limits.owe(self.flight.address(id).ip(), now);
        self.send_again(now, id, out, sink);
    }

    /// Handles a timeout of a server that has replied.
    fn remind(&mut self, now: Duration, id: Id, out: &mut Outboxes, sink: &mut dyn Sink) {
        let to = self.flight.address(id);
        let place = self.flight.slot(id).sent_or_driver;
        let Some(drive) = &mut self.drivers[place as usize] else {
            return;
        };
        if now < drive.due() {
            return self.flight.wake_at(id, drive.due());
        }
        if self.overflowed.is_some_and(|at| at >= drive.last_send()) {
            drive.grant_retry();
            self.counts.resent_after_overflow += 1;
        }
        let was_resent = drive.has_resent();
        let action = drive.tick(now, out.of(to).draft());
        let due = drive.due();
        match action {
            Action::Wait | Action::Progress => self.flight.wake_at(id, due),
            Action::Send | Action::SendMore | Action::Reconnect => {
                let sent = self.send_kept(now, id, action, out, sink);
                self.counts.datagrams_resent += sent;
            }
            Action::End(end) => self.end(now, id, None, end, sink),
        }
        if !was_resent {
            self.window.alive_lost();
        }
    }

    /// Ends a probe with the result of its driver.
    fn end(
        &mut self,
        now: Duration,
        id: Id,
        drive: Option<&ExchangeDriver>,
        end: Result<ExchangeOutput, ExchangeError>,
        sink: &mut dyn Sink,
    ) {
        let transcript = self.transcript(id, drive);
        let result = match end {
            Ok(outcome) => {
                let ExchangeOutput {
                    mut status,
                    latency,
                } = outcome;
                let game = self.kind(id).game;
                let charset = self.ask(id).charset.or(game.and_then(Game::charset));
                if !self.protocol(id).info().declares_charset {
                    encoding::decode(&mut status, charset);
                }
                let mut answer = Answer::new(transcript, status, latency);
                answer.notes = self.notes(id, &answer);
                answer.accept(self.config.is_strict)
            }
            Err(failure) => Err(Error::from_failure(transcript, failure)),
        };
        self.finish(now, id, result, sink);
    }

    /// Returns the transcript of a probe: address, protocol and datagram counts.
    fn transcript(&mut self, id: Id, drive: Option<&ExchangeDriver>) -> Transcript {
        let datagrams = take(&mut self.replies, id).unwrap_or_default();
        let slot = self.flight.slot(id);
        let kept = if slot.has_answered() {
            self.drivers[slot.sent_or_driver as usize].as_ref()
        } else {
            None
        };
        let (sent, received) = match drive.or(kept) {
            Some(drive) => (drive.sent(), drive.received()),
            None if slot.is_stream() => (0, 0),
            None => (u32::from(slot.resends) + 1, 0),
        };
        Transcript {
            sent,
            received,
            datagrams,
            ..Transcript::new(self.protocol(id).info(), self.flight.address(id))
        }
    }

    /// Returns the notes on an answer of a server of a game.
    fn notes(&self, id: Id, answer: &Answer) -> Vec<String> {
        let Some(game) = self.kind(id).game else {
            return Vec::new();
        };
        let ask = self.ask(id);
        let has_asked = ask.has_players && ask.depth == Depth::Full;
        let mut notes = merge::notes(game, &answer.status, &[], has_asked);
        if let Some(first) = self.first_ports.get(&id) {
            let port = answer.transcript.address.port();
            notes.push(format!(
                "The query port {port} answered, not the first port {first}"
            ));
        }
        notes
    }

    /// Returns whether a probe has not come to another query port of its game.
    fn is_at_first_port(&self, id: Id) -> bool {
        self.first_ports.is_empty() || !self.first_ports.contains_key(&id)
    }

    /// Returns the query port to try after a failure, if the probe's game has another one. A host
    /// that is unreachable is so at every port.
    fn next_port(&self, id: Id, error: &Error) -> Option<u16> {
        let kind = self.kind(id);
        if kind.game.is_none()
            || matches!(error, Error::Unreachable { .. } | Error::Deviates { .. })
        {
            return None;
        }
        let current = self.flight.address(id).port();
        let first = self.first_ports.get(&id).copied().unwrap_or(current);
        kind.port_after(first, current)
    }

    fn finish(
        &mut self,
        now: Duration,
        id: Id,
        result: Result<Answer, Error>,
        sink: &mut dyn Sink,
    ) {
        let next_port = match &result {
            Ok(_) => None,
            Err(error) => self.next_port(id, error),
        };
        let count = match &result {
            Err(_) if next_port.is_some() => &mut self.counts.port_retries,
            Ok(_) => &mut self.counts.answered,
            Err(Error::Silence { .. }) => &mut self.counts.timed_out,
            Err(Error::PortClosed { .. }) => &mut self.counts.port_closed,
            Err(Error::Unreachable { .. }) => &mut self.counts.unreachable,
            Err(_) => &mut self.counts.invalid,
        };
        *count += 1;
        if self.is_stream(id) {
            self.close_connection(id);
        }
        let slot = self.flight.slot(id);
        let index = slot.index();
        if matches!(result, Err(Error::Silence { .. })) {
            let most = self.limits.retries.into();
            self.counts.resent_in_vain += if slot.has_answered() {
                most
            } else {
                u64::from(slot.resends)
            };
        }
        if slot.has_answered() {
            let place = slot.sent_or_driver;
            let driver = self.drivers[place as usize].take();
            self.memory = self
                .memory
                .saturating_sub(driver.as_ref().map_or(0, memory_of));
            self.free_drivers.push(place);
        }
        let name = take(&mut self.names, id);
        let srv = take(&mut self.srv_records, id);
        let first_port = take(&mut self.first_ports, id);
        let kind = self.flight.kind(id);
        let mut address = self.flight.address(id);
        self.flight.remove(id);
        let Some(port) = next_port else {
            return sink.record(ProbeResult {
                index,
                name,
                result: result.map_err(|error| error.led_by(srv.as_deref())),
            });
        };
        // The same probe at the next port. It waits for the rate limit of its network like a new
        // one.
        let first_port = first_port.unwrap_or(address.port());
        // The target in the result keeps the first port.
        let game = services::kind(kind).game;
        let name = name.or_else(|| Some(format!("{}://{address}", game?.id).into()));
        address.set_port(port);
        let due = self.rate_limits.book(address.ip(), now);
        let id = self.flight.insert(address, kind, index, now, due);
        self.first_ports.insert(id, first_port);
        if let Some(name) = name {
            self.names.insert(id, name);
        }
        if let Some(srv) = srv {
            self.srv_records.insert(id, srv);
        }
    }

    /// Returns when to call the engine again if no datagram arrives: when a timeout is due or a new
    /// probe may start, or after about `horizon` if nothing is due before.
    pub fn next_due(&mut self, now: Duration, horizon: Duration) -> Duration {
        let due = self.flight.next_due(horizon);
        let has_room = self.flight.in_window() < self.window.size()
            && self.flight.waiting() < MAX_WAITING
            && self.flight.len() < self.config.max_in_flight;
        if self.is_drained || !has_room {
            return due;
        }
        let ready = now.saturating_add(self.rate_limits.ready_in(now));
        due.min(ready.max(self.idle_until))
    }
}

/// Returns the halves of a secret as numbers.
/// Removes an entry. Most maps are empty, which is cheaper to find out.
fn take<T>(map: &mut HashMap<Id, T>, id: Id) -> Option<T> {
    if map.is_empty() {
        None
    } else {
        map.remove(&id)
    }
}

fn seeds(secret: &[u8; 16]) -> [u64; 2] {
    let (halves, _) = secret.as_chunks::<8>();
    [0, 1].map(|half| u64::from_le_bytes(halves[half]))
}

/// Estimated memory of an exchange, in bytes.
fn memory_of(driver: &ExchangeDriver) -> usize {
    MEMORY_PER_EXCHANGE + driver.received_bytes() * MEMORY_PER_BYTE
}

/// Returns the last time up to `now` whose microseconds, modulo 2^32, are `micros`. Rounded down,
/// so it is never later than the original.
fn before(now: Duration, micros: u32) -> Duration {
    let all = now.as_micros() as u64;
    let ago = (all as u32).wrapping_sub(micros);
    Duration::from_micros(all.saturating_sub(ago.into()))
}

/// Copies an I/O error, which has no `Clone`.
fn copy(error: &io::Error) -> io::Error {
    error
        .raw_os_error()
        .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::{Fault, registry};

    #[test]
    fn short_counts_of_time() {
        let now = Duration::from_micros((3 << 32) + 5);
        let micro = Duration::from_micros(1);
        assert_eq!(before(now, 5), now);
        assert_eq!(before(now, 3), now - micro * 2);
        assert_eq!(before(now, u32::MAX), now - micro * 6);
        assert_eq!(before(now + micro / 2, 5), now);
        assert_eq!(before(micro, 0), Duration::ZERO);
    }

    #[test]
    fn faults_keep_their_names() {
        let transcript = || Transcript {
            sent: 1,
            received: 1,
            ..Transcript::new(registry::PROTOCOLS[0].info(), ([127, 0, 0, 1], 1).into())
        };
        let kind = |failure| Error::from_failure(transcript(), failure).kind();
        assert_eq!(
            kind(ExchangeError::Silence {
                after: Duration::ZERO
            }),
            "silence"
        );
        assert_eq!(kind(ExchangeError::Flood { bytes: 1 }), "flood");
        let fault = |fault| ExchangeError::Fault {
            fault: Box::new(fault),
            datagram: Vec::new(),
        };
        assert_eq!(
            kind(fault(Fault::Refused {
                reason: "no",
                endpoints: &[]
            })),
            "refused"
        );
        assert_eq!(kind(fault(Fault::Misbehaved("so"))), "malformed");
    }
}
