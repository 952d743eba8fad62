//! Queries with the options, results and errors of node-gamedig.
//!
//! Programs that were written for node-gamedig, such as LinuxGSM, read these results unchanged. The
//! command `hailer gamedig` and the JavaScript package use this module.
//!
//! In: [`GamedigOptions`]. Out: a [`GamedigState`], or a [`GamedigError`].
//!
//! ```no_run
//! use hailer::client::gamedig::{Gamedig, GamedigOptions};
//!
//! # async fn example() -> Result<(), hailer::client::gamedig::GamedigError> {
//! let mut options = GamedigOptions::default();
//! options.kind = "valheim".into();
//! options.host = "192.0.2.7".into();
//! let state = Gamedig::default().query(&options).await?;
//! println!("{}: {} of {} players", state.name, state.numplayers, state.maxplayers);
//! # Ok(()) }
//! ```
//!
//! May import: `crate::answer`, `crate::client`, `crate::client::answers`,
//! `crate::client::detection`, `crate::client::shared`, `crate::error`, `crate::names`,
//! `crate::support`, `crate::target`, `hailer_proto`.

mod error;
mod ids;
mod options;
mod raw;
mod state;

pub use error::GamedigError;
pub use ids::is_known;
pub use options::GamedigOptions;
pub use state::{GamedigPlayer, GamedigState};

use self::ids::Kind;
use super::answers::Answers;
use super::detection::{Detection, StartedWave};
use super::shared::SharedSockets;
use super::{Client, ClientConfig, QueryLimits};
use crate::error::Error;
use crate::names::NameResolver;
use crate::target::{Host, Target, TargetError};
use hailer_proto::games::Game;
use hailer_proto::model::Roster;
use hailer_proto::{Ask, registry};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Protocols of the type `minecraft`.
const MINECRAFT: [&str; 3] = ["minecraft-status", "minecraft-query", "minecraft-bedrock"];
/// Games whose rules node-gamedig always requests.
const WITH_RULES: [&str; 3] = ["battalion", "squad-a2s", "soulmask"];
/// Largest number of repetitions of a request.
const MAX_RETRIES: u32 = 100;

/// Queries servers as node-gamedig does.
#[derive(Default)]
pub struct Gamedig {
    listen_udp_port: u16,
    names: Arc<NameResolver>,
    shared: Arc<SharedSockets>,
}

impl fmt::Debug for Gamedig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gamedig")
            .field("listen_udp_port", &self.listen_udp_port)
            .finish_non_exhaustive()
    }
}

/// A query that is ready to start.
struct Prepared {
    client: Client,
    target: Target,
    /// Whether the type is `minecraft`, which means three protocols.
    is_minecraft: bool,
}

impl Gamedig {
    /// Creates a client that sends datagrams from this local port, `listenUdpPort`; 0 means any.
    pub fn new(listen_udp_port: u16) -> Self {
        Self {
            listen_udp_port,
            ..Self::default()
        }
    }

    /// Queries a server.
    ///
    /// # Errors
    /// The type is unknown, or there is no answer.
    pub async fn query(&self, options: &GamedigOptions) -> Result<GamedigState, GamedigError> {
        let kind = ids::find(&options.kind)?;
        let failed = |cause| GamedigError::Failed {
            attempts: attempts(kind, options),
            cause: Box::new(cause),
        };
        let prepared = self.prepare(kind, options).map_err(failed)?;
        let answers = prepared.run().await.map_err(failed)?;
        if let Some(missing) = missing(&answers, options) {
            return Err(GamedigError::Missing {
                attempts: attempts(kind, options),
                missing,
            });
        }
        Ok(if prepared.is_minecraft {
            GamedigState::of_minecraft(&answers, options)
        } else {
            GamedigState::new(answers.best(), &prepared.target, options)
        })
    }

    /// Builds client and target.
    fn prepare(&self, kind: Kind, options: &GamedigOptions) -> Result<Prepared, Error> {
        let mut target = target(options)?;
        let mut is_minecraft = false;
        match kind {
            Kind::Game(game) => target = target.with_game(game)?,
            Kind::Protocol(protocol) => target = target.with_protocol(protocol),
            Kind::Minecraft(game) => {
                is_minecraft = true;
                // The other protocols are queried at the port of this game.
                target.game = Some(game);
                target.protocol = registry::find(MINECRAFT[0]);
            }
        }
        let id = target.protocol.map_or("", |protocol| protocol.info().id);
        let mut ask = Ask {
            has_players: options.has_players || options.needs_players,
            has_rules: has_rules(id, target.game, options),
            ..Ask::default()
        };
        let token = options.token.as_ref().or(options.password.as_ref());
        ask.auth_token = token.map(|token| token.clone().into());
        if options.address.is_some() {
            ask.to.host = options.host.as_str().into();
        }
        let mut is_port_exact = options.is_port_exact;
        if let Some(port) = voice_query_port(id, options) {
            ask.to.game_port = target
                .port
                .or(target.game.and_then(|game| game.port))
                .unwrap_or(0);
            target.port = Some(port);
            is_port_exact = true;
        }
        let config = ClientConfig {
            ask,
            limits: limits(options),
            source: self.source(options.ip_family),
            is_port_exact,
            ..ClientConfig::default()
        };
        let client = Client {
            config,
            names: Arc::clone(&self.names),
            shared: Arc::clone(&self.shared),
        };
        Ok(Prepared {
            client,
            target,
            is_minecraft,
        })
    }

