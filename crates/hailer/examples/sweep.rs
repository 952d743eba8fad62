//! Queries many servers at a limited rate, as servers of a game that the program adds.
//!
//! ```sh
//! cargo run --example sweep -- harbour-wars://192.0.2.0/24 a2s://192.0.2.7:27015
//! ```

use hailer::proto::games::{Game, QueryPort};
use hailer::support::catalog;
use hailer::sweep::{
    self, Collector, Exclusions, ListSource, ProbeResult, Progress, Sink, SourceConfig, SweepConfig,
};
use std::sync::Arc;

/// Prints the answers, and the counts at the end.
struct Print;

impl Sink for Print {
    fn record(&mut self, result: ProbeResult) {
        match result.result {
            Ok(answer) => println!(
                "{} {}: {}",
                answer.transcript.protocol.id,
                answer.transcript.address,
                answer.status.title().unwrap_or_default()
            ),
            Err(error) => eprintln!("{error}"),
        }
    }

    fn report_progress(&mut self, _: &Progress<'_>) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // For a protocol of your own: `catalog::add_protocol`.
    catalog::add_game(Game {
        id: "harbour-wars",
        name: "Harbour Wars",
        protocols: &["ugp"],
        port: Some(7777),
        query: QueryPort::Offset(1),
        srv: None,
        quirks: &[],
        sources: "",
        aliases: &[],
    })?;
    let ugp = catalog::protocol("ugp").ok_or("no such protocol")?;
    // Targets without a protocol or game are queried in these protocols.
    let mut targets = Collector::new(&[ugp])?;
    for target in std::env::args().skip(1) {
        targets.add(&target)?;
    }
    let exclusions = Arc::new(Exclusions::default());
    let targets = targets.finish(&exclusions)?;
    let mut source = ListSource::new(targets, exclusions, SourceConfig::default());
    let counts = sweep::run(&SweepConfig::default(), &mut source, &mut Print)?;
    println!("{} of {} probes answered", counts.answered, counts.probes);
    Ok(())
}
