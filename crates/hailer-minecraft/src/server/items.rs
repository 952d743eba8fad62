//! Dropped items.

use super::player::Position;
use super::{ClientId, Server};
use crate::table::{CollectItem, SpawnDroppedItem};
use crate::types::{Absolute, NbtData, Slot};

/// Ticks after which an item is removed, as in vanilla.
const LIFE_TICKS: u32 = 6000;
/// Ticks before an item can be picked up, since the player who threw it is near.
const PICKUP_DELAY_TICKS: u32 = 40;
/// Distance at which an item is picked up, in blocks.
const PICKUP_DISTANCE: f64 = 1.5;
/// Distance that an item is thrown, in blocks.
const THROW_DISTANCE: f64 = 1.5;

/// A dropped item.
pub(super) struct Item {
    pub(super) what: Slot,
    pub(super) place: Position,
    ticks: u32,
}

impl Item {
    pub(super) fn spawn(&self, entity: i32) -> SpawnDroppedItem {
        let [x, y, z] = self.place.absolute();
        let Slot {
            id, count, damage, ..
        } = self.what;
        SpawnDroppedItem {
            entity,
            item: id,
            count,
            damage,
            x,
            y: Absolute(y.0 + 4),
            z,
            ..SpawnDroppedItem::default()
        }
    }
}

impl Server {
    /// Drops an item of a player in front of their feet.
    pub(super) fn throw(&mut self, id: ClientId, item: Slot) {
        let Some(player) = self.player(id) else {
            return;
        };
        let yaw = f64::from(player.yaw).to_radians();
        let Position { x, y, z } = player.position;
        let ahead = Position {
            x: x - yaw.sin() * THROW_DISTANCE,
            y: y + 1.0,
            z: z + yaw.cos() * THROW_DISTANCE,
        };
        if item.is_empty() || item.count <= 0 || !self.knows(&item) {
            return;
        }
        let blocked = super::block::is_solid(self.world.block(ahead.block()).id);
        self.drop_at(item, if blocked { Position { x, y, z } } else { ahead });
    }

    /// Drops an item at the place of a block.
    pub(super) fn lay(&mut self, item: Slot, (x, y, z): (i32, i32, i32)) {
        let middle = |at: i32| f64::from(at) + 0.5;
        self.drop_at(
            item,
            Position {
                x: middle(x),
                y: f64::from(y),
                z: middle(z),
            },
        );
    }

    /// Drops an item. It lands immediately; clients animate the fall. Its NBT is removed, because
    /// another client made it and the game is vulnerable to it: invalid gzip crashes it, and valid
    /// gzip is decompressed without a limit.
    fn drop_at(&mut self, mut what: Slot, place: Position) {
        what.tag = NbtData::NONE;
        let (x, y, z) = place.block();
        // No ground below: the item is lost.
        let Some(floor) = self.world.floor((x, y + 1, z)) else {
            return;
        };
        let entity = self.entity();
        if self.items.len() >= self.config.limits.items
            && let Some((oldest, _)) = self.items.pop_first()
        {
            self.vanish(oldest);
        }
        let place = Position {
            y: f64::from(floor).min(place.y.max(0.0)),
            ..place
        };
        self.items.insert(
            entity,
            Item {
                what,
                place,
                ticks: 0,
            },
        );
    }

    /// Ages items, and lets players pick them up.
    pub(super) fn move_items(&mut self) {
        let mut gone = Vec::new();
        let mut taken = Vec::new();
        for (entity, item) in &mut self.items {
            item.ticks += 1;
            if item.ticks > LIFE_TICKS {
                gone.push(*entity);
            } else if item.ticks > PICKUP_DELAY_TICKS {
                let near = self.clients.iter().find(|(_, client)| {
                    client.player().is_some_and(|player| {
                        !player.is_dead && player.position.distance(item.place) <= PICKUP_DISTANCE
                    })
                });
                taken.extend(near.map(|(id, _)| (*entity, *id)));
            }
        }
        for (entity, id) in taken {
            let Some(what) = self.items.get(&entity).map(|item| item.what.clone()) else {
                continue;
            };
            let Some(player) = self.player_mut(id) else {
                continue;
            };
            let collector = player.entity;
            let (changed, left) = player.inventory.add(what);
            if changed.is_empty() {
                continue;
            }
            for slot in changed {
                self.send_slot(id, slot);
            }
            self.show_held(id);
            if left.is_empty() {
                self.send_to_watchers(
                    entity,
                    CollectItem {
                        collected: entity,
                        collector,
                    },
                );
                gone.push(entity);
            } else if let Some(item) = self.items.get_mut(&entity) {
                item.what = left;
            }
        }
        for entity in gone {
            self.items.remove(&entity);
            self.vanish(entity);
        }
    }
}
