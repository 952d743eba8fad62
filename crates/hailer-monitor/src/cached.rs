//! Values that are expensive to compute, shared by all requests.
//!
//! A value stays valid for 50 times as long as its computation took, so that computing it uses at
//! most 1/50 of a core. When a slow value expires, requests get the old one while a task computes a
//! new one; they wait only if the old one is more than [`MAX_STALE`] past its expiry.

use crate::lock::lock;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A value stays valid for this multiple of the time that computing it took.
const VALIDITY_PER_COST: u32 = 50;
/// Requests wait for a computation that takes at most this long.
const MAX_WAIT: Duration = Duration::from_millis(3);
/// How long an expired value may be used while a new one is computed.
const MAX_STALE: Duration = Duration::from_secs(60);

/// When a cached value expires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Expiry {
    /// When its version changes.
    Version,
    /// When its version changes or its time has passed, but not before this age.
    Time(Duration),
}

/// A cached value. Clones share it.
#[derive(Debug)]
pub(crate) struct Cached<T>(Arc<Mutex<Option<CacheEntry<T>>>>);

#[derive(Debug)]
struct CacheEntry<T> {
    value: Arc<T>,
    version: u64,
    expires: Instant,
    cost: Duration,
    is_refreshing: bool,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Cached<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + Sync + 'static> Cached<T> {
    /// Returns the cached value, or computes it. `version`: version of the data that it depends on.
    pub(crate) fn get(
        &self,
        expiry: Expiry,
        version: u64,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Arc<T> {
        let now = Instant::now();
        let mut cached = self.lock();
        if let Some(entry) = cached.as_mut() {
            let is_valid = expiry == Expiry::Version || now < entry.expires;
            if entry.version == version && is_valid {
                return entry.value.clone();
            }
            let is_usable = entry.cost > MAX_WAIT && now < entry.expires + MAX_STALE;
            let runtime = tokio::runtime::Handle::try_current();
            if let (Ok(runtime), true) = (runtime, is_usable) {
                if !entry.is_refreshing {
                    entry.is_refreshing = true;
                    let shared = self.clone();
                    runtime.spawn_blocking(move || {
                        let entry = CacheEntry::compute(expiry, version, compute);
                        *shared.lock() = Some(entry);
                    });
                }
                return entry.value.clone();
            }
        }
        // Concurrent requests wait for the lock: computing twice would take as long.
        cached
            .insert(CacheEntry::compute(expiry, version, compute))
            .value
            .clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<CacheEntry<T>>> {
        lock(&self.0)
    }
}

impl<T> CacheEntry<T> {
    fn compute(expiry: Expiry, version: u64, compute: impl FnOnce() -> T) -> Self {
        let start = Instant::now();
        let value = Arc::new(compute());
        let end = Instant::now();
        let cost = end - start;
        let min = match expiry {
            Expiry::Version => Duration::ZERO,
            Expiry::Time(min) => min,
        };
        Self {
            value,
            version,
            expires: end + (cost * VALIDITY_PER_COST).max(min),
            cost,
            is_refreshing: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_expire_by_version_and_by_time() {
        let cached = Cached::default();
        let get = |expiry, version, value| *cached.get(expiry, version, move || value);
        assert_eq!(get(Expiry::Version, 1, "a"), "a");
        assert_eq!(get(Expiry::Version, 1, "b"), "a");
        assert_eq!(get(Expiry::Version, 2, "c"), "c");
        let hour = Expiry::Time(Duration::from_secs(3_600));
        assert_eq!(get(hour, 3, "d"), "d");
        assert_eq!(get(hour, 3, "e"), "d");
        let cached = Cached::default();
        cached.get(Expiry::Time(Duration::ZERO), 1, || "f");
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(*cached.get(Expiry::Time(Duration::ZERO), 1, || "g"), "g");
    }

    #[tokio::test]
    async fn slow_values_are_refreshed_in_the_background() {
        let cached = Cached::default();
        let slow = |value| {
            move || {
                std::thread::sleep(Duration::from_millis(20));
                value
            }
        };
        assert_eq!(*cached.get(Expiry::Version, 1, slow("old")), "old");
        assert_eq!(*cached.get(Expiry::Version, 2, slow("new")), "old");
        let deadline = Instant::now() + Duration::from_secs(10);
        while *cached.get(Expiry::Version, 2, slow("other")) != "new" {
            assert!(Instant::now() < deadline, "it was never refreshed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
