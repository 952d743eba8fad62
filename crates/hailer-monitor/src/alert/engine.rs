//! When a rule fires, and when it is over: sans-IO, told the time.
//!
//! ```text
//!            it is so          `for` has passed        a message goes
//!   nothing ───────────► Pending ───────────► Ripe ───────────► Open ⟲ repeat
//!      ▲                    │                   │                 │ it is so no more
//!      └────────────────────┴───────────────────┘                 ▼
//!      └──────────────────────────────── Over ◄────────────── Ending
//!                   a message goes                 comparisons: `for` again
//! ```
//!
//! An *incident* is from when it is so until it is so no more, of one rule and one server: it is told once, and its end once. What
//! ripens within a short time is told in one message. Memory is an incident of some 80 bytes for each rule and server where it *is* so.
//! Open incidents are written to the history, so that a restart neither tells them again nor forgets their ends.

use super::rule::{Change, Condition, MessageConfig, Rule};
use crate::sample::{Difference, Event, EventKind, Millis};
use crate::server::{Server, ServerId};
use crate::state::ServerRow;
use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// So many servers are listed in a message; of the others it says how many.
pub const MAX_LISTED_SERVERS: usize = 20;
/// Of a text that a server says, so many characters are kept.
const MAX_TEXT_CHARS: usize = 300;
/// The first that ripens waits for others for so long.
const GATHER_DELAY: Millis = 5_000;
/// Who is not told the time for so long was asleep, and the monitor with it: that is no silence.
const MAX_TICK_GAP: Millis = 30_000;
/// The monitor is silent after so many intervals at the earliest.
const SILENT_AFTER_INTERVALS: Millis = 3;
/// Stands for the monitor itself, where others have a server.
pub(super) const MONITOR_ID: ServerId = ServerId(i64::MIN);

/// Rules, and where they stand.
#[derive(Debug, Default)]
pub struct AlertEngine {
    rules: Vec<Rule>,
    /// For each rule what waits to be told: that it is so, and that it is over.
    gathered: Vec<[PendingNotification; 2]>,
    incidents: HashMap<(u16, ServerId), Incident>,
    /// Open ones that ended without a word.
    closed: Vec<(u16, ServerId)>,
    /// The newest sample, and when it came.
    newest: Option<(Millis, Millis)>,
    last_tick: Option<Millis>,
    /// The shortest interval of all who are watched; `None`: nobody is.
    interval: Option<Millis>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PendingNotification {
    /// When the first that waits began to.
    first: Option<Millis>,
    /// When the last message went.
    last: Option<Millis>,
}

#[derive(Debug)]
struct Incident {
    since: Millis,
    phase: Phase,
    /// Whether it was so at the last look: what nobody knows does not ripen.
    is_sure: bool,
    /// When it was last told.
    notified_at: Millis,
    change: Option<Box<Difference>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// It is so, for too short a time.
    Pending,
    /// It is to be told.
    Ripe,
    /// It was told.
    OpenIncident,
    /// It was told, and is so no more since then, for too short a time.
    Ending(Millis),
    /// That it is over since then is to be told.
    Over(Millis),
}

/// What is to be told: a message before it is put into words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// Always the same for the same incidents, whoever works it out.
    pub id: String,
    /// Which rule.
    pub rule: String,
    /// What it watches for, in a word.
    pub condition: String,
    /// Whether it is so, or over.
    pub kind: NotificationKind,
    /// When it was made.
    pub at: Millis,
    /// About whom, [`MAX_LISTED_SERVERS`] at the most.
    pub items: Vec<AffectedServer>,
    /// And so many more.
    pub more: u32,
    /// To whom, by name.
    pub to: Vec<String>,
    /// It was quiet, until then.
    pub held_until: Option<Millis>,
    /// What to say, if not the usual.
    pub words: MessageConfig,
    /// The zone of its times.
    pub zone: String,
}

/// What kind of a message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationKind {
    /// It is so.
    Firing,
    /// It still is.
    Repeated,
    /// It is over.
    Resolved,
    /// Nothing is so: somebody wants to see whether messages arrive.
    Test,
}

