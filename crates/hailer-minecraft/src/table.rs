//! **The** table: every packet of every build, one row each, fields in the order of the wire (spec/minecraft-12w.md#5).
//!
//! The margin says which builds have a row or a field: `[..]` all, `[W16a..]` since 12w16a, `[..=W17a]` until 12w17a.
//! Three rules: presence varies here; layout varies in the type; meaning never varies under one name, so a packet that
//! means something else in the other direction is a row of its own.

use crate::build::Build::{self, *};
use crate::chunk::SectionMasks;
use crate::packet::{
    FieldInfo, PacketDirection, PacketDirections, PacketInfo, PacketView, packets,
};
use crate::sample::SampleRng;
use crate::types::*;
use hailer_proto::wire::{Error, Reader};
use serde::ser::{SerializeMap, Serializer};
use std::fmt;

packets! {
    /// Either side asks for a sign of life, the other returns the number.
    0x00 KeepAlive Both [..] { token: i32 }
    /// Ends the login: who you are, and what world this is.
    0x01 Login ToClient [..] {
        entity: i32, unused: WireString<16> [..=W16a], level_type: WireString<16>, mode: Shrunk, dimension: Shrunk, difficulty: i8,
        height: u8, max_players: u8,
    }
    /// Asks to enter: with name and number until 12w16a, an empty packet from 12w18a. Since 12w24a the game still knows
    /// it, in the form of the answer, but never sends it.
    0x01 LoginRequest ToServer [..] {
        protocol: i32 [..=W17a, W24a..], name: WireString<16> [..=W16a], level_type: WireString<16> [..=W17a, W24a..],
        mode: Shrunk [..=W17a, W24a..], dimension: Shrunk [..=W17a, W24a..], difficulty: i8 [..=W17a, W24a..],
        height: u8 [..=W17a, W24a..], max_players: u8 [..=W17a, W24a..],
    }
    /// The first packet: who wants in, by what name of the server. Until 12w16a one text, `user;host:port`.
    0x02 Handshake ToServer [..] {
        who: WireString<64> [..=W16a], protocol: i8 [W17a..], name: WireString<16> [W17a..], host: WireString<255> [W18a..],
        port: i32 [W18a..],
    }
    /// `-` to enter without a check of the account, else what the check is to be told.
    0x02 HandshakeReply ToClient [..=W16a] { id: WireString<64> }
    /// What somebody says. Servers throw out who says more than 100 units.
    0x03 Chat Both [..] { text: WireString<119> }
    /// Ticks; a day has 24,000.
    0x04 TimeUpdate ToClient [..] { time: i64 }
    /// What somebody holds (0) or wears (1 boots to 4 helmet).
    0x05 EntityEquipment ToClient [..] {
        entity: i32, place: i16, item_id: i16 [..=W22a], item_damage: i16 [..=W22a], item: Slot [W23a..],
    }
    /// Where a compass points.
    0x06 SpawnPosition ToClient [..] { x: i32, y: i32, z: i32 }
    /// A click on an entity: 0 uses, 1 hits.
    0x07 UseEntity ToServer [..] { user: i32, target: i32, button: i8 }
    /// Health up to 20, 0 is dead; food up to 20, and how long it lasts.
    0x08 UpdateHealth ToClient [..] { health: i16, food: i16, saturation: f32 }
    /// Puts the player into a world anew.
    0x09 Respawn ToClient [..] { dimension: i32, difficulty: i8, mode: i8, height: i16, level_type: WireString<16> }
    /// Asks for it: with the same fields until 12w17a, an empty packet from 12w18a. Since 12w24a the game still knows it,
    /// but sends `ClientStatus`.
    0x09 RespawnRequest ToServer [..] {
        dimension: i32 [..=W17a, W24a..], difficulty: i8 [..=W17a, W24a..], mode: i8 [..=W17a, W24a..],
        height: i16 [..=W17a, W24a..], level_type: WireString<16> [..=W17a, W24a..],
    }
    /// Standing still.
    0x0A Player Both [..] { on_ground: bool }
    /// Feet at y, eyes at stance.
    0x0B PlayerPosition Both [..] { x: f64, y: f64, stance: f64, z: f64, on_ground: bool }
    /// Degrees.
    0x0C PlayerLook Both [..] { yaw: f32, pitch: f32, on_ground: bool }
    /// Feet at y, eyes at stance.
    0x0D PlayerPositionLook ToServer [..] {
        x: f64, y: f64, stance: f64, z: f64, yaw: f32, pitch: f32, on_ground: bool,
    }
    /// Puts the player there; the client says the same back. Here the eyes, feet + 1.62, come before the feet.
    0x0D PlayerTeleport ToClient [..] {
        x: f64, stance: f64, y: f64, z: f64, yaw: f32, pitch: f32, on_ground: bool,
    }
    /// 0 starts, 1 stops, 2 has done; 4 drops the item held, 5 lets go of it.
    0x0E PlayerDigging ToServer [..] { status: u8, x: i32, y: u8, z: i32, face: u8 }
    /// Puts a block against a face of another, or uses the item held (direction 255).
    0x0F PlayerBlockPlacement ToServer [..] {
        x: i32, y: u8, z: i32, direction: u8, held: Slot, cursor_x: u8 [W22a..], cursor_y: u8 [W22a..],
        cursor_z: u8 [W22a..],
    }
    /// Place of the hotbar, 0 to 8.
    0x10 HeldItemChange ToServer [..] { place: i16 }
    /// Somebody goes to bed.
    0x11 UseBed ToClient [..] { entity: i32, unused: i8, x: i32, y: i8, z: i32 }
    /// 1 swings an arm, 2 is hurt, 3 leaves bed, 5 eats, 6 and 7 critical hits.
    0x12 Animation Both [..] { entity: i32, animation: i8 }
    /// 1 crouches, 2 stands up, 3 leaves bed, 4 sprints, 5 stops.
    0x13 EntityAction ToServer [..] { entity: i32, action: i8 }
    /// Another player comes into view.
    0x14 SpawnNamedEntity ToClient [..] {
        entity: i32, name: WireString<16>, x: Absolute, y: Absolute, z: Absolute, yaw: Angle, pitch: Angle, held: i16,
        metadata: Metadata [W30a..],
    }
    /// An item lies on the ground.
    0x15 SpawnDroppedItem ToClient [..] {
        entity: i32, item: i16, count: i8, damage: i16, x: Absolute, y: Absolute, z: Absolute, vx: ItemVelocity,
        vy: ItemVelocity, vz: ItemVelocity,
    }
    /// Somebody picks an item up.
    0x16 CollectItem ToClient [..] { collected: i32, collector: i32 }
    /// A boat, a cart, an arrow, a falling block, and the like.
    0x17 SpawnObject ToClient [..] { entity: i32, kind: i8, x: Absolute, y: Absolute, z: Absolute, data: ObjectData }
    /// An animal or a monster.
    0x18 SpawnMob ToClient [..] {
        entity: i32, kind: u8, x: Absolute, y: Absolute, z: Absolute, yaw: Angle, pitch: Angle, head_yaw: Angle,
        vx: Velocity [W27a..], vy: Velocity [W27a..], vz: Velocity [W27a..], metadata: Metadata,
    }
    /// A painting on a wall.
    0x19 SpawnPainting ToClient [..] { entity: i32, title: WireString<13>, x: i32, y: i32, z: i32, direction: i32 }
    /// Experience that flies about.
    0x1A SpawnExperienceOrb ToClient [..] { entity: i32, x: Absolute, y: Absolute, z: Absolute, amount: i16 }
    /// Something moves by itself from now on.
    0x1C EntityVelocity ToClient [..] { entity: i32, vx: Velocity, vy: Velocity, vz: Velocity }
    /// Entities go out of view, or die.
    0x1D DestroyEntities ToClient [..] { entity: i32 [..=W26a], entities: List8<i32> [W27a..] }
    /// Nothing changed.
    0x1E Entity ToClient [..] { entity: i32 }
    /// A move of less than four blocks.
    0x1F EntityRelativeMove ToClient [..] { entity: i32, dx: Delta, dy: Delta, dz: Delta }
    /// A turn.
    0x20 EntityLook ToClient [..] { entity: i32, yaw: Angle, pitch: Angle }
    /// Both.
    0x21 EntityLookRelativeMove ToClient [..] {
        entity: i32, dx: Delta, dy: Delta, dz: Delta, yaw: Angle, pitch: Angle,
    }
    /// A move of any length.
    0x22 EntityTeleport ToClient [..] { entity: i32, x: Absolute, y: Absolute, z: Absolute, yaw: Angle, pitch: Angle }
    /// A turn of the head.
    0x23 EntityHeadLook ToClient [..] { entity: i32, head_yaw: Angle }
    /// 2 is hurt, 3 dies, 6 and 7 tame, 8 shakes, 9 has eaten.
    0x26 EntityStatus ToClient [..] { entity: i32, status: i8 }
    /// Rides a vehicle, -1 gets off.
    0x27 AttachEntity ToClient [..] { entity: i32, vehicle: i32 }
    /// What an entity shows of itself.
    0x28 EntityMetadata ToClient [..] { entity: i32, metadata: Metadata }
    /// A potion begins to work, for so many ticks.
    0x29 EntityEffect ToClient [..] { entity: i32, effect: i8, amplifier: i8, ticks: i16 }
    /// It ends.
    0x2A RemoveEntityEffect ToClient [..] { entity: i32, effect: i8 }
    /// Share of the level, level, total.
    0x2B SetExperience ToClient [..] { bar: f32, level: i16, total: i16 }
    /// Makes room for a column, or forgets it.
    0x32 PreChunk ToClient [..=W17a] { x: i32, z: i32, load: bool }
    /// A column, or some of its sections; with `ground_up` and no sections, since 12w18a, it is forgotten.
    0x33 ChunkData ToClient [..] { x: i32, z: i32, ground_up: bool, masks: SectionMasks, data: Zlib }
    /// Several blocks of a column changed.
    0x34 MultiBlockChange ToClient [..] { x: i32, z: i32, records: BlockRecords }
    /// One block changed.
    0x35 BlockChange ToClient [..] { x: i32, y: u8, z: i32, block: BlockType, metadata: u8 }
    /// A note, a piston, a chest.
    0x36 BlockAction ToClient [..] { x: i32, y: i16, z: i32, first: u8, second: u8, block: i16 [W27a..] }
    /// Cracks: 0 to 9, anything else removes them.
    0x37 BlockBreakAnimation ToClient [W23a..] { breaker: i32, x: i32, y: i32, z: i32, stage: u8 }
    /// Several whole columns.
    0x38 MapChunkBulk ToClient [W27a..] { columns: ColumnBulk }
    /// Blocks that are gone, and the push that the player gets.
    0x3C Explosion ToClient [..] {
        x: f64, y: f64, z: f64, radius: f32, blocks: List32<BlockOffset>, push_x: f32 [W24a..], push_y: f32 [W24a..],
        push_z: f32 [W24a..],
    }
    /// A sound or particles by number.
    0x3D Effect ToClient [..] { effect: i32, x: i32, y: u8, z: i32, data: i32 }
    /// A sound by name; pitch 63 is its own.
    0x3E NamedSoundEffect ToClient [W18a..] {
        name: WireString<32>, x: Eighths, y: Eighths, z: Eighths, volume_byte: u8 [..=W24a], volume: f32 [W25a..], pitch: u8,
    }
    /// 0 no bed, 1 rain begins, 2 rain ends, 3 mode, 4 credits, 5 demo.
    0x46 ChangeGameState ToClient [..] { reason: i8, value: i8 }
    /// Lightning.
    0x47 Thunderbolt ToClient [..] { entity: i32, kind: i8, x: Absolute, y: Absolute, z: Absolute }
    /// 0 chest, 1 bench, 2 furnace, 3 dispenser, 4 enchanting, 5 brewing, 6 trade.
    0x64 OpenWindow ToClient [..] { window: u8, kind: u8, title: WireString<32>, slots: u8 }
    /// Either side closes a window.
    0x65 CloseWindow Both [..] { window: i8 }
    /// A click on a slot; -999 is outside.
    0x66 ClickWindow ToServer [..] { window: i8, slot: i16, button: i8, action: i16, shift: bool, item: Slot }
    /// One slot; window and slot -1 are the cursor.
    0x67 SetSlot ToClient [..] { window: i8, slot: i16, item: Slot }
    /// All slots.
    0x68 SetWindowItems ToClient [..] { window: i8, items: List16<Slot> }
    /// Progress of a furnace, and the like.
    0x69 UpdateWindowProperty ToClient [..] { window: i8, property: i16, value: i16 }
    /// Whether a click counted.
    0x6A ConfirmTransaction Both [..] { window: i8, action: i16, accepted: bool }
    /// An item out of nothing; slot -1 throws it.
    0x6B CreativeInventoryAction Both [..] { slot: i16, item: Slot }
    /// One of the three offers of an enchanting table.
    0x6C EnchantItem ToServer [..] { window: i8, choice: i8 }
    /// Four lines.
    0x82 UpdateSign Both [..] {
        x: i32, y: i16, z: i32, first: WireString<15>, second: WireString<15>, third: WireString<15>, fourth: WireString<15>,
    }
    /// Colours or icons of a map.
    0x83 ItemData ToClient [..] { item: i16, number: i16, data: MapData }
    /// What a spawner spawns; NBT since 12w30c.
    0x84 UpdateTileEntity ToClient [..] {
        x: i32, y: i16, z: i32, action: i8, first: i32 [..=W30b], second: i32 [..=W30b], third: i32 [..=W30b],
        tag: NbtData [W30c..],
    }
    /// Statistics of the player.
    0xC8 IncrementStatistic ToClient [..] { statistic: i32, amount: i8 }
    /// Who is on, and how far away, in milliseconds.
    0xC9 PlayerListItem ToClient [..] { name: WireString<16>, online: bool, ping: i16 }
    /// What the player may do, and how fast: 255ths, 12 flying and 25 walking.
    0xCA PlayerAbilities Both [..] { abilities: Abilities, fly_speed: i8 [W18a..], walk_speed: i8 [W18a..] }
    /// The text before the cursor, or its possible ends, parted by NUL.
    0xCB TabComplete Both [W16a..] { text: WireString<119> }
    /// Settings of the client: language, view distance (0 far to 3 tiny), chat, difficulty.
    0xCC ClientSettings ToServer [W16a..] {
        locale: WireString<7>, view_distance: Shrunk, chat: i8 [W17a..], difficulty: i8 [W18a..],
    }
    /// 0 enters, 1 respawns.
    0xCD ClientStatus ToServer [W24a..] { status: i8 }
    /// Anything between plugins.
    0xFA PluginMessage Both [..] { channel: WireString<20>, data: Bytes16 }
    /// The secret of the connection, encrypted; empty from the server, as its yes.
    0xFC EncryptionResponse Both [W17a..] { secret: Bytes16, token: Bytes16 [W25a..] }
    /// The server's public key, and what to encrypt with it.
    0xFD EncryptionRequest ToClient [W17a..] { server_id: WireString<20>, key: Bytes16, token: Bytes16 [W25a..] }
    /// Asks for the server's status.
    0xFE ServerListPing ToServer [..] {}
    /// The end, and why. To a ping, the status.
    0xFF Kick Both [..] { reason: WireString<256> }
}
