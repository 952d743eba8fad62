//! `hailer monitor`: monitors servers.
//!
//! In: arguments, a configuration, SIGHUP. Out: pages, API, metrics, alerts and history.
//!
//! May import: `crate::activation`, `crate::args`, `crate::command`, `crate::command::watch`,
//! `crate::config`, `crate::exit`, `crate::files`, `crate::http_client`, `crate::print`,
//! `crate::service`, `crate::simulated`, `crate::system`, `hailer`, `hailer_monitor`.

pub(super) mod actions;
mod masters;
#[cfg(feature = "parquet")]
mod parquet;

use self::masters::{Masters, ServerList};
use crate::activation;
use crate::args::{Monitor as Args, MonitorAction};
use crate::command::{self, watch};
use crate::config::cluster::Cluster;
use crate::config::monitor::{self as config, CheckedMonitorConfig, Players};
use crate::exit::{Exit, usage, without_numbers, words};
use crate::print::line;
use crate::simulated::monitor as simulated;
use crate::system::ReloadRequests;
use anyhow::bail;
use hailer::client::ClientConfig;
use hailer::proto::registry;
use hailer::proto::wire::counted;
use hailer::support::catalog::closest;
use hailer::{Client, Target};
use hailer_monitor::history::{History, NewServer};
use hailer_monitor::monitor::{Monitor, MonitorConfig, MonitorError};
use hailer_monitor::monitor_health::MonitorHealth;
use hailer_monitor::poll::PollConfig;
use hailer_monitor::server::{self, Origin};
use hailer_monitor::sessions::Privacy;
use hailer_monitor::web::api::{self, Api};
use hailer_monitor::web::{self, App};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;
use tracing::{Level, info, warn};

/// Maximum number of servers with their own gauges. More series would overload Prometheus.
const MAX_SERVER_METRICS: usize = 10_000;

/// Names of the actions, to correct them: other words are targets.
const ACTIONS: &[&str] = &["add", "remove", "list", "test-alert", "export", "import"];

/// Maximum number of concurrent protocol detections.
const MAX_DETECTIONS: usize = 16;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        None => {}
        Some(MonitorAction::Add(args)) => return actions::add(args),
        Some(MonitorAction::Remove(args)) => return actions::remove(args),
        Some(MonitorAction::List { remote, json }) => return actions::list(remote, *json),
        Some(MonitorAction::TestAlert(args)) => return actions::test_alert(args),
        Some(MonitorAction::Export(args)) => return super::block_on(actions::export(args)),
        Some(MonitorAction::Import(args)) => return super::block_on(actions::import(args)),
    }
    if args.example {
        write!(crate::print::stdout(), "{}", config::EXAMPLE)?;
        return Ok(Exit::Success);
    }
    if !args.check_config {
        share_a_heap();
    }
    args.log.start();
    let config = read_aside(args)?;
    for warning in &config.warnings {
        warn!("{warning}");
    }
    if config.cluster.is_some() && config.history.starts_with("sqlite:") {
        usage!("{}", MonitorError::NotShared);
    }
    if args.demo {
        return threads(demo(args, config));
    }
    if args.check_config {
        for warning in slow_polls(&config) {
            warn!("{warning}");
        }
        if let Some((one, other)) = super::block_on(masters::same_place(&config.servers))? {
            usage!(
                "server.target: {one:?} and {other:?} have the same address and query port; remove one \
                 of them"
            );
        }
        let mut parts = vec![counted(config.servers.len(), "server")];
        if !config.masters.is_empty() {
            parts.push(counted(config.masters.len(), "master server"));
        }
        writeln!(crate::print::stdout(), "valid: {}", parts.join(", "))?;
        return Ok(Exit::Success);
    }
    threads(async {
        let listener = match TcpListener::bind(config.listen).await {
            Ok(listener) => listener,
            Err(error) => usage!(
                "cannot listen on {}: {error}; choose another address with --listen",
                config.listen
            ),
        };
        let history = History::open(&config.history).await?;
        monitor(args, config, listener, history).await
    })
}

/// Restarts the program with a single heap. By default, glibc gives each thread its own heap, and
/// memory freed in one is not available to others. 100,000 servers took 376 MiB with many heaps and
/// 266 MiB with one, at the same CPU time. The setting only takes effect at the start of a program.
fn share_a_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::env::{args_os, current_exe, var_os};
        use std::os::unix::process::CommandExt;
        const ARENAS: &str = "MALLOC_ARENA_MAX";
        if let (None, Ok(program)) = (var_os(ARENAS), current_exe()) {
            let mut again = std::process::Command::new(program);
            // This returns only on failure. Then continue with several heaps.
            let _ = again
                .arg0(args_os().next().unwrap_or_default())
                .args(args_os().skip(1))
                .env(ARENAS, "1")
                .exec();
        }
    }
}

