//! All polled servers, with the state that pages do not show.

use super::Counts;
use super::changes::{ChangeLimit, SpokenProtocol, differences};
use super::listed::ListedPolicies;
use super::plan::GamePlan;
use crate::clock::WallClock;
use crate::health::Health;
use crate::sample::{EventKind, Millis};
use crate::schedule::{DueSample, PollClock, Schedule};
use crate::server::{Server, ServerId};
use crate::state::LastStatus;
use hailer::client::Answers;
use hailer::proto::{Ask, Protocol};
use hailer::{Answer, Error, Target};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// All polled servers, with the state that pages do not show.
pub(super) struct PollTable {
    pub(super) schedule: Schedule,
    pub(super) watched: HashMap<ServerId, PolledServer>,
    pub(super) listed: ListedPolicies,
    pub(super) wall: WallClock,
    pub(super) started: Instant,
    pub(super) clock: PollClock,
}

pub(super) struct PolledServer {
    /// The same as in `StateTable`. The target is parsed again in the rare cases that need more
    /// than its address.
    pub(super) server: Arc<Server>,
    pub(super) is_name: bool,
    pub(super) protocol: &'static dyn Protocol,
    pub(super) address: Result<SocketAddr, Arc<str>>,
    /// The SRV record that led to the address, as a clause for errors.
    pub(super) srv: Option<Arc<str>>,
    pub(super) looked_up: Option<Instant>,
    /// Protocols and ports, if the target names a game.
    pub(super) game: Option<Box<GamePlan>>,
    pub(super) health: Health,
    /// Whether a poll of this server is under way.
    pub(super) is_asked: bool,
    /// Probes of the poll under way, if it has several.
    pub(super) poll: Option<Box<OpenPoll>>,
    pub(super) last_status: Option<Arc<LastStatus>>,
    /// When this process last took a sample, in Unix milliseconds.
    pub(super) last_at: Option<Millis>,
    pub(super) spoken: SpokenProtocol,
    pub(super) changes: ChangeLimit,
}

/// A poll of several probes.
pub(super) struct OpenPoll {
    /// Time of the sample.
    pub(super) at: Millis,
    /// Number of probes without a result.
    pub(super) open: usize,
    /// Place of each probe in the plan, and its result.
    pub(super) results: Vec<(u8, Result<Answer, Error>)>,
}

impl PollTable {
    /// Returns the time of the schedule, in Unix milliseconds.
    pub(super) fn now(&mut self) -> Millis {
        let (now, was_disturbed) = self.clock.now(self.wall.now(), self.started.elapsed());
        if was_disturbed {
            self.schedule.restart(now);
            for polled in self.watched.values_mut() {
                polled.health = polled.health.not_after(now);
                polled.changes = polled.changes.not_after(now);
            }
        }
        now
    }

    /// Returns the next server whose sample is due.
    pub(super) fn next(&mut self, counts: &Counts) -> Option<DueSample> {
        let now = self.now();
        loop {
            let due = self.schedule.next(now)?;
            let skipped = counts.skipped.load(Ordering::Relaxed);
            counts
                .missed
                .store(self.schedule.missed() + skipped, Ordering::Relaxed);
            match self.watched.get_mut(&due.server) {
                // The previous poll has no result yet: it started late, or its timeout is longer
                // than the interval.
                Some(watched) if watched.is_asked => self.schedule.postpone(due, now),
                Some(watched) => {
                    watched.is_asked = true;
                    return Some(due);
                }
                None => {}
            }
        }
    }
}

impl PolledServer {
    /// Creates an entry for a server that was not polled yet.
    pub(super) fn new(
        server: Arc<Server>,
        target: &Target,
        protocol: &'static dyn Protocol,
        health: Health,
        changes: ChangeLimit,
        listed: &ListedPolicies,
    ) -> Self {
        let candidates = target.candidates().unwrap_or_default();
        let address = match candidates.first() {
            Some(address) => listed.allowed(&server, &[*address]).map(|_| *address),
            None => Err("its name was not looked up yet".into()),
        };
        Self {
            server,
            // The address of a remote service has a name too.
            is_name: target.candidates().is_none(),
            protocol,
            address,
            srv: None,
            looked_up: None,
            game: GamePlan::of(target),
            health,
            is_asked: false,
            poll: None,
            last_status: None,
            last_at: None,
            spoken: SpokenProtocol::default(),
            changes,
        }
    }

