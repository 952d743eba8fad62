//! The server's side of the login (spec/minecraft-12w.md#6).

use super::block::is_solid;
use super::client::{Client, Phase};
use super::config::{Encryption, WorldKind};
use super::inventory::SLOTS;
use super::player::{Player, Position};
use super::{ClientId, OLD_BUILD, Server, ServerEvent};
use crate::build::Build;
use crate::crypto::{CipherKind, KeyPair, same_token};
use crate::table::{
    EncryptionRequest, EncryptionResponse, Handshake, HandshakeReply, Kick, Login, LoginRequest,
    Packet, PlayerListItem, SetSlot, SetWindowItems, SpawnPosition, TimeUpdate,
};
use crate::types::{Bytes16, List16, Shrunk, Slot, WireString};

const NO_CHECK: &str = "-";

impl Server {
    /// Detects the client's build from its first bytes. Returns whether packets can be read.
    pub(super) fn greet(&mut self, id: ClientId) -> bool {
        let ours = self.config.build;
        let Some(client) = self.clients.get_mut(&id) else {
            return false;
        };
        let Phase::Login(login) = &mut client.phase else {
            return false;
        };
        if login.is_greeted {
            return true;
        }
        let old = ours < Build::W17a;
        let build = match *client.connection.unread() {
            [0xFE, ..] => Ok(ours),
            [0x02, 0, ..] => Ok(if old { ours } else { OLD_BUILD }),
            [0x02, number, ..] => match number.cast_signed() {
                number if number == ours.protocol() && !old => Ok(ours),
                number => Err(outdated(i32::from(number), ours)),
            },
            [] | [0x02] => return false,
            _ => Err("Protocol error"),
        };
        login.is_greeted = true;
        match build {
            Ok(build) => client.connection.set_build(build),
            Err(reason) => self.kick(id, reason),
        }
        build.is_ok()
    }

    /// Handles a packet of the login. The connection has rejected all others.
    pub(super) fn login(&mut self, id: ClientId, packet: Packet) {
        match packet {
            Packet::ServerListPing(_) => self.ping(id),
            Packet::Handshake(handshake) => self.handshake(id, &handshake),
            Packet::EncryptionResponse(answer) => {
                if let Some(Phase::Login(login)) =
                    self.clients.get_mut(&id).map(|client| &mut client.phase)
                {
                    login.answer = Some(answer);
                }
                self.decrypt(id);
            }
            Packet::LoginRequest(request) => self.request(id, &request),
            Packet::ClientStatus(status) if status.status == 0 => self.enter(id),
            Packet::KeepAlive(_) => {}
            _ => self.kick(id, "Protocol error"),
        }
    }

    /// Replies to a status request and closes the connection (spec/minecraft-12w.md#6.1).
    fn ping(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let ip = client.ip;
        let motd: String = self.config.motd.chars().filter(|c| *c != '§').collect();
        // Cut by UTF-16 units, to leave space for the counts.
        let motd = WireString::<200>::from(motd.as_str());
        let reason = format!(
            "{motd}§{}§{}",
            self.players().count(),
            self.config.max_players
        );
        self.send(
            id,
            Kick {
                reason: reason.as_str().into(),
            },
        );
        if let Some(client) = self.clients.get_mut(&id) {
            client.phase = Phase::Over;
        }
        self.push_event(ServerEvent::Pinged { ip });
    }

    fn handshake(&mut self, id: ClientId, handshake: &Handshake) {
        let encryption = self.config.encryption;
        let mut token = [0; 4];
        (self.random)(&mut token);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let build = client.build();
        let Phase::Login(login) = &mut client.phase else {
            return;
        };
        login.name = if build < Build::W17a {
            handshake
                .who
                .to_string()
                .split(';')
                .next()
                .unwrap_or_default()
                .into()
        } else {
            handshake.name.to_string()
        };
        login.token = token;
        if !is_name(&login.name) {
            return self.kick(id, "Invalid name!");
        }
        match self.keys.as_ref().map(KeyPair::public_der) {
            _ if build < Build::W17a => client.send(HandshakeReply {
                id: NO_CHECK.into(),
            }),
            Some(key) if encryption != Encryption::Off => client.send(EncryptionRequest {
                server_id: NO_CHECK.into(),
                key: Bytes16::new(key.to_vec()),
                token: Bytes16::new(token.to_vec()),
            }),
            _ => self.enter(id),
        }
    }

    /// Handles the login request of old builds, which contains their protocol number.
    fn request(&mut self, id: ClientId, request: &LoginRequest) {
        let ours = self.config.build;
        let old = self.config.accepts_1_2_5();
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.build() < Build::W17a {
            let build = [ours, OLD_BUILD]
                .into_iter()
                .find(|build| i32::from(build.protocol()) == request.protocol);
            match build {
                Some(build) if build < Build::W17a && (build == ours || old) => {
                    client.connection.set_build(build);
                }
                _ => return self.kick(id, outdated(request.protocol, ours)),
            }
            let name = request.name.to_string();
            if !is_name(&name) {
                return self.kick(id, "Invalid name!");
            }
            if let Phase::Login(login) = &mut client.phase {
                login.name = name;
            }
        }
        self.enter(id);
    }