    /// Returns the local address, which determines the IP version.
    fn source(&self, ip_family: u8) -> Option<SocketAddr> {
        let port = self.listen_udp_port;
        match ip_family {
            6 => Some((Ipv6Addr::UNSPECIFIED, port).into()),
            0 if port == 0 => None,
            _ => Some((Ipv4Addr::UNSPECIFIED, port).into()),
        }
    }
}

impl Prepared {
    async fn run(&self) -> Result<Answers, Error> {
        let Self { client, target, .. } = self;
        if !self.is_minecraft {
            return client.in_waves(target, &client.config.ask).await;
        }
        let protocols = MINECRAFT.into_iter().filter_map(registry::find).collect();
        let waves = vec![StartedWave::only(protocols)];
        let detection = Detection::unlimited(None);
        client
            .in_protocols(target, waves, &detection, &client.config.ask)
            .await
    }
}

/// Builds the target without its game.
fn target(options: &GamedigOptions) -> Result<Target, Error> {
    let port = match options.port.map(u16::try_from) {
        None => None,
        Some(Ok(port)) => Some(port),
        Some(Err(_)) => {
            let port = options.port.unwrap_or_default();
            let problem = format!("{port} is no port: expected 1 to 65535");
            return Err(TargetError::new(&options.host, problem).into());
        }
    };
    if let Some(guild) = &options.guild {
        return Ok(Target {
            game: None,
            protocol: None,
            host: Host::Name(guild.clone()),
            port,
        });
    }
    let host = options.address.as_ref().unwrap_or(&options.host);
    if host.contains("://") {
        let problem = "a host has no game or protocol here: use `type`".into();
        return Err(TargetError::new(host, problem).into());
    }
    let target: Target = host.parse()?;
    Ok(Target {
        port: port.or(target.port),
        ..target
    })
}

/// Returns whether to request rules. Only those of A2S are optional: many of its servers do not send
/// any, which takes time to find out.
fn has_rules(protocol: &str, game: Option<&Game>, options: &GamedigOptions) -> bool {
    let is_needed = game.is_some_and(|game| WITH_RULES.contains(&game.id));
    protocol != "a2s" || is_needed || options.has_rules || options.needs_rules
}

/// Returns the port of TeamSpeak's queries: the target has that of the voice server.
fn voice_query_port(protocol: &str, options: &GamedigOptions) -> Option<u16> {
    let info = registry::find(protocol)?.info();
    let is_voice = matches!(protocol, "teamspeak2" | "teamspeak3");
    is_voice.then(|| options.teamspeak_query_port.unwrap_or(info.port))
}

/// Converts the times. Requests are repeated once within the time for a reply, because datagrams can
/// get lost.
fn limits(options: &GamedigOptions) -> QueryLimits {
    let tries = options.tries.max(1);
    QueryLimits {
        timeout: options.socket_timeout / 2,
        retries: tries.saturating_mul(2).saturating_sub(1).min(MAX_RETRIES),
        deadline: options.attempt_timeout.saturating_mul(tries),
        ..QueryLimits::default()
    }
}

/// Returns the number of tries that node-gamedig would count: each port, as often as the options
/// say.
fn attempts(kind: Kind, options: &GamedigOptions) -> u32 {
    let port = options.port.and_then(|port| u16::try_from(port).ok());
    let ports = match kind {
        Kind::Game(game) if !options.is_port_exact => game.query_ports(port).len(),
        _ => 1,
    };
    u32::try_from(ports.max(1)).unwrap_or(1) * options.tries.max(1)
}

/// Returns what the options require and the answer lacks.
fn missing(answers: &Answers, options: &GamedigOptions) -> Option<&'static str> {
    let status = &answers.best().status;
    if options.needs_players && status.players.roster == Roster::Absent {
        return Some("the list of players");
    }
    let has_rules = !status.rules.is_empty();
    (options.needs_rules && !has_rules).then_some("the rules")
}
