//! Tables of the protocol: flags by section (spec/ugp.md#5.1) and games by number (spec/ugp.md#7).

use alloc::{format, string::String, vec::Vec};

macro_rules! flags {
    ($($(#[doc = $doc:literal])* $table:ident { $($flag:ident $bit:literal $name:literal;)* })*) => {
        $(
            $(#[doc = $doc])*
            pub mod $table {
                $(
                    #[doc = $name]
                    pub const $flag: u8 = $bit;
                )*
                /// All flags with their names.
                pub const NAMES: &[(u8, &str)] = &[$(($bit, $name)),*];
            }
        )*
    };
}

flags! {
    /// Sections: the request flags, and the flags at offset 9 of a reply.
    section {
        SERVER 0x01 "server";
        PLAYERS 0x02 "players";
        TEAMS 0x04 "teams";
        RULES 0x08 "rules";
    }
    /// Fields of the server section.
    server {
        GAME 0x01 "game name";
        EXTRA 0x02 "extra server flags";
        NAME 0x04 "server name";
        MODE 0x08 "mode";
        MAP 0x10 "map";
        ONLINE 0x20 "player count";
        MAX 0x40 "max players";
    }
    /// State of the server, in the byte that the server flag `EXTRA` adds. Assumed
    /// (spec/ugp.md#9.2).
    server_extra {
        PASSWORD 0x01 "passworded";
        VERSION 0x02 "version";
        OS 0x04 "os";
    }
    /// Fields of each player.
    player {
        ID 0x01 "id";
        NAME 0x02 "name";
        TEAM 0x04 "team";
        SCORE 0x08 "score";
        KILLS 0x10 "kills";
        DEATHS 0x20 "deaths";
        EXTRA 0x40 "extra player flags";
    }
    /// More fields of each player, if the player flag `EXTRA` is set.
    player_extra {
        PING 0x01 "ping";
        JOINED 0x02 "time joined";
        POSITION 0x04 "position";
        HEALTH 0x08 "health";
        ARMOUR 0x10 "armour";
        SKIN 0x20 "skin";
    }
    /// Fields of each team.
    team {
        NAME 0x01 "name";
        SCORE 0x02 "score";
        PLAYERS 0x04 "player count";
        COLOR 0x08 "color";
    }
}

/// Game id of games without a number.
pub const GAME_UNKNOWN: u8 = 255;

/// Games by number, as spelled in the configuration of servers.
pub const GAMES: &[(u8, &str)] = &[
    (1, "gta:iii"),
    (2, "gta:vc"),
    (3, "gta:sa"),
    (4, "gta:ug"),
    (5, "gta:iv"),
    (6, "gta:iv_eflc"),
    (7, "bully"),
    (10, "mafia:one"),
    (11, "mafia:two"),
    (12, "mafia:three"),
    (13, "mafia:one_de"),
];

/// Returns the name of a game.
pub fn game_name(id: u8) -> Option<&'static str> {
    GAMES
        .iter()
        .find(|(known, _)| *known == id)
        .map(|(_, name)| *name)
}

/// Returns the number of a game.
pub fn game_id(name: &str) -> Option<u8> {
    GAMES
        .iter()
        .find(|(_, known)| *known == name)
        .map(|(id, _)| *id)
}

/// Formats flags for people.
pub(super) fn describe(flags: u8, names: &[(u8, &str)]) -> String {
    let set: Vec<&str> = names
        .iter()
        .filter(|(bit, _)| flags & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    if set.is_empty() {
        format!("{flags:02x}")
    } else {
        format!("{flags:02x}: {}", set.join(", "))
    }
}
