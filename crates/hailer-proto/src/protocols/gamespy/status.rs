//! Pairs and tables to a status.

use super::MAX_FIELD_NAME;
use super::deviation::{DUPLICATE_KEY, ODD_NUMBER, STALE_PLAYERS};
use crate::model::{Address, Carets, Codes, Extra, Player, Rule, Status, Text, Value};
use crate::wire::{Notes, by_content, decimal, filled, whole_number};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Largest accepted number of a row.
pub const MAX_ROW: u32 = 1_023;

/// Fields of one row, in the order of the reply.
pub(crate) type Fields<'a> = Vec<Field<'a>>;

/// Field of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Name and kind.
    pub column: Column<'a>,
    /// Value as received.
    pub value: &'a [u8],
}

/// Name of a field and what it holds, which a table determines once for all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Name without suffix: `score`, not `score_`.
    pub name: &'a [u8],
    kind: PlayerField,
}

impl<'a> Column<'a> {
    /// Creates a column with this name.
    pub(crate) fn new(name: &'a [u8]) -> Self {
        Self {
            name,
            kind: PlayerField::of(name),
        }
    }
}

/// A reply of any GameSpy protocol, borrowed from its datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Server keys and their values, in the order of the reply.
    pub pairs: Vec<(&'a [u8], &'a [u8])>,
    /// Players by row number or slot.
    pub players: BTreeMap<u32, Fields<'a>>,
    /// Teams by row number.
    pub teams: BTreeMap<u32, Fields<'a>>,
    /// Whether surplus players have left, as in Battlefield 1942.
    pub has_stale_players: bool,
    /// Whether row numbers are slots of players, which the status keeps.
    pub has_slots: bool,
}

/// A member of the status that a server key sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Name,
    Game,
    Version,
    Map,
    Mode,
    Online,
    Max,
    Port,
    Host,
    Password,
}

const MEMBERS: &[(&str, Member)] = &[
    ("hostname", Member::Name),
    ("gamename", Member::Game),
    ("gamever", Member::Version),
    ("version", Member::Version),
    ("gameversion", Member::Version),
    ("mapname", Member::Map),
    ("gametype", Member::Mode),
    ("gamestyle", Member::Mode),
    ("numplayers", Member::Online),
    ("maxplayers", Member::Max),
    ("hostport", Member::Port),
    ("hostip", Member::Host),
    ("password", Member::Password),
];

/// First letters of the games with caret codes: Medal of Honor.
const CARET_GAMES: &str = "moh";

/// Returns the color codes in the names of a game (spec/gamespy1.md#3.5).
pub(crate) fn codes(game: Option<&str>) -> Codes {
    let start = game.and_then(|game| game.get(..CARET_GAMES.len()));
    if start.is_some_and(|start| start.eq_ignore_ascii_case(CARET_GAMES)) {
        Codes::Carets(Carets::Digit)
    } else {
        Codes::Unreal
    }
}

fn formatted(codes: Codes, bytes: &[u8]) -> Text {
    let (text, is_latin1) = by_content(bytes);
    codes.parse(text).from_single_byte(is_latin1)
}

/// Kind of a field in a player's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlayerField {
    /// The name, with its rank: a row may have several, of which the lowest rank counts.
    Name(u8),
    /// The score, with its rank.
    Score(u8),
    Team,
    Ping,
    /// Whether the player is a bot.
    Bot,
    Other,
}

/// Length of the longest field that [`PlayerField::of`] knows.
const LONGEST_FIELD: usize = 10;

impl PlayerField {
    /// Returns what a field holds. Case does not matter.
    fn of(field: &[u8]) -> Self {
        let usual = Self::of_lower_case(field);
        let has_upper_case = || field.iter().any(u8::is_ascii_uppercase);
        if usual != Self::Other || field.len() > LONGEST_FIELD || !has_upper_case() {
            return usual;
        }
        let mut lower = [0; LONGEST_FIELD];
        let lower = lower.get_mut(..field.len()).unwrap_or_default();
        lower.copy_from_slice(field);
        lower.make_ascii_lowercase();
        Self::of_lower_case(lower)
    }

    #[inline]
    fn of_lower_case(field: &[u8]) -> Self {
        match field {
            b"player" => Self::Name(0),
            b"playername" => Self::Name(1),
            b"name" => Self::Name(2),
            b"score" => Self::Score(0),
            b"frags" => Self::Score(1),
            b"kills" => Self::Score(2),
            b"team" => Self::Team,
            b"ping" => Self::Ping,
            b"aibot" => Self::Bot,
            _ => Self::Other,
        }
    }
}

