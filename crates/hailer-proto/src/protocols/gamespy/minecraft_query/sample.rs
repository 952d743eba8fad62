//! Samples of Minecraft servers.

use crate::model::{Address, Extra, Rule, Status};
use crate::sample::{Random, Server, motd};
use crate::wire::Latin1;
use alloc::{format, string::String, vec::Vec};

const GAME_VERSIONS: &[&str] = &["1.8.9", "1.12.2", "1.16.5", "1.19.4", "1.20.1", "1.21.8"];
const SOFTWARE: &[&str] = &[
    "Paper on Bukkit",
    "CraftBukkit on Bukkit",
    "Spigot on Bukkit",
    "Hailer farm",
];
const PLUGINS: &[&str] = &[
    "Tides",
    "Seagulls",
    "Lanterns",
    "FairTrade",
    "Ferries",
    "Night Watch",
    "Beekeeping",
    "Old Maps",
    "Ledger",
    "Tolls",
    "Windmills",
    "Town Crier",
    "SafeChests",
    "Postman",
    "Almanac",
    "Bells",
    "CropRotation",
    "Drawbridge",
    "Footpaths",
];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    let motd = motd(random, &server.name);
    status.is_utf8 = motd.raw().chars().any(|c| Latin1::byte(c).is_none());
    status.motd = Some(motd);
    status.game = Some("MINECRAFT".into());
    status.mode = Some("SMP".into());
    let version = random.text(GAME_VERSIONS);
    if random.below(4) > 0 {
        let software = format!("{} {version}", random.pick(SOFTWARE));
        status.extra.push(Extra::new("software", software));
        let names = random.some(PLUGINS);
        let plugins: Vec<_> = names
            .into_iter()
            .map(|name| (name, plugin_version(random)))
            .collect();
        let plugins = plugins.iter().map(|(name, version)| (*name, &**version));
        status.extra.extend(super::plugins(plugins));
    }
    status.version = Some(version.into());
    if random.below(8) == 0 {
        status.rules.push(Rule {
            key: "whitelist".into(),
            value: random.text(&["on", "off"]).into(),
        });
    }
    let [a, b, c] = [(); 3].map(|()| random.below(256));
    status.address = Some(Address {
        host: Some(format!("10.{a}.{b}.{c}").into()),
        port: Some(25_565),
    });
    for player in &mut server.players {
        player.uuid = None;
    }
    server.finish()
}

fn plugin_version(random: &mut Random) -> String {
    format!("{}.{}", random.below(10), random.below(30))
}
