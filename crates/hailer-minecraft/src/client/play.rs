//! The game itself: what the server wants answered, what time brings, and what can be done.

use super::{Client, ClientError, Position};
use crate::build::Build;
use crate::state::UnexpectedPacket;
use crate::table::{
    Animation, Chat, ClientSettings, ClientStatus, ConfirmTransaction, HeldItemChange, Packet,
    Player, PlayerBlockPlacement, PlayerDigging, PlayerLook, PlayerPosition, PlayerPositionLook,
    RespawnRequest,
};
use crate::types::{Abilities, Shrunk, is_legal_in_chat};
use std::time::Duration;

/// A tick of the game.
pub const TICK: Duration = Duration::from_millis(50);
/// The most UTF-16 units of a line that we say; servers throw out who says more (spec/minecraft-12w.md#5.1).
pub const MAX_CHAT_UNITS: usize = 100;
/// A position is told at least so often, in ticks.
const POSITION_EVERY: u32 = 20;
/// So long a server that runs is never silent: it sends a keep alive about once a second (spec/minecraft-12w.md#6).
const SILENCE: Duration = Duration::from_secs(30);
/// As far as one walks in a tick, in blocks.
const STEP: f64 = 0.2;
/// While riding, y and stance say nothing else (spec/minecraft-12w.md#5.1).
const RIDING: f64 = -999.0;
/// Names a direction where there is none: an item is used in the air.
const NO_FACE: u8 = 255;

/// What depends on time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// When the next tick is due.
    due: Duration,
    heard: bool,
    last_heard: Option<Duration>,
    /// Ticks since we told where we are.
    since_position: u32,
    told: Option<Position>,
    goal: Option<[f64; 3]>,
    /// What ends the digging, and after how many ticks.
    digging: Option<(PlayerDigging, u32)>,
    introduced: bool,
    in_game: bool,
}

impl Clock {
    pub(super) fn heard(&mut self) {
        self.heard = true;
    }

    /// Whether the server has let us in.
    pub(super) fn is_in_game(&self) -> bool {
        self.in_game
    }
}

impl Client {
    /// Answers the packets that want it.
    pub(super) fn answer(&mut self, packet: &Packet) {
        match packet {
            Packet::KeepAlive(packet) => self.reply(packet.clone()),
            Packet::Login(_) => self.clock.in_game = true,
            Packet::PlayerTeleport(_) => self.confirm_place(),
            Packet::UpdateHealth(packet) if packet.health <= 0 => self.come_back(),
            // The credits of the End: the game goes on when they were read.
            Packet::ChangeGameState(packet) if packet.reason == 4 => self.come_back(),
            Packet::ConfirmTransaction(packet) if !packet.accepted => {
                self.reply(ConfirmTransaction {
                    accepted: true,
                    ..packet.clone()
                });
            }
            _ => {}
        }
    }

    fn come_back(&mut self) {
        if self.config.respawn {
            let _ = self.respawn();
        }
    }

    /// Says the same back; the first time, also who we are (spec/minecraft-12w.md#6).
    fn confirm_place(&mut self) {
        self.clock.goal = None;
        if let Some(position) = self.game.player.position {
            self.tell_all(position);
        }
        if !std::mem::replace(&mut self.clock.introduced, true) {
            if self.build() >= Build::W16a {
                let difficulty = self.game.player.difficulty;
                let (locale, view_distance) = ("en_US".into(), Shrunk(0));
                self.reply(ClientSettings {
                    locale,
                    view_distance,
                    chat: 8,
                    difficulty,
                });
            }
            if let Some(abilities) = self.game.player.abilities.clone() {
                self.reply(abilities);
            }
        }
    }

    fn tell_all(&mut self, position: Position) {
        let Position {
            feet: [x, y, z],
            eyes,
            yaw,
            pitch,
            on_ground,
        } = position;
        self.reply(PlayerPositionLook {
            x,
            y,
            stance: y + eyes,
            z,
            yaw,
            pitch,
            on_ground,
        });
        (self.clock.told, self.clock.since_position) = (Some(position), 0);
    }

    /// Ticks, if it is time.
    pub(super) fn pass(&mut self, now: Duration) {
        let clock = &mut self.clock;
        let last_heard = clock.last_heard.get_or_insert(now);
        if std::mem::take(&mut clock.heard) {
            *last_heard = now;
        } else if now.saturating_sub(*last_heard) >= SILENCE {
            self.error = Some(ClientError::Silence(SILENCE.as_secs()));
            return;
        }
        if now < clock.due {
            return;
        }
        // Small delays are made up for, long ones are not.
        clock.due = clock.due.max(now.saturating_sub(TICK * 20)) + TICK;
        if self.is_playing() && self.game.player.health > 0 {
            self.step();
            self.dig_on();
            self.tell_position();
        }
    }

    /// Says that we are still there, as the game does: what has changed, and everything now and then.
    fn tell_position(&mut self) {
        let Some(position) = self.game.player.position else {
            return;
        };
        let Position {
            feet: [x, y, z],
            eyes,
            yaw,
            pitch,
            on_ground,
        } = position;
        if self.game.player.vehicle.is_some() {
            let (y, stance) = (RIDING, RIDING);
            return self.reply(PlayerPositionLook {
                x: 0.0,
                y,
                stance,
                z: 0.0,
                yaw,
                pitch,
                on_ground,
            });
        }
        self.clock.since_position += 1;
        let told = self.clock.told.unwrap_or_default();
        let moved = told.feet != position.feet || self.clock.since_position >= POSITION_EVERY;
        let turned = (told.yaw, told.pitch) != (yaw, pitch);
        match (moved, turned) {
            (true, true) => return self.tell_all(position),
            (true, false) => {
                self.reply(PlayerPosition {
                    x,
                    y,
                    stance: y + eyes,
                    z,
                    on_ground,
                });
                self.clock.since_position = 0;
            }
            (false, true) => self.reply(PlayerLook {
                yaw,
                pitch,
                on_ground,
            }),
            (false, false) => self.reply(Player { on_ground }),
        }
        self.clock.told = Some(position);
    }

