//! Games: the protocols that their servers speak, and the ports.
//!
//! A protocol is a wire format; a game is a row of [`GAMES`]. Rows name protocols by id, the main
//! protocol first. To add a game, add a row to `table.rs`. Programs and users can add further
//! games, which this table does not contain.
//!
//! The table also has games that no protocol of the [registry] reads, with the
//! reason.
//!
//! In: ids, aliases, ports. Out: rows of the games table, query ports.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::registry`.

mod table;

use crate::model::encoding::Charset;
use crate::protocol::Protocol;
use crate::registry;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

pub use table::GAMES;

/// Maximum number of ports at which a game is queried, with the given port.
pub const MAX_PORTS: usize = 4;

/// A game, as its servers are queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Game {
    /// Name in kebab case; also the URL scheme of targets.
    pub id: &'static str,
    /// Name for people, such as in tables.
    pub name: &'static str,
    /// Ids of the protocols: the main one, then those that complete its answer. Empty if there is
    /// no public query.
    pub protocols: &'static [&'static str],
    /// Port that players connect to; `None` if unknown.
    pub port: Option<u16>,
    /// Port of the query.
    pub query: QueryPort,
    /// SRV service for names without a port, such as `_minecraft._tcp`.
    pub srv: Option<&'static str>,
    /// Properties of the game's servers that the protocol does not explain.
    pub quirks: &'static [Quirk],
    /// Where the ports are known from: one letter for each of [`SOURCES`], and `~` for a port that
    /// none of them confirms.
    pub sources: &'static str,
    /// Other ids, most of them those of node-gamedig.
    pub aliases: &'static [&'static str],
}

impl Game {
    /// A game without facts, for rows that leave some out: queried at the port of its protocol.
    pub const EMPTY: Self = Self {
        id: "",
        name: "",
        protocols: &[],
        port: None,
        query: QueryPort::Same,
        srv: None,
        quirks: &[],
        sources: "",
        aliases: &[],
    };
}

/// Letters of [`Game::sources`] and their names.
pub const SOURCES: [(char, &str); 5] = [
    ('N', "node-gamedig"),
    ('Q', "GameQ"),
    ('L', "LGSL"),
    ('M', "LinuxGSM"),
    ('S', "the protocol's specification"),
];

/// Port at which the servers of a game are queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryPort {
    /// The game's port.
    Same,
    /// This port, for any port of the game. Further servers on one machine use other ports.
    Fixed(u16),
    /// The game's port plus this number.
    Offset(i32),
    /// One of several, the most common first.
    FirstOf(&'static [Self]),
    /// Another one in each protocol of the game, in their order.
    Each(&'static [(&'static str, Self)]),
    /// There is no public query.
    NoQuery(Obstacle),
}

/// Why the servers of a game cannot be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Epic Online Services know the servers, and reply only to the publisher.
    PublisherSecret,
    /// Only the list of a master server has their status.
    ListOnly,
    /// A web service reports it to their owner.
    OwnerKey,
    /// The protocol of their query is not implemented, for this reason: a clause.
    Unsuitable(&'static str),
    /// No description of their query is known.
    Undocumented,
}

impl fmt::Display for Obstacle {
    /// Writes a clause without a final stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PublisherSecret => {
                "Epic Online Services reply only to clients that have the publisher's secret"
            }
            Self::ListOnly => "only the list of the master server describes its servers",
            Self::OwnerKey => "its web API requires a key of the server's owner",
            Self::Unsuitable(reason) => reason,
            Self::Undocumented => "Hailer knows no description of its query",
        })
    }
}

