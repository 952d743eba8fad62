//! Simulated servers: of `hailer demo`, of `--demo` and of tests.
//!
//! Everything is a function of seed and time, so that demos are reproducible.
//!
//! In: a seed and the time. Out: statuses of simulated servers.
//!
//! May import: `crate::exit`, `crate::observe`, `hailer`, `hailer_monitor`.

#[cfg(feature = "monitor")]
pub(crate) mod monitor;
pub(crate) mod population;
#[cfg(test)]
pub(crate) mod responder;
