//! The client: challenge, basic, then players page by page; version 1 if nothing replies
//! (spec/onequery.md#10).

use super::auth::{AuthToken, Endpoints};
use super::deviation::{COUNT_NOT_TOTAL, OFFSET_NOT_ASKED, ONLY_V1, REPEATED_PLAYER};
use super::message::{self, Endpoint, Flags, Page, Query, Reply, Request, ServerInfo, Token};
use super::v1;
use crate::model::{Address, Extra, Player, Roster, Rows, Status, Text, Value};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Fault, Input, Step};
use crate::wire::{Notes, by_content, filled};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Retries of a query with the same token before a new challenge. A lost datagram and an expired
/// token both look like silence.
const QUERY_RESENDS: u8 = 2;
/// Limit on listed players; a list that reaches it ends with the players received so far.
const MAX_PLAYERS: usize = 100_000;
/// Limit of pages, which may be small.
const MAX_PAGES: usize = 4_096;
/// One in this number of requests has version 1: the second, since detection sends only a few. The
/// number is odd, so that the regular loss of every second datagram does not hit all of one version.
const V1_EVERY: u32 = 3;
/// Limit for the bytes of all pages, because names may be long.
const MAX_PAGE_BYTES: usize = 8 << 20;
/// A list also ends when it has this many players more than twice the reported number.
const EXTRA_PLAYERS: usize = 256;

/// Name of the plugin OneQuery.
const ONEQUERY: &str = "OneQuery";
/// Name of the plugin HyQuery.
const HYQUERY: &str = "HyQuery";
/// Columns of the list of plugins in version 1.
static PLUGIN_COLUMNS: &[&str] = &["name", "version", "state"];

/// Error of a reply without the requested part.
const INCOMPLETE: Fault = Fault::Misbehaved("the reply lacks what was asked for");

/// Queries one Hytale server.
#[derive(Debug)]
pub struct OneQueryExchange {
    cookie: Cookie,
    depth: Depth,
    has_players: bool,
    auth_token: Option<AuthToken>,
    stage: Stage,
    state: State,
    pages: PlayerPages,
    /// Whether a reply of version 2 has arrived. Before that, some requests after a timeout are of
    /// version 1.
    has_v2: bool,
    /// Timeouts before the first reply.
    silent: u32,
    /// Answer of version 1, used if version 2 does not reply.
    version_1: Option<Box<Status>>,
    /// Endpoints that the server refused.
    refused: Endpoints,
    /// The result so far.
    status: Status,
}

/// The part that is being requested, now or as soon as there is a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Basic,
    Players { offset: u32 },
}

#[derive(Debug)]
enum State {
    /// Waiting for a challenge token.
    Challenge,
    /// Waiting for the reply to a query.
    Query { token: Token, resends: u8 },
}

/// The players of all pages received.
#[derive(Debug, Default)]
struct PlayerPages {
    list: Vec<Player>,
    uuids: BTreeSet<[u8; 16]>,
    /// Number of pages received.
    count: usize,
    /// Bytes of these pages.
    bytes: usize,
}

