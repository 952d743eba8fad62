//! The responder: the commands of guests, read-only (spec/teamspeak3.md#8).
//!
//! Limits: 10 commands of a connection, lines of 1 KiB, texts of 1,000 bytes, 512 clients.

use super::client::VOICE_PORT;
use super::message::{self, COMMANDS, END, GREETING};
use crate::model::{Codes, Status, Text, Value};
use crate::protocol::ConnectionStep;
use crate::protocols::teamspeak::command_lines::{
    DEFAULT_CHANNEL, Guest, MAX_COMMANDS, MAX_PLAYERS, Replies, channel, channel_name,
    channel_sizes, number, without_controls,
};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Longest text in bytes.
const MAX_TEXT: usize = 1_000;
/// Name of the client that asks.
const QUERY_CLIENT: &str = "Query";
/// Version of a status without one.
const VERSION: &str = "3.13.7";

/// Prepared replies of one server.
pub(super) struct Server {
    voice_port: u16,
    version: Vec<u8>,
    info: Vec<u8>,
    clients: Vec<u8>,
    channels: Vec<u8>,
}

impl Server {
    /// Encodes the replies for this status.
    pub(super) fn new(status: &Status) -> Self {
        let status = &*status.with_codes(Codes::None);
        let port = status.address.as_ref().and_then(|address| address.port);
        // The port of queries is not that for voice.
        let port = port.filter(|port| *port != super::INFO.port);
        let voice_port = port.unwrap_or(VOICE_PORT);
        let mut version = Vec::new();
        let own = status.version.as_deref().unwrap_or(VERSION);
        pair("version", &line(own), &mut version);
        Self {
            voice_port,
            version,
            info: info(status, voice_port),
            clients: clients(status),
            channels: channels(status),
        }
    }
}

/// Returns the start of a text without control characters except line breaks.
fn line(text: &str) -> String {
    without_controls(text, Some('\n'), MAX_TEXT)
}

/// Appends a key and its value, with a space before them unless they are the first.
fn pair(key: &str, value: &str, out: &mut Vec<u8>) {
    if out.last().is_some_and(|last| *last != b'|') {
        out.push(b' ');
    }
    out.extend(key.bytes());
    if !value.is_empty() {
        out.push(b'=');
        message::escape(value, out);
    }
}

fn info(status: &Status, voice_port: u16) -> Vec<u8> {
    let plain = |text: Option<&Text>| line(&text.map(Text::plain).unwrap_or_default());
    let extra = |key: &str| match status.extra(key) {
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::Float(number)) => number.to_string(),
        Some(Value::Str(text)) => line(text),
        _ => String::new(),
    };
    // The client that asks is one of them.
    let queries = extra("query-clients").parse().unwrap_or(0_i64).max(1);
    let clients = status.players.count().saturating_add(queries);
    let channels = match extra("channels") {
        none if none.is_empty() => channel_sizes(status).len().to_string(),
        channels => channels,
    };
    let max = status.players.max.unwrap_or(0);
    let has_password = status.has_password.unwrap_or(false);
    let mut out = Vec::new();
    for (key, value) in [
        ("name", plain(status.name.as_ref()).as_str()),
        ("welcomemessage", &plain(status.motd.as_ref())),
        ("platform", &extra("platform")),
        (
            "version",
            &line(status.version.as_deref().unwrap_or_default()),
        ),
        ("maxclients", &max.to_string()),
        ("clientsonline", &clients.to_string()),
        ("queryclientsonline", &queries.to_string()),
        ("channelsonline", &channels),
        ("reserved_slots", &extra("reserved-slots")),
        ("uptime", &extra("uptime")),
        ("flag_password", if has_password { "1" } else { "0" }),
        ("port", &voice_port.to_string()),
        ("status", &extra("state")),
        ("total_ping", &extra("average-ping")),
    ] {
        pair(&format!("virtualserver_{key}"), value, &mut out);
    }
    out
}

/// Returns the list of channels.
fn channels(status: &Status) -> Vec<u8> {
    let mut out = Vec::new();
    for (order, (channel, clients)) in channel_sizes(status).into_iter().enumerate() {
        if order > 0 {
            out.push(b'|');
        }
        pair("cid", &channel.to_string(), &mut out);
        pair("pid", "0", &mut out);
        pair("channel_order", &order.to_string(), &mut out);
        pair("channel_name", &channel_name(channel), &mut out);
        pair("channel_topic", "", &mut out);
        pair("total_clients", &clients.to_string(), &mut out);
        pair("channel_needed_subscribe_power", "0", &mut out);
    }
    out
}

fn clients(status: &Status) -> Vec<u8> {
    let mut out = Vec::new();
    let list = status.players.list.iter().take(MAX_PLAYERS);
    for (index, player) in list.clone().enumerate() {
        if index > 0 {
            out.push(b'|');
        }
        let id = number(player, "id").unwrap_or(index as i64 + 1);
        pair("clid", &id.to_string(), &mut out);
        pair("cid", &channel(player).to_string(), &mut out);
        // Ids of accounts are private.
        pair("client_database_id", "0", &mut out);
        pair("client_nickname", &line(&player.name.plain()), &mut out);
        pair("client_type", "0", &mut out);
    }
    // As real servers, with the client of the query itself: others wait for a list that is not
    // empty.
    if !out.is_empty() {
        out.push(b'|');
    }
    let count = list.len() as i64;
    let ids = list.filter_map(|player| number(player, "id"));
    let id = ids.max().unwrap_or(0).max(count).saturating_add(1);
    pair("clid", &id.to_string(), &mut out);
    pair("cid", &DEFAULT_CHANNEL.to_string(), &mut out);
    pair("client_database_id", "0", &mut out);
    pair("client_nickname", QUERY_CLIENT, &mut out);
    pair("client_type", "1", &mut out);
    out
}

