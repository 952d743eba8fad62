//! Summary of a sweep as JSON, in the form of `schema/sweep-summary-v2.json`.
//!
//! In: counts at the end of a sweep, or JSON. Out: JSON, or counts.
//!
//! May import: `crate::sweep`, `crate::sweep::targets`.

use super::Counts;
use super::targets::Skipped;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::time::Duration;

/// The output of `hailer sweep --summary`, with `Serialize` and `Deserialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    schema: SchemaName,
    /// Why the sweep ended.
    pub end: SweepEnd,
    /// Duration of the sweep in seconds, with at most 3 decimals.
    pub duration_s: f64,
    /// Number of probes: one address or name in one protocol is one probe. `None` if unknown.
    pub probes: Option<u64>,
    /// Counters.
    pub counts: Counts,
    /// Targets that were given but not probed.
    pub skipped: Skipped,
}

/// Why a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SweepEnd {
    /// All probes have a result.
    Finished,
    /// Ctrl-C or SIGTERM.
    Signal,
    /// The time limit of the tool.
    TimeLimit,
}

impl Summary {
    /// Name and version of the schema. The version changes only for incompatible changes.
    pub const SCHEMA: &str = "hailer/sweep-summary/2";

    /// Creates a summary. The duration is rounded to milliseconds.
    pub fn new(
        end: SweepEnd,
        took: Duration,
        probes: Option<u64>,
        counts: Counts,
        skipped: Skipped,
    ) -> Self {
        Self {
            schema: SchemaName,
            end,
            duration_s: (took.as_secs_f64() * 1e3).round() / 1e3,
            probes,
            counts,
            skipped,
        }
    }
}

/// [`Summary::SCHEMA`]. Others are errors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SchemaName;

impl Serialize for SchemaName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Summary::SCHEMA)
    }
}

impl<'de> Deserialize<'de> for SchemaName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let schema = String::deserialize(deserializer)?;
        if schema == Summary::SCHEMA {
            return Ok(Self);
        }
        let problem = format_args!("schema {schema:?}, expected {:?}", Summary::SCHEMA);
        Err(de::Error::custom(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_reads_back_to_an_equal_value() {
        let counts = Counts {
            probes: 7,
            answered: 5,
            ..Counts::default()
        };
        let took = Duration::from_micros(1_234_567);
        let ends = [SweepEnd::Finished, SweepEnd::Signal, SweepEnd::TimeLimit];
        for (end, probes) in ends.into_iter().zip([Some(7), None, Some(0)]) {
            let summary = Summary::new(end, took, probes, counts.clone(), Skipped::default());
            assert_eq!(summary.duration_s, 1.235);
            let json = serde_json::to_string(&summary).unwrap();
            assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
            let other = json.replace("summary/2", "summary/3");
            let error = serde_json::from_str::<Summary>(&other).unwrap_err();
            assert!(
                error.to_string().contains("hailer/sweep-summary/3"),
                "{error}"
            );
        }
    }
}
