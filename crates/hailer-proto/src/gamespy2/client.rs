//! The client: one request for the keys, then one for the tables (spec/gamespy2.md#4).

use super::message::{self, Sections};
use crate::gamespy::Reply;
use crate::gamespy::qr2::SessionId;
use crate::model::{Extra, Status};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Input, Step};
use crate::wire::Notes;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Queries one GameSpy 2 server.
#[derive(Debug)]
pub struct GameSpy2Exchange {
    depth: Depth,
    info: Pending,
    /// `None`: the tables are not requested.
    lists: Option<Pending>,
}

/// A request and its reply.
#[derive(Debug)]
struct Pending {
    session: SessionId,
    reply: Option<Vec<u8>>,
}

impl Pending {
    fn new(number: u64) -> Self {
        let [a, b, c, d, ..] = number.to_be_bytes();
        Self {
            session: SessionId([a, b, c, d]),
            reply: None,
        }
    }
}

impl GameSpy2Exchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        let has_lists = ask.depth == Depth::Full && ask.has_players;
        Self {
            depth: ask.depth,
            info: Pending::new(cookie.derive(0)),
            lists: has_lists.then(|| Pending::new(cookie.derive(1))),
        }
    }

    /// Sends the first request without a reply.
    fn send(&self, out: &mut Vec<u8>) -> Step {
        match (&self.info, &self.lists) {
            (Pending { reply: Some(_), .. }, Some(lists)) => {
                message::write_query(lists.session, true, out);
            }
            (info, _) => message::write_query(info.session, false, out),
        }
        Step::Send
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let Some(session) = message::reply_session(bytes) else {
            return Step::Wait;
        };
        let is_info = session == self.info.session;
        let lists = self.lists.as_mut();
        let pending = match lists.filter(|lists| lists.session == session) {
            Some(lists) => lists,
            None if is_info => &mut self.info,
            None => return Step::Wait,
        };
        if pending.reply.is_some() {
            return Step::Wait;
        }
        let sections = if is_info {
            Sections::INFO
        } else {
            Sections::LISTS
        };
        let mut reply = Reply::default();
        if let Err(error) = message::parse_reply(bytes, sections, &mut reply, &mut Notes::default())
        {
            return Step::Bad(error.into());
        }
        pending.reply = Some(bytes.into());
        if is_info && self.lists.is_some() {
            self.send(out)
        } else {
            self.finish()
        }
    }

    /// Returns the status of the replies so far. Without the keys, there is none.
    fn finish(&self) -> Step {
        let Some(info) = &self.info.reply else {
            return Step::Wait;
        };
        let lists = self.lists.as_ref().and_then(|lists| lists.reply.as_deref());
        let mut notes = Notes::default();
        let mut reply = Reply::default();
        let mut read = |bytes, sections| {
            // Both replies were read without an error before.
            message::parse_reply(bytes, sections, &mut reply, &mut notes).is_ok()
        };
        let is_read = read(info, Sections::INFO);
        let has_lists = lists.is_some_and(|lists| read(lists, Sections::LISTS));
        if !is_read {
            return Step::Wait;
        }
        let mut status = match self.depth {
            Depth::Ping => Box::<Status>::default(),
            _ => reply.status(has_lists, &mut notes),
        };
        if self.lists.is_some() && !has_lists {
            status.extra.push(Extra::new("unanswered", "tables"));
        }
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

impl Exchange for GameSpy2Exchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start | Input::Timeout => self.send(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::GiveUp => self.finish(),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.info.reply.is_some())
    }
}
