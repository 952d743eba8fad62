//! BeamMP: the information of newer servers for `BeamNG.drive`. TCP.
//!
//! ```text
//!   client      server
//!     I    ─►
//!          ◄─  length, JSON
//!     P    ─►             on another connection, if there is no information
//!          ◄─  P
//! ```
//!
//! The connection proves the client's address. The port is that of the game.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::BeamMpExchange;

use crate::protocol::{Composed, Doc, Info};
use crate::sample;
use alloc::boxed::Box;

static INFO: Info = Info {
    id: "beammp",
    title: "BeamMP",
    port: 30814,
    fields: &[
        Doc::new(
            "private",
            "Whether the server is missing in the public list",
        ),
        Doc::new("guests", "Whether players without an account may join"),
        Doc::new("client-version", "Version of the client"),
        Doc::new("tags", "Tags, separated by commas"),
        Doc::new("mods", "Names of the mods, as the server writes them"),
        Doc::new("mod-count", "Number of mods"),
        Doc::new("mod-bytes", "Size of all mods in bytes"),
        Doc::new("unanswered", "Request without a reply: `information`"),
    ],
    deviations: deviation::ALL,
    ..Info::CONNECTED
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(BeamMpExchange::new(ask)),
    responder: None,
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
