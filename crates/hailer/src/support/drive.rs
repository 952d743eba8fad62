//! Runs one exchange with a timeout, retries, a deadline and receive limits.
//!
//! Sans-IO, like the exchange itself. Times are [`Duration`]s since a moment that the caller
//! chooses. Tests can therefore run whole conversations through a simulated network, and
//! [`Client`](crate::Client) and the [sweep](crate::sweep) share this code.
//!
//! ```text
//!   start ──► Send ──► datagram: useful ──► Send … Done | Fail
//!               ▲        │  stray or late: Wait, the timeout keeps running
//!               │        └─ unreadable: sent again at once, while retries are left
//!               └─ tick: nothing useful within the timeout, and retries are left
//! ```
//!
//! Datagrams to the server have two limits. The query ends after `retries` consecutive repetitions
//! without a useful reply. Each [stage](Exchange::stage) of the exchange gets at most `retries + 1`
//! datagrams in the whole query, so that a server that only replies to the first stage cannot
//! prolong it.
//!
//! For single queries over datagrams, the timeout [follows the latency](ExchangeDriver::follow_latency).
//!
//! A stream uses the same code: the exchange [cuts](Exchange::frame) the received bytes into
//! messages, which count like datagrams. See [`ExchangeDriver::stream`].

use hailer_proto::{Exchange, Fault, Frame, Input, Route, Status, Step};
use std::fmt;
use std::time::Duration;

/// Stages of most exchanges. More take an allocation.
const STAGES: usize = 16;
/// Shortest timeout once the latency is known: time for a server that replies once per tick.
const MIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Limits of one query to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryLimits {
    /// Longest time to wait for one reply. The default of 1 s covers any path on Earth, and servers
    /// that reply once per tick. Once the latency is known, datagrams are repeated after twice the
    /// latency, but at least 200 ms.
    pub timeout: Duration,
    /// Maximum number of consecutive repetitions of a request after timeouts, and of repetitions of
    /// each [stage](Exchange::stage) in the whole query. With the default of 3 and a loss of 20 %
    /// in each direction, 98 of 100 stages succeed. Values above 254 count as 254. Streams repeat
    /// nothing; they wait as long as all tries together. If the protocol has other forms of
    /// request to try after a timeout, they wait for one more timeout.
    pub retries: u32,
    /// Time limit for the whole query without the name lookup. It ends exchanges with servers that
    /// send replies slowly or require one request after another. Default: 10 s.
    pub deadline: Duration,
    /// Maximum number of datagrams to receive, including stray ones; on a stream, messages. The default of 8,192 is twice
    /// what an exchange reads of the longest list.
    pub max_datagrams: u32,
    /// Maximum number of bytes to receive, including stray datagrams. Default: 16 MiB.
    pub max_bytes: usize,
}

impl QueryLimits {
    /// Sets the deadline. Without one, it becomes `timeout × (retries + 1)` if that is longer than
    /// the present one, so that there is time for all retries.
    pub fn leave_time(&mut self, deadline: Option<Duration>) {
        let all = self.timeout.saturating_mul(self.retries.saturating_add(1));
        self.deadline = deadline.unwrap_or(self.deadline.max(all));
    }
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(1),
            retries: 3,
            deadline: Duration::from_secs(10),
            max_datagrams: 8_192,
            max_bytes: 16 << 20,
        }
    }
}

/// Next step of the caller of an [`ExchangeDriver`].
#[derive(Debug)]
pub enum Action {
    /// Send the datagram in the buffer.
    Send,
    /// Send the datagram in the buffer, then call [`ExchangeDriver::resume`].
    SendMore,
    /// Close the connection, open a new one to the same address, and send the bytes in the buffer
    /// there.
    Reconnect,
    /// Wait for a datagram, or until [`ExchangeDriver::due`].
    Wait,
    /// As `Wait`: the datagram was a useful part of the reply.
    Progress,
    /// The query is over.
    End(Result<ExchangeOutput, ExchangeError>),
}

/// Output of a completed exchange.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeOutput {
    /// The status that the server reported.
    pub status: Box<Status>,
    /// The shortest time between a request and its reply.
    pub latency: Duration,
}

/// Reason why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeError {
    /// No useful reply arrived.
    Silence {
        /// Time since the start.
        after: Duration,
    },
    /// The server sent an invalid reply, or a refusal.
    Fault {
        /// Fault of the reply.
        fault: Box<Fault>,
        /// Datagram with the fault.
        datagram: Vec<u8>,
    },
    /// More data arrived than [`QueryLimits`] allows.
    Flood {
        /// Bytes received.
        bytes: usize,
    },
}

impl ExchangeError {
    /// Creates the error of an invalid reply or a refusal.
    fn fault(fault: Fault, datagram: Vec<u8>) -> Self {
        let fault = Box::new(fault);
        Self::Fault { fault, datagram }
    }
}

/// Driver of one exchange.
pub struct ExchangeDriver {
    exchange: Box<dyn Exchange>,
    limits: QueryLimits,
    started: Duration,
    last_send: Duration,
    /// Start of the current wait: when the last datagram was sent, or the last timeout that sent
    /// none.
    waiting_since: Duration,
    stage_sends: StageSends,
    /// Timeouts in a row without a useful reply.
    timeouts: u32,
    /// Repetitions because of unreadable replies.
    repeats_after_fault: u32,
    /// Times that replace the usual ones until the first useful reply.
    hurry: Option<Box<Hurry>>,
    /// The last fault and its message. Boxed because it is rare and a sweep keeps many drivers.
    fault: Option<Box<(Fault, Vec<u8>)>>,
    latency: Option<Duration>,
    /// Whether the timeout follows the latency.
    follows_latency: bool,
    /// Whether a repeated request got the first useful reply.
    has_lost: bool,
    /// Whether a datagram was sent since the last input from outside.
    has_sent: bool,
    /// Whether a timeout led to a new connection with another form of the request.
    has_tried_another_form: bool,
    sent: u32,
    received: u32,
    received_bytes: usize,
    /// Bytes received on a stream. Boxed because only streams have it.
    stream: Option<Box<StreamBuffer>>,
    /// Whether the server has closed the last connection, and no other was opened.
    is_closed: bool,
}

