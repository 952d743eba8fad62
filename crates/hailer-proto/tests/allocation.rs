//! Limits of the memory that a peer can make Hailer allocate.
//!
//! - Reading one datagram of n bytes allocates at most [`FACTOR`] × n + [`CONSTANT`] bytes in
//!   total, including memory that is freed again. If a reply has several datagrams, n includes those
//!   that the exchange has kept. Replies of real servers need far less; the worst
//!   case are lists of the shortest entries.
//! - A responder allocates nothing, once the buffer of the caller has its capacity. Neither does a
//!   detector of joins.
//!
//! This file has a single test, because the allocator counts for the whole process.

use hailer_proto::testing::memory;
use hailer_proto::{
    Ask, Cookie, Depth, Direction, Epoch, Input, Keys, Options, Protocol, Responder, Step, Verdict,
    registry,
};
use hailer_testkit::statuses::Random;
use hailer_testkit::{golden, statuses, vector};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Limit of bytes allocated for each byte read.
const FACTOR: usize = 256;
/// Limit of further bytes: the first capacity of growing lists, an error, the state of an exchange.
const CONSTANT: usize = 8 << 10;

/// Names the part of the protocols that a process measures.
const PART: &str = "HAILER_ALLOCATION_PART";
/// Number of processes.
const PARTS: usize = 2;

/// Processes share the protocols, because each has only one count.
#[test]
fn memory_is_bounded() {
    if let Ok(part) = std::env::var(PART) {
        measure_part(part.parse().expect("the number of a part"));
        return;
    }
    let parts: Vec<Child> = (0..PARTS).map(start).collect();
    let mut lines = Vec::new();
    for part in parts {
        let output = part.wait_with_output().expect("the end of a process");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "a part fails: {text}");
        lines.extend(text.lines().map(String::from));
    }
    let mut table =
        "# Maximum of bytes allocated per byte of a datagram (datagrams of 512 bytes and more).\n"
            .to_string();
    for protocol in registry::PROTOCOLS {
        let id = protocol.info().id;
        let mut rows = lines.iter().filter_map(|line| line.strip_prefix("row "));
        let row = rows.find(|row| row.split_whitespace().next() == Some(id));
        let row = row.expect("a row of each protocol");
        table = table + row + "\n";
    }
    let complaints = lines
        .iter()
        .filter_map(|line| line.strip_prefix("complaint "));
    let mut complaints: Vec<String> = complaints.map(String::from).collect();
    complaints.extend(golden::check("allocation.txt", &table).err());
    complaints.truncate(20);
    golden::settle(&complaints);
}

/// Starts a process with this test for a part of the protocols.
fn start(part: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
    let command = command.args(["--exact", "memory_is_bounded", "--nocapture"]);
    let command = command.env(PART, part.to_string()).stdout(Stdio::piped());
    command.spawn().expect("a process")
}

/// Prints the rows and complaints of a part of the protocols.
fn measure_part(part: usize) {
    let vectors = vector::all_vectors().into_iter();
    let vectors: Vec<Vec<u8>> = vectors.map(|vector| vector.bytes).collect();
    for protocol in registry::PROTOCOLS.iter().skip(part).step_by(PARTS) {
        let id = protocol.info().id;
        let mut complaints = Vec::new();
        let worst = reading(*protocol, &mut complaints);
        if protocol.info().has_responder {
            let found = answering(*protocol, &vectors).into_iter();
            complaints.extend(found.map(|complaint| format!("{id}: {complaint}")));
        }
        // The harness does not end its own line.
        println!("\nrow {id:20} {worst:6.1}");
        for complaint in complaints {
            println!("complaint {complaint}");
        }
    }
    if part == 0 {
        for complaint in detecting(&vectors) {
            println!("complaint {complaint}");
        }
    }
}

