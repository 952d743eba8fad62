//! The client: selects a virtual server, and requests its information and its players
//! (spec/teamspeak2.md#4).

use super::deviation::{NO_LIST, ODD_NUMBER};
use super::message::{self, ERROR, GREETING, OK};
use crate::model::{Extra, Player, Status, Text, Value};
use crate::protocol::{Ask, Depth, Excerpt, Exchange, Fault, Frame, Input, Step};
use crate::wire::{Error, Notes, by_content};
use alloc::{boxed::Box, format, vec::Vec};
use compact_str::CompactString;

/// Default port of the voice of a virtual server.
pub(super) const VOICE_PORT: u16 = 8767;
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
pub struct TeamSpeak2Exchange {
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

impl TeamSpeak2Exchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        // A voice port equal to the queried one is the port of the queries.
        let is_voice = ask.to.game_port != 0 && ask.to.game_port != ask.to.port;
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            voice_port: if is_voice {
                ask.to.game_port
            } else {
                VOICE_PORT
            },
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
        let line = message::trim(bytes);
        self.is_cut |= line.len() == bytes.len() && self.state != State::Greeting;
        if self.is_cut {
            return Step::Bad(message::unfinished(bytes).into());
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
        let mut parts = line.splitn(2, |byte| *byte == b'=');
        let key = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default();
        let (text, is_latin1) = by_content(value);
        let text = CompactString::from(text);
        let formatted = || Text::unformatted(text.clone()).from_single_byte(is_latin1);
        let number = text.parse::<i64>().ok();
        let status = &mut *self.status;
        let is_number = match key {
            b"server_name" => {
                status.name = (!value.is_empty()).then(formatted);
                return;
            }
            b"server_welcomemessage" => {
                status.motd = (!value.is_empty()).then(formatted);
                return;
            }
            b"server_platform" => {
                status.extra.push(Extra::new("platform", text));
                return;
            }
            b"server_maxusers" => {
                status.players.max = number;
                true
            }
            b"server_currentusers" => {
                status.players.online = number;
                true
            }
            b"server_password" => {
                status.has_password = number.map(|number| number != 0);
                true
            }
            b"server_currentchannels" => {
                let value = number.map(Value::Int);
                let value = value.map(|value| Extra::new("channels", value));
                status.extra.extend(value);
                true
            }
            b"server_uptime" => {
                let value = number.map(|number| Extra::new("uptime", number));
                status.extra.extend(value);
                true
            }
            _ => false,
        };
        if is_number && number.is_none() {
            self.notes.deviation(&ODD_NUMBER, 0);
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
            let (text, is_latin1) = by_content(message::unquote(cell));
            let text = CompactString::from(text);
            let column = column.as_slice();
            if column == b"nick" {
                player.name = Text::unformatted(text).from_single_byte(is_latin1);
                continue;
            }
            let key = NUMBERS.iter().find(|(name, _)| *name == column);
            let is_ping = column == b"ping";
            if key.is_none() && !is_ping {
                continue;
            }
            let number = text.parse::<i64>().ok();
            if number.is_none() {
                self.notes.deviation(&ODD_NUMBER, 0);
            }
            if is_ping {
                player.latency_ms = number.and_then(|number| i32::try_from(number).ok());
            } else if let (Some((_, key)), Some(number)) = (key, number) {
                player.extra.push(Extra::new(key, number));
            }
        }
        players.push(player);
    }

    /// Ends with the parts that are there, if the information is.
    fn finish(&mut self) -> Step {
        if !self.has_info {
            return Step::Wait;
        }
        let mut status = core::mem::take(&mut self.status);
        match self.players.take() {
            Some(players) => status.players.set_list(players),
            None if self.has_players => self.notes.deviation(&NO_LIST, 0),
            None => {}
        }
        status.deviations = self.notes.met().collect();
        Step::Done(status)
    }
}

impl Exchange for TeamSpeak2Exchange {
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
        let mut exchange = TeamSpeak2Exchange::new(&Ask::default());
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
