//! Ids of node-gamedig's games and protocols.

use super::GamedigError;
use crate::support::catalog;
use hailer_proto::Protocol;
use hailer_proto::games::{GAMES, Game};

/// The meaning of a type here.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Game(&'static Game),
    Protocol(&'static dyn Protocol),
    /// Servers of this game, in all three protocols of Minecraft.
    Minecraft(&'static Game),
}

/// Ids of games that are something else in Hailer: here, a protocol.
const GAMES_BY_OTHER_ID: &[(&str, &str)] = &[("ase", "ark-se")];

/// Games that node-gamedig queries in all protocols of Minecraft.
const MINECRAFT: &[&str] = &["minecraft", "minecraft-bedrock"];

/// Protocols of node-gamedig that have one protocol here.
const PROTOCOLS: &[(&str, &str)] = &[
    ("armagetron", "armagetron"),
    ("ase", "ase"),
    ("assettocorsa", "assetto"),
    ("battlefield", "battlefield"),
    ("beammp", "beammp"),
    ("buildandshoot", "openspades"),
    ("cs2d", "cs2d"),
    ("dayz", "a2s"),
    ("discord", "discord"),
    ("doom3", "doom3"),
    ("eco", "eco"),
    ("factorio", "factorio"),
    ("farmingsimulator", "farming-simulator"),
    ("ffow", "ffow"),
    ("gamespy1", "gamespy1"),
    ("gamespy2", "gamespy2"),
    ("gamespy3", "gamespy3"),
    ("goldsrc", "a2s"),
    ("gtasao", "samp"),
    ("hexen2", "quake1"),
    ("hytale", "nitrado"),
    ("jc2mp", "gamespy3"),
    ("kspdmp", "kspdmp"),
    ("mafia2mp", "mafia2mp"),
    ("mafia2online", "mafia2mp"),
    ("minecraftbedrock", "minecraft-bedrock"),
    ("minecraftvanilla", "minecraft-status"),
    ("minetest", "luanti"),
    ("mumbleping", "mumble"),
    ("nadeo", "gbx-remote"),
    ("openttd", "openttd"),
    ("palworld", "palworld"),
    ("quake1", "quake1"),
    ("quake2", "quake2"),
    ("quake3", "quake3"),
    ("rfactor", "rfactor"),
    ("samp", "samp"),
    ("satisfactory", "satisfactory"),
    ("savage2", "savage2"),
    ("sdtd", "a2s"),
    ("starmade", "starmade"),
    ("starsiege", "tribes1"),
    ("teamspeak2", "teamspeak2"),
    ("teamspeak3", "teamspeak3"),
    ("terraria", "tshock"),
    ("toxikk", "a2s"),
    ("tribes1", "tribes1"),
    ("unreal2", "unreal2"),
    ("ut3", "gamespy3"),
    ("valve", "a2s"),
    ("vcmp", "samp"),
    ("vintagestory", "vintage-story"),
    ("warsow", "quake3"),
    ("xonotic", "quake3"),
];

/// Protocols of node-gamedig that are games here: games with several protocols, and those whose
/// servers cannot be queried, for which the games table has the reason.
const PROTOCOLS_OF_GAMES: &[(&str, &str)] = &[
    ("altvmp", "altv"),
    ("asa", "ark-sa"),
    ("brokeprotocol", "brokeprotocol"),
    ("eldewrito", "eldewrito"),
    ("fivem", "fivem"),
    ("geneshift", "geneshift"),
    ("hawakening", "hawakening"),
    ("mumble", "mumble"),
    ("ragemp", "gta5r"),
    ("renegadex", "renegade10"),
    ("renown", "renown"),
    ("scpsl", "ssl"),
    ("soldat", "soldat"),
    ("squad", "squad"),
    ("theisleevrima", "tie"),
    ("ventrilo", "ventrilo"),
];

/// Finds the meaning of a type.
pub(super) fn find(kind: &str) -> Result<Kind, GamedigError> {
    if kind.is_empty() {
        return Err(GamedigError::NoGame);
    }
    if let Some(name) = kind.strip_prefix("protocol-") {
        let found = find_protocol(name);
        return found.ok_or_else(|| GamedigError::UnknownProtocol(name.into()));
    }
    let id = other_id(GAMES_BY_OTHER_ID, kind).unwrap_or(kind);
    match catalog::game(id) {
        Some(game) if MINECRAFT.contains(&game.id) => Ok(Kind::Minecraft(game)),
        Some(game) => Ok(Kind::Game(readable(game))),
        None => match catalog::protocol(id) {
            Some(protocol) => Ok(Kind::Protocol(protocol)),
            None => Err(GamedigError::UnknownGame(kind.into())),
        },
    }
}

fn find_protocol(name: &str) -> Option<Kind> {
    if name == "minecraft" {
        return catalog::game(name).map(Kind::Minecraft);
    }
    if let Some(id) = other_id(PROTOCOLS_OF_GAMES, name) {
        return catalog::game(id).map(|game| Kind::Game(readable(game)));
    }
    let id = other_id(PROTOCOLS, name).unwrap_or(name);
    catalog::protocol(id).map(Kind::Protocol)
}

/// Returns the row of the same game that can be queried, if this one cannot: Squad has servers that
/// speak A2S too.
fn readable(game: &'static Game) -> &'static Game {
    let mut others = GAMES.iter().filter(|other| other.name == game.name);
    let other = others.find(|other| !other.protocols.is_empty());
    other.filter(|_| game.protocols.is_empty()).unwrap_or(game)
}

fn other_id(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let row = table.iter().find(|(known, _)| *known == name);
    row.map(|(_, id)| *id)
}

/// Returns whether a type is known.
pub fn is_known(kind: &str) -> bool {
    find(kind).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_name_known_games_and_protocols() {
        for (name, id) in PROTOCOLS {
            assert!(catalog::protocol(id).is_some(), "{name}: {id}");
        }
        for (name, id) in PROTOCOLS_OF_GAMES.iter().chain(GAMES_BY_OTHER_ID) {
            assert!(catalog::game(id).is_some(), "{name}: {id}");
        }
        assert!(MINECRAFT.iter().all(|id| catalog::game(id).is_some()));
    }

    #[test]
    fn types_are_games_first() {
        let id = |kind: &str| match find(kind) {
            Ok(Kind::Game(game)) => game.id,
            Ok(Kind::Protocol(protocol)) => protocol.info().id,
            Ok(Kind::Minecraft(_)) => "all of Minecraft",
            Err(_) => "unknown",
        };
        for (kind, expected) in [
            ("ase", "ark-se"),
            ("arkse", "ark-se"),
            ("protocol-ase", "ase"),
            ("protocol-valve", "a2s"),
            ("minecraft", "all of Minecraft"),
            ("mbe", "all of Minecraft"),
            ("protocol-minecraft", "all of Minecraft"),
            ("a2s", "a2s"),
            ("protocol-squad", "squad-a2s"),
            ("protocol-", "unknown"),
            ("gopher", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(id(kind), expected, "{kind}");
        }
    }
}
