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
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::Cs2dExchange;

use crate::protocol::{Composed, Doc, Info};
use crate::sample;
use alloc::boxed::Box;

static INFO: Info = Info {
    id: "cs2d",
    title: "CS2D",
    port: 36_963,
    declares_charset: false,
    fields: &[
        Doc::new("mode-number", "Number of the game mode, if it is unknown"),
        Doc::new("registered-only", "Whether players need an account"),
        Doc::new("fog-of-war", "Whether there is a fog of war"),
        Doc::new("friendly-fire", "Whether players can hurt their team"),
        Doc::new("lua", "Whether the server runs scripts in Lua"),
        Doc::new("forced-light", "Whether light is forced"),
        Doc::new("recoil", "Whether weapons recoil"),
        Doc::new(
            "damage-off-screen",
            "Whether there is damage outside of the screen",
        ),
        Doc::new("downloads", "Whether the server offers files"),
        Doc::new("unanswered", "Part that did not arrive: `players`"),
    ],
    player_fields: &[
        Doc::new("id", "Number of the player"),
        Doc::new("deaths", "Deaths"),
    ],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(Cs2dExchange::new(ask)),
    responder: None,
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
