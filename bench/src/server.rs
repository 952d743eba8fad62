//! The server process of a measurement: prepared replies from a bare loop, or a farm of the
//! library.
//!
//! In: a plan as arguments. Out: replies to the client of the measurement.
//!
//! May import: `crate::bare`, `crate::game`, `crate::slp`, `hailer`.

use crate::bare::{self, BATCH, Batch, Peer};
use crate::game::{Canned, Game, RequestParts, alive, ip};
use crate::slp;
use clap::{Args, ValueEnum};
use hailer::respond::farm;
use std::collections::VecDeque;
use std::io::Read;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Largest number of delayed replies.
const MAX_DELAYED: usize = 1 << 20;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Prepared replies.
    Canned,
    /// `hailer::respond::farm`.
    Farm,
}

/// Options of a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// The server.
    #[arg(long, value_enum)]
    pub(crate) kind: Kind,
    /// The protocol.
    #[arg(long, value_enum)]
    pub(crate) game: Game,
    /// Share of addresses that never reply.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) silent: f64,
    /// Delay of a reply in milliseconds.
    #[arg(long, default_value_t = 0)]
    pub delay_ms: u64,
    /// Core that the server runs on.
    #[arg(long, default_value_t = 1)]
    pub(crate) core: usize,
    /// Number of targets, to count those that reply.
    #[arg(long)]
    pub(crate) targets: u32,
}

/// Serves until standard input ends. Prints the port, and the number of targets that reply.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stopping.store(true, Ordering::Relaxed);
    });
    match plan.kind {
        Kind::Canned if plan.game == Game::Slp => {
            let delay = Duration::from_millis(plan.delay_ms);
            slp::serve(plan.targets, plan.silent, delay, &stop)
        }
        Kind::Canned => canned(plan, &stop),
        Kind::Farm => {
            let mut config = farm::FarmConfig::new(Ipv4Addr::new(127, 0, 0, 0), 8);
            config.ports = vec![(plan.game.protocol(), 0)];
            config.silent = plan.silent;
            config.delay = Duration::from_millis(plan.delay_ms);
            let farm = farm::Farm::new(config)?;
            let bound = farm.bind()?;
            let port = bound[0].port();
            let alive = match plan.silent {
                0.0 => u64::from(plan.targets),
                1.0 => 0,
                _ => alive(&farm, plan.game, plan.targets, port)?,
            };
            println!("{port} {alive} 0");
            let counts = farm.run(&bound, &stop);
            println!("{}", counts.overflows + counts.queue_full + counts.unsent);
            Ok(())
        }
    }
}

struct Delayed {
    due: Instant,
    from: Peer,
    to: u32,
    request_parts: RequestParts,
}

/// Much longer than a datagram takes, and too short for a queue to overflow.
const NAP: Duration = Duration::from_micros(50);

fn canned(plan: &Plan, stop: &AtomicBool) -> anyhow::Result<()> {
    let canned = Canned::new(plan.game, plan.silent)?;
    let socket = bare::bind(0, true)?;
    let alive = (0..plan.targets)
        .filter(|target| !canned.is_silent(ip(*target)))
        .count();
    println!("{} {alive} 0", socket.local_addr()?.port());
    eprintln!("replies of {:?} bytes on average", canned.lengths());
    let delay = Duration::from_millis(plan.delay_ms);
    let mut input = Batch::new(true);
    let mut output = Batch::new(true);
    let mut delayed: VecDeque<Delayed> = VecDeque::new();
    let mut dropped = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let mut released = 0;
        if !delayed.is_empty() {
            let now = Instant::now();
            while released < 4 * BATCH
                && let Some(one) = delayed.pop_front_if(|one| one.due <= now)
            {
                output.push(one.from, one.to, |out| {
                    canned.answer(one.request_parts, one.from, one.to, out)
                });
                released += 1;
                if output.len() == BATCH {
                    output.send(&socket)?;
                }
            }
        }
        let count = input.receive(&socket)?;
        let due = Instant::now() + delay;
        for i in 0..count {
            let (from, to, request) = input.get(i);
            if canned.is_silent(to) {
                continue;
            }
            let Some(request_parts) = canned.parse(from, to, request) else {
                continue;
            };
            if delay.is_zero() {
                output.push(from, to, |out| canned.answer(request_parts, from, to, out));
                if output.len() == BATCH {
                    output.send(&socket)?;
                }
            } else if delayed.len() < MAX_DELAYED {
                delayed.push_back(Delayed {
                    due,
                    from,
                    to,
                    request_parts,
                });
            } else {
                dropped += 1;
            }
        }
        if output.len() > 0 {
            output.send(&socket)?;
        }
        if count == 0 && released == 0 {
            // Sleep instead of waiting for the socket. Waking a local receiver costs the sender
            // time; waking a remote one would not.
            std::thread::sleep(NAP);
        }
    }
    println!("{dropped}");
    Ok(())
}
