//! Status of a door in each state, and the text that ends an attempt to join.
//!
//! While the game runs, clients see its own status. Otherwise they see the status of the last
//! running game without its players, so that version, icon and mods stay the same. The status of
//! the configuration replaces parts of it, and the texts of the state come last.

use crate::config::door::table::{DoorConfig, StateText};
use hailer::Status;
use hailer::door::State;
use hailer::proto::Text;
use hailer::proto::model::{Codes, Players, printable};
use std::time::Duration;

/// Status and text that clients see.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shown {
    pub(super) status: Status,
    pub(super) kick: String,
}

/// Facts that texts may contain.
#[derive(Clone, Debug, Default)]
pub(super) struct TextFacts {
    pub(super) state: State,
    /// Time in the state.
    pub(super) lasted: Duration,
    /// Time that the last start took.
    pub(super) last_start: Option<Duration>,
    /// Time until a join can start the game again.
    pub(super) pause: Option<Duration>,
    /// Name of the player who started the game.
    pub(super) player: String,
}

/// Default texts of a state: name, MOTD and kick.
fn defaults(state: State) -> [&'static str; 3] {
    match state {
        State::Asleep => [
            "{text} (asleep)",
            "{text}\n\u{A7}7Asleep. Join to wake it up.",
            "\u{A7}7This server is asleep, and you cannot wake it now.",
        ],
        State::Starting => [
            "{text} (starting)",
            "{text}\n\u{A7}eStarting, ready in {left}.",
            "\u{A7}eThe server starts. Join again in {left}.",
        ],
        State::Stopping => [
            "{text} (stopping)",
            "{text}\n\u{A7}7Going to sleep.",
            "\u{A7}eThe server goes to sleep, and starts again after that. Join again in a minute.",
        ],
        State::Failed => [
            "{text} (not running)",
            "{text}\n\u{A7}cNot running.",
            "\u{A7}cThe server is not running. Try again in {pause}.",
        ],
        State::Running => ["{text}", "{text}", "\u{A7}eThe server runs. Join again."],
    }
}

/// Returns the status and text in a state other than running, or while the status of the game is
/// unknown. `last` is the last status of the running game.
pub(super) fn shown(config: &DoorConfig, last: Option<&Status>, facts: &TextFacts) -> Shown {
    let mut status = last.map(without_players).unwrap_or_default();
    overlay(&mut status, config);
    let none = StateText::default();
    let own = match facts.state {
        State::Asleep => &config.texts.asleep,
        State::Starting => &config.texts.starting,
        State::Stopping => &config.texts.stopping,
        State::Failed => &config.texts.failed,
        State::Running => &none,
    };
    let [name, motd, kick] = defaults(facts.state);
    // The MOTD of the configuration is for a server that sleeps.
    let of_file = config.status.motd.as_ref();
    let text = title(last).or(title(Some(&config.status)));
    let text = text.unwrap_or_default();
    let fill = |wording: &str| filled(wording, &text, facts);
    status.motd = match (&own.motd, of_file) {
        (None, Some(of_file)) if facts.state == State::Asleep => Some(of_file.clone()),
        (own, _) => Some(Text::legacy(fill(own.as_deref().unwrap_or(motd)))),
    };
    if status.name.is_some() || own.name.is_some() {
        let base = status.name.as_ref().map(legacy).unwrap_or_default();
        let wording = own.name.as_deref().unwrap_or(name);
        status.name = Some(Text::legacy(filled(wording, &base, facts)));
    }
    let kick = fill(own.kick.as_deref().unwrap_or(kick));
    Shown { status, kick }
}

/// Returns a status without the parts that only a running game has.
pub(super) fn without_players(status: &Status) -> Status {
    let mut status = status.clone();
    status.players = Players {
        online: Some(0),
        max: status.players.max,
        ..Players::default()
    };
    status.players.set_list(Vec::new());
    status.deviations.clear();
    status.address = None;
    status
}

/// Replaces the parts that the configuration has.
fn overlay(status: &mut Status, config: &DoorConfig) {
    let own = &*config.status;
    let replace = |place: &mut Option<Text>, own: &Option<Text>| {
        if own.is_some() {
            place.clone_from(own);
        }
    };
    replace(&mut status.name, &own.name);
    replace(&mut status.motd, &own.motd);
    status.icon = own.icon.clone().or(status.icon.take());
    status.game = own.game.clone().or(status.game.take());
    status.mode = own.mode.clone().or(status.mode.take());
    status.map = own.map.clone().or(status.map.take());
    status.version = own.version.clone().or(status.version.take());
    status.has_password = own.has_password.or(status.has_password);
    status.has_anti_cheat = own.has_anti_cheat.or(status.has_anti_cheat);
    status.address.clone_from(&own.address);
    if config.has_max_players || status.players.max.is_none() {
        status.players.max = own.players.max;
    }
    status.players.online = own.players.online.or(Some(0));
    if !own.rules.is_empty() {
        status.rules.clone_from(&own.rules);
    }
    for extra in &own.extra {
        status.extra.retain(|earlier| earlier.key != extra.key);
        status.extra.push(extra.clone());
    }
}

