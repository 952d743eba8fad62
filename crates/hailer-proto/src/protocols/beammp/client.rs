//! The client: the information or, if there is none, a ping (spec/beammp.md#4).

use super::deviation::NO_INFORMATION;
use super::message::{self, INFORMATION, Information, PING};
use crate::model::{Carets, Extra, Player, Status, Text};
use crate::protocol::{Ask, Depth, Exchange, Frame, Input, Step};
use crate::wire::{Error, Notes};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Maximum number of players that are kept.
const MAX_PLAYERS: usize = 1_024;

/// Client side of one query.
#[derive(Debug)]
pub struct BeamMpExchange {
    depth: Depth,
    has_players: bool,
    /// The last request.
    request: u8,
}

impl BeamMpExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            has_players: ask.has_players,
            request: match ask.depth {
                Depth::Ping => PING,
                Depth::Basic | Depth::Full => INFORMATION,
            },
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Step {
        let mut status = Box::<Status>::default();
        let mut notes = Notes::default();
        if self.request == PING {
            if bytes != [PING] {
                return Step::Bad(Error::bad("pong", 0, "the byte P").into());
            }
            if self.depth != Depth::Ping {
                notes.deviation(&NO_INFORMATION, 0);
                status.extra.push(Extra::new("unanswered", "information"));
            }
        } else {
            match Information::read(bytes, &mut notes) {
                Ok(information) => fill(&information, self.has_players, &mut status),
                Err(error) => return Step::Bad(error.into()),
            }
        }
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

impl Exchange for BeamMpExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => {
                out.push(self.request);
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes),
            // Older servers, and those without the information, close the connection.
            Input::Closed(&[]) if self.request == INFORMATION => {
                self.request = PING;
                out.push(PING);
                Step::Reconnect
            }
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.request == PING && self.depth != Depth::Ping)
    }

    fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
        match bytes {
            _ if self.request == INFORMATION => message::end(bytes),
            [] => Ok(Frame::Incomplete { total: 1 }),
            _ => Ok(Frame::Complete(1)),
        }
    }
}

/// Converts the information to a status (spec/beammp.md#6).
fn fill(information: &Information, has_players: bool, status: &mut Status) {
    let colored = |text| Text::carets(text, Carets::Alphanumeric);
    status.name = information.text("name").map(colored);
    status.motd = information.text("desc").map(colored);
    status.map = information.text("map").map(|map| {
        let folder = map.strip_prefix("/levels/").unwrap_or(map);
        folder.strip_suffix("/info.json").unwrap_or(folder).into()
    });
    status.version = information.text("version").map(Into::into);
    status.players.online = information.number("players");
    status.players.max = information.number("maxplayers");
    if let Some(names) = information.text("playerslist").filter(|_| has_players) {
        let names = names.split(';').filter(|name| !name.is_empty());
        let player = |name| Player::named(Text::unformatted(name));
        let list: Vec<Player> = names.take(MAX_PLAYERS).map(player).collect();
        status.players.set_list(list);
    }
    for (key, name) in [("private", "private"), ("guests", "guests")] {
        let value = information
            .boolean(key)
            .map(|value| Extra::new(name, value));
        status.extra.extend(value);
    }
    for (key, name) in [
        ("clientversion", "client-version"),
        ("tags", "tags"),
        ("modlist", "mods"),
    ] {
        let value = information.text(key).map(|value| Extra::new(name, value));
        status.extra.extend(value);
    }
    for (key, name) in [("modstotal", "mod-count"), ("modstotalsize", "mod-bytes")] {
        let value = information.number(key).map(|value| Extra::new(name, value));
        status.extra.extend(value);
    }
}
