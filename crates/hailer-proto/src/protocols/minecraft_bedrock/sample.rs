//! Samples of Bedrock servers.

use crate::model::{Address, Extra, Players, Status, Text};
use crate::sample::{Server, motd};
use alloc::format;

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let motd = motd(random, &server.name);
    let name = motd.with_legacy_colors();
    let name = name.lines().next().unwrap_or_default();
    let (protocol, version) = random.pick(&[(766, "1.21.51"), (776, "1.21.60"), (898, "1.21.130")]);
    let mode = random.text(&["Survival", "Creative", "Adventure"]);
    let level = random.text(&["Bedrock level", "Skyblock", "My World"]);
    let guid = random.next() >> 1;
    let extra = [
        Extra::new("edition", "MCPE"),
        Extra::new("protocol", protocol),
        Extra::new("guid", format!("{guid}")),
        Extra::new("level-name", level),
        Extra::new("number", 1),
        Extra::new("port", 19_132),
        Extra::new("ipv6-port", 19_133),
    ];
    let online = server.players.len() as i64;
    Status {
        name: Some(Text::bedrock(name)),
        version: Some(version.into()),
        mode: Some(mode.into()),
        players: Players {
            online: Some(online),
            max: Some(online + random.below(20) as i64),
            ..Players::default()
        },
        address: Some(Address {
            host: None,
            port: Some(19_132),
        }),
        extra: extra.into(),
        ..Status::default()
    }
}
