//! Games that users add: the file of `--games`, and of the key `games` of configurations.
//!
//! ```toml
//! [[game]]
//! id = "harbour-wars"
//! name = "Harbour Wars"
//! protocols = "ugp"
//! port = 7777
//! query-port = "game + 1"
//! ```
//!
//! In: a TOML file. Out: rows added to the catalog.
//!
//! May import: `crate::config`, `crate::config::checker`, `crate::config::reader`, `crate::exit`,
//! `hailer`.

use super::checker::{Checker, lines_of};
use super::reader::{self, Blocks, IntegerBetween, Lines, OneOrMany, Problem, TextOrNumber};
use crate::exit::{Usage, usage};
use hailer::proto::games::{Game, QueryPort, Quirk};
use hailer::support::catalog;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use toml::Spanned;

/// Content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct GamesFileInput {
    game: Blocks<GameInput>,
}

/// A table `[[game]]`, with the columns of the games table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct GameInput {
    id: Spanned<String>,
    name: String,
    protocols: OneOrMany<Spanned<String>>,
    port: Option<IntegerBetween<u16, 1, 65_535>>,
    query_port: Option<Spanned<TextOrNumber>>,
    srv: Option<String>,
    #[serde(default)]
    quirks: OneOrMany<Spanned<String>>,
    charset: Option<Spanned<String>>,
    #[serde(default)]
    aliases: OneOrMany<Spanned<String>>,
}

/// The only key of a configuration that is read before the others, because targets depend on it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Preamble {
    games: Option<Spanned<PathBuf>>,
}

/// Files that were added, with their text. The games of a file that did not change are not added
/// again, since games are never removed from memory.
static ADDED: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// Reads a file and adds its games.
///
/// # Errors
/// One line for each mistake, with file, line and correction. No game of the file is added.
pub(crate) fn add(path: &Path) -> anyhow::Result<()> {
    let text = super::text(path)?;
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if added.get(path) == Some(&text) {
        return Ok(());
    }
    let name = path.display().to_string();
    match parse(&text) {
        Ok(()) => {
            added.insert(path.to_owned(), text);
            Ok(())
        }
        Err(problems) => Err(Usage(lines_of(&name, problems)).into()),
    }
}

/// Adds the games of the file that a configuration names, relative to the configuration's folder.
/// Other keys and mistakes of the configuration are left to its own reader.
///
/// # Errors
/// The file cannot be read, or has mistakes as in [`add`].
pub(crate) fn add_of_config(config: &Path, text: &str) -> anyhow::Result<()> {
    let preamble: Preamble = toml::from_str(text).unwrap_or_default();
    let Some(games) = preamble.games else {
        return Ok(());
    };
    let path = config.with_file_name(games.get_ref());
    if let Err(error) = std::fs::metadata(&path) {
        let line = Lines::new(text).at(games.span().start);
        let config = config.display();
        let path = path.display();
        usage!("{config}:{line}: games: {path}: {error}; expected the path of a TOML file");
    }
    add(&path)
}

/// Parses a file and adds its games if it has no mistakes.
fn parse(text: &str) -> Result<(), Vec<Problem>> {
    let document = reader::read::<GamesFileInput>(text);
    let mut checker = Checker::new(Path::new(""), &document.lines, document.problems);
    let file = document.value.unwrap_or_default();
    let mut games = Vec::new();
    for block in &file.game.0 {
        let input = block.get_ref();
        // The reader left out an invalid value, which must not be reported as missing too.
        if document.broken.contains(&block.span().start) {
            continue;
        }
        let Some(game) = input.game(&mut checker) else {
            continue;
        };
        match catalog::check_game(&game) {
            Ok(()) => games.push(game),
            Err(error) => {
                checker.wrong::<()>(&input.id.span(), format!("game: {error}"));
            }
        }
    }
    if games.len() > catalog::MAX_GAMES {
        let text = format!("game: at most {} games can be added", catalog::MAX_GAMES);
        checker.wrong::<()>(&(0..0), text);
    }
    if !checker.problems.is_empty() {
        return Err(checker.problems);
    }
    for (game, block) in games.into_iter().zip(&file.game.0) {
        if let Err(error) = catalog::add_game(game) {
            let span = block.get_ref().id.span();
            checker.wrong::<()>(&span, format!("game: {error}"));
            return Err(checker.problems);
        }
    }
    Ok(())
}

impl GameInput {
    /// Converts the table to a row. Its texts stay in memory until the process ends.
    fn game(&self, checker: &mut Checker<'_>) -> Option<Game> {
        let query = match &self.query_port {
            None => QueryPort::Same,
            Some(text) => match query_port(&text.get_ref().0) {
                Ok(query) => query,
                Err(problem) => {
                    return checker.wrong(&text.span(), format!("game.query-port: {problem}"));
                }
            },
        };
        let mut quirks = Vec::new();
        for text in &self.quirks.0 {
            let (key, setting) = match text.get_ref().split_once(':') {
                Some((key, setting)) => (key.trim(), Some(leak(setting.trim()))),
                None => (text.get_ref().trim(), None),
            };
            match Quirk::parse(key, setting) {
                Ok(quirk) => quirks.push(quirk),
                Err(problem) => {
                    return checker.wrong(&text.span(), format!("game.quirks: {problem}"));
                }
            }
        }
        if let Some(name) = &self.charset {
            match Quirk::parse("charset", Some(leak(name.get_ref()))) {
                Ok(quirk) => quirks.push(quirk),
                Err(problem) => {
                    return checker.wrong(&name.span(), format!("game.charset: {problem}"));
                }
            }
        }
        Some(Game {
            id: leak(self.id.get_ref()),
            name: leak(&self.name),
            protocols: leak_all(&self.protocols),
            port: self.port.map(|port| port.0),
            query,
            srv: self.srv.as_deref().map(leak),
            quirks: Vec::leak(quirks),
            sources: "",
            aliases: leak_all(&self.aliases),
        })
    }
}

