//! `hailer demo`: responders and clients on this machine, over real sockets.

use crate::args::Demo;
use crate::exit::Exit;
use crate::population::Population;
use crate::print::view;
use anstream::ColorChoice;
use anyhow::Context;
use hailer::game::client::ClientEvent;
use hailer::game::map::{self, AsciiView};
use hailer::game::server;
use hailer::minecraft::{GameServer, Join, JoinError, join};
use hailer::respond::{Board, Budget, Service};
use hailer::{Client, Target, registry};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::UdpSocket;

pub(crate) async fn run(args: Demo) -> anyhow::Result<Exit> {
    let population = Population { seed: args.seed };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut out = anstream::stdout();
    writeln!(
        out,
        "Starting a server for each protocol on this machine, and querying it over loopback.\n"
    )?;
    let client = Client::default();
    let mut exit = Exit::Success;
    for protocol in registry::datagram() {
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
                view::failure(&mut out, &asked, &error)?;
            }
        }
    }
    exit = exit.max(game(&mut out, &client, args.seed).await?);
    let hailer = std::env::args().next().unwrap_or_else(|| "hailer".into());
    writeln!(out, "\x1b[1mTry next\x1b[0m")?;
    for (command, what) in [
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
        (
            "serve --protocol minecraft-12w",
            "a small Minecraft server; then, in another terminal:",
        ),
        (
            "join 127.0.0.1 --for 10s --map map.png",
            "a player, and a map of the surroundings",
        ),
        ("decode fefd0900000001", "explain these bytes"),
        ("query play.example.com", "your server"),
    ] {
        writeln!(out, "  \x1b[36m{hailer} {command}\x1b[0m\n      {what}")?;
    }
    Ok(exit)
}

/// Runs a game server, queries it and joins it.
async fn game(out: &mut impl Write, client: &Client, seed: u64) -> anyhow::Result<Exit> {
    let settings = server::GameServerConfig {
        seed,
        view_distance: 5,
        motd: "A small world".into(),
        ..Default::default()
    };
    let server = GameServer::bind(&["127.0.0.1:0".parse()?], settings).await?;
    let address = server
        .local_addrs()?
        .first()
        .copied()
        .context("a server listens somewhere")?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async move { drop(stopped.await) }));

    let target: Target = format!("minecraft-12w://{address}").parse()?;
    let asked = target.to_string();
    let mut exit = Exit::Success;
    match client.query(target.clone()).await {
        Ok(answer) => view::answer(out, &asked, &answer, &[], true)?,
        Err(error) => {
            exit = Exit::Partial;
            view::failure(out, &asked, &error)?;
        }
    }
    match look_around(&target).await {
        Ok(map) => writeln!(
            out,
            "Joining it; map of the surroundings, 2 blocks per character:\n\n{map}"
        )?,
        Err(error) => {
            exit = Exit::Partial;
            writeln!(out, "Joining it failed: {error}\n")?;
        }
    }
    drop(stop);
    running.await?;
    Ok(exit)
}

/// Joins a game, waits for the surrounding columns, and draws them.
async fn look_around(target: &Target) -> Result<String, JoinError> {
    let mut session = join(target, Join::default()).await?;
    while !matches!(session.next().await?, ClientEvent::Surrounded { .. }) {}
    let game = session.client().game();
    let [x, _, z] = game
        .player
        .position
        .unwrap_or_default()
        .feet
        .map(|at| at.floor() as i32);
    let colour = anstream::AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
    let map = map::ascii(
        game.world(),
        &AsciiView {
            centre: (x, z),
            width: 56,
            height: 18,
            scale: 2,
            colour,
        },
    );
    session.leave().await?;
    Ok(map)
}
