//! Samples of Source servers.

use crate::model::{Address, Extra, Rule, Status, Text};
use crate::sample::Server;
use alloc::format;
use alloc::string::ToString;

/// App id, folder, name, and the maps of a game.
type Game = (i64, &'static str, &'static str, &'static [&'static str]);

const GAMES: &[Game] = &[
    (
        440,
        "tf",
        "Team Fortress",
        &["cp_dustbowl", "pl_upward", "koth_viaduct"],
    ),
    (
        4_000,
        "garrysmod",
        "Sandbox",
        &["gm_construct", "gm_flatgrass"],
    ),
    (
        252_490,
        "rust",
        "Rust",
        &["Procedural Map", "Barren", "HapisIsland"],
    ),
];
const RULES: &[(&str, &str)] = &[
    ("mp_friendlyfire", "0"),
    ("mp_timelimit", "30"),
    ("sv_alltalk", "1"),
    ("sv_gravity", "800"),
];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    let game = random.below(GAMES.len() as u64) as usize;
    if let Some((app_id, folder, title, maps)) = GAMES.get(game) {
        status.map = Some(random.text(maps).into());
        status.game = Some((*title).into());
        status.extra.push(Extra::new("protocol", 17));
        status.extra.push(Extra::new("folder", *folder));
        status.extra.push(Extra::new("app-id", *app_id));
    }
    let system = random.text(&["linux", "windows"]);
    status.extra.push(Extra::new("server-type", "dedicated"));
    status.extra.push(Extra::new("system", system));
    let account = 90_071_992_547_409_920 + random.below(1 << 31);
    status
        .extra
        .push(Extra::new("steam-id", account.to_string()));
    status
        .extra
        .push(Extra::new("keywords", "alltalk,friendly"));
    status.version = Some(format!("{}", 8_000_000 + random.below(900_000)).into());
    status.has_password = Some(random.below(8) == 0);
    status.has_anti_cheat = Some(true);
    status.address = Some(Address {
        host: None,
        port: Some(27_015 + random.below(5) as u16),
    });
    status.players.bots = Some(0);
    let rules = random.some(RULES).into_iter();
    status.rules = rules
        .map(|(key, value)| Rule {
            key: key.into(),
            value: value.into(),
        })
        .collect();
    for player in &mut server.players {
        player.uuid = None;
        player.score = Some(random.below(60) as i64);
        player.time_s = Some(random.below(40_000) as f32 / 4.0);
    }
    server.finish()
}
