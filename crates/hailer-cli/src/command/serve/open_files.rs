//! Limit of open files. Each listener, relay session and connection uses one, and they must not use
//! up the files of the rest.

use super::addresses;
use crate::config::{ListenConfig, ServerConfig};
use crate::system::raise_open_files;
use hailer::respond::PoolConfig;

/// Number of files for other purposes: sources, control connections and libraries.
const OTHER_FILES: u64 = 256;

/// Raises the limit of open files to the need of all listeners, relay sessions and connections.
/// Returns a note if the system refuses.
pub(super) fn raise_limit(servers: &[ServerConfig], config: &PoolConfig) -> Option<String> {
    let relays = addresses(servers)
        .filter(|(server, _)| server.relay.is_some())
        .count();
    let is_stream = |(server, listen): &(&ServerConfig, &ListenConfig)| {
        let mut protocols = listen.protocols.iter();
        protocols.any(|(protocol, _)| protocol.info().transport.is_connected())
            || server.relay_tcp.is_some()
    };
    let streams = addresses(servers).filter(is_stream).count();
    let threads = config.threads();
    let sessions = config.relay_sessions;
    let connections = match streams {
        0 => 0,
        _ => config.connections.total,
    };
    // A connection that is passed on has a second one, to the game.
    let has_game = |server: &ServerConfig| server.relay_tcp.is_some() || server.door.is_some();
    let passages = match servers.iter().any(has_game) {
        true => 2 * config.passages.relayed.total + config.passages.held.total,
        false => 0,
    };
    let connections = connections + passages;
    // A socket for connections has a second file, which waits for them.
    let listeners = 2 * streams + addresses(servers).count() * threads;
    let needed = (relays * threads * sessions + connections + listeners) as u64 + OTHER_FILES;
    let got = raise_open_files(needed);
    (got < needed).then(|| {
        format!(
            "{relays} × {threads} × {sessions} sessions of relays, {connections} connections and {listeners} sockets of listeners need {needed} open files, and the system \
             allows {got}; raise LimitNOFILE=, or lower relay.sessions or connections.total in [engine]"
        )
    })
}
