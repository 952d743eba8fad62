//! Whether a server is up, from one sample to the next. Sans-IO.
//!
//! A server is down after several samples in a row without a reply, and up again with the first
//! reply. A server that goes up and down all the time is *flapping*: each change adds to a penalty
//! that halves every 15 minutes, and while the penalty is high the changes are not reported.
//! (Routers damp flapping routes in the same way.)

use crate::sample::{EventKind, Millis};
use serde::{Deserialize, Serialize};

/// Rules for the states *down* and *flapping*.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthRules {
    /// Number of missed replies in a row after which a server is down. At least 1.
    pub down_after: u8,
    /// Penalty above which a server is flapping, in changes.
    pub flapping_after: f32,
    /// Penalty below which a server is steady again, in changes.
    pub steady_below: f32,
    /// Half-life of the penalty, in milliseconds.
    pub half_life: Millis,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self {
            down_after: 2,
            flapping_after: 4.0,
            steady_below: 1.0,
            half_life: 15 * 60_000,
        }
    }
}

/// Whether a server replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The server does not reply.
    Down,
    /// Not polled yet, or not silent for long enough to be down.
    #[default]
    Unknown,
    /// The server replies.
    Up,
}

/// The health of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Whether the server replies.
    pub state: State,
    /// Whether the server is flapping: its ups and downs are not reported.
    pub is_flapping: bool,
    /// When the server entered this state, in Unix milliseconds.
    pub since: Millis,
    /// Missed replies in a row.
    silent: u8,
    /// Penalty at the time of the last change, in changes.
    penalty: f32,
    changed: Millis,
}

impl Health {
    /// Returns the health as the history has last stored it, so that a restart reports no change.
    pub fn known(state: State, since: Millis) -> Self {
        Self {
            state,
            since,
            ..Self::default()
        }
    }

    /// Returns whether the last sample had no reply.
    pub fn is_silent(&self) -> bool {
        self.silent > 0
    }

    /// Returns the health for the node that takes over. How long a server has been down is in
    /// `since`, so the count of missed replies is capped.
    #[must_use]
    pub fn kept(mut self, rules: &HealthRules) -> Self {
        self.silent = self.silent.min(rules.down_after.max(1));
        self
    }

    /// Returns the health with its last change not after `now`. A change in the future would keep
    /// a server flapping until then.
    #[must_use]
    pub fn not_after(mut self, now: Millis) -> Self {
        self.changed = self.changed.min(now);
        self
    }

    /// Applies a sample; `reason` is the keyword of the error. Returns at most two events.
    pub fn sample(
        &mut self,
        rules: &HealthRules,
        at: Millis,
        answered: bool,
        reason: impl FnOnce() -> String,
    ) -> [Option<EventKind>; 2] {
        self.silent = if answered {
            0
        } else {
            self.silent.saturating_add(1)
        };
        let state = if answered {
            State::Up
        } else if self.silent >= rules.down_after.max(1) {
            State::Down
        } else {
            self.state
        };
        let penalty = self.penalty_at(rules, at);
        let mut events = [None, None];
        let is_change = state != self.state;
        if is_change {
            // The first reply of a new server does not count as a change.
            self.penalty = penalty
                + if self.state == State::Unknown {
                    0.0
                } else {
                    1.0
                };
            self.changed = at;
            self.state = state;
            self.since = at;
        }
        let was_flapping = self.is_flapping;
        self.is_flapping = if was_flapping {
            penalty >= rules.steady_below || is_change
        } else {
            self.penalty_at(rules, at) >= rules.flapping_after
        };
        match (was_flapping, self.is_flapping) {
            (false, true) => events[0] = Some(EventKind::Flapping),
            // Report the state at the end of the flapping, because its last changes were not
            // reported.
            (true, false) => events = [Some(EventKind::Steady), self.word(reason)],
            (false, false) if is_change => events[0] = self.word(reason),
            _ => {}
        }
        events
    }

    fn word(&self, reason: impl FnOnce() -> String) -> Option<EventKind> {
        match self.state {
            State::Up => Some(EventKind::Up),
            State::Down => Some(EventKind::Down { reason: reason() }),
            State::Unknown => None,
        }
    }

    fn penalty_at(&self, rules: &HealthRules, at: Millis) -> f32 {
        let halves = (at - self.changed).max(0) as f32 / rules.half_life.max(1) as f32;
        self.penalty * (-halves).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    /// Returns the keywords of the events of these samples, one a minute: `+` is a reply, `-` a
    /// missed one.
    fn states(health: &mut Health, from: Millis, samples: &str) -> String {
        let mut words = Vec::new();
        for (minute, sample) in samples.chars().enumerate() {
            let at = from + minute as Millis * MINUTE;
            let events = health.sample(&HealthRules::default(), at, sample == '+', || {
                "silence".into()
            });
            words.extend(
                events
                    .into_iter()
                    .flatten()
                    .map(|event| format!("{minute}:{}", event.word())),
            );
        }
        words.join(" ")
    }

    #[test]
    fn one_missed_reply_is_ignored() {
        let mut health = Health::default();
        assert_eq!(states(&mut health, 0, "+-+-+--+"), "0:up 6:down 7:up");
        assert_eq!((health.state, health.since), (State::Up, 7 * MINUTE));
        let mut known = Health::known(State::Up, 5);
        assert_eq!(
            states(&mut known, 10, "++"),
            "",
            "a restart of the monitor is no event"
        );
        assert_eq!(known.since, 5);
        assert_eq!(states(&mut Health::default(), 0, "---"), "1:down");
    }

    #[test]
    fn a_change_in_the_future_keeps_no_server_flapping() {
        let mut health = Health::default();
        states(&mut health, 24 * 60 * MINUTE, &"+--".repeat(10));
        assert!(health.is_flapping);
        let mut health = health.not_after(0);
        states(&mut health, 0, &"+".repeat(60));
        assert!(!health.is_flapping, "the clock was set back by a day");
    }

    #[test]
    fn flapping_is_reported_once_until_steady() {
        let mut health = Health::default();
        let shown = states(
            &mut health,
            0,
            &format!("{}{}", "+--".repeat(10), "+".repeat(60)),
        );
        // Two changes every three minutes: the fifth change after the first reply makes the server
        // flap.
        let flapping = shown.find("flapping").expect("so many changes");
        assert!(shown[flapping..].starts_with("flapping"), "{shown}");
        assert_eq!(shown.matches("flapping").count(), 1, "{shown}");
        assert!(shown.ends_with("up"), "{shown}");
        assert_eq!(shown.matches("steady").count(), 1, "{shown}");
        assert!(shown[flapping..].matches("down").count() == 0, "{shown}");
        assert!(!health.is_flapping);
    }
}
