//! Farm of simulated servers: one socket replies for every address of a network, up to 16 million
//! servers.
//!
//! ```text
//!   address, port ──► keyed hash ──► silent, or one of several thousand responders built at the start
//!   datagram ──► FarmPort::receive ──► responder ──► conditions ──► Outbox, or a bounded queue ──► FarmPort::release
//!   connection ──► responder ──► replies, or a bounded queue for each connection
//! ```
//!
//! Datagrams are handled by the thread of [`Farm::run`], all connections by one more thread. Loss
//! and duplicates apply to datagrams only, since TCP repairs both; delay and jitter apply to
//! replies on connections too. A silent server accepts connections and never replies; a
//! [refusing](FarmConfig::refusing) one resets them.
//!
//! Farms serve tests and benchmarks of clients that query many servers. The status of a server is a
//! pure function of the farm's seed and the server's address, so results can be checked without a
//! list: [`Farm::status`].
//!
//! A farm answers on loopback only. It has no [`Budget`](super::Budget), so on a public address it
//! would flood the victims of forged sources. Only a socket on all addresses receives for a whole
//! network, and such a socket receives from other hosts as well. A [`FarmPort`] therefore drops
//! datagrams to other addresses, and those that are not from loopback.
//!
//! Only Linux reports the address that a datagram was sent to. On other systems, a farm opens a socket
//! for each address and port over UDP, so that its networks must be small.
//!
//! | limit | value |
//! | --- | --- |
//! | variants of servers of a protocol | 1,048,576 |
//! | delay and jitter | 60 s each |
//! | delayed replies of a port | [`FarmConfig::max_delayed`], about 500 bytes each |
//! | length of a request | 2,048 bytes; on a connection 8 KiB |
//! | open connections | [`FarmConfig::max_connections`] |
//! | time without received bytes on a connection | 60 s |
//! | unsent replies of a connection | 256 KiB |
//! | sockets for datagrams, on systems other than Linux | 4,096 |
//!
//! ```no_run
//! use hailer::proto::registry;
//! use hailer::respond::farm::{Farm, FarmConfig};
//! use std::sync::atomic::AtomicBool;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = FarmConfig::new([127, 0, 0, 0].into(), 8);
//! config.ports = vec![(registry::find("minecraft-query").unwrap(), 25_565)];
//! config.silent = 0.2;
//! let farm = Farm::new(config)?;
//! let sockets = farm.bind()?;
//! let counts = farm.run(&sockets, &AtomicBool::new(false));
//! # Ok(()) }
//! ```
//!
//! May import: `crate::respond`, `crate::respond::reason`, `crate::support`, `hailer_proto`,
//! `hailer_udp`.

mod conditions;
mod connections;
mod run;

pub use run::{BoundPort, FarmBindError};

use super::MAX_REPLY_DATAGRAMS;
use conditions::{Conditions, Queue, Share};
use hailer_proto::sample::Random;
use hailer_proto::{
    Cookie, Epoch, Keys, OptionError, Options, Protocol, Responder, Status, Verdict, registry,
};
use hailer_udp::Outbox;
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Maximum number of variants of servers.
const MAX_VARIANTS: u32 = 1 << 20;
/// Maximum delay of a datagram, which waits in memory.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Interval between checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Configuration of a [`Farm`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FarmConfig {
    /// Networks, as address and prefix length in bits. They must be inside 127.0.0.0/8.
    pub networks: Vec<(Ipv4Addr, u8)>,
    /// Protocols and their ports. Port 0 selects any free port. A protocol may have several ports,
    /// and a port several protocols.
    pub ports: Vec<(&'static dyn Protocol, u16)>,
    /// Seed of the servers.
    pub seed: u64,
    /// Share of servers (pairs of address and port) that never reply: 0 to 1.
    pub silent: f64,
    /// Share of the other servers that reset connections: 0 to 1. Datagrams are not affected.
    pub refusing: f64,
    /// Share of datagrams lost, in each direction: 0 to 1.
    pub loss: f64,
    /// Share of replies that arrive twice: 0 to 1.
    pub duplicates: f64,
    /// Minimum delay of a reply, up to 60 s.
    pub delay: Duration,
    /// Maximum random addition to the delay, up to 60 s. It changes the order of replies.
    pub jitter: Duration,
    /// Number of different servers for each protocol, 1 to 1,048,576. Addresses share them.
    pub variants: u32,
    /// Maximum number of delayed replies on one port, at about 500 bytes each. Further replies are
    /// dropped.
    pub max_delayed: usize,
    /// Maximum number of open connections, also limited by the open files of the process. Further
    /// connections wait to be accepted.
    pub max_connections: usize,
    /// Whether to allow networks other than loopback, and clients that are not on loopback. Only
    /// for private networks, such as those between namespaces: replies to forged sources are not
    /// limited.
    pub can_leave_loopback: bool,
    /// Whether to use the portable implementation even on Linux, for tests.
    pub is_portable: bool,
}

