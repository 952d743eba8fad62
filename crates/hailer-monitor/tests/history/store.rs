//! Written data is read back. Both databases give the same results.

use super::*;
use hailer_monitor::health::State;
use hailer_monitor::history::{
    Batch, ExportSelection, HistoryError, Level, PlayerSession, Retention, WriteCounts,
};
use hailer_monitor::sample::{Event, EventKind, ValueChange};
use hailer_monitor::state::StateTable;
use std::time::Duration;

#[test]
fn sqlite_stores_and_reads_back() {
    let folder = Folder::new("store");
    runtime().block_on(async {
        keeps(&History::open(&folder.url()).await.unwrap()).await;
        for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let mode =
                std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
            assert_eq!(
                mode & 0o777,
                0o600,
                "{:?} is for its owner only",
                file.file_name()
            );
        }
        is_kept(&History::open(&folder.url()).await.unwrap()).await;
        keeps(&History::open("sqlite::memory:").await.unwrap()).await;
    });
}

#[test]
fn databases_of_newer_versions_are_refused() {
    use sqlx::Connection;
    let folder = Folder::new("newer");
    runtime().block_on(async {
        let url = format!("sqlite:{}/history.db", folder.path().display());
        History::open(&url).await.unwrap().close().await;
        let mut database = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let migration = "INSERT INTO _sqlx_migrations VALUES (999, 'of the future', CURRENT_TIMESTAMP, 1, x'00', 0)";
        sqlx::raw_sql(migration).execute(&mut database).await.unwrap();
        let error = History::open(&url).await.unwrap_err().to_string();
        assert!(error.contains("history.db was written by a newer hailer"), "{error}");
        let nowhere = format!("sqlite:{}/history.db/x", folder.path().display());
        let error = History::open(&nowhere).await.unwrap_err().to_string();
        assert!(error.contains("cannot make the folder"), "{error}");
    });
}

/// Compile-time check that all futures are `Send`. Never run.
#[allow(dead_code)]
fn futures_can_change_threads(history: &History) {
    fn can<T: Send>(_: T) {}
    let server = ServerId(1);
    let batch = Batch::default();
    let keep = Retention::default();
    can(History::open(""));
    can(history.servers());
    can(history.add(&new("")));
    can(history.remove(server));
    can(history.write(&batch));
    can(history.series(server, 0, 0, Level::Raw));
    can(history.totals(0, 0, Level::Raw));
    can(history.events(None, 0, 0));
    can(history.events_after(0, 0));
    can(history.sessions(server, 0, 0));
    can(history.last_states());
    can(history.load_day(&StateTable::default(), 0));
    can(history.tidy(0, &keep));
    can(history.players_key());
    can(history.export(ExportSelection::default()));
    can(history.import(std::iter::empty()));
}

#[test]
fn postgres_stores_and_reads_back() {
    let Some(server) = postgres::Server::start("store") else {
        return;
    };
    runtime().block_on(async {
        keeps(&History::open(&server.url()).await.unwrap()).await;
        is_kept(&History::open(&server.url()).await.unwrap()).await;
    });
}

/// Two nodes with the same configuration start at the same time.
#[test]
fn concurrent_additions_give_unique_ids_and_names() {
    let Some(server) = postgres::Server::start("beside") else {
        return;
    };
    runtime().block_on(async {
        let [one, two] = [
            History::open(&server.url()).await.unwrap(),
            History::open(&server.url()).await.unwrap(),
        ];
        for round in 0..10 {
            let same: Vec<NewServer> = (0..50)
                .map(|number| new(&format!("same-{round}-{number}")))
                .collect();
            let (a, b) = tokio::join!(one.add_all(&same), two.add_all(&same));
            let (done, refused) = if a.is_ok() { (a, b) } else { (b, a) };
            assert_eq!(done.unwrap().len(), 50);
            assert!(matches!(refused, Err(HistoryError::Taken(name)) if name.starts_with("same-")));
            let other: Vec<NewServer> = (0..50)
                .map(|number| new(&format!("other-{round}-{number}")))
                .collect();
            let single = new(&format!("single-{round}"));
            let (a, b) = tokio::join!(one.add_all(&other), two.add(&single));
            assert_eq!((a.unwrap().len(), b.unwrap().name), (50, single.name));
        }
        let servers = one.servers().await.unwrap();
        let numbers: std::collections::BTreeSet<ServerId> =
            servers.iter().map(|server| server.id).collect();
        assert_eq!((servers.len(), numbers.len()), (1_010, 1_010));
    });
}

