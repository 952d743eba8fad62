//! PROXY protocol, versions 1 and 2: a header with which a proxy passes on the address of its
//! client. No I/O.
//!
//! ```text
//!   1:  PROXY TCP4 192.0.2.7 198.51.100.1 50000 25565 CR LF
//!   2:  0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A  21 11  000C  address, address, port, port
//! ```
//!
//! Facts: <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>. Extensions of version 2 (TLVs)
//! are skipped. Any client can write such a header, so accept it only from your proxies' networks.
//!
//! | limit | value |
//! | --- | --- |
//! | header of version 1 | 107 bytes |
//! | header of version 2 | 16 + 2,048 bytes |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Start of a header of version 1.
const V1_START: &[u8] = b"PROXY ";
/// Limit of a header of version 1 with its line end.
const MAX_V1_BYTES: usize = 107;
/// Start of a header of version 2.
const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length of a header of version 2 before the addresses.
const V2_FIXED_BYTES: usize = 16;
/// Limit of addresses and extensions of version 2. Addresses have at most 216 bytes.
const MAX_V2_REST_BYTES: usize = 2_048;
/// Version 2, connection without a client.
const V2_LOCAL: u8 = 0x20;
/// Version 2, connection of a client.
const V2_PROXY: u8 = 0x21;
/// TCP over IPv4.
const V2_TCP4: u8 = 0x11;
/// TCP over IPv6.
const V2_TCP6: u8 = 0x21;

/// Longest header in bytes.
pub const MAX_HEADER_BYTES: usize = V2_FIXED_BYTES + MAX_V2_REST_BYTES;

/// Version of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Addresses of a connection of a client with a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedAddresses {
    /// Address of the client.
    pub source: SocketAddr,
    /// Address that the client connected to.
    pub destination: SocketAddr,
}

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Length in bytes.
    pub length: usize,
    /// Addresses. `None` for connections of the proxy itself, such as health checks, and for clients
    /// without an IP address.
    pub addresses: Option<ProxiedAddresses>,
}

/// The bytes are no header of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no valid header of the PROXY protocol: {0}")]
pub struct ProxyHeaderError(&'static str);

impl ProxyHeader {
    /// Parses the header at the start of the bytes. Returns `None` if more bytes are needed.
    ///
    /// # Errors
    /// The bytes are no header, whatever follows.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, ProxyHeaderError> {
        if starts_alike(bytes, V2_START) {
            read_v2(bytes)
        } else if starts_alike(bytes, V1_START) {
            read_v1(bytes)
        } else {
            Err(ProxyHeaderError("unknown start"))
        }
    }
}

/// Returns whether the bytes start with `start`, or `start` with the bytes.
fn starts_alike(bytes: &[u8], start: &[u8]) -> bool {
    bytes
        .iter()
        .zip(start)
        .all(|(byte, expected)| byte == expected)
}

fn read_v1(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let line = bytes.get(..MAX_V1_BYTES).unwrap_or(bytes);
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return match bytes.len() {
            MAX_V1_BYTES.. => Err(ProxyHeaderError("the line is too long")),
            _ => Ok(None),
        };
    };
    let length = end + 2;
    let text = line
        .get(V1_START.len()..end)
        .and_then(|text| std::str::from_utf8(text).ok());
    let text = text.ok_or(ProxyHeaderError("the line is no text"))?;
    let words: Vec<&str> = text.split(' ').collect();
    let addresses = match words[..] {
        // The rest of the line must be ignored.
        ["UNKNOWN", ..] => None,
        [
            family @ ("TCP4" | "TCP6"),
            source,
            destination,
            source_port,
            destination_port,
        ] => {
            let address = |ip: &str, port: &str| {
                let ip = match family {
                    "TCP4" => ip.parse().map(IpAddr::V4).ok()?,
                    _ => ip.parse().map(IpAddr::V6).ok()?,
                };
                Some(SocketAddr::new(ip, decimal_port(port)?))
            };
            let both = address(source, source_port).zip(address(destination, destination_port));
            let (source, destination) = both.ok_or(ProxyHeaderError("an address is invalid"))?;
            Some(ProxiedAddresses {
                source,
                destination,
            })
        }
        _ => return Err(ProxyHeaderError("the line has another form")),
    };
    Ok(Some(ProxyHeader { length, addresses }))
}

/// Parses a port without sign and leading zeros.
fn decimal_port(text: &str) -> Option<u16> {
    let is_plain = text == "0" || text.starts_with(|c: char| ('1'..='9').contains(&c));
    text.parse().ok().filter(|_| is_plain)
}

