//! Sessions of players, from one player list to the next. Sans-IO.
//!
//! A session begins when a name is first seen and ends when it was last seen. A player who is
//! absent from two whole lists in a row has left; one list may lack a part. Names are personal
//! data: they can be replaced by a keyed hash, or dropped, before they are stored.
//!
//! A sample of the players begins and continues no session. Sessions that were open before end when
//! their players were not listed for 15 minutes.
//!
//! At most 250,000 sessions are open, and 1,000 on one server; further players are not tracked.

use crate::history::{PlayerSession, player_key};
use crate::poll::PollResult;
use crate::sample::{Event, EventKind, Millis};
use crate::server::ServerId;
use compact_str::CompactString;
use hailer::proto::wire::hexadecimal;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::HashMap;

/// Limit of open sessions on all servers, about 30 MB. Players above this limit are not tracked.
pub const MAX_SESSIONS: usize = 250_000;
/// Limit of open sessions on one server, because a server can report any number of players.
pub const MAX_SESSIONS_PER_SERVER: usize = 1_000;
/// Number of complete lists in a row without a player, after which the player has left.
const ABSENT_LISTS: u8 = 2;
/// On a server that lists only some players, a session ends after this time without its name, in
/// milliseconds.
const UNSEEN_MS: Millis = 15 * 60_000;
/// How often an open session is stored again, in milliseconds.
const WRITE_INTERVAL_MS: Millis = 60_000;

/// A session that was last seen this long before a restart is continued, in milliseconds.
pub const RESUME_MS: Millis = 5 * 60_000;

/// How names of players are stored.
#[derive(Clone, PartialEq, Eq)]
pub enum Privacy {
    /// Stores the names of players unchanged.
    Names,
    /// Stores the first 16 hexadecimal digits of HMAC-SHA256 of the name with this key. A player
    /// has the same digest on all servers, and the name cannot be found without the key.
    Hashed([u8; 32]),
    /// Stores no players.
    Off,
}

impl std::fmt::Debug for Privacy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Names => "Names",
            Self::Hashed(_) => "Hashed",
            Self::Off => "Off",
        })
    }
}

impl Privacy {
    /// Returns the text that the history stores for a name; `None` to store nothing.
    pub fn player(&self, name: &str) -> Option<String> {
        match self {
            _ if name.is_empty() => None,
            Self::Off => None,
            Self::Names => Some(player_key(name).into_owned()),
            Self::Hashed(key) => {
                let mut mac =
                    Hmac::<Sha256>::new_from_slice(key).expect("keys of any length are taken");
                mac.update(name.as_bytes());
                let digest = mac.finalize().into_bytes();
                Some(hexadecimal(&digest[..8]))
            }
        }
    }
}

/// The open sessions of all servers.
#[derive(Debug)]
pub struct SessionTracker {
    privacy: Privacy,
    servers: HashMap<ServerId, Vec<OpenSession>>,
    len: usize,
}

/// An open session. The sessions of a server are sorted by player.
#[derive(Debug)]
struct OpenSession {
    player: CompactString,
    first: Millis,
    last: Millis,
    /// The end that was last written.
    written: Millis,
    absent: u8,
}

impl SessionTracker {
    /// Creates a tracker without sessions.
    pub fn new(privacy: Privacy) -> Self {
        Self {
            privacy,
            servers: HashMap::new(),
            len: 0,
        }
    }

    /// Continues sessions of the history that were open when the monitor stopped.
    pub fn resume(&mut self, sessions: impl IntoIterator<Item = PlayerSession>) {
        for session in sessions {
            let open = self.servers.entry(session.server).or_default();
            let place = open.binary_search_by(|open| (*open.player).cmp(&session.player));
            match place {
                Ok(place) if open[place].last < session.last => {
                    open[place].first = session.first;
                    open[place].last = session.last;
                    open[place].written = session.last;
                }
                Err(place)
                    if self.len < MAX_SESSIONS
                        && open.len() < MAX_SESSIONS_PER_SERVER
                        && self.privacy != Privacy::Off =>
                {
                    open.insert(
                        place,
                        OpenSession::new(
                            session.player.into(),
                            session.first,
                            session.last,
                            session.last,
                        ),
                    );
                    self.len += 1;
                }
                _ => {}
            }
        }
    }