/// Keys of a row that hold the name of a team.
const TEAM_NAMES: [&[u8]; 2] = [b"teamname", b"team"];
/// Team of players without a team in Unreal Tournament.
pub(super) const NO_TEAM: &str = "255";

/// Games that number the teams of players from 1, and the team table from 0.
const ONE_BASED_GAMES: [&str; 4] = ["bfield1942", "bfvietnam", "battlefield2", "stella"];

fn member(key: &[u8]) -> Option<Member> {
    MEMBERS
        .iter()
        .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(key))
        .map(|(_, member)| *member)
}

/// Returns whether a server key sets a member of the status.
pub(crate) fn is_member_key(key: &[u8]) -> bool {
    member(key).is_some()
}

/// Returns the number of the first team as players of this game have it.
pub(crate) fn first_team(game: Option<&str>) -> u32 {
    u32::from(game.is_some_and(|game| {
        ONE_BASED_GAMES
            .iter()
            .any(|known| known.eq_ignore_ascii_case(game))
    }))
}

/// Returns whether a field of a row is the name of a player.
pub(crate) fn is_name_field(field: &[u8]) -> bool {
    matches!(PlayerField::of(field), PlayerField::Name(_))
}

/// Returns whether a field has one of these names. Case does not matter.
#[inline]
pub(crate) fn is_any(field: &[u8], names: &[&[u8]]) -> bool {
    // Most servers use the usual case, which is faster to compare.
    let is = |name: &&[u8]| *name == field || name.eq_ignore_ascii_case(field);
    names.iter().any(is)
}

impl<'a> Reply<'a> {
    /// Sets a field of a row. A later value of the same field replaces the earlier one.
    pub(crate) fn set(
        rows: &mut BTreeMap<u32, Fields<'a>>,
        row: u32,
        field: &'a [u8],
        value: &'a [u8],
    ) {
        Self::set_field(rows.entry(row).or_default(), Column::new(field), value);
    }

    /// Sets a field of these fields. A later value of the same field replaces the earlier one.
    pub(crate) fn set_field(fields: &mut Fields<'a>, column: Column<'a>, value: &'a [u8]) {
        match fields
            .iter_mut()
            .find(|field| field.column.name == column.name)
        {
            Some(field) => field.value = value,
            None => fields.push(Field { column, value }),
        }
    }

    /// Converts the reply to a status, without deviations. With `has_list`, the reply
    /// carries a player list.
    pub(crate) fn status(self, has_list: bool, notes: &mut Notes) -> Box<Status> {
        let mut status = self.members(notes);
        status.is_utf8 = self.add_lists(&mut status, has_list, notes) == Some(true);
        status
    }

    /// Converts the server keys to a status, without deviations.
    pub(crate) fn members(&self, notes: &mut Notes) -> Box<Status> {
        let mut status = Box::<Status>::default();
        let mut address = Address::default();
        let mut seen: Vec<(Member, &[u8], &[u8])> = Vec::with_capacity(MEMBERS.len());
        status.rules.reserve(self.pairs.len());
        for (place, &(key, value)) in self.pairs.iter().enumerate() {
            let member = member(key);
            let earlier = match member {
                Some(member) => seen
                    .iter()
                    .find(|(own, ..)| *own == member)
                    .map(|(_, key, value)| (*key, *value)),
                None => earlier_value(&self.pairs, place).map(|value| (key, value)),
            };
            match (member, earlier) {
                // Servers that join several groups repeat some keys.
                (_, Some((_, earlier))) if earlier == value => continue,
                (_, Some((earlier, _))) => {
                    // An alias is another key.
                    if earlier.eq_ignore_ascii_case(key) {
                        notes.deviation(&DUPLICATE_KEY, 0);
                    }
                    status.rules.push(rule(key, value));
                }
                (Some(member), None) => {
                    seen.push((member, key, value));
                    set_member(&mut status, &mut address, member, (key, value), notes);
                }
                (None, None) => status.rules.push(rule(key, value)),
            }
        }
        status.address = (address != Address::default()).then_some(address);
        let codes = codes(status.game.as_deref());
        status.name = status.name.map(|name| formatted(codes, &name.bytes()));
        status
    }

