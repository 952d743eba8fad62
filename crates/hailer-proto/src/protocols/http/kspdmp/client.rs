//! The client: one file (spec/kspdmp.md#2).

use crate::model::{Player, Status, Text};
use crate::protocol::{Ask, Fault};
use crate::protocols::http::{Body, File, Files};
use crate::wire::Notes;
use crate::wire::json::Item;

/// Maximum number of players and of settings that are kept.
const MAX_ENTRIES: usize = 1_024;
/// Members with a field in the status.
const KNOWN: [&str; 4] = ["server_name", "max_players", "players", "port"];

/// The files of the protocol.
#[derive(Debug)]
pub enum KspDmpFiles {}

impl Files for KspDmpFiles {
    const FILES: &'static [File] = &[File::new("information", "request for the information", "/")];

    fn is_body(_: &File, body: &Body<'_>) -> bool {
        body.has_member(&["server_name"])
    }

    fn read(
        file: &File,
        body: &Body<'_>,
        ask: &Ask,
        status: &mut Status,
        _: &mut Notes,
    ) -> Result<(), Fault> {
        let expected = "an object of a DarkMultiPlayer server";
        let root = body.members(Self::is_body(file, body), expected)?;
        status.name = root.unformatted("server_name");
        status.players.max = root.integer("max_players");
        status.address = root.port("port");
        // An empty text means that no player is online.
        if let Some(names) = root.item("players").and_then(Item::text) {
            let names = names.split(", ").filter(|name| !name.is_empty());
            status.players.online = i64::try_from(names.clone().count()).ok();
            if ask.has_players {
                let player = |name| Player::named(Text::unformatted(name));
                status
                    .players
                    .set_list(names.take(MAX_ENTRIES).map(player).collect());
            }
        }
        status.rules = root.rules(MAX_ENTRIES);
        status.rules.retain(|rule| !KNOWN.contains(&&*rule.key));
        Ok(())
    }
}
