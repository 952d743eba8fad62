//! Whether a server is up, from one sample to the next. Sans-IO.
//!
//! A server is down after several samples in a row without a reply, since the first of them, and up
//! again with the first reply.
//!
//! A server that goes up and down all the time is *flapping*: from the fifth change within 15 minutes
//! until 10 minutes have passed without a change. While a server is flapping, a change is reported
//! only once the new state has lasted for 3 minutes and for 5 intervals. So a crash loop is not
//! reported each time, but an outage that lasts is.

use crate::sample::{EventKind, Millis};
use serde::{Deserialize, Serialize};

/// Number of changes after which a server is flapping.
pub const FLAPPING_CHANGES: usize = 5;

/// Rules for the states *down* and *flapping*. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthRules {
    /// Number of missed replies in a row after which a server is down. At least 1.
    pub down_after: u8,
    /// A server is flapping after [`FLAPPING_CHANGES`] changes within this time.
    pub flapping_within: Millis,
    /// A server is steady again after this time without a change.
    pub steady_after: Millis,
    /// How long a state must last to be reported while the server is flapping, at least.
    pub settled_after: Millis,
    /// The same, in intervals. The longer of both times counts.
    pub settled_intervals: u8,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self {
            down_after: 2,
            flapping_within: 15 * 60_000,
            steady_after: 10 * 60_000,
            settled_after: 3 * 60_000,
            settled_intervals: 5,
        }
    }
}

impl HealthRules {
    /// Returns how long a state must last to be reported while the server is flapping.
    pub fn settled_after(&self, interval: Millis) -> Millis {
        let intervals = interval.saturating_mul(self.settled_intervals.into());
        self.settled_after.max(intervals)
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

impl State {
    /// Returns the keyword in the API and on pages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Unknown => "unknown",
            Self::Up => "up",
        }
    }
}

/// The health of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Whether the server replies.
    pub state: State,
    /// Whether the server is flapping: its short ups and downs are not reported.
    pub is_flapping: bool,
    /// When the server entered this state, in Unix milliseconds: for an outage, the time of the first
    /// missed reply.
    pub since: Millis,
    /// The current state once it was reported; `Unknown` before, while the server is flapping.
    #[serde(default)]
    reported: State,
    /// Missed replies in a row.
    silent: u8,
    /// Time of the first of them.
    #[serde(default)]
    silent_since: Millis,
    /// Times of the last changes, the oldest first; 0: none.
    #[serde(default)]
    changes: [Millis; FLAPPING_CHANGES],
}

/// Events of one sample: their times and kinds.
pub type HealthEvents = [Option<(Millis, EventKind)>; 2];

impl Health {
    /// Returns the health as the history has last stored it, so that a restart reports no change.
    pub fn known(state: State, since: Millis) -> Self {
        Self {
            state,
            since,
            reported: state,
            ..Self::default()
        }
    }

    /// Returns the health of a server that was flapping before a restart at `now`. Changes before the
    /// restart are not known, so it remains flapping for at least the usual time.
    #[must_use]
    pub fn flapping(self, now: Millis) -> Self {
        Self {
            is_flapping: true,
            changes: [now; FLAPPING_CHANGES],
            ..self
        }
    }

    /// Returns whether the last sample had no reply.
    pub fn is_silent(&self) -> bool {
        self.silent > 0
    }

    /// Returns whether the current state was reported. If not, the server is flapping, and the state
    /// has not lasted for long enough.
    pub fn is_settled(&self) -> bool {
        self.state == self.reported
    }

    /// Returns the times of the changes that make the server flap, the oldest first, in Unix
    /// milliseconds; empty if it is not flapping.
    pub fn flapping_changes(&self) -> &[Millis] {
        if self.is_flapping { &self.changes } else { &[] }
    }

    /// Returns the health for the node that takes over. How long a server has been down is in
    /// `since`, so the count of missed replies is capped.
    #[must_use]
    pub fn kept(mut self, rules: &HealthRules) -> Self {
        self.silent = self.silent.min(rules.down_after.max(1));
        self
    }

    /// Returns the health with no time after `now`, see `forget_future`.
    #[must_use]
    pub fn not_after(mut self, now: Millis) -> Self {
        self.forget_future(now);
        self
    }

