//! The real binary against real sockets on loopback.

mod capture;
mod check;
mod cluster;
mod daemon;
mod decode;
mod discover;
mod documentation;
mod farm;
mod game;
mod generate;
mod harvest;
mod join;
mod monitor;
mod monitor_demo;
mod observe;
mod page;
mod ping;
mod proxy;
mod query;
mod schema;
mod serve;
mod sessions;
mod sources;
mod sweep;
mod terminal;
mod tool;
mod watch;

use hailer_testkit::{servers as support, session};
