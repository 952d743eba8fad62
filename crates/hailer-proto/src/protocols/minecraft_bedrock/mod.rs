//! Minecraft Bedrock ping: the status that Bedrock clients show in their server list. UDP.
//!
//! ```text
//!   client                            server
//!     01 time magic guid     ─►                      ping, always 33 bytes
//!                            ◄─  1C time guid magic length text
//!                                text: MCPE;name;protocol;version;online;max;…
//! ```
//!
//! The number `time` ties the reply to the request. The client's address is not verified: the
//! responder limits its text (spec/minecraft-bedrock.md#10).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::BedrockExchange;
pub use server::{BedrockConfig, BedrockResponder};

use crate::model::Codes;
use crate::protocol::{Amplification, Composed, Discovery, Doc, Info, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "minecraft-bedrock",
    title: "Minecraft Bedrock Ping",
    port: 19132,
    // spec/minecraft-bedrock.md#1
    ipv6_port: Some(19_133),
    wave: Wave::First,
    place: 3,
    amplification: Amplification {
        request: message::SHORT_PING,
        reply: server::MAX_REPLY,
    },
    // spec/minecraft-bedrock.md#1
    discovery: &[Discovery::Broadcast { ports: &[19_132] }],
    fields: &[
        Doc::new("edition", "`MCPE`, or `MCEE` for Education Edition"),
        Doc::new("protocol", "Number of the game's protocol"),
        Doc::new("guid", "Number of the server, from the header of the pong"),
        Doc::new(
            "text-guid",
            "Number of the server in the text, if it differs from that in the header",
        ),
        Doc::new(
            "level-name",
            "Name of the world, or second line of the message of the day",
        ),
        Doc::new(
            "number",
            "Tenth field: 1, or 0 if only players on Nintendo consoles can join; the meaning is disputed",
        ),
        Doc::new("port", "Port of the game for IPv4"),
        Doc::new("ipv6-port", "Port of the game for IPv6"),
        Doc::new("further", "Fields after the twelfth"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    codes: |_| Codes::Bedrock,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(BedrockExchange::new(ask, cookie)),
    responder: Some(|status, _, options| {
        let config = BedrockConfig::read(options)?;
        Ok(Arc::new(BedrockResponder::new(status, &config)))
    }),
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
