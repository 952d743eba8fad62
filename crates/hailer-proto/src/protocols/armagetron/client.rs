//! The client: the big form, and the small form where the server requires it
//! (spec/armagetron.md#6).

use super::message::{self, Info, Kind};
use crate::model::{Address, Extra, Player, Status, Text, Value};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::Notes;
use crate::wire::codepage;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Client side of one query.
#[derive(Debug)]
pub struct ArmagetronExchange {
    depth: Depth,
    has_players: bool,
    /// Whether the small reply has arrived.
    has_small: bool,
    timeouts: u32,
}

impl ArmagetronExchange {
    /// Creates an exchange that has not sent anything yet. Requests have no id.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            has_small: false,
            timeouts: 0,
        }
    }

    /// Sends one request. Two in one datagram would block the sender.
    fn send(&self, out: &mut Vec<u8>) -> Step {
        let is_other = !self.has_small && self.timeouts % 2 == 1;
        let is_small = is_other != (self.depth == Depth::Ping);
        let kind = if is_small {
            Kind::SmallRequest
        } else {
            Kind::BigRequest
        };
        message::write_request(kind, out);
        Step::Send
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        match Kind::of(bytes) {
            Some(Kind::Small) => self.receive_small(bytes, out),
            Some(Kind::Big) => self.receive_big(bytes),
            _ => Step::Wait,
        }
    }

    fn receive_small(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if let Err(error) = message::read_small(bytes, &mut Notes::discarding()) {
            return Step::Bad(error.into());
        }
        if self.depth == Depth::Ping {
            return Step::Done(Box::default());
        }
        if self.has_small {
            return Step::Wait;
        }
        self.has_small = true;
        self.send(out)
    }

    fn receive_big(&self, bytes: &[u8]) -> Step {
        let mut notes = Notes::default();
        let info = match Info::read(bytes, &mut notes) {
            Ok(info) => info,
            Err(error) => return Step::Bad(error.into()),
        };
        let mut status = match self.depth {
            Depth::Ping => Box::default(),
            Depth::Basic | Depth::Full => status(&info, self.has_players),
        };
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

impl Exchange for ArmagetronExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => {
                self.timeouts = self.timeouts.wrapping_add(1);
                self.send(out)
            }
            Input::Datagram(bytes) => self.receive(bytes, out),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.has_small)
    }
}

fn colored(bytes: &[u8]) -> Text {
    let is_utf8 = core::str::from_utf8(bytes).is_ok();
    Text::hex_codes(codepage::decode(bytes)).from_single_byte(!is_utf8)
}

/// Converts the big reply to a status (spec/armagetron.md#7).
fn status(info: &Info, has_players: bool) -> Box<Status> {
    let mut status = Box::new(Status {
        name: (!info.name.is_empty()).then(|| colored(&info.name)),
        version: codepage::filled(&info.release),
        address: Some(Address {
            host: codepage::filled(&info.address),
            port: u16::try_from(info.port).ok(),
        }),
        ..Status::default()
    });
    status.players.online = Some(info.online.into());
    status.players.max = info.max.map(i64::from);
    if let Some(names) = info.players.as_ref().filter(|_| has_players) {
        let mut players = Vec::new();
        let mut accounts = info.accounts.split(|byte| *byte == b'\n');
        for name in names.split(|byte| *byte == b'\n') {
            let account = accounts.next().unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            let mut player = Player::named(colored(name));
            if let Some(account) = codepage::filled(account) {
                player.extra.push(Extra::new("account", account));
            }
            players.push(player);
        }
        status.players.set_list(players);
    }
    let mut add = |key, value| status.extra.push(Extra::new(key, value));
    add("min-version", Value::Int(info.min_version.into()));
    add("max-version", Value::Int(info.max_version.into()));
    if !info.options.is_empty() {
        let options = colored(&info.options).plain();
        add("options", Value::from(options));
    }
    if let Some(url) = codepage::filled(&info.url) {
        add("website", Value::Str(url));
    }
    status
}
