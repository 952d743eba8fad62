//! What a sweep asks: lists of targets, read, cleared of what is double or excluded, and kept small.
//!
//! A line is what [`Target`] reads, or a range of addresses:
//!
//! ```text
//!   play.example.com                     in each protocol of the sweep, at its own port
//!   192.0.2.7:25566                      in each protocol of the sweep, at this port
//!   ugp://[2001:db8::7]:22000            in this protocol
//!   192.0.2.0/24   ugp://192.0.2.0/24:22000   2001:db8::/120   [2001:db8::/120]:25565
//!   192.0.2.1-192.0.2.9   192.0.2.1-192.0.2.9:25565   [2001:db8::1-2001:db8::9]:25565
//! ```
//!
//! A range holds all of its addresses, first and last included. Blank lines, what follows a `#` and all but the first
//! word of a line mean nothing.

use super::exclude::{Ban, Exclusions};
use super::services::{self, MAX_PROTOCOLS, Service, number_of};
use crate::target::{Host, Target, TargetError};
use hailer_proto::{Info, Protocol, Transport, registry};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The most questions of one sweep, and addresses of one range: eighty years at 400 a second.
const MAX_QUESTIONS: u64 = 1 << 40;
/// No target is longer.
const MAX_LINE: usize = 1024;

/// A set of questions, each with a number: its index. IPv4 addresses take 8 bytes each, IPv6 addresses 20, ranges 48 bytes
/// in all, whatever they hold.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Single IPv4 addresses: protocol (8 bits), port (16), address (32). This and what follows is sorted.
    four: Vec<u64>,
    six: Vec<Six>,
    ranges: Vec<Range>,
    /// How many addresses the ranges before the one of the same place hold.
    starts: Vec<u64>,
    in_ranges: u64,
    names: Vec<Name>,
    skipped: Skipped,
}

/// One of a set of targets.
#[derive(Clone, Copy)]
pub enum Item<'a> {
    /// An address, and in which protocol to ask.
    Address(SocketAddr, &'static dyn Protocol),
    /// A name to be looked up.
    Name(&'a Name),
}

/// A name that is asked in one protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    host: Arc<str>,
    protocol: u8,
    /// 0: as an SRV record or the protocol has it.
    port: u16,
    typed: Arc<str>,
    /// Another name has the same `typed` and reports failures of the lookup.
    is_repeat: bool,
}

/// What was typed and is not asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Said more than once.
    pub duplicates: u64,
    /// In the list of exclusions.
    pub excluded: u64,
    /// Addresses where no server can be.
    pub reserved: u64,
}

/// Why a list cannot be swept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A line cannot be understood.
    #[error("{file}:{line}: {error}")]
    Line {
        /// The list's name.
        file: Arc<str>,
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        error: TargetError,
    },
    /// The list cannot be read.
    #[error("{file}: cannot be read: {cause}")]
    Read {
        /// The list's name.
        file: Arc<str>,
        /// What the operating system says.
        cause: io::Error,
    },
    /// A protocol to sweep with is none that travels in datagrams.
    #[error("{} is spoken over {}, and a sweep asks over UDP; choose from {}", .0.title, .0.transport, datagram_ids())]
    Stream(&'static Info),
    /// The process has used too many protocols.
    #[error("a process can sweep with at most {MAX_PROTOCOLS} protocols")]
    TooManyProtocols,
    /// More than 2^40 questions.
    #[error("{0} questions are too many: a sweep asks at most {MAX_QUESTIONS}; split the ranges")]
    TooMany(u128),
}

/// Collects targets.
#[derive(Debug)]
pub struct Collector {
    defaults: Defaults,
    four: Vec<u64>,
    six: Vec<Six>,
    ranges: Vec<Range>,
    names: Vec<Name>,
}

