//! The UGP responder: sends the same bytes as the reference server, with a limit on the reply
//! (spec/ugp.md#11).
//!
//! Limits: requests have at most 64 bytes, replies at most `max-reply` bytes (default 1,024). If a
//! reply exceeds it, the whole player or team section is left out, then rules from the last. Lists
//! and counts have at most 255 entries.

use super::message::{self, ListFlags, QueryFlags, Request, TEXT_MAX};
use super::table::{self, player, player_extra, section, server, server_extra, team};
use crate::model::{Codes, Player, Status, Text, Value};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::Epoch;
use crate::wire::{Notes, cut};
use alloc::{format, string::String, vec::Vec};
use compact_str::CompactString;
use core::net::SocketAddr;

/// Longest reply in bytes. The least is enough for the server section with all texts cut. By
/// default: the smallest buffer of a public client, and no IP fragments.
pub type MaxReply = crate::protocol::MaxReply<64, 1_024>;
/// Datagrams longer than this are not requests.
const MAX_REQUEST: usize = 64;
/// Length of the longest server section and an empty rule section without texts: two bytes of
/// flags, two counts, and the number of rules.
const FRAME_BYTES: usize = 5;
/// Fields of the server section in a short reply.
const SHORT_FIELDS: u8 = server::NAME | server::ONLINE | server::MAX;
/// Longest name in a short reply, in bytes: with headers, the reply is at most 3 times as long as
/// the shortest request for the server section.
const MAX_SHORT_NAME: usize = 64;

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "max-reply",
        "Longest reply in bytes, 64 to 65507, default 1024; beyond it the player list is left out as a whole, then \
               rules from the last; amplification grows with it",
    ),
    Doc::new(
        "game",
        "The game as a number from 0 to 255 or a name such as \"gta:iii\" or \"mafia:one\"; by default the game \
               of the status, or 255 (unknown)",
    ),
    Doc::new(
        "profile",
        "\"gtac\" (default) sends the fields that the game's servers send; \"full\" sends every requested field \
               that the status has, such as scores, positions and teams",
    ),
];

/// The fields that a responder sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The fields that servers of GTA Connected send. Of players, only id and name.
    #[default]
    Gtac,
    /// Every requested field that the status has. Some layouts are assumed (spec/ugp.md#9).
    Full,
}

/// Options of the responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UgpConfig {
    /// Longest reply in bytes, 64 to 65,507.
    pub max_reply: MaxReply,
    /// Number of the game; `None` takes it from the status.
    pub game: Option<u8>,
    /// Fields to send.
    pub profile: Profile,
}

impl UgpConfig {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let game = match options.value("game") {
            None => None,
            Some(game) => Some(game_id(game).ok_or_else(|| {
                let names: Vec<&str> = table::GAMES.iter().map(|(_, name)| *name).collect();
                let problem = format!(
                    "must be a number from 0 to 255 or one of \"{}\"",
                    names.join("\", \"")
                );
                OptionError {
                    key: "game".into(),
                    problem: problem.into(),
                }
            })?),
        };
        let profile = match options.word("profile", &["gtac", "full"])? {
            Some("full") => Profile::Full,
            _ => Profile::Gtac,
        };
        Ok(Self {
            max_reply: MaxReply::read(options)?,
            game,
            profile,
        })
    }
}

fn game_id(game: &Value) -> Option<u8> {
    match game {
        Value::Int(id) => u8::try_from(*id).ok(),
        Value::Str(name) => table::game_id(name),
        _ => None,
    }
}

/// Responder for one server. Every field is encoded once; a reply copies the requested ones.
#[derive(Debug)]
pub struct UgpResponder {
    game: u8,
    max_reply: usize,
    /// Fields of the server section with their flags, in the order of the reply.
    server: Vec<(u8, Vec<u8>)>,
    /// The name field of short replies.
    short_name: Vec<u8>,
    /// `None`: the list is not sent.
    players: Option<List>,
    /// `None`: the status has no teams, or the profile does not send them.
    teams: Option<List>,
    rules: Rules,
}

/// A player or team section, by field.
#[derive(Debug)]
struct List {
    count: u8,
    /// Fields in the order of the reply. Flags of the extra player fields are shifted by 8 bits.
    columns: Vec<Column>,
}

