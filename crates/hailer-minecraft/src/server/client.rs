//! Connection of a client.

use super::bucket::Bucket;
use super::player::Player;
use crate::connection::{Connection, Role};
use crate::table::{EncryptionResponse, Packet};
use crate::{Build, ConnectionState};
use std::net::IpAddr;
use std::time::Duration;

/// Phase of a connection.
pub(super) enum Phase {
    /// Before the game starts.
    Login(Login),
    /// In the game.
    Play(Box<Player>),
    /// Only unsent bytes are left.
    Over,
}

/// State of a login.
#[derive(Default)]
pub(super) struct Login {
    /// Whether the build was detected from the first bytes.
    pub(super) is_greeted: bool,
    pub(super) name: String,
    pub(super) token: [u8; 4],
    /// Encrypted secret of the client.
    pub(super) answer: Option<EncryptionResponse>,
}

/// Connection of a client.
pub(super) struct Client {
    pub(super) ip: IpAddr,
    pub(super) connection: Connection,
    pub(super) phase: Phase,
    /// Time of the connection.
    pub(super) since: Duration,
    /// Time of the last packet.
    pub(super) last_received: Duration,
    pub(super) packets: Bucket,
    pub(super) bytes: Bucket,
    /// Whether it had too many unsent bytes. Nothing is sent then.
    pub(super) is_choked: bool,
}

impl Client {
    pub(super) fn new(ip: IpAddr, build: Build, max_packet: usize, now: Duration) -> Self {
        Self {
            ip,
            connection: Connection::new(Role::Server, build).with_max_packet(max_packet),
            phase: Phase::Login(Login::default()),
            since: now,
            last_received: now,
            packets: Bucket::default(),
            bytes: Bucket::default(),
            is_choked: false,
        }
    }

    pub(super) fn is_login(&self) -> bool {
        matches!(self.phase, Phase::Login(_))
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    pub(super) fn build(&self) -> Build {
        self.connection.build()
    }

    pub(super) fn player(&self) -> Option<&Player> {
        match &self.phase {
            Phase::Play(player) => Some(player),
            _ => None,
        }
    }

    pub(super) fn player_mut(&mut self) -> Option<&mut Player> {
        match &mut self.phase {
            Phase::Play(player) => Some(player),
            _ => None,
        }
    }

    /// Sends a packet, unless the client's build lacks it.
    pub(super) fn send(&mut self, packet: impl Into<Packet>) {
        if self.is_choked || self.connection.state() == ConnectionState::Closed {
            return;
        }
        let _ = self.connection.send(&packet.into());
    }
}
