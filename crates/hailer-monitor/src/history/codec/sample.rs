//! Columns of samples.

use super::{BlockRow, ColumnReader, ColumnWriter, spread, whole};
use crate::sample::{Millis, Sample};
use crate::server::ServerId;

/// Latest values of a column, separately for samples with and without a reply.
struct ByReply<T>([T; 2]);

impl<T: Copy> ByReply<T> {
    /// Returns the previous value, and stores the next.
    fn replace(&mut self, is_answered: bool, next: T) -> T {
        std::mem::replace(&mut self.0[usize::from(is_answered)], next)
    }

    fn get(&self, is_answered: bool) -> T {
        self.0[usize::from(is_answered)]
    }
}

impl BlockRow for Sample {
    const DISTANCE: i64 = 60_000;

    fn at(&self) -> Millis {
        self.at
    }

    fn write(rows: &[Self], distances: &[i64], columns: &mut ColumnWriter) {
        let mut previous = true;
        columns.flags(rows.iter().map(|row| {
            let expected = std::mem::replace(&mut previous, row.is_answered);
            (row.is_answered, expected)
        }));
        // A sample stands for the time since the one before.
        let mut error = 0;
        let observed = rows
            .iter()
            .zip(distances)
            .enumerate()
            .map(|(nth, (row, distance))| {
                let distance = if nth == 0 { Self::DISTANCE } else { *distance };
                let now = i64::from(row.observed_ms) - distance;
                now - std::mem::replace(&mut error, now)
            });
        columns.numbers(&observed.collect::<Vec<_>>());
        let optional: [fn(&Self) -> Option<u32>; 3] =
            [|row| row.players, |row| row.max, |row| row.latency];
        for (nth, value) in optional.into_iter().enumerate() {
            let mut present = ByReply([false, true]);
            columns.flags(rows.iter().map(|row| {
                let flag = value(row).is_some();
                (flag, present.replace(row.is_answered, flag))
            }));
            let values: Vec<i64> = rows.iter().filter_map(value).map(i64::from).collect();
            match nth {
                2 => columns.measured(&values),
                _ => columns.steady(values),
            }
        }
        for value in [|row: &Self| row.sent, |row: &Self| row.resent] {
            let mut last = ByReply([0, 0]);
            let changes = rows.iter().map(|row| {
                let value = i64::from(value(row));
                value - last.replace(row.is_answered, value)
            });
            columns.numbers(&changes.collect::<Vec<_>>());
        }
    }

    fn read(
        server: ServerId,
        times: &[Millis],
        distances: &[i64],
        columns: &mut ColumnReader<'_>,
    ) -> Option<Vec<Self>> {
        let count = times.len();
        let answered = columns.flags(count, |_, previous| previous.unwrap_or(true))?;
        let mut observed = columns.numbers(count)?;
        let mut error = 0_i64;
        for (nth, observed) in observed.iter_mut().enumerate() {
            let distance = if nth == 0 {
                Self::DISTANCE
            } else {
                distances[nth]
            };
            error = error.wrapping_add(*observed);
            *observed = distance.wrapping_add(error);
        }
        let players = read_optional(columns, &answered, false)?;
        let max = read_optional(columns, &answered, false)?;
        let latency = read_optional(columns, &answered, true)?;
        let mut datagrams = [columns.numbers(count)?, columns.numbers(count)?];
        for column in &mut datagrams {
            let mut last = ByReply([0_i64, 0]);
            for (value, is_answered) in column.iter_mut().zip(&answered) {
                *value = value.wrapping_add(last.get(*is_answered));
                last.replace(*is_answered, *value);
            }
        }
        let row = |nth: usize| {
            Some(Self {
                server,
                at: times[nth],
                is_answered: answered[nth],
                players: players[nth],
                max: max[nth],
                latency: latency[nth],
                sent: whole(datagrams[0][nth])?,
                resent: whole(datagrams[1][nth])?,
                observed_ms: whole(observed[nth])?,
            })
        };
        (0..count).map(row).collect()
    }
}

/// Reads numbers that not every sample has.
fn read_optional(
    columns: &mut ColumnReader<'_>,
    answered: &[bool],
    is_measured: bool,
) -> Option<Vec<Option<u32>>> {
    let mut present = ByReply([false, true]);
    let flags = columns.flags(answered.len(), |nth, previous| {
        if let Some(flag) = previous {
            present.replace(answered[nth - 1], flag);
        }
        present.get(answered[nth])
    })?;
    let count = flags.iter().filter(|flag| **flag).count();
    let values = if is_measured {
        columns.measured(count)?
    } else {
        columns.steady(count)?
    };
    spread(values, &flags)
}