/// One field of all entries of a list.
#[derive(Debug)]
struct Column {
    flag: u16,
    bytes: Vec<u8>,
    /// End of the field of each entry in `bytes`.
    ends: Vec<usize>,
}

/// The rule section without its count.
#[derive(Debug, Default)]
struct Rules {
    bytes: Vec<u8>,
    /// End of each rule.
    ends: Vec<usize>,
}

impl UgpResponder {
    /// Returns a responder that sends this status.
    pub fn new(status: &Status, config: &UgpConfig) -> Self {
        let status = &*status.with_codes(Codes::None);
        let max_reply = config.max_reply.bytes();
        let list = &status.players.list;
        let online = byte(status.players.count());
        let game = config
            .game
            .or_else(|| status.extra("game-id").and_then(game_id));
        let is_full = config.profile == Profile::Full;
        Self {
            game: game
                .or_else(|| table::game_id(status.game.as_deref()?))
                .unwrap_or(table::GAME_UNKNOWN),
            max_reply,
            server: server_fields(status, online, max_reply, is_full),
            short_name: string(&status.title().unwrap_or_default(), MAX_SHORT_NAME),
            // Some clients read as many players as the server section counts. So a list with a
            // different length, such as a sample, is left out.
            players: (byte(list.len() as i64) == online)
                .then(|| player_list(list, online, is_full)),
            teams: is_full.then(|| team_list(status.extra("teams")?)).flatten(),
            rules: Rules::new(status),
        }
    }

    /// Appends the reply to a query: the requested fields that can be sent and fit (spec/ugp.md#11.3).
    fn write(&self, query: &QueryFlags, out: &mut Vec<u8>) {
        let provided = self.server.iter().fold(0, |flags, (flag, _)| flags | flag);
        let fields = query.server.map(|requested| requested & provided);
        let server = || {
            self.server
                .iter()
                .filter(|(flag, _)| fields.unwrap_or(0) & flag != 0)
                .map(|(_, field)| field)
        };
        let head = message::REPLY_HEADER
            + usize::from(fields.is_some())
            + server().map(Vec::len).sum::<usize>();
        let room = self.max_reply.saturating_sub(head);

        let list = match query.list {
            Some(ListFlags::Players { fields, extra }) => {
                let requested = u16::from(fields & !player::EXTRA) | u16::from(extra) << 8;
                self.players
                    .as_ref()
                    .map(|list| (section::PLAYERS, list, requested))
            }
            Some(ListFlags::Teams { fields }) => self
                .teams
                .as_ref()
                .map(|list| (section::TEAMS, list, u16::from(fields))),
            None => None,
        };
        // The list is dropped before the first rule, so the rules next to it are complete.
        let all_rules = query.rules.map_or(0, |_| 1 + self.rules.bytes.len());
        let list = list.filter(|(_, list, requested)| list.length(*requested) + all_rules <= room);
        let rules = query.rules.map(|_| self.rules.fitting(room));

        let flag = |present: bool, flag: u8| if present { flag } else { 0 };
        let sections = flag(fields.is_some(), section::SERVER)
            | list.map_or(0, |(section, ..)| section)
            | flag(rules.is_some(), section::RULES);
        message::write_reply_header(self.game, sections, out);
        out.extend(fields);
        for field in server() {
            out.extend_from_slice(field);
        }
        if let Some((_, list, requested)) = list {
            list.write(requested, out);
        }
        if let Some((count, rules)) = rules {
            out.push(count);
            out.extend_from_slice(rules);
        }
    }
}

impl Responder for UgpResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        // Other protocols on a shared port start with two or four bytes FF too.
        if !bytes.starts_with(&message::MAGIC) {
            return Verdict::Pass;
        }
        if bytes.len() > MAX_REQUEST {
            return Verdict::Drop("oversized");
        }
        // Replies are malformed requests, so two servers cannot be made to answer each other.
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => return Verdict::Drop("malformed"),
            Ok(Request::Ping) => message::write_ping_reply(out),
            Ok(Request::Query(query)) => self.write(&query, out),
        }
        Verdict::Reply { is_verified: false }
    }

    /// Returns name and player counts, if the request includes them (spec/ugp.md#11.3).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(Request::Query(QueryFlags {
            server: Some(requested),
            ..
        })) = Request::read(request, &mut Notes::discarding())
        else {
            return false;
        };
        let fields = requested & SHORT_FIELDS;
        message::write_reply_header(self.game, section::SERVER, out);
        out.push(fields);
        for (flag, field) in &self.server {
            if fields & flag != 0 {
                let is_name = *flag == server::NAME;
                out.extend_from_slice(if is_name { &self.short_name } else { field });
            }
        }
        true
    }
}

