//! The QR2 layer: requests, challenge tokens, and both layouts of replies. Minecraft Query, GameSpy
//! 2 and GameSpy 3 are dialects of it (spec/gamespy2.md, spec/gamespy3.md, spec/minecraft-query.md).

use super::deviation::{PART_GAP, TRUNCATED_REPLY};
use super::status::Column;
use super::{MAX_FIELD_NAME, MAX_ROW, Reply, write_decimal};
use crate::token::{Epoch, Keys, owner};
use crate::wire::{Error, Notes, Reader, Writer, by_content, decimal, first_nul};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use subtle::ConstantTimeEq;

/// First two bytes of every request.
pub const MAGIC: [u8; 2] = [0xFE, 0xFD];
/// Type of a query and of its reply.
pub const TYPE_QUERY: u8 = 0;
/// Type of a request for a challenge token, and of its reply.
pub const TYPE_CHALLENGE: u8 = 9;
/// Type of an echo request.
pub const TYPE_ECHO: u8 = 2;
/// Type of the reply to an echo request.
pub const TYPE_ECHO_REPLY: u8 = 5;
/// Type and session id of a reply.
pub const REPLY_HEADER: usize = 5;
/// Longest datagram of a reply of the vendor's kit, in bytes.
pub const MAX_REPLY: usize = 1_400;
/// The kit echoes at most this many bytes.
pub const MAX_ECHO: usize = 32;
/// First bytes of a part of a split reply, after the session id.
pub const SPLITNUM: &[u8; 9] = b"splitnum\0";
/// Bit of the part number that marks the last part.
pub const LAST_PART: u8 = 0x80;
/// Epochs in which a token is accepted: its own and the next one, so 30 to 60 s.
const GENERATIONS: u32 = 2;
/// Limit of pairs of a reply.
const MAX_PAIRS: usize = 1_024;
/// Room for the pairs of most replies.
const USUAL_PAIRS: usize = 16;

/// Id chosen by the client and echoed by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId(pub [u8; 4]);

impl SessionId {
    /// Returns a session id that every server echoes unchanged: it uses four bits of each byte
    /// (spec/minecraft-query.md#2.4).
    pub fn safe(number: u64) -> Self {
        let [a, b, c, d, ..] = number.to_be_bytes();
        Self([a & 0x0F, b & 0x0F, c & 0x0F, d & 0x0F])
    }

    /// Reads a session id.
    pub(crate) fn read(r: &mut Reader<'_, '_>) -> Result<Self, Error> {
        let at = r.at();
        let bytes = r.array("session id")?;
        r.note(at, "session id", || {
            format!("0x{:08x}", u32::from_be_bytes(bytes))
        });
        Ok(Self(bytes))
    }
}

/// Appends the reply to a request for a challenge token.
pub fn write_challenge(session: SessionId, token: i32, out: &mut Vec<u8>) {
    Writer(out).u8(TYPE_CHALLENGE).bytes(&session.0);
    write_decimal(i64::from(token), out);
    out.push(0);
}

/// Appends type and session id of the reply to a query.
pub fn write_reply_header(session: SessionId, out: &mut Vec<u8>) {
    Writer(out).u8(TYPE_QUERY).bytes(&session.0);
}

/// Issues and checks challenge tokens. Nothing is stored for each client.
#[derive(Debug)]
pub(crate) struct Challenges {
    /// Secrets of the tokens.
    pub keys: Keys,
    /// Makes tokens differ from those of other protocols with the same keys.
    pub purpose: u8,
    /// Whether a token is valid only for the port that requested it, not just for the address.
    pub is_port_bound: bool,
}

impl Challenges {
    /// Returns the token for a client.
    pub(crate) fn token(&self, from: SocketAddr, epoch: Epoch) -> i32 {
        Self::number(self.keys.mint(self.purpose, self.bound(from), epoch))
    }

    /// Returns whether a client got this token recently.
    pub(crate) fn accepts(&self, token: i32, from: SocketAddr, epoch: Epoch) -> bool {
        (0..GENERATIONS).any(|age| {
            let tags = self
                .keys
                .accepted(self.purpose, self.bound(from), epoch.before(age));
            tags.map(Self::number)
                .any(|accepted| accepted.ct_eq(&token).into())
        })
    }

    fn number(tag: u128) -> i32 {
        // The token is positive: some clients send nothing for 0, or fail on a sign.
        ((tag as i32) & i32::MAX).max(1)
    }

    /// Returns the address of the client as tokens contain it.
    fn bound(&self, from: SocketAddr) -> SocketAddr {
        owner(from, self.is_port_bound)
    }
}

