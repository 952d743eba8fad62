//! The client: requests the players first, then the rules. If the player list is lost in transit,
//! the rest still arrives (spec/ugp.md#10.2).

use super::message::{ListFlags, MAGIC, QueryFlags, QueryReply, Reply, Request, Team, WireText};
use super::table::{self, player, player_extra, server, team};
use crate::model::{Extra, Status, Value};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::Notes;
use alloc::{boxed::Box, vec::Vec};
use compact_str::CompactString;

/// Requests for players without a reply, after which the exchange continues without them.
const TRIES: u8 = 2;

/// Longest request of this client in bytes.
const LONGEST_REQUEST: usize = 16;

/// The only value of the rule flags that servers are known to reply to.
const RULES: u8 = 0x07;

/// All fields.
const ALL: Fields = Fields {
    server: UNDISPUTED.server | server::EXTRA,
    extra: UNDISPUTED.extra | player_extra::JOINED,
    teams: Some(team::NAME | team::SCORE | team::PLAYERS | team::COLOR),
};
/// Fields that known clients request. Not included: the extra server flags and teams, whose layout
/// is assumed, and the time joined, whose unit is unknown (spec/ugp.md#9).
const UNDISPUTED: Fields = Fields {
    server: server::GAME | server::NAME | server::MODE | server::MAP | server::ONLINE | server::MAX,
    extra: player_extra::PING
        | player_extra::POSITION
        | player_extra::HEALTH
        | player_extra::ARMOUR
        | player_extra::SKIN,
    teams: None,
};

/// Fields of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    server: u8,
    extra: u8,
    teams: Option<u8>,
}

impl Fields {
    fn server_only(self) -> QueryFlags {
        QueryFlags {
            server: Some(self.server),
            list: None,
            rules: None,
        }
    }

    fn with_players(self) -> QueryFlags {
        QueryFlags {
            list: Some(ListFlags::Players {
                fields: player::ID
                    | player::NAME
                    | player::TEAM
                    | player::SCORE
                    | player::KILLS
                    | player::DEATHS
                    | player::EXTRA,
                extra: self.extra,
            }),
            ..self.server_only()
        }
    }

    /// Teams are requested with the rules, because their order relative to players is disputed
    /// (spec/ugp.md#5).
    fn with_rules(self) -> QueryFlags {
        QueryFlags {
            list: self.teams.map(|fields| ListFlags::Teams { fields }),
            rules: Some(RULES),
            ..self.server_only()
        }
    }
}

/// Queries one UGP server.
#[derive(Debug)]
pub struct UgpExchange {
    stage: Stage,
    /// Whether players were requested, so that a reply with a list may still arrive.
    has_players: bool,
    /// Whether to request rules after the players.
    has_rules: bool,
    /// Requested fields. After the first timeout or unreadable reply, only undisputed fields.
    fields: Fields,
    /// Timeouts in this stage.
    silent: u8,
    /// The reply with players, while the rules are requested.
    first: Option<ParsedReply>,
    /// Whether the last reply was unreadable. The next timeout is then a retry for that reason, not
    /// silence.
    is_unreadable: bool,
    /// Retries of the request for players. Each may cause a late copy of its reply.
    copies: u8,
    /// Replies like the first one, received while the rules were requested: late copies, or a
    /// server without rules.
    again: u8,
}

/// A parsed reply and its deviations.
#[derive(Debug)]
struct ParsedReply {
    status: Box<Status>,
    /// The sections of the reply, by its own flags.
    sections: u8,
    notes: Notes,
}

/// The reply that the exchange waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Ping,
    Server,
    Players,
    Rules,
}

