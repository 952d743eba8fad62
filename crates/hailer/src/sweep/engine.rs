//! The engine of a sweep, without sockets and clocks: it is told the time and what was heard, and says what to send.
//!
//! What is in flight is 32 bytes: whom, in which protocol, how many tries, when. The exchange itself is made anew for each
//! datagram until the server answers: it derives all that it invents from its cookie, and the cookie from a secret and the
//! question, so that it says the same each time. Only then there is a [driver](ExchangeDriver) for it.

use super::flight::{Flight, Id, TICK};
use super::pace::{PrefixLimiter, Throttle};
use super::services;
use super::window::{Delays, Window};
use super::{Counts, Next, Position, Probe, ProbeResult, ProbeSource, Sink, SweepConfig};
use crate::client::{Answer, Datagram, Transcript};
use crate::drive::{Action, ExchangeDriver, ExchangeError, ExchangeOutput, QueryLimits};
use crate::error::Error;
use crate::target::TargetError;
use hailer_proto::{Cookie, Direction, Protocol};
use hailer_udp::{BATCH, Outbox};
use siphasher::sip::SipHasher24;
use std::collections::HashMap;
use std::hash::Hasher;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The most questions that wait for the turn of their network. Past that nobody new is drawn.
const MAX_WAITING: usize = 1 << 16;
/// A network that is booked further ahead holds up the whole sweep, so that the waiting room is never full of it for long.
const MAX_BOOKED: Duration = Duration::from_secs(60);
/// Nobody is waited for any longer, whatever was set: the wheel of the flight does not turn further.
const MAX_TIMEOUT: Duration = Duration::from_secs(240);
/// And no question takes longer in all: its times are kept in short counts.
const MAX_DEADLINE: Duration = Duration::from_secs(30 * 86_400);

/// Estimated memory of an exchange that has received a reply, in bytes.
const MEMORY_PER_EXCHANGE: usize = 1_024;
/// Estimated memory for each byte received. A player of 18 bytes takes about 100 bytes once parsed.
const MEMORY_PER_BYTE: usize = 6;

/// What is to be sent, by address family.
#[derive(Debug, Default)]
pub struct Outboxes {
    /// To IPv4 addresses.
    pub v4: Outbox,
    /// To IPv6 addresses.
    pub v6: Outbox,
}

impl Outboxes {
    /// The one for an address.
    pub fn of(&mut self, to: SocketAddr) -> &mut Outbox {
        if to.is_ipv4() {
            &mut self.v4
        } else {
            &mut self.v6
        }
    }

