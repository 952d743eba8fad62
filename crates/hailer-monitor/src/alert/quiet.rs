//! Quiet hours, in which messages are held. No I/O; the caller passes the time.

use crate::sample::Millis;
use jiff::civil::Time;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

/// Daily time windows in which messages are held.
#[derive(Clone, Debug)]
pub struct QuietHours {
    windows: Vec<Window>,
    zone: TimeZone,
}

/// From `from` to before `to`; across midnight if it ends earlier than it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    from: Time,
    to: Time,
}

impl QuietHours {
    /// Parses windows such as `22:00-07:00`, in the time zone `zone`.
    ///
    /// # Errors
    /// If a window is invalid, or if the windows cover the whole day.
    pub fn new(windows: &[String], zone: TimeZone) -> Result<Self, String> {
        let windows = windows
            .iter()
            .map(|window| Window::read(window))
            .collect::<Result<Vec<_>, _>>()?;
        let quiet = Self { windows, zone };
        let is_endless = |window: &Window| quiet.windows.iter().any(|other| other.holds(window.to));
        if !quiet.windows.is_empty() && quiet.windows.iter().all(is_endless) {
            return Err(
                "quiet hours cover the whole day, so no message would be sent; shorten one".into(),
            );
        }
        Ok(quiet)
    }

    /// Returns the end of the quiet hours in Unix milliseconds, or `None` outside of them.
    pub fn until(&self, now: Millis) -> Option<Millis> {
        let now = at(now, &self.zone);
        if !self.is_quiet(&now) {
            return None;
        }
        // Around a change of the clocks, a local time occurs twice or never. Try all candidates and
        // take the first that is not quiet.
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
        // There is always one, since the windows do not cover the whole day.
        Some(end.unwrap_or(now).timestamp().as_millisecond())
    }

    fn is_quiet(&self, at: &Zoned) -> bool {
        self.windows.iter().any(|window| window.holds(at.time()))
    }
}

/// Parses a time zone: `local`, an offset such as `+02:00`, or a name such as `Europe/Berlin`.
///
/// # Errors
/// If it is none of these.
pub(super) fn read_zone(text: &str) -> Result<TimeZone, String> {
    match text {
        "local" => Ok(TimeZone::system()),
        _ => DateTimeParser::new().parse_time_zone(text).map_err(|_| {
            format!("\"{text}\" is not a time zone; write \"local\", an offset such as \"+02:00\", or a name such as \"Europe/Berlin\"")
        }),
    }
}

/// Converts Unix milliseconds to a local time. Values out of range become 1970-01-01.
pub(super) fn at(at: Millis, zone: &TimeZone) -> Zoned {
    Timestamp::from_millisecond(at)
        .unwrap_or_default()
        .to_zoned(zone.clone())
}

impl Window {
    fn read(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("\"{text}\" is not a time window; write quiet hours as \"22:00-07:00\"");
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
                "\"{text}\" begins and ends at the same time; write quiet hours as \"22:00-07:00\""
            ));
        }
        Ok(window)
    }

    fn holds(self, time: Time) -> bool {
        if self.from < self.to {
            self.from <= time && time < self.to
        } else {
            self.from <= time || time < self.to
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central Europe as a POSIX rule, independent of the time zone database of the machine.
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
    fn windows_cross_midnight() {
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
    fn adjacent_windows_are_joined() {
        let quiet = quiet(&["22:00-24:00", "00:00-06:00", "05:00-07:00"], "UTC");
        assert_eq!(
            until(&quiet, "2026-06-01T23:00:00Z").unwrap(),
            "2026-06-02T07:00:00Z"
        );
    }

    #[test]
    fn windows_end_at_local_time_when_clocks_change() {
        let night = quiet(&["22:00-07:00"], BERLIN);
        // 2026-03-29 has 23 hours and 2026-10-25 has 25.
        assert_eq!(
            until(&night, "2026-03-28T21:00:00Z").unwrap(),
            "2026-03-29T05:00:00Z"
        );
        assert_eq!(
            until(&night, "2026-10-24T20:00:00Z").unwrap(),
            "2026-10-25T06:00:00Z"
        );
        // 02:30 does not occur: 02:00 is followed by 03:00.
        let short = quiet(&["22:00-02:30"], BERLIN);
        assert_eq!(
            until(&short, "2026-03-29T00:00:00Z").unwrap(),
            "2026-03-29T01:00:00Z"
        );
        // 02:30 occurs twice.
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
    fn rejects_invalid_windows_and_zones() {
        let new = |windows: &[&str]| {
            let windows: Vec<String> = windows.iter().map(|window| (*window).to_owned()).collect();
            QuietHours::new(&windows, TimeZone::UTC)
                .map(drop)
                .unwrap_err()
        };
        for bad in ["22-7", "22:00", "25:00-07:00", "22:00-07:60", "-", ""] {
            assert!(new(&[bad]).contains("22:00-07:00"), "{bad}");
        }
        assert!(new(&["00:00-24:00"]).contains("the same time"));
        assert!(new(&["00:00-12:00", "12:00-24:00"]).contains("whole day"));
        assert!(read_zone("Mars/Olympus").unwrap_err().contains("+02:00"));
        assert!(read_zone("local").is_ok());
    }
}
