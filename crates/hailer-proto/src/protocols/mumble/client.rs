//! The client: the old form, and the new form where the version is cut (spec/mumble.md#4).

use super::deviation::CAPPED_PATCH;
use super::message::{MAX_PATCH, Reply, Request};
use crate::model::{Extra, Status};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Input, Step};
use crate::wire::Notes;
use alloc::{boxed::Box, format, vec::Vec};

/// Requests of the new form without a reply, after which the exchange ends without the exact
/// version.
const TRIES: u8 = 2;

/// Queries one Mumble server.
#[derive(Debug)]
pub struct MumbleExchange {
    depth: Depth,
    tag: [u8; 8],
    timestamp: u64,
    /// Timeouts in this state.
    silent: u8,
    /// Status of the old form, while the new form is requested.
    status: Option<Box<Status>>,
}

impl MumbleExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        Self {
            depth: ask.depth,
            tag: cookie.derive(0).to_be_bytes(),
            // Servers leave out a number of 0, and responders may require a long one.
            timestamp: cookie.derive(1) | 1 << 63,
            silent: 0,
            status: None,
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let is_new = self.status.is_some() || self.silent % 2 == 1;
        let request = if is_new {
            Request::New {
                timestamp: self.timestamp,
            }
        } else {
            Request::Old { tag: self.tag }
        };
        request.write(out);
        Step::Send
    }

    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        self.silent = self.silent.saturating_add(1);
        if self.status.is_some() && self.silent >= TRIES {
            return self.finish();
        }
        self.send(out)
    }

    /// Ends with the status of the old form.
    fn finish(&mut self) -> Step {
        match self.status.take() {
            Some(mut status) => {
                status.deviations.push(&CAPPED_PATCH);
                Step::Done(status)
            }
            None => Step::Wait,
        }
    }

    /// Returns whether bytes contain the tag or the timestamp of this exchange. It tells an
    /// unreadable reply from other datagrams.
    fn has_echo(&self, bytes: &[u8]) -> bool {
        let mut request = Vec::new();
        let timestamp = self.timestamp;
        Request::New { timestamp }.write(&mut request);
        let start = request.strip_suffix(&[0x10, 1]).unwrap_or(&request);
        let has_tag = bytes.len() > 12 && bytes.get(4..12) == Some(&self.tag);
        has_tag || bytes.starts_with(start)
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let is_reply = Reply::is_reply(bytes);
        if !is_reply && !self.has_echo(bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) if is_reply => reply,
            Ok(_) => return Step::Wait,
            Err(error) => return Step::Bad(error.into()),
        };
        let is_ours = reply.tag == Some(self.tag) || reply.timestamp == Some(self.timestamp);
        let is_old = reply.tag.is_some();
        if !is_ours || is_old && self.status.is_some() {
            return Step::Wait;
        }
        let mut status = match self.depth {
            Depth::Ping => Box::default(),
            Depth::Basic | Depth::Full => status(&reply),
        };
        status.deviations = notes.met().collect();
        let is_capped = is_old
            && reply
                .version
                .is_some_and(|[_, _, patch]| patch == MAX_PATCH);
        match self.depth {
            Depth::Full if is_capped => {
                self.status = Some(status);
                self.silent = 0;
                return self.send(out);
            }
            Depth::Basic if is_capped => status.deviations.push(&CAPPED_PATCH),
            _ => {}
        }
        Step::Done(status)
    }
}

impl Exchange for MumbleExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => self.timeout(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            _ => self.finish(),
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.status.is_some())
    }
}

/// Converts a reply to a status (spec/mumble.md#6).
fn status(reply: &Reply) -> Box<Status> {
    let mut status = Box::<Status>::default();
    let version = reply.version;
    status.version = version.map(|[major, minor, patch]| format!("{major}.{minor}.{patch}").into());
    status.players.online = Some(reply.users.into());
    status.players.max = reply.max.map(i64::from);
    let bandwidth = reply.bandwidth.map(i64::from);
    status
        .extra
        .extend(bandwidth.map(|bandwidth| Extra::new("bandwidth", bandwidth)));
    status
}

#[cfg(test)]
mod tests {
    use super::super::{MumbleConfig, MumbleResponder, PROTOCOL};
    use super::*;
    use crate::{Epoch, Protocol, Responder};
    use alloc::string::ToString;

    #[test]
    fn both_forms_take_turns() {
        let mut exchange = MumbleExchange::new(&Ask::default(), Cookie(1));
        let mut lengths = Vec::new();
        for input in [Input::Start, Input::Timeout, Input::Timeout, Input::Timeout] {
            let mut request = Vec::new();
            exchange.handle(input, &mut request);
            lengths.push(request.len());
        }
        let [old, new] = [12, 14];
        assert_eq!(lengths, [old, new, old, new]);
    }

    #[test]
    fn unreadable_replies_are_rejected() {
        let exchange = MumbleExchange::new(&Ask::default(), Cookie(7));
        let mut request = Vec::new();
        let timestamp = exchange.timestamp;
        Request::New { timestamp }.write(&mut request);
        let new = |rest: &[u8]| [&request[..request.len() - 2], rest].concat();
        let old = |tag: &[u8; 8], rest: &[u8]| [b"\0\x01\x03\x04", &tag[..], rest].concat();
        let numbers = b"\0\0\0\x0C\0\0\0\xFA\0\x01\xFB\xD0";
        let receive = |bytes: &[u8]| {
            let mut exchange = MumbleExchange::new(&Ask::default(), Cookie(7));
            match exchange.receive(bytes, &mut Vec::new()) {
                Step::Bad(fault) => fault.to_string(),
                Step::Wait => "wait".to_string(),
                step => panic!("{step:?}"),
            }
        };
        assert_eq!(receive(&old(b"hailer07", numbers)), "wait");
        let tag = &exchange.tag;
        assert_eq!(
            receive(&old(tag, &numbers[..11])),
            "bandwidth at offset 20: ends 1 byte too early"
        );
        assert_eq!(
            receive(&old(tag, &[&numbers[..], b"\0"].concat())),
            "end of message at offset 24: 1 byte left over"
        );
        for end in 1..numbers.len() {
            assert!(receive(&old(tag, &numbers[..end])).contains(" too early"));
        }
        // The request itself comes back.
        assert_eq!(receive(&request), "wait");
        let long = [b"\x20", &[0x80; 10][..], b"\x01"].concat();
        for (rest, field) in [(&long[..], "users"), (b"\x22\x7F\x02", "key")] {
            let error = receive(&new(rest));
            assert!(error.starts_with(&format!("{field} at offset ")), "{error}");
        }
    }

    #[test]
    fn samples_come_back_equal_in_both_forms() {
        for seed in 0..500 {
            let sample = PROTOCOL.sample(seed);
            let responder = MumbleResponder::new(&sample, &MumbleConfig::default());
            for input in [Input::Start, Input::Timeout] {
                let mut exchange = MumbleExchange::new(&Ask::default(), Cookie(seed));
                let mut request = Vec::new();
                let mut reply = Vec::new();
                assert_eq!(exchange.handle(input, &mut request), Step::Send);
                let from = "192.0.2.7:50000".parse().unwrap();
                responder.answer(from, Epoch(1), &request, &mut reply);
                let step = exchange.handle(Input::Datagram(&reply), &mut Vec::new());
                assert_eq!(step, Step::Done(Box::new(sample.clone())));
            }
        }
    }
}
