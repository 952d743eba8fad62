//! The client: one request, a reply of up to 64 parts (spec/gamespy1.md#4).

use super::deviation::FINAL_EVERYWHERE;
use super::message::{self, MAX_PARTS, Part};
use crate::model::{Roster, Status};
use crate::protocol::{Ask, Depth, Exchange, Fault, Input, Step};
use crate::wire::Notes;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Limit of the bytes of all kept parts.
const MAX_BYTES: usize = 65_536;
/// Limit of the replies that arrive at the same time. Each repeated request starts one.
const MAX_REPLIES: usize = 4;

/// Times that the first form is sent before the next one. A lost datagram must not lead to another
/// form.
const FIRST_FORM_TRIES: u32 = 2;

/// Forms of a request, most complete first. A server that does not reply to one may reply to the
/// next (spec/gamespy1.md#4).
type Forms = &'static [&'static [u8]];

const FULL: Forms = &[
    b"\\status\\xserverquery",
    b"\\status\\",
    b"\\basic\\\\info\\\\rules\\\\players\\",
];
const WITHOUT_PLAYERS: Forms = &[b"\\basic\\\\info\\\\rules\\", b"\\status\\"];
const BASIC: Forms = &[b"\\basic\\\\info\\", b"\\status\\"];
/// The only form that all servers answer: pings are not repeated in another one.
const PING: Forms = &[b"\\status\\"];

/// Queries one GameSpy 1 server.
#[derive(Debug)]
pub struct GameSpy1Exchange {
    depth: Depth,
    has_players: bool,
    forms: Forms,
    /// Index of the last form sent.
    form: usize,
    /// Timeouts without any part.
    timeouts: u32,
    replies: Vec<Incoming>,
    /// The last reply with a part that contradicts the others, without this part. Used if no other
    /// reply is better.
    contradicted: Option<Incoming>,
    notes: Notes,
}

/// The parts of one reply.
#[derive(Debug, Default)]
struct Incoming {
    /// Number of the request; `None` if the server sends no query id.
    query: Option<u32>,
    parts: BTreeMap<u16, Vec<u8>>,
    /// Number of the part with the end mark.
    last: Option<u16>,
    /// Whether each part may have the end mark.
    is_ambiguous: bool,
}

impl GameSpy1Exchange {
    /// Creates an exchange that has not sent anything yet. Requests have no id.
    pub fn new(ask: &Ask) -> Self {
        let forms = match (ask.depth, ask.has_players) {
            (Depth::Full, true) => FULL,
            (Depth::Full, false) => WITHOUT_PLAYERS,
            (Depth::Basic, _) => BASIC,
            (Depth::Ping, _) => PING,
        };
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            forms,
            form: 0,
            timeouts: 0,
            replies: Vec::new(),
            contradicted: None,
            notes: Notes::default(),
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        out.extend_from_slice(self.forms.get(self.form).copied().unwrap_or_default());
        Step::Send
    }

    fn receive(&mut self, bytes: &[u8]) -> Step {
        // Another service may echo a request, whose words look like a pair.
        if !message::is_message(bytes) || self.forms.contains(&bytes) {
            return Step::Wait;
        }
        let part = match message::parse_part(bytes, &mut Notes::default()) {
            Ok(part) => part,
            Err(error) => return Step::Bad(error.into()),
        };
        if self.depth == Depth::Ping {
            let mut notes = Notes::default();
            let _ = message::parse_part(bytes, &mut notes);
            return Step::Done(Box::new(Status {
                deviations: notes.met().collect(),
                ..Status::default()
            }));
        }
        let kept = self.replies.iter().flat_map(|reply| reply.parts.values());
        if kept.map(Vec::len).sum::<usize>() + bytes.len() > MAX_BYTES {
            self.replies.clear();
        }
        let query = part.id.map(|id| id.query);
        let known = self.replies.iter().position(|reply| reply.query == query);
        let index = known.unwrap_or_else(|| {
            if self.replies.len() == MAX_REPLIES {
                self.replies.remove(0);
            }
            self.replies.push(Incoming {
                query,
                ..Incoming::default()
            });
            self.replies.len() - 1
        });
        let Some(reply) = self.replies.get_mut(index) else {
            return Step::Wait;
        };
        if let Err(rule) = reply.insert(&part, bytes) {
            self.contradicted = Some(self.replies.remove(index));
            return Step::Bad(Fault::Misbehaved(rule));
        }
        if reply.is_complete() {
            self.finish(index)
        } else {
            Step::Progress
        }
    }

