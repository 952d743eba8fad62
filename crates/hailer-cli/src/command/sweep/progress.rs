//! Progress of a sweep on standard error: a bar while it runs, and a summary at its end.

use crate::print::{above_zero, stderr};
use hailer::proto::wire::counted;
use hailer::sweep::{Counts, Progress, Skipped};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Progress bar, possibly hidden.
#[derive(Clone)]
pub(super) struct ProgressView {
    bar: ProgressBar,
    /// Whether results go to the same terminal, so that the bar must be hidden while they are
    /// printed.
    is_shared: bool,
    started: Instant,
}

impl ProgressView {
    /// Creates a bar if `is_visible`. `is_shared` means that results go to the same terminal.
    pub(super) fn new(is_visible: bool, is_shared: bool) -> Self {
        let bar = if is_visible {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        if is_visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self {
            bar,
            is_shared,
            started: Instant::now(),
        }
    }

    /// Updates the bar.
    pub(super) fn report_progress(&mut self, progress: &Progress<'_>, before: &Counts) {
        if self.bar.is_hidden() {
            return;
        }
        let mut sum = before.clone();
        sum.add(progress.counts);
        if let Some(total) = progress
            .total
            .filter(|total| self.bar.length() != Some(*total))
        {
            self.bar.set_length(total);
            if let Ok(style) =
                ProgressStyle::with_template("{bar:12} {percent}% of {human_len}, {wide_msg}")
            {
                self.bar.set_style(style);
            }
        }
        self.bar.set_position(sum.ended());
        self.bar
            .set_message(message(progress, &sum, self.started.elapsed()));
    }

    /// Runs `act`, with the bar hidden if the terminal is shared.
    pub(super) fn suspend<T>(&self, act: impl FnOnce() -> T) -> T {
        if self.is_shared && !self.bar.is_hidden() {
            self.bar.suspend(act)
        } else {
            act()
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn message(progress: &Progress<'_>, sum: &Counts, elapsed: Duration) -> String {
    let now = progress.counts.ended();
    let ended = sum.ended();
    let rate = now as f64 / elapsed.as_secs_f64().max(0.001);
    let eta = progress
        .total
        .filter(|_| rate >= 1.0)
        .map(|total| (total.saturating_sub(ended) as f64 / rate).min(1e9));
    let eta = eta.map(|seconds| {
        format!(
            ", {} left",
            humantime::format_duration(Duration::from_secs(seconds as u64))
        )
    });
    format!(
        "{rate:.0}/s{}, {} answered, {} silent, {} resent, {} in flight",
        eta.unwrap_or_default(),
        percent(sum.answered, ended),
        percent(sum.timed_out, ended),
        percent(sum.datagrams_resent, sum.datagrams_sent),
        progress.in_flight,
    )
}

/// Prints the summary.
pub(super) fn summary(sum: &Counts, took: Duration, excluded: &Skipped) {
    let ended = sum.ended();
    let seconds = took.as_secs_f64().max(0.001);
    stderr!(
        "{ended} queried in {seconds:.1} s, {:.0}/s: {} answered ({})",
        ended as f64 / seconds,
        sum.answered,
        percent(sum.answered, ended)
    );
    let rest = above_zero([
        (sum.timed_out, "silent"),
        (sum.port_closed, "closed"),
        (sum.unreachable, "unreachable"),
        (sum.invalid, "with a refusal or an invalid reply"),
        (sum.unresolved, "names without an address"),
    ]);
    if !rest.is_empty() {
        stderr!("{rest}");
    }
    stderr!(
        "{} sent, {} received, about {} lost in the network",
        counted(sum.datagrams_sent, "datagram"),
        sum.datagrams_received,
        share(lost(sum))
    );
    let odd = above_zero([
        (sum.dropped_datagrams, "dropped from our receive queue"),
        (sum.stray_datagrams, "from unknown addresses or too late"),
        (sum.duplicate_datagrams, "duplicates"),
        (sum.forged_refusals, "forged refusals"),
    ]);
    if !odd.is_empty() {
        stderr!("{odd}");
    }
    if let Some(words) = skipped(excluded) {
        stderr!("{words}");
    }
}

/// Describes the skipped targets. Returns `None` if there are none.
pub(super) fn skipped(skipped: &Skipped) -> Option<String> {
    let counts = above_zero([
        (skipped.duplicates, "given twice"),
        (skipped.excluded, "excluded"),
        (skipped.reserved, "reserved addresses"),
    ]);
    (!counts.is_empty()).then(|| format!("left out: {counts}"))
}

/// Returns the share of lost datagrams, from 0 to 1, as estimated from servers that replied.
/// Datagrams to silent targets are not counted: nothing shows whether they arrived.
pub(super) fn lost(sum: &Counts) -> f64 {
    let resent = sum.datagrams_resent.saturating_sub(sum.resent_in_vain);
    let sent = sum
        .datagrams_sent
        .saturating_sub(sum.resent_in_vain.saturating_add(sum.timed_out));
    if sent == 0 {
        0.0
    } else {
        (resent as f64 / sent as f64).min(1.0)
    }
}

fn percent(part: u64, whole: u64) -> String {
    share(if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    })
}

fn share(of_one: f64) -> String {
    format!("{:.1} %", 100.0 * of_one)
}
