//! All-Seeing Eye (ASE): Multi Theft Auto, Far Cry and other games of 2001 to 2006, over UDP.
//!
//! ```text
//!   client            server
//!     s        ─►
//!              ◄─  "EYE1" game, port, name, mode, map, version, password, counts, rules, players
//!     r        ─►
//!              ◄─  "EYE2" the same without rules, and names only
//! ```
//!
//! Each text has a length byte in front, which counts itself. Nothing verifies the client's address,
//! and the shortest request has one byte.
//!
//! Limits: Hailer's replies have at most `max-reply` bytes (default 1,400); texts have at most 254 bytes.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::testing`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::AseExchange;
pub use server::{AseResponder, MaxReply};

use crate::model::Status;
use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Options,
    Protocol, ResponderResult, Wave,
};
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Ase;

static INFO: Info = Info {
    id: "ase",
    title: "All-Seeing Eye",
    port: 22_126,
    wave: Wave::Later,
    amplification: Amplification {
        request: 1,
        reply: MaxReply::DEFAULT,
    },
    declares_charset: false,
    fields: &[Doc::new(
        "unanswered",
        "`full` if only a short request got a reply, which lacks details",
    )],
    player_fields: &[
        Doc::new("skin", "Skin or model of the player, as sent"),
        Doc::new("time", "Time since the player joined, as sent"),
        Doc::new("score-text", "Score that is no number, as scripts set it"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: &[Doc::new(
        "max-reply",
        "Longest reply in bytes, 1000 to 65507, default 1400; players that do not fit are left out; amplification grows with it",
    )],
    ..Info::DATAGRAM
};

impl Protocol for Ase {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(AseExchange::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        let max_reply = MaxReply::read(options)?;
        Ok(Arc::new(AseResponder::new(status, max_reply)))
    }

    fn sample(&self, seed: u64) -> Status {
        sample::status(seed)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        message::explain(bytes, seen, notes)
    }
}
