use super::*;
use crate::answer::Answer;
use crate::error::{Error, ProtocolFailure};
use crate::transcript::Transcript;
use hailer_proto::games::{Game, QueryPort, Quirk};
use hailer_proto::model::{Extra, Roster, Rule, Value};
use hailer_proto::{Player, Status, Text, registry};
use std::time::Duration;

fn condition(text: &str) -> Condition {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn facts(status: &Status) -> Facts<'_> {
    Facts {
        is_online: Some(true),
        status: Some(status),
        latency: Some(Duration::from_micros(12_500)),
        is_zero_unsure: false,
    }
}

fn is_true(text: &str, status: &Status) -> Option<bool> {
    condition(text).evaluate(&facts(status)).is_true
}

fn status() -> Status {
    let mut status = Status {
        name: Some(Text::unformatted("My  Server (EU)")),
        map: Some("old_mill".into()),
        version: Some("Paper 1.21.4".into()),
        has_password: Some(false),
        rules: vec![
            Rule {
                key: "mp_limit".into(),
                value: "30".into(),
            },
            Rule {
                key: "a rule".into(),
                value: "Any text".into(),
            },
        ],
        extra: vec![
            Extra::new("running", true),
            Extra::new("day", Value::Int(7)),
        ],
        ..Status::default()
    };
    status.players.online = Some(3);
    status.players.max = Some(20);
    status.players.bots = Some(1);
    status
}

#[test]
fn compares_every_kind_of_field() {
    for (text, expected) in [
        ("players = 3", true),
        ("players == 3", true),
        ("players != 3", false),
        ("players<4", true),
        ("players <= 2", false),
        ("Players > 2 AND max >= 20", true),
        ("players_online = 3 and players_max = 20", true),
        ("players > bots", true),
        ("players <= bots", false),
        ("players < max", true),
        ("ping < 12.6", true),
        ("ping < 12ms", false),
        ("ping <= 0.1s", true),
        ("map = OLD_mill", true),
        ("map != de_dust2", true),
        ("map = old_*", true),
        ("map = *hill", false),
        ("name = 'my  server (eu)'", true),
        ("name = \"*server*\"", true),
        ("version = '*1.21*'", true),
        ("version >= 1.21", true),
        ("version < 1.21.10", true),
        ("version > 1.21.4.0", false),
        ("online", true),
        ("not online", false),
        ("online = yes", true),
        ("ready", true),
        ("password", false),
        ("password = no", true),
        ("password != true", true),
        ("rules.mp_limit = 30.0", true),
        ("rules.MP_LIMIT > 29", true),
        ("rules.'a rule' = 'any text'", true),
        ("rules.\"a rule\" = other", false),
        ("extra.running = true", true),
        ("extra.running = no", false),
        ("extra.day >= 7", true),
        ("players = 0 or map = old_mill and ready", true),
        ("(players = 0 or map = old_mill) and not ready", false),
        ("not (players = 0 or map = x)", true),
        ("not not online", true),
        // `and` binds closer than `or`.
        ("online or players = 0 and players = 9", true),
    ] {
        assert_eq!(is_true(text, &status()), Some(expected), "{text}");
    }
}

#[test]
fn unknown_is_never_zero_players() {
    let unknown = Status::default();
    for text in [
        "players = 0",
        "players < 5",
        "players != 0",
        "not players = 0",
        "players <= bots",
        "map = x",
        "map != x",
        "version < 9",
        "password",
        "not password",
        "rules.x = 1",
        "extra.x != 1",
        "players = 0 and online",
        "players = 0 or not online",
    ] {
        assert_eq!(is_true(text, &unknown), None, "{text}");
    }
    // The rest decides.
    assert_eq!(is_true("players = 0 or online", &unknown), Some(true));
    assert_eq!(is_true("players = 0 and not online", &unknown), Some(false));

    let mut odd = Status::default();
    // A negative number, and 0 next to a list of players.
    odd.players.online = Some(-1);
    assert_eq!(is_true("players < 5", &odd), None);
    odd.players.online = Some(0);
    assert_eq!(is_true("players = 0", &odd), Some(true));
    odd.players.list = vec![Player::named(Text::unformatted("Alice"))];
    for (roster, expected) in [
        (Roster::Partial, None),
        (Roster::Whole, None),
        // Owners put other texts into a sample.
        (Roster::Sample, Some(true)),
    ] {
        odd.players.roster = roster;
        assert_eq!(is_true("players = 0", &odd), expected, "{roster:?}");
    }
    // Without a number, only a whole list counts.
    odd.players.online = None;
    for (roster, expected) in [
        (Roster::Whole, Some(true)),
        (Roster::Partial, None),
        (Roster::Sample, None),
        (Roster::Absent, None),
    ] {
        odd.players.roster = roster;
        assert_eq!(is_true("players = 1", &odd), expected, "{roster:?}");
    }
}

