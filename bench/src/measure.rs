//! Measurements in rounds, and their output.
//!
//! In: arguments. Out: a table of medians on standard output.
//!
//! May import: `crate::client`, `crate::cluster`, `crate::count`, `crate::figures`, `crate::flood`,
//! `crate::game`, `crate::history`, `crate::host`, `crate::monitor`, `crate::pass`, `crate::passing`,
//! `crate::report`, `crate::respond`, `crate::server`, `crate::targets`, `crate::work`.

use crate::client;
use crate::figures::Figures;
use crate::game::{self, Game};
use crate::host::{self, Run, Server};
use crate::report::{at_least, at_most, heading, median, range};
use crate::{
    cluster, count, flood, history, monitor, pass, passing, respond, server, targets, work,
};
use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Share of the machine above which the CPU time of other processes is reported.
const FOREIGN: f64 = 0.12;
/// Share of a core above which the server may limit a run.
const SERVER: f64 = 0.97;
/// Delay of a reply. A full query of two round trips takes about 81 ms, including the overhead of
/// the loops.
const DELAY_MS: u64 = 40;
const SILENT: f64 = 0.2;
/// Targets of a run without delay. A run takes less than a second, because the load of a shared
/// host changes quickly.
const SHORT: u32 = 100_000;
/// Targets of a sweep by the program, enough that its start does not count.
const LONG: u32 = 300_000;
/// Rounds of such runs for each round of the others.
const SHORT_ROUNDS: usize = 3;
/// Targets of a run over TCP without delay, for the same reason.
const SHORT_TCP: u32 = 40_000;
/// Largest number of rounds with a million targets over TCP, which take half a minute each.
const LONG_ROUNDS: usize = 3;

#[derive(Parser)]
#[command(
    about = "Measures the sweep against bare loops in the same run, and prints ratios and verdicts"
)]
struct Args {
    #[command(subcommand)]
    what: Measurement,
    /// Interleaved rounds. `rate` and `cpu`, whose runs are short, take three times as many.
    #[arg(long, global = true, default_value_t = 5)]
    rounds: usize,
    /// Factor for all numbers of targets.
    #[arg(long, global = true, default_value_t = 1.0)]
    scale: f64,
    /// The server.
    #[arg(long, global = true, value_enum, default_value = "canned")]
    server: server::Kind,
    /// `cli`, `output`, `monitor` and `cluster`: the program. Default: `hailer` in the folder of this one.
    #[arg(long, global = true)]
    hailer: Option<PathBuf>,
    /// `rate` and `cpu`: only this protocol.
    #[arg(long, global = true, value_enum)]
    game: Option<Game>,
}

#[derive(Subcommand)]
enum Measurement {
    /// Completed queries per second, for each protocol.
    Rate,
    /// CPU for each completed query, decoded and written as NDJSON.
    Cpu,
    /// Whether the rate limit is reached, at 80 ms and with silent targets.
    Delay,
    /// Memory for 1 million and for 10 million targets that do not reply.
    Memory,
    /// Answers lost by the client itself.
    Lost,
    /// Status pings over TCP, written as NDJSON, with both ways of closing connections.
    Slp,
    /// A2S info, and info with 16 players, written as NDJSON.
    A2s,
    /// A million targets at 80 ms with silent ones, against the bare loop's best window. With
    /// `--game slp` or `--game a2s`: the time and the memory.
    Million,
    /// Two threads on two cores against one thread on one core, each core with a server.
    Threads,
    /// Target lists: reading, sorting and random order.
    Targets,
    /// One query from the command line.
    Cli,
    /// CPU and memory of `hailer sweep` for each answer, as NDJSON and as Parquet.
    Output,
    /// The responder: replies per second on one core, and latency at half of that.
    Respond,
    /// The responder under a flood from forged sources, in two network namespaces.
    Flood {
        /// Duration in minutes; by default 10 seconds, times the scale
        #[arg(long)]
        minutes: Option<f64>,
        #[command(flatten)]
        rate: flood::FloodRate,
        /// Use loopback and no namespaces
        #[arg(long)]
        loopback: bool,
    },
    /// The relay under up to 20,000 datagrams/s from forged sources, while 40 players join through it.
    Relay {
        /// Duration of each flood in minutes; by default 20 seconds, times the scale
        #[arg(long)]
        minutes: Option<f64>,
        /// Datagrams per second, and only one flood
        #[arg(long)]
        rate: Option<f64>,
        #[command(flatten)]
        sources: flood::FloodSources,
        /// Use loopback and no namespaces
        #[arg(long)]
        loopback: bool,
    },
    /// Datagrams per second through the relay, on one core.
    Passing,
    /// Connections through the relay over TCP, compared with HAProxy.
    Pass,
    /// Instructions of the hot paths, counted by valgrind, next to those of
    /// golden/instructions.txt.
    Count,
    /// The monitor: 100,000 servers of a farm, each polled once a minute, while pages are
    /// requested.
    Monitor {
        /// Duration in minutes.
        #[arg(long, default_value_t = 5.0)]
        minutes: f64,
    },
    /// The history: writing, roll-ups and reading, with SQLite and with PostgreSQL.
    History,
    /// A cluster of three monitors with Redis and PostgreSQL: the figures of docs/scale.md.
    Cluster,
    /// All of them except `monitor`, `history`, `cluster` and `count`.
    All,
    #[command(hide = true)]
    Server(server::Plan),
    #[command(hide = true)]
    Client(client::Plan),
    #[command(hide = true)]
    Answer(respond::Plan),
    #[command(hide = true)]
    Forge(flood::ForgeConfig),
    #[command(hide = true)]
    Fleet,
    /// Runs the relay over TCP to this game.
    #[command(hide = true)]
    PassOn { origin: SocketAddr },
    #[command(hide = true)]
    CliOnce { port: u16 },
    #[command(hide = true)]
    OutputOnce {
        port: u16,
        targets: u32,
        format: String,
    },
    /// Repeats a hot path, for a counter of instructions. Without arguments: prints the names of
    /// the paths.
    #[command(hide = true)]
    Work {
        #[arg(requires = "times")]
        path: Option<String>,
        times: Option<u64>,
    },
}

