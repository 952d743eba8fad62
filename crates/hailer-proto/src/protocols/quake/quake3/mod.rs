//! Quake 3: the out-of-band query of Quake 3 and its many descendants. UDP.
//!
//! ```text
//!   client                                        server
//!     FF FF FF FF "getinfo" challenge    ─►                 name, map, counts
//!                 ◄─  FF FF FF FF "infoResponse" LF \key\value…
//!     FF FF FF FF "getstatus" challenge  ─►                 all variables and the players
//!                 ◄─  FF FF FF FF "statusResponse" LF \key\value… LF score ping "name" LF …
//! ```
//!
//! The challenge is a text of the client, which the server returns. The client's address is not
//! verified: the responder limits its replies (spec/quake3.md#10).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::quake::infostring`,
//! `crate::testing`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::Quake3Exchange;
pub use server::{MaxReply, Quake3Config, Quake3Responder};

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
pub struct Quake3;

static INFO: Info = Info {
    id: "quake3",
    title: "Quake 3",
    port: 27960,
    wave: Wave::First,
    amplification: Amplification {
        request: message::STATUS_REQUEST,
        reply: MaxReply::DEFAULT,
    },
    declares_charset: false,
    // spec/quake3.md#1
    discovery: &[Discovery::Broadcast {
        ports: &[27_960, 27_961, 27_962, 27_963],
    }],
    fields: &[
        Doc {
            key: "protocol",
            help: "Number of the game's protocol",
        },
        Doc {
            key: "unanswered",
            help: "Request without a reply: `status` or `info`",
        },
    ],
    player_fields: &[
        Doc {
            key: "score-text",
            help: "First word of the player's line, if it is not a number",
        },
        Doc {
            key: "spectator",
            help: "Whether the score marks a spectator",
        },
        Doc {
            key: "further",
            help: "Further words of the player's line",
        },
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

impl Protocol for Quake3 {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        Box::new(Quake3Exchange::new(ask, cookie))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        let config = Quake3Config::read(options)?;
        Ok(Arc::new(Quake3Responder::new(status, &config)))
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
