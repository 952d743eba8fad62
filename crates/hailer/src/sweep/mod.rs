//! Sweeps: probes of many servers at a limited rate, from one or more threads. Datagrams use one
//! socket for each address family, stream protocols one connection for each probe in flight.
//!
//! ```text
//!   ProbeSource ──► SweepEngine ──► Outbox ──► socket
//!                    │       ▲
//!   Sink ◄── ProbeResult     └── Inbox ◄── socket
//!
//!   send:     index ─► target ─► cookie ─► datagram; a silent server takes about 42 bytes
//!   receive:  datagram ─► probe ─► cookie ─► exchange ─► status
//! ```
//!
//! [`Sweep`] does all this in one call. [`run`] uses one thread, [`run_threads`] several with one
//! source.
//!
//! Limits: [`SweepConfig::max_in_flight`] probes in flight, about 42 bytes each;
//! [`SweepConfig::max_memory`] bytes for those that have received a reply; the rates of
//! [`RateLimits`]; at most 2^40 probes in a sweep; 8,192 protocols and games in a process.
//!
//! A probe of a game follows the game's rules. Its request leaves out players if servers never list
//! them. If the first port is silent, closed or sends something else, the engine tries the other
//! query ports of the game, one after the other; only the result of the last one is reported. The
//! first port is the one of the target, or the default query port if the target has none or has the
//! port that players connect to.
//!
//! May import: `crate::answer`, `crate::error`, `crate::merge`, `crate::names`, `crate::support`,
//! `crate::target`, `crate::transcript`, `hailer_proto`, `hailer_udp`.

mod engine;
mod error;
mod io;
mod simple;
mod summary;
mod targets;

pub use engine::{
    ConnectionOrder, DefaultKinds, Outboxes, PrefixLimiter, SweepEngine, TargetKind, Throttle,
};
pub use error::ListError;
pub(crate) use error::{MAX_KINDS, MAX_PROBES};
pub use io::{max_connections, run, run_threads};
pub use simple::{Results, Sweep, SweepError};
pub use summary::{Summary, SweepEnd};
pub use targets::{
    Collector, Exclusions, Item, ListSource, Name, Order, Shard, ShardError, Skipped, SourceConfig,
    StreamSource, Targets,
};

use crate::answer::Answer;
use crate::error::Error;
use crate::support::drive::QueryLimits;
use hailer_proto::{Ask, Game, Protocol};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A query of a sweep: one address, one protocol.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Position in the order of the sweep. Checkpoints store it.
    pub index: u64,
    /// Server to query.
    pub address: SocketAddr,
    /// Protocol of the query.
    pub protocol: &'static dyn Protocol,
    /// Game whose query ports and quirks apply.
    pub game: Option<&'static Game>,
    /// Target as typed if it was a name, or `None` if it was an address.
    pub name: Option<Arc<str>>,
    /// The SRV record that led to the address, as a clause for errors. `None` if none did.
    pub srv: Option<Arc<str>>,
}

/// Next item of a source.
#[derive(Debug)]
pub enum Next {
    /// A query to send.
    Probe(Probe),
    /// A target that cannot be queried because its name did not resolve to an allowed address.
    Failed {
        /// Position in the order of the sweep.
        index: u64,
        /// Target as typed.
        target: Arc<str>,
        /// Reason of the failure.
        error: Error,
    },
    /// A probe of a target whose failure another index reports as [`Next::Failed`], or of a server
    /// that another index queries.
    Repeat {
        /// Position in the order of the sweep.
        index: u64,
        /// Whether the name of the target did not resolve.
        is_failed: bool,
    },
    /// Nothing yet: lookups are in progress, or the input has no complete line.
    Pending,
    /// The source is exhausted.
    Done,
}

impl Next {
    /// Returns the query of an address that was typed as such.
    pub(crate) fn address(index: u64, address: SocketAddr, kind: TargetKind) -> Self {
        Self::Probe(Probe {
            index,
            address,
            protocol: kind.protocol,
            game: kind.game,
            name: None,
            srv: None,
        })
    }
}

/// Source of the probes of a sweep. It returns each index once.
pub trait ProbeSource {
    /// Returns the next item. Never blocks.
    fn next(&mut self) -> Next;

    /// Returns how long to wait after [`Next::Pending`] before the next call.
    fn retry_after(&self) -> Duration {
        Duration::from_millis(5)
    }

    /// Returns the total number of probes, including those before a checkpoint, or `None` if it is
    /// not known.
    fn total(&self) -> Option<u64>;

