//! Progress of a sweep in a file, from which an interrupted sweep continues.
//!
//! A checkpoint is written after the output that it describes: first to a second file, which is
//! then renamed. A crash of the process therefore leaves a complete checkpoint, and an output of at
//! least the recorded length. Later output is truncated, and its targets are queried again. The
//! files are not synced to disk: a power cut may lose more than one second, and resuming fails if
//! the output is shorter than recorded.
//!
//! In: position and counts of a sweep, or a file. Out: a file, or the position to continue from.
//!
//! May import: `crate::exit`, `crate::files`, `hailer`.

use crate::exit::usage;
use crate::files::append_suffix;
use hailer::sweep::{Counts, Position};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Schema name and version.
const SCHEMA: &str = "hailer/sweep-checkpoint/2";

/// Progress of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Checkpoint {
    /// Identifies the sweep.
    pub(super) kind: Sweep,
    /// Length of the output in bytes; `None` if it is not a file.
    pub(super) length: Option<u64>,
    pub(super) position: Position,
    pub(super) counts: Counts,
    /// Elapsed time of all runs so far, in seconds.
    pub(super) seconds: f64,
}

/// Identity of a sweep. Another run can continue it only if both members are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sweep {
    /// Digest of the targets and their order.
    pub(super) targets: String,
    /// Format and fields of the output, whether it contains failures, and query options other than
    /// the defaults.
    pub(super) output: String,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    #[serde(flatten)]
    kind: Sweep,
    length_bytes: Option<u64>,
    next: u64,
    /// Differences between consecutive indexes.
    unfinished: Vec<u64>,
    counts: Counts,
    duration_s: f64,
}

impl Checkpoint {
    fn to_json(&self) -> io::Result<Vec<u8>> {
        let mut before = 0;
        let distances = self
            .position
            .unfinished
            .iter()
            .map(|index| index - std::mem::replace(&mut before, *index));
        let file = File {
            schema: SCHEMA.into(),
            kind: self.kind.clone(),
            length_bytes: self.length,
            next: self.position.next,
            unfinished: distances.collect(),
            counts: self.counts.clone(),
            duration_s: self.seconds,
        };
        let mut json = serde_json::to_vec(&file)?;
        json.push(b'\n');
        Ok(json)
    }

    /// Parses a checkpoint. Returns `None` if the file is damaged or has another schema.
    fn from_json(json: &[u8]) -> Option<Self> {
        let file: File = serde_json::from_slice(json).ok()?;
        let mut unfinished = Vec::with_capacity(file.unfinished.len());
        for (i, distance) in file.unfinished.into_iter().enumerate() {
            if i > 0 && distance == 0 {
                return None;
            }
            let before = unfinished.last().copied().unwrap_or_default();
            unfinished.push(
                distance
                    .checked_add(before)
                    .filter(|index| *index < file.next)?,
            );
        }
        (file.schema == SCHEMA && file.duration_s >= 0.0).then_some(Self {
            kind: file.kind,
            length: file.length_bytes,
            position: Position {
                next: file.next,
                unfinished,
            },
            counts: file.counts,
            seconds: file.duration_s,
        })
    }

