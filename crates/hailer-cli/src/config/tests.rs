use super::*;
use crate::observe::Control;
use hailer::respond::source::{Stale, Wording};
use hailer::respond::{RelayVerification, SourceLimits};
use hailer::support::proxy_protocol::Version;
use serde_json::Value as Json;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// Creates a folder with the files that examples name.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("hailer-config-{}-{next}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    for token in ["token", "auth-token", "push-token", "redis-password"] {
        fs::write(folder.join(token), " 0123456789abcdef \nmore").unwrap();
        set_mode(&folder.join(token), 0o600);
    }
    for pem in ["ca.pem", "certificate.pem", "key.pem"] {
        fs::write(folder.join(pem), "-----BEGIN PEM-----\n").unwrap();
    }
    fs::write(folder.join("games.toml"), "").unwrap();
    fs::write(folder.join("server-icon.png"), b"\x89PNG\r\n\x1a\n...").unwrap();
    folder
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) {}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Reads a configuration text, and replaces the file name in errors.
fn read_text(text: &str) -> Result<(ServeConfig, Vec<String>), String> {
    let folder = folder();
    let path = folder.join("FILE");
    fs::write(&path, text).unwrap();
    let result = read(&path);
    fs::remove_dir_all(&folder).unwrap();
    let anonymous = |text: String| text.replace(&path.display().to_string(), "FILE");
    match result {
        Ok((config, warnings)) => Ok((config, warnings.into_iter().map(anonymous).collect())),
        Err(error) => Err(anonymous(error.to_string())),
    }
}

fn problem(text: &str) -> String {
    read_text(text).err().unwrap_or_default()
}

/// Returns the example with its optional settings enabled.
fn full_example() -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => format!("{setting}\n"),
        _ => format!("{line}\n"),
    };
    EXAMPLE.lines().map(line).collect()
}

#[test]
fn games_are_added_before_targets_are_parsed() {
    let server = "[[server]]\nsource.poll = \"config-test://127.0.0.1\"\n";
    let error = read_text(&format!("games = \"none.toml\"\n{server}"))
        .err()
        .unwrap();
    assert!(error.starts_with("FILE:1: games: "), "{error}");
    assert!(error.contains("none.toml: No such file"), "{error}");

    let folder = folder();
    let games = folder.join("games.toml");
    let file = folder.join("FILE");
    let game = "[[game]]\nid = \"config-test\"\nname = \"Test\"\nprotocols = \"ugp\"\n";
    fs::write(&games, game).unwrap();
    fs::write(&file, format!("# first\ngames = \"games.toml\"\n{server}")).unwrap();
    let error = read(&file).err().unwrap().to_string();
    assert!(
        error.contains("games.toml:2: game: config-test: it needs a port"),
        "{error}"
    );
    fs::write(&games, format!("{game}port = 7777\n")).unwrap();
    assert_eq!(read(&file).unwrap().0.servers.len(), 1);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_example_is_sound_with_and_without_its_optional_settings() {
    let (config, warnings) = read_text(EXAMPLE).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!((config.servers.len(), warnings), (3, Vec::<String>::new()));
    let (config, warnings) =
        read_text(&full_example()).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!((config.servers.len(), warnings), (6, Vec::<String>::new()));
    let engine = PoolConfig::default();
    assert_eq!(config.engine, engine, "the example shows the defaults");
}

fn schema() -> Json {
    serde_json::from_str(include_str!("../../../../schema/serve-config-v1.json")).unwrap()
}

#[test]
fn the_schema_accepts_the_example_and_lists_every_key() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for text in [EXAMPLE.to_owned(), full_example()] {
        let value: Json = toml::from_str(&text).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&value)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert_eq!(errors, [""; 0]);
    }
    assert!(!validator.is_valid(&serde_json::json!({ "server": [{ "lisen": "127.0.0.1" }] })));
    // For an unknown key, the reader lists the known keys of its table.
    let tables = [
        ("zzz = 1\n", ""),
        ("[[server]]\nzzz = 1\n", "/properties/server/items"),
        ("[[server]]\nstatus.zzz = 1\n", "/$defs/status"),
        ("[[server]]\nsource.zzz = 1\n", "/$defs/source"),
        ("[[server]]\nnetwork.zzz = 1\n", "/$defs/network"),
        ("[[server]]\non-join.zzz = 1\n", "/$defs/on-join"),
        ("[[server]]\ndoor.zzz = 1\n", "/$defs/door"),
        ("[[server]]\ndoor.start.zzz = 1\n", "/$defs/door-control"),
        ("[[server]]\ndoor.asleep.zzz = 1\n", "/$defs/door-text"),
        (
            "[[server]]\ndoor.starts-per-hour.zzz = 1\n",
            "/$defs/door/properties/starts-per-hour",
        ),
        ("[[server]]\nsource.poll.zzz = 1\n", "/$defs/poll"),
        ("[[server]]\nsource.push.zzz = 1\n", "/$defs/push"),
        ("[engine]\nzzz = 1\n", "/properties/engine"),
        (
            "[engine]\nbudget.zzz = 1\n",
            "/properties/engine/properties/budget",
        ),
        (
            "[engine]\nrelay.zzz = 1\n",
            "/properties/engine/properties/relay",
        ),
        (
            "[engine]\nconnections.zzz = 1\n",
            "/properties/engine/properties/connections",
        ),
        (
            "[engine]\nbudget.unverified-total.zzz = 1\n",
            "/$defs/allowance",
        ),
        ("[observe]\nzzz = 1\n", "/properties/observe"),
    ];
    for (text, place) in tables {
        let problem = problem(text);
        let (_, known) = problem
            .split_once("unknown key `zzz`; known are ")
            .unwrap_or_else(|| panic!("{problem}"));
        let mut known: Vec<&str> = known
            .lines()
            .next()
            .unwrap()
            .split(", ")
            .filter(|key| *key != "redis")
            .collect();
        known.sort_unstable();
        let properties = schema
            .pointer(&format!("{place}/properties"))
            .unwrap_or_else(|| panic!("{place}"));
        let listed: Vec<&String> = properties.as_object().unwrap().keys().collect();
        assert_eq!(known, listed, "{place}");
        for key in known {
            assert!(full_example().contains(key), "the example lacks {key}");
        }
    }
}