impl UgpExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        let stage = match (ask.depth, ask.has_players) {
            (Depth::Ping, _) => Stage::Ping,
            (Depth::Basic, _) => Stage::Server,
            (Depth::Full, true) => Stage::Players,
            (Depth::Full, false) if ask.has_rules => Stage::Rules,
            (Depth::Full, false) => Stage::Server,
        };
        let players = stage == Stage::Players;
        Self {
            stage,
            has_players: players,
            has_rules: ask.has_rules,
            fields: ALL,
            silent: 0,
            first: None,
            is_unreadable: false,
            copies: 0,
            again: 0,
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        self.request(self.fields).write(out);
        Step::Send
    }

    fn request(&self, fields: Fields) -> Request {
        match self.stage {
            Stage::Ping => Request::Ping,
            Stage::Server => Request::Query(fields.server_only()),
            Stage::Players => Request::Query(fields.with_players()),
            Stage::Rules => Request::Query(fields.with_rules()),
        }
    }

    /// Returns whether the bytes are the request of this client. Requests and replies look alike,
    /// and some hosts echo datagrams. The echo of a ping is a valid reply.
    fn is_echo(&self, bytes: &[u8]) -> bool {
        if self.stage == Stage::Ping || bytes.len() > LONGEST_REQUEST {
            return false;
        }
        [ALL, UNDISPUTED].into_iter().any(|fields| {
            let mut own = Vec::with_capacity(LONGEST_REQUEST);
            self.request(fields).write(&mut own);
            own == bytes
        })
    }

    fn ask_rules(&mut self, out: &mut Vec<u8>) -> Step {
        self.stage = Stage::Rules;
        self.silent = 0;
        self.send(out)
    }

    fn silence(&mut self, out: &mut Vec<u8>) -> Step {
        self.fields = UNDISPUTED;
        if core::mem::take(&mut self.is_unreadable) {
            return self.send(out);
        }
        self.silent = self.silent.saturating_add(1);
        match (self.stage, self.silent >= TRIES) {
            // A long list is sent in IP fragments, and the loss of one fragment loses the whole
            // list.
            (Stage::Players, true) => self.ask_rules(out),
            // There are more repetitions than retries, so the server has no rules.
            (Stage::Rules, true) if self.again >= self.copies + TRIES => self
                .first
                .take()
                .map_or(Step::Wait, |first| first.done(None)),
            _ => self.send(out),
        }
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if !bytes.starts_with(&MAGIC) || self.is_echo(bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        match (self.stage, Reply::read(bytes, &mut notes)) {
            (_, Err(error)) => {
                self.is_unreadable = true;
                Step::Bad(error.into())
            }
            (Stage::Ping, Ok(Reply::Ping)) => Step::Done(Box::new(Status {
                deviations: notes.met().collect(),
                ..Status::default()
            })),
            (Stage::Ping, Ok(_)) | (_, Ok(Reply::Ping)) => Step::Wait,
            (_, Ok(Reply::Query(given))) => self.receive_query_reply(given, notes, out),
        }
    }

    /// Returns whether a reply matches the request. Only its sections show that: all of them must
    /// be requested.
    fn receive_query_reply(
        &mut self,
        given: QueryReply<'_>,
        notes: Notes,
        out: &mut Vec<u8>,
    ) -> Step {
        match self.stage {
            Stage::Server if ALL.server_only().covers(&given) => {
                ParsedReply::new(given, notes).done(None)
            }
            Stage::Players if ALL.with_players().covers(&given) && !self.has_rules => {
                ParsedReply::new(given, notes).done(None)
            }
            Stage::Players if ALL.with_players().covers(&given) => {
                self.first = Some(ParsedReply::new(given, notes));
                self.copies = self.silent;
                self.ask_rules(out)
            }
            Stage::Rules => self.receive_rules(given, notes),
            _ => Step::Wait,
        }
    }

    fn receive_rules(&mut self, given: QueryReply<'_>, notes: Notes) -> Step {
        let answers = ALL.with_rules().covers(&given);
        match self.first.take() {
            // The reply with players arrived late, after the rules were requested.
            None if self.has_players && ALL.with_players().covers(&given) => {
                self.first = Some(ParsedReply::new(given, notes));
                Step::Wait
            }
            None if answers => {
                ParsedReply::new(given, notes).done(self.has_players.then_some("players"))
            }
            Some(mut first) if answers && given.sections != first.sections => {
                first.status.rules = given.rules.unwrap_or_default();
                first.status.extra.extend(given.teams.map(teams));
                for (met, at) in notes.deviations() {
                    first.notes.deviation(met, *at);
                }
                first.done(None)
            }
            // A copy of the first reply, or a server that sends neither players nor rules. Timeouts
            // decide.
            first => {
                self.again = self.again.saturating_add(u8::from(first.is_some()));
                self.first = first;
                Step::Wait
            }
        }
    }
}

