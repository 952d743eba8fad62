//! Mumble: the ping of Mumble servers, in the form of all versions and in that of 1.5. UDP.
//!
//! ```text
//!   client                                  server
//!     00 00 00 00 tag                  ─►          12 bytes
//!             ◄─  version tag users max bandwidth  24 bytes
//!
//!     01 08 timestamp 10 01            ─►          since 1.5
//!             ◄─  01 08 timestamp 18 version 20 users 28 max 30 bandwidth
//! ```
//!
//! The client's address is not verified. Replies are short (spec/mumble.md#8).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::MumbleExchange;
pub use server::{MumbleConfig, MumbleResponder};

use crate::model::{Extra, Status};
use crate::protocol::{Amplification, Composed, Doc, Info};
use crate::sample::Server;
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "mumble",
    title: "Mumble",
    port: 64738,
    amplification: Amplification {
        request: server::MIN_REQUEST,
        reply: server::MAX_REPLY,
    },
    fields: &[Doc::new(
        "bandwidth",
        "Bits per second that each user may send",
    )],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(MumbleExchange::new(ask, cookie)),
    responder: Some(|status, _, options| {
        let config = MumbleConfig::read(options)?;
        Ok(Arc::new(MumbleResponder::new(status, &config)))
    }),
    sample: sample_status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};

fn sample_status(seed: u64) -> Status {
    let server = Server::new(seed).finish();
    let mut status = Status {
        version: Some("1.5.0".into()),
        extra: [Extra::new("bandwidth", 558_000)].into(),
        ..Status::default()
    };
    status.players.online = server.players.online;
    status.players.max = server.players.max;
    status
}
