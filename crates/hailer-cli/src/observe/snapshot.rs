//! The state of a running responder: one type for the control socket, the metrics and the live
//! view.
//!
//! Counters only grow, from 0 at the start of the process. Rates are differences between two
//! snapshots, divided by the difference of their `uptime_s`.

use hailer::door::State as DoorState;
use hailer::respond::{REASONS, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name and version of the JSON form, as in schema/serve-status-v2.json.
pub(crate) const SCHEMA: &str = "hailer/serve-status/2";
/// Maximum number of prefixes in [`Snapshot::top`].
pub(crate) const TOP: usize = 20;

/// State of the responder at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// [`SCHEMA`].
    pub(crate) schema: String,
    /// Version of the program.
    pub(crate) version: String,
    /// Process id of the responder.
    pub(crate) pid: u32,
    /// Start of the process, in Unix milliseconds.
    pub(crate) started_at_ms: u64,
    /// Uptime in seconds of a monotonic clock.
    pub(crate) uptime_s: f64,
    /// Number of worker threads.
    pub(crate) workers: u32,
    /// The listening addresses.
    pub(crate) listeners: Vec<Listener>,
    /// Budget for unverified addresses.
    pub(crate) budget: Budget,
    /// Sessions of relays.
    pub(crate) relay: Relay,
    /// Sources and networks of the servers.
    pub(crate) sources: Vec<Source>,
    /// Games that sleep while they have no players.
    #[serde(default)]
    pub(crate) doors: Vec<Door>,
    /// The busiest source networks, at most [`TOP`]. Clients choose this content.
    pub(crate) top: Vec<Prefix>,
}

impl Default for Snapshot {
    /// Returns a snapshot of this process with all counts 0.
    fn default() -> Self {
        Self {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            started_at_ms: 0,
            uptime_s: 0.0,
            workers: 0,
            listeners: Vec::new(),
            budget: Budget::default(),
            relay: Relay::default(),
            sources: Vec::new(),
            doors: Vec::new(),
            top: Vec::new(),
        }
    }
}

