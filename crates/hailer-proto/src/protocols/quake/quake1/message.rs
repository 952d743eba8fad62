//! Bytes ⇄ messages. The only file that knows the layout (spec/quake1.md#2 to #4).

use super::deviation::*;
use crate::protocols::quake::infostring::{Dialect, Infostring, Word, read_lines, words};
use crate::wire::charset;
use crate::wire::{Error, Notes, Reader, counted};
use alloc::{format, vec::Vec};

/// Length of the shortest request in bytes.
pub(super) const SHORTEST_REQUEST: usize = 4 + STATUS.len();
/// Prefix of the names of spectators.
pub const SPECTATOR_PREFIX: &[u8] = b"\\s\\";
/// Score of spectators.
pub const SPECTATOR_SCORE: i64 = -9_999;

const STATUS: &[u8] = b"status";
const REPLY: u8 = b'n';
const DIALECT: Dialect = Dialect {
    no_value: &NO_VALUE,
    duplicate: &DUPLICATE_KEY,
    empty_line: &EMPTY_LINE,
    no_line_feed: None,
    variables_after_players: None,
    decode: charset::decode,
};

/// Bits of a request: what the reply should have.
pub mod bit {
    /// The infostring.
    pub const INFO: i64 = 1;
    /// Players.
    pub const PLAYERS: i64 = 2;
    /// Spectators.
    pub const SPECTATORS: i64 = 4;
    /// The team of each player.
    pub const TEAMS: i64 = 16;
    /// Whether each player is a bot.
    pub const BOTS: i64 = 128;
}

/// The game, which shows in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Game {
    /// QuakeWorld: four bytes FF.
    #[default]
    QuakeWorld,
    /// HexenWorld: five bytes FF.
    HexenWorld,
}

impl Game {
    /// Returns the header of all messages.
    pub fn header(self) -> &'static [u8] {
        match self {
            Self::QuakeWorld => &[0xFF; 4],
            Self::HexenWorld => &[0xFF; 5],
        }
    }

    /// Returns the game of a message, and the message after its header.
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        [Self::HexenWorld, Self::QuakeWorld]
            .into_iter()
            .find_map(|game| Some((game, bytes.strip_prefix(game.header())?)))
    }
}

/// A status request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Game of the client.
    pub game: Game,
    /// The [bits](bit); 0 in old requests.
    pub bits: i64,
}

impl Request {
    /// Returns whether bytes are a request.
    pub fn is_request(bytes: &[u8]) -> bool {
        Self::read(bytes, &mut Notes::discarding()).is_some()
    }

    /// Returns whether bytes are a request that no server of another protocol accepts. Without
    /// bits, it could be one of Quake 2.
    pub fn is_certain(bytes: &[u8]) -> bool {
        let request = Self::read(bytes, &mut Notes::discarding());
        request.is_some_and(|request| request.bits != 0 || request.game == Game::HexenWorld)
    }

    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(self.game.header());
        out.extend(format!("status {}\n", self.bits).bytes());
    }

    /// Parses a request; `None` if it is none of this protocol.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Option<Self> {
        let (game, body) = Game::split(bytes)?;
        let text = body.trim_ascii_end();
        let text = text.strip_suffix(b"\0").unwrap_or(text).trim_ascii_end();
        let mut parts = words(text, game.header().len());
        let command = parts.next().filter(|command| command.bytes == STATUS)?;
        let argument = parts.next();
        let bits = match argument {
            None => 0,
            Some(bits) => bits.number()?,
        };
        if parts.next().is_some() {
            return None;
        }
        command.note("command", notes);
        if let Some(argument) = argument {
            argument.note("bits", notes);
        }
        Some(Self { game, bits })
    }
}

/// A status reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Game of the server.
    pub game: Game,
    /// Variables of the server.
    pub info: Infostring<'a>,
    /// Players and spectators.
    pub players: Vec<Line<'a>>,
}

