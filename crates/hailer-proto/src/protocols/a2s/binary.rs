//! The binary message that Arma 3 and DayZ send in chunks, as rules (spec/a2s.md#6.1).
//!
//! Limits: those of the rules that hold the chunks. Counts are bytes.

use super::message::decode;
use crate::model::{Extra, Rows, Value};
use crate::wire::{Error, Notes, Reader, hexadecimal};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// App id of DayZ.
pub(super) const DAYZ: u32 = 221_100;
/// Starts an escaped byte.
const ESCAPE: u8 = 1;
/// DLCs by bit, in Arma 3.
const ARMA_DLCS: [&str; 13] = [
    "Karts",
    "Marksmen",
    "Helicopters",
    "Zeus",
    "Apex",
    "Jets",
    "Laws of War",
    "Argo",
    "Tac-Ops",
    "Tanks",
    "Contact",
    "Enoch",
    "Art of War",
];
/// The DLC of DayZ, bit 1.
const DAYZ_DLC: &str = "Frostline";
/// Columns of the extra `mods`.
static MOD_COLUMNS: &[&str] = &["name", "id", "hash"];

/// A binary message, borrowed from the joined chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinaryRules<'a> {
    /// Version of the message.
    pub protocol: u8,
    /// Flags of lists that do not fit.
    pub overflow: u8,
    /// DLCs in use, one bit each.
    pub dlcs: u16,
    /// Difficulty and crosshair; only Arma 3 sends them.
    pub difficulty: Option<(u8, u8)>,
    /// Checksums of the DLCs, lowest bit first.
    pub dlc_hashes: Vec<u32>,
    /// Mods that the server runs.
    pub mods: Vec<Mod<'a>>,
    /// Names of the keys that signed mods.
    pub signatures: Vec<&'a [u8]>,
    /// Description of the server; only DayZ sends it.
    pub description: Option<&'a [u8]>,
}

/// A mod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mod<'a> {
    /// Start of its checksum.
    pub hash: u32,
    /// Number in the Steam workshop.
    pub id: u64,
    /// Whether it is a DLC of a third party.
    pub is_dlc: bool,
    /// Name of the mod.
    pub name: &'a [u8],
}

/// Which game's layout a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Arma,
    DayZ,
}

/// Joins the chunks among the rules, if all of them are there. The name of a chunk has two bytes:
/// its number, from 1, and the number of chunks. Returns the latter and the data.
pub fn join(rules: &[(&[u8], &[u8])]) -> Option<(u8, Vec<u8>)> {
    let total = rules.iter().find_map(|(name, _)| match name {
        &[1, total] => Some(*total),
        _ => None,
    })?;
    let chunks = rules.iter().filter(|(name, _)| is_chunk(name, total));
    let mut chunks: Vec<(&[u8], &[u8])> = chunks.copied().collect();
    chunks.sort_by_key(|(name, _)| *name);
    let numbers = chunks.iter().filter_map(|(name, _)| name.first());
    if !numbers.eq(&(1..=total).collect::<Vec<u8>>()) {
        return None;
    }
    let escaped: Vec<&[u8]> = chunks.into_iter().map(|(_, value)| value).collect();
    Some((total, unescape(&escaped.concat())))
}

/// Returns whether a rule is one of `total` chunks.
pub fn is_chunk(name: &[u8], total: u8) -> bool {
    matches!(name, [number, of] if *of == total && (1..=total).contains(number))
}

/// Replaces escapes in one pass, because a second one would find escapes in the result.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != ESCAPE {
            out.push(byte);
            continue;
        }
        match rest.next() {
            Some(1) => out.push(1),
            Some(2) => out.push(0),
            Some(3) => out.push(0xFF),
            other => out.extend([byte].into_iter().chain(other)),
        }
    }
    out
}

impl<'a> BinaryRules<'a> {
    /// Parses joined chunks. The message does not state its game, so the layout that ends with the
    /// message counts. If both do, `app_id` decides.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read in the layout of the game, with its offset in the joined
    /// chunks.
    pub fn parse(bytes: &'a [u8], app_id: u32) -> Result<Self, Error> {
        let parse = |layout| Self::read(&mut Reader::new(bytes, &mut Notes::discarding()), layout);
        let [first, second] = match app_id {
            DAYZ => [Layout::DayZ, Layout::Arma],
            _ => [Layout::Arma, Layout::DayZ],
        };
        parse(first).or_else(|error| parse(second).map_err(|_| error))
    }

