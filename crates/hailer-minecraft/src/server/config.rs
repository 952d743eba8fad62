//! Configuration and limits of the server.

use crate::build::Build;
use std::time::Duration;

/// Configuration of a [`Server`](super::Server).
#[derive(Clone, Debug)]
pub struct GameServerConfig {
    /// Build that clients need. For protocol numbers with two builds, this one is used
    /// (spec/minecraft-12w.md#1).
    pub build: Build,
    /// Whether to refuse 1.2.5. Otherwise 1.2.5 is accepted too, unless encryption is required,
    /// which it lacks.
    pub is_build_only: bool,
    /// MOTD in the list of servers. `§` characters are removed, since they end it there
    /// (spec/minecraft-12w.md#6.1).
    pub motd: String,
    /// Maximum number of players.
    pub max_players: u16,
    /// Shape of the world.
    pub world: WorldKind,
    /// Seed of the world. The same seed gives the same world.
    pub seed: u64,
    /// Game mode of players.
    pub mode: GameMode,
    /// View distance in columns, 3 to 15.
    pub view_distance: u8,
    /// Whether survival players may stay in the air. Otherwise they are kicked after 80 packets, as
    /// in vanilla.
    pub can_fly: bool,
    /// Whether connections are encrypted.
    pub encryption: Encryption,
    /// Limits per client and in total.
    pub limits: Limits,
}

impl Default for GameServerConfig {
    fn default() -> Self {
        Self {
            build: Build::LATEST,
            is_build_only: false,
            motd: "A hailer server".into(),
            max_players: 20,
            world: WorldKind::Hilly,
            seed: 1,
            mode: GameMode::Creative,
            view_distance: 10,
            can_fly: false,
            encryption: Encryption::Offered,
            limits: Limits::default(),
        }
    }
}

impl GameServerConfig {
    /// Returns whether 1.2.5 is accepted too.
    pub fn accepts_1_2_5(&self) -> bool {
        !self.is_build_only && self.encryption != Encryption::Required
    }
}

/// Shape of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldKind {
    /// A plain of grass.
    Flat,
    /// Hills, water, trees.
    Hilly,
}

/// Game mode of players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GameMode {
    /// Digging takes time, and placing needs items.
    Survival,
    /// Digging is instant, and items are free.
    Creative,
}

impl GameMode {
    /// Returns the wire number (spec/minecraft-12w.md#5.1).
    pub const fn number(self) -> i8 {
        match self {
            Self::Survival => 0,
            Self::Creative => 1,
        }
    }
}

/// Whether connections are encrypted, if the build can (spec/minecraft-12w.md#6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Clients that do not encrypt are kicked.
    Required,
    /// A key is sent. Clients may ignore it and stay unencrypted.
    Offered,
    /// No key is sent.
    Off,
}

/// Rate limit with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Sustained amount per second.
    pub per_second: u32,
    /// Maximum amount in a burst.
    pub burst: u32,
}

/// Limits per client and in total. Normal players do not reach them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of connections. Further ones are refused.
    pub connections: usize,
    /// Maximum number of connections from one address. Loopback addresses are exempt, since a proxy
    /// may use them.
    pub connections_per_ip: usize,
    /// Maximum number of logins in progress. Above it, the oldest is closed, so that idle ones do
    /// not block others.
    pub logins: usize,
    /// Maximum number of logins in progress from one address. Above it, the oldest is closed.
    pub logins_per_ip: usize,
    /// Time limit for the first byte of a connection.
    pub first_byte: Duration,
    /// Time limit for a login: vanilla's 600 ticks.
    pub login: Duration,
    /// Time without a packet after which a player is kicked: vanilla's 1,200 ticks.
    pub silence: Duration,
    /// Rate of packets per client. The game sends about 25 per second.
    pub packets: Rate,
    /// Rate of bytes per client. The game sends about 1,000 per second.
    pub bytes: Rate,
    /// Maximum length of a packet from a client, in bytes. Plugin messages have up to 32 KiB.
    pub max_packet: usize,
    /// Maximum number of unsent bytes per client: vanilla's 2 MiB. Slower readers are dropped.
    pub unsent: usize,
    /// Rate of chat lines per player, as in vanilla.
    pub chat: Rate,
    /// Rate of block changes per player. A creative player who holds the button digs about seven per
    /// second.
    pub changes: Rate,
    /// Rate of motion per player, in blocks. A fall is the fastest motion, at 78 blocks/s.
    pub motion: Rate,
    /// Rate of RSA decryptions of all clients: two per login, about 1 ms each. Further logins wait.
    pub decryptions: Rate,
    /// Maximum number of changed blocks, at about 50 bytes each. Above it, only already changed
    /// blocks can change.
    pub edits: usize,
    /// Maximum number of cached columns, at about 50 KB each. Others are generated again.
    pub columns: usize,
    /// Maximum number of cached compressed columns, at about 3 KB each.
    pub packed: usize,
    /// Maximum number of dropped items. The oldest are removed.
    pub items: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_ip: 64,
            logins: 128,
            logins_per_ip: 32,
            first_byte: Duration::from_secs(10),
            login: Duration::from_secs(30),
            silence: Duration::from_secs(60),
            packets: Rate {
                per_second: 200,
                burst: 600,
            },
            bytes: Rate {
                per_second: 64 << 10,
                burst: 256 << 10,
            },
            max_packet: 64 << 10,
            unsent: 2 << 20,
            chat: Rate {
                per_second: 1,
                burst: 10,
            },
            changes: Rate {
                per_second: 40,
                burst: 80,
            },
            motion: Rate {
                per_second: 100,
                burst: 100,
            },
            decryptions: Rate {
                per_second: 200,
                burst: 400,
            },
            edits: 1 << 20,
            columns: 1024,
            packed: 8192,
            items: 256,
        }
    }
}
