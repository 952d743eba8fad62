//! Sockets, connections, threads and clock of responders.
//!
//! In: datagrams and connections of clients. Out: replies of the boards, counts.
//!
//! May import: `crate::door`, `crate::prefix`, `crate::respond`, `crate::respond::board`, `crate::respond::engine`,
//! `crate::respond::reason`, `crate::support`, `hailer_proto`, `hailer_udp`.

mod connections;
mod doorway;
mod passage;
mod pool;
mod relay;
pub(super) mod service;

pub use passage::{PassageLimits, SourceLimits};
pub use pool::{ListenError, ListenerConfig, ListenerCounts, PoolConfig, ResponderPool};
pub use service::Service;
