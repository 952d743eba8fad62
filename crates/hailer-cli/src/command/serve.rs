//! `hailer serve`: answers queries.

use super::{block_on, farm, game, serve_sources};
use crate::args::Serve;
use crate::config::{self, Config, Listener, Plan};
use crate::exit::Exit;
use crate::print::{count, tell};
use hailer::Status;
use hailer::proto::Keys;
use hailer::respond::{BindError, Board, Counts, Done, Engine, Post, Settings, random_secret};
use hailer::source::Published;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
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
        None => Config { servers: vec![config::from_flags(args)?], ..Config::default() },
    };
    if args.check_config {
        writeln!(std::io::stdout(), "sound: {}", what(&config.servers))?;
        return Ok(Exit::Success);
    }
    block_on(serve(&config, args))
}

async fn serve(config: &Config, args: &Serve) -> anyhow::Result<Exit> {
    let plans = &config.servers;
    let mut stage = Stage::new(plans, None)?;
    let engine = Engine::start(stage.posts.clone(), &settings(&config.engine)).map_err(hint)?;
    stage.open(plans, &engine).await?;
    let mut out = anstream::stdout();
    for (post, protocols) in stage.posts.iter().zip(protocols(plans)) {
        writeln!(out, "listening on {} for {protocols}", post.address)?;
    }
    out.flush()?;
    for note in notes(&engine.addresses()) {
        tell!("\x1b[33mnote:\x1b[0m {note}");
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
            Some(()) = hangup.recv() => match reload(args, &config.engine, &mut stage, &engine).await {
                Ok(Some(what)) => tell!("read again: {what}"),
                Ok(None) => tell!("\x1b[33mnote:\x1b[0m there is no configuration file to read again"),
                Err(error) => tell!("\x1b[33mwarning:\x1b[0m {error:#}; all stays as it was"),
            },
        }
    }
    drop(stage);
    tell!("{}", summary(&total(&engine.stop())));
    Ok(Exit::Success)
}

/// Reads the configuration again, and answers by it from then on. Returns what it is, if there is one.
async fn reload(
    args: &Serve,
    running: &config::Engine,
    stage: &mut Stage,
    engine: &Engine,
) -> anyhow::Result<Option<String>> {
    let Some(path) = &args.config else { return Ok(None) };
    let Config { servers: plans, engine: wished, .. } = config::read(path)?;
    let new = Stage::new(&plans, Some(stage))?;
    engine.reload(new.asked()).map_err(hint)?;
    // First the old one ends: a new source may listen where an old one did.
    *stage = new;
    if let Err(error) = stage.open(&plans, engine).await {
        tell!("\x1b[33mwarning:\x1b[0m {error:#}; answers go on without it");
    }
    if wished != *running {
        tell!("\x1b[33mnote:\x1b[0m [engine] is as it was; it changes when Hailer is started again");
    }
    Ok(Some(what(&plans)))
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
    sources: Option<serve_sources::Sources>,
}

impl Stage {
    /// Boards for these plans. Where one was before, its keys stay, so that tokens handed out stay good.
    fn new(plans: &[Plan], old: Option<&Self>) -> anyhow::Result<Self> {
        let old = |address| old.and_then(|old| old.asked.iter().zip(&old.posts).find(|(asked, _)| **asked == address));
        let mut posts = Vec::new();
        for (plan, listener) in listeners(plans) {
            let kept = old(listener.address).filter(|_| listener.secret.is_none());
            let keys = kept.map(|(_, post)| post.board.keys());
            let keys = keys.unwrap_or_else(|| Keys::new(listener.secret.unwrap_or_else(random_secret)));
            let status = plan.source.status(listener, listener.address.port(), 0);
            let board =
                Board::with_options(listener.protocols.clone(), keys, status.as_ref().unwrap_or(&Status::default()))?;
            if status.is_none() {
                board.silence();
            }
            posts.push(Post { address: listener.address, board, relay: plan.relay });
        }
        let asked = posts.iter().map(|post| post.address).collect();
        Ok(Self { posts, asked, tasks: JoinSet::new(), sources: None })
    }

    /// The posts as they were asked for.
    fn asked(&self) -> Vec<Post> {
        let with = |(post, address): (&Post, &SocketAddr)| Post { address: *address, ..post.clone() };
        self.posts.iter().zip(&self.asked).map(with).collect()
    }

    /// The ports are known now: tells them, and begins to write.
    async fn open(&mut self, plans: &[Plan], engine: &Engine) -> anyhow::Result<()> {
        for ((post, address), (plan, listener)) in self.posts.iter_mut().zip(engine.addresses()).zip(listeners(plans)) {
            let known = plan.source.status(listener, address.port(), 0);
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
            if let config::Source::Fed(feed) = &plan.source {
                fed.push(((**feed).clone(), publisher(boards)));
            }
        }
        self.sources = Some(serve_sources::start(fed).await?);
        Ok(())
    }
}

/// What is answered at each address.
fn protocols(plans: &[Plan]) -> impl Iterator<Item = String> {
    listeners(plans).map(|(_, listener)| {
        let ids: Vec<_> = listener.protocols.iter().map(|(protocol, _)| protocol.info().id).collect();
        ids.join(", ")
    })
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
        if let Some(status) = plan.source.status(&listener, port, started.elapsed().as_secs()) {
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
    match reason {
        "budget" => "over the limit for replies",
        "no query" => "in no protocol served here",
        "token" => "with a wrong or old challenge token",
        "oversized" => "longer than a request",
        "stale" => "while the truth was too old",
        "relay full" => "for the game while its relay was full",
        "relay failed" => "that the game's machine would not take",
        other => other,
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
