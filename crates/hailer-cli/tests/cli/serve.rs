//! `hailer serve` and `hailer demo`.

use crate::support::{closed, ids};
use crate::tool::{Process, Serve, Temporary, address, assert_harmless, command, run};
use hailer::proto::Transport;
use hailer::proto::registry;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[test]
fn flags_set_status_and_addresses() {
    let serve = Serve::start(
        3,
        [
            "--listen",
            "minecraft-query=127.0.0.1:0",
            "--listen",
            "ugp=127.0.0.1:0",
            "--listen",
            "127.0.0.1:0",
            "--name",
            "Three doors",
        ],
    );
    assert!(
        serve.listening[0].ends_with(" for minecraft-query")
            && serve.listening[1].ends_with(" for ugp")
    );
    assert!(
        serve.listening[2].ends_with(" for minecraft-query, ugp, onequery"),
        "{:?}",
        serve.listening
    );
    let output = run(["query", "--json", &address(&serve.listening[1])])
        .ends_with(0)
        .json();
    assert_eq!((output.len(), &output[0]["protocol"]), (1, &"ugp".into()));
    assert_eq!(output[0]["status"]["name"]["plain"], "Three doors");
}

#[test]
fn single_protocol_can_be_selected() {
    for id in ids() {
        let serve = Serve::with(&["--protocol", id, "--name", "Alone"]);
        assert!(serve.listening[0].ends_with(&format!(" for {id}")));
        // Without `--all`, some protocols are probed at their own ports only.
        let output = run(["query", "--all", "--json", &serve.address()])
            .ends_with(0)
            .json();
        assert_eq!((output.len(), &output[0]["protocol"]), (1, &id.into()));
    }
}

#[test]
fn listens_on_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("this machine has no IPv6");
        return;
    }
    let serve = Serve::start(1, ["--listen", "[::1]:0", "--name", "Six"]);
    assert!(serve.address().starts_with("[::1]:"));
    run(["query", &serve.address()]).ends_with(0);
}

