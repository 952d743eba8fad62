//! The game after login: replies that servers require, ticks, and actions.

use super::physics::Body;
use super::{Client, ClientError, ClientEvent, Position};
use crate::build::Build;
use crate::state::UnexpectedPacket;
use crate::table::{
    Animation, Chat, ClientSettings, ClientStatus, ConfirmTransaction, HeldItemChange, Packet,
    Player, PlayerBlockPlacement, PlayerDigging, PlayerLook, PlayerPosition, PlayerPositionLook,
    RespawnRequest,
};
use crate::types::{Abilities, Shrunk, is_legal_in_chat};
use std::time::Duration;

/// Interval between two ticks of the game.
pub const TICK: Duration = Duration::from_millis(50);
/// Longest line of chat in UTF-16 units. Servers kick clients that send more
/// (spec/minecraft-12w.md#5.1).
pub const MAX_CHAT_UNITS: usize = 100;
/// Ticks after which an unchanged position is sent again.
const POSITION_TICKS: u32 = 20;
/// Time limit without a packet from the server. Servers send a keep alive about once per second
/// (spec/minecraft-12w.md#6).
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Value of y and stance while riding (spec/minecraft-12w.md#5.1).
const RIDING_Y: f64 = -999.0;
/// Direction of a placement without a block: the item is used in the air.
const NO_FACE: u8 = 255;
/// Distance in blocks at which a walk has arrived.
const ARRIVAL_DISTANCE: f64 = 0.01;
/// Distance in blocks that is kept to a followed player.
const FOLLOW_DISTANCE: f64 = 2.0;
/// Ticks without progress after which a walk is given up.
const BLOCKED_TICKS: u32 = 40;

/// Shortest fall that is reported, in blocks: more than a jump.
const REPORTED_FALL: f64 = 1.5;

/// Where the player is walking.
#[derive(Clone, Debug)]
enum Goal {
    /// To a place: x, z.
    Place {
        place: [f64; 2],
        /// Shortest distance so far, and ticks since it became shorter.
        shortest: f64,
        ticks: u32,
    },
    /// After a player, by lower-case name.
    Player(String),
}

/// State that depends on time.
#[derive(Debug, Default)]
pub(super) struct PlayState {
    /// When the next tick is due.
    due: Duration,
    has_received: bool,
    last_received: Option<Duration>,
    /// Ticks since the position was sent.
    since_position: u32,
    /// Position that the server knows.
    sent: Option<Position>,
    vertical_speed: f64,
    is_blocked: bool,
    /// Highest feet since the body stood on something, in blocks.
    highest: Option<f64>,
    goal: Option<Goal>,
    /// Packet that ends the digging, and ticks until it is sent.
    digging: Option<(PlayerDigging, u32)>,
    has_introduced: bool,
    is_in_game: bool,
}

impl PlayState {
    pub(super) fn received(&mut self) {
        self.has_received = true;
    }

    /// Returns whether the server has accepted the login.
    pub(super) fn is_in_game(&self) -> bool {
        self.is_in_game
    }
}

impl Client {
    /// Replies to the packets that require a reply.
    pub(super) fn answer(&mut self, packet: &Packet) {
        match packet {
            Packet::KeepAlive(packet) => self.reply(packet.clone()),
            Packet::Login(_) => self.play.is_in_game = true,
            Packet::PlayerTeleport(_) => self.confirm_position(),
            Packet::UpdateHealth(packet) if packet.health <= 0 => self.respawn_if_wanted(),
            // Reason 4 shows the credits of the End; the game continues after a respawn.
            Packet::ChangeGameState(packet) if packet.reason == 4 => self.respawn_if_wanted(),
            Packet::ConfirmTransaction(packet) if !packet.accepted => {
                self.reply(ConfirmTransaction {
                    accepted: true,
                    ..packet.clone()
                });
            }
            _ => {}
        }
    }

    fn respawn_if_wanted(&mut self) {
        if self.config.can_respawn {
            let _ = self.respawn();
        }
    }

    /// Returns the position to the server; the first time, also settings and abilities
    /// (spec/minecraft-12w.md#6).
    fn confirm_position(&mut self) {
        self.play.vertical_speed = 0.0;
        self.play.is_blocked = false;
        self.play.highest = None;
        if matches!(self.play.goal, Some(Goal::Place { .. })) {
            self.play.goal = None;
        }
        if let Some(position) = self.game.player.position {
            self.send_position_and_look(position);
        }
        if !std::mem::replace(&mut self.play.has_introduced, true) {
            if self.build() >= Build::W16a {
                let settings = ClientSettings {
                    locale: "en_US".into(),
                    view_distance: Shrunk(0),
                    chat: 8,
                    difficulty: self.game.player.difficulty,
                };
                self.reply(settings);
            }
            if let Some(abilities) = self.game.player.abilities.clone() {
                self.reply(abilities);
            }
        }
    }

    fn send_position_and_look(&mut self, position: Position) {
        self.reply(PlayerPositionLook::from(position));
        self.play.sent = Some(position);
        self.play.since_position = 0;
    }

    /// Runs a tick if one is due.
    pub(super) fn pass(&mut self, now: Duration) {
        let play = &mut self.play;
        let last_received = play.last_received.get_or_insert(now);
        if std::mem::take(&mut play.has_received) {
            *last_received = now;
        } else if now.saturating_sub(*last_received) >= MAX_SILENCE {
            self.error = Some(ClientError::Silence(MAX_SILENCE.as_secs()));
            return;
        }
        if now < play.due {
            return;
        }
        // Catch up on delays of at most 20 ticks.
        play.due = play.due.max(now.saturating_sub(TICK * 20)) + TICK;
        if self.is_playing() && self.game.player.health > 0 {
            self.move_body();
            self.continue_digging();
            self.send_movement();
        }
    }

    /// Sends what changed since the last tick, and the position once per second, as the game does.
    fn send_movement(&mut self) {
        let Some(position) = self.game.player.position else {
            return;
        };
        let whole = PlayerPositionLook::from(position);
        if self.game.player.vehicle.is_some() {
            return self.reply(PlayerPositionLook {
                x: 0.0,
                y: RIDING_Y,
                stance: RIDING_Y,
                z: 0.0,
                ..whole
            });
        }
        let PlayerPositionLook {
            x,
            y,
            stance,
            z,
            yaw,
            pitch,
            on_ground,
        } = whole;
        self.play.since_position += 1;
        let sent = self.play.sent.unwrap_or_default();
        let has_moved = sent.feet != position.feet || self.play.since_position >= POSITION_TICKS;
        let has_turned = sent.yaw != yaw || sent.pitch != pitch;
        match (has_moved, has_turned) {
            (true, true) => return self.send_position_and_look(position),
            (true, false) => {
                self.reply(PlayerPosition {
                    x,
                    y,
                    stance,
                    z,
                    on_ground,
                });
                self.play.since_position = 0;
            }
            (false, true) => self.reply(PlayerLook {
                yaw,
                pitch,
                on_ground,
            }),
            (false, false) => self.reply(Player { on_ground }),
        }
        self.play.sent = Some(position);
    }

    /// Moves the body for one tick: falling, standing or walking. While riding, the server moves
    /// it.
    fn move_body(&mut self) {
        let Some(position) = self.game.player.position else {
            return;
        };
        if self.game.player.vehicle.is_some() {
            return;
        }
        let target = self.target(position);
        let flies = self
            .game
            .player
            .abilities
            .as_ref()
            .is_some_and(|abilities| abilities.abilities.has(Abilities::FLYING));
        let mut body = Body {
            feet: position.feet,
            vertical_speed: self.play.vertical_speed,
            is_on_ground: position.is_on_ground,
            is_blocked: self.play.is_blocked,
        };
        let world = self.game.world();
        body.tick(target, flies, &|[x, y, z]| world.block(x, y, z));
        self.play.vertical_speed = body.vertical_speed;
        self.play.is_blocked = body.is_blocked;
        if let Some(position) = &mut self.game.player.position {
            position.feet = body.feet;
            position.is_on_ground = body.is_on_ground;
        }
        self.check_landing(body);
        self.check_arrival(body);
    }

    /// Reports a fall of at least [`REPORTED_FALL`].
    fn check_landing(&mut self, body: Body) {
        let [x, y, z] = body.feet;
        let highest = self.play.highest.map_or(y, |highest| highest.max(y));
        self.play.highest = if body.is_on_ground {
            None
        } else {
            Some(highest)
        };
        let fall = highest - y;
        if body.is_on_ground && fall >= REPORTED_FALL {
            self.events.push_back(ClientEvent::Landed { x, y, z, fall });
        }
    }

    /// Returns the position to walk to in this tick: x, z. Turns towards a followed player.
    fn target(&mut self, position: Position) -> Option<[f64; 2]> {
        let name = match self.play.goal.as_ref()? {
            Goal::Place { place, .. } => return Some(*place),
            Goal::Player(name) => name,
        };
        let (_, _, entity) = self
            .game
            .entities
            .players()
            .find(|(_, other, _)| other.to_lowercase() == *name)?;
        let [x, y, z] = entity.blocks();
        let [dx, dy, dz] = [
            x - position.feet[0],
            y - position.feet[1],
            z - position.feet[2],
        ];
        let distance = (dx * dx + dz * dz).sqrt();
        if distance > ARRIVAL_DISTANCE {
            let yaw = (-dx).atan2(dz).to_degrees() as f32;
            self.look(yaw, (-dy).atan2(distance).to_degrees() as f32);
        }
        (distance > FOLLOW_DISTANCE).then_some([x, z])
    }

    /// Ends a walk that has arrived, or has made no progress for [`BLOCKED_TICKS`].
    fn check_arrival(&mut self, body: Body) {
        let Some(Goal::Place {
            place,
            shortest,
            ticks,
        }) = &mut self.play.goal
        else {
            return;
        };
        let [x, y, z] = body.feet;
        let distance = ((place[0] - x).powi(2) + (place[1] - z).powi(2)).sqrt();
        let has_arrived = distance <= ARRIVAL_DISTANCE;
        // Also when the distance is not a number.
        if distance < *shortest - ARRIVAL_DISTANCE {
            *shortest = distance;
            *ticks = 0;
        } else {
            *ticks += 1;
        }
        if has_arrived {
            self.play.goal = None;
            self.events.push_back(ClientEvent::Arrived { x, y, z });
        } else if *ticks >= BLOCKED_TICKS {
            self.play.goal = None;
            self.events.push_back(ClientEvent::Blocked { x, y, z });
        }
    }

    fn continue_digging(&mut self) {
        match self.play.digging.take() {
            Some((end, 0 | 1)) => self.reply(end),
            digging => self.play.digging = digging.map(|(end, ticks)| (end, ticks - 1)),
        }
    }

    /// Sends a packet, unless the connection no longer allows it.
    pub(super) fn reply(&mut self, packet: impl Into<Packet>) {
        let _ = self.send(packet);
    }

    /// Sends a line of chat, or several if the text is longer than [`MAX_CHAT_UNITS`].
    ///
    /// Control characters and section signs are left out, and other characters that the game's font
    /// lacks become question marks, since servers kick clients that send them. Lines break at
    /// spaces where possible. An empty text sends nothing.
    ///
    /// # Errors
    /// The connection is not in the game.
    pub fn say(&mut self, text: &str) -> Result<(), UnexpectedPacket> {
        for line in chat_lines(text) {
            self.send(Chat {
                text: line.as_str().into(),
            })?;
        }
        Ok(())
    }

    /// Requests a respawn (spec/minecraft-12w.md#2).
    ///
    /// # Errors
    /// The connection is not in the game.
    pub fn respawn(&mut self) -> Result<(), UnexpectedPacket> {
        if self.build() >= Build::W24a {
            return self.send(ClientStatus { status: 1 });
        }
        let player = &self.game.player;
        let request = RespawnRequest {
            dimension: player.dimension,
            difficulty: player.difficulty,
            mode: 0,
            height: 256,
            level_type: player.level_type.clone(),
        };
        self.send(request)
    }

    /// Swings the arm.
    ///
    /// # Errors
    /// The connection is not in the game.
    pub fn swing(&mut self) -> Result<(), UnexpectedPacket> {
        self.send(Animation {
            entity: self.game.player.entity,
            animation: 1,
        })
    }

    /// Turns the head with the next tick. Degrees: yaw 0 is south, 90 west; pitch is clamped to −90
    /// (up) to 90 (down). Values that are not finite change nothing.
    pub fn look(&mut self, yaw: f32, pitch: f32) {
        if let Some(position) = &mut self.game.player.position
            && yaw.is_finite()
            && pitch.is_finite()
        {
            position.yaw = yaw;
            position.pitch = pitch.clamp(-90.0, 90.0);
        }
    }

    /// Walks to block coordinates in a straight line, up steps and over single blocks.
    ///
    /// Ends with [`ClientEvent::Arrived`], or with [`ClientEvent::Blocked`] after 2 s without
    /// progress. A teleport by the server ends the walk too.
    pub fn walk_to(&mut self, x: f64, z: f64) {
        self.play.goal = Some(Goal::Place {
            place: [x, z],
            shortest: f64::INFINITY,
            ticks: 0,
        });
    }

    /// Follows a player by name, ignoring case, until [`stop`](Self::stop). Waits while the player
    /// is out of view.
    pub fn follow(&mut self, name: &str) {
        self.play.goal = Some(Goal::Player(name.to_lowercase()));
    }

    /// Ends walking and following.
    pub fn stop(&mut self) {
        self.play.goal = None;
    }

    /// Digs a block for `ticks` ticks; in creative mode the block breaks instantly.
    ///
    /// `face` is the side that is hit: 0 bottom, 1 top, 2 north, 3 south, 4 west, 5 east. The
    /// server reports the result as a block change.
    ///
    /// # Errors
    /// The connection is not in the game.
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
        let is_instant =
            abilities.is_some_and(|abilities| abilities.abilities.has(Abilities::INSTANT_BUILD));
        self.swing()?;
        self.send(start.clone())?;
        self.play.digging = (!is_instant).then_some((PlayerDigging { status: 2, ..start }, ticks));
        Ok(())
    }

    /// Places the held item against a face of a block; faces are numbered as in [`dig`](Self::dig).
    ///
    /// # Errors
    /// The connection is not in the game.
    pub fn place(&mut self, x: i32, y: u8, z: i32, face: u8) -> Result<(), UnexpectedPacket> {
        self.swing()?;
        self.send_placement(x, y, z, face, 8)
    }

    /// Uses the held item in the air: eats, shoots, throws.
    ///
    /// # Errors
    /// The connection is not in the game.
    pub fn use_item(&mut self) -> Result<(), UnexpectedPacket> {
        self.send_placement(-1, 255, -1, NO_FACE, 0)
    }

    fn send_placement(
        &mut self,
        x: i32,
        y: u8,
        z: i32,
        direction: u8,
        cursor: u8,
    ) -> Result<(), UnexpectedPacket> {
        let held = self.game.player.item().clone();
        self.send(PlayerBlockPlacement {
            x,
            y,
            z,
            direction,
            held,
            cursor_x: cursor,
            cursor_y: cursor,
            cursor_z: cursor,
        })
    }

    /// Selects a slot of the hotbar, 0 to 8. Larger values select 8.
    ///
    /// # Errors
    /// The connection is not in the game.
    pub fn select(&mut self, slot: u8) -> Result<(), UnexpectedPacket> {
        let slot = slot.min(8);
        self.send(HeldItemChange { place: slot.into() })?;
        self.game.player.held = slot;
        Ok(())
    }
}

