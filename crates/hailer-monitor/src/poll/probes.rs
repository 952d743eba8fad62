//! Probes of due samples: datagrams and connections by the sweep, HTTP by separate tasks.

use super::plan::PlannedProbe;
use super::table::{OpenPoll, PolledServer};
use super::{PollConfig, PollShared};
use crate::lock::lock;
use crate::schedule::DueSample;
use hailer::client::{ClientConfig, Transcript};
use hailer::proto::{Protocol, Transport};
use hailer::sweep::{self, Next, Probe, ProbeSource};
use hailer::{Answer, Client, Error, Target};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Limit of probes over HTTP at a time.
const MAX_OPEN_HTTP: usize = 256;
/// Limit of connections to servers of stream protocols at a time.
const MAX_OPEN_STREAMS: usize = 16_384;
/// Files that connections to servers leave for web clients, the history and others.
const RESERVED_FILES: usize = 1_024;
/// Time after the deadline of a probe over HTTP until its task is dropped.
const DEADLINE_GRACE: Duration = Duration::from_millis(500);

/// Source of targets of the sweep: the due samples.
pub(super) struct DueProbes {
    pub(super) shared: Arc<PollShared>,
    pub(super) open: Arc<Mutex<OpenProbes>>,
    pub(super) http: HttpProbes,
    /// Limit of connections at a time.
    pub(super) max_streams: usize,
    /// Further probes of the last poll.
    pub(super) next: VecDeque<Probe>,
    pub(super) index: u64,
}

/// Probes under way, by index.
#[derive(Default)]
pub(super) struct OpenProbes {
    pub(super) probes: HashMap<u64, OpenProbe>,
    /// How many of them use a connection.
    pub(super) streams: usize,
    /// How many of them use HTTP.
    pub(super) http: usize,
}

/// Results of probes over HTTP that the sink has not taken yet, by index.
pub(super) type HttpResults = Arc<Mutex<Vec<(u64, Result<Answer, Error>)>>>;

/// Starts the probes over HTTP.
pub(super) struct HttpProbes {
    pub(super) client: Arc<Client>,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) results: HttpResults,
}

impl HttpProbes {
    /// Creates an instance inside a tokio runtime, which runs the probes.
    pub(super) fn new(poll: &PollConfig) -> Self {
        let mut config = ClientConfig::default();
        config.ask.clone_from(&poll.sweep.ask);
        config.limits = poll.sweep.limits;
        config.is_strict = poll.sweep.is_strict;
        config.has_datagrams = poll.sweep.has_replies;
        config.source = poll.sweep.source;
        config.name_server = poll.name_server;
        Self {
            client: Arc::new(Client::new(config)),
            runtime: tokio::runtime::Handle::current(),
            results: Arc::default(),
        }
    }

    fn start(
        &self,
        index: u64,
        target: Target,
        protocol: &'static dyn Protocol,
        address: SocketAddr,
    ) {
        let client = self.client.clone();
        let results = self.results.clone();
        self.runtime.spawn(async move {
            let limit = client.config().limits.deadline + DEADLINE_GRACE;
            let query = client.query_at(&target, protocol, address);
            let result = tokio::time::timeout(limit, query).await;
            let result = result.unwrap_or_else(|_| {
                let transcript = Transcript {
                    sent: 1,
                    ..Transcript::new(protocol.info(), address)
                };
                Err(Error::Silence {
                    transcript: transcript.into(),
                    after: limit,
                })
            });
            let mut results = lock(&results);
            results.push((index, result));
        });
    }
}

/// A probe under way.
pub(super) struct OpenProbe {
    pub(super) due: DueSample,
    /// Place in the plan of the server.
    pub(super) place: u8,
    pub(super) transport: Transport,
}

impl OpenProbes {
    fn insert(&mut self, index: u64, probe: OpenProbe) {
        self.streams += usize::from(probe.transport == Transport::Stream);
        self.http += usize::from(probe.transport == Transport::Http);
        self.probes.insert(index, probe);
    }