    /// Returns the position of the source: `next` is above every index that it has returned, and
    /// `unfinished` lists the indices below `next` that it has yet to return. The sweep adds the
    /// probes in flight. Sources that return ascending indices from 0 need not implement this.
    fn position(&self) -> Position {
        Position::default()
    }
}

/// Progress of a sweep: every index below `next` that the source returned is finished, except the
/// listed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The source has returned no index from here on.
    pub next: u64,
    /// Indices below `next` that are not finished, ascending.
    pub unfinished: Vec<u64>,
}

/// Result of a probe.
#[derive(Debug)]
pub struct ProbeResult {
    /// Position in the order of the sweep.
    pub index: u64,
    /// Target as typed if it was a name.
    pub name: Option<Arc<str>>,
    /// The answer or the error.
    pub result: Result<Answer, Error>,
}

/// Destination of the results of a sweep.
pub trait Sink {
    /// Records the result of a probe. Called once for each index, except those of [`Next::Repeat`].
    fn record(&mut self, result: ProbeResult);

    /// Returns whether the sink is full. While it is, the sweep starts no probes but still receives
    /// replies.
    fn is_full(&self) -> bool {
        false
    }

    /// Reports the progress. Called about every 100 ms and once at the end.
    fn report_progress(&mut self, progress: &Progress<'_>);

    /// Returns whether the next report needs the [position](Progress::position). Only
    /// [`run_threads`] calls it, because all threads must contribute to a position.
    fn is_position_due(&self) -> bool {
        false
    }

    /// Passes on all results so far, and holds back the later ones until [`release`](Self::release).
    /// [`run_threads`] calls it on the sink of each thread, and then reports a position that
    /// includes exactly the results passed on.
    fn hold(&mut self) {}

    /// Ends the effect of [`hold`](Self::hold).
    fn release(&mut self) {}

    /// Returns whether to stop the sweep. Called often. After the first `true` the sweep starts no
    /// probes and drops those in flight.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Progress of a sweep.
pub struct Progress<'a> {
    /// Counts so far.
    pub counts: &'a Counts,
    /// Total number of probes, if known.
    pub total: Option<u64>,
    /// Probes that are not finished.
    pub in_flight: usize,
    /// Returns the position for a checkpoint. Visits every probe in flight. `None` in a sweep with
    /// several threads, unless [`Sink::is_position_due`] requested it, and in the reports to the
    /// sink of one thread.
    pub position: &'a dyn Fn() -> Option<Position>,
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("counts", self.counts)
            .field("total", &self.total)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

/// Counts of a sweep. In JSON, a missing count is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Counts {
    /// Probes started. A probe that comes to another query port of its game counts once.
    pub probes: u64,
    /// Failures at one query port of a game after which the next one was tried.
    pub port_retries: u64,
    /// Probes that ended with an answer.
    pub answered: u64,
    /// Probes that timed out.
    pub timed_out: u64,
    /// Probes whose port is closed.
    pub port_closed: u64,
    /// Probes whose host is unreachable or to which the system does not send.
    pub unreachable: u64,
    /// Probes that ended with a malformed, oversized, refused or disallowed reply.
    pub invalid: u64,
    /// Targets whose names did not resolve.
    pub unresolved: u64,
    /// Number of datagrams sent.
    pub datagrams_sent: u64,
    /// UDP payload sent, in bytes.
    pub bytes_sent: u64,
    /// Number of datagrams received.
    pub datagrams_received: u64,
    /// UDP payload received, in bytes.
    pub bytes_received: u64,
    /// Datagrams sent again because no reply arrived.
    pub datagrams_resent: u64,
    /// Resent datagrams of probes that timed out.
    pub resent_in_vain: u64,
    /// Resent datagrams after an overflow of our receive queue. These do not count as retries.
    pub resent_after_overflow: u64,
    /// Datagrams from addresses without a probe in flight: late, forged, or from another address
    /// than the queried one.
    pub stray_datagrams: u64,
    /// Datagrams from queried servers that match no probe: duplicated or forged.
    pub duplicate_datagrams: u64,
    /// ICMP errors that quote a datagram that was not sent.
    pub forged_refusals: u64,
    /// Datagrams lost because our receive queue was full.
    pub dropped_datagrams: u64,
    /// Probes that ended early because of [`SweepConfig::max_memory`].
    pub memory_limited: u64,
}

impl Counts {
    /// Adds the counts of another thread, or of an earlier run.
    pub fn add(&mut self, other: &Self) {
        let sum = |count: fn(&Self) -> u64| count(self).saturating_add(count(other));
        *self = Self {
            probes: sum(|of| of.probes),
            port_retries: sum(|of| of.port_retries),
            answered: sum(|of| of.answered),
            timed_out: sum(|of| of.timed_out),
            port_closed: sum(|of| of.port_closed),
            unreachable: sum(|of| of.unreachable),
            invalid: sum(|of| of.invalid),
            unresolved: sum(|of| of.unresolved),
            datagrams_sent: sum(|of| of.datagrams_sent),
            bytes_sent: sum(|of| of.bytes_sent),
            datagrams_received: sum(|of| of.datagrams_received),
            bytes_received: sum(|of| of.bytes_received),
            datagrams_resent: sum(|of| of.datagrams_resent),
            resent_in_vain: sum(|of| of.resent_in_vain),
            resent_after_overflow: sum(|of| of.resent_after_overflow),
            stray_datagrams: sum(|of| of.stray_datagrams),
            duplicate_datagrams: sum(|of| of.duplicate_datagrams),
            forged_refusals: sum(|of| of.forged_refusals),
            dropped_datagrams: sum(|of| of.dropped_datagrams),
            memory_limited: sum(|of| of.memory_limited),
        };
    }

