//! Doom 3: the out-of-band query of Doom 3, Quake 4, Prey and Enemy Territory: Quake Wars. UDP.
//!
//! ```text
//!   client                                       server
//!     FF FF "getInfo" 00 challenge      ─►
//!                 ◄─  FF FF "infoResponse" 00 challenge version key 00 value 00 … players
//! ```
//!
//! The challenge is chosen by the client, and the server returns it. The client's address is not
//! verified (spec/doom3.md#9).
//!
//! May import: `crate::model`, `crate::one_request`, `crate::protocol`,
//! `crate::protocols::quake::infostring`, `crate::protocols::quake::players`, `crate::sample`,
//! `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use server::{Doom3Config, Doom3Responder, MaxReply};

use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Amplification, Discovery, Doc, Info, Wave};
use alloc::sync::Arc;
use message::{Reply, Request};

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "doom3",
        title: "Doom 3",
        port: 27666,
        wave: Wave::Later,
        amplification: Amplification {
            request: message::SHORTEST_REQUEST,
            reply: MaxReply::DEFAULT,
        },
        declares_charset: false,
        // spec/doom3.md#1
        discovery: &[Discovery::Broadcast {
            ports: &[27_666, 27_667, 27_668, 27_669],
        }],
        fields: &[
            Doc::new("protocol-version", "Version of the protocol, such as 1.41"),
            Doc::new("ranked", "Whether the server is ranked"),
            Doc::new("time-left-ms", "Rest of the match in milliseconds"),
            Doc::new("state", "Number of the state of the match"),
            Doc::new("viewers", "Viewers of Quake Wars TV"),
            Doc::new("max-viewers", "Maximum number of viewers"),
        ],
        player_fields: &[
            Doc::new("id", "Number of the player's slot"),
            Doc::new("rate", "Bandwidth of the player in bytes per second"),
            Doc::new("clan", "Clan"),
            Doc::new("bot", "Whether the player is a bot"),
            Doc::new("experience", "Experience in this campaign"),
            Doc::new("kills", "Kills"),
            Doc::new("deaths", "Deaths"),
        ],
        deviations: deviation::ALL,
        has_responder: true,
        options: server::OPTIONS,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::request("info request", Mark::Is(Request::is_request), |r| {
            Request::read(r.whole(), r.notes()).map(drop)
        })
        .certain(),
        Message::reply("info reply", Mark::Is(Reply::is_reply)).certain(),
    ],
    requests: Some(client::requests),
    is_answer: client::is_answer,
    read: client::read,
    responder: Some(|status, _, options| {
        let config = Doom3Config::read(options)?;
        Ok(Arc::new(Doom3Responder::new(status, &config)))
    }),
    sample: sample::status,
};
