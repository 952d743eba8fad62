//! Responders: publish a status, and answer queries for it.
//!
//! ```text
//!   status source ──► Board::publish(status)            builds the responders, swaps one pointer
//!                        │
//!   socket ──► Service::answer(from, bytes) ──► reply   tries each responder, charges the budget
//! ```
//!
//! A [`ResponderPool`] runs a responder for a whole server: a thread for each core, one for
//! connections, and a relay to the game server. For a datagram socket of your own, use a
//! [`Service`]:
//!
//! ```no_run
//! use hailer::respond::{Board, Budget, Service};
//! use hailer::{Status, Text, registry};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let status = Status { motd: Some(Text::legacy("Hello")), ..Status::default() };
//! let board = Board::new(&registry::responders(), &status)?;
//! let mut service = Service::new(board.clone(), Budget::default());
//! let socket = std::net::UdpSocket::bind("127.0.0.1:25565")?;
//! let mut buffer = [0; 2048];
//! loop {
//!     let (length, from) = socket.recv_from(&mut buffer)?;
//!     for reply in service.answer(from, &buffer[..length]) {
//!         socket.send_to(reply, from)?;
//!     }
//! }
//! # }
//! ```
//!
//! Datagrams are read up to 2,048 bytes. Replies to them are limited by a [`Budget`], and
//! connections by [`ConnectionLimits`](crate::listen::ConnectionLimits).

mod bucket;
mod budget;
#[cfg(unix)]
mod engine;
pub mod farm;
mod reason;
#[cfg(unix)]
mod relay;
#[cfg(unix)]
mod stream;
#[cfg(test)]
mod week;

pub use budget::{
    Budget, FREE_RATIO, HEADER_BYTES, RateLimiter, RemainingBudget, TopTalker, is_free,
};
#[cfg(unix)]
pub use engine::{ListenError, ListenerConfig, ListenerCounts, PoolConfig, ResponderPool};
pub use reason::{REASONS, Reason};
#[cfg(unix)]
pub use relay::RelayVerification;

use arc_swap::{ArcSwap, ArcSwapOption};
use budget::Trust;
use hailer_proto::model::Extra;
use hailer_proto::protocol::JoinAttempt;
use hailer_proto::{
    Epoch, Keys, OptionError, Options, Protocol, Responder, Status, Transport, Verdict,
};
use hailer_udp::{Outbox, Received};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::UdpSocket;

/// Longest request read. No protocol has requests of more than 1,400 bytes.
const MAX_REQUEST: usize = 2_048;
/// Largest number of datagrams of one reply.
const MAX_REPLY_DATAGRAMS: usize = 256;

/// The current status, as responders. Cheap to clone: all clones are one board.
///
/// A board may have datagram and stream protocols. A [`ResponderPool`] answers both, a [`Service`]
/// datagrams.
#[derive(Clone)]
pub struct Board(Arc<Inner>);

