//! Decides when a rule fires, repeats and resolves. No I/O; the caller passes the time.
//!
//! ```text
//!            true               `for` elapsed         message
//!   (none) ─────────► Pending ───────────────► Ready ─────────► Open ⟲ repeat
//!      ▲                 │                       │                │ false
//!      └─────────────────┴───────────────────────┘                ▼
//!      └────────────────────────────── Resolved ◄───────────── Ending
//!                   message               comparisons: false for `for`
//! ```
//!
//! An *incident* is one rule that is true for one server. Its begin and its end are notified once
//! each. Incidents that become ready within 5 s share one message. Memory: about 80 bytes for each
//! incident; none for rules that are false. Open incidents are stored in the history, so that a
//! restart neither repeats messages nor loses the end of an incident.
//!
//! An incident also ends with a message when its server is removed or renamed, or when the rule no
//! longer watches it.
//!
//! A rule about `down` is two rules: while a server is flapping, its short outages are not incidents,
//! so a second rule with the same receivers is about flapping.
//!
//! May import: `crate::alert::notification`, `crate::alert::rule`, `crate::sample`,
//! `crate::server`, `crate::state`.

use super::notification::{
    AffectedServer, MAX_LISTED_SERVERS, Notification, NotificationKind, hex,
};
use super::rule::{Change, Condition, Rule};
use crate::sample::{Event, EventKind, Millis, ValueChange};
use crate::server::{Server, ServerId};
use crate::state::ServerRow;
use compact_str::CompactString;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum length of a text of a server in a notification, in characters.
const MAX_TEXT_CHARS: usize = 300;
/// How long the first message after a pause waits for further incidents, in milliseconds.
const GATHER_DELAY: Millis = 5_000;
/// If ticks are further apart than this, in milliseconds, the machine was suspended or the clock was
/// set: do not report missing samples.
const MAX_TICK_GAP: Millis = 30_000;
/// The monitor counts as silent after at least this number of intervals without a sample.
const SILENT_AFTER_INTERVALS: Millis = 3;
/// Id that stands for the monitor itself.
pub(super) const MONITOR_ID: ServerId = ServerId(i64::MIN);

/// Evaluates rules and tracks their incidents.
#[derive(Debug, Default)]
pub struct AlertEngine {
    /// Configured rules, then a rule about flapping for each of them that is about `down`.
    rules: Vec<Rule>,
    /// Number of configured rules.
    configured: usize,
    /// For each rule, its pending messages: begins and ends of incidents.
    pending: Vec<[PendingMessage; 2]>,
    incidents: HashMap<(u16, ServerId), Incident>,
    /// Open incidents that ended without a message.
    closed: Vec<(u16, ServerId)>,
    /// Time of the newest sample, and when it arrived.
    newest: Option<(Millis, Millis)>,
    last_tick: Option<Millis>,
    /// Shortest interval of all servers; `None` without servers.
    interval: Option<Millis>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PendingMessage {
    /// When the first incident of the next message became ready; `None` without any.
    first: Option<Millis>,
    /// When the previous message was created.
    last: Option<Millis>,
}

#[derive(Debug)]
struct Incident {
    since: Millis,
    phase: Phase,
    /// Whether the last sample confirmed the condition. Otherwise the incident does not advance.
    is_confirmed: bool,
    /// When it was last notified, in Unix milliseconds; 0: never.
    notified_at: Millis,
    change: Option<Box<ValueChange>>,
    /// Description of the server, as in the messages so far. `None` for the monitor itself.
    server: Option<Arc<Server>>,
    /// Why it ended although the condition did not.
    departure: Option<Departure>,
}

/// Why an incident ended although its condition did not.
#[derive(Clone, Debug)]
enum Departure {
    /// The server was removed.
    Removed,
    /// The server was renamed. The incident continues under the new name.
    Renamed(String),
    /// The server was changed, and the rule no longer watches it.
    Unwatched,
}

/// See the diagram in the module documentation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// True, but not yet for `min_duration`.
    Pending,
    /// Waits for its message.
    Ready,
    /// The condition holds, and receivers were notified.
    Open,
    /// Notified, and false since then, but not yet for `min_duration`.
    Ending(Millis),
    /// Ended then; waits for its message.
    Resolved(Millis),
}

