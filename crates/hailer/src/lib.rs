//! Game server protocols, in both roles: queries servers, and responds for them.
//!
//! ```text
//!   query     Target ─► NameResolver ─► socket ─► ExchangeDriver ─► Exchange ─► Status     (client)
//!   respond   Status ─► Board ─► Responder ◄─ Service ◄─ socket                            (respond)
//!             source ─► TimedStatus ─► Policy ─► Board                                     (respond::source)
//! ```
//!
//! The protocols are in [`hailer_proto`], re-exported as [`proto`]. This crate adds sockets,
//! clocks, retries and limits.
//!
//! - [`Client`] queries single servers; [`client`] has its other types.
//! - [`sweep`] queries many servers with a rate limit.
//! - [`discover`] finds servers on the local network, and reads lists of public ones.
//! - [`respond`] replies to queries, with a status from a [source](respond::source).
//! - [`check`] tests whether a server or a client conforms to its protocol.
//! - [`minecraft`] joins, serves and proxies the game protocol of the 1.3 snapshots.
//! - [`support`] has what several of these share.

mod answer;
pub mod check;
pub mod client;
pub mod discover;
mod error;
mod merge;
#[cfg(feature = "game")]
pub mod minecraft;
mod names;
mod prefix;
pub mod respond;
pub mod support;
pub mod sweep;
mod target;
mod transcript;

pub use answer::Answer;
pub use client::{Client, ClientConfig};
pub use error::Error;
pub use hailer_proto as proto;
pub use hailer_proto::{Ask, Status};
pub use target::Target;
