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
                    since: open.since,
                    phase: Phase::Open,
                    is_confirmed: false,
                    notified_at: open.notified_at,
                    change: None,
                    server: None,
                    departure: None,
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
mod tests {
    use super::*;
    use crate::alert::notification::ConditionKind;
    use crate::health::{FLAPPING_CHANGES, Health, HealthRules, State};
    use crate::sample::{PollError, Sample};
    use crate::server::Origin;
    use crate::state::Day;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const SECOND: Millis = 1_000;
    const MINUTE: Millis = 60 * SECOND;
    /// 2026-06-01 12:00 UTC.
    const START: Millis = 1_780_315_200_000;

    /// Servers in simulated time, with one tick per second.
    struct World {
        engine: AlertEngine,
        rows: BTreeMap<ServerId, ServerRow>,
        now: Millis,
        sent: Vec<(Millis, Notification)>,
        /// Open incidents as the history would store them.
        open: BTreeMap<IncidentKey, OpenIncident>,
    }

    fn rule(toml: &str) -> Rule {
        toml::from_str(&format!("name = 'r'\nto = ['ops']\nzone = 'UTC'\n{toml}")).unwrap()
    }

    impl World {
        fn new(rules: Vec<Rule>, servers: i64) -> Self {
            let row = |id| {
                let server = Server {
                    id: ServerId(id),
                    name: format!("s{id}"),
                    target: "ugp://127.0.0.1".into(),
                    group: "eu".into(),
                    labels: BTreeMap::new(),
                    interval: None,
                    origin: Origin::Configuration,
                };
                let row = ServerRow {
                    server: Arc::new(server),
                    state: State::Up,
                    is_flapping: false,
                    is_settled: true,
                    changes: Vec::new(),
                    since: START,
                    last_sample: None,
                    taken: 0,
                    error: None,
                    last_status: None,
                    day: Day::default(),
                };
                (ServerId(id), row)
            };
            let mut engine = AlertEngine::new(rules, &[]);
            engine.set_interval(Some(MINUTE));
            let rows = (0..servers).map(row).collect();
            Self {
                engine,
                rows,
                now: START,
                sent: Vec::new(),
                open: BTreeMap::new(),
            }
        }

        /// Adds a sample; without `players` the server is down.
        fn sample(&mut self, id: i64, players: Option<u32>) {
            let row = self.rows.get_mut(&ServerId(id)).unwrap();
            let state = if players.is_some() {
                State::Up
            } else {
                State::Down
            };
            let is_new = state != row.state;
            if is_new {
                row.state = state;
                row.since = self.now;
            }
            let is_answered = players.is_some();
            let server = row.server.id;
            let at = self.now;
            let max = Some(20);
            let latency = Some(1_500);
            row.last_sample = Some(Sample {
                observed_ms: 0,
                server,
                at,
                is_answered,
                players,
                max,
                latency,
                sent: 1,
                resent: 0,
            });
            let error = || PollError {
                kind: "silence".into(),
                message: "no answer".into(),
            };
            row.error = (!is_answered).then(|| Arc::new(error()));
            self.engine.sample(row, self.now);
            if is_new && is_answered {
                let up = Event {
                    server,
                    at,
                    kind: EventKind::Up,
                };
                self.engine.event(&row.server.clone(), &up);
            }
        }

        fn change(&mut self, id: i64, from: &str, to: &str) {
            let difference = ValueChange {
                from: Some(from.into()),
                to: Some(to.into()),
            };
            let event = Event {
                server: ServerId(id),
                at: self.now,
                kind: EventKind::Map(difference),
            };
            self.engine.event(&self.rows[&ServerId(id)].server, &event);
        }

        fn wait(&mut self, time: Millis) {
            for _ in 0..time / SECOND {
                self.now += SECOND;
                let output = self.engine.tick(self.now, |id| self.rows.get(&id).cloned());
                for open in output.opened {
                    self.open.insert(open.key.clone(), open);
                }
                for closed in output.closed {
                    assert!(
                        self.open.remove(&closed).is_some(),
                        "closed an incident that was not open"
                    );
                }
                self.sent.extend(
                    output
                        .notifications
                        .into_iter()
                        .map(|notification| (self.now, notification)),
                );
            }
        }

