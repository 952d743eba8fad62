//! How many packets and bytes went each way.

use crate::packet::PacketDirection;
use std::collections::BTreeMap;

/// Packets of one name and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Counts by name and direction.
#[derive(Clone, Debug, Default)]
pub struct TrafficCounts {
    to_client: BTreeMap<&'static str, TrafficCount>,
    to_server: BTreeMap<&'static str, TrafficCount>,
}

impl TrafficCounts {
    /// By name.
    pub fn by_name(&self, way: PacketDirection) -> &BTreeMap<&'static str, TrafficCount> {
        match way {
            PacketDirection::ToClient => &self.to_client,
            PacketDirection::ToServer => &self.to_server,
        }
    }

    /// All of a direction.
    pub fn total(&self, way: PacketDirection) -> TrafficCount {
        self.by_name(way)
            .values()
            .fold(TrafficCount::default(), |sum, count| TrafficCount {
                packets: sum.packets + count.packets,
                bytes: sum.bytes + count.bytes,
            })
    }

    pub(super) fn count(&mut self, way: PacketDirection, name: &'static str, bytes: usize) {
        let counts = match way {
            PacketDirection::ToClient => &mut self.to_client,
            PacketDirection::ToServer => &mut self.to_server,
        };
        let count = counts.entry(name).or_default();
        count.packets += 1;
        count.bytes += bytes as u64;
    }
}
