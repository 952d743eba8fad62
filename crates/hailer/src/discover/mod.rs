//! Search for servers on the local network, by the broadcasts and announcements of each protocol.
//!
//! ```text
//!   Interface × Protocol::discovery ─► search ─► Sightings ─► FoundServer ─► Client::query_found
//!                                      broadcasts, announcements             one Answers each
//! ```
//!
//! A broadcast goes to the network of one interface, with a TTL of 1, and replies from other
//! networks are ignored. A sighting is not verified: the query that follows is.
//!
//! Limits of a search: 128 ports for each protocol, three rounds of requests, one datagram every
//! 5 ms for each interface and protocol, 65,536 received datagrams and 4,096 servers.

mod interface;

pub use interface::{Interface, interfaces};

use crate::catalog;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hailer_proto::minecraft_status::lan;
use hailer_proto::wire::Notes;
use hailer_proto::{
    Ask, Cookie, DatagramContext, Depth, Direction, Discovery, Game, Input, Protocol, Step,
};
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
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

/// Configuration of a search.
#[derive(Clone)]
#[non_exhaustive]
pub struct SearchConfig {
    /// Interfaces to search.
    pub interfaces: Vec<Interface>,
    /// Protocols to search in. Empty: all that have a [discovery](Protocol::discovery).
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
            max_servers: 4_096,
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
        protocols.retain(|protocol| !protocol.discovery().is_empty());
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

/// Result of a search.
#[derive(Clone, Default)]
pub struct Sightings {
    found: BTreeMap<SocketAddr, Sighting>,
    /// Sockets that failed: interface, protocol and cause.
    pub problems: Vec<String>,
    /// Datagrams from other networks than that of their interface, which were ignored.
    pub foreign: u64,
}

/// Protocols and interface of a sighting.
#[derive(Clone)]
struct Sighting {
    protocols: Vec<&'static dyn Protocol>,
    interface: Arc<str>,
}

/// A server of the local network that has replied to a broadcast or announced itself.
#[derive(Clone)]
pub struct FoundServer {
    /// Its address.
    pub address: SocketAddr,
    /// Protocols that it was seen in, at least one, in the order of the registry.
    pub protocols: Vec<&'static dyn Protocol>,
    /// Name of the interface.
    pub interface: Arc<str>,
}

impl Sightings {
    /// Returns the servers, sorted by address. Each address is listed once, whatever number of
    /// protocols and interfaces it was seen in.
    pub fn servers(&self) -> Vec<FoundServer> {
        let mut servers = Vec::new();
        for (address, seen) in &self.found {
            let has = |id: &str| {
                seen.protocols
                    .iter()
                    .any(|protocol| protocol.info().id == id)
            };
            let mut protocols = seen.protocols.clone();
            // A server answers a dialect of its protocol too, because the requests are the same.
            protocols.retain(|protocol| !protocol.dialect_of().is_some_and(has));
            let place = |protocol: &&'static dyn Protocol| {
                let mut all = catalog::protocols().into_iter();
                all.position(|other| other.info().id == protocol.info().id)
            };
            protocols.sort_by_key(place);
            servers.push(FoundServer {
                address: *address,
                protocols,
                interface: seen.interface.clone(),
            });
        }
        servers
    }

    fn add(&mut self, address: SocketAddr, protocol: &'static dyn Protocol, interface: &str) {
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

    fn merge(&mut self, other: Self, max_servers: usize) {
        for (address, seen) in other.found {
            if self.found.len() >= max_servers && !self.found.contains_key(&address) {
                continue;
            }
            for protocol in seen.protocols {
                self.add(address, protocol, &seen.interface);
            }
        }
        self.problems.extend(other.problems);
        self.foreign += other.foreign;
    }
}

/// Searches for servers. Takes [`SearchConfig::length`].
///
/// # Errors
/// The search cannot find anything: there is no interface or no suitable protocol, or every socket
/// failed. Failures of some sockets are in [`Sightings::problems`].
pub async fn search(config: &SearchConfig) -> Result<Sightings, SearchError> {
    if config.interfaces.is_empty() {
        return Err(SearchError::NoInterface);
    }
    let end = Instant::now() + config.length;
    let mut searches: FuturesUnordered<BoxFuture<'_, Sightings>> = FuturesUnordered::new();
    for protocol in config.protocols() {
        for discovery in protocol.discovery() {
            match *discovery {
                Discovery::Broadcast { ports } => {
                    let ports = config.ports(protocol, ports);
                    let rounds = first_requests(protocol, &ports);
                    for interface in &config.interfaces {
                        let search = Broadcast {
                            protocol,
                            interface,
                            ports: ports.clone(),
                            rounds: rounds.clone(),
                            reply: None,
                            end,
                            max_servers: config.max_servers,
                        };
                        searches.push(Box::pin(search.run()));
                    }
                }
                Discovery::Request {
                    ports,
                    request,
                    reply,
                } => {
                    for interface in &config.interfaces {
                        let search = Broadcast {
                            protocol,
                            interface,
                            ports: config.ports(protocol, ports),
                            rounds: vec![vec![request.to_vec()]; ROUNDS],
                            reply: Some(reply),
                            end,
                            max_servers: config.max_servers,
                        };
                        searches.push(Box::pin(search.run()));
                    }
                }
                Discovery::Announcement { group, port_of } => {
                    let search = Announcements {
                        protocol,
                        interfaces: &config.interfaces,
                        group,
                        port_of,
                        end,
                        max_servers: config.max_servers,
                    };
                    searches.push(Box::pin(search.run()));
                }
            }
        }
    }
    let all = searches.len();
    if all == 0 {
        return Err(SearchError::NoDiscovery);
    }
    let mut sightings = Sightings::default();
    while let Some(part) = searches.next().await {
        sightings.merge(part, config.max_servers);
    }
    if sightings.found.is_empty() && sightings.problems.len() >= all {
        return Err(SearchError::Failed(sightings.problems));
    }
    Ok(sightings)
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
        port: ports.first().copied().unwrap_or(protocol.info().port),
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
    max_servers: usize,
}

impl Broadcast<'_> {
    async fn run(self) -> Sightings {
        let mut sightings = Sightings::default();
        if let Err(error) = self.exchange(&mut sightings).await {
            sightings.problems.push(format!(
                "{} on {}: {error}",
                self.protocol.info().title,
                self.interface.name
            ));
        }
        sightings
    }

