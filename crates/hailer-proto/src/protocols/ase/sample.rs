//! Samples of Multi Theft Auto servers.

use crate::model::{Address, Rule, Status, Text};
use crate::sample::Server;

/// Most players of a sample: their list fits one datagram.
const MAX_PLAYERS: usize = 24;

const MODES: &[&str] = &["Race", "Roleplay", "Freeroam", "MTA:SA"];
const MAPS: &[&str] = &["None", "Los Santos", "San Fierro", "dm-mill"];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.as_str()));
    status.game = Some("mta".into());
    status.version = Some("1.6".into());
    status.mode = Some(random.text(MODES).into());
    status.map = Some(random.text(MAPS).into());
    status.has_password = Some(random.below(8) == 0);
    status.address = Some(Address {
        host: None,
        port: Some(22_003),
    });
    if random.below(2) == 0 {
        status.rules.push(Rule {
            key: "Website".into(),
            value: "example.org".into(),
        });
    }
    server.players.truncate(MAX_PLAYERS);
    for player in &mut server.players {
        player.uuid = None;
        player.latency_ms = Some(10 + random.below(150) as i32);
    }
    server.finish()
}
