//! Builds capture files byte by byte.

/// Link layer of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    /// With an 802.1Q tag.
    Vlan,
    /// Linux "any" device, versions 1 and 2.
    Cooked,
    Cooked2,
    /// BSD loopback.
    Null,
    /// Bare IP packets.
    Raw,
}

impl Link {
    pub(crate) const ALL: [Self; 6] = [
        Self::Ethernet,
        Self::Vlan,
        Self::Cooked,
        Self::Cooked2,
        Self::Null,
        Self::Raw,
    ];

    fn number(self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Ethernet | Self::Vlan => 1,
            Self::Raw => 101,
            Self::Cooked => 113,
            Self::Cooked2 => 276,
        }
    }

    fn wrap(self, ip: &[u8]) -> Vec<u8> {
        let v6 = ip[0] >> 4 == 6;
        let kind: [u8; 2] = if v6 { [0x86, 0xDD] } else { [0x08, 0x00] };
        let header = match self {
            Self::Ethernet => [&[2; 12][..], &kind].concat(),
            Self::Vlan => [&[2; 12][..], &[0x81, 0, 0, 42], &kind].concat(),
            // Packet type, ARPHRD_ETHER, address length and address.
            Self::Cooked => [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..], &kind].concat(),
            // Protocol, reserved, interface, ARPHRD_ETHER, packet type, address length and address.
            Self::Cooked2 => [
                &kind[..],
                &[0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0],
            ]
            .concat(),
            Self::Null => if v6 { [10, 0, 0, 0] } else { [2, 0, 0, 0] }.to_vec(),
            Self::Raw => Vec::new(),
        };
        [&header, ip].concat()
    }
}

/// A capture of packets to port 25565 of another machine, 1 s apart.
pub(crate) struct Capture {
    link: Link,
    packets: Vec<Vec<u8>>,
}

impl Capture {
    pub(crate) fn new(link: Link) -> Self {
        Self {
            link,
            packets: Vec::new(),
        }
    }

    /// Adds a datagram in one IPv4 packet.
    pub(crate) fn udp(self, payload: &[u8]) -> Self {
        self.fragments(payload, 1 << 16)
    }

    /// Adds a datagram in IPv4 fragments with at most `size` bytes of payload each.
    pub(crate) fn fragments(mut self, payload: &[u8], size: usize) -> Self {
        let udp = udp(payload);
        let id = self.packets.len() as u16 + 1;
        let mut at = 0;
        for piece in udp.chunks(size) {
            let more = at + piece.len() < udp.len();
            self.packets.push(ipv4(id, at, more, 17, piece));
            at += piece.len();
        }
        self
    }

    /// Adds a datagram in an IPv6 packet.
    pub(crate) fn udp6(mut self, payload: &[u8]) -> Self {
        let udp = udp(payload);
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend((udp.len() as u16).to_be_bytes());
        ip.extend([17, 64]);
        let host = |last: u8| {
            [
                0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last,
            ]
        };
        ip.extend(host(7));
        ip.extend(host(9));
        self.packets.push([ip, udp].concat());
        self
    }

    /// Adds a TCP packet.
    pub(crate) fn tcp(mut self) -> Self {
        let mut segment = vec![0; 20];
        segment[12] = 0x50;
        self.packets.push(ipv4(99, 0, false, 6, &segment));
        self
    }

    /// Reverses the order of the packets.
    pub(crate) fn reversed(mut self) -> Self {
        self.packets.reverse();
        self
    }

    /// Returns a classic capture file.
    pub(crate) fn pcap(&self, little: bool, nanoseconds: bool) -> Vec<u8> {
        let u32 = |number: u32| {
            if little {
                number.to_le_bytes()
            } else {
                number.to_be_bytes()
            }
        };
        let u16 = |number: u16| {
            if little {
                number.to_le_bytes()
            } else {
                number.to_be_bytes()
            }
        };
        let mut file = u32(if nanoseconds {
            0xA1B2_3C4D
        } else {
            0xA1B2_C3D4
        })
        .to_vec();
        file.extend([u16(2), u16(4)].concat());
        file.extend([u32(0), u32(0), u32(65_535), u32(self.link.number())].concat());
        for (second, packet) in self.packets.iter().enumerate() {
            let packet = self.link.wrap(packet);
            let length = packet.len() as u32;
            let fraction = if nanoseconds { 250_000_000 } else { 250_000 };
            file.extend(
                [
                    u32(1_700_000_000 + second as u32),
                    u32(fraction),
                    u32(length),
                    u32(length),
                ]
                .concat(),
            );
            file.extend(packet);
        }
        file
    }

    /// Returns a pcapng file, little-endian, with blocks and options that readers must skip.
    pub(crate) fn pcapng(&self) -> Vec<u8> {
        fn block(kind: u32, body: &[u8]) -> Vec<u8> {
            let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
            let length = ((body.len() + padding.len() + 12) as u32).to_le_bytes();
            [&kind.to_le_bytes()[..], &length, body, &padding, &length].concat()
        }
        let mut file = block(
            0x0A0D_0D0A,
            &[&[0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0][..], &[0xFF; 8]].concat(),
        );
        let link = (self.link.number() as u16).to_le_bytes();
        // Option if_tsresol: nanoseconds.
        let options = [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        file.extend(block(
            1,
            &[&link[..], &[0, 0], &65_535_u32.to_le_bytes(), &options].concat(),
        ));
        // An interface statistics block.
        file.extend(block(5, &[0; 12]));
        for (second, packet) in self.packets.iter().enumerate() {
            let packet = self.link.wrap(packet);
            let time = (1_700_000_000 + second as u64) * 1_000_000_000 + 250_000_000;
            let length = (packet.len() as u32).to_le_bytes();
            let [high, low] = [(time >> 32) as u32, time as u32].map(u32::to_le_bytes);
            file.extend(block(
                6,
                &[
                    &0_u32.to_le_bytes()[..],
                    &high,
                    &low,
                    &length,
                    &length,
                    &packet,
                ]
                .concat(),
            ));
        }
        file
    }
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut udp = [50_001_u16, 25_565, (payload.len() + 8) as u16, 0]
        .map(u16::to_be_bytes)
        .concat();
    udp.extend(payload);
    udp
}

fn ipv4(id: u16, at: usize, more: bool, protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend(((content.len() + 20) as u16).to_be_bytes());
    ip.extend(id.to_be_bytes());
    ip.extend(((at / 8) as u16 | u16::from(more) << 13).to_be_bytes());
    ip.extend([64, protocol, 0, 0, 192, 0, 2, 7, 192, 0, 2, 9]);
    let sum: u32 = ip
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(content);
    ip
}
