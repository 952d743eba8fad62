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

use crate::http::{self, FilesExchange};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol, Transport,
};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Eco;

static INFO: Info = Info {
    id: "eco",
    title: "Eco",
    transport: Transport::Http,
    port: 3001,
    fields: &[
        Doc {
            key: "total-players",
            help: "Players who ever joined; not a number of slots",
        },
        Doc {
            key: "admin-online",
            help: "Whether an administrator is online",
        },
        Doc {
            key: "category",
            help: "Category",
        },
        Doc {
            key: "language",
            help: "Language",
        },
        Doc {
            key: "uptime",
            help: "Age of the world in seconds",
        },
        Doc {
            key: "time-left",
            help: "Seconds until the meteor falls; negative without one",
        },
        Doc {
            key: "meteor",
            help: "Whether there is a meteor",
        },
        Doc {
            key: "animals",
            help: "Number of animals",
        },
        Doc {
            key: "plants",
            help: "Number of plants",
        },
        Doc {
            key: "laws",
            help: "Number of laws",
        },
        Doc {
            key: "leader",
            help: "Name of the leader",
        },
        Doc {
            key: "world-size",
            help: "Size of the world as the server writes it",
        },
        Doc {
            key: "economy",
            help: "Trades and contracts in words",
        },
        Doc {
            key: "web-port",
            help: "Port of the web server",
        },
        Doc {
            key: "lan",
            help: "Whether the server is one for a local network",
        },
    ],
    deviations: deviation::ALL,
    ..Info::CONNECTED
};

impl Protocol for Eco {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FilesExchange::<EcoFiles>::new(ask))
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        http::explain::<EcoFiles>(bytes, seen, notes)
    }
}