/// Which keys of a section a query requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector<'a> {
    /// All, with their names.
    All,
    /// The values of these numbers. Empty: nothing.
    Numbers(&'a [u8]),
}

impl<'a> Selector<'a> {
    /// Returns whether this is all or nothing.
    pub fn is_simple(self) -> bool {
        matches!(self, Self::All | Self::Numbers([]))
    }

    pub(crate) fn read(r: &mut Reader<'a, '_>, field: &'static str) -> Result<Self, Error> {
        match r.u8(field)? {
            0xFF => Ok(Self::All),
            count => Ok(Self::Numbers(r.take(count.into(), field)?)),
        }
    }
}

/// Kind of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Server,
    Players,
    Teams,
}

impl Kind {
    fn read(r: &mut Reader<'_, '_>) -> Result<Self, Error> {
        let at = r.at();
        match r.u8("section")? {
            0 => Ok(Self::Server),
            1 => Ok(Self::Players),
            2 => Ok(Self::Teams),
            _ => Err(Error::bad("section", at, "0, 1 or 2")),
        }
    }

    /// Returns the field without the suffix of its table.
    fn strip(self, field: &[u8]) -> &[u8] {
        let suffix: &[u8] = match self {
            Self::Teams => b"_t",
            _ => b"_",
        };
        field.strip_suffix(suffix).unwrap_or(field)
    }
}

fn display(bytes: &[u8]) -> String {
    format!("{:?}", by_content(bytes).0)
}

/// Reads text and its NUL. Returns `None` if the datagram ends before the NUL.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Option<&'a [u8]> {
    let at = r.at();
    let length = first_nul(r.rest())?;
    let (_, text) = r.take(length + 1, field).ok()?.split_last()?;
    r.note(at, field, || display(text));
    Some(text)
}

fn short(r: &Reader<'_, '_>, field: &'static str) -> Error {
    Error::short(field, r.at(), r.remaining().max(1))
}

fn field_name(name: &[u8], at: usize) -> Result<&[u8], Error> {
    if name.len() <= MAX_FIELD_NAME {
        Ok(name)
    } else {
        Err(Error::limit("field name", at, MAX_FIELD_NAME))
    }
}

fn push_pair<'a>(
    pairs: &mut Vec<(&'a [u8], &'a [u8])>,
    pair: (&'a [u8], &'a [u8]),
    at: usize,
) -> Result<(), Error> {
    if pairs.len() == MAX_PAIRS {
        return Err(Error::limit("pair.key", at, MAX_PAIRS));
    }
    pairs.push(pair);
    Ok(())
}

/// Reads the pairs of a reply that is not split (spec/gamespy2.md#3.1). An early end is a deviation
/// once there is a pair.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub(crate) fn unsplit_pairs<'a>(
    r: &mut Reader<'a, '_>,
    reply: &mut Reply<'a>,
) -> Result<(), Error> {
    reply.pairs.reserve(USUAL_PAIRS);
    loop {
        r.notes().group("pair", reply.pairs.len());
        let at = r.at();
        let pair = match text(r, "key") {
            Some(b"") => break,
            Some(key) => text(r, "value").map(|value| (key, value)),
            None => None,
        };
        match pair {
            Some(pair) => push_pair(&mut reply.pairs, pair, at)?,
            // The kit cuts replies at its limit only.
            None if reply.pairs.is_empty() || r.whole().len() < MAX_REPLY => {
                return Err(short(r, "pair.key"));
            }
            None => {
                truncated(r);
                break;
            }
        }
    }
    r.notes().ungroup();
    Ok(())
}

/// Notes that the datagram ends too early, and takes what is left of it.
fn truncated(r: &mut Reader<'_, '_>) {
    let at = r.at();
    r.notes().ungroup();
    let rest = r.remaining();
    if r.take(rest, "rest").is_ok_and(|rest| !rest.is_empty()) {
        r.note(at, "rest", || String::from("incomplete"));
    }
    r.notes().deviation(&TRUNCATED_REPLY, at);
}

/// How a table of a reply that is not split ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableEnd {
    /// After the rows that its count announces.
    Counted,
    /// It has no count; a NUL may follow the rows.
    Open,
    /// The datagram ends within the table.
    Truncated,
}

