//! Sockets, connections, threads and clock of a sweep: they carry what the engine sends.

#[cfg(unix)]
mod tcp;
mod threads;
mod worker;

#[cfg(unix)]
pub use tcp::max_connections;
pub use threads::run_threads;
#[cfg(not(unix))]
pub use worker::max_connections;
pub use worker::run;
