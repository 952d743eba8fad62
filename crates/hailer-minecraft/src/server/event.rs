//! Events of the server, for logs.

use crate::build::Build;
use std::fmt;
use std::net::IpAddr;

/// Something that happened on the server. Names consist of letters, digits and underscores. Other
/// texts are as a client sent them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A player joined.
    Joined {
        /// Name of the player.
        name: String,
        /// Address of the client.
        ip: IpAddr,
        /// Build of the client, or the first with the same protocol.
        build: Build,
        /// Whether the connection is encrypted.
        is_encrypted: bool,
    },
    /// A player left.
    Left {
        /// Name of the player.
        name: String,
        /// Reason for it.
        reason: String,
    },
    /// A player sent a line of chat or a command.
    Chat {
        /// Name of the player.
        name: String,
        /// Text of the line.
        text: String,
    },
    /// A client requested the status.
    Pinged {
        /// Address of the client.
        ip: IpAddr,
    },
    /// A client was refused.
    Refused {
        /// Address of the client.
        ip: IpAddr,
        /// Reason for it.
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
                is_encrypted,
            } => {
                let how = if *is_encrypted {
                    "encrypted"
                } else {
                    "not encrypted"
                };
                write!(f, "{name} joined from {ip} with {build}, {how}")
            }
            Self::Left { name, reason } => write!(f, "{name} left: {reason}"),
            Self::Chat { name, text } => write!(f, "<{name}> {text}"),
            Self::Pinged { ip } => write!(f, "{ip} requested the status"),
            Self::Refused { ip, reason } => write!(f, "{ip} was refused: {reason}"),
        }
    }
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There are too many connections.
    Connections,
    /// There are too many connections from this address.
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
