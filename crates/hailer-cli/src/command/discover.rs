//! `hailer discover`: finds servers on the local network and queries them.

use super::check::progress;
use super::named_game;
use super::service::stopped;
use crate::args::Discover;
use crate::exit::{Exit, as_known, usage};
use crate::print::fields::Record;
use crate::print::{count, json, line, lines, stderr, table};
use futures_util::{Stream, StreamExt, stream};
use hailer::client::Answers;
use hailer::discover::{
    FoundServer, Interface, SearchConfig, SearchError, Sightings, interfaces, search,
};
use hailer::report::AnswerLine;
use hailer::{Client, ClientConfig, Error};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, SystemTime};
use tokio::time::sleep;

/// Maximum number of concurrent queries.
const CONCURRENCY: usize = 64;
/// Pause between two searches of `--watch`, so that broadcasts take little of the network.
const WATCH_PAUSE: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: Discover) -> anyhow::Result<Exit> {
    let config = config(&args)?;
    let client = Client::new(ClientConfig::default());
    let mut found = 0;
    let shown = if args.watch {
        watch(&args, &config, &client, &mut found).await
    } else {
        once(&args, &config, &client, &mut found).await
    };
    let exit = if found > 0 {
        Exit::Success
    } else {
        Exit::Partial
    };
    as_known(shown, exit)
}

/// Searches once, and prints all servers at the end.
async fn once(
    args: &Discover,
    config: &SearchConfig,
    client: &Client,
    found: &mut usize,
) -> anyhow::Result<()> {
    let mut stop = pin!(stopped(None));
    let bar = progress();
    bar.set_message(format!(
        "searching {} for {} s",
        interface_names(config),
        config.length.as_secs_f64()
    ));
    let sightings = tokio::select! {
        () = &mut stop => return Ok(()),
        sightings = search(config) => sightings,
    };
    bar.finish_and_clear();
    let sightings = checked(sightings)?;
    report_problems(&sightings);
    let rows = tokio::select! {
        () = &mut stop => return Ok(()),
        rows = queries(client, sightings.servers(), config).buffered(CONCURRENCY).collect() => rows,
    };
    let rows: Vec<DiscoverRow> = rows;
    *found = rows.len();
    if rows.is_empty() {
        stderr!("{}", nothing(config, &sightings));
    }
    let mut out = anstream::stdout();
    print(&mut out, &rows, args.json)?;
    Ok(out.flush()?)
}

/// Repeats the search until stopped. Prints each server once, when it has answered or failed to.
async fn watch(
    args: &Discover,
    config: &SearchConfig,
    client: &Client,
    found: &mut usize,
) -> anyhow::Result<()> {
    let mut stop = pin!(stopped(args.r#for));
    let mut known: BTreeSet<SocketAddr> = BTreeSet::new();
    let mut is_first = true;
    loop {
        let sightings = tokio::select! {
            () = &mut stop => return Ok(()),
            sightings = search(config) => sightings,
        };
        let sightings = checked(sightings)?;
        if is_first {
            report_problems(&sightings);
            is_first = false;
        }
        let mut new = sightings.servers();
        let room = config.max_servers.saturating_sub(known.len());
        new.retain(|server| !known.contains(&server.address));
        new.truncate(room);
        known.extend(new.iter().map(|server| server.address));
        let mut results = pin!(queries(client, new, config).buffer_unordered(CONCURRENCY));
        loop {
            let row = tokio::select! {
                () = &mut stop => return Ok(()),
                row = results.next() => row,
            };
            let Some(row) = row else { break };
            print_line(row, args.json, *found == 0)?;
            *found += 1;
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
    Ok(config)
}

/// Returns the named interfaces, or else all with a private address.
fn chosen_interfaces(names: &[String]) -> anyhow::Result<Vec<Interface>> {
    let all = match interfaces() {
        Ok(all) => all,
        Err(error) => usage!("the system does not list its network interfaces: {error}"),
    };
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

/// Returns the sightings, or the reason why there can be none.
fn checked(sightings: Result<Sightings, SearchError>) -> anyhow::Result<Sightings> {
    match sightings {
        Ok(sightings) => Ok(sightings),
        Err(error @ SearchError::NoDiscovery) => usage!("{error}"),
        Err(error) => Err(error.into()),
    }
}

fn report_problems(sightings: &Sightings) {
    for problem in &sightings.problems {
        stderr!("\x1b[1;33mwarning:\x1b[0m {problem}");
    }
    if sightings.foreign > 0 {
        stderr!(
            "{} from other networks ignored",
            count(sightings.foreign, "datagram")
        );
    }
}

/// Explains an empty list.
fn nothing(config: &SearchConfig, sightings: &Sightings) -> String {
    let hint = if sightings.problems.is_empty() {
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

/// Queries servers.
fn queries<'a>(
    client: &'a Client,
    servers: Vec<FoundServer>,
    config: &'a SearchConfig,
) -> impl Stream<Item = impl Future<Output = DiscoverRow> + 'a> + 'a {
    stream::iter(servers).map(move |server| async move {
        let result = client.query_found(&server).await;
        (target(&server, &result, config), result)
    })
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

fn print(out: &mut impl Write, rows: &[DiscoverRow], is_json: bool) -> anyhow::Result<()> {
    if is_json {
        for row in rows {
            writeln!(out, "{}", json_line(row)?)?;
        }
    } else if !rows.is_empty() {
        table::servers(out, rows, false)?;
    }
    Ok(())
}

/// Prints one result, after the names of the columns if it is the first.
fn print_line(row: DiscoverRow, is_json: bool, is_first: bool) -> anyhow::Result<()> {
    let mut text = Vec::new();
    if is_json {
        writeln!(text, "{}", json_line(&row)?)?;
    } else {
        if is_first {
            lines::header(&mut text);
        }
        let (target, result) = row;
        let record = Record {
            target: &target,
            at: SystemTime::now(),
            result: &result.map(Answers::into_best),
        };
        lines::record(&mut text, &record, false);
    }
    let mut out = anstream::stdout();
    out.write_all(&text)?;
    Ok(out.flush()?)
}

fn json_line((target, result): &DiscoverRow) -> anyhow::Result<String> {
    Ok(match result {
        Ok(answers) => json::line(&AnswerLine::answered(target, answers.best()))?,
        Err(error) => json::line(&AnswerLine::failed(target, error))?,
    })
}
