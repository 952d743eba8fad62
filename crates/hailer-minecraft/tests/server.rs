//! The server against a small client in every wire version, in memory.

use hailer_minecraft::chunk::{self, Column, Inflater, MAX_COLUMN};
use hailer_minecraft::crypto::{CipherKind, encrypt};
use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::server::{
    ClientId, Encryption, GameMode, GameServerConfig, Rate, Server, ServerEvent, TICK, WorldKind,
};
use hailer_minecraft::table::*;
use hailer_minecraft::types::*;
use hailer_minecraft::{Build, Connection, ConnectionState, PeerError, Role};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn random(seed: u64) -> impl FnMut(&mut [u8]) + Send {
    let mut dice = SampleRng::new(seed);
    move |bytes| bytes.iter_mut().for_each(|byte| *byte = dice.bits() as u8)
}

fn config(build: Build) -> GameServerConfig {
    GameServerConfig {
        build,
        world: WorldKind::Flat,
        view_distance: 3,
        ..GameServerConfig::default()
    }
}

/// A server, its clock, and its clients.
struct Table {
    server: Server,
    now: Duration,
    dice: SampleRng,
    clients: Vec<TestClient>,
    events: Vec<ServerEvent>,
}

/// A client, and what it has received.
struct TestClient {
    id: ClientId,
    connection: Connection,
    name: String,
    encrypts: bool,
    entity: i32,
    mode: i32,
    place: [f64; 3],
    columns: BTreeMap<(i32, i32), Column>,
    allocated: Vec<(i32, i32)>,
    got: Vec<Packet>,
    kicked: Option<String>,
    broken: Option<PeerError>,
    inflater: Inflater,
}

impl Table {
    fn new(config: GameServerConfig) -> Self {
        let server = Server::new(config, random(7)).unwrap();
        Self {
            server,
            now: Duration::from_secs(1000),
            dice: SampleRng::new(3),
            clients: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Returns a server in survival mode with two players.
    fn survival(build: Build) -> (Self, [usize; 2]) {
        let mut table = Self::new(GameServerConfig {
            mode: GameMode::Survival,
            ..config(build)
        });
        let players = ["One", "Two"].map(|name| table.enter(build, name));
        table.settle();
        (table, players)
    }

    /// Gives the player an item in the first quick slot, as in creative mode.
    fn give(&mut self, one: usize, item: Slot) {
        self.send(one, CreativeInventoryAction { slot: 36, item });
    }

    /// Connects without sending anything.
    fn connect(&mut self, build: Build, name: &str) -> usize {
        let id = self.server.connect(self.now, HOME).unwrap();
        self.clients.push(TestClient {
            id,
            connection: Connection::new(Role::Client, build),
            name: name.into(),
            encrypts: true,
            entity: 0,
            mode: -1,
            place: [0.0; 3],
            columns: BTreeMap::new(),
            allocated: Vec::new(),
            got: Vec::new(),
            kicked: None,
            broken: None,
            inflater: Inflater::default(),
        });
        self.clients.len() - 1
    }

    fn send(&mut self, client: usize, packet: impl Into<Packet>) {
        let packet = packet.into();
        let sent = self.clients[client].connection.send(&packet);
        sent.unwrap_or_else(|error| panic!("{error}: {packet:?}"));
        self.flush();
    }

    fn shake(&mut self, client: usize) {
        let build = self.clients[client].connection.build();
        let name = self.clients[client].name.clone();
        self.send(
            client,
            Handshake {
                who: format!("{name};localhost:25565").as_str().into(),
                protocol: build.protocol(),
                name: name.as_str().into(),
                host: "localhost".into(),
                port: 25565,
            },
        );
    }

    /// Adds a player in the game.
    fn enter(&mut self, build: Build, name: &str) -> usize {
        let client = self.connect(build, name);
        self.shake(client);
        self.ticks(2);
        assert_eq!(
            self.clients[client].connection.state(),
            ConnectionState::Play,
            "{build} {:?}",
            self.clients[client].kicked
        );
        client
    }

    /// Transfers bytes in both directions, split at random, until none are left.
    fn flush(&mut self) {
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for i in 0..self.clients.len() {
                let client = &mut self.clients[i];
                while !client.connection.outgoing().is_empty() {
                    let cut = 1 + self.dice.below(client.connection.outgoing().len().min(40));
                    self.server
                        .receive(client.id, self.now, &client.connection.outgoing()[..cut]);
                    client.connection.sent_bytes(cut);
                    moved = true;
                }
                while !self.server.outgoing(client.id).is_empty() {
                    let cut = 1 + self
                        .dice
                        .below(self.server.outgoing(client.id).len().min(3000));
                    client
                        .connection
                        .receive(&self.server.outgoing(client.id)[..cut]);
                    self.server.sent(client.id, cut);
                    client.read(&mut self.dice);
                    moved = true;
                }
            }
        }
        self.events.extend(self.server.events());
    }

    fn ticks(&mut self, count: u32) {
        for _ in 0..count {
            self.now += TICK;
            self.server.tick(self.now);
            self.flush();
        }
    }

    /// Enough for all columns at a view distance of 3, and for existing entities to be shown.
    fn settle(&mut self) {
        self.ticks(12);
    }

    fn walk(&mut self, client: usize, to: [f64; 3]) {
        self.clients[client].place = to;
        let [x, y, z] = to;
        self.send(
            client,
            PlayerPosition {
                x,
                y,
                stance: y + 1.62,
                z,
                on_ground: true,
            },
        );
    }

    fn look(&mut self, client: usize, yaw: f32, pitch: f32) {
        self.send(
            client,
            PlayerLook {
                yaw,
                pitch,
                on_ground: true,
            },
        );
    }

    fn say(&mut self, client: usize, text: &str) {
        self.send(client, Chat { text: text.into() });
        self.ticks(1);
    }

    fn dig(&mut self, client: usize, status: u8, (x, y, z): (i32, u8, i32)) {
        self.send(
            client,
            PlayerDigging {
                status,
                x,
                y,
                z,
                face: 1,
            },
        );
    }

    fn put(&mut self, client: usize, (x, y, z): (i32, u8, i32), direction: u8) {
        let held = Slot::of(1, 64, 0);
        let packet = PlayerBlockPlacement {
            x,
            y,
            z,
            direction,
            held,
            ..PlayerBlockPlacement::default()
        };
        self.send(client, packet);
    }
}

impl TestClient {
    fn read(&mut self, dice: &mut SampleRng) {
        loop {
            match self.connection.next() {
                Ok(Some(packet)) => self.receive(packet, dice),
                Ok(None) => return,
                Err(error) => {
                    self.broken = Some(error);
                    panic!("{}: {error}", self.connection.build());
                }
            }
        }
    }

