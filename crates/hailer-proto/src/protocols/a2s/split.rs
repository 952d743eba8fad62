//! Replies in several datagrams (spec/a2s.md#7).
//!
//! Engines use five layouts. Only the first part shows which one it is, so parts are kept as they
//! arrive until it is there.
//!
//! Limits: 4 open messages, [`MAX_PARTS`] parts each, [`MAX_BYTES`] bytes in total and in a
//! decompressed message. The oldest open message is evicted.

use super::bzip2;
use super::deviation::{SPLIT_COMPRESSED_NO_SIZE, SPLIT_GOLD_SOURCE, SPLIT_NO_SIZE, SPLIT_UNEVEN};
use super::{SINGLE, SPLIT};
use crate::wire::{Error, ErrorKind, Notes, Reader};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

/// Most parts of a message. GoldSource cannot count more than 15.
pub(super) const MAX_PARTS: u8 = 32;
/// Limit for the bytes of all open messages, and for a joined or decompressed one.
pub(super) const MAX_BYTES: usize = 256 << 10;
/// Messages that can be incomplete at the same time.
const MAX_OPEN: usize = 4;
/// Header, id, and one byte.
const SHORTEST_PART: usize = 9;
/// Bit of the id that marks a compressed message, in Source engines.
const COMPRESSED: u32 = 1 << 31;
/// First bytes of compressed data.
const BZIP2_MAGIC: &[u8] = b"BZh";

/// Layout of the header of each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Source engines since 2007: with a size field.
    Source,
    /// Source engines of 2006: without a size field.
    NoSize,
    /// Compressed, with or without a size field.
    Compressed {
        /// Whether the size field is there.
        has_size: bool,
    },
    /// GoldSource: number and total share one byte.
    GoldSource,
}

/// A part of a split message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part<'a> {
    total: u8,
    number: u8,
    /// Length of the datagram.
    length: usize,
    /// Largest payload, if the layout states it.
    size: Option<u16>,
    /// Length and checksum of the decompressed message.
    compressed: Option<(u32, u32)>,
    payload: &'a [u8],
}

impl Layout {
    /// Returns the layout if the datagram is the first part of a message (spec/a2s.md#7.2).
    fn of_first(part: &[u8]) -> Option<Self> {
        let holds = |at: usize, bytes: &[u8]| part.get(at..).is_some_and(|p| p.starts_with(bytes));
        let is_list = |at: usize| matches!(part.get(at), Some(b'D' | b'E'));
        let is_number_0 = part.get(9) == Some(&0);
        let is_gold = part.get(8).is_some_and(|byte| (1..16).contains(byte));
        if is_number_0 && id(part) & COMPRESSED != 0 && holds(18, BZIP2_MAGIC) {
            Some(Self::Compressed { has_size: false })
        } else if is_number_0 && id(part) & COMPRESSED != 0 && holds(20, BZIP2_MAGIC) {
            Some(Self::Compressed { has_size: true })
        } else if is_gold && holds(9, SINGLE) {
            Some(Self::GoldSource)
        } else if is_number_0 && holds(10, SINGLE) {
            Some(Self::NoSize)
        } else if is_number_0 && holds(12, SINGLE) {
            Some(Self::Source)
        } else if is_number_0 && is_list(10) && !is_list(12) {
            // Without the header of the message, its type is there, and no size.
            Some(Self::NoSize)
        } else {
            None
        }
    }

    /// Parses a part and notes a deviation of the layout.
    fn read<'a>(self, r: &mut Reader<'a, '_>) -> Result<Part<'a>, Error> {
        r.constant(SPLIT, "header")?;
        r.u32_le("id")?;
        let at = r.at();
        let (number, total) = if self == Self::GoldSource {
            let [byte] = r.array("number and total")?;
            let number = byte >> 4;
            let total = byte & 15;
            r.note(at, "number and total", || format!("{number} of {total}"));
            (number, total)
        } else {
            let total = r.u8("total")?;
            (r.u8("number")?, total)
        };
        if total > MAX_PARTS {
            let limit = MAX_PARTS.into();
            let kind = ErrorKind::Limit { limit };
            return Err(Error {
                field: "total",
                at,
                kind,
            });
        }
        if number >= total {
            return Err(Error::bad("number", at, "a number below the total"));
        }
        let mut size = None;
        match self {
            Self::Source | Self::Compressed { has_size: true } => size = Some(r.u16_le("size")?),
            Self::Compressed { has_size: false } => {
                r.notes().deviation(&SPLIT_COMPRESSED_NO_SIZE, at);
            }
            Self::NoSize => r.notes().deviation(&SPLIT_NO_SIZE, at),
            Self::GoldSource => r.notes().deviation(&SPLIT_GOLD_SOURCE, at),
        }
        let compressed = match (self, number) {
            (Self::Compressed { .. }, 0) => {
                Some((r.u32_le("decompressed length")?, r.u32_le("checksum")?))
            }
            _ => None,
        };
        let length = r.remaining();
        Ok(Part {
            total,
            number,
            length: r.whole().len(),
            size,
            compressed,
            payload: r.raw(length, "payload")?,
        })
    }
}

