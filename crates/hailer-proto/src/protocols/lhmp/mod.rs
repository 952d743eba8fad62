//! Lost Heaven Multiplayer: a mod of Mafia. UDP.
//!
//! ```text
//!   client          server
//!     "LHMPo"    ─►
//!                ◄─  "LHMPo" password, counts, name, mode, website, map
//!     "LHMPp"    ─►
//!                ◄─  "LHMPp" count, number and name of each player
//! ```
//!
//! Little-endian. Request and reply start with the same bytes, and the client's address is not
//! verified, so Hailer has no responder (spec/lhmp.md#6).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::LhmpExchange;

use crate::protocol::{Composed, Doc, Info};
use crate::sample;
use alloc::boxed::Box;

static INFO: Info = Info {
    id: "lhmp",
    title: "Lost Heaven Multiplayer",
    port: 27_016,
    declares_charset: false,
    fields: &[
        Doc::new("website", "Website of the server"),
        Doc::new("unanswered", "Request without a reply: `players`"),
    ],
    player_fields: &[Doc::new("id", "Number of the player")],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(LhmpExchange::new(ask)),
    responder: None,
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
