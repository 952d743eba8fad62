//! The client against a scripted server, in every wire version, with the bytes split at random.

use hailer_minecraft::chunk::{Block, Column, ColumnMeta, SectionMasks, deflate, encode_bulk};
use hailer_minecraft::client::{
    Client, ClientError, ClientEvent, GameClientConfig, MAX_ENTITIES, MAX_LISTED, MAX_WARNINGS,
    ReportedMode,
};
use hailer_minecraft::connection::Connection;
use hailer_minecraft::crypto::{CipherKind, KeyPair, session_hash};
use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::table::*;
use hailer_minecraft::types::*;
use hailer_minecraft::{Build, Packet, PacketDirection, Role};
use std::sync::LazyLock;
use std::time::Duration;

static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate(&mut random(1)).unwrap());

fn random(seed: u64) -> impl FnMut(&mut [u8]) + Send + 'static {
    let mut dice = SampleRng::new(seed);
    move |bytes| bytes.copy_from_slice(&dice.bytes(bytes.len()))
}

/// Login procedure of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LoginKind {
    /// Like the original servers.
    Usual,
    /// Replies to the handshake with the login, though the build has encryption.
    Open,
    /// Announces account checks.
    Checking,
}

/// A client and a server connected in memory.
struct Lab {
    build: Build,
    client: Client,
    server: Connection,
    login: LoginKind,
    dice: SampleRng,
    /// Packets that the server received.
    received: Vec<Packet>,
    events: Vec<ClientEvent>,
    error: Option<ClientError>,
    secret: Option<Vec<u8>>,
    now: Duration,
}

const TOKEN: [u8; 4] = [1, 2, 3, 4];

impl Lab {
    fn new(build: Build, login: LoginKind, mut config: GameClientConfig) -> Self {
        config.build = build;
        config.name = "Bot".into();
        config.host = "lab.example".into();
        config.port = 25566;
        Self {
            build,
            client: Client::new(config, random(7)),
            server: Connection::new(Role::Server, build),
            login,
            dice: SampleRng::new(build as u64),
            received: Vec::new(),
            events: Vec::new(),
            error: None,
            secret: None,
            now: Duration::ZERO,
        }
    }

    /// Returns a lab whose client has joined and has a position.
    fn playing(build: Build) -> Self {
        Self::playing_with(build, GameClientConfig::default())
    }

    fn playing_with(build: Build, config: GameClientConfig) -> Self {
        let mut lab = Self::new(build, LoginKind::Usual, config);
        lab.run();
        assert!(lab.client.is_playing(), "{build}: {:?}", lab.error);
        lab.deliver(PlayerAbilities {
            abilities: Abilities(0),
            fly_speed: 12,
            walk_speed: 25,
        });
        lab.put(8.5, 65.0, 8.5);
        lab.received.clear();
        lab.events.clear();
        lab
    }

    /// Transfers bytes in both directions until none are left.
    fn run(&mut self) {
        loop {
            let to_server = self.client.outgoing().to_vec();
            self.client.sent(to_server.len());
            for piece in self.cut(&to_server) {
                self.server.receive(&piece);
                while let Some(packet) = self.server.next().unwrap() {
                    self.let_in(&packet);
                    self.received.push(packet);
                }
            }
            let to_client = self.server.outgoing().to_vec();
            self.server.sent_bytes(to_client.len());
            for piece in self.cut(&to_client) {
                self.client.receive(&piece);
                self.listen();
            }
            if self.client.outgoing().is_empty() && self.server.outgoing().is_empty() {
                return;
            }
        }
    }

    fn listen(&mut self) {
        loop {
            match self.client.next() {
                Ok(Some(event)) => self.events.push(event),
                Ok(None) => return,
                Err(error) => return self.error = Some(error),
            }
        }
    }

    fn cut(&mut self, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let widest = [1, 3, 40, 5000][self.dice.below(4)];
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(1 + self.dice.below(widest)));
            pieces.push(piece.to_vec());
            bytes = rest;
        }
        pieces
    }

    /// Runs the server's side of the login.
    fn let_in(&mut self, packet: &Packet) {
        let plain_era = self.build <= Build::W16a;
        let id = if self.login == LoginKind::Checking {
            "-7ab3"
        } else {
            "-"
        };
        match packet {
            Packet::Handshake(_) if plain_era => {
                self.server
                    .send(&HandshakeReply { id: id.into() }.into())
                    .unwrap();
            }
            Packet::Handshake(_) if self.login == LoginKind::Open => self.welcome(),
            Packet::Handshake(_) => {
                let key = Bytes16::new(KEY.public_der().to_vec());
                let request = EncryptionRequest {
                    server_id: id.into(),
                    key,
                    token: Bytes16::new(TOKEN.to_vec()),
                };
                self.server.send(&request.into()).unwrap();
            }
            Packet::EncryptionResponse(packet) => {
                let kind = CipherKind::of(self.build).unwrap();
                let secret = KEY.decrypt(&packet.secret, kind.secret_len()).unwrap();
                if self.build >= Build::W25a {
                    assert_eq!(KEY.decrypt(&packet.token, 4).unwrap(), TOKEN);
                }
                self.server.secure(&secret).unwrap();
                self.secret = Some(secret);
                self.server
                    .send(&EncryptionResponse::default().into())
                    .unwrap();
            }
            Packet::LoginRequest(_) => self.welcome(),
            Packet::ClientStatus(packet) if packet.status == 0 => self.welcome(),
            _ => {}
        }
    }

    fn welcome(&mut self) {
        let login = Login {
            entity: 1298,
            level_type: "default".into(),
            mode: Shrunk(1 | 8),
            dimension: Shrunk(0),
            difficulty: 2,
            max_players: 20,
            ..Login::default()
        };
        self.server.send(&login.into()).unwrap();
    }

    /// Sends a packet from the server.
    fn deliver(&mut self, packet: impl Into<Packet>) {
        self.server.send(&packet.into()).unwrap();
        self.run();
    }

    fn put(&mut self, x: f64, y: f64, z: f64) {
        self.deliver(PlayerTeleport {
            x,
            y,
            stance: y + 1.62,
            z,
            yaw: 90.0,
            pitch: 5.0,
            on_ground: false,
        });
    }

    /// Runs `n` ticks.
    fn ticks(&mut self, n: u32) {
        for _ in 0..n {
            self.now += Duration::from_millis(50);
            self.client.tick(self.now);
            self.listen();
            self.run();
        }
    }

    fn received(&self, name: &str) -> Vec<&Packet> {
        self.received
            .iter()
            .filter(|packet| packet.name() == name)
            .collect()
    }

    /// Sends a column to the client, in the packets that this build uses.
    fn column(&mut self, x: i32, z: i32, column: &Column) {
        if self.build >= Build::W27a && self.dice.below(2) == 0 {
            let (metas, data) = encode_bulk(&[(x, z, column)]);
            self.deliver(MapChunkBulk {
                columns: ColumnBulk::new(metas, zlib(&data)),
            });
            return;
        }
        if self.build <= Build::W17a {
            self.deliver(PreChunk { x, z, load: true });
        }
        let mut data = Vec::new();
        let masks = column.encode(0xFFFF, true, &mut data);
        self.deliver(ChunkData {
            x,
            z,
            ground_up: true,
            masks,
            data: zlib_field(&data),
        });
    }
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    deflate(data, &mut out);
    out
}

