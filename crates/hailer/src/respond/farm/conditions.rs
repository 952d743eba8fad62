//! Simulated network conditions: loss, duplicates and delay.

use hailer_proto::sample::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A probability, as a threshold for 32 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(u64);

impl Share {
    /// Returns `None` if `share` is not from 0 to 1.
    pub(super) fn new(share: f64) -> Option<Self> {
        // 1 is above every 32-bit number, so it includes all.
        (0.0..=1.0)
            .contains(&share)
            .then(|| Self((share * (1_u64 << 32) as f64).round() as u64))
    }

    /// Returns whether these 32 random bits are within the share.
    pub(super) fn has(self, bits: u32) -> bool {
        u64::from(bits) < self.0
    }
}

/// Network conditions.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    pub(super) loss: Share,
    pub(super) duplicates: Share,
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
}

impl Conditions {
    pub(super) fn is_instant(&self) -> bool {
        self.delay.is_zero() && self.jitter.is_zero()
    }

    /// Returns the delay of a datagram.
    pub(super) fn time(&self, random: &mut Random) -> Duration {
        if self.jitter.is_zero() {
            return self.delay;
        }
        let nanos = (u128::from(random.next()) * (self.jitter.as_nanos() + 1)) >> 64;
        self.delay + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A delayed datagram.
#[derive(Clone, Debug)]
pub(super) struct DelayedDatagram {
    pub(super) to: SocketAddr,
    pub(super) from: IpAddr,
    pub(super) bytes: Vec<u8>,
}

/// Delayed datagrams, up to a fixed number. Buffers are reused.
#[derive(Debug)]
pub(super) struct Queue {
    /// When each datagram is due, its number of arrival, and its index.
    order: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    datagrams: Vec<DelayedDatagram>,
    free: Vec<usize>,
    taken: u64,
    capacity: usize,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            order: BinaryHeap::new(),
            datagrams: Vec::new(),
            free: Vec::new(),
            taken: 0,
            capacity,
        }
    }

    /// Copies a datagram into the queue. Returns `false` if the queue is full.
    pub(super) fn insert(
        &mut self,
        due: Duration,
        to: SocketAddr,
        from: IpAddr,
        bytes: &[u8],
    ) -> bool {
        let place = match self.free.pop() {
            Some(place) => {
                let datagram = &mut self.datagrams[place];
                datagram.to = to;
                datagram.from = from;
                datagram.bytes.clear();
                datagram.bytes.extend_from_slice(bytes);
                place
            }
            None if self.datagrams.len() < self.capacity => {
                self.datagrams.push(DelayedDatagram {
                    to,
                    from,
                    bytes: bytes.to_vec(),
                });
                self.datagrams.len() - 1
            }
            None => return false,
        };
        self.order.push(Reverse((due, self.taken, place)));
        self.taken += 1;
        true
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.datagrams.len()
    }

    /// Returns when the first datagram is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.order.peek().map(|Reverse((due, ..))| *due)
    }

    /// Removes and returns the first datagram, if it is due.
    pub(super) fn take(&mut self, now: Duration) -> Option<&DelayedDatagram> {
        if self.due()? > now {
            return None;
        }
        let Reverse((.., place)) = self.order.pop()?;
        self.free.push(place);
        self.datagrams.get(place)
    }
}
