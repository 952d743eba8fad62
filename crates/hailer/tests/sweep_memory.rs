//! Memory use of the sweep engine. The only test in its process, since it measures the whole
//! process.

use hailer::proto::registry;
use hailer::sweep::{
    Next, Outboxes, Probe, ProbeResult, ProbeSource, Progress, Sink, SweepConfig, SweepEngine,
};
use std::net::SocketAddr;
use std::time::Duration;

/// An endless source of consecutive addresses.
struct Counting(u64);

impl ProbeSource for Counting {
    fn next(&mut self) -> Next {
        let bits = 0x0B00_0000 + self.0 as u32;
        self.0 += 1;
        let address = SocketAddr::from((bits.to_be_bytes(), 25_565));
        Next::Probe(Probe {
            index: self.0 - 1,
            address,
            protocol: registry::PROTOCOLS[0],
            game: None,
            name: None,
            srv: None,
        })
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

/// Discards all results.
struct Nowhere;

impl Sink for Nowhere {
    fn record(&mut self, _: ProbeResult) {}
    fn report_progress(&mut self, _: &Progress<'_>) {}
}

#[test]
fn a_million_probes_in_flight_use_little_memory() {
    let mut config = SweepConfig::default();
    config.rate_limits.rate = f64::INFINITY;
    config.rate_limits.per_network = f64::INFINITY;
    config.limits.timeout = Duration::from_secs(100);
    config.max_in_flight = 1_000_000;
    let mut out = Outboxes::default();
    let mut now = Duration::ZERO;
    let before = resident();
    let mut engine = SweepEngine::new(config, [9; 16]);
    while engine.in_flight() < 1_000_000 {
        assert!(
            now < Duration::from_secs(100),
            "{} in flight",
            engine.in_flight()
        );
        engine.tick(now, &mut out, &mut Nowhere);
        for _ in 0..1_000 {
            engine.start_probes(
                now,
                &mut Counting(engine.counts().probes),
                &mut out,
                &mut Nowhere,
            );
            out.v4.clear();
        }
        now += Duration::from_millis(10);
    }
    if let (Some(before), Some(after)) = (before, resident()) {
        let more = after - before;
        println!("{:.1} MiB", more as f64 / f64::from(1 << 20));
        assert!(more < 48 << 20, "{} MiB", more >> 20);
    }
}

/// Returns the memory in use, in bytes. `None` on systems that do not report it.
fn resident() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some(pages * 4_096)
}
