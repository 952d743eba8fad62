//! Conformance tests of clients: responds to any client, and reports what it does wrong.
//!
//! An [`Observer`] is sans-IO: the caller passes datagrams and sends the replies. It answers with a
//! simulated server, and adds what networks add: the first reply to each client is lost. The file of
//! each protocol judges the requests, and adds forged replies that a client must ignore.
//!
//! Limits: 1,000 requests, 256 ports of clients.

use super::{Severity, suite};
use hailer_proto::wire::{Notes, counted};
use hailer_proto::{
    Connection, DatagramContext, Deviation, Direction, Epoch, Keys, Options, Protocol, Responder,
    Status, Text,
};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Requests that are kept to judge the pace. The oldest is dropped.
const MAX_REQUESTS: usize = 1_000;
/// Ports of clients that are known at the same time.
const MAX_PORTS: usize = 256;
/// Shortest time between two equal requests from a port.
const MIN_REPEAT: Duration = Duration::from_millis(100);
/// Longest time until a lost reply is requested again.
const MAX_REPEAT: Duration = Duration::from_secs(12);
/// As above, from another port. A later request may be that of another query.
const MAX_OTHER_PORT: Duration = Duration::from_secs(4);
/// Longest time until the request that follows a reply.
const MAX_NEXT: Duration = Duration::from_secs(4);
/// Most requests of one address in a second.
const MAX_PER_SECOND: usize = 20;

/// A numbered requirement for clients of one protocol.
#[derive(Debug)]
pub struct ClientRequirement {
    /// Number within the protocol: 4 stands for `minecraft-query/client.4`.
    pub number: u32,
    /// Duty of a client: one sentence without a final stop.
    pub title: &'static str,
    /// Severity of a failure.
    pub severity: Severity,
    /// Practical effect of a failure: one sentence without a final stop.
    pub effect: &'static str,
}

impl ClientRequirement {
    const fn new(number: u32, severity: Severity) -> Self {
        Self {
            number,
            title: "",
            severity,
            effect: "",
        }
    }

    /// Returns a requirement whose failure is an error. Its title and effect follow as methods.
    pub(super) const fn error(number: u32) -> Self {
        Self::new(number, Severity::Error)
    }

    /// As [`error`](Self::error), for a failure that is a warning.
    pub(super) const fn warning(number: u32) -> Self {
        Self::new(number, Severity::Warning)
    }

    /// As [`error`](Self::error), for a failure that is a note.
    pub(super) const fn note(number: u32) -> Self {
        Self::new(number, Severity::Note)
    }

    pub(super) const fn title(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }

    pub(super) const fn effect(mut self, effect: &'static str) -> Self {
        self.effect = effect;
        self
    }
}

/// Requirements for the clients of every protocol; only the first one for streams.
static COMMON: &[ClientRequirement] = &[
    ClientRequirement::error(VALID)
        .title("Every message is a request of the protocol")
        .effect("Servers drop the request, and some block its sender"),
    ClientRequirement::error(REPEATS)
        .title("A lost reply is requested again within 12 s")
        .effect("One lost datagram shows the server as offline"),
    ClientRequirement::warning(PACE)
        .title("Equal requests are at least 0.1 s apart, and there are at most 20 per second")
        .effect("Servers with a rate limit stop answering the client"),
];

/// Numbers of [`COMMON`].
pub(super) const VALID: u32 = 1;
const REPEATS: u32 = 2;
const PACE: u32 = 3;

/// How the clients of a protocol are tested.
pub struct ClientSuite {
    /// Requirements of the protocol, numbered after the common ones.
    pub requirements: &'static [ClientRequirement],
    /// Deviations of requests that one of them judges, or that all servers accept.
    pub(super) deviations: &'static [&'static Deviation],
    /// Judges the requests.
    pub(super) observe: Observe,
}

