//! JSON that goes through Redis: results, statuses and state records.
//!
//! Only nodes of the same cluster read it. It is still parsed with care: another program that can
//! write to Redis may send invalid data, and must not be able to do more.

use crate::health::{Health, State};
use crate::history::{Batch, PlayerSession};
use crate::poll::{ChangeLimit, ServerState};
use crate::sample::{Event, Millis, PollError, Sample};
use crate::server::{Server, ServerId};
use crate::state::LastStatus;
use compact_str::CompactString;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// One entry of `results`.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct ResultsEntry {
    /// Id of the worker.
    pub(super) by: String,
    /// When the first of these samples was taken, by the clock of Redis. Earlier versions wrote none.
    #[serde(default)]
    pub(super) taken: Option<Millis>,
    /// Samples with the state after each.
    pub(super) rows: Vec<SampleRecord>,
    /// Time that each sample stands for, in milliseconds. Earlier versions wrote none.
    #[serde(default)]
    pub(super) observed: Vec<u32>,
    /// Errors that rows refer to. JSON has each as a list of keyword and sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(serialize_with = "as_lists")]
    pub(super) errors: Vec<Arc<PollError>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<Event>,
    /// For each server that is flapping, the times of its last changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) flapping: Vec<(ServerId, Vec<Millis>)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sessions: Vec<PlayerSession>,
}

fn as_lists<S: Serializer>(errors: &[Arc<PollError>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(errors.iter().map(|error| (&error.kind, &error.message)))
}

/// A sample and the state after it. JSON has it as a list in the order of the fields.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(from = "SampleTuple", into = "SampleTuple")]
pub(super) struct SampleRecord {
    pub(super) sample: Sample,
    pub(super) state: State,
    pub(super) is_flapping: bool,
    /// Whether the state was reported, see [`Health::is_settled`].
    pub(super) is_settled: bool,
    /// When the server entered this state, in Unix milliseconds.
    pub(super) since: Millis,
    /// Index into `errors` of the entry.
    error: Option<u16>,
}

/// Server, time, answered, players, maximum, latency, sent, resent, state (0 down, 1 unknown, 2 up;
/// 4 is added while flapping, 8 while the state was not reported), since, error.
type SampleTuple = (
    i64,
    Millis,
    u8,
    Option<u32>,
    Option<u32>,
    Option<u32>,
    u16,
    u16,
    u8,
    Millis,
    Option<u16>,
);

const FLAPPING_BIT: u8 = 4;
const UNSETTLED_BIT: u8 = 8;

impl From<SampleRecord> for SampleTuple {
    fn from(record: SampleRecord) -> Self {
        let Sample {
            server,
            at,
            is_answered,
            players,
            max,
            latency,
            sent,
            resent,
            observed_ms: _,
        } = record.sample;
        let mut state = match record.state {
            State::Down => 0,
            State::Unknown => 1,
            State::Up => 2,
        };
        if record.is_flapping {
            state |= FLAPPING_BIT;
        }
        if !record.is_settled {
            state |= UNSETTLED_BIT;
        }
        (
            server.0,
            at,
            is_answered.into(),
            players,
            max,
            latency,
            sent,
            resent,
            state,
            record.since,
            record.error,
        )
    }
}

impl From<SampleTuple> for SampleRecord {
    fn from(tuple: SampleTuple) -> Self {
        let (server, at, answered, players, max, latency, sent, resent, state, since, error) =
            tuple;
        Self {
            sample: Sample {
                observed_ms: 0,
                server: ServerId(server),
                at,
                is_answered: answered != 0,
                players,
                max,
                latency,
                sent,
                resent,
            },
            state: match state & !(FLAPPING_BIT | UNSETTLED_BIT) {
                0 => State::Down,
                2 => State::Up,
                _ => State::Unknown,
            },
            is_flapping: state & FLAPPING_BIT != 0,
            is_settled: state & UNSETTLED_BIT == 0,
            since,
            error,
        }
    }
}

impl SampleRecord {
    pub(super) fn new(sample: Sample, health: &Health, error: Option<u16>) -> Self {
        Self {
            sample,
            state: health.state,
            is_flapping: health.is_flapping,
            is_settled: health.is_settled(),
            since: health.since,
            error,
        }
    }

    /// Returns the index of the error in the entry.
    pub(super) fn error(&self) -> Option<usize> {
        self.error.map(usize::from)
    }
}

impl ResultsEntry {
    /// Parses an entry.
    pub(super) fn read(json: &[u8]) -> Option<Self> {
        let mut entry: Self = serde_json::from_slice(json).ok()?;
        for (row, observed) in entry.rows.iter_mut().zip(&entry.observed) {
            row.sample.observed_ms = *observed;
        }
        Some(entry)
    }

    /// Returns the parts that go into the history.
    pub(super) fn batch(self) -> Batch {
        let samples = self.rows.iter().map(|row| row.sample).collect();
        Batch {
            samples,
            events: self.events,
            sessions: self.sessions,
        }
    }
}

/// One server in an entry of `statuses`. Its long parts are concatenated in the field `bytes` of the
/// entry.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct StatusEntry {
    pub(super) server: ServerId,
    words: Arc<LastStatus>,
    players: Box<[CompactString]>,
    is_whole: bool,
    #[serde(default)]
    is_sample: bool,
    /// Lengths in bytes of the answer and of each reply.
    answer: usize,
    replies: Vec<usize>,
}