    fn receive(&mut self, packet: Packet, dice: &mut SampleRng) {
        let build = self.connection.build();
        match &packet {
            Packet::HandshakeReply(_) => self.ask_in(),
            Packet::EncryptionRequest(_) if !self.encrypts => self.ask_in(),
            Packet::EncryptionRequest(request) => {
                let secret = dice.bytes(CipherKind::of(build).unwrap().secret_len());
                let mut random = random(dice.bits());
                self.connection.secure(&secret).unwrap();
                let secret = Bytes16::new(encrypt(&request.key, &secret, &mut random).unwrap());
                let token =
                    Bytes16::new(encrypt(&request.key, &request.token, &mut random).unwrap());
                self.connection
                    .send(&EncryptionResponse { secret, token }.into())
                    .unwrap();
            }
            Packet::EncryptionResponse(_) => self.ask_in(),
            Packet::Login(login) => {
                self.entity = login.entity;
                self.mode = login.mode.0;
            }
            Packet::PlayerTeleport(to) => {
                assert!((0.1..1.65).contains(&(to.stance - to.y)));
                self.place = [to.x, to.y, to.z];
                let echo = PlayerPositionLook {
                    x: to.x,
                    y: to.y,
                    stance: to.stance,
                    z: to.z,
                    yaw: to.yaw,
                    pitch: to.pitch,
                    on_ground: to.on_ground,
                };
                self.connection.send(&echo.into()).unwrap();
            }
            Packet::KeepAlive(_) => self.connection.send(&packet).unwrap(),
            Packet::PreChunk(to) => {
                if to.load {
                    self.allocated.push((to.x, to.z))
                } else {
                    self.allocated.retain(|at| *at != (to.x, to.z));
                    self.columns.remove(&(to.x, to.z));
                }
            }
            Packet::ChunkData(data) => {
                let at = (data.x, data.z);
                assert!(
                    build >= Build::W18a || self.allocated.contains(&at),
                    "{build}: no room for {at:?}"
                );
                let (inflated, rest) = self.inflater.inflate(&data.data.bytes, MAX_COLUMN).unwrap();
                assert_eq!(rest, 0);
                if chunk::is_unload(data.masks, data.ground_up) && build >= Build::W18a {
                    assert_eq!(inflated.len(), 256);
                    assert!(self.columns.remove(&at).is_some(), "{at:?} was not loaded");
                } else {
                    self.columns
                        .entry(at)
                        .or_default()
                        .apply(data.masks, data.ground_up, inflated)
                        .unwrap();
                }
            }
            Packet::MapChunkBulk(bulk) => {
                assert!(bulk.columns.columns().len() <= 5);
                let limit = chunk::bulk_limit(bulk.columns.columns());
                let (inflated, rest) = self.inflater.inflate(bulk.columns.zlib(), limit).unwrap();
                assert_eq!(rest, 0);
                for (x, z, column) in chunk::bulk(bulk.columns.columns(), inflated).unwrap() {
                    assert!(self.columns.insert((x, z), column).is_none());
                }
            }
            Packet::BlockChange(change) => {
                let column = self
                    .columns
                    .get_mut(&(change.x >> 4, change.z >> 4))
                    .unwrap();
                let block = chunk::Block {
                    id: change.block.0 as u16,
                    metadata: change.metadata,
                };
                column.set_block(change.x as u8, change.y, change.z as u8, block);
            }
            Packet::MultiBlockChange(changes) => {
                let column = self.columns.get_mut(&(changes.x, changes.z)).unwrap();
                for &BlockRecord {
                    x,
                    y,
                    z,
                    id,
                    metadata,
                } in changes.records.iter()
                {
                    column.set_block(x, y, z, chunk::Block { id, metadata });
                }
            }
            Packet::Kick(kick) => self.kicked = Some(kick.reason.to_string()),
            _ => {}
        }
        self.got.push(packet);
    }

    fn ask_in(&mut self) {
        let build = self.connection.build();
        let packet: Packet = if build >= Build::W24a {
            ClientStatus { status: 0 }.into()
        } else {
            LoginRequest {
                protocol: if build < Build::W17a {
                    build.protocol().into()
                } else {
                    0
                },
                name: self.name.as_str().into(),
                ..LoginRequest::default()
            }
            .into()
        };
        self.connection.send(&packet).unwrap();
    }

    fn block(&self, (x, y, z): (i32, u8, i32)) -> u16 {
        self.columns[&(x >> 4, z >> 4)]
            .block(x as u8, y, z as u8)
            .id
    }

    fn received(&self, text: &str) -> bool {
        self.got
            .iter()
            .any(|packet| matches!(packet, Packet::Chat(chat) if chat.text == *text))
    }

