//! How many questions may be in flight, and how long to wait for an answer: both follow the delays and losses seen.
//!
//! A window that is too small makes a sweep slow; one that is too wide loses live servers in queues, most of all in our
//! own. So it grows while it is what holds us back, and shrinks as soon as something says that a queue is filling: our
//! receive queue overflows, the system takes no more, answers take longer on average than they did, or servers known to be
//! alive fall silent.

use std::time::Duration;

/// The window is looked at so often.
const PERIOD: Duration = Duration::from_millis(50);
/// At first, and what always may be in flight: a process without privileges has a receive queue of hardly more.
const SMALLEST: usize = 256;
/// At first, where the receive queue surely holds the answers.
const LARGEST_FIRST: usize = 4_096;
/// What a datagram may take of the receive queue, with the system's own notes on it.
const PLACE: usize = 4_096;
/// So much queueing is harmless.
const SLACK: Duration = Duration::from_millis(40);
/// We are what is slow if our receive queue is not empty for so long: more in flight would only fill it.
const LONGEST_LAG: Duration = Duration::from_millis(25);
/// So many periods in a row in which we are what is slow are no accident.
const LASTING_LAG: u32 = 3;
/// The average of fewer answers says nothing.
const FEWEST: u64 = 32;
/// How long the shortest average is remembered.
const MEMORY: Duration = Duration::from_secs(15);
/// Losses among servers known to be alive that are nothing unusual.
const USUAL_LOSS: f64 = 0.10;
/// Where fewer answers than one in so many come to a second try, a third finds nobody: less than one server of four million.
const RARE_LOSS: u32 = 2_000;
/// Nobody is asked again sooner than this: servers answer once in a tick of 50 ms, some once in two.
const SHORTEST_WAIT: Duration = Duration::from_millis(200);

/// The window.
#[derive(Debug)]
pub(super) struct Window {
    size: usize,
    largest: usize,
    /// Beyond this it grows slowly.
    threshold: usize,
    period_began: Duration,
    shrunk: Duration,
    grown: Duration,
    /// The average delay when it was last known: how long it takes for more in flight to show.
    delay: Duration,
    /// Of this period.
    delays: Average,
    is_limiting: bool,
    is_lagging: bool,
    /// Periods in a row in which we lagged.
    lagging: u32,
    is_full: bool,
    alive_asked: u32,
    alive_lost: u32,
    /// Share of losses among the living so far, a moving average.
    usual_loss: f64,
    /// The shortest average of this and of the last stretch of time.
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
    pub(super) fn new(largest: usize) -> Self {
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

    /// Our receive queue holds so many bytes: a sweep need not begin with less in flight than surely fits.
    pub(super) fn holds(&mut self, bytes: usize) {
        self.size = self
            .size
            .max((bytes / PLACE).min(LARGEST_FIRST))
            .min(self.largest);
    }

    /// How many may be in flight.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Somebody could have been asked, but for the window.
    pub(super) fn limits(&mut self) {
        self.is_limiting = true;
    }

    /// An answer to a first try took so long, its time in our own queue left out: whether that fills, its overflow tells.
    pub(super) fn delay(&mut self, delay: Duration) {
        self.delays.sum += delay;
        self.delays.count += 1;
    }

    /// Our receive queue was last seen empty so long ago.
    pub(super) fn lag(&mut self, lag: Duration) {
        self.is_lagging |= lag > LONGEST_LAG;
    }

    /// Our receive queue overflowed, or the system had no room for what we send.
    pub(super) fn overflow(&mut self) {
        self.is_full = true;
    }

    /// A server known to be alive was asked.
    pub(super) fn alive_asked(&mut self) {
        self.alive_asked += 1;
    }

    /// A server known to be alive did not answer in time.
    pub(super) fn alive_lost(&mut self) {
        self.alive_lost += 1;
    }

    /// Looks at what happened, if a period is over. `round_trip`: after how long the effect of a smaller window shows.
    pub(super) fn adapt(&mut self, now: Duration, in_flight: usize, round_trip: Duration) {
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
            // Nothing is lost, but what waits in our queue for long is dear: by then it has left the processor's caches.
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
        (self.is_limiting, self.is_lagging, self.is_full) = (false, false, false);
    }

    fn shrink(&mut self, now: Duration, to: usize) {
        self.size = to.min(self.size).max(SMALLEST.min(self.largest));
        (self.threshold, self.shrunk) = (self.size, now);
    }

    /// Whether answers take longer on average than they did at best.
    fn is_rising(&mut self, now: Duration, average: Duration) -> bool {
        if now >= self.stretch_began + MEMORY {
            self.shortest = [Duration::MAX, self.shortest[0]];
            self.stretch_began = now;
        }
        // While our own queue is full, what is known of the delay is only that it is not shorter.
        if !self.is_lagging {
            self.shortest[0] = self.shortest[0].min(average);
        }
        let shortest = self.shortest[0].min(self.shortest[1]);
        shortest != Duration::MAX && average > shortest + SLACK.max(shortest / 2)
    }

    /// Whether servers known to be alive fall silent more often than usual.
    fn is_losing(&mut self) -> bool {
        if u64::from(self.alive_asked) < FEWEST {
            return false;
        }
        let share = f64::from(self.alive_lost) / f64::from(self.alive_asked);
        let is_losing = share > USUAL_LOSS.max(self.usual_loss * 2.0);
        self.usual_loss += (share - self.usual_loss) / 64.0;
        (self.alive_asked, self.alive_lost) = (0, 0);
        is_losing
    }
}

/// How long answers take: a histogram that forgets, in steps of a quarter.
#[derive(Debug)]
pub(super) struct Delays {
    counts: [u32; BUCKETS],
    count: u32,
    /// Answers that came after a second try: nobody knows how long they took.
    late: u32,
    longest: Duration,
    wait: Duration,
    aged: Duration,
}

const BUCKETS: usize = 64;
const FIRST_BUCKET: f64 = 100e-6;
const STEP: f64 = 1.25;
/// Old delays count half after so long.
const HALF_LIFE: Duration = Duration::from_secs(2);

impl Delays {
    /// Nothing known: waits as long as it may.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
            late: 0,
            longest,
            wait: longest,
            aged: Duration::ZERO,
        }
    }

    /// How often to ask a silent server again, if it may be asked so often.
    pub(super) fn retries(&self, most: u32) -> u32 {
        let is_loss_rare = self.count >= RARE_LOSS && self.late < self.count / RARE_LOSS;
        if is_loss_rare { most.min(1) } else { most }
    }

    /// How long to wait for an answer before asking again.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    pub(super) fn add(&mut self, delay: Duration) {
        let bucket = (delay.as_secs_f64() / FIRST_BUCKET)
            .max(1.0)
            .log(STEP)
            .ceil() as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.count += 1;
    }

    /// An answer came after its server was asked again.
    pub(super) fn late(&mut self) {
        self.late += 1;
    }

    /// Works out the wait anew. Called now and then.
    pub(super) fn adapt(&mut self, now: Duration) {
        // Then the wait is too short to see what delays are, and would stay so.
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

    /// Periods in which the window is full, with this average delay.
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
        // A longer way takes longer to show what more in flight does.
        let mut far = Window::new(1_000_000);
        let mut now = Duration::ZERO;
        assert_eq!(run(&mut far, &mut now, 8, ms(100)), SMALLEST << 2);
    }

    #[test]
    fn it_begins_with_what_the_set_receive_buffer() {
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
        // What waited in our queue for an unknown time seems quick: that is no new best, or all would be slow beside it.
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