impl FarmConfig {
    /// Returns the configuration of one network: every protocol on its default port, without silent
    /// servers, loss and delay.
    pub fn new(network: Ipv4Addr, bits: u8) -> Self {
        Self {
            networks: vec![(network, bits)],
            ports: registry::responders()
                .into_iter()
                .map(|protocol| (protocol, protocol.info().port))
                .collect(),
            seed: 1,
            silent: 0.0,
            refusing: 0.0,
            loss: 0.0,
            duplicates: 0.0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            variants: 4_096,
            max_delayed: 1 << 17,
            max_connections: 1 << 16,
            can_leave_loopback: false,
            is_portable: false,
        }
    }
}

/// Reason why a [`FarmConfig`] is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FarmError {
    /// There is no network, or its prefix is longer than 32 bits.
    #[error("a farm needs a network such as 127.0.0.0/8, of 0 to 32 bits")]
    Network,
    /// The network is not loopback.
    #[error("{0}/{1} is not inside 127.0.0.0/8; a farm answers on loopback only")]
    Open(Ipv4Addr, u8),
    /// There is no protocol.
    #[error("a farm needs a protocol")]
    NoProtocol,
    /// The share is not from 0 to 1.
    #[error("{0} must be from 0 to 1 (100%)")]
    Share(&'static str),
    /// The time is longer than 60 s.
    #[error("{0} must be at most a minute")]
    Time(&'static str),
    /// The number of variants is out of range.
    #[error("variants must be from 1 to 1048576")]
    Variants,
    /// A responder could not be built.
    #[error(transparent)]
    Option(#[from] OptionError),
}

/// Simulated servers. Immutable: changing state is in its [ports](FarmPort).
pub struct Farm {
    networks: Vec<Network>,
    can_leave_loopback: bool,
    is_portable: bool,
    hash: SipHasher13,
    silent: Share,
    refusing: Share,
    conditions: Conditions,
    seed: u64,
    variants: u32,
    max_delayed: usize,
    max_connections: usize,
    services: Vec<ProtocolServers>,
    ports: Vec<PortServices>,
}

impl fmt::Debug for Farm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Farm")
            .field("seed", &self.seed)
            .field("variants", &self.variants)
            .finish_non_exhaustive()
    }
}

/// All servers of one protocol.
struct ProtocolServers {
    protocol: &'static dyn Protocol,
    responders: Vec<Arc<dyn Responder>>,
}

/// A port, and the indexes of the services that answer there, in this order.
struct PortServices {
    port: u16,
    /// Whether clients connect, over TCP.
    is_connected: bool,
    services: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Network {
    base: u32,
    mask: u32,
}

/// The server of an address and port.
struct ServerSlot {
    variant: u32,
    is_silent: bool,
    is_refusing: bool,
}

impl Farm {
    /// Builds a farm with all its responders, at about 100,000 responders per second.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn new(config: FarmConfig) -> Result<Self, FarmError> {
        let networks = config
            .networks
            .iter()
            .map(|&(address, bits)| Network::new(address, bits));
        let networks: Vec<Network> = networks.collect::<Option<_>>().ok_or(FarmError::Network)?;
        if networks.is_empty() {
            return Err(FarmError::Network);
        }
        let loopback = Network {
            base: u32::from(Ipv4Addr::new(127, 0, 0, 0)),
            mask: 0xFF00_0000,
        };
        let inside = |network: &Network| {
            network.base & loopback.mask == loopback.base && network.mask >= loopback.mask
        };
        let open = networks
            .iter()
            .position(|network| !inside(network))
            .filter(|_| !config.can_leave_loopback);
        if let Some(&(address, bits)) = open.and_then(|open| config.networks.get(open)) {
            return Err(FarmError::Open(address, bits));
        }
        if !(1..=MAX_VARIANTS).contains(&config.variants) {
            return Err(FarmError::Variants);
        }
        let share = |share, name| Share::new(share).ok_or(FarmError::Share(name));
        let time = |time: Duration, name| {
            if time > MAX_DELAY {
                Err(FarmError::Time(name))
            } else {
                Ok(time)
            }
        };
        let conditions = Conditions {
            loss: share(config.loss, "loss")?,
            duplicates: share(config.duplicates, "duplicates")?,
            delay: time(config.delay, "delay")?,
            jitter: time(config.jitter, "jitter")?,
        };
        let mut farm = Self {
            networks,
            can_leave_loopback: config.can_leave_loopback,
            is_portable: config.is_portable,
            hash: SipHasher13::new_with_keys(config.seed, u64::from_be_bytes(*b"the farm")),
            silent: share(config.silent, "silent")?,
            refusing: share(config.refusing, "refusing")?,
            conditions,
            seed: config.seed,
            variants: config.variants,
            max_delayed: config.max_delayed,
            max_connections: config.max_connections.max(1),
            services: Vec::new(),
            ports: Vec::new(),
        };
        for (protocol, port) in config.ports {
            farm.plant(protocol, port)?;
        }
        if farm.ports.is_empty() {
            Err(FarmError::NoProtocol)
        } else {
            Ok(farm)
        }
    }