    fn count(&self, name: &str) -> usize {
        self.got
            .iter()
            .filter(|packet| packet.name() == name)
            .count()
    }
}

/// Asserts that all columns of a client equal the server's.
fn assert_same_world(table: &mut Table, client: usize, blocks_only: bool) {
    let build = table.clients[client].connection.build();
    for (&(x, z), column) in &table.clients[client].columns {
        let real = table.server.column(x, z);
        if blocks_only {
            for (bx, y, bz) in
                (0..16).flat_map(|x| (0..=255).flat_map(move |y| (0..16).map(move |z| (x, y, z))))
            {
                assert_eq!(
                    column.block(bx, y, bz),
                    real.block(bx, y, bz),
                    "{build}: {x} {z}: {bx} {y} {bz}"
                );
            }
        } else {
            assert!(column == real, "{build}: column {x} {z}")
        }
    }
}

#[test]
fn a_session_in_every_wire_version() {
    for &build in Build::DIALECTS {
        let mut table = Table::new(config(build));
        let one = table.enter(build, "One");
        table.settle();
        let client = &table.clients[one];
        assert_eq!(
            client.connection.is_encrypted(),
            build >= Build::W17a,
            "{build}"
        );
        assert_eq!((client.mode, client.columns.len()), (1, 49));
        for name in [
            "Login",
            "SpawnPosition",
            "PlayerAbilities",
            "TimeUpdate",
            "PlayerListItem",
            "PlayerTeleport",
        ] {
            assert!(client.count(name) >= 1, "{build}: no {name}");
        }
        assert_same_world(&mut table, one, false);

        // The second player sees the first one move and receives chat.
        let two = table.enter(build, "Two");
        table.settle();
        assert!(table.clients[one].received("§eTwo joined the game."));
        let [x, y, z] = table.clients[one].place;
        table.walk(one, [x + 1.0, y, z]);
        table.look(one, 90.0, 10.0);
        table.ticks(1);
        table.walk(one, [x + 1.0, y, z + 9.0]);
        table.send(
            one,
            EntityAction {
                entity: 0,
                action: 1,
            },
        );
        table.send(
            one,
            Animation {
                entity: 0,
                animation: 1,
            },
        );
        table.ticks(1);
        let entity = table.clients[one].entity;
        let client = &table.clients[two];
        let mut place = None;
        for packet in &client.got {
            match packet {
                Packet::SpawnNamedEntity(spawn) if spawn.entity == entity => {
                    assert!(spawn.name == *"One");
                    assert!(build < Build::W30a || spawn.metadata.iter().count() > 0);
                    place = Some([spawn.x.0, spawn.y.0, spawn.z.0]);
                }
                Packet::EntityLookRelativeMove(by) if by.entity == entity => {
                    let at = place.as_mut().unwrap();
                    at[0] += i32::from(by.dx.0);
                    at[1] += i32::from(by.dy.0);
                    at[2] += i32::from(by.dz.0);
                    assert_eq!(by.yaw, Angle(64));
                }
                Packet::EntityTeleport(to) if to.entity == entity => {
                    place = Some([to.x.0, to.y.0, to.z.0]);
                }
                _ => {}
            }
        }
        let expected = [x + 1.0, y, z + 9.0].map(|at| (at * 32.0).floor() as i32);
        assert_eq!(place, Some(expected), "{build}");
        let counts = [
            "EntityHeadLook",
            "EntityLookRelativeMove",
            "EntityTeleport",
            "Animation",
            "EntityEquipment",
        ]
        .map(|name| client.count(name));
        assert_eq!(counts, [2, 1, 1, 1, 1], "{build}");
        assert!(client.got.iter().any(|packet| {
            matches!(packet, Packet::EntityMetadata(to) if to.metadata.get(0) == Some(&MetadataValue::Byte(2)))
        }));
        table.say(two, "hello, Ümläut");
        assert!(
            table.clients[one].received("<Two> hello, Ümläut")
                && table.clients[two].received("<Two> hello, Ümläut")
        );

        // Digging and placing blocks.
        let bx = x.floor() as i32 + 1;
        let by = y as u8 - 1;
        let bz = z.floor() as i32 + 9;
        table.dig(one, 0, (bx, by, bz));
        table.dig(one, 0, (bx + 1, by, bz));
        table.ticks(1);
        assert_eq!(table.clients[two].block((bx, by, bz)), 0, "{build}");
        table.give(one, Slot::of(35, 1, 14));
        table.put(one, (bx + 2, by, bz), 1);
        table.ticks(1);
        assert_eq!(
            table.clients[two].block((bx + 2, by + 1, bz)),
            35,
            "{build}"
        );
        let metadata = table
            .server
            .column((bx + 2) >> 4, bz >> 4)
            .block((bx + 2) as u8, by + 1, bz as u8)
            .metadata;
        assert_eq!(metadata, 14);
        assert_same_world(&mut table, one, true);
        assert_same_world(&mut table, two, true);

        // A new player receives the changed world, and players who left are removed.
        let three = table.enter(build, "Three");
        table.settle();
        assert_same_world(&mut table, three, false);
        table.send(
            two,
            Kick {
                reason: "Quitting".into(),
            },
        );
        table.ticks(2);
        assert!(table.server.is_over(table.clients[two].id));
        assert!(
            table.clients[one].received("§eTwo left the game.")
                && table.clients[one].count("DestroyEntities") == 1
        );
        assert_eq!(table.server.players().collect::<Vec<_>>(), ["One", "Three"]);
    }
}

#[test]
fn terrain_arrives_unchanged() {
    for build in [Build::V1_2_5, Build::W26a, Build::V1_3_2] {
        let mut table = Table::new(GameServerConfig {
            world: WorldKind::Hilly,
            is_build_only: true,
            ..config(build)
        });
        let one = table.enter(build, "One");
        table.settle();
        assert_eq!(table.clients[one].columns.len(), 49);
        assert_same_world(&mut table, one, false);
        let client = &table.clients[one];
        let [x, y, z] = client.place.map(|at| at.floor() as i32);
        let column = &client.columns[&(x >> 4, z >> 4)];
        assert_ne!(
            column.block(x as u8, y as u8 - 1, z as u8).id,
            0,
            "no solid ground below the player"
        );
        assert_eq!(
            (
                column.sky_light(x as u8, y as u8, z as u8),
                column.sky_light(x as u8, 3, z as u8)
            ),
            (15, 0)
        );
    }
}

#[test]
fn unencrypted_logins_if_encryption_is_optional_or_off() {
    for &build in Build::DIALECTS {
        let mut table = Table::new(config(build));
        let one = table.connect(build, "Plain");
        table.clients[one].encrypts = false;
        table.shake(one);
        assert_eq!(
            (
                table.clients[one].connection.state(),
                table.clients[one].mode
            ),
            (ConnectionState::Play, 1),
            "{build}"
        );

        let mut table = Table::new(GameServerConfig {
            encryption: Encryption::Off,
            ..config(build)
        });
        let one = table.enter(build, "Off");
        assert!(!table.clients[one].connection.is_encrypted());

        let mut table = Table::new(GameServerConfig {
            encryption: Encryption::Required,
            ..config(build)
        });
        let one = table.connect(build, "Plain");
        table.clients[one].encrypts = false;
        table.shake(one);
        let can = build >= Build::W17a;
        assert_eq!(
            table.clients[one].kicked.as_deref(),
            can.then_some("This server is encrypted"),
            "{build}"
        );
        let two = table.enter(build, "Veiled");
        assert_eq!(table.clients[two].connection.is_encrypted(), can);
    }
}

#[test]
fn one_build_and_1_2_5_share_the_port() {
    for &served in Build::DIALECTS {
        for &theirs in Build::DIALECTS {
            let mut table = Table::new(config(served));
            let one = table.connect(theirs, "Who");
            // Two builds may have the same protocol number. The server then assumes its own build.
            if served != theirs && served.protocol() == theirs.protocol() {
                continue;
            }
            table.shake(one);
            let kicked = table.clients[one].kicked.as_deref();
            let expected = match theirs.protocol() {
                number if number == served.protocol() || number == 29 => None,
                number if number < served.protocol() => Some("Outdated client!"),
                _ => Some("Outdated server!"),
            };
            assert_eq!(kicked, expected, "{theirs} at {served}");
            assert_eq!(
                table.server.is_over(table.clients[one].id),
                expected.is_some()
            );
        }
        let mut table = Table::new(GameServerConfig {
            is_build_only: true,
            ..config(served)
        });
        let one = table.connect(Build::V1_2_5, "Old");
        table.shake(one);
        let expected = (served > Build::W15a).then_some("Outdated client!");
        assert_eq!(table.clients[one].kicked.as_deref(), expected, "{served}");
    }
    // Clients of 1.2.5 and 1.3.2 in one world.
    let mut table = Table::new(config(Build::V1_3_2));
    let old = table.enter(Build::V1_2_5, "Old");
    let new = table.enter(Build::V1_3_2, "New");
    table.settle();
    assert_eq!(
        (
            table.clients[old].count("SpawnNamedEntity"),
            table.clients[new].count("SpawnNamedEntity")
        ),
        (1, 1)
    );
    table.say(old, "from 1.2.5");
    assert!(table.clients[new].received("<Old> from 1.2.5"));
    // Items that 1.2.5 lacks are refused, since the server accepts 1.2.5 too.
    table.give(new, Slot::of(133, 1, 0));
    table.ticks(1);
    let refused = Packet::SetSlot(SetSlot {
        window: 0,
        slot: 36,
        item: Slot::EMPTY,
    });
    assert_eq!(table.clients[new].got.last(), Some(&refused));
}

#[test]
fn answers_the_server_list_ping() {
    for bytes in [&[0xFE][..], &[0xFE, 0x01]] {
        let mut table = Table::new(GameServerConfig {
            motd: "A §4red server".into(),
            ..config(Build::V1_3_2)
        });
        table.enter(Build::V1_3_2, "One");
        let id = table.server.connect(table.now, HOME).unwrap();
        table.server.receive(id, table.now, bytes);
        let mut client = Connection::new(Role::Client, Build::V1_3_2);
        client.send(&ServerListPing {}.into()).unwrap();
        client.receive(table.server.outgoing(id));
        let Ok(Some(Packet::Kick(kick))) = client.next() else {
            panic!()
        };
        assert_eq!(kick.reason.to_string(), "A 4red server§1§20");
        assert!(table.server.is_over(id));
        table.flush();
        assert!(table.events.contains(&ServerEvent::Pinged { ip: HOME }));
    }
}

#[test]
fn refused_logins() {
    let build = Build::V1_3_2;
    // Invalid names.
    for name in [
        "",
        "a b",
        "seventeen_letters",
        "Ümlaut",
        "semi;colon",
        "§4red",
    ] {
        let mut table = Table::new(config(build));
        let one = table.connect(build, name);
        // Longer names are truncated to 16 UTF-16 units by the client.
        if name.len() > 16 {
            continue;
        }
        table.shake(one);
        assert_eq!(
            table.clients[one].kicked.as_deref(),
            Some("Invalid name!"),
            "{name:?}"
        );
    }
    // A wrong token, and an invalid secret.
    let mut table = Table::new(config(build));
    for wrong in ["token", "secret", "both"] {
        let one = table.connect(build, "Wrong");
        let hello = Handshake {
            protocol: 39,
            name: "Wrong".into(),
            ..Handshake::default()
        };
        let client = &mut table.clients[one].connection;
        client.send(&hello.into()).unwrap();
        let id = table.clients[one].id;
        table
            .server
            .receive(id, table.now, table.clients[one].connection.outgoing());
        let mut client = Connection::new(Role::Client, build);
        client
            .send(
                &Handshake {
                    protocol: 39,
                    ..Handshake::default()
                }
                .into(),
            )
            .unwrap();
        client.receive(table.server.outgoing(id));
        let sent = table.server.outgoing(id).len();
        table.server.sent(id, sent);
        let Ok(Some(Packet::EncryptionRequest(request))) = client.next() else {
            panic!()
        };
        let field =
            |plain: &[u8]| Bytes16::new(encrypt(&request.key, plain, &mut random(1)).unwrap());
        let answer = EncryptionResponse {
            secret: if wrong == "token" {
                field(&[1; 16])
            } else {
                Bytes16::new(vec![0xFF; 128])
            },
            token: if wrong == "secret" {
                field(&request.token)
            } else {
                field(&[9; 4])
            },
        };
        let mut bytes = Vec::new();
        Packet::from(answer).write(&mut bytes, build);
        table.server.receive(id, table.now, &bytes);
        client.receive(table.server.outgoing(id));
        let Ok(Some(Packet::Kick(kick))) = client.next() else {
            panic!("{wrong}")
        };
        assert_eq!(kick.reason.to_string(), "Invalid client reply", "{wrong}");
        table.clients.clear();
    }
    // More players than permitted, and the same name twice.
    let mut table = Table::new(GameServerConfig {
        max_players: 2,
        ..config(build)
    });
    let one = table.enter(build, "One");
    let _ = table.enter(build, "Two");
    let three = table.connect(build, "Three");
    table.shake(three);
    assert_eq!(
        table.clients[three].kicked.as_deref(),
        Some("The server is full!")
    );
    table.enter(build, "ONE");
    assert_eq!(
        table.clients[one].kicked.as_deref(),
        Some("You logged in from another location")
    );
    assert_eq!(table.server.players().collect::<Vec<_>>(), ["Two", "ONE"]);
}

#[test]
fn silent_clients_time_out() {
    let build = Build::V1_3_2;
    let mut table = Table::new(config(build));
    let mute = table.connect(build, "Mute");
    let slow = table.connect(build, "Slow");
    let player = table.enter(build, "Player");
    let bytes = [0x02, 39, 0, 4, 0, b'S'];
    table
        .server
        .receive(table.clients[slow].id, table.now, &bytes);
    // Two ticks passed during the login.
    table.ticks(197);
    assert!(!table.server.is_over(table.clients[mute].id));
    table.ticks(1);
    assert!(table.server.is_over(table.clients[mute].id) && table.clients[mute].got.is_empty());
    table.ticks(399);
    assert_eq!(table.clients[slow].kicked, None);
    table.ticks(1);
    // The test client did not send these bytes itself and cannot parse the kick, so only the end of
    // the connection is checked.
    assert!(table.server.is_over(table.clients[slow].id));
    // A player who replies stays. A player who does not is dropped after 60 s.
    table.ticks(1200);
    assert!(!table.server.is_over(table.clients[player].id));
    assert!(table.clients[player].count("KeepAlive") > 80);
    let id = table.clients[player].id;
    for _ in 0..1201 {
        table.now += TICK;
        table.server.tick(table.now);
        let unread = table.server.outgoing(id).len();
        table.server.sent(id, unread);
    }
    assert!(table.server.is_over(id));
    table.flush();
    assert!(table.events.iter().any(
        |event| matches!(event, ServerEvent::Left { reason, .. } if reason.contains("Timed out"))
    ));
}

#[test]
fn chat_and_commands() {
    let build = Build::V1_3_2;
    let mut table = Table::new(config(build));
    let one = table.enter(build, "One");
    table.settle();
    for (lines, received) in [
        ("/list", "1 of 20 are on:"),
        ("/me waves", "* One waves"),
        ("/time set 6000", "It is 6000 now."),
        ("/time set never", "§cIt is /time set N|day|night"),
        ("/fly", "§cUnknown command. /help shows those there are."),
        ("/help", "§7/spawn  §fback to where all began"),
    ] {
        table.say(one, lines);
        table.ticks(20);
        assert!(table.clients[one].received(received), "{lines}");
    }
    table.say(one, "/tp 100.5 30 -20");
    table.settle();
    assert_eq!(table.clients[one].place, [100.5, 30.0, -20.0]);
    table.say(one, "/gamemode 0");
    assert_eq!(table.clients[one].count("ChangeGameState"), 1);
    let complete = |table: &mut Table, text: &str| {
        table.send(one, TabComplete { text: text.into() });
        let last = table.clients[one]
            .got
            .iter()
            .rev()
            .find(|packet| packet.name() == "TabComplete");
        let Some(Packet::TabComplete(found)) = last else {
            return String::new();
        };
        found.text.to_string()
    };
    assert_eq!(complete(&mut table, "hello o"), "One");
    assert_eq!(complete(&mut table, "/t"), "/time\0/tp");

    table.ticks(300);
    for (text, reason) in [
        ("x".repeat(101), "Chat message too long"),
        ("§4red".into(), "Illegal characters in chat"),
        ("\u{202E}".into(), "Illegal characters in chat"),
    ] {
        let two = table.enter(build, "Two");
        table.say(two, &text);
        assert_eq!(table.clients[two].kicked.as_deref(), Some(reason));
    }
    let two = table.enter(build, "Two");
    table.say(two, &"x".repeat(100));
    assert_eq!(table.clients[two].kicked, None);
    for _ in 0..20 {
        if table.clients[two].kicked.is_none() {
            table.say(two, "buy");
        }
    }
    assert_eq!(
        table.clients[two].kicked.as_deref(),
        Some("disconnect.spam")
    );
    assert!(!table.server.is_over(table.clients[one].id));
}

#[test]
fn steps_are_checked() {
    let build = Build::V1_3_2;
    for (step, reason) in [
        ([0.0, f64::NAN, 0.0], "Illegal position"),
        ([f64::INFINITY, 4.0, 0.0], "Illegal position"),
        ([3.3e7, 4.0, 0.0], "Illegal position"),
    ] {
        let mut table = Table::new(config(build));
        let one = table.enter(build, "One");
        table.walk(one, step);
        assert_eq!(table.clients[one].kicked.as_deref(), Some(reason));
    }
    let mut table = Table::new(config(build));
    let one = table.enter(build, "One");
    let [x, y, z] = table.clients[one].place;
    // Moves that are too far or too fast are undone.
    table.walk(one, [x + 11.0, y, z]);
    assert_eq!(table.clients[one].place, [x, y, z]);
    for i in 1..30 {
        table.walk(one, [x + f64::from(i) * 9.0, y, z]);
    }
    assert!(table.clients[one].place[0] < x + 120.0);
    // Position packets of a rider (y = -999) do not move the player.
    table.send(
        one,
        PlayerPosition {
            x: 0.0,
            y: -999.0,
            stance: -999.0,
            z: 0.0,
            on_ground: true,
        },
    );
    assert_eq!(table.clients[one].kicked, None);
    table.send(
        one,
        PlayerPosition {
            x,
            y,
            stance: y + 1.7,
            z,
            on_ground: true,
        },
    );
    assert_eq!(table.clients[one].kicked.as_deref(), Some("Illegal stance"));
}

#[test]
fn columns_are_loaded_and_unloaded_while_walking() {
    for build in [Build::V1_2_5, Build::W24a, Build::V1_3_2] {
        let mut table = Table::new(config(build));
        let one = table.enter(build, "One");
        table.settle();
        for _ in 0..40 {
            let [x, y, z] = table.clients[one].place;
            table.walk(one, [x + 4.0, y, z]);
            table.ticks(1);
        }
        table.settle();
        let client = &table.clients[one];
        let at = (client.place[0].floor() as i32) >> 4;
        assert!(
            client.columns.keys().all(|(x, _)| (x - at).abs() <= 4),
            "{build}"
        );
        let near = client
            .columns
            .keys()
            .filter(|(x, z)| (x - at).abs() <= 3 && z.abs() <= 4)
            .count();
        assert!((49..=63).contains(&near), "{build}: {near}");
        assert_same_world(&mut table, one, false);
    }
}

#[test]
fn falling_out_of_the_world() {
    for &build in Build::DIALECTS {
        let (mut table, [one, two]) = Table::survival(build);
        let start = table.clients[one].place;
        for i in 1..9 {
            table.walk(one, [start[0], start[1] - f64::from(i) * 9.5, start[2]]);
            table.ticks(3);
        }
        let dead =
            |packet: &Packet| matches!(packet, Packet::UpdateHealth(update) if update.health == 0);
        assert!(table.clients[one].got.iter().any(dead), "{build}");
        assert!(table.clients[two].received("One fell out of the world"));
        let request: Packet = if build >= Build::W24a {
            ClientStatus { status: 1 }.into()
        } else {
            RespawnRequest::default().into()
        };
        table.send(one, request);
        assert!(table.clients[one].columns.is_empty() && table.clients[one].allocated.is_empty());
        table.settle();
        let client = &table.clients[one];
        assert_eq!(
            (client.count("Respawn"), client.place, client.columns.len()),
            (1, start, 49),
            "{build}"
        );
        let counts =
            ["SpawnNamedEntity", "DestroyEntities"].map(|name| table.clients[two].count(name));
        assert_eq!(counts, [2, 1], "{build}");
    }
}

#[test]
fn survival_takes_time_and_items() {
    for &build in Build::DIALECTS {
        let (mut table, [one, two]) = Table::survival(build);
        let [x, y, z] = table.clients[one].place.map(|at| at.floor() as i32);
        let there = (x + 2, y as u8 - 1, z);
        let far = (x + 9, y as u8 - 1, z);
        // Digging needs a start packet and a block in range; placing needs an item.
        table.dig(one, 2, there);
        table.dig(one, 0, far);
        table.dig(one, 2, far);
        table.put(one, there, 1);
        table.give(one, Slot::of(1, 64, 0));
        table.ticks(1);
        assert_same_world(&mut table, two, true);
        assert_eq!(table.clients[two].block(there), 2);
        // Digs a block, picks up the item and places it again.
        table.dig(one, 0, there);
        table.ticks(10);
        table.dig(one, 2, there);
        table.ticks(2);
        assert_eq!(table.clients[two].block(there), 0, "{build}");
        assert_eq!(
            table.clients[two].count("BlockBreakAnimation") > 2,
            build >= Build::W23a
        );
        assert_eq!(table.clients[two].count("SpawnDroppedItem"), 1);
        table.walk(one, [f64::from(x) + 1.5, f64::from(y), f64::from(z) + 0.5]);
        table.ticks(50);
        assert_eq!(table.clients[one].count("CollectItem"), 1, "{build}");
        table.put(one, (there.0, there.1 - 1, there.2), 1);
        table.ticks(1);
        assert_eq!(
            table.clients[two].block(there),
            3,
            "{build}: a clod of earth"
        );
        // Blocks cannot be placed inside a player or with an empty hand.
        table.put(one, there, 1);
        table.put(one, (there.0 - 1, there.1, there.2), 1);
        table.ticks(1);
        assert_eq!(table.clients[two].block((there.0, there.1 + 1, there.2)), 0);
        assert_same_world(&mut table, one, true);
        assert_same_world(&mut table, two, true);
    }
}

#[test]
fn clicks_in_the_inventory() {
    let build = Build::V1_3_2;
    let mut table = Table::new(config(build));
    let one = table.enter(build, "One");
    table.give(one, Slot::of(1, 5, 0));
    let click = |slot, button, shift, item| ClickWindow {
        window: 0,
        slot,
        button,
        action: slot,
        shift,
        item,
    };
    let answer = |table: &mut Table, click: ClickWindow| {
        table.send(one, click);
        let confirmed = |packet: &Packet| match packet {
            Packet::ConfirmTransaction(answer) => Some(answer.accepted),
            _ => None,
        };
        table.clients[one].got.iter().rev().find_map(confirmed)
    };
    assert_eq!(
        answer(&mut table, click(36, 0, false, Slot::of(1, 5, 0))),
        Some(true)
    );
    assert_eq!(
        answer(&mut table, click(20, 1, false, Slot::EMPTY)),
        Some(true)
    );
    assert_eq!(
        answer(&mut table, click(21, 0, true, Slot::EMPTY)),
        Some(false)
    );
    assert_eq!(
        answer(&mut table, click(21, 0, false, Slot::of(7, 1, 0))),
        Some(false),
        "the click names another item"
    );
    table.ticks(1);
    let cursor = |packet: &Packet| match packet {
        Packet::SetSlot(set) if set.window == -1 => Some(set.item.count),
        _ => None,
    };
    assert_eq!(
        table.clients[one].got.iter().rev().find_map(cursor),
        Some(4)
    );
    // An item is thrown, shown to others, and picked up again.
    assert_eq!(
        answer(&mut table, click(-999, 0, false, Slot::EMPTY)),
        Some(true)
    );
    table.settle();
    assert_eq!(table.clients[one].count("SpawnDroppedItem"), 1);
}

#[test]
fn every_item_against_every_face() {
    let build = Build::V1_3_2;
    let mut config = config(build);
    config.is_build_only = true;
    let plenty = Rate {
        per_second: 1 << 20,
        burst: 1 << 20,
    };
    config.limits.changes = plenty;
    config.limits.packets = plenty;
    config.limits.bytes = plenty;
    let mut table = Table::new(config);
    let one = table.enter(build, "One");
    table.settle();
    let [x, y, z] = table.clients[one].place.map(|at| at.floor() as i32);
    for (i, item) in (-1..400)
        .chain([2256, 2267, i16::MAX, i16::MIN])
        .enumerate()
    {
        table.give(one, Slot::of(item, 64, 15));
        for direction in [0, 1, 2, 3, 4, 5, 6, 7, 100, 254, 255] {
            table.put(one, (x + 2, y as u8 - 1, z + (i % 3) as i32), direction);
            table.put(one, (i32::MAX, 255, i32::MIN), direction);
        }
        table.dig(one, 0, (x + 2, y as u8, z + (i % 3) as i32));
        if i % 4 == 0 {
            table.ticks(1);
        }
    }
    table.ticks(2);
    assert_eq!(table.clients[one].kicked, None);
    assert_same_world(&mut table, one, true);
}

#[test]
fn many_changes_in_a_tick() {
    for &build in Build::DIALECTS {
        let mut config = config(build);
        config.limits.changes = Rate {
            per_second: 10_000,
            burst: 10_000,
        };
        config.limits.packets = Rate {
            per_second: 10_000,
            burst: 10_000,
        };
        let mut table = Table::new(config);
        let one = table.enter(build, "One");
        let two = table.enter(build, "Two");
        table.settle();
        table.clients[two].got.clear();
        table.say(one, "/tp 8.5 8 8.5");
        table.settle();
        for (x, y, z) in
            (5..12).flat_map(|x| (5..8).flat_map(move |y| (5..12).map(move |z| (x, y, z))))
        {
            table.dig(one, 0, (x, y, z));
        }
        table.ticks(1);
        assert_eq!(
            (
                table.clients[two].count("ChunkData"),
                table.clients[two].count("MultiBlockChange")
            ),
            (1, 0),
            "{build}"
        );
        assert_eq!(table.clients[two].block((8, 6, 8)), 0);
        assert_same_world(&mut table, two, true);
    }
}

#[test]
fn a_thousand_idle_connections_and_the_limits() {
    let build = Build::V1_3_2;
    let mut table = Table::new(config(build));
    let ip = |i: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 + i));
    let idle: Vec<_> = (0..1000)
        .map(|i| table.server.connect(table.now, ip(i)).unwrap())
        .collect();
    // The number of pending logins is limited: the oldest were dropped, and players can still join.
    let waiting = idle.iter().filter(|id| !table.server.is_over(**id)).count();
    assert_eq!(waiting, table.server.config().limits.logins);
    idle.iter()
        .filter(|id| table.server.is_over(**id))
        .copied()
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|id| {
            table.server.hang_up(id);
        });
    table.enter(build, "Player");
    // Each address has a limit on pending logins, and the newest are kept. Loopback may use the
    // whole limit.
    let limits = table.server.config().limits.clone();
    for (address, share) in [
        (ip(5000), limits.logins_per_ip),
        (Ipv4Addr::LOCALHOST.into(), limits.logins),
    ] {
        let mut waiting = Vec::new();
        for _ in 0..200 {
            waiting.push(table.server.connect(table.now, address).unwrap());
            waiting.retain(|id| {
                let is_over = table.server.is_over(*id);
                if is_over {
                    table.server.hang_up(*id);
                }
                !is_over
            });
        }
        assert_eq!(waiting.len(), share);
    }
    let all = (0..5000)
        .filter(|i| table.server.connect(table.now, ip(6000 + i)).is_ok())
        .count();
    assert!(all > 0 && table.server.connections() <= table.server.config().limits.connections);
}

