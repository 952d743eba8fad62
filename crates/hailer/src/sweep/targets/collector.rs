//! Targets of a sweep: parsed lists without duplicates and excluded addresses, in little memory.
//!
//! A line is a [`Target`] or a range of addresses:
//!
//! ```text
//!   play.example.com                     in each protocol of the sweep, at its own port
//!   192.0.2.7:25566                      in each protocol of the sweep, at this port
//!   ugp://[2001:db8::7]:22000            in this protocol
//!   rust://192.0.2.7   rust://192.0.2.0/24   as servers of this game, at its query port
//!   192.0.2.0/24   ugp://192.0.2.0/24:22000   2001:db8::/120   [2001:db8::/120]:25565
//!   192.0.2.1-192.0.2.9   192.0.2.1-192.0.2.9:25565   [2001:db8::1-2001:db8::9]:25565
//! ```
//!
//! A range includes its first and last address. A target of a game is queried in each protocol of
//! the game. [Sweeps](super) explain which port is tried. Only the first word of a line counts. Blank lines
//! and text after a `#` are ignored.
//!
//! Limits: 2^40 probes, 1,024 bytes for a target; 8 bytes of memory for a single IPv4 address, 20
//! for an IPv6 address, 56 for a range.

use super::exclude::{Ban, Exclusions};
use super::span::{Span, address, number, span};
use super::target_lines::read_lines;
use crate::support::address::{AddressFault, AddressPolicy};
use crate::sweep::engine::services::{
    self, DefaultKinds, KindNumber, Service, TargetKind, number_of_protocol, numbers_of_game,
};
use crate::sweep::{ListError, MAX_PROBES};
use crate::target::{Host, Target, TargetError};
use hailer_proto::Protocol;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::hash::Hasher;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// A set of probes, numbered by an index. IPv4 addresses take 8 bytes each, IPv6 addresses 20, and
/// ranges of any length 56.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Single IPv4 addresses: kind (16 bits), port (16), address (32). This and the other lists
    /// are sorted.
    four: Vec<u64>,
    six: Vec<Ipv6Target>,
    ranges: Vec<Range>,
    /// For each range, the number of addresses in the ranges before it.
    starts: Vec<u64>,
    in_ranges: u64,
    names: Vec<Name>,
    /// Protocols and games that the addresses are queried in.
    kinds: Vec<KindNumber>,
    skipped: Skipped,
}

/// An element of [`Targets`].
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// An address, and what to query it in.
    Address(SocketAddr, TargetKind),
    /// A name that must be resolved first.
    Name(&'a Name),
}

/// A host name to query in one protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    host: Arc<str>,
    kind: KindNumber,
    /// Zero: from an SRV record, or the default of the game or protocol.
    port: u16,
    typed: Arc<str>,
    /// Whether another name with the same `typed` reports a failed lookup.
    is_repeat: bool,
    /// Policy for its addresses, if the name is from the list of a master server.
    policy: Option<Arc<AddressPolicy>>,
}

/// Numbers of targets that were given but are not queried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Skipped {
    /// Given more than once.
    pub duplicates: u64,
    /// In the list of exclusions.
    pub excluded: u64,
    /// Addresses that no server can have.
    pub reserved: u64,
}

/// Collects targets and removes duplicates.
#[derive(Debug)]
pub struct Collector {
    defaults: DefaultKinds,
    four: Vec<u64>,
    six: Vec<Ipv6Target>,
    ranges: Vec<Range>,
    names: Vec<Name>,
    /// Servers of master servers, by address: what each is queried in.
    listed: BTreeMap<(u128, u16), Vec<Service>>,
    /// Those with a name.
    listed_names: BTreeSet<(Arc<str>, u16)>,
    /// Number of servers that were listed again.
    listed_again: u64,
}

