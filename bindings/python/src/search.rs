//! Servers on the local network.

use crate::options::{QueryOptions, invalid, protocol, seconds};
use crate::results::{Record, Sighting};
use crate::stream::{self, Producer, SLICE, Stream};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hailer::client::ClientConfig;
use hailer::discover::{FoundServer, Interface, Search, SearchConfig, interfaces};
use hailer::support::catalog;
use hailer::{Answer, Client, Error};
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::time::SystemTime;
use tokio::time::sleep;

/// Most concurrent queries.
const CONCURRENCY: usize = 256;

/// Options of a search.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SearchOptions {
    interfaces: Vec<String>,
    protocols: Vec<String>,
    game: Option<String>,
    ports: Vec<u16>,
    duration: f64,
}

/// Starts a search for servers of the local network, and queries them.
#[pyfunction]
pub(crate) fn start_discover(
    options: QueryOptions,
    of_search: SearchOptions,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Stream> {
    let client = options.client()?;
    let config = of_search.config()?;
    stream::spawn(
        "hailer-discover",
        None,
        Default::default(),
        true,
        on_progress,
        move |producer| {
            producer.run(async |producer| search(producer, client, &config).await);
        },
    )
}

impl SearchOptions {
    fn config(&self) -> PyResult<SearchConfig> {
        let mut config = SearchConfig::new(self.chosen_interfaces()?);
        config.protocols = self
            .protocols
            .iter()
            .map(|id| protocol(id))
            .collect::<PyResult<_>>()?;
        config.game = match &self.game {
            Some(id) => Some(
                catalog::game(id)
                    .ok_or_else(|| invalid("game", format!("no game has the id {id:?}")))?,
            ),
            None => None,
        };
        config.ports.clone_from(&self.ports);
        config.length = seconds("duration", self.duration)?;
        Ok(config)
    }

    /// Returns the named interfaces, or else all with a private address.
    fn chosen_interfaces(&self) -> PyResult<Vec<Interface>> {
        let all = interfaces()?;
        let has_name = |interface: &Interface, name: &str| {
            interface.name == name || interface.address.to_string() == name
        };
        if let Some(name) = self
            .interfaces
            .iter()
            .find(|name| !all.iter().any(|it| has_name(it, name)))
        {
            return Err(invalid(
                "interfaces",
                format!("no interface with IPv4 broadcasts is called {name:?}"),
            ));
        }
        let is_chosen = |interface: &Interface| match &*self.interfaces {
            [] => interface.is_private(),
            names => names.iter().any(|name| has_name(interface, name)),
        };
        let chosen: Vec<Interface> = all.into_iter().filter(is_chosen).collect();
        if chosen.is_empty() {
            return Err(invalid(
                "interfaces",
                "no interface has a private IPv4 address: name one",
            ));
        }
        Ok(chosen)
    }
}

async fn search(
    producer: &mut Producer,
    client: ClientConfig,
    config: &SearchConfig,
) -> Result<(), String> {
    let client = Client::new(client);
    let mut search = Search::new(config);
    search.start().map_err(|error| error.to_string())?;
    let mut waiting = VecDeque::new();
    let mut running = FuturesUnordered::new();
    let mut is_searching = true;
    while (is_searching || !running.is_empty()) && !producer.is_stopped() {
        tokio::select! {
            server = search.next(), if is_searching => match server.map_err(|error| error.to_string())? {
                Some(server) => waiting.push_back(server),
                None => is_searching = false,
            },
            Some((server, outcome)) = running.next(), if !running.is_empty() => add(producer, &server, outcome),
            () = sleep(SLICE) => {}
        }
        while running.len() < CONCURRENCY
            && let Some(server) = waiting.pop_front()
        {
            running.push(query(&client, server));
        }
    }
    Ok(())
}

async fn query(client: &Client, server: FoundServer) -> (FoundServer, Result<Answer, Error>) {
    let result = client.query_found(&server).await;
    (server, result.map(|answers| answers.into_best()))
}

fn add(producer: &mut Producer, server: &FoundServer, outcome: Result<Answer, Error>) {
    producer.report(|counts, _| {
        counts.probes += 1;
        stream::count(counts, &outcome);
    });
    let protocols: Vec<&str> = server
        .protocols
        .iter()
        .map(|protocol| protocol.info().id)
        .collect();
    let scheme = match &outcome {
        Ok(answer) => answer.transcript.protocol.id,
        Err(_) => protocols.first().copied().unwrap_or_default(),
    };
    producer.push(Record {
        name: Some(format!("{scheme}://{}", server.address).into()),
        at: SystemTime::now(),
        outcome,
        sighting: Some(Box::new(Sighting {
            interface: server.interface.clone(),
            protocols,
        })),
    });
    producer.flush();
}
