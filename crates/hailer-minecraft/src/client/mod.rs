//! A client: joins a server, keeps the state that the server sends, and moves and acts on request.
//!
//! ```text
//!   from the server ─► receive(bytes) ─► next() ─► ClientEvent, and game() has the state
//!   to the server   ◄─ outgoing()     ◄─ automatic replies, tick(now), say(…), walk_to(…), leave() …
//! ```
//!
//! Without a request, the client logs in (spec/minecraft-12w.md#6), returns keep alives, confirms
//! teleports, falls and collides as in the game, sends its position 20 times per second, and
//! respawns. It does not fight.
//!
//! | limit | value | beyond it |
//! | --- | --- | --- |
//! | loaded columns | [`GameClientConfig::max_columns`] | a warning; the column is dropped |
//! | entities | [`MAX_ENTITIES`] | a warning; the entity is dropped |
//! | names in the list of players | [`MAX_LISTED`] | a warning; the name is dropped |
//! | kept warnings | [`MAX_WARNINGS`] | they are only counted |
//! | silence of the server | 30 s | [`ClientError::Silence`] |
//!
//! May import: `crate`, `crate::build`, `crate::chunk`, `crate::connection`, `crate::crypto`,
//! `crate::packet`, `crate::shape`, `crate::state`, `crate::table`, `crate::types`, `crate::world`,
//! `hailer_proto`.

mod columns;
mod entities;
mod event;
mod game;
mod login;
mod mode;
mod physics;
mod play;
mod traffic;

pub use entities::{Entities, Entity, EntityKind, MAX_ENTITIES};
pub use event::{ClientError, ClientEvent};
pub use game::{GameState, LocalPlayer, MAX_LISTED, MAX_WARNINGS, Position};
pub use mode::ReportedMode;
pub use play::{MAX_CHAT_UNITS, TICK, chat_lines};
pub use traffic::{TrafficCount, TrafficCounts};

use crate::build::Build;
use crate::connection::{Connection, Role};
use crate::packet::PacketDirection;
use crate::state::{ConnectionState, UnexpectedPacket};
use crate::table::{Kick, Packet};
use crate::world::MAX_COLUMNS;
use play::PlayState;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Configuration of a [`Client`].
#[derive(Clone, Debug)]
pub struct GameClientConfig {
    /// Build whose protocol is used.
    pub build: Build,
    /// Name of the player. The game allows 16 characters; a longer name is cut.
    pub name: String,
    /// Host name that the handshake sends to the server.
    pub host: String,
    /// Port that the handshake sends to the server.
    pub port: u16,
    /// Whether to respawn automatically after death.
    pub can_respawn: bool,
    /// Whether to encrypt the connection if the server sends a key. Otherwise the client asks to
    /// continue unencrypted, which servers that do not check accounts allow
    /// (spec/minecraft-12w.md#6).
    pub can_encrypt: bool,
    /// Whether the caller can contact the session server: [`ClientEvent::SessionCheck`] instead of
    /// an error.
    pub can_check_session: bool,
    /// Maximum number of loaded columns. With 0, columns are not even decompressed.
    pub max_columns: usize,
    /// Whether to keep the bytes of every packet for [`Client::take_packets`].
    pub has_packet_log: bool,
}

impl Default for GameClientConfig {
    fn default() -> Self {
        Self {
            build: Build::LATEST,
            name: "Hailer".into(),
            host: "localhost".into(),
            port: crate::PORT,
            can_respawn: true,
            can_encrypt: true,
            can_check_session: false,
            max_columns: MAX_COLUMNS,
            has_packet_log: false,
        }
    }
}

/// Fills a slice with random bytes of cryptographic quality.
pub type Random = Box<dyn FnMut(&mut [u8]) + Send>;