#[test]
fn a_fixed_status_has_bots_a_password_and_players_with_scores() {
    let text = r#"
        [[server]]
        status.online = 9
        status.bots = 2
        status.password = true
        status.anti-cheat = false
        status.players = [{ name = "A", score = -3, team = "red", time = "1min", latency = "40ms" }]
    "#;
    let (config, _) = read_text(text).unwrap();
    let status = config.servers[0].source.fixed();
    assert_eq!(status.players.bots, Some(2));
    assert_eq!(status.has_password, Some(true));
    assert_eq!(status.has_anti_cheat, Some(false));
    let player = &status.players.list[0];
    assert_eq!(player.score, Some(-3));
    assert_eq!(player.team.as_deref(), Some("red"));
    assert_eq!(player.time_s, Some(60.0));
    assert_eq!(player.latency_ms, Some(40));
}

#[test]
fn every_key_has_its_effect() {
    let folder = folder();
    let text = r#"
        [[server]]
        source.file = "s.json"
        status.rules = { z = 1, a = true }
        status.plugins = ["World Edit 7.3", { name = "Shy" }]
        stale-after = "90s"
        relay = ["127.0.0.1:25570", "tcp:mc:25571"]
        also = ["udp:24454", "udp:24455"]
        hosts = "MC.Example.com."
        protocols = ["minecraft-status"]
        proxy-protocol = 1
        trusted-proxies = ["10.0.0.0/8", "::1"]
        network = { url = "redis://127.0.0.1", server-id = "lobby" }
        [[server]]
        listen = "127.0.0.2"
        [server.source.push]
        listen = "unix:push.sock"
        token-file = "token"
        name = "lobby"
        [[server]]
        listen = "127.0.0.3"
        source.poll = "ugp://127.0.0.1:1"
        stale-after = "1min"
        stale = "silent"
        [engine]
        workers = 3
        relay = { sessions = 9, idle = "5s", verify = "ratio", connections = 11, connections-per-network = 12, connection-idle = "7s", held = 13, held-per-network = 0 }
        connections = { total = 7, per-network = 3 }
        [engine.budget]
        unverified-per-source = "8KiB"
        unverified-total = { packets = 40 }
        verified-per-source = { bytes = "2 MB", packets = 1 }
        [observe]
        metrics = "[::1]:9100"
        control = "control.sock"
    "#;
    fs::write(folder.join("config.toml"), text).unwrap();
    let config = read(&folder.join("config.toml"));
    fs::remove_dir_all(&folder).unwrap();
    let (config, _) = config.unwrap();
    let mut engine = PoolConfig::default();
    engine.workers = 3;
    engine.relay_sessions = 9;
    engine.relay_idle = Duration::from_secs(5);
    engine.relay_verification = RelayVerification::Ratio;
    engine.passages.relayed = SourceLimits {
        total: 11,
        per_network: 12,
    };
    engine.passages.held = SourceLimits {
        total: 13,
        per_network: 0,
    };
    engine.passages.idle = Duration::from_secs(7);
    engine.connections.total = 7;
    engine.connections.per_network = 3;
    engine.budget.unverified_per_source = 8192;
    engine.budget.unverified_total_packets = 40;
    engine.budget.verified_per_source = 2_000_000;
    engine.budget.verified_packets = 1;
    assert_eq!(config.engine, engine);
    let control = Control::At(folder.join("control.sock"));
    let metrics = Some("[::1]:9100".parse().unwrap());
    assert_eq!(config.observe, ObserverConfig { metrics, control });
    let (off, _) =
        read_text("[[server]]\nlisten = \"127.0.0.1:1\"\n[observe]\ncontrol = \"off\"\n").unwrap();
    assert_eq!(off.observe.control, Control::Off);
    let sources: Vec<&ExternalSource> = config
        .servers
        .iter()
        .filter_map(|server| server.source.external())
        .collect();
    assert!(
        matches!(&sources[0].origin, SourceOrigin::File(path) if *path == folder.join("s.json"))
    );
    assert_eq!(sources[0].policy.stale, Stale::Say(Wording::default()));
    assert_eq!(sources[0].policy.stale_after, Some(Duration::from_secs(90)));
    let before = sources[0].policy.before.as_ref().unwrap();
    let rules: Vec<_> = before
        .rules
        .iter()
        .map(|rule| format!("{}={}", rule.key, rule.value))
        .collect();
    assert_eq!(rules, ["z=1", "a=true"]);
    let plugins = before.extra("plugins").unwrap().to_string();
    assert!(
        plugins.contains("World Edit") && plugins.contains("7.3") && plugins.contains("Shy"),
        "{plugins}"
    );
    assert_eq!(
        config.servers[0].relay,
        Some("127.0.0.1:25570".parse().unwrap())
    );
    let further = config.servers[0].listeners.iter();
    let further = further.filter(|listener| listener.protocols.is_empty());
    let further: Vec<String> = further
        .map(|listener| listener.address.to_string())
        .collect();
    assert_eq!(further, ["127.0.0.1:24454", "127.0.0.1:24455"]);
    let tcp = config.servers[0].relay_tcp.as_ref().unwrap();
    assert_eq!((tcp.to_string(), tcp.literal()), ("mc:25571".into(), None));
    let streams = &config.servers[0].streams;
    assert_eq!(streams.hosts, ["mc.example.com"]);
    assert_eq!(streams.proxy_protocol, Some(Version::V1));
    let trusted = ["10.0.0.0/8", "::1"].map(|range| range.parse().unwrap());
    assert_eq!(streams.trusted_proxies, trusted);
    let network = config.servers[0].network.as_ref().unwrap();
    assert_eq!(
        (network.server_id.as_str(), network.port, &network.host),
        ("lobby", 0, &None)
    );
    let SourceOrigin::Push(push) = &sources[1].origin else {
        panic!()
    };
    assert_eq!(push.place, Place::Path(folder.join("push.sock")));
    assert_eq!(
        (push.name.as_deref(), push.token.reveal()),
        (Some("lobby"), "0123456789abcdef")
    );
    assert_eq!(sources[1].policy.before, None);
    assert!(
        matches!(&sources[2].origin, SourceOrigin::Poll(poll) if poll.every == Duration::from_secs(5) && !poll.has_address)
    );
    assert_eq!(sources[2].policy.stale, Stale::Silent);
}

