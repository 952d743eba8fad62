//! The JSON of a status → [`Status`] (spec/minecraft-status.md#5). `server.rs` writes it.
//!
//! A field with a value of the wrong type counts as absent, as in the game. Limits: those of
//! [`json`](crate::wire::json) and [`component`], 1,000 players, an icon of
//! 64 KiB, 1,000 values in other fields.

use super::component::{self, note_utf8};
use super::deviation::*;
use super::message::{self, ID_STATUS};
use super::mods::ModList;
use crate::model::{Extra, Icon, Player, Status, Text, Value, uuid_from_text};
use crate::protocol::Depth;
use crate::wire::json::{Item, Json, Kind};
use crate::wire::{Deviation, Error, Notes, Reader, counted};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Maximum number of players in a sample.
const MAX_PLAYERS: usize = 1_000;
/// Name of players who do not want to be shown.
const ANONYMOUS: &str = "Anonymous Player";
/// Start of a PNG image in base64.
const BARE_PNG: &str = "iVBORw0KGgo";
/// Maximum number of values in fields that this protocol does not define.
const MAX_OTHER_VALUES: usize = 1_000;
/// Maximum depth of these values.
const MAX_OTHER_DEPTH: usize = 8;

/// A packet with JSON.
#[derive(Debug)]
pub enum Reply {
    /// Status of a Minecraft server.
    Status(Box<Status>),
    /// A text that explains why there is no status.
    Disconnect(Text),
}

/// Parses a status reply of which all bytes are here.
///
/// # Errors
///
/// Names the field that is truncated, too long or invalid, with its offset.
pub fn read(r: &mut Reader<'_, '_>, depth: Depth, players: bool) -> Result<Reply, Error> {
    let start = r.at();
    let length = message::varint(r, 3, "packet length")?;
    let end = r.at() + length as usize;
    let id_at = r.at();
    let id = message::varint(r, 5, "packet id")?;
    if id != ID_STATUS {
        return Err(message::no_status(id, id_at));
    }
    let length_at = r.at();
    let length = message::varint(r, 5, "JSON length")?;
    let length = message::json_length(length, length_at)?;
    let json_start = r.at();
    r.take(length, "JSON")?;
    let range = json_start..r.at();
    r.note(json_start, "JSON", || counted(length, "byte"));
    let bytes = r.whole();
    let mut reply = match depth {
        // A ping has no interest in the text.
        Depth::Ping => Reply::Status(Box::default()),
        _ => {
            let json = Json::parse_lenient(bytes, range, "JSON")?;
            if let Some(at) = json.lenient_at() {
                r.notes().deviation(&LENIENT_JSON, at);
            }
            let parser = Parser {
                notes: r.notes(),
                status: Box::default(),
                is_full: depth == Depth::Full,
                has_players: players,
            };
            parser.root(json.root())?
        }
    };
    match end.checked_sub(r.at()) {
        None => r.notes().deviation(&LENGTH_WRONG, start),
        Some(0) => {}
        Some(rest) => {
            let at = r.at();
            let deviation = if rest <= r.remaining() {
                &TRAILING_JSON
            } else {
                &LENGTH_WRONG
            };
            let rest = rest.min(r.remaining());
            if rest > 0 {
                let bytes = r.raw(rest, "rest of the packet")?;
                if let (Reply::Status(status), Depth::Full) = (&mut reply, depth) {
                    add_modpack(bytes, status);
                }
            }
            r.notes().deviation(deviation, at);
        }
    }
    r.trailing(&TRAILING_BYTES);
    Ok(reply)
}

/// Adds the modpack in a second text of the packet, as old versions of the mod send it. Anything
/// else in its place is ignored.
fn add_modpack(bytes: &[u8], status: &mut Status) {
    let mut notes = Notes::discarding();
    let mut r = Reader::new(bytes, &mut notes);
    let length = message::varint(&mut r, 5, "modpack length");
    let is_whole = length.is_ok_and(|length| usize::try_from(length) == Ok(r.remaining()));
    let json = Json::parse(bytes, r.at()..bytes.len(), "modpack");
    if let Ok(json) = json
        && is_whole
        && json.root().kind() == Kind::Object
        && status.extra("modpack").is_none()
        && let Some(value) = convert(json.root(), &mut 0, 0)
    {
        status.extra.push(Extra::new("modpack", value));
    }
}

