//! Answering for servers.
//!
//! ```text
//!   whoever knows the truth ──► Board::publish(status)      rebuilds the responders, swaps one pointer
//!                                  │
//!   socket ──► Service::answer(from, bytes) ──► reply       loads the pointer, asks each responder, spends the budget
//! ```
//!
//! From your own socket, in ten lines:
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
pub mod farm;

pub use budget::{Budget, Purse};

use arc_swap::ArcSwap;
use hailer_proto::{Epoch, Keys, OptionError, Options, Protocol, Responder, Status, Transport, Verdict};
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
    truth: Mutex<(Option<Status>, Keys)>,
    responders: ArcSwap<Vec<Arc<dyn Responder>>>,
}

impl Board {
    /// A board for these protocols with their default options and fresh random keys.
    pub fn new(protocols: &[&'static dyn Protocol], status: &Status) -> Result<Self, OptionError> {
        let protocols = protocols.iter().map(|&protocol| (protocol, Options::default())).collect();
        Self::with_options(protocols, Keys::new(random_secret()), status)
    }

    /// A board with options for each protocol. Datagrams are offered to the protocols in this order.
    pub fn with_options(
        mut protocols: Vec<(&'static dyn Protocol, Options)>,
        keys: Keys,
        status: &Status,
    ) -> Result<Self, OptionError> {
        protocols.retain(|(protocol, _)| protocol.info().transport == Transport::Datagram);
        let responders = build(&protocols, &keys, Some(status))?;
        let truth = Mutex::new((Some(status.clone()), keys));
        Ok(Self(Arc::new(Inner { protocols, truth, responders: ArcSwap::from_pointee(responders) })))
    }

    /// Replaces the status. Readers never wait: whoever is answering at this moment still uses the old one.
    pub fn publish(&self, status: &Status) -> Result<(), OptionError> {
        self.rebuild(|truth| truth.0 = Some(status.clone()))
    }

    /// Answers nobody until the next status is published.
    pub fn silence(&self) -> Result<(), OptionError> {
        self.rebuild(|truth| truth.0 = None)
    }

    /// Replaces the secret behind the challenge tokens. Those of the old one stay good until the next rotation.
    pub fn rotate(&self, secret: [u8; 16]) -> Result<(), OptionError> {
        self.rebuild(|truth| truth.1 = truth.1.rotate(secret))
    }

    fn rebuild(&self, change: impl FnOnce(&mut (Option<Status>, Keys))) -> Result<(), OptionError> {
        // A writer that panicked in between left a truth that is whole all the same.
        let mut truth = self.0.truth.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut truth);
        let responders = build(&self.0.protocols, &truth.1, truth.0.as_ref())?;
        self.0.responders.store(Arc::new(responders));
        Ok(())
    }
}

fn build(
    protocols: &[(&'static dyn Protocol, Options)],
    keys: &Keys,
    status: Option<&Status>,
) -> Result<Vec<Arc<dyn Responder>>, OptionError> {
    let Some(status) = status else { return Ok(Vec::new()) };
    protocols.iter().map(|(protocol, options)| protocol.responder(status, keys, options)).collect()
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
    purse: Purse,
    started: Instant,
    /// Seconds since 1970 at the start. Epochs go on from there by the monotonic clock: one that is set back must not
    /// bring dead tokens to life, nor one that jumps ahead stop them from dying.
    started_at: u64,
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
    pub unproven: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Datagrams not answered, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Adds what another service did.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.answered += other.answered;
        self.unproven += other.unproven;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
    }
}

impl Service {
    /// A service.
    pub fn new(board: Board, budget: Budget) -> Self {
        Self {
            board,
            purse: Purse::new(budget, getrandom::u64().unwrap_or_default()),
            started: Instant::now(),
            started_at: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            reply: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The reply to a datagram, if there is to be one.
    pub fn answer(&mut self, from: SocketAddr, bytes: &[u8]) -> Option<&[u8]> {
        self.answer_at(from, bytes, self.started.elapsed())
    }

    /// [`Service::answer`] at a time of the caller's, counted from the start of the service.
    pub fn answer_at(&mut self, from: SocketAddr, bytes: &[u8], since: Duration) -> Option<&[u8]> {
        self.counts.received += 1;
        self.counts.bytes_in += bytes.len() as u64;
        let epoch = Epoch::at(self.started_at + since.as_secs());
        self.reply.clear();
        let responders = self.board.0.responders.load();
        let verdicts = responders.iter().map(|responder| {
            let verdict = responder.answer(from, epoch, bytes, &mut self.reply);
            debug_assert!(self.reply.is_empty() == !matches!(verdict, Verdict::Reply { .. }));
            verdict
        });
        let verdict = verdicts.into_iter().find(|verdict| *verdict != Verdict::Pass).unwrap_or(Verdict::Pass);
        let reason = match verdict {
            Verdict::Reply { proven } if !self.purse.spend(from.ip(), self.reply.len(), proven, since) => "budget",
            Verdict::Reply { proven } => {
                *if proven { &mut self.counts.answered } else { &mut self.counts.unproven } += 1;
                self.counts.bytes_out += self.reply.len() as u64;
                return Some(&self.reply);
            }
            Verdict::Drop(reason) => reason,
            Verdict::Pass => "no query",
        };
        *self.counts.dropped.entry(reason).or_default() += 1;
        None
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
        let number: i32 = std::str::from_utf8(&token[5..token.len() - 1]).unwrap().parse().unwrap();
        let request = [b"\xFE\xFD\x00\x01\x02\x03\x04", &number.to_be_bytes()[..]].concat();
        service.answer_at("192.0.2.7:50000".parse().unwrap(), &request, Duration::from_secs(since)).is_some()
    }

    fn token(service: &mut Service, since: u64) -> Vec<u8> {
        let from = "192.0.2.7:50000".parse().unwrap();
        service.answer_at(from, HANDSHAKE, Duration::from_secs(since)).unwrap().to_vec()
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
        assert!(is_good(&mut service, &second, 600), "a new status keeps the keys");
        board.rotate([2; 16]).unwrap();
        assert!(!is_good(&mut service, &second, 600));
    }
}