/// Judges the requests of clients.
pub(super) enum Observe {
    /// Judges a datagram and returns the replies to it.
    Datagram(fn(&mut Observer, &ObservedRequest<'_>) -> Vec<Vec<u8>>),
    /// Judges a connection that has ended.
    Stream(fn(&mut Observer, &SeenConnection)),
}

/// A connection of a client that has ended.
#[derive(Clone, Debug, Default)]
pub struct SeenConnection {
    /// All bytes that the client sent.
    pub bytes: Vec<u8>,
    /// Port that the client connected to.
    pub port: u16,
    /// Whether the client closed the connection before it got the whole reply.
    pub is_cut: bool,
}

impl ClientSuite {
    /// Returns all requirements, by number.
    pub fn all(&self) -> impl Iterator<Item = &'static ClientRequirement> {
        // TCP repeats and paces what a connection sends.
        let common = match self.observe {
            Observe::Datagram(_) => COMMON,
            Observe::Stream(_) => &COMMON[..1],
        };
        common.iter().chain(self.requirements)
    }
}

impl std::fmt::Debug for ClientSuite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientSuite({} requirements)", self.requirements.len())
    }
}

/// A request of a client.
pub(super) struct ObservedRequest<'a> {
    pub(super) now: Duration,
    pub(super) epoch: Epoch,
    pub(super) from: SocketAddr,
    pub(super) bytes: &'a [u8],
}

/// An earlier request.
struct PastRequest {
    at: Duration,
    from: SocketAddr,
    bytes: Vec<u8>,
    is_answered: bool,
}

/// A request whose reply was withheld.
#[derive(Clone)]
struct WithheldReply {
    port: u16,
    at: Duration,
    /// Name of the message.
    message: &'static str,
    /// Whether the same message came from another port soon after: a client that opens a socket for
    /// each try. Ids and random numbers may differ.
    has_retry: bool,
}

/// State of one port of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    /// Id or token that the client must use, as the protocol defines it.
    pub(super) id: Vec<u8>,
    /// Token of the simulated server.
    pub(super) token: Vec<u8>,
    /// Whether the client has used that token.
    pub(super) is_used: bool,
    /// Offset of the next page.
    pub(super) next_offset: Option<u32>,
    /// Number of a requirement that the next request from this port shows, and since when. The
    /// client has missed it if no request comes.
    pub(super) awaited: Option<(u32, Duration)>,
}

/// How often a client met a requirement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Number of times that it did.
    pub met: u32,
    /// Number of times that it did not.
    pub missed: u32,
    /// The last time that it did not, in words.
    pub detail: String,
}

impl Judgement {
    /// Returns `pass`, `fail`, or `not-applicable` if no request has shown the requirement.
    pub fn result(&self) -> &'static str {
        match (self.met, self.missed) {
            (0, 0) => "not-applicable",
            (_, 0) => "pass",
            _ => "fail",
        }
    }
}

/// Observes the clients of one protocol.
pub struct Observer {
    protocol: &'static dyn Protocol,
    suite: &'static ClientSuite,
    responder: Arc<dyn Responder>,
    /// The last requests.
    requests: Vec<PastRequest>,
    pub(super) ports: HashMap<SocketAddr, Port>,
    /// First request of each address, whose reply was withheld. `None`: it was repeated.
    withheld: HashMap<IpAddr, Option<WithheldReply>>,
    judgements: BTreeMap<u32, Judgement>,
    /// Tokens sent so far, to choose the next one.
    pub(super) tokens: usize,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Observer({})", self.protocol.info().id)
    }
}

impl Observer {
    /// Creates an observer. `None` if the protocol has no requirements for clients.
    pub fn new(protocol: &'static dyn Protocol, secret: [u8; 16]) -> Option<Self> {
        let suite = suite(protocol)?.client?;
        let keys = Keys::new(secret);
        let responder = protocol.responder(&shown_status(protocol), &keys, &Options::default());
        Some(Self {
            protocol,
            suite,
            responder: responder.ok()?,
            requests: Vec::new(),
            ports: HashMap::new(),
            withheld: HashMap::new(),
            judgements: BTreeMap::new(),
            tokens: 0,
        })
    }

    /// Returns the number of requests, at most 1,000.
    pub fn request_count(&self) -> usize {
        self.requests.len()
    }