impl Collector {
    /// Creates an empty collector. Targets without a game or protocol are queried in each of
    /// `protocols` or, if there are none, in the
    /// [default ones](hailer_proto::registry::DEFAULTS).
    ///
    /// # Errors
    ///
    /// Returns an error if the process has used too many protocols and games.
    pub fn new(protocols: &[&'static dyn Protocol]) -> Result<Self, ListError> {
        DefaultKinds::new(protocols).map(Self::with_defaults)
    }

    /// Creates an empty collector. `defaults`: what targets without a game or protocol are queried
    /// in.
    pub fn with_defaults(defaults: DefaultKinds) -> Self {
        Self {
            defaults,
            four: Vec::new(),
            six: Vec::new(),
            ranges: Vec::new(),
            names: Vec::new(),
            listed: BTreeMap::new(),
            listed_names: BTreeSet::new(),
            listed_again: 0,
        }
    }

    /// Adds one line.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is invalid.
    pub fn add(&mut self, line: &str) -> Result<(), TargetError> {
        match line
            .split('#')
            .next()
            .and_then(|text| text.split_ascii_whitespace().next())
        {
            Some(text) => self.add_word(text),
            None => Ok(()),
        }
    }

    /// Adds one server of the list of a master server. It is not queried again if another target,
    /// or a server listed before, has its address and query port, in whatever protocol. If it has a
    /// name, `policy` decides after the lookup whether it is queried.
    ///
    /// # Errors
    ///
    /// As [`Collector::add`].
    pub fn add_listed(
        &mut self,
        text: &str,
        policy: &Arc<AddressPolicy>,
    ) -> Result<(), TargetError> {
        let entry = Entry::parse(text, &self.defaults)?;
        let single = match &entry.destination {
            Destination::Addresses(span) if span.first == span.last => Some(span.first),
            _ => None,
        };
        let kinds = entry.kinds(&self.defaults);
        let services = kinds.iter().map(|&kind| entry.service(kind));
        if let Some(ip) = single
            && let Some(first) = services.clone().next()
        {
            match self.listed.entry((ip, first.port)) {
                btree_map::Entry::Occupied(_) => self.listed_again += 1,
                btree_map::Entry::Vacant(place) => {
                    place.insert(services.collect());
                }
            }
            return Ok(());
        }
        let before = self.names.len();
        self.add_entry(&entry);
        let added = self.names.get_mut(before..).unwrap_or_default();
        for name in added.iter_mut() {
            name.policy = Some(policy.clone());
        }
        if let Some(first) = added.first()
            && !self.listed_names.insert((first.host.clone(), first.port))
        {
            self.names.truncate(before);
            self.listed_again += 1;
        }
        Ok(())
    }

    /// Adds the lines of a file. The name appears in errors. `wrong` is called for each invalid
    /// line; if it returns an error, reading stops.
    ///
    /// # Errors
    ///
    /// Returns an error if the input cannot be read, or the error that `wrong` returned.
    pub fn read(
        &mut self,
        name: &str,
        input: impl Read,
        wrong: impl FnMut(ListError) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        read_lines(name, input, |text| self.add_word(text), wrong)
    }

    /// Returns the targets without duplicates and excluded addresses. The addresses of names are
    /// checked later, after the lookup.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more than 2^40 probes.
    pub fn finish(self, exclusions: &Exclusions) -> Result<Targets, ListError> {
        let Self {
            defaults: _,
            mut four,
            mut six,
            mut ranges,
            mut names,
            listed,
            listed_names,
            listed_again,
        } = self;
        let singles = four.len() + six.len() + names.len();
        if !listed_names.is_empty() {
            let given = names.iter().filter(|name| !name.is_listed());
            let given: BTreeSet<_> = given.map(|name| (name.host.clone(), name.port)).collect();
            names.retain(|name| {
                !name.is_listed() || !given.contains(&(name.host.clone(), name.port))
            });
        }
        let mut skipped = Skipped::default();

        four.sort_unstable();
        four.dedup();
        six.sort_unstable();
        six.dedup();
        names.sort_unstable();
        names.dedup_by(|next, kept| {
            (&next.host, next.kind, next.port) == (&kept.host, kept.kind, kept.port)
        });
        names.shrink_to_fit();
        mark_repeats(&mut names);
        let doubled_in_ranges = merge(&mut ranges);
        if !ranges.is_empty() {
            four.retain(|packed| !holds(&ranges, unpack_four(*packed)));
            six.retain(|six| !holds(&ranges, six.unpack()));
        }
        let left = four.len() + six.len() + names.len();
        skipped.duplicates = doubled_in_ranges.saturating_add((singles - left) as u64);
        let mut kinds = kinds_of(&four, &six, &ranges);
        skipped.duplicates += listed_again;
        let given = Addresses {
            four: &four,
            six: &six,
            ranges: &ranges,
            kinds: &kinds,
        };
        let (repeated, listed): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|((ip, _), services)| {
                let mut ports = services.iter().map(|service| service.port);
                ports.any(|port| given.has(*ip, port))
            });
        skipped.duplicates += repeated.len() as u64;
        for ((ip, _), services) in listed {
            for service in services {
                push_address(&mut four, &mut six, service, ip);
            }
        }
        four.sort_unstable();
        six.sort_unstable();
        kinds = kinds_of(&four, &six, &ranges);

        let mut is_allowed = |(_, address): (Service, u128)| match exclusions.ban(address) {
            None => true,
            Some(ban) => {
                skipped.add(ban);
                false
            }
        };
        four.retain(|packed| is_allowed(unpack_four(*packed)));
        six.retain(|six| is_allowed(six.unpack()));
        four.shrink_to_fit();
        six.shrink_to_fit();

        let mut kept = Vec::with_capacity(ranges.len());
        for Range { service, span } in ranges {
            let (reserved, excluded) =
                exclusions.cut(span, |span| kept.push(Range { service, span }));
            skipped.reserved = skipped.reserved.saturating_add(narrow(reserved));
            skipped.excluded = skipped.excluded.saturating_add(narrow(excluded));
        }
        kept.shrink_to_fit();
        let total = kept.iter().map(|range| range.span.len()).sum::<u128>()
            + (four.len() + six.len() + names.len()) as u128;
        if total > MAX_PROBES.into() {
            return Err(ListError::TooMany(total));
        }
        let mut in_ranges = 0;
        let mut starts = Vec::with_capacity(kept.len());
        for range in &kept {
            starts.push(in_ranges);
            in_ranges += narrow(range.span.len());
        }
        Ok(Targets {
            four,
            six,
            ranges: kept,
            starts,
            in_ranges,
            names,
            kinds,
            skipped,
        })
    }

