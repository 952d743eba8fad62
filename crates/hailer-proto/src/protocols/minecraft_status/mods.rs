//! Mod lists of Forge: `modinfo` (FML 1), `forgeData` with lists (FML 2) and packed into a text
//! (FML 3) (spec/minecraft-status.md#7).
//!
//! Limits: 10,000 mods and 10,000 channels; in the packed form, ids of at most 64 bytes.

use super::component::note_utf8;
use super::deviation::*;
use crate::model::{Extra, Rows, Status, Value};
use crate::wire::json::{self, Item, Kind};
use crate::wire::{Error, Notes, Reader};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of rows of each list.
const MAX_ROWS: usize = 10_000;
/// Maximum length of a mod's id in the packed form, in bytes. Forge allows 64.
const MAX_ID_BYTES: usize = 64;
/// Maximum length of other texts in the packed form, in bytes.
const MAX_STRING_BYTES: usize = 1_024;
/// Maximum number of bytes in the packed form of Hailer's own replies, as in Forge.
const MAX_PACKED_BYTES: usize = 60_000;

const MOD_COLUMNS: &&[&str] = &(&["id", "version", "side"] as &[_]);
const CHANNEL_COLUMNS: &&[&str] = &(&["name", "version", "required"] as &[_]);

/// Start of the version of a mod that clients do not need. Screaming faces follow.
const SERVER_ONLY: &str = "OHNOES";

/// Mods and channels of a server.
#[derive(Debug)]
pub(super) struct ModList {
    loader: &'static str,
    is_truncated: bool,
    mods: Rows,
    channels: Rows,
}

impl ModList {
    fn new(loader: &'static str) -> Self {
        Self {
            loader,
            is_truncated: false,
            mods: Rows::with_capacity(MOD_COLUMNS, 0),
            channels: Rows::with_capacity(CHANNEL_COLUMNS, 0),
        }
    }

    /// Adds the extras of this list to a status.
    pub(super) fn add_to(self, status: &mut Status) {
        const KEYS: [&str; 4] = ["mod-loader", "mods", "channels", "mods-truncated"];
        status.extra.retain(|extra| !KEYS.contains(&&*extra.key));
        status.extra.push(Extra::new("mod-loader", self.loader));
        if !self.mods.is_empty() {
            status
                .extra
                .push(Extra::new("mods", Value::Rows(self.mods)));
        }
        if !self.channels.is_empty() {
            status
                .extra
                .push(Extra::new("channels", Value::Rows(self.channels)));
        }
        if self.is_truncated {
            status.extra.push(Extra::new("mods-truncated", true));
        }
    }

    /// Parses `modinfo`. Proxies send it with an empty list, which gives `None`.
    pub(super) fn read_modinfo(item: Item<'_, '_>, notes: &mut Notes) -> Option<Self> {
        let mut list = Self::new("FML");
        for (key, value) in item.entries() {
            if key.bytes() == b"modList" {
                list.read_mods(value, notes);
            }
        }
        (!list.mods.is_empty()).then_some(list)
    }

    /// Parses `forgeData`.
    pub(super) fn read_forge_data(item: Item<'_, '_>, notes: &mut Notes) -> Option<Self> {
        if item.kind() != Kind::Object {
            notes.deviation(&WRONG_TYPE, item.at());
            return None;
        }
        let mut list = Self::new("FML2");
        let mut packed = None;
        for (key, value) in item.entries() {
            match key.bytes() {
                b"mods" => list.read_mods(value, notes),
                b"channels" => list.read_channels(value),
                b"truncated" => list.is_truncated = value.kind() == Kind::Bool(true),
                b"fmlNetworkVersion" => {
                    if value.bytes() == b"3" {
                        list.loader = "FML3";
                    }
                    if value.kind() == Kind::Text {
                        notes.deviation(&INT_AS_STRING, value.at());
                    }
                }
                b"d" => packed = Some(value),
                _ => {}
            }
        }
        if let Some(packed) = packed {
            // The lists are dummies for old clients then, and so is the mark that they are cut.
            list = Self::new("FML3");
            let text = packed.text().unwrap_or_default();
            if list.unpack(&unpacked(&text)).is_err() {
                notes.deviation(&MODS_UNREADABLE, packed.at());
            }
        }
        Some(list)
    }

