//! `hailer serve --farm`: a million invented servers.

use super::{block_on, serve::over};
use crate::args::Serve;
use crate::exit::{Exit, usage};
use crate::print::{count, tell};
use anyhow::Context;
use hailer::proto::Protocol;
use hailer::registry;
use hailer::respond::farm::{Farm, FarmBindError, FarmConfig, FarmCounts};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(args: &Serve) -> anyhow::Result<Exit> {
    let farm = match Farm::new(settings(args)?) {
        Ok(farm) => farm,
        Err(error) => usage!("--farm: {error}"),
    };
    let bound = farm.bind().map_err(|error| {
        let taken = matches!(error, FarmBindError::Bind { .. });
        let hint = "--port PROTOCOL=PORT chooses another; port 0 takes any free one";
        if taken {
            anyhow::anyhow!("{error} ({hint})")
        } else {
            error.into()
        }
    })?;
    let mut out = anstream::stdout();
    let networks: Vec<_> = args
        .farm
        .farm
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
    tell!(
        "\x1b[2mEvery address is a server of its own. Only this machine can ask them. Ctrl-C stops.\x1b[0m"
    );
    let stop = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let farm = std::thread::Builder::new()
            .name("farm".into())
            .spawn_scoped(scope, || farm.run(&bound, &stop));
        let farm = farm.context("cannot start a thread")?;
        let waited = block_on(async {
            over(args.r#for).await;
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        waited?;
        Ok::<_, anyhow::Error>(
            farm.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })?;
    tell!("{}", summary(&counts));
    Ok(Exit::Success)
}

/// What the flags ask for.
fn settings(args: &Serve) -> anyhow::Result<FarmConfig> {
    let flags = &args.farm;
    let (address, bits) = flags.farm[0];
    let mut settings = FarmConfig::new(address, bits);
    settings.networks = flags.farm.clone();
    let protocols: Vec<&'static dyn Protocol> = match args.protocol.is_empty() {
        true => registry::datagram().collect(),
        false => args.protocol.clone(),
    };
    let chosen = |id: &str| protocols.iter().any(|protocol| protocol.info().id == id);
    if let Some((other, _)) = flags
        .port
        .iter()
        .find(|(protocol, _)| !chosen(protocol.info().id))
    {
        usage!(
            "--port: {} is not among the protocols; add --protocol {0}",
            other.info().id
        );
    }
    let of = |protocol: &'static dyn Protocol| {
        let id = protocol.info().id;
        let given = flags
            .port
            .iter()
            .filter(|(of, _)| of.info().id == id)
            .map(|(_, port)| *port);
        let given: Vec<u16> = given.collect();
        let ports = if given.is_empty() {
            vec![protocol.info().port]
        } else {
            given
        };
        ports.into_iter().map(move |port| (protocol, port))
    };
    settings.ports = protocols.iter().copied().flat_map(of).collect();
    settings.seed = flags.variant_seed;
    settings.silent = flags.silent;
    settings.loss = flags.loss;
    settings.duplicates = flags.duplicates;
    settings.delay = flags.delay.unwrap_or_default();
    settings.jitter = flags.jitter.unwrap_or_default();
    settings.variants = flags.variants;
    Ok(settings)
}

fn summary(counts: &FarmCounts) -> String {
    let reasons = [
        (counts.silent, "to silent servers"),
        (counts.lost, "lost on the way"),
        (counts.foreign, "not to the farm, or not from this machine"),
        (counts.queue_full, "dropped because too many were delayed"),
        (counts.unsent, "that the system would not send"),
        (counts.overflows, "lost because the receive queue was full"),
    ];
    let mut others: Vec<_> = reasons
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .collect();
    others.extend(
        counts
            .dropped
            .iter()
            .map(|(reason, count)| (*count, super::serve::in_words(reason))),
    );
    let others: Vec<_> = others
        .into_iter()
        .map(|(count, reason)| format!("{count} {reason}"))
        .collect();
    let doubled = if counts.duplicated > 0 {
        format!(" ({} twice)", counts.duplicated)
    } else {
        String::new()
    };
    let received = count(counts.received, "datagram");
    let ending = if others.is_empty() {
        String::new()
    } else {
        format!("; {}", others.join(", "))
    };
    format!(
        "{received} received: {} sent{doubled}{ending}",
        replies(counts.answered)
    )
}

fn replies(number: u64) -> String {
    if number == 1 {
        "1 reply".into()
    } else {
        format!("{number} replies")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_for_people() {
        let mut counts = FarmCounts::default();
        assert_eq!(summary(&counts), "0 datagrams received: 0 replies sent");
        (counts.received, counts.answered, counts.duplicated) = (9, 1, 1);
        (counts.silent, counts.lost) = (3, 2);
        counts.dropped.insert("token", 1);
        assert_eq!(
            summary(&counts),
            "9 datagrams received: 1 reply sent (1 twice); 3 to silent servers, 2 lost on the way, 1 with a wrong or old \
             challenge token"
        );
    }
}
