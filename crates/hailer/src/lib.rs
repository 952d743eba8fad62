//! Game server protocols, in both roles: queries servers, and responds for them.
//!
//! ```text
//!   query     Target ─► NameResolver ─► socket ─► ExchangeDriver ─► Exchange ─► Status     (client)
//!   respond   Status ─► Board ─► Responder ◄─ Service ◄─ socket                            (respond)
//!             source ─► TimedStatus ─► Policy ─► Board                                     (source)
//! ```
//!
//! The protocols are in [`hailer_proto`], re-exported as [`proto`]. This crate adds sockets,
//! clocks, retries and limits.
//!
//! - [`client`] queries single servers, with the limits of [`drive`], at the addresses of a
//!   [`target`].
//! - [`http`] carries the requests of protocols over HTTP.
//! - [`catalog`] has the games and protocols that targets can name. Programs can add their own.
//! - [`sweep`] queries many servers with a rate limit.
//! - [`check`] tests whether a server or a client conforms to its protocol.
//! - [`address`] decides which addresses that others name are queried.
//! - [`discover`] finds servers on the local network, and [`master`] reads lists of public ones.
//! - [`report`] formats answers as JSON.
//! - [`respond`] replies to queries, with a status from a [`source`].
//! - [`listen`] accepts connections within limits, and [`metrics_format`] converts metrics to the
//!   format that a client accepts.
//! - `minecraft` joins, serves and proxies the game protocol of the 1.3 snapshots (feature `game`,
//!   on by default). Its crate is re-exported as `game`.
//! - `network` lets several servers respond as one, by way of Redis (feature `redis`).

pub mod address;
mod answer;
pub mod catalog;
pub mod check;
pub mod client;
mod detection;
pub mod discover;
pub mod drive;
mod error;
pub mod http;
#[cfg(feature = "redis")]
pub mod link;
pub mod listen;
mod local;
pub mod master;
mod merge;
pub mod metrics_format;
#[cfg(feature = "game")]
pub mod minecraft;
mod names;
#[cfg(feature = "redis")]
pub mod network;
mod prefix;
pub mod report;
pub mod respond;
pub mod source;
pub mod sweep;
pub mod target;
mod transcript;
#[cfg(all(unix, feature = "sources"))]
pub mod unix;

pub use answer::{Answer, FieldSource};
pub use client::{Answers, Client, ClientConfig, QueryStream};
pub use drive::QueryLimits;
pub use error::{Error, FaultPlace, ProtocolFailure};
#[cfg(feature = "game")]
pub use hailer_minecraft as game;
pub use hailer_proto as proto;
pub use hailer_proto::{Ask, Depth, Player, Status, Text, registry};
pub use local::{check_source, parse_source};
pub use target::Target;
pub use transcript::{Datagram, Transcript};
