//! Blocks are read back, damaged ones are refused, and their size is measured.

use super::*;
use crate::sample::{Sample, rounded_latency};

use proptest::prelude::*;
use simulated::SimulatedServer;
use std::collections::BTreeMap;

#[path = "../../../tests/history/simulated.rs"]
mod simulated;

const HOUR: Span = Span {
    start: 1_795_284_000_000,
    length: 3_600_000,
    step: 1,
};
const DAY: Span = Span {
    start: 1_795_219_200_000,
    length: 86_400_000,
    step: 300_000,
};

type Rows<T> = BTreeMap<ServerId, Vec<T>>;

fn encode<T: BlockRow>(span: Span, rows: &Rows<T>) -> Vec<u8> {
    write(span, rows.iter().map(|(server, rows)| (*server, &rows[..])))
}

fn decode<T: BlockRow>(span: Span, bytes: &[u8]) -> Option<Rows<T>> {
    Some(read(span, bytes, |_| true)?.into_iter().collect())
}

/// Numbers that are often small or the largest.
fn number<T: TryFrom<i64> + std::fmt::Debug>(most: i64) -> impl Strategy<Value = T> {
    prop_oneof![3 => 0..most.min(3) + 1, 3 => 0..most.min(1_000) + 1, 1 => 0..=most, 1 => Just(most)]
        .prop_map(|value| T::try_from(value).ok().expect("within the type"))
}

fn sample() -> impl Strategy<Value = Sample> {
    let optional = || proptest::option::weighted(0.8, number::<u32>(u32::MAX.into()));
    let datagrams = || number::<u16>(u16::MAX.into());
    (
        any::<bool>(),
        optional(),
        optional(),
        optional(),
        datagrams(),
        datagrams(),
        number::<u32>(u32::MAX.into()),
    )
        .prop_map(
            |(is_answered, players, max, latency, sent, resent, observed_ms)| Sample {
                server: ServerId(0),
                at: 0,
                is_answered,
                players,
                max,
                latency,
                sent,
                resent,
                observed_ms,
            },
        )
}

fn rollup() -> impl Strategy<Value = Rollup> {
    let any = || prop_oneof![4 => number::<i64>(1_000), 1 => any::<i64>()];
    let optional = move || proptest::option::weighted(0.8, any());
    let counts = (any(), any(), any(), any(), any(), any());
    let values = (
        optional(),
        optional(),
        optional(),
        optional(),
        optional(),
        optional(),
        optional(),
    );
    (counts, values).prop_map(|(counts, values)| Rollup {
        at: 0,
        polls: counts.0,
        answered: counts.1,
        with_players: counts.2,
        with_latency: counts.3,
        sent: counts.4,
        resent: counts.5,
        players: values.0,
        players_max: values.1,
        max: values.2,
        latency: values.3,
        latency_max: values.4,
        observed_ms: values.5,
        up_ms: values.6,
    })
}

/// Rows of some servers at some times, in order.
fn rows<T: std::fmt::Debug + Clone>(
    span: Span,
    row: impl Strategy<Value = T>,
    set: fn(&mut T, ServerId, Millis),
) -> impl Strategy<Value = Rows<T>> {
    let steps = span.length / span.step;
    let time = prop_oneof![
        Just(0),
        Just(steps - 1),
        0..steps,
        (0..60_i64).prop_map(move |n| n * steps / 60)
    ];
    let server = prop_oneof![4 => -5..20_i64, 1 => any::<i64>()];
    let of_server = proptest::collection::btree_map(time, row, 1..40);
    proptest::collection::btree_map(server, of_server, 0..6).prop_map(move |servers| {
        let rows = servers.into_iter().map(|(server, rows)| {
            let server = ServerId(server);
            let place = |(step, mut row)| {
                set(&mut row, server, span.start + step * span.step);
                row
            };
            (server, rows.into_iter().map(place).collect())
        });
        rows.collect()
    })
}

fn samples() -> impl Strategy<Value = Rows<Sample>> {
    rows(HOUR, sample(), |sample, server, at| {
        sample.server = server;
        sample.at = at;
    })
}

fn rollups() -> impl Strategy<Value = Rows<Rollup>> {
    rows(DAY, rollup(), |rollup, _, at| rollup.at = at)
}

