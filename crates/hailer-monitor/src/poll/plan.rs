//! Probes of one poll of a server whose target names a game.
//!
//! A poll queries the main protocol of the game, and the protocols that complete its answer. Most
//! servers do not answer in all of them, so a monitor of 100,000 servers must not repeat hopeless
//! probes:
//!
//! - The main protocol is queried in every poll: at the port that answered last, or else at the
//!   query ports of the game, one after the other, at most four.
//! - A complementary protocol is queried in every poll while it answers. After
//!   [`MAX_SILENT_POLLS`] silent polls in a row it is queried only in every [`RARE_POLL_INTERVAL`]th poll. When the main
//!   protocol answers after a silent poll, all protocols are queried again.
//! - A protocol that servers answer instead of the main one is queried while the main one has no
//!   answer.

use hailer::proto::Protocol;
use hailer::proto::games::{Game, Quirk};
use hailer::support::catalog;
use hailer::{Answer, Error, Target};

/// Polls without an answer in a complementary protocol after which it is rarely queried.
const MAX_SILENT_POLLS: u32 = 3;
/// Interval of the rare queries, in polls.
const RARE_POLL_INTERVAL: u32 = 10;

/// Protocols and ports of a server of a game.
#[derive(Debug)]
pub(super) struct GamePlan {
    game: &'static Game,
    /// The main protocol, then the others.
    parts: Vec<GamePart>,
}

/// A probe of a poll.
pub(super) struct PlannedProbe {
    pub(super) protocol: &'static dyn Protocol,
    /// Port to query; `None` for the first query port.
    pub(super) port: Option<u16>,
    /// Game whose further query ports and quirks apply.
    pub(super) game: Option<&'static Game>,
}

/// One protocol of a game.
struct GamePart {
    protocol: &'static dyn Protocol,
    /// Port that answered last.
    port: Option<u16>,
    /// Polls since the last answer.
    silent_polls: u32,
}

impl std::fmt::Debug for GamePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.protocol.info().id;
        write!(f, "{id} at {:?}, {} silent", self.port, self.silent_polls)
    }
}

impl GamePlan {
    /// Returns the plan for a target that names a game; `None` for other targets, which need one
    /// probe per poll.
    pub(super) fn of(target: &Target) -> Option<Box<Self>> {
        let game = target.game?;
        let protocols = catalog::protocols_of(game).into_iter();
        let part = |protocol| GamePart {
            protocol,
            port: None,
            silent_polls: 0,
        };
        let parts = protocols.map(part).collect();
        Some(Box::new(Self { game, parts }))
    }

    /// Clears the ports that answered, because the address has changed.
    pub(super) fn forget_ports(&mut self) {
        for part in &mut self.parts {
            part.port = None;
        }
    }

    /// Returns the probes of the next poll, that of the main protocol first.
    pub(super) fn probes(&self) -> Vec<PlannedProbe> {
        let changes_query = |quirk| matches!(quirk, &Quirk::NoPlayerList | &Quirk::Charset(_));
        let has_quirks = self.game.quirks.iter().any(changes_query);
        let probe = |part: &GamePart| PlannedProbe {
            protocol: part.protocol,
            port: part.port,
            // A server whose port is known is not searched at other ports during an outage.
            game: (part.port.is_none() || has_quirks).then_some(self.game),
        };
        let due = self.parts.iter().enumerate();
        let main = self.parts.first();
        let is_due = |part: &GamePart| match part.protocol.info().instead_of {
            Some(original) if main.is_some_and(|main| main.protocol.info().id == original) => {
                part.port.is_some() || main.is_some_and(|main| main.port.is_none())
            }
            _ => part.is_due(),
        };
        due.filter(|(number, part)| *number == 0 || is_due(part))
            .map(|(_, part)| probe(part))
            .collect()
    }

    /// Records the results of a poll.
    pub(super) fn record(&mut self, results: &[Result<Answer, Error>]) {
        let had_failed = self.parts.first().is_some_and(|main| main.silent_polls > 0);
        for part in &mut self.parts {
            let id = part.protocol.info().id;
            let mut answers = results.iter().flatten();
            match answers.find(|answer| answer.transcript.protocol.id == id) {
                Some(answer) => {
                    part.port = Some(answer.transcript.address.port());
                    part.silent_polls = 0;
                }
                None => {
                    part.port = None;
                    part.silent_polls = part.silent_polls.saturating_add(1);
                }
            }
        }
        let [main, others @ ..] = &mut self.parts[..] else {
            return;
        };
        if had_failed && main.silent_polls == 0 {
            for part in others {
                part.silent_polls = 0;
            }
        }
    }
}

