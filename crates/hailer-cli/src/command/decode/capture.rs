//! UDP datagrams out of pcap and pcapng captures, IP fragments put together.

use super::Found;
use crate::exit::usage;
use crate::print::{count, tell};
use etherparse::defrag::IpDefragPool;
use etherparse::{EtherType, IpNumber, NetSlice, SlicedPacket, TransportSlice, UdpSlice};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

/// Longer blocks are no packets of a network.
const BUFFER: usize = 1 << 20;
/// Length of the header of a pcap file, bytes; a pcapng file's first block is no shorter.
const PCAP_HEADER: u64 = 24;
/// Fragments kept while their datagrams are incomplete; past that all are forgotten.
const MAX_FRAGMENTS: usize = 4_096;

/// Whether a file begins like a capture.
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

/// The start of a stream: enough to tell what it is, and for the capture reader, which wants the first block at once. No
/// more than that, since a live capture gives the rest when it comes.
pub(super) fn start(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    stream.take(PCAP_HEADER).read_to_end(&mut start)?;
    if let [0x0A, 0x0D, 0x0D, 0x0A, length @ .., _, _, _, _] = start.as_slice().get(..12).unwrap_or_default() {
        let length = [length[0], length[1], length[2], length[3]];
        let is_big = start[8..12] == [0x1A, 0x2B, 0x3C, 0x4D];
        let length = if is_big { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
        stream.take(u64::from(length).min(BUFFER as u64).saturating_sub(PCAP_HEADER)).read_to_end(&mut start)?;
    }
    Ok(start)
}

/// Shows every datagram of a capture.
pub(super) fn datagrams(
    name: &str,
    stream: impl Read + Send,
    mut show: impl FnMut(Found) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut reader = match create_reader(BUFFER, stream) {
        Ok(reader) => reader,
        Err(_) => usage!("{name}: not a whole capture file"),
    };
    let mut packets = Packets::default();
    let whole = loop {
        match reader.next() {
            Ok((length, block)) => {
                if let Some(found) = packets.block(&block) {
                    show(found)?;
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
    if packets.datagrams == 0 {
        tell!("\x1b[33mnote:\x1b[0m {name}: no UDP datagram in {}", count(packets.count, "packet"));
    }
    if !whole {
        tell!("\x1b[33mnote:\x1b[0m {name}: damaged or cut after packet {}", packets.count);
    }
    Ok(())
}

#[derive(Default)]
struct Packets {
    /// Link type and units per second of each interface.
    interfaces: Vec<(Linktype, u64)>,
    count: usize,
    datagrams: usize,
    /// Time of the first packet, nanoseconds.
    first: Option<u128>,
    pool: IpDefragPool<(), ()>,
    fragments: usize,
}

impl Packets {
    fn block(&mut self, block: &PcapBlockOwned<'_>) -> Option<Found> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
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
                self.interfaces.push((interface.linktype, interface.ts_resolution().unwrap_or(1_000_000)));
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let &(link, units) = self.interfaces.get(packet.if_id as usize)?;
                let time = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                self.packet(link, time * 1_000_000_000 / u128::from(units.max(1)), packet.packet_data())
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let &(link, _) = self.interfaces.first()?;
                self.packet(link, 0, packet.packet_data())
            }
            PcapBlockOwned::NG(_) => None,
        }
    }

    fn packet(&mut self, link: Linktype, time: u128, data: &[u8]) -> Option<Found> {
        self.count += 1;
        let first = *self.first.get_or_insert(time);
        let (from, to, bytes) = self.datagram(&slice(link, data)?)?;
        self.datagrams += 1;
        let seconds = time.saturating_sub(first) as f64 / 1e9;
        let place = format!("#{} {seconds:.6} s {from} > {to}", self.count);
        Some(Found { place, ends: Some((from, to)), bytes })
    }

    fn datagram(&mut self, packet: &SlicedPacket<'_>) -> Option<(SocketAddr, SocketAddr, Vec<u8>)> {
        let (source, destination): (IpAddr, IpAddr) = match packet.net.as_ref()? {
            NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            _ => return None,
        };
        let address = |udp: &UdpSlice<'_>| {
            let ends = ((source, udp.source_port()).into(), (destination, udp.destination_port()).into());
            (ends.0, ends.1, udp.payload().to_vec())
        };
        if !packet.is_ip_payload_fragmented() {
            return match &packet.transport {
                Some(TransportSlice::Udp(udp)) => Some(address(udp)),
                _ => None,
            };
        }
        self.fragments += 1;
        if self.fragments > MAX_FRAGMENTS {
            (self.pool, self.fragments) = (IpDefragPool::new(), 0);
        }
        let whole = self.pool.process_sliced_packet(packet, (), ()).ok()??;
        let found = match whole.ip_number {
            IpNumber::UDP => UdpSlice::from_slice(&whole.payload).ok().map(|udp| address(&udp)),
            _ => None,
        };
        self.pool.return_buf(whole);
        found
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
        // BSD loopback: four bytes of address family before the packet.
        Linktype::NULL | Linktype::LOOP => SlicedPacket::from_ip(data.get(4..)?).ok(),
        // 12 is what some systems write for 101.
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12) => SlicedPacket::from_ip(data).ok(),
        _ => None,
    }
}