    fn read_mods(&mut self, item: Item<'_, '_>, notes: &mut Notes) {
        for entry in item.items().take(MAX_ROWS) {
            let mut id = None;
            let mut version = None;
            for (key, value) in entry.entries() {
                match key.bytes() {
                    b"modid" | b"modId" => id = value.text(),
                    b"version" | b"modmarker" => version = value.text(),
                    _ => continue,
                }
                note_utf8(value, notes);
            }
            let is_server_only = version
                .as_deref()
                .is_some_and(|version| version.starts_with(SERVER_ONLY));
            let version = version.filter(|_| !is_server_only);
            if let Some(id) = id {
                self.push_mod(&id, version.as_deref(), is_server_only);
            }
        }
    }

    fn push_mod(&mut self, id: &str, version: Option<&str>, is_server_only: bool) {
        let side = is_server_only.then_some("server");
        self.mods.push([Some(id), version, side]);
    }

    fn read_channels(&mut self, item: Item<'_, '_>) {
        for entry in item.items().take(MAX_ROWS) {
            let mut name = None;
            let mut version = None;
            let mut is_required = None;
            for (key, value) in entry.entries() {
                match key.bytes() {
                    b"res" => name = value.text(),
                    b"version" => version = value.text(),
                    b"required" => is_required = Some(value.kind() == Kind::Bool(true)),
                    _ => {}
                }
            }
            if let Some(name) = name {
                self.push_channel(&name, version.as_deref(), is_required.unwrap_or_default());
            }
        }
    }

    fn push_channel(&mut self, name: &str, version: Option<&str>, is_required: bool) {
        let required = if is_required { "true" } else { "false" };
        self.channels.push([Some(name), version, Some(required)]);
    }

    /// Reads the bytes of the packed form. On an error, the entries before it are kept.
    fn unpack(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut notes = Notes::discarding();
        let mut r = Reader::new(bytes, &mut notes);
        self.is_truncated = r.u8("truncated")? != 0;
        match self.unpack_lists(&mut r) {
            // A list with the mark of a cut one may end anywhere.
            Err(_) if self.is_truncated => Ok(()),
            result => result,
        }
    }

    fn unpack_lists(&mut self, r: &mut Reader<'_, '_>) -> Result<(), Error> {
        let mods = usize::from(r.u16_be("mods")?);
        for _ in 0..mods {
            let flags = varint(r)?;
            let id = packed_string(r, MAX_ID_BYTES)?;
            let is_server_only = flags & 1 == 1;
            let version = if is_server_only {
                None
            } else {
                Some(packed_string(r, MAX_STRING_BYTES)?)
            };
            if self.mods.len() >= MAX_ROWS {
                return Err(Error::bad("mods", r.at(), "at most 10,000"));
            }
            self.push_mod(&id, version.as_deref(), is_server_only);
            for _ in 0..flags >> 1 {
                let path = packed_string(r, MAX_STRING_BYTES)?;
                self.unpack_channel(r, &format!("{id}:{path}"))?;
            }
        }
        for _ in 0..varint(r)? {
            let name = packed_string(r, MAX_STRING_BYTES)?;
            self.unpack_channel(r, &name)?;
        }
        Ok(())
    }

    fn unpack_channel(&mut self, r: &mut Reader<'_, '_>, name: &str) -> Result<(), Error> {
        let version = packed_string(r, MAX_STRING_BYTES)?;
        let is_required = r.u8("required")? != 0;
        if self.channels.len() >= MAX_ROWS {
            return Err(Error::bad("channels", r.at(), "at most 10,000"));
        }
        self.push_channel(name, Some(&version), is_required);
        Ok(())
    }
}

fn varint(r: &mut Reader<'_, '_>) -> Result<u32, Error> {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        let byte = r.u8("varint")?;
        value |= u32::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::bad("varint", r.at(), "at most 5 bytes"))
}

fn packed_string<'a>(r: &mut Reader<'a, '_>, limit: usize) -> Result<Cow<'a, str>, Error> {
    let at = r.at();
    let length = varint(r)? as usize;
    if length > limit {
        return Err(Error::bad("text", at, "a shorter text"));
    }
    Ok(String::from_utf8_lossy(r.take(length, "text")?))
}

