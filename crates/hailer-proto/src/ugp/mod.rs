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

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;
pub mod table;

pub use client::UgpExchange;
pub use server::{Profile, UgpConfig, UgpResponder};

use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, OptionError,
    Options, Proof, Protocol, Responder, Transport,
};
use crate::token::Keys;
use crate::{Status, wire::Notes};
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Ugp;

static INFO: Info = Info {
    id: "ugp",
    title: "UGP",
    transport: Transport::Datagram,
    port: 22000,
    proof: Proof::Nothing,
    amplification: Amplification {
        request: message::QUERY_MIN,
        reply: server::DEFAULT_REPLY,
    },
    fields: &[
        Doc {
            key: "game-id",
            help: "Number of the game; numbers without a known game are kept",
        },
        Doc {
            key: "password",
            help: "Whether a password is needed to join",
        },
        Doc {
            key: "os",
            help: "Operating system of the server",
        },
        Doc {
            key: "teams",
            help: "Teams: name, score, players and colour, as far as the server sends them",
        },
        Doc {
            key: "unanswered",
            help: "Requests without a readable reply: `players` or `rules`",
        },
    ],
    player_fields: &[
        Doc {
            key: "id",
            help: "Number of the player's connection",
        },
        Doc {
            key: "team",
            help: "Number of the player's team",
        },
        Doc {
            key: "score",
            help: "Score",
        },
        Doc {
            key: "kills",
            help: "Kills",
        },
        Doc {
            key: "deaths",
            help: "Deaths",
        },
        Doc {
            key: "ping",
            help: "Round trip in milliseconds",
        },
        Doc {
            key: "joined",
            help: "When the player joined, in an unknown unit",
        },
        Doc {
            key: "position",
            help: "Position in the world: X, Y, Z",
        },
        Doc {
            key: "health",
            help: "Health",
        },
        Doc {
            key: "armour",
            help: "Armour",
        },
        Doc {
            key: "skin",
            help: "Number of the skin",
        },
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
};

impl Protocol for Ugp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(UgpExchange::new(ask))
    }

    fn responder(
        &self,
        status: &Status,
        _: &Keys,
        options: &Options,
    ) -> Result<Arc<dyn Responder>, OptionError> {
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
