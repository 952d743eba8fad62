//! The times at which servers are polled. Sans-IO.
//!
//! Each server has its own phase within its interval, derived from its number. So servers with the
//! same interval are spread over it, in the same way after every restart. A jitter of at most a
//! twentieth of the interval keeps two monitors from polling a server at the same moment each time.

use crate::sample::Millis;
use crate::server::{MIN_INTERVAL_MS, ServerId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

/// The jitter is at most an interval divided by this.
const JITTER_PARTS: i64 = 20;
/// A postponed sample is tried again after an interval divided by this.
const POSTPONE_PARTS: i64 = 40;

/// A larger difference between the clocks means that the system clock was set, or that the machine was
/// suspended.
const CLOCK_STEP_MS: Millis = 5_000;
/// If the schedule was not read for longer, the process was stopped. A poller under load reads it
/// every second.
const PAUSE_MS: Millis = 30_000;

/// Unix time that advances evenly, and follows the system clock after a step.
#[derive(Debug)]
pub(crate) struct PollClock {
    base: Millis,
    started: Duration,
    last: Millis,
}

impl PollClock {
    /// Creates a clock. `system`: the system clock; `monotonic`: time since any moment, from a clock
    /// that cannot be set.
    pub(crate) fn new(system: Millis, monotonic: Duration) -> Self {
        Self {
            base: system,
            started: monotonic,
            last: system,
        }
    }

    /// Returns the time, and whether it is far from that of the last call. Then the schedule must be
    /// restarted: without that, all servers would be polled at the same moment, or not at all until
    /// the clock has caught up.
    pub(crate) fn now(&mut self, system: Millis, monotonic: Duration) -> (Millis, bool) {
        let now = self.base + (monotonic.saturating_sub(self.started)).as_millis() as Millis;
        if (system - now).abs() > CLOCK_STEP_MS {
            *self = Self::new(system, monotonic);
            return (system, true);
        }
        let was_paused = now - self.last > PAUSE_MS;
        self.last = now;
        (now, was_paused)
    }
}

/// The schedule of all polled servers.
#[derive(Debug, Default)]
pub struct Schedule {
    queue: BinaryHeap<Reverse<(Millis, ServerId)>>,
    entries: HashMap<ServerId, ScheduleEntry>,
    missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct ScheduleEntry {
    interval: Millis,
    /// When it is due, with jitter. Queue entries with another time are outdated.
    due: Millis,
    /// Time of the sample.
    at: Millis,
    /// Whether the previous poll still waits for a reply.
    is_waiting: bool,
}

/// A server whose sample is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueSample {
    /// The server to be polled.
    pub server: ServerId,
    /// Time of the sample, without jitter. No two samples of a server have the same time.
    pub at: Millis,
}

impl Schedule {
    /// Adds a server from now on, or changes its interval.
    pub fn set(&mut self, server: ServerId, interval: Millis, now: Millis) {
        let interval = interval.max(MIN_INTERVAL_MS);
        if self
            .entries
            .get(&server)
            .is_some_and(|entry| entry.interval == interval)
        {
            return;
        }
        let at = last_time(server, interval, now) + interval;
        self.put(server, interval, at);
    }

    /// Takes over a server from another node. If a sample was due after `after` and not taken, the
    /// latest one is taken now.
    pub fn resume(&mut self, server: ServerId, interval: Millis, now: Millis, after: Millis) {
        let interval = interval.max(MIN_INTERVAL_MS);
        let at = last_time(server, interval, now);
        let at = if at > after { at } else { at + interval };
        self.put(server, interval, at);
    }

    /// Removes a server.
    pub fn remove(&mut self, server: ServerId) {
        self.entries.remove(&server);
    }

    /// Restarts all servers at their next times, after the clock was set or the poller was suspended.
    /// Samples whose time has passed are missed.
    pub fn restart(&mut self, now: Millis) {
        self.queue.clear();
        for (server, entry) in std::mem::take(&mut self.entries) {
            if entry.at <= now && !entry.is_waiting {
                self.missed += ((now - entry.at) / entry.interval + 1) as u64;
            }
            self.set(server, entry.interval, now);
        }
    }

    /// Whether the schedule is empty.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of samples that were never taken because their time had passed: the
    /// poller was too slow, or suspended.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the next server whose sample is due. If several samples of it are overdue, only the
    /// latest is taken.
    pub fn next(&mut self, now: Millis) -> Option<DueSample> {
        loop {
            let &Reverse((due, server)) = self.queue.peek()?;
            if due > now {
                return None;
            }
            self.queue.pop();
            let Some(&ScheduleEntry {
                interval,
                at,
                is_waiting,
                ..
            }) = self.entries.get(&server).filter(|entry| entry.due == due)
            else {
                continue;
            };
            let late = (now - at).max(0) / interval;
            // A poll that cannot start because the previous one still waits for a reply is not
            // missed: a server that is down takes longer than its interval to time out.
            if !is_waiting {
                self.missed += late as u64;
            }
            let at = at + late * interval;
            self.put(server, interval, at + interval);
            return Some(DueSample { server, at });
        }
    }

    /// Tries a sample again after a fortieth of the interval, because the previous poll still waits
    /// for a reply. If the next time comes first, the sample is skipped, and not counted as missed.
    pub fn postpone(&mut self, due: DueSample, now: Millis) {
        let Some(entry) = self.entries.get_mut(&due.server) else {
            return;
        };
        let again = now + (entry.interval / POSTPONE_PARTS).max(1);
        entry.at = due.at;
        entry.due = again;
        entry.is_waiting = true;
        self.queue.push(Reverse((again, due.server)));
    }

    /// Returns the time of the next queue entry.
    pub fn next_due(&self) -> Option<Millis> {
        self.queue.peek().map(|Reverse((due, _))| *due)
    }

    /// Sets the next sample of a server, at a time with jitter.
    fn put(&mut self, server: ServerId, interval: Millis, at: Millis) {
        let jitter = mix(server.0 as u64 ^ (at as u64).rotate_left(32))
            % (interval / JITTER_PARTS).max(1) as u64;
        let entry = ScheduleEntry {
            interval,
            due: at + jitter as Millis,
            at,
            is_waiting: false,
        };
        self.entries.insert(server, entry);
        self.queue.push(Reverse((entry.due, server)));
        // Servers that were changed or removed leave outdated entries in the queue.
        if self.queue.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.queue.retain(|Reverse((due, server))| {
                entries.get(server).is_some_and(|entry| entry.due == *due)
            });
        }
    }
}

