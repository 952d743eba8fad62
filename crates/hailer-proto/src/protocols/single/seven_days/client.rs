//! The client: sends nothing and reads once (spec/seven-days.md#3).

use super::message::{self, GAME_TYPE, HEADER_BYTES};
use crate::model::{Address, Extra, Rule, Status, Text};
use crate::one_request::stream::{Format, frame_of};
use crate::protocol::{Fault, Frame};
use crate::wire::{Error, Notes, by_content, filled};
use alloc::{boxed::Box, vec::Vec};
use compact_str::CompactString;

/// Ticks of a day in the game.
pub(super) const TICKS_PER_DAY: i64 = 24_000;

/// Format of request and reply.
#[derive(Debug)]
pub struct SevenDaysFormat;

impl Format for SevenDaysFormat {
    const CLOSED: &'static str = "it closes the connection without a reply";

    fn write_request(_: &mut Vec<u8>) {}

    fn frame(bytes: &[u8]) -> Result<Frame, Error> {
        Ok(match message::lengths(bytes)? {
            Some([header, body]) => frame_of(bytes.len(), header + body),
            None if bytes.first().is_some_and(u8::is_ascii_digit) => {
                frame_of(bytes.len(), HEADER_BYTES)
            }
            None => frame_of(bytes.len(), bytes.len() + 1),
        })
    }

    fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Fault> {
        let pairs = message::read(bytes, notes)?;
        let mut status = Box::<Status>::default();
        if pairs.is_empty() {
            status.extra.push(Extra::new("details", false));
            return Ok(status);
        }
        for (key, value) in pairs {
            set(&mut status, key, value);
        }
        Ok(status)
    }
}

/// Adds one pair to a status (spec/seven-days.md#6).
fn set(status: &mut Status, key: &[u8], value: &[u8]) {
    let text = |value: &[u8]| {
        let (text, is_latin1) = by_content(value);
        (!value.is_empty()).then(|| Text::unformatted(text).from_single_byte(is_latin1))
    };
    let number = core::str::from_utf8(value)
        .ok()
        .and_then(|value| value.parse::<i64>().ok());
    let boolean = match value {
        b"True" => Some(true),
        b"False" => Some(false),
        _ => None,
    };
    match (key, number, boolean) {
        (b"GameType", ..) if value == GAME_TYPE => return,
        (b"GameType", ..) => {
            let kind = filled(value).map(|kind| Extra::new("game-type", kind));
            status.extra.extend(kind);
            return;
        }
        (b"GameHost", ..) => status.name = text(value),
        (b"GameName", ..) => {
            let save = filled(value).map(|save| Extra::new("save", save));
            status.extra.extend(save);
            return;
        }
        (b"ServerDescription", ..) => status.motd = text(value),
        (b"LevelName", ..) => status.map = filled(value),
        (b"GameMode", ..) => status.mode = filled(value),
        (b"ServerVersion", ..) => status.version = filled(value),
        (b"IP", ..) => address(status).host = filled(value),
        (b"Port", Some(port @ 0..=0xFFFF), _) => address(status).port = Some(port as u16),
        (b"CurrentPlayers", Some(online), _) => status.players.online = Some(online),
        (b"MaxPlayers", Some(max), _) => status.players.max = Some(max),
        (b"IsPasswordProtected", _, Some(boolean)) => status.has_password = Some(boolean),
        (b"EACEnabled", _, Some(boolean)) => status.has_anti_cheat = Some(boolean),
        (b"CurrentServerTime", Some(ticks @ 0..), _) => {
            let day = ticks / TICKS_PER_DAY + 1;
            status.extra.push(Extra::new("day", day));
        }
        _ => {}
    }
    let is_member = matches!(
        key,
        b"GameHost" | b"ServerDescription" | b"LevelName" | b"GameMode" | b"ServerVersion" | b"IP"
    );
    // Members keep the text. Numbers that do not parse stay readable as rules.
    let is_number = matches!(key, b"Port" | b"CurrentPlayers" | b"MaxPlayers") && number.is_some();
    let is_truth = matches!(key, b"IsPasswordProtected" | b"EACEnabled") && boolean.is_some();
    if !(is_member || is_number || is_truth) {
        let decode = |bytes: &[u8]| -> CompactString { by_content(bytes).0.into() };
        status.rules.push(Rule {
            key: decode(key),
            value: decode(value),
        });
    }
}

fn address(status: &mut Status) -> &mut Address {
    status.address.get_or_insert_default()
}