/// Parses the arguments and runs the measurement.
pub(crate) fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match &args.what {
        Measurement::Server(plan) => {
            host::pin(plan.core);
            server::run(plan)
        }
        Measurement::Client(plan) => {
            if plan.threads == 1 {
                host::pin(0);
            }
            client::run(plan)
        }
        Measurement::Answer(plan) => {
            host::pin(0);
            respond::answer(plan)
        }
        Measurement::Respond => respond::respond(args.rounds, args.scale),
        Measurement::Forge(plan) => {
            host::pin(1);
            flood::forge(plan)
        }
        Measurement::Flood {
            minutes,
            rate,
            loopback,
        } => flood::flood(args.seconds(*minutes, 10.0), *rate, *loopback),
        Measurement::Relay {
            minutes,
            rate,
            sources,
            loopback,
        } => {
            let seconds = args.seconds(*minutes, 20.0);
            match rate.map(flood::FloodRate::new) {
                Some(rate) => flood::relay(seconds, rate, *sources, *loopback),
                None => flood::relay_all(seconds, *loopback),
            }
        }
        Measurement::Passing => passing::passing(args.rounds, args.scale),
        Measurement::Pass => pass::pass(args.rounds, args.scale),
        Measurement::PassOn { origin } => {
            host::pin(0);
            pass::serve(*origin)
        }
        Measurement::Count => count::run(),
        Measurement::Monitor { minutes } => {
            monitor::monitor(&args.program()?, args.targets(100_000), *minutes)
        }
        Measurement::History => history::history(args.targets(100_000)),
        Measurement::Cluster => cluster::cluster(&args.program()?, args.targets(40_000)),
        Measurement::Fleet => monitor::fleet(),
        Measurement::CliOnce { port } => args.cli_once(*port),
        Measurement::OutputOnce {
            port,
            targets,
            format,
        } => args.output_once(*port, *targets, format),
        Measurement::Work { path, times } => work::run(path.as_deref(), times.unwrap_or_default()),
        Measurement::Rate => args.rate(),
        Measurement::Cpu => args.cpu(),
        Measurement::Delay => args.delay(),
        Measurement::Memory => args.memory(),
        Measurement::Lost => args.lost(),
        Measurement::Slp => args.slp(),
        Measurement::A2s => args.a2s(),
        Measurement::Threads => args.threads(),
        Measurement::Targets => targets::targets(args.targets(1_000_000)),
        Measurement::Million => match args.game {
            Some(game @ (Game::Slp | Game::A2sInfo | Game::A2sPlayers)) => args.long(game),
            _ => args.million(),
        },
        Measurement::Cli => args.cli(),
        Measurement::Output => args.output(),
        Measurement::All => {
            args.rate()?;
            args.cpu()?;
            args.delay()?;
            args.memory()?;
            args.lost()?;
            args.million()?;
            args.slp()?;
            args.a2s()?;
            args.long(Game::Slp)?;
            args.long(Game::A2sInfo)?;
            args.threads()?;
            args.cli()?;
            args.output()?;
            respond::respond(args.rounds, args.scale)?;
            flood::flood(10.0 * args.scale, flood::FloodRate::default(), false)?;
            flood::relay_all(20.0 * args.scale, false)?;
            passing::passing(args.rounds, args.scale)
        }
    }
}

