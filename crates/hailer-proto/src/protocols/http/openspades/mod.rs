//! Ace of Spades 0.75 and OpenSpades: the status server of pyspades and piqueserver. HTTP.
//!
//! ```text
//!   client             server
//!     GET /json  ─►
//!          ◄─  JSON: name, map, players
//! ```
//!
//! The owner enables the status server (spec/openspades.md#1).

mod client;

pub use client::OpenSpadesFiles;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct OpenSpades;

static INFO: Info = Info {
    id: "openspades",
    title: "Ace of Spades",
    port: 32886,
    fields: &[
        Doc::new("identifier", "Address of the game as the server writes it"),
        Doc::new("uptime", "Uptime in seconds"),
        Doc::new("map-version", "Version of the map"),
        Doc::new("map-author", "Author of the map"),
        Doc::new("scripts", "Names of the scripts"),
        Doc::new("scores", "Scores of the teams and the limit"),
    ],
    ..Info::HTTP
};

impl Protocol for OpenSpades {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<OpenSpadesFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<OpenSpadesFiles>(&INFO).explain(bytes, seen, notes)
    }
}