impl OneQueryExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        Self {
            cookie,
            depth: ask.depth,
            has_players: ask.has_players,
            auth_token: ask
                .auth_token
                .as_ref()
                .map(|token| AuthToken(token.reveal().into())),
            stage: Stage::Basic,
            state: State::Challenge,
            pages: PlayerPages::default(),
            has_v2: false,
            silent: 0,
            version_1: None,
            refused: Endpoints::default(),
            status: Status::default(),
        }
    }

    /// Returns the request id of this stage. Each stage has a different id, which distinguishes
    /// late replies to earlier stages. A repeated request keeps its id: any reply to it counts.
    fn id(&self) -> u32 {
        let purpose = match self.stage {
            Stage::Basic => 0,
            Stage::Players { offset } => 1 + u64::from(offset),
        };
        self.cookie.derive(purpose) as u32
    }

    /// Returns whether the reply should have lists.
    fn wants_players(&self) -> bool {
        self.depth == Depth::Full && self.has_players
    }

    /// Returns whether a reply of version 1 would be useful: one was requested, and there is none of
    /// either version.
    fn expects_v1(&self) -> bool {
        !self.has_v2 && self.version_1.is_none() && self.silent > 0
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        if self.expects_v1() && self.silent % V1_EVERY == 1 {
            v1::write_request(self.wants_players(), out);
            return Step::Send;
        }
        let (endpoint, offset) = match self.stage {
            Stage::Basic => (Endpoint::Basic, 0),
            Stage::Players { offset } => (Endpoint::Players, offset.cast_signed()),
        };
        match self.state {
            State::Challenge => Request::Challenge,
            State::Query { token, .. } => {
                let auth_token = self.auth_token.as_ref().map(|token| token.0.as_slice());
                Request::Query(Query {
                    endpoint,
                    token,
                    id: self.id(),
                    offset,
                    auth_token,
                })
            }
        }
        .write(out);
        Step::Send
    }

    fn ask(&mut self, stage: Stage, out: &mut Vec<u8>) -> Step {
        self.stage = stage;
        if let State::Query { resends, .. } = &mut self.state {
            *resends = 0;
        }
        self.send(out)
    }

    fn resend(&mut self, out: &mut Vec<u8>) -> Step {
        if !self.has_v2 && self.version_1.is_some() {
            return self.finish_with_v1();
        }
        self.silent = self.silent.wrapping_add(1);
        match &mut self.state {
            State::Query { resends, .. } if *resends < QUERY_RESENDS => *resends += 1,
            // The server accepts the token: it refused basic with it. A new token would not help.
            State::Query { .. } if self.refused.has_basic && self.status.name.is_none() => {
                return self.finish();
            }
            state => *state = State::Challenge,
        }
        self.send(out)
    }

    fn receive_challenge(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let token = match message::parse_challenge(bytes, &mut notes) {
            Ok(token) => token,
            Err(error) => return Step::Bad(error.into()),
        };
        self.status.add_deviations(notes.met());
        self.has_v2 = true;
        if self.depth == Depth::Ping {
            return self.done();
        }
        self.state = State::Query { token, resends: 0 };
        self.send(out)
    }

    /// Handles a reply of version 1. A server that may have version 2 too is queried in that: its
    /// lists have pages, and it verifies the client. The reply of HyQuery does not
    /// show its version.
    fn receive_v1(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let reply = match v1::read_reply(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => return Step::Bad(error.into()),
        };
        let mut status = Status::default();
        if self.depth != Depth::Ping {
            status.deviations.extend(notes.met());
            describe_v1(&reply, &mut status);
            if self.wants_players() && reply.is_full {
                list_v1(&reply, &mut status);
            }
        }
        self.version_1 = Some(Box::new(status));
        self.has_v2 = reply.has_v2 == Some(true);
        if !self.has_v2 && reply.layout == v1::Layout::OneQuery {
            return self.finish_with_v1();
        }
        self.send(out)
    }

    /// Ends with the answer of version 1. Without one, the exchange waits.
    fn finish_with_v1(&mut self) -> Step {
        let Some(mut status) = self.version_1.take() else {
            return Step::Wait;
        };
        if !self.has_v2 {
            status.deviations.insert(0, &ONLY_V1);
        } else if self.wants_players() && status.players.roster == Roster::Absent {
            status.extra.push(Extra::new("unanswered", "players"));
        }
        Step::Done(status)
    }

    fn receive_reply(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let reply = match message::parse_reply(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => return Step::Bad(error.into()),
        };
        match self.stage {
            Stage::Basic => self.receive_info(&reply, &notes, out),
            Stage::Players { .. } if reply.flags.has(Flags::REFUSED) => {
                self.status.add_deviations(notes.met());
                self.refused.has_players = true;
                self.status.players.roster = Roster::Refused;
                self.finish()
            }
            Stage::Players { offset } => match &reply.page {
                Some(page) => {
                    self.status.add_deviations(notes.met());
                    self.pages.bytes += bytes.len();
                    self.receive_page(offset, page, reply.flags, out)
                }
                None => Step::Bad(INCOMPLETE),
            },
        }
    }

    /// A refused basic query does not end the exchange if players are wanted: they may be public.
    fn receive_info(&mut self, reply: &Reply<'_>, notes: &Notes, out: &mut Vec<u8>) -> Step {
        let is_refused = reply.flags.has(Flags::REFUSED);
        match &reply.info {
            Some(info) if !is_refused || !info.is_minimal() => {
                self.status.add_deviations(notes.met());
                describe(info, reply.flags, &mut self.status);
            }
            _ if is_refused => {}
            _ => return Step::Bad(INCOMPLETE),
        }
        self.refused.has_basic = is_refused;
        if self.wants_players() {
            self.ask(Stage::Players { offset: 0 }, out)
        } else {
            self.finish()
        }
    }

    fn receive_page(
        &mut self,
        requested: u32,
        page: &Page<'_>,
        flags: Flags,
        out: &mut Vec<u8>,
    ) -> Step {
        if page.offset != requested {
            self.status.add_deviations([&OFFSET_NOT_ASKED]);
        }
        if self.pages.add(page) {
            self.status.add_deviations([&REPEATED_PLAYER]);
        }
        let next = page.offset.saturating_add(page.players.len() as u32);
        if !flags.has(Flags::MORE) || next >= page.total {
            if self.pages.list.len() != page.total as usize {
                self.status.add_deviations([&COUNT_NOT_TOTAL]);
            }
            self.list();
            self.done()
        } else if page.players.is_empty() {
            Step::Fail(Fault::Misbehaved(
                "a page without players says that more follow",
            ))
        } else if next <= requested {
            Step::Fail(Fault::Misbehaved(
                "pages do not advance, but say that more players follow",
            ))
        } else if self.pages.is_full() || self.pages.list.len() >= self.plausible_players() {
            self.list();
            self.done()
        } else {
            self.ask(Stage::Players { offset: next }, out)
        }
    }

    /// Returns the result when the deadline has passed: server info without players, with some of
    /// them, or of version 1 is better than an error.
    fn partial_result(&mut self) -> Step {
        let Stage::Players { .. } = self.stage else {
            return self.finish_with_v1();
        };
        self.status.extra.push(Extra::new("unanswered", "players"));
        self.finish()
    }

    /// Ends with the disclosed status, or with the refusal if nothing was disclosed.
    fn finish(&mut self) -> Step {
        if self.pages.count > 0 {
            self.list();
        } else if !self.has_info() {
            return Step::Fail(Fault::Refused {
                reason: match self.auth_token {
                    None => "it requires an auth token",
                    Some(_) => "it rejected the auth token",
                },
                endpoints: self.refused.names(),
            });
        }
        self.done()
    }

    fn has_info(&self) -> bool {
        self.status.name.is_some()
    }

    /// Returns how many players are plausible for the number that the server reports.
    fn plausible_players(&self) -> usize {
        let online = self.status.players.online.unwrap_or_default();
        let online = usize::try_from(online).unwrap_or_default();
        online.saturating_mul(2).saturating_add(EXTRA_PLAYERS)
    }

    fn list(&mut self) {
        self.status
            .players
            .set_list(core::mem::take(&mut self.pages.list));
    }

    fn done(&mut self) -> Step {
        self.status.refused = self.refused.names();
        if self.auth_token.is_some() && self.refused != Endpoints::default() {
            self.status.extra.push(Extra::new("auth-token", "rejected"));
        }
        Step::Done(Box::new(core::mem::take(&mut self.status)))
    }
}

