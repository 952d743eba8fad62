//! CS2D: one request for two messages. UDP.
//!
//! ```text
//!   client                             server
//!     01 00 FB 01 F5 03 FB 05       ─►
//!                                   ◄─  01 00 FB 01 flags, name, map, counts
//!                                   ◄─  01 00 FB 05 players
//! ```
//!
//! The messages arrive in one datagram or in two, in any order. Little-endian. The client's address is
//! not verified, so Hailer has no responder (spec/cs2d.md#8).

mod client;
pub mod deviation;
pub mod message;

pub use client::Cs2dExchange;

use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Proof, Protocol,
    Transport,
};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Cs2d;

static INFO: Info = Info {
    id: "cs2d",
    title: "CS2D",
    transport: Transport::Datagram,
    port: 36_963,
    proof: Proof::Nothing,
    amplification: Amplification {
        request: 1,
        reply: 0,
    },
    fields: &[
        Doc {
            key: "mode-number",
            help: "Number of the game mode, if it is unknown",
        },
        Doc {
            key: "registered-only",
            help: "Whether players need an account",
        },
        Doc {
            key: "fog-of-war",
            help: "Whether there is a fog of war",
        },
        Doc {
            key: "friendly-fire",
            help: "Whether players can hurt their team",
        },
        Doc {
            key: "lua",
            help: "Whether the server runs scripts in Lua",
        },
        Doc {
            key: "forced-light",
            help: "Whether light is forced",
        },
        Doc {
            key: "recoil",
            help: "Whether weapons recoil",
        },
        Doc {
            key: "damage-off-screen",
            help: "Whether there is damage outside of the screen",
        },
        Doc {
            key: "downloads",
            help: "Whether the server offers files",
        },
    ],
    player_fields: &[
        Doc {
            key: "id",
            help: "Number of the player",
        },
        Doc {
            key: "deaths",
            help: "Deaths",
        },
    ],
    deviations: deviation::ALL,
    has_responder: false,
    options: &[],
};

impl Protocol for Cs2d {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(Cs2dExchange::new(ask))
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