impl Collector {
    /// Collects targets; those that name no protocol are asked in each of these, or, if these are none, in all that travel
    /// in datagrams.
    pub fn new(protocols: &[&'static dyn Protocol]) -> Result<Self, ListError> {
        let defaults = Defaults::new(protocols)?;
        Ok(Self {
            defaults,
            four: Vec::new(),
            six: Vec::new(),
            ranges: Vec::new(),
            names: Vec::new(),
        })
    }

    /// Adds what one line says.
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

    /// Adds the lines of a file. The name is for errors; of a wrong line `wrong` decides whether it ends the reading:
    /// `Err` does it.
    pub fn read(
        &mut self,
        name: &str,
        input: impl Read,
        wrong: impl FnMut(ListError) -> Result<(), ListError>,
    ) -> Result<(), ListError> {
        read_lines(name, input, |text| self.add_word(text), wrong)
    }

    /// The set of all that was added, without what is double or excluded. Of a name, what it leads to is seen later.
    pub fn finish(self, exclusions: &Exclusions) -> Result<Targets, ListError> {
        let Self {
            defaults: _,
            mut four,
            mut six,
            mut ranges,
            mut names,
        } = self;
        let singles = four.len() + six.len() + names.len();
        let mut skipped = Skipped::default();

        four.sort_unstable();
        four.dedup();
        six.sort_unstable();
        six.dedup();
        names.sort_unstable();
        names.dedup_by(|next, kept| {
            (&next.host, next.protocol, next.port) == (&kept.host, kept.protocol, kept.port)
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
        if total > MAX_QUESTIONS.into() {
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
            skipped,
        })
    }

    fn add_word(&mut self, text: &str) -> Result<(), TargetError> {
        let entry = Entry::parse(text)?;
        for &protocol in self.defaults.of(&entry) {
            match &entry.whom {
                Whom::Addresses(span) => {
                    let service = entry.service(protocol);
                    match (span.first == span.last, address(span.first)) {
                        (true, IpAddr::V4(ip)) => push(&mut self.four, pack_four(service, ip)),
                        (true, IpAddr::V6(ip)) => push(
                            &mut self.six,
                            Six {
                                service,
                                ip: ip.octets(),
                            },
                        ),
                        (false, _) => push(
                            &mut self.ranges,
                            Range {
                                service,
                                span: *span,
                            },
                        ),
                    }
                }
                Whom::Name { .. } => self.names.extend(entry.name(protocol)),
            }
        }
        Ok(())
    }
}

impl Targets {
    /// How many questions there are.
    pub fn len(&self) -> u64 {
        (self.four.len() + self.six.len() + self.names.len()) as u64 + self.in_ranges
    }

    /// Whether there is nobody to ask.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The target with this index; `None` behind the last.
    pub fn item(&self, index: u64) -> Option<Item<'_>> {
        let (mut at, four, six) = (index, self.four.len() as u64, self.six.len() as u64);
        if at < four {
            let packed = self.four[at as usize];
            let address =
                SocketAddr::from((Ipv4Addr::from_bits(packed as u32), (packed >> 32) as u16));
            return Some(Item::Address(
                address,
                services::protocol((packed >> 48) as u8),
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

    /// What was typed and is not among them.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Adds all that decides which index means what.
    pub(super) fn digest(&self, digest: &mut Digest) {
        digest.number(self.four.len() as u64);
        for packed in &self.four {
            digest.number(*packed);
            digest.added((packed >> 48) as u8);
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
    /// As it was typed.
    pub fn typed(&self) -> &Arc<str> {
        &self.typed
    }

    /// In which protocol it is asked.
    pub fn protocol(&self) -> &'static dyn Protocol {
        services::protocol(self.protocol)
    }

    /// The port that was typed, or the protocol's own if no SRV record can tell another.
    pub fn port(&self) -> Option<u16> {
        (self.port > 0).then_some(self.port)
    }

    /// Whether another probe of the same target reports a failed lookup.
    pub(super) fn is_repeat(&self) -> bool {
        self.is_repeat
    }

    pub(super) fn set_repeat(&mut self) {
        self.is_repeat = true;
    }

    pub(super) fn service(&self) -> Service {
        Service {
            protocol: self.protocol,
            port: self.port,
        }
    }

    /// The name alone.
    pub fn host(&self) -> &Arc<str> {
        &self.host
    }
}

impl Skipped {
    pub(super) fn add(&mut self, ban: Ban) {
        match ban {
            Ban::Reserved => self.reserved += 1,
            Ban::Excluded => self.excluded += 1,
        }
    }
}

/// Addresses, first and last included, as [`number`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) first: u128,
    pub(super) last: u128,
}

impl Span {
    /// How many; one too few for all addresses that there are, which no list asks.
    pub(super) fn len(self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }
}

/// A range of addresses that are asked in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    service: Service,
    span: Span,
}

/// A single IPv6 address, in 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Six {
    service: Service,
    ip: [u8; 16],
}

impl Six {
    fn unpack(self) -> (Service, u128) {
        (self.service, u128::from_be_bytes(self.ip))
    }
}

fn pack_four(service: Service, ip: Ipv4Addr) -> u64 {
    u64::from(service.protocol) << 48 | u64::from(service.port) << 32 | u64::from(ip.to_bits())
}

fn unpack_four(packed: u64) -> (Service, u128) {
    let service = Service {
        protocol: (packed >> 48) as u8,
        port: (packed >> 32) as u16,
    };
    (service, number(Ipv4Addr::from_bits(packed as u32).into()))
}

pub(super) fn item((service, ip): (Service, u128)) -> Item<'static> {
    let protocol = services::protocol(service.protocol);
    Item::Address(SocketAddr::new(address(ip), service.port), protocol)
}

/// An address as a number: of IPv4, as IPv6 maps it, so that both ways to write one are one.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => 0xFFFF_0000_0000 | u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

pub(super) fn address(number: u128) -> IpAddr {
    Ipv6Addr::from_bits(number).to_canonical()
}

/// Grows by half, not by double: with ten million targets that is memory one can see.
fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 2).max(1024));
    }
    list.push(item);
}

