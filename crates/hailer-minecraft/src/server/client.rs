//! One connection, from its first byte to its last.

use super::bucket::Bucket;
use super::player::Player;
use crate::connection::{Connection, Role};
use crate::table::{EncryptionResponse, Packet};
use crate::{Build, ConnectionState};
use std::net::IpAddr;
use std::time::Duration;

/// How far a client is.
pub(super) enum Phase {
    /// Before the game.
    Login(Login),
    /// In the game.
    Play(Box<Player>),
    /// What is left to send is sent, then it is over.
    Over,
}

/// What a login knows so far.
#[derive(Default)]
pub(super) struct Login {
    /// The first bytes told what the client speaks.
    pub(super) greeted: bool,
    pub(super) name: String,
    pub(super) token: [u8; 4],
    /// The secret, not decrypted yet.
    pub(super) answer: Option<EncryptionResponse>,
}

/// One connection.
pub(super) struct Client {
    pub(super) ip: IpAddr,
    pub(super) connection: Connection,
    pub(super) phase: Phase,
    /// When it connected.
    pub(super) since: Duration,
    /// When its last packet came.
    pub(super) heard: Duration,
    pub(super) packets: Bucket,
    pub(super) bytes: Bucket,
    /// Its queue was full: nothing is sent any more.
    pub(super) choked: bool,
}

impl Client {
    pub(super) fn new(ip: IpAddr, build: Build, max_packet: usize, now: Duration) -> Self {
        Self {
            ip,
            connection: Connection::new(Role::Server, build).with_max_packet(max_packet),
            phase: Phase::Login(Login::default()),
            since: now,
            heard: now,
            packets: Bucket::default(),
            bytes: Bucket::default(),
            choked: false,
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

    /// Sends a packet. What the client's build does not have is left out: nobody there misses it.
    pub(super) fn send(&mut self, packet: impl Into<Packet>) {
        if self.choked || self.connection.state() == ConnectionState::Closed {
            return;
        }
        let _ = self.connection.send(&packet.into());
    }
}
