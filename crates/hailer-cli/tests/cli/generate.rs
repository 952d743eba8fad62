//! Help, shell completions, man pages and the table of protocols.

use crate::tool::{Temporary, assert_harmless, run};
use hailer::proto::games::GAMES;
use hailer::proto::registry;
use std::path::Path;

const COMMANDS: [&str; 20] = [
    "query",
    "gamedig",
    "discover",
    "sweep",
    "ping",
    "check",
    "serve",
    "farm",
    "world",
    "monitor",
    "top",
    "watch",
    "decode",
    "join",
    "proxy",
    "demo",
    "protocols",
    "games",
    "completions",
    "man",
];
/// The actions of `hailer monitor`.
const ACTIONS: [&str; 6] = ["add", "remove", "list", "test-alert", "export", "import"];

/// Compares the help texts at 100 columns with the golden files. `BLESS=1 cargo test` rewrites the
/// files.
#[test]
fn help_matches_the_golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/cli");
    let bless = std::env::var_os("BLESS").is_some();
    let mut outdated = Vec::new();
    let helps = COMMANDS
        .iter()
        .map(|&command| (command, vec![command, "--help"]));
    let others = [
        ("hailer", vec!["--help"]),
        ("serve-status", vec!["serve", "status", "--help"]),
        ("serve-wake", vec!["serve", "wake", "--help"]),
        ("serve-sleep", vec!["serve", "sleep", "--help"]),
    ];
    let names = ACTIONS.map(|action| format!("monitor-{action}"));
    let actions = names
        .iter()
        .zip(ACTIONS)
        .map(|(name, action)| (&**name, vec!["monitor", action, "--help"]));
    for (name, args) in helps.chain(others).chain(actions) {
        // The formats of `hailer sweep` depend on features.
        if name == "sweep" && !cfg!(feature = "parquet") {
            continue;
        }
        let output = run(args).ends_with(0).out;
        assert_harmless(&output, false);
        assert!(
            output.lines().all(|line| line.chars().count() <= 110),
            "{output}"
        );
        let file = folder.join(format!("help-{name}.txt"));
        if bless {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &output).unwrap();
        } else if std::fs::read_to_string(&file).unwrap_or_default() != output {
            outdated.push(format!("{}:\n{output}", file.display()));
        }
    }
    assert!(
        outdated.is_empty(),
        "If these changes are intended, rewrite the files with BLESS=1:\n{}",
        outdated.join("\n")
    );
}

#[test]
fn help_names_every_command() {
    let help = run(["--help"]).ends_with(0).out;
    for command in COMMANDS {
        assert!(
            help.contains(&format!("\n  {command} ")),
            "{command}: {help}"
        );
    }
    assert!(run(["--version"]).ends_with(0).out.starts_with("hailer "));
}

#[test]
fn completions_have_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(["completions", shell]).ends_with(0);
        for word in COMMANDS.iter().chain(&ACTIONS).chain(&[
            "auth-token-file",
            "check-config",
            "status",
            "control",
        ]) {
            assert!(output.out.contains(word), "{shell}: {word}");
        }
        // The scripts of the other shells have no values of positional arguments.
        assert!(
            !["bash", "zsh"].contains(&shell) || output.out.contains("ark-se"),
            "{shell}"
        );
        // Protocols after --protocol, and beginnings of targets.
        assert!(
            !["bash", "fish", "zsh"].contains(&shell) || output.out.contains("teamspeak-voice"),
            "{shell}"
        );
        assert!(
            !["bash", "zsh"].contains(&shell) || output.out.contains("valheim"),
            "{shell}"
        );
        assert!(output.err.is_empty());
    }
    run(["completions", "tcsh"]).ends_with(2);
}

#[test]
fn man_pages_are_written_for_every_command() {
    let folder = Temporary::path("man");
    let output = run(["man", folder.text()]).ends_with(0);
    assert!(output.err.is_empty(), "{}", output.err);
    for page in COMMANDS
        .iter()
        .map(|command| format!("hailer-{command}.1"))
        .chain(
            ACTIONS
                .iter()
                .map(|action| format!("hailer-monitor-{action}.1")),
        )
        .chain(["hailer.1".into(), "hailer-serve-status.1".into()])
    {
        let text = std::fs::read_to_string(folder.as_ref().join(&page))
            .unwrap_or_else(|error| panic!("{page}: {error}"));
        for part in [".TH", ".SH NAME", ".SH EXAMPLES", ".SH \"EXIT STATUS\""] {
            assert!(text.contains(part), "{page} lacks {part}: {text}");
        }
    }
    let serve = std::fs::read_to_string(folder.as_ref().join("hailer-serve.1")).unwrap();
    assert!(
        serve.contains(".SH FILES") && serve.contains("serve.sock"),
        "{serve}"
    );
    assert!(run(["man"]).ends_with(0).out.contains(".TH hailer 1"));
    let file = Temporary::file("man", "a file is in the way");
    let output = run(["man", file.text()]).ends_with(1);
    assert!(
        output.err.starts_with("error: ") && output.err.lines().count() == 1,
        "{}",
        output.err
    );
}

#[test]
fn protocols_are_shown_as_a_table_one_by_one_and_as_json() {
    let table = run(["protocols"]).ends_with(0).out;
    let json = run(["protocols", "--json"]).ends_with(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().unwrap().len(), registry::PROTOCOLS.len());
    for (protocol, described) in registry::PROTOCOLS.iter().zip(json.as_array().unwrap()) {
        let id = protocol.info().id;
        assert!(
            table.lines().any(|line| line.trim_start().starts_with(id)),
            "{table}"
        );
        assert_eq!(described["id"], id);
        let one = run(["protocols", id, "--json"]).ends_with(0).out;
        assert_eq!(
            &serde_json::from_str::<serde_json::Value>(&one).unwrap(),
            described
        );
        let details = run(["protocols", id]).ends_with(0).out;
        for list in ["fields", "player_fields", "deviations", "options"] {
            for doc in described[list].as_array().unwrap() {
                assert!(
                    details.contains(doc["key"].as_str().unwrap()),
                    "{id} {list}: {details}"
                );
            }
        }
        assert_harmless(&details, false);
    }
    run(["protocols", "gopher"]).ends_with(2);
}

#[test]
fn games_are_found_by_words() {
    let all = run(["games", "--all"]).ends_with(0).out;
    for game in GAMES {
        let is_row = |line: &str| line.split_whitespace().next() == Some(game.id);
        assert!(all.lines().any(is_row), "{}: {all}", game.id);
    }
    let queried = run(["games"]).ends_with(0).out;
    assert!(
        queried.contains("more games that cannot be queried"),
        "{queried}"
    );
    // The id comes first, then games with the word in their name.
    let found = run(["games", "Minecraft"]).ends_with(0).out;
    assert!(
        found.lines().nth(1).unwrap().starts_with("minecraft "),
        "{found}"
    );
    assert!(found.contains("minecraft-query"), "{found}");
    assert!(!found.contains("rust"), "{found}");
    let found = run(["games", "EVOLVED", "ark"]).ends_with(0).out;
    assert!(
        found.contains("ark-se") && !found.contains("ark-sa"),
        "{found}"
    );
    let found = run(["games", "ragemp"]).ends_with(0).out;
    assert!(found.contains("why it cannot be queried"), "{found}");
    assert!(found.contains("list of the master server"), "{found}");
    let nothing = run(["games", "no", "such", "game"]).ends_with(1);
    nothing.warns(&["no game matches"]);
    let close = run(["games", "valhiem"]).ends_with(1);
    close.warns(&["did you mean valheim?"]);
    assert_harmless(&all, false);
}
