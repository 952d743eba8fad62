//! Bytes ⇄ packets. The only file that knows their layout (spec/battlefield.md#2).
//!
//! Limits: packets of 16 KiB, 4,096 words of a packet, 1,024 bytes of a word.

use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, Writer, by_content};
use alloc::format;
use alloc::vec::Vec;

/// Bytes of a packet before its words.
pub const HEADER_BYTES: usize = 12;
/// Longest packet in bytes.
pub const MAX_BYTES: usize = 16 << 10;
/// Largest number of words.
const MAX_WORDS: usize = 4_096;
/// Longest word in bytes.
const MAX_WORD: usize = 1_024;
/// Bit of a packet that belongs to a command of the server: an event.
pub const FROM_SERVER: u32 = 1 << 31;
/// Bit of a reply.
pub const REPLY: u32 = 1 << 30;
/// Bits of the sequence number.
pub const SEQUENCE: u32 = REPLY - 1;

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Sequence number and the two highest bits.
    pub header: u32,
    /// Words.
    pub words: Vec<&'a [u8]>,
}

/// Returns the length of the packet that starts the bytes. `None` if the bytes end before it.
///
/// # Errors
///
/// The length is that of no packet.
pub fn packet_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(size) = bytes.get(4..8).and_then(<[u8]>::first_chunk) else {
        return Ok(None);
    };
    let size = u32::from_le_bytes(*size) as usize;
    if !(HEADER_BYTES..=MAX_BYTES).contains(&size) {
        return Err(Error::bad("packet size", 4, "12 to 16,384"));
    }
    Ok(Some(size))
}

impl<'a> Packet<'a> {
    /// Reads the next packet.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or invalid, with its offset.
    pub fn read(r: &mut Reader<'a, '_>) -> Result<Self, Error> {
        let start = r.at();
        let header = r.u32_le("header")?;
        let size = r.u32_le("packet size")? as usize;
        if !(HEADER_BYTES..=MAX_BYTES).contains(&size) {
            return Err(Error::bad("packet size", start + 4, "12 to 16,384"));
        }
        let at = r.at();
        let count = r.u32_le("number of words")? as usize;
        if count > MAX_WORDS {
            return Err(Error::limit("number of words", at, MAX_WORDS));
        }
        let mut words = Vec::new();
        for index in 0..count {
            r.notes().group("words", index);
            let at = r.at();
            let length = u32::from_le_bytes(r.array("word")?) as usize;
            if length > MAX_WORD {
                return Err(Error::limit("word", at, MAX_WORD));
            }
            let word = r.take(length, "word")?;
            let end = r.at();
            if r.array("end of the word")? != [0] {
                return Err(Error::bad("end of the word", end, "00"));
            }
            r.note(at, "text", || format!("{:?}", by_content(word).0));
            words.push(word);
        }
        r.notes().ungroup();
        if r.at() - start != size {
            return Err(Error::bad("packet size", start + 4, "that of the words"));
        }
        Ok(Self { header, words })
    }
}

/// Appends a packet.
pub fn write_packet<'a>(header: u32, words: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    let mut count = 0;
    for word in words {
        Writer(&mut body)
            .u32_le(word.len() as u32)
            .bytes(word)
            .u8(0);
        count += 1;
    }
    let size = (HEADER_BYTES + body.len()) as u32;
    Writer(out).u32_le(header).u32_le(size).u32_le(count);
    out.extend(body);
}

/// Parses the packets of one message to collect their notes. The first one names the message.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let header = u32::from_le_bytes(*bytes.first_chunk()?);
    let length = packet_length(bytes).ok().flatten()?;
    let (message, found) = match (header & FROM_SERVER != 0, header & REPLY != 0) {
        (false, false) => ("command", Direction::Request),
        (false, true) => ("reply", Direction::Reply),
        (true, false) => ("event", Direction::Reply),
        (true, true) => ("reply to an event", Direction::Request),
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    // Without a magic number, only the sizes show that these are packets.
    let count = bytes.get(8..12).and_then(<[u8]>::first_chunk);
    let count = count.map_or(0, |count| u32::from_le_bytes(*count));
    if direction.is_none() && (length > bytes.len() || count == 0 || count as usize > MAX_WORDS) {
        return None;
    }
    let mut r = Reader::new(bytes, notes);
    let mut error = None;
    while r.remaining() > 0 && error.is_none() {
        error = Packet::read(&mut r).err();
    }
    Some(Explanation::guess(message, found, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_both_ways() {
        let mut out = Vec::new();
        write_packet(2 | REPLY, [&b"OK"[..], b"BF3", b""], &mut out);
        assert_eq!(packet_length(&out), Ok(Some(out.len())));
        let mut notes = Notes::default();
        let packet = Packet::read(&mut Reader::new(&out, &mut notes)).unwrap();
        assert_eq!(packet.header, 2 | REPLY);
        assert_eq!(packet.words, [&b"OK"[..], b"BF3", b""]);
        for end in 0..out.len() {
            let read = Packet::read(&mut Reader::new(&out[..end], &mut notes));
            assert!(read.is_err(), "{end}");
        }
        for (at, byte) in [(4, 12), (4, 0), (7, 1), (8, 2), (8, 4), (15, 1), (18, b'x')] {
            let mut wrong = out.clone();
            wrong[at] = byte;
            let read = Packet::read(&mut Reader::new(&wrong, &mut notes));
            assert!(read.is_err(), "{at}");
        }
    }
}
