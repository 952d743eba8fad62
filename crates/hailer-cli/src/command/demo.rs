//! `hailer demo`: responders and clients on this machine, over real sockets.
//!
//! In: a seed. Out: answers of simulated servers, as text.
//!
//! May import: `crate::args`, `crate::exit`, `crate::print`, `crate::simulated`, `hailer`.

#[cfg(feature = "game")]
mod game;

use crate::args::Demo;
use crate::exit::Exit;
use crate::print::{table, view};
use crate::simulated::population::{MAX_PLAYERS, Population};
use hailer::proto::wire::counted;
use hailer::proto::{Protocol, registry};
use hailer::respond::{Board, Budget, Service};
use hailer::{Answer, Client, Error, Status, Target};
use std::cmp::Ordering;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::UdpSocket;

/// Protocols whose answers are shown in full: players have scores and times in them.
const IN_FULL: [&str; 2] = ["a2s", "quake1"];
/// Number of players of the servers that are shown in full.
const FULL_PLAYERS: usize = 3;

/// A target, and its answer or error.
type Row = (String, Result<Answer, Error>);

pub(crate) async fn run(args: Demo) -> anyhow::Result<Exit> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut out = crate::print::stdout();
    let client = Client::default();
    let mut rows: Vec<Row> = Vec::new();
    for (protocol, number) in registry::datagram_responders().zip(0..) {
        let info = protocol.info();
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let target: Target = format!("{}://{}", info.id, socket.local_addr()?).parse()?;
        let seed = args.seed.wrapping_add(number);
        let board = Board::new(&[protocol], &status(protocol, seed, now))?;
        let mut service = Service::new(board, Budget::default());
        let asked = target.to_string();
        let end = tokio::select! {
            end = client.query(target) => end,
            () = service.run(&socket) => unreachable!("a service runs until dropped"),
        };
        rows.push((asked, end));
    }
    let exit = if rows.iter().all(|(_, end)| end.is_ok()) {
        Exit::Success
    } else {
        Exit::Partial
    };
    writeln!(out, "{}", summary(&rows))?;
    table::simulated(&mut out, &rows)?;
    writeln!(out)?;
    for (asked, end) in &rows {
        if let Ok(answer) = end
            && IN_FULL.contains(&answer.transcript.protocol.id)
        {
            // Without its empty lines, so that everything fits a screen.
            let mut text = Vec::new();
            view::answer(&mut text, asked, answer, &[], true)?;
            let lines = text.split_inclusive(|byte| *byte == b'\n');
            for line in lines.filter(|line| line.len() > 1) {
                out.write_all(line)?;
            }
        }
    }
    writeln!(out)?;
    #[cfg(feature = "game")]
    let exit = exit.max(game::run(&mut out, &client, args.seed).await?);
    try_next(&mut out)?;
    Ok(exit)
}

/// Returns the status of a simulated server.
fn status(protocol: &dyn Protocol, seed: u64, now: u64) -> Status {
    let mut status = protocol.sample(seed);
    let mut players = Population { seed }.players(now);
    if IN_FULL.contains(&protocol.info().id) {
        // Short enough for a screen. QuakeWorld sends times in minutes, so the longest are shown.
        players.sort_by(|a, b| b.time_s.partial_cmp(&a.time_s).unwrap_or(Ordering::Equal));
        players.truncate(FULL_PLAYERS);
        status.rules.clear();
        status.extra.clear();
        (status.version, status.mode) = (None, None);
        (status.has_password, status.has_anti_cheat) = (None, None);
    }
    status.players.max = Some(MAX_PLAYERS);
    status.players.online = i64::try_from(players.len()).ok();
    status.players.set_list(players);
    status
}

/// Describes the servers in a sentence.
fn summary(rows: &[Row]) -> String {
    let answers: Vec<&Answer> = rows
        .iter()
        .filter_map(|(_, end)| end.as_ref().ok())
        .collect();
    let players = answers
        .iter()
        .filter_map(|answer| answer.status.players.online);
    let players = u64::try_from(players.sum::<i64>()).unwrap_or(0);
    let slowest = answers.iter().map(|answer| answer.latency).max();
    format!(
        "{} on this machine, one for each protocol over UDP. {} replied, with {}, within {:.2} ms:",
        counted(rows.len() as u64, "simulated server"),
        answers.len(),
        counted(players, "player"),
        slowest.unwrap_or_default().as_secs_f64() * 1e3
    )
}

/// Proposes commands.
fn try_next(out: &mut impl Write) -> std::io::Result<()> {
    let hailer = std::env::args().next().unwrap_or_else(|| "hailer".into());
    let own = [
        (
            "serve --demo",
            "simulated servers, until Ctrl-C; then, in another terminal:",
        ),
        (
            "query 127.0.0.1 --all",
            "all their protocols; --json is for programs, --raw shows every byte",
        ),
        #[cfg(feature = "game")]
        (
            "world",
            "a small Minecraft server; then, in another terminal:",
        ),
        #[cfg(feature = "game")]
        (
            "join 127.0.0.1 --for 10s --map map.png",
            "a player, and a map of the surroundings",
        ),
    ];
    let own = own.map(|(command, help)| (format!("{hailer} {command}"), help));
    let mut proposals = Vec::from(own);
    if cfg!(not(feature = "game")) {
        // The alias of the demo takes no features.
        let command = "cargo run -p hailer-cli --no-default-features --features game -- demo";
        proposals.push((command.into(), "a Minecraft server and a player too"));
    }
    writeln!(out, "\x1b[1mTry next\x1b[0m")?;
    for (command, help) in proposals {
        writeln!(out, "  \x1b[36m{command}\x1b[0m  # {help}")?;
    }
    Ok(())
}
