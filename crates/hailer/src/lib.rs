//! Talk to game servers: ask them for their status, and answer for them.
//!
//! ```text
//!   asking      Target ─► Names ─► socket ─► Drive ─► Exchange ─► Status     (Client)
//!   answering   Status ─► Board ─► Responder ◄─ Service ◄─ socket            (respond)
//!               source ─► TimedStatus ─► Policy ─► Board                           (source)
//! ```
//!
//! The protocols live in [`hailer_proto`], re-exported as [`proto`]; this crate adds sockets, clocks and patience.
//!
//! Modules: [`client`] drives exchanges with the patience of [`drive`] at the addresses that `names` finds for a
//! [`target`]; [`report`] is what programs read of it. [`respond`] stands beside them, and, with the feature `game`
//! (on unless told otherwise), `minecraft`: the game protocol of the 1.3 pre-releases, whose crate is re-exported as `game`. With
//! the feature `redis`, `network`: servers that answer as one.

pub mod client;
pub mod drive;
mod error;
#[cfg(unix)]
mod hub;
#[cfg(feature = "redis")]
pub mod link;
#[cfg(feature = "game")]
pub mod minecraft;
mod names;
#[cfg(feature = "redis")]
pub mod network;
pub mod report;
pub mod respond;
pub mod source;
pub mod sweep;
pub mod target;
#[cfg(all(unix, feature = "sources"))]
pub mod unix;

pub use client::{Answer, Client, ClientConfig, Datagram, QueryStream, Transcript};
pub use drive::QueryLimits;
pub use error::Error;
#[cfg(feature = "game")]
pub use hailer_minecraft as game;
pub use hailer_proto as proto;
pub use hailer_proto::{Ask, Depth, Player, Status, Text, registry};
pub use target::Target;
