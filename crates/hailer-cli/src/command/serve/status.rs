//! `hailer serve status`: shows the state of a running `hailer serve`.

use crate::args::ServeStatus;
use crate::exit::Exit;
use crate::observe::control::{Client, default_path};
use crate::observe::snapshot::{Counts, Door, Listener, Prefix, Snapshot, Source, State, in_words};
use crate::print::table::{self, Fit};
use crate::print::{bytes, json, line, rate, since};
use hailer::proto::wire::counted;
use std::io::{self, Write};

/// Maximum width of a source's last error, in columns.
const LAST_ERROR_WIDTH: usize = 80;

pub(crate) async fn run(args: ServeStatus) -> anyhow::Result<Exit> {
    let path = args.running.control.unwrap_or_else(default_path);
    let snapshot = Client::connect(&path).await?.status().await?;
    let end = if snapshot.sources.iter().all(|source| source.state.answers()) {
        Exit::Success
    } else {
        Exit::Partial
    };
    let mut out = crate::print::stdout();
    if args.json {
        writeln!(out, "{}", json::line(&snapshot)?)?
    } else {
        show(&mut out, &snapshot)?
    }
    Ok(end)
}

fn show(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    summary(out, snapshot)?;
    listeners(out, &snapshot.listeners)?;
    let mut all = Counts::default();
    for listener in &snapshot.listeners {
        all.add(&listener.counts);
    }
    answers(out, &all)?;
    dropped(out, &all)?;
    sources(out, &snapshot.sources)?;
    doors(out, &snapshot.doors)?;
    busiest(out, &snapshot.top)
}

