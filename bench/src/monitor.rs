//! The monitor: 100,000 servers of a farm, each polled once a minute, while pages and metrics are
//! requested. One third of the servers are polled over TCP.
//!
//! In: the number of minutes. Out: CPU, memory and latency of pages.
//!
//! May import: `crate::host`, `crate::report`, `hailer`.

use crate::host;
use crate::report::{at_least, at_most, heading};
use anyhow::{Context, bail, ensure};
use hailer::proto::registry;
use hailer::respond::farm::{Farm, FarmConfig};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Polling interval in milliseconds: the default of the monitor.
const INTERVAL: i64 = 60_000;
/// Maximum delay of a sample in milliseconds. A sample has the time when it was due. Jitter is a
/// twentieth of the interval, a timeout takes a few seconds, and writing takes one.
const LATEST: i64 = 15_000;
/// Requests per second.
const REQUESTS: u32 = 5;
/// Open pages with live updates.
const OPEN_PAGES: usize = 3;
/// Interval between requests of `/metrics`.
const SCRAPES: Duration = Duration::from_secs(15);
const GROUPS: u32 = 20;
/// Network conditions of the farm.
const SILENT: f64 = 0.05;
const LOSS: f64 = 0.01;
const DELAY: Duration = Duration::from_millis(30);
const JITTER: Duration = Duration::from_millis(20);

/// Measures `hailer monitor` with `targets` targets for `minutes` minutes.
pub(crate) fn monitor(hailer: &Path, targets: u32, minutes: f64) -> anyhow::Result<()> {
    heading(&format!(
        "hailer monitor: {targets} targets, each once a minute, for {minutes} minutes, SQLite"
    ));
    println!(
        "A farm of all protocols: {} ms and up to {} more, {} % of datagrams lost each way, {} % of servers silent. Every third server uses TCP.",
        DELAY.as_millis(),
        JITTER.as_millis(),
        LOSS * 100.0,
        SILENT * 100.0
    );
    let folder = Folder::new()?;
    let farm = Process::start(host::again(&["fleet".to_owned()])?.stdin(Stdio::piped()))?;
    let ports: BTreeMap<String, u16> = serde_json::from_str(&farm.line)?;
    let plan = folder.0.join("plan.toml");
    std::fs::write(&plan, plan_of(targets, &ports))?;
    measure(hailer, &plan, &folder, targets, minutes)
}

/// Serves the farm until standard input ends. Prints the port of each protocol.
pub(crate) fn fleet() -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        stopping.store(true, Ordering::Relaxed);
    });
    let mut config = FarmConfig::new(Ipv4Addr::new(127, 0, 0, 0), 8);
    config.ports = registry::responders()
        .into_iter()
        .map(|protocol| (protocol, 0))
        .collect();
    config.silent = SILENT;
    config.loss = LOSS;
    config.delay = DELAY;
    config.jitter = JITTER;
    let farm = Farm::new(config)?;
    let bound = farm.bind()?;
    let ports: BTreeMap<&str, u16> = bound
        .iter()
        .flat_map(|bound| {
            farm.protocols(bound)
                .map(|protocol| (protocol.info().id, bound.port()))
                .collect::<Vec<_>>()
        })
        .collect();
    println!("{}", serde_json::to_string(&ports)?);
    farm.run(&bound, &stop);
    Ok(())
}

fn plan_of(targets: u32, ports: &BTreeMap<String, u16>) -> String {
    let mut plan = String::from("[monitor]\nlisten = \"127.0.0.1:0\"\nhistory = \"history.db\"\n");
    let is_stream = |id: &str| {
        registry::find(id).is_some_and(|protocol| protocol.info().transport.is_connected())
    };
    let (streams, datagrams): (Vec<_>, Vec<_>) = ports.iter().partition(|(id, _)| is_stream(id));
    for number in 0..targets {
        let (ports, turn) = if number.is_multiple_of(3) {
            (&streams, number / 3)
        } else {
            (&datagrams, number - number / 3)
        };
        let (protocol, port) = ports[turn as usize % ports.len()];
        // From 127.1.0.0 on, 200 servers per /24, as at hosting companies.
        let address = Ipv4Addr::from(0x7F01_0000 + number + number / 200 * 56);
        let group = number % GROUPS;
        let _ = writeln!(
            plan,
            "[[server]]\nname = \"server-{number}\"\ntarget = \"{protocol}://{address}:{port}\"\ngroup = \"group {group}\""
        );
    }
    plan
}

