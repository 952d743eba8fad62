//! The sweep: many servers, asked at a pace, from one thread and one socket for each address family.
//!
//! ```text
//!   ProbeSource ──► SweepEngine ──► Outbox ──► socket          index ─► target ─► cookie ─► first datagram
//!   targets    engine     hailer-udp                 nothing is kept of it but tries and a time
//!                │
//!   Sink   ◄── ProbeResult   ◄── SweepEngine ◄── Inbox ◄── socket          reply ─► target ─► cookie ─► exchange ─► status
//! ```

mod engine;
mod exclude;
mod flight;
mod list;
mod lookups;
mod order;
mod pace;
mod services;
mod stream;
mod targets;
mod window;
mod worker;

pub use engine::{Outboxes, SweepEngine};
pub use exclude::Exclusions;
pub use list::{ListSource, SourceConfig};
pub use order::{Order, Shard, ShardError};
pub use pace::{PrefixLimiter, Throttle};
pub use stream::StreamSource;
pub use targets::{Collector, Item, ListError, Name, Skipped, Targets};
pub use worker::run;

use crate::client::Answer;
use crate::drive::QueryLimits;
use crate::error::Error;
use hailer_proto::{Ask, Protocol};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// One question of a sweep: to one address, in one protocol.
#[derive(Clone)]
pub struct Probe {
    /// Its place in the order of the sweep: what a checkpoint remembers of it.
    pub index: u64,
    /// Whom to ask.
    pub address: SocketAddr,
    /// In which protocol.
    pub protocol: &'static dyn Protocol,
    /// The target as it was typed, if that was a name; else the address says all.
    pub name: Option<Arc<str>>,
}

/// What a source has next.
pub enum Next {
    /// A question.
    Probe(Probe),
    /// A target that cannot be asked: its name has no address.
    Failed {
        /// Its place in the order of the sweep.
        index: u64,
        /// The target as it was typed.
        target: Arc<str>,
        /// Why.
        error: Error,
    },
    /// A probe of a target whose failure another index reports, as [`Next::Failed`].
    Repeat {
        /// Its place in the order of the sweep.
        index: u64,
    },
    /// Nothing yet: names are being looked up, or whoever writes the list is slow.
    Pending,
    /// No more.
    Done,
}

/// Where a sweep gets its questions from. Each index is given once.
pub trait ProbeSource {
    /// The next question. Never blocks.
    fn next(&mut self) -> Next;

    /// After [`Next::Pending`]: when to ask again.
    fn retry_after(&self) -> Duration {
        Duration::from_millis(5)
    }

    /// How many questions there are in all, those before a checkpoint included, if that is known.
    fn total(&self) -> Option<u64>;

    /// Where it is: `next` is above every index that it gave, and those below that it has not given yet, but will, are
    /// unfinished. With what is in flight, that is where the sweep is. A source that gives its indices in ascending
    /// order, from 0, may leave this to the sweep.
    fn position(&self) -> Position {
        Position::default()
    }
}

/// How far a sweep has come: every index below `next` that the source gave is finished, but for those listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// No index from here on was given.
    pub next: u64,
    /// Indices below `next` that have no end yet, ascending.
    pub unfinished: Vec<u64>,
}

/// What came of one question.
pub struct ProbeResult {
    /// Its place in the order of the sweep.
    pub index: u64,
    /// The target as it was typed, if that was a name.
    pub name: Option<Arc<str>>,
    /// The answer, or why there is none.
    pub result: Result<Answer, Error>,
}

/// Where a sweep puts its answers.
pub trait Sink {
    /// Takes the result of a probe. Called once for each index that is no [`Next::Repeat`].
    fn record(&mut self, result: ProbeResult);

    /// Whether it cannot take more for now. The sweep then asks nobody new, and still hears those asked.
    fn is_full(&self) -> bool {
        false
    }

