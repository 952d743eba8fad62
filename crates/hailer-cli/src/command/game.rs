//! `hailer serve --protocol minecraft-12w`: the game itself.

use super::serve::over;
use crate::args::Serve;
use crate::config::coloured;
use crate::exit::{Exit, usage};
use crate::print::{line, tell};
use hailer::game::server::{GameServerConfig, ServerEvent};
use hailer::minecraft::{GameServer, GameServerError};
use hailer::proto::minecraft_12w::Minecraft12w;
use hailer::proto::model::Text;
use hailer::proto::{Protocol, Transport};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Lines of log a second; what is more is only counted.
const LINES: u32 = 20;
/// Columns of such a line.
const WIDTH: usize = 160;

/// A game server to be started.
pub(crate) struct Plan {
    addresses: Vec<SocketAddr>,
    settings: GameServerConfig,
}

/// What the flags ask for, if it is the game.
pub(crate) fn plan(args: &Serve) -> anyhow::Result<Option<Plan>> {
    let info = Minecraft12w.info();
    let id = info.id;
    if !args
        .protocol
        .iter()
        .any(|protocol| protocol.info().transport == Transport::Stream)
    {
        return match game_flag(args) {
            Some(flag) => usage!("{flag} is for the game server; add --protocol {id}"),
            None => Ok(None),
        };
    }
    if args
        .protocol
        .iter()
        .any(|protocol| protocol.info().id != id)
    {
        usage!(
            "{id} is the game itself, over TCP, and is served alone; start hailer serve again for the others"
        );
    }
    if let Some(flag) = status_flag(args) {
        usage!("{flag} says nothing to the game server of {id}; leave it out");
    }
    let mut settings = GameServerConfig::default();
    let flags = &args.game_server;
    settings.build = flags.build.unwrap_or(settings.build);
    settings.only_build = flags.only_build;
    settings.world = flags.world.unwrap_or(settings.world);
    settings.seed = flags.world_seed.unwrap_or(settings.seed);
    settings.mode = flags.game_mode.unwrap_or(settings.mode);
    settings.view_distance = flags.view_distance.unwrap_or(settings.view_distance);
    settings.encryption = flags.encryption.unwrap_or(settings.encryption);
    if let Some(motd) = &args.motd {
        // One line without codes is all that the list ping holds (spec/minecraft-12w.md#6.1).
        settings.motd = Text::legacy(coloured(motd)).plain();
    }
    if let Some(most) = args.max_players {
        match u16::try_from(most) {
            Ok(most @ 1..=255) => settings.max_players = most,
            _ => usage!("--max-players {most}: write a number from 1 to 255"),
        }
    }
    let mut addresses = Vec::new();
    for text in &args.listen {
        let address = text
            .strip_prefix(id)
            .and_then(|text| text.strip_prefix('='))
            .unwrap_or(text);
        let ip = address
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>();
        match address
            .parse()
            .or_else(|_| ip.map(|ip| (ip, info.port).into()))
        {
            Ok(address) => addresses.push(address),
            Err(_) => usage!("listen {text:?}: write ADDRESS, ADDRESS:PORT or {id}=ADDRESS:PORT"),
        }
    }
    if addresses.is_empty() {
        addresses.push((Ipv4Addr::LOCALHOST, info.port).into());
    }
    Ok(Some(Plan {
        addresses,
        settings,
    }))
}

/// A flag that only the game server has.
fn game_flag(args: &Serve) -> Option<&'static str> {
    let flags = &args.game_server;
    let given = [
        (flags.build.is_some(), "--build"),
        (flags.only_build, "--only-build"),
        (flags.world.is_some(), "--world"),
        (flags.world_seed.is_some(), "--world-seed"),
        (flags.game_mode.is_some(), "--game-mode"),
        (flags.view_distance.is_some(), "--view-distance"),
        (flags.encryption.is_some(), "--encryption"),
    ];
    given
        .into_iter()
        .find(|(given, _)| *given)
        .map(|(_, flag)| flag)
}

/// A flag that invents a status: that of the game server is true.
fn status_flag(args: &Serve) -> Option<&'static str> {
    let given = [
        (args.demo, "--demo"),
        (args.name.is_some(), "--name"),
        (args.game.is_some(), "--game"),
        (args.mode.is_some(), "--mode"),
        (args.map.is_some(), "--map"),
        (args.game_version.is_some(), "--game-version"),
        (!args.player.is_empty(), "--player"),
        (!args.rule.is_empty(), "--rule"),
        (!args.option.is_empty(), "--option"),
    ];
    given
        .into_iter()
        .find(|(given, _)| *given)
        .map(|(_, flag)| flag)
}

pub(crate) async fn serve(plan: Plan, time: Option<Duration>) -> anyhow::Result<Exit> {
    let build = plan.settings.build;
    let beside = if plan.settings.speaks_old() && build.protocol() != 29 {
        " and 1.2.5"
    } else {
        ""
    };
    let mut server = GameServer::bind(&plan.addresses, plan.settings).await.map_err(|error| match error {
        GameServerError::Listen { address, error } => anyhow::Error::from(error).context(format!(
            "cannot listen on {address} (--listen ADDRESS:PORT chooses another; port 0 takes any free one)"
        )),
        error => error.into(),
    })?;
    let addresses = server.local_addrs()?;
    let mut out = anstream::stdout();
    for address in &addresses {
        writeln!(
            out,
            "listening on {address} for {}, build {build}{beside}",
            Minecraft12w.info().id
        )?;
    }
    out.flush()?;
    for address in addresses
        .iter()
        .filter(|address| !address.ip().is_loopback())
    {
        tell!(
            "\x1b[33mnote:\x1b[0m other machines can join {address}; accounts are not checked, so anybody can take any name"
        );
    }
    tell!("\x1b[2mCtrl-C stops.\x1b[0m");
    let log = server.events().map(|events| tokio::spawn(log(events)));
    server.run(over(time)).await;
    if let Some(log) = log {
        log.await?;
    }
    Ok(Exit::Success)
}

/// Writes what happens, at a bounded rate: who can make lines must not fill a disk.
async fn log(mut events: mpsc::Receiver<ServerEvent>) {
    let (mut second, mut lines, mut more) = (Instant::now(), 0, 0_u64);
    while let Some(event) = events.recv().await {
        if second.elapsed() >= Duration::from_secs(1) {
            if more > 0 {
                tell!("\x1b[2m{more} lines more\x1b[0m");
            }
            (second, lines, more) = (Instant::now(), 0, 0);
        }
        if matches!(event, ServerEvent::Pinged { .. }) {
            continue;
        }
        lines += 1;
        match lines <= LINES {
            true => tell!("{}", line(&event.to_string(), WIDTH)),
            false => more += 1,
        }
    }
}