    /// Handles a timeout: repeats the request, or sends the next form if nothing has arrived
    /// repeatedly.
    fn repeat(&mut self, out: &mut Vec<u8>) -> Step {
        let is_whole = |reply: &Incoming| reply.is_ambiguous && reply.has_no_gap();
        if let Some(index) = self.replies.iter().position(is_whole) {
            self.notes.deviation(&FINAL_EVERYWHERE, 0);
            return self.finish(index);
        }
        if self.replies.is_empty() {
            self.timeouts += 1;
            if self.timeouts >= FIRST_FORM_TRIES {
                self.form = (self.form + 1).min(self.forms.len().saturating_sub(1));
            }
        }
        self.send(out)
    }

    /// Returns what has arrived, if anything: the reply with a name and the most parts, or else one
    /// without a name.
    fn give_up(&mut self) -> Step {
        self.replies.splice(0..0, self.contradicted.take());
        let notes = self.notes.clone();
        let mut order: Vec<usize> = (0..self.replies.len()).collect();
        let parts = |index: &usize| self.replies.get(*index).map_or(0, |it| it.parts.len());
        order.sort_by_key(|index| core::cmp::Reverse(parts(index)));
        let mut best = Step::Wait;
        for index in order {
            self.notes = notes.clone();
            match self.finish(index) {
                Step::Done(status) if status.name.is_some() => return Step::Done(status),
                step if !matches!(best, Step::Done(_)) => best = step,
                _ => {}
            }
        }
        best
    }

