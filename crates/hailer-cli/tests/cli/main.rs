//! The real binary against real sockets on loopback.

mod capture;
mod check;
#[cfg(feature = "monitor")]
mod cluster;
mod daemon;
mod decode;
mod discover;
mod documentation;
mod farm;
#[cfg(feature = "game")]
mod game;
mod gamedig;
mod generate;
mod harvest;
#[cfg(feature = "game")]
mod join;
mod mistakes;
#[cfg(feature = "monitor")]
mod monitor;
#[cfg(feature = "monitor")]
mod monitor_demo;
mod observe;
#[cfg(feature = "monitor")]
mod page;
mod ping;
#[cfg(feature = "monitor")]
mod prometheus;
#[cfg(feature = "game")]
mod proxy;
mod query;
mod schema;
mod serve;
#[cfg(feature = "game")]
mod sessions;
mod sources;
mod sweep;
mod terminal;
mod tool;
#[cfg(feature = "monitor")]
mod watch;

use hailer_testkit::servers as support;
#[cfg(feature = "game")]
use hailer_testkit::session;
