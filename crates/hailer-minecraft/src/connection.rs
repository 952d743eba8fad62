//! One end of a connection: bytes in, packets out, packets in, bytes out.
//!
//! ```text
//!   from the peer ─► receive(bytes) ─► decrypt ─► PacketStream ─► next() ─► packet
//!   to the peer   ◄─ outgoing()     ◄─ encrypt ◄────────── send(packet)
//! ```
//!
//! Both roles follow the [table of states](crate::state). Unexpected packets are errors, and each
//! direction switches to its cipher at the exact byte (spec/minecraft-12w.md#6). The caller has the
//! keys:
//!
//! - a client that receives [`EncryptionRequest`](crate::table::EncryptionRequest) chooses a
//!   secret, calls [`Connection::secure`] with it and then sends the packet that carries it;
//! - a server that receives the encrypted secret calls [`Connection::secure`] with the decrypted
//!   one. Until then [`Connection::next`] returns no packets, because the following bytes are
//!   encrypted.

use crate::build::Build;
use crate::crypto::{BadSecret, Cipher, CipherKind};
use crate::packet::{PacketDirection, PacketError};
use crate::state::{ConnectionState, UnexpectedPacket};
use crate::stream::PacketStream;
use crate::table::Packet;
use std::fmt;

/// Role in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that connects.
    Client,
    /// The side that accepts connections.
    Server,
}

impl Role {
    /// Returns the direction of sent packets.
    pub const fn sends(self) -> PacketDirection {
        match self {
            Self::Client => PacketDirection::ToServer,
            Self::Server => PacketDirection::ToClient,
        }
    }

    /// Returns the direction of received packets.
    pub const fn receives(self) -> PacketDirection {
        match self {
            Self::Client => PacketDirection::ToClient,
            Self::Server => PacketDirection::ToServer,
        }
    }
}

