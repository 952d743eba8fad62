//! Table of the states of a door: each row is a state, a trigger, the next state and an effect.
//!
//! `docs/door.md` shows this table, and a picture of it. A test compares them.

use crate::door::State;

/// An event of a door that may change its state. The machine detects it; see
/// [`text`](Trigger::text) for the condition of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// A client of a verified address tries to join.
    Join,
    /// The operator wakes the game.
    Wake,
    /// The operator puts the game to sleep.
    Sleep,
    /// The pause after a crash is over.
    Restart,
    /// The game answers.
    Answers,
    /// The game runs, but does not answer yet.
    Runs,
    /// The start returned an error.
    StartFailed,
    /// The game did not answer in time.
    StartTimedOut,
    /// The game ended before its first answer.
    Ended,
    /// No players for a while.
    Idle,
    /// A client got in just before the stop.
    Entered,
    /// The game ended, or no longer answers. The door did not stop it.
    Gone,
    /// The game ended after the door stopped it.
    Stopped,
    /// The stop returned an error, or took too long, and the game answers.
    StopFailed,
    /// The game does not answer, but still runs long after the stop.
    StopTimedOut,
}

impl Trigger {
    /// All triggers.
    pub const ALL: [Self; 15] = [
        Self::Join,
        Self::Wake,
        Self::Sleep,
        Self::Restart,
        Self::Answers,
        Self::Runs,
        Self::StartFailed,
        Self::StartTimedOut,
        Self::Ended,
        Self::Idle,
        Self::Entered,
        Self::Gone,
        Self::Stopped,
        Self::StopFailed,
        Self::StopTimedOut,
    ];

    /// Returns the name for programs and pictures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Wake => "wake",
            Self::Sleep => "sleep",
            Self::Restart => "restart",
            Self::Answers => "answers",
            Self::Runs => "runs",
            Self::StartFailed => "start failed",
            Self::StartTimedOut => "start timed out",
            Self::Ended => "ended",
            Self::Idle => "idle",
            Self::Entered => "entered",
            Self::Gone => "gone",
            Self::Stopped => "stopped",
            Self::StopFailed => "stop failed",
            Self::StopTimedOut => "stop timed out",
        }
    }

    /// Returns the condition in a sentence, for documentation.
    pub fn text(self) -> &'static str {
        match self {
            Self::Join => {
                "A verified client that may wake the game joins, within the limits, and outside a pause."
            }
            Self::Wake => "`hailer serve wake`. Limits and pauses do not apply.",
            Self::Sleep => "`hailer serve sleep`.",
            Self::Restart => "With `restart = \"on-crash\"`: the pause after a crash is over.",
            Self::Answers => "The game answers a poll.",
            Self::Runs => {
                "The game does not answer, but it runs: another program started it. Two polls, or the first of this process."
            }
            Self::StartFailed => "The start returned an error.",
            Self::StartTimedOut => "No answer within `start-timeout`.",
            Self::Ended => {
                "The start succeeded, and the game does not run in three polls within 15 s or more."
            }
            Self::Idle => {
                "No players and no visits for `idle`, after `min-uptime`, outside `keep`."
            }
            Self::Entered => "A client got in just before the stop.",
            Self::Gone => {
                "No answer to three polls, and the game does not run. If it may still run, the silence must last longer."
            }
            Self::Stopped => {
                "The stop has ended, two polls are unanswered, and the game is not known to run."
            }
            Self::StopFailed => {
                "The stop returned an error or takes 5 minutes, and the game answers."
            }
            Self::StopTimedOut => "The game is silent, but still runs 5 minutes after the stop.",
        }
    }
}

/// Action of the machine in a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Only the change of the state.
    None,
    /// Starts the game.
    Start,
    /// Stops the game.
    Stop,
    /// Starts the game as soon as the state is [`State::Asleep`].
    StartLater,
}

