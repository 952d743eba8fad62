//! Simulated servers for tests.

use super::FeedUpdate;
use super::board::{Board, ServerView};
use super::screen::WatchScreen;
use crate::terminal::Screen;
use hailer::proto::Text;
use hailer_monitor::health::State;
use hailer_monitor::sample::{Event, EventKind, Millis, PollError, Sample};
use hailer_monitor::server::{Origin, Server, ServerId};
use hailer_monitor::state::LastStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// Current time of the tests.
pub(super) const NOW: Millis = 1_800_000_000_000;

pub(super) fn event(id: i64, at: Millis) -> Event {
    Event {
        server: ServerId(id),
        at,
        kind: EventKind::Up,
    }
}

pub(super) fn server(id: i64, name: &str) -> Server {
    Server {
        id: ServerId(id),
        name: name.into(),
        target: format!("minecraft-query://{name}.example.com"),
        group: String::new(),
        labels: BTreeMap::new(),
        interval: None,
        origin: Origin::Configuration,
    }
}

/// Returns a server that is up, with 12 of 20 players.
pub(super) fn seen(id: i64, name: &str) -> ServerView {
    let last_status = LastStatus {
        at: NOW,
        address: Some(([192, 0, 2, id as u8], 25565).into()),
        title: Some("A title".into()),
        motd: Some(Text::legacy("§aWelcome §lto §cthe lobby")),
        game: Some("MINECRAFT".into()),
        version: Some("1.20.4".into()),
        map: Some("world".into()),
        players: ["Alice".into(), "Bob".into(), "名前".into()].into(),
        is_whole: false,
        ..LastStatus::default()
    };
    let last = Sample {
        observed_ms: 0,
        server: ServerId(id),
        at: NOW,
        is_answered: true,
        players: Some(12),
        max: Some(20),
        latency: Some(12_340),
        sent: 2,
        resent: 0,
    };
    ServerView {
        server: Arc::new(server(id, name)),
        state: State::Up,
        is_flapping: false,
        since: NOW - 3_600_000,
        last: Some(last),
        error: None,
        last_status: Some(Arc::new(last_status)),
        uptime: Some(1.0),
    }
}

fn change(seen: &mut ServerView, players: (u32, u32), latency: u32, version: &str, motd: &str) {
    let last = seen.last.as_mut().expect("has one");
    last.players = Some(players.0);
    last.max = Some(players.1);
    last.latency = Some(latency);
    let last_status = Arc::make_mut(seen.last_status.as_mut().expect("has it"));
    last_status.version = Some(version.into());
    last_status.motd = Some(Text::legacy(motd));
}

/// Returns five servers: three up, one flapping, one that never replied.
pub(super) fn five() -> Vec<ServerView> {
    let mut all = [
        (1, "lobby"),
        (2, "survival-10"),
        (3, "survival-9"),
        (4, "Arena"),
        (5, "silent"),
    ]
    .map(|(id, name)| seen(id, name));
    for seen in &mut all[..3] {
        Arc::make_mut(&mut seen.server).group = "eu".into();
    }
    change(
        &mut all[1],
        (250, 500),
        95_000,
        "Paper 1.21.8",
        "§x§f§f§8§0§0§1Survival§r, 10th\n§ksecret",
    );
    change(
        &mut all[2],
        (3, 20),
        250_000,
        "1.20.5",
        "名前の鯖へようこそ\u{1b}[2J",
    );
    change(&mut all[3], (40, 100), 1_234_000, "1.20.6", "<b>Arena</b>");
    Arc::make_mut(&mut all[3].server).target = "ugp://arena.example.com".into();
    Arc::make_mut(&mut all[3].server).group = "de".into();
    all[3].is_flapping = true;
    all[3].uptime = Some(0.875);
    let silent = &mut all[4];
    silent.state = State::Down;
    silent.uptime = Some(0.0);
    silent.last_status = None;
    Arc::make_mut(&mut silent.server).group = "de".into();
    silent.error = Some(Arc::new(PollError {
        kind: "silence".into(),
        message: "192.0.2.5:25565 did not answer within 3 s".into(),
    }));
    let last = silent.last.as_mut().expect("has one");
    last.is_answered = false;
    last.players = None;
    last.max = None;
    last.latency = None;
    all.into()
}

/// Returns a board with these servers and samples of some minutes.
pub(super) fn board() -> Board {
    let mut board = Board::default();
    for sample in (0..60).rev() {
        let mut all = five();
        for (at, seen) in all.iter_mut().enumerate() {
            let Some(last) = &mut seen.last else { continue };
            last.at = NOW - sample * 5_000;
            // One went up recently.
            let wave = (sample as u32 * (at as u32 + 1) / 7) % 5;
            if sample > 0 {
                last.players = last.players.map(|players| players.saturating_sub(wave));
                last.latency = last.latency.map(|latency| latency + 1_000 * wave);
            }
            if at == 3 && sample % 10 == 3 {
                last.is_answered = false;
                last.players = None;
                last.latency = None;
            }
        }
        board.see(all);
    }
    board.arrange();
    board
}

/// Returns a screen with this board, connected to its feed.
pub(super) fn screen(board: Board) -> Screen<WatchScreen> {
    let mut screen = Screen::new(WatchScreen {
        board,
        clock: || NOW,
        ..WatchScreen::default()
    });
    screen.receive(Ok(FeedUpdate::of(Vec::new())), Instant::now());
    screen
}
