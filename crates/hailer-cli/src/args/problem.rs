//! Errors in arguments, in one line with the correction.
//!
//! Clap finds the errors; this module writes them. Flags that other tools have, or that earlier
//! versions had, have a row in [`HINTS`].

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command};
use hailer::support::catalog;
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;

/// Words that users try, and the correction: subcommand (empty: every one with targets), words,
/// correction.
static HINTS: &[(&str, &[&str], &str)] = &[
    (
        "serve",
        &["--port", "--bind", "--address", "--host"],
        "write --listen ADDRESS:PORT, such as --listen 127.0.0.1:25565",
    ),
    (
        "serve",
        &[
            "--farm",
            "--variant-seed",
            "--silent",
            "--loss",
            "--duplicates",
            "--delay",
            "--jitter",
            "--variants",
        ],
        "simulated servers have their own command: run `hailer farm 127.0.0.0/8`",
    ),
    (
        "serve",
        &[
            "--build",
            "--only-build",
            "--world",
            "--world-seed",
            "--game-mode",
            "--view-distance",
            "--encryption",
        ],
        "the game server has its own command: run `hailer world`",
    ),
    (
        "serve",
        &["--players", "--online"],
        "name each player with --player NAME, or simulate a server with --demo",
    ),
    ("serve", &["--max"], "write --max-players N"),
    (
        "farm",
        &["--listen", "-l", "--bind"],
        "name networks inside 127.0.0.0/8, and ports with --port PROTOCOL=PORT",
    ),
    (
        "monitor",
        &["--port", "--web", "--bind", "--address", "--http"],
        "write --listen ADDRESS:PORT, such as --listen 127.0.0.1:8080",
    ),
    (
        "monitor",
        &["--data", "--db", "--database"],
        "write --history FILE",
    ),
    (
        "monitor",
        &["--targets", "--file", "--servers"],
        "list the servers in a file for --config; `hailer monitor --example` prints one",
    ),
    (
        "world",
        &["--port", "-p"],
        "write --listen ADDRESS:PORT, such as --listen 127.0.0.1:25565",
    ),
    (
        "proxy",
        &["--port", "-p"],
        "write --listen ADDRESS:PORT, such as --listen 127.0.0.1:25566",
    ),
    (
        "proxy",
        &["--target", "--server", "--host"],
        "write --to HOST:PORT",
    ),
    (
        "discover",
        &["--timeouts", "--time", "--wait"],
        "write --timeout TIME",
    ),
    (
        "check",
        &["--source"],
        "--source is for query, ping, watch, sweep and monitor; a check sends from any address",
    ),
    ("ping", &["-n", "--number"], "write --count N"),
    ("ping", &["-w", "-W"], "write --timeout TIME"),
    (
        "sweep",
        &["--file", "-f", "--list", "-t", "--input", "-i"],
        "write --targets FILE",
    ),
    (
        "sweep",
        &["--target"],
        "write targets without an option, or --targets FILE",
    ),
    ("sweep", &["--csv"], "write --format csv, or -o FILE.csv"),
    ("sweep", &["--parquet"], "write -o FILE.parquet"),
    (
        "sweep",
        &["--parallel", "--concurrency"],
        "write --rate N for the datagrams per second, or --threads N",
    ),
    (
        "query",
        &["--file", "-f", "--targets", "--list", "-t", "--input"],
        "query the lines of a file with `hailer query - < FILE`, or with `hailer sweep --targets FILE`",
    ),
    (
        "query",
        &["--output", "-o", "--csv", "--format", "--parquet"],
        "write --json, or `hailer sweep TARGET -o FILE.csv`",
    ),
    ("query", &["--watch", "-w"], "run `hailer watch TARGET`"),
    (
        "games",
        &["--protocol", "-p"],
        "name the protocol alone: `hailer games a2s`",
    ),
    (
        "games",
        &["--game", "-g"],
        "name the game alone: `hailer games valheim`",
    ),
    ("check", &["--strict"], "write --fail-on note"),
    (
        "check",
        &["--all"],
        "all requirements are tested by default; --load adds those under load",
    ),
    (
        "decode",
        &["--file", "-f", "--input", "-i"],
        "name the file alone: `hailer decode FILE`",
    ),
    ("", &["--port"], "write the port in the target: HOST:PORT"),
    (
        "",
        &["--host", "--server", "--target", "--address"],
        "write the target alone: HOST, HOST:PORT or PROTOCOL://HOST:PORT",
    ),
    ("", &["-j"], "write --json"),
    ("", &["-t"], "write --timeout TIME"),
    (
        "",
        &["-v", "--verbose", "--debug"],
        "write --raw to see every datagram, or see --help",
    ),
    (
        "",
        &["-6", "--ipv6", "-4", "--ipv4"],
        "write the address as target, such as [2001:db8::1]:25565",
    ),
];

