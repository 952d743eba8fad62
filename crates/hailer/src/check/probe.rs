//! Tools of probes: sockets with a pace, retries, and a record of all bytes.

use super::{
    CheckConfig, Event, Measurement, Origin, Outcome, Received, Requirement, SocketId, Suite,
    Transfer, Verdict, Wire, counted, ensure, fail, not_applicable, pass,
};
use crate::support::drive::{Action, ExchangeDriver, ExchangeError, QueryLimits};
use hailer_proto::wire::Notes;
use hailer_proto::{
    Ask, Cookie, DatagramContext, Depth, Destination, Deviation, Protocol, Status, Transport,
};
use std::time::Duration;

/// Sends of a request that must get a reply. Two lost datagrams in a row are rare.
const TRIES: u32 = 3;
/// Shortest wait for a reply that must not come, and the factor to the slowest reply so far.
const MIN_QUIET: Duration = Duration::from_millis(300);
const QUIET_FACTOR: u32 = 4;
/// Longest wait without a look at whether to stop.
const STOP_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of IPv4 and UDP headers.
pub(super) const HEADERS: usize = 28;
/// Bytes that are read of one connection.
const MAX_STREAM: usize = 4 << 20;

/// Facts that earlier probes of the same check found.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Whether the first requirement failed.
    pub(super) is_down: bool,
    /// The status that the first probe read.
    pub(super) status: Option<Box<Status>>,
    /// Why datagrams that this software is known not to survive are left out.
    pub(super) fragile: Option<&'static str>,
    /// Whether a server of Minecraft Query serves Bedrock clients.
    pub(super) is_bedrock: bool,
    /// Whether a server of OneQuery sends other ids than those of the requests.
    pub(super) has_other_ids: bool,
    /// When the last datagram or connection was started.
    last_send: Option<Duration>,
    /// The slowest reply.
    pub(super) slowest: Duration,
    /// Random numbers drawn so far.
    drawn: u64,
}

/// Access of one probe to the server.
pub struct Probe<'a> {
    pub(super) suite: &'static Suite,
    pub(super) requirement: &'static Requirement,
    pub(super) protocol: &'static dyn Protocol,
    pub(super) wire: &'a mut dyn Wire,
    pub(super) config: &'a CheckConfig,
    pub(super) facts: &'a mut Facts,
    pub(super) on_event: &'a mut dyn FnMut(Event<'_>),
    pub(super) is_stopped: &'a dyn Fn() -> bool,
    pub(super) measured: Vec<Measurement>,
    pub(super) transfers: Vec<Transfer>,
    /// Whether the server has closed its port or a connection.
    pub(super) is_refused: bool,
}

impl std::fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Probe({})", self.suite.protocol)
    }
}

