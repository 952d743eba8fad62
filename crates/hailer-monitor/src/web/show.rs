//! Formats numbers, times and texts for pages.

use crate::sample::{Millis, Sample};
use hailer::proto::model::printable;
use hailer::proto::wire;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Narrow no-break space between groups of three digits.
const THIN: char = '\u{202F}';

/// Placeholder of unknown values.
pub(crate) const NOTHING: &str = "–";

/// Formats an integer in groups of three digits, with its noun: `1 bot`, `12 345 samples`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    wire::counted(count(number), noun)
}

/// Formats the players of a sample and their limit, without separators: `12/20`. `None` if the server
/// did not report the players.
pub(crate) fn players(sample: Sample) -> Option<String> {
    let players = sample.players?;
    Some(match sample.max {
        Some(max) => format!("{players}/{max}"),
        None => players.to_string(),
    })
}

/// Formats an integer in groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        // Four digits are readable without a separator.
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            out.push(THIN);
        }
        out.push(digit);
    }
    out
}

/// Formats a mean: one decimal if it is small.
pub(crate) fn mean(number: f64) -> String {
    match number {
        small if small < 9.95 && small.fract() != 0.0 => format!("{small:.1}"),
        number => count(number.round().max(0.0) as u64),
    }
}

/// Formats a latency given in microseconds.
pub(crate) fn latency(micros: u32) -> String {
    match micros {
        0..10_000 => format!("{:.1}{THIN}ms", f64::from(micros) / 1e3),
        _ => format!("{}{THIN}ms", count(u64::from(micros).div_ceil(1_000))),
    }
}

/// Formats a share as percent: 100 % only if it is exact, 0 % only if it is zero.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => NOTHING.into(),
        _ if part >= whole => format!("100{THIN}%"),
        _ => percent(part as f64 / whole as f64),
    }
}

/// Formats a share from 0 to 1 in the same way.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        all if all >= 100.0 => format!("100{THIN}%"),
        most if most >= 99.0 => {
            format!("{:.2}{THIN}%", ((most * 100.0).floor() / 100.0).min(99.99))
        }
        0.0 => format!("0{THIN}%"),
        some => format!("{:.1}{THIN}%", ((some * 10.0).floor() / 10.0).max(0.1)),
    }
}

/// Formats a duration with at most two units.
pub(crate) fn length(time: Millis) -> String {
    let seconds = (time / 1_000).max(0);
    let minutes = seconds / 60;
    let hours = seconds / 3_600;
    let days = seconds / 86_400;
    match seconds {
        0..60 => format!("{seconds}{THIN}s"),
        60..3_600 => format!("{minutes}{THIN}min"),
        3_600..86_400 if minutes % 60 == 0 => format!("{hours}{THIN}h"),
        3_600..86_400 => format!("{hours}{THIN}h {}{THIN}min", minutes % 60),
        86_400..864_000 if hours % 24 != 0 => format!("{days}{THIN}d {}{THIN}h", hours % 24),
        _ => format!("{}{THIN}d", count(days as u64)),
    }
}

/// Formats the age of a time. A time more than a minute in the future, from a clock that was wrong,
/// has a minus sign.
pub(crate) fn age(at: Millis, now: Millis) -> String {
    if at - now > 60_000 {
        return format!("\u{2212}{}", length(at - now));
    }
    length(now - at)
}

fn moment(at: Millis) -> DateTime {
    TimeZone::UTC.to_datetime(Timestamp::from_millisecond(at).unwrap_or_default())
}

/// Formats a time as RFC 3339, to the second.
pub(crate) fn rfc3339(at: Millis) -> String {
    let at = moment(at);
    let year = at.year();
    let month = at.month();
    let day = at.day();
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        at.hour(),
        at.minute(),
        at.second()
    )
}

/// Formats date and time, UTC; the year only if it differs from that of `now`.
pub(crate) fn time(at: Millis, now: Millis) -> String {
    format!("{} {}", date(at, now), clock(at))
}

/// Formats the time of day; with the date if it is not that of `now`.
pub(crate) fn when(at: Millis, now: Millis) -> String {
    if moment(at).date() == moment(now).date() {
        clock(at)
    } else {
        time(at, now)
    }
}

/// Formats a date; the year only if it differs from that of `now`.
pub(crate) fn date(at: Millis, now: Millis) -> String {
    let at = moment(at);
    let now = moment(now);
    let day = format!("{} {}", at.day(), month(at.month()));
    if at.year() == now.year() {
        day
    } else {
        format!("{day} {}", at.year())
    }
}

/// Formats hours and minutes, UTC.
pub(crate) fn clock(at: Millis) -> String {
    let at = moment(at);
    format!("{:02}:{:02}", at.hour(), at.minute())
}