/// Returns the first line of a server's description, or else its name, with codes.
fn title(status: Option<&Status>) -> Option<String> {
    let status = status?;
    let texts = [&status.motd, &status.name].into_iter().flatten();
    let mut texts = texts.map(|text| {
        let whole = legacy(text);
        whole.lines().next().unwrap_or_default().to_owned()
    });
    texts.find(|text| !Text::legacy(text.as_str()).plain().trim().is_empty())
}

/// Returns a text in which section signs are codes.
fn legacy(text: &Text) -> String {
    text.with_codes(Codes::Legacy).raw().to_owned()
}

/// Replaces the placeholders in one pass: a value is never read as a placeholder.
fn filled(wording: &str, text: &str, facts: &TextFacts) -> String {
    let unknown = || "a while".to_owned();
    let value = |name: &str| match name {
        "text" => Some(text.to_owned()),
        "took" => Some(facts.last_start.map_or_else(unknown, in_words)),
        "left" => Some(match facts.last_start {
            Some(took) if facts.state == State::Starting => {
                match took.saturating_sub(facts.lasted) {
                    left if left < Duration::from_secs(1) => "a moment".to_owned(),
                    left => in_words(left),
                }
            }
            took => took.map_or_else(unknown, in_words),
        }),
        "pause" => Some(facts.pause.map_or("a moment".to_owned(), in_words)),
        "player" if facts.player.is_empty() => Some("a player".to_owned()),
        // Codes of a name would change the rest of the text.
        "player" => Some(printable(&facts.player).replace('\u{A7}', "")),
        _ => None,
    };
    let mut out = String::new();
    let mut rest = wording;
    while let Some((before, after)) = rest.split_once('{') {
        out += before;
        match after
            .split_once('}')
            .and_then(|(name, end)| Some((value(name)?, end)))
        {
            Some((value, end)) => {
                out += &value;
                rest = end;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out += rest;
    out.trim_start_matches(['\n', ' ']).to_owned()
}

/// Returns a time in the largest unit that is exact enough for a player, rounded up.
pub(super) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5_400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3_600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::door::table::tests::door;
    use hailer::proto::Player;
    use hailer::proto::model::{Extra, Value};

    fn running() -> Status {
        let mut status = Status {
            name: Some(Text::legacy("Survival")),
            motd: Some(Text::legacy("\u{A7}aWelcome\nto our server")),
            version: Some("1.21.8".into()),
            extra: vec![Extra::new("protocol", 772)],
            ..Status::default()
        };
        status.players.online = Some(1);
        status.players.max = Some(50);
        status
            .players
            .set_list(vec![Player::named(Text::unformatted("Alice"))]);
        status
    }

    fn facts(state: State) -> TextFacts {
        TextFacts {
            state,
            ..TextFacts::default()
        }
    }

    #[test]
    fn a_sleeping_server_announces_the_version_of_the_last_running_one() {
        let config = door("");
        let shown = shown(&config, Some(&running()), &facts(State::Asleep));
        let status = shown.status;
        assert_eq!(status.version.as_deref(), Some("1.21.8"));
        assert_eq!(status.extra("protocol"), Some(&Value::Int(772)));
        assert_eq!(
            (status.players.online, status.players.max),
            (Some(0), Some(50))
        );
        assert!(status.players.list.is_empty());
        let motd = status.motd.unwrap();
        assert_eq!(motd.plain(), "Welcome\nAsleep. Join to wake it up.");
        assert_eq!(status.name.unwrap().plain(), "Survival (asleep)");
    }

    #[test]
    fn the_configuration_overrides_the_last_status() {
        let mut config = door("asleep = { kick = \"&cNo {text}\" }");
        config.status.motd = Some(Text::legacy("Asleep"));
        config.status.version = Some("1.20".into());
        config.status.players.max = Some(5);
        config.has_max_players = true;
        let shown = shown(&config, Some(&running()), &facts(State::Asleep));
        assert_eq!(shown.status.motd.unwrap().plain(), "Asleep");
        assert_eq!(shown.status.version.as_deref(), Some("1.20"));
        assert_eq!(shown.status.players.max, Some(5));
        assert_eq!(shown.kick, "\u{A7}cNo \u{A7}aWelcome");
    }

    #[test]
    fn without_any_status_there_is_a_text() {
        for state in State::ALL {
            let shown = shown(&door(""), None, &facts(state));
            let motd = shown.status.motd.unwrap().plain();
            assert!(!motd.starts_with('\n'), "{motd:?}");
            assert!(!shown.kick.contains(['{', '}']), "{}", shown.kick);
            assert_eq!(shown.status.name, None);
        }
    }

    #[test]
    fn placeholders_are_replaced_once() {
        let mut facts = facts(State::Starting);
        let fill = |wording: &str, facts: &TextFacts| filled(wording, "{took}", facts);
        assert_eq!(fill("{text} {left} {x", &facts), "{took} a while {x");
        facts.last_start = Some(Duration::from_secs(42));
        facts.lasted = Duration::from_secs(12);
        facts.player = "A\u{A7}l\n{left}".into();
        facts.pause = Some(Duration::from_secs(100));
        let filled = fill("{took}, {left}, {pause}, {player}", &facts);
        assert!(filled.starts_with("42 s, 30 s, 2 min, A"), "{filled}");
        assert!(
            filled.ends_with("{left}") && !filled.contains('\n'),
            "{filled}"
        );
        facts.lasted = Duration::from_secs(60);
        assert_eq!(fill("{left}", &facts), "a moment");
    }
}
