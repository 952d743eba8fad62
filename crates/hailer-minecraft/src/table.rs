//! Packet table: every packet of every build, one row each, with fields in wire order
//! (spec/minecraft-12w.md#5).
//!
//! The brackets list the builds that have a row or a field: `[..]` all, `[W16a..]` since 12w16a,
//! `[..=W17a]` up to 12w17a. The table defines the presence of fields, and the types define their
//! layout. A name has only one meaning: a packet whose meaning depends on the direction has two
//! rows.

use crate::build::Build::{self, *};
use crate::chunk::SectionMasks;
use crate::packet::{PacketDirection, packets};
use crate::sample::SampleRng;
use crate::types::*;
use hailer_proto::wire::{Error, Reader};
use serde::ser::{SerializeMap, Serializer};
use std::fmt;

packets! {
    /// One side sends a number, the other returns it.
    0x00 KeepAlive Both [..] { token: i32 }
    /// Accepts the login: entity id of the player, and properties of the world.
    0x01 Login ToClient [..] {
        entity: i32, unused: WireString<16> [..=W16a], level_type: WireString<16>, mode: Shrunk, dimension: Shrunk, difficulty: i8,
        height: u8, max_players: u8,
    }
    /// Requests the login: with name and protocol number until 12w16a, empty since 12w18a. Since
    /// 12w24a it has the fields of the reply and is never sent.
    0x01 LoginRequest ToServer [..] {
        protocol: i32 [..=W17a, W24a..], name: WireString<16> [..=W16a], level_type: WireString<16> [..=W17a, W24a..],
        mode: Shrunk [..=W17a, W24a..], dimension: Shrunk [..=W17a, W24a..], difficulty: i8 [..=W17a, W24a..],
        height: u8 [..=W17a, W24a..], max_players: u8 [..=W17a, W24a..],
    }
    /// First packet: player name and server name. Until 12w16a one string, `user;host:port`.
    0x02 Handshake ToServer [..] {
        who: WireString<64> [..=W16a], protocol: i8 [W17a..], name: WireString<16> [W17a..], host: WireString<255> [W18a..],
        port: i32 [W18a..],
    }
    /// `-` if the server does not check accounts, else the id for the account check.
    0x02 HandshakeReply ToClient [..=W16a] { id: WireString<64> }
    /// A line of chat. Servers kick clients that send more than 100 UTF-16 units.
    0x03 Chat Both [..] { text: WireString<119> }
    /// Ticks; a day has 24,000.
    0x04 TimeUpdate ToClient [..] { time: i64 }
    /// The held item (slot 0) or armour (1 boots to 4 helmet) of an entity.
    0x05 EntityEquipment ToClient [..] {
        entity: i32, place: i16, item_id: i16 [..=W22a], item_damage: i16 [..=W22a], item: Slot [W23a..],
    }
    /// Spawn point, where compasses point to.
    0x06 SpawnPosition ToClient [..] { x: i32, y: i32, z: i32 }
    /// A click on an entity: 0 uses it, 1 hits it.
    0x07 UseEntity ToServer [..] { user: i32, target: i32, button: i8 }
    /// Health up to 20 (0 dead), food up to 20, and food saturation.
    0x08 UpdateHealth ToClient [..] { health: i16, food: i16, saturation: f32 }
    /// Spawns the player again, perhaps in another dimension.
    0x09 Respawn ToClient [..] { dimension: i32, difficulty: i8, mode: i8, height: i16, level_type: WireString<16> }
    /// Requests a respawn: with the fields of `Respawn` until 12w17a, empty since 12w18a. Since
    /// 12w24a `ClientStatus` is sent instead.
    0x09 RespawnRequest ToServer [..] {
        dimension: i32 [..=W17a, W24a..], difficulty: i8 [..=W17a, W24a..], mode: i8 [..=W17a, W24a..],
        height: i16 [..=W17a, W24a..], level_type: WireString<16> [..=W17a, W24a..],
    }
    /// The player did not move.
    0x0A Player Both [..] { on_ground: bool }
    /// Position of the player: feet at y, eyes at stance.
    0x0B PlayerPosition Both [..] { x: f64, y: f64, stance: f64, z: f64, on_ground: bool }
    /// View direction of the player, in degrees.
    0x0C PlayerLook Both [..] { yaw: f32, pitch: f32, on_ground: bool }
    /// Position of the player: feet at y, eyes at stance.
    0x0D PlayerPositionLook ToServer [..] {
        x: f64, y: f64, stance: f64, z: f64, yaw: f32, pitch: f32, on_ground: bool,
    }
    /// Sets the position of the player; the client returns it. The eyes, feet + 1.62, come before
    /// the feet.
    0x0D PlayerTeleport ToClient [..] {
        x: f64, stance: f64, y: f64, z: f64, yaw: f32, pitch: f32, on_ground: bool,
    }
    /// Digging: 0 start, 1 cancel, 2 done. Held item: 4 drop, 5 release.
    0x0E PlayerDigging ToServer [..] { status: u8, x: i32, y: u8, z: i32, face: u8 }
    /// Places a block against a face of another, or uses the held item (direction 255).
    0x0F PlayerBlockPlacement ToServer [..] {
        x: i32, y: u8, z: i32, direction: u8, held: Slot, cursor_x: u8 [W22a..], cursor_y: u8 [W22a..],
        cursor_z: u8 [W22a..],
    }
    /// Selected slot of the hotbar, 0 to 8.
    0x10 HeldItemChange ToServer [..] { place: i16 }
    /// A player lies down in a bed.
    0x11 UseBed ToClient [..] { entity: i32, unused: i8, x: i32, y: i8, z: i32 }
    /// Animation: 1 swing, 2 hurt, 3 leave bed, 5 eat, 6 and 7 critical hits.
    0x12 Animation Both [..] { entity: i32, animation: i8 }
    /// Action: 1 crouch, 2 stand up, 3 leave bed, 4 sprint, 5 stop sprinting.
    0x13 EntityAction ToServer [..] { entity: i32, action: i8 }
    /// Another player came into view.
    0x14 SpawnNamedEntity ToClient [..] {
        entity: i32, name: WireString<16>, x: Absolute, y: Absolute, z: Absolute, yaw: Angle, pitch: Angle, held: i16,
        metadata: Metadata [W30a..],
    }
    /// A dropped item came into view.
    0x15 SpawnDroppedItem ToClient [..] {
        entity: i32, item: i16, count: i8, damage: i16, x: Absolute, y: Absolute, z: Absolute, vx: ItemVelocity,
        vy: ItemVelocity, vz: ItemVelocity,
    }
    /// An entity picked an item up.
    0x16 CollectItem ToClient [..] { collected: i32, collector: i32 }
    /// An object came into view, such as a boat, an arrow or a falling block.
    0x17 SpawnObject ToClient [..] { entity: i32, kind: i8, x: Absolute, y: Absolute, z: Absolute, data: ObjectData }
    /// An animal or monster came into view.
    0x18 SpawnMob ToClient [..] {
        entity: i32, kind: u8, x: Absolute, y: Absolute, z: Absolute, yaw: Angle, pitch: Angle, head_yaw: Angle,
        vx: Velocity [W27a..], vy: Velocity [W27a..], vz: Velocity [W27a..], metadata: Metadata,
    }
    /// A painting came into view.
    0x19 SpawnPainting ToClient [..] { entity: i32, title: WireString<13>, x: i32, y: i32, z: i32, direction: i32 }
    /// An experience orb came into view.
    0x1A SpawnExperienceOrb ToClient [..] { entity: i32, x: Absolute, y: Absolute, z: Absolute, amount: i16 }
    /// Velocity of an entity.
    0x1C EntityVelocity ToClient [..] { entity: i32, vx: Velocity, vy: Velocity, vz: Velocity }
    /// Entities went out of view or died.
    0x1D DestroyEntities ToClient [..] { entity: i32 [..=W26a], entities: List8<i32> [W27a..] }
    /// An entity did not move.
    0x1E Entity ToClient [..] { entity: i32 }
    /// An entity moved by less than four blocks.
    0x1F EntityRelativeMove ToClient [..] { entity: i32, dx: Delta, dy: Delta, dz: Delta }
    /// An entity turned.
    0x20 EntityLook ToClient [..] { entity: i32, yaw: Angle, pitch: Angle }
    /// An entity moved and turned.
    0x21 EntityLookRelativeMove ToClient [..] {
        entity: i32, dx: Delta, dy: Delta, dz: Delta, yaw: Angle, pitch: Angle,
    }
    /// An entity moved by any distance.
    0x22 EntityTeleport ToClient [..] { entity: i32, x: Absolute, y: Absolute, z: Absolute, yaw: Angle, pitch: Angle }
    /// An entity turned its head.
    0x23 EntityHeadLook ToClient [..] { entity: i32, head_yaw: Angle }
    /// Status of an entity: 2 hurt, 3 dead, 6 and 7 taming, 8 shaking, 9 eating done.
    0x26 EntityStatus ToClient [..] { entity: i32, status: i8 }
    /// An entity mounted a vehicle; -1 means it dismounted.
    0x27 AttachEntity ToClient [..] { entity: i32, vehicle: i32 }
    /// Visible properties of an entity.
    0x28 EntityMetadata ToClient [..] { entity: i32, metadata: Metadata }
    /// A potion effect began; duration in ticks.
    0x29 EntityEffect ToClient [..] { entity: i32, effect: i8, amplifier: i8, ticks: i16 }
    /// A potion effect ended.
    0x2A RemoveEntityEffect ToClient [..] { entity: i32, effect: i8 }
    /// Experience: progress of the level, level, total.
    0x2B SetExperience ToClient [..] { bar: f32, level: i16, total: i16 }
    /// Announces or unloads a column.
    0x32 PreChunk ToClient [..=W17a] { x: i32, z: i32, load: bool }
    /// A column, or some of its sections. Since 12w18a, `ground_up` without sections unloads it.
    0x33 ChunkData ToClient [..] { x: i32, z: i32, ground_up: bool, masks: SectionMasks, data: Zlib }
    /// Several blocks of a column changed.
    0x34 MultiBlockChange ToClient [..] { x: i32, z: i32, records: BlockRecords }
    /// One block changed.
    0x35 BlockChange ToClient [..] { x: i32, y: u8, z: i32, block: BlockType, metadata: u8 }
    /// Action of a block: note block, piston, chest.
    0x36 BlockAction ToClient [..] { x: i32, y: i16, z: i32, first: u8, second: u8, block: i16 [W27a..] }
    /// Cracks in a block: 0 to 9; other values remove them.
    0x37 BlockBreakAnimation ToClient [W23a..] { breaker: i32, x: i32, y: i32, z: i32, stage: u8 }
    /// Several complete columns.
    0x38 MapChunkBulk ToClient [W27a..] { columns: ColumnBulk }
    /// Destroyed blocks, and the push on the player.
    0x3C Explosion ToClient [..] {
        x: f64, y: f64, z: f64, radius: f32, blocks: List32<BlockOffset>, push_x: f32 [W24a..], push_y: f32 [W24a..],
        push_z: f32 [W24a..],
    }
    /// A sound or particles by number.
    0x3D Effect ToClient [..] { effect: i32, x: i32, y: u8, z: i32, data: i32 }
    /// A sound by name; pitch 63 is normal.
    0x3E NamedSoundEffect ToClient [W18a..] {
        name: WireString<32>, x: Eighths, y: Eighths, z: Eighths, volume_byte: u8 [..=W24a], volume: f32 [W25a..], pitch: u8,
    }
    /// Event: 0 bed missing, 1 rain began, 2 rain ended, 3 game mode, 4 credits, 5 demo.
    0x46 ChangeGameState ToClient [..] { reason: i8, value: i8 }
    /// Lightning.
    0x47 Thunderbolt ToClient [..] { entity: i32, kind: i8, x: Absolute, y: Absolute, z: Absolute }
    /// Opens a window: 0 chest, 1 workbench, 2 furnace, 3 dispenser, 4 enchanting, 5 brewing, 6
    /// trade.
    0x64 OpenWindow ToClient [..] { window: u8, kind: u8, title: WireString<32>, slots: u8 }
    /// Either side closes a window.
    0x65 CloseWindow Both [..] { window: i8 }
    /// A click on a slot; -999 is outside the window.
    0x66 ClickWindow ToServer [..] { window: i8, slot: i16, button: i8, action: i16, shift: bool, item: Slot }
    /// Content of one slot; window and slot -1 mean the cursor.
    0x67 SetSlot ToClient [..] { window: i8, slot: i16, item: Slot }
    /// Content of all slots.
    0x68 SetWindowItems ToClient [..] { window: i8, items: List16<Slot> }
    /// Property of a window, such as the progress of a furnace.
    0x69 UpdateWindowProperty ToClient [..] { window: i8, property: i16, value: i16 }
    /// Whether a click was accepted.
    0x6A ConfirmTransaction Both [..] { window: i8, action: i16, accepted: bool }
    /// An item created in creative mode; slot -1 drops it.
    0x6B CreativeInventoryAction Both [..] { slot: i16, item: Slot }
    /// Choice of one of three enchantments.
    0x6C EnchantItem ToServer [..] { window: i8, choice: i8 }
    /// The four lines of a sign.
    0x82 UpdateSign Both [..] {
        x: i32, y: i16, z: i32, first: WireString<15>, second: WireString<15>, third: WireString<15>, fourth: WireString<15>,
    }
    /// Colors or icons of a map.
    0x83 ItemData ToClient [..] { item: i16, number: i16, data: MapData }
    /// Content of a spawner; NBT since 12w30c.
    0x84 UpdateTileEntity ToClient [..] {
        x: i32, y: i16, z: i32, action: i8, first: i32 [..=W30b], second: i32 [..=W30b], third: i32 [..=W30b],
        tag: NbtData [W30c..],
    }
    /// Statistics of the player.
    0xC8 IncrementStatistic ToClient [..] { statistic: i32, amount: i8 }
    /// A player on the list of players, with the latency in milliseconds.
    0xC9 PlayerListItem ToClient [..] { name: WireString<16>, online: bool, ping: i16 }
    /// Abilities and speeds of the player. Speeds are in 1/255: 12 flying, 25 walking.
    0xCA PlayerAbilities Both [..] { abilities: Abilities, fly_speed: i8 [W18a..], walk_speed: i8 [W18a..] }
    /// The text before the cursor, or its completions, separated by NUL.
    0xCB TabComplete Both [W16a..] { text: WireString<119> }
    /// Settings of the client: language, view distance (0 far to 3 tiny), chat, difficulty.
    0xCC ClientSettings ToServer [W16a..] {
        locale: WireString<7>, view_distance: Shrunk, chat: i8 [W17a..], difficulty: i8 [W18a..],
    }
    /// Request: 0 login, 1 respawn.
    0xCD ClientStatus ToServer [W24a..] { status: i8 }
    /// A message between plugins.
    0xFA PluginMessage Both [..] { channel: WireString<20>, data: Bytes16 }
    /// The secret of the connection, encrypted. The server replies with an empty one.
    0xFC EncryptionResponse Both [W17a..] { secret: Bytes16, token: Bytes16 [W25a..] }
    /// The server's public key, and what to encrypt with it.
    0xFD EncryptionRequest ToClient [W17a..] { server_id: WireString<20>, key: Bytes16, token: Bytes16 [W25a..] }
    /// Requests the status of the server.
    0xFE ServerListPing ToServer [..] {}
    /// Ends the connection, with the reason. In reply to a ping, the status.
    0xFF Kick Both [..] { reason: WireString<256> }
}

