//! Reads packets from a stream of bytes.
//!
//! ```text
//!   bytes ──► read ──► Packet  and how many bytes it took
//!                  ├─► Need    minimum number of missing bytes
//!                  └─► PacketError  packet, field, offset: the stream is over
//! ```
//!
//! Packets have no length prefix, so reading ends at an unknown id or an invalid value
//! (spec/minecraft-12w.md#4). When more bytes arrive, reading restarts at the packet's first byte.
//! Long fields announce their length, so this is rare.
//!
//! A packet has at most [`MAX_PACKET`] bytes, unless the caller sets another limit.

use crate::build::Build;
use crate::packet::{PacketDirection, PacketError};
use crate::table::Packet;
use hailer_proto::wire::{Error, ErrorKind, Notes, Reader};

/// Default limit of a packet, in bytes. Real packets are below 250 KB: five full columns in a 0x38.
pub const MAX_PACKET: usize = 2 << 20;

/// Result of reading a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadOutcome {
    /// A packet and its length in bytes.
    Packet(Packet, usize),
    /// The start of a packet; at least this many bytes are missing.
    Need(usize),
    /// An invalid packet.
    Invalid(PacketError),
}

/// Reads the packet at the start of `bytes`. Records its fields in `notes`.
pub fn read(
    bytes: &[u8],
    direction: PacketDirection,
    build: Build,
    max_packet: usize,
    notes: &mut Notes,
) -> ReadOutcome {
    let Some(&id) = bytes.first() else {
        return ReadOutcome::Need(1);
    };
    let mut reader = Reader::new(bytes, notes);
    let _ = reader.take(1, "id");
    let (packet, error) = match Packet::read_row(id, &mut reader, direction, build) {
        Some((_, Ok(packet))) => return ReadOutcome::Packet(packet, reader.at()),
        Some((name, Err(error))) => (Some(name), error),
        None => (
            None,
            Error::bad("id", 0, "a packet of this build and direction"),
        ),
    };
    let error = match error.kind {
        ErrorKind::Short { need } if need <= max_packet.saturating_sub(bytes.len()) => {
            return ReadOutcome::Need(need);
        }
        ErrorKind::Short { .. } => Error {
            kind: ErrorKind::Limit { limit: max_packet },
            ..error
        },
        _ => error,
    };
    ReadOutcome::Invalid(PacketError {
        packet,
        id,
        error,
        at: 0,
    })
}

/// Decrypted bytes of one direction of a connection, read packet by packet.
#[derive(Debug)]
pub struct PacketStream {
    direction: PacketDirection,
    build: Build,
    max_packet: usize,
    notes: Notes,
    buffer: Vec<u8>,
    /// Start of the next packet in the buffer.
    start: usize,
    /// Length of the rest at which reading is tried again.
    wanted: usize,
    /// Offset of the buffer in the stream.
    gone: u64,
    broken: Option<PacketError>,
}

impl PacketStream {
    /// Creates an empty stream.
    pub fn new(direction: PacketDirection, build: Build) -> Self {
        Self {
            direction,
            build,
            max_packet: MAX_PACKET,
            notes: Notes::discarding(),
            buffer: Vec::new(),
            start: 0,
            wanted: 1,
            gone: 0,
            broken: None,
        }
    }

    /// Sets the maximum length of a packet, in bytes.
    #[must_use]
    pub fn with_max_packet(mut self, max_packet: usize) -> Self {
        self.max_packet = max_packet;
        self
    }

    /// Returns the direction.
    pub fn direction(&self) -> PacketDirection {
        self.direction
    }

    /// Returns the build.
    pub fn build(&self) -> Build {
        self.build
    }

    /// Reads the following packets in another build.
    pub fn set_build(&mut self, build: Build) {
        self.build = build;
        self.wanted = 1;
    }

    /// Adds bytes, in pieces of any length.
    pub fn push(&mut self, bytes: &[u8]) {
        // Remove packets that were read, so that the buffer holds at most one packet and the bytes
        // received with it.
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.gone += self.start as u64;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete packet and its bytes, or `None`.
    ///
    /// # Errors
    /// The packet is invalid. Later calls return the same error.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<(Packet, &[u8])>, PacketError> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        if rest.len() < self.wanted {
            return Ok(None);
        }
        match read(
            rest,
            self.direction,
            self.build,
            self.max_packet,
            &mut self.notes,
        ) {
            ReadOutcome::Packet(packet, length) => {
                let start = self.start;
                self.start = start + length;
                self.wanted = 1;
                Ok(Some((
                    packet,
                    self.buffer.get(start..self.start).unwrap_or_default(),
                )))
            }
            ReadOutcome::Need(need) => {
                self.wanted = rest.len() + need;
                Ok(None)
            }
            ReadOutcome::Invalid(broken) => Err(*self.broken.insert(PacketError {
                at: self.at(),
                ..broken
            })),
        }
    }

    /// Returns the offset of the next packet's first byte in the stream.
    pub fn at(&self) -> u64 {
        self.gone + self.start as u64
    }

    /// Returns the bytes that were not read yet.
    pub fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Discards the bytes that were not read yet.
    pub(crate) fn clear(&mut self) {
        self.buffer.truncate(self.start);
    }

    /// Returns the bytes that were not read yet, for decryption in place.
    pub(crate) fn rest_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..).unwrap_or_default()
    }
}
