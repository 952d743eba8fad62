//! Veloren: version, players and battle mode. UDP.
//!
//! ```text
//!   client                                server
//!     00 00 token kind zeros "veloren"  ─►            kind 1, token 0
//!                                ◄─  2 token version
//!     00 00 token kind zeros "veloren"  ─►            kind 2
//!                                ◄─  1 1 commit time players max mode
//! ```
//!
//! Requests are padded, so replies are shorter than requests. The token proves the client's address.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::testing`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::VelorenExchange;
pub use server::VelorenResponder;

use crate::model::{Extra, Status};
use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Options, Proof,
    Protocol, ResponderResult,
};
use crate::testing::sample::Server;
use crate::token::Keys;
use crate::wire::{Notes, hexadecimal};
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Veloren;

static INFO: Info = Info {
    id: "veloren",
    title: "Veloren",
    port: 14_006,
    proof: Proof::Token,
    amplification: Amplification {
        request: message::MIN_REQUEST,
        reply: message::INIT_REPLY,
    },
    fields: &[Doc::new(
        "commit-time",
        "Time of the game's commit in Unix seconds",
    )],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

impl Protocol for Veloren {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(VelorenExchange::new(ask))
    }

    fn responder(&self, status: &Status, keys: &Keys, options: &Options) -> ResponderResult {
        Ok(Arc::new(VelorenResponder::new(status, keys, options)?))
    }

    fn sample(&self, seed: u64) -> Status {
        let mut server = Server::new(seed);
        let hash = (server.random.next() as u32 | 1).to_be_bytes();
        let mode = server.random.text(&client::BATTLE_MODES);
        let time = 1_700_000_000 + server.random.below(100_000_000) as i64;
        let mut status = server.counts();
        status.version = Some(hexadecimal(&hash).into());
        status.mode = Some(mode.into());
        status.extra = [Extra::new("commit-time", time)].into();
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
