//! `hailer serve` fed from elsewhere: by another server, a file, or whoever pushes.

use crate::support::{closed, names};
use crate::tool::{Serve, Temporary, run};
use hailer::{Client, Status};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// What a server says of itself; none if it is silent.
fn ask(url: &str) -> Option<Status> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut settings = hailer::ClientConfig::default();
    settings.limits.timeout = Duration::from_millis(300);
    (settings.limits.retries, settings.limits.deadline) = (1, Duration::from_secs(1));
    runtime
        .block_on(Client::new(settings).query(url))
        .ok()
        .map(|answer| *answer.status)
}

/// Asks until the answer is as expected.
#[track_caller]
fn until(url: &str, is: impl Fn(Option<&Status>) -> bool) -> Option<Status> {
    let started = Instant::now();
    loop {
        let status = ask(url);
        if is(status.as_ref()) {
            return status;
        }
        assert!(started.elapsed() < Duration::from_secs(15), "{status:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_at(map: &str) -> impl Fn(Option<&Status>) -> bool {
    move |status| status.and_then(|status| status.map.as_deref()) == Some(map)
}

fn motd(status: Option<&Status>) -> String {
    status
        .and_then(|status| status.motd.as_ref())
        .map(|motd| motd.plain())
        .unwrap_or_default()
}

/// A server with these lines in its block, all protocols on one free port.
fn serve(name: &str, lines: &str) -> Serve {
    let config = Temporary::file(
        name,
        format!("[[server]]\nlisten = \"127.0.0.1:0\"\n{lines}\n"),
    );
    Serve::start(1, ["--config", config.text()])
}

fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

#[test]
fn poll_translates_what_one_server_says_for_those_who_ask_in_other_protocols() {
    let people = ["Alice", "Bob", "Carol"];
    let flags = people.iter().flat_map(|name| ["--player", name]);
    let behind = [
        "--listen",
        "127.0.0.1:0",
        "--protocol",
        "minecraft-query",
        "--map",
        "harbour",
    ];
    let behind = Serve::start(1, behind.into_iter().chain(flags));
    let url = behind.url("minecraft-query");
    let front = serve(
        "poll.toml",
        &format!(
            "source.poll = {{ target = \"{url}\", every = \"1s\" }}\noptions.onequery = {{ public = [\"basic\", \"players\"] }}"
        ),
    );
    for protocol in ["minecraft-query", "ugp", "onequery"] {
        let status = until(&front.url(protocol), |status| {
            status.is_some_and(|status| status.players.online == Some(3))
        })
        .unwrap();
        let mut seen = names(&status);
        seen.sort();
        assert_eq!(seen, people, "{protocol}");
        if let Some(map) = &status.map {
            assert_eq!(map, "harbour", "{protocol}");
        }
    }
    // The one behind may go; what it said last stays.
    let port = behind.address().rsplit_once(':').unwrap().1.to_owned();
    let own = ask(&front.url("minecraft-query"))
        .unwrap()
        .address
        .unwrap()
        .port
        .unwrap();
    assert_ne!(
        own.to_string(),
        port,
        "its own idea of its address is not handed on"
    );
    behind.stop("TERM");
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(names(&ask(&front.url("ugp")).unwrap()).len(), 3);
    let (_, said) = front.stop("TERM");
    assert!(
        said.contains("what it said last is kept") && said.matches("source:").count() == 1,
        "{said}"
    );
}

#[test]
fn a_file_is_followed_through_replacements_and_never_taken_half_written() {
    let folder = Temporary::path("followed");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.as_ref().join("status.json");
    // Paths count from the configuration file.
    let config = folder.as_ref().join("servers.toml");
    std::fs::write(
        &config,
        "[[server]]\nlisten = \"127.0.0.1:0\"\nsource.file = \"status.json\"\n",
    )
    .unwrap();
    let serve = Serve::start(1, [Path::new("--config"), &config]);
    let url = serve.url("minecraft-query");
    assert_eq!(
        ask(&url),
        None,
        "nothing is known yet, and nothing to say instead"
    );
    replace(&path, r#"{ "map": "one", "players": ["Alice", "Bob"] }"#);
    let status = until(&url, is_at("one")).unwrap();
    assert_eq!(
        (names(&status), status.players.online),
        (vec!["Alice".to_owned(), "Bob".to_owned()], Some(2))
    );
    std::fs::write(&path, "{ \"map\": \"two\",\n \"players\": [\"Al").unwrap();
    std::thread::sleep(Duration::from_millis(800));
    assert!(is_at("one")(ask(&url).as_ref()));
    std::fs::write(&path, "{ \"map\": \"two\",\n \"players\": [\"Alice\"] }").unwrap();
    until(&url, is_at("two"));
    // What one server answered is good for another.
    let line = run(["query", "--json", &url]).ends_with(0).out;
    replace(&path, &line.replace("two", "three"));
    until(&url, is_at("three"));
    let (_, said) = serve.stop("TERM");
    let expected = format!(
        "source: {}:2: EOF while parsing a string; what it said last is kept\n",
        path.display()
    );
    assert!(
        said.contains(&expected) && said.contains("good again"),
        "{said}"
    );
}

/// Says a request and returns the answer's code and body.
fn http(
    stream: &mut (impl Read + Write),
    method: &str,
    path: &str,
    token: &str,
    body: &str,
) -> (u16, String) {
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n");
    stream
        .write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

#[test]
fn whoever_has_the_token_pushes_over_tcp() {
    let token = Temporary::file("token", format!("{TOKEN}\n"));
    let other = Temporary::file("token", "another token that is long enough\n");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let block = |name: &str, token: &Temporary| {
        let push = format!(
            "{{ listen = \"{port}\", token-file = \"{}\" {name} }}",
            token.text()
        );
        format!(
            "[[server]]\nlisten = \"127.0.0.1:0\"\nsource.push = {push}\nstatus.map = \"before\"\n"
        )
    };
    let both = block("", &token) + &block(", name = \"lobby\"", &other);
    let config = Temporary::file("push.toml", both);
    let serve = Serve::start(2, ["--config", config.text()]);
    let url = serve.url("minecraft-query");
    until(&url, is_at("before"));
    let say = |method: &str, path: &str, token: &str, body: &str| {
        http(
            &mut TcpStream::connect(port).unwrap(),
            method,
            path,
            token,
            body,
        )
    };
    let nothing = "{\"age_seconds\":null,\"status\":null}\n".to_owned();
    assert_eq!(say("GET", "/status", TOKEN, ""), (200, nothing));
    assert_eq!(
        say("PUT", "/status", TOKEN, "{\"map\": \"pushed\"}"),
        (204, String::new())
    );
    until(&url, is_at("pushed"));
    for (path, token) in [
        ("/status", "wrong"),
        ("/status/lobby", "wrong"),
        ("/nowhere", ""),
    ] {
        let (code, body) = say("PUT", path, token, "{\"map\": \"forged\"}");
        assert!(
            code == 401 && body.starts_with("{\"error\":\"") && body.lines().count() == 1,
            "{code} {body}"
        );
    }
    assert_eq!(
        say("PUT", "/status/lobby", TOKEN, "{\"map\": \"forged\"}").0,
        404
    );
    let (code, body) = say("PUT", "/status", TOKEN, "{\"map\":\n7}");
    assert_eq!(
        (code, body.as_str()),
        (
            422,
            "{\"error\":\"line 2: invalid type: integer `7`, expected a string\"}\n"
        )
    );
    assert_eq!(
        say("PUT", "/status", TOKEN, &" ".repeat((1 << 20) + 1)).0,
        413
    );
    until(&url, is_at("pushed"));
    let (code, body) = say("GET", "/status", TOKEN, "");
    let known: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &known["status"]["map"]), (200, &"pushed".into()));
    assert!(
        (0.0..30.0).contains(&known["age_seconds"].as_f64().unwrap()),
        "{body}"
    );
    assert_eq!(
        say(
            "PUT",
            "/status/lobby",
            "another token that is long enough",
            "{\"map\": \"lobby\"}"
        )
        .0,
        204
    );
    let lobby = format!(
        "minecraft-query://{}",
        crate::tool::address(&serve.listening[1])
    );
    until(&lobby, is_at("lobby"));
    until(&url, is_at("pushed"));
    let (_, said) = serve.stop("TERM");
    assert!(!said.contains(TOKEN), "{said}");
}

/// A reload takes nothing back: what sources said is answered on, and who pushes finds the door where it was.
#[test]
fn a_reload_keeps_the_truth_and_the_doors() {
    let token = Temporary::file("token", TOKEN);
    let socket = std::env::temp_dir().join(format!("hailer-again-{}.sock", std::process::id()));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (behind, file) = (
        [
            "--listen",
            "127.0.0.1:0",
            "--protocol",
            "ugp",
            "--map",
            "polled",
        ],
        Temporary::path("s.json"),
    );
    let behind = Serve::start(1, behind);
    replace(file.as_ref(), "{\"map\": \"of a file\"}");
    let server = |source: String| format!("[[server]]\nlisten = \"127.0.0.1:0\"\n{source}\n");
    let push = |listen: String| {
        server(format!(
            "source.push = {{ listen = \"{listen}\", token-file = \"{}\" }}",
            token.text()
        ))
    };
    let poll = server(format!(
        "source.poll = {{ target = \"{}\", every = \"1s\" }}",
        behind.url("ugp")
    ));
    let all = [
        push(tcp.to_string()),
        push(format!("unix:{}", socket.display())),
        poll,
        server(format!("source.file = \"{}\"", file.text())),
    ];
    let config = Temporary::file("again.toml", all.concat());
    let serve = Serve::start(4, ["--config", config.text()]);
    let say = |map: &str| {
        let body = format!("{{\"map\": \"{map}\"}}");
        let over_tcp = http(
            &mut TcpStream::connect(tcp).unwrap(),
            "PUT",
            "/status",
            TOKEN,
            &body,
        )
        .0;
        let over_unix = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        (
            over_tcp,
            http(&mut { over_unix }, "PUT", "/status", TOKEN, &body).0,
        )
    };
    assert_eq!(say("pushed"), (204, 204));
    let urls: Vec<_> = serve
        .listening
        .iter()
        .map(|line| format!("minecraft-query://{}", crate::tool::address(line)))
        .collect();
    let maps = ["pushed", "pushed", "polled", "of a file"];
    for (url, map) in urls.iter().zip(maps) {
        until(url, is_at(map));
    }
    // Neither is there any more, and yet nobody forgets what they said.
    behind.stop("TERM");
    std::fs::remove_file(&file).unwrap();
    for again in 1..=3 {
        serve.signal("HUP");
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(400) {
            for (url, map) in urls.iter().zip(maps) {
                assert!(
                    is_at(map)(ask(url).as_ref()),
                    "{url} after {again}: {:?}",
                    ask(url)
                );
            }
        }
    }
    assert_eq!(say("again"), (204, 204));
    until(&urls[0], is_at("again"));
    until(&urls[1], is_at("again"));
    // One door that cannot be opened closes no other.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = push(taken.local_addr().unwrap().to_string());
    std::fs::write(&config, all.concat() + &other).unwrap();
    serve.signal("HUP");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(say("still"), (204, 204));
    until(&urls[0], is_at("still"));
    let (_, said) = serve.stop("TERM");
    assert!(
        said.matches("cannot listen on").count() == 1 && said.contains("answers go on without it"),
        "{said}"
    );
    assert!(!socket.exists());
}

#[cfg(unix)]
#[test]
fn whoever_has_the_token_pushes_over_a_unix_socket() {
    use std::os::unix::net::UnixStream;
    let token = Temporary::file("token", TOKEN);
    // Where a socket may be has few bytes.
    let socket = std::env::temp_dir().join(format!("hailer-e2e-{}.sock", std::process::id()));
    let push = format!(
        "{{ listen = \"unix:{}\", token-file = \"{}\" }}",
        socket.display(),
        token.text()
    );
    let serve = serve("push.toml", &format!("source.push = {push}"));
    let url = serve.url("ugp");
    assert_eq!(ask(&url), None);
    let say = |token: &str, map: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        http(
            &mut stream,
            "PUT",
            "/status",
            token,
            &format!("{{\"map\": \"{map}\"}}"),
        )
        .0
    };
    assert_eq!((say("wrong", "forged"), say(TOKEN, "true")), (401, 204));
    until(&url, is_at("true"));
    serve.stop("TERM");
    assert!(!socket.exists(), "the socket is removed");
}

#[test]
fn a_stale_truth_says_so_or_is_silent() {
    let (silent, says) = (Temporary::path("silent.json"), Temporary::path("says.json"));
    let write = |path: &Temporary| replace(path.as_ref(), "{\"motd\": \"Hello\", \"map\": \"m\"}");
    let silent_ = serve(
        "silent.toml",
        &format!(
            "source.file = \"{}\"\nstale-after = \"2s\"\nstale = \"silent\"",
            silent.text()
        ),
    );
    let says_ = serve(
        "says.toml",
        &format!(
            "source.file = \"{}\"\nstale-after = \"2s\"\nstatus.motd = \"Soon\"",
            says.text()
        ),
    );
    let (silent_url, says_url) = (silent_.url("minecraft-query"), says_.url("minecraft-query"));
    until(&says_url, |status| motd(status) == "Soon");
    assert_eq!(ask(&silent_url), None);
    write(&silent);
    write(&says);
    until(&silent_url, |status| motd(status) == "Hello");
    until(&says_url, |status| motd(status) == "Hello");
    until(&silent_url, |status| status.is_none());
    until(&says_url, |status| {
        motd(status).starts_with("Hello (last seen ") && motd(status).ends_with(" s ago)")
    });
    // Written again, it is true again.
    write(&silent);
    write(&says);
    until(&silent_url, |status| motd(status) == "Hello");
    until(&says_url, |status| motd(status) == "Hello");
}

#[test]
fn every_mistake_is_one_line_with_file_line_and_fix() {
    let token = Temporary::file("token", "short\n");
    let (good, empty) = (
        Temporary::file("token", TOKEN),
        Temporary::file("token", ""),
    );
    let push = |listen: &str, token: &str| {
        format!("source.push = {{ listen = \"{listen}\", token-file = \"{token}\" }}")
    };
    let (token, good, empty) = (token.text(), good.text(), empty.text());
    let listen = "\"ADDRESS:PORT\" or \"unix:PATH\"";
    let target = "a server such as \"minecraft-query://127.0.0.1:25566\"";
    let server = |lines: &str| format!("[[server]]\n{lines}");
    for (text, expected) in [
        (String::new(), ": no server; write at least one [[server]] block".to_owned()),
        (server("listne = \"127.0.0.1\""), ":2: unknown key `listne` in [[server]]; did you mean `listen`?".into()),
        (server("max_players = 1"), ":2: unknown key `max_players` in [[server]]; known are demo, listen, options, protocols, relay, secret, source, stale, stale-after, stale-text, status".into()),
        (server("status = { max_players = 1 }"), ":2: unknown key `max_players` in status; did you mean `max-players`?".into()),
        (server("\nlisten = \"nowhere\""), ":3: listen \"nowhere\": write ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT".into()),
        (server("protocols = [\"ugp\",\n\"minecraft-qery\"]"), ":3: unknown protocol \"minecraft-qery\"; did you mean \"minecraft-query\"?".into()),
        (server("protocols = [\"gopher\"]"), ":2: unknown protocol \"gopher\"; known are minecraft-query, ugp, onequery, minecraft-12w".into()),
        (server("status = { max-players = \"many\" }"), ":2: status.max-players: write a whole number from 0 to 2147483647".into()),
        (server("status.players = [\"Alice\",\n\"\"]"), ":3: status.players: a name is empty; write one".into()),
        (server("options.ugp.max-reply = 1"), ":2: options.ugp.max-reply: must be a whole number from 64 to 65507".into()),
        (server("secret = \"1234\""), ":2: secret: write 32 hexadecimal digits, the same on every node that shares it".into()),
        (server("source.pol = \"x\""), ":2: unknown key `pol` in source; did you mean `poll`?".into()),
        (server("source.file = \"/no/such/folder/status.json\""), ":2: source.file: /no/such/folder/status.json is in no folder that exists; write the path of a JSON file".into()),
        (server("source.file = \"x\"\nsource.poll = \"ugp://h\""), ":3: source: exactly one is needed: write source.file = \"PATH\", source.poll = { target = … }, source.push = { listen = … } or source.redis = { url = … }".into()),
        (server("source.redis = { url = \"redis://h\" }"), ":2: source.redis needs `server-id`: write another one for each server of the network".into()),
        (server("source.redis = { url = \"http://h\",\nserver-id = \"a\" }"), ":2: source.redis: url: must begin with redis:// or, for TLS, rediss://".into()),
        (server("source.redis = { url = \"redis://:5ec4e7@h:x\", server-id = \"a\" }"), ":2: source.redis: url: must look like redis://user:password@host:6379/0; in a password write %40 for @, %3A for :, %2F for /".into()),
        (server("source.redis = { url = \"redis://h\", server-id = \"a\", heartbeat = \"2s\" }"), ":2: source.redis: heartbeat: must be 5 to 300 seconds, not 2s".into()),
        (server("source.redis = { url = \"redis://h\", server-id = \"a\", mode = \"all\" }"), ":2: source.redis: mode: must be PUBLISH, SYNC or AGGREGATE".into()),
        (server("source.redis = { url = \"redis://h\", server-id = \"a\", user = \"me\" }"), ":2: user: needs password-file as well".into()),
        (server("source.poll = { every = \"5s\" }"), format!(":2: source.poll needs `target`: write {target}")),
        (server("source.poll = \"gopher://h\""), format!(":2: source.poll: \"gopher://h\": unknown protocol; known are minecraft-query, ugp, onequery, minecraft-12w; write {target}")),
        (server("source.poll = { target = \"ugp://h\",\nevery = \"soon\" }"), ":3: every: write a time in quotes such as \"5s\", \"500ms\" or \"1min\"".into()),
        (server("source.poll = { target = \"ugp://h\", every = \"10ms\" }"), ":2: every: 10ms: write at least 1s, and at most a year".into()),
        (server("source.poll = \"ugp://h\"\nstale-after = 60"), ":3: stale-after: write a time in quotes such as \"5s\", \"500ms\" or \"1min\"".into()),
        (server("source.poll = \"ugp://h\"\nstale-after = \"1min\"\nstale = \"silence\""), ":4: stale: write \"serve\", \"say\" or \"silent\"; did you mean \"silent\"?".into()),
        (server(&push("0.0.0.0:1", good)), ":2: listen \"0.0.0.0:1\": tokens would travel there in the open; listen on 127.0.0.1, or write insecure = true as well".into()),
        (server(&push("here", good)), format!(":2: listen \"here\": write {listen}")),
        (server(&push("127.0.0.1:1", token)), format!(":2: token-file: {token}: the token has 5 bytes, and 16 are the least; make a longer one, as with `openssl rand -hex 16`")),
        (server(&push("127.0.0.1:1", empty)), format!(":2: token-file: {empty}: its first line is empty; it should hold the token")),
        (server(&push("127.0.0.1:1", "/no/such/token")), ":2: token-file: /no/such/token: No such file or directory; write the path of a file whose first line is the token".into()),
        (format!("[[server]]\n{0}\n[[server]]\n{0}", push("127.0.0.1:1", good)), ":4: source.push: the same as that of line 2; give each its own name, as in source.push = { name = \"lobby\", … }".into()),
        (server("\n[[server]]\nprotocols = [\"ugp\"]"), ":3: listens on 127.0.0.1:22000, and so does the server of line 1; each needs an address or a port of its own; write another listen".into()),
        (server("source.redis = { url = \"rediss://h\", server-id = \"a\",\nkey-file = \"k\" }"), ":3: certificate-file and key-file: one needs the other as well".into()),
        (server(&format!("source.redis = {{ url = \"rediss://h\", server-id = \"a\", ca-file = \"{good}\" }}")), format!(":2: ca-file: {good}: nothing in it begins with -----BEGIN; write the path of a file in PEM")),
        (server("relay = \"mars\""), ":2: relay \"mars\": write the game server's \"ADDRESS:PORT\"".into()),
        (server("listen = \"127.0.0.1:9\"\nrelay = \"127.0.0.1:9\""), ":3: relay 127.0.0.1:9: that is where this server listens; write where the game is".into()),
        (server("[engine]\nworkers = -1"), ":3: workers: write a whole number from 0 to 1024".into()),
        (server("[engine]\nbudget.unverified-per-sauce = \"8KiB\""), ":3: unknown key `unverified-per-sauce` in budget; did you mean `unverified-per-source`?".into()),
        (server("[engine]\nbudget.unverified-total = \"much\""), ":3: unverified-total: write bytes in a second such as \"8KiB\", or { bytes = \"8KiB\", packets = 40 }; units are B, kB, MB, KiB and MiB, up to 4 GiB".into()),
        (server("[observe]\nmetrics = \"0.0.0.0:9100\""), ":3: metrics \"0.0.0.0:9100\": everybody there could read them; write a loopback address and a port, such as \"127.0.0.1:9100\"".into()),
        (server("[enigne]\nworkers = 1"), ":2: unknown key `enigne` in the file; did you mean `engine`?".into()),
    ] {
        let file = Temporary::file("bad.toml", &text);
        let said = run(["serve", "--check-config", "--config", file.text()]);
        let expected = format!("error: {}{expected}\n", file.text());
        assert_eq!(said.err, expected, "{text}");
        said.fails_as_usage("");
    }
    let binary = Temporary::file("bad.toml", b"[[server]]\n\xFF\xFE\0");
    run(["serve", "--config", binary.text()])
        .fails_as_usage(&format!("{}:2: not UTF-8", binary.text()));
}

#[test]
fn a_server_that_never_answers_is_complained_of_once() {
    let serve = serve(
        "poll.toml",
        &format!(
            "source.poll = {{ target = \"ugp://{}\", every = \"1s\" }}",
            closed()
        ),
    );
    assert_eq!(ask(&serve.url("ugp")), None);
    std::thread::sleep(Duration::from_secs(3));
    let (_, said) = serve.stop("TERM");
    assert_eq!(said.matches("source:").count(), 1, "{said}");
}
