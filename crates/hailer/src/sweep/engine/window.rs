//! Window of a sweep: how many probes may be in flight and how long to wait for a reply.
//!
//! Both follow the measured delays and losses. A small window makes a sweep slow; a large one loses
//! replies in queues, above all in our own receive queue. So the window grows while it limits the
//! sweep, and shrinks when a queue fills: the receive or send queue is full, the mean delay rises,
//! or servers known to be alive stop replying more often than usual. Probes that are overdue do not
//! count: most of their servers are down, and waiting for them costs nothing.
//!
//! Limits: 256 probes at least, [`max_in_flight`](crate::sweep::SweepConfig::max_in_flight) at most; from
//! 200 ms to the timeout between tries.

use std::time::Duration;

/// Time between adjustments of the window.
const PERIOD: Duration = Duration::from_millis(50);
/// Smallest window. The receive queue of an unprivileged process holds hardly more.
const SMALLEST: usize = 256;
/// Largest initial window, used if the receive queue can hold the replies.
const LARGEST_FIRST: usize = 4_096;
/// Upper bound of the receive queue space for one datagram, in bytes, including the system's
/// overhead.
const PLACE: usize = 4_096;
/// Harmless queueing delay.
const SLACK: Duration = Duration::from_millis(40);
/// The process is the bottleneck if its receive queue has not been empty for this long. A larger
/// window would only fill the queue.
const LONGEST_LAG: Duration = Duration::from_millis(25);
/// Number of consecutive lagging periods before the window shrinks. Fewer are accidents.
const LASTING_LAG: u32 = 3;
/// Fewest samples of a meaningful average.
const FEWEST: u64 = 32;
/// How long the shortest average delay is kept.
const MEMORY: Duration = Duration::from_secs(15);
/// Share of losses among live servers that is always tolerated.
const USUAL_LOSS: f64 = 0.10;
/// If fewer than one in this many replies arrives after a retry, second retries are skipped. They
/// would find less than one server in four million.
const RARE_LOSS: u32 = 2_000;
/// Shortest wait before a retry. Servers process requests once in a tick of 50 ms, some in every
/// second tick.
const SHORTEST_WAIT: Duration = Duration::from_millis(200);

/// Number of probes that may be in flight.
#[derive(Debug)]
pub(crate) struct Window {
    size: usize,
    largest: usize,
    /// Above this size it grows slowly.
    threshold: usize,
    period_began: Duration,
    shrunk: Duration,
    grown: Duration,
    /// Last known average delay, which is the time until the effect of a larger window shows.
    delay: Duration,
    /// Delays of this period.
    delays: Average,
    is_limiting: bool,
    is_lagging: bool,
    /// Consecutive periods in which the process lagged.
    lagging: u32,
    is_full: bool,
    alive_asked: u32,
    alive_lost: u32,
    /// Moving average of the share of losses among live servers.
    usual_loss: f64,
    /// Shortest average delays of the current and the previous stretch of [`MEMORY`].
    shortest: [Duration; 2],
    stretch_began: Duration,
}

#[derive(Debug, Default)]
struct Average {
    sum: Duration,
    count: u64,
}

impl Average {
    fn value(&self) -> Option<Duration> {
        (self.count >= FEWEST).then(|| self.sum / self.count as u32)
    }
}

impl Window {
    pub(crate) fn new(largest: usize) -> Self {
        Self {
            size: SMALLEST.min(largest),
            largest,
            threshold: largest,
            period_began: Duration::ZERO,
            shrunk: Duration::ZERO,
            grown: Duration::ZERO,
            delay: Duration::ZERO,
            delays: Average::default(),
            is_limiting: false,
            is_lagging: false,
            lagging: 0,
            is_full: false,
            alive_asked: 0,
            alive_lost: 0,
            usual_loss: 0.0,
            shortest: [Duration::MAX; 2],
            stretch_began: Duration::ZERO,
        }
    }

