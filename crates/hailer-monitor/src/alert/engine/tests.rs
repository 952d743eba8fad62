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
        row.last_sample = Some(Sample {
            observed_ms: 0,
            server,
            at,
            is_answered,
            players,
            max: Some(20),
            latency: Some(1_500),
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
