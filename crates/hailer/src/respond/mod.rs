//! Responders: publish a status, and answer queries for it.
//!
//! ```text
//!   status source ──► Board::publish(status)            builds the responders, swaps one pointer
//!                        │
//!   socket ──► Service::answer(from, bytes) ──► reply   tries each responder, charges the budget
//! ```
//!
//! [`serve`] does all this in one call. A [`ResponderPool`] runs a responder for a whole server: a thread for each core, one for
//! connections, and a relay to the game server. For a datagram socket of your own, use a
//! [`Service`]:
//!
//! ```no_run
//! use hailer::respond::{Board, Budget, Service};
//! use hailer::Status;
//! use hailer::proto::{Text, registry};
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
//! connections by [`ConnectionLimits`](crate::support::listen::ConnectionLimits).
//!
//! May import: `crate::client`, `crate::door`, `crate::prefix`, `crate::support`, `crate::target`, `hailer_proto`,
//! `hailer_udp`.

mod board;
mod counts;
mod engine;
pub mod farm;
mod io;
#[cfg(feature = "redis")]
pub mod network;
mod reason;
mod serve;
pub mod source;
#[cfg(test)]
mod week;

pub use board::{Board, StreamConfig};
pub use counts::{Counts, ProtocolCounts};
pub use engine::{
    Budget, FREE_RATIO, HEADER_BYTES, RateLimiter, RelayVerification, RemainingBudget, TopTalker,
    is_free,
};
pub use io::{
    ListenError, ListenerConfig, ListenerCounts, PassageLimits, PoolConfig, ResponderPool, Service,
    SourceLimits,
};
pub use reason::{REASONS, Reason};
pub use serve::{ServeError, Server, serve};

/// Longest request read. No protocol has requests of more than 1,400 bytes.
const MAX_REQUEST: usize = 2_048;
/// Largest number of datagrams of one reply.
const MAX_REPLY_DATAGRAMS: usize = 256;
