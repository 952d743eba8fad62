//! Explains packets of both directions for `hailer decode`.

use super::message::{self, Handshake, Intent, LegacyReply, LegacyRequest};
use super::reply::{self, Reply};
use crate::protocol::{Depth, Direction, Explanation};
use crate::wire::{Error, Notes, Reader};

/// Explains the packets that one side sends in one write. Apart from the 1.6 form there is no magic
/// number, so bytes of unknown direction are explained only if their start has the right shape.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let direction = direction.or_else(|| guess(bytes))?;
    let mut r = Reader::new(bytes, notes);
    let mut error = None;
    let mut keep = |result: Result<&'static str, Error>, name| match result {
        Ok(name) => name,
        Err(found) => {
            error = Some(found);
            name
        }
    };
    let message = match (direction, bytes) {
        (Direction::Request, [message::LEGACY_PING] | [message::LEGACY_PING, 1, ..]) => {
            keep(legacy_request(&mut r), "legacy request")
        }
        (Direction::Request, [9, 1, ..]) => keep(ping(&mut r, "ping"), "ping"),
        (Direction::Request, [1, 0, ..]) => keep(status_request(&mut r), "status request"),
        (Direction::Request, _) if is_packet(bytes) => keep(handshake(&mut r), "handshake"),
        (Direction::Reply, [message::KICK, 0, ..] | [message::KICK]) => {
            keep(legacy_reply(&mut r), "legacy reply")
        }
        (Direction::Reply, _) if is_kick(bytes) => keep(legacy_reply(&mut r), "legacy reply"),
        (Direction::Reply, [9, 1, ..]) => keep(pong(&mut r), "pong"),
        (Direction::Reply, _) if is_packet(bytes) => keep(status(&mut r), "status reply"),
        _ => return None,
    };
    let is_certain = message == "legacy request of 1.6";
    Some(Explanation {
        message,
        direction,
        is_certain,
        error,
    })
}

/// Returns whether the bytes are a kick whose text has exactly the length in its header.
fn is_kick(bytes: &[u8]) -> bool {
    bytes.starts_with(&[message::KICK]) && message::legacy_length(bytes) == Ok(Ok(bytes.len()))
}

/// Returns whether the bytes start like a packet with id 0.
fn is_packet(bytes: &[u8]) -> bool {
    match message::packet(bytes) {
        Ok(Some(packet)) => bytes.get(packet.start) == Some(&0) && packet.end > packet.start,
        _ => false,
    }
}

/// Guesses the direction by shape.
fn guess(bytes: &[u8]) -> Option<Direction> {
    let mut notes = Notes::discarding();
    let mut r = Reader::new(bytes, &mut notes);
    match bytes {
        [message::LEGACY_PING] | [message::LEGACY_PING, 1] => Some(Direction::Request),
        [message::LEGACY_PING, 1, 0xFA, ..] => Some(Direction::Request),
        _ if is_kick(bytes) => Some(Direction::Reply),
        [9, 1, ..] => (bytes.len() == message::PING_BYTES).then_some(Direction::Request),
        [1, 0] => Some(Direction::Request),
        _ if !is_packet(bytes) => None,
        _ if starts_json(bytes) => Some(Direction::Reply),
        _ => is_handshake(&mut r).then_some(Direction::Request),
    }
}

/// Returns whether the bytes are a handshake, or would be one with another intent or length.
fn is_handshake(r: &mut Reader<'_, '_>) -> bool {
    match Handshake::read(r) {
        Ok(_) => true,
        Err(error) => error.at > 0 && error.field == "intent",
    }
}

/// Returns whether the bytes start like a packet with the text of a JSON object.
fn starts_json(bytes: &[u8]) -> bool {
    let Ok(Some(packet)) = message::packet(bytes) else {
        return false;
    };
    // The length of the text has at most 3 bytes.
    let start = bytes.get(packet.start + 1..).unwrap_or_default();
    let length = start
        .iter()
        .take(2)
        .take_while(|byte| **byte >= 0x80)
        .count()
        + 1;
    let text = start.get(length..).unwrap_or_default();
    let text = text.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(text);
    matches!(text, [b'{', b'"' | b'}', ..])
}

fn legacy_request(r: &mut Reader<'_, '_>) -> Result<&'static str, Error> {
    use message::LegacyForm::{Beta, Full, Short};
    let request = LegacyRequest::read(r)?;
    r.end()?;
    Ok(match request.form {
        Beta => "legacy request of beta",
        Short => "legacy request of 1.4",
        Full => "legacy request of 1.6",
    })
}

fn handshake(r: &mut Reader<'_, '_>) -> Result<&'static str, Error> {
    let handshake = Handshake::read(r)?;
    let is_status = handshake.intent == Intent::Status;
    if r.remaining() == 0 {
        return Ok("handshake");
    }
    if is_status {
        message::read_status_request(r)?;
        r.end()?;
        Ok("handshake and status request")
    } else {
        message::read_login_start(r)?;
        r.end()?;
        Ok("handshake and login start")
    }
}

fn status_request(r: &mut Reader<'_, '_>) -> Result<&'static str, Error> {
    message::read_status_request(r)?;
    if r.remaining() == 0 {
        return Ok("status request");
    }
    ping(r, "status request and ping")
}

fn ping(r: &mut Reader<'_, '_>, name: &'static str) -> Result<&'static str, Error> {
    message::read_ping(r)?;
    r.end()?;
    Ok(name)
}

fn pong(r: &mut Reader<'_, '_>) -> Result<&'static str, Error> {
    message::read_ping(r)?;
    r.trailing(&super::deviation::TRAILING_BYTES);
    Ok("pong")
}

fn legacy_reply(r: &mut Reader<'_, '_>) -> Result<&'static str, Error> {
    Ok(match LegacyReply::read(r)? {
        LegacyReply::Listing(listing) if listing.version.is_some() => "legacy reply of 1.4",
        LegacyReply::Listing(_) => "legacy reply of beta",
        LegacyReply::Kick(_) => "kick",
    })
}

fn status(r: &mut Reader<'_, '_>) -> Result<&'static str, Error> {
    Ok(match reply::read(r, Depth::Full, true)? {
        Reply::Status(_) => "status reply",
        Reply::Disconnect(_) => "disconnect",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;

    fn packet(body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        message::write_packet(body, &mut bytes);
        bytes
    }

    fn status(json: &str) -> Vec<u8> {
        let mut body = Vec::from([0]);
        message::write_string(json, &mut body);
        packet(&body)
    }

    #[test]
    fn replies_are_recognized_by_their_json() {
        // Lengths of the text with one, two and three bytes.
        for spaces in [0, 200, 20_000] {
            for start in ["{\"", "{}"] {
                let bytes = status(&format!("{start}{}", " ".repeat(spaces)));
                assert_eq!(guess(&bytes), Some(Direction::Reply), "{start}, {spaces}");
                // Only the start is needed.
                let length = bytes.len() - spaces;
                assert_eq!(guess(&bytes[..length]), Some(Direction::Reply), "{start}");
                assert_eq!(guess(&bytes[..length - 1]), None, "{start}");
            }
        }
        for other in ["{", "{ ", "{1", "\"a\"", " {}", ""] {
            assert_eq!(guess(&status(other)), None, "{other:?}");
        }
        let long_length = packet(b"\0\x82\x80\x80\0{}");
        assert_eq!(guess(&long_length), None, "a length of 4 bytes");
        let other_id = packet(b"\x01\x02{}");
        assert_eq!(guess(&other_id), None);
    }
}
