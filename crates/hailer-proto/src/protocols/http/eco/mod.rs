//! Eco: the front page of the game's web server. HTTP.
//!
//! ```text
//!   client                     server
//!     GET /frontpage   ─►
//!          ◄─  JSON: Info with name, counts, names of players; charts
//!     GET /info        ─►      if there is no front page
//!          ◄─  JSON: the same without the charts
//! ```
//!
//! The page is public (spec/eco.md).

mod client;
pub mod deviation;

pub use client::EcoFiles;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Eco;

static INFO: Info = Info {
    id: "eco",
    title: "Eco",
    port: 3001,
    fields: &[
        Doc::new(
            "total-players",
            "Players who ever joined; not a number of slots",
        ),
        Doc::new("admin-online", "Whether an administrator is online"),
        Doc::new("category", "Category"),
        Doc::new("language", "Language"),
        Doc::new("uptime", "Age of the world in seconds"),
        Doc::new(
            "time-left",
            "Seconds until the meteor falls; negative without one",
        ),
        Doc::new("meteor", "Whether there is a meteor"),
        Doc::new("animals", "Number of animals"),
        Doc::new("plants", "Number of plants"),
        Doc::new("laws", "Number of laws"),
        Doc::new("leader", "Name of the leader"),
        Doc::new("world-size", "Size of the world as the server writes it"),
        Doc::new("economy", "Trades and contracts in words"),
        Doc::new("web-port", "Port of the web server"),
        Doc::new("lan", "Whether the server is one for a local network"),
    ],
    deviations: deviation::ALL,
    ..Info::HTTP
};

impl Protocol for Eco {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<EcoFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<EcoFiles>(&INFO).explain(bytes, seen, notes)
    }
}