impl Effect {
    /// Returns the effect for documentation; empty for none.
    pub fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Start => "start the game",
            Self::Stop => "stop the game",
            Self::StartLater => "start the game after the stop",
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// State before.
    pub from: State,
    /// Event that causes the change.
    pub trigger: Trigger,
    /// State after.
    pub to: State,
    /// Action of the machine.
    pub effect: Effect,
}

const fn row(from: State, trigger: Trigger, to: State, effect: Effect) -> Row {
    Row {
        from,
        trigger,
        to,
        effect,
    }
}

/// All rows. A trigger without a row changes nothing.
pub const TABLE: [Row; 23] = {
    use State::{Asleep, Failed, Running, Starting, Stopping};
    [
        row(Asleep, Trigger::Join, Starting, Effect::Start),
        row(Asleep, Trigger::Wake, Starting, Effect::Start),
        row(Asleep, Trigger::Runs, Starting, Effect::None),
        row(Asleep, Trigger::Answers, Running, Effect::None),
        row(Starting, Trigger::Answers, Running, Effect::None),
        row(Starting, Trigger::StartFailed, Failed, Effect::None),
        row(Starting, Trigger::StartTimedOut, Failed, Effect::None),
        row(Starting, Trigger::Ended, Failed, Effect::None),
        row(Starting, Trigger::Sleep, Stopping, Effect::Stop),
        row(Running, Trigger::Idle, Stopping, Effect::Stop),
        row(Running, Trigger::Sleep, Stopping, Effect::Stop),
        row(Running, Trigger::Gone, Failed, Effect::None),
        row(Stopping, Trigger::Stopped, Asleep, Effect::None),
        row(Stopping, Trigger::Join, Stopping, Effect::StartLater),
        row(Stopping, Trigger::Wake, Stopping, Effect::StartLater),
        row(Stopping, Trigger::Entered, Running, Effect::None),
        row(Stopping, Trigger::StopFailed, Running, Effect::None),
        row(Stopping, Trigger::StopTimedOut, Failed, Effect::None),
        row(Failed, Trigger::Join, Starting, Effect::Start),
        row(Failed, Trigger::Wake, Starting, Effect::Start),
        row(Failed, Trigger::Restart, Starting, Effect::Start),
        row(Failed, Trigger::Answers, Running, Effect::None),
        row(Failed, Trigger::Sleep, Stopping, Effect::Stop),
    ]
};

/// Returns the row of a state and a trigger.
pub(super) fn find(from: State, trigger: Trigger) -> Option<&'static Row> {
    TABLE
        .iter()
        .find(|row| row.from == from && row.trigger == trigger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_state_and_trigger_have_at_most_one_row() {
        let names: BTreeSet<_> = TABLE
            .iter()
            .map(|row| (row.from.name(), row.trigger.name()))
            .collect();
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn each_trigger_has_a_row() {
        for trigger in Trigger::ALL {
            let is_used = TABLE.iter().any(|row| row.trigger == trigger);
            assert!(is_used, "{trigger:?}");
        }
    }

    #[test]
    fn every_state_leads_to_every_other() {
        for from in State::ALL {
            let mut reached = vec![from];
            let mut at = 0;
            while let Some(state) = reached.get(at).copied() {
                at += 1;
                for row in TABLE.iter().filter(|row| row.from == state) {
                    if !reached.contains(&row.to) {
                        reached.push(row.to);
                    }
                }
            }
            assert_eq!(reached.len(), State::ALL.len(), "from {from:?}");
        }
    }

    #[test]
    fn only_joins_operators_and_crashes_start_the_game() {
        for row in TABLE {
            if matches!(row.effect, Effect::Start | Effect::StartLater) {
                let is_asked = matches!(
                    row.trigger,
                    Trigger::Join | Trigger::Wake | Trigger::Restart
                );
                assert!(is_asked, "{row:?}");
            }
            if row.effect == Effect::Stop {
                assert!(
                    matches!(row.trigger, Trigger::Idle | Trigger::Sleep),
                    "{row:?}"
                );
            }
        }
    }
}