struct Parser<'n> {
    notes: &'n mut Notes,
    status: Box<Status>,
    /// Whether to keep the icon, the players, the mods and other fields too.
    is_full: bool,
    has_players: bool,
}

impl Parser<'_> {
    fn root(mut self, root: Item<'_, '_>) -> Result<Reply, Error> {
        if root.kind() != Kind::Object || is_component(root) {
            return self.disconnect(root);
        }
        let mut has_version = false;
        let mut has_players = false;
        let mut has_description = false;
        let mut other = Vec::new();
        let mut values = 0;
        let mut keys = Keys::of(root);
        for (key, value) in root.entries() {
            let name = key.text().unwrap_or_default();
            let is_duplicate = keys.is_repeated(key);
            if is_duplicate {
                self.notes.deviation(&DUPLICATE_KEYS, key.at());
            }
            let is_null = value.kind() == Kind::Null;
            match &*name {
                "version" if !is_null => has_version |= self.version(value),
                "players" if !is_null => has_players |= self.players(value),
                "description" if !is_null => {
                    has_description = true;
                    self.description(value)?;
                }
                "version" | "players" | "description" => {}
                "favicon" => self.icon(value),
                "enforcesSecureChat" => self.switch("enforces-secure-chat", value),
                "previewsChat" => self.switch("previews-chat", value),
                "preventsChatReports" => self.switch("prevents-chat-reports", value),
                "isModded" => self.switch("is-modded", value),
                "modinfo" if self.is_full => {
                    self.notes.field(value.range(), "modinfo", || size(value));
                    if let Some(mods) = ModList::read_modinfo(value, self.notes) {
                        mods.add_to(&mut self.status);
                    }
                }
                "forgeData" if self.is_full => {
                    self.notes.field(value.range(), "forgeData", || size(value));
                    if let Some(mods) = ModList::read_forge_data(value, self.notes) {
                        mods.add_to(&mut self.status);
                    }
                }
                "betterStatus" | "modpackData" if self.is_full => {
                    self.notes.field(value.range(), "modpack", || size(value));
                    if let Some(value) = convert(value, &mut values, 0) {
                        self.set("modpack", value);
                    }
                }
                _ if self.is_full => {
                    self.notes.field(value.range(), "other", || {
                        format!("{name}, {}", size(value))
                    });
                    if let Some(value) = convert(value, &mut values, 0) {
                        if is_duplicate {
                            other.retain(|(own, _): &(CompactString, Value)| *own != name);
                        }
                        other.push((CompactString::from(name), value));
                    }
                }
                _ => {}
            }
        }
        for (is_there, deviation) in [
            (has_version, &NO_VERSION),
            (has_players, &NO_PLAYERS),
            (has_description, &NO_DESCRIPTION),
        ] {
            if !is_there {
                self.notes.deviation(deviation, root.at());
            }
        }
        if !other.is_empty() {
            self.set("other", Value::Table(other));
        }
        Ok(Reply::Status(self.status))
    }

    fn disconnect(self, root: Item<'_, '_>) -> Result<Reply, Error> {
        let text = component::read(root, "disconnect", self.notes)?;
        self.notes
            .field(root.range(), "reason", || format!("{:?}", text.plain()));
        Ok(Reply::Disconnect(text))
    }

    /// Sets an extra, which replaces an earlier one of a duplicate key.
    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.status.extra.retain(|extra| extra.key != key);
        self.status.extra.push(Extra::new(key, value));
    }

    fn wrong(&mut self, deviation: &'static Deviation, item: Item<'_, '_>) {
        self.notes.deviation(deviation, item.at());
    }

    fn version(&mut self, item: Item<'_, '_>) -> bool {
        match item.kind() {
            Kind::Object => {}
            Kind::Text => {
                self.wrong(&VERSION_TEXT, item);
                self.version_name(item);
                return true;
            }
            _ => {
                self.wrong(&WRONG_TYPE, item);
                return false;
            }
        }
        let mut keys = Keys::of(item);
        for (key, value) in item.entries() {
            let name = key.text().unwrap_or_default();
            if keys.is_repeated(key) {
                self.wrong(&DUPLICATE_KEYS, key);
            }
            match &*name {
                "name" => self.version_name(value),
                "protocol" => {
                    if let Some(number) = self.number(value, "version.protocol") {
                        self.set("protocol", number);
                    }
                }
                _ => {}
            }
        }
        true
    }

    fn version_name(&mut self, item: Item<'_, '_>) {
        let text = self.text(item, "version.name");
        self.status.version = text
            .map(|text| Text::legacy(&*text).into_short())
            .filter(|text| !text.is_empty());
    }

    fn players(&mut self, item: Item<'_, '_>) -> bool {
        if item.kind() != Kind::Object {
            self.wrong(&WRONG_TYPE, item);
            return false;
        }
        let mut keys = Keys::of(item);
        for (key, value) in item.entries() {
            let name = key.text().unwrap_or_default();
            if keys.is_repeated(key) {
                self.wrong(&DUPLICATE_KEYS, key);
            }
            match &*name {
                "online" => self.status.players.online = self.number(value, "players.online"),
                "max" => self.status.players.max = self.number(value, "players.max"),
                "sample" if self.is_full && self.has_players => self.sample(value),
                _ => {}
            }
        }
        true
    }

    fn sample(&mut self, item: Item<'_, '_>) {
        if !matches!(item.kind(), Kind::List | Kind::Null) {
            self.wrong(&WRONG_TYPE, item);
        }
        let mut list = Vec::with_capacity(item.items().take(MAX_PLAYERS).count());
        for (i, entry) in item.items().take(MAX_PLAYERS).enumerate() {
            self.notes.group("sample", i);
            list.extend(self.player(entry));
        }
        self.notes.ungroup();
        if !list.is_empty() {
            self.status.players.set_sample(list);
        }
    }

    fn player(&mut self, item: Item<'_, '_>) -> Option<Player> {
        let mut name = None;
        let mut id = None;
        for (key, value) in item.entries() {
            match key.bytes() {
                b"name" => name = self.text(value, "name"),
                b"id" if value.kind() != Kind::Null => id = Some(value),
                _ => {}
            }
        }
        if item.kind() == Kind::Text {
            self.wrong(&WRONG_TYPE, item);
            name = self.text(item, "name");
        }
        // Owners leave the name out for an empty line.
        let name = name.or_else(|| id.is_some().then(Cow::default))?;
        let mut player = Player::named(Text::legacy(&*name));
        if let Some(id) = id {
            self.uuid(id, &mut player);
        }
        if !is_player_name(&name) && name != ANONYMOUS {
            player.extra.push(Extra::new("text", true));
        }
        Some(player)
    }

    /// Reads a UUID: with hyphens, or as BungeeCord without, or as four integers of 32 bits.
    fn uuid(&mut self, item: Item<'_, '_>, player: &mut Player) {
        let text = self.text_or_list(item);
        let uuid = match item.kind() {
            Kind::List => {
                let mut parts = item.items().map(|part| part.number()?.parse::<i32>().ok());
                let mut bytes = [0; 16];
                let (words, _) = bytes.as_chunks_mut::<4>();
                let is_whole = words.iter_mut().all(|word| match parts.next().flatten() {
                    Some(part) => {
                        *word = part.to_be_bytes();
                        true
                    }
                    None => false,
                });
                (is_whole && parts.next().is_none()).then_some(bytes)
            }
            _ => uuid_from_text(&text),
        };
        let has_hyphens = text.len() == 36 && item.kind() == Kind::Text;
        if uuid.is_none() || !has_hyphens {
            self.wrong(&UUID_ODD, item);
        }
        match uuid {
            // The id of players who do not want to be shown.
            Some(uuid) if uuid == [0; 16] => {}
            Some(uuid) => player.uuid = Some(uuid),
            None => player.extra.push(Extra::new("id", String::from(text))),
        }
    }

    fn text_or_list<'a>(&mut self, item: Item<'_, 'a>) -> Cow<'a, str> {
        let text = match item.kind() {
            Kind::Text => item.text().unwrap_or_default(),
            _ => String::from_utf8_lossy(item.bytes()),
        };
        self.notes.field(item.range(), "id", || format!("{text:?}"));
        text
    }

    fn description(&mut self, item: Item<'_, '_>) -> Result<(), Error> {
        if item.kind() == Kind::List {
            self.wrong(&DESCRIPTION_ARRAY, item);
        }
        let text = component::read(item, "description", self.notes)?;
        self.notes.field(item.range(), "description", || {
            format!("{:?}", text.plain())
        });
        self.status.motd = Some(text);
        Ok(())
    }

    fn icon(&mut self, item: Item<'_, '_>) {
        self.notes.field(item.range(), "favicon", || {
            counted(item.bytes().len(), "byte")
        });
        if !self.is_full {
            return;
        }
        self.status.icon = None;
        let text = match item.kind() {
            Kind::Text => item.text().unwrap_or_default(),
            _ => Cow::default(),
        };
        let mut icon = Icon::from_data_uri(&text);
        // A text that would be written again has no white space.
        let is_usual = icon.as_ref().is_ok_and(|icon| *icon.data_uri() == *text);
        if !is_usual && text.bytes().any(|byte| byte.is_ascii_whitespace()) {
            self.wrong(&FAVICON_LF, item);
            icon = Icon::from_data_uri(&text.replace(|c: char| c.is_ascii_whitespace(), ""));
        }
        if icon.is_err() && text.starts_with(BARE_PNG) {
            self.wrong(&FAVICON_BARE, item);
            icon = Icon::from_data_uri(&format!("data:image/png;base64,{text}"));
        }
        match icon {
            Ok(icon) => self.status.icon = Some(icon),
            Err(_) => self.wrong(&FAVICON_OTHER, item),
        }
    }

    fn switch(&mut self, key: &'static str, item: Item<'_, '_>) {
        self.notes.field(item.range(), key, || {
            String::from_utf8_lossy(item.bytes()).into_owned()
        });
        match item.kind() {
            Kind::Bool(value) => self.set(key, value),
            Kind::Null => {}
            _ => self.wrong(&WRONG_TYPE, item),
        }
    }

    /// Returns a text, also one that is a number.
    fn text<'a>(&mut self, item: Item<'_, 'a>, field: &'static str) -> Option<Cow<'a, str>> {
        let text = match item.kind() {
            Kind::Text => {
                note_utf8(item, self.notes);
                item.text()
            }
            Kind::Number => item.number().map(Cow::Borrowed),
            Kind::Null => None,
            _ => {
                self.wrong(&WRONG_TYPE, item);
                None
            }
        };
        self.notes.field(item.range(), field, || {
            format!("{:?}", text.as_deref().unwrap_or_default())
        });
        text
    }

    /// Returns a whole number, also one with a fraction or in a text.
    fn number(&mut self, item: Item<'_, '_>, field: &'static str) -> Option<i64> {
        self.notes.field(item.range(), field, || {
            String::from_utf8_lossy(item.bytes()).into_owned()
        });
        let (written, deviation) = match item.kind() {
            Kind::Number => (Cow::Borrowed(item.number()?), &FLOAT),
            Kind::Text => {
                self.wrong(&INT_AS_STRING, item);
                (item.text()?, &WRONG_TYPE)
            }
            Kind::Null => return None,
            _ => {
                self.wrong(&WRONG_TYPE, item);
                return None;
            }
        };
        if let Ok(number) = written.trim().parse() {
            if i32::try_from(number).is_err() {
                self.wrong(&OUTSIDE_32_BITS, item);
            }
            return Some(number);
        }
        self.wrong(deviation, item);
        // Conversion saturates.
        let number = written.trim().parse::<f64>().ok()?;
        if !number.is_finite() {
            return None;
        }
        let number = number as i64;
        if i32::try_from(number).is_err() {
            self.wrong(&OUTSIDE_32_BITS, item);
        }
        Some(number)
    }
}

