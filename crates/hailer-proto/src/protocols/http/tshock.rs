//! TShock: the REST interface of modded Terraria servers. HTTP.
//!
//! ```text
//!   client                                               server
//!     GET /v2/server/status?players=true&rules=true ─►
//!          ◄─  JSON: name, world, counts, players, rules
//! ```
//!
//! The owner enables the interface, and may require a token (spec/tshock.md#1).

use crate::model::{Player, Status, Text};
use crate::protocol::{Ask, Depth, Doc, Fault, Info};
use crate::protocols::http::{Body, File, HttpFiles, Members, encoded};
use crate::wire::json::{Item, Kind};
use crate::wire::{Notes, deviations};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

deviations! {
    PLAYERS_TEXT "players-text" "the players are one text with commas instead of a list";
    VERSION_OBJECT "version-object" "the version of TShock is an object instead of a text";
}

/// The protocol (spec/tshock.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "tshock",
        title: "Terraria (TShock)",
        port: 7878,
        fields: &[
            Doc::new("tshock-version", "Version of TShock"),
            Doc::new("uptime", "Uptime as the server writes it"),
        ],
        deviations: ALL,
        ..Info::HTTP
    },
    files: &[File::new(
        "status",
        "request for the status",
        "/v2/server/status",
    )],
    denied: DENIED,
    path,
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Maximum number of players and of rules that are kept.
const MAX_ENTRIES: usize = 1_024;

fn path(ask: &Ask, file: &File) -> Cow<'static, str> {
    let is_full = ask.depth == Depth::Full;
    let mut path = format!(
        "{}?players={}&rules={}",
        file.path,
        is_full && ask.has_players,
        is_full && ask.has_rules
    );
    if let Some(token) = &ask.auth_token {
        path.push_str("&token=");
        path.push_str(&encoded(token.reveal()));
    }
    path.into()
}

fn is_body(_: &File, body: &Body<'_>) -> bool {
    body.has_member(&["serverversion", "tshockversion", "playercount"])
}

fn read(
    _: &File,
    body: &Body<'_>,
    ask: &Ask,
    status: &mut Status,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let root = Members(body.json()?.root());
    // Errors come with HTTP status 200 too.
    match root.integer("status") {
        Some(401 | 403) => return Err(denied()),
        Some(200) | None => {}
        Some(_) => return Err(Fault::Misbehaved("a status other than 200 in the JSON")),
    }
    let online = root.integer("playercount");
    let expected = "an object with the status of a TShock server";
    body.members(online.is_some(), expected)?;
    status.name = root.unformatted("name");
    status.map = root.short("world");
    status.version = root.short("serverversion");
    status.has_password = root.boolean("serverpassword");
    status.players.online = online;
    status.players.max = root.integer("maxplayers");
    status.address = root.port("port");
    let version = root
        .item("tshockversion")
        .and_then(|item| version(item, notes));
    status.add_extra("tshock-version", version);
    status.add_extra("uptime", root.value("uptime"));
    if ask.depth != Depth::Full {
        return Ok(());
    }
    if let Some(names) = root.item("players").filter(|_| ask.has_players)
        && let Some(text) = names.text()
    {
        notes.deviation(&PLAYERS_TEXT, names.at());
        let names = text.split(',').map(str::trim);
        let names = names.filter(|name| !name.is_empty()).take(MAX_ENTRIES);
        let player = |name| Player::named(Text::unformatted(name));
        status.players.set_list(names.map(player).collect());
    } else if ask.has_players && root.item("players").is_some() {
        let player = |item: Members<'_, '_>| {
            // Names of accounts and groups are private (spec/tshock.md#3).
            let name = item.item("nickname")?.scalar()?;
            Some(Player {
                team: item.short("team"),
                ..Player::named(Text::unformatted(name))
            })
        };
        let players = root.items("players").take(MAX_ENTRIES).filter_map(player);
        status.players.set_list(players.collect());
    }
    if let Some(rules) = root.object("rules") {
        status.rules = rules.rules(MAX_ENTRIES);
    }
    Ok(())
}

const DENIED: &str = "it requires a token as the auth token, which its owner creates in TShock";

fn denied() -> Fault {
    Fault::Refused {
        reason: DENIED,
        endpoints: &[],
    }
}

/// Returns the version of TShock, which is a text or an object of numbers.
fn version(item: Item<'_, '_>, notes: &mut Notes) -> Option<String> {
    if item.kind() != Kind::Object {
        return item.scalar().map(Cow::into_owned);
    }
    notes.deviation(&VERSION_OBJECT, item.at());
    let parts = ["Major", "Minor", "Build", "Revision"];
    let parts = parts.iter().map_while(|part| item.member(part)?.integer());
    let parts: Vec<String> = parts
        .filter(|part| *part >= 0)
        .map(|part| format!("{part}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::http::status_of;

    #[test]
    fn errors_in_the_body_are_refusals() {
        for status in ["\"401\"", "\"403\"", "403"] {
            let body = alloc::format!("{{\"status\":{status},\"error\":\"Not authorized.\"}}");
            let read = status_of(&PROTOCOL, 0, &body);
            assert!(matches!(read, Err(Fault::Refused { .. })), "{status}");
        }
        let other = status_of(&PROTOCOL, 0, r#"{"status":"400"}"#);
        assert!(matches!(other, Err(Fault::Misbehaved(_))));
    }

    #[test]
    fn missing_parts_of_a_version_are_left_out() {
        let body =
            r#"{"playercount":0,"tshockversion":{"Major":5,"Minor":2,"Build":0,"Revision":-1}}"#;
        let (status, deviations) = status_of(&PROTOCOL, 0, body).unwrap();
        assert_eq!(status.extra("tshock-version"), Some(&"5.2.0".into()));
        assert_eq!(deviations, ["version-object"]);
    }
}
