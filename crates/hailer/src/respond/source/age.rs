//! Status to publish depending on its age: a pure function of status and time.

use super::{Published, TimedStatus, has_codes};
use hailer_proto::{Status, Text};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Policy before the first status and for stale ones. By default, nothing is published before the
/// first status, and each status is used without an age limit.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The status before the first one of the source; `None`: no replies.
    pub before: Option<Arc<Status>>,
    /// Age at which a status is stale; `None`: never.
    pub stale_after: Option<Duration>,
    /// Treatment of a stale status.
    pub stale: Stale,
}

/// Treatment of a stale status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stale {
    /// It is published unchanged.
    #[default]
    Serve,
    /// It is published, with its age in name and MOTD.
    Say(Wording),
    /// No replies.
    Silent,
}

impl Policy {
    /// Returns what to publish now, and when to decide again without a new status.
    pub fn decide(
        &self,
        timed: Option<&TimedStatus>,
        now: Instant,
    ) -> (Published, Option<Instant>) {
        let Some(timed) = timed else {
            let before = self
                .before
                .clone()
                .map_or(Published::Silence, Published::Status);
            return (before, None);
        };
        let as_it_is = Published::Status(timed.status.clone());
        let Some(stale_after) = self.stale_after.filter(|_| self.stale != Stale::Serve) else {
            return (as_it_is, None);
        };
        let age = timed.age(now);
        if age < stale_after {
            return (as_it_is, timed.since.checked_add(stale_after));
        }
        match &self.stale {
            Stale::Serve => (as_it_is, None),
            Stale::Say(wording) => {
                let (words, until) = in_words(age);
                let shown = Published::Status(Arc::new(wording.on(&timed.status, &words)));
                (shown, timed.since.checked_add(until))
            }
            Stale::Silent => (Published::Silence, None),
        }
    }
}

/// The text of name and MOTD of a stale status, in which `{text}` stands for the original and
/// `{age}` for the age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wording(String);

/// A wording has unknown names in braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordingError;

impl fmt::Display for WordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "only {text} and {age} are allowed in braces, as in \"{text} (last seen {age} ago)\"",
        )
    }
}

impl std::error::Error for WordingError {}

impl Default for Wording {
    fn default() -> Self {
        Self("{text} (last seen {age} ago)".into())
    }
}

impl FromStr for Wording {
    type Err = WordingError;

    fn from_str(text: &str) -> Result<Self, WordingError> {
        if text
            .replace("{text}", "")
            .replace("{age}", "")
            .contains(['{', '}'])
        {
            Err(WordingError)
        } else {
            Ok(Self(text.into()))
        }
    }
}

impl Wording {
    /// Returns the status with its age in name and MOTD. Without either, the MOTD is added.
    fn on(&self, status: &Status, age: &str) -> Status {
        let mut status = status.clone();
        if status.name.is_none() && status.motd.is_none() {
            status.motd = Some(Text::legacy(fill(&self.0, "", age).trim()));
            return status;
        }
        for old in [&mut status.name, &mut status.motd].into_iter().flatten() {
            // Section signs are plain text in this name, so those of the wording would be visible.
            *old = if has_codes(old.raw(), &old.plain()) {
                Text::legacy(fill(&self.0, old.raw(), age))
            } else {
                Text::unformatted(fill(&Text::legacy(self.0.as_str()).plain(), old.raw(), age))
            };
        }
        status
    }
}

/// Inserts the original text last, so that braces in it are not replaced.
fn fill(wording: &str, text: &str, age: &str) -> String {
    wording.replace("{age}", age).replace("{text}", text)
}

