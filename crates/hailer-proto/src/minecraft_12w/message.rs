//! Bytes ⇄ packets. The only file that knows offsets (spec/minecraft-12w.md#6.1).

use super::deviation::*;
use crate::protocol::{Direction, Explanation, Frame};
use crate::wire::{Error, ErrorKind, Notes, Reader, utf16};
use alloc::{format, string::String, vec::Vec};

/// Longest text of a kick, in UTF-16 units.
pub const TEXT_MAX: usize = 256;

const LIST_PING: u8 = 0xFE;
/// Second byte of requests of clients from 1.4 on.
const NEWER: u8 = 0x01;
const KICK: u8 = 0xFF;
/// Length of the header of a kick: the packet id and the number of units.
const KICK_HEADER: usize = 3;

/// Encodes a UTF-16 unit as on the wire.
type Unit = [u8; 2];
/// Separates the parts of a reply.
const SECTION: Unit = [0x00, 0xA7];
/// Starts a reply of 1.4 and later, whose parts are separated by NULs.
const NEWER_START: [Unit; 3] = [SECTION, [0, b'1'], NUL];
const NUL: Unit = [0, 0];

/// The status in a list ping reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Message of the day.
    pub motd: String,
    /// Players online.
    pub online: Option<i64>,
    /// Maximum number of players.
    pub max: Option<i64>,
    /// Protocol number of the game, from 1.4 on.
    pub protocol: Option<i64>,
    /// Version of the game, from 1.4 on.
    pub version: Option<String>,
}

/// Returns whether these bytes request a listing. The bytes that clients from 1.4 on add are
/// ignored: old servers reply before they arrive.
pub fn is_list_ping(bytes: &[u8]) -> bool {
    matches!(bytes, [LIST_PING] | [LIST_PING, NEWER, ..])
}

/// Returns where the kick packet at the start of a stream ends.
///
/// # Errors
///
/// The first byte is not that of a kick, or the text is too long.
pub fn frame(bytes: &[u8]) -> Result<Frame, Error> {
    match bytes {
        [KICK, high, low, ..] => {
            let units = usize::from(u16::from_be_bytes([*high, *low]));
            if units > TEXT_MAX {
                let kind = ErrorKind::Limit { limit: TEXT_MAX };
                return Err(Error {
                    field: "text",
                    at: 1,
                    kind,
                });
            }
            let total = KICK_HEADER + 2 * units;
            Ok(if bytes.len() < total {
                Frame::Incomplete { total }
            } else {
                Frame::Complete(total)
            })
        }
        [KICK, ..] | [] => Ok(Frame::Incomplete { total: KICK_HEADER }),
        _ => Err(Error::bad("packet id", 0, "FF (kick)")),
    }
}

/// Appends the request to `out`.
pub fn write_list_ping(out: &mut Vec<u8>) {
    out.push(LIST_PING);
}

/// Appends a reply to `out`. The MOTD must not contain a section sign; it is cut if the text would
/// be too long.
pub fn write_listing(motd: &str, online: i64, max: i64, out: &mut Vec<u8>) {
    let counts = format!("\u{A7}{online}\u{A7}{max}");
    let room = TEXT_MAX.saturating_sub(counts.chars().count());
    let motd = motd.chars().scan(0, |units, c| {
        *units += c.len_utf16();
        (*units <= room).then_some(c)
    });
    let text: String = motd.chain(counts.chars()).collect();
    let units = text.encode_utf16();
    out.push(KICK);
    out.extend((units.clone().count() as u16).to_be_bytes());
    out.extend(units.flat_map(u16::to_be_bytes));
}

impl Listing {
    /// Parses a kick packet. Returns `None` if its text is a reason for disconnecting the client
    /// instead of a listing.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or part of another packet, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Option<Self>, Error> {
        let mut r = Reader::new(bytes, notes);
        if r.raw(1, "packet id")? != [KICK] {
            return Err(Error::bad("packet id", 0, "FF (kick)"));
        }
        let (units, _) = r.utf16_be(TEXT_MAX, "text")?.as_chunks();
        let listing = match units.starts_with(&NEWER_START) {
            true => Self::newer(units, r.notes()),
            false => Self::classic(units, r.notes()),
        };
        r.trailing(&TRAILING_BYTES);
        Ok(listing)
    }

    /// Parses from the end, because the last section signs always belong to the protocol.
    fn classic(units: &[Unit], notes: &mut Notes) -> Option<Self> {
        let mut parts = units.rsplitn(3, |unit| *unit == SECTION);
        let (max, online, motd) = (parts.next()?, parts.next()?, parts.next()?);
        let mut parts = Parts {
            at: KICK_HEADER,
            notes,
        };
        count(max).or(count(online))?;
        if motd.contains(&SECTION) {
            parts.notes.deviation(&FORMATTED_MOTD, parts.at);
        }
        Some(Self {
            motd: parts.text("motd", motd),
            online: parts.count("online", online),
            max: parts.count("max", max),
            ..Self::default()
        })
    }

    fn newer(units: &[Unit], notes: &mut Notes) -> Option<Self> {
        let mut parts = units.splitn(6, |unit| *unit == NUL).skip(1);
        let (protocol, version, motd) = (parts.next()?, parts.next()?, parts.next()?);
        let (online, max) = (parts.next()?, parts.next()?);
        let mut parts = Parts {
            at: KICK_HEADER,
            notes,
        };
        parts.notes.deviation(&NEWER_REPLY, parts.at);
        parts.at += size_of_val(&NEWER_START);
        Some(Self {
            protocol: parts.count("protocol", protocol),
            version: Some(parts.text("version", version)),
            motd: parts.text("motd", motd),
            online: parts.count("online", online),
            max: parts.count("max", max),
        })
    }
}

