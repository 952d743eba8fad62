//! Search for servers on the local network, by the broadcasts and announcements of each protocol.
//! [`master`] reads lists of public servers.
//!
//! ```text
//!   Interface × Info::discovery ─► Search ─► FoundServer ─► Client::query_found
//!                                      broadcasts, announcements    one Answers each
//! ```
//!
//! A broadcast goes to the network of one interface, with a TTL of 1, and replies from other
//! networks are ignored. A sighting is not verified: the query that follows is.
//!
//! Limits of a search: 128 ports for each protocol, three rounds of requests, one datagram every
//! 5 ms for each interface and protocol, 65,536 received datagrams for each of them, 1,024 servers
//! and 16 ports of one address.
//!
//! May import: `crate::support`, `crate::target`, `hailer_proto`.

mod interface;
pub mod master;

pub use interface::{Interface, interfaces};

use crate::support::catalog;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hailer_proto::minecraft_status::lan;
use hailer_proto::wire::Notes;
use hailer_proto::{
    Ask, Cookie, DatagramContext, Depth, Destination, Direction, Discovery, Game, Input, Protocol,
    Step,
};
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep, sleep_until};

/// Number of times that requests are sent, because datagrams get lost and some protocols have
/// several forms of request.
const ROUNDS: usize = 3;
/// Time between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two datagrams of one interface and protocol.
const SEND_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of ports for each protocol.
const MAX_PORTS: usize = 128;
/// Maximum number of datagrams that one socket receives.
const MAX_RECEIVED: u32 = 1 << 16;
/// Largest datagram, in bytes.
const MAX_DATAGRAM: usize = 65_535;
/// Time after its first sighting in which a server may be seen in other protocols, before it is
/// passed on: Minecraft worlds announce themselves every 1.5 s.
const SETTLE: Duration = Duration::from_millis(1_600);

/// Configuration of a search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchConfig {
    /// Interfaces to search.
    pub interfaces: Vec<Interface>,
    /// Protocols to search in. Empty: all that have a [discovery](hailer_proto::Info::discovery).
    pub protocols: Vec<&'static dyn Protocol>,
    /// Game to search for: only in its protocols, at its ports.
    pub game: Option<&'static Game>,
    /// Ports to send to. Empty: the ports of the protocols and their games.
    pub ports: Vec<u16>,
    /// Time to wait for replies and announcements. The default of 3 s has two announcements of a
    /// Minecraft world.
    pub length: Duration,
    /// Maximum number of servers.
    pub max_servers: usize,
    /// Maximum number of servers at one address. Anyone can announce any number.
    pub max_ports: usize,
}

impl SearchConfig {
    /// Returns a search of these interfaces for all servers.
    pub fn new(interfaces: Vec<Interface>) -> Self {
        Self {
            interfaces,
            protocols: Vec::new(),
            game: None,
            ports: Vec::new(),
            length: Duration::from_secs(3),
            max_servers: 1_024,
            max_ports: 16,
        }
    }

    /// Returns the protocols to search in.
    fn protocols(&self) -> Vec<&'static dyn Protocol> {
        let mut protocols = match self.game {
            Some(game) => catalog::protocols_of(game),
            None => catalog::protocols(),
        };
        if !self.protocols.is_empty() {
            let named: Vec<&str> = self
                .protocols
                .iter()
                .map(|protocol| protocol.info().id)
                .collect();
            protocols.retain(|protocol| named.contains(&protocol.info().id));
        }
        protocols.retain(|protocol| !protocol.info().discovery.is_empty());
        protocols
    }

    /// Returns the ports to send to: the ports of the protocol, then the ports of its games.
    fn ports(&self, protocol: &dyn Protocol, own: &[u16]) -> Vec<u16> {
        if !self.ports.is_empty() {
            return self.ports.clone();
        }
        let mut ports = own.to_vec();
        if let Some(game) = self.game {
            ports = game.query_ports(None);
        } else {
            let id = protocol.info().id;
            let of_protocol = catalog::games().into_iter();
            let of_protocol = of_protocol.filter(|game| game.protocols.first() == Some(&id));
            ports.extend(of_protocol.filter_map(|game| game.query_ports(None).first().copied()));
        }
        let mut seen = BTreeSet::new();
        ports.retain(|port| seen.insert(*port));
        ports.truncate(MAX_PORTS);
        ports
    }
}