impl Phase {
    fn is_notified(self) -> bool {
        !matches!(self, Self::Pending | Self::Ready)
    }
}

/// Rule and server of an incident.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct IncidentKey {
    /// Name of the rule.
    pub rule: String,
    /// Whether it is about flapping, although the rule is about `down`.
    pub is_flapping: bool,
    /// The server; `None` for the monitor itself.
    pub server: Option<ServerId>,
}

/// An incident whose begin was notified and whose end was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenIncident {
    /// Rule and server.
    #[serde(flatten)]
    pub key: IncidentKey,
    /// When the condition became true, in Unix milliseconds.
    pub since: Millis,
    /// When it was last notified, in Unix milliseconds.
    pub notified_at: Millis,
}

/// Results of one tick. They must be stored together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickOutput {
    /// Messages to send.
    pub notifications: Vec<Notification>,
    /// Incidents that were opened or notified again.
    pub opened: Vec<OpenIncident>,
    /// Incidents that were closed.
    pub closed: Vec<IncidentKey>,
}

impl AlertEngine {
    /// Creates an engine. `open`: incidents that the history has as open.
    pub fn new(mut rules: Vec<Rule>, open: &[OpenIncident]) -> Self {
        let configured = rules.len();
        let about_flapping: Vec<Rule> = rules.iter().filter_map(Rule::about_flapping).collect();
        rules.extend(about_flapping);
        let mut engine = Self {
            pending: vec![Default::default(); rules.len()],
            rules,
            configured,
            ..Self::default()
        };
        for open in open {
            if let Some(key) = engine.position(&open.key) {
                let incident = Incident {
                    phase: Phase::Open,
                    is_confirmed: false,
                    notified_at: open.notified_at,
                    ..Incident::new(open.since, None, None)
                };
                engine.incidents.insert(key, incident);
            }
        }
        engine
    }

    /// Describes a server of incidents that were open before a restart, so that they can end with its
    /// name.
    pub fn describe(&mut self, server: &Arc<Server>) {
        for ((_, id), incident) in &mut self.incidents {
            if *id == server.id {
                incident.server = Some(server.clone());
            }
        }
    }

    /// Returns the number of the rule, and the id of the server. `None` if there is no such rule.
    fn position(&self, key: &IncidentKey) -> Option<(u16, ServerId)> {
        let is_wanted = |&(number, rule): &(u16, &Rule)| {
            rule.name == key.rule && self.is_about_flapping(number) == key.is_flapping
        };
        let (number, _) = numbered(&self.rules).find(is_wanted)?;
        Some((number, key.server.unwrap_or(MONITOR_ID)))
    }

    fn key(&self, (number, id): (u16, ServerId)) -> Option<IncidentKey> {
        let rule = self.rules.get(usize::from(number))?;
        Some(IncidentKey {
            rule: rule.name.clone(),
            is_flapping: self.is_about_flapping(number),
            server: (id != MONITOR_ID).then_some(id),
        })
    }

    /// Whether a rule is not configured, but about flapping in place of a rule about `down`.
    fn is_about_flapping(&self, number: u16) -> bool {
        usize::from(number) >= self.configured
    }