    /// Adds a protocol to a port.
    fn plant(&mut self, protocol: &'static dyn Protocol, port: u16) -> Result<(), FarmError> {
        let info = protocol.info();
        let known = self
            .services
            .iter()
            .position(|service| service.protocol.info().id == info.id);
        let service = match known {
            Some(service) => service,
            None => {
                // The keys protect nothing here, and the same seed must give the same bytes.
                let mut secret = [0; 16];
                secret[..8].copy_from_slice(&self.seed.to_be_bytes());
                let keys = Keys::new(secret);
                let build = |variant| {
                    protocol.responder(&self.sample(protocol, variant), &keys, &Options::default())
                };
                let responders = (0..self.variants).map(build).collect::<Result<_, _>>()?;
                self.services.push(ProtocolServers {
                    protocol,
                    responders,
                });
                self.services.len() - 1
            }
        };
        let is_connected = info.transport.is_connected();
        match self
            .ports
            .iter_mut()
            .find(|entry| port != 0 && (entry.port, entry.is_connected) == (port, is_connected))
        {
            Some(entry) if entry.services.contains(&service) => {}
            Some(entry) => entry.services.push(service),
            None => self.ports.push(PortServices {
                port,
                is_connected,
                services: vec![service],
            }),
        }
        Ok(())
    }

    /// Returns the status of the server at an address, as read by a client that requests
    /// everything. `None` if the server never replies or refuses connections of the protocol, or if
    /// the farm does not have the address or the protocol.
    pub fn status(&self, protocol: &dyn Protocol, address: SocketAddr) -> Option<Status> {
        let id = protocol.info().id;
        let service = self
            .services
            .iter()
            .find(|service| service.protocol.info().id == id)?;
        let IpAddr::V4(ip) = address.ip() else {
            return None;
        };
        let place = self.place(ip, address.port());
        let is_stream = service.protocol.info().transport.is_connected();
        let replies = !(place.is_silent || is_stream && place.is_refusing);
        (self.holds(ip) && replies).then(|| self.sample(service.protocol, place.variant))
    }

