//! Assetto Corsa: the HTTP interface of the game server. HTTP.
//!
//! ```text
//!   client                 server
//!     GET /INFO      ─►
//!          ◄─  JSON: name, track, counts
//!     GET /JSON%7C0  ─►
//!          ◄─  JSON: the cars with their drivers
//! ```
//!
//! The interface is public (spec/assetto.md).

use crate::model::{Extra, Player, Status, Text, Value};
use crate::protocol::{Ask, Depth, Doc, Fault, Info};
use crate::protocols::http::{Body, File, HttpFiles, Members};
use crate::wire::{Notes, deviations};

deviations! {
    PORT_IN_NAME "port-in-name" "the name ends with a mark and the HTTP port, which are left out";
}

/// The protocol (spec/assetto.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "assetto",
        title: "Assetto Corsa",
        port: 8081,
        fields: &[
            Doc::new("cars", "Models of cars"),
            Doc::new(
                "session",
                "Kind of the session: `practice`, `qualify`, `race`, or a number",
            ),
            Doc::new("time-left", "Time left in the session, in seconds"),
            Doc::new("time-of-day", "Position of the sun, as the server sends it"),
            Doc::new(
                "pickup",
                "Whether players may join without being on the entry list",
            ),
            Doc::new("tcp-port", "TCP port of the game"),
            Doc::new("http-port", "Port of the HTTP interface"),
            Doc::new("unanswered", "Files without a usable response, by name"),
        ],
        player_fields: &[Doc::new("car", "Model of the car")],
        deviations: ALL,
        ..Info::HTTP
    },
    files: &[
        File::new(INFO, "request for the info", "/INFO"),
        // The path ends with a bar and the id of an account, which servers need not know.
        File::new(CARS, "request for the cars", "/JSON%7C0"),
    ],
    wants,
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Maximum number of cars that are kept.
const MAX_CARS: usize = 1_024;
/// Kinds of sessions, from number 1.
const SESSIONS: [&str; 3] = ["practice", "qualify", "race"];
/// Mark before the HTTP port at the end of a name.
const MARK: char = '\u{2139}';

const INFO: &str = "info";
const CARS: &str = "cars";

fn wants(ask: &Ask, file: &File) -> bool {
    file.name == INFO || ask.depth == Depth::Full && ask.has_players
}

fn is_body(file: &File, body: &Body<'_>) -> bool {
    body.has_member(match file.name {
        INFO => &["maxclients", "sessiontypes"],
        _ => &["Cars"],
    })
}

fn read(
    file: &File,
    body: &Body<'_>,
    _: &Ask,
    status: &mut Status,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let expected = "an object of an Assetto Corsa server";
    let root = body.members(is_body(file, body), expected)?;
    if file.name == CARS {
        let players = root.items("Cars").take(MAX_CARS).filter_map(player);
        status.players.set_list(players.collect());
    } else {
        read_info(root, status, notes);
    }
    Ok(())
}

fn read_info(root: Members<'_, '_>, status: &mut Status, notes: &mut Notes) {
    if let Some(item) = root.item("name") {
        let whole = item.scalar().unwrap_or_default();
        let is_port =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let name = match whole.rsplit_once(MARK) {
            Some((name, digits)) if is_port(digits) => {
                notes.deviation(&PORT_IN_NAME, item.at());
                name.trim_end()
            }
            _ => &whole,
        };
        status.name = (!name.is_empty()).then(|| Text::unformatted(name));
    }
    status.map = root.short("track");
    status.has_password = root.boolean("pass");
    status.players.online = root.integer("clients");
    status.players.max = root.integer("maxclients");
    status.address = root.port("port");
    status.add_extra("cars", root.list("cars", MAX_CARS));
    let place = root.integer("session");
    let place = place.and_then(|place| usize::try_from(place).ok());
    let kind = place.and_then(|place| root.items("sessiontypes").nth(place)?.0.integer());
    let session = kind.map(|kind| {
        let name = usize::try_from(kind)
            .ok()
            .and_then(|kind| SESSIONS.get(kind.checked_sub(1)?));
        name.map_or(Value::Int(kind), |name| Value::from(*name))
    });
    status.add_extra("session", session);
    status.add_extra("time-left", root.integer("timeleft"));
    status.add_extra("time-of-day", root.integer("timeofday"));
    status.add_extra("pickup", root.boolean("pickup"));
    status.add_extra("tcp-port", root.integer("tport"));
    status.add_extra("http-port", root.integer("cport"));
}

/// Converts a car with a driver. Entries of the list without a connection have names too
/// (spec/assetto.md#3).
fn player(car: Members<'_, '_>) -> Option<Player> {
    if car.boolean("IsConnected") != Some(true) {
        return None;
    }
    let name = car.unformatted("DriverName").unwrap_or_default();
    let mut player = Player::named(name);
    player.team = car.short("DriverTeam");
    let model = car.value("Model").map(|model| Extra::new("car", model));
    player.extra.extend(model);
    Some(player)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::http::status_of;

    #[test]
    fn only_a_mark_with_a_port_is_left_out() {
        for (name, shown, met) in [
            ("Ring \u{2139}8081", "Ring", 1),
            ("Ring \u{2139}", "Ring \u{2139}", 0),
            ("Ring \u{2139}a1", "Ring \u{2139}a1", 0),
            ("8081", "8081", 0),
        ] {
            let body = alloc::format!("{{\"name\":\"{name}\",\"maxclients\":8}}");
            let (status, deviations) = status_of(&PROTOCOL, 0, &body).unwrap();
            assert_eq!(status.title().as_deref(), Some(shown));
            assert_eq!(deviations.len(), met, "{name}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_ignored() {
        let body = "\u{FEFF}{\"name\":\"Ring\",\"maxclients\":8}";
        let (status, _) = status_of(&PROTOCOL, 0, body).unwrap();
        assert_eq!(status.title().as_deref(), Some("Ring"));
    }

    #[test]
    fn sessions_count_from_one() {
        for (kind, shown) in [
            (0, Value::Int(0)),
            (1, Value::from("practice")),
            (3, Value::from("race")),
            (4, Value::Int(4)),
        ] {
            let body = alloc::format!("{{\"session\":1,\"sessiontypes\":[9,{kind}]}}");
            let (status, _) = status_of(&PROTOCOL, 0, &body).unwrap();
            assert_eq!(status.extra("session"), Some(&shown));
        }
    }

    #[test]
    fn only_connected_cars_are_players() {
        let body = r#"{"Cars":[{"DriverName":"Alice","IsConnected":true},{"DriverName":"Bob",
            "IsConnected":false},{"DriverName":"Carol"}]}"#;
        let (status, _) = status_of(&PROTOCOL, 1, body).unwrap();
        let names = status.players.list.iter().map(|player| player.name.plain());
        assert!(names.eq(["Alice"]));
    }
}