#[test]
fn every_mistake_is_reported_in_the_order_of_the_file() {
    let text = "[[server]]\nlisten = \"nowhere\"\nrelay = \"mars\"\n[[server]]\nporp = 1\n\
        [[server]]\nlisten = \"127.0.0.1:7\"\n[[server]]\nlisten = \"127.0.0.1:7\"\nstale = \"say\"\n\
        [engine]\nworkers = -1\n";
    let problems = problem(text);
    let lines: Vec<_> = problems.lines().collect();
    let expected = [
        "FILE:2: listen \"nowhere\": expected ADDRESS, ADDRESS:PORT",
        "FILE:3: server.relay: \"mars\": expected a host and a port",
        "FILE:5: server: unknown key `porp`; known are listen, protocols",
        "FILE:10: server.stale: needs a source",
        "FILE:12: engine.workers: expected a whole number from 0 to 1024",
    ];
    // The first block has a type error, so its other keys are checked in the next run.
    assert_eq!(lines.len(), expected.len() - 1, "{problems}");
    for (line, expected) in lines.iter().zip(&expected[1..]) {
        assert!(line.starts_with(expected), "{line}");
    }
}

#[test]
fn suspicious_settings_are_warned_about() {
    let warnings = |text: &str| read_text(text).unwrap().1.join("\n");
    let one = "uuid = \"00000000-0000-4000-8000-000000000001\"";
    let text = format!(
        "[[server]]\nstatus.players = [{{ name = \"A\", {one} }}, {{ name = \"B\", {one} }}]\n"
    );
    let found = warnings(&text);
    assert!(
        found.starts_with("FILE:2: status.players: \"B\" has the UUID of an earlier player"),
        "{found}"
    );
    let (config, _) = read_text(&text).unwrap();
    let players = &config.servers[0].source.fixed().players;
    assert_eq!((players.online, players.list.len()), (Some(1), 1));
    let found = warnings(
        "[[server]]\nstatus.players = [\"A\"]\nnetwork = { url = \"redis://h\", server-id = \"a\" }\n",
    );
    assert!(
        found.starts_with("FILE:3: server.status.players: 1 without a uuid"),
        "{found}"
    );
    let found = warnings("[[server]]\n");
    assert!(found.starts_with("FILE:1: server: no status"), "{found}");
}

