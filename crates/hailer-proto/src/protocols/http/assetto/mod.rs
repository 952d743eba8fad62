//! Assetto Corsa: the HTTP interface of the game server. HTTP.
//!
//! ```text
//!   client                 server
//!     GET /INFO      ─►
//!          ◄─  JSON: name, track, counts
//!     GET /JSON%7C0  ─►
//!          ◄─  JSON: the cars with their drivers
//! ```
//!
//! The interface is public (spec/assetto.md).

mod client;
pub mod deviation;

pub use client::AssettoFiles;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Assetto;

static INFO: Info = Info {
    id: "assetto",
    title: "Assetto Corsa",
    port: 8081,
    fields: &[
        Doc::new("cars", "Models of cars"),
        Doc::new(
            "session",
            "Kind of the session: `practice`, `qualify`, `race`, or a number",
        ),
        Doc::new("time-left", "Time left in the session, in seconds"),
        Doc::new("time-of-day", "Position of the sun, as the server sends it"),
        Doc::new(
            "pickup",
            "Whether players may join without being on the entry list",
        ),
        Doc::new("tcp-port", "TCP port of the game"),
        Doc::new("http-port", "Port of the HTTP interface"),
        Doc::new("unanswered", "Files without a usable response, by name"),
    ],
    player_fields: &[Doc::new("car", "Model of the car")],
    deviations: deviation::ALL,
    ..Info::HTTP
};

impl Protocol for Assetto {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<AssettoFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<AssettoFiles>(&INFO).explain(bytes, seen, notes)
    }
}
