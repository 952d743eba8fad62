//! Minecraft list ping: how clients of Minecraft 1.2.5 to 1.3.2 fill their server list. TCP.
//!
//! ```text
//!   client                       server
//!     FE          ─►                      list ping
//!                 ◄─  FF text             kick: motd § online § max
//!                                         the server closes the connection
//! ```
//!
//! The reply uses the packet that otherwise carries the reason for a disconnect
//! (spec/minecraft-12w.md#6.1). Servers of later versions reply too, for old clients.
//!
//! Limit: the text of a reply has at most 256 UTF-16 units.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::ListPingExchange;
pub use server::ListPingResponder;

use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, OptionError,
    Options, Proof, Protocol, Responder, Transport,
};
use crate::token::Keys;
use crate::{Status, Text, wire::Notes};
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Minecraft12w;

static INFO: Info = Info {
    id: "minecraft-12w",
    title: "Minecraft List Ping",
    games: "Minecraft 1.2.5 to 1.3.2 servers, and later ones for the sake of old clients",
    transport: Transport::Stream,
    port: 25565,
    srv: Some("_minecraft._tcp"),
    proof: Proof::Connection,
    amplification: Amplification {
        request: 1,
        reply: 0,
    },
    fields: &[Doc {
        key: "protocol",
        help: "Number of the game's protocol; only in the reply of 1.4 and later",
    }],
    player_fields: &[],
    deviations: deviation::ALL,
    options: &[],
};

impl Protocol for Minecraft12w {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(ListPingExchange::new(ask))
    }

    fn responder(
        &self,
        status: &Status,
        _: &Keys,
        options: &Options,
    ) -> Result<Arc<dyn Responder>, OptionError> {
        options.check(INFO.options)?;
        Ok(Arc::new(ListPingResponder::new(status)))
    }

    fn sample(&self, seed: u64) -> Status {
        let sample = crate::sample::status(seed);
        // A reply has a MOTD without formatting codes, and the player counts.
        let motd = sample.motd.map(|motd| motd.plain().replace('\n', " "));
        let mut status = Status {
            motd: motd.map(Text::unformatted),
            ..Status::default()
        };
        status.players.online = sample.players.online;
        status.players.max = sample.players.max;
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