impl Exchange for OneQueryExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        let waits_for_token = matches!(self.state, State::Challenge);
        match input {
            Input::Start
                if self
                    .auth_token
                    .as_ref()
                    .is_some_and(|token| token.0.len() > message::MAX_AUTH_TOKEN) =>
            {
                Step::Fail(Fault::Refused {
                    reason: "the auth token does not fit into a request",
                    endpoints: &[],
                })
            }
            Input::Start => self.send(out),
            Input::Timeout => self.resend(out),
            // A challenge reply has no id, so it counts only while the exchange waits for one: a
            // forged challenge must not replace a valid token.
            Input::Datagram(bytes) if waits_for_token && message::is_challenge(bytes) => {
                self.receive_challenge(bytes, out)
            }
            // The id proves that this reply belongs to the current request, even if a new token was
            // requested since.
            Input::Datagram(bytes) if message::reply_id(bytes) == Some(self.id()) => {
                self.receive_reply(bytes, out)
            }
            Input::Datagram(bytes) if self.expects_v1() && v1::is_reply(bytes) => {
                self.receive_v1(bytes, out)
            }
            Input::Datagram(_) => Step::Wait,
            Input::GiveUp => self.partial_result(),
            Input::Continue | Input::Closed(_) => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        match (&self.state, self.stage) {
            (State::Challenge, _) => 0,
            (State::Query { .. }, Stage::Basic) => 1,
            (State::Query { .. }, Stage::Players { .. }) => 2 + self.pages.count,
        }
    }
}

impl PlayerPages {
    /// Adds a page. Returns whether it repeats a player.
    fn add(&mut self, page: &Page<'_>) -> bool {
        let before = self.list.len();
        for &(name, uuid) in &page.players {
            // Sixteen zero bytes are not a UUID: players without one are never merged.
            let uuid = (uuid != [0; 16]).then_some(uuid);
            if uuid.is_none_or(|uuid| self.uuids.insert(uuid)) {
                self.list.push(Player {
                    name: text(name),
                    uuid,
                    ..Player::default()
                });
            }
        }
        self.count += 1;
        self.list.len() - before < page.players.len()
    }

    fn is_full(&self) -> bool {
        self.list.len() >= MAX_PLAYERS || self.count >= MAX_PAGES || self.bytes >= MAX_PAGE_BYTES
    }
}

fn describe(info: &ServerInfo<'_>, flags: Flags, status: &mut Status) {
    status.name = Some(text(info.name));
    status.motd = Some(text(info.motd));
    status.version = filled(info.version);
    status.players.online = Some(info.online.into());
    status.players.max = Some(info.max.into());
    status.address = info.address.map(|(host, port)| Address {
        host: filled(host),
        port: Some(port),
    });
    status.extra.push(Extra::new(
        "protocol-version",
        i64::from(info.protocol_version),
    ));
    status
        .extra
        .extend(filled(info.protocol_hash).map(|hash| Extra::new("protocol-hash", hash)));
    status
        .extra
        .push(Extra::new("network", flags.has(Flags::NETWORK)));
    status
        .extra
        .extend(plugin(info).map(|plugin| Extra::new("plugin", plugin)));
}

