//! `hailer farm`: simulated servers on every address of a network.

use super::block_on;
use crate::args::Farm as Args;
use crate::exit::{Exit, OrUsage, Usage, usage};
use crate::print::above_zero;
use crate::service::stopped;
use anyhow::Context;
use hailer::proto::Protocol;
use hailer::proto::registry;
use hailer::proto::wire::counted;
use hailer::respond::farm::{BoundPort, Farm, FarmBindError, FarmConfig, FarmCounts};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::info;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    args.log.start();
    let config = config(args)?;
    // The servers take seconds to build. A port in use is found before that.
    let mut trial = config.clone();
    trial.variants = trial.variants.min(1);
    bound(&Farm::new(trial).or_usage()?, &config)?;
    let farm = Farm::new(config.clone()).or_usage()?;
    let bound = bound(&farm, &config)?;
    let mut out = crate::print::stdout();
    let networks: Vec<_> = args
        .network
        .iter()
        .map(|(address, bits)| format!("{address}/{bits}"))
        .collect();
    for bound in &bound {
        let ids: Vec<_> = farm
            .protocols(bound)
            .map(|protocol| protocol.info().id)
            .collect();
        writeln!(
            out,
            "listening on {}:{} for {}",
            networks.join(","),
            bound.port(),
            ids.join(", ")
        )?;
    }
    out.flush()?;
    info!("only this machine can reach these servers; Ctrl-C stops");
    let stop = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let farm = std::thread::Builder::new()
            .name("farm".into())
            .spawn_scoped(scope, || farm.run(&bound, &stop));
        let farm = farm.context("cannot start a thread")?;
        let waited = block_on(async {
            stopped(args.r#for).await;
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        waited?;
        Ok::<_, anyhow::Error>(
            farm.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })?;
    info!("{}", summary(&counts));
    Ok(Exit::Success)
}

/// Binds all ports of a farm. The error names the protocols of a port that is in use.
fn bound(farm: &Farm, config: &FarmConfig) -> anyhow::Result<Vec<BoundPort>> {
    farm.bind().map_err(|error| {
        let taken = match &error {
            FarmBindError::Bind { port, .. } => *port,
            FarmBindError::Address { address, .. } => address.port(),
            _ => return Usage(error.to_string()).into(),
        };
        let here = config.ports.iter().filter(|(_, port)| *port == taken);
        let ids: Vec<&str> = here.map(|(protocol, _)| protocol.info().id).collect();
        anyhow::anyhow!(
            "{error}; it is that of {}: --port {}=PORT chooses another, and port 0 takes any free one",
            ids.join(", "),
            ids.first().copied().unwrap_or("PROTOCOL")
        )
    })
}

/// Builds the configuration of the farm.
fn config(args: &Args) -> anyhow::Result<FarmConfig> {
    let (address, bits) = args.network[0];
    let mut config = FarmConfig::new(address, bits);
    config.networks = args.network.clone();
    let protocols: Vec<&'static dyn Protocol> = if args.protocol.is_empty() {
        registry::responders()
    } else {
        args.protocol.clone()
    };
    let chosen = |id: &str| protocols.iter().any(|protocol| protocol.info().id == id);
    if let Some((other, _)) = args
        .port
        .iter()
        .find(|(protocol, _)| !chosen(protocol.info().id))
    {
        usage!(
            "--port: {} is not among the protocols; add --protocol {0}",
            other.info().id
        );
    }
    config.ports = Vec::new();
    for &protocol in &protocols {
        let info = protocol.info();
        let before = config.ports.len();
        for &(other, port) in &args.port {
            if other.info().id == info.id {
                config.ports.push((protocol, port));
            }
        }
        if config.ports.len() == before {
            config.ports.push((protocol, info.port));
        }
    }
    config.seed = args.seed;
    config.silent = args.silent;
    config.refusing = args.refusing;
    config.loss = args.loss;
    config.duplicates = args.duplicates;
    config.delay = args.delay.unwrap_or_default();
    config.jitter = args.jitter.unwrap_or_default();
    config.variants = args.variants;
    Ok(config)
}

fn summary(counts: &FarmCounts) -> String {
    let reasons = [
        (counts.silent, "to silent servers"),
        (counts.refused, "refused"),
        (counts.lost, "lost by the simulated network"),
        (counts.foreign, "not to the farm, or not from this machine"),
        (counts.queue_full, "dropped because too many were delayed"),
        (counts.unsent, "that the system did not send"),
        (counts.overflows, "lost because the receive queue was full"),
    ];
    let dropped = counts.dropped.iter();
    let dropped = dropped.map(|(reason, count)| (*count, crate::service::reason_text(reason)));
    let others = above_zero(reasons.into_iter().chain(dropped));
    let doubled = if counts.duplicated > 0 {
        format!(" ({} twice)", counts.duplicated)
    } else {
        String::new()
    };
    let received = match counts.connections {
        0 => counted(counts.received, "datagram"),
        connections => format!(
            "{} and {}",
            counted(counts.received, "datagram"),
            counted(connections, "connection")
        ),
    };
    let ending = match &*others {
        "" => String::new(),
        others => format!("; {others}"),
    };
    format!(
        "{received} received: {} sent{doubled}{ending}",
        counted(counts.answered, "reply")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lists_counters_above_zero() {
        let mut counts = FarmCounts::default();
        assert_eq!(summary(&counts), "0 datagrams received: 0 replies sent");
        counts.received = 9;
        counts.answered = 1;
        counts.duplicated = 1;
        counts.silent = 3;
        counts.lost = 2;
        counts.connections = 5;
        counts.refused = 4;
        counts.dropped.insert("token", 1);
        assert_eq!(
            summary(&counts),
            "9 datagrams and 5 connections received: 1 reply sent (1 twice); 3 to silent servers, 4 refused, 2 lost by the simulated network, 1 with a wrong or old \
             challenge token"
        );
    }
}