/// Sorts ranges and joins those of one service that overlap or touch; returns how many addresses were double.
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

/// Marks all but the first name of each target. The names are sorted by host.
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

/// In which protocols targets are asked that name none.
#[derive(Clone, Debug)]
pub(super) struct Defaults(Vec<u8>);

impl Defaults {
    pub(super) fn new(protocols: &[&'static dyn Protocol]) -> Result<Self, ListError> {
        if let Some(stream) = protocols
            .iter()
            .find(|protocol| protocol.info().transport == Transport::Stream)
        {
            return Err(ListError::Stream(stream.info()));
        }
        let mut defaults: Vec<u8> = match protocols {
            [] => registry::datagram().filter_map(number_of).collect(),
            some => some
                .iter()
                .map(|protocol| number_of(*protocol).ok_or(ListError::TooManyProtocols))
                .collect::<Result<_, _>>()?,
        };
        defaults.sort_unstable();
        defaults.dedup();
        Ok(Self(defaults))
    }

    pub(super) fn of<'a>(&'a self, entry: &'a Entry) -> &'a [u8] {
        entry
            .protocol
            .as_ref()
            .map_or(&self.0, std::slice::from_ref)
    }

    pub(super) fn digest(&self, digest: &mut Digest) {
        for protocol in &self.0 {
            digest.number(u64::from(*protocol));
            digest.added(*protocol);
        }
    }
}

fn datagram_ids() -> String {
    let ids: Vec<&str> = registry::datagram()
        .map(|protocol| protocol.info().id)
        .collect();
    ids.join(", ")
}

/// What one line says.
#[derive(Debug)]
pub(super) struct Entry {
    protocol: Option<u8>,
    port: Option<u16>,
    pub(super) whom: Whom,
}

#[derive(Debug)]
pub(super) enum Whom {
    Addresses(Span),
    Name { host: Arc<str>, typed: Arc<str> },
}

impl Entry {
    pub(super) fn parse(text: &str) -> Result<Self, TargetError> {
        let error = |problem: String| TargetError::new(text, problem);
        let (scheme, rest) = text.split_at(text.find("://").map_or(0, |at| at + 3));
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some(split) => split,
            // Colons of IPv6 are more than one.
            None if rest.matches(':').count() > 1 => (rest, ""),
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        // A slash at the end is what browsers add to an address.
        let range = match host.trim_end_matches('/') {
            host if host.contains(['/', '-']) => span(host).map_err(error)?,
            _ => None,
        };
        // Whatever is not the range is read as in any target, with the range's first address in its place.
        let target: Target = match range {
            None => text.parse()?,
            Some(Span { first, .. }) => {
                let first = Ipv6Addr::from_bits(first);
                format!("{scheme}[{first}]{port}")
                    .parse()
                    .map_err(|error: TargetError| error.of(text))?
            }
        };
        if let Some(protocol) = target.protocol
            && protocol.info().transport == Transport::Stream
        {
            return Err(error(ListError::Stream(protocol.info()).to_string()));
        }
        let whom = match (range, &target.host) {
            (Some(span), _) if span.len() > MAX_QUESTIONS.into() => {
                return Err(error(format!(
                    "too many addresses: a sweep asks at most {MAX_QUESTIONS}"
                )));
            }
            (Some(span), _) => Whom::Addresses(span),
            (None, Host::Address(ip)) => Whom::Addresses(Span {
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
                Whom::Name { host, typed }
            }
        };
        Ok(Self {
            protocol: target.protocol.and_then(number_of),
            port: target.port,
            whom,
        })
    }

    pub(super) fn service(&self, protocol: u8) -> Service {
        let own = services::protocol(protocol).info().port;
        Service {
            protocol,
            port: self.port.unwrap_or(own),
        }
    }

    pub(super) fn name(&self, protocol: u8) -> Option<Name> {
        let Whom::Name { host, typed } = &self.whom else {
            return None;
        };
        let info = services::protocol(protocol).info();
        let port = match (self.port, info.srv) {
            (Some(port), _) => port,
            (None, Some(_)) => 0,
            (None, None) => info.port,
        };
        Some(Name {
            host: host.clone(),
            protocol,
            port,
            typed: typed.clone(),
            is_repeat: false,
        })
    }
}

/// The addresses that a text means: one, a network, or from one to another. `None`: it is a name.
pub(super) fn span(text: &str) -> Result<Option<Span>, String> {
    let ip = |text: &str| text.parse::<IpAddr>().ok();
    if let Some((network, bits)) = text.split_once('/') {
        let address =
            ip(network).ok_or("before the slash an address is needed, as in 192.0.2.0/24")?;
        let (most, before) = if address.is_ipv4() {
            (32, 96)
        } else {
            (128, 0)
        };
        let bits: u32 = Some(bits)
            .filter(|bits| bits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|bits| bits.parse().ok())
            .filter(|bits| *bits <= most)
            .ok_or_else(|| format!("after the slash a number of bits is needed, at most {most}"))?;
        let rest = u128::MAX.checked_shr(before + bits).unwrap_or(0);
        let address = number(address);
        return Ok(Some(Span {
            first: address & !rest,
            last: address | rest,
        }));
    }
    if let Some((first, last)) = text.split_once('-')
        && let Some(first) = ip(first)
    {
        // `192.0.2.7-static.example.com` is a name.
        let is_name = last.bytes().any(|b| b.is_ascii_alphabetic()) && !last.contains(':');
        return match ip(last) {
            None if is_name => Ok(None),
            None => Err("after the dash the last address of the range is needed in full".into()),
            Some(last) if first.is_ipv4() != last.is_ipv4() => {
                Err("the ends of the range are of two families".into())
            }
            Some(last) if last < first => Err("the range ends before it begins".into()),
            Some(last) => Ok(Some(Span {
                first: number(first),
                last: number(last),
            })),
        };
    }
    Ok(ip(text).map(|address| Span {
        first: number(address),
        last: number(address),
    }))
}

/// Lines as they come, for who cannot wait for all of them.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    is_first: bool,
}

/// A line of a list.
pub(super) enum Line<'a> {
    /// Nothing but white space and comments.
    Blank,
    /// Its first word.
    Word(&'a str),
    /// Not text, or too long for a target.
    Wrong(TargetError),
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(1 << 16, input),
            line: Vec::new(),
            is_first: true,
        }
    }

    /// Whether the next line is here in full, so that reading it waits for nobody.
    pub(super) fn is_ready(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut limited = (&mut self.input).take(MAX_LINE as u64 + 1);
        if limited.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        let is_whole = self.line.ends_with(b"\n") || self.line.len() <= MAX_LINE;
        if !is_whole {
            self.input.skip_until(b'\n')?;
        }
        if std::mem::replace(&mut self.is_first, false) && self.line.starts_with(b"\xEF\xBB\xBF") {
            self.line.drain(..3);
        }
        let Some(word) = word(&self.line) else {
            return Ok(Some(Line::Blank));
        };
        // A long comment is no mistake; a word that may go on is.
        let is_cut = !is_whole && self.line.ends_with(word);
        Ok(Some(match std::str::from_utf8(word) {
            _ if is_cut => Line::Wrong(TargetError::new(
                &String::from_utf8_lossy(word),
                format!("longer than {MAX_LINE} bytes"),
            )),
            Ok(word) => Line::Word(word),
            Err(_) => Line::Wrong(TargetError::new(
                &String::from_utf8_lossy(word),
                "not text in UTF-8".into(),
            )),
        }))
    }
}

