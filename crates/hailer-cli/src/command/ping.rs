//! `hailer ping`: measures round trips.

use crate::args::Ping;
use crate::exit::Exit;
use crate::print::json;
use hailer::{Client, Error, Target, registry};
use serde::Serialize;
use std::io::Write;
use std::time::Duration;
use tokio::time::Instant;

/// One round trip, or none.
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    target: &'a str,
    sequence: u32,
    protocol: Option<&'static str>,
    address: Option<String>,
    round_trip_ms: Option<f64>,
    error: Option<&'static str>,
}

#[derive(Serialize)]
struct Summary<'a> {
    schema: &'static str,
    target: &'a str,
    sent: u32,
    answered: usize,
    loss_percent: f64,
    min_ms: Option<f64>,
    mean_ms: Option<f64>,
    max_ms: Option<f64>,
    deviation_ms: Option<f64>,
}

pub(crate) async fn run(args: Ping) -> anyhow::Result<Exit> {
    let mut target = args.asking.target(&args.target)?;
    let mut settings = args.asking.settings()?;
    // A lost datagram is a result here, not something to mend.
    settings.patience.retries = 0;
    let client = Client::new(settings);
    let mut out = anstream::stdout();
    let mut times = Vec::new();
    let mut sent = 0;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut next = Instant::now();
    while args.count == 0 || sent < args.count {
        tokio::select! {
            _ = &mut interrupted => break,
            () = tokio::time::sleep_until(next) => {}
        }
        next += args.interval;
        sent += 1;
        let end = tokio::select! {
            _ = &mut interrupted => { sent -= 1; break }
            end = client.ping(&target) => end,
        };
        // Whoever answered first is asked from here on.
        if let (Ok(answer), None) = (&end, target.protocol) {
            target =
                registry::find(answer.protocol.id).map_or(target.clone(), |found| target.clone().with_protocol(found));
        }
        if let Ok(answer) = &end {
            times.push(ms(answer.round_trip));
        }
        line(&mut out, &args, sent, &end)?;
    }
    summary(&mut out, &args, &target, sent, &times)?;
    Ok(if sent > 0 && times.len() == sent as usize { Exit::Success } else { Exit::Partial })
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn line(out: &mut impl Write, args: &Ping, sequence: u32, end: &Result<hailer::Answer, Error>) -> anyhow::Result<()> {
    if args.json {
        let answer = end.as_ref().ok();
        let line = Line {
            schema: "hailer/ping/1",
            target: &args.target,
            sequence,
            protocol: answer.map(|answer| answer.protocol.id),
            address: answer.map(|answer| answer.address.to_string()),
            round_trip_ms: answer.map(|answer| ms(answer.round_trip)),
            error: end.as_ref().err().map(Error::kind),
        };
        writeln!(out, "{}", json::line(&line)?)?;
    } else {
        match end {
            Ok(answer) => writeln!(
                out,
                "{} from {}: seq={sequence} time={:.3} ms",
                answer.protocol.title,
                answer.address,
                ms(answer.round_trip)
            )?,
            Err(error) => writeln!(out, "seq={sequence} \x1b[31m{error}\x1b[0m")?,
        }
    }
    out.flush()?;
    Ok(())
}

fn summary(out: &mut impl Write, args: &Ping, target: &Target, sent: u32, times: &[f64]) -> anyhow::Result<()> {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let deviation = (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count).sqrt();
    let min = times.iter().copied().reduce(f64::min);
    let max = times.iter().copied().reduce(f64::max);
    let loss = if sent == 0 { 0.0 } else { 100.0 * (1.0 - count / f64::from(sent)) };
    if args.json {
        let round = |number: f64| (number * 1e3).round() / 1e3;
        let summary = Summary {
            schema: "hailer/ping-summary/1",
            target: &args.target,
            sent,
            answered: times.len(),
            loss_percent: round(loss),
            min_ms: min,
            mean_ms: min.map(|_| round(mean)),
            max_ms: max,
            deviation_ms: min.map(|_| round(deviation)),
        };
        writeln!(out, "{}", json::line(&summary)?)?;
        return Ok(());
    }
    writeln!(out, "\n--- {target} ---\n{sent} sent, {} answered, {loss:.0} % loss", times.len())?;
    if let (Some(min), Some(max)) = (min, max) {
        writeln!(out, "round trip min/mean/max/deviation = {min:.3}/{mean:.3}/{max:.3}/{deviation:.3} ms")?;
    }
    Ok(())
}
