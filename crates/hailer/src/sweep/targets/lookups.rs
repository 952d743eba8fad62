//! Name lookups of a sweep, ahead of the probes and concurrent, on their own thread.
//!
//! Limits: 1,024 names wait for their addresses, and at most 262,144 results are cached.

use super::collector::Name;
use super::exclude::Exclusions;
use crate::error::Error;
use crate::names::NameResolver;
use crate::sweep::engine::services::TargetKind;
use crate::sweep::{Next, Probe};
use crate::target::Host;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

/// Largest number of names that wait for their addresses. Above it, no more are taken from the
/// list.
const AHEAD: usize = 1024;
/// Size of each of the two generations of the cache.
const CACHE: usize = 1 << 17;

/// Names that wait for their addresses.
pub(crate) struct Lookups {
    server: Option<SocketAddr>,
    at_once: usize,
    exclusions: Arc<Exclusions>,
    /// Names that wait for a lookup, by index.
    waiting: HashMap<u64, Name>,
    /// Thread of the lookups, which starts with the first name.
    worker: Option<LookupThread>,
}

/// Channels of the lookup thread, which ends when they are dropped. Nothing joins it.
struct LookupThread {
    wanted: tokio::sync::mpsc::Sender<LookupRequest>,
    found: mpsc::Receiver<LookupReply>,
}

struct LookupRequest {
    index: u64,
    key: Key,
}

struct LookupReply {
    index: u64,
    result: LookupResult,
}

/// The first address of a name and the SRV record that led to it, as a clause for errors.
type LookupResult = Result<(SocketAddr, Option<Arc<str>>), LookupFailure>;

/// Cache key: the name and, if an SRV record may change the port, its service and the default port.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    host: Arc<str>,
    service: Option<(&'static str, u16)>,
}

/// Error of a lookup, in a form that can be cached.
#[derive(Clone)]
enum LookupFailure {
    NotFound,
    Failed(Arc<str>),
}

impl Lookups {
    /// Creates an empty queue with `at_once` concurrent lookups. Without `server`, the resolver of
    /// the system is used.
    pub(crate) fn new(
        server: Option<SocketAddr>,
        at_once: usize,
        exclusions: Arc<Exclusions>,
    ) -> Self {
        Self {
            server,
            at_once: at_once.clamp(1, AHEAD),
            exclusions,
            waiting: HashMap::new(),
            worker: None,
        }
    }

    /// Returns whether the queue is full.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= AHEAD
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the indices of the waiting names, in no particular order.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u64> {
        self.waiting.keys().copied()
    }

    /// Starts the lookup of a name. Do not call it when the queue is full.
    pub(crate) fn ask(&mut self, index: u64, name: Name) {
        let kind = name.kind();
        let service = match name.port() {
            None => kind.srv().map(|srv| (srv, kind.default_port())),
            Some(_) => None,
        };
        let key = Key {
            host: name.host().clone(),
            service,
        };
        let worker = self
            .worker
            .get_or_insert_with(|| LookupThread::start(self.server, self.at_once));
        // The channel has room for all waiting names. If the thread has ended, `next` reports it.
        let _ = worker.wanted.try_send(LookupRequest { index, key });
        self.waiting.insert(index, name);
    }

    /// Returns the next finished lookup, if any. Cheap if there is none.
    pub(crate) fn next(&mut self) -> Option<Next> {
        if self.waiting.is_empty() {
            return None;
        }
        loop {
            let (index, result) = match self.worker.as_ref()?.found.try_recv() {
                Ok(LookupReply { index, result }) => (index, result),
                Err(mpsc::TryRecvError::Empty) => return None,
                Err(mpsc::TryRecvError::Disconnected) => {
                    let index = self.waiting.keys().copied().next()?;
                    (
                        index,
                        Err(LookupFailure::Failed(
                            "the thread that looks names up could not run".into(),
                        )),
                    )
                }
            };
            if let Some(name) = self.waiting.remove(&index) {
                return Some(self.end(index, &name, result));
            }
        }
    }