fn zlib_field(data: &[u8]) -> Zlib {
    Zlib {
        unused: 0,
        bytes: zlib(data),
    }
}

fn stone() -> Column {
    let mut column = Column::default();
    for y in 0..64 {
        for place in 0..=255 {
            column.set_block(place & 15, y, place >> 4, Block::new(1));
        }
    }
    column
}

#[test]
fn joins_with_every_build_and_login_procedure() {
    for &build in Build::DIALECTS {
        for (login, encrypt) in [
            (LoginKind::Usual, true),
            (LoginKind::Usual, false),
            (LoginKind::Open, true),
        ] {
            let mut lab = Lab::new(
                build,
                login,
                GameClientConfig {
                    can_encrypt: encrypt,
                    ..GameClientConfig::default()
                },
            );
            lab.run();
            assert_eq!(lab.error, None, "{build} {login:?}");
            let joined = ClientEvent::Joined {
                entity: 1298,
                mode: ReportedMode::Creative,
                is_hardcore: true,
                dimension: 0,
                difficulty: 2,
                max_players: 20,
            };
            assert_eq!(lab.events, [joined], "{build} {login:?}");
            let encrypted = build >= Build::W17a && login == LoginKind::Usual && encrypt;
            assert_eq!(lab.client.is_encrypted(), encrypted, "{build} {login:?}");
            assert_eq!(lab.client.secret().map(<[u8]>::to_vec), lab.secret);
            assert_eq!(lab.secret.is_some(), encrypted);
            // Contents of the first packets.
            let Packet::Handshake(handshake) = &lab.received[0] else {
                panic!("{:?}", lab.received[0])
            };
            if build <= Build::W16a {
                assert!(handshake.who == *"Bot;lab.example:25566");
                let Packet::LoginRequest(request) = &lab.received[1] else {
                    panic!("{:?}", lab.received[1])
                };
                assert!(request.protocol == i32::from(build.protocol()) && request.name == *"Bot");
            } else {
                assert!(handshake.protocol == build.protocol() && handshake.name == *"Bot");
            }
            if build >= Build::W18a {
                assert!(handshake.host == *"lab.example" && handshake.port == 25566);
            }
        }
    }
}

#[test]
fn account_checks_are_refused_or_passed_to_the_caller() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::new(build, LoginKind::Checking, GameClientConfig::default());
        lab.run();
        assert_eq!(lab.error, Some(ClientError::AccountCheck), "{build}");

        let mut lab = Lab::new(
            build,
            LoginKind::Checking,
            GameClientConfig {
                can_check_session: true,
                ..GameClientConfig::default()
            },
        );
        lab.run();
        let hash = match lab.client.secret() {
            Some(secret) => session_hash("-7ab3", secret, KEY.public_der()),
            None => "-7ab3".into(),
        };
        assert_eq!(lab.events, [ClientEvent::SessionCheck { hash }], "{build}");
        // Keep-alives are answered while the check is pending.
        lab.deliver(KeepAlive { token: 5 });
        assert_eq!(lab.received("KeepAlive").len(), 1);
        lab.client.session_checked();
        lab.run();
        assert!(lab.client.is_playing(), "{build}");
        assert_eq!(lab.client.is_encrypted(), build >= Build::W17a);
    }
}

