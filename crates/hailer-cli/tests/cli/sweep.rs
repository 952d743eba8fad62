//! `hailer sweep` writes every target exactly once, also after interruptions.

use crate::support::{Server, closed};
use crate::tool::{Finished, Process, Serve, Temporary, command, finish, run, run_with};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// No server replies in this range. Each target is one line of output.
const RANGE: &str = "minecraft-query://127.5.0.0-127.5.15.255:9";
const TARGETS: usize = 4_096;
/// Flags for a sweep of about 2 s.
const FLAGS: [&str; 9] = [
    "--failed",
    "-q",
    "--rate",
    "2k",
    "--per-network",
    "unlimited",
    "--timeout=50ms",
    "--retries",
    "0",
];

fn sweep<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["sweep", RANGE]
        .into_iter()
        .chain(FLAGS)
        .chain(more.iter().copied())
        .collect()
}

/// Starts a sweep and stops it after a while.
fn stop_after(args: &[&str], time: Duration, signal: &str) -> Option<i32> {
    let mut process = Process::start(&mut command(args));
    std::thread::sleep(time);
    let id = process.child.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-s", signal, &id])
            .status()
            .unwrap()
            .success()
    );
    process.wait().code()
}

fn sibling(output: &Temporary, suffix: &str) -> String {
    format!("{}.{suffix}", output.text())
}

