//! Reads a connection between two other parties: bytes of both directions in, packets out.
//!
//! ```text
//!   push(way, bytes) ─► candidate: 12w27a ─► PacketStream of each direction ─┐
//!                    └► candidate: 12w30b ─► PacketStream of each direction ─┴─► next() ─► packet, if all of them agree
//! ```
//!
//! A capture may begin late, lack a direction, or have one direction after the other, so states are
//! not checked. The handshake determines the build. If several builds are possible (32 and 38 stand
//! for two each, or the handshake is missing), all of them read in parallel, and builds with
//! invalid packets are dropped (spec/minecraft-12w.md#1). A packet is returned once the remaining
//! builds agree on it.
//!
//! Each direction is decrypted from the byte after its 0xFC if the secret is known
//! (spec/minecraft-12w.md#6). Otherwise its rest is [sealed](Tap::sealed), which is not an error.

use crate::build::Build;
use crate::crypto::{BadSecret, Cipher, CipherKind};
use crate::hello::ClientHello;
use crate::packet::{PacketDirection, PacketError};
use crate::stream::PacketStream;
use crate::table::Packet;
use std::collections::VecDeque;
use std::fmt;

/// How far candidates that disagree read ahead. Then the newest build wins.
const MAX_PACKETS_AHEAD: usize = 500;
const MAX_BYTES_AHEAD: u64 = 1 << 20;

/// A packet of a tapped connection.
#[derive(Clone, Debug, PartialEq)]
pub struct TapPacket {
    /// Direction of the packet.
    pub direction: PacketDirection,
    /// Build in which it was decoded.
    pub build: Build,
    /// Packet that was decoded.
    pub packet: Packet,
    /// Bytes of the packet, decrypted.
    pub bytes: Vec<u8>,
    /// Offset of its first byte in the stream of its direction.
    pub offset: u64,
}

/// Encrypted rest of a direction whose secret is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptedRest {
    /// Offset of the first encrypted byte.
    pub offset: u64,
    /// Number of encrypted bytes so far.
    pub bytes: u64,
}

/// Error that ends reading one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapError {
    /// A packet is invalid.
    Packet(PacketError),
    /// No known build has the client's protocol number.
    Protocol(i32),
    /// The secret has the wrong length for the build.
    Secret(BadSecret),
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet(broken) => broken.fmt(f),
            Self::Protocol(number) => write!(f, "protocol {number}, known are 29 to 39"),
            Self::Secret(secret) => secret.fmt(f),
        }
    }
}

impl std::error::Error for TapError {}

/// Reads both directions of a connection between two other parties.
#[derive(Debug)]
pub struct Tap {
    /// Oldest build first; never empty.
    candidates: Vec<Candidate>,
    secret: Option<Vec<u8>>,
    /// Whether the build was given or detected from the handshake.
    is_announced: bool,
    has_ended: bool,
}

impl Tap {
    /// Creates a tap. Without a build, the build is detected; without a secret, encrypted bytes are
    /// only counted.
    pub fn new(build: Option<Build>, secret: Option<Vec<u8>>) -> Self {
        let candidates = match build {
            Some(build) => vec![Candidate::new(build, false)],
            None => Build::DIALECTS
                .iter()
                .map(|build| Candidate::new(build.newest(), true))
                .collect(),
        };
        Self {
            candidates,
            secret,
            is_announced: build.is_some(),
            has_ended: false,
        }
    }

    /// Adds bytes of a direction, in pieces of any length.
    pub fn push(&mut self, direction: PacketDirection, bytes: &[u8]) {
        for candidate in &mut self.candidates {
            candidate.lane_mut(direction).push(bytes);
        }
    }

    /// Marks the end of both directions. [`Tap::next`] then returns packets on which the builds
    /// disagree, too.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns the build, once only one is possible.
    pub fn build(&self) -> Option<Build> {
        match self.candidates.as_slice() {
            [only] => Some(only.build),
            _ => None,
        }
    }

    /// Returns the newest of the possible builds.
    pub fn likely(&self) -> Build {
        self.candidates
            .last()
            .map_or(Build::LATEST, |candidate| candidate.build)
    }

    /// Returns whether a direction ended with an error that was returned.
    pub fn is_closed(&self, direction: PacketDirection) -> bool {
        self.newest(direction).is_some_and(|lane| lane.is_closed)
    }