    fn end(&self, index: u64, name: &Name, result: LookupResult) -> Next {
        let host = || String::from(&**name.host());
        let checked = match result {
            Err(LookupFailure::NotFound) => Err(Error::NameNotFound { name: host() }),
            Err(LookupFailure::Failed(cause)) => Err(Error::Lookup {
                name: host(),
                cause: String::from(&*cause),
            }),
            Ok((mut address, srv)) => {
                address.set_port(name.port().unwrap_or(address.port()));
                // Convert only IPv4-mapped addresses: others must keep their zone.
                let ip = address.ip().to_canonical();
                if ip.is_ipv4() {
                    address.set_ip(ip);
                }
                self.exclusions
                    .check(name.host(), ip)
                    .and_then(|()| {
                        name.check(address.ip()).map_err(|fault| Error::Excluded {
                            name: host(),
                            address: ip,
                            reason: fault.kind,
                        })
                    })
                    .map(|()| (address, srv))
            }
        };
        match checked {
            Ok((address, srv)) => {
                let TargetKind { protocol, game } = name.kind();
                Next::Probe(Probe {
                    index,
                    address,
                    protocol,
                    game,
                    name: Some(name.typed().clone()),
                    srv,
                })
            }
            Err(_) if name.is_repeat() => Next::Repeat {
                index,
                is_failed: true,
            },
            Err(error) => Next::Failed {
                index,
                target: name.typed().clone(),
                error,
            },
        }
    }
}

impl LookupThread {
    fn start(server: Option<SocketAddr>, at_once: usize) -> Self {
        let (wanted, wants) = tokio::sync::mpsc::channel(AHEAD);
        // Never holds more than the number of waiting names.
        let (finds, found) = mpsc::channel();
        let run = move || {
            let builder = &mut tokio::runtime::Builder::new_current_thread();
            // The resolver of the system blocks one thread for each name.
            let Ok(runtime) = builder.enable_all().max_blocking_threads(at_once).build() else {
                return;
            };
            runtime.block_on(work(&NameResolver::new(server), wants, finds, at_once));
            runtime.shutdown_background();
        };
        // If the thread cannot start, the channels are disconnected, which `next` reports.
        let _ = std::thread::Builder::new().name("names".into()).spawn(run);
        Self { wanted, found }
    }
}

/// Looks up names until the channel closes. Concurrent requests for the same name share one lookup.
async fn work(
    names: &NameResolver,
    mut wants: tokio::sync::mpsc::Receiver<LookupRequest>,
    finds: mpsc::Sender<LookupReply>,
    at_once: usize,
) {
    let mut running = FuturesUnordered::new();
    let mut waiting: HashMap<Key, Vec<u64>> = HashMap::new();
    let mut cache = Cache::default();
    loop {
        tokio::select! {
            wanted = wants.recv(), if running.len() < at_once => {
                let Some(LookupRequest { index, key }) = wanted else { return };
                if let Some(result) = cache.get(&key) {
                    if finds.send(LookupReply { index, result }).is_err() {
                        return;
                    }
                } else if let Some(indices) = waiting.get_mut(&key) {
                    indices.push(index);
                } else {
                    waiting.insert(key.clone(), vec![index]);
                    running.push(async move { (look_up(names, &key).await, key) });
                }
            }
            Some((result, key)) = running.next(), if !running.is_empty() => {
                for index in waiting.remove(&key).unwrap_or_default() {
                    if finds.send(LookupReply { index, result: result.clone() }).is_err() {
                        return;
                    }
                }
                cache.insert(key, result);
            }
        }
    }
}

/// Returns the first address; a sweep queries only one.
async fn look_up(names: &NameResolver, key: &Key) -> LookupResult {
    let host = Host::Name(String::from(&*key.host));
    let found = match key.service {
        Some((service, port)) => names.resolve(&host, None, port, Some(service)).await,
        // The port of the target replaces this one.
        None => names.resolve(&host, Some(1), 1, None).await,
    };
    match found {
        Ok(found) => {
            let first = found.addresses.first();
            let first = first.copied().ok_or(LookupFailure::NotFound)?;
            Ok((first, found.srv.map(Into::into)))
        }
        Err(Error::Lookup { cause, .. }) => Err(LookupFailure::Failed(cause.into())),
        Err(_) => Err(LookupFailure::NotFound),
    }
}

/// Cache of recent results in two generations: when the new one is full, it replaces the old one.
#[derive(Default)]
struct Cache {
    new: HashMap<Key, LookupResult>,
    old: HashMap<Key, LookupResult>,
}

impl Cache {
    fn get(&self, key: &Key) -> Option<LookupResult> {
        self.new.get(key).or_else(|| self.old.get(key)).cloned()
    }

    fn insert(&mut self, key: Key, result: LookupResult) {
        if self.new.len() == CACHE {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(key, result);
    }
}
