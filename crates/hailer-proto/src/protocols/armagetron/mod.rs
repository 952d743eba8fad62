//! Armagetron Advanced: information about a server in two forms. UDP.
//!
//! ```text
//!   client                        server
//!     00 34 00 00 00 00 00 00  ─►
//!                              ◄─  00 32 … port, address
//!     00 35 00 00 00 00 00 00  ─►
//!                              ◄─  00 33 … port, address, name, players, …
//! ```
//!
//! Units of two bytes, big-endian. A server that is on no list sends the second form only after the
//! first. The client's address is not verified, so Hailer has no responder (spec/armagetron.md#8).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::ArmagetronExchange;

use crate::protocol::{Composed, Doc, Info};
use crate::sample;
use alloc::boxed::Box;

static INFO: Info = Info {
    id: "armagetron",
    title: "Armagetron Advanced",
    port: 4534,
    declares_charset: false,
    fields: &[
        Doc::new("min-version", "Lowest version of the network protocol"),
        Doc::new("max-version", "Highest version of the network protocol"),
        Doc::new("options", "Description of the settings"),
        Doc::new("website", "Website of the server"),
    ],
    player_fields: &[Doc::new("account", "Account of the player")],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(ArmagetronExchange::new(ask)),
    responder: None,
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
