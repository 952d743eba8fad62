//! Games and protocols that targets can name: the tables of [`hailer_proto`], and those that the
//! program added.
//!
//! Additions apply to the whole process, so that every target is parsed in the same way: those of
//! queries, of sweeps and of a monitor. They are never removed. At most [`MAX_GAMES`] games and
//! [`MAX_PROTOCOLS`] protocols can be added.
//!
//! ```
//! use hailer::support::catalog;
//! use hailer::proto::games::{Game, QueryPort};
//!
//! catalog::add_game(Game {
//!     id: "harbour-wars",
//!     name: "Harbour Wars",
//!     protocols: &["minecraft-query"],
//!     port: Some(7777),
//!     query: QueryPort::Offset(1),
//!     srv: None,
//!     quirks: &[],
//!     sources: "",
//!     aliases: &[],
//! })?;
//! let target: hailer::Target = "harbour-wars://play.example.com".parse()?;
//! assert_eq!(target.query_port(), Some(7778));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use hailer_proto::games::{self, GAMES, Game, QueryPort};
use hailer_proto::{Info, Protocol, registry};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Maximum number of added games.
pub const MAX_GAMES: usize = 65_536;
/// Maximum number of added protocols.
pub const MAX_PROTOCOLS: usize = 4_096;

/// Games and protocols that the program added.
static ADDED: RwLock<AddedEntries> = RwLock::new(AddedEntries {
    games: BTreeMap::new(),
    count: 0,
    names: BTreeMap::new(),
    services: BTreeMap::new(),
    protocols: Vec::new(),
});

struct AddedEntries {
    /// All rows with an id, the one added last at the end.
    games: BTreeMap<&'static str, Vec<&'static Game>>,
    /// Number of rows.
    count: usize,
    /// The game added last with an id or alias.
    names: BTreeMap<&'static str, &'static Game>,
    /// SRV service of a protocol.
    services: BTreeMap<&'static str, &'static str>,
    protocols: Vec<&'static dyn Protocol>,
}

impl AddedEntries {
    /// Returns the row that equals this one.
    fn known(&self, game: &Game) -> Option<&'static Game> {
        let rows = self.games.get(game.id)?;
        rows.iter().copied().find(|row| *row == game)
    }

    /// Makes a row the one added last.
    fn insert(&mut self, game: &'static Game) {
        let rows = self.games.entry(game.id).or_default();
        let before = rows.len();
        rows.retain(|row| *row != game);
        self.count -= before - rows.len();
        self.count += 1;
        rows.push(game);
        for name in [game.id].iter().chain(game.aliases) {
            self.names.insert(name, game);
        }
        for protocol in game.srv.iter().flat_map(|_| game.protocols) {
            self.services
                .entry(protocol)
                .or_insert(game.srv.unwrap_or_default());
        }
    }
}

/// Reason why a game or a protocol was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id}: {problem}")]
pub struct CatalogError {
    /// Id of the game or protocol.
    pub id: String,
    /// The problem and how to fix it.
    pub problem: String,
}

/// Adds a protocol that targets and games can name.
///
/// # Errors
/// The id is not in kebab case, or another protocol has it.
pub fn add_protocol(protocol: &'static dyn Protocol) -> Result<(), CatalogError> {
    let info = protocol.info();
    let error = |problem: &str| {
        Err(CatalogError {
            id: info.id.into(),
            problem: problem.into(),
        })
    };
    if !is_kebab(info.id) {
        return error("the id must consist of lower-case words, digits and hyphens");
    }
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let known = registry::find(info.id).or_else(|| find(&added.protocols, info.id));
    match known {
        Some(known) if std::ptr::eq(known.info(), info) => Ok(()),
        Some(_) => error("another protocol has this id"),
        None if added.protocols.len() >= MAX_PROTOCOLS => error("too many protocols were added"),
        None => {
            added.protocols.push(protocol);
            Ok(())
        }
    }
}

/// Adds a game that targets can name. It replaces a game with the same id. Its protocols must be
/// known.
///
/// # Errors
/// Describes the first mistake in the row.
pub fn add_game(game: Game) -> Result<&'static Game, CatalogError> {
    check_game(&game)?;
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let game = match added.known(&game) {
        Some(known) => known,
        None if added.count >= MAX_GAMES => {
            return Err(CatalogError {
                id: game.id.into(),
                problem: format!("at most {MAX_GAMES} games can be added"),
            });
        }
        // Targets refer to their game for as long as the process runs.
        None => Box::leak(Box::new(game)),
    };
    added.insert(game);
    Ok(game)
}

