//! JSON of an answer or a failure, as defined in `schema/answer-v2.json`.
//!
//! [`AnswerLine`] writes it, [`AnswerRecord`] reads it.
//!
//! In: an answer or an error, or JSON. Out: JSON, or an answer.
//!
//! May import: `crate::answer`, `crate::error`, `crate::support::catalog`, `crate::transcript`,
//! `hailer_proto`.

pub mod json;
mod record;

pub use record::{AnswerRecord, RecordError};

use crate::answer::{Answer, FieldSource};
use crate::error::{Error, ErrorKind, FaultPlace};
use crate::transcript::Transcript;
use hailer_proto::Status;
use hailer_proto::wire::hexadecimal;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Name and version of the schema. The version changes only for incompatible changes.
pub const SCHEMA: &str = "hailer/answer/2";

/// Result of querying one target.
#[derive(Debug, Serialize)]
pub struct AnswerLine<'a> {
    schema: &'static str,
    target: &'a str,
    ok: bool,
    protocol: Option<&'a str>,
    address: Option<SocketAddr>,
    latency_ms: Option<f64>,
    title: Option<Cow<'a, str>>,
    datagrams_sent: Option<u32>,
    datagrams_received: Option<u32>,
    /// Names of the endpoints that the server refused.
    refused: Vec<&'a str>,
    status: Option<&'a Status>,
    error: Option<Cow<'a, ErrorRecord>>,
    /// Protocols of the fields that are not from `protocol`.
    #[serde(
        serialize_with = "protocol_by_field",
        skip_serializing_if = "<[_]>::is_empty"
    )]
    sources: &'a [FieldSource],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [String],
}

fn protocol_by_field<S: Serializer>(
    sources: &[FieldSource],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        sources
            .iter()
            .map(|source| (&source.field, &source.protocol)),
    )
}

/// The failure of a query, as JSON has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorRecord {
    /// Kind of the failure.
    pub kind: ErrorKind,
    /// Reason, as a sentence.
    pub message: String,
    /// Bytes of the invalid datagram around the fault, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagram: Option<String>,
    /// If these are not all bytes: the offset of the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagram_offset: Option<usize>,
    /// If these are not all bytes: the length of the datagram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagram_bytes: Option<usize>,
}

impl fmt::Display for ErrorRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ErrorRecord {}

impl From<&Error> for ErrorRecord {
    fn from(error: &Error) -> Self {
        let place = error.fault_place();
        let cut = place.filter(FaultPlace::is_cut);
        Self {
            kind: error.kind(),
            message: error.to_string(),
            datagram: place.map(|place| hexadecimal(place.shown())),
            datagram_offset: cut.map(|place| place.start),
            datagram_bytes: cut.map(|place| place.message.len()),
        }
    }
}

/// Converts a time to milliseconds with microsecond precision.
pub fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl<'a> AnswerLine<'a> {
    /// Creates the line of an answer.
    pub fn answered(target: &'a str, answer: &'a Answer) -> Self {
        let latency_ms = milliseconds(answer.latency);
        let line = Self {
            ok: true,
            refused: answer.status.refused.to_vec(),
            status: Some(&answer.status),
            latency_ms: Some(latency_ms),
            title: answer.status.title().map(Cow::Owned),
            sources: &answer.sources,
            notes: &answer.notes,
            ..Self::empty(target)
        };
        line.transcript(&answer.transcript)
    }

    /// Creates the line of a failure.
    pub fn failed(target: &'a str, error: &Error) -> Self {
        let refused = match error {
            Error::Refused { endpoints, .. } => endpoints.to_vec(),
            _ => Vec::new(),
        };
        let line = Self {
            refused,
            error: Some(Cow::Owned(error.into())),
            ..Self::empty(target)
        };
        match error.transcript() {
            Some(transcript) => line.transcript(transcript),
            None => line,
        }
    }

    /// Returns the line of a record.
    fn of_record(record: &'a AnswerRecord) -> Self {
        Self {
            schema: SCHEMA,
            target: &record.target,
            ok: record.error.is_none(),
            protocol: record.protocol.as_deref(),
            address: record.address,
            latency_ms: record.latency_ms,
            title: record.title.as_deref().map(Cow::Borrowed),
            datagrams_sent: record.datagrams_sent,
            datagrams_received: record.datagrams_received,
            refused: record.refused.iter().map(String::as_str).collect(),
            status: record.status.as_deref(),
            error: record.error.as_ref().map(Cow::Borrowed),
            sources: &record.sources,
            notes: &record.notes,
        }
    }

    /// Appends the JSON to `out`, without a line break. The output equals that of serde, but is
    /// faster, and every character that controls a terminal is written as `\\uXXXX`.
    pub fn write(&self, out: &mut Vec<u8>) {
        json::line(self, out);
    }

    fn empty(target: &'a str) -> Self {
        Self {
            schema: SCHEMA,
            target,
            ok: false,
            protocol: None,
            address: None,
            latency_ms: None,
            title: None,
            datagrams_sent: None,
            datagrams_received: None,
            refused: Vec::new(),
            status: None,
            error: None,
            sources: &[],
            notes: &[],
        }
    }

    fn transcript(self, transcript: &Transcript) -> Self {
        Self {
            protocol: Some(transcript.protocol.id),
            address: Some(transcript.address),
            datagrams_sent: Some(transcript.sent),
            datagrams_received: Some(transcript.received),
            ..self
        }
    }
}
