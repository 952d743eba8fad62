//! Cost of the target lists of a sweep: reading, sorting, random order.
//!
//! In: generated target lists. Out: seconds and bytes.
//!
//! May import: `crate::report`, `hailer`.

use crate::report::heading;
use anyhow::Context;
use hailer::proto::registry;
use hailer::sweep::{
    Collector, DefaultKinds, Exclusions, ListSource, Next, Order, Position, ProbeSource,
    SourceConfig, StreamSource,
};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Places of the order that are computed alone.
const PLACES: u64 = 1_000_000;

/// Prints CPU time of this thread and memory for `count` single targets and for two ranges.
pub(crate) fn targets(count: u32) -> anyhow::Result<()> {
    heading("target lists: CPU of the calling thread for each target, and memory (peak, now)");
    let protocol = registry::find("ugp").context("a protocol of the registry")?;
    let text = |number: u32| {
        let spread = u64::from(number) * 2_654_435_761 % 0xDFFF_0000;
        Ipv4Addr::from_bits(spread as u32 + 0x0100_0000)
    };
    println!("  before: {}", memory());
    let mut collector = Collector::new(&[protocol])?;
    let started = cpu();
    for number in 0..count {
        collector.add(&text(number).to_string())?;
    }
    let each = (cpu() - started) / count.max(1);
    println!("  {count} lines: {each:?} each, {}", memory());
    let started = cpu();
    let singles = collector.finish(&Exclusions::default())?;
    println!("  sorting them: {:?}, {}", cpu() - started, memory());
    let mut ranges = Collector::new(&[])?;
    ranges.add("ugp://10.0.0.0/8")?;
    ranges.add("ugp://192.0.0.0/9")?;
    let ranges = ranges.finish(&Exclusions::default())?;
    for (name, targets) in [("single targets", singles), ("ranges", ranges)] {
        let length = targets.len();
        let mut list = ListSource::new(targets, Arc::default(), SourceConfig::default());
        let started = cpu();
        black_box(list.digest());
        println!("  {name}: digest in {:?}", cpu() - started);
        let order = Order::new(length, 0);
        let started = cpu();
        for place in 0..PLACES {
            black_box(order.at(place % length.max(1)));
        }
        let each = (cpu() - started) / PLACES as u32;
        println!("  {name}: order alone, {each:?} each");
        let started = cpu();
        let mut given = 0_u32;
        while let Next::Probe(probe) = list.next() {
            black_box(probe);
            given += 1;
        }
        let each = (cpu() - started) / given.max(1);
        println!("  {name}: {given} probes, {each:?} each, {}", memory());
    }
    let lines = (0..count).map(|number| format!("ugp://{}\n", text(number)));
    let input = std::io::Cursor::new(lines.collect::<String>());
    let config = SourceConfig::default();
    let from = Position::default();
    let defaults = DefaultKinds::new(&[protocol])?;
    let started = cpu();
    let clock = Instant::now();
    let mut given = 0_u32;
    let mut stream = StreamSource::new("input", input, defaults, Arc::default(), &config, &from)?;
    loop {
        match stream.next() {
            Next::Probe(_) => given += 1,
            Next::Pending => std::thread::sleep(Duration::from_micros(100)),
            _ => break,
        }
    }
    let given = given.max(1);
    let each = (cpu() - started) / given;
    let wall = clock.elapsed() / given;
    println!("  standard input: {given} probes, {each:?} each, {wall:?} with the reading thread");
    Ok(())
}

/// Returns the peak and the present resident memory.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.map(str::trim).unwrap_or_default()
    };
    format!("{}, {}", line("VmHWM:"), line("VmRSS:"))
}

/// Returns the CPU time of this thread, because the machine may be busy.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = stat.split(' ').next().and_then(|spent| spent.parse().ok());
    Duration::from_nanos(spent.unwrap_or_default())
}
