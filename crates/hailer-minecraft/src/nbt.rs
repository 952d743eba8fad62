//! NBT (named binary tags), as carried by slots and by packet 0x84 (spec/minecraft-12w.md#4.6).
//!
//! The tree type comes from [`valence_nbt`], whose parser is recursive and allocates while it
//! reads. For that reason, a non-recursive check runs first. It compares every type and length with
//! the available bytes, limits the depth and the number of tags, and reports the offset of an
//! error.
//!
//! Limits: 1 MiB after inflation ([`MAX_INFLATED`]), 512 levels ([`MAX_DEPTH`]) and 65,536 tags
//! ([`MAX_TAGS`]).

use flate2::{Compression, GzBuilder, bufread::GzDecoder};
use hailer_proto::wire::{Error, ErrorKind, Notes, Reader};
use std::fmt::{self, Write};
use std::io::{self, Read};
use valence_nbt::value::ValueRef;

pub use valence_nbt::{Compound, List, Value, compound};

/// Maximum inflated size that [`decode`] accepts, in bytes. A packet carries at most 32,767 bytes
/// of gzip. The largest legitimate content, a written book, is below 64 KiB. Later versions of
/// Minecraft use 2 MiB.
pub const MAX_INFLATED: usize = 1 << 20;

/// Maximum depth of nested compounds and lists, including the root. Later versions of Minecraft use
/// the same limit.
pub const MAX_DEPTH: usize = 512;

/// Maximum number of tags, excluding the elements of number lists. One byte on the wire can take 72
/// bytes in memory (an empty compound in a list), so this limits memory to a few megabytes.
pub const MAX_TAGS: usize = 1 << 16;

/// Default number of displayed characters. A precision overrides it: `{:.80}` shows 80.
pub const MAX_TEXT: usize = 512;

/// Root compound and its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nbt {
    /// Name of the root, usually empty.
    pub name: String,
    /// Content in wire order.
    pub root: Compound,
}

/// Decodes one named compound, compressed with gzip (RFC 1952) or uncompressed
/// (spec/minecraft-12w.md#4.1), of at most [`MAX_INFLATED`] bytes.
///
/// Offsets in errors count from the first byte of the compound. For the fields "gzip" and "end of
/// gzip" they count from the first byte of `bytes`.
///
/// # Errors
///
/// The gzip stream is invalid, incomplete or followed by more bytes, or the compound is invalid or
/// exceeds a limit.
pub fn decode(bytes: &[u8]) -> Result<Nbt, Error> {
    decode_within(bytes, MAX_INFLATED)
}

/// Decodes like [`decode`], with a different limit in bytes.
///
/// # Errors
///
/// As for [`decode`].
pub fn decode_within(bytes: &[u8], limit: usize) -> Result<Nbt, Error> {
    let inflated;
    let bytes = if bytes.starts_with(&[0x1F, 0x8B]) {
        inflated = gunzip(bytes, limit)?;
        &inflated
    } else if bytes.len() > limit {
        return Err(Error {
            field: "NBT",
            at: limit,
            kind: ErrorKind::Limit { limit },
        });
    } else {
        bytes
    };
    let mut notes = Notes::discarding();
    let mut reader = Reader::new(bytes, &mut notes);
    walk(&mut reader)?;
    reader.end()?;
    let mut rest = bytes;
    // After the walk, only the content of a string can still be invalid.
    let parsed = valence_nbt::from_binary::<String>(&mut rest);
    let (root, name) =
        parsed.map_err(|_| Error::bad("string", bytes.len() - rest.len(), "modified UTF-8"))?;
    Ok(Nbt { name, root })
}

