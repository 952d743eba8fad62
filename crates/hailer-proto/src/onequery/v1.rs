//! Version 1: one request and one reply, without any verification of the source
//! (spec/onequery.md#8).
//!
//! Both layouts are parsed for explanations; responders send it only if the option `v1` is on. The
//! client never requests it, because every server that supports it supports version 2.

use super::deviation::*;
use super::message::{ServerInfo, natural, string, uuid, write_string};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, Writer};
use alloc::vec::Vec;

/// First eight bytes of a request.
pub const REQUEST_MAGIC: &[u8; 8] = b"HYQUERY\0";
/// First eight bytes of a reply.
pub const REPLY_MAGIC: &[u8; 8] = b"HYREPLY\0";
/// Length of a request; longer ones are answered too.
pub const REQUEST: usize = 9;

const TYPE_BASIC: u8 = 0;
const TYPE_FULL: u8 = 1;
/// Capability: the server supports version 2 on this port.
const CAPABLE_OF_V2: u16 = 0x0001;
/// Capability: counts and players cover a whole network of servers.
const CAPABLE_OF_NETWORK: u16 = 0x0002;
const V2_VERSION: u8 = 1;

/// Layout of a reply after the player counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A port of two bytes, then version, protocol and capabilities.
    OneQuery,
    /// A port of four bytes, then only the version.
    HyQuery,
}

/// Parses a request. Returns whether it requests the full reply.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn read_request(bytes: &[u8], notes: &mut Notes) -> Result<bool, Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(REQUEST_MAGIC, "magic")?;
    let full = r.u8("type")? == TYPE_FULL;
    r.trailing(&TRAILING_BYTES);
    Ok(full)
}

/// Parses a reply to collect its notes.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn read_reply(bytes: &[u8], notes: &mut Notes) -> Result<Layout, Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(REPLY_MAGIC, "magic")?;
    let full = r.u8("type")? == TYPE_FULL;
    string(&mut r, "name")?;
    string(&mut r, "motd")?;
    r.i32_le("players")?;
    r.i32_le("max players")?;
    // Two bytes of port and the length of a version that is never empty; or four bytes of port, of
    // which the last two are zero (spec/onequery.md#8.4).
    let layout = match r.rest() {
        [_, _, 0, 0, ..] => Layout::HyQuery,
        _ => Layout::OneQuery,
    };
    match layout {
        Layout::OneQuery => read_onequery(&mut r, full)?,
        Layout::HyQuery => {
            let at = r.at();
            r.notes().deviation(&HYQUERY_LAYOUT, at);
            r.u32_le("port")?;
            string(&mut r, "game version")?;
            if full {
                let network = !is_first_hyquery(bytes, r.at());
                read_hyquery_lists(&mut r, network)?;
            }
        }
    }
    r.trailing(&TRAILING_BYTES);
    Ok(layout)
}

/// Parses the fields that only OneQuery has: two protocol fields, other lists, capabilities.
fn read_onequery(r: &mut Reader<'_, '_>, full: bool) -> Result<(), Error> {
    r.u16_le("port")?;
    string(r, "game version")?;
    r.i32_le("protocol version")?;
    string(r, "protocol hash")?;
    if full {
        list(r, "player", |r| {
            string(r, "name")?;
            uuid(r).map(drop)
        })?;
        list(r, "plugin", |r| {
            string(r, "id")?;
            string(r, "version")?;
            r.u8("enabled").map(drop)
        })?;
    }
    // Replies of the plugin's versions 1.x end here.
    if r.remaining() > 0 {
        r.u16_le("capabilities")?;
        r.u8("version 2")?;
    }
    Ok(())
}

