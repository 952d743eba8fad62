//! The client: the forms of all versions, until one is answered (spec/teeworlds.md#6).

use super::deviation::*;
use super::message::{Client, Form, Info, MAX_CLIENTS, Reply, Request, Token};
use super::message::{FLAG_PASSWORD, FLAG_TIME_SCORE};
use crate::model::{Address, Extra, Player, Status, Text};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Fault, Input, Step};
use crate::wire::{Deviation, Notes, filled, whole_number};
use alloc::{boxed::Box, vec::Vec};

/// Forms of the first requests. After the last one, the first one follows. The request for a token
/// of 0.7 follows each extended one immediately.
const TURNS: [Form; 3] = [Form::Extended, Form::Extended, Form::Five];
/// Requests for a part of a reply, after which the exchange ends without it.
const TRIES: u8 = 2;
/// Largest number of clients that 0.5 lists.
const MAX_LISTED_FIVE: i64 = 16;
/// Most datagrams of a reply.
const MAX_PARTS: usize = 64;

/// Queries one Teeworlds server.
#[derive(Debug)]
pub struct TeeworldsExchange {
    depth: Depth,
    has_players: bool,
    /// Token of 0.5 and 0.6, 24 bits, of which the older forms use the lowest 8.
    token: u32,
    /// Token of 0.7.
    client_token: Token,
    /// Number of the request of 0.7.
    number: i32,
    state: State,
    /// Timeouts in this state.
    silent: u8,
    stage: usize,
    /// Whether the request for a token of 0.7 is next.
    has_more: bool,
    /// Status of a reply that lists fewer clients than another form would.
    earlier: Option<Box<Status>>,
    /// Forms without a reply, as the status names them.
    unanswered: &'static str,
}

#[derive(Debug)]
enum State {
    /// No server has replied.
    Searching,
    /// The server has sent a token of 0.7.
    Seven { server: Token },
    /// Parts of a reply are missing.
    Parts(Parts),
}

/// A reply of several datagrams.
#[derive(Debug)]
struct Parts {
    form: Form,
    /// Status of the header, if it is there.
    status: Option<Box<Status>>,
    /// Number of clients to list.
    expected: i64,
    /// Numbers of the parts with their clients, sorted.
    lists: Vec<(i64, Vec<Player>)>,
    deviations: Vec<&'static Deviation>,
}

impl Parts {
    fn new(form: Form) -> Self {
        Self {
            form,
            status: None,
            expected: 0,
            lists: Vec::new(),
            deviations: Vec::new(),
        }
    }