/// Reason why a search found nothing and could find nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The configuration names no interface.
    #[error("no interface to search")]
    NoInterface,
    /// None of the protocols has broadcasts or announcements.
    #[error("servers of these protocols cannot be found by broadcasts; query them by address")]
    NoDiscovery,
    /// Every socket failed. The texts name interface, protocol and cause.
    #[error("{}", .0.join("; "))]
    Failed(Vec<String>),
}

/// A search for servers, which continues with each call of [`Search::start`]. Each address is found
/// once, whatever number of protocols, interfaces and starts it is seen in.
pub struct Search<'a> {
    config: &'a SearchConfig,
    parts: FuturesUnordered<BoxFuture<'a, ()>>,
    sightings: Arc<Mutex<Sightings>>,
}

impl fmt::Debug for Search<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search")
            .field("config", self.config)
            .finish_non_exhaustive()
    }
}

/// State of a search that its sockets share.
#[derive(Default)]
struct Sightings {
    found: BTreeMap<SocketAddr, Sighting>,
    /// Addresses of `found` that were not passed on, in the order of their first sightings.
    new: VecDeque<(Instant, SocketAddr)>,
    max_servers: usize,
    max_ports: usize,
    /// Whether a socket did not fail.
    has_worked: bool,
    report: SearchReport,
}

/// Results of a search other than servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchReport {
    /// Sockets that failed: interface, protocol and cause.
    pub problems: Vec<String>,
    /// Datagrams from other networks than that of their interface, which were ignored.
    pub foreign: u64,
    /// Whether there are more servers than [`SearchConfig::max_servers`].
    pub is_full: bool,
    /// An address with more ports than [`SearchConfig::max_ports`].
    pub crowded: Option<IpAddr>,
}

/// Protocols and interface of a sighting.
#[derive(Clone)]
struct Sighting {
    protocols: Vec<&'static dyn Protocol>,
    interface: Arc<str>,
}

/// A server of the local network that has replied to a broadcast or announced itself.
#[derive(Clone, Debug)]
pub struct FoundServer {
    /// Its address.
    pub address: SocketAddr,
    /// Protocols that it was seen in, at least one, in the order of the registry.
    pub protocols: Vec<&'static dyn Protocol>,
    /// Name of the interface.
    pub interface: Arc<str>,
}

impl Sightings {
    fn add(&mut self, address: SocketAddr, protocol: &'static dyn Protocol, interface: &str) {
        if !self.found.contains_key(&address) {
            let ip = address.ip();
            let ports = SocketAddr::new(ip, 0)..=SocketAddr::new(ip, u16::MAX);
            if self.found.range(ports).count() >= self.max_ports {
                self.report.crowded.get_or_insert(ip);
                return;
            }
            if self.found.len() >= self.max_servers {
                self.report.is_full = true;
                return;
            }
            self.new.push_back((Instant::now(), address));
        }
        let seen = self.found.entry(address).or_insert_with(|| Sighting {
            protocols: Vec::new(),
            interface: interface.into(),
        });
        let id = protocol.info().id;
        if !seen
            .protocols
            .iter()
            .any(|protocol| protocol.info().id == id)
        {
            seen.protocols.push(protocol);
        }
    }

    /// Notes the end of one socket. `place` describes the socket.
    fn end_part(&mut self, result: io::Result<()>, place: impl FnOnce() -> String) {
        match result {
            Ok(()) => self.has_worked = true,
            Err(error) => self.report.problems.push(format!("{}: {error}", place())),
        }
    }

    /// Returns when the next server can be passed on.
    fn next_at(&self) -> Option<Instant> {
        self.new.front().map(|(seen, _)| *seen + SETTLE)
    }

