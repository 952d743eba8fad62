//! Farming Simulator 19, 22 and 25: the statistics of dedicated servers. HTTP.
//!
//! ```text
//!   client                                            server
//!     GET /feed/dedicated-server-stats.xml?code=   ─►
//!          ◄─  XML: name, map, slots with the names of players, mods
//! ```
//!
//! The code is that of the owner (spec/farming-simulator.md#1).

use crate::model::{Extra, Player, Status, Text, Value};
use crate::protocol::{Ask, Doc, Fault, Info};
use crate::protocols::http::{Body, File, HttpFiles, encoded};
use crate::wire::xml::{Element, Event, Xml};
use crate::wire::{Error, Notes};
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use compact_str::CompactString;

/// The protocol (spec/farming-simulator.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "farming-simulator",
        title: "Farming Simulator",
        port: 8080,
        fields: &[
            Doc::new("day-time", "Time of the day in the game, in milliseconds"),
            Doc::new("mods", "Mods with their versions"),
        ],
        player_fields: &[Doc::new("admin", "Whether the player is an administrator")],
        ..Info::HTTP
    },
    files: &[File::new(
        "stats",
        "request for the stats",
        "/feed/dedicated-server-stats.xml",
    )],
    denied: DENIED,
    path,
    refusal,
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Maximum number of players and of mods that are kept.
const MAX_ENTRIES: usize = 1_024;

fn path(ask: &Ask, file: &File) -> Cow<'static, str> {
    match &ask.auth_token {
        Some(code) => format!("{}?code={}", file.path, encoded(code.reveal())).into(),
        None => Cow::Borrowed(file.path),
    }
}

fn refusal(status: u16, _: &Body<'_>) -> Option<Fault> {
    (status == 404).then_some(DENIAL)
}

fn is_body(_: &File, body: &Body<'_>) -> bool {
    let mut xml = Xml::new(body.whole(), body.range());
    matches!(xml.next_event(), Ok(Some(Event::Start(root))) if root.name == b"Server")
}

fn read(
    _: &File,
    body: &Body<'_>,
    ask: &Ask,
    status: &mut Status,
    notes: &mut Notes,
) -> Result<(), Fault> {
    // A wrong code gets an empty body.
    if body.bytes().trim_ascii().is_empty() {
        return Err(DENIAL);
    }
    let mut xml = Xml::new(body.whole(), body.range());
    let mut reader = Reader::default();
    let mut path: Vec<Element<'_>> = Vec::new();
    while let Some(event) = xml.next_event()? {
        match event {
            Event::Start(element) => {
                if path.is_empty() && element.name != b"Server" {
                    let expected = "the element Server";
                    return Err(Error::bad("XML", element.at, expected).into());
                }
                reader.start(&element, status, notes);
                path.push(element);
            }
            Event::Text(text) => reader.text(path.last(), text),
            Event::End => drop(path.pop()),
        }
    }
    if status.name.is_none() && !reader.has_slots {
        return Err(Error::bad("XML", body.range().start, "a server with slots").into());
    }
    if ask.has_players {
        status.players.set_list(reader.players);
    }
    if !reader.mods.is_empty() {
        let mods = Value::Table(reader.mods);
        status.extra.push(Extra::new("mods", mods));
    }
    Ok(())
}

const DENIED: &str = "it requires the code of the owner as the auth token (in the settings of the \
        web interface, with the address of the statistics)";
const DENIAL: Fault = Fault::Refused {
    reason: DENIED,
    endpoints: &[],
};

/// Lists that elements fill.
#[derive(Default)]
struct Reader {
    has_slots: bool,
    players: Vec<Player>,
    mods: Vec<(CompactString, Value)>,
}

impl Reader {
    fn start(&mut self, element: &Element<'_>, status: &mut Status, notes: &mut Notes) {
        let text = |name| element.attribute(name).filter(|text| !text.is_empty());
        match element.name {
            b"Server" => {
                status.name = text("name").map(Text::unformatted);
                status.map = text("mapName").map(Into::into);
                status.version = text("version").map(Into::into);
                status.game = text("game").map(Into::into);
                let time = element.number("dayTime");
                let time = time.map(|time| Extra::new("day-time", time));
                status.extra.extend(time);
                let name = status.name.clone().unwrap_or_default();
                notes.field(element.at..element.at + 7, "server", || {
                    format!("{:?}", name.plain())
                });
            }
            b"Slots" => {
                self.has_slots = true;
                status.players.max = element.number("capacity");
                status.players.online = element.number("numUsed");
                let online = status.players.online;
                notes.field(element.at..element.at + 6, "slots", || {
                    format!("{online:?}")
                });
            }
            b"Player"
                if self.players.len() < MAX_ENTRIES
                    && text("isUsed").as_deref() == Some("true") =>
            {
                let minutes = element.number("uptime");
                let mut player = Player {
                    time_s: minutes.map(|minutes| minutes as f32 * 60.0),
                    ..Player::default()
                };
                if text("isAdmin").as_deref() == Some("true") {
                    player.extra.push(Extra::new("admin", true));
                }
                self.players.push(player);
            }
            b"Mod" if self.mods.len() < MAX_ENTRIES => {
                if let Some(name) = text("name") {
                    let version = text("version").unwrap_or_default();
                    self.mods.push((name.into(), version.into()));
                }
            }
            _ => {}
        }
    }

    /// Adds the name of a player.
    fn text(&mut self, element: Option<&Element<'_>>, text: alloc::string::String) {
        let is_used = |element: &&Element<'_>| {
            element.name == b"Player" && element.attribute("isUsed").as_deref() == Some("true")
        };
        if element.is_some_and(|element| is_used(&element))
            && let Some(player) = self.players.last_mut()
        {
            player.name = Text::unformatted(text);
        }
    }
}
