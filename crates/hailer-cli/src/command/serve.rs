//! `hailer serve`: answers queries.

use super::{block_on, farm, game, serve_sources};
use crate::args::Serve;
use crate::config::{self, Listener, Plan};
use crate::exit::Exit;
use crate::print::{count, tell};
use anyhow::Context;
use hailer::Status;
use hailer::respond::{Board, Budget, Counts, Service, random_secret};
use hailer::source::Published;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::watch;
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
    let plans = match &args.config {
        Some(path) => config::read(path)?.servers,
        None => vec![config::from_flags(args)?],
    };
    if args.check_config {
        let listeners: usize = plans.iter().map(|plan| plan.listeners.len()).sum();
        let (servers, addresses) = (count(plans.len(), "server"), count(listeners, "address"));
        writeln!(std::io::stdout(), "sound: {servers} on {addresses}")?;
        return Ok(Exit::Success);
    }
    block_on(serve(plans, args.r#for))
}

async fn serve(plans: Vec<Plan>, time: Option<Duration>) -> anyhow::Result<Exit> {
    let (stop, stopped) = watch::channel(false);
    let mut tasks = Vec::new();
    let mut out = anstream::stdout();
    let mut addresses = Vec::new();
    let mut fed = Vec::new();
    for plan in plans {
        let mut boards = Vec::new();
        for listener in &plan.listeners {
            let socket = bind(listener).await?;
            let address = socket.local_addr()?;
            let port = address.port();
            let status = plan.source.status(listener, port, 0);
            let board = listener.board(status.as_ref().unwrap_or(&Status::default()))?;
            if status.is_none() {
                board.silence()?;
            }
            let ids: Vec<_> = listener.protocols.iter().map(|(protocol, _)| protocol.info().id).collect();
            writeln!(out, "listening on {address} for {}", ids.join(", "))?;
            addresses.push(address);
            tasks.push(tokio::spawn(answer(socket, board.clone(), stopped.clone())));
            if listener.secret.is_none() {
                tokio::spawn(rotate(board.clone()));
            }
            boards.push((port, board));
        }
        match &plan.source {
            config::Source::Demo(_) => drop(tokio::spawn(live(plan, boards))),
            config::Source::Fed(feed) => fed.push(((**feed).clone(), publisher(boards))),
            config::Source::Fixed(_) => {}
        }
    }
    let _sources = serve_sources::start(fed).await?;
    out.flush()?;
    for note in notes(&addresses) {
        tell!("\x1b[33mnote:\x1b[0m {note}");
    }
    tell!("\x1b[2mCtrl-C stops.\x1b[0m");
    over(time).await;
    stop.send(true)?;
    let mut total = Counts::default();
    for task in tasks {
        total.add(&task.await?);
    }
    tell!("{}", summary(&total));
    Ok(Exit::Success)
}

/// The end: a signal, or the time that was asked for.
pub(super) async fn over(time: Option<Duration>) {
    let over: Pin<Box<dyn Future<Output = ()> + Send>> = match time {
        Some(time) => Box::pin(tokio::time::sleep(time)),
        None => Box::pin(std::future::pending()),
    };
    tokio::select! {
        () = signal() => {}
        () = over => {}
    }
}

async fn bind(listener: &Listener) -> anyhow::Result<UdpSocket> {
    UdpSocket::bind(listener.address).await.with_context(|| {
        format!(
            "cannot listen on {} (--listen ADDRESS:PORT chooses another; port 0 takes any free one)",
            listener.address
        )
    })
}

/// What somebody who listens there may want to know.
fn notes(addresses: &[SocketAddr]) -> Vec<String> {
    let list = |chosen: &dyn Fn(&SocketAddr) -> bool| {
        let chosen: Vec<_> = addresses.iter().filter(|address| chosen(address)).map(SocketAddr::to_string).collect();
        (!chosen.is_empty()).then(|| chosen.join(", "))
    };
    let open = list(&|address| !address.ip().is_loopback());
    let open = open.map(|open| format!("other machines can ask {open}"));
    let every = list(&|address| address.ip().is_unspecified()).map(|every| {
        format!(
            "{every} stands for every address of this machine; if it has several, a reply may leave from another than \
             the one asked, and does not count: --listen with one address is sure"
        )
    });
    open.into_iter().chain(every).collect()
}

/// Publishes what a source says on all boards of its server.
fn publisher(boards: Vec<(u16, Board)>) -> serve_sources::Publish {
    Box::new(move |published| {
        for (port, board) in &boards {
            // The options were accepted at the start, and they have not changed.
            let _ = match &published {
                Published::Status(status) => board.publish(&config::at_port((**status).clone(), *port)),
                Published::Silence => board.silence(),
            };
        }
    })
}

/// Publishes the population as it moves.
async fn live(plan: Plan, boards: Vec<(u16, Board)>) {
    let started = Instant::now();
    loop {
        tokio::time::sleep(BEAT).await;
        for (listener, (port, board)) in plan.listeners.iter().zip(&boards) {
            let Some(status) = plan.source.status(listener, *port, started.elapsed().as_secs()) else { continue };
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

/// Answers on one socket until told to stop.
async fn answer(socket: UdpSocket, board: Board, mut stopped: watch::Receiver<bool>) -> Counts {
    let mut service = Service::new(board, Budget::default());
    let mut reported = Counts::default();
    let mut report = tokio::time::interval(REPORT);
    loop {
        tokio::select! {
            () = service.run(&socket) => {}
            _ = stopped.wait_for(|stop| *stop) => return service.counts().clone(),
            _ = report.tick() => {
                if *service.counts() != reported {
                    reported = service.counts().clone();
                    let address = socket.local_addr().map(|address| address.to_string()).unwrap_or_default();
                    tell!("\x1b[2m{address}: {}\x1b[0m", summary(&reported));
                }
            }
        }
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
        other => other,
    }
}

/// Ctrl-C, or the service manager's request to stop.
pub(super) async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
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
        for every in ["0.0.0.0:1", "[::]:1"] {
            let said = said(&["127.0.0.1:1", every]);
            assert!(
                said.lines().count() == 2 && said.contains(&format!("\n{every} stands for every address")),
                "{said}"
            );
        }
    }
}
