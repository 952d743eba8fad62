//! What only tests and demos use: sample statuses, servers in memory and fuzz targets.

pub mod fuzzing;
pub mod memory;
pub mod sample;