/// Encodes and compresses with gzip, as vanilla does (spec/minecraft-12w.md#4.1). The result may be
/// longer than a packet can carry (32,767 bytes); the packet checks that.
///
/// # Errors
///
/// A string is longer than 65,535 bytes.
pub fn encode(nbt: &Nbt) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    valence_nbt::to_binary(&nbt.root, &mut bytes, &nbt.name).map_err(|_| {
        Error::bad(
            "string",
            bytes.len(),
            "at most 65535 bytes of modified UTF-8",
        )
    })?;
    let mut out = Vec::new();
    // Java writes 0 as the operating system. Compressing a slice into a vector cannot fail.
    let _ = GzBuilder::new()
        .operating_system(0)
        .read(bytes.as_slice(), Compression::default())
        .read_to_end(&mut out);
    Ok(out)
}

fn gunzip(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let mut rest = bytes;
    let mut out = Vec::new();
    // Read one byte more than the limit, to detect longer data.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let read = GzDecoder::new(&mut rest).take(most).read_to_end(&mut out);
    let at = bytes.len() - rest.len();
    let kind = match read {
        _ if out.len() > limit => ErrorKind::Limit { limit },
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => ErrorKind::Short { need: 1 },
        Err(_) => ErrorKind::Bad("a gzip stream"),
        Ok(_) if rest.is_empty() => return Ok(out),
        Ok(_) => {
            return Err(Error {
                field: "end of gzip",
                at,
                kind: ErrorKind::Leftover { count: rest.len() },
            });
        }
    };
    Err(Error {
        field: "gzip",
        at,
        kind,
    })
}

const END: u8 = 0;
const COMPOUND: u8 = 10;

/// A compound or list that the walk has entered.
enum Open {
    Compound,
    List { element: u8, left: usize },
}

/// Checks a whole named compound without recursion. Only the open compounds and lists take memory.
fn walk(reader: &mut Reader) -> Result<(), Error> {
    if reader.u8("root type")? != COMPOUND {
        return Err(Error::bad("root type", 0, "10, a compound"));
    }
    skip_string(reader, "root name")?;
    let mut open = vec![Open::Compound];
    let mut tags = 0;
    while let Some(inside) = open.last_mut() {
        let mut at = reader.at();
        let tag = match inside {
            Open::List { left: 0, .. } => {
                open.pop();
                continue;
            }
            Open::List { element, left } => {
                *left -= 1;
                *element
            }
            Open::Compound => match reader.u8("tag type")? {
                END => {
                    open.pop();
                    continue;
                }
                tag => {
                    least(tag).ok_or(Error::bad("tag type", at, TYPES))?;
                    skip_string(reader, "tag name")?;
                    tag
                }
            },
        };
        tags += 1;
        if tags > MAX_TAGS {
            return Err(Error {
                field: "number of tags",
                at,
                kind: ErrorKind::Limit { limit: MAX_TAGS },
            });
        }
        at = reader.at();
        match tag {
            1..=6 => reader.take(least(tag).unwrap_or(0), "number").map(drop)?,
            7 => skip_array(reader, 1, "byte array length", "byte array")?,
            8 => skip_string(reader, "string")?,
            11 => skip_array(reader, 4, "int array length", "int array")?,
            _ => {
                let inside = if tag == COMPOUND {
                    Open::Compound
                } else {
                    list(reader)?
                };
                if open.len() == MAX_DEPTH {
                    return Err(Error {
                        field: "nesting",
                        at,
                        kind: ErrorKind::Limit { limit: MAX_DEPTH },
                    });
                }
                open.push(inside);
            }
        }
    }
    Ok(())
}

const TYPES: &str = "a type from 1 to 11";

/// Returns the minimum size of a tag of this type without its name, in bytes. For numbers this is
/// the exact size.
fn least(tag: u8) -> Option<usize> {
    Some(match tag {
        1 | COMPOUND => 1,
        2 | 8 => 2,
        3 | 5 | 7 | 11 => 4,
        4 | 6 => 8,
        9 => 5,
        _ => return None,
    })
}