    /// Passes on the server that was seen first, if any.
    fn take(&mut self) -> Option<FoundServer> {
        let (_, address) = self.new.pop_front()?;
        let seen = self.found.get(&address)?;
        let has = |id: &str| {
            seen.protocols
                .iter()
                .any(|protocol| protocol.info().id == id)
        };
        let mut protocols = seen.protocols.clone();
        // A server answers a dialect of its protocol too, because the requests are the same.
        protocols.retain(|protocol| !protocol.info().dialect_of.is_some_and(has));
        let place = |protocol: &&'static dyn Protocol| {
            let mut all = catalog::protocols().into_iter();
            all.position(|other| other.info().id == protocol.info().id)
        };
        protocols.sort_by_key(place);
        Some(FoundServer {
            address,
            protocols,
            interface: seen.interface.clone(),
        })
    }
}

impl<'a> Search<'a> {
    /// Creates a search. Nothing is sent before [`Search::start`].
    pub fn new(config: &'a SearchConfig) -> Self {
        let sightings = Sightings {
            max_servers: config.max_servers,
            max_ports: config.max_ports,
            ..Sightings::default()
        };
        Self {
            config,
            parts: FuturesUnordered::new(),
            sightings: Arc::new(Mutex::new(sightings)),
        }
    }

    /// Starts to search for [`SearchConfig::length`].
    ///
    /// # Errors
    /// There is no interface or no suitable protocol.
    pub fn start(&mut self) -> Result<(), SearchError> {
        let config = self.config;
        if config.interfaces.is_empty() {
            return Err(SearchError::NoInterface);
        }
        self.parts.clear();
        self.sightings().report = SearchReport::default();
        self.sightings().has_worked = false;
        let end = Instant::now() + config.length;
        for protocol in config.protocols() {
            for discovery in protocol.info().discovery {
                self.start_part(protocol, *discovery, end);
            }
        }
        if self.parts.is_empty() {
            return Err(SearchError::NoDiscovery);
        }
        Ok(())
    }

    fn start_part(&mut self, protocol: &'static dyn Protocol, discovery: Discovery, end: Instant) {
        let config = self.config;
        let (ports, rounds, reply) = match discovery {
            Discovery::Broadcast { ports } => {
                let ports = config.ports(protocol, ports);
                let rounds = first_requests(protocol, &ports);
                (ports, rounds, None)
            }
            Discovery::Request {
                ports,
                request,
                reply,
            } => {
                let rounds = vec![vec![request.to_vec()]; ROUNDS];
                (config.ports(protocol, ports), rounds, Some(reply))
            }
            Discovery::Announcement { group, port_of } => {
                let search = Announcements {
                    protocol,
                    interfaces: &config.interfaces,
                    group,
                    port_of,
                    end,
                    sightings: self.sightings.clone(),
                };
                self.parts.push(Box::pin(search.run()));
                return;
            }
        };
        for interface in &config.interfaces {
            let search = Broadcast {
                protocol,
                interface,
                ports: ports.clone(),
                rounds: rounds.clone(),
                reply,
                end,
                sightings: self.sightings.clone(),
            };
            self.parts.push(Box::pin(search.run()));
        }
    }

    /// Returns the next server, about 1.6 s after its first sighting, or `None` at the end. Can be
    /// canceled; call it again to continue.
    ///
    /// # Errors
    /// Every socket failed. Failures of some sockets are in [`SearchReport::problems`].
    pub async fn next(&mut self) -> Result<Option<FoundServer>, SearchError> {
        loop {
            if self.parts.is_empty() {
                return Ok(self.sightings().take());
            }
            let next_at = self.sightings().next_at();
            if next_at.is_some_and(|at| at <= Instant::now()) {
                return Ok(self.sightings().take());
            }
            let settled = async {
                match next_at {
                    Some(at) => sleep_until(at).await,
                    // The first sighting wakes nothing, so look for it.
                    None => sleep(SETTLE / 16).await,
                }
            };
            tokio::select! {
                () = settled => {}
                _ = self.parts.next() => if self.parts.is_empty() {
                    self.check()?;
                },
            }
        }
    }

    /// Returns an error if the sockets of a search failed that found nothing.
    fn check(&self) -> Result<(), SearchError> {
        let sightings = self.sightings();
        let has_failed = !sightings.report.problems.is_empty() && !sightings.has_worked;
        if sightings.found.is_empty() && has_failed {
            return Err(SearchError::Failed(sightings.report.problems.clone()));
        }
        Ok(())
    }

