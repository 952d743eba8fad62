//! The answers of one server in several protocols: sorted, merged, with notes.

use crate::answer::Answer;
use crate::error::Error;
use crate::merge;
use crate::support::catalog;
use crate::target::Target;
use hailer_proto::games::Game;
use hailer_proto::{Ask, Depth, Info, registry};
use std::cmp::Reverse;

/// Answers of one server: one for each protocol that it answered in, and at least one.
///
/// The most complete answer comes first: the one with the most complete player list, then with the
/// most fields. Equally complete answers are in the order of the [registry].
///
/// Answers in several protocols of one game, from one address, are also merged to one answer.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The answer of each protocol, the most complete first; at least one.
    separate: Vec<Answer>,
    merged: Option<(Box<Answer>, &'static Game)>,
}

impl Answers {
    /// Sorts the answers and merges those in protocols of one game. There must be at least one
    /// answer. Without a `game`, the protocols decide.
    pub(super) fn new(mut answers: Vec<Answer>, game: Option<&'static Game>) -> Self {
        answers.sort_by_key(|answer| {
            (
                Reverse(answer.completeness()),
                place_in_registry(answer.transcript.protocol),
            )
        });
        let merged = merge::merge(&answers, game);
        Self {
            merged: merged.map(|(answer, game)| (Box::new(answer), game)),
            separate: answers,
        }
    }

    /// Returns the merged answer, or else the most complete one.
    pub fn best(&self) -> &Answer {
        match &self.merged {
            Some((answer, _)) => answer,
            None => &self.separate[0],
        }
    }

    /// Combines the results of several exchanges with one server: in the protocols of its target, at
    /// one or several ports. The answers are merged and get notes as by [`Client::detect`](crate::Client::detect). If
    /// several answers have the same protocol, the first counts.
    ///
    /// # Errors
    /// There is no answer: the most informative error in the target's main protocol.
    pub fn combine(
        target: &Target,
        results: Vec<Result<Answer, Error>>,
        ask: &Ask,
    ) -> Result<Self, Error> {
        let main = target.protocol.map(|protocol| protocol.info().id);
        let mut answers: Vec<Answer> = Vec::new();
        let mut best_error: Option<Error> = None;
        let rank = |error: &Error| {
            let protocol = error.transcript().map(|transcript| transcript.protocol.id);
            (protocol.is_none_or(|id| Some(id) == main), error.weight())
        };
        for result in results {
            match result {
                Ok(answer) => {
                    let id = answer.transcript.protocol.id;
                    if !answers
                        .iter()
                        .any(|answer| answer.transcript.protocol.id == id)
                    {
                        answers.push(answer);
                    }
                }
                Err(error) => {
                    if best_error
                        .as_ref()
                        .is_none_or(|best| rank(&error) > rank(best))
                    {
                        best_error = Some(error);
                    }
                }
            }
        }
        if answers.is_empty() {
            let none = Error::NoProtocol {
                failures: Vec::new(),
            };
            return Err(best_error.unwrap_or(none));
        }
        let mut answers = Self::new(answers, target.game);
        answers.add_notes(target, ask);
        Ok(answers)
    }

    /// Adds the notes on the game of the target, or of the merged answer, to the best answer. The
    /// notes of the parts of a merged answer come first.
    pub(super) fn add_notes(&mut self, target: &Target, ask: &Ask) {
        if let Some((merged, _)) = &mut self.merged {
            let notes = self.separate.iter().flat_map(|answer| &answer.notes);
            merged.notes = notes.cloned().collect();
        }
        let merged = self.merged.as_ref().map(|(_, game)| *game);
        if let Some(game) = target.game.or(merged) {
            let notes = self.notes(target, game, ask);
            self.best_mut().notes.extend(notes);
        }
    }

    /// Returns the notes on the best answer of a server of a game.
    fn notes(&self, target: &Target, game: &'static Game, ask: &Ask) -> Vec<String> {
        let has_answered = |info: &&Info| {
            let mut answered = self.iter().map(|answer| answer.transcript.protocol.id);
            answered.any(|id| id == info.id)
        };
        let protocols = catalog::protocols_of(game).into_iter();
        let silent: Vec<&Info> = protocols
            .map(|protocol| protocol.info())
            .filter(|info| !has_answered(info) && info.instead_of.is_none())
            .collect();
        let best = self.best();
        let has_asked = ask.has_players && ask.depth == Depth::Full;
        let mut notes = merge::notes(game, &best.status, &silent, has_asked);
        let port = best.transcript.address.port();
        if let Some(given) = target.port.filter(|given| *given != port) {
            notes.push(format!(
                "The query port {port} answered, not the given port {given}"
            ));
        }
        notes
    }

    fn best_mut(&mut self) -> &mut Answer {
        match &mut self.merged {
            Some((answer, _)) => answer,
            None => &mut self.separate[0],
        }
    }

    /// Returns the [best](Self::best) answer and drops the others.
    pub fn into_best(mut self) -> Answer {
        match self.merged {
            Some((answer, _)) => *answer,
            None => self.separate.swap_remove(0),
        }
    }

    /// Returns the game whose protocols the [best](Self::best) answer merges, or `None` if it is not
    /// merged.
    pub fn game(&self) -> Option<&'static Game> {
        self.merged.as_ref().map(|(_, game)| *game)
    }

    /// Returns the answers that are not part of the [best](Self::best) one.
    pub fn others(&self) -> Vec<&Answer> {
        match &self.merged {
            None => self.separate.iter().skip(1).collect(),
            Some((_, game)) => {
                let is_other =
                    |answer: &&Answer| !game.protocols.contains(&answer.transcript.protocol.id);
                self.separate.iter().filter(is_other).collect()
            }
        }
    }
}

impl std::ops::Deref for Answers {
    type Target = [Answer];

    fn deref(&self) -> &[Answer] {
        &self.separate
    }
}

impl IntoIterator for Answers {
    type Item = Answer;
    type IntoIter = std::vec::IntoIter<Answer>;

    fn into_iter(self) -> Self::IntoIter {
        self.separate.into_iter()
    }
}

impl<'a> IntoIterator for &'a Answers {
    type Item = &'a Answer;
    type IntoIter = std::slice::Iter<'a, Answer>;

    fn into_iter(self) -> Self::IntoIter {
        self.separate.iter()
    }
}

/// Returns the position of a protocol in the registry. Other protocols come last.
pub(super) fn place_in_registry(protocol: &Info) -> usize {
    registry::PROTOCOLS
        .iter()
        .position(|known| known.info().id == protocol.id)
        .unwrap_or(usize::MAX)
}
