//! The responder pool on loopback only: the same tests for the implementation of this system and for the
//! portable one.
#![allow(
    clippy::duplicate_mod,
    reason = "the tests run with both implementations"
)]

#[cfg(target_os = "linux")]
mod linux;
mod pool;
#[cfg(unix)]
#[path = "pool.rs"]
mod portable;