impl List {
    fn requested(&self, flags: u16) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(move |column| flags & column.flag != 0)
    }

    /// Returns the requested fields that the list has.
    fn fields(&self, flags: u16) -> u16 {
        self.requested(flags)
            .fold(0, |fields, column| fields | column.flag)
    }

    /// Returns the length of the section in bytes.
    fn length(&self, flags: u16) -> usize {
        let flag_bytes = match (self.count, self.fields(flags) >> 8) {
            (0, _) => 0,
            (_, 0) => 1,
            _ => 2,
        };
        let fields: usize = self.requested(flags).map(|column| column.bytes.len()).sum();
        1 + flag_bytes + fields
    }

    fn write(&self, flags: u16, out: &mut Vec<u8>) {
        out.push(self.count);
        if self.count == 0 {
            return;
        }
        let [extra, fields] = self.fields(flags).to_be_bytes();
        if extra == 0 {
            out.push(fields);
        } else {
            out.extend([fields | player::EXTRA, extra]);
        }
        for index in 0..usize::from(self.count) {
            for column in self.requested(flags) {
                out.extend_from_slice(column.entry(index));
            }
        }
    }

    /// Adds a field whose encoded entries are given.
    fn add(&mut self, flag: u16, entries: impl Iterator<Item = Vec<u8>>) {
        let mut column = Column {
            flag,
            bytes: Vec::new(),
            ends: Vec::new(),
        };
        for entry in entries {
            column.bytes.extend(entry);
            column.ends.push(column.bytes.len());
        }
        self.columns.push(column);
    }
}

impl Column {
    fn entry(&self, index: usize) -> &[u8] {
        let before = index.checked_sub(1).and_then(|last| self.ends.get(last));
        let start = before.copied().unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }
}

/// Converts a count to one byte. A count out of range becomes 0 or 255.
fn byte(count: i64) -> u8 {
    count.clamp(0, i64::from(u8::MAX)) as u8
}

/// Returns a text without control characters, in one line.
fn line(text: &str) -> String {
    Text::unformatted(text).plain().replace('\n', " ")
}

/// Encodes a string field of at most `limit` bytes of text.
fn string(text: &str, limit: usize) -> Vec<u8> {
    let mut out = Vec::new();
    message::write_text(cut(&line(text), limit), &mut out);
    out
}

/// Encodes the fields of the server section (spec/ugp.md#6.1). All texts get the same share of the
/// room, so that the section always fits.
fn server_fields(
    status: &Status,
    online: u8,
    max_reply: usize,
    is_full: bool,
) -> Vec<(u8, Vec<u8>)> {
    let room = max_reply - message::REPLY_HEADER - FRAME_BYTES;
    let texts = if is_full { 6 } else { 4 };
    let limit = (room / texts - 2).min(TEXT_MAX);
    let or_empty =
        |text: &Option<CompactString>| string(text.as_deref().unwrap_or_default(), limit);
    let mut fields = alloc::vec![(server::GAME, or_empty(&status.game))];
    if is_full {
        fields.extend(extra_field(status, limit).map(|field| (server::EXTRA, field)));
    }
    fields.extend([
        (
            server::NAME,
            string(&status.title().unwrap_or_default(), limit),
        ),
        (server::MODE, or_empty(&status.mode)),
        (server::MAP, or_empty(&status.map)),
        (server::ONLINE, [online].into()),
        (server::MAX, [byte(status.players.max.unwrap_or(0))].into()),
    ]);
    fields
}

/// Encodes password flag, version and operating system (spec/ugp.md#9.2). Returns `None` if the
/// status has none of them.
fn extra_field(status: &Status, limit: usize) -> Option<Vec<u8>> {
    let version = status.version.as_deref();
    let os = match status.extra("os") {
        Some(Value::Str(os)) => Some(os.as_str()),
        _ => None,
    };
    let password = status.extra("password");
    if version.is_none() && os.is_none() && password.is_none() {
        return None;
    }
    let mut flags = 0;
    if password == Some(&Value::Bool(true)) {
        flags |= server_extra::PASSWORD;
    }
    if version.is_some() {
        flags |= server_extra::VERSION;
    }
    if os.is_some() {
        flags |= server_extra::OS;
    }
    let mut field = alloc::vec![flags];
    for text in [version, os].into_iter().flatten() {
        field.extend(string(text, limit));
    }
    Some(field)
}

