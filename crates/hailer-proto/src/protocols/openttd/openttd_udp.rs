//! OpenTTD: the query of servers before 12.0. UDP, on the port of the game.
//!
//! ```text
//!   client              server
//!     03 00 00     ─►
//!                  ◄─  length 01 game information
//! ```
//!
//! Little-endian. Since 12.0 the reply is `03 00 01`, without information. The client's address is
//! not verified (spec/openttd-udp.md#6).

use super::info;
use crate::model::{Extra, Status};
use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{
    Amplification, Discovery, Doc, Fault, Info, Options, Responder, ResponderResult, Verdict,
};
use crate::token::{Epoch, Keys};
use crate::wire::Reader;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "openttd-udp",
        title: "OpenTTD before 12.0",
        port: 3979,
        place: 12,
        amplification: Amplification {
            request: REQUEST.len(),
            reply: EMPTY_REPLY.len(),
        },
        // spec/openttd.md#1
        discovery: &[Discovery::Broadcast { ports: &[3_979] }],
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
            Doc::new("language", "Number of the server's language"),
            Doc::new("extensions", "Extensions (NewGRF) with id, MD5 and name"),
            Doc::new(
                "moved-to-tcp",
                "True if the reply has no details, because the server replies over TCP",
            ),
        ],
        deviations: info::ALL,
        has_responder: true,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::request("request", Mark::Start(REQUEST), |r| {
            info::read_header(r).map(drop)
        }),
        Message::reply("empty reply", Mark::Start(EMPTY_REPLY)),
        Message::reply(
            "game information",
            Mark::Is(|bytes| info::is_packet(bytes, REPLY)),
        ),
    ],
    read,
    requests: Some(|_, _| Vec::from([REQUEST.into()])),
    responder: Some(responder),
    sample: sample_status,
    ..OneDatagram::PLAIN
};

/// The request: a packet of type 0 without a body.
const REQUEST: &[u8] = &[3, 0, 0];
/// Type of a reply.
const REPLY: u8 = 1;
/// A reply without information.
const EMPTY_REPLY: &[u8] = &[3, 0, REPLY];

/// Reads a reply (spec/openttd-udp.md#3).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    info::read_header(r)?;
    if r.remaining() > 0 {
        return Ok(info::read(r, status)?);
    }
    *status = sample_status(0);
    Ok(())
}

/// Returns the status of a server that has moved.
fn sample_status(_: u64) -> Status {
    Status {
        extra: [Extra::new("moved-to-tcp", true)].into(),
        ..Status::default()
    }
}

fn responder(_: &Status, _: &Keys, options: &Options) -> ResponderResult {
    options.check(PROTOCOL.info.options)?;
    Ok(Arc::new(OpenTtdUdpResponder))
}

/// Responder of any server: the reply of servers since 12.0, which refers to TCP. A reply with
/// information would have up to 130 times the length of its request (spec/openttd-udp.md#5).
struct OpenTtdUdpResponder;

impl Responder for OpenTtdUdpResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if bytes != REQUEST {
            return Verdict::Pass;
        }
        out.extend(EMPTY_REPLY);
        Verdict::Reply { is_verified: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ask, Cookie, Input, Protocol, Step};

    #[test]
    fn replies_are_as_short_as_requests() {
        let mut exchange = PROTOCOL.exchange(&Ask::default(), Cookie(1));
        let mut request = Vec::new();
        exchange.handle(Input::Start, &mut request);
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut reply = Vec::new();
        let verdict = OpenTtdUdpResponder.answer(from, Epoch(1), &request, &mut reply);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert_eq!(request.len(), reply.len());
        let step = exchange.handle(Input::Datagram(&reply), &mut Vec::new());
        assert_eq!(step, Step::Done(PROTOCOL.sample(0).into()));
        let verdict = OpenTtdUdpResponder.answer(from, Epoch(1), &reply, &mut reply.clone());
        assert_eq!(verdict, Verdict::Pass);
    }
}
