//! Errors in arguments, in one line with the correction.
//!
//! Clap writes the errors itself, except those of options without a value and of invalid numbers:
//! these list the accepted values.

use super::Arguments;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, CommandFactory, Parser};
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

/// Returns the text of an error in these arguments, or `None` if that of clap is good.
pub(crate) fn line(error: &Error, words: &[OsString]) -> Option<String> {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = of(ContextKind::InvalidArg)?;
    let option = argument.split([' ', '=']).next()?;
    match error.kind() {
        ErrorKind::InvalidValue if of(ContextKind::InvalidValue) == Some("") => {
            Some(missing(error, argument, option, words))
        }
        ErrorKind::ValueValidation => {
            let value = of(ContextKind::InvalidValue)?;
            if value.is_empty() {
                return Some(format!("{option}: {}", error.source()?));
            }
            let expected = expected(error, option, words)?;
            Some(format!(
                "invalid value '{value}' for '{argument}': {expected}"
            ))
        }
        _ => None,
    }
}

/// Returns the text for an option without a value. Lists its values, or has the error of its parser
/// for an empty value.
fn missing(error: &Error, argument: &str, option: &str, words: &[OsString]) -> String {
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && !values.is_empty()
    {
        return format!("{option} needs a value: one of {}", values.join(", "));
    }
    let short = argument_of(option, words).and_then(|argument| argument.get_short());
    let short = short.map(|letter| format!("-{letter}"));
    let is_option = |word: &OsString| {
        let word = word.to_str();
        word == Some(option) || word.is_some() && word == short.as_deref()
    };
    let is_value = |word: &OsString| !word.to_string_lossy().starts_with('-');
    let mut again = words.to_vec();
    for at in 0..words.len() {
        if is_option(&words[at]) && !words.get(at + 1).is_some_and(is_value) {
            again[at].push("=");
        }
    }
    let accepted = Arguments::try_parse_from(&again).err().and_then(|error| {
        let is_same =
            error.get(ContextKind::InvalidArg) == Some(&ContextValue::String(argument.to_owned()));
        let is_about_value = is_same && error.kind() == ErrorKind::ValueValidation;
        let own = expected(&error, option, words);
        is_about_value.then(|| own.or_else(|| Some(error.source()?.to_string())))?
    });
    match accepted {
        Some(expected) => format!("{option} needs a value: {expected}"),
        None => format!("{option} needs a value, as in `{argument}`"),
    }
}

/// Describes the numbers that an option accepts. `None` if the error is not about a number.
fn expected(error: &Error, option: &str, words: &[OsString]) -> Option<String> {
    let source = error.source()?;
    if let Some(problem) = source.downcast_ref::<ParseIntError>() {
        return Some(match problem.kind() {
            IntErrorKind::PosOverflow => "the number is too large".into(),
            IntErrorKind::NegOverflow => "the number is too small".into(),
            _ => {
                let argument = argument_of(option, words);
                let defaults = argument.as_ref().map(Arg::get_default_values);
                let example = defaults
                    .and_then(<[_]>::first)
                    .and_then(|text| text.to_str());
                format!(
                    "expected a whole number, such as {}",
                    example.unwrap_or("1")
                )
            }
        });
    }
    let text = source.to_string();
    let (first, last) = text.split_once(" is not in ")?.1.split_once("..")?;
    let last = match last.strip_prefix('=') {
        Some(last) => last.parse().ok(),
        None => last.parse().ok().map(|after: u64| after - 1),
    };
    Some(match last {
        Some(last) => format!("expected a whole number from {first} to {last}"),
        None => format!("expected a whole number of at least {first}"),
    })
}

/// Returns the definition of an option of the subcommand.
fn argument_of(option: &str, words: &[OsString]) -> Option<Arg> {
    let name = words.get(1)?.to_str()?;
    let long = option.strip_prefix("--")?;
    let mut command = Arguments::command();
    let command = command.find_subcommand_mut(name)?;
    let mut all = command.get_arguments();
    all.find(|argument| argument.get_long() == Some(long))
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(command: &str) -> Option<String> {
        let words: Vec<OsString> = command.split_whitespace().map(Into::into).collect();
        line(&Arguments::try_parse_from(&words).err()?, &words)
    }

    #[test]
    fn a_missing_value_is_explained() {
        for (command, expected) in [
            (
                "hailer query HOST --timeout",
                "--timeout needs a value: expected a time such as 1s, 500ms or 2m",
            ),
            (
                "hailer query HOST --timeout --json",
                "--timeout needs a value: expected a time such as 1s, 500ms or 2m",
            ),
            (
                "hailer query HOST -p",
                "--protocol needs a value: the known protocols are minecraft-query, ugp",
            ),
            (
                "hailer query HOST --retries",
                "--retries needs a value: expected a whole number, such as 3",
            ),
            (
                "hailer serve --name",
                "--name needs a value, as in `--name <NAME>`",
            ),
            (
                "hailer check HOST --fail-on",
                "--fail-on needs a value: one of deviation, note, warning, error, never",
            ),
            (
                "hailer serve --farm",
                "--farm: simulated servers have their own command: run `hailer farm 127.0.0.0/8`",
            ),
            (
                "hailer farm --silent",
                "--silent needs a value: expected a share such as 20% or 0.2, at most 100%",
            ),
        ] {
            let text = text(command).unwrap_or_default();
            assert!(text.starts_with(expected), "{command}: {text}");
        }
    }

    #[test]
    fn an_invalid_number_is_explained() {
        for (command, expected) in [
            (
                "hailer query HOST --retries many",
                "invalid value 'many' for '--retries <N>': expected a whole number, such as 3",
            ),
            (
                "hailer decode 00 --port 65536",
                "invalid value '65536' for '--port <N>': expected a whole number from 0 to 65535",
            ),
            (
                "hailer sweep HOST --seed 99999999999999999999",
                "invalid value '99999999999999999999' for '--seed <N>': the number is too large",
            ),
        ] {
            assert_eq!(text(command).as_deref(), Some(expected), "{command}");
        }
    }

    #[test]
    fn other_errors_keep_their_text() {
        for command in [
            "hailer query",
            "hailer query HOST --timeout soon",
            "hailer query HOST --no-such-option",
            "hailer --help",
        ] {
            assert_eq!(text(command), None, "{command}");
        }
    }
}
