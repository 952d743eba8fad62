//! Packets of players: movement, actions, inventory.

use super::config::GameMode;
use super::player::{BODY, CROUCHING, EYES, Player, Position, SPRINTING};
use super::{ClientId, Server};
use crate::chunk::Block;
use crate::table::{
    Animation, BlockBreakAnimation, ClickWindow, ConfirmTransaction, EntityMetadata, EntityStatus,
    Packet, PlayerTeleport, Respawn,
};
use crate::types::Slot;

/// Maximum coordinate, as in vanilla.
const MAX_COORDINATE: f64 = 3.2e7;
/// Longest movement between two packets in blocks, as in vanilla.
const MAX_STEP: f64 = 10.0;
/// Height below which players die, in blocks.
const VOID_HEIGHT: f64 = -64.0;
/// Tolerance of a teleport confirmation, in blocks.
const TELEPORT_TOLERANCE: f64 = 0.25;
/// Ticks after which an unconfirmed teleport is sent again.
const TELEPORT_RETRY_TICKS: u32 = 20;
/// Value of y and stance while riding.
const RIDING_Y: f64 = -999.0;
/// Movement packets in the air after which a player is kicked, as in vanilla
/// (spec/minecraft-12w.md#6).
const MAX_AIRBORNE_PACKETS: u32 = 80;
/// A player who moves down faster than this, in blocks per packet, is falling.
const FALLING_SPEED: f64 = -0.03125;

impl Server {
    /// Handles a packet of a player.
    pub(super) fn play(&mut self, id: ClientId, packet: Packet) {
        match packet {
            Packet::KeepAlive(answer) => self.receive_keep_alive(id, answer.token),
            Packet::Chat(chat) => self.receive_chat(id, chat.text.units()),
            Packet::TabComplete(asked) => self.complete(id, &asked.text.to_string()),
            Packet::Player(_) => self.step(id, None, None),
            Packet::PlayerPosition(to) => {
                let [x, y, z] = [to.x, to.y, to.z];
                self.step(id, Some((Position { x, y, z }, to.stance)), None);
            }
            Packet::PlayerLook(to) => self.step(id, None, Some((to.yaw, to.pitch))),
            Packet::PlayerPositionLook(to) => {
                let [x, y, z] = [to.x, to.y, to.z];
                let place = (Position { x, y, z }, to.stance);
                self.step(id, Some(place), Some((to.yaw, to.pitch)));
            }
            Packet::PlayerDigging(dig) => self.dig(id, &dig),
            Packet::PlayerBlockPlacement(put) => self.put(id, &put),
            Packet::HeldItemChange(change) if (0..9).contains(&change.place) => {
                if let Some(player) = self.player_mut(id) {
                    player.held = change.place;
                }
                self.show_held(id);
            }
            Packet::Animation(animation) if animation.animation == 1 => self.swing(id),
            Packet::EntityAction(action) => self.act(id, action.action),
            Packet::ClickWindow(click) => self.click(id, &click),
            Packet::CreativeInventoryAction(action) => self.conjure(id, action.slot, action.item),
            Packet::CloseWindow(_) => self.put_cursor_back(id),
            Packet::ClientSettings(config) => self.set_view(id, config.view_distance.0),
            Packet::ClientStatus(status) if status.status == 1 => self.respawn(id),
            Packet::RespawnRequest(_) => self.respawn(id),
            // Ignored: clicks on entities, signs, plugin messages, abilities, enchanting.
            _ => {}
        }
    }

    fn receive_keep_alive(&mut self, id: ClientId, token: i32) {
        let now = self.now;
        if let Some(player) = self.player_mut(id)
            && let Some((_, sent)) = player.keep_alive.take_if(|(asked, _)| *asked == token)
        {
            let took = i32::try_from(now.saturating_sub(sent).as_millis())
                .unwrap_or(i32::MAX)
                .min(9999);
            player.ping = ((i32::from(player.ping) * 3 + took) / 4) as i16;
        }
    }

