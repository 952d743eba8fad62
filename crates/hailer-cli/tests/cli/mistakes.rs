//! Mistakes of new users: each one has one line with the correction, and exit code 2.

use crate::tool::{Process, Temporary, command, finish, finish_started, run};
use std::io::Read;

/// Arguments, and a part of the message. The commands run in the folder of this crate.
static MISTAKES: &[(&str, &str)] = &[
    ("qeury x", "did you mean `hailer query`?"),
    (
        "127.0.0.1:25565",
        "did you mean `hailer query 127.0.0.1:25565`?",
    ),
    ("help qeury", "unknown command qeury"),
    ("--verison", "did you mean --version?"),
    (
        "query",
        "<TARGET>... is missing, as in `hailer query play.example.com`",
    ),
    (
        "query 192.0.2.1/24",
        "`hailer sweep 192.0.2.1/24` queries it",
    ),
    (
        "query 192.0.2.1-192.0.2.9",
        "`hailer sweep 192.0.2.1-192.0.2.9` queries it",
    ),
    ("query a2s:127.0.0.1", "write a2s://127.0.0.1"),
    ("query minecraft:/127.0.0.1", "write minecraft://127.0.0.1"),
    ("query minecraft//127.0.0.1", "write minecraft://127.0.0.1"),
    (
        "query minecraft://127.0.0.1/world",
        "nothing may follow the host and its port",
    ),
    (
        "query fe80::1",
        "a link-local address needs its interface, such as [fe80::1%eth0]",
    ),
    ("query [fe80::1]:19132", "such as [fe80::1%eth0]:19132"),
    ("query ::1:25565", "write IPv6 addresses as [address]:port"),
    (
        "query [127.0.0.1]:25565",
        "brackets are for IPv6; write 127.0.0.1:25565",
    ),
    ("query [::1:25565", "the bracket is not closed"),
    (
        "query http://127.0.0.1:30120",
        "protocols over HTTP are eco, fivem-http",
    ),
    ("query https://example.com/", "protocols over HTTP are"),
    (
        "query steam://connect/127.0.0.1:27015",
        "write a2s://HOST:PORT",
    ),
    ("query mincraft://127.0.0.1", "did you mean `minecraft`?"),
    ("query ftp://127.0.0.1", "unknown protocol or game"),
    (
        "query 127.0.0.1:99999",
        "the port must be a number from 1 to 65535",
    ),
    (
        "query 127.0.0.1:0",
        "the port must be a number from 1 to 65535",
    ),
    (
        "query 127.0.0.1:",
        "the port must be a number from 1 to 65535",
    ),
    (
        "query play.example.com:25565:25566",
        "one port may follow the host",
    ),
    ("query :25565", "a host name or an address is needed"),
    ("query 127.0.0.1 25565", "for a port write HOST:25565"),
    ("query 127.0.0", "write an address as four numbers"),
    ("query 256.1.1.1", "four numbers from 0 to 255"),
    (
        "query 127.0.0.1,127.0.0.2",
        "separate several targets with spaces",
    ),
    (
        "query user@127.0.0.1",
        "a target has no user; write 127.0.0.1",
    ),
    (
        "query Cargo.toml",
        "Cargo.toml is a file; query its lines with `hailer query - < Cargo.toml`",
    ),
    ("query @Cargo.toml", "Cargo.toml is a file"),
    ("query src/lib.rs", "src/lib.rs is a file"),
    (
        "query --targets Cargo.toml",
        "`hailer sweep --targets FILE`",
    ),
    (
        "query --port 25565 127.0.0.1",
        "write the port in the target: HOST:PORT",
    ),
    ("query --prot a2s 127.0.0.1", "did you mean --protocol?"),
    ("query -p a2ss 127.0.0.1", "did you mean a2s?"),
    (
        "query -p valheim 127.0.0.1",
        "Valheim is a game; its protocol is a2s",
    ),
    (
        "query -p 25565 127.0.0.1",
        "a port belongs to the target, as in HOST:25565",
    ),
    (
        "query -p",
        "--protocol needs a value: the known protocols are",
    ),
    ("query -g valhiem 127.0.0.1", "did you mean valheim?"),
    (
        "query -g a2s 127.0.0.1",
        "it is a protocol; write --protocol a2s",
    ),
    (
        "query a2s://127.0.0.1 -p ugp",
        "the URL names another protocol",
    ),
    (
        "query --timeout 5x 127.0.0.1",
        "expected a time such as 1s, 500ms or 2m",
    ),
    (
        "query --timeout 127.0.0.1",
        "expected a time such as 1s, 500ms or 2m",
    ),
    ("query --timeout 0 127.0.0.1", "expected a time above 0"),
    (
        "query --retries -1 127.0.0.1",
        "write a negative number as `--retries=-1`",
    ),
    (
        "query --retries many 127.0.0.1",
        "expected a whole number, such as 3",
    ),
    (
        "query --retries 1000 127.0.0.1",
        "expected a whole number from 0 to 100",
    ),
    (
        "query --json --raw 127.0.0.1",
        "exclude each other; drop one",
    ),
    ("query --tls yes 127.0.0.1", "expected off, verified or any"),
    (
        "query --name-server 192.0.2.53 127.0.0.1",
        "such as 192.0.2.53:53",
    ),
    ("query --verbose 127.0.0.1", "write --raw"),
    (
        "query -o servers.csv 127.0.0.1",
        "`hailer sweep TARGET -o FILE.csv`",
    ),
    (
        "query --auth-token-file /no/such/file 127.0.0.1",
        "/no/such/file",
    ),
    (
        "query --games /no/such/file 127.0.0.1",
        "expected a TOML file",
    ),
    ("ping", "<TARGET> is missing"),
    ("ping 127.0.0.1 127.0.0.2", "takes one target"),
    ("ping -n 3 a2s://127.0.0.1", "write --count N"),
    ("ping --interval 1ms a2s://127.0.0.1", "at least 100ms"),
    (
        "check 127.0.0.1",
        "name the protocol, as in minecraft-query://127.0.0.1",
    ),
    ("check samp://127.0.0.1", "protocols with requirements are"),
    ("check a2s://127.0.0.1 --only 2.1", "did you mean a2s/2.1?"),
    (
        "check a2s://127.0.0.1 --fail-on errors",
        "did you mean error?",
    ),
    (
        "check a2s://127.0.0.1 --junit /no/such/report.xml",
        "--junit /no/such/report.xml",
    ),
    ("check --client", "--protocol <PROTOCOL> is missing"),
    ("serve --port 25565", "write --listen ADDRESS:PORT"),
    ("serve --prot ugp", "did you mean --protocol?"),
    ("serve --farm", "run `hailer farm 127.0.0.0/8`"),
    (
        "serve --check-config servers.toml",
        "`hailer serve --config servers.toml --check-config`",
    ),
    ("serve servers.toml", "`hailer serve --config servers.toml`"),
    ("serve statsu", "did you mean `hailer serve status`?"),
    (
        "serve --listen 127.0.0.1:99999",
        "the port 99999 must be a number from 1 to 65535",
    ),
    (
        "serve --listen 25565",
        "the address is missing; write 127.0.0.1:25565",
    ),
    (
        "serve --listen localhost:25565",
        "expected an IP address, such as 127.0.0.1:25565",
    ),
    ("serve --listen upg=127.0.0.1:22000", "did you mean `ugp`?"),
    ("serve --protocol upg", "did you mean ugp?"),
    ("serve --demo --name x", "exclude each other; drop one"),
    ("serve --rule nope", "write KEY=VALUE"),
    (
        "serve --for forever",
        "expected a time such as 1s, 500ms or 2m",
    ),
    ("farm 10.0.0.0/8", "not inside 127.0.0.0/8"),
    (
        "farm 127.0.0.0/33",
        "expected a network such as 127.0.0.0/8",
    ),
    (
        "farm --port 25565",
        "expected PROTOCOL=PORT, such as ugp=22000",
    ),
    ("farm --silent 20", "expected a share such as 20% or 0.2"),
    (
        "farm --listen 127.0.0.1:25565",
        "ports with --port PROTOCOL=PORT",
    ),
    (
        "monitor servers.toml",
        "`hailer monitor --config servers.toml`",
    ),
    (
        "monitor --check-config servers.toml",
        "`hailer monitor --config servers.toml --check-config`",
    ),
    (
        "monitor --check-config",
        "`hailer monitor --config FILE --check-config`",
    ),
    ("monitor ad", "did you mean `hailer monitor add`?"),
    ("monitor mincraft://127.0.0.1", "did you mean `minecraft`?"),
    (
        "monitor --port 8080 127.0.0.1",
        "write --listen ADDRESS:PORT",
    ),
    ("monitor --listen 8080 127.0.0.1", "write 127.0.0.1:8080"),
    (
        "monitor remove",
        "<NAME> is missing, as in `hailer monitor remove Lobby`",
    ),
    ("sweep", "no targets: name some"),
    (
        "sweep 192.0.2.0/33",
        "a number of bits is needed, at most 32",
    ),
    (
        "sweep 192.0.2.9-192.0.2.1",
        "the range ends before it begins",
    ),
    ("sweep Cargo.toml", "write --targets Cargo.toml"),
    (
        "sweep http://127.0.0.1/servers.txt",
        "write --targets http://127.0.0.1/servers.txt",
    ),
    (
        "sweep dpmastr://127.0.0.1/xonotic",
        "unknown protocol or game",
    ),
    ("sweep --target servers.txt", "--targets FILE"),
    (
        "sweep 127.0.0.1 --format xml",
        "expected one of lines, ndjson, csv",
    ),
    (
        "sweep 127.0.0.1 -o servers.xml",
        ".ndjson, .csv or .parquet",
    ),
    (
        "sweep 127.0.0.1 --rate fast",
        "expected a number such as 500, 20k or 1.5M",
    ),
    ("sweep 127.0.0.1 --resume", "needs a checkpoint"),
    ("sweep 127.0.0.1 --shard 3", "a share is written 2/4"),
    (
        "discover 192.0.2.0/24",
        "`hailer sweep 192.0.2.0/24` queries a range",
    ),
    ("discover --for 1s", "--watch is missing"),
    (
        "discover --port 99999",
        "expected a whole number from 1 to 65535",
    ),
    ("decode zz", "neither a file nor hexadecimal"),
    ("decode fefd0", "an odd number of digits"),
    ("decode fefd0900000001 -p a2ss", "did you mean a2s?"),
    ("watch 127.0.0.1", "needs a terminal"),
    ("join", "as in `hailer join play.example.com`"),
    (
        "join 127.0.0.1:99999",
        "the port must be a number from 1 to 65535",
    ),
    ("proxy", "--to <HOST:PORT> is missing"),
    ("proxy 127.0.0.1", "write --to 127.0.0.1"),
    (
        "world --listen 99999",
        "the port 99999 must be a number from 1 to 65535",
    ),
    ("world --port 25565", "write --listen ADDRESS:PORT"),
    ("protocols a2ss", "did you mean a2s?"),
    ("protocols valheim", "its protocol is a2s"),
    ("games --protocol a2s", "`hailer games a2s`"),
    ("completions bsh", "did you mean bash?"),
    ("completions", "as in `hailer completions bash`"),
];