    /// Returns the result of a poll of several probes, and updates the plan of the next ones.
    pub(super) fn combine(&mut self, ask: &Ask) -> Result<Answer, Error> {
        let mut results = self
            .poll
            .take()
            .map(|poll| poll.results)
            .unwrap_or_default();
        results.sort_by_key(|(place, _)| *place);
        let results: Vec<_> = results.into_iter().map(|(_, result)| result).collect();
        if let Some(plan) = &mut self.game {
            plan.record(&results);
        }
        let target = self.server.target().map_err(Error::Target)?;
        Answers::combine(&target, results, ask).map(Answers::into_best)
    }

    /// Returns the changes since the last answer that may be reported, and keeps the status of this
    /// one, if there is one.
    pub(super) fn find_changes(
        &mut self,
        at: Millis,
        status: Option<&Arc<LastStatus>>,
    ) -> Vec<EventKind> {
        // A poll that was under way when the clock was set back has counted its changes in the
        // future.
        self.changes = self.changes.not_after(at);
        let Some(status) = status else {
            return Vec::new();
        };
        let protocol = self.spoken.record(status.protocol);
        let mut found: Vec<_> = protocol.map(EventKind::Protocol).into_iter().collect();
        if let Some(before) = self.last_status.replace(status.clone()) {
            found.extend(differences(&before, status));
        }
        found.retain(|_| self.changes.take(at));
        found
    }

    /// Sets the address after a lookup. `found`: at least one address, at one or several ports.
    pub(super) fn set_addresses(&mut self, found: &[SocketAddr], listed: &ListedPolicies) {
        let found = match listed.allowed(&self.server, found) {
            Ok(found) => found,
            Err(fault) => {
                self.address = Err(fault);
                return;
            }
        };
        let mut hosts: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        hosts.dedup();
        let old = self.address.as_ref().ok();
        let old = old.and_then(|old| hosts.iter().position(|host| *host == old.ip()));
        let place = match old {
            // Keep the current address while the server replies: the order of the addresses of a
            // name has no meaning.
            Some(place) if !self.health.is_silent() => place,
            // Try the next address: this machine may have no IPv6, or one of several hosts may be
            // down.
            Some(place) => (place + 1) % hosts.len(),
            None => 0,
        };
        let Some(host) = hosts.get(place) else {
            self.address = Err("no address".into());
            return;
        };
        let address = found.iter().copied().find(|found| found.ip() == *host);
        let address = address.ok_or_else(|| "no address".into());
        if address != self.address
            && let Some(plan) = &mut self.game
        {
            plan.forget_ports();
        }
        self.address = address;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Origin;

    /// The clock is set back by a day while a poll is under way whose result still has the old time.
    #[test]
    fn changes_are_reported_after_the_clock_was_set_back() {
        const MINUTE: Millis = 60_000;
        const DAY: Millis = 24 * 60 * MINUTE;
        let server = Server {
            id: ServerId(1),
            name: "a".into(),
            target: "ugp://192.0.2.7".into(),
            group: String::new(),
            labels: Default::default(),
            interval: None,
            origin: Origin::Configuration,
        };
        let target = server.target().unwrap();
        let protocol = hailer::support::catalog::protocol("ugp").unwrap();
        let listed = ListedPolicies::default();
        let (health, changes) = (Health::default(), ChangeLimit::default());
        let mut polled = PolledServer::new(
            Arc::new(server),
            &target,
            protocol,
            health,
            changes,
            &listed,
        );
        let mut report = |at: Millis| {
            let status = LastStatus {
                version: Some(at.to_string().into()),
                ..LastStatus::default()
            };
            polled.find_changes(at, Some(&Arc::new(status))).len()
        };
        let burst: usize = (0..15).map(|minute| report(DAY + minute * MINUTE)).sum();
        assert_eq!(burst, 6);
        let later: usize = (0..120).map(|minute| report(minute * MINUTE)).sum();
        assert!((7..=8).contains(&later), "one every 15 minutes: {later}");
    }
}