/// Checks the row of a game without adding it.
///
/// # Errors
/// Describes the first mistake in the row.
pub fn check_game(game: &Game) -> Result<(), CatalogError> {
    check(game).map_err(|problem| CatalogError {
        id: game.id.into(),
        problem,
    })
}

/// Returns the protocol with this id.
pub fn protocol(id: &str) -> Option<&'static dyn Protocol> {
    registry::find(id).or_else(|| {
        let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
        find(&added.protocols, id)
    })
}

/// Returns all protocols: those of the registry, then the added ones.
pub fn protocols() -> Vec<&'static dyn Protocol> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    [registry::PROTOCOLS, &added.protocols].concat()
}

/// Returns the known word that is most similar to a written one, for error messages. At most a
/// third of the letters may differ.
pub fn closest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_ascii_lowercase().replace('_', "-");
    let distance = |known: &&str| strsim::damerau_levenshtein(&written, known);
    known
        .min_by_key(distance)
        .filter(|known| distance(known) <= written.chars().count().max(3) / 3)
}

/// Returns the id of the game or protocol that an unknown word probably means, for error messages:
/// the one whose id, alias or name has the same letters and digits, or else the most similar id.
pub fn suggestion(written: &str) -> Option<&'static str> {
    let letters = |text: &str| -> String {
        let kept = text.chars().filter(|c| c.is_alphanumeric());
        kept.flat_map(char::to_lowercase).collect()
    };
    let wanted = letters(written);
    let (games, protocols) = (games(), protocols());
    let same_game = games.iter().find(|game| {
        let mut names = [game.id, game.name]
            .into_iter()
            .chain(game.aliases.iter().copied());
        names.any(|name| letters(name) == wanted)
    });
    if let Some(game) = same_game {
        return Some(game.id);
    }
    let ids = games.iter().map(|game| game.id);
    closest(
        written,
        ids.chain(protocols.iter().map(|protocol| protocol.info().id)),
    )
}

/// Returns the game with this id or alias. Added games come before those of the table, and the
/// last added before earlier ones.
pub fn game(id: &str) -> Option<&'static Game> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let game = added.names.get(id).copied();
    game.or_else(|| games::find(id))
}

/// Returns all games, sorted by id. An added game hides that of the table with the same id.
pub fn games() -> Vec<&'static Game> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let newest = added.games.values().filter_map(|rows| rows.last().copied());
    let mut games: Vec<&Game> = newest.chain(GAMES).collect();
    games.sort_by_key(|game| game.id);
    games.dedup_by_key(|game| game.id);
    games
}

/// Returns the protocols of a game that are known, the main one first.
pub fn protocols_of(game: &Game) -> Vec<&'static dyn Protocol> {
    game.protocols
        .iter()
        .filter_map(|id| protocol(id))
        .collect()
}

/// Returns the games that have a protocol. Those with the most [sources](Game::sources) come first,
/// because they are the best known; then those whose servers are queried at the protocol's default
/// port. Games that have another main protocol, at another port, come last.
pub fn games_of(protocol: &Info) -> Vec<&'static Game> {
    let mut games = games();
    games.retain(|game| game.protocols.contains(&protocol.id));
    games.sort_by_key(|game| {
        let (sources, _) = game.known_from();
        let is_main = game.protocols.first() == Some(&protocol.id);
        let is_additional = matches!(game.query, QueryPort::Each(_)) && !is_main;
        let is_at_home = game.query_ports(None).contains(&protocol.port);
        (is_additional, Reverse(sources.len()), !is_at_home, game.id)
    });
    games
}

/// Returns why servers of a game cannot be queried, or `None` if they can.
pub fn obstacle(game: &Game) -> Option<String> {
    if protocols_of(game).is_empty() {
        game.obstacle()
    } else {
        None
    }
}

/// Returns the SRV service for names without a port in this protocol, if one of its games has one.
pub fn srv(protocol: &str) -> Option<&'static str> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let service = added.services.get(protocol).copied();
    service.or_else(|| games::srv(protocol))
}

