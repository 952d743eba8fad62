//! The part of the demo that serves, queries and joins a game.
//!
//! In: a running server of the game. Out: lines about its events.
//!
//! May import: `crate::exit`, `crate::print`, `hailer`.

use crate::exit::Exit;
use crate::print::view;
use anstream::ColorChoice;
use anyhow::Context;
use hailer::minecraft::game::client::ClientEvent;
use hailer::minecraft::game::map::{self, AsciiView};
use hailer::minecraft::game::server;
use hailer::minecraft::{GameServer, Join, JoinError, join};
use hailer::{Client, Target};
use std::io::Write;

/// Runs a game server, queries it and joins it.
pub(super) async fn run(out: &mut impl Write, client: &Client, seed: u64) -> anyhow::Result<Exit> {
    let config = server::GameServerConfig {
        seed,
        view_distance: 5,
        motd: "A small world".into(),
        ..Default::default()
    };
    let server = GameServer::bind(&["127.0.0.1:0".parse()?], config).await?;
    let address = server
        .local_addrs()?
        .first()
        .copied()
        .context("a server listens somewhere")?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async move { drop(stopped.await) }));

    let target: Target = format!("minecraft-status://{address}").parse()?;
    let asked = target.to_string();
    let mut exit = Exit::Success;
    match client.query(target.clone()).await {
        Ok(answer) => view::answer(out, &asked, &answer, &[], true)?,
        Err(error) => {
            exit = Exit::Partial;
            view::failure(out, &asked, &error, &[])?;
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
    let color = anstream::AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
    let map = map::ascii(
        game.world(),
        &AsciiView {
            center: (x, z),
            width: 56,
            height: 18,
            scale: 2,
            has_color: color,
        },
    );
    session.leave().await?;
    Ok(map)
}
