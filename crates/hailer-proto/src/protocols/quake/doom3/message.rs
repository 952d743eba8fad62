//! Bytes ⇄ messages. The only file that knows offsets (spec/doom3.md#2 to #4).

use super::deviation::*;
use crate::protocols::quake::infostring::decode;
use crate::wire::{Error, Notes, Reader, first_nul};
use alloc::{format, vec::Vec};

/// Starts every message outside of a game session.
pub const OUT_OF_BAND: [u8; 2] = [0xFF; 2];
/// Length of a challenge in bytes.
pub const CHALLENGE: usize = 4;
/// Length of the shortest request with a challenge in bytes.
pub(super) const SHORTEST_REQUEST: usize = OUT_OF_BAND.len() + GET_INFO.len() + CHALLENGE;
/// Ends a list of players.
pub const END: u8 = 32;

const GET_INFO: &[u8] = b"getInfo\0";
const GET_INFO_EX: &[u8] = b"getInfoEx\0";
const INFO: &[u8] = b"infoResponse\0";
const INFO_EX: &[u8] = b"infoExResponse\0";
/// Most pairs of a dictionary.
const MAX_PAIRS: usize = 512;
/// Most players: each has an id below the end mark.
pub const MAX_PLAYERS: usize = 32;

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whether statistics of the players are requested, which only Quake Wars has.
    pub is_extended: bool,
    /// Bytes that the server returns: the first 4, or 8 in Quake Wars.
    pub challenge: &'a [u8],
}

impl<'a> Request<'a> {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(OUT_OF_BAND);
        out.extend(if self.is_extended {
            GET_INFO_EX
        } else {
            GET_INFO
        });
        out.extend(self.challenge);
    }

    /// Returns whether bytes start like a request.
    pub fn is_request(bytes: &[u8]) -> bool {
        bytes
            .strip_prefix(&OUT_OF_BAND)
            .is_some_and(|body| body.starts_with(GET_INFO) || body.starts_with(GET_INFO_EX))
    }

    /// Parses a request of a Doom 3 client.
    ///
    /// # Errors
    ///
    /// Fails if the command is unknown or the challenge has fewer than 4 bytes, 3 in an extended
    /// request.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(&OUT_OF_BAND, "header")?;
        let is_extended = r.rest().starts_with(GET_INFO_EX);
        r.constant(if is_extended { GET_INFO_EX } else { GET_INFO }, "command")?;
        // A client of Quake Wars sends three bytes (GameQ).
        let is_short = is_extended && r.remaining() == CHALLENGE - 1;
        let length = CHALLENGE - usize::from(is_short);
        let challenge = r.raw(length, "challenge")?;
        let second = r.rest().get(..CHALLENGE).map_or(0, <[u8]>::len);
        r.raw(second, "second challenge")?;
        let start = bytes.len() - r.remaining() - challenge.len() - second;
        let challenge = bytes.get(start..start + challenge.len() + second);
        // Servers ignore further bytes.
        r.raw(r.remaining(), "further bytes")?;
        Ok(Self {
            is_extended,
            challenge: challenge.unwrap_or_default(),
        })
    }
}

/// The game, by its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Game {
    /// Doom 3, Prey, Wolfenstein.
    #[default]
    Doom3,
    /// Quake 4.
    Quake4,
    /// Enemy Territory: Quake Wars.
    QuakeWars,
}

impl Game {
    fn of_version(version: u32) -> Self {
        match version >> 16 {
            2 => Self::Quake4,
            10.. => Self::QuakeWars,
            _ => Self::Doom3,
        }
    }
}

/// Fields of a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    has_rate: bool,
    has_clan: bool,
    /// Whether players have two flags: the position of the clan in the name, and whether the player
    /// is a bot.
    has_flags: bool,
    end: u8,
}

impl Layout {
    const fn new(has_rate: bool, has_clan: bool, has_flags: bool) -> Self {
        Self {
            has_rate,
            has_clan,
            has_flags,
            end: END,
        }
    }

