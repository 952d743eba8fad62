//! What others may see of a running `hailer serve`: status, metrics and live view.

use super::serve::{Stage, listeners};
use super::serve_sources;
use crate::config::{self, Listener, Plan};
use crate::observe::snapshot::{self, Snapshot};
use hailer::respond::{ListenerCounts, ResponderPool, TopTalker};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Instant, SystemTime};

/// The engine, and what is answered on it.
pub(super) struct View {
    /// Whoever looks keeps nobody from stopping it.
    engine: Weak<ResponderPool>,
    started: SystemTime,
    clock: Instant,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    /// Of each post.
    protocols: Vec<Vec<String>>,
    sources: Vec<(String, Told)>,
    /// Addresses with a relay.
    relays: usize,
}

/// Who tells what is true.
enum Told {
    Here(&'static str),
    Elsewhere(serve_sources::Watched),
}

impl View {
    pub(super) fn new(engine: &Arc<ResponderPool>) -> Self {
        Self {
            engine: Arc::downgrade(engine),
            started: SystemTime::now(),
            clock: Instant::now(),
            shown: Mutex::default(),
        }
    }

    /// Shows what is answered from now on.
    pub(super) fn show(&self, stage: &mut Stage, plans: &[Plan]) {
        let ids = |listener: &Listener| {
            listener
                .protocols
                .iter()
                .map(|(it, _)| it.info().id.to_owned())
                .collect()
        };
        let mut watched = stage.sources.watched().into_iter();
        let sources = plans.iter().enumerate().filter_map(|(i, plan)| {
            let told = match &plan.source {
                config::Source::Fixed(_) => Told::Here("fixed"),
                config::Source::Demo(_) => Told::Here("demo"),
                config::Source::Fed(_) => Told::Elsewhere(watched.next()?),
            };
            Some((format!("server {}", i + 1), told))
        });
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.sources = sources.collect();
        shown.protocols = listeners(plans)
            .map(|(_, listener)| ids(listener))
            .collect();
        shown.relays = listeners(plans)
            .filter(|(plan, _)| plan.relay.is_some())
            .count();
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = self.engine.upgrade() else {
            return Snapshot::default();
        };
        let (done, left) = (engine.counts(), engine.remaining_budget());
        let since = self
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let source = |(name, told): &(String, Told)| match told {
            Told::Here(kind) => {
                let (kind, state) = ((*kind).into(), snapshot::State::Fresh);
                snapshot::Source {
                    name: name.clone(),
                    kind,
                    age_s: Some(0.0),
                    state,
                    last_error: None,
                }
            }
            Told::Elsewhere(watched) => watched.source(name.clone()),
        };
        Snapshot {
            started: since.as_secs(),
            uptime_s: self.clock.elapsed().as_secs_f64(),
            workers: engine.workers() as u32,
            budget: snapshot::Budget {
                left_bytes: left.bytes,
                bytes_per_second: left.bytes_per_second,
                sources: left.tracked_networks,
                places: left.max_networks,
            },
            relay: snapshot::Relay {
                sessions: done.iter().map(|done| done.counts.sessions).sum(),
                places: (shown.relays * engine.workers() * engine.config().relay_sessions) as u64,
            },
            sources: shown.sources.iter().map(source).collect(),
            top: engine
                .top_talkers()
                .iter()
                .take(snapshot::TOP)
                .map(prefix)
                .collect(),
            listeners: done
                .iter()
                .zip(&shown.protocols)
                .map(|(done, ids)| listener(done, ids))
                .collect(),
            ..Snapshot::default()
        }
    }
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

fn listener(done: &ListenerCounts, protocols: &[String]) -> snapshot::Listener {
    let from = &done.counts;
    let mut counts = snapshot::Counts {
        received: from.received,
        answered: from.answered,
        unverified: from.unverified,
        bytes_in: from.bytes_in,
        bytes_out: from.bytes_out,
        relayed: from.relayed,
        relayed_back: from.relayed_back,
        overflows: from.overflows,
        ..snapshot::Counts::default()
    };
    for id in protocols {
        // All of them from the start: a series that appears with its first count hides that count from rates.
        let of = from.by_protocol.iter().find(|of| of.id == id);
        counts
            .requests
            .insert(id.clone(), of.map_or(0, |of| of.requests));
        counts.reply(id, "answer", of.map_or(0, |of| of.answered));
        counts.reply(id, "unverified", of.map_or(0, |of| of.unverified));
    }
    from.dropped
        .iter()
        .for_each(|(reason, count)| counts.drop(reason, *count));
    counts.drop("unsent", from.unsent);
    snapshot::Listener {
        address: done.address.to_string(),
        protocols: protocols.to_vec(),
        counts,
    }
}
