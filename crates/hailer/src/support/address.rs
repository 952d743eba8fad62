//! Policy for addresses that others name.
//!
//! The list of a master server may name addresses of this machine and its networks, which the
//! sender of the list cannot reach itself. [`AddressPolicy`] decides which of them are queried. It
//! must also decide after the lookup of a name.
//!
//! | address | queried |
//! | --- | --- |
//! | global unicast | yes |
//! | loopback, private, link-local, documentation, and others that are not global | if private addresses are allowed, or if the sender is on the same network |
//! | unspecified, multicast, broadcast, reserved, metadata service of a cloud | never |
//!
//! IPv6 addresses that contain an IPv4 address are judged by both: IPv4-mapped, IPv4-compatible,
//! 6to4, Teredo, NAT64, SIIT and ISATAP.

use self::Class::{Global, Never, Private};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Decides which addresses that others name are queried.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressPolicy {
    is_private_allowed: bool,
    /// Networks that are not global and whose addresses are allowed.
    near: Vec<Network>,
}

/// Why an address is not queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressFault {
    /// The address.
    pub address: IpAddr,
    /// Kind of the address, such as `a private address`.
    pub kind: &'static str,
    /// Whether a policy can allow the address.
    pub is_private: bool,
}

impl fmt::Display for AddressFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.address, self.kind)
    }
}

impl AddressPolicy {
    /// Creates a policy that allows only global unicast addresses, or private ones too.
    pub fn new(is_private_allowed: bool) -> Self {
        Self {
            is_private_allowed,
            near: Vec::new(),
        }
    }

    /// Allows the addresses on the same private network as `senders`, the addresses of the server
    /// that names the others. A global address among `senders` changes nothing, and if there is one, the
    /// others count for nothing: the sender is on no private network.
    #[must_use]
    pub fn near(mut self, senders: &[IpAddr]) -> Self {
        let networks: Option<Vec<Network>> = senders.iter().map(|ip| network(*ip)).collect();
        self.near.extend(networks.unwrap_or_default());
        self
    }

    /// Allows what the other policy allows too.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        self.is_private_allowed |= other.is_private_allowed;
        self.near.extend(&other.near);
        self
    }

    /// Returns whether only global unicast addresses are allowed.
    pub fn is_strict(&self) -> bool {
        !self.is_private_allowed && self.near.is_empty()
    }

    /// Checks an address.
    ///
    /// # Errors
    ///
    /// The address must not be queried.
    pub fn check(&self, address: IpAddr) -> Result<(), AddressFault> {
        let (kind, is_private) = match class(address) {
            Class::Global => return Ok(()),
            Class::Never(kind) => (kind, false),
            Class::Private(kind, _) => (kind, true),
        };
        let is_near = || network(address).is_some_and(|network| self.near.contains(&network));
        if is_private && (self.is_private_allowed || is_near()) {
            return Ok(());
        }
        Err(AddressFault {
            address,
            kind,
            is_private,
        })
    }
}

/// First address of a network that is not global, as an IPv6 address.
type Network = u128;