impl Args {
    /// Returns the duration of a flood in seconds.
    fn seconds(&self, minutes: Option<f64>, default: f64) -> f64 {
        minutes.map_or(default * self.scale, |minutes| minutes * 60.0)
    }

    fn targets(&self, count: u32) -> u32 {
        (f64::from(count) * self.scale).max(100.0) as u32
    }

    fn server(
        &self,
        game: Game,
        silent: f64,
        delay_ms: u64,
        targets: u32,
    ) -> anyhow::Result<Server> {
        Server::start(&server::Plan {
            core: 1,
            kind: self.server,
            game,
            silent,
            delay_ms,
            targets,
        })
    }

    fn games(&self) -> Vec<Game> {
        let all = [
            Game::Minecraft,
            Game::Onequery,
            Game::Ugp,
            Game::Qr2,
            Game::Quake3,
            Game::Samp,
        ];
        all.into_iter()
            .filter(|game| self.game.is_none_or(|only| only == *game))
            .collect()
    }

    fn rate(&self) -> anyhow::Result<()> {
        heading("completed queries a second, all alive, no delay");
        let targets = self.targets(SHORT);
        for game in self.games() {
            let server = self.server(game, 0.0, 0, targets)?;
            println!("{}:", game.title());
            let (bare, sweep) = self.beside(
                &server,
                targets,
                &[256, 1_024, 4_096],
                self.rounds * SHORT_ROUNDS,
                &[],
            )?;
            let best = bare
                .iter()
                .max_by(|a, b| a.median(rate).total_cmp(&b.median(rate)))
                .context("a window")?;
            let label = format!("{}, of the bare loop's best ({})", game.title(), best.name);
            at_least(
                &label,
                sweep.ratio(best, rate),
                0.8,
                &sweep.spread(best, rate),
            );
            server_lost(server)?;
        }
        Ok(())
    }

    /// Runs the bare loop with each of these windows, and the sweep, in turns.
    fn beside(
        &self,
        server: &Server,
        targets: u32,
        windows: &[u32],
        rounds: usize,
        options: &[&str],
    ) -> anyhow::Result<(Vec<Series>, Series)> {
        let windows = windows.iter().map(u32::to_string);
        let mut bare: Vec<_> = windows
            .map(|window| (Series::new(format!("bare, window {window}")), window))
            .collect();
        let mut sweep = Series::new("sweep");
        for _ in 0..rounds {
            for (series, window) in &mut bare {
                series.add(run(server, targets, &["bare", "--window", window])?);
            }
            sweep.add(run(server, targets, &[&["sweep"], options].concat())?);
        }
        let bare: Vec<_> = bare.into_iter().map(|(series, _)| series).collect();
        bare.iter().chain([&sweep]).for_each(Series::print);
        Ok((bare, sweep))
    }

