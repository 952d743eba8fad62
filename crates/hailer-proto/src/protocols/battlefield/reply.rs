//! Words of replies ⇄ status (spec/battlefield.md#4 and #5).
//!
//! Limits: 16 teams, 32 columns, 256 players.

use super::deviation::*;
use crate::model::{Address, Extra, Player, Status, Text, Value};
use crate::wire::{Error, Notes, by_content, filled};
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;

/// First word of a successful reply.
pub(super) const OK: &[u8] = b"OK";
/// Largest number of teams with scores.
const MAX_TEAMS: usize = 16;
/// Largest number of columns of a list.
const MAX_COLUMNS: usize = 32;
/// Largest number of players of a list.
const MAX_PLAYERS: usize = 256;
/// Names of the modifications that add two words to the server information.
const MODS: [&[u8]; 2] = [b"BC2", b"VIETNAM"];

/// Words of a reply, read in order.
struct Words<'a, 'n> {
    words: &'a [&'a [u8]],
    at: usize,
    notes: &'n mut Notes,
}

impl<'a> Words<'a, '_> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// Returns the next word if it meets a condition.
    fn next_if(&mut self, condition: fn(&[u8]) -> bool) -> Option<&'a [u8]> {
        let word = self.words.get(self.at).filter(|word| condition(word))?;
        self.at += 1;
        Some(word)
    }

    /// Returns a text that is not empty.
    fn text(&mut self) -> Option<CompactString> {
        let word = self.next()?;
        if core::str::from_utf8(word).is_err() {
            self.notes.deviation(&LATIN1, 0);
        }
        filled(word)
    }

    fn number(&mut self) -> Option<i64> {
        let number = self.next()?;
        let number = int(number);
        if number.is_none() {
            self.notes.deviation(&ODD_NUMBER, 0);
        }
        number
    }

    fn boolean(&mut self) -> Option<bool> {
        match self.next()? {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => {
                self.notes.deviation(&ODD_NUMBER, 0);
                None
            }
        }
    }

    /// Returns a number with or without a fraction.
    fn decimal(&mut self) -> Option<Value> {
        let word = self.next()?;
        if let Some(number) = int(word) {
            return Some(Value::Int(number));
        }
        let text = core::str::from_utf8(word).ok();
        let number = text.and_then(|text| text.parse::<f64>().ok());
        let number = number.filter(|number| number.is_finite());
        if number.is_none() {
            self.notes.deviation(&ODD_NUMBER, 0);
        }
        number.map(Value::Float)
    }
}

fn int(word: &[u8]) -> Option<i64> {
    core::str::from_utf8(word).ok()?.parse().ok()
}

/// Adds the server information to a status. Words after a number of teams that is invalid have no
/// known meaning and are left out.
pub(super) fn read_info(words: &[&[u8]], status: &mut Status, notes: &mut Notes) {
    let mut w = Words {
        words,
        at: 1,
        notes,
    };
    status.name = w.next().filter(|name| !name.is_empty()).map(|name| {
        let (text, is_latin1) = by_content(name);
        if is_latin1 {
            w.notes.deviation(&LATIN1, 0);
        }
        Text::unformatted(text).from_single_byte(is_latin1)
    });
    status.players.online = w.number();
    status.players.max = w.number();
    status.mode = w.text();
    status.map = w.text();
    let mut extra: Vec<Extra> = Vec::new();
    let mut add = |key, value: Option<Value>| {
        extra.extend(value.map(|value| Extra::new(key, value)));
    };
    add("rounds-played", w.number().map(Value::Int));
    add("rounds", w.number().map(Value::Int));
    let teams = match w.next() {
        None => Some(0),
        Some(b"") => {
            w.notes.deviation(&EMPTY_TEAMS, 0);
            Some(0)
        }
        Some(word) => int(word)
            .and_then(|teams| usize::try_from(teams).ok())
            .filter(|teams| *teams <= MAX_TEAMS),
    };
    let Some(teams) = teams else {
        w.notes.deviation(&ODD_NUMBER, 0);
        status.extra.extend(extra);
        return;
    };
    let mut scores = Vec::new();
    for _ in 0..teams {
        scores.extend(w.decimal());
    }
    if !scores.is_empty() {
        add("scores", Some(Value::List(scores)));
    }
    add("target-score", w.decimal());
    add("online-state", w.text().map(Value::Str));
    add("ranked", w.boolean().map(Value::Bool));
    status.has_anti_cheat = w.boolean();
    status.has_password = w.boolean();
    add("uptime", w.number().map(Value::Int));
    if w.at >= words.len() {
        w.notes.deviation(&SHORT_INFO, 0);
    }
    add("round-time", w.number().map(Value::Int));
    if let Some(word) = w.next_if(|word| MODS.contains(&word)) {
        add("mod", filled(word).map(Value::Str));
        add("map-pack", w.text().map(Value::Str));
    }
    status.address = w.next().and_then(|word| read_address(word, w.notes));
    add("punkbuster-version", w.text().map(Value::Str));
    let queue = w.next_if(|word| matches!(word, b"true" | b"false" | b""));
    let queue = queue.filter(|word| !word.is_empty());
    add("join-queue", queue.map(|word| Value::Bool(word == b"true")));
    for key in ["region", "ping-site", "country"] {
        add(key, w.text().map(Value::Str));
    }
    let matchmaking = w.next_if(|word| matches!(word, b"true" | b"false"));
    let matchmaking = matchmaking.map(|word| Value::Bool(word == b"true"));
    add("matchmaking", matchmaking);
    let count = w.next_if(|word| int(word).is_some()).and_then(int);
    add("backend-players", count.map(Value::Int));
    add("backend-state", w.text().map(Value::Str));
    status.extra.extend(extra);
}