    /// Adds the teams, and with `has_list` the players, to the status of the server keys.
    /// Returns whether all texts outside ASCII are valid UTF-8, or `None` if there are none.
    pub(crate) fn add_lists(
        mut self,
        status: &mut Status,
        has_list: bool,
        notes: &mut Notes,
    ) -> Option<bool> {
        let codes = codes(status.game.as_deref());
        let teams = self.team_list();
        if has_list {
            self.drop_stale_players(status, notes);
            status.players.bots = self.bots();
            let list = self.player_list(first_team(status.game.as_deref()), &teams, codes);
            // Some servers send no count.
            let is_counted = status.players.online.is_some() || list.is_empty();
            status.players.online = (!is_counted)
                .then_some(list.len() as i64)
                .or(status.players.online);
            status.players.set_list(list);
        }
        if !teams.is_empty() {
            let teams = teams.into_iter().map(|(_, team)| team).collect();
            status.extra.push(Extra::new("teams", Value::List(teams)));
        }
        self.is_utf8()
    }

    /// Returns whether all texts outside ASCII are valid UTF-8. `None`: there are none.
    pub(crate) fn is_utf8(&self) -> Option<bool> {
        let rows = self.players.values().chain(self.teams.values()).flatten();
        let pairs = self.pairs.iter().map(|(_, value)| *value);
        let mut texts = pairs
            .chain(rows.map(|field| field.value))
            .filter(|value| !value.is_ascii())
            .peekable();
        texts.peek()?;
        Some(texts.all(|value| core::str::from_utf8(value).is_ok()))
    }

    /// Returns the teams with their row numbers.
    fn team_list(&self) -> Vec<(u32, Value)> {
        let team = |fields: &Fields<'a>| {
            let field = |&Field { column, value }: &Field<'_>| {
                if is_any(column.name, &TEAM_NAMES) {
                    return ("name".into(), Value::Str(text(value)));
                }
                (text(column.name), number_or_text(value))
            };
            let named = fields.iter().filter(|field| !is_blank(field.value));
            Value::Table(named.map(field).collect())
        };
        let teams = self.teams.iter().map(|(row, fields)| (*row, team(fields)));
        teams
            .filter(|(_, team)| !matches!(team, Value::Table(fields) if fields.is_empty()))
            .collect()
    }

    /// Removes rows that are no players, and the surplus ones of servers that keep stale players.
    fn drop_stale_players(&mut self, status: &mut Status, notes: &mut Notes) {
        self.players.retain(|_, fields| name(fields).is_some());
        let online = status.players.online.and_then(|n| usize::try_from(n).ok());
        // A player may have no name yet, and a table may have unused rows. The count decides.
        if online.is_none_or(|online| online < self.players.len()) {
            self.players
                .retain(|_, fields| name(fields).is_some_and(|name| !name.is_empty()));
        }
        let Some(online) =
            online.filter(|online| self.has_stale_players && *online < self.players.len())
        else {
            return;
        };
        notes.deviation(&STALE_PLAYERS, 0);
        let stale = self
            .players
            .values()
            .skip(online)
            .filter_map(|row| name(row));
        let stale = stale.map(|name| Value::Str(by_content(name).0.into()));
        status
            .extra
            .push(Extra::new("stale-players", Value::List(stale.collect())));
        let first_stale = self.players.keys().nth(online).copied();
        if let Some(first_stale) = first_stale {
            self.players.split_off(&first_stale);
        }
    }

    /// Returns the number of bots, if the rows have a field for it.
    fn bots(&self) -> Option<i64> {
        let flags = self.players.values().flatten();
        let mut flags = flags
            .filter(|field| field.column.kind == PlayerField::Bot)
            .peekable();
        flags.peek()?;
        Some(flags.filter(|field| field.value == b"1").count() as i64)
    }

    fn player_list(&self, first_team: u32, teams: &[(u32, Value)], codes: Codes) -> Vec<Player> {
        let rows = self.players.iter().enumerate();
        rows.map(|(position, (&row, fields))| {
            let mut player = player(fields, first_team, teams, codes);
            if self.has_slots && position as u64 != u64::from(row) {
                player
                    .extra
                    .insert(0, Extra::new("slot", Value::Int(row.into())));
            }
            player
        })
        .collect()
    }
}

