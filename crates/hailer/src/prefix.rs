//! Network prefixes of source addresses, as keys of limits.

use std::net::IpAddr;

/// Marks prefixes of IPv4 and IPv6, so that none is 0.
const V4: u128 = 1 << 127;
const V6: u128 = 1 << 126;

/// Returns the prefix of a source: an IPv4 address or an IPv6 /64, which one subscriber controls.
pub(crate) fn source(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => V4 | u128::from(ip.to_bits()),
        IpAddr::V6(ip) => V6 | ip.to_bits() >> 64,
    }
}

/// Returns the prefix of a source's network as it is routed: IPv4 /24 or IPv6 /56.
pub(crate) fn network(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => V4 | u128::from(ip.to_bits() >> 8),
        IpAddr::V6(ip) => V6 | ip.to_bits() >> 72,
    }
}

/// Returns the first address of a network and its prefix length in bits.
pub(crate) fn network_address(network: u128) -> (IpAddr, u8) {
    match network & V4 {
        0 => (IpAddr::V6(((network & !V6) << 72).into()), 56),
        _ => (IpAddr::V4(((network as u32) << 8).into()), 24),
    }
}
