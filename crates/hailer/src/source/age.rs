//! The age of a truth: what is said of it when, as a pure function of truth and time.

use super::{Published, TimedStatus, has_codes};
use hailer_proto::{Status, Text};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What becomes of a truth as it grows old. The default serves it for ever, and is silent before the first one.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// What is said before there is a first truth; `None`: nothing, to nobody.
    pub before: Option<Arc<Status>>,
    /// A truth is stale once it is so old; `None`: never.
    pub stale_after: Option<Duration>,
    /// What is done with a stale one.
    pub stale: Stale,
}

/// What is done with a stale truth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stale {
    /// It is served as if it were fresh.
    #[default]
    Serve,
    /// It is served, and its name and MOTD say how old it is.
    Say(Wording),
    /// Nobody is answered.
    Silent,
}

impl Policy {
    /// What to publish at a time, and when to decide again if no truth comes before.
    pub fn decide(
        &self,
        truth: Option<&TimedStatus>,
        now: Instant,
    ) -> (Published, Option<Instant>) {
        let Some(truth) = truth else {
            let before = self
                .before
                .clone()
                .map_or(Published::Silence, Published::Status);
            return (before, None);
        };
        let as_it_is = Published::Status(truth.status.clone());
        let Some(stale_after) = self.stale_after.filter(|_| self.stale != Stale::Serve) else {
            return (as_it_is, None);
        };
        let age = truth.age(now);
        if age < stale_after {
            return (as_it_is, truth.since.checked_add(stale_after));
        }
        match &self.stale {
            Stale::Serve => (as_it_is, None),
            Stale::Say(wording) => {
                let (words, until) = in_words(age);
                let said = Published::Status(Arc::new(wording.on(&truth.status, &words)));
                (said, truth.since.checked_add(until))
            }
            Stale::Silent => (Published::Silence, None),
        }
    }
}

/// How name and MOTD say that they are old: a text with `{text}`, which stands for what they were, and `{age}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wording(String);

/// A wording has braces around something that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordingError;

impl fmt::Display for WordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "braces stand only around {text} and {age}, as in \"{text} (last seen {age} ago)\"",
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
        match text
            .replace("{text}", "")
            .replace("{age}", "")
            .contains(['{', '}'])
        {
            true => Err(WordingError),
            false => Ok(Self(text.into())),
        }
    }
}

impl Wording {
    /// A status whose name and MOTD say how old it is. Where it has neither, the MOTD is what is said.
    fn on(&self, status: &Status, age: &str) -> Status {
        let mut status = status.clone();
        if status.name.is_none() && status.motd.is_none() {
            status.motd = Some(Text::legacy(fill(&self.0, "", age).trim()));
            return status;
        }
        for old in [&mut status.name, &mut status.motd].into_iter().flatten() {
            // Where section signs are text, those of the wording would be seen.
            *old = match has_codes(old.raw(), &old.plain()) {
                true => Text::legacy(fill(&self.0, old.raw(), age)),
                false => {
                    Text::unformatted(fill(&Text::legacy(self.0.as_str()).plain(), old.raw(), age))
                }
            };
        }
        status
    }
}

/// What servers say is put in last, so that nothing in it is taken for a place.
fn fill(wording: &str, text: &str, age: &str) -> String {
    wording.replace("{age}", age).replace("{text}", text)
}

/// An age as people say it, and the age at which they would say something else.
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

    fn said(published: &Published) -> Option<(Option<String>, Option<String>)> {
        let plain = |text: &Option<Text>| text.as_ref().map(Text::plain);
        match published {
            Published::Status(status) => Some((plain(&status.name), plain(&status.motd))),
            Published::Silence => None,
        }
    }

    #[test]
    fn nothing_is_known_at_first() {
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

    /// Follows its own advice on when to look again, in simulated time: every change is seen at the moment it happens.
    #[test]
    fn each_policy_takes_its_course() {
        let start = Instant::now();
        let truth = TimedStatus {
            status: status(None, Some(Text::legacy("\u{A7}aHi"))),
            since: start,
        };
        let course = |stale: Stale, stale_after: Option<u64>| {
            let policy = Policy {
                before: None,
                stale_after: stale_after.map(Duration::from_secs),
                stale,
            };
            let (mut now, mut course) = (start, Vec::new());
            for _ in 0..5 {
                let (published, again) = policy.decide(Some(&truth), now);
                course.push((
                    (now - start).as_secs(),
                    said(&published).and_then(|(_, motd)| motd),
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
    fn ages_are_words_until_they_change() {
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
    fn both_names_say_it_in_the_words_chosen() {
        let wording: Wording = "[{age} old] {text}".parse().unwrap();
        let old = wording.on(
            &status(
                Some(Text::unformatted("a \u{A7}b {age}")),
                Some(Text::legacy("\u{A7}cm")),
            ),
            "3 h",
        );
        // Section signs stay text where they were text, and codes where they were codes.
        assert_eq!(old.name.unwrap().plain(), "[3 h old] a \u{A7}b {age}");
        let motd = old.motd.unwrap();
        assert_eq!(
            (motd.plain().as_str(), motd.raw()),
            ("[3 h old] m", "[3 h old] \u{A7}cm")
        );
        let grey: Wording = "\u{A7}7{text}".parse().unwrap();
        let old = grey.on(
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
