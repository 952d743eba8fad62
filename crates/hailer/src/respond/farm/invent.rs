//! What an invented server says of itself: exactly what a client reads of it, so that the two can be compared.

use hailer_proto::minecraft_query;
use hailer_proto::model::{Extra, Rule};
use hailer_proto::ugp::table;
use hailer_proto::wire::Latin1;
use hailer_proto::{Address, Info, Player, Status, Text};

/// The most players on one server.
const MOST: u64 = 40;

const ADJECTIVES: &[&str] = &[
    "Amber", "Broken", "Calm", "Deep", "Eastern", "Frozen", "Golden", "Hidden", "Iron", "Jolly",
    "Lost", "Quiet",
];
const NOUNS: &[&str] = &[
    "Harbour", "Valley", "Keep", "Isles", "Market", "Orchard", "Ridge", "Caverns", "Meadow",
    "Tower", "Coast", "Mill",
];
/// In ASCII, in ISO-8859-1, and past it: readers have to tell the encodings apart.
const GREETINGS: &[&str] = &[
    "come and go as you like",
    "no griefing, no hurry",
    "since 2011",
    "Gr\u{FC}\u{DF} Gott, sch\u{F6}n dass du da bist",
    "\u{A1}Bienvenidos a la monta\u{F1}a!",
    "caf\u{E9} ouvert",
    "\u{2605} season 7 \u{2605}",
    "\u{6E2F}\u{3078}\u{3088}\u{3046}\u{3053}\u{305D}",
];
const COLOURS: &[&str] = &[
    "\u{A7}6",
    "\u{A7}b",
    "\u{A7}a",
    "\u{A7}c\u{A7}l",
    "\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}8\u{A7}0\u{A7}0",
    "",
];
const MAPS: &[&str] = &[
    "world",
    "harbour",
    "old_mill",
    "lighthouse",
    "high_pass",
    "survival",
    "hub",
];
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
const FIRST: &[&str] = &[
    "Ar", "Bel", "Cor", "Dun", "El", "Fin", "Gar", "Hal", "Is", "Jor", "Kel", "Lu", "Mor", "Nim",
];
const LAST: &[&str] = &[
    "wen", "mar", "dis", "thas", "la", "nor", "rik", "via", "ston", "o", "bert", "_x",
];