    /// Returns the layout of a version, and then all others.
    fn candidates(version: u32) -> impl Iterator<Item = Self> {
        let major = version >> 16;
        let minor = version & 0xFFFF;
        let own = match Game::of_version(version) {
            Game::Doom3 => Self::new(true, false, false),
            Game::Quake4 => Self::new(true, true, false),
            Game::QuakeWars => {
                let is_old = major == 10;
                let has_rate = is_old && minor < 19;
                let has_clan = !is_old || minor >= 17;
                Self::new(has_rate, has_clan, has_clan)
            }
        };
        let all = [
            Self::new(true, false, false),
            Self::new(true, true, false),
            Self::new(false, true, true),
            Self::new(true, true, true),
            Self::new(false, false, false),
            Self {
                end: 16,
                ..Self::new(true, false, false)
            },
        ];
        [own]
            .into_iter()
            .chain(all.into_iter().filter(move |layout| *layout != own))
    }
}

/// Reply of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply<'a> {
    /// The game, by its version.
    pub game: Game,
    /// Returned bytes of the request: 4, or 8 in Quake Wars.
    pub challenge: &'a [u8],
    /// Version of the protocol: the upper half is the major number.
    pub version: u32,
    /// Variables of the server.
    pub pairs: Vec<(&'a [u8], &'a [u8])>,
    /// Players; `None` if the list is not readable.
    pub players: Option<Vec<Player<'a>>>,
    /// Whether the server is ranked (Quake Wars).
    pub is_ranked: Option<bool>,
    /// Rest of the match in milliseconds (Quake Wars).
    pub time_left_ms: Option<u32>,
    /// State of the match (Quake Wars).
    pub state: Option<u8>,
    /// Spectators who are not on the server, by Quake Wars TV: connected and maximum.
    pub viewers: Option<[u32; 2]>,
}

/// Player of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Player<'a> {
    /// Number of the slot.
    pub id: u8,
    /// Round trip in milliseconds.
    pub ping: u16,
    /// Bytes per second.
    pub rate: Option<u32>,
    /// Name with its color codes.
    pub name: &'a [u8],
    /// Name of the clan.
    pub clan: &'a [u8],
    /// Whether the clan stands after the name.
    pub is_clan_last: bool,
    /// Whether the player is a bot.
    pub is_bot: Option<bool>,
    /// Statistics, if requested.
    pub statistics: Option<Statistics<'a>>,
}

