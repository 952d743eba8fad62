//! The client: information, rules, players, one after the other (spec/unreal2.md#5).

use super::deviation::*;
use super::message::{self, Info, Kind, Player as Entry, Reply, WireText};
use super::{LISTED_PLAYERS, RULE_COUNT};
use crate::model::{Address, Extra, Player, Rule, Status, Text, Value};
use crate::protocol::{Ask, Depth, Exchange, Fault, Input, Step};
use crate::wire::Notes;
use alloc::{boxed::Box, vec::Vec};
use compact_str::CompactString;

/// Requests for rules or players without a reply, after which the exchange continues without.
const TRIES: u8 = 2;
/// Most datagrams of a reply.
const MAX_DATAGRAMS: usize = 64;
/// Most rules and players.
const MAX_ENTRIES: usize = 1_024;
/// Bits of the number of the statistics that name a team.
const TEAMS: [(u32, &str); 2] = [(0x2000_0000, "red"), (0x4000_0000, "blue")];

/// Queries one Unreal 2 server.
#[derive(Debug)]
pub struct Unreal2Exchange {
    depth: Depth,
    has_players: bool,
    state: State,
    /// Timeouts in this state.
    silent: u8,
    status: Box<Status>,
    /// Datagrams of the rules and players, to drop those that arrive twice.
    seen: Vec<Vec<u8>>,
    /// Rules as keys and values.
    rules: Vec<(CompactString, CompactString)>,
    players: Vec<(u32, Player)>,
    /// Lines of the list that are no players.
    scoreboard: Vec<(CompactString, i64)>,
    notes: Notes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Info,
    Rules,
    /// Players, with the number of them that the list should have.
    Players(i64),
    /// A second request for information. Nothing of the earlier replies follows its reply.
    Fence,
}

