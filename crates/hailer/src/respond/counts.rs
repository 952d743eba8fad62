//! Counters of responders.

use std::collections::BTreeMap;

/// Counters of a service since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Number of datagrams received.
    pub received: u64,
    /// Number of connections accepted.
    pub connections: u64,
    /// Connections that are open now.
    pub open_connections: u64,
    /// Attempts to join the game.
    pub join_attempts: u64,
    /// Datagrams to verified sources, and connections with a reply.
    pub answered: u64,
    /// Replies to unverified sources: challenges, and every reply of a protocol without challenges.
    pub unverified: u64,
    /// Bytes of UDP and TCP payload received.
    pub bytes_in: u64,
    /// Bytes of UDP and TCP payload sent, without those of relays.
    pub bytes_out: u64,
    /// Datagrams dropped, and connections that ended without a reply, by [`Reason::name`](super::Reason::name).
    pub dropped: BTreeMap<&'static str, u64>,
    /// Counters by protocol, without protocols that got no request.
    pub by_protocol: Vec<ProtocolCounts>,
    /// Connections held now, until the game runs.
    pub held_connections: u64,
    /// Connections passed on to a game server.
    pub relayed_connections: u64,
    /// Connections passed on to a game server that are open now.
    pub open_relayed_connections: u64,
    /// Bytes of connections passed on to a game server, without headers of the PROXY protocol.
    pub relayed_bytes: u64,
    /// Bytes of a game server passed back on connections.
    pub relayed_back_bytes: u64,
    /// Datagrams forwarded to a game server.
    pub relayed: u64,
    /// Datagrams of a game server that were passed back.
    pub relayed_back: u64,
    /// Open sessions with a game server.
    pub sessions: u64,
    /// Replies that the system did not send.
    pub unsent: u64,
    /// Datagrams that the system dropped because the receive queue was full.
    pub overflows: u64,
}

/// Counters of a service for one protocol, since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtocolCounts {
    /// Id of the protocol, as in its `Info`.
    pub id: &'static str,
    /// Requests received, answered or not. For stream protocols: connections.
    pub requests: u64,
    /// Replies to verified sources. For stream protocols: connections with a reply.
    pub answered: u64,
    /// Replies to unverified sources.
    pub unverified: u64,
}

impl Counts {
    /// Adds the counters of another service.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.connections += other.connections;
        self.open_connections += other.open_connections;
        self.join_attempts += other.join_attempts;
        self.answered += other.answered;
        self.unverified += other.unverified;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
        for (index, of) in other.by_protocol.iter().enumerate() {
            let own = self.of_protocol(index, of.id);
            own.requests += of.requests;
            own.answered += of.answered;
            own.unverified += of.unverified;
        }
        self.held_connections += other.held_connections;
        self.relayed_connections += other.relayed_connections;
        self.open_relayed_connections += other.open_relayed_connections;
        self.relayed_bytes += other.relayed_bytes;
        self.relayed_back_bytes += other.relayed_back_bytes;
        self.relayed += other.relayed;
        self.relayed_back += other.relayed_back;
        self.sessions += other.sessions;
        self.unsent += other.unsent;
        self.overflows += other.overflows;
    }

    /// Returns the counters of a protocol. `index` is its position on the board, where its counters
    /// usually are.
    pub(super) fn of_protocol(&mut self, index: usize, id: &'static str) -> &mut ProtocolCounts {
        let all = &mut self.by_protocol;
        let likely = Some(index).filter(|index| all.get(*index).is_some_and(|of| of.id == id));
        let found = likely.or_else(|| all.iter().position(|of| of.id == id));
        let at = found.unwrap_or_else(|| {
            all.push(ProtocolCounts {
                id,
                requests: 0,
                answered: 0,
                unverified: 0,
            });
            all.len() - 1
        });
        &mut all[at]
    }

    pub(super) fn drop(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }
}
