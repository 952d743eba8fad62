//! The status of a server: one [`Status`] for every protocol.
//!
//! Clients produce it and responders consume it; a caching proxy is a responder fed by a client.
//! Fields that at least three protocols have are members; others are [extras](Status::extra),
//! documented in the protocol's [`Info::fields`](crate::Info).
//!
//! In: fields of replies. Out: one status for all protocols.
//!
//! May import: `crate::wire`.

pub mod encoding;
mod icon;
mod members;
mod text;
mod value;

pub use encoding::Charset;
pub use icon::{Icon, IconError};
pub use members::{Member, PLAYER_MEMBERS, STATUS_MEMBERS, Unit};
pub use text::{
    Carets, Codes, Run, Style, Text, TextBuilder, TextColor, colored, is_control, printable,
    without_controls,
};
#[cfg(feature = "serde")]
pub(crate) use value::read_extras;
pub use value::{Extra, Rows, Value};

use crate::wire::{Deviation, UNREADABLE_MESSAGE};
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use compact_str::CompactString;

/// The status that a server reports.
///
/// Texts of up to 24 bytes are not allocated: a [`CompactString`] otherwise behaves like a
/// `String`.
///
/// Every field is optional, because protocols and servers differ. Numbers are as received,
/// including negative ones.
///
/// With the feature `serde`, a status that was written as JSON reads back to an equal one, with
/// `Deserialize`. Two statuses are equal if they show the same, whatever
/// [encoding](Self::is_utf8) the server used. Members that this version does not know are ignored,
/// except extras, which are kept.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Status {
    /// Name of the server.
    pub name: Option<Text>,
    /// Message of the day.
    pub motd: Option<Text>,
    /// Game, as the server reports it.
    pub game: Option<CompactString>,
    /// Game mode, as the server names it.
    pub mode: Option<CompactString>,
    /// Name of the map or world.
    pub map: Option<CompactString>,
    /// Version of game or server.
    pub version: Option<CompactString>,
    /// Player counts and list.
    pub players: Players,
    /// Settings that the owner publishes, in the order of the reply.
    pub rules: Vec<Rule>,
    /// Address in the configuration of the server, often a private one.
    pub address: Option<Address>,
    /// Whether players need a password to join.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "password", skip_serializing_if = "Option::is_none")
    )]
    pub has_password: Option<bool>,
    /// Whether the server uses the anti-cheat software of its platform, such as VAC.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "anti_cheat", skip_serializing_if = "Option::is_none")
    )]
    pub has_anti_cheat: Option<bool>,
    /// Icon of the server. Serialized as a `data:` URI.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub icon: Option<Icon>,
    /// Fields of this protocol only, in the order of the reply.
    #[cfg_attr(feature = "serde", serde(serialize_with = "value::extras"))]
    pub extra: Vec<Extra>,
    /// Names of the refused endpoints. Not serialized, because an answer has them outside of its
    /// status.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub refused: &'static [&'static str],
    /// Accepted deviations from the protocol, by name, in the order found.
    pub deviations: Vec<&'static Deviation>,
    /// Whether the server sent characters outside ASCII as UTF-8, in a protocol that does not
    /// define the encoding. A responder then uses UTF-8 too.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub is_utf8: bool,
}

impl PartialEq for Status {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            name,
            motd,
            game,
            mode,
            map,
            version,
            players,
            rules,
            address,
            has_password,
            has_anti_cheat,
            icon,
            extra,
            refused,
            deviations,
            is_utf8: _,
        } = self;
        (name, motd, game, mode, map, version)
            == (
                &other.name,
                &other.motd,
                &other.game,
                &other.mode,
                &other.map,
                &other.version,
            )
            && (players, rules, address) == (&other.players, &other.rules, &other.address)
            && (has_password, has_anti_cheat) == (&other.has_password, &other.has_anti_cheat)
            && (icon, extra, refused) == (&other.icon, &other.extra, &other.refused)
            && deviations == &other.deviations
    }
}

