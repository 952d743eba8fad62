//! Protocols over TCP with one request and one reply on each connection.
//!
//! The client sends its request when the connection is open, reads one reply and closes. The server
//! answers the first request and closes.

use super::message::{self, Message, ReadReply};
use crate::model::Status;
use crate::protocol::{
    Ask, Connection, ConnectionStep, Cookie, DatagramContext, Depth, Exchange, Explanation, Fault,
    Frame, Info, Input, OptionError, Options, Protocol, Received, Responder, ResponderResult, Step,
    Verdict,
};
use crate::sample;
use crate::token::{Epoch, Keys};
use crate::wire::{Error, Notes, Reader};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

/// Returns whether bytes start with a whole request.
///
/// # Errors
///
/// The bytes do not start a request of this protocol.
pub type IsRequest = fn(&[u8]) -> Result<bool, Error>;

/// A protocol over TCP with one request and one reply on each connection. Without a request in
/// `messages`, the server sends first.
#[derive(Clone, Copy)]
pub struct OneStream {
    /// Static facts.
    pub info: &'static Info,
    /// All messages. Bytes belong to the first one whose mark they have.
    pub messages: &'static [Message],
    /// Returns where the reply ends. Fails if the bytes cannot start a reply, or if it is too long.
    pub frame: fn(&[u8]) -> Result<Frame, Error>,
    /// Reads a reply.
    pub read: ReadReply,
    /// Reason of a failed query if the server closes the connection without a reply: a clause about
    /// the server.
    pub closed: &'static str,
    /// Returns the reply of the server role for a status.
    pub reply: Option<fn(&Status) -> Vec<u8>>,
    /// The request of the client. `None`: the constant request of `messages`.
    pub request: Option<&'static [u8]>,
    /// Recognizes a request. `None`: it is the constant request of `messages`.
    pub is_request: Option<IsRequest>,
    /// As [`Protocol::sample`].
    pub sample: fn(u64) -> Status,
}

impl fmt::Debug for OneStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneStream")
            .field("id", &self.info.id)
            .finish_non_exhaustive()
    }
}

impl OneStream {
    /// A protocol without a server role, whose reply is all that the server sends.
    pub const PLAIN: Self = Self {
        info: &Info::CONNECTED,
        messages: &[],
        frame: |bytes| Ok(frame_of(bytes.len(), bytes.len() + 1)),
        read: |_, _| Ok(()),
        closed: "it closes the connection without a reply",
        reply: None,
        request: None,
        is_request: None,
        sample: sample::status,
    };

    /// Returns the request. Empty if there is none.
    fn request(&self) -> &'static [u8] {
        let mut constants = self.messages.iter().filter_map(Message::constant_bytes);
        self.request
            .or_else(|| constants.next())
            .unwrap_or_default()
    }

    /// Returns whether the server sends without a request.
    fn sends_first(&self) -> bool {
        self.request().is_empty()
    }
}

impl Protocol for OneStream {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(StreamExchange {
            protocol: *self,
            depth: ask.depth,
        })
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        let Some(reply) = self.reply else {
            return Err(OptionError::no_responder(self.info));
        };
        options.check(self.info.options)?;
        Ok(Arc::new(StreamResponder {
            protocol: *self,
            reply: reply(status).into(),
        }))
    }

    fn sample(&self, seed: u64) -> Status {
        (self.sample)(seed)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        message::explain(self.messages, self.read, bytes, seen.direction(), notes)
    }
}

/// Client side of one query.
struct StreamExchange {
    protocol: OneStream,
    depth: Depth,
}

impl StreamExchange {
    fn receive(&self, bytes: &[u8]) -> Step {
        let mut notes = Notes::default();
        let mut status = Status::default();
        match (self.protocol.read)(&mut Reader::new(bytes, &mut notes), &mut status) {
            Err(fault @ Fault::Malformed(_)) => return Step::Bad(fault),
            Err(fault) => return Step::Fail(fault),
            Ok(()) => {}
        }
        if self.depth == Depth::Ping {
            status = Status::default();
        }
        status.deviations = notes.met().collect();
        Step::Done(Box::new(status))
    }
}

impl Exchange for StreamExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => {
                out.extend_from_slice(self.protocol.request());
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes),
            Input::Closed([]) => Step::Fail(Fault::Refused {
                reason: self.protocol.closed,
                endpoints: &[],
            }),
            Input::Closed(rest) => self.receive(rest),
            Input::Continue | Input::Timeout | Input::GiveUp => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        0
    }

    fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
        (self.protocol.frame)(bytes)
    }
}

/// Server role: sends one reply on each connection, and closes it.
struct StreamResponder {
    protocol: OneStream,
    reply: Arc<[u8]>,
}

impl Responder for StreamResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(StreamConnection {
            protocol: self.protocol,
            reply: Arc::clone(&self.reply),
            has_replied: false,
        }))
    }
}

struct StreamConnection {
    protocol: OneStream,
    reply: Arc<[u8]>,
    has_replied: bool,
}

impl Connection for StreamConnection {
    fn open(&mut self, out: &mut Vec<u8>) -> ConnectionStep {
        if self.protocol.sends_first() {
            out.extend_from_slice(&self.reply);
            self.has_replied = true;
            ConnectionStep::Close
        } else {
            ConnectionStep::Wait
        }
    }

    fn receive(&mut self, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        if self.has_replied {
            return Received {
                consumed: bytes.len(),
                step: ConnectionStep::Close,
            };
        }
        let is_whole = match self.protocol.is_request {
            Some(is_request) => is_request(bytes),
            None => is_complete(bytes, self.protocol.request()),
        };
        let (consumed, step) = match is_whole {
            // A client that sends first speaks another protocol.
            _ if self.protocol.sends_first() => (0, ConnectionStep::Pass),
            Ok(true) => (bytes.len(), ConnectionStep::Close),
            Ok(false) => (0, ConnectionStep::Wait),
            Err(_) => (0, ConnectionStep::Pass),
        };
        self.has_replied = consumed > 0;
        if self.has_replied {
            out.extend_from_slice(&self.reply);
        }
        Received { consumed, step }
    }

    /// Passes an incomplete request on: a shorter request of another protocol may start in the same
    /// way.
    fn pause(&mut self, _: &[u8], _: &mut Vec<u8>) -> Received {
        let step = if self.has_replied {
            ConnectionStep::Close
        } else {
            ConnectionStep::Pass
        };
        Received { consumed: 0, step }
    }
}

/// Checks the start of a request that is always the same. Returns whether it is complete.
fn is_complete(bytes: &[u8], request: &[u8]) -> Result<bool, Error> {
    let same = bytes
        .iter()
        .zip(request)
        .take_while(|(byte, expected)| byte == expected)
        .count();
    if same < bytes.len().min(request.len()) {
        return Err(Error::bad("request", same, "the protocol's constant"));
    }
    Ok(same == request.len())
}

/// Returns the frame of a message that has `total` bytes, of which `available` are there.
pub fn frame_of(available: usize, total: usize) -> Frame {
    if available < total {
        Frame::Incomplete { total }
    } else {
        Frame::Complete(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_compared_up_to_their_end() {
        let complete = |bytes: &[u8]| is_complete(bytes, b"abc");
        assert_eq!(complete(b""), Ok(false));
        assert_eq!(complete(b"ab"), Ok(false));
        assert_eq!(complete(b"abc"), Ok(true));
        assert_eq!(complete(b"abcd"), Ok(true));
        assert_eq!(complete(b"abd").map_err(|error| error.at), Err(2));
        assert_eq!(complete(b"x").map_err(|error| error.at), Err(0));
    }
}
