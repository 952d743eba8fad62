//! Patterns for ids of servers (spec/onequery.md#12.6).

/// Returns whether a pattern matches a whole server id: `*` is any text, `?` any character, and
/// case is ignored. The time is at most proportional to the product of both lengths.
pub fn matches(pattern: &str, id: &str) -> bool {
    let lower = |text: &str| {
        text.chars()
            .flat_map(char::to_lowercase)
            .collect::<Vec<_>>()
    };
    let pattern = lower(pattern);
    let id = lower(id);
    let mut p = 0;
    let mut i = 0;
    // Position of the last star, and how much of the id it covers.
    let mut star = None;
    while i < id.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, i));
                p += 1;
            }
            Some(&c) if c == '?' || c == id[i] => {
                p += 1;
                i += 1;
            }
            _ => match star {
                Some((at, covered)) => {
                    star = Some((at, covered + 1));
                    p = at + 1;
                    i = covered + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, id) in [
            ("*", ""),
            ("*", "a"),
            ("lobby-*", "LOBBY-1"),
            ("*-?", "eu-lobby-7"),
            ("a*b*c", "aXbXbc"),
        ] {
            assert!(matches(pattern, id), "{pattern} {id}");
        }
        for (pattern, id) in [
            ("", "a"),
            ("lobby", "lobby-1"),
            ("?", ""),
            ("a*b", "abc"),
            ("[a]", "a"),
            ("a.c", "abc"),
        ] {
            assert!(!matches(pattern, id), "{pattern} {id}");
        }
        assert!(!matches(&"*a".repeat(200), &"a".repeat(199)), "and quickly");
    }

    /// Matches with a slow implementation of the definition.
    fn slowly(pattern: &[char], id: &[char]) -> bool {
        match pattern {
            [] => id.is_empty(),
            ['*', rest @ ..] => (0..=id.len()).any(|skipped| slowly(rest, &id[skipped..])),
            [c, rest @ ..] => {
                id.first().is_some_and(|first| *c == '?' || c == first) && slowly(rest, &id[1..])
            }
        }
    }

    proptest! {
        #[test]
        fn matches_like_the_definition(pattern in "[ab*?]{0,8}", id in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &id), slowly(&chars(&pattern), &chars(&id)));
        }
    }
}
