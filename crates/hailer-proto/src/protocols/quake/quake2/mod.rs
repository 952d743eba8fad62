//! Quake 2: the out-of-band query of Quake 2 and of games with its engine. UDP.
//!
//! ```text
//!   client                                 server
//!     FF FF FF FF "status" LF     ─►                 all variables and the players
//!                                 ◄─  FF FF FF FF "print" LF \key\value… LF score ping "name" LF …
//!     FF FF FF FF "info 34" LF    ─►                 name, map, counts
//!                                 ◄─  FF FF FF FF "info" LF name map players/maximum LF
//! ```
//!
//! Nothing ties a reply to its request, and the client's address is not verified
//! (spec/quake2.md#9).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::quake::infostring`,
//! `crate::protocols::quake::players`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::Quake2Exchange;
pub use server::{MaxReply, Quake2Responder};

use crate::protocol::{Amplification, Composed, Discovery, Doc, Info, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "quake2",
    title: "Quake 2",
    port: 27910,
    wave: Wave::Later,
    amplification: Amplification {
        request: message::STATUS_REQUEST,
        reply: MaxReply::DEFAULT,
    },
    declares_charset: false,
    // spec/quake2.md#1
    discovery: &[Discovery::Broadcast { ports: &[27_910] }],
    fields: &[
        Doc::new("protocol", "Number of the game's protocol"),
        Doc::new("unanswered", "Request without a reply: `info`"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: &[Doc::new(
        "max-reply",
        "Longest reply in bytes, 1000 to 65507, default 1400; players that do not fit are left out; amplification grows with it",
    )],
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(Quake2Exchange::new(ask)),
    responder: Some(|status, _, options| {
        options.check(INFO.options)?;
        let max_reply = MaxReply::read(options)?;
        Ok(Arc::new(Quake2Responder::new(status, max_reply)))
    }),
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
