//! The test vectors of spec/minecraft-12w.md#9, parsed and written.

use hailer_minecraft::stream::{MAX_PACKET, ReadOutcome, read};
use hailer_minecraft::table::*;
use hailer_minecraft::types::*;
use hailer_minecraft::{Build, Packet, PacketDirection};
use hailer_proto::wire::Notes;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

#[track_caller]
fn is(direction: PacketDirection, hex: &str, packet: impl Into<Packet>) {
    let bytes = bytes(hex);
    let packet = packet.into();
    let outcome = read(
        &bytes,
        direction,
        Build::LATEST,
        MAX_PACKET,
        &mut Notes::discarding(),
    );
    assert_eq!(outcome, ReadOutcome::Packet(packet.clone(), bytes.len()));
    let mut written = Vec::new();
    packet.write(&mut written, Build::LATEST);
    assert_eq!(written, bytes);
}

#[test]
fn packets_of_the_page() {
    use PacketDirection::{ToClient, ToServer};
    is(
        ToServer,
        "02 27 0006 0054006B0054006500630068 0009 006C006F00630061006C0068006F00730074 000063DD",
        Handshake {
            protocol: 39,
            name: "TkTech".into(),
            host: "localhost".into(),
            port: 25565,
            ..Default::default()
        },
    );
    is(ToClient, "FC 0000 0000", EncryptionResponse::default());
    is(
        ToClient,
        "01 00000512 0007 00640065006600610075006C0074 01 FF 01 00 08",
        Login {
            entity: 1298,
            level_type: "default".into(),
            mode: Shrunk(1),
            dimension: Shrunk(-1),
            difficulty: 1,
            max_players: 8,
            ..Default::default()
        },
    );
    is(
        ToServer,
        "CC 0005 0065006E005F00470042 00 08 01",
        ClientSettings {
            locale: "en_GB".into(),
            view_distance: Shrunk(0),
            chat: 8,
            difficulty: 1,
        },
    );
    is(
        ToServer,
        "0F FFFFFFFF FF FFFFFFFF FF FFFF 00 00 00",
        PlayerBlockPlacement {
            x: -1,
            y: 255,
            z: -1,
            direction: 255,
            ..Default::default()
        },
    );
    is(
        ToClient,
        "FF 0006 0041 00A7 0030 00A7 0032 0030",
        Kick {
            reason: "A\u{A7}0\u{A7}20".into(),
        },
    );
    is(
        ToClient,
        "17 00000016 3C 00000001 00000002 00000003 00000014 000A FFEC 001E",
        SpawnObject {
            entity: 22,
            kind: 60,
            x: Absolute(1),
            y: Absolute(2),
            z: Absolute(3),
            data: ObjectData {
                value: 20,
                velocity: [Velocity(10), Velocity(-20), Velocity(30)],
            },
        },
    );
    is(
        ToClient,
        "18 00000015 32 00000190 00000820 FFFFFED4 01 02 03 0064 FF38 012C 00 00 21 012C 48 00000000 10 FF 11 00 7F",
        SpawnMob {
            entity: 21,
            kind: 50,
            x: Absolute::from_unit(12.5),
            y: Absolute::from_unit(65.0),
            z: Absolute::from_unit(-9.375),
            yaw: Angle(1),
            pitch: Angle(2),
            head_yaw: Angle(3),
            vx: Velocity(100),
            vy: Velocity(-200),
            vz: Velocity(300),
            metadata: Metadata::default()
                .with(0, MetadataValue::Byte(0))
                .with(1, MetadataValue::Short(300))
                .with(8, MetadataValue::Int(0))
                .with(16, MetadataValue::Byte(-1))
                .with(17, MetadataValue::Byte(0)),
        },
    );
    is(
        ToClient,
        "1D 02 00000015 00000016",
        DestroyEntities {
            entities: List8::new(vec![21, 22]),
            ..Default::default()
        },
    );
    let data = bytes("789C63641CD9000081800101");
    is(
        ToClient,
        "33 00000005 FFFFFFFB 01 0000 0000 0000000C 789C63641CD9000081800101",
        ChunkData {
            x: 5,
            z: -5,
            ground_up: true,
            data: Zlib {
                unused: 0,
                bytes: data,
            },
            ..Default::default()
        },
    );
}

/// Encoded like one known server does.
#[test]
fn the_pickaxe_and_its_enchantment() {
    let gzip = "1F8B0800000000000203E36260E0646049CD4BCEE062606060646260CA4C6150606260CE29CB616061600000EB37EC0D20000000";
    let pickaxe = Slot {
        tag: NbtData::new(&bytes(gzip)),
        ..Slot::of(0x116, 1, 0)
    };
    is(
        PacketDirection::ToClient,
        &format!("67 00 0024 0116 01 0000 0034 {gzip}"),
        SetSlot {
            window: 0,
            slot: 36,
            item: pickaxe.clone(),
        },
    );
    let shown = pickaxe.to_string();
    assert!(
        shown.contains("ench") && shown.contains("id") && shown.contains("lvl"),
        "{shown}"
    );
}

#[test]
fn fields_are_explained_by_the_parser_that_runs() {
    let mut notes = Notes::explaining();
    let bytes = bytes(
        "02 27 0006 0054006B0054006500630068 0009 006C006F00630061006C0068006F00730074 000063DD",
    );
    read(
        &bytes,
        PacketDirection::ToServer,
        Build::LATEST,
        MAX_PACKET,
        &mut notes,
    );
    let fields: Vec<_> = notes
        .fields()
        .iter()
        .map(|field| (field.name.as_str(), field.value.as_str()))
        .collect();
    assert_eq!(
        fields,
        [
            ("protocol", "39"),
            ("name", "\"TkTech\""),
            ("host", "\"localhost\""),
            ("port", "25565")
        ]
    );
    assert_eq!(notes.fields()[3].range, 36..40);
}

#[test]
fn packets_show_only_the_fields_of_their_build() {
    let packet = Packet::from(ClientSettings {
        locale: "de".into(),
        ..Default::default()
    });
    assert_eq!(
        packet.at(Build::W16a).to_string(),
        "ClientSettings locale=de view_distance=0"
    );
    assert_eq!(
        packet.at(Build::LATEST).to_string(),
        "ClientSettings locale=de view_distance=0 chat=0 difficulty=0"
    );
}