/// Returns the latest time of a sample that is not after `now`.
fn last_time(server: ServerId, interval: Millis, now: Millis) -> Millis {
    let phase = (mix(server.0 as u64) % interval as u64) as Millis;
    (now - phase).div_euclid(interval) * interval + phase
}

/// Maps a number to one that looks random, with the finalizer of MurmurHash3.
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x = (x ^ x >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    x ^ x >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn due(schedule: &mut Schedule, now: Millis) -> Vec<DueSample> {
        std::iter::from_fn(|| schedule.next(now)).collect()
    }

    #[test]
    fn polls_once_per_interval_spread_evenly() {
        let mut schedule = Schedule::default();
        (0..10_000).for_each(|id| schedule.set(ServerId(id), 60_000, 1_000_000));
        let mut samples: BTreeMap<ServerId, Vec<Millis>> = BTreeMap::new();
        let mut busiest = 0;
        for now in (1_000_000..1_000_000 + 5 * 60_000).step_by(100) {
            let due = due(&mut schedule, now);
            busiest = busiest.max(due.len());
            due.iter()
                .for_each(|due| samples.entry(due.server).or_default().push(due.at));
        }
        assert_eq!(samples.len(), 10_000);
        for times in samples.values() {
            assert!((4..=5).contains(&times.len()), "{times:?}");
            assert!(
                times.windows(2).all(|pair| pair[1] - pair[0] == 60_000),
                "{times:?}"
            );
        }
        // The average is 16.7.
        assert!(busiest < 45, "{busiest} at once");
        assert_eq!(schedule.missed(), 0);
    }

    #[test]
    fn polls_once_after_suspend() {
        let mut schedule = Schedule::default();
        schedule.set(ServerId(7), 10_000, 0);
        let first = due(&mut schedule, 10_500)[0].at;
        let all = due(&mut schedule, first + 95_000);
        assert_eq!(
            all,
            [DueSample {
                server: ServerId(7),
                at: first + 90_000
            }]
        );
        assert_eq!(schedule.missed(), 8);
        schedule.restart(0);
        assert_eq!(
            due(&mut schedule, 10_500).len(),
            1,
            "the clock was set back"
        );
    }

    #[test]
    fn a_takeover_makes_up_for_one_sample() {
        let mut first = Schedule::default();
        first.set(ServerId(7), 10_000, 0);
        let at = due(&mut first, 60_000).last().unwrap().at;
        let mut second = Schedule::default();
        second.resume(ServerId(7), 10_000, at + 9_000, at - 1);
        assert_eq!(
            due(&mut second, at + 9_000),
            [DueSample {
                server: ServerId(7),
                at
            }],
            "its time has passed without a poll"
        );
        second.resume(ServerId(7), 10_000, at + 9_000, at);
        assert_eq!(due(&mut second, at + 9_000), []);
        assert_eq!(
            due(&mut second, at + 11_000),
            [DueSample {
                server: ServerId(7),
                at: at + 10_000
            }]
        );
        assert_eq!((first.missed() > 0, second.missed()), (true, 0));
    }

    #[test]
    fn an_overlapping_poll_is_postponed_and_not_missed() {
        let mut schedule = Schedule::default();
        schedule.set(ServerId(7), 10_000, 0);
        let first = due(&mut schedule, 10_500)[0];
        schedule.postpone(first, 10_500);
        assert_eq!(due(&mut schedule, 10_500), [], "after a delay");
        assert_eq!(due(&mut schedule, 10_800), [first], "the same sample");
        schedule.postpone(first, 10_800);
        let next = DueSample {
            at: first.at + 10_000,
            ..first
        };
        assert_eq!(
            due(&mut schedule, next.at + 1_000),
            [next],
            "its time has passed"
        );
        assert_eq!(schedule.missed(), 0, "the previous poll was waiting");
        let later = due(&mut schedule, next.at + 35_000);
        assert_eq!(
            (later.len(), schedule.missed()),
            (1, 2),
            "nothing was waiting"
        );
        schedule.remove(ServerId(7));
        schedule.postpone(next, 22_000);
        assert_eq!(
            (due(&mut schedule, 120_000), schedule.next_due()),
            (vec![], None),
            "a removed server stays removed"
        );
    }

    const SECOND: Millis = 1_000;
    const MINUTE: Millis = 60 * SECOND;
    const HOUR: Millis = 60 * MINUTE;
    const WEEK: Millis = 7 * 24 * HOUR;
    /// 2026-06-01 12:00 UTC.
    const START: Millis = 1_780_315_200_000;

    /// A jump of the clocks of the machine.
    #[derive(Clone, Copy, Debug)]
    enum Disturbance {
        /// The machine is suspended. Its monotonic clock stands still meanwhile, or not.
        Suspend { is_monotonic_too: bool },
        /// The system clock is set back.
        SetBack,
    }

    /// A poller in simulated time. It reads the schedule as `DueProbes` does.
    struct Machine {
        schedule: Schedule,
        clock: PollClock,
        system: Millis,
        monotonic: Millis,
    }

    impl Machine {
        fn new(intervals: impl IntoIterator<Item = Millis>) -> Self {
            let mut schedule = Schedule::default();
            for (id, interval) in (0..).zip(intervals) {
                schedule.set(ServerId(id), interval, START);
            }
            Self {
                schedule,
                clock: PollClock::new(START, Duration::ZERO),
                system: START,
                monotonic: 0,
            }
        }

        /// Returns the samples that are due now, with the time of the schedule.
        fn due(&mut self) -> (Millis, Vec<DueSample>) {
            let monotonic = Duration::from_millis(self.monotonic as u64);
            let (now, was_disturbed) = self.clock.now(self.system, monotonic);
            if was_disturbed {
                self.schedule.restart(now);
            }
            (now, due(&mut self.schedule, now))
        }

        /// Sleeps until the next sample is due, at most one second, and wakes up `late`.
        fn sleep(&mut self, now: Millis, late: Millis) {
            let due = self.schedule.next_due().map_or(SECOND, |due| due - now);
            let slept = due.clamp(1, SECOND) + late;
            self.system += slept;
            self.monotonic += slept;
        }

        fn disturb(&mut self, disturbance: Disturbance, size: Millis) {
            match disturbance {
                Disturbance::Suspend { is_monotonic_too } => {
                    self.system += size;
                    self.monotonic += if is_monotonic_too { size } else { 0 };
                }
                Disturbance::SetBack => self.system -= size,
            }
        }
    }

    #[test]
    fn a_suspend_causes_no_burst() {
        for disturbance in [
            Disturbance::Suspend {
                is_monotonic_too: false,
            },
            Disturbance::Suspend {
                is_monotonic_too: true,
            },
            Disturbance::SetBack,
        ] {
            let mut machine = Machine::new(std::iter::repeat_n(MINUTE, 6_000));
            let mut polls: BTreeMap<Millis, usize> = BTreeMap::new();
            for part in 0..2 {
                let end = machine.monotonic + 3 * MINUTE;
                while machine.monotonic < end {
                    let (now, due) = machine.due();
                    *polls.entry(now / SECOND).or_default() += due.len();
                    machine.sleep(now, 0);
                }
                if part == 0 {
                    machine.disturb(disturbance, HOUR);
                }
            }
            // The average is 100 per second, and twice that where the hour was repeated.
            let busiest = polls.values().max();
            assert!(busiest < Some(&250), "{disturbance:?}: {busiest:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every server is polled at its interval at every point of a week, also after jumps of the clocks.
        #[test]
        fn polls_at_the_interval_for_a_week(
            disturbances in prop::collection::vec((0..3_u8, 10 * MINUTE..40 * HOUR, 31 * SECOND..40 * HOUR), 0..8),
            late in 0..30_i64,
        ) {
            let intervals = [5, 10, 10, 60, 60, 60, 60, 300, 300, 3_600, 86_400].map(|seconds| seconds * SECOND);
            let mut machine = Machine::new(intervals);
            let mut disturbances = disturbances.into_iter();
            let mut next = disturbances.next();
            // Time that the machine has run, without suspends.
            let (mut ran, mut disturbed_at, mut last_disturbance) = (0, 0, 0);
            // For each server: time of its last sample, and when it was taken.
            let mut last: Vec<Option<(Millis, Millis)>> = vec![None; intervals.len()];
            let mut missed = 0;
            while ran < WEEK {
                if let Some((kind, after, size)) = next
                    && ran - last_disturbance >= after
                {
                    missed = machine.schedule.missed();
                    prop_assert!(last_disturbance > 0 || missed == 0);
                    machine.disturb(match kind {
                        0 => Disturbance::SetBack,
                        kind => Disturbance::Suspend { is_monotonic_too: kind == 1 },
                    }, size);
                    (disturbed_at, last_disturbance, next) = (ran, ran, disturbances.next());
                    last = vec![None; intervals.len()];
                }
                let (now, due) = machine.due();
                for DueSample { server, at } in due {
                    let interval = intervals[server.0 as usize];
                    let jitter = interval / JITTER_PARTS + 1 + late;
                    prop_assert!((0..=jitter).contains(&(now - at)), "{} ms late of {interval}", now - at);
                    let place = &mut last[server.0 as usize];
                    match place.replace((at, ran)) {
                        Some((last_at, last_ran)) => {
                            prop_assert_eq!(at - last_at, interval);
                            prop_assert!((ran - last_ran - interval).abs() <= jitter);
                        }
                        None => prop_assert!(ran - disturbed_at <= interval + jitter, "the first after a start"),
                    }
                }
                prop_assert!(machine.schedule.queue.len() <= 2 * intervals.len() + 64);
                if ran == disturbed_at {
                    missed = machine.schedule.missed();
                }
                prop_assert_eq!(machine.schedule.missed(), missed, "missed without a suspend");
                let before = machine.monotonic;
                machine.sleep(now, late);
                ran += machine.monotonic - before;
            }
            for (last, interval) in last.iter().zip(intervals) {
                let since = ran - last.map_or(disturbed_at, |(_, ran)| ran);
                prop_assert!(since <= interval + interval / JITTER_PARTS + SECOND + late, "{interval} starves");
            }
        }
    }

    #[test]
    fn changes_and_removals_leave_nothing_behind() {
        let mut schedule = Schedule::default();
        for round in 0..1_000 {
            (0..10).for_each(|id| schedule.set(ServerId(id), 5_000 + round % 2, round));
        }
        assert!(schedule.queue.len() <= 84, "{}", schedule.queue.len());
        let all = due(&mut schedule, 12_000);
        assert_eq!(all.len(), 10, "each once, though set a thousand times");
        (0..10).for_each(|id| schedule.remove(ServerId(id)));
        assert!(due(&mut schedule, 1_000_000).is_empty() && schedule.is_empty());
    }
}
