//! Fuzz targets. Each accepts any bytes and asserts invariants; `tests/fuzz.rs` runs them.

use crate::build::Build;
use crate::chunk::{Column, Inflater, MAX_COLUMN, SectionMasks, bulk, bulk_limit, is_unload, size};
use crate::client::{self, Client};
use crate::connection::{Connection, Role};
use crate::crypto;
use crate::nbt;
use crate::packet::PacketDirection;
use crate::server::{self, Encryption, Server, WorldKind};
use crate::stream::{MAX_PACKET, ReadOutcome, read};
use crate::table::Packet;
use crate::types::NbtData;
use hailer_proto::wire::Notes;
use std::net::IpAddr;
use std::time::Duration;

/// Returns the build and the direction selected by the first two bytes.
fn chosen(bytes: &[u8]) -> Option<(Build, PacketDirection, &[u8])> {
    let (&[build, direction], rest) = bytes.split_first_chunk()?;
    let build = *Build::DIALECTS.get(usize::from(build) % Build::DIALECTS.len())?;
    Some((
        build,
        if direction % 2 == 0 {
            PacketDirection::ToClient
        } else {
            PacketDirection::ToServer
        },
        rest,
    ))
}

/// Reads consecutive packets. Each is written, read and written again: both outputs must be equal,
/// and the noted fields must lie within the input. Also checks that incomplete packets request more
/// bytes within the limit.
pub fn stream(bytes: &[u8]) {
    let Some((build, direction, mut rest)) = chosen(bytes) else {
        return;
    };
    loop {
        let mut notes = Notes::explaining();
        let outcome = read(rest, direction, build, MAX_PACKET, &mut notes);
        assert!(
            notes
                .fields()
                .iter()
                .all(|field| field.range.start <= field.range.end && field.range.end <= rest.len())
        );
        match outcome {
            ReadOutcome::Packet(packet, length) => {
                let mut written = Vec::new();
                let mut again = Vec::new();
                packet.write(&mut written, build);
                let ReadOutcome::Packet(second, _) = read(
                    &written,
                    direction,
                    build,
                    MAX_PACKET,
                    &mut Notes::discarding(),
                ) else {
                    return assert!(
                        written.len() > length,
                        "only what grows may stop being a packet"
                    );
                };
                second.write(&mut again, build);
                assert_eq!(written, again);
                let _ = packet.at(build).to_string();
                contents(&packet);
                rest = rest.get(length..).unwrap_or_default();
            }
            ReadOutcome::Need(need) => return assert!(need > 0 && rest.len() + need <= MAX_PACKET),
            ReadOutcome::Invalid(broken) => return assert!(broken.error.at <= rest.len()),
        }
    }
}

/// Decompresses and parses the columns in a packet.
fn contents(packet: &Packet) {
    let mut inflater = Inflater::default();
    match packet {
        Packet::ChunkData(chunk) if !is_unload(chunk.masks, chunk.ground_up) => {
            if let Ok((inflated, _)) =
                inflater.inflate(&chunk.data.bytes, size(chunk.masks, chunk.ground_up))
            {
                let _ = Column::default().apply(chunk.masks, chunk.ground_up, inflated);
            }
        }
        Packet::MapChunkBulk(packet) => {
            let limit = bulk_limit(packet.columns.columns()).min(1 << 20);
            if let Ok((inflated, _)) = inflater.inflate(packet.columns.zlib(), limit) {
                let _ = bulk(packet.columns.columns(), inflated);
            }
        }
        _ => {}
    }
}

/// Parses an uncompressed column. Encoding and parsing it again must give the same column.
pub fn column(bytes: &[u8]) {
    let Some((&[a, b, c, d, ground_up], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let primary = u16::from_be_bytes([a, b]);
    let ground_up = ground_up % 2 == 0;
    let masks = SectionMasks {
        primary,
        add: u16::from_be_bytes([c, d]) & primary,
    };
    // Repeat the input up to the required length.
    let wanted = size(masks, ground_up);
    let inflated: Vec<u8> = rest.iter().copied().cycle().take(wanted).collect();
    let mut column = Column::default();
    let read = column.apply(masks, ground_up, &inflated);
    assert_eq!(
        read.is_ok(),
        inflated.len() == wanted && wanted <= MAX_COLUMN
    );
    if read.is_ok() && ground_up {
        let mut written = Vec::new();
        let masks = column.encode(u16::MAX, true, &mut written);
        let mut again = Column::default();
        assert!(again.apply(masks, true, &written).is_ok() && again == column);
    }
}

/// Parses NBT, compressed or not, and RSA keys in DER.
pub fn nested(bytes: &[u8]) {
    if let Ok(tag) = nbt::decode(bytes) {
        let _ = tag.to_string();
        if let Ok(encoded) = nbt::encode(&tag) {
            assert!(nbt::decode(&encoded).is_ok());
        }
    }
    let _ = NbtData::new(bytes).to_string();
    let _ = crypto::encrypt(bytes, b"secret", &mut |bytes| bytes.fill(7));
}

/// Feeds a connection in either role, in pieces of 7 bytes.
pub fn connection(bytes: &[u8]) {
    let Some((build, direction, rest)) = chosen(bytes) else {
        return;
    };
    let role = if direction == PacketDirection::ToClient {
        Role::Client
    } else {
        Role::Server
    };
    let mut connection = Connection::new(role, build).with_max_packet(4096);
    for piece in rest.chunks(7) {
        connection.receive(piece);
        while let Ok(Some(_)) = connection.next() {}
        assert!(connection.unread().len() <= rest.len());
        let _ = connection.secure(&[1; 16]);
    }
}

/// Sends arbitrary bytes from a player who has joined our server, while a second player is
/// connected. The second player must not be disconnected.
pub fn server(bytes: &[u8]) {
    let Some((build, _, rest)) = chosen(bytes) else {
        return;
    };
    let config = server::GameServerConfig {
        build,
        encryption: Encryption::Off,
        world: WorldKind::Flat,
        view_distance: 3,
        ..Default::default()
    };
    let unsent = config.limits.unsent;
    let Ok(mut server) = Server::new(config, |bytes| bytes.fill(7)) else {
        return;
    };
    let join = |server: &mut Server, name: &str, last: u8| {
        let ip = IpAddr::from([192, 0, 2, last]);
        let id = server.connect(Duration::ZERO, ip).ok()?;
        let config = client::GameClientConfig {
            build,
            name: name.into(),
            ..Default::default()
        };
        let mut client = Client::new(config, |bytes| bytes.fill(9));
        for _ in 0..4 {
            server.receive(id, Duration::ZERO, client.outgoing());
            client.sent(client.outgoing().len());
            client.receive(server.outgoing(id));
            server.sent(id, server.outgoing(id).len());
            while let Ok(Some(_)) = client.next() {}
        }
        Some(id)
    };
    let good = join(&mut server, "Good", 1);
    let bad = join(&mut server, "Bad", 2);
    let (Some(good), Some(bad)) = (good, bad) else {
        return;
    };
    assert_eq!(server.players().count(), 2);
    let mut now = Duration::ZERO;
    for piece in rest.chunks(40) {
        server.receive(bad, now, piece);
        now += server::TICK;
        server.tick(now);
        assert!(server.outgoing(bad).len() <= unsent + (1 << 20));
    }
    assert!(!server.is_over(good));
}
