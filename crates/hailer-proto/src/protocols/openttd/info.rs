//! The structure `GameInfo` of OpenTTD, which its protocols over TCP and UDP share
//! (spec/openttd.md#3).
//!
//! Limits: texts end within the packet, whose length has 15 bits; at most 255 extensions.

use crate::model::{Codes, Extra, Status, Text, Value, without_controls};
use crate::wire::{Error, Reader, Writer, by_content, deviations, filled, hexadecimal};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

deviations! {
    NEWER_VERSION "newer-version" "the version of the structure is above 7; later fields are left out";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the structure";
}

/// Newest version of the structure that is known.
pub const NEWEST: u8 = 7;
/// Longest texts of a reply in bytes, as in the game: name and revision.
const MAX_NAME: usize = 79;
const MAX_REVISION: usize = 32;
/// Version of a script if there is none.
const NO_SCRIPT: u32 = u32::MAX;
/// Names of the landscapes.
const LANDSCAPES: [&str; 4] = ["temperate", "arctic", "tropic", "toyland"];
/// Days from the start of year 0 to 1 January 1920, the start of dates before version 3.
const DAYS_TO_1920: u32 = 701_265;

/// Length of the packet that starts the bytes: 16 bits, which count themselves. `None` if the
/// length is incomplete.
///
/// # Errors
///
/// The length is that of no packet.
pub fn packet_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let [low, high, ..] = bytes else {
        return Ok(None);
    };
    let length = u16::from_le_bytes([*low, *high]);
    // Longer forms, with the highest bit set, are never used for a status.
    if !(3..0x8000).contains(&length) {
        return Err(Error::bad("packet length", 0, "3 to 32,767"));
    }
    Ok(Some(length.into()))
}

/// Reads length and type of a packet, and checks that the packet is complete and alone.
///
/// # Errors
///
/// The packet is truncated, or more bytes follow it.
pub fn read_header(r: &mut Reader<'_, '_>) -> Result<u8, Error> {
    let at = r.at();
    let length = usize::from(r.u16_le("packet length")?);
    let available = r.whole().len();
    if packet_length(r.whole())?.is_none_or(|length| length > available) {
        return Err(Error::short(
            "packet",
            available,
            length.saturating_sub(available),
        ));
    }
    if length < available {
        return Err(Error::bad("packet length", at, "that of the bytes"));
    }
    r.u8("packet type")
}

/// Returns whether bytes start a packet of this type.
pub fn is_packet(bytes: &[u8], kind: u8) -> bool {
    bytes.get(2) == Some(&kind) && packet_length(bytes).is_ok()
}

/// Reads the structure into a status, up to the end of the packet (spec/openttd.md#5).
///
/// # Errors
///
/// Names the field that is truncated or invalid, with its offset.
pub fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Error> {
    let at = r.at();
    let version = r.u8("version")?;
    if version == 0 {
        return Err(Error::bad("version", at, "1 or more"));
    }
    if version >= 7 {
        let ticks = i64::try_from(r.u64_le("ticks")?).unwrap_or(i64::MAX);
        status.add_extra("ticks", Some(ticks));
    }
    let at = r.at();
    let form = if version >= 6 {
        r.u8("form of the extensions")?
    } else {
        0
    };
    if form > 1 {
        return Err(Error::bad("form of the extensions", at, "0 or 1"));
    }
    if version >= 5 {
        status.add_extra("script", read_script(r)?);
    }
    if version >= 4 {
        status.add_extra("extensions", read_extensions(r, form == 1)?);
    }
    if version >= 3 {
        status.add_extra("date", Some(date_text(r.u32_le("date")?)));
        status.add_extra("start-date", Some(date_text(r.u32_le("start date")?)));
    }
    let byte = |r: &mut Reader<'_, '_>, field| r.u8(field).map(i64::from).map(Some);
    if version >= 2 {
        status.add_extra("max-companies", byte(r, "companies allowed")?);
        status.add_extra("companies", byte(r, "companies")?);
        r.u8("spectators allowed")?;
    }
    let name = text(r, "name")?;
    status.name = (!name.is_empty()).then(|| Text::by_content(name));
    status.version = filled(text(r, "revision")?);
    if version < 6 {
        status.add_extra("language", byte(r, "language")?);
    }
    status.has_password = Some(r.u8("password")? != 0);
    status.players.max = byte(r, "clients allowed")?;
    status.players.online = byte(r, "clients")?;
    status.add_extra("spectators", byte(r, "spectators")?);
    if version < 3 {
        for (key, field) in [("date", "date"), ("start-date", "start date")] {
            let days = u32::from(r.u16_le(field)?) + DAYS_TO_1920;
            status.add_extra(key, Some(date_text(days)));
        }
    }
    if version < 6 {
        status.map = filled(text(r, "map")?);
    }
    status.add_extra("width", Some(i64::from(r.u16_le("width")?)));
    status.add_extra("height", Some(i64::from(r.u16_le("height")?)));
    let landscape = r.u8("landscape")?;
    let name = LANDSCAPES.get(usize::from(landscape)).copied();
    let number = Value::Int(landscape.into());
    status.add_extra("landscape", Some(name.map_or(number, Value::from)));
    status.add_extra("dedicated", Some(r.u8("dedicated")? != 0));
    if version > NEWEST {
        r.notes().deviation(&NEWER_VERSION, at);
        let rest = r.remaining();
        r.raw(rest, "later fields")?;
    }
    r.trailing(&TRAILING_BYTES);
    // The order of a status is that of its documentation.
    let fields = super::PROTOCOL.info.fields.iter();
    let order = |extra: &Extra| fields.clone().position(|field| field.key == extra.key);
    status.extra.sort_by_key(order);
    Ok(())
}

