//! JSON of an answer or a failure, as defined in `schema/answer-v2.json`.
//!
//! In: an answer or an error. Out: JSON.
//!
//! May import: `crate::answer`, `crate::error`, `crate::transcript`, `hailer_proto`.

pub mod json;

use crate::answer::{Answer, FieldSource};
use crate::error::{Error, FaultPlace};
use crate::transcript::Transcript;
use hailer_proto::Status;
use hailer_proto::wire::hexadecimal;
use serde::{Serialize, Serializer};
use std::net::SocketAddr;
use std::time::Duration;

/// Name and version of the schema. The version changes only for incompatible changes.
pub const SCHEMA: &str = "hailer/answer/2";

/// Result of querying one target.
#[derive(Serialize)]
pub struct AnswerLine<'a> {
    schema: &'static str,
    target: &'a str,
    ok: bool,
    protocol: Option<&'static str>,
    address: Option<SocketAddr>,
    latency_ms: Option<f64>,
    title: Option<String>,
    datagrams_sent: Option<u32>,
    datagrams_received: Option<u32>,
    /// Names of the endpoints that the server refused.
    refused: &'static [&'static str],
    status: Option<&'a Status>,
    error: Option<Failed>,
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
            .map(|source| (&source.field, source.protocol)),
    )
}

#[derive(Serialize)]
struct Failed {
    kind: &'static str,
    message: String,
    /// Bytes of the invalid datagram around the fault, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    datagram: Option<String>,
    /// If these are not all bytes: the offset of the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    datagram_offset: Option<usize>,
    /// If these are not all bytes: the length of the datagram.
    #[serde(skip_serializing_if = "Option::is_none")]
    datagram_bytes: Option<usize>,
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
            refused: answer.status.refused,
            status: Some(&answer.status),
            latency_ms: Some(latency_ms),
            title: answer.status.title(),
            sources: &answer.sources,
            notes: &answer.notes,
            ..Self::empty(target)
        };
        line.transcript(&answer.transcript)
    }

    /// Creates the line of a failure.
    pub fn failed(target: &'a str, error: &Error) -> Self {
        let place = error.fault_place();
        let cut = place.filter(FaultPlace::is_cut);
        let failed = Failed {
            kind: error.kind().as_str(),
            message: error.to_string(),
            datagram: place.map(|place| hexadecimal(place.shown())),
            datagram_offset: cut.map(|place| place.start),
            datagram_bytes: cut.map(|place| place.message.len()),
        };
        let refused = match error {
            Error::Refused { endpoints, .. } => *endpoints,
            _ => &[],
        };
        let line = Self {
            refused,
            error: Some(failed),
            ..Self::empty(target)
        };
        match error.transcript() {
            Some(transcript) => line.transcript(transcript),
            None => line,
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
            refused: &[],
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