    fn add_word(&mut self, text: &str) -> Result<(), TargetError> {
        let entry = Entry::parse(text, &self.defaults)?;
        self.add_entry(&entry);
        Ok(())
    }

    fn add_entry(&mut self, entry: &Entry) {
        for &kind in entry.kinds(&self.defaults) {
            match &entry.destination {
                Destination::Addresses(span) => {
                    let service = entry.service(kind);
                    if span.first == span.last {
                        push_address(&mut self.four, &mut self.six, service, span.first);
                    } else {
                        let span = *span;
                        push(&mut self.ranges, Range { service, span });
                    }
                }
                Destination::Name { .. } => self.names.extend(entry.name(kind)),
            }
        }
    }
}

/// Adds a single address to the list of its family.
fn push_address(four: &mut Vec<u64>, six: &mut Vec<Ipv6Target>, service: Service, ip: u128) {
    match address(ip) {
        IpAddr::V4(ip) => push(four, pack_four(service, ip)),
        IpAddr::V6(ip) => {
            let ip = ip.octets();
            push(six, Ipv6Target { service, ip });
        }
    }
}

/// Returns what sorted addresses are queried in, without duplicates.
fn kinds_of(four: &[u64], six: &[Ipv6Target], ranges: &[Range]) -> Vec<KindNumber> {
    let four = four.iter().map(|packed| unpack_four(*packed).0.kind);
    let six = six.iter().map(|six| six.service.kind);
    let ranges = ranges.iter().map(|range| range.service.kind);
    let mut kinds: Vec<KindNumber> = Vec::new();
    for kind in four.chain(six).chain(ranges) {
        if kinds.last() != Some(&kind) && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// Sorted addresses without names.
struct Addresses<'a> {
    four: &'a [u64],
    six: &'a [Ipv6Target],
    ranges: &'a [Range],
    kinds: &'a [KindNumber],
}

impl Addresses<'_> {
    /// Returns whether an address and query port is among them, in whatever protocol.
    fn has(&self, ip: u128, port: u16) -> bool {
        self.kinds.iter().any(|&kind| {
            let service = Service { kind, port };
            let is_single = match address(ip) {
                IpAddr::V4(ip) => self.four.binary_search(&pack_four(service, ip)).is_ok(),
                IpAddr::V6(ip) => {
                    let ip = ip.octets();
                    self.six.binary_search(&Ipv6Target { service, ip }).is_ok()
                }
            };
            is_single || holds(self.ranges, (service, ip))
        })
    }
}

impl Targets {
    /// Returns the number of probes.
    pub fn len(&self) -> u64 {
        (self.four.len() + self.six.len() + self.names.len()) as u64 + self.in_ranges
    }

    /// Returns whether there are no targets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the target with an index, or `None` after the last.
    pub fn item(&self, index: u64) -> Option<Item<'_>> {
        let mut at = index;
        let four = self.four.len() as u64;
        let six = self.six.len() as u64;
        if at < four {
            let packed = self.four[at as usize];
            let address =
                SocketAddr::from((Ipv4Addr::from_bits(packed as u32), (packed >> 32) as u16));
            return Some(Item::Address(
                address,
                services::kind((packed >> 48) as KindNumber),
            ));
        }
        at -= four;
        if at < self.in_ranges {
            let range = self.starts.partition_point(|start| *start <= at) - 1;
            let Range { service, span } = self.ranges[range];
            return Some(item((
                service,
                span.first + u128::from(at - self.starts[range]),
            )));
        }
        at -= self.in_ranges;
        if at < six {
            return Some(item(self.six[at as usize].unpack()));
        }
        self.names
            .get(usize::try_from(at - six).ok()?)
            .map(Item::Name)
    }

    /// Returns whether an address is also a target without a name, in whatever protocol.
    pub(crate) fn has_address(&self, address: SocketAddr) -> bool {
        let addresses = Addresses {
            four: &self.four,
            six: &self.six,
            ranges: &self.ranges,
            kinds: &self.kinds,
        };
        addresses.has(number(address.ip()), address.port())
    }

    /// Returns the numbers of targets that were given but are not in the set.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Adds everything that maps indices to probes to a digest.
    pub(crate) fn digest(&self, digest: &mut Digest) {
        digest.number(self.four.len() as u64);
        for packed in &self.four {
            digest.number(packed & ((1 << 48) - 1));
            digest.kind((packed >> 48) as KindNumber);
        }
        digest.number(self.six.len() as u64);
        self.six.iter().for_each(|six| digest.place(six.unpack()));
        digest.number(self.ranges.len() as u64);
        for Range { service, span } in &self.ranges {
            digest.place((*service, span.first));
            digest.place((*service, span.last));
        }
        for name in &self.names {
            digest.service(name.service());
            digest.text(&name.host);
        }
    }
}

