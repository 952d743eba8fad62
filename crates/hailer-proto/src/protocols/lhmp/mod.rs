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
//! May import: `crate::model`, `crate::protocol`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::LhmpExchange;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Lhmp;

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

impl Protocol for Lhmp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(LhmpExchange::new(ask))
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