impl fmt::Debug for ExchangeDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeDriver")
            .field("sent", &self.sent)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

/// Shorter limits until the first useful reply.
struct Hurry {
    /// When the request is repeated for the first time; `None` after that.
    repeat_at: Option<Duration>,
    /// When the query ends.
    end: Duration,
}

/// Datagrams sent in each stage so far.
#[derive(Debug, Default)]
struct StageSends {
    first: [u8; STAGES],
    further: Vec<u8>,
}

impl StageSends {
    fn count(&self, stage: usize) -> u8 {
        let count = self.first.get(stage);
        let count = count.or_else(|| self.further.get(stage - STAGES));
        count.copied().unwrap_or(0)
    }

    fn of(&mut self, stage: usize) -> &mut u8 {
        match stage.checked_sub(STAGES) {
            None => &mut self.first[stage],
            Some(place) => {
                if self.further.len() <= place {
                    self.further.resize(place + 1, 0);
                }
                &mut self.further[place]
            }
        }
    }
}

/// Received bytes of a stream that are not a complete message.
#[derive(Debug, Default)]
struct StreamBuffer {
    bytes: Vec<u8>,
    /// Start of the next message in `bytes`.
    start: usize,
    /// Length of the next message as far as known.
    needed: usize,
}

impl ExchangeDriver {
    /// Returns a driver that has not started.
    pub fn new(exchange: Box<dyn Exchange>, limits: QueryLimits) -> Self {
        Self {
            exchange,
            limits,
            started: Duration::ZERO,
            last_send: Duration::ZERO,
            waiting_since: Duration::ZERO,
            stage_sends: StageSends::default(),
            timeouts: 0,
            repeats_after_fault: 0,
            hurry: None,
            fault: None,
            latency: None,
            follows_latency: false,
            has_lost: false,
            has_sent: false,
            has_tried_another_form: false,
            sent: 0,
            received: 0,
            received_bytes: 0,
            stream: None,
            is_closed: false,
        }
    }

    /// Lets the timeout follow the latency, for datagrams. Once a reply has shown it, the next requests
    /// wait twice as long, but at least 200 ms, and each repetition after the first twice as long as the
    /// one before. A server that has lost no request and then ignores two does
    /// not have the requested part: an exchange that has a partial status then ends with it.
    ///
    /// Sweeps do without: they have time, and complete lists matter more on a lossy path.
    #[must_use]
    pub fn follow_latency(mut self) -> Self {
        self.follows_latency = true;
        self
    }

    /// Starts the exchange. This and the following methods append to `out` if they return an
    /// action that sends.
    pub fn start(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        self.started = now;
        self.handle(Input::Start, now, out)
    }

    /// Continues after the datagram of [`Action::SendMore`] was sent.
    pub fn resume(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        let start = out.len();
        let step = self.exchange.handle(Input::Continue, out);
        self.follow(step, now, None, start, out)
    }

    /// Passes an input from outside to the exchange.
    fn handle(&mut self, input: Input<'_>, now: Duration, out: &mut Vec<u8>) -> Action {
        self.has_sent = false;
        let start = out.len();
        let step = self.exchange.handle(input, out);
        self.follow(step, now, None, start, out)
    }

    /// Rebuilds the driver of an exchange that has sent its first request `1 + timeouts` times and
    /// received nothing. Appends the last of these requests to `out`, or its first datagram if the
    /// action is [`Action::SendMore`].
    #[cfg(feature = "sweep")]
    pub(crate) fn replayed(
        exchange: Box<dyn Exchange>,
        limits: QueryLimits,
        started: Duration,
        last_send: Duration,
        timeouts: u32,
        out: &mut Vec<u8>,
    ) -> (Self, Action) {
        let mut driver = Self::new(exchange, limits);
        let start = out.len();
        let mut action = driver.start(started, out);
        while driver.timeouts < timeouts {
            out.truncate(start);
            action = match action {
                Action::SendMore => driver.resume(last_send, out),
                Action::Send => {
                    driver.timeouts += 1;
                    driver.repeat(last_send, out)
                }
                _ => break,
            };
        }
        driver.last_send = last_send;
        driver.waiting_since = last_send;
        (driver, action)
    }

    /// Grants one more retry. Callers: after a timeout that was caused on our side, and after the
    /// first timeout that led to another form of request, so that there is time for a second form.
    pub(crate) fn grant_retry(&mut self) {
        self.limits.retries = self.limits.retries.saturating_add(1);
    }

    /// Returns whether the last datagram sent repeats an earlier one. Its reply then does not show
    /// the latency.
    pub(crate) fn has_resent(&self) -> bool {
        self.sends_in_stage() > 1
    }

    /// Returns when the last datagram was sent.
    #[cfg(feature = "sweep")]
    pub(crate) fn last_send(&self) -> Duration {
        self.last_send
    }

    /// Records that the last datagram was sent only now: the wait for its reply starts here.
    pub fn mark_sent(&mut self, now: Duration) {
        self.last_send = now;
        self.waiting_since = now;
    }

    /// Until the first useful reply: repeats the request after `timeout` if retries are left, and
    /// ends the query after `length`.
    pub fn hurry(&mut self, now: Duration, timeout: Duration, length: Duration) {
        let can_repeat =
            self.timeouts < self.limits.retries && !self.is_exhausted(self.exchange.stage());
        self.hurry = Some(Box::new(Hurry {
            repeat_at: can_repeat.then(|| now.saturating_add(timeout)),
            end: now.saturating_add(length),
        }));
    }

    /// Returns whether a useful reply has arrived.
    pub(crate) fn has_useful_reply(&self) -> bool {
        self.latency.is_some()
    }