/// Error caused by the peer. It ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerError {
    /// The peer sent an invalid packet.
    Packet(PacketError),
    /// The peer sent a packet that is not allowed in this state.
    Unexpected(UnexpectedPacket),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet(error) => error.fmt(f),
            Self::Unexpected(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PeerError {}

/// Encryption of one direction.
#[derive(Debug, Default)]
enum CipherState {
    #[default]
    Plain,
    Waiting,
    On(Box<Cipher>),
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    state: ConnectionState,
    incoming: PacketStream,
    decrypt: CipherState,
    encrypt: CipherState,
    secret: Option<Vec<u8>>,
    outgoing: Vec<u8>,
    /// Bytes of the packet that [`Connection::next`] returned last.
    last: Vec<u8>,
    has_kept_bytes: bool,
}

impl Connection {
    /// Creates a connection for a build, before the first packet.
    pub fn new(role: Role, build: Build) -> Self {
        Self {
            role,
            state: ConnectionState::Start,
            incoming: PacketStream::new(role.receives(), build),
            decrypt: CipherState::Plain,
            encrypt: CipherState::Plain,
            secret: None,
            outgoing: Vec::new(),
            last: Vec::new(),
            has_kept_bytes: false,
        }
    }

    /// Sets the maximum length of a received packet, in bytes.
    #[must_use]
    pub fn with_max_packet(mut self, max_packet: usize) -> Self {
        self.incoming = self.incoming.with_max_packet(max_packet);
        self
    }

    /// Keeps the bytes of each received packet for [`Connection::last_bytes`].
    #[must_use]
    pub fn keeping_bytes(mut self) -> Self {
        self.has_kept_bytes = true;
        self
    }

    /// Returns the role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the build.
    pub fn build(&self) -> Build {
        self.incoming.build()
    }

    /// Changes the build. A server learns the client's build from its first packet.
    pub fn set_build(&mut self, build: Build) {
        self.incoming.set_build(build);
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> ConnectionState {
        self.state
    }

    /// Returns whether both directions are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(
            (&self.decrypt, &self.encrypt),
            (CipherState::On(_), CipherState::On(_))
        )
    }

    /// Adds bytes received from the peer, in pieces of any length.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.incoming.push(bytes);
        if let CipherState::On(cipher) = &mut self.decrypt {
            let rest = self.incoming.rest_mut();
            let new = rest.len().saturating_sub(bytes.len());
            if let Some(new) = rest.get_mut(new..) {
                cipher.apply(new);
            }
        }
    }

    /// Returns the received bytes that were not read yet. Servers detect the build from the first
    /// ones.
    pub fn unread(&self) -> &[u8] {
        self.incoming.rest()
    }

    /// Returns the next packet, if it is complete.
    ///
    /// # Errors
    /// The packet is invalid or not allowed in this state.
    #[allow(
        clippy::should_implement_trait,
        reason = "an error does not end it like an iterator"
    )]
    pub fn next(&mut self) -> Result<Option<Packet>, PeerError> {
        if matches!(self.decrypt, CipherState::Waiting) {
            return Ok(None);
        }
        let build = self.build();
        let Some((packet, bytes)) = self.incoming.next().map_err(PeerError::Packet)? else {
            return Ok(None);
        };
        if self.has_kept_bytes {
            self.last.clear();
            self.last.extend_from_slice(bytes);
        }
        let (state, encrypts) = self
            .state
            .after(&packet, self.role.receives(), build)
            .map_err(PeerError::Unexpected)?;
        self.state = state;
        if encrypts {
            self.decrypt = CipherState::Waiting;
            self.lift();
        }
        Ok(Some(packet))
    }

    /// Returns the decrypted bytes of the last packet, allowed or not, if they are
    /// [kept](Self::keeping_bytes).
    pub fn last_bytes(&self) -> &[u8] {
        &self.last
    }

    /// Sets the secret for the ciphers of this build.
    ///
    /// # Errors
    /// The secret has the wrong length.
    pub fn secure(&mut self, secret: &[u8]) -> Result<(), BadSecret> {
        if let Some(kind) = CipherKind::of(self.build()) {
            // Only to reject a secret of the wrong length now, not in the middle of a packet.
            Cipher::encryptor(kind, secret)?;
        }
        self.secret = Some(secret.to_vec());
        self.lift();
        Ok(())
    }

    /// Starts decryption if it is due and the secret is known.
    fn lift(&mut self) {
        if let (CipherState::Waiting, Some(secret)) = (&self.decrypt, &self.secret)
            && let Some(kind) = CipherKind::of(self.build())
            && let Ok(mut cipher) = Cipher::decryptor(kind, secret)
        {
            cipher.apply(self.incoming.rest_mut());
            self.decrypt = CipherState::On(cipher.into());
        }
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// The state or the build does not allow the packet, or encryption would start without a
    /// secret. Nothing is sent.
    pub fn send(&mut self, packet: &Packet) -> Result<(), UnexpectedPacket> {
        self.send_as(packet, |out, build| packet.write(out, build))
    }

    /// Sends the given bytes of a packet. A proxy forwards packets unchanged with it.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_bytes(&mut self, packet: &Packet, bytes: &[u8]) -> Result<(), UnexpectedPacket> {
        self.send_as(packet, |out, _| out.extend_from_slice(bytes))
    }

    fn send_as(
        &mut self,
        packet: &Packet,
        write: impl FnOnce(&mut Vec<u8>, Build),
    ) -> Result<(), UnexpectedPacket> {
        let direction = self.role.sends();
        let build = self.build();
        let (state, encrypts) = self.state.after(packet, direction, build)?;
        if !packet.is_in(direction, build) || encrypts && self.secret.is_none() {
            return Err(UnexpectedPacket {
                state: self.state,
                direction,
                packet: packet.name(),
            });
        }
        let start = self.outgoing.len();
        write(&mut self.outgoing, build);
        if let CipherState::On(cipher) = &mut self.encrypt {
            cipher.apply(self.outgoing.get_mut(start..).unwrap_or_default());
        }
        self.state = state;
        if encrypts
            && let Some(secret) = &self.secret
            && let Some(kind) = CipherKind::of(self.build())
            && let Ok(cipher) = Cipher::encryptor(kind, secret)
        {
            self.encrypt = CipherState::On(cipher.into());
        }
        Ok(())
    }

    /// Returns the bytes to send to the peer. Report how many were sent with
    /// [`Connection::sent_bytes`].
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// Removes the first `count` bytes from [`Connection::outgoing`].
    pub fn sent_bytes(&mut self, count: usize) {
        self.outgoing.drain(..count.min(self.outgoing.len()));
    }
}
