//! Vintage Story: the query of servers. TCP, on the port of the game.
//!
//! ```text
//!   client                            server
//!     length, packet 15: query   ─►
//!                                ◄─  length, packet 28: status
//! ```
//!
//! Length big-endian, packets in Protobuf. Servers without a mod reply with packet 9 instead, which
//! only shows that they are up.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::VintageStoryFormat;
pub use server::VintageStoryServer;

use crate::model::{Status, Text};
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
pub struct VintageStory;

static INFO: Info = Info {
    id: "vintage-story",
    title: "Vintage Story",
    port: 42420,
    fields: &[
        Doc::new("details", "False if the server is up but sends no status"),
        Doc::new(
            "reason",
            "Why the server sends no status, if it has another reason than most",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::CONNECTED
};

impl Protocol for VintageStory {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::<VintageStoryFormat>::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(SingleResponder::new(VintageStoryServer::new(
            status,
        ))))
    }

    fn sample(&self, seed: u64) -> Status {
        let mut server = sample::Server::new(seed);
        let random = &mut server.random;
        let motd = random.text(&["Welcome", "caf\u{E9}", "\u{2605} season 7"]);
        let mut status = Status {
            name: Some(Text::unformatted(server.name)),
            motd: Some(Text::unformatted(motd)),
            mode: Some(random.text(&["survival", "creative"]).into()),
            version: Some(random.text(&["1.22.7", "1.21.0"]).into()),
            has_password: Some(random.below(8) == 0),
            ..Status::default()
        };
        status.players.online = Some(server.players.len() as i64);
        status.players.max = Some(64);
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
