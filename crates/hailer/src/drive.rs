//! Patience: runs one exchange with deadlines, retries and budgets.
//!
//! Sans-IO like the exchange itself. Time is a [`Duration`] since any moment the caller likes, so tests run whole
//! conversations through a simulated network without a socket or a sleep; [`Client`](crate::Client) and later the sweep
//! run the same code on real ones.
//!
//! ```text
//!   start ──► Send ──► datagram: useful ──► Send … Done | Fail
//!               ▲        │  stray, late: Wait, the clock runs on
//!               │        └─ unreadable: asked again at once, so often as retries allow
//!               └─ tick: nothing useful for `timeout`, retries left
//! ```
//!
//! A stream takes the same way with one datagram that grows, and nothing is asked again: see [`ExchangeDriver::stream`].

use hailer_proto::wire::{self, ErrorKind};
use hailer_proto::{Exchange, Fault, Input, Status, Step};
use std::time::Duration;

/// How long and how much to bear from one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryLimits {
    /// Wait for one datagram. One second covers any path on Earth and servers that answer once per tick.
    pub timeout: Duration,
    /// Resends in a row before silence is final. Three: at 20 % loss each way, 98 of 100 stages get through. Over a
    /// stream nothing is sent again, and the wait is as long as for all of them.
    pub retries: u32,
    /// The whole query, name lookup not included. Ends servers that drip, or that always want one more question.
    pub deadline: Duration,
    /// The most datagrams to hear, stray ones included. Twice what an exchange itself reads of the longest list.
    pub max_datagrams: u32,
    /// The most bytes to hear, stray ones included.
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

