//! Movement of the player's body, one tick at a time: gravity, collisions, steps, fluids and
//! ladders.
//!
//! Figures are those of the 1.3 game, in blocks and ticks of 50 ms. Differences: the body walks at
//! full speed immediately, jumps by itself when a wall is in its way, swims upward in water and
//! lava, and ignores knockback.
//!
//! A column that is not loaded is a wall, and a body inside one does not move. The result depends
//! on the arguments alone. One tick looks at no more than about 150 blocks, since speeds are
//! limited by [`MAX_FALL_SPEED`].

use crate::chunk::Block;
use crate::shape::{CollisionBox, collision_boxes};

/// Half the width of the body.
const HALF_WIDTH: f64 = 0.3;
/// Height of the body.
const HEIGHT: f64 = 1.8;
/// Highest edge that the body climbs without a jump.
const MAX_STEP: f64 = 0.5;
/// Speed gained by falling, per tick.
const GRAVITY: f64 = 0.08;
/// Share of the vertical speed that remains after a tick in the air.
const AIR_DRAG: f64 = 0.98;
/// Limit of the speed of a fall, per tick: gravity and drag balance there.
const MAX_FALL_SPEED: f64 = 3.92;
/// Vertical speed at the start of a jump, which rises 1.25 blocks.
const JUMP_SPEED: f64 = 0.42;
/// Speed of walking.
const WALK_SPEED: f64 = 0.2;
/// Speed of moving sideways in water.
const WATER_SPEED: f64 = 0.1;
/// Speed of moving sideways in lava.
const LAVA_SPEED: f64 = 0.05;
/// Speed gained by sinking in a fluid, per tick.
const FLUID_GRAVITY: f64 = 0.02;
/// Speed gained by swimming upward, per tick.
const SWIM_ACCELERATION: f64 = 0.04;
/// Vertical speed out of a fluid against a wall, such as a shore.
const SHORE_SPEED: f64 = 0.3;
/// Limit of the speed down a ladder or vine, and sideways on it.
const LADDER_SPEED: f64 = 0.15;
/// Speed up a ladder.
const CLIMB_SPEED: f64 = 0.2;
/// Coordinates beyond this are outside every world.
const MAX_COORDINATE: f64 = 3.2e7;
/// Tolerance of comparisons, for rounding errors.
const EPSILON: f64 = 1e-7;

const WATER: [u16; 2] = [8, 9];
const LAVA: [u16; 2] = [10, 11];
const COBWEB: u16 = 30;
const LADDER: u16 = 65;
const VINES: u16 = 106;

/// The player's body between two ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Body {
    /// Middle of the feet: x, y, z.
    pub(super) feet: [f64; 3],
    /// Upward speed per tick.
    pub(super) vertical_speed: f64,
    /// Whether the body stands on something.
    pub(super) is_on_ground: bool,
    /// Whether something stopped the body sideways in the last tick.
    pub(super) is_blocked: bool,
}

