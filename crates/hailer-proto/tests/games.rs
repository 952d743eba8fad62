//! Checks the rows of the games table. Failures name the row and the fix.

use hailer_proto::games::{GAMES, Game, MAX_PORTS, QueryPort, Quirk, SOURCES, find};
use hailer_proto::registry;
use hailer_testkit::golden;
use std::collections::{BTreeMap, BTreeSet};

/// Ids of node-gamedig that have another meaning here.
const OTHER_MEANING: [(&str, &str); 1] = [("ase", "the protocol All-Seeing Eye")];

fn is_kebab(name: &str) -> bool {
    name.split('-').all(|word| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

#[test]
fn ids_are_sorted_and_unique() {
    let mut complaints = Vec::new();
    for pair in GAMES.windows(2) {
        if pair[0].id >= pair[1].id {
            complaints.push(format!(
                "{}: move the row behind that of {}",
                pair[0].id, pair[1].id
            ));
        }
    }
    let protocols = registry::PROTOCOLS
        .iter()
        .map(|protocol| protocol.info().id);
    let protocols: BTreeSet<&str> = protocols.collect();
    let mut names: BTreeSet<&str> = GAMES.iter().map(|game| game.id).collect();
    for game in GAMES {
        for name in [game.id].iter().chain(game.aliases) {
            if !is_kebab(name) {
                complaints.push(format!("{}: `{name}` is not in kebab-case", game.id));
            }
        }
        if protocols.contains(game.id) && game.protocols.first() != Some(&game.id) {
            complaints.push(format!(
                "{}: a protocol has this id; it must be the main protocol of the game",
                game.id
            ));
        }
        for alias in game.aliases {
            if !names.insert(alias) {
                complaints.push(format!(
                    "{}: the alias {alias} has another meaning",
                    game.id
                ));
            }
            if protocols.contains(alias) {
                complaints.push(format!("{}: the alias {alias} is a protocol", game.id));
            }
        }
    }
    golden::settle(&complaints);
}

#[test]
fn protocols_exist() {
    let mut complaints = Vec::new();
    for game in GAMES {
        for id in game.protocols {
            if registry::find(id).is_none() {
                complaints.push(format!(
                    "{}: no protocol has the id {id}; correct it",
                    game.id
                ));
            }
        }
        let unique: BTreeSet<_> = game.protocols.iter().collect();
        if unique.len() != game.protocols.len() {
            complaints.push(format!("{}: a protocol is named twice", game.id));
        }
        if game.protocols.is_empty() != matches!(game.query, QueryPort::NoQuery(_)) {
            complaints.push(format!(
                "{}: NoQuery is for games without a protocol, and only for them",
                game.id
            ));
        }
    }
    golden::settle(&complaints);
}

#[test]
fn ports_are_complete() {
    let mut complaints = Vec::new();
    for game in GAMES {
        let several = match game.query {
            QueryPort::FirstOf(several) => several.to_vec(),
            QueryPort::Each(each) => {
                let protocols: Vec<&str> = each.iter().map(|(protocol, _)| *protocol).collect();
                if protocols != game.protocols {
                    complaints.push(format!(
                        "{}: Each has other protocols: {protocols:?}",
                        game.id
                    ));
                }
                vec![QueryPort::Same]
            }
            one => vec![one],
        };
        if matches!(game.query, QueryPort::FirstOf(_)) && several.len() < 2 {
            complaints.push(format!("{}: FirstOf needs at least two ports", game.id));
        }
        for query in &several {
            let problem = match query {
                QueryPort::FirstOf(_) => "nested FirstOf",
                QueryPort::NoQuery(_) if several.len() > 1 => "NoQuery within FirstOf",
                QueryPort::Offset(0) => "write Same instead of Offset(0)",
                QueryPort::Fixed(0) => "port 0",
                QueryPort::Fixed(port) if Some(*port) == game.port && several.len() == 1 => {
                    "write Same, or correct the game's port"
                }
                _ => continue,
            };
            complaints.push(format!("{}: {problem}", game.id));
        }
        if game.port == Some(0) {
            complaints.push(format!("{}: an unknown port is None", game.id));
        }
        // A port given by the user comes on top of these.
        let ports = game.query_ports(None);
        let is_queried = !matches!(game.query, QueryPort::NoQuery(_));
        if ports.is_empty() == is_queried || ports.len() >= MAX_PORTS {
            complaints.push(format!("{}: {:?} leads to {ports:?}", game.id, game.query));
        }
    }
    golden::settle(&complaints);
}

#[test]
fn names_and_sources_are_complete() {
    let mut complaints = Vec::new();
    let mut services: BTreeMap<&str, &str> = BTreeMap::new();
    for game in GAMES {
        if game.name.trim() != game.name || game.name.is_empty() {
            complaints.push(format!("{}: its name is {:?}", game.id, game.name));
        }
        let mut letters: Vec<char> = game.sources.chars().collect();
        letters.retain(|letter| *letter != '~');
        let is_known = |letter: &char| SOURCES.iter().any(|(known, _)| known == letter);
        let unique: BTreeSet<_> = letters.iter().collect();
        if letters.is_empty() || !letters.iter().all(is_known) || unique.len() != letters.len() {
            complaints.push(format!(
                "{}: unclear sources {:?}; use letters of games::SOURCES",
                game.id, game.sources
            ));
        }
        let Some(srv) = game.srv else { continue };
        if !srv.starts_with('_') || !(srv.ends_with("._tcp") || srv.ends_with("._udp")) {
            complaints.push(format!("{}: {srv} is no SRV service", game.id));
        }
        for id in game.protocols {
            if *services.entry(id).or_insert(srv) != srv {
                complaints.push(format!(
                    "{}: another game has another SRV service for {id}",
                    game.id
                ));
            }
        }
    }
    golden::settle(&complaints);
}

/// Every quirk has a row, so that none outlives its last game.
#[test]
fn quirks_are_used_and_printed() {
    let mut complaints = Vec::new();
    let used = |key: &str| {
        let mut quirks = GAMES.iter().flat_map(|game| game.quirks);
        quirks.any(|quirk| quirk.key() == key)
    };
    for quirk in [
        Quirk::StatusNeeds("x"),
        Quirk::PlayersNeed("x"),
        Quirk::NamesHidden,
        Quirk::NoPlayerList,
        Quirk::UnsureCount,
        Quirk::SilentInLobby,
    ] {
        if !used(quirk.key()) {
            complaints.push(format!("no game has the quirk {}; remove it", quirk.key()));
        }
    }
    for (game, quirk) in GAMES
        .iter()
        .flat_map(|game| game.quirks.iter().map(move |quirk| (game, quirk)))
    {
        let text = quirk.to_string();
        if text.trim() != text || text.ends_with(['.', ' ']) || !is_kebab(quirk.key()) {
            complaints.push(format!("{}: the quirk reads {text:?}", game.id));
        }
        if count(game, *quirk) > 1 {
            complaints.push(format!("{}: {} appears twice", game.id, quirk.key()));
        }
    }
    golden::settle(&complaints);
}

fn count(game: &Game, quirk: Quirk) -> usize {
    let quirks = game.quirks.iter();
    quirks.filter(|other| other.key() == quirk.key()).count()
}

/// Users of node-gamedig find their games under the ids that they know. `golden/coverage.txt` lists
/// those that no protocol reads, with the reason.
#[test]
fn node_gamedig_games_are_covered() {
    let text = include_str!("node-gamedig.txt");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let mut complaints = Vec::new();
    let mut readable = 0;
    let mut obstacles = String::new();
    for line in &lines {
        let mut found = None;
        for id in line.split(' ') {
            if OTHER_MEANING.iter().any(|(other, _)| *other == id) {
                continue;
            }
            let game = find(id);
            let protocol = registry::find(id);
            if game.is_none() && protocol.is_none() {
                complaints.push(format!("{id}: add it as an alias of its game"));
            }
            found = found.or(game);
        }
        match found.and_then(Game::obstacle) {
            Some(obstacle) => obstacles += &format!("{line}: {obstacle}\n"),
            None => readable += 1,
        }
    }
    let table = format!(
        "{readable} of {} games are readable.\n\n{obstacles}",
        lines.len()
    );
    complaints.extend(golden::check("coverage.txt", &table).err());
    golden::settle(&complaints);
}
