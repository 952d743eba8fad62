//! Teeworlds: the queries of Teeworlds 0.5, 0.6 and 0.7 and of DDNet. UDP.
//!
//! ```text
//!   client                                             server
//!     "xe" extra token, FF FF FF FF "gie3" token  ─►          0.6 and DDNet, 15 bytes
//!                     ◄─  FF × 10 "iext" token 00 version 00 name 00 … clients
//!                     ◄─  FF × 10 "iex+" token 00 number 00 … further clients
//!
//!     04 00 00 FF FF FF FF 05 token, zeros        ─►          0.7, 519 bytes
//!                     ◄─  04 00 00 token 05 server's token
//!     21 server's token, token, "gie3" number     ─►
//!                     ◄─  21 token, server's token, "inf3" number version 00 … clients
//! ```
//!
//! Only 0.7 verifies the client's address: the responder limits all other replies
//! (spec/teeworlds.md#10).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::TeeworldsExchange;
pub use server::{MaxReply, TeeworldsConfig, TeeworldsResponder};

use crate::protocol::{Amplification, Composed, Discovery, Doc, Info};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "teeworlds",
    title: "Teeworlds",
    port: 8303,
    amplification: Amplification {
        request: message::EXTENDED_REQUEST,
        reply: MaxReply::DEFAULT,
    },
    // spec/teeworlds.md#1
    discovery: &[Discovery::Broadcast {
        ports: &[8_303, 8_304, 8_305, 8_306, 8_307, 8_308, 8_309, 8_310],
    }],
    fields: &[
        Doc::new(
            "form",
            "Form of the reply: `0.5`, `0.6`, `0.6-64`, `0.6-extended` or `0.7`",
        ),
        Doc::new("playing", "Clients that play, without spectators"),
        Doc::new("max-playing", "Maximum number of clients that play"),
        Doc::new(
            "shown-clients",
            "Number of clients in the reply's own count, if its name has the true counts",
        ),
        Doc::new("map-crc", "CRC-32 of the map"),
        Doc::new("map-size", "Size of the map in bytes"),
        Doc::new("progression", "Progress of the match in percent, or -1"),
        Doc::new(
            "skill-level",
            "Level of skill: 0 casual, 1 normal, 2 competitive",
        ),
        Doc::new("flags", "All flags of the server, if it sets unknown ones"),
        Doc::new(
            "score-is-time",
            "Whether scores are times in seconds, as in races",
        ),
        Doc::new(
            "unanswered",
            "Forms of the request without a reply; `players` if the list is incomplete",
        ),
    ],
    player_fields: &[
        Doc::new("clan", "Clan"),
        Doc::new("country", "Country, as a number of ISO 3166-1"),
        Doc::new("spectator", "Whether the client only watches"),
        Doc::new("bot", "Whether the client is a bot"),
        Doc::new("kind", "Kind of client, if it is unknown"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(TeeworldsExchange::new(ask, cookie)),
    responder: Some(|status, keys, options| {
        let config = TeeworldsConfig::read(options)?;
        Ok(Arc::new(TeeworldsResponder::new(status, keys, &config)))
    }),
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