/// Statistics of a player (Quake Wars).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics<'a> {
    /// Experience in this campaign.
    pub experience: f32,
    /// Name of the team.
    pub team: &'a [u8],
    /// Kills in this match.
    pub kills: i32,
    /// Deaths in this match.
    pub deaths: i32,
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        bytes
            .strip_prefix(&OUT_OF_BAND)
            .is_some_and(|body| body.starts_with(INFO) || body.starts_with(INFO_EX))
    }

    /// Returns the challenge of bytes that start like a reply.
    pub fn challenge_of(bytes: &[u8]) -> Option<&[u8]> {
        let body = bytes.strip_prefix(&OUT_OF_BAND)?;
        match body.strip_prefix(INFO_EX) {
            Some(rest) => rest.get(..2 * CHALLENGE),
            None => {
                let rest = body.strip_prefix(INFO)?;
                let is_long = has_long_challenge(rest);
                rest.get(..if is_long { 2 * CHALLENGE } else { CHALLENGE })
            }
        }
    }

    /// Parses a reply of a Doom 3 server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(&OUT_OF_BAND, "header")?;
        let is_extended = r.rest().starts_with(INFO_EX);
        r.constant(if is_extended { INFO_EX } else { INFO }, "command")?;
        let start = r.at();
        let is_quake_wars = is_extended || has_long_challenge(r.rest());
        r.raw(CHALLENGE, "challenge")?;
        if is_quake_wars {
            r.raw(CHALLENGE, "second challenge")?;
        }
        let challenge = bytes.get(start..r.at()).unwrap_or_default();
        let at = r.at();
        let version = u32::from_le_bytes(r.array("version")?);
        r.note(at, "version", || {
            format!("{}.{}", version >> 16, version & 0xFFFF)
        });
        let game = if is_quake_wars {
            Game::QuakeWars
        } else {
            Game::of_version(version)
        };
        if is_quake_wars {
            let at = r.at();
            let size = r.u32_le("size")? as usize;
            if size != r.remaining() {
                r.notes().deviation(&OTHER_SIZE, at);
            }
        }
        let pairs = dictionary(&mut r)?;
        let mut reply = Self {
            game,
            challenge,
            version,
            pairs,
            ..Self::default()
        };
        reply.read_players(&mut r);
        if reply.players.is_some() {
            let is_complete = reply.read_tail(&mut r, is_extended);
            if is_complete.is_err() {
                let at = r.at();
                r.notes().deviation(&SHORT_TAIL, at);
            }
        }
        r.raw(r.remaining(), "further bytes")?;
        Ok(reply)
    }

    /// Returns the value of a variable. The case of its name does not matter.
    pub fn value(&self, key: &str) -> Option<&'a [u8]> {
        let pair = self
            .pairs
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(key.as_bytes()));
        pair.map(|(_, value)| *value)
    }

    /// Reads the players with the first layout in which the list has an end.
    fn read_players(&mut self, r: &mut Reader<'a, '_>) {
        let bytes = r.rest();
        let at = r.at();
        let mut layouts = Layout::candidates(self.version).enumerate();
        let fits = |layout: Layout| {
            let mut notes = Notes::discarding();
            players(&mut Reader::new(bytes, &mut notes), layout).is_ok()
        };
        let Some((place, layout)) = layouts.find(|(_, layout)| fits(*layout)) else {
            r.notes().deviation(&UNREADABLE_PLAYERS, at);
            return;
        };
        if layout.end != END {
            r.notes().deviation(&SIXTEEN_ENDS_LIST, at);
        } else if place > 0 {
            r.notes().deviation(&OTHER_LAYOUT, at);
        }
        self.players = players(r, layout).ok();
    }

    /// Reads the fields after the players.
    fn read_tail(&mut self, r: &mut Reader<'a, '_>, is_extended: bool) -> Result<(), Error> {
        r.raw(4, "operating systems")?;
        if self.game != Game::QuakeWars {
            return Ok(());
        }
        self.is_ranked = Some(r.u8("ranked")? != 0);
        self.time_left_ms = Some(r.u32_le("time left")?);
        self.state = Some(r.u8("state")?);
        match r.u8("server type")? {
            1 => self.viewers = Some([r.u32_le("viewers")?, r.u32_le("maximum of viewers")?]),
            _ => drop(r.u8("interested clients")?),
        }
        if !is_extended {
            return Ok(());
        }
        for index in 0..MAX_PLAYERS + 1 {
            r.notes().group("statistics", index);
            let id = r.u8("id")?;
            if id == END {
                break;
            }
            let statistics = Statistics {
                experience: r.f32_le("experience")?,
                team: text(r, "team")?,
                kills: r.i32_le("kills")?,
                deaths: r.i32_le("deaths")?,
            };
            let players = self.players.iter_mut().flatten();
            for player in players.filter(|player| player.id == id) {
                player.statistics = Some(statistics);
            }
        }
        r.notes().ungroup();
        Ok(())
    }
}

/// Returns whether two challenges precede the version of a reply, as in Quake Wars. No other
/// game has a large version.
fn has_long_challenge(rest: &[u8]) -> bool {
    let version = rest.get(CHALLENGE..).and_then(<[u8]>::first_chunk);
    let version = version.map_or(0, |version| u32::from_le_bytes(*version));
    !(1..=9).contains(&(version >> 16))
}

/// Keys and values.
type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Reads pairs of texts, up to an empty key and one more NUL.
fn dictionary<'a>(r: &mut Reader<'a, '_>) -> Result<Pairs<'a>, Error> {
    let mut pairs: Vec<(&[u8], &[u8])> = Vec::new();
    loop {
        let at = r.at();
        let key = text(r, "key")?;
        let value = text(r, "value")?;
        if key.is_empty() {
            return Ok(pairs);
        }
        if pairs.iter().any(|(known, _)| *known == key) {
            r.notes().deviation(&DUPLICATE_KEY, at);
            continue;
        }
        if pairs.len() == MAX_PAIRS {
            return Err(Error::limit("key", at, MAX_PAIRS));
        }
        pairs.push((key, value));
    }
}

