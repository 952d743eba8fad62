//! Whole sessions in memory: our clients on our server, in every build, with the bytes split at
//! random.

use hailer_minecraft::chunk::Block;
use hailer_minecraft::client::{self, Client};
use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::server::{self, ClientId, Server, WorldKind};
use hailer_minecraft::table::{CreativeInventoryAction, PlayerPosition};
use hailer_minecraft::types::Slot;
use hailer_minecraft::{Build, Packet, PacketDirection, TABLE};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Returns a generator that fills slices. The same seed gives the same keys.
fn random(seed: u64) -> impl FnMut(&mut [u8]) + Send + 'static {
    let mut dice = SampleRng::new(seed);
    move |bytes| bytes.iter_mut().for_each(|byte| *byte = dice.bits() as u8)
}

struct Player {
    id: ClientId,
    client: Client,
    chat: Vec<String>,
}

struct Table {
    server: Server,
    clients: Vec<Player>,
    dice: SampleRng,
    now: Duration,
}

impl Table {
    fn new(build: Build, encryption: server::Encryption, world: WorldKind) -> Self {
        Self::with(server::GameServerConfig {
            view_distance: 3,
            build,
            encryption,
            world,
            ..Default::default()
        })
    }

    fn with(config: server::GameServerConfig) -> Self {
        let build = config.build;
        let server = Server::new(config, random(build as u64)).unwrap();
        Self {
            server,
            clients: Vec::new(),
            dice: SampleRng::new(build as u64),
            now: Duration::from_secs(1),
        }
    }

    /// Returns where a player stands, in blocks.
    fn feet(&self, player: usize) -> [f64; 3] {
        let game = self.clients[player].client.game();
        game.player.position.unwrap().feet
    }

