//! Names of a sweep's counts, shared by sums, checkpoints and the summary.

use hailer::sweep::Counts;
use serde::{Serialize, Serializer};
use serde_json::Value;

type Count = (&'static str, fn(&mut Counts) -> &mut u64);

/// All counts with their names in JSON.
pub(super) const COUNTS: [Count; 20] = [
    ("probes", |tally| &mut tally.probes),
    ("port_retries", |tally| &mut tally.port_retries),
    ("answered", |tally| &mut tally.answered),
    ("timed_out", |tally| &mut tally.timed_out),
    ("port_closed", |tally| &mut tally.port_closed),
    ("unreachable", |tally| &mut tally.unreachable),
    ("invalid", |tally| &mut tally.invalid),
    ("unresolved", |tally| &mut tally.unresolved),
    ("datagrams_sent", |tally| &mut tally.datagrams_sent),
    ("bytes_sent", |tally| &mut tally.bytes_sent),
    ("datagrams_received", |tally| &mut tally.datagrams_received),
    ("bytes_received", |tally| &mut tally.bytes_received),
    ("datagrams_resent", |tally| &mut tally.datagrams_resent),
    ("resent_in_vain", |tally| &mut tally.resent_in_vain),
    ("resent_after_overflow", |tally| {
        &mut tally.resent_after_overflow
    }),
    ("stray_datagrams", |tally| &mut tally.stray_datagrams),
    ("duplicate_datagrams", |tally| {
        &mut tally.duplicate_datagrams
    }),
    ("forged_refusals", |tally| &mut tally.forged_refusals),
    ("dropped_datagrams", |tally| &mut tally.dropped_datagrams),
    ("memory_limited", |tally| &mut tally.memory_limited),
];

/// Adds the counts of earlier runs and of this one.
pub(super) fn sum(before: &Counts, now: &Counts) -> Counts {
    let mut before = before.clone();
    let mut sum = now.clone();
    for (_, count) in COUNTS {
        *count(&mut sum) = count(&mut sum).saturating_add(*count(&mut before));
    }
    sum
}

/// Returns the number of finished probes.
pub(super) fn ended(counts: &Counts) -> u64 {
    let Counts {
        answered,
        timed_out,
        port_closed,
        unreachable,
        invalid,
        unresolved,
        ..
    } = *counts;
    [
        answered,
        timed_out,
        port_closed,
        unreachable,
        invalid,
        unresolved,
    ]
    .iter()
    .fold(0, |sum, count| sum.saturating_add(*count))
}

/// Serializes counts as an object.
pub(super) struct Members<'a>(pub(super) &'a Counts);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut counts = self.0.clone();
        serializer.collect_map(COUNTS.map(|(name, count)| (name, *count(&mut counts))))
    }
}

/// Parses counts. Missing ones are 0.
pub(super) fn from_json(members: &Value) -> Counts {
    let mut counts = Counts::default();
    for (name, count) in COUNTS {
        *count(&mut counts) = members
            .get(name)
            .and_then(Value::as_u64)
            .unwrap_or_default();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_is_missing() {
        let mut counts = Counts::default();
        for (i, (_, count)) in (1..).zip(COUNTS) {
            *count(&mut counts) = i;
        }
        // The debug output of the library lists every count in this order.
        let printed = format!("{counts:?}");
        let expected: Vec<String> = (1..)
            .zip(COUNTS)
            .map(|(i, (name, _))| format!("{name}: {i}"))
            .collect();
        assert_eq!(printed, format!("Counts {{ {} }}", expected.join(", ")));
        assert_eq!(
            from_json(&serde_json::to_value(Members(&counts)).unwrap()),
            counts
        );
        assert_eq!(
            sum(&counts, &counts).memory_limited,
            2 * COUNTS.len() as u64
        );
    }
}
