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
//! May import: `crate::model`, `crate::protocol`, `crate::testing`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;
pub mod table;

pub use client::UgpExchange;
pub use server::{MaxReply, Profile, UgpConfig, UgpResponder};

use crate::model::Status;
use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Options,
    Protocol, ResponderResult, Wave,
};
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Ugp;

static INFO: Info = Info {
    id: "ugp",
    title: "UGP",
    port: 22000,
    wave: Wave::Later,
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

impl Protocol for Ugp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(UgpExchange::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        Ok(Arc::new(UgpResponder::new(
            status,
            &UgpConfig::read(options)?,
        )))
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