proptest! {
    #[test]
    fn samples_are_read_back(rows in samples()) {
        let bytes = encode(HOUR, &rows);
        prop_assert_eq!(decode(HOUR, &bytes), Some(rows.clone()));
        for server in rows.keys() {
            let one = read(HOUR, &bytes, |wanted| wanted == *server);
            prop_assert_eq!(one, Some(vec![(*server, rows[server].clone())]));
        }
    }

    #[test]
    fn rollups_are_read_back(rows in rollups()) {
        prop_assert_eq!(decode(DAY, &encode(DAY, &rows)), Some(rows));
    }

    #[test]
    fn truncated_blocks_are_refused(samples in samples(), rollups in rollups()) {
        let samples: Rows<Sample> = samples.into_iter().take(2).map(|(id, rows)| (id, rows[..rows.len().min(6)].to_vec())).collect();
        let rollups: Rows<Rollup> = rollups.into_iter().take(2).map(|(id, rows)| (id, rows[..rows.len().min(6)].to_vec())).collect();
        let bytes = encode(HOUR, &samples);
        for length in 0..bytes.len() {
            prop_assert_eq!(decode::<Sample>(HOUR, &bytes[..length]), None);
        }
        let bytes = encode(DAY, &rollups);
        for length in 0..bytes.len() {
            prop_assert_eq!(decode::<Rollup>(DAY, &bytes[..length]), None);
        }
    }

    /// Rows that are read from damaged blocks can be written again. So they have the order and the
    /// times that other code relies on.
    #[test]
    fn damaged_blocks_give_valid_rows_or_none(
        samples in samples(),
        rollups in rollups(),
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut some = encode(HOUR, &samples);
        let mut others = encode(DAY, &rollups);
        for (place, byte) in damage {
            for bytes in [&mut some, &mut others] {
                let place = place % bytes.len();
                bytes[place] ^= byte;
            }
        }
        let mut noise = noise;
        noise.splice(0..0, [VERSION, 1, 2, noise.len() as u8]);
        for bytes in [&some, &noise] {
            if let Some(rows) = decode::<Sample>(HOUR, bytes) {
                prop_assert_eq!(decode(HOUR, &encode(HOUR, &rows)), Some(rows));
            }
        }
        for bytes in [&others, &noise] {
            if let Some(rows) = decode::<Rollup>(DAY, bytes) {
                prop_assert_eq!(decode(DAY, &encode(DAY, &rows)), Some(rows));
            }
        }
    }
}

/// Samples of 16 simulated servers in some hours, and their roll-ups of five minutes.
#[test]
fn a_sample_takes_two_bytes_with_its_rollup() {
    const SERVERS: i64 = 160;
    const HOURS: i64 = 24;
    let mut of_samples = 0;
    let mut of_rollups = 0;
    let mut exact = 0;
    for group in 0..SERVERS / 16 {
        let ids = (group * 16..(group + 1) * 16).map(ServerId);
        let mut servers: Vec<_> = ids.map(|id| (id, SimulatedServer::new(id))).collect();
        let mut rollups: Rows<Rollup> = BTreeMap::new();
        for hour in 0..HOURS {
            let span = Span {
                start: DAY.start + hour * HOUR.length,
                ..HOUR
            };
            let mut rows: Rows<Sample> = BTreeMap::new();
            for (id, server) in &mut servers {
                let phase = id.0 * 7_919 % 60_000;
                let samples = (0..60)
                    .map(|minute| server.sample(span.start + minute * 60_000 + phase, 60_000));
                rows.insert(*id, samples.collect());
            }
            exact += encode(span, &rows).len();
            for (id, samples) in &mut rows {
                for sample in samples.iter_mut() {
                    sample.latency = sample.latency.map(rounded_latency);
                }
                for bucket in samples.chunk_by(|one, next| one.at / DAY.step == next.at / DAY.step)
                {
                    let at = bucket[0].at / DAY.step * DAY.step;
                    rollups.entry(*id).or_default().push(Rollup::of(at, bucket));
                }
            }
            let bytes = encode(span, &rows);
            of_samples += bytes.len();
            assert_eq!(decode(span, &bytes), Some(rows));
        }
        for hours in 0..HOURS / 2 {
            let span = Span {
                start: DAY.start + hours * 7_200_000,
                length: 7_200_000,
                ..DAY
            };
            let within = |at: Millis| (span.start..span.start + span.length).contains(&at);
            let some = rollups.iter().map(|(server, rows)| {
                (
                    *server,
                    rows.iter().filter(|row| within(row.at)).copied().collect(),
                )
            });
            of_rollups += encode(span, &some.collect::<Rows<Rollup>>()).len();
        }
    }
    let per_sample = |bytes: usize| bytes as f64 / (SERVERS * HOURS * 60) as f64;
    let [of_samples, of_rollups, exact] = [of_samples, of_rollups, exact].map(per_sample);
    println!(
        "bytes per sample: {of_samples:.3}, roll-ups {of_rollups:.3}; with exact latencies {exact:.3}"
    );
    assert!(
        of_samples + of_rollups < 2.0,
        "{of_samples} and {of_rollups}"
    );
}