/// Directions in which a packet type exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDirections {
    /// Server to client only.
    ToClient,
    /// Client to server only.
    ToServer,
    /// Both directions.
    Both,
}

impl PacketDirections {
    /// Returns whether a packet may be sent in this direction.
    #[inline]
    pub const fn admits(self, direction: PacketDirection) -> bool {
        matches!(
            (self, direction),
            (Self::Both, _)
                | (Self::ToClient, PacketDirection::ToClient)
                | (Self::ToServer, PacketDirection::ToServer)
        )
    }
}

/// Description of a packet type: one row of the table.
#[derive(Debug)]
pub struct PacketInfo {
    /// First byte of the packet.
    pub id: u8,
    /// Name of the packet.
    pub name: &'static str,
    /// Directions in which it exists.
    pub directions: PacketDirections,
    /// Builds that have it, as written in the table.
    pub builds: &'static str,
    /// Returns whether a build has it.
    pub exists: fn(Build) -> bool,
    /// Purpose of the packet.
    pub help: &'static str,
    /// Fields in wire order.
    pub fields: &'static [FieldInfo],
    /// Generates a random packet that this build can write and read back.
    pub sample: fn(&mut SampleRng, Build) -> Packet,
}

impl PacketInfo {
    /// Returns whether the packet exists in this build and direction.
    pub fn is_in(&self, direction: PacketDirection, build: Build) -> bool {
        self.directions.admits(direction) && (self.exists)(build)
    }
}

/// Description of a packet field.
#[derive(Debug)]
pub struct FieldInfo {
    /// Name of the field.
    pub name: &'static str,
    /// Type of the field: a number, or one of [`types`](crate::types).
    pub ty: &'static str,
    /// Builds that have the field, among those that have the packet. Empty means all.
    pub builds: &'static str,
    /// Returns whether a build has it.
    pub exists: fn(Build) -> bool,
}

/// A packet with its build, which determines its fields. Implements `Display` for people and
/// `Serialize` for programs.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    pub(crate) packet: &'a Packet,
    pub(crate) build: Build,
}
