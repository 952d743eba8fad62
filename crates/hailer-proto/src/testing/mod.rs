//! Code for tests and demos only: sample statuses, servers in memory and fuzz targets.
//!
//! In: seeds, statuses, random bytes. Out: sample statuses, servers in memory, fuzzed protocols.
//!
//! May import: `crate::master`, `crate::model`, `crate::protocol`, `crate::protocols`,
//! `crate::registry`, `crate::token`, `crate::wire`.

pub mod fuzzing;
pub mod memory;
pub mod sample;