/// Runs on an empty history.
async fn keeps(history: &History) {
    let lobby = add(history, "lobby").await;
    let arena = add(history, "arena").await;
    assert!(
        matches!(history.add(&new("lobby")).await, Err(HistoryError::Taken(name)) if name == "lobby")
    );
    assert_eq!(
        history.servers().await.unwrap(),
        [lobby.clone(), arena.clone()]
    );
    let changed = Server {
        interval: Some(Duration::from_secs(15)),
        group: "others".into(),
        ..arena.clone()
    };
    history.change(&changed).await.unwrap();
    let taken = Server {
        name: "lobby".into(),
        ..changed.clone()
    };
    assert!(matches!(
        history.change(&taken).await,
        Err(HistoryError::Taken(_))
    ));
    assert_eq!(
        history.servers().await.unwrap(),
        [lobby.clone(), changed.clone()]
    );

    // More samples than one statement can insert, and values that no game should send.
    let mut samples: Vec<_> = (0..1_201)
        .map(|minute| sample(lobby.id, minute * MINUTE, minute as u32))
        .collect();
    samples.push(Sample {
        players: Some(u32::MAX),
        sent: u16::MAX,
        ..sample(arena.id, 7, 0)
    });
    samples.push(silence(arena.id, MINUTE));
    let motd = ValueChange {
        from: None,
        to: Some("a\0b'; DROP TABLE event; --".into()),
    };
    let event = |at, kind| Event {
        server: lobby.id,
        at,
        kind,
    };
    let events = vec![
        event(5, EventKind::Up),
        event(
            7,
            EventKind::Down {
                reason: "silence".into(),
            },
        ),
        event(7, EventKind::Motd(motd)),
        event(9, EventKind::Up),
    ];
    let session = |player: &str, first, last| PlayerSession {
        server: lobby.id,
        player: player.into(),
        first,
        last,
    };
    let sessions = vec![
        session("Alice", 0, MINUTE),
        session("Alice", 0, 5 * MINUTE),
        session("Bob", 0, MINUTE),
        session("Alice", 10 * MINUTE, 11 * MINUTE),
        session(&"\0".repeat(5_000), 20 * MINUTE, 20 * MINUTE),
    ];
    let batch = Batch {
        samples,
        events,
        sessions,
    };
    assert_eq!(
        history.write(&batch).await.unwrap(),
        WriteCounts {
            samples: 1_203,
            events: 4,
            sessions: 4
        }
    );
    let again = history.write(&batch).await.unwrap();
    assert_eq!((again.events, again.sessions), (0, 0), "nothing is new now");

    let raw = history
        .series(lobby.id, 5 * MINUTE, 8 * MINUTE, Level::Raw)
        .await
        .unwrap();
    assert_eq!(
        raw.iter()
            .map(|point| (point.at, point.players))
            .collect::<Vec<_>>(),
        [
            (5 * MINUTE, Some(5.0)),
            (6 * MINUTE, Some(6.0)),
            (7 * MINUTE, Some(7.0))
        ]
    );
    assert_eq!(
        (raw[0].polls, raw[0].latency, raw[0].max, raw[0].sent),
        (1, Some(20_000), Some(100), 2)
    );
    let silent = history.series(arena.id, 0, DAY, Level::Raw).await.unwrap();
    assert_eq!(silent[0].players_max, Some(u32::MAX));
    assert_eq!(
        (
            silent[1].polls,
            silent[1].answered,
            silent[1].players,
            silent[1].resent
        ),
        (1, 0, None, 2)
    );
    let totals = history
        .totals(MINUTE, 3 * MINUTE, Level::Raw)
        .await
        .unwrap();
    assert_eq!(
        totals
            .iter()
            .map(|point| (point.at, point.polls, point.players))
            .collect::<Vec<_>>(),
        [(MINUTE, 2, Some(1.0)), (2 * MINUTE, 1, Some(2.0))]
    );

    // Pages never split events of the same time.
    let page = history
        .events(Some(lobby.id), Millis::MAX, 2)
        .await
        .unwrap();
    assert_eq!(
        page.iter()
            .map(|event| (event.at, event.kind.word()))
            .collect::<Vec<_>>(),
        [(9, "up"), (7, "down"), (7, "motd")]
    );
    assert_eq!(page[2], batch.events[2]);
    assert_eq!(
        history.events(None, 7, 10).await.unwrap(),
        batch.events[..1]
    );
    assert_eq!(history.events(None, 7, 0).await.unwrap(), []);
    let first = &batch.events[..1];
    assert_eq!(history.events_after(Millis::MIN, 1).await.unwrap(), first);
    let next = history.events_after(first[0].at, 1).await.unwrap();
    assert_eq!(
        next.iter()
            .map(|event| (event.at, event.kind.word()))
            .collect::<Vec<_>>(),
        [(7, "down"), (7, "motd")]
    );
    assert_eq!(history.events_after(7, 10).await.unwrap(), page[..1]);
    assert_eq!(history.events_after(9, 10).await.unwrap(), []);
    let sessions = history.sessions(lobby.id, 20 * MINUTE, 10).await.unwrap();
    assert_eq!(
        sessions,
        [
            session("Alice", 10 * MINUTE, 11 * MINUTE),
            session("Alice", 0, 5 * MINUTE),
            session("Bob", 0, MINUTE)
        ]
    );
    assert_eq!(
        history.last_states().await.unwrap(),
        [(lobby.id, State::Up, 9)]
    );

    // A server that is removed and added again keeps its id. With another target it gets a new id,
    // and no id is used twice.
    assert!(history.remove(arena.id).await.unwrap());
    assert!(!history.remove(arena.id).await.unwrap());
    assert!(matches!(
        history.change(&changed).await,
        Err(HistoryError::Absent(_))
    ));
    assert_eq!(
        history.servers().await.unwrap(),
        std::slice::from_ref(&lobby)
    );
    assert_eq!(add(history, "arena").await, arena);
    history.remove(arena.id).await.unwrap();
    let other = history
        .add(&NewServer {
            target: "ugp://other.example.com".into(),
            ..new("arena")
        })
        .await
        .unwrap();
    assert_eq!(other.id, ServerId(arena.id.0 + 1));
    // Adding many servers together has the same result as adding them one by one.
    history.remove(lobby.id).await.unwrap();
    let many = history
        .add_all(&[new("one"), new("lobby"), new("two")])
        .await
        .unwrap();
    assert_eq!(
        many.iter()
            .map(|server| server.id.0 - arena.id.0)
            .collect::<Vec<_>>(),
        [2, lobby.id.0 - arena.id.0, 3]
    );
    assert!(matches!(
        history.add_all(&[new("three"), new("two")]).await,
        Err(HistoryError::Taken(_))
    ));
    assert_eq!(
        history.servers().await.unwrap(),
        [&lobby, &other, &many[0], &many[2]].map(Server::clone)
    );
    history.tidy(2 * DAY, &Retention::default()).await.unwrap();
    let key = history.players_key().await.unwrap();
    assert_eq!(key, history.players_key().await.unwrap(), "it is made once");
    assert_ne!(key, [0; 32]);
}

/// Checks the data after the history is opened again.
async fn is_kept(history: &History) {
    let servers = history.servers().await.unwrap();
    assert_eq!(
        servers
            .iter()
            .map(|server| server.name.as_str())
            .collect::<Vec<_>>(),
        ["lobby", "arena", "one", "two"]
    );
    let hours = history
        .series(servers[0].id, 0, DAY, Level::Hour)
        .await
        .unwrap();
    assert_eq!(hours.len(), 21);
    assert_eq!(
        (hours[1].polls, hours[1].players, hours[1].players_max),
        (60, Some(89.5), Some(119))
    );
}
