//! Buffers for a batch of received datagrams.

use crate::BATCH;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Maximum length of a UDP datagram, in bytes.
const LONGEST: usize = 65_535;
/// Offsets slots from multiples of a page, where they would compete for the same cache lines.
const SLACK: usize = 577;

/// Buffers for up to [`BATCH`] datagrams. Only the memory pages that datagrams fill are used.
#[derive(Debug)]
pub struct Inbox {
    arena: Vec<u8>,
    slot: usize,
    pub(crate) metas: Vec<Meta>,
}

/// Metadata of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) length: usize,
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) waited: Option<Duration>,
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Local address that it was sent to, with
    /// [`SocketConfig::has_destination`](crate::SocketConfig::has_destination).
    pub to: Option<IpAddr>,
    /// Time in the receive queue, with
    /// [`SocketConfig::has_timestamps`](crate::SocketConfig::has_timestamps).
    pub waited: Option<Duration>,
    /// Payload, truncated to the inbox's maximum length.
    pub bytes: &'a [u8],
}

impl Inbox {
    /// Returns an inbox for datagrams of any length.
    pub fn new() -> Self {
        Self::with_max_length(LONGEST)
    }

    /// Returns an inbox for datagrams of up to `length` bytes. Longer ones are truncated.
    pub fn with_max_length(length: usize) -> Self {
        let slot = length.clamp(1, LONGEST) + SLACK;
        Self {
            arena: vec![0; slot * BATCH],
            slot,
            metas: Vec::with_capacity(BATCH),
        }
    }

    /// Returns the datagrams of the last batch.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Received<'_>> {
        self.metas
            .iter()
            .zip(self.arena.chunks_exact(self.slot))
            .map(|(meta, slot)| Received {
                from: meta.from,
                to: meta.to,
                waited: meta.waited,
                bytes: &slot[..meta.length],
            })
    }

    /// Returns the buffers, and the list for the metadata of their datagrams.
    pub(crate) fn slots(&mut self) -> (impl Iterator<Item = &mut [u8]>, &mut Vec<Meta>) {
        let length = self.slot - SLACK;
        self.metas.clear();
        (
            self.arena
                .chunks_exact_mut(self.slot)
                .map(move |slot| &mut slot[..length]),
            &mut self.metas,
        )
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}