    /// Goes towards where we were sent, in a straight line.
    fn step(&mut self) {
        let (Some(goal), Some(position)) = (self.clock.goal, &mut self.game.player.position) else {
            return;
        };
        let [x, y, z] = position.feet;
        let [dx, dy, dz] = [goal[0] - x, goal[1] - y, goal[2] - z];
        let length = (dx * dx + dy * dy + dz * dz).sqrt();
        if length > STEP {
            position.feet = [
                x + dx * STEP / length,
                y + dy * STEP / length,
                z + dz * STEP / length,
            ];
        } else {
            position.feet = goal;
            self.clock.goal = None;
        }
    }

    fn dig_on(&mut self) {
        match self.clock.digging.take() {
            Some((end, 0 | 1)) => self.reply(end),
            digging => self.clock.digging = digging.map(|(end, ticks)| (end, ticks - 1)),
        }
    }

    /// A reply that has no place any more is not sent.
    pub(super) fn reply(&mut self, packet: impl Into<Packet>) {
        let _ = self.send(packet);
    }

    /// Says a line in chat, without what servers throw out for: control characters and section signs are left out, other
    /// characters that the game's font lacks become question marks, and what is longer than [`MAX_CHAT_UNITS`] units is cut. An
    /// empty line is not said.
    pub fn say(&mut self, text: &str) -> Result<(), UnexpectedPacket> {
        let kept = text.chars().filter(|c| !c.is_control() && *c != '\u{A7}');
        // All that is legal is one unit long.
        let said: String = kept
            .map(|c| if is_legal_in_chat(c) { c } else { '?' })
            .take(MAX_CHAT_UNITS)
            .collect();
        let said = said.trim();
        if said.is_empty() {
            Ok(())
        } else {
            self.send(Chat { text: said.into() })
        }
    }

    /// Comes back to life (spec/minecraft-12w.md#2).
    pub fn respawn(&mut self) -> Result<(), UnexpectedPacket> {
        if self.build() >= Build::W24a {
            return self.send(ClientStatus { status: 1 });
        }
        let me = &self.game.player;
        let (dimension, difficulty, level_type) =
            (me.dimension, me.difficulty, me.level_type.clone());
        self.send(RespawnRequest {
            dimension,
            difficulty,
            mode: 0,
            height: 256,
            level_type,
        })
    }

    /// Swings the arm.
    pub fn swing(&mut self) -> Result<(), UnexpectedPacket> {
        self.send(Animation {
            entity: self.game.player.entity,
            animation: 1,
        })
    }

    /// Looks elsewhere; the server hears of it with the next tick. Degrees: yaw 0 south, 90 west; pitch 90 down.
    pub fn look(&mut self, yaw: f32, pitch: f32) {
        if let Some(position) = &mut self.game.player.position {
            (position.yaw, position.pitch) = (yaw, pitch.clamp(-90.0, 90.0));
        }
    }

    /// Goes there in a straight line, through whatever is in between: a server that minds puts us back, which ends it.
    /// x, y, z of the feet, in blocks.
    pub fn walk_to(&mut self, place: [f64; 3]) {
        self.clock.goal = Some(place);
    }

    /// Digs a block from one of its faces (0 below, 1 above, 2 north, 3 south, 4 west, 5 east) for so many ticks; who may
    /// build at once needs none. Whether the block is gone, the server says.
    pub fn dig(
        &mut self,
        x: i32,
        y: u8,
        z: i32,
        face: u8,
        ticks: u32,
    ) -> Result<(), UnexpectedPacket> {
        let start = PlayerDigging {
            status: 0,
            x,
            y,
            z,
            face,
        };
        let abilities = self.game.player.abilities.as_ref();
        let at_once = abilities.is_some_and(|it| it.abilities.has(Abilities::INSTANT_BUILD));
        self.swing()?;
        self.send(start.clone())?;
        self.clock.digging = (!at_once).then_some((PlayerDigging { status: 2, ..start }, ticks));
        Ok(())
    }

    /// Puts the item in hand against a face of a block, as [`dig`](Self::dig) numbers them.
    pub fn place(&mut self, x: i32, y: u8, z: i32, face: u8) -> Result<(), UnexpectedPacket> {
        self.swing()?;
        self.put(x, y, z, face, 8)
    }

    /// Uses the item in hand in the air: eats, shoots, throws.
    pub fn use_item(&mut self) -> Result<(), UnexpectedPacket> {
        self.put(-1, 255, -1, NO_FACE, 0)
    }

    fn put(
        &mut self,
        x: i32,
        y: u8,
        z: i32,
        direction: u8,
        cursor: u8,
    ) -> Result<(), UnexpectedPacket> {
        let held = self.game.player.item().clone();
        let (cursor_x, cursor_y, cursor_z) = (cursor, cursor, cursor);
        self.send(PlayerBlockPlacement {
            x,
            y,
            z,
            direction,
            held,
            cursor_x,
            cursor_y,
            cursor_z,
        })
    }

    /// Takes another place of the hotbar in hand, 0 to 8.
    pub fn select(&mut self, place: u8) -> Result<(), UnexpectedPacket> {
        let place = place.min(8);
        self.send(HeldItemChange {
            place: place.into(),
        })?;
        self.game.player.held = place;
        Ok(())
    }
}