/// Runs a command on several threads, for SQL, pages and name lookups.
fn threads(work: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let end = runtime.block_on(work);
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    end
}

/// Monitors simulated servers instead of the configured ones. Their history is deleted at the end.
async fn demo(args: &Args, mut config: CheckedMonitorConfig) -> anyhow::Result<Exit> {
    let listener = simulated::listen(args.listen, config.listen).await?;
    let mut fleet = simulated::Fleet::start().await?;
    config.history = config::sqlite(&fleet.history());
    config.interval = args.interval.unwrap_or(simulated::INTERVAL);
    let history = History::open(&config.history).await?;
    fleet.write_past(&history).await?;
    config.servers = std::mem::take(&mut fleet.servers);
    config.masters.clear();
    monitor(args, config, listener, history).await
}

/// Reads the configuration on its own thread, so that the memory for 100,000 servers is freed with
/// the thread.
fn read_aside(args: &Args) -> anyhow::Result<CheckedMonitorConfig> {
    let read = std::thread::scope(|scope| scope.spawn(|| checked_config(args)).join());
    read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the configuration of the file, with the flags on top.
fn checked_config(args: &Args) -> anyhow::Result<CheckedMonitorConfig> {
    let is_config = |word: &&String| word.ends_with(".toml") || command::list_file(word).is_some();
    let mut config = match &args.config {
        Some(path) => config::read(path)?,
        None => {
            if let Some(path) = args.target.iter().find(is_config) {
                let check = if args.check_config {
                    " --check-config"
                } else {
                    ""
                };
                usage!(
                    "name the configuration file with --config: `hailer monitor --config {path}{check}`"
                );
            }
            if let Some(word) = args.target.first()
                && !word.contains(['.', ':'])
                && let Some(action) = closest(word, ACTIONS.iter().copied())
            {
                usage!(
                    "unknown action {word}; did you mean `hailer monitor {action}`? A server of that name is written PROTOCOL://{word}"
                );
            }
            if args.check_config {
                usage!(
                    "name the configuration file: `hailer monitor --config FILE --check-config`"
                );
            }
            CheckedMonitorConfig {
                servers: from_targets(&args.target, args.game.as_deref())?,
                ..CheckedMonitorConfig::default()
            }
        }
    };
    config.listen = args.listen.unwrap_or(config.listen);
    config.interval = args.interval.unwrap_or(config.interval);
    config.history = args.history.as_deref().map_or(config.history, url_of);
    if let Some(url) = &args.cluster {
        config.cluster = match Cluster::with_url(config.cluster, url) {
            Ok(cluster) => Some(cluster),
            Err(error) => usage!("--cluster {error}"),
        };
    }
    Ok(config)
}

/// Returns the database URL of a history. A path becomes a SQLite URL.
fn url_of(history: &str) -> String {
    let is_url = history.starts_with("postgres://") || history.starts_with("postgresql://");
    if is_url {
        history.to_owned()
    } else {
        config::sqlite(Path::new(history))
    }
}

/// Returns the database URL of a history that is used without a monitor.
fn history_of(config: Option<&Path>, history: Option<&str>) -> anyhow::Result<String> {
    match (history, config) {
        (Some(history), _) => Ok(url_of(history)),
        (None, Some(config)) => Ok(config::read(config)?.history),
        (None, None) => Ok(CheckedMonitorConfig::default().history),
    }
}

/// Returns warnings about intervals that are shorter than a poll of an unreachable server.
fn slow_polls(config: &CheckedMonitorConfig) -> Vec<String> {
    let limits = PollConfig::default().sweep.limits;
    let tries = limits.retries + 1;
    let longest = (limits.timeout * tries).min(limits.deadline);
    let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
    let warn = |whose: &str, interval: Duration| {
        format!(
            "{whose} of {} is shorter than {tries} tries of {}: while a server is down, it is polled \
             only every {}",
            seconds(interval),
            seconds(limits.timeout),
            seconds(longest)
        )
    };
    let mut warnings = Vec::new();
    if config.interval < longest {
        warnings.push(warn("the interval", config.interval));
    }
    for server in &config.servers {
        if let Some(interval) = server.interval.filter(|interval| *interval < longest) {
            warnings.push(warn(&format!("the interval of {}", server.name), interval));
        }
    }
    warnings
}

/// Adds a protocol to targets that were typed without one. A target in the history keeps its
/// protocol; others are queried in all protocols.
async fn detect(servers: &mut [NewServer], history: &History) -> anyhow::Result<()> {
    if servers.iter().all(|server| server.target.contains("://")) {
        return Ok(());
    }
    let known = history.servers().await?;
    let mut unknown: HashMap<String, &mut NewServer> = HashMap::new();
    for server in servers {
        if server.target.contains("://") {
            continue;
        }
        let suffix = format!("://{}", server.target);
        let old = known
            .iter()
            .find(|old| old.name == server.name && old.target.ends_with(&suffix));
        match old {
            Some(old) => server.target.clone_from(&old.target),
            None => drop(unknown.insert(server.target.clone(), server)),
        }
    }
    let client = Client::new(ClientConfig::default());
    let targets: Vec<String> = unknown.keys().cloned().collect();
    let mut answers = client.query_many(targets.iter().map(String::as_str), MAX_DETECTIONS);
    while let Some((target, answers)) = answers.next().await {
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => bail!(
                "{target}: cannot detect the protocol: {error}; write PROTOCOL://{target} to \
                 monitor it anyway"
            ),
        };
        let Some(answer) = watch::direct::best(&answers) else {
            bail!("{target}: no reply; write PROTOCOL://{target} to monitor it anyway");
        };
        if let Some(server) = unknown.get_mut(target) {
            let protocol = answer.transcript.protocol.id;
            // The server answers in several protocols of a game: all of them are polled.
            let word = answers.game().map_or(protocol, |game| game.id);
            server.target = format!("{word}://{target}");
        }
    }
    Ok(())
}

