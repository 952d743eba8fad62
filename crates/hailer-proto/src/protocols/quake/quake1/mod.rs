//! QuakeWorld and HexenWorld: the status query of the network versions of Quake and Hexen II. UDP.
//!
//! ```text
//!   client                                 server
//!     FF FF FF FF "status 151" LF ─►                 all variables and the players
//!                                 ◄─  FF FF FF FF "n" \key\value… LF id score minutes ping "name" … LF NUL
//! ```
//!
//! HexenWorld has five bytes FF. Nothing ties a reply to its request, and the client's address is
//! not verified (spec/quake1.md#9).
//!
//! May import: `crate::model`, `crate::one_request`, `crate::protocol`,
//! `crate::protocols::quake::infostring`, `crate::protocols::quake::players`, `crate::sample`,
//! `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use server::{MaxReply, Quake1Config, Quake1Responder};

use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Amplification, Discovery, Doc, Info, Wave};
use crate::wire::{Error, Reader};
use alloc::sync::Arc;
use message::{Reply, Request};

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "quake1",
        title: "QuakeWorld",
        port: 27500,
        wave: Wave::Later,
        amplification: Amplification {
            request: message::SHORTEST_REQUEST,
            reply: MaxReply::DEFAULT,
        },
        // Servers of Quake 2 ignore the number in a request of QuakeWorld (spec/quake2.md#2).
        dialect_of: Some("quake2"),
        // spec/quake1.md#1
        discovery: &[Discovery::Broadcast { ports: &[27_500] }],
        fields: &[Doc::new(
            "hexenworld",
            "Whether the server is one of HexenWorld",
        )],
        player_fields: &[
            Doc::new("id", "Number of the player's connection"),
            Doc::new(
                "name-bytes",
                "Bytes of the name in hexadecimal, if it has colors or symbols",
            ),
            Doc::new("skin", "Name of the skin"),
            Doc::new("top-color", "Number of the shirt's color"),
            Doc::new("bottom-color", "Number of the trousers' color"),
            Doc::new("flag", "Flag of the player's account"),
            Doc::new("bot", "Whether the player is a bot"),
            Doc::new("spectator", "Whether the player is a spectator"),
        ],
        deviations: deviation::ALL,
        has_responder: true,
        options: server::OPTIONS,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::request(
            "status request",
            Mark::Is(Request::is_certain),
            read_request,
        )
        .certain(),
        Message::request(
            "status request",
            Mark::Is(Request::is_request),
            read_request,
        ),
        Message::reply("status reply", Mark::Is(Reply::is_reply)).certain(),
    ],
    requests: Some(client::requests),
    read: client::read,
    responder: Some(|status, _, options| {
        let config = Quake1Config::read(options)?;
        Ok(Arc::new(Quake1Responder::new(status, &config)))
    }),
    sample: sample::status,
    ..OneDatagram::PLAIN
};

fn read_request(r: &mut Reader<'_, '_>) -> Result<(), Error> {
    Request::read(r.whole(), r.notes());
    Ok(())
}