#[test]
fn version_kicks_suggest_builds() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::new(build, LoginKind::Usual, GameClientConfig::default());
        lab.server
            .send(
                &Kick {
                    reason: "Outdated server!".into(),
                }
                .into(),
            )
            .unwrap();
        let bytes = lab.server.outgoing().to_vec();
        lab.client.receive(&bytes);
        lab.listen();
        let error = lab.error.clone().unwrap();
        assert!(matches!(error, ClientError::Version { .. }), "{error}");
        assert!(
            error
                .try_builds()
                .iter()
                .all(|other| other.protocol() < build.protocol())
        );
        assert_eq!(
            error.to_string().contains("; try the build "),
            build.protocol() > 29,
            "{error}"
        );
        assert_eq!(lab.client.next(), Err(error));

        let mut lab = Lab::playing(build);
        lab.deliver(Kick {
            reason: "Outdated \u{A7}cyou\u{1b}[2J".into(),
        });
        assert_eq!(lab.error.unwrap().to_string(), "kicked: Outdated you[2J");
        assert!(!lab.client.is_playing());
        assert!(lab.client.say("hello").is_err());
    }
    let mut lab = Lab::new(Build::LATEST, LoginKind::Usual, GameClientConfig::default());
    lab.server
        .send(
            &Kick {
                reason: "The server is full!".into(),
            }
            .into(),
        )
        .unwrap();
    let bytes = lab.server.outgoing().to_vec();
    lab.client.receive(&bytes);
    lab.listen();
    assert_eq!(
        lab.error.unwrap().to_string(),
        "the server refused the login: The server is full!"
    );
}

#[test]
fn unreadable_packets_suggest_the_build_with_the_same_number() {
    for (build, other) in [
        (Build::W30b, "12w27a"),
        (Build::W27a, "12w30b"),
        (Build::W18a, "12w19a"),
    ] {
        let mut lab = Lab::playing_with(
            build,
            GameClientConfig {
                can_encrypt: false,
                ..GameClientConfig::default()
            },
        );
        lab.client.receive(&[0x99; 40]);
        let error = lab.client.next().unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with(&format!("; try the build {other}")),
            "{error}"
        );
        assert_eq!(error.kind(), "malformed");
    }
}

#[test]
fn positions_are_confirmed_and_sent_like_the_game() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::new(build, LoginKind::Usual, GameClientConfig::default());
        lab.run();
        lab.ticks(3);
        assert!(
            lab.received("Player").is_empty(),
            "{build}: position sent before the server set one"
        );
        lab.deliver(PlayerAbilities {
            abilities: Abilities(5),
            fly_speed: 12,
            walk_speed: 25,
        });
        lab.received.clear();
        lab.put(1.5, 70.0, -2.5);
        lab.put(2.5, 71.0, -2.5);
        let expected: &[&str] = match build {
            Build::V1_2_4 => &[
                "PlayerPositionLook",
                "PlayerAbilities",
                "PlayerPositionLook",
            ],
            _ => &[
                "PlayerPositionLook",
                "ClientSettings",
                "PlayerAbilities",
                "PlayerPositionLook",
            ],
        };
        let names: Vec<_> = lab.received.iter().map(Packet::name).collect();
        assert_eq!(names, expected, "{build}");
        let Packet::PlayerPositionLook(chat) = &lab.received[0] else {
            unreachable!()
        };
        assert_eq!(
            (chat.x, chat.y, chat.stance, chat.z),
            (1.5, 70.0, 71.62, -2.5)
        );
        assert_eq!((chat.yaw, chat.pitch), (90.0, 5.0));
        if build >= Build::W16a {
            let Packet::ClientSettings(chat) = &lab.received[1] else {
                unreachable!()
            };
            assert!(
                chat.locale == *"en_US"
                    && chat.difficulty == if build >= Build::W18a { 2 } else { 0 }
            );
        }

        // Standing still without loaded columns: the position once per second, otherwise only the
        // ground flag.
        lab.received.clear();
        lab.ticks(60);
        assert_eq!(
            (
                lab.received("PlayerPosition").len(),
                lab.received("Player").len()
            ),
            (3, 57),
            "{build}"
        );
        // Turning, walking, and both together.
        lab.received.clear();
        lab.client.look(10.0, 100.0);
        lab.ticks(1);
        let Packet::PlayerLook(chat) = &lab.received[0] else {
            panic!("{:?}", lab.received)
        };
        assert_eq!((chat.yaw, chat.pitch), (10.0, 90.0));
        lab.received.clear();
        lab.column(0, -1, &floor(71));
        lab.received.clear();
        lab.client.walk_to(4.5, -2.5);
        lab.client.look(0.0, 0.0);
        lab.ticks(12);
        assert_eq!(
            (lab.received[0].name(), lab.received("PlayerPosition").len()),
            ("PlayerPositionLook", 9)
        );
        assert_eq!(
            lab.client.game().player.position.unwrap().feet,
            [4.5, 71.0, -2.5]
        );
        assert_eq!(
            lab.events.last(),
            Some(&ClientEvent::Arrived {
                x: 4.5,
                y: 71.0,
                z: -2.5
            })
        );
        // A correction of the position by the server ends the walk.
        lab.client.walk_to(14.5, -2.5);
        lab.ticks(1);
        lab.put(4.5, 71.0, -2.5);
        lab.ticks(5);
        assert_eq!(
            lab.client.game().player.position.unwrap().feet,
            [4.5, 71.0, -2.5]
        );
        // Sent while riding.
        lab.received.clear();
        lab.deliver(AttachEntity {
            entity: 1298,
            vehicle: 77,
        });
        lab.ticks(1);
        let Packet::PlayerPositionLook(chat) = &lab.received[0] else {
            panic!("{:?}", lab.received)
        };
        assert_eq!((chat.y, chat.stance), (-999.0, -999.0));
        lab.deliver(AttachEntity {
            entity: 1298,
            vehicle: -1,
        });
        assert_eq!(lab.client.game().player.vehicle, None);
    }
}

/// Returns a column of stone up to a height.
fn floor(top: u8) -> Column {
    let mut column = Column::default();
    for (x, z) in (0..16).flat_map(|x| (0..16).map(move |z| (x, z))) {
        for y in 0..top {
            column.set_block(x, y, z, Block::new(1));
        }
    }
    column
}