/// Applies `--game` to a target.
fn in_game(text: &str, game: Option<&str>) -> anyhow::Result<String> {
    let Some(game) = game else {
        return Ok(text.to_owned());
    };
    match text.parse::<Target>() {
        Ok(target) => Ok(command::in_game(target, text, game)?.to_string()),
        Err(error) => usage!("{error}"),
    }
}

/// Returns the servers of the command line, named as typed.
fn from_targets(targets: &[String], game: Option<&str>) -> anyhow::Result<Vec<NewServer>> {
    let mut servers: Vec<NewServer> = Vec::new();
    for text in targets {
        let target = &in_game(text, game)?;
        let name = config::name_of(target);
        if servers.iter().any(|server| server.name == name) {
            usage!("{target}: given twice; drop one of them");
        }
        let new = NewServer::new(name, target, Origin::Configuration);
        // `detect` adds the missing protocol later.
        let mut checked = new.clone();
        if !target.contains("://") {
            checked.target = format!("{}://{target}", registry::PROTOCOLS[0].info().id);
        }
        if let Some(wrong) = server::check(&checked).first() {
            usage!("{target}: {}", wrong.message);
        }
        servers.push(new);
    }
    Ok(servers)
}

async fn monitor(
    args: &Args,
    mut config: CheckedMonitorConfig,
    listener: TcpListener,
    history: History,
) -> anyhow::Result<Exit> {
    let address = listener.local_addr()?;
    let mut monitor = monitor_config(&config, &history).await?;
    monitor.poll.sweep.source = args.source;
    let monitor = Monitor::start(history.clone(), monitor).await?;
    let mut servers = std::mem::take(&mut config.servers);
    detect(&mut servers, &history).await?;
    let known = history.servers().await?;
    let mut masters = Masters::new(
        std::mem::take(&mut config.masters),
        config.max_servers,
        &known,
    );
    drop(known);
    monitor.rename(&config.renames).await?;
    monitor.follow(masters.with(&servers)).await?;
    let mut lists = masters.start();
    let app = app(&monitor, &config);
    let (closing, closed) = tokio::sync::oneshot::channel::<()>();
    let pages = tokio::spawn(web::serve(listener, app, web::LIMITS, async {
        drop(closed.await);
    }));
    let mut out = crate::print::stdout();
    writeln!(
        out,
        "watching {} at http://{address}",
        counted(monitor.live().len(), "server")
    )?;
    out.flush()?;
    activation::ready("watching");
    if monitor.live().is_empty() {
        warn!(
            "no servers yet: name targets or --config FILE, or run `hailer monitor add TARGET --monitor http://{address}`"
        );
    }
    info!("Ctrl-C stops");
    let mut reloads = ReloadRequests::listen()?;
    let mut stopped = pin!(crate::service::stopped(args.r#for));
    let health = monitor.health_reader();
    let mut health_log = HealthLog::default();
    let mut checks = tokio::time::interval(Duration::from_secs(1));
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut stopped => break,
            _ = checks.tick() => health_log.log(&health()),
            Some(list) = lists.recv() => {
                if let Err(error) = apply(&list, &mut masters, &servers, &monitor).await {
                    warn!("{}; the list of a master is not applied", without_numbers(&words(&error)));
                }
            }
            Some(()) = reloads.next(), if !args.demo => match reload(args, &monitor, &mut masters).await {
                Ok((new, others)) => {
                    servers = new;
                    info!("configuration reloaded: {}", counted(servers.len(), "server"));
                    if others != config.others {
                        warn!("other settings changed too; restart to apply them");
                    }
                }
                Err(error) => {
                    for line in without_numbers(&words(&error)).lines() {
                        warn!("{line}; keeping the old configuration");
                    }
                }
            },
        }
    }
    activation::stopping();
    let _ = closing.send(());
    let _ = pages.await;
    let health = monitor.stop().await;
    if health.kept > 0 {
        let why = health.message.unwrap_or_default();
        warn!(
            "lost {} that could not be written: {}",
            counted(health.kept, "record"),
            line(&without_numbers(&why), 300)
        );
        return Ok(Exit::Partial);
    }
    Ok(Exit::Success)
}

