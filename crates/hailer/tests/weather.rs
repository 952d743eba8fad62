//! Success rate, duration and cost of queries in bad weather. Driver and exchange run against our
//! responders in simulated time: no socket and no sleep, so every run is the same.
//!
//! The table is `golden/weather.txt`; `BLESS=1 cargo test` writes it. A changed number there is a
//! change of behavior that needs a reason.

use hailer::Status;
use hailer::proto::testing::memory::Server;
use hailer::proto::{Ask, Cookie, Epoch, Keys, Options, Protocol, Responder, registry};
use hailer::support::drive::{Action, ExchangeDriver, ExchangeError, ExchangeOutput, QueryLimits};
use hailer_testkit::statuses::Random;
use hailer_testkit::{golden, statuses};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// Loss, delay, duplicates and corruption, the same in each direction.
#[derive(Clone, Copy, Default)]
struct Weather {
    name: &'static str,
    /// Share of lost datagrams, in percent.
    loss: u64,
    /// Shortest and longest delay, in milliseconds. Different delays reorder datagrams.
    delay: (u64, u64),
    /// Share of datagrams that arrive twice, in percent.
    twice: u64,
    /// Share of datagrams with 1 to 8 flipped bits, in percent. UDP's checksum would drop most of
    /// these; the simulation has none.
    corrupt: u64,
}

const CLEAR: Weather = Weather {
    name: "clear",
    loss: 0,
    delay: (10, 10),
    twice: 0,
    corrupt: 0,
};
const WEATHERS: &[Weather] = &[
    CLEAR,
    Weather {
        name: "loss 10 %",
        loss: 10,
        ..CLEAR
    },
    Weather {
        name: "loss 20 %",
        loss: 20,
        ..CLEAR
    },
    Weather {
        name: "loss 50 %",
        loss: 50,
        ..CLEAR
    },
    Weather {
        name: "delay 20-400 ms",
        delay: (20, 400),
        ..CLEAR
    },
    Weather {
        name: "delay 200-1600 ms",
        delay: (200, 1_600),
        ..CLEAR
    },
    Weather {
        name: "twice 30 %",
        twice: 30,
        delay: (10, 60),
        ..CLEAR
    },
    Weather {
        name: "corrupt 10 %",
        corrupt: 10,
        ..CLEAR
    },
    Weather {
        name: "storm",
        loss: 20,
        delay: (20, 400),
        twice: 30,
        corrupt: 10,
    },
];
const PLAYERS: &[usize] = &[0, 12, 300];
const SEEDS: u64 = 300;

#[test]
fn queries_in_bad_weather() {
    let mut table = format!(
        "# {SEEDS} queries each, in simulated time, with default limits. `wrong`: a status that is not the server's.\n\
         # `named`: wrong ones that name a deviation. `partial`: marked as incomplete by the extra `unanswered`.\n\
         # Means are over the queries that finished.\n\
         protocol         players weather            finished partial wrong named   failed            datagrams     ms\n"
    );
    let mut complaints = Vec::new();
    // Streams are left out: TCP hides loss and delay from them.
    for protocol in registry::datagram_responders() {
        for &players in PLAYERS {
            let status = statuses::plain(players);
            let responder = protocol.responder(&status, &Keys::new([7; 16]), &Options::default());
            let responder = responder.expect("no options are good options");
            let expected = expected(protocol, &*responder);
            for weather in WEATHERS {
                let tally = tally(protocol, &*responder, &expected, *weather);
                // A status that names what did not arrive is no false one. Lost and late datagrams
                // are no deviations of the server.
                if weather.corrupt == 0 && tally.wrong > 0 {
                    complaints.push(format!(
                        "{} {players} {}: {} wrong, deviations {:?}",
                        protocol.info().id,
                        weather.name,
                        tally.wrong,
                        tally.deviations
                    ));
                }
                let _ = writeln!(
                    table,
                    "{:16} {players:7} {:18} {tally}",
                    protocol.info().id,
                    weather.name
                );
            }
        }
    }
    complaints.extend(golden::check("weather.txt", &table).err());
    golden::settle(&complaints);
}

/// Returns the status that a query without loss returns.
fn expected(protocol: &dyn Protocol, responder: &dyn Responder) -> Status {
    match query(protocol, responder, CLEAR, 0).0 {
        Ok(outcome) => *outcome.status,
        Err(failure) => panic!("{} in clear weather: {failure:?}", protocol.info().id),
    }
}

