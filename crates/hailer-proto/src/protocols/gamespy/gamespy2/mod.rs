//! GameSpy 2 (QR2 without split replies): the query protocol of games from 2002 to about 2006, over
//! UDP.
//!
//! ```text
//!   client                               server
//!     FE FD 00 id FF 00 00        ─►
//!                                 ◄─  00 id "hostname" 00 … 00 00
//!     FE FD 00 id 00 FF FF        ─►
//!                                 ◄─  00 id 00 02 "player_" 00 … 00 02 "team_t" 00 …
//! ```
//!
//! Big-endian; texts end with a NUL. Nothing verifies the client's address.
//!
//! Limits: requests have at most 255 bytes, replies 1,024 pairs and 1,024 rows.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::gamespy`,
//! `crate::protocols::gamespy::deviation`, `crate::protocols::gamespy::qr2`,
//! `crate::protocols::gamespy::sample`, `crate::protocols::gamespy::status`, `crate::token`,
//! `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::GameSpy2Exchange;
pub use server::{GameSpy2Responder, MaxReply};

use crate::protocol::{Amplification, Composed, Doc, Info};
use crate::protocols::gamespy::sample;
use crate::protocols::gamespy::status::codes;
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "gamespy2",
    title: "GameSpy 2",
    port: 2302,
    place: 13,
    amplification: Amplification {
        request: message::QUERY_LENGTH,
        reply: MaxReply::DEFAULT,
    },
    dialect_of: Some("minecraft-query"),
    declares_charset: false,
    fields: &[
        Doc {
            key: "teams",
            help: "Teams with name, score and other fields of the reply",
        },
        Doc {
            key: "unanswered",
            help: "`tables` if the request for players and teams got no reply",
        },
    ],
    player_fields: &[Doc {
        key: "fields",
        help: "Other fields of the player, such as deaths or skill, as sent",
    }],
    deviations: deviation::ALL,
    has_responder: true,
    options: &[Doc::new(
        "max-reply",
        "Longest reply in bytes, 576 to 65507, default 1400; players that do not fit are left out; amplification grows with it",
    )],
    codes: |status| codes(status.game.as_deref()),
    ..Info::DATAGRAM
};

const GAMES: &[(&str, &str)] = &[
    ("armedass", "1.18"),
    ("halor", "01.00.10.0621"),
    ("swat4", "1.1"),
];

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(GameSpy2Exchange::new(ask, cookie)),
    responder: Some(|status, _, options| {
        options.check(INFO.options)?;
        let max_reply = MaxReply::read(options)?;
        Ok(Arc::new(GameSpy2Responder::new(status, max_reply)))
    }),
    sample: |seed| sample::status(seed, GAMES, INFO.port),
    explain: message::explain,
};
