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
//! May import: `crate::model`, `crate::protocol`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::LuantiExchange;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Luanti;

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

impl Protocol for Luanti {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(LuantiExchange::new(ask))
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
