//! `hailer discover`: finds servers on the local network and queries them.

use super::check::progress;
use super::named_game;
use crate::args::Discover;
use crate::exit::{Exit, OrUsage, as_known, usage};
use crate::print::fields::Record;
use crate::print::{json, line, server_lines, stderr};
use crate::service::stopped;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hailer::client::{Answers, ClientConfig};
use hailer::discover::{
    FoundServer, Interface, Search, SearchConfig, SearchError, SearchReport, interfaces,
};
use hailer::proto::wire::counted;
use hailer::support::report::AnswerLine;
use hailer::{Client, Error};
use indicatif::ProgressBar;
use std::collections::VecDeque;
use std::io::Write;
use std::pin::pin;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep, sleep_until};

/// Maximum number of concurrent queries.
const CONCURRENCY: usize = 256;
/// Time for a query.
const QUERY_TIME: Duration = Duration::from_millis(2_500);
/// Time for all queries after a search.
const ALL_QUERIES_TIME: Duration = Duration::from_secs(3);
/// Pause between two searches of `--watch`, so that broadcasts take little of the network.
const WATCH_PAUSE: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: Discover) -> anyhow::Result<Exit> {
    let config = config(&args)?;
    let mut client = ClientConfig::default();
    client.limits.deadline = QUERY_TIME;
    let client = Client::new(client);
    let mut found = 0;
    let shown = discover(&args, &config, &client, &mut found).await;
    let exit = if found > 0 {
        Exit::Success
    } else {
        Exit::Partial
    };
    as_known(shown, exit)
}

/// Searches once, or with `--watch` until stopped. Prints each server once, when it has answered or
/// failed to.
async fn discover(
    args: &Discover,
    config: &SearchConfig,
    client: &Client,
    found: &mut usize,
) -> anyhow::Result<()> {
    let mut stop = pin!(stopped(args.r#for));
    let mut search = Search::new(config);
    let mut is_first = true;
    loop {
        let bar = if is_first {
            progress()
        } else {
            ProgressBar::hidden()
        };
        bar.set_message(format!(
            "searching {} for {} s",
            interface_names(config),
            config.length.as_secs_f64()
        ));
        checked(search.start())?;
        let end = Instant::now() + config.length + ALL_QUERIES_TIME;
        let mut waiting = VecDeque::new();
        let mut running = FuturesUnordered::new();
        let mut is_searching = true;
        while is_searching || !running.is_empty() {
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = sleep_until(end) => break,
                server = search.next(), if is_searching => match checked(server)? {
                    Some(server) => waiting.push_back(server),
                    None => is_searching = false,
                },
                Some(row) = running.next(), if !running.is_empty() => {
                    bar.suspend(|| print(row, args.json, *found == 0))?;
                    *found += 1;
                }
            }
            while running.len() < CONCURRENCY
                && let Some(server) = waiting.pop_front()
            {
                running.push(query(client, server, config));
            }
        }
        bar.finish_and_clear();
        let late = running.len() + waiting.len();
        if is_first {
            report(&search.report(), config, late);
        }
        if is_first && *found == 0 && late == 0 {
            stderr!("{}", nothing(config, &search.report()));
        }
        is_first = false;
        if !args.watch {
            return Ok(());
        }
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = sleep(WATCH_PAUSE) => {}
        }
    }
}

/// Builds the library's configuration.
fn config(args: &Discover) -> anyhow::Result<SearchConfig> {
    let mut config = SearchConfig::new(chosen_interfaces(&args.interface)?);
    config.protocols.clone_from(&args.protocol);
    config.game = match &args.game {
        Some(id) => Some(named_game(id)?),
        None => None,
    };
    config.ports.clone_from(&args.port);
    config.length = args.timeout;
    config.max_servers = args.max_servers.into();
    config.max_ports = args.max_ports.into();
    Ok(config)
}