fn id(part: &[u8]) -> u32 {
    let bytes = part.get(4..8).and_then(|id| id.try_into().ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

/// The parts received of messages that are not complete.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    open: VecDeque<OpenMessage>,
}

#[derive(Debug)]
struct OpenMessage {
    id: u32,
    /// `None` until the first part arrives.
    layout: Option<Layout>,
    /// The datagrams, in the order of arrival.
    parts: Vec<Vec<u8>>,
}

/// Result of adding a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Assembled {
    /// The same part is here already.
    Duplicate,
    /// More parts are missing.
    Incomplete,
    /// The message is complete.
    Complete(Vec<u8>),
}

impl Assembly {
    /// Adds a part. `fallback` is the layout of messages whose first part shows none.
    ///
    /// # Errors
    ///
    /// Names the field of the part that is invalid or above a limit. The part is dropped; if the
    /// joined message is invalid, all of its parts are dropped.
    pub(super) fn insert(
        &mut self,
        part: &[u8],
        fallback: Layout,
        notes: &mut Notes,
    ) -> Result<Assembled, Error> {
        if part.len() < SHORTEST_PART {
            let need = SHORTEST_PART - part.len();
            let kind = ErrorKind::Short { need };
            return Err(Error {
                field: "header",
                at: part.len(),
                kind,
            });
        }
        let id = id(part);
        let place = self.open.iter().position(|message| message.id == id);
        let mut message = place
            .and_then(|place| self.open.remove(place))
            .unwrap_or(OpenMessage {
                id,
                layout: None,
                parts: Vec::new(),
            });
        if message.parts.iter().any(|known| known == part) {
            self.keep(message);
            return Ok(Assembled::Duplicate);
        }
        message.layout = message.layout.or(Layout::of_first(part));
        message.parts.push(part.to_vec());
        match message.join(fallback, notes) {
            Ok(Some(joined)) => Ok(Assembled::Complete(joined)),
            Ok(None) => {
                self.keep(message);
                Ok(Assembled::Incomplete)
            }
            Err(Broken::Message(error)) => Err(error),
            Err(Broken::Part(place, error)) => {
                message.parts.remove(place);
                if !message.parts.is_empty() {
                    self.keep(message);
                }
                Err(error)
            }
        }
    }

    /// Returns the starts of the incomplete messages, the longest first: their parts before the first
    /// missing one.
    pub(super) fn starts(&self) -> Vec<Vec<u8>> {
        let mut starts: Vec<Vec<u8>> = self.open.iter().filter_map(OpenMessage::start).collect();
        starts.sort_by_key(|start| core::cmp::Reverse(start.len()));
        starts
    }

    /// Keeps an open message as the newest one, and evicts the oldest ones above the limits.
    fn keep(&mut self, message: OpenMessage) {
        self.open.push_back(message);
        while self.open.len() > MAX_OPEN || (self.bytes() > MAX_BYTES && self.open.len() > 1) {
            self.open.pop_front();
        }
    }

    fn bytes(&self) -> usize {
        self.open.iter().map(OpenMessage::bytes).sum()
    }
}

/// Why parts cannot be joined.
enum Broken {
    /// This part is invalid.
    Part(usize, Error),
    /// The message is invalid.
    Message(Error),
}