fn read_v2(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let at = |index: usize| bytes.get(index).copied();
    let command = at(12);
    if command.is_some_and(|command| ![V2_LOCAL, V2_PROXY].contains(&command)) {
        return Err(ProxyHeaderError("unknown version or command"));
    }
    // The next versions of the protocol may have other families, which are to be accepted.
    let (Some(command), Some(family), Some(high), Some(low)) = (command, at(13), at(14), at(15))
    else {
        return Ok(None);
    };
    let rest = usize::from(u16::from_be_bytes([high, low]));
    if rest > MAX_V2_REST_BYTES {
        return Err(ProxyHeaderError("the header is too long"));
    }
    let length = V2_FIXED_BYTES + rest;
    let Some(body) = bytes.get(V2_FIXED_BYTES..length) else {
        return Ok(None);
    };
    let too_short = ProxyHeaderError("the header has no room for its addresses");
    let addresses = match (command, family) {
        (V2_PROXY, V2_TCP4) => {
            let parts = body.first_chunk::<12>().ok_or(too_short)?;
            let [a, b, c, d, e, f, g, h, ports @ ..] = *parts;
            let (source, destination) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
            Some(with_ports(source.into(), destination.into(), ports))
        }
        (V2_PROXY, V2_TCP6) => {
            let source = body.first_chunk::<16>().ok_or(too_short)?;
            let destination = body.get(16..).and_then(|rest| rest.first_chunk::<16>());
            let ports = body.get(32..).and_then(|rest| rest.first_chunk::<4>());
            let (destination, ports) = destination.zip(ports).ok_or(too_short)?;
            let (source, destination) = (Ipv6Addr::from(*source), Ipv6Addr::from(*destination));
            Some(with_ports(source.into(), destination.into(), *ports))
        }
        _ => None,
    };
    Ok(Some(ProxyHeader { length, addresses }))
}

fn with_ports(source: IpAddr, destination: IpAddr, ports: [u8; 4]) -> ProxiedAddresses {
    let [a, b, c, d] = ports;
    ProxiedAddresses {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    }
}

