//! Version 1: one request and one reply, without any verification of the source
//! (spec/onequery.md#8).
//!
//! The client requests it from servers that do not answer version 2: OneQuery 1.x and HyQuery 1.x.
//! Responders send it only if the option `v1` is on.

use super::deviation::*;
use super::message::{ServerInfo, natural, string, uuid, write_string};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, ErrorKind, Notes, Reader, Writer};
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

/// Appends a request.
pub fn write_request(is_full: bool, out: &mut Vec<u8>) {
    out.extend(REQUEST_MAGIC);
    out.push(if is_full { TYPE_FULL } else { TYPE_BASIC });
}

/// A reply, borrowed from its datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Layout, which shows the plugin.
    pub layout: Layout,
    /// Whether the reply has lists.
    pub is_full: bool,
    /// Texts and counts. HyQuery sends no protocol fields.
    pub info: ServerInfo<'a>,
    /// Port of the game.
    pub port: u32,
    /// Players, as far as they are listed.
    pub players: Vec<Player<'a>>,
    /// Plugins of the server.
    pub plugins: Vec<Plugin<'a>>,
    /// Servers of HyQuery's network.
    pub servers: Vec<Server<'a>>,
    /// Whether the server also answers version 2; `None` if it does not say.
    pub has_v2: Option<bool>,
    /// Whether counts and players cover a whole network of servers.
    pub is_network: bool,
}

/// A player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Player<'a> {
    /// Name of the player.
    pub name: &'a [u8],
    /// UUID, network byte order.
    pub uuid: [u8; 16],
    /// Server of HyQuery's network that the player is on; empty for the queried one.
    pub server: &'a [u8],
}

/// A plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plugin<'a> {
    /// Group and name.
    pub id: &'a [u8],
    /// Version; HyQuery sends none.
    pub version: Option<&'a [u8]>,
    /// Whether it is disabled.
    pub is_disabled: bool,
}

/// A server of HyQuery's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server<'a> {
    /// Id of the server.
    pub id: &'a [u8],
    /// Name of the server.
    pub name: &'a [u8],
    /// Number of players online.
    pub online: i32,
    /// Maximum number of players.
    pub max: i32,
    /// Whether the server is online.
    pub is_online: bool,
}

/// Returns whether bytes start like a reply.
pub fn is_reply(bytes: &[u8]) -> bool {
    bytes.starts_with(REPLY_MAGIC)
}

/// Parses a reply.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn read_reply<'a>(bytes: &'a [u8], notes: &mut Notes) -> Result<Reply<'a>, Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(REPLY_MAGIC, "magic")?;
    let is_full = r.u8("type")? == TYPE_FULL;
    let info = ServerInfo {
        name: string(&mut r, "name")?,
        motd: string(&mut r, "motd")?,
        online: r.i32_le("players")?,
        max: r.i32_le("max players")?,
        ..ServerInfo::default()
    };
    // Two bytes of port and the length of a version that is never empty; or four bytes of port, of
    // which the last two are zero (spec/onequery.md#8.4).
    let layout = match r.rest() {
        [_, _, 0, 0, ..] => Layout::HyQuery,
        _ => Layout::OneQuery,
    };
    let mut reply = Reply {
        layout,
        is_full,
        info,
        port: 0,
        players: Vec::new(),
        plugins: Vec::new(),
        servers: Vec::new(),
        has_v2: None,
        is_network: false,
    };
    let result = match layout {
        Layout::OneQuery => reply.read_onequery(&mut r),
        Layout::HyQuery => reply.read_hyquery(&mut r),
    };
    match result {
        Ok(()) => r.trailing(&TRAILING_BYTES),
        Err(error) if matches!(error.kind, ErrorKind::Short { .. }) => {
            r.notes().ungroup();
            r.notes().deviation(&CUT_V1, bytes.len());
        }
        Err(error) => return Err(error),
    }
    Ok(reply)
}

impl<'a> Reply<'a> {
    /// Parses the fields that only OneQuery has: two protocol fields, other lists, capabilities.
    fn read_onequery(&mut self, r: &mut Reader<'a, '_>) -> Result<(), Error> {
        self.port = r.u16_le("port")?.into();
        self.info.version = string(r, "game version")?;
        self.info.protocol_version = r.i32_le("protocol version")?;
        self.info.protocol_hash = string(r, "protocol hash")?;
        if self.is_full {
            list(r, "player", &mut self.players, |r| {
                Ok(Player {
                    name: string(r, "name")?,
                    uuid: uuid(r)?,
                    server: b"",
                })
            })?;
            list(r, "plugin", &mut self.plugins, |r| {
                Ok(Plugin {
                    id: string(r, "id")?,
                    version: Some(string(r, "version")?),
                    is_disabled: r.u8("enabled")? == 0,
                })
            })?;
        }
        if r.remaining() == 0 {
            let at = r.at();
            r.notes().deviation(&NO_CAPABILITIES, at);
            return Ok(());
        }
        let capabilities = r.u16_le("capabilities")?;
        self.has_v2 = Some(capabilities & CAPABLE_OF_V2 != 0);
        self.is_network = capabilities & CAPABLE_OF_NETWORK != 0;
        r.u8("version 2")?;
        Ok(())
    }