impl StatusEntry {
    /// Creates an entry, and appends the long parts to `bytes`.
    pub(super) fn new(server: ServerId, status: &Arc<LastStatus>, bytes: &mut Vec<u8>) -> Self {
        bytes.extend_from_slice(&status.answer);
        bytes.extend(status.replies.iter().flatten());
        Self {
            server,
            words: status.clone(),
            players: status.players.clone(),
            is_whole: status.is_whole,
            is_sample: status.is_sample,
            answer: status.answer.len(),
            replies: status.replies.iter().map(|reply| reply.len()).collect(),
        }
    }

    /// Takes the long parts from the front of `bytes`. Returns `None` if bytes are missing.
    pub(super) fn status(self, bytes: &mut &[u8]) -> Option<(ServerId, LastStatus)> {
        let mut take = |len: usize| {
            let (part, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Some(part.into())
        };
        let status = LastStatus {
            players: self.players,
            is_whole: self.is_whole,
            is_sample: self.is_sample,
            answer: take(self.answer)?,
            replies: self.replies.into_iter().map(take).collect::<Option<_>>()?,
            ..Arc::unwrap_or_clone(self.words)
        };
        Some((self.server, status))
    }
}

/// Returns whether two statuses are equal apart from times.
pub(super) fn is_same_status(one: &LastStatus, other: &LastStatus) -> bool {
    one.title == other.title
        && one.motd == other.motd
        && one.version == other.version
        && one.map == other.map
        && one.game == other.game
        && one.address == other.address
        && one.has_password == other.has_password
        && one.has_anti_cheat == other.has_anti_cheat
        && one.bots == other.bots
        && one.players == other.players
}

/// State of a server for the node that takes it over.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct StateRecord {
    /// Time of the last sample when the record was written, in Unix milliseconds.
    pub(super) at: Millis,
    pub(super) health: Health,
    #[serde(default)]
    pub(super) changes: (f32, Millis),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) words: Option<Arc<LastStatus>>,
}

impl StateRecord {
    pub(super) fn new(at: Millis, known: &ServerState) -> Self {
        Self {
            at,
            health: known.health,
            changes: (known.changes.recent, known.changes.at),
            words: known.last_status.clone(),
        }
    }

    /// Returns a digest of the record without its times. A record is written only when its digest
    /// changes.
    pub(super) fn digest(&self) -> u64 {
        let mut still = serde_json::to_value(self).unwrap_or_default();
        still["at"] = 0.into();
        // Without recent changes, the time of the last one has no meaning.
        if self.changes.0 == 0.0 {
            still["changes"][1] = 0.into();
        }
        if self.words.is_some() {
            still["words"]["at"] = 0.into();
        }
        digest(still.to_string().as_bytes())
    }

    pub(super) fn known(self) -> ServerState {
        let (recent, at) = self.changes;
        ServerState {
            health: self.health,
            last_status: self.words,
            changes: ChangeLimit { recent, at },
        }
    }
}

/// Returns a server as Redis stores it: its description in JSON.
pub(super) fn write_server(server: &Server) -> String {
    serde_json::to_string(server).unwrap_or_default()
}