/// Checks that detectors of joins allocate nothing, for requests of their own and all vectors.
fn detecting(vectors: &[Vec<u8>]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut out = Vec::with_capacity(1 << 11);
    // One request for a challenge of each family.
    let magic = b"\x00\xFF\xFF\x00\xFE\xFE\xFE\xFE\xFD\xFD\xFD\xFD\x12\x34\x56\x78";
    let own = [
        [&[5], &magic[..], &[0; 400]].concat(),
        [&b"\xC0\0\0\0\x01\x08abcdefgh\0\0"[..], &[0; 1_184]].concat(),
        b"\xFF\xFF\xFF\xFFq\x01\x02\x03\x040000000000\0".to_vec(),
        [&b"\x8F\xFF\0\0\x82\xFF\0\x01"[..], &[0; 44]].concat(),
    ];
    for family in hailer_proto::joins::FAMILIES {
        let detector = family.detector(&Keys::new([7; 16]));
        let mut challenges = 0;
        for request in own.iter().chain(vectors) {
            out.clear();
            let (count, bytes) =
                measure(|| drop(detector.detect(client_address(), NOW, request, &mut out)));
            challenges += usize::from(!out.is_empty());
            if count > 0 {
                let id = family.id;
                complaints.push(format!(
                    "{id}: {count} allocations of {bytes} bytes for {request:02x?}"
                ));
            }
        }
        if challenges == 0 {
            complaints.push(format!(
                "{}: no challenge; this test tests nothing",
                family.id
            ));
        }
    }
    complaints
}

/// Returns the number of allocations in `run`, and their bytes.
fn measure(run: impl FnOnce()) -> (usize, usize) {
    let region = Region::new(ALLOCATOR);
    run();
    let change = region.change();
    (
        change.allocations + change.reallocations,
        change.bytes_allocated,
    )
}

/// Passes hostile datagrams to exchanges in every state that a regular exchange and the
/// conversations reach.
fn reading(protocol: &'static dyn Protocol, complaints: &mut Vec<String>) -> f64 {
    let mut worst: f64 = 0.0;
    let mut random = Random(11);
    // Conversations as lists of replies: an exchange that received the first i of them is in state
    // i.
    let mut talks: Vec<(Ask, Cookie, Vec<Vec<u8>>)> = Vec::new();
    for depth in [Depth::Ping, Depth::Basic, Depth::Full] {
        let ask = Ask {
            depth,
            ..Ask::default()
        };
        if !protocol.info().has_responder {
            continue;
        }
        for players in [3, 120, 2_000] {
            talks.push((ask.clone(), Cookie(1), clear_talk(protocol, &ask, players)));
        }
    }
    for talk in vector::conversations(protocol) {
        talks.push((
            talk.ask.clone(),
            talk.cookie,
            talk.received().cloned().collect(),
        ));
    }
    for (ask, cookie, replies) in talks {
        for place in 0..replies.len() {
            let datagrams = hostile(&replies[place], &mut random);
            // Most states in the middle of a long reply are alike. All of them take more than twice
            // the time.
            let is_middle = place >= 8 && place + 8 < replies.len() && place % 8 != 0;
            if is_middle {
                continue;
            }
            for datagram in datagrams {
                let mut exchange = protocol.exchange(&ask, cookie);
                let mut out = Vec::with_capacity(4096);
                exchange.handle(Input::Start, &mut out);
                let mut kept = 0;
                for reply in &replies[..place] {
                    let step = exchange.handle(Input::Datagram(reply), &mut out);
                    if step == Step::Progress {
                        kept += reply.len();
                    }
                }
                let length = datagram.len() + kept;
                let (_, bytes) =
                    measure(|| drop(exchange.handle(Input::Datagram(&datagram), &mut out)));
                if datagram.len() >= 512 {
                    worst = worst.max(bytes as f64 / length as f64);
                }
                if bytes > FACTOR * length + CONSTANT {
                    complaints.push(format!(
                        "{}: {bytes} bytes allocated for {length} bytes, the last {}: {:02x?}…",
                        protocol.info().id,
                        datagram.len(),
                        &datagram[..datagram.len().min(80)]
                    ));
                }
            }
        }
    }
    worst
}

fn clear_talk(protocol: &dyn Protocol, ask: &Ask, players: usize) -> Vec<Vec<u8>> {
    let responder = responder(protocol, players);
    talk(protocol, ask, &*responder, Direction::Reply)
}

