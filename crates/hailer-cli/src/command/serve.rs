//! `hailer serve`: answers queries.

use super::serve_sources::{self, Sources};
use super::{block_on, farm, game};
use crate::args::Serve;
use crate::config::{self, Config, Listener, Plan};
use crate::exit::Exit;
use crate::observe::snapshot::{self, Snapshot};
use crate::print::{count, tell};
use crate::{activation, observe};
use hailer::Status;
use hailer::proto::Keys;
use hailer::respond::{BindError, Board, Counts, Done, Engine, Post, Settings, Top, random_secret};
use hailer::source::Published;
use std::collections::BTreeSet;
use std::future::Future;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::signal::{self, unix::SignalKind};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A population moves so often.
const BEAT: Duration = Duration::from_secs(1);
/// The secret behind challenge tokens changes so often, unless several nodes share it.
const ROTATION: Duration = Duration::from_secs(3600);
/// Counts are printed at most so often, and only if there is something new.
const REPORT: Duration = Duration::from_secs(10);
/// Rates are of so much time at least.
const RATES: Duration = Duration::from_millis(900);

pub(crate) fn run(args: &Serve) -> anyhow::Result<Exit> {
    if !args.farm.farm.is_empty() {
        return farm::run(args);
    }
    if let Some(plan) = game::plan(args)? {
        return block_on(game::serve(plan, args.r#for));
    }
    let config = match &args.config {
        Some(path) => config::read(path)?,
        None => Config { servers: vec![config::from_flags(args)?], ..Config::default() },
    };
    if args.check_config {
        writeln!(std::io::stdout(), "sound: {}", what(&config.servers))?;
        return Ok(Exit::Success);
    }
    // Before anything is opened: they are known by their numbers.
    let handed = activation::activated_sockets()?;
    let handed: Vec<_> = handed.into_iter().map(|(address, socket)| (address, Arc::new(socket))).collect();
    block_on(serve(&config, args, &handed))
}

async fn serve(config: &Config, args: &Serve, handed: &Handed) -> anyhow::Result<Exit> {
    let plans = &config.servers;
    let mut stage = Stage::new(plans, None, handed)?;
    for (address, _) in handed.iter().filter(|(address, _)| stage.posts.iter().all(|post| post.address != *address)) {
        tell!("\x1b[33mnote:\x1b[0m nobody listens on {address}, whose socket was handed over");
    }
    let engine = Arc::new(Engine::start(stage.posts.clone(), &settings(&config.engine)).map_err(hint)?);
    if let Some(problem) = stage.open(plans, &engine, &Sources::default()).await?.pop() {
        return Err(problem);
    }
    let view = Arc::new(View::new(engine.clone()));
    view.show(&mut stage, plans);
    let seen = view.clone();
    let observer = observe::start(&watching(args, &config.observe), move || seen.snapshot())?;
    let mut out = anstream::stdout();
    for (post, protocols) in stage.posts.iter().zip(protocols(plans)) {
        writeln!(out, "listening on {} for {protocols}", post.address)?;
    }
    if let Some(address) = observer.metrics() {
        writeln!(out, "metrics at http://{address}/metrics")?;
    }
    out.flush()?;
    for note in notes(&engine.addresses()).iter().map(String::as_str).chain(observer.note()) {
        tell!("\x1b[33mnote:\x1b[0m {note}");
    }
    activation::ready("answering");
    if let Some(path) = observer.control() {
        tell!("\x1b[2m`hailer top` and `hailer serve status` look at it through {}\x1b[0m", path.display());
    }
    tell!("\x1b[2mCtrl-C stops.\x1b[0m");
    let mut hangup = signal::unix::signal(SignalKind::hangup())?;
    let mut report = tokio::time::interval(REPORT);
    let (mut over, mut reported) = (pin!(over(args.r#for)), Counts::default());
    loop {
        tokio::select! {
            () = &mut over => break,
            _ = report.tick() => {
                let counts = total(&engine.done());
                if counts.received != reported.received {
                    tell!("\x1b[2m{}\x1b[0m", summary(&counts));
                    reported = counts;
                }
            }
            Some(()) = hangup.recv() => match reload(args, (config, handed), &mut stage, &engine, &view).await {
                Ok(Some(what)) => tell!("read again: {what}"),
                Ok(None) => tell!("\x1b[33mnote:\x1b[0m there is no configuration file to read again"),
                Err(error) => tell!("\x1b[33mwarning:\x1b[0m {error:#}; all stays as it was"),
            },
        }
    }
    activation::stopping();
    stage.sources.stop(|_| false).await;
    drop((stage, observer, view));
    // Whoever was just looking lets go of it in a moment.
    let counts = match Arc::try_unwrap(engine) {
        Ok(engine) => total(&engine.stop()),
        Err(engine) => total(&engine.done()),
    };
    tell!("{}", summary(&counts));
    Ok(Exit::Success)
}

/// Sockets that a service manager opened for us.
type Handed = [(SocketAddr, Arc<UdpSocket>)];

/// Reads the configuration again, and answers by it from then on. Returns what it is, if there is one.
async fn reload(
    args: &Serve,
    (running, handed): (&Config, &Handed),
    stage: &mut Stage,
    engine: &Engine,
    view: &View,
) -> anyhow::Result<Option<String>> {
    let Some(path) = &args.config else { return Ok(None) };
    let Config { servers: plans, engine: wished, observe } = config::read(path)?;
    let new = Stage::new(&plans, Some(stage), handed)?;
    engine.reload(new.asked()).map_err(hint)?;
    // First the old sources end: a new one may listen where an old one did. Networks are left only by who does not return.
    let returns: BTreeSet<_> = plans.iter().filter_map(|plan| Some(plan.source.fed()?.from.identity())).collect();
    stage.sources.stop(|identity| returns.contains(identity)).await;
    let old = std::mem::replace(stage, new);
    for problem in stage.open(&plans, engine, &old.sources).await? {
        tell!("\x1b[33mwarning:\x1b[0m {problem:#}; answers go on without it");
    }
    view.show(stage, &plans);
    for (block, is_same) in [("[engine]", wished == running.engine), ("[observe]", observe == running.observe)] {
        if !is_same {
            tell!("\x1b[33mnote:\x1b[0m {block} is as it was; it changes when Hailer is started again");
        }
    }
    Ok(Some(what(&plans)))
}

/// Flags count more than the file.
fn watching(args: &Serve, wished: &config::Observe) -> observe::Settings {
    let mut settings = args.observe.settings();
    settings.metrics = settings.metrics.or(wished.metrics);
    if let (observe::Control::Default, Some(path)) = (&settings.control, &wished.control) {
        settings.control = observe::Control::At(path.clone());
    }
    settings
}

fn settings(wished: &config::Engine) -> Settings {
    let mut settings = Settings::default();
    settings.workers = wished.workers.unwrap_or_default();
    let budget = &mut settings.budget;
    for (allowed, bytes, packets) in [
        (wished.unproven_per_source, &mut budget.unproven_per_source, &mut budget.unproven_packets),
        (wished.unproven_total, &mut budget.unproven_total, &mut budget.unproven_total_packets),
        (wished.proven_per_source, &mut budget.proven_per_source, &mut budget.proven_packets),
    ] {
        *bytes = allowed.bytes.unwrap_or(*bytes);
        *packets = allowed.packets.unwrap_or(*packets);
    }
    settings
}

/// The boards of one configuration and the tasks that write on them. Dropping it ends the tasks.
struct Stage {
    /// In the order of the plans' listeners. With the ports that the system chose, once they are open.
    posts: Vec<Post>,
    asked: Vec<SocketAddr>,
    tasks: JoinSet<()>,
    sources: Sources,
}

impl Stage {
    /// Boards for these plans. Where one was before, its keys stay, so that tokens handed out stay good, and what a source
    /// said is answered on.
    fn new(plans: &[Plan], old: Option<&Self>, handed: &Handed) -> anyhow::Result<Self> {
        let said = |plan: &Plan| old?.sources.said(&plan.source.fed()?.from);
        let old = |address| old.and_then(|old| old.asked.iter().zip(&old.posts).find(|(asked, _)| **asked == address));
        let mut posts = Vec::new();
        for (plan, listener) in listeners(plans) {
            let kept = old(listener.address).filter(|_| listener.secret.is_none());
            let keys = kept.map(|(_, post)| post.board.keys());
            let keys = keys.unwrap_or_else(|| Keys::new(listener.secret.unwrap_or_else(random_secret)));
            let status = plan.source.status(listener, listener.address.port(), 0, said(plan).as_ref());
            let board =
                Board::with_options(listener.protocols.clone(), keys, status.as_ref().unwrap_or(&Status::default()))?;
            if status.is_none() {
                board.silence();
            }
            let mut ready = handed.iter().filter(|(address, _)| *address == listener.address);
            let handed = ready.next().map(|(_, socket)| socket.clone());
            posts.push(Post { address: listener.address, board, relay: plan.relay, handed });
        }
        let asked = posts.iter().map(|post| post.address).collect();
        Ok(Self { posts, asked, tasks: JoinSet::new(), sources: Sources::default() })
    }

    /// The posts as they were asked for.
    fn asked(&self) -> Vec<Post> {
        let with = |(post, address): (&Post, &SocketAddr)| Post { address: *address, ..post.clone() };
        self.posts.iter().zip(&self.asked).map(with).collect()
    }

    /// The ports are known now: tells them, and begins to write. Returns which sources do not start, and why. `before` are the
    /// sources until now.
    async fn open(&mut self, plans: &[Plan], engine: &Engine, before: &Sources) -> anyhow::Result<Vec<anyhow::Error>> {
        for ((post, address), (plan, listener)) in self.posts.iter_mut().zip(engine.addresses()).zip(listeners(plans)) {
            let said = plan.source.fed().and_then(|feed| before.said(&feed.from));
            let known = plan.source.status(listener, address.port(), 0, said.as_ref());
            if let Some(status) = known.filter(|_| post.address.port() == 0) {
                post.board.publish(&status)?;
            }
            post.address = address;
            if listener.secret.is_none() {
                self.tasks.spawn(rotate(post.board.clone()));
            }
            if let config::Source::Demo(_) = plan.source {
                self.tasks.spawn(live(plan.clone(), listener.clone(), address.port(), post.board.clone()));
            }
        }
        let mut posts = self.posts.iter();
        let mut fed = Vec::new();
        for plan in plans {
            let boards =
                posts.by_ref().take(plan.listeners.len()).map(|post| (post.address.port(), post.board.clone()));
            let boards: Vec<_> = boards.collect();
            if let Some(feed) = plan.source.fed() {
                fed.push((feed.clone(), publisher(boards)));
            }
        }
        let (sources, problems) = serve_sources::start(fed, before).await;
        self.sources = sources;
        Ok(problems)
    }
}

/// What is answered at each address.
fn protocols(plans: &[Plan]) -> impl Iterator<Item = String> {
    listeners(plans).map(|(_, listener)| {
        let ids: Vec<_> = listener.protocols.iter().map(|(protocol, _)| protocol.info().id).collect();
        ids.join(", ")
    })
}

/// What others may see of it.
struct View {
    engine: Arc<Engine>,
    started: SystemTime,
    clock: Instant,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    /// Of each post.
    protocols: Vec<Vec<String>>,
    sources: Vec<(String, Told)>,
    /// What networks were sent when it was last looked at, for rates.
    before: Option<(Instant, Vec<Top>)>,
    rates: Vec<snapshot::Prefix>,
    /// Addresses with a relay.
    relays: usize,
}

/// Who tells what is true.
enum Told {
    Here(&'static str),
    Elsewhere(serve_sources::Watched),
}

impl View {
    fn new(engine: Arc<Engine>) -> Self {
        Self { engine, started: SystemTime::now(), clock: Instant::now(), shown: Mutex::default() }
    }

    /// Shows what is answered from now on.
    fn show(&self, stage: &mut Stage, plans: &[Plan]) {
        let ids = |listener: &Listener| listener.protocols.iter().map(|(it, _)| it.info().id.to_owned()).collect();
        let mut watched = stage.sources.watched().into_iter();
        let sources = plans.iter().enumerate().filter_map(|(i, plan)| {
            let told = match &plan.source {
                config::Source::Fixed(_) => Told::Here("fixed"),
                config::Source::Demo(_) => Told::Here("demo"),
                config::Source::Fed(_) => Told::Elsewhere(watched.next()?),
            };
            Some((format!("server {}", i + 1), told))
        });
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.sources = sources.collect();
        shown.protocols = listeners(plans).map(|(_, listener)| ids(listener)).collect();
        shown.relays = listeners(plans).filter(|(plan, _)| plan.relay.is_some()).count();
    }

    fn snapshot(&self) -> Snapshot {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, left) = (self.engine.done(), self.engine.left());
        shown.look(&done);
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let listeners: Vec<_> = done.iter().zip(&shown.protocols).map(|(done, ids)| listener(done, ids)).collect();
        let source = |(name, told): &(String, Told)| match told {
            Told::Here(kind) => {
                let (kind, state) = ((*kind).into(), snapshot::State::Fresh);
                snapshot::Source { name: name.clone(), kind, age_s: Some(0.0), state, last_error: None }
            }
            Told::Elsewhere(watched) => watched.source(name.clone()),
        };
        Snapshot {
            started: since.as_secs(),
            uptime_s: self.clock.elapsed().as_secs_f64(),
            workers: self.engine.workers() as u32,
            budget: snapshot::Budget {
                left_bytes: left.bytes,
                bytes_per_second: left.bytes_per_second,
                sources: left.networks,
                places: left.places,
            },
            relay: snapshot::Relay {
                sessions: done.iter().map(|done| done.counts.sessions).sum(),
                places: (shown.relays * self.engine.workers() * Settings::default().relay_sessions) as u64,
            },
            sources: shown.sources.iter().map(source).collect(),
            top: shown.rates.clone(),
            listeners,
            ..Snapshot::default()
        }
    }
}

impl Shown {
    /// Works out rates, if some time has passed.
    fn look(&mut self, done: &[Done]) {
        let now = Instant::now();
        let top: Vec<Top> = done.iter().flat_map(|done| done.top.iter().copied()).collect();
        let Some((at, before)) = &self.before else {
            self.before = Some((now, top));
            return;
        };
        let seconds = now.duration_since(*at).as_secs_f64();
        if seconds < RATES.as_secs_f64() {
            return;
        }
        let rate = |one: &Top| {
            let old = before.iter().find(|old| old.network == one.network);
            let grown = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            snapshot::Prefix {
                prefix: format!("{}/{}", one.network, one.bits),
                packets_per_s: grown(one.packets, old.map_or(0, |old| old.packets)),
                bytes_per_s: grown(one.bytes, old.map_or(0, |old| old.bytes)),
            }
        };
        let mut rates: Vec<_> = top.iter().map(rate).filter(|rate| rate.packets_per_s > 0.0).collect();
        rates.sort_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s));
        rates.dedup_by(|a, b| a.prefix == b.prefix);
        rates.truncate(snapshot::TOP);
        self.rates = rates;
        self.before = Some((now, top));
    }
}

fn listener(done: &Done, protocols: &[String]) -> snapshot::Listener {
    let from = &done.counts;
    let mut counts = snapshot::Counts {
        received: from.received,
        answered: from.answered,
        unproven: from.unproven,
        bytes_in: from.bytes_in,
        bytes_out: from.bytes_out,
        relayed: from.relayed,
        ..snapshot::Counts::default()
    };
    for (id, [proven, unproven]) in protocols.iter().zip(&from.by_protocol) {
        counts.reply(id, "answer", *proven);
        counts.reply(id, "unproven", *unproven);
    }
    from.dropped.iter().for_each(|(reason, count)| counts.drop(reason, *count));
    counts.drop("unsent", from.unsent);
    snapshot::Listener { address: done.address.to_string(), protocols: protocols.to_vec(), counts }
}

/// Publishes what a source says on all boards of its server.
fn publisher(boards: Vec<(u16, Board)>) -> serve_sources::Publish {
    Box::new(move |published| {
        for (port, board) in &boards {
            match &published {
                // The options were accepted at the start, and they have not changed.
                Published::Status(status) => drop(board.publish(&config::at_port((**status).clone(), *port))),
                Published::Silence => board.silence(),
            }
        }
    })
}

fn listeners(plans: &[Plan]) -> impl Iterator<Item = (&Plan, &Listener)> {
    plans.iter().flat_map(|plan| plan.listeners.iter().map(move |listener| (plan, listener)))
}

fn hint(error: BindError) -> anyhow::Error {
    let hint = "--listen ADDRESS:PORT chooses another; port 0 takes any free one";
    anyhow::Error::new(error.cause).context(format!("cannot listen on {} ({hint})", error.address))
}

fn total(done: &[Done]) -> Counts {
    let mut total = Counts::default();
    done.iter().for_each(|done| total.add(&done.counts));
    total
}

/// `2 servers on 3 addresses`
fn what(plans: &[Plan]) -> String {
    format!("{} on {}", count(plans.len(), "server"), count(listeners(plans).count(), "address"))
}

/// The end: a signal, or the time that was asked for.
pub(super) async fn over(time: Option<Duration>) {
    let over: Pin<Box<dyn Future<Output = ()> + Send>> = match time {
        Some(time) => Box::pin(tokio::time::sleep(time)),
        None => Box::pin(std::future::pending()),
    };
    tokio::select! {
        () = interrupted() => {}
        () = over => {}
    }
}

/// What somebody who listens there may want to know.
fn notes(addresses: &[SocketAddr]) -> Vec<String> {
    let list = |chosen: &dyn Fn(&SocketAddr) -> bool| {
        let chosen: Vec<_> = addresses.iter().filter(|address| chosen(address)).map(SocketAddr::to_string).collect();
        (!chosen.is_empty()).then(|| chosen.join(", "))
    };
    let open = list(&|address| !address.ip().is_loopback());
    let open = open.map(|open| format!("other machines can ask {open}"));
    open.into_iter().collect()
}

/// Publishes the population as it moves.
async fn live(plan: Plan, listener: Listener, port: u16, board: Board) {
    let started = Instant::now();
    loop {
        tokio::time::sleep(BEAT).await;
        if let Some(status) = plan.source.status(&listener, port, started.elapsed().as_secs(), None) {
            // The options were accepted at the start, and they have not changed.
            let _ = board.publish(&status);
        }
    }
}

async fn rotate(board: Board) {
    loop {
        tokio::time::sleep(ROTATION).await;
        let _ = board.rotate(random_secret());
    }
}

fn summary(counts: &Counts) -> String {
    let dropped: Vec<_> =
        counts.dropped.iter().map(|(reason, count)| format!("{count} {}", in_words(reason))).collect();
    let unanswered: u64 = counts.dropped.values().sum();
    let braces = |text: String| if text.is_empty() { text } else { format!(" ({text})") };
    let unproven = match counts.unproven {
        0 => String::new(),
        unproven => format!("{unproven} of them before the asker had proved its address"),
    };
    format!(
        "{} received: {} answered{}, {unanswered} left unanswered{}",
        count(counts.received, "datagram"),
        counts.answered + counts.unproven,
        braces(unproven),
        braces(dropped.join(", "))
    )
}

/// The reason for silence, after a number.
pub(super) fn in_words(reason: &'static str) -> &'static str {
    let mut counts = snapshot::Counts::default();
    counts.drop(reason, 1);
    // Of those that no list knows, the word itself says more.
    match counts.dropped.keys().next().map_or("other", String::as_str) {
        "other" => reason,
        key => snapshot::REASONS.iter().find(|known| known.key == key).map_or(reason, |known| known.words),
    }
}

/// Ctrl-C, or the service manager's request to stop.
pub(super) async fn interrupted() {
    let Ok(mut terminate) = signal::unix::signal(SignalKind::terminate()) else {
        let _ = signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_for_people() {
        let mut counts = Counts::default();
        assert_eq!(summary(&counts), "0 datagrams received: 0 answered, 0 left unanswered");
        (counts.received, counts.answered) = (1, 1);
        assert_eq!(summary(&counts), "1 datagram received: 1 answered, 0 left unanswered");
        (counts.received, counts.unproven) = (9, 2);
        counts.dropped.extend([("budget", 1), ("malformed", 3), ("no query", 2)]);
        assert_eq!(
            summary(&counts),
            "9 datagrams received: 3 answered (2 of them before the asker had proved its address), 6 left unanswered \
             (1 over the limit for replies, 3 malformed, 2 in no protocol served here)"
        );
    }

    #[test]
    fn who_is_open_to_others_is_told_so() {
        let said = |addresses: &[&str]| {
            let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            notes(&addresses).join("\n")
        };
        assert_eq!(said(&["127.0.0.1:1", "[::1]:1"]), "");
        assert_eq!(
            said(&["127.0.0.1:1", "192.0.2.7:1", "[2001:db8::7]:2"]),
            "other machines can ask 192.0.2.7:1, [2001:db8::7]:2"
        );
    }
}
