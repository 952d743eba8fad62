//! What a client knows of the game: the sum of what the server said.

use super::columns::Columns;
use super::entities::{Entities, EntityKind};
use super::event::ClientEvent;
use crate::build::Build;
use crate::table::{Login, Packet, PlayerListItem, PlayerTeleport, Respawn, SetSlot};
use crate::types::{Absolute, Slot, WireString};
use crate::world::World;
use hailer_proto::Text;
use hailer_proto::model::printable;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// More names on the list of players than this are not kept.
pub const MAX_LISTED: usize = 1024;
/// So many warnings are told in words; all are counted.
pub const MAX_WARNINGS: usize = 32;
/// The shortest view distance of real servers, in columns.
const AROUND: i32 = 3;
/// Slots of window 0, the player's own.
const SLOTS: usize = 45;
/// The first of the nine slots of the hotbar.
const HOTBAR: usize = 36;

/// GameState mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the modes of the game")]
pub enum ReportedMode {
    #[default]
    Survival,
    Creative,
    Adventure,
    /// None that 1.3 has.
    Unknown,
}

impl ReportedMode {
    /// From the wire, where bit 8 means hardcore (spec/minecraft-12w.md#5.1).
    fn of(number: i32) -> Self {
        match number & 7 {
            0 => Self::Survival,
            1 => Self::Creative,
            2 => Self::Adventure,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for ReportedMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Survival => "survival",
            Self::Creative => "creative",
            Self::Adventure => "adventure",
            Self::Unknown => "unknown",
        })
    }
}

/// Where we are and where we look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Feet: x, y, z in blocks.
    pub feet: [f64; 3],
    /// Eyes above the feet, in blocks.
    pub eyes: f64,
    /// Degrees, 0 south, 90 west.
    pub yaw: f32,
    /// Degrees, 90 down.
    pub pitch: f32,
    /// Whether we stand on something.
    pub on_ground: bool,
}

/// Ourselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalPlayer {
    /// Our entity.
    pub entity: i32,
    /// Where we are; `None` until the server says it, and after a respawn until it says it again.
    pub position: Option<Position>,
    /// Up to 20; 0 is dead.
    pub health: i16,
    /// Up to 20.
    pub food: i16,
    /// How long the food lasts.
    pub saturation: f32,
    /// Share of the level, from 0 to 1.
    pub experience: f32,
    /// Level.
    pub level: i16,
    /// GameState mode.
    pub mode: ReportedMode,
    /// Whether death is final.
    pub hardcore: bool,
    /// -1 Nether, 0 overworld, 1 End.
    pub dimension: i32,
    /// 0 peaceful to 3 hard.
    pub difficulty: i8,
    /// Of the world, as the server calls it.
    pub level_type: WireString<16>,
    /// What we may do, once the server has said it.
    pub abilities: Option<crate::table::PlayerAbilities>,
    /// What we ride.
    pub vehicle: Option<i32>,
    /// Place of the hotbar, 0 to 8.
    pub held: u8,
    /// Our own window: 0 to 8 crafting and armour, 9 to 35 bag, 36 to 44 hotbar.
    pub inventory: Vec<Slot>,
}

impl LocalPlayer {
    /// The item in hand.
    pub fn item(&self) -> &Slot {
        static EMPTY: Slot = Slot::EMPTY;
        self.inventory
            .get(HOTBAR + usize::from(self.held))
            .unwrap_or(&EMPTY)
    }
}

/// What a client knows of the game.
#[derive(Debug)]
pub struct GameState {
    /// Ourselves.
    pub player: LocalPlayer,
    /// Who and what is in view.
    pub entities: Entities,
    /// The list of players, by name as it came: milliseconds. At most [`MAX_LISTED`].
    pub listed: BTreeMap<String, i16>,
    /// Where a compass points: x, y, z.
    pub spawn: Option<[i32; 3]>,
    /// Ticks.
    pub time: i64,
    /// Whether it rains.
    pub raining: bool,
    /// As many players fit, says the server.
    pub max_players: u8,
    /// What was odd, at most [`MAX_WARNINGS`] of it.
    pub warnings: Vec<String>,
    /// How often something was odd.
    pub warned: u64,
    columns: Columns,
    first_column: bool,
    surrounded: bool,
}

