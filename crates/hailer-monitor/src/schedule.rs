//! The times at which servers are polled. Sans-IO.
//!
//! Each server has its own phase within its interval, derived from its number. So servers with the
//! same interval are spread over it, in the same way after every restart. A jitter of at most a
//! twentieth of the interval keeps two monitors from polling a server at the same moment each time.

use crate::sample::Millis;
use crate::server::{MIN_INTERVAL_MS, ServerId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The jitter is at most an interval divided by this.
const JITTER_PARTS: i64 = 20;
/// A postponed sample is tried again after an interval divided by this.
const POSTPONE_PARTS: i64 = 40;

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
        self.put(
            server,
            ScheduleEntry {
                interval,
                due: 0,
                at,
                is_waiting: false,
            },
        );
    }

    /// Takes over a server from another node. If a sample was due after `after` and not taken, the
    /// latest one is taken now.
    pub fn resume(&mut self, server: ServerId, interval: Millis, now: Millis, after: Millis) {
        let interval = interval.max(MIN_INTERVAL_MS);
        let at = last_time(server, interval, now);
        let at = if at > after { at } else { at + interval };
        self.put(
            server,
            ScheduleEntry {
                interval,
                due: 0,
                at,
                is_waiting: false,
            },
        );
    }

    /// Removes a server.
    pub fn remove(&mut self, server: ServerId) {
        self.entries.remove(&server);
    }

    /// Restarts all servers at their next times, after the clock was set.
    pub fn restart(&mut self, now: Millis) {
        self.queue.clear();
        for (server, ScheduleEntry { interval, .. }) in std::mem::take(&mut self.entries) {
            self.set(server, interval, now);
        }
    }

    /// Returns the number of servers.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the schedule is empty.
    pub fn is_empty(&self) -> bool {
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
            self.put(
                server,
                ScheduleEntry {
                    interval,
                    due: 0,
                    at: at + interval,
                    is_waiting: false,
                },
            );
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

    fn put(&mut self, server: ServerId, mut entry: ScheduleEntry) {
        let jitter = mix(server.0 as u64 ^ (entry.at as u64).rotate_left(32))
            % (entry.interval / JITTER_PARTS).max(1) as u64;
        entry.due = entry.at + jitter as Millis;
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
