//! The client: info, then players and rules together (spec/a2s.md#8).
//!
//! ```text
//!   info                      ─►
//!                             ◄─  challenge, or the info reply of older servers
//!   info + challenge          ─►
//!                             ◄─  info reply
//!   players + challenge       ─►
//!   rules + challenge         ─►
//!                             ◄─  players reply, rules reply, each in any number of parts
//! ```
//!
//! Limits: [`MAX_CHALLENGES`] challenges for info and as many for the lists; those of [`split`].

use super::binary::{self, BinaryRules};
use super::deviation::*;
use super::joined;
use super::message::{
    self, Challenge, Info, OldInfo, Players, Reply, Request, Rules, Word, decimal, decode,
    parse_reply,
};
use super::split::{Assembled, Assembly, Layout};
use crate::model::{Address, Extra, Player, Rule, Status, Text, Value};
use crate::protocol::{Ask, Depth, Exchange, Fault, Input, Step};
use crate::wire::{Deviation, Notes};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Most challenges to follow for info, and for the lists.
pub const MAX_CHALLENGES: u8 = 5;
/// Most repetitions of requests with the right challenge, in each phase, that the server answers
/// with the same challenge again.
const MAX_SAME_CHALLENGES: u8 = 3;
/// Timeouts in a row before the exchange gives up lists that the server may never send.
const LIST_TIMEOUTS: u8 = 3;
/// The same for rules, if the players came: many games never send rules.
const RULES_TIMEOUTS: u8 = 2;
/// Challenges after which the lists are requested one after the other, for servers that replace
/// the challenge with each request.
const PARALLEL_CHALLENGES: u8 = 2;
/// App ids of Counter-Strike: Global Offensive, which hides players behind a pseudo player.
const COUNTER_STRIKE: u32 = 730;
/// Name of this pseudo player.
const PSEUDO_PLAYER: &[u8] = b"Max Players";
/// App id of Rust, whose counts continue in tags.
const RUST: u32 = 252_490;
/// Protocol numbers of GoldSource.
const GOLD_SOURCE: core::ops::RangeInclusive<u8> = 47..=48;
/// Extra fields of most info replies. More take another allocation.
const EXTRAS: usize = 8;
/// Largest count in an info reply.
const MAX_COUNT: i64 = u8::MAX as i64;
/// Modes of The Ship.
pub(super) const SHIP_MODES: [&str; 6] = [
    "Hunt",
    "Elimination",
    "Duel",
    "Deathmatch",
    "VIP Team",
    "Team Elimination",
];

const CHALLENGE_LOOP: Fault =
    Fault::Misbehaved("it answers each challenge with a new one (challenge loop)");
const ZEROS_SENT: Fault = Fault::Misbehaved("it sent zeros instead of a reply");

/// Queries one A2S server.
#[derive(Debug)]
pub struct A2sExchange {
    depth: Depth,
    phase: Phase,
    /// Requests to send one after the other, the next one first.
    queue: [Option<Outgoing>; 3],
    stage: usize,
    challenge: Option<Challenge>,
    /// Challenges followed in this phase.
    challenges: u8,
    /// Times that the server answered with the same challenge again in this phase.
    same_challenges: u8,
    /// Timeouts since the last useful datagram.
    timeouts: u8,
    /// Whether the plain info request was repeated although a challenge is known.
    has_repeated_plain: bool,
    /// Whether the old request for a challenge was sent.
    has_sent_old_challenge: bool,
    /// Whether the server only knows words.
    speaks_words: bool,
    wants_players: bool,
    wants_rules: bool,
    /// Whether the outstanding lists were requested with the current challenge.
    has_sent_rules: bool,
    /// Replies to the last requests for lists that have not arrived.
    pending: u8,
    /// Whether one of these replies was a new challenge.
    is_renewed: bool,
    assembly: Assembly,
    /// The fields of the info reply. Boxed because a sweep builds an exchange for each request.
    status: Option<Box<Status>>,
    app_id: u32,
    /// Whether the status is from the GoldSource form.
    is_old_info: bool,
    split_fallback: Layout,
    players: Option<Vec<Player>>,
    rules: Vec<Rule>,
    rules_extra: Vec<Extra>,
    /// Last fault while the lists were missing. It must not cost the rest of the status.
    list_fault: Option<Fault>,
    deviations: Vec<&'static Deviation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Info,
    Lists,
}

/// A kind of request. The challenge is added when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outgoing {
    PlainInfo,
    Info,
    Players,
    Rules,
    OldChallenge,
    Word(Word),
}

