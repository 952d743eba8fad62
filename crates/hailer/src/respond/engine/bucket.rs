//! Token bucket of the rate limits.

/// A token bucket: thousandths of units spent and not yet refilled, and when that was true, in
/// milliseconds.
///
/// The time moves only together with the refill up to it, so that no refill is lost.
#[derive(Clone, Copy, Default)]
pub(crate) struct SpentBucket {
    spent: u64,
    at: u64,
}

impl SpentBucket {
    /// Refills for the time since the last call.
    pub(crate) fn refill(&mut self, rate: u32, now: u64) {
        self.spent = self.spent_at(rate, now);
        self.at = self.at.max(now);
    }

    /// Refills like [`SpentBucket::refill`]. Returns whether `amount` more units fit.
    pub(crate) fn has_room(
        &mut self,
        amount: usize,
        rate: u32,
        burst_seconds: u64,
        now: u64,
    ) -> bool {
        self.refill(rate, now);
        self.spent + amount as u64 * 1_000 <= u64::from(rate) * burst_seconds * 1_000
    }

    /// Spends units that fit.
    pub(crate) fn take(&mut self, amount: usize) {
        self.spent += amount as u64 * 1_000;
    }

    /// Returns the thousandths of units that are still spent at a time.
    pub(crate) fn spent_at(&self, rate: u32, now: u64) -> u64 {
        let refilled = now.saturating_sub(self.at).saturating_mul(u64::from(rate));
        self.spent.saturating_sub(refilled)
    }

    /// Returns the time of the last refill, in milliseconds.
    pub(crate) fn refilled_at(&self) -> u64 {
        self.at
    }
}