impl Name {
    /// Returns the target as typed.
    pub fn typed(&self) -> &Arc<str> {
        &self.typed
    }

    /// Returns what to query it in.
    pub fn kind(&self) -> TargetKind {
        services::kind(self.kind)
    }

    /// Returns the port as typed, or the default port if the protocol has no SRV record. `None` if
    /// an SRV record may set it.
    pub fn port(&self) -> Option<u16> {
        (self.port > 0).then_some(self.port)
    }

    /// Returns whether another probe of the same target reports a failed lookup.
    pub(crate) fn is_repeat(&self) -> bool {
        self.is_repeat
    }

    /// Returns whether the name is from the list of a master server.
    pub(crate) fn is_listed(&self) -> bool {
        self.policy.is_some()
    }

    /// Checks an address that the name leads to.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), AddressFault> {
        self.policy
            .as_ref()
            .map_or(Ok(()), |policy| policy.check(address))
    }

    pub(crate) fn set_repeat(&mut self) {
        self.is_repeat = true;
    }

    pub(crate) fn service(&self) -> Service {
        Service {
            kind: self.kind,
            port: self.port,
        }
    }

    /// Returns the host name without scheme and port.
    pub fn host(&self) -> &Arc<str> {
        &self.host
    }
}

impl Skipped {
    pub(crate) fn add(&mut self, ban: Ban) {
        match ban {
            Ban::Reserved => self.reserved += 1,
            Ban::Excluded => self.excluded += 1,
        }
    }
}

/// A range of addresses with the same kind and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    service: Service,
    span: Span,
}

/// A single IPv6 address in 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ipv6Target {
    service: Service,
    ip: [u8; 16],
}

impl Ipv6Target {
    fn unpack(self) -> (Service, u128) {
        (self.service, u128::from_be_bytes(self.ip))
    }
}

fn pack_four(service: Service, ip: Ipv4Addr) -> u64 {
    u64::from(service.kind) << 48 | u64::from(service.port) << 32 | u64::from(ip.to_bits())
}

fn unpack_four(packed: u64) -> (Service, u128) {
    let service = Service {
        kind: (packed >> 48) as KindNumber,
        port: (packed >> 32) as u16,
    };
    (service, number(Ipv4Addr::from_bits(packed as u32).into()))
}

pub(crate) fn item((service, ip): (Service, u128)) -> Item<'static> {
    let kind = services::kind(service.kind);
    Item::Address(SocketAddr::new(address(ip), service.port), kind)
}

/// Adds an item. The list grows by half and not by double, which matters with ten million targets.
fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 2).max(1024));
    }
    list.push(item);
}

/// Sorts ranges and joins those with the same service that overlap or touch. Returns the number of
/// duplicate addresses.
fn merge(ranges: &mut Vec<Range>) -> u64 {
    ranges.sort_unstable();
    let mut doubled: u64 = 0;
    ranges.dedup_by(|next, kept| {
        let joins =
            next.service == kept.service && next.span.first <= kept.span.last.saturating_add(1);
        if joins {
            let both = kept.span.last.min(next.span.last);
            if next.span.first <= both {
                doubled = doubled.saturating_add(narrow(
                    Span {
                        first: next.span.first,
                        last: both,
                    }
                    .len(),
                ));
            }
            kept.span.last = kept.span.last.max(next.span.last);
        }
        joins
    });
    doubled
}

/// Marks all but the first name of each target. The names must be sorted by host.
fn mark_repeats(names: &mut [Name]) {
    for group in names.chunk_by_mut(|one, next| one.host == next.host) {
        for at in 1..group.len() {
            let (before, rest) = group.split_at_mut(at);
            rest[0].is_repeat = before.iter().any(|name| name.typed == rest[0].typed);
        }
    }
}

fn holds(ranges: &[Range], (service, address): (Service, u128)) -> bool {
    let after =
        ranges.partition_point(|range| (range.service, range.span.last) < (service, address));
    ranges
        .get(after)
        .is_some_and(|range| range.service == service && range.span.first <= address)
}

fn narrow(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A parsed line.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Empty if the line names neither a game nor a protocol.
    kinds: Vec<KindNumber>,
    port: Option<u16>,
    pub(crate) destination: Destination,
}

