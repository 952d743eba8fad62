//! Logins between two ends of a connection, in every build, with the bytes split at random.

use hailer_minecraft::crypto::{KeyPair, encrypt, same_token};
use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::table::*;
use hailer_minecraft::types::{Bytes16, WireString};
use hailer_minecraft::{
    Build, Connection, ConnectionState, Packet, PacketDirection, PeerError, Role, TABLE,
};

/// Transfers bytes from one end to the other in pieces. Returns the received packets.
fn carry(from: &mut Connection, to: &mut Connection, dice: &mut SampleRng) -> Vec<Packet> {
    let mut packets = Vec::new();
    while !from.outgoing().is_empty() {
        let count = 1 + dice.below(from.outgoing().len().min(200));
        to.receive(&from.outgoing()[..count]);
        from.sent_bytes(count);
        while let Some(packet) = to.next().unwrap() {
            packets.push(packet);
        }
    }
    packets
}

fn handshake(build: Build) -> Packet {
    let who = if build < Build::W17a {
        "Bot;localhost:25565".into()
    } else {
        WireString::default()
    };
    let name = "Bot".into();
    let host = "localhost".into();
    let port = 25565;
    Handshake {
        who,
        protocol: build.protocol(),
        name,
        host,
        port,
    }
    .into()
}

fn enter(build: Build) -> Packet {
    if build < Build::W24a {
        LoginRequest {
            protocol: i32::from(build.protocol()),
            name: "Bot".into(),
            ..Default::default()
        }
        .into()
    } else {
        ClientStatus { status: 0 }.into()
    }
}

/// Runs the login of the build. With `encrypted` unset, the client does not reply to the encryption
/// request.
fn log_in(build: Build, encrypted: bool, dice: &mut SampleRng) -> (Connection, Connection) {
    let mut client = Connection::new(Role::Client, build);
    let mut server = Connection::new(Role::Server, build);
    client.send(&handshake(build)).unwrap();
    assert_eq!(carry(&mut client, &mut server, dice).len(), 1);
    if build < Build::W17a {
        server
            .send(&HandshakeReply { id: "-".into() }.into())
            .unwrap();
        carry(&mut server, &mut client, dice);
    } else {
        let keys = KeyPair::generate(&mut fill(dice)).unwrap();
        let token = dice.bytes(4);
        let key = Bytes16::new(keys.public_der().to_vec());
        let request = EncryptionRequest {
            server_id: "-".into(),
            key,
            token: Bytes16::new(token.clone()),
        };
        server.send(&request.into()).unwrap();
        let received = carry(&mut server, &mut client, dice);
        let [Packet::EncryptionRequest(request)] = &received[..] else {
            panic!("{received:?}")
        };
        if encrypted {
            let length = hailer_minecraft::crypto::CipherKind::of(build)
                .unwrap()
                .secret_len();
            let secret = dice.bytes(length);
            client.secure(&secret).unwrap();
            let lock = |plain: &[u8], dice: &mut SampleRng| {
                Bytes16::new(encrypt(&request.key, plain, &mut fill(dice)).unwrap())
            };
            let secret_locked = lock(&secret, dice);
            let token_locked = lock(&request.token, dice);
            client
                .send(
                    &EncryptionResponse {
                        secret: secret_locked,
                        token: token_locked,
                    }
                    .into(),
                )
                .unwrap();
            // Bytes sent directly after the reply are encrypted already. The server cannot read
            // them before it has the secret.
            let received = carry(&mut client, &mut server, dice);
            let [Packet::EncryptionResponse(response)] = &received[..] else {
                panic!("{received:?}")
            };
            if build >= Build::W25a {
                assert!(same_token(
                    &token,
                    &keys.decrypt(&response.token, token.len()).unwrap()
                ));
            }
            server
                .secure(&keys.decrypt(&response.secret, length).unwrap())
                .unwrap();
            server.send(&EncryptionResponse::default().into()).unwrap();
            carry(&mut server, &mut client, dice);
            assert!(client.is_encrypted() && server.is_encrypted());
        }
    }
    client.send(&enter(build)).unwrap();
    carry(&mut client, &mut server, dice);
    server
        .send(
            &Login {
                entity: 7,
                level_type: "default".into(),
                ..Default::default()
            }
            .into(),
        )
        .unwrap();
    assert!(
        matches!(&carry(&mut server, &mut client, dice)[..], [Packet::Login(login)] if login.entity == 7)
    );
    assert_eq!(
        (client.state(), server.state()),
        (ConnectionState::Play, ConnectionState::Play)
    );
    (client, server)
}

fn fill(dice: &mut SampleRng) -> impl FnMut(&mut [u8]) + '_ {
    |bytes| bytes.iter_mut().for_each(|byte| *byte = dice.bits() as u8)
}

/// Sends some random game packets of the build.
fn play(from: &mut Connection, to: &mut Connection, dice: &mut SampleRng) {
    let direction = from.role().sends();
    let build = from.build();
    let rows: Vec<_> = TABLE
        .iter()
        .filter(|row| row.is_in(direction, build))
        .collect();
    let packets: Vec<Packet> = (0..20)
        .map(|_| (rows[dice.below(rows.len())].sample)(dice, build))
        .filter(|packet| !matches!(packet.id(), 0x02 | 0xFC | 0xFD | 0xFE | 0xFF))
        .collect();
    packets.iter().for_each(|packet| from.send(packet).unwrap());
    let names = |packets: &[Packet]| packets.iter().map(Packet::name).collect::<Vec<_>>();
    assert_eq!(
        names(&carry(from, to, dice)),
        names(&packets),
        "{build} {direction}"
    );
}