/// Encoding of a number.
#[derive(Clone, Copy)]
enum Width {
    U8,
    U16,
    I32,
    U32,
    U64,
}

impl Width {
    /// Encodes a number in little-endian bytes. A number out of range becomes the nearest one in
    /// range.
    fn encode(self, number: i64) -> Vec<u8> {
        match self {
            Self::U8 => [byte(number)].into(),
            Self::U16 => (number.clamp(0, u16::MAX.into()) as u16)
                .to_le_bytes()
                .into(),
            Self::I32 => (number.clamp(i32::MIN.into(), i32::MAX.into()) as i32)
                .to_le_bytes()
                .into(),
            Self::U32 => (number.clamp(0, u32::MAX.into()) as u32)
                .to_le_bytes()
                .into(),
            Self::U64 => number.max(0).to_le_bytes().into(),
        }
    }
}

/// Numbers of a player by flag and key, up to the position.
const NUMBERS_BEFORE_POSITION: [(u16, &str, Width); 6] = [
    (player::TEAM as u16, "team", Width::U8),
    (player::SCORE as u16, "score", Width::I32),
    (player::KILLS as u16, "kills", Width::I32),
    (player::DEATHS as u16, "deaths", Width::I32),
    ((player_extra::PING as u16) << 8, "ping", Width::U16),
    ((player_extra::JOINED as u16) << 8, "joined", Width::U64),
];
/// Numbers of a player by flag and key, after the position.
const NUMBERS_AFTER_POSITION: [(u16, &str, Width); 3] = [
    ((player_extra::HEALTH as u16) << 8, "health", Width::U8),
    ((player_extra::ARMOUR as u16) << 8, "armour", Width::U8),
    ((player_extra::SKIN as u16) << 8, "skin", Width::U8),
];

fn player_value<'a>(player: &'a Player, key: &str) -> Option<&'a Value> {
    let extra = player.extra.iter().find(|extra| extra.key == key)?;
    Some(&extra.value)
}

fn player_number(player: &Player, key: &str) -> Option<i64> {
    match player_value(player, key) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    }
}

/// Reads a point. A status from JSON has it as a list of three numbers.
fn point(value: &Value) -> Option<[f64; 3]> {
    let Value::List(axes) = value else {
        return match value {
            Value::Point(axes) => Some(*axes),
            _ => None,
        };
    };
    let mut point = [0.0; 3];
    if axes.len() != point.len() {
        return None;
    }
    for (to, axis) in point.iter_mut().zip(axes) {
        *to = match axis {
            Value::Float(axis) => *axis,
            Value::Int(axis) => *axis as f64,
            _ => return None,
        };
    }
    Some(point)
}

/// Encodes the player section (spec/ugp.md#6.2). A player without an id gets its index. Fields
/// other than id and name are sent if any player has them; the others get 0.
fn player_list(players: &[Player], count: u8, is_full: bool) -> List {
    let mut list = List {
        count,
        columns: Vec::new(),
    };
    let players = || (0..count).zip(players);
    let id = |(index, player)| {
        let id = player_number(player, "id").and_then(|id| u8::try_from(id).ok());
        alloc::vec![id.unwrap_or(index)]
    };
    list.add(player::ID.into(), players().map(id));
    let name = |(_, player): (u8, &Player)| string(&player.name.plain(), TEXT_MAX);
    list.add(player::NAME.into(), players().map(name));
    if !is_full {
        return list;
    }
    let add_numbers = |list: &mut List, numbers: &[(u16, &str, Width)]| {
        for (flag, key, width) in numbers {
            if players().any(|(_, player)| player_number(player, key).is_some()) {
                let number = |(_, player)| width.encode(player_number(player, key).unwrap_or(0));
                list.add(*flag, players().map(number));
            }
        }
    };
    add_numbers(&mut list, &NUMBERS_BEFORE_POSITION);
    let position = |player| point(player_value(player, "position")?);
    if players().any(|(_, player)| position(player).is_some()) {
        let encode = |(_, player)| {
            let axes = position(player).unwrap_or_default();
            axes.iter()
                .flat_map(|axis| (*axis as f32).to_le_bytes())
                .collect()
        };
        list.add(
            u16::from(player_extra::POSITION) << 8,
            players().map(encode),
        );
    }
    add_numbers(&mut list, &NUMBERS_AFTER_POSITION);
    list
}

