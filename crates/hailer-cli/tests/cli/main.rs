//! The real binary against real sockets on loopback.

mod capture;
mod cluster;
mod daemon;
mod decode;
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
#[path = "../../../hailer-minecraft/tests/session/mod.rs"]
mod session;
mod sessions;
mod sources;
#[path = "../../../hailer/tests/support/mod.rs"]
mod support;
mod sweep;
mod terminal;
mod tool;
mod watch;
