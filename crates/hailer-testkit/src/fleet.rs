//! Simulated servers for page tests and for the `page` example. Each status passes through its real
//! protocol.

use hailer::Status;
use hailer::proto::model::{Extra, Roster, Rule};
use hailer::proto::testing::memory;
use hailer::proto::{
    Ask, Cookie, Direction, Epoch, Keys, Options, Player, Protocol, Step, Text, registry,
};
use hailer_monitor::health::State;
use hailer_monitor::history::{Batch, History, PlayerSession, Retention};
use hailer_monitor::sample::{Event, EventKind, Millis, PollError, Sample, ValueChange};
use hailer_monitor::server::{Origin, Server, ServerId};
use hailer_monitor::state::{LastStatus, StateTable, Update};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// Name of a hostile server and of its players: HTML that would run a script.
pub const HOSTILE: &str =
    "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>";

pub fn now() -> Millis {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis() as Millis
}

/// Returns a few dozen servers with one day of samples each.
pub fn fleet(now: Millis) -> Arc<StateTable> {
    let live = Arc::new(StateTable::default());
    let statuses = statuses();
    for (number, (name, group, protocol, status)) in statuses.iter().enumerate() {
        let id = ServerId(number as i64 + 1);
        live.set(server(id, name, group, protocol));
        let state = match number {
            7 => State::Down,
            11 => State::Unknown,
            _ => State::Up,
        };
        stands(&live, id, state, number as u64, status, now);
    }
    live
}

/// Returns an in-memory history with one day of samples for some of the servers.
pub async fn history(now: Millis) -> History {
    let history = History::open("sqlite::memory:").await.unwrap();
    let mut batch = Batch::default();
    for (id, max) in [(1, 100), (8, 500), (21, 100)] {
        let id = ServerId(id);
        let seed = id.0 as u64 - 1;
        for minute in 0..25 * 60 {
            let at = now - minute * 60_000;
            let is_out = (300..340).contains(&minute) || id.0 == 8 && minute < 12;
            let mut sample = sample(id, at, players(seed, at, max), seed);
            // The monitor was stopped here, which leaves a gap of 90 minutes.
            if (700..790).contains(&minute) {
                continue;
            }
            if is_out {
                sample = Sample {
                    is_answered: false,
                    players: None,
                    max: None,
                    latency: None,
                    resent: 1,
                    ..sample
                };
            }
            batch.samples.push(sample);
        }
        let mut event = |minutes: i64, kind| {
            batch.events.push(Event {
                server: id,
                at: now - minutes * 60_000,
                kind,
            });
        };
        event(
            339,
            EventKind::Down {
                reason: "no answer within 3 s".into(),
            },
        );
        event(300, EventKind::Up);
        let change = |from: &str, to: &str| ValueChange {
            from: Some(from.into()),
            to: Some(to.into()),
        };
        event(298, EventKind::Version(change("1.21.7", "1.21.8")));
        event(
            120,
            EventKind::Motd(change(
                "Harbour » fish",
                if id.0 == 21 {
                    HOSTILE
                } else {
                    "Harbour » fish, trade, calm seas"
                },
            )),
        );
        event(
            60,
            EventKind::Map(ValueChange {
                from: None,
                to: Some("world".into()),
            }),
        );
        for player in 0..12_i64 {
            let name = if id.0 == 21 && player == 3 {
                HOSTILE.into()
            } else {
                format!("Player_{player}")
            };
            let first = now - (player * 37 + 20) * 60_000;
            let last = (first + (player % 4 + 1) * 17 * 60_000).min(now);
            batch.sessions.push(PlayerSession {
                server: id,
                player: name,
                first,
                last,
            });
        }
    }
    history.write(&batch).await.unwrap();
    history.tidy(now, &Retention::default()).await.unwrap();
    history
}

