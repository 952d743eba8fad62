//! Ace of Spades 0.75 and OpenSpades: the status server of pyspades and piqueserver. HTTP.
//!
//! ```text
//!   client             server
//!     GET /json  ─►
//!          ◄─  JSON: name, map, players
//! ```
//!
//! The owner enables the status server (spec/openspades.md#1).

use crate::model::{Player, Status, Value};
use crate::protocol::{Ask, Doc, Fault, Info};
use crate::protocols::http::{Body, File, HttpFiles, Members};
use crate::wire::Notes;
use crate::wire::json::{Item, Kind};
use alloc::vec::Vec;

/// The protocol (spec/openspades.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "openspades",
        title: "Ace of Spades",
        port: 32886,
        fields: &[
            Doc::new("identifier", "Address of the game as the server writes it"),
            Doc::new("uptime", "Uptime in seconds"),
            Doc::new("map-version", "Version of the map"),
            Doc::new("map-author", "Author of the map"),
            Doc::new("scripts", "Names of the scripts"),
            Doc::new("scores", "Scores of the teams and the limit"),
        ],
        ..Info::HTTP
    },
    files: &[File::new("status", "request for the status", "/json")],
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Maximum number of players, scripts and scores that are kept.
const MAX_ENTRIES: usize = 256;

fn is_body(_: &File, body: &Body<'_>) -> bool {
    body.has_member(&["serverIdentifier", "serverName"])
}

fn read(
    file: &File,
    body: &Body<'_>,
    ask: &Ask,
    status: &mut Status,
    _: &mut Notes,
) -> Result<(), Fault> {
    let expected = "an object of an Ace of Spades server";
    let root = body.members(is_body(file, body), expected)?;
    status.name = root.unformatted("serverName");
    status.version = root.short("serverVersion");
    status.mode = root.short("gameMode");
    let map = root.object("map");
    status.map = map.and_then(|map| map.short("name"));
    status.players.max = root.integer("maxPlayers");
    let players = root
        .item("players")
        .filter(|list| list.kind() == Kind::List);
    if let Some(players) = players {
        status.players.online = i64::try_from(players.items().count()).ok();
        if ask.has_players {
            let players = root.items("players").take(MAX_ENTRIES).map(player);
            status.players.set_list(players.collect());
        }
    }
    status.add_extra("identifier", root.value("serverIdentifier"));
    status.add_extra("uptime", root.integer("serverUptime"));
    for (key, name) in [("map-version", "version"), ("map-author", "author")] {
        status.add_extra(key, map.and_then(|map| map.value(name)));
    }
    status.add_extra("scripts", root.list("scripts", MAX_ENTRIES));
    let scores = root.item("scores").into_iter().flat_map(Item::entries);
    let scores = scores.take(MAX_ENTRIES).filter_map(|(key, value)| {
        let key = key.text()?.into();
        Some((key, Value::Int(value.integer()?)))
    });
    let scores: Vec<_> = scores.collect();
    let scores = (!scores.is_empty()).then_some(Value::Table(scores));
    status.add_extra("scores", scores);
    Ok(())
}

fn player(item: Members<'_, '_>) -> Player {
    Player {
        score: item.integer("kills"),
        latency_ms: item.latency("latency"),
        team: item.short("team"),
        ..Player::named(item.unformatted("name").unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::http::status_of;

    #[test]
    fn only_a_list_of_players_is_counted() {
        let body = r#"{"serverName":"Test","players":{"a":1}}"#;
        let (status, _) = status_of(&PROTOCOL, 0, body).unwrap();
        assert_eq!(status.players.online, None);
        let body =
            r#"{"serverName":"Test","players":[{"name":"Alice","latency":40,"team":"Blue"}]}"#;
        let (status, _) = status_of(&PROTOCOL, 0, body).unwrap();
        assert_eq!(status.players.online, Some(1));
        let player = &status.players.list[0];
        assert_eq!(player.latency_ms, Some(40));
        assert_eq!(player.team.as_deref(), Some("Blue"));
    }
}