/// Requests for lists of players, as the extra `unanswered` names them.
const LIST_REQUESTS: [&str; 3] = ["players", "tables", "cars"];
/// Deviations for a list of players that was requested and is missing.
const LIST_DEVIATIONS: [&str; 2] = ["no-list", "no-players"];

impl Status {
    /// Returns one line that identifies the server: its name, or else the first line of its MOTD
    /// with visible characters.
    pub fn title(&self) -> Option<String> {
        let name = self.name.as_ref().map(Text::to_plain);
        if let Some(title) = Self::title_of(name.as_deref(), None) {
            return Some(title.into());
        }
        let motd = self.motd.as_ref().map(Text::to_plain);
        Self::title_of(None, motd.as_deref()).map(Into::into)
    }

    /// Returns the [title](Self::title) of a server with this name and message of the day, both
    /// without codes.
    pub fn title_of<'a>(name: Option<&'a str>, motd: Option<&'a str>) -> Option<&'a str> {
        name.filter(|name| !name.trim().is_empty()).or_else(|| {
            let mut lines = motd?.lines().map(str::trim);
            lines.find(|line| !line.is_empty())
        })
    }

    /// Returns the extra with this key.
    pub fn extra(&self, key: &str) -> Option<&Value> {
        self.extra
            .iter()
            .find(|extra| extra.key == key)
            .map(|extra| &extra.value)
    }

    /// Adds an extra, if there is a value.
    pub fn add_extra(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        self.extra.extend(value.map(|value| Extra::new(key, value)));
    }

    /// Returns the codes of its texts: those of the first text that has any. Texts that are no
    /// [`Text`], such as the map and rules, have the same.
    fn codes(&self) -> Codes {
        let texts = self.name.iter().chain(&self.motd);
        let mut texts = texts.chain(self.players.list.iter().map(|player| &player.name));
        let known = texts.find(|text| text.codes() != Codes::None);
        known.map_or(Codes::None, Text::codes)
    }

