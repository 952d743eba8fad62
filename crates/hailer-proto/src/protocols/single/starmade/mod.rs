//! StarMade: the query of servers. TCP, on the port of the game.
//!
//! ```text
//!   client                                        server
//!     00 00 00 09 2A FF FF 01 6F 00 00 00 00  ─►
//!                       ◄─  length time 2A FF FF 01 6F values
//! ```
//!
//! Big-endian. The server replies to one request and closes.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::StarMadeFormat;
pub use server::StarMadeServer;

use crate::model::{Extra, Status, Text};
use crate::one_request::stream::{SingleExchange, SingleResponder};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Options, Protocol,
    ResponderResult,
};
use crate::testing::sample;
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct StarMade;

static INFO: Info = Info {
    id: "starmade",
    title: "StarMade",
    port: 4242,
    fields: &[
        Doc::new("start", "When the server started, in Unix milliseconds"),
        Doc::new(
            "info-version",
            "Version of the reply's layout, if it is not 2",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::CONNECTED
};

impl Protocol for StarMade {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::<StarMadeFormat>::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(SingleResponder::new(StarMadeServer::new(status))))
    }

    fn sample(&self, seed: u64) -> Status {
        let mut server = sample::Server::new(seed);
        let random = &mut server.random;
        let motd = random.text(&["a server of friends", "caf\u{E9}", "\u{2605} season 7"]);
        let mut status = Status {
            name: Some(Text::unformatted(server.name)),
            motd: Some(Text::unformatted(motd)),
            version: Some("0.203.175".into()),
            ..Status::default()
        };
        status.players.online = Some(server.players.len() as i64);
        status.players.max = Some(64);
        let start = 1_420_000_000_000 + random.below(1 << 38) as i64;
        status.extra.push(Extra::new("start", start));
        status
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