fn measure(
    hailer: &Path,
    plan: &Path,
    folder: &Folder,
    targets: u32,
    minutes: f64,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut command = Command::new(hailer);
    command.args(["monitor", "--config"]).arg(plan);
    let process = Process::start(&mut command)
        .with_context(|| format!("{}: build it, or name it", hailer.display()))?;
    let url = process
        .line
        .rsplit_once(' ')
        .context("an address")?
        .1
        .to_owned();
    println!(
        "  {:.2} s from the start until it watches",
        started.elapsed().as_secs_f64()
    );
    let pid = process.id();
    let begun = Instant::now();
    let ready = now();
    let cpu = host::cpu_of(pid).context("its CPU")?;
    let machine = host::busy().unwrap_or_default();
    println!(
        "  {cpu:.1} s of CPU and {:.0} MiB until then",
        resident(pid)?
    );
    let length = Duration::from_secs_f64(minutes * 60.0);
    let pages = request_pages(&url, targets, begun + length)?;
    let ended = now();
    let wall = begun.elapsed().as_secs_f64();
    let spent = host::cpu_of(pid).context("it ended before its time")? - cpu;
    let peak = host::peak(pid).context("its memory")? as f64 / 1_024.0;
    let others = (host::busy().unwrap_or_default() - machine) / wall;
    println!(
        "  {others:.2} cores were busy in all, those of the farm and of this client among them"
    );
    println!("  {:.0} MiB resident at the end", resident(pid)?);
    let metrics = ureq_text(&agent(), &format!("{url}/metrics"))?;
    let count = |name: &str| {
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok())
            .with_context(|| format!("{name} in /metrics"))
    };
    process.interrupt()?;
    let samples = Samples::read(hailer, &folder.0, ready, ended - LATEST, targets)?;
    at_most(
        "samples missed, by the monitor itself",
        count("hailer_monitor_samples_missed_total")?,
        0.0,
        "",
    );
    at_most(
        "samples dropped, by the monitor itself",
        count("hailer_monitor_samples_dropped_total")?,
        0.0,
        "",
    );
    samples.report(targets);
    at_most("MiB resident at the fullest moment", peak, 400.0, "");
    at_most(
        "cores",
        spent / wall,
        1.0,
        &format!("({spent:.1} s of CPU in {wall:.0} s)"),
    );
    report_pages(pages);
    Ok(())
}

/// Response times of each page, in milliseconds.
type PageTimes = BTreeMap<String, Vec<f64>>;

fn report_pages(pages: PageTimes) {
    let mut all = Vec::new();
    for (what, mut times) in pages {
        let [middle, high, worst] = percentiles(&mut times);
        println!(
            "  {what:<32} {:>5} times: p50 {middle:>6.1} ms, p99 {high:>6.1}, worst {worst:>6.1}",
            times.len()
        );
        if what != METRICS {
            all.extend(times);
        }
    }
    let [middle, high, worst] = percentiles(&mut all);
    at_most(
        "ms for a page, p99",
        high,
        50.0,
        &format!("(p50 {middle:.1}, worst {worst:.1})"),
    );
}

const METRICS: &str = "/metrics";

/// Requests pages one after the other until the end, and metrics at intervals. Returns times in
/// milliseconds.
fn request_pages(url: &str, targets: u32, end: Instant) -> anyhow::Result<PageTimes> {
    let times: Mutex<PageTimes> = Mutex::default();
    let ids: Vec<String> = (1..=100).map(|id: u32| id.to_string()).collect();
    for _ in 0..OPEN_PAGES {
        // Like a browser that shows the list. It ends with the monitor.
        let url = format!("{url}/live/rows?ids={}", ids.join(","));
        thread::spawn(move || {
            let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
            if let Ok(mut answer) = agent.get(&url).call() {
                let _ = std::io::copy(&mut answer.body_mut().as_reader(), &mut std::io::sink());
            }
        });
    }
    let ask = |agent: &ureq::Agent, what: &str, path: &str| {
        let started = Instant::now();
        ureq_text(agent, &format!("{url}{path}"))?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        times
            .lock()
            .expect("no panic")
            .entry(what.into())
            .or_default()
            .push(took);
        anyhow::Ok(())
    };
    thread::scope(|scope| {
        let scrape = scope.spawn(|| {
            let agent = agent();
            while Instant::now() + SCRAPES < end {
                thread::sleep(SCRAPES);
                ask(&agent, METRICS, "/metrics")?;
            }
            anyhow::Ok(())
        });
        let agent = agent();
        let mut due = Instant::now();
        let mut turn = 0_u32;
        while Instant::now() < end {
            let number = turn.wrapping_mul(7_919) % targets;
            let (what, path) = match turn % 6 {
                0 => ("/", "/".to_owned()),
                1 => ("/?q=…", format!("/?q=server-{}", number % 1_000)),
                2 => ("/server/…", format!("/server/server-{number}")),
                3 => ("/api/v1/servers", "/api/v1/servers".to_owned()),
                4 => (
                    "/?sort=name&page=…",
                    format!("/?sort=name&page={}", number / 100 + 1),
                ),
                _ => (
                    "/api/v1/servers/…",
                    format!("/api/v1/servers/server-{number}"),
                ),
            };
            ask(&agent, what, &path)?;
            turn += 1;
            due += Duration::from_secs(1) / REQUESTS;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        scrape.join().expect("no panic")
    })?;
    Ok(times.into_inner().expect("no panic"))
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(30)))
        .build()
        .into()
}