        /// Returns the messages since the last call, as `minute:kind names`.
        fn messages(&mut self) -> String {
            let sent = self.sent.drain(..).map(|(at, notification)| {
                let names: Vec<&str> = notification
                    .items
                    .iter()
                    .map(|item| item.name.as_str())
                    .collect();
                let kind = format!("{:?}", notification.kind).to_lowercase();
                format!("{}:{kind} {}", (at - START) / MINUTE, names.join(","))
            });
            sent.collect::<Vec<_>>().join("; ")
        }

        /// Simulates a kill and a restart.
        fn restart(&mut self) {
            let rules = self.engine.rules().to_vec();
            let open: Vec<OpenIncident> = self.open.values().cloned().collect();
            self.engine = AlertEngine::new(rules, &open);
            self.engine.set_interval(Some(MINUTE));
        }
    }

    #[test]
    fn two_leaders_name_the_same_incidents() {
        let rules = || vec![rule("when = 'down'\nfor = '2m'")];
        let mut leaders = [World::new(rules(), 3), World::new(rules(), 3)];
        for leader in &mut leaders {
            for id in 0..2 {
                leader.sample(id, None);
                leader.wait(15 * SECOND);
            }
        }
        let [first, second] = &mut leaders;
        // The second one takes over later, from the same states: it gathers both in one message.
        first.wait(10 * MINUTE);
        let taken_over: Vec<ServerRow> = second.rows.values().cloned().collect();
        second.engine = AlertEngine::new(rules(), &[]);
        second.engine.set_interval(Some(MINUTE));
        second.now += 10 * MINUTE;
        for row in &taken_over {
            second.engine.sample(row, second.now);
        }
        second.wait(10 * MINUTE);
        let told = |leader: &World| {
            let messages: Vec<String> = leader
                .sent
                .iter()
                .map(|(_, sent)| sent.id.clone())
                .collect();
            let items = leader.sent.iter().flat_map(|(_, sent)| &sent.items);
            let incidents: BTreeMap<String, String> = items
                .map(|item| (item.name.clone(), item.incident.clone()))
                .collect();
            (messages, incidents)
        };
        let ((messages, incidents), (others, same)) = (told(first), told(second));
        assert_eq!(incidents.keys().collect::<Vec<_>>(), ["s0", "s1"]);
        assert_eq!(incidents, same);
        assert_ne!(incidents["s0"], incidents["s1"]);
        assert_ne!(messages, others, "the messages combine other servers");
    }

    #[test]
    fn fires_after_for_repeats_and_resolves() {
        let mut world = World::new(vec![rule("when = 'down'\nfor = '5m'\nrepeat = '1h'")], 1);
        world.sample(0, None);
        world.wait(4 * MINUTE);
        world.sample(0, Some(1));
        world.wait(10 * MINUTE);
        assert_eq!(world.messages(), "", "shorter than `for`");
        world.sample(0, None);
        world.wait(6 * MINUTE);
        assert_eq!(world.messages(), "19:firing s0");
        world.wait(120 * MINUTE);
        assert_eq!(world.messages(), "79:repeated s0; 139:repeated s0");
        world.sample(0, Some(1));
        world.wait(MINUTE);
        assert_eq!(world.messages(), "140:resolved s0");
        assert!(world.engine.is_empty() && world.open.is_empty());
    }

    #[test]
    fn combines_many_incidents_into_one_message() {
        let mut world = World::new(vec![rule("when = 'down'")], 500);
        for id in 0..100 {
            world.sample(id, None);
        }
        world.wait(3 * SECOND);
        (100..500).for_each(|id| world.sample(id, None));
        world.wait(10 * SECOND);
        let output: Vec<Notification> = world
            .sent
            .drain(..)
            .map(|(_, notification)| notification)
            .collect();
        assert_eq!(output.len(), 1);
        assert_eq!(
            (output[0].items.len(), output[0].count()),
            (MAX_LISTED_SERVERS, 500)
        );
        assert_eq!(world.open.len(), 500);
        // They recover at two per second: one message immediately, then one per minute.
        for id in 0..500 {
            world.sample(id, Some(0));
            if id % 2 == 1 {
                world.wait(SECOND);
            }
        }
        world.wait(2 * MINUTE);
        let counts: Vec<u64> = world
            .sent
            .iter()
            .map(|(_, notification)| notification.count())
            .collect();
        assert_eq!(counts.iter().sum::<u64>(), 500);
        assert!(counts.len() <= 6, "{counts:?}");
        assert!(world.open.is_empty());
    }

