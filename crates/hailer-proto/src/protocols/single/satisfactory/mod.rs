//! Satisfactory: the lightweight query of dedicated servers, since 1.0 and before it. UDP.
//!
//! ```text
//!   client                            server
//!     D5 F6 00 01 cookie 01     ─►
//!                 ◄─  D5 F6 01 01 cookie state build flags parts name 01
//! ```
//!
//! Little-endian. The client's address is not verified. Replies are short
//! (spec/satisfactory.md#8).

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::SatisfactoryClient;
pub use server::SatisfactoryResponder;

use crate::model::{Extra, Status, Text};
use crate::one_request::datagram::SingleExchange;
use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Options,
    Protocol, ResponderResult,
};
use crate::testing::sample::Server;
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Satisfactory;

static INFO: Info = Info {
    id: "satisfactory",
    title: "Satisfactory",
    port: 7777,
    amplification: Amplification {
        request: message::REQUEST,
        reply: server::MAX_REPLY,
    },
    fields: &[
        Doc::new(
            "state",
            "State: `offline`, `idle` (no save is loaded), `loading`, `playing`, or a number",
        ),
        Doc::new("modded", "Whether the server has mods"),
        Doc::new("flags", "All flags, if the server sets unknown ones"),
        Doc::new(
            "parts",
            "Parts of the state with the number of their last change",
        ),
        Doc::new("beacon-port", "Port of the beacon, before 1.0"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::DATAGRAM
};

impl Protocol for Satisfactory {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::new(
            ask,
            SatisfactoryClient::new(ask, cookie),
        ))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(SatisfactoryResponder::new(status)))
    }

    fn sample(&self, seed: u64) -> Status {
        let mut server = Server::new(seed);
        let state = server.random.pick(&["idle", "loading", "playing"]);
        let is_modded = server.random.below(3) == 0;
        Status {
            name: Some(Text::unformatted(server.name)),
            version: Some("416835".into()),
            extra: [Extra::new("state", state), Extra::new("modded", is_modded)].into(),
            ..Status::default()
        }
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        message::explain(bytes, seen.direction(), notes)
    }
}
