//! SA-MP: the query of San Andreas Multiplayer, open.mp and Vice City Multiplayer. UDP.
//!
//! ```text
//!   client                                     server
//!     "SAMP" address port "i"    ─►                    name and counts
//!                 ◄─  "SAMP" address port "i" password players max name mode language
//!     "SAMP" address port "r"    ─►                    rules
//!     "SAMP" address port "d"    ─►                    players
//! ```
//!
//! Little-endian. The client's address is not verified: the responder limits its replies
//! (spec/samp.md#10).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::SampExchange;
pub use server::{MaxReply, SampConfig, SampResponder};

use crate::protocol::{Amplification, Composed, Doc, Info, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "samp",
    title: "SA-MP",
    port: 7777,
    wave: Wave::Later,
    place: 9,
    amplification: Amplification {
        request: message::HEADER,
        reply: MaxReply::DEFAULT,
    },
    declares_charset: false,
    fields: &[
        Doc::new("language", "Language, or the map of servers before 0.3.7"),
        Doc::new("discord", "Link to Discord"),
        Doc::new("light-banner", "Link to a banner for light pages"),
        Doc::new("dark-banner", "Link to a banner for dark pages"),
        Doc::new("logo", "Link to a logo"),
        Doc::new(
            "unanswered",
            "Requests without a reply: `rules`, `players`, `details` of players, `links`",
        ),
    ],
    player_fields: &[Doc::new("id", "Number of the player")],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(SampExchange::new(ask, cookie)),
    responder: Some(|status, _, options| {
        let config = SampConfig::read(options)?;
        Ok(Arc::new(SampResponder::new(status, &config)))
    }),
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
