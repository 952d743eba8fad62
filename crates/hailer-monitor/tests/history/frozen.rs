//! A process that is frozen or cut off in the middle of any transaction holds no other back.

use super::*;
use futures_util::future::BoxFuture;
use hailer_monitor::history::{Batch, Retention};
use hailer_monitor::sample::{Event, EventKind};
use std::time::{Duration, Instant};

/// How long a transaction may wait for its process.
const MAX_IDLE: Duration = Duration::from_millis(500);

fn batch(server: ServerId, at: Millis) -> Batch {
    let kind = EventKind::Up;
    Batch {
        samples: vec![sample(server, at, 1), silence(server, at + MINUTE)],
        events: vec![Event { server, at, kind }],
        sessions: Vec::new(),
    }
}

type Work = fn(&History, i64) -> BoxFuture<'_, ()>;

const NOW: Millis = 1_795_284_000_000;

/// Each kind of work that locks rows or tables that others need. `round` makes its data new.
const WORK: [(&str, Work); 5] = [
    ("write", |history, round| {
        Box::pin(async move {
            let batch = batch(ServerId(1), NOW + round * 2 * MINUTE);
            let _ = history.write(&batch).await;
        })
    }),
    ("roll up", |history, round| {
        Box::pin(async move {
            let now = NOW + round * 2 * MINUTE + HOUR;
            let _ = history.tidy(now, &Retention::default()).await;
        })
    }),
    ("add", |history, round| {
        Box::pin(async move { drop(history.add(&new(&format!("a{round}"))).await) })
    }),
    ("add all", |history, round| {
        Box::pin(async move {
            let all = [new(&format!("b{round}")), new(&format!("c{round}"))];
            let _ = history.add_all(&all).await;
        })
    }),
    ("remove", |history, _| {
        Box::pin(async move { drop(history.remove(ServerId(2)).await) })
    }),
];

/// Steps of one kind of work that are tried. A roll-up has more, which repeat the first.
const MAX_STEPS: usize = 28;

#[test]
fn a_process_frozen_at_any_step_holds_no_other_back() {
    let Some(server) = postgres::Server::start("frozen") else {
        return;
    };
    let server = &server;
    runtime().block_on(async {
        let all = (0..).zip(WORK).map(|(nth, (name, work))| async move {
            let database = format!("frozen{nth}");
            let url = server.database(&database);
            let steps = freeze_at_each_step(server, &database, &url, name, work).await;
            assert!(steps > 0, "{name} was never frozen");
            println!("{name}: {steps} steps");
        });
        futures_util::future::join_all(all).await;
    });
}

/// Freezes a process at each step of some work, and lets another do all kinds of work. Returns the
/// number of steps.
async fn freeze_at_each_step(
    server: &postgres::Server,
    database: &str,
    url: &str,
    name: &str,
    work: Work,
) -> usize {
    let history = History::open(url).await.unwrap();
    for name in ["one", "two"] {
        add(&history, name).await;
    }
    let mut round = 0;
    for step in 0..MAX_STEPS {
        for passes in [false, true] {
            round += 1;
            // Roll-ups need closed buckets.
            let at = NOW + round * 2 * MINUTE;
            history.write(&batch(ServerId(1), at)).await.unwrap();
            let (proxy, url) = server.proxy(database);
            let frozen = History::open(&url).await.unwrap();
            frozen.set_max_idle(MAX_IDLE);
            proxy.freeze_at(step, passes, "");
            let job = tokio::spawn(async move { work(&frozen, round).await });
            while !proxy.is_frozen() && !job.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let is_over = !proxy.is_frozen();
            let others = async {
                history.write(&batch(ServerId(1), at)).await.unwrap();
                history.write(&batch(ServerId(1), NOW)).await.unwrap();
                let keep = Retention::default();
                history.tidy(at + HOUR, &keep).await.unwrap();
                add(&history, &format!("other-{round}")).await;
                history.remove(ServerId(2)).await.unwrap();
            };
            tokio::time::timeout(6 * MAX_IDLE, others)
                .await
                .unwrap_or_else(|_| panic!("{name}, step {step}, passes {passes}: others wait"));
            job.abort();
            proxy.thaw();
            if is_over {
                return step;
            }
        }
    }
    MAX_STEPS
}

/// Writes that are given up leave no statement behind on the server, and take no connection away.
#[test]
fn retries_do_not_pile_up() {
    let Some(server) = postgres::Server::start("retries") else {
        return;
    };
    runtime().block_on(async {
        let history = History::open(&server.url()).await.unwrap();
        add(&history, "one").await;
        let pool = sqlx::AnyPool::connect(&server.url()).await.unwrap();
        let mut holder = pool.acquire().await.unwrap();
        let lock = "BEGIN; LOCK TABLE recent IN ACCESS EXCLUSIVE MODE";
        sqlx::raw_sql(lock).execute(&mut *holder).await.unwrap();
        for round in 0..20 {
            let batch = batch(ServerId(1), round * MINUTE);
            let write = history.write(&batch);
            let write = tokio::time::timeout(Duration::from_millis(50), write).await;
            assert!(write.is_err(), "the lock is held");
        }
        assert_eq!(history.servers().await.unwrap().len(), 1, "pages work");
        sqlx::raw_sql("ROLLBACK")
            .execute(&mut *holder)
            .await
            .unwrap();
        let started = Instant::now();
        history.write(&batch(ServerId(1), HOUR)).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(2));
    });
}
