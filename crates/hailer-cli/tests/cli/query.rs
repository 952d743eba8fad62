//! `hailer query`.

use crate::support::dns::{Dns, Record};
use crate::support::{
    ANY, Server, Stream, closed, ids, kick, loopback, minecraft, protocol, status,
};
use crate::tool::{
    Finished, Process, Serve, Temporary, assert_harmless, command, finish, run, run_with,
    without_colors,
};
use hailer::Status;
use hailer::proto::model::{Address, Extra, Rule, Value};
use hailer::proto::{Info, Protocol};
use hailer::proto::{Player, Text, registry};
use hailer::support::catalog;
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr;

const HOUSE: &[&str] = &[
    "--name",
    "Harbour house",
    "--motd",
    "&aGreen &lbold&r\nsecond line",
    "--map",
    "old_mill",
    "--mode",
    "Survival",
    "--game-version",
    "1.21.8",
    "--max-players",
    "64",
    "--player",
    "Alice",
    "--player",
    "Björn",
    "--player",
    "名前",
    "--rule",
    "Owner=The harbour master",
    "--rule",
    "Language=any",
];

/// A protocol whose status has all of these fields.
const FULL: &str = "minecraft-query";

#[test]
fn games_of_a_file_can_be_queried() {
    let serve = Serve::with(HOUSE);
    let url = serve.url(FULL);
    let port = url.rsplit(':').next().unwrap();
    let file = Temporary::file(
        "games",
        format!(
            "[[game]]\nid = \"harbour-wars\"\nname = \"Harbour Wars\"\n\
             protocols = \"{FULL}\"\nport = 9\nquery-port = {port}\n"
        ),
    );
    let args = ["query", "--json", "--games", file.text()];
    for target in [
        &["harbour-wars://127.0.0.1"][..],
        &["--game", "harbour-wars", "127.0.0.1"],
    ] {
        let output = run(args.iter().chain(target)).ends_with(0);
        assert_eq!(output.json()[0]["protocol"], FULL);
        assert_eq!(output.json()[0]["address"], format!("127.0.0.1:{port}"));
    }
    let listed = run(["games", "--games", file.text(), "harbour"]).ends_with(0);
    listed.shows(&["Harbour Wars"]);

    run(["query", "harbour-wars://127.0.0.1"]).fails_as_usage("unknown protocol or game");
    run(["query", "--game", "valhiem", "127.0.0.1"]).fails_as_usage("did you mean valheim?");
    run(["query", "--game", "hytale", "ugp://127.0.0.1"]).fails_as_usage("another game");
    run(["query", "--game", "ragemp", "127.0.0.1"])
        .fails_as_usage("error: --game ragemp: servers of RAGE MP cannot be queried: only the list of the master server");
    run(["monitor", "ragemp://127.0.0.1"])
        .fails_as_usage("error: ragemp://127.0.0.1: servers of RAGE MP cannot be queried");
    run("query --game hytale --protocol ugp 127.0.0.1".split(' ')).ends_with(2);
    let wrong = Temporary::file("wrong-games", "[[game]]\nid = \"x\"\n");
    run(["query", "--games", wrong.text(), "127.0.0.1"])
        .fails_as_usage(":1: game: missing key `name`");
}

#[test]
fn failures_suggest_a_game_or_a_setting() {
    let silent = closed();
    let output = run([
        "query",
        &silent.to_string(),
        "--retries",
        "0",
        "--timeout",
        "300ms",
    ]);
    let output = output.ends_with(1);
    output.warns(&["were not tried: name the game"]);
    let output = run([
        "query",
        "--all",
        &silent.to_string(),
        "--retries",
        "0",
        "--timeout",
        "300ms",
    ]);
    assert!(!output.ends_with(1).err.contains("were not tried"));
    let file = Temporary::file(
        "shy-game",
        "[[game]]\nid = \"shy-game\"\nname = \"Shy Game\"\nprotocols = \"ugp\"\nport = 9\n\
         quirks = [\"status-needs: -public 1\"]\n",
    );
    let target = format!("shy-game://{silent}");
    let args = [
        "query",
        "--games",
        file.text(),
        &target,
        "--retries",
        "0",
        "--timeout",
        "300ms",
    ];
    let output = run(args).ends_with(1);
    let hint = "Shy Game: servers reply only with -public 1";
    output.warns(&[hint]);
}

