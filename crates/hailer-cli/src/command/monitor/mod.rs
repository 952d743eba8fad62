//! `hailer monitor`: watches servers over time.

pub(super) mod actions;
pub(crate) mod plan;

pub(crate) use self::actions::table_of as history_table;

use self::plan::{Plan, Players};
use crate::activation;
use crate::args::{Monitor as Args, MonitorAction};
use crate::exit::{Exit, usage};
use crate::print::tell;
use hailer::link::Redis;
use hailer_monitor::history::{History, NewServer};
use hailer_monitor::monitor::{Monitor, MonitorError, Settings};
use hailer_monitor::server::{self, Origin};
use hailer_monitor::sessions::Privacy;
use hailer_monitor::web::api::{self, Api};
use hailer_monitor::web::{self, App};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::{self, unix::SignalKind};

/// Servers with gauges of their own: more series than these are no use to anybody's Prometheus.
const SERVER_METRICS: usize = 10_000;
/// Whoever still reads a page when we stop has so long.
const LAST_PAGES: Duration = Duration::from_secs(2);

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
    let plan = plan(args)?;
    if plan.cluster.is_some() && plan.history.starts_with("sqlite:") {
        usage!("{}", MonitorError::NotShared);
    }
    if args.check_config {
        writeln!(std::io::stdout(), "sound: {}", count(plan.servers.len()))?;
        return Ok(Exit::Success);
    }
    // Threads: SQL, pages and names of servers go on beside each other.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let end = runtime.block_on(monitor(args, plan));
    runtime.shutdown_timeout(Duration::from_secs(1));
    end
}

fn count(servers: usize) -> String {
    format!("{servers} server{}", if servers == 1 { "" } else { "s" })
}

/// What the file says, and over it what the flags say.
fn plan(args: &Args) -> anyhow::Result<Plan> {
    let mut plan = match &args.config {
        Some(path) => plan::read(path)?,
        None => Plan { servers: from_targets(&args.target)?, ..Plan::default() },
    };
    plan.listen = args.listen.unwrap_or(plan.listen);
    plan.interval = args.interval.unwrap_or(plan.interval);
    plan.history = args.history.as_deref().map_or(plan.history, url_of);
    if let Some(url) = &args.cluster {
        match (Redis::new(url), &mut plan.cluster) {
            (Err(error), _) => usage!("--cluster {error}"),
            (Ok(redis), Some(cluster)) => cluster.redis = redis,
            (Ok(redis), none) => *none = Some(plan::Cluster::new(redis)),
        }
    }
    Ok(plan)
}

/// The URL of a history: a file, unless it is one.
fn url_of(history: &str) -> String {
    let is_url = history.starts_with("postgres://") || history.starts_with("postgresql://");
    if is_url { history.to_owned() } else { plan::sqlite(Path::new(history)) }
}

/// Where a history is that is asked for without a monitor.
fn history_of(config: Option<&Path>, history: Option<&str>) -> anyhow::Result<String> {
    match (history, config) {
        (Some(history), _) => Ok(url_of(history)),
        (None, Some(config)) => Ok(plan::read(config)?.history),
        (None, None) => Ok(Plan::default().history),
    }
}

/// Servers that are named on the command line: their names are what was typed.
fn from_targets(targets: &[String]) -> anyhow::Result<Vec<NewServer>> {
    let mut servers: Vec<NewServer> = Vec::new();
    for target in targets {
        let name = plan::name_of(target);
        if servers.iter().any(|server| server.name == name) {
            usage!("{target}: given twice; drop one of them");
        }
        let (group, labels, origin) = (String::new(), BTreeMap::new(), Origin::Plan);
        let new = NewServer { name, target: target.clone(), group, labels, interval: None, origin };
        if let Some(wrong) = server::check(&new).first() {
            usage!("{target}: {}", wrong.message);
        }
        servers.push(new);
    }
    Ok(servers)
}

async fn monitor(args: &Args, plan: Plan) -> anyhow::Result<Exit> {
    let listener = match TcpListener::bind(plan.listen).await {
        Ok(listener) => listener,
        Err(error) => usage!("cannot listen on {}: {error}; choose another place with --listen", plan.listen),
    };
    let address = listener.local_addr()?;
    let history = History::open(&plan.history).await?;
    let monitor = Monitor::start(history.clone(), settings(&plan, &history).await?).await?;
    monitor.follow(&plan.servers).await?;
    let app = app(&monitor, &plan);
    let (closing, closed) = tokio::sync::oneshot::channel::<()>();
    let pages = {
        let service = web::router(app.clone()).into_make_service_with_connect_info::<SocketAddr>();
        let until = async { drop(closed.await) };
        tokio::spawn(axum::serve(listener, service).with_graceful_shutdown(until).into_future())
    };
    let mut out = anstream::stdout();
    writeln!(out, "watching {} at http://{address}", count(monitor.live().len()))?;
    out.flush()?;
    activation::ready("watching");
    tell!("\x1b[2mCtrl-C stops.\x1b[0m");
    let mut hangup = signal::unix::signal(SignalKind::hangup())?;
    let mut over = pin!(super::serve::over(args.r#for));
    loop {
        tokio::select! {
            () = &mut over => break,
            Some(()) = hangup.recv() => match reload(args, &monitor).await {
                Ok(servers) => tell!("read again: {}", count(servers)),
                Err(error) => tell!("\x1b[33mwarning:\x1b[0m {error:#}; all stays as it was"),
            },
        }
    }
    activation::stopping();
    app.close();
    let _ = closing.send(());
    let _ = tokio::time::timeout(LAST_PAGES, pages).await;
    monitor.stop().await;
    Ok(Exit::Success)
}

fn app(monitor: &Monitor, plan: &Plan) -> App {
    let mut settings = api::Settings::default();
    settings.token.clone_from(&plan.token);
    settings.shows_players = plan.players == Players::Names;
    settings.server_metrics = if plan.server_metrics { SERVER_METRICS } else { 0 };
    (settings.interval, settings.keep) = (plan.interval, plan.keep);
    let parts = api::Parts {
        live: monitor.live().clone(),
        history: monitor.history().clone(),
        watchlist: Some(monitor.watchlist().clone()),
        alerts: Some(Arc::new(monitor.tests())),
        look: Arc::new(monitor.look()),
    };
    let mut app = App::new(monitor.live().clone(), monitor.history().clone());
    app.shows_players = settings.shows_players;
    app.api = Some(Api::new(parts, settings));
    app
}

async fn settings(plan: &Plan, history: &History) -> anyhow::Result<Settings> {
    let mut settings = Settings::default();
    settings.poll.interval = plan.interval;
    settings.poll.rules.down_after = plan.down_after;
    settings.poll.sweep.pace.packets_per_second = plan.rate;
    settings.keep = plan.keep;
    settings.alerts = plan.alerts.clone();
    settings.cluster = plan.cluster.as_ref().map(|cluster| cluster.settings(plan.interval));
    settings.privacy = match plan.players {
        Players::Names => Privacy::Names,
        Players::Hashed => Privacy::Hashed(history.players_key().await?),
        Players::Off => Privacy::Off,
    };
    Ok(settings)
}

async fn reload(args: &Args, monitor: &Monitor) -> anyhow::Result<usize> {
    let plan = plan(args)?;
    monitor.follow(&plan.servers).await?;
    Ok(plan.servers.len())
}
