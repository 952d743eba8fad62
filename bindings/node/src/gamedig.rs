//! Queries with the options and results of node-gamedig.

use crate::invalid;
use hailer::client::gamedig::{Gamedig, GamedigError, GamedigOptions};
use hailer::proto::games::{GAMES, Game};
use hailer::proto::model::Value;
use napi_derive::napi;
use serde::Serialize;
use std::collections::BTreeMap;

/// Client with a local port.
#[napi]
pub struct GamedigClient {
    client: Gamedig,
}

/// A failure.
#[derive(Serialize)]
struct Failure {
    error: String,
    code: &'static str,
    reason: Option<String>,
}

impl From<&GamedigError> for Failure {
    fn from(error: &GamedigError) -> Self {
        Self {
            error: error.to_string(),
            code: error.kind(),
            reason: error.reason(),
        }
    }
}

#[napi]
impl GamedigClient {
    /// Creates a client that sends datagrams from a local port; 0 means any.
    #[napi(constructor)]
    pub fn new(listen_udp_port: u32) -> Self {
        let port = u16::try_from(listen_udp_port).unwrap_or(0);
        Self {
            client: Gamedig::new(port),
        }
    }

    /// Queries a server. Returns JSON: the state, or an object with `error`.
    #[napi]
    pub async fn query(&self, options: String) -> napi::Result<String> {
        let given: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&options).map_err(invalid)?;
        let mut options = GamedigOptions::default();
        for (name, value) in &given {
            if let Some(value) = simple(value) {
                options.set(name, &value);
            }
        }
        let json = match self.client.query(&options).await {
            Ok(state) => serde_json::to_string(&state),
            Err(error) => serde_json::to_string(&Failure::from(&error)),
        };
        json.map_err(|error| napi::Error::from_reason(error.to_string()))
    }
}

/// Converts a value of an option. Options have no lists and objects.
fn simple(value: &serde_json::Value) -> Option<Value> {
    Some(match value {
        serde_json::Value::Bool(flag) => (*flag).into(),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => Value::Float(number.as_f64()?),
        },
        serde_json::Value::String(text) => text.as_str().into(),
        _ => return None,
    })
}

/// A game in the list of node-gamedig.
#[derive(Serialize)]
struct ListedGame {
    name: &'static str,
    options: ListedOptions,
}

#[derive(Serialize)]
struct ListedOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port_query: Option<u16>,
    protocol: &'static str,
}

/// Returns all games that can be queried as JSON, by id. Aliases are ids too.
#[napi]
pub fn gamedig_games() -> String {
    let games = GAMES.iter().filter(|game| !game.protocols.is_empty());
    let ids = |game: &'static Game| [game.id].into_iter().chain(game.aliases.iter().copied());
    let games = games.flat_map(|game| ids(game).map(move |id| (id, game)));
    let listed: BTreeMap<&str, ListedGame> = games
        .map(|(id, game)| {
            let query = game.query_ports(None).first().copied();
            let options = ListedOptions {
                port: game.port,
                port_query: query.filter(|port| Some(*port) != game.port),
                protocol: game.protocols.first().copied().unwrap_or_default(),
            };
            let name = game.name;
            (id, ListedGame { name, options })
        })
        .collect();
    serde_json::to_string(&listed).unwrap_or_default()
}
