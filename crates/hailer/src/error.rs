//! Why a server gave no answer: one variant for each thing a user can do something about.

use crate::client::Transcript;
use crate::drive::ExchangeError;
use hailer_proto::{Fault, Transport};
use std::time::Duration;

/// Why a server gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target cannot be understood.
    #[error(transparent)]
    Target(#[from] crate::target::TargetError),
    /// The name does not exist, or has no address.
    #[error("{name}: name not found; check the spelling")]
    NameNotFound {
        /// The name.
        name: String,
    },
    /// The name could not be looked up.
    #[error("{name}: name lookup failed: {cause}")]
    Lookup {
        /// The name.
        name: String,
        /// Why.
        cause: String,
    },
    /// The name leads to an address that this sweep must not ask.
    #[error("{name}: leads to {address}, {reason}")]
    Excluded {
        /// The name.
        name: String,
        /// The address.
        address: std::net::IpAddr,
        /// Why it must not.
        reason: &'static str,
    },
    /// No way there: no route, no address of this family, not permitted.
    #[error("{}: cannot be reached: {cause}", transcript.address)]
    Unreachable {
        /// Who was asked.
        transcript: Box<Transcript>,
        /// What the operating system says.
        cause: std::io::Error,
    },
    /// The host says that nothing listens on this port (ICMP, or TCP's own word).
    #[error("{}", port_closed(transcript))]
    PortClosed {
        /// Who was asked.
        transcript: Box<Transcript>,
    },
    /// Nothing came back, or never all of it.
    #[error("{}", silence(transcript, *after))]
    Silence {
        /// Who was asked. What was heard answered nothing.
        transcript: Box<Transcript>,
        /// Time since the first datagram.
        after: Duration,
    },
    /// The server refused.
    #[error("{}: refused by the server: {reason}", transcript.address)]
    Refused {
        /// Who was asked.
        transcript: Box<Transcript>,
        /// Why, as a clause about the server.
        reason: &'static str,
        /// Names of the refused endpoints, if the protocol has several.
        endpoints: &'static [&'static str],
    },
    /// The answer is no sound message of the protocol.
    #[error("{}: malformed {} answer: {fault}", transcript.address, transcript.protocol.title)]
    Malformed {
        /// Who was asked.
        transcript: Box<Transcript>,
        /// What is wrong, with field and offset if the bytes do not parse.
        fault: Fault,
        /// The datagram.
        datagram: Vec<u8>,
    },
    /// More came than a query may cost.
    #[error("{}: sent {} datagrams, {bytes} bytes, more than a query may cost", transcript.address, transcript.received)]
    Flood {
        /// Who was asked.
        transcript: Box<Transcript>,
        /// Bytes heard.
        bytes: usize,
    },
    /// The answer deviates from the protocol, and [`ClientConfig::strict`](crate::ClientConfig) is on.
    #[error("{}: deviates from {}: {}", transcript.address, transcript.protocol.title, names.join(", "))]
    Deviates {
        /// Who was asked.
        transcript: Box<Transcript>,
        /// The deviations, by name.
        names: Vec<&'static str>,
    },
}

fn port_closed(transcript: &Transcript) -> String {
    let Transcript {
        address, protocol, ..
    } = transcript;
    let cause = match protocol.transport {
        Transport::Datagram => "query is off there",
        Transport::Stream => "the server is down",
    };
    format!(
        "{address}: nothing listens on this {} port: {cause}, or the port is another",
        protocol.transport
    )
}

/// Silence has causes a user can check; half an answer has others.
fn silence(transcript: &Transcript, after: Duration) -> String {
    let (
        Transcript {
            address,
            sent,
            received,
            ..
        },
        after,
    ) = (transcript, after.as_secs_f64());
    if transcript.protocol.transport == Transport::Stream {
        return match sent {
            0 => format!(
                "{address}: no connection in {after:.1} s: filtered, on another port, or the server is down"
            ),
            _ => format!(
                "{address}: connected, but no answer in {after:.1} s: another service, or the server hangs"
            ),
        };
    }
    let datagrams = if *sent == 1 { "datagram" } else { "datagrams" };
    if *received == 0 {
        format!(
            "{address}: no answer in {after:.1} s to {sent} {datagrams}: query is off, filtered, on another port, or the \
             server is down"
        )
    } else {
        format!(
            "{address}: no complete answer in {after:.1} s: {received} came back for {sent} {datagrams}, never all of it"
        )
    }
}

impl Error {
    /// What a driver's failure means for whoever asked.
    pub(crate) fn from_failure(transcript: Transcript, failure: ExchangeError) -> Self {
        let transcript = Box::new(transcript);
        match failure {
            ExchangeError::Silence { after } => Self::Silence { transcript, after },
            ExchangeError::Flood { bytes } => Self::Flood { transcript, bytes },
            ExchangeError::Fault {
                fault: Fault::Refused { reason, endpoints },
                ..
            } => Self::Refused {
                transcript,
                reason,
                endpoints,
            },
            ExchangeError::Fault { fault, datagram } => Self::Malformed {
                transcript,
                fault,
                datagram,
            },
        }
    }

    /// A stable word for programs, as in the JSON schema.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Target(_) => "target",
            Self::NameNotFound { .. } => "name-not-found",
            Self::Lookup { .. } => "lookup",
            Self::Excluded { .. } => "excluded",
            Self::Unreachable { .. } => "unreachable",
            Self::PortClosed { .. } => "port-closed",
            Self::Silence { .. } => "silence",
            Self::Refused { .. } => "refused",
            Self::Malformed { .. } => "malformed",
            Self::Flood { .. } => "flood",
            Self::Deviates { .. } => "deviates",
        }
    }

    /// Who was asked, if it came to that.
    pub fn transcript(&self) -> Option<&Transcript> {
        match self {
            Self::Target(_)
            | Self::NameNotFound { .. }
            | Self::Lookup { .. }
            | Self::Excluded { .. } => None,
            Self::Unreachable { transcript, .. }
            | Self::PortClosed { transcript }
            | Self::Silence { transcript, .. }
            | Self::Refused { transcript, .. }
            | Self::Malformed { transcript, .. }
            | Self::Flood { transcript, .. }
            | Self::Deviates { transcript, .. } => Some(transcript),
        }
    }

    /// How much the error tells of the server: the higher, the better worth showing when several ways failed.
    pub(crate) fn weight(&self) -> u8 {
        let is_stream = self
            .transcript()
            .is_some_and(|transcript| transcript.protocol.transport == Transport::Stream);
        match self {
            Self::Target(_)
            | Self::NameNotFound { .. }
            | Self::Lookup { .. }
            | Self::Excluded { .. } => 0,
            Self::Malformed {
                fault: Fault::Misbehaved(_),
                ..
            } => 5,
            Self::Deviates { .. } => 6,
            // Anything may listen on a TCP port, and little does on a UDP port.
            _ if is_stream => 1,
            Self::Unreachable { .. } => 1,
            Self::PortClosed { .. } => 2,
            Self::Silence { .. } => 3,
            Self::Flood { .. } => 4,
            Self::Malformed { .. } => 5,
            Self::Refused { .. } => 6,
        }
    }
}

/// Something that is a target already never fails to become one.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
