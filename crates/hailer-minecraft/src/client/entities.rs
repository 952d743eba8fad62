//! Entities in view: players, mobs, objects, items.

use crate::types::{Absolute, Delta};
use std::collections::BTreeMap;

/// Maximum number of entities kept. A busy real server sends a few hundred.
pub const MAX_ENTITIES: usize = 4096;

/// Kind of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityKind {
    /// Another player, with the name.
    Player(String),
    /// An animal or monster, with the type of 0x18.
    Mob(u8),
    /// An object such as a boat or an arrow, with the type of 0x17.
    Object(i8),
    /// A dropped item, with the item id.
    Item(i16),
    /// A painting.
    Painting,
    /// An experience orb.
    Orb,
}

/// An entity in view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Kind of the entity.
    pub kind: EntityKind,
    /// Position in 1/32 blocks: x, y, z.
    pub position: [Absolute; 3],
    /// Entity id of the vehicle that it rides.
    pub vehicle: Option<i32>,
}

impl Entity {
    /// Returns the position in blocks: x, y, z.
    pub fn blocks(&self) -> [f64; 3] {
        self.position.map(Absolute::to_unit)
    }
}

/// Entities in view by id, at most [`MAX_ENTITIES`].
#[derive(Clone, Debug, Default)]
pub struct Entities {
    all: BTreeMap<i32, Entity>,
    refused: u64,
}

impl Entities {
    /// Returns the entity with this id.
    pub fn get(&self, id: i32) -> Option<&Entity> {
        self.all.get(&id)
    }

    /// Returns all entities with their ids, in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &Entity)> {
        self.all.iter().map(|(&id, entity)| (id, entity))
    }

    /// Returns the players in view: id, name, entity.
    pub fn players(&self) -> impl Iterator<Item = (i32, &str, &Entity)> {
        self.iter().filter_map(|(id, entity)| match &entity.kind {
            EntityKind::Player(name) => Some((id, name.as_str(), entity)),
            _ => None,
        })
    }

    /// Returns the number of entities.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether there are no entities.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns how many entities were dropped because of the limit.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Adds or replaces an entity. Returns `false` if there are too many.
    pub(super) fn insert(&mut self, id: i32, kind: EntityKind, position: [Absolute; 3]) -> bool {
        if self.all.len() >= MAX_ENTITIES && !self.all.contains_key(&id) {
            self.refused = self.refused.saturating_add(1);
            return false;
        }
        self.all.insert(
            id,
            Entity {
                kind,
                position,
                vehicle: None,
            },
        );
        true
    }

    pub(super) fn remove(&mut self, id: i32) -> Option<Entity> {
        self.all.remove(&id)
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    pub(super) fn move_by(&mut self, id: i32, by: [Delta; 3]) {
        if let Some(entity) = self.all.get_mut(&id) {
            for (at, by) in entity.position.iter_mut().zip(by) {
                at.0 = at.0.wrapping_add(by.0.into());
            }
        }
    }

    pub(super) fn move_to(&mut self, id: i32, position: [Absolute; 3]) {
        if let Some(entity) = self.all.get_mut(&id) {
            entity.position = position;
        }
    }

    pub(super) fn attach(&mut self, id: i32, vehicle: Option<i32>) {
        if let Some(entity) = self.all.get_mut(&id) {
            entity.vehicle = vehicle;
        }
    }
}
