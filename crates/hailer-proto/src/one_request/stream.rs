//! Stream protocols with one request and one reply on each connection: both roles, without the
//! format.
//!
//! The client sends its request when the connection is open, reads one reply and closes. The server
//! answers the first request and closes. A protocol adds the [`Format`] of its reply and a
//! [`Server`].

use crate::model::Status;
use crate::protocol::{
    Ask, Connection, ConnectionStep, Depth, Exchange, Fault, Frame, Input, Received, Responder,
    Step, Verdict,
};
use crate::token::Epoch;
use crate::wire::{Error, Notes};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::net::SocketAddr;

/// Format of request and reply, for the client.
pub trait Format: fmt::Debug + Send + 'static {
    /// Reason of a failed query if the server closes the connection without a reply: a clause about
    /// the server.
    const CLOSED: &'static str;

    /// Appends the request. Nothing if the server sends without one.
    fn write_request(out: &mut Vec<u8>);

    /// Returns where the reply ends.
    ///
    /// # Errors
    ///
    /// The bytes cannot start a reply, or the reply is too long.
    fn frame(bytes: &[u8]) -> Result<Frame, Error>;

    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// The reply is invalid or truncated, or refuses a status.
    fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Fault>;
}

/// Client role: queries one server.
#[derive(Debug)]
pub struct SingleExchange<F> {
    depth: Depth,
    format: PhantomData<F>,
}

impl<F: Format> SingleExchange<F> {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            format: PhantomData,
        }
    }

    fn receive(&self, bytes: &[u8]) -> Step {
        let mut notes = Notes::default();
        match F::read(bytes, &mut notes) {
            Err(fault @ Fault::Malformed(_)) => Step::Bad(fault),
            Err(fault) => Step::Fail(fault),
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

impl<F: Format> Exchange for SingleExchange<F> {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => {
                F::write_request(out);
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes),
            Input::Closed([]) => Step::Fail(Fault::Refused {
                reason: F::CLOSED,
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
        F::frame(bytes)
    }
}

/// Prepared replies of one server.
pub trait Server: fmt::Debug + Send + Sync + 'static {
    /// Appends the first bytes of a server that sends without a request, and returns whether it is
    /// one.
    fn greet(&self, _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Appends the reply to the request at the start of `bytes`. Returns `false` if the request is
    /// incomplete.
    ///
    /// # Errors
    ///
    /// The bytes do not start a request of this protocol.
    fn reply(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Error>;
}

/// Server role: answers one request of each connection, and closes it.
#[derive(Debug)]
pub struct SingleResponder<S>(Arc<S>);

impl<S: Server> SingleResponder<S> {
    /// Creates a responder with these replies.
    pub fn new(server: S) -> Self {
        Self(Arc::new(server))
    }
}

impl<S: Server> Responder for SingleResponder<S> {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(SingleConnection {
            server: Arc::clone(&self.0),
            has_replied: false,
        }))
    }
}

#[derive(Debug)]
struct SingleConnection<S> {
    server: Arc<S>,
    has_replied: bool,
}

impl<S: Server> Connection for SingleConnection<S> {
    fn open(&mut self, out: &mut Vec<u8>) -> ConnectionStep {
        self.has_replied = self.server.greet(out);
        if self.has_replied {
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
        let (consumed, step) = match self.server.reply(bytes, out) {
            Ok(true) => (bytes.len(), ConnectionStep::Close),
            Ok(false) => (0, ConnectionStep::Wait),
            Err(_) => (0, ConnectionStep::Pass),
        };
        self.has_replied = consumed > 0;
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
///
/// # Errors
///
/// The bytes differ from the request.
pub fn is_complete(bytes: &[u8], request: &[u8]) -> Result<bool, Error> {
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