/// Writes a heading and a table. Without rows, writes nothing.
fn section(
    out: &mut impl Write,
    heading: &str,
    header: &[(&str, Fit)],
    rows: &[Vec<String>],
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n\x1b[1m{heading}\x1b[0m")?;
    table::print(out, header, rows)
}

fn summary(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    let Snapshot {
        version,
        pid,
        uptime_s,
        workers,
        budget,
        relay,
        ..
    } = snapshot;
    let workers = counted(*workers, "worker");
    writeln!(
        out,
        "\x1b[1mhailer serve\x1b[0m {}, process {pid}, running for {}, {workers}",
        line(version, 20),
        since(*uptime_s)
    )?;
    if budget.bytes_per_s > 0 {
        let left = bytes(budget.left_bytes as f64);
        let full = bytes(budget.bytes_per_s as f64);
        let networks = counted(budget.networks, "network");
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
            counted(relay.sessions, "session"),
            relay.sessions_max
        )?;
    }
    Ok(())
}

fn listeners(out: &mut impl Write, listeners: &[Listener]) -> io::Result<()> {
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
    // Columns without content are not printed.
    let unless_all_zero = |counter: fn(&Counts) -> u64| {
        let is_shown = listeners
            .iter()
            .any(|listener| counter(&listener.counts) > 0);
        move |counts: &Counts| {
            let number = is_shown.then(|| counter(counts).to_string());
            number.unwrap_or_default()
        }
    };
    let connections = unless_all_zero(|counts| counts.connections);
    let lost = unless_all_zero(|counts| counts.lost);
    let is_relayed = listeners.iter().any(|listener| listener.counts.relayed > 0);
    let relayed = |count: u64| {
        if is_relayed {
            count.to_string()
        } else {
            String::new()
        }
    };
    let row = |listener: &Listener| {
        let counts = &listener.counts;
        let protocols = listener.protocols.iter().map(|id| line(id, 30));
        vec![
            line(&listener.address, 60),
            protocols.collect::<Vec<_>>().join(", "),
            counts.received.to_string(),
            connections(counts),
            counts.answered.to_string(),
            counts.unverified.to_string(),
            counts.all_dropped().to_string(),
            relayed(counts.relayed),
            relayed(counts.relayed_back),
            lost(counts),
            bytes(counts.received_bytes as f64),
            bytes(counts.sent_bytes as f64),
        ]
    };
    let rows: Vec<_> = listeners.iter().map(row).collect();
    section(out, "Listening", &header, &rows)
}

fn answers(out: &mut impl Write, all: &Counts) -> io::Result<()> {
    let rows = all.answers.iter().flat_map(|(protocol, kinds)| {
        let sent = kinds.iter().filter(|(_, count)| **count > 0);
        sent.map(|(kind, count)| vec![line(protocol, 30), line(kind, 30), count.to_string()])
    });
    let rows: Vec<_> = rows.collect();
    let header = [
        ("protocol", Fit::Whole),
        ("kind", Fit::Whole),
        ("count", Fit::Number),
    ];
    section(out, "Answers", &header, &rows)
}

fn dropped(out: &mut impl Write, all: &Counts) -> io::Result<()> {
    let dropped = all.dropped.iter().filter(|(_, count)| **count > 0);
    let rows: Vec<_> = dropped
        .map(|(key, count)| vec![count.to_string(), line(in_words(key), 60)])
        .collect();
    let header = [("count", Fit::Number), ("datagrams", Fit::Fold)];
    section(out, "Left unanswered", &header, &rows)
}

fn sources(out: &mut impl Write, sources: &[Source]) -> io::Result<()> {
    let header = [
        ("source", Fit::Cut),
        ("kind", Fit::Whole),
        ("state", Fit::Whole),
        ("age", Fit::Number),
        ("last error", Fit::Cut),
    ];
    let row = |source: &Source| {
        vec![
            line(&source.name, table::CELL),
            line(&source.kind, 12),
            state(source.state).to_owned(),
            source.age_s.map(since).unwrap_or_default(),
            line(
                source.last_error.as_deref().unwrap_or_default(),
                LAST_ERROR_WIDTH,
            ),
        ]
    };
    let rows: Vec<_> = sources.iter().map(row).collect();
    section(out, "Status sources", &header, &rows)
}

/// Writes the games that sleep while they have no players.
fn doors(out: &mut impl Write, doors: &[Door]) -> io::Result<()> {
    let header = [
        ("door", Fit::Cut),
        ("state", Fit::Whole),
        ("for", Fit::Number),
        ("woken by", Fit::Cut),
        ("players", Fit::Spare(5)),
        ("starts", Fit::Number),
        ("failed", Fit::Spare(4)),
        ("crashes", Fit::Spare(2)),
        ("refused", Fit::Spare(1)),
        ("held", Fit::Spare(0)),
        ("last start", Fit::Spare(3)),
        ("asleep", Fit::Number),
        ("last error", Fit::Cut),
    ];
    let row = |door: &Door| {
        let error = door.last_error.as_deref().unwrap_or_default();
        let woken_by = door.woken_by.as_deref().unwrap_or_default();
        vec![
            line(&door.name, table::CELL),
            door.state.name().to_owned(),
            since(door.since_s),
            line(woken_by, table::CELL),
            door.players
                .map(|players| players.to_string())
                .unwrap_or_default(),
            door.starts.to_string(),
            door.failed_starts.to_string(),
            door.crashes.to_string(),
            door.refused_joins.to_string(),
            door.held_joins.to_string(),
            door.last_start_s.map(since).unwrap_or_default(),
            since(door.asleep_s),
            line(error, LAST_ERROR_WIDTH),
        ]
    };
    let rows: Vec<_> = doors.iter().map(row).collect();
    section(out, "Doors", &header, &rows)
}

/// Writes the networks that send most.
fn busiest(out: &mut impl Write, networks: &[Prefix]) -> io::Result<()> {
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
    let rows: Vec<Vec<String>> = networks.iter().map(row).collect();
    section(out, "Busiest networks", &header, &rows)
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
    use crate::simulated::responder as simulated;

    #[test]
    fn everything_is_shown_and_nothing_empty() {
        let text = |snapshot: &Snapshot| {
            let mut out = Vec::new();
            show(&mut out, snapshot).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut snapshot = simulated::snapshot(4000.0);
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
            "Busiest networks",
            "Doors",
            "at 192.0.2.7",
            "no answer in 5min",
        ] {
            assert!(shown.contains(expected), "{expected}:\n{shown}");
        }
        assert!(!shown.contains("\x1b[2J"), "{shown:?}");
        let empty = text(&Snapshot::default());
        assert!(
            empty.contains("0 workers")
                && !empty.contains("Listening")
                && !empty.contains("Status sources")
                && !empty.contains("Doors")
                && !empty.contains("relay"),
            "{empty}"
        );
    }
}