#[test]
fn a_token_that_all_users_can_read_is_warned_about() {
    let folder = folder();
    let path = folder.join("FILE");
    let push = "source.push = { listen = \"127.0.0.1:1\", token-file = \"token\" }";
    fs::write(&path, format!("[[server]]\n{push}\n")).unwrap();
    assert_eq!(read(&path).unwrap().1, [""; 0]);
    set_mode(&folder.join("token"), 0o644);
    let warnings = read(&path).unwrap().1;
    fs::remove_dir_all(&folder).unwrap();
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    assert!(
        warning.contains("FILE:2: server.source.push.token-file: every user"),
        "{warning}"
    );
    assert!(warning.contains("chmod 600"), "{warning}");
}

impl StatusSource {
    fn fixed(&self) -> &Status {
        match self {
            Self::Fixed(status) => status,
            _ => panic!(),
        }
    }
}

#[test]
fn mistakes_are_one_line_with_the_fix() {
    let cases = [
        ("", "FILE:1: no server; write at least one [[server]]"),
        (
            "[server]",
            "FILE:1: server: expected blocks whose header is in two brackets, such as [[server]]",
        ),
        (
            "[[server]]\nlisten = [1]",
            "FILE:2: server.listen: expected a text in quotes, not an integer",
        ),
        (
            "[[server]]\nlisten = 7",
            "FILE:2: server.listen: expected a text in quotes, or a list of such texts",
        ),
        (
            "[[server]]\nstatus = { max-players = -1 }",
            "FILE:2: server.status.max-players: expected a whole number from 0 to 2147483647",
        ),
        (
            "[[server]]\nstatus = { rules = 1 }",
            "FILE:2: server.status.rules: expected a table",
        ),
        (
            "[[server]]\nstatus = { port = 65536 }",
            "FILE:2: server.status.port: expected a whole number from 0 to 65535",
        ),
        (
            "[[server]]\nlisten = \"gopher=127.0.0.1:1\"",
            "FILE:2: listen \"gopher=127.0.0.1:1\": unknown protocol \"gopher\"; known are",
        ),
        (
            "[[server]]\nprotocols = [\n\"ugp\",\n\"minecraft-12w\"]",
            "FILE:4: server.protocols: minecraft-12w is the game itself; run `hailer world`",
        ),
        (
            "[[server]]\noptions.gopher = {}",
            "FILE:2: server.options: unknown protocol",
        ),
        (
            "[[server]]\noptions.minecraft-query = 1",
            "FILE:2: server.options.minecraft-query: expected a table",
        ),
        (
            "[[server]]\n[server.options.minecraft-query]\nencoding = 1",
            "FILE:3: server.options.minecraft-query.encoding: must be one of",
        ),
        (
            "[[server]]\noptions.minecraft-query = { enc = 1 }",
            "FILE:2: server.options.minecraft-query.enc: unknown; known are encoding",
        ),
        (
            "[[server]]\nstatus.players = [{ name = \"a\",\nuuid = \"12\" }]",
            "FILE:3: server.status.players.uuid: \"12\" is not a UUID",
        ),
        (
            "[[server]]\nstatus.players = [{ uuid = \"00000000000040008000000000000001\" }]",
            "FILE:2: server.status.players: missing key `name`",
        ),
        (
            "[[server]]\nstatus.players = [\"a\",\n\"\"]",
            "FILE:3: server.status.players: the name of a player is empty",
        ),
        (
            "[[server]]\ndemo = 1\nstatus = {}",
            "FILE:2: server: demo and status exclude each other",
        ),
        (
            "[[server]]\ndemo = 1\nsource.file = \"x\"",
            "FILE:2: server: demo and source exclude each other",
        ),
        (
            "[[server]]\nsource = \"file\"",
            "FILE:2: server.source: expected a table",
        ),
        (
            "[[server]]\nsource.file = 1",
            "FILE:2: server.source.file: expected ",
        ),
        (
            "[[server]]\nsource = {}",
            "FILE:2: server.source: exactly one is needed: source.file",
        ),
        (
            "[[server]]\nsource.pol = \"x\"",
            "FILE:2: server.source: unknown key `pol`; did you mean `poll`?",
        ),
        (
            "[[server]]\nsource.redis = {}",
            "FILE:2: server.source.redis: replaced by network",
        ),
        (
            "[[server]]\nstale = \"say\"",
            "FILE:2: server.stale: needs a source",
        ),
        (
            "[[server]]\nsource.poll = \"ugp://h\"\nstale = \"say\"",
            "FILE:3: server.stale: needs stale-after as well",
        ),
        (
            "[[server]]\nsource.poll = \"ugp://h\"\nstale-after = \"5s\"\nstale = \"silence\"",
            "FILE:4: server.stale: unknown value \"silence\"; did you mean `silent`?",
        ),
        (
            "[[server]]\nsource.poll = \"ugp://h\"\nstale-after = \"5s\"\nstale = \"silent\"\nstale-text = \"{age}\"",
            "FILE:5: server.stale-text: only works with stale = \"say\"",
        ),
        (
            "[[server]]\nsource.poll = \"ugp://h\"\nstale-after = \"5s\"\nstale-text = \"{old}\"",
            "FILE:4: server.stale-text: ",
        ),
        (
            "[[server]]\nsource.poll.every = \"5s\"",
            "FILE:2: server.source.poll: missing key `target`",
        ),
        (
            "[[server]]\nsource.poll = \"gopher://h\"",
            "FILE:2: server.source.poll: \"gopher://h\": unknown protocol",
        ),
        (
            "[[server]]\nsource.poll = { target = \"ugp://h\", every = \"10ms\" }",
            "FILE:2: server.source.poll.every: 10ms: expected at least 1s",
        ),
        (
            "[[server]]\nsource.push = { listen = \"0.0.0.0:1\", token-file = \"token\" }",
            "FILE:2: server.source.push.listen: 0.0.0.0:1 would receive tokens in clear text",
        ),
        (
            "[[server]]\nsource.push = { listen = \"here\", token-file = \"token\" }",
            "FILE:2: server.source.push.listen: \"here\": expected \"ADDRESS:PORT\" or \"unix:PATH\"",
        ),
        (
            "[[server]]\nsource.push = { listen = \"127.0.0.1:1\", token-file = \"FILE\" }",
            "FILE:2: server.source.push.token-file: ",
        ),
        (
            "[[server]]\nlisten = \"127.0.0.1:1\"\nsource.push = { listen = \"127.0.0.1:1\", token-file = \"token\" }\n\
             [[server]]\nlisten = \"127.0.0.1:2\"\nsource.push = { listen = \"127.0.0.1:1\", token-file = \"token\" }",
            "FILE:6: server.source.push: the same as in line 3",
        ),
        (
            "[[server]]\nnetwork = { url = \"http://h\",\nserver-id = \"a\" }",
            "FILE:2: server.network.url: must begin with redis:// or",
        ),
        (
            "[[server]]\nnetwork = { url = \"redis://h\" }",
            "FILE:2: server.network: missing key `server-id`",
        ),
        (
            "[[server]]\nnetwork = { url = \"redis://:5ec4e7@h:x\", server-id = \"a\" }",
            "FILE:2: server.network.url: must look like redis://user:password@host:6379/0",
        ),
        (
            "[[server]]\nnetwork = { url = \"redis://h\", server-id = \"a\",\nheartbeat = \"2s\" }",
            "FILE:3: server.network.heartbeat: must be 5 to 300 seconds, not 2s",
        ),
        (
            "[[server]]\nnetwork = { url = \"redis://h\", server-id = \"a\",\nnetwork-id = \"{x}\" }",
            "FILE:3: server.network.network-id: must not have braces",
        ),
        (
            "[[server]]\nnetwork = { url = \"redis://h\", server-id = \"a\", mode = \"all\" }",
            "FILE:2: server.network.mode: \"all\": expected \"publish\", \"sync\" or \"aggregate\"",
        ),
        (
            "[[server]]\nnetwork = { url = \"redis://h\", server-id = \"a\", user = \"me\" }",
            "FILE:2: server.network.user: needs password-file as well",
        ),
        (
            "[[server]]\nnetwork = { url = \"rediss://h\", server-id = \"a\",\nkey-file = \"k\" }",
            "FILE:3: server.network: certificate-file and key-file need each other",
        ),
        (
            "[[server]]\nnetwork = { url = \"rediss://h\", server-id = \"a\", ca-file = \"token\" }",
            "FILE:2: server.network.ca-file: ",
        ),
        (
            "[engine]\nbudget.unverified-total = \"8 apples\"",
            "FILE:2: engine.budget.unverified-total: \"8 apples\": expected bytes per second",
        ),
        (
            "[engine]\nbudget.unverified-total = \"8GiB\"",
            "FILE:2: engine.budget.unverified-total: \"8GiB\": expected bytes per second",
        ),
        (
            "[engine]\nbudget.unverified-total = { packets = 0 }",
            "FILE:2: engine.budget.unverified-total.packets: expected a whole number from 1",
        ),
        (
            "[engine]\nrelay.sessions = 0",
            "FILE:2: engine.relay.sessions: expected a whole number from 1 to 65536",
        ),
        (
            "[engine]\nrelay.idle = \"1ms\"",
            "FILE:2: engine.relay.idle: 1ms: expected at least 1s",
        ),
        (
            "[engine]\nrelay = \"127.0.0.1:1\"",
            "FILE:2: engine.relay: expected a table",
        ),
        (
            "[observe]\nmetrics = \"0.0.0.0:9100\"",
            "FILE:2: observe.metrics: \"0.0.0.0:9100\": other machines",
        ),
        (
            "[[server]]\nalso = \"udp:24454\"",
            "FILE:2: server.also: needs the game; add relay",
        ),
        (
            "[[server]]\nrelay = \"mc:1\"\nalso = \"24454\"",
            "FILE:3: server.also: \"24454\": expected a port of the game such as \"udp:24454\"",
        ),
        (
            "[[server]]\nlisten = \"127.0.0.1:7\"\nrelay = \"mc:1\"\nalso = \"udp:7\"",
            "FILE:4: server.also: this server listens on 127.0.0.1:7 already",
        ),
        (
            "[[server]]\nlisten = \"0.0.0.0:5520\"\nrelay = \"127.0.0.1:5520\"",
            "FILE:3: server.relay: this server listens on 127.0.0.1:5520 itself",
        ),
        (
            "[[server]]\n\n[[server]]\nprotocols = [\"ugp\"]",
            "FILE:3: server: 127.0.0.1:22000 is taken by the server of line 1",
        ),
        ("secret = \"5ec4e7", "FILE:1: "),
        (
            "[[server]]\nsecret = \"5ec4e7\"",
            "FILE:2: server.secret: expected 32 hexadecimal digits",
        ),
        (
            "[[server]]\nmax_players = 1",
            "FILE:2: server: unknown key `max_players`; known are ",
        ),
        (
            "[[server]]\nstatus = { max_players = 1 }",
            "FILE:2: server.status: unknown key `max_players`; did you mean `max-players`?",
        ),
        (
            "[enigne]\nworkers = 1",
            "FILE:1: unknown key `enigne`; did you mean `engine`?",
        ),
        ("[[server]", "FILE:1: "),
    ];
    for (text, expected) in cases {
        let problem = problem(text);
        assert!(problem.starts_with(expected), "{text:?}: {problem}");
        assert!(!problem.contains("5ec4e7"), "{problem}");
        assert!(!problem.contains('\n'), "{problem}");
    }
}