/// Hands the first word of each line of a list to a function, and what that finds wrong to another.
pub(super) fn read_lines(
    name: &str,
    input: impl Read,
    mut each: impl FnMut(&str) -> Result<(), TargetError>,
    mut wrong: impl FnMut(ListError) -> Result<(), ListError>,
) -> Result<(), ListError> {
    let (file, mut lines): (Arc<str>, _) = (name.into(), Lines::new(input));
    for number in 1.. {
        let result = match lines.next() {
            Ok(None) => break,
            Ok(Some(Line::Blank)) => Ok(()),
            Ok(Some(Line::Word(word))) => each(word),
            Ok(Some(Line::Wrong(error))) => Err(error),
            Err(cause) => return Err(ListError::Read { file, cause }),
        };
        if let Err(error) = result {
            wrong(ListError::Line {
                file: file.clone(),
                line: number,
                error,
            })?;
        }
    }
    Ok(())
}

/// The first word of a line, if any stands before a comment.
fn word(line: &[u8]) -> Option<&[u8]> {
    let text = line.split(|byte| *byte == b'#').next()?;
    text.split(u8::is_ascii_whitespace)
        .find(|word| !word.is_empty())
}

/// A number that is the same for the same questions, in every run and on every machine.
pub(super) struct Digest(SipHasher13);