    /// Evaluates the rules for a server after a sample.
    pub fn sample(&mut self, row: &ServerRow, now: Millis) {
        // A node whose clock is ahead dates samples into the future.
        let at = row
            .last_sample
            .as_ref()
            .map_or(now, |last| last.at.min(now));
        if row.last_sample.is_some() && self.newest.is_none_or(|(newest, _)| newest < at) {
            self.newest = Some((at, now));
        }
        let id = row.server.id;
        let mut ended = Vec::new();
        let mut departed = Vec::new();
        for (number, rule) in numbered(&self.rules) {
            let key = (number, id);
            if let Some(incident) = self.incidents.get_mut(&key) {
                if let Some(departure) = incident.departure_of(row, rule) {
                    departed.push((key, departure));
                    continue;
                }
                // A new incident begins after the message about its end.
                if incident.departure.is_some() {
                    continue;
                }
                incident.server = Some(row.server.clone());
            }
            if !rule.watches(&row.server) {
                continue;
            }
            let Some(holds) = rule.condition.holds(row, now) else {
                let is_change = matches!(rule.condition, Condition::Changed(_));
                if let Some(incident) = self.incidents.get_mut(&key).filter(|_| !is_change) {
                    incident.is_confirmed = false;
                    // It waits for its message until it is confirmed again.
                    if incident.phase == Phase::Ready {
                        incident.phase = Phase::Pending;
                    }
                }
                continue;
            };
            match (self.incidents.get_mut(&key), holds) {
                (None, true) => {
                    // Only the event of coming up fires `up`, not the state.
                    if rule.condition != Condition::Up {
                        let since = match rule.condition {
                            Condition::Down => row.since.min(now),
                            Condition::Flapping => row.changes.first().copied().unwrap_or(at),
                            _ => at,
                        };
                        let incident = Incident::new(since, None, Some(row.server.clone()));
                        self.incidents.insert(key, incident);
                    }
                }
                (Some(incident), true) => {
                    incident.is_confirmed = true;
                    // While the server is flapping, it may be another outage by now.
                    if rule.condition == Condition::Down && !incident.phase.is_notified() {
                        incident.since = row.since;
                    }
                    if matches!(incident.phase, Phase::Ending(_) | Phase::Resolved(_)) {
                        // Its end was not notified yet, so the incident continues.
                        incident.phase = Phase::Open;
                    }
                }
                (Some(incident), false) => {
                    incident.is_confirmed = false;
                    let ending = match incident.phase {
                        Phase::Pending | Phase::Ready => {
                            self.incidents.remove(&key);
                            continue;
                        }
                        Phase::Resolved(_) => continue,
                        // While the server is flapping, its return is known only later.
                        Phase::Open if rule.condition == Condition::Down => row.since.min(at),
                        Phase::Open => at,
                        Phase::Ending(since) => since,
                    };
                    incident.phase = Phase::Ending(ending);
                    let min_duration = if rule.condition.is_comparison() {
                        rule.min_duration
                    } else {
                        0
                    };
                    if at - ending >= min_duration {
                        ended.push((key, ending));
                    }
                }
                (None, false) => {}
            }
        }
        for (key, at) in ended {
            self.resolve(key, at, now);
        }
        for (key, departure) in departed {
            self.end(key, departure, now);
        }
    }

    /// Ends an incident although its condition is true.
    fn end(&mut self, key: (u16, ServerId), departure: Departure, now: Millis) {
        let Some(incident) = self.incidents.get_mut(&key) else {
            return;
        };
        match incident.phase {
            Phase::Pending | Phase::Ready => drop(self.incidents.remove(&key)),
            Phase::Open | Phase::Ending(_) => {
                incident.departure = Some(departure);
                self.resolve(key, now, now);
            }
            Phase::Resolved(_) => {}
        }
    }

