//! The write queue when a process is killed, a disk is full or the database is unavailable.

use super::*;
use hailer_monitor::history::{Batch, HistoryWriter, Level, WriterHealth, WriterLimits};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(250);

fn batch(server: ServerId, from: Millis, to: Millis) -> Batch {
    Batch {
        samples: (from..to).map(|at| sample(server, at, 1)).collect(),
        ..Batch::default()
    }
}

/// Waits up to 30 s for a condition.
async fn until(
    writer: &HistoryWriter,
    what: &str,
    is_so: impl Fn(&WriterHealth) -> bool,
) -> WriterHealth {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let health = writer.health();
        if is_so(&health) {
            return health;
        }
        assert!(Instant::now() < deadline, "{what}: {health:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns a command that runs one of the tests below in another process.
fn child(test: &str, folder: &Folder) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command
        .env("HAILER_TEST_FOLDER", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

#[test]
fn killed_process_loses_only_unwritten_samples() {
    let folder = Folder::new("killed");
    let mut child = child("queue::writes_until_killed", &folder)
        .spawn()
        .unwrap();
    let mut handed: Vec<Instant> = Vec::new();
    let mut written = 0_usize;
    let last = 600 + std::process::id() as usize % 200;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some((number, count)) = line
            .split_once("handed ")
            .and_then(|(_, rest)| rest.split_once(' '))
        {
            assert_eq!(number.parse(), Ok(handed.len()));
            handed.push(Instant::now());
            written = count.parse().unwrap();
        }
        // Stop at a random point of an interval.
        if handed.len() == last {
            child.kill().unwrap();
            break;
        }
    }
    let killed = Instant::now();
    child.wait().unwrap();
    assert!(written > 100, "{written} of {} were written", handed.len());
    runtime().block_on(async {
        let history = History::open(&folder.url()).await.unwrap();
        let server = history.servers().await.unwrap()[0].id;
        let there = history
            .series(server, 0, Millis::MAX, Level::Raw)
            .await
            .unwrap();
        let times: Vec<Millis> = there.iter().map(|point| point.at).collect();
        assert_eq!(
            times,
            (0..there.len() as Millis).collect::<Vec<_>>(),
            "nothing is missing in between"
        );
        assert!(
            there.len() >= written,
            "samples reported as written are stored"
        );
        // Allow one more second on a busy machine.
        let safe = handed
            .iter()
            .filter(|&&handed| killed - handed > EVERY + Duration::from_secs(1))
            .count();
        assert!(there.len() >= safe, "{} of {safe}", there.len());
    });
}

/// The process that `killed_process_loses_only_unwritten_samples` starts. Does nothing on its own.
#[test]
fn writes_until_killed() {
    let Ok(folder) = std::env::var("HAILER_TEST_FOLDER") else {
        return;
    };
    runtime().block_on(async {
        let history = History::open(&format!("sqlite:{folder}/history of tests?.db"))
            .await
            .unwrap();
        let server = add(&history, "lobby").await.id;
        let writer = HistoryWriter::start(
            history,
            WriterLimits {
                every: EVERY,
                ..WriterLimits::default()
            },
        );
        for number in 0..10_000 {
            assert!(writer.send(batch(server, number, number + 1)));
            println!("handed {number} {}", writer.health().written);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
}

#[test]
fn full_disk_does_not_stop_the_writer() {
    let folder = Folder::new("full");
    // The test needs a small disk in a mount namespace. Without one, it is skipped.
    let allowed = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "true"])
        .status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this system does not allow mount namespaces");
        return;
    }
    let child = child("queue::writes_on_a_small_disk", &folder);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=3m tmpfs \"$HAILER_TEST_FOLDER\" && exec \"$0\" \"$@\"");
    command
        .arg(child.get_program())
        .args(child.get_args())
        .env("HAILER_TEST_FOLDER", folder.path());
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && shown.contains("1 passed"),
        "{shown}{errors}"
    );
}

/// The process that `full_disk_does_not_stop_the_writer` starts. Does nothing on its own.
#[test]
fn writes_on_a_small_disk() {
    let Ok(folder) = std::env::var("HAILER_TEST_FOLDER") else {
        return;
    };
    runtime().block_on(async {
        let history = History::open(&format!("sqlite:{folder}/history.db"))
            .await
            .unwrap();
        let server = add(&history, "lobby").await.id;
        let writer = HistoryWriter::start(
            history.clone(),
            WriterLimits {
                every: EVERY,
                at_once: 2_000,
                ..WriterLimits::default()
            },
        );
        writer.send(batch(server, 0, 1_000));
        until(&writer, "written", |health| health.written == 1_000).await;
        // Fill the rest of the disk.
        let filler = format!("{folder}/filler");
        let _ = std::fs::write(&filler, vec![0; 4 << 20]);
        writer.send(batch(server, 1_000, 31_000));
        let health = until(&writer, "failing", |health| health.is_failing).await;
        assert!(
            health.message.unwrap().contains("full"),
            "{:?}",
            writer.health()
        );
        let health = until(&writer, "kept", |health| health.kept > 0).await;
        assert_eq!((health.kept + health.written, health.dropped), (31_000, 0));
        assert!(
            history
                .series(server, 0, Millis::MAX, Level::Raw)
                .await
                .unwrap()
                .len()
                >= 1_000,
            "one can still read"
        );
        std::fs::remove_file(&filler).unwrap();
        let health = until(&writer, "written again", |health| {
            health.kept == 0 && health.written == 31_000
        })
        .await;
        assert!(!health.is_failing);
        assert_eq!(
            history
                .series(server, 0, Millis::MAX, Level::Raw)
                .await
                .unwrap()
                .len(),
            31_000
        );
    });
}

#[test]
fn queued_samples_are_written_after_a_postgres_outage() {
    let Some(mut postgres) = postgres::Server::start("away") else {
        return;
    };
    let runtime = runtime();
    runtime.block_on(async {
        let history = History::open(&postgres.url()).await.unwrap();
        let server = add(&history, "lobby").await.id;
        let writer = HistoryWriter::start(
            history.clone(),
            WriterLimits {
                every: EVERY,
                samples: 5_000,
                ..WriterLimits::default()
            },
        );
        writer.send(batch(server, 0, 10));
        until(&writer, "written", |health| health.written == 10).await;
        postgres.stop();
        writer.send(batch(server, 10, 20));
        until(&writer, "failing", |health| {
            health.is_failing && health.kept == 10
        })
        .await;
        for thousand in 0..8 {
            writer.send(batch(
                server,
                1_000 * (thousand + 1),
                1_000 * (thousand + 2),
            ));
        }
        // The queue is limited, so the oldest samples are dropped.
        until(&writer, "full", |health| {
            (health.kept, health.dropped) == (5_000, 3_010)
        })
        .await;
        postgres.run();
        let health = until(&writer, "written again", |health| {
            health.kept == 0 && health.written == 5_010
        })
        .await;
        assert!(!health.is_failing && health.message.is_some());
        let there = history
            .series(server, 0, Millis::MAX, Level::Raw)
            .await
            .unwrap();
        assert_eq!(
            (there.len(), there[10].at, there[5_009].at),
            (5_010, 4_000, 8_999)
        );

        // An orderly stop loses nothing.
        writer.send(batch(server, 10_000, 10_100));
        assert_eq!(writer.finish().await.written, 5_110);
        assert_eq!(
            history
                .series(server, 10_000, Millis::MAX, Level::Raw)
                .await
                .unwrap()
                .len(),
            100
        );
    });
}