#[test]
fn zero_of_a_game_with_unsure_counts_is_unknown() {
    let mut status = status();
    status.players.online = Some(0);
    let valheim = Game {
        quirks: &[Quirk::UnsureCount],
        ..GAME
    };
    let answer = Answer::new(transcript(1), status.into(), Duration::from_millis(1));
    let verdict = |text: &str, game| condition(text).evaluate(&Facts::answered(&answer, game));
    assert_eq!(verdict("players = 0", None).is_true, Some(true));
    assert_eq!(verdict("players = 0", Some(&GAME)).is_true, Some(true));
    let unsure = verdict("players = 0", Some(&valheim));
    assert_eq!(unsure.is_true, None);
    assert_eq!(
        unsure.reason,
        "players is unknown (this game's servers report 0 although there are players)"
    );
    assert_eq!(verdict("players < 5", Some(&valheim)).is_true, None);
}

const GAME: Game = Game {
    id: "condition-test",
    name: "Condition Test",
    protocols: &["ugp"],
    port: Some(7777),
    query: QueryPort::Same,
    srv: None,
    quirks: &[],
    sources: "",
    aliases: &[],
};

fn transcript(received: u32) -> Transcript {
    Transcript {
        sent: 2,
        received,
        ..Transcript::new(
            registry::find("ugp").unwrap().info(),
            ([127, 0, 0, 1], 1).into(),
        )
    }
}

#[test]
fn only_silence_of_a_named_server_means_offline() {
    let lobby = Game {
        quirks: &[Quirk::SilentInLobby],
        ..GAME
    };
    let silence = |received| Error::Silence {
        transcript: transcript(received).into(),
        after: Duration::from_secs(3),
    };
    let closed = || Error::PortClosed {
        transcript: transcript(0).into(),
    };
    let refused = || Error::Refused {
        transcript: transcript(1).into(),
        reason: "no",
        endpoints: &[],
    };
    let all = |error| Error::NoProtocol {
        failures: vec![ProtocolFailure {
            protocol: registry::find("ugp").unwrap().info(),
            error,
        }],
    };
    let not_found = || Error::NameNotFound { name: "x".into() };
    let relayed = || Error::Silence {
        transcript: Box::new(Transcript {
            sent: 2,
            ..Transcript::new(
                registry::find("a2s").unwrap().info(),
                ([169, 254, 1, 2], 27015).into(),
            )
        }),
        after: Duration::from_secs(3),
    };
    for (error, game, online, ready) in [
        (relayed(), Some(&GAME), None, None),
        (silence(0), None, Some(false), Some(false)),
        (silence(0), Some(&GAME), Some(false), Some(false)),
        (silence(0), Some(&lobby), None, None),
        (silence(1), Some(&GAME), None, None),
        (closed(), None, Some(false), Some(false)),
        (closed(), Some(&lobby), None, None),
        (refused(), None, Some(true), None),
        (not_found(), Some(&GAME), None, None),
        (all(silence(0)), Some(&GAME), Some(false), Some(false)),
        // Not all protocols were tried.
        (all(silence(0)), None, None, None),
        (all(closed()), None, None, None),
        (all(refused()), None, Some(true), None),
        (all(not_found()), Some(&GAME), None, None),
        (
            Error::Lookup {
                name: "x".into(),
                cause: "timeout".into(),
            },
            Some(&GAME),
            None,
            None,
        ),
        (
            Error::Unreachable {
                transcript: transcript(0).into(),
                cause: std::io::ErrorKind::NetworkUnreachable.into(),
            },
            Some(&GAME),
            None,
            None,
        ),
        (
            Error::Flood {
                transcript: transcript(9).into(),
                bytes: 1 << 20,
            },
            Some(&GAME),
            None,
            None,
        ),
    ] {
        let facts = Facts::failed(&error, game);
        let evaluate = |text: &str| condition(text).evaluate(&facts).is_true;
        assert_eq!(evaluate("online"), online, "{error}");
        assert_eq!(evaluate("not online"), online.map(|is| !is), "{error}");
        assert_eq!(evaluate("ready"), ready, "{error}");
        assert_eq!(evaluate("players = 0"), None, "{error}");
    }
}

