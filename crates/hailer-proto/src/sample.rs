//! Sample statuses: simulated servers for demos, farms and tests.
//!
//! A sample is a function of a seed. It has the fields that clients read in its protocol, and their values survive the
//! protocol unchanged, so that the status that a client reads equals the sample. [`Protocol::sample`] has the samples of
//! each protocol. A server has at most 40 players, 8 on average.
//!
//! [`Protocol::sample`]: crate::protocol::Protocol::sample

use crate::model::{Player, Players, Rule, Status, Text};
use crate::wire::Latin1;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Largest number of players of a server.
const MAX_PLAYERS: u64 = 40;

const ADJECTIVES: &[&str] = &[
    "Amber", "Broken", "Calm", "Deep", "Eastern", "Frozen", "Golden", "Hidden", "Iron", "Jolly",
    "Lost", "Quiet",
];
const NOUNS: &[&str] = &[
    "Harbour", "Valley", "Keep", "Isles", "Market", "Orchard", "Ridge", "Caverns", "Meadow",
    "Tower", "Coast", "Mill",
];
/// Texts in ASCII, in ISO-8859-1, and in neither: clients must distinguish the encodings.
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
const COLORS: &[&str] = &[
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
const FIRST: &[&str] = &[
    "Ar", "Bel", "Cor", "Dun", "El", "Fin", "Gar", "Hal", "Is", "Jor", "Kel", "Lu", "Mor", "Nim",
];
const LAST: &[&str] = &[
    "wen", "mar", "dis", "thas", "la", "nor", "rik", "via", "ston", "o", "bert", "_x",
];

/// Returns a status with the fields that most protocols have.
pub fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let motd = motd(&mut server.random, &server.name);
    server.status.motd = Some(motd);
    server.status.name = Some(Text::unformatted(server.name.clone()));
    server.finish()
}

/// Builder of a sample.
#[derive(Debug)]
pub struct Server {
    /// Source of further values.
    pub random: Random,
    /// Name of the server, in two words.
    pub name: String,
    /// Players, with name and UUID.
    pub players: Vec<Player>,
    /// The status so far. It has a map.
    pub status: Status,
}

impl Server {
    /// Chooses name, players and map.
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let name = format!("{} {}", random.pick(ADJECTIVES), random.pick(NOUNS));
        let players = (0..random.players()).map(|_| player(&mut random)).collect();
        let status = Status {
            map: Some(random.text(MAPS).into()),
            ..Status::default()
        };
        Self {
            random,
            name,
            players,
            status,
        }
    }

    /// Adds the players and returns the status.
    pub fn finish(mut self) -> Status {
        let online = self.players.len() as i64;
        let wanted = online + self.random.below(20) as i64;
        let players = &mut self.status.players;
        players.max = [20, 32, 50, 100].into_iter().find(|max| *max >= wanted);
        players.online = Some(online);
        players.set_list(self.players);
        self.status
    }

    /// Returns a status with the numbers of players only, for protocols that send little more.
    pub fn counts(self) -> Status {
        let Players { online, max, .. } = self.finish().players;
        let mut status = Status::default();
        (status.players.online, status.players.max) = (online, max);
        status
    }
}

/// Returns a MOTD with formatting codes.
pub fn motd(random: &mut Random, name: &str) -> Text {
    let color = random.pick(COLORS);
    let line_break = random.pick(&[" ", " - ", "\n"]);
    let second = random.pick(&["", "\u{A7}7", "\u{A7}r\u{A7}o"]);
    let greeting = random.pick(GREETINGS);
    let text = format!("{color}{name}{line_break}{second}{greeting}");
    // Like vanilla servers: ISO-8859-1, if it can represent the text and the bytes are not also
    // valid UTF-8.
    let bytes: Option<Vec<u8>> = text.chars().map(Latin1::byte).collect();
    let latin1 = bytes.is_some_and(|bytes| core::str::from_utf8(&bytes).is_err());
    Text::legacy(text).from_single_byte(latin1)
}

fn player(random: &mut Random) -> Player {
    let mut name = format!("{}{}", random.pick(FIRST), random.pick(LAST));
    if random.below(2) == 0 {
        name.push_str(&random.below(1_000).to_string());
    }
    let halves = [random.next(), random.next()];
    Player {
        uuid: Some(uuid(halves)),
        ..Player::named(Text::unformatted(name))
    }
}

/// Returns a UUID with these bits, marked as random (version 4, variant 1).
pub fn uuid([high, low]: [u64; 2]) -> [u8; 16] {
    let high = high & !0xF000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// A deterministic generator of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns 64 random bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless generator is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns an element, or the default of its type if there is none.
    pub fn pick<T: Copy + Default>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len() as u64) as usize;
        from.get(index).copied().unwrap_or_default()
    }

    /// Returns a copy of a text.
    pub fn text(&mut self, from: &[&str]) -> String {
        self.pick(from).into()
    }

    /// Returns some of the elements in their order, each with a probability of one half. At most 64
    /// elements.
    pub fn some<T: Copy>(&mut self, from: &[T]) -> Vec<T> {
        let chosen = self.next();
        let elements = from.iter().enumerate();
        elements
            .filter(|(i, _)| chosen >> i & 1 == 1)
            .map(|(_, element)| *element)
            .collect()
    }

    /// Returns some rules of a table, each with one of its values.
    pub fn rules(&mut self, table: &[(&str, &[&str])]) -> Vec<Rule> {
        let rules = self.some(table).into_iter();
        let rules = rules.map(|(key, values)| Rule {
            key: key.into(),
            value: self.text(values).into(),
        });
        rules.collect()
    }

    /// Returns a number of players: low on most servers, 8 on average.
    fn players(&mut self) -> u64 {
        let rolls = (0..4).map(|_| self.below(MAX_PLAYERS + 1));
        rolls.min().unwrap_or_default()
    }
}
