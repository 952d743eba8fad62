//! OpenTTD: the query of servers before 12.0. UDP, on the port of the game.
//!
//! ```text
//!   client              server
//!     03 00 00     ─►
//!                  ◄─  length 01 game information
//! ```
//!
//! Little-endian. Since 12.0 the reply is `03 00 01`, without information. The client's address is
//! not verified (spec/openttd-udp.md#6).

mod client;
pub mod deviation;
mod server;

pub use client::OpenTtdUdpExchange;
pub use server::OpenTtdUdpResponder;

use crate::model::{Extra, Status};
use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Direction, Discovery, Doc, Exchange, Explanation,
    Info, Options, Protocol, ResponderResult,
};
use crate::protocols::openttd::info;
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct OpenTtdUdp;

/// The request: a packet of type 0 without a body.
const REQUEST: [u8; 3] = [3, 0, 0];
/// Type of a reply.
const REPLY_KIND: u8 = 1;
/// A reply without information.
const EMPTY_REPLY: [u8; 3] = [3, 0, REPLY_KIND];

static INFO: Info = Info {
    id: "openttd-udp",
    title: "OpenTTD before 12.0",
    port: 3979,
    amplification: Amplification {
        request: REQUEST.len(),
        reply: EMPTY_REPLY.len(),
    },
    // spec/openttd.md#1
    discovery: &[Discovery::Broadcast { ports: &[3_979] }],
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
        Doc::new("language", "Number of the server's language"),
        Doc::new("extensions", "Extensions (NewGRF) with id, MD5 and name"),
        Doc::new(
            "moved-to-tcp",
            "True if the reply has no details, because the server replies over TCP",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::DATAGRAM
};

impl Protocol for OpenTtdUdp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(OpenTtdUdpExchange::new(ask))
    }

    fn responder(&self, _: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(OpenTtdUdpResponder))
    }

    fn sample(&self, _: u64) -> Status {
        Status {
            extra: [Extra::new("moved-to-tcp", true)].into(),
            ..Status::default()
        }
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        let length = info::packet_length(bytes).ok().flatten()?;
        let (message, direction) = match bytes.get(2)? {
            0 if length == REQUEST.len() => ("request", Direction::Request),
            1 if length == EMPTY_REPLY.len() => ("empty reply", Direction::Reply),
            &REPLY_KIND => (info::INFORMATION, Direction::Reply),
            _ => return None,
        };
        info::explain(message, direction, bytes, seen, notes)
    }
}
