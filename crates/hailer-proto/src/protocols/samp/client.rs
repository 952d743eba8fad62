//! The client: information, then rules and players together (spec/samp.md#5).

use super::deviation::*;
use super::message::{Body, Game, Info, Kind, Player as Entry, Reply, Request};
use crate::model::{Extra, Player, Rule, Status, Text, Value};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Input, Step};
use crate::wire::Notes;
use crate::wire::codepage::decode;
use alloc::{boxed::Box, vec::Vec};
use core::net::{IpAddr, Ipv4Addr};

/// Requests for a part without a reply, after which the exchange ends without it.
const TRIES: u8 = 3;
/// One request for information in this number of requests is for the other game: the second.
const OTHER_GAME_EVERY: u8 = 4;
/// Default port of VC-MP.
const VICE_CITY_PORT: u16 = 8192;
/// Largest number of players that servers list.
const MAX_LISTED: i64 = 100;
/// Key of the language.
const LANGUAGE: &str = "language";

/// Queries one SA-MP server.
#[derive(Debug)]
pub struct SampExchange {
    depth: Depth,
    has_players: bool,
    /// Address and port, or a tag; the server returns them.
    address: [u8; 6],
    /// The game of the port, until a server has replied, then its game.
    game: Game,
    /// Timeouts since the last reply.
    silent: u8,
    /// The request that was sent last.
    last: Kind,
    /// Requests to be sent directly one after the other, the next one last.
    queue: Vec<Kind>,
    /// Requests without a reply.
    waiting: Vec<Kind>,
    /// Status of the information.
    status: Option<Box<Status>>,
    /// Whether the list came without details because there was no reply with them.
    is_without_details: bool,
    has_list: bool,
    notes: Notes,
}

