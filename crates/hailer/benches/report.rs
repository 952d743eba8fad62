//! Cost of one line of JSON, by the writer of this crate and by `serde_json`.
//!
//! `cargo bench -p hailer`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hailer::client::Transcript;
use hailer::proto::model::{Address, Extra, Value};
use hailer::proto::registry;
use hailer::proto::{Player, Text};
use hailer::support::report::{AnswerLine, json};
use hailer::{Answer, Status};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::Duration;

/// Formatter that also escapes the characters that [`json::string`] escapes.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut quoted = Vec::new();
        json::string(&mut quoted, fragment);
        writer.write_all(&quoted[1..quoted.len() - 1])
    }
}

/// Returns a typical answer of a sweep: eight players, a colored MOTD, three plugins.
fn answer() -> Answer {
    let plugins = ["WorldEdit 7.3", "Essentials 2.20", "LuckPerms 5.4"].map(Value::from);
    let mut status = Status {
        motd: Some(Text::legacy("§aA Minecraft §lServer")),
        game: Some("MINECRAFT".into()),
        mode: Some("SMP".into()),
        map: Some("world".into()),
        version: Some("1.21.8".into()),
        address: Some(Address {
            host: Some("127.0.0.1".into()),
            port: Some(25565),
        }),
        extra: vec![
            Extra::new("software", "Paper on Bukkit 1.21.8"),
            Extra::new("plugins", Value::List(plugins.into())),
        ],
        ..Status::default()
    };
    status.players.online = Some(8);
    status.players.max = Some(20);
    let players = (0..8).map(|i| Player::named(Text::legacy(format!("player_{i}{i}"))));
    status.players.set_list(players.collect());
    let transcript = Transcript {
        sent: 2,
        received: 2,
        ..Transcript::new(
            registry::PROTOCOLS[0].info(),
            ([192, 0, 2, 7], 25565).into(),
        )
    };
    Answer::new(transcript, status.into(), Duration::from_micros(80_123))
}

fn line(criterion: &mut Criterion) {
    let answer = answer();
    let line = AnswerLine::answered("minecraft-query://192.0.2.7:25565", &answer);
    let mut out = Vec::with_capacity(1 << 20);
    line.write(&mut out);
    let mut group = criterion.benchmark_group("line");
    group.throughput(Throughput::Bytes(out.len() as u64));
    group.bench_function("hailer", |bencher| {
        bencher.iter(|| {
            out.clear();
            black_box(&line).write(&mut out);
        });
    });
    group.bench_function("serde_json", |bencher| {
        bencher.iter(|| {
            out.clear();
            serde_json::to_writer(&mut out, black_box(&line)).expect("a line");
        });
    });
    group.bench_function("serde_json with escapes", |bencher| {
        bencher.iter(|| {
            out.clear();
            let mut serializer = serde_json::Serializer::with_formatter(&mut out, Escaping);
            black_box(&line).serialize(&mut serializer).expect("a line");
        });
    });
    group.finish();
}

criterion_group!(benches, line);
criterion_main!(benches);
