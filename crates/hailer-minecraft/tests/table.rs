//! The table is consistent and matches the counts of the spec page.

use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::stream::{MAX_PACKET, ReadOutcome, read};
use hailer_minecraft::table::SetWindowItems;
use hailer_minecraft::types::{List16, Slot};
use hailer_minecraft::{Build, Packet, PacketDirection, PacketStream, TABLE};
use hailer_proto::wire::Notes;
use hailer_testkit::session::ids;

fn read_one(bytes: &[u8], direction: PacketDirection, build: Build) -> ReadOutcome {
    read(
        bytes,
        direction,
        build,
        MAX_PACKET,
        &mut Notes::discarding(),
    )
}

/// Calls `each` for every row, in every wire version and direction that has it.
fn every_row(
    mut each: impl FnMut(&'static hailer_minecraft::table::PacketInfo, PacketDirection, Build),
) {
    for &build in Build::DIALECTS {
        for direction in PacketDirection::BOTH {
            TABLE
                .iter()
                .filter(|row| row.is_in(direction, build))
                .for_each(|row| each(row, direction, build));
        }
    }
}

// spec/minecraft-12w.md#1
#[test]
fn each_build_has_the_documented_number_of_packets() {
    let counts = |build: Build| {
        let to_client = ids(PacketDirection::ToClient, build);
        let to_server = ids(PacketDirection::ToServer, build);
        (
            to_client.union(&to_server).count(),
            to_client.len(),
            to_server.len(),
            (&to_client & &to_server).len(),
        )
    };
    for &build in Build::ALL {
        let expected = match build.protocol() {
            29 => (68, 60, 25),
            30 => (70, 61, 27),
            31..=34 => (72, 62, 28),
            35 => (73, 63, 28),
            36..=37 => (74, 63, 29),
            _ => (75, 64, 29),
        };
        let (all, to_client, to_server, both) = counts(build);
        assert_eq!((all, to_client, to_server), expected, "{build}");
        assert_eq!(both, to_client + to_server - all);
    }
    assert_eq!(counts(Build::V1_3_2).3, 18);
}

#[test]
fn ids_are_unique_in_each_build() {
    every_row(|row, direction, build| {
        let rows: Vec<_> = TABLE
            .iter()
            .filter(|other| other.id == row.id && other.is_in(direction, build))
            .collect();
        assert_eq!(rows.len(), 1, "0x{:02X} {direction} in {build}", row.id);
    });
    assert!(TABLE.is_sorted_by_key(|row| row.id));
}

#[test]
fn ids_without_a_row_end_the_stream() {
    for &build in Build::DIALECTS {
        for direction in PacketDirection::BOTH {
            for id in 0..=u8::MAX {
                let known = TABLE
                    .iter()
                    .any(|row| row.id == id && row.is_in(direction, build));
                let outcome = read_one(&[id], direction, build);
                if known {
                    assert!(
                        !matches!(outcome, ReadOutcome::Invalid(_)),
                        "0x{id:02X} {direction} in {build}"
                    )
                } else {
                    assert!(
                        matches!(outcome, ReadOutcome::Invalid(broken) if broken.packet.is_none())
                    )
                }
            }
        }
    }
}

/// A packet cut at any byte needs more data, and never more than it has. The whole packet
/// round-trips, byte for byte.
#[test]
fn every_row_round_trips_in_every_build_cut_at_every_byte() {
    let mut packets = 0;
    every_row(|row, direction, build| {
        for seed in 0..20 {
            let packet = (row.sample)(&mut SampleRng::new(seed << 8 | u64::from(row.id)), build);
            assert!(
                packet.is_in(direction, build)
                    && packet.id() == row.id
                    && packet.name() == row.name
            );
            let mut bytes = Vec::new();
            packet.write(&mut bytes, build);
            for cut in 0..bytes.len() {
                match read_one(&bytes[..cut], direction, build) {
                    ReadOutcome::Need(need) => assert!(
                        need >= 1 && cut + need <= bytes.len(),
                        "{packet:?} cut at {cut}"
                    ),
                    other => panic!("{packet:?} of {build} cut at {cut}: {other:?}"),
                }
            }
            let ReadOutcome::Packet(again, length) = read_one(&bytes, direction, build) else {
                panic!("{packet:?} of {build}")
            };
            assert_eq!(length, bytes.len(), "{packet:?} of {build}");
            let mut bytes_again = Vec::new();
            again.write(&mut bytes_again, build);
            // Compares bytes and not packets, since NaN differs from itself.
            assert_eq!(bytes_again, bytes, "{packet:?} of {build}");
            packets += 1;
        }
    });
    assert!(packets > 20_000, "{packets}");
}

/// A packet written for a build has exactly the fields of that build; absent fields are not
/// written.
#[test]
fn streams_read_at_any_split() {
    for &build in Build::DIALECTS {
        for direction in PacketDirection::BOTH {
            let mut dice = SampleRng::new(u64::from(build.protocol() as u8));
            let rows: Vec<_> = TABLE
                .iter()
                .filter(|row| row.is_in(direction, build))
                .collect();
            let packets: Vec<Packet> = (0..400)
                .map(|i| (rows[i % rows.len()].sample)(&mut dice, build))
                .collect();
            let mut bytes = Vec::new();
            packets
                .iter()
                .for_each(|packet| packet.write(&mut bytes, build));
            let mut stream = PacketStream::new(direction, build);
            let mut rest = &bytes[..];
            let mut read = 0;
            let mut raw = Vec::new();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(dice.below(rest.len().min(90)) + 1);
                stream.push(now);
                rest = later;
                while let Some((packet, bytes)) = stream.next().unwrap() {
                    assert_eq!(packet.name(), packets[read].name());
                    raw.extend_from_slice(bytes);
                    read += 1;
                }
            }
            assert_eq!(
                (read, raw, stream.at()),
                (packets.len(), bytes.clone(), bytes.len() as u64)
            );
        }
    }
}

