//! Helpers shared by the tests of several crates. Not published.
//!
//! Each module is small and has no tests. Features add the crates that a module needs, so that the
//! tests of `hailer-proto` build without the rest.
//!
//! In: names of protocols, servers and files. Out: vectors, servers, clients and folders for tests.
//!
//! May import: `hailer`, `hailer_minecraft`, `hailer_monitor`, `hailer_proto`.

// Processes and sockets of tests, which no program has as members.
#![allow(missing_debug_implementations)]
#![allow(missing_docs, reason = "for tests only")]

pub mod api;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod folder;
pub mod golden;
pub mod namespace;
pub mod npm;
pub mod openmetrics;
#[cfg(unix)]
pub mod postgres;
#[cfg(unix)]
pub mod proxy;
pub mod pypi;
pub mod qstat;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "servers")]
pub mod servers;
#[cfg(feature = "session")]
pub mod session;
pub mod statuses;
pub mod vector;
pub mod week;
