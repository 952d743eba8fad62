//! Sweeps.

use crate::error;
use crate::options::{QueryOptions, SweepOptions, invalid, protocol};
use crate::stream::{self, Producer, Stream};
use hailer::Error;
use hailer::support::catalog;
use hailer::sweep::{
    self, Collector, DefaultKinds, Exclusions, ListSource, Shard, SourceConfig, SweepConfig,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use std::sync::Arc;

/// Targets after which a long list looks for signals.
const LOOK: usize = 10_000;

/// Starts a sweep in a separate thread.
#[pyfunction]
pub(crate) fn start_sweep(
    py: Python<'_>,
    targets: &Bound<'_, PyAny>,
    options: QueryOptions,
    of_sweep: SweepOptions,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Stream> {
    let config = options.sweep(&of_sweep)?;
    let mut exclusions = Exclusions::default();
    for line in &of_sweep.exclude {
        exclusions
            .add(line)
            .map_err(|error| error::raised(py, line, &Error::Target(error)))?;
    }
    let exclusions = Arc::new(exclusions);
    let mut collector = Collector::with_defaults(defaults(&of_sweep)?);
    for (number, target) in targets.try_iter()?.enumerate() {
        let text: PyBackedStr = target?.extract()?;
        collector
            .add(&text)
            .map_err(|error| error::raised(py, &text, &Error::Target(error)))?;
        if number % LOOK == LOOK - 1 {
            py.check_signals()?;
        }
    }
    let mut walk = SourceConfig::default();
    walk.seed = of_sweep.seed;
    walk.name_server = options.name_server()?;
    if let Some((number, of)) = of_sweep.shard {
        walk.shard = Shard::new(number, of)
            .ok_or_else(|| invalid("shard", "expected (number, of), from (1, of) to (of, of)"))?;
    }
    let targets = py
        .detach(|| collector.finish(&exclusions))
        .map_err(|error| invalid("targets", error))?;
    let skipped = targets.skipped();
    let shard = walk.shard;
    let total = shard.count(targets.len());
    let source = ListSource::new(targets, exclusions, walk);
    let threads = of_sweep.threads;
    stream::spawn(
        "hailer-sweep",
        Some(total),
        skipped,
        of_sweep.failures,
        on_progress,
        move |producer| {
            run(&config, source, producer, threads);
        },
    )
}

/// Returns the protocols or the game of targets without one.
fn defaults(of_sweep: &SweepOptions) -> PyResult<DefaultKinds> {
    let defaults = match &of_sweep.game {
        Some(_) if !of_sweep.protocols.is_empty() => {
            return Err(invalid(
                "game",
                "a game has its own protocols; leave out `protocols`",
            ));
        }
        Some(id) => {
            let game = catalog::game(id)
                .ok_or_else(|| invalid("game", format!("no game has the id {id:?}")))?;
            DefaultKinds::of_game(game)
        }
        None => {
            let protocols = of_sweep.protocols.iter().map(|id| protocol(id));
            DefaultKinds::new(&protocols.collect::<PyResult<Vec<_>>>()?)
        }
    };
    defaults.map_err(|error| invalid("targets", error))
}

fn run(config: &SweepConfig, mut source: ListSource, mut producer: Producer, threads: usize) {
    let swept = if threads == 1 {
        sweep::run(config, &mut source, &mut producer)
    } else {
        let mut parts: Vec<_> = (0..threads).map(|_| producer.part()).collect();
        sweep::run_threads(config, &mut source, &mut producer, &mut parts)
    };
    producer.end(
        swept
            .map(drop)
            .map_err(|error| format!("the network failed: {error}")),
    );
}
