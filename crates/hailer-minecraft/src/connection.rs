//! One end of a connection: bytes in, packets out, packets in, bytes out.
//!
//! ```text
//!   from the peer ─► receive(bytes) ─► decrypt ─► PacketStream ─► next() ─► packet
//!   to the peer   ◄─ outgoing()     ◄─ encrypt ◄────────── send(packet)
//! ```
//!
//! The engine is the same in both roles; it walks the [table of states](crate::state), refuses what has no place, and
//! switches each direction to its cipher at the very byte (spec/minecraft-12w.md#6). Who holds keys and decides is above:
//!
//! - a client that gets [`EncryptionRequest`](crate::table::EncryptionRequest) calls [`Connection::secure`] with a secret of
//!   its choice and then sends the packet that carries it;
//! - a server that gets the encrypted secret calls [`Connection::secure`] with what it decrypted. Until then
//!   [`Connection::next`] rests, since what follows is encrypted with it.

use crate::build::Build;
use crate::crypto::{BadSecret, Cipher, CipherKind};
use crate::packet::{PacketDirection, PacketError};
use crate::state::{ConnectionState, UnexpectedPacket};
use crate::stream::PacketStream;
use crate::table::Packet;
use std::fmt;

/// Which end we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that connects.
    Client,
    /// The one that is connected to.
    Server,
}

impl Role {
    /// The direction in which we send.
    pub const fn sends(self) -> PacketDirection {
        match self {
            Self::Client => PacketDirection::ToServer,
            Self::Server => PacketDirection::ToClient,
        }
    }

    /// The direction in which we hear.
    pub const fn receives(self) -> PacketDirection {
        match self {
            Self::Client => PacketDirection::ToClient,
            Self::Server => PacketDirection::ToServer,
        }
    }
}

/// Why a connection cannot go on. The fault is the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerError {
    /// Its bytes make no packet.
    Packet(PacketError),
    /// Its packet has no place here.
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

/// One direction's cipher: not yet, waiting for the secret, or on.
#[derive(Debug, Default)]
enum CipherState {
    #[default]
    Plain,
    Waiting,
    On(Box<Cipher>),
}

/// One end of one connection.
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
    keep_bytes: bool,
}

impl Connection {
    /// A connection on which nothing was said, in the speech of a build.
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
            keep_bytes: false,
        }
    }

    /// With another limit for the length of a packet, in bytes.
    #[must_use]
    pub fn with_max_packet(mut self, max_packet: usize) -> Self {
        self.incoming = self.incoming.with_max_packet(max_packet);
        self
    }

    /// Keeps the bytes of each packet for [`Connection::last_bytes`].
    #[must_use]
    pub fn keeping_bytes(mut self) -> Self {
        self.keep_bytes = true;
        self
    }

    /// Which end we are.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The build spoken.
    pub fn build(&self) -> Build {
        self.incoming.build()
    }

    /// Speaks as another build from here on: a server learns the client's from its first packet.
    pub fn set_build(&mut self, build: Build) {
        self.incoming.set_build(build);
    }

    /// Where the connection stands.
    pub fn state(&self) -> ConnectionState {
        self.state
    }

    /// Whether both directions are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(
            (&self.decrypt, &self.encrypt),
            (CipherState::On(_), CipherState::On(_))
        )
    }

    /// Takes bytes from the peer, as many and as few as there are.
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

    /// Bytes received that make no whole packet yet. Before the first packet, what a server guesses the build from.
    pub fn unread(&self) -> &[u8] {
        self.incoming.rest()
    }

    /// The next packet, if it is here whole.
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
        if self.keep_bytes {
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

    /// The bytes of the packet returned last, or of the one that has no place here, decrypted, if they are
    /// [kept](Self::keeping_bytes).
    pub fn last_bytes(&self) -> &[u8] {
        &self.last
    }

    /// Gives the secret that the ciphers of this build begin with.
    pub fn secure(&mut self, secret: &[u8]) -> Result<(), BadSecret> {
        if let Some(kind) = CipherKind::of(self.build()) {
            // Made and dropped: a secret of the wrong length is told now, not in the middle of a packet.
            Cipher::encryptor(kind, secret)?;
        }
        self.secret = Some(secret.to_vec());
        self.lift();
        Ok(())
    }

    /// Begins to decrypt, if it is time and the secret is known.
    fn lift(&mut self) {
        if let (CipherState::Waiting, Some(secret)) = (&self.decrypt, &self.secret)
            && let Some(kind) = CipherKind::of(self.build())
            && let Ok(mut cipher) = Cipher::decryptor(kind, secret)
        {
            cipher.apply(self.incoming.rest_mut());
            self.decrypt = CipherState::On(cipher.into());
        }
    }

    /// Sends a packet. A packet that has no place here, that the build does not have, or after which encryption would
    /// begin without a secret, is not sent.
    pub fn send(&mut self, packet: &Packet) -> Result<(), UnexpectedPacket> {
        self.send_as(packet, |out, build| packet.write(out, build))
    }

    /// Sends a packet as these bytes: for a proxy, which passes on what it got.
    pub fn send_bytes(&mut self, packet: &Packet, bytes: &[u8]) -> Result<(), UnexpectedPacket> {
        self.send_as(packet, |out, _| out.extend_from_slice(bytes))
    }

    fn send_as(
        &mut self,
        packet: &Packet,
        write: impl FnOnce(&mut Vec<u8>, Build),
    ) -> Result<(), UnexpectedPacket> {
        let (way, build) = (self.role.sends(), self.build());
        let (state, encrypts) = self.state.after(packet, way, build)?;
        if !packet.is_in(way, build) || encrypts && self.secret.is_none() {
            return Err(UnexpectedPacket {
                state: self.state,
                way,
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

    /// Bytes for the peer. Whoever has sent them says so with [`Connection::sent_bytes`].
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing
    }

    /// The first `count` bytes of [`Connection::outgoing`] are on their way.
    pub fn sent_bytes(&mut self, count: usize) {
        self.outgoing.drain(..count.min(self.outgoing.len()));
    }
}
