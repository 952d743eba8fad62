//! Export from one database and import into another.

use super::*;
use futures_util::TryStreamExt;
use hailer_monitor::history::{
    Batch, ExportSelection, Format, HistoryError, ImportCounts, Level, PlayerSession, Record,
    RecordWriter, Retention, Table, read,
};
use hailer_monitor::sample::{Event, EventKind};

const STEPS: Millis = 2_600;
const STEP: Millis = 10_000;

#[test]
fn sqlite_imports_its_own_export() {
    runtime().block_on(async {
        let from = filled("sqlite::memory:").await;
        moves(&from, &History::open("sqlite::memory:").await.unwrap()).await;
    });
}

#[test]
fn postgres_and_sqlite_import_each_others_exports() {
    let Some(server) = postgres::Server::start("export") else {
        return;
    };
    runtime().block_on(async {
        let from = filled("sqlite::memory:").await;
        moves(
            &from,
            &History::open(&server.database("taker")).await.unwrap(),
        )
        .await;
        let from = filled(&server.database("giver")).await;
        moves(&from, &History::open("sqlite::memory:").await.unwrap()).await;
    });
}

async fn filled(url: &str) -> History {
    let history = History::open(url).await.unwrap();
    let lobby = add(&history, "lobby").await.id;
    let arena = add(&history, "arena").await.id;
    let mut batch = Batch::default();
    // More records than one page holds.
    for number in 0..STEPS {
        let at = number * STEP;
        batch.samples.push(sample(lobby, at, (number % 60) as u32));
        batch.samples.push(silence(arena, at + 1));
        batch.events.push(Event {
            server: arena,
            at,
            kind: EventKind::Down {
                reason: "silence".into(),
            },
        });
        let player = format!("=player {}", number % 7);
        batch.sessions.push(PlayerSession {
            server: lobby,
            player,
            first: at,
            last: at + MINUTE,
        });
    }
    history.write(&batch).await.unwrap();
    history
        .tidy(STEPS * STEP, &Retention::default())
        .await
        .unwrap();
    history.remove(arena).await.unwrap();
    history
}

async fn records(history: &History, selection: ExportSelection) -> Vec<Record> {
    history.export(selection).try_collect().await.unwrap()
}

async fn import(
    history: &History,
    format: Format,
    records: &[Record],
) -> Result<ImportCounts, HistoryError> {
    let mut lines = RecordWriter::new(format, Vec::new()).unwrap();
    records
        .iter()
        .for_each(|record| lines.write(record).unwrap());
    let text = lines.finish().unwrap();
    history.import(read(&*text)?).await
}

async fn moves(from: &History, to: &History) {
    let all = records(from, ExportSelection::default()).await;
    // Servers get other ids in the other database.
    let other = add(to, "other").await;
    let broken_off = import(to, Format::Ndjson, &all[..all.len() / 2])
        .await
        .unwrap();
    assert_eq!(broken_off.records, all.len() as u64 / 2);
    let rest = import(to, Format::Ndjson, &all).await.unwrap();
    assert_eq!(
        (
            rest.servers,
            rest.samples + broken_off.samples,
            rest.sessions
        ),
        (0, 2 * STEPS as u64, STEPS as u64)
    );
    assert_eq!(
        import(to, Format::Ndjson, &all).await.unwrap(),
        ImportCounts {
            records: all.len() as u64,
            ..ImportCounts::default()
        }
    );
    assert_eq!(
        to.servers()
            .await
            .unwrap()
            .iter()
            .map(|server| &*server.name)
            .collect::<Vec<_>>(),
        ["other", "lobby"]
    );
    to.tidy(STEPS * STEP, &Retention::default()).await.unwrap();
    to.remove(other.id).await.unwrap();
    let mut there = records(
        to,
        ExportSelection {
            tables: Table::ALL[1..].to_vec(),
            ..ExportSelection::default()
        },
    )
    .await;
    assert!(there == all[2..], "both databases export the same");
    for level in [Level::FiveMinutes, Level::Hour, Level::Day] {
        let there = to.totals(0, Millis::MAX, level).await.unwrap();
        assert!(
            there == from.totals(0, Millis::MAX, level).await.unwrap(),
            "{level:?}"
        );
    }

    // Export a part, by server and time; in CSV, one table.
    let lobby = from.servers().await.unwrap()[0].id;
    let selection = ExportSelection {
        servers: Some(vec![lobby]),
        from: STEP,
        to: 10 * STEP,
        tables: vec![Table::Samples],
    };
    let part = records(from, selection).await;
    assert_eq!(part.len(), 9);
    let mut numbers: Vec<u64> = Vec::new();
    for table in [Table::Servers, Table::Samples, Table::Sessions] {
        there.retain(|record| record.table() != table);
        let of_table: Vec<Record> = all
            .iter()
            .filter(|record| record.table() == table)
            .cloned()
            .collect();
        let empty = History::open("sqlite::memory:").await.unwrap();
        let servers: Vec<Record> = all[..2].to_vec();
        import(&empty, Format::Csv(Table::Servers), &servers)
            .await
            .unwrap();
        import(&empty, Format::Csv(table), &of_table).await.unwrap();
        let back = records(
            &empty,
            ExportSelection {
                tables: vec![table],
                ..ExportSelection::default()
            },
        )
        .await;
        assert!(back == of_table, "{table:?}");
        numbers.push(back.len() as u64);
    }
    assert_eq!(numbers, [2, 2 * STEPS as u64, STEPS as u64]);
    let empty = History::open("sqlite::memory:").await.unwrap();
    let error = import(&empty, Format::Csv(Table::Samples), &part)
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "line 2: no server is called \"lobby\" here: import the servers first"
    );
}