/// Bits in each character of the packed form.
const BITS: u32 = 15;
const MASK: u32 = (1 << BITS) - 1;

/// Returns the bytes packed into a text: 15 bits in each character, the lowest first, after their
/// number in two characters.
fn unpacked(text: &str) -> Vec<u8> {
    let mut characters = text.chars().map(|c| u32::from(c) & MASK);
    let low = characters.next().unwrap_or_default();
    let count = (characters.next().unwrap_or_default() << BITS | low) as usize;
    // The number is not trusted: missing bytes are not made up beyond the last character.
    let mut bytes = Vec::with_capacity(count.min(text.len() * 2));
    let mut buffer = 0u32;
    let mut bits = 0;
    for character in characters {
        buffer |= character << bits;
        bits += BITS;
        while bits >= 8 && bytes.len() < count {
            bytes.push(buffer as u8);
            buffer >>= 8;
            bits -= 8;
        }
        if bytes.len() >= count {
            return bytes;
        }
    }
    // Forge loses zero bits at the end.
    if bytes.len() < count {
        bytes.push(buffer as u8);
    }
    bytes
}

/// Packs bytes into a text.
fn packed(bytes: &[u8]) -> String {
    let character = |value: u32| char::from_u32(value & MASK).unwrap_or_default();
    let mut text = String::with_capacity(bytes.len() * 2);
    let count = bytes.len() as u32;
    text.push(character(count));
    text.push(character(count >> BITS));
    let mut buffer = 0;
    let mut bits = 0;
    for byte in bytes {
        buffer |= u32::from(*byte) << bits;
        bits += 8;
        if bits >= BITS {
            text.push(character(buffer));
            buffer >>= BITS;
            bits -= BITS;
        }
    }
    if bits > 0 {
        text.push(character(buffer));
    }
    text
}

/// Appends the key and the mod list of a status, with a comma before it, if the status has one.
pub(super) fn write(status: &Status, out: &mut Vec<u8>) {
    let Some(Value::Str(loader)) = status.extra("mod-loader") else {
        return;
    };
    let mods = rows(status, "mods");
    let channels = rows(status, "channels");
    let is_truncated = status.extra("mods-truncated") == Some(&Value::Bool(true));
    match loader.as_str() {
        "FML" => {
            out.extend(*b",\"modinfo\":{\"type\":\"FML\",\"modList\":");
            write_list(&mods, [("id", "modid"), ("version", "version")], out);
            out.push(b'}');
        }
        "FML2" => {
            out.extend(*b",\"forgeData\":{\"channels\":");
            write_list(
                &channels,
                [
                    ("name", "res"),
                    ("version", "version"),
                    ("required", "required"),
                ],
                out,
            );
            out.extend(*b",\"mods\":");
            write_list(&mods, [("id", "modId"), ("version", "modmarker")], out);
            out.extend(format!(",\"truncated\":{is_truncated},\"fmlNetworkVersion\":2}}").bytes());
        }
        "FML3" => {
            out.extend(*b",\"forgeData\":{\"fmlNetworkVersion\":3,\"d\":");
            json::write_text(&packed(&pack(&mods, &channels, is_truncated)), out);
            out.extend(*b",\"channels\":[],\"mods\":[],\"truncated\":true}");
        }
        _ => {}
    }
}

/// A row as names and texts.
type Row<'a> = Vec<(&'a str, &'a str)>;

fn rows<'a>(status: &'a Status, key: &str) -> Vec<Row<'a>> {
    match status.extra(key) {
        Some(Value::Rows(rows)) => rows.iter().map(Iterator::collect).collect(),
        _ => Vec::new(),
    }
}

fn cell<'a>(row: &Row<'a>, name: &str) -> Option<&'a str> {
    let mut cells = row.iter();
    cells
        .find(|(column, _)| *column == name)
        .map(|(_, text)| *text)
}