impl GameState {
    pub(super) fn new(build: Build, max_columns: usize) -> Self {
        Self {
            player: LocalPlayer::default(),
            entities: Entities::default(),
            listed: BTreeMap::new(),
            spawn: None,
            time: 0,
            raining: false,
            max_players: 0,
            warnings: Vec::new(),
            warned: 0,
            columns: Columns::new(build, max_columns),
            first_column: false,
            surrounded: false,
        }
    }

    /// The blocks.
    pub fn world(&self) -> &World {
        &self.columns.world
    }

    /// Whole columns that came so far.
    pub fn columns_received(&self) -> u64 {
        self.columns.decoded
    }

    /// Columns that the server took back.
    pub fn columns_unloaded(&self) -> u64 {
        self.columns.unloaded
    }

    /// Takes note of a packet.
    pub(super) fn hear(&mut self, packet: &Packet, events: &mut VecDeque<ClientEvent>) {
        match packet {
            Packet::Login(packet) => self.login(packet, events),
            Packet::Respawn(packet) => self.respawn(packet, events),
            Packet::Chat(packet) => events.push_back(ClientEvent::Chat {
                text: Text::legacy(packet.text.to_string()),
            }),
            Packet::TimeUpdate(packet) => self.time = packet.time,
            Packet::SpawnPosition(packet) => self.spawn = Some([packet.x, packet.y, packet.z]),
            Packet::UpdateHealth(packet) => {
                let before = (self.player.health, self.player.food);
                (self.player.health, self.player.food, self.player.saturation) =
                    (packet.health, packet.food, packet.saturation);
                if before != (packet.health, packet.food) {
                    events.push_back(ClientEvent::Health {
                        health: packet.health,
                        food: packet.food,
                    });
                }
                if before.0 > 0 && packet.health <= 0 {
                    events.push_back(ClientEvent::Died);
                }
            }
            Packet::SetExperience(packet) => {
                (self.player.experience, self.player.level) = (packet.bar, packet.level);
            }
            Packet::PlayerAbilities(packet) => self.player.abilities = Some(packet.clone()),
            Packet::ChangeGameState(packet) => self.state(packet.reason, packet.value, events),
            Packet::PlayerListItem(packet) => self.list(packet, events),
            Packet::PlayerTeleport(packet) => self.place(packet, events),
            Packet::SetSlot(packet) => self.slot(packet),
            Packet::SetWindowItems(packet) if packet.window == 0 => {
                self.player.inventory = packet.items.iter().take(SLOTS).cloned().collect();
            }
            Packet::AttachEntity(packet) => {
                let vehicle = Some(packet.vehicle).filter(|vehicle| *vehicle >= 0);
                if packet.entity == self.player.entity {
                    self.player.vehicle = vehicle;
                }
                self.entities.attach(packet.entity, vehicle);
            }
            _ => {
                self.hear_of_blocks(packet, events);
                self.hear_of_entities(packet, events);
            }
        }
    }

    fn login(&mut self, packet: &Login, events: &mut VecDeque<ClientEvent>) {
        let me = &mut self.player;
        (me.entity, me.mode, me.hardcore) = (
            packet.entity,
            ReportedMode::of(packet.mode.0),
            packet.mode.0 & 8 != 0,
        );
        (me.dimension, me.difficulty) = (packet.dimension.0, packet.difficulty);
        (me.level_type, me.health, me.food) = (packet.level_type.clone(), 20, 20);
        self.max_players = packet.max_players;
        events.push_back(ClientEvent::Joined {
            entity: me.entity,
            mode: me.mode,
            hardcore: me.hardcore,
            dimension: me.dimension,
            difficulty: me.difficulty,
            max_players: packet.max_players,
        });
    }

