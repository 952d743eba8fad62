//! Samples of Quake 2 servers.

use crate::model::{Extra, Status, Text};
use crate::sample::Server;

const RULES: &[(&str, &[&str])] = &[
    ("fraglimit", &["20", "50", "0"]),
    ("timelimit", &["10", "15", "20"]),
    ("dmflags", &["16", "1040"]),
    ("uptime", &["3 days", "2 hours"]),
];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    status.game = Some(random.text(&["baseq2", "opentdm", "lithium"]).into());
    status.version = Some(random.text(&["3.20", "q2pro r1504", "R1Q2 b8012"]).into());
    status.has_password = Some(random.below(8) == 0);
    status.extra.push(Extra::new("protocol", 34));
    status.rules = random.rules(RULES);
    for player in &mut server.players {
        player.uuid = None;
        player.score = Some(random.below(60) as i64 - 5);
        player.latency_ms = Some(random.below(180) as i32);
    }
    server.finish()
}