    /// Applies a sample; `reason` is the keyword of the error, `interval` the time between polls.
    pub fn sample(
        &mut self,
        rules: &HealthRules,
        interval: Millis,
        at: Millis,
        answered: bool,
        reason: impl FnOnce() -> String,
    ) -> HealthEvents {
        self.forget_future(at);
        if answered {
            self.silent = 0;
        } else {
            if self.silent == 0 {
                self.silent_since = at;
            }
            self.silent = self.silent.saturating_add(1);
        }
        let (state, since) = if answered {
            (State::Up, at)
        } else if self.silent >= rules.down_after.max(1) {
            (State::Down, self.silent_since)
        } else {
            (self.state, self.since)
        };
        let is_change = state != self.state;
        if is_change {
            // The first reply of a new server does not count as a change.
            if self.state != State::Unknown {
                self.changes.rotate_left(1);
                self.changes[FLAPPING_CHANGES - 1] = since;
            }
            self.state = state;
            self.since = since;
        }
        let [first, .., last] = self.changes;
        let was_flapping = self.is_flapping;
        self.is_flapping = if was_flapping {
            at - last < rules.steady_after
        } else {
            is_change && first > 0 && last - first <= rules.flapping_within
        };
        let mut events = [None, None];
        match (was_flapping, self.is_flapping) {
            (false, true) => events[0] = Some((at, EventKind::Flapping)),
            (true, false) => {
                events[0] = Some((at, EventKind::Steady));
                self.changes = Default::default();
            }
            _ => {}
        }
        if is_change && self.is_flapping {
            self.reported = State::Unknown;
        }
        let is_lasting = at - self.since >= rules.settled_after(interval);
        if !self.is_settled() && (is_lasting || !self.is_flapping) {
            self.reported = self.state;
            events[1] = self.word(reason).map(|kind| (self.since, kind));
        }
        events
    }

    /// Shifts all times if one is in the future: the clock was set back. Otherwise a server would
    /// flap, or an outage would not be reported, until the clock has caught up.
    fn forget_future(&mut self, now: Millis) {
        let [.., last] = self.changes;
        let silent_since = if self.is_silent() {
            self.silent_since
        } else {
            0
        };
        let step = self.since.max(silent_since).max(last) - now;
        if step <= 0 {
            return;
        }
        self.since -= step;
        self.silent_since -= step;
        // 0 means none.
        for time in self.changes.iter_mut().filter(|time| **time > 0) {
            *time -= step;
        }
    }

    fn word(&self, reason: impl FnOnce() -> String) -> Option<EventKind> {
        match self.state {
            State::Up => Some(EventKind::Up),
            State::Down => Some(EventKind::Down { reason: reason() }),
            State::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    /// Returns the keywords of the events of these samples, one a minute, with their minutes: `+` is a
    /// reply, `-` a missed one.
    fn states(health: &mut Health, from: Millis, samples: &str) -> String {
        let mut words = Vec::new();
        for (minute, sample) in samples.chars().enumerate() {
            let at = from + minute as Millis * MINUTE;
            let rules = HealthRules::default();
            let events = health.sample(&rules, MINUTE, at, sample == '+', || "silence".into());
            for (at, kind) in events.into_iter().flatten() {
                words.push(format!("{}:{}", (at - from) / MINUTE, kind.word()));
            }
        }
        words.join(" ")
    }

    #[test]
    fn one_missed_reply_is_ignored_and_outages_begin_with_the_first() {
        let mut health = Health::default();
        assert_eq!(states(&mut health, 1, "+-+-+--+"), "0:up 5:down 7:up");
        assert_eq!((health.state, health.since), (State::Up, 1 + 7 * MINUTE));
        let mut known = Health::known(State::Up, 5);
        assert_eq!(
            states(&mut known, 10, "++"),
            "",
            "a restart of the monitor is no event"
        );
        assert_eq!(known.since, 5);
        assert_eq!(states(&mut Health::default(), 1, "---"), "0:down");
    }

    #[test]
    fn a_long_outage_is_reported_while_flapping() {
        let mut health = Health::default();
        let samples = format!("+{}{}{}", "--+".repeat(5), "-".repeat(7), "+".repeat(20));
        // The fifth change, at minute 7, makes the server flap. The outage from minute 16 and the
        // return at minute 23 last for five intervals. Ten minutes after it, the server is steady.
        assert_eq!(
            states(&mut health, 1, &samples),
            "0:up 1:down 3:up 4:down 6:up 8:flapping 16:down 23:up 33:steady"
        );
        assert!(!health.is_flapping && health.is_settled());
    }

    #[test]
    fn a_restart_keeps_a_server_flapping() {
        let mut health = Health::known(State::Up, 1).flapping(1);
        assert_eq!(states(&mut health, 1, "--+++++++++"), "2:up");
        assert_eq!(states(&mut health, 1 + 11 * MINUTE, "++"), "1:steady");
    }

    #[test]
    fn times_of_the_future_hold_nothing_back() {
        let mut health = Health::default();
        let hour = 60 * MINUTE;
        assert_eq!(
            states(&mut health, 2 * hour, "+--+--+--+"),
            "0:up 1:down 3:up 4:down 6:up 8:flapping"
        );
        // The clock was set back by an hour.
        assert_eq!(states(&mut health, hour, "-----------"), "0:down 10:steady");
    }
}
