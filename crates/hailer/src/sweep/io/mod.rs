//! Sockets, connections, threads and clock of a sweep: they carry what the engine sends.
//!
//! In: a configuration, a source of probes. Out: answers, counts, and datagrams on the network.
//!
//! May import: `crate::support`, `crate::sweep`, `crate::sweep::engine`, `hailer_udp`.

mod tcp;
mod threads;
mod worker;

pub use tcp::max_connections;
pub use threads::run_threads;
pub use worker::run;
