//! View of each player: columns nearby, changed blocks, and entities.

use super::client::Client;
use super::pack::{Piece, join};
use super::player::{Player, ShownPosition};
use super::terrain::At;
use super::world::{BlockPosition, spot};
use super::{ClientId, Server};
use crate::build::Build;
use crate::chunk::{Block, ColumnMeta, SectionMasks};
use crate::table::{
    BlockChange, ChunkData, DestroyEntities, EntityHeadLook, EntityLook, EntityLookRelativeMove,
    EntityMetadata, EntityRelativeMove, EntityTeleport, MapChunkBulk, MultiBlockChange, Packet,
    PreChunk,
};
use crate::types::{
    Absolute, BlockRecord, BlockRecords, BlockType, ColumnBulk, Delta, List8, Zlib,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of columns sent to a player per tick, as in vanilla.
const COLUMNS: usize = 5;
/// Maximum number of columns generated and compressed per tick for all players, at about 1 ms each.
/// The player who has waited longest comes first.
const FRESH: usize = 25;
/// If more blocks of a column change in a tick, they are sent as sections, as in vanilla.
const MAX_SINGLE_CHANGES: usize = 64;
/// No column is sent while more than this many bytes are unsent.
const BUSY: usize = 256 << 10;
/// Maximum number of entities in one 0x1D.
const DESTROYED: usize = 127;
/// 256 biomes, all plains, as a zlib stream (spec/minecraft-12w.md#7).
const PLAINS: [u8; 12] = [
    0x78, 0x9C, 0x63, 0x64, 0x1C, 0xD9, 0x00, 0x00, 0x81, 0x80, 0x01, 0x01,
];

impl Server {
    /// Sets the view distance that the client requests: 0 far, 1 normal, 2 short, 3 tiny.
    pub(super) fn set_view(&mut self, id: ClientId, requested: i32) {
        let most = i32::from(self.config.view_distance.clamp(3, 15));
        if let Some(player) = self.player_mut(id) {
            player.view = most.min((16 >> requested.clamp(0, 3)).max(3));
            player.center = None;
        }
    }

    /// Sends columns that came into view and unloads those that went out of it.
    pub(super) fn send_columns(&mut self) {
        let served = |client: &Client| client.player().map(|player| player.served);
        let mut order: Vec<(u64, ClientId)> = self
            .clients
            .iter()
            .filter_map(|(id, client)| Some((served(client)?, *id)))
            .collect();
        order.sort_unstable();
        let mut fresh = 0;
        for (_, id) in order {
            let Some(client) = self.clients.get_mut(&id) else {
                continue;
            };
            let build = client.build();
            let busy = client.connection.outgoing().len() > BUSY;
            let Some(player) = client.player_mut().filter(|player| !player.is_dead) else {
                continue;
            };
            let mut packets: Vec<Packet> = Vec::new();
            for at in look_around(player) {
                packets.push(unload(build, at));
            }
            if !busy && fresh < FRESH {
                let next: Vec<At> = player
                    .queue
                    .drain(..COLUMNS.min(player.queue.len()))
                    .collect();
                if !next.is_empty() {
                    player.served = self.ticks;
                }
                fresh += next.iter().filter(|at| !self.world.is_packed(**at)).count();
                player.loaded.extend(&next);
                let pieces: Vec<(At, Arc<Piece>)> = next
                    .into_iter()
                    .map(|at| (at, self.world.piece(at)))
                    .collect();
                if build >= Build::W27a && !pieces.is_empty() {
                    packets.push(bulk(&pieces).into());
                } else {
                    for (at, piece) in &pieces {
                        // Builds since 12w18a lack this packet, and the connection drops it.
                        packets.push(
                            PreChunk {
                                x: at.0,
                                z: at.1,
                                load: true,
                            }
                            .into(),
                        );
                        packets.push(chunk(*at, true, piece).into());
                    }
                }
            }
            for packet in packets {
                client.send(packet);
            }
        }
    }

    /// Unloads all columns and entities of a client, to be sent again. A client that respawns in
    /// the same dimension keeps them, so those out of view would stay forever.
    pub(super) fn unload_all(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let build = client.build();
        let Some(player) = client.player_mut() else {
            return;
        };
        player.center = None;
        let loaded = std::mem::take(&mut player.loaded);
        let seen = std::mem::take(&mut player.seen);
        destroy(client, &seen.into_iter().collect::<Vec<_>>());
        for at in loaded {
            client.send(unload(build, at));
        }
    }

    /// Sends the blocks that changed in this tick.
    pub(super) fn send_changes(&mut self) {
        for (at, blocks) in self.world.changes() {
            let packet: Packet = match blocks.len() {
                0 => continue,
                1 => changed_block(at, &blocks),
                2..MAX_SINGLE_CHANGES => changed_blocks(at, &blocks),
                _ => {
                    let sections = blocks
                        .keys()
                        .fold(0, |mask, (_, _, y)| mask | 1 << (y >> 4));
                    chunk(at, false, &self.world.sections(at, sections)).into()
                }
            };
            self.send_to(packet, |player| player.loaded.contains(&at));
        }
    }

    /// Sends entities that came into view or went out of it, and movements.
    pub(super) fn show_entities(&mut self) {
        let mut there: HashMap<i32, At> = HashMap::new();
        let players = self
            .clients
            .values()
            .filter_map(Client::player)
            .filter(|player| !player.is_dead);
        there.extend(players.map(|player| (player.entity, player.position.column())));
        there.extend(
            self.items
                .iter()
                .map(|(entity, item)| (*entity, item.place.column())),
        );

        let mut news = Vec::new();
        for (id, client) in &mut self.clients {
            let Some(player) = client.player_mut() else {
                continue;
            };
            let visible: BTreeSet<i32> = there
                .iter()
                .filter(|(entity, at)| **entity != player.entity && player.loaded.contains(at))
                .map(|(entity, _)| *entity)
                .collect();
            let gone: Vec<i32> = player.seen.difference(&visible).copied().collect();
            news.extend(
                visible
                    .difference(&player.seen)
                    .map(|entity| (*id, *entity)),
            );
            player.seen = visible;
            destroy(client, &gone);
        }
        for (id, entity) in news {
            for packet in self.spawn(entity) {
                self.send(id, packet);
            }
        }
        self.show_moves();
    }

    /// Returns the packets that spawn an entity for other players.
    fn spawn(&self, entity: i32) -> Vec<Packet> {
        if let Some(item) = self.items.get(&entity) {
            return vec![item.spawn(entity).into()];
        }
        let player = self
            .clients
            .values()
            .filter_map(Client::player)
            .find(|player| player.entity == entity);
        player.map_or_else(Vec::new, |player| {
            let metadata = EntityMetadata {
                entity,
                metadata: player.metadata(),
            };
            let head = EntityHeadLook {
                entity,
                head_yaw: player.shown.yaw,
            };
            vec![
                player.spawn().into(),
                player.equipment().into(),
                metadata.into(),
                head.into(),
            ]
        })
    }

    fn show_moves(&mut self) {
        let mut moves: Vec<(i32, Vec<Packet>)> = Vec::new();
        for player in self.clients.values_mut().filter_map(Client::player_mut) {
            let now = player.now();
            if now != player.shown {
                moves.push((player.entity, moved(player.entity, player.shown, now)));
                player.shown = now;
            }
        }
        for (entity, packets) in moves {
            for packet in packets {
                self.send_to_watchers(entity, packet);
            }
        }
    }
}

/// Queues the columns for a player who entered another column, nearest first. Returns the columns
/// that went out of view.
fn look_around(player: &mut Player) -> Vec<At> {
    let center @ (cx, cz) = player.position.column();
    if player.center == Some(center) {
        return Vec::new();
    }
    player.center = Some(center);
    let view = player.view;
    let far = |(x, z): At| {
        (i64::from(x) - i64::from(cx))
            .abs()
            .max((i64::from(z) - i64::from(cz)).abs())
    };
    // One more than the view distance, so that walking across a border repeatedly does not resend
    // columns.
    let gone: Vec<At> = player
        .loaded
        .iter()
        .copied()
        .filter(|at| far(*at) > i64::from(view) + 1)
        .collect();
    gone.iter().for_each(|at| {
        player.loaded.remove(at);
    });
    let around = (-view..=view).flat_map(|x| (-view..=view).map(move |z| (x, z)));
    let mut wanted: Vec<(i32, At)> = around
        .map(|(x, z)| (x * x + z * z, (cx.wrapping_add(x), cz.wrapping_add(z))))
        .filter(|(_, at)| !player.loaded.contains(at))
        .collect();
    wanted.sort_unstable();
    player.queue = wanted
        .into_iter()
        .map(|(_, at)| at)
        .collect::<VecDeque<_>>();
    gone
}

fn chunk((x, z): At, ground_up: bool, piece: &Piece) -> ChunkData {
    ChunkData {
        x,
        z,
        ground_up,
        masks: piece.masks,
        data: Zlib {
            unused: 0,
            bytes: join([piece]),
        },
    }
}

/// Unloads a column. Since 12w18a this is a column without sections. Clients ignore its biomes, so
/// they are constant: the real ones would require generating the column again
/// (spec/minecraft-12w.md#7).
fn unload(build: Build, (x, z): At) -> Packet {
    if build < Build::W18a {
        return PreChunk { x, z, load: false }.into();
    }
    let data = Zlib {
        unused: 0,
        bytes: PLAINS.to_vec(),
    };
    ChunkData {
        x,
        z,
        ground_up: true,
        masks: SectionMasks::default(),
        data,
    }
    .into()
}

fn bulk(pieces: &[(At, Arc<Piece>)]) -> MapChunkBulk {
    let metas = pieces
        .iter()
        .map(|&((x, z), ref piece)| ColumnMeta {
            x,
            z,
            masks: piece.masks,
        })
        .collect();
    MapChunkBulk {
        columns: ColumnBulk::new(metas, join(pieces.iter().map(|(_, piece)| &**piece))),
    }
}

fn changed_block(at: At, blocks: &BTreeMap<BlockPosition, Block>) -> Packet {
    let (place, block) = blocks
        .first_key_value()
        .map_or(((0, 0, 0), Block::AIR), |(place, block)| (*place, *block));
    let (x, y, z) = spot(at, place);
    BlockChange {
        x,
        y,
        z,
        block: BlockType(block.id.cast_signed()),
        metadata: block.metadata,
    }
    .into()
}

fn changed_blocks((x, z): At, blocks: &BTreeMap<BlockPosition, Block>) -> Packet {
    let record = |(&(x, z, y), block): (&BlockPosition, &Block)| BlockRecord {
        x,
        y,
        z,
        id: block.id,
        metadata: block.metadata,
    };
    MultiBlockChange {
        x,
        z,
        records: BlockRecords::new(blocks.iter().map(record).collect()),
    }
    .into()
}

/// Returns the packets that remove entities: one per entity before 12w27a, lists since
/// (spec/minecraft-12w.md#2).
fn destroy(client: &mut Client, gone: &[i32]) {
    let at_once = if client.build() < Build::W27a {
        1
    } else {
        DESTROYED
    };
    for some in gone.chunks(at_once) {
        let entity = some.first().copied().unwrap_or_default();
        client.send(DestroyEntities {
            entity,
            entities: List8::new(some.to_vec()),
        });
    }
}

/// Returns the packets of a movement: relative if it is small.
fn moved(entity: i32, from: ShownPosition, to: ShownPosition) -> Vec<Packet> {
    let ShownPosition {
        place: [x, y, z],
        yaw,
        pitch,
    } = to;
    let turned = (from.yaw, from.pitch) != (yaw, pitch);
    let delta = |i: usize| {
        let at = |shown: ShownPosition| shown.place.get(i).copied().unwrap_or(Absolute(0)).0;
        i8::try_from(at(to).wrapping_sub(at(from))).ok().map(Delta)
    };
    let mut packets: Vec<Packet> = Vec::new();
    packets.push(match (delta(0), delta(1), delta(2)) {
        (Some(Delta(0)), Some(Delta(0)), Some(Delta(0))) => {
            EntityLook { entity, yaw, pitch }.into()
        }
        (Some(dx), Some(dy), Some(dz)) if turned => EntityLookRelativeMove {
            entity,
            dx,
            dy,
            dz,
            yaw,
            pitch,
        }
        .into(),
        (Some(dx), Some(dy), Some(dz)) => EntityRelativeMove { entity, dx, dy, dz }.into(),
        _ => EntityTeleport {
            entity,
            x,
            y,
            z,
            yaw,
            pitch,
        }
        .into(),
    });
    if from.yaw != yaw {
        packets.push(
            EntityHeadLook {
                entity,
                head_yaw: yaw,
            }
            .into(),
        );
    }
    packets
}
