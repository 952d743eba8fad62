//! Fuzz targets for untrusted input. Each target runs its corpus under `__fuzz__/<target>/corpus`,
//! then a number of random inputs. A failure prints a `BOLERO_RANDOM_SEED` that repeats it. The
//! corpus is made from the vectors: `BLESS=1 cargo test --test house`.

use hailer_proto::testing::fuzzing;

/// Returns the number of random inputs for each target. By default, all targets take one or two
/// seconds in a debug build.
fn iterations() -> usize {
    let shown = std::env::var("BOLERO_RANDOM_ITERATIONS").ok();
    shown
        .and_then(|number| number.parse().ok())
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
fn compressed() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::compressed(bytes));
}

#[test]
fn text() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::text(bytes));
}

#[test]
fn master() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::master(bytes));
}

#[test]
fn joins() {
    bolero::check!()
        .with_iterations(iterations())
        .for_each(|bytes: &[u8]| fuzzing::joins(bytes));
}