impl A2sExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            phase: Phase::Info,
            queue: [None; 3],
            stage: 0,
            challenge: None,
            challenges: 0,
            same_challenges: 0,
            timeouts: 0,
            has_repeated_plain: false,
            has_sent_old_challenge: false,
            speaks_words: false,
            wants_players: ask.has_players,
            wants_rules: ask.has_rules,
            has_sent_rules: false,
            pending: 0,
            is_renewed: false,
            assembly: Assembly::default(),
            status: None,
            app_id: 0,
            is_old_info: false,
            split_fallback: Layout::Source,
            players: None,
            rules: Vec::new(),
            rules_extra: Vec::new(),
            list_fault: None,
            deviations: Vec::new(),
        }
    }

    /// Sends one or more requests.
    fn send<const N: usize>(&mut self, requests: [Option<Outgoing>; N], out: &mut Vec<u8>) -> Step {
        let mut places = self.queue.iter_mut();
        for request in requests.into_iter().flatten() {
            if let Some(place) = places.next() {
                *place = Some(request);
            }
        }
        for place in places {
            *place = None;
        }
        self.send_next(out)
    }

    fn send_next(&mut self, out: &mut Vec<u8>) -> Step {
        let [next, second, third] = self.queue;
        self.queue = [second, third, None];
        let Some(next) = next else {
            return Step::Wait;
        };
        self.stage = self.stage_of(next);
        match next {
            Outgoing::PlainInfo => Request::Info(None),
            Outgoing::Info => Request::Info(self.challenge),
            Outgoing::Players => Request::Players(self.list_challenge()),
            Outgoing::Rules => Request::Rules(self.list_challenge()),
            Outgoing::OldChallenge => Request::Challenge,
            Outgoing::Word(word) => Request::Word(word),
        }
        .write(out);
        match second {
            Some(_) => Step::SendMore,
            None => Step::Send,
        }
    }

    fn list_challenge(&self) -> Option<Challenge> {
        self.challenge.or(Some(Challenge::REQUEST))
    }

    /// Returns the stage of a request. Each challenge begins a new one.
    fn stage_of(&self, request: Outgoing) -> usize {
        const ROUNDS: usize = MAX_CHALLENGES as usize + 1;
        let round = usize::from(self.challenges);
        match request {
            Outgoing::PlainInfo => 0,
            Outgoing::Info => round,
            Outgoing::Players => ROUNDS + round,
            Outgoing::Rules => 2 * ROUNDS + round,
            Outgoing::OldChallenge => 3 * ROUNDS,
            Outgoing::Word(Word::Details | Word::Info) => 3 * ROUNDS + 1,
            Outgoing::Word(Word::Players) => 3 * ROUNDS + 2,
            Outgoing::Word(_) => 3 * ROUNDS + 3,
        }
    }

    /// Requests the lists that are still missing.
    fn send_lists(&mut self, out: &mut Vec<u8>) -> Step {
        let players = self.wants_players;
        let rules = self.wants_rules;
        let known = self.challenge.is_some();
        if self.speaks_words {
            let players = players.then_some(Outgoing::Word(Word::Players));
            let rules = rules.then_some(Outgoing::Word(Word::Rules));
            return self.send([players, rules], out);
        }
        // Without a challenge, one request for it is enough until it gets lost. A server that
        // replaces its challenges gets one request at a time.
        let is_parallel = if known {
            self.challenges < PARALLEL_CHALLENGES
        } else {
            self.timeouts > 0
        };
        self.has_sent_rules = rules && (is_parallel || !players);
        let needs_old = !known && self.timeouts > 0 && !self.has_sent_old_challenge;
        self.has_sent_old_challenge |= needs_old;
        let requests = [
            players.then_some(Outgoing::Players),
            self.has_sent_rules.then_some(Outgoing::Rules),
            needs_old.then_some(Outgoing::OldChallenge),
        ];
        // The first challenge is enough if none was known.
        self.pending = match self.challenge {
            Some(_) => requests.iter().flatten().count() as u8,
            None => 1,
        };
        self.is_renewed = false;
        self.send(requests, out)
    }

    fn resend(&mut self, out: &mut Vec<u8>) -> Step {
        self.timeouts = self.timeouts.saturating_add(1);
        let is_even = self.timeouts.is_multiple_of(2);
        match self.phase {
            // Servers of 1999 to 2003 do not know the letters, and the oldest only know `info`.
            Phase::Info if self.challenge.is_none() && is_even => {
                let words = [Word::Details, Word::Info];
                self.send(words.map(|word| Some(Outgoing::Word(word))), out)
            }
            Phase::Info if self.challenge.is_none() => self.send([Some(Outgoing::PlainInfo)], out),
            // Some filters drop info requests with a challenge.
            Phase::Info if self.timeouts.is_multiple_of(3) => {
                self.has_repeated_plain = true;
                self.send([Some(Outgoing::PlainInfo)], out)
            }
            Phase::Info => self.send([Some(Outgoing::Info)], out),
            Phase::Lists => {
                let limit = if self.players.is_some() || !self.wants_players {
                    RULES_TIMEOUTS
                } else {
                    LIST_TIMEOUTS
                };
                if self.timeouts >= limit {
                    return self.finish();
                }
                // The reply to a word may have been one to a letter.
                self.speaks_words &= !is_even;
                self.send_lists(out)
            }
        }
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if bytes.len() > message::MAX_DATAGRAM {
            self.keep(&BIG_DATAGRAM);
        }
        if bytes.starts_with(super::SPLIT) {
            return self.receive_part(bytes, out);
        }
        if !bytes.is_empty() && bytes.iter().all(|byte| *byte == 0) {
            self.keep(&ZEROS);
            return self.fault(ZEROS_SENT);
        }
        // Replies of other protocols can arrive on the same socket.
        if !bytes.starts_with(super::SINGLE) {
            return Step::Wait;
        }
        self.receive_message(bytes, true, out)
    }

    fn receive_part(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let joined = match self.assembly.insert(bytes, self.split_fallback, &mut notes) {
            Ok(Assembled::Complete(joined)) => joined,
            Ok(Assembled::Incomplete) => {
                self.timeouts = 0;
                return Step::Progress;
            }
            Ok(Assembled::Duplicate) => return Step::Wait,
            Err(error) => return self.fault(error.into()),
        };
        self.keep_all(&notes);
        let has_header = joined.starts_with(super::SINGLE);
        if !has_header {
            self.keep(&SPLIT_NO_HEADER);
        }
        self.receive_message(&joined, has_header, out)
    }

    fn receive_message(&mut self, bytes: &[u8], has_header: bool, out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let app_id = (self.phase == Phase::Lists).then_some(self.app_id);
        let reply = match parse_reply(bytes, has_header, app_id, &mut notes) {
            Ok(reply) => reply,
            Err(error) => return self.fault(error.into()),
        };
        match reply {
            // A ping reply, or a list before info, proves that the server is there.
            _ if self.depth == Depth::Ping => Step::Done(Box::default()),
            Reply::Challenge(challenge) => {
                let step = self.receive_challenge(challenge, out);
                if step != Step::Wait {
                    self.keep_all(&notes);
                }
                step
            }
            Reply::Info(info) => self.receive_info(&info, &notes, out),
            Reply::OldInfo(info) => self.receive_old_info(&info, &notes, out),
            Reply::Players(players) if self.phase == Phase::Lists && self.wants_players => {
                self.keep_all(&notes);
                self.list_players(&players);
                self.follow_list(out)
            }
            Reply::Rules(rules) if self.phase == Phase::Lists && self.wants_rules => {
                self.keep_all(&notes);
                self.list_rules(&rules);
                self.follow_list(out)
            }
            // Repeated, or a list that was not requested.
            Reply::Players(_) | Reply::Rules(_) | Reply::Ping => Step::Wait,
        }
    }

    /// Handles a reply without use. Once the info is there, the lists are requested again after a
    /// timeout, and their faults are a part of the status.
    fn fault(&mut self, fault: Fault) -> Step {
        if self.phase == Phase::Info {
            return Step::Bad(fault);
        }
        self.list_fault = Some(fault);
        Step::Wait
    }

    fn receive_challenge(&mut self, challenge: Challenge, out: &mut Vec<u8>) -> Step {
        let is_known = self.challenge == Some(challenge);
        if is_known && self.phase == Phase::Info && self.has_repeated_plain {
            // The plain info request was sent again.
            self.has_repeated_plain = false;
            return self.send([Some(Outgoing::Info)], out);
        }
        // Repeated or late, or the server requires the request again.
        if is_known && !self.is_renewed {
            if self.same_challenges == MAX_SAME_CHALLENGES {
                return Step::Wait;
            }
            self.same_challenges += 1;
            if self.phase == Phase::Info {
                return self.send([Some(Outgoing::Info)], out);
            }
            self.is_renewed = true;
        }
        if !is_known {
            if self.challenges == MAX_CHALLENGES {
                return self.fault(CHALLENGE_LOOP);
            }
            self.challenges += 1;
            let replaces = self.challenge.replace(challenge).is_some();
            self.timeouts = 0;
            if self.phase == Phase::Info {
                return self.send([Some(Outgoing::Info)], out);
            }
            if replaces {
                self.keep(&CHALLENGE_EACH);
            } else if self.has_sent_old_challenge {
                self.keep(&OLD_CHALLENGE);
            }
            self.speaks_words = false;
            self.is_renewed = true;
        }
        // A server that replaces its challenge with each request replaces this one too, in its
        // reply to the other request.
        self.pending = self.pending.saturating_sub(1);
        if self.pending > 0 {
            return Step::Wait;
        }
        self.send_lists(out)
    }

    fn receive_info(&mut self, info: &Info<'_>, notes: &Notes, out: &mut Vec<u8>) -> Step {
        let is_first = self.phase == Phase::Info;
        if !is_first && !self.is_old_info {
            return Step::Wait;
        }
        if !is_first {
            self.keep(&BOTH_INFO);
        }
        self.keep_all(notes);
        self.is_old_info = false;
        self.app_id = info.full_app_id();
        self.status = Some(describe(info));
        self.follow_info(is_first, info.protocol, out)
    }

    fn receive_old_info(&mut self, info: &OldInfo<'_>, notes: &Notes, out: &mut Vec<u8>) -> Step {
        if self.phase != Phase::Info {
            if !self.is_old_info {
                self.keep(&BOTH_INFO);
            }
            return Step::Wait;
        }
        self.keep_all(notes);
        self.is_old_info = true;
        let has_sent_word = self.challenge.is_none() && self.timeouts > 1;
        if has_sent_word {
            self.keep(&OLD_WORDS);
            self.speaks_words = true;
        }
        self.status = Some(describe_old(info));
        self.follow_info(true, info.protocol, out)
    }

    fn follow_info(&mut self, is_first: bool, protocol: u8, out: &mut Vec<u8>) -> Step {
        if self.is_old_info || GOLD_SOURCE.contains(&protocol) {
            self.split_fallback = Layout::GoldSource;
        }
        let wants_lists = self.wants_players || self.wants_rules;
        if self.depth == Depth::Basic || !wants_lists {
            return self.finish_with(&[]);
        }
        if !is_first {
            return Step::Progress;
        }
        self.phase = Phase::Lists;
        self.list_fault = None;
        self.timeouts = 0;
        self.challenges = 0;
        self.same_challenges = 0;
        self.send_lists(out)
    }

    /// Continues after a list.
    fn follow_list(&mut self, out: &mut Vec<u8>) -> Step {
        if self.challenge.is_none() && !self.speaks_words {
            self.keep(&NO_CHALLENGE);
        }
        self.timeouts = 0;
        if !self.wants_players && !self.wants_rules {
            return self.finish();
        }
        self.pending = self.pending.saturating_sub(1);
        let has_new_challenge = self.is_renewed && self.pending == 0;
        let needs_rules = self.wants_rules && !self.has_sent_rules;
        if (has_new_challenge || needs_rules) && !self.speaks_words {
            return self.send_lists(out);
        }
        Step::Progress
    }

    fn list_players(&mut self, players: &Players<'_>) {
        self.wants_players = false;
        if let [only] = players.list.as_slice()
            && only.name == PSEUDO_PLAYER
            && self.app_id == COUNTER_STRIKE
        {
            self.keep(&PLAYERS_HIDDEN);
            return;
        }
        if players.list.is_empty() && players.count == u8::MAX {
            return;
        }
        // Checking the encoding of all names together is faster than of each.
        let names: Vec<&[u8]> = players.list.iter().map(|player| player.name).collect();
        let names = names.concat();
        let names = core::str::from_utf8(&names).unwrap_or_default();
        let mut name_end = 0;
        let mut ship = players.ship.iter();
        let mut list = Vec::with_capacity(players.list.len());
        for player in &players.list {
            let name_start = name_end;
            name_end += player.name.len();
            let extra = match ship.next() {
                Some((deaths, money)) => alloc::vec![
                    Extra::new("deaths", i64::from(*deaths)),
                    Extra::new("money", i64::from(*money)),
                ],
                None => Vec::new(),
            };
            list.push(Player {
                name: match names.get(name_start..name_end) {
                    Some(name) => Text::unformatted(name),
                    None => text(player.name),
                },
                score: Some(player.score.into()),
                time_s: Some(player.time_s).filter(|time| time.is_finite()),
                uuid: None,
                team: None,
                latency_ms: None,
                extra,
            });
        }
        self.players = Some(list);
    }

    /// Binary rules that do not parse stay plain rules.
    fn list_rules(&mut self, rules: &Rules<'_>) {
        let chunks = binary::join(&rules.list);
        let chunks = chunks.filter(|(_, joined)| {
            let binary = BinaryRules::parse(joined, self.app_id);
            binary.is_ok_and(|binary| {
                binary.describe(&mut self.rules_extra);
                true
            })
        });
        if chunks.is_some() {
            self.keep(&BINARY_RULES);
        }
        let is_chunk = |name: &[u8]| {
            chunks
                .as_ref()
                .is_some_and(|(total, _)| binary::is_chunk(name, *total))
        };
        let plain = || rules.list.iter().filter(|(name, _)| !is_chunk(name));
        joined::describe(plain().copied(), &mut self.rules_extra);
        let rule = |(name, value): &(&[u8], &[u8])| Rule {
            key: string(name),
            value: string(value),
        };
        self.rules = plain().map(rule).collect();
        self.wants_rules = false;
    }

    /// Keeps the start of a list of which a part is missing. A list that ends early is no deviation
    /// then.
    fn list_starts(&mut self) {
        for start in self.assembly.starts() {
            let has_header = start.starts_with(super::SINGLE);
            let mut notes = Notes::discarding();
            match parse_reply(&start, has_header, Some(self.app_id), &mut notes) {
                Ok(Reply::Players(players)) if self.wants_players => self.list_players(&players),
                Ok(Reply::Rules(rules)) if self.wants_rules => self.list_rules(&rules),
                _ => {}
            }
        }
    }

    /// Ends with the replies received. The extra `unanswered` names the missing lists.
    fn finish(&mut self) -> Step {
        let mut unanswered = [""; 2];
        let missing = [(self.wants_players, "players"), (self.wants_rules, "rules")];
        let names = missing.into_iter().filter(|(wanted, _)| *wanted);
        let count = names
            .zip(&mut unanswered)
            .map(|((_, name), place)| *place = name)
            .count();
        self.list_starts();
        self.finish_with(unanswered.get(..count).unwrap_or_default())
    }

    fn finish_with(&mut self, unanswered: &[&str]) -> Step {
        let mut status = self.status.take().unwrap_or_default();
        if let Some(list) = self.players.take() {
            status.players.set_list(list);
        }
        status.rules = core::mem::take(&mut self.rules);
        status.extra.append(&mut self.rules_extra);
        if !unanswered.is_empty() {
            let names = Value::from(unanswered.join(", "));
            status.extra.push(Extra::new("unanswered", names));
        }
        status.deviations = core::mem::take(&mut self.deviations);
        if !unanswered.is_empty()
            && let Some(fault) = self.list_fault
        {
            status
                .extra
                .push(Extra::new("list-error", fault.to_string()));
            if fault != CHALLENGE_LOOP {
                status.mark_unreadable();
            }
        }
        Step::Done(status)
    }

    fn keep(&mut self, deviation: &'static Deviation) {
        if !self.deviations.contains(&deviation) {
            self.deviations.push(deviation);
        }
    }

    fn keep_all(&mut self, notes: &Notes) {
        for deviation in notes.met() {
            self.keep(deviation);
        }
    }
}

