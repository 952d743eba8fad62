//! OpenTibia: the status of servers (TSQP). TCP, port 7171.
//!
//! ```text
//!   client                    server
//!     06 00 FF FF "info"  ─►
//!                         ◄─  XML
//! ```
//!
//! The server replies to one request and closes. It replies to an address only once in 5 s.
//!
//! May import: `crate::model`, `crate::one_request`, `crate::protocol`, `crate::sample`,
//! `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

use crate::model::{Extra, Status, Text};
use crate::one_request::{Mark, Message, OneStream};
use crate::protocol::{Doc, Info};
use crate::sample::Server;
use alloc::vec::Vec;

/// The protocol.
pub static PROTOCOL: OneStream = OneStream {
    info: &Info {
        id: "tibia",
        title: "OpenTibia",
        port: 7171,
        fields: &[
            Doc::new("peak", "Largest number of players so far"),
            Doc::new("uptime", "Time since the start of the server in seconds"),
            Doc::new("software", "Server software"),
            Doc::new("client", "Version of the game that players need"),
            Doc::new("location", "Location, as the owner states it"),
            Doc::new("url", "Web page of the server"),
            Doc::new("owner", "Name of the owner"),
            Doc::new("monsters", "Number of monsters"),
            Doc::new("npcs", "Number of characters of the server"),
            Doc::new("rates", "Rates of experience and other values, as sent"),
            Doc::new("map-author", "Author of the map"),
            Doc::new("width", "Width of the map"),
            Doc::new("height", "Height of the map"),
        ],
        deviations: deviation::ALL,
        has_responder: true,
        ..Info::CONNECTED
    },
    messages: &[
        Message::constant("request", "request", message::REQUEST)
            .by_start()
            .certain(),
        Message::reply("status", Mark::Is(message::is_reply)).certain(),
    ],
    frame: message::frame,
    read: client::read,
    closed: "it closes the connection without a reply: it replies to each address only once in 5 s",
    reply: Some(server::reply),
    sample,
    ..OneStream::PLAIN
};

fn sample(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let motd = random.text(&["Welcome", "caf\u{E9} & <bar>", "\u{2605} season 7"]);
    let mut status = Status {
        name: Some(Text::unformatted(server.name)),
        motd: Some(Text::unformatted(motd)),
        version: Some("1.6".into()),
        ..server.status
    };
    let online = server.players.len() as i64;
    status.players.online = Some(online);
    status.players.max = Some(1_000);
    status.extra = Vec::from([
        Extra::new("uptime", random.below(1 << 20) as i64),
        Extra::new("software", "The Forgotten Server"),
        Extra::new("client", "13.10"),
        Extra::new("peak", online + random.below(50) as i64),
    ]);
    status
}