impl From<Position> for PlayerPositionLook {
    fn from(position: Position) -> Self {
        let [x, y, z] = position.feet;
        Self {
            x,
            y,
            stance: y + position.eyes,
            z,
            yaw: position.yaw,
            pitch: position.pitch,
            on_ground: position.is_on_ground,
        }
    }
}

/// Splits a text into lines that servers accept: legal characters, at most [`MAX_CHAT_UNITS`] long.
///
/// A command, which begins with a slash, is cut instead, since its rest would become chat.
pub fn chat_lines(text: &str) -> Vec<String> {
    let legal: String = text
        .chars()
        .filter(|c| !c.is_control() && *c != '\u{A7}')
        .map(|c| if is_legal_in_chat(c) { c } else { '?' })
        .collect();
    // Every legal character is one UTF-16 unit long.
    let mut rest: Vec<char> = legal.trim().chars().collect();
    let is_command = rest.first() == Some(&'/');
    let mut lines = Vec::new();
    while !rest.is_empty() {
        let is_last = rest.len() <= MAX_CHAT_UNITS;
        let window = rest.get(..=MAX_CHAT_UNITS).unwrap_or(&rest);
        let end = match window.iter().rposition(|c| *c == ' ') {
            _ if is_last => rest.len(),
            Some(space) if space > MAX_CHAT_UNITS / 2 && !is_command => space,
            _ => MAX_CHAT_UNITS,
        };
        let tail = rest.split_off(end);
        let line: String = rest.iter().collect();
        lines.push(line.trim().to_owned());
        if is_command {
            break;
        }
        rest = tail;
        let blanks = rest.iter().take_while(|c| **c == ' ').count();
        rest.drain(..blanks);
    }
    lines
}
