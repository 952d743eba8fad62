//! The client: one request (spec/teamspeak-voice.md#3).

use super::deviation::{ECHO_DIFFERS, RESTART};
use super::message::{self, Reply};
use crate::model::Status;
use crate::protocol::{Cookie, Exchange, Input, Step};
use crate::wire::Notes;
use alloc::{boxed::Box, vec::Vec};

/// Client side of one query.
#[derive(Debug)]
pub struct VoiceExchange {
    random: [u8; 4],
}

impl VoiceExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(cookie: Cookie) -> Self {
        Self {
            random: (cookie.derive(0) as u32).to_be_bytes(),
        }
    }

    fn receive(&self, bytes: &[u8]) -> Step {
        if !message::is_reply(bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        match message::read_reply(bytes, &mut notes) {
            Err(error) => return Step::Bad(error.into()),
            Ok(Reply::Restart) => notes.deviation(&RESTART, 0),
            // Some networks change these bytes.
            Ok(Reply::Cookie(random)) if random != self.random => notes.deviation(&ECHO_DIFFERS, 0),
            Ok(Reply::Cookie(_)) => {}
        }
        Step::Done(Box::new(Status {
            deviations: notes.met().collect(),
            ..Status::default()
        }))
    }
}

impl Exchange for VoiceExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start | Input::Timeout => {
                message::write_request(self.random, out);
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
