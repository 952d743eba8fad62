//! The crate gamedig, a client in Rust.

use super::clients::{Task, failed};
use super::servers::host;
use gamedig::games::minecraft;
use gamedig::protocols::types::{CommonResponse, GatherToggle, TimeoutSettings};
use gamedig::protocols::{gamespy, quake, unreal2, valve};
use serde_json::{Map, Value, json};
use std::fmt::Debug;
use std::time::Duration;

/// Waiting time for each reply. It waits once more after the last one of Unreal 2.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Reads one server. A panic of the client is its error.
pub(crate) fn read(task: &Task) -> Map<String, Value> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| query(task)));
    result.unwrap_or_else(|_| failed(&"a panic"))
}

fn query(task: &Task) -> Map<String, Value> {
    let address = (host(), task.port).into();
    let timeout = TimeoutSettings::new(Some(TIMEOUT), Some(TIMEOUT), Some(TIMEOUT), 2).ok();
    match task.kind {
        "a2s" => {
            let engine = valve::Engine::Source(None);
            let settings = valve::GatheringSettings {
                players: GatherToggle::Enforce,
                rules: GatherToggle::Enforce,
                check_app_id: false,
            };
            fields(valve::query(&address, engine, Some(settings), timeout))
        }
        "gamespy1" => fields(gamespy::one::query(&address, timeout)),
        "gamespy2" => fields(gamespy::two::query(&address, timeout)),
        "gamespy3" => fields(gamespy::three::query(&address, timeout)),
        "minecraft-bedrock" => fields(minecraft::protocol::query_bedrock(&address, timeout)),
        "minecraft-status" => fields(minecraft::protocol::query_java(&address, timeout, None)),
        "quake1" => fields(quake::one::query(&address, timeout)),
        "quake2" => fields(quake::two::query(&address, timeout)),
        "quake3" => fields(quake::three::query(&address, timeout)),
        "unreal2" => {
            let settings = unreal2::GatheringSettings {
                players: GatherToggle::Enforce,
                mutators_and_rules: GatherToggle::Enforce,
            };
            fields(unreal2::query(&address, &settings, timeout))
        }
        other => failed(&format!("no protocol {other}")),
    }
}

fn fields<R: CommonResponse + Debug>(result: gamedig::GDResult<R>) -> Map<String, Value> {
    let response = match result {
        Ok(response) => response,
        Err(error) => return failed(&error),
    };
    let names = response.players().map(|players| {
        let names = players.iter().map(|player| player.name().to_owned());
        names.collect::<Vec<_>>()
    });
    let fields = json!({
        "name": response.name().or(response.description()),
        "map": response.map(),
        "online": response.players_online(),
        "max": response.players_maximum(),
        "players": names,
        "password": response.has_password(),
        "version": response.game_version(),
        // Rules have another place in each protocol.
        "raw": format!("{response:?}"),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