fn feet(lab: &Lab) -> [f64; 3] {
    lab.client.game().player.position.unwrap().feet
}

#[test]
fn gravity_works_in_loaded_columns() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        lab.put(8.5, 64.63, 8.5);
        lab.ticks(100);
        assert_eq!(feet(&lab), [8.5, 64.63, 8.5], "{build}: nothing is loaded");
        lab.column(0, 0, &floor(64));
        lab.received.clear();
        lab.ticks(10);
        assert_eq!(feet(&lab), [8.5, 64.0, 8.5], "{build}");
        assert!(lab.client.game().player.position.unwrap().is_on_ground);
        let heights: Vec<f64> = lab
            .received("PlayerPosition")
            .iter()
            .map(|packet| {
                let Packet::PlayerPosition(packet) = packet else {
                    unreachable!()
                };
                packet.y
            })
            .collect();
        assert!(heights.is_sorted_by(|a, b| a >= b), "{build}: {heights:?}");
        assert_eq!(heights.last(), Some(&64.0), "{build}");
        let Some(Packet::Player(last)) = lab.received.last() else {
            panic!("{:?}", lab.received)
        };
        assert!(last.on_ground, "{build}");
        assert!(
            !lab.events
                .iter()
                .any(|event| matches!(event, ClientEvent::Landed { .. })),
            "{build}: a fall of 0.63 blocks is not reported"
        );
        // Removing the floor lets the player fall again.
        lab.put(8.5, 70.0, 8.5);
        lab.ticks(30);
        let Some(ClientEvent::Landed { y, fall, .. }) = lab.events.last() else {
            panic!("{:?}", lab.events)
        };
        assert_eq!((*y, *fall), (64.0, 6.0), "{build}");
    }
}

#[test]
fn flying_players_and_riders_do_not_fall() {
    let mut lab = Lab::playing(Build::LATEST);
    lab.column(0, 0, &floor(64));
    lab.put(8.5, 70.0, 8.5);
    lab.deliver(PlayerAbilities {
        abilities: Abilities(Abilities::CAN_FLY | Abilities::FLYING),
        fly_speed: 12,
        walk_speed: 25,
    });
    lab.ticks(40);
    assert_eq!(feet(&lab), [8.5, 70.0, 8.5]);
    lab.deliver(PlayerAbilities {
        abilities: Abilities(Abilities::CAN_FLY),
        fly_speed: 12,
        walk_speed: 25,
    });
    lab.deliver(AttachEntity {
        entity: 1298,
        vehicle: 5,
    });
    lab.ticks(40);
    assert_eq!(feet(&lab), [8.5, 70.0, 8.5]);
    lab.deliver(AttachEntity {
        entity: 1298,
        vehicle: -1,
    });
    lab.ticks(40);
    assert_eq!(feet(&lab), [8.5, 64.0, 8.5]);
}

#[test]
fn walk_against_a_wall_ends() {
    let mut lab = Lab::playing(Build::LATEST);
    let mut column = floor(64);
    for z in 0..16 {
        for y in 64..67 {
            column.set_block(12, y, z, Block::new(1));
        }
    }
    lab.column(0, 0, &column);
    lab.put(8.5, 64.0, 8.5);
    lab.client.walk_to(14.5, 8.5);
    lab.ticks(100);
    let Some(ClientEvent::Blocked { x, .. }) = lab.events.last() else {
        panic!("{:?}", lab.events)
    };
    assert!((x - 11.7).abs() < 1e-6, "{x}");
    lab.client.walk_to(f64::NAN, 8.5);
    lab.ticks(50);
    assert!(matches!(
        lab.events.last(),
        Some(ClientEvent::Blocked { .. })
    ));
}

#[test]
fn follows_a_player_and_keeps_a_distance() {
    let mut lab = Lab::playing(Build::LATEST);
    lab.column(0, 0, &floor(64));
    lab.put(2.5, 64.0, 8.5);
    lab.client.follow("ALEX");
    lab.ticks(20);
    assert_eq!(feet(&lab), [2.5, 64.0, 8.5], "not in view");
    let spawn = SpawnNamedEntity {
        entity: 7,
        name: "Alex".into(),
        x: Absolute::from_unit(12.5),
        y: Absolute::from_unit(64.0),
        z: Absolute::from_unit(8.5),
        metadata: Metadata::default().with(0, MetadataValue::Byte(0)),
        ..SpawnNamedEntity::default()
    };
    lab.deliver(spawn);
    lab.ticks(60);
    let [x, ..] = feet(&lab);
    assert!((10.3..=10.71).contains(&x), "{x}");
    assert_eq!(
        lab.client.game().player.position.unwrap().yaw,
        -90.0,
        "looks east"
    );
    lab.client.stop();
    lab.deliver(DestroyEntities {
        entity: 7,
        entities: List8::new(vec![7]),
    });
    lab.ticks(20);
    assert_eq!(feet(&lab)[0], x);
}

#[test]
fn a_player_spawned_twice_appears_once() {
    let mut lab = Lab::playing(Build::LATEST);
    for _ in 0..2 {
        lab.deliver(SpawnNamedEntity {
            entity: 7,
            name: "Alex".into(),
            metadata: Metadata::default().with(0, MetadataValue::Byte(0)),
            ..SpawnNamedEntity::default()
        });
    }
    let appeared = |event: &&ClientEvent| matches!(event, ClientEvent::PlayerAppeared { .. });
    assert_eq!(lab.events.iter().filter(appeared).count(), 1);
    // A different player with the same entity id replaces the first one.
    lab.deliver(SpawnNamedEntity {
        entity: 7,
        name: "Steve".into(),
        metadata: Metadata::default().with(0, MetadataValue::Byte(0)),
        ..SpawnNamedEntity::default()
    });
    assert_eq!(lab.events.iter().filter(appeared).count(), 2);
}

