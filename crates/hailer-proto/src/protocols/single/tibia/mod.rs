//! OpenTibia: the status of servers (TSQP). TCP, port 7171.
//!
//! ```text
//!   client                    server
//!     06 00 FF FF "info"  ─►
//!                         ◄─  XML
//! ```
//!
//! The server replies to one request and closes. It replies to an address only once in 5 s.
//!
//! May import: `crate::model`, `crate::one_request`, `crate::protocol`, `crate::testing`,
//! `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::TibiaFormat;
pub use server::TibiaServer;

use crate::model::{Extra, Status, Text};
use crate::one_request::stream::{SingleExchange, SingleResponder};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Options, Protocol,
    ResponderResult,
};
use crate::testing::sample;
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc, vec::Vec};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Tibia;

static INFO: Info = Info {
    id: "tibia",
    title: "OpenTibia",
    port: 7171,
    fields: &[
        Doc::new("peak", "Largest number of players so far"),
        Doc::new("uptime", "Time since the start of the server in seconds"),
        Doc::new("software", "Server software"),
        Doc::new("client", "Version of the game that players need"),
        Doc::new("location", "Location, as the owner states it"),
        Doc::new("url", "Web page of the server"),
        Doc::new("owner", "Name of the owner"),
        Doc::new("monsters", "Number of monsters"),
        Doc::new("npcs", "Number of characters of the server"),
        Doc::new("rates", "Rates of experience and other values, as sent"),
        Doc::new("map-author", "Author of the map"),
        Doc::new("width", "Width of the map"),
        Doc::new("height", "Height of the map"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::CONNECTED
};

impl Protocol for Tibia {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::<TibiaFormat>::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(SingleResponder::new(TibiaServer::new(status))))
    }

    fn sample(&self, seed: u64) -> Status {
        let mut server = sample::Server::new(seed);
        let random = &mut server.random;
        let motd = random.text(&["Welcome", "caf\u{E9} & <bar>", "\u{2605} season 7"]);
        let mut status = Status {
            name: Some(Text::unformatted(server.name)),
            motd: Some(Text::unformatted(motd)),
            version: Some("1.6".into()),
            ..server.status
        };
        let online = server.players.len() as i64;
        status.players.online = Some(online);
        status.players.max = Some(1_000);
        status.extra = Vec::from([
            Extra::new("uptime", random.below(1 << 20) as i64),
            Extra::new("software", "The Forgotten Server"),
            Extra::new("client", "13.10"),
            Extra::new("peak", online + random.below(50) as i64),
        ]);
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
