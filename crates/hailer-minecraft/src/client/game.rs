//! State of the game as a client received it.

use super::columns::Columns;
use super::entities::{Entities, EntityKind};
use super::event::ClientEvent;
use super::mode::ReportedMode;
use crate::build::Build;
use crate::table::{Login, Packet, PlayerListItem, PlayerTeleport, Respawn, SetSlot};
use crate::types::{Absolute, Slot, WireString};
use crate::world::World;
use hailer_proto::Text;
use hailer_proto::model::printable;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of names kept of the list of players.
pub const MAX_LISTED: usize = 1024;
/// Maximum number of warnings kept as text. All are counted.
pub const MAX_WARNINGS: usize = 32;
/// Shortest view distance of real servers, in columns.
const MIN_VIEW_DISTANCE: i32 = 3;
/// Number of slots in window 0, the player's inventory.
const SLOTS: usize = 45;
/// First of the nine slots of the hotbar.
const FIRST_HOTBAR_SLOT: usize = 36;

/// Position and view direction of the local player.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// Middle of the feet: x, y, z in blocks.
    pub feet: [f64; 3],
    /// Height of the eyes above the feet, in blocks.
    pub eyes: f64,
    /// Horizontal direction in degrees: 0 south, 90 west.
    pub yaw: f32,
    /// Vertical direction in degrees: −90 up, 90 down.
    pub pitch: f32,
    /// Whether the player stands on something.
    pub is_on_ground: bool,
}

/// The client's own player.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalPlayer {
    /// Entity id of the player.
    pub entity: i32,
    /// Position; `None` until the server sends it, also after a respawn.
    pub position: Option<Position>,
    /// Health in half hearts, up to 20. 0 or less means dead.
    pub health: i16,
    /// Food in half points, up to 20.
    pub food: i16,
    /// Food saturation, which is used up before food.
    pub saturation: f32,
    /// Progress to the next level, from 0 to 1.
    pub experience: f32,
    /// Experience level of the player.
    pub level: i16,
    /// Game mode, as the server names it.
    pub mode: ReportedMode,
    /// Whether death is final.
    pub is_hardcore: bool,
    /// Dimension: −1 Nether, 0 overworld, 1 End.
    pub dimension: i32,
    /// Difficulty, from 0 (peaceful) to 3 (hard).
    pub difficulty: i8,
    /// Level type of the world, as the server reports it.
    pub level_type: WireString<16>,
    /// Abilities; `None` until the server sends them.
    pub abilities: Option<crate::table::PlayerAbilities>,
    /// Entity id of the vehicle that the player rides.
    pub vehicle: Option<i32>,
    /// Selected slot of the hotbar, 0 to 8.
    pub held: u8,
    /// Inventory: slots 0 to 8 crafting and armour, 9 to 35 storage, 36 to 44 hotbar.
    pub inventory: Vec<Slot>,
}

impl LocalPlayer {
    /// Returns the held item.
    pub fn item(&self) -> &Slot {
        static EMPTY: Slot = Slot::EMPTY;
        self.inventory
            .get(FIRST_HOTBAR_SLOT + usize::from(self.held))
            .unwrap_or(&EMPTY)
    }
}

/// State of the game. The server can change everything, within the limits in the [module](super)
/// docs.
#[derive(Debug)]
pub struct GameState {
    /// The local player.
    pub player: LocalPlayer,
    /// Entities in view.
    pub entities: Entities,
    /// List of players: latency in milliseconds by name. At most [`MAX_LISTED`] entries.
    pub listed: BTreeMap<String, i16>,
    /// Spawn point, where compasses point to: x, y, z.
    pub spawn: Option<[i32; 3]>,
    /// Time of the world in ticks; a day has 24,000.
    pub time: i64,
    /// Whether it rains.
    pub is_raining: bool,
    /// Maximum number of players, as the server reports it.
    pub max_players: u8,
    /// Warnings, at most [`MAX_WARNINGS`], without repetitions.
    pub warnings: Vec<String>,
    /// Number of warnings, repetitions included.
    pub warned: u64,
    columns: Columns,
    /// Columns of the dimension before the last change.
    previous_world: Option<World>,
    has_first_column: bool,
    is_surrounded: bool,
}

