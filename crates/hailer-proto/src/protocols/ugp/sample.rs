//! Samples of UGP servers.

use super::table;
use crate::model::{Extra, Status, Text};
use crate::sample::Server;

const RULES: &[(&str, &[&str])] = &[
    ("Owner", &["The harbour master", "Nobody", "A committee"]),
    ("Language", &["any", "English", "Deutsch", "fran\u{E7}ais"]),
    ("Weather", &["sunny", "rain", "fog"]),
    (
        "Website",
        &["https://example.com", "https://example.org/play"],
    ),
    ("Gravity", &["0.008", "0.004"]),
];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    let mode = random.text(&["Roleplay", "Deathmatch", "Freeroam", "Race"]);
    status.mode = Some(mode.into());
    let (id, game) = random.pick(table::GAMES);
    status.game = Some(game.into());
    status.extra.push(Extra::new("game-id", i64::from(id)));
    status.rules = random.rules(RULES);
    for (id, player) in (0_i64..).zip(&mut server.players) {
        player.uuid = None;
        player.extra.push(Extra::new("id", id));
    }
    server.finish()
}