    /// Sets the size of the receive queue, in bytes. If it is large, the initial window grows with
    /// it.
    pub(crate) fn holds(&mut self, bytes: usize) {
        self.size = self
            .size
            .max((bytes / PLACE).min(LARGEST_FIRST))
            .min(self.largest);
    }

    /// Returns the size of the window.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Records that the window prevented a probe from starting.
    pub(crate) fn limits(&mut self) {
        self.is_limiting = true;
    }

    /// Records the delay of a reply to a first try, without its time in our receive queue. That
    /// queue reports overflows instead.
    pub(crate) fn delay(&mut self, delay: Duration) {
        self.delays.sum += delay;
        self.delays.count += 1;
    }

    /// Records the time since the receive queue was last seen empty.
    pub(crate) fn lag(&mut self, lag: Duration) {
        self.is_lagging |= lag > LONGEST_LAG;
    }

    /// Records that the receive queue overflowed or the send queue was full.
    pub(crate) fn overflow(&mut self) {
        self.is_full = true;
    }

    /// Records that a datagram was sent to a server known to be alive.
    pub(crate) fn alive_asked(&mut self) {
        self.alive_asked += 1;
    }

    /// Records that a server known to be alive did not reply in time.
    pub(crate) fn alive_lost(&mut self) {
        self.alive_lost += 1;
    }

    /// Adjusts the window if a period is over. `round_trip` is the time until the effect of a
    /// smaller window shows.
    pub(crate) fn adapt(&mut self, now: Duration, in_flight: usize, round_trip: Duration) {
        if now < self.period_began + PERIOD {
            return;
        }
        let average = self.delays.value();
        self.delay = average.unwrap_or(self.delay);
        let is_rising = average.is_some_and(|average| self.is_rising(now, average));
        let is_losing = self.is_losing();
        self.lagging = if self.is_lagging { self.lagging + 1 } else { 0 };
        if self.is_full || is_rising || is_losing {
            if now >= self.shrunk + round_trip + PERIOD {
                self.shrink(now, in_flight * 7 / 10);
            }
        } else if self.lagging >= LASTING_LAG {
            // Nothing is lost, but datagrams that wait long in the queue have left the CPU caches
            // and take longer to process.
            if now >= self.shrunk + self.delay * 2 + PERIOD {
                self.shrink(now, in_flight * 9 / 10);
            }
        } else if self.is_limiting
            && !self.is_lagging
            && now >= self.grown + self.delay + PERIOD / 2
        {
            self.grown = now;
            let more = if self.size < self.threshold {
                self.size
            } else {
                self.size / 8
            };
            self.size = (self.size + more).min(self.largest);
        }
        self.period_began = now;
        self.delays = Average::default();
        self.is_limiting = false;
        self.is_lagging = false;
        self.is_full = false;
    }

    fn shrink(&mut self, now: Duration, to: usize) {
        self.size = to.min(self.size).max(SMALLEST.min(self.largest));
        self.threshold = self.size;
        self.shrunk = now;
    }

    /// Returns whether the average delay has risen above the shortest average.
    fn is_rising(&mut self, now: Duration, average: Duration) -> bool {
        if now >= self.stretch_began + MEMORY {
            self.shortest = [Duration::MAX, self.shortest[0]];
            self.stretch_began = now;
        }
        // While the receive queue is not empty, the measured delay is only a lower bound.
        if !self.is_lagging {
            self.shortest[0] = self.shortest[0].min(average);
        }
        let shortest = self.shortest[0].min(self.shortest[1]);
        shortest != Duration::MAX && average > shortest + SLACK.max(shortest / 2)
    }

    /// Returns whether live servers lose more datagrams than usual.
    fn is_losing(&mut self) -> bool {
        if u64::from(self.alive_asked) < FEWEST {
            return false;
        }
        let share = f64::from(self.alive_lost) / f64::from(self.alive_asked);
        let is_losing = share > USUAL_LOSS.max(self.usual_loss * 2.0);
        self.usual_loss += (share - self.usual_loss) / 64.0;
        self.alive_asked = 0;
        self.alive_lost = 0;
        is_losing
    }
}