#[test]
fn floods_affect_only_their_sender() {
    let build = Build::V1_3_2;
    let mut table = Table::new(config(build));
    let player = table.enter(build, "Player");
    table.settle();
    // Too many packets.
    let flood = table.enter(build, "Flood");
    for _ in 0..3000 {
        if table.clients[flood].kicked.is_none() {
            table.send(flood, hailer_minecraft::table::Player { on_ground: true });
        }
    }
    assert_eq!(
        table.clients[flood].kicked.as_deref(),
        Some("Too many packets")
    );
    // Too many bytes.
    let flood = table.enter(build, "Flood");
    let id = table.clients[flood].id;
    let packet = PluginMessage {
        channel: "x".into(),
        data: Bytes16::new(vec![0; 30_000]),
    };
    for _ in 0..20 {
        if table.clients[flood].kicked.is_none() {
            table.send(flood, packet.clone());
        }
    }
    assert!(table.server.is_over(id));
    // A client that does not read: memory use stays limited.
    let slow = table.enter(build, "Slow");
    let id = table.clients[slow].id;
    let mut most = 0;
    for _ in 0..100 {
        for _ in 0..200 {
            table
                .server
                .receive(table.clients[player].id, table.now, &[]);
        }
        table.now += TICK;
        table.server.tick(table.now);
        most = most.max(table.server.outgoing(id).len());
    }
    assert!(most <= table.server.config().limits.unsent);
    assert!(
        !table.server.is_over(table.clients[player].id),
        "{:?}",
        table.clients[player].kicked
    );
}

