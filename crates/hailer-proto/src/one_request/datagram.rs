//! Protocols over UDP with one request and one reply.

use super::message::{self, Mark, Message, ReadReply};
use crate::model::{Players, Status};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Depth, Exchange, Explanation, Fault, Info, Input, MakeResponder,
    Options, Protocol, ResponderResult, Step, respond,
};
use crate::sample;
use crate::token::Keys;
use crate::wire::{Notes, Reader};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// Returns the forms of a request, at least one.
pub type MakeRequests = fn(&Ask, Cookie) -> Vec<Vec<u8>>;

/// Returns whether a request has this reply. Others are late or forged. Arguments: request, reply,
/// notes for deviations that only both together show.
pub type IsAnswer = fn(&[u8], &[u8], &mut Notes) -> bool;

/// A protocol over UDP with one request, or several forms of it, and one reply.
#[derive(Clone, Copy)]
pub struct OneDatagram {
    /// Static facts.
    pub info: &'static Info,
    /// All messages. Bytes belong to the first one whose mark they have.
    pub messages: &'static [Message],
    /// Reads a reply.
    pub read: ReadReply,
    /// Forms of the request. After each timeout, the next one is sent. `None`: the constant requests
    /// of `messages`.
    pub requests: Option<MakeRequests>,
    /// Compares a reply with a request.
    pub is_answer: IsAnswer,
    /// The server role.
    pub responder: Option<MakeResponder>,
    /// As [`Protocol::sample`].
    pub sample: fn(u64) -> Status,
}

impl fmt::Debug for OneDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneDatagram")
            .field("id", &self.info.id)
            .finish_non_exhaustive()
    }
}

impl OneDatagram {
    /// A protocol with constant requests, whose replies return no part of them, without a server
    /// role.
    pub const PLAIN: Self = Self {
        info: &Info::DATAGRAM,
        messages: &[],
        read: |_, _| Ok(()),
        requests: None,
        is_answer: |_, _, _| true,
        responder: None,
        sample: sample::status,
    };

    /// Defines a protocol of a program: its id in kebab case, its default port, the request, and the
    /// function that reads a reply. Targets can name it once it was added to the catalog of the
    /// crate `hailer`.
    ///
    /// The protocol stays in memory until the process ends, so call it once.
    /// Protocols that are known when the program is compiled can be a `static` instead.
    ///
    /// ```
    /// use hailer_proto::Protocol;
    /// use hailer_proto::one_request::OneDatagram;
    ///
    /// let who = OneDatagram::define("who", 4242, b"WHO?", |reply, status| {
    ///     reply.constant(b"HERE", "magic")?;
    ///     status.players.online = Some(reply.u8("players")?.into());
    ///     Ok(())
    /// });
    /// assert_eq!(who.info().port, 4242);
    /// ```
    pub fn define(
        id: &'static str,
        port: u16,
        request: &'static [u8],
        read: ReadReply,
    ) -> &'static Self {
        let info = Info {
            id,
            title: id,
            port,
            ..Info::DATAGRAM
        };
        let messages = [
            Message::reply("reply", Mark::NONE),
            Message::constant("request", "request", request),
        ];
        Box::leak(Box::new(Self {
            info: Box::leak(Box::new(info)),
            messages: Box::leak(Box::new(messages)),
            read,
            ..Self::PLAIN
        }))
    }
}

impl Protocol for OneDatagram {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        Box::new(DatagramExchange {
            protocol: *self,
            requests: self.requests.map(|requests| requests(ask, cookie)),
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            timeouts: 0,
        })
    }

    fn responder(&self, status: &Status, keys: &Keys, options: &Options) -> ResponderResult {
        respond(self.responder, self.info, status, keys, options)
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
struct DatagramExchange {
    protocol: OneDatagram,
    /// The requests that are not constant.
    requests: Option<Vec<Vec<u8>>>,
    depth: Depth,
    has_players: bool,
    timeouts: usize,
}

impl DatagramExchange {
    /// Returns the forms of the request.
    fn requests(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let own = self.requests.iter().flatten().map(Vec::as_slice);
        let is_constant = self.requests.is_none();
        let messages = self.protocol.messages.iter().filter(move |_| is_constant);
        own.chain(messages.filter_map(|message| -> Option<&[u8]> { message.constant_bytes() }))
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let mut forms = self.requests().cycle();
        let count = self.requests().count().max(1);
        out.extend(forms.nth(self.timeouts % count).unwrap_or_default());
        Step::Send
    }

    fn receive(&self, bytes: &[u8]) -> Step {
        let protocol = &self.protocol;
        if !message::is_reply(protocol.messages, bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let mut status = Status::default();
        match (protocol.read)(&mut Reader::new(bytes, &mut notes), &mut status) {
            Err(fault @ Fault::Malformed(_)) => return Step::Bad(fault),
            Err(fault) => return Step::Fail(fault),
            Ok(()) => {}
        }
        let mut sent = self.requests();
        if !sent.any(|request| (protocol.is_answer)(request, bytes, &mut notes)) {
            return Step::Wait;
        }
        if self.depth == Depth::Ping {
            status = Status::default();
        }
        if !self.has_players {
            let Players {
                online, max, bots, ..
            } = status.players;
            status.players = Players {
                online,
                max,
                bots,
                ..Players::default()
            };
        }
        status.deviations = notes.met().collect();
        Step::Done(Box::new(status))
    }
}

impl Exchange for DatagramExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => {
                self.timeouts = self.timeouts.wrapping_add(1);
                self.send(out)
            }
            Input::Datagram(bytes) => self.receive(bytes),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        0
    }
}
