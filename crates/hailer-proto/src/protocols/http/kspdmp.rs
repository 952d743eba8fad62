//! DarkMultiPlayer for Kerbal Space Program: the server information. HTTP.
//!
//! ```text
//!   client         server
//!     GET /  ─►
//!          ◄─  JSON: name, slots, names of players in one text
//! ```
//!
//! The information is public (spec/kspdmp.md).

use crate::model::{Player, Status, Text};
use crate::protocol::{Ask, Fault, Info};
use crate::protocols::http::{Body, File, HttpFiles};
use crate::wire::Notes;
use crate::wire::json::Item;

/// The protocol.
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "kspdmp",
        title: "KSP - DMP",
        port: 6703,
        ..Info::HTTP
    },
    files: &[File::new("information", "request for the information", "/")],
    is_body: |_, body| body.has_member(&["server_name"]),
    read,
    ..HttpFiles::PLAIN
};

/// Maximum number of players and of settings that are kept.
const MAX_ENTRIES: usize = 1_024;
/// Members with a field in the status.
const KNOWN: [&str; 4] = ["server_name", "max_players", "players", "port"];

/// Reads the information (spec/kspdmp.md#2).
fn read(
    _: &File,
    body: &Body<'_>,
    ask: &Ask,
    status: &mut Status,
    _: &mut Notes,
) -> Result<(), Fault> {
    let expected = "an object of a DarkMultiPlayer server";
    let root = body.members(body.has_member(&["server_name"]), expected)?;
    status.name = root.unformatted("server_name");
    status.players.max = root.integer("max_players");
    status.address = root.port("port");
    // An empty text means that no player is online.
    if let Some(names) = root.item("players").and_then(Item::text) {
        let names = names.split(", ").filter(|name| !name.is_empty());
        status.players.online = i64::try_from(names.clone().count()).ok();
        if ask.has_players {
            let player = |name| Player::named(Text::unformatted(name));
            let list = names.take(MAX_ENTRIES).map(player).collect();
            status.players.set_list(list);
        }
    }
    status.rules = root.rules(MAX_ENTRIES);
    status.rules.retain(|rule| !KNOWN.contains(&&*rule.key));
    Ok(())
}