    /// Returns what the search has found besides servers since its start.
    pub fn report(&self) -> SearchReport {
        self.sightings().report.clone()
    }

    fn sightings(&self) -> MutexGuard<'_, Sightings> {
        lock(&self.sightings)
    }
}

fn lock(sightings: &Mutex<Sightings>) -> MutexGuard<'_, Sightings> {
    sightings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Announces a Minecraft server to the local networks once, as the game announces worlds that are
/// open to them. `address` is where the server listens: an address of one interface, or the
/// unspecified address for all interfaces that are [private](Interface::is_private). Repeat this
/// every [`INTERVAL`](hailer_proto::minecraft_status::lan::INTERVAL).
///
/// # Errors
/// The announcement could not be sent on any interface.
pub fn announce_minecraft(motd: &str, address: SocketAddr) -> io::Result<()> {
    let mut announcement = Vec::new();
    lan::write(motd, address.port(), &mut announcement);
    let mut failure = io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        "no interface has a suitable address",
    );
    let mut has_sent = false;
    for interface in interfaces()? {
        let is_used = if address.ip().is_unspecified() {
            interface.is_private()
        } else {
            address.ip() == interface.address
        };
        if !is_used {
            continue;
        }
        match send_to_group(&interface, lan::GROUP, &announcement) {
            Ok(()) => has_sent = true,
            Err(error) => failure = error,
        }
    }
    if has_sent { Ok(()) } else { Err(failure) }
}

/// Sends a datagram to a multicast group on the link of an interface.
fn send_to_group(interface: &Interface, group: SocketAddrV4, bytes: &[u8]) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_multicast_ttl_v4(1)?;
    socket.set_multicast_if_v4(&interface.address)?;
    socket.bind(&SocketAddrV4::new(interface.address, 0).into())?;
    socket.send_to(bytes, &group.into()).map(drop)
}

/// Returns the datagrams that an exchange without replies sends, for each round.
fn first_requests(protocol: &dyn Protocol, ports: &[u16]) -> Vec<Vec<Vec<u8>>> {
    let ask = Ask {
        depth: Depth::Basic,
        has_players: false,
        has_rules: false,
        to: Destination {
            port: ports.first().copied().unwrap_or(protocol.info().port),
            ..Destination::default()
        },
        ..Ask::default()
    };
    let cookie = Cookie(getrandom::u64().unwrap_or_default());
    let mut exchange = protocol.exchange(&ask, cookie);
    let mut rounds = Vec::new();
    let mut input = Input::Start;
    for _ in 0..ROUNDS {
        let mut round = Vec::new();
        // More than a few datagrams in a row would be a mistake of the exchange.
        for _ in 0..8 {
            let mut request = Vec::new();
            let step = exchange.handle(input, &mut request);
            if !request.is_empty() {
                round.push(request);
            }
            if !matches!(step, Step::SendMore) {
                break;
            }
            input = Input::Continue;
        }
        rounds.push(round);
        input = Input::Timeout;
    }
    rounds
}

/// A search by broadcasts of one protocol in the network of one interface.
struct Broadcast<'a> {
    protocol: &'static dyn Protocol,
    interface: &'a Interface,
    ports: Vec<u16>,
    /// Datagrams of each round.
    rounds: Vec<Vec<Vec<u8>>>,
    /// First bytes of a reply. `None`: replies are those of the protocol.
    reply: Option<&'static [u8]>,
    end: Instant,
    sightings: Arc<Mutex<Sightings>>,
}