    /// Returns the protocols of a port.
    pub fn protocols(&self, bound: &BoundPort) -> impl Iterator<Item = &'static dyn Protocol> {
        let services = self
            .ports
            .get(bound.index())
            .into_iter()
            .flat_map(|entry| &entry.services);
        services
            .filter_map(|service| self.services.get(*service))
            .map(|service| service.protocol)
    }

    /// Returns the number of ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Returns the state of a port for datagrams. `index`: its index in the order in which
    /// [`FarmConfig::ports`] first names each port; TCP and UDP are different ports. `port`: its number, which selects the servers and, for port 0, is
    /// known only after binding.
    ///
    /// # Panics
    /// If `index` is not below [`Farm::ports`].
    pub fn port(&self, index: usize, port: u16) -> FarmPort<'_> {
        FarmPort {
            farm: self,
            services: &self.ports[index],
            port,
            // Each port has different random numbers.
            random: Random(self.hash_of(&(index as u64).to_be_bytes())),
            delayed: Queue::new(self.max_delayed),
            scratch: Vec::new(),
            counts: FarmCounts::default(),
        }
    }

    /// Returns whether an address belongs to the farm. The first and the last address of
    /// 127.0.0.0/8 are not hosts.
    fn holds(&self, ip: Ipv4Addr) -> bool {
        let inside = self
            .networks
            .iter()
            .any(|network| u32::from(ip) & network.mask == network.base);
        inside && !matches!(ip.octets(), [127, 0, 0, 0] | [127, 255, 255, 255])
    }

    /// Returns the number of addresses. Addresses of two networks count twice.
    fn address_count(&self) -> u64 {
        let sizes = self
            .networks
            .iter()
            .map(|network| u64::from(!network.mask) + 1);
        sizes.sum()
    }

    /// Returns the addresses of the servers, each once, in ascending order.
    fn addresses(&self) -> Vec<Ipv4Addr> {
        let all = self.networks.iter().flat_map(|network| {
            let last = network.base | !network.mask;
            (network.base..=last).map(Ipv4Addr::from)
        });
        let held: BTreeSet<Ipv4Addr> = all.filter(|address| self.holds(*address)).collect();
        held.into_iter().collect()
    }

    fn place(&self, ip: Ipv4Addr, port: u16) -> ServerSlot {
        let [a, b, c, d] = ip.octets();
        let [e, f] = port.to_be_bytes();
        let hash = self.hash_of(&[a, b, c, d, e, f]);
        let variant = (u64::from(hash as u32) * u64::from(self.variants)) >> 32;
        ServerSlot {
            variant: variant as u32,
            is_silent: self.silent.has((hash >> 32) as u32),
            is_refusing: self.refusing.has(Cookie(hash).derive(0) as u32),
        }
    }

    fn hash_of(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.hash;
        hasher.write(bytes);
        hasher.finish()
    }

    fn sample(&self, protocol: &dyn Protocol, variant: u32) -> Status {
        let mut hasher = self.hash;
        hasher.write(protocol.info().id.as_bytes());
        hasher.write_u32(variant);
        protocol.sample(hasher.finish())
    }
}

impl Network {
    fn new(address: Ipv4Addr, bits: u8) -> Option<Self> {
        let mask = match bits {
            0 => 0,
            1..=32 => u32::MAX << (32 - bits),
            _ => return None,
        };
        Some(Self {
            base: u32::from(address) & mask,
            mask,
        })
    }
}

/// The state of one port of a farm: delayed replies and counters. It does no I/O: the caller
/// provides datagrams and time.
pub struct FarmPort<'a> {
    farm: &'a Farm,
    services: &'a PortServices,
    port: u16,
    random: Random,
    delayed: Queue,
    /// Buffer for a delayed reply.
    scratch: Vec<u8>,
    counts: FarmCounts,
}

impl fmt::Debug for FarmPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarmPort")
            .field("port", &self.port)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Counters of a farm since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FarmCounts {
    /// Number of datagrams received.
    pub received: u64,
    /// Number of connections accepted.
    pub connections: u64,
    /// Replies sent. A duplicated reply counts twice.
    pub answered: u64,
    /// Bytes of payload received.
    pub bytes_in: u64,
    /// Bytes of payload sent.
    pub bytes_out: u64,
    /// Datagrams and connections to other addresses, or not from loopback.
    pub foreign: u64,
    /// Datagrams and connections to silent servers.
    pub silent: u64,
    /// Connections to refusing servers.
    pub refused: u64,
    /// Requests and replies lost by the simulated network.
    pub lost: u64,
    /// Replies duplicated by the simulated network.
    pub duplicated: u64,
    /// Replies dropped because too many were delayed.
    pub queue_full: u64,
    /// Replies that the system did not send.
    pub unsent: u64,
    /// Datagrams lost because the receive queue was full.
    pub overflows: u64,
    /// Datagrams and connections not answered, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

impl FarmCounts {
    /// Adds the counters of another port.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.connections += other.connections;
        self.answered += other.answered;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.foreign += other.foreign;
        self.silent += other.silent;
        self.refused += other.refused;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.queue_full += other.queue_full;
        self.unsent += other.unsent;
        self.overflows += other.overflows;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
    }
}

