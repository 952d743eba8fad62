//! The responder: sends the information when a client connects (spec/seven-days.md#7).
//!
//! Limits: texts of 500 bytes, messages of 4 KiB. Rules that do not fit are left out.

use super::message::{self, GAME_TYPE};
use crate::model::{Codes, Status, Text, Value, without_controls};
use crate::one_request::stream::Server;
use crate::wire::{Error, cut};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Longest text in bytes.
const MAX_TEXT: usize = 500;
/// Longest body in bytes.
const MAX_BODY: usize = 4_096;
/// Keys of rules that are not sent: members of the status, addresses and ids.
const HIDDEN: [&str; 14] = [
    "GameType",
    "GameHost",
    "GameName",
    "ServerDescription",
    "LevelName",
    "GameMode",
    "ServerVersion",
    "Port",
    "CurrentPlayers",
    "MaxPlayers",
    "IsPasswordProtected",
    "EACEnabled",
    "IP",
    "SteamID",
];
/// Another id that is not sent.
const UNIQUE_ID: &str = "UniqueId";

/// Prepared information of one server.
#[derive(Debug)]
pub struct SevenDaysServer {
    message: Vec<u8>,
}

impl SevenDaysServer {
    /// Encodes the information for this status.
    pub fn new(status: &Status) -> Self {
        let status = &*status.with_codes(Codes::None);
        let mut body = Vec::new();
        add("GameType", &String::from_utf8_lossy(GAME_TYPE), &mut body);
        let plain = |text: Option<&Text>| text.map(Text::plain);
        let name = plain(status.name.as_ref());
        let motd = plain(status.motd.as_ref());
        let save = match status.extra("save") {
            Some(Value::Str(save)) => Some(save.as_str()),
            _ => None,
        };
        for (key, value) in [
            ("GameHost", name.as_deref()),
            ("GameName", save),
            ("LevelName", status.map.as_deref()),
            ("GameMode", status.mode.as_deref()),
            ("ServerVersion", status.version.as_deref()),
            ("ServerDescription", motd.as_deref()),
        ] {
            if let Some(value) = value {
                add(key, value, &mut body);
            }
        }
        let port = status.address.as_ref().and_then(|address| address.port);
        for (key, number) in [
            ("Port", port.map(i64::from)),
            ("CurrentPlayers", Some(status.players.count())),
            ("MaxPlayers", status.players.max),
        ] {
            if let Some(number) = number {
                add(key, &format!("{number}"), &mut body);
            }
        }
        for (key, value) in [
            ("IsPasswordProtected", status.has_password),
            ("EACEnabled", status.has_anti_cheat),
        ] {
            if let Some(value) = value {
                add(key, if value { "True" } else { "False" }, &mut body);
            }
        }
        let mut lines = Vec::new();
        for rule in &status.rules {
            let key = without_controls(&rule.key);
            if HIDDEN.contains(&key.as_str()) || key == UNIQUE_ID || key.contains([':', '\n']) {
                continue;
            }
            lines.clear();
            add(&key, &rule.value, &mut lines);
            if body.len() + lines.len() + 2 <= MAX_BODY {
                body.extend_from_slice(&lines);
            }
        }
        body.extend(b"\r\n");
        let mut message = Vec::new();
        message::write(&body, &mut message);
        Self { message }
    }
}

/// Appends a pair, in one line.
fn add(key: &str, value: &str, out: &mut Vec<u8>) {
    let value = without_controls(value);
    for piece in [cut(key, MAX_TEXT), ":", cut(&value, MAX_TEXT), ";\r\n"] {
        out.extend(piece.bytes());
    }
}

impl Server for SevenDaysServer {
    fn greet(&self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.message);
        true
    }

    /// A client that sends first speaks another protocol.
    fn reply(&self, _: &[u8], _: &mut Vec<u8>) -> Result<bool, Error> {
        Err(Error::bad("request", 0, "no request"))
    }
}
