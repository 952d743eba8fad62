//! Numbers as bits. A column of small numbers, many of them zero, becomes the shortest of three forms:
//! nothing (all are zero), distances between the others, or Rice codes.

/// Longest unary part of a Rice code. A larger number follows without coding.
const MAX_UNARY: u32 = 20;
/// Bits of the parameter of a Rice code.
const PARAMETER_BITS: u32 = 6;

/// Returns a number without its sign: 0, -1, 1, -2, … become 0, 1, 2, 3, …
pub(super) fn fold(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns the number that [`fold`] has changed.
pub(super) fn unfold(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Writes bits, the lowest first.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that fill no byte yet.
    rest: u64,
    count: u32,
}

impl BitWriter {
    /// Writes the lowest `count` bits of a number, at most 64.
    pub(super) fn bits(&mut self, value: u64, count: u32) {
        if count > 32 {
            self.bits(value & u64::from(u32::MAX), 32);
            return self.bits(value >> 32, count - 32);
        }
        let mask = (1_u64 << count) - 1;
        self.rest |= (value & mask) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.rest as u8);
            self.rest >>= 8;
            self.count -= 8;
        }
    }

    /// Writes a number with its length.
    pub(super) fn number(&mut self, value: u64) {
        let length = u64::BITS - value.leading_zeros();
        self.bits(length.into(), 7);
        self.bits(value, length);
    }

    /// Writes numbers in the shortest form. The reader knows how many there are.
    pub(super) fn column(&mut self, values: &[u64]) {
        let others = values.iter().filter(|value| **value > 0);
        if others.clone().next().is_none() {
            return self.bits(0, 2);
        }
        let sparse = Sparse::of(values);
        let (parameter, size) = best_parameter(values);
        if sparse.size < size {
            self.bits(1, 2);
            self.bits(sparse.run_parameter.into(), PARAMETER_BITS);
            self.bits(sparse.parameter.into(), PARAMETER_BITS);
            for (run, value) in runs(values) {
                self.rice(run, sparse.run_parameter);
                if let Some(value) = value {
                    self.rice(value - 1, sparse.parameter);
                }
            }
        } else {
            self.bits(2, 2);
            self.bits(parameter.into(), PARAMETER_BITS);
            for &value in values {
                self.rice(value, parameter);
            }
        }
    }

    fn rice(&mut self, value: u64, parameter: u32) {
        let unary = value >> parameter;
        if unary >= MAX_UNARY.into() {
            self.bits((1 << MAX_UNARY) - 1, MAX_UNARY);
            return self.bits(value, 64);
        }
        let unary = unary as u32;
        self.bits((1 << unary) - 1, unary + 1);
        self.bits(value, parameter);
    }

    /// Returns the bytes. The last one is filled with zeros.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.rest as u8);
        }
        self.bytes
    }
}

/// Reads bits. `None`: there are too few, or they cannot have been written.
#[derive(Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits that were read.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the next bits, at least 57 if there are as many, else filled with zeros.
    fn peek(&self) -> u64 {
        let start = self.at / 8;
        let word = match self.bytes.get(start..start + 8) {
            Some(word) => u64::from_le_bytes(word.try_into().expect("8 bytes")),
            None => {
                let mut word = [0; 8];
                let rest = self.bytes.get(start..).unwrap_or_default();
                word[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(word)
            }
        };
        word >> (self.at % 8)
    }

    fn skip(&mut self, count: u32) -> Option<()> {
        self.at += count as usize;
        (self.at <= self.bytes.len() * 8).then_some(())
    }

    pub(super) fn bits(&mut self, count: u32) -> Option<u64> {
        if count > 32 {
            let low = self.bits(32)?;
            return Some(low | self.bits(count - 32)? << 32);
        }
        let bits = self.peek() & ((1_u64 << count) - 1);
        self.skip(count)?;
        Some(bits)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let length = self.bits(7)? as u32;
        if length > 64 {
            return None;
        }
        self.bits(length)
    }

    /// Reads a column of `count` numbers.
    pub(super) fn column(&mut self, count: usize) -> Option<Vec<u64>> {
        match self.bits(2)? {
            0 => Some(vec![0; count]),
            1 => {
                let run_parameter = self.bits(PARAMETER_BITS)? as u32;
                let parameter = self.bits(PARAMETER_BITS)? as u32;
                let mut values = vec![0; count];
                let mut at = 0;
                while at < count {
                    at += usize::try_from(self.rice(run_parameter)?)
                        .ok()
                        .filter(|run| *run <= count - at)?;
                    if let Some(place) = values.get_mut(at) {
                        *place = self.rice(parameter)?.checked_add(1)?;
                        at += 1;
                    }
                }
                Some(values)
            }
            2 => {
                let parameter = self.bits(PARAMETER_BITS)? as u32;
                // Each number takes a bit or more.
                if count > self.bytes.len() * 8 - self.at {
                    return None;
                }
                (0..count).map(|_| self.rice(parameter)).collect()
            }
            _ => None,
        }
    }

    fn rice(&mut self, parameter: u32) -> Option<u64> {
        let unary = self.peek().trailing_ones();
        if unary >= MAX_UNARY {
            self.skip(MAX_UNARY)?;
            return self.bits(64);
        }
        self.skip(unary + 1)?;
        let low = self.bits(parameter)?;
        let high = u64::from(unary);
        (high.leading_zeros() >= parameter).then(|| high << parameter | low)
    }

    /// Returns whether only the filling of the last byte is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len() && (self.at.is_multiple_of(8) || self.peek() == 0)
    }
}