/// Reads the game script. `None` if there is none.
fn read_script(r: &mut Reader<'_, '_>) -> Result<Option<Value>, Error> {
    let version = r.u32_le("script version")?;
    let name = text(r, "script name")?;
    let entries = [
        ("name".into(), Value::from(&*by_content(name).0)),
        ("version".into(), Value::Int(version.into())),
    ];
    Ok((version != NO_SCRIPT || !name.is_empty()).then(|| Value::Table(entries.into())))
}

/// Reads the extensions. `None` if there are none.
fn read_extensions(r: &mut Reader<'_, '_>, has_names: bool) -> Result<Option<Value>, Error> {
    let mut extensions = Vec::new();
    for index in 0..usize::from(r.u8("number of extensions")?) {
        r.notes().group("extensions", index);
        let at = r.at();
        let id = hexadecimal(&r.array::<4>("id")?);
        r.note(at, "id", || id.clone());
        let at = r.at();
        let md5 = hexadecimal(&r.array::<16>("md5")?);
        r.note(at, "md5", || md5.clone());
        let mut entries = Vec::from([
            ("id".into(), Value::from(id)),
            ("md5".into(), Value::from(md5)),
        ]);
        let name = if has_names { text(r, "name")? } else { &[] };
        entries.extend(filled(name).map(|name| ("name".into(), Value::from(name))));
        extensions.push(Value::Table(entries));
    }
    r.notes().ungroup();
    Ok((!extensions.is_empty()).then_some(Value::List(extensions)))
}

/// Reads a text that ends with a NUL.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let Some(length) = crate::wire::first_nul(r.rest()) else {
        return Err(Error::short(field, at, 1));
    };
    let text = r.take(length, field)?;
    r.take(1, field)?;
    r.note(at, field, || format!("{:?}", by_content(text).0));
    Ok(text)
}

