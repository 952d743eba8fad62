//! NetQuake: Quake and Hexen II before QuakeWorld. UDP.
//!
//! ```text
//!   client                          server
//!     80 00 length 02 "QUAKE" 3  ─►
//!                                ◄─  80 00 length 83 address, name, map, counts
//!     80 00 length 03 number     ─►                                               for each player
//!                                ◄─  80 00 length 84 number, name, colors, …
//!     80 00 length 04 rule       ─►                                               for each rule
//!                                ◄─  80 00 length 85 rule, value
//! ```
//!
//! The client's address is not verified, so Hailer has no responder (spec/netquake.md#8).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::wire`.

mod client;
pub mod deviation;
pub mod ffow;
pub mod message;

pub use client::NetQuakeExchange;

use crate::protocol::{Composed, Doc, Info};
use crate::sample;
use alloc::boxed::Box;

static INFO: Info = Info {
    id: "netquake",
    title: "Quake (NetQuake)",
    port: 26_000,
    fields: &[
        Doc::new("protocol-version", "Version of the protocol"),
        Doc::new(
            "unanswered",
            "Lists that are incomplete: `players` or `rules`",
        ),
    ],
    player_fields: &[
        Doc::new("shirt", "Color of the shirt, 0 to 15"),
        Doc::new("trousers", "Color of the trousers, 0 to 15"),
        Doc::new("bot", "Whether the player is a bot"),
    ],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(NetQuakeExchange::new(ask)),
    responder: None,
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