    fn join(&mut self, name: &str, build: Build) -> usize {
        let last = u8::try_from(self.clients.len()).unwrap() + 1;
        let id = self
            .server
            .connect(self.now, IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
            .unwrap();
        let config = client::GameClientConfig {
            build,
            name: name.into(),
            ..Default::default()
        };
        self.clients.push(Player {
            id,
            client: Client::new(config, random(77)),
            chat: Vec::new(),
        });
        self.clients.len() - 1
    }

    /// Runs `ticks` ticks, each after all bytes were transferred in pieces.
    fn run(&mut self, ticks: u32) {
        for _ in 0..ticks {
            let mut busy = true;
            while busy {
                busy = false;
                for number in &mut self.clients {
                    let out = number.client.outgoing();
                    let count = out.len().min(1 + self.dice.below(60));
                    if count > 0 {
                        let piece = out[..count].to_vec();
                        number.client.sent(count);
                        self.server.receive(number.id, self.now, &piece);
                    }
                    let out = self.server.outgoing(number.id);
                    let count_back = out.len().min(1 + self.dice.below(2000));
                    if count_back > 0 {
                        number.client.receive(&out[..count_back]);
                        self.server.sent(number.id, count_back);
                    }
                    while let Some(event) = number
                        .client
                        .next()
                        .unwrap_or_else(|error| panic!("{}: {error}", number.client.build()))
                    {
                        if let client::ClientEvent::Chat { text } = event {
                            number.chat.push(text.plain());
                        }
                    }
                    busy |= count + count_back > 0;
                }
            }
            self.now += Duration::from_millis(50);
            self.server.tick(self.now);
            for number in &mut self.clients {
                number.client.tick(self.now);
            }
        }
    }

    /// Asserts that every block, light level and biome that a client has equals the server's.
    fn same_world(&mut self, number: usize) -> usize {
        let columns: Vec<_> = self.clients[number]
            .client
            .game()
            .world()
            .columns()
            .map(|(x, z, it)| (x, z, it.clone()))
            .collect();
        for (x, z, column) in &columns {
            assert!(column == self.server.column(*x, *z), "column ({x}, {z})");
        }
        columns.len()
    }
}

#[test]
fn two_players_in_every_build() {
    for &build in Build::DIALECTS {
        for encryption in [server::Encryption::Offered, server::Encryption::Off] {
            let mut table = Table::new(build, encryption, WorldKind::Flat);
            let alice = table.join("Alice", build);
            table.run(60);
            let bob = table.join("Bob", build);
            table.run(60);
            let playing: Vec<bool> = table
                .clients
                .iter()
                .map(|number| number.client.is_playing())
                .collect();
            assert_eq!(playing, [true, true], "{build}");
            let encrypted = build >= Build::W17a && encryption == server::Encryption::Offered;
            assert_eq!(
                table.clients[alice].client.is_encrypted(),
                encrypted,
                "{build}"
            );
            assert!(
                table.same_world(alice) >= 49 && table.same_world(bob) >= 49,
                "{build}"
            );

            // Alice places and digs blocks, and Bob sees the changes.
            let [x, y, z] = table.feet(alice).map(|at| at.floor() as i32);
            let x = x + 2;
            let z = z + 1;
            let ground = (0..y as u8 + 3).rev().find(|&y| {
                let world = table.clients[bob].client.game().world();
                world
                    .block(x, y.into(), z)
                    .is_some_and(|block| block != Block::AIR)
            });
            let ground = ground.unwrap();
            let alice_client = &mut table.clients[alice].client;
            alice_client
                .send(CreativeInventoryAction {
                    slot: 36,
                    item: Slot::of(35, 1, 14),
                })
                .unwrap();
            alice_client.select(0).unwrap();
            alice_client.say("a red block").unwrap();
            table.run(5);
            table.clients[alice].client.place(x, ground, z, 1).unwrap();
            table.run(10);
            let seen = |table: &Table, y: u8| {
                table.clients[bob]
                    .client
                    .game()
                    .world()
                    .block(x, y.into(), z)
            };
            assert_eq!(
                seen(&table, ground + 1),
                Some(Block {
                    id: 35,
                    metadata: 14
                }),
                "{build}"
            );
            table.clients[alice]
                .client
                .dig(x, ground + 1, z, 1, 0)
                .unwrap();
            table.run(10);
            assert_eq!(seen(&table, ground + 1), Some(Block::AIR), "{build}");
            assert!(
                table.clients[bob]
                    .chat
                    .iter()
                    .any(|line| line == "<Alice> a red block"),
                "{build}"
            );

            table.clients[bob].client.leave();
            table.run(3);
            assert!(table.server.is_over(table.clients[bob].id));
            assert!(
                table.clients[alice]
                    .chat
                    .iter()
                    .any(|line| line.contains("Bob left")),
                "{build}"
            );
        }
    }
}

/// A survival player falls, lands and walks, and the flight check of the server finds nothing.
#[test]
fn a_survival_player_stays_on_the_ground() {
    for world in [WorldKind::Flat, WorldKind::Hilly] {
        for &build in Build::DIALECTS {
            let mut table = Table::with(server::GameServerConfig {
                build,
                world,
                mode: server::GameMode::Survival,
                view_distance: 3,
                ..Default::default()
            });
            let alice = table.join("Alice", build);
            table.run(40);
            let [x, _, z] = table.feet(alice);
            for (dx, dz) in [(10.0, 4.0), (-6.0, 10.0), (0.0, 0.0)] {
                table.clients[alice].client.walk_to(x + dx, z + dz);
                table.run(150);
            }
            let position = table.clients[alice].client.game().player.position.unwrap();
            assert!(table.clients[alice].client.is_playing(), "{build}");
            let client = &table.clients[alice].client;
            let [x, y, z] = position.feet.map(|at| at.floor() as i32);
            let below = client.game().world().block(x, y - 1, z);
            let inside = client.game().world().block(x, y, z);
            assert!(
                [below, inside]
                    .iter()
                    .any(|block| block.is_some_and(|block| block != Block::AIR)),
                "{build}: {position:?} is in the air"
            );
        }
    }
}

/// The check kicks a client that hovers, and only in survival mode.
#[test]
fn hovering_players_are_kicked_after_80_packets() {
    for (mode, can_fly, is_kicked) in [
        (server::GameMode::Survival, false, true),
        (server::GameMode::Survival, true, false),
        (server::GameMode::Creative, false, false),
    ] {
        let mut table = Table::with(server::GameServerConfig {
            world: WorldKind::Flat,
            mode,
            can_fly,
            view_distance: 3,
            ..Default::default()
        });
        let id = table
            .server
            .connect(table.now, IpAddr::V4(Ipv4Addr::LOCALHOST))
            .unwrap();
        // A client that loads no columns does not fall.
        let client = Client::new(
            client::GameClientConfig {
                max_columns: 0,
                ..Default::default()
            },
            random(5),
        );
        table.clients.push(Player {
            id,
            client,
            chat: Vec::new(),
        });
        table.run(10);
        let mut feet = table.clients[0].client.game().player.position.unwrap().feet;
        // Rises in steps that the server permits, then hovers.
        let mut kicked_after = None;
        for packet in 1..200 {
            feet[1] += if packet <= 10 { 0.3 } else { 0.0 };
            let [x, y, z] = feet;
            let sent = table.clients[0].client.send(PlayerPosition {
                x,
                y,
                stance: y + 1.62,
                z,
                on_ground: true,
            });
            if sent.is_err() {
                break;
            }
            let out = table.clients[0].client.outgoing().to_vec();
            table.clients[0].client.sent(out.len());
            table.now += Duration::from_millis(50);
            table.server.receive(id, table.now, &out);
            table.server.tick(table.now);
            if table.server.is_over(id) {
                kicked_after = Some(packet);
                break;
            }
        }
        assert_eq!(kicked_after.is_some(), is_kicked, "{mode:?}");
        // The first packets are still within 0.55 blocks of the ground.
        assert!(
            kicked_after.is_none_or(|packets| (81..=85).contains(&packets)),
            "{kicked_after:?}"
        );
        let reasons: Vec<String> = table
            .server
            .events()
            .map(|event| event.to_string())
            .collect();
        assert_eq!(
            reasons
                .iter()
                .any(|line| line.contains("Flying is not enabled on this server")),
            is_kicked,
            "{reasons:?}"
        );
    }
}

/// The server accepts 1.2.5 clients in addition to its own build, and both see the same world.
#[test]
fn old_and_new_players_together() {
    let mut table = Table::new(Build::LATEST, server::Encryption::Offered, WorldKind::Hilly);
    let old = table.join("Old", Build::V1_2_5);
    let new = table.join("New", Build::LATEST);
    table.run(100);
    assert!(table.same_world(old) >= 49 && table.same_world(new) >= 49);
    table.clients[old].client.say("hello").unwrap();
    table.run(3);
    assert!(
        table.clients[new]
            .chat
            .iter()
            .any(|line| line == "<Old> hello")
    );
    let names = |number: &Player| {
        number
            .client
            .game()
            .entities
            .players()
            .map(|(_, name, _)| name.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&table.clients[old]), names(&table.clients[new])),
        (vec!["New".into()], vec!["Old".into()])
    );
}