#[test]
fn a_slow_reader_is_dropped() {
    let build = Build::V1_3_2;
    let mut config = config(build);
    config.limits.unsent = 3_000;
    let mut table = Table::new(config);
    let slow = table.enter(build, "Slow");
    let id = table.clients[slow].id;
    table.clients.clear();
    for _ in 0..1000 {
        table.now += TICK;
        table.server.tick(table.now);
        assert!(table.server.outgoing(id).len() <= 3_000);
    }
    assert!(table.server.is_over(id) && table.server.outgoing(id).is_empty());
    assert!(
        table.server.events().any(
            |event| matches!(event, ServerEvent::Left { reason, .. } if reason == "slow reader")
        )
    );
}

#[test]
fn garbage_never_panics() {
    for &build in Build::DIALECTS {
        let mut config = config(build);
        config.limits.connections_per_ip = 10_000;
        config.limits.logins_per_ip = 10_000;
        let mut table = Table::new(config);
        let player = table.enter(build, "Player");
        for round in 0..60 {
            // Stage of the login when the garbage starts: before it, after the name, in the game.
            let one = table.connect(build, "Garbage");
            table.clients[one].encrypts = round % 2 == 0;
            let id = table.clients[one].id;
            if round % 3 == 1 {
                let mut bytes = vec![2];
                bytes.extend_from_slice(&[build.protocol() as u8, 0, 1, 0, b'x', 0, 0, 0, 0, 0, 0]);
                table.server.receive(id, table.now, &bytes);
            } else if round % 3 == 2 {
                table.shake(one);
            }
            let mut bytes = table.dice.bytes(300);
            if round % 5 == 0 {
                bytes.clear();
                // Valid packets with random fields reach more code than noise.
                for _ in 0..30 {
                    let rows: Vec<_> = hailer_minecraft::TABLE
                        .iter()
                        .filter(|row| row.is_in(Role::Client.sends(), build))
                        .collect();
                    let row = rows[table.dice.below(rows.len())];
                    let packet = (row.sample)(&mut table.dice, build);
                    if !table.clients[one].connection.is_encrypted() {
                        packet.write(&mut bytes, build);
                    } else if !matches!(packet, Packet::Kick(_)) {
                        let _ = table.clients[one].connection.send(&packet);
                    }
                }
            }
            let own = table.clients[one].connection.outgoing().to_vec();
            for piece in own.chunks(7).chain(bytes.chunks(11)) {
                table.server.receive(id, table.now, piece);
            }
            table.clients.truncate(one);
            table.ticks(3);
            table.server.hang_up(id);
        }
        assert!(
            !table.server.is_over(table.clients[player].id),
            "{:?}",
            table.clients[player].kicked
        );
    }
}

