//! The list ping responder: one reply, encoded once, with the fields that a client of 1.3 can show
//! (spec/minecraft-12w.md#6.1).

use super::message;
use crate::model::{Status, Text};
use crate::protocol::{Connection, ConnectionStep, Received, Responder, Verdict};
use crate::token::Epoch;
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use core::net::SocketAddr;

/// Responder for one server.
#[derive(Debug)]
pub struct ListPingResponder {
    reply: Arc<[u8]>,
}

/// Server side of one connection.
#[derive(Debug)]
struct ListPingConnection {
    reply: Arc<[u8]>,
}

impl ListPingResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status) -> Self {
        let motd = [&status.motd, &status.name]
            .into_iter()
            .flatten()
            .map(line)
            .find(|text| !text.is_empty());
        // The game uses non-negative 32-bit counts.
        let count = |count: i64| count.clamp(0, i64::from(i32::MAX));
        let (online, max) = (
            count(status.players.count()),
            count(status.players.max.unwrap_or(0)),
        );
        let mut reply = Vec::new();
        message::write_listing(&motd.unwrap_or_default(), online, max, &mut reply);
        Self {
            reply: reply.into(),
        }
    }
}

impl Responder for ListPingResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(ListPingConnection {
            reply: self.reply.clone(),
        }))
    }
}

impl Connection for ListPingConnection {
    fn receive(&mut self, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        if !message::is_list_ping(bytes) {
            return Received {
                consumed: 0,
                step: ConnectionStep::Pass,
            };
        }
        out.extend_from_slice(&self.reply);
        Received {
            consumed: bytes.len(),
            step: ConnectionStep::Close,
        }
    }
}

/// Returns a text in one line, without formatting codes and without separators of the parts.
fn line(text: &Text) -> String {
    text.plain().replace('\n', " ").replace('\u{A7}', "")
}

#[cfg(test)]
mod tests {
    use super::super::message::Listing;
    use super::*;
    use crate::wire::Notes;

    fn answer(status: &Status, request: &[u8]) -> (ConnectionStep, Vec<u8>) {
        let mut out = Vec::new();
        let from = SocketAddr::from(([192, 0, 2, 7], 50_000));
        let mut connection = ListPingResponder::new(status).connection(from).unwrap();
        let received = connection.receive(Epoch(1), request, &mut out);
        (received.step, out)
    }

    fn motd(status: &Status) -> String {
        let (_, reply) = answer(status, b"\xFE");
        Listing::read(&reply, &mut Notes::default())
            .unwrap()
            .unwrap()
            .motd
    }

    #[test]
    fn the_reply_is_that_of_the_spec_page() {
        let mut status = Status {
            motd: Some(Text::legacy("A")),
            ..Status::default()
        };
        status.players.max = Some(20);
        let reply = b"\xFF\0\x06\0A\0\xA7\x000\0\xA7\x002\x000".to_vec();
        for request in [&b"\xFE"[..], b"\xFE\x01", b"\xFE\x01\xFA\0\x0B"] {
            assert_eq!(
                answer(&status, request),
                (ConnectionStep::Close, reply.clone())
            );
        }
        for request in [
            &b""[..],
            b"\xFE\xFD\x09\0\0\0\x01",
            b"\xFF",
            b"\x02\x27",
            &reply,
        ] {
            assert_eq!(
                answer(&status, request),
                (ConnectionStep::Pass, Vec::new()),
                "{request:02x?}"
            );
        }
    }

    #[test]
    fn the_motd_is_one_line_without_codes() {
        let formatted = Text::legacy("\u{A7}6Hi \u{A7}lyou\nthere\x1b\0");
        let mut status = Status {
            motd: Some(formatted),
            name: Some(Text::unformatted("Name \u{A7}5")),
            ..Status::default()
        };
        assert_eq!(motd(&status), "Hi you there");
        status.motd = Some(Text::legacy("\u{A7}a"));
        assert_eq!(motd(&status), "Name 5");
        status.name = None;
        assert_eq!(motd(&status), "");
    }

    #[test]
    fn counts_stay_within_the_game() {
        let mut status = Status::default();
        (status.players.online, status.players.max) = (Some(-5), Some(i64::MAX));
        let (_, reply) = answer(&status, b"\xFE");
        let listing = Listing::read(&reply, &mut Notes::default())
            .unwrap()
            .unwrap();
        assert_eq!(
            (listing.online, listing.max),
            (Some(0), Some(2_147_483_647))
        );
    }
}