/// Examples of the subcommands that need a target or another word.
static EXAMPLES: &[(&str, &str)] = &[
    ("query", "query play.example.com"),
    ("ping", "ping minecraft://play.example.com"),
    ("check", "check minecraft-query://127.0.0.1"),
    ("watch", "watch play.example.com ugp://192.0.2.7"),
    ("join", "join play.example.com"),
    ("proxy", "proxy --to play.example.com:25565"),
    ("monitor add", "monitor add ugp://192.0.2.7 --name Lobby"),
    ("monitor remove", "monitor remove Lobby"),
    ("completions", "completions bash"),
];

/// Returns the text of an error in these arguments of the tool, or `None` for help and version.
pub(crate) fn line(error: &Error, tool: &Command, words: &[OsString]) -> Option<String> {
    let name = subcommand(tool, words);
    let of = |kind| context(error, kind);
    Some(match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::DisplayVersion => return None,
        ErrorKind::UnknownArgument => unknown(&of(ContextKind::InvalidArg), &name, tool, words),
        ErrorKind::InvalidSubcommand => {
            unknown_command(&of(ContextKind::InvalidSubcommand), &name, tool, words)
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = of(ContextKind::InvalidArg);
            if words.iter().any(|word| word == "--check-config") {
                return Some(format!(
                    "name the configuration file: `hailer {name} --config FILE --check-config`"
                ));
            }
            let example = EXAMPLES.iter().find(|(of, _)| *of == name);
            let example = match example.filter(|_| !missing.starts_with('-')) {
                Some((_, example)) => format!(", as in `hailer {example}`"),
                None => format!("; write {}", usage(error, &name)),
            };
            format!("{missing} is missing{example}")
        }
        ErrorKind::ArgumentConflict => conflict(error, &name, words),
        ErrorKind::InvalidValue if of(ContextKind::InvalidValue).is_empty() => {
            let argument = of(ContextKind::InvalidArg);
            missing(error, &argument, option_of(&argument), tool, words)
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => invalid_value(error, tool, words),
        _ => {
            let rendered = error.render().to_string();
            let first = rendered.lines().next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            format!("{first}; {}", help(&name))
        }
    })
}

/// Returns the texts of a context, joined.
fn context(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    }
}

/// Returns the option of a text such as `--protocol <PROTOCOL>`.
fn option_of(argument: &str) -> &str {
    argument.split([' ', '=']).next().unwrap_or_default()
}

/// Returns the subcommand, and that of `monitor` or `serve` behind it: `monitor add`.
fn subcommand(tool: &Command, words: &[OsString]) -> String {
    let mut command = tool;
    let mut names = Vec::new();
    for word in words.iter().skip(1) {
        let Some(next) = word.to_str().and_then(|word| command.find_subcommand(word)) else {
            break;
        };
        names.push(next.get_name().to_owned());
        command = next;
    }
    names.join(" ")
}

/// Returns the definition of a subcommand.
fn definition<'a>(tool: &'a Command, name: &str) -> &'a Command {
    let mut command = tool;
    for word in name.split_whitespace() {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    command
}

fn help(name: &str) -> String {
    let space = if name.is_empty() { "" } else { " " };
    format!("see `hailer {name}{space}--help`")
}

/// Returns how the command is written, without the options that are not needed.
fn usage(error: &Error, name: &str) -> String {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else {
        return help(name);
    };
    let usage = usage.to_string();
    let first = usage.lines().next().unwrap_or_default();
    format!("`{}`", first.trim_start_matches("Usage:").trim())
}

