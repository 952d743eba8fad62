//! The client: selects a virtual server, and requests its information and its clients
//! (spec/teamspeak3.md#5).
//!
//! At most five commands on one connection: servers block addresses that send more than ten in 3 s.

use super::message::{self, GREETING, Item, Outcome, WELCOME};
use super::{NO_LIST, OTHER_GREETING};
use crate::model::{Address, Extra, Player, Status, Text, Value};
use crate::protocol::{Ask, Depth, Excerpt, Exchange, Fault, Frame, Input, Step};
use crate::protocols::teamspeak::command_lines::{self, trim, unfinished};
use crate::wire::{Error, Notes, by_content};
use alloc::{boxed::Box, format, vec::Vec};
use compact_str::CompactString;

/// Default port of the voice of a virtual server.
pub(super) const VOICE_PORT: u16 = 9987;
/// Numbers of the errors that need a special treatment.
const FLOODING: i64 = 524;
const INVALID_SERVER: i64 = 1024;
const NOT_RUNNING: i64 = 1033;
const EMPTY: i64 = 1281;
const NOT_PERMITTED: i64 = 2568;
const BANNED: [i64; 2] = [3329, 3331];

/// Error of a server that is none of TeamSpeak.
const NO_GREETING: Fault = Fault::Malformed(Error::bad("greeting", 0, "TS3"));

/// A command without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No line arrived.
    Greeting,
    /// Another name than that of TeamSpeak arrived; the line of welcome shows whether it is a server.
    Welcome,
    /// Selection of the virtual server.
    Use,
    /// Information.
    Info,
    /// Clients.
    Clients,
}

/// Client side of one query.
#[derive(Debug)]
pub(super) struct Query {
    depth: Depth,
    has_players: bool,
    /// Port of the voice of the virtual server. `None`: the default, or else the first server.
    voice_port: Option<u16>,
    state: State,
    stage: usize,
    timeouts: u32,
    status: Option<Box<Status>>,
    players: Option<Vec<Player>>,
    /// The greeting, if it is another name.
    greeting: Option<CompactString>,
    notes: Notes,
}

