//! What the server is told once, at its start.

use crate::build::Build;
use std::time::Duration;

/// What is served, and to whom.
#[derive(Clone, Debug)]
pub struct GameServerConfig {
    /// The build spoken. Its number decides who may enter; where two builds share one, so does this
    /// (spec/minecraft-12w.md#1).
    pub build: Build,
    /// Whether that build is all that is spoken. Otherwise 1.2.5 is spoken too, since its first bytes tell it apart; but
    /// not where encryption is required, which it does not have.
    pub only_build: bool,
    /// The line in the list of servers. A `§` would end it there, so it is left out (spec/minecraft-12w.md#6.1).
    pub motd: String,
    /// The most players at a time.
    pub max_players: u16,
    /// Shape of the world.
    pub world: WorldKind,
    /// The same seed makes the same world.
    pub seed: u64,
    /// How players begin.
    pub mode: GameMode,
    /// Columns in each direction that a player is sent, 3 to 15.
    pub view_distance: u8,
    /// Whether survival players may stay in the air. Otherwise they are kicked after 80 packets, as in vanilla.
    pub allow_flight: bool,
    /// Whether connections are encrypted.
    pub encryption: Encryption,
    /// What a client may cost.
    pub limits: Limits,
}

impl Default for GameServerConfig {
    fn default() -> Self {
        Self {
            build: Build::LATEST,
            only_build: false,
            motd: "A hailer server".into(),
            max_players: 20,
            world: WorldKind::Hilly,
            seed: 1,
            mode: GameMode::Creative,
            view_distance: 10,
            allow_flight: false,
            encryption: Encryption::Offered,
            limits: Limits::default(),
        }
    }
}

impl GameServerConfig {
    /// Whether 1.2.5 is spoken beside the build.
    pub fn speaks_old(&self) -> bool {
        !self.only_build && self.encryption != Encryption::Required
    }
}

/// Shape of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldKind {
    /// Grass as far as one sees.
    Flat,
    /// Hills, water, trees.
    Hilly,
}

/// What a player can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GameMode {
    /// Blocks take time to dig and come out of the inventory.
    Survival,
    /// They do not.
    Creative,
}

impl GameMode {
    /// As it is on the wire (spec/minecraft-12w.md#5.1).
    pub const fn number(self) -> i8 {
        match self {
            Self::Survival => 0,
            Self::Creative => 1,
        }
    }
}

/// Whether connections are encrypted, where the build can (spec/minecraft-12w.md#6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Clients that answer the key without a secret are sent away.
    Required,
    /// A key is sent; whoever does not want it goes on in the clear.
    Offered,
    /// No key is sent.
    Off,
}

/// So many a second, and so many at once after a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What flows back in a second.
    pub per_second: u32,
    /// The most that can be had at once.
    pub burst: u32,
}

/// What a client may cost. None of these is met by people who play.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time. Past it new ones are refused: each costs a socket of the process.
    pub connections: usize,
    /// Connections from one address. A household or a computer club fits. Not counted for this machine's own, behind which
    /// a proxy may have everybody.
    pub connections_per_ip: usize,
    /// Connections that have not entered yet. Past it the oldest makes room, so that idle ones lock nobody out.
    pub logins: usize,
    /// The same of one address, whose oldest then makes room.
    pub logins_per_ip: usize,
    /// A connection that does not say a first byte is closed after so long.
    pub first_byte: Duration,
    /// A login takes at most so long: vanilla's 600 ticks.
    pub login: Duration,
    /// A player who sends nothing is gone after so long: vanilla's 1,200 ticks.
    pub silence: Duration,
    /// Packets of one client. The game sends some 25 a second.
    pub packets: Rate,
    /// Bytes of one client. The game sends about a thousand a second.
    pub bytes: Rate,
    /// The longest packet from a client. The largest honest one is a plugin message of 32 KiB.
    pub max_packet: usize,
    /// What waits to be sent to one client, in bytes: vanilla's 2 MiB. A slow reader is dropped.
    pub unsent: usize,
    /// Lines of chat of one player: vanilla's count of 20 ticks a line, 200 at most.
    pub chat: Rate,
    /// Blocks that one player changes. A creative player who holds the button digs about seven a second.
    pub changes: Rate,
    /// Blocks that one player moves. Falling is the fastest, 78 a second.
    pub motion: Rate,
    /// RSA decryptions of all clients together: each takes about a millisecond, two make a login. Logins past it wait.
    pub decryptions: Rate,
    /// Changed blocks remembered, at about 50 bytes. When they are used up, only changed ones change again.
    pub edits: usize,
    /// Columns kept ready, at some 50 KB. Others are made anew when they are needed.
    pub columns: usize,
    /// Columns kept compressed, at some 3 KB.
    pub packed: usize,
    /// Items that lie about. The oldest vanish.
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
