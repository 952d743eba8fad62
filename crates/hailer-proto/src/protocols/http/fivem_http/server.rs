//! The responder: three files, encoded once (spec/fivem-http.md#6).
//!
//! Limits: 1,024 players, 512 rules, 256 characters in each text.

use crate::model::{Carets, Codes, Player, Status, Text, Value};
use crate::protocols::http::ServedFile;
use crate::wire::{cut, json};
use alloc::string::ToString;
use alloc::vec::Vec;

/// Maximum number of players.
const MAX_PLAYERS: usize = 1_024;
/// Maximum number of variables and of resources.
const MAX_RULES: usize = 512;
/// Longest text in bytes.
const MAX_TEXT: usize = 1_024;

/// Returns the files for a status.
pub(super) fn files(status: &Status) -> Vec<ServedFile> {
    let status = &*status.with_codes(Codes::Carets(Carets::Alphanumeric));
    let file = |path, body| ServedFile { path, body };
    Vec::from([
        file("/dynamic.json", counts(status)),
        file("/players.json", players(&status.players.list)),
        file("/info.json", info(status)),
    ])
}

fn string(text: &str, out: &mut Vec<u8>) {
    json::write_text(cut(text, MAX_TEXT), out);
}

/// Appends a member whose value is a text, and a comma.
fn member(key: &str, value: &str, out: &mut Vec<u8>) {
    json::write_text(key, out);
    out.push(b':');
    string(value, out);
    out.push(b',');
}

fn close(end: u8, out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(end);
}

fn counts(status: &Status) -> Vec<u8> {
    let mut out = Vec::from(*b"{\"clients\":");
    out.extend(status.players.count().max(0).to_string().bytes());
    out.push(b',');
    let version = match status.extra("info-version") {
        Some(Value::Str(version)) => version.as_str(),
        _ => "1",
    };
    let name = status.name.as_ref().or(status.motd.as_ref());
    let name = name.map(Text::raw).unwrap_or_default();
    member(
        "gametype",
        status.mode.as_deref().unwrap_or_default(),
        &mut out,
    );
    member("hostname", name, &mut out);
    member("iv", version, &mut out);
    member(
        "mapname",
        status.map.as_deref().unwrap_or_default(),
        &mut out,
    );
    if let Some(max) = status.players.max {
        member("sv_maxclients", &max.to_string(), &mut out);
    }
    close(b'}', &mut out);
    out
}

/// Writes the players without identifiers, and with a loopback address, as servers do by default.
fn players(list: &[Player]) -> Vec<u8> {
    let mut out = Vec::from(*b"[");
    for (place, player) in (1i64..).zip(list.iter().take(MAX_PLAYERS)) {
        let id = player.extra.iter().find(|extra| extra.key == "id");
        let id = match id.map(|extra| &extra.value) {
            Some(Value::Int(id)) => *id,
            _ => place,
        };
        out.extend(b"{\"endpoint\":\"127.0.0.1\",\"id\":");
        out.extend(id.to_string().bytes());
        out.extend(b",\"identifiers\":[],\"name\":");
        string(player.name.raw(), &mut out);
        if let Some(ping) = player.latency_ms {
            out.extend(b",\"ping\":");
            out.extend(ping.to_string().bytes());
        }
        out.extend(b"},");
    }
    close(b']', &mut out);
    out
}

fn info(status: &Status) -> Vec<u8> {
    let mut out = Vec::from(*b"{");
    let motd = status.motd.as_ref().map(Text::raw);
    if let Some(Value::Bool(is_set)) = status.extra("enhanced-host-support") {
        out.extend(b"\"enhancedHostSupport\":");
        out.extend(is_set.to_string().bytes());
        out.push(b',');
    }
    if let Some(icon) = &status.icon {
        let icon = icon.data_uri();
        let base64 = icon.split_once(',').map_or("", |(_, base64)| base64);
        out.extend(b"\"icon\":");
        json::write_text(base64, &mut out);
        out.push(b',');
    }
    match status.extra("steam-ticket") {
        Some(Value::Str(ticket)) => member("requestSteamTicket", ticket, &mut out),
        Some(Value::Bool(is_set)) => {
            out.extend(b"\"requestSteamTicket\":");
            out.extend(is_set.to_string().bytes());
            out.push(b',');
        }
        _ => {}
    }
    out.extend(b"\"resources\":[");
    if let Some(Value::List(resources)) = status.extra("resources") {
        for resource in resources.iter().take(MAX_RULES) {
            if let Value::Str(resource) = resource {
                string(resource, &mut out);
                out.push(b',');
            }
        }
    }
    close(b']', &mut out);
    out.push(b',');
    if let Some(version) = &status.version {
        member("server", version, &mut out);
    }
    out.extend(b"\"vars\":{");
    for rule in status.rules.iter().take(MAX_RULES) {
        if !matches!(&*rule.key, "gamename" | "sv_projectDesc") {
            member(cut(&rule.key, MAX_TEXT), &rule.value, &mut out);
        }
    }
    if let Some(game) = &status.game {
        member("gamename", game, &mut out);
    }
    if let Some(motd) = motd {
        member("sv_projectDesc", motd, &mut out);
    }
    close(b'}', &mut out);
    out.push(b'}');
    out
}
