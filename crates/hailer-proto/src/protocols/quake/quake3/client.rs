//! The client: requests the status and, if that has no number of players, the info
//! (spec/quake3.md#7).

use super::deviation::*;
use super::message::{Kind, Line, Reply, Request};
use crate::model::{Carets, Extra, Player, Status, Text, Value};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Input, Step};
use crate::protocols::quake::infostring::{Infostring, decode};
use crate::protocols::quake::players::{Counts, add_count};
use crate::wire::{Notes, Utf8};
use alloc::{boxed::Box, vec::Vec};
use compact_str::CompactString;

/// Requests of one kind without a reply, after which the exchange continues with the other.
const TRIES: u8 = 2;
/// Length of the challenge. Some servers accept no more.
const CHALLENGE: usize = 8;
/// Default ports of Medal of Honor: Allied Assault and Pacific Assault.
const MEDAL_PORTS: [u16; 2] = [12_203, 13_203];
/// One in this number of requests without a reply is for other games: for Medal of Honor, or on its
/// ports for all others.
const TURNS: u8 = 4;
/// Score of spectators in some games.
const SPECTATOR: i64 = -666;

/// Queries one Quake 3 server.
#[derive(Debug)]
pub struct Quake3Exchange {
    depth: Depth,
    has_players: bool,
    challenge: [u8; CHALLENGE],
    /// The request that was sent last.
    kind: Kind,
    /// Timeouts since the first request of this kind.
    silent: u8,
    /// Requests sent so far.
    sent: u8,
    /// Whether the server is probably one of Medal of Honor.
    is_medal: bool,
    /// The status, while the info is requested.
    status: Option<Box<Status>>,
}

impl Quake3Exchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        let mut bits = cookie.derive(0);
        let challenge = [(); CHALLENGE].map(|()| {
            let letter = b'a' + (bits % 26) as u8;
            bits /= 26;
            letter
        });
        Self {
            depth: ask.depth,
            has_players: ask.has_players,
            challenge,
            kind: match ask.depth {
                Depth::Full => Kind::Status,
                Depth::Ping | Depth::Basic => Kind::Info,
            },
            silent: 0,
            sent: 0,
            is_medal: MEDAL_PORTS.contains(&ask.to.port),
            status: None,
        }
    }

    fn send(&mut self, out: &mut Vec<u8>) -> Step {
        self.sent = self.sent.wrapping_add(1);
        let kind = match self.depth {
            Depth::Full if self.is_for_others() => Kind::Status,
            _ => self.kind,
        };
        Request {
            kind,
            challenge: &self.challenge,
            is_directed: self.is_directed(),
        }
        .write(out);
        Step::Send
    }

    /// Returns whether the last request was for the other games: one in a turn, before there is a
    /// reply.
    fn is_for_others(&self) -> bool {
        self.status.is_none() && self.sent.is_multiple_of(TURNS)
    }

    /// Returns whether the last request was one for Medal of Honor.
    fn is_directed(&self) -> bool {
        self.is_medal != self.is_for_others()
    }

    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        self.silent = self.silent.saturating_add(1);
        if self.depth == Depth::Full && self.silent >= TRIES {
            match self.kind {
                // Some servers reply only to requests for the info.
                Kind::Status => {
                    self.kind = Kind::Info;
                    self.silent = 0;
                }
                Kind::Info if self.status.is_some() => return self.finish("info"),
                Kind::Info => {}
            }
        }
        self.send(out)
    }

    /// Returns the status without the part that was not answered.
    fn finish(&mut self, unanswered: &'static str) -> Step {
        match self.status.take() {
            Some(mut status) => {
                status.extra.push(Extra::new("unanswered", unanswered));
                Step::Done(status)
            }
            None => Step::Wait,
        }
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if Reply::kind_of(bytes).is_none() {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let mut reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => return Step::Bad(error.into()),
        };
        match reply.info.take(&["challenge"]) {
            Some(challenge) if challenge == self.challenge => {}
            Some(b"") => notes.deviation(&EMPTY_CHALLENGE, bytes.len()),
            // A reply to another client or an earlier query.
            Some(_) => return Step::Wait,
            None => notes.deviation(&NO_CHALLENGE, bytes.len()),
        }
        if self.depth == Depth::Ping {
            return Step::Done(Box::new(Status {
                deviations: notes.met().collect(),
                ..Status::default()
            }));
        }
        match (reply.kind, self.status.take()) {
            (Kind::Status, None) if self.depth == Depth::Full => {
                self.receive_status(reply, notes, out)
            }
            // The reply to a repeated request, or to none.
            (Kind::Status, status) => {
                self.status = status;
                Step::Wait
            }
            (Kind::Info, None) => {
                if self.kind == Kind::Status {
                    notes.deviation(&INFO_FOR_STATUS, 0);
                }
                let count = reply.info.number("clients");
                if count.is_none() {
                    notes.deviation(&NO_COUNT, bytes.len());
                }
                let mut status = status(reply, self.has_players, &mut notes);
                // A server sends the info alone if it has no status, or one that is too long.
                let is_part = self.depth == Depth::Full;
                let unanswered = is_part.then(|| Extra::new("unanswered", "status"));
                status.extra.extend(unanswered);
                status.deviations = notes.met().collect();
                Step::Done(status)
            }
            (Kind::Info, Some(status)) => Step::Done(complete(status, &reply.info, &mut notes)),
        }
    }

    fn receive_status(&mut self, reply: Reply<'_>, mut notes: Notes, out: &mut Vec<u8>) -> Step {
        let has_count = reply.info.number("clients").is_some();
        self.is_medal = reply.is_directed || self.is_directed();
        let mut status = status(reply, self.has_players, &mut notes);
        status.deviations = notes.met().collect();
        if has_count {
            return Step::Done(status);
        }
        self.status = Some(status);
        self.kind = Kind::Info;
        self.silent = 0;
        self.send(out)
    }
}