impl Unreal2Exchange {
    /// Creates an exchange that has not sent anything yet. Requests have no id.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            has_players: ask.has_players,
            state: State::Info,
            silent: 0,
            status: Box::default(),
            seen: Vec::new(),
            rules: Vec::new(),
            players: Vec::new(),
            scoreboard: Vec::new(),
            notes: Notes::default(),
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let kind = match self.state {
            State::Info | State::Fence => Kind::Info,
            State::Rules => Kind::Rules,
            State::Players(_) => Kind::Players,
        };
        message::write_request(kind, out);
        Step::Send
    }

    fn enter(&mut self, state: State, out: &mut Vec<u8>) -> Step {
        self.state = state;
        self.silent = 0;
        self.send(out)
    }

    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        self.silent = self.silent.saturating_add(1);
        let is_over = self.silent >= TRIES;
        match self.state {
            State::Info => {}
            State::Rules if is_over => {
                return self.after_rules(out);
            }
            State::Players(_) | State::Fence if is_over => return self.finish(),
            // The next reply has everything again.
            State::Rules => {
                self.rules.clear();
                self.forget(Kind::Rules);
            }
            State::Players(_) => {
                self.players.clear();
                self.scoreboard.clear();
                self.forget(Kind::Players);
            }
            State::Fence => {}
        }
        self.send(out)
    }

    /// Returns whether no reply with rules has arrived, or fewer rules than announced.
    fn lacks_rules(&self) -> bool {
        let mut seen = self.seen.iter();
        let has_reply = seen.any(|seen| Kind::of_reply(seen) == Some(Kind::Rules));
        let count = self.rule_count().unwrap_or(0);
        !has_reply || self.rules.len() < count
    }

    /// Accepts datagrams of this kind again.
    fn forget(&mut self, kind: Kind) {
        self.seen.retain(|seen| Kind::of_reply(seen) != Some(kind));
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let Some(kind) = Kind::of_reply(bytes) else {
            // Nothing else tells that a datagram of the reply is missing.
            if self.state != State::Info {
                self.notes.deviation(&UNREADABLE_PART, 0);
            }
            return Step::Wait;
        };
        // Rules may arrive until the players do.
        let can_be_late = kind == Kind::Rules && self.rule_count().is_none();
        let is_expected = match self.state {
            State::Info => kind == Kind::Info,
            State::Rules => kind == Kind::Rules,
            State::Players(_) => kind == Kind::Players || can_be_late,
            // The list may have more players than the information counts.
            State::Fence => true,
        };
        if !is_expected || self.seen.iter().any(|seen| seen == bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => {
                if self.state != State::Info {
                    self.notes.deviation(&UNREADABLE_PART, 0);
                }
                return Step::Bad(error.into());
            }
        };
        for (deviation, at) in notes.deviations() {
            self.notes.deviation(deviation, *at);
        }
        if kind != Kind::Info {
            let same_kind = self
                .seen
                .iter()
                .filter(|seen| Kind::of_reply(seen) == Some(kind));
            if same_kind.count() == MAX_DATAGRAMS {
                return Step::Bad(Fault::Misbehaved("its reply has more than 64 datagrams"));
            }
            self.seen.push(bytes.into());
        }
        match reply {
            Reply::Info(_) if self.state == State::Fence => self.finish(),
            Reply::Info(info) => self.receive_info(&info, out),
            Reply::Rules(rules) => self.receive_rules(&rules, out),
            Reply::Players(players) => self.receive_players(&players, out),
        }
    }

    fn receive_info(&mut self, info: &Info<'_>, out: &mut Vec<u8>) -> Step {
        if self.depth != Depth::Ping {
            self.status = status(info);
        }
        match self.depth {
            Depth::Full => self.enter(State::Rules, out),
            Depth::Ping | Depth::Basic => self.finish(),
        }
    }

    fn receive_rules(&mut self, rules: &[(WireText<'_>, WireText<'_>)], out: &mut Vec<u8>) -> Step {
        if self.rules.len() + rules.len() > MAX_ENTRIES {
            return Step::Bad(Fault::Misbehaved("it has more than 1,024 rules"));
        }
        let decoded = rules
            .iter()
            .map(|(key, value)| (key.decode(), value.decode()));
        self.rules.extend(decoded);
        let is_complete = self
            .rule_count()
            .is_none_or(|count| self.rules.len() >= count);
        match self.state {
            // Without a count, the rest arrives before the reply to the next request.
            State::Rules if is_complete => self.after_rules(out),
            _ => Step::Progress,
        }
    }

    /// Returns the number of rules that Hailer's responder announces, with those that it adds.
    fn rule_count(&self) -> Option<usize> {
        self.number(RULE_COUNT)?.try_into().ok()
    }

    fn number(&self, key: &str) -> Option<i64> {
        let rule = self.rules.iter().find(|(known, _)| known == key);
        rule.and_then(|(_, value)| value.parse().ok())
    }

    /// Continues with the players, if there are any.
    fn after_rules(&mut self, out: &mut Vec<u8>) -> Step {
        let online = self.status.players.online.unwrap_or(0);
        let expected = self.number(LISTED_PLAYERS).unwrap_or(online);
        let has_list = self.has_players && online > 0;
        if has_list && expected > 0 {
            return self.enter(State::Players(expected), out);
        }
        self.end_list(out)
    }

    fn receive_players(&mut self, entries: &[Entry<'_>], out: &mut Vec<u8>) -> Step {
        for entry in entries {
            if self.players.len() + self.scoreboard.len() >= MAX_ENTRIES {
                return Step::Bad(Fault::Misbehaved("it lists more than 1,024 players"));
            }
            if entry.id == 0 {
                let line = (entry.name.decode(), i64::from(entry.score));
                self.scoreboard.push(line);
                continue;
            }
            let entry = (entry.id, player(entry));
            // Some servers give several players the same number.
            let is_same = |(id, known): &&mut (u32, Player)| {
                *id == entry.0 && known.name.raw() == entry.1.name.raw()
            };
            match self.players.iter_mut().find(is_same) {
                Some(known) => *known = entry,
                None => self.players.push(entry),
            }
        }
        match self.state {
            State::Players(expected) if self.players.len() as i64 >= expected => self.end_list(out),
            _ => Step::Progress,
        }
    }

    /// Ends if the server announces what it sends, or else when nothing can follow.
    fn end_list(&mut self, out: &mut Vec<u8>) -> Step {
        let is_announced = self.rule_count().is_some();
        let has_nothing = self.rules.is_empty() && self.players.is_empty();
        self.state = State::Fence;
        self.silent = 0;
        if is_announced || has_nothing {
            return self.finish();
        }
        self.send(out)
    }

    /// Ends with the parts that are there.
    fn finish(&mut self) -> Step {
        let mut status = core::mem::take(&mut self.status);
        if self.depth == Depth::Full && self.lacks_rules() {
            status.add_unanswered("rules");
        }
        if matches!(self.state, State::Players(expected) if (self.players.len() as i64) < expected)
        {
            status.add_unanswered("players");
        }
        self.add_rules(&mut status);
        let listed = core::mem::take(&mut self.players);
        let has_list = !listed.is_empty() || status.players.online == Some(0);
        if self.has_players && self.depth == Depth::Full && has_list {
            let players: Vec<Player> = listed.into_iter().map(|(_, player)| player).collect();
            let is_bot = |player: &&Player| player.latency_ms == Some(0);
            let bots = players.iter().filter(is_bot).count() as i64;
            status.players.bots = Some(bots);
            status.players.set_list(players);
        }
        if !self.scoreboard.is_empty() {
            let lines = self.scoreboard.drain(..);
            let lines = lines.map(|(name, score)| {
                let name = Text::unreal(name).plain();
                (name.into(), Value::Int(score))
            });
            status
                .extra
                .push(Extra::new("scoreboard", Value::Table(lines.collect())));
        }
        status.deviations = self.notes.met().collect();
        Step::Done(status)
    }

    /// Adds the rules, and the members that they have (spec/unreal2.md#7).
    fn add_rules(&mut self, status: &mut Status) {
        let rules = core::mem::take(&mut self.rules);
        let value = |keys: &[&str]| {
            let is_key = |key: &str| keys.iter().any(|known| known.eq_ignore_ascii_case(key));
            let rule = rules.iter().find(|(key, _)| is_key(key));
            rule.map(|(_, value)| value.clone())
        };
        let boolean = |keys: &[&str]| match value(keys)?.to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        status.version = value(&["ServerVersion"]).filter(|version| !version.is_empty());
        status.has_password = boolean(&["GamePassword", "Game Password"]);
        status.has_anti_cheat = boolean(&["IsVacSecured"]);
        let mutators = rules
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case("Mutator"));
        let mutators: Vec<Value> = mutators.map(|(_, name)| name.clone().into()).collect();
        if !mutators.is_empty() {
            status
                .extra
                .push(Extra::new("mutators", Value::List(mutators)));
        }
        let own = rules.into_iter();
        let own = own.filter(|(key, _)| key != RULE_COUNT && key != LISTED_PLAYERS);
        status.rules = own.map(|(key, value)| Rule { key, value }).collect();
    }
}