/// Reads a player or team table of a reply that is not split (spec/gamespy2.md#3.2). An early end
/// is a deviation once there are field names.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub(crate) fn unsplit_table<'a>(
    r: &mut Reader<'a, '_>,
    reply: &mut Reply<'a>,
    is_teams: bool,
    count_missing: &'static crate::wire::Deviation,
) -> Result<TableEnd, Error> {
    let kind = if is_teams { Kind::Teams } else { Kind::Players };
    // The end of a table without a count, before another one.
    if is_teams && matches!(r.rest(), [0, byte, ..] if byte.is_ascii_lowercase()) {
        r.raw(1, "end of table")?;
    }
    let at = r.at();
    // Letters are not the high byte of a sensible count.
    let has_count = r
        .rest()
        .first()
        .is_none_or(|byte| !byte.is_ascii_alphabetic());
    let (count, end) = if has_count {
        (Some(u32::from(r.u16_be("rows")?)), TableEnd::Counted)
    } else {
        r.notes().deviation(count_missing, at);
        (None, TableEnd::Open)
    };
    let most = MAX_ROW + 1;
    if count.is_some_and(|count| count > most) {
        return Err(Error::limit("rows", at, most as usize));
    }
    let mut columns: Vec<Column<'a>> = Vec::new();
    loop {
        let at = r.at();
        match text(r, "field name") {
            // Only an empty table of teams, the last one, may lack its end.
            None if columns.is_empty() && !(is_teams && count == Some(0)) => {
                return Err(short(r, "field name"));
            }
            None => {
                truncated(r);
                return Ok(TableEnd::Truncated);
            }
            Some(b"") => break,
            Some(name) => columns.push(Column::new(kind.strip(field_name(name, at)?))),
        }
    }
    if columns.is_empty() {
        return match count {
            Some(1..) => Err(Error::bad("rows", at, "0 without field names")),
            _ => Ok(end),
        };
    }
    let (name, rows) = if is_teams {
        ("team", &mut reply.teams)
    } else {
        ("player", &mut reply.players)
    };
    for row in 0..count.unwrap_or(u32::MAX) {
        // Without a count, an empty name or the end of the datagram ends the table.
        if count.is_none() && matches!(r.rest().first(), None | Some(0)) {
            break;
        }
        if row == most {
            return Err(Error::limit("rows", r.at(), most as usize));
        }
        r.notes().group(name, row as usize);
        let mut values = Vec::with_capacity(columns.len());
        let mut is_truncated = false;
        for &column in &columns {
            let value = text(r, "value");
            is_truncated = value.is_none();
            let Some(value) = value else { break };
            Reply::set_field(&mut values, column, value);
        }
        if !values.is_empty() {
            rows.insert(row, values);
        }
        if is_truncated {
            truncated(r);
            return Ok(TableEnd::Truncated);
        }
    }
    r.notes().ungroup();
    Ok(end)
}

/// Where the last part of a split reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SplitPoint<'a> {
    /// There is no part yet.
    #[default]
    Start,
    /// After a section.
    Closed,
    /// Within the pairs. The key, and its value, may be incomplete. `None`: there is no pair.
    Pairs(Option<&'a [u8]>),
    /// Within a table.
    Table {
        kind: u8,
        field: &'a [u8],
        /// Row that follows.
        next: u32,
        /// The value of the row before, which may be incomplete.
        value: Option<&'a [u8]>,
    },
}

/// Parser of a split reply, part by part (spec/gamespy3.md#4).
#[derive(Debug, Default)]
pub(crate) struct Split<'a> {
    /// Pairs and rows of the parts so far.
    pub reply: Reply<'a>,
    end: SplitPoint<'a>,
    /// Whether lists contain empty values, which end them.
    pub has_empty_values: bool,
    /// Whether a key without a value is followed by the next key.
    pub has_missing_values: bool,
    /// Whether there was a section of each kind.
    sections: [bool; 3],
}

/// Bytes after the sections of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailer {
    /// Nothing follows the sections.
    Nothing,
    /// Bytes that are not a section, after the pairs.
    Other,
}

