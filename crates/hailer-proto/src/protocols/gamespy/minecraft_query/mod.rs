//! Minecraft Query: the status protocol of Minecraft servers, a variant of GameSpy 4 over UDP.
//!
//! ```text
//!   client                                   server
//!     FE FD 09 session              ─►                      7 bytes
//!                                   ◄─  09 session "token" 00
//!     FE FD 00 session token        ─►                      11 bytes: basic stat
//!     FE FD 00 session token pad    ─►                      15 bytes: full stat
//!                                   ◄─  00 session …
//! ```
//!
//! Big-endian, except the port of the basic reply. Known problems of servers are on the spec page,
//! `spec/minecraft-query.md#5`; each accepted deviation is a constant in `deviation.rs`.
//!
//! Limits: a full stat has at most 1,024 pairs; a challenge token is accepted for 30 to 60 s.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::gamespy`,
//! `crate::protocols::gamespy::qr2`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::MinecraftQueryExchange;
pub use server::{Encoding, MaxReply, MinecraftQueryConfig, MinecraftQueryResponder};

use crate::model::{Extra, Rows, Value};
use crate::protocol::{Amplification, Composed, Discovery, Doc, Info, Proof, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "minecraft-query",
    title: "Minecraft Query",
    port: 25565,
    wave: Wave::First,
    place: 1,
    proof: Proof::Token,
    amplification: Amplification {
        request: message::HANDSHAKE_LENGTH,
        reply: message::CHALLENGE_MAX,
    },
    // spec/minecraft-query.md#1
    discovery: &[Discovery::Broadcast { ports: &[25_565] }],
    fields: &[
        Doc::new(
            "software",
            "Server software, the part of `plugins` before the colon; absent on vanilla",
        ),
        Doc::new(
            "plugins",
            "Plugins with their versions, the part of `plugins` after the colon",
        ),
        Doc::new(
            "unanswered",
            "`basic` if only a full request got a reply, although a basic one was enough",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

static PLUGIN: &[&str] = &["name", "version"];

/// Returns the extra field that lists plugins by name and version; `None` without plugins. A
/// version may be empty.
pub fn plugins<'a>(plugins: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Extra> {
    let mut rows = Rows::with_capacity(&PLUGIN, 16);
    for (name, version) in plugins {
        rows.push([Some(name), (!version.is_empty()).then_some(version)]);
    }
    (!rows.is_empty()).then_some(Extra::new("plugins", Value::Rows(rows)))
}

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(MinecraftQueryExchange::new(ask, cookie)),
    responder: Some(|status, keys, options| {
        Ok(Arc::new(MinecraftQueryResponder::new(
            status,
            keys,
            &MinecraftQueryConfig::read(options)?,
        )))
    }),
    sample: sample::status,
    explain: message::explain,
};