struct Inner {
    protocols: Vec<(&'static dyn Protocol, Options)>,
    /// Status and keys of the responders. Only writers lock it.
    source: Mutex<(Status, Keys)>,
    published: ArcSwap<Published>,
    join_hook: ArcSwapOption<JoinHook>,
}

/// Called for each attempt to join the game.
struct JoinHook(Box<JoinCallback>);

/// Gets the client's address and the attempt.
type JoinCallback = dyn Fn(SocketAddr, &JoinAttempt) + Send + Sync;

/// Responders, with the ids of their protocols.
type Responders = Vec<(&'static str, Arc<dyn Responder>)>;

/// Responders by transport: datagrams, streams.
type ByTransport = (Responders, Responders);

/// Published state, which readers share.
struct Published {
    /// Responders of datagram protocols.
    responders: Responders,
    /// Responders of stream protocols.
    streams: Responders,
    /// Whether queries are recognized but not answered.
    is_silent: bool,
}

impl Board {
    /// Creates a board for these protocols, with their default options and new random keys.
    ///
    /// # Errors
    /// A protocol cannot build a responder for the status.
    pub fn new(protocols: &[&'static dyn Protocol], status: &Status) -> Result<Self, OptionError> {
        let protocols = protocols
            .iter()
            .map(|&protocol| (protocol, Options::default()))
            .collect();
        Self::with_options(protocols, Keys::new(random_secret()), status)
    }

    /// Creates a board with options for each protocol. Datagrams and connections are offered to
    /// the protocols in this order.
    ///
    /// # Errors
    /// A protocol rejects its options.
    pub fn with_options(
        protocols: Vec<(&'static dyn Protocol, Options)>,
        keys: Keys,
        status: &Status,
    ) -> Result<Self, OptionError> {
        let (responders, streams) = build(&protocols, &keys, status)?;
        let published = Published {
            responders,
            streams,
            is_silent: false,
        };
        let source = Mutex::new((status.clone(), keys));
        Ok(Self(Arc::new(Inner {
            protocols,
            source,
            published: ArcSwap::from_pointee(published),
            join_hook: ArcSwapOption::empty(),
        })))
    }

    /// Replaces the status. Readers never wait: a reply in progress still uses the old status.
    ///
    /// # Errors
    /// A protocol cannot build a responder for the status. The old status stays.
    pub fn publish(&self, status: &Status) -> Result<(), OptionError> {
        self.rebuild(false, |source| source.0 = status.clone())
    }

    /// Stops answering until the next status is published, for example because the last one is too
    /// old.
    pub fn silence(&self) {
        // The responders stay, because they distinguish queries from game traffic. They were built
        // from this status before, so this cannot fail.
        let _ = self.rebuild(true, |_| ());
    }

    /// Returns the description of the current status, or its name if it has none. `None` while the
    /// board is silent.
    pub fn motd(&self) -> Option<String> {
        if self.published().is_silent {
            return None;
        }
        let source = self.lock();
        let text = source.0.motd.as_ref().or(source.0.name.as_ref());
        Some(text.map(|text| text.raw().to_owned()).unwrap_or_default())
    }

    /// Replaces the secret of the challenge tokens. Tokens of the old secret stay valid until the
    /// next rotation.
    ///
    /// # Errors
    /// A protocol cannot build a responder with the new keys.
    pub fn rotate(&self, secret: [u8; 16]) -> Result<(), OptionError> {
        self.rebuild(self.0.published.load().is_silent, |source| {
            source.1 = source.1.rotate(secret);
        })
    }

    /// Calls a function for each attempt to join the game on a connection, for protocols that
    /// [report them](hailer_proto::Connection::join_attempt), also while the board is silent. It
    /// runs on the thread of all connections, so it must not block. Clients choose number and
    /// content of the attempts.
    pub fn on_join(&self, hook: impl Fn(SocketAddr, &JoinAttempt) + Send + Sync + 'static) {
        self.0
            .join_hook
            .store(Some(Arc::new(JoinHook(Box::new(hook)))));
    }

    /// Returns the keys of the challenge tokens. A board with the same keys accepts the tokens of
    /// this one.
    pub fn keys(&self) -> Keys {
        self.lock().1.clone()
    }

    /// Returns whether the board has a protocol of this transport.
    pub fn has(&self, transport: Transport) -> bool {
        let mut protocols = self.0.protocols.iter();
        protocols.any(|(protocol, _)| protocol.info().transport == transport)
    }

    /// Returns whether it answers connections.
    pub fn has_connections(&self) -> bool {
        self.has(Transport::Stream) || self.has(Transport::Http)
    }

    fn published(&self) -> arc_swap::Guard<Arc<Published>> {
        self.0.published.load()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Status, Keys)> {
        // A panicked writer leaves complete data.
        self.0.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rebuild(
        &self,
        is_silent: bool,
        change: impl FnOnce(&mut (Status, Keys)),
    ) -> Result<(), OptionError> {
        let mut source = self.lock();
        change(&mut source);
        let (responders, streams) = build(&self.0.protocols, &source.1, &source.0)?;
        self.0.published.store(Arc::new(Published {
            responders,
            streams,
            is_silent,
        }));
        Ok(())
    }
}

fn build(
    protocols: &[(&'static dyn Protocol, Options)],
    keys: &Keys,
    status: &Status,
) -> Result<ByTransport, OptionError> {
    let (mut responders, mut streams) = ByTransport::default();
    // Responders read no clock.
    let mut status = Cow::Borrowed(status);
    if status.extra("start").is_none() && protocols.iter().any(|(of, _)| of.info().id == "starmade")
    {
        status
            .to_mut()
            .extra
            .push(Extra::new("start", started_ms()));
    }
    let status = &*status;
    for (protocol, options) in protocols {
        let info = protocol.info();
        let responder = protocol.responder(status, keys, options)?;
        match info.transport {
            Transport::Datagram => responders.push((info.id, responder)),
            Transport::Stream | Transport::Http => streams.push((info.id, responder)),
        }
    }
    Ok((responders, streams))
}

/// Returns the start of the first board of this process, in Unix milliseconds.
fn started_ms() -> i64 {
    static STARTED: OnceLock<i64> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since_1970.map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    })
}

/// Returns a secret from the operating system's random source.
///
/// # Panics
/// The system has no random source. Without secrets, challenges would not be safe.
pub fn random_secret() -> [u8; 16] {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).expect("the operating system has a random source");
    secret
}

/// Answers datagrams from a board, within a budget. Use one per thread or socket.
pub struct Service {
    board: Board,
    limiter: RateLimiter,
    clock: EpochClock,
    /// Datagrams of the last reply.
    replies: Outbox,
    counts: Counts,
}

/// Counters of a service since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Number of datagrams received.
    pub received: u64,
    /// Number of connections accepted.
    pub connections: u64,
    /// Connections that are open now.
    pub open_connections: u64,
    /// Attempts to join the game.
    pub join_attempts: u64,
    /// Datagrams to verified sources, and connections with a reply.
    pub answered: u64,
    /// Replies to unverified sources: challenges, and every reply of a protocol without challenges.
    pub unverified: u64,
    /// Bytes of UDP and TCP payload received.
    pub bytes_in: u64,
    /// Bytes of UDP and TCP payload sent, without those of relays.
    pub bytes_out: u64,
    /// Datagrams dropped, and connections that ended without a reply, by [`Reason::name`].
    pub dropped: BTreeMap<&'static str, u64>,
    /// Counters by protocol, without protocols that got no request.
    pub by_protocol: Vec<ProtocolCounts>,
    /// Datagrams forwarded to a game server.
    pub relayed: u64,
    /// Datagrams of a game server that were passed back.
    pub relayed_back: u64,
    /// Open sessions with a game server.
    pub sessions: u64,
    /// Replies that the system did not send.
    pub unsent: u64,
    /// Datagrams that the system dropped because the receive queue was full.
    pub overflows: u64,
}

/// Counters of a service for one protocol, since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtocolCounts {
    /// Id of the protocol, as in its `Info`.
    pub id: &'static str,
    /// Requests received, answered or not. For stream protocols: connections.
    pub requests: u64,
    /// Replies to verified sources. For stream protocols: connections with a reply.
    pub answered: u64,
    /// Replies to unverified sources.
    pub unverified: u64,
}

impl Counts {
    /// Adds the counters of another service.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.connections += other.connections;
        self.open_connections += other.open_connections;
        self.join_attempts += other.join_attempts;
        self.answered += other.answered;
        self.unverified += other.unverified;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
        for (index, of) in other.by_protocol.iter().enumerate() {
            let own = self.of_protocol(index, of.id);
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

    /// Returns the counters of a protocol. `index` is its position on the board, where its counters
    /// usually are.
    fn of_protocol(&mut self, index: usize, id: &'static str) -> &mut ProtocolCounts {
        let all = &mut self.by_protocol;
        let likely = Some(index).filter(|index| all.get(*index).is_some_and(|of| of.id == id));
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

/// Decision on a datagram.
enum DatagramVerdict<'a> {
    /// Send the reply, which was appended. With a responder, the reply may have more datagrams. The
    /// flag is true if the request is verified.
    Reply(Option<(&'a dyn Responder, bool)>),
    /// Send nothing; the reason is counted.
    Silence,
    /// No protocol of the board claims it. The caller counts it.
    Unclaimed,
}

/// Time of a batch.
#[derive(Clone, Copy)]
struct Moment {
    epoch: Epoch,
    /// Time since the start of the clock, for the rate limiter.
    since: Duration,
    now: Instant,
}

/// Answers a batch, and reads the board and the clock once for it. Passes datagrams that no
/// protocol claims to `unclaimed`.
fn answer_batch<'a>(
    board: &Board,
    limiter: &mut RateLimiter,
    counts: &mut Counts,
    clock: &EpochClock,
    batch: impl Iterator<Item = Received<'a>>,
    out: &mut Outbox,
    mut unclaimed: impl FnMut(Received<'a>, Instant, &mut Counts),
) {
    let published = board.published();
    let moment = clock.moment(clock.since());
    for datagram in batch {
        match judge(&published, limiter, counts, moment, &datagram, out.draft()) {
            DatagramVerdict::Reply(responder) => {
                out.commit(datagram.from, datagram.to);
                if let Some(responder) = responder {
                    continue_reply(responder, limiter, counts, moment, &datagram, out);
                }
            }
            DatagramVerdict::Silence => {}
            DatagramVerdict::Unclaimed => unclaimed(datagram, moment.now, counts),
        }
    }
}

/// Appends the further datagrams of a reply, as far as the budget allows.
fn continue_reply(
    (responder, is_verified): (&dyn Responder, bool),
    limiter: &mut RateLimiter,
    counts: &mut Counts,
    moment: Moment,
    datagram: &Received<'_>,
    out: &mut Outbox,
) {
    for index in 1..MAX_REPLY_DATAGRAMS {
        let draft = out.draft();
        let start = draft.len();
        if !responder.continuation(datagram.bytes, is_verified, index, draft) {
            break;
        }
        let length = draft.len() - start;
        let to = datagram.from.ip();
        // Only the first datagram may be exempt from the budget for all unverified sources.
        let trust = if is_verified {
            Trust::Verified
        } else {
            Trust::Unverified
        };
        if !limiter.try_spend_more(to, 0, length, trust, moment.since) {
            counts.drop(reason::BUDGET.name);
            break;
        }
        counts.bytes_out += length as u64;
        out.commit(datagram.from, datagram.to);
    }
}

/// Tries each responder of a board in turn, and charges the reply to the budget. A reply that is
/// over the budget is replaced by the protocol's short reply, if it has one.
fn judge<'p>(
    published: &'p Published,
    limiter: &mut RateLimiter,
    counts: &mut Counts,
    moment: Moment,
    datagram: &Received<'_>,
    out: &mut Vec<u8>,
) -> DatagramVerdict<'p> {
    let from = datagram.from;
    let bytes = datagram.bytes;
    let since = moment.since;
    counts.received += 1;
    counts.bytes_in += bytes.len() as u64;
    let start = out.len();
    let mut claimed = None;
    for (index, (id, responder)) in published.responders.iter().enumerate() {
        let verdict = responder.answer(from, moment.epoch, bytes, out);
        debug_assert!((out.len() == start) == !matches!(verdict, Verdict::Reply { .. }));
        if verdict != Verdict::Pass {
            claimed = Some((index, *id, responder, verdict));
            break;
        }
    }
    let Some((index, id, responder, verdict)) = claimed else {
        limiter.record_unanswered(from.ip(), bytes.len(), since);
        return DatagramVerdict::Unclaimed;
    };
    let of = counts.of_protocol(index, id);
    of.requests += 1;
    let reason = match verdict {
        Verdict::Reply { is_verified } if !published.is_silent => {
            let length = out.len() - start;
            let mut is_paid = limiter.try_spend(from.ip(), bytes.len(), length, is_verified, since);
            let is_whole = is_paid;
            if !is_paid && !is_verified {
                out.truncate(start);
                if responder.short_reply(bytes, out) {
                    let length = out.len() - start;
                    let trust = Trust::Unverified;
                    is_paid = limiter.try_spend_more(from.ip(), bytes.len(), length, trust, since);
                }
            }
            if is_paid {
                if is_verified {
                    of.answered += 1;
                    counts.answered += 1;
                } else {
                    of.unverified += 1;
                    counts.unverified += 1;
                }
                counts.bytes_out += (out.len() - start) as u64;
                let more = is_whole.then_some((&**responder, is_verified));
                return DatagramVerdict::Reply(more);
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
    DatagramVerdict::Silence
}

/// Clock of seconds since 1970, advanced by the monotonic clock. If the system clock is set back,
/// expired tokens stay expired; if it jumps ahead, tokens still expire.
#[derive(Clone, Copy)]
struct EpochClock {
    /// Tests can stop this clock.
    started: tokio::time::Instant,
    started_at: u64,
}

impl EpochClock {
    fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            started: tokio::time::Instant::now(),
            started_at: since_1970.map_or(0, |since| since.as_secs()),
        }
    }

    fn since(&self) -> Duration {
        self.started.elapsed()
    }

    fn moment(&self, since: Duration) -> Moment {
        Moment {
            epoch: Epoch::at(self.started_at + since.as_secs()),
            since,
            now: self.started.into_std() + since,
        }
    }
}

impl Service {
    /// Creates a service that answers from `board`.
    pub fn new(board: Board, budget: Budget) -> Self {
        Self {
            board,
            limiter: RateLimiter::new(budget, getrandom::u64().unwrap_or_default()),
            clock: EpochClock::start(),
            replies: Outbox::new(),
            counts: Counts::default(),
        }
    }

    /// Returns the datagrams of the reply to a datagram; none if it gets no reply.
    pub fn answer(&mut self, from: SocketAddr, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.answer_at(from, bytes, self.clock.since())
    }

    /// Answers like [`Service::answer`], at a time given by the caller, counted from the start of
    /// the service.
    pub fn answer_at(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        since: Duration,
    ) -> impl Iterator<Item = &[u8]> {
        let datagram = Received {
            from,
            to: None,
            waited: None,
            bytes,
        };
        self.replies.clear();
        let published = self.board.published();
        let moment = self.clock.moment(since);
        let limiter = &mut self.limiter;
        let counts = &mut self.counts;
        let draft = self.replies.draft();
        match judge(&published, limiter, counts, moment, &datagram, draft) {
            DatagramVerdict::Reply(responder) => {
                self.replies.commit(from, None);
                if let Some(responder) = responder {
                    let replies = &mut self.replies;
                    continue_reply(responder, limiter, counts, moment, &datagram, replies);
                }
            }
            DatagramVerdict::Silence => {}
            DatagramVerdict::Unclaimed => self.counts.drop(reason::NO_QUERY.name),
        }
        self.replies.pending().map(|(_, _, reply)| reply)
    }

    /// Answers a batch as a worker of a [`ResponderPool`] does: appends the replies to the outbox.
    pub fn answer_batch<'a>(
        &mut self,
        batch: impl Iterator<Item = Received<'a>>,
        out: &mut Outbox,
    ) {
        answer_batch(
            &self.board,
            &mut self.limiter,
            &mut self.counts,
            &self.clock,
            batch,
            out,
            |_, _, counts| counts.drop(reason::NO_QUERY.name),
        );
    }

    /// Returns the counters since the start.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Answers datagrams from a socket until the future is dropped. Errors of the socket do not end
    /// it.
    pub async fn run(&mut self, socket: &UdpSocket) {
        let mut buffer = [0; MAX_REQUEST];
        loop {
            match socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    for reply in self.answer(from, &buffer[..length]) {
                        // A reply that cannot be sent counts as lost; the client retries.
                        let _ = socket.send_to(reply, from).await;
                    }
                }
                // ICMP errors of single datagrams, and temporary resource shortages: pause, to
                // avoid a busy loop.
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::minecraft_query::MinecraftQuery;
    use hailer_proto::starmade;
    use hailer_proto::wire::{Notes, Reader};

    const HANDSHAKE: &[u8] = b"\xFE\xFD\x09\x01\x02\x03\x04";

    /// Returns whether a token is valid `since` seconds after the start.
    fn is_valid(service: &mut Service, token: &[u8], since: u64) -> bool {
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
            .next()
            .is_some()
    }

    fn token(service: &mut Service, since: u64) -> Vec<u8> {
        let from = "192.0.2.7:50000".parse().unwrap();
        service
            .answer_at(from, HANDSHAKE, Duration::from_secs(since))
            .next()
            .unwrap()
            .to_vec()
    }

    #[test]
    fn starmade_has_the_start_of_the_process() {
        let start = |status: &Status| {
            let protocols: [(&'static dyn Protocol, Options); 1] =
                [(&starmade::PROTOCOL, Options::default())];
            let (_, streams) = build(&protocols, &Keys::new([7; 16]), status).unwrap();
            let from = "192.0.2.7:50000".parse().unwrap();
            let mut connection = streams[0].1.connection(from).unwrap();
            let mut out = Vec::new();
            connection.receive(Epoch(1), starmade::REQUEST, &mut out);
            let mut read = Status::default();
            let mut notes = Notes::default();
            (starmade::PROTOCOL.read)(&mut Reader::new(&out, &mut notes), &mut read).unwrap();
            read.extra("start").cloned()
        };
        assert_eq!(start(&Status::default()), Some(started_ms().into()));
        assert!(started_ms() > 1_700_000_000_000);
        let configured = Status {
            extra: vec![Extra::new("start", 1_424_912_312_704)],
            ..Status::default()
        };
        assert_eq!(start(&configured), Some(1_424_912_312_704_i64.into()));
    }

    #[test]
    fn tokens_expire_with_time_and_with_the_second_rotation() {
        let board = Board::new(&[&MinecraftQuery], &Status::default()).unwrap();
        let mut service = Service::new(board.clone(), Budget::default());
        let first = token(&mut service, 0);
        assert!(is_valid(&mut service, &first, 29));
        assert!(!is_valid(&mut service, &first, 60));

        let second = token(&mut service, 600);
        board.rotate([1; 16]).unwrap();
        assert!(is_valid(&mut service, &second, 600));
        board.publish(&Status::default()).unwrap();
        assert!(
            is_valid(&mut service, &second, 600),
            "a new status keeps the keys"
        );
        board.rotate([2; 16]).unwrap();
        assert!(!is_valid(&mut service, &second, 600));
    }
}
