//! Satisfactory: the API of dedicated servers since 1.0. HTTP with TLS, on the port of the game.
//!
//! ```text
//!   client                          server
//!     POST PasswordlessLogin  ─►
//!          ◄─  JSON: token
//!     POST QueryServerState   ─►
//!          ◄─  JSON: counts, session
//! ```
//!
//! Name and build are in the replies to `satisfactory` over UDP (spec/satisfactory-api.md#1).

mod client;

pub use client::SatisfactoryFiles;

use crate::http::{self, FilesExchange};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol, Transport,
};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct SatisfactoryApi;

static INFO: Info = Info {
    id: "satisfactory-api",
    title: "Satisfactory (API)",
    transport: Transport::Http,
    port: 7777,
    fields: &[
        Doc {
            key: "session",
            help: "Name of the session",
        },
        Doc {
            key: "running",
            help: "Whether a game is loaded",
        },
        Doc {
            key: "paused",
            help: "Whether the game is paused",
        },
        Doc {
            key: "tech-tier",
            help: "Highest tier of technology",
        },
        Doc {
            key: "duration",
            help: "Time played, in seconds",
        },
        Doc {
            key: "tick-rate",
            help: "Average number of ticks per second",
        },
        Doc {
            key: "unanswered",
            help: "Requests without a usable response, by name",
        },
    ],
    ..Info::CONNECTED
};

impl Protocol for SatisfactoryApi {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FilesExchange::<SatisfactoryFiles>::new(ask))
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        http::explain::<SatisfactoryFiles>(bytes, seen, notes)
    }
}