    fn cpu(&self) -> anyhow::Result<()> {
        heading("CPU for each completed query, decoded and written as NDJSON to a file");
        println!(
            "A new file takes memory that a virtual machine may have to request from its host, at 1 µs per KiB for any writer:"
        );
        println!("so the verdict is on a file that is overwritten.");
        let targets = self.targets(SHORT);
        let file = std::env::temp_dir().join(format!("hailer-bench-{}.ndjson", std::process::id()));
        let path = file
            .to_str()
            .context("a folder for temporary files whose name is UTF-8")?;
        let games = if self.game.is_some() {
            self.games()
        } else {
            vec![Game::Minecraft]
        };
        for game in games {
            let server = self.server(game, 0.0, 0, targets)?;
            let [mut bare, mut rested] =
                ["bare, window 1024", "bare, window 1024, resting"].map(Series::new);
            let [mut plain, mut ndjson, mut new] = [
                "sweep, counted",
                "sweep, NDJSON",
                "sweep, NDJSON, a new file",
            ]
            .map(Series::new);
            let done = (0..self.rounds * SHORT_ROUNDS).try_for_each(|_| {
                bare.add(run(&server, targets, &["bare"])?);
                rested.add(run(&server, targets, &["bare", "--rest-us", "200"])?);
                plain.add(run(&server, targets, &["sweep"])?);
                let _ = std::fs::remove_file(&file);
                new.add(run(&server, targets, &["sweep", "--ndjson", path])?);
                ndjson.add(run(&server, targets, &["sweep", "--ndjson", path])?);
                Ok(())
            });
            let _ = std::fs::remove_file(&file);
            done.and_then(|()| {
                println!("{}:", game.title());
                [&bare, &rested, &plain, &new, &ndjson]
                    .into_iter()
                    .for_each(Series::print);
                let best = if rested.median(cost) < bare.median(cost) {
                    &rested
                } else {
                    &bare
                };
                at_most("µs", ndjson.median(cost), 10.0, "");
                let label = format!("times the bare loop's ({})", best.name);
                at_most(
                    &label,
                    ndjson.ratio(best, cost),
                    1.4,
                    &ndjson.spread(best, cost),
                );
                server_lost(server)
            })?;
        }
        Ok(())
    }

    fn delay(&self) -> anyhow::Result<()> {
        heading("the pace that is reached at 80 ms of delay, 20 % silent");
        println!(
            "Each reply comes after {DELAY_MS} ms. A living target takes two datagrams, and where nothing is lost, a silent one does."
        );
        for queries in [20_000, 50_000, 100_000] {
            let targets = self.targets(queries * 10);
            let server = self.server(Game::Minecraft, SILENT, DELAY_MS, targets)?;
            let packets = f64::from(queries) * 2.0;
            let mut sweep = Series::new(format!("sweep, {queries} queries a second"));
            for _ in 0..self.rounds.min(3) {
                sweep.add(run(
                    &server,
                    targets,
                    &["sweep", "--packets-per-second", &packets.to_string()],
                )?);
            }
            sweep.print();
            let of = |run: &Run| run.figures.begun / f64::from(queries);
            let later = sweep.median(|run| run.figures.begun_later / f64::from(queries));
            let label = format!("of {queries} queries a second begun");
            at_least(
                &label,
                sweep.median(of),
                0.9,
                &format!("{}; {later:.3} after the first fifth", sweep.range(of)),
            );
            server_lost(server)?;
        }
        Ok(())
    }

    fn memory(&self) -> anyhow::Result<()> {
        heading("memory with silent targets, above an empty process");
        let empty = host::client(&["client", "--kind", "empty"].map(String::from), None)?
            .figures
            .peak;
        println!("empty process: {:.1} MiB", empty as f64 / 1_024.0);
        for (targets, bar) in [(1_000_000, 48.0), (10_000_000, 400.0)] {
            let targets = self.targets(targets);
            let server = self.server(Game::Minecraft, 1.0, 0, targets)?;
            let mut sweep = Series::new(format!("sweep, {targets} targets"));
            // The rate limit per network needs a table, so it is off. The timeout is long, so that
            // all probes are in flight.
            let timeout = (20.0 * self.scale).max(1.0).to_string();
            sweep.add(run(
                &server,
                targets,
                &["sweep", "--per-prefix", "1e9", "--timeout", &timeout],
            )?);
            sweep.print();
            let above = sweep.median(|run| run.figures.peak.saturating_sub(empty) as f64 / 1_024.0);
            at_most(&format!("MiB for {targets} targets"), above, bar, "");
            server_lost(server)?;
        }
        Ok(())
    }

    fn lost(&self) -> anyhow::Result<()> {
        heading("answers lost by the client itself, without a rate limit");
        let targets = self.targets(1_000_000);
        let server = self.server(Game::Minecraft, 0.0, 0, targets)?;
        let mut sweep = Series::new("sweep");
        for _ in 0..self.rounds.min(3) {
            sweep.add(run(&server, targets, &["sweep"])?);
        }
        sweep.print();
        at_most(
            &format!("of {targets} lost, at worst"),
            sweep.worst_lost(),
            0.0,
            "",
        );
        server_lost(server)
    }