impl Body {
    /// Moves the body for one tick, towards `target` (x, z) if there is one.
    ///
    /// `flies` turns gravity off. `block_at` returns `None` in columns that are not loaded.
    pub(super) fn tick(
        &mut self,
        target: Option<[f64; 2]>,
        can_fly: bool,
        block_at: &impl Fn([i32; 3]) -> Option<Block>,
    ) {
        let is_inside = |at: &f64| at.abs() <= MAX_COORDINATE;
        let Some(inside) = self
            .feet
            .iter()
            .all(is_inside)
            .then(|| block_at(self.feet.map(floor)))
            .flatten()
        else {
            self.vertical_speed = 0.0;
            return;
        };
        let is_in_water = self.touches(&WATER, block_at);
        let is_in_lava = !is_in_water && self.touches(&LAVA, block_at);
        let is_in_fluid = is_in_water || is_in_lava;
        let is_on_ladder = matches!(inside.id, LADDER | VINES);
        let mut speed = match (is_in_water, is_in_lava, is_on_ladder) {
            (true, ..) => WATER_SPEED,
            (_, true, _) => LAVA_SPEED,
            (.., true) => LADDER_SPEED,
            _ => WALK_SPEED,
        };
        if can_fly {
            self.vertical_speed = 0.0;
        } else if is_in_fluid {
            self.vertical_speed += SWIM_ACCELERATION;
        } else if is_on_ladder {
            self.vertical_speed = self.vertical_speed.max(-LADDER_SPEED);
        } else if self.is_on_ground && self.is_blocked && target.is_some() {
            self.vertical_speed = JUMP_SPEED;
        }
        if self.touches(&[COBWEB], block_at) {
            speed *= 0.25;
            self.vertical_speed *= 0.05;
        }
        let [dx, dz] = target.map_or([0.0; 2], |target| self.towards(target, speed));
        self.advance([dx, self.vertical_speed, dz], block_at);
        if can_fly {
            return;
        }
        if is_in_fluid {
            let drag = if is_in_water { 0.8 } else { 0.5 };
            self.vertical_speed = self.vertical_speed * drag - FLUID_GRAVITY;
            if self.is_blocked {
                self.vertical_speed = SHORE_SPEED;
            }
            return;
        }
        if is_on_ladder && self.is_blocked {
            self.vertical_speed = CLIMB_SPEED;
        }
        self.vertical_speed = ((self.vertical_speed - GRAVITY) * AIR_DRAG).max(-MAX_FALL_SPEED);
    }

    /// Returns the movement for this tick, at most `speed` long.
    fn towards(&self, [x, z]: [f64; 2], speed: f64) -> [f64; 2] {
        let dx = x - self.feet[0];
        let dz = z - self.feet[2];
        let distance = (dx * dx + dz * dz).sqrt();
        if distance > speed {
            [dx * speed / distance, dz * speed / distance]
        } else if distance.is_finite() {
            [dx, dz]
        } else {
            [0.0; 2]
        }
    }

    /// Moves as far as obstacles allow: vertically, then along x, then along z, as the game does.
    fn advance(&mut self, motion: [f64; 3], block_at: &impl Fn([i32; 3]) -> Option<Block>) {
        let start = self.bounds();
        let obstacles = obstacles(&start, motion, block_at);
        let mut moved = slide(start, motion, &obstacles);
        let is_landing = motion[1] < 0.0 && moved[1] > motion[1];
        let is_blocked = |moved: [f64; 3]| {
            (moved[0] - motion[0]).abs() > EPSILON || (moved[2] - motion[2]).abs() > EPSILON
        };
        if is_blocked(moved) && (self.is_on_ground || is_landing) {
            let raised = slide(start, [motion[0], MAX_STEP, motion[2]], &obstacles);
            let down = slide(shifted(start, raised), [0.0, -raised[1], 0.0], &obstacles);
            let stepped = [raised[0], raised[1] + down[1], raised[2]];
            let length = |moved: [f64; 3]| moved[0] * moved[0] + moved[2] * moved[2];
            if length(stepped) > length(moved) + EPSILON {
                moved = stepped;
            }
        }
        for (at, by) in self.feet.iter_mut().zip(moved) {
            *at += by;
        }
        self.is_on_ground = is_landing;
        self.is_blocked = is_blocked(moved);
        if (moved[1] - motion[1]).abs() > EPSILON {
            self.vertical_speed = 0.0;
        }
    }

    fn bounds(&self) -> CollisionBox {
        let [x, y, z] = self.feet;
        CollisionBox {
            min: [x - HALF_WIDTH, y, z - HALF_WIDTH],
            max: [x + HALF_WIDTH, y + HEIGHT, z + HALF_WIDTH],
        }
    }

    /// Returns whether the middle of the body touches a block of these ids. Head and shins do not
    /// count, as in the game.
    fn touches(&self, ids: &[u16], block_at: &impl Fn([i32; 3]) -> Option<Block>) -> bool {
        let CollisionBox { min, max } = self.bounds();
        let min = [min[0] + 0.001, min[1] + 0.4, min[2] + 0.001];
        let max = [max[0] - 0.001, max[1] - 0.4, max[2] - 0.001];
        cells(min, max).any(|at| block_at(at).is_some_and(|block| ids.contains(&block.id)))
    }
}