/// Returns `count` servers of one kind.
pub fn crowd(count: i64, now: Millis) -> Arc<StateTable> {
    let live = Arc::new(StateTable::default());
    let (_, _, _, status) = &statuses()[0];
    let last_status = Arc::new(last_status(
        registry::find("minecraft-query").unwrap(),
        status,
        now,
    ));
    for id in 1..=count {
        let group = format!("group {}", id % 40);
        live.set(server(
            ServerId(id),
            &format!("crowd-{id}"),
            &group,
            "minecraft-query",
        ));
        live.change(Update::of(vec![ServerId(id)]), |row| {
            row.state = if id % 50 == 0 { State::Down } else { State::Up };
            row.since = now - id * 1_000;
            row.last_status = Some(last_status.clone());
            row.last_sample = Some(sample(ServerId(id), now, (id * 7 % 90) as u32, id as u64));
            for half_hour in 0..48 {
                let players = (id + half_hour) * 13 % 2_000;
                row.day.add(
                    now - half_hour * 1_800_000,
                    1_800_000,
                    1_800_000,
                    players as f32 / 30.0,
                );
            }
        });
    }
    live
}

pub fn server(id: ServerId, name: &str, group: &str, protocol: &str) -> Server {
    let mut labels = BTreeMap::new();
    if id.0 % 5 == 0 {
        labels.insert("region".to_owned(), "north".to_owned());
    }
    Server {
        id,
        name: name.into(),
        target: format!("{protocol}://{name}.example.com"),
        group: group.into(),
        labels,
        interval: None,
        origin: Origin::Configuration,
    }
}

/// Returns the number of players at a time. It follows a daily rhythm.
pub fn players(seed: u64, at: Millis, max: u32) -> u32 {
    let hour = (at % 86_400_000) as f64 / 3_600_000.0 + (seed % 5) as f64;
    let tide = ((hour - 11.0) / 24.0 * std::f64::consts::TAU).cos() * -0.35 + 0.5;
    let wave = ((at / 600_000) as f64 * 0.7 + seed as f64).sin() * 0.06;
    let full = f64::from(max) * [0.9, 0.55, 0.3, 0.7, 0.12][seed as usize % 5];
    (full * (tide + wave)).clamp(0.0, f64::from(max)).round() as u32
}

pub fn sample(server: ServerId, at: Millis, players: u32, seed: u64) -> Sample {
    let wave = (at as f64 / 5_000_000.0 + seed as f64).sin() + (at as f64 / 700_000.0).cos() * 0.3;
    let latency = 9_000 + (seed * 7_919 % 60_000) as u32 + ((wave + 2.0) * 2_000.0) as u32;
    Sample {
        observed_ms: 0,
        server,
        at,
        is_answered: true,
        players: Some(players),
        max: Some(100),
        latency: Some(latency),
        sent: 2,
        resent: 0,
    }
}

/// Sets the state of a server and fills its last day.
pub fn stands(
    live: &StateTable,
    id: ServerId,
    state: State,
    seed: u64,
    status: &Status,
    now: Millis,
) {
    let row = live.row(id).unwrap();
    let protocol = registry::find(row.server.target.split_once("://").unwrap().0).unwrap();
    let max = status.players.max.unwrap_or(100) as u32;
    let last_status =
        (state != State::Unknown).then(|| Arc::new(last_status(protocol, status, now)));
    live.change(Update::of(vec![id]), |row| {
        row.state = state;
        row.is_flapping = seed == 19;
        row.since =
            now - [86_400_000 * 3, 7_200_000, 60_000 * 12, 86_400_000 * 40][seed as usize % 4];
        row.last_status = last_status.clone();
        if state == State::Up {
            let mut last = sample(id, now, status.players.count() as u32, seed);
            last.max = Some(max);
            row.last_sample = Some(last);
        }
        if state == State::Down {
            row.last_sample = Some(Sample {
                is_answered: false,
                players: None,
                latency: None,
                max: None,
                ..sample(id, now, 0, seed)
            });
            let error = PollError {
                kind: "silence".into(),
                message: "no answer within 3 s".into(),
            };
            row.error = Some(Arc::new(error));
        }
        for half_hour in (0..48).filter(|_| state != State::Unknown) {
            let at = now - half_hour * 1_800_000;
            let is_out = state == State::Down && half_hour < 2 || seed % 6 == 4 && half_hour == 20;
            let up_ms = if is_out { 540_000 } else { 1_800_000 };
            row.day
                .add(at, 1_800_000, up_ms, players(seed, at, max) as f32);
        }
    });
}

