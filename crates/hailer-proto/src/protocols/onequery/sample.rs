//! Samples of OneQuery servers.

use super::client::plugin;
use super::message::ServerInfo;
use crate::model::{Extra, Status, Text};
use crate::sample::{Server, motd};
use alloc::format;

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    let motd = motd(random, &server.name);
    status.motd = Some(Text::unformatted(motd.plain()));
    status.name = Some(Text::unformatted(server.name.clone()));
    // The protocol has no map.
    status.map = None;
    let version = random.text(&["2026.11", "2026.10.2", "0.9"]);
    status.version = Some(version.into());
    let extra = &mut status.extra;
    extra.push(Extra::new("protocol-version", random.below(9) as i64));
    let hash = format!("{:08X}", random.below(1 << 32));
    let info = ServerInfo {
        protocol_hash: hash.as_bytes(),
        ..ServerInfo::default()
    };
    let plugin = plugin(&info);
    extra.push(Extra::new("protocol-hash", hash));
    extra.push(Extra::new("network", false));
    extra.extend(plugin.map(|plugin| Extra::new("plugin", plugin)));
    // Servers list their players by UUID.
    server.players.sort_by_key(|player| player.uuid);
    server.finish()
}