/// The player of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line<'a> {
    /// Number of the connection.
    pub id: Option<i64>,
    /// Score; `None` for spectators.
    pub score: Option<i64>,
    /// Minutes since the player connected.
    pub minutes: Option<i64>,
    /// Round trip in milliseconds; negative for spectators.
    pub ping: Option<i64>,
    /// Name in Quake's character set, without the prefix of spectators.
    pub name: &'a [u8],
    /// Name of the skin.
    pub skin: &'a [u8],
    /// Colors of shirt and trousers.
    pub colors: [Option<i64>; 2],
    /// Name of the team.
    pub team: Option<&'a [u8]>,
    /// Whether the player is a bot.
    pub is_bot: Option<bool>,
    /// Flag of the player's account.
    pub flag: Option<&'a [u8]>,
    /// Whether the player is a spectator.
    pub is_spectator: bool,
}

impl<'a> Reply<'a> {
    /// Returns the game of a reply, if bytes start like one.
    pub fn game_of(bytes: &[u8]) -> Option<Game> {
        let (game, body) = Game::split(bytes)?;
        body.starts_with(&[REPLY, b'\\']).then_some(game)
    }

    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        Self::game_of(bytes).is_some()
    }

    /// Parses a reply of a Quake 1 server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let game = Self::game_of(bytes).unwrap_or_default();
        let mut r = Reader::new(bytes, notes);
        r.constant(game.header(), "header")?;
        r.constant(&[REPLY], "command")?;
        let at = r.at();
        let rest = r.rest();
        let text = match rest.strip_suffix(b"\0") {
            Some(text) => text,
            None => {
                notes.deviation(&NO_NUL, bytes.len());
                rest
            }
        };
        let (info, players) = read_lines(text, at, notes, &DIALECT, |line, at, notes| {
            // A stream of the match, not a player.
            if line.starts_with(b"qtv ") {
                notes.ungroup();
                notes.field(at..at + line.len(), "stream", || {
                    counted(line.len(), "byte")
                });
                return None;
            }
            Some(Line::read(line, at, notes))
        })?;
        Ok(Self {
            game,
            info,
            players,
        })
    }
}

impl<'a> Line<'a> {
    /// Parses a line at offset `at`. Any line can be parsed.
    fn read(line: &'a [u8], at: usize, notes: &mut Notes) -> Self {
        let mut player = Self::default();
        let mut count = 0;
        for (place, word) in words(line, at).enumerate() {
            count = place + 1;
            let field = player.set(place, word);
            word.note_as(charset::decode, field.unwrap_or("further"), notes);
            let is_odd = match place {
                0 | 2 | 3 | 6 | 7 => word.number().is_none(),
                1 => word.number().is_none() && word.bytes != b"S",
                4 => !word.is_quoted,
                _ => false,
            };
            if is_odd {
                notes.deviation(&ODD_PLAYER, word.at);
            }
        }
        if count < 8 {
            notes.deviation(&ODD_PLAYER, at + line.len());
        }
        player
    }

