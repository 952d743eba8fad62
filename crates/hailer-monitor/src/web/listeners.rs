//! Limit of open event streams.

use crate::lock::lock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum number of event streams: fewer than connections, so that pages can still be loaded.
const MAX_LISTENERS: usize = 512;
/// Maximum number of event streams per address, behind which may be several people.
const MAX_LISTENERS_PER_ADDRESS: usize = 128;

/// Counts event streams, in total and per address.
#[derive(Debug, Default)]
pub(crate) struct ListenerLimit(Mutex<HashMap<IpAddr, usize>>);

impl ListenerLimit {
    /// Takes one slot of a client address, or of an IPv6 network; `None`: all are taken.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<ListenerPermit> {
        let mut taken = self.lock();
        let is_full = taken.values().sum::<usize>() >= MAX_LISTENERS;
        let of_one = taken.get(&address).copied().unwrap_or(0);
        if is_full || of_one >= MAX_LISTENERS_PER_ADDRESS {
            return None;
        }
        taken.insert(address, of_one + 1);
        Some(ListenerPermit {
            limit: self.clone(),
            address,
        })
    }

    /// Number of open streams.
    pub(crate) fn taken(&self) -> usize {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        lock(&self.0)
    }
}

/// One slot, released on drop.
pub(crate) struct ListenerPermit {
    limit: Arc<ListenerLimit>,
    address: IpAddr,
}

impl Drop for ListenerPermit {
    fn drop(&mut self) {
        if let Entry::Occupied(mut taken) = self.limit.lock().entry(self.address) {
            *taken.get_mut() -= 1;
            if *taken.get() == 0 {
                taken.remove();
            }
        }
    }
}