    /// Adds a part, or replaces it after a repeated request.
    fn add(&mut self, number: i64, list: &[Client<'_>], notes: &Notes) -> Result<(), Fault> {
        let others = self.lists.iter().filter(|(other, _)| *other != number);
        let kept: usize = others.map(|(_, list)| list.len()).sum();
        if kept + list.len() > MAX_CLIENTS || self.lists.len() > MAX_PARTS {
            return Err(Fault::Misbehaved(
                "its reply has more than 1,024 clients or 64 parts",
            ));
        }
        let players = list
            .iter()
            .map(|client| player(client, self.form))
            .collect();
        match self
            .lists
            .binary_search_by_key(&number, |(number, _)| *number)
        {
            Ok(place) => {
                if let Some(part) = self.lists.get_mut(place) {
                    part.1 = players;
                }
            }
            Err(place) => self.lists.insert(place, (number, players)),
        }
        for met in notes.met() {
            if !self.deviations.contains(&met) {
                self.deviations.push(met);
            }
        }
        Ok(())
    }

    fn listed(&self) -> i64 {
        self.lists.iter().map(|(_, list)| list.len() as i64).sum()
    }

    /// Returns whether no further part is expected.
    fn is_complete(&self) -> bool {
        let listed = self.listed();
        self.status.is_some() && (listed >= self.expected || listed == 0 || !self.has_parts())
    }

    /// Returns whether a list can have several datagrams.
    fn has_parts(&self) -> bool {
        matches!(self.form, Form::Extended | Form::SixtyFour)
    }

    /// Returns the status with the clients that are there.
    fn finish(self, has_players: bool) -> Option<Box<Status>> {
        let listed = self.listed();
        let has_parts = self.has_parts();
        let mut status = self.status?;
        status.deviations = self.deviations;
        match listed {
            listed if listed >= self.expected => {}
            0 => status.deviations.push(&PLAYERS_LEFT_OUT),
            // A part may be lost.
            _ if has_parts => status.add_unanswered("players"),
            _ => status.deviations.push(&MISSING_PLAYERS),
        }
        let is_withheld = listed == 0 && status.players.online != Some(0);
        if has_players && !is_withheld {
            let lists = self.lists.into_iter();
            let list: Vec<Player> = lists.flat_map(|(_, list)| list).collect();
            if self.form == Form::Seven {
                let is_bot = |player: &&Player| player.extra.contains(&Extra::new("bot", true));
                status.players.bots = Some(list.iter().filter(is_bot).count() as i64);
            }
            status.players.set_list(list);
        }
        Some(status)
    }
}

impl TeeworldsExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        let bits = cookie.derive(0);
        let [a, b, c, d, e, ..] = cookie.derive(1).to_le_bytes();
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            token: bits as u32 & 0xFF_FFFF,
            // The highest bit is clear, because a token of ones means that there is none.
            client_token: [a & 0x7F, b, c, d],
            // One byte, as of the games: the tokens are the proof.
            number: i32::from(e & 0x3F),
            state: State::Searching,
            silent: 0,
            stage: 0,
            has_more: false,
            earlier: None,
            unanswered: "",
        }
    }

    fn send(&mut self, out: &mut Vec<u8>) -> Step {
        let form = match &self.state {
            State::Parts(parts) => parts.form,
            _ => {
                let turn = usize::from(self.silent) % TURNS.len();
                TURNS.get(turn).copied().unwrap_or_default()
            }
        };
        self.request(form, out);
        self.has_more = form == Form::Extended && matches!(self.state, State::Searching);
        if self.has_more {
            Step::SendMore
        } else {
            Step::Send
        }
    }

    fn send_more(&mut self, out: &mut Vec<u8>) -> Step {
        if !core::mem::take(&mut self.has_more) {
            return Step::Wait;
        }
        self.request(Form::Seven, out);
        Step::Send
    }

    fn request(&mut self, form: Form, out: &mut Vec<u8>) {
        let token = self.token as u8;
        let request = match (&self.state, form) {
            (State::Seven { server }, _) => Request::Seven {
                server: *server,
                client: self.client_token,
                number: self.number,
            },
            (_, Form::Seven) => Request::Token {
                client: self.client_token,
            },
            (_, Form::Five) => Request::Five { token: Some(token) },
            (_, Form::Six) => Request::Six { token },
            (_, Form::SixtyFour) => Request::SixtyFour { token },
            (_, Form::Extended) => Request::Extended { token: self.token },
        };
        self.stage = match request {
            Request::Seven { .. } | Request::SixtyFour { .. } => 1,
            Request::Token { .. } => 2,
            Request::Five { .. } => 3,
            Request::Six { .. } | Request::Extended { .. } => 0,
        };
        request.write(out);
    }

    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        self.silent = self.silent.saturating_add(1);
        if self.silent >= TRIES {
            match &self.state {
                State::Searching => {}
                // The token may have expired: continue with the next turn.
                State::Seven { .. } => self.enter(State::Searching, 0),
                State::Parts(_) => match self.finish() {
                    // Only further clients are there: the first part was lost.
                    Step::Wait => {}
                    step => return step,
                },
            }
        }
        self.send(out)
    }

    fn enter(&mut self, state: State, silent: u8) {
        self.state = state;
        self.silent = silent;
    }

    /// Ends with the parts that are there, or with an earlier reply that has more.
    fn finish(&mut self) -> Step {
        let is_done = match &self.state {
            State::Parts(parts) if parts.status.is_some() => {
                parts.listed() >= parts.expected || self.earlier.is_none()
            }
            _ => false,
        };
        if !is_done {
            let Some(mut status) = self.earlier.take() else {
                return Step::Wait;
            };
            // A reply that lists no clients is not the same as none. If it lists too few, a part may
            // be lost.
            if let State::Parts(parts) = &self.state
                && parts.status.is_some()
                && parts.listed() == 0
            {
                status.deviations.push(&PLAYERS_LEFT_OUT);
            }
            status.add_unanswered(Form::SixtyFour.name());
            return Step::Done(status);
        }
        let State::Parts(parts) = core::mem::replace(&mut self.state, State::Searching) else {
            return Step::Wait;
        };
        let Some(mut status) = parts.finish(self.has_players) else {
            return Step::Wait;
        };
        if !self.unanswered.is_empty() {
            status.add_unanswered(self.unanswered);
        }
        Step::Done(status)
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
        match reply {
            Reply::Token { client, server } => self.receive_token(client, server, out),
            Reply::More {
                token,
                number,
                list,
            } => self.receive_more(token, number, &list, &notes),
            Reply::Info(info) if self.is_ours(&info) => self.receive_info(&info, &notes, out),
            Reply::Info(_) => Step::Wait,
        }
    }

    /// Returns whether a reply belongs to a request of this exchange.
    fn is_ours(&self, info: &Info<'_>) -> bool {
        let expected = match info.form {
            Form::Five | Form::Six | Form::SixtyFour => i64::from(self.token as u8),
            Form::Extended => i64::from(self.token),
            Form::Seven => {
                let [client, _] = info.tokens;
                return client == self.client_token && info.token == Some(self.number.into());
            }
        };
        info.token == Some(expected)
    }

    fn receive_token(&mut self, client: Token, server: Token, out: &mut Vec<u8>) -> Step {
        if client != self.client_token || !matches!(self.state, State::Searching) {
            return Step::Wait;
        }
        if self.depth == Depth::Ping {
            return Step::Done(Box::default());
        }
        self.enter(State::Seven { server }, 0);
        self.send(out)
    }

    fn receive_more(
        &mut self,
        token: Option<i64>,
        number: i64,
        list: &[Client<'_>],
        notes: &Notes,
    ) -> Step {
        if token != Some(self.token.into()) || !self.has_players {
            return Step::Wait;
        }
        if !matches!(self.state, State::Parts(_)) {
            self.enter(State::Parts(Parts::new(Form::Extended)), 0);
        }
        match &mut self.state {
            State::Parts(parts) if parts.form == Form::Extended => {
                match parts.add(number, list, notes) {
                    Ok(()) => self.proceed(),
                    Err(fault) => Step::Bad(fault),
                }
            }
            _ => Step::Wait,
        }
    }

    fn receive_info(&mut self, info: &Info<'_>, notes: &Notes, out: &mut Vec<u8>) -> Step {
        if self.depth == Depth::Ping {
            return Step::Done(Box::new(Status {
                deviations: notes.met().collect(),
                ..Status::default()
            }));
        }
        match &self.state {
            // The late reply to a request of another form.
            State::Parts(parts) if parts.form != info.form => return Step::Wait,
            State::Parts(_) => {}
            State::Searching | State::Seven { .. } => {
                self.unanswered = match info.form {
                    Form::Seven => "0.6",
                    Form::Five => "0.6, 0.7",
                    _ => "",
                };
                self.enter(State::Parts(Parts::new(info.form)), 0);
            }
        }
        let State::Parts(parts) = &mut self.state else {
            return Step::Wait;
        };
        let status = status(info);
        let is_cut = info.form == Form::Six && status.players.online > info.clients;
        let list = if self.has_players {
            info.list.as_slice()
        } else {
            &[]
        };
        if let Err(fault) = parts.add(info.offset, list, notes) {
            return Step::Bad(fault);
        }
        parts.status = Some(status);
        if !self.has_players {
            return self.finish();
        }
        parts.expected = expected(info);
        let is_whole = parts.listed() >= parts.expected;
        if !is_cut || !is_whole || parts.listed() == 0 {
            return self.proceed();
        }
        // An old server of DDNet: the form for 64 players lists the rest.
        let Step::Done(status) = self.finish() else {
            return Step::Wait;
        };
        self.earlier = Some(status);
        self.enter(State::Parts(Parts::new(Form::SixtyFour)), 0);
        self.send(out)
    }

    /// Ends if nothing more is expected.
    fn proceed(&mut self) -> Step {
        match &self.state {
            State::Parts(parts) if parts.is_complete() => self.finish(),
            _ => Step::Progress,
        }
    }
}