/// Describes an age, and returns the age at which the description changes.
fn in_words(age: Duration) -> (String, Duration) {
    let seconds = age.as_secs();
    let (unit, word) = match seconds {
        0..60 => (1, "s"),
        60..3_600 => (60, "min"),
        3_600..172_800 => (3_600, "h"),
        _ => (86_400, "days"),
    };
    let count = seconds / unit;
    (
        format!("{count} {word}"),
        Duration::from_secs((count + 1).saturating_mul(unit)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: Option<Text>, motd: Option<Text>) -> Arc<Status> {
        Arc::new(Status {
            name,
            motd,
            ..Status::default()
        })
    }

    fn shown(published: &Published) -> Option<(Option<String>, Option<String>)> {
        let plain = |text: &Option<Text>| text.as_ref().map(Text::plain);
        match published {
            Published::Status(status) => Some((plain(&status.name), plain(&status.motd))),
            Published::Silence => None,
        }
    }

    #[test]
    fn publishes_the_initial_status_first() {
        let now = Instant::now();
        let mut policy = Policy {
            stale_after: Some(Duration::from_secs(1)),
            ..Policy::default()
        };
        assert_eq!(policy.decide(None, now), (Published::Silence, None));
        let before = status(Some(Text::unformatted("Soon")), None);
        policy.before = Some(before.clone());
        assert_eq!(policy.decide(None, now), (Published::Status(before), None));
    }

    /// Decides again at the times that the policy returns, in simulated time: every change happens
    /// exactly then.
    #[test]
    fn every_policy_changes_at_the_right_time() {
        let start = Instant::now();
        let timed = TimedStatus {
            status: status(None, Some(Text::legacy("\u{A7}aHi"))),
            since: start,
        };
        let course = |stale: Stale, stale_after: Option<u64>| {
            let policy = Policy {
                before: None,
                stale_after: stale_after.map(Duration::from_secs),
                stale,
            };
            let mut now = start;
            let mut course = Vec::new();
            for _ in 0..5 {
                let (published, again) = policy.decide(Some(&timed), now);
                course.push((
                    (now - start).as_secs(),
                    shown(&published).and_then(|(_, motd)| motd),
                ));
                match again {
                    Some(again) => now = again,
                    None => break,
                }
            }
            course
        };
        let hi = |seconds: u64, text: &str| (seconds, Some(text.to_owned()));
        assert_eq!(course(Stale::Serve, Some(60)), [hi(0, "Hi")]);
        assert_eq!(course(Stale::Silent, None), [hi(0, "Hi")]);
        assert_eq!(course(Stale::Silent, Some(60)), [hi(0, "Hi"), (60, None)]);
        assert_eq!(
            course(Stale::Say(Wording::default()), Some(90)),
            [
                hi(0, "Hi"),
                hi(90, "Hi (last seen 1 min ago)"),
                hi(120, "Hi (last seen 2 min ago)"),
                hi(180, "Hi (last seen 3 min ago)"),
                hi(240, "Hi (last seen 4 min ago)"),
            ]
        );
    }

    #[test]
    fn describes_ages_until_they_change() {
        for (seconds, words, until) in [
            (0, "0 s", 1),
            (59, "59 s", 60),
            (60, "1 min", 120),
            (3_599, "59 min", 3_600),
            (3_600, "1 h", 7_200),
            (172_799, "47 h", 172_800),
            (172_800, "2 days", 259_200),
        ] {
            assert_eq!(
                in_words(Duration::from_secs(seconds)),
                (words.into(), Duration::from_secs(until))
            );
        }
        let (_, until) = in_words(Duration::MAX);
        assert!(until > Duration::from_secs(1 << 40));
    }

    #[test]
    fn name_and_motd_have_the_wording() {
        let wording: Wording = "[{age} old] {text}".parse().unwrap();
        let old = wording.on(
            &status(
                Some(Text::unformatted("a \u{A7}b {age}")),
                Some(Text::legacy("\u{A7}cm")),
            ),
            "3 h",
        );
        // Section signs that were text remain text, and codes remain codes.
        assert_eq!(old.name.unwrap().plain(), "[3 h old] a \u{A7}b {age}");
        let motd = old.motd.unwrap();
        assert_eq!(
            (motd.plain().as_str(), motd.raw()),
            ("[3 h old] m", "[3 h old] \u{A7}cm")
        );
        let gray: Wording = "\u{A7}7{text}".parse().unwrap();
        let old = gray.on(
            &status(
                Some(Text::unformatted("\u{A7}b")),
                Some(Text::legacy("\u{A7}cm")),
            ),
            "3 h",
        );
        assert_eq!(
            (old.name.unwrap().raw(), old.motd.unwrap().plain().as_str()),
            ("\u{A7}b", "m")
        );
        let nameless = Wording::default().on(&Status::default(), "3 h");
        assert_eq!(nameless.motd.unwrap().plain(), "(last seen 3 h ago)");
        assert!("{name}".parse::<Wording>().is_err() && "{".parse::<Wording>().is_err());
    }
}
