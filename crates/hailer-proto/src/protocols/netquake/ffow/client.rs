//! The client: info, a challenge, players, rules (spec/ffow.md#6).

use super::message::{Challenge, Info, Reply, Request};
use crate::model::{Address, Extra, Player, Rule, Status, Text, Value};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::{Notes, by_content, filled};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Requests of one kind without a reply, after which the exchange ends without the lists.
const TRIES: u8 = 3;

/// Client side of one query.
#[derive(Debug)]
pub struct FfowExchange {
    depth: Depth,
    has_players: bool,
    has_rules: bool,
    state: State,
    /// Timeouts in this state.
    silent: u8,
    /// Number of the current request.
    stage: usize,
    status: Box<Status>,
}

/// The reply that the exchange waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Info,
    Challenge,
    Players(Challenge),
    Rules(Challenge),
}

impl FfowExchange {
    /// Creates an exchange that has not sent anything yet. Requests have no id.
    pub fn new(ask: &Ask) -> Self {
        let is_full = ask.depth == Depth::Full;
        Self {
            depth: ask.depth,
            has_players: ask.has_players && is_full,
            has_rules: ask.has_rules && is_full,
            state: State::Info,
            silent: 0,
            stage: 0,
            status: Box::default(),
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let request = match self.state {
            State::Info => Request::Info,
            State::Challenge => Request::Challenge,
            State::Players(challenge) => Request::Players(challenge),
            State::Rules(challenge) => Request::Rules(challenge),
        };
        request.write(out);
        Step::Send
    }

    fn advance(&mut self, state: State, out: &mut Vec<u8>) -> Step {
        self.state = state;
        self.silent = 0;
        self.stage += 1;
        self.send(out)
    }

    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        self.silent = self.silent.saturating_add(1);
        if self.state != State::Info && self.silent >= TRIES {
            return self.give_up();
        }
        self.send(out)
    }

    /// Ends without the missing lists.
    fn give_up(&mut self) -> Step {
        let mut missing = Vec::new();
        if self.has_players && !matches!(self.state, State::Rules(_)) {
            missing.push(Value::from("players"));
        }
        if self.has_rules {
            missing.push(Value::from("rules"));
        }
        if self.state == State::Info {
            return Step::Wait;
        }
        self.status
            .extra
            .push(Extra::new("unanswered", Value::List(missing)));
        self.finish()
    }

    fn finish(&mut self) -> Step {
        Step::Done(core::mem::take(&mut self.status))
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if !Reply::is_reply(bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => return Step::Bad(error.into()),
        };
        match (self.state, reply) {
            (State::Info, Reply::Info(info)) => {
                self.status.add_deviations(notes.met());
                self.receive_info(&info, out)
            }
            (State::Challenge, Reply::Challenge(challenge)) => self.request_lists(challenge, out),
            (State::Players(challenge), Reply::Players(players)) => {
                self.status.add_deviations(notes.met());
                let players = players.iter().map(|sent| Player {
                    score: Some(sent.score.into()),
                    time_s: Some(sent.seconds),
                    ..Player::named(Text::by_content(sent.name))
                });
                self.status.players.set_list(players.collect());
                self.request_rules(challenge, out)
            }
            (State::Rules(_), Reply::Rules(rules)) => {
                self.status.add_deviations(notes.met());
                for (key, value) in rules {
                    self.status.rules.push(Rule {
                        key: by_content(key).0.into(),
                        value: by_content(value).0.into(),
                    });
                }
                self.finish()
            }
            _ => Step::Wait,
        }
    }

    fn receive_info(&mut self, info: &Info<'_>, out: &mut Vec<u8>) -> Step {
        if self.depth == Depth::Ping {
            return self.finish();
        }
        describe(info, &mut self.status);
        if self.has_players || self.has_rules {
            return self.advance(State::Challenge, out);
        }
        self.finish()
    }

    fn request_lists(&mut self, challenge: Challenge, out: &mut Vec<u8>) -> Step {
        if self.has_players {
            return self.advance(State::Players(challenge), out);
        }
        self.request_rules(challenge, out)
    }

    fn request_rules(&mut self, challenge: Challenge, out: &mut Vec<u8>) -> Step {
        if self.has_rules {
            return self.advance(State::Rules(challenge), out);
        }
        self.finish()
    }
}

impl Exchange for FfowExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => self.timeout(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::GiveUp => self.give_up(),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        self.stage
    }
}

/// Converts the info to a status (spec/ffow.md#7).
fn describe(info: &Info<'_>, status: &mut Status) {
    status.name = (!info.name.is_empty()).then(|| Text::by_content(info.name));
    status.map = filled(info.map);
    status.mode = filled(info.mode);
    status.game = filled(info.game);
    status.version = filled(info.version);
    status.address = Some(Address {
        host: None,
        port: Some(info.port),
    });
    status.players.online = Some(info.online.into());
    status.players.max = Some(info.max.into());
    let further = &info.further;
    status.add_extra("protocol-version", Some(i64::from(info.protocol)));
    status.add_extra("mod", filled(info.mods));
    status.add_extra("server-type", further.server_type.map(letter));
    status.add_extra("system", further.system.map(letter));
    status.add_extra("fps", further.fps.map(i64::from));
    status.add_extra("round", further.round.map(i64::from));
    status.add_extra("rounds", further.rounds.map(i64::from));
    status.add_extra("time-left-s", further.time_left_s.map(i64::from));
    status.has_password = further.has_password;
    status.has_anti_cheat = further.has_anti_cheat;
}

/// Returns a letter as text, and any other byte as a number.
fn letter(byte: u8) -> Value {
    if byte.is_ascii_graphic() {
        Value::from(String::from(char::from(byte)))
    } else {
        Value::Int(byte.into())
    }
}
