//! The answer of a server.

use crate::error::Error;
use crate::merge;
use crate::transcript::Transcript;
use hailer_proto::{Info, Status};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

/// Answer of a server: its [status](Self::status), [address](Self::address()), [latency](Self::latency)
/// and [protocol](Self::protocol()).
#[derive(Clone, Debug)]
pub struct Answer {
    /// Protocol, address and datagrams of the exchange.
    pub transcript: Transcript,
    /// The status that the server reported.
    pub status: Box<Status>,
    /// Shortest time between a request and its reply, without the time to set up a connection.
    pub latency: Duration,
    /// Protocols of the fields that are not from `transcript.protocol`. Empty unless answers in
    /// several protocols were merged.
    pub sources: Vec<FieldSource>,
    /// Explanations for users, one sentence each: the port that answered, why names are missing.
    pub notes: Vec<String>,
}

impl Answer {
    /// Returns an answer in one protocol.
    pub fn new(transcript: Transcript, status: Box<Status>, latency: Duration) -> Self {
        Self {
            transcript,
            status,
            latency,
            sources: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the address of the server, with the port that answered.
    pub fn address(&self) -> SocketAddr {
        self.transcript.address
    }

    /// Returns the facts of the protocol, such as its `id`. Of merged answers, it is the protocol that
    /// most fields are from.
    pub fn protocol(&self) -> &'static Info {
        self.transcript.protocol
    }

    /// Returns the answer, or an error if it deviates from the protocol and `strict` is set.
    #[inline]
    pub(crate) fn accept(self, is_strict: bool) -> Result<Self, Error> {
        if !is_strict || self.status.deviations.is_empty() {
            return Ok(self);
        }
        let names = self
            .status
            .deviations
            .iter()
            .map(|deviation| deviation.name)
            .collect();
        Err(Error::Deviates {
            transcript: self.transcript.into(),
            names,
        })
    }

    /// Returns the rank among the answers of one server: the completeness of the player list, then
    /// the number of fields, then that of extra fields. Fields that a protocol always sends count
    /// only if they state something: a password, anti-cheat software, bots.
    pub(crate) fn completeness(&self) -> (u8, usize, usize) {
        let status = &*self.status;
        let roster = merge::completeness(&status.players);
        let fields = [
            status.name.is_some(),
            status.motd.is_some(),
            status.game.is_some(),
            status.mode.is_some(),
            status.map.is_some(),
            status.version.is_some(),
            status.address.is_some(),
            status.players.online.is_some(),
            status.players.max.is_some(),
            !status.rules.is_empty(),
            status.has_password == Some(true),
            status.has_anti_cheat == Some(true),
            status.icon.is_some(),
            status.players.bots.is_some_and(|bots| bots > 0),
        ];
        let present = fields.iter().filter(|is_present| **is_present).count();
        (roster, present, status.extra.len())
    }
}

/// A field of a merged status, and the protocol that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSource {
    /// Name in the schema of answers, such as `version`, `players.list` or `extra.KEY`.
    pub field: Cow<'static, str>,
    /// Id of the protocol.
    pub protocol: Cow<'static, str>,
}
