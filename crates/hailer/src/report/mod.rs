//! One answer, or one failure, as programs read it: the JSON of `schema/answer-v2.json`.

pub mod json;

use crate::client::{Answer, Transcript};
use crate::error::Error;
use hailer_proto::Status;
use hailer_proto::wire::hexadecimal;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::Duration;

/// Name and version of the schema. A new version only when a program written for the old one would break.
pub const SCHEMA: &str = "hailer/answer/2";

/// What came of asking one target.
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
}

#[derive(Serialize)]
struct Failed {
    kind: &'static str,
    message: String,
    /// The datagram at fault, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    datagram: Option<String>,
}

/// A time as programs read it: milliseconds, to the microsecond.
pub fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl<'a> AnswerLine<'a> {
    /// An answer.
    pub fn answered(target: &'a str, answer: &'a Answer) -> Self {
        let latency_ms = milliseconds(answer.latency);
        let line = Self {
            ok: true,
            refused: answer.status.refused,
            status: Some(&answer.status),
            latency_ms: Some(latency_ms),
            title: answer.status.title(),
            ..Self::empty(target)
        };
        line.transcript(&answer.transcript)
    }

    /// A failure.
    pub fn failed(target: &'a str, error: &Error) -> Self {
        let datagram = match error.most_informative() {
            Error::Malformed { datagram, .. } => Some(hexadecimal(datagram)),
            _ => None,
        };
        let failed = Failed {
            kind: error.kind(),
            message: error.to_string(),
            datagram,
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

    /// Appends it to `out`, without a line break: the JSON that serde makes of it, in a fraction of the time, and every
    /// character that could steer a terminal as `\\uXXXX`.
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
