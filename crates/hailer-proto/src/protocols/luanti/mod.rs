//! Luanti (Minetest): whether a server is up. The protocol has no status. UDP.
//!
//! ```text
//!   client                                    server
//!     4F 45 74 03 00 00 00 01              ─►
//!                                          ◄─  4F 45 74 03 00 01 channel 03 … 00 01 number
//!     4F 45 74 03 number 00 00 03          ─►
//! ```
//!
//! Big-endian. Hailer has no responder: a status is more than the protocol carries
//! (spec/luanti.md#6).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::LuantiExchange;

use crate::protocol::{Composed, Doc, Info};
use crate::sample;
use alloc::boxed::Box;

static INFO: Info = Info {
    id: "luanti",
    title: "Luanti",
    port: 30_000,
    fields: &[Doc::new(
        "details",
        "False: the server is up, and the protocol has no status",
    )],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(LuantiExchange::new(ask)),
    responder: None,
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
