//! Address and control messages of a datagram, as bytes in the kernel's layout.

use libc::{c_int, sa_family_t};
use std::iter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

/// Size of `sockaddr_in6`, the longest address.
const NAME: usize = 28;
/// Size of the control messages of a socket without metadata.
pub(crate) const NO_CONTROL: usize = 0;
/// Size of the control messages of a datagram, at most: 32 bytes for a time, 40 for an address.
pub(crate) const DATAGRAM_CONTROL: usize = 72;
/// Size of the control messages of a refusal: 64 bytes for the error, after a time and an address.
pub(crate) const REFUSAL_CONTROL: usize = 136;
/// Size of a `cmsghdr`: length, level and type. Control messages are aligned to the size of the
/// length.
const HEADER: usize = ALIGN + 8;
const ALIGN: usize = size_of::<usize>();

/// Address and control messages of a datagram, in the kernel's layout. A batch of envelopes with all
/// control messages would displace other data from the first cache of a core, so that `CONTROL` is
/// only as large as the socket's options need.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct Envelope<const CONTROL: usize> {
    control: [u8; CONTROL],
    name: [u8; NAME],
    name_length: u8,
    control_length: u8,
}

/// Control message: metadata of a datagram from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Local address that the datagram was sent to.
    To(IpAddr),
    /// When it was received, as the time since the start of 1970.
    Received(Duration),
    /// The datagram was sent from this socket and refused, by ICMP, with this error.
    Refused { errno: i32 },
}

impl<const CONTROL: usize> Envelope<CONTROL> {
    /// Returns an envelope for the system to fill.
    pub(crate) fn room() -> Self {
        Self {
            control: [0; CONTROL],
            name: [0; NAME],
            name_length: NAME as u8,
            control_length: CONTROL as u8,
        }
    }

    /// Returns the envelope of a datagram to send. `from`: the local address to send from, which
    /// needs [`DATAGRAM_CONTROL`]; `None`: the system chooses.
    pub(crate) fn new(to: SocketAddr, from: Option<IpAddr>) -> Self {
        let mut envelope = Self {
            name_length: 0,
            control_length: 0,
            ..Self::room()
        };
        let mut name = Writer {
            room: &mut envelope.name,
            length: &mut envelope.name_length,
        };
        match to {
            SocketAddr::V4(to) => {
                name.add(&(libc::AF_INET as sa_family_t).to_ne_bytes());
                name.add(&to.port().to_be_bytes());
                name.add(&to.ip().octets());
                name.add(&[0; 8]);
            }
            SocketAddr::V6(to) => {
                name.add(&(libc::AF_INET6 as sa_family_t).to_ne_bytes());
                name.add(&to.port().to_be_bytes());
                name.add(&to.flowinfo().to_ne_bytes());
                name.add(&to.ip().octets());
                name.add(&to.scope_id().to_ne_bytes());
            }
        }
        let mut control = Writer {
            room: &mut envelope.control,
            length: &mut envelope.control_length,
        };
        match from {
            None => {}
            // `in_pktinfo`: any interface, the source, a field for receiving only.
            Some(IpAddr::V4(from)) => {
                control.note(
                    libc::IPPROTO_IP,
                    libc::IP_PKTINFO,
                    [&[0; 4], &from.octets(), &[0; 4]],
                );
            }
            // `in6_pktinfo`: the source, any interface.
            Some(IpAddr::V6(from)) => {
                control.note(
                    libc::IPPROTO_IPV6,
                    libc::IPV6_PKTINFO,
                    [&from.octets(), &[0; 4], &[]],
                );
            }
        }
        envelope
    }