    /// Returns the number of finished probes.
    pub fn ended(&self) -> u64 {
        let failed = [
            self.timed_out,
            self.port_closed,
            self.unreachable,
            self.invalid,
            self.unresolved,
        ];
        failed.into_iter().fold(self.answered, u64::saturating_add)
    }
}

/// Configuration of a sweep.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SweepConfig {
    /// Parts of the status to query. By default without [`Ask::has_ping`], which costs a round trip.
    pub ask: Ask,
    /// Limits of one query. The timeout is the longest wait for one datagram; the sweep waits less
    /// when the measured delays allow it, and never more than 240 s. It sends at most 254 retries,
    /// and only one while losses are rare: fewer than one reply in 2,000 arrives after a retry.
    /// The default allows 2 retries, 2,048 datagrams and 1 MiB from one server.
    pub limits: QueryLimits,
    /// Whether to refuse answers that deviate from the protocol.
    pub is_strict: bool,
    /// Whether to keep the received datagrams for
    /// [`Transcript::datagrams`](crate::client::Transcript::datagrams).
    pub has_replies: bool,
    /// Rate limits. Opening a connection counts as one datagram.
    pub rate_limits: RateLimits,
    /// Local address to send from, as [`ClientConfig::source`](crate::client::ClientConfig::source). A port
    /// needs a sweep in one thread.
    pub source: Option<SocketAddr>,
    /// How connections of stream protocols are closed.
    pub tcp_close: TcpClose,
    /// Largest number of probes in flight, about 42 bytes each. The default of 750,000 is just
    /// below the size at which the hash table doubles.
    pub max_in_flight: usize,
    /// Memory for the exchanges in flight that have received a reply, in bytes (estimated). Above
    /// this limit, the largest exchanges end with partial results. The default is 256 MiB.
    pub max_memory: usize,
    /// Whether to use the portable implementation of datagrams even on Linux, for tests and
    /// comparisons.
    pub is_portable: bool,
}

/// How a sweep closes connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpClose {
    /// With RST. The socket is reused for the next server, which makes sweeps about 40 % faster, and
    /// no connection stays in TIME_WAIT. Servers may log a reset.
    #[default]
    Reset,
    /// With FIN, in an orderly way. Each server gets a new socket.
    Fin,
}

/// Rate limits of a sweep. The defaults are low enough not to cause complaints.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimits {
    /// Datagrams per second to all servers together. When infinite, delays and losses limit the
    /// rate. The default is 1,000.
    pub rate: f64,
    /// Bits per second, including IP and UDP headers. Infinite by default.
    pub bandwidth: f64,
    /// Datagrams per second to one network: an IPv4 /24 or an IPv6 /48. The default is 50.
    pub per_network: f64,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            rate: 1_000.0,
            bandwidth: f64::INFINITY,
            per_network: 50.0,
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
            ask: Ask {
                has_ping: false,
                ..Ask::default()
            },
            limits,
            is_strict: false,
            has_replies: false,
            rate_limits: RateLimits::default(),
            source: None,
            tcp_close: TcpClose::default(),
            max_in_flight: 750_000,
            max_memory: 256 << 20,
            is_portable: false,
        }
    }
}