    fn read(r: &mut Reader<'a, '_>, layout: Layout) -> Result<Self, Error> {
        let mut rules = Self {
            protocol: r.u8("protocol")?,
            overflow: r.u8("overflow flags")?,
            dlcs: r.u16_le("dlc flags")?,
            ..Self::default()
        };
        if layout == Layout::Arma {
            rules.difficulty = Some((r.u8("difficulty")?, r.u8("crosshair")?));
        }
        for _ in 0..rules.dlcs.count_ones() {
            rules.dlc_hashes.push(r.u32_le("dlc hash")?);
        }
        for _ in 0..r.u8("mods")? {
            rules.mods.push(read_mod(r)?);
        }
        for _ in 0..r.u8("signatures")? {
            rules.signatures.push(text(r, "signature")?);
        }
        if layout == Layout::DayZ && r.remaining() > 0 {
            rules.description = Some(text(r, "description")?);
        }
        r.end()?;
        Ok(rules)
    }

    /// Appends the fields that are present.
    pub fn describe(&self, extras: &mut Vec<Extra>) {
        let names = |list: &[&[u8]]| -> Value {
            Value::List(
                list.iter()
                    .map(|name| decode(name).0.as_ref().into())
                    .collect(),
            )
        };
        if let Some((difficulty, crosshair)) = self.difficulty {
            extras.push(Extra::new("difficulty", i64::from(difficulty)));
            extras.push(Extra::new("crosshair", crosshair != 0));
        }
        if self.dlcs != 0 {
            extras.push(Extra::new("dlcs", Value::List(self.dlc_names())));
        }
        if !self.mods.is_empty() {
            extras.push(Extra::new("mods", Value::Rows(self.mod_rows())));
        }
        if !self.signatures.is_empty() {
            extras.push(Extra::new("signatures", names(&self.signatures)));
        }
        if let Some(description) = self.description {
            extras.push(Extra::new("description", decode(description).0.as_ref()));
        }
    }

    /// Returns the names of the DLCs in use; unknown ones as a bit mask.
    fn dlc_names(&self) -> Vec<Value> {
        let bits = (0..16u8).filter(|bit| self.dlcs >> bit & 1 == 1);
        let name = |bit: u8| match (self.difficulty, ARMA_DLCS.get(usize::from(bit))) {
            (Some(_), Some(name)) => Value::from(*name),
            (None, _) if bit == 1 => Value::from(DAYZ_DLC),
            _ => Value::from(alloc::format!("{:#06x}", 1 << bit)),
        };
        bits.map(name).collect()
    }

    fn mod_rows(&self) -> Rows {
        let mut rows = Rows::with_capacity(&MOD_COLUMNS, self.mods.len());
        let mut id = String::new();
        for game_mod in &self.mods {
            id.clear();
            let _ = write!(id, "{}", game_mod.id);
            let hash = hexadecimal(&game_mod.hash.to_be_bytes());
            let known_id = (game_mod.id != 0).then_some(id.as_str());
            rows.push([Some(&*decode(game_mod.name).0), known_id, Some(&*hash)]);
        }
        rows
    }
}

fn read_mod<'a>(r: &mut Reader<'a, '_>) -> Result<Mod<'a>, Error> {
    let hash = r.u32_le("mod hash")?;
    let at = r.at();
    let flags = r.u8("mod flags")?;
    let length = usize::from(flags & 0x0F);
    if length > 8 {
        return Err(Error::bad("mod flags", at, "an id of at most 8 bytes"));
    }
    let id = r.take(length, "mod id")?.iter().rev();
    Ok(Mod {
        hash,
        id: id.fold(0, |id, byte| id << 8 | u64::from(*byte)),
        is_dlc: flags & 0x10 != 0,
        name: text(r, "mod name")?,
    })
}