    /// Returns the status for a responder whose texts have these codes, so that no codes of another
    /// game reach its clients: see [`Text::with_codes`]. Texts with these codes are unchanged, and
    /// so are those without any.
    pub fn with_codes(&self, codes: Codes) -> Cow<'_, Self> {
        let own = self.codes();
        let texts = self.name.iter().chain(&self.motd);
        let mut texts = texts.chain(self.players.list.iter().map(|player| &player.name));
        if texts.all(|text| [codes, Codes::None].contains(&text.codes())) {
            return Cow::Borrowed(self);
        }
        let mut status = self.clone();
        let names = status
            .players
            .list
            .iter_mut()
            .map(|player| &mut player.name);
        let texts = status.name.iter_mut().chain(&mut status.motd).chain(names);
        for text in texts {
            if let Cow::Owned(converted) = text.with_codes(codes) {
                *text = converted;
            }
        }
        status.visit_strings(&mut |text| {
            if let Cow::Owned(converted) = own.parse(text.clone()).with_codes(codes) {
                *text = converted.raw().into();
            }
        });
        Cow::Owned(status)
    }

    /// Parses its texts anew with these codes, if that does not change their plain forms. For a
    /// status that was read from JSON, which has the plain forms but not the kind of codes: the
    /// protocol knows them, see [`Info::codes`](crate::Info::codes).
    pub fn assume_codes(&mut self, codes: Codes) {
        if codes == Codes::None {
            return;
        }
        let names = self.players.list.iter_mut().map(|player| &mut player.name);
        for text in self.name.iter_mut().chain(&mut self.motd).chain(names) {
            let assumed = codes.parse(text.raw());
            if assumed.plain() == text.plain() {
                *text = assumed;
            }
        }
    }

    /// Calls `visit` for every text that is no [`Text`]: game, mode, map, version, rules, teams and
    /// extras.
    pub(crate) fn visit_strings(&mut self, visit: &mut impl FnMut(&mut CompactString)) {
        let facts = [
            &mut self.game,
            &mut self.mode,
            &mut self.map,
            &mut self.version,
        ];
        facts.into_iter().flatten().for_each(&mut *visit);
        for Rule { key, value } in &mut self.rules {
            visit(key);
            visit(value);
        }
        for extra in &mut self.extra {
            extra.value.visit_strings(visit);
        }
        for player in &mut self.players.list {
            player.team.iter_mut().for_each(&mut *visit);
            for extra in &mut player.extra {
                extra.value.visit_strings(visit);
            }
        }
    }

    /// Returns whether the extra `unanswered` names the rules: the server may have some.
    pub(crate) fn lacks_rules(&self) -> bool {
        let unanswered = self.extra("unanswered").map(ToString::to_string);
        self.rules.is_empty() && unanswered.is_some_and(|names| names.contains("rules"))
    }

    /// Adds a name to the extra `unanswered`: a request, or a part of the reply, that did not arrive
    /// in time. A lost datagram has the same effect as a server that does not reply, so this is no
    /// deviation.
    pub(crate) fn add_unanswered(&mut self, name: &'static str) {
        let known = self.extra.iter_mut().find(|it| it.key == "unanswered");
        match known.map(|extra| &mut extra.value) {
            Some(Value::Str(names)) => {
                names.push_str(", ");
                names.push_str(name);
            }
            _ => self.extra.push(Extra::new("unanswered", name)),
        }
    }

    /// Records that a later message could not be read. If the list was requested and is missing, it
    /// was in that message.
    pub fn mark_unreadable(&mut self) {
        self.add_deviations([&UNREADABLE_MESSAGE]);
        if self.players.roster != Roster::Absent || self.lacks_list() {
            self.players.mark_unreadable();
        }
    }

    /// Returns whether the extra `unanswered` or a deviation names a list of players that was
    /// requested and is missing.
    fn lacks_list(&self) -> bool {
        let unanswered = self.extra("unanswered").map(ToString::to_string);
        let has_name = |name: &&str| unanswered.iter().any(|names| names.contains(name));
        let is_named = |met: &&Deviation| LIST_DEVIATIONS.contains(&met.name);
        LIST_REQUESTS.iter().any(has_name) || self.deviations.iter().any(is_named)
    }

    /// Adds the deviations that are not in the list yet.
    pub fn add_deviations(&mut self, met: impl IntoIterator<Item = &'static Deviation>) {
        for deviation in met {
            if !self.deviations.contains(&deviation) {
                self.deviations.push(deviation);
            }
        }
    }
}

/// Player counts and the player list.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Players {
    /// Players online as reported; can differ from the length of the list.
    pub online: Option<i64>,
    /// Maximum number of players.
    pub max: Option<i64>,
    /// Number of bots, which `online` may include or not.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub bots: Option<i64>,
    /// How complete `list` is.
    pub roster: Roster,
    /// The players, in the order of the reply.
    pub list: Vec<Player>,
}

/// How complete a player list is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Roster {
    /// No list was requested, or the server sends none.
    #[default]
    Absent,
    /// The server requires an auth token for the list.
    Refused,
    /// The length of the list equals the reported number of players.
    Whole,
    /// The protocol lists only some players, chosen by the server. Owners also put other texts into
    /// such a list.
    Sample,
    /// The length of the list differs from the reported number of players, or the list could not be
    /// read. Also what JSON of a later version says and this one does not know.
    #[cfg_attr(feature = "serde", serde(other))]
    Partial,
}

impl Players {
    /// Returns the number of players: as reported, or else the length of the list.
    pub fn count(&self) -> i64 {
        self.online
            .unwrap_or(i64::try_from(self.list.len()).unwrap_or(i64::MAX))
    }