#[test]
fn file_sets_status_and_addresses() {
    let config = Temporary::file(
        "servers.toml",
        r#"
            [[server]]
            listen = "127.0.0.1:0"
            protocols = ["minecraft-query", "onequery"]
            status = { motd = "&bFrom a file", max-players = 7, map = "m", players = ["Alice", { name = "Bob", uuid = "00000000-0000-4000-8000-000000000001" }] }
            options.onequery = { public = ["basic"], tokens = { "s3cret" = ["players"] } }

            [[server]]
            listen = ["ugp=127.0.0.1:0"]
            demo = 7
        "#,
    );
    let checked = run(["serve", "--config", config.text(), "--check-config"]).ends_with(0);
    assert!(
        checked.out.starts_with("valid: 2 servers"),
        "{}",
        checked.out
    );

    let serve = Serve::start(2, ["--config", config.text()]);
    let output = run(["query", "--json", &serve.url("minecraft-query")])
        .ends_with(0)
        .json();
    let status = &output[0]["status"];
    assert_eq!(
        (&status["motd"]["plain"], &status["motd"]["raw"]),
        (&"From a file".into(), &"\u{A7}bFrom a file".into())
    );
    assert_eq!(
        (&status["players"]["online"], &status["players"]["max"]),
        (&2.into(), &7.into())
    );
    let output = run([
        "query",
        "--json",
        &serve.url("onequery"),
        "--auth-token",
        "s3cret",
    ])
    .ends_with(0)
    .json();
    let bob = &output[0]["status"]["players"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .find(|player| player["name"]["plain"] == "Bob")
        .cloned();
    assert_eq!(
        bob.as_ref().unwrap()["uuid"],
        "00000000-0000-4000-8000-000000000001"
    );
    let demo = run(["query", "--json", &address(&serve.listening[1])])
        .ends_with(0)
        .json();
    assert_eq!(demo[0]["protocol"], "ugp");
    assert!(demo[0]["status"]["players"]["online"].as_i64().unwrap() > 0);
}

#[test]
fn sighup_reloads_the_file() {
    let text = |motd: &str| {
        format!(
            "[[server]]\nlisten = \"127.0.0.1:0\"\nprotocols = [\"minecraft-query\"]\nstatus = {{ motd = \"{motd}\" }}\n"
        )
    };
    let config = Temporary::file("again.toml", text("before"));
    let serve = Serve::start(1, ["--config", config.text()]);
    let motd = || {
        let output = run(["query", "--json", &serve.url("minecraft-query")])
            .ends_with(0)
            .json();
        output[0]["status"]["motd"]["plain"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let until = |expected: &str| (0..100).any(|_| motd() == expected);
    assert_eq!(motd(), "before");
    std::fs::write(config.text(), text("after")).unwrap();
    serve.signal("HUP");
    assert!(until("after"), "at the same address");
    std::fs::write(config.text(), "[[server]]\nporp = 1\n").unwrap();
    serve.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(motd(), "after", "an invalid file must change nothing");
    let (code, output) = serve.stop("TERM");
    assert_eq!(code, Some(0), "{output}");
    assert!(
        output.contains("again.toml:2: ") && output.contains("keeping the old configuration"),
        "{output}"
    );
    assert!(
        output.contains("configuration reloaded: 1 server on 1 address"),
        "{output}"
    );
}

#[test]
fn file_errors_are_one_line_with_file_and_line() {
    let mistakes = [
        ("[[server]", 1, ""),
        ("[[server]]\n\nporp = 1\n", 3, "porp"),
        ("[[server]]\nlisten = 7\n", 2, ""),
        (
            "[[server]]\nlisten = \"127.0.0.1:0\"\nstatus = { max-players = \"many\" }\n",
            3,
            "max-players",
        ),
        (
            "# nothing\n[[server]]\nstatus = { motd = \"unended }\n",
            3,
            "",
        ),
    ];
    for (text, line, expected) in mistakes {
        let file = Temporary::file("bad.toml", text);
        for check in [&["--check-config"][..], &[]] {
            let args = [&["serve", "--config", file.text()], check].concat();
            let output = run(args).ends_with(2);
            let place = format!("error: {}:{line}: ", file.text());
            assert!(
                output.err.starts_with(&place) && output.err.contains(expected),
                "{}",
                output.err
            );
            output.fails_as_usage("");
        }
    }
    // Valid TOML with invalid settings fails in the same way.
    let mistakes = [
        ("", "no server; write at least one [[server]] block"),
        (
            "[[server]]\nprotocols = [\"gopher\"]\n",
            ":2: server.protocols: unknown protocol",
        ),
        (
            "[[server]]\ndemo = 1\n[[server]]\nlisten = \"nowhere\"\n",
            ":4: listen",
        ),
        (
            "[[server]]\noptions.ugp = { max-reply = 1 }\n",
            ":2: server.options.ugp.max-reply: must be a whole number",
        ),
        (
            "[[server]]\noptions.onequery = { tokens = { \"s3cret\" = [\"everything\"] } }\n",
            ":2: server.options.onequery.tokens: ",
        ),
    ];
    for (text, expected) in mistakes {
        let file = Temporary::file("bad.toml", text);
        let output = run(["serve", "--config", file.text(), "--check-config"]);
        assert!(
            output.err.contains(file.text()) && !output.err.contains("s3cret"),
            "{}",
            output.err
        );
        output.fails_as_usage(expected);
    }
    run(["serve", "--config", "/no/such/file.toml"]).fails_as_usage("/no/such/file.toml: ");
    let binary = Temporary::file("bad.toml", b"\xFF\xFE\0");
    run(["serve", "--config", binary.text()]).fails_as_usage(binary.text());
}

#[test]
fn flag_errors_are_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["--listen", "nowhere"],
            "expected ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT",
        ),
        (
            &["--listen", "127.0.0.1:99999"],
            "the port 99999 must be a number from 1 to 65535",
        ),
        (
            &["--listen", "gopher=127.0.0.1:1"],
            "unknown protocol \"gopher\"",
        ),
        (
            &["--protocol", "ugp", "--listen", "onequery=127.0.0.1:1"],
            "not among the protocols",
        ),
        (&["--rule", "novalue"], "write KEY=VALUE"),
        (&["--option", "ugp"], "write PROTOCOL.KEY=VALUE"),
        (&["--option", "ugp=1"], "write PROTOCOL.KEY=VALUE"),
        (&["--option", "ugp.max-reply=1"], "64 to 65507"),
        (&["--option", "ugp.nope=1"], "unknown; known are"),
        (&["--option", "gopher.x=1"], "unknown protocol"),
        (&["--option", "onequery.v1=maybe"], "true or false"),
        (
            &["--option", "onequery.tokens={ s3cret = [\"everything\"] }"],
            "must list endpoints",
        ),
        (&["--max-players=-1"], "write a number from 0"),
        (&["--player", ""], "the name of a player is empty"),
    ];
    for (args, expected) in cases {
        let output = run(["serve"].iter().chain(*args));
        assert!(!output.err.contains("s3cret"), "{}", output.err);
        output.fails_as_usage(expected);
    }
    for args in [
        &["--demo", "--name", "x"][..],
        &["--config", "x", "--listen", "127.0.0.1:0"],
        &["--check-config"],
        &["--seed", "x"],
        &["--seed", "2"],
    ] {
        run(["serve"].iter().chain(args)).ends_with(2);
    }
}

