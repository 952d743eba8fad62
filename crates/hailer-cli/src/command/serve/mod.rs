//! `hailer serve`: replies to queries.
//!
//! ```text
//!   ServeConfig ─► Generation: a board per address, and tasks that publish on the boards
//!                      │ SIGHUP: a new Generation takes over keys, last statuses and networks
//!                      ▼
//!   ResponderPool ◄─ boards    ObservedServe ─► control socket, metrics
//! ```
//!
//! May import: `crate::activation`, `crate::args`, `crate::command`, `crate::config`,
//! `crate::exit`, `crate::files`, `crate::http_client`, `crate::log`, `crate::observe`,
//! `crate::print`, `crate::service`, `crate::system`, `hailer`, `hailer_monitor`.

mod action;
mod door;
mod hook;
#[cfg_attr(not(feature = "monitor"), path = "no_notify.rs")]
mod notify;
mod observed;
mod open_files;
pub(super) mod order;
mod sources;
pub(super) mod status;

use self::door::Doors;
use self::hook::JoinHook;
use self::notify::Notifier;
use self::observed::ObservedServe;
use self::sources::{Server, ServerBoards, Sources};
use super::block_on;
use crate::args::Serve;
use crate::config::{self, ListenConfig, ServeConfig, ServerConfig, StatusSource, announces};
use crate::exit::Exit;
use crate::service::{reason_text, stopped};
use crate::system::ReloadRequests;
use crate::{activation, observe};
use hailer::Status;
use hailer::discover::announce_minecraft;
use hailer::door::{Entrance, GameAddress, follow_address, follow_port};
use hailer::proto::minecraft_status::lan;
use hailer::proto::wire::counted;
use hailer::proto::{Keys, Transport};
use hailer::respond::{
    Board, Counts, ListenError, ListenerConfig, ListenerCounts, ResponderPool, StreamConfig,
};
use hailer::support::random_secret;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{info, warn};

/// Time between changes of a simulated server.
const DEMO_INTERVAL: Duration = Duration::from_secs(1);
/// Time between renewals of the secret of challenge tokens, unless several nodes share it.
const SECRET_INTERVAL: Duration = Duration::from_secs(3600);
/// Minimum time between summaries in the log. Summaries without changes are skipped.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Serve) -> anyhow::Result<Exit> {
    if args.example {
        write!(crate::print::stdout(), "{}", config::EXAMPLE)?;
        return Ok(Exit::Success);
    }
    let (config, warnings) = match &args.config {
        Some(path) => config::read(path)?,
        None => {
            let servers = vec![config::from_flags(args)?];
            let config = ServeConfig {
                servers,
                ..ServeConfig::default()
            };
            (config, no_status(args).into_iter().collect())
        }
    };
    args.log.start();
    if args.check_config {
        for warning in &warnings {
            warn!("{warning}");
        }
        writeln!(
            crate::print::stdout(),
            "valid: {}",
            summary_of(&config.servers)
        )?;
        return Ok(Exit::Success);
    }
    // Must be first: inherited sockets are identified by their descriptor numbers.
    let inherited = by_address(activation::activated_sockets()?);
    block_on(serve(&config, &warnings, args, &inherited))
}

/// Returns a warning if no flag describes the server.
fn no_status(args: &Serve) -> Option<String> {
    let texts = [
        &args.name,
        &args.motd,
        &args.game,
        &args.mode,
        &args.map,
        &args.game_version,
    ];
    let has_status = texts.iter().any(|text| text.is_some())
        || args.max_players.is_some()
        || !args.player.is_empty()
        || !args.rule.is_empty();
    (!has_status && !args.demo).then(|| {
        "no status, so clients see an empty server; add --name, --motd or --max-players, --demo for a simulated server, or --config FILE (hailer serve --example prints one)".to_owned()
    })
}

/// Sockets of the service manager, grouped by address.
type Inherited = [(SocketAddr, Arc<[UdpSocket]>)];