/// A listening address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listener {
    /// Address and port.
    pub(crate) address: String,
    /// Ids of its protocols.
    pub(crate) protocols: Vec<String>,
    /// Counts since the start.
    pub(crate) counts: Counts,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Number of datagrams received.
    pub(crate) received: u64,
    /// Number of connections accepted.
    #[serde(default)]
    pub(crate) connections: u64,
    /// Connections that are open now.
    #[serde(default)]
    pub(crate) open_connections: u64,
    /// Attempts to join the game, on connections.
    #[serde(default)]
    pub(crate) join_attempts: u64,
    /// Replies to verified addresses, and connections with a reply.
    pub(crate) answered: u64,
    /// Replies to unverified addresses: challenges, and all replies of protocols without
    /// challenges.
    pub(crate) unverified: u64,
    /// Bytes received, of UDP and TCP payload.
    pub(crate) received_bytes: u64,
    /// Bytes sent, of UDP and TCP payload.
    pub(crate) sent_bytes: u64,
    /// Connections held now, until the game runs.
    #[serde(default)]
    pub(crate) held_connections: u64,
    /// Connections passed on to the game server.
    #[serde(default)]
    pub(crate) relayed_connections: u64,
    /// Connections passed on to the game server that are open now.
    #[serde(default)]
    pub(crate) open_relayed_connections: u64,
    /// Bytes of connections passed on to the game server.
    #[serde(default)]
    pub(crate) relayed_bytes: u64,
    /// Bytes of the game server passed back on connections.
    #[serde(default)]
    pub(crate) relayed_back_bytes: u64,
    /// Datagrams forwarded to the game server.
    pub(crate) relayed: u64,
    /// Datagrams of the game server forwarded to clients.
    pub(crate) relayed_back: u64,
    /// Datagrams that the system dropped because the receive queue was full.
    pub(crate) lost: u64,
    /// Datagrams or connections of each protocol, answered or not.
    pub(crate) requests: BTreeMap<String, u64>,
    /// Replies by protocol and kind: `answer` to verified addresses, `unverified` to others.
    pub(crate) answers: BTreeMap<String, BTreeMap<String, u64>>,
    /// Datagrams and connections not answered, by the key of one of the [`reasons`].
    pub(crate) dropped: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts drops by a reason of the library.
    pub(crate) fn drop(&mut self, reason: &str, count: u64) {
        let key = Reason::find(reason).map_or_else(|| OTHER.into(), Reason::key);
        *self.dropped.entry(key).or_default() += count;
    }

    /// Counts replies of a protocol.
    pub(crate) fn reply(&mut self, protocol: &str, kind: &str, count: u64) {
        *self
            .answers
            .entry(protocol.into())
            .or_default()
            .entry(kind.into())
            .or_default() += count;
    }

    /// Adds the counts of another listener.
    pub(crate) fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.connections += other.connections;
        self.open_connections += other.open_connections;
        self.join_attempts += other.join_attempts;
        self.answered += other.answered;
        self.unverified += other.unverified;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.held_connections += other.held_connections;
        self.relayed_connections += other.relayed_connections;
        self.open_relayed_connections += other.open_relayed_connections;
        self.relayed_bytes += other.relayed_bytes;
        self.relayed_back_bytes += other.relayed_back_bytes;
        self.relayed += other.relayed;
        self.relayed_back += other.relayed_back;
        self.lost += other.lost;
        for (protocol, count) in &other.requests {
            *self.requests.entry(protocol.clone()).or_default() += count;
        }
        for (protocol, kinds) in &other.answers {
            for (kind, count) in kinds {
                self.reply(protocol, kind, *count);
            }
        }
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason.clone()).or_default() += count;
        }
    }

    /// Returns the number of datagrams and connections not answered.
    pub(crate) fn all_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Returns the number of replies of a protocol.
    #[cfg(any(test, feature = "top"))]
    pub(crate) fn of(&self, protocol: &str) -> u64 {
        self.answers
            .get(protocol)
            .map_or(0, |kinds| kinds.values().sum())
    }
}

/// The key of unknown reasons, which protocols of other crates may have.
const OTHER: &str = "other";

/// Returns the keys of all reasons.
pub(crate) fn reasons() -> impl Iterator<Item = String> {
    REASONS.iter().map(Reason::key).chain([OTHER.into()])
}

/// Returns the description of a key. An unknown key is returned unchanged.
pub(crate) fn in_words(key: &str) -> &str {
    match Reason::find(key) {
        Some(reason) => reason.words,
        None if key == OTHER => "for another reason",
        None => key,
    }
}

/// Budget for all unverified addresses together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Budget {
    /// Bytes that can be sent now.
    pub(crate) left_bytes: u64,
    /// Bytes added per second, which is also the maximum. 0: no limit.
    pub(crate) bytes_per_s: u64,
    /// Source networks in the table.
    pub(crate) networks: u64,
    /// Capacity of the table.
    pub(crate) networks_max: u64,
}

/// Sessions of relays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relay {
    /// Number of open sessions.
    pub(crate) sessions: u64,
    /// Maximum number of sessions. 0: no relay.
    pub(crate) sessions_max: u64,
}

/// A source of a status, or a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// Name of the server, such as `server 1`.
    pub(crate) name: String,
    /// `fixed`, `demo`, `file`, `poll`, `push` or `network`.
    pub(crate) kind: String,
    /// Age of the last status in seconds. `None`: no status yet.
    pub(crate) age_s: Option<f64>,
    /// State that follows from the age.
    pub(crate) state: State,
    /// The last error, until the next success.
    pub(crate) last_error: Option<String>,
}

/// State of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Younger than the limit.
    Fresh,
    /// Older than the limit, and still used.
    Stale,
    /// Older than the limit: no replies.
    Silent,
    /// No status yet.
    #[default]
    Never,
}

impl State {
    /// All states of a source.
    pub(crate) const ALL: [Self; 4] = [Self::Fresh, Self::Stale, Self::Silent, Self::Never];