    /// Processes an event of a server: coming up, or a change.
    pub fn event(&mut self, server: &Arc<Server>, event: &Event) {
        for (number, rule) in numbered(&self.rules) {
            let difference = match (&event.kind, rule.condition) {
                (EventKind::Up, Condition::Up) => None,
                (EventKind::Version(difference), Condition::Changed(Change::Version))
                | (EventKind::Map(difference), Condition::Changed(Change::Map))
                | (EventKind::Motd(difference), Condition::Changed(Change::Motd))
                | (EventKind::Address(difference), Condition::Changed(Change::Address)) => {
                    Some(difference)
                }
                _ => continue,
            };
            if !rule.watches(server) {
                continue;
            }
            let key = (number, server.id);
            let known = self
                .incidents
                .get_mut(&key)
                .and_then(|incident| incident.change.as_mut());
            match (known, difference) {
                // Combine changes that were not notified yet; drop them if they cancel out.
                (Some(known), Some(ValueChange { to, .. })) => {
                    known.to = to.as_deref().map(cut);
                    if known.from == known.to {
                        self.incidents.remove(&key);
                    }
                }
                (_, difference) => {
                    let change = difference.map(|both| {
                        Box::new(ValueChange {
                            from: both.from.as_deref().map(cut),
                            to: both.to.as_deref().map(cut),
                        })
                    });
                    self.incidents
                        .entry(key)
                        .or_insert_with(|| Incident::new(event.at, change, Some(server.clone())));
                }
            }
        }
    }

    /// Ends the incidents of servers that are no longer monitored.
    pub fn remove_servers(&mut self, is_removed: impl Fn(ServerId) -> bool, now: Millis) {
        let removed = |key: &&(u16, ServerId)| key.1 != MONITOR_ID && is_removed(key.1);
        let removed: Vec<_> = self.incidents.keys().filter(removed).copied().collect();
        for key in removed {
            self.end(key, Departure::Removed, now);
        }
    }

    /// Sets the shortest interval of all servers, in milliseconds; `None` without servers.
    pub fn set_interval(&mut self, interval: Option<Millis>) {
        self.interval = interval;
    }

    /// Returns what must be sent and stored now. Call it about once per second. `row` returns the
    /// current state of a server.
    pub fn tick(&mut self, now: Millis, row: impl Fn(ServerId) -> Option<ServerRow>) -> TickOutput {
        self.follow_clock(now);
        self.check_silence(now);
        let mut output = TickOutput::default();
        let repeats = self.advance(now);
        let due = self.due_messages(now);
        let mut ready = self.ready_incidents(&due);
        for (number, repeated) in repeats.into_iter().enumerate() {
            let [begun, ended, departed] = std::mem::take(&mut ready[number]);
            for (place, kind, incidents) in [
                (0, NotificationKind::Firing, begun),
                (1, NotificationKind::Resolved, ended),
                (1, NotificationKind::Resolved, departed),
            ] {
                if due[number][place] {
                    self.pending[number][place].first = None;
                }
                if !incidents.is_empty() {
                    self.pending[number][place].last = Some(now);
                    self.notify(number, kind, incidents, now, &row, &mut output);
                }
            }
            if !repeated.is_empty() {
                let kind = NotificationKind::Repeated;
                self.notify(number, kind, repeated, now, &row, &mut output);
            }
        }
        for closed in std::mem::take(&mut self.closed) {
            // The server may have a new incident of the same rule.
            let incident = self.incidents.get(&closed);
            if incident.is_none_or(|incident| !incident.phase.is_notified()) {
                output.closed.extend(self.key(closed));
            }
        }
        output
    }

    /// Moves pending incidents to `Ready`. Returns, for each rule, the incidents to notify again.
    fn advance(&mut self, now: Millis) -> Vec<Vec<(Millis, ServerId)>> {
        let mut repeats = vec![Vec::new(); self.rules.len()];
        for (&(number, id), incident) in &mut self.incidents {
            let Some(rule) = self.rules.get(usize::from(number)) else {
                continue;
            };
            if !incident.is_confirmed {
                continue;
            }
            match incident.phase {
                Phase::Pending if now - incident.since >= rule.min_duration => {
                    incident.phase = Phase::Ready;
                    self.pending[usize::from(number)][0]
                        .first
                        .get_or_insert(now);
                }
                Phase::Open
                    if rule
                        .repeat
                        .is_some_and(|repeat| now - incident.notified_at >= repeat) =>
                {
                    repeats[usize::from(number)].push((incident.since, id));
                }
                _ => {}
            }
        }
        repeats
    }

