//! Eco: the front page of the game's web server. HTTP.
//!
//! ```text
//!   client                     server
//!     GET /frontpage   ─►
//!          ◄─  JSON: Info with name, counts, names of players; charts
//!     GET /info        ─►      if there is no front page
//!          ◄─  JSON: the same without the charts
//! ```
//!
//! The page is public (spec/eco.md).

use crate::model::{Status, Text, Value};
use crate::protocol::{Ask, Doc, Fault, Info};
use crate::protocols::http::{Body, File, HttpFiles, Members};
use crate::wire::json::{Item, Kind};
use crate::wire::{Error, Notes, deviations};

deviations! {
    NULL_LIST "null-list" "the list of players is null instead of empty";
    TAGS "tags" "a text has tags for colors and sizes";
}

/// The protocol (spec/eco.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "eco",
        title: "Eco",
        port: 3001,
        fields: &[
            Doc::new(
                "total-players",
                "Players who ever joined; not a number of slots",
            ),
            Doc::new("admin-online", "Whether an administrator is online"),
            Doc::new("category", "Category"),
            Doc::new("language", "Language"),
            Doc::new("uptime", "Age of the world in seconds"),
            Doc::new(
                "time-left",
                "Seconds until the meteor falls; negative without one",
            ),
            Doc::new("meteor", "Whether there is a meteor"),
            Doc::new("animals", "Number of animals"),
            Doc::new("plants", "Number of plants"),
            Doc::new("laws", "Number of laws"),
            Doc::new("leader", "Name of the leader"),
            Doc::new("world-size", "Size of the world as the server writes it"),
            Doc::new("economy", "Trades and contracts in words"),
            Doc::new("web-port", "Port of the web server"),
            Doc::new("lan", "Whether the server is one for a local network"),
        ],
        deviations: ALL,
        ..Info::HTTP
    },
    files: &[
        File::new("front page", "request for the front page", "/frontpage"),
        File::new("info", "request for the info", "/info").fallback(),
    ],
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Maximum number of players that are kept.
const MAX_PLAYERS: usize = 4_096;
/// Members that belong to this protocol.
const MARKS: [&str; 3] = ["Info", "OnlinePlayersNames", "TotalPlayers"];

fn is_body(file: &File, body: &Body<'_>) -> bool {
    body.has_member(&["Info"]) != file.is_fallback && body.has_member(&MARKS)
}

fn read(
    _: &File,
    body: &Body<'_>,
    ask: &Ask,
    status: &mut Status,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let root = Members(body.json()?.root());
    let info = root.object("Info").unwrap_or(root);
    let has_count = info.item("OnlinePlayers").is_some();
    if !has_count && info.item("Description").is_none() {
        let expected = "an object with the state of an Eco server";
        return Err(Error::bad("Info", info.0.at(), expected).into());
    }
    let mut text = |key| {
        let item = info.item(key)?;
        let tagged = item.scalar()?;
        let text = Text::tags(tagged);
        let plain = text.plain();
        if plain.len() < text.raw().len() {
            notes.deviation(&TAGS, item.at());
        }
        (!plain.trim().is_empty()).then_some(text)
    };
    status.name = text("Description");
    status.motd = text("DetailedDescription");
    status.version = info.short("Version");
    status.has_password = info.boolean("HasPassword");
    status.address = info.port("GamePort");
    status.players.online = info.integer("OnlinePlayers");
    // The number of all accounts is not a number of slots (spec/eco.md#3).
    status.players.max = info.integer("MaxActivePlayers").filter(|max| *max > 0);
    let mut entries = info.0.entries();
    let names = entries.find(|(key, _)| key.bytes() == b"OnlinePlayersNames");
    if let Some((_, names)) = names {
        if names.kind() == Kind::Null {
            notes.deviation(&NULL_LIST, names.at());
        }
        let is_list = matches!(names.kind(), Kind::Null | Kind::List);
        if ask.has_players && is_list {
            let names = info.names("OnlinePlayersNames", MAX_PLAYERS);
            status.players.set_list(names);
        }
    }
    for (key, name) in EXTRAS {
        status.add_extra(name, info.item(key).and_then(value));
    }
    Ok(())
}

/// Members without a field in the status.
const EXTRAS: [(&str, &str); 15] = [
    ("TotalPlayers", "total-players"),
    ("AdminOnline", "admin-online"),
    ("Category", "category"),
    ("Language", "language"),
    ("TimeSinceStart", "uptime"),
    ("TimeLeft", "time-left"),
    ("HasMeteor", "meteor"),
    ("Animals", "animals"),
    ("Plants", "plants"),
    ("Laws", "laws"),
    ("Leader", "leader"),
    ("WorldSize", "world-size"),
    ("EconomyDesc", "economy"),
    ("WebPort", "web-port"),
    ("IsLAN", "lan"),
];

/// Converts a scalar. Seconds lose their fraction.
fn value(item: Item<'_, '_>) -> Option<Value> {
    match item.kind() {
        Kind::Bool(is_set) => Some(Value::Bool(is_set)),
        Kind::Number => item.integer().map(Value::Int),
        Kind::Text => {
            let text = item.text()?;
            let text = Text::tags(text).plain();
            (!text.is_empty()).then(|| Value::from(text))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::http::status_of;

    #[test]
    fn slots_are_unknown_without_a_positive_number() {
        for (slots, max) in [("20", Some(20)), ("-1", None), ("0", None), ("null", None)] {
            let body = alloc::format!(
                "{{\"Info\":{{\"OnlinePlayers\":0,\"TotalPlayers\":9,\"MaxActivePlayers\":{slots}}}}}"
            );
            let (status, _) = status_of(&PROTOCOL, 0, &body).unwrap();
            assert_eq!(status.players.max, max, "{slots}");
        }
    }

    #[test]
    fn texts_of_tags_only_are_empty() {
        let body = r#"{"Info":{"Description":"<b></b>","OnlinePlayers":0}}"#;
        let (status, _) = status_of(&PROTOCOL, 0, body).unwrap();
        assert_eq!(status.name, None);
    }
}