#[test]
fn dimension_change_replaces_the_map() {
    let mut lab = Lab::playing(Build::LATEST);
    lab.column(0, 0, &floor(64));
    lab.deliver(Respawn {
        dimension: -1,
        difficulty: 1,
        mode: 0,
        height: 256,
        level_type: "default".into(),
    });
    let game = lab.client.game();
    assert!(
        game.world().is_empty(),
        "collisions must not use blocks of the old dimension"
    );
    assert_eq!(game.map_world().len(), 1);
    lab.column(5, 5, &floor(10));
    let columns: Vec<_> = lab
        .client
        .game()
        .map_world()
        .columns()
        .map(|(x, z, _)| (x, z))
        .collect();
    assert_eq!(columns, [(5, 5)], "the new dimension replaces the old one");
}

#[test]
fn invalid_eye_heights_are_not_returned() {
    let mut lab = Lab::playing(Build::LATEST);
    for stance in [0.0, 66.7, f64::NAN, -5.0] {
        lab.received.clear();
        lab.deliver(PlayerTeleport {
            x: 0.0,
            y: 65.0,
            stance,
            ..PlayerTeleport::default()
        });
        let Packet::PlayerPositionLook(chat) = &lab.received[0] else {
            panic!()
        };
        assert_eq!((chat.y, chat.stance), (65.0, 66.62));
    }
}

#[test]
fn keep_alives_and_refused_clicks_are_answered() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        lab.deliver(KeepAlive { token: -3 });
        lab.deliver(ConfirmTransaction {
            window: 0,
            action: 9,
            accepted: true,
        });
        lab.deliver(ConfirmTransaction {
            window: 0,
            action: 8,
            accepted: false,
        });
        let expected: [Packet; 2] = [
            KeepAlive { token: -3 }.into(),
            ConfirmTransaction {
                window: 0,
                action: 8,
                accepted: true,
            }
            .into(),
        ];
        assert_eq!(lab.received, expected, "{build}");
    }
}

#[test]
fn respawns_in_every_build() {
    let back = |dimension| Respawn {
        dimension,
        difficulty: 1,
        mode: 0,
        height: 256,
        level_type: "flat".into(),
    };
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        lab.column(0, 0, &stone());
        lab.deliver(SpawnMob {
            entity: 5,
            kind: 50,
            ..SpawnMob::default()
        });
        lab.deliver(UpdateHealth {
            health: 12,
            food: 19,
            saturation: 1.0,
        });
        lab.received.clear();
        lab.events.clear();
        lab.deliver(UpdateHealth {
            health: 0,
            food: 19,
            saturation: 1.0,
        });
        assert_eq!(
            lab.events,
            [
                ClientEvent::Health {
                    health: 0,
                    food: 19
                },
                ClientEvent::Died
            ]
        );
        let expected: Packet = match build {
            _ if build >= Build::W24a => ClientStatus { status: 1 }.into(),
            _ if build >= Build::W18a => RespawnRequest::default().into(),
            _ => {
                let height = 256;
                let level_type = "default".into();
                RespawnRequest {
                    dimension: 0,
                    difficulty: 2,
                    mode: 0,
                    height,
                    level_type,
                }
                .into()
            }
        };
        assert_eq!(lab.received, [expected], "{build}");
        lab.received.clear();
        lab.ticks(30);
        assert!(
            lab.received.is_empty(),
            "dead players must send no position"
        );
        lab.deliver(back(0));
        assert_eq!(
            lab.events.last(),
            Some(&ClientEvent::Respawned {
                dimension: 0,
                mode: ReportedMode::Survival
            })
        );
        assert_eq!(
            (
                lab.client.game().world().len(),
                lab.client.game().entities.len()
            ),
            (1, 0)
        );
        lab.put(0.5, 65.0, 0.5);
        lab.ticks(1);
        assert_eq!(lab.received.len(), 2);
        // Going to the Nether unloads the whole world.
        lab.deliver(back(-1));
        assert!(lab.client.game().world().is_empty());

        let mut lab = Lab::playing_with(
            build,
            GameClientConfig {
                can_respawn: false,
                ..GameClientConfig::default()
            },
        );
        lab.deliver(UpdateHealth {
            health: -1,
            food: 0,
            saturation: 0.0,
        });
        assert!(lab.received.is_empty());
        lab.client.respawn().unwrap();
        lab.run();
        assert_eq!(lab.received.len(), 1);
    }
}