    /// In another dimension everything is another; in the same one the columns stay, and those that do not are unloaded.
    fn respawn(&mut self, packet: &Respawn, events: &mut VecDeque<ClientEvent>) {
        if packet.dimension != self.player.dimension {
            self.columns.world.clear();
            self.surrounded = false;
            self.raining = false;
        }
        self.entities.clear();
        let me = &mut self.player;
        (me.dimension, me.difficulty, me.mode) = (
            packet.dimension,
            packet.difficulty,
            ReportedMode::of(packet.mode.into()),
        );
        (me.level_type, me.position, me.vehicle) = (packet.level_type.clone(), None, None);
        (me.health, me.food) = (20, 20);
        events.push_back(ClientEvent::Respawned {
            dimension: me.dimension,
            mode: me.mode,
        });
    }

    fn state(&mut self, reason: i8, value: i8, events: &mut VecDeque<ClientEvent>) {
        match reason {
            1 | 2 => {
                self.raining = reason == 1;
                events.push_back(ClientEvent::Weather {
                    raining: self.raining,
                });
            }
            3 => {
                self.player.mode = ReportedMode::of(value.into());
                events.push_back(ClientEvent::ModeChanged {
                    mode: self.player.mode,
                });
            }
            _ => {}
        }
    }

    fn list(&mut self, packet: &PlayerListItem, events: &mut VecDeque<ClientEvent>) {
        let key = packet.name.to_string();
        if !packet.online {
            if self.listed.remove(&key).is_some() {
                events.push_back(ClientEvent::PlayerUnlisted {
                    name: name(&packet.name),
                });
            }
        } else if self.listed.len() < MAX_LISTED || self.listed.contains_key(&key) {
            if self.listed.insert(key, packet.ping).is_none() {
                events.push_back(ClientEvent::PlayerListed {
                    name: name(&packet.name),
                    ping: packet.ping,
                });
            }
        } else {
            self.warn(
                "more names on the list of players than are kept".into(),
                events,
            );
        }
    }

    fn place(&mut self, packet: &PlayerTeleport, events: &mut VecDeque<ClientEvent>) {
        // Servers throw out who says that the eyes are elsewhere (spec/minecraft-12w.md#5.1).
        let eyes = Some(packet.stance - packet.y)
            .filter(|eyes| (0.1..=1.65).contains(eyes))
            .unwrap_or(1.62);
        let feet = [packet.x, packet.y, packet.z];
        let (yaw, pitch, on_ground) = (packet.yaw, packet.pitch, packet.on_ground);
        self.player.position = Some(Position {
            feet,
            eyes,
            yaw,
            pitch,
            on_ground,
        });
        events.push_back(ClientEvent::Placed {
            x: packet.x,
            y: packet.y,
            z: packet.z,
        });
        self.look_around(events);
    }

    fn slot(&mut self, packet: &SetSlot) {
        let slot = usize::try_from(packet.slot)
            .ok()
            .filter(|slot| packet.window == 0 && *slot < SLOTS);
        if let Some(slot) = slot {
            if self.player.inventory.len() <= slot {
                self.player.inventory.resize(SLOTS, Slot::EMPTY);
            }
            if let Some(place) = self.player.inventory.get_mut(slot) {
                place.clone_from(&packet.item);
            }
        }
    }

    fn hear_of_blocks(&mut self, packet: &Packet, events: &mut VecDeque<ClientEvent>) {
        let end = match packet {
            Packet::PreChunk(packet) => return self.columns.announce(packet),
            Packet::MultiBlockChange(packet) => return self.columns.blocks(packet),
            Packet::BlockChange(packet) => return self.columns.block(packet),
            Packet::Explosion(packet) => return self.columns.explosion(packet),
            Packet::ChunkData(packet) => self.columns.chunk(packet),
            Packet::MapChunkBulk(packet) => self.columns.bulk(packet),
            _ => return,
        };
        if let Err(text) = end {
            self.warn(text, events);
        }
        self.look_around(events);
    }

