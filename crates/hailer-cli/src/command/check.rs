//! `hailer check`: tests whether a server or a client conforms to its protocol.
//!
//! In: arguments; replies or requests of the tested program. Out: findings as text, JSON, JUnit or
//! annotations.
//!
//! May import: `crate::args`, `crate::command::stop`, `crate::exit`, `crate::print`,
//! `crate::service`, `hailer`.

use super::stop::StopRequest;
use crate::args::Check;
use crate::exit::{Exit, as_known, usage};
use crate::print::check as print;
use crate::print::stderr;
use crate::service::stopped;
use anyhow::Context;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use hailer::check::client::{self, ClientRequirement, Judgement, Observer, SeenConnection};
use hailer::check::output::{self, CheckResults, CheckedServer};
use hailer::check::{self, CheckConfig, Cost, Event, SocketWire, Suite};
use hailer::client::Host;
use hailer::proto::protocol::PAUSE_MS;
use hailer::proto::{ConnectionStep, Epoch, Protocol, Transport};
use hailer::support::accept::wait_after;
use hailer::{Client, Target};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Longest connection of a client under test, and most bytes that are read of it.
const MAX_CONNECTION: Duration = Duration::from_secs(10);
const MAX_REQUEST_BYTES: usize = 1 << 16;
/// Number of pieces of each reply on a connection, and the pause after each.
const REPLY_PIECES: usize = 3;
const PIECE_PAUSE: Duration = Duration::from_millis(40);

/// Longest time after Ctrl-C in which requests that have arrived are still answered.
const MAX_DRAIN: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: Check) -> anyhow::Result<Exit> {
    if args.list {
        return list(&args);
    }
    if args.client {
        return test_client(&args).await;
    }
    let Some(text) = &args.target else {
        usage!("name the server to test");
    };
    let target = args.targets.target(text)?;
    let Some(protocol) = target.protocol else {
        usage!(
            "{text}: name the protocol, as in {}://{text}; known are {}",
            check::SUITES[0].protocol,
            known()
        );
    };
    let suite = suite_of(protocol)?;
    for id in &args.only {
        if !suite
            .requirements
            .iter()
            .any(|requirement| requirement.is_of(id))
        {
            let full = format!("{}/{id}", suite.protocol);
            let mut all = suite.requirements.iter();
            if all.any(|requirement| requirement.is_of(&full)) {
                usage!("--only {id}: no such requirement; did you mean {full}?");
            }
            usage!("--only {id}: no such requirement; `hailer check --list` shows them");
        }
    }
    test_server(&args, text, &target, protocol, suite).await
}

/// Returns the suite of a protocol.
fn suite_of(protocol: &dyn Protocol) -> anyhow::Result<&'static Suite> {
    match check::suite(protocol) {
        Some(suite) => Ok(suite),
        None => usage!(
            "{} has no requirements yet; protocols with requirements are {}",
            protocol.info().id,
            known()
        ),
    }
}

/// Names the protocols that have requirements.
fn known() -> String {
    let ids: Vec<&str> = check::SUITES.iter().map(|suite| suite.protocol).collect();
    ids.join(", ")
}

fn list(args: &Check) -> anyhow::Result<Exit> {
    let suites = match args.targets.protocol {
        Some(protocol) => vec![suite_of(protocol)?],
        None => check::SUITES.to_vec(),
    };
    let mut out = crate::print::stdout();
    let shown = if args.json {
        print::list_json(&mut out, &suites)
    } else {
        output::list(&mut out, &suites).map_err(Into::into)
    };
    as_known(shown, Exit::Success)
}

