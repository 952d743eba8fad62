//! WireString: UTF-16 with a count of units (spec/minecraft-12w.md#4).

use super::Wire;
use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, Reader};
use serde::{Serialize, Serializer};
use std::fmt;

/// Characters of the game's font besides ASCII.
const FONT: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»⌂";

/// Returns whether a character is allowed in chat. Servers kick players who send others.
pub fn is_legal_in_chat(c: char) -> bool {
    matches!(c, ' '..='~') || FONT.contains(c)
}

/// Text of at most `N` UTF-16 units. Units are kept unchanged, including unpaired surrogates.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct WireString<const N: usize>(Vec<u16>);

impl<const N: usize> WireString<N> {
    /// Returns the UTF-16 units.
    pub fn units(&self) -> &[u16] {
        &self.0
    }
}

impl<const N: usize> From<&str> for WireString<N> {
    /// Cuts after the last whole character that fits.
    fn from(text: &str) -> Self {
        let mut units = Vec::with_capacity(text.len().min(N));
        for c in text.chars() {
            let mut pair = [0; 2];
            let pair = c.encode_utf16(&mut pair);
            if units.len() + pair.len() > N {
                break;
            }
            units.extend_from_slice(pair);
        }
        Self(units)
    }
}

impl<const N: usize> PartialEq<str> for WireString<N> {
    fn eq(&self, other: &str) -> bool {
        other.encode_utf16().eq(self.0.iter().copied())
    }
}

impl<const N: usize> fmt::Display for WireString<N> {
    /// Unpaired surrogates are displayed as U+FFFD.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf16_lossy(&self.0))
    }
}

impl<const N: usize> fmt::Debug for WireString<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf16_lossy(&self.0), f)
    }
}

impl<const N: usize> Serialize for WireString<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<const N: usize> Wire for WireString<N> {
    const MIN: usize = 2;

    fn read(reader: &mut Reader<'_, '_>, _: Build, field: &'static str) -> Result<Self, Error> {
        let (units, _) = reader.utf16_be(N, field)?.as_chunks();
        Ok(Self(
            units.iter().map(|&unit| u16::from_be_bytes(unit)).collect(),
        ))
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        (self.0.len() as u16).write(out, build);
        out.extend(self.0.iter().flat_map(|unit| unit.to_be_bytes()));
    }

    fn sample(dice: &mut SampleRng, _: Build) -> Self {
        let count = dice.below(N + 1);
        // Mostly letters, sometimes arbitrary units.
        Self(
            (0..count)
                .map(|_| {
                    if dice.below(8) == 0 {
                        dice.bits() as u16
                    } else {
                        97 + dice.below(26) as u16
                    }
                })
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_characters() {
        assert_eq!(WireString::<3>::from("abcd").to_string(), "abc");
        assert_eq!(WireString::<3>::from("ab\u{1F600}").to_string(), "ab");
        assert_eq!(&WireString::<4>::from("ab\u{1F600}"), "ab\u{1F600}");
        assert_eq!(WireString::<4>(vec![0xD800]).to_string(), "\u{FFFD}");
    }
}
