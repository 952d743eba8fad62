//! Snapshots of a running `hailer serve` for the control socket and the metrics.

use super::door::{Door, DoorCommand};
use super::sources::Watched;
use super::{Generation, addresses};
use crate::config::{ListenConfig, ServerConfig};
use crate::observe::DoorOrder;
use crate::observe::snapshot::{self, Snapshot};
use hailer::respond::{ListenerCounts, ResponderPool, TopTalker};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Instant, SystemTime};

/// State from which snapshots are made.
pub(super) struct ObservedServe {
    /// The pool. Weak, so that a snapshot does not keep it from stopping.
    pool: Weak<ResponderPool>,
    started: SystemTime,
    clock: Instant,
    shown: Mutex<ObservedState>,
}

#[derive(Default)]
struct ObservedState {
    /// The protocols of each listener.
    protocols: Vec<Vec<String>>,
    sources: Vec<Watched>,
    doors: Vec<Arc<Door>>,
    /// Names of the servers.
    names: Vec<String>,
    /// Number of listeners with a relay.
    relays: usize,
}

impl ObservedServe {
    pub(super) fn new(pool: &Arc<ResponderPool>) -> Self {
        Self {
            pool: Arc::downgrade(pool),
            started: SystemTime::now(),
            clock: Instant::now(),
            shown: Mutex::default(),
        }
    }

    /// Switches to a new configuration.
    pub(super) fn show(&self, generation: &mut Generation, servers: &[ServerConfig]) {
        let ids = |listen: &ListenConfig| {
            let ids = listen
                .protocols
                .iter()
                .map(|(protocol, _)| protocol.info().id);
            ids.map(str::to_owned).collect()
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.sources = generation.sources.watched();
        shown.doors = generation.doors.iter().cloned().collect();
        let labels = servers.iter().enumerate();
        shown.names = labels.map(|(i, server)| server.label(i + 1)).collect();
        shown.protocols = addresses(servers).map(|(_, listen)| ids(listen)).collect();
        let relays = addresses(servers).filter(|(server, _)| server.relay.is_some());
        shown.relays = relays.count();
    }

    fn doors(&self) -> Vec<Arc<Door>> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.doors.clone()
    }

    /// Gives an order to a door. Returns a description of the effect.
    ///
    /// # Errors
    /// There is no such door, or it cannot obey. The error contains the correction.
    pub(super) async fn steer(
        self: Arc<Self>,
        order: DoorOrder,
        name: String,
    ) -> Result<String, String> {
        let doors = self.doors();
        let Some(door) = doors.iter().find(|door| door.name() == name) else {
            let names: Vec<_> = doors.iter().map(|door| door.name()).collect();
            return Err(match &names[..] {
                [] => "no server has a door; add [server.door] to the configuration".to_owned(),
                names => format!("no door {name:?}; known are {}", names.join(", ")),
            });
        };
        let command = match order {
            DoorOrder::Wake => DoorCommand::Wake,
            DoorOrder::Sleep => DoorCommand::Sleep,
        };
        let done = door.command(command).await;
        done.map(|done| format!("{name}: {done}"))
            .map_err(|why| format!("{name}: {why}"))
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pool) = self.pool.upgrade() else {
            return Snapshot::default();
        };
        let listeners = pool.counts();
        let left = pool.remaining_budget();
        let since = self
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Snapshot {
            started_at_ms: since.as_millis() as u64,
            uptime_s: self.clock.elapsed().as_secs_f64(),
            workers: pool.workers() as u32,
            budget: snapshot::Budget {
                left_bytes: left.bytes,
                bytes_per_s: left.bytes_per_second,
                networks: left.tracked_networks,
                networks_max: left.max_networks,
            },
            relay: snapshot::Relay {
                sessions: listeners.iter().map(|one| one.counts.sessions).sum(),
                sessions_max: (shown.relays * pool.workers() * pool.config().relay_sessions) as u64,
            },
            sources: (shown.sources.iter())
                .map(|source| source.source(&shown.names))
                .collect(),
            doors: shown.doors.iter().map(|door| door.snapshot()).collect(),
            top: pool
                .top_talkers()
                .iter()
                .take(snapshot::TOP)
                .map(prefix)
                .collect(),
            listeners: by_address(
                listeners
                    .iter()
                    .zip(&shown.protocols)
                    .map(|(counts, ids)| listener(counts, ids)),
            ),
            ..Snapshot::default()
        }
    }
}

/// Adds the counts of servers that share an address.
fn by_address(listeners: impl Iterator<Item = snapshot::Listener>) -> Vec<snapshot::Listener> {
    let mut merged: Vec<snapshot::Listener> = Vec::new();
    for listener in listeners {
        let mut earlier = merged.iter_mut();
        match earlier.find(|earlier| earlier.address == listener.address) {
            None => merged.push(listener),
            Some(same) => {
                same.counts.add(&listener.counts);
                let ids = listener.protocols.into_iter();
                let new: Vec<_> = ids.filter(|id| !same.protocols.contains(id)).collect();
                same.protocols.extend(new);
            }
        }
    }
    merged
}

fn prefix(top: &TopTalker) -> snapshot::Prefix {
    snapshot::Prefix {
        prefix: format!("{}/{}", top.network, top.bits),
        packets_per_s: top.requests_per_s,
        bytes_per_s: top.request_bytes_per_s,
        replies_per_s: top.replies_per_s,
        reply_bytes_per_s: top.reply_bytes_per_s,
    }
}

fn listener(listener: &ListenerCounts, protocols: &[String]) -> snapshot::Listener {
    let from = &listener.counts;
    let mut counts = snapshot::Counts {
        received: from.received,
        connections: from.connections,
        open_connections: from.open_connections,
        join_attempts: from.join_attempts,
        answered: from.answered,
        unverified: from.unverified,
        received_bytes: from.bytes_in,
        sent_bytes: from.bytes_out,
        held_connections: from.held_connections,
        relayed_connections: from.relayed_connections,
        open_relayed_connections: from.open_relayed_connections,
        relayed_bytes: from.relayed_bytes,
        relayed_back_bytes: from.relayed_back_bytes,
        relayed: from.relayed,
        relayed_back: from.relayed_back,
        lost: from.overflows,
        ..snapshot::Counts::default()
    };
    for id in protocols {
        // Report all series from the start: rates ignore the first value of a new series.
        let of = from.by_protocol.iter().find(|of| of.id == id);
        counts
            .requests
            .insert(id.clone(), of.map_or(0, |of| of.requests));
        counts.reply(id, "answer", of.map_or(0, |of| of.answered));
        counts.reply(id, "unverified", of.map_or(0, |of| of.unverified));
    }
    for (reason, count) in &from.dropped {
        counts.drop(reason, *count);
    }
    counts.drop("unsent", from.unsent);
    snapshot::Listener {
        address: listener.address.to_string(),
        protocols: protocols.to_vec(),
        counts,
    }
}