impl Broadcast<'_> {
    async fn run(self) {
        let result = self.exchange().await;
        let place = || format!("{} on {}", self.protocol.info().title, self.interface.name);
        lock(&self.sightings).end_part(result, place);
    }

    async fn exchange(&self) -> io::Result<()> {
        let socket = self.open()?;
        let mut sends = self.schedule(Instant::now());
        let mut buffer = vec![0; MAX_DATAGRAM];
        let mut received = 0;
        let mut failure = None;
        loop {
            let next = sends.front().map_or(self.end, |(at, ..)| *at).min(self.end);
            tokio::select! {
                biased;
                () = sleep_until(next) => {
                    if next == self.end {
                        break;
                    }
                    if let Some((_, to, request)) = sends.pop_front()
                        && let Err(error) = socket.send_to(request, to).await
                    {
                        failure = Some(error);
                    }
                }
                datagram = socket.recv_from(&mut buffer), if received < MAX_RECEIVED => {
                    received += 1;
                    match datagram {
                        Ok((length, from)) => self.receive(&buffer[..length], from),
                        // Errors of earlier datagrams, such as closed ports.
                        Err(_) => sleep(SEND_INTERVAL).await,
                    }
                }
            }
        }
        match failure {
            Some(error) if lock(&self.sightings).found.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens a socket whose datagrams stay on the link of the interface.
    fn open(&self) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_broadcast(true)?;
        socket.set_ttl_v4(1)?;
        socket.bind(&SocketAddrV4::new(self.interface.address, 0).into())?;
        UdpSocket::from_std(socket.into())
    }

    /// Returns when to send which datagram to which address.
    fn schedule(&self, start: Instant) -> VecDeque<(Instant, SocketAddrV4, &[u8])> {
        let to = self.interface.broadcast();
        let mut sends = VecDeque::new();
        for (round, requests) in (0..).zip(&self.rounds) {
            let mut at = start + ROUND_INTERVAL * round;
            for port in &self.ports {
                for request in requests {
                    sends.push_back((at, SocketAddrV4::new(to, *port), request.as_slice()));
                    at += SEND_INTERVAL;
                }
            }
        }
        sends
    }

    fn receive(&self, bytes: &[u8], from: SocketAddr) {
        if !self.interface.contains(from.ip()) {
            lock(&self.sightings).report.foreign += 1;
        } else if self.is_reply(bytes) {
            lock(&self.sightings).add(from, self.protocol, &self.interface.name);
        }
    }

    fn is_reply(&self, bytes: &[u8]) -> bool {
        if let Some(reply) = self.reply {
            return bytes.starts_with(reply);
        }
        let mut notes = Notes::default();
        let explained = self
            .protocol
            .explain(bytes, DatagramContext::Reply, &mut notes);
        explained.is_some_and(|explained| explained.direction == Direction::Reply)
    }
}

/// A search by announcements of one protocol, on all interfaces.
struct Announcements<'a> {
    protocol: &'static dyn Protocol,
    interfaces: &'a [Interface],
    group: SocketAddrV4,
    port_of: fn(&[u8]) -> Option<u16>,
    end: Instant,
    sightings: Arc<Mutex<Sightings>>,
}