/// Reads the address of the game: `192.0.2.7:25200`.
fn read_address(word: &[u8], notes: &mut Notes) -> Option<Address> {
    let (text, _) = by_content(word);
    let (host, port) = text.rsplit_once(':')?;
    let is_unknown = host == "0.0.0.0";
    if is_unknown {
        notes.deviation(&ZERO_ADDRESS, 0);
    }
    let host = Some(CompactString::from(host));
    Some(Address {
        host: host.filter(|host| !is_unknown && !host.is_empty()),
        port: port.parse().ok(),
    })
}

/// Adds game and build to a status. Returns whether they are there.
pub(super) fn read_version(words: &[&[u8]], status: &mut Status) -> bool {
    let [OK, game, rest @ ..] = words else {
        return false;
    };
    status.game = filled(game);
    status.version = rest.first().and_then(|build| filled(build));
    true
}

/// Reads the list of players.
///
/// # Errors
///
/// A count is invalid, or does not fit the number of words.
pub(super) fn read_players(words: &[&[u8]], notes: &mut Notes) -> Result<Vec<Player>, Error> {
    let count_of = |word: Option<&&[u8]>, field, limit: usize| {
        let count = word
            .and_then(|word| int(word))
            .and_then(|count| usize::try_from(count).ok());
        match count {
            None => Err(Error::bad(field, 0, "a number")),
            Some(count) if count > limit => Err(Error::limit(field, 0, limit)),
            Some(count) => Ok(count),
        }
    };
    let columns = count_of(words.get(1), "number of columns", MAX_COLUMNS)?;
    let names = words.get(2..2 + columns);
    let names = names.ok_or(Error::bad("columns", 0, "as many as their number"))?;
    let players = words.get(2 + columns);
    let count = count_of(players, "number of players", MAX_PLAYERS)?;
    let cells = words.get(3 + columns..).unwrap_or_default();
    // A server that changes its level can send a list of nothing.
    if columns == 0 && count == 0 && cells.is_empty() {
        return Ok(Vec::new());
    }
    if columns == 0 || cells.len() != count * columns {
        return Err(Error::bad("players", 0, "a word for each column"));
    }
    let rows = cells.chunks_exact(columns).take(count);
    Ok(rows.map(|row| player(names, row, notes)).collect())
}

fn player(columns: &[&[u8]], row: &[&[u8]], notes: &mut Notes) -> Player {
    let mut player = Player::default();
    let mut other: Vec<(CompactString, Value)> = Vec::new();
    for (column, word) in columns.iter().zip(row) {
        let number = int(word);
        let mut add = |key: &'static str| {
            player
                .extra
                .extend(number.map(|number| Extra::new(key, number)));
        };
        match *column {
            b"name" => {
                let (name, is_latin1) = by_content(word);
                if is_latin1 {
                    notes.deviation(&LATIN1, 0);
                }
                player.name = Text::unformatted(name).from_single_byte(is_latin1);
                continue;
            }
            b"clanTag" => {
                let clan = filled(word.trim_ascii_end());
                player
                    .extra
                    .extend(clan.map(|clan| Extra::new("clan", clan)));
                continue;
            }
            b"teamId" => {
                player.team = filled(word);
                continue;
            }
            b"score" => player.score = number,
            b"ping" => {
                player.latency_ms = number.and_then(|number| i32::try_from(number).ok());
            }
            b"squadId" => add("squad"),
            b"kills" => add("kills"),
            b"deaths" => add("deaths"),
            b"rank" => add("rank"),
            b"type" => add("type"),
            // Empty without a login.
            _ if word.is_empty() => continue,
            _ => {
                let name: String = by_content(column).0.into();
                let value = Value::from(&*by_content(word).0);
                other.push((name.into(), value));
                continue;
            }
        }
        if number.is_none() {
            notes.deviation(&ODD_NUMBER, 0);
        }
    }
    if !other.is_empty() {
        player.extra.push(Extra::new("other", Value::Table(other)));
    }
    player
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn teams_are_limited() {
        for (teams, is_valid) in [
            ("0", true),
            ("", true),
            ("16", true),
            ("17", false),
            ("x", false),
        ] {
            let mut words = Vec::from([OK, b"Test", b"1", b"32", b"", b"MP_001", b"0", b"1"]);
            words.push(teams.as_bytes());
            words.extend([&b"7"[..]; 25]);
            let mut status = Status::default();
            let mut notes = Notes::default();
            read_info(&words, &mut status, &mut notes);
            assert_eq!(status.players.max, Some(32), "{teams}");
            assert_eq!(status.extra("rounds"), Some(&Value::Int(1)), "{teams}");
            assert_eq!(status.extra.len() > 2, is_valid, "{teams}");
        }
    }

    #[test]
    fn lists_with_missing_words_are_rejected() {
        let words = [
            OK, b"2", b"name", b"score", b"2", b"Al", b"3", b"Bo", b"5", b"7",
        ];
        for length in 1..=words.len() {
            let list = read_players(&words[..length], &mut Notes::default());
            assert_eq!(list.is_ok(), length == 9, "{length}");
        }
        let error = |at: usize, word: &'static [u8]| {
            let mut words = words;
            words[at] = word;
            let list = read_players(&words, &mut Notes::default());
            list.unwrap_err().to_string()
        };
        assert_eq!(
            error(1, b"200"),
            "number of columns at offset 0: more than 32, the most accepted"
        );
        assert_eq!(
            error(4, b"4000000000"),
            "number of players at offset 0: more than 256, the most accepted"
        );
    }
}
