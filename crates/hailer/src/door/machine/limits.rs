//! Limits of starts: per source and in total, over the last hour. The oldest starts are at most
//! [`DoorLimits::total`].

use crate::prefix;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time in which starts are counted.
const WINDOW: Duration = Duration::from_secs(3_600);

/// Maximum number of starts by joins in any hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorLimits {
    /// For one source: an IPv4 address or an IPv6 /64. The default is 12.
    pub per_source: usize,
    /// For all sources together. The default is 60.
    pub total: usize,
}

impl Default for DoorLimits {
    fn default() -> Self {
        Self {
            per_source: 12,
            total: 60,
        }
    }
}

/// The starts of the last hour, with the source of each.
#[derive(Debug, Default)]
pub(super) struct RecentStarts(VecDeque<(Instant, u128)>);

impl RecentStarts {
    /// Records a start, unless it is over a limit. Returns whether it is within the limits.
    pub(super) fn admit(&mut self, source: IpAddr, limits: DoorLimits, now: Instant) -> bool {
        while let Some((at, _)) = self.0.front()
            && now.saturating_duration_since(*at) >= WINDOW
        {
            self.0.pop_front();
        }
        let source = prefix::source(source);
        let own = self.0.iter().filter(|(_, of)| *of == source).count();
        let is_within = own < limits.per_source && self.0.len() < limits.total;
        if is_within {
            self.0.push_back((now, source));
        }
        is_within
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
