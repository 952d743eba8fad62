//! The structure `GameInfo` of OpenTTD, which its protocols over TCP and UDP share
//! (spec/openttd.md#3).
//!
//! Limits: texts end within the packet, whose length has 15 bits; at most 255 extensions.

use crate::model::{Codes, Extra, Status, Text, Value, without_controls};
use crate::protocol::{DatagramContext, Direction, Explanation};
use crate::wire::{Error, Notes, Reader, Writer, by_content, deviations};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;

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

/// Appends a packet.
pub fn write_packet(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    let length = (body.len() + 3) as u16;
    Writer(out).u16_le(length).u8(kind).bytes(body);
}

/// An extension (NewGRF) of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Id of the extension.
    pub id: [u8; 4],
    /// MD5 of its file.
    pub md5: [u8; 16],
    /// Name, if the structure has names.
    pub name: &'a [u8],
}

/// State of a game, as its server describes it. Fields that older versions lack are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GameInfo<'a> {
    /// Version of the structure.
    pub version: u8,
    /// Ticks played.
    pub ticks: Option<u64>,
    /// Version and name of the game script.
    pub script: Option<(u32, &'a [u8])>,
    /// Extensions that the server runs.
    pub extensions: Vec<Extension<'a>>,
    /// Date in the game and at its start, in days since year 0.
    pub dates: Option<[u32; 2]>,
    /// Companies: allowed and current.
    pub companies: Option<[u8; 2]>,
    /// Name of the server.
    pub name: &'a [u8],
    /// Version of the server.
    pub revision: &'a [u8],
    /// Language, before version 6.
    pub language: Option<u8>,
    /// Whether players need a password, as a number.
    pub password: u8,
    /// Clients: allowed, current, and spectators among them.
    pub clients: [u8; 3],
    /// Name of the map, before version 6.
    pub map: Option<&'a [u8]>,
    /// Width and height of the map in tiles.
    pub size: [u16; 2],
    /// Landscape: an index of `LANDSCAPES`.
    pub landscape: u8,
    /// Whether the server runs without a player at its machine, as a number.
    pub dedicated: u8,
}

impl<'a> GameInfo<'a> {
    /// Parses the structure, up to the end of the packet.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or invalid, with its offset.
    pub fn read(r: &mut Reader<'a, '_>) -> Result<Self, Error> {
        let at = r.at();
        let version = r.u8("version")?;
        if version == 0 {
            return Err(Error::bad("version", at, "1 or more"));
        }
        let mut info = Self {
            version,
            ..Self::default()
        };
        if version >= 7 {
            info.ticks = Some(r.u64_le("ticks")?);
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
            let number = r.u32_le("script version")?;
            info.script = Some((number, text(r, "script name")?));
        }
        if version >= 4 {
            info.read_extensions(r, form == 1)?;
        }
        if version >= 3 {
            info.dates = Some([r.u32_le("date")?, r.u32_le("start date")?]);
        }
        if version >= 2 {
            info.companies = Some([r.u8("companies allowed")?, r.u8("companies")?]);
            r.u8("spectators allowed")?;
        }
        info.name = text(r, "name")?;
        info.revision = text(r, "revision")?;
        if version < 6 {
            info.language = Some(r.u8("language")?);
        }
        info.password = r.u8("password")?;
        info.clients = [
            r.u8("clients allowed")?,
            r.u8("clients")?,
            r.u8("spectators")?,
        ];
        if version < 3 {
            let date = u32::from(r.u16_le("date")?) + DAYS_TO_1920;
            let start = u32::from(r.u16_le("start date")?) + DAYS_TO_1920;
            info.dates = Some([date, start]);
        }
        if version < 6 {
            info.map = Some(text(r, "map")?);
        }
        info.size = [r.u16_le("width")?, r.u16_le("height")?];
        info.landscape = r.u8("landscape")?;
        info.dedicated = r.u8("dedicated")?;
        if version > NEWEST {
            r.notes().deviation(&NEWER_VERSION, at);
            let rest = r.remaining();
            r.raw(rest, "later fields")?;
        }
        r.trailing(&TRAILING_BYTES);
        Ok(info)
    }

    fn read_extensions(&mut self, r: &mut Reader<'a, '_>, has_names: bool) -> Result<(), Error> {
        let count = r.u8("number of extensions")?;
        for index in 0..usize::from(count) {
            r.notes().group("extensions", index);
            let at = r.at();
            let id = r.array("id")?;
            r.note(at, "id", || crate::wire::hexadecimal(&id));
            let at = r.at();
            let md5 = r.array("md5")?;
            r.note(at, "md5", || crate::wire::hexadecimal(&md5));
            let name = if has_names { text(r, "name")? } else { &[] };
            self.extensions.push(Extension { id, md5, name });
        }
        r.notes().ungroup();
        Ok(())
    }