/// Encodes the team section (spec/ugp.md#9.3), with fields like those of players. Returns `None` if
/// the value is not a list of tables.
fn team_list(teams: &Value) -> Option<List> {
    let Value::List(teams) = teams else {
        return None;
    };
    let teams: Vec<&[_]> = teams
        .iter()
        .take(usize::from(u8::MAX))
        .map(|team| match team {
            Value::Table(team) => Some(team.as_slice()),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let mut list = List {
        count: byte(teams.len() as i64),
        columns: Vec::new(),
    };
    let value = |index: usize, key: &str| {
        let team = teams.get(index)?;
        let (_, value) = team.iter().find(|(name, _)| name == key)?;
        Some(value)
    };
    let indices = || 0..teams.len();
    if indices().any(|index| value(index, "name").is_some()) {
        let name = |index| match value(index, "name") {
            Some(Value::Str(name)) => string(name, TEXT_MAX),
            _ => string("", TEXT_MAX),
        };
        list.add(team::NAME.into(), indices().map(name));
    }
    for (flag, key, width) in [
        (team::SCORE, "score", Width::I32),
        (team::PLAYERS, "players", Width::U8),
        (team::COLOR, "color", Width::U32),
    ] {
        let number = |index| match value(index, key) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        };
        if indices().any(|index| number(index).is_some()) {
            let entry = |index| width.encode(number(index).unwrap_or(0));
            list.add(flag.into(), indices().map(entry));
        }
    }
    Some(list)
}

impl Rules {
    /// spec/ugp.md#6.4
    fn new(status: &Status) -> Self {
        let mut rules = Self::default();
        for rule in status.rules.iter().take(usize::from(u8::MAX)) {
            message::write_text(&line(&rule.key), &mut rules.bytes);
            message::write_text(&line(&rule.value), &mut rules.bytes);
            rules.ends.push(rules.bytes.len());
        }
        rules
    }

    /// Returns as many whole rules as fit into `room` bytes with their count.
    fn fitting(&self, room: usize) -> (u8, &[u8]) {
        let count = self.ends.partition_point(|&end| end < room);
        let end = count
            .checked_sub(1)
            .and_then(|last| self.ends.get(last))
            .map_or(0, |end| *end);
        (count as u8, self.bytes.get(..end).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{QueryReply, Reply};
    use super::*;
    use crate::{Extra, Rule};
    use alloc::string::ToString;

    fn status(players: usize, rules: usize) -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Test")),
            mode: Some("DM".into()),
            game: Some("gta:iii".into()),
            ..Status::default()
        };
        status.players.online = Some(players as i64);
        status.players.max = Some(32);
        let player = |i| Player::named(Text::unformatted(format!("player {i}")));
        status.players.set_list((0..players).map(player).collect());
        status.rules = (0..rules)
            .map(|i| Rule {
                key: format!("rule {i}").into(),
                value: "v".repeat(30).into(),
            })
            .collect();
        status
    }

    fn receive(responder: &UgpResponder, bytes: &[u8]) -> (Verdict, Vec<u8>) {
        let mut out = Vec::new();
        let verdict = responder.answer(
            "192.0.2.7:50000".parse().unwrap(),
            Epoch(0),
            bytes,
            &mut out,
        );
        assert_eq!(matches!(verdict, Verdict::Reply { .. }), !out.is_empty());
        (verdict, out)
    }

    fn query(responder: &UgpResponder, flags: &[u8]) -> Vec<u8> {
        let request = [b"\xFF\xFFUGP\0\x01\x01", flags].concat();
        let (verdict, out) = receive(responder, &request);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        out
    }

    /// The bytes are leaked because an answer borrows from them.
    fn given(bytes: &[u8]) -> QueryReply<'static> {
        let mut notes = Notes::default();
        match Reply::read(bytes.to_vec().leak(), &mut notes) {
            Ok(Reply::Query(given)) if notes.met().count() == 0 => given,
            other => panic!("{other:?} {notes:?}"),
        }
    }

    #[test]
    fn worked_answers() {
        let mut status = status(0, 0);
        status.players.online = None;
        let player = |name| Player::named(Text::unformatted(name));
        status.players.set_list([player("Al"), player("Bo")].into());
        status.rules = [Rule {
            key: "Owner".into(),
            value: "Me".into(),
        }]
        .into();
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        assert_eq!(
            query(&responder, b"\x09\x6C\x07"),
            b"\xFF\xFFUGP\0\x01\x81\x01\x09\x6C\x05Test\0\x03DM\0\x02\x20\x01\x06Owner\0\x03Me\0"
        );
        assert_eq!(
            query(&responder, b"\x03\x6C\x7F\x3D"),
            b"\xFF\xFFUGP\0\x01\x81\x01\x03\x6C\x05Test\0\x03DM\0\x02\x20\x02\x03\0\x03Al\0\x01\x03Bo\0"
        );
        assert_eq!(query(&responder, b"\0"), b"\xFF\xFFUGP\0\x01\x81\x01\0");
        assert_eq!(
            receive(&responder, b"\xFF\xFFUGP\0\x01\0").1,
            b"\xFF\xFFUGP\0\x01\x80"
        );
        // Players that have only a name, only an id, or none of the known fields.
        assert_eq!(
            &query(&responder, b"\x02\x02")[9..],
            b"\x02\x02\x02\x03Al\0\x03Bo\0"
        );
        assert_eq!(&query(&responder, b"\x02\x01")[9..], b"\x02\x02\x01\0\x01");
        assert_eq!(&query(&responder, b"\x02\x3C")[9..], b"\x02\x02\0");
    }

    #[test]
    fn the_gtac_profile_never_sends_disputed_fields() {
        let mut status = status(2, 1);
        status.version = Some("1.0".into());
        status.extra.push(Extra::new("password", true));
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        for flags in 0..=u8::MAX {
            for fields in 0..=u8::MAX {
                let request = [&[flags], &[fields; 5][..]].concat();
                let answer = query(&responder, &request);
                let given = given(&answer);
                assert_eq!(given.sections & !(flags & 0x0B), 0);
                assert_eq!(given.server.is_some(), flags & section::SERVER != 0);
                if given.server.is_some() {
                    assert_eq!(answer[10], fields & 0x7D);
                }
            }
        }
    }

    #[test]
    fn only_requests_are_answered() {
        let responder = UgpResponder::new(&status(3, 3), &UgpConfig::default());
        let answer = query(&responder, b"\x03\x7D\x7F\x3D");
        assert_eq!(receive(&responder, &answer).0, Verdict::Drop("oversized"));
        assert_eq!(
            receive(&responder, &answer[..60]).0,
            Verdict::Drop("malformed"),
            "two servers never talk"
        );
        let pong = receive(&responder, b"\xFF\xFFUGP\0\x01\0").1;
        assert_eq!(receive(&responder, &pong).0, Verdict::Drop("malformed"));

        let mut request = b"\xFF\xFFUGP\0\x01\x01\x0B\x7D\x7F\x3D\x07".to_vec();
        let full = request.len();
        request.resize(100, 0xAA);
        for length in 0..=request.len() {
            let expected = match length {
                0..5 => Verdict::Pass,
                _ if length < full => Verdict::Drop("malformed"),
                _ if length <= MAX_REQUEST => Verdict::Reply { is_verified: false },
                _ => Verdict::Drop("oversized"),
            };
            assert_eq!(
                receive(&responder, &request[..length]).0,
                expected,
                "{length}"
            );
        }
        for other in [
            &b"\xFE\xFD\x09\x01\x02\x03\x04"[..],
            b"\xFFx",
            b"\xFF\xFF\xFF\xFFTSource Engine Query\0",
            b"\xFF\xFF\xFFTSource",
            b"\xFF\xFFgetInfo\0",
            b"game traffic",
        ] {
            assert_eq!(receive(&responder, other).0, Verdict::Pass);
        }
        assert_eq!(
            receive(&responder, b"\xFF\xFFUGP\0\x02\0").0,
            Verdict::Drop("malformed")
        );
    }

    #[test]
    fn drops_the_list_then_rules_above_the_cap() {
        let everything = b"\x0B\x7D\x03\x07";
        let free = UgpConfig {
            max_reply: MaxReply::new(MaxReply::LARGEST),
            ..UgpConfig::default()
        };
        let status = status(20, 20);
        let length = query(&UgpResponder::new(&status, &free), everything).len();
        let at = |max_reply| {
            let responder = UgpResponder::new(
                &status,
                &UgpConfig {
                    max_reply: MaxReply::new(max_reply),
                    ..UgpConfig::default()
                },
            );
            let answer = query(&responder, everything);
            assert!(answer.len() <= max_reply, "{} > {max_reply}", answer.len());
            let given = given(&answer);
            (
                given.players.map_or(0, |list| list.len()),
                given.rules.unwrap().len(),
            )
        };
        assert_eq!(at(length), (20, 20));
        assert_eq!(at(length - 1), (0, 20));
        let mut rules = 20;
        for max_reply in (MaxReply::LEAST..length).rev() {
            let (players, now) = at(max_reply);
            assert_eq!(players, 0);
            assert!(now == rules || now + 1 == rules, "one rule at a time");
            rules = now;
        }
        assert_eq!(rules, 0);
    }

    #[test]
    fn short_replies_have_name_and_counts_and_at_most_3_times_the_request() {
        let mut status = status(3, 3);
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        let short = |responder: &UgpResponder, request: &[u8]| {
            let mut out = Vec::new();
            responder.short_reply(request, &mut out).then_some(out)
        };
        let request = b"\xFF\xFFUGP\0\x01\x01\x0B\x7D\x7F\x3D\x07";
        assert_eq!(
            short(&responder, request).unwrap(),
            b"\xFF\xFFUGP\0\x01\x81\x01\x01\x64\x05Test\0\x03\x20"
        );
        status.name = Some(Text::unformatted("\u{E9}".repeat(1000)));
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        for flags in 0..=u8::MAX {
            for fields in 0..=u8::MAX {
                for length in 10..=14 {
                    let mut request = [b"\xFF\xFFUGP\0\x01\x01", &[flags, fields][..]].concat();
                    request.resize(length, fields);
                    let Some(reply) = short(&responder, &request) else {
                        assert!(flags & section::SERVER == 0 || length < 14);
                        continue;
                    };
                    assert!(
                        reply.len() + 28 <= (request.len() + 28) * 3,
                        "{}",
                        reply.len()
                    );
                    given(&reply);
                }
            }
        }
        assert_eq!(short(&responder, b"\xFF\xFFUGP\0\x01\0"), None, "a ping");
        assert_eq!(
            short(&responder, b"\xFF\xFFUGP\0\x01\x01\x08\x07"),
            None,
            "rules only"
        );
        assert_eq!(short(&responder, b"game traffic"), None);
    }

    #[test]
    fn no_request_draws_more_than_the_cap() {
        let mut status = status(300, 300);
        let long = "\u{E9}".repeat(1000);
        status.name = Some(Text::unformatted(long.clone()));
        status.game = Some(long.clone().into());
        status.mode = Some(long.clone().into());
        status.map = Some(long.into());
        for max_reply in [MaxReply::LEAST, 100, 1024, 1400, 20_000, MaxReply::LARGEST] {
            let responder = UgpResponder::new(
                &status,
                &UgpConfig {
                    max_reply: MaxReply::new(max_reply),
                    ..UgpConfig::default()
                },
            );
            for flags in 0..=0x0F {
                let answer = query(&responder, &[flags, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
                assert!(answer.len() <= max_reply, "{} > {max_reply}", answer.len());
                let given = given(&answer);
                assert_eq!(given.server.is_some(), flags & section::SERVER != 0);
                assert_eq!(given.rules.is_some(), flags & section::RULES != 0);
                let counted = given.server.and_then(|server| server.online);
                assert!(counted.is_none_or(|online| online == 255));
                assert!(given.players.is_none_or(|list| list.len() == 255));
            }
        }
        let figure = super::super::INFO.amplification;
        assert_eq!((figure.request, figure.reply), (10, MaxReply::DEFAULT));
    }

    #[test]
    fn a_list_that_is_not_all_players_is_left_out() {
        let mut status = status(3, 0);
        for (online, listed) in [
            (Some(3), true),
            (None, true),
            (Some(50), false),
            (Some(2), false),
            (Some(-1), false),
        ] {
            status.players.online = online;
            let given = given(&query(
                &UgpResponder::new(&status, &UgpConfig::default()),
                b"\x03\x20\x03",
            ));
            let count = online.unwrap_or(3).max(0) as u8;
            assert_eq!(given.server.unwrap().online, Some(count));
            assert_eq!(given.players.map(|list| list.len()), listed.then_some(3));
        }
        status.players = crate::model::Players::default();
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        assert_eq!(&query(&responder, b"\x03\x20\x03")[9..], b"\x03\x20\0\0");
    }

    #[test]
    fn text_travels_in_one_line_and_cut_between_characters() {
        let mut status = status(0, 0);
        status.name = None;
        status.motd = Some(Text::legacy("\n\u{A7}aHel\0lo\x1b\nworld"));
        status.mode = Some("a\r\nb\0".into());
        status.rules = [Rule {
            key: "k\0".into(),
            value: "\u{E9}".repeat(200).into(),
        }]
        .into();
        status.players.online = None;
        let mut player = Player::named(Text::unformatted("A\tl\0"));
        player.extra = [Extra::new("id", 200)].into();
        status.players.list = [
            player,
            Player::named(Text::unformatted("")),
            Player::default(),
        ]
        .into();
        let given = given(&query(
            &UgpResponder::new(&status, &UgpConfig::default()),
            b"\x0B\x0D\x03\x07",
        ));
        let server = given.server.unwrap();
        assert_eq!(server.name.unwrap().text().raw(), "Hello");
        assert_eq!(server.mode.unwrap().text().raw(), "a b");
        assert_eq!(
            given.rules.unwrap(),
            [Rule {
                key: "k".into(),
                value: "\u{E9}".repeat(127).into()
            }]
        );
        let players = given.players.unwrap();
        let shown: Vec<_> = players
            .iter()
            .map(|player| (player.extra[0].value.to_string(), player.name.raw()))
            .collect();
        assert_eq!(
            shown,
            [("200".into(), "Al"), ("1".into(), ""), ("2".into(), "")]
        );
    }

    #[test]
    fn positions_may_be_lists_of_numbers() {
        let list = |axes: &[Value]| Value::List(axes.to_vec());
        let axes = [Value::Float(1.5), Value::Int(-2), Value::Float(10.0)];
        assert_eq!(point(&list(&axes)), Some([1.5, -2.0, 10.0]));
        assert_eq!(point(&Value::Point([1.0; 3])), Some([1.0; 3]));
        assert_eq!(point(&list(&axes[..2])), None);
        assert_eq!(point(&list(&["x".into(), 1.into(), 2.into()])), None);
    }

    #[test]
    fn options_are_checked() {
        let read = |options: Options| UgpConfig::read(&options).map_err(|error| error.to_string());
        let none = Options::default;
        assert_eq!(read(none()), Ok(UgpConfig::default()));
        assert_eq!(
            read(none().with("game", "mafia:one")).map(|config| config.game),
            Ok(Some(10))
        );
        assert_eq!(
            read(none().with("game", 99)).map(|config| config.game),
            Ok(Some(99))
        );
        assert!(
            read(none().with("game", 256))
                .unwrap_err()
                .contains("0 to 255")
        );
        assert!(
            read(none().with("game", "doom"))
                .unwrap_err()
                .contains("\"gta:iii\", \"gta:vc\"")
        );
    }

    #[test]
    fn the_game_is_the_options_the_status_or_unknown() {
        let game = |status: &Status, game| {
            let responder = UgpResponder::new(
                status,
                &UgpConfig {
                    game,
                    ..UgpConfig::default()
                },
            );
            given(&query(&responder, b"\0")).game
        };
        let mut status = Status::default();
        assert_eq!(game(&status, None), 255);
        status.game = Some("Grand Theft Auto: Connected".into());
        assert_eq!(game(&status, None), 255);
        status.game = Some("gta:sa".into());
        assert_eq!(game(&status, None), 3);
        status.extra.push(Extra::new("game-id", 6));
        assert_eq!(game(&status, None), 6);
        assert_eq!(game(&status, Some(99)), 99);
    }
}
