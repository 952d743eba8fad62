//! The client: one request; after each timeout, that of the other mod (spec/mafia2mp.md#5).

use super::message::{Mod, Reply};
use crate::model::{Player, Status, Text};
use crate::one_request::datagram::Single;
use crate::protocol::Ask;
use crate::wire::codepage;
use crate::wire::{Error, Notes};
use alloc::vec::Vec;

/// Default query port of Mafia II Online.
const ONLINE_PORT: u16 = 27_016;

/// Client side of one query.
#[derive(Debug)]
pub struct Mafia2MpClient {
    mods: [Mod; 2],
}

impl Mafia2MpClient {
    /// Creates a client that requests Mafia II Online first on its default port.
    pub fn new(ask: &Ask) -> Self {
        Self {
            mods: match ask.to.port {
                ONLINE_PORT => [Mod::Online, Mod::Multiplayer],
                _ => [Mod::Multiplayer, Mod::Online],
            },
        }
    }
}

impl Single for Mafia2MpClient {
    fn requests(&self) -> Vec<Vec<u8>> {
        self.mods.iter().map(|each| each.magic().into()).collect()
    }

    fn read(&self, bytes: &[u8], notes: &mut Notes) -> Option<Result<Status, Error>> {
        Reply::is_reply(bytes).then(|| Reply::read(bytes, notes).map(|reply| status(&reply)))
    }
}

/// Converts a reply to a status (spec/mafia2mp.md#5).
fn status(reply: &Reply<'_>) -> Status {
    let mut status = Status {
        name: Text::filled_windows(reply.name),
        mode: codepage::filled(reply.mode),
        has_password: Some(reply.has_password),
        ..Status::default()
    };
    let mut players = Vec::new();
    for (name, ping) in &reply.players {
        let mut player = Player::named(Text::windows(name));
        player.latency_ms = ping.and_then(|ping| i32::try_from(ping).ok());
        players.push(player);
    }
    status.players.online = reply.online;
    status.players.max = reply.max;
    status.players.set_list(players);
    status
}
