//! The client: one request, whose reply has one or two datagrams (spec/cs2d.md#6).

use super::deviation::UNREADABLE_PLAYERS;
use super::message::{Player as WirePlayer, REQUEST, Reply, Server, flag};
use crate::model::{Extra, Player, Status, Text, Value};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::{Deviation, Notes, filled};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Requests without a list of players, after which the exchange ends without it.
const TRIES: u8 = 3;
/// Names of the game modes.
const MODES: [&str; 5] = [
    "standard",
    "deathmatch",
    "team deathmatch",
    "construction",
    "zombies",
];
/// Names of the teams.
const TEAMS: [&str; 3] = ["spectators", "terrorists", "counter-terrorists"];

/// Client side of one query.
#[derive(Debug)]
pub struct Cs2dExchange {
    depth: Depth,
    has_players: bool,
    /// Status without players.
    status: Option<Box<Status>>,
    players: Option<Vec<Player>>,
    deviations: Vec<&'static Deviation>,
    /// Timeouts since the status arrived.
    silent: u8,
}

impl Cs2dExchange {
    /// Creates an exchange that has not sent anything yet. Requests have no id.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            status: None,
            players: None,
            deviations: Vec::new(),
            silent: 0,
        }
    }

    fn send(out: &mut Vec<u8>) -> Step {
        out.extend(REQUEST);
        Step::Send
    }

    /// Requests what is missing again: servers ignore some requests at random.
    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        if self.status.is_some() {
            self.silent += 1;
            if self.silent >= TRIES {
                return self.finish_without_players();
            }
        }
        Self::send(out)
    }

    fn finish_without_players(&mut self) -> Step {
        if let Some(status) = &mut self.status {
            status.add_unanswered("players");
        }
        self.finish()
    }

    /// Ends if there is a status.
    fn finish(&mut self) -> Step {
        let Some(mut status) = self.status.take() else {
            return Step::Wait;
        };
        if let Some(players) = self.players.take().filter(|_| self.has_players) {
            status.players.set_list(players);
        }
        if self.deviations.contains(&&UNREADABLE_PLAYERS) {
            status.players.mark_unreadable();
        }
        status.deviations = core::mem::take(&mut self.deviations);
        Step::Done(status)
    }

    fn receive(&mut self, bytes: &[u8]) -> Step {
        if !Reply::is_reply(bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(_) if self.status.is_some() => {
                self.deviations.push(&UNREADABLE_PLAYERS);
                return self.finish();
            }
            Err(error) => return Step::Bad(error.into()),
        };
        for deviation in notes.met() {
            if !self.deviations.contains(&deviation) {
                self.deviations.push(deviation);
            }
        }
        if let Some(server) = &reply.server {
            self.status = Some(match self.depth {
                Depth::Ping => Box::default(),
                Depth::Basic | Depth::Full => status(server),
            });
        }
        if let Some(players) = &reply.players {
            self.players = Some(players.iter().map(player).collect());
        }
        let is_complete = self.players.is_some() || !self.has_players;
        if self.status.is_some() && is_complete {
            return self.finish();
        }
        Step::Progress
    }
}

impl Exchange for Cs2dExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => Self::send(out),
            Input::Timeout => self.timeout(out),
            Input::Datagram(bytes) => self.receive(bytes),
            Input::GiveUp => self.finish_without_players(),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        0
    }
}

/// Converts the server's message to a status (spec/cs2d.md#7).
fn status(server: &Server<'_>) -> Box<Status> {
    let mode = server.mode.and_then(|mode| MODES.get(usize::from(mode)));
    let mut status = Box::new(Status {
        name: (!server.name.is_empty()).then(|| Text::by_content(server.name)),
        map: filled(server.map),
        mode: mode.map(|mode| (*mode).into()),
        has_password: Some(server.flags & flag::PASSWORD != 0),
        ..Status::default()
    });
    status.players.online = Some(server.online.into());
    status.players.max = Some(server.max.into());
    status.players.bots = server.bots.map(i64::from);
    let mut add = |key, value| status.extra.push(Extra::new(key, value));
    if let Some(number) = server.mode
        && mode.is_none()
    {
        add("mode-number", Value::Int(number.into()));
    }
    for (key, bit) in [
        ("registered-only", flag::REGISTERED_ONLY),
        ("fog-of-war", flag::FOG_OF_WAR),
        ("friendly-fire", flag::FRIENDLY_FIRE),
        ("lua", flag::LUA),
        ("forced-light", flag::FORCED_LIGHT),
    ] {
        add(key, Value::Bool(server.flags & bit != 0));
    }
    if let Some(flags) = server.further_flags {
        for (key, bit) in [("recoil", 1), ("damage-off-screen", 2), ("downloads", 4)] {
            add(key, Value::Bool(flags & bit != 0));
        }
    }
    status
}

fn player(sent: &WirePlayer<'_>) -> Player {
    let mut player = Player::named(Text::by_content(sent.name));
    player.score = Some(sent.score.into());
    player.team = TEAMS.get(usize::from(sent.team)).map(|team| (*team).into());
    player.extra.push(Extra::new("id", i64::from(sent.id)));
    player
        .extra
        .push(Extra::new("deaths", i64::from(sent.deaths)));
    player
}
