//! Output formats. Human-readable ones contain ANSI colors, which the output stream removes unless
//! it is a terminal. Widths are terminal columns; a character has a width of 0, 1 or 2.
//!
//! In: answers, errors and other results. Out: text, tables, JSON, CSV and Parquet.
//!
//! May import: `crate::args`, `crate::exit`, `hailer`.

pub(crate) mod check;
pub(crate) mod csv;
pub(crate) mod datagram;
pub(crate) mod fields;
#[cfg(feature = "game")]
pub(crate) mod game;
#[cfg(feature = "top")]
pub(crate) mod icon;
pub(crate) mod json;
pub(crate) mod ndjson;
#[cfg(feature = "game")]
pub(crate) mod packet;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod server_lines;
pub(crate) mod table;
pub(crate) mod view;

use hailer::proto::model::printable;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Writes a line to standard error. Ignores a closed pipe, on which `eprintln!` would panic.
macro_rules! stderr {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut anstream::stderr(), format_args!("{}\n", format_args!($($text)*)));
    }};
}
pub(crate) use stderr;

/// Standard output. It removes colors unless it is a terminal, and its errors name it.
pub(crate) struct Stdout(anstream::Stdout);

/// Returns standard output.
pub(crate) fn stdout() -> Stdout {
    Stdout(anstream::stdout())
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| named(&error))
    }
}

fn named(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

/// Returns the width of the terminal on standard output, or else `COLUMNS`. `None` means unlimited.
pub(crate) fn columns() -> Option<usize> {
    let terminal = comfy_table::Table::new().width().map(usize::from);
    terminal
        .or_else(|| std::env::var("COLUMNS").ok()?.parse().ok())
        .filter(|columns| *columns > 0)
}

/// Returns text of a server as one printable line of at most `width` columns. A cut line ends with
/// `…`.
pub(crate) fn line(text: &str, width: usize) -> String {
    let text = printable(text);
    // Limits the number of characters without a width.
    let most = 4 * width;
    if text.width() <= width && text.chars().count() <= most {
        return text;
    }
    let ends = text
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take(most);
    let cut = ends
        .take_while(|&end| text[..end].width() < width)
        .last()
        .unwrap_or(0);
    format!("{}…", text[..cut].trim_end())
}

/// Pads a text with spaces to `width` columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(text.width()))
}

/// Breaks text at spaces so that it fits on the terminal to the right of `indent` columns. Longer words
/// stay whole.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    columns().map_or_else(
        || text.into(),
        |columns| wrapped_to(text, indent, columns.saturating_sub(indent)),
    )
}

fn wrapped_to(text: &str, indent: usize, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        if used > 0 && used + 1 + word.width() > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = 0;
        } else if !out.is_empty() {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += word.width();
    }
    out
}

/// Lists the counts above zero with their words: `2 lost, 3 refused`.
pub(crate) fn above_zero<'a>(counts: impl IntoIterator<Item = (u64, &'a str)>) -> String {
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    counts.join(", ")
}

/// Formats a number in about four characters: `0`, `0.4`, `12`, `950`, `1.2k`, `34k`, `5.6M`.
pub(crate) fn rate(number: f64) -> String {
    scaled(number, ["", "k", "M", "G", "T"])
}

/// Formats a number of bytes: `950 B`, `1.2 kB`.
pub(crate) fn bytes(number: f64) -> String {
    scaled(number, [" B", " kB", " MB", " GB", " TB"])
}

fn scaled(number: f64, units: [&str; 5]) -> String {
    let mut number = number.max(0.0);
    for (i, unit) in units.iter().enumerate() {
        // A number that would be rounded to four digits needs the next unit.
        if number < 999.5 || i + 1 == units.len() {
            let text = if number < 9.95 {
                format!("{number:.1}")
            } else {
                format!("{number:.0}")
            };
            return format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text));
        }
        number /= 1e3;
    }
    String::new()
}