/// Returns the text for an argument that the command does not have.
fn unknown(argument: &str, name: &str, tool: &Command, words: &[OsString]) -> String {
    let option = option_of(argument);
    let main = name.split(' ').next().unwrap_or_default();
    let has_targets = ["query", "ping", "check", "watch", "sweep", "join"].contains(&main);
    let mut hints = HINTS.iter();
    let hint = hints.find(|(of, words, _)| {
        let is_of = if of.is_empty() {
            has_targets
        } else {
            *of == main
        };
        is_of && words.contains(&option)
    });
    if let Some((.., hint)) = hint {
        return format!("`hailer {main}` has no {option}: {hint}");
    }
    if !option.starts_with('-') {
        return unexpected(argument, name);
    }
    if option[1..].starts_with(|first: char| first.is_ascii_digit()) {
        let at = words.iter().position(|word| word == option);
        let before = at.and_then(|at| words.get(at.checked_sub(1)?)?.to_str());
        let before = before.filter(|word| word.starts_with("--"));
        return format!(
            "{option} looks like an option; write a negative number as `{}={option}`",
            before.unwrap_or("--option")
        );
    }
    let definition = definition(tool, name);
    let shown: Vec<&str> = definition
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
        .filter_map(Arg::get_long)
        .chain(["help"])
        .chain(name.is_empty().then_some("version"))
        .collect();
    let written = option.trim_start_matches('-');
    let begins = |known: &&&str| written.len() > 1 && known.starts_with(written);
    let close = shown.iter().find(begins).copied();
    match close.or_else(|| catalog::closest(written, shown.iter().copied())) {
        Some(close) => format!("unknown option {option}; did you mean --{close}?"),
        None => format!("unknown option {option}; {}", help(name)),
    }
}

/// Returns the text for a word that is neither an option nor a target.
fn unexpected(word: &str, name: &str) -> String {
    match name {
        "discover" => format!(
            "discover searches the local network and takes no target; `hailer sweep {word}` queries a range"
        ),
        "ping" | "check" => {
            format!("`hailer {name}` takes one target, and {word} is another; run it once for each")
        }
        "proxy" => format!("{word} is no option; write --to {word}"),
        _ => format!("unexpected argument {word}; {}", help(name)),
    }
}

/// Returns the text for a word that is no subcommand.
fn unknown_command(word: &str, name: &str, tool: &Command, words: &[OsString]) -> String {
    if !name.is_empty() {
        return with_file(word, name).unwrap_or_else(|| {
            let definition = definition(tool, name);
            let actions = definition.get_subcommands().map(Command::get_name);
            match catalog::closest(word, actions) {
                Some(close) => {
                    format!("unknown action {word}; did you mean `hailer {name} {close}`?")
                }
                None => format!("unexpected argument {word}; {}", help(name)),
            }
        });
    }
    let shown = tool.get_subcommands();
    let shown = shown.filter(|command| !command.is_hide_set());
    let close = catalog::closest(word, shown.map(Command::get_name));
    let is_target = word.contains(['.', ':']) || word == "localhost";
    match close {
        _ if words.get(1).is_some_and(|first| first == "help") => {
            format!("unknown command {word}; `hailer --help` lists the commands")
        }
        Some(close) => format!("unknown command {word}; did you mean `hailer {close}`?"),
        None if is_target => format!("{word} is no command; did you mean `hailer query {word}`?"),
        None => format!("unknown command {word}; `hailer --help` lists the commands"),
    }
}

/// Returns the text for a configuration file without `--config`.
fn with_file(word: &str, name: &str) -> Option<String> {
    let is_file = Path::new(word).extension().is_some_and(|end| end == "toml");
    (is_file || Path::new(word).is_file()).then(|| {
        format!("name the configuration file with --config: `hailer {name} --config {word}`")
    })
}

/// Returns the text for two arguments that exclude each other.
fn conflict(error: &Error, name: &str, words: &[OsString]) -> String {
    let argument = context(error, ContextKind::InvalidArg);
    let mut prior = context(error, ContextKind::PriorArg);
    let sub = context(error, ContextKind::InvalidSubcommand);
    // A file counts as an action.
    let is_check = words.iter().any(|word| word == "--check-config");
    let mut files = words.iter().skip(2).filter_map(|word| word.to_str());
    if is_check
        && !sub.is_empty()
        && let Some(file) = files.find(|word| with_file(word, name).is_some())
    {
        return format!(
            "name the configuration file with --config: `hailer {name} --config {file} --check-config`"
        );
    }
    let argument = if argument.is_empty() { sub } else { argument };
    if prior.is_empty() {
        prior = "other options".into();
    }
    if argument == prior {
        return format!("{argument} may be given only once");
    }
    format!("{argument} and {prior} exclude each other; drop one")
}