#[derive(Debug)]
pub(crate) enum Destination {
    Addresses(Span),
    Name { host: Arc<str>, typed: Arc<str> },
}

impl Entry {
    pub(crate) fn parse(text: &str, defaults: &DefaultKinds) -> Result<Self, TargetError> {
        let error = |problem: String| TargetError::new(text, problem);
        let (scheme, rest) = text.split_at(text.find("://").map_or(0, |at| at + 3));
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some(split) => split,
            // Text with several colons is an IPv6 address without a port.
            None if rest.matches(':').count() > 1 => (rest, ""),
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        if !scheme.is_empty() {
            let named: Result<Target, TargetError> = format!("{scheme}host").parse();
            named.map_err(|error| error.of(text))?;
        }
        // Browsers add a slash at the end of an address.
        let range = match host.trim_end_matches('/') {
            host if host.contains(['/', '-']) => span(host).map_err(error)?,
            _ => None,
        };
        // Parse the rest like any target, with the first address in place of the range.
        let mut target: Target = match range {
            None => text.parse()?,
            Some(Span { first, .. }) => {
                let first = Ipv6Addr::from_bits(first);
                format!("{scheme}[{first}]{port}")
                    .parse()
                    .map_err(|error: TargetError| error.of(text))?
            }
        };
        let kinds = match (target.game, target.protocol) {
            (Some(game), _) => numbers_of_game(game),
            (None, Some(protocol)) => number_of_protocol(protocol).map(|number| vec![number]),
            (None, None) => Ok(Vec::new()),
        };
        let kinds = kinds.map_err(|problem| error(problem.to_string()))?;
        if kinds.is_empty()
            && let Some(game) = defaults.game
        {
            target = target.with_game(game)?;
        }
        let destination = match (range, &target.host) {
            (Some(span), _) if span.len() > MAX_PROBES.into() => {
                return Err(error(format!(
                    "too many addresses: a sweep asks at most {MAX_PROBES}"
                )));
            }
            (Some(span), _) => Destination::Addresses(span),
            (None, Host::Address(ip)) => Destination::Addresses(Span {
                first: number(*ip),
                last: number(*ip),
            }),
            (None, Host::Name(host)) => {
                let host: Arc<str> = host.as_str().into();
                let typed = if *text == *host {
                    host.clone()
                } else {
                    text.into()
                };
                Destination::Name { host, typed }
            }
        };
        Ok(Self {
            kinds,
            port: target.port_without_srv(),
            destination,
        })
    }

    /// Returns the numbers of the kinds to query it in.
    pub(crate) fn kinds<'a>(&'a self, defaults: &'a DefaultKinds) -> &'a [KindNumber] {
        match &self.kinds[..] {
            [] => &defaults.numbers,
            some => some,
        }
    }

    pub(crate) fn service(&self, kind: KindNumber) -> Service {
        let port = self.port;
        Service {
            kind,
            port: port.unwrap_or_else(|| services::kind(kind).default_port()),
        }
    }

    pub(crate) fn name(&self, number: KindNumber) -> Option<Name> {
        let Destination::Name { host, typed } = &self.destination else {
            return None;
        };
        let kind = services::kind(number);
        let port = match (self.port, kind.srv()) {
            (Some(port), _) => port,
            (None, Some(_)) => 0,
            (None, None) => kind.default_port(),
        };
        Some(Name {
            host: host.clone(),
            kind: number,
            port,
            typed: typed.clone(),
            is_repeat: false,
            policy: None,
        })
    }
}

/// Digest of the targets. The same for the same targets, in every run and on every machine.
pub(crate) struct Digest(SipHasher13);

