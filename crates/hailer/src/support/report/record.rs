//! Answers and failures as read from JSON.
//!
//! In: lines in the form of `schema/answer-v2.json`. Out: answers, or why they have none.

use super::{AnswerLine, ErrorRecord, SCHEMA, milliseconds};
use crate::answer::{Answer, FieldSource};
use crate::support::catalog;
use crate::transcript::Transcript;
use hailer_proto::record::StatusRecord;
use hailer_proto::wire::UNREADABLE_MESSAGE;
use hailer_proto::{Deviation, Info, Status};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// A line of `hailer query --json` or `hailer sweep --json`: an answer, or why there is none. Its
/// members are those of `schema/answer-v2.json`. A written record reads back to an equal value.
///
/// ```
/// use hailer::client::ErrorKind;
/// use hailer::support::report::AnswerRecord;
///
/// # const LINE: &str = r#"{"schema":"hailer/answer/2","target":"play.example.com","ok":false,"protocol":null,"address":null,"latency_ms":null,"title":null,"datagrams_sent":null,"datagrams_received":null,"refused":[],"status":null,"error":{"kind":"name-not-found","message":"play.example.com: name not found; check the spelling"}}"#;
/// let record: AnswerRecord = serde_json::from_str(LINE)?;
/// assert_eq!(record.target, "play.example.com");
/// assert_eq!(record.error.unwrap().kind, ErrorKind::NameNotFound);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// Members that a later version adds are ignored, except [extras](Status::extra), which are kept.
/// A deviation or an error that this version does not know becomes
/// [`UNKNOWN_DEVIATION`](hailer_proto::wire::UNKNOWN_DEVIATION) or
/// [`ErrorKind::Other`](crate::client::ErrorKind::Other). Other versions of the schema are errors.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AnswerRecord {
    /// Target as typed.
    pub target: String,
    /// Id of the protocol. `None` if nothing was sent.
    pub protocol: Option<String>,
    /// Address that the query was sent to. `None` if nothing was sent.
    pub address: Option<SocketAddr>,
    /// Shortest time between a request and its reply, in milliseconds. `None` for a failure.
    pub latency_ms: Option<f64>,
    /// Name of the server, or the first readable line of its MOTD. `None` for a failure.
    pub title: Option<String>,
    /// Datagrams sent; over TCP, requests. `None` if nothing was sent.
    pub datagrams_sent: Option<u32>,
    /// Datagrams received; over TCP, messages. `None` if nothing was sent.
    pub datagrams_received: Option<u32>,
    /// Names of the endpoints that the server refused.
    pub refused: Vec<String>,
    /// The status. `None` for a failure.
    pub status: Option<Box<Status>>,
    /// Why there is no status. `None` for an answer.
    pub error: Option<ErrorRecord>,
    /// Protocols of the fields that are not from `protocol`.
    pub sources: Vec<FieldSource>,
    /// Explanations for users.
    pub notes: Vec<String>,
}

/// Reason why a record is no [`Answer`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The query failed.
    #[error("{}", .0.message)]
    Failed(ErrorRecord),
    /// This process does not know the protocol:
    /// [`catalog::add_protocol`](crate::support::catalog::add_protocol) adds it.
    #[error("unknown protocol {0:?}")]
    UnknownProtocol(String),
    /// The answer lacks a member.
    #[error("an answer without `{0}`")]
    Missing(&'static str),
}

impl From<&AnswerLine<'_>> for AnswerRecord {
    fn from(line: &AnswerLine<'_>) -> Self {
        Self {
            target: line.target.into(),
            protocol: line.protocol.map(Into::into),
            address: line.address,
            latency_ms: line.latency_ms,
            title: line.title.as_deref().map(Into::into),
            datagrams_sent: line.datagrams_sent,
            datagrams_received: line.datagrams_received,
            refused: line.refused.iter().copied().map(Into::into).collect(),
            status: line.status.map(|status| Box::new(status.clone())),
            error: line.error.as_deref().cloned(),
            sources: line.sources.to_vec(),
            notes: line.notes.to_vec(),
        }
    }
}

impl Serialize for AnswerRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AnswerLine::of_record(self).serialize(serializer)
    }
}

/// A record as JSON has it.
#[derive(Deserialize)]
struct RecordInput {
    schema: String,
    target: String,
    protocol: Option<String>,
    address: Option<SocketAddr>,
    latency_ms: Option<f64>,
    title: Option<String>,
    datagrams_sent: Option<u32>,
    datagrams_received: Option<u32>,
    #[serde(default)]
    refused: Vec<String>,
    status: Option<Box<StatusRecord>>,
    error: Option<ErrorRecord>,
    #[serde(default, deserialize_with = "sources")]
    sources: Vec<FieldSource>,
    #[serde(default)]
    notes: Vec<String>,
}

impl<'de> Deserialize<'de> for AnswerRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let input = RecordInput::deserialize(deserializer)?;
        if input.schema != SCHEMA {
            let problem = format_args!("schema {:?}, expected {SCHEMA:?}", input.schema);
            return Err(de::Error::custom(problem));
        }
        let info = input
            .protocol
            .as_deref()
            .and_then(catalog::protocol)
            .map(|protocol| protocol.info());
        let status = input.status.map(|status| {
            let mut status = status.into_status(|name| deviation(name, info));
            if let Some(info) = info {
                status.assume_codes((info.codes)(&status));
            }
            status.refused = endpoints(&input.refused);
            Box::new(status)
        });
        Ok(Self {
            target: input.target,
            protocol: input.protocol,
            address: input.address,
            latency_ms: input.latency_ms,
            title: input.title,
            datagrams_sent: input.datagrams_sent,
            datagrams_received: input.datagrams_received,
            refused: input.refused,
            status,
            error: input.error,
            sources: input.sources,
            notes: input.notes,
        })
    }
}

