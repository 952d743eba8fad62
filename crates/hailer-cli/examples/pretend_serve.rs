//! Pretends to be a busy `hailer serve`, to look at `hailer top`, `hailer serve status` and `/metrics`:
//!
//! ```sh
//! cargo run -p hailer-cli --example pretend_serve -- /tmp/pretend.sock 300 &
//! cargo run -p hailer-cli -- top --control /tmp/pretend.sock
//! ```
//!
//! The second argument is how many seconds it lives.

#[allow(dead_code, reason = "the tool uses the rest")]
#[path = "../src/observe/mod.rs"]
mod observe;
#[path = "../src/observe/invented.rs"]
mod pretended;

use observe::{Control, Settings, snapshot};
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "/tmp/pretend.sock".into());
    let seconds = args
        .next()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(60);
    let settings = Settings {
        metrics: "127.0.0.1:0".parse().ok(),
        control: Control::At(path.into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let started = Instant::now();
        let look = move || snapshot::Snapshot {
            pid: std::process::id(),
            ..pretended::snapshot(100.0 + started.elapsed().as_secs_f64())
        };
        let observer = observe::start(&settings, look)?;
        if let (Some(control), Some(metrics)) = (observer.control(), observer.metrics()) {
            println!("{} http://{metrics}/metrics", control.display());
        }
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok(())
    })
}