/// The form of distances: parameters and size.
struct Sparse {
    run_parameter: u32,
    parameter: u32,
    size: u64,
}

impl Sparse {
    fn of(values: &[u64]) -> Self {
        let (distances, others): (Vec<u64>, Vec<Option<u64>>) = runs(values).unzip();
        let others: Vec<u64> = others
            .into_iter()
            .flatten()
            .map(|value| value - 1)
            .collect();
        let (run_parameter, of_runs) = best_parameter(&distances);
        let (parameter, of_others) = best_parameter(&others);
        Self {
            run_parameter,
            parameter,
            size: of_runs + of_others + u64::from(PARAMETER_BITS),
        }
    }
}

/// Returns the numbers of zeros before each other number, and that number; at the end maybe only zeros.
fn runs(values: &[u64]) -> impl Iterator<Item = (u64, Option<u64>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = values.get(at..).filter(|rest| !rest.is_empty())?;
        let run = rest.iter().take_while(|value| **value == 0).count();
        at += run + 1;
        Some((run as u64, rest.get(run).copied()))
    })
}

/// Returns the parameter of the shortest Rice codes, and the number of their bits.
fn best_parameter(values: &[u64]) -> (u32, u64) {
    let size = |parameter: u32| {
        let bits = |value: &u64| match value >> parameter {
            unary if unary >= MAX_UNARY.into() => u64::from(MAX_UNARY) + 64,
            unary => unary + 1 + u64::from(parameter),
        };
        values.iter().map(bits).sum::<u64>()
    };
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    let mean = (sum / values.len().max(1) as u128) as u64;
    let about = (u64::BITS - mean.leading_zeros()).min(63);
    (about.saturating_sub(3)..=about)
        .map(|parameter| (parameter, size(parameter)))
        .min_by_key(|(_, size)| *size)
        .expect("one or more parameters")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let number = prop_oneof![
            20 => Just(0),
            5 => 0..9_u64,
            2 => 0..100_000_u64,
            1 => any::<u64>(),
            1 => Just(u64::MAX)
        ];
        proptest::collection::vec(number, 0..200)
    }

    proptest! {
        #[test]
        fn columns_are_read_back(first in numbers(), number in any::<u64>(), second in numbers()) {
            let mut writer = BitWriter::default();
            writer.column(&first);
            writer.number(number);
            writer.column(&second);
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            prop_assert_eq!(reader.column(first.len()), Some(first));
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert_eq!(reader.column(second.len()), Some(second));
            prop_assert!(reader.is_at_end());
        }

        #[test]
        fn signs_are_folded(value in any::<i64>()) {
            prop_assert_eq!(unfold(fold(value)), value);
        }
    }

    #[test]
    fn small_numbers_take_few_bits() {
        let size = |values: &[u64]| {
            let mut writer = BitWriter::default();
            writer.column(values);
            writer.finish().len()
        };
        assert_eq!(size(&[0; 1_000]), 1);
        let mut one = [0; 1_000];
        one[500] = 7;
        assert_eq!(size(&one), 5);
        // Three bits each, and the parameter.
        assert_eq!(size(&[3; 1_000]), 376);
    }
}
