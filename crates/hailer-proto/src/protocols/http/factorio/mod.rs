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

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Factorio;

static INFO: Info = Info {
    id: "factorio",
    title: "Factorio",
    port: 34197,
    service: Some(client::HOST),
    has_listed_addresses: true,
    fields: &[
        Doc::new("game-id", "Number of the game in the list"),
        Doc::new("tags", "Tags"),
        Doc::new("mods", "Mods with their versions"),
        Doc::new("minutes", "Time played, in minutes"),
        Doc::new("heartbeat", "When the server last reported to the list"),
        Doc::new("service", "The remote service that reports the status"),
    ],
    ..Info::HTTP
};

impl Protocol for Factorio {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<FactorioFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<FactorioFiles>(&INFO).explain(bytes, seen, notes)
    }
}