fn by_address(sockets: Vec<(SocketAddr, UdpSocket)>) -> Vec<(SocketAddr, Arc<[UdpSocket]>)> {
    let mut grouped: Vec<(SocketAddr, Vec<UdpSocket>)> = Vec::new();
    for (address, socket) in sockets {
        match grouped.iter_mut().find(|(known, _)| *known == address) {
            Some((_, sockets)) => sockets.push(socket),
            None => grouped.push((address, vec![socket])),
        }
    }
    grouped
        .into_iter()
        .map(|(address, sockets)| (address, sockets.into()))
        .collect()
}

async fn serve(
    config: &ServeConfig,
    warnings: &[String],
    args: &Serve,
    inherited: &Inherited,
) -> anyhow::Result<Exit> {
    // Must be first: SIGHUP ends a process without a handler.
    let mut reloads = ReloadRequests::listen()?;
    let servers = &config.servers;
    let few_files = open_files::raise_limit(servers, &config.engine);
    let mut generation = Generation::new(servers, None, inherited)?;
    let pool = ResponderPool::start(generation.listeners.clone(), &config.engine);
    let pool = Arc::new(pool.map_err(with_hint)?);
    let notifier = Arc::new(Notifier::new(&config.receivers));
    let problems = generation
        .open(servers, &pool, &mut Sources::default(), &notifier)
        .await?;
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem);
    }
    let observed = Arc::new(ObservedServe::new(&pool));
    observed.show(&mut generation, servers);
    let seen = observed.clone();
    let doors = observed.clone();
    let steer: observe::Steer =
        Arc::new(move |order, name| Box::pin(doors.clone().steer(order, name)));
    let observe_config = observe_config(args, &config.observe);
    let observer = observe::start(&observe_config, move || seen.snapshot(), steer)?;
    let mut out = crate::print::stdout();
    for (listener, protocols) in generation.listeners.iter().zip(protocols(servers)) {
        writeln!(out, "listening on {} for {protocols}", listener.address)?;
    }
    if let Some(address) = observer.metrics() {
        writeln!(out, "metrics at http://{address}/metrics")?;
    }
    out.flush()?;
    if let Some(addresses) = public_addresses(&pool.addresses()) {
        info!("other machines can query {addresses}");
    }
    for note in notes_on_inherited(inherited, &generation.listeners, pool.workers()) {
        warn!("{note}");
    }
    for note in warnings.iter().chain(&few_files) {
        warn!("{note}");
    }
    if let Some(note) = observer.note() {
        info!("{note}");
    }
    activation::ready("answering");
    if let Some(path) = observer.control() {
        info!(
            "`hailer top` and `hailer serve status` connect to {}",
            path.display()
        );
    }
    info!("Ctrl-C stops");
    let mut summaries = tokio::time::interval(SUMMARY_INTERVAL);
    let mut stopped = pin!(stopped(args.r#for));
    let mut reported = 0;
    loop {
        tokio::select! {
            () = &mut stopped => break,
            _ = summaries.tick() => {
                let counts = total(&pool.counts());
                let arrived = counts.received + counts.connections;
                if arrived != reported {
                    info!("{}", summary(&counts));
                    reported = arrived;
                }
                generation.sources.report_suppressed();
            }
            Some(()) = reloads.next() => {
                match reload(args, (config, inherited), &mut generation, &pool, &observed).await {
                    Ok(Some(what)) => info!("configuration reloaded: {what}"),
                    Ok(None) => warn!("there is no configuration file to reload"),
                    Err(error) => {
                        for line in format!("{error:#}").lines() {
                            warn!("{line}; keeping the old configuration");
                        }
                    }
                }
            }
        }
    }
    activation::stopping();
    generation.sources.stop().await;
    generation.sources.leave_networks().await;
    generation.sources.report_suppressed();
    drop((generation, observer, observed));
    let counts = match Arc::try_unwrap(pool) {
        Ok(pool) => total(&pool.stop()),
        Err(pool) => total(&pool.counts()),
    };
    info!("{}", summary(&counts));
    Ok(Exit::Success)
}

/// Reads the configuration again and applies it. Returns a summary, or `None` without a file.
async fn reload(
    args: &Serve,
    (running, inherited): (&ServeConfig, &Inherited),
    generation: &mut Generation,
    pool: &ResponderPool,
    observed: &ObservedServe,
) -> anyhow::Result<Option<String>> {
    let Some(path) = &args.config else {
        return Ok(None);
    };
    let (wanted, warnings) = config::read(path)?;
    let servers = &wanted.servers;
    let new = Generation::new(servers, Some(generation), inherited)?;
    let few_files = open_files::raise_limit(servers, &wanted.engine);
    pool.reload(new.requested_listeners()).map_err(with_hint)?;
    pool.configure(&wanted.engine);
    // Stop the old sources first: a new one may use the same listening address. Networks stay
    // connected.
    generation.sources.stop().await;
    let mut old = std::mem::replace(generation, new);
    let notifier = Arc::new(Notifier::new(&wanted.receivers));
    let problems = generation
        .open(servers, pool, &mut old.sources, &notifier)
        .await?;
    for problem in problems {
        warn!("{problem:#}; the other sources keep running");
    }
    observed.show(generation, servers);
    let later = needs_restart(running, &wanted, pool.workers());
    for note in warnings.into_iter().chain(few_files).chain(later) {
        warn!("{note}");
    }
    Ok(Some(summary_of(servers)))
}

/// Returns a note about changed settings that need a restart.
fn needs_restart(running: &ServeConfig, wanted: &ServeConfig, workers: usize) -> Option<String> {
    let threads = wanted.engine.threads();
    let mut changes = Vec::new();
    if threads != workers {
        changes.push(format!("workers = {threads} ({workers} now)"));
    }
    if wanted.observe != running.observe {
        changes.push("[observe]".into());
    }
    let changes = changes.join(" and ");
    (!changes.is_empty()).then(|| format!("restart hailer to apply {changes}; all else is applied"))
}

/// Returns the observer's configuration. Flags override the file.
fn observe_config(args: &Serve, file: &observe::ObserverConfig) -> observe::ObserverConfig {
    let mut config = args.observe.config();
    config.metrics = config.metrics.or(file.metrics);
    if config.control == observe::Control::Default {
        config.control = file.control.clone();
    }
    config
}

/// The boards of one configuration and the tasks that publish on them. Dropping it stops the tasks.
struct Generation {
    /// The listeners, in the order of the configuration. Once open, they have their actual ports.
    listeners: Vec<ListenerConfig>,
    /// The configuration of each listener.
    requested: Vec<ListenConfig>,
    /// Addresses of games, and the entrances that show them.
    relays: Vec<(GameAddress, Entrance)>,
    /// Further ports of games with a door: its entrance, the port, and the entrance of the port.
    ports: Vec<(Entrance, u16, Entrance)>,
    tasks: JoinSet<()>,
    sources: Sources,
    /// The games that sleep while they have no players.
    doors: Doors,
}

impl Generation {
    /// Creates the boards. A board takes over the keys of an old one with the same address, so that
    /// tokens stay valid, and starts with the last status of its source.
    fn new(
        servers: &[ServerConfig],
        old: Option<&Self>,
        inherited: &Inherited,
    ) -> anyhow::Result<Self> {
        // Several listeners may have the same address, such as port 0. Each one is taken over once.
        let mut left: Vec<_> = match old {
            Some(old) => old.requested.iter().zip(&old.listeners).collect(),
            None => Vec::new(),
        };
        let mut listeners = Vec::new();
        let mut requested = Vec::new();
        let mut relays = Vec::new();
        let mut ports = Vec::new();
        let known = old.map_or(&[][..], |old| &old.relays);
        let doors = Doors::new(servers, old.map(|old| &old.doors));
        let hooks = servers.iter().enumerate().flat_map(|(i, server)| {
            let new = |config| Arc::new(JoinHook::new(i + 1, server.name.clone(), config));
            std::iter::repeat_n(server.on_join.clone().map(new), server.listeners.len())
        });
        let indexes = servers
            .iter()
            .enumerate()
            .flat_map(|(index, server)| std::iter::repeat_n(index, server.listeners.len()));
        for (((server, listen), hook), index) in addresses(servers).zip(hooks).zip(indexes) {
            let same = left
                .iter()
                .position(|(old, _)| old.address == listen.address);
            let same = same.map(|at| left.remove(at));
            let keys = same.map(|(old, listener)| (old.secret, listener.board.keys()));
            let keys = match (keys, listen.secret) {
                (Some((_, keys)), Some(secret)) => keys.renew(secret),
                (Some((None, keys)), None) => keys,
                (Some((Some(_), keys)), None) => keys.rotate(random_secret()),
                (None, secret) => Keys::new(secret.unwrap_or_else(random_secret)),
            };
            let address = same.map_or(listen.address, |(_, listener)| listener.address);
            let status = first_status(server, listen, address.port(), old.map(|old| &old.sources));
            let board = Board::with_options(
                listen.protocols.clone(),
                keys,
                status.as_ref().unwrap_or(&Status::default()),
            )?;
            if status.is_none() {
                board.silence();
            }
            // Further ports are for datagrams.
            let game = server.relay_tcp.as_ref().filter(|_| !listen.is_further);
            board.set_stream_config(StreamConfig {
                relay: game.map(|game| way_to(game, known, &mut relays)),
                ..server.streams.clone()
            });
            if let Some(hook) = hook {
                board.on_join(move |source, attempt| hook.record(source, attempt));
            }
            let mut relay = relay_of(server, listen, known, &mut relays);
            if let Some(door) = doors.of(index) {
                if listen.is_further {
                    let entrance = Entrance::new().0;
                    ports.push((door.entrance().clone(), address.port(), entrance.clone()));
                    relay = Some(entrance);
                } else {
                    door.attach(&board, address.port());
                    let who = server.door.as_ref().and_then(|door| door.who.as_ref());
                    if let Some(who) = who {
                        board.set_refusal(&who.text)?;
                    }
                }
            }
            let sockets = inherited
                .iter()
                .find(|(address, _)| *address == listen.address);
            listeners.push(ListenerConfig {
                address,
                board,
                relay,
                inherited: sockets.map(|(_, sockets)| sockets.clone()),
            });
            requested.push(listen.clone());
        }
        let tasks = JoinSet::new();
        let sources = Sources::default();
        Ok(Self {
            listeners,
            requested,
            relays,
            ports,
            tasks,
            sources,
            doors,
        })
    }

    /// Returns the listeners with the configured addresses.
    fn requested_listeners(&self) -> Vec<ListenerConfig> {
        let with = |(listener, requested): (&ListenerConfig, &ListenConfig)| ListenerConfig {
            address: requested.address,
            ..listener.clone()
        };
        self.listeners
            .iter()
            .zip(&self.requested)
            .map(with)
            .collect()
    }

    /// Starts the tasks and sources once the ports are known. Publishes the first status of
    /// listeners whose port the system chose. Returns the sources that cannot start, with the
    /// reason.
    async fn open(
        &mut self,
        servers: &[ServerConfig],
        pool: &ResponderPool,
        old: &mut Sources,
        notifier: &Arc<Notifier>,
    ) -> anyhow::Result<Vec<anyhow::Error>> {
        let opened = self.listeners.iter_mut().zip(pool.addresses());
        for ((listener, address), (server, listen)) in opened.zip(addresses(servers)) {
            let status = first_status(server, listen, address.port(), Some(old));
            if let Some(status) = status.filter(|_| listener.address.port() == 0) {
                listener.board.publish(&status)?;
            }
            listener.address = address;
            if listen.secret.is_none() {
                self.tasks.spawn(rotate(listener.board.clone()));
            }
            let mut protocols = listen.protocols.iter();
            if server.lan_announce && protocols.any(|(protocol, _)| announces(*protocol)) {
                self.tasks.spawn(announce(listener.board.clone(), address));
            }
            if let StatusSource::Demo(_) = server.source
                && !listen.protocols.is_empty()
            {
                let server = server.clone();
                let listen = listen.clone();
                self.tasks.spawn(simulate(
                    server,
                    listen,
                    address.port(),
                    listener.board.clone(),
                ));
            }
        }
        for (address, entrance) in &self.relays {
            self.tasks.spawn(follow(address.clone(), entrance.clone()));
        }
        for (door, port, entrance) in self.ports.drain(..) {
            self.tasks
                .spawn(async move { follow_port(&door, port, &entrance).await });
        }
        let mut listeners = self.listeners.iter();
        let mut started = Vec::new();
        let mut boards_of_doors = Vec::new();
        for (i, server) in servers.iter().enumerate() {
            let own: Vec<_> = listeners.by_ref().take(server.listeners.len()).collect();
            let boards = own
                .iter()
                .map(|listener| (listener.address, listener.board.clone()));
            let boards: Vec<_> = boards.collect();
            boards_of_doors.push(boards.clone());
            let boards = ServerBoards::new(boards);
            started.push(Server::new(i + 1, server, boards));
        }
        let (sources, problems) = sources::start(started, old).await;
        self.sources = sources;
        self.doors.start(servers, boards_of_doors, notifier).await;
        Ok(problems)
    }
}

/// Returns the way to the game of a listener, if it has a relay. Listeners with the same
/// address share it, also across a reload.
fn relay_of(
    server: &ServerConfig,
    listen: &ListenConfig,
    old: &[(GameAddress, Entrance)],
    relays: &mut Vec<(GameAddress, Entrance)>,
) -> Option<Entrance> {
    let mut address = server.relay.clone()?;
    if listen.is_further {
        address = address.with_port(listen.address.port());
    }
    Some(way_to(&address, old, relays))
}

/// Returns the way to a game. All relays to the same address share it.
fn way_to(
    address: &GameAddress,
    old: &[(GameAddress, Entrance)],
    relays: &mut Vec<(GameAddress, Entrance)>,
) -> Entrance {
    let mut known = relays.iter();
    if let Some((_, entrance)) = known.find(|(known, _)| known == address) {
        return entrance.clone();
    }
    let old = old.iter().find(|(known, _)| known == address);
    let entrance = match old {
        Some((_, entrance)) => entrance.clone(),
        None => Entrance::always_open(address.literal()),
    };
    relays.push((address.clone(), entrance.clone()));
    entrance
}

/// Follows the address of a game.
async fn follow(address: GameAddress, entrance: Entrance) {
    follow_address(&address, &entrance, |result| match result {
        Ok(game) if address.literal().is_none() => info!("relay: {address} is at {game}"),
        Ok(_) => {}
        Err(error) => warn!("relay: {error}; looking it up again"),
    })
    .await;
}

/// Announces a server to the local network while it has a status.
async fn announce(board: Board, address: SocketAddr) {
    let mut ticks = tokio::time::interval(lan::INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = AnnouncementFailures::default();
    loop {
        ticks.tick().await;
        let Some(motd) = board.motd() else {
            continue;
        };
        let sent = announce_minecraft(&motd, address);
        let is_logged = failures.record(sent.is_ok());
        match sent {
            Err(error) if is_logged => {
                warn!("{address} is not announced to the local network: {error}");
            }
            Ok(()) if is_logged => info!("{address} is announced to the local network now"),
            _ => {}
        }
    }
}

/// Number of failed announcements in a row.
#[derive(Default)]
struct AnnouncementFailures(u32);

impl AnnouncementFailures {
    /// Failures in a row before one is logged. The network is often not up yet at the first one.
    const LOGGED: u32 = 2;

    /// Records whether an announcement was sent. Returns whether to log it: the last failure of
    /// [`LOGGED`](Self::LOGGED), and the first success after it.
    fn record(&mut self, is_sent: bool) -> bool {
        let before = self.0;
        self.0 = if is_sent { 0 } else { before.saturating_add(1) };
        if is_sent {
            before >= Self::LOGGED
        } else {
            self.0 == Self::LOGGED
        }
    }
}

/// Returns the initial status of a board.
fn first_status(
    server: &ServerConfig,
    listen: &ListenConfig,
    port: u16,
    old: Option<&Sources>,
) -> Option<Status> {
    let last = server
        .source
        .external()
        .and_then(|source| old?.last(&source.origin));
    let own = server.source.status(listen, port, 0, last.as_ref())?;
    // A connected network knows the status of all its members.
    let network = server
        .network
        .as_ref()
        .and_then(|network| old?.network_status(network));
    Some(network.map_or(own, |status| config::at_port(status, port)))
}

/// Returns the protocols of each listener, as text.
fn protocols(servers: &[ServerConfig]) -> impl Iterator<Item = String> {
    addresses(servers).map(|(_, listen)| {
        let ids = listen
            .protocols
            .iter()
            .map(|(protocol, _)| protocol.info().id);
        let ids = ids.collect::<Vec<_>>().join(", ");
        if ids.is_empty() {
            "the game".into()
        } else {
            ids
        }
    })
}

/// Returns each listener with its server.
fn addresses(servers: &[ServerConfig]) -> impl Iterator<Item = (&ServerConfig, &ListenConfig)> {
    servers
        .iter()
        .flat_map(|server| server.listeners.iter().map(move |listen| (server, listen)))
}

fn with_hint(error: ListenError) -> anyhow::Error {
    let hint =
        "choose another address with --listen, or `listen` in the file; port 0 takes a free one";
    let over = match error.transport {
        Transport::Datagram => "",
        Transport::Stream | Transport::Http => " over TCP",
    };
    anyhow::Error::new(error.cause)
        .context(format!("cannot listen on {}{over} ({hint})", error.address))
}

fn total(listeners: &[ListenerCounts]) -> Counts {
    let mut total = Counts::default();
    for listener in listeners {
        total.add(&listener.counts);
    }
    total
}

/// Summarizes the configuration, such as `2 servers on 3 addresses`.
fn summary_of(servers: &[ServerConfig]) -> String {
    let listeners = counted(addresses(servers).count(), "address");
    format!("{} on {listeners}", counted(servers.len(), "server"))
}

/// Returns the addresses that other machines can reach, if there are any.
fn public_addresses(addresses: &[SocketAddr]) -> Option<String> {
    let public = addresses
        .iter()
        .filter(|address| !address.ip().is_loopback());
    let public: Vec<_> = public.map(SocketAddr::to_string).collect();
    (!public.is_empty()).then(|| public.join(", "))
}

/// Returns notes about inherited sockets that are unused, or not used by all workers.
fn notes_on_inherited(
    inherited: &Inherited,
    listeners: &[ListenerConfig],
    workers: usize,
) -> Vec<String> {
    let note = |(address, sockets): &(SocketAddr, Arc<[UdpSocket]>)| {
        let count = sockets.len();
        if listeners
            .iter()
            .all(|listener| listener.address != *address)
        {
            Some(format!(
                "the inherited socket for {address} is not used: no server listens there"
            ))
        } else if count != workers {
            let fix = format!("pass {workers} with ReusePort=yes, or write workers = {count}");
            Some(format!(
                "inherited sockets for {address}: {count}, for {workers} workers; {fix}"
            ))
        } else {
            None
        }
    };
    inherited.iter().filter_map(note).collect()
}

/// Publishes the status of a simulated server as it changes.
async fn simulate(server: ServerConfig, listen: ListenConfig, port: u16, board: Board) {
    let started = Instant::now();
    loop {
        tokio::time::sleep(DEMO_INTERVAL).await;
        let seconds = started.elapsed().as_secs();
        if let Some(status) = server.source.status(&listen, port, seconds, None) {
            // Invalid options would have failed at the start.
            let _ = board.publish(&status);
        }
    }
}

async fn rotate(board: Board) {
    loop {
        tokio::time::sleep(SECRET_INTERVAL).await;
        let _ = board.rotate(random_secret());
    }
}

fn summary(counts: &Counts) -> String {
    let mut dropped = Vec::new();
    for (reason, number) in &counts.dropped {
        dropped.push(format!("{number} {}", reason_text(reason)));
    }
    let unanswered: u64 = counts.dropped.values().sum();
    let braces = |text: String| {
        if text.is_empty() {
            text
        } else {
            format!(" ({text})")
        }
    };
    let unverified = match counts.unverified {
        0 => String::new(),
        unverified => format!("{unverified} to unverified addresses"),
    };
    let connections = match counts.connections {
        0 => String::new(),
        connections => format!(" and {}", counted(connections, "connection")),
    };
    format!(
        "{}{connections} received: {} answered{}, {unanswered} not answered{}",
        counted(counts.received, "datagram"),
        counts.answered + counts.unverified,
        braces(unverified),
        braces(dropped.join(", "))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_failed_announcement_is_not_logged() {
        let logged = |results: &[bool]| -> Vec<bool> {
            let mut failures = AnnouncementFailures::default();
            results.iter().map(|sent| failures.record(*sent)).collect()
        };
        assert_eq!(logged(&[false, true, true]), [false; 3]);
        assert_eq!(logged(&[true, false, true, false]), [false; 4]);
        assert_eq!(
            logged(&[false, false, false, true, true, false, false]),
            [false, true, false, true, false, false, true]
        );
    }

    #[test]
    fn the_summary_counts_answers_and_drops() {
        let mut counts = Counts::default();
        assert_eq!(
            summary(&counts),
            "0 datagrams received: 0 answered, 0 not answered"
        );
        counts.received = 1;
        counts.answered = 1;
        assert_eq!(
            summary(&counts),
            "1 datagram received: 1 answered, 0 not answered"
        );
        counts.connections = 1;
        assert_eq!(
            summary(&counts),
            "1 datagram and 1 connection received: 1 answered, 0 not answered"
        );
        counts.connections = 0;
        counts.received = 9;
        counts.unverified = 2;
        for (reason, number) in [("budget", 1), ("malformed", 3), ("no query", 2)] {
            counts.dropped.insert(reason, number);
        }
        let budget = reason_text("budget");
        let no_query = reason_text("no query");
        assert_eq!(
            summary(&counts),
            format!(
                "9 datagrams received: 3 answered (2 to unverified addresses), 6 not answered \
                 (1 {budget}, 3 malformed, 2 {no_query})"
            )
        );
    }

    #[test]
    fn only_public_addresses_are_reported() {
        let reported = |addresses: &[&str]| {
            let parse = |address: &&str| address.parse().unwrap();
            let addresses: Vec<SocketAddr> = addresses.iter().map(parse).collect();
            public_addresses(&addresses)
        };
        assert_eq!(reported(&["127.0.0.1:1", "[::1]:1"]), None);
        assert_eq!(
            reported(&["127.0.0.1:1", "192.0.2.7:1", "[2001:db8::7]:2"]).unwrap(),
            "192.0.2.7:1, [2001:db8::7]:2"
        );
    }
}
