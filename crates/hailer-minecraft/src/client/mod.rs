//! A client: joins a server, stays where it is put, remembers what it is told, and does what it is asked to.
//!
//! ```text
//!   from the server ─► receive(bytes) ─► next() ─► ClientEvent, and game() knows it
//!   to the server   ◄─ outgoing()     ◄─ answers by itself, tick(now), say(…), leave() …
//! ```
//!
//! By itself it logs in (spec/minecraft-12w.md#6), returns keep alives, confirms where it is put, says 20 times a second
//! that it is still there, and comes back to life. It does not fall, walk or fight unless asked. Everything it remembers
//! is bounded, whatever the server sends.

mod columns;
mod entities;
mod event;
mod game;
mod login;
mod play;
mod traffic;

pub use entities::{Entities, Entity, EntityKind, MAX_ENTITIES};
pub use event::{ClientError, ClientEvent};
pub use game::{GameState, LocalPlayer, MAX_LISTED, MAX_WARNINGS, Position, ReportedMode};
pub use play::{MAX_CHAT_UNITS, TICK};
pub use traffic::{TrafficCount, TrafficCounts};

use crate::build::Build;
use crate::connection::{Connection, Role};
use crate::packet::PacketDirection;
use crate::state::{ConnectionState, UnexpectedPacket};
use crate::table::{Kick, Packet};
use crate::world::MAX_COLUMNS;
use play::Clock;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Who joins what, and how.
#[derive(Clone, Debug)]
pub struct GameClientConfig {
    /// The build to speak.
    pub build: Build,
    /// The player's name; the game has 16 characters for it, and what is longer is cut.
    pub name: String,
    /// The server, as the user calls it: it is told so.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Comes back to life by itself.
    pub respawn: bool,
    /// Answers the server's key. Without, it asks to enter in the clear, which servers that do not check accounts allow
    /// (spec/minecraft-12w.md#6).
    pub encrypt: bool,
    /// Whoever runs this can tell the session server: [`ClientEvent::SessionCheck`] instead of an error.
    pub session: bool,
    /// The most columns kept; with 0 none is even read.
    pub max_columns: usize,
    /// Keeps the bytes of every packet for [`Client::take_packets`].
    pub keep_packets: bool,
}

impl Default for GameClientConfig {
    fn default() -> Self {
        Self {
            build: Build::LATEST,
            name: "Hailer".into(),
            host: "localhost".into(),
            port: crate::PORT,
            respawn: true,
            encrypt: true,
            session: false,
            max_columns: MAX_COLUMNS,
            keep_packets: false,
        }
    }
}

/// Fills a slice with random bytes, fit for keys.
pub type Random = Box<dyn FnMut(&mut [u8]) + Send>;

/// One end of a game.
pub struct Client {
    config: GameClientConfig,
    connection: Connection,
    random: Random,
    game: GameState,
    traffic: TrafficCounts,
    events: VecDeque<ClientEvent>,
    error: Option<ClientError>,
    /// Goes out once the session server knows of us.
    pending: Option<Packet>,
    secret: Option<Vec<u8>>,
    packets: Vec<(PacketDirection, Vec<u8>)>,
    left: bool,
    clock: Clock,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Client({:?}, {:?})",
            self.config,
            self.connection.state()
        )
    }
}

impl Client {
    /// A client whose first bytes are ready to be sent. Randomness is for the secret of the connection.
    pub fn new(config: GameClientConfig, random: impl FnMut(&mut [u8]) + Send + 'static) -> Self {
        let mut client = Self {
            connection: Connection::new(Role::Client, config.build),
            random: Box::new(random),
            game: GameState::new(config.build, config.max_columns),
            traffic: TrafficCounts::default(),
            events: VecDeque::new(),
            error: None,
            pending: None,
            secret: None,
            packets: Vec::new(),
            left: false,
            clock: Clock::default(),
            config,
        };
        if client.config.keep_packets {
            client.connection = client.connection.keeping_bytes();
        }
        client.greet();
        client
    }

    /// The build spoken.
    pub fn build(&self) -> Build {
        self.config.build
    }

    /// What is known of the game.
    pub fn game(&self) -> &GameState {
        &self.game
    }