#[test]
#[cfg(all(feature = "game", feature = "monitor", feature = "parquet"))]
fn mistakes_have_one_line_with_the_correction() {
    assert!(MISTAKES.len() >= 70);
    for (line, expected) in MISTAKES {
        let mut command = command(line.split_whitespace());
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = finish(command, None);
        assert_eq!(output.code(), Some(2), "hailer {line}: {}", output.err);
        output.fails_as_usage(expected);
    }
}

/// A name that cannot be looked up is no mistake in the arguments.
#[test]
fn a_game_in_place_of_a_host_is_explained() {
    let silent = crate::support::loopback();
    let server = silent.local_addr().unwrap().to_string();
    let base = [
        "--name-server",
        &server,
        "--timeout",
        "50ms",
        "--deadline",
        "300ms",
    ];
    for (word, expected) in [
        (
            "valheim",
            "valheim is a game; name a server too: valheim://HOST",
        ),
        ("a2s", "a2s is a protocol; name a server too: a2s://HOST"),
    ] {
        let output = run(["query", word].iter().chain(&base)).ends_with(1);
        output.warns(&[expected]);
        assert_eq!(output.out, "");
    }
}

#[test]
#[cfg(feature = "monitor")]
fn a_target_without_a_protocol_in_a_file_is_explained() {
    let file = Temporary::file(
        "mistake.toml",
        "[[server]]\nname = \"a\"\ntarget = \"127.0.0.1\"\n",
    );
    run(["monitor", "--config", file.text(), "--check-config"]).fails_as_usage(
        "server.target: name the game or the protocol, such as minecraft://127.0.0.1",
    );
}

