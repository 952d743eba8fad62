//! Bytes in, packets out: there are three outcomes and no fourth.
//!
//! ```text
//!   bytes ──► read ──► Packet  and how many bytes it took
//!                  ├─► Need    so many bytes more at least
//!                  └─► PacketError  packet, field, offset: the stream is over
//! ```
//!
//! Nothing on the wire says where a packet ends, so a reader that meets an unknown id or a wrong value cannot go on
//! (spec/minecraft-12w.md#4). Reading starts over at the packet's first byte when more bytes have come; long parts
//! announce their length, so that happens seldom.

use crate::build::Build;
use crate::packet::{PacketDirection, PacketError};
use crate::table::Packet;
use hailer_proto::wire::{Error, ErrorKind, Notes, Reader};

/// The longest packet that we wait for, in bytes. Real ones are below 250 KB: five full columns in a 0x38.
pub const MAX_PACKET: usize = 2 << 20;

/// What some bytes are.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadOutcome {
    /// A packet, and how many bytes it took.
    Packet(Packet, usize),
    /// The beginning of one: at least so many bytes are missing.
    Need(usize),
    /// No packet at all.
    Invalid(PacketError),
}

/// Reads the packet that these bytes begin with. Fields go to the notes, if those keep fields.
pub fn read(
    bytes: &[u8],
    way: PacketDirection,
    build: Build,
    max_packet: usize,
    notes: &mut Notes,
) -> ReadOutcome {
    let Some(&id) = bytes.first() else {
        return ReadOutcome::Need(1);
    };
    let mut reader = Reader::new(bytes, notes);
    let _ = reader.take(1, "id");
    let (packet, error) = match Packet::read_row(id, &mut reader, way, build) {
        Some((_, Ok(packet))) => return ReadOutcome::Packet(packet, reader.at()),
        Some((name, Err(error))) => (Some(name), error),
        None => (
            None,
            Error::bad("id", 0, "a packet of this build and direction"),
        ),
    };
    match error.kind {
        ErrorKind::Short { need } if need <= max_packet.saturating_sub(bytes.len()) => {
            ReadOutcome::Need(need)
        }
        ErrorKind::Short { .. } => {
            let error = Error {
                kind: ErrorKind::Limit { limit: max_packet },
                ..error
            };
            ReadOutcome::Invalid(PacketError {
                packet,
                id,
                error,
                at: 0,
            })
        }
        _ => ReadOutcome::Invalid(PacketError {
            packet,
            id,
            error,
            at: 0,
        }),
    }
}

/// One direction of a connection, decrypted: collects bytes until they make a packet.
#[derive(Debug)]
pub struct PacketStream {
    way: PacketDirection,
    build: Build,
    max_packet: usize,
    notes: Notes,
    buffer: Vec<u8>,
    /// Where the next packet begins in the buffer.
    start: usize,
    /// How long the rest of the buffer must be before it is worth a look.
    wanted: usize,
    /// How much of the stream lies before the buffer.
    gone: u64,
    broken: Option<PacketError>,
}

impl PacketStream {
    /// The beginning of a stream.
    pub fn new(way: PacketDirection, build: Build) -> Self {
        Self {
            way,
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

    /// With another limit for the length of a packet, in bytes.
    #[must_use]
    pub fn with_max_packet(mut self, max_packet: usize) -> Self {
        self.max_packet = max_packet;
        self
    }

    /// The direction.
    pub fn way(&self) -> PacketDirection {
        self.way
    }

    /// The build spoken.
    pub fn build(&self) -> Build {
        self.build
    }

    /// Reads what follows in the speech of another build.
    pub fn set_build(&mut self, build: Build) {
        (self.build, self.wanted) = (build, 1);
    }

    /// Takes bytes, as many and as few as there are.
    pub fn push(&mut self, bytes: &[u8]) {
        // What was read makes room first: the buffer never holds more than one packet and what came with it.
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.gone += self.start as u64;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next packet, if its bytes are all here, and those bytes. After an error, the same error again.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<(Packet, &[u8])>, PacketError> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        if rest.len() < self.wanted {
            return Ok(None);
        }
        match read(rest, self.way, self.build, self.max_packet, &mut self.notes) {
            ReadOutcome::Packet(packet, length) => {
                let start = self.start;
                (self.start, self.wanted) = (start + length, 1);
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

    /// Offset of the next packet's first byte from the beginning of the stream.
    pub fn at(&self) -> u64 {
        self.gone + self.start as u64
    }

    /// Bytes that are here and not read yet.
    pub fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Forgets those.
    pub(crate) fn clear(&mut self) {
        self.buffer.truncate(self.start);
    }

    /// The same, to be decrypted where they lie.
    pub(crate) fn rest_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..).unwrap_or_default()
    }
}