/// Appends a line.
fn write_line(line: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(line);
    out.extend_from_slice(END);
}

impl Replies for Server {
    const COMMANDS: &'static [&'static [u8]] = &COMMANDS;
    const MAX_LINE: usize = 1_024;

    fn greet(out: &mut Vec<u8>) {
        write_line(GREETING, out);
        let welcome = b"Welcome to the TeamSpeak 3 ServerQuery interface, type \"help\" for a list of commands.";
        write_line(welcome, out);
    }

    fn run(
        &self,
        command: &[u8],
        _: usize,
        guest: &mut Guest,
        out: &mut Vec<u8>,
    ) -> Option<ConnectionStep> {
        if guest.commands >= MAX_COMMANDS {
            write_line(b"error id=524 msg=client\\sis\\sflooding", out);
            return Some(ConnectionStep::Close);
        }
        let mut words = command.split(|byte| *byte == b' ');
        let word = words.next().unwrap_or_default();
        let data = match word {
            b"serverinfo" => Some(&self.info),
            b"clientlist" => Some(&self.clients),
            b"channellist" => Some(&self.channels),
            b"version" => Some(&self.version),
            _ => None,
        };
        let outcome: &[u8] = match (word, data) {
            (b"", _) => return None,
            (b"use", _) => {
                // A status often has another port than that for voice.
                let ports = [self.voice_port, VOICE_PORT].map(|port| format!("port={port}"));
                guest.has_server = words.any(|word| {
                    word == b"1"
                        || word == b"sid=1"
                        || ports.iter().any(|port| port.as_bytes() == word)
                });
                if guest.has_server {
                    b"error id=0 msg=ok"
                } else {
                    b"error id=1024 msg=invalid\\sserverID"
                }
            }
            (b"serverinfo" | b"clientlist" | b"channellist", _) if !guest.has_server => {
                b"error id=1024 msg=invalid\\sserverID"
            }
            (_, Some(data)) => {
                write_line(data, out);
                b"error id=0 msg=ok"
            }
            (b"help" | b"quit", _) => b"error id=0 msg=ok",
            (b"login", _) => b"error id=520 msg=invalid\\sloginname\\sor\\spassword",
            _ => b"error id=256 msg=command\\snot\\sfound",
        };
        guest.commands += 1;
        write_line(outcome, out);
        (command == b"quit").then_some(ConnectionStep::Close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Extra, Player};
    use crate::protocol::Options;
    use crate::protocols::teamspeak::command_lines::respond;
    use crate::token::Epoch;

    /// Returns the reply to a command after the virtual server was selected.
    fn reply(status: &Status, command: &str) -> String {
        let responder = respond(&Options::default(), Server::new(status)).unwrap();
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut connection = responder.connection(from).unwrap();
        connection.open(&mut Vec::new());
        let refused = b"error id=1024 msg=invalid\\sserverID\n\r";
        for (select, expected) in [
            ("use", &refused[..]),
            ("use port=9987", b"error id=0 msg=ok\n\r"),
        ] {
            let mut out = Vec::new();
            connection.receive(Epoch(1), format!("{select}\n").as_bytes(), &mut out);
            assert_eq!(out, expected, "{select}");
        }
        let mut out = Vec::new();
        connection.receive(Epoch(1), format!("{command}\n").as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Some clients wait for a list that is not empty.
    #[test]
    fn lists_the_channels_of_clients_and_the_default_one() {
        // `hailer serve` adds the port where it listens, which is not the one for voice.
        let mut status = Status {
            address: Some(crate::model::Address {
                host: None,
                port: Some(10_011),
            }),
            ..Status::default()
        };
        let row = |id, name: &str, clients| {
            format!(
                "cid={id} pid=0 channel_order={} channel_name={name} channel_topic \
                 total_clients={clients} channel_needed_subscribe_power=0",
                if id == 1 { 0 } else { 1 }
            )
        };
        let end = "\n\rerror id=0 msg=ok\n\r";
        let empty = row(1, "Default\\sChannel", 0) + end;
        assert_eq!(reply(&status, "channellist -topic"), empty);
        let query = "clid=1 cid=1 client_database_id=0 client_nickname=Query client_type=1";
        assert_eq!(reply(&status, "clientlist"), format!("{query}{end}"));
        let info = reply(&status, "serverinfo");
        assert!(
            info.contains("_clientsonline=1 virtualserver_queryclientsonline=1 "),
            "{info}"
        );

        let named = |name: &str| Player::named(Text::unformatted(name));
        let mut other = named("Cy");
        other.extra.push(Extra::new("channel", 7_i64));
        let players = [named("Al"), named("Bo"), other];
        status.players.set_list(players.into());
        let [first, second] = [row(1, "Default\\sChannel", 2), row(7, "Channel\\s7", 1)];
        let expected = format!("{first}|{second}{end}");
        assert_eq!(reply(&status, "channellist"), expected);
        let info = reply(&status, "serverinfo");
        assert!(info.contains("virtualserver_channelsonline=2 "), "{info}");
        assert!(info.contains("virtualserver_port=9987 "), "{info}");
        let clients = reply(&status, "clientlist");
        assert!(clients.contains("clid=2 cid=1 "), "{clients}");
        assert!(
            clients.contains(
                "|clid=4 cid=1 client_database_id=0 client_nickname=Query client_type=1\n"
            ),
            "{clients}"
        );
        assert!(clients.contains("clid=3 cid=7 "), "{clients}");
    }
}