#[derive(Default)]
struct Tally {
    finished: usize,
    partial: usize,
    wrong: usize,
    named: usize,
    /// Names of the deviations of all answers.
    deviations: BTreeSet<&'static str>,
    failed: BTreeMap<&'static str, usize>,
    datagrams: u64,
    time: Duration,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let failed: Vec<String> = self
            .failed
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        let finished = self.finished.max(1) as f64;
        let datagrams = self.datagrams as f64 / finished;
        let ms = self.time.as_secs_f64() * 1e3 / finished;
        let Self {
            finished,
            partial,
            wrong,
            named,
            ..
        } = self;
        write!(
            f,
            "{finished:8} {partial:7} {wrong:5} {named:5}   {:18}{datagrams:9.2} {ms:6.0}",
            failed.join(", ")
        )
    }
}

fn tally(
    protocol: &dyn Protocol,
    responder: &dyn Responder,
    expected: &Status,
    weather: Weather,
) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        let (end, now, sent) = query(protocol, responder, weather, seed);
        match end {
            Ok(outcome) => {
                tally.finished += 1;
                let met = outcome.status.deviations.iter();
                tally.deviations.extend(met.map(|met| met.name));
                let is_named = outcome.status.deviations != expected.deviations;
                let is_partial = outcome.status.extra("unanswered").is_some();
                tally.partial += usize::from(is_partial);
                if is_named || !is_partial && *outcome.status != *expected {
                    tally.wrong += 1;
                    tally.named += usize::from(is_named);
                }
                tally.datagrams += u64::from(sent);
                tally.time += now;
            }
            Err(failure) => *tally.failed.entry(kind(&failure)).or_default() += 1,
        }
        assert!(
            now <= QueryLimits::default().deadline,
            "{now:?}: past the deadline"
        );
    }
    tally
}

fn kind(failure: &ExchangeError) -> &'static str {
    match failure {
        ExchangeError::Silence { .. } => "silent",
        ExchangeError::Fault { .. } => "fault",
        ExchangeError::Flood { .. } => "flood",
        _ => "other",
    }
}

/// A datagram in transit: arrival time, sequence number (keeps the sort stable), whether it goes to
/// the server, and its bytes.
type Delivery = (u64, u64, bool, Vec<u8>);

/// Runs one query. Returns its result and when it ended.
fn query(
    protocol: &dyn Protocol,
    responder: &dyn Responder,
    weather: Weather,
    seed: u64,
) -> (Result<ExchangeOutput, ExchangeError>, Duration, u32) {
    let from: SocketAddr = ([192, 0, 2, 7], 50_000).into();
    let mut random = Random(seed.wrapping_mul(0x0001_0000_0001) ^ 0x5EED);
    let mut drive = ExchangeDriver::new(
        protocol.exchange(&Ask::default(), Cookie(random.bits())),
        QueryLimits::default(),
    )
    .follow_latency();
    let mut flights: Vec<Delivery> = Vec::new();
    let mut count: u64 = 0;
    let mut send = |flights: &mut Vec<Delivery>, now: u64, to_server: bool, bytes: &[u8]| {
        for _ in 0..=u64::from(random.chance(weather.twice)) {
            if random.chance(weather.loss) {
                continue;
            }
            let mut bytes = bytes.to_vec();
            if random.chance(weather.corrupt) && !bytes.is_empty() {
                for _ in 0..=random.below(8) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            let delay = weather.delay.0 + random.below(weather.delay.1 - weather.delay.0 + 1);
            count += 1;
            flights.push((now + delay, count, to_server, bytes));
        }
    };
    let mut out = Vec::new();
    let mut now = 0;
    let mut action = drive.start(Duration::ZERO, &mut out);
    loop {
        match action {
            Action::SendMore => {
                send(&mut flights, now, true, &out);
                out.clear();
                action = drive.resume(Duration::from_millis(now), &mut out);
                continue;
            }
            Action::Send => send(&mut flights, now, true, &out),
            Action::Reconnect => unreachable!("only streams reconnect"),
            Action::Wait | Action::Progress => {}
            Action::End(end) => return (end, Duration::from_millis(now), drive.sent()),
        }
        out.clear();
        let next = (0..flights.len()).min_by_key(|&i| (flights[i].0, flights[i].1));
        let due = drive.due().as_millis() as u64;
        action = match next {
            Some(i) if flights[i].0 <= due => {
                let (at, _, to_server, bytes) = flights.swap_remove(i);
                now = at;
                if to_server {
                    let epoch = Epoch::at(1_795_000_000 + now / 1_000);
                    for reply in Server::new(responder, from, epoch).request(&bytes) {
                        send(&mut flights, now, false, &reply);
                    }
                    Action::Wait
                } else {
                    drive.datagram(Duration::from_millis(now), &bytes, &mut out)
                }
            }
            _ => {
                now = due;
                drive.tick(Duration::from_millis(now), &mut out)
            }
        };
    }
}