impl Exchange for TeeworldsExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => self.timeout(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::Continue => self.send_more(out),
            _ => self.finish(),
        }
    }

    fn stage(&self) -> usize {
        self.stage
    }
}

/// Returns the number of clients that a reply should list.
fn expected(info: &Info<'_>) -> i64 {
    let count = match info.form {
        Form::Five => info.players.map(|players| players.min(MAX_LISTED_FIVE)),
        _ => info.clients,
    };
    // Hailer's responder sends the number of listed clients (spec/teeworlds.md#9).
    let listed = (info.form == Form::Extended).then(|| digits(info.reserved));
    listed.flatten().or(count).unwrap_or(0)
}

/// Parses a text of digits only.
fn digits(text: &[u8]) -> Option<i64> {
    let is_digits = text.iter().all(u8::is_ascii_digit);
    whole_number(text).filter(|_| is_digits)
}

/// Splits a name into text and true counts, ` [30/64]` at its end (spec/teeworlds.md#3.3).
fn split_counts<'a>(info: &Info<'a>) -> (&'a [u8], Option<[i64; 2]>) {
    let split = || -> Option<(&'a [u8], [i64; 2])> {
        let inner = info.name.strip_suffix(b"]")?;
        let open = inner.iter().rposition(|byte| *byte == b'[')?;
        let counts = inner.get(open + 1..)?;
        let slash = counts.iter().position(|byte| *byte == b'/')?;
        let clients = digits(counts.get(..slash)?)?;
        let max = digits(counts.get(slash + 1..)?)?;
        let name = inner.get(..open)?.strip_suffix(b" ")?;
        // A host may write the counts of its slots into the name.
        let is_hidden = info.max_clients < Some(max) && info.clients <= Some(clients);
        (is_hidden && clients <= max).then_some((name, [clients, max]))
    };
    let may_hide = matches!(info.form, Form::Six | Form::SixtyFour | Form::Seven);
    match split().filter(|_| may_hide) {
        Some((name, counts)) => (name, Some(counts)),
        None => (info.name, None),
    }
}

