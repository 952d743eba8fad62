//! IPv4 interfaces that a search can use.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// An address of a network interface, with its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface, such as `eth0`.
    pub name: String,
    /// Address of this machine.
    pub address: Ipv4Addr,
    /// Length of the network's prefix in bits, at most 30: smaller networks have no broadcasts.
    pub prefix: u8,
}

impl Interface {
    /// Returns the address that reaches all machines of the network.
    pub fn broadcast(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | self.host_bits())
    }

    /// Returns whether an address belongs to the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(ip) => (ip.to_bits() ^ self.address.to_bits()) & !self.host_bits() == 0,
            IpAddr::V6(_) => false,
        }
    }

    /// Returns whether a search uses the interface if none is named: its address is private
    /// (RFC 1918) or link-local. Others may have strangers in their network.
    pub fn is_private(&self) -> bool {
        self.address.is_private() || self.address.is_link_local()
    }

    /// Returns the bits of an address that differ within the network.
    fn host_bits(&self) -> u32 {
        u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0)
    }
}

/// Returns the interfaces of this machine that are up and have an IPv4 address and broadcasts. The
/// loopback interface is one of them.
///
/// # Errors
/// The system does not list its interfaces.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found = Vec::new();
    for interface in if_addrs::get_if_addrs()? {
        let if_addrs::IfAddr::V4(of) = &interface.addr else {
            continue;
        };
        let prefix = of.netmask.to_bits().leading_ones() as u8;
        if (1..=30).contains(&prefix) && !interface.is_p2p() && interface.is_oper_up() {
            found.push(Interface {
                name: interface.name.clone(),
                address: of.ip,
                prefix,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(address: [u8; 4], prefix: u8) -> Interface {
        Interface {
            name: "test0".into(),
            address: address.into(),
            prefix,
        }
    }

    #[test]
    fn networks_have_their_broadcast_address_and_members() {
        let home = interface([192, 168, 7, 20], 24);
        assert_eq!(home.broadcast(), Ipv4Addr::new(192, 168, 7, 255));
        let small = interface([10, 77, 1, 1], 30);
        assert_eq!(small.broadcast(), Ipv4Addr::new(10, 77, 1, 3));
        for (ip, is_member) in [
            ("10.77.1.2", true),
            ("10.77.1.1", true),
            ("10.77.1.4", false),
            ("10.77.0.2", false),
            ("::1", false),
        ] {
            assert_eq!(small.contains(ip.parse().unwrap()), is_member, "{ip}");
        }
    }

    #[test]
    fn public_addresses_are_not_used_by_default() {
        for (address, is_private) in [
            ([192, 168, 7, 20], true),
            ([172, 31, 0, 1], true),
            ([169, 254, 3, 4], true),
            ([172, 32, 0, 1], false),
            ([198, 51, 100, 1], false),
            ([127, 0, 0, 1], false),
        ] {
            assert_eq!(
                interface(address, 24).is_private(),
                is_private,
                "{address:?}"
            );
        }
    }

    #[test]
    fn the_loopback_interface_is_listed() {
        let all = interfaces().unwrap();
        let loopback = all
            .iter()
            .find(|interface| interface.address == Ipv4Addr::LOCALHOST);
        assert_eq!(
            loopback.map(Interface::broadcast),
            Some([127, 255, 255, 255].into())
        );
    }
}
