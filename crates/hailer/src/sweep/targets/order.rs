//! Order of a sweep: a random permutation that needs no storage, and shares of it.

use std::fmt;
use std::str::FromStr;

/// Enough rounds to separate neighbors as well as chance does. A test below fails with four.
const ROUNDS: usize = 6;

/// A random permutation of the numbers below a length. Needs no memory, and every place takes the
/// same time to compute.
#[derive(Clone, Debug)]
pub struct Order {
    length: u64,
    /// Bits of the two halves of a place.
    high: u32,
    low: u32,
    keys: [u64; ROUNDS],
}

impl Order {
    /// Creates the permutation of the numbers from 0 to `length` - 1 for a seed.
    pub fn new(length: u64, seed: u64) -> Self {
        let bits = (u64::BITS - length.saturating_sub(1).leading_zeros()).max(2);
        let mut state = seed;
        let keys = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(state)
        });
        Self {
            length,
            high: bits / 2,
            low: bits - bits / 2,
            keys,
        }
    }

    /// Returns how many numbers are permuted.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the number at a place, or `None` after the last.
    pub fn at(&self, place: u64) -> Option<u64> {
        if place >= self.length {
            return None;
        }
        // The network permutes the next power of two, less than twice as many numbers.
        // Repeat it for results beyond the length; that ends because the cycle contains the first
        // place.
        let mut number = self.network(place);
        while number >= self.length {
            number = self.network(number);
        }
        Some(number)
    }

    /// Feistel network: each half in turn is changed by a function of the other, which is
    /// reversible.
    fn network(&self, number: u64) -> u64 {
        let low_mask = (1 << self.low) - 1;
        let high_mask = (1 << self.high) - 1;
        let mut high = number >> self.low;
        let mut low = number & low_mask;
        for [even, odd] in self.keys.as_chunks::<2>().0 {
            high ^= scramble(low, *even) & high_mask;
            low ^= scramble(high, *odd) & low_mask;
        }
        (high << self.low) | low
    }
}

