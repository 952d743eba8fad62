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
//! A stream uses the same code: the bytes received so far count as one growing datagram, and
//! nothing is sent again. See [`ExchangeDriver::stream`].

use hailer_proto::wire::{self, ErrorKind};
use hailer_proto::{Exchange, Fault, Input, Status, Step};
use std::time::Duration;

/// Limits of one query to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryLimits {
    /// Time to wait for one reply. The default of 1 s covers any path on Earth, and servers that
    /// reply once per tick.
    pub timeout: Duration,
    /// Maximum number of consecutive repetitions of a request after timeouts, and of repetitions of
    /// each [stage](Exchange::stage) in the whole query. With the default of 3 and a loss of 20 %
    /// in each direction, 98 of 100 stages succeed. Values above 254 count as 254. Streams repeat
    /// nothing; instead they wait as long as all tries together.
    pub retries: u32,
    /// Time limit for the whole query without the name lookup. It ends exchanges with servers that
    /// send replies slowly or require one request after another. Default: 10 s.
    pub deadline: Duration,
    /// Maximum number of datagrams to receive, including stray ones. The default of 8,192 is twice
    /// what an exchange reads of the longest list.
    pub max_datagrams: u32,
    /// Maximum number of bytes to receive, including stray datagrams. Default: 16 MiB.
    pub max_bytes: usize,
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
    /// Wait for a datagram, or until [`ExchangeDriver::due`].
    Wait,
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
        fault: Fault,
        /// Datagram with the fault.
        datagram: Vec<u8>,
    },
    /// More data arrived than [`QueryLimits`] allows.
    Flood {
        /// Bytes received.
        bytes: usize,
    },
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
    /// Datagrams sent in each stage so far.
    stage_sends: Vec<u8>,
    /// Timeouts in a row without a useful reply.
    timeouts: u32,
    /// Repetitions because of unreadable replies.
    repeats_after_fault: u32,
    /// Until the first useful reply: a shorter timeout, and the time at which the query ends.
    hurry: Option<Box<(Duration, Duration)>>,
    /// Boxed because it is rare and a sweep keeps many drivers.
    fault: Option<Box<(Fault, Vec<u8>)>>,
    latency: Option<Duration>,
    sent: u32,
    received: u32,
    received_bytes: usize,
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
            stage_sends: Vec::new(),
            timeouts: 0,
            repeats_after_fault: 0,
            hurry: None,
            fault: None,
            latency: None,
            sent: 0,
            received: 0,
            received_bytes: 0,
        }
    }

    /// Starts the exchange. This and the following methods append a datagram to `out` if they
    /// return [`Action::Send`].
    pub fn start(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        self.started = now;
        let step = self.exchange.handle(Input::Start, out);
        self.follow(step, now, None)
    }

    /// Rebuilds the driver of an exchange that has sent its first request `1 + timeouts` times and
    /// received nothing. Appends the last of these requests to `out`.
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
        while driver.timeouts < timeouts && matches!(action, Action::Send) {
            out.truncate(start);
            driver.timeouts += 1;
            action = driver.repeat(last_send, out);
        }
        driver.last_send = last_send;
        driver.waiting_since = last_send;
        (driver, action)
    }

    /// Grants one more retry, because the last timeout was caused on our side.
    pub(crate) fn grant_retry(&mut self) {
        self.limits.retries = self.limits.retries.saturating_add(1);
    }

    /// Returns whether the last datagram sent repeats an earlier one. Its reply then does not show
    /// the latency.
    pub(crate) fn has_resent(&self) -> bool {
        self.sends_in_stage() > 1
    }

    /// Returns when the last datagram was sent.
    pub(crate) fn last_send(&self) -> Duration {
        self.last_send
    }

    /// Records that the last datagram was sent only now: the wait for its reply starts here.
    pub fn mark_sent(&mut self, now: Duration) {
        self.last_send = now;
        self.waiting_since = now;
    }

    /// Limits each wait to `timeout` and the rest of the query to `length`, until the first useful
    /// reply.
    pub fn hurry(&mut self, now: Duration, timeout: Duration, length: Duration) {
        self.hurry = Some(Box::new((timeout, now.saturating_add(length))));
    }

    /// Returns when to call [`ExchangeDriver::tick`], unless something ends the query before.
    pub fn due(&self) -> Duration {
        let timeout = match self.hurry.as_deref() {
            Some((timeout, _)) => self.limits.timeout.min(*timeout),
            None => self.limits.timeout,
        };
        (self.waiting_since + timeout).min(self.end())
    }

    /// Returns the latest end of the query.
    fn end(&self) -> Duration {
        let deadline = self.started + self.limits.deadline;
        match self.hurry.as_deref() {
            Some((_, end)) => deadline.min(*end),
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

    /// Handles all bytes received on a connection so far, as one growing datagram. An incomplete
    /// message waits for more bytes until the server [closes](ExchangeDriver::closed) the
    /// connection. Any other fault ends the query, because more bytes cannot correct it.
    pub fn stream(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Action {
        self.received = 1;
        self.received_bytes = bytes.len();
        match (self.receive(now, bytes, out), self.fault.as_deref()) {
            (Some(action), _) => action,
            (
                None,
                Some((
                    Fault::Malformed(wire::Error {
                        kind: ErrorKind::Short { .. },
                        ..
                    }),
                    _,
                )),
            ) => Action::Wait,
            (None, _) => self.give_up(now),
        }
    }

    /// Handles the end of the connection.
    pub fn closed(&mut self, now: Duration) -> Action {
        self.fault.get_or_insert_with(|| {
            Box::new((
                Fault::Refused {
                    reason: "it closed the connection without a reply",
                    endpoints: &[],
                },
                Vec::new(),
            ))
        });
        self.give_up(now)
    }

    /// Passes a datagram to the exchange. Returns `None` if it cannot be parsed; its fault is then
    /// stored.
    fn receive(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Option<Action> {
        if self.received > self.limits.max_datagrams || self.received_bytes > self.limits.max_bytes
        {
            let flood = ExchangeError::Flood {
                bytes: self.received_bytes,
            };
            return Some(Action::End(self.take_partial().ok_or(flood)));
        }
        if now >= self.end() {
            return Some(self.give_up(now));
        }
        let has_repeated = self.has_resent();
        match self.exchange.handle(Input::Datagram(bytes), out) {
            Step::Bad(fault) => {
                self.fault = Some(Box::new((fault, bytes.to_vec())));
                None
            }
            step => {
                if matches!(step, Step::Send | Step::Done(_)) {
                    self.record_useful_reply(now, has_repeated);
                }
                Some(self.follow(step, now, Some(bytes)))
            }
        }
    }

    /// Handles a timeout. Does nothing before [`ExchangeDriver::due`].
    pub fn tick(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        if now < self.due() {
            return Action::Wait;
        }
        if self.timeouts >= self.limits.retries || now >= self.end() {
            return self.give_up(now);
        }
        self.timeouts += 1;
        self.repeat(now, out)
    }

    fn repeat(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        let step = self.exchange.handle(Input::Timeout, out);
        self.follow(step, now, None)
    }

    fn record_useful_reply(&mut self, now: Duration, has_repeated: bool) {
        // A datagram that arrived before the last request was sent is not its reply.
        if let Some(sample) = now.checked_sub(self.last_send)
            && self.latency.is_none_or(|best| sample < best)
            && (!has_repeated || self.latency.is_none())
        {
            self.latency = Some(sample);
        }
        self.hurry = None;
        self.timeouts = 0;
        // A useful reply supersedes an earlier unreadable one.
        self.fault = None;
    }

    fn sends_in_stage(&self) -> u8 {
        let stage = self.exchange.stage();
        self.stage_sends.get(stage).copied().unwrap_or(0)
    }

    fn follow(&mut self, step: Step, now: Duration, received: Option<&[u8]>) -> Action {
        match step {
            Step::Send => {
                let stage = self.exchange.stage();
                if self.stage_sends.len() <= stage {
                    self.stage_sends.resize(stage + 1, 0);
                }
                let sends = &mut self.stage_sends[stage];
                if u32::from(*sends) > self.limits.retries.min(254) {
                    return self.give_up(now);
                }
                *sends += 1;
                self.sent += 1;
                self.mark_sent(now);
                Action::Send
            }
            Step::Wait => {
                // An exchange that repeats nothing waits for another timeout.
                if received.is_none() {
                    self.waiting_since = now;
                }
                Action::Wait
            }
            Step::Done(status) => Action::End(Ok(self.output(status))),
            Step::Bad(fault) | Step::Fail(fault) => Action::End(Err(ExchangeError::Fault {
                fault,
                datagram: received.unwrap_or_default().to_vec(),
            })),
        }
    }

    /// Ends the query. A partial status is preferred to a timeout, but a parse error is reported
    /// first.
    fn give_up(&mut self, now: Duration) -> Action {
        if let Some(fault) = self.fault.take() {
            let (fault, datagram) = *fault;
            return Action::End(Err(ExchangeError::Fault { fault, datagram }));
        }
        let silence = ExchangeError::Silence {
            after: now.saturating_sub(self.started),
        };
        Action::End(self.take_partial().ok_or(silence))
    }

    /// Ends the exchange and returns the partial status that it has, if that is useful.
    pub fn take_partial(&mut self) -> Option<ExchangeOutput> {
        match self.exchange.handle(Input::GiveUp, &mut Vec::new()) {
            Step::Done(status) => Some(self.output(status)),
            _ => None,
        }
    }

    fn output(&self, status: Box<Status>) -> ExchangeOutput {
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
    use std::collections::VecDeque;

    /// Returns the steps of a list. A request that follows a reply begins a new stage.
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
            if step == Step::Send && matches!(input, Input::Datagram(_)) {
                self.stage += 1;
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
            let heard = (1..)
                .find(|_| matches!(drive.datagram(ms(1), &datagram, &mut out), Action::End(_)));
            let QueryLimits {
                max_datagrams,
                max_bytes,
                ..
            } = QueryLimits::default();
            let expected = max_bytes
                .checked_div(length)
                .unwrap_or(max_datagrams as usize);
            assert_eq!(heard, Some(expected + 1));
        }
    }

    #[test]
    fn unreadable_reply_is_requested_again_and_then_reported() {
        let mut drive = drive([
            Step::Send,
            bad(),
            Step::Send,
            bad(),
            Step::Send,
            bad(),
            Step::Send,
            bad(),
        ]);
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

    #[test]
    fn stream_is_one_datagram_that_grows() {
        let short = || {
            Step::Bad(
                wire::Error {
                    field: "text",
                    at: 1,
                    kind: ErrorKind::Short { need: 1 },
                }
                .into(),
            )
        };
        let done = || Step::Done(Box::default());
        let mut out = Vec::new();
        let mut slow = drive([
            Step::Send,
            short(),
            Step::Wait,
            short(),
            short(),
            short(),
            short(),
            done(),
        ]);
        slow.start(ms(0), &mut out);
        assert!(matches!(slow.stream(ms(10), b"1", &mut out), Action::Wait));
        assert!(matches!(slow.tick(slow.due(), &mut out), Action::Wait));
        assert_eq!(
            slow.due(),
            ms(2_000),
            "a timeout on a stream sends nothing and waits again"
        );
        for heard in 2..=5 {
            assert!(matches!(
                slow.stream(ms(1_000), &b"12345"[..heard], &mut out),
                Action::Wait
            ));
        }
        let Action::End(Ok(outcome)) = slow.stream(ms(1_500), b"123456", &mut out) else {
            panic!()
        };
        assert_eq!(
            (outcome.latency, slow.sent(), slow.received()),
            (ms(1_500), 1, 1),
            "since the request, not since the timeout"
        );

        let end = |steps: [Step; 2], then: fn(&mut ExchangeDriver) -> Action| {
            let mut drive = drive(steps.into_iter().chain((0..9).map(|_| Step::Wait)));
            drive.start(ms(0), &mut Vec::new());
            match then(&mut drive) {
                Action::End(Err(failure)) => failure,
                other => panic!("{other:?}"),
            }
        };
        let fault = |failure| match failure {
            ExchangeError::Fault { fault, datagram } => (fault.to_string(), datagram),
            other => panic!("{other:?}"),
        };
        let close = |drive: &mut ExchangeDriver| drive.closed(ms(9));
        let hear = |drive: &mut ExchangeDriver| drive.stream(ms(9), b"x", &mut Vec::new());
        let hear_and_close = |drive: &mut ExchangeDriver| {
            assert!(matches!(
                drive.stream(ms(8), b"x", &mut Vec::new()),
                Action::Wait
            ));
            drive.closed(ms(9))
        };
        let too_early = "text at offset 1: ends 1 byte too early".to_owned();
        assert_eq!(
            fault(end([Step::Send, short()], hear_and_close)),
            (too_early, b"x".to_vec())
        );
        assert_eq!(
            fault(end([Step::Send, bad()], hear)),
            ("nonsense".into(), b"x".to_vec())
        );
        assert_eq!(
            fault(end([Step::Send, bad()], close)).0,
            "it closed the connection without a reply"
        );
        let wait = |drive: &mut ExchangeDriver| {
            (0..9)
                .map(|_| drive.tick(drive.due(), &mut Vec::new()))
                .find(is_end)
                .unwrap()
        };
        assert_eq!(
            end([Step::Send, Step::Wait], wait),
            ExchangeError::Silence { after: ms(4_000) }
        );
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
        for (heard, round_trip) in [(ms(70), ms(40)), (ms(20), ms(0))] {
            let mut drive = drive([Step::Send, done()]);
            drive.start(ms(10), &mut Vec::new());
            drive.mark_sent(ms(30));
            assert_eq!(drive.due(), ms(1_030));
            let Action::End(Ok(outcome)) = drive.datagram(heard, b"", &mut Vec::new()) else {
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
    fn partial_status_is_preferred_to_silence_but_not_to_a_fault() {
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
            assert_eq!(end.map(|end| end.is_err()), Some(unreadable));
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
                Input::GiveUp => return Step::Wait,
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
        silent.hurry(ms(20), ms(250), ms(1_000));
        for due in [250, 500, 750] {
            assert_eq!(silent.due(), ms(due));
            assert!(matches!(silent.tick(ms(due), &mut out), Action::Send));
        }
        assert_eq!(silent.due(), ms(1_000));
        assert!(is_end(&silent.tick(ms(1_000), &mut out)));

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