/// Servers that require encryption refuse 1.2.5 clients, since 1.2.5 has none.
#[test]
fn unencrypted_clients_are_refused_if_encryption_is_required() {
    let mut table = Table::new(Build::LATEST, server::Encryption::Required, WorldKind::Flat);
    let id = table
        .server
        .connect(table.now, IpAddr::V4(Ipv4Addr::LOCALHOST))
        .unwrap();
    let config = client::GameClientConfig {
        build: Build::V1_2_5,
        ..Default::default()
    };
    let mut client = Client::new(config, random(1));
    let error = loop {
        table.server.receive(id, table.now, client.outgoing());
        client.sent(client.outgoing().len());
        client.receive(table.server.outgoing(id));
        table.server.sent(id, table.server.outgoing(id).len());
        match client.next() {
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("Outdated client!"), "{error}");
    let new = table.join("New", Build::LATEST);
    table.run(20);
    assert!(table.clients[new].client.is_playing() && table.clients[new].client.is_encrypted());
}

/// A client that joins and then sends any game packets with any content neither stops the server
/// nor affects the other player.
#[test]
fn a_hostile_player_does_not_affect_others() {
    for &build in Build::DIALECTS {
        let mut table = Table::new(build, server::Encryption::Off, WorldKind::Flat);
        let good = table.join("Good", build);
        table.run(40);
        let rows: Vec<_> = TABLE
            .iter()
            .filter(|row| row.is_in(PacketDirection::ToServer, build))
            .collect();
        for round in 0..60 {
            let bad = table.join(&format!("Bad{round}"), build);
            table.run(2);
            for _ in 0..40 {
                let packet: Packet =
                    (rows[table.dice.below(rows.len())].sample)(&mut table.dice, build);
                let _ = table.clients[bad].client.send(packet);
            }
            let number = &mut table.clients[bad];
            table
                .server
                .receive(number.id, table.now, number.client.outgoing());
            let number = table.clients.pop().unwrap();
            table.run(2);
            table.server.hang_up(number.id);
        }
        table.clients[good].client.say("still here").unwrap();
        table.run(40);
        assert!(table.clients[good].client.is_playing(), "{build}");
        assert!(
            table.clients[good]
                .chat
                .iter()
                .any(|line| line.contains("still here")),
            "{build}"
        );
        table.same_world(good);
    }
}