#[test]
fn block_packets_change_the_world() {
    let block = |id, metadata| Some(Block { id, metadata });
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        for x in -4..=3 {
            for z in -3..=3 {
                lab.column(x, z, &stone());
            }
        }
        assert_eq!(
            lab.events,
            [
                ClientEvent::FirstColumn,
                ClientEvent::Surrounded { columns: 56 }
            ],
            "{build}"
        );
        assert_eq!(lab.client.game().columns_received(), 56);
        // Changes one block, several blocks, a section, and blocks in an explosion.
        lab.deliver(BlockChange {
            x: -1,
            y: 200,
            z: -17,
            block: BlockType(35),
            metadata: 14,
        });
        let record = |x, y, z, id| BlockRecord {
            x,
            y,
            z,
            id,
            metadata: 3,
        };
        let records = BlockRecords::new(vec![record(1, 2, 3, 20), record(15, 255, 0, 98)]);
        lab.deliver(MultiBlockChange {
            x: -2,
            z: 1,
            records,
        });
        let mut column = stone();
        column.set_block(
            3,
            17,
            4,
            Block {
                id: 49,
                metadata: 1,
            },
        );
        let mut data = Vec::new();
        let masks = column.encode(0b10, false, &mut data);
        lab.deliver(ChunkData {
            x: 1,
            z: 1,
            ground_up: false,
            masks,
            data: zlib_field(&data),
        });
        let blocks = List32::new(vec![
            BlockOffset { x: 0, y: 0, z: 0 },
            BlockOffset { x: -1, y: -1, z: 1 },
        ]);
        // The center is truncated towards zero.
        lab.deliver(Explosion {
            x: -20.9,
            y: 60.5,
            z: 20.9,
            blocks,
            ..Explosion::default()
        });
        let world = lab.client.game().world();
        assert_eq!(world.block(-1, 200, -17), block(35, 14));
        assert_eq!(
            (world.block(-31, 2, 19), world.block(-17, 255, 16)),
            (block(20, 3), block(98, 3))
        );
        assert_eq!(
            (world.block(19, 17, 20), world.block(19, 1, 20)),
            (block(49, 1), block(1, 0))
        );
        assert_eq!(
            (world.block(-20, 60, 20), world.block(-21, 59, 21)),
            (block(0, 0), block(0, 0))
        );
        assert_eq!(world.block(-20, 59, 20), block(1, 0));
        // Unloads columns, with and without data. Unloading an absent column has no effect.
        let unload = |x, data| ChunkData {
            x,
            z: 0,
            ground_up: true,
            masks: SectionMasks::default(),
            data,
        };
        if build <= Build::W17a {
            for x in [2, 3, 3] {
                lab.deliver(PreChunk {
                    x,
                    z: 0,
                    load: false,
                });
            }
        } else {
            lab.deliver(unload(2, zlib_field(&[1; 256])));
            lab.deliver(unload(3, Zlib::default()));
            lab.deliver(unload(3, Zlib::default()));
        }
        lab.deliver(BlockChange {
            x: 40,
            y: 1,
            z: 0,
            block: BlockType(35),
            metadata: 14,
        });
        let game = lab.client.game();
        assert_eq!(
            (game.world().len(), game.columns_unloaded(), game.warned),
            (54, 2, 0),
            "{build} {:?}",
            game.warnings
        );
        assert_eq!(game.world().block(40, 1, 0), None);
    }
}

#[test]
fn empty_column_is_an_unload_since_12w17a() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        let data = zlib_field(&[1; 256]);
        lab.deliver(ChunkData {
            x: 0,
            z: 0,
            ground_up: true,
            masks: SectionMasks::default(),
            data,
        });
        assert_eq!(
            lab.client.game().world().len(),
            usize::from(build <= Build::W17a),
            "{build}"
        );
    }
}

#[test]
fn broken_columns_are_warnings() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        let masks = SectionMasks { primary: 1, add: 0 };
        for x in 0..100 {
            let data = Zlib {
                unused: 0,
                bytes: vec![0x78, 0x9C, x as u8],
            };
            lab.deliver(ChunkData {
                x,
                z: 7,
                ground_up: true,
                masks,
                data,
            });
        }
        lab.deliver(ChunkData {
            x: 5,
            z: 5,
            ground_up: false,
            masks,
            data: zlib_field(&[0; 10_240]),
        });
        if build >= Build::W27a {
            lab.deliver(MapChunkBulk {
                columns: ColumnBulk::new(vec![ColumnMeta { x: 0, z: 0, masks }], zlib(&[0; 3])),
            });
        }
        let game = lab.client.game();
        assert_eq!(
            game.warned,
            101 + u64::from(build >= Build::W27a),
            "{build}"
        );
        assert_eq!(
            (game.warnings.len(), lab.events.len()),
            (MAX_WARNINGS, MAX_WARNINGS)
        );
        assert!(
            game.warnings[0].starts_with("column (0, 7) is invalid: compressed data"),
            "{}",
            game.warnings[0]
        );
        assert!(game.world().is_empty() && lab.client.is_playing());
        lab.column(0, 0, &stone());
        assert_eq!(
            lab.client.game().world().len(),
            1,
            "the next column must be parsed"
        );
    }
}

#[test]
fn players_join_and_leave() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        let listed = |name: &str, online, ping| PlayerListItem {
            name: name.into(),
            online,
            ping,
        };
        lab.deliver(listed("\u{A7}cAnn", true, 40));
        lab.deliver(listed("\u{A7}cAnn", true, 50));
        lab.deliver(listed("Bob\u{202e}", true, 1));
        assert_eq!(
            lab.client
                .game()
                .listed
                .values()
                .copied()
                .collect::<Vec<_>>(),
            [1, 50]
        );
        lab.deliver(listed("\u{A7}cAnn", false, 9999));
        lab.deliver(listed("nobody", false, 9999));
        let metadata = Metadata::default().with(0, MetadataValue::Byte(0));
        let x = Absolute(32);
        let y = Absolute(2048);
        let z = Absolute(-16);
        let name = "Ann".into();
        lab.deliver(SpawnNamedEntity {
            entity: 7,
            name,
            x,
            y,
            z,
            metadata,
            ..SpawnNamedEntity::default()
        });
        lab.deliver(SpawnMob {
            entity: 8,
            kind: 90,
            ..SpawnMob::default()
        });
        lab.deliver(EntityRelativeMove {
            entity: 7,
            dx: Delta(-32),
            dy: Delta(16),
            dz: Delta(0),
        });
        let entities = &lab.client.game().entities;
        let (id, name, entity) = entities.players().next().unwrap();
        assert_eq!((id, name, entity.blocks()), (7, "Ann", [0.0, 64.5, -0.5]));
        assert_eq!(entities.len(), 2);
        if build < Build::W27a {
            lab.deliver(DestroyEntities {
                entity: 7,
                ..DestroyEntities::default()
            })
        } else {
            lab.deliver(DestroyEntities {
                entities: List8::new(vec![7, 0, 99]),
                ..DestroyEntities::default()
            })
        }
        let ann = || "Ann".to_owned();
        let expected = [
            ClientEvent::PlayerListed {
                name: ann(),
                ping: 40,
            },
            ClientEvent::PlayerListed {
                name: "Bob".into(),
                ping: 1,
            },
            ClientEvent::PlayerUnlisted { name: ann() },
            ClientEvent::PlayerAppeared {
                entity: 7,
                name: ann(),
                x: 1.0,
                y: 64.0,
                z: -0.5,
            },
            ClientEvent::PlayerVanished {
                entity: 7,
                name: ann(),
            },
        ];
        assert_eq!(lab.events, expected, "{build}");
        assert_eq!(lab.client.game().entities.len(), 1);
    }
}