    #[test]
    fn unknown_values_neither_fire_nor_resolve() {
        let mut world = World::new(vec![rule("players-below = 5\nfor = '2m'")], 1);
        world.sample(0, Some(3));
        world.wait(MINUTE);
        world.sample(0, None);
        world.wait(5 * MINUTE);
        assert_eq!(
            world.messages(),
            "",
            "the player count of a server that is down is unknown"
        );
        world.sample(0, Some(3));
        world.wait(10 * SECOND);
        assert_eq!(world.messages(), "6:firing s0");
        world.sample(0, None);
        world.wait(5 * MINUTE);
        world.sample(0, Some(9));
        world.wait(MINUTE);
        world.sample(0, Some(4));
        world.wait(5 * MINUTE);
        assert_eq!(
            world.messages(),
            "",
            "the condition was false for less than `for`"
        );
        world.sample(0, Some(9));
        world.wait(2 * MINUTE);
        world.sample(0, Some(9));
        world.wait(MINUTE);
        assert_eq!(world.messages(), "19:resolved s0");
    }

    #[test]
    fn combines_changes_and_drops_those_that_cancel_out() {
        let mut world = World::new(vec![rule("when = 'map'\nfor = '1m'")], 1);
        world.change(0, "a", "b");
        world.sample(0, Some(1));
        world.wait(30 * SECOND);
        world.change(0, "b", "c");
        world.wait(2 * MINUTE);
        let (_, notification) = world.sent.pop().unwrap();
        assert_eq!(
            (
                notification.items[0].from.as_deref(),
                notification.items[0].to.as_deref()
            ),
            (Some("a"), Some("c"))
        );
        world.change(0, "c", "d");
        world.wait(30 * SECOND);
        world.change(0, "d", "c");
        world.wait(5 * MINUTE);
        assert_eq!(world.messages(), "");
        assert!(world.engine.is_empty() && world.open.is_empty());
    }

    #[test]
    fn up_fires_only_after_down() {
        let mut world = World::new(vec![rule("when = 'up'\nfor = '1m'")], 2);
        world.sample(0, Some(1));
        world.sample(1, None);
        world.wait(5 * MINUTE);
        assert_eq!(
            world.messages(),
            "",
            "the first sample of a server that is up"
        );
        world.sample(1, Some(1));
        world.wait(2 * MINUTE);
        assert_eq!(world.messages(), "6:firing s1");
        world.sample(1, None);
        world.wait(2 * MINUTE);
        assert_eq!(world.messages(), "", "`up` does not resolve by default");
    }

    /// Servers that are polled in simulated time. They answer as `truth` says.
    struct Polled {
        world: World,
        health: Health,
        interval: Millis,
    }

    impl Polled {
        fn new(rule: Rule, interval: Millis) -> Self {
            let mut world = World::new(vec![rule], 1);
            world.engine.set_interval(Some(interval));
            Self {
                world,
                health: Health::default(),
                interval,
            }
        }

        /// Lets one second pass, in which the server is polled if its interval is over.
        fn second(&mut self, is_up: bool) {
            let world = &mut self.world;
            world.wait(SECOND);
            if (world.now - START) % self.interval != 0 {
                return;
            }
            let (server, at) = (ServerId(0), world.now);
            let rules = HealthRules::default();
            let events = self
                .health
                .sample(&rules, self.interval, at, is_up, || "silence".into());
            let row = world.rows.get_mut(&server).unwrap();
            row.set_health(&self.health);
            row.last_sample = Some(Sample {
                observed_ms: 0,
                server,
                at,
                is_answered: is_up,
                players: None,
                max: None,
                latency: None,
                sent: 1,
                resent: 0,
            });
            world.engine.sample(row, at);
            for (at, kind) in events.into_iter().flatten() {
                let event = Event { server, at, kind };
                world.engine.event(&row.server.clone(), &event);
            }
        }

        fn seconds(&mut self, is_up: bool, seconds: Millis) {
            (0..seconds).for_each(|_| self.second(is_up));
        }