    /// Handles a movement, a turn, or both.
    fn step(&mut self, id: ClientId, place: Option<(Position, f64)>, look: Option<(f32, f32)>) {
        let now = self.now;
        let rate = self.config.limits.motion;
        let Some(player) = self.player_mut(id).filter(|player| !player.is_dead) else {
            return;
        };
        if let Some((yaw, pitch)) = look {
            if !yaw.is_finite() || !pitch.is_finite() {
                return self.kick(id, "Illegal position");
            }
            player.yaw = yaw % 360.0;
            player.pitch = pitch.clamp(-90.0, 90.0);
        }
        if place.is_some_and(|(to, stance)| (to.y, stance) == (RIDING_Y, RIDING_Y)) {
            return;
        }
        let Some((to, stance)) = place else {
            let position = player.position;
            if player.teleport.is_none() {
                self.check_flight(id, position);
            }
            return;
        };
        if ![to.x, to.y, to.z, stance].iter().all(|at| at.is_finite())
            || [to.x, to.y, to.z]
                .iter()
                .any(|at| at.abs() > MAX_COORDINATE)
        {
            return self.kick(id, "Illegal position");
        }
        if !(0.1..=1.65).contains(&(stance - to.y)) {
            return self.kick(id, "Illegal stance");
        }
        if let Some((there, _)) = player.teleport {
            // Ignore movements sent before the client received the teleport.
            if to.distance(there) <= TELEPORT_TOLERANCE {
                player.teleport = None;
            }
            return;
        }
        let moved = to.distance(player.position);
        if moved > MAX_STEP || !player.motion.take(moved, rate, now) {
            let back = player.position;
            return self.teleport(id, back);
        }
        let before = std::mem::replace(&mut player.position, to);
        self.check_flight(id, before);
        if to.y < VOID_HEIGHT {
            self.fall_into_the_void(id);
        }
    }

    /// Kicks a player who stays in the air without falling. Creative players may fly.
    fn check_flight(&mut self, id: ClientId, before: Position) {
        let is_allowed = self.config.can_fly;
        let Some(player) = self.player_mut(id) else {
            return;
        };
        if is_allowed || player.mode == GameMode::Creative {
            return;
        }
        let position = player.position;
        let airborne = player.airborne;
        let airborne = if self.is_near_blocks(position) {
            0
        } else if position.y - before.y >= FALLING_SPEED {
            airborne + 1
        } else {
            airborne
        };
        if let Some(player) = self.player_mut(id) {
            player.airborne = airborne;
        }
        if airborne > MAX_AIRBORNE_PACKETS {
            self.kick(id, "Flying is not enabled on this server");
        }
    }