    /// Writes the checkpoint and replaces the previous one.
    ///
    /// # Errors
    /// The file cannot be written or renamed.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let new = append_suffix(path, "new");
        let saved = fs::write(&new, self.to_json()?).and_then(|()| fs::rename(&new, path));
        saved.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("checkpoint {}: {error}", path.display()),
            )
        })
    }

    /// Reads the checkpoint of an interrupted sweep.
    ///
    /// # Errors
    /// The file is missing, unreadable, damaged or has another version.
    pub(super) fn load(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let json = match fs::read(path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                usage!(
                    "no checkpoint {shown}: the sweep has finished or never started; start it without --resume"
                )
            }
            Err(error) => usage!("checkpoint {shown}: {error}"),
        };
        match Self::from_json(&json) {
            Some(checkpoint) => Ok(checkpoint),
            None => usage!(
                "{shown} is damaged or not a checkpoint of this version of hailer; start again with --force"
            ),
        }
    }

    /// Fails if the checkpoint belongs to another sweep.
    pub(super) fn check(&self, path: &Path, kind: &Sweep) -> anyhow::Result<()> {
        let shown = path.display();
        if self.kind.targets != kind.targets {
            usage!(
                "the checkpoint {shown} belongs to different targets or a different order; --resume needs the same targets, \
                 exclusions, protocols, shard and seed"
            );
        }
        if self.kind.output != kind.output {
            usage!(
                "the checkpoint {shown} belongs to another output, {}; this one is {}",
                self.kind.output,
                kind.output
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn survives_a_round_trip(
            unfinished in btree_set(any::<u64>(), 0..50), more: u32, length: Option<u64>, answered: u64, seconds in 0.0..1e9,
        ) {
            let unfinished: Vec<u64> = unfinished.into_iter().filter(|index| *index < u64::MAX).collect();
            let next = unfinished.last().map_or(0, |last| last + 1).saturating_add(more.into());
            let mut counts = Counts::default();
            counts.answered = answered;
            let kind = Sweep { targets: "7".into(), output: "csv".into() };
            let checkpoint = Checkpoint { kind, length, position: Position { next, unfinished }, counts, seconds };
            let json = checkpoint.to_json().unwrap();
            prop_assert_eq!(Checkpoint::from_json(&json), Some(checkpoint));
            // A truncated file is rejected.
            prop_assert_eq!(Checkpoint::from_json(&json[..json.len() - 2]), None);
        }

        #[test]
        fn refuses_damaged_input(next: u64, distances in proptest::collection::vec(any::<u64>(), 0..4)) {
            let json = serde_json::json!({
                "schema": SCHEMA, "targets": "", "output": "", "length_bytes": null, "next": next, "unfinished": distances,
                "counts": {}, "duration_s": 0.0,
            });
            if let Some(checkpoint) = Checkpoint::from_json(json.to_string().as_bytes()) {
                let Position { next, unfinished } = checkpoint.position;
                prop_assert!(unfinished.is_sorted_by(|a, b| a < b) && unfinished.last().is_none_or(|last| *last < next));
            }
        }
    }

    #[test]
    fn counts_survive_and_missing_ones_are_zero() {
        let before: Counts = serde_json::from_str(r#"{"answered":3,"timed_out":4}"#).unwrap();
        assert_eq!((before.probes, before.ended()), (0, 7));
        let mut sum = before.clone();
        sum.add(&before);
        assert_eq!((sum.answered, sum.ended()), (6, 14));
        // A damaged checkpoint must not end the sweep.
        sum.memory_limited = u64::MAX;
        sum.add(&sum.clone());
        assert_eq!(sum.memory_limited, u64::MAX);
        let json = serde_json::to_string(&sum).unwrap();
        assert_eq!(serde_json::from_str::<Counts>(&json).unwrap(), sum);
    }

    #[test]
    fn another_sweep_is_not_continued() {
        let path = std::env::temp_dir().join(format!("hailer-checkpoint-{}", std::process::id()));
        let kind = Sweep {
            targets: "1".into(),
            output: "csv".into(),
        };
        let position = Position {
            next: 3,
            unfinished: vec![0, 2],
        };
        let checkpoint = Checkpoint {
            kind: kind.clone(),
            length: Some(7),
            position,
            counts: Counts::default(),
            seconds: 1.5,
        };
        checkpoint.save(&path).unwrap();
        assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint);
        checkpoint.check(&path, &kind).unwrap();
        for (kind, expected) in [
            (
                Sweep {
                    targets: "2".into(),
                    ..kind.clone()
                },
                "different targets",
            ),
            (
                Sweep {
                    output: "ndjson".into(),
                    ..kind
                },
                "another output, csv; this one is ndjson",
            ),
        ] {
            assert!(
                checkpoint
                    .check(&path, &kind)
                    .unwrap_err()
                    .to_string()
                    .contains(expected)
            );
        }
        fs::write(&path, "{}").unwrap();
        assert!(
            Checkpoint::load(&path)
                .unwrap_err()
                .to_string()
                .contains("not a checkpoint of this version")
        );
        fs::remove_file(&path).unwrap();
        assert!(
            Checkpoint::load(&path)
                .unwrap_err()
                .to_string()
                .contains("no checkpoint ")
        );
    }
}
