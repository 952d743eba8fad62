//! What the server tells whoever runs it.

use crate::build::Build;
use std::fmt;
use std::net::IpAddr;

/// Something worth a line in a log. Names are of letters, digits and underscores; other texts are as a client sent
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// Somebody entered.
    Joined {
        /// Who.
        name: String,
        /// From where.
        ip: IpAddr,
        /// The build that the client speaks, or the first that speaks like it.
        build: Build,
        /// Whether the connection is encrypted.
        encrypted: bool,
    },
    /// A player is gone.
    Left {
        /// Who.
        name: String,
        /// Why.
        reason: String,
    },
    /// Somebody said something, or gave a command.
    Chat {
        /// Who.
        name: String,
        /// What.
        text: String,
    },
    /// Somebody asked for the status.
    Pinged {
        /// From where.
        ip: IpAddr,
    },
    /// Somebody did not get in.
    Refused {
        /// From where.
        ip: IpAddr,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined {
                name,
                ip,
                build,
                encrypted,
            } => {
                let how = if *encrypted {
                    "encrypted"
                } else {
                    "in the clear"
                };
                write!(f, "{name} joined from {ip} with {build}, {how}")
            }
            Self::Left { name, reason } => write!(f, "{name} left: {reason}"),
            Self::Chat { name, text } => write!(f, "<{name}> {text}"),
            Self::Pinged { ip } => write!(f, "{ip} asked for the status"),
            Self::Refused { ip, reason } => write!(f, "{ip} did not get in: {reason}"),
        }
    }
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There are too many.
    Connections,
    /// There are too many from this address.
    Address,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections => "too many connections",
            Self::Address => "too many connections from this address",
        })
    }
}

impl std::error::Error for Refusal {}