/// Formats a duration in at most two units: `3s`, `2m 5s`, `3h 12m`, `40d 6h`.
pub(crate) fn since(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let two = |great: u64, small: u64, units: [&str; 2]| match small {
        0 => format!("{great}{}", units[0]),
        _ => format!("{great}{} {small}{}", units[0], units[1]),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, seconds % 60, ["m", "s"]),
        3_600..86_400 => two(seconds / 3_600, seconds / 60 % 60, ["h", "m"]),
        _ => two(seconds / 86_400, seconds / 3_600 % 24, ["d", "h"]),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hailer::client::Transcript;
    use hailer::proto::model::{Extra, Rule, Value};
    use hailer::proto::{Player, Text, registry};
    use hailer::{Answer, Error, Status};
    use std::time::Duration;

    fn transcript() -> Transcript {
        let address = "192.0.2.7:25565".parse().unwrap();
        Transcript {
            sent: 2,
            received: 2,
            ..Transcript::new(registry::PROTOCOLS[0].info(), address)
        }
    }

    /// Returns an answer with the same text in every field.
    pub(crate) fn answer(text: &str) -> Result<Answer, Error> {
        let mut status = Status {
            motd: Some(Text::legacy(text)),
            map: Some(text.into()),
            rules: vec![Rule {
                key: "k".into(),
                value: text.into(),
            }],
            extra: vec![Extra::new("plugins", Value::List(vec![text.into()]))],
            ..Status::default()
        };
        status.players.online = Some(-3);
        status.players.max = Some(20);
        let uuid = Some(std::array::from_fn(|i| i as u8));
        status.players.set_list(vec![
            Player {
                uuid,
                ..Player::named(Text::legacy(text))
            },
            Player::default(),
        ]);
        let latency = Duration::from_micros(12_340);
        Ok(Answer::new(transcript(), status.into(), latency))
    }

    /// Returns a typical answer: eight players, plugins, colors in the MOTD.
    #[cfg(feature = "parquet")]
    pub(crate) fn typical() -> Answer {
        let mut answer = answer("").unwrap();
        let status = &mut answer.status;
        status.motd = Some(Text::legacy("§aA Minecraft §lServer"));
        [
            &mut status.game,
            &mut status.mode,
            &mut status.map,
            &mut status.version,
        ]
        .into_iter()
        .zip(["MINECRAFT", "SMP", "world", "1.21.8"])
        .for_each(|(place, text)| *place = Some(text.into()));
        let plugins = ["WorldEdit 7.3", "Essentials 2.20", "LuckPerms 5.4"].map(Value::from);
        status.extra = vec![Extra::new("plugins", Value::List(plugins.into()))];
        status.players.set_list(
            (0..8)
                .map(|i| Player::named(Text::legacy(format!("player_{i}{i}"))))
                .collect(),
        );
        answer
    }

    pub(crate) fn failure() -> Result<Answer, Error> {
        Err(Error::Silence {
            transcript: Box::new(transcript()),
            after: Duration::from_secs(3),
        })
    }

    #[test]
    fn long_values_wrap_with_an_indent() {
        let wrapped = |text| wrapped_to(text, 4, 10);
        assert_eq!(wrapped("ten signs."), "ten signs.");
        assert_eq!(
            wrapped("one two three, 名前 名前"),
            "one two\n    three,\n    名前 名前"
        );
        assert_eq!(wrapped("a verylongword b"), "a\n    verylongword\n    b");
        assert_eq!(wrapped(&"x".repeat(11)), "x".repeat(11));
    }

    #[test]
    fn cuts_lines_by_their_width() {
        for (text, width, expected) in [
            ("plain", 5, "plain"),
            ("plainer", 5, "plai…"),
            ("two words", 5, "two…"),
            ("名前名前", 8, "名前名前"),
            ("名前名前", 7, "名前名…"),
            ("名前名前", 6, "名前…"),
            ("👩👩", 3, "👩…"),
            ("a\nb\x1b[2J", 20, "a b[2J"),
            ("", 0, ""),
            ("x", 0, "…"),
        ] {
            assert_eq!(line(text, width), expected, "{text:?} {width}");
        }
        let marks = format!("e{}", "\u{301}".repeat(10_000));
        assert!(line(&marks, 10).chars().count() <= 41);
        assert_eq!(padded("名", 4), "名  ");
    }

    #[test]
    fn formats_numbers_and_durations() {
        for (number, expected) in [
            (0.0, "0"),
            (0.04, "0"),
            (0.44, "0.4"),
            (3.0, "3"),
            (9.94, "9.9"),
            (9.96, "10"),
            (999.4, "999"),
            (999.6, "1k"),
            (1_234.0, "1.2k"),
            (98_765.0, "99k"),
            (5.6e6, "5.6M"),
            (9e17, "900000T"),
            (-1.0, "0"),
        ] {
            assert_eq!(rate(number), expected, "{number}");
        }
        assert_eq!([bytes(17.0), bytes(1_048_576.0)], ["17 B", "1 MB"]);
        let times = [
            0.9,
            59.0,
            60.0,
            125.0,
            3_600.0,
            11_520.0,
            86_400.0,
            3_477_600.0,
        ]
        .map(since);
        assert_eq!(
            times,
            ["0s", "59s", "1m", "2m 5s", "1h", "3h 12m", "1d", "40d 6h"]
        );
    }
}
