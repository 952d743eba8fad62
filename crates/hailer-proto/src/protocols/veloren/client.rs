//! The client: a token, then the information (spec/veloren.md#6).

use super::message::{Information, Kind, Reply, Request};
use crate::model::{Extra, Status};
use crate::protocol::{Ask, Depth, Exchange, Fault, Input, Step};
use crate::wire::{Notes, hexadecimal};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Maximum number of tokens that are tried.
const MAX_TOKENS: u8 = 3;
/// Names of the battle modes from 1 on.
pub(super) const BATTLE_MODES: [&str; 3] = ["PvP", "PvE", "per player"];

/// Client side of one query.
#[derive(Debug)]
pub struct VelorenExchange {
    depth: Depth,
    /// The last token of the server; 0 before the first.
    token: u64,
    /// Number of tokens received.
    tokens: u8,
}

impl VelorenExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            token: 0,
            tokens: 0,
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let kind = if self.tokens == 0 {
            Kind::Init
        } else {
            Kind::Information
        };
        let token = self.token;
        Request { token, kind }.write(out);
        Step::Send
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let mut status = match Reply::read(bytes, &mut notes) {
            Err(error) => return Step::Bad(error.into()),
            Ok(Reply::Init { .. }) if self.depth == Depth::Ping => Box::default(),
            Ok(Reply::Init { token }) if self.tokens > 0 && token == self.token => {
                return Step::Wait;
            }
            Ok(Reply::Init { .. }) if self.tokens >= MAX_TOKENS => {
                let rule = "a token instead of the information, also with its latest token";
                return Step::Bad(Fault::Misbehaved(rule));
            }
            Ok(Reply::Init { token }) => {
                self.token = token;
                self.tokens += 1;
                return self.send(out);
            }
            Ok(Reply::Information(_)) if self.tokens == 0 => return Step::Wait,
            Ok(Reply::Information(information)) => Box::new(status(information)),
        };
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

impl Exchange for VelorenExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start | Input::Timeout => self.send(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        self.tokens.into()
    }
}

/// Converts the information to a status (spec/veloren.md#4). Zeros mean that a server does not know
/// its version.
fn status(information: Information) -> Status {
    let mut status = Status {
        version: (information.hash != [0; 4]).then(|| hexadecimal(&information.hash).into()),
        mode: Some(battle_mode(information.battle_mode)),
        ..Status::default()
    };
    status.players.online = Some(information.online.into());
    status.players.max = Some(information.max.into());
    if information.commit_time != 0 {
        let time = Extra::new("commit-time", information.commit_time);
        status.extra.push(time);
    }
    status
}

fn battle_mode(number: u8) -> CompactString {
    let place = usize::from(number).checked_sub(1);
    let name = place.and_then(|place| BATTLE_MODES.get(place));
    name.map_or_else(|| number.to_string().into(), |name| (*name).into())
}
