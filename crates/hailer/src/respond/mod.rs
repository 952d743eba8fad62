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

pub use budget::{Budget, Purse};

use arc_swap::ArcSwap;
use hailer_proto::{Epoch, Keys, OptionError, Options, Protocol, Responder, Status, Verdict};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::UdpSocket;

/// Longest request taken; every protocol's requests are far shorter, except for an auth token of absurd length.
const MAX_REQUEST: usize = 2_048;

/// Where the current status hangs, as responders. Cheap to clone: all clones are one board.
#[derive(Clone)]
pub struct Board(Arc<Inner>);

struct Inner {
    protocols: Vec<(&'static dyn Protocol, Options)>,
    keys: Keys,
    responders: ArcSwap<Vec<Arc<dyn Responder>>>,
}

impl Board {
    /// A board for these protocols with their default options and fresh random keys.
    pub fn new(protocols: &[&'static dyn Protocol], status: &Status) -> Result<Self, OptionError> {
        let protocols = protocols.iter().map(|&protocol| (protocol, Options::default())).collect();
        Self::with_options(protocols, random_keys(), status)
    }

    /// A board with options for each protocol. Datagrams are offered to the protocols in this order.
    pub fn with_options(
        protocols: Vec<(&'static dyn Protocol, Options)>,
        keys: Keys,
        status: &Status,
    ) -> Result<Self, OptionError> {
        let responders = build(&protocols, &keys, status)?;
        Ok(Self(Arc::new(Inner { protocols, keys, responders: ArcSwap::from_pointee(responders) })))
    }

    /// Replaces the status. Readers never wait: whoever is answering at this moment still uses the old one.
    pub fn publish(&self, status: &Status) -> Result<(), OptionError> {
        let responders = build(&self.0.protocols, &self.0.keys, status)?;
        self.0.responders.store(Arc::new(responders));
        Ok(())
    }
}

fn build(
    protocols: &[(&'static dyn Protocol, Options)],
    keys: &Keys,
    status: &Status,
) -> Result<Vec<Arc<dyn Responder>>, OptionError> {
    protocols.iter().map(|(protocol, options)| protocol.responder(status, keys, options)).collect()
}

/// Keys from the operating system's random source.
///
/// # Panics
/// If there is no random source: without secrets there is no safe way to answer.
pub fn random_keys() -> Keys {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).expect("the operating system has a random source");
    Keys::new(secret)
}

/// Answers datagrams from a board, within a budget. One for each thread or socket.
pub struct Service {
    board: Board,
    purse: Purse,
    started: Instant,
    last_epoch: Epoch,
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
            last_epoch: Epoch(0),
            reply: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The reply to a datagram, if there is to be one.
    pub fn answer(&mut self, from: SocketAddr, bytes: &[u8]) -> Option<&[u8]> {
        self.answer_at(from, bytes, self.started.elapsed(), unix_seconds())
    }

    /// [`Service::answer`] at a time of the caller's: time since any fixed moment, and seconds since 1970.
    pub fn answer_at(&mut self, from: SocketAddr, bytes: &[u8], since: Duration, unix_seconds: u64) -> Option<&[u8]> {
        self.counts.received += 1;
        self.counts.bytes_in += bytes.len() as u64;
        // A clock set back must not bring dead tokens to life.
        self.last_epoch = self.last_epoch.max(Epoch::at(unix_seconds));
        self.reply.clear();
        let responders = self.board.0.responders.load();
        let verdicts = responders.iter().map(|responder| {
            let verdict = responder.answer(from, self.last_epoch, bytes, &mut self.reply);
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

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
