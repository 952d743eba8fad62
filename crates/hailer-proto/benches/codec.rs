//! Cost of reading and writing one datagram, compared with a plain copy of the same number of bytes
//! in the same run. The copy is a lower bound for every codec.
//!
//! `cargo bench -p hailer-proto`

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hailer_proto::{
    Ask, Cookie, Depth, Epoch, Input, Keys, Options, Player, Protocol, Responder, Status, Step,
    Text, Verdict, registry,
};
use std::hint::black_box;
use std::sync::Arc;

const COOKIE: Cookie = Cookie(7);
const EPOCH: Epoch = Epoch(1);

/// Returns a typical status: 40 players and a coloured MOTD.
fn status() -> Status {
    let mut status = Status {
        name: Some(Text::unformatted("A server")),
        motd: Some(Text::legacy(
            "\u{A7}aA \u{A7}lserver\u{A7}r of many colours",
        )),
        map: Some("world".into()),
        ..Status::default()
    };
    status.players.max = Some(100);
    status.players.online = Some(40);
    let player = |i: u8| Player {
        uuid: Some([i; 16]),
        ..Player::named(Text::unformatted(format!("player_{i}")))
    };
    status.players.set_list((0..40).map(player).collect());
    status
}

/// Runs one exchange. Returns all requests and all replies.
fn talk(
    protocol: &dyn Protocol,
    ask: &Ask,
    responder: &Arc<dyn Responder>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut exchange = protocol.exchange(ask, COOKIE);
    let mut datagrams = Vec::new();
    let mut request = Vec::new();
    let mut step = exchange.handle(Input::Start, &mut request);
    while step == Step::Send {
        let mut reply = Vec::new();
        let verdict = responder.answer(from(), EPOCH, &request, &mut reply);
        assert!(matches!(verdict, Verdict::Reply { .. }));
        datagrams.push((std::mem::take(&mut request), reply.clone()));
        step = exchange.handle(Input::Datagram(&reply), &mut request);
    }
    assert!(matches!(step, Step::Done(_)));
    datagrams
}

fn from() -> std::net::SocketAddr {
    "192.0.2.7:50000".parse().expect("an address")
}

fn codec(c: &mut Criterion) {
    for protocol in registry::PROTOCOLS {
        let id = protocol.info().id;
        let Ok(responder) = protocol.responder(&status(), &Keys::new([7; 16]), &Options::default())
        else {
            panic!("{id}: the default options are refused");
        };
        let datagrams = talk(*protocol, &Ask::default(), &responder);
        let mut group = c.benchmark_group(id);
        let mut out = Vec::with_capacity(65_536);
        for (i, (request, reply)) in datagrams.iter().enumerate() {
            group.throughput(Throughput::Bytes(reply.len() as u64));
            group.bench_function(BenchmarkId::new("answer", i), |b| {
                b.iter(|| {
                    out.clear();
                    responder.answer(from(), EPOCH, black_box(request), &mut out)
                });
            });
            group.bench_function(BenchmarkId::new("copy", i), |b| {
                b.iter(|| {
                    out.clear();
                    out.extend_from_slice(black_box(reply));
                });
            });
        }
        group.throughput(Throughput::Elements(1));
        for (name, depth) in [("ask-full", Depth::Full), ("ask-ping", Depth::Ping)] {
            let ask = Ask {
                depth,
                ..Ask::default()
            };
            let datagrams = talk(*protocol, &ask, &responder);
            group.bench_function(name, |b| {
                b.iter(|| {
                    let mut exchange = protocol.exchange(&ask, COOKIE);
                    out.clear();
                    let mut step = exchange.handle(Input::Start, &mut out);
                    for (_, reply) in &datagrams {
                        out.clear();
                        step = exchange.handle(Input::Datagram(black_box(reply)), &mut out);
                    }
                    step
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