/// Reads players up to the end mark.
fn players<'a>(r: &mut Reader<'a, '_>, layout: Layout) -> Result<Vec<Player<'a>>, Error> {
    let mut players: Vec<Player<'_>> = Vec::new();
    loop {
        r.notes().group("players", players.len());
        let at = r.at();
        let id = r.u8("id")?;
        if id == layout.end {
            r.notes().ungroup();
            return Ok(players);
        }
        if usize::from(id) >= MAX_PLAYERS || players.len() == MAX_PLAYERS {
            return Err(Error::bad(
                "id",
                at,
                "at most 32 players with numbers below 32",
            ));
        }
        let ping = r.u16_le("ping")?;
        let rate = if layout.has_rate {
            Some(r.u32_le("rate")?)
        } else {
            None
        };
        let name = text(r, "name")?;
        let is_clan_last = layout.has_flags && r.u8("clan position")? != 0;
        let clan = if layout.has_clan {
            text(r, "clan")?
        } else {
            b""
        };
        let is_bot = if layout.has_flags {
            Some(r.u8("bot")? != 0)
        } else {
            None
        };
        players.push(Player {
            id,
            ping,
            rate,
            name,
            clan,
            is_clan_last,
            is_bot,
            statistics: None,
        });
    }
}

/// Reads a text up to its NUL.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let length = first_nul(r.rest()).unwrap_or(r.remaining());
    let text = r.take(length + 1, field)?;
    let text = text.get(..length).unwrap_or_default();
    r.note(at, field, || format!("{:?}", decode(text)));
    Ok(text)
}