/// Counts the lines of each target in a file.
fn targets(path: &Path) -> BTreeMap<String, usize> {
    let mut targets = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        *targets
            .entry(line["target"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    targets
}

#[test]
fn repeated_kills_lose_and_duplicate_no_target() {
    for threads in ["1", "3"] {
        let output = Temporary::path(&format!("killed-{threads}.ndjson"));
        let fresh = sweep(&["-o", output.text(), "--threads", threads]);
        assert_eq!(
            stop_after(&fresh, Duration::from_millis(1_300), "KILL"),
            None
        );
        let resumed = sweep(&["-o", output.text(), "--resume", "--threads", threads]);
        assert!(fs::metadata(&output).unwrap().len() > 0);
        assert_eq!(
            stop_after(&resumed, Duration::from_millis(50), "KILL"),
            None
        );
        // A line that was cut off by the end of the process is removed.
        let torn = fs::read_to_string(&output).unwrap() + "{\"torn";
        fs::write(&output, torn).unwrap();
        let before = targets_so_far(&output);
        assert!((100..TARGETS).contains(&before), "{before}");
        run(&resumed).ends_with(1);
        let targets = targets(output.as_ref());
        assert_eq!(targets.len(), TARGETS);
        assert!(targets.values().all(|count| *count == 1));
        assert!(!Path::new(&sibling(&output, "checkpoint")).exists());
        run(&resumed).fails_as_usage("no checkpoint ");
        run(&fresh).fails_as_usage("exists: choose another name, or overwrite it with --force");
    }
}

/// The number of threads is no part of a sweep's identity: any number can continue it.
#[test]
fn threads_write_one_output_and_continue_each_other() {
    let output = Temporary::path("threads.csv");
    let fields = ["--fields", "target,error_kind", "-o", output.text()];
    let fresh = sweep(&[&fields[..], &["--threads", "4"]].concat());
    assert_eq!(
        stop_after(&fresh, Duration::from_millis(600), "INT"),
        Some(130)
    );
    let before = targets_so_far(&output);
    assert!((10..TARGETS).contains(&before), "{before}");
    run(sweep(&[&fields[..], &["--resume"]].concat())).ends_with(1);
    let written = fs::read_to_string(&output).unwrap();
    let mut lines = written.lines();
    assert_eq!(lines.next(), Some("target,error_kind"));
    let targets: Vec<&str> = lines.collect();
    let distinct: std::collections::BTreeSet<&str> = targets.iter().copied().collect();
    assert_eq!((targets.len(), distinct.len()), (TARGETS, TARGETS));
}

fn targets_so_far(output: &Temporary) -> usize {
    fs::read_to_string(output).unwrap().lines().count()
}

#[test]
fn resumes_after_ctrl_c() {
    let output = Temporary::path("stopped.csv");
    let summary = Temporary::path("summary.json");
    let fresh = sweep(&[
        "-o",
        output.text(),
        "--fields",
        "target,error_kind",
        "--summary",
        summary.text(),
    ]);
    for (args, signal) in [
        (fresh.clone(), "INT"),
        ([&fresh[..], &["--resume"]].concat(), "TERM"),
    ] {
        assert_eq!(
            stop_after(&args, Duration::from_millis(700), signal),
            Some(130)
        );
        assert!(
            fs::read_to_string(&summary)
                .unwrap()
                .contains(r#""end":"signal""#)
        );
    }
    run(&fresh).fails_as_usage("--resume continues it, --force starts again");
    run(sweep(&["-o", output.text(), "--resume"]))
        .fails_as_usage("belongs to another output, csv of target,error_kind");
    run([&fresh[..], &["--resume", "--basic"]].concat())
        .fails_as_usage("this one is csv of target,error_kind with failures of short");
    let resumed = [&fresh[..], &["--resume", "--seed", "9"]].concat();
    run(resumed).ends_with(2);
    run([&fresh[..], &["--resume"]].concat()).ends_with(1);
    let text = fs::read_to_string(&output).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.remove(0), "target,error_kind");
    assert_eq!(lines.len(), TARGETS, "{}", lines.len());
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), TARGETS);
    let summary: Value = serde_json::from_str(&fs::read_to_string(&summary).unwrap()).unwrap();
    assert_eq!(summary["end"], "finished");
    let counts = &summary["counts"];
    assert_eq!(counts["probes"], TARGETS, "{summary}");
    assert_eq!(
        counts["timed_out"].as_u64().unwrap() + counts["port_closed"].as_u64().unwrap(),
        TARGETS as u64
    );
    // A resumed sweep repeats only requests that were not recorded as received, which are few.
    assert!(
        (4_096..4_700).contains(&counts["datagrams_sent"].as_u64().unwrap()),
        "{summary}"
    );
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_written_at_the_end_and_survives_kills() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let output = Temporary::path("killed.parquet");
    let fresh = sweep(&["-o", output.text(), "--fields", "target,time,error_kind"]);
    assert_eq!(
        stop_after(&fresh, Duration::from_millis(1_300), "KILL"),
        None
    );
    assert!(!output.as_ref().exists() && Path::new(&sibling(&output, "journal")).exists());
    // A row that was written in part belongs to no checkpoint and is dropped.
    let mut journal = fs::File::options()
        .append(true)
        .open(sibling(&output, "journal"))
        .unwrap();
    journal.write_all(&[0xFF; 7]).unwrap();
    run([&fresh[..], &["--resume"]].concat()).ends_with(1);
    let reader = SerializedFileReader::new(fs::File::open(&output).unwrap()).unwrap();
    let mut targets: Vec<String> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().get_column_iter().next().unwrap().1.to_string())
        .collect();
    assert_eq!(targets.len(), TARGETS);
    targets.sort_unstable();
    targets.dedup();
    assert_eq!(targets.len(), TARGETS);
    for suffix in ["journal", "checkpoint", "part"] {
        assert!(!Path::new(&sibling(&output, suffix)).exists(), "{suffix}");
    }
}

