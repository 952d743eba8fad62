//! Samples of QuakeWorld servers.

use crate::model::{Extra, Status, Text};
use crate::sample::Server;

const RULES: &[(&str, &[&str])] = &[
    ("fraglimit", &["50", "100"]),
    ("timelimit", &["10", "20"]),
    ("teamplay", &["0", "2"]),
    ("status", &["Standby", "5 min left"]),
];

/// Largest number of players.
const MAX_PLAYERS: usize = 20;

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    status.game = Some(random.text(&["qw", "fortress", "ctf"]).into());
    status.mode = Some(random.text(&["ffa", "2on2", "4on4"]).into());
    status.version = Some(random.text(&["MVDSV 0.36", "FTE 5460"]).into());
    status.has_password = Some(random.below(8) == 0);
    status.rules = random.rules(RULES);
    // Longer lists do not fit into a reply.
    server.players.truncate(MAX_PLAYERS);
    for (id, player) in (1_i64..).zip(&mut server.players) {
        player.uuid = None;
        player.score = Some(random.below(60) as i64 - 5);
        player.time_s = Some(random.below(40) as f32 * 60.0);
        player.latency_ms = Some(random.below(180) as i32);
        player.team = Some(random.text(&["red", "blue"]).into());
        player.extra = [
            Extra::new("id", id),
            Extra::new("top-color", random.below(14) as i64),
            Extra::new("bottom-color", random.below(14) as i64),
        ]
        .into();
    }
    server.finish()
}