impl Query {
    /// Creates an exchange that has not sent anything yet.
    pub(super) fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            voice_port: command_lines::voice_port(ask),
            state: State::Greeting,
            stage: 0,
            timeouts: 0,
            status: None,
            players: None,
            greeting: None,
            notes: Notes::default(),
        }
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let line = trim(bytes);
        if self.state == State::Greeting && !line.starts_with(b"error ") {
            return self.receive_greeting(line, line.len() < bytes.len());
        }
        if self.state == State::Welcome {
            return self.receive_welcome(line);
        }
        if line.len() == bytes.len() {
            return Step::Bad(unfinished(bytes).into());
        }
        let mut notes = Notes::default();
        let outcome = match Outcome::read(line, &mut notes) {
            Ok(outcome) => outcome,
            Err(error) => return Step::Bad(error.into()),
        };
        match outcome {
            Some(outcome) => self.receive_outcome(&outcome, out),
            None => match self.receive_data(line) {
                Ok(()) => Step::Progress,
                Err(error) => Step::Bad(error.into()),
            },
        }
    }

    fn receive_greeting(&mut self, line: &[u8], has_end: bool) -> Step {
        match line {
            GREETING if self.depth == Depth::Ping => Step::Done(Box::default()),
            GREETING => {
                self.state = State::Use;
                Step::Progress
            }
            [b'S', b'S', b'H', b'-', ..] => Step::Fail(Fault::Misbehaved(
                "it speaks SSH, which needs a login; the port of queries without one is 10011 by default",
            )),
            name if has_end && message::is_name(name) => {
                self.greeting = Some(by_content(name).0.into());
                self.state = State::Welcome;
                Step::Progress
            }
            _ => Step::Bad(NO_GREETING),
        }
    }

    /// Handles the line after another greeting (spec/teamspeak3.md#2).
    fn receive_welcome(&mut self, line: &[u8]) -> Step {
        if !line.starts_with(WELCOME) {
            return Step::Bad(NO_GREETING);
        }
        self.notes.deviation(&OTHER_GREETING, 0);
        if self.depth == Depth::Ping {
            return Step::Done(Box::new(Status {
                deviations: self.notes.met().collect(),
                ..Status::default()
            }));
        }
        self.state = State::Use;
        Step::Progress
    }

    fn receive_data(&mut self, line: &[u8]) -> Result<(), Error> {
        match self.state {
            State::Info => {
                let items = message::items(line, 0, &mut self.notes)?;
                let item = items.into_iter().next().unwrap_or_default();
                self.status = Some(status(&item, &mut self.notes));
            }
            // A list above the limits must not cost the information.
            State::Clients => {
                if let Ok(items) = message::items(line, 0, &mut self.notes) {
                    let clients = items
                        .iter()
                        .filter_map(|item| client(item, &mut self.notes));
                    self.players = Some(clients.collect());
                }
            }
            // The line after the greeting.
            State::Greeting | State::Welcome | State::Use => {}
        }
        Ok(())
    }

    fn receive_outcome(&mut self, outcome: &Outcome, out: &mut Vec<u8>) -> Step {
        let kicked = Step::Fail(Fault::Kicked(Excerpt::new(&outcome.message)));
        let refused = |reason| {
            Step::Fail(Fault::Refused {
                reason,
                endpoints: &[],
            })
        };
        if outcome.id == FLOODING || BANNED.contains(&outcome.id) {
            if self.status.is_some() {
                return self.finish();
            }
            if outcome.message.is_empty() {
                return refused("it has blocked this address, usually for 10 minutes");
            }
            return kicked;
        }
        match (self.state, outcome.id) {
            (State::Greeting | State::Use, 0) => {
                self.state = State::Info;
                self.stage += 1;
                out.extend_from_slice(if self.has_players {
                    b"serverinfo\nclientlist\nquit\n"
                } else {
                    b"serverinfo\nquit\n"
                });
                Step::Send
            }
            // Without a port of the voice, the first virtual server is meant.
            (State::Use, INVALID_SERVER | NOT_RUNNING)
                if self.voice_port.is_none() && self.stage == 0 =>
            {
                self.stage += 1;
                out.extend_from_slice(b"use sid=1\n");
                Step::Send
            }
            (State::Use, INVALID_SERVER) => refused(
                "it has no virtual server with this voice port; name it as the port of the target",
            ),
            (State::Use, NOT_RUNNING) => {
                refused("its virtual server with this voice port is stopped")
            }
            (State::Use, NOT_PERMITTED) => refused(
                "guests lack a permission: its owner must grant b_virtualserver_select to the group Guest Server Query",
            ),
            (State::Info, NOT_PERMITTED) => refused(
                "guests lack a permission: its owner must grant b_virtualserver_info_view to the group Guest Server Query",
            ),
            (State::Info, 0) if self.status.is_some() => {
                if !self.has_players {
                    return self.finish();
                }
                self.state = State::Clients;
                Step::Progress
            }
            (State::Info, 0) => Step::Bad(Error::bad("server information", 0, "a line").into()),
            (State::Clients, EMPTY) => {
                self.players = Some(Vec::new());
                self.finish()
            }
            (State::Clients, _) => self.finish(),
            _ => kicked,
        }
    }

    /// Ends with the parts that are there, if the information is.
    fn finish(&mut self) -> Step {
        let Some(mut status) = self.status.take() else {
            return match self.state {
                State::Welcome => Step::Bad(NO_GREETING),
                _ => Step::Wait,
            };
        };
        status.add_extra("greeting", self.greeting.take());
        let missing = self.has_players.then_some(&NO_LIST);
        command_lines::finish(status, self.players.take(), missing, &mut self.notes)
    }
}

impl Exchange for Query {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            // The greeting shows that the server is up.
            Input::Start if self.depth == Depth::Ping => {
                out.extend_from_slice(b"quit\n");
                Step::Send
            }
            Input::Start => {
                let port = self.voice_port.unwrap_or(VOICE_PORT);
                out.extend(format!("use port={port}\n").bytes());
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::Timeout => {
                self.timeouts += 1;
                match self.timeouts {
                    1 => Step::Wait,
                    _ => self.finish(),
                }
            }
            Input::Closed([]) | Input::GiveUp => self.finish(),
            Input::Closed(_) if self.status.is_some() => self.finish(),
            Input::Closed(rest) => match self.receive(rest, out) {
                // The connection is closed: nothing can be sent.
                Step::Send | Step::Progress => {
                    out.clear();
                    self.finish()
                }
                step => step,
            },
            Input::Continue => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        self.stage
    }

    fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
        message::frame(bytes)
    }

    /// Returns whether the line is complete except for its carriage return.
    fn is_usable_start(&self, bytes: &[u8]) -> bool {
        bytes.ends_with(b"\n")
    }
}

