//! OpenTTD: the query of servers since 12.0. TCP, on the port of the game.
//!
//! ```text
//!   client              server
//!     03 00 07     ─►
//!                  ◄─  length 06 game information
//! ```
//!
//! Little-endian. The server replies to one request and closes. Servers before 12.0 reply over UDP.

mod client;
pub mod deviation;
pub mod info;
pub mod openttd_udp;
mod server;

pub use client::OpenTtdFormat;
pub use server::OpenTtdServer;

use crate::model::{Extra, Status, Text};
use crate::one_request::stream::{SingleExchange, SingleResponder};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Direction, Discovery, Doc, Exchange, Explanation, Info, Options,
    Protocol, ResponderResult,
};
use crate::testing::sample;
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc, vec::Vec};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct OpenTtd;

/// Types of packets.
mod kind {
    /// The server is full.
    pub(super) const FULL: u8 = 0;
    /// The client is banned.
    pub(super) const BANNED: u8 = 1;
    /// Reply with the game information.
    pub(super) const INFO: u8 = 6;
    /// Request for the game information.
    pub(super) const REQUEST: u8 = 7;
}

static INFO: Info = Info {
    id: "openttd",
    title: "OpenTTD",
    port: 3979,
    // Servers reply over UDP, without information (spec/openttd.md#1).
    discovery: &[Discovery::Request {
        ports: &[3_979],
        request: b"\x03\0\0",
        reply: b"\x03\0\x01",
    }],
    fields: &[
        Doc::new("spectators", "Number of clients that only watch"),
        Doc::new("companies", "Number of companies"),
        Doc::new("max-companies", "Maximum number of companies"),
        Doc::new("width", "Width of the map in tiles"),
        Doc::new("height", "Height of the map in tiles"),
        Doc::new(
            "landscape",
            "Landscape: `temperate`, `arctic`, `tropic`, `toyland`, or a number",
        ),
        Doc::new(
            "dedicated",
            "Whether the server runs without a player at its machine",
        ),
        Doc::new("date", "Date in the game, as year, month and day"),
        Doc::new("start-date", "Date in the game at its start"),
        Doc::new("ticks", "Ticks played"),
        Doc::new("language", "Number of the server's language, before 12.0"),
        Doc::new("script", "Game script with name and version"),
        Doc::new("extensions", "Extensions (NewGRF) with id, MD5 and name"),
        Doc::new(
            "refusal",
            "Why the server sends no details: `full` or `banned`",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::CONNECTED
};

impl Protocol for OpenTtd {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::<OpenTtdFormat>::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(SingleResponder::new(OpenTtdServer::new(status))))
    }

    fn sample(&self, seed: u64) -> Status {
        let mut server = sample::Server::new(seed);
        server.status.map = None;
        server.status.name = Some(Text::unformatted(server.name.clone()));
        let online = server.players.len() as i64;
        let random = &mut server.random;
        let mut status = Status {
            version: Some(random.text(&["14.1", "13.4", "15.0-beta2"]).into()),
            has_password: Some(random.below(8) == 0),
            ..server.status
        };
        status.players.online = Some(online);
        status.players.max = Some(64);
        let spectators = random.below(online as u64 + 1) as i64;
        let side = |random: &mut sample::Random| 64_i64 << random.below(6);
        let width = side(random);
        let height = side(random);
        let days = 712_223 + random.below(40_000) as u32;
        let landscape = random.pick(&["temperate", "arctic", "tropic", "toyland"]);
        status.extra = Vec::from([
            Extra::new("spectators", spectators),
            Extra::new("companies", random.below(15) as i64),
            Extra::new("max-companies", 15_i64),
            Extra::new("width", width),
            Extra::new("height", height),
            Extra::new("landscape", landscape),
            Extra::new("dedicated", true),
            Extra::new("date", info::date_text(days)),
            Extra::new("start-date", "1950-01-01"),
            Extra::new("ticks", random.below(1 << 32) as i64),
        ]);
        status
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        let (message, direction) = match bytes {
            [_, _, kind::REQUEST] => ("request", Direction::Request),
            [_, _, kind::INFO, ..] => (info::INFORMATION, Direction::Reply),
            [3, 0, kind::FULL] => ("full", Direction::Reply),
            [3, 0, kind::BANNED] => ("banned", Direction::Reply),
            _ => return None,
        };
        // Without a length, anything could have the type of a reply.
        let is_own = info::packet_length(bytes).is_ok_and(|length| length.is_some());
        if !is_own || message == "request" && !bytes.starts_with(client::REQUEST) {
            return None;
        }
        info::explain(message, direction, bytes, seen, notes)
    }
}
