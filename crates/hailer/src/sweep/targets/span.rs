//! Ranges of addresses, IPv4 and IPv6, as ranges of numbers.

use std::net::{IpAddr, Ipv6Addr};

/// A range of addresses, first and last included, as [`number`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) first: u128,
    pub(crate) last: u128,
}

impl Span {
    /// Returns the number of addresses. One too low for the whole space, which no list contains.
    pub(crate) fn len(self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }
}

/// Returns an address as a number. IPv4 addresses are mapped to IPv6, so that both notations are
/// the same number.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => 0xFFFF_0000_0000 | u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

pub(crate) fn address(number: u128) -> IpAddr {
    Ipv6Addr::from_bits(number).to_canonical()
}

/// Parses an address, a network or a range. Returns `None` for a name.
pub(crate) fn span(text: &str) -> Result<Option<Span>, String> {
    let ip = |text: &str| text.parse::<IpAddr>().ok();
    if let Some((network, bits)) = text.split_once('/') {
        let address =
            ip(network).ok_or("before the slash an address is needed, as in 192.0.2.0/24")?;
        let (most, before) = if address.is_ipv4() {
            (32, 96)
        } else {
            (128, 0)
        };
        let bits: u32 = Some(bits)
            .filter(|bits| bits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|bits| bits.parse().ok())
            .filter(|bits| *bits <= most)
            .ok_or_else(|| format!("after the slash a number of bits is needed, at most {most}"))?;
        let rest = u128::MAX.checked_shr(before + bits).unwrap_or(0);
        let address = number(address);
        return Ok(Some(Span {
            first: address & !rest,
            last: address | rest,
        }));
    }
    if let Some((first, last)) = text.split_once('-')
        && let Some(first) = ip(first)
    {
        // `192.0.2.7-static.example.com` is a name.
        let is_name = last.bytes().any(|b| b.is_ascii_alphabetic()) && !last.contains(':');
        return match ip(last) {
            None if is_name => Ok(None),
            None => Err("after the dash the last address of the range is needed in full".into()),
            Some(last) if first.is_ipv4() != last.is_ipv4() => {
                Err("the ends of the range are of two families".into())
            }
            Some(last) if last < first => Err("the range ends before it begins".into()),
            Some(last) => Ok(Some(Span {
                first: number(first),
                last: number(last),
            })),
        };
    }
    Ok(ip(text).map(|address| Span {
        first: number(address),
        last: number(address),
    }))
}