#[cfg(all(feature = "parquet", target_os = "linux"))]
#[test]
fn full_disk_at_the_conversion_names_the_file_and_resumes() {
    let output = Temporary::path("full.parquet");
    let part = sibling(&output, "part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let mut args = vec!["sweep", "127.5.0.0/30", "--failed", "-o", output.text()];
    args.extend(["--timeout", "20ms", "--retries", "0"]);
    let error = run(args.clone()).ends_with(1).err;
    assert!(
        error.contains(&format!("{part}: No space left on device")) && error.contains("--resume"),
        "{error}"
    );
    args.push("--resume");
    run(args).ends_with(1);
    assert!(output.as_ref().exists() && !Path::new(&sibling(&output, "journal")).exists());
}

#[test]
fn closed_output_ends_the_sweep() {
    let args = [
        "sweep",
        "127.5.0.0/16",
        "--json",
        "--failed",
        "--rate",
        "unlimited",
        "--per-network",
        "unlimited",
    ];
    let mut process = Process::start(command(args).args(["--timeout", "20ms", "--retries", "0"]));
    let mut line = String::new();
    BufReader::new(process.child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line}");
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn reads_lists_and_exclusions_from_all_inputs() {
    let serve = Serve::with(&["--demo"]);
    let silent = Server::silent();
    let list = Temporary::file(
        "list",
        format!(
            "# servers\n{0}\n\nugp://{0} twice\n{1} # silent\n",
            serve.address(),
            silent.address
        ),
    );
    let alone = Temporary::file("alone", "127.9.0.0/16\n");
    let flags = ["--exclude", alone.text(), "--timeout=50ms", "--retries=0"];
    let args = [
        "sweep",
        "--targets",
        list.text(),
        "127.9.3.4",
        "--fields",
        "target,ok,name",
        "--json",
    ];
    let finished = run(args.iter().chain(&flags)).ends_with(0);
    let mut lines: Vec<&str> = finished.out.lines().collect();
    lines.sort_unstable();
    let name = "\"name\":\"Hailer demo server\"";
    let url = |id: &str| format!("{{\"target\":\"{id}://{}\",\"ok\":true,", serve.address());
    assert_eq!(lines[0], url("minecraft-query") + "\"name\":null}");
    assert_eq!(lines[1], format!("{}{name}}}", url("onequery")));
    assert_eq!(lines[2], format!("{}{name}}}", url("ugp")));
    assert_eq!(lines.len(), 3);
    finished.warns(&["left out: 1 given twice, 3 excluded"]);
    assert!(
        finished.err.starts_with("6 queried in ")
            && finished.err.contains(": 3 answered (50.0 %)\n"),
        "{}",
        finished.err
    );

    let input = format!("{}\nwrong target\n\u{1b}[2J://x\n", serve.address());
    let streamed = run_with(
        [
            "sweep",
            "-",
            "-q",
            "--timeout=50ms",
            "--failed",
            "-p",
            "ugp",
        ],
        input.as_bytes(),
    )
    .ends_with(0);
    streamed.shows(&["Hailer demo server"]);
    assert_eq!(streamed.out.lines().count(), 4, "{}", streamed.out);
    crate::tool::assert_harmless(&streamed.out, false);
    assert_eq!(streamed.err, "");
}

/// Starts a web server with these pages. It runs until the process ends.
fn pages(pages: Vec<(&'static str, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head: Vec<String> = BufReader::new(&stream)
                .lines()
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
                .collect();
            let asked = head[0].split(' ').nth(1).unwrap();
            let page = pages.iter().find(|(path, _)| *path == asked);
            let answer = page.map_or(
                "404 Not Found\r\nContent-Length: 0\r\n\r\n",
                |(_, answer)| answer.as_str(),
            );
            stream
                .write_all(format!("HTTP/1.1 {answer}").as_bytes())
                .unwrap();
        }
    });
    format!("http://{address}")
}

#[test]
fn the_time_limit_applies_while_reading_targets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/endless", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        // Ends when the client closes the connection.
        while stream.write_all(b"ugp://192.0.2.1\n").is_ok() {}
    });
    let started = Instant::now();
    let finished = run(["sweep", "--targets", &url, "--for", "500ms"]).ends_with(1);
    assert!(started.elapsed() < Duration::from_secs(8));
    finished.warns(&["while reading the targets"]);
}