impl<'a> Split<'a> {
    /// Reads the sections of a part, from after the part number to the end of the datagram.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub(crate) fn part(&mut self, r: &mut Reader<'a, '_>, is_last: bool) -> Result<Trailer, Error> {
        let mut is_first = true;
        loop {
            let at = r.at();
            let earlier = core::mem::replace(&mut self.end, SplitPoint::Closed);
            let kind = Kind::read(r)?;
            if let Some(section) = self.sections.get_mut(kind as usize) {
                *section = true;
            }
            match kind {
                Kind::Server => self.pairs(r, is_first.then_some(earlier))?,
                kind => self.table(r, kind, is_first.then_some(earlier))?,
            }
            r.notes().ungroup();
            is_first = false;
            if r.remaining() == 0 {
                if is_last && self.end != SplitPoint::Closed {
                    r.notes().deviation(&TRUNCATED_REPLY, at);
                }
                return Ok(Trailer::Nothing);
            }
            if !is_section(r.rest()) {
                return Ok(Trailer::Other);
            }
        }
    }

    /// Returns whether a player or team section was read.
    pub(crate) fn has_tables(&self) -> bool {
        let [_, players, teams] = self.sections;
        players || teams
    }

    /// Notes a reply that ends within a section or lacks one, after its last part.
    pub(crate) fn finish(
        &self,
        missing_section: &'static crate::wire::Deviation,
        notes: &mut Notes,
    ) {
        if !matches!(self.end, SplitPoint::Start | SplitPoint::Closed) {
            notes.deviation(&TRUNCATED_REPLY, 0);
        }
        if self.sections.contains(&false) {
            notes.deviation(missing_section, 0);
        }
    }

    fn pairs(
        &mut self,
        r: &mut Reader<'a, '_>,
        earlier: Option<SplitPoint<'a>>,
    ) -> Result<(), Error> {
        let mut continued = earlier;
        // A value that is the next key, because its own key has none.
        let mut pending: Option<&'a [u8]> = None;
        let mut last = None;
        loop {
            let at = r.at();
            if r.remaining() == 0 && pending.is_none() {
                self.end = SplitPoint::Pairs(last);
                return Ok(());
            }
            r.notes().group("pair", self.reply.pairs.len());
            let key = match pending.take() {
                Some(key) => key,
                None => match text(r, "key") {
                    Some(key) => key,
                    None if self.reply.pairs.is_empty() => return Err(short(r, "pair.key")),
                    None => {
                        truncated(r);
                        return Ok(());
                    }
                },
            };
            if let Some(earlier) = continued.take() {
                self.continue_pairs(earlier, key, r.notes(), at);
            }
            if key.is_empty() {
                return Ok(());
            }
            last = Some(key);
            if r.remaining() == 0 {
                self.end = SplitPoint::Pairs(last);
                return Ok(());
            }
            let mut value = match text(r, "value") {
                Some(value) => value,
                None if self.reply.pairs.is_empty() => return Err(short(r, "pair.value")),
                None => {
                    truncated(r);
                    return Ok(());
                }
            };
            if is_number_key(value) && !is_number_key(key) && key != b"mapname" {
                self.has_missing_values = true;
                pending = Some(value);
                value = b"";
            }
            push_pair(&mut self.reply.pairs, (key, value), at)?;
        }
    }

    /// Checks that pairs at the start of a part continue those of the part before. Removes the pair
    /// that the part repeats.
    fn continue_pairs(
        &mut self,
        earlier: SplitPoint<'a>,
        key: &[u8],
        notes: &mut Notes,
        at: usize,
    ) {
        match earlier {
            SplitPoint::Start => {}
            SplitPoint::Closed if self.reply.pairs.is_empty() => {}
            SplitPoint::Pairs(Some(fragment)) if key.starts_with(fragment) => {
                if self
                    .reply
                    .pairs
                    .last()
                    .is_some_and(|(last, _)| *last == key)
                {
                    self.reply.pairs.pop();
                }
            }
            _ => notes.deviation(&PART_GAP, at),
        }
    }

    fn table(
        &mut self,
        r: &mut Reader<'a, '_>,
        kind: Kind,
        earlier: Option<SplitPoint<'a>>,
    ) -> Result<(), Error> {
        let mut continued = earlier;
        let mut last: &[u8] = b"";
        loop {
            let at = r.at();
            let open = |field, next| SplitPoint::Table {
                kind: kind as u8,
                field,
                next,
                value: None,
            };
            if r.remaining() == 0 {
                self.end = open(last, 0);
                return Ok(());
            }
            let Some(name) = text(r, "field name") else {
                truncated(r);
                return Ok(());
            };
            if name.is_empty() {
                return Ok(());
            }
            let field = kind.strip(field_name(name, at)?);
            last = field;
            if r.remaining() == 0 {
                self.end = open(field, 0);
                return Ok(());
            }
            let first = u32::from(r.u8("first row")?);
            if let Some(earlier) = continued.take() {
                let value = r.rest();
                check_table(earlier, (kind as u8, field, first, value), r.notes(), at);
            }
            let Some(row) = self.list(r, kind, field, first)? else {
                // The datagram ended within the list.
                return Ok(());
            };
            // Empty values look like ends of the list (spec/gamespy3.md#4.4).
            let nuls = r.rest().iter().take_while(|&&byte| byte == 0).count();
            let follows = r.rest().get(nuls..).unwrap_or_default();
            if nuls == 0 {
                if follows.is_empty() {
                    self.end = open(field, row);
                    return Ok(());
                }
                continue;
            }
            r.raw(nuls, "end of section")?;
            let is_end = follows.is_empty() || is_section(follows);
            self.has_empty_values |= nuls > 1 || !is_end;
            if is_end {
                return Ok(());
            }
        }
    }

    /// Reads the values of a field up to the empty one. Returns the row after the last; `None` if
    /// the datagram ends first.
    fn list(
        &mut self,
        r: &mut Reader<'a, '_>,
        kind: Kind,
        field: &'a [u8],
        first: u32,
    ) -> Result<Option<u32>, Error> {
        let mut row = first;
        let mut last = None;
        loop {
            if r.remaining() == 0 {
                self.end = SplitPoint::Table {
                    kind: kind as u8,
                    field,
                    next: row,
                    value: last,
                };
                return Ok(None);
            }
            r.notes().group("row", row as usize);
            let Some(value) = text(r, "value") else {
                truncated(r);
                return Ok(None);
            };
            r.notes().ungroup();
            if value.is_empty() {
                return Ok(Some(row));
            }
            // The number of a row is one byte.
            if row <= u32::from(u8::MAX) {
                let rows = match kind {
                    Kind::Teams => &mut self.reply.teams,
                    _ => &mut self.reply.players,
                };
                Reply::set(rows, row, field, value);
            }
            last = Some(value);
            row += 1;
        }
    }
}

