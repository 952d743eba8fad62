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

use crate::http::{self, FilesExchange};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol, Transport,
};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Assetto;

static INFO: Info = Info {
    id: "assetto",
    title: "Assetto Corsa",
    transport: Transport::Http,
    port: 8081,
    fields: &[
        Doc {
            key: "cars",
            help: "Models of cars",
        },
        Doc {
            key: "session",
            help: "Kind of the session: `practice`, `qualify`, `race`, or a number",
        },
        Doc {
            key: "time-left",
            help: "Time left in the session, in seconds",
        },
        Doc {
            key: "time-of-day",
            help: "Position of the sun, as the server sends it",
        },
        Doc {
            key: "pickup",
            help: "Whether players may join without being on the entry list",
        },
        Doc {
            key: "tcp-port",
            help: "TCP port of the game",
        },
        Doc {
            key: "http-port",
            help: "Port of the HTTP interface",
        },
        Doc {
            key: "unanswered",
            help: "Files without a usable response, by name",
        },
    ],
    player_fields: &[Doc {
        key: "car",
        help: "Model of the car",
    }],
    deviations: deviation::ALL,
    ..Info::CONNECTED
};

impl Protocol for Assetto {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FilesExchange::<AssettoFiles>::new(ask))
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        http::explain::<AssettoFiles>(bytes, seen, notes)
    }
}
