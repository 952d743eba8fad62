//! The proxy between a client and a server on loopback, in every wire version.

use hailer::minecraft::Proxy;
use hailer::minecraft::game::crypto::{CipherKind, KeyPair, encrypt};
use hailer::minecraft::game::sample::SampleRng;
use hailer::minecraft::game::table::*;
use hailer::minecraft::game::types::Bytes16;
use hailer::minecraft::game::{Build, Connection, Packet, PacketDirection, Role, TABLE};
use hailer::minecraft::proxy::{ProxyConfig, ProxyEvent, ProxyObserver, Side};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate(&mut random(7)).unwrap());

fn random(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut dice = SampleRng::new(seed);
    move |bytes| bytes.fill_with(|| dice.bits() as u8)
}

/// Records all events.
#[derive(Default)]
struct Notebook(Mutex<Vec<Note>>);

#[derive(Clone, Debug, PartialEq)]
enum Note {
    Packet(PacketDirection, Build, Vec<u8>, u64),
    Secret(Side, Vec<u8>),
    Closed(String),
}

impl ProxyObserver for Notebook {
    fn event(&self, _: u64, _: SocketAddr, _: Duration, event: ProxyEvent<'_>) {
        let note = match event {
            ProxyEvent::Opened => return,
            ProxyEvent::Packet(passed) => Note::Packet(
                passed.direction,
                passed.build,
                passed.bytes.clone(),
                passed.offset,
            ),
            ProxyEvent::Secret(secret) => Note::Secret(secret.side, secret.secret.to_vec()),
            ProxyEvent::Closed(end) => Note::Closed(end.to_string()),
        };
        self.0.lock().unwrap().push(note);
    }
}

impl Notebook {
    fn notes(&self) -> Vec<Note> {
        self.0.lock().unwrap().clone()
    }

