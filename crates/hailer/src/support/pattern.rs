//! Patterns with `*`, as users write them for names.
//!
//! In: a pattern and a text. Out: whether it matches.

/// Returns whether a pattern with `*` matches a text. Worst case: quadratic time, no allocation.
/// Patterns come from the user.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let mut p = 0;
    let mut t = 0;
    // Position of the last `*`, and where the text that it matches ends.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_match_any_characters() {
        for (pattern, text, expected) in [
            ("lobby-*", "lobby-1", true),
            ("lobby-*", "lobby", false),
            ("*eu*1", "lobby-eu-11", true),
            ("*eu*1", "lobby-eu-12", false),
            ("*", "", true),
            ("**", "ü", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
