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
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::AseExchange;
pub use server::{AseResponder, MaxReply};

use crate::protocol::{Amplification, Composed, Doc, Info, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "ase",
    title: "All-Seeing Eye",
    port: 22_126,
    wave: Wave::Later,
    place: 10,
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

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(AseExchange::new(ask)),
    responder: Some(|status, _, options| {
        options.check(INFO.options)?;
        let max_reply = MaxReply::read(options)?;
        Ok(Arc::new(AseResponder::new(status, max_reply)))
    }),
    sample: sample::status,
    explain: message::explain,
};
