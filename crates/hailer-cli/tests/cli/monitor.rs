//! `hailer monitor` and its actions on loopback, with a farm as its servers.

use crate::tool::{Finished, Process, Serve, Temporary, command, run};
#[cfg(target_os = "linux")]
use hailer_testkit::namespace;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TIMEOUT: Duration = Duration::from_secs(15);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const TABLES: [&str; 5] = ["servers", "samples", "rollups", "events", "sessions"];

/// A running `hailer monitor`. It exits after 60 s at the latest.
struct Monitor {
    process: Process,
    _out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
    url: String,
}

impl Monitor {
    fn start(config: &str) -> Self {
        let mut command = command(["monitor", "--for", "60s", "--config", config]);
        let mut process = Process::start(&mut command);
        let mut out = BufReader::new(process.child.stdout.take().unwrap());
        let mut err = BufReader::new(process.child.stderr.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let Some((_, url)) = line.trim_end().split_once(" at ") else {
            let mut output = String::new();
            err.read_to_string(&mut output).unwrap();
            panic!("{line:?} {output}");
        };
        let url = url.to_owned();
        err.read_line(&mut String::new()).unwrap();
        Self {
            process,
            _out: out,
            err,
            url,
        }
    }

    fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Returns the next line of standard error.
    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.err.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn end(mut self, signal: &str) -> Option<i32> {
        self.signal(signal);
        self.process.wait().code()
    }

    /// Runs an action with the URL of this monitor.
    fn run(&self, args: &[&str]) -> Finished {
        run([&["monitor"], args, &["--monitor", &self.url]].concat())
    }

    /// Waits until the lines of `list --json` match. Returns them by name.
    fn list(&self, is_right: impl Fn(&BTreeMap<String, Value>) -> bool) -> BTreeMap<String, Value> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let output = self.run(&["list", "--json"]).ends_with(0);
            let list = output
                .json()
                .into_iter()
                .map(|server| (server["name"].as_str().unwrap().to_owned(), server));
            let list = list.collect();
            if is_right(&list) {
                return list;
            }
            assert!(Instant::now() < end, "{list:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn is_up(list: &BTreeMap<String, Value>, name: &str) -> bool {
    list.get(name).is_some_and(|server| server["state"] == "up")
}

/// Creates a folder with a configuration file that contains `text`.
fn config_file(folder: &Temporary, text: &str) -> String {
    std::fs::create_dir_all(folder).unwrap();
    let token = folder.as_ref().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    crate::tool::keep_private(&token);
    let path = folder.as_ref().join("monitor.toml");
    let text =
        format!("[monitor]\nlisten = '127.0.0.1:0'\ninterval = '1s'\ntoken-file = 'token'\n{text}");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn servers_are_added_listed_and_removed() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let (_farm, port) = Serve::minecraft_farm("127.84.0.0/24");
    let folder = Temporary::path("monitor");
    let lobby = format!(
        "[[server]]\nname = 'lobby'\ntarget = 'minecraft-query://127.84.0.1:{port}'\ngroup = 'Old'\n"
    );
    let path = config_file(&folder, &lobby);
    let mut monitor = Monitor::start(&path);
    let token = folder.as_ref().join("token");
    let token = ["--token-file", token.to_str().unwrap()];
    let target = format!("minecraft-query://127.84.0.2:{port}");
    let may = |args: &[&str]| monitor.run(&[args, &token].concat());

    let words = [
        "add", &target, "--name", "arena", "--group", "New", "--label", "a=b", "--label", "c=d=e",
    ];
    let output = may(&[&words[..], &["--interval", "1500ms"]].concat()).ends_with(0);
    assert_eq!(output.out, format!("watching {target} as arena\n"));
    let other = format!("minecraft-query://127.84.0.3:{port}");
    let output = may(&["add", &other]).ends_with(0).out;
    assert_eq!(
        output,
        format!("watching {other} as 127.84.0.3-{port}-minecraft-query\n")
    );
    let list = monitor.list(|list| list.len() == 3 && list.keys().all(|name| is_up(list, name)));
    let arena = &list["arena"];
    assert_eq!(
        (&arena["group"], &arena["interval_s"], &arena["origin"]),
        (&"New".into(), &1.5.into(), &"api".into())
    );
    assert_eq!(arena["labels"], serde_json::json!({"a": "b", "c": "d=e"}));
    let table = monitor.run(&["list"]).ends_with(0).out;
    assert!(table.starts_with("state  name "), "{table}");
    let row = table.lines().find(|line| line.contains(" arena ")).unwrap();
    assert!(
        row.starts_with("up ")
            && row.contains(" New ")
            && row.ends_with(&target)
            && row.contains(" ms "),
        "{row}"
    );

    // Refused actions state the reason and the correction.
    monitor
        .run(&["add", &other])
        .fails_as_usage("give the token with --token-file FILE");
    let wrong = Temporary::file("token", "no such token at all\n");
    monitor
        .run(&["remove", "arena", "--token-file", wrong.text()])
        .fails_as_usage("wrong token");
    monitor
        .run(&["remove", "arena", "--token-file", "/no/such/file"])
        .fails_as_usage("--token-file /no/such/file: ");
    may(&["add", &other, "--name", "arena"]).fails_as_usage("another server has the name arena");
    may(&["add", &other, "--name", "a b"]).fails_as_usage("name: 1 to 64 letters");
    may(&["add", "127.84.0.4"])
        .fails_as_usage("target: name the game or the protocol, such as minecraft://127.84.0.4");
    may(&["add", "gopher://a", "--name", "a b"]).fails_as_usage("; target: ");
    may(&["add", &other, "--interval", "2days"]).fails_as_usage("interval_s: from 1 s");
    may(&["remove", "lobby"]).fails_as_usage("is defined in the configuration; change it there");
    may(&["remove", "nobody"]).fails_as_usage("there is no server \"nobody\"");
    may(&["remove", "../servers"]).fails_as_usage("`hailer monitor list` shows the names");

    let output = may(&["remove", "arena"]).ends_with(0).out;
    assert_eq!(output, "removed arena; its history is kept\n");
    monitor.list(|list| list.len() == 2 && !list.contains_key("arena"));

    // Reloading a changed configuration removes only servers that came from it. An invalid
    // configuration changes nothing.
    config_file(&folder, &lobby.replace("lobby", "hall"));
    monitor.signal("HUP");
    assert_eq!(
        monitor.next_line(),
        "info: configuration reloaded: 1 server"
    );
    let names = |list: &BTreeMap<String, Value>| list.keys().cloned().collect::<Vec<_>>().join(" ");
    let of_api = format!("127.84.0.3-{port}-minecraft-query");
    monitor.list(|list| names(list) == format!("{of_api} hall"));
    config_file(&folder, "[[server]]\nname = 'a'\n");
    monitor.signal("HUP");
    let output = monitor.next_line();
    assert!(
        output.starts_with("warning: ") && output.ends_with("; keeping the old configuration"),
        "{output}"
    );

    // Servers added at run time stay across restarts.
    assert_eq!(monitor.end("TERM"), Some(0));
    config_file(&folder, "");
    let monitor = Monitor::start(&path);
    monitor.list(|list| names(list) == of_api);
    assert_eq!(monitor.end("INT"), Some(0));
}

/// In a namespace without links, so that nothing is sent.
#[test]
#[cfg(target_os = "linux")]
fn every_command_explains_addresses_of_the_relay_of_steam() {
    const NOTE: &str = "Steam shows them for servers behind its relay, which cannot be queried";
    if !namespace::is_inside_for("monitor::every_command_explains_addresses_of_the_relay_of_steam")
    {
        return;
    }
    namespace::ip("link set lo up").unwrap();
    let target = "a2s://169.254.1.2:27015";
    let short = ["--timeout", "300ms", "--retries", "0"];
    let output = run(["query", target].iter().chain(&short)).ends_with(1);
    output.warns(&[NOTE]);
    let sweep = ["sweep", target, "--json", "--failed"];
    let output = run(sweep.iter().chain(&short)).ends_with(1);
    output.shows(&[NOTE]);
    let folder = Temporary::path("relay");
    let server = format!("[[server]]\nname = 'relayed'\ntarget = '{target}'\n");
    let monitor = Monitor::start(&config_file(&folder, &server));
    monitor.list(|list| {
        let error = &list["relayed"]["error"];
        error.to_string().contains(NOTE)
    });
}

#[test]
fn reports_an_unreachable_monitor() {
    let output = run(["monitor", "list", "--monitor", "http://127.0.0.1:1"]).ends_with(1);
    assert_eq!(
        output.err,
        "error: no monitor at http://127.0.0.1:1: Connection refused\n"
    );
    run(["monitor", "list", "--monitor", "ftp://127.0.0.1"])
        .fails_as_usage("http://127.0.0.1:8080");
    let (hook, requests) = hook("200 OK");
    let output = run(["monitor", "list", "--monitor", &hook])
        .ends_with(1)
        .err;
    assert!(output.contains("is not a hailer monitor"), "{output}");
    assert!(
        requests
            .recv_timeout(TIMEOUT)
            .unwrap()
            .starts_with("GET /api/v1/servers?")
    );
}

#[test]
fn a_host_without_a_protocol_is_detected() {
    let (_serve, port) = Serve::minecraft_farm("127.84.9.0/30");
    let folder = Temporary::path("detect");
    std::fs::create_dir_all(&folder).unwrap();
    let history = folder.as_ref().join("history.db");
    let history = history.to_str().unwrap();
    let args = |host: &str| {
        let mut command = command(["monitor", "--for", "30s", "--listen", "127.0.0.1:0"]);
        command.args(["--history", history, host]);
        command
    };
    let mut process = Process::start(&mut args(&format!("127.84.9.1:{port}")));
    let mut line = String::new();
    let mut out = BufReader::new(process.child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let (_, url) = line.trim_end().split_once(" at ").expect("an address");
    let list = run(["monitor", "list", "--json", "--monitor", url]).ends_with(0);
    let target = format!("minecraft-query://127.84.9.1:{port}");
    assert_eq!(list.json()[0]["target"], target.as_str());
    process.child.kill().unwrap();
    process.wait();

    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut failed = Process::start(&mut args(&closed.to_string()));
    let mut error = String::new();
    let mut err = failed.child.stderr.take().unwrap();
    err.read_to_string(&mut error).unwrap();
    assert_eq!(failed.wait().code(), Some(1));
    assert!(error.contains("cannot detect the protocol"), "{error}");
    assert!(error.contains(&format!("PROTOCOL://{closed}")), "{error}");
}

#[test]
fn invalid_configurations_name_the_line_and_the_correction() {
    let folder = Temporary::path("configurations");
    let check = |text: &str| {
        run([
            "monitor",
            "--check-config",
            "--config",
            &config_file(&folder, text),
        ])
    };
    let server = "[[server]]\nname = 'a'\ntarget = 'ugp://127.0.0.1'\n";
    assert_eq!(check(server).ends_with(0).out, "valid: 1 server\n");
    let fast = check(&format!("{server}interval = '1s'\n")).ends_with(0);
    fast.warns(&["the interval of a of 1 s"]);
    let again = format!("{server}{server}");
    for (text, hint) in [
        ("down-after = 0\n", ":5: monitor.down-after"),
        ("plaers = 'off'\n", "did you mean `players`?"),
        (
            "players = 'some'\n",
            ":5: monitor.players: unknown value \"some\"; known are names, hashed, off",
        ),
        (
            "history = 'mysql://a'\n",
            ":5: monitor.history: expected the path of a file",
        ),
        ("keep = { raw = '1h' }\n", "expected at least \"2d\""),
        (
            "[[server]]\nname = 'a'\n",
            ":5: server: missing key `target`",
        ),
        (
            "[[server]]\nname = 'a'\ntarget = 'ugb://127.0.0.1'\n",
            ":7: server.target: unknown protocol or game; did you mean `ugp`?\n",
        ),
        (
            "[[server]]\nname = 'a'\ntarget = 'squad://127.0.0.1'\n",
            ":7: server.target: servers of Squad cannot be queried: ",
        ),
        (
            "[[server]]\nname = 'a b'\ntarget = 'ugp://127.0.0.1'\n",
            ":6: server.name: 1 to 64",
        ),
        (&again, ":8: server.name: the server of line 5 has the name"),
        ("[[alert]]\nname = 'x'\nwhen = 'gone'\nto = []\n", "gone"),
        (
            "[[alert]]\nname = 'x'\nwhen = 'down'\nto = ['ops']\n",
            "add a [[receiver]] block",
        ),
        (
            "[[receiver]]\nname = 'ops'\nform = 'json'\nurl-file = 'none'\n",
            "none: No such file",
        ),
        (
            "[[receiver]]\nname = 'ops'\nform = 'fax'\nurl = 'http://127.0.0.1'\n",
            "fax",
        ),
    ] {
        check(text).fails_as_usage(hint);
    }
    run("monitor --check-config --config /no/such/configuration".split(' '))
        .fails_as_usage("/no/such/configuration: ");
}

#[test]
fn exported_history_can_be_imported() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let (_farm, port) = Serve::minecraft_farm("127.85.0.0/24");
    let folder = Temporary::path("export");
    let mut servers = String::from("[[server]]\nname = 'gone'\ntarget = 'ugp://127.85.0.9:9'\n");
    for host in 1..=5 {
        servers += &format!(
            "[[server]]\nname = 's{host}'\ntarget = 'minecraft-query://127.85.0.{host}:{port}'\n"
        );
    }
    let path = config_file(&folder, &servers);
    let monitor = Monitor::start(&path);
    monitor.list(|list| {
        list.values()
            .filter(|server| server["state"] == "up")
            .count()
            == 5
    });
    let place = |name: &str| folder.as_ref().join(name).to_str().unwrap().to_owned();
    // Exporting also works while the monitor is writing.
    run([
        "monitor",
        "export",
        "--config",
        &path,
        "-o",
        &place("early.ndjson"),
    ])
    .ends_with(0);
    assert_eq!(monitor.end("TERM"), Some(0));

    let all = place("all.ndjson");
    let output = run(["monitor", "export", "--config", &path, "-o", &all])
        .ends_with(0)
        .err;
    let all = std::fs::read_to_string(all).unwrap();
    assert_eq!(
        output,
        format!(
            "{} records in {}\n",
            all.lines().count(),
            place("all.ndjson")
        )
    );
    for table in &TABLES[..] {
        // Roll-ups are written after 5 min.
        let record = format!("\"record\":\"{}\"", &table[..table.len() - 1]);
        assert!(
            all.contains(&record) || *table == "rollups",
            "{table}: {all}"
        );
    }
    let formats: &[&str] = if cfg!(feature = "parquet") {
        &["csv", "parquet"]
    } else {
        &["csv"]
    };
    for format in formats {
        let history = place(&format!("{format}.db"));
        for table in TABLES {
            let file = place(&format!("{table}.{format}"));
            run([
                "monitor", "export", "--config", &path, "--table", table, "-o", &file,
            ])
            .ends_with(0);
            let output = run(["monitor", "import", &file, "--history", &history])
                .ends_with(0)
                .err;
            assert!(output.contains(" records read; new: "), "{output}");
        }
        let back = place("back.ndjson");
        run(["monitor", "export", "--history", &history, "-o", &back]).ends_with(0);
        assert!(std::fs::read_to_string(back).unwrap() == all, "{format}");
    }
    #[cfg(feature = "parquet")]
    columns_have_types(
        Path::new(&place("samples.parquet")),
        all.matches("\"record\":\"sample\"").count(),
    );

    let export =
        |args: &[&str]| run([&["monitor", "export", "--config", &path, "-o"], args].concat());
    export(&[&place("x.csv")]).fails_as_usage("one table; select it with --table");
    export(&[&place("x.xml")]).fails_as_usage("ends in .ndjson, .csv or .parquet");
    export(&["/no/such/folder/x.ndjson"]).fails_as_usage("/no/such/folder/x.ndjson.part: ");
    let none = place("none.db");
    run([
        "monitor",
        "export",
        "--history",
        &none,
        "-o",
        &place("x.ndjson"),
    ])
    .fails_as_usage("no such history");
    assert!(
        !Path::new(&none).exists() && !Path::new(&place("x.ndjson")).exists(),
        "a failed export must create no file"
    );
    let import = |file: &str| run(["monitor", "import", file, "--history", &none]);
    import("/no/such/file").fails_as_usage("/no/such/file: ");
    import(Temporary::file("x", "a,b\n").text()).fails_as_usage("line 1: this is neither");
    import(Temporary::file("x", "PAR1 and no more").text()).ends_with(2);
    import(&place("samples.csv")).fails_as_usage("import the servers first");
}

#[cfg(feature = "parquet")]
fn columns_have_types(file: &Path, rows: usize) {
    use parquet::basic::{Compression, LogicalType, Type};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(std::fs::File::open(file).unwrap()).unwrap();
    let meta = reader.metadata();
    assert_eq!(meta.file_metadata().num_rows() as usize, rows);
    let columns = meta.file_metadata().schema_descr();
    let types: Vec<(&str, Type)> = columns
        .columns()
        .iter()
        .map(|column| (column.name(), column.physical_type()))
        .collect();
    assert_eq!(
        types,
        [
            ("server", Type::BYTE_ARRAY),
            ("at_ms", Type::INT64),
            ("is_answered", Type::BOOLEAN),
            ("players_online", Type::INT64),
            ("players_max", Type::INT64),
            ("latency_ms", Type::DOUBLE),
            ("datagrams_sent", Type::INT64),
            ("datagrams_resent", Type::INT64),
            ("observed_ms", Type::INT64),
        ]
    );
    let at = columns.column(1);
    assert!(
        matches!(at.logical_type_ref(), Some(LogicalType::Timestamp { .. })),
        "{at:?}"
    );
    assert!(matches!(
        meta.row_group(0).column(0).compression(),
        Compression::ZSTD(_)
    ));
}

#[test]
fn killed_monitor_loses_at_most_one_interval() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let (_farm, port) = Serve::minecraft_farm("127.86.0.0/24");
    let folder = Temporary::path("killed");
    let path = config_file(
        &folder,
        &format!("[[server]]\nname = 'a'\ntarget = 'minecraft-query://127.86.0.1:{port}'\n"),
    );
    let mut last = BTreeMap::new();
    for round in 1..=3 {
        let monitor = Monitor::start(&path);
        monitor.list(|list| is_up(list, "a") && list["a"]["last_sample"]["is_answered"] == true);
        std::thread::sleep(Duration::from_millis(1_700 + 300 * round));
        let killed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis() as i64;
        assert_eq!(monitor.end("KILL"), None);
        let file = folder.as_ref().join("samples.ndjson");
        let file = file.to_str().unwrap();
        run([
            "monitor", "export", "--config", &path, "--table", "samples", "-o", file,
        ])
        .ends_with(0);
        let samples = std::fs::read_to_string(file).unwrap();
        let times = samples.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["at_ms"]
                .as_i64()
                .unwrap()
        });
        let newest = times.max().unwrap();
        // At most one interval, plus the duration of the query in flight.
        assert!(
            killed - newest < 2_000 + 300,
            "{} ms are lost",
            killed - newest
        );
        assert!(last.insert(round, samples.lines().count()).is_none());
    }
    assert!(
        last.values().is_sorted(),
        "older samples are lost: {last:?}"
    );
}