/// Converts the information to a status (spec/teamspeak3.md#7).
fn status(item: &Item<'_>, notes: &mut Notes) -> Box<Status> {
    let formatted = |key: &str| {
        let value = message::value(item, key).filter(|value| !value.is_empty());
        value.map(Text::by_content)
    };
    let mut number = |key: &str| message::number(item, key, notes);
    let mut status = Box::<Status>::default();
    status.name = formatted("virtualserver_name");
    status.motd = formatted("virtualserver_welcomemessage");
    let version = message::text(item, "virtualserver_version");
    status.version = version.map(Into::into);
    status.has_password = number("virtualserver_flag_password").map(|flag| flag != 0);
    let queries = number("virtualserver_queryclientsonline");
    // The number of clients includes those of queries.
    let clients = number("virtualserver_clientsonline");
    status.players.online = clients.map(|clients| clients.saturating_sub(queries.unwrap_or(0)));
    status.players.max = number("virtualserver_maxclients");
    let port = number("virtualserver_port").and_then(|port| u16::try_from(port).ok());
    status.address = port.map(|port| Address {
        host: None,
        port: Some(port),
    });
    for (key, name) in [
        ("query-clients", "virtualserver_queryclientsonline"),
        ("channels", "virtualserver_channelsonline"),
        ("reserved-slots", "virtualserver_reserved_slots"),
        ("uptime", "virtualserver_uptime"),
    ] {
        status.add_extra(key, number(name));
    }
    for (key, name) in [
        ("platform", "virtualserver_platform"),
        ("state", "virtualserver_status"),
    ] {
        status.add_extra(key, message::text(item, name).as_deref());
    }
    let ping = message::text(item, "virtualserver_total_ping");
    let ping = ping.and_then(|ping| ping.parse::<f64>().ok());
    let ping = ping.filter(|ping| ping.is_finite());
    status.add_extra("average-ping", ping.map(Value::Float));
    status
}

/// Converts a client to a player. `None` if it is a client of queries.
fn client(item: &Item<'_>, notes: &mut Notes) -> Option<Player> {
    if message::value(item, "client_type").is_some_and(|kind| kind != b"0") {
        return None;
    }
    let name = message::value(item, "client_nickname")?;
    let mut player = Player::named(Text::by_content(name));
    for (key, name) in [("id", "clid"), ("channel", "cid")] {
        let value = message::number(item, name, notes);
        player
            .extra
            .extend(value.map(|value| Extra::new(key, value)));
    }
    Some(player)
}

#[cfg(test)]
mod tests {
    use super::super::PROTOCOL;
    use super::*;
    use crate::protocol::Destination;
    use crate::testing::memory::{self, Server};
    use crate::{Cookie, Epoch, Keys, Options, Protocol};

    fn trip(status: &Status, ask: &Ask) -> Step {
        let keys = Keys::new([7; 16]);
        let responder = PROTOCOL.responder(status, &keys, &Options::default());
        let responder = responder.unwrap();
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut server = Server::new(&*responder, from, Epoch(1));
        let mut exchange = PROTOCOL.exchange(ask, Cookie(1));
        memory::run(&mut *exchange, &mut server, |_, _| {})
    }

    #[test]
    fn a_list_above_the_limits_is_left_out() {
        let mut exchange = PROTOCOL.exchange(&Ask::default(), Cookie(1));
        let mut receive = |input: Input<'_>| exchange.handle(input, &mut Vec::new());
        receive(Input::Start);
        let clients = "client_nickname=a|".repeat(4_096);
        let mut last = Step::Wait;
        for line in [
            "TS3",
            "error id=0",
            "virtualserver_name=Test",
            "error id=0",
            &clients,
            "error id=0",
        ] {
            last = receive(Input::Datagram(format!("{line}\n\r").as_bytes()));
        }
        let Step::Done(status) = last else {
            panic!("{last:?}")
        };
        assert_eq!(status.title().as_deref(), Some("Test"));
        assert_eq!(status.deviations, [&NO_LIST]);
    }

    #[test]
    fn only_a_given_voice_port_must_exist() {
        let sample = PROTOCOL.sample(3);
        let given = |game_port| Ask {
            to: Destination {
                port: 10_011,
                game_port,
                ..Destination::default()
            },
            ..Ask::default()
        };
        for game_port in [0, 9_987, 10_011] {
            assert!(matches!(trip(&sample, &given(game_port)), Step::Done(_)));
        }
        let step = trip(&sample, &given(9_988));
        assert!(
            matches!(step, Step::Fail(Fault::Refused { .. })),
            "{step:?}"
        );
        let mut other = sample;
        other.address = Some(Address {
            host: None,
            port: Some(9_988),
        });
        for game_port in [0, 9_988] {
            assert!(matches!(trip(&other, &given(game_port)), Step::Done(_)));
        }
    }
}