#[test]
fn servers_without_a_name_have_the_title_of_their_motd() {
    let serve = Serve::with(&["--motd", "\n  &aHello\nworld"]);
    let url = serve.url("minecraft-query");
    let finished = run(["sweep", &url, "--format", "csv", "--fields", "title,name"]).ends_with(0);
    assert_eq!(finished.out, "title,name\nHello,\n");
    let finished = run(["sweep", &url, "--json"]).ends_with(0);
    assert_eq!(finished.json()[0]["title"], "Hello");
}

#[test]
fn reads_lists_from_web_servers() {
    let serve = Serve::with(&["--demo"]);
    let list = format!("# servers\n{}\n127.9.3.4\n", serve.address());
    let web = pages(vec![
        (
            "/all?of=them",
            format!("200 OK\r\nContent-Length: {}\r\n\r\n{list}", list.len()),
        ),
        (
            "/alone",
            "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n127.9.0.\r\n5\r\n0/16\n\r\n0\r\n\r\n"
                .into(),
        ),
        (
            "/torn",
            "200 OK\r\nContent-Length: 99\r\n\r\n127.0.0.1\n".into(),
        ),
        (
            "/wrong",
            "200 OK\r\nContent-Length: 9\r\n\r\nhttp://x\n".into(),
        ),
    ]);
    let at = |path: &str| format!("{web}{path}");
    let all = at("/all?of=them");
    let alone = at("/alone");
    let finished = run(format!(
        "sweep --targets {all} --exclude {alone} --json --fields ok -p ugp"
    )
    .split(' '));
    assert_eq!(finished.ends_with(0).out, "{\"ok\":true}\n");

    for (path, expected) in [
        ("/none", "404"),
        ("/torn", "/torn: "),
        ("/wrong", "/wrong:1: "),
    ] {
        run(["sweep", "--targets", &at(path)]).fails_as_usage(expected);
        run(["sweep", "127.0.0.1", "--exclude", &at(path)]).fails_as_usage(expected);
    }
    let unused = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    run(["sweep", "--targets", &format!("http://{unused}/")]).fails_as_usage("Connection refused");
}

#[test]
fn shares_cover_all_targets() {
    let mut targets = Vec::new();
    for shard in ["1/3", "2/3", "3/3"] {
        let args = [
            "sweep",
            "ugp://127.5.0.0/26",
            "--json",
            "--failed",
            "--timeout=50ms",
            "--retries=0",
            "-q",
        ];
        let finished = run(args.iter().chain(&["--fields", "ip", "--shard", shard])).ends_with(1);
        assert!((21..=22).contains(&finished.out.lines().count()));
        targets.extend(finished.out.lines().map(str::to_owned));
    }
    targets.sort_unstable();
    targets.dedup();
    assert_eq!(targets.len(), 64);
}

#[test]
fn time_limit_ends_the_sweep() {
    let output = Temporary::path("time.csv");
    let finished = run(["sweep", RANGE, "--for", "300ms", "-o", output.text()]).ends_with(1);
    assert!(
        finished
            .err
            .contains("the time limit was reached, checkpoint in "),
        "{}",
        finished.err
    );
    let checkpoint = sibling(&output, "checkpoint");
    finished.warns(&[&format!(
        "{checkpoint}: to continue, run the same command with --resume"
    )]);
    fs::remove_file(checkpoint).unwrap();
}