fn floor(at: f64) -> i32 {
    at.floor() as i32
}

/// Returns the coordinates of all blocks that a box touches.
fn cells(min: [f64; 3], max: [f64; 3]) -> impl Iterator<Item = [i32; 3]> {
    let [xs, ys, zs] = [0, 1, 2].map(|axis| {
        let side = |sides: [f64; 3]| sides.get(axis).copied().map_or(0, floor);
        side(min)..=side(max)
    });
    xs.flat_map(move |x| {
        let zs = zs.clone();
        ys.clone()
            .flat_map(move |y| zs.clone().map(move |z| [x, y, z]))
    })
}

/// Returns the collision boxes of everything that a body may touch in this tick, including a step
/// up.
fn obstacles(
    start: &CollisionBox,
    motion: [f64; 3],
    block_at: &impl Fn([i32; 3]) -> Option<Block>,
) -> Vec<CollisionBox> {
    /// Adds walls for columns that are not loaded.
    const WALL: Block = Block::new(1);
    let mut min = start.min;
    let mut max = start.max;
    for ((low, high), by) in min.iter_mut().zip(&mut max).zip(motion) {
        *low += by.min(0.0);
        *high += by.max(0.0);
    }
    max[1] = max[1].max(start.max[1] + MAX_STEP);
    // Fences are half a block higher than their cell.
    min[1] -= 1.0;
    let solid_at = |at: [i32; 3]| block_at(at).unwrap_or(WALL);
    let mut boxes = Vec::new();
    for at in cells(min, max) {
        collision_boxes(at, &solid_at, &mut boxes);
    }
    boxes
}

fn shifted(bounds: CollisionBox, by: [f64; 3]) -> CollisionBox {
    let add = |at: [f64; 3]| [at[0] + by[0], at[1] + by[1], at[2] + by[2]];
    CollisionBox {
        min: add(bounds.min),
        max: add(bounds.max),
    }
}

/// Returns how far a box moves on each axis before it touches an obstacle. An obstacle that the box
/// was already inside of does not stop it.
fn slide(mut bounds: CollisionBox, motion: [f64; 3], obstacles: &[CollisionBox]) -> [f64; 3] {
    let y = clipped(1, &bounds, motion[1], obstacles);
    bounds = shifted(bounds, [0.0, y, 0.0]);
    let x = clipped(0, &bounds, motion[0], obstacles);
    bounds = shifted(bounds, [x, 0.0, 0.0]);
    [x, y, clipped(2, &bounds, motion[2], obstacles)]
}