/// One server of a message, as it stood when the message was made. Texts are as servers said them: hostile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AffectedServer {
    /// Its number; `None` for the monitor itself.
    pub id: Option<ServerId>,
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Whom to ask, as it was typed.
    pub target: String,
    /// `up`, `down`, `unknown` or `flapping`.
    pub state: String,
    /// Since when it is so.
    pub since: Millis,
    /// Since when it is over.
    pub until: Option<Millis>,
    /// Players on.
    pub players: Option<u32>,
    /// The most that fit.
    pub max: Option<u32>,
    /// In microseconds.
    pub latency: Option<u32>,
    /// Of the last day, from 0 to 1.
    pub uptime: Option<f32>,
    /// Why there is no answer, in a word and a sentence.
    pub reason: Option<String>,
    /// See there.
    pub error: Option<String>,
    /// What was before a change.
    pub from: Option<String>,
    /// What is after it.
    pub to: Option<String>,
    /// What it calls itself.
    pub title: Option<String>,
    /// Its MOTD without colours.
    pub motd: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its map.
    pub map: Option<String>,
}

/// An incident that was told and is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenIncident {
    /// Whose rule, by name.
    pub rule: String,
    /// Which server; `None` for the monitor itself.
    pub server: Option<ServerId>,
    /// Since when it is so.
    pub since: Millis,
    /// When it was last told.
    pub notified_at: Millis,
}

/// What came of a tick: all of it is to be written at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickOutput {
    /// What is to be told.
    pub notifications: Vec<Notification>,
    /// Incidents that are open from now on, or told again.
    pub opened: Vec<OpenIncident>,
    /// Incidents that are no longer open, by rule and server.
    pub closed: Vec<(String, Option<ServerId>)>,
}

impl AlertEngine {
    /// Rules, and what was open when the history was last written.
    pub fn new(rules: Vec<Rule>, open: &[OpenIncident]) -> Self {
        let mut incidents = HashMap::new();
        for open in open {
            let number = rules
                .iter()
                .take(usize::from(u16::MAX))
                .position(|rule| rule.name == open.rule);
            if let Some(number) = number {
                let incident = Incident {
                    since: open.since,
                    phase: Phase::OpenIncident,
                    is_sure: false,
                    notified_at: open.notified_at,
                    change: None,
                };
                incidents.insert((number as u16, open.server.unwrap_or(MONITOR_ID)), incident);
            }
        }
        let gathered = vec![Default::default(); rules.len()];
        Self {
            rules,
            gathered,
            incidents,
            ..Self::default()
        }
    }

    /// Looks at how a server stands, after each sample of it.
    pub fn sample(&mut self, row: &ServerRow, now: Millis) {
        let at = row.last_sample.as_ref().map_or(now, |last| last.at);
        if row.last_sample.is_some() && self.newest.is_none_or(|(newest, _)| newest < at) {
            self.newest = Some((at, now));
        }
        let id = row.server.id;
        let mut ended = Vec::new();
        for (number, rule) in numbered(&self.rules) {
            let key = (number, id);
            if !rule.watches(&row.server) {
                // It may have watched it before its labels were changed.
                if let Some(Incident {
                    phase: Phase::OpenIncident | Phase::Ending(_) | Phase::Over(_),
                    ..
                }) = self.incidents.remove(&key)
                {
                    self.closed.push(key);
                }
                continue;
            }
            let Some(holds) = rule.condition.holds(row, now) else {
                let is_change = matches!(rule.condition, Condition::Changed(_));
                if let Some(incident) = self.incidents.get_mut(&key).filter(|_| !is_change) {
                    incident.is_sure = false;
                }
                continue;
            };
            match (self.incidents.get_mut(&key), holds) {
                (None, true) => {
                    // That it came up is an event; that it is up is none.
                    if rule.condition != Condition::Up {
                        let since = if rule.condition == Condition::Down {
                            row.since
                        } else {
                            at
                        };
                        self.incidents.insert(key, Incident::new(since, None));
                    }
                }
                (Some(incident), true) => {
                    incident.is_sure = true;
                    if matches!(incident.phase, Phase::Ending(_) | Phase::Over(_)) {
                        // Its end was not told, so it goes on.
                        incident.phase = Phase::OpenIncident;
                    }
                }
                (Some(incident), false) => {
                    incident.is_sure = false;
                    let patience = if rule.condition.is_comparison() {
                        rule.lasts
                    } else {
                        0
                    };
                    let ending = match incident.phase {
                        Phase::Pending | Phase::Ripe => {
                            self.incidents.remove(&key);
                            continue;
                        }
                        Phase::Over(_) => continue,
                        Phase::OpenIncident => at,
                        Phase::Ending(since) => since,
                    };
                    incident.phase = Phase::Ending(ending);
                    if at - ending >= patience {
                        ended.push((key, ending));
                    }
                }
                (None, false) => {}
            }
        }
        for (key, at) in ended {
            self.end(key, at, now);
        }
    }

