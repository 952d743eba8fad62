//! What a running responder says of itself: one type for the control socket, the metrics and the live view.
//!
//! Counters only grow, from 0 at the start of the process. Whoever wants rates takes two snapshots and divides by the
//! difference of their `uptime_s`.

use hailer::respond::{REASONS, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name and version of the JSON form, as in schema/serve-status-v1.json.
pub(crate) const SCHEMA: &str = "hailer/serve-status/1";
/// The most prefixes in [`Snapshot::top`].
pub(crate) const TOP: usize = 20;

/// The responder at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// [`SCHEMA`].
    pub(crate) schema: String,
    /// Version of the program.
    pub(crate) version: String,
    /// Number of the process.
    pub(crate) pid: u32,
    /// When it started, seconds since 1970.
    pub(crate) started: u64,
    /// How long it runs, seconds of a clock that nobody sets.
    pub(crate) uptime_s: f64,
    /// Threads that answer.
    pub(crate) workers: u32,
    /// Where it listens, each address once.
    pub(crate) listeners: Vec<Listener>,
    /// What is left for askers that have proved nothing.
    pub(crate) budget: Budget,
    /// What passes through to game servers behind.
    pub(crate) relay: Relay,
    /// Where the truth comes from, each name once.
    pub(crate) sources: Vec<Source>,
    /// The networks that ask most, busiest first, at most [`TOP`]. Outsiders choose what stands here.
    pub(crate) top: Vec<Prefix>,
}

impl Default for Snapshot {
    /// This process and nothing done yet.
    fn default() -> Self {
        Self {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            started: 0,
            uptime_s: 0.0,
            workers: 0,
            listeners: Vec::new(),
            budget: Budget::default(),
            relay: Relay::default(),
            sources: Vec::new(),
            top: Vec::new(),
        }
    }
}

/// One address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listener {
    /// Address and port.
    pub(crate) address: String,
    /// Ids of the protocols answered there.
    pub(crate) protocols: Vec<String>,
    /// What was done there.
    pub(crate) counts: Counts,
}

/// What was done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Datagrams received.
    pub(crate) received: u64,
    /// Replies to askers that proved their address.
    pub(crate) answered: u64,
    /// Replies to askers that proved nothing: challenges, and all of a protocol without challenges.
    pub(crate) unverified: u64,
    /// Bytes received, of UDP payload.
    pub(crate) bytes_in: u64,
    /// Bytes sent, of UDP payload.
    pub(crate) bytes_out: u64,
    /// Datagrams passed to the game server behind.
    pub(crate) relayed: u64,
    /// Datagrams of the game server passed back.
    #[serde(default)]
    pub(crate) relayed_back: u64,
    /// Datagrams lost before they were received, since the system had no room for more.
    #[serde(default)]
    pub(crate) overflows: u64,
    /// Datagrams in each protocol, answered or not.
    #[serde(default)]
    pub(crate) requests: BTreeMap<String, u64>,
    /// Replies by protocol and kind: `answer` to askers that proved their address, `unverified` to others.
    pub(crate) answers: BTreeMap<String, BTreeMap<String, u64>>,
    /// Datagrams left unanswered, by the key of one of the [`reasons`].
    pub(crate) dropped: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts drops for a reason in the words of the library.
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

    /// Adds what was done elsewhere.
    pub(crate) fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.answered += other.answered;
        self.unverified += other.unverified;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.relayed += other.relayed;
        self.relayed_back += other.relayed_back;
        self.overflows += other.overflows;
        for (protocol, count) in &other.requests {
            *self.requests.entry(protocol.clone()).or_default() += count;
        }
        for (protocol, kinds) in &other.answers {
            kinds
                .iter()
                .for_each(|(kind, count)| self.reply(protocol, kind, *count));
        }
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason.clone()).or_default() += count;
        }
    }

    /// Datagrams left unanswered, for any reason.
    pub(crate) fn all_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Replies of one protocol, of any kind.
    pub(crate) fn of(&self, protocol: &str) -> u64 {
        self.answers
            .get(protocol)
            .map_or(0, |kinds| kinds.values().sum())
    }
}

/// The key of reasons that the library does not know: a protocol of somebody else may give any.
const OTHER: &str = "other";

/// The key of every reason there is.
pub(crate) fn reasons() -> impl Iterator<Item = String> {
    REASONS.iter().map(Reason::key).chain([OTHER.into()])
}

/// The words for a key. One of a newer program stands for itself.
pub(crate) fn in_words(key: &str) -> &str {
    match Reason::find(key) {
        Some(reason) => reason.words,
        None if key == OTHER => "for another reason",
        None => key,
    }
}

/// What may be sent to askers that have proved nothing, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Budget {
    /// Bytes that could be sent at this moment.
    pub(crate) left_bytes: u64,
    /// Bytes that flow back in a second; also the most that is ever left. 0: no limit.
    pub(crate) bytes_per_second: u64,
    /// Networks that the table remembers.
    pub(crate) sources: u64,
    /// Networks that it has room for.
    pub(crate) places: u64,
}

/// Sessions with game servers behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relay {
    /// Open at this moment.
    pub(crate) sessions: u64,
    /// The most that may be open. 0: there is no relay.
    pub(crate) places: u64,
}

/// Where the truth comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// The server's name in the configuration, or what stands for it.
    pub(crate) name: String,
    /// `fixed`, `demo`, `file`, `poll`, `push`, `redis`.
    pub(crate) kind: String,
    /// How old the truth is, seconds. None: there never was any.
    pub(crate) age_s: Option<f64>,
    /// What follows from its age.
    pub(crate) state: State,
    /// What went wrong last, if it has not gone right since.
    pub(crate) last_error: Option<String>,
}

/// What follows from the age of the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Young enough.
    Fresh,
    /// Too old, and served all the same.
    Stale,
    /// Too old: nobody is answered.
    Silent,
    /// There was no truth yet.
    #[default]
    Never,
}

impl State {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Fresh, Self::Stale, Self::Silent, Self::Never];

    /// As in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Silent => "silent",
            Self::Never => "never",
        }
    }

    /// Whether anybody gets an answer.
    pub(crate) fn answers(self) -> bool {
        matches!(self, Self::Fresh | Self::Stale)
    }
}

/// A network that asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prefix {
    /// Such as `192.0.2.0/24`.
    pub(crate) prefix: String,
    /// Datagrams from there in a second, of late.
    pub(crate) packets_per_s: f64,
    /// Their bytes in a second, of UDP payload, of late.
    pub(crate) bytes_per_s: f64,
    /// Replies to there in a second, of late. The rest of the datagrams was dropped, or passed to a game server.
    #[serde(default)]
    pub(crate) replies_per_s: f64,
    /// Bytes of replies to there in a second, of late.
    #[serde(default)]
    pub(crate) reply_bytes_per_s: f64,
}

#[cfg(test)]
mod tests {
    use super::super::invented::snapshot;
    use super::*;

    #[test]
    fn json_comes_back_as_it_was() {
        for seconds in [0.0, 1.5, 4000.25] {
            let snapshot = snapshot(seconds);
            let json = serde_json::to_string(&snapshot).unwrap();
            assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
        }
    }

    #[test]
    fn json_is_as_the_schema_says() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../schema/serve-status-v1.json"
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
        // The schema lists the reasons and states that there are.
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