/// Reads a text after its length.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let length = r.u8(field)?;
    r.take(length.into(), field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// spec/a2s.md#6.1
    #[test]
    fn escapes_are_replaced_once() {
        assert_eq!(unescape(&[1, 1, 2, 1, 2, 1, 3, 7]), [1, 2, 0, 0xFF, 7]);
        assert_eq!(unescape(&[1, 1, 1, 3]), [1, 0xFF]);
        assert_eq!(unescape(&[1, 9, 1]), [1, 9, 1], "unknown escapes are kept");
    }

    #[test]
    fn chunks_are_joined_only_if_all_are_there() {
        let rules: Vec<(&[u8], &[u8])> =
            vec![(&[2, 2], b"b"), (b"island", b"enoch"), (&[1, 2], b"a")];
        assert_eq!(join(&rules), Some((2, b"ab".to_vec())));
        assert_eq!(join(&rules[..2]), None);
        assert_eq!(join(&rules[1..2]), None);
        let other: Vec<(&[u8], &[u8])> = vec![(&[1, 2], b"a"), (&[2, 3], b"b")];
        assert_eq!(join(&other), None);
        // Rules with names of two letters are not chunks.
        assert_eq!(join(&[(b"ab", b"1")]), None);
        let mixed = [rules.as_slice(), &[(b"ab", b"1")]].concat();
        assert_eq!(join(&mixed), Some((2, b"ab".to_vec())));
    }

    #[test]
    fn an_arma_message() {
        let bytes = [
            3, 0, 1, 0, 0x9B, 0, 0x10, 0xC5, 0xA5, 0x58, 1, 0x8F, 0xDA, 0xF9, 0xE8, 0x14, 0x15,
            0xE4, 0xDE, 0x1A, 3, b'm', b'o', b'd', 1, 2, b'a', b'3',
        ];
        let rules = BinaryRules::parse(&bytes, 0).unwrap();
        let game_mod = Mod {
            hash: 0xE8F9_DA8F,
            id: 450_814_997,
            is_dlc: true,
            name: b"mod",
        };
        assert_eq!(rules.mods, [game_mod]);
        assert_eq!((rules.protocol, rules.overflow, rules.dlcs), (3, 0, 1));
        assert_eq!(rules.difficulty, Some((0x9B, 0)));
        assert_eq!(rules.dlc_hashes, [0x58A5_C510]);
        assert_eq!(rules.signatures, [b"a3"]);
        assert_eq!(rules.description, None);
        for end in 0..bytes.len() {
            assert!(
                BinaryRules::parse(&bytes[..end], 0).is_err(),
                "cut to {end}"
            );
        }
        // Only DayZ has a description.
        let more = [&bytes[..], &[1, b'x']].concat();
        assert!(BinaryRules::parse(&more, 0).is_err());
    }

    #[test]
    fn each_mod_has_its_own_row() {
        let game_mod = |id, name| Mod {
            hash: 0xAB,
            id,
            is_dlc: false,
            name,
        };
        let rules = BinaryRules {
            mods: vec![game_mod(12, b"a"), game_mod(0, b"b"), game_mod(345, b"c")],
            ..BinaryRules::default()
        };
        let rows = rules.mod_rows();
        let rows: Vec<Vec<_>> = rows.iter().map(Iterator::collect).collect();
        let hash = ("hash", "000000ab");
        assert_eq!(rows[0], [("name", "a"), ("id", "12"), hash]);
        assert_eq!(rows[1], [("name", "b"), hash]);
        assert_eq!(rows[2], [("name", "c"), ("id", "345"), hash]);
    }

    #[test]
    fn a_dayz_message() {
        let bytes = [
            2, 0, 2, 0, 4, 3, 2, 1, 0, 1, 4, b'd', b'a', b'y', b'z', 2, b'H', b'i',
        ];
        let rules = BinaryRules::parse(&bytes, 0).unwrap();
        assert_eq!(rules.difficulty, None);
        assert_eq!(rules.description, Some(b"Hi".as_slice()));
        assert_eq!(rules.dlc_names(), [Value::from("Frostline")]);
    }

    #[test]
    fn the_game_decides_between_two_possible_layouts() {
        // A signature without a name, in both layouts.
        let both = [2, 0, 0, 0, 0, 1, 0, 1, 0];
        let of = |app_id| BinaryRules::parse(&both, app_id).unwrap();
        assert_eq!(of(107_410).difficulty, Some((0, 1)));
        assert_eq!(of(0), of(107_410));
        assert_eq!(of(DAYZ).difficulty, None);
        assert_eq!(of(DAYZ).description, Some(b"\0".as_slice()));
        // The layout of the other game counts if that of the game does not fit.
        let arma = [3, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        let rules = BinaryRules::parse(&arma, DAYZ).unwrap();
        assert_eq!(rules.difficulty, Some((1, 0)));
        let error = BinaryRules::parse(&arma[..7], DAYZ).unwrap_err();
        assert_eq!((error.field, error.at), ("dlc hash", 4));
    }

    #[test]
    fn ids_have_at_most_8_bytes() {
        let bytes = [
            3, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0,
        ];
        let error = BinaryRules::parse(&bytes, 0).unwrap_err();
        assert_eq!((error.field, error.at), ("mod flags", 11));
    }
}
