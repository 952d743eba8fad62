//! The client: the server, then each player, then each rule (spec/netquake.md#6).
//!
//! Limits: 255 players, 256 rules.

use super::message::{Game, Player as WirePlayer, Reply, Request, Server};
use crate::model::{Extra, Player, Rule, Status, Text, Value};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::Notes;
use crate::wire::charset;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Requests for one player or rule without a reply, after which it counts as missing.
const TRIES: u8 = 3;
/// Name of the list of players in the extra `unanswered`.
const PLAYERS: &str = "players";
/// Limit on rules.
const MAX_RULES: usize = 256;
/// Default port of Hexen II.
const HEXEN2_PORT: u16 = 26_900;
/// Address of bots on DarkPlaces servers.
const BOT: &[u8] = b"botclient";
/// Bits of one color.
const COLOR_BITS: i32 = 15;

/// Client side of one query.
#[derive(Debug)]
pub struct NetQuakeExchange {
    depth: Depth,
    has_players: bool,
    has_rules: bool,
    games: [Game; 2],
    state: State,
    /// Timeouts in this state.
    silent: u8,
    /// Number of the current request.
    stage: usize,
    /// Whether a datagram since the current request was malformed.
    is_malformed: bool,
    /// The list that lacks an entry whose reply was malformed.
    incomplete: Option<&'static str>,
    /// Players that got a reply.
    players: Vec<Player>,
    status: Box<Status>,
}

/// The reply that the exchange waits for.
#[derive(Debug)]
enum State {
    Server,
    Player { index: u8 },
    Rule { previous: Vec<u8> },
}

impl NetQuakeExchange {
    /// Creates an exchange that has not sent anything yet. Requests have no id.
    pub fn new(ask: &Ask) -> Self {
        let is_full = ask.depth == Depth::Full;
        Self {
            depth: ask.depth,
            has_players: ask.has_players && is_full,
            has_rules: ask.has_rules && is_full,
            games: match ask.to.port {
                HEXEN2_PORT => [Game::Hexen2, Game::Quake],
                _ => [Game::Quake, Game::Hexen2],
            },
            state: State::Server,
            silent: 0,
            stage: 0,
            is_malformed: false,
            incomplete: None,
            players: Vec::new(),
            status: Box::default(),
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let [first, second] = self.games;
        let request = match &self.state {
            State::Server if self.silent.is_multiple_of(2) => Request::Server(first),
            State::Server => Request::Server(second),
            State::Player { index } => Request::Player(*index),
            State::Rule { previous } => Request::Rule(previous),
        };
        request.write(out);
        Step::Send
    }

    /// Returns the name of the list that is being requested.
    fn list(&self) -> Option<&'static str> {
        match self.state {
            State::Server => None,
            State::Player { .. } => Some(PLAYERS),
            State::Rule { .. } => Some("rules"),
        }
    }

    /// Notes that a malformed reply was followed by one to another request: replies about rules
    /// have no number, so the reply may be a late one.
    fn note_malformed(&mut self) {
        if core::mem::take(&mut self.is_malformed) {
            self.incomplete = self.incomplete.or(self.list());
        }
    }