#[test]
fn test_alert_reports_each_delivery() {
    let folder = Temporary::path("alerts");
    let (url, requests) = hook("204 No Content");
    let (broken, _refused) = hook("500 Oops");
    let script = folder.as_ref().join("on-alert");
    let receiver = |name: &str, rest: &str| format!("[[receiver]]\nname = '{name}'\n{rest}\n");
    let mut text: String = ["json", "discord", "slack", "ntfy"]
        .iter()
        .map(|form| {
            receiver(
                form,
                &format!("form = '{form}'\nurl = '{url}/hooks/{form}'"),
            )
        })
        .collect();
    // Relative to the configuration file, independent of the current directory.
    text += &receiver("script", "command = ['./on-alert', 'now']");
    let path = config_file(&folder, &text);
    std::fs::write(
        &script,
        "#!/bin/sh\necho \"$1 $HAILER_STATUS $HAILER_RULE\" > \"$(dirname \"$0\")/said\"\n",
    )
    .unwrap();
    assert!(
        Command::new("chmod")
            .arg("+x")
            .arg(&script)
            .status()
            .unwrap()
            .success()
    );

    let output = run(["monitor", "test-alert", "--config", &path]).ends_with(0);
    assert_eq!(
        output.out,
        "json: arrived\ndiscord: arrived\nslack: arrived\nntfy: arrived\nscript: arrived\n"
    );
    let sent: Vec<String> = requests.try_iter().collect();
    let [json, discord, slack, ntfy] = &sent[..] else {
        panic!("{sent:#?}")
    };
    let body = |text: &str| -> Value {
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    assert!(
        json.starts_with("POST /hooks/json ") && body(json)["schema"] == "hailer/alert/2",
        "{json}"
    );
    assert!(
        discord.starts_with("POST /hooks/discord ")
            && body(discord)["embeds"][0]["title"].is_string()
    );
    assert!(
        slack.starts_with("POST /hooks/slack ") && body(slack)["text"].is_string(),
        "{slack}"
    );
    assert!(
        ntfy.starts_with("POST /hooks/ntfy ") && ntfy.to_lowercase().contains("\r\ntitle: "),
        "{ntfy}"
    );
    assert_eq!(
        std::fs::read_to_string(folder.as_ref().join("said")).unwrap(),
        "now test test\n"
    );

    let output = run(["monitor", "test-alert", "ntfy", "--config", &path])
        .ends_with(0)
        .out;
    assert_eq!(
        (&*output, requests.try_iter().count()),
        ("ntfy: arrived\n", 1)
    );
    run(["monitor", "test-alert", "fax", "--config", &path])
        .fails_as_usage("fax: not a receiver of this configuration; it has json, discord");
    let path = config_file(
        &folder,
        &(receiver("broken", &format!("form = 'json'\nurl = '{broken}/x'")) + &text),
    );
    let output = run(["monitor", "test-alert", "--config", &path]).ends_with(1);
    assert_eq!(
        output.err,
        "broken: the receiver answered 500 Internal Server Error\n"
    );
    assert!(
        output.out.starts_with("json: arrived\n"),
        "one failed receiver must not affect the others: {}",
        output.out
    );
    run([
        "monitor",
        "test-alert",
        "--config",
        &config_file(&folder, ""),
    ])
    .fails_as_usage("no [[receiver]]");
}

/// Starts a server that answers all HTTP requests with `answer`. Returns its URL and a channel of
/// the requests.
fn hook(answer: &'static str) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let Some(request) = request(&stream) else {
                continue;
            };
            // Sent before the response, so that a caller with the response always finds the
            // request.
            if sender.send(request).is_err() {
                return;
            }
            let answer =
                format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    (url, requests)
}

fn request(mut stream: &TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = stream.read(&mut part).ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&part[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .to_lowercase()
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(text);
        }
    }
}
