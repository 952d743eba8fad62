//! `hailer serve`: answers queries.

use super::serve_sources::{self, Sources};
use super::serve_view::View;
use super::{block_on, farm, game, serve_files};
use crate::args::Serve;
use crate::config::{self, Config, Listener, Plan};
use crate::exit::Exit;
use crate::print::{count, tell};
use crate::{activation, observe};
use hailer::Status;
use hailer::proto::Keys;
use hailer::respond::{
    Board, Counts, ListenError, ListenerConfig, ListenerCounts, PoolConfig, Reason, ResponderPool,
    random_secret,
};
use hailer::source::Published;
use std::collections::BTreeSet;
use std::future::Future;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::{self, unix::SignalKind};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A population moves so often.
const BEAT: Duration = Duration::from_secs(1);
/// The secret behind challenge tokens changes so often, unless several nodes share it.
const ROTATION: Duration = Duration::from_secs(3600);
/// Counts are printed at most so often, and only if there is something new.
const REPORT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Serve) -> anyhow::Result<Exit> {
    if !args.farm.farm.is_empty() {
        return farm::run(args);
    }
    if let Some(plan) = game::plan(args)? {
        return block_on(game::serve(plan, args.r#for));
    }
    let config = match &args.config {
        Some(path) => config::read(path)?,
        None => Config {
            servers: vec![config::from_flags(args)?],
            ..Config::default()
        },
    };
    if args.check_config {
        writeln!(std::io::stdout(), "sound: {}", what(&config.servers))?;
        return Ok(Exit::Success);
    }
    // Before anything is opened: they are known by their numbers.
    let handed = by_address(activation::activated_sockets()?);
    block_on(serve(&config, args, &handed))
}

/// Sockets that a service manager opened for us, those of one address together.
type Handed = [(SocketAddr, Arc<[UdpSocket]>)];

fn by_address(handed: Vec<(SocketAddr, UdpSocket)>) -> Vec<(SocketAddr, Arc<[UdpSocket]>)> {
    let mut grouped: Vec<(SocketAddr, Vec<UdpSocket>)> = Vec::new();
    for (address, socket) in handed {
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

async fn serve(config: &Config, args: &Serve, handed: &Handed) -> anyhow::Result<Exit> {
    // First of all: before somebody listens for it, a hangup is the end.
    let mut hangup = signal::unix::signal(SignalKind::hangup())?;
    let plans = &config.servers;
    let settings = settings(&config.engine);
    let crowded = serve_files::make_room(plans, &settings);
    let mut stage = Stage::new(plans, None, handed)?;
    let engine = Arc::new(ResponderPool::start(stage.posts.clone(), &settings).map_err(hint)?);
    if let Some(problem) = stage
        .open(plans, &engine, &Sources::default())
        .await?
        .into_iter()
        .next()
    {
        return Err(problem);
    }
    let view = Arc::new(View::new(&engine));
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
    let notes = notes(&engine.addresses())
        .into_iter()
        .chain(notes_on_handed(handed, &stage.posts, engine.workers()));
    for note in notes.chain(crowded).chain(observer.note().map(Into::into)) {
        tell!("\x1b[33mnote:\x1b[0m {note}");
    }
    activation::ready("answering");
    if let Some(path) = observer.control() {
        tell!(
            "\x1b[2m`hailer top` and `hailer serve status` look at it through {}\x1b[0m",
            path.display()
        );
    }
    tell!("\x1b[2mCtrl-C stops.\x1b[0m");
    let mut report = tokio::time::interval(REPORT);
    let (mut over, mut reported) = (pin!(over(args.r#for)), Counts::default());
    loop {
        tokio::select! {
            () = &mut over => break,
            _ = report.tick() => {
                let counts = total(&engine.counts());
                if counts.received != reported.received {
                    tell!("\x1b[2m{}\x1b[0m", summary(&counts));
                    reported = counts;
                }
                if let Some(held_back) = stage.sources.held_back() {
                    tell!("{held_back}");
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
    if let Some(held_back) = stage.sources.held_back() {
        tell!("{held_back}");
    }
    drop((stage, observer, view));
    let counts = match Arc::try_unwrap(engine) {
        Ok(engine) => total(&engine.stop()),
        Err(engine) => total(&engine.counts()),
    };
    tell!("{}", summary(&counts));
    Ok(Exit::Success)
}

/// Reads the configuration again, and answers by it from then on. Returns what it is, if there is one.
async fn reload(
    args: &Serve,
    (running, handed): (&Config, &Handed),
    stage: &mut Stage,
    engine: &ResponderPool,
    view: &View,
) -> anyhow::Result<Option<String>> {
    let Some(path) = &args.config else {
        return Ok(None);
    };
    let wished = config::read(path)?;
    let plans = &wished.servers;
    let new = Stage::new(plans, Some(stage), handed)?;
    let settings = settings(&wished.engine);
    let crowded = serve_files::make_room(plans, &settings);
    engine.reload(new.asked()).map_err(hint)?;
    engine.configure(&settings);
    // First the old sources end: a new one may listen where an old one did. Networks are left only by who does not return.
    let returns: BTreeSet<_> = plans
        .iter()
        .filter_map(|plan| Some(plan.source.fed()?.from.identity()))
        .collect();
    stage
        .sources
        .stop(|identity| returns.contains(identity))
        .await;
    let old = std::mem::replace(stage, new);
    for problem in stage.open(plans, engine, &old.sources).await? {
        tell!("\x1b[33mwarning:\x1b[0m {problem:#}; answers go on without it");
    }
    view.show(stage, plans);
    for note in crowded
        .into_iter()
        .chain(only_at_the_start(running, &wished, engine.workers()))
    {
        tell!("\x1b[33mnote:\x1b[0m {note}");
    }
    Ok(Some(what(plans)))
}

/// What a new configuration asks for and only a new start can give.
fn only_at_the_start(running: &Config, wished: &Config, workers: usize) -> Option<String> {
    let threads = settings(&wished.engine).threads();
    let kept: Vec<String> = [
        (threads != workers).then(|| format!("workers = {threads} ({workers} go on)")),
        (wished.observe != running.observe).then(|| "[observe]".into()),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!kept.is_empty()).then(|| {
        format!(
            "for {} start hailer again; all else is as in the file",
            kept.join(" and ")
        )
    })
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

fn settings(wished: &config::Engine) -> PoolConfig {
    let mut settings = PoolConfig::default();
    settings.workers = wished.workers.unwrap_or_default();
    settings.relay_sessions = wished.relay_sessions.unwrap_or(settings.relay_sessions);
    settings.relay_idle = wished.relay_idle.unwrap_or(settings.relay_idle);
    let budget = &mut settings.budget;
    for (allowed, bytes, packets) in [
        (
            wished.unverified_per_source,
            &mut budget.unverified_per_source,
            &mut budget.unverified_packets,
        ),
        (
            wished.unverified_total,
            &mut budget.unverified_total,
            &mut budget.unverified_total_packets,
        ),
        (
            wished.verified_per_source,
            &mut budget.verified_per_source,
            &mut budget.verified_packets,
        ),
    ] {
        *bytes = allowed.bytes.unwrap_or(*bytes);
        *packets = allowed.packets.unwrap_or(*packets);
    }
    settings
}

/// The boards of one configuration and the tasks that write on them. Dropping it ends the tasks.
pub(super) struct Stage {
    /// In the order of the plans' listeners. With the ports that the system chose, once they are open.
    posts: Vec<ListenerConfig>,
    /// What was asked for, of each post.
    asked: Vec<Listener>,
    tasks: JoinSet<()>,
    pub(super) sources: Sources,
}

impl Stage {
    /// Boards for these plans. What was there before goes on: keys, so that tokens handed out stay good, and what sources
    /// said last.
    fn new(plans: &[Plan], old: Option<&Self>, handed: &Handed) -> anyhow::Result<Self> {
        // Of several on the same address, as with port 0, each goes on as itself.
        let mut left: Vec<_> =
            old.map_or_else(Vec::new, |old| old.asked.iter().zip(&old.posts).collect());
        let (mut posts, mut asked) = (Vec::new(), Vec::new());
        for (plan, listener) in listeners(plans) {
            let kept = left
                .iter()
                .position(|(asked, _)| asked.address == listener.address)
                .map(|at| left.remove(at));
            let keys = kept.map(|(asked, post)| (asked.secret, post.board.keys()));
            let keys = match (keys, listener.secret) {
                (Some((_, keys)), Some(secret)) => keys.renew(secret),
                (Some((None, keys)), None) => keys,
                (Some((Some(_), keys)), None) => keys.rotate(random_secret()),
                (None, secret) => Keys::new(secret.unwrap_or_else(random_secret)),
            };
            let address = kept.map_or(listener.address, |(_, post)| post.address);
            let said = plan
                .source
                .fed()
                .and_then(|feed| old?.sources.said(&feed.from));
            let status = plan
                .source
                .status(listener, address.port(), 0, said.as_ref());
            let board = Board::with_options(
                listener.protocols.clone(),
                keys,
                status.as_ref().unwrap_or(&Status::default()),
            )?;
            if status.is_none() {
                board.silence();
            }
            let handed = handed
                .iter()
                .find(|(address, _)| *address == listener.address);
            let handed = handed.map(|(_, sockets)| sockets.clone());
            posts.push(ListenerConfig {
                address,
                board,
                relay: plan.relay,
                inherited: handed,
            });
            asked.push(listener.clone());
        }
        Ok(Self {
            posts,
            asked,
            tasks: JoinSet::new(),
            sources: Sources::default(),
        })
    }

    /// The posts as they were asked for.
    fn asked(&self) -> Vec<ListenerConfig> {
        let with = |(post, asked): (&ListenerConfig, &Listener)| ListenerConfig {
            address: asked.address,
            ..post.clone()
        };
        self.posts.iter().zip(&self.asked).map(with).collect()
    }

    /// The ports are known now: tells them, and begins to write. Returns which sources do not start, and why. `before` are the
    /// sources until now.
    async fn open(
        &mut self,
        plans: &[Plan],
        engine: &ResponderPool,
        before: &Sources,
    ) -> anyhow::Result<Vec<anyhow::Error>> {
        for ((post, address), (plan, listener)) in self
            .posts
            .iter_mut()
            .zip(engine.addresses())
            .zip(listeners(plans))
        {
            let said = plan.source.fed().and_then(|feed| before.said(&feed.from));
            let known = plan
                .source
                .status(listener, address.port(), 0, said.as_ref());
            if let Some(status) = known.filter(|_| post.address.port() == 0) {
                post.board.publish(&status)?;
            }
            post.address = address;
            if listener.secret.is_none() {
                self.tasks.spawn(rotate(post.board.clone()));
            }
            if let config::Source::Demo(_) = plan.source {
                self.tasks.spawn(live(
                    plan.clone(),
                    listener.clone(),
                    address.port(),
                    post.board.clone(),
                ));
            }
        }
        let mut posts = self.posts.iter();
        let mut fed = Vec::new();
        for plan in plans {
            let boards = posts
                .by_ref()
                .take(plan.listeners.len())
                .map(|post| (post.address.port(), post.board.clone()));
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
        let ids: Vec<_> = listener
            .protocols
            .iter()
            .map(|(protocol, _)| protocol.info().id)
            .collect();
        ids.join(", ")
    })
}

/// Publishes what a source says on all boards of its server.
fn publisher(boards: Vec<(u16, Board)>) -> serve_sources::Publish {
    Box::new(move |published| {
        for (port, board) in &boards {
            match &published {
                // The options were accepted at the start, and they have not changed.
                Published::Status(status) => {
                    drop(board.publish(&config::at_port((**status).clone(), *port)));
                }
                Published::Silence => board.silence(),
            }
        }
    })
}

pub(super) fn listeners(plans: &[Plan]) -> impl Iterator<Item = (&Plan, &Listener)> {
    plans
        .iter()
        .flat_map(|plan| plan.listeners.iter().map(move |listener| (plan, listener)))
}

fn hint(error: ListenError) -> anyhow::Error {
    let hint =
        "--listen ADDRESS:PORT chooses another, or `listen` in the file; port 0 takes any free one";
    anyhow::Error::new(error.cause).context(format!("cannot listen on {} ({hint})", error.address))
}

fn total(done: &[ListenerCounts]) -> Counts {
    let mut total = Counts::default();
    done.iter().for_each(|done| total.add(&done.counts));
    total
}

/// `2 servers on 3 addresses`
fn what(plans: &[Plan]) -> String {
    format!(
        "{} on {}",
        count(plans.len(), "server"),
        count(listeners(plans).count(), "address")
    )
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
        let chosen: Vec<_> = addresses
            .iter()
            .filter(|address| chosen(address))
            .map(SocketAddr::to_string)
            .collect();
        (!chosen.is_empty()).then(|| chosen.join(", "))
    };
    let open = list(&|address| !address.ip().is_loopback());
    let open = open.map(|open| format!("other machines can ask {open}"));
    open.into_iter().collect()
}

/// What somebody who hands over sockets may want to know.
fn notes_on_handed(handed: &Handed, posts: &[ListenerConfig], workers: usize) -> Vec<String> {
    let note = |(address, sockets): &(SocketAddr, Arc<[UdpSocket]>)| {
        let count = sockets.len();
        if posts.iter().all(|post| post.address != *address) {
            Some(format!(
                "nobody listens on {address}, whose socket was handed over"
            ))
        } else if count != workers {
            let fix = format!("hand over {workers} with ReusePort=yes, or write workers = {count}");
            Some(format!(
                "sockets handed over for {address}: {count}, for {workers} workers; {fix}"
            ))
        } else {
            None
        }
    };
    handed.iter().filter_map(note).collect()
}

/// Publishes the population as it moves.
async fn live(plan: Plan, listener: Listener, port: u16, board: Board) {
    let started = Instant::now();
    loop {
        tokio::time::sleep(BEAT).await;
        if let Some(status) = plan
            .source
            .status(&listener, port, started.elapsed().as_secs(), None)
        {
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
    let dropped: Vec<_> = counts
        .dropped
        .iter()
        .map(|(reason, count)| format!("{count} {}", in_words(reason)))
        .collect();
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
        unverified => format!("{unverified} of them before the asker had proved its address"),
    };
    format!(
        "{} received: {} answered{}, {unanswered} left unanswered{}",
        count(counts.received, "datagram"),
        counts.answered + counts.unverified,
        braces(unverified),
        braces(dropped.join(", "))
    )
}

/// The reason for silence, after a number.
pub(super) fn in_words(reason: &'static str) -> &'static str {
    Reason::find(reason).map_or(reason, |known| known.words)
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
        assert_eq!(
            summary(&counts),
            "0 datagrams received: 0 answered, 0 left unanswered"
        );
        (counts.received, counts.answered) = (1, 1);
        assert_eq!(
            summary(&counts),
            "1 datagram received: 1 answered, 0 left unanswered"
        );
        (counts.received, counts.unverified) = (9, 2);
        counts
            .dropped
            .extend([("budget", 1), ("malformed", 3), ("no query", 2)]);
        assert_eq!(
            summary(&counts),
            "9 datagrams received: 3 answered (2 of them before the asker had proved its address), 6 left unanswered \
             (1 over the limit for replies, 3 malformed, 2 in no protocol served here)"
        );
    }

    #[test]
    fn who_is_open_to_others_is_told_so() {
        let said = |addresses: &[&str]| {
            let addresses: Vec<SocketAddr> = addresses
                .iter()
                .map(|address| address.parse().unwrap())
                .collect();
            notes(&addresses).join("\n")
        };
        assert_eq!(said(&["127.0.0.1:1", "[::1]:1"]), "");
        assert_eq!(
            said(&["127.0.0.1:1", "192.0.2.7:1", "[2001:db8::7]:2"]),
            "other machines can ask 192.0.2.7:1, [2001:db8::7]:2"
        );
    }
}
