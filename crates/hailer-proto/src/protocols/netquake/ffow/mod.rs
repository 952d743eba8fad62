//! Frontlines: Fuel of War: a variant of A2S with other letters and byte order. UDP.
//!
//! ```text
//!   client                       server
//!     FF FF FF FF "FLSQ"      ─►
//!                             ◄─  FF FF FF FF "I" protocol, name, map, …
//!     FF FF FF FF "W"         ─►
//!                             ◄─  FF FF FF FF "A" challenge
//!     FF FF FF FF "U" challenge ─►
//!                             ◄─  FF FF FF FF "D" players
//!     FF FF FF FF "V" challenge ─►
//!                             ◄─  FF FF FF FF "E" rules
//! ```
//!
//! Big-endian. The largest reply needs no challenge, so Hailer has no responder (spec/ffow.md#8).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::FfowExchange;

use crate::protocol::{Composed, Doc, Info};
use crate::sample;
use alloc::boxed::Box;

static INFO: Info = Info {
    id: "ffow",
    title: "Frontlines: Fuel of War",
    port: 5478,
    declares_charset: false,
    fields: &[
        Doc::new("protocol-version", "Version of the protocol"),
        Doc::new("mod", "Folder of the mod"),
        Doc::new(
            "server-type",
            "Type of the server: a letter such as `d` for dedicated",
        ),
        Doc::new(
            "system",
            "Operating system: a letter such as `w` for Windows",
        ),
        Doc::new("fps", "Average frames per second"),
        Doc::new("round", "Current round"),
        Doc::new("rounds", "Number of rounds"),
        Doc::new("time-left-s", "Rest of the round in seconds"),
        Doc::new(
            "unanswered",
            "Requests without a reply: `players` and `rules`",
        ),
    ],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(FfowExchange::new(ask)),
    responder: None,
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
