//! `hailer gamedig`: the command of node-gamedig.
//!
//! In: its arguments, as its parser (minimist) reads them. Out: its JSON.
//!
//! May import: `crate::args`, `crate::exit`, `crate::print`, `hailer`.

use crate::args::Gamedig as Args;
use crate::exit::Exit;
use hailer::client::gamedig::{Gamedig, GamedigError, GamedigOptions, GamedigState};
use hailer::proto::model::Value;
use serde::Serialize;
use std::io::Write;

/// Options without a value.
const FLAGS: [&str; 12] = [
    "pretty",
    "debug",
    "givenPortOnly",
    "requestRules",
    "requestPlayers",
    "requestRulesRequired",
    "requestPlayersRequired",
    "stripColors",
    "portCache",
    "noBreadthOrder",
    "checkOldIDs",
    "rejectUnauthorized",
];

/// A failure, with the name that node-gamedig gives to its message.
#[derive(Serialize)]
struct Failure {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The arguments as read.
#[derive(Default)]
struct Parsed {
    options: GamedigOptions,
    listen_udp_port: u16,
    is_pretty: bool,
    has_debug: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    let words = args
        .words
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let parsed = parse(words.collect());
    let client = Gamedig::new(parsed.listen_udp_port);
    let result = client.query(&parsed.options).await;
    let mut out = crate::print::stdout();
    writeln!(out, "{}", text(&result, &parsed)?)?;
    out.flush()?;
    Ok(Exit::Success)
}

/// Formats the result.
fn text(
    result: &Result<GamedigState, GamedigError>,
    parsed: &Parsed,
) -> serde_json::Result<String> {
    let is_pretty = parsed.is_pretty || parsed.has_debug;
    match result {
        Ok(state) => json(state, is_pretty),
        Err(error) if parsed.has_debug => {
            let reason = error.reason().map(|reason| format!("\n    {reason}"));
            Ok(format!("Error: {error}{}", reason.unwrap_or_default()))
        }
        Err(error) => {
            let failure = Failure {
                error: error.to_string(),
                reason: error.reason(),
            };
            json(&failure, is_pretty)
        }
    }
}

/// Formats a value as `JSON.stringify` does, but with characters that control a terminal escaped.
fn json(value: &impl Serialize, is_pretty: bool) -> serde_json::Result<String> {
    if is_pretty {
        crate::print::json::lines(value)
    } else {
        crate::print::json::line(value)
    }
}

/// Reads the words.
fn parse(words: Vec<String>) -> Parsed {
    let mut parsed = Parsed::default();
    let mut places = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--") else {
            // Options of one letter have no meaning.
            if !word.starts_with('-') || word == "-" {
                places.push(word);
            }
            continue;
        };
        if name.is_empty() {
            places.extend(words.by_ref());
        } else if let Some((name, value)) = name.split_once('=') {
            let value = match FLAGS.contains(&name) {
                true => Value::Bool(value != "false"),
                false => value.into(),
            };
            parsed.set(name, &value);
        } else if let Some(name) = name.strip_prefix("no-") {
            parsed.set(name, &Value::Bool(false));
        } else {
            let is_flag = FLAGS.contains(&name);
            let is_value = |next: &String| match is_flag {
                true => matches!(next.as_str(), "true" | "false"),
                false => !next.starts_with('-') || next == "-",
            };
            let value = match words.next_if(is_value) {
                Some(value) if is_flag => Value::Bool(value == "true"),
                Some(value) => value.into(),
                None => Value::Bool(true),
            };
            parsed.set(name, &value);
        }
    }
    if let Some(place) = places.first() {
        let (host, port) = host_and_port(place);
        parsed.options.set("host", &host.into());
        if let Some(port) = port {
            parsed.options.set("port", &port.into());
        }
    }
    parsed
}

impl Parsed {
    fn set(&mut self, name: &str, value: &Value) {
        match name {
            "pretty" => self.is_pretty = *value == Value::Bool(true),
            "debug" => self.has_debug = *value == Value::Bool(true),
            "listenUdpPort" => self.listen_udp_port = value.to_string().parse().unwrap_or(0),
            _ => self.options.set(name, value),
        }
    }
}

/// Splits host and port. IPv6 addresses with a port have brackets.
fn host_and_port(place: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        return (host, rest.strip_prefix(':'));
    }
    match place.split_once(':') {
        Some((_, rest)) if rest.contains(':') => (place, None),
        Some((host, port)) => (host, Some(port)),
        None => (place, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Parsed {
        parse(line.split(' ').map(Into::into).collect())
    }

    #[test]
    fn words_are_read_as_by_minimist() {
        let read = parsed("--type rust --requestRules 192.0.2.7:28015 --pretty");
        assert_eq!(
            (&*read.options.kind, &*read.options.host),
            ("rust", "192.0.2.7")
        );
        assert_eq!(
            (read.options.port, read.options.has_rules),
            (Some(28_015), true)
        );
        assert!(read.is_pretty && !read.has_debug);
        let read = parsed("host --type=csgo --no-requestPlayers --maxRetries 3 --query_port 5");
        assert_eq!((read.options.port, read.options.tries), (None, 3));
        assert!(!read.options.has_players && read.options.strips_colors);
        let read = parsed("--stripColors=false --givenPortOnly true --debug false -x -- --odd");
        assert!(!read.options.strips_colors && read.options.is_port_exact && !read.has_debug);
        assert_eq!(read.options.host, "--odd");
        let read = parsed("--type a --listenUdpPort 27020 --host h --port 5 --type b --token");
        assert_eq!((read.listen_udp_port, &*read.options.kind), (27_020, "b"));
        assert_eq!((&*read.options.host, read.options.port), ("h", Some(5)));
    }

    #[test]
    fn addresses_may_have_brackets() {
        for (place, host, port) in [
            ("host", "host", None),
            ("host:1", "host", Some("1")),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:2", "::1", Some("2")),
        ] {
            assert_eq!(host_and_port(place), (host, port), "{place}");
        }
    }
}
