//! Factorio: one game of the list of public games. HTTPS to the service, not to the server.
//!
//! ```text
//!   client                                       multiplayer.factorio.com
//!     GET /get-game-details/ADDRESS:PORT   ─►
//!          ◄─  JSON: name, players, mods
//! ```
//!
//! The server itself has no query. The list knows public games only (spec/factorio.md#1).

mod client;

pub use client::FactorioFiles;

use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol, Transport,
};
use crate::protocols::http::{self, FilesExchange};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Factorio;

static INFO: Info = Info {
    id: "factorio",
    title: "Factorio",
    transport: Transport::Http,
    port: 34197,
    fields: &[
        Doc::new("game-id", "Number of the game in the list"),
        Doc::new("tags", "Tags"),
        Doc::new("mods", "Mods with their versions"),
        Doc::new("minutes", "Time played, in minutes"),
        Doc::new("heartbeat", "When the server last reported to the list"),
        Doc::new("service", "The remote service that reports the status"),
    ],
    ..Info::CONNECTED
};

impl Protocol for Factorio {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn service(&self) -> Option<&'static str> {
        Some(client::HOST)
    }

    fn has_listed_addresses(&self) -> bool {
        true
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FilesExchange::<FactorioFiles>::new(ask))
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        http::explain::<FactorioFiles>(bytes, seen, notes)
    }
}