    /// Returns the result of each requirement so far, by number. Those that no request has shown are
    /// neither met nor missed.
    pub fn judgements(&self, now: Duration) -> Vec<(&'static ClientRequirement, Judgement)> {
        let mut judgements = self.judgements.clone();
        for request in self.withheld.values().flatten() {
            let is_overdue = now.saturating_sub(request.at) > MAX_REPEAT;
            let judgement = judgements.entry(REPEATS).or_default();
            if request.has_retry {
                judgement.met += 1;
            } else if is_overdue {
                judgement.missed += 1;
                judgement.detail = "no second request after a lost reply".into();
            }
        }
        for (number, since) in self.ports.values().filter_map(|port| port.awaited) {
            if now.saturating_sub(since) > MAX_NEXT {
                let judgement = judgements.entry(number).or_default();
                judgement.missed += 1;
                judgement.detail = "no further request after the reply".into();
            }
        }
        let judgement = |requirement: &'static ClientRequirement| {
            (
                requirement,
                judgements.remove(&requirement.number).unwrap_or_default(),
            )
        };
        self.suite.all().map(judgement).collect()
    }

    /// Records whether a request met a requirement.
    pub(super) fn judge(&mut self, number: u32, problem: Option<String>) {
        let judgement = self.judgements.entry(number).or_default();
        match problem {
            None => judgement.met += 1,
            Some(problem) => {
                judgement.missed += 1;
                judgement.detail = problem;
            }
        }
    }

    /// As [`judge`](Self::judge): the problem exists if `is_met` is false.
    pub(super) fn require(&mut self, number: u32, is_met: bool, problem: &str) {
        self.judge(number, (!is_met).then(|| problem.to_owned()));
    }

    /// Returns whether a client at an address misses a requirement, or sends another request instead
    /// of the one that would show it.
    pub(super) fn has_missed(&self, number: u32, ip: IpAddr) -> bool {
        let mut ports = self.ports.iter().filter(|(from, _)| from.ip() == ip);
        let is_waiting = |port: &Port| port.awaited.is_some_and(|(awaited, _)| awaited == number);
        self.judgements
            .get(&number)
            .is_some_and(|judgement| judgement.missed > 0)
            || ports.any(|(_, port)| is_waiting(port))
    }

    /// Returns the state of the port of a request.
    pub(super) fn port(&mut self, from: SocketAddr) -> &mut Port {
        if self.ports.len() >= MAX_PORTS && !self.ports.contains_key(&from) {
            self.ports.clear();
        }
        self.ports.entry(from).or_default()
    }

    /// Returns the replies of the simulated server.
    pub(super) fn answers(&self, seen: &ObservedRequest<'_>, request: &[u8]) -> Vec<Vec<u8>> {
        self.responder.replies(seen.from, seen.epoch, request)
    }

    /// Handles a datagram of a client. Returns the replies, in order.
    pub fn datagram(
        &mut self,
        now: Duration,
        epoch: Epoch,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Vec<Vec<u8>> {
        let is_request = self.judge_bytes(bytes);
        self.judge_pace(now, from, bytes);
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.remove(0);
        }
        self.requests.push(PastRequest {
            at: now,
            from,
            bytes: bytes.to_vec(),
            is_answered: false,
        });
        if !is_request {
            return Vec::new();
        }
        if self.judge_repeat(now, from, bytes) {
            return Vec::new();
        }
        self.port(from).awaited = None;
        let seen = ObservedRequest {
            now,
            epoch,
            from,
            bytes,
        };
        let Observe::Datagram(observe) = self.suite.observe else {
            return Vec::new();
        };
        let replies = observe(self, &seen);
        if let Some(last) = self.requests.last_mut() {
            last.is_answered = !replies.is_empty();
        }
        replies
    }

    /// Judges whether a lost reply is requested again. Returns whether the reply to this request must
    /// be lost.
    fn judge_repeat(&mut self, now: Duration, from: SocketAddr, bytes: &[u8]) -> bool {
        let message = self.message(bytes);
        let is_full = self.withheld.len() >= MAX_PORTS;
        let Some(withheld) = self.withheld.get_mut(&from.ip()) else {
            let request = WithheldReply {
                port: from.port(),
                at: now,
                message,
                has_retry: false,
            };
            if !is_full {
                self.withheld.insert(from.ip(), Some(request));
            }
            return !is_full;
        };
        let Some(first) = withheld else {
            return false;
        };
        let waited = now.saturating_sub(first.at);
        if first.port != from.port() {
            // The client may still repeat the first request.
            let is_soon = (MIN_REPEAT..=MAX_OTHER_PORT).contains(&waited);
            first.has_retry |= is_soon && first.message == message;
            return false;
        }
        *withheld = None;
        let seconds = waited.as_secs_f64();
        let problem =
            (waited > MAX_REPEAT).then(|| format!("the next request came after {seconds:.1} s"));
        self.judge(REPEATS, problem);
        false
    }

    /// Returns the server side of a connection. The caller sends its replies in pieces.
    pub fn connection(&self, from: SocketAddr) -> Option<Box<dyn Connection>> {
        self.responder.connection(from)
    }

    /// Judges a connection that has ended. One without a byte is no request: port scans and clients
    /// that measure the latency leave such connections.
    pub fn connection_ended(&mut self, now: Duration, from: SocketAddr, seen: SeenConnection) {
        let Observe::Stream(observe) = self.suite.observe else {
            return;
        };
        if seen.bytes.is_empty() {
            return;
        }
        observe(self, &seen);
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.remove(0);
        }
        self.requests.push(PastRequest {
            at: now,
            from,
            bytes: seen.bytes,
            is_answered: true,
        });
    }

    /// Returns the name of a message.
    fn message(&self, bytes: &[u8]) -> &'static str {
        let mut notes = Notes::discarding();
        let explained = self
            .protocol
            .explain(bytes, DatagramContext::Request, &mut notes);
        explained.map_or("", |explained| explained.message)
    }

    /// Judges a datagram by itself. Returns whether it is a request of the protocol, perhaps a faulty
    /// one.
    fn judge_bytes(&mut self, bytes: &[u8]) -> bool {
        let mut notes = Notes::default();
        let explained = self
            .protocol
            .explain(bytes, DatagramContext::Request, &mut notes);
        let is_request = explained
            .as_ref()
            .is_some_and(|found| found.direction == Direction::Request);
        let problem = match explained {
            None => Some(counted(bytes.len(), "byte") + " of another protocol"),
            Some(found) if found.direction == Direction::Reply => {
                Some(format!("a reply: {}", found.message))
            }
            Some(found) => {
                let judged = self.suite.deviations;
                let is_other =
                    |met: &&Deviation| !judged.iter().any(|judged| judged.name == met.name);
                match (found.error, notes.met().find(is_other)) {
                    (Some(error), _) => Some(format!("{}: {error}", found.message)),
                    (None, Some(met)) => Some(format!("{}: {}", met.name, met.help)),
                    (None, None) => None,
                }
            }
        };
        self.judge(VALID, problem);
        is_request
    }

    fn judge_pace(&mut self, now: Duration, from: SocketAddr, bytes: &[u8]) {
        let recent = |since: Duration| now.saturating_sub(since);
        // After a reply, the same bytes are another query.
        let repeated = self.requests.iter().rev().find(|past| {
            past.from == from
                && past.bytes == bytes
                && !past.is_answered
                && recent(past.at) < MIN_REPEAT
        });
        let second = self.requests.iter().rev();
        let count = second
            .take_while(|past| recent(past.at) < Duration::from_secs(1))
            .filter(|past| past.from.ip() == from.ip())
            .count();
        let problem = if let Some(past) = repeated {
            let ms = recent(past.at).as_millis();
            Some(format!("the same request again after {ms} ms"))
        } else if count >= MAX_PER_SECOND {
            Some(format!("{} requests within a second", count + 1))
        } else {
            None
        };
        self.judge(PACE, problem);
    }
}

/// Returns the status that clients get. Its name has characters of several scripts, and there are
/// enough players for several pages.
pub fn shown_status(protocol: &dyn Protocol) -> Status {
    let mut status = protocol.sample(3);
    let name = Text::unformatted("Zürich ✓ Hailer");
    status.name = Some(name.clone());
    status.motd = Some(name);
    let mut list = status.players.list.clone();
    for number in list.len()..120 {
        list.push(hailer_proto::Player {
            uuid: Some((number as u128 + 1).to_be_bytes()),
            ..hailer_proto::Player::named(Text::unformatted(format!("player_{number}")))
        });
    }
    status.players.online = Some(list.len() as i64);
    status.players.max = Some(200);
    status.players.set_list(list);
    status
}