fn ureq_text(agent: &ureq::Agent, url: &str) -> anyhow::Result<String> {
    let mut answer = agent.get(url).call().with_context(|| url.to_owned())?;
    Ok(answer
        .body_mut()
        .with_config()
        .limit(64 << 20)
        .read_to_string()?)
}

/// Counts of the history.
#[derive(Default)]
struct Samples {
    count: u64,
    answered: u64,
    servers: usize,
    expected: u64,
    missing: u64,
}

impl Samples {
    fn report(&self, targets: u32) {
        println!(
            "  {} samples in the history, {:.1} % of them answered; {} expected between start and end",
            self.count,
            self.answered as f64 * 100.0 / self.count.max(1) as f64,
            self.expected
        );
        at_most(
            "intervals without a sample in the history",
            self.missing as f64,
            0.0,
            "",
        );
        at_least(
            "servers with samples, as a share",
            self.servers as f64 / f64::from(targets),
            1.0,
            "",
        );
    }

    /// Counts all samples in an export. Each server must have one for each of its times between the
    /// two given ones.
    fn read(
        hailer: &Path,
        folder: &Path,
        from: i64,
        to: i64,
        targets: u32,
    ) -> anyhow::Result<Self> {
        let file = folder.join("samples.csv");
        let mut export = Command::new(hailer);
        export
            .args(["monitor", "export", "--table", "samples", "--history"])
            .arg(folder.join("history.db"));
        let status = export
            .arg("--output")
            .arg(&file)
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "the export failed");
        let mut lines = BufReader::new(File::open(&file)?).lines();
        let header = lines.next().context("a header")??;
        let column = |name: &str| {
            header
                .split(',')
                .position(|column| column == name)
                .context(name.to_owned())
        };
        let server = column("server")?;
        let at = column("at_ms")?;
        let answered = column("is_answered")?;
        let mut samples = Self::default();
        // By name: the phase of the server, and the number of its samples in the time between.
        let mut seen: HashMap<String, (i64, u64)> = HashMap::new();
        for line in lines {
            let line = line?;
            let cells: Vec<&str> = line.split(',').collect();
            let number = |cell: usize| cells.get(cell).and_then(|cell| cell.parse::<i64>().ok());
            let (Some(server), Some(at)) = (cells.get(server), number(at)) else {
                bail!("line {line:?}")
            };
            samples.count += 1;
            samples.answered += u64::from(matches!(cells.get(answered), Some(&("true" | "1"))));
            let (phase, within) = seen
                .entry((*server).to_owned())
                .or_insert((at.rem_euclid(INTERVAL), 0));
            ensure!(
                *phase == at.rem_euclid(INTERVAL),
                "server {server} has a sample at {at}, which is not its time"
            );
            *within += u64::from(from < at && at <= to);
        }
        samples.servers = seen.len();
        for (phase, within) in seen.values() {
            let times = (to - phase).div_euclid(INTERVAL) - (from - phase).div_euclid(INTERVAL);
            let times = u64::try_from(times).unwrap_or(0);
            samples.expected += times;
            samples.missing += times.saturating_sub(*within);
        }
        let unseen = u64::from(targets).saturating_sub(samples.servers as u64);
        samples.missing += unseen * u64::try_from((to - from) / INTERVAL).unwrap_or(0);
        Ok(samples)
    }
}

/// A child process that prints a line when it is ready. Killed when dropped.
pub(crate) struct Process {
    child: Child,
    line: String,
}

impl Process {
    /// Starts the process and waits for its first line.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.stdout(Stdio::piped()).spawn()?;
        let mut process = Self {
            child,
            line: String::new(),
        };
        let mut out = BufReader::new(process.child.stdout.take().context("a pipe")?);
        out.read_line(&mut process.line)?;
        process.line.truncate(process.line.trim_end().len());
        ensure!(!process.line.is_empty(), "it did not start");
        Ok(process)
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the process as Ctrl-C does, and waits until it has ended.
    fn interrupt(mut self) -> anyhow::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        ensure!(self.child.wait()?.success(), "it ended badly");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Folder that is removed when dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Creates the folder.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let path =
            std::env::temp_dir().join(format!("hailer-bench-monitor-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

fn resident(pid: u32) -> anyhow::Result<f64> {
    Ok(host::resident(pid).context("its memory")? as f64 / 1_024.0)
}

fn percentiles(times: &mut [f64]) -> [f64; 3] {
    times.sort_by(f64::total_cmp);
    let of = |share: f64| {
        times
            .get(((times.len() as f64 * share).ceil() as usize).max(1) - 1)
            .copied()
    };
    [of(0.5), of(0.99), of(1.0)].map(|time| time.unwrap_or(f64::NAN))
}