    /// Parses the fields that HyQuery has instead. In version 1.0, players have no server and there
    /// is no list of servers.
    fn read_hyquery(&mut self, r: &mut Reader<'a, '_>) -> Result<(), Error> {
        let at = r.at();
        r.notes().deviation(&HYQUERY_LAYOUT, at);
        self.port = r.u32_le("port")?;
        self.info.version = string(r, "game version")?;
        if !self.is_full {
            return Ok(());
        }
        let at = r.at();
        let has_servers = !is_first_hyquery(r.whole(), at);
        if !has_servers {
            r.notes().deviation(&NO_SERVER_IDS, at);
        }
        // Lists that are cut have no known layout, so they are kept only if they are complete.
        let (mut players, mut plugins, mut servers) = (Vec::new(), Vec::new(), Vec::new());
        list(r, "player", &mut players, |r| {
            let name = string(r, "name")?;
            let uuid = uuid(r)?;
            let server = if has_servers {
                string(r, "server id")?
            } else {
                b""
            };
            Ok(Player { name, uuid, server })
        })?;
        list(r, "plugin", &mut plugins, |r| {
            Ok(Plugin {
                id: string(r, "id")?,
                ..Plugin::default()
            })
        })?;
        if has_servers {
            list(r, "server", &mut servers, read_server)?;
        }
        (self.players, self.plugins, self.servers) = (players, plugins, servers);
        Ok(())
    }
}

/// Parses a server of HyQuery's network. Its players are also in the list of all players.
fn read_server<'a>(r: &mut Reader<'a, '_>) -> Result<Server<'a>, Error> {
    let id = string(r, "id")?;
    let name = string(r, "name")?;
    string(r, "motd")?;
    let online = r.i32_le("players")?;
    let max = r.i32_le("max players")?;
    let is_online = r.u8("online")? == 1;
    r.u64_le("updated")?;
    for _ in 0..natural(r, "player count")? {
        string(r, "player name")?;
        uuid(r)?;
    }
    Ok(Server {
        id,
        name,
        online,
        max,
        is_online,
    })
}

/// Returns whether the lists from this offset on have HyQuery 1.0's layout: only if they then fill
/// the datagram.
fn is_first_hyquery(bytes: &[u8], at: usize) -> bool {
    let mut unwanted = Notes::discarding();
    let mut r = Reader::new(bytes, &mut unwanted);
    r.take(at, "lists").is_ok() && skip_first_lists(&mut r).is_ok() && r.end().is_ok()
}

fn skip_first_lists(r: &mut Reader<'_, '_>) -> Result<(), Error> {
    for _ in 0..natural(r, "count")? {
        string(r, "name")?;
        uuid(r)?;
    }
    for _ in 0..natural(r, "count")? {
        string(r, "id")?;
    }
    Ok(())
}

/// Parses a count and appends its entries. A count that is too large ends at the first missing
/// entry.
fn list<'a, 'n, T>(
    r: &mut Reader<'a, 'n>,
    name: &'static str,
    entries: &mut Vec<T>,
    mut entry: impl FnMut(&mut Reader<'a, 'n>) -> Result<T, Error>,
) -> Result<(), Error> {
    for index in 0..natural(r, "count")? {
        r.notes().group(name, index as usize);
        entries.push(entry(r)?);
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
    let explained =
        |message, direction, error| Some(Explanation::certain(message, direction, error));
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
        let layout = read_reply(bytes, &mut notes).map(|reply| reply.layout);
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
                let mut expected = vec!["no-capabilities"];
                expected.retain(|_| reply == onequery(full));
                assert_eq!((layout, deviations), (Ok(Layout::OneQuery), expected));
                assert!(
                    fields.contains(&"port=5520".to_string())
                        && fields.contains(&"protocol hash=\"AB\"".to_string())
                );
            }
            for network in [false, true] {
                let (layout, deviations, fields) = read(&hyquery(full, network));
                let mut expected = vec!["hyquery-layout", "no-server-ids"];
                expected.truncate(if full && !network { 2 } else { 1 });
                assert_eq!(
                    (layout, deviations),
                    (Ok(Layout::HyQuery), expected),
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
    fn cut_after_the_counts_is_a_deviation() {
        for whole in [
            onequery(false),
            onequery(true),
            hyquery(false, true),
            hyquery(true, false),
            hyquery(true, true),
        ] {
            for length in 0..whole.len() {
                let (result, deviations, _) = read(&whole[..length]);
                let has_counts = length >= start(true).len();
                assert_eq!(result.is_ok(), has_counts, "{length} of {}", whole.len());
                assert_eq!(deviations.contains(&"cut-v1"), has_counts);
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
        let (layout, deviations, _) = read(&[&onequery(false)[..], &[1, 0]].concat());
        assert_eq!((layout, deviations), (Ok(Layout::OneQuery), vec!["cut-v1"]));
    }

    #[test]
    fn a_hostile_count_ends_with_the_datagram() {
        let mut reply = onequery(true);
        reply[38..42].copy_from_slice(&[0xFF, 0xFF, 0xFF, 0x7F]);
        let mut notes = Notes::default();
        let read_of = read_reply(&reply, &mut notes).unwrap();
        assert_eq!((read_of.players.len(), read_of.plugins.len()), (1, 0));
        assert!(notes.met().any(|met| met == &CUT_V1));
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