    fn finish(&mut self, index: usize) -> Step {
        let Some(reply) = self.replies.get(index) else {
            return Step::Wait;
        };
        let notes = &mut self.notes;
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(reply.parts.len());
        for bytes in reply.parts.values() {
            match message::parse_part(bytes, notes) {
                Ok(part) => parts.push(part),
                Err(error) => return Step::Bad(error.into()),
            }
        }
        let mut status = message::join(parts).status(self.has_players, notes);
        // Other services send backslashes too, and some repeat the request.
        let facts = [&status.game, &status.mode, &status.map, &status.version];
        let counts = [status.players.online, status.players.max];
        let is_empty = status.name.is_none()
            && facts.iter().all(|fact| fact.is_none())
            && counts == [None; 2]
            && status.players.list.is_empty();
        if is_empty && reply.has_no_gap() {
            return Step::Bad(Fault::Misbehaved("it describes no server"));
        }
        // Without its count, a list that may lack parts is not whole.
        let is_counted = reply.is_complete() || status.players.max.is_some();
        if !is_counted && !reply.is_ambiguous && status.players.roster == Roster::Whole {
            status.players.roster = Roster::Partial;
        }
        // Only the first form of a full request asks for keys that the other forms do not.
        if self.has_players && self.form > 0 {
            status.add_unanswered("xserverquery");
        }
        // Only the counts show whether the last part of an ambiguous reply is missing.
        let is_short = reply.is_ambiguous && status.players.roster == Roster::Partial;
        let is_whole = reply.is_complete() || reply.is_ambiguous && reply.has_no_gap();
        if is_short || !is_whole {
            status.add_unanswered("parts");
        }
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

impl Incoming {
    /// Keeps a part. Fails if its number contradicts the parts so far.
    fn insert(&mut self, part: &Part<'_>, bytes: &[u8]) -> Result<(), &'static str> {
        if part.id.is_none() && self.parts.values().any(|known| known == bytes) {
            return Ok(());
        }
        let next = self.parts.len() as u16 + 1;
        let number = part.id.map_or(next, |id| id.part);
        if number > MAX_PARTS {
            return Err("it sends more than 64 parts");
        }
        let is_last = part.is_final && !part.is_ambiguous;
        let last = if is_last { Some(number) } else { self.last };
        let highest = self.parts.keys().last().copied().max(Some(number));
        if last.is_some_and(|last| highest > Some(last)) {
            return Err("it numbers a part after the last one");
        }
        self.is_ambiguous |= part.is_ambiguous;
        self.last = last;
        let earlier = self.parts.entry(number).or_insert_with(|| bytes.into());
        if earlier != bytes {
            return Err("it sends two parts with the same number");
        }
        Ok(())
    }

    /// Returns whether all parts from 1 to the highest have arrived.
    fn has_no_gap(&self) -> bool {
        let highest = self.parts.keys().last().copied().unwrap_or(0);
        self.parts.len() == usize::from(highest)
    }

    fn is_complete(&self) -> bool {
        self.last.is_some() && self.has_no_gap()
    }
}

impl Exchange for GameSpy1Exchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Datagram(bytes) => self.receive(bytes),
            Input::Timeout => self.repeat(out),
            Input::GiveUp => self.give_up(),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        self.form
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(exchange: &mut GameSpy1Exchange, bytes: &[u8]) -> Step {
        exchange.handle(Input::Datagram(bytes), &mut Vec::new())
    }

    fn status(step: Step) -> Box<Status> {
        match step {
            Step::Done(status) => status,
            step => panic!("{step:?}"),
        }
    }

    fn names(status: &Status) -> Vec<&str> {
        let met = status.deviations.iter();
        met.map(|deviation| deviation.name).collect()
    }

    #[test]
    fn its_own_requests_are_no_replies() {
        let mut exchange = GameSpy1Exchange::new(&Ask::default());
        for form in FULL {
            assert_eq!(receive(&mut exchange, form), Step::Wait);
        }
    }

    #[test]
    fn the_most_complete_reply_counts_at_the_deadline() {
        let mut exchange = GameSpy1Exchange::new(&Ask::default());
        for part in [
            "\\hostname\\Old\\queryid\\1.1",
            "\\mapname\\mill\\queryid\\1.2",
            "\\hostname\\New\\queryid\\2.1",
        ] {
            assert_eq!(receive(&mut exchange, part.as_bytes()), Step::Progress);
        }
        let status = status(exchange.handle(Input::GiveUp, &mut Vec::new()));
        assert_eq!(status.title().as_deref(), Some("Old"));
        assert_eq!(status.extra("unanswered"), Some(&"parts".into()));
        assert!(names(&status).is_empty());
    }

    #[test]
    fn repeated_parts_without_an_id_are_kept_once() {
        let mut exchange = GameSpy1Exchange::new(&Ask::default());
        for _ in 0..=MAX_PARTS {
            let step = receive(&mut exchange, b"\\hostname\\Keep\\numplayers\\0");
            assert_eq!(step, Step::Progress);
        }
        let status = status(receive(&mut exchange, b"\\maxplayers\\8\\final\\"));
        assert_eq!(status.players.max, Some(8));
    }

    #[test]
    fn counts_show_that_the_last_ambiguous_part_is_missing() {
        let part =
            b"\\hostname\\Keep\\numplayers\\2\\player_0\\Al\\frags_0\\1\\final\\queryid\\7.1";
        let mut exchange = GameSpy1Exchange::new(&Ask::default());
        assert_eq!(receive(&mut exchange, part), Step::Progress);
        let status = status(exchange.handle(Input::Timeout, &mut Vec::new()));
        assert_eq!(names(&status), ["final-everywhere"]);
        assert_eq!(status.extra("unanswered"), Some(&"parts".into()));
    }
}
