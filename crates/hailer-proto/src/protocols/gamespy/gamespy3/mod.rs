//! GameSpy 3 (QR2 with split replies and challenge tokens): the query protocol of games from 2005
//! to about 2012, over UDP. Other programs also call it GameSpy 4 or UT3 query.
//!
//! ```text
//!   client                                   server
//!     FE FD 09 id                     ─►                      7 bytes
//!                                     ◄─  09 id "token" 00
//!     FE FD 00 id token FF FF FF 01   ─►                      15 bytes
//!                                     ◄─  00 id "splitnum" 00 00 sections
//!                                     ◄─  00 id "splitnum" 00 81 sections
//! ```
//!
//! Big-endian; texts end with a NUL. Minecraft Query is a dialect of this protocol.
//!
//! Limits: a reply has at most 8 parts, 64 KiB and 1,024 pairs; a challenge token is accepted for
//! 30 to 60 s.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::gamespy`,
//! `crate::protocols::gamespy::deviation`, `crate::protocols::gamespy::qr2`,
//! `crate::protocols::gamespy::sample`, `crate::protocols::gamespy::status`, `crate::token`,
//! `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::GameSpy3Exchange;
pub use server::{GameSpy3Config, GameSpy3Responder};

use crate::protocol::{Amplification, Composed, Doc, Info, Proof, Wave};
use crate::protocols::gamespy::sample;
use crate::protocols::gamespy::status::codes;
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "gamespy3",
    title: "GameSpy 3",
    port: 29_900,
    wave: Wave::Later,
    place: 5,
    proof: Proof::Token,
    amplification: Amplification {
        request: message::HANDSHAKE_LENGTH,
        reply: message::CHALLENGE_MAX,
    },
    dialect_of: Some("minecraft-query"),
    declares_charset: false,
    fields: &[
        Doc::new(
            "teams",
            "Teams with name, score and other fields of the reply",
        ),
        Doc::new(
            "settings",
            "Meanings of the numbered keys of Unreal Tournament 3",
        ),
        Doc::new("unanswered", "`parts` if the reply is incomplete"),
    ],
    player_fields: &[Doc::new(
        "fields",
        "Other fields of the player, such as deaths or skill, as sent",
    )],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    codes: |status| codes(status.game.as_deref()),
    ..Info::DATAGRAM
};

const GAMES: &[(&str, &str)] = &[
    ("battlefield2", "1.5.3153-802.0"),
    ("crysis", "1.1.1.6156"),
    ("stella", "1.10.112.0"),
];

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(GameSpy3Exchange::new(ask, cookie)),
    responder: Some(|status, keys, options| {
        let config = GameSpy3Config::read(options)?;
        Ok(Arc::new(GameSpy3Responder::new(status, keys, &config)))
    }),
    sample: |seed| sample::status(seed, GAMES, 16_567),
    explain: message::explain,
};