impl Exchange for Unreal2Exchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => self.timeout(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            _ if self.state == State::Info => Step::Wait,
            _ => self.finish(),
        }
    }

    fn stage(&self) -> usize {
        match self.state {
            State::Info => 0,
            State::Rules => 1,
            State::Players(_) | State::Fence => 2,
        }
    }
}

/// Converts the information to a status (spec/unreal2.md#7).
fn status(info: &Info<'_>) -> Box<Status> {
    let filled = |text: WireText<'_>| Some(text.decode()).filter(|text| !text.is_empty());
    let mut status = Box::<Status>::default();
    status.name = filled(info.name).map(Text::unreal);
    status.map = filled(info.map).map(|map| Text::unreal(map).plain().into());
    status.mode = filled(info.class);
    status.players.online = Some(info.players.into());
    status.players.max = Some(info.max.into());
    let host = filled(info.address);
    let port = u16::try_from(info.game_port).ok();
    let port = port.filter(|port| *port != 0);
    if host.is_some() || port.is_some() {
        status.address = Some(Address { host, port });
    }
    let mut add = |key, value: Option<Value>| {
        status
            .extra
            .extend(value.map(|value| Extra::new(key, value)));
    };
    let number = |number: u32| Value::Int(number.into());
    let [wave, last_wave] = info.waves.map_or([None; 2], |waves| waves.map(Some));
    add("wave", wave.map(number));
    add("last-wave", last_wave.map(number));
    add("flags", info.flags.filter(|flags| *flags != 0).map(number));
    add("skill", info.skill.and_then(filled).map(Value::Str));
    add("server-id", Some(info.id).filter(|id| *id != 0).map(number));
    status
}

fn player(entry: &Entry<'_>) -> Player {
    let mut player = Player::named(Text::unreal(entry.name.decode()));
    player.score = Some(entry.score.into());
    player.latency_ms = i32::try_from(entry.ping).ok();
    let team = TEAMS
        .into_iter()
        .find(|(bits, _)| entry.statistics == *bits);
    player.team = team.map(|(_, name)| name.into());
    player.extra.push(Extra::new("id", i64::from(entry.id)));
    if team.is_none() && entry.statistics != 0 {
        let number = i64::from(entry.statistics);
        player.extra.push(Extra::new("statistics-id", number));
    }
    player
}
