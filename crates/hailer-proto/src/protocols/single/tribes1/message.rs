//! Bytes ⇄ messages. The only file that knows the layout (spec/tribes1.md#2 to #4).

use super::deviation::{CUT_LISTS, TRAILING_BYTES};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader};
use alloc::vec::Vec;

/// Name that starts the replies of the later version of Starsiege.
const STARSIEGE: &[u8] = b"Starsiege";
/// Milliseconds of one unit of a player's latency.
const PING_UNIT_MS: i32 = 4;
/// Length of a request in bytes.
const REQUEST: usize = 3;

/// The game, which shows in the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Game {
    /// Starsiege: Tribes.
    Tribes,
    /// Starsiege.
    Starsiege,
}

impl Game {
    const ALL: [Self; 2] = [Self::Tribes, Self::Starsiege];

    fn request(self) -> u8 {
        match self {
            Self::Tribes => b'b',
            Self::Starsiege => b'r',
        }
    }

    fn reply(self) -> u8 {
        match self {
            Self::Tribes => b'c',
            Self::Starsiege => b's',
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Game of the client.
    pub game: Game,
    /// Number that the server returns.
    pub number: u16,
}

impl Request {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(self.game.request());
        out.extend(self.number.to_le_bytes());
    }

    /// Parses a request; `None` if it is none of this protocol.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Option<Self> {
        let game = Game::ALL
            .into_iter()
            .find(|game| bytes.first() == Some(&game.request()))?;
        if bytes.len() != REQUEST {
            return None;
        }
        let mut r = Reader::new(bytes, notes);
        r.u8("request").ok()?;
        let number = r.u16_le("number").ok()?;
        Some(Self { game, number })
    }
}

/// A reply, borrowed from its datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Number of the request.
    pub number: u16,
    /// Game.
    pub game: &'a [u8],
    /// Version of the game.
    pub version: &'a [u8],
    /// Name of the server.
    pub name: &'a [u8],
    /// Whether it is a dedicated server.
    pub is_dedicated: bool,
    /// Whether players need a password.
    pub has_password: bool,
    /// Number of players online.
    pub online: u32,
    /// Maximum number of players.
    pub max: u32,
    /// Speed of the server's processor in MHz.
    pub cpu_mhz: u16,
    /// Name of the map.
    pub map: &'a [u8],
    /// Fields of Tribes.
    pub tribes: Option<Tribes<'a>>,
    /// Fields of the later version of Starsiege.
    pub starsiege: Option<Starsiege<'a>>,
}

/// Fields that only Tribes has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tribes<'a> {
    /// Mods that the server runs.
    pub mods: &'a [u8],
    /// Type of the mission.
    pub mode: &'a [u8],
    /// Message of the day.
    pub motd: &'a [u8],
    /// Names of the columns of teams, separated by tabs.
    pub team_columns: &'a [u8],
    /// Names of the columns of players, separated by tabs.
    pub player_columns: &'a [u8],
    /// Name and values of each team.
    pub teams: Vec<(&'a [u8], &'a [u8])>,
    /// Players, as far as they are listed.
    pub players: Vec<Player<'a>>,
}

/// A player of Tribes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Player<'a> {
    /// Latency in milliseconds.
    pub ping_ms: i32,
    /// Packet loss in percent.
    pub loss: u8,
    /// Number of the team.
    pub team: u8,
    /// Name of the player.
    pub name: &'a [u8],
    /// Values of the columns, separated by tabs.
    pub values: &'a [u8],
}

