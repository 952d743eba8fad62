//! A small game server without I/O. Bytes, time and randomness are arguments.
//!
//! ```text
//!   socket ─► connect, receive ─► login.rs ─► play.rs, digging.rs, items.rs, chat.rs ─► World
//!   clock  ─► tick ─► view.rs (columns, entities, changed blocks), keep alive, time-outs
//!   socket ◄─ outgoing, sent ◄─ one Connection for each client        log ◄─ events
//! ```
//!
//! It accepts the configured build and 1.2.5, and detects which from a client's first bytes
//! (spec/minecraft-12w.md#6). All builds share one world with players, blocks, items and chat.
//! There are no monsters, no crafting and no flowing fluids.
//!
//! All resources are limited by [`Limits`], per client and in total. No input causes a panic.
//!
//! May import: `crate`, `crate::block`, `crate::build`, `crate::chunk`, `crate::connection`,
//! `crate::crypto`, `crate::table`, `crate::types`.

mod block;
mod bucket;
mod chat;
mod client;
mod config;
mod digging;
mod event;
mod inventory;
mod items;
mod light;
mod login;
mod pack;
mod play;
mod player;
mod terrain;
mod view;
mod world;

pub use config::{Encryption, GameMode, GameServerConfig, Limits, Rate, WorldKind};
pub use event::{Refusal, ServerEvent};

use crate::build::Build;
use crate::chunk::Column;
use crate::crypto::{KeyError, KeyPair};
use crate::table::{
    Chat, DestroyEntities, KeepAlive, Kick, Packet, PlayerListItem, TimeUpdate, UpdateHealth,
};
use crate::types::List8;
use bucket::Bucket;
use client::{Client, Phase};
use items::Item;
use player::Player;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
use world::World;

/// Interval between two ticks of the game.
pub const TICK: Duration = Duration::from_millis(50);
/// Maximum number of late ticks that are run.
const MAX_LATE_TICKS: u32 = 10;
/// Maximum number of unread events. More are dropped.
const MAX_EVENTS: usize = 1024;
/// Ticks between keep alives, as in vanilla.
const KEEP_ALIVE_TICKS: u64 = 21;
/// Ticks between updates of latencies.
const PING_TICKS: u64 = 100;
/// Time of day at the start, in ticks: morning.
const MORNING_TICKS: i64 = 1000;

/// Id of a connection. Ids are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// Fills a slice with random bytes of cryptographic quality.
type RandomSource = Box<dyn FnMut(&mut [u8]) + Send>;

