//! `hailer join` against a small server in this file.

use crate::schema::check;
use crate::support::dns::{Dns, Record};
use crate::support::loopback;
use crate::tool::{Process, Temporary, assert_harmless, command, finish, run, run_with};
use hailer::minecraft::Recording;
use hailer::minecraft::game::chunk::{Block, Column, SectionMasks, deflate};
use hailer::minecraft::game::crypto::{CipherKind, KeyPair};
use hailer::minecraft::game::table::*;
use hailer::minecraft::game::types::*;
use hailer::minecraft::game::{Build, Connection, Packet, PacketDirection, Role};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::LazyLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

static KEY: LazyLock<KeyPair> =
    LazyLock::new(|| KeyPair::generate(&mut |bytes| getrandom(bytes)).unwrap());

/// Returns random bytes, good enough for a key that protects nothing.
fn getrandom(bytes: &mut [u8]) {
    use std::hash::{BuildHasher, Hasher, RandomState};
    bytes.fill_with(|| RandomState::new().build_hasher().finish() as u8);
}

/// How the server behaves after the login.
#[derive(Clone, Copy, PartialEq)]
enum Game {
    /// Sends a few packets of most kinds.
    Usual,
    /// Sends these packets and then kicks the player.
    Kick,
    /// Sends these packets and then closes the connection.
    HangUp,
    /// Kicks the player during the login.
    Closed(&'static str),
    /// Never sends anything.
    Silent,
    /// Requires an account check.
    Checking,
}

/// A server for one connection, in its own thread.
struct Server {
    address: SocketAddr,
    thread: JoinHandle<Vec<Packet>>,
}

impl Server {
    fn start(build: Build, game: Game) -> Self {
        let listener = TcpListener::bind((loopback().local_addr().unwrap().ip(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            serve(stream, build, game)
        });
        Self { address, thread }
    }

    fn at(&self) -> String {
        self.address.to_string()
    }

    /// Waits for the server to end. Returns the packets that it received.
    fn received(self) -> Vec<Packet> {
        self.thread.join().unwrap()
    }
}

fn serve(mut stream: TcpStream, build: Build, game: Game) -> Vec<Packet> {
    stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut connection = Connection::new(Role::Server, build);
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    let started = Instant::now();
    let mut last_sign = started;
    while started.elapsed() < Duration::from_secs(15) {
        match stream.read(&mut buffer) {
            Ok(0) => return received,
            Ok(count) => connection.receive(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return received,
        }
        while let Some(packet) = connection.next().unwrap() {
            let over = matches!(packet, Packet::Kick(_));
            let end = answer(&mut connection, build, game, &packet);
            received.push(packet);
            if over {
                return received;
            }
            if end {
                let _ = stream.write_all(connection.outgoing());
                return received;
            }
        }
        if last_sign.elapsed() > Duration::from_millis(200)
            && connection.state() == hailer::minecraft::game::ConnectionState::Play
        {
            last_sign = Instant::now();
            connection.send(&KeepAlive { token: 7 }.into()).unwrap();
        }
        let count = connection.outgoing().len();
        if stream.write_all(connection.outgoing()).is_err() {
            return received;
        }
        connection.sent_bytes(count);
    }
    received
}

/// Replies to a packet. Returns `true` if the server closes the connection afterwards.
fn answer(connection: &mut Connection, build: Build, game: Game, packet: &Packet) -> bool {
    let mut say = |packet: Packet| connection.send(&packet).unwrap();
    match packet {
        Packet::Handshake(_) => match game {
            Game::Closed(reason) => {
                say(Kick {
                    reason: reason.into(),
                }
                .into());
                return true;
            }
            Game::Silent => {}
            _ if build <= Build::W16a => {
                say(HandshakeReply {
                    id: if game == Game::Checking { "7a" } else { "-" }.into(),
                }
                .into());
            }
            _ => say(EncryptionRequest {
                server_id: if game == Game::Checking { "7a" } else { "-" }.into(),
                key: Bytes16::new(KEY.public_der().to_vec()),
                token: Bytes16::new(vec![1, 2, 3, 4]),
            }
            .into()),
        },
        Packet::EncryptionResponse(packet) => {
            let secret = KEY
                .decrypt(&packet.secret, CipherKind::of(build).unwrap().secret_len())
                .unwrap();
            connection.secure(&secret).unwrap();
            connection
                .send(&EncryptionResponse::default().into())
                .unwrap();
        }
        Packet::LoginRequest(_) | Packet::ClientStatus(ClientStatus { status: 0 }) => {
            play(build).into_iter().for_each(&mut say);
            match game {
                Game::Kick => say(Kick {
                    reason: "Enough of \u{A7}cyou".into(),
                }
                .into()),
                Game::HangUp => {}
                _ => return false,
            }
            return true;
        }
        Packet::RespawnRequest(_) | Packet::ClientStatus(_) => {
            say(Respawn {
                height: 256,
                level_type: "default".into(),
                ..Respawn::default()
            }
            .into());
        }
        Packet::Chat(packet) => say(Chat {
            text: format!("<Bot> {}", packet.text).as_str().into(),
        }
        .into()),
        _ => {}
    }
    false
}

/// Returns a short game.
fn play(build: Build) -> Vec<Packet> {
    let mut column = Column::default();
    for place in 0..=255 {
        column.set_block(
            place & 15,
            63,
            place >> 4,
            Block {
                id: 35,
                metadata: place & 15,
            },
        );
    }
    let mut data = Vec::new();
    let masks = column.encode(0xFFFF, true, &mut data);
    let mut zlib = Vec::new();
    deflate(&data, &mut zlib);
    let chunk = |x, z, bytes: &[u8]| -> Packet {
        let data = Zlib {
            unused: 0,
            bytes: bytes.to_vec(),
        };
        ChunkData {
            x,
            z,
            ground_up: true,
            masks,
            data,
        }
        .into()
    };
    let listed = |name: &str, online| -> Packet {
        PlayerListItem {
            name: name.into(),
            online,
            ping: 40,
        }
        .into()
    };
    let at = |feet: i32| Absolute(feet * 32);
    let metadata = Metadata::default().with(0, MetadataValue::Byte(0));
    let mut packets: Vec<Packet> = vec![
        Login {
            entity: 9,
            level_type: "flat".into(),
            difficulty: 1,
            max_players: 8,
            ..Login::default()
        }
        .into(),
        SpawnPosition { x: 0, y: 64, z: 0 }.into(),
        PlayerAbilities::default().into(),
        listed("Bot", true),
        listed("Ann\u{1b}[2J", true),
        PlayerTeleport {
            x: 8.5,
            y: 64.0,
            stance: 65.62,
            z: 8.5,
            ..PlayerTeleport::default()
        }
        .into(),
    ];
    if build >= Build::W18a {
        packets.push(
            ChunkData {
                x: 9,
                z: 9,
                ground_up: true,
                masks: SectionMasks::default(),
                data: Zlib::default(),
            }
            .into(),
        );
    }
    packets.extend(
        (-3..=3)
            .flat_map(|x| (-3..=3).map(move |z| (x, z)))
            .map(|(x, z)| chunk(x, z, &zlib)),
    );
    packets.extend([
        chunk(50, 50, b"no zlib"),
        SpawnNamedEntity {
            entity: 20,
            name: "Ann".into(),
            x: at(5),
            y: at(64),
            z: at(-2),
            metadata,
            ..SpawnNamedEntity::default()
        }
        .into(),
        Chat {
            text: "\u{A7}aWelcome\u{1b}[2J \u{A7}4all\u{202E}".into(),
        }
        .into(),
        ChangeGameState {
            reason: 1,
            value: 0,
        }
        .into(),
        ChangeGameState {
            reason: 2,
            value: 0,
        }
        .into(),
        ChangeGameState {
            reason: 3,
            value: 1,
        }
        .into(),
        DestroyEntities {
            entity: 20,
            entities: List8::new(vec![20]),
        }
        .into(),
        listed("Ann\u{1b}[2J", false),
        UpdateHealth {
            health: 0,
            food: 20,
            saturation: 0.0,
        }
        .into(),
    ]);
    packets
}

fn join(server: &Server, build: Build, flags: &[&str]) -> Vec<String> {
    let head = [
        "join",
        &server.at(),
        "--build",
        build.name(),
        "--name",
        "Bot",
    ]
    .map(str::to_owned);
    head.into_iter()
        .chain(flags.iter().map(|flag| (*flag).to_owned()))
        .collect()
}

fn chat(received: &[Packet]) -> Vec<String> {
    let chat = |packet: &Packet| {
        if let Packet::Chat(packet) = packet {
            Some(packet.text.to_string())
        } else {
            None
        }
    };
    received.iter().filter_map(chat).collect()
}

fn quit(received: &[Packet]) -> bool {
    matches!(received.last(), Some(Packet::Kick(kick)) if kick.reason == *"Quitting")
}

#[test]
fn joins_every_wire_version_and_matches_the_schema() {
    for &build in Build::DIALECTS {
        let server = Server::start(build, Game::Usual);
        let map = Temporary::path("map.png");
        let record = Temporary::path("s.hlr");
        let secrets = Temporary::path("secrets");
        let files = [
            "--map",
            map.text(),
            "--record",
            record.text(),
            "--secrets",
            secrets.text(),
        ];
        let flags = [&["--json", "--for", "400ms", "--say", "hello"], &files[..]].concat();
        let lines = check(
            "join-v2.json",
            &run(join(&server, build, &flags)).ends_with(0),
        );
        let events: Vec<_> = lines
            .iter()
            .filter_map(|line| line["event"].as_str())
            .collect();
        let expected = "joined player-listed player-listed placed first-column surrounded warning player-appeared chat \
                        weather weather mode-changed player-vanished player-unlisted health died";
        let (before, after) = events.split_at(expected.split_whitespace().count());
        assert_eq!(before.join(" "), expected, "{build}");
        // Our chat line and our respawn are both confirmed, in random order.
        assert!(
            ["respawned chat", "chat respawned"].contains(&after.join(" ").as_str()),
            "{build}: {after:?}"
        );
        let summary = lines.last().unwrap();
        assert_eq!(
            (&summary["end"], &summary["columns"], &summary["build"]),
            (&"left".into(), &49.into(), &build.name().into())
        );
        assert_eq!(summary["players"], serde_json::json!(["Ann", "Ann[2J"]));
        assert_eq!(summary["is_encrypted"], build >= Build::W17a);
        assert_eq!(summary["warning_count"], 1);
        let received = server.received();
        assert_eq!(chat(&received), ["hello"], "{build}");
        assert!(quit(&received), "{build}: {:?}", received.last());

        // The map: 7 columns of 16 blocks in each direction, with stripes of wool.
        let png = std::fs::File::open(&map).unwrap();
        let mut reader = png::Decoder::new(BufReader::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(
            (info.width, info.height, pixels.len()),
            (112, 112, 112 * 112 * 4)
        );
        assert!(pixels[..64] == pixels[64..128] && pixels[..4] != pixels[4..8] && pixels[3] == 255);

        // The recording has as many packets as the server received, and each can be parsed.
        let recording =
            Recording::open(BufReader::new(std::fs::File::open(&record).unwrap())).unwrap();
        assert_eq!(recording.build(), build);
        let entries: Vec<_> = recording.map(Result::unwrap).collect();
        assert_eq!(
            entries
                .iter()
                .filter(|entry| entry.direction == PacketDirection::ToServer)
                .count(),
            received.len(),
            "{build}"
        );
        let of = |way: &str| -> u64 {
            let rows = summary["packets"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|row| row["direction"] == way);
            rows.map(|row| row["packets"].as_u64().unwrap()).sum()
        };
        assert_eq!(of("to-server") + of("to-client"), entries.len() as u64);

        // The file has the secret if the build encrypts.
        let secrets = std::fs::read_to_string(&secrets).unwrap();
        match CipherKind::of(build) {
            None => assert_eq!(secrets, ""),
            Some(kind) => {
                let words: Vec<&str> = secrets.trim_end().split(' ').collect();
                assert_eq!(
                    (words[2], words[5].len()),
                    (summary["address"].as_str().unwrap(), 2 * kind.secret_len())
                );
            }
        }
    }
}

#[test]
fn shows_lines_and_a_summary() {
    let server = Server::start(Build::LATEST, Game::Usual);
    let out = run(join(&server, Build::LATEST, &["--for", "300ms", "--ascii"]))
        .ends_with(0)
        .out;
    assert_harmless(&out, false);
    for expected in [
        "joined the overworld: survival, easy; room for 8, entity 9",
        "+ Ann[2J (40 ms)",
        "Ann came into view at 5.0 64.0 -2.0",
        "Welcome[2J all",
        "rain began",
        "game mode creative",
        "health 0, food 20",
        "died",
        "respawned in the overworld",
        "warning: column (50, 50) is invalid",
        "all columns nearby are loaded: 49 columns",
        "1.3.2 (39), encrypted",
        "49 columns loaded, 49 received, 0 unloaded",
        "Ann, Ann[2J seen",
        "ChunkData",
        "1 warning",
        "north is up, 2 blocks a character; ~ water",
    ] {
        assert!(out.contains(expected), "{expected:?} is missing:\n{out}");
    }
    // Colors, if requested.
    let server = Server::start(Build::LATEST, Game::Usual);
    let mut colored = command(join(&server, Build::LATEST, &["--for", "300ms", "--ascii"]));
    colored.env("CLICOLOR_FORCE", "1");
    let out = finish(colored, None).ends_with(0).out;
    assert_harmless(&out, true);
    assert!(
        out.contains("\x1b[92mWelcome[2J \x1b[0m\x1b[31mall\x1b[0m") && out.contains('▀'),
        "{out}"
    );
}

#[test]
fn typed_lines_are_sent_once_per_second_until_quit() {
    let server = Server::start(Build::W24a, Game::Usual);
    let started = Instant::now();
    let out = run_with(
        join(&server, Build::W24a, &[]),
        b"one\r\n\n/list\n/quit\nnever\n",
    )
    .ends_with(0)
    .out;
    assert!(out.contains("<Bot> one"), "{out}");
    let received = server.received();
    assert_eq!(chat(&received), ["one", "/list"]);
    assert!(quit(&received) && started.elapsed() > Duration::from_secs(1));
}

#[test]
fn long_texts_are_split_and_commands_move_the_player() {
    let server = Server::start(Build::LATEST, Game::Usual);
    let text = format!("{} {}", "a".repeat(80), "b".repeat(80));
    let chat_of_tool = run_with(
        join(&server, Build::LATEST, &["--say", &text]),
        b"/walk x 3\n/walk 8 8\n/look 90 0\n/follow Ann\n/stop\n/quit\n",
    )
    .ends_with(0);
    chat_of_tool.warns(&["/walk takes x and z in blocks"]);
    let received = server.received();
    assert_eq!(chat(&received), ["a".repeat(80), "b".repeat(80)]);
    assert!(quit(&received));
    run(["join", "127.0.0.1:1", "--say", "/walk north"])
        .fails_as_usage("/walk takes x and z in blocks, such as /walk 100 -20");
    for (name, error) in [
        ("a;b", "the character ';' is not allowed"),
        ("a b", "the character ' ' is not allowed"),
        ("xxxxxxxxxxxxxxxxx", "17 characters; at most 16"),
    ] {
        let printed = run(["join", "127.0.0.1:1", "--name", name]).ends_with(2);
        printed.warns(&[error]);
    }
}

#[test]
fn signals_end_it_and_the_end_of_standard_input_does_not() {
    let server = Server::start(Build::LATEST, Game::Usual);
    let mut process =
        Process::start(command(join(&server, Build::LATEST, &["--json"])).stdin(Stdio::null()));
    let mut out = BufReader::new(process.child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("joined"), "{line}");
    std::thread::sleep(Duration::from_millis(300));
    assert!(process.child.try_wait().unwrap().is_none());
    process.signal("INT");
    assert_eq!(process.wait().code(), Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(
        rest.lines().last().unwrap().contains(r#""end":"left""#),
        "{rest}"
    );
    let received = server.received();
    assert!(quit(&received));
    assert!(
        received
            .iter()
            .any(|packet| matches!(packet, Packet::KeepAlive(_)))
    );
}

#[test]
fn refusals_suggest_a_correction() {
    for (game, kind, words) in [
        (
            Game::Closed("Outdated client!"),
            "version",
            "(Outdated client!); try the build 1.3.2: --build 1.3.2",
        ),
        (
            Game::Closed("Outdated server!"),
            "version",
            "try the build 1.2.5, or one from 12w16a to 12w23b: --build 1.2.5",
        ),
        (
            Game::Closed("The server is full!"),
            "refused",
            "refused the login: The server is full!",
        ),
        (
            Game::Checking,
            "account-check",
            "the server checks accounts, which is not supported; join a server in offline mode",
        ),
        (
            Game::Silent,
            "timeout",
            "the login was not accepted within 0.3 s",
        ),
        (Game::Kick, "kicked", "kicked: Enough of you"),
        (
            Game::HangUp,
            "closed",
            "closed the connection without a reason",
        ),
    ] {
        let build = Build::W27a;
        let build = if words.contains("12w23b") {
            Build::W24a
        } else {
            build
        };
        let server = Server::start(build, game);
        let chat = run(join(&server, build, &["--timeout", "300ms"])).ends_with(1);
        assert!(
            chat.err.contains(words) && chat.err.lines().count() == 1,
            "{}",
            chat.err
        );
        assert_eq!(
            chat.out.contains("---"),
            matches!(game, Game::Kick | Game::HangUp),
            "{}",
            chat.out
        );
        let server = Server::start(build, game);
        let chat = run(join(&server, build, &["--timeout", "300ms", "--json"])).ends_with(1);
        let lines = check("join-v2.json", &chat);
        let summary = lines.last().unwrap();
        assert_eq!((&summary["end"], chat.err.as_str()), (&kind.into(), ""));
        assert_eq!(
            summary["try_builds"].as_array().unwrap().is_empty(),
            kind != "version"
        );
    }
    let closed_port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let record = std::env::temp_dir().join(format!("hailer-none-{}.hlr", std::process::id()));
    let chat = run(["join", &closed_port, "--record", record.to_str().unwrap()]).ends_with(1);
    assert!(
        chat.err.contains("nothing listens on this TCP port") && chat.out.is_empty(),
        "{}",
        chat.err
    );
    assert!(!record.exists());
    assert_eq!(
        check(
            "join-v2.json",
            &run(["join", &closed_port, "--json"]).ends_with(1)
        )[0]["end"],
        "connect"
    );
}

#[test]
fn follows_srv_records() {
    let server = Server::start(Build::LATEST, Game::Usual);
    let port = server.address.port();
    let dns = Dns::with(&[
        (
            "_minecraft._tcp.play.example.test",
            Record::Service {
                host: "host.example.test",
                port,
            },
        ),
        ("host.example.test", Record::Address(server.address.ip())),
    ]);
    let dns = dns.address().to_string();
    run(format!("join Play.Example.test --name-server {dns} --for 100ms").split(' ')).ends_with(0);
    let received = server.received();
    let Packet::Handshake(handshake) = &received[0] else {
        panic!("{:?}", received[0])
    };
    assert!(handshake.host == *"play.example.test" && handshake.name == *"Hailer");
    let chat =
        run(format!("join nobody.example.test --name-server {dns} --json").split(' ')).ends_with(1);
    assert_eq!(check("join-v2.json", &chat)[0]["end"], "name-not-found");
    // The user did not type the host and the port of the record.
    let gone = run(["join", "play.example.test", "--name-server", &dns]).ends_with(1);
    let record = format!("; the SRV record of play.example.test leads to host.example.test:{port}");
    assert!(gone.err.contains(&record), "{}", gone.err);
}

#[test]
fn invalid_flags_are_refused_immediately() {
    for (args, expected) in [
        (&["ugp://127.0.0.1"][..], "omit ugp://"),
        (
            &["127.0.0.1", "--record", "/nowhere/at/all"],
            "--record /nowhere/at/all: ",
        ),
        (
            &["127.0.0.1", "--secrets", "/nowhere/at/all"],
            "--secrets /nowhere/at/all: ",
        ),
        (
            &["127.0.0.1", "--map", "/nowhere/at.png"],
            "--map /nowhere/at.png: there is no folder /nowhere",
        ),
        (&["127.0.0.1", "--map", "/"], "--map /: this is a folder"),
        (
            &["127.0.0.1", "--record", "/dev/null"],
            "--record /dev/null: exists",
        ),
        (&["a b"], "neither an address nor a host name"),
    ] {
        run([&["join"], args].concat()).fails_as_usage(expected);
    }
    for args in [
        &["127.0.0.1", "--build", "12w28a"][..],
        &["127.0.0.1", "--name", "a b"],
        &["h", "--json", "--ascii"],
    ] {
        run([&["join"], args].concat()).ends_with(2);
    }
}

#[test]
fn closed_output_ends_it() {
    let server = Server::start(Build::LATEST, Game::Usual);
    let process = Process::start(&mut command(join(&server, Build::LATEST, &[])));
    assert_eq!(process.ends_without_output().0, Some(0));
    assert!(quit(&server.received()));
}
