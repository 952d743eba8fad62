//! Probes of one poll of a server whose target names a game.
//!
//! A poll queries the main protocol of the game, and the protocols that complete its answer. Most
//! servers do not answer in all of them, so a monitor of 100,000 servers must not repeat hopeless
//! probes:
//!
//! - The main protocol is queried in every poll: at the port that answered last, or else at every
//!   query port of the game, at most four.
//! - A complementary protocol is queried in every poll while it answers. After
//!   [`PATIENCE`] silent polls in a row it is queried only in every [`RARE`]th poll. When the main
//!   protocol answers after a silent poll, all protocols are queried again.

use hailer::proto::{Game, Protocol};
use hailer::{Answer, Error, Target, catalog};

/// Polls without an answer in a complementary protocol after which it is rarely queried.
const PATIENCE: u32 = 3;
/// Interval of the rare queries, in polls.
const RARE: u32 = 10;

/// Protocols and ports of a server of a game.
#[derive(Debug)]
pub(super) struct GamePlan {
    game: &'static Game,
    /// Ports at which the server may reply, the most likely first. At least one.
    ports: Vec<u16>,
    /// The main protocol, then the others.
    parts: Vec<Part>,
}

/// One protocol of a game.
struct Part {
    protocol: &'static dyn Protocol,
    /// Port that answered last.
    port: Option<u16>,
    /// Polls since the last answer.
    silent_polls: u32,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.protocol.info().id;
        write!(f, "{id} at {:?}, {} silent", self.port, self.silent_polls)
    }
}

impl GamePlan {
    /// Returns the plan for a target that names a game; `None` for other targets, which need one
    /// probe per poll. `ports`: as returned by a lookup, the most likely first.
    pub(super) fn of(target: &Target, ports: Vec<u16>) -> Option<Box<Self>> {
        let game = target.game?;
        let protocols = catalog::protocols_of(game).into_iter();
        let part = |protocol| Part {
            protocol,
            port: None,
            silent_polls: 0,
        };
        let parts = protocols.map(part).collect();
        Some(Box::new(Self { game, ports, parts }))
    }

    /// Returns the game.
    pub(super) fn game(&self) -> &'static Game {
        self.game
    }

    /// Replaces the ports after a lookup.
    pub(super) fn set_ports(&mut self, ports: Vec<u16>) {
        if ports != self.ports {
            self.parts.iter_mut().for_each(|part| part.port = None);
            self.ports = ports;
        }
    }

    /// Returns the protocol and port of each probe of the next poll, the main protocol first.
    pub(super) fn probes(&self) -> Vec<(&'static dyn Protocol, u16)> {
        let mut probes = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            let is_main = number == 0;
            if !is_main && !part.is_due() {
                continue;
            }
            match part.port {
                Some(port) => probes.push((part.protocol, port)),
                None => probes.extend(self.ports.iter().map(|port| (part.protocol, *port))),
            }
        }
        probes
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
            others.iter_mut().for_each(|part| part.silent_polls = 0);
        }
    }
}

impl Part {
    /// Returns whether a complementary protocol is queried in the next poll.
    fn is_due(&self) -> bool {
        self.silent_polls < PATIENCE || self.silent_polls.is_multiple_of(RARE)
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
            protocol: registry::find(protocol).unwrap().info(),
            address: ([127, 0, 0, 1], port).into(),
            sent: 1,
            received: 1,
            datagrams: Vec::new(),
        };
        Ok(Answer::new(transcript, Box::default(), Duration::ZERO))
    }

    fn plan(target: &str) -> GamePlan {
        let target: Target = target.parse().unwrap();
        let candidates = target.candidates().unwrap();
        let ports = candidates.iter().map(|address| address.port()).collect();
        *GamePlan::of(&target, ports).unwrap()
    }

    fn probes(plan: &GamePlan) -> Vec<(&'static str, u16)> {
        let probes = plan.probes().into_iter();
        probes
            .map(|(protocol, port)| (protocol.info().id, port))
            .collect()
    }

    #[test]
    fn a_silent_complementary_protocol_is_queried_rarely() {
        let mut plan = plan("minecraft://127.0.0.1");
        let both = [("minecraft-status", 25_565), ("minecraft-query", 25_565)];
        let mut queried = Vec::new();
        for poll in 0..31 {
            let probes = probes(&plan);
            assert_eq!(probes[0], both[0]);
            if probes.len() == 2 {
                assert_eq!(probes[1], both[1]);
                queried.push(poll);
            }
            plan.record(&[answer("minecraft-status", 25_565)]);
        }
        assert_eq!(queried, [0, 1, 2, 10, 20, 30]);
        // It answers: every poll queries it again.
        plan.record(&both.map(|(id, port)| answer(id, port)));
        assert_eq!(probes(&plan), both);
        // The server was down for long, and is back.
        (0..5).for_each(|_| plan.record(&[]));
        assert_eq!(probes(&plan), both[..1]);
        plan.record(&[answer("minecraft-status", 25_565)]);
        assert_eq!(probes(&plan), both);
    }

    #[test]
    fn all_query_ports_are_tried_until_one_answers() {
        // Port 26900, and the one above it.
        let mut plan = plan("7dtd://127.0.0.1");
        let all = probes(&plan);
        assert!(all.len() > 1, "{all:?}");
        plan.record(&[answer("a2s", all[1].1)]);
        assert_eq!(probes(&plan), [all[1]]);
        plan.record(&[]);
        assert_eq!(probes(&plan), all);
    }

    #[test]
    fn other_targets_need_no_plan() {
        let target: Target = "a2s://127.0.0.1".parse().unwrap();
        assert!(GamePlan::of(&target, vec![27_015]).is_none());
    }
}