impl Exchange for A2sExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send([Some(Outgoing::PlainInfo)], out),
            Input::Continue => self.send_next(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::Timeout => self.resend(out),
            Input::GiveUp if self.phase == Phase::Lists => self.finish(),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        self.stage
    }
}

fn string(bytes: &[u8]) -> CompactString {
    decode(bytes).0.into()
}

fn text(bytes: &[u8]) -> Text {
    let (text, deviation) = decode(bytes);
    Text::unformatted(text).from_single_byte(deviation == Some(&NOT_UTF8))
}

fn filled_text(bytes: &[u8]) -> Option<Text> {
    (!bytes.is_empty()).then(|| text(bytes))
}

fn filled(bytes: &[u8]) -> Option<CompactString> {
    (!bytes.is_empty()).then(|| string(bytes))
}

/// Returns the status of an info reply (spec/a2s.md#9).
fn describe(info: &Info<'_>) -> Box<Status> {
    let is_known = !info.is_cut;
    let mut status = Box::new(Status {
        name: filled_text(info.name),
        map: filled(info.map),
        game: filled(info.game),
        version: filled(info.version),
        has_password: is_known.then_some(info.password != 0),
        has_anti_cheat: is_known.then_some(info.anti_cheat != 0),
        extra: Vec::with_capacity(EXTRAS),
        ..Status::default()
    });
    status.players.online = Some(info.players.into());
    status.players.max = Some(info.max.into());
    status.players.bots = is_known.then(|| info.bots.into());
    let app_id = info.full_app_id();
    let mut extra = |key, value: Value| status.extra.push(Extra::new(key, value));
    extra("protocol", i64::from(info.protocol).into());
    if !info.folder.is_empty() {
        extra("folder", string(info.folder).into());
    }
    if app_id != 0 {
        extra("app-id", i64::from(app_id).into());
    }
    if is_known {
        extra("server-type", server_type(info.server_type));
        extra("system", system(info.system));
    }
    if let Some(ship) = info.ship {
        status.mode = SHIP_MODES
            .get(usize::from(ship.mode))
            .map(|mode| (*mode).into());
        extra("mode-number", i64::from(ship.mode).into());
        extra("witnesses", i64::from(ship.witnesses).into());
        extra("duration", i64::from(ship.duration).into());
    }
    let Some(data) = &info.extra else {
        return status;
    };
    if let Some(id) = data.steam_id {
        extra("steam-id", decimal(id).into());
    }
    if let Some((port, name)) = data.tv {
        extra("tv-port", i64::from(port).into());
        extra("tv-name", string(name).into());
    }
    if let Some(keywords) = data.keywords.filter(|keywords| !keywords.is_empty()) {
        extra("keywords", string(keywords).into());
    }
    let own_ids = [0, u64::from(app_id)];
    if let Some(id) = data.game_id.filter(|id| !own_ids.contains(id)) {
        extra("game-id", decimal(id).into());
    }
    match (app_id, data.keywords) {
        (RUST, Some(keywords)) => count_by_tags(keywords, &mut status),
        (binary::DAYZ, Some(keywords)) => {
            let queue = tag(keywords, "lqs").map(|queue| Extra::new("queue", queue));
            status.extra.extend(queue);
        }
        _ => {}
    }
    status.address = data.port.map(|port| Address {
        host: None,
        port: Some(port),
    });
    status
}

