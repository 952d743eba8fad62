//! GameSpy 1 (QR1): the query protocol of games from 1998 to about 2004, over UDP.
//!
//! ```text
//!   client                       server
//!     \status\          ─►
//!                       ◄─  \hostname\…\numplayers\2…\queryid\57.1
//!                       ◄─  \player_1\…\final\\queryid\57.2
//! ```
//!
//! Text without a declared encoding: pairs of keys and values between backslashes. A reply has up
//! to 64 datagrams; its last one has an end mark. Nothing verifies the client's address.
//!
//! Limits: requests have at most 255 bytes; the client keeps at most 64 parts and 64 KiB.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::gamespy`,
//! `crate::protocols::gamespy::deviation`, `crate::protocols::gamespy::sample`,
//! `crate::protocols::gamespy::status`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::GameSpy1Exchange;
pub use server::{GameSpy1Responder, MaxReply};

use crate::protocol::{Amplification, Composed, Doc, Info, Wave};
use crate::protocols::gamespy::sample;
use crate::protocols::gamespy::status::codes;
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "gamespy1",
    title: "GameSpy 1",
    port: 7778,
    wave: Wave::Later,
    place: 8,
    amplification: Amplification {
        request: 7,
        reply: MaxReply::DEFAULT,
    },
    declares_charset: false,
    fields: &[
        Doc::new(
            "teams",
            "Teams with name, score and other fields of the reply",
        ),
        Doc::new(
            "stale-players",
            "Names at the end of the list that have left, in Battlefield 1942",
        ),
        Doc::new(
            "unanswered",
            "`xserverquery` if only a later form of the request got a reply, so that keys may be missing; `parts` if the reply is incomplete",
        ),
    ],
    player_fields: &[
        Doc::new(
            "slot",
            "Number of the player, if it is not the position in the list",
        ),
        Doc::new(
            "fields",
            "Other fields of the player, such as deaths or skin, as sent",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: &[Doc::new(
        "max-reply",
        "Longest reply in bytes, 576 to 65507, default 1400; players that do not fit are left out; amplification grows with it",
    )],
    codes: |status| codes(status.game.as_deref()),
    ..Info::DATAGRAM
};

const GAMES: &[(&str, &str)] = &[("ut", "451"), ("mohaa", "1.11"), ("unreal", "226f")];

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(GameSpy1Exchange::new(ask)),
    responder: Some(|status, _, options| {
        options.check(INFO.options)?;
        let max_reply = MaxReply::read(options)?;
        Ok(Arc::new(GameSpy1Responder::new(status, max_reply)))
    }),
    sample: |seed| sample::status(seed, GAMES, 7777),
    explain: message::explain,
};
