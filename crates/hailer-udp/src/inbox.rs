//! Room for a batch of datagrams received.

use crate::BATCH;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The longest datagram there is.
const LONGEST: usize = 65_535;
/// Slots at multiples of a page would compete for the same few lines of the cache.
const SLACK: usize = 577;

/// Room for a batch of datagrams. Memory is touched only as far as datagrams are long.
#[derive(Debug)]
pub struct Inbox {
    arena: Vec<u8>,
    slot: usize,
    pub(crate) metas: Vec<Meta>,
}

/// What is known of a datagram besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) length: usize,
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) waited: Option<Duration>,
}

/// A datagram received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The address of this machine that it went to, if [`SocketConfig::destination`](crate::SocketConfig::destination).
    pub to: Option<IpAddr>,
    /// How long it waited in the receive queue, if [`SocketConfig::timestamps`](crate::SocketConfig::timestamps).
    pub waited: Option<Duration>,
    /// Its payload; cut if it is longer than the inbox was made for.
    pub bytes: &'a [u8],
}

impl Inbox {
    /// Room for [`BATCH`] datagrams of any length.
    pub fn new() -> Self {
        Self::with_max_length(LONGEST)
    }

    /// Room for [`BATCH`] datagrams of at most so many bytes; longer ones are cut.
    pub fn with_max_length(length: usize) -> Self {
        let slot = length.clamp(1, LONGEST) + SLACK;
        Self {
            arena: vec![0; slot * BATCH],
            slot,
            metas: Vec::with_capacity(BATCH),
        }
    }

    /// The datagrams.
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

    /// The slots, each as long as a datagram may be, and the list to describe what came into them.
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