#[test]
fn servers_share_an_address_by_their_hosts() {
    let lobby =
        "[[server]]\nlisten = [\"minecraft-status=0.0.0.0:7\", \"minecraft-query=0.0.0.0:7\"]\n";
    let with = |hosts: &str, more: &str| {
        format!("[[server]]\nlisten = \"minecraft-status=0.0.0.0:7\"\nhosts = [{hosts}]\n{more}\n")
    };
    let good = [
        lobby,
        &with("\"a.example\", \"b.example\"", ""),
        &with("\"c.example\"", "relay = \"tcp:mc:1\""),
    ]
    .concat();
    let (config, _) = read_text(&good).unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(config.servers.len(), 3);
    for (second, expected) in [
        (
            lobby.to_owned(),
            "0.0.0.0:7 is taken by the server of line 1; write another address or port in listen, or hosts = [\"mc.example.com\"] to choose by name",
        ),
        (
            [with("\"a.example\"", ""), with("\"A.example.\"", "")].concat(),
            "the host a.example at 0.0.0.0:7 belongs to the server of line 3",
        ),
        (
            with(
                "\"a.example\"",
                "protocols = [\"minecraft-status\", \"a2s\"]",
            )
            .replace("minecraft-status=0", "0"),
            "a2s over UDP has no host names, so only the server without hosts can have it at 0.0.0.0:7; write listen = \"minecraft-status=0.0.0.0:7\"",
        ),
        (
            with("\"a.example\"", "relay = \"127.0.0.1:8\""),
            "datagrams have no host names, so only the server without hosts can relay them at 0.0.0.0:7",
        ),
        (
            with("\"a.example\"", "trusted-proxies = \"10.0.0.0/8\""),
            "trusted-proxies must be the same for all servers at 0.0.0.0:7",
        ),
    ] {
        let found = problem(&[lobby, &second].concat());
        let (_, text) = found
            .split_once(": server: ")
            .unwrap_or_else(|| panic!("{found}"));
        assert_eq!(text, expected);
    }
    for (text, expected) in [
        (
            "hosts = \"a.example\"\nprotocols = [\"ugp\"]",
            "FILE:2: server.hosts: only Minecraft clients send the host",
        ),
        (
            "hosts = [\"a.example\", \"A.example\"]",
            "FILE:2: server.hosts: \"A.example\" is listed twice",
        ),
        (
            "hosts = \"m\u{fc}nchen.example\"",
            "FILE:2: server.hosts: \"m\u{fc}nchen.example\" is no name that clients send",
        ),
        (
            "trusted-proxies = \"10.1.0.0/8\"",
            "FILE:2: server.trusted-proxies: \"10.1.0.0/8\": the address has bits behind the prefix; did you mean 10.0.0.0/8?",
        ),
        (
            "proxy-protocol = 3",
            "FILE:2: server.proxy-protocol: expected a whole number from 1 to 2",
        ),
        (
            "proxy-protocol = 1\nlisten = \"ugp=127.0.0.1:1\"",
            "FILE:2: server.proxy-protocol: needs connections",
        ),
        (
            "relay = [\"tcp:a:1\", \"tcp:b:1\"]",
            "FILE:2: server.relay: connections go to one game",
        ),
        (
            "relay = [\"127.0.0.1:1\", \"udp:127.0.0.1:2\"]",
            "FILE:2: server.relay: datagrams go to one game",
        ),
        (
            "relay = \"tcp:[::]:1\"",
            "FILE:2: server.relay: [::]:1 is not the address of a game server",
        ),
        (
            "relay = \"tcp:a:0\"",
            "FILE:2: server.relay: \"tcp:a:0\": expected",
        ),
        (
            "listen = \"relay=0.0.0.0:7\"",
            "FILE:2: listen \"relay=0.0.0.0:7\": needs a game as well",
        ),
        (
            "listen = \"relay=nowhere\"\nrelay = \"tcp:a:1\"",
            "FILE:2: listen \"relay=nowhere\": expected ADDRESS",
        ),
    ] {
        let found = problem(&format!("[[server]]\n{text}\n"));
        assert!(found.starts_with(expected), "{text}: {found}");
        assert!(!found.contains('\n'), "{found}");
    }
}

