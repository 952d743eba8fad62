//! Full queries of Minecraft Query per second from one core: [`Client::query_many`], against one connected socket for
//! each query, as the client once had.
//!
//! ```text
//!   cargo bench -p hailer --bench client                  both
//!   cargo bench -p hailer --bench client -- shared        only ours, for a profiler
//! ```
//!
//! A process of its own answers on the other core, at many addresses of 127.0.0.0/8, for servers of 8 players.

use futures_util::stream::{self, StreamExt};
use hailer::client::QueryStream;
use hailer::drive::{Action, ExchangeDriver, QueryLimits};
use hailer::proto::{Ask, Cookie};
use hailer::respond::{Board, Budget, Service};
use hailer::{Client, Player, Status, Target, Text, registry};
use hailer_udp::{Inbox, Outbox, Socket};
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::time::timeout_at;

/// Queries in one run, runs, and queries at a time.
const QUERIES: usize = 50_000;
const RUNS: usize = 5;
const CONCURRENCY: usize = 256;
/// So long a datagram may take, and all of them; nothing is lost on loopback.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() {
    if std::env::args().any(|argument| argument == "respond") {
        return respond();
    }
    let own = std::env::current_exe().expect("the bench has a path");
    let is_pinned = Command::new("taskset")
        .args(["-pc", "0", &std::process::id().to_string()])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let mut responder = match is_pinned {
        true => Command::new("taskset"),
        false => Command::new(&own),
    };
    if is_pinned {
        responder.args(["-c", "1"]).arg(&own);
    }
    let mut responder = responder
        .arg("respond")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(responder.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("the responder tells its port");
    let port: u16 = line.trim().parse().expect("a port");

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let targets: Vec<Target> = addresses(port)
        .map(|address| {
            format!("minecraft-query://{address}")
                .parse()
                .expect("a target")
        })
        .take(QUERIES)
        .collect();
    let (mut ours, mut olds) = (Vec::new(), Vec::new());
    let only_ours = std::env::args().any(|argument| argument == "shared");
    for _ in 0..RUNS {
        if !only_ours {
            olds.push(measure(|| runtime.block_on(one_socket_each(port))));
        }
        ours.push(measure(|| {
            runtime.block_on(async {
                let client = Client::default();
                count(client.query_many(&targets, CONCURRENCY)).await
            })
        }));
    }
    // Its standard input ends, and so does it.
    drop(responder.stdin.take());
    let _ = responder.wait();

    if !is_pinned {
        println!("not pinned to one core: taskset is missing");
    }
    println!("median of {RUNS} runs of {QUERIES} queries, {CONCURRENCY} at a time");
    println!(
        "{:18} {:>11} {:>15} {:>19}",
        "", "queries/s", "µs of CPU each", "queries/s of CPU"
    );
    let [old, our] =
        [("one socket each", olds), ("Client::query_many", ours)].map(|(name, runs)| {
            let median = median(runs)?;
            let Figures {
                per_second,
                cpu_micros,
            } = median;
            println!(
                "{name:18} {per_second:>11.0} {cpu_micros:>15.1} {:>19.0}",
                1e6 / cpu_micros
            );
            Some(median)
        });
    if let (Some(old), Some(our)) = (old, our) {
        let (speed, cpu) = (
            our.per_second / old.per_second,
            our.cpu_micros / old.cpu_micros,
        );
        println!(
            "{:18} {speed:>11.2} {cpu:>15.2} {:>19.2}",
            "ratio",
            1.0 / cpu
        );
    }
}

#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    cpu_micros: f64,
}

/// Runs `QUERIES` queries, all of which must be answered.
fn measure(run: impl FnOnce() -> usize) -> Figures {
    let (started, cpu) = (Instant::now(), cpu());
    assert_eq!(run(), QUERIES, "not all queries were answered");
    let per_second = QUERIES as f64 / started.elapsed().as_secs_f64();
    Figures {
        per_second,
        cpu_micros: (self::cpu() - cpu).as_secs_f64() * 1e6 / QUERIES as f64,
    }
}

