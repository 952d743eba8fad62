//! The client: one request (spec/openttd-udp.md#3).

use super::{EMPTY_REPLY, REPLY_KIND, REQUEST};
use crate::model::{Extra, Status};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::protocols::openttd::info::{self, GameInfo};
use crate::wire::{Error, Notes, Reader};
use alloc::{boxed::Box, vec::Vec};

/// Client side of one query.
#[derive(Debug)]
pub struct OpenTtdUdpExchange {
    depth: Depth,
}

impl OpenTtdUdpExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        Self { depth: ask.depth }
    }

    fn receive(&self, bytes: &[u8]) -> Step {
        if bytes.get(2) != Some(&REPLY_KIND) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        match read(bytes, &mut notes) {
            Err(error) => Step::Bad(error.into()),
            Ok(status) => {
                let mut status = match self.depth {
                    Depth::Ping => Box::default(),
                    Depth::Basic | Depth::Full => status,
                };
                status.deviations = notes.met().collect();
                Step::Done(status)
            }
        }
    }
}

fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Error> {
    if bytes == EMPTY_REPLY {
        let mut status = Box::<Status>::default();
        status.extra.push(Extra::new("moved-to-tcp", true));
        return Ok(status);
    }
    let mut r = Reader::new(bytes, notes);
    info::read_header(&mut r)?;
    Ok(GameInfo::read(&mut r)?.status())
}

impl Exchange for OpenTtdUdpExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start | Input::Timeout => {
                out.extend(REQUEST);
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OpenTtdUdp, OpenTtdUdpResponder};
    use super::*;
    use crate::{Epoch, Protocol, Responder, Verdict};

    #[test]
    fn replies_are_as_short_as_requests() {
        let mut exchange = OpenTtdUdpExchange::new(&Ask::default());
        let mut request = Vec::new();
        exchange.handle(Input::Start, &mut request);
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut reply = Vec::new();
        let verdict = OpenTtdUdpResponder.answer(from, Epoch(1), &request, &mut reply);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert_eq!(request.len(), reply.len());
        let step = exchange.handle(Input::Datagram(&reply), &mut Vec::new());
        assert_eq!(step, Step::Done(Box::new(OpenTtdUdp.sample(0))));
        let verdict = OpenTtdUdpResponder.answer(from, Epoch(1), &reply, &mut reply.clone());
        assert_eq!(verdict, Verdict::Pass);
    }
}