impl Exchange for UgpExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => self.silence(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::Continue | Input::Closed(_) => Step::Wait,
            Input::GiveUp => self
                .first
                .take()
                .map_or(Step::Wait, |first| first.done(Some("rules"))),
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.stage == Stage::Rules && self.has_players)
    }
}

impl ParsedReply {
    fn new(given: QueryReply<'_>, notes: Notes) -> Self {
        let mut status = Box::<Status>::default();
        let server = given.server.unwrap_or_default();
        status
            .extra
            .push(Extra::new("game-id", i64::from(given.game)));
        status.extra.extend(
            server
                .has_password
                .map(|password| Extra::new("password", password)),
        );
        status
            .extra
            .extend(filled(server.os).map(|os| Extra::new("os", os)));
        status.game = filled(server.game).or_else(|| table::game_name(given.game).map(Into::into));
        status.mode = filled(server.mode);
        status.map = filled(server.map);
        status.version = filled(server.version);
        status.name = server.name.map(WireText::text);
        status.rules = given.rules.unwrap_or_default();
        status.extra.extend(given.teams.map(teams));
        status.players.online = server.online.map(i64::from);
        status.players.max = server.max.map(i64::from);
        // Without the section the list is absent, not empty: servers drop it when it grows too long.
        if let Some(players) = given.players {
            status.players.set_list(players);
        }
        Self {
            status,
            sections: given.sections,
            notes,
        }
    }

    fn done(mut self, unanswered: Option<&'static str>) -> Step {
        self.status
            .extra
            .extend(unanswered.map(|what| Extra::new("unanswered", what)));
        self.status.deviations = self.notes.met().collect();
        Step::Done(self.status)
    }
}

fn teams(teams: Vec<Team<'_>>) -> Extra {
    let table = |team: Team<'_>| {
        let mut table = Vec::new();
        let mut add = |key: &'static str, value: Option<Value>| {
            table.extend(value.map(|value| (key.into(), value)));
        };
        add("name", team.name.map(|name| name.plain().into()));
        add("score", team.score.map(|score| i64::from(score).into()));
        add("players", team.players.map(|count| i64::from(count).into()));
        add("color", team.color.map(|color| i64::from(color).into()));
        Value::Table(table)
    };
    Extra::new("teams", Value::List(teams.into_iter().map(table).collect()))
}