impl Digest {
    /// Creates a digest. `of` is the kind of source.
    pub(crate) fn new(of: &str) -> Self {
        let mut digest = Self(SipHasher13::new());
        digest.text(of);
        digest
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.write(&number.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.write(text.as_bytes());
    }

    fn service(&mut self, service: Service) {
        self.number(u64::from(service.port));
        self.kind(service.kind);
    }

    /// Adds the ids of a kind, because its number differs between versions and processes.
    pub(crate) fn kind(&mut self, number: KindNumber) {
        let TargetKind { protocol, game } = services::kind(number);
        self.text(protocol.info().id);
        if let Some(game) = game {
            self.text(game.id);
        }
    }

    fn place(&mut self, (service, address): (Service, u128)) {
        self.service(service);
        self.span(Span {
            first: address,
            last: address,
        });
    }

    pub(crate) fn span(&mut self, span: Span) {
        self.0.write(&span.first.to_le_bytes());
        self.0.write(&span.last.to_le_bytes());
    }

    pub(crate) fn end(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::catalog;
    use hailer_proto::games::{Game, QueryPort};
    use hailer_proto::registry;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn collect(lines: &str, exclusions: &Exclusions) -> Result<Targets, ListError> {
        let mut collector = Collector::new(&[])?;
        collector.read("list.txt", lines.as_bytes(), Err)?;
        collector.finish(exclusions)
    }

    fn scheme(kind: TargetKind) -> &'static str {
        kind.protocol.info().id
    }

    /// Returns every item as text, in the order of the indices.
    fn texts(targets: &Targets) -> Vec<String> {
        let text = |index| match targets.item(index).unwrap() {
            Item::Address(address, kind) => format!("{}://{address}", scheme(kind)),
            Item::Name(name) => match name.port() {
                None => format!("{}://{}", scheme(name.kind()), name.host()),
                Some(port) => format!("{}://{}:{port}", scheme(name.kind()), name.host()),
            },
        };
        assert!(targets.item(targets.len()).is_none());
        (0..targets.len()).map(text).collect()
    }

    #[test]
    fn parses_every_form_of_a_line() {
        let forms: &[(&str, &[&str])] = &[
            ("ugp://192.0.2.7", &["ugp://192.0.2.7:22000"]),
            (
                "192.0.2.7",
                &[
                    "minecraft-query://192.0.2.7:25565",
                    "ugp://192.0.2.7:22000",
                    "onequery://192.0.2.7:5520",
                ],
            ),
            (
                "  ugp://192.0.2.7:1\r\n\n# ugp://host\n",
                &["ugp://192.0.2.7:1"],
            ),
            (
                "\u{FEFF}ugp://192.0.2.7:1 Alice's # server",
                &["ugp://192.0.2.7:1"],
            ),
            ("ugp://192.0.2.7:1#x", &["ugp://192.0.2.7:1"]),
            ("ugp://[::ffff:192.0.2.7]:1", &["ugp://192.0.2.7:1"]),
            ("ugp://[2001:db8::7]:1", &["ugp://[2001:db8::7]:1"]),
            (
                "UGP://192.0.2.8/31",
                &["ugp://192.0.2.8:22000", "ugp://192.0.2.9:22000"],
            ),
            (
                "ugp://192.0.2.9/31:1/",
                &["ugp://192.0.2.8:1", "ugp://192.0.2.9:1"],
            ),
            ("ugp://192.0.2.9/32:1", &["ugp://192.0.2.9:1"]),
            (
                "ugp://192.0.2.255-192.0.3.0:1",
                &["ugp://192.0.2.255:1", "ugp://192.0.3.0:1"],
            ),
            (
                "ugp://2001:db8::/127",
                &["ugp://[2001:db8::]:22000", "ugp://[2001:db8::1]:22000"],
            ),
            (
                "ugp://[2001:db8::1/127]:1",
                &["ugp://[2001:db8::]:1", "ugp://[2001:db8::1]:1"],
            ),
            (
                "ugp://[2001:db8::1-2001:db8::2]:1",
                &["ugp://[2001:db8::1]:1", "ugp://[2001:db8::2]:1"],
            ),
            ("ugp://Play.example.com", &["ugp://play.example.com:22000"]),
            (
                "minecraft-query://play.example.com/",
                &["minecraft-query://play.example.com"],
            ),
            (
                "ugp://192.0.2.7-static.example.com:1",
                &["ugp://192.0.2.7-static.example.com:1"],
            ),
            ("ugp://[fe80::1%eth0]:1", &["ugp://fe80::1%eth0:1"]),
            ("gtac://192.0.2.7", &["ugp://192.0.2.7:22000"]),
            (
                "minecraft-query://192.0.2.7",
                &["minecraft-query://192.0.2.7:25565"],
            ),
            // The query port of a game: derived from its own port, and otherwise as given.
            ("sweep-test://192.0.2.7", &["ugp://192.0.2.7:2457"]),
            ("sweep-test://192.0.2.7:2456", &["ugp://192.0.2.7:2457"]),
            ("sweep-test://192.0.2.7:2460", &["ugp://192.0.2.7:2460"]),
            (
                "sweep-test://192.0.2.8/31",
                &["ugp://192.0.2.8:2457", "ugp://192.0.2.9:2457"],
            ),
            ("sweep-test://host.example", &["ugp://host.example:2457"]),
            // An SRV record may name the port.
            (
                "sweep-srv://host.example",
                &["minecraft-query://host.example"],
            ),
            // Every protocol of the game.
            (
                "sweep-two://192.0.2.7",
                &["onequery://192.0.2.7:2457", "ugp://192.0.2.7:2457"],
            ),
        ];
        let game = Game {
            id: "sweep-test",
            name: "Sweep Test",
            protocols: &["ugp"],
            port: Some(2456),
            query: QueryPort::Offset(1),
            srv: None,
            quirks: &[],
            sources: "",
            aliases: &[],
        };
        catalog::add_game(game).unwrap();
        let with_srv = Game {
            id: "sweep-srv",
            protocols: &["minecraft-query"],
            query: QueryPort::Same,
            srv: Some("_minecraft._tcp"),
            ..game
        };
        catalog::add_game(with_srv).unwrap();
        let with_two = Game {
            id: "sweep-two",
            protocols: &["onequery", "ugp"],
            ..game
        };
        catalog::add_game(with_two).unwrap();
        for (lines, items) in forms {
            let targets = collect(lines, &Exclusions::default())
                .unwrap_or_else(|error| panic!("{lines}: {error}"));
            assert_eq!(texts(&targets), *items, "{lines}");
        }
    }

    #[test]
    fn a_default_game_applies_to_targets_without_a_scheme() {
        let game = Game {
            id: "sweep-default",
            name: "Sweep Default",
            protocols: &["ugp"],
            port: Some(3000),
            query: QueryPort::Offset(2),
            srv: None,
            quirks: &[],
            sources: "",
            aliases: &[],
        };
        let game = catalog::add_game(game).unwrap();
        let defaults = DefaultKinds::of_game(game).unwrap();
        let mut collector = Collector::with_defaults(defaults);
        for line in [
            "192.0.2.1",
            "192.0.2.2:3000",
            "192.0.2.3:7",
            "192.0.2.4/31",
            "onequery://192.0.2.6",
        ] {
            collector.add(line).unwrap();
        }
        let targets = collector.finish(&Exclusions::default()).unwrap();
        let mut found = texts(&targets);
        found.sort();
        assert_eq!(
            found,
            [
                "onequery://192.0.2.6:5520",
                "ugp://192.0.2.1:3002",
                "ugp://192.0.2.2:3002",
                "ugp://192.0.2.3:7",
                "ugp://192.0.2.4:3002",
                "ugp://192.0.2.5:3002",
            ]
        );
        let games = (0..targets.len()).filter_map(|index| match targets.item(index)? {
            Item::Address(_, kind) => kind.game,
            Item::Name(_) => None,
        });
        assert_eq!(games.filter(|found| found.id == game.id).count(), 5);
        let squad = catalog::game("squad").unwrap();
        let error = DefaultKinds::of_game(squad).unwrap_err().to_string();
        assert!(error.contains("Epic"), "{error}");
    }

    #[test]
    fn a_wrong_line_is_named_with_its_reason() {
        let long = "a".repeat(2000);
        for (line, reason) in [
            ("192.0.2.0/33", "at most 32"),
            ("192.0.2.0/+8", "at most 32"),
            ("2001:db8::/129", "at most 128"),
            ("2001:db8::/64", "too many addresses"),
            ("example.com/24", "before the slash"),
            ("192.0.2.0/24:0", "1 to 65535"),
            ("[2001:db8::/120", "before the slash"),
            ("[2001:db8::/120]1", "colon"),
            ("192.0.2.9-192.0.2.1", "ends before"),
            ("192.0.2.1-9", "in full"),
            ("192.0.2.1-2001:db8::", "two families"),
            ("gopher://192.0.2.0/24", "unknown protocol"),
            ("192.0.2.1,192.0.2.2", "with spaces"),
            (&long, "longer than"),
        ] {
            let error = collect(&format!("# one\n{line}\n"), &Exclusions::default())
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("list.txt:2: ") && error.contains(reason),
                "{line}: {error}"
            );
            assert!(error.len() < 600, "{error}");
        }
        let bytes: &[u8] = b"caf\xE9.example.com";
        let error = Collector::new(&[])
            .unwrap()
            .read("list.txt", bytes, Err)
            .unwrap_err()
            .to_string();
        assert!(error.contains("UTF-8"), "{error}");
        let mut wrong = 0;
        let count = |_| {
            wrong += 1;
            Ok(())
        };
        let mut collector = Collector::new(&[]).unwrap();
        collector
            .read(
                "list.txt",
                format!("a..b\nugp://host # {long}\n{long}\nhost:0").as_bytes(),
                count,
            )
            .unwrap();
        let targets = collector.finish(&Exclusions::default()).unwrap();
        assert_eq!(
            (wrong, texts(&targets)),
            (3, vec!["ugp://host:22000".into()])
        );
    }

