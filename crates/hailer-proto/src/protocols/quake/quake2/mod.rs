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
//! `crate::testing`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::Quake2Exchange;
pub use server::{MaxReply, Quake2Responder};

use crate::model::Status;
use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Discovery, Doc, Exchange, Explanation, Info,
    Options, Protocol, ResponderResult, Wave,
};
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Quake2;

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

impl Protocol for Quake2 {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(Quake2Exchange::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        let max_reply = MaxReply::read(options)?;
        Ok(Arc::new(Quake2Responder::new(status, max_reply)))
    }

    fn sample(&self, seed: u64) -> Status {
        sample::status(seed)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        message::explain(bytes, seen.direction(), notes)
    }
}
