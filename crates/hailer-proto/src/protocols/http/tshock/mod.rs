//! TShock: the REST interface of modded Terraria servers. HTTP.
//!
//! ```text
//!   client                                               server
//!     GET /v2/server/status?players=true&rules=true ─►
//!          ◄─  JSON: name, world, counts, players, rules
//! ```
//!
//! The owner enables the interface, and may require a token (spec/tshock.md#1).

mod client;
pub mod deviation;

pub use client::TShockFiles;

use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol, Transport,
};
use crate::protocols::http::{self, FilesExchange};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct TShock;

static INFO: Info = Info {
    id: "tshock",
    title: "Terraria (TShock)",
    transport: Transport::Http,
    port: 7878,
    fields: &[
        Doc::new("tshock-version", "Version of TShock"),
        Doc::new("uptime", "Uptime as the server writes it"),
    ],
    deviations: deviation::ALL,
    ..Info::CONNECTED
};

impl Protocol for TShock {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FilesExchange::<TShockFiles>::new(ask))
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        http::explain::<TShockFiles>(bytes, seen, notes)
    }
}