    /// Hears what changed.
    pub fn event(&mut self, server: &Server, event: &Event) {
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
                // From what was last told to what is now.
                (Some(known), Some(Difference { to, .. })) => {
                    known.to = to.as_deref().map(cut);
                    if known.from == known.to {
                        self.incidents.remove(&key);
                    }
                }
                (_, difference) => {
                    let short = |text: &Option<String>| text.as_deref().map(cut);
                    let change = difference.map(|both| {
                        Box::new(Difference {
                            from: short(&both.from),
                            to: short(&both.to),
                        })
                    });
                    self.incidents
                        .entry(key)
                        .or_insert_with(|| Incident::new(event.at, change));
                }
            }
        }
    }

    /// Servers that are watched no more: nothing is told of them, nor that anything is over.
    pub fn forget(&mut self, which: impl Fn(ServerId) -> bool) {
        let closed = &mut self.closed;
        self.incidents.retain(|key, incident| {
            let is_kept = key.1 == MONITOR_ID || !which(key.1);
            if !is_kept && !matches!(incident.phase, Phase::Pending | Phase::Ripe) {
                closed.push(*key);
            }
            is_kept
        });
    }

    /// The shortest interval of all who are watched, in milliseconds; `None`: nobody is.
    pub fn watches(&mut self, interval: Option<Millis>) {
        self.interval = interval;
    }

    /// What is to be told now. To be called each second or so. `row` is how a server stands.
    pub fn tick(&mut self, now: Millis, row: impl Fn(ServerId) -> Option<ServerRow>) -> TickOutput {
        self.listen_for_silence(now);
        let mut output = TickOutput::default();
        let mut repeats = vec![Vec::new(); self.rules.len()];
        for (&(number, id), incident) in &mut self.incidents {
            let Some(rule) = self.rules.get(usize::from(number)) else {
                continue;
            };
            match incident.phase {
                Phase::Pending if incident.is_sure && now - incident.since >= rule.lasts => {
                    incident.phase = Phase::Ripe;
                    self.gathered[usize::from(number)][0]
                        .first
                        .get_or_insert(now);
                }
                Phase::OpenIncident
                    if incident.is_sure
                        && rule
                            .repeat
                            .is_some_and(|repeat| now - incident.notified_at >= repeat) =>
                {
                    repeats[usize::from(number)].push((incident.since, id));
                }
                _ => {}
            }
        }
        let is_due = |gathered: &PendingNotification, rule: &Rule| {
            let Some(first) = gathered.first else {
                return false;
            };
            // A clock that was set back makes nobody wait.
            let last = gathered
                .last
                .filter(|last| *last <= now)
                .unwrap_or(Millis::MIN / 2);
            now >= (first + GATHER_DELAY.min(rule.gather)).max(last + rule.gather) || now < first
        };
        let rules = self.rules.iter().zip(&self.gathered);
        let due: Vec<[bool; 2]> = rules
            .map(|(rule, both)| [is_due(&both[0], rule), is_due(&both[1], rule)])
            .collect();
        let mut ripe = vec![[Vec::new(), Vec::new()]; self.rules.len()];
        if due.iter().any(|both| both.contains(&true)) {
            for (&(number, id), incident) in &self.incidents {
                let place = match incident.phase {
                    Phase::Ripe => 0,
                    Phase::Over(_) => 1,
                    _ => continue,
                };
                if due.get(usize::from(number)).is_some_and(|both| both[place]) {
                    ripe[usize::from(number)][place].push((incident.since, id));
                }
            }
        }
        for number in 0..self.rules.len() {
            let [notification, over] = std::mem::take(&mut ripe[number]);
            for (place, kind, who) in [
                (0, NotificationKind::Firing, notification),
                (1, NotificationKind::Resolved, over),
            ] {
                if due[number][place] {
                    self.gathered[number][place].first = None;
                }
                if !who.is_empty() {
                    self.gathered[number][place].last = Some(now);
                    self.tell(number, kind, who, now, &row, &mut output);
                }
            }
            let repeated = std::mem::take(&mut repeats[number]);
            if !repeated.is_empty() {
                self.tell(
                    number,
                    NotificationKind::Repeated,
                    repeated,
                    now,
                    &row,
                    &mut output,
                );
            }
        }
        for (number, id) in self.closed.drain(..) {
            // It may be open anew.
            let now_open =
                |incident: &Incident| !matches!(incident.phase, Phase::Pending | Phase::Ripe);
            let is_open = self.incidents.get(&(number, id)).is_some_and(now_open);
            if let (Some(rule), false) = (self.rules.get(usize::from(number)), is_open) {
                output.closed.push((rule.name.clone(), server(id)));
            }
        }
        output
    }

    /// What was told and is not over, of one server or of all.
    pub fn open(&self, of: Option<ServerId>) -> Vec<OpenIncident> {
        let is_open = |phase: Phase| {
            matches!(
                phase,
                Phase::OpenIncident | Phase::Ending(_) | Phase::Over(_)
            )
        };
        let incidents = self
            .incidents
            .iter()
            .filter(|((_, id), incident)| of.is_none_or(|of| of == *id) && is_open(incident.phase));
        let open = incidents.filter_map(|(&(number, id), incident)| {
            let rule = self.rules.get(usize::from(number))?.name.clone();
            Some(OpenIncident {
                rule,
                server: server(id),
                since: incident.since,
                notified_at: incident.notified_at,
            })
        });
        let mut open: Vec<OpenIncident> = open.collect();
        open.sort_by_key(|open| (open.since, open.server));
        open
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Incidents in memory, told or not.
    pub fn len(&self) -> usize {
        self.incidents.len()
    }

    /// Whether nothing is the matter.
    pub fn is_empty(&self) -> bool {
        self.incidents.is_empty()
    }

    fn end(&mut self, key: (u16, ServerId), at: Millis, now: Millis) {
        let number = usize::from(key.0);
        if !self.rules[number].resolve {
            self.incidents.remove(&key);
            self.closed.push(key);
        } else if let Some(incident) = self.incidents.get_mut(&key) {
            incident.phase = Phase::Over(at);
            self.gathered[number][1].first.get_or_insert(now);
        }
    }

    /// Whether the monitor itself does nothing.
    fn listen_for_silence(&mut self, now: Millis) {
        let slept = self
            .last_tick
            .is_none_or(|last| (now - last).abs() > MAX_TICK_GAP);
        self.last_tick = Some(now);
        let newest = self.newest.get_or_insert((Millis::MIN, now));
        if slept {
            // Time is given anew: to this process too the clock jumped.
            newest.1 = now;
        }
        let (heard, mut ended) = (newest.1, Vec::new());
        for (number, rule) in numbered(&self.rules) {
            if rule.condition != Condition::MonitorSilent {
                continue;
            }
            let key = (number, MONITOR_ID);
            let is_silent = self.interval.is_some_and(|interval| {
                let patience = rule
                    .lasts
                    .max(interval.saturating_mul(SILENT_AFTER_INTERVALS));
                now - heard >= patience
            });
            match (self.incidents.get_mut(&key), is_silent) {
                (None, true) => drop(self.incidents.insert(key, Incident::new(heard, None))),
                (Some(incident), true) => {
                    incident.is_sure = true;
                    if matches!(incident.phase, Phase::Over(_)) {
                        incident.phase = Phase::OpenIncident;
                    }
                }
                // Who slept does not know yet.
                (Some(_), false) if slept => {}
                (Some(incident), false) => match incident.phase {
                    Phase::Pending | Phase::Ripe => drop(self.incidents.remove(&key)),
                    Phase::OpenIncident => ended.push(key),
                    Phase::Ending(_) | Phase::Over(_) => {}
                },
                (None, false) => {}
            }
        }
        for key in ended {
            self.end(key, heard, now);
        }
    }

    /// Puts a message together.
    fn tell(
        &mut self,
        number: usize,
        kind: NotificationKind,
        mut who: Vec<(Millis, ServerId)>,
        now: Millis,
        row: &impl Fn(ServerId) -> Option<ServerRow>,
        output: &mut TickOutput,
    ) {
        let rule = &self.rules[number];
        let held_until = rule.quiet.until(now);
        // After the night it is said that it is so; not also that it was so all night.
        let is_said = !(kind == NotificationKind::Repeated && held_until.is_some());
        who.sort_unstable();
        let mut hash = Sha256::new();
        let repeated = if kind == NotificationKind::Repeated {
            now
        } else {
            0
        };
        hash.update(format!("{}\0{kind:?}\0{repeated}", rule.name));
        let mut items = Vec::new();
        for &(since, id) in &who {
            hash.update(since.to_be_bytes());
            hash.update(id.0.to_be_bytes());
            let key = (number as u16, id);
            let Some(incident) = self.incidents.get_mut(&key) else {
                continue;
            };
            if items.len() < MAX_LISTED_SERVERS {
                items.push(item(id, incident, row(id).as_ref(), now));
            }
            incident.notified_at = now;
            match kind {
                NotificationKind::Resolved => {
                    self.incidents.remove(&key);
                    output.closed.push((rule.name.clone(), server(id)));
                    continue;
                }
                NotificationKind::Firing if matches!(rule.condition, Condition::Changed(_)) => {
                    self.incidents.remove(&key);
                    continue;
                }
                _ => incident.phase = Phase::OpenIncident,
            }
            output.opened.push(OpenIncident {
                rule: rule.name.clone(),
                server: server(id),
                since,
                notified_at: now,
            });
        }
        if is_said {
            let more = u32::try_from(who.len() - items.len()).unwrap_or(u32::MAX);
            output.notifications.push(Notification {
                id: hex(&hash.finalize()),
                rule: rule.name.clone(),
                condition: rule.condition.word().into(),
                kind,
                at: now,
                items,
                more,
                to: rule.to.clone(),
                held_until,
                words: rule.words.clone(),
                zone: rule.zone.clone(),
            });
        }
    }
}

