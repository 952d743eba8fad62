//! Stands for `cluster.rs` in a build without the feature `redis`. The table `[cluster]` and the flag
//! `--cluster` are errors.

use crate::config::checker::Checker;
use crate::exit::without;
use hailer_monitor::monitor::MonitorConfig;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::ops::Range;
use std::time::Duration;

/// Configuration of a cluster, which this build cannot have.
pub(crate) enum Cluster {}

impl Cluster {
    /// Reports the flag `--cluster` as an error.
    pub(crate) fn with_url(_: Option<Self>, _: &str) -> Result<Self, String> {
        Err(without("redis"))
    }

    pub(crate) fn apply(&self, _: Duration, _: &mut MonitorConfig) {
        match *self {}
    }
}

/// The table `[cluster]`.
#[derive(Deserialize)]
pub(super) struct ClusterInput(#[allow(dead_code, reason = "only its presence counts")] IgnoredAny);

impl ClusterInput {
    /// Reports the table as an error.
    pub(super) fn cluster(
        &self,
        span: &Range<usize>,
        checker: &mut Checker<'_>,
    ) -> Option<Cluster> {
        checker.wrong(span, format!("cluster: {}", without("redis")))
    }
}