    /// Tells of the first column, and of the moment when there are columns all around us.
    fn look_around(&mut self, events: &mut VecDeque<ClientEvent>) {
        if !self.first_column && !self.world().is_empty() {
            self.first_column = true;
            events.push_back(ClientEvent::FirstColumn);
        }
        if !self.surrounded
            && let Some(Position {
                feet: [x, _, z], ..
            }) = self.player.position
            && self.columns.surround(x, z, AROUND)
        {
            self.surrounded = true;
            events.push_back(ClientEvent::Surrounded {
                columns: self.world().len(),
            });
        }
    }

    fn hear_of_entities(&mut self, packet: &Packet, events: &mut VecDeque<ClientEvent>) {
        let entities = &mut self.entities;
        let block = |at: i32| Absolute(at.wrapping_mul(32));
        let kept = match packet {
            Packet::SpawnNamedEntity(packet) => {
                let (entity, name) = (packet.entity, name(&packet.name));
                let [x, y, z] = [packet.x, packet.y, packet.z].map(Absolute::to_unit);
                let kept = entities.insert(
                    entity,
                    EntityKind::Player(name.clone()),
                    [packet.x, packet.y, packet.z],
                );
                if kept {
                    events.push_back(ClientEvent::PlayerAppeared {
                        entity,
                        name,
                        x,
                        y,
                        z,
                    });
                }
                kept
            }
            Packet::SpawnMob(packet) => entities.insert(
                packet.entity,
                EntityKind::Mob(packet.kind),
                [packet.x, packet.y, packet.z],
            ),
            Packet::SpawnObject(packet) => entities.insert(
                packet.entity,
                EntityKind::Object(packet.kind),
                [packet.x, packet.y, packet.z],
            ),
            Packet::SpawnDroppedItem(packet) => entities.insert(
                packet.entity,
                EntityKind::Item(packet.item),
                [packet.x, packet.y, packet.z],
            ),
            Packet::SpawnPainting(packet) => entities.insert(
                packet.entity,
                EntityKind::Painting,
                [packet.x, packet.y, packet.z].map(block),
            ),
            Packet::SpawnExperienceOrb(packet) => entities.insert(
                packet.entity,
                EntityKind::Orb,
                [packet.x, packet.y, packet.z],
            ),
            Packet::DestroyEntities(packet) => {
                // Until 12w26a there is one in the field of its own, since then a list (spec/minecraft-12w.md#2).
                let listed = packet.entities.iter().copied();
                let single = (self.columns.build() < Build::W27a).then_some(packet.entity);
                for entity in listed.chain(single) {
                    if let Some(EntityKind::Player(name)) =
                        self.entities.remove(entity).map(|gone| gone.kind)
                    {
                        events.push_back(ClientEvent::PlayerVanished { entity, name });
                    }
                }
                return;
            }
            Packet::CollectItem(packet) => return drop(entities.remove(packet.collected)),
            Packet::EntityRelativeMove(packet) => {
                return entities.shift(packet.entity, [packet.dx, packet.dy, packet.dz]);
            }
            Packet::EntityLookRelativeMove(packet) => {
                return entities.shift(packet.entity, [packet.dx, packet.dy, packet.dz]);
            }
            Packet::EntityTeleport(packet) => {
                return entities.put(packet.entity, [packet.x, packet.y, packet.z]);
            }
            _ => return,
        };
        if !kept {
            self.warn("more entities than are kept".into(), events);
        }
    }

    fn warn(&mut self, text: String, events: &mut VecDeque<ClientEvent>) {
        self.warned = self.warned.saturating_add(1);
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&text) {
            self.warnings.push(text.clone());
            events.push_back(ClientEvent::Warning { text });
        }
    }
}

/// A name for people: without colours, on one line.
fn name<const N: usize>(text: &WireString<N>) -> String {
    printable(&Text::legacy(text.to_string()).plain())
}