/// Returns the value of the first pair with the same key as the pair at `place`, if it is another
/// one. Comparing all keys is faster than a table, since most replies have few.
fn earlier_value<'a>(pairs: &[(&'a [u8], &'a [u8])], place: usize) -> Option<&'a [u8]> {
    let (earlier, rest) = pairs.split_at_checked(place)?;
    let (key, _) = rest.first()?;
    let found = earlier.iter().find(|(own, _)| own == key);
    found.map(|(_, value)| *value)
}

fn set_member(
    status: &mut Status,
    address: &mut Address,
    member: Member,
    (key, value): (&[u8], &[u8]),
    notes: &mut Notes,
) {
    match member {
        Member::Name => status.name = (!value.is_empty()).then(|| Text::by_content(value)),
        Member::Game => status.game = filled(value),
        Member::Version => status.version = filled(value),
        Member::Map => status.map = filled(value),
        Member::Mode => status.mode = filled(value),
        Member::Online => status.players.online = number(value, notes),
        Member::Max => status.players.max = number(value, notes),
        // 0 is a server that does not know its port.
        Member::Port => address.port = number(value, notes).filter(|port| *port != 0),
        Member::Host => address.host = filled(value),
        Member::Password => {
            status.has_password = boolean(value);
            if status.has_password.is_none() {
                status.rules.push(rule(key, value));
            }
        }
    }
}

/// Parses a flag in the forms of all known servers.
fn boolean(value: &[u8]) -> Option<bool> {
    let value = value.trim_ascii();
    let is = |words: [&str; 4]| {
        words
            .iter()
            .any(|word| word.as_bytes().eq_ignore_ascii_case(value))
    };
    if is(["1", "true", "yes", "y"]) {
        return Some(true);
    }
    is(["0", "false", "no", "n"]).then_some(false)
}

/// Parses a count or port. Other text, or a number out of range, is a deviation and omitted.
fn number<T: TryFrom<i64>>(value: &[u8], notes: &mut Notes) -> Option<T> {
    let number = whole_number(value).and_then(|number| number.try_into().ok());
    if number.is_none() {
        notes.deviation(&ODD_NUMBER, 0);
    }
    number
}

fn rule(key: &[u8], value: &[u8]) -> Rule {
    Rule {
        key: text(key),
        value: text(value),
    }
}

fn text(bytes: &[u8]) -> CompactString {
    CompactString::new(by_content(bytes).0)
}

/// Returns whether a value is absent: some servers fill missing values with a space.
fn is_blank(value: &[u8]) -> bool {
    value.trim_ascii().is_empty()
}

fn number_or_text(value: &[u8]) -> Value {
    match decimal(value) {
        Some(number) if is_canonical(number, value) => Value::Int(number),
        _ => Value::Str(text(value)),
    }
}

/// Returns whether a number would be written with the same bytes.
fn is_canonical(number: i64, value: &[u8]) -> bool {
    let mut written = Vec::new();
    super::write_decimal(number, &mut written);
    written == value
}

fn name<'a>(fields: &Fields<'a>) -> Option<&'a [u8]> {
    let rank = |field: &Field<'a>| match field.column.kind {
        PlayerField::Name(rank) => Some(rank),
        _ => None,
    };
    let names = fields
        .iter()
        .filter_map(|field| Some((rank(field)?, field.value)));
    names.min_by_key(|(rank, _)| *rank).map(|(_, name)| name)
}

fn player(fields: &Fields<'_>, first_team: u32, teams: &[(u32, Value)], codes: Codes) -> Player {
    let mut player = Player::named(formatted(codes, name(fields).unwrap_or_default()));
    let integer = whole_number;
    let mut score: Option<(u8, usize)> = None;
    for (place, Field { column, value }) in fields.iter().enumerate() {
        if let PlayerField::Score(rank) = column.kind
            && score.is_none_or(|(best, _)| rank < best)
            && let Some(number) = integer(value)
        {
            score = Some((rank, place));
            player.score = Some(number);
        }
    }
    let score = score.map(|(_, place)| place);
    let mut others = Vec::new();
    for (place, &Field { column, value }) in fields.iter().enumerate() {
        if matches!(column.kind, PlayerField::Name(_)) || is_blank(value) || score == Some(place) {
            continue;
        }
        if column.kind == PlayerField::Team {
            player.team = team(&by_content(value).0, first_team, teams);
            continue;
        }
        if column.kind == PlayerField::Ping
            && let Some(ping) = integer(value).and_then(|ping| ping.try_into().ok())
        {
            player.latency_ms = Some(ping);
            continue;
        }
        if column.name.len() <= MAX_FIELD_NAME {
            others.push((text(column.name), Value::Str(text(value))));
        }
    }
    if !others.is_empty() {
        player
            .extra
            .push(Extra::new("fields", Value::Table(others)));
    }
    player
}