/// Reads the head of a list. Skips all elements of a number list in one step.
fn list(reader: &mut Reader) -> Result<Open, Error> {
    let at = reader.at();
    let element = reader.u8("list type")?;
    let length_at = reader.at();
    let left = length(reader, "list length")?;
    let least = match least(element) {
        Some(least) => least,
        None if element == END && left == 0 => 0,
        None if element == END => {
            return Err(Error::bad(
                "list length",
                length_at,
                "0 in a list without a type",
            ));
        }
        None => return Err(Error::bad("list type", at, TYPES)),
    };
    let claimed = left.saturating_mul(least);
    if claimed > reader.remaining() {
        let need = claimed - reader.remaining();
        return Err(Error {
            field: "list",
            at: reader.at(),
            kind: ErrorKind::Short { need },
        });
    }
    if let 1..=6 = element {
        reader.take(claimed, "list")?;
        return Ok(Open::List { element, left: 0 });
    }
    Ok(Open::List { element, left })
}

fn skip_array(
    reader: &mut Reader,
    width: usize,
    length_field: &'static str,
    field: &'static str,
) -> Result<(), Error> {
    let count = length(reader, length_field)?;
    reader.take(count.saturating_mul(width), field).map(drop)
}

fn skip_string(reader: &mut Reader, field: &'static str) -> Result<(), Error> {
    let length = u16::from_be_bytes(reader.array(field)?);
    reader.take(length.into(), field).map(drop)
}

fn length(reader: &mut Reader, field: &'static str) -> Result<usize, Error> {
    let at = reader.at();
    let length = i32::from_be_bytes(reader.array(field)?);
    usize::try_from(length).map_err(|_| Error::bad(field, at, "a length from 0"))
}

/// One line of text, close to the text format of later Minecraft versions:
/// `{ench:[{id:32s,lvl:4s}]}`. Control characters are escaped. Text longer than the format's
/// precision, or [`MAX_TEXT`] by default, is cut and ends in `…`.
impl fmt::Display for Nbt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = f.precision().unwrap_or(MAX_TEXT);
        let mut out = CharLimit {
            out: f,
            left,
            is_full: false,
        };
        let written = if self.name.is_empty() {
            Ok(())
        } else {
            key(&mut out, &self.name)
        };
        let written = written.and_then(|()| compound_text(&mut out, &self.root));
        if out.is_full {
            f.write_str("…")
        } else {
            written
        }
    }
}

/// Passes on the first `left` characters, then fails, which stops a writer early.
struct CharLimit<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    left: usize,
    is_full: bool,
}

impl Write for CharLimit<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.left == 0 {
                self.is_full = true;
                return Err(fmt::Error);
            }
            self.left -= 1;
            self.out.write_char(c)?;
        }
        Ok(())
    }
}

// Each level writes a bracket before it descends, so the cut limits the recursion too.
fn value_text(out: &mut CharLimit, value: &ValueRef) -> fmt::Result {
    match *value {
        ValueRef::Byte(n) => write!(out, "{n}b"),
        ValueRef::Short(n) => write!(out, "{n}s"),
        ValueRef::Int(n) => write!(out, "{n}"),
        ValueRef::Long(n) => write!(out, "{n}L"),
        ValueRef::Float(n) => write!(out, "{n}f"),
        ValueRef::Double(n) => write!(out, "{n}d"),
        ValueRef::ByteArray(bytes) => sequence(out, "[B;", bytes, |out, n| write!(out, "{n}")),
        ValueRef::IntArray(ints) => sequence(out, "[I;", ints, |out, n| write!(out, "{n}")),
        ValueRef::LongArray(longs) => sequence(out, "[L;", longs, |out, n| write!(out, "{n}")),
        ValueRef::String(text) => write!(out, "\"{}\"", text.escape_debug()),
        ValueRef::List(list) => sequence(out, "[", list, |out, value| value_text(out, &value)),
        ValueRef::Compound(compound) => compound_text(out, compound),
    }
}

fn compound_text(out: &mut CharLimit, compound: &Compound) -> fmt::Result {
    out.write_char('{')?;
    for (i, (name, value)) in compound.iter().enumerate() {
        if i > 0 {
            out.write_char(',')?;
        }
        key(out, name)?;
        value_text(out, &value.as_value_ref())?;
    }
    out.write_char('}')
}

