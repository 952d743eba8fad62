//! The responder: a token, then the information, encoded once (spec/veloren.md#7).

use super::client::BATTLE_MODES;
use super::message::{self, Information, Kind, Request};
use crate::model::{Status, Value};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::{BIND_PORT, Epoch, Keys, owner};
use crate::wire::Notes;
use alloc::vec::Vec;
use core::net::SocketAddr;
use subtle::ConstantTimeEq;

/// Purpose of the tokens.
const PURPOSE: u8 = b'L';
/// Number of epochs in which a token is valid.
const VALID_EPOCHS: u32 = 3;

pub(super) static OPTIONS: &[Doc] = &[BIND_PORT];

/// Responder of one server.
#[derive(Debug)]
pub struct VelorenResponder {
    keys: Keys,
    is_port_bound: bool,
    information: Vec<u8>,
}

impl VelorenResponder {
    /// Creates a responder for this status.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown or of the wrong type.
    pub fn new(status: &Status, keys: &Keys, options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let mut information = Vec::new();
        of_status(status).write(&mut information);
        Ok(Self {
            keys: keys.clone(),
            is_port_bound: options.bool("bind-port", false)?,
            information,
        })
    }

    fn has_valid_token(&self, request: Request, from: SocketAddr, epoch: Epoch) -> bool {
        (0..VALID_EPOCHS).any(|age| {
            let mut tags = self.keys.accepted(PURPOSE, from, epoch.before(age));
            tags.any(|tag| token(tag).ct_eq(&request.token).into())
        })
    }
}

/// Returns the token of a tag. 0 is no token.
fn token(tag: u128) -> u64 {
    (tag as u64).max(1)
}

/// Returns the information on a server with this status.
fn of_status(status: &Status) -> Information {
    let is_hash = |text: &&str| text.len() == 8 && !text.starts_with('+');
    let hash = status.version.as_deref().filter(is_hash);
    let hash = hash.and_then(|hash| u32::from_str_radix(hash, 16).ok());
    let mode = status.mode.as_deref().unwrap_or_default();
    let mode = (1..)
        .zip(BATTLE_MODES)
        .find(|(_, name)| mode.eq_ignore_ascii_case(name));
    let commit_time = match status.extra("commit-time") {
        Some(Value::Int(time)) => *time,
        _ => 0,
    };
    let count = |number: i64| number.clamp(0, u16::MAX.into()) as u16;
    Information {
        hash: hash.unwrap_or(0).to_be_bytes(),
        commit_time,
        online: count(status.players.count()),
        max: count(status.players.max.unwrap_or(0)),
        battle_mode: mode.map_or(1, |(number, _)| number),
    }
}

impl Responder for VelorenResponder {
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !Request::is_request(bytes) {
            return Verdict::Pass;
        }
        let Ok(request) = Request::read(bytes, &mut Notes::discarding()) else {
            return Verdict::Drop("malformed");
        };
        let owner = owner(from, self.is_port_bound);
        if request.kind == Kind::Information && self.has_valid_token(request, owner, epoch) {
            out.extend_from_slice(&self.information);
            return Verdict::Reply { is_verified: true };
        }
        message::write_init(token(self.keys.mint(PURPOSE, owner, epoch)), out);
        Verdict::Reply { is_verified: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_fits() {
        let mut status = Status {
            version: Some("deadbeef".into()),
            mode: Some("pve".into()),
            ..Status::default()
        };
        status.players.online = Some(70_000);
        status.players.max = Some(-1);
        let information = of_status(&status);
        assert_eq!(information.hash, [0xDE, 0xAD, 0xBE, 0xEF]);
        assert_eq!((information.online, information.max), (65_535, 0));
        assert_eq!(information.battle_mode, 2);
        for version in ["1.2.3", "deadbeef0", "+1234567"] {
            status.version = Some(version.into());
            assert_eq!(of_status(&status).hash, [0; 4], "{version}");
        }
    }
}