    fn million(&self) -> anyhow::Result<()> {
        let targets = self.targets(1_000_000);
        heading(&format!(
            "{targets} targets, 80 ms, 20 % silent, default settings but the rate"
        ));
        let server = self.server(Game::Minecraft, SILENT, DELAY_MS, targets)?;
        let (bare, sweep) = self.beside(
            &server,
            targets,
            &[20_000, 40_000, 60_000, 80_000],
            self.rounds,
            &[],
        )?;
        let safe = bare.iter().filter(|series| series.worst_lost() == 0.0);
        match safe.min_by(|a, b| a.median(wall).total_cmp(&b.median(wall))) {
            Some(best) => {
                let label = format!("times the bare loop's time ({})", best.name);
                at_most(
                    &label,
                    sweep.ratio(best, wall),
                    1.4,
                    &sweep.spread(best, wall),
                );
            }
            None => println!("no window of the bare loop is safe here"),
        }
        at_most("living targets lost, at worst", sweep.worst_lost(), 0.0, "");
        server_lost(server)
    }

    /// Compares status pings with a bare loop that closes connections in the same way.
    fn slp(&self) -> anyhow::Result<()> {
        heading("status pings a second over TCP, all alive, no delay; the sweep writes NDJSON");
        let targets = self.targets(SHORT_TCP);
        let server = self.server(Game::Slp, 0.0, 0, targets)?;
        let file = OutputFile::new()?;
        for (close, name, target) in [
            ("reset", "reused sockets", 0.78),
            ("fin", "new sockets", 0.8),
        ] {
            let mut bare: Vec<_> = ["256", "1024"]
                .map(|window| {
                    (
                        Series::new(format!("bare, {name}, window {window}")),
                        window,
                    )
                })
                .into();
            let mut sweep = Series::new(format!("sweep, {close}, NDJSON"));
            for _ in 0..self.rounds * SHORT_ROUNDS {
                for (series, window) in &mut bare {
                    let options = ["bare", "--window", window, "--close", close];
                    series.add(run(&server, targets, &options)?);
                }
                let options = ["sweep", "--ndjson", &file.0, "--close", close];
                sweep.add(run(&server, targets, &options)?);
            }
            let bare: Vec<_> = bare.into_iter().map(|(series, _)| series).collect();
            verdict_beside(&bare, &sweep, name, target)?;
        }
        server_lost(server)
    }

    /// Compares A2S queries with the bare loop.
    fn a2s(&self) -> anyhow::Result<()> {
        heading("A2S queries a second, all alive, no delay; the sweep writes NDJSON");
        let targets = self.targets(SHORT);
        let file = OutputFile::new()?;
        for (game, target) in [(Game::A2sInfo, 0.8), (Game::A2sPlayers, 0.75)] {
            let server = self.server(game, 0.0, 0, targets)?;
            let mut bare: Vec<_> = ["256", "1024", "4096"]
                .map(|window| (Series::new(format!("bare, window {window}")), window))
                .into();
            let [mut counted, mut sweep] = ["sweep, counted", "sweep, NDJSON"].map(Series::new);
            for _ in 0..self.rounds * SHORT_ROUNDS {
                for (series, window) in &mut bare {
                    series.add(run(&server, targets, &["bare", "--window", window])?);
                }
                counted.add(run(&server, targets, &["sweep"])?);
                sweep.add(run(&server, targets, &["sweep", "--ndjson", &file.0])?);
            }
            println!("{}:", game.title());
            let bare: Vec<_> = bare.into_iter().map(|(series, _)| series).collect();
            counted.print();
            verdict_beside(&bare, &sweep, game.title(), target)?;
            server_lost(server)?;
        }
        Ok(())
    }

    /// Compares one thread and a server on one core with two threads and two servers on two cores.
    fn threads(&self) -> anyhow::Result<()> {
        heading("threads: one and a server on one core, two and two servers on two cores");
        for (game, targets) in [
            (Game::Minecraft, self.targets(SHORT)),
            (Game::A2sInfo, self.targets(SHORT)),
            (Game::Slp, self.targets(SHORT_TCP)),
        ] {
            let start = |core| {
                Server::start(&server::Plan {
                    kind: self.server,
                    game,
                    silent: 0.0,
                    delay_ms: 0,
                    targets,
                    core,
                })
            };
            let first = start(0)?;
            let second = start(1)?;
            let port = second.port.to_string();
            let [mut one, mut two] =
                ["one thread, one core", "two threads, two cores"].map(Series::new);
            for _ in 0..self.rounds * SHORT_ROUNDS {
                one.add(run(&first, targets, &["sweep"])?);
                let options = ["sweep", "--threads", "2", "--second-port", &port];
                two.add(run(&first, targets, &options)?);
            }
            println!("{}:", game.title());
            one.print();
            two.print();
            let label = format!("{}, times the rate of one thread", game.title());
            at_least(&label, two.ratio(&one, rate), 1.8, &two.spread(&one, rate));
            at_most("living targets lost, at worst", two.worst_lost(), 0.0, "");
            server_lost(first)?;
            server_lost(second)?;
        }
        Ok(())
    }