#[test]
fn protocols_of_both_transports_share_an_address() {
    let ids: Vec<&str> = registry_ids();
    let list = ids
        .iter()
        .map(|id| format!("{id:?}"))
        .collect::<Vec<_>>()
        .join(", ");
    let text = |listen: &str| format!("[[server]]\nprotocols = [{list}]\n{listen}");
    let listeners = |listen: &str| {
        let (config, _) = read_text(&text(listen)).unwrap_or_else(|problem| panic!("{problem}"));
        config.servers[0].listeners.clone()
    };
    // Each protocol is at its port once, and protocols with the same port share it.
    let usual = listeners("");
    let ports: std::collections::BTreeSet<u16> =
        usual.iter().map(|listen| listen.address.port()).collect();
    assert_eq!(ports.len(), usual.len());
    let served = usual.iter().flat_map(|listen| &listen.protocols);
    assert_eq!(served.count(), ids.len());
    let each: Vec<String> = ids
        .iter()
        .map(|id| format!("\"{id}=127.0.0.1:7\""))
        .collect();
    let same = listeners(&format!("listen = [{}]\n", each.join(", ")));
    assert_eq!((same.len(), same[0].protocols.len()), (1, ids.len()));
    let free = listeners("listen = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n");
    assert_eq!(free.len(), 2);
}

