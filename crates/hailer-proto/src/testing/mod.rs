//! Code for tests and demos only: sample statuses, servers in memory and fuzz targets.

pub mod fuzzing;
pub mod memory;
pub mod sample;