impl GamePart {
    /// Returns whether a complementary protocol is queried in the next poll.
    fn is_due(&self) -> bool {
        self.silent_polls < MAX_SILENT_POLLS || self.silent_polls.is_multiple_of(RARE_POLL_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer::client::Transcript;
    use hailer::proto::registry;
    use std::time::Duration;

    fn answer(protocol: &str, port: u16) -> Result<Answer, Error> {
        let transcript = Transcript {
            sent: 1,
            received: 1,
            ..Transcript::new(
                registry::find(protocol).unwrap().info(),
                ([127, 0, 0, 1], port).into(),
            )
        };
        Ok(Answer::new(transcript, Box::default(), Duration::ZERO))
    }

    fn plan(target: &str) -> GamePlan {
        *GamePlan::of(&target.parse().unwrap()).unwrap()
    }

    fn probes(plan: &GamePlan) -> Vec<(&'static str, Option<u16>)> {
        let probes = plan.probes().into_iter();
        probes
            .map(|probe| (probe.protocol.info().id, probe.port))
            .collect()
    }

    #[test]
    fn a_silent_complementary_protocol_is_queried_rarely() {
        let mut plan = plan("minecraft://127.0.0.1");
        let ids = |plan: &GamePlan| -> Vec<&str> {
            let probes = probes(plan).into_iter();
            probes.map(|(protocol, _)| protocol).collect()
        };
        let both = ["minecraft-status", "minecraft-query"];
        let mut queried = Vec::new();
        for poll in 0..31 {
            let probes = ids(&plan);
            assert_eq!(probes[0], both[0]);
            if probes.len() == 2 {
                assert_eq!(probes[1], both[1]);
                queried.push(poll);
            }
            plan.record(&[answer("minecraft-status", 25_565)]);
        }
        assert_eq!(queried, [0, 1, 2, 10, 20, 30]);
        // It answers: every poll queries it again.
        plan.record(&both.map(|id| answer(id, 25_565)));
        assert_eq!(ids(&plan), both);
        // The server was down for long, and is back.
        (0..5).for_each(|_| plan.record(&[]));
        assert_eq!(ids(&plan), both[..1]);
        plan.record(&[answer("minecraft-status", 25_565)]);
        assert_eq!(ids(&plan), both);
    }

    #[test]
    fn an_alternative_is_queried_while_the_main_protocol_is_silent() {
        let mut plan = plan("minecraft-bedrock://127.0.0.1");
        let ids = |plan: &GamePlan| -> Vec<&str> {
            let probes = probes(plan).into_iter();
            probes.map(|(protocol, _)| protocol).collect()
        };
        let both = ["minecraft-bedrock", "minecraft-nethernet"];
        assert_eq!(ids(&plan), both);
        plan.record(&[answer(both[0], 19_132)]);
        assert_eq!(ids(&plan), both[..1]);
        for _ in 0..20 {
            plan.record(&[]);
            assert_eq!(ids(&plan), both);
        }
        plan.record(&[answer(both[1], 19_132)]);
        assert_eq!(ids(&plan), both);
        // The server was configured for both, or another one replaced it.
        plan.record(&both.map(|id| answer(id, 19_132)));
        plan.record(&[answer(both[0], 19_132)]);
        assert_eq!(ids(&plan), both[..1]);
    }

    #[test]
    fn the_port_that_answered_is_queried_until_it_fails() {
        let mut plan = plan("dayz://127.0.0.1");
        assert_eq!(probes(&plan), [("a2s", None)]);
        assert!(plan.probes()[0].game.is_some());
        plan.record(&[answer("a2s", 2_305)]);
        assert_eq!(probes(&plan), [("a2s", Some(2_305))]);
        assert!(plan.probes()[0].game.is_none());
        plan.record(&[]);
        assert_eq!(probes(&plan), [("a2s", None)]);
        plan.record(&[answer("a2s", 2_305)]);
        plan.forget_ports();
        assert_eq!(probes(&plan), [("a2s", None)]);
    }

    #[test]
    fn other_targets_need_no_plan() {
        let target: Target = "a2s://127.0.0.1".parse().unwrap();
        assert!(GamePlan::of(&target).is_none());
    }
}
