//! Sockets, connections, threads and clock of responders.
//!
//! In: datagrams and connections of clients. Out: replies of the boards, counts.
//!
//! May import: `crate::respond`, `crate::respond::board`, `crate::respond::engine`,
//! `crate::respond::reason`, `crate::support`, `hailer_proto`, `hailer_udp`.

#[cfg(unix)]
mod connections;
#[cfg(unix)]
mod pool;
#[cfg(unix)]
mod relay;
pub(super) mod service;

#[cfg(unix)]
pub use pool::{ListenError, ListenerConfig, ListenerCounts, PoolConfig, ResponderPool};
pub use service::Service;