/// Returns the part of `motion` along one axis that obstacles allow.
fn clipped(axis: usize, bounds: &CollisionBox, mut motion: f64, obstacles: &[CollisionBox]) -> f64 {
    for obstacle in obstacles {
        let gap = |axis: usize| {
            let side = |sides: &[f64; 3]| sides.get(axis).copied().unwrap_or_default();
            (
                side(&obstacle.min) - side(&bounds.max),
                side(&bounds.min) - side(&obstacle.max),
            )
        };
        let is_adjacent = (0..3)
            .filter(|other| *other != axis)
            .all(|other| gap(other).0 < -EPSILON && gap(other).1 < -EPSILON);
        if !is_adjacent {
            continue;
        }
        let (ahead, behind) = gap(axis);
        if motion > 0.0 && ahead >= -EPSILON {
            motion = motion.min(ahead.max(0.0));
        } else if motion < 0.0 && behind >= -EPSILON {
            motion = motion.max(-behind.max(0.0));
        }
    }
    motion
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a floor with its top at y = 64, and other blocks on it.
    fn floor_with(blocks: &[([i32; 3], u16, u8)]) -> impl Fn([i32; 3]) -> Option<Block> + '_ {
        |at| {
            let found = blocks.iter().find(|(place, ..)| *place == at);
            let floor = if at[1] < 64 { 1 } else { 0 };
            Some(found.map_or(Block::new(floor), |&(_, id, metadata)| Block {
                id,
                metadata,
            }))
        }
    }

    fn at(x: f64, y: f64, z: f64) -> Body {
        Body {
            feet: [x, y, z],
            ..Body::default()
        }
    }

    fn run(
        body: &mut Body,
        ticks: usize,
        target: Option<[f64; 2]>,
        block_at: &impl Fn([i32; 3]) -> Option<Block>,
    ) -> Vec<f64> {
        let mut heights = Vec::new();
        for _ in 0..ticks {
            body.tick(target, false, block_at);
            heights.push(body.feet[1]);
        }
        heights
    }

    #[test]
    fn falls_like_the_game_and_lands() {
        let blocks = floor_with(&[]);
        let mut body = at(0.5, 64.63, 0.5);
        let heights = run(&mut body, 10, None, &blocks);
        let falls: Vec<f64> = [0.0, 0.0784, 0.155_232, 0.230_527_36]
            .iter()
            .scan(64.63, |y, by| {
                *y -= by;
                Some(*y)
            })
            .collect();
        for (height, expected) in heights.iter().zip(&falls) {
            assert!((height - expected).abs() < 1e-9, "{heights:?}");
        }
        assert_eq!(body.feet, [0.5, 64.0, 0.5]);
        assert!(body.is_on_ground);
        let before = body;
        run(&mut body, 100, None, &blocks);
        assert_eq!(body.feet, before.feet, "stands still");
        assert!(body.is_on_ground);
    }

    #[test]
    fn a_fall_has_a_limit() {
        let mut body = at(0.5, 250.0, 0.5);
        let air = |_| Some(Block::AIR);
        run(&mut body, 600, None, &air);
        assert!((-MAX_FALL_SPEED..-3.9).contains(&body.vertical_speed));
    }

    #[test]
    fn walks_up_slabs_and_stairs_and_jumps_on_blocks() {
        // A slab of half a block, then a full block, then down again.
        let blocks = floor_with(&[([2, 64, 0], 44, 0), ([3, 64, 0], 1, 0), ([6, 64, 0], 1, 0)]);
        let mut body = at(0.5, 64.0, 0.5);
        let target = Some([9.5, 0.5]);
        let heights = run(&mut body, 90, target, &blocks);
        assert_eq!(body.feet, [9.5, 64.0, 0.5], "{heights:?}");
        assert!(body.is_on_ground);
        let highest = heights.iter().copied().fold(0.0, f64::max);
        assert!((65.2..65.3).contains(&highest), "one jump: {highest}");
    }

    #[test]
    fn walls_and_fences_stop_the_body() {
        for (wall, edge) in [
            (vec![([3, 64, 0], 1, 0), ([3, 65, 0], 1, 0)], 3.0),
            (vec![([3, 64, 0], 85, 0)], 3.375),
        ] {
            let blocks = floor_with(&wall);
            let mut body = at(0.5, 64.0, 0.5);
            run(&mut body, 100, Some([9.5, 0.5]), &blocks);
            assert!(
                (body.feet[0] - (edge - HALF_WIDTH)).abs() < 1e-6,
                "{wall:?}: {body:?}"
            );
        }
    }

    #[test]
    fn slides_along_a_wall() {
        let wall: Vec<_> = (-2..12)
            .flat_map(|z| [([3, 64, z], 1, 0), ([3, 65, z], 1, 0)])
            .collect();
        let blocks = floor_with(&wall);
        let mut body = at(2.5, 64.0, 0.5);
        run(&mut body, 100, Some([4.5, 8.5]), &blocks);
        assert!(body.feet[2] > 7.0, "{body:?}");
        assert!(body.feet[0] <= 3.0 - HALF_WIDTH + 1e-6, "{body:?}");
    }

    #[test]
    fn swims_to_the_surface_and_out() {
        let pool = |[x, y, _]: [i32; 3]| {
            Some(Block {
                id: match (x, y) {
                    (0..4, 60..64) => 9,
                    (_, ..64) => 1,
                    _ => 0,
                },
                metadata: 0,
            })
        };
        let mut body = at(1.5, 60.0, 0.5);
        run(&mut body, 100, None, &pool);
        let heights = run(&mut body, 40, None, &pool);
        assert!(
            heights.iter().all(|y| (63.0..64.3).contains(y)),
            "{heights:?}"
        );
        run(&mut body, 200, Some([6.5, 0.5]), &pool);
        assert_eq!(body.feet, [6.5, 64.0, 0.5]);
    }

    #[test]
    fn climbs_a_ladder_and_comes_down_slowly() {
        let tower: Vec<_> = (64..70)
            .flat_map(|y| [([3, y, 0], 1, 0), ([2, y, 0], LADDER, 4)])
            .collect();
        let blocks = floor_with(&tower);
        let mut body = at(0.5, 64.0, 0.5);
        run(&mut body, 120, Some([3.5, 0.5]), &blocks);
        assert_eq!(body.feet, [3.5, 70.0, 0.5]);
        let mut body = at(2.4, 69.0, 0.5);
        let heights = run(&mut body, 20, None, &blocks);
        let fastest = heights
            .windows(2)
            .map(|pair| pair[0] - pair[1])
            .fold(0.0, f64::max);
        assert!((fastest - LADDER_SPEED).abs() < 1e-9, "{heights:?}");
    }

    #[test]
    fn a_column_that_is_not_loaded_stops_the_body() {
        let loaded = |[x, y, _]: [i32; 3]| {
            (x < 16).then_some(Block {
                id: u16::from(y < 64),
                metadata: 0,
            })
        };
        let mut body = at(14.5, 64.0, 0.5);
        run(&mut body, 50, Some([20.5, 0.5]), &loaded);
        assert!(body.feet[0] <= 16.0 - HALF_WIDTH + 1e-6, "{body:?}");
        let mut body = at(20.5, 90.0, 0.5);
        run(&mut body, 50, Some([0.5, 0.5]), &loaded);
        assert_eq!(body.feet, [20.5, 90.0, 0.5]);
    }

    #[test]
    fn flying_turns_gravity_off() {
        let mut body = at(0.5, 80.0, 0.5);
        for _ in 0..50 {
            body.tick(Some([3.5, 0.5]), true, &floor_with(&[]));
        }
        assert_eq!(body.feet, [3.5, 80.0, 0.5]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Any blocks, position and target: no panic, and the body never leaves a closed room of
        /// stone.
        #[test]
        fn no_body_leaves_a_closed_room(seed: u64, x in 1.4..6.6_f64, z in 1.4..6.6_f64, target: [f64; 2]) {
            let mut dice = crate::sample::SampleRng::new(seed);
            let ids: Vec<(u16, u8)> = (0..8 * 8 * 8)
                .map(|_| {
                    let id = if dice.below(3) == 0 { dice.below(160) } else { 0 };
                    (id as u16, dice.below(16) as u8)
                })
                .collect();
            let room = |[x, y, z]: [i32; 3]| {
                let is_inside = [x, y, z].iter().all(|at| (1..7).contains(at));
                let (id, metadata) = if is_inside { ids[(x * 64 + y * 8 + z) as usize] } else { (1, 0) };
                Some(Block { id, metadata })
            };
            let mut body = at(x, 4.0, z);
            for _ in 0..200 {
                body.tick(Some(target), false, &room);
                let [x, y, z] = body.feet;
                prop_assert!((1.29..6.71).contains(&x) && (1.29..6.71).contains(&z), "{body:?}");
                prop_assert!((0.99..6.0).contains(&y), "{body:?}");
            }
        }

        #[test]
        fn no_place_panics(x: f64, y: f64, z: f64, target: [f64; 2]) {
            let mut body = at(x, y, z);
            for _ in 0..3 {
                body.tick(Some(target), false, &floor_with(&[]));
            }
        }
    }
}