    /// Returns the next packet of either direction.
    ///
    /// # Errors
    /// A direction cannot be read further. The error is returned once; the other direction
    /// continues.
    #[allow(
        clippy::should_implement_trait,
        reason = "an error does not end it like an iterator"
    )]
    pub fn next(&mut self) -> Result<Option<TapPacket>, (PacketDirection, TapError)> {
        self.listen()?;
        for direction in [PacketDirection::ToServer, PacketDirection::ToClient] {
            let seen = self
                .next_of(direction)
                .map_err(|error| (direction, error))?;
            if seen.is_some() {
                return Ok(seen);
            }
        }
        Ok(None)
    }

    /// Returns the encrypted rest of a direction whose secret is unknown.
    pub fn sealed(&self, direction: PacketDirection) -> Option<EncryptedRest> {
        let lane = self.newest(direction)?;
        let bytes = lane.sealed?;
        Some(EncryptedRest {
            offset: lane.encrypted_at?,
            bytes,
        })
    }

    /// Returns the offset of a direction's first encrypted byte, once encryption has started.
    pub fn encrypted_at(&self, direction: PacketDirection) -> Option<u64> {
        self.newest(direction)?.encrypted_at
    }

    /// Returns the decrypted bytes of a direction that were not read: an incomplete or invalid
    /// packet.
    pub fn rest(&self, direction: PacketDirection) -> &[u8] {
        self.newest(direction)
            .map_or(&[], |lane| lane.stream.rest())
    }

    /// Returns the offset of [`rest`](Self::rest) in the stream of its direction.
    pub fn at(&self, direction: PacketDirection) -> u64 {
        self.newest(direction).map_or(0, |lane| lane.stream.at())
    }

    fn newest(&self, direction: PacketDirection) -> Option<&DirectionDecoder> {
        self.candidates
            .last()
            .map(|candidate| candidate.lane(direction))
    }

    /// Keeps the candidates that fit the client's first bytes.
    fn listen(&mut self) -> Result<(), (PacketDirection, TapError)> {
        if self.is_announced {
            return Ok(());
        }
        let first = self
            .newest(PacketDirection::ToServer)
            .filter(|lane| lane.stream.at() == 0);
        let Some(announced) = first.and_then(|lane| ClientHello::of(lane.stream.rest())) else {
            return Ok(());
        };
        self.is_announced = true;
        let builds: Vec<Build> = announced.builds().collect();
        match announced {
            ClientHello::Number(number) if builds.is_empty() => {
                self.candidates.iter_mut().for_each(Candidate::close);
                Err((PacketDirection::ToServer, TapError::Protocol(number.into())))
            }
            _ => {
                self.keep(|candidate| builds.contains(&candidate.build));
                Ok(())
            }
        }
    }

    /// Drops the candidates that do not fit, unless all would be dropped.
    fn keep(&mut self, fits: impl Fn(&Candidate) -> bool) {
        if self.candidates.iter().any(&fits) {
            self.candidates.retain(fits);
        }
    }

    fn next_of(&mut self, direction: PacketDirection) -> Result<Option<TapPacket>, TapError> {
        self.read(direction, 1);
        if !self.agree(direction) {
            // Wrong candidates usually fail within the next packets.
            self.read(direction, MAX_PACKETS_AHEAD);
            if !self.agree(direction) {
                if !self.has_ended
                    && self
                        .candidates
                        .iter()
                        .all(|candidate| candidate.lane(direction).is_close_by())
                {
                    return Ok(None);
                }
                // A wrong candidate may wait for the end of an invalid packet.
                let furthest = self
                    .candidates
                    .iter()
                    .map(|candidate| candidate.lane(direction).stream.at())
                    .max();
                self.keep(|candidate| Some(candidate.lane(direction).stream.at()) == furthest);
                self.candidates
                    .drain(..self.candidates.len().saturating_sub(1));
            }
        }
        let mut seen = None;
        let mut failed = None;
        for candidate in &mut self.candidates {
            let lane = candidate.lane_mut(direction);
            match lane.ahead.pop_front() {
                Some(packet) => seen = Some(packet),
                None if !lane.is_closed => failed = lane.failed,
                None => {}
            }
            lane.is_closed |= failed.is_some();
        }
        match (seen, failed) {
            (None, Some(error)) => Err(error),
            (seen, _) => Ok(seen),
        }
    }

    /// Lets each candidate read ahead up to `packets` packets. Candidates that fail are dropped; if
    /// all fail, those that read furthest stay.
    fn read(&mut self, direction: PacketDirection, ahead: usize) {
        let secret = self.secret.as_deref();
        for candidate in &mut self.candidates {
            while candidate.lane(direction).ahead.len() < ahead && candidate.read(direction, secret)
            {
            }
        }
        let furthest = self
            .candidates
            .iter()
            .map(|candidate| candidate.lane(direction).reach())
            .max();
        self.keep(|candidate| Some(candidate.lane(direction).reach()) == furthest);
    }

    /// Returns whether all candidates agree on the bytes of the next packet, or none has one.
    fn agree(&self, direction: PacketDirection) -> bool {
        let mut next = self.candidates.iter().map(|candidate| {
            candidate
                .lane(direction)
                .ahead
                .front()
                .map(|seen| &seen.bytes)
        });
        let first = next.next().flatten();
        next.all(|next| next == first)
    }
}