/// Game server with its world and clients.
pub struct Server {
    config: GameServerConfig,
    random: RandomSource,
    /// RSA keys; `None` if encryption is off.
    keys: Option<KeyPair>,
    world: World,
    clients: BTreeMap<ClientId, Client>,
    items: BTreeMap<i32, Item>,
    events: VecDeque<ServerEvent>,
    next_client: u64,
    next_entity: i32,
    decryptions: Bucket,
    now: Duration,
    next_tick: Option<Duration>,
    ticks: u64,
    time: i64,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("config", &self.config)
            .field("ticks", &self.ticks)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server. `random` must be of cryptographic quality, since it generates keys.
    ///
    /// # Errors
    /// The random source repeats itself.
    pub fn new(
        config: GameServerConfig,
        random: impl FnMut(&mut [u8]) + Send + 'static,
    ) -> Result<Self, KeyError> {
        let mut random: RandomSource = Box::new(random);
        let keys = match config.encryption {
            Encryption::Off => None,
            _ => Some(KeyPair::generate(&mut random)?),
        };
        Ok(Self {
            world: World::new(config.world, config.seed, &config.limits),
            config,
            random,
            keys,
            clients: BTreeMap::new(),
            items: BTreeMap::new(),
            events: VecDeque::new(),
            next_client: 0,
            next_entity: 1,
            decryptions: Bucket::default(),
            now: Duration::ZERO,
            next_tick: None,
            ticks: 0,
            time: MORNING_TICKS,
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &GameServerConfig {
        &self.config
    }

    /// Adds a connection. `now` is a time since any fixed moment.
    ///
    /// # Errors
    /// There are too many connections.
    pub fn connect(&mut self, now: Duration, ip: IpAddr) -> Result<ClientId, Refusal> {
        self.pass(now);
        let limits = &self.config.limits;
        let ours = || self.clients.values().filter(|client| client.ip == ip);
        let refusal = if self.clients.len() >= limits.connections {
            Some(Refusal::Connections)
        } else if !ip.is_loopback() && ours().count() >= limits.connections_per_ip {
            // Loopback is exempt: all players may connect through a local proxy.
            Some(Refusal::Address)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.push_event(ServerEvent::Refused {
                ip,
                reason: refusal.to_string(),
            });
            return Err(refusal);
        }
        let most = limits.logins;
        let most_of_one = limits.logins_per_ip;
        let max_packet = limits.max_packet;
        let logins = || self.clients.iter().filter(|(_, client)| client.is_login());
        let crowd = || logins().filter(|(_, client)| client.ip == ip && !ip.is_loopback());
        // Close the oldest login, so that idle ones do not block others. A real login takes less
        // than a second.
        let oldest = match (crowd().count() >= most_of_one, logins().count() >= most) {
            (true, _) => crowd().next(),
            (false, true) => logins().next(),
            (false, false) => None,
        };
        if let Some((&oldest, _)) = oldest {
            self.refuse(oldest, "too many logins, this was the oldest");
        }
        let id = ClientId(self.next_client);
        self.next_client += 1;
        self.clients
            .insert(id, Client::new(ip, self.config.build, max_packet, self.now));
        Ok(id)
    }

    /// Adds bytes received from a client, in pieces of any length.
    pub fn receive(&mut self, id: ClientId, now: Duration, bytes: &[u8]) {
        self.pass(now);
        let limits = &self.config.limits;
        let rate = limits.bytes;
        let most = limits.max_packet;
        let Some(client) = self.clients.get_mut(&id).filter(|client| !client.is_over()) else {
            return;
        };
        if !client.bytes.take(bytes.len() as f64, rate, self.now) {
            return self.kick(id, "Too much at once");
        }
        client.connection.receive(bytes);
        if client.is_login() && !self.greet(id) {
            return;
        }
        self.read(id);
        if self
            .clients
            .get(&id)
            .is_some_and(|client| client.connection.unread().len() > most.saturating_mul(2))
        {
            self.kick(id, "Too much at once");
        }
    }

    /// Handles all complete packets.
    fn read(&mut self, id: ClientId) {
        let rate = self.config.limits.packets;
        while let Some(client) = self.clients.get_mut(&id).filter(|client| !client.is_over()) {
            match client.connection.next() {
                Ok(None) => return,
                Ok(Some(_)) if !client.packets.take(1.0, rate, self.now) => {
                    return self.kick(id, "Too many packets");
                }
                Ok(Some(Packet::Kick(kick))) => {
                    return self.leave(id, &format!("said goodbye ({})", kick.reason));
                }
                Ok(Some(packet)) => {
                    client.last_received = self.now;
                    match client.phase {
                        Phase::Login(_) => self.login(id, packet),
                        _ => self.play(id, packet),
                    }
                }
                // One text for all errors, which reveals nothing about keys.
                Err(_) => return self.kick(id, "Protocol error"),
            }
        }
    }

    /// Removes a client whose connection ended.
    pub fn hang_up(&mut self, id: ClientId) {
        self.leave(id, "connection lost");
        self.clients.remove(&id);
    }

    /// Runs the ticks that are due. Call it 20 times per second; up to ten late ticks are caught
    /// up.
    pub fn tick(&mut self, now: Duration) {
        self.pass(now);
        let mut next = self.next_tick.unwrap_or(self.now);
        for _ in 0..MAX_LATE_TICKS {
            if next > self.now {
                break;
            }
            self.tick_once();
            next += TICK;
        }
        self.next_tick = Some(next.max(self.now.saturating_sub(TICK)));
    }

    /// Kicks all clients with a reason.
    pub fn close(&mut self, reason: &str) {
        for id in self.ids(|_| true) {
            self.kick(id, reason);
        }
    }

    /// Returns the bytes to send to a client. Report how many were sent with [`Server::sent`].
    pub fn outgoing(&self, id: ClientId) -> &[u8] {
        self.clients
            .get(&id)
            .filter(|client| !client.is_choked)
            .map_or(&[], |client| client.connection.outgoing())
    }

    /// Removes the first `count` bytes from [`Server::outgoing`].
    pub fn sent(&mut self, id: ClientId, count: usize) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.connection.sent_bytes(count);
        }
    }

    /// Returns whether to close the connection once [`Server::outgoing`] is empty. Call
    /// [`Server::hang_up`] then.
    pub fn is_over(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_none_or(Client::is_over)
    }

    /// Returns the events since the last call.
    pub fn events(&mut self) -> impl Iterator<Item = ServerEvent> {
        std::mem::take(&mut self.events).into_iter()
    }

    /// Returns the names of the players.
    pub fn players(&self) -> impl Iterator<Item = &str> {
        self.clients
            .values()
            .filter_map(Client::player)
            .map(|player| player.name.as_str())
    }

    /// Returns the number of connections, including logins in progress.
    pub fn connections(&self) -> usize {
        self.clients.len()
    }

    /// Returns a column of the world. Coordinates are clamped to the end of the world.
    pub fn column(&mut self, x: i32, z: i32) -> &Column {
        /// End of the world in columns: 32 million blocks.
        const END: i32 = 2_000_000;
        self.world.lit((x.clamp(-END, END), z.clamp(-END, END)))
    }

    fn pass(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    fn push_event(&mut self, event: ServerEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    fn ids(&self, wanted: impl Fn(&Client) -> bool) -> Vec<ClientId> {
        self.clients
            .iter()
            .filter(|(_, client)| wanted(client))
            .map(|(id, _)| *id)
            .collect()
    }

    fn player(&self, id: ClientId) -> Option<&Player> {
        self.clients.get(&id)?.player()
    }

    fn player_mut(&mut self, id: ClientId) -> Option<&mut Player> {
        self.clients.get_mut(&id)?.player_mut()
    }

    fn random_i32(&mut self) -> i32 {
        let mut bytes = [0; 4];
        (self.random)(&mut bytes);
        i32::from_be_bytes(bytes)
    }

    /// Returns a new entity id.
    fn entity(&mut self) -> i32 {
        let entity = self.next_entity;
        self.next_entity = self.next_entity.checked_add(1).unwrap_or(1);
        entity
    }

    fn send(&mut self, id: ClientId, packet: impl Into<Packet>) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.send(packet);
        }
    }

    /// Sends a packet to all players that are `wanted`.
    fn send_to(&mut self, packet: impl Into<Packet>, wanted: impl Fn(&Player) -> bool) {
        let packet = packet.into();
        for client in self.clients.values_mut() {
            if client.player().is_some_and(&wanted) {
                client.send(packet.clone());
            }
        }
    }

    /// Sends a packet to all players who see an entity.
    fn send_to_watchers(&mut self, entity: i32, packet: impl Into<Packet>) {
        self.send_to(packet, |player| player.seen.contains(&entity));
    }

    /// Returns the list of players.
    fn list(&self) -> Vec<PlayerListItem> {
        let players = self.clients.values().filter_map(Client::player);
        players.map(Player::row).collect()
    }

    /// Sends the health of a player, with full food.
    fn send_health(&mut self, id: ClientId, health: i16) {
        let health = UpdateHealth {
            health,
            food: 20,
            saturation: 5.0,
        };
        self.send(id, health);
    }

    fn broadcast(&mut self, text: &str) {
        self.send_to(Chat { text: text.into() }, |_| true);
    }

    /// Kicks a client with a reason.
    fn kick(&mut self, id: ClientId, reason: &str) {
        self.send(
            id,
            Kick {
                reason: reason.into(),
            },
        );
        self.leave(id, &format!("kicked: {reason}"));
    }

    /// Closes a login without a packet.
    fn refuse(&mut self, id: ClientId, reason: &str) {
        self.leave(id, reason);
    }

    /// Removes a player from the game. Unsent bytes are still sent.
    fn leave(&mut self, id: ClientId, reason: &str) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        match std::mem::replace(&mut client.phase, Phase::Over) {
            Phase::Over => {}
            Phase::Login(login) => {
                let ip = client.ip;
                if login.is_greeted {
                    self.push_event(ServerEvent::Refused {
                        ip,
                        reason: reason.into(),
                    });
                }
            }
            Phase::Play(player) => {
                self.vanish(player.entity);
                let gone = PlayerListItem {
                    online: false,
                    ping: 9999,
                    ..player.row()
                };
                self.send_to(gone, |_| true);
                self.broadcast(&format!("§e{} left the game.", player.name));
                self.push_event(ServerEvent::Left {
                    name: player.name,
                    reason: reason.into(),
                });
            }
        }
    }

