//! `hailer serve status`: shows the state of a running `hailer serve`.

use crate::args::ServeStatus;
use crate::exit::Exit;
use crate::observe::control::{Client, default_path};
use crate::observe::snapshot::{Counts, Prefix, Snapshot, State, in_words};
use crate::print::table::{self, Fit};
use crate::print::{bytes, count, json, line, rate, since};
use std::io::Write;

/// Maximum width of a source's last error, in columns.
const TROUBLE: usize = 80;

pub(crate) async fn run(args: ServeStatus) -> anyhow::Result<Exit> {
    let path = args.running.control.unwrap_or_else(default_path);
    let snapshot = Client::connect(&path).await?.status().await?;
    let end = if snapshot.sources.iter().all(|source| source.state.answers()) {
        Exit::Success
    } else {
        Exit::Partial
    };
    let mut out = anstream::stdout();
    if args.json {
        writeln!(out, "{}", json::line(&snapshot)?)?
    } else {
        show(&mut out, &snapshot)?
    }
    Ok(end)
}

fn show(out: &mut impl Write, snapshot: &Snapshot) -> std::io::Result<()> {
    let Snapshot {
        version,
        pid,
        uptime_s,
        workers,
        budget,
        relay,
        ..
    } = snapshot;
    let heading = |text: &str| format!("\n\x1b[1m{text}\x1b[0m");
    let workers = count(*workers, "worker");
    writeln!(
        out,
        "\x1b[1mhailer serve\x1b[0m {}, process {pid}, running for {}, {workers}",
        line(version, 20),
        since(*uptime_s)
    )?;
    if budget.bytes_per_s > 0 {
        let left = bytes(budget.left_bytes as f64);
        let full = bytes(budget.bytes_per_s as f64);
        let networks = count(budget.networks, "network");
        writeln!(
            out,
            "budget for unverified addresses: {left} of {full}/s left; {networks} tracked, at most {}",
            budget.networks_max
        )?;
    }
    if relay.sessions_max > 0 {
        writeln!(
            out,
            "relay: {} of {} open",
            count(relay.sessions, "session"),
            relay.sessions_max
        )?;
    }

    let header = [
        ("address", Fit::Whole),
        ("protocols", Fit::Cut),
        ("received", Fit::Number),
        ("connections", Fit::Spare(5)),
        ("answered", Fit::Number),
        ("unverified", Fit::Spare(3)),
        ("dropped", Fit::Number),
        ("relayed", Fit::Spare(2)),
        ("passed back", Fit::Spare(2)),
        ("lost", Fit::Spare(4)),
        ("in", Fit::Spare(0)),
        ("out", Fit::Spare(1)),
    ];
    let any = |counter: fn(&Counts) -> u64| {
        snapshot
            .listeners
            .iter()
            .any(|listener| counter(&listener.counts) > 0)
    };
    let is_relayed = any(|counts| counts.relayed);
    let is_lost = any(|counts| counts.lost);
    let is_connected = any(|counts| counts.connections);
    // Empty columns are not printed.
    let number = |is_shown: bool, count: u64| {
        if is_shown {
            count.to_string()
        } else {
            String::new()
        }
    };
    let rows: Vec<Vec<String>> = (snapshot.listeners.iter())
        .map(|listener| {
            let Counts {
                received,
                answered,
                unverified,
                received_bytes,
                sent_bytes,
                ..
            } = &listener.counts;
            vec![
                line(&listener.address, 60),
                listener
                    .protocols
                    .iter()
                    .map(|id| line(id, 30))
                    .collect::<Vec<_>>()
                    .join(", "),
                received.to_string(),
                number(is_connected, listener.counts.connections),
                answered.to_string(),
                unverified.to_string(),
                listener.counts.all_dropped().to_string(),
                number(is_relayed, listener.counts.relayed),
                number(is_relayed, listener.counts.relayed_back),
                number(is_lost, listener.counts.lost),
                bytes(*received_bytes as f64),
                bytes(*sent_bytes as f64),
            ]
        })
        .collect();
    if !rows.is_empty() {
        writeln!(out, "{}", heading("Listening"))?;
        table::print(out, &header, &rows)?;
    }

    let mut all = Counts::default();
    snapshot
        .listeners
        .iter()
        .for_each(|listener| all.add(&listener.counts));
    let answers = all.answers.iter().flat_map(|(protocol, kinds)| {
        let sent = kinds.iter().filter(|(_, count)| **count > 0);
        sent.map(|(kind, count)| vec![line(protocol, 30), line(kind, 30), count.to_string()])
    });
    let answers: Vec<_> = answers.collect();
    if !answers.is_empty() {
        writeln!(out, "{}", heading("Answers"))?;
        table::print(
            out,
            &[
                ("protocol", Fit::Whole),
                ("kind", Fit::Whole),
                ("count", Fit::Number),
            ],
            &answers,
        )?;
    }
    let dropped = all.dropped.iter().filter(|(_, count)| **count > 0);
    let dropped: Vec<_> = dropped
        .map(|(key, count)| vec![count.to_string(), line(in_words(key), 60)])
        .collect();
    if !dropped.is_empty() {
        writeln!(out, "{}", heading("Left unanswered"))?;
        table::print(
            out,
            &[("count", Fit::Number), ("datagrams", Fit::Fold)],
            &dropped,
        )?;
    }
    if !snapshot.sources.is_empty() {
        let header = [
            ("source", Fit::Cut),
            ("kind", Fit::Whole),
            ("state", Fit::Whole),
            ("age", Fit::Number),
            ("trouble", Fit::Cut),
        ];
        let rows: Vec<_> = (snapshot.sources.iter())
            .map(|source| {
                vec![
                    line(&source.name, table::CELL),
                    line(&source.kind, 12),
                    state(source.state).to_owned(),
                    source.age_s.map(since).unwrap_or_default(),
                    line(source.last_error.as_deref().unwrap_or_default(), TROUBLE),
                ]
            })
            .collect();
        writeln!(out, "{}", heading("Truth"))?;
        table::print(out, &header, &rows)?;
    }
    if !snapshot.top.is_empty() {
        let header = [
            ("network", Fit::Whole),
            ("datagrams", Fit::Number),
            ("replies", Fit::Number),
            ("in", Fit::Number),
            ("out", Fit::Number),
        ];
        let row = |top: &Prefix| {
            let packets = [top.packets_per_s, top.replies_per_s].map(rate);
            let numbers = packets
                .into_iter()
                .chain([top.bytes_per_s, top.reply_bytes_per_s].map(bytes));
            std::iter::once(line(&top.prefix, 60))
                .chain(numbers.map(|number| format!("{number}/s")))
                .collect()
        };
        let rows: Vec<Vec<String>> = snapshot.top.iter().map(row).collect();
        writeln!(out, "{}", heading("Who asks most"))?;
        table::print(out, &header, &rows)?;
    }
    Ok(())
}

