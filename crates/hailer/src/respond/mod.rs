//! Answering for servers.
//!
//! ```text
//!   whoever knows the truth ──► Board::publish(status)      rebuilds the responders, swaps one pointer
//!                                  │
//!   socket ──► Service::answer(from, bytes) ──► reply       loads the pointer, asks each responder, spends the budget
//! ```
//!
//! For a server of its own there is the [`ResponderPool`]: a thread for each core, and a relay to the game behind. From your own
//! socket, in ten lines:
//!
//! ```no_run
//! use hailer::respond::{Board, Budget, Service};
//! use hailer::{Status, Text, registry};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let status = Status { motd: Some(Text::legacy("Hello")), ..Status::default() };
//! let board = Board::new(registry::PROTOCOLS, &status)?;
//! let mut service = Service::new(board.clone(), Budget::default());
//! let socket = std::net::UdpSocket::bind("127.0.0.1:25565")?;
//! let mut buffer = [0; 2048];
//! loop {
//!     let (length, from) = socket.recv_from(&mut buffer)?;
//!     if let Some(reply) = service.answer(from, &buffer[..length]) {
//!         socket.send_to(reply, from)?;
//!     }
//! }
//! # }
//! ```

mod budget;
#[cfg(unix)]
mod engine;
pub mod farm;
mod reason;
#[cfg(unix)]
mod relay;

pub use budget::{Budget, FREE_RATIO, RateLimiter, RemainingBudget, TopTalker};
#[cfg(unix)]
pub use engine::{ListenError, ListenerConfig, ListenerCounts, PoolConfig, ResponderPool};
pub use reason::{REASONS, Reason};

use arc_swap::ArcSwap;
use hailer_proto::{
    Epoch, Keys, OptionError, Options, Protocol, Responder, Status, Transport, Verdict,
};
use hailer_udp::{Outbox, Received};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::UdpSocket;

/// Longest request taken; no protocol's requests are longer than 1,400 bytes.
const MAX_REQUEST: usize = 2_048;

/// Where the current status hangs, as responders. Cheap to clone: all clones are one board.
///
/// A board answers datagrams. It leaves out the protocols of streams, whose responders take a connection for proof.
#[derive(Clone)]
pub struct Board(Arc<Inner>);

