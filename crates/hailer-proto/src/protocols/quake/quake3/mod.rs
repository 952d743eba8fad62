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
//! `crate::protocols::quake::players`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::Quake3Exchange;
pub use server::{MaxReply, Quake3Config, Quake3Responder};

use crate::protocol::{Amplification, Composed, Discovery, Doc, Info, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "quake3",
    title: "Quake 3",
    port: 27960,
    wave: Wave::First,
    place: 4,
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
    codes: server::codes,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(Quake3Exchange::new(ask, cookie)),
    responder: Some(|status, _, options| {
        let config = Quake3Config::read(options)?;
        Ok(Arc::new(Quake3Responder::new(status, &config)))
    }),
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