    #[test]
    fn refuses_unsupported_sweeps() {
        let lines = "ugp://[2001:db8::/88]\nugp://[2001:db8:1::/88]";
        assert!(matches!(
            collect(lines, &Exclusions::default()),
            Err(ListError::TooMany(_))
        ));
        assert_eq!(
            collect("ugp://[2001:db8::/88]", &Exclusions::default())
                .unwrap()
                .len(),
            1 << 40
        );
    }

    #[test]
    fn one_question_has_one_index_however_it_is_written() {
        let lines = "127.0.0.1\n127.0.0.1:25565\nminecraft-query://127.0.0.1\n[::ffff:127.0.0.1]:25565\n\
                     127.0.0.0/30:25565\n127.0.0.1-127.0.0.2\nhost\nHOST\nhost:25565\nugp://host:22000";
        let targets = collect(lines, &Exclusions::default()).unwrap();
        let items: BTreeSet<String> = texts(&targets).into_iter().collect();
        assert_eq!(items.len() as u64, targets.len(), "{items:?}");
        // Port 25565: four addresses in three protocols. Ports 22000 and 5520: two addresses each.
        // Names: one at port 25565 and one at its default port, in three protocols each.
        assert_eq!(targets.len(), 12 + 4 + 6);
        assert_eq!(
            targets.skipped().duplicates,
            3 + 3 + 1 + 3 + 12 + 6 + 3 + 3 + 3 + 1 - targets.len()
        );
    }

