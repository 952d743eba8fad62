//! The datagrams of an exchange, and the facts about it.

use hailer_proto::{Direction, Info};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Protocol, address and datagrams of one exchange, with or without success.
#[derive(Clone)]
pub struct Transcript {
    /// The protocol.
    pub protocol: &'static Info,
    /// The server's address.
    pub address: SocketAddr,
    /// Datagrams sent; on a connection, requests.
    pub sent: u32,
    /// Datagrams received; on a connection, messages.
    pub received: u32,
    /// All datagrams, if [`ClientConfig::has_datagrams`](crate::client::ClientConfig::has_datagrams) is set.
    pub datagrams: Vec<Datagram>,
    /// Clauses that an error of the exchange ends with: the SRV record that led to the address, and
    /// other addresses of the host that replied.
    pub notes: Vec<String>,
}

impl Transcript {
    /// Returns the transcript of an exchange that has not begun.
    pub fn new(protocol: &'static Info, address: SocketAddr) -> Self {
        Self {
            protocol,
            address,
            sent: 0,
            received: 0,
            datagrams: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl PartialEq for Transcript {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            protocol,
            address,
            sent,
            received,
            datagrams,
            notes,
        } = self;
        protocol.id == other.protocol.id
            && (address, sent, received) == (&other.address, &other.sent, &other.received)
            && (datagrams, notes) == (&other.datagrams, &other.notes)
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Transcript({}://{}, {} sent, {} received)",
            self.protocol.id, self.address, self.sent, self.received
        )
    }
}

/// One datagram of an exchange.
#[derive(Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Request or reply.
    pub direction: Direction,
    /// Time since the exchange began; for a reply in several pieces, when the last one arrived.
    pub at: Duration,
    /// The payload. A request may contain an auth token.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Datagram({:?} of {} bytes at {:?})",
            self.direction,
            self.bytes.len(),
            self.at
        )
    }
}