struct Inner {
    protocols: Vec<(&'static dyn Protocol, Options)>,
    /// What the responders were built from. Only writers look here.
    truth: Mutex<(Status, Keys)>,
    published: ArcSwap<Published>,
}

/// With the ids of their protocols.
type Responders = Vec<(&'static str, Arc<dyn Responder>)>;

/// What askers see.
struct Published {
    responders: Responders,
    /// Nobody is answered, though queries are known as such.
    is_silent: bool,
}

impl Board {
    /// A board for these protocols with their default options and fresh random keys.
    pub fn new(protocols: &[&'static dyn Protocol], status: &Status) -> Result<Self, OptionError> {
        let protocols = protocols
            .iter()
            .map(|&protocol| (protocol, Options::default()))
            .collect();
        Self::with_options(protocols, Keys::new(random_secret()), status)
    }

    /// A board with options for each protocol. Datagrams are offered to the protocols in this order.
    pub fn with_options(
        mut protocols: Vec<(&'static dyn Protocol, Options)>,
        keys: Keys,
        status: &Status,
    ) -> Result<Self, OptionError> {
        protocols.retain(|(protocol, _)| protocol.info().transport == Transport::Datagram);
        let published = Published {
            responders: build(&protocols, &keys, status)?,
            is_silent: false,
        };
        let truth = Mutex::new((status.clone(), keys));
        Ok(Self(Arc::new(Inner {
            protocols,
            truth,
            published: ArcSwap::from_pointee(published),
        })))
    }

    /// Replaces the status. Readers never wait: whoever is answering at this moment still uses the old one.
    pub fn publish(&self, status: &Status) -> Result<(), OptionError> {
        self.rebuild(false, |truth| truth.0 = status.clone())
    }

    /// Answers nobody until something is published: no truth is known that is new enough.
    pub fn silence(&self) {
        // The responders stay, since they tell queries from what belongs to the game. That they were built once is proof
        // that they can be.
        let _ = self.rebuild(true, |_| ());
    }

    /// Replaces the secret behind the challenge tokens. Those of the old one stay good until the next rotation.
    pub fn rotate(&self, secret: [u8; 16]) -> Result<(), OptionError> {
        self.rebuild(self.0.published.load().is_silent, |truth| {
            truth.1 = truth.1.rotate(secret);
        })
    }

    /// The keys behind the challenge tokens: a board that is made with them accepts the tokens of this one.
    pub fn keys(&self) -> Keys {
        self.0
            .truth
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .clone()
    }

    fn published(&self) -> arc_swap::Guard<Arc<Published>> {
        self.0.published.load()
    }

    fn rebuild(
        &self,
        is_silent: bool,
        change: impl FnOnce(&mut (Status, Keys)),
    ) -> Result<(), OptionError> {
        // A writer that panicked in between left a truth that is whole all the same.
        let mut truth = self.0.truth.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut truth);
        let responders = build(&self.0.protocols, &truth.1, &truth.0)?;
        self.0.published.store(Arc::new(Published {
            responders,
            is_silent,
        }));
        Ok(())
    }
}

fn build(
    protocols: &[(&'static dyn Protocol, Options)],
    keys: &Keys,
    status: &Status,
) -> Result<Responders, OptionError> {
    let build = |(protocol, options): &(&'static dyn Protocol, Options)| {
        Ok((
            protocol.info().id,
            protocol.responder(status, keys, options)?,
        ))
    };
    protocols.iter().map(build).collect()
}

/// A secret from the operating system's random source.
///
/// # Panics
/// If there is no random source: without secrets there is no safe way to answer.
pub fn random_secret() -> [u8; 16] {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).expect("the operating system has a random source");
    secret
}

/// Answers datagrams from a board, within a budget. One for each thread or socket.
pub struct Service {
    board: Board,
    limiter: RateLimiter,
    clock: Clock,
    reply: Vec<u8>,
    counts: Counts,
}

/// What a service did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Datagrams received.
    pub received: u64,
    /// Replies to askers that proved their address.
    pub answered: u64,
    /// Replies to askers that proved nothing: challenges, and all of a protocol without challenges.
    pub unverified: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Datagrams not answered, by [`Reason::name`].
    pub dropped: BTreeMap<&'static str, u64>,
    /// What was done in each protocol that was asked.
    pub by_protocol: Vec<ProtocolCounts>,
    /// Datagrams passed on to a game server.
    pub relayed: u64,
    /// Datagrams of a game server's passed back.
    pub relayed_back: u64,
    /// Sessions with a game server at this moment.
    pub sessions: u64,
    /// Replies that the system would not send.
    pub unsent: u64,
    /// Datagrams for which the system had no room.
    pub overflows: u64,
}

/// What a service did so far in one protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtocolCounts {
    /// Which, as in its `Info`.
    pub id: &'static str,
    /// Datagrams that were in this protocol, answered or not.
    pub requests: u64,
    /// Replies to askers that proved their address.
    pub answered: u64,
    /// Replies to others.
    pub unverified: u64,
}

impl Counts {
    /// Adds what another service did.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.answered += other.answered;
        self.unverified += other.unverified;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
        for (place, of) in other.by_protocol.iter().enumerate() {
            let own = self.of_protocol(place, of.id);
            own.requests += of.requests;
            own.answered += of.answered;
            own.unverified += of.unverified;
        }
        self.relayed += other.relayed;
        self.relayed_back += other.relayed_back;
        self.sessions += other.sessions;
        self.unsent += other.unsent;
        self.overflows += other.overflows;
    }

    /// It is most likely at the place that it has on the board.
    fn of_protocol(&mut self, place: usize, id: &'static str) -> &mut ProtocolCounts {
        let all = &mut self.by_protocol;
        let likely = Some(place).filter(|place| all.get(*place).is_some_and(|of| of.id == id));
        let found = likely.or_else(|| all.iter().position(|of| of.id == id));
        let at = found.unwrap_or_else(|| {
            all.push(ProtocolCounts {
                id,
                requests: 0,
                answered: 0,
                unverified: 0,
            });
            all.len() - 1
        });
        &mut all[at]
    }

    fn drop(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }
}

/// What becomes of a datagram.
enum Judgement {
    /// The reply was appended.
    Reply,
    /// None; the reason is counted.
    Silence,
    /// It is in no protocol served here. The caller counts it.
    Unclaimed,
}

/// Answers a batch, with one look at the board and one at the clock. What is in no protocol served there is the caller's.
fn answer_batch<'a>(
    board: &Board,
    limiter: &mut RateLimiter,
    counts: &mut Counts,
    clock: &Clock,
    batch: impl Iterator<Item = Received<'a>>,
    out: &mut Outbox,
    mut unclaimed: impl FnMut(Received<'a>, Instant, &mut Counts),
) {
    let published = board.published();
    let since = clock.since();
    let (epoch, now) = (clock.epoch(since), clock.started + since);
    for datagram in batch {
        let reply = out.draft();
        match judge(
            &published,
            limiter,
            counts,
            epoch,
            since,
            datagram.from,
            datagram.bytes,
            reply,
        ) {
            Judgement::Reply => drop(out.commit(datagram.from, datagram.to)),
            Judgement::Silence => {}
            Judgement::Unclaimed => unclaimed(datagram, now, counts),
        }
    }
}

/// Asks each responder of a board in turn, and spends the budget.
#[expect(
    clippy::too_many_arguments,
    reason = "all that a datagram depends on, and nothing of it is of one owner"
)]
fn judge(
    published: &Published,
    limiter: &mut RateLimiter,
    counts: &mut Counts,
    epoch: Epoch,
    since: Duration,
    from: SocketAddr,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Judgement {
    counts.received += 1;
    counts.bytes_in += bytes.len() as u64;
    let start = out.len();
    let verdicts = published.responders.iter().map(|(id, responder)| {
        let verdict = responder.answer(from, epoch, bytes, out);
        debug_assert!((out.len() == start) == !matches!(verdict, Verdict::Reply { .. }));
        (*id, verdict)
    });
    let Some((place, (id, verdict))) = verdicts
        .enumerate()
        .find(|(_, (_, verdict))| *verdict != Verdict::Pass)
    else {
        limiter.record_unanswered(from.ip(), bytes.len(), since);
        return Judgement::Unclaimed;
    };
    let of = counts.of_protocol(place, id);
    of.requests += 1;
    let reason = match verdict {
        Verdict::Reply { verified } if !published.is_silent => {
            let length = out.len() - start;
            if limiter.try_spend(from.ip(), bytes.len(), length, verified, since) {
                *if verified {
                    &mut of.answered
                } else {
                    &mut of.unverified
                } += 1;
                *if verified {
                    &mut counts.answered
                } else {
                    &mut counts.unverified
                } += 1;
                counts.bytes_out += length as u64;
                return Judgement::Reply;
            }
            reason::BUDGET.name
        }
        unanswered => {
            limiter.record_unanswered(from.ip(), bytes.len(), since);
            if let Verdict::Drop(reason) = unanswered {
                reason
            } else {
                reason::STALE.name
            }
        }
    };
    out.truncate(start);
    counts.drop(reason);
    Judgement::Silence
}

/// Seconds since 1970 that go on by the monotonic clock: a clock that is set back must not bring dead tokens to life, nor
/// one that jumps ahead stop them from dying.
#[derive(Clone, Copy)]
struct Clock {
    started: Instant,
    started_at: u64,
}

impl Clock {
    fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            started: Instant::now(),
            started_at: since_1970.map_or(0, |since| since.as_secs()),
        }
    }

    fn since(&self) -> Duration {
        self.started.elapsed()
    }

    fn epoch(&self, since: Duration) -> Epoch {
        Epoch::at(self.started_at + since.as_secs())
    }
}

