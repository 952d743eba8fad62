//! The client: selects a virtual server, and requests its information and its players
//! (spec/teamspeak2.md#4).

use super::message::{self, ERROR, GREETING, OK};
use super::{NO_LIST, ODD_NUMBER};
use crate::model::{Extra, Player, Status, Text};
use crate::protocol::{Ask, Depth, Excerpt, Exchange, Fault, Frame, Input, Step};
use crate::protocols::teamspeak::command_lines::{self, trim, unfinished};
use crate::wire::{Error, Notes, by_content};
use alloc::{boxed::Box, format, vec::Vec};
use memchr::memchr;

/// Default port of the voice of a virtual server.
const VOICE_PORT: u16 = 8767;
/// Largest number of players of a list.
const MAX_PLAYERS: usize = 4_096;
/// Columns of numbers of a player, and their keys.
const NUMBERS: [(&[u8], &str); 4] = [
    (b"p_id", "id"),
    (b"c_id", "channel"),
    (b"idletime", "idle-time"),
    (b"logintime", "time"),
];

/// A command without a complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Select,
    Info,
    Players,
}

/// Client side of one query.
#[derive(Debug)]
pub(super) struct Query {
    depth: Depth,
    has_players: bool,
    voice_port: u16,
    state: State,
    has_info: bool,
    /// Whether a line had no end: the lines after it have no meaning.
    is_cut: bool,
    status: Box<Status>,
    /// Columns of the list.
    columns: Vec<Vec<u8>>,
    players: Option<Vec<Player>>,
    notes: Notes,
}

impl Query {
    /// Creates an exchange that has not sent anything yet.
    pub(super) fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            voice_port: command_lines::voice_port(ask).unwrap_or(VOICE_PORT),
            state: State::Greeting,
            has_info: false,
            is_cut: false,
            status: Box::default(),
            columns: Vec::new(),
            players: None,
            notes: Notes::default(),
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Step {
        let line = trim(bytes);
        self.is_cut |= line.len() == bytes.len() && self.state != State::Greeting;
        if self.is_cut {
            return Step::Bad(unfinished(bytes).into());
        }
        let is_error = line.starts_with(ERROR);
        match self.state {
            State::Greeting if line != GREETING => {
                return Step::Bad(Error::bad("greeting", 0, "[TS]").into());
            }
            State::Greeting if self.depth == Depth::Ping => return Step::Done(Box::default()),
            State::Greeting => self.state = State::Select,
            State::Select if line == OK => self.state = State::Info,
            State::Select | State::Info if is_error => {
                let text = by_content(line).0;
                return Step::Fail(Fault::Kicked(Excerpt::new(&text)));
            }
            State::Select => {}
            State::Info if line == OK => {
                self.has_info = true;
                self.state = State::Players;
                if !self.has_players {
                    return self.finish();
                }
            }
            State::Info => self.receive_info(line),
            State::Players if line == OK => return self.finish(),
            State::Players if is_error => {
                self.players = None;
                return self.finish();
            }
            State::Players => self.receive_player(line),
        }
        Step::Progress
    }

    fn receive_info(&mut self, line: &[u8]) {
        let end = memchr(b'=', line).unwrap_or(line.len());
        let (key, value) = line.split_at(end);
        let value = value.get(1..).unwrap_or_default();
        let formatted = || (!value.is_empty()).then(|| Text::by_content(value));
        let mut number = || number(value, &mut self.notes);
        let status = &mut *self.status;
        match key {
            b"server_name" => status.name = formatted(),
            b"server_welcomemessage" => status.motd = formatted(),
            b"server_platform" => status.add_extra("platform", Some(&*by_content(value).0)),
            b"server_maxusers" => status.players.max = number(),
            b"server_currentusers" => status.players.online = number(),
            b"server_password" => status.has_password = number().map(|number| number != 0),
            b"server_currentchannels" => status.add_extra("channels", number()),
            b"server_uptime" => status.add_extra("uptime", number()),
            _ => {}
        }
    }

    fn receive_player(&mut self, line: &[u8]) {
        let cells = line.split(|byte| *byte == b'\t');
        if self.columns.is_empty() {
            self.columns = cells.map(Vec::from).collect();
            self.players = Some(Vec::new());
            return;
        }
        let Some(players) = self.players.as_mut().filter(|all| all.len() < MAX_PLAYERS) else {
            return;
        };
        let mut player = Player::default();
        for (column, cell) in self.columns.iter().zip(cells) {
            let cell = message::unquote(cell);
            let column = column.as_slice();
            let mut number = || number(cell, &mut self.notes);
            if column == b"nick" {
                player.name = Text::by_content(cell);
            } else if column == b"ping" {
                player.latency_ms = number().and_then(|number| i32::try_from(number).ok());
            } else if let Some((_, key)) = NUMBERS.iter().find(|(name, _)| *name == column) {
                let number = number().map(|number| Extra::new(*key, number));
                player.extra.extend(number);
            }
        }
        players.push(player);
    }

    /// Ends with the parts that are there, if the information is.
    fn finish(&mut self) -> Step {
        if !self.has_info {
            return Step::Wait;
        }
        let status = core::mem::take(&mut self.status);
        let missing = self.has_players.then_some(&NO_LIST);
        command_lines::finish(status, self.players.take(), missing, &mut self.notes)
    }
}

/// Reads a number in digits.
fn number(text: &[u8], notes: &mut Notes) -> Option<i64> {
    let number = by_content(text).0.parse().ok();
    if number.is_none() {
        notes.deviation(&ODD_NUMBER, 0);
    }
    number
}

impl Exchange for Query {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => {
                let commands = match (self.depth, self.has_players) {
                    (Depth::Ping, _) => "quit\n".into(),
                    (_, true) => format!("sel {}\nsi\npl\nquit\n", self.voice_port),
                    (_, false) => format!("sel {}\nsi\nquit\n", self.voice_port),
                };
                out.extend(commands.bytes());
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes),
            Input::Timeout | Input::Closed(_) | Input::GiveUp => self.finish(),
            Input::Continue => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        0
    }

    fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
        message::frame(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_ends_with_an_error_is_none() {
        let mut exchange = Query::new(&Ask::default());
        exchange.handle(Input::Start, &mut Vec::new());
        let lines = b"[TS]\nOK\nserver_name=Test\nOK\np_id\tnick\n1\t\"Alice\"\nERROR, no\n";
        let mut last = Step::Wait;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            last = exchange.handle(Input::Datagram(line), &mut Vec::new());
        }
        let Step::Done(status) = last else {
            panic!("{last:?}");
        };
        assert!(status.players.list.is_empty());
        assert_eq!(status.deviations, [&NO_LIST]);
    }
}