#[test]
fn starting_servers_are_not_ready() {
    for (key, value, expected) in [
        ("state", Value::from("loading"), false),
        ("state", Value::from("idle"), false),
        ("state", Value::from("playing"), true),
        ("state", Value::from("online"), true),
        ("state", Value::Int(3), true),
        ("running", Value::Bool(false), false),
        ("running", Value::Bool(true), true),
    ] {
        let status = Status {
            extra: vec![Extra::new(key, value.clone())],
            ..Status::default()
        };
        assert_eq!(is_true("ready", &status), Some(expected), "{key} {value:?}");
        assert_eq!(is_true("online", &status), Some(true));
        assert_eq!(
            Condition::ready().evaluate(&facts(&status)).is_true,
            Some(expected)
        );
    }
    // The keys exist.
    for (protocol, key) in [
        ("satisfactory", "state"),
        ("teamspeak3", "state"),
        ("satisfactory-api", "running"),
    ] {
        let info = registry::find(protocol).unwrap().info();
        assert!(
            info.fields.iter().any(|doc| doc.key == key),
            "{protocol}: {key}"
        );
    }
}

#[test]
fn verdicts_name_the_values() {
    let verdict =
        condition("players = 0 and map != x or ping < 5 or password").evaluate(&facts(&status()));
    assert_eq!(verdict.word(), "false");
    assert_eq!(
        verdict.reason,
        "players is 3, map is old_mill, ping is 12.5 ms, password is no"
    );
    let verdict = condition("rules.'a rule' = 1 and rules.none = 1 and extra.day = 7")
        .evaluate(&facts(&status()));
    assert_eq!(verdict.word(), "false");
    assert_eq!(
        verdict.reason,
        "rules.\"a rule\" is Any text, rules.none is unknown, extra.day is 7"
    );
    // Texts of servers cannot control a terminal.
    let hostile = Status {
        map: Some("a\u{1b}[31mb".into()),
        ..Status::default()
    };
    let verdict = condition("map = x").evaluate(&facts(&hostile));
    assert_eq!(verdict.reason, "map is a[31mb");
}