    /// Sends the first request of another state.
    fn advance(&mut self, state: State, out: &mut Vec<u8>) -> Step {
        self.state = state;
        self.silent = 0;
        self.stage += 1;
        self.send(out)
    }

    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        self.silent = self.silent.wrapping_add(1);
        self.is_malformed = false;
        if self.silent < TRIES {
            return self.send(out);
        }
        match self.state {
            State::Server => self.send(out),
            // No reply to a number means that there is no such player.
            State::Player { index } => self.after_player(index, out),
            State::Rule { .. } => self.give_up(),
        }
    }

    /// Ends without the rest of the lists.
    fn give_up(&mut self) -> Step {
        let Some(missing) = self.list() else {
            return Step::Wait;
        };
        self.incomplete = self.incomplete.or(Some(missing));
        self.finish()
    }

    fn finish(&mut self) -> Step {
        let expected = self.status.players.online.unwrap_or_default();
        let lacks_players = self.has_players && (self.players.len() as i64) < expected;
        if lacks_players && self.incomplete != Some(PLAYERS) {
            self.status.add_unanswered(PLAYERS);
        }
        if let Some(list) = self.incomplete {
            self.status.add_unanswered(list);
        }
        if self.has_players {
            let players = core::mem::take(&mut self.players);
            self.status.players.set_list(players);
        }
        Step::Done(core::mem::take(&mut self.status))
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if !Reply::is_reply(bytes) {
            self.is_malformed = true;
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => {
                self.is_malformed = true;
                return Step::Bad(error.into());
            }
        };
        match (&self.state, reply) {
            (State::Server, Reply::Server(server)) => {
                self.status.add_deviations(notes.met());
                self.receive_server(&server, out)
            }
            (State::Player { index }, Reply::Player(sent)) if sent.index == *index => {
                self.status.add_deviations(notes.met());
                self.note_malformed();
                self.players.push(player(&sent));
                self.after_player(sent.index, out)
            }
            (State::Rule { .. }, Reply::Rule(rule)) => {
                self.status.add_deviations(notes.met());
                self.note_malformed();
                self.receive_rule(rule, out)
            }
            _ => Step::Wait,
        }
    }

    fn receive_server(&mut self, server: &Server<'_>, out: &mut Vec<u8>) -> Step {
        if self.depth == Depth::Ping {
            return self.finish();
        }
        describe(server, &mut self.status);
        if self.has_players && server.online > 0 {
            return self.advance(State::Player { index: 0 }, out);
        }
        self.request_rules(out)
    }

    fn after_player(&mut self, index: u8, out: &mut Vec<u8>) -> Step {
        let next = index.saturating_add(1);
        let count = self.status.players.online.unwrap_or_default();
        if i64::from(next) < count && next > index {
            return self.advance(State::Player { index: next }, out);
        }
        self.request_rules(out)
    }

    fn request_rules(&mut self, out: &mut Vec<u8>) -> Step {
        if !self.has_rules {
            return self.finish();
        }
        let previous = Vec::new();
        self.advance(State::Rule { previous }, out)
    }

    fn receive_rule(&mut self, rule: Option<(&[u8], &[u8])>, out: &mut Vec<u8>) -> Step {
        let Some((name, value)) = rule else {
            return self.finish();
        };
        let key = charset::decode(name);
        // A late copy of an earlier reply.
        if self.status.rules.iter().any(|rule| rule.key == key) {
            return Step::Wait;
        }
        let value = charset::decode(value);
        self.status.rules.push(Rule { key, value });
        if self.status.rules.len() >= MAX_RULES {
            return self.finish();
        }
        let previous = name.into();
        self.advance(State::Rule { previous }, out)
    }
}

impl Exchange for NetQuakeExchange {
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

fn formatted(bytes: &[u8]) -> Option<Text> {
    (!bytes.is_empty()).then(|| Text::unformatted(charset::decode(bytes)))
}

/// Converts the reply about the server to a status (spec/netquake.md#7).
fn describe(server: &Server<'_>, status: &mut Status) {
    status.name = formatted(server.name);
    status.map = (!server.map.is_empty()).then(|| charset::decode(server.map));
    status.players.online = Some(server.online.into());
    status.players.max = Some(server.max.into());
    let version = Value::Int(server.version.into());
    status.extra.push(Extra::new("protocol-version", version));
}

fn player(sent: &WirePlayer<'_>) -> Player {
    let mut player = Player::named(Text::unformatted(charset::decode(sent.name)));
    player.score = Some(sent.frags.into());
    player.time_s = Some(sent.seconds as f32);
    for (key, shift) in [("shirt", 4), ("trousers", 0)] {
        let color = sent.colors >> shift & COLOR_BITS;
        player.extra.push(Extra::new(key, i64::from(color)));
    }
    if sent.address == BOT {
        player.extra.push(Extra::new("bot", true));
    }
    player
}
