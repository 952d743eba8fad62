//! What the sweep's engine costs in memory. Alone in its process, since that is what is measured.

use hailer::proto::registry;
use hailer::sweep::{Beat, End, Engine, Next, Outboxes, Probe, Settings, Sink, Source};
use std::net::SocketAddr;
use std::time::Duration;

/// Addresses one after the other, for ever.
struct Counting(u64);

impl Source for Counting {
    fn next(&mut self) -> Next {
        let bits = 0x0B00_0000 + self.0 as u32;
        self.0 += 1;
        let address = SocketAddr::from((bits.to_be_bytes(), 25_565));
        Next::Probe(Probe {
            index: self.0 - 1,
            address,
            protocol: registry::PROTOCOLS[0],
            name: None,
        })
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

/// Forgets.
struct Nowhere;

impl Sink for Nowhere {
    fn end(&mut self, _: End) {}
    fn beat(&mut self, _: &Beat<'_>) {}
}

#[test]
fn a_million_in_flight_are_small() {
    let mut settings = Settings::default();
    settings.pace.packets_per_second = f64::INFINITY;
    settings.pace.per_prefix = f64::INFINITY;
    settings.limits.timeout = Duration::from_secs(100);
    settings.max_in_flight = 1_000_000;
    let (mut out, mut now) = (Outboxes::default(), Duration::ZERO);
    let before = resident();
    let mut engine = Engine::new(settings, [9; 16]);
    while engine.in_flight() < 1_000_000 {
        assert!(
            now < Duration::from_secs(100),
            "{} in flight",
            engine.in_flight()
        );
        engine.tick(now, &mut out, &mut Nowhere);
        for _ in 0..1_000 {
            engine.ask(
                now,
                &mut Counting(engine.counts().asked),
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

/// Bytes of memory in use, where the system tells.
fn resident() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some(pages * 4_096)
}
