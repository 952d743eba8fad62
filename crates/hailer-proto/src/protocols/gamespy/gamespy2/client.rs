//! The client: one request for the keys, then one for the tables (spec/gamespy2.md#4).

use super::deviation::UNREADABLE_TABLES;
use super::message::{self, Sections};
use crate::model::{Extra, Status};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Input, Step};
use crate::protocols::gamespy::Reply;
use crate::protocols::gamespy::qr2::SessionId;
use crate::wire::Notes;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Queries one GameSpy 2 server.
#[derive(Debug)]
pub struct GameSpy2Exchange {
    depth: Depth,
    /// Session of the request for the keys.
    info_session: SessionId,
    /// Session of the request for the tables. `None`: they are not requested.
    lists_session: Option<SessionId>,
    /// The keys, once received.
    info: Option<KeyStatus>,
}

/// Status of the server keys, without deviations.
#[derive(Debug)]
struct KeyStatus {
    status: Box<Status>,
    /// Deviations of the keys.
    notes: Notes,
    /// Whether all texts outside ASCII are valid UTF-8. `None`: there are none.
    is_utf8: Option<bool>,
}

impl GameSpy2Exchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        let has_lists = ask.depth == Depth::Full && ask.has_players;
        Self {
            depth: ask.depth,
            info_session: session(cookie, 0),
            lists_session: has_lists.then(|| session(cookie, 1)),
            info: None,
        }
    }

    /// Sends the first request without a reply.
    fn send(&self, out: &mut Vec<u8>) -> Step {
        match self.lists_session.filter(|_| self.info.is_some()) {
            Some(session) => message::write_query(session, true, out),
            None => message::write_query(self.info_session, false, out),
        }
        Step::Send
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let Some(session) = message::reply_session(bytes) else {
            return Step::Wait;
        };
        if self.info.is_none() && session == self.info_session {
            return self.receive_keys(bytes, out);
        }
        if self.info.is_some() && Some(session) == self.lists_session {
            return self.finish(Some(bytes));
        }
        Step::Wait
    }

    fn receive_keys(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let mut reply = Reply::default();
        if let Err(error) = message::parse_reply(bytes, Sections::INFO, &mut reply, &mut notes) {
            return Step::Bad(error.into());
        }
        let status = match self.depth {
            Depth::Ping => Box::default(),
            _ => reply.members(&mut notes),
        };
        self.info = Some(KeyStatus {
            status,
            notes,
            is_utf8: reply.is_utf8(),
        });
        match self.lists_session {
            Some(_) => self.send(out),
            None => self.finish(None),
        }
    }

    /// Returns the status of the keys and, if there are any, the tables.
    fn finish(&mut self, lists: Option<&[u8]>) -> Step {
        let Some(info) = &mut self.info else {
            return Step::Wait;
        };
        let mut notes = info.notes.clone();
        let mut reply = Reply::default();
        if let Some(lists) = lists
            && message::parse_reply(lists, Sections::LISTS, &mut reply, &mut notes).is_err()
        {
            notes.deviation(&UNREADABLE_TABLES, 0);
        }
        let mut status = core::mem::take(&mut info.status);
        if self.depth != Depth::Ping {
            let is_utf8 = reply.add_lists(&mut status, lists.is_some(), &mut notes);
            let texts = [info.is_utf8, is_utf8];
            status.is_utf8 = texts.contains(&Some(true)) && !texts.contains(&Some(false));
        }
        if self.lists_session.is_some() && lists.is_none() {
            status.extra.push(Extra::new("unanswered", "tables"));
        }
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

fn session(cookie: Cookie, number: u64) -> SessionId {
    let [a, b, c, d, ..] = cookie.derive(number).to_be_bytes();
    SessionId([a, b, c, d])
}

impl Exchange for GameSpy2Exchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start | Input::Timeout => self.send(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::GiveUp => self.finish(None),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.info.is_some())
    }
}