pub(super) fn read_server(id: i64, json: &[u8]) -> Option<Server> {
    let server: Server = serde_json::from_slice(json).ok()?;
    let id = ServerId(id);
    Some(Server { id, ..server })
}

/// Returns a digest that is the same in each process and version.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    u64::from_be_bytes(digest[..8].try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer::proto::Text;
    use std::time::Duration;

    /// Nodes of earlier versions write and read these forms.
    #[test]
    fn redis_keeps_its_forms() {
        let json = r#"{"name":"a","target":"ugp://b","group":"g","labels":{"k":"v"},"interval":1500,"origin":"api"}"#;
        let server = read_server(7, json.as_bytes()).unwrap();
        assert_eq!(
            (server.id, write_server(&server)),
            (ServerId(7), json.into())
        );
        assert_eq!(server.interval, Some(Duration::from_millis(1_500)));
        let json = r#"{"name":"a","target":"ugp://b","origin":"master"}"#;
        let server = read_server(8, json.as_bytes()).unwrap();
        assert_eq!(write_server(&server), json);
        let json =
            r#"{"by":"n","taken":1,"rows":[],"observed":[],"errors":[["silence","no answer"]]}"#;
        let entry = ResultsEntry::read(json.as_bytes()).unwrap();
        assert_eq!(entry.errors[0].message, "no answer");
        assert_eq!(serde_json::to_string(&entry).unwrap(), json);
    }

    #[test]
    fn entries_survive_encoding() {
        let at = 1_795_284_000_123;
        let server = ServerId(77);
        let sent = 2;
        let sample = Sample {
            observed_ms: 0,
            server,
            at,
            is_answered: true,
            players: Some(7),
            max: None,
            latency: Some(431),
            sent,
            resent: 0,
        };
        let mut health = Health::known(State::Up, at - 5).flapping(at);
        health.state = State::Down;
        let row = SampleRecord::new(sample, &health, Some(3));
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(
            json,
            "[77,1795284000123,1,7,null,431,2,0,12,1795284000118,3]"
        );
        let row: SampleRecord = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (row.sample, row.state, row.is_flapping, row.is_settled),
            (sample, State::Down, true, false)
        );
        assert_eq!((row.since, row.error()), (at - 5, Some(3)));

        let status = LastStatus {
            at,
            title: Some("Hello".into()),
            motd: Some(Text::legacy("\u{A7}aHello")),
            version: Some("1.0".into()),
            players: ["Alice".into()].into(),
            is_whole: true,
            answer: (*b"{}").into(),
            replies: vec![(*b"\0\xff").into(), (*b"").into()],
            ..LastStatus::default()
        };
        let status = Arc::new(status);
        let mut bytes = Vec::new();
        let entry = serde_json::to_string(&StatusEntry::new(server, &status, &mut bytes)).unwrap();
        let entry: StatusEntry = serde_json::from_str(&entry).unwrap();
        let (_, again) = entry.status(&mut &*bytes).unwrap();
        assert!(is_same_status(&status, &again));
        assert_eq!(
            (&again.answer, &again.replies, again.at),
            (&status.answer, &status.replies, at)
        );
        let short: StatusEntry = serde_json::from_str(
            r#"{"server":1,"words":{"at":1},"players":[],"is_whole":true,"answer":99,"replies":[]}"#,
        )
        .unwrap();
        assert!(short.status(&mut &*bytes).is_none(), "a lie is no panic");

        let known = ServerState {
            health,
            last_status: Some(status),
            changes: ChangeLimit { recent: 0.0, at: 9 },
        };
        let memory = StateRecord::new(at, &known);
        assert_eq!(
            memory.digest(),
            StateRecord::new(
                at + 60_000,
                &ServerState {
                    changes: ChangeLimit {
                        recent: 0.0,
                        at: 10
                    },
                    ..known.clone()
                }
            )
            .digest()
        );
        assert_ne!(
            memory.digest(),
            StateRecord::new(
                at,
                &ServerState {
                    health: Health::default(),
                    ..known.clone()
                }
            )
            .digest()
        );
        let read: StateRecord =
            serde_json::from_str(&serde_json::to_string(&memory).unwrap()).unwrap();
        let again = read.known();
        assert_eq!(
            (again.health, again.last_status.unwrap().motd.clone()),
            (health, known.last_status.unwrap().motd.clone())
        );
    }
}