    /// Returns the name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Silent => "silent",
            Self::Never => "never",
        }
    }

    /// Returns whether the source answers queries.
    pub(crate) fn answers(self) -> bool {
        matches!(self, Self::Fresh | Self::Stale)
    }
}

/// The door of a game that sleeps while it has no players. Numbers count from the setup of the
/// door, also by an earlier process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Door {
    /// Name of the server.
    pub(crate) name: String,
    /// State of the game.
    pub(crate) state: DoorState,
    /// Time in this state, in seconds.
    pub(crate) since_s: f64,
    /// Cause of the last start of the game. Clients choose the names of players. `None`: this
    /// process did not start it.
    pub(crate) woken_by: Option<String>,
    /// Number of starts.
    pub(crate) starts: u64,
    /// Number of starts that failed.
    pub(crate) failed_starts: u64,
    /// Number of times that the game ended by itself.
    pub(crate) crashes: u64,
    /// Number of stops of a game without players.
    pub(crate) idle_stops: u64,
    /// Number of joins that did not start the game because of a limit or a pause.
    pub(crate) held_joins: u64,
    /// Number of joins of clients that may not wake the game.
    pub(crate) refused_joins: u64,
    /// Clients that are passed on to the game now.
    pub(crate) visits: u64,
    /// Players online. `None`: unknown.
    pub(crate) players: Option<u32>,
    /// Time from the last successful start to the first answer, in seconds.
    pub(crate) last_start_s: Option<f64>,
    /// Time in which the game slept, in seconds.
    pub(crate) asleep_s: f64,
    /// Reason of the last failure, until the game runs or sleeps.
    pub(crate) last_error: Option<String>,
}

/// A source network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prefix {
    /// Such as `192.0.2.0/24`.
    pub(crate) prefix: String,
    /// Recent datagrams per second.
    pub(crate) packets_per_s: f64,
    /// Recent bytes of UDP payload per second.
    pub(crate) bytes_per_s: f64,
    /// Recent replies per second. Other datagrams were dropped or forwarded.
    pub(crate) replies_per_s: f64,
    /// Recent bytes of replies per second.
    pub(crate) reply_bytes_per_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::responder::snapshot;

    #[test]
    fn json_survives_a_round_trip() {
        for seconds in [0.0, 1.5, 4000.25] {
            let snapshot = snapshot(seconds);
            let json = serde_json::to_string(&snapshot).unwrap();
            assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
        }
    }

    #[test]
    fn json_matches_the_schema() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../schema/serve-status-v2.json"
        );
        let schema: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for snapshot in [snapshot(0.0), snapshot(4000.0), Snapshot::default()] {
            let json = serde_json::to_value(&snapshot).unwrap();
            let errors: Vec<String> = validator
                .iter_errors(&json)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{}", errors.join("\n"));
        }
        // The schema lists all reasons and states.
        let listed = |path: &str| -> Vec<&str> {
            schema
                .pointer(path)
                .unwrap()
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap())
                .collect()
        };
        let reasons: Vec<String> = reasons().collect();
        assert_eq!(
            listed("/$defs/counts/properties/dropped/propertyNames/enum"),
            reasons
        );
        let states: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
        assert_eq!(listed("/$defs/source/properties/state/enum"), states);
        let states: Vec<&str> = DoorState::ALL.iter().map(|state| state.name()).collect();
        assert_eq!(listed("/$defs/door/properties/state/enum"), states);
    }

    #[test]
    fn reasons_are_those_of_the_library_and_others() {
        let mut counts = Counts::default();
        ["no query", "v1 is off", "budget", "what?"]
            .iter()
            .for_each(|reason| counts.drop(reason, 2));
        assert_eq!(
            counts.dropped.keys().collect::<Vec<_>>(),
            ["budget", "no-query", "other", "v1-is-off"]
        );
        assert_eq!(counts.all_dropped(), 8);
        assert_eq!(
            (in_words("no-query"), in_words("of-tomorrow")),
            ("in no protocol served here", "of-tomorrow")
        );
    }
}