fn key(out: &mut CharLimit, name: &str) -> fmt::Result {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        write!(out, "{name}:")
    } else {
        write!(out, "\"{}\":", name.escape_debug())
    }
}

fn sequence<T>(
    out: &mut CharLimit,
    head: &str,
    items: impl IntoIterator<Item = T>,
    item: impl Fn(&mut CharLimit, T) -> fmt::Result,
) -> fmt::Result {
    out.write_str(head)?;
    for (i, value) in items.into_iter().enumerate() {
        if i > 0 {
            out.write_char(',')?;
        }
        item(out, value)?;
    }
    out.write_char(']')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::testing::hex;
    use proptest::prelude::*;

    /// Tag of the pickaxe in spec/minecraft-12w.md#9.
    const PICKAXE: &str = "1F8B0800000000000203E36260E0646049CD4BCEE062606060646260CA4C6150606260CE29CB616061600000EB37EC0D20000000";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        GzBuilder::new()
            .read(bytes, Compression::default())
            .read_to_end(&mut out)
            .unwrap();
        out
    }

    fn sample() -> Nbt {
        let root = compound! {
            "byte" => -1_i8,
            "short" => 2_i16,
            "int" => 3_i32,
            "long" => 4_i64,
            "float" => 0.5_f32,
            "double" => -0.25_f64,
            "bytes" => vec![1_i8, -2],
            "ints" => vec![1_i32, -2],
            "a\nkey" => "nul \0, emoji \u{1F600}, quote \", escape \u{1B}[2J",
            "none" => List::End,
            "no compounds" => List::Compound(vec![]),
            "shorts" => List::Short(vec![1, 2]),
            "arrays" => List::ByteArray(vec![vec![1], vec![]]),
            "lists" => List::List(vec![List::End, List::Int(vec![7])]),
            "pages" => List::String(vec!["one".into(), "two".into()]),
            "ench" => List::Compound(vec![compound! { "id" => 32_i16, "lvl" => 4_i16 }, Compound::new()]),
        };
        Nbt {
            name: "root".into(),
            root,
        }
    }

    fn raw(nbt: &Nbt) -> Vec<u8> {
        let mut bytes = Vec::new();
        valence_nbt::to_binary(&nbt.root, &mut bytes, &nbt.name).unwrap();
        bytes
    }

    #[test]
    fn the_pickaxe_of_the_page() {
        let nbt = decode(&hex(PICKAXE)).unwrap();
        assert_eq!(nbt.to_string(), "{ench:[{id:32s,lvl:4s}]}");
        assert_eq!(
            nbt.root,
            compound! { "ench" => List::Compound(vec![compound! { "id" => 32_i16, "lvl" => 4_i16 }]) }
        );
        assert_eq!(nbt.name, "");
    }

    #[test]
    fn everything_survives_a_round_trip() {
        let nbt = sample();
        let bytes = encode(&nbt).unwrap();
        assert_eq!(
            bytes[..10],
            [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0],
            "the head that Java writes"
        );
        assert_eq!(decode(&bytes).unwrap(), nbt);
        assert_eq!(decode(&raw(&nbt)).unwrap(), nbt, "bare");
        assert_eq!(
            encode(&decode(&bytes).unwrap()).unwrap(),
            bytes,
            "order is kept"
        );
        assert_eq!(
            decode(&encode(&Nbt::default()).unwrap()).unwrap(),
            Nbt::default()
        );
    }

    #[test]
    fn text_is_for_people() {
        assert_eq!(
            sample().to_string(),
            "root:{byte:-1b,short:2s,int:3,long:4L,float:0.5f,double:-0.25d,bytes:[B;1,-2],ints:[I;1,-2],\
             \"a\\nkey\":\"nul \\0, emoji \u{1F600}, quote \\\", escape \\u{1b}[2J\",none:[],\"no compounds\":[],\
             shorts:[1s,2s],arrays:[[B;1],[B;]],lists:[[],[7]],pages:[\"one\",\"two\"],ench:[{id:32s,lvl:4s},{}]}"
        );
        assert_eq!(format!("{:.9}", sample()), "root:{byt…");
        assert_eq!(format!("{:.2}", Nbt::default()), "{}");
        let long = Nbt {
            root: compound! { "x" => vec![0_i8; 1 << 20] },
            ..Nbt::default()
        };
        assert_eq!(long.to_string().chars().count(), MAX_TEXT + 1);
    }

    #[test]
    fn truncation_anywhere_is_an_error() {
        let bare = raw(&sample());
        let zipped = encode(&sample()).unwrap();
        for n in 0..bare.len() {
            let error = decode(&bare[..n]).unwrap_err();
            assert!(
                matches!(error.kind, ErrorKind::Short { need } if need > 0),
                "{n}: {error}"
            );
            assert!(error.at <= n);
        }
        for n in 0..zipped.len() {
            assert!(decode(&zipped[..n]).is_err(), "{n}");
        }
        let longer = |bytes: &[u8]| decode(&[bytes, &[0]].concat()).unwrap_err();
        assert_eq!(longer(&bare).kind, ErrorKind::Leftover { count: 1 });
        assert_eq!(
            (longer(&zipped).field, longer(&zipped).kind),
            ("end of gzip", ErrorKind::Leftover { count: 1 })
        );
    }

    #[test]
    fn names_the_error() {
        let cases = [
            ("", "root type at offset 0: ends 1 byte too early"),
            (
                "09 0000 01 00000000",
                "root type at offset 0: expected 10, a compound",
            ),
            (
                "0A 0000 0C 0000 00000000 00",
                "tag type at offset 3: expected a type from 1 to 11",
            ),
            (
                "0A 0000 09 0000 0C 00000000 00",
                "list type at offset 6: expected a type from 1 to 11",
            ),
            (
                "0A 0000 09 0000 00 00000001 00",
                "list length at offset 7: expected 0 in a list without a type",
            ),
            (
                "0A 0000 09 0000 01 FFFFFFFF 00",
                "list length at offset 7: expected a length from 0",
            ),
            (
                "0A 0000 07 0000 80000000 00",
                "byte array length at offset 6: expected a length from 0",
            ),
            (
                "0A 0000 08 0000 0001 FF 00",
                "string at offset 8: expected modified UTF-8",
            ),
            (
                "0A 0001 FF 00",
                "string at offset 3: expected modified UTF-8",
            ),
            ("1F8B 08 FF", "gzip at offset 4: ends 1 byte too early"),
            (
                "1F8B 09 00 00000000 0000 0000",
                "gzip at offset 10: expected a gzip stream",
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(
                decode(&hex(&bytes.replace(' ', "")))
                    .unwrap_err()
                    .to_string(),
                expected,
                "{bytes}"
            );
        }
        let mut broken = hex(PICKAXE);
        let crc = broken.len() - 5;
        broken[crc] ^= 1;
        assert_eq!(
            decode(&broken).unwrap_err().kind,
            ErrorKind::Bad("a gzip stream")
        );
        let long = Nbt {
            name: "x".repeat(1 << 16),
            ..Nbt::default()
        };
        assert_eq!(encode(&long).unwrap_err().field, "string");
    }

    #[test]
    fn claimed_lengths_allocate_nothing() {
        for element in 1..=11 {
            let bytes = [
                &[10, 0, 0, 9, 0, 0, element, 0x7F, 0xFF, 0xFF, 0xFF][..],
                &[0; 100],
            ]
            .concat();
            let error = decode(&gzip(&bytes)).unwrap_err();
            assert!(
                matches!(error.kind, ErrorKind::Short { .. }),
                "{element}: {error}"
            );
            assert_eq!((error.field, error.at), ("list", 11));
        }
        for array in [7, 11] {
            let bytes = [10, 0, 0, array, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF, 0];
            assert!(matches!(
                decode(&bytes).unwrap_err().kind,
                ErrorKind::Short { .. }
            ));
        }
    }

    #[test]
    fn bombs_stop_at_a_limit() {
        let zeros = gzip(&vec![0; 64 << 20]);
        assert_eq!(
            decode(&zeros).unwrap_err().kind,
            ErrorKind::Limit {
                limit: MAX_INFLATED
            }
        );
        let bare = raw(&sample());
        assert_eq!(
            decode_within(&bare, bare.len() - 1).unwrap_err().kind,
            ErrorKind::Limit {
                limit: bare.len() - 1
            }
        );
        let zipped = encode(&sample()).unwrap();
        assert_eq!(
            decode_within(&zipped, bare.len() - 1).unwrap_err().kind,
            ErrorKind::Limit {
                limit: bare.len() - 1
            }
        );
        assert!(
            decode_within(&bare, bare.len()).is_ok() && decode_within(&zipped, bare.len()).is_ok()
        );
        // A list of a million empty compounds would take 72 MB in memory.
        let mut many = vec![10, 0, 0, 9, 0, 0, 10, 0, 0x0F, 0x42, 0x40];
        many.resize(11 + 1_000_001, 0);
        assert_eq!(
            decode(&many).unwrap_err().kind,
            ErrorKind::Limit { limit: MAX_TAGS }
        );
    }

    /// Returns `depth` nested lists or compounds, including the root.
    fn nested(depth: usize, lists: bool) -> Vec<u8> {
        let mut bytes = vec![10, 0, 0];
        if lists {
            bytes.extend([9, 0, 0]);
            (2..depth).for_each(|_| bytes.extend([9, 0, 0, 0, 1]));
            bytes.extend([0, 0, 0, 0, 0, 0]);
        } else {
            (1..depth).for_each(|_| bytes.extend([10, 0, 0]));
            bytes.resize(bytes.len() + depth, 0);
        }
        bytes
    }

    #[test]
    fn depth_is_bounded_without_recursion() {
        for lists in [false, true] {
            let deepest = decode(&nested(MAX_DEPTH, lists)).unwrap();
            assert_eq!(deepest, decode(&encode(&deepest).unwrap()).unwrap());
            assert!(deepest.to_string().ends_with('…'));
            for depth in [MAX_DEPTH + 1, 1_000_000] {
                let bytes = gzip(&nested(depth, lists));
                assert!(bytes.len() < 1 << 15, "fits into a packet");
                let error = decode_within(&bytes, 64 << 20).unwrap_err();
                assert_eq!(
                    (error.field, error.kind),
                    ("nesting", ErrorKind::Limit { limit: MAX_DEPTH })
                );
            }
        }
        // The innermost list may declare lists as elements if it has none.
        let mut bytes = nested(MAX_DEPTH, true);
        let element = bytes.len() - 6;
        bytes[element] = 9;
        assert!(decode(&bytes).is_ok());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
            let _ = decode(&[&[0x1F, 0x8B, 8, 0], &bytes[..]].concat());
        }

        /// The crate can read everything that the walk accepts, except for invalid strings.
        #[test]
        fn walk_is_as_strict_as_the_crate(at: prop::sample::Index, byte: u8) {
            let mut bytes = raw(&sample());
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut notes = Notes::discarding();
            let mut reader = Reader::new(&bytes, &mut notes);
            let walked = walk(&mut reader).and_then(|()| reader.end());
            let mut rest = &bytes[..];
            let parsed = valence_nbt::from_binary::<String>(&mut rest);
            match (walked, parsed) {
                (Ok(()), Err(error)) => prop_assert!(error.to_string().contains("UTF-8"), "{}", error),
                (Err(error), Ok(_)) => prop_assert!(!rest.is_empty() || error.field.ends_with("type"), "{}", error),
                _ => {}
            }
        }
    }
}
