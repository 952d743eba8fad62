//! The client: one request, one reply (spec/savage2.md#5).

use super::message::{REQUEST, Reply};
use crate::model::{Carets, Extra, Status, Text};
use crate::one_request::datagram::Single;
use crate::wire::{Error, Notes, by_content, filled};
use alloc::vec::Vec;

/// Client side of one query.
#[derive(Debug)]
pub struct Savage2Client;

impl Single for Savage2Client {
    fn requests(&self) -> Vec<Vec<u8>> {
        [REQUEST.into()].into()
    }

    fn read(&self, bytes: &[u8], notes: &mut Notes) -> Option<Result<Status, Error>> {
        Some(Reply::read(bytes, notes).map(|reply| status(&reply)))
    }
}

/// Converts a reply to a status (spec/savage2.md#5).
fn status(reply: &Reply<'_>) -> Status {
    let mut status = Status {
        map: filled(reply.map),
        mode: filled(reply.mode),
        version: filled(reply.version),
        ..Status::default()
    };
    if !reply.name.is_empty() {
        let (name, latin1) = by_content(reply.name);
        status.name = Some(Text::carets(name, Carets::Savage).from_single_byte(latin1));
    }
    status.players.online = Some(reply.online.into());
    status.players.max = Some(reply.max.into());
    for (key, text) in [
        ("time", reply.time),
        ("next-map", reply.next_map),
        ("location", reply.location),
    ] {
        let text = filled(text);
        status.extra.extend(text.map(|text| Extra::new(key, text)));
    }
    for (key, number) in [
        ("min-players", reply.min_players),
        ("min-level", reply.min_level),
    ] {
        status.extra.push(Extra::new(key, i64::from(number)));
    }
    status
}