    /// Part of the addresses of a small universe: its text and its addresses.
    fn part() -> impl Strategy<Value = (String, Vec<IpAddr>)> {
        let bases = prop::sample::select(vec!["10.0.0.0", "223.255.255.248", "2001:db8::"]);
        (bases, 0_u128..16, 0_u128..16, 0_u32..3, any::<bool>()).prop_map(
            |(base, one, other, kind, is_bare)| {
                let base = number(base.parse().unwrap());
                let start = base + one.min(other);
                let end = base + one.max(other);
                let first = address(start);
                let last = address(end);
                let bits = if first.is_ipv4() { 32 } else { 128 };
                let (text, from, to) = match kind {
                    0 => (first.to_string(), start, start),
                    1 => (format!("{first}/{}", bits - 2), start & !3, start | 3),
                    _ => (format!("{first}-{last}"), start, end),
                };
                let text = if is_bare || first.is_ipv4() {
                    text
                } else {
                    format!("[{text}]")
                };
                (text, (from..=to).map(address).collect())
            },
        )
    }

    proptest! {
        #[test]
        fn matches_a_plain_set(
            lines in prop::collection::vec((part(), prop::option::of(1_u16..3), 0_usize..4), 0..24),
            bans in prop::collection::vec(part(), 0..6),
        ) {
            let mut collector = Collector::new(&[]).unwrap();
            let mut exclusions = Exclusions::default();
            let banned: BTreeSet<IpAddr> = bans.iter().flat_map(|(_, addresses)| addresses).copied().collect();
            for (text, _) in &bans {
                exclusions.add(text.trim_matches(['[', ']'])).unwrap();
            }
            let mut model = BTreeSet::new();
            let mut typed = 0;
            for ((text, addresses), port, protocol) in &lines {
                let protocols: Vec<_> = registry::defaults().collect();
                let chosen = protocols.get(*protocol);
                let scheme = chosen.map_or(String::new(), |protocol| format!("{}://", protocol.info().id));
                let is_bare = text.contains("::") && !text.starts_with('[');
                let port = port.filter(|_| !is_bare);
                collector.add(&format!("{scheme}{text}{}", port.map_or(String::new(), |p| format!(":{p}")))).unwrap();
                for protocol in protocols.iter().filter(|p| chosen.is_none_or(|c| c.info().id == p.info().id)) {
                    for address in addresses {
                        let socket = SocketAddr::new(*address, port.unwrap_or(protocol.info().port));
                        typed += 1;
                        model.insert(format!("{}://{socket}", protocol.info().id));
                    }
                }
            }
            let all = model.len() as u64;
            let ip = |text: &String| text.split_once("://").unwrap().1.parse::<SocketAddr>().unwrap().ip();
            let multicast: IpAddr = "224.0.0.0".parse().unwrap();
            let is_reserved = |ip: IpAddr| ip.is_ipv4() && ip >= multicast;
            let reserved = model.iter().filter(|text| is_reserved(ip(text))).count() as u64;
            model.retain(|text| !banned.contains(&ip(text)) && !is_reserved(ip(text)));

            let targets = collector.finish(&exclusions).unwrap();
            let items = texts(&targets);
            prop_assert_eq!(items.len(), model.len());
            prop_assert_eq!(items.into_iter().collect::<BTreeSet<_>>(), model);
            let excluded = all - reserved - targets.len();
            prop_assert_eq!(targets.skipped(), Skipped { duplicates: typed - all, excluded, reserved });
        }
    }

    /// Eight bytes each at the end, and at most half as many again while they are collected.
    #[test]
    fn single_addresses_are_kept_small() {
        let mut collector = Collector::new(&[registry::find("ugp").unwrap()]).unwrap();
        for number in 0..100_000_u32 {
            collector
                .add(&Ipv4Addr::from_bits(0x0A00_0000 + number / 2 * 7).to_string())
                .unwrap();
        }
        assert!(collector.four.capacity() <= 150_000);
        let targets = collector.finish(&Exclusions::default()).unwrap();
        assert_eq!((targets.len(), targets.four.capacity()), (50_000, 50_000));
    }
}