    /// Called some ten times in a second, and once at the very end.
    fn report_progress(&mut self, progress: &Progress<'_>);

    /// Whether to stop: asked often. `true` once is enough; the sweep then asks nobody new and forgets those asked.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// How a sweep is doing.
pub struct Progress<'a> {
    /// What happened so far.
    pub counts: &'a Counts,
    /// Questions in all, if that is known.
    pub total: Option<u64>,
    /// Questions without an end.
    pub in_flight: usize,
    /// How far it has come, for a checkpoint; costs a walk over what is in flight.
    pub position: &'a dyn Fn() -> Position,
}

/// What a sweep did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Questions begun.
    pub probes: u64,
    /// Ended with an answer.
    pub answered: u64,
    /// Ended by silence.
    pub timed_out: u64,
    /// Ended by the word that nothing listens there.
    pub port_closed: u64,
    /// Ended because the network cannot reach the host, or the system does not send there.
    pub unreachable: u64,
    /// Ended with an answer that is malformed, refused, too long or against the rules.
    pub invalid: u64,
    /// Names without an address.
    pub unresolved: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bytes of payload sent.
    pub bytes_sent: u64,
    /// Datagrams heard.
    pub datagrams_received: u64,
    /// Bytes of payload heard.
    pub bytes_received: u64,
    /// Datagrams sent again because nothing came.
    pub datagrams_resent: u64,
    /// Of those, so many to servers that stayed silent.
    pub resent_in_vain: u64,
    /// Of those sent again, so many because our own receive queue overflowed; they count as no try.
    pub resent_after_overflow: u64,
    /// Datagrams from addresses that were not asked, or no longer: late, forged, or from another address than the one asked.
    pub stray_datagrams: u64,
    /// Datagrams from servers that were asked, which answer nothing: doubled, or forged.
    pub duplicate_datagrams: u64,
    /// Refusals that quote another datagram than the one sent.
    pub forged_refusals: u64,
    /// Datagrams lost because our receive queue was full.
    pub dropped_datagrams: u64,
    /// Probes that ended early because of [`SweepConfig::max_memory`].
    pub memory_limited: u64,
}

/// How to sweep.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SweepConfig {
    /// What to ask.
    pub ask: Ask,
    /// How long and how much to bear from one server. The time-out is the longest that is waited for one datagram; the
    /// sweep waits less where the delays that it sees allow it, and never more than four minutes. Of retries it makes at
    /// most 254, and more than one only where some servers answer no sooner: where hardly any does, a third try finds nobody.
    pub limits: QueryLimits,
    /// Refuse answers that deviate from the protocol.
    pub strict: bool,
    /// Keep what servers said, as it came, for [`Transcript::datagrams`](crate::Transcript::datagrams): replies only.
    pub keep_replies: bool,
    /// How fast to send.
    pub rate_limits: RateLimits,
    /// The most questions without an end at one time: a bound on memory, at some 40 bytes each. The default is just below
    /// where the table of them doubles.
    pub max_in_flight: usize,
    /// Memory for the exchanges in flight that have received a reply, in bytes (estimated). Above
    /// this limit, the largest exchanges end with what they have. The default is 256 MiB.
    pub max_memory: usize,
}

/// How fast to send. The default is one that nobody complains about.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimits {
    /// Datagrams in a second, to all servers together; infinite: as fast as delays and losses allow.
    pub packets_per_second: f64,
    /// Bits in a second, headers of IP and UDP included.
    pub bits_per_second: f64,
    /// Datagrams in a second to one network: 24 bits of an IPv4 address, 48 of an IPv6 address.
    pub per_prefix: f64,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            packets_per_second: 1_000.0,
            bits_per_second: f64::INFINITY,
            per_prefix: 50.0,
        }
    }
}

impl Default for SweepConfig {
    fn default() -> Self {
        let limits = QueryLimits {
            retries: 2,
            max_datagrams: 2_048,
            max_bytes: 1 << 20,
            ..QueryLimits::default()
        };
        Self {
            ask: Ask::default(),
            limits,
            strict: false,
            keep_replies: false,
            rate_limits: RateLimits::default(),
            max_in_flight: 750_000,
            max_memory: 256 << 20,
        }
    }
}