impl Digest {
    /// The first word says of what.
    pub(super) fn new(of: &str) -> Self {
        let mut digest = Self(SipHasher13::new());
        digest.text(of);
        // What stands for a protocol is its place among them.
        registry::PROTOCOLS
            .iter()
            .for_each(|protocol| digest.text(protocol.info().id));
        digest
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.write(&number.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.write(text.as_bytes());
    }

    fn service(&mut self, service: Service) {
        self.number(u64::from(service.protocol) << 16 | u64::from(service.port));
        self.added(service.protocol);
    }

    /// Adds the id of a protocol outside of the registry, whose number differs between processes.
    fn added(&mut self, protocol: u8) {
        if services::is_added(protocol) {
            self.text(services::protocol(protocol).info().id);
        }
    }

    fn place(&mut self, (service, address): (Service, u128)) {
        self.service(service);
        self.span(Span {
            first: address,
            last: address,
        });
    }

    pub(super) fn span(&mut self, span: Span) {
        self.0.write(&span.first.to_le_bytes());
        self.0.write(&span.last.to_le_bytes());
    }

    pub(super) fn end(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn collect(lines: &str, exclusions: &Exclusions) -> Result<Targets, ListError> {
        let mut collector = Collector::new(&[])?;
        collector.read("list.txt", lines.as_bytes(), Err)?;
        collector.finish(exclusions)
    }

    /// Every item as text, in the order of the indices.
    fn texts(targets: &Targets) -> Vec<String> {
        let text = |index| match targets.item(index).unwrap() {
            Item::Address(address, protocol) => format!("{}://{address}", protocol.info().id),
            Item::Name(name) => match name.port() {
                None => format!("{}://{}", name.protocol().info().id, name.host()),
                Some(port) => format!("{}://{}:{port}", name.protocol().info().id, name.host()),
            },
        };
        assert!(targets.item(targets.len()).is_none());
        (0..targets.len()).map(text).collect()
    }

    #[test]
    fn every_form_of_a_line_means_what_it_says() {
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
        ];
        for (lines, items) in forms {
            let targets = collect(lines, &Exclusions::default())
                .unwrap_or_else(|error| panic!("{lines}: {error}"));
            assert_eq!(texts(&targets), *items, "{lines}");
        }
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
            ("minecraft-12w://192.0.2.0/24", "spoken over TCP"),
            ("minecraft-12w://host", "spoken over TCP"),
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
            assert!(error.len() < 600);
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
    fn what_a_sweep_cannot_do_is_refused() {
        let stream = registry::find("minecraft-12w").unwrap();
        let error = Collector::new(&[stream]).unwrap_err().to_string();
        assert!(
            error.contains("choose from minecraft-query, ugp, onequery"),
            "{error}"
        );
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
        // At port 25565 four addresses in three protocols; at 22000 and 5520 two each; a name at 25565 in three, at its
        // own port in three.
        assert_eq!(targets.len(), 12 + 4 + 6);
        assert_eq!(
            targets.skipped().duplicates,
            3 + 3 + 1 + 3 + 12 + 6 + 3 + 3 + 3 + 1 - targets.len()
        );
    }

    /// A part of the addresses of a small universe: its text, and which of the universe it means.
    fn part() -> impl Strategy<Value = (String, Vec<IpAddr>)> {
        let bases = prop::sample::select(vec!["10.0.0.0", "223.255.255.248", "2001:db8::"]);
        (bases, 0_u128..16, 0_u128..16, 0_u32..3, any::<bool>()).prop_map(
            |(base, one, other, kind, is_bare)| {
                let base = number(base.parse().unwrap());
                let (one, other) = (base + one.min(other), base + one.max(other));
                let (first, last) = (address(one), address(other));
                let bits = if first.is_ipv4() { 32 } else { 128 };
                let (text, from, to) = match kind {
                    0 => (first.to_string(), one, one),
                    1 => (format!("{first}/{}", bits - 2), one & !3, one | 3),
                    _ => (format!("{first}-{last}"), one, other),
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
        fn a_set_is_what_a_plain_set_would_be(
            lines in prop::collection::vec((part(), prop::option::of(1_u16..3), 0_usize..4), 0..24),
            bans in prop::collection::vec(part(), 0..6),
        ) {
            let (mut collector, mut exclusions) = (Collector::new(&[]).unwrap(), Exclusions::default());
            let banned: BTreeSet<IpAddr> = bans.iter().flat_map(|(_, addresses)| addresses).copied().collect();
            for (text, _) in &bans {
                exclusions.add(text.trim_matches(['[', ']'])).unwrap();
            }
            let (mut model, mut typed) = (BTreeSet::new(), 0);
            for ((text, addresses), port, protocol) in &lines {
                let protocols: Vec<_> = registry::datagram().collect();
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

    /// Eight bytes each, and no more than half as many again while they are collected.
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