/// The error names the output that is full.
#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_named() {
    for line in [
        "protocols",
        "protocols a2s --json",
        "games",
        "check --list",
        "decode fefd0900000001",
        "serve --example",
        "completions bash",
        "man",
        "ping a2s://127.211.7.9 -c 1 --timeout 50ms",
        "query a2s://127.211.7.9 --timeout 50ms --json",
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = command(line.split_whitespace());
        let mut process = Process::start(command.stdout(full.unwrap()));
        let mut err = String::new();
        let mut stream = process.child.stderr.take().unwrap();
        stream.read_to_string(&mut err).unwrap();
        assert_eq!(process.wait().code(), Some(1), "{line}: {err}");
        assert!(err.contains("error: standard output"), "{line}: {err}");
    }
}

/// Ctrl-C prints the answers so far.
#[test]
#[cfg(unix)]
fn a_stopped_query_prints_the_answers_so_far() {
    let serve = crate::tool::Serve::with(&["--demo"]);
    let (received, first) = std::sync::mpsc::channel();
    let silent = crate::support::Server::script(move |_| {
        let _ = received.send(());
        Vec::new()
    });
    let targets = [
        format!("minecraft-query://{}", serve.address()),
        format!("ugp://{}", silent.address),
    ];
    for is_json in [false, true] {
        let mut args = vec!["query", &targets[0], &targets[1], "--timeout", "15s"];
        args.extend(is_json.then_some("--json"));
        let process = Process::start(&mut command(args));
        first.recv().unwrap();
        // The other server replies within a millisecond.
        std::thread::sleep(std::time::Duration::from_millis(300));
        process.signal("INT");
        let output = finish_started(process).ends_with(130);
        output.shows(&["Hailer demo"]);
    }
}

/// A host whose ports are all closed has one sentence.
#[test]
fn closed_ports_are_one_sentence() {
    let output = run(["query", "127.211.7.9", "--timeout", "300ms"]).ends_with(1);
    let sentence = "  127.211.7.9: nothing listens on UDP ports ";
    assert_eq!(
        output.err.matches("nothing listens").count(),
        1,
        "{}",
        output.err
    );
    output.warns(&[sentence]);
    output.warns(&[" and TCP port"]);
    assert_eq!(output.out, "");
}