impl OpenMessage {
    fn bytes(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Returns the payloads before the first missing part, if the first part is here and the message
    /// is not compressed.
    fn start(&self) -> Option<Vec<u8>> {
        let layout = self.layout?;
        if matches!(layout, Layout::Compressed { .. }) {
            return None;
        }
        let read = |bytes: &Vec<u8>| {
            let part = layout.read(&mut Reader::new(bytes, &mut Notes::discarding()));
            part.ok().map(|part| (part.number, part.payload.to_vec()))
        };
        let parts: Vec<(u8, Vec<u8>)> = self.parts.iter().filter_map(read).collect();
        let of = |number: u8| parts.iter().find(|part| part.0 == number);
        let payloads = (0..MAX_PARTS).map_while(of);
        Some(payloads.flat_map(|(_, payload)| payload).copied().collect())
    }

    /// Returns the message if all parts are here. A message whose layout is unknown is joined only
    /// if all parts fit the `fallback`.
    fn join(&self, fallback: Layout, notes: &mut Notes) -> Result<Option<Vec<u8>>, Broken> {
        if self.parts.len() > MAX_PARTS.into() || self.bytes() > MAX_BYTES {
            let limit = MAX_BYTES;
            return Err(Broken::Message(Error::limit("parts", 0, limit)));
        }
        let layout = self.layout.unwrap_or(fallback);
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(self.parts.len());
        let mut met = Notes::default();
        for (place, bytes) in self.parts.iter().enumerate() {
            let part = layout
                .read(&mut Reader::new(bytes, &mut met))
                .and_then(|part| match parts.first() {
                    Some(first) if first.total != part.total => {
                        Err(Error::bad("total", 8, "the total of the other parts"))
                    }
                    _ => Ok(part),
                });
            match part {
                // Another engine's number in a repetition of the same part.
                Ok(part) if parts.iter().any(|known| known.number == part.number) => {}
                Ok(part) => parts.push(part),
                Err(_) if self.layout.is_none() => return Ok(None),
                Err(error) => return Err(Broken::Part(place, error)),
            }
        }
        let total = parts.first().map_or(0, |part| part.total);
        if parts.len() < usize::from(total) {
            return Ok(None);
        }
        for (deviation, at) in met.deviations() {
            notes.deviation(deviation, *at);
        }
        parts.sort_unstable_by_key(|part| part.number);
        let payloads: Vec<&[u8]> = parts.iter().map(|part| part.payload).collect();
        if !is_even(&parts) {
            notes.deviation(&SPLIT_UNEVEN, 0);
        }
        let joined = payloads.concat();
        match parts.first().and_then(|part| part.compressed) {
            Some((length, checksum)) => decompress(&joined, length, checksum)
                .map(Some)
                .map_err(Broken::Message),
            None => Ok(Some(joined)),
        }
    }
}

/// Returns whether all parts are as long as the first, except for a shorter one at the end. The
/// size field is the length of the first payload.
fn is_even(parts: &[Part<'_>]) -> bool {
    let [first, others @ .., last] = parts else {
        return true;
    };
    let is_full = match (first.size, first.compressed) {
        (Some(size), None) => first.payload.len() == usize::from(size),
        _ => true,
    };
    is_full && last.length <= first.length && others.iter().all(|part| part.length == first.length)
}

/// Decompresses a message and checks its length and CRC-32 (spec/a2s.md#7.3).
fn decompress(bytes: &[u8], length: u32, checksum: u32) -> Result<Vec<u8>, Error> {
    let length_at = 10;
    let expected = length as usize;
    if expected > MAX_BYTES {
        let kind = ErrorKind::Limit { limit: MAX_BYTES };
        let field = "decompressed length";
        return Err(Error {
            field,
            at: length_at,
            kind,
        });
    }
    let message = bzip2::decompress(bytes, expected)?;
    if message.len() != expected {
        let expected = "the length of the decompressed data";
        return Err(Error::bad("decompressed length", length_at, expected));
    }
    if bzip2::crc32(&message) != checksum {
        let expected = "the CRC-32 of the decompressed data";
        return Err(Error::bad("checksum", length_at + 4, expected));
    }
    Ok(message)
}

/// Explains one part. Parts other than the first have no sign of their layout, which is then a
/// guess.
pub(super) fn explain(bytes: &[u8], notes: &mut Notes) -> Result<(), Error> {
    let layout = Layout::of_first(bytes).unwrap_or_else(|| guess(bytes));
    layout.read(&mut Reader::new(bytes, notes)).map(drop)
}

fn guess(bytes: &[u8]) -> Layout {
    let [total, number] = [8, 9].map(|at| bytes.get(at).copied().unwrap_or_default());
    let is_gold = total >> 4 > 0 && total >> 4 < total & 15;
    if is_gold && number >= total {
        Layout::GoldSource
    } else if id(bytes) & COMPRESSED != 0 {
        Layout::Compressed { has_size: false }
    } else {
        Layout::Source
    }
}

/// Bits of the ids of Hailer's messages. A client takes bit 15 for the mark of compressed ones
/// (spec/a2s.md#11).
const ID_BITS: u32 = !(COMPRESSED | 1 << 15);

/// Appends part `number` of a message to be split, in the Source layout. Returns `false` if there
/// is no such part.
pub(super) fn write_part(
    message: &[u8],
    id: u32,
    number: usize,
    size: u16,
    out: &mut Vec<u8>,
) -> bool {
    let mut payloads = message.chunks(size.into());
    let total = payloads.len();
    let Some(payload) = payloads.nth(number) else {
        return false;
    };
    out.extend_from_slice(SPLIT);
    out.extend_from_slice(&(id & ID_BITS).to_le_bytes());
    out.extend_from_slice(&[total as u8, number as u8]);
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(payload);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const MESSAGE: &[u8] = b"\xFF\xFF\xFF\xFFE\x02\x00a\x001\x00b\x002\x00";

    fn part(id: u32, header: &[u8], payload: &[u8]) -> Vec<u8> {
        [SPLIT, id.to_le_bytes().as_slice(), header, payload].concat()
    }

    fn insert(assembly: &mut Assembly, part: &[u8]) -> Result<Assembled, Error> {
        assembly.insert(part, Layout::Source, &mut Notes::default())
    }

    fn incomplete(result: &Result<Assembled, Error>) {
        assert_eq!(*result, Ok(Assembled::Incomplete));
    }

    fn complete(result: &Result<Assembled, Error>) {
        assert_eq!(*result, Ok(Assembled::Complete(MESSAGE.to_vec())));
    }

    /// Both halves of the message in each layout without compression.
    fn halves() -> [(Layout, [Vec<u8>; 2]); 3] {
        let (first, second) = MESSAGE.split_at(7);
        let both = |headers: [&[u8]; 2]| {
            let [a, b] = headers;
            [part(7, a, first), part(7, b, second)]
        };
        [
            (Layout::Source, both([&[2, 0, 0xE0, 4], &[2, 1, 0xE0, 4]])),
            (Layout::NoSize, both([&[2, 0], &[2, 1]])),
            (Layout::GoldSource, both([&[0x02], &[0x12]])),
        ]
    }

    #[test]
    fn later_parts_and_parts_of_nothing_are_not_first() {
        for number_and_total in [0x12, 0x20, 0x00] {
            let part = part(7, &[number_and_total], MESSAGE);
            assert_eq!(Layout::of_first(&part), None, "{number_and_total:#04x}");
        }
        for (header, payload) in [
            (&[2, 1][..], MESSAGE),
            (&[2, 1, 0xE0, 4], MESSAGE),
            (&[2, 0], &MESSAGE[1..]),
            (&[2, 0, 0xE0, 4], &MESSAGE[1..]),
        ] {
            let part = part(7, header, payload);
            assert_eq!(Layout::of_first(&part), None, "{header:02x?}");
        }
    }

    #[test]
    fn the_first_of_two_parts_with_one_number_counts() {
        let (first, second) = MESSAGE.split_at(7);
        let mut assembly = Assembly::default();
        incomplete(&insert(&mut assembly, &part(7, &[2, 0, 0xE0, 4], first)));
        let other = part(7, &[2, 0, 0xE0, 4], b"\xFF\xFF\xFF\xFFD");
        incomplete(&insert(&mut assembly, &other));
        complete(&insert(&mut assembly, &part(7, &[2, 1, 0xE0, 4], second)));
    }

    #[test]
    fn parts_in_any_order_in_each_layout() {
        for (layout, [first, second]) in halves() {
            assert_eq!(Layout::of_first(&first), Some(layout));
            assert_eq!(Layout::of_first(&second), None, "{layout:?}");
            for [a, b] in [[&first, &second], [&second, &first]] {
                let mut assembly = Assembly::default();
                incomplete(&insert(&mut assembly, a));
                assert_eq!(insert(&mut assembly, a), Ok(Assembled::Duplicate));
                complete(&insert(&mut assembly, b));
                assert!(assembly.open.is_empty());
            }
        }
    }

    #[test]
    fn only_marked_messages_are_compressed() {
        // The mark of bzip2 is where compressed messages have it, with and without a size field.
        for (header, has_size) in [(&[2, 0][..], false), (&[2, 0, 0xE0, 4], true)] {
            let payload = [SINGLE, b"....", BZIP2_MAGIC].concat();
            let of = |id| Layout::of_first(&part(id, header, &payload));
            let plain = if has_size {
                Layout::Source
            } else {
                Layout::NoSize
            };
            assert_eq!(of(7), Some(plain));
            assert_eq!(of(COMPRESSED | 7), Some(Layout::Compressed { has_size }));
        }
    }

    #[test]
    fn the_layout_of_later_parts_is_a_guess() {
        for (header, layout) in [
            (&[0x12, 0xFF][..], Layout::GoldSource),
            (&[0x12, 0x12], Layout::GoldSource),
            (&[0x12, 0x11], Layout::Source),
            (&[0x22, 0xFF], Layout::Source),
            (&[0x42, 0xFF], Layout::Source),
            (&[0x02, 0xFF], Layout::Source),
        ] {
            assert_eq!(guess(&part(7, header, b"x")), layout, "{header:02x?}");
        }
        let compressed = Layout::Compressed { has_size: false };
        assert_eq!(guess(&part(COMPRESSED, &[2, 1], b"x")), compressed);
    }

    #[test]
    fn messages_arrive_interleaved() {
        let parts = |id: u32| {
            let (first, second) = MESSAGE.split_at(9);
            [
                part(id, &[2, 0, 0, 5], first),
                part(id, &[2, 1, 0, 5], second),
            ]
        };
        let mut assembly = Assembly::default();
        for id in 0..4 {
            incomplete(&insert(&mut assembly, &parts(id)[0]));
        }
        for id in (0..4).rev() {
            complete(&insert(&mut assembly, &parts(id)[1]));
        }
        // A fifth one evicts the first.
        for id in 0..5 {
            incomplete(&insert(&mut assembly, &parts(id)[0]));
        }
        incomplete(&insert(&mut assembly, &parts(0)[1]));
        complete(&insert(&mut assembly, &parts(4)[1]));
    }

    #[test]
    fn a_message_without_inner_header_needs_the_fallback() {
        let (first, second) = MESSAGE[4..].split_at(5);
        for (fallback, headers) in [
            (Layout::Source, [&[2, 0, 0xE0, 4][..], &[2, 1, 0xE0, 4]]),
            (Layout::Source, [&[2, 0, b'E', 4], &[2, 1, b'E', 4]]),
            (Layout::GoldSource, [&[0x02], &[0x12]]),
            // The type of the list shows that there is no size.
            (Layout::Source, [&[2, 0], &[2, 1]]),
        ] {
            let [a, b] = [part(9, headers[0], first), part(9, headers[1], second)];
            let mut assembly = Assembly::default();
            let mut notes = Notes::default();
            let result = assembly.insert(&b, fallback, &mut notes);
            assert_eq!(result, Ok(Assembled::Incomplete));
            let result = assembly.insert(&a, fallback, &mut notes);
            assert_eq!(result, Ok(Assembled::Complete(MESSAGE[4..].to_vec())));
        }
    }

    #[test]
    fn numbers_and_totals_are_checked() {
        let first = part(7, &[2, 0, 0xE0, 4], MESSAGE);
        for (header, field) in [
            ([33, 1, 0xE0, 4], "total"),
            ([3, 1, 0xE0, 4], "total"),
            ([2, 2, 0xE0, 4], "number"),
            ([0, 0, 0xE0, 4], "number"),
        ] {
            let mut assembly = Assembly::default();
            incomplete(&insert(&mut assembly, &first));
            let error = insert(&mut assembly, &part(7, &header, b"x")).unwrap_err();
            assert_eq!(error.field, field, "{header:?}");
            assert_eq!(error.at, 8);
            let rest = part(7, &[2, 1, 0xE0, 4], b"");
            complete(&insert(&mut assembly, &rest));
        }
        let huge = part(7, &[255, 0, 0xE0, 4], MESSAGE);
        let error = insert(&mut Assembly::default(), &huge).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit { limit: 32 });
        let short = &first[..8];
        let error = insert(&mut Assembly::default(), short).unwrap_err();
        assert_eq!((error.at, error.kind), (8, ErrorKind::Short { need: 1 }));
    }

    #[test]
    fn memory_is_bounded() {
        let mut assembly = Assembly::default();
        let long = vec![0x41; 60_000];
        for id in 0..100u32 {
            for number in 1..32 {
                let part = part(id, &[32, number, 0, 5], &long);
                let _ = insert(&mut assembly, &part);
                let parts = assembly.open.iter().flat_map(|open| &open.parts);
                assert!(parts.map(Vec::len).sum::<usize>() <= MAX_BYTES);
                assert!(assembly.open.len() <= MAX_OPEN);
            }
        }
        // Two messages fill the limit. A third one evicts the first.
        let mut assembly = Assembly::default();
        let eighth = vec![0x41; MAX_BYTES / 8 - 12];
        for id in 0..3 {
            for number in 1..=4 {
                incomplete(&insert(
                    &mut assembly,
                    &part(id, &[32, number, 0, 5], &eighth),
                ));
            }
            let open: Vec<u32> = assembly.open.iter().map(|open| open.id).collect();
            assert_eq!(open, [&[0][..], &[0, 1], &[1, 2]][id as usize]);
        }
        // Many different datagrams with the same number.
        let mut assembly = Assembly::default();
        for byte in 0..=255 {
            let _ = insert(&mut assembly, &part(5, &[32, 1, 0, 5], &[byte]));
            let parts: usize = assembly.open.iter().map(|open| open.parts.len()).sum();
            assert!(parts <= MAX_PARTS.into());
        }
    }

    #[test]
    fn our_parts_join() {
        let message: Vec<u8> = MESSAGE.iter().copied().cycle().take(3_000).collect();
        let mut assembly = Assembly::default();
        let mut last = Ok(Assembled::Incomplete);
        for number in 0..3 {
            incomplete(&last);
            let mut out = Vec::new();
            assert!(write_part(&message, u32::MAX, number, 1_248, &mut out));
            assert!(out.len() <= 1_260);
            assert_eq!(out[4..8], [0xFF, 0x7F, 0xFF, 0x7F]);
            last = insert(&mut assembly, &out);
        }
        assert_eq!(last, Ok(Assembled::Complete(message.clone())));
        assert!(!write_part(&message, 1, 3, 1_248, &mut Vec::new()));
    }

    fn compressed(length: u32, checksum: u32, data: &[u8]) -> Vec<u8> {
        let mut header = vec![1, 0];
        header.extend(length.to_le_bytes());
        header.extend(checksum.to_le_bytes());
        part(0x8000_0007, &header, data)
    }

    #[test]
    fn compressed_messages_must_match_length_and_checksum() {
        let data = bzip2::SAMPLE;
        let message = bzip2::decompress(data, 100).unwrap();
        let length = message.len() as u32;
        let checksum = bzip2::crc32(&message);
        let good = compressed(length, checksum, data);
        let result = insert(&mut Assembly::default(), &good);
        assert_eq!(result, Ok(Assembled::Complete(message.clone())));
        // With a size field, which no captured server sends.
        let mut sized = good;
        sized.splice(10..10, [0xE0, 4]);
        let result = insert(&mut Assembly::default(), &sized);
        assert_eq!(result, Ok(Assembled::Complete(message)));
        for (length, checksum, field) in [
            (length + 1, checksum, "decompressed length"),
            (length - 1, checksum, "compressed data"),
            (u32::MAX, checksum, "decompressed length"),
            (length, checksum ^ 1, "checksum"),
        ] {
            let part = compressed(length, checksum, data);
            let error = insert(&mut Assembly::default(), &part).unwrap_err();
            assert_eq!(error.field, field);
        }
        // The largest length is legal, so the data is the problem.
        let largest = compressed(MAX_BYTES as u32, checksum, data);
        let error = insert(&mut Assembly::default(), &largest).unwrap_err();
        assert!(!matches!(error.kind, ErrorKind::Limit { .. }), "{error}");
        let above = compressed(MAX_BYTES as u32 + 1, checksum, data);
        let error = insert(&mut Assembly::default(), &above).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Limit { .. }), "{error}");
        // In two parts: the second has neither length nor checksum.
        let (first, second) = data.split_at(20);
        let mut first = compressed(length, checksum, first);
        first[8] = 2;
        let mut assembly = Assembly::default();
        incomplete(&insert(&mut assembly, &part(0x8000_0007, &[2, 1], second)));
        let result = insert(&mut assembly, &first);
        assert!(matches!(result, Ok(Assembled::Complete(_))), "{result:?}");
    }
}