fn count(units: &[Unit]) -> Option<i64> {
    utf16(units.as_flattened()).parse().ok()
}

/// Iterates over the parts of a text, with their positions for the notes.
struct Parts<'n> {
    at: usize,
    notes: &'n mut Notes,
}

impl Parts<'_> {
    /// Returns the next part, and skips it and its separator.
    fn text(&mut self, field: &'static str, units: &[Unit]) -> String {
        let text = utf16(units.as_flattened());
        let length = size_of_val(units);
        self.notes
            .field(self.at..self.at + length, field, || format!("{text:?}"));
        self.at += length + size_of::<Unit>();
        text
    }

    fn count(&mut self, field: &'static str, units: &[Unit]) -> Option<i64> {
        let at = self.at;
        self.text(field, units);
        let count = count(units);
        if count.is_none() {
            self.notes.deviation(&ODD_COUNT, at);
        }
        count
    }
}

/// Explains one packet. Both packets are short and have no magic number, so bytes of unknown
/// direction are explained only if they are exactly one complete packet.
pub fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let say = |message, direction, error| {
        Some(Explanation {
            message,
            direction,
            is_certain: false,
            error,
        })
    };
    match (direction, bytes) {
        (None, [LIST_PING]) | (Some(Direction::Request), [LIST_PING] | [LIST_PING, NEWER, ..]) => {
            let mut r = Reader::new(bytes, notes);
            let mut read = || {
                r.raw(1, "packet id")?;
                let rest = r.remaining();
                if rest > 0 {
                    r.raw(rest, "of 1.4 and later")?;
                }
                Ok(())
            };
            say("list ping", Direction::Request, read().err())
        }
        (None | Some(Direction::Reply), [KICK, ..])
            if direction.is_some() || is_whole_kick(bytes) =>
        {
            let (message, error) = match Listing::read(bytes, notes) {
                Ok(Some(_)) => ("list ping reply", None),
                Ok(None) => ("kick", None),
                Err(error) => ("kick", Some(error)),
            };
            say(message, Direction::Reply, error)
        }
        _ => None,
    }
}