/// Returns the number after a key in the tags.
fn tag(keywords: &[u8], key: &str) -> Option<i64> {
    let tags = keywords.split(|byte| *byte == b',');
    let mut values = tags.filter_map(|tag| core::str::from_utf8(tag).ok()?.strip_prefix(key));
    values.find_map(|value| value.parse::<u16>().ok().map(i64::from))
}

/// Rust servers have more players than the counts can express, and tags with the whole numbers
/// (spec/a2s.md#9.1).
fn count_by_tags(keywords: &[u8], status: &mut Status) {
    let [max, online, queue] = ["mp", "cp", "qp"].map(|key| tag(keywords, key));
    if max.max(online).is_some_and(|count| count > MAX_COUNT) {
        status.players.online = online.or(status.players.online);
        status.players.max = max.or(status.players.max);
    }
    if let Some(queue) = queue {
        status.extra.push(Extra::new("queue", queue));
    }
}

/// Returns the status of a GoldSource info reply.
fn describe_old(info: &OldInfo<'_>) -> Box<Status> {
    let details = info.details.as_ref();
    let mut status = Box::new(Status {
        name: filled_text(info.name),
        map: filled(info.map),
        game: filled(info.game),
        has_password: details.map(|details| details.password != 0),
        has_anti_cheat: details.and_then(|details| Some(details.anti_cheat? != 0)),
        address: own_address(info.address),
        ..Status::default()
    });
    status.players.online = Some(info.players.into());
    status.players.max = Some(info.max.into());
    status.players.bots = details.and_then(|details| details.bots.map(i64::from));
    let mut extra = |key, value: Value| status.extra.push(Extra::new(key, value));
    extra("protocol", i64::from(info.protocol).into());
    if !info.folder.is_empty() {
        extra("folder", string(info.folder).into());
    }
    let Some(details) = details else {
        return status;
    };
    extra("server-type", server_type(details.server_type));
    extra("system", system(details.system));
    if let Some(game_mod) = &details.game_mod {
        let entries = [
            ("url", Value::from(string(game_mod.url))),
            ("download", string(game_mod.download).into()),
            ("version", i64::from(game_mod.version).into()),
            ("size", i64::from(game_mod.size).into()),
            (
                "multiplayer-only",
                (game_mod.is_multiplayer_only != 0).into(),
            ),
            ("own-library", (game_mod.has_own_library != 0).into()),
        ];
        let entries = entries.map(|(key, value)| (key.into(), value));
        extra("mod", Value::Table(entries.into()));
    }
    status
}

