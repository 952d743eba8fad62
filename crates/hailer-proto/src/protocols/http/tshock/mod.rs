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

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct TShock;

static INFO: Info = Info {
    id: "tshock",
    title: "Terraria (TShock)",
    port: 7878,
    fields: &[
        Doc::new("tshock-version", "Version of TShock"),
        Doc::new("uptime", "Uptime as the server writes it"),
    ],
    deviations: deviation::ALL,
    ..Info::HTTP
};

impl Protocol for TShock {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<TShockFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<TShockFiles>(&INFO).explain(bytes, seen, notes)
    }
}