    /// Returns whether the list has as many players as the server reports. `false` if it reports no
    /// number.
    pub fn has_all_players(&self) -> bool {
        let listed = i64::try_from(self.list.len()).unwrap_or(i64::MAX);
        self.online.is_some_and(|online| online <= listed)
    }

    /// Returns whether `list` may be sent as the list of all players that are known. Otherwise there
    /// are players, and the source has never had a list of them: an empty one would be wrong.
    pub fn has_list(&self) -> bool {
        let is_withheld = matches!(self.roster, Roster::Absent | Roster::Refused);
        !is_withheld || !self.list.is_empty() || self.count() <= 0
    }

    /// Sets the list, and `roster` by comparing its length with `online`.
    pub fn set_list(&mut self, list: Vec<Player>) {
        let whole = self
            .online
            .is_none_or(|online| i64::try_from(list.len()) == Ok(online));
        self.roster = if whole {
            Roster::Whole
        } else {
            Roster::Partial
        };
        self.list = list;
    }

    /// Records that the list, or its rest, could not be read: it is incomplete, unless it has as many
    /// players as the server reports.
    pub fn mark_unreadable(&mut self) {
        let is_list = matches!(self.roster, Roster::Whole | Roster::Absent);
        if is_list && !self.has_all_players() {
            self.roster = Roster::Partial;
        }
    }

    /// Sets the list as a sample.
    pub fn set_sample(&mut self, list: Vec<Player>) {
        self.roster = Roster::Sample;
        self.list = list;
    }
}

/// Player of a status.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Player {
    /// Name shown in the game.
    pub name: Text,
    /// UUID of the account, in network byte order.
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            serialize_with = "value::uuid",
            deserialize_with = "value::read_uuid",
            skip_serializing_if = "Option::is_none"
        )
    )]
    pub uuid: Option<[u8; 16]>,
    /// Points, kills or another score, as received.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub score: Option<i64>,
    /// Time since the player joined, in seconds. NaN if the server sends no number.
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            deserialize_with = "value::read_time",
            skip_serializing_if = "Option::is_none"
        )
    )]
    pub time_s: Option<f32>,
    /// Name or number of the player's team.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub team: Option<CompactString>,
    /// Latency between player and server, as measured by the server, in milliseconds.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub latency_ms: Option<i32>,
    /// Fields of this protocol only.
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            serialize_with = "value::extras",
            deserialize_with = "value::read_extras",
            skip_serializing_if = "Vec::is_empty"
        )
    )]
    pub extra: Vec<Extra>,
}

/// Times that are no numbers are equal.
impl PartialEq for Player {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            name,
            uuid,
            score,
            time_s,
            team,
            latency_ms,
            extra,
        } = self;
        let is_same_time = match (time_s, other.time_s) {
            (Some(a), Some(b)) => value::is_same_number((*a).into(), b.into()),
            (a, b) => a.is_none() && b.is_none(),
        };
        is_same_time
            && (name, uuid, score) == (&other.name, &other.uuid, &other.score)
            && (team, latency_ms, extra) == (&other.team, &other.latency_ms, &other.extra)
    }
}

impl Player {
    /// Returns a player with only a name.
    pub fn named(name: Text) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }
}

/// A setting that the owner publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rule {
    /// Name of the setting.
    pub key: CompactString,
    /// Value of the setting.
    pub value: CompactString,
}

/// An address in the configuration of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Address {
    /// IP address or name.
    pub host: Option<CompactString>,
    /// Port of the game, not necessarily that of the query.
    pub port: Option<u16>,
}

/// Length of a UUID as text, with hyphens.
const UUID_BYTES: usize = 36;
/// Offsets of its pairs of digits.
const UUID_PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
/// Offsets of its hyphens.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Formats a UUID in lower case, with hyphens.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    uuid_digits(uuid).into_iter().map(char::from).collect()
}