/// Converts a reply to a status without its clients (spec/teeworlds.md#8).
fn status(info: &Info<'_>) -> Box<Status> {
    let (name, counts) = split_counts(info);
    let mut status = Box::<Status>::default();
    status.name = (!name.is_empty()).then(|| Text::by_content(name));
    status.map = filled(info.map);
    status.mode = filled(info.game_type);
    status.version = filled(info.version);
    status.has_password = info.flags.map(|flags| flags & FLAG_PASSWORD != 0);
    status.address = filled(info.host).map(|host| Address {
        host: Some(host),
        port: None,
    });
    let (online, max) = match (counts, info.form) {
        (Some([online, max]), _) => (Some(online), Some(max)),
        (None, Form::Five) => (info.players, info.max_players),
        (None, _) => (info.clients, info.max_clients),
    };
    status.players.online = online;
    status.players.max = max;

    let mut add = |key: &'static str, value: Option<i64>| {
        status
            .extra
            .extend(value.map(|value| Extra::new(key, value)));
    };
    let is_counted = info.form != Form::Five;
    add("playing", info.players.filter(|_| is_counted));
    add("max-playing", info.max_players.filter(|_| is_counted));
    add("shown-clients", counts.and(info.clients));
    add("map-crc", info.map_crc.filter(|crc| *crc != 0));
    add("map-size", info.map_size.filter(|size| *size != 0));
    add("progression", info.progression);
    add("skill-level", info.skill);
    let known = match info.form {
        Form::Seven => FLAG_PASSWORD | FLAG_TIME_SCORE,
        _ => FLAG_PASSWORD,
    };
    add("flags", info.flags.filter(|flags| flags & !known != 0));
    let has_time_flag = |flags: i64| info.form == Form::Seven && flags & FLAG_TIME_SCORE != 0;
    let is_race = info
        .game_type
        .to_ascii_lowercase()
        .windows(4)
        .any(|part| part == b"race");
    if is_race || info.flags.is_some_and(has_time_flag) {
        status.extra.push(Extra::new("score-is-time", true));
    }
    status.extra.insert(0, Extra::new("form", info.form.name()));
    status
}