/// A property of the servers of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// Servers reply only with this setting.
    StatusNeeds(&'static str),
    /// Servers report all players only with this setting.
    PlayersNeed(&'static str),
    /// Servers hide the names of players.
    NamesHidden,
    /// Servers never reply to the request for players. It is not sent.
    NoPlayerList,
    /// Player counts may be wrong or out of date.
    UnsureCount,
    /// Servers do not reply while a lobby reserves them.
    SilentInLobby,
    /// Texts that are not UTF-8 are in this [character set](crate::Charset).
    Charset(&'static str),
}

impl Quirk {
    /// Returns the keyword of the quirk.
    pub fn key(self) -> &'static str {
        match self {
            Self::StatusNeeds(_) => "status-needs",
            Self::PlayersNeed(_) => "players-need",
            Self::NamesHidden => "names-hidden",
            Self::NoPlayerList => "no-player-list",
            Self::UnsureCount => "unsure-count",
            Self::SilentInLobby => "silent-in-lobby",
            Self::Charset(_) => "charset",
        }
    }

    /// Returns the quirk with a keyword. `setting` is used by those that name one.
    ///
    /// # Errors
    ///
    /// Describes an unknown keyword, and a setting that is missing or has no use.
    pub fn parse(key: &str, setting: Option<&'static str>) -> Result<Self, String> {
        const PLAIN: [Quirk; 4] = [
            Quirk::NamesHidden,
            Quirk::NoPlayerList,
            Quirk::UnsureCount,
            Quirk::SilentInLobby,
        ];
        const WITH_SETTING: [fn(&'static str) -> Quirk; 3] =
            [Quirk::StatusNeeds, Quirk::PlayersNeed, Quirk::Charset];
        let plain = PLAIN.into_iter().find(|quirk| quirk.key() == key);
        let with_setting = WITH_SETTING
            .into_iter()
            .map(|quirk| quirk(setting.unwrap_or_default()))
            .find(|quirk| quirk.key() == key);
        match (plain, with_setting, setting) {
            (Some(_), _, Some(_)) => Err(alloc::format!("{key} takes no setting; write \"{key}\"")),
            (Some(quirk), ..) => Ok(quirk),
            (_, Some(Quirk::Charset(_)), Some(name)) if Charset::find(name).is_none() => {
                Err(alloc::format!("{name:?}: {}", Charset::EXPECTED))
            }
            (_, Some(quirk), Some(setting)) if !setting.is_empty() => Ok(quirk),
            (_, Some(_), _) => Err(alloc::format!(
                "{key} names a setting; write \"{key}: SETTING\""
            )),
            _ => {
                let keys = PLAIN.map(Self::key).into_iter();
                let keys = keys.chain(WITH_SETTING.map(|quirk| quirk("").key()));
                let keys: Vec<&str> = keys.collect();
                Err(alloc::format!(
                    "unknown quirk {key:?}; known are {}",
                    keys.join(", ")
                ))
            }
        }
    }
}

impl fmt::Display for Quirk {
    /// Writes a sentence without a final stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StatusNeeds(setting) => write!(f, "servers reply only with {setting}"),
            Self::PlayersNeed(setting) => {
                write!(f, "servers report all player names only with {setting}")
            }
            Self::NamesHidden => f.write_str("servers hide the names of players"),
            Self::NoPlayerList => f.write_str("servers never send a player list"),
            Self::UnsureCount => f.write_str("player counts may be wrong"),
            Self::SilentInLobby => f.write_str("servers reserved by a lobby do not reply"),
            Self::Charset(name) => write!(f, "texts that are not UTF-8 are in {name}"),
        }
    }
}

impl Game {
    /// Returns the character set of texts that are not UTF-8, if it is known.
    pub fn charset(&self) -> Option<Charset> {
        self.quirks.iter().find_map(|quirk| match quirk {
            Quirk::Charset(name) => Charset::find(name),
            _ => None,
        })
    }

    /// Returns the protocols that the registry has, the main one first.
    pub fn known_protocols(&self) -> impl Iterator<Item = &'static dyn Protocol> + use<> {
        self.protocols.iter().filter_map(|id| registry::find(id))
    }

    /// Returns why servers of the game cannot be queried with the protocols of the registry, or
    /// `None` if they can: a clause without a final stop.
    pub fn obstacle(&self) -> Option<String> {
        match (self.query, self.protocols.first()) {
            (QueryPort::NoQuery(obstacle), _) => Some(match self.other_way() {
                Some(other) => alloc::format!("{obstacle}; try {}", other.id),
                None => alloc::format!("{obstacle}"),
            }),
            (_, None) => Some("no protocol is known".into()),
            (_, Some(_)) if self.known_protocols().next().is_some() => None,
            (_, Some(id)) => Some(alloc::format!(
                "its protocol {id} is not supported by this version"
            )),
        }
    }

    /// Returns the row for servers of this game that another protocol can query.
    fn other_way(&self) -> Option<&'static Self> {
        let mut rows = GAMES.iter();
        rows.find(|other| other.name == self.name && !other.protocols.is_empty())
    }

    /// Returns the ports to query, the most likely first, without duplicates and at most
    /// [`MAX_PORTS`]: the given port, then those derived from it. Without a given port, those
    /// derived from the game's port.
    pub fn query_ports(&self, given: Option<u16>) -> Vec<u16> {
        let mut ports: Vec<u16> = given.into_iter().collect();
        self.query.add(given.or(self.port), &mut ports);
        ports.truncate(MAX_PORTS);
        ports
    }

    /// Returns the ports to query in one of the protocols of the game, as [`query_ports`] does for
    /// the main one. In the others, the given port comes last: it is probably that of the game.
    ///
    /// [`query_ports`]: Self::query_ports
    pub fn query_ports_in(&self, protocol: &str, given: Option<u16>) -> Vec<u16> {
        let QueryPort::Each(ports) = self.query else {
            return self.query_ports(given);
        };
        let others = ports.iter().skip(1);
        let Some((_, query)) = others.into_iter().find(|(id, _)| *id == protocol) else {
            return self.query_ports(given);
        };
        let mut ports = Vec::new();
        query.add(given.or(self.port), &mut ports);
        ports.extend(given.filter(|port| !ports.contains(port)));
        ports.truncate(MAX_PORTS);
        ports
    }

    /// Returns whether every word occurs in the id, the name, an alias or a protocol's id. Case is
    /// ignored.
    pub fn matches(&self, words: &str) -> bool {
        let others = self.aliases.iter().chain(self.protocols);
        let texts: Vec<String> = [self.id, self.name]
            .iter()
            .chain(others)
            .map(|text| text.to_lowercase())
            .collect();
        words
            .to_lowercase()
            .split_whitespace()
            .all(|word| texts.iter().any(|text| text.contains(word)))
    }

    /// Returns the names of the sources, and whether one of them confirms the port.
    pub fn known_from(&self) -> (Vec<&'static str>, bool) {
        let names = SOURCES
            .iter()
            .filter(|(letter, _)| self.sources.contains(*letter))
            .map(|(_, name)| *name);
        (names.collect(), !self.sources.contains('~'))
    }
}

