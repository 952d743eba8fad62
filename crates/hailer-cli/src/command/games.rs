//! `hailer games`: the games table.

use crate::args::Games;
use crate::exit::{Exit, print_error};
use crate::print::table::{self, Fit};
use hailer::proto::games::{Game, QueryPort};
use hailer::proto::wire::counted;
use hailer::support::catalog;
use serde::Serialize;
use std::io::Write;

/// A game in JSON, as in schema/game-v1.json.
#[derive(Serialize)]
struct GameLine {
    schema: &'static str,
    id: &'static str,
    name: &'static str,
    protocols: &'static [&'static str],
    port: Option<u16>,
    query_port: Option<String>,
    srv: Option<&'static str>,
    quirks: Vec<QuirkLine>,
    obstacle: Option<String>,
    sources: Vec<&'static str>,
    is_port_confirmed: bool,
    aliases: &'static [&'static str],
}

#[derive(Serialize)]
struct QuirkLine {
    key: &'static str,
    help: String,
}

impl From<&Game> for GameLine {
    fn from(game: &Game) -> Self {
        let (sources, is_port_confirmed) = game.known_from();
        let quirks = game.quirks.iter().map(|quirk| QuirkLine {
            key: quirk.key(),
            help: quirk.to_string(),
        });
        Self {
            schema: "hailer/game/1",
            id: game.id,
            name: game.name,
            protocols: game.protocols,
            port: game.port,
            query_port: query_port(game),
            srv: game.srv,
            quirks: quirks.collect(),
            obstacle: catalog::obstacle(game),
            sources,
            is_port_confirmed,
            aliases: game.aliases,
        }
    }
}

pub(crate) fn run(args: &Games) -> anyhow::Result<Exit> {
    let words = args.search.join(" ");
    let mut found: Vec<&Game> = catalog::games();
    found.retain(|game| game.matches(&words));
    // An exact id or alias is meant literally, even if it occurs in other names.
    if let [word] = &args.search[..]
        && let Some(game) = catalog::game(&word.to_lowercase())
    {
        found.retain(|other| other.id != game.id);
        found.insert(0, game);
    }
    let mut out = crate::print::stdout();
    if args.json {
        for game in &found {
            serde_json::to_writer(&mut out, &GameLine::from(*game))?;
            writeln!(out)?;
        }
    } else {
        show(&mut out, &found, !words.is_empty() || args.all)?;
    }
    if found.is_empty() {
        print_error(match catalog::suggestion(&words) {
            Some(close) => format!("no game matches {words}; did you mean {close}?"),
            None => format!("no game matches {words}; `hailer games --all` lists all"),
        });
    }
    Ok(if found.is_empty() {
        Exit::Partial
    } else {
        Exit::Success
    })
}

/// Prints the games that can be queried, and with `all` also the others with the reason.
fn show(out: &mut impl Write, found: &[&Game], all: bool) -> anyhow::Result<()> {
    let (queried, others): (Vec<&Game>, Vec<&Game>) = found
        .iter()
        .partition(|game| catalog::obstacle(game).is_none());
    if !queried.is_empty() {
        let header = [
            ("id", Fit::Whole),
            ("game", Fit::Cut),
            ("protocol", Fit::Whole),
            ("port", Fit::Number),
            ("query port", Fit::Whole),
            ("notes", Fit::Fold),
        ];
        let rows = queried.iter().map(|game| {
            let notes = game.quirks.iter().map(ToString::to_string);
            vec![
                game.id.to_owned(),
                game.name.to_owned(),
                game.protocols.join(", "),
                port(game),
                query_port(game).unwrap_or_default(),
                notes.collect::<Vec<_>>().join("; "),
            ]
        });
        table::print(out, &header, &rows.collect::<Vec<_>>())?;
    }
    if !others.is_empty() && all {
        let header = [
            ("id", Fit::Whole),
            ("game", Fit::Cut),
            ("port", Fit::Number),
            ("why it cannot be queried", Fit::Fold),
        ];
        let rows = others.iter().map(|game| {
            vec![
                game.id.to_owned(),
                game.name.to_owned(),
                port(game),
                catalog::obstacle(game).unwrap_or_default(),
            ]
        });
        let gap = if queried.is_empty() { "" } else { "\n" };
        write!(out, "{gap}")?;
        table::print(out, &header, &rows.collect::<Vec<_>>())?;
    } else if !others.is_empty() {
        writeln!(
            out,
            "\n{} that cannot be queried: `hailer games --all` shows why.",
            counted(others.len(), "more game")
        )?;
    }
    Ok(())
}

/// Returns the port that players connect to. `~` marks a port that no source confirms.
fn port(game: &Game) -> String {
    let (_, is_confirmed) = game.known_from();
    let mark = if is_confirmed { "" } else { "~" };
    game.port
        .map(|port| format!("{mark}{port}"))
        .unwrap_or_default()
}

fn query_port(game: &Game) -> Option<String> {
    match game.query {
        QueryPort::NoQuery(_) => None,
        query => Some(query.to_string()),
    }
}