/// Client of one connection. See the [module](self) for how to drive it.
pub struct Client {
    config: GameClientConfig,
    connection: Connection,
    random: Random,
    game: GameState,
    traffic: TrafficCounts,
    events: VecDeque<ClientEvent>,
    error: Option<ClientError>,
    /// Packet to send after the session server has accepted the account.
    pending: Option<Packet>,
    secret: Option<Vec<u8>>,
    packets: Vec<(PacketDirection, Vec<u8>)>,
    has_left: bool,
    play: PlayState,
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
    /// Creates a client whose handshake is ready to be sent. `random` supplies the secret of the
    /// connection.
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
            has_left: false,
            play: PlayState::default(),
            config,
        };
        if client.config.has_packet_log {
            client.connection = client.connection.keeping_bytes();
        }
        client.send_handshake();
        client
    }

    /// Returns the build whose protocol is used.
    pub fn build(&self) -> Build {
        self.config.build
    }

    /// Returns the state of the game as the server reported it.
    pub fn game(&self) -> &GameState {
        &self.game
    }

    /// Returns packet and byte counts.
    pub fn traffic(&self) -> &TrafficCounts {
        &self.traffic
    }

    /// Returns whether the server has accepted the login and neither side has closed the
    /// connection.
    pub fn is_playing(&self) -> bool {
        self.connection.state() == ConnectionState::Play
    }

    /// Returns whether both directions are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.connection.is_encrypted()
    }

    /// Returns the secret of the connection once it is chosen. With it, anyone can decrypt a
    /// capture.
    pub fn secret(&self) -> Option<&[u8]> {
        self.secret.as_deref()
    }

    /// Adds bytes received from the server, in pieces of any length.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.play.received();
        self.connection.receive(bytes);
    }

    /// Returns the next event, or `None` if there is none yet.
    ///
    /// Call it until it returns `None` whenever bytes were received and after each
    /// [`tick`](Self::tick).
    ///
    /// # Errors
    /// The session has ended. Later calls return the same error; after [`leave`](Self::leave) they
    /// return `None`.
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
            if self.has_left {
                return Ok(None);
            }
            let unread = self.connection.unread().len();
            match self.connection.next() {
                Ok(None) => return Ok(None),
                Ok(Some(packet)) => {
                    let bytes = unread.saturating_sub(self.connection.unread().len());
                    self.traffic
                        .count(PacketDirection::ToClient, packet.name(), bytes);
                    if self.config.has_packet_log {
                        self.packets.push((
                            PacketDirection::ToClient,
                            self.connection.last_bytes().to_vec(),
                        ));
                    }
                    self.process(&packet);
                }
                Err(error) => self.error = Some(ClientError::peer(error, self.build())),
            }
        }
    }

    fn process(&mut self, packet: &Packet) {
        if let Packet::Kick(kick) = packet {
            let reason = hailer_proto::Text::legacy(kick.reason.to_string());
            self.error = Some(if self.play.is_in_game() {
                ClientError::Kicked { reason }
            } else {
                ClientError::refused(reason, self.build())
            });
            return;
        }
        self.game.apply(packet, &mut self.events);
        self.log_in(packet);
        self.answer(packet);
    }

    /// Runs what is due at `now`, a time since any fixed moment. Call it at least 20 times per
    /// second.
    pub fn tick(&mut self, now: Duration) {
        if self.error.is_none() && !self.has_left {
            self.pass(now);
        }
    }

    /// Continues the login after the session server has accepted the account (see
    /// [`ClientEvent::SessionCheck`]).
    pub fn session_checked(&mut self) {
        if let Some(packet) = self.pending.take() {
            self.reply(packet);
        }
    }

    /// Sends a disconnect packet and ends the session. The bytes in [`outgoing`](Self::outgoing)
    /// still have to be sent.
    pub fn leave(&mut self) {
        if self.error.is_none() && !self.has_left {
            self.reply(Kick {
                reason: "Quitting".into(),
            });
            self.has_left = true;
        }
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// The build does not have the packet, or the state of the connection does not allow it.
    /// Nothing is sent then.
    pub fn send(&mut self, packet: impl Into<Packet>) -> Result<(), UnexpectedPacket> {
        let packet = packet.into();
        let before = self.connection.outgoing().len();
        self.connection.send(&packet)?;
        self.traffic.count(
            PacketDirection::ToServer,
            packet.name(),
            self.connection.outgoing().len().saturating_sub(before),
        );
        if self.config.has_packet_log {
            let mut bytes = Vec::new();
            packet.write(&mut bytes, self.build());
            self.packets.push((PacketDirection::ToServer, bytes));
        }
        Ok(())
    }

    /// Returns the bytes to send to the server. Report how many were sent with [`Client::sent`].
    pub fn outgoing(&self) -> &[u8] {
        self.connection.outgoing()
    }

    /// Removes the first `count` bytes from [`Client::outgoing`].
    pub fn sent(&mut self, count: usize) {
        self.connection.sent_bytes(count);
    }

    /// Returns the packets since the last call, decrypted and in order, if
    /// [kept](GameClientConfig::has_packet_log).
    pub fn take_packets(&mut self) -> Vec<(PacketDirection, Vec<u8>)> {
        std::mem::take(&mut self.packets)
    }
}
