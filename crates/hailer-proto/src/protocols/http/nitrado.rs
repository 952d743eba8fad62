//! Nitrado Query: a plugin of Hytale servers with a web server. HTTP with TLS.
//!
//! ```text
//!   client                        server
//!     GET /Nitrado/Query  ─►
//!             ◄─  JSON: Basic, Server, Universe, Players, Plugins, as far as they are public
//! ```
//!
//! Nothing is public by default (spec/nitrado.md#2).
//!
//! Limits: 4,096 players, 4,096 plugins.

use crate::model::{Address, Extra, Player, Rows, Status, Text, Value, uuid_from_text};
use crate::protocol::{Ask, Doc, Fault, Info, Tls};
use crate::protocols::http::{Body, File, HttpFiles, Members};
use crate::wire::json::Item;
use crate::wire::{Notes, deviations};

deviations! {
    BASIC_ONLY "basic-only" "only the section with name and counts is public";
    NO_COUNT "no-count" "no public section has the number of players; the list is counted";
}

/// The protocol (spec/nitrado.md#3).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "nitrado",
        title: "Nitrado Query",
        port: 5523,
        fields: &[
            Doc::new("revision", "Revision of the game"),
            Doc::new("patchline", "Patch line of the game"),
            Doc::new("protocol-version", "Number of the game's own protocol"),
            Doc::new(
                "protocol-hash",
                "Checksum of the game's own protocol, as text",
            ),
            Doc::new(
                "protocol-crc",
                "Checksum of the game's own protocol, as a signed number",
            ),
            Doc::new("default-world", "World that new players enter"),
            Doc::new("plugins", "Plugins of the server with version and state"),
        ],
        player_fields: &[Doc::new("world", "World that the player is in")],
        deviations: ALL,
        ..Info::HTTP
    },
    files: &[File::new(
        "query",
        "request for the query",
        "/Nitrado/Query",
    )],
    denied: "it shows nothing to the public: its owner must grant the group \
        ANONYMOUS permissions such as nitrado.query.web.read.basic",
    tls: Tls::Optional,
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Limit on players and on plugins.
const MAX_ENTRIES: usize = 4_096;
/// Sections of the file.
const SECTIONS: [&str; 5] = ["Basic", "Server", "Universe", "Players", "Plugins"];
/// Columns of the list of plugins.
static PLUGIN_COLUMNS: &[&str] = &["name", "version", "state"];

fn is_body(_: &File, body: &Body<'_>) -> bool {
    body.has_member(&SECTIONS)
}

fn read(
    file: &File,
    body: &Body<'_>,
    ask: &Ask,
    status: &mut Status,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let expected = "an object with a section such as Basic or Server";
    let root = body.members(is_body(file, body), expected)?;
    let basic = root.object("Basic");
    let server = root.object("Server");
    let universe = root.object("Universe");
    if basic.is_some() && server.is_none() && universe.is_none() {
        notes.deviation(&BASIC_ONLY, root.0.at());
    }
    // The first section that has a value counts (spec/nitrado.md#3).
    let find = |key: &str| {
        let mut sections = [basic, server, universe].into_iter().flatten();
        sections.find(|section| section.item(key).is_some())
    };
    let text = |key: &str| find(key)?.text(key);
    let integer = |key: &str| find(key)?.integer(key);
    status.name = text("Name").map(Text::unformatted);
    status.version = text("Version").map(Into::into);
    status.players.max = integer("MaxPlayers");
    status.players.online = integer("CurrentPlayers");
    status.address = text("Address").and_then(|address| parse_address(&address));
    for (key, name) in [
        ("Revision", "revision"),
        ("Patchline", "patchline"),
        ("ProtocolVersion", "protocol-version"),
        ("ProtocolHash", "protocol-hash"),
        ("ProtocolCrc", "protocol-crc"),
        ("DefaultWorld", "default-world"),
    ] {
        let value = match integer(key) {
            Some(number) if key != "ProtocolHash" => Some(Value::Int(number)),
            _ => text(key).map(|text| Value::Str(text.into())),
        };
        status.add_extra(name, value);
    }
    if let Some(players) = root.item("Players") {
        read_players(players, ask, status, notes);
    }
    if let Some(plugins) = root.item("Plugins") {
        read_plugins(plugins, status);
    }
    Ok(())
}

/// Parses a host and a port. A text without a port is none.
fn parse_address(text: &str) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    Some(Address {
        host: (!host.is_empty()).then(|| host.into()),
        port: Some(port.parse().ok()?),
    })
}

fn read_players(list: Item<'_, '_>, ask: &Ask, status: &mut Status, notes: &mut Notes) {
    let mut players = alloc::vec::Vec::new();
    for item in list.items().take(MAX_ENTRIES).map(Members) {
        let Some(name) = item.unformatted("Name") else {
            continue;
        };
        let mut player = Player::named(name);
        player.uuid = item.text("UUID").and_then(|uuid| uuid_from_text(&uuid));
        let world = item.value("World").map(|world| Extra::new("world", world));
        player.extra.extend(world);
        players.push(player);
    }
    if status.players.online.is_none() {
        notes.deviation(&NO_COUNT, list.at());
        status.players.online = i64::try_from(players.len()).ok();
    }
    if ask.has_players {
        status.players.set_list(players);
    }
}

fn read_plugins(list: Item<'_, '_>, status: &mut Status) {
    let mut rows = Rows::with_capacity(&PLUGIN_COLUMNS, 0);
    for (name, plugin) in list.entries().take(MAX_ENTRIES) {
        let name = crate::wire::by_content(name.bytes()).0;
        let [version, state] = ["Version", "State"].map(|key| Members(plugin).text(key));
        rows.push([Some(&*name), version.as_deref(), state.as_deref()]);
    }
    let rows = (!rows.is_empty()).then_some(Value::Rows(rows));
    status.add_extra("plugins", rows);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::http::status_of;

    #[test]
    fn the_first_section_with_a_value_counts() {
        let body = r#"{"Basic":{"Name":"A"},"Server":{"Name":"B","Version":"1"}}"#;
        let (status, deviations) = status_of(&PROTOCOL, 0, body).unwrap();
        assert_eq!(status.title().as_deref(), Some("A"));
        assert_eq!(status.version.as_deref(), Some("1"));
        assert!(deviations.is_empty());
        for (body, met) in [
            (
                r#"{"Basic":{"Name":"A"},"Universe":{"CurrentPlayers":1}}"#,
                &[][..],
            ),
            (r#"{"Basic":{"Name":"A"}}"#, &["basic-only"]),
        ] {
            let (_, deviations) = status_of(&PROTOCOL, 0, body).unwrap();
            assert_eq!(deviations, met, "{body}");
        }
    }

    #[test]
    fn addresses_have_a_port() {
        for (text, host, port) in [
            ("play.example:5520", Some("play.example"), 5520),
            ("[2001:db8::1]:5520", Some("[2001:db8::1]"), 5520),
            (":1", None, 1),
        ] {
            let address = parse_address(text).unwrap();
            assert_eq!((address.host.as_deref(), address.port), (host, Some(port)));
        }
        for wrong in ["", "play.example", "a:", "a:70000"] {
            assert_eq!(parse_address(wrong), None, "{wrong}");
        }
    }
}