fn player(client: &Client<'_>, form: Form) -> Player {
    let mut player = Player::named(Text::by_content(client.name));
    player.score = client.score;
    let mut add = |extra: Option<Extra>| player.extra.extend(extra);
    add(filled(client.clan).map(|clan| Extra::new("clan", clan)));
    let country = client.country.filter(|country| *country != -1);
    add(country.map(|country| Extra::new("country", country)));
    match (form, client.kind) {
        (Form::Seven, Some(1)) | (Form::Six | Form::SixtyFour | Form::Extended, Some(0)) => {
            add(Some(Extra::new("spectator", true)));
        }
        (Form::Seven, Some(2)) => add(Some(Extra::new("bot", true))),
        (Form::Seven, Some(0)) | (_, Some(1) | None) => {}
        (_, Some(kind)) => add(Some(Extra::new("kind", kind))),
    }
    player
}

#[cfg(test)]
mod tests {
    use super::super::{PROTOCOL, TeeworldsConfig, TeeworldsResponder};
    use super::*;
    use crate::testing::memory::{self, Server};
    use crate::{Epoch, Keys, Options, Protocol};

    fn responder(status: &Status, versions: &str) -> TeeworldsResponder {
        let options = Options::default().with("versions", versions);
        let config = TeeworldsConfig::read(&options).unwrap();
        TeeworldsResponder::new(status, &Keys::new([7; 16]), &config)
    }

    #[test]
    fn samples_come_back_equal() {
        for seed in 0..500 {
            let sample = PROTOCOL.sample(seed);
            let responder = responder(&sample, "all");
            let from = "192.0.2.7:50000".parse().unwrap();
            let mut server = Server::new(&responder, from, Epoch(1));
            let mut exchange = TeeworldsExchange::new(&Ask::default(), Cookie(seed));
            let step = memory::run(&mut exchange, &mut server, |_, _| {});
            assert_eq!(step, Step::Done(Box::new(sample)));
        }
    }

    #[test]
    fn servers_of_each_version_are_found() {
        let sample = PROTOCOL.sample(8);
        let from = "192.0.2.7:50000".parse().unwrap();
        for (versions, form) in [
            ("all", "0.6-extended"),
            ("0.6", "0.6-extended"),
            ("0.7", "0.7"),
        ] {
            let responder = responder(&sample, versions);
            let mut server = Server::new(&responder, from, Epoch(1));
            let mut exchange = TeeworldsExchange::new(&Ask::default(), Cookie(4));
            let mut out = Vec::new();
            let mut input = Input::Start;
            let mut reply: Vec<u8>;
            let status = loop {
                out.clear();
                let step = exchange.handle(input, &mut out);
                match step {
                    Step::Done(status) => break status,
                    Step::Send | Step::SendMore => {
                        reply = server.request(&out).into_iter().next().unwrap_or_default();
                    }
                    step => panic!("{step:?}"),
                }
                input = match (step, reply.is_empty()) {
                    (_, false) => Input::Datagram(&reply),
                    (Step::SendMore, true) => Input::Continue,
                    _ => panic!("a timeout"),
                };
            };
            assert_eq!(status.extra("form"), Some(&form.into()));
            assert_eq!(status.name, sample.name);
            assert_eq!(status.players.list.len(), sample.players.list.len());
            assert_eq!(status.deviations.len(), 0);
        }
    }

    #[test]
    fn counts_are_split_from_names_only_if_hidden() {
        let split = |name: &'static [u8], clients, max| {
            let info = Info {
                name,
                clients: Some(clients),
                max_clients: Some(max),
                ..Info::default()
            };
            split_counts(&info)
        };
        let hidden = (&b"Test"[..], Some([30, 64]));
        assert_eq!(split(b"Test [30/64]", 16, 16), hidden);
        assert_eq!(split(b"Test [30/64]", 15, 16), hidden);
        for name in [
            &b"Test [3/16]"[..],
            b"Test[30/64]",
            b"Test [30/x]",
            b"Test [70/64]",
        ] {
            assert_eq!(split(name, 3, 16), (name, None));
        }
        assert_eq!(split(b"Test [2/64]", 3, 16), (&b"Test [2/64]"[..], None));
    }
}