    /// Returns, for each rule, whether its messages about begins and ends are due.
    fn due_messages(&self, now: Millis) -> Vec<[bool; 2]> {
        let is_due = |pending: &PendingMessage, rule: &Rule| {
            let Some(first) = pending.first else {
                return false;
            };
            let last = pending.last.unwrap_or(Millis::MIN / 2);
            now >= (first + GATHER_DELAY.min(rule.gather)).max(last + rule.gather)
        };
        self.rules
            .iter()
            .zip(&self.pending)
            .map(|(rule, both)| [is_due(&both[0], rule), is_due(&both[1], rule)])
            .collect()
    }

    /// Returns, for each rule, the incidents of its due messages: begun, ended, and those whose servers
    /// have departed.
    fn ready_incidents(&self, due: &[[bool; 2]]) -> Vec<[Vec<(Millis, ServerId)>; 3]> {
        let mut ready = vec![[const { Vec::new() }; 3]; self.rules.len()];
        if !due.iter().any(|both| both.contains(&true)) {
            return ready;
        }
        for (&(number, id), incident) in &self.incidents {
            let (message, place) = match incident.phase {
                Phase::Ready => (0, 0),
                Phase::Resolved(_) if incident.departure.is_some() => (1, 2),
                Phase::Resolved(_) => (1, 1),
                _ => continue,
            };
            if due
                .get(usize::from(number))
                .is_some_and(|both| both[message])
            {
                ready[usize::from(number)][place].push((incident.since, id));
            }
        }
        ready
    }

    /// Returns the open incidents of one server, or of all, the oldest first.
    pub fn open(&self, of: Option<ServerId>) -> Vec<OpenIncident> {
        let mut open = Vec::new();
        for (place, incident) in &self.incidents {
            let is_wanted = of.is_none_or(|of| of == place.1) && incident.phase.is_notified();
            if let (Some(key), true) = (self.key(*place), is_wanted) {
                open.push(OpenIncident {
                    key,
                    since: incident.since,
                    notified_at: incident.notified_at,
                });
            }
        }
        open.sort_by_key(|open| (open.since, open.key.server));
        open
    }

    /// All rules, in the order of the configuration.
    pub fn rules(&self) -> &[Rule] {
        &self.rules[..self.configured]
    }

