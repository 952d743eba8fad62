//! Samples of Quake 3 servers.

use crate::model::{Carets, Extra, Status, Text};
use crate::sample::Server;
use alloc::format;

const RULES: &[(&str, &[&str])] = &[
    ("fraglimit", &["20", "50", "0"]),
    ("timelimit", &["10", "15", "20"]),
    ("sv_pure", &["0", "1"]),
    ("dmflags", &["0", "8"]),
    (".Admin", &["The harbour master", "Nobody"]),
];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    let color = random.pick(&["", "^1", "^3", "^5"]);
    let name = format!("{color}{}", server.name);
    status.name = Some(Text::carets(name, Carets::Alphanumeric));
    status.game = Some(random.text(&["baseq3", "missionpack", "q3ut4"]).into());
    status.mode = Some(random.text(&["0", "3", "4"]).into());
    status.version = Some("ioq3 1.36 linux-x86_64".into());
    status.has_password = Some(random.below(8) == 0);
    status.extra.push(Extra::new("protocol", 71));
    status.rules = random.rules(RULES);
    for player in &mut server.players {
        player.uuid = None;
        player.score = Some(random.below(60) as i64 - 5);
        player.latency_ms = Some(random.below(180) as i32);
    }
    let bots = random.below(3).min(server.players.len() as u64);
    status.players.bots = Some(bots as i64);
    server.finish()
}