    /// Returns the written part of the address and of the control messages, or all of the space.
    pub(crate) fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        (
            &mut self.name[..usize::from(self.name_length)],
            &mut self.control[..usize::from(self.control_length)],
        )
    }

    /// Sets how many bytes of address and control messages the system has filled in.
    pub(crate) fn filled(&mut self, name: usize, control: usize) {
        self.name_length = name.min(NAME) as u8;
        self.control_length = control.min(CONTROL) as u8;
    }

    /// Returns the sender of the datagram, or the destination of a refused one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let name = &self.name[..usize::from(self.name_length)];
        let port = u16::from_be_bytes(at(name, 2)?);
        match c_int::from(sa_family_t::from_ne_bytes(at(name, 0)?)) {
            libc::AF_INET => Some(SocketAddrV4::new(at::<4>(name, 4)?.into(), port).into()),
            libc::AF_INET6 => {
                let flow = u32::from_ne_bytes(at(name, 4)?);
                let scope = u32::from_ne_bytes(at(name, 24)?);
                Some(SocketAddrV6::new(at::<16>(name, 8)?.into(), port, flow, scope).into())
            }
            _ => None,
        }
    }

    /// Returns the control messages up to the first invalid one.
    pub(crate) fn notes(&self) -> impl Iterator<Item = Note> {
        let mut rest = &self.control[..usize::from(self.control_length)];
        let raw = iter::from_fn(move || {
            let length = usize::from_ne_bytes(at(rest, 0)?);
            let level = c_int::from_ne_bytes(at(rest, ALIGN)?);
            let kind = c_int::from_ne_bytes(at(rest, ALIGN + 4)?);
            let data = rest.get(HEADER..length)?;
            rest = rest
                .get(length.next_multiple_of(ALIGN)..)
                .unwrap_or_default();
            Some((level, kind, data))
        });
        raw.filter_map(|(level, kind, data)| note(level, kind, data))
    }
}

fn note(level: c_int, kind: c_int, data: &[u8]) -> Option<Note> {
    match (level, kind) {
        // The second address is local, even if the datagram was sent to a broadcast address.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            Some(Note::To(Ipv4Addr::from(at::<4>(data, 4)?).into()))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let to = IpAddr::from(at::<16>(data, 0)?);
            (!to.is_multicast()).then_some(Note::To(to))
        }
        // Two integers of the system's word size.
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
            let (seconds, nanos) = match data.len() {
                16 => (
                    i64::from_ne_bytes(at(data, 0)?),
                    i64::from_ne_bytes(at(data, 8)?),
                ),
                _ => (
                    i32::from_ne_bytes(at(data, 0)?).into(),
                    i32::from_ne_bytes(at(data, 4)?).into(),
                ),
            };
            let nanos = u32::try_from(nanos)
                .ok()
                .filter(|nanos| *nanos < 1_000_000_000)?;
            Some(Note::Received(Duration::new(
                u64::try_from(seconds).ok()?,
                nanos,
            )))
        }
        // `sock_extended_err`: the error and its origin. The system call itself reports local
        // errors.
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            matches!(
                *data.get(4)?,
                libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6
            )
            .then_some(Note::Refused {
                errno: i32::from_ne_bytes(at(data, 0)?),
            })
        }
        _ => None,
    }
}

fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// Appends to a buffer that must be large enough.
struct Writer<'a> {
    room: &'a mut [u8],
    length: &'a mut u8,
}

impl Writer<'_> {
    fn add(&mut self, bytes: &[u8]) {
        let start = usize::from(*self.length);
        self.room[start..start + bytes.len()].copy_from_slice(bytes);
        *self.length += bytes.len() as u8;
    }

    fn note(&mut self, level: c_int, kind: c_int, data: [&[u8]; 3]) {
        let length = HEADER + data.iter().map(|part| part.len()).sum::<usize>();
        self.add(&length.to_ne_bytes());
        self.add(&level.to_ne_bytes());
        self.add(&kind.to_ne_bytes());
        for part in &data {
            self.add(part);
        }
        self.add(&[0; ALIGN][..length.next_multiple_of(ALIGN) - length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn reads_what_was_written(to: SocketAddr, from: Option<IpAddr>) {
            let envelope = Envelope::<DATAGRAM_CONTROL>::new(to, from);
            prop_assert_eq!(envelope.address(), Some(to));
            let from = from.filter(|from| from.is_ipv4() || !from.is_multicast());
            prop_assert_eq!(envelope.notes().next(), from.map(Note::To));
        }

        #[test]
        fn reads_any_bytes(bytes: [u8; 16], start in 0..40_usize, name in 0..300_usize, control in 0..300_usize) {
            let mut envelope = Envelope::<REFUSAL_CONTROL>::new(SocketAddr::from(([1; 16], 1)), Some([1; 16].into()));
            envelope.name[..16].copy_from_slice(&bytes);
            envelope.control[start..start + 16].copy_from_slice(&bytes);
            envelope.filled(name, control);
            envelope.address();
            prop_assert!(envelope.notes().count() <= REFUSAL_CONTROL / HEADER);
        }
    }
}