impl SampExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        let [a, b, c, d, e, f, ..] = cookie.derive(0).to_le_bytes();
        let ip = match ask.to.address.map(|address| address.ip().to_canonical()) {
            Some(IpAddr::V4(ip)) => Some(ip),
            Some(IpAddr::V6(_)) => None,
            None => ask.to.host.parse::<Ipv4Addr>().ok(),
        };
        let port = ask.to.address.map_or(ask.to.port, |address| address.port());
        let address = match ip.filter(|_| port != 0) {
            Some(ip) => {
                let ([a, b, c, d], [low, high]) = (ip.octets(), port.to_le_bytes());
                [a, b, c, d, low, high]
            }
            None => [a, b, c, d, e, f],
        };
        Self {
            depth: ask.depth,
            has_players: ask.has_players,
            address,
            game: match ask.to.port {
                VICE_CITY_PORT => Game::ViceCity,
                _ => Game::SanAndreas,
            },
            silent: 0,
            last: Kind::Info,
            queue: Vec::new(),
            waiting: Vec::new(),
            status: None,
            is_without_details: false,
            has_list: false,
            notes: Notes::default(),
        }
    }

    fn send_info(&self, out: &mut Vec<u8>) -> Step {
        let is_other = self.silent % OTHER_GAME_EVERY == 1;
        self.write(Kind::Info, is_other, out);
        Step::Send
    }

    fn write(&self, kind: Kind, is_other: bool, out: &mut Vec<u8>) {
        let game = match (self.game, is_other) {
            (Game::SanAndreas, false) | (Game::ViceCity, true) => Game::SanAndreas,
            (Game::ViceCity, false) | (Game::SanAndreas, true) => Game::ViceCity,
        };
        Request {
            game,
            address: self.address,
            kind,
            rest: &[],
        }
        .write(out);
    }

    /// Sends the next request of the queue.
    fn send_next(&mut self, out: &mut Vec<u8>) -> Step {
        let Some(kind) = self.queue.pop() else {
            return Step::Wait;
        };
        self.last = kind;
        self.write(kind, false, out);
        if self.queue.is_empty() {
            Step::Send
        } else {
            Step::SendMore
        }
    }

    /// Sends these requests, and waits for their replies.
    fn request(&mut self, kinds: &[Kind], out: &mut Vec<u8>) -> Step {
        self.waiting.extend_from_slice(kinds);
        self.queue = kinds.iter().rev().copied().collect();
        self.send_next(out)
    }

    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        self.silent = self.silent.saturating_add(1);
        if self.status.is_none() {
            return self.send_info(out);
        }
        if self.silent >= TRIES {
            return self.finish();
        }
        // Some servers send no details. A list without them ends the query after a second request
        // for them.
        let has = |kind: Kind| self.waiting.contains(&kind);
        if has(Kind::Details) && !has(Kind::Players) {
            self.waiting.push(Kind::Players);
            self.is_without_details = true;
        }
        self.queue = self.waiting.iter().rev().copied().collect();
        self.send_next(out)
    }

    /// Ends with the parts that are there.
    fn finish(&mut self) -> Step {
        let Some(mut status) = self.status.take() else {
            return Step::Wait;
        };
        let is_waiting = |kinds: &[Kind]| kinds.iter().any(|kind| self.waiting.contains(kind));
        for (is_missing, name) in [
            (is_waiting(&[Kind::Rules]), "rules"),
            (is_waiting(&[Kind::Players, Kind::Details]), "players"),
            (self.is_without_details && self.has_list, "details"),
            (is_waiting(&[Kind::Links]), "links"),
        ] {
            if is_missing {
                status.add_unanswered(name);
            }
        }
        status.deviations = self.notes.met().collect();
        Step::Done(status)
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if !Reply::is_reply(bytes) || bytes.get(4..10) != Some(&self.address) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => {
                let kind = bytes.get(10).and_then(|byte| Kind::of_byte(*byte));
                return match kind.filter(|kind| self.waiting.contains(kind)) {
                    Some(kind) => self.leave_out(kind),
                    None => Step::Bad(error.into()),
                };
            }
        };
        let is_expected = match &reply.body {
            Body::Info(_) => self.status.is_none(),
            Body::Rules(_) => self.waiting.contains(&Kind::Rules),
            Body::Players(_) => [Kind::Players, Kind::Details]
                .iter()
                .any(|kind| self.waiting.contains(kind)),
            Body::Links(_) => self.waiting.contains(&Kind::Links),
            Body::Ping(_) | Body::Console(_) => false,
        };
        if !is_expected {
            return Step::Wait;
        }
        self.silent = 0;
        for (deviation, at) in notes.deviations() {
            self.notes.deviation(deviation, *at);
        }
        match reply.body {
            Body::Info(info) => self.receive_info(&info, reply.game, out),
            Body::Rules(rules) => self.receive_rules(&rules, out),
            Body::Players(list) => self.receive_list(&list),
            Body::Links(links) => self.receive_links(&links),
            Body::Ping(_) | Body::Console(_) => Step::Wait,
        }
    }

    /// Continues without a list that is unreadable: a second reply would be the same.
    fn leave_out(&mut self, kind: Kind) -> Step {
        self.notes.deviation(&UNREADABLE_LIST, 0);
        if let (Kind::Players | Kind::Details, Some(status)) = (kind, &mut self.status) {
            status.players.mark_unreadable();
        }
        self.waiting.retain(|waiting| *waiting != kind);
        self.silent = 0;
        self.proceed()
    }

    fn receive_info(&mut self, info: &Info<'_>, game: Game, out: &mut Vec<u8>) -> Step {
        self.game = game;
        let mut status = match self.depth {
            Depth::Ping => Box::default(),
            _ => status(info, game),
        };
        let online = i64::from(info.players);
        let has_list = self.has_players && (1..=MAX_LISTED).contains(&online);
        if self.depth == Depth::Full && self.has_players && online == 0 {
            status.players.set_list(Vec::new());
        }
        self.status = Some(status);
        match (self.depth, game) {
            (Depth::Ping | Depth::Basic, _) => self.finish(),
            (_, Game::SanAndreas) if has_list => self.request(&[Kind::Rules, Kind::Details], out),
            (_, Game::SanAndreas) => self.request(&[Kind::Rules], out),
            (_, Game::ViceCity) if has_list => self.request(&[Kind::Players], out),
            (_, Game::ViceCity) => self.finish(),
        }
    }

    fn receive_rules(&mut self, rules: &[(&[u8], &[u8])], out: &mut Vec<u8>) -> Step {
        self.waiting.retain(|kind| *kind != Kind::Rules);
        let Some(status) = &mut self.status else {
            return Step::Wait;
        };
        let rule = |(key, value): &(&[u8], &[u8])| Rule {
            key: decode(key),
            value: decode(value),
        };
        status.rules = rules.iter().map(rule).collect();
        let value = |key: &str| {
            let mut rules = status.rules.iter();
            let rule = rules.find(|rule| rule.key.eq_ignore_ascii_case(key));
            let value = rule.map(|rule| rule.value.clone());
            value.filter(|value| !value.is_empty())
        };
        status.map = value("mapname");
        status.version = value("version");
        let is_old = status.version.as_deref().is_some_and(is_before_languages);
        if is_old && status.map.is_none() {
            let place = status.extra.iter().position(|extra| extra.key == LANGUAGE);
            let language = place.map(|place| status.extra.remove(place).value);
            if let Some(Value::Str(map)) = language {
                status.map = Some(map);
            }
        }
        let is_open = status.version.as_ref();
        if is_open.is_some_and(|version| version.starts_with("omp")) {
            let had = self.waiting.len();
            self.waiting.retain(|kind| *kind != Kind::Details);
            return if self.waiting.len() < had {
                self.request(&[Kind::Players, Kind::Links], out)
            } else {
                self.request(&[Kind::Links], out)
            };
        }
        self.proceed()
    }

    fn receive_list(&mut self, list: &[Entry<'_>]) -> Step {
        let is_list = |kind: &Kind| matches!(kind, Kind::Players | Kind::Details);
        self.waiting.retain(|kind| !is_list(kind));
        if list.iter().any(|entry| entry.ping.is_some()) {
            self.is_without_details = false;
        }
        self.has_list = true;
        if let Some(status) = &mut self.status {
            status.players.set_list(list.iter().map(player).collect());
        }
        self.proceed()
    }

    fn receive_links(&mut self, links: &[&[u8]; 4]) -> Step {
        self.waiting.retain(|kind| *kind != Kind::Links);
        if let Some(status) = &mut self.status {
            let keys = ["discord", "light-banner", "dark-banner", "logo"];
            for (key, link) in keys.into_iter().zip(links) {
                if !link.is_empty() {
                    status.extra.push(Extra::new(key, decode(link)));
                }
            }
        }
        self.proceed()
    }

    /// Ends if no reply is missing.
    fn proceed(&mut self) -> Step {
        if self.waiting.is_empty() {
            self.finish()
        } else {
            Step::Progress
        }
    }
}