async fn test_server(
    args: &Check,
    text: &str,
    target: &Target,
    protocol: &'static dyn Protocol,
    suite: &'static Suite,
) -> anyhow::Result<Exit> {
    let client = Client::new(args.targets.config(0, None));
    let addresses = client.candidates(target).await?.addresses;
    let Some(&address) = addresses.first() else {
        anyhow::bail!("{text} has no address");
    };
    let mut config = CheckConfig::default();
    config.timeout = args.targets.timeout;
    config.is_quick = args.quick;
    config.has_load = args.load;
    config.is_forced = args.force;
    config.auth_token = args.auth.token()?.map(Into::into);
    config.has_bytes = args.raw || args.json;
    config.only.clone_from(&args.only);
    config.host = match &target.host {
        Host::Name(name) => name.clone(),
        Host::Address(ip) => ip.to_string(),
    };
    config.port = address.port();
    config.is_loopback = address.ip().is_loopback();
    config.seed = u64::from_le_bytes(hailer::support::random_secret()[..8].try_into()?);
    let server = CheckedServer {
        target: text,
        protocol: protocol.info(),
        address,
    };
    let junit = match &args.junit {
        Some(file) => match File::create(file) {
            Ok(opened) => Some((file, opened)),
            Err(error) => usage!("--junit {}: {error}", file.display()),
        },
        None => None,
    };
    announce(args, &server, suite);
    let stop = StopRequest::watch(None)?;
    let mut out = crate::print::stdout();
    let bar = progress();
    let mut shown: std::io::Result<()> = Ok(());
    let mut wire = SocketWire::new(address, protocol.info().transport);
    let findings = check::run(
        suite,
        protocol,
        &mut wire,
        &config,
        &mut |event| match event {
            Event::Started(requirement) => bar.set_message(requirement.title),
            Event::Waiting { left, reason } => {
                bar.set_message(format!(
                    "waiting for {reason}, at most {} s",
                    left.as_secs()
                ));
            }
            Event::Finished(finding) if !args.json && shown.is_ok() => {
                shown = bar.suspend(|| {
                    output::finding(&mut out, finding)?;
                    if args.raw && !finding.is_of_no_server() {
                        print::datagrams(&mut out, finding, &server)?;
                    }
                    Ok(())
                });
            }
            Event::Finished(_) => {}
        },
        &|| stop.cause().is_some(),
    );
    bar.finish_and_clear();
    let results = CheckResults {
        server: &server,
        findings: &findings,
        not_run: suite.selected(&args.only).skip(findings.len()).collect(),
        fail_on: args.fail_on.severity(),
    };
    if let Some((file, mut opened)) = junit {
        let written = opened.write_all(output::junit(&results).as_bytes());
        written.with_context(|| format!("--junit {}", file.display()))?;
    }
    let exit = if stop.cause().is_some() {
        Exit::Stopped
    } else if results.counted().next().is_some() {
        Exit::Partial
    } else {
        Exit::Success
    };
    let shown = shown.map_err(Into::into).and_then(|()| {
        if args.json {
            print::json(&mut out, &results)?;
        } else {
            output::summary(&mut out, &results, args.raw)?;
        }
        if args.github {
            output::github(&mut out, &results)?;
        }
        Ok(out.flush()?)
    });
    as_known(shown, exit)
}

