//! `hailer world`: a Minecraft game server of 1.2.5 to 1.3.2.

use crate::args::World;
use crate::exit::Exit;
use crate::log::limiter;
use crate::print::line;
use crate::service::stopped;
use hailer::minecraft::game::server::{GameServerConfig, ServerEvent};
use hailer::minecraft::{GameServer, GameServerError};
use hailer::proto::minecraft_status;
use hailer::proto::model::Text;
use hailer::proto::model::colored;
use hailer::proto::wire::counted;
use std::io::Write;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use tokio::sync::mpsc;
use tracing::{info, warn};

/// Maximum number of log lines about the game per second, since players cause them.
const LINES_PER_SECOND: NonZeroU32 = NonZeroU32::new(20).unwrap();
/// Maximum width of such a line, in columns.
const LINE_WIDTH: usize = 160;

fn config(args: &World) -> GameServerConfig {
    let mut config = GameServerConfig::default();
    config.build = args.build.unwrap_or(config.build);
    config.is_build_only = args.only_build;
    config.world = args.world.unwrap_or(config.world);
    config.seed = args.world_seed.unwrap_or(config.seed);
    config.mode = args.game_mode.unwrap_or(config.mode);
    config.view_distance = args.view_distance.unwrap_or(config.view_distance);
    config.encryption = args.encryption.unwrap_or(config.encryption);
    config.max_players = args.max_players.unwrap_or(config.max_players);
    if let Some(motd) = &args.motd {
        // The list ping carries one line without formatting codes (spec/minecraft-12w.md#6.1).
        config.motd = Text::legacy(colored(motd)).plain();
    }
    config
}

pub(crate) async fn run(args: World) -> anyhow::Result<Exit> {
    args.log.start();
    let config = config(&args);
    let build = config.build;
    let also = if config.accepts_1_2_5() && build.protocol() != 29 {
        " and 1.2.5"
    } else {
        ""
    };
    let mut listen = args.listen;
    if listen.is_empty() {
        listen.push((Ipv4Addr::LOCALHOST, minecraft_status::PORT).into());
    }
    let mut server = GameServer::bind(&listen, config).await.map_err(|error| match error {
        GameServerError::Listen { address, error } => anyhow::Error::from(error).context(format!(
            "cannot listen on {address} (choose another address with --listen; port 0 takes a free one)"
        )),
        error => error.into(),
    })?;
    let addresses = server.local_addrs()?;
    let mut out = crate::print::stdout();
    for address in &addresses {
        writeln!(
            out,
            "listening on {address} for {}, build {build}{also}",
            crate::values::GAME
        )?;
    }
    out.flush()?;
    for address in addresses
        .iter()
        .filter(|address| !address.ip().is_loopback())
    {
        warn!(
            "other machines can join {address}; accounts are not checked, so players can use any name"
        );
    }
    info!("Ctrl-C stops");
    let log = server.events().map(|events| tokio::spawn(log(events)));
    server.run(stopped(args.r#for)).await;
    if let Some(log) = log {
        log.await?;
    }
    Ok(Exit::Success)
}

/// Logs events at a limited rate, since players cause them.
async fn log(mut events: mpsc::Receiver<ServerEvent>) {
    let limiter = limiter(LINES_PER_SECOND, LINES_PER_SECOND);
    let mut suppressed = 0_u64;
    while let Some(event) = events.recv().await {
        if matches!(event, ServerEvent::Pinged { .. }) {
            continue;
        }
        if limiter.check().is_err() {
            suppressed += 1;
            continue;
        }
        if suppressed > 0 {
            warn!("suppressed {}", counted(suppressed, "more line"));
            suppressed = 0;
        }
        info!("{}", line(&event.to_string(), LINE_WIDTH));
    }
}