fn is_whole_kick(bytes: &[u8]) -> bool {
    match bytes {
        [KICK, high, low, text @ ..] => {
            let count = usize::from(u16::from_be_bytes([*high, *low]));
            count <= TEXT_MAX && text.len() == count * size_of::<Unit>()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use std::string::ToString;

    fn kick(text: &str) -> Vec<u8> {
        let units: Vec<u16> = text.encode_utf16().collect();
        let mut bytes = vec![KICK];
        bytes.extend((units.len() as u16).to_be_bytes());
        bytes.extend(units.iter().flat_map(|unit| unit.to_be_bytes()));
        bytes
    }

    fn read(text: &str) -> (Option<Listing>, Vec<&'static str>) {
        let mut notes = Notes::default();
        let listing = Listing::read(&kick(text), &mut notes).unwrap();
        (listing, notes.met().map(|met| met.name).collect())
    }

    fn listing(motd: &str, online: Option<i64>, max: Option<i64>) -> Option<Listing> {
        Some(Listing {
            motd: motd.into(),
            online,
            max,
            ..Listing::default()
        })
    }

    #[test]
    fn a_listing_has_three_parts() {
        assert_eq!(
            read("A\u{A7}0\u{A7}20"),
            (listing("A", Some(0), Some(20)), vec![])
        );
        assert_eq!(
            read("\u{A7}1\u{A7}2"),
            (listing("", Some(1), Some(2)), vec![])
        );
        let emoji = "\u{1F600}\u{A7}-1\u{A7}2147483647";
        assert_eq!(
            read(emoji),
            (listing("\u{1F600}", Some(-1), Some(2_147_483_647)), vec![])
        );
    }

    #[test]
    fn deviations_are_named() {
        let newer = |max| {
            let version = Some("1.4.2".into());
            Some(Listing {
                protocol: Some(47),
                version,
                ..listing("\u{A7}aA", Some(5), max).unwrap()
            })
        };
        let cases: [(&str, Option<Listing>, &[&str]); 5] = [
            (
                "\u{A7}aA\u{A7}rB\u{A7}5\u{A7}6",
                listing("\u{A7}aA\u{A7}rB", Some(5), Some(6)),
                &["formatted-motd"],
            ),
            (
                "A\u{A7}many\u{A7}6",
                listing("A", None, Some(6)),
                &["odd-count"],
            ),
            (
                "A\u{A7}5\u{A7}",
                listing("A", Some(5), None),
                &["odd-count"],
            ),
            (
                "\u{A7}1\u{0}47\u{0}1.4.2\u{0}\u{A7}aA\u{0}5\u{0}6",
                newer(Some(6)),
                &["newer-reply"],
            ),
            (
                "\u{A7}1\u{0}47\u{0}1.4.2\u{0}\u{A7}aA\u{0}5\u{0}6\u{0}7",
                newer(None),
                &["newer-reply", "odd-count"],
            ),
        ];
        for (text, expected, met) in cases {
            assert_eq!(read(text), (expected, met.to_vec()), "{text:?}");
        }
        let mut notes = Notes::default();
        let whole = [kick("A\u{A7}0\u{A7}20"), vec![7]].concat();
        assert_eq!(
            Listing::read(&whole, &mut notes),
            Ok(listing("A", Some(0), Some(20)))
        );
        assert_eq!(notes.deviations(), [(&TRAILING_BYTES, 15)]);
    }

    #[test]
    fn a_kick_without_a_count_is_no_listing() {
        for text in [
            "",
            "You are banned",
            "\u{A7}cYou are \u{A7}4banned",
            "\u{A7}\u{A7}",
            "A\u{A7}5",
            "\u{A7}1\u{0}47\u{0}1.4.2\u{0}A\u{0}5",
        ] {
            assert_eq!(read(text), (None, vec![]), "{text:?}");
        }
    }

    #[test]
    fn errors_name_field_and_offset() {
        for (bytes, error) in [
            (&b""[..], "packet id at offset 0: ends 1 byte too early"),
            (b"HTTP", "packet id at offset 0: expected FF (kick)"),
            (b"\xFF\0", "text at offset 1: ends 1 byte too early"),
            (
                b"\xFF\0\x03\0A\0\xA7",
                "text at offset 3: ends 2 bytes too early",
            ),
            (
                b"\xFF\xFF\xFF",
                "text at offset 1: expected a count of UTF-16 units, not below 0",
            ),
            (
                b"\xFF\x01\x01",
                "text at offset 1: more than 256, the most accepted",
            ),
        ] {
            assert_eq!(
                Listing::read(bytes, &mut Notes::default())
                    .unwrap_err()
                    .to_string(),
                error
            );
        }
    }

    #[test]
    fn without_a_direction_only_complete_packets_are_explained() {
        let explained = |bytes: &[u8], direction| {
            explain(bytes, direction, &mut Notes::explaining()).map(|it| it.message)
        };
        let (reply, banned) = (kick("A\u{A7}0\u{A7}20"), kick("You are banned"));
        for (bytes, unknown, request, answer) in [
            (&b"\xFE"[..], Some("list ping"), Some("list ping"), None),
            (b"\xFE\x01", None, Some("list ping"), None),
            (b"\xFE\x01\xFA", None, Some("list ping"), None),
            (b"\xFE\xFD\x09", None, None, None),
            (
                &reply,
                Some("list ping reply"),
                None,
                Some("list ping reply"),
            ),
            (&banned, Some("kick"), None, Some("kick")),
            (&reply[..9], None, None, Some("kick")),
            (b"\xFF\xFFUGP\0\x01\0", None, None, Some("kick")),
            (b"", None, None, None),
        ] {
            let found = (
                explained(bytes, None),
                explained(bytes, Some(Direction::Request)),
                explained(bytes, Some(Direction::Reply)),
            );
            assert_eq!(found, (unknown, request, answer), "{bytes:02x?}");
        }
    }

    #[test]
    fn a_long_motd_gives_way_to_the_counts() {
        for motd in [
            "x".repeat(300),
            "\u{1F600}".repeat(300),
            alloc::format!("x{}", "\u{1F600}".repeat(300)),
        ] {
            let mut out = Vec::new();
            write_listing(&motd, 12, 345, &mut out);
            let found = Listing::read(&out, &mut Notes::default()).unwrap().unwrap();
            assert_eq!((found.online, found.max), (Some(12), Some(345)));
            assert!(motd.starts_with(&found.motd), "{}", found.motd);
            assert!(
                (TEXT_MAX - 1..=TEXT_MAX).contains(&((out.len() - KICK_HEADER) / 2)),
                "{}",
                out.len()
            );
        }
    }
}