/// Responds to clients, and reports what they do wrong.
async fn test_client(args: &Check) -> anyhow::Result<Exit> {
    let Some(protocol) = args.targets.protocol else {
        usage!("--client needs --protocol");
    };
    suite_of(protocol)?;
    let info = protocol.info();
    let secret = hailer::support::random_secret();
    let Some(mut observer) = Observer::new(protocol, secret) else {
        usage!("{} has no requirements for clients yet", info.id);
    };
    let listen = args
        .listen
        .unwrap_or_else(|| (Ipv4Addr::LOCALHOST, info.port).into());
    let listener = ClientListener::bind(info.transport, listen)
        .await
        .with_context(|| format!("--listen {listen}"))?;
    let address = listener.address()?;
    let name = client::shown_status(protocol).title().unwrap_or_default();
    let end = match args.duration {
        Some(time) => format!("for {time:?}, or until Ctrl-C"),
        None => "until Ctrl-C".into(),
    };
    stderr!(
        "Responds to {} on {address} {end}. Query it with the client under test, at least three times.\n\
         Replies are lost, forged or sent in pieces on purpose. The client should show the name {name:?}, and 120 players if the protocol lists them.\n",
        info.id
    );
    let started = Instant::now();
    let end = TestEnd::after(args.duration);
    listener.respond(&mut observer, started, &end).await;
    let judgements = observer.judgements(started.elapsed());
    let mut out = crate::print::stdout();
    let shown = if args.json {
        print::clients_json(
            &mut out,
            info,
            address,
            observer.request_count(),
            &judgements,
        )
    } else {
        output::clients(&mut out, info, observer.request_count(), &judgements).map_err(Into::into)
    };
    let is_bad = |(requirement, judgement): &(&ClientRequirement, Judgement)| {
        let fail_on = args.fail_on.severity();
        judgement.missed > 0 && fail_on.is_some_and(|least| requirement.severity >= least)
    };
    let exit = if observer.request_count() == 0 || judgements.iter().any(is_bad) {
        Exit::Partial
    } else {
        Exit::Success
    };
    as_known(shown, exit)
}

/// End of a test of clients.
struct TestEnd {
    /// Ctrl-C, SIGTERM or the end of `--for`.
    requested: Shared<BoxFuture<'static, ()>>,
    /// [`MAX_DRAIN`] after that.
    limit: Shared<BoxFuture<'static, ()>>,
}

impl TestEnd {
    fn after(time: Option<Duration>) -> Self {
        let requested = stopped(time).boxed().shared();
        let drained = requested.clone().then(|()| tokio::time::sleep(MAX_DRAIN));
        Self {
            requested,
            limit: drained.boxed().shared(),
        }
    }

    /// Waits for an event. Returns `None` if the end was requested and nothing has arrived, or at the
    /// limit.
    async fn before<T>(&self, event: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            event = self.before_limit(event) => event,
            () = self.requested.clone() => None,
        }
    }

    /// Waits for an event. Returns `None` at the limit.
    async fn before_limit<T>(&self, event: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.limit.clone() => None,
            event = event => Some(event),
        }
    }
}

/// Where clients are tested.
enum ClientListener {
    Datagram(UdpSocket),
    Stream(TcpListener),
}

impl ClientListener {
    async fn bind(transport: Transport, at: SocketAddr) -> std::io::Result<Self> {
        Ok(if transport == Transport::Datagram {
            Self::Datagram(UdpSocket::bind(at).await?)
        } else {
            Self::Stream(TcpListener::bind(at).await?)
        })
    }

    fn address(&self) -> std::io::Result<SocketAddr> {
        match self {
            Self::Datagram(socket) => socket.local_addr(),
            Self::Stream(listener) => listener.local_addr(),
        }
    }

    /// Responds until the end. Requests that have arrived by then are answered.
    async fn respond(&self, observer: &mut Observer, started: Instant, end: &TestEnd) {
        match self {
            Self::Datagram(socket) => respond_to_datagrams(socket, observer, started, end).await,
            // One connection after the other: the clients under test are few.
            Self::Stream(listener) => {
                while let Some(accepted) = end.before(listener.accept()).await {
                    let (stream, from) = match accepted {
                        Ok(accepted) => accepted,
                        Err(error) => {
                            wait_after(&error).await;
                            continue;
                        }
                    };
                    let mut served = ServedConnection::default();
                    let serve = served.serve(stream, from, observer, end);
                    let serve = tokio::time::timeout(MAX_CONNECTION, end.before_limit(serve));
                    let is_at_limit = serve.await == Ok(None);
                    // The client is not to blame for a request that the end has cut off.
                    if served.is_answered || !is_at_limit {
                        observer.connection_ended(started.elapsed(), from, served.seen);
                    }
                }
            }
        }
    }
}