    /// Measures the time and the memory of a million targets, written as NDJSON.
    fn long(&self, game: Game) -> anyhow::Result<()> {
        let targets = self.targets(1_000_000);
        heading(&format!(
            "{targets} targets, {}, each reply after {DELAY_MS} ms, 20 % dead, NDJSON",
            game.title()
        ));
        let (window, limit) = match game {
            Game::Slp => ("16000", 35.0),
            _ => ("60000", 9.0),
        };
        let server = self.server(game, SILENT, DELAY_MS, targets)?;
        let file = OutputFile::new()?;
        let mut bare = Series::new(format!("bare, window {window}"));
        let mut sweep = Series::new("sweep, NDJSON");
        for _ in 0..self.rounds.min(LONG_ROUNDS) {
            bare.add(run(&server, targets, &["bare", "--window", window])?);
            sweep.add(run(&server, targets, &["sweep", "--ndjson", &file.0])?);
        }
        bare.print();
        sweep.print();
        let peak = |run: &Run| run.figures.peak as f64 / 1_024.0;
        let limit = limit * self.scale.max(0.1);
        at_most("s", sweep.median(wall), limit, &sweep.range(wall));
        at_most("living targets lost, at worst", sweep.worst_lost(), 0.0, "");
        at_most("MiB", sweep.median(peak), 60.0, &sweep.range(peak));
        server_lost(server)
    }

    fn cli(&self) -> anyhow::Result<()> {
        self.program()?;
        heading("one query from the command line");
        let server = self.server(Game::Minecraft, 0.0, 0, 1)?;
        let mut series = Series::new("hailer query");
        let args = self.once(&["cli-once", &server.port.to_string()])?;
        for _ in 0..self.rounds.max(15) {
            series.add(client(&args, &server)?);
        }
        let time = |run: &Run| run.figures.wall * 1e3;
        let peak = |run: &Run| run.figures.peak as f64 * 1_024.0 / 1e6;
        at_most(
            "ms beyond the round trips",
            series.median(time),
            5.0,
            &series.range(time),
        );
        at_most("MB", series.median(peak), 16.0, &series.range(peak));
        server_lost(server)
    }