    /// Sets a field by its place in the line. Returns its name.
    fn set(&mut self, place: usize, word: Word<'a>) -> Option<&'static str> {
        let number = word.number();
        match place {
            0 => {
                self.id = number;
                Some("id")
            }
            1 => {
                self.score = number;
                self.is_spectator = word.bytes == b"S" || number == Some(SPECTATOR_SCORE);
                Some("score")
            }
            2 => {
                self.minutes = number;
                Some("minutes")
            }
            3 => {
                self.ping = number;
                Some("ping")
            }
            4 => {
                let prefix = word.bytes.strip_prefix(SPECTATOR_PREFIX);
                self.is_spectator |= prefix.is_some();
                self.name = prefix.unwrap_or(word.bytes);
                if self.is_spectator {
                    self.score = None;
                }
                Some("name")
            }
            5 => {
                self.skin = word.bytes;
                Some("skin")
            }
            6 => {
                self.colors = [number, None];
                Some("top color")
            }
            7 => {
                self.colors = [self.colors.first().copied().flatten(), number];
                Some("bottom color")
            }
            8 if word.is_quoted => {
                self.team = Some(word.bytes);
                Some("team")
            }
            _ if word.is_quoted && matches!(word.bytes, b"b" | b"h") => {
                self.is_bot = Some(word.bytes == b"b");
                Some("kind")
            }
            _ if word.is_quoted => {
                self.flag = Some(word.bytes);
                Some("flag")
            }
            _ => None,
        }
    }
}

/// Appends the start of a reply, up to the infostring.
pub fn write_start(game: Game, out: &mut Vec<u8>) {
    out.extend(game.header());
    out.push(REPLY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_both_ways() {
        for (request, bytes) in [
            (
                Request {
                    game: Game::QuakeWorld,
                    bits: 23,
                },
                &b"\xFF\xFF\xFF\xFFstatus 23\n"[..],
            ),
            (
                Request {
                    game: Game::HexenWorld,
                    bits: 0,
                },
                b"\xFF\xFF\xFF\xFF\xFFstatus 0\n",
            ),
        ] {
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(out, bytes);
            assert_eq!(Request::read(bytes, &mut Notes::default()), Some(request));
        }
        let read = |text: &str| {
            let bytes = [Game::QuakeWorld.header(), text.as_bytes()].concat();
            Request::read(&bytes, &mut Notes::default()).map(|request| request.bits)
        };
        assert_eq!(
            (read("status"), read("status\0"), read("status \n")),
            (Some(0), Some(0), Some(0))
        );
        assert_eq!(read("status 151"), Some(151));
        for other in [
            "",
            "statu",
            "statusx",
            "status x",
            "status 1 2",
            "n\\a\\b\n",
            "ping",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    fn line(text: &str) -> (Line<'_>, Vec<&'static str>) {
        let mut notes = Notes::explaining();
        let line = Line::read(text.as_bytes(), 0, &mut notes);
        (line, notes.met().map(|met| met.name).collect())
    }

    #[test]
    fn forms_of_player_lines() {
        let al = Line {
            id: Some(12),
            score: Some(5),
            minutes: Some(7),
            ping: Some(38),
            name: b"A l",
            skin: b"base",
            colors: [Some(4), Some(13)],
            ..Line::default()
        };
        assert_eq!(line("12 5 7 38 \"A l\" \"base\" 4 13"), (al, Vec::new()));
        let with_team = Line {
            team: Some(b"red"),
            ..al
        };
        assert_eq!(
            line("12 5 7 38 \"A l\" \"base\" 4 13 \"red\""),
            (with_team, Vec::new())
        );
        let bot = Line {
            flag: Some(b"de"),
            is_bot: Some(true),
            ..with_team
        };
        assert_eq!(
            line("12 5 7 38 \"A l\" \"base\" 4 13 \"red\" \"de\" \"b\""),
            (bot, Vec::new())
        );
        for score in ["-9999", "S", "3"] {
            let text = format!("12 {score} 7 -38 \"\\s\\A l\" \"base\" 4 13");
            let (spectator, met) = line(&text);
            let expected = Line {
                score: None,
                ping: Some(-38),
                is_spectator: true,
                ..al
            };
            assert_eq!((spectator, met.len()), (expected, 0), "{score}");
        }
        for odd in [
            "12 5 7 38 \"Al\" \"\" 4",
            "x 5 7 38 \"Al\" \"\" 4 4",
            "1 x 7 38 \"Al\" \"\" 4 4",
            "1 5 7 38 Al \"\" 4 4",
        ] {
            assert_eq!(line(odd).1, ["odd-player"], "{odd}");
        }
    }

    #[test]
    fn lines_other_than_players_are_skipped() {
        let mut notes = Notes::default();
        let bytes = b"\xFF\xFF\xFF\xFFn\\a\\b\n\nqtv 1 \"x\"\n1 2 3 4 \"Al\" \"\" 0 0\n\0";
        let reply = Reply::read(bytes, &mut notes).unwrap();
        assert_eq!(reply.players.len(), 1);
        assert_eq!(
            notes.met().map(|met| met.name).collect::<Vec<_>>(),
            ["empty-line"]
        );
        assert!(Reply::read(b"\xFF\xFF\xFF\xFFx\\a\\b", &mut notes).is_err());
        assert_eq!(
            Reply::game_of(b"\xFF\xFF\xFF\xFF\xFFn\\"),
            Some(Game::HexenWorld)
        );
        assert_eq!(Reply::game_of(b"\xFF\xFF\xFF\xFFnothing"), None);
    }
}