/// Logs failures and recoveries of the history and the alerts.
#[derive(Default)]
struct HealthLog {
    is_failing: bool,
    is_redis_failing: bool,
    has_wrong_clock: bool,
    dropped: u64,
}

impl HealthLog {
    fn log(&mut self, health: &MonitorHealth) {
        for (level, text) in self.lines(health) {
            match level {
                Level::INFO => info!("{text}"),
                _ => warn!("{text}"),
            }
        }
    }

    /// Returns what has changed since the last call: a line when a failure begins, and one when it is
    /// over.
    fn lines(&mut self, health: &MonitorHealth) -> Vec<(Level, String)> {
        let mut lines = Vec::new();
        let mut warn = |text: String| lines.push((Level::WARN, text));
        let mut over = Vec::new();
        let mut info = |text: &str| over.push((Level::INFO, text.to_owned()));
        let history = &health.history;
        if history.redis.is_some() != self.is_redis_failing {
            self.is_redis_failing = history.redis.is_some();
            match &history.redis {
                Some(message) => warn(line(&without_numbers(message), 300)),
                None => info("Redis is back"),
            }
        }
        if history.is_database_failing != self.is_failing {
            self.is_failing = history.is_database_failing;
            if self.is_failing {
                let message = history.message.as_deref().unwrap_or("the history fails");
                warn(format!(
                    "{}; new records stay in {}",
                    line(&without_numbers(message), 300),
                    if health.clock.is_some() {
                        "Redis"
                    } else {
                        "memory"
                    }
                ));
            } else {
                info("the history is writable again; the waiting records were written");
            }
        }
        let clock = health.clock.clone().unwrap_or_default();
        if clock.problem.is_some() != self.has_wrong_clock {
            self.has_wrong_clock = clock.problem.is_some();
            match clock.problem {
                Some(problem) if clock.stops_polling => {
                    warn(format!(
                        "{problem}; this node does not poll until its clock is right"
                    ));
                }
                Some(problem) => warn(format!("{problem}; samples have wrong times")),
                None => info("the clock of this node is right again"),
            }
        }
        // Log each doubling, since the failure may last for days.
        if history.dropped > 2 * self.dropped {
            self.dropped = history.dropped;
            warn(format!(
                "the memory for unwritten records is full; lost so far: {}",
                counted(history.dropped, "record")
            ));
        }
        lines.extend(over);
        lines
    }
}