#[test]
fn every_build_logs_in_and_plays_with_bytes_split_at_random() {
    for &build in Build::DIALECTS {
        for encrypted in [true, false] {
            let mut dice = SampleRng::new(u64::from(build as u8) << 1 | u64::from(encrypted));
            let (mut client, mut server) = log_in(build, encrypted, &mut dice);
            for _ in 0..20 {
                play(&mut client, &mut server, &mut dice);
                play(&mut server, &mut client, &mut dice);
            }
            client
                .send(
                    &Kick {
                        reason: "Quitting".into(),
                    }
                    .into(),
                )
                .unwrap();
            carry(&mut client, &mut server, &mut dice);
            assert_eq!(server.state(), ConnectionState::Closed);
            assert!(
                server.send(&KeepAlive { token: 1 }.into()).is_err(),
                "packets after the end"
            );
        }
    }
}

#[test]
fn game_packets_before_the_login_are_errors() {
    for &build in Build::DIALECTS {
        for row in TABLE
            .iter()
            .filter(|row| row.is_in(PacketDirection::ToServer, build))
        {
            let mut server = Connection::new(Role::Server, build);
            let mut bytes = Vec::new();
            (row.sample)(&mut SampleRng::new(1), build).write(&mut bytes, build);
            server.receive(&bytes);
            match (row.id, server.next()) {
                (0x02 | 0xFE | 0xFF | 0x00, Ok(Some(_))) => {}
                (_, Err(PeerError::Unexpected(error))) => {
                    assert_eq!(error.state, ConnectionState::Start);
                }
                (id, other) => panic!("0x{id:02X} in {build}: {other:?}"),
            }
        }
    }
}

/// The original client accepts any packet before its 0x01; the server does not.
#[test]
fn a_client_reads_all_packets_after_its_login_request() {
    let build = Build::V1_2_5;
    let mut client = Connection::new(Role::Client, build);
    let mut server = Connection::new(Role::Server, build);
    let mut dice = SampleRng::new(2);
    client.send(&handshake(build)).unwrap();
    carry(&mut client, &mut server, &mut dice);
    let early = || TimeUpdate { time: 5 }.into();
    assert!(server.send(&early()).is_err());
    server
        .send(&HandshakeReply { id: "-".into() }.into())
        .unwrap();
    carry(&mut server, &mut client, &mut dice);
    client.send(&enter(build)).unwrap();
    carry(&mut client, &mut server, &mut dice);
    assert!(
        client
            .send(
                &Chat {
                    text: "early".into()
                }
                .into()
            )
            .is_err()
    );
    server.send(&early()).unwrap();
    assert_eq!(carry(&mut server, &mut client, &mut dice), [early()]);
    assert_eq!(client.state(), ConnectionState::Entering);
}

#[test]
fn bytes_after_the_secret_are_read_once_it_is_known() {
    let build = Build::LATEST;
    let mut client = Connection::new(Role::Client, build);
    let mut server = Connection::new(Role::Server, build);
    let mut dice = SampleRng::new(3);
    client.send(&handshake(build)).unwrap();
    carry(&mut client, &mut server, &mut dice);
    server.send(&EncryptionRequest::default().into()).unwrap();
    carry(&mut server, &mut client, &mut dice);
    assert!(
        client.send(&EncryptionResponse::default().into()).is_err(),
        "a reply without a secret must fail"
    );
    assert!(client.secure(&[1; 15]).is_err());
    client.secure(&[1; 16]).unwrap();
    client.send(&EncryptionResponse::default().into()).unwrap();
    let plain = client.outgoing().len();
    // Encrypted bytes in the same write: a real client waits for the server's reply, but a hostile
    // one may not.
    let mut keep_alive = Vec::new();
    Packet::from(KeepAlive { token: 5 }).write(&mut keep_alive, build);
    client.send(&KeepAlive { token: 5 }.into()).unwrap();
    assert_ne!(&client.outgoing()[plain..], keep_alive);
    server.receive(client.outgoing());
    assert!(matches!(
        server.next(),
        Ok(Some(Packet::EncryptionResponse(_)))
    ));
    assert_eq!(server.next(), Ok(None));
    server.secure(&[1; 16]).unwrap();
    assert_eq!(server.next(), Ok(Some(KeepAlive { token: 5 }.into())));
}

#[test]
fn servers_may_skip_encryption_and_answer_pings() {
    for &build in Build::DIALECTS
        .iter()
        .filter(|&&build| build >= Build::W17a)
    {
        let mut client = Connection::new(Role::Client, build);
        let mut server = Connection::new(Role::Server, build);
        let mut dice = SampleRng::new(9);
        client.send(&handshake(build)).unwrap();
        carry(&mut client, &mut server, &mut dice);
        server.send(&Login::default().into()).unwrap();
        carry(&mut server, &mut client, &mut dice);
        assert_eq!(
            (client.state(), server.state()),
            (ConnectionState::Play, ConnectionState::Play)
        );
    }
    let mut server = Connection::new(Role::Server, Build::LATEST);
    server.receive(&[0xFE]);
    assert_eq!(server.next(), Ok(Some(ServerListPing {}.into())));
    server
        .send(
            &Kick {
                reason: "A\u{A7}0\u{A7}20".into(),
            }
            .into(),
        )
        .unwrap();
    assert_eq!(
        server.outgoing(),
        b"\xFF\0\x06\0A\0\xA7\x000\0\xA7\x002\x000"
    );
}
