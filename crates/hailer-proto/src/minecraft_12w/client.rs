//! The list ping client: sends one byte and receives until the packet is complete.

use super::message::{self, Listing};
use crate::model::{Extra, Status, Text};
use crate::protocol::{Ask, Depth, Exchange, Fault, Frame, Input, Step};
use crate::wire::{Error, Notes};
use alloc::{boxed::Box, vec::Vec};

/// Queries one server.
#[derive(Debug)]
pub struct ListPingExchange {
    depth: Depth,
}

impl ListPingExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        Self { depth: ask.depth }
    }

    fn hear(&self, bytes: &[u8]) -> Step {
        let mut notes = Notes::default();
        let mut status = match Listing::read(bytes, &mut notes) {
            Err(error) => return Step::Bad(error.into()),
            Ok(None) => {
                return Step::Fail(Fault::Misbehaved(
                    "a kick without player counts; its text is the reason",
                ));
            }
            Ok(Some(_)) if self.depth == Depth::Ping => Status::default(),
            Ok(Some(listing)) => status(listing),
        };
        status.deviations = notes.met().collect();
        Step::Done(Box::new(status))
    }
}

impl Exchange for ListPingExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => {
                message::write_list_ping(out);
                Step::Send
            }
            Input::Datagram(bytes) => self.hear(bytes),
            // TCP loses nothing, so nothing is sent twice.
            Input::Timeout | Input::GiveUp | Input::Closed(_) | Input::Continue => Step::Wait,
        }
    }

    fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
        message::frame(bytes)
    }

    fn stage(&self) -> usize {
        0
    }
}

fn status(listing: Listing) -> Status {
    let mut status = Status {
        motd: Some(Text::legacy(listing.motd)),
        version: listing
            .version
            .filter(|version| !version.is_empty())
            .map(Into::into),
        ..Status::default()
    };
    (status.players.online, status.players.max) = (listing.online, listing.max);
    status.extra.extend(
        listing
            .protocol
            .map(|protocol| Extra::new("protocol", protocol)),
    );
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const REPLY: &[u8] = b"\xFF\0\x06\0A\0\xA7\x000\0\xA7\x002\x000";

    fn asking(depth: Depth) -> ListPingExchange {
        let mut exchange = ListPingExchange::new(&Ask {
            depth,
            ..Ask::default()
        });
        let mut out = Vec::new();
        assert_eq!(
            (exchange.handle(Input::Start, &mut out), &out[..]),
            (Step::Send, &b"\xFE"[..])
        );
        exchange
    }

    #[test]
    fn a_reply_is_parsed_when_complete() {
        let mut exchange = asking(Depth::Full);
        for end in 0..REPLY.len() {
            let step = exchange.handle(Input::Datagram(&REPLY[..end]), &mut Vec::new());
            assert!(
                matches!(&step, Step::Bad(fault) if fault.to_string().contains("too early")),
                "{step:?}"
            );
            assert_eq!(exchange.handle(Input::Timeout, &mut Vec::new()), Step::Wait);
        }
        let Step::Done(status) = exchange.handle(Input::Datagram(REPLY), &mut Vec::new()) else {
            panic!()
        };
        assert_eq!(
            (
                status.title().as_deref(),
                status.players.online,
                status.players.max
            ),
            (Some("A"), Some(0), Some(20))
        );
    }

    #[test]
    fn a_ping_is_a_sign_of_life() {
        let step = asking(Depth::Ping).handle(Input::Datagram(REPLY), &mut Vec::new());
        assert_eq!(step, Step::Done(Box::default()));
    }

    #[test]
    fn a_kick_for_another_reason_is_no_answer() {
        for depth in [Depth::Ping, Depth::Full] {
            let step = asking(depth).handle(Input::Datagram(b"\xFF\0\x02\0N\0o"), &mut Vec::new());
            assert!(matches!(step, Step::Fail(Fault::Misbehaved(_))), "{step:?}");
        }
    }
}
