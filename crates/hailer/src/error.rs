//! Why a server gave no answer: one variant for each thing a user can do something about.

use crate::drive::Failure;
use hailer_proto::{Fault, Info};
use std::net::SocketAddr;
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
    /// No way there: no route, no address of this family, not permitted.
    #[error("{address}: cannot be reached: {cause}")]
    Unreachable {
        /// The address asked.
        address: SocketAddr,
        /// What the operating system says.
        cause: std::io::Error,
    },
    /// The host says that nothing listens on this port (ICMP).
    #[error("{address}: nothing listens on this UDP port: query is off there, or the port is another")]
    PortClosed {
        /// The address asked.
        address: SocketAddr,
    },
    /// Nothing came back.
    #[error("{address}: {}", silence(*after, *sent, *heard))]
    Silence {
        /// The address asked.
        address: SocketAddr,
        /// Time since the first datagram.
        after: Duration,
        /// Datagrams sent.
        sent: u32,
        /// Datagrams heard that answered nothing.
        heard: u32,
    },
    /// The server refused.
    #[error("{address}: refused by the server: {reason}")]
    Refused {
        /// The address asked.
        address: SocketAddr,
        /// What it wants.
        reason: &'static str,
    },
    /// The answer is no sound message of the protocol.
    #[error("{address}: malformed {} answer: {fault}", protocol.title)]
    Malformed {
        /// The address asked.
        address: SocketAddr,
        /// The protocol it was asked in.
        protocol: &'static Info,
        /// What is wrong, with field and offset if the bytes do not parse.
        fault: Fault,
        /// The datagram.
        datagram: Vec<u8>,
    },
    /// More came than a query may cost.
    #[error("{address}: sent {heard} datagrams, {bytes} bytes, more than a query may cost")]
    Flood {
        /// The address asked.
        address: SocketAddr,
        /// Datagrams heard.
        heard: u32,
        /// Bytes heard.
        bytes: usize,
    },
    /// The answer deviates from the protocol, and [`Settings::strict`](crate::Settings) is on.
    #[error("{address}: deviates from {}: {}", protocol.title, names.join(", "))]
    Deviates {
        /// The address asked.
        address: SocketAddr,
        /// The protocol it was asked in.
        protocol: &'static Info,
        /// The deviations, by name.
        names: Vec<&'static str>,
    },
}

/// Silence has causes a user can check; half an answer has others.
fn silence(after: Duration, sent: u32, heard: u32) -> String {
    let after = after.as_secs_f64();
    if heard == 0 {
        format!(
            "no answer in {after:.1} s to {sent} datagrams: query is off, filtered, on another port, or the server is down"
        )
    } else {
        format!("no complete answer in {after:.1} s: {heard} datagrams came back for {sent}, but never all of it")
    }
}

impl Error {
    /// A stable word for programs, as in the JSON schema.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Target(_) => "target",
            Self::NameNotFound { .. } => "name-not-found",
            Self::Lookup { .. } => "lookup",
            Self::Unreachable { .. } => "unreachable",
            Self::PortClosed { .. } => "port-closed",
            Self::Silence { .. } => "silence",
            Self::Refused { .. } => "refused",
            Self::Malformed { .. } => "malformed",
            Self::Flood { .. } => "flood",
            Self::Deviates { .. } => "deviates",
        }
    }

    /// The address asked, if it came to that.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Target(_) | Self::NameNotFound { .. } | Self::Lookup { .. } => None,
            Self::Unreachable { address, .. }
            | Self::PortClosed { address }
            | Self::Silence { address, .. }
            | Self::Refused { address, .. }
            | Self::Malformed { address, .. }
            | Self::Flood { address, .. }
            | Self::Deviates { address, .. } => Some(*address),
        }
    }

    /// The protocol of an answer that came, but was no use.
    pub fn protocol(&self) -> Option<&'static Info> {
        match self {
            Self::Malformed { protocol, .. } | Self::Deviates { protocol, .. } => Some(protocol),
            _ => None,
        }
    }

    /// How much the error tells of the server: the higher, the better worth showing when several ways failed.
    pub(crate) fn weight(&self) -> u8 {
        match self {
            Self::Target(_) | Self::NameNotFound { .. } | Self::Lookup { .. } => 0,
            Self::Unreachable { .. } => 1,
            Self::PortClosed { .. } => 2,
            Self::Silence { .. } => 3,
            Self::Flood { .. } => 4,
            Self::Malformed { .. } => 5,
            Self::Deviates { .. } | Self::Refused { .. } => 6,
        }
    }

    pub(crate) fn from_failure(failure: Failure, address: SocketAddr, protocol: &'static Info) -> Self {
        match failure {
            Failure::Silence { after, sent, heard } => Self::Silence { address, after, sent, heard },
            Failure::Flood { heard, bytes } => Self::Flood { address, heard, bytes },
            Failure::Fault { fault: Fault::Refused(reason), .. } => Self::Refused { address, reason },
            Failure::Fault { fault, datagram } => Self::Malformed { address, protocol, fault, datagram },
        }
    }
}