impl Exchange for Quake3Exchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => self.timeout(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            _ => self.finish("info"),
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.depth == Depth::Full && self.kind == Kind::Info)
    }
}

/// Adds the counts of an info reply to a status.
fn complete(mut status: Box<Status>, info: &Infostring<'_>, notes: &mut Notes) -> Box<Status> {
    match info.number("clients") {
        None => notes.deviation(&NO_COUNT, 0),
        Some(clients) => {
            add_count(&mut status, clients, &MISSING_PLAYERS, notes);
            status.players.bots = status.players.bots.or_else(|| bots(info, clients));
        }
    }
    status.players.max = status.players.max.or(info.number("sv_maxclients"));
    status.add_deviations(notes.met());
    status
}

/// Returns the number of bots, from their key or from the number of humans.
fn bots(info: &Infostring<'_>, clients: i64) -> Option<i64> {
    let humans = info.number("g_humanplayers").or(info.number("humans"));
    let others = |humans: i64| clients.checked_sub(humans).filter(|bots| *bots >= 0);
    info.number("bots").or_else(|| humans.and_then(others))
}

/// Returns the color codes of the game, by its variables (spec/quake3.md#6).
pub(super) fn carets<'a>(find: impl Fn(&str) -> Option<&'a [u8]>) -> Carets {
    const DARK_PLACES: &[&str] = &[
        "Xonotic",
        "Nexuiz",
        "Warsow",
        "warsow",
        "Warfork",
        "DarkPlaces",
    ];
    let starts = |key: &str, starts: &[&str]| {
        let value = find(key).unwrap_or_default();
        starts
            .iter()
            .any(|start| value.starts_with(start.as_bytes()))
    };
    if find("daemonver").is_some() {
        Carets::Daemon
    } else if find("gameversion").is_some() || starts("gamename", DARK_PLACES) {
        Carets::DarkPlaces
    } else if starts("version", &["JAmp", "JK2MP", "CoD", "IW"])
        || starts("gamename", &["Call of Duty", "CoD"])
    {
        Carets::Digit
    } else if starts("version", &["Q3", "ET ", "ET2", "Wolf", "SOF2", "RTCW"]) {
        Carets::Visible
    } else {
        Carets::Alphanumeric
    }
}

/// Converts a reply to a status (spec/quake3.md#8).
fn status(reply: Reply<'_>, has_players: bool, notes: &mut Notes) -> Box<Status> {
    let Reply {
        kind,
        mut info,
        players,
        utf8,
        ..
    } = reply;
    let carets = carets(|key| info.find(key));
    let text = |bytes| Text::western_carets(bytes, carets);
    let mut status = Box::<Status>::default();
    status.name = info.take_filled(&["sv_hostname", "hostname"]).map(text);
    status.map = info.take_text(&["mapname"]);
    status.game = info.take_text(&["gamename"]);
    status.mode = info
        .take_text(&["g_gametype", "gametype"])
        .or_else(|| dark_places_mode(&info));
    status.version = info.take_text(&["version", "shortversion", "gameversion", "daemonver"]);
    status.players.max = info.take_number(&["sv_maxclients", "maxclients"]);
    let password = info.take_text(&["g_needpass", "needpass", "pswrd"]);
    status.has_password = password.map(|value| value != "0");
    let protocol = info.take_number(&["protocol"]);
    status
        .extra
        .extend(protocol.map(|protocol| Extra::new("protocol", protocol)));
    let (online, has_list) = match kind {
        Kind::Info => {
            info.take_number(&["listed"]);
            (info.take_number(&["clients"]), false)
        }
        Kind::Status => {
            let counts = Counts::take(&mut info, players.len(), &MISSING_PLAYERS, notes);
            (Some(counts.online), !counts.is_withheld)
        }
    };
    status.players.bots = bots(&info, online.unwrap_or(0).max(0));
    // Unvanquished counts humans.
    let is_humans = kind == Kind::Info && info.find("daemonver").is_some();
    let others = status.players.bots.filter(|_| is_humans).unwrap_or(0);
    status.players.online = online.map(|online| online.saturating_add(others));
    info.take_number(&["bots"]);
    status.rules = info.rules(|bytes| info.decode(bytes));
    if has_players && has_list {
        let mut list = Vec::with_capacity(players.len());
        for line in &players {
            list.push(player(line, utf8, carets));
        }
        status.players.set_list(list);
    }
    status
}