/// What the driver wants.
#[derive(Debug)]
pub enum Action {
    /// Send the datagram in the buffer.
    Send,
    /// Wait for a datagram, or for [`ExchangeDriver::due`].
    Wait,
    /// It is over.
    End(Result<ExchangeOutput, ExchangeError>),
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeOutput {
    /// What the server said.
    pub status: Box<Status>,
    /// The shortest time between a request and its reply.
    pub latency: Duration,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExchangeError {
    /// Nothing useful came.
    Silence {
        /// Time since the start.
        after: Duration,
    },
    /// The server answered, and its answer is at fault.
    Fault {
        /// What is wrong.
        fault: Fault,
        /// The datagram that it is about.
        datagram: Vec<u8>,
    },
    /// More came than [`QueryLimits`] allows.
    Flood {
        /// Bytes heard.
        bytes: usize,
    },
}

/// Runs one exchange.
pub struct ExchangeDriver {
    exchange: Box<dyn Exchange>,
    limits: QueryLimits,
    started: Duration,
    last_send: Duration,
    /// When the wait that is due began: with the last datagram sent, or with a time-out that sent none.
    waiting_since: Duration,
    /// The last datagram sent repeats an earlier one: its reply tells no round trip.
    resent: bool,
    resends: u32,
    repeats_after_fault: u32,
    /// Rare, and most drivers of a sweep are kept for a while: they should take little room.
    fault: Option<Box<(Fault, Vec<u8>)>>,
    latency: Option<Duration>,
    sent: u32,
    received: u32,
    bytes: usize,
}

impl ExchangeDriver {
    /// A driver that has not started.
    pub fn new(exchange: Box<dyn Exchange>, limits: QueryLimits) -> Self {
        Self {
            exchange,
            limits,
            started: Duration::ZERO,
            last_send: Duration::ZERO,
            waiting_since: Duration::ZERO,
            resent: false,
            resends: 0,
            repeats_after_fault: 0,
            fault: None,
            latency: None,
            sent: 0,
            received: 0,
            bytes: 0,
        }
    }

    /// Starts. Like all that follow: appends to `out` what to send, if the action is [`Action::Send`].
    pub fn start(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        self.started = now;
        let step = self.exchange.handle(Input::Start, out);
        self.follow(step, now, None)
    }

    /// A driver of which nothing was kept: the same exchange again, asked so many times more without an answer. What was
    /// sent last is appended to `out` once more.
    pub(crate) fn replayed(
        exchange: Box<dyn Exchange>,
        limits: QueryLimits,
        began: Duration,
        last_send: Duration,
        resends: u32,
        out: &mut Vec<u8>,
    ) -> (Self, Action) {
        let mut drive = Self::new(exchange, limits);
        let start = out.len();
        let mut action = drive.start(began, out);
        while drive.resends < resends && matches!(action, Action::Send) {
            out.truncate(start);
            drive.resends += 1;
            action = drive.ask_again(last_send, out);
        }
        (drive.last_send, drive.waiting_since) = (last_send, last_send);
        (drive, action)
    }

    /// The last silence was the asker's own fault: it does not count.
    pub(crate) fn forgive(&mut self) {
        self.limits.retries = self.limits.retries.saturating_add(1);
    }

    /// Whether the last datagram sent repeats an earlier one.
    pub(crate) fn has_resent(&self) -> bool {
        self.resent
    }

    /// When the last datagram was sent.
    pub(crate) fn last_send(&self) -> Duration {
        self.last_send
    }

    /// What it asked to send goes out only now, so that the wait for its reply begins here.
    pub fn sending(&mut self, now: Duration) {
        (self.last_send, self.waiting_since) = (now, now);
    }

    /// When to call [`ExchangeDriver::tick`], if nothing ends the query before.
    pub fn due(&self) -> Duration {
        (self.waiting_since + self.limits.timeout).min(self.started + self.limits.deadline)
    }

    /// Takes a datagram from the address asked.
    pub fn datagram(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Action {
        self.received += 1;
        self.bytes += bytes.len();
        match self.hear(now, bytes, out) {
            Some(action) => action,
            None if self.repeats_after_fault >= self.limits.retries => self.give_up(now),
            None => {
                self.repeats_after_fault += 1;
                self.ask_again(now, out)
            }
        }
    }

    /// Takes everything heard on a connection so far: one datagram that grows. What ends too early waits for more, until
    /// the server [closes](ExchangeDriver::closed). Nothing mends another fault, so that ends the query.
    pub fn stream(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Action {
        (self.received, self.bytes) = (1, bytes.len());
        match (self.hear(now, bytes, out), self.fault.as_deref()) {
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

    /// The server closed the connection.
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

    /// What comes of a datagram. `None`: it cannot be read, and its fault is kept.
    fn hear(&mut self, now: Duration, bytes: &[u8], out: &mut Vec<u8>) -> Option<Action> {
        if self.received > self.limits.max_datagrams || self.bytes > self.limits.max_bytes {
            let flood = ExchangeError::Flood { bytes: self.bytes };
            return Some(Action::End(self.part().ok_or(flood)));
        }
        if now >= self.started + self.limits.deadline {
            return Some(self.give_up(now));
        }
        match self.exchange.handle(Input::Datagram(bytes), out) {
            Step::Bad(fault) => {
                self.fault = Some(Box::new((fault, bytes.to_vec())));
                None
            }
            step => {
                if matches!(step, Step::Send | Step::Done(_)) {
                    self.useful_reply(now);
                }
                Some(self.follow(step, now, Some(bytes)))
            }
        }
    }

    /// Time has passed. Does nothing before [`ExchangeDriver::due`].
    pub fn tick(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        if now < self.due() {
            return Action::Wait;
        }
        if self.resends >= self.limits.retries || now >= self.started + self.limits.deadline {
            return self.give_up(now);
        }
        self.resends += 1;
        self.ask_again(now, out)
    }

    fn ask_again(&mut self, now: Duration, out: &mut Vec<u8>) -> Action {
        let step = self.exchange.handle(Input::Timeout, out);
        self.resent |= step == Step::Send;
        self.follow(step, now, None)
    }

    fn useful_reply(&mut self, now: Duration) {
        // What came before the last datagram left is no reply to it.
        if let Some(sample) = now.checked_sub(self.last_send)
            && self.latency.is_none_or(|best| sample < best)
            && (!self.resent || self.latency.is_none())
        {
            self.latency = Some(sample);
        }
        self.resent = false;
        self.resends = 0;
        // What came after all makes up for what could not be read before.
        self.fault = None;
    }

    fn follow(&mut self, step: Step, now: Duration, heard: Option<&[u8]>) -> Action {
        match step {
            Step::Send => {
                self.sent += 1;
                (self.last_send, self.waiting_since) = (now, now);
                Action::Send
            }
            Step::Wait => {
                // An exchange that has nothing to send again waits another time-out.
                if heard.is_none() {
                    self.waiting_since = now;
                }
                Action::Wait
            }
            Step::Done(status) => Action::End(Ok(self.outcome(status))),
            Step::Bad(fault) | Step::Fail(fault) => Action::End(Err(ExchangeError::Fault {
                fault,
                datagram: heard.unwrap_or_default().to_vec(),
            })),
        }
    }

    /// A part of the answer is better than silence, but an unreadable answer must not pass for a part.
    fn give_up(&mut self, now: Duration) -> Action {
        Action::End(match self.fault.take().map(|kept| *kept) {
            Some((fault, datagram)) => Err(ExchangeError::Fault { fault, datagram }),
            None => self.part().ok_or(ExchangeError::Silence {
                after: now - self.started,
            }),
        })
    }

    /// The part of an answer that came so far, if it is worth having. Ends the exchange.
    pub fn part(&mut self) -> Option<ExchangeOutput> {
        match self.exchange.handle(Input::GiveUp, &mut Vec::new()) {
            Step::Done(status) => Some(self.outcome(status)),
            _ => None,
        }
    }

    fn outcome(&self, status: Box<Status>) -> ExchangeOutput {
        ExchangeOutput {
            status,
            latency: self.latency.unwrap_or_default(),
        }
    }

    /// Datagrams sent so far.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Datagrams heard so far, useful or not.
    pub fn received(&self) -> u32 {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Plays a script of steps and counts its inputs.
    struct Script(VecDeque<Step>);

    impl Exchange for Script {
        fn handle(&mut self, _: Input<'_>, out: &mut Vec<u8>) -> Step {
            out.push(0);
            self.0.pop_front().unwrap_or(Step::Wait)
        }
    }

    fn drive(steps: impl IntoIterator<Item = Step>) -> ExchangeDriver {
        ExchangeDriver::new(
            Box::new(Script(steps.into_iter().collect())),
            QueryLimits::default(),
        )
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
    fn silence_ends_after_the_retries() {
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
    fn dripped_strays_do_not_extend_the_wait() {
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
    fn floods_end_by_count_and_by_bytes() {
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
    fn an_unreadable_answer_is_asked_for_again_and_then_reported() {
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
    fn the_fault_is_reported_when_silence_follows() {
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
    fn a_stream_is_one_datagram_that_grows() {
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
            "a time-out on a stream sends nothing and waits again"
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
            "from the request, not the time-out"
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
    fn round_trips_are_not_taken_from_resent_requests() {
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
    fn round_trips_begin_when_the_request_leaves() {
        let done = || Step::Done(Box::default());
        for (heard, round_trip) in [(ms(70), ms(40)), (ms(20), ms(0))] {
            let mut drive = drive([Step::Send, done()]);
            drive.start(ms(10), &mut Vec::new());
            drive.sending(ms(30));
            assert_eq!(drive.due(), ms(1_030));
            let Action::End(Ok(outcome)) = drive.datagram(heard, b"", &mut Vec::new()) else {
                panic!()
            };
            assert_eq!(outcome.latency, round_trip);
        }
    }

    /// Has a part worth having from the start.
    struct Halfway(Script);

    impl Exchange for Halfway {
        fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
            match input {
                Input::GiveUp => Step::Done(Box::default()),
                input => self.0.handle(input, out),
            }
        }
    }

    #[test]
    fn a_part_of_the_answer_outlives_silence_but_not_an_unreadable_answer() {
        let mut out = Vec::new();
        for unreadable in [false, true] {
            let script = Script(
                std::iter::once(Step::Send)
                    .chain((0..100).map(|_| Step::Send))
                    .collect(),
            );
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
}