impl Exchange for SampExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send_info(out),
            Input::Timeout => self.timeout(out),
            Input::Continue => self.send_next(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            _ => self.finish(),
        }
    }

    fn stage(&self) -> usize {
        match self.last {
            Kind::Rules => 1,
            Kind::Details => 2,
            Kind::Players => 3,
            Kind::Links => 4,
            Kind::Info | Kind::Ping | Kind::Console => 0,
        }
    }
}

/// Converts the information to a status (spec/samp.md#8).
fn status(info: &Info<'_>, game: Game) -> Box<Status> {
    let filled = |bytes: &[u8]| Some(decode(bytes)).filter(|text| !text.is_empty());
    let mut status = Box::<Status>::default();
    status.name = Text::filled_windows(info.name);
    status.mode = filled(info.mode);
    status.version = info.version.and_then(filled);
    status.has_password = Some(info.password != 0);
    status.players.online = Some(info.players.into());
    status.players.max = Some(info.max.into());
    let third = filled(info.language);
    match game {
        Game::SanAndreas => status.add_extra(LANGUAGE, third),
        Game::ViceCity => status.map = third,
    }
    status
}

/// Returns whether servers of this version send a map in place of a language: all before 0.3.7.
fn is_before_languages(version: &str) -> bool {
    let newer = ["0.3.7", "0.3.8", "0.3.D", "0.3DL"];
    version.starts_with("0.") && !newer.iter().any(|newer| version.starts_with(newer))
}

fn player(entry: &Entry<'_>) -> Player {
    let mut player = Player::named(Text::windows(entry.name));
    player.score = entry.score.map(i64::from);
    player.latency_ms = entry.ping.and_then(|ping| i32::try_from(ping).ok());
    let id = entry.id.map(|id| Extra::new("id", i64::from(id)));
    player.extra.extend(id);
    player
}

#[cfg(test)]
mod tests {
    use super::super::{PROTOCOL, SampConfig, SampResponder};
    use super::*;
    use crate::protocol::Destination;
    use crate::testing::memory::{self, Server};
    use crate::{Epoch, Options, Protocol};

    fn trip(status: &Status, options: &Options, port: u16) -> Step {
        let responder = SampResponder::new(status, &SampConfig::read(options).unwrap());
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut server = Server::new(&responder, from, Epoch(1));
        let ask = Ask {
            to: Destination {
                port,
                ..Destination::default()
            },
            ..Ask::default()
        };
        let mut exchange = SampExchange::new(&ask, Cookie(4));
        memory::run(&mut exchange, &mut server, |_, _| {})
    }

    #[test]
    fn servers_of_vice_city_have_no_rules() {
        let sample = PROTOCOL.sample(3);
        let options = Options::default().with("game", "vcmp");
        let Step::Done(status) = trip(&sample, &options, VICE_CITY_PORT) else {
            panic!("no status")
        };
        assert_eq!((&status.name, &status.mode), (&sample.name, &sample.mode));
        assert_eq!(status.version.as_deref(), Some("0.3.7-R2"));
        assert_eq!(status.players.list.len(), sample.players.list.len());
        assert!(status.rules.is_empty() && status.deviations.is_empty());
    }

    #[test]
    fn the_address_is_that_of_the_server_if_it_has_one() {
        let start = |ask: &Ask| {
            let mut out = Vec::new();
            SampExchange::new(ask, Cookie(4)).handle(Input::Start, &mut out);
            out
        };
        let named = Ask {
            to: Destination {
                host: "192.0.2.7".into(),
                port: 7_777,
                ..Destination::default()
            },
            ..Ask::default()
        };
        assert_eq!(start(&named), b"SAMP\xC0\0\x02\x07\x61\x1Ei");
        let resolved = Ask {
            to: Destination {
                host: "play.example.org".into(),
                address: Some("[::ffff:192.0.2.8]:7778".parse().unwrap()),
                ..Destination::default()
            },
            ..Ask::default()
        };
        assert_eq!(start(&resolved), b"SAMP\xC0\0\x02\x08\x62\x1Ei");
        let six = Ask {
            to: Destination {
                host: "192.0.2.7".into(),
                address: Some("[2001:db8::1]:7777".parse().unwrap()),
                ..Destination::default()
            },
            ..Ask::default()
        };
        assert_eq!(start(&six), start(&Ask::default()));
    }
}
