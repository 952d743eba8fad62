//! The real binary against real sockets on loopback.

mod capture;
mod decode;
mod generate;
mod ping;
mod query;
mod schema;
mod serve;
#[path = "../../../hailer/tests/support/mod.rs"]
mod support;
mod tool;