    pub(super) fn remove(&mut self, index: u64) -> Option<OpenProbe> {
        let probe = self.probes.remove(&index)?;
        self.streams -= usize::from(probe.transport == Transport::Stream);
        self.http -= usize::from(probe.transport == Transport::Http);
        Some(probe)
    }
}

impl DueProbes {
    pub(super) fn new(shared: Arc<PollShared>, http: HttpProbes) -> Self {
        Self {
            shared,
            open: Arc::default(),
            http,
            max_streams: sweep::max_connections()
                .saturating_sub(RESERVED_FILES)
                .clamp(1, MAX_OPEN_STREAMS),
            next: VecDeque::new(),
            index: 0,
        }
    }

    /// Starts a poll, whose probes of the sweep are added to `next`. Returns `false` if there are too
    /// many connections.
    fn start(&mut self, due: DueSample, polled: &mut PolledServer, address: SocketAddr) -> bool {
        let probes = match &polled.game {
            Some(plan) => plan.probes(),
            None => vec![PlannedProbe {
                protocol: polled.protocol,
                port: None,
                game: None,
            }],
        };
        let count = |wanted: Transport| {
            let transports = probes.iter().map(|probe| probe.protocol.info().transport);
            transports.filter(|transport| *transport == wanted).count()
        };
        let has_room = {
            let open = lock(&self.open);
            count(Transport::Stream) + open.streams <= self.max_streams
                && count(Transport::Http) + open.http <= MAX_OPEN_HTTP
        };
        if !has_room {
            return false;
        }
        polled.poll = polled.game.as_ref().map(|_| {
            Box::new(OpenPoll {
                at: due.at,
                open: probes.len(),
                results: Vec::new(),
            })
        });
        for (place, probe) in (0..).zip(probes) {
            let transport = probe.protocol.info().transport;
            let has_name = transport == Transport::Stream && polled.is_name;
            let index = self.add(due, place, transport);
            let address = SocketAddr::new(address.ip(), probe.port.unwrap_or(address.port()));
            if transport == Transport::Http {
                // The target was parsed when the server was added.
                if let Ok(target) = polled.server.target() {
                    self.http.start(index, target, probe.protocol, address);
                }
                continue;
            }
            let probe = Probe {
                index,
                address,
                protocol: probe.protocol,
                game: probe.game,
                // Servers behind a proxy are found by their name.
                name: has_name.then(|| polled.server.target.as_str().into()),
                srv: polled.srv.clone(),
            };
            self.next.push_back(probe);
        }
        true
    }

    /// Adds a probe and returns its index.
    fn add(&mut self, due: DueSample, place: u8, transport: Transport) -> u64 {
        let index = self.index;
        self.index += 1;
        let probe = OpenProbe {
            due,
            place,
            transport,
        };
        lock(&self.open).insert(index, probe);
        index
    }
}

impl ProbeSource for DueProbes {
    fn next(&mut self) -> Next {
        let shared = self.shared.clone();
        let mut list = shared.table();
        loop {
            if let Some(probe) = self.next.pop_front() {
                return Next::Probe(probe);
            }
            let Some(due) = list.next(&shared.counts) else {
                return Next::Pending;
            };
            let Some(polled) = list.watched.get_mut(&due.server) else {
                continue;
            };
            let address = match &polled.address {
                Ok(address) => *address,
                Err(cause) => {
                    let error = not_found(polled, cause);
                    let index = self.add(due, 0, Transport::Datagram);
                    return Next::Failed {
                        index,
                        target: polled.server.target.as_str().into(),
                        error,
                    };
                }
            };
            if !self.start(due, polled, address) {
                // Connections to other servers take all files: skip this sample.
                polled.is_asked = false;
                shared.counts.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn retry_after(&self) -> Duration {
        let mut table = self.shared.table();
        let now = table.now();
        let due = table.schedule.next_due();
        let wait = due.map_or(1_000, |due| due - now).clamp(1, 1_000);
        Duration::from_millis(wait as u64)
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

fn not_found(watched: &PolledServer, cause: &str) -> Error {
    let name = watched.server.target().map_or_else(
        |_| watched.server.target.clone(),
        |target| target.host.to_string(),
    );
    Error::Lookup {
        name,
        cause: cause.into(),
    }
}