impl GameState {
    pub(super) fn new(build: Build, max_columns: usize) -> Self {
        Self {
            player: LocalPlayer::default(),
            entities: Entities::default(),
            listed: BTreeMap::new(),
            spawn: None,
            time: 0,
            is_raining: false,
            max_players: 0,
            warnings: Vec::new(),
            warned: 0,
            columns: Columns::new(build, max_columns),
            previous_world: None,
            has_first_column: false,
            is_surrounded: false,
        }
    }

    /// Returns the loaded blocks.
    pub fn world(&self) -> &World {
        &self.columns.world
    }

    /// Returns the blocks to draw a map of: the loaded ones, or after a change of the dimension
    /// those of the previous dimension until new columns arrive.
    pub fn map_world(&self) -> &World {
        match &self.previous_world {
            Some(previous) if self.world().is_empty() => previous,
            _ => self.world(),
        }
    }

    /// Returns the number of complete columns received.
    pub fn columns_received(&self) -> u64 {
        self.columns.decoded
    }

    /// Returns the number of columns that the server unloaded.
    pub fn columns_unloaded(&self) -> u64 {
        self.columns.unloaded
    }

    /// Applies a packet to the state.
    pub(super) fn apply(&mut self, packet: &Packet, events: &mut VecDeque<ClientEvent>) {
        match packet {
            Packet::Login(packet) => self.login(packet, events),
            Packet::Respawn(packet) => self.respawn(packet, events),
            Packet::Chat(packet) => events.push_back(ClientEvent::Chat {
                text: Text::legacy(packet.text.to_string()),
            }),
            Packet::TimeUpdate(packet) => self.time = packet.time,
            Packet::SpawnPosition(packet) => self.spawn = Some([packet.x, packet.y, packet.z]),
            Packet::UpdateHealth(packet) => {
                let health = self.player.health;
                let food = self.player.food;
                self.player.health = packet.health;
                self.player.food = packet.food;
                self.player.saturation = packet.saturation;
                if health != packet.health || food != packet.food {
                    events.push_back(ClientEvent::Health {
                        health: packet.health,
                        food: packet.food,
                    });
                }
                if health > 0 && packet.health <= 0 {
                    events.push_back(ClientEvent::Died);
                }
            }
            Packet::SetExperience(packet) => {
                self.player.experience = packet.bar;
                self.player.level = packet.level;
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
                self.apply_to_blocks(packet, events);
                self.apply_to_entities(packet, events);
            }
        }
    }

    fn login(&mut self, packet: &Login, events: &mut VecDeque<ClientEvent>) {
        let player = &mut self.player;
        player.entity = packet.entity;
        player.mode = ReportedMode::of(packet.mode.0);
        player.is_hardcore = packet.mode.0 & 8 != 0;
        player.dimension = packet.dimension.0;
        player.difficulty = packet.difficulty;
        player.level_type = packet.level_type.clone();
        player.health = 20;
        player.food = 20;
        self.max_players = packet.max_players;
        events.push_back(ClientEvent::Joined {
            entity: player.entity,
            mode: player.mode,
            is_hardcore: player.is_hardcore,
            dimension: player.dimension,
            difficulty: player.difficulty,
            max_players: packet.max_players,
        });
    }

    /// Handles a respawn. A change of the dimension unloads all columns. Otherwise columns stay
    /// until the server unloads them.
    fn respawn(&mut self, packet: &Respawn, events: &mut VecDeque<ClientEvent>) {
        if packet.dimension != self.player.dimension {
            if !self.world().is_empty() {
                self.previous_world = Some(self.columns.take_world());
            }
            self.is_surrounded = false;
            self.is_raining = false;
        }
        self.entities.clear();
        let player = &mut self.player;
        player.dimension = packet.dimension;
        player.difficulty = packet.difficulty;
        player.mode = ReportedMode::of(packet.mode.into());
        player.level_type = packet.level_type.clone();
        player.position = None;
        player.vehicle = None;
        player.health = 20;
        player.food = 20;
        events.push_back(ClientEvent::Respawned {
            dimension: player.dimension,
            mode: player.mode,
        });
    }