    /// Returns the arguments of a process that runs the program once.
    fn once(&self, args: &[&str]) -> anyhow::Result<Vec<String>> {
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).into()).collect();
        if let Some(hailer) = &self.hailer {
            let hailer = hailer.to_str().context("a path in UTF-8")?;
            args.extend(["--hailer".into(), hailer.into()]);
        }
        Ok(args)
    }

    fn output(&self) -> anyhow::Result<()> {
        self.program()?;
        heading("CPU for each answer that `hailer sweep` writes to a new file");
        let targets = self.targets(LONG);
        let server = self.server(Game::Minecraft, 0.0, 0, targets)?;
        let [mut ndjson, mut parquet] = ["ndjson", "parquet"].map(Series::new);
        let port = server.port.to_string();
        let count = targets.to_string();
        for _ in 0..self.rounds {
            for series in [&mut ndjson, &mut parquet] {
                let args = self.once(&["output-once", &port, &count, &series.name])?;
                series.add(client(&args, &server)?);
            }
        }
        ndjson.print();
        parquet.print();
        let peak = |run: &Run| run.figures.peak as f64 * 1_024.0 / 1e6;
        at_most(
            "µs for each answer in Parquet",
            parquet.median(cost),
            12.0,
            &parquet.range(cost),
        );
        at_most(
            "times the CPU of NDJSON",
            parquet.ratio(&ndjson, cost),
            1.6,
            &parquet.spread(&ndjson, cost),
        );
        at_most("MB", parquet.median(peak), 48.0, &parquet.range(peak));
        server_lost(server)
    }

    /// Runs one sweep of the program into a temporary file of this format.
    fn output_once(&self, port: u16, targets: u32, format: &str) -> anyhow::Result<()> {
        host::pin(0);
        let hailer = self.program()?;
        let file = |suffix: &str| {
            let name = format!("hailer-bench-{}.{suffix}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let output = file(format);
        let summary = file("summary");
        let last = game::ip(targets.saturating_sub(1));
        let last = std::net::Ipv4Addr::from_bits(last);
        let mut command = Command::new(&hailer);
        let started = Instant::now();
        let status = command
            .args(["sweep", "--rate", "unlimited", "--per-network", "unlimited"])
            .args(["--quiet", "--force", "--summary"])
            .arg(&summary)
            .arg("--output")
            .arg(&output)
            .arg(format!("minecraft-query://127.0.1.0-{last}:{port}"))
            .status()
            .with_context(|| format!("cannot run {}: build it, or name it", hailer.display()))?;
        let wall = started.elapsed().as_secs_f64();
        let counts: serde_json::Value = serde_json::from_slice(&std::fs::read(&summary)?)?;
        std::fs::remove_file(&summary)?;
        std::fs::remove_file(&output)?;
        ensure!(status.success(), "{} failed", hailer.display());
        let counts = &counts["counts"];
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)?;
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        let figures = Figures {
            wall,
            cpu: seconds(usage.user_time()) + seconds(usage.system_time()),
            peak: usage.max_rss() as u64,
            completed: counts["answered"].as_u64().context("a count of answers")?,
            resent: counts["datagrams_resent"].as_u64().unwrap_or_default(),
            ..Figures::default()
        };
        println!("{}", serde_json::to_string(&figures)?);
        Ok(())
    }

    /// Returns the configured program, or the one in the folder of this one.
    fn program(&self) -> anyhow::Result<PathBuf> {
        let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("hailer"));
        let program = self.hailer.clone().map_or_else(beside, Ok)?;
        ensure!(
            program.is_file(),
            "{} is missing: build it with `cargo build --release -p hailer-cli`, or name it with --hailer",
            program.display()
        );
        Ok(program)
    }

    /// Runs the program once, in a separate process without other children and with almost no
    /// memory.
    fn cli_once(&self, port: u16) -> anyhow::Result<()> {
        let hailer = self.program()?;
        let target = format!("minecraft-query://127.0.1.0:{port}");
        let mut command = Command::new(&hailer);
        let started = Instant::now();
        let output = command
            .args(["query", &target, "--json"])
            .stderr(Stdio::inherit())
            .output();
        let wall = started.elapsed().as_secs_f64();
        let output = output
            .with_context(|| format!("cannot run {}: build it, or name it", hailer.display()))?;
        ensure!(output.status.success(), "no answer to {}", hailer.display());
        let line: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let round_trip = line["latency_ms"].as_f64().context("a round trip")? / 1e3;
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)?;
        let figures = Figures {
            wall: wall - 2.0 * round_trip,
            peak: usage.max_rss() as u64,
            completed: 1,
            ..Figures::default()
        };
        println!("{}", serde_json::to_string(&figures)?);
        Ok(())
    }
}

/// Runs once against a server. `how`: the kind of client and its options.
fn run(server: &Server, targets: u32, how: &[&str]) -> anyhow::Result<Run> {
    let game = server.game.argument();
    let port = server.port.to_string();
    let targets = targets.to_string();
    let dead_port = server.dead_port.to_string();
    let dead = server.silent.to_string();
    let common = ["--game", &game, "--port", &port, "--targets", &targets];
    let dead = ["--dead-port", &dead_port, "--dead", &dead];
    let args: Vec<String> = ["client", "--kind"]
        .iter()
        .chain(how)
        .chain(&common)
        .chain(&dead)
        .map(|arg| (*arg).into())
        .collect();
    client(&args, server)
}

/// Runs a client process, and checks that its run is complete.
fn client(args: &[String], server: &Server) -> anyhow::Result<Run> {
    let run = host::client(args, Some(server))?;
    ensure_complete(&run, server)?;
    Ok(run)
}

/// Checks that nothing was lost, since the server replies to each request. Otherwise timeouts
/// would be measured.
///
/// # Errors
/// A target that replies has no result, or a request to a server without silent targets was
/// repeated.
fn ensure_complete(run: &Run, server: &Server) -> anyhow::Result<()> {
    let title = server.game.title();
    ensure!(
        run.lost == 0,
        "{title}: {} targets that reply have no result: no ratio",
        run.lost
    );
    let resent = run.figures.resent;
    ensure!(
        server.silent > 0.0 || resent == 0,
        "{title}: {resent} datagrams were sent again, though no target is silent: no ratio"
    );
    Ok(())
}