/// Formats weekday and day of the month.
pub(crate) fn weekday(at: Millis) -> String {
    let at = moment(at);
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    format!(
        "{} {}",
        days[at.weekday().to_monday_zero_offset() as usize % 7],
        at.day()
    )
}

/// Returns the name of the month.
pub(crate) fn month_of(at: Millis) -> &'static str {
    month(moment(at).month())
}

/// Whether a day is the first of its month.
pub(crate) fn is_first_of_month(at: Millis) -> bool {
    moment(at).day() == 1
}

fn month(month: i8) -> &'static str {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    MONTHS[(month as usize - 1) % 12]
}

/// An untrusted text for one line, shortened, with the full text for a `title` attribute.
#[derive(Debug, Default)]
pub(crate) struct ShortText {
    /// Text, shortened if it was too long.
    pub(crate) text: String,
    /// Full text, up to 1,000 characters; `None`: it was not shortened.
    pub(crate) whole: Option<String>,
}

impl ShortText {
    /// Full text, for the `title` attribute where CSS may shorten it further.
    pub(crate) fn whole(&self) -> &str {
        self.whole.as_deref().unwrap_or(&self.text)
    }
}

/// Maximum length of a `title` attribute, in characters.
const MAX_TITLE_CHARS: usize = 1_000;

/// Removes control characters and shortens a text to `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> ShortText {
    // Bound the work for long texts.
    let text: String = printable(
        text.get(..text.floor_char_boundary(MAX_TITLE_CHARS * 8))
            .unwrap_or(text),
    );
    let text = text.trim();
    match text.char_indices().nth(most) {
        None => ShortText {
            text: text.into(),
            whole: None,
        },
        Some(_) => {
            let end = text
                .char_indices()
                .nth(most.saturating_sub(1))
                .map_or(text.len(), |(at, _)| at);
            let whole = text.chars().take(MAX_TITLE_CHARS).collect();
            ShortText {
                text: format!("{}…", text[..end].trim_end()),
                whole: Some(whole),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let thin = |text: &str| text.replace(' ', "\u{202F}");
        assert_eq!(
            [0, 999, 1_234, 12_345, 1_234_567].map(count),
            ["0", "999", "1234", &thin("12 345"), &thin("1 234 567")]
        );
        assert_eq!(
            [400, 9_999, 10_001].map(latency),
            [thin("0.4 ms"), thin("10.0 ms"), thin("11 ms")]
        );
        assert_eq!(share(9_999, 10_000), thin("99.99 %"));
        assert_eq!(share(99_999, 100_000), thin("99.99 %"), "not all of it");
        assert_eq!(
            (share(1, 1), share(0, 1), share(1, 9_999)),
            (thin("100 %"), thin("0 %"), thin("0.1 %"))
        );
        assert_eq!(share(0, 0), NOTHING);
        assert_eq!(
            [mean(0.0), mean(0.24), mean(9.96), mean(3.0)],
            ["0", "0.2", "10", "3"]
        );
        assert_eq!(length(59_999), thin("59 s"));
        assert_eq!(
            length(3_660_000),
            format!("{} {}", thin("1 h"), thin("1 min"))
        );
        assert_eq!(
            length(90_000_000),
            format!("{} {}", thin("1 d"), thin("1 h"))
        );
        assert_eq!(length(-1), thin("0 s"));
        assert_eq!(age(60_000, 0), thin("0 s"));
        assert_eq!(age(600_000, 0), thin("\u{2212}10 min"));
        assert_eq!(age(0, 600_000), thin("10 min"));
    }

    #[test]
    fn times_for_people_and_programs() {
        let at = 1_795_275_845_678;
        assert_eq!(rfc3339(at), "2026-11-21T15:44:05Z");
        assert_eq!(time(at, at), "21 Nov 15:44");
        assert_eq!(time(at - 365 * 86_400_000, at), "21 Nov 2025 15:44");
        assert_eq!(
            (when(at, at + 60_000), when(at - 86_400_000, at)),
            ("15:44".into(), "20 Nov 15:44".into())
        );
        assert_eq!(weekday(at), "Sat 21");
        assert_eq!(
            rfc3339(i64::MAX),
            "1970-01-01T00:00:00Z",
            "a time that no calendar has is no panic"
        );
    }

    #[test]
    fn long_texts_are_cut_and_stay_whole_in_the_title() {
        let cut_text = cut("  a\u{202E}b\ncdefgh ", 5);
        assert_eq!(
            (cut_text.text.as_str(), cut_text.whole.as_deref()),
            ("ab c…", Some("ab cdefgh"))
        );
        assert_eq!(cut("abcde", 5).whole, None);
        assert_eq!(
            cut(&"é".repeat(1_000_000), 5)
                .whole
                .unwrap()
                .chars()
                .count(),
            MAX_TITLE_CHARS
        );
    }
}