/// Fields that only the later version of Starsiege has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starsiege<'a> {
    /// Settings by name.
    pub settings: Vec<(&'static str, u32)>,
    /// Name and team of each player.
    pub players: Vec<(&'a [u8], u8)>,
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        let mut games = Game::ALL.into_iter();
        games.any(|game| match bytes {
            [reply, _, _, request, ..] => *reply == game.reply() && *request == game.request(),
            _ => false,
        })
    }

    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        if !Self::is_reply(bytes) {
            return Err(Error::bad(
                "reply",
                0,
                "`c` or `s`, and the request's letter",
            ));
        }
        let mut r = Reader::new(bytes, notes);
        r.u8("reply")?;
        let mut reply = Self {
            number: r.u16_le("number")?,
            ..Self::default()
        };
        r.u8("request")?;
        reply.game = r.counted_text("game")?;
        reply.version = r.counted_text("version")?;
        reply.name = r.counted_text("name")?;
        if reply.game == STARSIEGE {
            reply.read_starsiege(&mut r)?;
        } else {
            reply.read_tribes(&mut r)?;
        }
        Ok(reply)
    }

    /// Parses the fields of Tribes after the name (spec/tribes1.md#3).
    fn read_tribes(&mut self, r: &mut Reader<'a, '_>) -> Result<(), Error> {
        self.is_dedicated = r.u8("dedicated")? != 0;
        self.has_password = r.u8("password")? != 0;
        let players = r.u8("players")?;
        self.online = players.into();
        self.max = r.u8("max players")?.into();
        self.cpu_mhz = r.u16_le("cpu")?;
        let mods = r.counted_text("mods")?;
        let mode = r.counted_text("mission type")?;
        self.map = r.counted_text("map")?;
        let motd = r.counted_text("motd")?;
        let teams = r.u8("teams")?;
        let mut tribes = Tribes {
            mods,
            mode,
            motd,
            team_columns: r.counted_text("team columns")?,
            player_columns: r.counted_text("player columns")?,
            ..Tribes::default()
        };
        let at = r.at();
        if read_lists(r, teams, players, &mut tribes).is_err() {
            r.notes().deviation(&CUT_LISTS, at);
        } else {
            r.trailing(&TRAILING_BYTES);
        }
        r.notes().ungroup();
        self.tribes = Some(tribes);
        Ok(())
    }

    /// Parses the fields of Starsiege after the name (spec/tribes1.md#4).
    fn read_starsiege(&mut self, r: &mut Reader<'a, '_>) -> Result<(), Error> {
        let mut settings = Vec::new();
        self.has_password = r.u8("password")? != 0;
        self.is_dedicated = r.u8("dedicated")? != 0;
        for name in ["drop-in-progress", "game-in-progress"] {
            settings.push((name, r.u8(name)?.into()));
        }
        self.online = r.u32_le("players")?;
        self.max = r.u32_le("max players")?;
        settings.push(("team-play", r.u8("team-play")?.into()));
        self.map = r.counted_text("map")?;
        self.cpu_mhz = r.u16_le("cpu")?;
        for name in ["factory-vehicles", "allow-tecmix"] {
            settings.push((name, r.u8(name)?.into()));
        }
        for name in [
            "spawn-limit",
            "frag-limit",
            "time-limit",
            "tech-limit",
            "combat-limit",
            "mass-limit",
        ] {
            settings.push((name, r.u32_le(name)?));
        }
        let count = r.u32_le("players sent")?;
        let mut starsiege = Starsiege {
            settings,
            ..Starsiege::default()
        };
        while r.remaining() > 0 {
            let at = r.at();
            r.notes().group("players", starsiege.players.len());
            match (r.counted_text("name"), r.u8("team")) {
                (Ok(name), Ok(team)) => starsiege.players.push((name, team)),
                _ => {
                    r.notes().deviation(&CUT_LISTS, at);
                    break;
                }
            }
        }
        r.notes().ungroup();
        if (starsiege.players.len() as u64) < count.into() {
            let end = r.at();
            r.notes().deviation(&CUT_LISTS, end);
        }
        self.starsiege = Some(starsiege);
        Ok(())
    }
}

/// Parses the teams and players of Tribes, as far as they are there.
fn read_lists<'a>(
    r: &mut Reader<'a, '_>,
    teams: u8,
    players: u8,
    tribes: &mut Tribes<'a>,
) -> Result<(), Error> {
    for index in 0..teams.into() {
        r.notes().group("teams", index);
        let name = r.counted_text("name")?;
        tribes.teams.push((name, r.counted_text("values")?));
    }
    for index in 0..players.into() {
        r.notes().group("players", index);
        let mut player = Player {
            ping_ms: i32::from(r.u8("ping")?) * PING_UNIT_MS,
            loss: r.u8("loss")?,
            team: r.u8("team")?,
            ..Player::default()
        };
        player.name = r.counted_text("name")?;
        player.values = r.counted_text("values")?;
        tribes.players.push(player);
    }
    Ok(())
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let explained = |message, direction, error| Some(Explanation::guess(message, direction, error));
    if direction != Some(Direction::Reply) && Request::read(bytes, notes).is_some() {
        return explained("status request", Direction::Request, None);
    }
    if direction != Some(Direction::Request) && Reply::is_reply(bytes) {
        let error = Reply::read(bytes, notes).err();
        return explained("status", Direction::Reply, error);
    }
    None
}