    /// How many datagrams wait to be sent.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The engine.
pub struct SweepEngine {
    config: SweepConfig,
    /// Patience with a server that has answered: waits as long as it may.
    limits: QueryLimits,
    secret: [u8; 16],
    flight: Flight,
    drivers: Vec<Option<ExchangeDriver>>,
    free_drivers: Vec<u32>,
    /// Estimated memory of all drivers, in bytes.
    memory: usize,
    /// What was typed, where it was a name.
    names: HashMap<Id, Arc<str>>,
    /// What was heard of each, if it is to be kept.
    replies: HashMap<Id, Vec<Datagram>>,
    throttle: Throttle,
    prefixes: PrefixLimiter,
    window: Window,
    delays: Delays,
    counts: Counts,
    /// How long what is heard now may have lain in our own queue, if the system does not tell.
    lag: Duration,
    /// When our receive queue was last known to overflow: whoever was asked before may have answered in vain.
    overflowed: Option<Duration>,
    next_index: u64,
    /// Drawn from the source, and not begun: its network is booked too far ahead.
    held: Option<(Probe, Duration)>,
    /// There is nobody new to ask before.
    idle_until: Duration,
    is_drained: bool,
    found: Vec<Id>,
    scratch: Vec<u8>,
}

impl SweepEngine {
    /// An engine at time zero. The secret makes its cookies.
    pub fn new(mut config: SweepConfig, secret: [u8; 16]) -> Self {
        let [seed, other] = [0, 8]
            .map(|at| u64::from_le_bytes(secret[at..at + 8].try_into().expect("eight bytes")));
        let mut limits = config.limits;
        limits.deadline = limits.deadline.min(MAX_DEADLINE);
        limits.timeout = limits.timeout.min(limits.deadline).min(MAX_TIMEOUT);
        limits.retries = limits.retries.min(u32::from(u8::MAX - 1));
        config.max_in_flight = config.max_in_flight.max(1);
        Self {
            limits,
            secret,
            flight: Flight::new(Cookie(seed).derive(other)),
            drivers: Vec::new(),
            free_drivers: Vec::new(),
            memory: 0,
            names: HashMap::new(),
            replies: HashMap::new(),
            throttle: Throttle::new(&config.rate_limits),
            prefixes: PrefixLimiter::new(config.rate_limits.per_prefix, Cookie(other).derive(seed)),
            window: Window::new(config.max_in_flight),
            delays: Delays::new(limits.timeout),
            counts: Counts::default(),
            lag: Duration::ZERO,
            overflowed: None,
            next_index: 0,
            held: None,
            idle_until: Duration::ZERO,
            is_drained: false,
            found: Vec::new(),
            scratch: Vec::new(),
            config,
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Questions without an end.
    pub fn in_flight(&self) -> usize {
        self.flight.len() + usize::from(self.held.is_some())
    }

    /// Whether the source has no more, and all questions have an end.
    pub fn is_done(&self) -> bool {
        self.is_drained && self.in_flight() == 0
    }

    /// How far it has come.
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

    /// Asks new servers: as many as pace, window and one batch allow. Returns whether the source gave any; those whose
    /// network is busy wait, and names without an address end here.
    pub fn start_probes(
        &mut self,
        now: Duration,
        source: &mut dyn ProbeSource,
        out: &mut Outboxes,
        sink: &mut dyn Sink,
    ) -> bool {
        let mut given = 0;
        self.idle_until = now;
        while given < BATCH && out.len() < BATCH && !self.is_drained && self.throttle.is_ready(now)
        {
            if self.flight.len() >= self.window.size() + self.flight.waiting() {
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
                        let due = self.prefixes.book(probe.address.ip(), now);
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
                    Next::Repeat { index } => {
                        given += 1;
                        self.next_index = self.next_index.max(index + 1);
                        self.counts.unresolved += 1;
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
            self.begin(now, probe, due, out, sink);
        }
        given > 0
    }

    fn begin(
        &mut self,
        now: Duration,
        probe: Probe,
        due: Duration,
        out: &mut Outboxes,
        sink: &mut dyn Sink,
    ) {
        let Some(protocol) = services::number_of(probe.protocol) else {
            self.counts.unresolved += 1;
            let target = match &probe.name {
                Some(name) => name.to_string(),
                None => format!("{}://{}", probe.protocol.info().id, probe.address),
            };
            let problem = format!(
                "a process can sweep with at most {} protocols",
                services::MAX_PROTOCOLS
            );
            sink.record(ProbeResult {
                index: probe.index,
                name: probe.name,
                result: Err(Error::Target(TargetError::new(&target, problem))),
            });
            return;
        };
        let id = self
            .flight
            .insert(probe.address, protocol, probe.index, now, due);
        if let Some(name) = probe.name {
            self.names.insert(id, name);
        }
        if due <= now {
            self.send_first(now, id, out, sink);
        }
    }

    fn send_first(&mut self, now: Duration, id: Id, out: &mut Outboxes, sink: &mut dyn Sink) {
        self.counts.probes += 1;
        self.flight.set_sent(id);
        let slot = self.flight.slot_mut(id);
        (slot.began, slot.sent_or_driver) = (now.as_millis() as u32, now.as_micros() as u32);
        self.send_again(now, id, out, sink);
    }

    /// Sends what a silent server is sent at this try.
    fn send_again(&mut self, now: Duration, id: Id, out: &mut Outboxes, sink: &mut dyn Sink) {
        let (to, wait) = (self.flight.address(id), self.wait(now, id));
        let draft = out.of(to).draft();
        match self.replay(id, now, draft) {
            (_, Action::Send) => {
                let length = out.of(to).commit(to, None);
                self.flight.slot_mut(id).sent_or_driver = now.as_micros() as u32;
                self.flight.wake_at(id, now + wait);
                self.sent(to.ip(), length);
            }
            (_, Action::Wait) => self.flight.wake_at(id, now + wait),
            (drive, Action::End(end)) => self.end(id, Some(&drive), end, sink),
        }
    }

    /// How long to wait for an answer to what a silent server is sent now. To the last try twice as long as to others, and
    /// the first has had all of the time-out by then: a server that is slower than all others still counts.
    fn wait(&self, now: Duration, id: Id) -> Duration {
        let is_last =
            u32::from(self.flight.slot(id).resends) >= self.delays.retries(self.limits.retries);
        let (usual, took) = (self.delays.wait(), self.took(now, id));
        let wait = if is_last {
            (usual * 2).max(self.limits.timeout.saturating_sub(took))
        } else {
            usual
        };
        wait.min(self.limits.timeout)
            .min(self.limits.deadline.saturating_sub(took))
    }

    /// How long a question takes so far, in whole milliseconds.
    fn took(&self, now: Duration, id: Id) -> Duration {
        let millis = (now.as_millis() as u32).wrapping_sub(self.flight.slot(id).began);
        Duration::from_millis(millis.into())
    }

    /// When the last datagram to a silent server went out.
    fn last_send(&self, now: Duration, id: Id) -> Duration {
        before(now, self.flight.slot(id).sent_or_driver)
    }

    fn sent(&mut self, to: IpAddr, length: usize) {
        self.throttle.spend(to, length);
        self.counts.datagrams_sent += 1;
        self.counts.bytes_sent += length as u64;
    }

    /// The driver of a server that has not answered, and in `out` what it was sent last.
    fn replay(&self, id: Id, now: Duration, out: &mut Vec<u8>) -> (ExchangeDriver, Action) {
        let slot = self.flight.slot(id);
        let exchange = self
            .protocol(id)
            .exchange(&self.config.ask, self.cookie(id));
        let sent = self.last_send(now, id);
        // The millisecond is rounded, the microsecond tells the delay.
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

    fn protocol(&self, id: Id) -> &'static dyn Protocol {
        services::protocol(self.flight.slot(id).protocol)
    }

    /// What ties the answer to the question. Nobody can guess it from those of other questions.
    fn cookie(&self, id: Id) -> Cookie {
        let (slot, address) = (self.flight.slot(id), self.flight.address(id));
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        match address.ip() {
            IpAddr::V4(ip) => hasher.write_u32(ip.to_bits()),
            IpAddr::V6(ip) => hasher.write_u128(ip.to_bits()),
        }
        hasher.write_u64(
            u64::from(address.port()) << 48 ^ u64::from(slot.protocol) << 40 ^ slot.index(),
        );
        Cookie(hasher.finish())
    }

    /// Our receive queue holds so many bytes. To be told before the first question.
    pub fn set_receive_buffer(&mut self, bytes: usize) {
        self.window.holds(bytes);
    }

    /// Our receive queue was last seen empty so long ago: no datagram heard from now on waited longer there. What we kept
    /// waiting ourselves says nothing of the network.
    pub fn set_receive_lag(&mut self, lag: Duration) {
        self.lag = lag;
        self.window.lag(lag);
    }

    /// Hears a datagram. `waited`: how long it lay in our own queue; zero if that is not known.
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
        found.retain(|id| !self.flight.slot(*id).is_waiting());
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
            self.free_memory(sink);
        }
    }

    /// Offers a datagram to one of the questions to its sender. Returns whether it was for that one.
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
        // Of one that has answered: nothing; of another, how long the answer took if it is clear to which try it belongs.
        let mut first_delay = None;
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
            let (mut drive, _) = self.replay(id, now, &mut scratch);
            self.scratch = scratch;
            let kept = if waited.is_zero() { self.lag } else { waited };
            let heard = now - kept.min(now);
            first_delay = Some(is_first_try.then(|| heard.saturating_sub(drive.last_send())));
            let action = drive.datagram(at, bytes, out.of(to).draft());
            let due = drive.due();
            // Nothing is kept for what may be forged. After a second try an exchange may have kept something itself.
            if is_first_try && matches!(action, Action::Wait) {
                return false;
            }
            self.keep(id, drive);
            (action, due)
        };
        if self.config.keep_replies {
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
            Action::Send => {
                let length = out.of(to).commit(to, None);
                self.flight.wake_at(id, due);
                self.sent(to.ip(), length);
                self.window.alive_asked();
                // Not waited for: the server waits, and its token dies.
                self.prefixes.owe(to.ip(), now);
            }
            Action::End(end) => self.end(id, None, end, sink),
        }
        if let Some(delay) = first_delay {
            self.window.alive_asked();
            match delay {
                Some(delay) => {
                    self.window.delay(delay);
                    self.delays.add(delay);
                }
                // It was there all the time, and did not hear us, or we did not hear it.
                None => {
                    self.window.alive_lost();
                    self.delays.late();
                }
            }
        }
        true
    }