/// Returns the status that a client gets when it queries this server in its protocol.
pub fn last_status(protocol: &'static dyn Protocol, status: &Status, now: Millis) -> LastStatus {
    let (status, replies) = query(protocol, status);
    LastStatus {
        at: now,
        address: Some("192.0.2.7:25565".parse().unwrap()),
        protocol: Some(protocol.info().id),
        title: status.title().map(Into::into),
        motd: status.motd.clone(),
        game: status.game.clone(),
        version: status.version.clone(),
        map: status.map.clone(),
        icon: None,
        players: status
            .players
            .list
            .iter()
            .map(|player| player.name.plain().into())
            .collect(),
        answer: serde_json::to_vec(&serde_json::json!({ "status": status }))
            .unwrap()
            .into(),
        replies,
        has_password: status.has_password,
        has_anti_cheat: status.has_anti_cheat,
        bots: status.players.bots.and_then(|bots| bots.try_into().ok()),
        is_whole: status.players.roster == Roster::Whole,
        is_sample: status.players.roster == Roster::Sample,
        max: status.players.max.and_then(|max| max.try_into().ok()),
    }
}

/// Runs one query against a responder in memory. Returns the status and all replies.
fn query(protocol: &'static dyn Protocol, status: &Status) -> (Status, Vec<Box<[u8]>>) {
    let responder = protocol
        .responder(status, &Keys::new([7; 16]), &Options::default())
        .unwrap();
    let mut exchange = protocol.exchange(&Ask::default(), Cookie(7));
    let from = "127.0.0.1:9".parse().unwrap();
    let mut server = memory::Server::new(&*responder, from, Epoch(1));
    let mut replies = Vec::new();
    let step = memory::run(&mut *exchange, &mut server, |direction, bytes| {
        if direction == Direction::Reply {
            replies.push(bytes.clone().into());
        }
    });
    match step {
        Step::Done(status) => (*status, replies),
        step => panic!("{} {step:?}", protocol.info().id),
    }
}

fn statuses() -> Vec<(String, &'static str, &'static str, Status)> {
    let names = [
        (
            "harbour",
            "survival",
            "\u{A7}6\u{A7}lHarbour\u{A7}r \u{A7}7» \u{A7}bfish, trade, \u{A7}ocalm seas\u{A7}r\n\u{A7}8since 2011",
        ),
        (
            "iron-keep",
            "survival",
            "\u{A7}cIron \u{A7}4Keep \u{A7}7| \u{A7}fhard mode, no mercy",
        ),
        (
            "meadow",
            "creative",
            "\u{A7}aMeadow \u{A7}2❀ \u{A7}fbuild what you like",
        ),
        (
            "skyline",
            "creative",
            "\u{A7}x\u{A7}f\u{A7}f\u{A7}5\u{A7}5\u{A7}0\u{A7}0S\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}0\u{A7}0\u{A7}0k\u{A7}x\u{A7}f\u{A7}f\u{A7}a\u{A7}a\u{A7}0\u{A7}0y\u{A7}x\u{A7}a\u{A7}a\u{A7}f\u{A7}f\u{A7}5\u{A7}5l\u{A7}x\u{A7}5\u{A7}5\u{A7}f\u{A7}f\u{A7}a\u{A7}ai\u{A7}x\u{A7}5\u{A7}5\u{A7}a\u{A7}a\u{A7}f\u{A7}fn\u{A7}x\u{A7}a\u{A7}a\u{A7}5\u{A7}5\u{A7}f\u{A7}fe\u{A7}r plots",
        ),
        (
            "caverns",
            "survival",
            "\u{A7}5Caverns \u{A7}d\u{A7}kxx\u{A7}r\u{A7}d deep \u{A7}kxx",
        ),
        ("lobby", "network", "\u{A7}e★ Lobby ★ \u{A7}7go anywhere"),
        (
            "market",
            "network",
            "\u{A7}3Market \u{A7}nopen all night\u{A7}r \u{A7}mclosed",
        ),
        ("old-mill", "survival", "\u{A7}7Old Mill"),
        (
            "arena-1",
            "minigames",
            "\u{A7}c\u{A7}lARENA \u{A7}r\u{A7}fround every five minutes",
        ),
        (
            "arena-2",
            "minigames",
            "\u{A7}c\u{A7}lARENA \u{A7}r\u{A7}fround every five minutes",
        ),
        (
            "arena-10",
            "minigames",
            "\u{A7}c\u{A7}lARENA \u{A7}r\u{A7}ffor two",
        ),
        ("newcomer", "", "\u{A7}fnot seen yet"),
        ("liberty", "roleplay", ""),
        ("vice", "roleplay", ""),
        ("empire-bay", "roleplay", ""),
        ("freeroam", "", ""),
        ("orbis", "hytale", "Welcome to Orbis"),
        ("grove", "hytale", "Kweebecs welcome"),
        ("old-snapshot", "museum", "\u{A7}012w27a, as it was"),
        ("coast", "museum", "A museum by the sea"),
        ("hostile", "hostile", HOSTILE),
        (
            "long",
            "a group with a name that is much too long for any column",
            "A message of the day that goes on and on, past the end of the line and of the column, about a server which has nothing to say but says it at length, again and again, so that it has to be cut somewhere, and it is cut here, or maybe there, but certainly before this sentence ends, which it does not",
        ),
    ];
    let mut all = Vec::new();
    for (number, (name, group, motd)) in names.into_iter().enumerate() {
        let protocol = match number {
            12..=15 => "ugp",
            16..=17 => "onequery",
            18 => "minecraft-status",
            _ => "minecraft-query",
        };
        all.push((
            name.to_owned(),
            group,
            protocol,
            status(number as u64, name, protocol, motd),
        ));
    }
    for number in 1..=18_u64 {
        let name = format!("node-{number}");
        let motd = format!("\u{A7}7Node \u{A7}f{number} \u{A7}8of eighteen");
        let status = status(number + 40, &name, "minecraft-query", &motd);
        all.push((name, "nodes", "minecraft-query", status));
    }
    all
}