    /// Records the players of a reply, without formatting: all players if `is_whole_list`, else
    /// some of them. Returns the sessions to be stored.
    pub fn see<'a>(
        &mut self,
        server: ServerId,
        at: Millis,
        names: impl IntoIterator<Item = &'a str>,
        is_whole_list: bool,
    ) -> Vec<PlayerSession> {
        if self.privacy == Privacy::Off {
            return Vec::new();
        }
        let mut seen: Vec<String> = names
            .into_iter()
            .filter_map(|name| self.privacy.player(name))
            .take(MAX_SESSIONS_PER_SERVER)
            .collect();
        seen.sort_unstable();
        seen.dedup();
        let mut open = self.servers.remove(&server).unwrap_or_default();
        let mut write = Vec::new();
        self.len -= open.len();
        open.retain_mut(|open| {
            let is_on = seen
                .binary_search_by(|seen| (**seen).cmp(&open.player))
                .is_ok();
            let is_open = open.see(at, is_on, is_whole_list);
            if open.last != open.written
                && (!is_open || open.last - open.written >= WRITE_INTERVAL_MS)
            {
                open.written = open.last;
                write.push(open.session(server));
            }
            is_open
        });
        let known = open.len();
        for player in seen {
            if open[..known]
                .binary_search_by(|open| (*open.player).cmp(&player))
                .is_ok()
            {
                continue;
            }
            if self.len + open.len() >= MAX_SESSIONS || open.len() >= MAX_SESSIONS_PER_SERVER {
                continue;
            }
            write.push(PlayerSession {
                server,
                player: player.clone(),
                first: at,
                last: at,
            });
            open.push(OpenSession::new(player.into(), at, at, at));
        }
        open.sort_unstable_by(|one, other| one.player.cmp(&other.player));
        if open.capacity() > open.len() + open.len() / 4 {
            open.shrink_to_fit();
        }
        if !open.is_empty() {
            self.len += open.len();
            self.servers.insert(server, open);
        }
        write
    }

    /// Records the players that a poll found, and closes all sessions if the server went down.
    /// Returns the sessions to be stored.
    pub fn record(&mut self, result: &PollResult) -> Vec<PlayerSession> {
        let mut changed = Vec::new();
        let server = result.sample.server;
        if let Some(status) = &result.status {
            // A sample names other players each time, and not only players.
            let listed = status.players.iter().filter(|_| !status.is_sample);
            let names = listed.map(|name| name.as_str());
            let is_whole = status.is_whole && !status.is_sample;
            changed = self.see(server, result.sample.at, names, is_whole);
        }
        let is_down = |event: &Event| matches!(event.kind, EventKind::Down { .. });
        if result.events.iter().any(is_down) {
            changed.extend(self.close(server));
        }
        changed
    }

    /// Closes all sessions of a server that is down or was removed. Returns the sessions to be
    /// stored.
    pub fn close(&mut self, server: ServerId) -> Vec<PlayerSession> {
        let open = self.servers.remove(&server).unwrap_or_default();
        self.len -= open.len();
        open.iter()
            .filter(|open| open.last != open.written)
            .map(|open| open.session(server))
            .collect()
    }

    /// Closes the sessions of all servers for which `is_over` holds. Returns the sessions to be
    /// stored.
    pub fn close_if(&mut self, is_over: impl Fn(ServerId) -> bool) -> Vec<PlayerSession> {
        let servers: Vec<ServerId> = self
            .servers
            .keys()
            .copied()
            .filter(|server| is_over(*server))
            .collect();
        servers
            .into_iter()
            .flat_map(|server| self.close(server))
            .collect()
    }

    /// Closes all sessions when the monitor stops. Returns the sessions to be stored.
    pub fn close_all(&mut self) -> Vec<PlayerSession> {
        self.close_if(|_| true)
    }

    /// Returns the number of open sessions.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no open sessions.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl OpenSession {
    fn new(player: CompactString, first: Millis, last: Millis, written: Millis) -> Self {
        Self {
            player,
            first,
            last,
            written,
            absent: 0,
        }
    }

    /// Updates the session and returns whether it is still open.
    fn see(&mut self, at: Millis, is_on: bool, is_whole_list: bool) -> bool {
        if is_on {
            // Time never goes backwards in a session.
            self.last = self.last.max(at);
            self.absent = 0;
            return true;
        }
        self.absent += u8::from(is_whole_list);
        self.absent < ABSENT_LISTS && (is_whole_list || at - self.last < UNSEEN_MS)
    }

    fn session(&self, server: ServerId) -> PlayerSession {
        PlayerSession {
            server,
            player: self.player.to_string(),
            first: self.first,
            last: self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::ServerState;
    use crate::sample::Sample;
    use crate::state::LastStatus;
    use std::sync::Arc;

    const MINUTE: Millis = 60_000;
    const SERVER: ServerId = ServerId(1);

    /// Returns the sessions to be written, in minutes: `Alice 0-5`.
    fn shown(sessions: &[PlayerSession]) -> String {
        let shown = sessions.iter().map(|session| {
            format!(
                "{} {}-{}",
                session.player,
                session.first as f64 / MINUTE as f64,
                session.last as f64 / MINUTE as f64
            )
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_session_goes_from_first_to_last_seen() {
        let mut sessions = SessionTracker::new(Privacy::Names);
        let mut see = |half_minutes: Millis, names: &str, is_whole_list| {
            let names = names.split(' ').filter(|name| *name != "-");
            shown(&sessions.see(SERVER, half_minutes * MINUTE / 2, names, is_whole_list))
        };
        assert_eq!(see(0, "Bob Alice Bob", true), "Alice 0-0, Bob 0-0");
        assert_eq!(see(1, "Alice Bob", true), "", "once a minute is enough");
        assert_eq!(see(2, "Alice", true), "Alice 0-1");
        assert_eq!(
            see(3, "Alice Bob", true),
            "Bob 0-1.5",
            "absent once is not gone"
        );
        assert_eq!(see(4, "Alice", true), "Alice 0-2");
        assert_eq!(
            see(5, "Alice", true),
            "",
            "the session of Bob was stored when it ended"
        );
        assert_eq!(see(6, "Bob Alice", true), "Alice 0-3, Bob 3-3");
        assert_eq!(see(7, "Bob", true), "");
        assert_eq!(see(8, "-", false), "", "a partial list ends no session");
        assert_eq!(see(9, "Alice", false), "Alice 0-4.5");
        assert_eq!(
            see(38, "-", false),
            "Bob 3-3.5",
            "unseen for fifteen minutes"
        );
        assert_eq!(shown(&sessions.close(SERVER)), "");
        assert!(sessions.is_empty());
        assert_eq!(
            shown(&sessions.see(SERVER, 20 * MINUTE, ["Alice"], true)),
            "Alice 20-20"
        );
    }

    /// Returns the result of a poll at a minute, with these names.
    fn poll(minute: Millis, names: &[&str], is_whole: bool, is_sample: bool) -> PollResult {
        let status = LastStatus {
            players: names.iter().map(|name| (*name).into()).collect(),
            is_whole,
            is_sample,
            ..LastStatus::default()
        };
        let sample = Sample {
            observed_ms: 0,
            server: SERVER,
            at: minute * MINUTE,
            is_answered: true,
            players: Some(40),
            max: None,
            latency: None,
            sent: 1,
            resent: 0,
        };
        PollResult {
            sample,
            error: None,
            status: Some(Arc::new(status)),
            events: Vec::new(),
            state: ServerState::default(),
        }
    }

    #[test]
    fn a_sample_begins_no_session_and_ends_none() {
        let mut sessions = SessionTracker::new(Privacy::Names);
        // Each poll lists other players, and texts of the owner.
        for minute in 0..30 {
            let names = [
                &*format!("Player{minute}"),
                "Visit our shop",
                "------------",
            ];
            for is_whole in [false, true] {
                let result = poll(minute, &names, is_whole, true);
                assert_eq!(shown(&sessions.record(&result)), "");
            }
            assert!(sessions.is_empty());
        }
        // Another protocol of the server lists all players, but loses some polls.
        let whole = poll(30, &["Alice", "Bob"], true, false);
        assert_eq!(shown(&sessions.record(&whole)), "Alice 30-30, Bob 30-30");
        for minute in 31..34 {
            let sample = poll(minute, &["Carol"], false, true);
            assert_eq!(shown(&sessions.record(&sample)), "");
        }
        let whole = poll(34, &["Alice", "Bob"], true, false);
        assert_eq!(shown(&sessions.record(&whole)), "Alice 30-34, Bob 30-34");
        // Only samples follow: the sessions end where the players were last seen.
        for minute in 35..60 {
            assert_eq!(
                shown(&sessions.record(&poll(minute, &["Alice"], false, true))),
                ""
            );
        }
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_restart_does_not_part_a_session() {
        let mut sessions = SessionTracker::new(Privacy::Names);
        let session = |player: &str, first, last| PlayerSession {
            server: SERVER,
            player: player.into(),
            first,
            last,
        };
        sessions.resume([
            session("Bob", 0, 1),
            session("Alice", 3, 9 * MINUTE),
            session("Bob", 2, 9 * MINUTE),
        ]);
        assert_eq!(
            sessions.see(SERVER, 10 * MINUTE, ["Alice", "Bob"], true),
            [
                session("Alice", 3, 10 * MINUTE),
                session("Bob", 2, 10 * MINUTE)
            ]
        );
    }

    #[test]
    fn names_can_be_hashed_or_left_out() {
        // HMAC-SHA256 of "Alice" with 32 bytes 0x0b, computed with another implementation.
        let hashed = Privacy::Hashed([0x0b; 32]);
        assert_eq!(hashed.player("Alice").unwrap(), "d4ebe7640766f7c7");
        assert_ne!(hashed.player("alice"), hashed.player("Alice"));
        assert_eq!(hashed.player(""), None);
        assert_eq!(format!("{hashed:?}"), "Hashed", "no key in logs");
        let mut sessions = SessionTracker::new(Privacy::Off);
        assert_eq!(sessions.see(SERVER, 0, ["Alice"], true), []);
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_server_can_claim_any_number_of_players() {
        let mut sessions = SessionTracker::new(Privacy::Names);
        let names: Vec<String> = (0..5_000)
            .map(|number| format!("player {number}{}", "\0é".repeat(1_000)))
            .collect();
        for round in 0..3 {
            let names = names[round * 1_000..].iter().map(String::as_str);
            let written = sessions.see(SERVER, round as Millis * MINUTE, names, true);
            assert!(
                written
                    .iter()
                    .all(|session| session.player.len() <= 128 && !session.player.contains('\0'))
            );
            assert!(sessions.len() <= MAX_SESSIONS_PER_SERVER);
        }
    }
}