    /// Returns the estimated memory of all exchanges that have received a reply, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Ends the largest exchanges until a sixteenth of the memory limit is free again.
    fn free_memory(&mut self, sink: &mut dyn Sink) {
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
            self.end(id, None, end, sink);
        }
    }

    /// Keeps the driver of a server that has answered.
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
        self.flight.slot_mut(id).set_answered(place);
    }

    /// Hears that a datagram did not arrive. A refusal that quotes what was not sent is forged.
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
            // One who has answered may be believed to be there; if no more, it will fall silent.
            if slot.is_waiting() || slot.has_answered() {
                is_ours |= slot.has_answered();
                continue;
            }
            let mut said = std::mem::take(&mut self.scratch);
            said.clear();
            let (drive, _) = self.replay(id, now, &mut said);
            let matches = said.starts_with(quoted) || quoted.starts_with(&said);
            self.scratch = said;
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
                self.finish(id, Err(error), sink);
            }
        }
        self.counts.forged_refusals += u64::from(!is_ours && !found.is_empty());
        self.found = found;
    }

    /// Our own receive queue lost datagrams: `total` so far.
    pub fn record_drops(&mut self, now: Duration, total: u64) {
        if total > self.counts.dropped_datagrams {
            self.counts.dropped_datagrams = total;
            self.overflowed = Some(now);
            self.window.overflow();
        }
    }

    /// The system had no room for what was to be sent.
    pub fn record_full_send_queue(&mut self) {
        self.window.overflow();
    }

    /// Time has passed. To be called only when nothing waits in the receive queue: an answer that we have not read yet is
    /// not late.
    pub fn tick(&mut self, now: Duration, out: &mut Outboxes, sink: &mut dyn Sink) {
        while out.len() < 4 * BATCH
            && let Some(id) = self.flight.wake(now)
        {
            let slot = self.flight.slot(id);
            if slot.is_waiting() {
                match self.prefixes.turn(self.flight.address(id).ip(), now) {
                    Some(later) => self.flight.wake_at(id, later),
                    None => self.send_first(now, id, out, sink),
                }
            } else if slot.has_answered() {
                self.remind(now, id, out, sink);
            } else {
                self.silence(now, id, out, sink);
            }
        }
        self.delays.adapt(now);
        self.window.adapt(
            now,
            self.flight.len() - self.flight.waiting(),
            self.delays.wait(),
        );
    }

    /// Nothing came from a server that has not answered yet.
    fn silence(&mut self, now: Duration, id: Id, out: &mut Outboxes, sink: &mut dyn Sink) {
        let (sent, took) = (self.last_send(now, id), self.took(now, id));
        let retries = self.delays.retries(self.limits.retries);
        let slot = self.flight.slot_mut(id);
        let is_our_fault = self.overflowed.is_some_and(|at| at >= sent) && slot.forgive();
        if is_our_fault {
            // Neither the try counts nor its time.
            slot.began = slot.began.wrapping_add((now - sent).as_millis() as u32);
        } else if took >= self.limits.deadline || u32::from(slot.resends) >= retries {
            // That this try was the last is known only now: it has not had the rest of the time-out yet.
            let left = self.limits.timeout.saturating_sub(took);
            if left > TICK {
                return self.flight.wake_at(id, now + left);
            }
            return self.end(id, None, Err(ExchangeError::Silence { after: took }), sink);
        } else {
            slot.resends += 1;
        }
        self.counts.datagrams_resent += 1;
        self.counts.resent_after_overflow += u64::from(is_our_fault);
        self.prefixes.owe(self.flight.address(id).ip(), now);
        self.send_again(now, id, out, sink);
    }

    /// Nothing more came from a server that has answered.
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
            Action::Wait => self.flight.wake_at(id, due),
            Action::Send => {
                let length = out.of(to).commit(to, None);
                self.flight.wake_at(id, due);
                self.sent(to.ip(), length);
                self.counts.datagrams_resent += 1;
                self.prefixes.owe(to.ip(), now);
            }
            Action::End(end) => self.end(id, None, end, sink),
        }
        if !was_resent {
            self.window.alive_lost();
        }
    }

    /// Ends a question as its driver says.
    fn end(
        &mut self,
        id: Id,
        drive: Option<&ExchangeDriver>,
        end: Result<ExchangeOutput, ExchangeError>,
        sink: &mut dyn Sink,
    ) {
        let transcript = self.transcript(id, drive);
        let result = match end {
            Ok(outcome) => {
                let ExchangeOutput { status, latency } = outcome;
                Answer {
                    transcript,
                    status,
                    latency,
                }
                .accept(self.config.strict)
            }
            Err(failure) => Err(Error::from_failure(transcript, failure)),
        };
        self.finish(id, result, sink);
    }

    /// Who was asked, and how much went to and fro.
    fn transcript(&mut self, id: Id, drive: Option<&ExchangeDriver>) -> Transcript {
        let datagrams = if self.replies.is_empty() {
            Vec::new()
        } else {
            self.replies.remove(&id).unwrap_or_default()
        };
        let slot = self.flight.slot(id);
        let kept = if slot.has_answered() {
            self.drivers[slot.sent_or_driver as usize].as_ref()
        } else {
            None
        };
        let (sent, received) = match drive.or(kept) {
            Some(drive) => (drive.sent(), drive.received()),
            None => (u32::from(slot.resends) + 1, 0),
        };
        Transcript {
            protocol: self.protocol(id).info(),
            address: self.flight.address(id),
            sent,
            received,
            datagrams,
        }
    }

    fn finish(&mut self, id: Id, result: Result<Answer, Error>, sink: &mut dyn Sink) {
        let count = match &result {
            Ok(_) => &mut self.counts.answered,
            Err(Error::Silence { .. }) => &mut self.counts.timed_out,
            Err(Error::PortClosed { .. }) => &mut self.counts.port_closed,
            Err(Error::Unreachable { .. }) => &mut self.counts.unreachable,
            Err(_) => &mut self.counts.invalid,
        };
        *count += 1;
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
        let name = if self.names.is_empty() {
            None
        } else {
            self.names.remove(&id)
        };
        self.flight.remove(id);
        sink.record(ProbeResult {
            index,
            name,
            result,
        });
    }

    /// When to call again at the latest, if nothing is heard before: something is due, or somebody new may be asked.
    /// Looks so far ahead.
    pub fn next_due(&mut self, now: Duration, horizon: Duration) -> Duration {
        let due = self.flight.next_due(horizon);
        let (all, waiting) = (self.flight.len(), self.flight.waiting());
        let has_room = all < self.window.size() + waiting
            && waiting < MAX_WAITING
            && all < self.config.max_in_flight;
        match !self.is_drained && has_room {
            true => due.min(
                now.saturating_add(self.throttle.ready_in(now))
                    .max(self.idle_until),
            ),
            false => due,
        }
    }
}

/// Estimated memory of an exchange, in bytes.
fn memory_of(driver: &ExchangeDriver) -> usize {
    MEMORY_PER_EXCHANGE + driver.received_bytes() * MEMORY_PER_BYTE
}

/// The last time before now that a short count of microseconds can mean. What is begun of one counts: the moment is never
/// later than it was, so nothing is sent before it.
fn before(now: Duration, micros: u32) -> Duration {
    let all = now.as_micros() as u64;
    let ago = (all as u32).wrapping_sub(micros);
    Duration::from_micros(all.saturating_sub(ago.into()))
}

/// The system's word, which has no `Clone`.
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
            protocol: registry::PROTOCOLS[0].info(),
            address: ([127, 0, 0, 1], 1).into(),
            sent: 1,
            received: 1,
            datagrams: Vec::new(),
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
            fault,
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