fn status(seed: u64, name: &str, protocol: &str, motd: &str) -> Status {
    let max = [100, 60, 40, 500, 24][seed as usize % 5];
    let online = players(seed, now(), max);
    let mut status = Status::default();
    status.players.max = Some(max.into());
    status.players.online = Some(online.into());
    let named = |number: u32| {
        Player::named(Text::unformatted(format!(
            "{}{number}",
            ["Ada", "Bo", "Cyd", "Dee"][number as usize % 4]
        )))
    };
    let mut list: Vec<Player> = (0..online.min(60)).map(named).collect();
    status.map = Some(["world", "harbour_2", "high_pass"][seed as usize % 3].into());
    match protocol {
        "ugp" => {
            status.name = Some(Text::unformatted(format!("[EN] {name} • roleplay")));
            status.mode = Some("Roleplay".into());
            status.game = Some("gta:iii".into());
            status.rules = vec![
                Rule {
                    key: "Owner".into(),
                    value: "A committee".into(),
                },
                Rule {
                    key: "Weather".into(),
                    value: "rain".into(),
                },
                Rule {
                    key: "Website".into(),
                    value: "https://example.com/".into(),
                },
            ];
            for (id, player) in (0_i64..).zip(&mut list) {
                player.extra.push(Extra::new("id", id));
            }
        }
        "onequery" => {
            status.name = Some(Text::unformatted(name));
            status.motd = Some(Text::unformatted(motd));
            status.version = Some("2026.11".into());
            status.map = None;
        }
        _ => {
            status.motd = Some(Text::legacy(motd));
            status.version = Some(["1.21.8", "1.20.1", "1.8.9"][seed as usize % 3].into());
            status.extra.push(Extra::new("software", "Paper on Bukkit"));
        }
    }
    if name == "hostile" {
        list.push(Player::named(Text::unformatted(
            "<b>Mallory</b>\u{202E}gnp",
        )));
        status.version = Some("\"><script>document.title='owned'</script>".into());
        status.map = Some("</title><script>document.title='owned'</script>".into());
    }
    status.players.set_list(list);
    status.players.online = Some(online.into());
    status
}
