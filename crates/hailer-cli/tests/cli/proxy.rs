//! `hailer proxy` between a client and a server that the test controls.

use crate::tool::{Finished, Process, Temporary, assert_harmless, command, run};
use hailer::minecraft::game::crypto::{KeyPair, encrypt};
use hailer::minecraft::game::table::*;
use hailer::minecraft::game::types::Bytes16;
use hailer::minecraft::game::{Build, Connection, Packet, Role};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

fn random() -> impl FnMut(&mut [u8]) {
    let mut dice = hailer::minecraft::game::sample::SampleRng::new(7);
    move |bytes| bytes.fill_with(|| dice.bits() as u8)
}

struct Proxy {
    process: Process,
    address: String,
    server: TcpListener,
}

impl Proxy {
    fn start(args: &[&str]) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap().to_string();
        let mut process = Process::start(
            command(format!("proxy --listen 127.0.0.1:0 --for 30s --to {to}").split(' '))
                .args(args),
        );
        // Reads byte by byte, so that the rest of the output stays in the pipe.
        let mut line = Vec::new();
        let json = args.contains(&"--json");
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            let count = if json {
                process
                    .child
                    .stderr
                    .as_mut()
                    .unwrap()
                    .read(&mut byte)
                    .unwrap()
            } else {
                process
                    .child
                    .stdout
                    .as_mut()
                    .unwrap()
                    .read(&mut byte)
                    .unwrap()
            };
            assert_eq!(count, 1, "{}", String::from_utf8_lossy(&line));
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        let address = crate::tool::address(&line);
        Self {
            process,
            address,
            server,
        }
    }

    fn client(&self, build: Build) -> Peer {
        Peer::new(
            TcpStream::connect(&self.address).unwrap(),
            Role::Client,
            build,
        )
    }

    fn server(&self, build: Build) -> Peer {
        Peer::new(self.server.accept().unwrap().0, Role::Server, build)
    }

    fn stop(mut self) -> (Option<i32>, String, String) {
        // Everything about the last connection is printed within 1 s.
        std::thread::sleep(Duration::from_millis(1_500));
        self.process.signal("INT");
        let status = self.process.wait();
        let mut out = String::new();
        let mut err = String::new();
        self.process
            .child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        self.process
            .child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        (status.code(), out, err)
    }
}

struct Peer {
    socket: TcpStream,
    connection: Connection,
}

impl Peer {
    fn new(socket: TcpStream, role: Role, build: Build) -> Self {
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        Self {
            socket,
            connection: Connection::new(role, build),
        }
    }

    fn say(&mut self, packet: impl Into<Packet>) {
        self.connection.send(&packet.into()).unwrap();
        let wire = self.connection.outgoing().to_vec();
        self.connection.sent_bytes(wire.len());
        self.socket.write_all(&wire).unwrap();
    }

    fn receive_reply(&mut self) -> Packet {
        loop {
            if let Some(packet) = self.connection.next().unwrap() {
                return packet;
            }
            let mut chunk = [0; 500];
            let count = self.socket.read(&mut chunk).unwrap();
            assert!(count > 0, "the connection is closed");
            self.connection.receive(&chunk[..count]);
        }
    }
}

/// Plays a short game: login with encryption, a chat line, a move, disconnect.
fn play(proxy: &Proxy) {
    let build = Build::LATEST;
    let key = KeyPair::generate(&mut random()).unwrap();
    let mut client = proxy.client(build);
    client.say(Handshake {
        protocol: 39,
        name: "Alice".into(),
        host: "h".into(),
        port: 1,
        ..Default::default()
    });
    let mut server = proxy.server(build);
    server.receive_reply();
    let token = Bytes16::new(vec![1, 2, 3, 4]);
    server.say(EncryptionRequest {
        server_id: "-".into(),
        key: Bytes16::new(key.public_der().to_vec()),
        token,
    });
    let Packet::EncryptionRequest(request) = client.receive_reply() else {
        panic!()
    };
    let field = |plain: &[u8]| Bytes16::new(encrypt(&request.key, plain, &mut random()).unwrap());
    client.connection.secure(&[5; 16]).unwrap();
    client.say(EncryptionResponse {
        secret: field(&[5; 16]),
        token: field(&request.token),
    });
    let Packet::EncryptionResponse(response) = server.receive_reply() else {
        panic!()
    };
    server
        .connection
        .secure(&key.decrypt(&response.secret, 16).unwrap())
        .unwrap();
    server.say(EncryptionResponse::default());
    client.receive_reply();
    client.say(ClientStatus { status: 0 });
    server.receive_reply();
    server.say(Login {
        level_type: "flat".into(),
        ..Default::default()
    });
    client.receive_reply();
    client.say(Chat {
        text: "hello \u{1b}[2J".into(),
    });
    client.say(PlayerPosition {
        y: 64.0,
        ..Default::default()
    });
    client.say(Kick {
        reason: "Quitting".into(),
    });
    while !matches!(server.receive_reply(), Packet::Kick(_)) {}
}

