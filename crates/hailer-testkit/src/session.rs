//! Whole sessions between two connections, with all bytes on the wire.

use hailer_minecraft::crypto::CipherKind;
use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::table::*;
use hailer_minecraft::types::Bytes16;
use hailer_minecraft::{Build, Connection, Packet, PacketDirection, Role};
use std::collections::BTreeSet;

/// A session as a proxy between both sides sees it.
pub struct Session {
    pub build: Build,
    pub secret: Option<Vec<u8>>,
    /// Direction and bytes on the wire, in the order sent.
    pub wire: Vec<(PacketDirection, Vec<u8>)>,
    /// The packets in the same order, as bytes before encryption.
    pub packets: Vec<(PacketDirection, Vec<u8>)>,
    client: Connection,
    server: Connection,
}

impl Session {
    /// Runs a login, then `count` random packets each way.
    pub fn new(build: Build, encrypted: bool, count: usize, seed: u64) -> Self {
        let dice = &mut SampleRng::new(seed);
        let kind = CipherKind::of(build).filter(|_| encrypted);
        let mut session = Self {
            build,
            secret: kind.map(|kind| dice.bytes(kind.secret_len())),
            wire: Vec::new(),
            packets: Vec::new(),
            client: Connection::new(Role::Client, build),
            server: Connection::new(Role::Server, build),
        };
        session.login(build, kind.is_some(), dice);
        for _ in 0..count {
            let direction = PacketDirection::BOTH[dice.below(2)];
            let rows: Vec<_> = rows(direction, build)
                .filter(|row| ![0x02, 0xFC, 0xFD, 0xFE, 0xFF].contains(&row.id))
                .collect();
            let packet = (rows[dice.below(rows.len())].sample)(dice, build);
            session.say(direction, packet);
        }
        session.say(
            PacketDirection::ToClient,
            Kick {
                reason: "over".into(),
            },
        );
        session
    }

    fn login(&mut self, build: Build, encrypted: bool, dice: &mut SampleRng) {
        let protocol = build.protocol();
        self.say(
            PacketDirection::ToServer,
            Handshake {
                who: "Alice;localhost:25565".into(),
                protocol,
                name: "Alice".into(),
                host: "localhost".into(),
                port: 25_565,
            },
        );
        if build < Build::W17a {
            self.say(PacketDirection::ToClient, HandshakeReply { id: "-".into() });
        } else if dice.below(2) == 0 || encrypted {
            let key = Bytes16::new(dice.bytes(162));
            let token = Bytes16::new(dice.bytes(4));
            self.say(
                PacketDirection::ToClient,
                EncryptionRequest {
                    server_id: "-".into(),
                    key,
                    token,
                },
            );
        }
        if let Some(secret) = self.secret.clone() {
            let random = |dice: &mut SampleRng| Bytes16::new(dice.bytes(128));
            self.client.secure(&secret).unwrap();
            self.say(
                PacketDirection::ToServer,
                EncryptionResponse {
                    secret: random(dice),
                    token: random(dice),
                },
            );
            self.server.secure(&secret).unwrap();
            assert!(self.server.next().unwrap().is_none());
            self.say(PacketDirection::ToClient, EncryptionResponse::default());
            assert!(self.client.is_encrypted() && self.server.is_encrypted());
        }
        match build {
            _ if self.client.state() == hailer_minecraft::ConnectionState::Named => {}
            build if build < Build::W24a => {
                let request = LoginRequest {
                    protocol: protocol.into(),
                    name: "Alice".into(),
                    ..Default::default()
                };
                self.say(PacketDirection::ToServer, request);
            }
            _ => self.say(PacketDirection::ToServer, ClientStatus { status: 0 }),
        }
        self.say(
            PacketDirection::ToClient,
            Login {
                entity: 1298,
                level_type: "default".into(),
                ..Default::default()
            },
        );
    }

    fn say(&mut self, direction: PacketDirection, packet: impl Into<Packet>) {
        let packet = packet.into();
        let (from, to) = match direction {
            PacketDirection::ToServer => (&mut self.client, &mut self.server),
            PacketDirection::ToClient => (&mut self.server, &mut self.client),
        };
        from.send(&packet).unwrap();
        let wire = from.outgoing().to_vec();
        from.sent_bytes(wire.len());
        to.receive(&wire);
        assert_eq!(
            to.next().unwrap().map(|packet| packet.name()),
            Some(packet.name()),
            "{}",
            self.build
        );
        let mut bytes = Vec::new();
        packet.write(&mut bytes, self.build);
        self.wire.push((direction, wire));
        self.packets.push((direction, bytes));
    }

    /// Returns all bytes of one direction, as sent on the wire.
    #[allow(dead_code, reason = "not every test needs it")]
    pub fn stream(&self, direction: PacketDirection) -> Vec<u8> {
        self.wire
            .iter()
            .filter(|(of, _)| *of == direction)
            .flat_map(|(_, bytes)| bytes.clone())
            .collect()
    }

    /// Returns the packets of one direction.
    #[allow(dead_code, reason = "not every test needs it")]
    pub fn packets_of(&self, direction: PacketDirection) -> Vec<&[u8]> {
        self.packets
            .iter()
            .filter(|(of, _)| *of == direction)
            .map(|(_, bytes)| &bytes[..])
            .collect()
    }
}

/// Returns the packets of one direction and build.
fn rows(direction: PacketDirection, build: Build) -> impl Iterator<Item = &'static PacketInfo> {
    TABLE.iter().filter(move |row| row.is_in(direction, build))
}

/// Returns the ids of the packets of one direction and build.
pub fn ids(direction: PacketDirection, build: Build) -> BTreeSet<u8> {
    rows(direction, build).map(|row| row.id).collect()
}