/// Returns the name of a player's team, or its number if the table does not name it.
fn team(number: &str, first_team: u32, teams: &[(u32, Value)]) -> Option<CompactString> {
    let number = number.trim();
    if number == NO_TEAM {
        return None;
    }
    let row = number
        .parse::<u32>()
        .ok()
        .and_then(|team| team.checked_sub(first_team));
    let found = row.and_then(|row| teams.iter().find(|(own, _)| *own == row));
    let name = found.and_then(|(_, team)| match team {
        Value::Table(fields) => fields.iter().find(|(field, _)| field == "name"),
        _ => None,
    });
    match name {
        Some((_, Value::Str(name))) => Some(name.clone()),
        _ => Some(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Roster;
    use alloc::vec;

    fn row<'a>(name: &'a [u8]) -> Fields<'a> {
        vec![Field {
            column: Column::new(b"player"),
            value: name,
        }]
    }

    fn status(reply: Reply<'_>) -> (Box<Status>, Vec<&'static str>) {
        let mut notes = Notes::default();
        let status = reply.status(true, &mut notes);
        (status, notes.met().map(|met| met.name).collect())
    }

    #[test]
    fn surplus_players_stay_unless_the_server_keeps_stale_ones() {
        for has_stale_players in [false, true] {
            let (status, met) = status(Reply {
                pairs: vec![(b"numplayers", b" 1")],
                players: [(0, row(b"Al")), (4, row(b"Bo"))].into(),
                has_stale_players,
                ..Reply::default()
            });
            assert_eq!(status.players.online, Some(1));
            let (listed, roster, expected) = if has_stale_players {
                (1, Roster::Whole, vec!["stale-players"])
            } else {
                (2, Roster::Partial, vec![])
            };
            assert_eq!(
                (status.players.list.len(), status.players.roster),
                (listed, roster)
            );
            assert_eq!(met, expected);
        }
    }

    #[test]
    fn fields_are_found_in_any_case() {
        for (field, kind) in [
            (&b"player"[..], PlayerField::Name(0)),
            (b"PlayerName", PlayerField::Name(1)),
            (b"NAME", PlayerField::Name(2)),
            (b"Frags", PlayerField::Score(1)),
            (b"Team", PlayerField::Team),
            (b"pinG", PlayerField::Ping),
            (b"", PlayerField::Other),
            (b"Deaths", PlayerField::Other),
            (b"PLAYERNAMES", PlayerField::Other),
        ] {
            assert_eq!(PlayerField::of(field), kind, "{field:?}");
        }
    }

    #[test]
    fn flags_have_many_forms() {
        for (value, is_set) in [("1", true), ("True", true), ("yes", true), ("Y", true)] {
            assert_eq!(boolean(value.as_bytes()), Some(is_set), "{value}");
        }
        for value in ["0", "false", "No", "n"] {
            assert_eq!(boolean(value.as_bytes()), Some(false), "{value}");
        }
        assert_eq!(boolean(b"2"), None);
    }

    #[test]
    fn aliases_are_no_duplicates() {
        let (status, met) = status(Reply {
            pairs: vec![
                (b"gamever", b"1.2"),
                (b"version", b"3"),
                (b"GameVer", b"1.3"),
            ],
            ..Reply::default()
        });
        assert_eq!(status.version.as_deref(), Some("1.2"));
        assert_eq!(status.rules.len(), 2);
        assert_eq!(met, ["duplicate-key"]);
    }

    #[test]
    fn one_text_in_latin1_decides_about_all() {
        let is_utf8 = |values: &[&'static [u8]]| {
            let pairs = values.iter().map(|value| (&b"key"[..], *value)).collect();
            Reply {
                pairs,
                ..Reply::default()
            }
            .is_utf8()
        };
        assert_eq!(is_utf8(&[b"plain"]), None);
        assert_eq!(is_utf8(&[b"plain", b"\xC3\xA9"]), Some(true));
        assert_eq!(is_utf8(&[b"\xC3\xA9", b"\xE9"]), Some(false));
    }
}