        /// Returns the messages since the last call, as `SECOND condition kind since until`.
        fn messages(&mut self) -> Vec<String> {
            let seconds = |at: Millis| (at - START) / SECOND;
            let mut all = Vec::new();
            for (at, notification) in self.world.sent.drain(..) {
                let item = &notification.items[0];
                let until = item.until.map(|until| format!(" {}", seconds(until)));
                all.push(format!(
                    "{} {} {} {}{}",
                    seconds(at),
                    notification.condition.word(),
                    notification.kind.word(),
                    seconds(item.since),
                    until.unwrap_or_default()
                ));
            }
            all
        }
    }

    #[test]
    fn a_crash_loop_is_reported_and_so_is_the_outage_after_it() {
        let mut server = Polled::new(rule("when = 'down'\ngather = '0s'"), 2 * SECOND);
        server.seconds(true, 21);
        for _ in 0..3 {
            server.seconds(false, 20);
            server.seconds(true, 20);
        }
        let flapping = "105 flapping firing 22";
        assert_eq!(
            server.messages(),
            [
                "25 down firing 22",
                "43 down resolved 22 42",
                "65 down firing 62",
                "83 down resolved 62 82",
                flapping
            ]
        );
        server.seconds(false, 240);
        assert_eq!(server.messages(), ["323 down firing 142"]);
        server.seconds(true, 20);
        server.seconds(false, 20);
        server.seconds(true, 700);
        assert_eq!(
            server.messages(),
            [
                "603 down resolved 142 422",
                "1023 flapping resolved 22 1022"
            ]
        );
        assert!(server.world.open.is_empty() && server.world.engine.is_empty());
    }

    #[test]
    fn flapping_survives_a_restart_as_an_incident() {
        let mut server = Polled::new(rule("when = 'down'"), 2 * SECOND);
        for _ in 0..4 {
            server.seconds(true, 20);
            server.seconds(false, 20);
        }
        let firing = server
            .world
            .sent
            .iter()
            .filter(|(_, sent)| sent.condition == ConditionKind::Flapping);
        assert_eq!(firing.count(), 1);
        server.messages();
        server.world.restart();
        server.seconds(true, 400);
        server.world.restart();
        server.seconds(true, 400);
        let messages = server.messages();
        let flapping = messages.iter().filter(|text| text.contains("flapping"));
        assert_eq!(flapping.count(), 1, "{messages:?}");
        assert!(server.world.open.is_empty(), "{messages:?}");
    }

    #[test]
    fn quiet_hours_hold_messages_and_drop_repeats() {
        let mut world = World::new(
            vec![rule(
                "when = 'down'\nquiet = ['12:00-14:00']\nrepeat = '10m'",
            )],
            1,
        );
        world.sample(0, None);
        world.wait(115 * MINUTE);
        let (_, notification) = world.sent.pop().unwrap();
        assert_eq!(notification.held_until, Some(START + 120 * MINUTE));
        assert!(world.sent.is_empty());
        world.wait(10 * MINUTE);
        assert_eq!(world.messages(), "120:repeated s0");
    }

    #[test]
    fn monitor_silent_fires_without_samples_but_not_after_suspend() {
        let mut world = World::new(vec![rule("when = 'monitor-silent'\nfor = '5m'")], 1);
        world.sample(0, Some(1));
        world.wait(4 * MINUTE);
        world.sample(0, Some(1));
        world.wait(6 * MINUTE);
        assert_eq!(world.messages(), "9:firing the monitor");
        world.sample(0, Some(1));
        world.wait(MINUTE);
        assert_eq!(world.messages(), "10:resolved the monitor");
        world.now += 8 * 60 * MINUTE;
        world.wait(2 * MINUTE);
        assert_eq!(world.messages(), "", "the machine was suspended");
        world.engine.set_interval(None);
        world.wait(60 * MINUTE);
        assert_eq!(world.messages(), "", "there are no servers");
    }

    #[test]
    fn restart_neither_repeats_messages_nor_loses_the_end() {
        let mut world = World::new(vec![rule("when = 'down'")], 2);
        (0..2).for_each(|id| world.sample(id, None));
        world.wait(MINUTE);
        assert_eq!(world.messages(), "0:firing s0,s1");
        world.restart();
        (0..2).for_each(|id| world.sample(id, None));
        world.wait(MINUTE);
        assert_eq!(world.messages(), "");
        world.restart();
        world.sample(0, Some(1));
        world.rows.remove(&ServerId(1));
        let now = world.now;
        world.engine.remove_servers(|id| id == ServerId(1), now);
        world.wait(2 * MINUTE);
        assert_eq!(world.messages(), "2:resolved s0; 2:resolved server 1");
        assert!(
            world.open.is_empty(),
            "incidents of removed servers are closed"
        );
    }

