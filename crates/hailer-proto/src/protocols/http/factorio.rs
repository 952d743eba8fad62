//! Factorio: one game of the list of public games. HTTPS to the service, not to the server.
//!
//! ```text
//!   client                                       multiplayer.factorio.com
//!     GET /get-game-details/ADDRESS:PORT   ─►
//!          ◄─  JSON: name, players, mods
//! ```
//!
//! The server itself has no query. The list knows public games only (spec/factorio.md#1).

use crate::model::{Address, Status, Value};
use crate::protocol::{Ask, Doc, Fault, Info, Tls};
use crate::protocols::http::{Body, File, HttpFiles, encoded};
use crate::wire::Notes;
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

/// The protocol (spec/factorio.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "factorio",
        title: "Factorio",
        port: 34197,
        service: Some(HOST),
        has_listed_addresses: true,
        fields: &[
            Doc::new("game-id", "Number of the game in the list"),
            Doc::new("tags", "Tags"),
            Doc::new("mods", "Mods with their versions"),
            Doc::new("minutes", "Time played, in minutes"),
            Doc::new("heartbeat", "When the server last reported to the list"),
            Doc::new("service", "The remote service that reports the status"),
        ],
        ..Info::HTTP
    },
    files: &[File::new(
        "details",
        "request for the details",
        "/get-game-details/{}",
    )],
    tls: Tls::Verified,
    path,
    refusal,
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Host of the service.
const HOST: &str = "multiplayer.factorio.com";
/// Maximum number of players, tags and mods that are kept.
const MAX_ENTRIES: usize = 4_096;

fn path(ask: &Ask, file: &File) -> Cow<'static, str> {
    let server = format!("{}:{}", encoded(&ask.to.host), ask.to.port);
    file.path.replace("{}", &server).into()
}

fn refusal(status: u16, _: &Body<'_>) -> Option<Fault> {
    (status == 404).then_some(Fault::Refused {
        reason: "the list of public games does not contain this address and port",
        endpoints: &[],
    })
}

fn is_body(_: &File, body: &Body<'_>) -> bool {
    body.has_member(&["game_id", "host_address"])
}

fn read(
    file: &File,
    body: &Body<'_>,
    ask: &Ask,
    status: &mut Status,
    _: &mut Notes,
) -> Result<(), Fault> {
    let expected = "the details of a game in the list";
    let root = body.members(is_body(file, body), expected)?;
    status.name = root.unformatted("name");
    status.motd = root.unformatted("description");
    status.has_password = root.boolean("has_password");
    let version = root.object("application_version");
    status.version = version.and_then(|version| version.short("game_version"));
    status.players.max = root.integer("max_players").filter(|max| *max > 0);
    let players = root.names("players", MAX_ENTRIES);
    status.players.online = i64::try_from(players.len()).ok();
    if ask.has_players {
        status.players.set_list(players);
    }
    let address = root.text("host_address");
    let address = address
        .as_deref()
        .and_then(|address| address.rsplit_once(':'));
    status.address = address.map(|(host, port)| Address {
        host: Some(host.into()),
        port: port.parse().ok(),
    });
    for (key, name) in [
        ("game-id", "game_id"),
        ("minutes", "game_time_elapsed"),
        ("heartbeat", "last_heartbeat"),
    ] {
        status.add_extra(key, root.integer(name));
    }
    status.add_extra("tags", root.list("tags", MAX_ENTRIES));
    let mods = root.items("mods").take(MAX_ENTRIES).filter_map(|one| {
        let name = one.text("name")?.into();
        Some((name, one.value("version").unwrap_or_else(|| "".into())))
    });
    let mods: Vec<_> = mods.collect();
    let mods = (!mods.is_empty()).then_some(Value::Table(mods));
    status.add_extra("mods", mods);
    status.add_extra("service", Some(HOST));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::http::status_of;

    #[test]
    fn addresses_of_both_families_have_a_port() {
        for (address, host) in [
            ("192.0.2.7:34197", "192.0.2.7"),
            ("[2001:db8::7]:34197", "[2001:db8::7]"),
        ] {
            let body = format!("{{\"game_id\":1,\"host_address\":\"{address}\"}}");
            let (status, _) = status_of(&PROTOCOL, 0, &body).unwrap();
            let found = status.address.unwrap();
            assert_eq!(found.host.as_deref(), Some(host));
            assert_eq!(found.port, Some(34_197));
        }
    }
}
