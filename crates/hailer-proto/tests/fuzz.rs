//! Can a stranger hurt us? Each target replays its corpus under `__fuzz__/<target>/corpus` and then a number of random
//! inputs; a failure prints a `BOLERO_RANDOM_SEED` to repeat it with. The corpus is made from the vectors:
//! `BLESS=1 cargo test --test house`.

use hailer_proto::fuzzing;

/// Random inputs for each target: unless told otherwise, a second or two in all without optimisation.
fn iterations() -> usize {
    let told = std::env::var("BOLERO_RANDOM_ITERATIONS").ok();
    told.and_then(|number| number.parse().ok())
        .unwrap_or(20_000)
}

#[test]
fn explain() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::explain(bytes));
}

#[test]
fn responder() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::responder(bytes));
}

#[test]
fn exchange() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::exchange(bytes));
}

#[test]
fn text() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::text(bytes));
}