    #[test]
    fn a_departed_server_ends_its_incidents_with_a_message() {
        let mut world = World::new(
            vec![rule("when = 'down'\ngather = '0s'\ngroups = ['eu']")],
            4,
        );
        (0..4).for_each(|id| world.sample(id, None));
        world.wait(MINUTE);
        assert_eq!(world.messages(), "0:firing s0,s1,s2,s3");
        let mut edit = |id: i64, change: fn(&mut Server)| {
            let row = world.rows.get_mut(&ServerId(id)).unwrap();
            change(Arc::make_mut(&mut row.server));
            world.engine.sample(row, world.now);
        };
        edit(0, |server| server.name = "lobby".into());
        edit(1, |server| server.group = "us".into());
        world.rows.remove(&ServerId(2));
        let now = world.now;
        world.engine.remove_servers(|id| id == ServerId(2), now);
        world.wait(SECOND);
        let (_, ended) = world.sent.pop().unwrap();
        assert_eq!(ended.kind, NotificationKind::Resolved);
        let of = |item: &AffectedServer| (item.name.clone(), item.state.clone(), item.to.clone());
        let mut items: Vec<_> = ended.items.iter().map(of).collect();
        items.sort();
        let renamed = ("s0".into(), "renamed".into(), Some("lobby".into()));
        let unwatched = ("s1".into(), "unwatched".into(), None);
        let removed = ("s2".into(), "removed".into(), None);
        assert_eq!(items, [renamed, unwatched, removed]);
        assert!(world.sent.is_empty());
        // The incident of a renamed server continues under its new name.
        (0..2).for_each(|id| world.sample(id, None));
        world.wait(MINUTE);
        assert_eq!(world.messages(), "1:firing lobby");
        assert_eq!(world.open.len(), 2);
        world.sample(0, Some(1));
        world.sample(3, Some(1));
        world.wait(MINUTE);
        assert_eq!(world.messages(), "2:resolved lobby,s3");
        assert!(world.open.is_empty() && world.engine.is_empty());
    }