/// Parses HyQuery's lists. In version 1.0, players have no server and there is no list of servers.
fn read_hyquery_lists(r: &mut Reader<'_, '_>, network: bool) -> Result<(), Error> {
    list(r, "player", |r| {
        string(r, "name")?;
        uuid(r)?;
        if network {
            string(r, "server id")?;
        }
        Ok(())
    })?;
    list(r, "plugin", |r| string(r, "id").map(drop))?;
    if network {
        list(r, "server", |r| {
            string(r, "id")?;
            string(r, "name")?;
            string(r, "motd")?;
            r.i32_le("players")?;
            r.i32_le("max players")?;
            r.u8("online")?;
            r.u64_le("updated")?;
            for _ in 0..natural(r, "player count")? {
                string(r, "player name")?;
                uuid(r)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns whether the lists from this offset on have HyQuery 1.0's layout: only if they then fill
/// the datagram.
fn is_first_hyquery(bytes: &[u8], at: usize) -> bool {
    let mut unwanted = Notes::default();
    let mut r = Reader::new(bytes, &mut unwanted);
    r.take(at, "lists").is_ok() && read_hyquery_lists(&mut r, false).is_ok() && r.end().is_ok()
}

/// Parses a count and its entries. A count that is too large ends at the first missing entry.
fn list<'a, 'n>(
    r: &mut Reader<'a, 'n>,
    name: &'static str,
    mut entry: impl FnMut(&mut Reader<'a, 'n>) -> Result<(), Error>,
) -> Result<(), Error> {
    for index in 0..natural(r, "count")? {
        r.notes().group(name, index as usize);
        entry(r)?;
    }
    r.notes().ungroup();
    Ok(())
}

/// Appends a basic reply in OneQuery's layout.
pub(super) fn write_basic(info: &ServerInfo<'_>, port: u16, network: bool, out: &mut Vec<u8>) {
    let mut w = Writer(out);
    w.bytes(REPLY_MAGIC).u8(TYPE_BASIC);
    write_string(info.name, &mut w);
    write_string(info.motd, &mut w);
    w.i32_le(info.online).i32_le(info.max).u16_le(port);
    write_string(info.version, &mut w);
    w.i32_le(info.protocol_version);
    write_string(info.protocol_hash, &mut w);
    w.u16_le(CAPABLE_OF_V2 | if network { CAPABLE_OF_NETWORK } else { 0 })
        .u8(V2_VERSION);
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let explained = |message, direction, error| {
        Some(Explanation {
            message,
            direction,
            is_certain: true,
            error,
        })
    };
    let full = bytes.get(REQUEST_MAGIC.len()) == Some(&TYPE_FULL);
    if bytes.starts_with(REQUEST_MAGIC) && direction != Some(Direction::Reply) {
        let message = if full {
            "version 1 full request"
        } else {
            "version 1 basic request"
        };
        return explained(
            message,
            Direction::Request,
            read_request(bytes, notes).err(),
        );
    }
    if bytes.starts_with(REPLY_MAGIC) && direction != Some(Direction::Request) {
        let message = if full {
            "version 1 full reply"
        } else {
            "version 1 basic reply"
        };
        return explained(message, Direction::Reply, read_reply(bytes, notes).err());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ErrorKind;
    use alloc::string::{String, ToString};
    use alloc::vec;

    /// The part that both layouts share: name `N`, MOTD `M`, 2 of 50 players.
    fn start(full: bool) -> Vec<u8> {
        [
            REPLY_MAGIC,
            &[u8::from(full)][..],
            b"\x01\0N\x01\0M\x02\0\0\0\x32\0\0\0",
        ]
        .concat()
    }

    fn read(bytes: &[u8]) -> (Result<Layout, Error>, Vec<&'static str>, Vec<String>) {
        let mut notes = Notes::explaining();
        let layout = read_reply(bytes, &mut notes);
        let fields = notes
            .fields()
            .iter()
            .map(|field| [&*field.name, &field.value].join("="))
            .collect();
        (layout, notes.met().map(|met| met.name).collect(), fields)
    }

    /// spec/onequery.md#8.2
    fn onequery(full: bool) -> Vec<u8> {
        let mut reply = [&start(full)[..], b"\x90\x15\x03\x001.0\x07\0\0\0\x02\0AB"].concat();
        if full {
            reply.extend_from_slice(
                b"\x01\0\0\0\x01\0P0123456789abcdef\x01\0\0\0\x03\0G:N\x01\x002\x01",
            );
        }
        reply
    }

    /// spec/onequery.md#8.3
    fn hyquery(full: bool, network: bool) -> Vec<u8> {
        let mut reply = [&start(full)[..], b"\x90\x15\0\0\x03\x001.0"].concat();
        if full {
            reply.extend_from_slice(b"\x01\0\0\0\x01\0P0123456789abcdef");
            reply.extend_from_slice(if network { b"\x02\0s1" } else { b"" });
            reply.extend_from_slice(b"\x01\0\0\0\x03\0G:N");
        }
        if full && network {
            reply.extend_from_slice(b"\x01\0\0\0\x02\0s1\x01\0S\x01\0M\x01\0\0\0\x0A\0\0\0\x01");
            reply.extend_from_slice(b"\x01\0\0\0\0\0\0\0\x01\0\0\0\x01\0P0123456789abcdef");
        }
        reply
    }

    #[test]
    fn both_layouts_are_recognized() {
        for full in [false, true] {
            let with_capabilities = [&onequery(full)[..], &[1, 0, 1]].concat();
            for reply in [onequery(full), with_capabilities] {
                let (layout, deviations, fields) = read(&reply);
                assert_eq!((layout, deviations), (Ok(Layout::OneQuery), vec![]));
                assert!(
                    fields.contains(&"port=5520".to_string())
                        && fields.contains(&"protocol hash=\"AB\"".to_string())
                );
            }
            for network in [false, true] {
                let (layout, deviations, fields) = read(&hyquery(full, network));
                assert_eq!(
                    (layout, deviations),
                    (Ok(Layout::HyQuery), vec!["hyquery-layout"]),
                    "{full} {network}"
                );
                assert!(fields.contains(&"port=5520".to_string()));
                assert_eq!(
                    fields.contains(&"player[0].server id=\"s1\"".to_string()),
                    full && network
                );
            }
        }
    }

    #[test]
    fn cut_anywhere_is_an_error_or_an_older_reply() {
        for whole in [
            onequery(false),
            onequery(true),
            hyquery(false, true),
            hyquery(true, false),
            hyquery(true, true),
        ] {
            for length in 0..whole.len() {
                assert!(
                    read(&whole[..length]).0.is_err(),
                    "{length} of {}",
                    whole.len()
                );
            }
        }
        for whole in [
            onequery(false),
            onequery(true),
            hyquery(false, true),
            hyquery(true, true),
        ] {
            let (layout, deviations, _) = read(&[&whole[..], &[9; 9]].concat());
            assert!(layout.is_ok());
            assert_eq!(deviations.last(), Some(&"trailing-bytes"));
        }
        let error = read(&[&onequery(false)[..], &[1, 0]].concat())
            .0
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "version 2 at offset 40: ends 1 byte too early"
        );
    }

    #[test]
    fn a_hostile_count_ends_with_the_datagram() {
        let mut reply = onequery(true);
        reply[38..42].copy_from_slice(&[0xFF, 0xFF, 0xFF, 0x7F]);
        assert!(matches!(
            read(&reply).0.unwrap_err().kind,
            ErrorKind::Short { .. }
        ));
        reply[41] = 0xFF;
        assert_eq!(
            read(&reply).0.unwrap_err().to_string(),
            "count at offset 38: expected no number below zero"
        );
    }

    #[test]
    fn any_type_but_1_asks_for_basic() {
        for kind in 0..=255 {
            let request = [&REQUEST_MAGIC[..], &[kind]].concat();
            assert_eq!(
                read_request(&request, &mut Notes::default()),
                Ok(kind == TYPE_FULL)
            );
        }
        assert!(read_request(REQUEST_MAGIC, &mut Notes::default()).is_err());
    }
}