/// By CPU, which depends less on what else the machine does.
fn median(mut runs: Vec<Figures>) -> Option<Figures> {
    runs.sort_by(|a, b| a.cpu_micros.total_cmp(&b.cpu_micros));
    runs.get(runs.len() / 2).copied()
}

/// What the main thread, which does everything, has had of the CPU.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(
        stat.split_whitespace()
            .next()
            .and_then(|nanos| nanos.parse().ok())
            .unwrap_or(0),
    )
}

async fn count(mut many: QueryStream<'_, &Target>) -> usize {
    let mut answered = 0;
    while let Some((target, end)) = many.next().await {
        match end {
            Ok(answers) => {
                assert_eq!(answers[0].status.players.list.len(), 8);
                answered += 1;
            }
            Err(error) => eprintln!("{target}: {error}"),
        }
    }
    answered
}

fn addresses(port: u16) -> impl Iterator<Item = SocketAddr> {
    (0..60_000_u32)
        .map(move |i| SocketAddr::new(Ipv4Addr::from(0x7F01_0000 + i).into(), port))
        .cycle()
}

/// The old way, with nothing around it.
async fn one_socket_each(port: u16) -> usize {
    let asks = stream::iter(addresses(port).take(QUERIES)).map(|address| async move {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        socket.connect(address).await?;
        let exchange = registry::find("minecraft-query")
            .expect("known")
            .exchange(&Ask::default(), Cookie(7));
        let mut limits = QueryLimits::default();
        limits.timeout = PATIENCE;
        let mut drive = ExchangeDriver::new(exchange, limits);
        let started = tokio::time::Instant::now();
        let (mut request, mut heard) = (Vec::new(), Vec::with_capacity(65_535));
        let mut action = drive.start(started.elapsed(), &mut request);
        loop {
            match action {
                Action::Send => socket.send(&request).await.map(drop)?,
                Action::Wait => {}
                Action::End(end) => {
                    return Ok::<_, std::io::Error>(
                        end.is_ok_and(|end| end.status.players.list.len() == 8),
                    );
                }
            }
            request.clear();
            heard.clear();
            let came = timeout_at(started + drive.due(), socket.recv_buf(&mut heard)).await;
            let now = started.elapsed();
            action = match came {
                Ok(came) => came.map(|_| drive.datagram(now, &heard, &mut request))?,
                Err(_) => drive.tick(now, &mut request),
            };
        }
    });
    asks.buffer_unordered(CONCURRENCY)
        .filter(|end| std::future::ready(matches!(end, Ok(true))))
        .count()
        .await
}

/// Answers until its standard input ends.
fn respond() {
    let players = (1..=8_u128).map(|number| Player {
        uuid: Some(number.to_be_bytes()),
        ..Player::named(Text::unformatted(format!("Player_{number}")))
    });
    let mut status = Status {
        motd: Some(Text::legacy("A server")),
        map: Some("world".into()),
        ..Status::default()
    };
    (status.players.online, status.players.max) = (Some(8), Some(20));
    status.players.set_list(players.collect());
    let board = Board::new(registry::PROTOCOLS, &status).expect("default options");
    let mut service = Service::new(board, Budget::default());

    let mut settings = hailer_udp::SocketConfig::default();
    (settings.destination, settings.receive_buffer) = (true, Some(8 << 20));
    let socket =
        Socket::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), 0).into(), &settings).expect("a socket");
    println!("{}", socket.local_addr().port());
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let (mut inbox, mut outbox) = (Inbox::with_max_length(2_048), Outbox::new());
    loop {
        if socket.receive(&mut inbox).expect("receives") == 0 {
            hailer_udp::wait(&[&socket], false, Duration::from_secs(1)).expect("waits");
        }
        for received in inbox.iter() {
            if let Some(reply) = service.answer(received.from, received.bytes) {
                outbox.push(received.from, received.to, |out| {
                    out.extend_from_slice(reply);
                });
            }
        }
        socket.send(&mut outbox).expect("sends");
    }
}