impl ProxiedAddresses {
    /// Appends a header with these addresses. Both are written in the family of the source; if they
    /// have different ones, as IPv6.
    pub fn write(&self, version: Version, out: &mut Vec<u8>) {
        let (source, destination) = (
            self.source.ip().to_canonical(),
            self.destination.ip().to_canonical(),
        );
        let ports = [self.source.port(), self.destination.port()];
        let mapped = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        match (version, source, destination) {
            (Version::V1, IpAddr::V4(_), IpAddr::V4(_)) => {
                let [from, to] = ports;
                out.extend(format!("PROXY TCP4 {source} {destination} {from} {to}\r\n").bytes());
            }
            (Version::V1, ..) => {
                let (source, destination) = (mapped(source), mapped(destination));
                let [from, to] = ports;
                out.extend(format!("PROXY TCP6 {source} {destination} {from} {to}\r\n").bytes());
            }
            (Version::V2, IpAddr::V4(source), IpAddr::V4(destination)) => {
                out.extend_from_slice(V2_START);
                out.extend([V2_PROXY, V2_TCP4, 0, 12]);
                out.extend(source.octets());
                out.extend(destination.octets());
                out.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
            }
            (Version::V2, ..) => {
                out.extend_from_slice(V2_START);
                out.extend([V2_PROXY, V2_TCP6, 0, 36]);
                out.extend(mapped(source).octets());
                out.extend(mapped(destination).octets());
                out.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn between(source: &str, destination: &str) -> Option<ProxiedAddresses> {
        Some(ProxiedAddresses {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        })
    }

    fn v2(rest: &[u8]) -> Vec<u8> {
        [V2_START, rest].concat()
    }

    /// Headers and their addresses: lines of the specification, and headers as HAProxy, nginx and
    /// Amazon's load balancer write them.
    fn vectors() -> Vec<(Vec<u8>, Option<ProxiedAddresses>)> {
        let v4 = between("192.0.2.7:56324", "198.51.100.1:443");
        let v6 = between("[2001:db8::7]:56324", "[2001:db8::1]:25565");
        let tcp4 = b"\x21\x11\0\x0C\xC0\0\x02\x07\xC6\x33\x64\x01\xDC\x04\x01\xBB";
        let tcp4_with_extension =
            b"\x21\x11\0\x10\xC0\0\x02\x07\xC6\x33\x64\x01\xDC\x04\x01\xBB\x04\0\x01\0";
        let mut tcp6 = b"\x21\x21\0\x24".to_vec();
        tcp6.extend("2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        tcp6.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        tcp6.extend(b"\xDC\x04\x63\xDD");
        let unix = [b"\x21\x31\0\xD8".as_slice(), &[b'/'; 216]].concat();
        vec![
            (
                b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n".to_vec(),
                v4,
            ),
            (
                b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 25565\r\n".to_vec(),
                v6,
            ),
            (
                b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n".to_vec(),
                between("255.255.255.255:65535", "255.255.255.255:65535"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (
                b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n".to_vec(),
                None,
            ),
            (v2(tcp4), v4),
            (v2(tcp4_with_extension), v4),
            (v2(&tcp6), v6),
            (v2(b"\x20\0\0\0"), None),
            (
                v2(b"\x20\x11\0\x0C\xC0\0\x02\x07\xC6\x33\x64\x01\xDC\x04\x01\xBB"),
                None,
            ),
            (v2(b"\x21\0\0\0"), None),
            (
                v2(b"\x21\x12\0\x0C\xC0\0\x02\x07\xC6\x33\x64\x01\xDC\x04\x01\xBB"),
                None,
            ),
            (v2(&unix), None),
        ]
    }

    #[test]
    fn vectors_are_read_whole_and_at_every_truncation() {
        for (bytes, addresses) in vectors() {
            let length = bytes.len();
            for end in 0..length {
                assert_eq!(
                    ProxyHeader::read(&bytes[..end]),
                    Ok(None),
                    "{bytes:?} to {end}"
                );
            }
            let expected = Ok(Some(ProxyHeader { length, addresses }));
            assert_eq!(ProxyHeader::read(&bytes), expected, "{bytes:?}");
            let more = [&bytes, &b"\r\n\x10\0"[..]].concat();
            assert_eq!(ProxyHeader::read(&more), expected, "{bytes:?} and more");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let long = [b"PROXY UNKNOWN ".as_slice(), &[b'.'; 92], b"\r\n"].concat();
        assert_eq!(long.len(), MAX_V1_BYTES + 1);
        for bytes in [
            b"GET / HTTP/1.1\r\n".to_vec(),
            b"proxy TCP4 192.0.2.7 192.0.2.8 1 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 192.0.2.8 1\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7  192.0.2.8 1 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2 \r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 192.0.2.8 +1 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 192.0.2.8 01 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 192.0.2.8 1 65536\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::1 192.0.2.8 1 2\r\n".to_vec(),
            b"PROXY TCP6 192.0.2.7 192.0.2.8 1 2\r\n".to_vec(),
            b"PROXY UDP4 192.0.2.7 192.0.2.8 1 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 192.0.2.8 1 \xFF\r\n".to_vec(),
            long,
            v2(b"\x11\x11\0\x0C"),
            v2(b"\x22\x11\0\x0C"),
            v2(b"\x21\x11\0\x0B\xC0\0\x02\x07\xC6\x33\x64\x01\xDC\x04\x01"),
            v2(b"\x21\x21\0\x0C\xC0\0\x02\x07\xC6\x33\x64\x01\xDC\x04\x01\xBB"),
            v2(b"\x21\x11\x08\x01"),
        ] {
            assert!(ProxyHeader::read(&bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn mixed_families_are_written_as_ipv6() {
        let addresses = between("192.0.2.7:1", "[2001:db8::1]:2").unwrap();
        for version in [Version::V1, Version::V2] {
            let mut out = Vec::new();
            addresses.write(version, &mut out);
            let read = ProxyHeader::read(&out).unwrap().unwrap();
            let expected = between("[::ffff:192.0.2.7]:1", "[2001:db8::1]:2");
            assert_eq!((read.addresses, read.length), (expected, out.len()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000,
            rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn written_headers_are_read(a: [u16; 8], b: [u16; 8], ports: [u16; 2], is_v4: bool, is_v1: bool) {
            let ip = |parts: [u16; 8]| match is_v4 {
                true => IpAddr::V4((u32::from(parts[0]) << 16 | u32::from(parts[1])).into()),
                false => IpAddr::V6(parts.into()),
            };
            let addresses = ProxiedAddresses {
                source: SocketAddr::new(ip(a), ports[0]),
                destination: SocketAddr::new(ip(b), ports[1]),
            };
            let mut out = Vec::new();
            addresses.write(if is_v1 { Version::V1 } else { Version::V2 }, &mut out);
            let read = ProxyHeader::read(&out).unwrap().unwrap();
            prop_assert_eq!(read.addresses.map(|of| (of.source.ip().to_canonical(), of.source.port(), of.destination.port())),
                Some((addresses.source.ip().to_canonical(), ports[0], ports[1])));
            prop_assert_eq!(read.length, out.len());
        }

        #[test]
        fn more_bytes_never_change_a_result(
            vector in 0usize..13, changes in proptest::collection::vec((0usize..300, any::<u8>()), 0..4), tail: Vec<u8>,
        ) {
            let (mut bytes, _) = vectors().swap_remove(vector);
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes.extend(tail);
            let mut first = None;
            for end in 0..=bytes.len() {
                let read = ProxyHeader::read(&bytes[..end]);
                if let Some(first) = first {
                    prop_assert_eq!(read, first);
                } else if read != Ok(None) {
                    first = Some(read);
                }
                if let Ok(Some(header)) = read {
                    prop_assert!(header.length <= end && header.length <= MAX_HEADER_BYTES);
                }
            }
            prop_assert!(first.is_some() || bytes.len() < MAX_HEADER_BYTES);
        }
    }
}
