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
//! May import: `crate::model`, `crate::protocol`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::ArmagetronExchange;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Armagetron;

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

impl Protocol for Armagetron {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(ArmagetronExchange::new(ask))
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