fn epoch() -> Epoch {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Epoch::at(now.unwrap_or_default().as_secs())
}

async fn respond_to_datagrams(
    socket: &UdpSocket,
    observer: &mut Observer,
    started: Instant,
    end: &TestEnd,
) {
    let mut buffer = vec![0; 65_535];
    while let Some(received) = end.before(socket.recv_from(&mut buffer)).await {
        // A client that has closed its port is no failure.
        let Ok((length, from)) = received else {
            continue;
        };
        for reply in observer.datagram(started.elapsed(), epoch(), from, &buffer[..length]) {
            let _ = socket.send_to(&reply, from).await;
        }
    }
}

/// A connection of a client, so far.
#[derive(Default)]
struct ServedConnection {
    seen: SeenConnection,
    /// Whether a whole reply was sent.
    is_answered: bool,
}

impl ServedConnection {
    /// Serves a connection to its end. After a reply, the end of the test ends it too. Each reply is
    /// sent in pieces.
    async fn serve(
        &mut self,
        mut stream: TcpStream,
        from: SocketAddr,
        observer: &Observer,
        end: &TestEnd,
    ) {
        self.seen.port = stream.local_addr().map_or(0, |address| address.port());
        let _ = stream.set_nodelay(true);
        let Some(mut connection) = observer.connection(from) else {
            return;
        };
        let mut unread = Vec::new();
        let mut buffer = [0; 4_096];
        loop {
            let mut out = Vec::new();
            let pause = Duration::from_millis(PAUSE_MS);
            let read = tokio::time::timeout(pause, stream.read(&mut buffer));
            let read = if self.is_answered {
                end.before(read).await
            } else {
                Some(read.await)
            };
            let received = match read {
                None | Some(Ok(Ok(0) | Err(_))) => break,
                Some(Ok(Ok(length))) => {
                    let bytes = &buffer[..length];
                    unread.extend_from_slice(bytes);
                    self.seen.bytes.extend_from_slice(bytes);
                    connection.receive(epoch(), &unread, &mut out)
                }
                Some(Err(_)) => connection.pause(&unread, &mut out),
            };
            unread.drain(..received.consumed.min(unread.len()));
            for piece in out.chunks(out.len().div_ceil(REPLY_PIECES).max(1)) {
                if stream.write_all(piece).await.is_err() {
                    self.seen.is_cut = true;
                    return;
                }
                tokio::time::sleep(PIECE_PAUSE).await;
            }
            self.is_answered |= !out.is_empty();
            if received.step != ConnectionStep::Wait || self.seen.bytes.len() > MAX_REQUEST_BYTES {
                break;
            }
        }
    }
}

/// Announces the datagrams of the check before the first one is sent.
fn announce(args: &Check, server: &CheckedServer<'_>, suite: &Suite) {
    let count = suite.selected(&args.only).count();
    let per = if server.protocol.transport == Transport::Datagram {
        "datagram"
    } else {
        "connection"
    };
    let longest: u64 = suite
        .selected(&args.only)
        .map(|requirement| match requirement.cost {
            Cost::Wait(seconds) if !args.quick => seconds,
            _ => 0,
        })
        .sum();
    let mut text = format!(
        "Tests {count} requirements of {} at {}, and sends nothing to other addresses. At most one {per} each {} ms.",
        server.protocol.id,
        server.address,
        suite.interval.as_millis()
    );
    if longest > 0 {
        text += &format!(
            " Waits up to {longest} s for tokens and connections to expire; --quick skips that."
        );
    }
    let mut selected = suite.selected(&args.only);
    if args.load && selected.any(|requirement| requirement.cost == Cost::Load) {
        text += " At the end, 50 requests/s for 5 s.";
    }
    stderr!("{text}\nNever sent: {}\n", suite.never_sent);
}

/// Returns a line on standard error with the current step, if that is a terminal.
pub(super) fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
