//! Extracts UDP datagrams and TCP segments from pcap and pcapng captures. Reassembles IP fragments.
//!
//! Limit: at most 4,096 fragments of incomplete datagrams are stored.

use super::input::InputDatagram;
use crate::exit::usage;
use crate::print::stderr;
use etherparse::defrag::IpDefragPool;
use etherparse::{EtherType, IpNumber, NetSlice, SlicedPacket, TcpSlice, TransportSlice, UdpSlice};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Maximum size of a block in bytes. Longer blocks contain no network packets.
const MAX_BLOCK_BYTES: usize = 1 << 20;
/// Length of a pcap file header in bytes. The first block of pcapng is at least as long.
const PCAP_HEADER: u64 = 24;
/// Maximum number of fragments of incomplete datagrams. When it is exceeded, all are dropped.
const MAX_FRAGMENTS: usize = 4_096;

/// Returns whether these bytes begin a capture.
pub(super) fn is_capture(start: &[u8]) -> bool {
    let magics: [[u8; 4]; 5] = [
        [0x0A, 0x0D, 0x0D, 0x0A], // pcapng
        [0xD4, 0xC3, 0xB2, 0xA1], // pcap, microseconds, then nanoseconds, either byte order
        [0xA1, 0xB2, 0xC3, 0xD4],
        [0x4D, 0x3C, 0xB2, 0xA1],
        [0xA1, 0xB2, 0x3C, 0x4D],
    ];
    magics.iter().any(|magic| start.starts_with(magic))
}

/// Reads enough of a stream to detect its format and to start the capture reader. Reads no more,
/// since a live capture may deliver the rest much later.
///
/// # Errors
/// The stream cannot be read.
pub(super) fn start(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    stream.take(PCAP_HEADER).read_to_end(&mut start)?;
    if let [0x0A, 0x0D, 0x0D, 0x0A, length @ .., _, _, _, _] =
        start.as_slice().get(..12).unwrap_or_default()
    {
        let length = [length[0], length[1], length[2], length[3]];
        let is_big = start[8..12] == [0x1A, 0x2B, 0x3C, 0x4D];
        let length = if is_big {
            u32::from_be_bytes(length)
        } else {
            u32::from_le_bytes(length)
        };
        stream
            .take(
                u64::from(length)
                    .min(MAX_BLOCK_BYTES as u64)
                    .saturating_sub(PCAP_HEADER),
            )
            .read_to_end(&mut start)?;
    }
    Ok(start)
}

/// A TCP segment.
#[cfg_attr(not(feature = "game"), allow(dead_code))]
pub(super) struct Segment {
    /// Description of the place in the capture, for users.
    pub(super) place: String,
    /// Seconds since the first packet of the capture.
    pub(super) seconds: f64,
    /// Time since 1970.
    pub(super) time: Duration,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) seq: u32,
    pub(super) syn: bool,
    pub(super) ack: bool,
    pub(super) payload: Vec<u8>,
}

/// Payload of a packet.
pub(super) enum PacketPayload {
    Datagram(InputDatagram),
    Segment(Segment),
}

/// Passes on every datagram and segment of a capture. Returns the number of packets.
pub(super) fn packets(
    name: &str,
    stream: impl Read + Send,
    mut show: impl FnMut(PacketPayload) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let mut reader = match create_reader(MAX_BLOCK_BYTES, stream) {
        Ok(reader) => reader,
        Err(_) => usage!("{name}: not a whole capture file"),
    };
    let mut packets = Packets::default();
    let whole = loop {
        match reader.next() {
            Ok((length, block)) => {
                if let Some(carried) = packets.block(&block) {
                    show(carried)?;
                }
                reader.consume(length);
            }
            Err(PcapError::Eof) => break true,
            Err(PcapError::Incomplete(_)) => {
                if reader.reader_exhausted() || reader.refill().is_err() {
                    break false;
                }
            }
            Err(_) => break false,
        }
    };
    if !whole {
        stderr!(
            "\x1b[33mnote:\x1b[0m {name}: damaged or cut after packet {}",
            packets.count
        );
    }
    Ok(packets.count)
}

#[derive(Default)]
struct Packets {
    /// Link type and time units per second of each interface.
    interfaces: Vec<(Linktype, u64)>,
    count: usize,
    /// Time of the first packet, in nanoseconds.
    first: Option<u128>,
    pool: IpDefragPool<(), ()>,
    fragments: usize,
}