impl QueryPort {
    /// Appends the ports that belong to a game's port.
    fn add(self, game: Option<u16>, ports: &mut Vec<u16>) {
        let port = match self {
            Self::Same => game,
            Self::Fixed(port) => Some(port),
            Self::Offset(offset) => {
                game.and_then(|game| u16::try_from(i32::from(game).checked_add(offset)?).ok())
            }
            Self::FirstOf(several) => {
                return several.iter().for_each(|query| query.add(game, ports));
            }
            Self::Each(queries) => {
                return queries
                    .first()
                    .iter()
                    .for_each(|(_, query)| query.add(game, ports));
            }
            Self::NoQuery(_) => None,
        };
        if let Some(port) = port.filter(|port| *port > 0 && !ports.contains(port)) {
            ports.push(port);
        }
    }
}

impl fmt::Display for QueryPort {
    /// Writes `same`, `27015`, `game + 1`, or several of these, joined by "or". Ports of further
    /// protocols follow after commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("same"),
            Self::Fixed(port) => write!(f, "{port}"),
            Self::Offset(offset) => {
                let sign = if *offset < 0 { '-' } else { '+' };
                write!(f, "game {sign} {}", offset.unsigned_abs())
            }
            Self::FirstOf(several) => {
                for (place, query) in several.iter().enumerate() {
                    f.write_str(if place > 0 { " or " } else { "" })?;
                    query.fmt(f)?;
                }
                Ok(())
            }
            Self::Each(queries) => {
                for (place, (protocol, query)) in queries.iter().enumerate() {
                    match place {
                        0 => query.fmt(f)?,
                        _ => write!(f, ", {protocol} {query}")?,
                    }
                }
                Ok(())
            }
            Self::NoQuery(_) => f.write_str("none"),
        }
    }
}

