//! Index of servers by the address and query port at which they are polled.
//!
//! A server with a name in its target has two entries: the name, and the address that has replied
//! last. No server has more than two.

use crate::server::{ServerId, place};
use crate::state::row::ServerRow;
use hailer::client::Host;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Where a server is polled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    /// Host and query port of the target.
    Target(Host, u16),
    /// Address that has replied to a target with a name.
    Reached(SocketAddr),
}

/// Servers by their endpoints.
#[derive(Debug, Default)]
pub(super) struct Endpoints(HashMap<Endpoint, Vec<ServerId>>);

impl Endpoints {
    /// Adds the endpoints of a row.
    pub(super) fn insert(&mut self, row: &ServerRow) {
        for endpoint in endpoints(row) {
            self.0.entry(endpoint).or_default().push(row.server.id);
        }
    }

    /// Removes the endpoints of a row, which must be as it was when they were added.
    pub(super) fn remove(&mut self, row: &ServerRow) {
        for endpoint in endpoints(row) {
            if let Some(servers) = self.0.get_mut(&endpoint) {
                servers.retain(|id| *id != row.server.id);
                if servers.is_empty() {
                    self.0.remove(&endpoint);
                }
            }
        }
    }

    /// Returns the number of endpoints.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the servers at an endpoint.
    pub(super) fn at(&self, endpoint: &Endpoint) -> &[ServerId] {
        self.0.get(endpoint).map_or(&[], Vec::as_slice)
    }
}

/// Returns the endpoints of a server; none without a fixed query port.
fn endpoints(row: &ServerRow) -> impl Iterator<Item = Endpoint> + use<> {
    let place = place(&row.server.target);
    let reached = match &place {
        Some((Host::Name(_), _)) => row.last_status.as_ref().and_then(|last| last.address),
        _ => None,
    };
    let target = place.map(|(host, port)| Endpoint::Target(host, port));
    target.into_iter().chain(reached.map(Endpoint::Reached))
}