    async fn end(&self) -> String {
        for _ in 0..1_000 {
            if let Some(end) = self.notes().into_iter().find_map(|note| {
                if let Note::Closed(end) = note {
                    Some(end)
                } else {
                    None
                }
            }) {
                return end;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the connection does not end: {:?}", self.notes());
    }
}

/// A proxy in front of a scripted server.
struct Lab {
    notes: Arc<Notebook>,
    server: TcpListener,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
    stop: Arc<Notify>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lab {
    async fn new(change: impl FnOnce(&mut ProxyConfig)) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let mut config = ProxyConfig {
            host: "127.0.0.1".into(),
            port,
            build: None,
            max_connections: 4,
        };
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let notes = Arc::new(Notebook::default());
        let proxy = Arc::new(Proxy::new(config).unwrap());
        let watch = Arc::clone(&notes);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task =
            tokio::spawn(async move { proxy.serve(&listener, watch, stopped.notified()).await });
        Self {
            notes,
            server,
            address,
            task,
            stop,
        }
    }

    async fn client(&self, build: Build) -> Peer {
        Peer::new(
            TcpStream::connect(self.address).await.unwrap(),
            Role::Client,
            build,
        )
    }

    async fn server(&self, build: Build) -> Peer {
        let (socket, _) = timeout(Duration::from_secs(10), self.server.accept())
            .await
            .unwrap()
            .unwrap();
        Peer::new(socket, Role::Server, build)
    }

    /// Returns a client and its server after the handshake of the client.
    async fn greeted(&self, build: Build) -> (Peer, Peer) {
        let mut client = self.client(build).await;
        client.send(handshake(build)).await;
        let mut server = self.server(build).await;
        server.receive().await;
        (client, server)
    }
}

/// A scripted client or server.
struct Peer {
    socket: TcpStream,
    connection: Connection,
    replies: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
}

impl Peer {
    fn new(socket: TcpStream, role: Role, build: Build) -> Self {
        let connection = Connection::new(role, build).keeping_bytes();
        Self {
            socket,
            connection,
            replies: Vec::new(),
            received: Vec::new(),
        }
    }

    async fn send(&mut self, packet: impl Into<Packet>) {
        let packet = packet.into();
        self.connection.send(&packet).unwrap();
        let wire = self.connection.outgoing().to_vec();
        self.connection.sent_bytes(wire.len());
        self.socket.write_all(&wire).await.unwrap();
        let mut bytes = Vec::new();
        packet.write(&mut bytes, self.connection.build());
        self.replies.push(bytes);
    }

    async fn receive(&mut self) -> Packet {
        loop {
            if let Some(packet) = self.connection.next().unwrap() {
                self.received.push(self.connection.last_bytes().to_vec());
                return packet;
            }
            let mut chunk = [0; 900];
            let count = timeout(Duration::from_secs(10), self.socket.read(&mut chunk))
                .await
                .unwrap()
                .unwrap();
            assert!(
                count > 0,
                "the connection is closed; received {}",
                self.received.len()
            );
            self.connection.receive(&chunk[..count]);
        }
    }

    async fn receive_kick(&mut self) -> String {
        loop {
            if let Packet::Kick(kick) = self.receive().await {
                return kick.reason.to_string();
            }
        }
    }

    async fn is_closed(&mut self) -> bool {
        let mut chunk = [0; 64];
        matches!(
            timeout(Duration::from_secs(10), self.socket.read(&mut chunk)).await,
            Ok(Ok(0) | Err(_))
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Login {
    /// Encrypted, as the build does it.
    Full,
    /// The client does not reply to the encryption request.
    NoSecret,
    /// The server does not send an encryption request.
    NoKey,
}

fn handshake(build: Build) -> Handshake {
    Handshake {
        who: "Alice;localhost:25565".into(),
        protocol: build.protocol(),
        name: "Alice".into(),
        host: "localhost".into(),
        port: 25_565,
    }
}

/// Exchanges all packets from the first one until the game starts, with the secrets of both sides.
async fn log_in(
    client: &mut Peer,
    lab: &Lab,
    build: Build,
    login: Login,
) -> (Peer, Option<(Vec<u8>, Vec<u8>)>) {
    client.send(handshake(build)).await;
    let mut server = lab.server(build).await;
    assert_eq!(server.receive().await.name(), "Handshake");
    let mut secrets = None;
    if build < Build::W17a {
        server.send(HandshakeReply { id: "-".into() }).await;
        client.receive().await;
    } else if login != Login::NoKey {
        let key = Bytes16::new(KEY.public_der().to_vec());
        server
            .send(EncryptionRequest {
                server_id: "-".into(),
                key,
                token: Bytes16::new(vec![1, 2, 3, 4]),
            })
            .await;
        let Packet::EncryptionRequest(request) = client.receive().await else {
            panic!()
        };
        assert!(
            request.key[..] != *KEY.public_der(),
            "the proxy must send its own key"
        );
        if login == Login::Full {
            let kind = CipherKind::of(build).unwrap();
            let near = SampleRng::new(5).bytes(kind.secret_len());
            let field =
                |plain: &[u8]| Bytes16::new(encrypt(&request.key, plain, &mut random(3)).unwrap());
            client.connection.secure(&near).unwrap();
            client
                .send(EncryptionResponse {
                    secret: field(&near),
                    token: field(&request.token),
                })
                .await;
            let Packet::EncryptionResponse(response) = server.receive().await else {
                panic!()
            };
            let far = KEY.decrypt(&response.secret, kind.secret_len()).unwrap();
            if build >= Build::W25a {
                assert_eq!(KEY.decrypt(&response.token, 4).unwrap(), [1, 2, 3, 4]);
            }
            server.connection.secure(&far).unwrap();
            server.send(EncryptionResponse::default()).await;
            client.receive().await;
            assert!(client.connection.is_encrypted() && server.connection.is_encrypted());
            secrets = Some((near, far));
        }
    }
    if login != Login::NoKey || build < Build::W17a {
        if build < Build::W24a {
            let request = LoginRequest {
                protocol: build.protocol().into(),
                name: "Alice".into(),
                ..Default::default()
            };
            client.send(request).await;
        } else {
            client.send(ClientStatus { status: 0 }).await;
        }
        server.receive().await;
    }
    server
        .send(hailer::minecraft::game::table::Login {
            entity: 7,
            level_type: "flat".into(),
            ..Default::default()
        })
        .await;
    client.receive().await;
    (server, secrets)
}

fn any_packet(direction: PacketDirection, build: Build, dice: &mut SampleRng) -> Packet {
    let rows: Vec<_> = TABLE
        .iter()
        .filter(|row| row.is_in(direction, build))
        .collect();
    loop {
        let row = rows[dice.below(rows.len())];
        if ![0x01, 0x02, 0xFC, 0xFD, 0xFE, 0xFF].contains(&row.id) {
            return (row.sample)(dice, build);
        }
    }
}

async fn session(build: Build, login: Login) {
    let lab = Lab::new(|config| config.build = Some(build)).await;
    let mut client = lab.client(build).await;
    let (mut server, secrets) = log_in(&mut client, &lab, build, login).await;
    let mut dice = SampleRng::new(11);
    for _ in 0..150 {
        client
            .send(any_packet(PacketDirection::ToServer, build, &mut dice))
            .await;
        server
            .send(any_packet(PacketDirection::ToClient, build, &mut dice))
            .await;
    }
    // Both sides send before either reads.
    for _ in 0..150 {
        server.receive().await;
        client.receive().await;
    }
    client
        .send(Kick {
            reason: "Quitting".into(),
        })
        .await;
    assert_eq!(server.receive_kick().await, "Quitting");
    assert_eq!(lab.notes.end().await, "disconnected");
    assert!(server.is_closed().await && client.is_closed().await);

    // Apart from the two encryption packets, both ends and the recording have the same bytes.
    let plain = |packets: &[Vec<u8>]| -> Vec<Vec<u8>> {
        packets
            .iter()
            .filter(|packet| ![0xFC, 0xFD].contains(&packet[0]))
            .cloned()
            .collect()
    };
    assert!(
        plain(&client.replies) == plain(&server.received),
        "{build} {login:?}"
    );
    assert!(
        plain(&server.replies) == plain(&client.received),
        "{build} {login:?}"
    );
    for (direction, replies) in [
        (PacketDirection::ToServer, &client.replies),
        (PacketDirection::ToClient, &server.replies),
    ] {
        let mut offset = 0;
        let mut seen = Vec::new();
        for note in lab.notes.notes() {
            if let Note::Packet(of, in_build, bytes, at) = note
                && of == direction
            {
                assert_eq!((at, in_build.protocol()), (offset, build.protocol()));
                offset += bytes.len() as u64;
                seen.push(bytes);
            }
        }
        assert!(seen == *replies, "{build} {login:?} {direction}");
    }
    let noted: Vec<_> = lab
        .notes
        .notes()
        .into_iter()
        .filter(|note| matches!(note, Note::Secret(..)))
        .collect();
    let expected = secrets.map_or(vec![], |(near, far)| {
        assert_ne!(near, far);
        vec![
            Note::Secret(Side::Client, near),
            Note::Secret(Side::Server, far),
        ]
    });
    assert_eq!(noted, expected);
}

#[tokio::test]
async fn sessions_are_forwarded_unchanged_in_every_wire_version() {
    futures_util::future::join_all(
        Build::DIALECTS
            .iter()
            .map(|&build| session(build, Login::Full)),
    )
    .await;
}

#[tokio::test]
async fn unencrypted_logins_are_forwarded() {
    let builds = Build::DIALECTS
        .iter()
        .copied()
        .filter(|build| *build >= Build::W17a);
    let logins = builds.flat_map(|build| [(build, Login::NoSecret), (build, Login::NoKey)]);
    futures_util::future::join_all(logins.map(|(build, login)| session(build, login))).await;
}

#[tokio::test]
async fn pings_are_forwarded_after_the_client_stops_sending() {
    for half_close in [false, true] {
        let lab = Lab::new(|_| {}).await;
        let mut client = lab.client(Build::LATEST).await;
        client.send(ServerListPing {}).await;
        if half_close {
            client.socket.shutdown().await.unwrap();
        }
        let mut server = lab.server(Build::LATEST).await;
        assert_eq!(server.receive().await.name(), "ServerListPing");
        tokio::time::sleep(Duration::from_millis(50)).await;
        server
            .send(Kick {
                reason: "A§0§20".into(),
            })
            .await;
        assert_eq!(client.receive_kick().await, "A§0§20");
        assert!(client.is_closed().await);
        assert_eq!(lab.notes.end().await, "disconnected");
    }
}

#[tokio::test]
async fn account_checks_are_refused_except_in_old_builds() {
    let lab = Lab::new(|_| {}).await;
    let (mut client, mut server) = lab.greeted(Build::LATEST).await;
    let key = Bytes16::new(KEY.public_der().to_vec());
    server
        .send(EncryptionRequest {
            server_id: "-12af".into(),
            key,
            token: Bytes16::new(vec![0; 4]),
        })
        .await;
    let reason = client.receive_kick().await;
    assert!(
        reason.starts_with("hailer proxy: the server checks accounts"),
        "{reason}"
    );
    assert!(server.receive_kick().await.contains("online-mode=false"));
    assert!(lab.notes.end().await.contains("checks accounts"));

    let lab = Lab::new(|_| {}).await;
    let (mut client, mut server) = lab.greeted(Build::V1_2_5).await;
    server
        .send(HandshakeReply {
            id: "2e66f1dc032ab5f0".into(),
        })
        .await;
    let Packet::HandshakeReply(reply) = client.receive().await else {
        panic!()
    };
    assert_eq!(reply.id.to_string(), "2e66f1dc032ab5f0");
}

#[tokio::test]
async fn malformed_packet_closes_both_sides_and_is_named() {
    for from_server in [true, false] {
        let lab = Lab::new(|_| {}).await;
        let mut client = lab.client(Build::LATEST).await;
        let (mut server, _) = log_in(&mut client, &lab, Build::LATEST, Login::NoSecret).await;
        let liar = if from_server {
            &mut server
        } else {
            &mut client
        };
        liar.send(Chat {
            text: "last words".into(),
        })
        .await;
        liar.socket.write_all(&[0x45, 1, 2, 3]).await.unwrap();
        for peer in [&mut client, &mut server] {
            let reason = peer.receive_kick().await;
            assert!(
                reason.contains("0x45 at offset") && reason.contains("not a packet"),
                "{reason}"
            );
            assert!(peer.is_closed().await);
        }
        let end = lab.notes.end().await;
        assert!(
            end.starts_with(if from_server {
                "the server sent: 0x45"
            } else {
                "the client sent: 0x45"
            }),
            "{end}"
        );
        let received = if from_server {
            &client.received
        } else {
            &server.received
        };
        assert!(
            received.iter().any(|bytes| bytes[0] == 0x03),
            "valid packets must be forwarded"
        );
    }
}

#[tokio::test]
async fn unknown_builds_and_protocols_are_kicked_with_a_reason() {
    for (first, expected) in [
        (&[0x02, 51, 0, 1, 0, 65][..], "protocol 51"),
        (b"GET / HTTP/1.1\r\n\r\n", "0x47 at offset 0"),
        (&[0x03, 0, 1, 0, 65], "out of place"),
    ] {
        let lab = Lab::new(|_| {}).await;
        let mut client = lab.client(Build::LATEST).await;
        client.socket.write_all(first).await.unwrap();
        let reason = client.receive_kick().await;
        assert!(reason.contains(expected), "{reason}");
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn unreachable_server_is_reported_to_the_client() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let lab = Lab::new(|config| config.port = gone).await;
    let mut client = lab.client(Build::LATEST).await;
    client.send(handshake(Build::LATEST)).await;
    assert!(
        client
            .receive_kick()
            .await
            .contains("cannot connect to the server")
    );
}

#[tokio::test]
async fn a_wrong_token_is_refused() {
    let lab = Lab::new(|_| {}).await;
    let (mut client, mut server) = lab.greeted(Build::LATEST).await;
    let key = Bytes16::new(KEY.public_der().to_vec());
    server
        .send(EncryptionRequest {
            server_id: "-".into(),
            key,
            token: Bytes16::new(vec![9; 4]),
        })
        .await;
    let Packet::EncryptionRequest(request) = client.receive().await else {
        panic!()
    };
    let field = |plain: &[u8]| Bytes16::new(encrypt(&request.key, plain, &mut random(3)).unwrap());
    client.connection.secure(&[1; 16]).unwrap();
    client
        .send(EncryptionResponse {
            secret: field(&[1; 16]),
            token: field(&[0xAB; 4]),
        })
        .await;
    assert!(
        client
            .receive_kick()
            .await
            .contains("not encrypted with the key")
    );
}

/// A client that does not read pauses its own server only, and no other connection.
#[tokio::test]
async fn slow_client_pauses_only_its_own_connection() {
    let lab = Lab::new(|_| {}).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut slow = Peer::new(
        socket.connect(lab.address).await.unwrap(),
        Role::Client,
        Build::LATEST,
    );
    let (mut server, _) = log_in(&mut slow, &lab, Build::LATEST, Login::NoSecret).await;
    let mut bytes = Vec::new();
    Packet::from(Chat {
        text: "x".repeat(119).as_str().into(),
    })
    .write(&mut bytes, Build::LATEST);
    let flood = bytes.repeat(2_000);
    let mut sent = 0;
    // The sockets have buffers too. A proxy with an unlimited buffer would accept this without end.
    while let Ok(written) = timeout(Duration::from_millis(500), server.socket.write(&flood)).await {
        sent += written.unwrap();
        assert!(sent < 64 << 20, "{sent} bytes were accepted but never read");
    }
    let mut other = lab.client(Build::LATEST).await;
    let (mut its_server, _) = log_in(&mut other, &lab, Build::LATEST, Login::Full).await;
    other
        .send(Chat {
            text: "still here".into(),
        })
        .await;
    assert_eq!(its_server.receive().await.name(), "Chat");
}

#[tokio::test]
async fn connections_above_the_limit_are_kicked() {
    let lab = Lab::new(|config| config.max_connections = 2).await;
    let _first = lab.client(Build::LATEST).await;
    let _second = lab.client(Build::LATEST).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut third = lab.client(Build::LATEST).await;
    assert_eq!(
        third.receive_kick().await,
        "hailer proxy: too many connections"
    );
    assert!(third.is_closed().await);
    drop(_first);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let mut fourth = lab.client(Build::LATEST).await;
    fourth.send(ServerListPing {}).await;
    assert_eq!(
        lab.server(Build::LATEST).await.receive().await.name(),
        "ServerListPing"
    );
}

#[tokio::test]
async fn closing_one_side_closes_the_other() {
    for by_client in [true, false] {
        let lab = Lab::new(|_| {}).await;
        let mut client = lab.client(Build::LATEST).await;
        let (server, _) = log_in(&mut client, &lab, Build::LATEST, Login::Full).await;
        let (gone, mut stays) = if by_client {
            (client, server)
        } else {
            (server, client)
        };
        drop(gone);
        assert!(stays.is_closed().await);
        let end = lab.notes.end().await;
        assert_eq!(
            end,
            if by_client {
                "the client closed the connection"
            } else {
                "the server closed the connection"
            }
        );
    }
}

#[tokio::test]
async fn both_sides_are_kicked_when_the_proxy_stops() {
    let mut lab = Lab::new(|_| {}).await;
    let mut client = lab.client(Build::LATEST).await;
    let (mut server, _) = log_in(&mut client, &lab, Build::LATEST, Login::Full).await;
    lab.stop.notify_one();
    assert_eq!(client.receive_kick().await, "hailer proxy: stopped");
    assert_eq!(server.receive_kick().await, "hailer proxy: stopped");
    assert!(client.is_closed().await && server.is_closed().await);
    drop((client, server));
    timeout(Duration::from_secs(10), &mut lab.task)
        .await
        .expect("the proxy did not stop in time")
        .unwrap();
    assert_eq!(lab.notes.end().await, "stopped");
    assert!(TcpStream::connect(lab.address).await.is_err());
}
