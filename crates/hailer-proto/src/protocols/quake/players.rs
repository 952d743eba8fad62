//! Numbers and lists of players, and other facts that Quake 1, 2 and 3 share in both roles
//! (spec/quake3.md#8, spec/quake3.md#10).
//!
//! Limits: lists have at most 1,024 players. Counts that are sent are at most 99,999.

use super::infostring::{Infostring, InfostringWriter, MAX_LINES};
use crate::model::{Player, Status, Value};
use crate::wire::{Deviation, Notes, cut};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Largest count that is sent.
pub(super) const MAX_COUNT: i64 = 99_999;
/// Ping in milliseconds of a player whose latency is unknown. Clients take players with a ping of 0
/// for bots, and one of them for spectators.
pub(super) const UNKNOWN_PING_MS: i32 = 1;
/// Longest infostring of a short reply of Quake 1 and 2 in bytes: with headers, the reply is at most
/// 3 times as long as the shortest request.
const MAX_TINY_INFO: usize = 75;
/// Longest name in such a reply, in bytes.
const MAX_TINY_NAME: usize = 24;

/// Numbers of players of a status reply.
pub(super) struct Counts {
    /// Number of players: that of the lines, or that of the server, if it is larger.
    pub(super) online: i64,
    /// Whether the server counts players and lists none.
    pub(super) is_withheld: bool,
}

impl Counts {
    /// Takes the numbers from the variables of a reply with this many lines. Notes `missing` if
    /// there should be more.
    pub(super) fn take(
        info: &mut Infostring<'_>,
        lines: usize,
        missing: &'static Deviation,
        notes: &mut Notes,
    ) -> Self {
        let lines = lines as i64;
        let clients = info.take_number(&["clients"]);
        let listed = info.take_number(&["listed"]);
        if listed.or(clients).is_some_and(|expected| lines < expected) {
            notes.deviation(missing, 0);
        }
        let online = clients.unwrap_or(lines).max(lines);
        Self {
            online,
            is_withheld: listed == Some(0) && lines == 0 && online > 0,
        }
    }
}

/// Adds the number of players of an info reply to a status. Notes `missing` if it has fewer.
pub(super) fn add_count(
    status: &mut Status,
    online: i64,
    missing: &'static Deviation,
    notes: &mut Notes,
) {
    let listed = status.players.online;
    if listed.is_some_and(|listed| listed >= online) {
        return;
    }
    status.players.online = Some(online);
    if listed.is_some() {
        notes.deviation(missing, 0);
        let list = core::mem::take(&mut status.players.list);
        status.players.set_list(list);
    }
}

/// Facts that the responders of all three protocols send.
pub(super) struct Facts {
    /// Name of the server in one line, or else its MOTD.
    pub(super) name: String,
    /// Number of players.
    pub(super) clients: i64,
    /// Maximum number of players.
    pub(super) max: Option<String>,
    /// Whether there is a password.
    pub(super) password: Option<&'static str>,
}

impl Facts {
    /// Takes the facts from a status. `encode` turns a text into the character set of the protocol.
    pub(super) fn new(status: &Status, encode: impl Fn(&str) -> String) -> Self {
        let names = status.name.iter().chain(&status.motd);
        let mut names = names.map(|name| encode(&name.raw().replace('\n', " ")));
        let name = names.find(|name| !name.trim().is_empty());
        let count = |count: i64| count.clamp(0, MAX_COUNT);
        Self {
            name: name.unwrap_or_default(),
            clients: count(status.players.count()),
            max: status.players.max.map(|max| count(max).to_string()),
            password: status.has_password.map(|has| if has { "1" } else { "0" }),
        }
    }

    /// Returns the variables of a short reply of Quake 1 and 2.
    pub(super) fn tiny(&self) -> Vec<u8> {
        let mut out = InfostringWriter::new(MAX_TINY_INFO);
        out.option("maxclients", self.max.as_deref())
            .pair("clients", &self.clients.to_string())
            .pair("listed", "0")
            .pair("hostname", cut(&self.name, MAX_TINY_NAME));
        out.finish()
    }

    /// Returns variables with the numbers of players, if not all of them are listed or if they are
    /// `needed`, and the lines of the reply. More players than counted would be a contradiction:
    /// then none are listed.
    pub(super) fn list(&self, mut lines: Vec<String>, needed: bool) -> (String, String) {
        let clients = self.clients;
        if lines.len() as i64 > clients {
            lines.clear();
        }
        let listed = lines.len() as i64;
        let counts = if listed != clients || needed {
            format!("\\clients\\{clients}\\listed\\{listed}")
        } else {
            String::new()
        };
        (counts, lines.concat())
    }
}

/// Returns the first of these items that fit into `room` bytes together.
pub(super) fn fitting<T: AsRef<[u8]>>(items: impl Iterator<Item = T>, room: usize) -> Vec<T> {
    let mut length = 0;
    let fits = |item: &T| {
        length += item.as_ref().len();
        length <= room
    };
    items.take(MAX_LINES).take_while(fits).collect()
}

/// Returns an extra field of a player.
pub(super) fn extra<'a>(player: &'a Player, key: &str) -> Option<&'a Value> {
    let extra = player.extra.iter().find(|extra| extra.key == key)?;
    Some(&extra.value)
}

/// Returns an extra field of a player that is a Boolean.
pub(super) fn flag(player: &Player, key: &str) -> Option<bool> {
    match extra(player, key)? {
        Value::Bool(flag) => Some(*flag),
        _ => None,
    }
}

/// Returns an extra field of a player that is a number.
pub(super) fn number(player: &Player, key: &str) -> Option<i64> {
    match extra(player, key)? {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}
