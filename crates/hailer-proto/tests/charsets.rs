//! Character sets guessed from single names of servers. The share of right guesses is part of
//! docs/query.md, where it must be correct.
//!
//! The names are invented. A guess for a status uses all of its texts, and is therefore better.

use encoding_rs::{BIG5, EUC_KR, Encoding, GBK, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};
use hailer_proto::Charset;
use hailer_testkit::golden;
use std::fmt::Write;

/// Character sets, their languages and names.
const NAMES: [(&Encoding, &str, &str); 6] = [
    (
        GBK,
        "Chinese, simplified",
        include_str!("names/chinese-simplified.txt"),
    ),
    (
        BIG5,
        "Chinese, traditional",
        include_str!("names/chinese-traditional.txt"),
    ),
    (SHIFT_JIS, "Japanese", include_str!("names/japanese.txt")),
    (EUC_KR, "Korean", include_str!("names/korean.txt")),
    (WINDOWS_1251, "Russian", include_str!("names/russian.txt")),
    (
        WINDOWS_1252,
        "Western European",
        include_str!("names/western.txt"),
    ),
];
/// Smallest share of right guesses for each language.
const MIN_SHARE: f64 = 0.9;

#[test]
fn single_names_are_guessed() {
    let mut complaints = Vec::new();
    let docs = std::fs::read_to_string(golden::root().join("docs/query.md")).unwrap_or_default();
    for (encoding, language, names) in NAMES {
        let names: Vec<&str> = names.lines().collect();
        assert!(names.len() >= 50, "{language}");
        let mut wrong = String::new();
        let mut right = 0;
        for name in &names {
            let (bytes, _, is_lossy) = encoding.encode(name);
            assert!(!is_lossy && std::str::from_utf8(&bytes).is_err(), "{name}");
            let guess = Charset::guess(&bytes);
            if guess.decode(&bytes).as_deref() == Some(*name) {
                right += 1;
            } else {
                let _ = write!(wrong, " {name} ({guess})");
            }
        }
        let share = f64::from(right) / names.len() as f64;
        if share < MIN_SHARE {
            complaints.push(format!(
                "{language}: {right} of {}; wrong:{wrong}",
                names.len()
            ));
        }
        let row = format!(
            "| {language} | {} | {right} of {} |",
            encoding.name(),
            names.len()
        );
        if !docs.contains(&row) {
            complaints.push(format!("docs/query.md lacks: {row}; wrong:{wrong}"));
        }
    }
    golden::settle(&complaints);
}

/// A server and two of its players.
#[test]
fn three_names_are_guessed_better_than_one() {
    for (encoding, language, names) in NAMES {
        let names: Vec<&str> = names.lines().collect();
        let right = names.windows(3).filter(|names| {
            let bytes = encoding.encode(&names.join("\n")).0.into_owned();
            Charset::guess(&bytes).decode(&bytes) == Some(names.join("\n"))
        });
        let (right, all) = (right.count(), names.len() - 2);
        assert!(right * 100 >= all * 97, "{language}: {right} of {all}");
    }
}