#[test]
fn entities_and_columns_are_limited() {
    let mut lab = Lab::playing_with(
        Build::LATEST,
        GameClientConfig {
            max_columns: 3,
            ..GameClientConfig::default()
        },
    );
    for i in 0..5000 {
        lab.deliver(SpawnMob {
            entity: i,
            kind: 90,
            ..SpawnMob::default()
        });
        lab.deliver(PlayerListItem {
            name: format!("p{i}").as_str().into(),
            online: true,
            ping: 0,
        });
    }
    for x in 0..10 {
        lab.column(x, 0, &stone());
    }
    let game = lab.client.game();
    assert_eq!(
        (game.entities.len(), game.entities.refused()),
        (MAX_ENTITIES, 5000 - MAX_ENTITIES as u64)
    );
    assert_eq!((game.listed.len(), game.world().len()), (MAX_LISTED, 3));
    assert!(game.warnings.len() <= MAX_WARNINGS && game.warned > 900);
}

#[test]
fn packets_about_the_player_change_its_state() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        lab.deliver(TimeUpdate { time: 6000 });
        lab.deliver(SpawnPosition { x: 1, y: 2, z: -3 });
        lab.deliver(SetExperience {
            bar: 0.5,
            level: 7,
            total: 99,
        });
        lab.deliver(ChangeGameState {
            reason: 1,
            value: 0,
        });
        lab.deliver(ChangeGameState {
            reason: 3,
            value: 2,
        });
        lab.deliver(ChangeGameState {
            reason: 2,
            value: 0,
        });
        lab.deliver(Chat {
            text: "\u{A7}ahi\u{1b}[2J\n".into(),
        });
        let mut items = vec![Slot::EMPTY; 60];
        items[36] = Slot::of(1, 64, 0);
        items[38] = Slot::of(35, 2, 14);
        lab.deliver(SetWindowItems {
            window: 0,
            items: List16::new(items),
        });
        lab.deliver(SetWindowItems {
            window: 1,
            items: List16::new(vec![]),
        });
        lab.deliver(SetSlot {
            window: -1,
            slot: -1,
            item: Slot::EMPTY,
        });
        lab.deliver(SetSlot {
            window: 0,
            slot: 37,
            item: Slot::of(4, 3, 0),
        });
        lab.deliver(SetSlot {
            window: 0,
            slot: 45,
            item: Slot::of(4, 3, 0),
        });
        let game = lab.client.game();
        assert_eq!(
            (game.time, game.spawn, game.is_raining),
            (6000, Some([1, 2, -3]), false)
        );
        assert_eq!(
            (
                game.player.level,
                game.player.mode,
                game.player.inventory.len()
            ),
            (7, ReportedMode::Adventure, 45)
        );
        assert_eq!(game.player.inventory[37], Slot::of(4, 3, 0));
        assert_eq!(lab.events.len(), 4);
        let ClientEvent::Chat { text } = &lab.events[3] else {
            panic!()
        };
        assert_eq!(text.ansi(), "\u{1b}[92mhi[2J\u{1b}[0m\n");

        lab.client.select(2).unwrap();
        lab.client.place(3, 64, 3, 1).unwrap();
        lab.client.use_item().unwrap();
        lab.run();
        let names: Vec<_> = lab.received.iter().map(Packet::name).collect();
        assert_eq!(
            names,
            [
                "HeldItemChange",
                "Animation",
                "PlayerBlockPlacement",
                "PlayerBlockPlacement"
            ]
        );
        let Packet::PlayerBlockPlacement(put) = &lab.received[2] else {
            panic!()
        };
        assert_eq!(
            (put.x, put.y, put.z, put.direction, &put.held),
            (3, 64, 3, 1, &Slot::of(35, 2, 14))
        );
        let Packet::PlayerBlockPlacement(used) = &lab.received[3] else {
            panic!()
        };
        assert_eq!((used.x, used.y, used.z, used.direction), (-1, 255, -1, 255));
        let Packet::Animation(swing) = &lab.received[1] else {
            panic!()
        };
        assert_eq!((swing.entity, swing.animation), (1298, 1));
    }
}

