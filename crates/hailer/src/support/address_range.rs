//! Ranges of IP addresses, such as `10.0.0.0/8`.
//!
//! In: texts, addresses. Out: whether an address is in a range.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses with a common prefix. An IPv4 address and its IPv4-mapped IPv6 address are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    first: IpAddr,
    /// Number of bits of the prefix, at most 32 or 128.
    bits: u8,
}

impl AddressRange {
    /// Returns whether an address is in the range.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.first, ip.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(ip)) => {
                let shift = 32 - u32::from(self.bits);
                (first.to_bits() ^ ip.to_bits())
                    .checked_shr(shift)
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(first), IpAddr::V6(ip)) => {
                let shift = 128 - u32::from(self.bits);
                (first.to_bits() ^ ip.to_bits())
                    .checked_shr(shift)
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// Reason why a text is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressRangeError {
    /// The text has another form.
    #[error("expected an address or a range such as 10.0.0.0/8 or fd00::/8")]
    Form,
    /// The address has bits behind the prefix, which is probably a typing error.
    #[error("the address has bits behind the prefix; did you mean {0}?")]
    Bits(AddressRange),
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    /// Parses `ADDRESS/BITS`, or an address, which is a range of one.
    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        let (ip, bits) = match text.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| AddressRangeError::Form)?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().map_err(|_| AddressRangeError::Form)?
            }
            Some(_) => return Err(AddressRangeError::Form),
        };
        if bits > most {
            return Err(AddressRangeError::Form);
        }
        let shift = u32::from(most - bits);
        let first = match ip {
            IpAddr::V4(ip) => {
                let prefix = ip.to_bits().checked_shr(shift).unwrap_or(0);
                IpAddr::V4(prefix.checked_shl(shift).unwrap_or(0).into())
            }
            IpAddr::V6(ip) => {
                let prefix = ip.to_bits().checked_shr(shift).unwrap_or(0);
                IpAddr::V6(prefix.checked_shl(shift).unwrap_or(0).into())
            }
        };
        let range = Self { first, bits };
        if first == ip {
            Ok(range)
        } else {
            Err(AddressRangeError::Bits(range))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_addresses_with_their_prefix() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("fd00::/8", "fdff::1", "fe00::"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"),
        ] {
            let parsed: AddressRange = range.parse().unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{range} {inside}");
            assert!(
                !parsed.contains(outside.parse().unwrap()),
                "{range} {outside}"
            );
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "host/8",
            "10.0.0/8",
        ] {
            assert_eq!(
                text.parse::<AddressRange>(),
                Err(AddressRangeError::Form),
                "{text}"
            );
        }
        let error = "10.1.0.0/8".parse::<AddressRange>().unwrap_err();
        assert!(
            error.to_string().ends_with("did you mean 10.0.0.0/8?"),
            "{error}"
        );
    }
}
