//! How many packets and bytes went each way.

use crate::packet::Way;
use std::collections::BTreeMap;

/// Packets of one name and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Counts by name and direction.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    to_client: BTreeMap<&'static str, Count>,
    to_server: BTreeMap<&'static str, Count>,
}

impl Tally {
    /// By name.
    pub fn by_name(&self, way: Way) -> &BTreeMap<&'static str, Count> {
        match way {
            Way::ToClient => &self.to_client,
            Way::ToServer => &self.to_server,
        }
    }

    /// All of a direction.
    pub fn total(&self, way: Way) -> Count {
        self.by_name(way)
            .values()
            .fold(Count::default(), |sum, count| Count {
                packets: sum.packets + count.packets,
                bytes: sum.bytes + count.bytes,
            })
    }

    pub(super) fn count(&mut self, way: Way, name: &'static str, bytes: usize) {
        let counts = match way {
            Way::ToClient => &mut self.to_client,
            Way::ToServer => &mut self.to_server,
        };
        let count = counts.entry(name).or_default();
        count.packets += 1;
        count.bytes += bytes as u64;
    }
}
