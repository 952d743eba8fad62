//! `hailer demo`: responders and clients on this machine, over real sockets.
//!
//! In: a seed. Out: answers of simulated servers, as text.
//!
//! May import: `crate::args`, `crate::exit`, `crate::print`, `crate::simulated`, `hailer`.

#[cfg(feature = "game")]
mod game;

use crate::args::Demo;
use crate::exit::Exit;
use crate::print::view;
use crate::simulated::population::Population;
use hailer::proto::registry;
use hailer::respond::{Board, Budget, Service};
use hailer::{Client, Target};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::UdpSocket;

pub(crate) async fn run(args: Demo) -> anyhow::Result<Exit> {
    let population = Population { seed: args.seed };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut out = crate::print::stdout();
    writeln!(
        out,
        "Starting a server for each protocol on this machine, and querying it over loopback.\n"
    )?;
    let client = Client::default();
    let mut exit = Exit::Success;
    for protocol in registry::datagram_responders() {
        let info = protocol.info();
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let target: Target = format!("{}://{}", info.id, socket.local_addr()?).parse()?;
        let board = Board::new(&[protocol], &population.status(protocol, now))?;
        let mut service = Service::new(board, Budget::default());
        let asked = target.to_string();
        let end = tokio::select! {
            end = client.query(target) => end,
            () = service.run(&socket) => unreachable!("a service runs until dropped"),
        };
        match end {
            Ok(answer) => view::answer(&mut out, &asked, &answer, &[], true)?,
            Err(error) => {
                exit = Exit::Partial;
                view::failure(&mut out, &asked, &error, &[])?;
            }
        }
    }
    #[cfg(feature = "game")]
    {
        exit = exit.max(game::run(&mut out, &client, args.seed).await?);
    }
    let hailer = std::env::args().next().unwrap_or_else(|| "hailer".into());
    writeln!(out, "\x1b[1mTry next\x1b[0m")?;
    for (command, help) in [
        (
            "serve --demo",
            "simulated servers, until Ctrl-C; then, in another terminal:",
        ),
        ("query 127.0.0.1", "query every protocol"),
        (
            "query 127.0.0.1 --protocol minecraft-query --raw",
            "every byte of it, explained",
        ),
        ("query 127.0.0.1 --json", "for programs"),
        ("ping 127.0.0.1", "round trip times"),
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
        ("decode fefd0900000001", "explain these bytes"),
        ("query play.example.com", "your server"),
    ] {
        writeln!(out, "  \x1b[36m{hailer} {command}\x1b[0m\n      {help}")?;
    }
    if cfg!(not(feature = "game")) {
        writeln!(
            out,
            "\nThis build lacks the game protocol. With it: cargo run --features game -- demo"
        )?;
    }
    Ok(exit)
}
