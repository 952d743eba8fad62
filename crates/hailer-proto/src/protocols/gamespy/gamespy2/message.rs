//! Bytes ⇄ messages (spec/gamespy2.md#2 and #3).

use super::deviation::*;
use crate::protocol::{DatagramContext, Direction, Explanation};
use crate::protocols::gamespy::Reply;
use crate::protocols::gamespy::deviation::TRUNCATED_REPLY;
use crate::protocols::gamespy::qr2::{
    self, MAGIC, Selector, SessionId, TYPE_ECHO, TYPE_ECHO_REPLY, TYPE_QUERY, TableEnd,
    unsplit_pairs, unsplit_table,
};
use crate::wire::{Error, Notes, Reader, Writer};
use alloc::vec::Vec;

/// Length of Hailer's queries, and of the shortest query.
pub const QUERY_LENGTH: usize = 10;
/// Servers read at most this many bytes of a request.
pub const MAX_REQUEST: usize = 255;

/// A request, borrowed from its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Requests the status of a GameSpy 2 server.
    Query {
        /// Session id to be echoed.
        session: SessionId,
        /// Requested server keys.
        server: Selector<'a>,
        /// Requested fields of players.
        players: Selector<'a>,
        /// Requested fields of teams.
        teams: Selector<'a>,
    },
    /// Requests an echo.
    Echo {
        /// Session id to be echoed.
        session: SessionId,
        /// Text to be echoed.
        text: &'a [u8],
    },
}

impl<'a> Request<'a> {
    /// Reads a request of a GameSpy 2 client.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(&MAGIC, "magic")?;
        let kind = r.u8("type")?;
        let session = SessionId::read(&mut r)?;
        match kind {
            TYPE_QUERY => {
                let query = Self::Query {
                    session,
                    server: Selector::read(&mut r, "server keys")?,
                    players: Selector::read(&mut r, "player keys")?,
                    teams: Selector::read(&mut r, "team keys")?,
                };
                // A client of GameSpy 3 that knows no challenge.
                if r.remaining() == 1 {
                    r.u8("flags")?;
                }
                r.end()?;
                Ok(query)
            }
            TYPE_ECHO => {
                let length = r.remaining();
                Ok(Self::Echo {
                    session,
                    text: r.raw(length, "text")?,
                })
            }
            _ => Err(Error::bad("type", 2, "0 (query) or 2 (echo)")),
        }
    }
}

/// Appends a query for all server keys, or for all fields of players and teams.
pub fn write_query(session: SessionId, lists: bool, out: &mut Vec<u8>) {
    let all = |requested: bool| if requested { 0xFF } else { 0 };
    Writer(out)
        .bytes(&MAGIC)
        .u8(TYPE_QUERY)
        .bytes(&session.0)
        .bytes(&[all(!lists), all(lists), all(lists)]);
}

/// Which sections a reply has, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// Whether pairs of keys and values are requested.
    pub has_server: bool,
    /// Whether the player table is requested.
    pub has_players: bool,
    /// Whether the team table is requested.
    pub has_teams: bool,
}

impl Sections {
    /// The reply to a query for all server keys.
    pub const INFO: Self = Self {
        has_server: true,
        has_players: false,
        has_teams: false,
    };
    /// The reply to a query for all fields of players and teams.
    pub const LISTS: Self = Self {
        has_server: false,
        has_players: true,
        has_teams: true,
    };
}

/// Returns the session id if these bytes are the reply to a query.
pub fn reply_session(bytes: &[u8]) -> Option<SessionId> {
    match bytes {
        [TYPE_QUERY, a, b, c, d, ..] => Some(SessionId([*a, *b, *c, *d])),
        _ => None,
    }
}

/// Reads the reply to a query for these sections. Adds to `reply`.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_reply<'a>(
    bytes: &'a [u8],
    sections: Sections,
    reply: &mut Reply<'a>,
    notes: &mut Notes,
) -> Result<(), Error> {
    let mut r = Reader::new(bytes, notes);
    if r.u8("type")? != TYPE_QUERY {
        return Err(Error::bad("type", 0, "0 (query)"));
    }
    SessionId::read(&mut r)?;
    let mut end = TableEnd::Counted;
    if sections.has_server {
        unsplit_pairs(&mut r, reply)?;
    }
    for (is_teams, is_sent) in [(false, sections.has_players), (true, sections.has_teams)] {
        if !is_sent {
            continue;
        }
        let is_over = match (end, r.rest()) {
            (TableEnd::Truncated, _) => break,
            (TableEnd::Open, [0]) | (_, []) => true,
            // The count of the players was too high: the end of the teams is a row.
            (TableEnd::Counted, [_]) => is_teams,
            _ => false,
        };
        if is_over {
            let at = r.at();
            r.notes().deviation(&MISSING_TABLE, at);
            break;
        }
        end = unsplit_table(&mut r, reply, is_teams, &COUNT_MISSING)?;
    }
    match (end, r.rest()) {
        (TableEnd::Open, [0]) => drop(r.raw(1, "end of table")?),
        (TableEnd::Open, []) => {
            let at = r.at();
            r.notes().deviation(&TRUNCATED_REPLY, at);
        }
        _ => {}
    }
    r.trailing(&TRAILING_BYTES);
    Ok(())
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let explained = |message, direction, error| Some(Explanation::guess(message, direction, error));
    if seen.direction() != Some(Direction::Reply) && bytes.starts_with(&MAGIC) {
        let is_echo = bytes.get(2) == Some(&TYPE_ECHO);
        let message = if is_echo { "echo request" } else { "query" };
        let error = Request::read(bytes, notes).err();
        return explained(message, Direction::Request, error);
    }
    if seen.direction() == Some(Direction::Request) {
        return None;
    }
    match *bytes.first()? {
        TYPE_ECHO_REPLY => {
            let mut r = Reader::new(bytes, notes);
            let mut read = || {
                r.u8("type")?;
                SessionId::read(&mut r)?;
                let length = r.remaining();
                r.raw(length, "text").map(drop)
            };
            explained("echo reply", Direction::Reply, read().err())
        }
        TYPE_QUERY => {
            let sections = sections(bytes, seen.request());
            let error = parse_reply(bytes, sections, &mut Reply::default(), notes).err();
            let has_tables = sections.has_players || sections.has_teams;
            let message = match (sections.has_server, has_tables) {
                (true, true) => "full reply",
                (true, false) => "info reply",
                (false, _) => "lists reply",
            };
            explained(message, Direction::Reply, error)
        }
        _ => None,
    }
}