/// Checks that a table at the start of a part continues that of the part before.
fn check_table(
    earlier: SplitPoint<'_>,
    (kind, field, first, values): (u8, &[u8], u32, &[u8]),
    notes: &mut Notes,
    at: usize,
) {
    let fits = match earlier {
        SplitPoint::Start => true,
        SplitPoint::Closed => first == 0,
        SplitPoint::Pairs(_) => false,
        SplitPoint::Table { kind: other, .. } if other != kind => false,
        SplitPoint::Table {
            field: other,
            next,
            value,
            ..
        } if other == field => {
            let repeats = |value| first + 1 == next && values.starts_with(value);
            first == next || value.is_some_and(repeats)
        }
        // A list has ended.
        SplitPoint::Table { value, .. } => first == 0 && value.is_none(),
    };
    if !fits {
        notes.deviation(&PART_GAP, at);
    }
}

/// Returns whether these bytes begin a player or team section: a field name follows the kind, or
/// the end of an empty section.
fn is_section(bytes: &[u8]) -> bool {
    match bytes {
        [1 | 2, 0, ..] | [1 | 2] => true,
        [1 | 2, name @ ..] => {
            let end = first_nul(name).unwrap_or(name.len());
            let name = name.get(..end).unwrap_or_default();
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            name.iter().all(is_word)
        }
        _ => false,
    }
}

/// Returns whether a text is a numbered key of Unreal Tournament 3, such as `p1073741825`.
pub(crate) fn is_number_key(text: &[u8]) -> bool {
    text.strip_prefix(b"p")
        .is_some_and(|digits| digits.len() >= 6 && decimal(digits).is_some_and(|n| n >= 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &'static [u8]) -> Split<'static> {
        let mut split = Split::default();
        let mut notes = Notes::default();
        let after = split.part(&mut Reader::new(bytes, &mut notes), true);
        assert_eq!(after, Ok(Trailer::Nothing));
        split
    }

    #[test]
    fn empty_values_are_noticed() {
        assert!(!split(b"\x01player_\0\0Al\0\0\0").has_empty_values);
        assert!(split(b"\x01player_\0\0Al\0\0\0\0").has_empty_values);
        let gap = split(b"\x01player_\0\0Al\0\0\0\0score_\0\x003\0\0\0");
        assert!(gap.has_empty_values);
        assert_eq!(gap.reply.players[&0].len(), 2);
    }

    #[test]
    fn rows_end_where_their_byte_does() {
        let rows = split(b"\x01player_\0\xFEAl\0Bo\0Cy\0\0\0").reply.players;
        assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [254, 255]);
    }

    #[test]
    fn sections_and_numbered_keys_have_their_shape() {
        for (bytes, expected) in [
            (&b"\x01"[..], true),
            (b"\x02\0", true),
            (b"\x01player_\0", true),
            (b"\x01caf\xE9\0", false),
            (b"\x03player_\0", false),
            (b"player_\0", false),
        ] {
            assert_eq!(is_section(bytes), expected, "{bytes:?}");
        }
        for (key, expected) in [
            (&b"p123456"[..], true),
            (b"p12345", false),
            (b"p12345x", false),
            (b"p-12345", false),
            (b"123456", false),
        ] {
            assert_eq!(is_number_key(key), expected, "{key:?}");
        }
    }
}
