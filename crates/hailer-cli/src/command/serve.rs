//! `hailer serve`: answers queries.

use super::block_on;
use crate::args::Serve;
use crate::config::{self, Listener, Plan};
use crate::exit::Exit;
use anyhow::Context;
use hailer::respond::{Board, Budget, Counts, Service};
use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::Instant;

/// A population moves so often.
const BEAT: Duration = Duration::from_secs(1);
/// Counts are printed at most so often, and only if there is something new.
const REPORT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Serve) -> anyhow::Result<Exit> {
    let plans = match &args.config {
        Some(path) => config::read(path)?,
        None => vec![config::from_flags(args)?],
    };
    if args.check_config {
        let listeners: usize = plans.iter().map(|plan| plan.listeners.len()).sum();
        println!("sound: {} servers on {listeners} addresses", plans.len());
        return Ok(Exit::Success);
    }
    block_on(serve(plans, args.r#for))
}

async fn serve(plans: Vec<Plan>, time: Option<Duration>) -> anyhow::Result<Exit> {
    let (stop, stopped) = watch::channel(false);
    let mut tasks = Vec::new();
    let mut out = anstream::stdout();
    for plan in plans {
        let mut boards = Vec::new();
        for listener in &plan.listeners {
            let socket = bind(listener).await?;
            let port = socket.local_addr()?.port();
            let board = listener.board(&plan.source.status(listener, port, 0))?;
            announce(&mut out, listener, &socket)?;
            tasks.push(tokio::spawn(answer(socket, board.clone(), stopped.clone())));
            boards.push((port, board));
        }
        if let config::Source::Demo(_) = plan.source {
            tokio::spawn(live(plan, boards));
        }
    }
    out.flush()?;
    anstream::eprintln!("\x1b[2mCtrl-C stops.\x1b[0m");
    let over: Pin<Box<dyn Future<Output = ()>>> = match time {
        Some(time) => Box::pin(tokio::time::sleep(time)),
        None => Box::pin(std::future::pending()),
    };
    tokio::select! {
        () = signal() => {}
        () = over => {}
    }
    stop.send(true)?;
    let mut total = Counts::default();
    for task in tasks {
        total.add(&task.await?);
    }
    anstream::eprintln!("{}", summary(&total));
    Ok(Exit::Success)
}

async fn bind(listener: &Listener) -> anyhow::Result<UdpSocket> {
    UdpSocket::bind(listener.address).await.with_context(|| {
        format!(
            "cannot listen on {} (--listen ADDRESS:PORT chooses another; port 0 takes any free one)",
            listener.address
        )
    })
}

fn announce(out: &mut impl Write, listener: &Listener, socket: &UdpSocket) -> anyhow::Result<()> {
    let address = socket.local_addr()?;
    let ids: Vec<_> = listener.protocols.iter().map(|(protocol, _)| protocol.info().id).collect();
    writeln!(out, "listening on {address} for {}", ids.join(", "))?;
    if !address.ip().is_loopback() {
        anstream::eprintln!("\x1b[33mnote:\x1b[0m {address} can be asked from other machines");
    }
    Ok(())
}

/// Publishes the population as it moves.
async fn live(plan: Plan, boards: Vec<(u16, Board)>) {
    let started = Instant::now();
    loop {
        tokio::time::sleep(BEAT).await;
        for (listener, (port, board)) in plan.listeners.iter().zip(&boards) {
            let status = plan.source.status(listener, *port, started.elapsed().as_secs());
            // The options were accepted at the start, and they have not changed.
            let _ = board.publish(&status);
        }
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
                    anstream::eprintln!("\x1b[2m{address}: {}\x1b[0m", summary(&reported));
                }
            }
        }
    }
}

fn summary(counts: &Counts) -> String {
    let dropped: Vec<_> = counts.dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let dropped = if dropped.is_empty() { "none".into() } else { dropped.join(", ") };
    format!(
        "{} received, {} answered, {} challenged or unproven, not answered: {dropped}",
        counts.received, counts.answered, counts.unproven
    )
}

/// Ctrl-C, or the service manager's request to stop.
async fn signal() {
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