/// Returns a packet with the structure of version 7 for a status, without extensions and script.
pub fn write(kind: u8, status: &Status) -> Vec<u8> {
    let status = &*status.with_codes(Codes::None);
    let int = |key: &str| match status.extra(key) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    let byte = |number: Option<i64>| number.unwrap_or(0).clamp(0, 255) as u8;
    let date = |key: &str| match status.extra(key) {
        Some(Value::Str(date)) => parse_date(date).unwrap_or(0),
        _ => 0,
    };
    let names = status.name.iter().chain(&status.motd);
    let mut names = names.map(|name| without_controls(&name.plain()));
    let name = names.find(|name| !name.trim().is_empty());
    let landscape = match status.extra("landscape") {
        Some(Value::Str(name)) => LANDSCAPES.iter().position(|known| known == name),
        Some(Value::Int(number)) => usize::try_from(*number).ok(),
        _ => None,
    };
    let players = &status.players;
    let side = |key: &str| int(key).unwrap_or(0).clamp(0, u16::MAX.into()) as u16;
    let is_dedicated = status.extra("dedicated") != Some(&Value::Bool(false));
    let mut out = Vec::from([0, 0, kind]);
    let mut w = Writer(&mut out);
    let ticks = int("ticks").unwrap_or(0).max(0) as u64;
    w.u8(NEWEST).bytes(&ticks.to_le_bytes()).u8(0);
    w.u32_le(NO_SCRIPT).u8(0);
    w.u8(0);
    w.u32_le(date("date")).u32_le(date("start-date"));
    let max = byte(players.max);
    w.u8(byte(int("max-companies"))).u8(byte(int("companies")));
    w.u8(max);
    let name = name.unwrap_or_default();
    w.bytes(crate::wire::cut(&name, MAX_NAME).as_bytes()).u8(0);
    let revision = without_controls(status.version.as_deref().unwrap_or_default());
    w.bytes(crate::wire::cut(&revision, MAX_REVISION).as_bytes())
        .u8(0);
    w.u8(status.has_password.unwrap_or(false).into());
    w.u8(max)
        .u8(byte(Some(players.count())))
        .u8(byte(int("spectators")));
    w.u16_le(side("width")).u16_le(side("height"));
    w.u8(landscape.unwrap_or(0).min(255) as u8)
        .u8(is_dedicated.into());
    let length = (out.len() as u16).to_le_bytes();
    if let Some(start) = out.first_chunk_mut() {
        *start = length;
    }
    out
}

/// Formats days since the start of year 0 as a date of the Gregorian calendar: `1950-01-31`.
pub fn date_text(days: u32) -> String {
    // Years that start in March end with the leap day. Year 0 is a leap year.
    let days = i64::from(days) - 60;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the days from the start of year 0 to a date, the reverse of [`date_text`]. `None` if the
/// text is no date.
pub fn parse_date(text: &str) -> Option<u32> {
    let mut parts = text.splitn(3, '-').map(str::parse::<u32>);
    let year = i64::from(parts.next()?.ok()?);
    let month = i64::from(parts.next()?.ok()?);
    let day = i64::from(parts.next()?.ok()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    u32::try_from(year.div_euclid(400) * 146_097 + day_of_era + 60).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Notes;

    #[test]
    fn information_that_is_cut_is_rejected() {
        let body = b"\x07\0\xEB\x41\0\0\0\0\0\0\xFF\xFF\xFF\xFF\0\0\x32\x13\x0B\0\x1F\xDE\x0A\0\
            \x0F\x02\x19Test\x0014.1\0\0\x19\x03\x01\0\x02\0\x01\0\x01";
        let packet = |body: &[u8]| [&[body.len() as u8 + 3, 0, 6][..], body].concat();
        let whole = packet(body);
        let read = |bytes: &[u8]| {
            let mut notes = Notes::default();
            let mut r = Reader::new(bytes, &mut notes);
            read_header(&mut r)?;
            super::read(&mut r, &mut Status::default())
        };
        assert_eq!(read(&whole), Ok(()));
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        // The length fits, and the structure is cut.
        for end in 0..body.len() {
            assert!(read(&packet(&body[..end])).is_err(), "{end}");
        }
    }

    #[test]
    fn a_script_has_a_version_or_a_name() {
        for (version, name, is_script) in [
            (NO_SCRIPT, "", false),
            (NO_SCRIPT, "NoGo", true),
            (3, "", true),
        ] {
            let bytes = [&u32::to_le_bytes(version)[..], name.as_bytes(), &[0]].concat();
            let mut notes = Notes::default();
            let script = read_script(&mut Reader::new(&bytes, &mut notes));
            assert_eq!(script.unwrap().is_some(), is_script, "{version} {name}");
        }
    }

    #[test]
    fn days_are_dates_of_the_gregorian_calendar() {
        for (days, text) in [
            (0, "0000-01-01"),
            (59, "0000-02-29"),
            (60, "0000-03-01"),
            (366, "0001-01-01"),
            (DAYS_TO_1920, "1920-01-01"),
            (712_223, "1950-01-01"),
            (719_528, "1970-01-01"),
            (730_544, "2000-02-29"),
        ] {
            assert_eq!(date_text(days), text);
            assert_eq!(parse_date(text), Some(days));
        }
        for days in (0..4_000_000).step_by(997) {
            assert_eq!(parse_date(&date_text(days)), Some(days));
        }
        for wrong in ["", "1950", "1950-13-01", "1950-01-32", "x-1-1", "-1-1-1"] {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
        date_text(u32::MAX);
        assert_eq!(parse_date("4294967295-12-31"), None);
    }
}