#[test]
fn answers_of_one_game_are_merged() {
    let serve = Serve::with(HOUSE);
    let address = serve.address();
    let file = Temporary::file(
        "merged-games",
        "[[game]]\nid = \"two-ways\"\nname = \"Two Ways\"\nport = 9\n\
         protocols = [\"onequery\", \"minecraft-query\"]\n",
    );
    let target = format!("two-ways://{address}");
    let args = ["query", "--games", file.text(), &target];
    let output = run(args).ends_with(0);
    output.shows(&["From Minecraft Query: "]);
    assert!(!output.out.contains("Also answered in"), "{}", output.out);
    let output = run(args.iter().chain(&["--json"])).ends_with(0);
    let line = &crate::schema::check("answer-v2.json", &output)[0];
    assert_eq!(line["protocol"], "onequery");
    assert_eq!(line["sources"]["map"], "minecraft-query");
    let output = run(args.iter().chain(&["--json", "--all"])).ends_with(0);
    assert_eq!(output.json().len(), 2);
}

#[test]
fn view_shows_the_status() {
    let serve = Serve::with(HOUSE);
    let output = run(["query", &serve.url(FULL)]).ends_with(0);
    for expected in [
        "Green bold",
        "second line",
        "old_mill",
        "Survival",
        "1.21.8",
        "3 / 64",
        "Alice",
        "Björn",
        "名前",
        "round trip",
        "Minecraft Query",
        &serve.address(),
    ] {
        assert!(output.out.contains(expected), "{expected}: {}", output.out);
    }
    assert_harmless(&output.out, false);
    assert_eq!(output.err, "");

    let ugp = run(["query", &serve.url("ugp")]).ends_with(0).out;
    for expected in [
        "Harbour house",
        "old_mill",
        "Survival",
        "3 / 64",
        "Alice",
        "Björn",
        "名前",
        "Owner",
        "The harbour master",
        "Language",
        "any",
    ] {
        assert!(ugp.contains(expected), "{expected}: {ugp}");
    }
    let onequery = run(["query", &serve.url("onequery")]).ends_with(0).out;
    for expected in ["Harbour house", "3 / 64", "Alice", "Björn", "名前"] {
        assert!(onequery.contains(expected), "{expected}: {onequery}");
    }
    // Without a protocol, the most complete answer is shown, and the other protocols of the first
    // wave are named.
    let two = Serve::with(&[HOUSE, BOTH].concat());
    let best = run(["query", &two.address()]).ends_with(0).out;
    assert_eq!(best.matches('●').count(), 1, "{best}");
    assert_also(&best, "Also answered in: ", |info| info.title);
    assert!(best.contains("(--all shows them)"), "{best}");
    let all = run(["query", &serve.address(), "--all"]).ends_with(0).out;
    assert_eq!(all.matches('●').count(), ids().len(), "{all}");
    assert!(!all.contains("Also answered"), "{all}");
    for protocol in registry::defaults() {
        assert!(all.contains(protocol.info().title), "{all}");
    }
    assert_eq!(
        run(["query", &serve.address(), "--protocol", "ugp"])
            .ends_with(0)
            .out
            .matches('●')
            .count(),
        1
    );
}

