//! Hours in which messages are held: sans-IO.

use crate::sample::Millis;
use jiff::civil::Time;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

/// Hours of each day in which nobody is to be woken.
#[derive(Clone, Debug)]
pub struct QuietHours {
    windows: Vec<Window>,
    zone: TimeZone,
}

/// From, and to before; over midnight if it ends earlier than it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    from: Time,
    to: Time,
}

impl QuietHours {
    /// Windows as `22:00-07:00`, in a zone.
    ///
    /// # Errors
    /// What is no such window, and windows that leave no time of the day to tell anything: a sentence.
    pub fn new(windows: &[String], zone: TimeZone) -> Result<Self, String> {
        let windows = windows
            .iter()
            .map(|window| Window::read(window))
            .collect::<Result<Vec<_>, _>>()?;
        let quiet = Self { windows, zone };
        let is_endless = |window: &Window| quiet.windows.iter().any(|other| other.holds(window.to));
        if !quiet.windows.is_empty() && quiet.windows.iter().all(is_endless) {
            return Err("quiet hours all day: nothing would ever be told".into());
        }
        Ok(quiet)
    }

    /// If it is quiet now: until when.
    pub fn until(&self, now: Millis) -> Option<Millis> {
        let now = at(now, &self.zone);
        if !self.is_quiet(&now) {
            return None;
        }
        // Where clocks are set, an hour comes twice, or never. So all that may be the end is tried, and the first that is, is it.
        let mut ends = Vec::new();
        for days in 0..3 {
            let Ok(date) = now.date().checked_add(days.days()) else {
                break;
            };
            for window in &self.windows {
                let end = self.zone.to_ambiguous_zoned(date.to_datetime(window.to));
                ends.extend(end.clone().earlier().ok());
                ends.extend(end.later().ok());
            }
        }
        ends.extend(
            self.zone
                .following(now.timestamp())
                .next()
                .map(|set| set.timestamp().to_zoned(self.zone.clone())),
        );
        let end = ends
            .into_iter()
            .filter(|end| *end > now && !self.is_quiet(end))
            .min();
        // There is always one, as no window is endless.
        Some(end.unwrap_or(now).timestamp().as_millisecond())
    }

    /// Its zone, for the times in messages.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    fn is_quiet(&self, at: &Zoned) -> bool {
        self.windows.iter().any(|window| window.holds(at.time()))
    }
}

/// `local` for that of the machine, an offset such as `+02:00`, or a name such as `Europe/Berlin`.
///
/// # Errors
/// A sentence.
pub(super) fn read_zone(text: &str) -> Result<TimeZone, String> {
    match text {
        "local" => Ok(TimeZone::system()),
        _ => DateTimeParser::new().parse_time_zone(text).map_err(|_| {
            format!("\"{text}\" is no time zone; write \"local\", an offset such as \"+02:00\", or a name such as \"Europe/Berlin\"")
        }),
    }
}

/// A time in a zone; what no calendar has is the beginning of 1970.
pub(super) fn at(at: Millis, zone: &TimeZone) -> Zoned {
    Timestamp::from_millisecond(at)
        .unwrap_or_default()
        .to_zoned(zone.clone())
}

impl Window {
    fn read(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("\"{text}\" is no window of quiet hours; write it as \"22:00-07:00\"");
        let time = |text: &str| match text.trim() {
            "24:00" => Ok(Time::midnight()),
            text => Time::strptime("%H:%M", text).map_err(|_| wrong()),
        };
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let window = Self {
            from: time(from)?,
            to: time(to)?,
        };
        if window.from == window.to {
            return Err(format!(
                "\"{text}\" has no end; write quiet hours as \"22:00-07:00\""
            ));
        }
        Ok(window)
    }

    fn holds(self, time: Time) -> bool {
        match self.from < self.to {
            true => self.from <= time && time < self.to,
            false => self.from <= time || time < self.to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central Europe, as a rule, so that the machine's own tables do not matter.
    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    fn quiet(windows: &[&str], zone: &str) -> QuietHours {
        let windows: Vec<String> = windows.iter().map(|window| (*window).to_owned()).collect();
        QuietHours::new(&windows, read_zone(zone).unwrap()).unwrap()
    }

    fn until(quiet: &QuietHours, now: &str) -> Option<String> {
        let now: Timestamp = now.parse().unwrap();
        quiet
            .until(now.as_millisecond())
            .map(|end| Timestamp::from_millisecond(end).unwrap().to_string())
    }

    #[test]
    fn over_midnight_and_by_day() {
        let quiet = quiet(&["22:00-07:00", "12:30-13:00"], "+02:00");
        assert_eq!(until(&quiet, "2026-06-01T19:59:59Z"), None);
        assert_eq!(
            until(&quiet, "2026-06-01T20:00:00Z").unwrap(),
            "2026-06-02T05:00:00Z"
        );
        assert_eq!(
            until(&quiet, "2026-06-02T04:59:59Z").unwrap(),
            "2026-06-02T05:00:00Z"
        );
        assert_eq!(until(&quiet, "2026-06-02T05:00:00Z"), None);
        assert_eq!(
            until(&quiet, "2026-06-02T10:45:00Z").unwrap(),
            "2026-06-02T11:00:00Z"
        );
    }

    #[test]
    fn windows_that_touch_are_one() {
        let quiet = quiet(&["22:00-24:00", "00:00-06:00", "05:00-07:00"], "UTC");
        assert_eq!(
            until(&quiet, "2026-06-01T23:00:00Z").unwrap(),
            "2026-06-02T07:00:00Z"
        );
    }

    #[test]
    fn nights_in_which_clocks_are_set() {
        let night = quiet(&["22:00-07:00"], BERLIN);
        // 2026-03-29 has 23 hours, 2026-10-25 has 25: seven in the morning is seven in the morning.
        assert_eq!(
            until(&night, "2026-03-28T21:00:00Z").unwrap(),
            "2026-03-29T05:00:00Z"
        );
        assert_eq!(
            until(&night, "2026-10-24T20:00:00Z").unwrap(),
            "2026-10-25T06:00:00Z"
        );
        // Half past two never comes: at two it is three.
        let short = quiet(&["22:00-02:30"], BERLIN);
        assert_eq!(
            until(&short, "2026-03-29T00:00:00Z").unwrap(),
            "2026-03-29T01:00:00Z"
        );
        // Half past two comes twice, and two o'clock in between.
        assert_eq!(
            until(&short, "2026-10-24T23:00:00Z").unwrap(),
            "2026-10-25T00:30:00Z"
        );
        assert_eq!(
            until(&short, "2026-10-25T01:10:00Z").unwrap(),
            "2026-10-25T01:30:00Z"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let new = |windows: &[&str]| {
            let windows: Vec<String> = windows.iter().map(|window| (*window).to_owned()).collect();
            QuietHours::new(&windows, TimeZone::UTC)
                .map(drop)
                .unwrap_err()
        };
        for bad in ["22-7", "22:00", "25:00-07:00", "22:00-07:60", "-", ""] {
            assert!(new(&[bad]).contains("write it as"), "{bad}");
        }
        assert!(new(&["00:00-24:00"]).contains("no end"));
        assert!(new(&["00:00-12:00", "12:00-24:00"]).contains("all day"));
        assert!(read_zone("Mars/Olympus").unwrap_err().contains("+02:00"));
        assert!(read_zone("local").is_ok());
    }
}
