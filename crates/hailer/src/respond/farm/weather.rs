//! What happens to a datagram on its way.

use super::invent::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Part of all, as a threshold for 32 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(u64);

impl Share {
    /// `None`: it is not from 0 to 1.
    pub(super) fn new(share: f64) -> Option<Self> {
        // 1 is past all of the 32 bits, so that it means all.
        (0.0..=1.0)
            .contains(&share)
            .then(|| Self((share * (1_u64 << 32) as f64).round() as u64))
    }

    /// Whether 32 random bits are of the share.
    pub(super) fn has(self, bits: u32) -> bool {
        u64::from(bits) < self.0
    }
}

/// What the weather is like.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    pub(super) loss: Share,
    pub(super) duplicates: Share,
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
}

impl Weather {
    pub(super) fn is_instant(&self) -> bool {
        self.delay.is_zero() && self.jitter.is_zero()
    }

    /// How long a datagram is under way.
    pub(super) fn time(&self, random: &mut Random) -> Duration {
        if self.jitter.is_zero() {
            return self.delay;
        }
        let nanos = (u128::from(random.next()) * (self.jitter.as_nanos() + 1)) >> 64;
        self.delay + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A datagram under way.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) to: SocketAddr,
    pub(super) from: IpAddr,
    pub(super) bytes: Vec<u8>,
}

/// Datagrams under way: so many and no more. Buffers are used again.
#[derive(Debug)]
pub(super) struct Queue {
    /// When each is due, in which order they came, which letter it is.
    order: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    letters: Vec<Letter>,
    free: Vec<usize>,
    taken: u64,
    most: usize,
}

impl Queue {
    pub(super) fn new(most: usize) -> Self {
        Self {
            order: BinaryHeap::new(),
            letters: Vec::new(),
            free: Vec::new(),
            taken: 0,
            most,
        }
    }

    /// Takes a copy of a datagram. `false`: there is no room.
    pub(super) fn put(
        &mut self,
        due: Duration,
        to: SocketAddr,
        from: IpAddr,
        bytes: &[u8],
    ) -> bool {
        let place = match self.free.pop() {
            Some(place) => {
                let letter = &mut self.letters[place];
                (letter.to, letter.from) = (to, from);
                letter.bytes.clear();
                letter.bytes.extend_from_slice(bytes);
                place
            }
            None if self.letters.len() < self.most => {
                self.letters.push(Letter {
                    to,
                    from,
                    bytes: bytes.to_vec(),
                });
                self.letters.len() - 1
            }
            None => return false,
        };
        self.order.push(Reverse((due, self.taken, place)));
        self.taken += 1;
        true
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.letters.len()
    }

    /// When the first is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.order.peek().map(|Reverse((due, ..))| *due)
    }

    /// The first, if it is due.
    pub(super) fn take(&mut self, now: Duration) -> Option<&Letter> {
        if self.due()? > now {
            return None;
        }
        let Reverse((.., place)) = self.order.pop()?;
        self.free.push(place);
        self.letters.get(place)
    }
}