impl FromStr for QueryPort {
    type Err = &'static str;

    /// Parses one port as [`Display`](fmt::Display) writes it: `same`, `27015` or `game + 1`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected same, a port such as 27015, or an offset such as game + 1";
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if text == "same" {
            return Ok(Self::Same);
        }
        let Some(offset) = text.strip_prefix("game") else {
            return match text.parse() {
                Ok(port) if port > 0 && is_digits(text) => Ok(Self::Fixed(port)),
                _ => Err(EXPECTED),
            };
        };
        let offset = offset.trim_start();
        let (sign, digits) = match (offset.strip_prefix('+'), offset.strip_prefix('-')) {
            (Some(digits), _) => (1, digits),
            (_, Some(digits)) => (-1, digits),
            _ => return Err(EXPECTED),
        };
        let digits = digits.trim_start();
        match digits.parse::<u16>() {
            Ok(offset) if is_digits(digits) => Ok(Self::Offset(sign * i32::from(offset))),
            _ => Err(EXPECTED),
        }
    }
}

/// Returns the game with this id or alias.
pub fn find(id: &str) -> Option<&'static Game> {
    let by_id = GAMES.binary_search_by(|game| game.id.cmp(id)).ok();
    match by_id {
        Some(place) => GAMES.get(place),
        None => GAMES.iter().find(|game| game.aliases.contains(&id)),
    }
}