    /// Converts the structure to a status (spec/openttd.md#5).
    pub fn status(&self) -> Box<Status> {
        let filled = |bytes: &[u8]| -> Option<CompactString> {
            (!bytes.is_empty()).then(|| by_content(bytes).0.into())
        };
        let mut status = Box::<Status>::default();
        status.name = (!self.name.is_empty()).then(|| Text::by_content(self.name));
        status.version = filled(self.revision);
        status.map = self.map.and_then(filled);
        status.has_password = Some(self.password != 0);
        let [max, online, spectators] = self.clients.map(i64::from);
        status.players.online = Some(online);
        status.players.max = Some(max);
        let mut add = |key, value: Value| status.extra.push(Extra { key, value });
        add("spectators", spectators.into());
        if let Some([max, current]) = self.companies {
            add("companies", i64::from(current).into());
            add("max-companies", i64::from(max).into());
        }
        let [width, height] = self.size.map(i64::from);
        add("width", width.into());
        add("height", height.into());
        let landscape = match LANDSCAPES.get(usize::from(self.landscape)) {
            Some(name) => Value::from(*name),
            None => Value::Int(self.landscape.into()),
        };
        add("landscape", landscape);
        add("dedicated", (self.dedicated != 0).into());
        if let Some([date, start]) = self.dates {
            add("date", date_text(date).into());
            add("start-date", date_text(start).into());
        }
        if let Some(ticks) = self.ticks {
            add("ticks", i64::try_from(ticks).unwrap_or(i64::MAX).into());
        }
        if let Some(language) = self.language {
            add("language", i64::from(language).into());
        }
        if let Some((number, name)) = self.script
            && (number != NO_SCRIPT || !name.is_empty())
        {
            let name = by_content(name).0;
            let version = Value::Int(number.into());
            let script = [("name", Value::from(&*name)), ("version", version)];
            add("script", table(script));
        }
        if !self.extensions.is_empty() {
            let extensions = self.extensions.iter().map(|extension| {
                let id = crate::wire::hexadecimal(&extension.id);
                let md5 = crate::wire::hexadecimal(&extension.md5);
                let mut entries = Vec::from([
                    ("id".into(), Value::from(id)),
                    ("md5".into(), Value::from(md5)),
                ]);
                if !extension.name.is_empty() {
                    let name = Value::from(&*by_content(extension.name).0);
                    entries.push(("name".into(), name));
                }
                Value::Table(entries)
            });
            add("extensions", Value::List(extensions.collect()));
        }
        status
    }
}

fn table<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    let entries = entries.into_iter();
    Value::Table(entries.map(|(key, value)| (key.into(), value)).collect())
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

/// Returns the structure of version 7 for a status, without extensions and script.
pub fn encode(status: &Status) -> Vec<u8> {
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
    let mut out = Vec::new();
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

/// Name of the message with the structure, in both protocols.
pub const INFORMATION: &str = "game information";

/// Explains a packet of either protocol. `None`: the context has the other direction.
pub fn explain(
    message: &'static str,
    direction: Direction,
    bytes: &[u8],
    seen: DatagramContext<'_>,
    notes: &mut Notes,
) -> Option<Explanation> {
    if seen.direction().is_some_and(|seen| seen != direction) {
        return None;
    }
    let mut r = Reader::new(bytes, notes);
    let mut result = read_header(&mut r).map(drop);
    if result.is_ok() && message == INFORMATION {
        result = GameInfo::read(&mut r).map(drop);
    }
    Some(Explanation::guess(message, direction, result.err()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_that_is_cut_is_rejected() {
        let body = b"\x07\0\xEB\x41\0\0\0\0\0\0\xFF\xFF\xFF\xFF\0\0\x32\x13\x0B\0\x1F\xDE\x0A\0\
            \x0F\x02\x19Test\x0014.1\0\0\x19\x03\x01\0\x02\0\x01\0\x01";
        let mut whole = Vec::new();
        write_packet(6, body, &mut whole);
        let read = |bytes: &[u8]| {
            let mut notes = Notes::default();
            let mut r = Reader::new(bytes, &mut notes);
            read_header(&mut r)?;
            GameInfo::read(&mut r).map(drop)
        };
        assert_eq!(read(&whole), Ok(()));
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        // The length fits, and the structure is cut.
        for end in 0..body.len() {
            let mut packet = Vec::new();
            write_packet(6, &body[..end], &mut packet);
            assert!(read(&packet).is_err(), "{end}");
        }
    }

    #[test]
    fn a_script_has_a_version_or_a_name() {
        for (version, name, is_script) in [
            (NO_SCRIPT, "", false),
            (NO_SCRIPT, "NoGo", true),
            (3, "", true),
        ] {
            let info = GameInfo {
                script: Some((version, name.as_bytes())),
                ..GameInfo::default()
            };
            let status = info.status();
            assert_eq!(
                status.extra("script").is_some(),
                is_script,
                "{version} {name}"
            );
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
