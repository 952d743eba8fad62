//! Both roles of a protocol connected in memory, without loss: for tests, fuzzing and measurements.

use crate::protocol::{
    Connection, ConnectionStep, Direction, Exchange, Frame, Input, Received, Responder, Step,
    Verdict,
};
use crate::token::Epoch;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

/// Largest number of datagrams of one reply.
const MAX_REPLY_DATAGRAMS: usize = 1_024;

/// Server side of an exchange in memory: a responder, and its connection on a stream.
pub struct Server<'a> {
    responder: &'a dyn Responder,
    from: SocketAddr,
    epoch: Epoch,
    connection: Option<Box<dyn Connection>>,
    /// Whether the connection has had its turn to send first.
    is_open: bool,
    /// Bytes received on the connection and not consumed.
    unread: Vec<u8>,
}

impl fmt::Debug for Server<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("from", &self.from)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl<'a> Server<'a> {
    /// Creates a server for requests from `from` at the time `epoch`.
    pub fn new(responder: &'a dyn Responder, from: SocketAddr, epoch: Epoch) -> Self {
        Self {
            responder,
            from,
            epoch,
            connection: responder.connection(from),
            is_open: false,
            unread: Vec::new(),
        }
    }

    /// Sends a request and returns the datagrams of the reply. On a stream, the reply is one
    /// element, with all bytes that were sent.
    pub fn request(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        if let Some(connection) = &mut self.connection {
            let mut received = Received {
                consumed: 0,
                step: ConnectionStep::Wait,
            };
            if !self.is_open {
                self.is_open = true;
                received.step = connection.open(&mut out);
            }
            self.unread.extend_from_slice(bytes);
            if received.step == ConnectionStep::Wait && !bytes.is_empty() {
                received = connection.receive(self.epoch, &self.unread, &mut out);
            }
            if received.step == ConnectionStep::Wait && out.is_empty() {
                // Nothing follows before the reply.
                self.unread
                    .drain(..received.consumed.min(self.unread.len()));
                received = connection.pause(&self.unread, &mut out);
            }
            self.unread
                .drain(..received.consumed.min(self.unread.len()));
            if received.step != ConnectionStep::Wait {
                self.unread.clear();
            }
            return if out.is_empty() {
                Vec::new()
            } else {
                alloc::vec![out]
            };
        }
        let verdict = self
            .responder
            .answer(self.from, self.epoch, bytes, &mut out);
        let Verdict::Reply { is_verified } = verdict else {
            return Vec::new();
        };
        let mut replies = alloc::vec![out];
        while replies.len() < MAX_REPLY_DATAGRAMS {
            let mut more = Vec::new();
            let index = replies.len();
            if !self
                .responder
                .continuation(bytes, is_verified, index, &mut more)
            {
                break;
            }
            replies.push(more);
        }
        replies
    }

    /// Replaces the connection by a new one.
    pub fn reconnect(&mut self) {
        self.connection = self.responder.connection(self.from);
        self.is_open = false;
        self.unread.clear();
    }
}

/// Runs an exchange against a server until it ends or waits for something that does not come.
/// Returns the last step. `edit` gets each datagram of both directions and can change it; on a
/// stream it gets the bytes of each step.
pub fn run(
    exchange: &mut dyn Exchange,
    server: &mut Server<'_>,
    mut edit: impl FnMut(Direction, &mut Vec<u8>),
) -> Step {
    const MAX_STEPS: usize = 10_000;
    let mut request = Vec::new();
    let mut step = exchange.handle(Input::Start, &mut request);
    // Datagrams of the server that the exchange has not received, the first one last.
    let mut queue: Vec<Vec<u8>> = Vec::new();
    let mut stream: Vec<u8> = Vec::new();
    let is_stream = server.connection.is_some();
    for _ in 0..MAX_STEPS {
        let is_followed = step == Step::SendMore;
        if step == Step::Reconnect {
            server.reconnect();
            stream.clear();
        }
        if matches!(step, Step::Send | Step::SendMore | Step::Reconnect) {
            edit(Direction::Request, &mut request);
            let mut replies = server.request(&request);
            for reply in &mut replies {
                edit(Direction::Reply, reply);
            }
            if is_stream {
                for bytes in &replies {
                    stream.extend(bytes);
                }
            } else {
                replies.reverse();
                queue.splice(0..0, replies);
            }
        }
        request.clear();
        step = if is_followed {
            exchange.handle(Input::Continue, &mut request)
        } else if matches!(step, Step::Done(_) | Step::Fail(_)) {
            return step;
        } else if is_stream {
            match exchange.frame(&stream) {
                Ok(Frame::Complete(length)) if (1..=stream.len()).contains(&length) => {
                    let message: Vec<u8> = stream.drain(..length).collect();
                    exchange.handle(Input::Datagram(&message), &mut request)
                }
                Ok(_) => return step,
                Err(error) => return Step::Bad(error.into()),
            }
        } else {
            match queue.pop() {
                Some(datagram) => exchange.handle(Input::Datagram(&datagram), &mut request),
                None => return step,
            }
        };
    }
    step
}