/// Checks whether the second server accepts a token of the first. One socket queries both, since a
/// token is bound to the client's address and port.
fn accepts(giver: &str, other: &str) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let mut reply = [0; 1500];
    socket
        .send_to(b"\xFE\xFD\x09\x01\x02\x03\x04", giver)
        .unwrap();
    let (length, _) = socket.recv_from(&mut reply).unwrap();
    let digits = std::str::from_utf8(&reply[5..length - 1]).unwrap();
    let token: i32 = digits.parse().unwrap();
    let stat = [b"\xFE\xFD\x00\x01\x02\x03\x04", &token.to_be_bytes()[..]].concat();
    socket.send_to(&stat, other).unwrap();
    socket
        .recv_from(&mut reply)
        .is_ok_and(|(_, from)| from.to_string() == other)
}

#[test]
fn nodes_with_the_same_secret_accept_each_others_tokens() {
    let node = |secret: &str| {
        let config = format!(
            "[[server]]\nlisten = \"127.0.0.1:0\"\nprotocols = [\"minecraft-query\"]\n{secret}\n"
        );
        let file = Temporary::file("node.toml", config);
        Serve::start(1, ["--config", file.text()])
    };
    let shared = "secret = \"00112233445566778899aabbCCDDEEFF\"";
    let one = node(shared);
    let two = node(shared);
    let other = node("secret = \"ffeeddccbbaa99887766554433221100\"");
    let random = node("");
    assert!(accepts(&one.address(), &one.address()), "its own");
    assert!(accepts(&one.address(), &two.address()) && accepts(&two.address(), &one.address()));
    assert!(
        !accepts(&one.address(), &other.address()) && !accepts(&one.address(), &random.address())
    );
}