fn find(protocols: &[&'static dyn Protocol], id: &str) -> Option<&'static dyn Protocol> {
    protocols
        .iter()
        .copied()
        .find(|protocol| protocol.info().id == id)
}

fn is_kebab(id: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    id.len() <= 64 && id.split('-').all(is_word)
}

/// Checks the row of a game.
fn check(game: &Game) -> Result<(), String> {
    for id in [game.id].iter().chain(game.aliases) {
        if !is_kebab(id) {
            return Err(format!(
                "{id:?} must consist of lower-case words, digits and hyphens"
            ));
        }
        if protocol(id).is_some() && game.protocols.first() != Some(id) {
            return Err(format!("{id} is a protocol; choose another id"));
        }
    }
    if let Some(unknown) = game.protocols.iter().find(|id| protocol(id).is_none()) {
        let known: Vec<&str> = protocols().iter().map(|known| known.info().id).collect();
        return Err(format!(
            "unknown protocol {unknown:?}; known are {}",
            known.join(", ")
        ));
    }
    match game.query {
        QueryPort::NoQuery(_) => return Ok(()),
        _ if game.protocols.is_empty() => {
            return Err("it needs at least one protocol".into());
        }
        _ if game.query_ports(None).is_empty() => {
            return Err("it needs a port, or a query port".into());
        }
        _ => {}
    }
    match game.srv {
        Some(srv) if !srv.starts_with('_') || !srv.contains("._") => Err(format!(
            "{srv:?} is no SRV service; write one such as \"_harbour._udp\""
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAME: Game = Game {
        id: "catalog-test",
        name: "Catalog Test",
        port: Some(7777),
        query: QueryPort::Offset(1),
        aliases: &["catalog-alias"],
        ..hailer_testkit::servers::GAME
    };

    #[test]
    fn the_last_added_game_counts() {
        let first = add_game(GAME).unwrap();
        assert!(std::ptr::eq(first, add_game(GAME).unwrap()));
        assert_eq!(game("catalog-alias"), Some(first));
        let other = Game {
            port: Some(1),
            ..GAME
        };
        // A row that is added again counts again.
        for row in [other, GAME, other] {
            add_game(row).unwrap();
            assert_eq!(game("catalog-test"), Some(&row));
            assert_eq!(game("catalog-alias"), Some(&row));
        }
        let listed = games();
        let same_id = listed.iter().filter(|game| game.id == GAME.id);
        assert_eq!(same_id.collect::<Vec<_>>(), [&&other]);
        assert!(listed.is_sorted_by_key(|game| game.id));
        assert!(listed.len() > GAMES.len());
    }

    #[test]
    fn the_best_known_games_of_a_protocol_come_first() {
        let info = super::protocol("quake3").unwrap().info();
        let games = games_of(info);
        assert!(games.iter().all(|game| game.protocols.contains(&"quake3")));
        let place = |id: &str| games.iter().position(|game| game.id == id);
        // Four sources, at the port of the protocol; four, at another port; three.
        assert!(
            place("q3").is_some() && place("q3") < place("cod"),
            "{games:?}"
        );
        assert!(place("cod") < place("urt"), "{games:?}");
        assert!(
            games_of(&Info {
                id: "gopher",
                ..*info
            })
            .is_empty()
        );
    }

    #[test]
    fn rejects_rows_with_mistakes() {
        for (game, problem) in [
            (Game { id: "Big", ..GAME }, "lower-case"),
            (Game { id: "", ..GAME }, "lower-case"),
            (
                Game {
                    id: "onequery",
                    ..GAME
                },
                "is a protocol",
            ),
            (
                Game {
                    aliases: &["onequery"],
                    ..GAME
                },
                "is a protocol",
            ),
            (
                Game {
                    protocols: &["gopher"],
                    ..GAME
                },
                "known are minecraft-query",
            ),
            (
                Game {
                    protocols: &[],
                    ..GAME
                },
                "at least one protocol",
            ),
            (Game { port: None, ..GAME }, "needs a port"),
            (
                Game {
                    srv: Some("minecraft"),
                    ..GAME
                },
                "no SRV service",
            ),
        ] {
            let error = add_game(game).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn protocols_of_the_registry_are_known_already() {
        for protocol in registry::PROTOCOLS {
            assert_eq!(add_protocol(*protocol), Ok(()));
        }
        assert!(protocols().len() >= registry::PROTOCOLS.len());
        assert!(super::protocol("gopher").is_none());
        assert_eq!(srv("minecraft-query"), Some("_minecraft._tcp"));
    }
}