/// Returns the text for a value that an option does not accept.
fn invalid_value(error: &Error, tool: &Command, words: &[OsString]) -> String {
    let argument = context(error, ContextKind::InvalidArg);
    let option = option_of(&argument);
    let value = context(error, ContextKind::InvalidValue);
    let source = error.source().map(ToString::to_string);
    if value.is_empty() {
        return format!("{option}: {}", source.unwrap_or_default());
    }
    let expected = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) => {
            let mut expected = format!("expected one of {}", values.join(", "));
            if let Some(close) = catalog::closest(&value, values.iter().map(String::as_str)) {
                expected = format!("did you mean {close}?");
            }
            expected
        }
        _ => expected(error, option, tool, words)
            .or(source)
            .unwrap_or_default(),
    };
    format!("invalid value '{value}' for '{argument}': {expected}")
}

/// Returns the text for an option without a value. Lists its values, or has the error of its parser
/// for an empty value.
fn missing(
    error: &Error,
    argument: &str,
    option: &str,
    tool: &Command,
    words: &[OsString],
) -> String {
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && !values.is_empty()
    {
        return format!("{option} needs a value: one of {}", values.join(", "));
    }
    let short = argument_of(option, tool, words).and_then(|argument| argument.get_short());
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
    let accepted = tool
        .clone()
        .try_get_matches_from(&again)
        .err()
        .and_then(|error| {
            let is_same = error.get(ContextKind::InvalidArg)
                == Some(&ContextValue::String(argument.to_owned()));
            let is_about_value = is_same && error.kind() == ErrorKind::ValueValidation;
            let own = expected(&error, option, tool, words);
            is_about_value.then(|| own.or_else(|| Some(error.source()?.to_string())))?
        });
    match accepted {
        Some(expected) => format!("{option} needs a value: {expected}"),
        None => format!("{option} needs a value, as in `{argument}`"),
    }
}

/// Describes the numbers that an option accepts. `None` if the error is not about a number.
fn expected(error: &Error, option: &str, tool: &Command, words: &[OsString]) -> Option<String> {
    let source = error.source()?;
    if let Some(problem) = source.downcast_ref::<ParseIntError>() {
        return Some(match problem.kind() {
            IntErrorKind::PosOverflow => "the number is too large".into(),
            IntErrorKind::NegOverflow => "the number is too small".into(),
            _ => {
                let argument = argument_of(option, tool, words);
                let defaults = argument.map(Arg::get_default_values);
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
fn argument_of<'a>(option: &str, tool: &'a Command, words: &[OsString]) -> Option<&'a Arg> {
    let name = words.get(1)?.to_str()?;
    let long = option.strip_prefix("--")?;
    let mut all = tool.find_subcommand(name)?.get_arguments();
    all.find(|argument| argument.get_long() == Some(long))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::{CommandFactory, Parser};

    fn text(command: &str) -> Option<String> {
        let words: Vec<OsString> = command.split_whitespace().map(Into::into).collect();
        line(
            &Arguments::try_parse_from(&words).err()?,
            &Arguments::command(),
            &words,
        )
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
                "--fail-on needs a value: one of note, warning, error, never",
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
    fn help_and_version_are_no_errors() {
        for command in [
            "hailer",
            "hailer --help",
            "hailer query -h",
            "hailer --version",
        ] {
            assert_eq!(text(command), None, "{command}");
        }
    }

    /// A hint would hide the option of the same name.
    #[test]
    fn hints_are_about_options_that_do_not_exist() {
        for (name, words, hint) in HINTS {
            let tool = Arguments::command();
            let definition = definition(&tool, name);
            let mut all: Vec<String> = Vec::new();
            for argument in definition.get_arguments() {
                all.extend(argument.get_long().map(|long| format!("--{long}")));
                all.extend(argument.get_short().map(|short| format!("-{short}")));
            }
            for word in *words {
                assert!(
                    name.is_empty() || !all.iter().any(|known| known == word),
                    "{name} {word}"
                );
            }
            assert!(!hint.ends_with('.'), "{hint}");
        }
    }
}