    /// Returns when to call [`ExchangeDriver::tick`], unless something ends the query before.
    pub fn due(&self) -> Duration {
        let hurry = self.hurry.as_deref();
        let due = match hurry.and_then(|hurry| hurry.repeat_at) {
            Some(repeat_at) => repeat_at,
            None => self.waiting_since + self.timeout(),
        };
        due.min(self.end())
    }

    /// Returns how long to wait for a reply to the last request.
    fn timeout(&self) -> Duration {
        let limit = self.limits.timeout;
        match self.latency.filter(|_| self.follows_latency) {
            Some(latency) => {
                // The latency of a repeated request may be that of the first one.
                let further = self.timeouts.saturating_sub(1).min(8);
                (latency * 2)
                    .max(MIN_TIMEOUT)
                    .saturating_mul(1 << further)
                    .min(limit)
            }
            None => limit,
        }
    }

    /// Returns the latest end of the query.
    fn end(&self) -> Duration {
        let deadline = self.started + self.limits.deadline;
        match self.hurry.as_deref() {
            Some(hurry) => deadline.min(hurry.end),
            None => deadline,
        }
    }

    /// Handles a datagram from the server's address.
    pub fn datagram(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Action {
        self.received += 1;
        self.received_bytes += bytes.len();
        match self.receive(now, bytes, out) {
            Some(action) => action,
            None if self.repeats_after_fault >= self.limits.retries => self.give_up(now),
            None => {
                self.repeats_after_fault += 1;
                self.repeat(now, out)
            }
        }
    }

    /// Handles a datagram that may belong to another exchange with the same server: an unreadable one
    /// is not repeated.
    pub(crate) fn shared_datagram(
        &mut self,
        now: Duration,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Action {
        self.received += 1;
        self.received_bytes += bytes.len();
        self.receive(now, bytes, out).unwrap_or(Action::Wait)
    }

    /// Returns where the request over HTTP that was sent last goes.
    pub(crate) fn route(&self) -> Route {
        self.exchange.route()
    }

    /// Handles a response over HTTP. An invalid one ends the query, because each request is sent
    /// once.
    pub(crate) fn response(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Action {
        self.received += 1;
        self.received_bytes += bytes.len();
        match self.receive(now, bytes, out) {
            Some(action) => action,
            None => self.give_up(now),
        }
    }

    /// Handles a response over HTTP that is no valid HTTP. The fault is reported if the exchange
    /// has no use for anything else.
    pub(crate) fn invalid_response(
        &mut self,
        now: Duration,
        problem: &'static str,
        out: &mut Vec<u8>,
    ) -> Action {
        self.received += 1;
        self.fault = Some(Box::new((Fault::Misbehaved(problem), Vec::new())));
        self.closed(now, out)
    }

    /// Handles bytes received on a connection. The exchange gets the complete messages; the rest is
    /// kept. After an action that sends, call this again with no bytes, because more messages may
    /// have arrived. An invalid message ends the query, since no other reply will come.
    pub fn stream(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Action {
        self.is_closed = false;
        self.received_bytes += bytes.len();
        let Some(mut buffer) = self.stream.take() else {
            // Most replies arrive whole, and need no buffer.
            let mut unread = bytes;
            let mut needed = 0;
            let action = self.next_message(now, &mut unread, &mut needed, out);
            if !unread.is_empty() && !matches!(action, Action::Reconnect | Action::End(_)) {
                self.stream = Some(Box::new(StreamBuffer {
                    bytes: unread.to_vec(),
                    start: 0,
                    needed,
                }));
            }
            return action;
        };
        buffer.bytes.extend_from_slice(bytes);
        let mut unread = &buffer.bytes[buffer.start..];
        let action = self.next_message(now, &mut unread, &mut buffer.needed, out);
        buffer.start = buffer.bytes.len() - unread.len();
        // Moving the rest to the front only when half of the buffer is free keeps the cost linear.
        if buffer.start * 2 >= buffer.bytes.len() {
            buffer.bytes.drain(..buffer.start);
            buffer.start = 0;
        }
        if !matches!(action, Action::Reconnect) {
            self.stream = Some(buffer);
        }
        action
    }

    /// Passes messages to the exchange until it sends or ends, or until no message is complete.
    /// `needed`: length of the next message as far as known.
    fn next_message(
        &mut self,
        now: Duration,
        unread: &mut &[u8],
        needed: &mut usize,
        out: &mut Vec<u8>,
    ) -> Action {
        loop {
            if self.received_bytes > self.limits.max_bytes {
                return self.flood();
            }
            if unread.is_empty() || unread.len() < *needed {
                return Action::Wait;
            }
            *needed = 0;
            let length = match self.exchange.frame(unread) {
                Ok(Frame::Complete(length)) => length.clamp(1, unread.len()),
                Ok(Frame::Incomplete { total }) => {
                    *needed = total.max(unread.len() + 1);
                    return Action::Wait;
                }
                Err(error) => {
                    self.fault = Some(Box::new((error.into(), unread.to_vec())));
                    return self.give_up(now);
                }
            };
            let (message, rest) = unread.split_at(length);
            self.received += 1;
            let action = self.receive(now, message, out);
            *unread = rest;
            match action {
                Some(Action::Wait | Action::Progress) => {}
                Some(action) => return action,
                None => return self.give_up(now),
            }
        }
    }

    /// Handles the end of the connection.
    pub fn closed(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        let buffer = self.stream.take().unwrap_or_default();
        let rest = &buffer.bytes[buffer.start..];
        self.has_sent = false;
        self.is_closed = true;
        let start = out.len();
        let step = self.exchange.handle(Input::Closed(rest), out);
        if matches!(step, Step::Done(_)) {
            // The end of the connection is no reply that supersedes an unreadable one.
            let fault = self.fault.take();
            self.record_useful_reply(now, false);
            self.fault = fault;
        }
        if !rest.is_empty() && !matches!(step, Step::Wait | Step::Progress) {
            self.received += 1;
        }
        let action = self.follow(step, now, Some(rest), start, out);
        if !matches!(action, Action::Wait | Action::Progress) {
            return action;
        }
        self.stream = Some(buffer);
        self.give_up(now)
    }

    /// Passes a datagram to the exchange. Returns `None` if it cannot be parsed; its fault is then
    /// stored.
    fn receive(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Option<Action> {
        if self.received > self.limits.max_datagrams || self.received_bytes > self.limits.max_bytes
        {
            return Some(self.flood());
        }
        if now >= self.end() {
            return Some(self.give_up(now));
        }
        let has_repeated = self.has_resent();
        self.has_sent = false;
        let start = out.len();
        match self.exchange.handle(Input::Datagram(bytes), out) {
            Step::Bad(fault) => {
                self.fault = Some(Box::new((fault, bytes.to_vec())));
                None
            }
            step => {
                if !matches!(step, Step::Wait | Step::Fail(_)) {
                    self.record_useful_reply(now, has_repeated);
                }
                Some(self.follow(step, now, Some(bytes), start, out))
            }
        }
    }

    fn flood(&mut self) -> Action {
        let flood = ExchangeError::Flood {
            bytes: self.received_bytes,
        };
        Action::End(self.take_partial().ok_or(flood))
    }

    /// Handles a timeout. Does nothing before [`ExchangeDriver::due`].
    pub fn tick(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        self.is_closed = false;
        if now < self.due() {
            return Action::Wait;
        }
        if let Some(action) = self.use_start(now, out) {
            return action;
        }
        if self.timeouts >= self.limits.retries || now >= self.end() {
            return self.give_up(now);
        }
        if let Some(hurry) = self.hurry.as_deref_mut() {
            hurry.repeat_at = None;
        }
        if let Some(output) = self.without_silent_part() {
            return Action::End(Ok(output));
        }
        self.timeouts += 1;
        let action = self.repeat(now, out);
        if matches!(action, Action::Reconnect) && !self.has_tried_another_form {
            self.has_tried_another_form = true;
            self.grant_retry();
        }
        action
    }

    /// Returns the partial status, if the server has lost no request and then ignored two: the missing
    /// part will not come.
    fn without_silent_part(&mut self) -> Option<ExchangeOutput> {
        let is_reliable = self.follows_latency && self.latency.is_some() && !self.has_lost;
        if self.timeouts == 0 || !is_reliable || self.fault.is_some() {
            return None;
        }
        self.take_partial()
    }

    /// Passes the start of a message on a stream to the exchange, if that is enough for it. Returns
    /// `None` if it is not.
    fn use_start(&mut self, now: Duration, out: &mut Vec<u8>) -> Option<Action> {
        let buffer = self.stream.as_deref()?;
        let start = &buffer.bytes[buffer.start..];
        if start.is_empty() || now >= self.end() || !self.exchange.is_usable_start(start) {
            return None;
        }
        let buffer = self.stream.take()?;
        self.received += 1;
        let action = self.receive(now, &buffer.bytes[buffer.start..], out);
        Some(action.unwrap_or_else(|| self.give_up(now)))
    }

    fn repeat(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        self.handle(Input::Timeout, now, out)
    }

    fn record_useful_reply(&mut self, now: Duration, has_repeated: bool) {
        // A datagram that arrived before the last request was sent is not its reply.
        if let Some(sample) = now.checked_sub(self.last_send)
            && self.latency.is_none_or(|best| sample < best)
            && (!has_repeated || self.latency.is_none())
        {
            self.latency = Some(sample);
        }
        self.has_lost |= has_repeated;
        self.hurry = None;
        self.timeouts = 0;
        // A useful reply supersedes an earlier unreadable one.
        self.fault = None;
    }

    fn sends_in_stage(&self) -> u8 {
        self.stage_sends.count(self.exchange.stage())
    }

    /// Returns the action for a step. `start`: length of `out` before the step.
    fn follow(
        &mut self,
        mut step: Step,
        now: Duration,
        received: Option<&[u8]>,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Action {
        loop {
            match step {
                Step::Send | Step::SendMore | Step::Reconnect => {
                    if self.record_send(now) {
                        return match step {
                            Step::Send => Action::Send,
                            Step::SendMore => Action::SendMore,
                            _ => {
                                self.stream = None;
                                Action::Reconnect
                            }
                        };
                    }
                    // The stage has had all its datagrams.
                    out.truncate(start);
                    if step == Step::SendMore {
                        step = self.exchange.handle(Input::Continue, out);
                    } else if self.has_sent || received.is_some() {
                        // The reply to an earlier datagram may follow.
                        return Action::Wait;
                    } else {
                        return self.give_up(now);
                    }
                }
                Step::Wait => {
                    // An exchange that repeats nothing waits for another timeout.
                    if received.is_none() {
                        self.waiting_since = now;
                    }
                    return Action::Wait;
                }
                Step::Progress => {
                    self.waiting_since = now;
                    return Action::Progress;
                }
                Step::Done(status) => return Action::End(Ok(self.output(status))),
                Step::Bad(fault) | Step::Fail(fault) => {
                    let datagram = received.unwrap_or_default().to_vec();
                    if matches!(fault, Fault::Malformed(_) | Fault::Misbehaved(_)) {
                        self.fault = Some(Box::new((fault, datagram)));
                        return self.give_up(now);
                    }
                    return Action::End(Err(ExchangeError::fault(fault, datagram)));
                }
            }
        }
    }

    /// Returns whether a stage has had all its datagrams.
    fn is_exhausted(&self, stage: usize) -> bool {
        u32::from(self.stage_sends.count(stage)) > self.limits.retries.min(254)
    }

    /// Counts a datagram of the current stage. Returns `false` if the stage has had all its
    /// datagrams.
    fn record_send(&mut self, now: Duration) -> bool {
        let stage = self.exchange.stage();
        if self.is_exhausted(stage) {
            return false;
        }
        *self.stage_sends.of(stage) += 1;
        self.sent += 1;
        self.has_sent = true;
        self.mark_sent(now);
        true
    }

    /// Ends the query. A partial status is preferred to an error; it names an unreadable reply as a
    /// deviation.
    pub(crate) fn give_up(&mut self, now: Duration) -> Action {
        if let Some(output) = self.take_partial() {
            return Action::End(Ok(output));
        }
        if let Some(fault) = self.fault.take() {
            let (fault, datagram) = *fault;
            return Action::End(Err(ExchangeError::fault(fault, datagram)));
        }
        if let Some((fault, datagram)) = self.incomplete_message() {
            return Action::End(Err(ExchangeError::fault(fault, datagram)));
        }
        Action::End(Err(if self.is_closed {
            let fault = Fault::Refused {
                reason: "it closed the connection without a reply",
                endpoints: &[],
            };
            ExchangeError::fault(fault, Vec::new())
        } else {
            ExchangeError::Silence {
                after: now.saturating_sub(self.started),
            }
        }))
    }

    /// Returns the fault and the bytes of an incomplete message on a stream. The parser names the
    /// field at which the message ends.
    fn incomplete_message(&mut self) -> Option<(Fault, Vec<u8>)> {
        let buffer = self.stream.take()?;
        let rest = &buffer.bytes[buffer.start..];
        if rest.is_empty() {
            return None;
        }
        self.received += 1;
        let input = Input::Datagram(rest);
        match self.exchange.handle(input, &mut Vec::new()) {
            Step::Bad(fault) | Step::Fail(fault) => Some((fault, rest.to_vec())),
            _ => None,
        }
    }

    /// Ends the exchange and returns the partial status that it has, if that is useful.
    pub fn take_partial(&mut self) -> Option<ExchangeOutput> {
        match self.exchange.handle(Input::GiveUp, &mut Vec::new()) {
            Step::Done(status) => Some(self.output(status)),
            _ => None,
        }
    }

    fn output(&self, mut status: Box<Status>) -> ExchangeOutput {
        // Useful replies clear an earlier fault.
        if self.fault.is_some() {
            status.mark_unreadable();
        }
        ExchangeOutput {
            status,
            latency: self.latency.unwrap_or_default(),
        }
    }

    /// Returns the number of datagrams sent so far.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Returns the number of bytes received so far.
    #[cfg(feature = "sweep")]
    pub(crate) fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    /// Returns the number of datagrams received so far, useful or not.
    pub fn received(&self) -> u32 {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::wire::{Error, UNREADABLE_MESSAGE};
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Returns the steps of a list. A request that follows a reply begins a new stage. If two requests
    /// are in flight, the first is stage 1 and the second is stage 2.
    struct Script {
        steps: VecDeque<Step>,
        stage: usize,
    }

    impl Script {
        fn new(steps: impl IntoIterator<Item = Step>) -> Self {
            Self {
                steps: steps.into_iter().collect(),
                stage: 0,
            }
        }
    }

    impl Exchange for Script {
        fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
            out.push(0);
            let step = self.steps.pop_front().unwrap_or(Step::Wait);
            match (&step, input) {
                (Step::SendMore, _) => self.stage = 1,
                (Step::Send, Input::Continue) => self.stage = 2,
                (Step::Send, Input::Datagram(_)) => self.stage += 1,
                _ => {}
            }
            step
        }

        fn stage(&self) -> usize {
            self.stage
        }
    }

    fn drive(steps: impl IntoIterator<Item = Step>) -> ExchangeDriver {
        ExchangeDriver::new(Box::new(Script::new(steps)), QueryLimits::default())
    }

    fn endless(step: impl Fn() -> Step) -> ExchangeDriver {
        drive((0..100_000).map(|_| step()))
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn bad() -> Step {
        Step::Bad(Fault::Misbehaved("nonsense"))
    }

    #[test]
    fn silence_ends_the_query_after_the_retries() {
        let mut drive = endless(|| Step::Send);
        let mut out = Vec::new();
        assert!(matches!(drive.start(ms(5), &mut out), Action::Send));
        for resend in 1..=3 {
            assert!(matches!(
                drive.tick(drive.due() - ms(1), &mut out),
                Action::Wait
            ));
            assert!(
                matches!(drive.tick(drive.due(), &mut out), Action::Send),
                "{resend}"
            );
        }
        let Action::End(Err(ExchangeError::Silence { after })) = drive.tick(drive.due(), &mut out)
        else {
            panic!();
        };
        assert_eq!((after, drive.sent(), drive.received()), (ms(4000), 4, 0));
    }

    #[test]
    fn stray_datagrams_do_not_extend_the_timeout() {
        let mut drive = drive(
            [Step::Send]
                .into_iter()
                .chain((0..10_000).map(|_| Step::Wait)),
        );
        let mut out = Vec::new();
        drive.start(ms(0), &mut out);
        for now in (50..1000).step_by(50) {
            assert!(matches!(
                drive.datagram(ms(now), b"stray", &mut out),
                Action::Wait
            ));
            assert_eq!(drive.due(), ms(1000));
        }
    }

    #[test]
    fn endless_progress_ends_at_the_deadline() {
        let mut drive = endless(|| Step::Send);
        let mut out = Vec::new();
        drive.start(ms(0), &mut out);
        let end = (1..)
            .map(|i| ms(i * 100))
            .find(|&now| matches!(drive.datagram(now, b"x", &mut out), Action::End(_)));
        assert_eq!(end, Some(QueryLimits::default().deadline));
    }

    #[test]
    fn floods_end_the_query_by_count_and_by_bytes() {
        let mut out = Vec::new();
        for length in [0, 65_507] {
            let mut drive = endless(|| Step::Wait);
            drive.start(ms(0), &mut out);
            let datagram = vec![0; length];
            let datagrams = (1..)
                .find(|_| matches!(drive.datagram(ms(1), &datagram, &mut out), Action::End(_)));
            let QueryLimits {
                max_datagrams,
                max_bytes,
                ..
            } = QueryLimits::default();
            let expected = max_bytes
                .checked_div(length)
                .unwrap_or(max_datagrams as usize);
            assert_eq!(datagrams, Some(expected + 1));
        }
    }

    #[test]
    fn unreadable_reply_is_requested_again_and_then_reported() {
        let mut drive = drive([(); 4].into_iter().flat_map(|()| [Step::Send, bad()]));
        let mut out = Vec::new();
        drive.start(ms(0), &mut out);
        for _ in 0..3 {
            assert!(matches!(
                drive.datagram(ms(1), b"bad", &mut out),
                Action::Send
            ));
        }
        let Action::End(Err(ExchangeError::Fault { datagram, .. })) =
            drive.datagram(ms(1), b"bad", &mut out)
        else {
            panic!();
        };
        assert_eq!(datagram, b"bad");
    }

    #[test]
    fn fault_is_reported_when_silence_follows() {
        let mut drive = drive([
            Step::Send,
            bad(),
            Step::Send,
            Step::Send,
            Step::Send,
            Step::Send,
        ]);
        let mut out = Vec::new();
        drive.start(ms(0), &mut out);
        drive.datagram(ms(1), b"bad", &mut out);
        let end = (0..10).find_map(|_| match drive.tick(drive.due(), &mut out) {
            Action::End(end) => Some(end),
            _ => None,
        });
        assert!(matches!(end, Some(Err(ExchangeError::Fault { .. }))));
    }

    /// Messages of a stream: a length in one byte, then that many bytes. Ends at the message "end".
    /// Requests the next part after each other message.
    #[derive(Default)]
    struct Lengths {
        stage: usize,
        /// Number of calls of `frame`.
        frames: Arc<AtomicUsize>,
    }

    impl Exchange for Lengths {
        fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
            match input {
                Input::Start => {
                    out.push(0);
                    Step::Send
                }
                Input::Datagram(b"\x03end") => Step::Done(Box::default()),
                Input::Datagram(b"\x03old") => {
                    self.stage += 1;
                    out.push(9);
                    Step::Reconnect
                }
                Input::Datagram([1, b'b']) => bad(),
                Input::Datagram(message) if message.len() != usize::from(message[0]) + 1 => {
                    Step::Bad(Fault::Misbehaved("cut short"))
                }
                Input::Datagram(_) => {
                    self.stage += 1;
                    out.push(self.stage as u8);
                    Step::Send
                }
                Input::Closed(b"bye") => Step::Done(Box::default()),
                _ => Step::Wait,
            }
        }

        fn stage(&self) -> usize {
            self.stage
        }

        fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
            self.frames.fetch_add(1, Ordering::Relaxed);
            let total = usize::from(bytes[0]) + 1;
            if total > 250 {
                return Err(Error::bad("length", 0, "at most 249"));
            }
            Ok(if bytes.len() < total {
                Frame::Incomplete { total }
            } else {
                Frame::Complete(total)
            })
        }
    }

    fn lengths() -> (ExchangeDriver, Arc<AtomicUsize>) {
        let exchange = Lengths::default();
        let frames = exchange.frames.clone();
        let mut driver = ExchangeDriver::new(Box::new(exchange), QueryLimits::default());
        assert!(matches!(driver.start(ms(0), &mut Vec::new()), Action::Send));
        (driver, frames)
    }

    #[test]
    fn stream_is_cut_into_messages() {
        let mut out = Vec::new();
        let (mut driver, frames) = lengths();
        // One byte at a time: the length is read once, then once more with the complete message.
        let message: Vec<u8> = std::iter::once(200).chain(0..200).collect();
        for (at, byte) in message.iter().enumerate() {
            let action = driver.stream(ms(at as u64), &[*byte], &mut out);
            assert_eq!(matches!(action, Action::Send), at == 200, "{at}");
        }
        assert_eq!(frames.load(Ordering::Relaxed), 2);
        assert_eq!(std::mem::take(&mut out), [1]);
        // Two and a half messages arrive together: the second waits until the first request is sent.
        let action = driver.stream(ms(300), b"\x01x\x01y\x03e", &mut out);
        assert!(matches!(action, Action::Send));
        assert!(matches!(
            driver.stream(ms(300), b"", &mut out),
            Action::Send
        ));
        assert_eq!(out, [2, 3]);
        assert!(matches!(
            driver.stream(ms(300), b"", &mut out),
            Action::Wait
        ));
        let Action::End(Ok(output)) = driver.stream(ms(301), b"nd", &mut out) else {
            panic!()
        };
        assert_eq!((driver.sent(), driver.received()), (4, 4));
        assert_eq!(
            output.latency,
            ms(0),
            "the second request was answered immediately"
        );
    }

    #[test]
    fn timeout_on_a_stream_sends_nothing_and_waits_again() {
        let mut out = Vec::new();
        let (mut driver, _) = lengths();
        for second in 1..=3 {
            assert_eq!(driver.due(), ms(second * 1_000));
            assert!(matches!(driver.tick(driver.due(), &mut out), Action::Wait));
        }
        let Action::End(end) = driver.tick(driver.due(), &mut out) else {
            panic!()
        };
        assert_eq!(end, Err(ExchangeError::Silence { after: ms(4_000) }));
        assert!(out.is_empty());
    }

    /// Reads messages of three bytes, of which one is enough.
    struct Impatient;

    impl Exchange for Impatient {
        fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
            match input {
                Input::Start => {
                    out.push(0);
                    Step::Send
                }
                Input::Datagram(bytes) => {
                    assert_eq!(bytes, b"x");
                    Step::Done(Box::default())
                }
                _ => Step::Wait,
            }
        }

        fn stage(&self) -> usize {
            0
        }

        fn frame(&self, _: &[u8]) -> Result<Frame, Error> {
            Ok(Frame::Incomplete { total: 3 })
        }

        fn is_usable_start(&self, bytes: &[u8]) -> bool {
            bytes.starts_with(b"x")
        }
    }

    #[test]
    fn a_usable_start_counts_after_a_timeout() {
        for (bytes, is_usable) in [(&b"x"[..], true), (b"y", false), (b"", false)] {
            let mut out = Vec::new();
            let mut driver = ExchangeDriver::new(Box::new(Impatient), QueryLimits::default());
            driver.start(ms(5), &mut out);
            let action = driver.stream(ms(10), bytes, &mut out);
            assert!(matches!(action, Action::Wait));
            let early = driver.tick(driver.due() - ms(1), &mut out);
            assert!(matches!(early, Action::Wait));
            let action = driver.tick(driver.due(), &mut out);
            assert_eq!(matches!(action, Action::End(Ok(_))), is_usable);
            assert_eq!(driver.received(), u32::from(is_usable));
        }
    }

    #[test]
    fn reconnect_begins_a_new_stream() {
        let mut out = Vec::new();
        let (mut driver, _) = lengths();
        let action = driver.stream(ms(1), b"\x03old\x01", &mut out);
        assert!(matches!(action, Action::Reconnect));
        assert_eq!(out, [9]);
        assert!(matches!(driver.stream(ms(2), b"", &mut out), Action::Wait));
        let action = driver.stream(ms(2), b"\x03end", &mut out);
        assert!(matches!(action, Action::End(Ok(_))));
    }

    #[test]
    fn invalid_messages_end_a_stream() {
        let fault = |action: Action| match action {
            Action::End(Err(ExchangeError::Fault { fault, datagram })) => {
                (fault.to_string(), datagram)
            }
            other => panic!("{other:?}"),
        };
        let mut out = Vec::new();
        let (mut driver, _) = lengths();
        assert_eq!(
            fault(driver.stream(ms(1), b"\x01b", &mut out)),
            ("nonsense".into(), b"\x01b".to_vec())
        );
        let (mut driver, _) = lengths();
        assert_eq!(
            fault(driver.stream(ms(1), b"\xFFb", &mut out)),
            (
                "length at offset 0: expected at most 249".into(),
                b"\xFFb".to_vec()
            )
        );
        let (mut driver, _) = lengths();
        assert_eq!(
            fault(driver.closed(ms(1), &mut out)).0,
            "it closed the connection without a reply"
        );
        let (mut driver, _) = lengths();
        driver.stream(ms(1), b"\x05a", &mut out);
        assert_eq!(
            fault(driver.closed(ms(2), &mut out)),
            ("cut short".into(), b"\x05a".to_vec())
        );
        let (mut driver, _) = lengths();
        driver.stream(ms(1), b"bye", &mut out);
        let action = driver.closed(ms(2), &mut out);
        assert!(matches!(action, Action::End(Ok(_))));
        let limits = QueryLimits {
            max_bytes: 100,
            ..QueryLimits::default()
        };
        let mut driver = ExchangeDriver::new(Box::new(Lengths::default()), limits);
        driver.start(ms(0), &mut out);
        let action = driver.stream(ms(1), &[200; 101], &mut out);
        assert!(matches!(
            action,
            Action::End(Err(ExchangeError::Flood { bytes: 101 }))
        ));
    }

    #[test]
    fn several_requests_are_in_flight() {
        let mut driver = drive([
            Step::Send,
            Step::SendMore,
            Step::Send,
            Step::Progress,
            Step::Wait,
            Step::SendMore,
            Step::Send,
            Step::Done(Box::default()),
        ]);
        let mut out = Vec::new();
        driver.start(ms(0), &mut out);
        let action = driver.datagram(ms(10), b"", &mut out);
        assert!(matches!(action, Action::SendMore));
        assert!(matches!(driver.resume(ms(10), &mut out), Action::Send));
        let action = driver.datagram(ms(500), b"", &mut out);
        assert!(matches!(action, Action::Progress));
        assert_eq!(driver.due(), ms(1_500), "progress restarts the timeout");
        let action = driver.datagram(ms(600), b"", &mut out);
        assert!(matches!(action, Action::Wait));
        assert_eq!(driver.due(), ms(1_500), "a stray datagram does not");
        let action = driver.tick(ms(1_500), &mut out);
        assert!(matches!(action, Action::SendMore));
        assert!(matches!(driver.resume(ms(1_500), &mut out), Action::Send));
        let action = driver.datagram(ms(1_600), b"", &mut out);
        assert!(matches!(action, Action::End(Ok(_))));
        assert_eq!(driver.sent(), 5);
    }

    fn is_end(action: &Action) -> bool {
        matches!(action, Action::End(_))
    }

    #[test]
    fn repeated_requests_give_no_latency() {
        let done = || Step::Done(Box::default());
        let mut out = Vec::new();
        let mut clean = drive([Step::Send, Step::Send, Step::Send, done()]);
        clean.start(ms(0), &mut out);
        clean.datagram(ms(40), b"", &mut out);
        clean.tick(ms(1040), &mut out);
        let Action::End(Ok(outcome)) = clean.datagram(ms(1041), b"", &mut out) else {
            panic!()
        };
        assert_eq!(
            outcome.latency,
            ms(40),
            "not 1 ms, which may be a late reply to the first request"
        );
        assert_eq!((clean.sent(), clean.received()), (3, 2));
    }

    #[test]
    fn latency_begins_when_the_request_is_sent() {
        let done = || Step::Done(Box::default());
        for (received_at, round_trip) in [(ms(70), ms(40)), (ms(20), ms(0))] {
            let mut drive = drive([Step::Send, done()]);
            drive.start(ms(10), &mut Vec::new());
            drive.mark_sent(ms(30));
            assert_eq!(drive.due(), ms(1_030));
            let Action::End(Ok(outcome)) = drive.datagram(received_at, b"", &mut Vec::new()) else {
                panic!()
            };
            assert_eq!(outcome.latency, round_trip);
        }
    }

    /// Has a partial status from the start.
    struct Halfway(Script);

    impl Exchange for Halfway {
        fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
            match input {
                Input::GiveUp => Step::Done(Box::default()),
                input => self.0.handle(input, out),
            }
        }

        fn stage(&self) -> usize {
            self.0.stage
        }
    }

    #[test]
    fn partial_status_is_preferred_to_silence_and_names_a_fault() {
        let mut out = Vec::new();
        for unreadable in [false, true] {
            let script = Script::new((0..101).map(|_| Step::Send));
            let mut drive = ExchangeDriver::new(Box::new(Halfway(script)), QueryLimits::default());
            drive.start(ms(0), &mut out);
            drive.fault = unreadable.then(|| Box::new((Fault::Misbehaved("nonsense"), Vec::new())));
            let end = (0..10).find_map(|_| match drive.tick(drive.due(), &mut out) {
                Action::End(end) => Some(end),
                _ => None,
            });
            let status = end.expect("an end").expect("the part").status;
            assert_eq!(status.deviations.contains(&&UNREADABLE_MESSAGE), unreadable);
        }
    }

    /// Replies in stage 0, then never again.
    fn silent_list(lost: u32) -> (Duration, u32, bool) {
        let script = Script::new((0..99).map(|_| Step::Send));
        let driver = ExchangeDriver::new(Box::new(Halfway(script)), QueryLimits::default());
        let mut driver = driver.follow_latency();
        let mut out = Vec::new();
        driver.start(ms(0), &mut out);
        for _ in 0..lost {
            driver.tick(driver.due(), &mut out);
        }
        let answered = driver.last_send() + ms(20);
        driver.datagram(answered, b"", &mut out);
        for _ in 0..9 {
            let due = driver.due();
            if let Action::End(end) = driver.tick(due, &mut out) {
                return (due - answered, driver.sent(), end.is_ok());
            }
        }
        panic!("endless")
    }

    #[test]
    fn a_list_that_never_comes_costs_one_repetition() {
        assert_eq!(silent_list(0), (ms(400), 3, true));
        // On a path that loses datagrams, all retries are used, with growing timeouts.
        assert_eq!(silent_list(2), (ms(200 + 200 + 400 + 800), 7, true));
    }

    #[test]
    fn timeouts_follow_the_latency_up_to_the_limit() {
        for (latency, timeout) in [(ms(0), ms(200)), (ms(150), ms(300)), (ms(700), ms(1_000))] {
            let mut driver = endless(|| Step::Send).follow_latency();
            driver.start(ms(0), &mut Vec::new());
            assert_eq!(driver.due(), ms(1_000), "not known yet");
            driver.datagram(latency, b"", &mut Vec::new());
            assert_eq!(driver.due(), latency + timeout);
        }
    }

    /// Replies to a handshake, but never to the stat that follows.
    #[derive(Default)]
    struct EndlessHandshake {
        stage: usize,
    }

    impl Exchange for EndlessHandshake {
        fn handle(&mut self, input: Input<'_>, _: &mut Vec<u8>) -> Step {
            match input {
                Input::Start | Input::Timeout => self.stage = 0,
                Input::Datagram(_) => self.stage = 1,
                _ => return Step::Wait,
            }
            Step::Send
        }

        fn stage(&self) -> usize {
            self.stage
        }
    }

    #[test]
    fn each_stage_gets_at_most_one_datagram_more_than_retries() {
        for (retries, expected) in [(0, 1), (1, 2), (3, 4), (1_000, 255)] {
            let limits = QueryLimits {
                retries,
                timeout: ms(1),
                ..QueryLimits::default()
            };
            let mut driver = ExchangeDriver::new(Box::new(EndlessHandshake::default()), limits);
            let mut out = Vec::new();
            let mut sends = [0, 0];
            let mut action = driver.start(ms(0), &mut out);
            while !is_end(&action) {
                assert!(matches!(action, Action::Send));
                sends[driver.exchange.stage()] += 1;
                let due = driver.due();
                action = if driver.exchange.stage() == 0 {
                    driver.datagram(due - ms(1), b"challenge", &mut out)
                } else {
                    driver.tick(due, &mut out)
                };
            }
            assert_eq!(sends, [expected, expected], "{retries} retries");
        }
    }

    #[test]
    fn hurry_lasts_until_the_first_useful_reply() {
        let mut out = Vec::new();
        let mut silent = endless(|| Step::Send);
        silent.start(ms(0), &mut out);
        silent.hurry(ms(20), ms(250), ms(1_100));
        // One repetition inside the window, then the usual timeouts.
        for due in [270, 1_120] {
            assert_eq!(silent.due(), ms(due));
            let action = silent.tick(ms(due), &mut out);
            assert_eq!(is_end(&action), due == 1_120);
        }
        let limits = QueryLimits {
            retries: 0,
            ..QueryLimits::default()
        };
        let endless_steps = Script::new((0..9).map(|_| Step::Send));
        let mut single = ExchangeDriver::new(Box::new(endless_steps), limits);
        single.start(ms(0), &mut out);
        single.hurry(ms(20), ms(250), ms(500));
        assert_eq!(
            single.due(),
            ms(520),
            "without retries, it waits for the end"
        );

        let mut slow = endless(|| Step::Send);
        slow.start(ms(0), &mut out);
        slow.hurry(ms(20), ms(250), ms(1_000));
        assert!(matches!(
            slow.datagram(ms(900), b"", &mut out),
            Action::Send
        ));
        assert_eq!(slow.due(), ms(1_900), "the timeout is the usual one again");
        assert!(matches!(slow.tick(ms(1_900), &mut out), Action::Send));
        assert_eq!(slow.due(), ms(2_900));
    }
}
