//! Samples of GameSpy servers.

use crate::model::{Address, Extra, Rule, Status, Text, Value};
use crate::sample::Server;
use alloc::vec::Vec;

/// Most players of a sample: their list fits one datagram.
const MAX_PLAYERS: usize = 12;

const MODES: &[&str] = &["deathmatch", "ctf", "conquest", "tdm"];
const TEAMS: &[&str] = &["Red", "Blue"];

/// Returns a sample for one of these games and versions.
pub(crate) fn status(seed: u64, games: &[(&str, &str)], port: u16) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    let game = random.below(games.len() as u64) as usize;
    let (game, version) = games.get(game).copied().unwrap_or_default();
    status.name = Some(Text::unformatted(server.name.as_str()));
    status.game = Some(game.into());
    status.version = Some(version.into());
    status.mode = Some(random.text(MODES).into());
    status.has_password = Some(random.below(8) == 0);
    status.rules = alloc::vec![Rule {
        key: "timelimit".into(),
        value: random.text(&["10", "20", "30"]).into(),
    }];
    status.address = Some(Address {
        host: None,
        port: Some(port),
    });
    server.players.truncate(MAX_PLAYERS);
    for player in &mut server.players {
        player.uuid = None;
        player.score = Some(random.below(60) as i64);
        player.latency_ms = Some(10 + random.below(150) as i32);
        player.team = Some(random.text(TEAMS).into());
    }
    let teams: Vec<Value> = TEAMS
        .iter()
        .map(|team| {
            let score = Value::Int(random.below(200) as i64);
            Value::Table(alloc::vec![
                ("name".into(), Value::from(*team)),
                ("score".into(), score),
            ])
        })
        .collect();
    status.extra.push(Extra::new("teams", Value::List(teams)));
    server.finish()
}