fn registry_ids() -> Vec<&'static str> {
    let all = hailer::proto::registry::responders().into_iter();
    let ids = all.map(|protocol| protocol.info().id);
    ids.filter(|id| *id != crate::values::GAME).collect()
}

#[test]
fn an_icon_is_a_png_file() {
    let (config, _) = read_text("[[server]]\nstatus = { icon = \"server-icon.png\" }\n").unwrap();
    let icon = config.servers[0].source.fixed().icon.clone().unwrap();
    assert!(icon.to_png().ends_with(b"..."));
    for (file, expected) in [
        ("none.png", "No such file"),
        ("token", "the icon is not a PNG image"),
        (".", "Is a directory"),
    ] {
        let problem = problem(&format!("[[server]]\n\nstatus.icon = {file:?}\n"));
        assert!(
            problem.starts_with("FILE:3: status.icon: ") && problem.contains(expected),
            "{problem}"
        );
        assert!(problem.ends_with("expected the path of a PNG file of at most 64 KiB"));
        assert_eq!(problem.lines().count(), 1);
    }
}

#[test]
fn protocols_are_those_that_all_listeners_name() {
    let served = |text: &str| {
        let (config, _) = read_text(&format!("[[server]]\nlisten = {text}\n")).unwrap();
        let listeners = config.servers[0].listeners.iter();
        let protocols = listeners.flat_map(|listener| &listener.protocols);
        protocols
            .map(|(protocol, _)| protocol.info().id)
            .collect::<Vec<_>>()
    };
    let named = r#"["a2s=127.0.0.1:1", "a2s=127.0.0.1:2", "openttd=127.0.0.1:1"]"#;
    assert_eq!(served(named), ["a2s", "openttd", "a2s"]);
    let mixed = r#"["127.0.0.1:1", "ugp=127.0.0.1:2"]"#;
    assert_eq!(
        served(mixed).len(),
        hailer::proto::registry::DEFAULTS.len() + 1
    );
    for (listen, problem) in [
        (
            r#"["127.0.0.1:1", "a2s=127.0.0.1:2"]"#,
            "not among the protocols",
        ),
        (
            r#"["127.0.0.1:1", "as2=127.0.0.1:2"]"#,
            "did you mean `a2s`?",
        ),
        (r#""luanti=127.0.0.1:2""#, "luanti has no responder"),
        (r#""a2s=nowhere""#, "expected ADDRESS"),
    ] {
        let error = read_text(&format!("[[server]]\nlisten = {listen}\n"))
            .err()
            .unwrap();
        assert!(error.to_string().contains(problem), "{error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
}

#[test]
fn a_hook_adds_the_protocols_over_tcp_to_the_default() {
    let ids = |text: &str| {
        let (config, _) = read_text(text).unwrap_or_else(|problem| panic!("{problem}"));
        let listeners = &config.servers[0].listeners;
        let protocols = listeners.iter().flat_map(|listener| &listener.protocols);
        protocols
            .map(|(protocol, _)| protocol.info().id)
            .collect::<Vec<_>>()
    };
    let mut expected = hailer::proto::registry::DEFAULTS.to_vec();
    assert_eq!(ids("[[server]]\nlisten = \"127.0.0.1:1\"\n"), expected);
    let hook = "[[server]]\nlisten = \"127.0.0.1:1\"\non-join.command = [\"a\"]\n";
    expected.push("minecraft-status");
    assert_eq!(ids(hook), expected);
}

#[test]
fn a_hook_is_a_command_or_a_webhook() {
    let read_hook = |hook: &str| {
        let (config, _) = read_text(&format!("[[server]]\non-join = {hook}\n"))
            .unwrap_or_else(|problem| panic!("{problem}"));
        config.servers[0].on_join.clone().unwrap()
    };
    let hook = read_hook("{ command = [\"./wake\", \"now\"], every = \"5min\" }");
    assert_eq!(hook.every, Duration::from_secs(300));
    let HookAction::Command(command) = hook.action else {
        panic!()
    };
    assert!(command[0].len() > 6 && command[0].ends_with("/wake") && command[1] == "now");
    let hook = read_hook("{ url = \"https://192.0.2.1/hook\" }");
    assert_eq!(hook.every, Duration::from_secs(10));
    assert!(matches!(&hook.action, HookAction::Webhook(url) if url.reveal().ends_with("/hook")));
    for (hook, expected) in [
        ("{}", "exactly one is needed"),
        (
            "{ command = [\"a\"], url = \"http://x\" }",
            "exactly one is needed",
        ),
        ("{ command = [] }", "expected a program"),
        ("{ command = [\"\"] }", "expected a program"),
        ("{ url = \"s3cret\" }", "server.on-join.url: not a URL"),
        (
            "{ url-file = \"token\" }",
            "server.on-join.url-file: not a URL",
        ),
        ("{ command = [\"a\"], every = \"1ms\" }", "every"),
    ] {
        let problem = problem(&format!("[[server]]\non-join = {hook}\n"));
        assert!(
            problem.starts_with("FILE:2: ") && problem.contains(expected),
            "{problem}"
        );
        assert!(
            !problem.contains("s3cret") && !problem.contains("0123456789"),
            "{problem}"
        );
    }
    let problem = problem("[[server]]\nprotocols = [\"ugp\"]\non-join.command = [\"a\"]\n");
    assert!(problem.contains("players join over TCP"), "{problem}");
}
