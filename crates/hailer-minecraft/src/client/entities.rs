//! What lives and moves in view.

use crate::types::{Absolute, Delta};
use std::collections::BTreeMap;

/// More entities than this are not kept; a busy real server shows some hundreds.
pub const MAX_ENTITIES: usize = 4096;

/// What an entity is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityKind {
    /// Another player, by name.
    Player(String),
    /// An animal or a monster, by the number of its kind.
    Mob(u8),
    /// A boat, an arrow, and the like, by the number of its kind.
    Object(i8),
    /// An item on the ground, by its id.
    Item(i16),
    /// A painting.
    Painting,
    /// Experience.
    Orb,
}

/// An entity in view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// What it is.
    pub kind: EntityKind,
    /// Where it is: x, y, z.
    pub position: [Absolute; 3],
    /// What it rides.
    pub vehicle: Option<i32>,
}

impl Entity {
    /// Where it is, in blocks: x, y, z.
    pub fn blocks(&self) -> [f64; 3] {
        self.position.map(Absolute::to_unit)
    }
}

/// All entities in view, by id; never more than [`MAX_ENTITIES`].
#[derive(Clone, Debug, Default)]
pub struct Entities {
    all: BTreeMap<i32, Entity>,
    refused: u64,
}

impl Entities {
    /// An entity.
    pub fn get(&self, id: i32) -> Option<&Entity> {
        self.all.get(&id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &Entity)> {
        self.all.iter().map(|(&id, entity)| (id, entity))
    }

    /// Players in view: id, name, entity.
    pub fn players(&self) -> impl Iterator<Item = (i32, &str, &Entity)> {
        self.iter().filter_map(|(id, entity)| match &entity.kind {
            EntityKind::Player(name) => Some((id, name.as_str(), entity)),
            _ => None,
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many were not kept, because there were too many.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// `false` if there are too many already.
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

    pub(super) fn shift(&mut self, id: i32, by: [Delta; 3]) {
        if let Some(entity) = self.all.get_mut(&id) {
            for (at, by) in entity.position.iter_mut().zip(by) {
                at.0 = at.0.wrapping_add(by.0.into());
            }
        }
    }

    pub(super) fn put(&mut self, id: i32, position: [Absolute; 3]) {
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