/// Parses an address with a port, such as `192.0.2.1:27015`.
fn own_address(bytes: &[u8]) -> Option<Address> {
    let (host, port) = match string(bytes).rsplit_once(':') {
        Some((host, port)) => (CompactString::from(host), port.parse().ok()),
        None => (string(bytes), None),
    };
    let host = (!host.is_empty()).then_some(host);
    (host.is_some() || port.is_some()).then_some(Address { host, port })
}

/// Letters and names of server types.
pub(super) const SERVER_TYPES: [(u8, &str); 3] =
    [(b'd', "dedicated"), (b'l', "listen"), (b'p', "relay")];
/// Letters and names of operating systems. A later letter has the name of an earlier one.
pub(super) const SYSTEMS: [(u8, &str); 4] = [
    (b'l', "linux"),
    (b'w', "windows"),
    (b'm', "macos"),
    (b'o', "macos"),
];

fn server_type(letter: u8) -> Value {
    letter_name(&SERVER_TYPES, letter)
}

fn system(letter: u8) -> Value {
    letter_name(&SYSTEMS, letter)
}

/// Returns the name of a letter in either case, or else the byte in hexadecimal.
fn letter_name(names: &[(u8, &str)], letter: u8) -> Value {
    let lower = letter.to_ascii_lowercase();
    let known = names.iter().find(|(known, _)| *known == lower);
    known.map_or_else(
        || alloc::format!("{letter:#04x}").into(),
        |(_, name)| (*name).into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Roster;
    use crate::protocol::{Responder, Verdict};
    use crate::protocols::a2s::server::{A2sConfig, A2sResponder};
    use crate::sample::Random;
    use crate::token::{Epoch, Keys};
    use alloc::collections::VecDeque;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    fn responder(status: &Status) -> A2sResponder {
        A2sResponder::new(status, &Keys::new([7; 16]), &A2sConfig::default())
    }

    #[test]
    fn names_decode_as_they_do_alone() {
        for names in [
            [&b"Al"[..], b"", b"caf\xC3\xA9"],
            [b"Al", b"caf\xE9", b"Bo"],
            // Together, the first two are a character in UTF-8.
            [b"\xC3", b"\xA9", b"Bo"],
        ] {
            let player = |name| message::Player {
                index: 0,
                name,
                score: 1,
                time_s: 2.0,
            };
            let mut exchange = A2sExchange::new(&Ask::default());
            exchange.list_players(&Players {
                list: names.map(player).into(),
                ..Players::default()
            });
            let listed = exchange.players.unwrap();
            assert!(
                listed
                    .iter()
                    .map(|player| &player.name)
                    .eq(&names.map(text)),
                "{names:?}"
            );
        }
    }

    /// Runs an exchange. `is_lost` gets the number of each datagram of the server. When nothing is
    /// left to receive, a timeout follows. Returns the last step, the requests with their stages,
    /// and the number of timeouts.
    fn talk(
        responder: &A2sResponder,
        ask: &Ask,
        is_lost: impl Fn(usize) -> bool,
    ) -> (Step, Vec<(usize, Vec<u8>)>, usize) {
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut exchange = A2sExchange::new(ask);
        let mut out = Vec::new();
        let mut sent = Vec::new();
        let mut replies = VecDeque::new();
        let mut count = 0;
        let mut timeouts = 0;
        let mut step = exchange.handle(Input::Start, &mut out);
        loop {
            let has_more = step == Step::SendMore;
            if has_more || step == Step::Send {
                let mut reply = Vec::new();
                let verdict = responder.answer(from, Epoch(9), &out, &mut reply);
                assert!(matches!(verdict, Verdict::Reply { .. }));
                for index in 1.. {
                    if !is_lost(count) {
                        replies.push_back(core::mem::take(&mut reply));
                    }
                    count += 1;
                    reply.clear();
                    let is_data = verdict == Verdict::Reply { is_verified: true };
                    if !is_data || !responder.continuation(&out, true, index, &mut reply) {
                        break;
                    }
                }
                sent.push((exchange.stage(), core::mem::take(&mut out)));
            } else if matches!(step, Step::Done(_) | Step::Fail(_)) {
                return (step, sent, timeouts);
            }
            assert!(out.is_empty());
            step = if has_more {
                exchange.handle(Input::Continue, &mut out)
            } else if let Some(reply) = replies.pop_front() {
                exchange.handle(Input::Datagram(&reply), &mut out)
            } else {
                timeouts += 1;
                exchange.handle(Input::Timeout, &mut out)
            };
        }
    }

    fn done(step: Step) -> Status {
        match step {
            Step::Done(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// A status with every field that this protocol carries.
    fn every_field() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Both roles \u{2603}")),
            map: Some("map".into()),
            game: Some("game".into()),
            mode: Some("Deathmatch".into()),
            version: Some("1.2".into()),
            has_password: Some(true),
            has_anti_cheat: Some(true),
            address: Some(Address {
                host: None,
                port: Some(27_016),
            }),
            ..Status::default()
        };
        let players = &mut status.players;
        players.online = Some(2);
        players.max = Some(8);
        players.bots = Some(1);
        let player = |name: &str, time_s, deaths: i64| Player {
            score: Some(-deaths),
            time_s: Some(time_s),
            extra: vec![Extra::new("deaths", deaths), Extra::new("money", 9)],
            ..Player::named(Text::unformatted(name))
        };
        players.set_list(vec![player("Ann", 1.5, 1), player("", -1.0, 2)]);
        let rule = |key: &str, value: &str| Rule {
            key: key.into(),
            value: value.into(),
        };
        status.rules = vec![rule("a", ""), rule("a", "b c"), rule("d", "\\n")];
        for (key, value) in [
            ("protocol", Value::from(17)),
            ("folder", "folder".into()),
            ("app-id", 2_400.into()),
            ("server-type", "relay".into()),
            ("system", "macos".into()),
            ("mode-number", 3.into()),
            ("witnesses", 4.into()),
            ("duration", 5.into()),
            ("steam-id", "18446744073709551615".into()),
            ("tv-port", 27_020.into()),
            ("tv-name", "tv".into()),
            ("keywords", "a,b".into()),
            ("game-id", "18374686479671626080".into()),
        ] {
            status.extra.push(Extra::new(key, value));
        }
        status
    }

    #[test]
    fn a_status_survives_the_wire() {
        let status = every_field();
        let (step, sent, timeouts) = talk(&responder(&status), &Ask::default(), |_| false);
        assert_eq!(done(step), status);
        assert_eq!(timeouts, 0);
        // Three round trips: the last two requests are sent together.
        let lengths: Vec<usize> = sent.iter().map(|(_, request)| request.len()).collect();
        assert_eq!(lengths, [25, 29, 9, 9]);
        let stages: Vec<usize> = sent.iter().map(|(stage, _)| *stage).collect();
        assert_eq!(stages, [0, 1, 6, 12]);
    }

    fn crowd() -> Status {
        let mut status = Status::default();
        let name = |i| Text::unformatted(format!("{i}{}", "x".repeat(80)));
        let player = |i| Player {
            score: Some(i),
            time_s: Some(0.0),
            ..Player::named(name(i))
        };
        status.players.online = Some(255);
        status.players.set_list((0..255).map(player).collect());
        status
    }

    #[test]
    fn parts_of_repeated_replies_complete_each_other() {
        let status = crowd();
        let responder = responder(&status);
        for period in [3, 5, 7, 11] {
            let ask = Ask::default();
            let lose = |number: usize| number > 2 && Random(number as u64).below(period) == 0;
            let (step, _, timeouts) = talk(&responder, &ask, lose);
            let read = done(step);
            assert!(read.players.list == status.players.list, "{period}");
            assert_eq!(read.players.roster, Roster::Whole);
            assert!((1..=8).contains(&timeouts), "{timeouts}");
        }
    }

    #[test]
    fn lost_datagrams_are_requested_again() {
        let status = every_field();
        for lost in 0..4 {
            let (step, sent, timeouts) = talk(&responder(&status), &Ask::default(), |i| i == lost);
            assert_eq!(done(step), status, "{lost}");
            assert_eq!(timeouts, 1);
            assert_eq!(sent.len(), 5, "one request is repeated");
        }
    }

    #[test]
    fn depths_and_lists() {
        let responder = responder(&every_field());
        let sent = |depth, players| {
            let ask = Ask {
                depth,
                has_players: players,
                ..Ask::default()
            };
            let (step, sent, _) = talk(&responder, &ask, |_| false);
            (done(step), sent.len())
        };
        assert_eq!(sent(Depth::Ping, true), (Status::default(), 1));
        let (status, datagrams) = sent(Depth::Basic, true);
        assert_eq!((status.players.roster, datagrams), (Roster::Absent, 2));
        assert!(status.rules.is_empty() && status.name.is_some());
        let (status, datagrams) = sent(Depth::Full, false);
        assert_eq!((status.players.roster, datagrams), (Roster::Absent, 3));
        assert_eq!(status.rules.len(), 3);
        assert_eq!(status.extra("unanswered"), None);
        for (players, datagrams) in [(true, 3), (false, 2)] {
            let ask = Ask {
                has_players: players,
                has_rules: false,
                ..Ask::default()
            };
            let (step, sent, _) = talk(&responder, &ask, |_| false);
            let status = done(step);
            assert_eq!(sent.len(), datagrams);
            assert_eq!(status.players.roster == Roster::Whole, players);
            assert!(status.rules.is_empty() && status.extra("unanswered").is_none());
        }
    }

    /// Returns an exchange that has requested both lists, from a server with this app id.
    fn at_lists(app_id: u16, online: u8) -> A2sExchange {
        let mut exchange = A2sExchange::new(&Ask::default());
        let mut info = Vec::new();
        message::write_info(
            &Info {
                app_id,
                players: online,
                ship: (u32::from(app_id) == message::THE_SHIP).then_some(message::Ship {
                    mode: 9,
                    witnesses: 0,
                    duration: 0,
                }),
                ..Info::default()
            },
            &mut info,
        );
        exchange.handle(Input::Start, &mut Vec::new());
        assert_eq!(receive(&mut exchange, &challenge(1)), Step::Send);
        assert_eq!(receive(&mut exchange, &info), Step::SendMore);
        let step = exchange.handle(Input::Continue, &mut Vec::new());
        assert_eq!(step, Step::Send);
        exchange
    }

    /// Reads both lists.
    fn lists(app_id: u16, online: u8, players: &[u8], rules: &[u8]) -> Status {
        let mut exchange = at_lists(app_id, online);
        let players = [b"\xFF\xFF\xFF\xFFD", players].concat();
        let rules = [b"\xFF\xFF\xFF\xFFE", rules].concat();
        assert_eq!(receive(&mut exchange, &players), Step::Progress);
        done(receive(&mut exchange, &rules))
    }

    fn met(status: &Status) -> Vec<&'static str> {
        let known = ["no-edf", "odd-type"];
        let names = status.deviations.iter().map(|deviation| deviation.name);
        names.filter(|name| !known.contains(name)).collect()
    }

    /// spec/a2s.md#10.1
    #[test]
    fn cut_lists_keep_their_whole_entries() {
        const ANN: &[u8] = b"\0Ann\0\x01\0\0\0\0\0\0\0";
        let three = [&[3], ANN, ANN, ANN].concat();
        for length in 1..three.len() {
            let status = lists(440, 3, &three[..length], b"\x02\0a\x001\0b\x002\0");
            assert_eq!(met(&status), ["players-truncated"], "{length}");
            assert_eq!(status.players.list.len(), (length - 1) / ANN.len());
            assert_eq!(status.players.roster, Roster::Partial);
            assert_eq!(status.rules.len(), 2);
        }
        let status = lists(440, 3, &three, b"\x02\0a\x001\0b");
        assert_eq!(met(&status), ["rules-truncated"]);
        assert_eq!(status.rules.len(), 1);
        let status = lists(440, 3, &three, b"\x02\0a\x001\0b\x002");
        assert_eq!(met(&status), ["rules-no-nul"]);
        assert_eq!(status.rules[1].value, "2");
        let status = lists(
            440,
            2,
            &[&[0], ANN, ANN].concat(),
            b"\x01\0a\x001\0b\x002\0",
        );
        assert_eq!(met(&status), ["players-count-low", "rules-count-low"]);
        assert_eq!((status.players.list.len(), status.rules.len()), (2, 2));
        // The second player of The Ship lacks half of the extra fields.
        let ship = [&[2], ANN, ANN, &[7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0]].concat();
        let status = lists(2_400, 2, &ship, b"\0\0");
        assert_eq!(met(&status), ["players-truncated"]);
        let money = |i: usize| {
            status.players.list[i]
                .extra
                .get(1)
                .map(|extra| &extra.value)
        };
        assert_eq!((money(0), money(1)), (Some(&Value::from(8)), None));
        assert_eq!(status.mode, None, "mode 9 has no name");
    }

    #[test]
    fn hidden_players() {
        let pseudo = b"\x01\0Max Players\0\0\0\0\0\0\0\0\0";
        let hidden = lists(730, 9, pseudo, b"\0\0");
        assert_eq!(met(&hidden), ["players-hidden"]);
        assert_eq!(
            (hidden.players.roster, hidden.players.online),
            (Roster::Absent, Some(9))
        );
        let player = lists(440, 1, pseudo, b"\0\0");
        assert_eq!((met(&player).len(), player.players.list.len()), (0, 1));
        let empty = lists(440, 0, b"\0", b"\0\0");
        assert_eq!(
            (met(&empty).len(), empty.players.roster),
            (0, Roster::Whole)
        );
        let counted = lists(440, 4, b"\0", b"\0\0");
        assert_eq!(
            (met(&counted).len(), counted.players.roster),
            (0, Roster::Partial)
        );
    }

    fn receive(exchange: &mut A2sExchange, datagram: &[u8]) -> Step {
        exchange.handle(Input::Datagram(datagram), &mut Vec::new())
    }

    fn challenge(number: u32) -> Vec<u8> {
        [b"\xFF\xFF\xFF\xFFA".as_slice(), &number.to_le_bytes()].concat()
    }

    #[test]
    fn only_the_first_reply_in_the_source_form_replaces_the_old_form() {
        let mut exchange = A2sExchange::new(&Ask::default());
        exchange.handle(Input::Start, &mut Vec::new());
        let old = b"\xFF\xFF\xFF\xFFm1\0Old\0m\0f\0g\0\x01\x08\x2Fdl\0\0\0\0";
        assert_eq!(receive(&mut exchange, old), Step::Send);
        for (name, step) in [(&b"First"[..], Step::Progress), (b"Second", Step::Wait)] {
            let mut info = Vec::new();
            let name = Info {
                name,
                ..Info::default()
            };
            message::write_info(&name, &mut info);
            assert_eq!(receive(&mut exchange, &info), step);
        }
        assert_eq!(receive(&mut exchange, old), Step::Wait);
        let status = done(exchange.handle(Input::GiveUp, &mut Vec::new()));
        assert_eq!(status.name, Some(Text::unformatted("First")));
        assert_eq!(met(&status), ["both-info"]);
    }

    #[test]
    fn the_long_info_request_is_repeated_twice_before_the_short_one() {
        let mut exchange = A2sExchange::new(&Ask::default());
        exchange.handle(Input::Start, &mut Vec::new());
        let repeat = |exchange: &mut A2sExchange| {
            let mut out = Vec::new();
            assert_eq!(exchange.handle(Input::Timeout, &mut out), Step::Send);
            out.len()
        };
        // A timeout before the challenge does not count.
        assert_eq!(repeat(&mut exchange), 25);
        assert_eq!(receive(&mut exchange, &challenge(1)), Step::Send);
        let lengths = [(); 3].map(|()| repeat(&mut exchange));
        assert_eq!(lengths, [29, 29, 25]);
    }

    #[test]
    fn a_challenge_ends_the_use_of_words() {
        let mut exchange = A2sExchange::new(&Ask::default());
        let mut out = Vec::new();
        exchange.handle(Input::Start, &mut out);
        exchange.handle(Input::Timeout, &mut out);
        out.clear();
        assert_eq!(exchange.handle(Input::Timeout, &mut out), Step::SendMore);
        assert_eq!(out, b"\xFF\xFF\xFF\xFFdetails\0");
        out.clear();
        assert_eq!(exchange.handle(Input::Continue, &mut out), Step::Send);
        assert_eq!(out, b"\xFF\xFF\xFF\xFFinfo\0");
        let old = b"\xFF\xFF\xFF\xFFm1\0Old\0m\0f\0g\0\x01\x08\x2Fdl\0\0\0\0";
        out.clear();
        let step = exchange.handle(Input::Datagram(old), &mut out);
        assert_eq!((step, &out[4..]), (Step::SendMore, &b"players\0"[..]));
        exchange.handle(Input::Continue, &mut out);
        out.clear();
        let step = exchange.handle(Input::Datagram(&challenge(7)), &mut out);
        assert_eq!((step, &out[4..]), (Step::SendMore, &b"U\x07\0\0\0"[..]));
        out.clear();
        assert_eq!(exchange.handle(Input::Continue, &mut out), Step::Send);
        assert_eq!(out[4..], *b"V\x07\0\0\0");
        let status = done(exchange.handle(Input::GiveUp, &mut out));
        assert_eq!(met(&status), ["old-words"]);
    }

    /// The first timeout repeats the letter, the second one sends a word.
    #[test]
    fn an_old_reply_to_a_letter_is_none_to_a_word() {
        let mut exchange = A2sExchange::new(&Ask::default());
        let mut out = Vec::new();
        exchange.handle(Input::Start, &mut out);
        exchange.handle(Input::Timeout, &mut out);
        let old = b"\xFF\xFF\xFF\xFFm1\0Old\0m\0f\0g\0\x01\x08\x2Fdl\0\0\0\0";
        out.clear();
        let step = exchange.handle(Input::Datagram(old), &mut out);
        assert_eq!((step, &out[4..]), (Step::Send, &b"U\xFF\xFF\xFF\xFF"[..]));
        let status = done(exchange.handle(Input::GiveUp, &mut out));
        assert_eq!(met(&status), [""; 0]);
    }

    #[test]
    fn rules_follow_players_without_a_challenge() {
        let mut exchange = A2sExchange::new(&Ask::default());
        let mut info = Vec::new();
        message::write_info(&Info::default(), &mut info);
        exchange.handle(Input::Start, &mut Vec::new());
        assert_eq!(receive(&mut exchange, &info), Step::Send);
        let mut out = Vec::new();
        let players = b"\xFF\xFF\xFF\xFFD\0";
        let step = exchange.handle(Input::Datagram(players), &mut out);
        assert_eq!((step, &out[4..]), (Step::Send, &b"V\xFF\xFF\xFF\xFF"[..]));
        assert_eq!(receive(&mut exchange, players), Step::Wait);
        let status = done(receive(&mut exchange, b"\xFF\xFF\xFF\xFFE\0\0"));
        assert_eq!(met(&status), ["no-challenge"]);
    }

    #[test]
    fn an_unreadable_list_is_explained() {
        let mut exchange = at_lists(440, 1);
        let cut = b"\xFF\xFF\xFF\xFFE\x01";
        assert_eq!(receive(&mut exchange, cut), Step::Wait);
        let status = done(exchange.handle(Input::GiveUp, &mut Vec::new()));
        assert_eq!(
            (status.extra("unanswered"), status.extra("list-error")),
            (
                Some(&Value::from("players, rules")),
                Some(&Value::from("count at offset 5: ends 1 byte too early"))
            )
        );
        let status = lists(440, 0, b"\0", b"\0\0");
        assert_eq!(status.extra("list-error"), None);
    }

    /// spec/a2s.md#8
    #[test]
    fn the_start_of_a_list_is_kept_if_a_part_is_missing() {
        let mut exchange = at_lists(440, 3);
        let part = |id: u8, number: u8, payload: &[u8]| {
            [
                &[0xFE, 0xFF, 0xFF, 0xFF, id, 0, 0, 0, 3, number, 0, 4],
                payload,
            ]
            .concat()
        };
        let players = b"\xFF\xFF\xFF\xFFD\x03\0Ann\0\x01\0\0\0\0\0\0\0\0Be";
        let rules = b"\xFF\xFF\xFF\xFFE\x03\0a\x001\0b\x00";
        for part in [
            part(1, 0, players),
            part(1, 2, b"\0Cem\0\x01\0\0\0\0\0\0\0"),
            part(2, 1, b"2\0c"),
            part(2, 0, rules),
        ] {
            assert_eq!(receive(&mut exchange, &part), Step::Progress);
        }
        let status = done(exchange.handle(Input::GiveUp, &mut Vec::new()));
        let names = status.players.list.iter().map(|player| player.name.plain());
        assert_eq!(names.collect::<Vec<_>>(), ["Ann"]);
        assert_eq!(status.players.roster, Roster::Partial);
        assert_eq!(status.rules.len(), 2);
        assert!(met(&status).is_empty());
        let missing = Value::from("players, rules");
        assert_eq!(status.extra("unanswered"), Some(&missing));
    }

    #[test]
    fn endless_challenges_are_not_followed() {
        let mut exchange = A2sExchange::new(&Ask::default());
        exchange.handle(Input::Start, &mut Vec::new());
        let steps: Vec<Step> = (0..1_000)
            .map(|i| receive(&mut exchange, &challenge(i)))
            .collect();
        let sends = steps.iter().filter(|step| **step == Step::Send).count();
        assert_eq!(sends, usize::from(MAX_CHALLENGES));
        assert_eq!(steps.last(), Some(&Step::Bad(CHALLENGE_LOOP)));
        // The last challenge that was followed is still in use.
        let mut out = Vec::new();
        assert_eq!(exchange.handle(Input::Timeout, &mut out), Step::Send);
        assert_eq!(out[25..], 4u32.to_le_bytes());
        for _ in 0..MAX_SAME_CHALLENGES {
            assert_eq!(receive(&mut exchange, &challenge(4)), Step::Send);
        }
        assert_eq!(receive(&mut exchange, &challenge(4)), Step::Wait);
    }

    #[test]
    fn requests_have_different_stages() {
        let mut exchange = A2sExchange::new(&Ask::default());
        let words = [Word::Details, Word::Players, Word::Rules].map(Outgoing::Word);
        let mut stages = vec![exchange.stage_of(Outgoing::PlainInfo)];
        stages.extend(words.map(|word| exchange.stage_of(word)));
        stages.push(exchange.stage_of(Outgoing::OldChallenge));
        for round in 0..=MAX_CHALLENGES {
            exchange.challenges = round;
            if round > 0 {
                stages.push(exchange.stage_of(Outgoing::Info));
            }
            stages.push(exchange.stage_of(Outgoing::Players));
            stages.push(exchange.stage_of(Outgoing::Rules));
        }
        stages.sort_unstable();
        assert!(stages.into_iter().eq(0..22));
    }

    /// spec/a2s.md#9.1
    #[test]
    fn tags_of_rust() {
        let counts = |keywords: &str| {
            let mut status = Status::default();
            status.players.online = Some(44);
            status.players.max = Some(50);
            count_by_tags(keywords.as_bytes(), &mut status);
            let queue = status.extra("queue").cloned();
            (status.players.online, status.players.max, queue)
        };
        let unchanged = (Some(44), Some(50), None);
        assert_eq!(counts(""), unchanged);
        assert_eq!(counts("mp50,cp43,v2"), unchanged);
        assert_eq!(counts("mpx,cp,cp-300"), unchanged);
        assert_eq!(counts("xmp300"), unchanged);
        assert_eq!(counts("mp255,cp255"), unchanged);
        assert_eq!(counts("mp300,cp250"), (Some(250), Some(300), None));
        assert_eq!(counts("cp256"), (Some(256), Some(50), None));
        assert_eq!(counts("mp256"), (Some(44), Some(256), None));
        assert_eq!(counts("qp0").2, Some(Value::from(0)));
    }

    /// spec/a2s.md#9.1
    #[test]
    fn only_rust_and_dayz_have_a_queue_in_their_tags() {
        let queue = |app_id: u32, keywords: &str| {
            let extra = message::ExtraData {
                keywords: Some(keywords.as_bytes()),
                game_id: Some(app_id.into()),
                ..message::ExtraData::default()
            };
            let info = Info {
                extra: Some(extra),
                ..Info::default()
            };
            describe(&info).extra("queue").cloned()
        };
        assert_eq!(queue(binary::DAYZ, "battleye,lqs5,etm4.0"), Some(5.into()));
        assert_eq!(queue(binary::DAYZ, "qp5"), None);
        assert_eq!(queue(RUST, "lqs5,qp6"), Some(6.into()));
        assert_eq!(queue(440, "lqs5,qp6"), None);
    }

    #[test]
    fn addresses_of_gold_source() {
        let parts = |text: &str| {
            let address = own_address(text.as_bytes())?;
            Some((address.host.map(String::from), address.port))
        };
        let host = |text: &str| Some(String::from(text));
        assert_eq!(
            parts("192.0.2.1:27015"),
            Some((host("192.0.2.1"), Some(27_015)))
        );
        assert_eq!(parts("quay.example"), Some((host("quay.example"), None)));
        assert_eq!(parts("quay.example:x"), Some((host("quay.example"), None)));
        assert_eq!(parts(":27015"), Some((None, Some(27_015))));
        assert_eq!(parts(""), None);
    }

    #[test]
    fn other_texts_are_in_windows_1252() {
        let name = text(b"\x805 Cup \x96 Ann\x92s \xE9");
        assert_eq!(name.raw(), "\u{20AC}5 Cup \u{2013} Ann\u{2019}s \u{E9}");
        assert_eq!(text("\u{20AC}5".as_bytes()).raw(), "\u{20AC}5");
    }

    #[test]
    fn letters_have_names() {
        let shown = |value: Value| format!("{value}");
        assert_eq!(shown(server_type(b'P')), "relay");
        assert_eq!(shown(system(b'o')), "macos");
        assert_eq!(shown(system(b'd')), "0x64");
        assert_eq!(shown(server_type(0)), "0x00");
    }
}