    /// Number of incidents in memory, notified or not.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.incidents.len()
    }

    /// Whether no rule is true for any server.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.incidents.is_empty()
    }

    /// Ends an incident at `at`: with a message, unless the rule has `resolve = false`.
    fn resolve(&mut self, key: (u16, ServerId), at: Millis, now: Millis) {
        let number = usize::from(key.0);
        if !self.rules[number].is_end_notified {
            self.incidents.remove(&key);
            self.closed.push(key);
        } else if let Some(incident) = self.incidents.get_mut(&key) {
            incident.phase = Phase::Resolved(at);
            self.pending[number][1].first.get_or_insert(now);
        }
    }

    /// Shifts all times if the clock was set back, so that timers end when they should.
    /// Otherwise nothing would be sent until the clock has caught up.
    fn follow_clock(&mut self, now: Millis) {
        let Some(step) = self
            .last_tick
            .map(|last| last - now)
            .filter(|step| *step > 0)
        else {
            return;
        };
        for incident in self.incidents.values_mut() {
            incident.notified_at -= step;
            match &mut incident.phase {
                // The begin of a notified incident identifies it.
                Phase::Pending | Phase::Ready => incident.since -= step,
                Phase::Ending(since) | Phase::Resolved(since) => *since -= step,
                Phase::Open => {}
            }
        }
        for pending in self.pending.iter_mut().flatten() {
            for time in [&mut pending.first, &mut pending.last] {
                *time = time.map(|time| time - step);
            }
        }
        // The next sample is new, although its time is smaller.
        self.newest = self
            .newest
            .map(|(_, arrival)| (Millis::MIN, arrival - step));
    }

    /// Evaluates `monitor-silent`.
    fn check_silence(&mut self, now: Millis) {
        let was_suspended = self
            .last_tick
            .is_none_or(|last| (now - last).abs() > MAX_TICK_GAP);
        self.last_tick = Some(now);
        let newest = self.newest.get_or_insert((Millis::MIN, now));
        if was_suspended {
            newest.1 = now;
        }
        let last_arrival = newest.1;
        let mut ended = Vec::new();
        for (number, rule) in numbered(&self.rules) {
            if rule.condition != Condition::MonitorSilent {
                continue;
            }
            let key = (number, MONITOR_ID);
            let is_silent = self.interval.is_some_and(|interval| {
                let limit = rule
                    .min_duration
                    .max(interval.saturating_mul(SILENT_AFTER_INTERVALS));
                now - last_arrival >= limit
            });
            match (self.incidents.get_mut(&key), is_silent) {
                (None, true) => {
                    self.incidents
                        .insert(key, Incident::new(last_arrival, None, None));
                }
                (Some(incident), true) => {
                    incident.is_confirmed = true;
                    if matches!(incident.phase, Phase::Resolved(_)) {
                        incident.phase = Phase::Open;
                    }
                }
                // Not known yet, since the time of silence was reset.
                (Some(_), false) if was_suspended => {}
                (Some(incident), false) => match incident.phase {
                    Phase::Pending | Phase::Ready => {
                        self.incidents.remove(&key);
                    }
                    Phase::Open => ended.push(key),
                    Phase::Ending(_) | Phase::Resolved(_) => {}
                },
                (None, false) => {}
            }
        }
        for key in ended {
            self.resolve(key, last_arrival, now);
        }
    }

    /// Creates the notification of some incidents of one rule, and updates their phases.
    fn notify(
        &mut self,
        number: usize,
        kind: NotificationKind,
        mut incidents: Vec<(Millis, ServerId)>,
        now: Millis,
        row: &impl Fn(ServerId) -> Option<ServerRow>,
        output: &mut TickOutput,
    ) {
        let rule = &self.rules[number];
        let held_until = rule.quiet.until(now);
        // Drop repeats during quiet hours; the first message afterwards suffices.
        let is_dropped = kind == NotificationKind::Repeated && held_until.is_some();
        incidents.sort_unstable();
        let mut hash = Sha256::new();
        let repeated_at = if kind == NotificationKind::Repeated {
            now
        } else {
            0
        };
        let condition = rule.condition.kind();
        hash.update(format!("{kind:?}\0{repeated_at}"));
        let mut items = Vec::new();
        for &(since, id) in &incidents {
            let incident_id = incident_id(rule, id, since);
            hash.update(&incident_id);
            let place = (number as u16, id);
            let Some(key) = self.key(place) else {
                continue;
            };
            let Some(incident) = self.incidents.get_mut(&place) else {
                continue;
            };
            if items.len() < MAX_LISTED_SERVERS {
                let row = row(id);
                let mut item = affected_server(id, rule.condition, incident, row.as_ref(), now);
                item.incident = incident_id;
                items.push(item);
            }
            incident.notified_at = now;
            match kind {
                NotificationKind::Resolved => {
                    self.incidents.remove(&place);
                    output.closed.push(key);
                    continue;
                }
                NotificationKind::Firing if matches!(rule.condition, Condition::Changed(_)) => {
                    self.incidents.remove(&place);
                    continue;
                }
                _ => incident.phase = Phase::Open,
            }
            output.opened.push(OpenIncident {
                key,
                since,
                notified_at: now,
            });
        }
        if !is_dropped {
            let more = u32::try_from(incidents.len() - items.len()).unwrap_or(u32::MAX);
            output.notifications.push(Notification {
                id: hex(&hash.finalize()),
                rule: rule.name.clone(),
                condition,
                kind,
                at: now,
                items,
                more,
                to: rule.to.clone(),
                held_until,
                message: rule.message.clone(),
                zone: rule.zone.clone(),
            });
        }
    }
}