#[test]
fn errors_are_reported_before_the_first_probe() {
    let target = closed().to_string();
    let wrong = Temporary::file("wrong", "192.0.2.1\nhttp://x\n");
    let here = Temporary::path("x.csv");
    let list = Temporary::file("list.csv", "127.0.0.1\n");
    let lost = Temporary::path("lost/x");
    let cases: [(&[&str], &str); 18] = [
        (&[], "no targets: name some"),
        (&["-", &target], "cannot be combined with other targets"),
        (
            &[&target, "-o", "x.txt"],
            "ends in .ndjson, .csv or .parquet",
        ),
        (
            &[&target, "--format", "parquet"],
            "Parquet cannot be written to standard output",
        ),
        (&[&target, "--fields", "name"], "--fields is for programs"),
        (
            &[&target, "--json", "--fields", "nam"],
            "unknown field \"nam\"",
        ),
        (
            &[&target, "--json", "--resume"],
            "name it with --checkpoint",
        ),
        (
            &[&target, "--json", "--summary", "-"],
            "write them to a file with -o",
        ),
        (&["--targets", wrong.text()], ":2: "),
        (
            &["--targets", "/nowhere/at all"],
            "--targets /nowhere/at all: ",
        ),
        (&[&target, "--exclude", wrong.text()], ":2: "),
        (&[&target, "-o", here.text(), "--resume"], "no checkpoint "),
        (
            &[&target, "-o", here.text(), "--summary", here.text()],
            "--output and --summary cannot be one file",
        ),
        (
            &[&target, "-o", here.text(), "--checkpoint", here.text()],
            "--output and --checkpoint cannot be one file",
        ),
        (
            &["--targets", list.text(), "-o", list.text(), "--force"],
            "--targets and --output cannot be one file",
        ),
        (
            &[&target, "--exclude", list.text(), "--summary", list.text()],
            "--exclude and --summary cannot be one file",
        ),
        (&[&target, "--json", "--summary", lost.text()], lost.text()),
        (
            &[&target, "--json", "--checkpoint", lost.text()],
            lost.text(),
        ),
    ];
    for (args, expected) in cases {
        run(["sweep"].iter().chain(args)).fails_as_usage(expected);
    }
    assert!(!here.as_ref().exists());
    for args in [
        &["--rate", "0"][..],
        &["--shard", "3/2"],
        &["--tcp-close", "politely"],
        &["--resume", "--force"],
    ] {
        run(["sweep", &target].iter().chain(args)).ends_with(2);
    }
}

#[test]
fn field_list_is_shown() {
    let finished: Finished = finish(command(["sweep", "--fields", "list"]), None).ends_with(0);
    assert!(
        finished.out.contains("players_online ") && finished.out.lines().count() >= 29,
        "{}",
        finished.out
    );
}

/// A master over UDP and a list over HTTP name the same server, twice each.
#[test]
fn targets_of_masters_are_queried_once() {
    let serve = Serve::with(&["--name", "Harbour", "-p", "teeworlds"]);
    let address: std::net::SocketAddrV4 = serve.address().parse().unwrap();
    let entry = [
        &[0; 10][..],
        &[0xFF; 2],
        &address.ip().octets(),
        &address.port().to_be_bytes(),
    ]
    .concat();
    let master = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let place = master.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((length, from)) = master.recv_from(&mut buffer) {
            assert!(buffer[..length].ends_with(b"req2"));
            let reply = [&[0xFF; 10][..], b"lis2", &entry, &entry].concat();
            master.send_to(&reply, from).unwrap();
        }
    });
    let list = format!(
        r#"{{"servers":[{{"addresses":["tw-0.6+udp://{address}","tw-0.7+udp://{address}"]}}]}}"#
    );
    let page = format!("200 OK\r\nContent-Length: {}\r\n\r\n{list}", list.len());
    let web = pages(vec![("/servers.json", page)]);
    let udp = format!("teeworlds-master://{place}");
    let http = format!("teeworlds+{web}/servers.json");
    let found = run(["sweep", "--json", "--targets", &udp, "--targets", &http]).ends_with(0);
    let lines = found.json();
    assert_eq!(lines.len(), 1, "{}", found.out);
    assert_eq!(lines[0]["target"], serve.url("teeworlds"));
    for (list, servers) in [(&udp, 2), (&http, 2)] {
        let expected = format!("{list}: {servers} servers\n");
        found.warns(&[&expected]);
    }
    found.warns(&["3 given twice"]);

    let wrong = format!("teeworlds+{web}/missing.json");
    for (target, problem) in [
        ("dpmaster://127.0.0.1/nothing", "NAME/PROTOCOL"),
        (
            "vintagestory+http://127.0.0.1/x",
            "did you mean vintage-story+https://",
        ),
        ("gopher://127.0.0.1", "known are dpmaster://HOST/GAME"),
        ("ugp://127.0.0.1", "write it without the flag"),
        ("quake2-master://127.0.0.1:1", "nothing listens"),
        (&wrong, "404"),
    ] {
        let failed = run(["sweep", "--targets", target]);
        failed.fails_as_usage(problem);
    }
    // The other lists are swept.
    for failing in ["quake2-master://127.0.0.1:1", &wrong] {
        let found = run(["sweep", "--json", "--targets", failing, "--targets", &udp]).ends_with(1);
        assert_eq!(found.json()[0]["target"], serve.url("teeworlds"));
        let is_named = |line: &&str| line.starts_with("error: ") && line.contains(failing);
        let lines: Vec<_> = found.err.lines().filter(is_named).collect();
        assert_eq!(lines.len(), 1, "{}", found.err);
        assert!(
            lines[0].ends_with("; its servers are missing"),
            "{}",
            found.err
        );
    }
    let both = [&wrong, "quake2-master://127.0.0.1:1"];
    let failed = run(["sweep", "--targets", both[0], "--targets", both[1]]).ends_with(2);
    assert!(
        both.iter().all(|master| failed.err.contains(*master)),
        "{}",
        failed.err
    );
    run(["sweep", "quake2-master://127.0.0.1"]).fails_as_usage("write --targets quake2-master");
}