#[test]
fn random_bytes_never_panic_and_errors_have_an_offset() {
    for &build in Build::DIALECTS {
        let mut dice = SampleRng::new(7);
        for direction in PacketDirection::BOTH {
            for _ in 0..4_000 {
                let mut bytes = dice.bytes(60);
                bytes[0] = TABLE[dice.below(TABLE.len())].id;
                if let ReadOutcome::Invalid(broken) = read_one(&bytes, direction, build) {
                    assert!(broken.error.at <= bytes.len() && !broken.error.field.is_empty());
                }
            }
        }
    }
}

#[test]
fn announced_sizes_above_the_limit_are_refused() {
    let mut stream =
        PacketStream::new(PacketDirection::ToClient, Build::LATEST).with_max_packet(1000);
    stream.push(&[
        0x33, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 1, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF,
    ]);
    let broken = stream.next().unwrap_err();
    assert_eq!(
        broken.to_string(),
        "packet 0x33 ChunkData at offset 0 of the stream: data at offset 18: more than 1000, the most accepted"
    );
    assert_eq!(
        stream.next().unwrap_err(),
        broken,
        "an error must be permanent"
    );
}

#[test]
fn invalid_counts_are_reported() {
    let error = |direction, hex: &str| {
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
            .collect();
        let ReadOutcome::Invalid(broken) = read_one(&bytes, direction, Build::LATEST) else {
            panic!("{hex}")
        };
        broken
            .to_string()
            .split(": ")
            .skip(1)
            .collect::<Vec<_>>()
            .join(": ")
    };
    assert_eq!(
        error(PacketDirection::ToServer, "03ffff"),
        "text at offset 1: expected a count of UTF-16 units, not below 0"
    );
    assert_eq!(
        error(PacketDirection::ToServer, "030078"),
        "text at offset 1: more than 119, the most accepted"
    );
    assert_eq!(
        error(PacketDirection::ToClient, "1dff"),
        "entities at offset 1: expected a count, not below 0"
    );
    assert_eq!(
        error(PacketDirection::ToClient, "fc00008000"),
        "token at offset 3: expected a count of bytes, not below 0"
    );
    assert_eq!(
        error(PacketDirection::ToClient, "2800000001e0"),
        "metadata at offset 5: expected a type of value from 0 to 6"
    );
    assert_eq!(
        error(
            PacketDirection::ToClient,
            "34000000000000000000020000000400000000"
        ),
        "size at offset 11: expected four bytes for each record, or 0"
    );
    assert_eq!(
        error(PacketDirection::ToClient, "38ffff"),
        "count at offset 1: expected a count of columns, not below 0"
    );
}

/// Otherwise, a server that sends such a list byte by byte would cause it to be parsed from the
/// start for each byte.
#[test]
fn incomplete_list_needs_the_remaining_values() {
    let mut bytes = Vec::new();
    let items = List16::new(vec![Slot::of(1, 1, 0); 100]);
    Packet::from(SetWindowItems { window: 0, items }).write(&mut bytes, Build::LATEST);
    // The header, 28 slots of 7 bytes, and 4 bytes of the next slot. The remaining 71 slots have at
    // least 2 bytes each.
    let cut = read_one(&bytes[..204], PacketDirection::ToClient, Build::LATEST);
    let ReadOutcome::Need(need) = cut else {
        panic!("{cut:?}")
    };
    assert!((143..=bytes.len() - 204).contains(&need), "{need}");
}