/// Appends rows as a list of objects, with the key for each column.
fn write_list<const N: usize>(rows: &[Row<'_>], columns: [(&str, &str); N], out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        for (j, (column, key)) in columns.iter().enumerate() {
            let is_server_only = cell(row, "side") == Some("server");
            let value = cell(row, column);
            if *column == "version" && value.is_none() && !is_server_only {
                continue;
            }
            out.push(if j == 0 { b'{' } else { b',' });
            json::write_text(key, out);
            out.push(b':');
            match (*column, value) {
                ("required", cell) => out.extend(cell.unwrap_or("false").bytes()),
                // The version that Forge expects in this case.
                ("version", None) => {
                    json::write_text(&format!("{SERVER_ONLY}{}", "\u{1F631}".repeat(16)), out)
                }
                (_, cell) => json::write_text(cell.unwrap_or_default(), out),
            }
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// Returns the bytes of the packed form. Mods are left out at the end if there are too many.
fn pack(mods: &[Row<'_>], channels: &[Row<'_>], is_truncated: bool) -> Vec<u8> {
    let string = |text: &str, limit: usize, bytes: &mut Vec<u8>| {
        super::message::write_string(crate::wire::cut(text, limit), bytes);
    };
    let channel = |name: &str, row: &Row<'_>, bytes: &mut Vec<u8>| {
        string(name, MAX_STRING_BYTES, bytes);
        string(
            cell(row, "version").unwrap_or_default(),
            MAX_STRING_BYTES,
            bytes,
        );
        bytes.push(u8::from(cell(row, "required") == Some("true")));
    };
    let mut others: Vec<&Row<'_>> = channels.iter().collect();
    let mut body = Vec::new();
    let mut count = 0u16;
    for row in mods {
        if body.len() > MAX_PACKED_BYTES {
            break;
        }
        let id = cell(row, "id").unwrap_or_default();
        let version = cell(row, "version");
        let path = |row: &Row<'_>| {
            let name = cell(row, "name")?.strip_prefix(id)?.strip_prefix(':')?;
            Some(String::from(name))
        };
        let own: Vec<(String, &Row<'_>)> = others
            .iter()
            .filter_map(|row| Some((path(row)?, *row)))
            .collect();
        others.retain(|row| path(row).is_none());
        let flags = (own.len() as i32) << 1 | i32::from(version.is_none());
        super::message::write_varint(flags, &mut body);
        string(id, MAX_ID_BYTES, &mut body);
        if let Some(version) = version {
            string(version, MAX_STRING_BYTES, &mut body);
        }
        for (path, row) in own {
            channel(&path, row, &mut body);
        }
        count += 1;
    }
    let is_cut = usize::from(count) < mods.len() || body.len() > MAX_PACKED_BYTES;
    if is_cut {
        others.clear();
    }
    super::message::write_varint(others.len() as i32, &mut body);
    for row in others {
        channel(cell(row, "name").unwrap_or_default(), row, &mut body);
    }
    let mut bytes = Vec::with_capacity(body.len() + 3);
    bytes.push(u8::from(is_truncated || is_cut));
    bytes.extend(count.to_be_bytes());
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Json;
    use alloc::string::ToString;
    use alloc::vec;

    /// The worked example of the spec page.
    const BYTES: &[u8] = b"\0\0\x02\x02\x05forge\x03ANY\x05split\x031.1\x01\x01\x03jei\x01\x12minecraft:register\x04FML3\x01";
    const UNITS: [u16; 32] = [
        0x0038, 0x0000, 0x0000, 0x0404, 0x1814, 0x137B, 0x5677, 0x206C, 0x5390, 0x02AC, 0x7073,
        0x52D8, 0x0DD1, 0x7188, 0x1312, 0x6020, 0x5A80, 0x34B2, 0x1201, 0x52DA, 0x15B9, 0x131B,
        0x6617, 0x4E8C, 0x5C8E, 0x33B2, 0x7369, 0x4AE8, 0x11C9, 0x6A30, 0x34C4, 0x0026,
    ];

    fn example() -> String {
        String::from_utf16(&UNITS).unwrap()
    }

    fn read(text: &str) -> (Status, Vec<&'static str>) {
        let json = Json::parse(text.as_bytes(), 0..text.len(), "JSON").unwrap();
        let mut notes = Notes::default();
        let mut status = Status::default();
        let list = if text.contains("modList") {
            ModList::read_modinfo(json.root(), &mut notes)
        } else {
            ModList::read_forge_data(json.root(), &mut notes)
        };
        if let Some(list) = list {
            list.add_to(&mut status);
        }
        (status, notes.met().map(|met| met.name).collect())
    }

    fn shown(status: &Status) -> Vec<(&str, String)> {
        let extras = status.extra.iter();
        extras
            .map(|extra| (&*extra.key, extra.value.to_string()))
            .collect()
    }

    fn example_extras() -> Vec<(&'static str, String)> {
        vec![
            ("mod-loader", "FML3".into()),
            (
                "mods",
                "id=forge version=ANY, id=jei side=server".into(),
            ),
            (
                "channels",
                "name=forge:split version=1.1 required=true, name=minecraft:register version=FML3 required=true".into(),
            ),
        ]
    }

    #[test]
    fn the_packed_form_is_that_of_the_spec_page() {
        assert_eq!(unpacked(&example()), BYTES);
        assert_eq!(packed(BYTES), example());
        let text = alloc::format!(
            r#"{{"fmlNetworkVersion":3,"d":{:?},"channels":[],"mods":[],"truncated":true}}"#,
            example()
        );
        // Rust and JSON agree on escapes, apart from those of control characters.
        let text = text
            .replace("\\0", "\\u0000")
            .replace("\\u{202c}", "\u{202C}");
        let text = text.replace("\\u{206c}", "\u{206C}");
        let (status, met) = read(&text);
        assert_eq!((shown(&status), met), (example_extras(), vec![]));
        let mut out = Vec::new();
        write(&status, &mut out);
        let start = b",\"forgeData\":".len();
        let (back, met) = read(core::str::from_utf8(&out[start..]).unwrap());
        assert_eq!((back, met), (status, vec![]));
    }

    #[test]
    fn every_length_survives_packing() {
        for length in 0..64 {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 37 + 255) as u8).collect();
            assert_eq!(unpacked(&packed(&bytes)), bytes);
        }
        // Units below the limit of 15 bits are never surrogates.
        assert!(packed(&[0xFF; 30]).chars().all(|c| u32::from(c) <= MASK));
    }

    #[test]
    fn missing_bits_at_the_end_are_zero() {
        let bytes = [1, 2, 3, 4];
        let text = packed(&bytes);
        let mut cut: Vec<char> = text.chars().collect();
        assert_eq!(
            cut.pop(),
            Some('\0'),
            "the last character holds zero bits only"
        );
        assert_eq!(unpacked(&String::from_iter(cut)), bytes);
    }

    #[test]
    fn texts_in_other_encodings_are_named() {
        let json = b"{\"modList\":[{\"modid\":\"a\",\"version\":\"\xFF\"}]}";
        let json = Json::parse(json, 0..json.len(), "JSON").unwrap();
        let mut notes = Notes::default();
        assert!(ModList::read_modinfo(json.root(), &mut notes).is_some());
        assert_eq!(
            notes.met().map(|met| met.name).collect::<Vec<_>>(),
            ["invalid-utf8"]
        );
    }

    #[test]
    fn lists_of_both_other_forms() {
        let (status, met) = read(
            r#"{"type":"FML","modList":[{"modid":"mcp","version":"9.19"},{"modid":"FML"},{"version":"1"}]}"#,
        );
        assert_eq!(
            (shown(&status), met),
            (
                vec![
                    ("mod-loader", "FML".into()),
                    ("mods", "id=mcp version=9.19, id=FML".into())
                ],
                vec![]
            )
        );
        assert_eq!(read(r#"{"type":"FML","modList":[]}"#).0, Status::default());
        let (status, met) = read(
            r#"{"fmlNetworkVersion":"2","channels":[{"res":"forge:tier","version":"1.0","required":false}],"mods":[{"modId":"a","modmarker":"OHNOES!"}],"truncated":true}"#,
        );
        assert_eq!(
            (shown(&status), met),
            (
                vec![
                    ("mod-loader", "FML2".into()),
                    ("mods", "id=a side=server".into()),
                    (
                        "channels",
                        "name=forge:tier version=1.0 required=false".into()
                    ),
                    ("mods-truncated", "yes".into()),
                ],
                vec!["int-as-string"]
            )
        );
        for text in [
            r#"{"modList":[{"modid":"a","version":"1"},{"modid":"b"}]}"#,
            r#"{"fmlNetworkVersion":2,"channels":[{"res":"x:y","version":"1","required":true}],"mods":[{"modId":"a","modmarker":"1"},{"modId":"b","modmarker":"OHNOES"}],"truncated":true}"#,
        ] {
            let (status, _) = read(text);
            let mut out = Vec::new();
            write(&status, &mut out);
            let out = core::str::from_utf8(&out).unwrap();
            let (_, object) = out.split_once(':').unwrap();
            assert_eq!(read(object).0, status);
        }
    }

    #[test]
    fn a_broken_list_keeps_its_start() {
        let broken = |bytes: &[u8]| {
            let mut text = String::new();
            let mut json_text = Vec::new();
            json::write_text(&packed(bytes), &mut json_text);
            text.push_str(core::str::from_utf8(&json_text).unwrap());
            read(&alloc::format!(r#"{{"d":{text}}}"#))
        };
        for end in 0..BYTES.len() {
            let (status, met) = broken(&BYTES[..end]);
            assert_eq!(met, ["mods-unreadable"], "{end}");
            assert_eq!(
                status.extra("mods").is_some(),
                end >= 14,
                "{end}: {status:?}"
            );
            // With the mark that it is cut, it may end anywhere after it.
            let mut cut = BYTES[..end].to_vec();
            if let Some(flag) = cut.first_mut() {
                *flag = 1;
                assert_eq!(broken(&cut).1, Vec::<&str>::new());
            }
        }
        for (bytes, reason) in [
            (
                &b"\0\0\x01\0\x80\x80\x80\x80\x80\x80"[..],
                "an endless varint",
            ),
            (b"\0\0\x01\0\xFF\xFF\xFF\xFF\x07", "a huge text"),
            (b"\0\xFF\xFF\x01\x01a", "more mods than bytes"),
        ] {
            assert_eq!(broken(bytes).1, ["mods-unreadable"], "{reason}");
        }
        // The claimed number of bytes is not allocated.
        assert!(unpacked("\u{7FFF}\u{7FFF}a").capacity() < 64);
    }

    #[test]
    fn the_numbers_of_mods_and_channels_are_limited() {
        let counts = |mods: usize, channels: usize| {
            let mut bytes = vec![0];
            bytes.extend((mods as u16).to_be_bytes());
            bytes.extend([1, 1, b'a'].repeat(mods));
            super::super::message::write_varint(channels as i32, &mut bytes);
            bytes.extend([1, b'c', 0, 0].repeat(channels));
            let mut list = ModList::new("FML3");
            let result = list.unpack(&bytes);
            (list.mods.len(), list.channels.len(), result.is_ok())
        };
        assert_eq!(counts(MAX_ROWS, MAX_ROWS), (MAX_ROWS, MAX_ROWS, true));
        assert_eq!(counts(MAX_ROWS + 1, 0), (MAX_ROWS, 0, false));
        assert_eq!(counts(0, MAX_ROWS + 1), (0, MAX_ROWS, false));
    }

    #[test]
    fn long_lists_are_cut_and_marked() {
        let mut status = Status::default();
        status.extra.push(Extra::new("mod-loader", "FML3"));
        let mut rows = Rows::with_capacity(MOD_COLUMNS, 0);
        for i in 0..9_999 {
            rows.push([Some(&*alloc::format!("mod_number_{i}")), Some("1.0"), None]);
        }
        status.extra.push(Extra::new("mods", Value::Rows(rows)));
        let mut out = Vec::new();
        write(&status, &mut out);
        let (back, met) = read(core::str::from_utf8(&out[b",\"forgeData\":".len()..]).unwrap());
        assert_eq!(met, Vec::<&str>::new());
        assert_eq!(back.extra("mods-truncated"), Some(&Value::Bool(true)));
        let Some(Value::Rows(rows)) = back.extra("mods") else {
            panic!()
        };
        assert!((2_000..9_999).contains(&rows.len()), "{}", rows.len());
    }
}