fn app(monitor: &Monitor, config: &CheckedMonitorConfig) -> App {
    let mut api_config = api::ApiConfig::default();
    api_config.token.clone_from(&config.token);
    api_config.has_player_names = config.players == Players::Names;
    api_config.server_metrics = if config.has_server_metrics {
        MAX_SERVER_METRICS
    } else {
        0
    };
    api_config.interval = config.interval;
    api_config.keep = config.keep;
    api_config.hosts = config.names().unwrap_or_default();
    api_config.is_behind_proxy = config.is_behind_proxy;
    api_config.has_badges = config.has_badges;
    api_config.has_widgets = config.has_widgets;
    api_config.max_servers = config.max_servers;
    let parts = api::ApiBackend {
        live: monitor.live().clone(),
        history: monitor.history().clone(),
        watchlist: Some(monitor.watchlist().clone()),
        alerts: Some(Arc::new(monitor.tests())),
        health: Arc::new(monitor.health_reader()),
    };
    let mut app = App::new(monitor.live().clone(), monitor.history().clone());
    app.has_player_names = api_config.has_player_names;
    let api = Api::new(parts, api_config);
    app.notice = api.notice();
    app.hosts = config.names();
    app.api = Some(api);
    app
}

async fn monitor_config(
    config: &CheckedMonitorConfig,
    history: &History,
) -> anyhow::Result<MonitorConfig> {
    let mut monitor = MonitorConfig::default();
    monitor.poll.interval = config.interval;
    monitor.poll.rules.down_after = config.down_after;
    monitor.poll.sweep.rate_limits.rate = config.rate;
    monitor.poll.sweep.max_memory = config.max_memory;
    monitor.poll.sweep.ask.charset = config.charset;
    monitor.poll.listed = masters::policies_of(&config.masters);
    monitor.keep = config.keep;
    monitor.alerts = config.alerts.clone();
    if let Some(cluster) = &config.cluster {
        cluster.apply(config.interval, &mut monitor);
    }
    monitor.privacy = match config.players {
        Players::Names => Privacy::Names,
        Players::Hashed => Privacy::Hashed(history.players_key().await?),
        Players::Off => Privacy::Off,
    };
    Ok(monitor)
}

/// Returns the configured servers, and the text of everything else in the configuration.
async fn reload(
    args: &Args,
    monitor: &Monitor,
    masters: &mut Masters,
) -> anyhow::Result<(Vec<NewServer>, String)> {
    let mut config = read_aside(args)?;
    detect(&mut config.servers, monitor.history()).await?;
    monitor.rename(&config.renames).await?;
    monitor.follow(masters.with(&config.servers)).await?;
    Ok((config.servers, config.others))
}

/// Monitors the servers of a master's new list.
async fn apply(
    list: &ServerList,
    masters: &mut Masters,
    configured: &[NewServer],
    monitor: &Monitor,
) -> anyhow::Result<()> {
    let mut taken = HashSet::new();
    for server in monitor.history().servers().await? {
        if server.origin == Origin::Api {
            taken.insert(server.name);
        }
    }
    masters.update(list, &taken);
    monitor.set_policies(masters.policies());
    Ok(monitor.follow(masters.with(configured)).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_monitor::monitor_health::{ClockHealth, HistoryHealth};

    #[test]
    fn each_outage_has_a_line_when_it_begins_and_one_when_it_is_over() {
        let mut log = HealthLog::default();
        let mut polled = |redis: Option<&str>, database: Option<&str>| {
            let message: Vec<&str> = database.into_iter().chain(redis).collect();
            let health = MonitorHealth {
                history: HistoryHealth {
                    is_failing: !message.is_empty(),
                    message: Some(message.join("; ")).filter(|text| !text.is_empty()),
                    redis: redis.map(str::to_owned),
                    is_database_failing: database.is_some(),
                    ..HistoryHealth::default()
                },
                clock: Some(ClockHealth::default()),
                ..MonitorHealth::default()
            };
            log.lines(&health)
        };
        let cause = "Redis at 127.0.0.1:6379: connection refused";
        let redis = Some(cause);
        let failure = "the history fails: connection refused";
        let database = Some(failure);
        assert_eq!(polled(None, None), []);
        let line = |level, text: &str| (level, text.to_owned());
        assert_eq!(polled(redis, None), [line(Level::WARN, cause)]);
        for other in [redis, Some("Redis at 127.0.0.1:6379: broken pipe")] {
            assert_eq!(polled(other, None), [], "the outage lasts");
        }
        let [(Level::WARN, both)] = &polled(redis, database)[..] else {
            panic!("the history has a separate line");
        };
        assert!(both.starts_with(failure), "{both}");
        assert!(both.ends_with("; new records stay in Redis"), "{both}");
        assert_eq!(polled(redis, database), []);
        assert_eq!(polled(None, database), [line(Level::INFO, "Redis is back")]);
        let over = "the history is writable again; the waiting records were written";
        assert_eq!(polled(None, None), [line(Level::INFO, over)]);
        assert_eq!(polled(None, None), []);
    }
}