/// Stops a server, and reports datagrams that it lost.
fn server_lost(server: Server) -> anyhow::Result<()> {
    match server.end()? {
        0 => {}
        lost => println!("  ! the server itself lost {lost} datagrams"),
    }
    Ok(())
}

/// File for the output of sweeps, overwritten by each. Removed when dropped.
struct OutputFile(String);

impl OutputFile {
    fn new() -> anyhow::Result<Self> {
        let file = std::env::temp_dir().join(format!("hailer-bench-{}.ndjson", std::process::id()));
        let path = file.into_os_string().into_string();
        let Ok(path) = path else {
            anyhow::bail!("the name of the folder for temporary files is not UTF-8");
        };
        Ok(Self(path))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Prints all series, and the verdict on the rate of the sweep relative to the best bare loop.
fn verdict_beside(bare: &[Series], sweep: &Series, name: &str, target: f64) -> anyhow::Result<()> {
    bare.iter().chain([sweep]).for_each(Series::print);
    let best = bare
        .iter()
        .max_by(|a, b| a.median(rate).total_cmp(&b.median(rate)))
        .context("a window")?;
    let label = format!("{name}, of the bare loop's best ({})", best.name);
    at_least(
        &label,
        sweep.ratio(best, rate),
        target,
        &sweep.spread(best, rate),
    );
    println!(
        "      {:.3} times the CPU {}",
        sweep.ratio(best, cost),
        sweep.spread(best, cost)
    );
    at_most("living targets lost, at worst", sweep.worst_lost(), 0.0, "");
    Ok(())
}

/// Runs of the same kind.
struct Series {
    name: String,
    runs: Vec<Run>,
}

fn rate(run: &Run) -> f64 {
    run.figures.completed as f64 / run.figures.wall
}

fn cost(run: &Run) -> f64 {
    run.figures.cpu * 1e6 / run.figures.completed.max(1) as f64
}

fn wall(run: &Run) -> f64 {
    run.figures.wall
}

impl Series {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            runs: Vec::new(),
        }
    }

    fn add(&mut self, run: Run) {
        self.runs.push(run);
    }

    fn median(&self, of: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(of).collect())
    }

    fn range(&self, of: impl Fn(&Run) -> f64) -> String {
        range(self.runs.iter().map(of))
    }

    /// Returns the median of the ratios to another series, computed per round: adjacent runs share
    /// the load of the host.
    fn ratio(&self, other: &Self, of: impl Fn(&Run) -> f64) -> f64 {
        median(self.ratios(other, of).collect())
    }

    /// Returns the lowest and the highest of these ratios.
    fn spread(&self, other: &Self, of: impl Fn(&Run) -> f64) -> String {
        range(self.ratios(other, of))
    }

    fn ratios(&self, other: &Self, of: impl Fn(&Run) -> f64) -> impl Iterator<Item = f64> {
        self.runs
            .iter()
            .zip(&other.runs)
            .map(move |(a, b)| of(a) / of(b))
    }

    fn worst_lost(&self) -> f64 {
        self.runs
            .iter()
            .map(|run| run.lost)
            .max()
            .unwrap_or_default() as f64
    }

    fn print(&self) {
        let busy = self.median(|run| run.figures.cpu / run.figures.wall);
        println!(
            "  {:<34} {:>9.0}/s {}  {:>6.2} µs  {:>6.2} s  {:>6.1} MiB  lost {}  busy {:.2}, server {:.2}",
            self.name,
            self.median(rate),
            self.range(rate),
            self.median(cost),
            self.median(wall),
            self.median(|run| run.figures.peak as f64 / 1_024.0),
            self.worst_lost(),
            busy,
            self.median(|run| run.server),
        );
        if let Some(last) = self.runs.last() {
            let Figures {
                resent,
                overflows,
                note,
                ..
            } = &last.figures;
            println!(
                "  {:<34} {note}; {resent} resent, {overflows} overflowed",
                ""
            );
        }
        let foreign = self.runs.iter().map(|run| run.foreign).fold(0.0, f64::max);
        if foreign > FOREIGN {
            println!(
                "  ! others used up to {:.0} % of the machine",
                foreign * 100.0
            );
        }
        if self.median(|run| run.server) > SERVER && busy < SERVER {
            println!("  ! the server is what limits here");
        }
    }
}