/// Returns the named interfaces, or else all with a private address.
fn chosen_interfaces(names: &[String]) -> anyhow::Result<Vec<Interface>> {
    let all = interfaces().or_usage_in("the system does not list its network interfaces")?;
    let shown = |all: &[Interface]| {
        let names: Vec<String> = all
            .iter()
            .map(|interface| format!("{} ({})", interface.name, interface.address))
            .collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    if names.is_empty() {
        let private: Vec<Interface> = all
            .iter()
            .filter(|interface| interface.is_private())
            .cloned()
            .collect();
        if private.is_empty() {
            usage!(
                "no interface has a private IPv4 address; name one with --interface: {}",
                shown(&all)
            );
        }
        return Ok(private);
    }
    let mut chosen: Vec<Interface> = Vec::new();
    for name in names {
        let named = |interface: &&Interface| {
            interface.name == *name || interface.address.to_string() == *name
        };
        let mut matching: Vec<Interface> = all.iter().filter(named).cloned().collect();
        if matching.is_empty() {
            usage!(
                "--interface {name}: no such interface with IPv4 broadcasts; there are: {}",
                shown(&all)
            );
        }
        matching.retain(|interface| !chosen.contains(interface));
        chosen.extend(matching);
    }
    Ok(chosen)
}

/// Returns the result, or the reason why there can be none.
fn checked<T>(result: Result<T, SearchError>) -> anyhow::Result<T> {
    match result {
        Ok(value) => Ok(value),
        Err(error @ SearchError::NoDiscovery) => usage!("{error}"),
        Err(error) => Err(error.into()),
    }
}

/// Prints what may be missing. `late`: servers whose queries did not end in time.
fn report(report: &SearchReport, config: &SearchConfig, late: usize) {
    let warn = |text: String| stderr!("\x1b[1;33mwarning:\x1b[0m {text}");
    for problem in &report.problems {
        warn(problem.clone());
    }
    if let Some(address) = report.crowded {
        let ports = counted(config.max_ports, "server");
        warn(format!(
            "{address} has more than {ports}: the others are left out; see --max-ports"
        ));
    }
    if report.is_full {
        let servers = counted(config.max_servers, "server");
        warn(format!(
            "there are more than {servers}: the others are left out; see --max-servers"
        ));
    }
    if late > 0 {
        warn(format!(
            "{} did not answer before the end of the search",
            counted(late, "server")
        ));
    }
    if report.foreign > 0 {
        stderr!(
            "{} from other networks ignored",
            counted(report.foreign, "datagram")
        );
    }
}

/// Explains an empty list.
fn nothing(config: &SearchConfig, report: &SearchReport) -> String {
    let hint = if report.problems.is_empty() {
        "; servers that do not reply to broadcasts can be queried by address"
    } else {
        ""
    };
    format!("no server found on {}{hint}", interface_names(config))
}

fn interface_names(config: &SearchConfig) -> String {
    let names: Vec<&str> = config
        .interfaces
        .iter()
        .map(|interface| &*interface.name)
        .collect();
    line(&names.join(", "), 200)
}

/// A target and its result.
type DiscoverRow = (String, Result<Answers, Error>);

/// Queries a server.
async fn query(client: &Client, server: FoundServer, config: &SearchConfig) -> DiscoverRow {
    let result = client.query_found(&server).await;
    (target(&server, &result, config), result)
}

/// Returns the target with which the server can be queried again.
fn target(server: &FoundServer, result: &Result<Answers, Error>, config: &SearchConfig) -> String {
    let game = config.game.or(match result {
        Ok(answers) => answers.game(),
        Err(_) => None,
    });
    let answered = match result {
        Ok(answers) => answers.best().transcript.protocol.id,
        Err(_) => server.protocols[0].info().id,
    };
    let scheme = game.map_or(answered, |game| game.id);
    format!("{scheme}://{}", server.address)
}

/// Prints one result, after the names of the columns if it is the first.
fn print(row: DiscoverRow, is_json: bool, is_first: bool) -> anyhow::Result<()> {
    let mut text = Vec::new();
    if is_json {
        writeln!(text, "{}", json_line(&row)?)?;
    } else {
        if is_first {
            server_lines::header(&mut text);
        }
        let (target, result) = row;
        let record = Record {
            target: &target,
            at: SystemTime::now(),
            result: &result.map(Answers::into_best),
        };
        server_lines::record(&mut text, &record, false);
    }
    let mut out = crate::print::stdout();
    out.write_all(&text)?;
    Ok(out.flush()?)
}

fn json_line((target, result): &DiscoverRow) -> anyhow::Result<String> {
    Ok(match result {
        Ok(answers) => json::line(&AnswerLine::answered(target, answers.best()))?,
        Err(error) => json::line(&AnswerLine::failed(target, error))?,
    })
}