/// Parses `same`, `27015`, `game + 1`, or several of these, joined by "or".
fn query_port(text: &str) -> Result<QueryPort, String> {
    let ports: Result<Vec<QueryPort>, _> =
        text.split(" or ").map(|port| port.trim().parse()).collect();
    match &ports?[..] {
        [one] => Ok(*one),
        several => Ok(QueryPort::FirstOf(Vec::leak(several.to_vec()))),
    }
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

fn leak_all(texts: &OneOrMany<Spanned<String>>) -> &'static [&'static str] {
    let texts = texts.0.iter().map(|text| leak(text.get_ref()));
    Vec::leak(texts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let problems = parse(text).err().unwrap_or_default();
        let line = |problem: &Problem| format!("{}: {}", problem.line, problem.text);
        problems.iter().map(line).collect()
    }

    #[test]
    fn a_file_adds_games() {
        let text = "[[game]]\nid = \"file-test\"\nname = \"File Test\"\nprotocols = \"ugp\"\n\
            port = 7777\nquery-port = \"27131 or game + 1\"\nsrv = \"_file._udp\"\n\
            quirks = [\"names-hidden\", \"status-needs: -public 1\"]\naliases = \"file-alias\"\n\
            [[game]]\nid = \"file-second\"\nname = \"Second\"\nprotocols = [\"ugp\", \"minecraft-query\"]\n\
            query-port = 9000\n";
        assert_eq!(problems(text), [""; 0]);
        let game = catalog::game("file-alias").unwrap();
        assert_eq!(
            (game.id, game.name, game.port),
            ("file-test", "File Test", Some(7777))
        );
        assert_eq!(game.query_ports(None), [27131, 7778]);
        assert_eq!(
            game.quirks,
            [Quirk::NamesHidden, Quirk::StatusNeeds("-public 1")]
        );
        assert_eq!(game.srv, Some("_file._udp"));
        let second = catalog::game("file-second").unwrap();
        assert_eq!(second.protocols, ["ugp", "minecraft-query"]);
        assert_eq!(second.query, QueryPort::Fixed(9000));
    }

    /// The time grows with the number of games, and not with its square.
    #[test]
    fn thirty_thousand_games_take_little_time() {
        let mut text = String::new();
        for i in 0..30_000 {
            text += &format!(
                "[[game]]\nid = \"many-{i}\"\nname = \"Many {i}\"\nprotocols = \"quake3\"\n\
                 port = 27960\naliases = [\"many-{i}-alias\"]\n"
            );
        }
        let start = std::time::Instant::now();
        assert_eq!(problems(&text), [""; 0]);
        let took = start.elapsed();
        assert!(took.as_secs() < 10, "{took:?}");
        eprintln!("30,000 games in {took:?}");
        assert_eq!(catalog::game("many-29999-alias").unwrap().id, "many-29999");
    }

    #[test]
    fn reports_every_mistake_with_its_line() {
        let text = "[[game]]\nid = \"sound-game\"\nname = \"A\"\nprotocols = \"ugp\"\nport = 1\n\
            [[game]]\nid = \"Big\"\nname = \"B\"\nprotocols = \"ugp\"\nport = 1\n\
            [[game]]\nid = \"b\"\nname = \"B\"\nprotocols = \"gopher\"\nport = 1\n\
            [[game]]\nid = \"c\"\nname = \"C\"\nprotocols = \"ugp\"\nport = 70000\n\
            [[game]]\nid = \"d\"\nname = \"D\"\nprotocols = \"ugp\"\nquery-port = \"near\"\n\
            [[game]]\nid = \"e\"\nname = \"E\"\nprotocols = \"ugp\"\nport = 1\nquirks = [\"loud\"]\n\
            [[game]]\nid = \"f\"\nnam = \"F\"\nprotocols = \"ugp\"\n";
        let found = problems(text).join("\n");
        for expected in [
            "7: game: Big: \"Big\" must consist of lower-case words",
            "12: game: b: unknown protocol \"gopher\"; known are minecraft-query",
            "20: game.port: expected a whole number from 1 to 65535",
            "25: game.query-port: expected same, a port such as 27015",
            "31: game.quirks: unknown quirk \"loud\"; known are names-hidden",
            "34: game: unknown key `nam`; did you mean `name`?",
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
        assert!(!found.contains("it needs a port"), "{found}");
        // A file with a mistake adds nothing.
        assert_eq!(catalog::game("sound-game"), None);
    }
}
