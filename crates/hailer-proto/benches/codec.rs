//! Cost of reading and writing one datagram, compared with a plain copy of the same number of bytes
//! in the same run. The copy is a lower bound for every codec.
//!
//! `cargo bench -p hailer-proto`

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hailer_proto::testing::memory::{self, Server};
use hailer_proto::{
    Ask, Cookie, Depth, Direction, Epoch, Exchange, Frame, Input, Keys, Options, Player, Protocol,
    Responder, Status, Step, Text, Transport, registry,
};
use std::hint::black_box;

const COOKIE: Cookie = Cookie(7);
const EPOCH: Epoch = Epoch(1);

/// Returns a typical status: 40 players and a colored MOTD.
fn status() -> Status {
    let mut status = Status {
        name: Some(Text::unformatted("A server")),
        motd: Some(Text::legacy("\u{A7}aA \u{A7}lserver\u{A7}r of many colors")),
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

/// Requests and replies of one conversation, in order.
#[derive(Default)]
struct Conversation {
    requests: Vec<Vec<u8>>,
    replies: Vec<Vec<u8>>,
}

/// Runs one exchange and records it.
fn talk(protocol: &dyn Protocol, ask: &Ask, responder: &dyn Responder) -> Conversation {
    let mut exchange = protocol.exchange(ask, COOKIE);
    let mut server = Server::new(responder, from(), EPOCH);
    let mut conversation = Conversation::default();
    let step = memory::run(&mut *exchange, &mut server, |direction, bytes| {
        let list = match direction {
            Direction::Request => &mut conversation.requests,
            Direction::Reply => &mut conversation.replies,
        };
        list.push(bytes.clone());
    });
    assert!(matches!(step, Step::Done(_)), "{}", protocol.info().id);
    conversation
}

/// Runs an exchange with recorded replies.
fn replay(exchange: &mut dyn Exchange, is_stream: bool, replies: &[Vec<u8>]) -> Step {
    let mut out = Vec::new();
    let mut step = exchange.handle(Input::Start, &mut out);
    let mut replies = replies.iter();
    let mut unread: &[u8] = &[];
    loop {
        out.clear();
        step = match step {
            Step::SendMore => exchange.handle(Input::Continue, &mut out),
            Step::Done(_) => return step,
            _ => {
                if unread.is_empty() {
                    let Some(reply) = replies.next() else {
                        return step;
                    };
                    unread = reply;
                }
                let length = match is_stream.then(|| exchange.frame(unread)) {
                    None => unread.len(),
                    Some(Ok(Frame::Complete(length))) => length,
                    Some(other) => panic!("the replies of one step are complete: {other:?}"),
                };
                let (message, rest) = unread.split_at(length);
                unread = rest;
                exchange.handle(Input::Datagram(black_box(message)), &mut out)
            }
        };
    }
}

fn from() -> std::net::SocketAddr {
    "192.0.2.7:50000".parse().expect("an address")
}

fn codec(c: &mut Criterion) {
    for protocol in registry::PROTOCOLS {
        let id = protocol.info().id;
        let is_stream = protocol.info().transport == Transport::Stream;
        let Ok(responder) = protocol.responder(&status(), &Keys::new([7; 16]), &Options::default())
        else {
            panic!("{id}: the default options are refused");
        };
        let conversation = talk(*protocol, &Ask::default(), &*responder);
        let mut group = c.benchmark_group(id);
        let mut out = Vec::with_capacity(65_536);
        for (i, request) in conversation.requests.iter().enumerate() {
            if is_stream {
                break;
            }
            group.bench_function(BenchmarkId::new("answer", i), |b| {
                b.iter(|| {
                    out.clear();
                    responder.answer(from(), EPOCH, black_box(request), &mut out)
                });
            });
        }
        if is_stream {
            group.bench_function("answer", |b| {
                b.iter(|| {
                    let mut server = Server::new(&*responder, from(), EPOCH);
                    let requests = conversation.requests.iter();
                    requests.fold(0, |count, request| {
                        count + server.request(black_box(request)).len()
                    })
                });
            });
        }
        for (i, reply) in conversation.replies.iter().enumerate() {
            group.throughput(Throughput::Bytes(reply.len() as u64));
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
            let conversation = talk(*protocol, &ask, &*responder);
            group.bench_function(name, |b| {
                b.iter(|| {
                    let mut exchange = protocol.exchange(&ask, COOKIE);
                    replay(&mut *exchange, is_stream, &conversation.replies)
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