/// Appends the start of a reply, up to the dictionary. `size` is the number of bytes that follow.
pub fn write_start(request: Request<'_>, game: Game, version: u32, size: usize, out: &mut Vec<u8>) {
    out.extend(OUT_OF_BAND);
    let is_extended = request.is_extended && game == Game::QuakeWars;
    out.extend(if is_extended { INFO_EX } else { INFO });
    if game == Game::QuakeWars {
        let missing = 2 * CHALLENGE - request.challenge.len().min(2 * CHALLENGE);
        out.extend(request.challenge);
        out.extend([0xFF; 2 * CHALLENGE].iter().take(missing));
        out.extend(version.to_le_bytes());
        out.extend((size as u32).to_le_bytes());
    } else {
        out.extend(
            request
                .challenge
                .get(..CHALLENGE)
                .unwrap_or(&[0xFF; CHALLENGE]),
        );
        out.extend(version.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    const DICTIONARY: &[u8] = b"si_name\0Test\0\0\0";

    fn reply(start: &[u8], version: u32, rest: &[u8]) -> Vec<u8> {
        [start, &version.to_le_bytes(), rest].concat()
    }

    fn read(bytes: &[u8]) -> (String, Vec<&'static str>) {
        let mut notes = Notes::explaining();
        let text = match Reply::read(bytes, &mut notes) {
            Err(error) => error.to_string(),
            Ok(reply) => {
                let player = |player: &Player<'_>| {
                    let text = decode;
                    let name = text(player.name);
                    let clan = text(player.clan);
                    format!(
                        "{} {} {name} {clan} {:?}",
                        player.id, player.ping, player.is_bot
                    )
                };
                let players = reply.players.as_ref();
                let players = players.map(|list| list.iter().map(player).collect::<Vec<_>>());
                format!("{:?} {players:?}", reply.game)
            }
        };
        (text, notes.met().map(|met| met.name).collect())
    }

    #[test]
    fn requests_both_ways() {
        for (request, bytes) in [
            (
                Request {
                    is_extended: false,
                    challenge: b"HAIL",
                },
                &b"\xFF\xFFgetInfo\0HAIL"[..],
            ),
            (
                Request {
                    is_extended: true,
                    challenge: b"TASKHAIL",
                },
                b"\xFF\xFFgetInfoEx\0TASKHAIL",
            ),
        ] {
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(out, bytes);
            assert_eq!(Request::read(bytes, &mut Notes::default()), Ok(request));
            let longer = [bytes, b"xx"].concat();
            assert_eq!(Request::read(&longer, &mut Notes::default()), Ok(request));
            let least = 4 - usize::from(request.is_extended);
            for end in 0..bytes.len() - request.challenge.len() + least {
                assert!(
                    Request::read(&bytes[..end], &mut Notes::default()).is_err(),
                    "{end}"
                );
            }
        }
    }

    #[test]
    fn the_version_selects_the_layout() {
        let doom = b"\x05\x32\0\xA8\x61\0\0Al\0\x20\x07\0\0\0";
        let quake = b"\x05\x32\0\xA8\x61\0\0Al\0cl\0\x20\x07\0\0\0";
        let start = b"\xFF\xFFinfoResponse\0HAIL";
        let with =
            |version, rest: &[u8]| read(&reply(start, version, &[DICTIONARY, rest].concat()));
        let none: Vec<&str> = Vec::new();
        let doom_text = "Doom3 Some([\"5 50 Al  None\"])".to_string();
        assert_eq!(with(0x1_0029, doom), (doom_text.clone(), none.clone()));
        assert_eq!(with(0x4_0001, doom), (doom_text, none.clone()));
        let quake_text = "Quake4 Some([\"5 50 Al cl None\"])".to_string();
        assert_eq!(with(0x2_0055, quake), (quake_text, none.clone()));
        assert_eq!(with(0x1_0029, quake).1, ["other-layout"]);
        let sixteen = b"\0\x32\0\xA8\x61\0\0Al\0\x10\x07\0\0\0";
        assert_eq!(with(0x1_0029, sixteen).1, ["sixteen-ends-list"]);
        let (text, met) = with(0x1_0029, b"\x05\x32\0\xA8");
        assert_eq!(
            (text.as_str(), &met[..]),
            ("Doom3 None", &["unreadable-players"][..])
        );
        assert_eq!(with(0x1_0029, b"\x20\x07\0").1, ["short-tail"]);
        assert_eq!(with(0x1_0029, b"\x20\x07\0\0\0more").1, none);
    }

    #[test]
    fn quake_wars_layouts_changed_with_the_version() {
        let start = b"\xFF\xFFinfoResponse\0TASKHAIL";
        let with = |minor: u32, players: &[u8]| {
            let tail = b"\x20\x07\0\0\0\x01\xFF\xFF\xFF\xFF\x02\0\x05";
            let rest = [DICTIONARY, players, tail].concat();
            let size = (rest.len() as u32).to_le_bytes();
            read(&reply(
                start,
                10 << 16 | minor,
                &[&size[..], &rest].concat(),
            ))
        };
        let ok = |text: &str| (format!("QuakeWars Some([\"{text}\"])"), Vec::new());
        assert_eq!(
            with(21, b"\x03\x4C\0Al\0\x01cl\0\x01"),
            ok("3 76 Al cl Some(true)")
        );
        assert_eq!(
            with(19, b"\x03\x4C\0Al\0\x01cl\0\0"),
            ok("3 76 Al cl Some(false)")
        );
        assert_eq!(
            with(18, b"\x03\x4C\0\xA8\x61\0\0Al\0\x01cl\0\0"),
            ok("3 76 Al cl Some(false)")
        );
        assert_eq!(
            with(17, b"\x03\x4C\0\xA8\x61\0\0Al\0\x01cl\0\0"),
            ok("3 76 Al cl Some(false)")
        );
        assert_eq!(with(16, b"\x03\x4C\0\xA8\x61\0\0Al\0"), ok("3 76 Al  None"));
    }

    #[test]
    fn errors_name_field_and_offset() {
        let start = b"\xFF\xFFinfoResponse\0HAIL";
        assert!(read(b"\xFF\xFFx").0.contains("command at offset 2"));
        assert!(read(start).0.contains("second challenge at offset 19"));
        assert!(
            read(&reply(start, 0x1_0029, b"si_name\0T"))
                .0
                .contains("value at offset 31")
        );
        let many: Vec<u8> = (0..600)
            .flat_map(|i| format!("{i}\0x\0").into_bytes())
            .collect();
        assert!(
            read(&reply(start, 0x1_0029, &many))
                .0
                .contains("more than 512")
        );
    }
}