/// Returns at least 32 bits that each depend on all bits of a half.
fn scramble(half: u64, key: u64) -> u64 {
    let product = (half ^ key).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    (product ^ (product >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32
}

/// Final mix of SplitMix64: every output bit depends on every input bit.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Share of one machine in a sweep, written `2/4`: number, from 1, and total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: u64,
    of: u64,
}

/// Invalid share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a share is written 2/4: its number, from 1, and of how many")]
pub struct ShardError;

impl Shard {
    /// Creates a share. Returns `None` unless 1 <= `number` <= `of`.
    pub fn new(number: u64, of: u64) -> Option<Self> {
        (1 <= number && number <= of).then_some(Self { number, of })
    }

    /// Returns the number of the share, from 1.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Returns the total number of shares.
    pub fn of(self) -> u64 {
        self.of
    }

    /// Returns whether a place of an order is in the share.
    pub fn holds(self, place: u64) -> bool {
        place % self.of == self.number - 1
    }

    /// Returns the first place in the share that is not before `place`.
    pub fn first_from(self, place: u64) -> u64 {
        let first = self.number - 1;
        let at = place % self.of;
        let ahead = if at <= first {
            first - at
        } else {
            self.of - at + first
        };
        place.saturating_add(ahead)
    }

    /// Returns the place after `place`, which must be in the share.
    pub(crate) fn after(self, place: u64) -> u64 {
        place.saturating_add(self.of)
    }

    /// Returns how many of the first `length` places are in the share.
    pub fn count(self, length: u64) -> u64 {
        length / self.of + u64::from(length % self.of >= self.number)
    }
}

impl Default for Shard {
    /// Returns the only share of one.
    fn default() -> Self {
        Self { number: 1, of: 1 }
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let (number, of) = text.split_once('/').ok_or(ShardError)?;
        let parse = |text: &str| text.trim().parse().map_err(|_| ShardError);
        Self::new(parse(number)?, parse(of)?).ok_or(ShardError)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns whether every number below the length occurs once.
    fn is_permutation(order: &Order) -> bool {
        let mut seen = vec![false; order.length() as usize];
        (0..order.length()).all(|place| {
            let number = order.at(place).unwrap() as usize;
            number < seen.len() && !std::mem::replace(&mut seen[number], true)
        }) && order.at(order.length()).is_none()
    }

    #[test]
    fn each_number_has_one_place_in_every_small_order() {
        for length in (0..300).chain([1023, 1024, 1025, 65_535, 65_536, 65_537]) {
            for seed in [0, 1, u64::MAX] {
                assert!(
                    is_permutation(&Order::new(length, seed)),
                    "{length}, {seed}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn each_number_has_one_place(length in 0_u64..20_000, seed: u64) {
            prop_assert!(is_permutation(&Order::new(length, seed)));
        }

        /// Orders too long for a full test: sampled places stay in range and do not collide.
        #[test]
        fn long_orders_stay_inside_and_do_not_collide(length in 1_u64 << 30..=u64::MAX, seed: u64, from: u64) {
            let order = Order::new(length, seed);
            let from = from % (length - 4000);
            let mut numbers: Vec<u64> = (from..from + 4000).map(|place| order.at(place).unwrap()).collect();
            prop_assert!(numbers.iter().all(|number| *number < length));
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len(), 4000);
        }

        #[test]
        fn all_shards_together_are_everything_once(length in 0_u64..2000, of in 1_u64..40) {
            let mut places = Vec::new();
            for number in 1..=of {
                let shard = Shard::new(number, of).unwrap();
                let before = places.len();
                let mut place = shard.first_from(0);
                while place < length {
                    places.push(place);
                    prop_assert_eq!(shard.after(place), shard.first_from(place + 1));
                    place = shard.after(place);
                }
                prop_assert_eq!((places.len() - before) as u64, shard.count(length));
                prop_assert!(places[before..].iter().all(|place| shard.holds(*place)));
            }
            places.sort_unstable();
            prop_assert_eq!(places, (0..length).collect::<Vec<u64>>());
        }
    }

    /// No /24 occurs more often in a row than by chance, in a /16. In a window of 256 places the
    /// mean is one each; by chance, any of the 65,000 windows has more than 12 only once in 10,000
    /// seeds.
    #[test]
    fn neighbors_are_spread() {
        for seed in 0..8 {
            let order = Order::new(65_536, seed);
            let network = |place: u64| (order.at(place).unwrap() >> 8) as usize;
            let mut count = [0_u32; 256];
            for place in 0..65_536 {
                count[network(place)] += 1;
                if place >= 256 {
                    count[network(place - 256)] -= 1;
                }
                assert!(
                    count[network(place)] <= 12,
                    "seed {seed}: a burst at {place}"
                );
            }
        }
    }

    /// Places that differ in one bit lead to unrelated numbers: each of the 256 differences between
    /// networks has 128 of 32,768 pairs, with a standard deviation of 11.
    #[test]
    fn places_alike_lead_to_numbers_unlike() {
        for (seed, bit) in (0..3).flat_map(|seed| (0..16).map(move |bit| (seed, bit))) {
            let order = Order::new(65_536, seed);
            let network = |place: u64| (order.at(place).unwrap() >> 8) as usize;
            let mut pairs = [0_u32; 256];
            for place in (0..65_536).filter(|place| place >> bit & 1 == 0) {
                pairs[network(place) ^ network(place | 1 << bit)] += 1;
            }
            assert!(
                pairs.iter().all(|count| (64..192).contains(count)),
                "seed {seed}, bit {bit}: {pairs:?}"
            );
        }
    }

    /// Two seeds agree in about as many places as by chance: one.
    #[test]
    fn seeds_differ() {
        for seed in 0..20 {
            let one = Order::new(10_000, seed);
            let other = Order::new(10_000, seed + 1);
            let same = (0..10_000)
                .filter(|place| one.at(*place) == other.at(*place))
                .count();
            assert!(same < 12, "{same} places of seed {seed}");
        }
    }

    #[test]
    fn shards_are_read_as_they_are_written() {
        assert_eq!("2/4".parse::<Shard>().unwrap().to_string(), "2/4");
        for text in ["", "2", "0/4", "5/4", "1/0", "a/b", "-1/4"] {
            assert_eq!(text.parse::<Shard>(), Err(ShardError), "{text}");
        }
    }
}
