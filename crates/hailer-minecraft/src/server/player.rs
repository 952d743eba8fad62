//! One player in the world.

use super::bucket::Bucket;
use super::config::GameMode;
use super::inventory::{HOTBAR, Inventory};
use super::terrain::At;
use crate::table::{EntityEquipment, PlayerAbilities, PlayerListItem, SpawnNamedEntity};
use crate::types::{Abilities, Absolute, Angle, Metadata, MetadataValue, Slot};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::Duration;

/// Height of the eyes above the feet, in blocks: 1.62 as an f32, as in the game.
pub(super) const EYES: f64 = 1.62_f32 as f64;
/// Half of the width and the height of a body, in blocks.
pub(super) const BODY: (f64, f64) = (0.3, 1.8);
/// Crouching and sprinting in the first byte of the metadata (spec/minecraft-12w.md#4.5).
pub(super) const CROUCHING: i8 = 2;
pub(super) const SPRINTING: i8 = 8;

/// Position in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Position {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) z: f64,
}

impl Position {
    /// Returns the block at the feet.
    pub(super) fn block(self) -> (i32, i32, i32) {
        (
            self.x.floor() as i32,
            self.y.floor() as i32,
            self.z.floor() as i32,
        )
    }

    /// Returns the column.
    pub(super) fn column(self) -> At {
        let (x, _, z) = self.block();
        (x >> 4, z >> 4)
    }

    pub(super) fn distance(self, other: Self) -> f64 {
        ((self.x - other.x).powi(2) + (self.y - other.y).powi(2) + (self.z - other.z).powi(2))
            .sqrt()
    }

    /// Returns the position in wire format.
    pub(super) fn absolute(self) -> [Absolute; 3] {
        [self.x, self.y, self.z].map(Absolute::from_unit)
    }
}

/// Position that other clients know. Relative moves count from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownPosition {
    pub(super) place: [Absolute; 3],
    pub(super) yaw: Angle,
    pub(super) pitch: Angle,
}

/// Progress of digging.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digging {
    pub(super) block: (i32, i32, i32),
    /// Ticks since the start.
    pub(super) ticks: u32,
    pub(super) stage: u8,
}

/// A player in the game.
pub(super) struct Player {
    pub(super) name: String,
    pub(super) entity: i32,
    pub(super) mode: GameMode,
    pub(super) position: Position,
    pub(super) yaw: f32,
    pub(super) pitch: f32,
    pub(super) shown: ShownPosition,
    /// Unconfirmed teleport, and ticks since it was sent.
    pub(super) teleport: Option<(Position, u32)>,
    pub(super) flags: i8,
    /// Selected slot of the hotbar, 0 to 8.
    pub(super) held: i16,
    pub(super) inventory: Inventory,
    /// Whether a click was refused, so that the client shows a wrong inventory.
    pub(super) is_misled: bool,
    pub(super) view: i32,
    pub(super) center: Option<At>,
    pub(super) loaded: HashSet<At>,
    pub(super) queue: VecDeque<At>,
    /// Tick in which columns were sent last.
    pub(super) served: u64,
    /// Entities that the client knows.
    pub(super) seen: BTreeSet<i32>,
    /// Keep alive without a reply, and when it was sent.
    pub(super) keep_alive: Option<(i32, Duration)>,
    pub(super) ping: i16,
    pub(super) chat: Bucket,
    pub(super) motion: Bucket,
    pub(super) changes: Bucket,
    pub(super) digging: Option<Digging>,
    pub(super) is_dead: bool,
    /// Movement packets in the air since the player last touched or approached a block.
    pub(super) airborne: u32,
}