impl Announcements<'_> {
    async fn run(self) {
        let result = self.listen().await;
        let place = || format!("{} announcements", self.protocol.info().title);
        lock(&self.sightings).end_part(result, place);
    }

    async fn listen(&self) -> io::Result<()> {
        let socket = self.open()?;
        let mut buffer = vec![0; MAX_DATAGRAM];
        let mut received = 0;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.end) => return Ok(()),
                datagram = socket.recv_from(&mut buffer), if received < MAX_RECEIVED => {
                    received += 1;
                    match datagram {
                        Ok((length, from)) => self.receive(&buffer[..length], from),
                        Err(_) => sleep(SEND_INTERVAL).await,
                    }
                }
            }
        }
    }

    /// Opens a socket that receives the group's datagrams of all interfaces. The game on this
    /// machine may receive them at the same port.
    fn open(&self) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        #[cfg(all(unix, not(target_os = "linux")))]
        socket.set_reuse_port(true)?;
        // On Linux, this address keeps datagrams to other addresses of the port away.
        let address = if cfg!(target_os = "linux") {
            *self.group.ip()
        } else {
            Ipv4Addr::UNSPECIFIED
        };
        socket.bind(&SocketAddrV4::new(address, self.group.port()).into())?;
        let mut failure = None;
        let mut joined = 0;
        for interface in self.interfaces {
            match socket.join_multicast_v4(self.group.ip(), &interface.address) {
                Ok(()) => joined += 1,
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if joined == 0 => Err(error),
            _ => UdpSocket::from_std(socket.into()),
        }
    }

    fn receive(&self, bytes: &[u8], from: SocketAddr) {
        let mut interfaces = self.interfaces.iter();
        let mut sightings = lock(&self.sightings);
        let Some(interface) = interfaces.find(|interface| interface.contains(from.ip())) else {
            sightings.report.foreign += 1;
            return;
        };
        if let Some(port) = (self.port_of)(bytes) {
            let address = SocketAddr::new(from.ip(), port);
            sightings.add(address, self.protocol, &interface.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::registry;

    fn config() -> SearchConfig {
        let interface = Interface {
            name: "test0".into(),
            address: [10, 77, 1, 1].into(),
            prefix: 24,
        };
        SearchConfig::new(vec![interface])
    }

    #[test]
    fn ports_are_those_of_the_protocol_and_its_games() {
        let quake3 = registry::find("quake3").unwrap();
        let all = config().ports(quake3, &[27_960, 27_961]);
        assert_eq!(all[..2], [27_960, 27_961]);
        assert!(all.contains(&26_000) && all.contains(&28_960), "{all:?}");
        let unique: BTreeSet<u16> = all.iter().copied().collect();
        assert_eq!(unique.len(), all.len());

        let mut of_game = config();
        of_game.game = catalog::game("xonotic");
        assert_eq!(of_game.ports(quake3, &[27_960]), [26_000]);
        let protocols: Vec<&str> = of_game
            .protocols()
            .iter()
            .map(|protocol| protocol.info().id)
            .collect();
        assert_eq!(protocols, ["quake3"]);
        of_game.ports = vec![7];
        assert_eq!(of_game.ports(quake3, &[27_960]), [7]);
        for protocol in catalog::protocols() {
            assert!(config().ports(protocol, &[]).len() < MAX_PORTS);
        }
    }

    /// The guide names every protocol with a discovery.
    #[test]
    fn the_guide_names_every_protocol() {
        let guide = include_str!("../../../../docs/discover.md");
        let search = config();
        for protocol in search.protocols() {
            let id = format!("`{}`", protocol.info().id);
            let is_named = guide
                .lines()
                .any(|line| line.starts_with('|') && line.contains(&id));
            assert!(is_named, "docs/discover.md has no row for {id}");
        }
    }

    #[test]
    fn each_round_has_a_request_in_every_protocol() {
        for protocol in registry::PROTOCOLS {
            let mut discovery = protocol.info().discovery.iter();
            if !discovery.any(|discovery| matches!(discovery, Discovery::Broadcast { .. })) {
                continue;
            }
            let rounds = first_requests(*protocol, &[1]);
            assert_eq!(rounds.len(), ROUNDS);
            for round in rounds {
                assert!(!round.is_empty(), "{}", protocol.info().id);
                let longest = round.iter().map(Vec::len).max();
                assert!(longest < Some(1_400), "{}", protocol.info().id);
            }
        }
    }

    #[test]
    fn teeworlds_asks_for_a_token_of_0_7_after_the_extended_request() {
        let rounds = first_requests(registry::find("teeworlds").unwrap(), &[1]);
        let [extended, token] = &rounds[0][..] else {
            panic!("{} requests", rounds[0].len());
        };
        assert!(extended.starts_with(b"xe") && extended[6..].starts_with(b"\xFF\xFF\xFF\xFFgie3"));
        assert!(token.starts_with(b"\x04\0\0\xFF\xFF\xFF\xFF\x05"));
    }

    fn sightings(config: &SearchConfig) -> Arc<Mutex<Sightings>> {
        Search::new(config).sightings
    }

    #[test]
    fn a_server_seen_in_several_protocols_is_found_once() {
        let config = config();
        let sightings = sightings(&config);
        let mut sightings = lock(&sightings);
        let address = "10.77.1.2:25565".parse().unwrap();
        let other = "10.77.1.3:27015".parse().unwrap();
        let find = |id| registry::find(id).unwrap();
        sightings.add(address, find("minecraft-status"), "test0");
        sightings.add(other, find("a2s"), "test0");
        sightings.add(address, find("minecraft-query"), "test1");
        sightings.add(address, find("minecraft-status"), "test1");
        let ids = |server: &FoundServer| {
            let ids = server.protocols.iter().map(|protocol| protocol.info().id);
            ids.collect::<Vec<_>>()
        };
        let server = sightings.take().unwrap();
        assert_eq!(server.address, address);
        assert_eq!(ids(&server), ["minecraft-query", "minecraft-status"]);
        assert_eq!(&*server.interface, "test0");
        assert_eq!(ids(&sightings.take().unwrap()), ["a2s"]);
        // It is passed on once, and not again when it is seen again.
        sightings.add(address, find("minecraft-query"), "test0");
        assert!(sightings.take().is_none());
    }

    #[test]
    fn one_address_has_a_limited_share_of_a_limited_number() {
        let config = config();
        let sightings = sightings(&config);
        let mut sightings = lock(&sightings);
        let status = registry::find("minecraft-status").unwrap();
        let at = |host: u8, port: u16| SocketAddr::from(([10, 77, 1, host], port));
        for port in 1..=65_535 {
            sightings.add(at(2, port), status, "test0");
        }
        assert_eq!(sightings.found.len(), 16);
        assert_eq!(sightings.report.crowded, Some([10, 77, 1, 2].into()));
        assert!(!sightings.report.is_full);
        for host in 3..=255 {
            (1..=20).for_each(|port| sightings.add(at(host, port), status, "test0"));
        }
        assert_eq!(sightings.found.len(), 1_024);
        assert!(sightings.report.is_full);
    }

    /// Servers are passed on during the search, and the rest at its end.
    #[tokio::test(start_paused = true)]
    async fn servers_are_passed_on_once_they_have_settled() {
        let config = config();
        let mut search = Search::new(&config);
        let sightings = search.sightings.clone();
        let start = Instant::now();
        search.parts.push(Box::pin(async move {
            for port in 1..=4 {
                let address = SocketAddr::from(([10, 77, 1, 2], port));
                let status = registry::find("minecraft-status").unwrap();
                lock(&sightings).add(address, status, "test0");
                sleep(Duration::from_millis(800)).await;
            }
        }));
        let mut found = Vec::new();
        while let Some(server) = search.next().await.unwrap() {
            let tenths = (start.elapsed().as_millis() + 50) / 100;
            found.push((server.address.port(), tenths));
        }
        assert_eq!(found, [(1, 16), (2, 24), (3, 32), (4, 32)]);
    }

    #[test]
    fn datagrams_of_other_networks_and_protocols_are_ignored() {
        let mut config = config();
        config.max_servers = 2;
        let sightings = sightings(&config);
        let broadcast = Broadcast {
            protocol: registry::find("quake3").unwrap(),
            interface: &config.interfaces[0],
            ports: vec![27_960],
            rounds: vec![vec![b"x".to_vec()]; 2],
            reply: None,
            end: Instant::now(),
            sightings: sightings.clone(),
        };
        let reply = b"\xFF\xFF\xFF\xFFinfoResponse\n\\hostname\\Harbour\\clients\\1";
        let near = |host: u8| SocketAddr::from(([10, 77, 1, host], 27_960));
        broadcast.receive(reply, ([10, 78, 1, 2], 27_960).into());
        broadcast.receive(b"\xFF\xFF\xFF\xFFgetinfo abc", near(2));
        broadcast.receive(b"", near(2));
        let counts = |sightings: &Sightings| (sightings.found.len(), sightings.report.foreign);
        assert_eq!(counts(&lock(&sightings)), (0, 1));
        for host in 2..10 {
            broadcast.receive(reply, near(host));
        }
        let found: Vec<SocketAddr> = lock(&sightings).found.keys().copied().collect();
        assert_eq!(found, [near(2), near(3)]);
        let start = Instant::now();
        let sends = broadcast.schedule(start);
        let to = SocketAddrV4::new([10, 77, 1, 255].into(), 27_960);
        let expected = [(start, to, &b"x"[..]), (start + ROUND_INTERVAL, to, b"x")];
        assert_eq!(Vec::from(sends), expected);
    }
}