#[test]
fn colors_only_on_terminals() {
    let serve = Serve::with(HOUSE);
    let plain = run(["query", &serve.url(FULL)]).ends_with(0).out;
    assert!(!plain.contains('\x1b'));
    let mut colored = command(["query", &serve.url(FULL)]);
    colored
        .env("CLICOLOR_FORCE", "1")
        .env("TERM", "xterm-256color");
    let colored = finish(colored, None).ends_with(0).out;
    assert!(
        colored.contains("\x1b[92mGreen \x1b[0m\x1b[1;92mbold\x1b[0m"),
        "{colored:?}"
    );
    assert_harmless(&colored, true);
    let comparable = |text: &str| {
        text.lines()
            .filter(|line| !line.contains("round trip"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(comparable(&without_colors(&colored)), comparable(&plain));
}

#[test]
fn several_targets_are_a_table_in_the_given_order() {
    let one = Serve::with(&["--motd", "Number one"]);
    let two = Serve::with(&["--motd", "Number two"]);
    let closed = closed().to_string();
    let one = one.url(FULL);
    let two = two.url(FULL);
    let output = run(["query", &two, &closed, &one]).ends_with(1);
    let lines: Vec<&str> = output.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", output.out);
    for (line, expected) in lines[1..].iter().zip([
        [two.as_str(), "Number two"],
        [&closed, "port closed"],
        [&one, "Number one"],
    ]) {
        assert!(
            expected.iter().all(|expected| line.contains(expected)),
            "{line}"
        );
    }
    assert_harmless(&output.out, false);
    let long = run(["query", "--long", &two, &one]).ends_with(0).out;
    assert_eq!(long.matches('●').count(), 2);
    assert!(long.contains("round trip"));
}

/// Returns the lines of a table in a terminal with this many columns.
fn table<A: AsRef<std::ffi::OsStr>>(
    columns: &str,
    args: impl IntoIterator<Item = A>,
) -> Vec<String> {
    let mut command = command(args);
    command.env("COLUMNS", columns);
    let output = finish(command, None);
    output.out.lines().map(str::to_owned).collect()
}

#[test]
fn tables_fit_narrow_terminals_without_broken_words() {
    let serve = Serve::with(&[
        "--name",
        "A name that is rather long for a column 名前名前名前",
        "--map",
        "old_mill",
    ]);
    let closed = closed().to_string();
    let one = serve.address();
    let two = serve.url("ugp");
    for (columns, has_map) in [("60", false), ("80", false), ("120", true)] {
        let lines = table(columns, ["query", "--all", &one, &two, &closed]);
        assert_eq!(
            lines.len(),
            ids().len() + 3,
            "each row must be one line: {lines:#?}"
        );
        let width: usize = columns.parse().unwrap();
        assert!(lines.iter().all(|line| line.width() <= width), "{lines:#?}");
        for line in &lines[1..lines.len() - 1] {
            assert!(line.contains("0 / 20") && line.contains('…'), "{lines:#?}");
        }
        assert!(
            lines
                .last()
                .is_some_and(|line| line.starts_with(&closed) && line.ends_with("port closed"))
        );
        assert_eq!(lines[0].contains("map"), has_map, "{lines:#?}");
        assert_eq!(lines[0].contains("round trip"), width > 60, "{lines:#?}");
        assert!(
            !lines[0].contains("remarks"),
            "no remarks expected: {lines:#?}"
        );
    }
    for columns in ["60", "80"] {
        let lines = table(columns, ["protocols"]);
        assert!(
            lines
                .iter()
                .all(|line| line.width() <= columns.parse().unwrap()),
            "{lines:#?}"
        );
        for info in registry::PROTOCOLS.iter().map(|protocol| protocol.info()) {
            assert!(
                lines.iter().any(|line| line.starts_with(info.id)),
                "{lines:#?}"
            );
            let words = |text: &str| {
                text.split(' ')
                    .all(|word| lines.iter().any(|line| line.contains(word)))
            };
            let best_known = catalog::games_of(info);
            assert!(words(best_known[0].name), "{lines:#?}");
        }
    }
}

#[test]
fn json_has_the_best_answer_or_all() {
    let serve = Serve::with(HOUSE);
    for _ in 0..3 {
        let best = run(["query", "--json", &serve.address()])
            .ends_with(0)
            .json();
        assert_eq!(best.len(), 1, "{best:?}");
        assert_eq!(best[0]["protocol"], FULL, "it has the most fields");
    }
    let output = run(["query", "--json", "--all", &serve.address()]).ends_with(0);
    let protocols: Vec<_> = output
        .json()
        .iter()
        .map(|line| line["protocol"].clone())
        .collect();
    assert_eq!(protocols, [FULL, "ugp", "onequery"]);
    // In a table, the other answers are remarks.
    let closed = closed().to_string();
    let two = Serve::with(&[HOUSE, BOTH].concat());
    let table = run(["query", &two.address(), &closed]).ends_with(1).out;
    assert_eq!(table.lines().count(), 3, "{table}");
    assert_also(&table, "also ", |info| info.id);
}

/// Protocols of a server that answers in two protocols of the first wave. They share no game, but the
/// challenge of A2S is a valid reply that arrives before the answer of the other one.
const BOTH: &[&str] = &["--protocol", FULL, "--protocol", "a2s"];

/// Checks that A2S, and no other protocol over UDP, is named after `prefix`.
#[track_caller]
fn assert_also(text: &str, prefix: &str, name: fn(&'static Info) -> &'static str) {
    let (_, also) = text.split_once(prefix).unwrap_or_else(|| panic!("{text}"));
    let others = registry::datagram().map(Protocol::info);
    for info in others.filter(|info| info.id != FULL) {
        assert_eq!(
            also.contains(name(info)),
            info.id == "a2s",
            "{}: {text}",
            info.id
        );
    }
}

#[test]
fn icon_is_written_to_a_file() {
    let image = b"\x89PNG\r\n\x1a\nharbour";
    let icon = Temporary::file("icon.png", image);
    let url = |serve: &Serve| serve.url("minecraft-status");
    let args = ["--protocol", "minecraft-status", "--name", "Harbour house"];
    let with = Serve::with(&[&args[..], &["--icon", icon.text()]].concat());
    let without = Serve::with(&args);

    let file = Temporary::file("written.png", "before");
    let output = run(["query", "--icon", file.text(), &url(&without)]).ends_with(1);
    output.warns(&["sends no icon"]);
    assert_eq!(std::fs::read(file.text()).unwrap(), b"before");

    let output = run(["query", "--icon", file.text(), &url(&with)]).ends_with(0);
    output.shows(&["Harbour house"]);
    assert_eq!(std::fs::read(file.text()).unwrap(), image);

    run(["query", "--icon", file.text(), "192.0.2.1", "192.0.2.2"])
        .fails_as_usage("--icon writes one file; name one target");
    let output = run(["query", "--icon", "/no/such/icon.png", &url(&with)]).ends_with(1);
    output.shows(&["Harbour house"]);
    output.warns(&["/no/such/icon.png: No such file"]);
}

#[test]
fn reads_targets_from_standard_input() {
    let serve = Serve::with(&["--motd", "From a list"]);
    let list = format!(
        "# servers\n\n  {}  \n{}\n",
        serve.url("ugp"),
        serve.url(FULL)
    );
    let output = run_with(["query", "-", "--json"], list.as_bytes()).ends_with(0);
    let protocols: Vec<_> = output
        .json()
        .iter()
        .map(|line| line["protocol"].clone())
        .collect();
    assert_eq!(protocols, ["ugp", FULL]);
    run_with(["query", "-"], b"\n# nobody\n").fails_as_usage("no target on standard input");
    run_with(["query", "-"], b"\xFF").fails_as_usage("write one target per line");
    // An invalid line is reported with its number, and the others are queried.
    let list = format!("# mine\n25577\n{} # the lobby\n", serve.url("ugp"));
    let output = run_with(["query", "-", "--json"], list.as_bytes()).ends_with(1);
    assert_eq!(output.json().len(), 1);
    assert_eq!(output.json()[0]["ok"], true);
    assert!(
        output
            .err
            .starts_with("error: standard input, line 2: \"25577\": a number is no host"),
        "{}",
        output.err
    );
}

#[test]
fn json_has_one_line_per_answer() {
    let serve = Serve::with(HOUSE);
    let closed = closed().to_string();
    let output = run(["query", "--json", "--all", &serve.address(), &closed]).ends_with(1);
    let lines = output.json();
    let answered: Vec<_> = lines.iter().filter(|line| line["ok"] == true).collect();
    assert_eq!(
        (lines.len(), answered.len()),
        (ids().len() + 1, ids().len())
    );
    for line in answered {
        let status = &line["status"];
        assert_eq!(line["target"], serve.address().as_str());
        assert_eq!(
            (&status["players"]["online"], &status["players"]["max"]),
            (&3.into(), &64.into())
        );
        assert_eq!(status["players"]["list"].as_array().unwrap().len(), 3);
        assert!(line["latency_ms"].as_f64().unwrap() > 0.0);
    }
    let failed = &lines[lines.len() - 1];
    assert_eq!(
        (&failed["ok"], &failed["error"]["kind"]),
        (&false.into(), &"port-closed".into())
    );
    assert!(!output.out.contains('\x1b'));
}

#[test]
fn raw_shows_each_datagram_and_its_fields() {
    let serve = Serve::with(HOUSE);
    for id in ids() {
        let output = run(["query", "--raw", &serve.url(id)]).ends_with(0);
        assert_harmless(&output.out, false);
        assert!(
            output.out.contains('→') && output.out.contains('←'),
            "{}",
            output.out
        );
        // All bytes of all datagrams are shown: the sum of the lengths in the headings equals the
        // number of bytes in the rows.
        let lengths = output
            .out
            .lines()
            .filter(|line| line.starts_with(['→', '←']));
        let lengths: usize = lengths
            .map(|line| {
                line.rsplit(", ")
                    .next()
                    .unwrap()
                    .trim_end_matches(" bytes")
                    .parse::<usize>()
                    .unwrap()
            })
            .sum();
        let rows = output
            .out
            .lines()
            .skip_while(|line| !line.starts_with('→'))
            .filter(|line| line.starts_with("  ") && line.len() > 9);
        let hex = |line: &str| {
            let digits: String = line.chars().skip(9).take(47).collect();
            digits
                .split_whitespace()
                .take_while(|word| word.len() == 2)
                .count()
        };
        assert_eq!(rows.map(hex).sum::<usize>(), lengths, "{}", output.out);
    }
}

#[test]
fn lists_players_unless_disabled() {
    let serve = Serve::with(HOUSE);
    for id in ids() {
        for (flags, listed) in [
            (&[][..], true),
            (&["--players"], true),
            (&["--no-players"], false),
            (&["--no-players", "--players"], true),
            (&["--basic", "--no-players"], false),
        ] {
            let mut args = vec!["query".to_owned(), serve.url(id)];
            args.extend(flags.iter().map(|flag| (*flag).to_owned()));
            let output = run(&args).ends_with(0);
            assert_eq!(
                output.out.contains("Alice"),
                listed,
                "{id} {flags:?}: {}",
                output.out
            );
            assert!(output.out.contains("3 / 64"));
        }
    }
    let basic = run(["query", "--basic", "--json", &serve.url(FULL)])
        .ends_with(0)
        .json();
    assert_eq!(
        basic[0]["status"]["version"],
        serde_json::Value::Null,
        "the short reply has no version"
    );
    assert_eq!(basic[0]["status"]["map"], "old_mill");
}

#[test]
fn reads_auth_tokens_from_flag_environment_or_file() {
    let serve = Serve::with(&[
        "--name",
        "Private",
        "--player",
        "Alice",
        "--option",
        "onequery.public=[]",
        "--option",
        r#"onequery.tokens={ "s3cret" = ["basic", "players"] }"#,
    ]);
    let target = serve.url("onequery");
    let refused = run(["query", &target]).ends_with(1).err;
    assert!(
        refused.contains("refused by the server: it requires an auth token"),
        "{refused}"
    );
    assert!(!refused.contains("Private") && !refused.contains("Alice"));
    let wrong = run(["query", &target, "--auth-token", "guess", "--json"]).ends_with(1);
    assert_eq!(wrong.json()[0]["error"]["kind"], "refused");
    assert!(!wrong.out.contains("guess"));

    let opened = |output: Finished| {
        let output = output.ends_with(0);
        output.shows(&["Private", "Alice"]);
        assert!(!output.out.contains("s3cret"));
    };
    opened(run(["query", &target, "--auth-token", "s3cret"]));
    let raw = run(["query", "--raw", &target, "--auth-token", "s3cret"])
        .ends_with(0)
        .out;
    assert!(
        raw.contains("·· ··") && !raw.contains("73 33 63 72 65 74") && !raw.contains("s3cret"),
        "{raw}"
    );
    let mut from_environment = command(["query", &target]);
    from_environment.env("HAILER_AUTH_TOKEN", "s3cret");
    opened(finish(from_environment, None));
    for text in ["s3cret", "s3cret\n", "  s3cret \r\nnotes below\n"] {
        let file = Temporary::file("token", text);
        opened(run(["query", &target, "--auth-token-file", file.text()]));
    }
    // A flag overrides the environment.
    let mut overruled = command(["query", &target, "--auth-token", "s3cret"]);
    overruled.env("HAILER_AUTH_TOKEN", "wrong");
    opened(finish(overruled, None));
    let file = Temporary::file("token", "s3cret\n");
    let mut overruled = command(["query", &target, "--auth-token-file", file.text()]);
    overruled.env("HAILER_AUTH_TOKEN", "wrong");
    opened(finish(overruled, None));

    let mut unset = command(["query", &target]);
    unset.env("HAILER_AUTH_TOKEN", "");
    assert!(
        finish(unset, None)
            .ends_with(1)
            .err
            .contains("requires an auth token"),
        "an empty variable must be ignored"
    );

    run(["query", &target, "--auth-token-file", "/no/such/file"]).fails_as_usage("/no/such/file");
    let empty = Temporary::file("token", "\nsecond line\n");
    run(["query", &target, "--auth-token-file", empty.text()])
        .fails_as_usage("first line is empty");
    let long = Temporary::file("token", "x".repeat(1_348));
    run(["query", &target, "--auth-token-file", long.text()])
        .fails_as_usage("1348 bytes; at most 1347 fit into a request");
    let mut long = command(["query", &target]);
    long.env("HAILER_AUTH_TOKEN", "x".repeat(1_348));
    let long = finish(long, None);
    assert!(!long.err.contains("xx"));
    long.fails_as_usage("at most 1347 fit");
    let longest = Temporary::file("token", "x".repeat(1_347));
    run(["query", &target, "--auth-token-file", longest.text()]).ends_with(1);
    let mut help = command(["query", "--help"]);
    help.env("HAILER_AUTH_TOKEN", "s3cret");
    assert!(
        !finish(help, None).ends_with(0).out.contains("s3cret"),
        "help must not show the token"
    );
}

#[test]
fn hints_at_a_token_if_the_player_list_is_missing() {
    let serve = Serve::with(&[
        "--name",
        "Half",
        "--player",
        "Alice",
        "--option",
        r#"onequery.public=["basic"]"#,
    ]);
    let output = run(["query", &serve.url("onequery")]).ends_with(0).out;
    assert!(
        output.contains("Half") && output.contains("auth token") && !output.contains("Alice"),
        "{output}"
    );
}

#[test]
fn exit_codes_name_the_result() {
    let serve = Serve::with(&["--demo"]);
    let silent = Server::silent();
    let quick = ["--timeout", "50ms", "--retries", "0"];
    let code = |targets: &[&str]| run(["query"].iter().chain(targets).chain(&quick)).code();
    let alive = serve.address();
    let silent = silent.address.to_string();
    let closed = closed().to_string();
    assert_eq!(code(&[&alive]), Some(0));
    assert_eq!(code(&[&alive, &alive]), Some(0));
    assert_eq!(code(&[&silent]), Some(1));
    assert_eq!(code(&[&closed]), Some(1));
    assert_eq!(code(&[&alive, &silent]), Some(1));
    assert_eq!(code(&[&alive, "--json", &closed]), Some(1));
    assert_eq!(code(&["not a target", &alive]), Some(2));
}

#[test]
fn failures_name_their_cause() {
    let silent = Server::silent();
    let output = run([
        "query",
        &silent.address.to_string(),
        "--timeout",
        "30ms",
        "--retries",
        "1",
    ])
    .ends_with(1);
    output.warns(&["no answer in 0.", "to 2 datagrams"]);
    let output = run(["query", &closed().to_string()]).ends_with(1);
    output.warns(&["nothing listens on UDP port"]);

    let malformed = Server::script(|request| vec![minecraft(request, b"Hello\x1b[2J")]);
    let target = format!("minecraft-query://{}", malformed.address);
    let output =
        run(format!("query --basic {target} --timeout 50ms --retries 0").split(' ')).ends_with(1);
    for expected in ["malformed", "offset", "48 65 6c 6c 6f 1b"] {
        assert!(output.err.contains(expected), "{expected}: {}", output.err);
    }
    assert_harmless(&output.err, false);

    // No lookup leaves the machine: the name server is part of the test.
    let dns = Dns::with(&[("broken.example.test", Record::Failure)]);
    let server = dns.address().to_string();
    let output = run(["query", "nobody.example.test", "--name-server", &server]).ends_with(1);
    output.warns(&["nobody.example.test: name not found"]);
    let output = run(format!(
        "query --json nobody.example.test broken.example.test --name-server {server}"
    )
    .split(' '))
    .ends_with(1);
    let kinds: Vec<_> = output
        .json()
        .iter()
        .map(|line| line["error"]["kind"].clone())
        .collect();
    assert_eq!(kinds, ["name-not-found", "lookup"]);
}

#[test]
fn strict_refuses_deviations() {
    let full = b"splitnum\0\x80\0hostname\0Odd\0gametype\0SMP\0game_id\0MINECRAFT\0version\x001\0plugins\0\0map\0m\0\
                 numplayers\x000\0maxplayers\x005\0hostport\x001\0hostip\0h\0\0\x01player_\0\0\0";
    let server = Server::script(move |request| vec![minecraft(request, full)]);
    let target = format!("minecraft-query://{}", server.address);
    let output = run(["query", "--basic", &target]).ends_with(0);
    output.shows(&["Deviates from the protocol", "full-for-basic"]);
    let output = run(["query", "--basic", "--strict", &target]).ends_with(1);
    assert!(
        output
            .err
            .contains("deviates from Minecraft Query: full-for-basic"),
        "{}",
        output.err
    );
}

#[test]
fn usage_errors_are_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (&["query", ""], "needed"),
        (&["query", "a b"], "neither an address nor a host name"),
        (&["query", "host:0"], "1 to 65535"),
        (&["query", "host:99999"], "1 to 65535"),
        (&["query", "127.0.0.1", "25577"], "such as 127.0.0.1:25577"),
        (&["query", "0x7f000001"], "four numbers"),
        (&["query", "a:1,b:2"], "with spaces: a:1 b:2"),
        (&["query", "::1:::2"], "IPv6"),
        (&["query", "[::1"], "not closed"),
        (&["query", "gopher://host"], "`hailer protocols`"),
        (
            &["query", "--protocol", "ugp", "onequery://host"],
            "another protocol",
        ),
        (&["query", "host\x1b[2J\u{202E}"], "neither"),
        (&["ping", "host:0"], "1 to 65535"),
        (&["ping", "a b"], "neither"),
    ];
    for (args, expected) in cases {
        let output = run(*args);
        assert_harmless(&output.err, false);
        output.fails_as_usage(expected);
    }
    // Errors found by clap have its messages, with the same exit code.
    for args in [
        &["query"][..],
        &["query", "--nope", "host"],
        &["query", "--protocol", "gopher", "host"],
        &["query", "--timeout", "soon", "host"],
        &["query", "--timeout", "0", "host"],
        &["query", "--retries", "-1", "host"],
        &["query", "--concurrency", "0", "host"],
        &["query", "--name-server", "example.com", "host"],
        &["ping", "--interval", "1ms", "host"],
        &["nope"],
        &[],
    ] {
        let output = run(args).ends_with(2);
        assert_eq!(output.out, "");
        assert!(!output.err.is_empty());
    }
}

/// A text with all kinds of control characters.
fn hostile() -> Status {
    let evil = "\x1b[2J\x1b]0;owned\x07\u{9b}31m\u{202E}evil\u{2066}\u{200F}\u{61C}\u{2028}\u{7f}\x08\r\u{0}!\t\u{85}";
    let mut status = status(evil, &["\x1b[31mEve\u{202E}\0\n", "\u{9b}2JMallory\r"]);
    status.motd = Some(Text::legacy(format!("\u{A7}a{evil}\n{evil}")));
    status.game = Some(evil.into());
    status.mode = Some(evil.into());
    status.map = Some(evil.into());
    status.version = Some(evil.into());
    status.address = Some(Address {
        host: Some(evil.into()),
        port: Some(1),
    });
    status.rules = vec![Rule {
        key: evil.into(),
        value: evil.into(),
    }];
    status.extra.push(Extra::new("software", evil));
    let plugin = Value::Table(vec![
        ("name".into(), evil.into()),
        ("version".into(), evil.into()),
    ]);
    status
        .extra
        .push(Extra::new("plugins", Value::List(vec![plugin])));
    status
        .players
        .list
        .push(Player::named(Text::unformatted(evil)));
    status.players.online = Some(3);
    status
}

#[test]
fn a_hostile_server_does_not_reach_the_terminal() {
    for id in ids() {
        let server = Server::of(&[protocol(id)], &hostile());
        let target = format!("{id}://{}", server.address);
        for args in [
            &["query", &target][..],
            &["query", "--raw", &target],
            &["query", &target, &target],
            &["query", "--basic", &target],
            &["query", "--strict", &target],
        ] {
            let output = run(args);
            assert_harmless(&output.out, false);
            assert!(
                output.out.contains("evil") || output.code() == Some(1),
                "{}",
                output.out
            );
            let mut colored = command(args);
            colored.env("CLICOLOR_FORCE", "1");
            assert_harmless(&finish(colored, None).out, true);
        }
        let json = run(["query", "--json", &target]).ends_with(0);
        assert_eq!(json.out.lines().count(), 1);
        assert_harmless(&json.out, false);
        let answer = &json.json()[0]["status"];
        assert!(answer["players"]["list"].as_array().unwrap().len() >= 2);
        for text in [&answer["name"], &answer["motd"]] {
            assert_harmless(text["plain"].as_str().unwrap_or_default(), false);
        }
    }
}

#[test]
fn a_hostile_minecraft_server_beyond_our_own_responder_does_not_reach_the_terminal() {
    let evil = "\u{1b}[2J\u{9b}evil\u{202E}\r";
    let pairs = [
        "hostname",
        "gametype",
        "game_id",
        "version",
        "plugins",
        "map",
        "numplayers",
        "maxplayers",
        "hostport",
        "hostip",
        "\x1b[1mkey",
    ];
    let mut stat = b"splitnum\0\x80\0".to_vec();
    for key in pairs {
        let value = if key.starts_with("num") || key.starts_with("max") || key == "hostport" {
            "7"
        } else {
            evil
        };
        stat.extend([key.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    stat.extend(b"\0\x01player_\0");
    stat.extend([evil.as_bytes(), b"\0", b"\xFF\xFE\x9B", b"\0\0"].concat());
    let server = Server::script(move |request| vec![minecraft(request, &stat)]);
    let target = format!("minecraft-query://{}", server.address);
    for args in [
        &["query", &target][..],
        &["query", "--raw", &target],
        &["query", &target, &target],
    ] {
        let output = run(args).ends_with(0);
        assert_harmless(&output.out, false);
        assert!(output.out.contains("evil"));
    }
}

#[test]
fn closed_output_ends_it_without_an_error() {
    let serve = Serve::with(&["--demo"]);
    let target = serve.url(FULL);
    let many: Vec<&str> = std::iter::repeat_n(target.as_str(), 300).collect();
    for mode in ["--json", "--long", "--raw"] {
        let process = Process::start(command(["query", mode]).args(&many));
        // Closed before anything can be read.
        let (code, output) = process.ends_without_output();
        assert_eq!((code, output.as_str()), (Some(0), ""), "{mode}");
    }
}

#[test]
fn closed_output_keeps_the_exit_code() {
    let closed = closed().to_string();
    for args in [
        &["query", &closed][..],
        &["query", "--json", &closed],
        &["query", &closed, &closed],
    ] {
        let process = Process::start(&mut command(args));
        let (code, output) = process.ends_without_output();
        assert_eq!(code, Some(1), "{args:?}");
        assert!(!output.contains("error"), "{args:?}: {output}");
    }
}

#[test]
fn raw_shows_the_datagrams_of_failed_queries() {
    let server = Server::script(|request| match request[2] {
        9 => vec![minecraft(request, b"")],
        _ => Vec::new(),
    });
    let target = format!("minecraft-query://{}", server.address);
    let args = [
        "query",
        "--raw",
        &target,
        "--timeout",
        "50ms",
        "--retries",
        "1",
    ];
    let finished = run(args).ends_with(1);
    finished.warns(&["no complete answer"]);
    let output = finished.out;
    let headings: Vec<&str> = output
        .lines()
        .filter(|line| line.starts_with(['→', '←']))
        .collect();
    for (heading, expected) in headings.iter().zip([
        "handshake request",
        "handshake reply",
        "stat request",
        "handshake request",
        "handshake reply",
        "stat request",
    ]) {
        assert!(heading.contains(expected), "{output}");
    }
    assert_eq!(headings.len(), 6, "{output}");
    assert!(output.contains("31 32 33 34 35 00"), "{output}");

    let malformed = Server::script(|request| vec![minecraft(request, b"Hello")]);
    let target = format!("minecraft-query://{}", malformed.address);
    let output = run(format!("query --raw {target} --timeout 50ms --retries 0").split(' '))
        .ends_with(1)
        .out;
    assert_eq!(
        output.matches("Minecraft Query handshake reply").count(),
        1,
        "{output}"
    );
    assert_eq!(
        output.matches("48 65 6c 6c 6f").count(),
        1,
        "the invalid datagram must be shown once: {output}"
    );
}

#[test]
fn queries_many_servers_concurrently() {
    let silent: Vec<Server> = (0..20).map(|_| Server::silent()).collect();
    let mut args = vec![
        "query".to_owned(),
        "--json".into(),
        "--timeout".into(),
        "300ms".into(),
        "--retries".into(),
        "0".into(),
    ];
    args.extend(silent.iter().map(|server| server.address.to_string()));
    let started = Instant::now();
    let output = run(&args).ends_with(1);
    assert_eq!(output.json().len(), 20);
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "queries one after the other would take 6 s"
    );
}

#[test]
fn lists_a_thousand_players() {
    let players: Vec<String> = (0..1000).map(|i| format!("Player{i:04}")).collect();
    let players: Vec<&str> = players.iter().map(String::as_str).collect();
    let status = status("Crowd", &players);
    for id in ["minecraft-query", "onequery"] {
        let server = Server::at(loopback(), &[protocol(id)], &status);
        let output = run(["query", &format!("{id}://{}", server.address)])
            .ends_with(0)
            .out;
        assert!(players.iter().all(|player| output.contains(player)), "{id}");
    }
}

#[test]
fn shows_stream_answers() {
    let server = Stream::answering(ANY, kick("Old \u{A7}but alive\u{A7}3\u{A7}20"));
    let address = server.address.to_string();
    let target = format!("minecraft-status://{}", server.address);
    for args in [
        ["query", &target, "--long"],
        ["query", &address, "--protocol=minecraft-status"],
    ] {
        let output = run(args).ends_with(0);
        for expected in [
            "Minecraft Status",
            "Old ut alive",
            "3 / 20",
            "round trip",
            &address,
            "formatted-motd",
        ] {
            assert!(output.out.contains(expected), "{expected}: {}", output.out);
        }
        assert_harmless(&output.out, false);
    }
    // Closed datagram ports are not reported if the stream has an answer.
    let output = run(["query", &address, "--json"]).ends_with(0).json();
    assert_eq!(
        (output.len(), &output[0]["protocol"]),
        (1, &"minecraft-status".into())
    );
    assert_eq!(
        (
            &output[0]["datagrams_sent"],
            &output[0]["datagrams_received"]
        ),
        (&1.into(), &1.into())
    );

    let raw = run(["query", &target, "--raw"]).ends_with(0).out;
    for expected in [
        "handshake and status request (by its shape), 22 bytes\n",
        "legacy reply of beta (by its shape), ",
        "online",
        "\"20\"",
    ] {
        assert!(raw.contains(expected), "{expected}: {raw}");
    }
    let table = run(["query", &target, &closed().to_string(), &target])
        .ends_with(1)
        .out;
    assert_eq!(table.matches("3 / 20").count(), 2, "{table}");
    assert!(table.contains("port closed"), "{table}");

    let output = run(["ping", &target, "-c", "2", "-i", "100ms"])
        .ends_with(0)
        .out;
    assert!(
        output.contains("seq=2 time=") && output.contains("2 sent, 2 answered"),
        "{output}"
    );
}

#[test]
fn kick_reason_is_shown() {
    let server = Stream::answering(ANY, kick("You are \u{1b}[2Jbanned"));
    let output = run(["query", &format!("minecraft-status://{}", server.address)]).ends_with(1);
    for expected in ["it kicks the client: You are", "banned"] {
        assert!(output.err.contains(expected), "{expected}: {}", output.err);
    }
    assert_harmless(&output.err, false);
}