impl Player {
    pub(super) fn new(
        name: String,
        entity: i32,
        mode: GameMode,
        position: Position,
        view: i32,
    ) -> Self {
        Self {
            name,
            entity,
            mode,
            position,
            yaw: 0.0,
            pitch: 0.0,
            shown: ShownPosition {
                place: position.absolute(),
                ..ShownPosition::default()
            },
            teleport: None,
            flags: 0,
            held: 0,
            inventory: Inventory::default(),
            is_misled: false,
            view,
            center: None,
            loaded: HashSet::new(),
            queue: VecDeque::new(),
            served: 0,
            seen: BTreeSet::new(),
            keep_alive: None,
            ping: 0,
            chat: Bucket::default(),
            motion: Bucket::default(),
            changes: Bucket::default(),
            digging: None,
            is_dead: false,
            airborne: 0,
        }
    }

    pub(super) fn held_slot(&self) -> i16 {
        HOTBAR + self.held
    }

    pub(super) fn held_item(&self) -> &Slot {
        self.inventory.slot(self.held_slot())
    }

    /// Returns the row of the player in the list of players.
    pub(super) fn row(&self) -> PlayerListItem {
        PlayerListItem {
            name: self.name.as_str().into(),
            online: true,
            ping: self.ping,
        }
    }

    pub(super) fn now(&self) -> ShownPosition {
        let yaw = Angle::from_degrees(self.yaw);
        let pitch = Angle::from_degrees(self.pitch);
        ShownPosition {
            place: self.position.absolute(),
            yaw,
            pitch,
        }
    }

    pub(super) fn abilities(&self) -> PlayerAbilities {
        let abilities = match self.mode {
            GameMode::Survival => 0,
            GameMode::Creative => {
                Abilities::INVULNERABLE | Abilities::CAN_FLY | Abilities::INSTANT_BUILD
            }
        };
        PlayerAbilities {
            abilities: Abilities(abilities),
            fly_speed: 12,
            walk_speed: 25,
        }
    }

    /// Returns the metadata. Clients crash without any value (spec/minecraft-12w.md#5.1).
    pub(super) fn metadata(&self) -> Metadata {
        Metadata::default()
            .with(0, MetadataValue::Byte(self.flags))
            .with(1, MetadataValue::Short(300))
    }

    pub(super) fn spawn(&self) -> SpawnNamedEntity {
        let ShownPosition {
            place: [x, y, z],
            yaw,
            pitch,
        } = self.shown;
        SpawnNamedEntity {
            entity: self.entity,
            name: self.name.as_str().into(),
            x,
            y,
            z,
            yaw,
            pitch,
            held: self.held_item().id.max(0),
            metadata: self.metadata(),
        }
    }

    /// Returns the held item without NBT, since invalid NBT of one client could crash others.
    pub(super) fn equipment(&self) -> EntityEquipment {
        let &Slot {
            id, count, damage, ..
        } = self.held_item();
        let item = if id < 0 {
            Slot::EMPTY
        } else {
            Slot::of(id, count, damage)
        };
        EntityEquipment {
            entity: self.entity,
            place: 0,
            item_id: id,
            item_damage: damage.max(0),
            item,
        }
    }

    /// Returns whether the body overlaps a block.
    pub(super) fn overlaps(&self, (x, y, z): (i32, i32, i32)) -> bool {
        let (half, height) = BODY;
        let across = |at: f64, block: i32| {
            at + half > f64::from(block) && at - half < f64::from(block) + 1.0
        };
        let Position {
            x: px,
            y: py,
            z: pz,
        } = self.position;
        across(px, x) && across(pz, z) && py + height > f64::from(y) && py < f64::from(y) + 1.0
    }

    /// Returns whether the middle of a block is at most six blocks from the eyes.
    pub(super) fn reaches(&self, (x, y, z): (i32, i32, i32)) -> bool {
        let middle = |at: i32| f64::from(at) + 0.5;
        let eyes = Position {
            y: self.position.y + EYES,
            ..self.position
        };
        eyes.distance(Position {
            x: middle(x),
            y: middle(y),
            z: middle(z),
        }) <= 6.0
    }
}