impl Probe<'_> {
    /// Returns a random number.
    pub(super) fn random(&mut self) -> u64 {
        self.facts.drawn += 1;
        Cookie(self.config.seed).derive(self.facts.drawn)
    }

    /// Returns four random bytes below 10 hexadecimal: no digit, no letter, no byte above 7F.
    pub(super) fn plain_id(&mut self) -> [u8; 4] {
        (self.random() as u32 & 0x0F0F_0F0F).to_be_bytes()
    }

    /// Returns random bytes that start with `first`.
    pub(super) fn noise(&mut self, length: usize, first: u8) -> Vec<u8> {
        let rest = (1..length).map(|_| self.random() as u8);
        [first].into_iter().chain(rest).collect()
    }

    /// Returns the time since the start of the check.
    pub(super) fn now(&self) -> Duration {
        self.wire.now()
    }

    /// Records a measured number.
    pub(super) fn measure(&mut self, name: &'static str, value: f64) {
        let value = (value * 1e3).round() / 1e3;
        self.measured.push(Measurement { name, value });
    }

    /// Opens a socket.
    pub(super) fn open(&mut self) -> Result<SocketId, Outcome> {
        self.open_from(Origin::Usual)
    }

    /// Opens a socket, also at another address.
    pub(super) fn open_from(&mut self, origin: Origin) -> Result<SocketId, Outcome> {
        if self.protocol.info().transport == Transport::Stream {
            self.pace();
        }
        self.open_at(origin)
    }

    /// Opens a socket without a pace.
    pub(super) fn open_now(&mut self) -> Result<SocketId, Outcome> {
        self.open_at(Origin::Usual)
    }

    /// Closes all sockets of the probe.
    pub(super) fn close_all(&mut self) {
        self.wire.close_all();
    }

    fn open_at(&mut self, origin: Origin) -> Result<SocketId, Outcome> {
        match (self.wire.open(origin), origin) {
            (Ok(socket), _) => Ok(socket),
            (Err(_), Origin::OtherAddress) => not_applicable(
                "this machine has no second address toward the server; only a check on loopback has one",
            ),
            (Err(error), Origin::Usual) => fail(format!("no connection: {error}")),
        }
    }

    /// Waits until the next datagram may be sent.
    fn pace(&mut self) {
        if let Some(last) = self.facts.last_send {
            self.wire.sleep_until(last + self.suite.interval);
        }
        self.facts.last_send = Some(self.wire.now());
    }

    fn record(&mut self, socket: SocketId, is_sent: bool, bytes: &[u8]) {
        if self.config.has_bytes {
            self.transfers.push(Transfer {
                at: self.wire.now(),
                socket: socket.0,
                is_sent,
                bytes: bytes.to_vec(),
            });
        }
    }

    /// Sends bytes. The pace of a stream limits its connections instead.
    pub(super) fn send(&mut self, socket: SocketId, bytes: &[u8]) {
        if self.protocol.info().transport == Transport::Datagram {
            self.pace();
        }
        self.send_now(socket, bytes);
    }

    /// Sends bytes without a pace.
    pub(super) fn send_now(&mut self, socket: SocketId, bytes: &[u8]) {
        self.record(socket, true, bytes);
        // A closed port shows here on some systems, and while receiving on others.
        if self.wire.send(socket, bytes).is_err() {
            self.is_refused = true;
        }
    }

    /// Waits for bytes, at most for `longest`.
    pub(super) fn receive(&mut self, socket: SocketId, longest: Duration) -> Received {
        let until = self.wire.now() + longest;
        self.receive_until(socket, until)
    }

    fn receive_until(&mut self, socket: SocketId, until: Duration) -> Received {
        let received = loop {
            let step = until.min(self.wire.now() + STOP_INTERVAL);
            match self.wire.receive(socket, step) {
                Received::Nothing if step < until && !(self.is_stopped)() => {}
                received => break received,
            }
        };
        match &received {
            Received::Bytes(bytes) => self.record(socket, false, bytes),
            Received::Closed => self.is_refused = true,
            Received::Nothing => {}
        }
        received
    }

    /// Waits for a datagram that `is_reply` accepts. Others are only recorded.
    fn awaited(
        &mut self,
        socket: SocketId,
        longest: Duration,
        is_reply: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let until = self.wire.now() + longest;
        loop {
            match self.receive_until(socket, until) {
                Received::Bytes(bytes) if is_reply(&bytes) => return Some(bytes),
                Received::Bytes(_) => {}
                Received::Nothing => return None,
                // An error of an earlier datagram: the next read waits again.
                Received::Closed if self.wire.now() < until => {
                    let pause = self.wire.now() + Duration::from_millis(5);
                    self.wire.sleep_until(pause.min(until));
                }
                Received::Closed => return None,
            }
        }
    }

    /// Sends a request up to three times. Returns the reply, or `None` if none came.
    pub(super) fn ask(
        &mut self,
        socket: SocketId,
        request: &[u8],
        is_reply: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        for _ in 0..TRIES {
            if (self.is_stopped)() {
                break;
            }
            self.send(socket, request);
            let sent = self.wire.now();
            if let Some(reply) = self.awaited(socket, self.config.timeout, is_reply) {
                self.facts.slowest = self.facts.slowest.max(self.wire.now() - sent);
                return Some(reply);
            }
        }
        None
    }

    /// As [`ask`](Self::ask): without a reply, the requirement fails with `silence`.
    pub(super) fn reply(
        &mut self,
        socket: SocketId,
        request: &[u8],
        is_reply: &dyn Fn(&[u8]) -> bool,
        silence: &str,
    ) -> Result<Vec<u8>, Outcome> {
        match self.ask(socket, request, is_reply) {
            Some(reply) => Ok(reply),
            None => fail(silence),
        }
    }

    /// Sends a request once and returns the first reply, if one comes. For requests that should get
    /// none.
    pub(super) fn ask_once(
        &mut self,
        socket: SocketId,
        request: &[u8],
        is_reply: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        self.send(socket, request);
        let quiet = self.quiet();
        self.awaited(socket, quiet, is_reply)
    }

    /// Returns how long a reply that must not come is awaited.
    pub(super) fn quiet(&self) -> Duration {
        (QUIET_FACTOR * self.facts.slowest)
            .max(MIN_QUIET)
            .min(self.config.timeout)
    }

    /// Discards everything that has arrived.
    pub(super) fn drain(&mut self, socket: SocketId) {
        while let Received::Bytes(_) = self.receive(socket, Duration::from_millis(2)) {}
    }

    /// Waits, and reports the rest of the time every second.
    pub(super) fn wait(&mut self, time: Duration, reason: &'static str) {
        let end = self.wire.now() + time;
        while self.wire.now() < end && !(self.is_stopped)() {
            let left = end - self.wire.now();
            (self.on_event)(Event::Waiting { left, reason });
            self.wire
                .sleep_until(self.wire.now() + left.min(STOP_INTERVAL));
        }
    }

    /// Waits without a report.
    pub(super) fn sleep(&mut self, time: Duration) {
        let until = self.wire.now() + time;
        self.wire.sleep_until(until);
    }

    /// Reads a stream until `is_complete`, its end, or a timeout. Returns the bytes and whether the
    /// server has closed it.
    pub(super) fn read(
        &mut self,
        socket: SocketId,
        longest: Duration,
        is_complete: &dyn Fn(&[u8]) -> bool,
    ) -> (Vec<u8>, bool) {
        let until = self.wire.now() + longest;
        let mut bytes = Vec::new();
        while !is_complete(&bytes) && bytes.len() < MAX_STREAM {
            match self.receive_until(socket, until) {
                Received::Bytes(more) => bytes.extend(more),
                Received::Closed => return (bytes, true),
                Received::Nothing => return (bytes, false),
            }
        }
        (bytes, false)
    }

    /// Runs Hailer's own client against the server: one query of this depth.
    pub(super) fn query(&mut self, depth: Depth) -> Result<Box<Status>, String> {
        let ask = Ask {
            depth,
            auth_token: self.config.auth_token.clone(),
            to: Destination {
                host: self.config.host.as_str().into(),
                port: self.config.port,
                ..Destination::default()
            },
            ..Ask::default()
        };
        let cookie = Cookie(self.random());
        let limits = QueryLimits {
            timeout: self.config.timeout,
            deadline: 12 * self.config.timeout.max(self.suite.interval),
            ..QueryLimits::default()
        };
        let is_stream = self.protocol.info().transport == Transport::Stream;
        let exchange = self.protocol.exchange(&ask, cookie);
        let mut driver = ExchangeDriver::new(exchange, limits);
        let mut out = Vec::new();
        let mut socket = self.open().map_err(|outcome| outcome.detail().to_owned())?;
        let mut action = driver.start(self.wire.now(), &mut out);
        loop {
            // The caller drops the result of a probe that was stopped.
            if (self.is_stopped)() {
                return Err("stopped".into());
            }
            let more = matches!(action, Action::SendMore);
            match action {
                Action::End(Ok(output)) => return Ok(output.status),
                Action::End(Err(error)) => return Err(self.explained(&error)),
                Action::Reconnect => {
                    socket = self.open().map_err(|outcome| outcome.detail().to_owned())?;
                    self.send(socket, &out);
                    driver.mark_sent(self.wire.now());
                }
                Action::Send | Action::SendMore => {
                    self.send(socket, &out);
                    driver.mark_sent(self.wire.now());
                }
                Action::Wait | Action::Progress => {}
            }
            out.clear();
            if more {
                action = driver.resume(self.wire.now(), &mut out);
                continue;
            }
            let received = self.receive_until(socket, driver.due());
            let now = self.wire.now();
            action = match received {
                Received::Bytes(bytes) if is_stream => driver.stream(now, &bytes, &mut out),
                Received::Bytes(bytes) => driver.datagram(now, &bytes, &mut out),
                Received::Closed if is_stream => driver.closed(now, &mut out),
                Received::Closed => {
                    self.sleep(Duration::from_millis(20));
                    driver.tick(self.wire.now(), &mut out)
                }
                Received::Nothing => driver.tick(now, &mut out),
            };
        }
    }

    /// Explains why a query failed.
    fn explained(&self, error: &ExchangeError) -> String {
        match error {
            ExchangeError::Silence { .. } => self.silence().into(),
            ExchangeError::Fault { fault, .. } => format!("the reply is not usable: {fault}"),
            ExchangeError::Flood { bytes } => format!("the server sent {}", counted(bytes, "byte")),
        }
    }

    /// Explains why nothing replies.
    pub(super) fn silence(&self) -> &'static str {
        if self.is_refused {
            "the port is closed: no program listens there"
        } else {
            "no reply: queries are off, filtered, at another port, or in another protocol"
        }
    }

    /// Returns the status that the first probe read.
    pub(super) fn status(&self) -> Result<&Status, Outcome> {
        match &self.facts.status {
            Some(status) => Ok(status),
            None => not_applicable("the first requirement read no status"),
        }
    }

    /// Leaves out a probe that this server software is known not to survive, unless the user insists.
    pub(super) fn spare_fragile(&self) -> Result<(), Outcome> {
        match self.facts.fragile {
            Some(reason) if !self.config.is_forced => {
                not_applicable(format!("{reason}; --force runs it"))
            }
            _ => Ok(()),
        }
    }

    /// Compares a reply with the layout on the spec page: an error fails, deviations have names.
    pub(super) fn layout(&self, request: &[u8], reply: &[u8]) -> Verdict {
        let mut notes = Notes::default();
        let seen = DatagramContext::ReplyTo(request);
        match self.protocol.explain(reply, seen, &mut notes) {
            None => fail(counted(reply.len(), "byte") + " that are no reply"),
            Some(explanation) => match explanation.error {
                Some(error) => fail(format!("{}: {error}", explanation.message)),
                None => found(
                    self.own(notes.met()),
                    format!("{}, {}", explanation.message, counted(reply.len(), "byte")),
                ),
            },
        }
    }

    /// Leaves out deviations that only other requirements test for.
    pub(super) fn own(
        &self,
        met: impl Iterator<Item = &'static Deviation>,
    ) -> Vec<&'static Deviation> {
        let is_own = |met: &&'static Deviation| {
            let mut all = self.suite.requirements.iter();
            self.requirement.tests(met) || !all.any(|requirement| requirement.tests(met))
        };
        met.filter(is_own).collect()
    }

    /// Keeps the deviations that the requirement tests for, each once.
    pub(super) fn tested(
        &self,
        met: impl Iterator<Item = &'static Deviation>,
    ) -> Vec<&'static Deviation> {
        let mut tested: Vec<&'static Deviation> = Vec::new();
        for met in met.filter(|met| self.requirement.tests(met)) {
            if !tested.iter().any(|known| known.name == met.name) {
                tested.push(met);
            }
        }
        tested
    }

    /// Tests requests and their replies only for the deviations that the requirement names.
    pub(super) fn test_texts(&self, replies: &[(Vec<u8>, Vec<u8>)]) -> Verdict {
        let mut met = Vec::new();
        for (request, reply) in replies {
            let mut notes = Notes::default();
            let seen = DatagramContext::ReplyTo(request);
            let _ = self.protocol.explain(reply, seen, &mut notes);
            met.extend(notes.met());
        }
        found(
            self.tested(met.into_iter()),
            counted(replies.len(), "datagram"),
        )
    }

    /// Records the amplification of a reply. Returns it as text.
    pub(super) fn amplification(&mut self, request: usize, reply: usize) -> String {
        let ratio = reply as f64 / request.max(1) as f64;
        let with_headers = (reply + HEADERS) as f64 / (request + HEADERS) as f64;
        self.measure("request_bytes", request as f64);
        self.measure("reply_bytes", reply as f64);
        self.measure("amplification", ratio);
        format!("{request} bytes get {reply}: ×{ratio:.1}, with headers ×{with_headers:.1}")
    }

    /// Sends datagrams that should get no reply, and checks that the server still answers.
    pub(super) fn strays(
        &mut self,
        strays: &[(&'static str, Vec<u8>)],
        still_answers: &dyn Fn(&mut Self) -> bool,
    ) -> Verdict {
        for (name, bytes) in strays {
            let socket = self.open()?;
            if let Some(reply) = self.ask_once(socket, bytes, &|_| true) {
                return fail(format!(
                    "{name} gets a reply of {}",
                    counted(reply.len(), "byte")
                ));
            }
        }
        ensure(still_answers(self), "the server stopped answering")?;
        let names: Vec<&str> = strays.iter().map(|(name, _)| *name).collect();
        pass(format!("no reply to {}", names.join(", ")))
    }

    /// Measures how long a token is valid: asks with it every `step`, at most for `longest`.
    /// Returns the last age at which it was valid, and the first at which it was not.
    pub(super) fn lifetime(
        &mut self,
        step: Duration,
        longest: Duration,
        is_valid: &dyn Fn(&mut Self) -> bool,
    ) -> (Duration, Option<Duration>) {
        let start = self.wire.now();
        let mut valid = Duration::ZERO;
        while valid < longest && !(self.is_stopped)() {
            let next = start + valid + step;
            let left = next.saturating_sub(self.wire.now());
            self.wait(left, "the token to expire");
            let age = self.wire.now() - start;
            if !is_valid(self) {
                self.measure("token_valid_s", valid.as_secs_f64());
                self.measure("token_expired_s", age.as_secs_f64());
                return (valid, Some(age));
            }
            valid = age;
        }
        self.measure("token_valid_s", valid.as_secs_f64());
        (valid, None)
    }
}

/// The first probe of most suites: queries the server, and keeps the status for the others.
pub(super) fn baseline(probe: &mut Probe<'_>) -> Verdict {
    match probe.query(Depth::Full) {
        Ok(status) => {
            let title = status.title().unwrap_or_default();
            let players = status.players.online.unwrap_or_default();
            let text = format!("{title:?}, {}", counted(players, "player"));
            probe.facts.status = Some(status);
            pass(text)
        }
        Err(reason) => fail(reason),
    }
}

/// Returns a pass, or a deviation if some were found.
pub(super) fn found(deviations: Vec<&'static Deviation>, detail: String) -> Verdict {
    if deviations.is_empty() {
        pass(detail)
    } else {
        Ok(Outcome::Deviation {
            found: deviations,
            detail,
        })
    }
}