/// Returns the id of an incident: 32 hexadecimal digits, the same on every node.
fn incident_id(rule: &Rule, server: ServerId, since: Millis) -> String {
    // A rule about `down` has incidents about flapping too.
    let condition = rule.condition.kind().word();
    let key = format!("{}\0{condition}\0{}\0{since}", rule.name, server.0);
    hex(&Sha256::digest(key))
}

impl Incident {
    fn new(since: Millis, change: Option<Box<ValueChange>>, server: Option<Arc<Server>>) -> Self {
        Self {
            since,
            phase: Phase::Pending,
            is_confirmed: true,
            notified_at: 0,
            change,
            server,
            departure: None,
        }
    }

    /// Returns why it ends now although its condition may be true; `None` if it does not.
    fn departure_of(&self, row: &ServerRow, rule: &Rule) -> Option<Departure> {
        if self.departure.is_some() {
            return None;
        }
        let known = self.server.as_ref().map(|server| &server.name);
        if known.is_some_and(|known| *known != row.server.name) {
            return Some(Departure::Renamed(row.server.name.clone()));
        }
        (!rule.watches(&row.server)).then_some(Departure::Unwatched)
    }
}

impl Departure {
    /// Returns the state of the server in `schema/alert-v2.json`.
    fn word(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Renamed(_) => "renamed",
            Self::Unwatched => "unwatched",
        }
    }
}

fn numbered(rules: &[Rule]) -> impl Iterator<Item = (u16, &Rule)> {
    (0..u16::MAX).zip(rules)
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}

fn affected_server(
    id: ServerId,
    condition: Condition,
    incident: &Incident,
    row: Option<&ServerRow>,
    now: Millis,
) -> AffectedServer {
    let mut item = AffectedServer {
        since: incident.since,
        ..AffectedServer::default()
    };
    if let Phase::Resolved(until) = incident.phase {
        item.until = Some(until);
    }
    if let Some(change) = &incident.change {
        item.from.clone_from(&change.from);
        item.to.clone_from(&change.to);
    }
    if id == MONITOR_ID {
        item.name = "the monitor".into();
        return item;
    }
    item.id = Some(id);
    match incident.server.as_ref().or(row.map(|row| &row.server)) {
        Some(server) => {
            item.name = cut(&server.name);
            item.group = cut(&server.group);
            item.target = cut(&server.target);
        }
        None => item.name = format!("server {}", id.0),
    }
    if let Some(departure) = &incident.departure {
        item.state = departure.word().into();
        if let Departure::Renamed(name) = departure {
            item.to = Some(cut(name));
        }
        return item;
    }
    let Some(row) = row else {
        return item;
    };
    item.state = match row.state {
        // The state of an outage that lasts, and of its end.
        _ if row.is_flapping && !(condition == Condition::Down && row.is_settled) => "flapping",
        state => state.word(),
    }
    .into();
    if condition == Condition::Flapping {
        item.changes.clone_from(&row.changes);
    }
    item.uptime = row.day.uptime(now);
    if let Some(last) = &row.last_sample {
        item.players = last.players;
        item.max = last.max;
        item.latency = last.latency;
    }
    if let Some(error) = &row.error {
        item.reason = Some(cut(&error.kind));
        item.error = Some(cut(&error.message));
    }
    if let Some(status) = &row.last_status {
        let text = |text: &Option<CompactString>| text.as_deref().map(cut);
        item.title = text(&status.title);
        item.version = text(&status.version);
        item.map = text(&status.map);
        item.bots = status.bots;
        item.has_password = status.has_password;
        item.motd = status.motd.as_ref().map(|motd| cut(&motd.plain()));
    }
    item
}

#[cfg(test)]
mod tests;