/// Returns the deviation with this name: that of the protocol, or else of any known one.
fn deviation(name: &str, info: Option<&'static Info>) -> Option<&'static Deviation> {
    let others = catalog::protocols().into_iter();
    let others = others.map(|protocol| protocol.info());
    let mut all = info
        .into_iter()
        .chain(others)
        .flat_map(|info| info.deviations.iter().copied())
        .chain([&UNREADABLE_MESSAGE]);
    all.find(|deviation| deviation.name == name)
}

/// Returns the known ones of these endpoints.
fn endpoints(refused: &[String]) -> &'static [&'static str] {
    let has = |name: &str| refused.iter().any(|refused| refused == name);
    match (has("basic"), has("players")) {
        (true, true) => &["basic", "players"],
        (true, false) => &["basic"],
        (false, true) => &["players"],
        (false, false) => &[],
    }
}

/// Reads the object of the sources in its order.
fn sources<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FieldSource>, D::Error> {
    struct SourcesVisitor;
    impl<'de> Visitor<'de> for SourcesVisitor {
        type Value = Vec<FieldSource>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of protocols by field")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<FieldSource>, A::Error> {
            let mut sources = Vec::new();
            while let Some((field, protocol)) = map.next_entry::<String, String>()? {
                sources.push(FieldSource {
                    field: field.into(),
                    protocol: protocol.into(),
                });
            }
            Ok(sources)
        }
    }
    deserializer.deserialize_map(SourcesVisitor)
}

impl TryFrom<AnswerRecord> for Answer {
    type Error = RecordError;

    fn try_from(record: AnswerRecord) -> Result<Self, RecordError> {
        if let Some(error) = record.error {
            return Err(RecordError::Failed(error));
        }
        let id = record.protocol.ok_or(RecordError::Missing("protocol"))?;
        let Some(protocol) = catalog::protocol(&id) else {
            return Err(RecordError::UnknownProtocol(id));
        };
        let address = record.address.ok_or(RecordError::Missing("address"))?;
        let status = record.status.ok_or(RecordError::Missing("status"))?;
        let latency = record
            .latency_ms
            .ok_or(RecordError::Missing("latency_ms"))?;
        let transcript = Transcript {
            sent: record.datagrams_sent.unwrap_or(0),
            received: record.datagrams_received.unwrap_or(0),
            ..Transcript::new(protocol.info(), address)
        };
        // A microsecond is the smallest difference in JSON. The conversion saturates.
        let latency = Duration::from_micros((latency * 1e3).round() as u64);
        Ok(Self {
            sources: record.sources,
            notes: record.notes,
            ..Self::new(transcript, status, latency)
        })
    }
}

/// The JSON of an [`AnswerRecord`], whose target is `PROTOCOL://ADDRESS`. The datagrams are left
/// out, and the latency is rounded to microseconds.
impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Transcript {
            protocol, address, ..
        } = &self.transcript;
        let target = format!("{}://{address}", protocol.id);
        AnswerLine::answered(&target, self).serialize(serializer)
    }
}

/// Reads an [`AnswerRecord`] of an answer. A failure is an error.
impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = AnswerRecord::deserialize(deserializer)?;
        record.try_into().map_err(de::Error::custom)
    }
}

/// Answers are equal if they show the same and their latencies differ by less than a microsecond.
impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            transcript,
            status,
            latency,
            sources,
            notes,
        } = self;
        transcript == &other.transcript
            && status == &other.status
            && milliseconds(*latency) == milliseconds(other.latency)
            && (sources, notes) == (&other.sources, &other.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ErrorKind;

    const FAILURE: &str = r#"{"schema":"hailer/answer/2","target":"a","ok":false,"protocol":"ugp","address":"[::1]:7","latency_ms":null,"title":null,"datagrams_sent":4,"datagrams_received":0,"refused":["basic"],"status":null,"error":{"kind":"silence","message":"no answer"}}"#;

    #[test]
    fn records_of_later_versions_are_read() {
        let record: AnswerRecord = serde_json::from_str(FAILURE).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), FAILURE);
        assert_eq!(record.refused, ["basic"]);
        let later = FAILURE
            .replace(r#""kind":"silence""#, r#""kind":"bored","since":{}"#)
            .replace(r#""ok":false"#, r#""ok":false,"new":[1]"#)
            .replace("ugp", "some-protocol");
        let later: AnswerRecord = serde_json::from_str(&later).unwrap();
        assert_eq!(later.protocol.as_deref(), Some("some-protocol"));
        assert_eq!(later.error.unwrap().kind, ErrorKind::Other);
        let other = FAILURE.replace("hailer/answer/2", "hailer/answer/3");
        let error = serde_json::from_str::<AnswerRecord>(&other).unwrap_err();
        assert!(error.to_string().contains("hailer/answer/3"), "{error}");
    }

    #[test]
    fn failures_and_unknown_protocols_are_no_answers() {
        let record: AnswerRecord = serde_json::from_str(FAILURE).unwrap();
        assert!(matches!(
            Answer::try_from(record.clone()),
            Err(RecordError::Failed(_))
        ));
        let answered = AnswerRecord {
            error: None,
            protocol: Some("some-protocol".into()),
            ..record.clone()
        };
        let error = Answer::try_from(answered).unwrap_err();
        assert_eq!(error.to_string(), "unknown protocol \"some-protocol\"");
        let empty = AnswerRecord {
            error: None,
            ..record
        };
        let error = Answer::try_from(empty).unwrap_err();
        assert_eq!(error, RecordError::Missing("status"));
        let error = serde_json::from_str::<Answer>(FAILURE).unwrap_err();
        assert!(error.to_string().contains("no answer"), "{error}");
    }
}
