//! The responder: the commands of guests, read-only (spec/teamspeak3.md#8).
//!
//! Limits: 10 commands of a connection, lines of 1 KiB, texts of 1,000 bytes, 512 clients.

use super::client::VOICE_PORT;
use super::message::{self, COMMANDS, END, GREETING};
use crate::model::{Status, Text, Value, is_control};
use crate::protocol::{Connection, ConnectionStep, Received, Responder, Verdict};
use crate::token::Epoch;
use crate::wire::{Error, cut};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use memchr::memchr;

/// Largest number of commands of a connection.
const MAX_COMMANDS: u8 = 10;
/// Longest line of a client in bytes.
const MAX_LINE: usize = 1_024;
/// Longest text in bytes.
const MAX_TEXT: usize = 1_000;
/// Largest number of clients in a list.
const MAX_CLIENTS: usize = 512;
/// Version of a status without one.
const VERSION: &str = "3.13.7";

/// Responder of one server.
#[derive(Debug)]
pub struct TeamSpeakResponder(Arc<Replies>);

#[derive(Debug)]
struct Replies {
    voice_port: u16,
    version: Vec<u8>,
    info: Vec<u8>,
    clients: Vec<u8>,
}

impl TeamSpeakResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status) -> Self {
        let port = status.address.as_ref().and_then(|address| address.port);
        let voice_port = port.unwrap_or(VOICE_PORT);
        let mut version = Vec::new();
        let own = status.version.as_deref().unwrap_or(VERSION);
        pair("version", &line(own), &mut version);
        Self(Arc::new(Replies {
            voice_port,
            version,
            info: info(status, voice_port),
            clients: clients(status),
        }))
    }
}

/// Returns the start of a text without control characters except line breaks.
fn line(text: &str) -> String {
    let text = text.chars().filter(|c| *c == '\n' || !is_control(*c));
    let text: String = text.collect();
    cut(&text, MAX_TEXT).into()
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
    let queries = extra("query-clients").parse().unwrap_or(0_i64).max(0);
    let clients = status.players.count().saturating_add(queries);
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
        ("channelsonline", &extra("channels")),
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

fn clients(status: &Status) -> Vec<u8> {
    let mut out = Vec::new();
    let list = status.players.list.iter().take(MAX_CLIENTS);
    for (index, player) in list.enumerate() {
        if index > 0 {
            out.push(b'|');
        }
        let extra = |key: &str| {
            let extra = player.extra.iter().find(|extra| extra.key == key);
            match extra.map(|extra| &extra.value) {
                Some(Value::Int(number)) => *number,
                _ => index as i64 + 1,
            }
        };
        pair("clid", &extra("id").to_string(), &mut out);
        pair("cid", &extra("channel").to_string(), &mut out);
        // Ids of accounts are private.
        pair("client_database_id", "0", &mut out);
        pair("client_nickname", &line(&player.name.plain()), &mut out);
        pair("client_type", "0", &mut out);
    }
    out
}

impl Responder for TeamSpeakResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(TeamSpeakConnection {
            replies: Arc::clone(&self.0),
            has_greeted: false,
            has_server: false,
            commands: 0,
        }))
    }
}

#[derive(Debug)]
struct TeamSpeakConnection {
    replies: Arc<Replies>,
    has_greeted: bool,
    /// Whether the client has selected the virtual server.
    has_server: bool,
    /// Commands so far.
    commands: u8,
}

/// Appends a line.
fn write_line(line: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(line);
    out.extend_from_slice(END);
}

impl TeamSpeakConnection {
    fn greet(&mut self, out: &mut Vec<u8>) {
        self.has_greeted = true;
        write_line(GREETING, out);
        let welcome = b"Welcome to the TeamSpeak 3 ServerQuery interface, type \"help\" for a list of commands.";
        write_line(welcome, out);
    }

    /// Handles one command. Returns whether it ends the connection.
    fn handle(&mut self, command: &[u8], out: &mut Vec<u8>) -> bool {
        let mut words = command.split(|byte| *byte == b' ');
        let outcome: &[u8] = match words.next().unwrap_or_default() {
            b"" => return false,
            b"use" => {
                let port = format!("port={}", self.replies.voice_port);
                self.has_server = words.any(|word| word == b"sid=1" || word == port.as_bytes());
                if self.has_server {
                    b"error id=0 msg=ok"
                } else {
                    b"error id=1024 msg=invalid\\sserverID"
                }
            }
            b"serverinfo" | b"clientlist" | b"channellist" if !self.has_server => {
                b"error id=1024 msg=invalid\\sserverID"
            }
            b"serverinfo" => {
                write_line(&self.replies.info, out);
                b"error id=0 msg=ok"
            }
            b"clientlist" if self.replies.clients.is_empty() => {
                b"error id=1281 msg=database\\sempty\\sresult\\sset"
            }
            b"clientlist" => {
                write_line(&self.replies.clients, out);
                b"error id=0 msg=ok"
            }
            b"version" => {
                write_line(&self.replies.version, out);
                b"error id=0 msg=ok"
            }
            b"channellist" => b"error id=1281 msg=database\\sempty\\sresult\\sset",
            b"help" | b"quit" => b"error id=0 msg=ok",
            b"login" => b"error id=520 msg=invalid\\sloginname\\sor\\spassword",
            _ => b"error id=256 msg=command\\snot\\sfound",
        };
        self.commands += 1;
        write_line(outcome, out);
        command == b"quit"
    }
}

/// Returns whether bytes start like one of the known commands.
fn is_own(bytes: &[u8]) -> bool {
    let word = bytes.split(|byte| byte.is_ascii_whitespace()).next();
    let word = word.unwrap_or_default();
    let is_whole = word.len() < bytes.len();
    !word.is_empty()
        && COMMANDS.iter().any(|command| {
            command.as_bytes().starts_with(word) && (!is_whole || command.len() == word.len())
        })
}

impl Connection for TeamSpeakConnection {
    fn open(&mut self, out: &mut Vec<u8>) -> ConnectionStep {
        self.greet(out);
        ConnectionStep::Wait
    }

    fn receive(&mut self, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        if !self.has_greeted {
            // The client did not wait for the greeting.
            if !is_own(bytes) {
                return Received {
                    consumed: 0,
                    step: ConnectionStep::Pass,
                };
            }
            self.greet(out);
        }
        let mut consumed = 0;
        let step = loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let end = memchr(b'\n', rest);
            if end.unwrap_or(rest.len()) > MAX_LINE {
                break ConnectionStep::Bad(Error::limit("line", consumed, MAX_LINE));
            }
            let Some(end) = end else {
                break ConnectionStep::Wait;
            };
            let command = rest.get(..end).unwrap_or_default().trim_ascii();
            consumed += end + 1;
            if self.commands >= MAX_COMMANDS {
                write_line(b"error id=524 msg=client\\sis\\sflooding", out);
                break ConnectionStep::Close;
            }
            if self.handle(command, out) {
                break ConnectionStep::Close;
            }
        };
        Received { consumed, step }
    }
}