    /// What went to and fro.
    pub fn traffic(&self) -> &TrafficCounts {
        &self.traffic
    }

    /// Whether the server let us in, and neither side has said goodbye.
    pub fn is_playing(&self) -> bool {
        self.connection.state() == ConnectionState::Play
    }

    /// Whether both directions are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.connection.is_encrypted()
    }

    /// The secret of the connection, once there is one. Whoever has it can read everything.
    pub fn secret(&self) -> Option<&[u8]> {
        self.secret.as_deref()
    }

    /// Takes bytes from the server, as many and as few as there are.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.clock.heard();
        self.connection.receive(bytes);
    }

    /// What happened next, if anything did. After an error, the same error again; after [`leave`](Self::leave), nothing.
    ///
    /// Call it until it returns nothing whenever bytes were received and after each [`tick`](Self::tick).
    #[allow(
        clippy::should_implement_trait,
        reason = "an error does not end it like an iterator"
    )]
    pub fn next(&mut self) -> Result<Option<ClientEvent>, ClientError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if let Some(error) = &self.error {
                return Err(error.clone());
            }
            if self.left {
                return Ok(None);
            }
            let unread = self.connection.unread().len();
            match self.connection.next() {
                Ok(None) => return Ok(None),
                Ok(Some(packet)) => {
                    let bytes = unread.saturating_sub(self.connection.unread().len());
                    self.traffic
                        .count(PacketDirection::ToClient, packet.name(), bytes);
                    if self.config.keep_packets {
                        self.packets.push((
                            PacketDirection::ToClient,
                            self.connection.last_bytes().to_vec(),
                        ));
                    }
                    self.hear(&packet);
                }
                Err(error) => self.error = Some(ClientError::peer(error, self.build())),
            }
        }
    }

    fn hear(&mut self, packet: &Packet) {
        if let Packet::Kick(kick) = packet {
            let reason = hailer_proto::Text::legacy(kick.reason.to_string());
            self.error = Some(match self.clock.is_in_game() {
                true => ClientError::Kicked { reason },
                false => ClientError::refused(reason, self.build()),
            });
            return;
        }
        self.game.hear(packet, &mut self.events);
        self.log_in(packet);
        self.answer(packet);
    }

    /// Lets time pass: say what time it is, counted from any beginning, about 20 times a second or more often.
    pub fn tick(&mut self, now: Duration) {
        if self.error.is_none() && !self.left {
            self.pass(now);
        }
    }

    /// The session server knows of us: go on (see [`ClientEvent::SessionCheck`]).
    pub fn session_checked(&mut self) {
        if let Some(packet) = self.pending.take() {
            self.reply(packet);
        }
    }

    /// Says goodbye. Nothing happens after that, but [`outgoing`](Self::outgoing) has to be sent.
    pub fn leave(&mut self) {
        if self.error.is_none() && !self.left {
            self.reply(Kick {
                reason: "Quitting".into(),
            });
            self.left = true;
        }
    }

    /// Sends any packet. One that has no place here, or that the build does not have, is not sent.
    pub fn send(&mut self, packet: impl Into<Packet>) -> Result<(), UnexpectedPacket> {
        let packet = packet.into();
        let before = self.connection.outgoing().len();
        self.connection.send(&packet)?;
        self.traffic.count(
            PacketDirection::ToServer,
            packet.name(),
            self.connection.outgoing().len().saturating_sub(before),
        );
        if self.config.keep_packets {
            let mut bytes = Vec::new();
            packet.write(&mut bytes, self.build());
            self.packets.push((PacketDirection::ToServer, bytes));
        }
        Ok(())
    }

    /// Bytes for the server. Whoever has sent them says so with [`Client::sent`].
    pub fn outgoing(&self) -> &[u8] {
        self.connection.outgoing()
    }

    /// The first `count` bytes of [`Client::outgoing`] are on their way.
    pub fn sent(&mut self, count: usize) {
        self.connection.sent_bytes(count);
    }

    /// The packets since the last call, in their order, decrypted, if they are [kept](GameClientConfig::keep_packets).
    pub fn take_packets(&mut self) -> Vec<(PacketDirection, Vec<u8>)> {
        std::mem::take(&mut self.packets)
    }
}