fn hlr(file: &str) -> Finished {
    run(["decode", file]).ends_with(0)
}

#[test]
fn shows_and_records_a_session_with_its_secrets() {
    let folder = Temporary::path("records");
    let secrets = Temporary::path("secrets");
    let record = format!("{}/", folder.text());
    let proxy = Proxy::start(&["--record", &record, "--secrets", secrets.text()]);
    play(&proxy);
    play(&proxy);
    let (code, out, err) = proxy.stop();
    assert_eq!(code, Some(0), "{err}");
    assert_harmless(&out, false);
    let names: Vec<_> = out
        .lines()
        .filter_map(|line| line.split(" 0x").nth(1)?.split(' ').nth(1))
        .collect();
    let once = [
        "Handshake",
        "EncryptionRequest",
        "EncryptionResponse",
        "EncryptionResponse",
        "ClientStatus",
        "Login",
        "Chat",
        "Kick",
    ];
    assert_eq!(names, [once, once].concat(), "{out}");
    assert!(out.contains("→ #1 ") && out.contains("← #2 "), "{out}");
    assert!(
        err.contains("18 packets of 2 connections, 2 of them not shown (--all"),
        "{err}"
    );
    for number in [1, 2] {
        let output = hlr(&format!("{}/session-{number}.hlr", folder.text()));
        assert_eq!(
            output.out.lines().count(),
            9,
            "the recording has movements too: {}",
            output.out
        );
    }
    let lines = std::fs::read_to_string(&secrets).unwrap();
    let sides: Vec<_> = lines
        .lines()
        .filter_map(|line| line.split(' ').nth(3))
        .collect();
    assert_eq!(sides, ["client", "server", "client", "server"]);
    assert!(
        lines
            .lines()
            .next()
            .unwrap()
            .ends_with(&format!(" client 1.3.2 {}", "05".repeat(16))),
        "{lines}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            std::fs::metadata(&secrets).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[test]
fn packets_can_be_printed_as_json() {
    let proxy = Proxy::start(&[
        "--json",
        "--all",
        "--hex",
        "--fields",
        "--direction",
        "to-server",
    ]);
    play(&proxy);
    let (code, out, err) = proxy.stop();
    assert_eq!(code, Some(0), "{err}");
    let file = Temporary::file("json", &out);
    let lines = BufReader::new(std::fs::File::open(&file).unwrap())
        .lines()
        .count();
    assert_eq!(lines, 6, "{out}");
    let schema = std::fs::read_to_string(format!(
        "{}/../../schema/packet-v2.json",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    let validator = jsonschema::draft202012::new(&serde_json::from_str(&schema).unwrap()).unwrap();
    for line in out.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            validator.is_valid(&line)
                && line["direction"] == "to-server"
                && line["connection"] == 1,
            "{line}"
        );
    }
}

#[test]
fn unreadable_packet_is_named_and_counts_as_a_failure() {
    let proxy = Proxy::start(&[]);
    let mut client = proxy.client(Build::LATEST);
    client.say(Handshake {
        protocol: 39,
        name: "Alice".into(),
        ..Default::default()
    });
    let mut server = proxy.server(Build::LATEST);
    server.receive_reply();
    server.socket.write_all(&[0x45, 0xAA, 0xBB]).unwrap();
    let Packet::Kick(kick) = client.receive_reply() else {
        panic!()
    };
    assert!(
        kick.reason.to_string().contains("0x45 at offset 0"),
        "{}",
        kick.reason
    );
    drop((client, server));
    let (code, out, err) = proxy.stop();
    assert_eq!(code, Some(1), "{err}");
    assert!(
        out.contains("0x45 unknown, offset 0, 3 bytes") && out.contains("45 aa bb"),
        "{out}"
    );
    assert!(err.contains("the server sent: 0x45 at offset 0"), "{err}");
}

#[test]
fn errors_are_reported_immediately() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let output = run(["proxy", "--to", "127.0.0.1:1", "--listen", &taken]).ends_with(1);
    output.warns(&["cannot listen on", "--listen"]);
    let itself = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    run(["proxy", "--to", &itself, "--listen", &itself]).fails_as_usage("this is the proxy itself");
    run(["proxy", "--to", "a b"]).fails_as_usage("--to");
    run(["proxy", "--to", "ugp://host"]).fails_as_usage("write only HOST or HOST:PORT");
    let exists = Temporary::file("mine.hlr", "mine");
    run(["proxy", "--to", "h", "--record", exists.text()]).fails_as_usage("exists");
    assert_eq!(std::fs::read(&exists).unwrap(), b"mine");
    for wrong in [
        &["--only", "Chta"][..],
        &["--build", "2.0"],
        &["--direction", "up"],
        &["--max-connections", "0"],
    ] {
        run(["proxy", "--to", "h"].iter().chain(wrong)).ends_with(2);
    }
    run(["proxy"]).ends_with(2);
}