/// The status that a seed stands for, in the manner of a protocol's games.
pub(super) fn status(info: &Info, seed: u64) -> Status {
    let mut random = Random(seed);
    let random = &mut random;
    let name = format!("{} {}", random.pick(ADJECTIVES), random.pick(NOUNS));
    let mut players: Vec<Player> = (0..random.players()).map(|_| player(random)).collect();
    let mut status = Status {
        map: Some(random.text(MAPS).into()),
        ..Status::default()
    };
    match info.id {
        "minecraft-query" => {
            status.motd = Some(motd(random, &name));
            status.game = Some("MINECRAFT".into());
            status.mode = Some("SMP".into());
            let version = random.text(GAME_VERSIONS);
            if random.below(4) > 0 {
                status.extra.push(Extra::new(
                    "software",
                    format!("{} {version}", random.pick(SOFTWARE)),
                ));
                let names: Vec<&str> = some(random, PLUGINS).collect();
                let plugins: Vec<_> = names
                    .into_iter()
                    .map(|name| (name, plugin_version(random)))
                    .collect();
                let plugins = plugins.iter().map(|(name, version)| (*name, &**version));
                status.extra.extend(minecraft_query::plugins(plugins));
            }
            status.version = Some(version.into());
            if random.below(8) == 0 {
                status.rules.push(Rule {
                    key: "whitelist".into(),
                    value: random.text(&["on", "off"]).into(),
                });
            }
            let host = format!(
                "10.{}.{}.{}",
                random.below(256),
                random.below(256),
                random.below(256)
            );
            status.address = Some(Address {
                host: Some(host.into()),
                port: Some(25_565),
            });
            for player in &mut players {
                player.uuid = None;
            }
        }
        "ugp" => {
            status.name = Some(Text::unformatted(name));
            status.mode = Some(
                random
                    .text(&["Roleplay", "Deathmatch", "Freeroam", "Race"])
                    .into(),
            );
            let (id, game) = random.pick(table::GAMES);
            status.game = Some(game.into());
            status.extra.push(Extra::new("game-id", i64::from(id)));
            status.rules = some(random, RULES)
                .map(|(key, values)| Rule {
                    key: key.into(),
                    value: random.text(values).into(),
                })
                .collect();
            for (id, player) in (0_i64..).zip(&mut players) {
                player.uuid = None;
                player.extra.push(Extra::new("id", id));
            }
        }
        "onequery" => {
            status.motd = Some(Text::unformatted(motd(random, &name).plain()));
            status.name = Some(Text::unformatted(name));
            // The protocol has none.
            status.map = None;
            status.version = Some(random.text(&["2026.11", "2026.10.2", "0.9"]).into());
            status
                .extra
                .push(Extra::new("protocol-version", random.below(9) as i64));
            status.extra.push(Extra::new(
                "protocol-hash",
                format!("{:08X}", random.below(1 << 32)),
            ));
            status.extra.push(Extra::new("network", false));
            // Servers list by UUID.
            players.sort_by_key(|player| player.uuid);
        }
        _ => {
            status.motd = Some(motd(random, &name));
            status.name = Some(Text::unformatted(name));
        }
    }
    let online = players.len() as i64;
    let wished = online + random.below(20) as i64;
    status.players.max = [20, 32, 50, 100].into_iter().find(|max| *max >= wished);
    status.players.online = Some(online);
    status.players.set_list(players);
    status
}

fn motd(random: &mut Random, name: &str) -> Text {
    let colour = random.pick(COLOURS);
    let line_break = random.pick(&[" ", " - ", "\n"]);
    let second = random.pick(&["", "\u{A7}7", "\u{A7}r\u{A7}o"]);
    let text = format!(
        "{colour}{name}{line_break}{second}{}",
        random.pick(GREETINGS)
    );
    // As vanilla servers send it: in ISO-8859-1, if that holds it and is not read as something else.
    let bytes: Option<Vec<u8>> = text.chars().map(Latin1::byte).collect();
    let latin1 = bytes.is_some_and(|bytes| std::str::from_utf8(&bytes).is_err());
    Text::legacy(text).from_latin1(latin1)
}

fn plugin_version(random: &mut Random) -> String {
    format!("{}.{}", random.below(10), random.below(30))
}

fn player(random: &mut Random) -> Player {
    let mut name = format!("{}{}", random.pick(FIRST), random.pick(LAST));
    if random.below(2) == 0 {
        name.push_str(&random.below(1_000).to_string());
    }
    let mut uuid = [0; 16];
    for half in uuid.chunks_exact_mut(8) {
        half.copy_from_slice(&random.next().to_be_bytes());
    }
    // Version 4, variant 1, as random UUIDs are marked.
    uuid[6] = uuid[6] & 0x0F | 0x40;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    Player {
        uuid: Some(uuid),
        ..Player::named(Text::unformatted(name))
    }
}

/// Some of a list, in its order.
fn some<T: Copy + 'static>(
    random: &mut Random,
    from: &'static [T],
) -> impl Iterator<Item = T> + use<T> {
    let chosen = random.next();
    from.iter()
        .enumerate()
        .filter(move |(i, _)| chosen >> i & 1 == 1)
        .map(|(_, one)| *one)
}

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Less than `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn text(&mut self, from: &[&str]) -> String {
        self.pick(from).into()
    }

    /// Few on most servers, many on few, 8 in the mean.
    fn players(&mut self) -> u64 {
        (0..4)
            .map(|_| self.below(MOST + 1))
            .min()
            .unwrap_or_default()
    }
}