/// A possible build.
#[derive(Debug)]
struct Candidate {
    build: Build,
    /// Whether the build is a guess, which the client's protocol number may disprove.
    is_guess: bool,
    to_server: DirectionDecoder,
    to_client: DirectionDecoder,
}

impl Candidate {
    fn new(build: Build, is_guess: bool) -> Self {
        let lane = |direction| DirectionDecoder {
            stream: PacketStream::new(direction, build),
            cipher: None,
            encrypted_at: None,
            sealed: None,
            ahead: VecDeque::new(),
            failed: None,
            is_closed: false,
        };
        Self {
            build,
            is_guess,
            to_server: lane(PacketDirection::ToServer),
            to_client: lane(PacketDirection::ToClient),
        }
    }

    fn lane(&self, direction: PacketDirection) -> &DirectionDecoder {
        match direction {
            PacketDirection::ToServer => &self.to_server,
            PacketDirection::ToClient => &self.to_client,
        }
    }

    fn lane_mut(&mut self, direction: PacketDirection) -> &mut DirectionDecoder {
        match direction {
            PacketDirection::ToServer => &mut self.to_server,
            PacketDirection::ToClient => &mut self.to_client,
        }
    }

    fn close(&mut self) {
        self.to_server.is_closed = true;
        self.to_client.is_closed = true;
    }

    /// Reads one packet ahead, if it is complete.
    fn read(&mut self, direction: PacketDirection, secret: Option<&[u8]>) -> bool {
        let build = self.build;
        let mut is_guess = self.is_guess;
        let lane = self.lane_mut(direction);
        if lane.failed.is_some() || lane.is_closed {
            return false;
        }
        let offset = lane.stream.at();
        let (packet, bytes) = match lane.stream.next() {
            Ok(Some((packet, bytes))) => (packet, bytes.to_vec()),
            Ok(None) => return false,
            Err(broken) => {
                lane.failed = Some(TapError::Packet(broken));
                return false;
            }
        };
        match &packet {
            Packet::EncryptionResponse(_) if lane.encrypted_at.is_none() => {
                lane.seal(build, secret);
            }
            Packet::LoginRequest(login) if is_guess && build < Build::W17a => {
                if login.protocol != i32::from(build.protocol()) {
                    lane.failed = Some(TapError::Protocol(login.protocol));
                    return false;
                }
                is_guess = false;
            }
            _ => {}
        }
        lane.ahead.push_back(TapPacket {
            direction,
            build,
            packet,
            bytes,
            offset,
        });
        self.is_guess = is_guess;
        true
    }
}

/// One direction, decoded in one candidate build.
#[derive(Debug)]
struct DirectionDecoder {
    stream: PacketStream,
    cipher: Option<Cipher>,
    encrypted_at: Option<u64>,
    /// Number of bytes that cannot be decrypted, once encryption has started.
    sealed: Option<u64>,
    /// Packets that were read and not returned.
    ahead: VecDeque<TapPacket>,
    failed: Option<TapError>,
    /// Whether the error was returned.
    is_closed: bool,
}

impl DirectionDecoder {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(sealed) = &mut self.sealed {
            *sealed += bytes.len() as u64;
            return;
        }
        if self.is_closed {
            return;
        }
        self.stream.push(bytes);
        if let Some(cipher) = &mut self.cipher {
            let rest = self.stream.rest_mut();
            let new = rest.len().saturating_sub(bytes.len());
            cipher.apply(rest.get_mut(new..).unwrap_or_default());
        }
    }

    /// Marks the start of the encrypted bytes, and decrypts them if the secret is known.
    fn seal(&mut self, build: Build, secret: Option<&[u8]>) {
        self.encrypted_at = Some(self.stream.at());
        let Some(secret) = secret else {
            self.sealed = Some(self.stream.rest().len() as u64);
            self.stream.clear();
            return;
        };
        match CipherKind::of(build).map(|kind| Cipher::decryptor(kind, secret)) {
            Some(Ok(mut cipher)) => {
                cipher.apply(self.stream.rest_mut());
                self.cipher = Some(cipher);
            }
            Some(Err(error)) => self.failed = Some(TapError::Secret(error)),
            None => {}
        }
    }

    /// Returns the offset up to which reading succeeded; infinite without an error.
    fn reach(&self) -> u64 {
        if self.failed.is_some() {
            self.stream.at()
        } else {
            u64::MAX
        }
    }

    /// Returns whether the limit for reading ahead is not reached.
    fn is_close_by(&self) -> bool {
        let from = self
            .ahead
            .front()
            .map_or(self.stream.at(), |seen| seen.offset);
        self.ahead.len() < MAX_PACKETS_AHEAD && self.stream.at() - from < MAX_BYTES_AHEAD
    }
}
