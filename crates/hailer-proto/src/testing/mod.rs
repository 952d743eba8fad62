//! Code for tests and demos only: servers in memory and fuzz targets.
//!
//! In: statuses, random bytes. Out: servers in memory, fuzzed protocols.
//!
//! May import: `crate::joins`, `crate::master`, `crate::model`, `crate::protocol`,
//! `crate::protocols`, `crate::registry`, `crate::token`, `crate::wire`.

pub mod fuzzing;
pub mod memory;
