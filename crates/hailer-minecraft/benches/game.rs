//! Cost of the game protocol. Each figure is next to a baseline of the same run that no codec can beat.
//!
//! `cargo bench -p hailer-minecraft`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hailer_minecraft::chunk::{Block, Column, Inflater, MAX_COLUMN, deflate};
use hailer_minecraft::crypto::{Cipher, CipherKind};
use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::table::*;
use hailer_minecraft::types::{Absolute, Angle, Delta, Velocity};
use hailer_minecraft::{Build, Packet, PacketDirection, PacketStream};
use std::hint::black_box;

/// The most frequent packets of a busy server.
fn small_packets() -> Vec<Packet> {
    let [dx, dy, dz] = [Delta(1), Delta(-2), Delta(3)];
    let yaw = Angle(4);
    let pitch = Angle(5);
    vec![
        EntityRelativeMove {
            entity: 1,
            dx,
            dy,
            dz,
        }
        .into(),
        EntityLookRelativeMove {
            yaw,
            pitch,
            entity: 2,
            dx,
            dy,
            dz,
        }
        .into(),
        EntityLook {
            entity: 3,
            yaw,
            pitch,
        }
        .into(),
        EntityHeadLook {
            entity: 4,
            head_yaw: yaw,
        }
        .into(),
        EntityVelocity {
            entity: 5,
            vx: Velocity(1),
            vy: Velocity(2),
            vz: Velocity(3),
        }
        .into(),
        EntityTeleport {
            entity: 6,
            x: Absolute(7),
            y: Absolute(8),
            z: Absolute(9),
            yaw,
            pitch,
        }
        .into(),
        BlockChange {
            x: 1,
            y: 2,
            z: 3,
            ..Default::default()
        }
        .into(),
        KeepAlive { token: 9 }.into(),
        TimeUpdate { time: 10 }.into(),
        Entity { entity: 11 }.into(),
    ]
}

fn packets(c: &mut Criterion) {
    let build = Build::LATEST;
    let mut bytes = Vec::new();
    let mut count = 0;
    while bytes.len() < 4096 {
        small_packets()
            .iter()
            .for_each(|packet| packet.write(&mut bytes, build));
        count += small_packets().len() as u64;
    }
    let mut group = c.benchmark_group("small packets");
    group.throughput(Throughput::Elements(count));
    group.bench_function("read", |b| {
        let mut stream = PacketStream::new(PacketDirection::ToClient, build);
        b.iter(|| {
            stream.push(&bytes);
            while let Ok(Some((packet, _))) = stream.next() {
                black_box(packet);
            }
        });
    });
    group.bench_function("write", |b| {
        let packets = small_packets();
        let mut out = Vec::with_capacity(8192);
        b.iter(|| {
            out.clear();
            while out.len() < 4096 {
                packets
                    .iter()
                    .for_each(|packet| packet.write(&mut out, build));
            }
            black_box(&out);
        });
    });
    group.bench_function("baseline: copy of the bytes", |b| {
        let mut out = Vec::with_capacity(8192);
        b.iter(|| {
            out.clear();
            out.extend_from_slice(black_box(&bytes));
            black_box(&out);
        });
    });
    group.finish();
}

/// Hills with ores, dirt of changing depth, caves and light: as hard to compress as a real one, five sections in some 4 KB.
fn hilly() -> Column {
    let mut column = Column::default();
    let mut dice = SampleRng::new(5);
    for (x, z) in (0..16).flat_map(|x| (0..16).map(move |z| (x, z))) {
        let height = 64 + (x / 3 + z / 4) + dice.below(2) as u8;
        let dirt = 3 + dice.below(2) as u8;
        for y in 0..=height {
            let cave =
                (i32::from(x) - 8).pow(2) + (i32::from(z) - 6).pow(2) + (i32::from(y) - 30).pow(2)
                    < 40;
            let id = match (y, height - y, dice.below(6)) {
                (0, ..) => 7,
                _ if cave => 0,
                (_, 0, _) => 2,
                (_, depth, _) if depth <= dirt => 3,
                (_, _, 0) => [14, 15, 16, 16, 73, 13][dice.below(6)],
                _ => 1,
            };
            column.set_block(x, y, z, Block::new(id));
            column.set_sky_light(x, y, z, 0);
        }
        column.set_biome(x, z, if x > z { 1 } else { 4 });
    }
    column
}

fn chunks(c: &mut Criterion) {
    let column = hilly();
    let mut inflated = Vec::new();
    let mut zlib = Vec::new();
    let masks = column.encode(u16::MAX, true, &mut inflated);
    deflate(&inflated, &mut zlib);
    let mut group = c.benchmark_group("column");
    group.throughput(Throughput::Bytes(inflated.len() as u64));
    group.bench_function("baseline: bare inflate", |b| {
        let mut state = flate2::Decompress::new(true);
        let mut out = vec![0; MAX_COLUMN];
        b.iter(|| {
            state.reset(true);
            state.decompress(black_box(&zlib), &mut out, flate2::FlushDecompress::Finish)
        });
    });
    group.bench_function("inflate and read", |b| {
        let mut inflater = Inflater::default();
        b.iter(|| {
            let mut column = Column::default();
            let (inflated, _) = inflater
                .inflate(black_box(&zlib), MAX_COLUMN)
                .expect("it was deflated above");
            column
                .apply(masks, true, inflated)
                .expect("it was encoded above");
            column
        });
    });
    group.bench_function("write and deflate", |b| {
        let mut inflated = Vec::new();
        let mut zlib = Vec::new();
        b.iter(|| {
            inflated.clear();
            zlib.clear();
            column.encode(u16::MAX, true, &mut inflated);
            deflate(&inflated, &mut zlib);
        });
    });
    group.finish();
}

fn ciphers(c: &mut Criterion) {
    use aes::cipher::KeyIvInit;
    for length in [1_usize, 16, 1024, 65_536] {
        let mut group = c.benchmark_group(format!("AES-128/CFB8, {length} bytes a call"));
        group.throughput(Throughput::Bytes(length as u64));
        let key = [7; 16];
        let mut bytes = vec![1; length];
        let mut theirs = cfb8::Encryptor::<aes::Aes128>::new(&key.into(), &key.into());
        group.bench_function("baseline: the cfb8 crate encrypts", |b| {
            b.iter(|| theirs.encrypt(&mut bytes));
        });
        let mut ours = Cipher::encryptor(CipherKind::Aes128Cfb8, &key).expect("16 bytes");
        group.bench_function("encrypt", |b| b.iter(|| ours.apply(&mut bytes)));
        let mut theirs = cfb8::Decryptor::<aes::Aes128>::new(&key.into(), &key.into());
        group.bench_function("baseline: the cfb8 crate decrypts", |b| {
            b.iter(|| theirs.decrypt(&mut bytes));
        });
        let mut ours = Cipher::decryptor(CipherKind::Aes128Cfb8, &key).expect("16 bytes");
        group.bench_function("decrypt", |b| b.iter(|| ours.apply(&mut bytes)));
        group.finish();
    }
}

criterion_group!(benches, packets, chunks, ciphers);
criterion_main!(benches);
