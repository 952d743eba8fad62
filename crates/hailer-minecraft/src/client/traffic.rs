//! Packet and byte counts of a connection.

use crate::packet::PacketDirection;
use std::collections::BTreeMap;

/// Packets and bytes of one packet name and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes, decrypted.
    pub bytes: u64,
}

/// Counts by packet name and direction.
#[derive(Clone, Debug, Default)]
pub struct TrafficCounts {
    to_client: BTreeMap<&'static str, TrafficCount>,
    to_server: BTreeMap<&'static str, TrafficCount>,
}

impl TrafficCounts {
    /// Returns the counts of one direction by packet name.
    pub fn by_name(&self, direction: PacketDirection) -> &BTreeMap<&'static str, TrafficCount> {
        match direction {
            PacketDirection::ToClient => &self.to_client,
            PacketDirection::ToServer => &self.to_server,
        }
    }

    /// Returns the sum of one direction.
    pub fn total(&self, direction: PacketDirection) -> TrafficCount {
        self.by_name(direction)
            .values()
            .fold(TrafficCount::default(), |sum, count| TrafficCount {
                packets: sum.packets + count.packets,
                bytes: sum.bytes + count.bytes,
            })
    }

    pub(super) fn count(&mut self, direction: PacketDirection, name: &'static str, bytes: usize) {
        let counts = match direction {
            PacketDirection::ToClient => &mut self.to_client,
            PacketDirection::ToServer => &mut self.to_server,
        };
        let count = counts.entry(name).or_default();
        count.packets += 1;
        count.bytes += bytes as u64;
    }
}