impl Service {
    /// A service.
    pub fn new(board: Board, budget: Budget) -> Self {
        Self {
            board,
            limiter: RateLimiter::new(budget, getrandom::u64().unwrap_or_default()),
            clock: Clock::start(),
            reply: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The reply to a datagram, if there is to be one.
    pub fn answer(&mut self, from: SocketAddr, bytes: &[u8]) -> Option<&[u8]> {
        self.answer_at(from, bytes, self.clock.since())
    }

    /// [`Service::answer`] at a time of the caller's, counted from the start of the service.
    pub fn answer_at(&mut self, from: SocketAddr, bytes: &[u8], since: Duration) -> Option<&[u8]> {
        let Self {
            board,
            limiter,
            clock,
            reply,
            counts,
        } = self;
        reply.clear();
        match judge(
            &board.published(),
            limiter,
            counts,
            clock.epoch(since),
            since,
            from,
            bytes,
            reply,
        ) {
            Judgement::Reply => Some(reply),
            Judgement::Silence => None,
            Judgement::Unclaimed => {
                counts.drop(reason::NO_QUERY.name);
                None
            }
        }
    }

    /// Answers a batch as the worker of an engine does: the replies are added to the outbox.
    pub fn answer_batch<'a>(
        &mut self,
        batch: impl Iterator<Item = Received<'a>>,
        out: &mut Outbox,
    ) {
        let Self {
            board,
            limiter,
            clock,
            counts,
            ..
        } = self;
        answer_batch(board, limiter, counts, clock, batch, out, |_, _, counts| {
            counts.drop(reason::NO_QUERY.name);
        });
    }

    /// What it did so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Answers what comes to a socket until the future is dropped. No datagram ends it.
    pub async fn run(&mut self, socket: &UdpSocket) {
        let mut buffer = [0; MAX_REQUEST];
        loop {
            match socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    if let Some(reply) = self.answer(from, &buffer[..length]) {
                        // A reply that cannot be sent is a reply lost on the way; the asker asks again.
                        let _ = socket.send_to(reply, from).await;
                    }
                }
                // Errors of single datagrams (ICMP) and passing shortages of the system; never a reason to stop, nor
                // to spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::minecraft_query::MinecraftQuery;

    const HANDSHAKE: &[u8] = b"\xFE\xFD\x09\x01\x02\x03\x04";

    /// Whether a token got at one time is good at another.
    fn is_good(service: &mut Service, token: &[u8], since: u64) -> bool {
        let number: i32 = std::str::from_utf8(&token[5..token.len() - 1])
            .unwrap()
            .parse()
            .unwrap();
        let request = [b"\xFE\xFD\x00\x01\x02\x03\x04", &number.to_be_bytes()[..]].concat();
        service
            .answer_at(
                "192.0.2.7:50000".parse().unwrap(),
                &request,
                Duration::from_secs(since),
            )
            .is_some()
    }

    fn token(service: &mut Service, since: u64) -> Vec<u8> {
        let from = "192.0.2.7:50000".parse().unwrap();
        service
            .answer_at(from, HANDSHAKE, Duration::from_secs(since))
            .unwrap()
            .to_vec()
    }

    #[test]
    fn tokens_die_with_time_and_with_the_second_rotation() {
        let board = Board::new(&[&MinecraftQuery], &Status::default()).unwrap();
        let mut service = Service::new(board.clone(), Budget::default());
        let first = token(&mut service, 0);
        assert!(is_good(&mut service, &first, 29));
        assert!(!is_good(&mut service, &first, 60));

        let second = token(&mut service, 600);
        board.rotate([1; 16]).unwrap();
        assert!(is_good(&mut service, &second, 600));
        board.publish(&Status::default()).unwrap();
        assert!(
            is_good(&mut service, &second, 600),
            "a new status keeps the keys"
        );
        board.rotate([2; 16]).unwrap();
        assert!(!is_good(&mut service, &second, 600));
    }
}