/// Clients can put any bytes in a tag, and the game crashes on a tag that is not gzip
/// (spec/minecraft-12w.md#4.2).
#[test]
fn tags_are_not_sent_to_other_players() {
    let build = Build::V1_3_2;
    for slot in [36, -1] {
        let mut table = Table::new(config(build));
        let one = table.enter(build, "One");
        let two = table.enter(build, "Two");
        table.settle();
        let [x, y, z] = table.clients[one].place;
        table.walk(one, [x + 4.0, y, z]);
        let item = Slot {
            tag: NbtData::new(&[1, 2, 3]),
            ..Slot::of(276, 1, 0)
        };
        table.send(one, CreativeInventoryAction { slot, item });
        if slot == 36 {
            table.dig(one, 4, (0, 0, 0));
        }
        table.walk(one, [x - 4.0, y, z]);
        table.walk(two, [x + 4.0, y, z + 1.0]);
        table.ticks(60);
        let taken = table.clients[two]
            .got
            .iter()
            .rev()
            .find_map(|packet| match packet {
                Packet::SetSlot(set) if set.item.id == 276 => Some(set.item.clone()),
                _ => None,
            });
        assert_eq!(taken, Some(Slot::of(276, 1, 0)), "{slot}");
    }
}

/// The game does not update the count itself: without a packet it would keep showing the item.
#[test]
fn dropping_an_item_updates_the_slot() {
    for &build in Build::DIALECTS {
        let mut table = Table::new(config(build));
        let one = table.enter(build, "One");
        table.give(one, Slot::of(1, 2, 0));
        for left in [Slot::of(1, 1, 0), Slot::EMPTY] {
            table.dig(one, 4, (0, 0, 0));
            let Some(Packet::SetSlot(set)) = table.clients[one].got.last() else {
                panic!("{build}")
            };
            assert_eq!((set.window, set.slot, &set.item), (0, 36, &left), "{build}");
        }
    }
}