/// A list names a server on another private network, and the server of this test.
#[test]
fn lists_name_no_private_addresses() {
    let serve = Serve::with(&["--name", "Harbour", "-p", "teeworlds"]);
    let address = serve.address();
    let list = format!(
        r#"{{"servers":[{{"addresses":["tw-0.6+udp://{address}","tw-0.6+udp://10.255.255.1:1",
            "tw-0.6+udp://[::ffff:169.254.169.254]:1"]}}]}}"#
    );
    let page = format!("200 OK\r\nContent-Length: {}\r\n\r\n{list}", list.len());
    let moved = |to: &str| format!("302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    let web = pages(vec![
        ("/servers.json", page),
        (
            "/exclusion",
            "200 OK\r\nContent-Length: 12\r\n\r\n10.255.255.1".into(),
        ),
        ("/moved", moved("servers.json")),
        ("/away", moved("http://localhost/servers.json")),
        ("/file", moved("file:///etc/passwd")),
        ("/around", moved("/around")),
    ]);
    let at = |path: &str| format!("teeworlds+{web}/{path}");
    let flags = ["--json", "--timeout", "100ms", "--retries", "0"];
    let sweep =
        |list: &str, more: &[&str]| run([&["sweep", "--targets", list], &flags[..], more].concat());
    let found = sweep(&at("moved"), &[]).ends_with(0);
    assert_eq!(found.json().len(), 1, "{}", found.out);
    assert_eq!(found.json()[0]["target"], serve.url("teeworlds"));
    let warning =
        "2 servers left out: 10.255.255.1 is a private address, for example; --allow-private";
    found.warns(&[warning]);
    // The exclusion shows that the private address would be queried.
    let exclusion = format!("{web}/exclusion");
    let found = sweep(
        &at("servers.json"),
        &["--allow-private", "--exclude", &exclusion],
    );
    assert_eq!(found.json().len(), 1, "{}", found.out);
    found.warns(&["1 excluded"]);
    let warning = "1 server left out: ::ffff:169.254.169.254 is an address of a metadata service\n";
    found.warns(&[warning]);
    for (path, problem) in [
        (
            "away",
            "it redirects to another host, which is not followed: localhost",
        ),
        (
            "file",
            "it redirects from http to file, which is not followed",
        ),
        ("around", "more than 3 redirects"),
    ] {
        sweep(&at(path), &[]).fails_as_usage(problem);
        sweep(&format!("{web}/{path}"), &[]).fails_as_usage(problem);
    }
}