/// Returns the plugin that sent a reply of version 2: only OneQuery sends its address, and the
/// letters of the hash are upper case in OneQuery, lower case in HyQuery (spec/onequery.md#3.3).
pub(super) fn plugin(info: &ServerInfo<'_>) -> Option<&'static str> {
    let has = |is: fn(&u8) -> bool| info.protocol_hash.iter().any(is);
    let is_upper = has(u8::is_ascii_uppercase);
    let is_lower = has(u8::is_ascii_lowercase);
    match (is_upper, is_lower) {
        _ if info.address.is_some() => Some(ONEQUERY),
        (true, false) => Some(ONEQUERY),
        (false, true) => Some(HYQUERY),
        _ => None,
    }
}

/// Sets everything that a basic reply of version 1 has (spec/onequery.md#8).
fn describe_v1(reply: &v1::Reply<'_>, status: &mut Status) {
    let info = &reply.info;
    status.name = Some(text(info.name));
    status.motd = Some(text(info.motd));
    status.version = filled(info.version);
    status.players.online = Some(info.online.into());
    status.players.max = Some(info.max.into());
    // A reply that is cut has no port, or none of the numbers after it.
    let port = u16::try_from(reply.port).ok().filter(|port| *port != 0);
    status.address = port.map(|port| Address {
        host: None,
        port: Some(port),
    });
    let mut add = |key, value| status.extra.push(Extra::new(key, value));
    if reply.layout == v1::Layout::OneQuery {
        if info.protocol_version != 0 {
            add("protocol-version", Value::Int(info.protocol_version.into()));
        }
        if let Some(hash) = filled(info.protocol_hash) {
            add("protocol-hash", Value::Str(hash));
        }
        add("network", Value::Bool(reply.is_network));
    }
    let plugin = match reply.layout {
        v1::Layout::OneQuery => ONEQUERY,
        v1::Layout::HyQuery => HYQUERY,
    };
    add("plugin", Value::from(plugin));
}

/// Sets the lists of a full reply of version 1.
fn list_v1(reply: &v1::Reply<'_>, status: &mut Status) {
    let mut players = Vec::new();
    for sent in &reply.players {
        let mut player = Player::named(text(sent.name));
        player.uuid = (sent.uuid != [0; 16]).then_some(sent.uuid);
        if let Some(server) = filled(sent.server) {
            player.extra.push(Extra::new("server", server));
        }
        players.push(player);
    }
    // By default, HyQuery 1.x counts players without listing them.
    if players.is_empty() && reply.info.online > 0 {
        status.players.roster = Roster::Absent;
    } else {
        status.players.set_list(players);
    }
    if !reply.plugins.is_empty() {
        let mut rows = Rows::with_capacity(&PLUGIN_COLUMNS, reply.plugins.len());
        for plugin in &reply.plugins {
            let id = by_content(plugin.id).0;
            let version = plugin.version.map(|version| by_content(version).0);
            let state = plugin.is_disabled.then_some("disabled");
            rows.push([Some(&*id), version.as_deref(), state]);
        }
        let value = Value::Rows(rows);
        status.extra.push(Extra::new("plugins", value));
    }
    if !reply.servers.is_empty() {
        let servers = reply.servers.iter().map(|server| {
            Value::Table(alloc::vec![
                ("id".into(), Value::Str(by_content(server.id).0.into())),
                ("name".into(), Value::Str(by_content(server.name).0.into())),
                ("online".into(), Value::Int(server.online.into())),
                ("max".into(), Value::Int(server.max.into())),
                ("up".into(), Value::Bool(server.is_online)),
            ])
        });
        status
            .extra
            .push(Extra::new("servers", Value::List(servers.collect())));
    }
}

/// The protocol has no known formatting.
fn text(bytes: &[u8]) -> Text {
    let (text, latin1) = by_content(bytes);
    Text::unformatted(text).from_single_byte(latin1)
}

#[cfg(test)]
mod tests {
    use super::super::server::{OneQueryConfig, OneQueryResponder};
    use super::*;
    use crate::protocol::{Responder, Verdict};
    use crate::token::{Epoch, Keys};
    use alloc::format;
    use alloc::string::{String, ToString};
    use core::net::SocketAddr;

    const TOKEN: Token = Token([0x5A; 32]);
    const NO_PLAYERS: &[(&str, u8)] = &[];

    fn client_address() -> SocketAddr {
        "192.0.2.7:50000".parse().unwrap()
    }

    fn start(ask: &Ask) -> OneQueryExchange {
        let mut exchange = OneQueryExchange::new(ask, Cookie(1));
        let mut out = Vec::new();
        assert_eq!(exchange.handle(Input::Start, &mut out), Step::Send);
        assert_eq!(out, b"ONEQUERY\0");
        exchange
    }

    fn receive(exchange: &mut OneQueryExchange, bytes: &[u8]) -> (Step, Vec<u8>) {
        let mut out = Vec::new();
        (exchange.handle(Input::Datagram(bytes), &mut out), out)
    }

    fn wait(exchange: &mut OneQueryExchange) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(exchange.handle(Input::Timeout, &mut out), Step::Send);
        out
    }

    fn challenge() -> Vec<u8> {
        let mut reply = Vec::new();
        message::write_challenge(TOKEN, &mut reply);
        reply
    }

    /// Returns an exchange that has its token, and the query whose reply it waits for.
    fn basic_asked(ask: &Ask) -> (OneQueryExchange, Vec<u8>) {
        let mut exchange = start(ask);
        let (step, query) = receive(&mut exchange, &challenge());
        assert_eq!(step, Step::Send);
        (exchange, query)
    }

    /// Returns an exchange that waits for players from offset 0.
    fn players_asked() -> (OneQueryExchange, Vec<u8>) {
        let (mut exchange, query) = basic_asked(&Ask::default());
        let (step, query) = receive(&mut exchange, &basic(&query, Flags::default(), 3));
        assert_eq!(step, Step::Send);
        (exchange, query)
    }

    fn requested(query: &[u8]) -> Query<'_> {
        match Request::read(query, &mut Notes::default()) {
            Ok(Request::Query(query)) => query,
            other => panic!("{other:?}"),
        }
    }

    fn reply(query: &[u8], flags: Flags, payload: &[u8]) -> Vec<u8> {
        let mut reply = Vec::new();
        message::write_reply_header(flags, requested(query).id, payload.len(), &mut reply);
        [reply, payload.to_vec()].concat()
    }

    fn basic(query: &[u8], flags: Flags, online: i32) -> Vec<u8> {
        let address = flags
            .has(Flags::ADDRESS)
            .then_some((&b"play.example"[..], 5521));
        let info = ServerInfo {
            name: b"Name",
            motd: b"Hi",
            online,
            max: 50,
            version: b"1.0",
            address,
            ..info()
        };
        let mut payload = Vec::new();
        message::write_info(&info, &mut payload);
        reply(query, flags, &payload)
    }

    fn info() -> ServerInfo<'static> {
        ServerInfo {
            protocol_version: 7,
            protocol_hash: b"0A1B2C3D",
            ..ServerInfo::default()
        }
    }

    fn page(
        query: &[u8],
        flags: Flags,
        total: usize,
        offset: usize,
        players: &[(&str, u8)],
    ) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut payload = Vec::new();
        for (name, uuid) in players {
            message::write_entry(name.as_bytes(), &[*uuid; 16], &mut entries);
        }
        message::write_page_header(total, players.len(), offset, entries.len(), &mut payload);
        payload.extend(entries);
        reply(query, flags, &payload)
    }

    fn done(step: Step) -> (Status, Vec<&'static str>) {
        let Step::Done(status) = step else {
            panic!("{step:?}")
        };
        let deviations = status
            .deviations
            .iter()
            .map(|deviation| deviation.name)
            .collect();
        (*status, deviations)
    }

    fn names(status: &Status) -> Vec<String> {
        status
            .players
            .list
            .iter()
            .map(|player| player.name.plain())
            .collect()
    }

    #[test]
    fn ping_ends_with_the_challenge() {
        let mut exchange = start(&Ask {
            depth: Depth::Ping,
            ..Ask::default()
        });
        assert_eq!(
            done(receive(&mut exchange, &challenge()).0).0,
            Status::default()
        );
    }

    #[test]
    fn basic_returns_everything_but_players() {
        for ask in [
            Ask {
                depth: Depth::Basic,
                ..Ask::default()
            },
            Ask {
                has_players: false,
                ..Ask::default()
            },
        ] {
            let (mut exchange, query) = basic_asked(&ask);
            assert_eq!(query.len(), message::QUERY);
            assert_eq!(
                (requested(&query).endpoint, requested(&query).token),
                (Endpoint::Basic, TOKEN)
            );
            let flags = Flags(0x8000 | Flags::NETWORK.0 | Flags::ADDRESS.0);
            let (status, deviations) = done(receive(&mut exchange, &basic(&query, flags, -1)).0);
            assert_eq!(deviations, ["implausible-count"], "unknown flags survive");
            assert_eq!(status.title().as_deref(), Some("Name"));
            assert_eq!(
                (status.players.online, status.players.max),
                (Some(-1), Some(50))
            );
            assert_eq!(status.version.as_deref(), Some("1.0"));
            assert_eq!(
                status.address,
                Some(Address {
                    host: Some("play.example".into()),
                    port: Some(5521)
                })
            );
            let extra: Vec<_> = status
                .extra
                .iter()
                .map(|extra| format!("{}={}", extra.key, extra.value))
                .collect();
            assert_eq!(
                extra,
                [
                    "protocol-version=7",
                    "protocol-hash=0A1B2C3D",
                    "network=yes",
                    "plugin=OneQuery"
                ]
            );
            assert_eq!(status.players.roster, Roster::Absent);
        }
    }

    #[test]
    fn two_stage_resend_then_on_with_the_same_page() {
        let (mut exchange, query) = players_asked();
        let (_, query) = receive(
            &mut exchange,
            &page(&query, Flags::MORE, 3, 0, &[("a", 1), ("b", 2)]),
        );
        assert_eq!(
            (requested(&query).offset, requested(&query).token),
            (2, TOKEN)
        );
        assert_eq!(wait(&mut exchange), query, "the same query again");
        assert_eq!(wait(&mut exchange), query, "and again");
        assert_eq!(wait(&mut exchange), b"ONEQUERY\0", "then a new token");
        assert_eq!(wait(&mut exchange), b"ONEQUERY\0");
        let mut renewed = Vec::new();
        message::write_challenge(Token([0xA5; 32]), &mut renewed);
        let (step, again) = receive(&mut exchange, &renewed);
        assert_eq!(step, Step::Send);
        assert_eq!(
            requested(&again),
            Query {
                token: Token([0xA5; 32]),
                ..requested(&query)
            }
        );
        let (status, deviations) = done(
            receive(
                &mut exchange,
                &page(&again, Flags::default(), 3, 2, &[("c", 3)]),
            )
            .0,
        );
        assert_eq!(
            (names(&status), status.players.roster),
            (["a", "b", "c"].map(Into::into).into(), Roster::Whole)
        );
        assert!(deviations.is_empty());
    }

    #[test]
    fn replies_to_no_open_request_are_ignored() {
        let mut exchange = start(&Ask::default());
        for stray in [
            &b""[..],
            b"garbage",
            b"ONEQUERY\0",
            b"ONEREPLY",
            b"HYREPLY\0\0",
            &challenge()[..8],
        ] {
            assert_eq!(receive(&mut exchange, stray), (Step::Wait, Vec::new()));
        }
        assert!(matches!(
            receive(&mut exchange, &challenge()[..40]).0,
            Step::Bad(Fault::Malformed(_))
        ));
        let (mut exchange, query) = basic_asked(&Ask::default());
        assert_eq!(
            receive(&mut exchange, &challenge()).0,
            Step::Wait,
            "a second challenge"
        );
        let mut wrong_id = basic(&query, Flags::default(), 3);
        wrong_id[11] ^= 1;
        assert_eq!(receive(&mut exchange, &wrong_id).0, Step::Wait);
        let right = basic(&query, Flags::default(), 3);
        assert!(matches!(
            receive(&mut exchange, &right[..right.len() - 1]).0,
            Step::Bad(Fault::Malformed(_))
        ));
        let neither = reply(&query, Flags::default(), b"");
        assert!(matches!(
            receive(&mut exchange, &neither).0,
            Step::Bad(Fault::Misbehaved(_))
        ));
        let mut version_2 = right.clone();
        version_2[8] = 2;
        assert!(matches!(
            receive(&mut exchange, &version_2).0,
            Step::Bad(Fault::Malformed(_))
        ));
        let (step, players) = receive(&mut exchange, &right);
        assert_eq!(step, Step::Send);
        assert_eq!(
            receive(&mut exchange, &right).0,
            Step::Wait,
            "an answer to the stage before"
        );
        assert_ne!(requested(&players).id, requested(&query).id);
    }

    #[test]
    fn an_answer_counts_even_while_a_new_token_is_awaited() {
        let (mut exchange, query) = basic_asked(&Ask {
            depth: Depth::Basic,
            ..Ask::default()
        });
        for _ in 0..3 {
            wait(&mut exchange);
        }
        assert!(matches!(
            receive(&mut exchange, &basic(&query, Flags::default(), 3)).0,
            Step::Done(_)
        ));
    }

    #[test]
    fn the_same_cookie_gives_the_same_bytes() {
        let bytes = |cookie| {
            let mut exchange = OneQueryExchange::new(&Ask::default(), Cookie(cookie));
            let mut out = Vec::new();
            exchange.handle(Input::Start, &mut out);
            exchange.handle(Input::Datagram(&challenge()), &mut out);
            out
        };
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
    }

    /// spec/onequery.md#6.1: the client's side.
    #[test]
    fn pages_before_the_deadline_are_kept() {
        let (mut exchange, _) = basic_asked(&Ask::default());
        assert_eq!(
            exchange.handle(Input::GiveUp, &mut Vec::new()),
            Step::Wait,
            "nothing yet"
        );

        let (mut exchange, query) = players_asked();
        let more = page(&query, Flags::MORE, 3, 0, &[("A", 1)]);
        assert_eq!(receive(&mut exchange, &more).0, Step::Send);
        let Step::Done(status) = exchange.handle(Input::GiveUp, &mut Vec::new()) else {
            panic!()
        };
        assert_eq!(
            (status.players.list.len(), status.players.roster),
            (1, Roster::Partial)
        );
        assert_eq!(status.extra("unanswered"), Some(&"players".into()));
    }

    #[test]
    fn an_auth_token_goes_with_every_query() {
        let ask = Ask {
            auth_token: Some("s\u{E9}same".into()),
            ..Ask::default()
        };
        let (mut exchange, query) = basic_asked(&ask);
        assert_eq!(requested(&query).auth_token, Some("s\u{E9}same".as_bytes()));
        let (_, query) = receive(&mut exchange, &basic(&query, Flags::default(), 0));
        assert_eq!(requested(&query).auth_token, Some("s\u{E9}same".as_bytes()));
        assert!(!format!("{exchange:?} {:?}", requested(&query)).contains("same"));
        let (_, query) = basic_asked(&Ask {
            auth_token: Some("".into()),
            ..Ask::default()
        });
        assert_eq!(query.len(), message::QUERY);
        let too_long = Ask {
            auth_token: Some("x".repeat(message::MAX_AUTH_TOKEN + 1).into()),
            ..Ask::default()
        };
        let step =
            OneQueryExchange::new(&too_long, Cookie(1)).handle(Input::Start, &mut Vec::new());
        assert!(
            matches!(step, Step::Fail(Fault::Refused { reason, .. }) if reason.contains("fit"))
        );
        assert_eq!(message::MAX_AUTH_TOKEN, 1347);
        let (_, query) = basic_asked(&Ask {
            auth_token: Some("x".repeat(message::MAX_AUTH_TOKEN).into()),
            ..Ask::default()
        });
        assert_eq!(query.len(), message::MAX_REPLY);
    }

    /// Refuses both endpoints with the payload, and returns the last step.
    fn refused_with(ask: &Ask, payload: &[u8]) -> Step {
        let (mut exchange, query) = basic_asked(ask);
        let (step, query) = receive(&mut exchange, &reply(&query, Flags::REFUSED, payload));
        assert_eq!(step, Step::Send, "the player list may be public");
        receive(&mut exchange, &reply(&query, Flags::REFUSED, payload)).0
    }

    /// spec/onequery.md#6.2
    #[test]
    fn minimal_refusals_are_refusals() {
        let with_token = Ask {
            auth_token: Some("wrong".into()),
            ..Ask::default()
        };
        let mut minimal = Vec::new();
        let name = ServerInfo {
            name: b"Private",
            ..ServerInfo::default()
        };
        message::write_info(&name, &mut minimal);
        for payload in [&b""[..], &minimal] {
            for (ask, reason) in [
                (&Ask::default(), "it requires an auth token"),
                (&with_token, "it rejected the auth token"),
            ] {
                let endpoints = &["basic", "players"];
                let refused = Fault::Refused { reason, endpoints };
                assert_eq!(refused_with(ask, payload), Step::Fail(refused));
            }
            let basic = Ask {
                depth: Depth::Basic,
                ..Ask::default()
            };
            let (mut exchange, query) = basic_asked(&basic);
            let (step, _) = receive(&mut exchange, &reply(&query, Flags::REFUSED, payload));
            let refused = Fault::Refused {
                reason: "it requires an auth token",
                endpoints: &["basic"],
            };
            assert_eq!(step, Step::Fail(refused));
        }
    }

    #[test]
    fn a_refused_basic_query_leaves_a_public_player_list() {
        let refuse_basic = || {
            let (mut exchange, query) = basic_asked(&Ask::default());
            let (_, query) = receive(&mut exchange, &reply(&query, Flags::REFUSED, b""));
            (exchange, query)
        };
        let (mut exchange, query) = refuse_basic();
        let page = page(&query, Flags::default(), 1, 0, &[("a", 1)]);
        let (status, _) = done(receive(&mut exchange, &page).0);
        assert_eq!((names(&status).len(), status.refused), (1, &["basic"][..]));

        let (mut exchange, _) = refuse_basic();
        for _ in 0..QUERY_RESENDS {
            wait(&mut exchange);
        }
        let step = exchange.handle(Input::Timeout, &mut Vec::new());
        assert!(
            matches!(
                step,
                Step::Fail(Fault::Refused {
                    endpoints: ["basic"],
                    ..
                })
            ),
            "{step:?}"
        );
    }

    /// spec/onequery.md#6.2
    #[test]
    fn refusals_that_disclose() {
        let (mut exchange, query) = players_asked();
        let (status, deviations) =
            done(receive(&mut exchange, &reply(&query, Flags::REFUSED, b"")).0);
        assert_eq!(
            (status.players.online, status.players.roster),
            (Some(3), Roster::Refused)
        );
        assert_eq!(status.refused, ["players"]);
        assert_eq!(status.extra("auth-token"), None);
        assert!(deviations.is_empty());

        let with_token = Ask {
            auth_token: Some("wrong".into()),
            ..Ask::default()
        };
        let (mut exchange, query) = basic_asked(&with_token);
        let (_, query) = receive(&mut exchange, &basic(&query, Flags::default(), 3));
        let (status, _) = done(receive(&mut exchange, &reply(&query, Flags::REFUSED, b"")).0);
        assert_eq!(status.extra("auth-token"), Some(&"rejected".into()));

        // The reference discloses everything, for either endpoint.
        let (mut exchange, query) = basic_asked(&Ask::default());
        let (step, query) = receive(&mut exchange, &basic(&query, Flags(0x22), 3));
        assert_eq!(step, Step::Send, "players may be public all the same");
        let (status, deviations) = done(receive(&mut exchange, &basic(&query, Flags(0x22), 3)).0);
        assert_eq!(
            (status.players.roster, status.title().as_deref()),
            (Roster::Refused, Some("Name"))
        );
        assert_eq!(deviations, ["refused-but-disclosed"]);
        assert_eq!(status.refused, ["basic", "players"]);

        let (mut exchange, query) = players_asked();
        let (_, query) = receive(&mut exchange, &page(&query, Flags::MORE, 3, 0, &[("a", 1)]));
        let (status, _) = done(receive(&mut exchange, &reply(&query, Flags::REFUSED, b"")).0);
        assert_eq!(
            (names(&status), status.players.roster),
            (["a"].map(Into::into).into(), Roster::Partial)
        );
    }

    /// spec/onequery.md#7.3
    #[test]
    fn a_list_that_shifts_between_pages() {
        // A player joined on an earlier page: one player is repeated and the total grew.
        let (mut exchange, query) = players_asked();
        let (_, query) = receive(
            &mut exchange,
            &page(&query, Flags::MORE, 3, 0, &[("b", 2), ("c", 3)]),
        );
        let (status, deviations) = done(
            receive(
                &mut exchange,
                &page(&query, Flags::default(), 4, 2, &[("c", 3), ("d", 4)]),
            )
            .0,
        );
        assert_eq!(names(&status), ["b", "c", "d"]);
        assert_eq!(deviations, ["repeated-player", "count-not-total"]);
        // Players left until the offset is beyond the end: the page is empty and its offset is the
        // total.
        let (mut exchange, query) = players_asked();
        let (_, query) = receive(
            &mut exchange,
            &page(&query, Flags::MORE, 3, 0, &[("b", 2), ("c", 3)]),
        );
        let (status, deviations) =
            done(receive(&mut exchange, &page(&query, Flags::default(), 1, 1, &[])).0);
        assert_eq!(
            (names(&status), status.players.roster),
            (["b", "c"].map(Into::into).into(), Roster::Partial)
        );
        assert_eq!(deviations, ["offset-not-asked", "count-not-total"]);
    }

    #[test]
    fn players_without_uuid_are_never_the_same() {
        let (mut exchange, query) = players_asked();
        let players = [("a", 0), ("a", 0), ("b", 9)];
        let (status, deviations) = done(
            receive(
                &mut exchange,
                &page(&query, Flags::default(), 3, 0, &players),
            )
            .0,
        );
        let uuids: Vec<_> = status
            .players
            .list
            .iter()
            .map(|player| player.uuid)
            .collect();
        assert_eq!(uuids, [None, None, Some([9; 16])]);
        assert!(deviations.is_empty());
    }

    #[test]
    fn more_at_or_past_the_total_is_ignored() {
        for total in [0, 1] {
            let (mut exchange, query) = players_asked();
            let (status, deviations) = done(
                receive(
                    &mut exchange,
                    &page(&query, Flags::MORE, total, 0, &[("a", 1)]),
                )
                .0,
            );
            assert_eq!(names(&status), ["a"]);
            assert_eq!(deviations.first(), Some(&"more-past-total"));
        }
        let (mut exchange, query) = players_asked();
        let (status, _) =
            done(receive(&mut exchange, &page(&query, Flags::MORE, 0, 0, NO_PLAYERS)).0);
        assert_eq!(
            status.players.roster,
            Roster::Partial,
            "the basic reply counted three"
        );
    }

    /// spec/onequery.md#7.2
    #[test]
    fn more_without_progress_ends_with_a_named_error() {
        let fault = |step| match step {
            Step::Fail(Fault::Misbehaved(rule)) => rule,
            other => panic!("{other:?}"),
        };
        let (mut exchange, query) = players_asked();
        let step = receive(&mut exchange, &page(&query, Flags::MORE, 3, 0, NO_PLAYERS)).0;
        assert_eq!(fault(step), "a page without players says that more follow");
        let (mut exchange, query) = players_asked();
        let (_, query) = receive(&mut exchange, &page(&query, Flags::MORE, 3, 0, &[("a", 1)]));
        let step = receive(&mut exchange, &page(&query, Flags::MORE, 3, 0, &[("a", 1)])).0;
        assert_eq!(
            fault(step),
            "pages do not advance, but say that more players follow"
        );
    }

    /// Reads an endless list of single players from a server that reports `online` players.
    fn endless_list(online: i32) -> (Status, Vec<&'static str>) {
        let (mut exchange, query) = basic_asked(&Ask::default());
        let (_, mut query) = receive(&mut exchange, &basic(&query, Flags::default(), online));
        loop {
            let offset = requested(&query).offset as usize;
            let page = page(&query, Flags::MORE, i32::MAX as usize, offset, &[("a", 0)]);
            match receive(&mut exchange, &page) {
                (Step::Send, next) => query = next,
                (step, _) => return done(step),
            }
        }
    }

    #[test]
    fn an_endless_list_is_cut() {
        for (online, expected) in [
            (-1, EXTRA_PLAYERS),
            (3, EXTRA_PLAYERS + 6),
            (1_000_000, MAX_PAGES),
        ] {
            let (status, deviations) = endless_list(online);
            assert_eq!(status.players.list.len(), expected, "{online} online");
            assert_eq!(status.players.roster, Roster::Partial);
            assert_eq!(
                deviations.is_empty(),
                online >= 0,
                "implausible-count below 0"
            );
        }
    }

    /// Queries a responder to the end. Returns the last step and the number of datagrams sent.
    fn ask(responders: &[OneQueryResponder], ask: &Ask) -> (Step, usize) {
        let mut exchange = OneQueryExchange::new(ask, Cookie(77));
        let mut request = Vec::new();
        let mut reply = Vec::new();
        let mut step = exchange.handle(Input::Start, &mut request);
        for sent in 1.. {
            if step != Step::Send {
                return (step, sent - 1);
            }
            // A new status for each datagram, then the last one for good.
            let responder = responders.get(sent - 1).or(responders.last()).unwrap();
            assert!(matches!(
                responder.answer(client_address(), Epoch(9), &request, &mut reply),
                Verdict::Reply { .. }
            ));
            assert!(reply.len() <= message::MAX_REPLY);
            request.clear();
            step = exchange.handle(Input::Datagram(&reply), &mut request);
            reply.clear();
        }
        unreachable!()
    }

    fn status(names: impl IntoIterator<Item = String>) -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Both roles")),
            ..Status::default()
        };
        let player = |(i, name)| {
            let uuid = Some(
                (i as u128 + 1)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
                    .to_be_bytes(),
            );
            Player {
                name: Text::unformatted(name),
                uuid,
                ..Player::default()
            }
        };
        status
            .players
            .set_list(names.into_iter().enumerate().map(player).collect());
        status
    }

    fn responder(status: &Status) -> OneQueryResponder {
        OneQueryResponder::new(status, &Keys::new([7; 16]), &OneQueryConfig::default())
    }

    /// 250 names of 5 to 20 characters in several scripts.
    fn mixed_names() -> impl Iterator<Item = String> {
        let scripts = [
            "abcdefghij",
            "\u{E9}\u{E8}\u{FC}\u{F1}",
            "\u{0436}\u{0444}\u{0434}",
            "\u{4E2D}\u{6587}",
            "\u{1F600}x",
        ];
        (0..250usize).map(move |i| {
            let script: Vec<char> = scripts[i % scripts.len()].chars().collect();
            (0..5 + i % 16)
                .map(|c| script[(i + c) % script.len()])
                .collect()
        })
    }

    /// spec/onequery.md#7.2
    #[test]
    fn all_of_250_names_in_several_scripts_are_listed() {
        let reported = status(mixed_names());
        let (step, datagrams) = ask(&[responder(&reported)], &Ask::default());
        let (received, deviations) = done(step);
        assert!(deviations.is_empty());
        assert_eq!(received.players.roster, Roster::Whole);
        let mut expected = reported.players.list;
        expected.sort_by_key(|player| player.uuid);
        assert_eq!(received.players.list, expected);
        assert!((8..=12).contains(&datagrams), "{datagrams}");
    }

    #[test]
    fn players_join_and_leave_between_pages() {
        let all: Vec<_> = mixed_names().collect();
        let many = responder(&status(all.clone()));
        let few = responder(&status(all.iter().take(5).cloned()));
        // Challenge, basic, one page of the long list, then the short one.
        let shifting = [
            responder(&status(all.clone())),
            responder(&status(all)),
            many,
            few,
        ];
        let (step, _) = ask(&shifting, &Ask::default());
        let (received, deviations) = done(step);
        assert_eq!(deviations, ["offset-not-asked", "count-not-total"]);
        assert_eq!(received.players.roster, Roster::Partial);
        assert!(received.players.list.len() > 20);
    }

    #[test]
    fn a_status_survives_the_wire() {
        let mut reported = status(["Alice".to_string(), "Bob".to_string()]);
        reported.motd = Some(Text::unformatted("Two\nlines \u{1F600}"));
        reported.version = Some("2026.1".into());
        reported.players.online = Some(2);
        reported.players.max = Some(100);
        reported.address = Some(Address {
            host: Some("play.example".into()),
            port: Some(5520),
        });
        reported.extra.push(Extra::new("protocol-version", 3));
        reported.extra.push(Extra::new("protocol-hash", "0A1B2C3D"));
        reported.extra.push(Extra::new("network", true));
        reported.extra.push(Extra::new("plugin", ONEQUERY));
        reported.players.list.sort_by_key(|player| player.uuid);
        let config = OneQueryConfig {
            is_network: Some(true),
            has_address: true,
            ..OneQueryConfig::default()
        };
        let responder = OneQueryResponder::new(&reported, &Keys::new([7; 16]), &config);
        assert_eq!(done(ask(&[responder], &Ask::default()).0).0, reported);
    }
}