/// Returns the SRV service of the games that have this protocol, if there is one.
pub fn srv(protocol: &str) -> Option<&'static str> {
    GAMES
        .iter()
        .filter(|game| game.srv.is_some())
        .find(|game| game.protocols.contains(&protocol))?
        .srv
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    const GAME: Game = Game {
        id: "harbour",
        name: "Harbour Wars",
        protocols: &["ugp"],
        port: Some(7777),
        query: QueryPort::Same,
        srv: None,
        quirks: &[],
        sources: "NS~",
        aliases: &["hw"],
    };

    fn ports(query: QueryPort, given: Option<u16>) -> Vec<u16> {
        Game { query, ..GAME }.query_ports(given)
    }

    #[test]
    fn derives_query_ports() {
        use QueryPort::{Each, FirstOf, Fixed, NoQuery, Offset, Same};
        assert_eq!(ports(Same, None), [7777]);
        assert_eq!(ports(Same, Some(1)), [1]);
        assert_eq!(ports(Fixed(27015), None), [27015]);
        assert_eq!(ports(Fixed(27015), Some(7787)), [7787, 27015]);
        assert_eq!(ports(Offset(1), None), [7778]);
        assert_eq!(ports(Offset(-2), Some(100)), [100, 98]);
        assert_eq!(
            ports(FirstOf(&[Same, Offset(2), Fixed(9)]), None),
            [7777, 7779, 9]
        );
        assert_eq!(ports(FirstOf(&[Same, Offset(0)]), Some(5)), [5]);
        assert_eq!(ports(NoQuery(Obstacle::ListOnly), None), Vec::<u16>::new());
        let each = Each(&[
            ("ugp", Same),
            ("a2s", Offset(1)),
            ("samp", FirstOf(&[Fixed(9), Offset(2)])),
        ]);
        let game = Game {
            query: each,
            ..GAME
        };
        assert_eq!(ports(each, Some(5)), [5]);
        assert_eq!(game.query_ports_in("ugp", Some(5)), [5]);
        assert_eq!(game.query_ports_in("a2s", None), [7778]);
        assert_eq!(game.query_ports_in("a2s", Some(5)), [6, 5]);
        assert_eq!(game.query_ports_in("samp", Some(5)), [9, 7, 5]);
        assert_eq!(each.to_string(), "same, a2s game + 1, samp 9 or game + 2");
        // Ports outside of the range are left out.
        assert_eq!(ports(Offset(51_800), Some(20_000)), [20_000]);
        assert_eq!(ports(Offset(-1), Some(1)), [1]);
        assert_eq!(ports(Offset(i32::MAX), Some(1)), [1]);
        let unknown = Game {
            port: None,
            query: Offset(1),
            ..GAME
        };
        assert!(unknown.query_ports(None).is_empty());
        assert_eq!(unknown.query_ports(Some(8)), [8, 9]);
        let many = FirstOf(&[Offset(1), Offset(2), Offset(3), Offset(4), Offset(5)]);
        assert_eq!(ports(many, None).len(), MAX_PORTS);
    }

    #[test]
    fn query_ports_are_printed_and_parsed() {
        use QueryPort::{FirstOf, Fixed, Offset, Same};
        for (query, text) in [
            (Same, "same"),
            (Fixed(27015), "27015"),
            (Offset(1), "game + 1"),
            (Offset(-100), "game - 100"),
        ] {
            assert_eq!(query.to_string(), text);
            assert_eq!(text.parse(), Ok(query));
        }
        assert_eq!("game+123".parse(), Ok(Offset(123)));
        assert_eq!(FirstOf(&[Fixed(1), Offset(2)]).to_string(), "1 or game + 2");
        for wrong in [
            "",
            "0",
            "65536",
            "+1",
            "game",
            "game 1",
            "game + -1",
            "game + 65536",
            "Same",
        ] {
            assert!(wrong.parse::<QueryPort>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn quirks_are_parsed_by_keyword() {
        assert_eq!(Quirk::parse("names-hidden", None), Ok(Quirk::NamesHidden));
        assert_eq!(
            Quirk::parse("status-needs", Some("-public 1")),
            Ok(Quirk::StatusNeeds("-public 1"))
        );
        assert_eq!(
            Quirk::StatusNeeds("-public 1").to_string(),
            "servers reply only with -public 1"
        );
        for (key, setting, problem) in [
            ("names-hidden", Some("x"), "takes no setting"),
            ("players-need", None, "players-need: SETTING"),
            ("players-need", Some(""), "players-need: SETTING"),
            ("hidden", None, "known are names-hidden, no-player-list"),
        ] {
            let error = Quirk::parse(key, setting).unwrap_err();
            assert!(error.contains(problem), "{key}: {error}");
        }
    }

    #[test]
    fn finds_games_by_id_alias_and_words() {
        for game in GAMES {
            assert_eq!(find(game.id), Some(game));
            for alias in game.aliases {
                assert_eq!(find(alias), Some(game), "{alias}");
            }
        }
        assert_eq!(find("gopher"), None);
        for (words, is_match) in [
            ("", true),
            ("HARBOUR wars", true),
            ("hw", true),
            ("ugp", true),
            ("harbour peace", false),
        ] {
            assert_eq!(GAME.matches(words), is_match, "{words}");
        }
    }

    #[test]
    fn explains_why_a_game_cannot_be_queried() {
        assert_eq!(GAME.obstacle(), None);
        for (game, obstacle) in [
            (
                Game {
                    protocols: &["gopher"],
                    ..GAME
                },
                "its protocol gopher is not supported by this version",
            ),
            (
                Game {
                    protocols: &[],
                    ..GAME
                },
                "no protocol is known",
            ),
            (
                Game {
                    protocols: &[],
                    query: QueryPort::NoQuery(Obstacle::ListOnly),
                    ..GAME
                },
                "only the list of the master server describes its servers",
            ),
        ] {
            assert_eq!(game.obstacle().as_deref(), Some(obstacle));
        }
        let squad = find("squad").and_then(Game::obstacle);
        assert!(squad.is_some_and(|obstacle| obstacle.ends_with("; try squad-a2s")));
        let partly = Game {
            protocols: &["gopher", "ugp"],
            ..GAME
        };
        assert_eq!(partly.obstacle(), None);
        assert_eq!(partly.known_protocols().count(), 1);
    }

    #[test]
    fn names_its_sources() {
        assert_eq!(
            GAME.known_from(),
            (vec!["node-gamedig", "the protocol's specification"], false)
        );
        assert_eq!(srv("minecraft-query"), Some("_minecraft._tcp"));
        assert_eq!(srv("ugp"), None);
    }
}