#[test]
fn errors_never_contain_secrets() {
    let digits = "5ec4e75ec4e75ec4e75ec4e75ec4e7";
    for (text, expected) in [
        (
            format!("secret = \"{digits}\""),
            ":2: server.secret: expected 32 hexadecimal digits",
        ),
        (
            format!("secret = \"{digits}+f\""),
            ":2: server.secret: expected 32",
        ),
        (
            format!("secret = \"{digits}00000000\""),
            ":2: server.secret: expected 32",
        ),
        (
            "secret = 5000000000000007".into(),
            ":2: server.secret: expected 32",
        ),
        (
            format!("secret = [\"{digits}\"]"),
            ":2: server.secret: expected 32",
        ),
        (format!("secret = {digits}"), ":2: "),
        (format!("secret = \"{digits}"), ":2: "),
        (
            format!("options = \"{digits}\""),
            ":2: server.options: expected a table",
        ),
        (
            format!("options = [\"{digits}\"]"),
            ":2: server.options: expected a table",
        ),
        (
            format!("options.onequery = \"{digits}\""),
            ":2: server.options.onequery: expected a table",
        ),
        (
            format!("options.onequery.tokens = \"{digits}\""),
            ":2: server.options.onequery.tokens: ",
        ),
        (
            format!("options.onequery.tokens = {{ \"{digits}\" = 1 }}"),
            ":2: server.options.onequery.tokens: ",
        ),
        (
            format!("options.onequery.tokens = {{ \"{digits}\" = [], \"{digits}\" = [] }}"),
            ":2: ",
        ),
        (
            format!("options.onequery.tokens = {{ \"{digits}\" [] }}"),
            ":2: ",
        ),
    ] {
        let file = Temporary::file("hush.toml", format!("[[server]]\n{text}\n"));
        let output = run(["serve", "--check-config", "--config", file.text()]);
        assert!(
            !output.err.contains("5ec4e7") && !output.err.contains("5000000000000007"),
            "{}",
            output.err
        );
        output.fails_as_usage(expected);
    }
    for option in [
        format!("onequery.tokens={digits}"),
        format!("onequery.tokens={{ {digits} = 1 }}"),
        format!("onequery.tokens={{ {digits} = [\"everything\"] }}"),
        format!("onequery.{digits} =1"),
        digits.to_owned(),
    ] {
        let output = run(["serve", "--listen", "127.0.0.1:0", "--option", &option]);
        assert!(!output.err.contains("5ec4e7"), "{}", output.err);
        output.fails_as_usage("");
    }
}

#[test]
fn closed_output_causes_no_panic() {
    let mut process = Process::start(&mut command(
        "serve --listen 127.0.0.1:0 --for 200ms".split(' '),
    ));
    drop(process.child.stderr.take());
    assert_eq!(
        process.wait().code(),
        Some(0),
        "closed standard error must not fail the command"
    );
    let process = Process::start(&mut command(
        "serve --listen 127.0.0.1:0 --for 200ms".split(' '),
    ));
    assert_eq!(process.ends_without_output().0, Some(0));
}

#[test]
fn port_in_use_error_names_the_correction() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(["serve", "--listen", &address]).ends_with(1);
    assert_eq!(output.err.lines().count(), 1, "{}", output.err);
    assert!(
        output.err.starts_with("error: cannot listen on") && output.err.contains("--listen"),
        "{}",
        output.err
    );
}

#[test]
fn stop_signal_ends_it_with_a_summary() {
    for signal in ["TERM", "INT"] {
        let serve = Serve::with(&["--demo"]);
        run(["query", &serve.url("ugp")]).ends_with(0);
        let (code, output) = serve.stop(signal);
        assert_eq!(code, Some(0), "{output}");
        let summary = output.lines().last().unwrap_or_default();
        assert!(
            summary.starts_with("info: 2 datagrams received: 2 answered")
                && summary.ends_with(", 0 not answered"),
            "{output}"
        );
    }
}

#[test]
fn ends_after_the_configured_time() {
    let started = Instant::now();
    let output = run(["serve", "--listen", "127.0.0.1:0", "--for", "200ms"]).ends_with(0);
    assert!(started.elapsed() >= Duration::from_millis(200));
    assert!(
        output.out.starts_with("listening on 127.0.0.1:")
            && output.err.contains("0 datagrams received"),
        "{}",
        output.err
    );
    assert_harmless(&output.err, false);
}