/// Returns the name of a state.
pub(crate) fn state(state: State) -> &'static str {
    match state {
        State::Fresh => "fresh",
        State::Stale => "stale, served",
        State::Silent => "too old, silent",
        State::Never => "none yet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::invented;

    #[test]
    fn everything_is_shown_and_nothing_empty() {
        let text = |snapshot: &Snapshot| {
            let mut out = Vec::new();
            show(&mut out, snapshot).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut snapshot = invented::snapshot(4000.0);
        snapshot.sources[1].last_error = Some("\x1b[2Jgone\n".into());
        let shown = text(&snapshot);
        for expected in [
            "process 4711, running for 1h 6m, 2 workers",
            "[2001:db8:1234:5678::25:565]:25565",
            "minecraft-query, onequery",
            "over the limit for replies",
            "too old, silent",
            "3h 6m",
            "203.0.113.0/24",
            "unverified",
            "Who asks most",
        ] {
            assert!(shown.contains(expected), "{expected}:\n{shown}");
        }
        assert!(!shown.contains("\x1b[2J"), "{shown:?}");
        let empty = text(&Snapshot::default());
        assert!(
            empty.contains("0 workers")
                && !empty.contains("Listening")
                && !empty.contains("Truth")
                && !empty.contains("relay"),
            "{empty}"
        );
    }
}
