//! OneQuery V2: the status protocol of Hytale servers with the OneQuery plugin, on the game's own
//! UDP port.
//!
//! ```text
//!   client                                     server
//!     ONEQUERY 00                          ─►                                           9 bytes
//!                                          ◄─  ONEREPLY 00 token 00…                    48 bytes
//!     ONEQUERY 01 token id flags offset    ─►                                           51 bytes: basic
//!                                          ◄─  ONEREPLY 01 flags id length server-info
//!     ONEQUERY 02 token id flags offset    ─►                                           51 bytes: players
//!                                          ◄─  ONEREPLY 01 flags id length page         again for each page
//! ```
//!
//! Little-endian, except UUIDs. HyQuery uses the same messages with a second pair of magics. The
//! client falls back to the older version 1. The responder answers that only if an option is on,
//! because it does not verify the source (spec/onequery.md#8).
//!
//! Limits of the client: 100,000 players, 4,096 pages, 8 MiB of pages. Challenge tokens of the
//! responder are valid for 90 to 120 s.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod auth;
mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;
pub mod v1;

pub use auth::{AuthTokens, Endpoints};
pub use client::OneQueryExchange;
pub use server::{OneQueryConfig, OneQueryResponder};

use crate::protocol::{Amplification, Composed, Doc, Info, Proof, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "onequery",
    title: "OneQuery V2",
    port: 5520,
    wave: Wave::Last,
    place: 7,
    proof: Proof::Token,
    amplification: Amplification {
        request: message::CHALLENGE_REQUEST,
        reply: message::CHALLENGE_REPLY,
    },
    fields: &[
        Doc::new("protocol-version", "Number of the game's own protocol"),
        Doc::new(
            "protocol-hash",
            "Checksum of the game's own protocol, hexadecimal",
        ),
        Doc::new(
            "network",
            "Whether counts and players cover a whole network of servers",
        ),
        Doc::new(
            "plugin",
            "Plugin that answered, if the reply shows it: `OneQuery` or `HyQuery`",
        ),
        Doc::new(
            "plugins",
            "Plugins of the server with version and state, in version 1",
        ),
        Doc::new(
            "servers",
            "Servers of HyQuery's network with their counts, in version 1",
        ),
        Doc::new("unanswered", "Requests without a complete reply: `players`"),
        Doc::new(
            "auth-token",
            "`rejected` if the server refused an endpoint although an auth token was sent",
        ),
    ],
    player_fields: &[Doc::new(
        "server",
        "Server of HyQuery's network that the player is on, in version 1",
    )],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(OneQueryExchange::new(ask, cookie)),
    responder: Some(|status, keys, options| {
        Ok(Arc::new(OneQueryResponder::new(
            status,
            keys,
            &OneQueryConfig::read(options)?,
        )))
    }),
    sample: sample::status,
    explain: |bytes, seen, notes| {
        message::explain(bytes, seen, notes).or_else(|| v1::explain(bytes, seen.direction(), notes))
    },
};