    /// Removes an entity from the view of all players.
    fn vanish(&mut self, entity: i32) {
        let gone = DestroyEntities {
            entity,
            entities: List8::new(vec![entity]),
        };
        self.send_to_watchers(entity, gone);
        for player in self.clients.values_mut().filter_map(Client::player_mut) {
            player.seen.remove(&entity);
        }
    }

    fn tick_once(&mut self) {
        self.ticks += 1;
        self.time += 1;
        self.end_the_silent();
        for id in self
            .ids(|client| matches!(&client.phase, Phase::Login(login) if login.answer.is_some()))
        {
            self.decrypt(id);
        }
        if self.ticks.is_multiple_of(20) {
            self.send_to(TimeUpdate { time: self.time }, |_| true);
            self.world.evict();
        }
        if self.ticks.is_multiple_of(KEEP_ALIVE_TICKS) {
            self.ask_for_signs_of_life();
        }
        if self.ticks.is_multiple_of(PING_TICKS) {
            for row in self.list() {
                self.send_to(row, |_| true);
            }
        }
        self.move_items();
        self.show_digging();
        self.resend_teleports();
        self.correct_inventories();
        self.send_columns();
        self.send_changes();
        self.show_entities();
        self.drop_slow_readers();
    }

    /// Ends logins and players that exceed their time limits.
    fn end_the_silent(&mut self) {
        let now = self.now;
        let limits = self.config.limits.clone();
        let over = |client: &Client| match &client.phase {
            Phase::Login(login) if !login.is_greeted => {
                now.saturating_sub(client.since) >= limits.first_byte
            }
            Phase::Login(_) => now.saturating_sub(client.since) >= limits.login,
            Phase::Play(_) => now.saturating_sub(client.last_received) >= limits.silence,
            Phase::Over => false,
        };
        for id in self.ids(over) {
            match self.clients.get(&id).map(|client| &client.phase) {
                Some(Phase::Login(login)) if !login.is_greeted => self.refuse(id, "sent nothing"),
                Some(Phase::Login(_)) => self.kick(id, "Took too long to log in"),
                _ => self.kick(id, "Timed out"),
            }
        }
    }

    fn ask_for_signs_of_life(&mut self) {
        let now = self.now;
        for id in self.ids(|client| client.player().is_some()) {
            // Clients use 0 for their own keep alives.
            let token = self.random_i32() | 1;
            if let Some(player) = self
                .player_mut(id)
                .filter(|player| player.keep_alive.is_none())
            {
                player.keep_alive = Some((token, now));
            }
            self.send(id, KeepAlive { token });
        }
    }

    /// Drops clients with too many unsent bytes.
    fn drop_slow_readers(&mut self) {
        let unsent = self.config.limits.unsent;
        for id in
            self.ids(|client| !client.is_choked && client.connection.outgoing().len() > unsent)
        {
            if let Some(client) = self.clients.get_mut(&id) {
                client.is_choked = true;
                let len = client.connection.outgoing().len();
                client.connection.sent_bytes(len);
            }
            self.leave(id, "slow reader");
        }
    }
}

/// Build of protocol 29, accepted in addition to the configured build.
const OLD_BUILD: Build = Build::V1_2_5;
