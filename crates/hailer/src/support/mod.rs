//! Parts of several modules that the tool and the monitor use too.
//!
//! Programs that query or respond need these seldom. `hailer-cli` and `hailer-monitor` do.
//!
//! - [`catalog`] has the games and protocols that targets can name. Programs can add their own.
//! - [`drive`] runs one exchange with a timeout, retries, a deadline and receive limits.
//! - [`http`] carries the requests of protocols over HTTP.
//! - [`address`] decides which addresses that others name are queried, [`address_range`] which are in
//!   a network.
//! - [`proxy_protocol`] passes on the addresses of clients of a proxy.
//! - [`report`] formats answers as JSON.
//! - [`condition`] evaluates conditions such as `players = 0`, and waits for them.
//! - [`pattern`] matches names with `*`.
//! - [`accept`] reacts to connections that cannot be accepted. [`listen`] accepts them within limits.
//! - [`metrics_format`] converts metrics to the format that a client accepts.
//! - `setters` has the methods that builders of queries share.
//! - `readiness` watches batched datagram sockets.
//! - `link` connects to Redis, and `unix` listens on files.
//!
//! In: targets, bytes, addresses. Out: results of exchanges, JSON, metrics.
//!
//! May import: `crate::answer`, `crate::error`, `crate::prefix`, `crate::transcript`,
//! `hailer_proto`, `hailer_udp`.

#[cfg(any(feature = "respond", feature = "game"))]
pub mod accept;
pub mod address;
pub mod address_range;
pub mod catalog;
pub mod condition;
pub mod drive;
pub mod http;
#[cfg(feature = "redis")]
pub mod link;
#[cfg(feature = "respond")]
pub mod listen;
pub(crate) mod local;
pub mod metrics_format;
pub mod pattern;
#[cfg(feature = "respond")]
pub mod proxy_protocol;
#[cfg(any(feature = "respond", feature = "sweep"))]
pub(crate) mod readiness;
pub mod report;
pub(crate) mod setters;
#[cfg(all(unix, feature = "sources"))]
pub mod unix;

pub use local::{check_source, parse_source};

/// Returns a secret from the operating system's random source.
///
/// # Panics
/// The system has no random source. Without secrets, challenges would not be safe.
pub fn random_secret() -> [u8; 16] {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).expect("the operating system has a random source");
    secret
}
