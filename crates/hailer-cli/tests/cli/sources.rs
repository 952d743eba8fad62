//! Statuses that `hailer serve` gets from another server, from a file or by push.

use crate::support::{closed, names};
use crate::tool::{Serve, Temporary, run};
use hailer::{Client, Status};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Returns the status of a server, or `None` if it does not reply.
fn ask(url: &str) -> Option<Status> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut config = hailer::client::ClientConfig::default();
    config.limits.timeout = Duration::from_millis(300);
    config.limits.retries = 1;
    config.limits.deadline = Duration::from_secs(1);
    runtime
        .block_on(Client::new(config).query(url))
        .ok()
        .map(|answer| *answer.status)
}

/// Queries until the answer matches.
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

/// Starts a server with these lines in its block, and all protocols on one free port.
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
fn polled_status_is_served_in_other_protocols() {
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
    // The polled server may stop: its last status stays in use.
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
        "the polled server's address must not be served"
    );
    behind.stop("TERM");
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(names(&ask(&front.url("ugp")).unwrap()).len(), 3);
    let (_, output) = front.stop("TERM");
    assert!(
        output.contains("the last status stays in use") && output.matches("source:").count() == 1,
        "{output}"
    );
}

#[test]
fn file_source_follows_replacements_and_ignores_partial_writes() {
    let folder = Temporary::path("followed");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.as_ref().join("status.json");
    // Paths are relative to the configuration file.
    let config = folder.as_ref().join("servers.toml");
    std::fs::write(
        &config,
        "[[server]]\nlisten = \"127.0.0.1:0\"\nsource.file = \"status.json\"\n",
    )
    .unwrap();
    let serve = Serve::start(1, [Path::new("--config"), &config]);
    let url = serve.url("minecraft-query");
    assert_eq!(ask(&url), None, "no status and no fallback yet");
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
    // The JSON answer of a query is valid input for a file source.
    let line = run(["query", "--json", &url]).ends_with(0).out;
    replace(&path, &line.replace("two", "three"));
    until(&url, is_at("three"));
    let (_, output) = serve.stop("TERM");
    let expected = format!(
        "warning: source: {}:2: EOF while parsing a string; the last status stays in use\n",
        path.display()
    );
    assert!(
        output.contains(&expected) && output.contains("valid again"),
        "{output}"
    );
}

/// Sends a request. Returns the status code and the body of the response.
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
fn token_permits_push_over_tcp() {
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
    let (_, output) = serve.stop("TERM");
    assert!(!output.contains(TOKEN), "{output}");
}

/// After a reload, the last statuses stay in use, and push sources keep their listeners.
#[cfg(unix)]
#[test]
fn reload_keeps_statuses_and_listeners() {
    let token = Temporary::file("token", TOKEN);
    let socket = std::env::temp_dir().join(format!("hailer-again-{}.sock", std::process::id()));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let behind = [
        "--listen",
        "127.0.0.1:0",
        "--protocol",
        "ugp",
        "--map",
        "polled",
    ];
    let file = Temporary::path("s.json");
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
    // Both sources are gone, but their last statuses stay in use.
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
    // A listener that fails to bind does not affect the others.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = push(taken.local_addr().unwrap().to_string());
    std::fs::write(&config, all.concat() + &other).unwrap();
    serve.signal("HUP");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(say("still"), (204, 204));
    until(&urls[0], is_at("still"));
    let (_, output) = serve.stop("TERM");
    assert!(
        output.matches("cannot listen on").count() == 1
            && output.contains("the other sources keep running"),
        "{output}"
    );
    assert!(!socket.exists());
}

#[cfg(unix)]
#[test]
fn token_permits_push_over_a_unix_socket() {
    use std::os::unix::net::UnixStream;
    let token = Temporary::file("token", TOKEN);
    // Socket paths have a limit of about 100 bytes.
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
fn stale_status_is_marked_or_not_served() {
    let silent = Temporary::path("silent.json");
    let says = Temporary::path("says.json");
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
    let silent_url = silent_.url("minecraft-query");
    let says_url = says_.url("minecraft-query");
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
    // Writing the file again makes the status fresh again.
    write(&silent);
    write(&says);
    until(&silent_url, |status| motd(status) == "Hello");
    until(&says_url, |status| motd(status) == "Hello");
}

#[test]
fn file_errors_have_one_line_each_with_a_position() {
    let short = Temporary::file("token", "short\n");
    let empty = Temporary::file("token", "");
    let push = |port: u16, token: &str| {
        format!("source.push = {{ listen = \"127.0.0.1:{port}\", token-file = \"{token}\" }}\n")
    };
    let text = [
        "[[server]]\n",
        &push(1, short.text()),
        "[[server]]\n",
        &push(2, empty.text()),
        "[[server]]\n",
        &push(3, "/no/such/token"),
        "[[server]]\nlistne = \"127.0.0.1\"\n[engine]\nworkers = -1\n",
    ]
    .concat();
    let file = Temporary::file("bad.toml", text);
    let output = run(["serve", "--check-config", "--config", file.text()]).ends_with(2);
    let key = "server.source.push.token-file";
    let expected = [
        format!(
            "2: {key}: {}: the token has 5 bytes, fewer than 16; make a longer one, for example with `openssl rand -hex 16`",
            short.text()
        ),
        format!(
            "4: {key}: {}: the first line is empty; write the token there",
            empty.text()
        ),
        format!(
            "6: {key}: /no/such/token: No such file or directory; expected the path of a file whose first line is the token"
        ),
        "8: server: unknown key `listne`; did you mean `listen`?".to_owned(),
        "10: engine.workers: expected a whole number from 0 to 1024".to_owned(),
    ];
    let expected = expected
        .map(|line| format!("error: {}:{line}\n", file.text()))
        .concat();
    assert_eq!(output.err, expected);
    assert_eq!(output.out, "");
    let binary = Temporary::file("bad.toml", b"[[server]]\n\xFF\xFE\0");
    run(["serve", "--config", binary.text()])
        .fails_as_usage(&format!("{}:2: not UTF-8", binary.text()));
}

#[test]
fn silent_polled_server_is_logged_once() {
    let serve = serve(
        "poll.toml",
        &format!(
            "source.poll = {{ target = \"ugp://{}\", every = \"1s\" }}",
            closed()
        ),
    );
    assert_eq!(ask(&serve.url("ugp")), None);
    std::thread::sleep(Duration::from_secs(3));
    let (_, output) = serve.stop("TERM");
    assert_eq!(output.matches("source:").count(), 1, "{output}");
}
