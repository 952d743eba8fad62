//! Palworld: the REST interface of dedicated servers. HTTP.
//!
//! ```text
//!   client                               server
//!     GET /v1/api/info, password   ─►
//!          ◄─  JSON: name, version
//!     GET /v1/api/metrics          ─►
//!          ◄─  JSON: counts, frames per second
//!     GET /v1/api/players          ─►
//!          ◄─  JSON: the players
//!     GET /v1/api/settings         ─►
//!          ◄─  JSON: the settings
//! ```
//!
//! Each request has the password of the administrator. The owner enables the interface
//! (spec/palworld.md#1).

use crate::model::{Extra, Player, Status, Text, Value};
use crate::protocol::{Ask, Depth, Doc, Fault, Info};
use crate::protocols::http::{Body, File, HttpFiles, Members};
use crate::wire::Notes;
use crate::wire::json::Item;
use alloc::string::String;
use alloc::{format, vec, vec::Vec};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The protocol (spec/palworld.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "palworld",
        title: "Palworld",
        port: 8212,
        fields: &[
            Doc::new("world-id", "Id of the world"),
            Doc::new("fps", "Frames per second"),
            Doc::new("frame-time", "Time per frame in milliseconds"),
            Doc::new("uptime", "Uptime in seconds"),
            Doc::new("days", "Days in the game"),
            Doc::new("unanswered", "Files without a usable response, by name"),
        ],
        player_fields: &[Doc::new("level", "Level")],
        ..Info::HTTP
    },
    files: &[
        File::new(INFO, "request for the info", "/v1/api/info"),
        File::new(METRICS, "request for the metrics", "/v1/api/metrics"),
        File::new(PLAYERS, "request for the players", "/v1/api/players"),
        File::new(SETTINGS, "request for the settings", "/v1/api/settings"),
    ],
    denied: "it requires the password of the administrator as the auth token \
        (AdminPassword in the settings, with RESTAPIEnabled=True)",
    wants,
    headers,
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Maximum number of players and of settings that are kept.
const MAX_ENTRIES: usize = 1_024;

const INFO: &str = "info";
const METRICS: &str = "metrics";
const PLAYERS: &str = "players";
const SETTINGS: &str = "settings";

fn wants(ask: &Ask, file: &File) -> bool {
    match file.name {
        PLAYERS => ask.depth == Depth::Full && ask.has_players,
        SETTINGS => ask.depth == Depth::Full && ask.has_rules,
        _ => true,
    }
}

fn headers(ask: &Ask) -> Vec<(&'static str, String)> {
    match &ask.auth_token {
        Some(password) => {
            let login = STANDARD.encode(format!("admin:{}", password.reveal()));
            vec![("Authorization", format!("Basic {login}"))]
        }
        None => Vec::new(),
    }
}

fn is_body(file: &File, body: &Body<'_>) -> bool {
    body.has_member(match file.name {
        INFO => &["servername"],
        METRICS => &["currentplayernum", "serverfps"],
        // Other protocols have this member among others.
        PLAYERS => return body.json().is_ok_and(|json| is_only(json.root(), PLAYERS)),
        _ => &["Difficulty", "ServerPlayerMaxNum", "RESTAPIPort"],
    })
}

fn read(
    file: &File,
    body: &Body<'_>,
    _: &Ask,
    status: &mut Status,
    _: &mut Notes,
) -> Result<(), Fault> {
    let expected = "an object of the REST interface of Palworld";
    let root = body.members(is_body(file, body), expected)?;
    match file.name {
        INFO => {
            status.add_extra("world-id", root.value("worldguid"));
            status.name = root.unformatted("servername");
            status.motd = root.unformatted("description");
            status.version = root.short("version");
        }
        METRICS => {
            status.add_extra("fps", root.integer("serverfps"));
            let frame_time = root.float("serverframetime").map(Value::Float);
            status.add_extra("frame-time", frame_time);
            status.add_extra("uptime", root.integer("uptime"));
            status.add_extra("days", root.integer("days"));
            status.players.online = root.integer("currentplayernum");
            status.players.max = root.integer("maxplayernum");
        }
        PLAYERS => {
            let players = root.items(PLAYERS).take(MAX_ENTRIES).filter_map(player);
            status.players.set_list(players.collect());
        }
        _ => status.rules = root.rules(MAX_ENTRIES),
    }
    Ok(())
}

/// Returns whether this is the only member of an object.
fn is_only(item: Item<'_, '_>, key: &str) -> bool {
    item.member(key).is_some() && item.entries().count() == 1
}

/// Converts a player. Addresses and ids of accounts are private and left out (spec/palworld.md#3).
fn player(item: Members<'_, '_>) -> Option<Player> {
    let name = item.item("name")?.scalar()?;
    let mut player = Player::named(Text::unformatted(name));
    player.latency_ms = item.latency("ping");
    let level = item
        .integer("level")
        .map(|level| Extra::new("level", level));
    player.extra.extend(level);
    Some(player)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::http::status_of;

    #[test]
    fn only_wanted_files_are_requested() {
        let wanted = |ask: &Ask| -> Vec<&str> {
            let files = PROTOCOL.files.iter();
            let files = files.filter(|file| wants(ask, file));
            files.map(|file| file.name).collect()
        };
        let mut ask = Ask::default();
        assert_eq!(wanted(&ask), [INFO, METRICS, PLAYERS, SETTINGS]);
        ask.has_players = false;
        assert_eq!(wanted(&ask), [INFO, METRICS, SETTINGS]);
        ask.has_rules = false;
        assert_eq!(wanted(&ask), [INFO, METRICS]);
        ask = Ask {
            depth: Depth::Basic,
            ..Ask::default()
        };
        assert_eq!(wanted(&ask), [INFO, METRICS]);
    }

    #[test]
    fn lists_of_other_protocols_are_none() {
        assert!(status_of(&PROTOCOL, 2, r#"{"players":[]}"#).is_ok());
        let other = status_of(&PROTOCOL, 2, r#"{"playercount":0,"players":[]}"#);
        assert!(other.is_err());
    }
}