/// Returns the sections of a reply: as requested, or else as found in the bytes. A table
/// begins with its count, whose high byte is no letter, or with the field `player_`.
fn sections(bytes: &[u8], request: Option<&[u8]>) -> Sections {
    let request = request.and_then(|bytes| Request::read(bytes, &mut Notes::discarding()).ok());
    if let Some(Request::Query {
        server,
        players,
        teams,
        ..
    }) = request
    {
        return Sections {
            has_server: server == Selector::All,
            has_players: players == Selector::All,
            has_teams: teams == Selector::All,
        };
    }
    let mut notes = Notes::discarding();
    let mut r = Reader::new(bytes, &mut notes);
    let mut reply = Reply::default();
    let mut sections = Sections::default();
    let body = bytes.get(qr2::REPLY_HEADER..).unwrap_or_default();
    let is_read = r.take(bytes.len().min(qr2::REPLY_HEADER), "header").is_ok();
    let is_table = body.first().is_some_and(u8::is_ascii_control);
    if !is_table && !body.starts_with(b"player_\0") {
        sections.has_server = true;
        if unsplit_pairs(&mut r, &mut reply).is_err() {
            return sections;
        }
    }
    sections.has_players = is_read && r.remaining() > 0 && !is_team_table(r.rest());
    if sections.has_players && unsplit_table(&mut r, &mut reply, false, &COUNT_MISSING).is_err() {
        return sections;
    }
    sections.has_teams = r.remaining() > 0;
    sections
}

/// Returns whether the first field of a table belongs to teams.
fn is_team_table(table: &[u8]) -> bool {
    let names = table.get(2..).unwrap_or_default();
    let first = names.split(|&byte| byte == 0).next().unwrap_or_default();
    first.ends_with(b"_t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_end_early_are_rejected() {
        let whole = b"\0HAILhostname\0Test\0gamever\x001.12\0mapname\0DM1\0\0";
        let read = |bytes: &[u8]| {
            let mut reply = Reply::default();
            parse_reply(bytes, Sections::INFO, &mut reply, &mut Notes::default())
        };
        assert_eq!(read(whole), Ok(()));
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end}");
        }
        // The kit cuts longer replies.
        let long = [&whole[..whole.len() - 1], &[b'a'; qr2::MAX_REPLY]].concat();
        assert_eq!(read(&long), Ok(()));
    }

    #[test]
    fn counts_of_rows_have_a_limit() {
        for (count, is_read) in [([0, 1], true), ([4, 1], false), ([0xFF, 0xFF], false)] {
            let bytes = [b"\0HAIL", &count[..], b"player_\0\0Al\0\0\0team_t\0\0"].concat();
            let mut reply = Reply::default();
            let read = parse_reply(&bytes, Sections::LISTS, &mut reply, &mut Notes::default());
            assert_eq!(read.is_ok(), is_read, "{count:?}");
        }
    }

    #[test]
    fn nothing_follows_a_truncated_table() {
        let mut reply = Reply::default();
        let mut notes = Notes::default();
        let bytes = b"\0HAIL\0\x02player_\0score_\0\0Al\x003\0Bo\0";
        parse_reply(bytes, Sections::LISTS, &mut reply, &mut notes).unwrap();
        assert_eq!((reply.players.len(), reply.teams.len()), (2, 0));
        let met: Vec<_> = notes.met().map(|met| met.name).collect();
        assert_eq!(met, ["truncated-reply"]);
        // A table that is missing is another deviation.
        let whole = b"\0HAIL\0\x01player_\0\0Al\0";
        let mut notes = Notes::default();
        parse_reply(whole, Sections::LISTS, &mut reply, &mut notes).unwrap();
        let met: Vec<_> = notes.met().map(|met| met.name).collect();
        assert_eq!(met, ["missing-table"]);
    }
}
