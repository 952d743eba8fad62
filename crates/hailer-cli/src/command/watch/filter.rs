//! Filter of the shown servers: words that must all occur, and states such as `!down`.

/// States that a filter names with `!`.
const STATES: [&str; 4] = ["up", "down", "new", "flapping"];

/// A filter, such as `lobby !down`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    typed: String,
    /// Words in lower case.
    words: Vec<String>,
    /// Prefixes of states, one of which the server must have.
    states: Vec<String>,
}

impl Filter {
    pub(super) fn read(typed: &str) -> Self {
        let small = typed.to_lowercase();
        let (states, words): (Vec<_>, Vec<_>) = small
            .split_whitespace()
            .partition(|word| word.starts_with('!'));
        Self {
            typed: typed.into(),
            words: words.into_iter().map(str::to_owned).collect(),
            states: states
                .into_iter()
                .map(|word| word[1..].to_owned())
                .collect(),
        }
    }

    /// Returns the text as typed.
    pub(super) fn typed(&self) -> &str {
        &self.typed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.states.is_empty()
    }

    /// Returns the first word with `!` that names no state.
    pub(super) fn unknown_state(&self) -> Option<&str> {
        let is_known =
            |word: &&String| !STATES.iter().any(|state| state.starts_with(word.as_str()));
        self.states.iter().find(is_known).map(String::as_str)
    }

    /// Returns whether a server with this state and this searchable text, in lower case, is shown.
    pub(super) fn matches(&self, state: &str, text: &str) -> bool {
        let has_state = |start: &String| state.starts_with(start.as_str());
        (self.states.is_empty() || self.states.iter().any(has_state))
            && self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::watch::simulated::board;

    #[test]
    fn matches_all_words_and_one_state() {
        let mut board = board();
        for (typed, expected) in [
            ("", "lobby survival-10 survival-9 Arena silent"),
            ("SURVIVAL", "survival-10 survival-9"),
            ("survival 10", "survival-10"),
            ("!down", "silent"),
            ("!d", "silent"),
            ("!down !flap", "Arena silent"),
            ("eu !up", "lobby survival-10 survival-9"),
            ("1.21", "survival-10"),
            ("welcome", "lobby"),
            ("§a", ""),
            ("minecraft-query:", "lobby survival-10 survival-9 silent"),
            ("!dwon", ""),
            ("nothing like that", ""),
        ] {
            board.filter_by(Filter::read(typed));
            let names: Vec<&str> = (0..board.len())
                .filter_map(|row| board.entry(row))
                .map(|entry| &*entry.seen.server.name)
                .collect();
            assert_eq!(names.join(" "), expected, "{typed}");
        }
        assert_eq!(Filter::read("a !dwon").unknown_state(), Some("dwon"));
        assert_eq!(Filter::read("!do !").unknown_state(), None);
        assert!(Filter::read("  ").is_empty() && !Filter::read("!").is_empty());
    }
}
