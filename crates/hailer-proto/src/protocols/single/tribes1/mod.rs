//! Starsiege: Tribes, and Starsiege: one request, one reply. UDP.
//!
//! ```text
//!   client             server
//!     "b" number    ─►
//!                   ◄─  "c" number "b" game, version, name, …, teams, players
//!     "r" number    ─►                                                           Starsiege
//!                   ◄─  "s" number "r" game, version, name, …, players
//! ```
//!
//! Little-endian. The client's address is not verified, so Hailer has no responder
//! (spec/tribes1.md#8).

mod client;
pub mod deviation;
pub mod message;

pub use client::Tribes1Client;

use crate::one_request::datagram::SingleExchange;
use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Tribes1;

static INFO: Info = Info {
    id: "tribes1",
    title: "Starsiege: Tribes",
    port: 28_001,
    declares_charset: false,
    fields: &[
        Doc::new("dedicated", "Whether it is a dedicated server"),
        Doc::new("cpu-mhz", "Speed of the server's processor in MHz"),
        Doc::new("mods", "Mods"),
        Doc::new("teams", "Teams with their columns"),
    ],
    player_fields: &[
        Doc::new("loss", "Packet loss in percent"),
        Doc::new("columns", "Further columns of the list of players"),
    ],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

impl Protocol for Tribes1 {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::new(ask, Tribes1Client::new(ask, cookie)))
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