/// Class of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Global,
    /// Kind of an address that is never queried.
    Never(&'static str),
    /// Kind of an address that is not global, and the prefix length of its network.
    Private(&'static str, u32),
}

const METADATA: Class = Never("an address of a metadata service");
const DOCUMENTATION: &str = "an address for documentation";

/// Blocks of IPv4, the first match decides. Others are global.
const IPV4: &[([u8; 4], u32, Class)] = &[
    ([0, 0, 0, 0], 8, Never("an unspecified address")),
    ([255, 255, 255, 255], 32, Never("the broadcast address")),
    ([224, 0, 0, 0], 4, Never("a multicast address")),
    ([240, 0, 0, 0], 4, Never("a reserved address")),
    // Metadata and credentials of AWS, Azure, Google, Oracle, DigitalOcean, Hetzner and others;
    // Tencent; Scaleway; Alibaba; Azure's host; Oracle's first cloud.
    ([169, 254, 169, 0], 24, METADATA),
    ([169, 254, 170, 0], 24, METADATA),
    ([169, 254, 0, 23], 32, METADATA),
    ([169, 254, 42, 42], 32, METADATA),
    ([100, 100, 100, 200], 32, METADATA),
    ([168, 63, 129, 16], 32, METADATA),
    ([192, 0, 0, 192], 32, METADATA),
    ([10, 0, 0, 0], 8, Private("a private address", 8)),
    ([172, 16, 0, 0], 12, Private("a private address", 12)),
    ([192, 168, 0, 0], 16, Private("a private address", 16)),
    ([127, 0, 0, 0], 8, Private("a loopback address", 8)),
    ([169, 254, 0, 0], 16, Private("a link-local address", 16)),
    (
        [100, 64, 0, 0],
        10,
        Private("an address of a provider's network", 10),
    ),
    ([192, 0, 0, 0], 24, Private("a special address", 24)),
    ([192, 0, 2, 0], 24, Private(DOCUMENTATION, 24)),
    ([198, 51, 100, 0], 24, Private(DOCUMENTATION, 24)),
    ([203, 0, 113, 0], 24, Private(DOCUMENTATION, 24)),
    ([192, 88, 99, 0], 24, Private("a special address", 24)),
    (
        [198, 18, 0, 0],
        15,
        Private("an address for benchmarks", 15),
    ),
];

/// Blocks of IPv6, the first match decides. Others are not global.
const IPV6: &[([u16; 8], u32, Class)] = &[
    ([0; 8], 128, Never("an unspecified address")),
    (
        [0xFF00, 0, 0, 0, 0, 0, 0, 0],
        8,
        Never("a multicast address"),
    ),
    // AWS, Google, Scaleway, OpenStack.
    ([0xFD00, 0x0EC2, 0, 0, 0, 0, 0, 0], 32, METADATA),
    ([0xFD20, 0x00CE, 0, 0, 0, 0, 0, 0x0254], 128, METADATA),
    ([0xFD00, 0x0042, 0, 0, 0, 0, 0, 0x0042], 128, METADATA),
    ([0xFE80, 0, 0, 0, 0, 0, 0xA9FE, 0xA9FE], 128, METADATA),
    (
        [0, 0, 0, 0, 0, 0, 0, 1],
        128,
        Private("a loopback address", 128),
    ),
    (
        [0xFC00, 0, 0, 0, 0, 0, 0, 0],
        7,
        Private("a private address", 48),
    ),
    (
        [0xFE80, 0, 0, 0, 0, 0, 0, 0],
        10,
        Private("a link-local address", 64),
    ),
    (
        [0xFEC0, 0, 0, 0, 0, 0, 0, 0],
        10,
        Private("a site-local address", 64),
    ),
    (
        [0x2001, 0x0DB8, 0, 0, 0, 0, 0, 0],
        32,
        Private(DOCUMENTATION, 32),
    ),
    (
        [0x3FFF, 0, 0, 0, 0, 0, 0, 0],
        20,
        Private(DOCUMENTATION, 20),
    ),
    (
        [0x2001, 0, 0, 0, 0, 0, 0, 0],
        23,
        Private("a special address", 128),
    ),
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Global),
    // NAT64, which is as global as the IPv4 address that it contains.
    ([0x0064, 0xFF9B, 0, 0, 0, 0, 0, 0], 96, Global),
];

fn class(address: IpAddr) -> Class {
    match address.to_canonical() {
        IpAddr::V4(ip) => class_of_ipv4(ip),
        IpAddr::V6(ip) => {
            let own = class_of_ipv6(ip);
            // The worst of all decides.
            let inner = contained(ip).into_iter().map(class_of_ipv4);
            inner.fold(own, |worst, inner| match (worst, inner) {
                (Never(_), _) | (_, Global) => worst,
                (_, Never(_)) => inner,
                // The network of the inner address is not that of the outer one.
                (_, Private(kind, _)) => Private(kind, 128),
            })
        }
    }
}

fn class_of_ipv4(ip: Ipv4Addr) -> Class {
    let differing = |first: [u8; 4]| ip.to_bits() ^ Ipv4Addr::from(first).to_bits();
    let block = IPV4
        .iter()
        .find(|(first, bits, _)| differing(*first).leading_zeros() >= *bits);
    block.map_or(Global, |(_, _, class)| *class)
}

fn class_of_ipv6(ip: Ipv6Addr) -> Class {
    let differing = |first: [u16; 8]| ip.to_bits() ^ Ipv6Addr::from(first).to_bits();
    let block = IPV6
        .iter()
        .find(|(first, bits, _)| differing(*first).leading_zeros() >= *bits);
    block.map_or(Private("no global address", 128), |(_, _, class)| *class)
}

/// Returns the IPv4 addresses that an IPv6 address contains, to which gateways and tunnels send.
fn contained(ip: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = ip.to_bits();
    let at = |shift: u32| Ipv4Addr::from_bits((bits >> shift) as u32);
    // RFC 6052 leaves out the bits 64 to 71 after a prefix of 48, 56 or 64 bits.
    let squeezed = bits >> 64 << 56 | bits & ((1 << 56) - 1);
    let after = |prefix: u32| Ipv4Addr::from_bits((squeezed >> (88 - prefix)) as u32);
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // IPv4-compatible, and SIIT (RFC 2765).
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xFFFF, 0, ..] => vec![at(0)],
        // NAT64, and NAT64 of a site (RFC 8215) with a prefix of any length.
        [0x64, 0xFF9B, 0, 0, 0, 0, ..] => vec![at(0)],
        [0x64, 0xFF9B, 1, ..] => {
            let mut all = vec![at(0), after(48), after(56), after(64)];
            // At the other places there are zeros.
            all.retain(|ip| ip.octets()[0] > 0);
            all
        }
        // 6to4.
        [0x2002, ..] => vec![at(80)],
        // Teredo: the server, and the client with all bits inverted.
        [0x2001, 0, ..] => vec![at(64), Ipv4Addr::from_bits(!(bits as u32))],
        // ISATAP, after any prefix.
        [_, _, _, _, 0 | 0x0200, 0x5EFE, ..] => vec![at(0)],
        _ => Vec::new(),
    }
}