/// Decaying histogram of delays, with steps of 25 %.
#[derive(Debug)]
pub(crate) struct Delays {
    counts: [u32; BUCKETS],
    count: u32,
    /// Replies after a retry, whose delay is unknown.
    late: u32,
    longest: Duration,
    wait: Duration,
    aged: Duration,
}

const BUCKETS: usize = 64;
const FIRST_BUCKET: f64 = 100e-6;
const STEP: f64 = 1.25;
/// Time after which old delays count half.
const HALF_LIFE: Duration = Duration::from_secs(2);

impl Delays {
    /// Creates an empty histogram. Until it has data, the wait is `longest`.
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
            late: 0,
            longest,
            wait: longest,
            aged: Duration::ZERO,
        }
    }

    /// Returns the number of retries: `most`, or at most one while losses are rare.
    pub(crate) fn retries(&self, most: u32) -> u32 {
        let is_loss_rare = self.count >= RARE_LOSS && self.late < self.count / RARE_LOSS;
        if is_loss_rare { most.min(1) } else { most }
    }

    /// Returns how long to wait for a reply before a retry.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    pub(crate) fn add(&mut self, delay: Duration) {
        let bucket = (delay.as_secs_f64() / FIRST_BUCKET)
            .max(1.0)
            .log(STEP)
            .ceil() as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.count += 1;
    }

    /// Records a reply that arrived after a retry.
    pub(crate) fn late(&mut self) {
        self.late += 1;
    }

    /// Recomputes the wait. Call it regularly.
    pub(crate) fn adapt(&mut self, now: Duration) {
        // Many late replies mean that the wait is too short to measure the delays. Start again with
        // the longest.
        if self.late > self.count / 3 {
            self.wait = self.longest;
        } else if self.count >= 100 {
            let rare = self.count / 100;
            let mut above = 0;
            let slow = (0..BUCKETS).rev().find(|&bucket| {
                above += self.counts[bucket];
                above > rare
            });
            let slow = FIRST_BUCKET * STEP.powi(slow.unwrap_or(0) as i32);
            let twice = Duration::from_secs_f64(slow * 2.0);
            self.wait = twice.max(SHORTEST_WAIT).min(self.longest);
        }
        if now >= self.aged + HALF_LIFE {
            self.aged = now;
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.count = self.counts.iter().sum();
            self.late /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Runs periods in which the window is full and the average delay is `delay`. Returns the size.
    fn run(window: &mut Window, now: &mut Duration, periods: usize, delay: Duration) -> usize {
        for _ in 0..periods {
            *now += PERIOD;
            (0..100).for_each(|_| window.delay(delay));
            window.limits();
            window.adapt(*now, window.size(), delay);
        }
        window.size()
    }

    #[test]
    fn it_grows_while_it_limits_and_shrinks_when_delays_rise() {
        let mut window = Window::new(1_000_000);
        let mut now = Duration::ZERO;
        assert_eq!(run(&mut window, &mut now, 8, ms(10)), SMALLEST << 8);
        let shrunk = run(&mut window, &mut now, 1, ms(100));
        assert!(shrunk < SMALLEST << 8);
        assert_eq!(
            run(&mut window, &mut now, 2, ms(100)),
            shrunk,
            "the effect must show first"
        );
        assert!(run(&mut window, &mut now, 8, ms(100)) < shrunk);
        let small = window.size();
        let grown = run(&mut window, &mut now, 8, ms(15));
        assert!(
            grown > small && grown < small * 3,
            "slowly: {small} to {grown}"
        );
        // With a longer delay, the effect of growth shows later.
        let mut far = Window::new(1_000_000);
        let mut now = Duration::ZERO;
        assert_eq!(run(&mut far, &mut now, 8, ms(100)), SMALLEST << 2);
    }

    #[test]
    fn starts_with_the_configured_receive_buffer() {
        let first = |bytes, largest| {
            let mut window = Window::new(largest);
            window.holds(bytes);
            window.size()
        };
        assert_eq!(
            first(212_992, 100_000),
            SMALLEST,
            "as much as any process gets"
        );
        assert_eq!(first(4 << 20, 100_000), 1_024);
        assert_eq!(
            (first(1 << 30, 100_000), first(1 << 30, 100)),
            (LARGEST_FIRST, 100)
        );
    }

    #[test]
    fn while_we_are_slow_it_learns_nothing_and_narrows() {
        let mut window = Window::new(1_000_000);
        let mut now = Duration::ZERO;
        let wide = run(&mut window, &mut now, 8, ms(40));
        // Time in the queue is unknown here, so the delay seems short. It must not become the new
        // shortest, or all later ones would seem slow.
        window.lag(ms(100));
        run(&mut window, &mut now, 1, ms(1));
        assert!(
            run(&mut window, &mut now, 4, ms(40)) >= wide,
            "one lag is an accident"
        );
        let before = window.size();
        for _ in 0..40 {
            window.lag(ms(100));
            run(&mut window, &mut now, 1, ms(40));
        }
        let narrow = window.size();
        assert!(narrow < before * 8 / 10, "{before} to {narrow}");
        assert!(
            run(&mut window, &mut now, 2, ms(40)) < narrow * 3 / 2,
            "and it grows slowly again"
        );
    }

    #[test]
    fn without_answers_and_without_need() {
        let mut window = Window::new(100_000);
        for period in 1..30 {
            window.limits();
            window.adapt(PERIOD * period, window.size(), ms(1_000));
        }
        assert_eq!(window.size(), 100_000, "silence is no sign of a queue");
        let mut window = Window::new(100_000);
        (1..30).for_each(|period| window.adapt(PERIOD * period, 3, ms(1_000)));
        assert_eq!(window.size(), SMALLEST, "it was not what held us back");
    }

    #[test]
    fn losses_shrink_it_unless_they_are_usual() {
        let mut window = Window::new(100_000);
        let mut now = Duration::ZERO;
        run(&mut window, &mut now, 20, ms(80));
        let before = window.size();
        let lossy = |window: &mut Window, now: &mut Duration, periods| {
            for _ in 0..periods {
                (0..100).for_each(|_| window.alive_asked());
                (0..30).for_each(|_| window.alive_lost());
                run(window, now, 1, ms(80));
            }
        };
        lossy(&mut window, &mut now, 4);
        let shrunk = window.size();
        assert!(shrunk < before);
        lossy(&mut window, &mut now, 300);
        assert!(
            window.size() > shrunk,
            "a network that always loses as much is not overfull"
        );
        let before = window.size();
        window.overflow();
        run(&mut window, &mut now, 1, ms(80));
        assert!(window.size() < before);
    }

    #[test]
    fn waits_follow_delays() {
        let mut delays = Delays::new(ms(1_000));
        assert_eq!(delays.wait(), ms(1_000));
        (0..1_000).for_each(|_| delays.add(ms(1)));
        delays.adapt(ms(50));
        assert_eq!(delays.wait(), SHORTEST_WAIT);
        (0..1_000).for_each(|_| delays.add(ms(180)));
        delays.adapt(ms(100));
        assert!(
            (ms(360)..ms(500)).contains(&delays.wait()),
            "{:?}",
            delays.wait()
        );
        (0..1_000).for_each(|_| delays.add(ms(5_000)));
        delays.adapt(ms(150));
        assert_eq!(delays.wait(), ms(1_000));
        for second in 1..60 {
            (0..100).for_each(|_| delays.add(ms(80)));
            delays.adapt(ms(1_000 * second));
        }
        assert!(
            (ms(160)..ms(260)).contains(&delays.wait()),
            "forgotten: {:?}",
            delays.wait()
        );
    }
}
