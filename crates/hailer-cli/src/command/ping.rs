//! `hailer ping`: measures the latency of a server.

use crate::args::Ping;
use crate::exit::{Exit, as_known};
use crate::print::json;
use hailer::client::Host;
use hailer::client::Transcript;
use hailer::support::catalog;
use hailer::{Answer, Client, Error, Target};
use serde::Serialize;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// Retries of a ping while no server has replied without one.
const RETRIES: u32 = 3;

/// One result as a line of JSON.
#[derive(Serialize)]
struct PingLine<'a> {
    schema: &'static str,
    target: &'a str,
    sequence: u32,
    protocol: Option<&'static str>,
    address: Option<String>,
    latency_ms: Option<f64>,
    error: Option<&'static str>,
}

#[derive(Serialize)]
struct PingSummary<'a> {
    schema: &'static str,
    target: &'a str,
    requests: u32,
    replies: usize,
    loss_percent: f64,
    latency_min_ms: Option<f64>,
    latency_mean_ms: Option<f64>,
    latency_max_ms: Option<f64>,
    latency_deviation_ms: Option<f64>,
}

pub(crate) async fn run(args: Ping) -> anyhow::Result<Exit> {
    let target = args.query_args.targets.target(&args.target)?;
    let mut tally = Tally::default();
    let shown = ping(&args, target, &mut tally).await;
    let all_answered = tally.sent > 0 && tally.times.len() == tally.sent as usize;
    as_known(
        shown,
        if all_answered {
            Exit::Success
        } else {
            Exit::Partial
        },
    )
}

/// Totals of the results so far.
#[derive(Default)]
struct Tally {
    sent: u32,
    /// Latencies in milliseconds.
    times: Vec<f64>,
}

async fn ping(args: &Ping, mut target: Target, tally: &mut Tally) -> anyhow::Result<()> {
    // A lost datagram is a result here, so there are no retries. But some servers reply only to a
    // later form of the request, such as Teeworlds 0.7: until a reply without a retry, there are.
    let client = Client::new(args.query_args.config(0, None));
    let patient = Client::new(args.query_args.config(RETRIES, None));
    let mut needs_retry = true;
    let mut out = crate::print::stdout();
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut pace = tokio::time::interval(args.interval);
    // Skip pings that were missed while the machine was suspended.
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while args.count == 0 || tally.sent < args.count {
        tokio::select! {
            _ = &mut interrupted => break,
            _ = pace.tick() => {}
        }
        let client = if needs_retry { &patient } else { &client };
        let started = Instant::now();
        let end = tokio::select! {
            _ = &mut interrupted => break,
            end = client.ping(&target) => end,
        };
        tally.sent += 1;
        if let Ok(answer) = &end {
            needs_retry &= started.elapsed() >= args.query_args.targets.timeout;
            target = resolved(target, &answer.transcript);
            tally.times.push(ms(answer.latency));
        }
        line(&mut out, args, tally.sent, &end)?;
    }
    summary(&mut out, args, tally)
}

/// Returns the target with the protocol and address that answered, so that later pings skip
/// detection and name lookup.
fn resolved(target: Target, transcript: &Transcript) -> Target {
    let host = match transcript.address {
        // Only a host name can contain the zone.
        SocketAddr::V6(address) if address.scope_id() != 0 => target.host,
        address => Host::Address(address.ip()),
    };
    Target {
        game: None,
        protocol: catalog::protocol(transcript.protocol.id),
        host,
        port: Some(transcript.address.port()),
    }
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn line(
    out: &mut impl Write,
    args: &Ping,
    sequence: u32,
    end: &Result<Answer, Error>,
) -> anyhow::Result<()> {
    if args.json {
        let answer = end.as_ref().ok();
        let line = PingLine {
            schema: "hailer/ping/2",
            target: &args.target,
            sequence,
            protocol: answer.map(|answer| answer.transcript.protocol.id),
            address: answer.map(|answer| answer.transcript.address.to_string()),
            latency_ms: answer.map(|answer| ms(answer.latency)),
            error: end.as_ref().err().map(|error| error.kind().as_str()),
        };
        writeln!(out, "{}", json::line(&line)?)?;
    } else {
        match end {
            Ok(answer) => writeln!(
                out,
                "{} from {}: seq={sequence} time={:.3} ms",
                answer.transcript.protocol.title,
                answer.transcript.address,
                ms(answer.latency)
            )?,
            Err(error) => {
                let error = error.most_informative();
                writeln!(out, "seq={sequence} \x1b[31m{error}\x1b[0m")?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

fn summary(out: &mut impl Write, args: &Ping, Tally { sent, times }: &Tally) -> anyhow::Result<()> {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let deviation = (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count).sqrt();
    let min = times.iter().copied().reduce(f64::min);
    let max = times.iter().copied().reduce(f64::max);
    let loss = if *sent == 0 {
        0.0
    } else {
        100.0 * (1.0 - count / f64::from(*sent))
    };
    if args.json {
        let round = |number: f64| (number * 1e3).round() / 1e3;
        let summary = PingSummary {
            schema: "hailer/ping-summary/2",
            target: &args.target,
            requests: *sent,
            replies: times.len(),
            loss_percent: round(loss),
            latency_min_ms: min,
            latency_mean_ms: min.map(|_| round(mean)),
            latency_max_ms: max,
            latency_deviation_ms: min.map(|_| round(deviation)),
        };
        writeln!(out, "{}", json::line(&summary)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "\n--- {} ---\n{sent} sent, {} answered, {loss:.0} % loss",
        args.target,
        times.len()
    )?;
    if let (Some(min), Some(max)) = (min, max) {
        writeln!(
            out,
            "round trip min/mean/max/deviation = {min:.3}/{mean:.3}/{max:.3}/{deviation:.3} ms"
        )?;
    }
    Ok(())
}