/// Returns the mode of a DarkPlaces game: the first word of its `qcstatus` (spec/quake3.md#8).
fn dark_places_mode(info: &Infostring<'_>) -> Option<CompactString> {
    let text = info.text("qcstatus")?;
    let (mode, _) = text.split_once(':')?;
    let is_word = !mode.is_empty() && mode.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then(|| mode.into())
}

#[inline]
fn player(line: &Line<'_>, utf8: Utf8<'_>, carets: Carets) -> Player {
    let name = match utf8.find(line.name) {
        Some(name) => Text::carets(name, carets),
        None => Text::western_carets(line.name, carets),
    };
    Player {
        name,
        score: line.score,
        latency_ms: line.ping.and_then(|ping| i32::try_from(ping).ok()),
        team: line.team.map(|team| compact_str::format_compact!("{team}")),
        uuid: None,
        time_s: None,
        extra: extra(line),
    }
}

fn extra(line: &Line<'_>) -> Vec<Extra> {
    let text = |bytes: &[u8]| Value::from(decode(bytes));
    let mut extra = Vec::new();
    let score_text = line
        .score_text
        .map(|word| Extra::new("score-text", text(word)));
    extra.extend(score_text);
    if line.score == Some(SPECTATOR) {
        extra.push(Extra::new("spectator", true));
    }
    if !line.further.is_empty() {
        let further = line.further.iter().map(|word| text(word)).collect();
        extra.push(Extra::new("further", Value::List(further)));
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn converted(body: &str) -> Box<Status> {
        let bytes = [&[0xFF; 4], body.as_bytes()].concat();
        let mut notes = Notes::default();
        let reply = Reply::read(&bytes, &mut notes).unwrap();
        status(reply, true, &mut notes)
    }

    #[test]
    fn variables_tell_the_color_codes() {
        for (variables, plain) in [
            ("\\gameversion\\20000", "A"),
            ("\\gamename\\Warfork", "A"),
            ("\\daemonver\\0.54", "A"),
            ("\\version\\Q3 1.32", "0F0A"),
            ("\\version\\CoD4 X 1.7", "^x0F0A"),
            ("", "0F0A"),
        ] {
            let body = "statusResponse\n\\sv_hostname\\^x0F0A".to_string() + variables + "\n";
            let name = converted(&body).name.unwrap();
            assert_eq!(name.plain(), plain, "{variables}");
        }
    }

    #[test]
    fn the_state_of_dark_places_has_the_mode() {
        for (variables, mode) in [
            ("\\qcstatus\\dm:2.5.2::score!!", Some("dm")),
            ("\\qcstatus\\ctf:0.8.6:P0:S8:F8\\gametype\\3", Some("3")),
            ("\\qcstatus\\dm", None),
            ("\\qcstatus\\:2.5.2", None),
            ("\\qcstatus\\d m:2.5.2", None),
        ] {
            let body = "statusResponse\n\\gamename\\Nexuiz".to_string() + variables + "\n";
            let status = converted(&body);
            assert_eq!(status.mode.as_deref(), mode, "{variables}");
            assert!(status.rules.iter().any(|rule| rule.key == "qcstatus"));
        }
    }

    #[test]
    fn a_list_can_be_withheld() {
        let roster = |body: &str| converted(body).players.roster;
        let withheld = roster("statusResponse\n\\clients\\3\\listed\\0\n");
        assert_eq!(withheld, crate::model::Roster::Absent);
        let empty = roster("statusResponse\n\\clients\\0\\listed\\0\n");
        assert_eq!(empty, crate::model::Roster::Whole);
    }

    #[test]
    fn more_humans_than_players_count_no_bots() {
        let bots = |humans: &str| {
            let body = "infoResponse\n\\clients\\3\\g_humanplayers\\".to_string() + humans;
            converted(&body).players.bots
        };
        assert_eq!((bots("1"), bots("3"), bots("5")), (Some(2), Some(0), None));
    }
}