    #[test]
    fn incidents_have_the_same_id_on_every_node() {
        let message = |servers: &[i64]| {
            let mut world = World::new(vec![rule("when = 'down'")], 3);
            servers.iter().for_each(|id| world.sample(*id, None));
            world.wait(MINUTE);
            servers.iter().for_each(|id| world.sample(*id, Some(1)));
            world.wait(MINUTE);
            let [firing, resolved] = [0, 1].map(|place| world.sent[place].1.clone());
            (firing, resolved)
        };
        let (firing, resolved) = message(&[0, 1]);
        let (again, _) = message(&[0, 1]);
        let (other, _) = message(&[1, 2]);
        assert_eq!(firing.id, again.id);
        assert!(firing.id != other.id && firing.id != resolved.id);
        // Two leaders may gather other servers into one message. The servers have the same ids.
        assert_eq!(firing.items[1].incident, other.items[0].incident);
        assert_eq!(firing.items[1].incident, resolved.items[1].incident);
        assert_ne!(firing.items[0].incident, firing.items[1].incident);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each incident begins and ends at most once, in this order, and memory is bounded.
        #[test]
        fn sends_each_notification_once(steps in prop::collection::vec((0..4_i64, prop::option::of(0..10_u32), 0..200_i64, 0..40_u8), 1..120)) {
            let rules = [
                "when = 'down'\nfor = '1m'", "when = 'up'\nresolve = true", "players-below = 5\nfor = '2m'", "when = 'map'",
                "players-above = 2\ngather = '0s'", "when = 'down'\ngather = '0s'\nservers = ['s1', 's2']",
            ];
            let rules = rules.iter().enumerate().map(|(n, toml)| Rule { name: format!("r{n}"), ..rule(toml) }).collect();
            let mut world = World::new(rules, 4);
            let mut open: BTreeMap<(String, ServerId), Millis> = BTreeMap::new();
            let mut seen = std::collections::BTreeSet::new();
            for (id, players, seconds, chance) in steps {
                world.sample(id, players);
                match chance {
                    0 => world.restart(),
                    1..4 => world.change(id, &format!("{chance}"), "z"),
                    _ => {}
                }
                world.wait(seconds * SECOND);
                for (_, notification) in world.sent.drain(..) {
                    let is_map = notification.condition == ConditionKind::Map;
                    prop_assert!(is_map || seen.insert(notification.id.clone()), "the same message twice");
                    for item in &notification.items {
                        let key = (notification.rule.clone(), item.id.unwrap());
                        match notification.kind {
                            _ if is_map => {}
                            NotificationKind::Firing => prop_assert_eq!(open.insert(key, item.since), None, "notified while open"),
                            NotificationKind::Resolved => prop_assert_eq!(open.remove(&key), Some(item.since), "resolved without an incident"),
                            NotificationKind::Repeated | NotificationKind::Test => prop_assert!(false, "no rule repeats"),
                        }
                    }
                }
                prop_assert!(world.engine.len() <= 24);
            }
        }

        /// The outages of a server are random. An outage that lasts is reported with
        /// its start, its end too, a crash loop is reported once, and short changes in it are not.
        #[test]
        fn no_outage_goes_unreported(
            steps in prop::collection::vec((1..60_i64, prop::sample::select(vec![5_i64, 20, 60])), 1..60),
            interval in prop::sample::select(vec![2_i64, 10, 60]),
            gather in prop::sample::select(vec![0_i64, 60]),
        ) {
            let toml = format!("when = 'down'\ngather = '{gather}s'");
            let mut server = Polled::new(rule(&toml), interval * SECOND);
            let rules = HealthRules::default();
            let settled = rules.settled_after(interval * SECOND);
            // A poll, the delay of the first message, and the time until the next.
            let slack = (interval + 6 + 2 * gather) * SECOND;
            let (mut down, mut flapping) = (None, None);
            let (mut changes, mut last): (Vec<Millis>, _) = (Vec::new(), START);
            for (place, (count, unit)) in steps.into_iter().enumerate() {
                for _ in 0..count * unit {
                    let before = (server.health.state, server.health.since);
                    server.second(place % 2 == 0);
                    let now = server.world.now;
                    let Health { state, since, .. } = server.health;
                    if before.0 != State::Unknown && (state, since) != before {
                        changes.push(since);
                        last = since;
                    }
                    for (_, sent) in server.world.sent.drain(..) {
                        let item = &sent.items[0];
                        let open = match sent.condition {
                            ConditionKind::Down => &mut down,
                            ConditionKind::Flapping => &mut flapping,
                            other => panic!("{other:?}"),
                        };
                        match (sent.kind, sent.condition) {
                            (NotificationKind::Firing, ConditionKind::Down) => {
                                prop_assert_eq!((state, item.since), (State::Down, since), "this outage");
                                let is_short = now - since < settled;
                                prop_assert!(!(server.health.is_flapping && is_short), "short and flapping");
                                prop_assert_eq!(open.replace(item.since), None);
                            }
                            (NotificationKind::Firing, _) => {
                                let [first, .., last] = item.changes[..] else { panic!("{item:?}") };
                                prop_assert!(item.changes.len() == FLAPPING_CHANGES);
                                prop_assert!(last - first <= rules.flapping_within);
                                prop_assert_eq!(open.replace(item.since), None);
                            }
                            _ => prop_assert_eq!(open.take(), Some(item.since), "an end without begin"),
                        }
                    }
                    let lasted = now - since;
                    if lasted > settled + slack {
                        prop_assert_eq!(down.is_some(), state == State::Down, "{} s {:?}", lasted / SECOND, state);
                    }
                    if now - last > rules.steady_after {
                        changes.clear();
                    }
                    if let Some(first) = changes.iter().rev().nth(FLAPPING_CHANGES - 1)
                        && last - first <= rules.flapping_within - slack
                        && now - last > slack && now - last < rules.steady_after
                    {
                        prop_assert!(flapping.is_some(), "{changes:?} at {now}");
                    }
                    if now - last > rules.steady_after + slack {
                        prop_assert!(flapping.is_none());
                    }
                }
            }
        }
    }