    /// Returns whether any block except air is within 1/16 block of the body, or within 0.55 blocks
    /// below it.
    fn is_near_blocks(&mut self, Position { x, y, z }: Position) -> bool {
        const MARGIN: f64 = 0.0625;
        let (half, height) = BODY;
        let cells = |low: f64, high: f64| low.floor() as i32..=high.floor() as i32;
        let xs = cells(x - half - MARGIN, x + half + MARGIN);
        let ys = cells(y - MARGIN - 0.55, y + height + MARGIN);
        let zs = cells(z - half - MARGIN, z + half + MARGIN);
        for x in xs {
            for y in ys.clone() {
                for z in zs.clone() {
                    if self.world.block((x, y, z)) != Block::AIR {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn fall_into_the_void(&mut self, id: ClientId) {
        let Some(player) = self.player_mut(id) else {
            return;
        };
        if player.mode == GameMode::Creative {
            let place = self.spawn_place();
            return self.teleport(id, place);
        }
        player.is_dead = true;
        let entity = player.entity;
        let name = player.name.clone();
        self.stop_digging(id);
        self.send_health(id, 0);
        self.send_to_watchers(entity, EntityStatus { entity, status: 3 });
        self.broadcast(&format!("{name} fell out of the world"));
    }

    fn respawn(&mut self, id: ClientId) {
        let level_type = self.level_type();
        let Some(player) = self.player_mut(id).filter(|player| player.is_dead) else {
            return;
        };
        player.is_dead = false;
        player.flags = 0;
        let entity = player.entity;
        let mode = player.mode.number();
        // Other players see a new entity.
        self.vanish(entity);
        self.unload_all(id);
        self.send(
            id,
            Respawn {
                dimension: 0,
                difficulty: 0,
                mode,
                height: 256,
                level_type: level_type.into(),
            },
        );
        let place = self.spawn_place();
        self.teleport(id, place);
        self.send_health(id, 20);
        self.send_inventory(id);
    }

    /// Teleports a player. Movements are ignored until the client confirms the position.
    pub(super) fn teleport(&mut self, id: ClientId, place: Position) {
        let Some(player) = self.player_mut(id) else {
            return;
        };
        player.position = place;
        player.teleport = Some((place, 0));
        let yaw = player.yaw;
        let pitch = player.pitch;
        let Position { x, y, z } = place;
        self.send(
            id,
            PlayerTeleport {
                x,
                stance: y + EYES,
                y,
                z,
                yaw,
                pitch,
                on_ground: false,
            },
        );
    }

    /// Sends unconfirmed teleports again.
    pub(super) fn resend_teleports(&mut self) {
        let waits = |player: &mut Player| {
            let (place, ticks) = player.teleport.as_mut()?;
            *ticks += 1;
            (*ticks >= TELEPORT_RETRY_TICKS).then_some(*place)
        };
        let late: Vec<_> = self
            .clients
            .iter_mut()
            .filter_map(|(id, client)| Some((*id, client.player_mut().and_then(waits)?)))
            .collect();
        for (id, place) in late {
            self.teleport(id, place);
        }
    }

    fn swing(&mut self, id: ClientId) {
        if let Some(entity) = self.player(id).map(|player| player.entity) {
            self.send_to_watchers(
                entity,
                Animation {
                    entity,
                    animation: 1,
                },
            );
        }
    }

    fn act(&mut self, id: ClientId, action: i8) {
        let Some(player) = self.player_mut(id) else {
            return;
        };
        let before = player.flags;
        match action {
            1 => player.flags |= CROUCHING,
            2 => player.flags &= !CROUCHING,
            4 => player.flags |= SPRINTING,
            5 => player.flags &= !SPRINTING,
            _ => {}
        }
        let entity = player.entity;
        let metadata = player.metadata();
        if player.flags != before {
            self.send_to_watchers(entity, EntityMetadata { entity, metadata });
        }
    }

    /// Sends the held item to other players.
    pub(super) fn show_held(&mut self, id: ClientId) {
        if let Some((entity, equipment)) = self
            .player(id)
            .map(|player| (player.entity, player.equipment()))
        {
            self.send_to_watchers(entity, equipment);
        }
    }

    /// Handles a click in the inventory. A refused click is followed by the correct inventory.
    fn click(&mut self, id: ClientId, click: &ClickWindow) {
        let Some(player) = self.player_mut(id) else {
            return;
        };
        let outside = click.slot == -999 && !player.inventory.cursor.is_empty();
        let same = {
            let slot = player.inventory.slot(click.slot);
            (slot.id.max(-1), slot.count, slot.damage)
                == (click.item.id.max(-1), click.item.count, click.item.damage)
        };
        let mut thrown = Slot::EMPTY;
        let accepted = click.window == 0 && !click.shift && {
            if outside {
                thrown = player.inventory.throw(click.button);
                true
            } else {
                same && player.inventory.click(click.slot, click.button)
            }
        };
        player.is_misled |= !accepted;
        self.send(
            id,
            ConfirmTransaction {
                window: click.window,
                action: click.action,
                accepted,
            },
        );
        self.throw(id, thrown);
        self.show_held(id);
    }

    /// Sends the inventory to players whose clicks were refused. At most once per tick, since it is
    /// much longer than a click.
    pub(super) fn correct_inventories(&mut self) {
        for id in self.ids(|client| client.player().is_some_and(|player| player.is_misled)) {
            self.send_inventory(id);
            if let Some(player) = self.player_mut(id) {
                player.is_misled = false;
            }
        }
    }

    /// Handles an item created in creative mode. All accepted builds must know it.
    fn conjure(&mut self, id: ClientId, slot: i16, item: Slot) {
        let known = self.knows(&item);
        let Some(player) = self.player_mut(id) else {
            return;
        };
        let allowed = player.mode == GameMode::Creative && known;
        if allowed && slot == -1 {
            return self.throw(id, item);
        }
        if !(allowed && player.inventory.set(slot, item)) {
            return self.send_slot(id, slot.clamp(0, super::inventory::SLOTS - 1));
        }
        if player.held_slot() == slot {
            self.show_held(id);
        }
    }

    /// Returns the item on the cursor to the inventory when the window closes.
    fn put_cursor_back(&mut self, id: ClientId) {
        let Some(player) = self.player_mut(id) else {
            return;
        };
        let item = std::mem::take(&mut player.inventory.cursor);
        let (changed, left) = player.inventory.add(item);
        for slot in changed {
            self.send_slot(id, slot);
        }
        self.throw(id, left);
    }

    /// Sends the progress of digging to other players.
    pub(super) fn show_digging(&mut self) {
        for id in self.ids(|client| {
            client
                .player()
                .is_some_and(|player| player.digging.is_some())
        }) {
            let Some(player) = self.player_mut(id) else {
                continue;
            };
            let (entity, Some(digging)) = (player.entity, &mut player.digging) else {
                continue;
            };
            digging.ticks += 1;
            let stage = (digging.ticks / 3).min(9) as u8;
            if stage != digging.stage {
                digging.stage = stage;
                let block = digging.block;
                self.show_cracks(entity, block, stage);
            }
        }
    }

    pub(super) fn show_cracks(&mut self, breaker: i32, (x, y, z): (i32, i32, i32), stage: u8) {
        self.send_to_watchers(
            breaker,
            BlockBreakAnimation {
                breaker,
                x,
                y,
                z,
                stage,
            },
        );
    }
}
