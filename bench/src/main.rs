//! Measures the sweep, the responder and the monitor, mostly against bare loops in the same run.
//! See `README.md`.
//!
//! In: arguments. Out: tables on standard output.
//!
//! May import: `hailer`, `hailer_monitor`, `hailer_testkit`, `hailer_udp`.

#[cfg(target_os = "linux")]
mod bare;
#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod cluster;
#[cfg(target_os = "linux")]
mod count;
#[cfg(target_os = "linux")]
mod figures;
#[cfg(target_os = "linux")]
mod flood;
#[cfg(target_os = "linux")]
mod game;
#[cfg(target_os = "linux")]
mod history;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod monitor;
#[cfg(target_os = "linux")]
use hailer_testkit::namespace;
#[cfg(target_os = "linux")]
mod pass;
#[cfg(target_os = "linux")]
mod passing;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod respond;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod slp;
#[cfg(target_os = "linux")]
mod targets;
#[cfg(target_os = "linux")]
mod work;

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    measure::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("This benchmark runs on Linux only.");
}
