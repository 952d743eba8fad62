//! Samples of Doom 3 servers.

use crate::model::{Carets, Extra, Status, Text};
use crate::sample::Server;
use alloc::format;

const RULES: &[(&str, &[&str])] = &[
    ("si_fragLimit", &["10", "30"]),
    ("si_timeLimit", &["0", "15"]),
    ("net_serverDedicated", &["1"]),
    ("fs_game", &["d3xp", "cpma"]),
];

/// Largest number of players that the protocol can list.
const MAX_PLAYERS: usize = 32;

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    let color = random.pick(&["", "^1", "^3", "^5"]);
    let name = format!("{color}{}", server.name);
    status.name = Some(Text::carets(name, Carets::Visible));
    status.game = Some("baseDOOM-1".into());
    status.mode = Some(random.text(&["Deathmatch", "Tourney", "Team DM"]).into());
    status.version = Some("DOOM 1.3.1.1304 linux-x86".into());
    status.has_password = Some(random.below(8) == 0);
    status.extra.push(Extra::new("protocol-version", "1.41"));
    status.rules = random.rules(RULES);
    server.players.truncate(MAX_PLAYERS);
    let mut bots = 0;
    for (id, player) in (0_i64..).zip(&mut server.players) {
        player.uuid = None;
        let is_bot = random.below(8) == 0;
        let latency = if is_bot {
            0
        } else {
            1 + random.below(180) as i32
        };
        player.latency_ms = Some(latency);
        player.extra = [
            Extra::new("id", id),
            Extra::new("rate", 16_000),
            Extra::new("bot", is_bot),
        ]
        .into();
        bots += i64::from(is_bot);
    }
    status.players.bots = Some(bots);
    server.finish()
}