impl Notification {
    /// A message that shows whether messages arrive.
    pub fn test(to: &str, now: Millis) -> Self {
        let item = AffectedServer {
            name: "example".into(),
            since: now,
            state: "up".into(),
            ..AffectedServer::default()
        };
        Self {
            id: hex(&Sha256::digest(format!("test\0{to}\0{now}"))),
            rule: "test".into(),
            condition: "test".into(),
            kind: NotificationKind::Test,
            at: now,
            items: vec![item],
            more: 0,
            to: vec![to.into()],
            held_until: None,
            words: MessageConfig::default(),
            zone: "local".into(),
        }
    }

    /// About how many.
    pub fn count(&self) -> u64 {
        self.items.len() as u64 + u64::from(self.more)
    }
}

impl Incident {
    fn new(since: Millis, change: Option<Box<Difference>>) -> Self {
        Self {
            since,
            phase: Phase::Pending,
            is_sure: true,
            notified_at: 0,
            change,
        }
    }
}

/// The first 16 bytes of a digest.
pub(super) fn hex(digest: &[u8]) -> String {
    digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn numbered(rules: &[Rule]) -> impl Iterator<Item = (u16, &Rule)> {
    (0..u16::MAX).zip(rules)
}

fn server(id: ServerId) -> Option<ServerId> {
    (id != MONITOR_ID).then_some(id)
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}

fn item(id: ServerId, incident: &Incident, row: Option<&ServerRow>, now: Millis) -> AffectedServer {
    let mut item = AffectedServer {
        since: incident.since,
        ..AffectedServer::default()
    };
    if let Phase::Over(until) = incident.phase {
        item.until = Some(until);
    }
    if let Some(change) = &incident.change {
        (item.from, item.to) = (change.from.clone(), change.to.clone());
    }
    if id == MONITOR_ID {
        item.name = "the monitor".into();
        return item;
    }
    item.id = Some(id);
    let Some(row) = row else {
        item.name = format!("server {}", id.0);
        return item;
    };
    let server = &row.server;
    (item.name, item.group, item.target) =
        (cut(&server.name), cut(&server.group), cut(&server.target));
    item.state = match row.state {
        _ if row.is_flapping => "flapping",
        crate::health::State::Down => "down",
        crate::health::State::Unknown => "unknown",
        crate::health::State::Up => "up",
    }
    .into();
    item.uptime = row.day.uptime(now);
    if let Some(last) = &row.last_sample {
        (item.players, item.max, item.latency) = (last.players, last.max, last.latency);
    }
    if let Some(error) = &row.error {
        (item.reason, item.error) = (Some(cut(&error.0)), Some(cut(&error.1)));
    }
    if let Some(said) = &row.last_status {
        let short = |text: &Option<CompactString>| text.as_deref().map(cut);
        (item.title, item.version, item.map) =
            (short(&said.title), short(&said.version), short(&said.map));
        item.motd = said.motd.as_ref().map(|motd| cut(&motd.plain()));
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::State;
    use crate::sample::Sample;
    use crate::server::Origin;
    use crate::state::Day;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const SECOND: Millis = 1_000;
    const MINUTE: Millis = 60 * SECOND;
    /// Noon of a day, UTC.
    const START: Millis = 1_780_315_200_000;

    /// Servers in simulated time, told each second.
    struct World {
        engine: AlertEngine,
        rows: BTreeMap<ServerId, ServerRow>,
        now: Millis,
        sent: Vec<(Millis, Notification)>,
        /// What the history would hold.
        open: BTreeMap<(String, Option<ServerId>), OpenIncident>,
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
                    origin: Origin::Plan,
                };
                let row = ServerRow {
                    server: Arc::new(server),
                    state: State::Up,
                    is_flapping: false,
                    since: START,
                    last_sample: None,
                    error: None,
                    last_status: None,
                    day: Day::default(),
                };
                (ServerId(id), row)
            };
            let mut engine = AlertEngine::new(rules, &[]);
            engine.watches(Some(MINUTE));
            let rows = (0..servers).map(row).collect();
            Self {
                engine,
                rows,
                now: START,
                sent: Vec::new(),
                open: BTreeMap::new(),
            }
        }

        /// One sample: `None` is silence, for so long that it counts as down.
        fn look(&mut self, id: i64, players: Option<u32>) {
            let row = self.rows.get_mut(&ServerId(id)).unwrap();
            let state = if players.is_some() {
                State::Up
            } else {
                State::Down
            };
            let is_new = state != row.state;
            if is_new {
                (row.state, row.since) = (state, self.now);
            }
            let answered = players.is_some();
            let (server, at, max, latency) = (row.server.id, self.now, Some(20), Some(1_500));
            row.last_sample = Some(Sample {
                server,
                at,
                answered,
                players,
                max,
                latency,
                sent: 1,
                resent: 0,
            });
            row.error = (!answered).then(|| Arc::new(("silence".into(), "no answer".into())));
            self.engine.sample(row, self.now);
            if is_new && answered {
                let up = Event {
                    server,
                    at,
                    kind: EventKind::Up,
                };
                self.engine.event(&row.server.clone(), &up);
            }
        }

        fn change(&mut self, id: i64, from: &str, to: &str) {
            let difference = Difference {
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
                    self.open.insert((open.rule.clone(), open.server), open);
                }
                for closed in output.closed {
                    assert!(
                        self.open.remove(&closed).is_some(),
                        "closed what was not open"
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

        /// All that was told since the last call: `minute:kind names`.
        fn heard(&mut self) -> String {
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

        /// Killed, and started again.
        fn restart(&mut self) {
            let rules = self.engine.rules().to_vec();
            let open: Vec<OpenIncident> = self.open.values().cloned().collect();
            self.engine = AlertEngine::new(rules, &open);
            self.engine.watches(Some(MINUTE));
        }
    }

    #[test]
    fn down_for_long_enough_then_again_and_again_then_over() {
        let mut world = World::new(vec![rule("when = 'down'\nfor = '5m'\nrepeat = '1h'")], 1);
        world.look(0, None);
        world.wait(4 * MINUTE);
        world.look(0, Some(1));
        world.wait(10 * MINUTE);
        assert_eq!(world.heard(), "", "it was short");
        world.look(0, None);
        world.wait(6 * MINUTE);
        assert_eq!(world.heard(), "19:firing s0");
        world.wait(120 * MINUTE);
        assert_eq!(world.heard(), "79:repeated s0; 139:repeated s0");
        world.look(0, Some(1));
        world.wait(MINUTE);
        assert_eq!(world.heard(), "140:resolved s0");
        assert!(world.engine.is_empty() && world.open.is_empty());
    }

    #[test]
    fn a_storm_is_one_message() {
        let mut world = World::new(vec![rule("when = 'down'")], 500);
        for id in 0..100 {
            world.look(id, None);
        }
        world.wait(3 * SECOND);
        (100..500).for_each(|id| world.look(id, None));
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
        // They come back one by one, two a second: told at once, then once a minute.
        for id in 0..500 {
            world.look(id, Some(0));
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
    fn what_nobody_knows_stays_as_it_was() {
        let mut world = World::new(vec![rule("players-below = 5\nfor = '2m'")], 1);
        world.look(0, Some(3));
        world.wait(MINUTE);
        world.look(0, None);
        world.wait(5 * MINUTE);
        assert_eq!(
            world.heard(),
            "",
            "a server that is down has no players, nor has it few"
        );
        world.look(0, Some(3));
        world.wait(10 * SECOND);
        assert_eq!(world.heard(), "6:firing s0");
        world.look(0, None);
        world.wait(5 * MINUTE);
        world.look(0, Some(9));
        world.wait(MINUTE);
        world.look(0, Some(4));
        world.wait(5 * MINUTE);
        assert_eq!(world.heard(), "", "it was over for too short a time");
        world.look(0, Some(9));
        world.wait(2 * MINUTE);
        world.look(0, Some(9));
        world.wait(MINUTE);
        assert_eq!(world.heard(), "19:resolved s0");
    }

    #[test]
    fn changes_are_told_once_and_those_that_are_taken_back_not_at_all() {
        let mut world = World::new(vec![rule("when = 'map'\nfor = '1m'")], 1);
        world.change(0, "a", "b");
        world.look(0, Some(1));
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
        assert_eq!(world.heard(), "");
        assert!(world.engine.is_empty() && world.open.is_empty());
    }

    #[test]
    fn up_is_told_of_who_was_down() {
        let mut world = World::new(vec![rule("when = 'up'\nfor = '1m'")], 2);
        world.look(0, Some(1));
        world.look(1, None);
        world.wait(5 * MINUTE);
        assert_eq!(world.heard(), "", "that it is up is no news");
        world.look(1, Some(1));
        world.wait(2 * MINUTE);
        assert_eq!(world.heard(), "6:firing s1");
        world.look(1, None);
        world.wait(2 * MINUTE);
        assert_eq!(world.heard(), "", "unless resolve = true");
    }

    #[test]
    fn who_flaps_is_left_alone_but_for_that() {
        let named = |name: &str, toml| Rule {
            name: name.into(),
            ..rule(toml)
        };
        let mut world = World::new(
            vec![
                named("down", "when = 'down'"),
                named("flaps", "when = 'flapping'"),
            ],
            1,
        );
        for minute in 0..10 {
            world.rows.get_mut(&ServerId(0)).unwrap().is_flapping = true;
            world.look(0, (minute % 2 == 0).then_some(1));
            world.wait(MINUTE);
        }
        let output: Vec<String> = world
            .sent
            .drain(..)
            .map(|(_, notification)| notification.rule)
            .collect();
        assert_eq!(output, ["flaps"]);
        world.rows.get_mut(&ServerId(0)).unwrap().is_flapping = false;
        world.look(0, None);
        world.wait(MINUTE);
        let mut output: Vec<String> = world
            .sent
            .drain(..)
            .map(|(_, notification)| format!("{} {:?}", notification.rule, notification.kind))
            .collect();
        output.sort();
        assert_eq!(output, ["down Firing", "flaps Resolved"]);
    }

    #[test]
    fn in_quiet_hours_messages_are_held_and_nothing_is_repeated() {
        let mut world = World::new(
            vec![rule(
                "when = 'down'\nquiet = ['12:00-14:00']\nrepeat = '10m'",
            )],
            1,
        );
        world.look(0, None);
        world.wait(115 * MINUTE);
        let (_, notification) = world.sent.pop().unwrap();
        assert_eq!(notification.held_until, Some(START + 120 * MINUTE));
        assert!(world.sent.is_empty());
        world.wait(10 * MINUTE);
        assert_eq!(world.heard(), "120:repeated s0");
    }

    #[test]
    fn a_monitor_that_does_nothing_says_so() {
        let mut world = World::new(vec![rule("when = 'monitor-silent'\nfor = '5m'")], 1);
        world.look(0, Some(1));
        world.wait(4 * MINUTE);
        world.look(0, Some(1));
        world.wait(6 * MINUTE);
        assert_eq!(world.heard(), "9:firing the monitor");
        world.look(0, Some(1));
        world.wait(MINUTE);
        assert_eq!(world.heard(), "10:resolved the monitor");
        world.now += 8 * 60 * MINUTE;
        world.wait(2 * MINUTE);
        assert_eq!(world.heard(), "", "it slept, as the machine did");
        world.engine.watches(None);
        world.wait(60 * MINUTE);
        assert_eq!(world.heard(), "", "there is nobody to ask");
    }

    #[test]
    fn a_restart_tells_nothing_twice_and_forgets_no_end() {
        let mut world = World::new(vec![rule("when = 'down'")], 2);
        (0..2).for_each(|id| world.look(id, None));
        world.wait(MINUTE);
        assert_eq!(world.heard(), "0:firing s0,s1");
        world.restart();
        (0..2).for_each(|id| world.look(id, None));
        world.wait(MINUTE);
        assert_eq!(world.heard(), "");
        world.restart();
        world.look(0, Some(1));
        world.engine.forget(|id| id == ServerId(1));
        world.wait(MINUTE);
        assert_eq!(world.heard(), "2:resolved s0");
        assert!(
            world.open.is_empty(),
            "of who is watched no more, nothing is open"
        );
    }

    #[test]
    fn the_same_incidents_have_the_same_id() {
        let ids = |extra: bool| {
            let mut world = World::new(vec![rule("when = 'down'")], 3);
            (0..if extra { 3 } else { 2 }).for_each(|id| world.look(id, None));
            world.wait(MINUTE);
            world.sent[0].1.id.clone()
        };
        assert_eq!(ids(false), ids(false));
        assert_ne!(ids(false), ids(true));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever comes: an incident is told once, its end at most once and after it, and memory is bounded.
        #[test]
        fn nothing_is_told_twice(steps in prop::collection::vec((0..4_i64, prop::option::of(0..10_u32), 0..200_i64, 0..40_u8), 1..120)) {
            let rules = [
                "when = 'down'\nfor = '1m'", "when = 'up'\nresolve = true", "players-below = 5\nfor = '2m'", "when = 'map'",
                "players-above = 2\ngather = '0s'", "when = 'down'\ngather = '0s'\nservers = ['s1', 's2']",
            ];
            let rules = rules.iter().enumerate().map(|(n, toml)| Rule { name: format!("r{n}"), ..rule(toml) }).collect();
            let mut world = World::new(rules, 4);
            let mut open: BTreeMap<(String, ServerId), Millis> = BTreeMap::new();
            let mut seen = std::collections::BTreeSet::new();
            for (id, players, seconds, chance) in steps {
                world.look(id, players);
                match chance {
                    0 => world.restart(),
                    1..4 => world.change(id, &format!("{chance}"), "z"),
                    _ => {}
                }
                world.wait(seconds * SECOND);
                for (_, notification) in world.sent.drain(..) {
                    let is_map = notification.condition == "map";
                    prop_assert!(is_map || seen.insert(notification.id.clone()), "the same message twice");
                    for item in &notification.items {
                        let key = (notification.rule.clone(), item.id.unwrap());
                        match notification.kind {
                            _ if is_map => {}
                            NotificationKind::Firing => prop_assert_eq!(open.insert(key, item.since), None, "told while it was open"),
                            NotificationKind::Resolved => prop_assert_eq!(open.remove(&key), Some(item.since), "the end of nothing"),
                            NotificationKind::Repeated | NotificationKind::Test => prop_assert!(false, "nobody asked for it"),
                        }
                    }
                }
                prop_assert!(world.engine.len() <= 24);
            }
        }
    }
}
