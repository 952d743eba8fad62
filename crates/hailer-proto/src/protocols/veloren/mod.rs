//! Veloren: version, players and battle mode. UDP.
//!
//! ```text
//!   client                                server
//!     00 00 token kind zeros "veloren"  ─►            kind 1, token 0
//!                                ◄─  2 token version
//!     00 00 token kind zeros "veloren"  ─►            kind 2
//!                                ◄─  1 1 commit time players max mode
//! ```
//!
//! Requests are padded, so replies are shorter than requests. The token proves the client's address.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::VelorenExchange;
pub use server::VelorenResponder;

use crate::model::{Extra, Status};
use crate::protocol::{Amplification, Composed, Doc, Info, Proof};
use crate::sample::Server;
use crate::wire::hexadecimal;
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "veloren",
    title: "Veloren",
    port: 14_006,
    proof: Proof::Token,
    amplification: Amplification {
        request: message::MIN_REQUEST,
        reply: message::INIT_REPLY,
    },
    fields: &[Doc::new(
        "commit-time",
        "Time of the game's commit in Unix seconds",
    )],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(VelorenExchange::new(ask)),
    responder: Some(|status, keys, options| {
        Ok(Arc::new(VelorenResponder::new(status, keys, options)?))
    }),
    sample: sample_status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};

fn sample_status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let hash = (server.random.next() as u32 | 1).to_be_bytes();
    let mode = server.random.text(&client::BATTLE_MODES);
    let time = 1_700_000_000 + server.random.below(100_000_000) as i64;
    let mut status = server.counts();
    status.version = Some(hexadecimal(&hash).into());
    status.mode = Some(mode.into());
    status.extra = [Extra::new("commit-time", time)].into();
    status
}
