//! Inventory of a player: the slots of window 0, and the item on the cursor.

use super::block::stack;
use crate::types::Slot;

/// Slots of window 0: crafting result, 4 crafting, 4 armour, 27 storage, 9 hotbar.
pub(super) const SLOTS: i16 = 45;
/// First slot of the hotbar.
pub(super) const HOTBAR: i16 = 36;
/// Slots that keep items. Those before are for crafting, which the server does not support.
const STORAGE_SLOTS: std::ops::Range<i16> = 5..SLOTS;
/// Maximum length of an item's NBT, in bytes. Otherwise a client could fill 45 slots with 32 KiB
/// each.
const MAX_TAG: usize = 2048;

/// Inventory of a player.
#[derive(Debug)]
pub(super) struct Inventory {
    slots: Vec<Slot>,
    pub(super) cursor: Slot,
}

impl Default for Inventory {
    fn default() -> Self {
        Self {
            slots: vec![Slot::EMPTY; SLOTS as usize],
            cursor: Slot::EMPTY,
        }
    }
}

impl Inventory {
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(super) fn slot(&self, place: i16) -> &Slot {
        usize::try_from(place)
            .ok()
            .and_then(|i| self.slots.get(i))
            .unwrap_or(&Slot::EMPTY)
    }

    fn slot_mut(&mut self, place: i16) -> Option<&mut Slot> {
        STORAGE_SLOTS
            .contains(&place)
            .then(|| self.slots.get_mut(usize::try_from(place).ok()?))
            .flatten()
    }

    /// Replaces the item of a slot. Returns `false` if the slot keeps no items.
    pub(super) fn set(&mut self, place: i16, mut item: Slot) -> bool {
        if item.is_empty() || item.count <= 0 {
            item = Slot::EMPTY;
        }
        item.count = item.count.min(64);
        if item.tag.gzip().is_some_and(|gzip| gzip.len() > MAX_TAG) {
            item.tag = crate::types::NbtData::NONE;
        }
        self.slot_mut(place).map(|slot| *slot = item).is_some()
    }

    /// Removes `count` items from a slot and returns them.
    pub(super) fn take(&mut self, place: i16, count: i8) -> Slot {
        self.slot_mut(place)
            .map_or(Slot::EMPTY, |slot| split(slot, count))
    }

    /// Adds an item, first to stacks of the same kind. Returns the changed slots and the rest.
    pub(super) fn add(&mut self, mut item: Slot) -> (Vec<i16>, Slot) {
        let mut changed = Vec::new();
        let places = || (HOTBAR..SLOTS).chain(9..HOTBAR);
        for like in [true, false] {
            for place in places() {
                let Some(slot) = self.slot_mut(place) else {
                    continue;
                };
                if !item.is_empty() && slot.is_empty() != like && pour(&mut item, slot, i8::MAX) {
                    changed.push(place);
                }
            }
        }
        (changed, item)
    }

    /// Removes the stack on the cursor, or one item of it with the right button.
    pub(super) fn throw(&mut self, button: i8) -> Slot {
        split(&mut self.cursor, if button == 1 { 1 } else { i8::MAX })
    }

    /// Handles a left (0) or right (1) click on a slot, as the game does. Returns `false` for other
    /// clicks.
    pub(super) fn click(&mut self, place: i16, button: i8) -> bool {
        let mut cursor = std::mem::take(&mut self.cursor);
        let armour = (5..9).contains(&place);
        let done = match self.slot_mut(place) {
            Some(slot) if !armour || cursor.is_empty() || fits_armour(cursor.id, place) => {
                exchange(slot, &mut cursor, button)
            }
            _ => false,
        };
        self.cursor = cursor;
        done
    }
}

fn exchange(slot: &mut Slot, cursor: &mut Slot, button: i8) -> bool {
    match (button, cursor.is_empty(), slot.is_empty()) {
        (0 | 1, true, true) => {}
        (0, true, false) => *cursor = split(slot, i8::MAX),
        (1, true, false) => *cursor = split(slot, slot.count - slot.count / 2),
        (0 | 1, false, _) if slot.is_empty() || is_like(slot, cursor) => {
            pour(cursor, slot, if button == 0 { i8::MAX } else { 1 });
        }
        (0 | 1, false, false) => std::mem::swap(slot, cursor),
        _ => return false,
    }
    true
}

fn is_like(one: &Slot, other: &Slot) -> bool {
    (one.id, one.damage, &one.tag) == (other.id, other.damage, &other.tag)
}

/// Returns a stack of `count` items of the kind in a slot.
fn split(slot: &mut Slot, count: i8) -> Slot {
    let count = count.clamp(0, slot.count.max(0));
    let taken = if count == 0 {
        Slot::EMPTY
    } else {
        Slot {
            count,
            ..slot.clone()
        }
    };
    slot.count -= count;
    if slot.count <= 0 {
        *slot = Slot::EMPTY;
    }
    taken
}

/// Moves at most `count` items into a slot that is empty or has the same kind. Returns whether any
/// moved.
fn pour(from: &mut Slot, to: &mut Slot, most: i8) -> bool {
    if !to.is_empty() && !is_like(from, to) {
        return false;
    }
    let room = stack(from.id).max(1) - if to.is_empty() { 0 } else { to.count };
    let moved = split(from, most.min(room));
    match (moved.is_empty(), to.is_empty()) {
        (true, _) => return false,
        (false, true) => *to = moved,
        (false, false) => to.count += moved.count,
    }
    true
}

/// Returns the armour slot of an item: helmets 5 to boots 8. A pumpkin is a helmet.
fn fits_armour(id: i16, place: i16) -> bool {
    (298..=317).contains(&id) && (id - 298) % 4 == place - 5 || (id, place) == (86, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clicks_move_items_as_in_the_game() {
        let mut inventory = Inventory::default();
        assert!(inventory.set(36, Slot::of(1, 5, 0)));
        assert!(inventory.click(36, 1), "half of it, the larger");
        assert_eq!((inventory.cursor.count, inventory.slot(36).count), (3, 2));
        assert!(
            inventory.click(20, 1) && inventory.click(20, 1),
            "one by one"
        );
        assert!(inventory.click(36, 0), "and back to the like");
        assert_eq!((inventory.slot(20).count, inventory.slot(36).count), (2, 3));
        assert!(inventory.cursor.is_empty() && inventory.click(20, 0));
        inventory.set(21, Slot::of(3, 1, 0));
        assert!(inventory.click(21, 0), "a swap");
        assert_eq!((inventory.cursor.id, inventory.slot(21).id), (3, 1));
        assert!(!inventory.click(5, 0), "dirt is no helmet");
        assert!(
            !inventory.click(0, 0)
                && !inventory.click(-999, 0)
                && !inventory.click(45, 0)
                && !inventory.click(21, 2)
        );
        assert_eq!(inventory.cursor.id, 3);
    }

    #[test]
    fn picked_up_items_join_their_stack_first() {
        let mut inventory = Inventory::default();
        inventory.set(30, Slot::of(4, 60, 0));
        let (changed, left) = inventory.add(Slot::of(4, 10, 0));
        assert_eq!((changed, left.is_empty()), (vec![30, 36], true));
        assert_eq!(
            (inventory.slot(30).count, inventory.slot(36).count),
            (64, 6)
        );
        for place in 9..45 {
            inventory.set(place, Slot::of(1, 64, 0));
        }
        assert_eq!(
            inventory.add(Slot::of(4, 3, 0)),
            (vec![], Slot::of(4, 3, 0))
        );
    }
}
