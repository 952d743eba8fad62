//! Fuzz tests with hostile input. Each target replays its corpus in `__fuzz__/<target>/corpus`,
//! then a number of random inputs. A failure prints the `BOLERO_RANDOM_SEED` that repeats it.
//! `BLESS=1 cargo test --test fuzz` writes the corpus: one packet of every row in every build.

#![allow(
    clippy::disallowed_methods,
    reason = "a test may look at its environment"
)]

use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::{Build, PacketDirection, TABLE, fuzzing};
use std::path::Path;

/// Returns the number of random inputs for each target. The default takes 1 to 2 s in all without
/// optimization.
fn iterations() -> usize {
    let event = std::env::var("BOLERO_RANDOM_ITERATIONS").ok();
    event
        .and_then(|number| number.parse().ok())
        .unwrap_or(4_000)
}

#[test]
fn stream() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::stream(bytes));
}

#[test]
fn column() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::column(bytes));
}

#[test]
fn nested() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::nested(bytes));
}

#[test]
fn connection() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::connection(bytes));
}

#[test]
fn server() {
    // Each iteration creates a whole server.
    bolero::check!()
        .with_iterations(iterations() / 40)
        .for_each(|bytes: &[u8]| fuzzing::server(bytes));
}

/// Sampled packets with some bytes changed: purely random bytes seldom get past the first field.
#[test]
fn damaged_packets() {
    for (number, &build) in Build::DIALECTS.iter().enumerate() {
        for (bit, direction) in PacketDirection::BOTH.into_iter().enumerate() {
            for row in TABLE.iter().filter(|row| row.is_in(direction, build)) {
                let mut dice = SampleRng::new(u64::from(row.id));
                for _ in 0..20 {
                    let mut bytes = vec![number as u8, bit as u8];
                    (row.sample)(&mut dice, build).write(&mut bytes, build);
                    for _ in 0..dice.below(4) {
                        let at = 2 + dice.below(bytes.len() - 2);
                        bytes[at] = dice.bits() as u8;
                    }
                    fuzzing::stream(&bytes);
                    fuzzing::connection(&bytes);
                }
            }
            // One server receives all of them until one ends it.
            for seed in 0..4 {
                let mut dice = SampleRng::new(seed);
                let mut bytes = vec![number as u8, 1];
                let rows: Vec<_> = TABLE
                    .iter()
                    .filter(|row| row.is_in(PacketDirection::ToServer, build))
                    .collect();
                for _ in 0..60 {
                    let row = rows[dice.below(rows.len())];
                    if !matches!(row.id, 0x02 | 0xFC | 0xFE | 0xFF) {
                        (row.sample)(&mut dice, build).write(&mut bytes, build);
                    }
                }
                fuzzing::server(&bytes);
            }
        }
    }
}

#[test]
fn the_corpus_has_every_build() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/__fuzz__/stream/corpus");
    for (number, &build) in Build::DIALECTS.iter().enumerate() {
        for (bit, direction) in PacketDirection::BOTH.into_iter().enumerate() {
            let mut bytes = vec![number as u8, bit as u8];
            let mut dice = SampleRng::new(11);
            TABLE
                .iter()
                .filter(|row| row.is_in(direction, build))
                .for_each(|row| (row.sample)(&mut dice, build).write(&mut bytes, build));
            let file = folder.join(format!("{build}-{bit}"));
            if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&file, &bytes).unwrap();
            }
            assert!(
                std::fs::read(&file).is_ok_and(|stored| stored == bytes),
                "{}: BLESS=1 writes it",
                file.display()
            );
        }
    }
}
