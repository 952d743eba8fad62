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

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct SatisfactoryApi;

static INFO: Info = Info {
    id: "satisfactory-api",
    title: "Satisfactory (API)",
    port: 7777,
    fields: &[
        Doc::new("session", "Name of the session"),
        Doc::new("running", "Whether a game is loaded"),
        Doc::new("paused", "Whether the game is paused"),
        Doc::new("tech-tier", "Highest tier of technology"),
        Doc::new("duration", "Time played, in seconds"),
        Doc::new("tick-rate", "Average number of ticks per second"),
        Doc::new("unanswered", "Requests without a usable response, by name"),
    ],
    ..Info::HTTP
};

impl Protocol for SatisfactoryApi {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<SatisfactoryFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<SatisfactoryFiles>(&INFO).explain(bytes, seen, notes)
    }
}