impl FarmPort<'_> {
    /// Processes a datagram from `from` to `to`. Replies without delay are appended to `out`.
    /// `now`: time since 1970, by a clock that never goes back.
    pub fn receive(
        &mut self,
        now: Duration,
        from: SocketAddr,
        to: Option<IpAddr>,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let farm = self.farm;
        self.counts.received += 1;
        self.counts.bytes_in += bytes.len() as u64;
        let to = match to {
            Some(IpAddr::V4(to))
                if farm.holds(to) && (farm.can_leave_loopback || from.ip().is_loopback()) =>
            {
                to
            }
            _ => {
                self.counts.foreign += 1;
                return;
            }
        };
        let place = farm.place(to, self.port);
        if place.is_silent {
            self.counts.silent += 1;
            return;
        }
        if self.is_lost() {
            return;
        }
        let epoch = Epoch::at(now.as_secs());
        let instant = farm.conditions.is_instant();
        let buffer = if instant {
            out.draft()
        } else {
            &mut self.scratch
        };
        if !instant {
            buffer.clear();
        }
        let start = buffer.len();
        let mut reason = "no query";
        for service in &self.services.services {
            let Some(responder) = farm.services[*service]
                .responders
                .get(place.variant as usize)
            else {
                continue;
            };
            match responder.answer(from, epoch, bytes, buffer) {
                Verdict::Pass => {}
                Verdict::Drop(dropped) => {
                    reason = dropped;
                    break;
                }
                Verdict::Reply { is_verified } => {
                    self.reply(now, from, to.into(), start, out);
                    let request = (bytes, is_verified);
                    self.continue_reply(&**responder, now, (from, to.into()), request, out);
                    return;
                }
            }
        }
        *self.counts.dropped.entry(reason).or_default() += 1;
    }

    /// Sends the further datagrams of a reply, each with the conditions of the network.
    fn continue_reply(
        &mut self,
        responder: &dyn Responder,
        now: Duration,
        (to, from): (SocketAddr, IpAddr),
        (request, is_verified): (&[u8], bool),
        out: &mut Outbox,
    ) {
        for index in 1..MAX_REPLY_DATAGRAMS {
            let buffer = if self.farm.conditions.is_instant() {
                out.draft()
            } else {
                self.scratch.clear();
                &mut self.scratch
            };
            let start = buffer.len();
            if !responder.continuation(request, is_verified, index, buffer) {
                return;
            }
            self.reply(now, to, from, start, out);
        }
    }

    /// Applies the network conditions to the reply in the draft, from `start` on, or in the scratch
    /// buffer.
    fn reply(
        &mut self,
        now: Duration,
        to: SocketAddr,
        from: IpAddr,
        start: usize,
        out: &mut Outbox,
    ) {
        if self.is_lost() {
            return;
        }
        let conditions = &self.farm.conditions;
        let twice = conditions.duplicates.has(self.random.next() as u32);
        self.counts.duplicated += u64::from(twice);
        if conditions.is_instant() {
            let length = out.commit(to, Some(from));
            self.count(length);
            if twice {
                out.push(to, Some(from), |arena| arena.extend_from_within(start..));
                self.count(length);
            }
            return;
        }
        for _ in 0..=u8::from(twice) {
            let due = now + conditions.time(&mut self.random);
            if !self.delayed.insert(due, to, from, &self.scratch) {
                self.counts.queue_full += 1;
            }
        }
    }

    /// Returns when the first delayed reply is due.
    pub fn due(&self) -> Option<Duration> {
        self.delayed.due()
    }

    /// Moves due replies to `out`, until that holds `limit` datagrams.
    pub fn release(&mut self, now: Duration, limit: usize, out: &mut Outbox) {
        while out.len() < limit
            && let Some(datagram) = self.delayed.take(now)
        {
            let length = datagram.bytes.len();
            out.push(datagram.to, Some(datagram.from), |arena| {
                arena.extend_from_slice(&datagram.bytes);
            });
            self.count(length);
        }
    }

    /// Returns the counters since the start.
    pub fn counts(&self) -> &FarmCounts {
        &self.counts
    }

    fn count(&mut self, length: usize) {
        self.counts.answered += 1;
        self.counts.bytes_out += length as u64;
    }

    fn is_lost(&mut self) -> bool {
        let lost = self.farm.conditions.loss.has(self.random.next() as u32);
        self.counts.lost += u64::from(lost);
        lost
    }
}

/// Clock of the time since 1970, advanced by the monotonic clock.
struct Clock {
    started: Instant,
    started_at: Duration,
}

impl Clock {
    fn start() -> Self {
        let started_at = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            started_at,
        }
    }

    fn now(&self) -> Duration {
        self.started_at + self.started.elapsed()
    }
}

#[cfg(test)]
mod tests;
