//! Players of several games join through a relay, on loopback only.
#![cfg(target_os = "linux")]

mod door;
mod handshakes;
mod quic;
mod raknet;

use hailer::Status;
use hailer::door::Entrance;
use hailer::proto::Text;
use hailer::proto::{Keys, Options, registry};
use hailer::respond::{Board, ListenerConfig, PoolConfig, RelayVerification, ResponderPool};
use std::net::SocketAddr;

/// Starts a relay to a game server, with the limits that apply to sources beyond loopback.
fn relay(game: SocketAddr, verification: RelayVerification) -> ResponderPool {
    let protocols = ["minecraft-query", "onequery", "ugp"];
    let protocols = protocols.map(|id| (registry::find(id).unwrap(), Options::default()));
    let status = Status {
        motd: Some(Text::unformatted("front")),
        ..Status::default()
    };
    let listener = ListenerConfig {
        address: "127.0.0.1:0".parse().unwrap(),
        board: Board::with_options(protocols.into(), Keys::new([7; 16]), &status).unwrap(),
        relay: Some(Entrance::always_open(Some(game))),
        inherited: None,
    };
    let mut config = PoolConfig::default();
    config.workers = 1;
    config.relay_verification = verification;
    config.budget.is_loopback_limited = true;
    ResponderPool::start(vec![listener], &config).unwrap()
}