/// Such a block takes no time to dig, so the game sends the start packet only.
#[test]
fn instant_digging_needs_no_end_packet() {
    let build = Build::V1_3_2;
    let mut table = Table::new(config(build));
    let one = table.enter(build, "One");
    table.settle();
    let [x, y, z] = table.clients[one].place.map(|at| at.floor() as i32);
    for (i, id) in [46, 50, 95].into_iter().enumerate() {
        let place = (x + 2, y as u8, z + i as i32);
        table.say(one, "/gamemode 1");
        table.give(one, Slot::of(id, 1, 0));
        table.put(one, (place.0, place.1 - 1, place.2), 1);
        table.say(one, "/gamemode 0");
        assert_eq!(table.clients[one].block(place), id as u16);
        table.dig(one, 0, place);
        table.ticks(1);
        assert_eq!(table.clients[one].block(place), 0, "{id}");
    }
}

/// A character may take two units, and the counts after the text must not be cut off.
#[test]
fn a_long_line_leaves_room_for_the_counts() {
    let mut table = Table::new(GameServerConfig {
        motd: "\u{1F600}".repeat(200),
        ..config(Build::V1_3_2)
    });
    let id = table.server.connect(table.now, HOME).unwrap();
    table.server.receive(id, table.now, &[0xFE]);
    let mut client = Connection::new(Role::Client, Build::V1_3_2);
    client.send(&ServerListPing {}.into()).unwrap();
    client.receive(table.server.outgoing(id));
    let Ok(Some(Packet::Kick(kick))) = client.next() else {
        panic!()
    };
    assert!(
        kick.reason.to_string().ends_with("\u{1F600}§0§20"),
        "{}",
        kick.reason
    );
}