    async fn exchange(&self, sightings: &mut Sightings) -> io::Result<()> {
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
                        Ok((length, from)) => self.receive(&buffer[..length], from, sightings),
                        // Errors of earlier datagrams, such as closed ports.
                        Err(_) => sleep(SEND_INTERVAL).await,
                    }
                }
            }
        }
        match failure {
            Some(error) if sightings.found.is_empty() => Err(error),
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

    fn receive(&self, bytes: &[u8], from: SocketAddr, sightings: &mut Sightings) {
        if !self.interface.contains(from.ip()) {
            sightings.foreign += 1;
            return;
        }
        let is_known = sightings.found.contains_key(&from);
        if is_known || sightings.found.len() >= self.max_servers || !self.is_reply(bytes) {
            return;
        }
        sightings.add(from, self.protocol, &self.interface.name);
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
    max_servers: usize,
}

impl Announcements<'_> {
    async fn run(self) -> Sightings {
        let mut sightings = Sightings::default();
        if let Err(error) = self.listen(&mut sightings).await {
            let title = self.protocol.info().title;
            sightings
                .problems
                .push(format!("{title} announcements: {error}"));
        }
        sightings
    }

    async fn listen(&self, sightings: &mut Sightings) -> io::Result<()> {
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
                        Ok((length, from)) => self.receive(&buffer[..length], from, sightings),
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

    fn receive(&self, bytes: &[u8], from: SocketAddr, sightings: &mut Sightings) {
        let mut interfaces = self.interfaces.iter();
        let Some(interface) = interfaces.find(|interface| interface.contains(from.ip())) else {
            sightings.foreign += 1;
            return;
        };
        if sightings.found.len() < self.max_servers
            && let Some(port) = (self.port_of)(bytes)
        {
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
            let mut discovery = protocol.discovery().iter();
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

    #[test]
    fn a_server_seen_in_several_protocols_is_listed_once() {
        let mut sightings = Sightings::default();
        let address = "10.77.1.2:25565".parse().unwrap();
        let other = "10.77.1.3:27015".parse().unwrap();
        let find = |id| registry::find(id).unwrap();
        sightings.add(address, find("minecraft-status"), "test0");
        sightings.add(other, find("a2s"), "test0");
        let mut again = Sightings::default();
        again.add(address, find("minecraft-query"), "test1");
        again.add(address, find("minecraft-status"), "test1");
        again.add("10.77.1.4:1".parse().unwrap(), find("a2s"), "test1");
        sightings.merge(again, 2);
        let servers = sightings.servers();
        let ids = |server: &FoundServer| {
            let ids = server.protocols.iter().map(|protocol| protocol.info().id);
            ids.collect::<Vec<_>>()
        };
        assert_eq!(servers.len(), 2);
        assert_eq!(servers[0].address, address);
        assert_eq!(ids(&servers[0]), ["minecraft-query", "minecraft-status"]);
        assert_eq!(&*servers[0].interface, "test0");
        assert_eq!(ids(&servers[1]), ["a2s"]);
    }

    #[test]
    fn datagrams_of_other_networks_and_protocols_are_ignored() {
        let config = config();
        let broadcast = Broadcast {
            protocol: registry::find("quake3").unwrap(),
            interface: &config.interfaces[0],
            ports: vec![27_960],
            rounds: vec![vec![b"x".to_vec()]; 2],
            reply: None,
            end: Instant::now(),
            max_servers: 2,
        };
        let mut sightings = Sightings::default();
        let reply = b"\xFF\xFF\xFF\xFFinfoResponse\n\\hostname\\Harbour\\clients\\1";
        let near = |host: u8| SocketAddr::from(([10, 77, 1, host], 27_960));
        broadcast.receive(reply, ([10, 78, 1, 2], 27_960).into(), &mut sightings);
        broadcast.receive(b"\xFF\xFF\xFF\xFFgetinfo abc", near(2), &mut sightings);
        broadcast.receive(b"", near(2), &mut sightings);
        assert_eq!((sightings.found.len(), sightings.foreign), (0, 1));
        for host in 2..10 {
            broadcast.receive(reply, near(host), &mut sightings);
        }
        let found: Vec<SocketAddr> = sightings.found.keys().copied().collect();
        assert_eq!(found, [near(2), near(3)]);
        let start = Instant::now();
        let sends = broadcast.schedule(start);
        let to = SocketAddrV4::new([10, 77, 1, 255].into(), 27_960);
        let expected = [(start, to, &b"x"[..]), (start + ROUND_INTERVAL, to, b"x")];
        assert_eq!(Vec::from(sends), expected);
    }
}