/// Returns the datagrams of one direction of a complete exchange.
fn talk(
    protocol: &dyn Protocol,
    ask: &Ask,
    responder: &dyn Responder,
    wanted: Direction,
) -> Vec<Vec<u8>> {
    let mut exchange = protocol.exchange(ask, Cookie(1));
    let mut server = memory::Server::new(responder, client_address(), NOW);
    let mut datagrams = Vec::new();
    memory::run(&mut *exchange, &mut server, |direction, bytes| {
        if direction == wanted {
            datagrams.push(bytes.clone());
        }
    });
    datagrams
}

/// Returns 4 KiB of repetitions of `unit`, or nothing if it is empty.
fn filling(unit: &[u8]) -> Vec<u8> {
    const LONG: usize = 4 << 10;
    let mut filling = unit.repeat(LONG.div_ceil(unit.len().max(1)));
    filling.truncate(LONG);
    filling
}

/// Returns variants of a reply: unchanged, with each piece repeated up to the longest datagram, and
/// followed by repetitions of the shortest entries of lists.
fn hostile(reply: &[u8], random: &mut Random) -> Vec<Vec<u8>> {
    let mut all = vec![reply.to_vec()];
    let units: &[&[u8]] = &[
        b"\0", b"a\0", b"a\0\0", b"\xE9\0", b"\x01a", b"\x01", b"\xFF", b"k\0v\0", b"a b; ",
        b"\x01\0a", b"a\0\0\0",
    ];
    for unit in units {
        for _ in 0..3 {
            let at = random.below(reply.len() as u64 + 1) as usize;
            all.push([&reply[..at], &filling(unit), &reply[at..]].concat());
        }
    }
    for _ in 0..10 {
        let a = random.below(reply.len() as u64 + 1) as usize;
        let b = random.below(reply.len() as u64 + 1) as usize;
        let (a, b) = (a.min(b), a.max(b));
        all.push([&reply[..b], &filling(&reply[a..b]), &reply[b..]].concat());
        let mut changed = reply.to_vec();
        for _ in 0..4 {
            let at = random.below(changed.len() as u64) as usize;
            if let Some(byte) = changed.get_mut(at) {
                *byte = if random.chance(50) {
                    0xFF
                } else {
                    random.bits() as u8
                };
            }
        }
        all.push(changed);
    }
    all
}

/// Checks that every request is answered, dropped or passed on without an allocation. A connection
/// may allocate.
fn answering(protocol: &'static dyn Protocol, vectors: &[Vec<u8>]) -> Vec<String> {
    let mut complaints = Vec::new();
    if protocol.info().transport.is_connected() {
        return complaints;
    }
    let responder = responder(protocol, 300);
    let mut requests = vectors.to_vec();
    for depth in [Depth::Ping, Depth::Basic, Depth::Full] {
        let ask = Ask {
            depth,
            ..Ask::default()
        };
        requests.extend(talk(protocol, &ask, &*responder, Direction::Request));
    }
    let mut out = Vec::with_capacity(1 << 17);
    let mut verified = 0;
    for request in &requests {
        out.clear();
        let mut verdict = Verdict::Pass;
        let (count, bytes) =
            measure(|| verdict = responder.answer(client_address(), NOW, request, &mut out));
        verified += usize::from(matches!(verdict, Verdict::Reply { .. }));
        if count > 0 {
            complaints.push(format!(
                "{count} allocations of {bytes} bytes, {verdict:?} to {request:02x?}"
            ));
        }
    }
    if verified < 2 {
        complaints.push("fewer than two requests were answered; this test tests nothing".into());
    }
    complaints
}

const NOW: Epoch = Epoch(59_833_333);

fn client_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 7], 50_000))
}

fn responder(protocol: &dyn Protocol, players: usize) -> std::sync::Arc<dyn Responder> {
    let responder = protocol.responder(
        &statuses::plain(players),
        &Keys::new([7; 16]),
        &Options::default(),
    );
    responder.expect("no options are good options")
}