/// Vanilla sends health to all players in the first tick, including invulnerable ones.
#[test]
fn every_player_receives_health() {
    for mode in [GameMode::Creative, GameMode::Survival] {
        let mut table = Table::new(GameServerConfig {
            mode,
            ..config(Build::V1_3_2)
        });
        let one = table.enter(Build::V1_3_2, "One");
        assert_eq!(table.clients[one].count("UpdateHealth"), 1);
    }
}

/// If the dimension stays the same, the game keeps its columns.
#[test]
fn respawning_players_unload_everything() {
    for &build in Build::DIALECTS {
        let (mut table, [one, two]) = Table::survival(build);
        let start = table.clients[one].place;
        table.send(
            one,
            EntityAction {
                entity: 0,
                action: 1,
            },
        );
        for i in 1..9 {
            table.walk(one, [start[0], start[1] - f64::from(i) * 9.5, start[2]]);
            table.ticks(3);
        }
        let request: Packet = if build >= Build::W24a {
            ClientStatus { status: 1 }.into()
        } else {
            RespawnRequest::default().into()
        };
        table.send(one, request);
        let client = &table.clients[one];
        assert_eq!(
            (
                client.columns.len(),
                client.allocated.len(),
                client.count("DestroyEntities")
            ),
            (0, 0, 1),
            "{build}"
        );
        table.settle();
        let client = &table.clients[one];
        assert_eq!(
            (client.columns.len(), client.count("SpawnNamedEntity")),
            (49, 2),
            "{build}"
        );
        assert_same_world(&mut table, one, false);
        let flags = table.clients[two]
            .got
            .iter()
            .rev()
            .find_map(|packet| match packet {
                Packet::EntityMetadata(to) => to.metadata.get(0).cloned(),
                _ => None,
            });
        assert_eq!(
            flags,
            Some(MetadataValue::Byte(0)),
            "{build}: still crouching"
        );
    }
}

/// An inventory full of tags has 90 KB, while a click has about 12 bytes.
#[test]
fn refused_clicks_are_answered_with_one_inventory_a_tick() {
    let build = Build::V1_3_2;
    let mut table = Table::new(config(build));
    let one = table.enter(build, "One");
    table.settle();
    let inventories = table.clients[one].count("SetWindowItems");
    for action in 0..100 {
        let item = Slot::EMPTY;
        table.send(
            one,
            ClickWindow {
                window: 0,
                slot: 20,
                button: 9,
                action,
                shift: false,
                item,
            },
        );
    }
    table.ticks(1);
    let client = &table.clients[one];
    assert_eq!(
        (
            client.count("ConfirmTransaction"),
            client.count("SetWindowItems") - inventories
        ),
        (100, 1)
    );
}

/// Players share the budget of generated columns in turns, so that moving ones cannot use all of
/// it.
#[test]
fn jumping_players_do_not_starve_others_of_columns() {
    let build = Build::V1_3_2;
    let mut config = config(build);
    config.limits.chat = Rate {
        per_second: 1000,
        burst: 1000,
    };
    let mut table = Table::new(config);
    let walker = table.enter(build, "Walker");
    table.settle();
    let hoppers: Vec<_> = (0..6)
        .map(|i| table.enter(build, &format!("Hopper{i}")))
        .collect();
    for turn in 0..30 {
        for (i, hopper) in hoppers.iter().enumerate() {
            let text = format!("/tp {} 20 {}", 10_000 * (i + 1), 1000 * turn);
            table.send(
                *hopper,
                Chat {
                    text: text.as_str().into(),
                },
            );
        }
        let [x, y, z] = table.clients[walker].place;
        table.walk(walker, [x + 4.0, y, z]);
        table.ticks(1);
    }
    let client = &table.clients[walker];
    let at = client.place.map(|at| at.floor() as i32 >> 4);
    assert!(
        client.columns.contains_key(&(at[0] + 1, at[2])),
        "{:?}",
        client.columns.keys().max()
    );
}