    proptest! {
            #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

            /// For a week, every timer of the rules ends at its time, also after a suspend, and after the
            /// clock was set back.
            #[test]
            fn timers_end_on_time_for_a_week(
                phases in prop::collection::vec(20..1_500_i64, 20..60),
                jumps in prop::collection::vec((any::<bool>(), 60..2_000_i64, 40..86_400_i64), 0..6),
            ) {
                let named = |name: &str, toml: &str| Rule { name: name.into(), ..rule(toml) };
                let mut world = World::new(vec![
                    named("late", "when = 'down'\nfor = '5m'\nrepeat = '6h'\ngather = '0s'"),
                    named("quiet", "when = 'down'\nquiet = ['22:00-07:00']"),
                    named("silent", "when = 'monitor-silent'\nfor = '10m'"),
                ], 1);
                let mut health = Health::default();
                let rules = HealthRules::default();
                let (mut phases, mut jumps) = (phases.into_iter().cycle(), jumps.into_iter());
                let mut change = phases.next().map(|minutes| minutes * MINUTE);
                let mut jump = jumps.next();
                let (mut is_up, mut last_jump, mut polled_at) = (true, 0, 0);
                // True time since the start; the clock of the world may be set back. `awake_at`: the end of
                // the last suspend.
                let (mut time, mut awake_at): (Millis, Millis) = (0, 0);
                // When the outage began, was noticed, and was last notified by the rule "late".
                let (mut begin, mut notified): (Option<Millis>, Option<Millis>) = (None, None);
                // If the clock was set back in an outage, its begin is known up to a poll.
                let mut tolerance = 6 * SECOND;
                while time < 7 * 24 * 60 * MINUTE {
                    if let Some((is_suspend, after, seconds)) = jump
                        && time - last_jump > after * MINUTE
                    {
                        let size = seconds * SECOND;
                        (last_jump, jump) = (time, jumps.next());
                        if is_suspend {
                            time += size;
                            world.now += size;
                            awake_at = time;
                        } else {
                            world.now -= size;
                            tolerance = 6 * SECOND + MINUTE;
                        }
                    }
                    if change.is_some_and(|change| time >= change) {
                        is_up = !is_up;
                        change = phases.next().map(|minutes| time + minutes * MINUTE);
                    }
                    if time - polled_at >= MINUTE {
                        polled_at = time;
                        let at = world.now;
                        let answered = health.sample(&rules, MINUTE, at, is_up, || "silence".into());
                        let _ = answered;
                        let row = world.rows.get_mut(&ServerId(0)).unwrap();
                        row.set_health(&health);
                        row.last_sample = Some(Sample {
    observed_ms: 0,
                            server: ServerId(0), at, is_answered: is_up, players: None, max: None, latency: None,
                            sent: 1, resent: 0,
                        });
                        world.engine.sample(row, at);
                        if is_up {
                            (begin, notified) = (None, None);
                            tolerance = 6 * SECOND;
                        } else {
                            begin.get_or_insert(time);
                        }
                    }
                    world.wait(2 * SECOND);
                    time += 2 * SECOND;
                    for (at, sent) in world.sent.drain(..) {
                        prop_assert!(sent.rule != "silent", "the monitor polls");
                        let clock = at.rem_euclid(24 * 60 * MINUTE) / (60 * MINUTE);
                        let is_night = !(7..22).contains(&clock);
                        prop_assert_eq!(sent.held_until.is_some(), sent.rule == "quiet" && is_night);
                        if let Some(until) = sent.held_until {
                            prop_assert_eq!(until.rem_euclid(24 * 60 * MINUTE), 7 * 60 * MINUTE);
                            prop_assert!((0..=9 * 60 * MINUTE).contains(&(until - at)));
                        }
                        if sent.rule == "late" && sent.kind != NotificationKind::Resolved {
                            let due = match notified {
                                Some(notified) => notified + 6 * 60 * MINUTE,
                                None => begin.unwrap() + 5 * MINUTE,
                            };
                            prop_assert!(time >= due - tolerance, "{} s early", (due - time) / SECOND);
                            notified = Some(time);
                        }
                    }
                    let due = match (notified, begin) {
                        (Some(notified), _) => notified + 6 * 60 * MINUTE,
                        (None, Some(begin)) => begin + 5 * MINUTE,
                        (None, None) => continue,
                    };
                    // After a suspend, the next poll may have to confirm the outage.
                    let due = if due < awake_at || begin > Some(awake_at - 2 * MINUTE) {
                        due.max(awake_at + 2 * MINUTE)
                    } else {
                        due
                    };
                    prop_assert!(time <= due + tolerance, "{} s late", (time - due) / SECOND);
                }
            }
        }
}