/// Returns the bytes of [`uuid_text`].
pub fn uuid_digits(uuid: &[u8; 16]) -> [u8; UUID_BYTES] {
    #[expect(clippy::indexing_slicing, reason = "runs in the compiler")]
    static PAIRS: [[u8; 2]; 256] = {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut pairs = [[0; 2]; 256];
        let mut byte = 0;
        while byte < 256 {
            pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
            byte += 1;
        }
        pairs
    };
    let mut text = [b'-'; UUID_BYTES];
    for (byte, at) in uuid.iter().zip(&UUID_PAIRS) {
        let pair = PAIRS.get(usize::from(*byte));
        if let (Some(place), Some(pair)) = (text.get_mut(*at..*at + 2), pair) {
            place.copy_from_slice(pair);
        }
    }
    text
}

/// Parses a UUID from 32 hexadecimal digits, in upper or lower case, with or without hyphens.
pub fn uuid_from_text(text: &str) -> Option<[u8; 16]> {
    let mut uuid = [0; 16];
    // Digits have values below 16, other bytes one above.
    let mut all = 0;
    if let Ok(usual) = <&[u8; UUID_BYTES]>::try_from(text.as_bytes())
        && UUID_HYPHENS.iter().all(|at| usual.get(*at) == Some(&b'-'))
    {
        for (byte, at) in uuid.iter_mut().zip(&UUID_PAIRS) {
            if let Some([high, low]) = usual.get(*at..*at + 2) {
                let [high, low] = [*high, *low].map(digit_value);
                all |= high | low;
                *byte = high << 4 | low;
            }
        }
        return (all < 16).then_some(uuid);
    }
    let mut digits = text.bytes().filter(|byte| *byte != b'-');
    for byte in &mut uuid {
        let [high, low] = [digits.next()?, digits.next()?].map(digit_value);
        all |= high | low;
        *byte = high << 4 | low;
    }
    (all < 16 && digits.next().is_none()).then_some(uuid)
}

/// Returns the value of a hexadecimal digit, or 255 for anything else.
fn digit_value(digit: u8) -> u8 {
    #[expect(clippy::indexing_slicing, reason = "runs in the compiler")]
    static VALUES: [u8; 256] = {
        let mut values = [u8::MAX; 256];
        let mut digit = 0;
        while digit < 16 {
            values[b"0123456789abcdef"[digit] as usize] = digit as u8;
            values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
            digit += 1;
        }
        values
    };
    let value = VALUES.get(usize::from(digit));
    value.copied().unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_the_name_or_the_first_readable_line() {
        let mut status = Status {
            motd: Some(Text::legacy("\n \u{A7}aHello\nworld")),
            ..Status::default()
        };
        assert_eq!(status.title().as_deref(), Some("Hello"));
        status.name = Some(Text::unformatted("Named"));
        assert_eq!(status.title().as_deref(), Some("Named"));
    }

    #[test]
    fn uuids_print_in_network_order() {
        let uuid: [u8; 16] = core::array::from_fn(|i| i as u8);
        assert_eq!(uuid_text(&uuid), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        for text in [
            "00010203-0405-0607-0809-0A0b0c0d0e0f",
            "000102030405060708090a0b0c0d0e0f",
            "-0-00102-030405060708090a0b0c0d0e0f-",
            "000-10203-0405-0607-0809-0a0b0c0d0e0f",
        ] {
            assert_eq!(uuid_from_text(text), Some(uuid), "{text}");
        }
        for wrong in [
            "",
            "-",
            "+00102030405060708090a0b0c0d0e0f",
            "000102030405060708090a0b0c0d0e0",
            "000102030405060708090a0b0c0d0e0f0",
            "00010203-0405-0607-0809-0a0b0c0d0e0g",
            "00010203-0405-0607-0809-0a0b0c0d0e-0",
            "00010203-0405-0607-0809--a0b0c0d0e0f",
            "\u{E9}0102030405060708090a0b0c0d0e0f",
        ] {
            assert_eq!(uuid_from_text(wrong), None, "{wrong}");
        }
    }
}
