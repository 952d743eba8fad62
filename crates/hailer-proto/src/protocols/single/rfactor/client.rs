//! The client: one request, one reply (spec/rfactor.md#5).

use super::message::{REQUEST, Reply};
use crate::model::{Address, Extra, Status, Text, Value};
use crate::one_request::datagram::Single;
use crate::wire::codepage;
use crate::wire::{Error, Notes};
use alloc::string::ToString;
use alloc::vec::Vec;

/// Names of the driving aids, from the lowest bit.
const AIDS: [&str; 11] = [
    "traction control",
    "anti-lock brakes",
    "stability control",
    "automatic shifting",
    "automatic clutch",
    "invulnerability",
    "opposite lock",
    "steering help",
    "braking help",
    "spin recovery",
    "automatic pit stops",
];

/// Client side of one query.
#[derive(Debug)]
pub struct RFactorClient;

impl Single for RFactorClient {
    fn requests(&self) -> Vec<Vec<u8>> {
        [REQUEST.into()].into()
    }

    fn read(&self, bytes: &[u8], notes: &mut Notes) -> Option<Result<Status, Error>> {
        Some(Reply::read(bytes, notes).map(|reply| status(&reply)))
    }
}

/// Converts a reply to a status (spec/rfactor.md#5).
fn status(reply: &Reply<'_>) -> Status {
    let mut status = Status {
        name: Text::filled_windows(reply.name),
        motd: Text::filled_windows(reply.motd),
        game: codepage::filled(reply.game),
        map: codepage::filled(reply.map),
        version: Some(reply.version.to_string().into()),
        has_password: Some(reply.has_password()),
        address: (reply.game_port != 0).then_some(Address {
            host: None,
            port: Some(reply.game_port),
        }),
        ..Status::default()
    };
    status.players.online = Some(reply.online.into());
    status.players.max = Some(reply.max.into());
    status.players.bots = Some(reply.bots.into());
    let mut aids = Vec::new();
    for (bit, name) in AIDS.iter().enumerate() {
        if reply.aids >> bit & 1 == 1 {
            aids.push(Value::from(*name));
        }
    }
    let mut add = |key, value| status.extra.push(Extra { key, value });
    if !aids.is_empty() {
        add("aids", Value::List(aids));
    }
    add("damage", Value::Int(reply.damage.into()));
    add("time", Value::Int(reply.time.into()));
    add("laps", Value::Float(reply.laps()));
    add("race-cast", Value::Bool(reply.has_race_cast()));
    add("fixed-setups", Value::Bool(reply.has_fixed_setups()));
    if let Some(vehicles) = codepage::filled(reply.vehicles) {
        add("vehicles", Value::Str(vehicles));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aids_are_bits_and_a_port_is_not_0() {
        let mut reply = Reply::default();
        reply.aids = 0b101;
        let found = status(&reply);
        let aids = ["traction control", "stability control"].map(Value::from);
        assert_eq!(found.extra("aids"), Some(&Value::List(aids.into())));
        assert_eq!(found.address, None);
    }
}
