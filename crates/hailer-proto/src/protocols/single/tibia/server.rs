//! The responder: one reply, encoded once (spec/tibia.md#7).
//!
//! Limits: texts of 500 characters.

use super::message;
use crate::model::{Codes, Status, Text, Value, is_control};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Longest text in characters.
const MAX_CHARS: usize = 500;

/// Returns the reply for this status.
pub(super) fn reply(status: &Status) -> Vec<u8> {
    let status = &*status.with_codes(Codes::None);
    let mut out = Vec::from(*b"<?xml version=\"1.0\"?><tsqp version=\"1.0\"><serverinfo");
    let extra = |key: &str| match status.extra(key) {
        Some(Value::Str(text)) => String::from(text.as_str()),
        Some(Value::Int(number)) => format!("{number}"),
        _ => String::new(),
    };
    let plain = |text: Option<&Text>| text.map(Text::plain).unwrap_or_default();
    let version = status.version.as_deref().unwrap_or_default();
    let port = status.address.as_ref().and_then(|address| address.port);
    let port = port.map(|port| format!("{port}")).unwrap_or_default();
    for (name, value) in [
        ("uptime", extra("uptime").as_str()),
        ("servername", &plain(status.name.as_ref())),
        ("port", &port),
        ("location", &extra("location")),
        ("url", &extra("url")),
        ("server", &extra("software")),
        ("version", version),
        ("client", &extra("client")),
    ] {
        attribute(name, value, &mut out);
    }
    out.extend(b"/><players");
    let players = &status.players;
    attribute("online", &format!("{}", players.count()), &mut out);
    let max = players.max.map(|max| format!("{max}"));
    attribute("max", &max.unwrap_or_default(), &mut out);
    attribute("peak", &extra("peak"), &mut out);
    out.extend(b"/><map");
    let map = status.map.as_deref().unwrap_or_default();
    for (name, value) in [
        ("name", map),
        ("author", &extra("map-author")),
        ("width", &extra("width")),
        ("height", &extra("height")),
    ] {
        attribute(name, value, &mut out);
    }
    out.extend(b"/><motd>");
    message::escape(&line(&plain(status.motd.as_ref())), &mut out);
    out.extend(b"</motd></tsqp>");
    out
}

fn attribute(name: &str, value: &str, out: &mut Vec<u8>) {
    if value.is_empty() {
        return;
    }
    out.push(b' ');
    out.extend(name.bytes());
    out.extend(b"=\"");
    message::escape(&line(value), out);
    out.push(b'"');
}

/// Returns the start of a text without control characters.
fn line(text: &str) -> String {
    let text = text.chars().filter(|c| !is_control(*c));
    text.take(MAX_CHARS).collect()
}
