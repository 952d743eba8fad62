//! Digging and placing blocks.

use super::block::{drop, is_brittle, is_replaceable, is_solid, placed};
use super::config::GameMode;
use super::player::{Digging, Player};
use super::{ClientId, OLD_BUILD, Server};
use crate::chunk::Block;
use crate::table::{BlockChange, PlayerBlockPlacement, PlayerDigging};
use crate::types::{BlockType, Slot};

/// Cannot be dug in survival mode.
const BEDROCK: u16 = 7;
/// Last face of a block; 255 means the use of the held item.
const LAST_FACE: u8 = 5;

impl Server {
    /// Handles digging (spec/minecraft-12w.md#5.1, 0x0E).
    pub(super) fn dig(&mut self, id: ClientId, dig: &PlayerDigging) {
        let place = (dig.x, i32::from(dig.y), dig.z);
        match dig.status {
            0 => self.begin_to_dig(id, place),
            1 => self.stop_digging(id),
            2 => {
                let begun = self
                    .player(id)
                    .and_then(|player| player.digging)
                    .is_some_and(|digging| digging.block == place);
                self.stop_digging(id);
                if begun {
                    self.dig_out(id, place);
                } else {
                    self.show_block(id, place);
                }
            }
            4 => {
                let Some(player) = self.player_mut(id) else {
                    return;
                };
                let slot = player.held_slot();
                let item = player.inventory.take(slot, 1);
                self.throw(id, item);
                // The client expects the resulting block.
                self.send_held(id);
                self.show_held(id);
            }
            _ => {}
        }
    }

    fn begin_to_dig(&mut self, id: ClientId, place: (i32, i32, i32)) {
        self.stop_digging(id);
        let Some(player) = self.player(id) else {
            return;
        };
        // Ignore distant blocks: each would generate a column.
        if !player.reaches(place) {
            return;
        }
        let entity = player.entity;
        let creative = player.mode == GameMode::Creative;
        if creative || is_brittle(self.world.block(place).id) {
            return self.dig_out(id, place);
        }
        if let Some(player) = self.player_mut(id) {
            player.digging = Some(Digging {
                block: place,
                ticks: 0,
                stage: 0,
            });
        }
        self.show_cracks(entity, place, 0);
    }

    pub(super) fn stop_digging(&mut self, id: ClientId) {
        if let Some(player) = self.player_mut(id)
            && let Some(digging) = player.digging.take()
        {
            let entity = player.entity;
            self.show_cracks(entity, digging.block, 255);
        }
    }

    fn dig_out(&mut self, id: ClientId, place: (i32, i32, i32)) {
        let Some(player) = self.player(id).filter(|player| player.reaches(place)) else {
            return;
        };
        let creative = player.mode == GameMode::Creative;
        let there = self.world.block(place);
        let possible = there != Block::AIR && (creative || there.id != BEDROCK);
        if !(possible && self.may_change(id) && self.world.set_block(place, Block::AIR)) {
            return self.show_block(id, place);
        }
        if let Some((item, damage)) = drop(there).filter(|_| !creative) {
            self.lay(Slot::of(item, 1, damage), place);
        }
    }

    /// Handles the placing of a block or the use of an item (spec/minecraft-12w.md#5.1, 0x0F).
    pub(super) fn put(&mut self, id: ClientId, put: &PlayerBlockPlacement) {
        let against = (put.x, i32::from(put.y), put.z);
        let Some(player) = self.player(id) else {
            return;
        };
        // No face: a use of the held item, or an invalid value.
        if put.direction > LAST_FACE || !player.reaches(against) {
            return self.send_held(id);
        }
        let creative = player.mode == GameMode::Creative;
        let held = player.held_item();
        let block = placed(held.id, held.damage, put.direction, self.oldest());
        let place = if is_replaceable(self.world.block(against).id) {
            against
        } else {
            neighbor(against, put.direction)
        };
        let free = (0..256).contains(&place.1) && is_replaceable(self.world.block(place).id);
        let done = block.is_some_and(|block| {
            let in_the_way = |player: &Player| is_solid(block.id) && player.overlaps(place);
            free && !self
                .clients
                .values()
                .filter_map(super::Client::player)
                .any(in_the_way)
                && self.may_change(id)
                && self.world.set_block(place, block)
        });
        if !done {
            // The client already shows it.
            self.show_block(id, against);
            self.show_block(id, place);
            return self.send_held(id);
        }
        if !creative {
            if let Some(player) = self.player_mut(id) {
                let slot = player.held_slot();
                player.inventory.take(slot, 1);
            }
            self.send_held(id);
            self.show_held(id);
        }
    }

    fn may_change(&mut self, id: ClientId) -> bool {
        let now = self.now;
        let rate = self.config.limits.changes;
        self.player_mut(id)
            .is_some_and(|player| !player.is_dead && player.changes.take(1.0, rate, now))
    }

    /// Sends the real block to a player.
    fn show_block(&mut self, id: ClientId, place @ (x, y, z): (i32, i32, i32)) {
        let near = self
            .player(id)
            .is_some_and(|player| player.loaded.contains(&(x >> 4, z >> 4)));
        if let Ok(height) = u8::try_from(y)
            && near
        {
            let Block { id: kind, metadata } = self.world.block(place);
            self.send(
                id,
                BlockChange {
                    x,
                    y: height,
                    z,
                    block: BlockType(kind.cast_signed()),
                    metadata,
                },
            );
        }
    }

    fn send_held(&mut self, id: ClientId) {
        if let Some(slot) = self.player(id).map(Player::held_slot) {
            self.send_slot(id, slot);
        }
    }

    /// Returns the oldest accepted build. Blocks that it lacks cannot be placed.
    fn oldest(&self) -> crate::Build {
        if self.config.accepts_1_2_5() {
            self.config.build.min(OLD_BUILD)
        } else {
            self.config.build
        }
    }

    /// Returns whether all accepted builds know an item.
    pub(super) fn knows(&self, item: &Slot) -> bool {
        item.is_empty() || super::block::is_item(item.id, self.oldest())
    }
}

fn neighbor((x, y, z): (i32, i32, i32), face: u8) -> (i32, i32, i32) {
    match face {
        0 => (x, y - 1, z),
        1 => (x, y + 1, z),
        2 => (x, y, z.wrapping_sub(1)),
        3 => (x, y, z.wrapping_add(1)),
        4 => (x.wrapping_sub(1), y, z),
        _ => (x.wrapping_add(1), y, z),
    }
}
