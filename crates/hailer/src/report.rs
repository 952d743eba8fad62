//! One answer, or one failure, as programs read it: the JSON of `schema/answer-v1.json`.

use crate::client::Answer;
use crate::error::Error;
use hailer_proto::Status;
use serde::Serialize;

/// Name and version of the schema. A new version only when a program written for the old one would break.
pub const SCHEMA: &str = "hailer/answer/1";

/// What came of asking one target.
#[derive(Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    target: &'a str,
    ok: bool,
    protocol: Option<&'static str>,
    address: Option<String>,
    round_trip_ms: Option<f64>,
    datagrams_sent: Option<u32>,
    datagrams_heard: Option<u32>,
    status: Option<&'a Status>,
    error: Option<Failed>,
}

#[derive(Serialize)]
struct Failed {
    kind: &'static str,
    message: String,
    /// The datagram at fault, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    datagram: Option<String>,
}

impl<'a> Report<'a> {
    /// An answer.
    pub fn answered(target: &'a str, answer: &'a Answer) -> Self {
        Self {
            schema: SCHEMA,
            target,
            ok: true,
            protocol: Some(answer.protocol.id),
            address: Some(answer.address.to_string()),
            round_trip_ms: Some((answer.round_trip.as_secs_f64() * 1e6).round() / 1e3),
            datagrams_sent: Some(answer.sent),
            datagrams_heard: Some(answer.heard),
            status: Some(&answer.status),
            error: None,
        }
    }

    /// A failure.
    pub fn failed(target: &'a str, error: &Error) -> Self {
        let datagram = match error {
            Error::Malformed { datagram, .. } => Some(datagram.iter().map(|byte| format!("{byte:02x}")).collect()),
            _ => None,
        };
        Self {
            schema: SCHEMA,
            target,
            ok: false,
            protocol: error.protocol().map(|info| info.id),
            address: error.address().map(|address| address.to_string()),
            round_trip_ms: None,
            datagrams_sent: None,
            datagrams_heard: None,
            status: None,
            error: Some(Failed { kind: error.kind(), message: error.to_string(), datagram }),
        }
    }
}