#[test]
fn simulated_players_join_and_leave() {
    let serve = Serve::with(&["--demo", "--seed", "8"]);
    let online = || {
        let output = run(["query", "--json", &serve.url("ugp")])
            .ends_with(0)
            .json();
        output[0]["status"]["players"].clone()
    };
    let first = online();
    let started = Instant::now();
    // 40 simulated players; each joins every 2 to 10 min. With this seed, one joins
    // or leaves within 2 s.
    while online() == first {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "no player joined or left"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn the_demo_shows_every_protocol_and_ends() {
    let started = Instant::now();
    let output = run(["demo"]).ends_with(0);
    assert!(started.elapsed() < Duration::from_secs(20));
    for protocol in registry::datagram_responders() {
        let row = format!("\n{}://127.0.0.1:", protocol.info().id);
        assert_eq!(output.out.matches(&row).count(), 1, "{}", output.out);
    }
    let (servers, rest) = output.out.split_once("\n\n").unwrap();
    let count = registry::datagram_responders().count();
    assert!(servers.starts_with(&format!("{count} simulated servers on this machine, ")));
    assert!(servers.contains(&format!(". {count} replied, with ")));
    // Two answers in full, whose players have scores and times.
    let (answers, proposals) = rest.split_once("Try next\n").unwrap();
    let answers = match answers.split_once("● minecraft-status://") {
        Some((answers, _)) => answers,
        None => answers,
    };
    assert_eq!(answers.matches('●').count(), 2, "{answers}");
    for id in ["a2s", "quake1"] {
        let (_, answer) = answers.split_once(&format!("● {id}://")).unwrap();
        let (_, players) = answer.split_once("\n  player ").unwrap();
        let (columns, players) = players.split_once('\n').unwrap();
        assert!(columns.contains("score") && columns.contains("time"));
        let players: Vec<&str> = players
            .lines()
            .take_while(|line| !line.is_empty() && !line.starts_with('●'))
            .collect();
        assert!((2..=3).contains(&players.len()), "{answer}");
        let scores = players.iter().map(|row| row.split_whitespace().nth(1));
        assert!(
            scores.into_iter().any(|score| score != Some("0")),
            "{answer}"
        );
        let times = players.iter().map(|row| row.split_whitespace().nth(2));
        assert!(times.into_iter().any(|time| time != Some("0s")), "{answer}");
    }
    // Without the game, as the README's command builds it, there are three proposals.
    let lines = servers.lines().count() + answers.lines().count();
    let lines = lines + ["", "Try next", "serve", "query", "run"].len();
    assert!(lines <= 60, "{lines} lines:\n{}", output.out);
    assert!(output.err.is_empty(), "{}", output.err);
    assert_harmless(&output.out, false);
    // `hailer` accepts every command that the demo suggests.
    let proposed = proposals
        .lines()
        .filter_map(|line| line.split('#').next()?.trim().split_once("hailer "));
    let proposed: Vec<&str> = proposed.map(|(_, args)| args).collect();
    assert!(proposed.len() >= 2, "{proposals}");
    for args in proposed {
        let command = args.split(' ').next().unwrap();
        run([command, "--help"]).ends_with(0);
    }
    let other = run(["demo", "--seed", "2"]).ends_with(0);
    assert_ne!(other.out, output.out);
}

#[test]
fn dropped_server_leaves_no_process() {
    let address = {
        let serve = Serve::with(&["--demo"]);
        serve.address()
    };
    assert!(
        UdpSocket::bind(&address).is_ok(),
        "the server is still running"
    );
    let _ = closed();
}

/// Returns the protocols over TCP, without the game itself.
fn streams() -> impl Iterator<Item = &'static str> {
    let responders = registry::responders().into_iter();
    let infos = responders.map(|protocol| protocol.info());
    let streams = infos.filter(|info| info.transport == Transport::Stream);
    streams.map(|info| info.id)
}

#[test]
fn stream_protocols_are_served_if_named() {
    run(["serve", "--listen", "minecraft-12w=127.0.0.1:0"]).fails_as_usage("run `hailer world`");
    let serve = Serve::with(&["--demo"]);
    assert!(
        !serve.listening[0].contains("minecraft-12w"),
        "{}",
        serve.listening[0]
    );
    for id in streams() {
        let serve = Serve::with(&["--demo"]);
        assert!(!serve.listening[0].contains(id), "{}", serve.listening[0]);
        drop(serve);
        let address = format!("{id}=127.0.0.1:0");
        let serve = Serve::start(1, ["--listen", &address, "--motd", "Over TCP"]);
        assert!(serve.listening[0].ends_with(&format!(" for {id}")));
        let output = run(["query", "--json", &serve.url(id)]).ends_with(0).json();
        assert_eq!(output[0]["protocol"], id);
        // Protocols without a MOTD send it as name. One has no texts.
        let status = &output[0]["status"];
        let texts = ["motd", "name"].map(|member| &status[member]["plain"]);
        let is_shown = texts.iter().any(|text| *text == "Over TCP");
        assert!(is_shown || id == "terraria-join", "{id}: {status}");
    }
}

#[test]
fn both_transports_share_a_port() {
    // One protocol sends no texts.
    for id in streams().filter(|id| *id != "terraria-join") {
        let text = |motd: &str| {
            format!(
                "[[server]]\nlisten = \"127.0.0.1:0\"\nprotocols = [\"minecraft-query\", \"{id}\"]\nstatus = {{ motd = \"{motd}\" }}\n"
            )
        };
        let folder = std::env::temp_dir().join(format!("hls{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let control = folder.join("s.sock");
        let control = control.to_str().unwrap();
        let config = Temporary::file("both.toml", text("before"));
        let args = ["--config", config.text(), "--control", control];
        let serve = Serve::start(1, args);
        assert!(serve.listening[0].ends_with(&format!(" for minecraft-query, {id}")));
        let motd = |id: &str| {
            let output = run(["query", "--json", &serve.url(id)]).ends_with(0).json();
            let status = &output[0]["status"];
            let texts = ["motd", "name"].map(|member| status[member]["plain"].as_str());
            texts.into_iter().flatten().next().unwrap().to_owned()
        };
        assert_eq!([motd("minecraft-query"), motd(id)], ["before", "before"]);
        std::fs::write(config.text(), text("after")).unwrap();
        serve.signal("HUP");
        assert!((0..100).any(|_| motd(id) == "after"), "at the same address");
        assert_eq!(motd("minecraft-query"), "after");

        std::net::TcpStream::connect(serve.address()).unwrap();
        let status = || {
            let output = run(["serve", "status", "--control", control, "--json"]).ends_with(0);
            output.json()[0]["listeners"][0]["counts"].clone()
        };
        assert!((0..100).any(|_| status()["dropped"]["unfinished"] == 1));
        let counts = status();
        let connections = counts["connections"].as_u64().unwrap();
        assert_eq!(counts["requests"][id], connections - 1);
        assert_eq!(counts["answers"][id]["answer"], connections - 1);
        assert_eq!(counts["open_connections"], 0);
        let output = run(["serve", "status", "--control", control]).ends_with(0);
        output.shows(&[id]);
        drop(serve);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn an_icon_is_read_from_a_file() {
    run(["serve", "--icon", "/no/such/icon.png"])
        .fails_as_usage("status.icon: /no/such/icon.png: No such file");
    let text = Temporary::file("icon.png", "GIF89a");
    run(["serve", "--icon", text.text()]).fails_as_usage("the icon is not a PNG image");
    let icon = Temporary::file("icon.png", b"\x89PNG\r\n\x1a\n");
    Serve::with(&["--icon", icon.text()]);
}

#[test]
fn status_and_metrics_show_a_running_server() {
    let folder = std::env::temp_dir().join(format!("hl{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let control = folder.join("s.sock");
    let control = control.to_str().unwrap();
    let serve = Serve::start(
        1,
        [
            "--listen",
            "127.0.0.1:0",
            "--control",
            control,
            "--metrics",
            "127.0.0.1:0",
        ],
    );
    for protocol in ["minecraft-query", "ugp"] {
        run(["query", &serve.url(protocol)]).ends_with(0);
    }
    let stray = UdpSocket::bind("127.0.0.1:0").unwrap();
    stray
        .send_to(b"nothing that anybody knows", serve.address())
        .unwrap();
    let status = || {
        run(["serve", "status", "--control", control, "--json"])
            .ends_with(0)
            .json()[0]
            .clone()
    };
    let is_counted =
        (0..100).any(|_| status()["listeners"][0]["counts"]["dropped"]["no-query"] == 1);
    assert!(is_counted, "{}", status());
    let counts = &status()["listeners"][0]["counts"];
    assert_eq!(counts["answers"]["minecraft-query"]["answer"], 1);
    assert_eq!(counts["answers"]["minecraft-query"]["unverified"], 1);
    assert_eq!(counts["answers"]["ugp"]["unverified"], 2);
    assert_eq!(status()["sources"][0]["kind"], "fixed");
    assert!(
        run(["serve", "status", "--control", control])
            .ends_with(0)
            .out
            .contains("ugp")
    );
    drop(serve);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A reload while Redis is unavailable changes the local players immediately.
#[test]
fn a_reload_without_redis_does_not_delay_local_players() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", free.local_addr().unwrap());
    drop(free);
    let config = |players: &str| {
        format!(
            "[[server]]\nlisten = \"127.0.0.1:0\"\nprotocols = [\"onequery\"]\n\
             status.players = [{players}]\nnetwork = {{ url = \"{url}\", server-id = \"a\" }}\n"
        )
    };
    let file = Temporary::file("no-redis.toml", config("\"Alice\""));
    let serve = Serve::start(1, ["--config", file.text(), "--control", "off"]);
    let players = || {
        let output = run(["query", "--json", &serve.url("onequery")])
            .ends_with(0)
            .json();
        output[0]["status"]["players"]["online"].as_i64()
    };
    assert_eq!(players(), Some(1));
    std::fs::write(file.text(), config("\"Alice\", \"Bob\"")).unwrap();
    serve.signal("HUP");
    let started = Instant::now();
    while players() != Some(2) {
        assert!(
            started.elapsed() < Duration::from_secs(4),
            "the change took too long"
        );
    }
    let (code, output) = serve.stop("TERM");
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("2 without a uuid"), "{output}");
}

/// A Redis that is killed when the test ends.
struct Redis(std::process::Child);

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn servers_of_a_network_report_all_players() {
    use std::process::{Command, Stdio};
    if Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("skipped: redis-server is not installed");
        return;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let config = |id: &str, name: &str| {
        let text = format!(
            "[[server]]\nlisten = \"127.0.0.1:0\"\nprotocols = [\"onequery\"]\n\
             status = {{ name = \"{id}\", max-players = 10, players = [{{ name = \"{name}\", \
             uuid = \"00000000-0000-4000-8000-00000000000{id}\" }}] }}\n\
             network = {{ url = \"redis://127.0.0.1:{port}\", server-id = \"{id}\", refresh = \"10s\", heartbeat = \"5s\" }}\n"
        );
        Temporary::file(&format!("node{id}.toml"), text)
    };
    // One of the servers starts before Redis does.
    let one = config("1", "Alice");
    let two = config("2", "Bob");
    let first = Serve::start(1, ["--config", one.text(), "--control", "off"]);
    let ask = |serve: &Serve| {
        let output = run(["query", "--json", &serve.url("onequery")])
            .ends_with(0)
            .json();
        let names = output[0]["status"]["players"]["list"]
            .as_array()
            .unwrap()
            .iter();
        let names: Vec<String> = names
            .map(|player| player["name"]["plain"].as_str().unwrap().into())
            .collect();
        (
            names,
            output[0]["status"]["players"]["online"].as_i64().unwrap(),
            output[0]["status"]["name"]["plain"].clone(),
        )
    };
    assert_eq!(
        ask(&first),
        (vec!["Alice".into()], 1, "1".into()),
        "local players only"
    );
    let args = [
        "--port",
        &port.to_string(),
        "--save",
        "",
        "--appendonly",
        "no",
        "--bind",
        "127.0.0.1",
    ];
    let redis = Redis(
        Command::new("redis-server")
            .args(args)
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let second = Serve::start(1, ["--config", two.text(), "--control", "off"]);
    let both = |serve: &Serve| (0..150).any(|_| ask(serve).0.len() == 2);
    assert!(both(&first) && both(&second));
    assert_eq!((ask(&first).1, ask(&first).2), (2, "1".into()));
    let (code, output) = second.stop("TERM");
    assert_eq!(code, Some(0), "{output}");
    let is_alone = (0..150).any(|_| ask(&first).0 == ["Alice"]);
    assert!(is_alone, "a server that stops must unregister");
    drop(redis);
    assert_eq!(
        ask(&first).0,
        ["Alice"],
        "queries must be answered without Redis"
    );
}
