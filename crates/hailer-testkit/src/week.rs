//! Simulated weeks for everything that has a clock.

use std::time::Duration;

/// Length of a simulated week.
pub const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Number of stretches of a week that has too many events.
const STRETCHES: u32 = 3;

/// Returns stretches of a week with an event every `interval`: the whole week if it has at most
/// `events` of them. Otherwise its start, middle and end, together with `events` events; in
/// between, the machine is suspended.
pub fn stretches(interval: Duration, events: u32) -> Vec<Vec<Duration>> {
    let count = |time: Duration| (time.as_nanos() / interval.as_nanos().max(1)) as u64;
    let stretch = |start: Duration, count: u64| -> Vec<Duration> {
        (0..count)
            .map(|nth| start + Duration::from_nanos(interval.as_nanos() as u64 * nth))
            .collect()
    };
    if count(WEEK) <= u64::from(events) {
        return vec![stretch(Duration::ZERO, count(WEEK))];
    }
    let each = u64::from(events / STRETCHES);
    let last = WEEK - interval.saturating_mul(events / STRETCHES).min(WEEK);
    (0..STRETCHES)
        .map(|nth| stretch(last * nth / (STRETCHES - 1), each))
        .collect()
}

/// Asserts that a limit was used up and kept: `sent` is between what `rate` allows in `time` and
/// that with one burst, within 1 %.
#[track_caller]
pub fn assert_limit(sent: f64, rate: f64, burst: f64, time: Duration) {
    let least = rate * time.as_secs_f64();
    assert!(
        sent >= least * 0.99 - 1.0,
        "{sent} sent in {time:?}, less than 99 % of {rate} per second, {least}"
    );
    let most = least + burst;
    assert!(
        sent <= most * 1.01 + 1.0,
        "{sent} sent in {time:?}, more than 101 % of {rate} per second and a burst, {most}"
    );
}
