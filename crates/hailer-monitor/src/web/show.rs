//! Numbers, times and texts as the page shows them.

use crate::sample::Millis;
use hailer::proto::model::printable;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Between groups of three digits: a narrow space that does not break.
const THIN: char = '\u{202F}';

/// What stands where nothing is known.
pub(crate) const NOTHING: &str = "–";

/// A whole number in groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        // A four-digit number is read well without.
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            out.push(THIN);
        }
        out.push(digit);
    }
    out
}

/// A mean: a digit behind the point where it is small.
pub(crate) fn mean(number: f64) -> String {
    match number {
        small if small < 9.95 && small.fract() != 0.0 => format!("{small:.1}"),
        number => count(number.round().max(0.0) as u64),
    }
}

/// A latency, from microseconds.
pub(crate) fn latency(micros: u32) -> String {
    match micros {
        0..10_000 => format!("{:.1}{THIN}ms", f64::from(micros) / 1e3),
        _ => format!("{}{THIN}ms", count(u64::from(micros).div_ceil(1_000))),
    }
}

/// A share: never 100 % if anything is missing, never 0 % if anything is there.
pub(crate) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => NOTHING.into(),
        _ if part >= whole => format!("100{THIN}%"),
        _ => percent(part as f64 / whole as f64),
    }
}

/// The same, of a share that is worked out already.
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

/// A length of time: two units at most.
pub(crate) fn length(time: Millis) -> String {
    let seconds = (time / 1_000).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}{THIN}s"),
        60..3_600 => format!("{minutes}{THIN}min"),
        3_600..86_400 if minutes % 60 == 0 => format!("{hours}{THIN}h"),
        3_600..86_400 => format!("{hours}{THIN}h {}{THIN}min", minutes % 60),
        86_400..864_000 if hours % 24 != 0 => format!("{days}{THIN}d {}{THIN}h", hours % 24),
        _ => format!("{}{THIN}d", count(days as u64)),
    }
}

fn moment(at: Millis) -> DateTime {
    TimeZone::UTC.to_datetime(Timestamp::from_millisecond(at).unwrap_or_default())
}

/// For programs: RFC 3339, to the second.
pub(crate) fn rfc3339(at: Millis) -> String {
    let at = moment(at);
    let (year, month, day) = (at.year(), at.month(), at.day());
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        at.hour(),
        at.minute(),
        at.second()
    )
}

/// For people: day and time of day, UTC; the year only where it is another than that of `now`.
pub(crate) fn time(at: Millis, now: Millis) -> String {
    format!("{} {}", date(at, now), clock(at))
}

/// The time of day, and the day where it is another than that of `now`.
pub(crate) fn when(at: Millis, now: Millis) -> String {
    if moment(at).date() == moment(now).date() {
        clock(at)
    } else {
        time(at, now)
    }
}

/// The day; the year only where it is another than that of `now`.
pub(crate) fn date(at: Millis, now: Millis) -> String {
    let (at, now) = (moment(at), moment(now));
    let day = format!("{} {}", at.day(), month(at.month()));
    if at.year() == now.year() {
        day
    } else {
        format!("{day} {}", at.year())
    }
}

/// Hours and minutes, UTC.
pub(crate) fn clock(at: Millis) -> String {
    let at = moment(at);
    format!("{:02}:{:02}", at.hour(), at.minute())
}

/// The day of the week and of the month.
pub(crate) fn weekday(at: Millis) -> String {
    let at = moment(at);
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    format!(
        "{} {}",
        days[at.weekday().to_monday_zero_offset() as usize % 7],
        at.day()
    )
}

/// The month.
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

/// A hostile text for one line: cut, with all of it for the `title` where it was cut.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// What is shown.
    pub(crate) text: String,
    /// The whole, up to some thousand characters; `None`: nothing was cut.
    pub(crate) whole: Option<String>,
}

impl Cut {
    /// All of it, for the `title` of what a narrow column may cut once more.
    pub(crate) fn whole(&self) -> &str {
        self.whole.as_deref().unwrap_or(&self.text)
    }
}

/// Characters of a whole text that a `title` shows.
const WHOLE: usize = 1_000;

/// Cuts a text to so many characters, without those that steer what is around it.
pub(crate) fn cut(text: &str, most: usize) -> Cut {
    // What no line shows need not be gone through: twice as many bytes as can be shown are enough to tell.
    let text: String = printable(
        text.get(..text.floor_char_boundary(WHOLE * 8))
            .unwrap_or(text),
    );
    let text = text.trim();
    match text.char_indices().nth(most) {
        None => Cut {
            text: text.into(),
            whole: None,
        },
        Some(_) => {
            let end = text
                .char_indices()
                .nth(most.saturating_sub(1))
                .map_or(text.len(), |(at, _)| at);
            let whole = text.chars().take(WHOLE).collect();
            Cut {
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
            WHOLE
        );
    }
}