/// Returns the network of an address that is not global, or `None` if the address is global or is
/// never queried.
fn network(address: IpAddr) -> Option<Network> {
    let Private(_, bits) = class(address) else {
        return None;
    };
    let (ip, bits) = match address.to_canonical() {
        // The loopback addresses of both families are one network.
        ip if ip.is_loopback() => (Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 128),
        IpAddr::V4(ip) => (ip.to_ipv6_mapped(), 96 + bits),
        IpAddr::V6(ip) => (ip, bits),
    };
    let host = u128::MAX.checked_shr(bits).unwrap_or(0);
    Some(ip.to_bits() & !host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(policy: &AddressPolicy, address: &str) -> &'static str {
        let checked = policy.check(address.parse().unwrap());
        checked.err().map_or("", |fault| fault.kind)
    }

    /// Addresses that no policy allows, in every form.
    #[test]
    fn metadata_and_multicast_are_never_queried() {
        let anything = AddressPolicy::new(true).near(&["169.254.1.1".parse().unwrap()]);
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "224.0.2.60",
            "239.255.255.255",
            "240.0.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "169.254.42.42",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "::",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
            "::ffff:169.254.169.254",
            "::ffff:255.255.255.255",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::169.254.169.254",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1:0:a9:fea9:fe00:0",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "2001:0:102:304:0:0:5601:5601",
            "fe80::5efe:169.254.169.254",
            "2a00:1450::200:5efe:169.254.169.254",
        ] {
            assert_ne!(kind(&anything, address), "", "{address}");
            let fault = anything.check(address.parse().unwrap()).unwrap_err();
            assert!(!fault.is_private, "{address}");
        }
    }

    #[test]
    fn only_global_unicast_addresses_are_queried_by_default() {
        let strict = AddressPolicy::default();
        let private = AddressPolicy::new(true);
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "169.253.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:200::1",
            "2600::1",
            "2a00:1450::5efe:8.8.8.8",
        ] {
            assert_eq!(kind(&strict, address), "", "{address}");
        }
        for address in [
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.1.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fdff::1",
            "2001:db8::1",
            "3fff:fff::1",
            "2001:2::1",
            "100::1",
            "5f00::1",
            "4000::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "2001:0:808:808::f7f7:f7f7",
            "2600::5efe:10.0.0.1",
        ] {
            let fault = strict.check(address.parse().unwrap()).unwrap_err();
            assert!(fault.is_private && !fault.kind.is_empty(), "{address}");
            assert_eq!(kind(&private, address), "", "{address}");
        }
    }

    /// A master on a private network lists the servers of this network, and of no other.
    #[test]
    fn senders_may_name_their_own_network() {
        for (sender, allowed, other) in [
            ("10.1.2.3", "10.200.0.1", "192.168.0.1"),
            ("192.168.1.1", "192.168.7.7", "10.0.0.1"),
            ("127.0.0.1", "127.9.9.9", "10.0.0.1"),
            ("127.0.0.1", "::1", "fe80::1"),
            ("::1", "127.0.0.1", "fc00::1"),
            ("::ffff:127.0.0.1", "127.0.0.1", "10.0.0.1"),
            ("fd00:1:2::1", "fd00:1:2:3::1", "fd00:1:3::1"),
            ("fe80::1", "fe80::2", "fe80:0:0:1::2"),
            ("10.0.0.1", "8.8.8.8", "64:ff9b::10.0.0.2"),
            ("10.0.0.1", "10.0.0.2", "2002:a00:2::1"),
            ("8.8.8.8", "8.8.4.4", "10.0.0.1"),
            ("169.254.1.1", "169.254.2.2", "169.254.169.254"),
            ("169.254.169.254", "8.8.8.8", "169.254.2.2"),
        ] {
            let policy = AddressPolicy::default().near(&[sender.parse().unwrap()]);
            assert_eq!(kind(&policy, allowed), "", "{sender} {allowed}");
            assert_ne!(kind(&policy, other), "", "{sender} {other}");
        }
        // A name that leads to a global address too is on no private network.
        let senders = ["10.0.0.1", "8.8.8.8"].map(|ip| ip.parse().unwrap());
        assert!(AddressPolicy::default().near(&senders).is_strict());
        assert!(AddressPolicy::default().near(&[]).is_strict());
    }
}
