//! Nitrado Query: a plugin of Hytale servers with a web server. HTTP with TLS.
//!
//! ```text
//!   client                        server
//!     GET /Nitrado/Query  ─►
//!             ◄─  JSON: Basic, Server, Universe, Players, Plugins, as far as they are public
//! ```
//!
//! Nothing is public by default (spec/nitrado.md#2).

mod client;
pub mod deviation;

pub use client::NitradoFiles;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Nitrado;

static INFO: Info = Info {
    id: "nitrado",
    title: "Nitrado Query",
    port: 5523,
    fields: &[
        Doc::new("revision", "Revision of the game"),
        Doc::new("patchline", "Patch line of the game"),
        Doc::new("protocol-version", "Number of the game's own protocol"),
        Doc::new(
            "protocol-hash",
            "Checksum of the game's own protocol, as text",
        ),
        Doc::new(
            "protocol-crc",
            "Checksum of the game's own protocol, as a signed number",
        ),
        Doc::new("default-world", "World that new players enter"),
        Doc::new("plugins", "Plugins of the server with version and state"),
    ],
    player_fields: &[Doc::new("world", "World that the player is in")],
    deviations: deviation::ALL,
    ..Info::HTTP
};

impl Protocol for Nitrado {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<NitradoFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<NitradoFiles>(&INFO).explain(bytes, seen, notes)
    }
}
