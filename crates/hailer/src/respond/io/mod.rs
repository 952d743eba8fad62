//! Sockets, connections, threads and clock of responders.

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