    /// Decrypts the secret, if the rate limit of decryptions allows it.
    pub(super) fn decrypt(&mut self, id: ClientId) {
        let rate = self.config.limits.decryptions;
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let (build, Phase::Login(login), Some(keys)) =
            (client.connection.build(), &mut client.phase, &self.keys)
        else {
            return;
        };
        if login.answer.is_none() || !self.decryptions.take(2.0, rate, self.now) {
            return;
        }
        let (Some(answer), Some(kind)) = (login.answer.take(), CipherKind::of(build)) else {
            return;
        };
        let secret = keys.decrypt(&answer.secret, kind.secret_len());
        let token = build < Build::W25a
            || keys
                .decrypt(&answer.token, login.token.len())
                .is_some_and(|token| same_token(&login.token, &token));
        match secret {
            Some(secret) if token && client.connection.secure(&secret).is_ok() => {
                client.send(EncryptionResponse::default());
                self.read(id);
            }
            _ => self.kick(id, "Invalid client reply"),
        }
    }

    /// Adds a player to the game.
    fn enter(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let ip = client.ip;
        let build = client.build();
        let is_encrypted = client.connection.is_encrypted();
        let Phase::Login(login) = &client.phase else {
            return;
        };
        let name = login.name.clone();
        if self.config.encryption == Encryption::Required
            && CipherKind::of(build).is_some()
            && !is_encrypted
        {
            return self.kick(id, "This server is encrypted");
        }
        let is_same = |client: &Client| {
            client
                .player()
                .is_some_and(|player| player.name.eq_ignore_ascii_case(&name))
        };
        for twin in self.ids(is_same) {
            self.kick(twin, "You logged in from another location");
        }
        if self.players().count() >= usize::from(self.config.max_players) {
            return self.kick(id, "The server is full!");
        }

        let entity = self.entity();
        let mode = self.config.mode;
        let view = i32::from(self.config.view_distance.clamp(3, 15));
        let place = self.spawn_place();
        let player = Player::new(name.clone(), entity, mode, place, view);
        if let Some(client) = self.clients.get_mut(&id) {
            client.phase = Phase::Play(Box::new(player));
        }
        self.push_event(ServerEvent::Joined {
            name: name.clone(),
            ip,
            build,
            is_encrypted,
        });
        self.welcome(id);
        self.broadcast(&format!("§e{name} joined the game."));
    }

    /// Sends the packets before the first column, in the order of 1.3.2.
    fn welcome(&mut self, id: ClientId) {
        let (x, y, z) = self.world.spawn;
        let Some(player) = self.player(id) else {
            return;
        };
        let entity = player.entity;
        let mode = player.mode;
        let ours = player.row();
        let abilities = player.abilities();
        self.send(
            id,
            Login {
                entity,
                level_type: self.level_type().into(),
                mode: Shrunk(mode.number().into()),
                max_players: self.config.max_players.min(255) as u8,
                ..Login::default()
            },
        );
        self.send(id, SpawnPosition { x, y, z });
        self.send(id, abilities);
        self.send(id, TimeUpdate { time: self.time });
        for row in self.list() {
            self.send(id, row);
        }
        let ours = PlayerListItem { ping: 0, ..ours };
        self.send_to(ours, |player| player.entity != entity);
        let place = self.spawn_place();
        self.teleport(id, place);
        self.send(id, TimeUpdate { time: self.time });
        self.send_inventory(id);
        // In creative mode too: vanilla sends it in the first tick.
        self.send_health(id, 20);
    }

    pub(super) fn level_type(&self) -> &'static str {
        match self.world.kind() {
            WorldKind::Flat => "flat",
            WorldKind::Hilly => "default",
        }
    }

    /// Returns the spawn position, above blocks that players placed there.
    pub(super) fn spawn_place(&mut self) -> Position {
        let (x, y, z) = self.world.spawn;
        let mut blocked = |y| {
            [y, y + 1]
                .into_iter()
                .any(|y| is_solid(self.world.block((x, y, z)).id))
        };
        let y = (y..256).find(|y| !blocked(*y)).unwrap_or(y);
        Position {
            x: f64::from(x) + 0.5,
            y: f64::from(y),
            z: f64::from(z) + 0.5,
        }
    }

    /// Sends all slots and the cursor.
    pub(super) fn send_inventory(&mut self, id: ClientId) {
        let Some(player) = self.player(id) else {
            return;
        };
        let items = player.inventory.slots().to_vec();
        let cursor = player.inventory.cursor.clone();
        debug_assert_eq!(items.len(), SLOTS as usize);
        self.send(
            id,
            SetWindowItems {
                window: 0,
                items: List16::new(items),
            },
        );
        self.send(
            id,
            SetSlot {
                window: -1,
                slot: -1,
                item: cursor,
            },
        );
    }

    /// Sends one slot.
    pub(super) fn send_slot(&mut self, id: ClientId, slot: i16) {
        let item = self
            .player(id)
            .map_or(Slot::EMPTY, |player| player.inventory.slot(slot).clone());
        self.send(
            id,
            SetSlot {
                window: 0,
                slot,
                item,
            },
        );
    }
}

/// Checks names as vanilla does.
fn is_name(name: &str) -> bool {
    (1..=16).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn outdated(theirs: i32, ours: Build) -> &'static str {
    if theirs < i32::from(ours.protocol()) {
        "Outdated client!"
    } else {
        "Outdated server!"
    }
}
