//! `hailer world`.

use crate::tool::{Serve, assert_harmless, run};
use hailer::minecraft::game::table::{Chat, ClientStatus, Handshake, Kick, LoginRequest};
use hailer::minecraft::game::{Build, Connection, Packet, Role};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const GAME: &[&str] = &["--world", "flat", "--view-distance", "3"];

fn serve(more: &[&str]) -> Serve {
    Serve::world(&[GAME, more].concat())
}

/// A client that joins without encryption.
struct Player {
    socket: TcpStream,
    connection: Connection,
    name: &'static str,
    got: Vec<Packet>,
}

impl Player {
    fn connect(serve: &Serve, build: Build, name: &'static str) -> Self {
        let socket = TcpStream::connect(serve.address()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut player = Self {
            socket,
            connection: Connection::new(Role::Client, build),
            name,
            got: Vec::new(),
        };
        player.send(Handshake {
            who: format!("{name};localhost:25565").as_str().into(),
            protocol: build.protocol(),
            name: name.into(),
            host: "localhost".into(),
            port: 25565,
        });
        player
    }

    fn send(&mut self, packet: impl Into<Packet>) {
        self.connection.send(&packet.into()).unwrap();
        self.socket.write_all(self.connection.outgoing()).unwrap();
        let sent = self.connection.outgoing().len();
        self.connection.sent_bytes(sent);
    }

    /// Reads until a packet matches. Returns `false` if the server closes the connection first.
    fn wait(&mut self, wanted: impl Fn(&Packet) -> bool) -> bool {
        let mut buffer = [0; 4096];
        loop {
            while let Some(packet) = self.connection.next().unwrap() {
                let found = wanted(&packet);
                match packet {
                    Packet::HandshakeReply(_) => {
                        let name = self.name.into();
                        self.send(LoginRequest {
                            protocol: 29,
                            name,
                            ..LoginRequest::default()
                        });
                    }
                    Packet::EncryptionRequest(_) => self.send(ClientStatus { status: 0 }),
                    _ => {}
                }
                self.got.push(packet);
                if found {
                    return true;
                }
            }
            match self.socket.read(&mut buffer).unwrap() {
                0 => return false,
                count => self.connection.receive(&buffer[..count]),
            }
        }
    }

    fn has_chat(&mut self, text: &str) -> bool {
        self.wait(|packet| matches!(packet, Packet::Chat(chat) if chat.text == *text))
    }
}

#[test]
fn two_builds_play_in_one_world_until_the_server_closes() {
    let serve = serve(&[]);
    assert!(
        serve.listening[0].ends_with(" for minecraft-12w, build 1.3.2 and 1.2.5"),
        "{:?}",
        serve.listening
    );
    let mut old = Player::connect(&serve, Build::V1_2_5, "Old");
    assert!(old.wait(|packet| packet.id() == 0x33));
    let mut new = Player::connect(&serve, Build::V1_3_2, "New");
    assert!(new.wait(|packet| packet.id() == 0x38));
    assert!(old.has_chat("§eNew joined the game."));
    old.send(Chat {
        text: "hello".into(),
    });
    assert!(new.has_chat("<Old> hello"));

    let (code, chat) = serve.stop("TERM");
    assert_eq!(code, Some(0));
    assert!(new.wait(|packet| *packet
        == Packet::Kick(Kick {
            reason: "Server closed".into()
        })));
    for line in [
        "Old joined from 127.0.0.1 with 1.2.5, not encrypted",
        "<Old> hello",
        "New left: kicked: Server closed",
    ] {
        assert!(chat.contains(line), "{line:?} is not in {chat}");
    }
    assert_harmless(&chat, false);
}

#[test]
fn server_list_ping_is_answered() {
    let serve = serve(&["--motd", "&aBy §chailer", "--max-players", "7"]);
    let chat = run(["query", "--json", &serve.url("minecraft-status")])
        .ends_with(0)
        .json();
    let status = &chat[0]["status"];
    assert_eq!(
        (&status["motd"]["plain"], &status["players"]["max"]),
        (&"By hailer".into(), &7.into())
    );
}

#[test]
fn accepts_1_2_5_unless_disabled() {
    let kicked = |serve: &Serve, build| {
        let mut player = Player::connect(serve, build, "Who");
        player.wait(|packet| matches!(packet, Packet::Kick(_) | Packet::Login(_)));
        match player.got.last() {
            Some(Packet::Kick(kick)) => kick.reason.to_string(),
            _ => String::new(),
        }
    };
    let serve = serve(&["--build", "12w25a", "--only-build"]);
    assert!(
        serve.listening[0].ends_with("build 12w25a"),
        "{:?}",
        serve.listening
    );
    assert_eq!(kicked(&serve, Build::W25a), "");
    assert_eq!(kicked(&serve, Build::V1_3_2), "Outdated server!");
    assert_eq!(kicked(&serve, Build::V1_2_5), "Outdated client!");
}

#[test]
fn invalid_flags_are_one_line() {
    for flags in [
        &["--protocol", "ugp"][..],
        &["--demo"],
        &["--max-players", "0"],
        &["--max-players", "256"],
        &["--listen", "nowhere"],
        &["--listen", "ugp=127.0.0.1:1"],
    ] {
        run([&["world"], flags].concat()).ends_with(2);
    }
    let chat = run([&["world"], GAME, &["--build", "12w28a"]].concat()).ends_with(2);
    chat.warns(&["12w28a", "12w30e"]);
}