#[test]
fn versions_are_ordered_by_their_numbers() {
    for (text, expected) in [
        ("1.21.4", Some(vec![1, 21, 4])),
        ("Paper 1.21.4", Some(vec![1, 21, 4])),
        ("git-Paper-123 (MC: 1.19.4)", Some(vec![1, 19, 4])),
        ("1.20.0", Some(vec![1, 20])),
        ("24w14a", None),
        ("build 7", Some(vec![7])),
        ("Velocity 1.7.2-1.21.4", None),
        ("", None),
        ("...", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(version_of(text), expected, "{text}");
    }
}

#[test]
fn mistakes_name_their_place_and_the_fix() {
    for (text, expected) in [
        (
            "",
            "at character 1: the condition is empty; write one such as `players = 0`",
        ),
        (
            "playrs = 0",
            "at character 1: unknown field `playrs`; did you mean `players`?",
        ),
        (
            "wobble = 0",
            "at character 1: unknown field `wobble`; known are players, online, ",
        ),
        (
            "players",
            "at character 8: `players` needs a comparison, such as `players = 0`",
        ),
        (
            "map and online",
            "`map` needs a comparison, such as `map = TEXT`",
        ),
        ("ping", "such as `ping < 100ms`"),
        (
            "players =",
            "at character 10: expected a value for `players`",
        ),
        (
            "players = none",
            "`players` is compared with a whole number, `players`, `max` or `bots`, not with `none`",
        ),
        ("players = -1", "not with `-1`"),
        ("players = 0.5", "not with `0.5`"),
        ("players = 'a b'", "not with `a b`"),
        (
            "ping < soon",
            "a time such as 100ms or 0.5s, not with `soon`",
        ),
        ("map < x", "`map` has no order; use = or !="),
        ("online > no", "`online` has no order; use = or !="),
        ("online = maybe", "`online` is yes or no, not `maybe`"),
        ("version < new", "a version such as 1.21.4, not with `new`"),
        (
            "rules.x > a",
            "`rules.x` has an order only for numbers, not for `a`",
        ),
        (
            "players = 0 map = x",
            "at character 13: expected `and` or `or` before `map`; a text with spaces needs quotes",
        ),
        (
            "map = old mill",
            "at character 11: expected `and` or `or` before `mill`; a text with spaces needs quotes",
        ),
        (
            "players = 0 && online",
            "at character 13: write `and` instead of `&&`",
        ),
        ("players = 0 || online", "write `or` instead of `||`"),
        ("!online", "at character 1: write `not` instead of `!`"),
        (
            "(players = 0",
            "at character 1: this parenthesis is never closed",
        ),
        (
            "players = 0)",
            "at character 12: this parenthesis closes nothing; remove it",
        ),
        (
            "(players = 0 online",
            "expected `and` or `or` before `online`",
        ),
        (
            "and online",
            "at character 1: a part is missing before `and`",
        ),
        (
            "online and",
            "at character 11: the condition ends too early",
        ),
        ("online or or", "a part is missing before `or`"),
        ("not", "the condition ends too early"),
        (
            "map = 'old mill",
            "at character 7: this quotation mark has no second one",
        ),
        (
            "'players' = 0",
            "expected a field such as `players` or `map`, not the text \"players\"",
        ),
        ("= 0", "expected a field such as `players` or `map`"),
        ("players = = 0", "expected a value for `players`"),
        (
            "map = and",
            "expected a value for `map` before `and`; put a text in quotes",
        ),
        ("rules. = 1", "unknown field `rules.`"),
        ("größe = 0 oder", "at character 1: unknown field `größe`"),
        (
            "map = 'größe' oder",
            "at character 15: expected `and` or `or` before `oder`",
        ),
        (
            "(".repeat(100).as_str(),
            "at character 33: more than 32 nested parts",
        ),
        ("not ".repeat(100).as_str(), "more than 32 nested parts"),
        (
            "x".repeat(1_001).as_str(),
            "a condition has at most 1000 bytes",
        ),
    ] {
        let error = text.parse::<Condition>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
        assert_eq!(error.lines().count(), 1);
    }
}

mod random {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_condition_or_an_error_inside_the_text(text in ".{0,60}") {
            if let Err(error) = text.parse::<Condition>() {
                prop_assert!(error.position <= text.chars().count());
            }
        }

        #[test]
        fn words_of_the_grammar_never_panic_and_unknown_decides_nothing(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "players", "map", "online", "password", "=", "!=", "<", ">=", "0", "x", "and",
                    "or", "not", "(", ")", "'a b'", "ping", "5ms", "rules.k", "version", "1.2",
                ]),
                0..14,
            ),
        ) {
            let Ok(condition) = words.join(" ").parse::<Condition>() else { return Ok(()) };
            // A result without any facts stays the same with every further fact.
            if let Some(known) = condition.evaluate(&Facts::default()).is_true {
                prop_assert_eq!(condition.evaluate(&facts(&status())).is_true, Some(known));
            }
            // It displays as it was typed, and parses to the same.
            let again: Condition = condition.to_string().parse().unwrap();
            prop_assert_eq!(again, condition);
        }
    }
}