#[test]
fn digging_takes_time_except_in_creative_mode() {
    let mut lab = Lab::playing(Build::LATEST);
    let status = |lab: &Lab| -> Vec<u8> {
        let digging = lab.received("PlayerDigging");
        digging
            .iter()
            .map(|packet| {
                if let Packet::PlayerDigging(it) = packet {
                    it.status
                } else {
                    9
                }
            })
            .collect()
    };
    lab.client.dig(1, 2, 3, 1, 5).unwrap();
    lab.ticks(4);
    assert_eq!(status(&lab), [0]);
    lab.ticks(4);
    assert_eq!(status(&lab), [0, 2]);
    lab.deliver(PlayerAbilities {
        abilities: Abilities(13),
        fly_speed: 12,
        walk_speed: 25,
    });
    lab.client.dig(1, 2, 3, 1, 5).unwrap();
    lab.ticks(10);
    assert_eq!(status(&lab), [0, 2, 0]);
}

#[test]
fn long_texts_are_split_and_cleaned() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        for text in [
            "hello",
            &"x".repeat(200),
            &format!("{} {}", "y".repeat(70), "z".repeat(70)),
            &format!("/tell {}", "x".repeat(200)),
            &"\u{1F600}".repeat(60),
            "caf\u{E9} \u{2019}",
            "\u{A7}cred\u{7}\n",
            "",
            " \t ",
        ] {
            lab.client.say(text).unwrap();
        }
        lab.run();
        let chat: Vec<String> = lab
            .received
            .iter()
            .map(|packet| packet.at(build).to_string())
            .collect();
        let expected = [
            "hello",
            &"x".repeat(100),
            &"x".repeat(100),
            &"y".repeat(70),
            &"z".repeat(70),
            &format!("/tell {}", "x".repeat(94)),
            &"?".repeat(60),
            "caf\u{E9} ?",
            "cred",
        ];
        assert_eq!(chat, expected.map(|text| format!("Chat text={text}")));
    }
}

#[test]
fn leaving_ends_the_connection() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing(build);
        lab.client.leave();
        lab.client.leave();
        lab.server.send(&TimeUpdate { time: 1 }.into()).unwrap();
        lab.run();
        lab.ticks(40);
        let quit: Packet = Kick {
            reason: "Quitting".into(),
        }
        .into();
        assert_eq!(
            (lab.received, lab.error, lab.events.len()),
            (vec![quit], None, 0),
            "{build}"
        );
        assert!(!lab.client.is_playing());
    }
    // Leaving works before the login too.
    let mut client = Client::new(GameClientConfig::default(), random(1));
    client.leave();
    assert_eq!(client.next(), Ok(None));
}

#[test]
fn silent_server_times_out() {
    let mut lab = Lab::playing(Build::LATEST);
    lab.ticks(599);
    assert_eq!(lab.error, None);
    lab.deliver(TimeUpdate { time: 1 });
    lab.ticks(599);
    assert_eq!(lab.error, None);
    lab.ticks(2);
    assert_eq!(lab.error, Some(ClientError::Silence(30)));
}

#[test]
fn ticks_keep_their_rate() {
    let mut lab = Lab::playing(Build::LATEST);
    for ms in 0..2000 {
        lab.client.tick(Duration::from_millis(ms));
    }
    lab.run();
    assert_eq!(lab.received.len(), 40);
    lab.received.clear();
    // After a pause, the client catches up on at most 1 s of ticks.
    for ms in 0..100 {
        lab.client.tick(Duration::from_millis(20_000 + ms));
    }
    lab.run();
    assert!(
        (1..=24).contains(&lab.received.len()),
        "{}",
        lab.received.len()
    );
}

#[test]
fn packets_are_counted_and_kept() {
    for &build in Build::DIALECTS {
        let mut lab = Lab::playing_with(
            build,
            GameClientConfig {
                has_packet_log: true,
                ..GameClientConfig::default()
            },
        );
        lab.deliver(KeepAlive { token: 77 });
        let packets = lab.client.take_packets();
        assert_eq!(
            packets.last(),
            Some(&(PacketDirection::ToServer, vec![0, 0, 0, 0, 77])),
            "{build}"
        );
        assert_eq!(
            packets[packets.len() - 2],
            (PacketDirection::ToClient, vec![0, 0, 0, 0, 77])
        );
        let tally = lab.client.traffic();
        for direction in PacketDirection::BOTH {
            let kept: Vec<_> = packets
                .iter()
                .filter(|(other, _)| *other == direction)
                .collect();
            assert_eq!(tally.total(direction).packets, kept.len() as u64);
            assert_eq!(
                tally.total(direction).bytes,
                kept.iter()
                    .map(|(_, bytes)| bytes.len() as u64)
                    .sum::<u64>()
            );
            assert_eq!(tally.by_name(direction)["KeepAlive"].bytes, 5);
        }
        assert!(lab.client.take_packets().is_empty());
    }
}

/// Any packets in any order cause no panic and no unlimited memory use.
#[test]
fn random_packets_never_panic() {
    for &build in Build::DIALECTS {
        for seed in 0..40 {
            let mut lab = Lab::playing(build);
            let mut dice = SampleRng::new(seed);
            let rows: Vec<_> = TABLE
                .iter()
                .filter(|row| {
                    row.is_in(PacketDirection::ToClient, build)
                        && ![0x02, 0xFC, 0xFD, 0xFF].contains(&row.id)
                })
                .collect();
            for _ in 0..60 {
                let packet = (rows[dice.below(rows.len())].sample)(&mut dice, build);
                lab.server.send(&packet).unwrap();
            }
            lab.run();
            lab.ticks(3);
            assert_eq!(lab.error, None, "{build} {seed}");
            assert!(
                lab.client
                    .game()
                    .warnings
                    .iter()
                    .all(|text| !text.contains(char::is_control))
            );
        }
    }
}