/// Returns a text without control characters, or `None` if it is empty.
fn filled(text: Option<WireText<'_>>) -> Option<CompactString> {
    text.map(WireText::plain).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::deviation;
    use super::super::server::{Profile, UgpConfig, UgpResponder};
    use super::*;
    use crate::token::Epoch;
    use crate::{Fault, Player, Responder, Roster, Rule, Text, Verdict};

    const PING: &[u8] = b"\xFF\xFFUGP\0\x01\0";
    const ASK_SERVER: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x01\x7F";
    const ASK_PLAYERS: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x03\x7F\x7F\x3F";
    const ASK_RULES: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x0D\x7F\x0F\x07";
    const ASK_SERVER_AGAIN: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x01\x7D";
    const ASK_PLAYERS_AGAIN: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x03\x7D\x7F\x3D";
    const ASK_RULES_AGAIN: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x09\x7D\x07";

    const GIVE_SERVER: &[u8] = b"\xFF\xFFUGP\0\x01\x81\x01\x01\x6C\x05Test\0\x03DM\0\x02\x20";
    const GIVE_PLAYERS: &[u8] =
        b"\xFF\xFFUGP\0\x01\x81\x01\x03\x6C\x05Test\0\x03DM\0\x02\x20\x02\x03\0\x03Al\0\x01\x03Bo\0";
    const GIVE_RULES: &[u8] =
        b"\xFF\xFFUGP\0\x01\x81\x01\x09\x6C\x05Test\0\x03DM\0\x02\x20\x01\x06Owner\0\x03Me\0";

    fn ask(depth: Depth, players: bool) -> UgpExchange {
        UgpExchange::new(&Ask {
            depth,
            has_players: players,
            ..Ask::default()
        })
    }

    fn send(exchange: &mut UgpExchange, input: Input<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(exchange.handle(input, &mut out), Step::Send);
        out
    }

    fn receive(exchange: &mut UgpExchange, bytes: &[u8]) -> Step {
        let mut out = Vec::new();
        let step = exchange.handle(Input::Datagram(bytes), &mut out);
        assert_eq!(step == Step::Send, !out.is_empty());
        step
    }

    fn finish(exchange: &mut UgpExchange, input: Input<'_>) -> Status {
        match exchange.handle(input, &mut Vec::new()) {
            Step::Done(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn names(status: &Status) -> Vec<&str> {
        status
            .players
            .list
            .iter()
            .map(|player| player.name.raw())
            .collect()
    }

    #[test]
    fn a_ping_is_a_sign_of_life() {
        let mut exchange = ask(Depth::Ping, true);
        assert_eq!(send(&mut exchange, Input::Start), PING);
        assert_eq!(send(&mut exchange, Input::Timeout), PING);
        assert_eq!(receive(&mut exchange, GIVE_SERVER), Step::Wait);
        assert_eq!(
            finish(&mut exchange, Input::Datagram(b"\xFF\xFFUGP\0\x01\x80")),
            Status::default()
        );
    }

    #[test]
    fn a_short_answer_is_the_server_section() {
        let mut exchange = ask(Depth::Basic, true);
        assert_eq!(send(&mut exchange, Input::Start), ASK_SERVER);
        for _ in 0..5 {
            assert_eq!(send(&mut exchange, Input::Timeout), ASK_SERVER_AGAIN);
        }
        assert_eq!(
            receive(&mut exchange, GIVE_PLAYERS),
            Step::Wait,
            "not asked for"
        );
        let status = finish(&mut exchange, Input::Datagram(GIVE_SERVER));
        assert_eq!(status.title().as_deref(), Some("Test"));
        assert_eq!(status.game.as_deref(), Some("gta:iii"));
        assert_eq!(status.extra, [Extra::new("game-id", 1)]);
        assert_eq!(
            (status.players.online, status.players.max),
            (Some(2), Some(32))
        );
        assert_eq!(status.players.roster, Roster::Absent);
    }

    #[test]
    fn players_then_rules() {
        let mut exchange = ask(Depth::Full, true);
        assert_eq!(send(&mut exchange, Input::Start), ASK_PLAYERS);
        assert_eq!(
            receive(&mut exchange, GIVE_RULES),
            Step::Wait,
            "rules before they were asked for"
        );
        assert_eq!(
            send(&mut exchange, Input::Datagram(GIVE_PLAYERS)),
            ASK_RULES
        );
        assert_eq!(
            receive(&mut exchange, GIVE_PLAYERS),
            Step::Wait,
            "a late copy"
        );
        let status = finish(&mut exchange, Input::Datagram(GIVE_RULES));
        assert_eq!(names(&status), ["Al", "Bo"]);
        assert_eq!(status.players.roster, Roster::Whole);
        assert_eq!(status.players.list[1].extra, [Extra::new("id", 1)]);
        assert_eq!(
            status.rules,
            [Rule {
                key: "Owner".into(),
                value: "Me".into()
            }]
        );
        assert_eq!(status.extra("unanswered"), None);
    }

    #[test]
    fn without_players_one_question_is_enough() {
        let mut exchange = ask(Depth::Full, false);
        assert_eq!(send(&mut exchange, Input::Start), ASK_RULES);
        for _ in 0..3 {
            assert_eq!(send(&mut exchange, Input::Timeout), ASK_RULES_AGAIN);
        }
        assert_eq!(receive(&mut exchange, GIVE_PLAYERS), Step::Wait);
        let status = finish(&mut exchange, Input::Datagram(GIVE_SERVER));
        assert_eq!(
            (status.rules.len(), status.extra("unanswered")),
            (0, None),
            "a server without rules"
        );
    }

    #[test]
    fn a_list_left_out_is_absent_and_not_empty() {
        let mut exchange = ask(Depth::Full, true);
        send(&mut exchange, Input::Start);
        assert_eq!(send(&mut exchange, Input::Datagram(GIVE_SERVER)), ASK_RULES);
        assert_eq!(
            receive(&mut exchange, GIVE_SERVER),
            Step::Wait,
            "a late copy, or no rules"
        );
        assert_eq!(send(&mut exchange, Input::Timeout), ASK_RULES_AGAIN);
        let status = finish(&mut exchange, Input::Datagram(GIVE_RULES));
        assert_eq!(status.players.roster, Roster::Absent);
        assert_eq!((status.players.online, status.rules.len()), (Some(2), 1));
    }

    #[test]
    fn a_server_without_rules_and_players_costs_two_tries() {
        let mut exchange = ask(Depth::Full, true);
        send(&mut exchange, Input::Start);
        for (input, request) in [
            (Input::Datagram(GIVE_SERVER), ASK_RULES),
            (Input::Timeout, ASK_RULES_AGAIN),
        ] {
            assert_eq!(send(&mut exchange, input), request);
            assert_eq!(receive(&mut exchange, GIVE_SERVER), Step::Wait);
        }
        let status = finish(&mut exchange, Input::Timeout);
        assert_eq!(
            (status.title().as_deref(), status.extra("unanswered")),
            (Some("Test"), None)
        );
    }

    #[test]
    fn an_echo_is_no_answer() {
        for players in [true, false] {
            let mut exchange = ask(Depth::Full, players);
            let own = send(&mut exchange, Input::Start);
            assert!(own.len() <= LONGEST_REQUEST, "{own:?}");
            assert_eq!(receive(&mut exchange, &own), Step::Wait);
        }
    }

    #[test]
    fn silence_on_rules_keeps_the_rest() {
        let mut exchange = ask(Depth::Full, true);
        send(&mut exchange, Input::Start);
        assert_eq!(
            exchange.handle(Input::GiveUp, &mut Vec::new()),
            Step::Wait,
            "nothing yet"
        );
        send(&mut exchange, Input::Datagram(GIVE_PLAYERS));
        for _ in 0..300 {
            assert_eq!(
                send(&mut exchange, Input::Timeout),
                ASK_RULES_AGAIN,
                "until the deadline"
            );
        }
        let status = finish(&mut exchange, Input::GiveUp);
        assert_eq!(names(&status), ["Al", "Bo"]);
        assert_eq!(status.extra("unanswered"), Some(&"rules".into()));

        // Another server replies without them, which is valid.
        let mut exchange = ask(Depth::Full, true);
        send(&mut exchange, Input::Start);
        send(&mut exchange, Input::Datagram(GIVE_PLAYERS));
        let status = finish(&mut exchange, Input::Datagram(GIVE_SERVER));
        assert_eq!(
            (names(&status).len(), status.extra("unanswered")),
            (2, None)
        );
    }

    #[test]
    fn requests_rules_after_silence_on_players() {
        let silent = || {
            let mut exchange = ask(Depth::Full, true);
            assert_eq!(send(&mut exchange, Input::Start), ASK_PLAYERS);
            assert_eq!(send(&mut exchange, Input::Timeout), ASK_PLAYERS_AGAIN);
            assert_eq!(send(&mut exchange, Input::Timeout), ASK_RULES_AGAIN);
            exchange
        };
        let mut exchange = silent();
        for _ in 0..300 {
            assert_eq!(
                send(&mut exchange, Input::Timeout),
                ASK_RULES_AGAIN,
                "until the deadline"
            );
        }
        let status = finish(&mut exchange, Input::Datagram(GIVE_RULES));
        assert_eq!(
            (status.players.roster, status.rules.len()),
            (Roster::Absent, 1)
        );
        assert_eq!(status.extra("unanswered"), Some(&"players".into()));

        let mut exchange = silent();
        assert_eq!(
            receive(&mut exchange, GIVE_PLAYERS),
            Step::Wait,
            "late, but here"
        );
        let status = finish(&mut exchange, Input::Datagram(GIVE_RULES));
        assert_eq!((names(&status).len(), status.rules.len()), (2, 1));
        assert_eq!(status.extra("unanswered"), None);
    }

    #[test]
    fn noise_is_ignored_and_unreadable_replies_are_reported() {
        for depth in [Depth::Ping, Depth::Basic, Depth::Full] {
            let mut exchange = ask(depth, true);
            send(&mut exchange, Input::Start);
            for noise in [
                &b""[..],
                b"\xFF",
                b"\xFF\xFF\xFF\xFFI",
                b"\xFE\xFD\x09",
                b"\0",
            ] {
                assert_eq!(receive(&mut exchange, noise), Step::Wait);
            }
            for bad in [
                &GIVE_PLAYERS[..34],
                &GIVE_PLAYERS[..7],
                b"\xFF\xFFUGP\0\x01\x82",
            ] {
                assert!(matches!(
                    receive(&mut exchange, bad),
                    Step::Bad(Fault::Malformed(_))
                ));
            }
        }
        assert_eq!(
            receive(&mut ask(Depth::Full, true), b"\xFF\xFFUGP\0\x01\x80"),
            Step::Wait
        );
    }

    #[test]
    fn deviations_of_both_answers_are_kept_once() {
        let mut exchange = ask(Depth::Full, true);
        send(&mut exchange, Input::Start);
        let unmarked = |answer: &[u8], end: &[u8]| [&answer[..7], &[1], &answer[8..], end].concat();
        send(&mut exchange, Input::Datagram(&unmarked(GIVE_PLAYERS, b"")));
        receive(&mut exchange, &[GIVE_PLAYERS, b"late"].concat());
        let status = finish(&mut exchange, Input::Datagram(&unmarked(GIVE_RULES, b"x")));
        let met: Vec<_> = status.deviations.iter().map(|met| met.name).collect();
        assert_eq!(met, ["unmarked-type", "trailing-bytes"]);
        assert!(
            status
                .deviations
                .iter()
                .all(|met| deviation::ALL.contains(met))
        );
    }

    #[test]
    fn unknown_games_and_unasked_fields_survive() {
        let mut exchange = ask(Depth::Basic, true);
        send(&mut exchange, Input::Start);
        let answer = b"\xFF\xFFUGP\0\x01\x81\x63\x01\x1F\x01\0\x07\x041.0\0\x04Win\0\x01\0\x04D\x1BM\0\x01\0";
        let status = finish(&mut exchange, Input::Datagram(answer));
        assert_eq!(
            (status.game, status.version.as_deref(), status.map),
            (None, Some("1.0"), None)
        );
        assert_eq!(
            status.mode.as_deref(),
            Some("DM"),
            "fields that are shown unfiltered contain no control characters"
        );
        let extra = [
            ("game-id", Value::Int(99)),
            ("password", true.into()),
            ("os", "Win".into()),
        ];
        assert_eq!(
            status.extra,
            extra.map(|(key, value)| Extra::new(key, value))
        );
    }

    /// Queries a responder. Every `lost`-th datagram is lost, and every reply arrives twice.
    fn converse(ask: &Ask, responder: &UgpResponder, lost: usize) -> Status {
        let mut exchange = UgpExchange::new(ask);
        let mut sent = 0;
        let mut step = exchange.handle(Input::Start, &mut Vec::new());
        let mut request = Vec::new();
        exchange.send(&mut request);
        while step == Step::Send {
            sent += 1;
            let mut answer = Vec::new();
            let verdict = responder.answer(
                "192.0.2.7:50000".parse().unwrap(),
                Epoch(0),
                &request,
                &mut answer,
            );
            assert_eq!(verdict, Verdict::Reply { is_verified: false });
            assert!(sent < 100);
            request.clear();
            step = if sent % lost == 0 {
                exchange.handle(Input::Timeout, &mut request)
            } else {
                match exchange.handle(Input::Datagram(&answer), &mut request) {
                    Step::Send => {
                        let copy = exchange.handle(Input::Datagram(&answer), &mut Vec::new());
                        assert_eq!(copy, Step::Wait);
                        Step::Send
                    }
                    Step::Wait => exchange.handle(Input::Timeout, &mut request),
                    other => other,
                }
            };
        }
        match step {
            Step::Done(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// spec/ugp.md#9
    #[test]
    fn an_unreadable_reply_ends_requests_for_disputed_fields() {
        let mut exchange = ask(Depth::Full, true);
        send(&mut exchange, Input::Start);
        send(&mut exchange, Input::Datagram(GIVE_PLAYERS));
        // Teams with an unknown layout.
        let unknown = b"\xFF\xFFUGP\0\x01\x81\x01\x0C\x05\x0F\xFF";
        assert!(matches!(receive(&mut exchange, unknown), Step::Bad(_)));
        assert_eq!(send(&mut exchange, Input::Timeout), ASK_RULES_AGAIN);
        let status = finish(&mut exchange, Input::Datagram(GIVE_RULES));
        assert_eq!((names(&status).len(), status.rules.len()), (2, 1));
    }

    #[test]
    fn every_field_survives_the_full_profile() {
        let table = |name: &str, color: i64| {
            let entries: [(&'static str, Value); 4] = [
                ("name", name.into()),
                ("score", (-5).into()),
                ("players", 1.into()),
                ("color", color.into()),
            ];
            Value::Table(entries.map(|(key, value)| (key.into(), value)).into())
        };
        let player = |id: i64, name: &str| Player {
            name: Text::unformatted(name),
            extra: [
                Extra::new("id", id),
                Extra::new("team", 1),
                Extra::new("score", -7),
                Extra::new("kills", 3),
                Extra::new("deaths", 4),
                Extra::new("ping", 55),
                Extra::new("joined", 1_700_000_000),
                Extra::new("position", Value::Point([1.5, -2.0, 10.0])),
                Extra::new("health", 98),
                Extra::new("armour", 0),
                Extra::new("skin", 21),
            ]
            .into(),
            ..Player::default()
        };
        let mut reported = Status {
            name: Some(Text::unformatted("Liberty")),
            game: Some("Grand Theft Auto: Connected".into()),
            mode: Some("Roleplay".into()),
            map: Some("Portland".into()),
            version: Some("1.6".into()),
            ..Status::default()
        };
        reported.extra = [
            Extra::new("game-id", 1),
            Extra::new("password", true),
            Extra::new("os", "Linux"),
            Extra::new(
                "teams",
                Value::List([table("Red", 255), table("Blue", 65_280)].into()),
            ),
        ]
        .into();
        reported.players.max = Some(128);
        reported.players.online = Some(2);
        reported
            .players
            .set_list([player(4, "Clara"), player(9, "Maria")].into());
        reported.rules = [Rule {
            key: "Discord".into(),
            value: "none".into(),
        }]
        .into();
        let full = UgpConfig {
            profile: Profile::Full,
            ..UgpConfig::default()
        };
        let responder = UgpResponder::new(&reported, &full);
        assert_eq!(converse(&Ask::default(), &responder, 1000), reported);

        let gtac = UgpResponder::new(&reported, &UgpConfig::default());
        let status = converse(&Ask::default(), &gtac, 1000);
        assert_eq!(
            (status.version.clone(), status.extra("teams")),
            (None, None)
        );
        assert_eq!(status.players.list[0].extra, [Extra::new("id", 4)]);
    }

    #[test]
    fn both_roles_agree() {
        let mut reported = Status {
            name: Some(Text::unformatted("Liberty \u{2605}")),
            game: Some("Grand Theft Auto: Connected".into()),
            mode: Some("Roleplay".into()),
            map: Some("Portland".into()),
            ..Status::default()
        };
        reported.extra = [Extra::new("game-id", 1)].into();
        reported.players.max = Some(128);
        reported.players.online = Some(2);
        let player = |id: i64, name| Player {
            name: Text::unformatted(name),
            extra: [Extra::new("id", id)].into(),
            ..Player::default()
        };
        reported
            .players
            .set_list([player(4, "Clara"), player(9, "Maria")].into());
        reported.rules = [Rule {
            key: "Discord".into(),
            value: "none".into(),
        }]
        .into();
        let responder = UgpResponder::new(&reported, &UgpConfig::default());

        for lost in [2, 3, 1000] {
            assert_eq!(converse(&Ask::default(), &responder, lost), reported);
        }
        let ping = Ask {
            depth: Depth::Ping,
            ..Ask::default()
        };
        assert_eq!(converse(&ping, &responder, 1000), Status::default());

        reported.players.list.clear();
        reported.players.roster = Roster::Absent;
        assert_eq!(
            converse(
                &Ask {
                    has_players: false,
                    ..Ask::default()
                },
                &responder,
                2
            ),
            reported
        );
        reported.rules.clear();
        assert_eq!(
            converse(
                &Ask {
                    depth: Depth::Basic,
                    ..Ask::default()
                },
                &responder,
                2
            ),
            reported
        );
    }
}
