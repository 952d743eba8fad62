//! What the sweep's engine costs beside the system calls: everything from drawing a target to its status, without a
//! socket. The bare decoding of the same datagrams runs beside it.
//!
//! `cargo bench -p hailer --bench sweep`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hailer::proto::{
    Ask, Cookie, Epoch, Extra, Input, Keys, Options, Protocol, Responder, Step, minecraft_query, registry,
};
use hailer::sweep::{Beat, End, Engine, Next, Outboxes, Probe, Settings, Sink, Source};
use hailer::{Player, Status, Text};
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Servers in one round.
const COUNT: u64 = 50_000;
const EPOCH: Epoch = Epoch(1);

fn status() -> Status {
    let mut status = Status {
        name: Some(Text::unformatted("A server")),
        motd: Some(Text::legacy("\u{A7}aA \u{A7}lserver\u{A7}r of many colours")),
        map: Some("world".into()),
        version: Some("1.21.8".into()),
        ..Status::default()
    };
    status.extra.push(Extra::new("software", "Paper on Bukkit 1.21.8"));
    let names: [String; 9] = std::array::from_fn(|i| format!("Plugin{i}"));
    status.extra.extend(minecraft_query::plugins(names.iter().map(|name| (&**name, "1.2.3"))));
    status.players.max = Some(100);
    status.players.online = Some(8);
    status.players.set_list((0..8).map(|i| Player::named(Text::unformatted(format!("player_{i}")))).collect());
    status
}

struct Range {
    next: u64,
    end: u64,
    protocol: &'static dyn Protocol,
}

impl Source for Range {
    fn next(&mut self) -> Next {
        if self.next == self.end {
            return Next::End;
        }
        let index = self.next;
        self.next += 1;
        let address = SocketAddr::from(((0x7F00_0001 + index as u32 * 7).to_be_bytes(), 25_565));
        Next::Probe(Probe { index, address, protocol: self.protocol, name: None })
    }

    fn total(&self) -> Option<u64> {
        Some(self.end)
    }
}

#[derive(Default)]
struct Count(usize);

impl Sink for Count {
    fn end(&mut self, end: End) {
        self.0 += usize::from(black_box(end).result.is_ok());
    }
    fn beat(&mut self, _: &Beat<'_>) {}
}

/// Sweeps everybody with the answers of one responder.
fn sweep(protocol: &'static dyn Protocol, responder: &Arc<dyn Responder>) -> usize {
    let mut settings = Settings::default();
    settings.pace.packets_per_second = f64::INFINITY;
    settings.pace.per_prefix = f64::INFINITY;
    let mut engine = Engine::new(settings, [7; 16]);
    let (mut out, mut count) = (Outboxes::default(), Count::default());
    let mut source = Range { next: 0, end: COUNT, protocol };
    let (mut now, mut reply) = (Duration::ZERO, Vec::new());
    let mut batch: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
    while !engine.is_done() {
        now += Duration::from_micros(100);
        engine.tick(now, &mut out, &mut count);
        engine.ask(now, &mut source, &mut out, &mut count);
        batch.clear();
        batch.extend(out.v4.pending().map(|(to, _, bytes)| (to, bytes.to_vec())));
        out.v4.clear();
        for (to, request) in &batch {
            reply.clear();
            responder.answer(*to, EPOCH, request, &mut reply);
            engine.hear(now, *to, Duration::ZERO, &reply, &mut out, &mut count);
        }
    }
    count.0
}

/// The same exchanges and responders, and nothing between them.
fn bare(protocol: &'static dyn Protocol, responder: &Arc<dyn Responder>) -> usize {
    let from = SocketAddr::from(([127, 0, 0, 1], 1));
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    let mut done = 0;
    for cookie in 0..COUNT {
        let mut exchange = protocol.exchange(&Ask::default(), Cookie(cookie));
        request.clear();
        let mut step = exchange.handle(Input::Start, &mut request);
        while step == Step::Send {
            reply.clear();
            responder.answer(from, EPOCH, &request, &mut reply);
            request.clear();
            step = exchange.handle(Input::Datagram(&reply), &mut request);
        }
        done += usize::from(matches!(black_box(step), Step::Done(_)));
    }
    done
}

fn benches(c: &mut Criterion) {
    for protocol in registry::datagram() {
        let Ok(responder) = protocol.responder(&status(), &Keys::new([7; 16]), &Options::default()) else {
            panic!("no options are good options");
        };
        let mut group = c.benchmark_group(protocol.info().id);
        group.sample_size(10).throughput(Throughput::Elements(COUNT));
        group.bench_function("bare", |b| b.iter(|| assert_eq!(bare(protocol, &responder), COUNT as usize)));
        group.bench_function("engine", |b| b.iter(|| assert_eq!(sweep(protocol, &responder), COUNT as usize)));
        group.finish();
    }
}

criterion_group!(all, benches);
criterion_main!(all);