impl Packets {
    fn block(&mut self, block: &PcapBlockOwned<'_>) -> Option<PacketPayload> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units = if header.is_nanosecond_precision() {
                    1_000_000_000
                } else {
                    1_000_000
                };
                self.interfaces = vec![(header.network, units)];
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let &(link, units) = self.interfaces.first()?;
                let time = u128::from(packet.ts_sec) * 1_000_000_000
                    + u128::from(packet.ts_usec) * (1_000_000_000 / u128::from(units));
                self.packet(link, time, packet.data)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.interfaces.push((
                    interface.linktype,
                    interface.ts_resolution().unwrap_or(1_000_000),
                ));
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let &(link, units) = self.interfaces.get(packet.if_id as usize)?;
                let time = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                self.packet(
                    link,
                    time * 1_000_000_000 / u128::from(units.max(1)),
                    packet.packet_data(),
                )
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let &(link, _) = self.interfaces.first()?;
                self.packet(link, 0, packet.packet_data())
            }
            PcapBlockOwned::NG(_) => None,
        }
    }

    fn packet(&mut self, link: Linktype, time: u128, data: &[u8]) -> Option<PacketPayload> {
        self.count += 1;
        let first = *self.first.get_or_insert(time);
        let (source, destination, transport) = self.transport(&slice(link, data)?)?;
        let from = (source, transport.ports().0).into();
        let to = (destination, transport.ports().1).into();
        let seconds = time.saturating_sub(first) as f64 / 1e9;
        let place = format!("#{} {seconds:.6} s {from} > {to}", self.count);
        Some(match transport {
            Transport::Udp { payload, .. } => PacketPayload::Datagram(InputDatagram {
                place,
                ends: Some((from, to)),
                bytes: payload,
            }),
            Transport::Tcp {
                seq,
                syn,
                ack,
                payload,
                ..
            } => {
                let time = Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX));
                PacketPayload::Segment(Segment {
                    place,
                    seconds,
                    time,
                    from,
                    to,
                    seq,
                    syn,
                    ack,
                    payload,
                })
            }
        })
    }

    fn transport(&mut self, packet: &SlicedPacket<'_>) -> Option<(IpAddr, IpAddr, Transport)> {
        let (source, destination): (IpAddr, IpAddr) = match packet.net.as_ref()? {
            NetSlice::Ipv4(ip) => (
                ip.header().source_addr().into(),
                ip.header().destination_addr().into(),
            ),
            NetSlice::Ipv6(ip) => (
                ip.header().source_addr().into(),
                ip.header().destination_addr().into(),
            ),
            _ => return None,
        };
        if !packet.is_ip_payload_fragmented() {
            return match &packet.transport {
                Some(TransportSlice::Udp(udp)) => Some((source, destination, udp.into())),
                Some(TransportSlice::Tcp(tcp)) => Some((source, destination, tcp.into())),
                _ => None,
            };
        }
        self.fragments += 1;
        if self.fragments > MAX_FRAGMENTS {
            self.pool = IpDefragPool::new();
            self.fragments = 0;
        }
        let whole = self.pool.process_sliced_packet(packet, (), ()).ok()??;
        let transport = match whole.ip_number {
            IpNumber::UDP => UdpSlice::from_slice(&whole.payload)
                .ok()
                .as_ref()
                .map(Transport::from),
            IpNumber::TCP => TcpSlice::from_slice(&whole.payload)
                .ok()
                .as_ref()
                .map(Transport::from),
            _ => None,
        };
        self.pool.return_buf(whole);
        Some((source, destination, transport?))
    }
}

/// A datagram or segment without its addresses.
enum Transport {
    Udp {
        ports: (u16, u16),
        payload: Vec<u8>,
    },
    Tcp {
        ports: (u16, u16),
        seq: u32,
        syn: bool,
        ack: bool,
        payload: Vec<u8>,
    },
}

impl Transport {
    fn ports(&self) -> (u16, u16) {
        let (Self::Udp { ports, .. } | Self::Tcp { ports, .. }) = self;
        *ports
    }
}

impl From<&UdpSlice<'_>> for Transport {
    fn from(udp: &UdpSlice<'_>) -> Self {
        Self::Udp {
            ports: (udp.source_port(), udp.destination_port()),
            payload: udp.payload().to_vec(),
        }
    }
}

impl From<&TcpSlice<'_>> for Transport {
    fn from(tcp: &TcpSlice<'_>) -> Self {
        Self::Tcp {
            ports: (tcp.source_port(), tcp.destination_port()),
            seq: tcp.sequence_number(),
            syn: tcp.syn(),
            ack: tcp.ack(),
            payload: tcp.payload().to_vec(),
        }
    }
}

fn slice(link: Linktype, data: &[u8]) -> Option<SlicedPacket<'_>> {
    match link {
        Linktype::ETHERNET => SlicedPacket::from_ethernet(data).ok(),
        Linktype::LINUX_SLL => SlicedPacket::from_linux_sll(data).ok(),
        Linktype::LINUX_SLL2 => {
            let ether_type = u16::from_be_bytes(data.get(..2)?.try_into().ok()?);
            SlicedPacket::from_ether_type(EtherType(ether_type), data.get(20..)?).ok()
        }
        // BSD loopback: four bytes of address family precede the packet.
        Linktype::NULL | Linktype::LOOP => SlicedPacket::from_ip(data.get(4..)?).ok(),
        // Some systems write 12 instead of 101.
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12) => {
            SlicedPacket::from_ip(data).ok()
        }
        _ => None,
    }
}