    fn state(&mut self, reason: i8, value: i8, events: &mut VecDeque<ClientEvent>) {
        match reason {
            1 | 2 => {
                self.is_raining = reason == 1;
                events.push_back(ClientEvent::Weather {
                    is_raining: self.is_raining,
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
                "the list of players is full; further names are dropped".into(),
                events,
            );
        }
    }

    fn place(&mut self, packet: &PlayerTeleport, events: &mut VecDeque<ClientEvent>) {
        // Servers kick clients whose eyes are outside this range (spec/minecraft-12w.md#5.1).
        let eyes = Some(packet.stance - packet.y)
            .filter(|eyes| (0.1..=1.65).contains(eyes))
            .unwrap_or(1.62);
        let feet = [packet.x, packet.y, packet.z];
        let yaw = packet.yaw;
        let pitch = packet.pitch;
        let on_ground = packet.on_ground;
        self.player.position = Some(Position {
            feet,
            eyes,
            yaw,
            pitch,
            is_on_ground: on_ground,
        });
        events.push_back(ClientEvent::Placed {
            x: packet.x,
            y: packet.y,
            z: packet.z,
        });
        self.check_columns(events);
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

    fn apply_to_blocks(&mut self, packet: &Packet, events: &mut VecDeque<ClientEvent>) {
        let result = match packet {
            Packet::PreChunk(packet) => return self.columns.announce(packet),
            Packet::MultiBlockChange(packet) => return self.columns.blocks(packet),
            Packet::BlockChange(packet) => return self.columns.block(packet),
            Packet::Explosion(packet) => return self.columns.explosion(packet),
            Packet::ChunkData(packet) => self.columns.chunk(packet),
            Packet::MapChunkBulk(packet) => self.columns.bulk(packet),
            _ => return,
        };
        if let Err(text) = result {
            self.warn(text, events);
        }
        self.check_columns(events);
    }

    /// Reports the first column, and when all columns around the player are loaded.
    fn check_columns(&mut self, events: &mut VecDeque<ClientEvent>) {
        if !self.has_first_column && !self.world().is_empty() {
            self.has_first_column = true;
            events.push_back(ClientEvent::FirstColumn);
        }
        if !self.is_surrounded
            && let Some(Position {
                feet: [x, _, z], ..
            }) = self.player.position
            && self.columns.surround(x, z, MIN_VIEW_DISTANCE)
        {
            self.previous_world = None;
            self.is_surrounded = true;
            events.push_back(ClientEvent::Surrounded {
                columns: self.world().len(),
            });
        }
    }

    fn apply_to_entities(&mut self, packet: &Packet, events: &mut VecDeque<ClientEvent>) {
        let entities = &mut self.entities;
        let block = |at: i32| Absolute(at.wrapping_mul(32));
        let kept = match packet {
            Packet::SpawnNamedEntity(packet) => {
                let entity = packet.entity;
                let name = name(&packet.name);
                let [x, y, z] = [packet.x, packet.y, packet.z].map(Absolute::to_unit);
                let kind = EntityKind::Player(name.clone());
                let is_known = entities.get(entity).is_some_and(|known| known.kind == kind);
                let kept = entities.insert(entity, kind, [packet.x, packet.y, packet.z]);
                // Some servers spawn a player twice.
                if kept && !is_known {
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
                // Until 12w26a a single entity, since then a list (spec/minecraft-12w.md#2).
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
                return entities.move_by(packet.entity, [packet.dx, packet.dy, packet.dz]);
            }
            Packet::EntityLookRelativeMove(packet) => {
                return entities.move_by(packet.entity, [packet.dx, packet.dy, packet.dz]);
            }
            Packet::EntityTeleport(packet) => {
                return entities.move_to(packet.entity, [packet.x, packet.y, packet.z]);
            }
            _ => return,
        };
        if !kept {
            self.warn("too many entities; further ones are dropped".into(), events);
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

/// Returns a name without colors and control characters.
fn name<const N: usize>(text: &WireString<N>) -> String {
    printable(&Text::legacy(text.to_string()).plain())
}
