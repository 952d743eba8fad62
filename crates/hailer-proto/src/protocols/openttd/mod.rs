//! OpenTTD: the query of servers since 12.0. TCP, on the port of the game.
//!
//! ```text
//!   client              server
//!     03 00 07     ─►
//!                  ◄─  length 06 game information
//! ```
//!
//! Little-endian. The server replies to one request and closes. Servers before 12.0 reply over UDP.
//!
//! May import: `crate::model`, `crate::one_request`, `crate::protocol`, `crate::sample`,
//! `crate::token`, `crate::wire`.

pub mod info;
pub mod openttd_udp;

use crate::model::{Extra, Status, Text};
use crate::one_request::{Mark, Message, OneStream, frame_of};
use crate::protocol::{Discovery, Doc, Fault, Info};
use crate::sample;
use crate::wire::{Error, Reader};
use alloc::vec::Vec;

/// The protocol.
pub static PROTOCOL: OneStream = OneStream {
    info: &Info {
        id: "openttd",
        title: "OpenTTD",
        port: 3979,
        // Servers reply over UDP, without information (spec/openttd.md#1).
        discovery: &[Discovery::Request {
            ports: &[3_979],
            request: b"\x03\0\0",
            reply: b"\x03\0\x01",
        }],
        fields: &[
            Doc::new("spectators", "Number of clients that only watch"),
            Doc::new("companies", "Number of companies"),
            Doc::new("max-companies", "Maximum number of companies"),
            Doc::new("width", "Width of the map in tiles"),
            Doc::new("height", "Height of the map in tiles"),
            Doc::new(
                "landscape",
                "Landscape: `temperate`, `arctic`, `tropic`, `toyland`, or a number",
            ),
            Doc::new(
                "dedicated",
                "Whether the server runs without a player at its machine",
            ),
            Doc::new("date", "Date in the game, as year, month and day"),
            Doc::new("start-date", "Date in the game at its start"),
            Doc::new("ticks", "Ticks played"),
            Doc::new("language", "Number of the server's language, before 12.0"),
            Doc::new("script", "Game script with name and version"),
            Doc::new("extensions", "Extensions (NewGRF) with id, MD5 and name"),
            Doc::new(
                "refusal",
                "Why the server sends no details: `full` or `banned`",
            ),
        ],
        deviations: info::ALL,
        has_responder: true,
        ..Info::CONNECTED
    },
    messages: &[
        Message::request("request", Mark::Exactly(REQUEST), |r| {
            info::read_header(r).map(drop)
        }),
        Message::reply(
            "game information",
            Mark::Is(|bytes| info::is_packet(bytes, INFORMATION)),
        ),
        Message::reply("full", Mark::Exactly(&[3, 0, FULL])),
        Message::reply("banned", Mark::Exactly(&[3, 0, BANNED])),
    ],
    frame: |bytes| {
        let length = info::packet_length(bytes)?;
        Ok(frame_of(bytes.len(), length.unwrap_or(3)))
    },
    request: Some(REQUEST),
    read,
    reply: Some(|status| info::write(INFORMATION, status)),
    sample: sample_status,
    ..OneStream::PLAIN
};

/// The request: a packet of type 7 without a body.
const REQUEST: &[u8] = &[3, 0, 7];
/// Types of replies: the server is full, the client is banned, and the game information.
const FULL: u8 = 0;
const BANNED: u8 = 1;
const INFORMATION: u8 = 6;

/// Reads a reply (spec/openttd.md#4).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let refusal = match info::read_header(r)? {
        INFORMATION => return Ok(info::read(r, status)?),
        FULL => "full",
        BANNED => "banned",
        _ => return Err(Error::bad("packet type", 2, "0, 1 or 6").into()),
    };
    status.add_extra("refusal", Some(refusal));
    Ok(())
}

fn sample_status(seed: u64) -> Status {
    let mut server = sample::Server::new(seed);
    server.status.map = None;
    server.status.name = Some(Text::unformatted(server.name.clone()));
    let online = server.players.len() as i64;
    let random = &mut server.random;
    let mut status = Status {
        version: Some(random.text(&["14.1", "13.4", "15.0-beta2"]).into()),
        has_password: Some(random.below(8) == 0),
        ..server.status
    };
    status.players.online = Some(online);
    status.players.max = Some(64);
    let spectators = random.below(online as u64 + 1) as i64;
    let side = |random: &mut sample::Random| 64_i64 << random.below(6);
    let width = side(random);
    let height = side(random);
    let days = 712_223 + random.below(40_000) as u32;
    let landscape = random.pick(&["temperate", "arctic", "tropic", "toyland"]);
    status.extra = Vec::from([
        Extra::new("spectators", spectators),
        Extra::new("companies", random.below(15) as i64),
        Extra::new("max-companies", 15_i64),
        Extra::new("width", width),
        Extra::new("height", height),
        Extra::new("landscape", landscape),
        Extra::new("dedicated", true),
        Extra::new("date", info::date_text(days)),
        Extra::new("start-date", "1950-01-01"),
        Extra::new("ticks", random.below(1 << 32) as i64),
    ]);
    status
}