/// Finds the keys that an object has twice.
struct Keys<'j, 'a> {
    object: Item<'j, 'a>,
    /// A bit for each key so far, by its length, first and last byte. Most keys differ in them.
    seen: u64,
}

impl<'j, 'a> Keys<'j, 'a> {
    fn of(object: Item<'j, 'a>) -> Self {
        Self { object, seen: 0 }
    }

    /// Returns whether the object has this key before it too. To be called with each key. Objects of
    /// a status have few keys; only the first 64 are compared, so that the time stays linear.
    fn is_repeated(&mut self, key: Item<'_, '_>) -> bool {
        let bytes = key.bytes();
        let [first, last] = [bytes.first(), bytes.last()]
            .map(|byte| usize::from(byte.copied().unwrap_or_default()));
        let bit = 1_u64 << ((bytes.len() * 16 + first * 5 + last) % 64);
        let is_new = self.seen & bit == 0;
        self.seen |= bit;
        if is_new {
            return false;
        }
        let mut earlier = self
            .object
            .entries()
            .take(64)
            .take_while(|(other, _)| other.at() < key.at());
        earlier.any(|(other, _)| other.bytes() == bytes)
    }
}

/// Returns whether a name can be that of a player: letters and digits of any script, `_` and `-`,
/// with a prefix that proxies give to players of Bedrock.
fn is_player_name(name: &str) -> bool {
    /// 16 characters, and a prefix.
    const MAX_CHARACTERS: usize = 20;
    // Almost all names, without a look at the characters.
    #[expect(clippy::indexing_slicing, reason = "runs in the compiler")]
    static USUAL: [bool; 256] = {
        let mut usual = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            usual[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
            byte += 1;
        }
        usual
    };
    let is_usual = |byte: u8| USUAL.get(usize::from(byte)) == Some(&true);
    if (1..=MAX_CHARACTERS).contains(&name.len()) && name.bytes().all(is_usual) {
        return true;
    }
    let bare = name.trim_start_matches(['.', '*', '+', '~', '!', '-']);
    let length = name.chars().count();
    !bare.is_empty()
        && length <= MAX_CHARACTERS
        && length - bare.chars().count() <= 1
        && bare
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// Returns whether an object is a component instead of a status.
fn is_component(root: Item<'_, '_>) -> bool {
    let has = |keys: [&[u8]; 3]| root.entries().any(|(key, _)| keys.contains(&key.bytes()));
    !has([b"version", b"players", b"description"]) && has([b"text", b"translate", b"extra"])
}

/// Describes a value that is not explained in detail.
fn size(item: Item<'_, '_>) -> String {
    counted(item.range().len(), "byte")
}

/// Converts a field that this protocol does not define. Returns `None` for null and beyond the
/// limits.
fn convert(item: Item<'_, '_>, values: &mut usize, depth: usize) -> Option<Value> {
    *values += 1;
    if *values > MAX_OTHER_VALUES || depth > MAX_OTHER_DEPTH {
        return None;
    }
    Some(match item.kind() {
        Kind::Null => return None,
        Kind::Bool(value) => Value::Bool(value),
        Kind::Number => {
            let written = item.number()?;
            match written.parse() {
                Ok(number) => Value::Int(number),
                Err(_) => {
                    let number: f64 = written.parse().ok()?;
                    if !number.is_finite() {
                        return None;
                    }
                    Value::Float(number)
                }
            }
        }
        Kind::Text => Value::from(String::from(item.text()?)),
        Kind::List => Value::List(
            item.items()
                .take(MAX_OTHER_VALUES)
                .filter_map(|item| convert(item, values, depth + 1))
                .collect(),
        ),
        Kind::Object => Value::Table(
            item.entries()
                .take(MAX_OTHER_VALUES)
                .filter_map(|(key, value)| {
                    let key = key.text()?;
                    Some((key.into(), convert(value, values, depth + 1)?))
                })
                .collect(),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn parse(json: &str) -> (Status, Vec<&'static str>) {
        let mut bytes = Vec::new();
        let mut body = Vec::from([0]);
        message::write_string(json, &mut body);
        message::write_packet(&body, &mut bytes);
        let mut notes = Notes::default();
        let reply = read(&mut Reader::new(&bytes, &mut notes), Depth::Full, true);
        let Ok(Reply::Status(status)) = reply else {
            panic!("{reply:?}")
        };
        let absent = ["no-version", "no-players", "no-description"];
        let met = notes.met().map(|met| met.name);
        (*status, met.filter(|name| !absent.contains(name)).collect())
    }

    fn other(json: &str) -> String {
        let (status, _) = parse(json);
        status
            .extra("other")
            .map(Value::to_string)
            .unwrap_or_default()
    }

    #[test]
    fn the_last_value_of_a_duplicate_key_counts() {
        assert_eq!(other(r#"{"a":1,"b":2,"a":3}"#), other(r#"{"b":2,"a":3}"#));
        let icon = "data:image/png;base64,iVBORw0KGgo=";
        let (status, met) = parse(&format!(r#"{{"favicon":{icon:?},"favicon":null}}"#));
        assert_eq!(status.icon, None);
        assert_eq!(met, ["duplicate-keys", "favicon-other"]);
        let (status, _) = parse(&format!(r#"{{"favicon":null,"favicon":{icon:?}}}"#));
        assert!(status.icon.is_some());
        let (status, met) = parse(
            r#"{"isModded":true,"isModded":false,"version":{"name":"a","name":"b"},"players":{"max":1,"max":2}}"#,
        );
        assert_eq!(status.extra("is-modded"), Some(&Value::Bool(false)));
        assert_eq!(
            (status.version.as_deref(), status.players.max),
            (Some("b"), Some(2))
        );
        assert_eq!(met, ["duplicate-keys"]);
        // Keys with escapes are other bytes.
        assert_eq!(parse(r#"{"a":1,"b":2}"#).1, [""; 0]);
    }

    #[test]
    fn fields_without_a_meaning_are_limited() {
        let list = |count: usize| format!(r#"{{"a":[{}0]}}"#, "0,".repeat(count - 1));
        let length = |json: &str| match parse(json).0.extra("other") {
            Some(Value::Table(entries)) => match &entries[0].1 {
                Value::List(list) => list.len(),
                other => panic!("{other:?}"),
            },
            _ => 0,
        };
        // The list is a value too.
        assert_eq!(length(&list(MAX_OTHER_VALUES - 1)), MAX_OTHER_VALUES - 1);
        assert_eq!(length(&list(MAX_OTHER_VALUES)), MAX_OTHER_VALUES - 1);
        assert_eq!(length(&list(MAX_OTHER_VALUES + 1)), MAX_OTHER_VALUES - 1);
        let nested = |depth: usize| {
            other(&format!(
                r#"{{"a":{}7{}}}"#,
                "[".repeat(depth),
                "]".repeat(depth)
            ))
        };
        // Neither JSON nor the status has infinity.
        assert_eq!(other(r#"{"a":1e999,"b":2}"#), other(r#"{"b":2}"#));
        assert!(nested(MAX_OTHER_DEPTH).contains('7'));
        assert!(!nested(MAX_OTHER_DEPTH + 1).contains('7'));
        assert_eq!(
            other(r#"{"a":null,"b":1.5,"c":"x","d":true,"e":-1}"#),
            other(r#"{"b":1.5,"c":"x","d":true,"e":-1}"#)
        );
    }

    #[test]
    fn ids_of_players_have_several_forms() {
        let player = |id: &str| {
            let json = format!(r#"{{"players":{{"sample":[{{"name":"a","id":{id}}}]}}}}"#);
            let (status, met) = parse(&json);
            let player = &status.players.list[0];
            (player.uuid, player.extra.len(), met)
        };
        let bytes = *b"\x01\x02\x03\x04\xFF\xFF\xFF\xFF\x7F\xFF\xFF\xFF\x80\0\0\0";
        let hyphens = r#""01020304-ffff-ffff-7fff-ffff80000000""#;
        assert_eq!(player(hyphens), (Some(bytes), 0, Vec::new()));
        let odd = |uuid, extras| (uuid, extras, Vec::from(["uuid-odd"]));
        let plain = hyphens.replace('-', "");
        assert_eq!(player(&plain), odd(Some(bytes), 0));
        assert_eq!(
            player("[16909060,-1,2147483647,-2147483648]"),
            odd(Some(bytes), 0)
        );
        for other in [
            "[1,2,3]",
            "[1,2,3,4,5]",
            "[1,2,3,2147483648]",
            "7",
            r#""x""#,
        ] {
            assert_eq!(player(other), odd(None, 1), "{other}");
        }
        assert_eq!(player("null"), (None, 0, Vec::new()));
    }

    #[test]
    fn other_depths_skip_what_only_a_full_query_shows() {
        let json = r#"{"favicon":7,"players":{"online":1,"sample":[{"name":"a"}]},"a":1,"modinfo":7,"betterStatus":{"a":1},"forgeData":{"mods":[{"modId":"a"}]}}"#;
        let mut bytes = Vec::new();
        let mut body = Vec::from([0]);
        message::write_string(json, &mut body);
        message::write_packet(&body, &mut bytes);
        let mut notes = Notes::default();
        let reply = read(&mut Reader::new(&bytes, &mut notes), Depth::Basic, true);
        let Ok(Reply::Status(status)) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(status.players.online, Some(1));
        assert_eq!((status.players.list.len(), status.extra.len()), (0, 0));
        let met: Vec<_> = notes.met().map(|met| met.name).collect();
        assert_eq!(met, ["no-version", "no-description"]);
        assert_eq!(parse(r#"{"players":{"sample":{}}}"#).1, ["wrong-type"]);
        assert_eq!(parse(r#"{"players":{"sample":null}}"#).1, [""; 0]);
    }

    #[test]
    fn names_of_players_are_recognized() {
        for name in [
            "Alex",
            ".Bedrock",
            "*Bedrock",
            "a_b-c",
            "\u{4E2D}\u{6587}",
            &"x".repeat(20),
            "_",
        ] {
            assert!(is_player_name(name), "{name:?}");
        }
        for name in [
            "",
            ".",
            "..Alex",
            "Alex!",
            "two words",
            "\u{A7}6Gold",
            &"x".repeat(21),
        ] {
            assert!(!is_player_name(name), "{name:?}");
        }
    }

    #[test]
    fn counts_without_a_finite_value_are_absent() {
        let (status, met) = parse(r#"{"players":{"max":1e999,"online":"2e3"}}"#);
        assert_eq!(
            (status.players.max, status.players.online),
            (None, Some(2_000))
        );
        assert_eq!(met, ["float", "int-as-string", "wrong-type"]);
    }

    #[test]
    fn a_second_text_is_the_modpack_if_it_is_whole_and_the_only_one() {
        let modpack = |json: &str, length: u8| {
            let mut body = Vec::from([0]);
            message::write_string(json, &mut body);
            body.push(length);
            body.extend(br#"{"b":2}"#);
            let mut bytes = Vec::new();
            message::write_packet(&body, &mut bytes);
            let mut notes = Notes::default();
            let reply = read(&mut Reader::new(&bytes, &mut notes), Depth::Full, true);
            let Ok(Reply::Status(status)) = reply else {
                panic!("{reply:?}")
            };
            let extras = status.extra.iter();
            let found = extras.filter(|extra| extra.key == "modpack");
            found
                .map(|extra| extra.value.to_string())
                .collect::<Vec<_>>()
        };
        let [own] = &*modpack(r#"{"betterStatus":{"a":1}}"#, 7) else {
            panic!()
        };
        assert_eq!(modpack("{}", 7).len(), 1);
        assert_ne!(modpack("{}", 7), [own.as_str()]);
        assert_eq!(modpack("{}", 6), [""; 0]);
    }

    /// spec/minecraft-status.md#5.2
    #[test]
    fn entries_without_a_name_are_texts() {
        let json =
            r#"{"players":{"sample":[{"id":"x"},{"name":null,"id":"y"},{"name":null},{},null,7]}}"#;
        let (status, _) = parse(json);
        let list: Vec<_> = status
            .players
            .list
            .iter()
            .map(|player| (player.name.raw(), player.extra.len()))
            .collect();
        assert_eq!(list, [("", 2), ("", 2)]);
    }

    #[test]
    fn the_sample_is_limited() {
        let sample = |count: usize| {
            let entry = r#"{"name":"a"},"#.repeat(count);
            let json = format!(
                r#"{{"players":{{"sample":[{}]}}}}"#,
                entry.trim_end_matches(',')
            );
            parse(&json).0.players.list.len()
        };
        assert_eq!(sample(MAX_PLAYERS), MAX_PLAYERS);
        assert_eq!(sample(MAX_PLAYERS + 1), MAX_PLAYERS);
    }

    #[test]
    fn components_without_a_status_are_refusals() {
        let is_refusal = |json: &str| {
            let mut bytes = Vec::new();
            let mut body = Vec::from([0]);
            message::write_string(json, &mut body);
            message::write_packet(&body, &mut bytes);
            let mut notes = Notes::default();
            let reply = read(&mut Reader::new(&bytes, &mut notes), Depth::Basic, true);
            matches!(reply, Ok(Reply::Disconnect(_)))
        };
        for json in [
            r#""x""#,
            "[]",
            "7",
            r#"{"text":"x"}"#,
            r#"{"translate":"x"}"#,
            r#"{"extra":[]}"#,
        ] {
            assert!(is_refusal(json), "{json}");
        }
        for json in [
            "{}",
            r#"{"version":{},"text":"x"}"#,
            r#"{"players":{},"text":"x"}"#,
            r#"{"description":"","extra":[]}"#,
            r#"{"a":1}"#,
        ] {
            assert!(!is_refusal(json), "{json}");
        }
    }
}
