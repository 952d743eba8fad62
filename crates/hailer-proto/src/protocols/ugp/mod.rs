//! UGP, the Unleashed Game Protocol: the server query of Liberty Unleashed, GTA Connected and Mafia
//! Connected.
//!
//! ```text
//!   client                                   server
//!     FF FF "UGP" 00 01 00          ─►                      ping
//!                                   ◄─  FF FF "UGP" 00 01 80
//!     FF FF "UGP" 00 01 01 flags…   ─►                      query: flags name the requested fields
//!                                   ◄─  FF FF "UGP" 00 01 81 game flags…
//! ```
//!
//! The flags of a reply name its fields, which may be fewer than requested. Numbers wider than a
//! byte are little-endian. Neither a challenge token nor an id ties a reply to its request: the
//! consequences are on the spec page, in `spec/ugp.md#10.2` for clients and `spec/ugp.md#11` for
//! servers.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;
pub mod table;

pub use client::UgpExchange;
pub use server::{MaxReply, Profile, UgpConfig, UgpResponder};

use crate::protocol::{Amplification, Composed, Doc, Info, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "ugp",
    title: "UGP",
    port: 22000,
    wave: Wave::Later,
    place: 6,
    amplification: Amplification {
        request: message::QUERY_MIN,
        reply: MaxReply::DEFAULT,
    },
    fields: &[
        Doc::new(
            "game-id",
            "Number of the game; numbers without a known game are kept",
        ),
        Doc::new("password", "Whether a password is needed to join"),
        Doc::new("os", "Operating system of the server"),
        Doc::new(
            "teams",
            "Teams: name, score, players and color, as far as the server sends them",
        ),
        Doc::new(
            "unanswered",
            "Requests without a readable reply: `players` or `rules`",
        ),
    ],
    player_fields: &[
        Doc::new("id", "Number of the player's connection"),
        Doc::new("team", "Number of the player's team"),
        Doc::new("score", "Score"),
        Doc::new("kills", "Kills"),
        Doc::new("deaths", "Deaths"),
        Doc::new("ping", "Round trip in milliseconds"),
        Doc::new("joined", "When the player joined, in an unknown unit"),
        Doc::new("position", "Position in the world: X, Y, Z"),
        Doc::new("health", "Health"),
        Doc::new("armour", "Armour"),
        Doc::new("skin", "Number of the skin"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(UgpExchange::new(ask)),
    responder: Some(|status, _, options| {
        Ok(Arc::new(UgpResponder::new(
            status,
            &UgpConfig::read(options)?,
        )))
    }),
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
