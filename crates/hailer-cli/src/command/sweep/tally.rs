//! Names of a sweep's counts, shared by sums, checkpoints and the summary.

use hailer::sweep::Counts;
use serde::{Serialize, Serializer};
use serde_json::Value;

type Count = (&'static str, fn(&mut Counts) -> &mut u64);

/// All counts with their names in JSON.
pub(super) const COUNTS: [Count; 20] = [
    ("probes", |counts| &mut counts.probes),
    ("port_retries", |counts| &mut counts.port_retries),
    ("answered", |counts| &mut counts.answered),
    ("timed_out", |counts| &mut counts.timed_out),
    ("port_closed", |counts| &mut counts.port_closed),
    ("unreachable", |counts| &mut counts.unreachable),
    ("invalid", |counts| &mut counts.invalid),
    ("unresolved", |counts| &mut counts.unresolved),
    ("datagrams_sent", |counts| &mut counts.datagrams_sent),
    ("bytes_sent", |counts| &mut counts.bytes_sent),
    ("datagrams_received", |counts| {
        &mut counts.datagrams_received
    }),
    ("bytes_received", |counts| &mut counts.bytes_received),
    ("datagrams_resent", |counts| &mut counts.datagrams_resent),
    ("resent_in_vain", |counts| &mut counts.resent_in_vain),
    ("resent_after_overflow", |counts| {
        &mut counts.resent_after_overflow
    }),
    ("stray_datagrams", |counts| &mut counts.stray_datagrams),
    ("duplicate_datagrams", |counts| {
        &mut counts.duplicate_datagrams
    }),
    ("forged_refusals", |counts| &mut counts.forged_refusals),
    ("dropped_datagrams", |counts| &mut counts.dropped_datagrams),
    ("memory_limited", |counts| &mut counts.memory_limited),
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
