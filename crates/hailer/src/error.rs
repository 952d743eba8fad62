//! Errors of a query: one variant for each cause that a user can act on.

use crate::support::drive::ExchangeError;
use crate::target::TargetError;
use crate::transcript::Transcript;
use hailer_proto::model::printable;
use hailer_proto::wire::counted;
use hailer_proto::{Fault, Info, Transport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::{self, Formatter};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Bytes of a web page that are searched for its title.
const MAX_PAGE_START: usize = 1 << 16;

/// Reason why a query has no answer.
///
/// `Debug` prints the kind and the message, so that a `main` which returns this error ends with one
/// readable line.
#[non_exhaustive]
pub enum Error {
    /// The target is invalid.
    Target(TargetError),
    /// The name does not exist, or has no address.
    NameNotFound {
        /// The name.
        name: String,
    },
    /// The name could not be looked up, or its SRV record leads nowhere.
    Lookup {
        /// The name.
        name: String,
        /// The cause.
        cause: String,
    },
    /// The name leads to an address that the sweep excludes.
    Excluded {
        /// The name.
        name: String,
        /// The address.
        address: IpAddr,
        /// Why the address is excluded.
        reason: &'static str,
    },
    /// The address is unreachable: there is no route or no address of this family here, or sending
    /// is not permitted. Or it cannot be used: TLS fails, with
    /// [`InvalidData`](std::io::ErrorKind::InvalidData).
    Unreachable {
        /// The exchange.
        transcript: Box<Transcript>,
        /// The operating system's error, or the problem with TLS.
        cause: std::io::Error,
    },
    /// The host reports that nothing listens on the port (ICMP, or a TCP reset).
    PortClosed {
        /// The exchange.
        transcript: Box<Transcript>,
    },
    /// No reply arrived, or not all of them.
    Silence {
        /// The exchange. If datagrams were received, none of them was a useful reply.
        transcript: Box<Transcript>,
        /// Time since the first datagram.
        after: Duration,
    },
    /// The server refused to answer.
    Refused {
        /// The exchange.
        transcript: Box<Transcript>,
        /// Why, as a clause about the server.
        reason: &'static str,
        /// Names of the refused endpoints, if the protocol has several.
        endpoints: &'static [&'static str],
    },
    /// A reply is no valid message of the protocol.
    Malformed {
        /// The exchange.
        transcript: Box<Transcript>,
        /// The fault, with field and offset if the bytes cannot be parsed.
        fault: Box<Fault>,
        /// The datagram.
        datagram: Vec<u8>,
    },
    /// More data arrived than [`QueryLimits`](crate::client::QueryLimits) allows.
    Flood {
        /// The exchange.
        transcript: Box<Transcript>,
        /// Bytes received.
        bytes: usize,
    },
    /// The answer deviates from the protocol, and [`ClientConfig::is_strict`](crate::client::ClientConfig) is
    /// set.
    Deviates {
        /// The exchange.
        transcript: Box<Transcript>,
        /// Names of the deviations.
        names: Vec<&'static str>,
    },
    /// A target without a protocol has no answer in any protocol, for different reasons.
    NoProtocol {
        /// The failure in each protocol, the most informative first.
        failures: Vec<ProtocolFailure>,
    },
}

/// Kind of an [`Error`]: what to do about it, without the details. It prints as the word that the
/// JSON schema has, and compares with that word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The target is invalid: `target`.
    Target,
    /// The name does not exist: `name-not-found`.
    NameNotFound,
    /// The name could not be looked up: `lookup`.
    Lookup,
    /// The sweep excludes the address: `excluded`.
    Excluded,
    /// There is no route to the address, or it cannot be used: `unreachable`.
    Unreachable,
    /// Nothing listens on the port: `port-closed`.
    PortClosed,
    /// No reply arrived, or not all of them: `silence`.
    Silence,
    /// The server refused to answer: `refused`.
    Refused,
    /// A reply is no valid message of the protocol: `malformed`.
    Malformed,
    /// Too much data arrived: `flood`.
    Flood,
    /// The answer deviates from the protocol: `deviates`.
    Deviates,
    /// A kind of a later version, in JSON. No error of this version has it: `other`.
    #[serde(other)]
    Other,
}

impl ErrorKind {
    /// Returns the word of the JSON schema, in kebab case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::NameNotFound => "name-not-found",
            Self::Lookup => "lookup",
            Self::Excluded => "excluded",
            Self::Unreachable => "unreachable",
            Self::PortClosed => "port-closed",
            Self::Silence => "silence",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
            Self::Flood => "flood",
            Self::Deviates => "deviates",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq<str> for ErrorKind {
    fn eq(&self, word: &str) -> bool {
        self.as_str() == word
    }
}

impl PartialEq<&str> for ErrorKind {
    fn eq(&self, word: &&str) -> bool {
        self.as_str() == *word
    }
}

/// Bytes of an invalid message that are shown before the fault, and after it.
const SHOWN_BYTES: usize = 64;

/// The place of a fault in an invalid message.
#[derive(Clone, Copy, Debug)]
pub struct FaultPlace<'a> {
    /// The protocol.
    pub protocol: &'static Info,
    /// The message.
    pub message: &'a [u8],
    /// First byte to show, at most 64 before the fault.
    pub start: usize,
    /// End of the bytes to show, at most 64 after the fault.
    pub end: usize,
}

impl FaultPlace<'_> {
    /// Returns the bytes to show.
    pub fn shown(&self) -> &[u8] {
        self.message.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns whether the message has more bytes than those to show.
    pub fn is_cut(&self) -> bool {
        self.shown().len() < self.message.len()
    }
}

/// Failure of a query in one of several protocols.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProtocolFailure {
    /// The protocol.
    pub protocol: &'static Info,
    /// The failure.
    pub error: Error,
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(error) => error.fmt(f),
            Self::NameNotFound { name } => write!(f, "{name}: name not found; check the spelling"),
            Self::Lookup { name, cause } => write!(f, "{name}: name lookup failed: {cause}"),
            Self::Excluded { name, .. } => write!(f, "{name}: {}", self.reason()),
            Self::NoProtocol { .. } => write!(f, "no protocol got an answer: {}", self.reason()),
            error => {
                let address = error.transcript().map(|transcript| transcript.address);
                let address = address.map_or(String::new(), |address| format!("{address}: "));
                write!(f, "{address}{}", error.reason())
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self, self.kind())
    }
}

impl Error {
    /// Converts the failure of an exchange.
    pub(crate) fn from_failure(transcript: Transcript, failure: ExchangeError) -> Self {
        let transcript = Box::new(transcript);
        match failure {
            ExchangeError::Silence { after } => Self::Silence { transcript, after },
            ExchangeError::Flood { bytes } => Self::Flood { transcript, bytes },
            ExchangeError::Fault { fault, datagram } => match *fault {
                Fault::Refused { reason, endpoints } => Self::Refused {
                    transcript,
                    reason,
                    endpoints,
                },
                _ => Self::Malformed {
                    transcript,
                    fault,
                    datagram,
                },
            },
        }
    }

    /// Combines the errors at the addresses of a host, at least one: returns the most informative
    /// one. It names the SRV record that led there, and the other addresses that have replied.
    pub(crate) fn of_addresses(mut errors: Vec<Self>, srv: Option<String>) -> Self {
        // The last maximum of the reversed order is the first one.
        let ranked = errors.iter().enumerate().rev();
        let best = ranked.max_by_key(|(_, error)| error.weight());
        let mut best = errors.swap_remove(best.map_or(0, |(index, _)| index));
        let others = errors.iter().filter_map(|error| {
            let transcript = error.transcript().filter(|_| error.shows_reply())?;
            let address = transcript.address;
            Some(format!("{address} replied too: {}", error.reason()))
        });
        best.add_notes(srv.into_iter().chain(others));
        best
    }

    /// Adds the SRV record that led to the address, if one did.
    #[cfg(feature = "sweep")]
    pub(crate) fn led_by(mut self, srv: Option<&str>) -> Self {
        self.add_notes(srv.map(str::to_owned).into_iter());
        self
    }

    /// Returns whether the server has replied, if only with an error.
    fn shows_reply(&self) -> bool {
        let mut transcripts = self.transcripts().into_iter();
        transcripts.any(|transcript| transcript.received > 0)
            || matches!(self, Self::Refused { .. } | Self::Malformed { .. })
    }

    /// Adds notes to the transcript, if an exchange began.
    fn add_notes(&mut self, notes: impl Iterator<Item = String>) {
        if let Self::Unreachable { transcript, .. }
        | Self::PortClosed { transcript }
        | Self::Silence { transcript, .. }
        | Self::Refused { transcript, .. }
        | Self::Malformed { transcript, .. }
        | Self::Flood { transcript, .. }
        | Self::Deviates { transcript, .. } = self
        {
            transcript.notes.extend(notes);
        }
    }

    /// Combines the failures of all protocols, in the order of the registry. If the name lookup
    /// failed for the same reason in any of them, returns that error.
    pub(crate) fn of_all_protocols(mut failures: Vec<ProtocolFailure>) -> Self {
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.error.weight()));
        let is_same = |failure: &ProtocolFailure| {
            failure.error.transcript().is_none()
                && failure.error.to_string() == failures[0].error.to_string()
        };
        if failures.iter().all(is_same) {
            return failures.swap_remove(0).error;
        }
        Self::NoProtocol { failures }
    }

    /// Combines the failures of the protocols of a game. Servers do not answer the protocols
    /// [instead of](Info::instead_of) others next to these, so their silence is left out.
    pub(crate) fn of_game(mut failures: Vec<ProtocolFailure>) -> Self {
        let is_original = |failure: &ProtocolFailure| failure.protocol.instead_of.is_none();
        if failures.iter().any(is_original) {
            failures.retain(|failure| is_original(failure) || failure.error.shows_a_service());
        }
        match failures.len() {
            1 => failures.swap_remove(0).error,
            _ => Self::of_all_protocols(failures),
        }
    }

    /// Returns the most informative error: the first of [`Error::NoProtocol`], otherwise the error
    /// itself.
    pub fn most_informative(&self) -> &Self {
        match self {
            Self::NoProtocol { failures } => {
                failures.first().map_or(self, |failure| &failure.error)
            }
            _ => self,
        }
    }

    /// Returns the place of the fault of an invalid message, if there is one. Only a part of the
    /// message is shown, because it can have megabytes.
    pub fn fault_place(&self) -> Option<FaultPlace<'_>> {
        let Self::Malformed {
            transcript,
            fault,
            datagram,
        } = self.most_informative()
        else {
            return None;
        };
        let offset = match &**fault {
            Fault::Malformed(error) => error.at.min(datagram.len()),
            _ => 0,
        };
        Some(FaultPlace {
            protocol: transcript.protocol,
            message: datagram,
            start: offset.saturating_sub(SHOWN_BYTES),
            end: offset.saturating_add(SHOWN_BYTES).min(datagram.len()),
        })
    }

    /// Returns one sentence for each different result of [`Error::NoProtocol`], the most
    /// informative first. Empty for other errors.
    pub fn protocol_reports(&self) -> Vec<String> {
        let Self::NoProtocol { failures } = self else {
            return Vec::new();
        };
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        let mut closed: Vec<SocketAddr> = Vec::new();
        for ProtocolFailure { protocol, error } in failures {
            // One sentence for all closed ports of an address.
            if let Self::PortClosed { transcript } = error {
                let ip = transcript.address.ip();
                if !closed.iter().any(|address| address.ip() == ip) {
                    closed.push(transcript.address);
                    groups.push((closed_ports(failures, ip), Vec::new()));
                }
                continue;
            }
            let place = match error.transcript() {
                Some(transcript) => format!(" at {}", transcript.address),
                None => String::new(),
            };
            let result = format!("{place}: {}", error.reason());
            match groups.iter_mut().find(|(known, _)| *known == result) {
                Some((_, titles)) => titles.push(protocol.title),
                None => groups.push((result, vec![protocol.title])),
            }
        }
        let sentence = |(result, titles): &(String, Vec<&str>)| titles.join(", ") + result;
        groups.iter().map(sentence).collect()
    }

    /// Returns the kind, as in the JSON schema. [`Error::NoProtocol`] has that of its most
    /// informative failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Target(_) => ErrorKind::Target,
            Self::NameNotFound { .. } => ErrorKind::NameNotFound,
            Self::Lookup { .. } => ErrorKind::Lookup,
            Self::Excluded { .. } => ErrorKind::Excluded,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::PortClosed { .. } => ErrorKind::PortClosed,
            Self::Silence { .. } => ErrorKind::Silence,
            Self::Refused { .. } => ErrorKind::Refused,
            Self::Malformed { fault, .. } if matches!(**fault, Fault::Kicked(_)) => {
                ErrorKind::Refused
            }
            Self::Malformed { .. } => ErrorKind::Malformed,
            Self::Flood { .. } => ErrorKind::Flood,
            Self::Deviates { .. } => ErrorKind::Deviates,
            Self::NoProtocol { failures } => failures
                .first()
                .map_or(ErrorKind::Silence, |failure| failure.error.kind()),
        }
    }

    /// Returns the exchange that failed, if one began. [`Error::NoProtocol`] has that of its most
    /// informative failure.
    pub fn transcript(&self) -> Option<&Transcript> {
        match self {
            Self::Target(_)
            | Self::NameNotFound { .. }
            | Self::Lookup { .. }
            | Self::Excluded { .. } => None,
            Self::Unreachable { transcript, .. }
            | Self::PortClosed { transcript }
            | Self::Silence { transcript, .. }
            | Self::Refused { transcript, .. }
            | Self::Malformed { transcript, .. }
            | Self::Flood { transcript, .. }
            | Self::Deviates { transcript, .. } => Some(transcript),
            Self::NoProtocol { failures } => failures.first()?.error.transcript(),
        }
    }

    /// Returns the message without the address, but with the notes.
    fn reason(&self) -> String {
        let mut reason = self.cause();
        if let (Some(transcript), false) =
            (self.transcript(), matches!(self, Self::NoProtocol { .. }))
        {
            push_notes(&mut reason, &transcript.notes);
        }
        reason
    }

    fn cause(&self) -> String {
        match self {
            Self::Target(error) => error.to_string(),
            Self::NameNotFound { name } => format!("{name} has no address"),
            Self::Lookup { cause, .. } => cause.clone(),
            Self::Excluded {
                address, reason, ..
            } => format!("leads to {address}, {reason}"),
            Self::Unreachable { transcript, cause } => match relay_note(transcript) {
                Some(note) => format!("unreachable: {cause}; {note}"),
                None => format!("unreachable: {cause}"),
            },
            Self::PortClosed { transcript } => port_closed(transcript),
            Self::Silence { transcript, after } => silence(transcript, *after),
            Self::Refused { reason, .. } => format!("refused by the server: {reason}"),
            Self::Malformed { fault, .. } if matches!(**fault, Fault::Kicked(_)) => {
                format!("refused by the server: {fault}")
            }
            Self::Malformed {
                transcript,
                fault,
                datagram,
            } if transcript.protocol.transport == Transport::Http => {
                malformed_body(transcript.protocol.title, fault, datagram)
            }
            Self::Malformed {
                transcript, fault, ..
            } => format!("malformed {} reply: {fault}", transcript.protocol.title),
            Self::Flood { transcript, bytes } => format!(
                "sent {}, {}, which exceeds the limit of a query",
                counted(transcript.received, "datagram"),
                counted(bytes, "byte")
            ),
            Self::Deviates { transcript, names } => {
                format!(
                    "deviates from {}: {}",
                    transcript.protocol.title,
                    names.join(", ")
                )
            }
            Self::NoProtocol { .. } => self.protocol_reports().join("; "),
        }
    }

    /// Returns the exchange that failed, or all of them for [`Error::NoProtocol`].
    pub fn transcripts(&self) -> Vec<&Transcript> {
        match self {
            Self::NoProtocol { failures } => failures
                .iter()
                .filter_map(|failure| failure.error.transcript())
                .collect(),
            error => error.transcript().into_iter().collect(),
        }
    }

    /// Returns whether the address is one of Steam's relay, which cannot be queried.
    pub(crate) fn is_at_relay(&self) -> bool {
        let mut transcripts = self.transcripts().into_iter();
        transcripts.any(|transcript| relay_note(transcript).is_some())
    }

    /// Returns whether something at the address has replied or accepted a connection.
    fn shows_a_service(&self) -> bool {
        self.weight() > 4
    }

    /// Returns the rank of the error among several errors of one server. Errors with more
    /// information about the server rank higher.
    pub(crate) fn weight(&self) -> u8 {
        let is_stream = self
            .transcript()
            .is_some_and(|transcript| transcript.protocol.transport.is_connected());
        match self {
            Self::Target(_) | Self::NameNotFound { .. } | Self::Excluded { .. } => 0,
            // An SRV record with an invalid target is more informative than a missing address.
            Self::Lookup { .. } => 1,
            // A handshake of TLS failed: the port is open.
            Self::Unreachable { cause, .. } if cause.kind() == io::ErrorKind::InvalidData => 5,
            Self::Unreachable { .. } => 2,
            Self::Silence { transcript, .. } if is_stream && transcript.sent == 0 => 2,
            Self::PortClosed { .. } => 3,
            Self::Silence { transcript, .. } if !is_stream && transcript.received == 0 => 4,
            // Many services accept TCP connections, but an open port is still more informative than
            // a timeout.
            Self::Silence { .. } => 5,
            Self::Refused { .. } if is_stream => 5,
            Self::Malformed { fault, .. }
                if is_stream && matches!(**fault, Fault::Malformed(_)) =>
            {
                5
            }
            Self::Flood { .. } => 6,
            Self::Malformed { .. } => 7,
            Self::Refused { .. } | Self::Deviates { .. } => 8,
            Self::NoProtocol { failures } => {
                failures.first().map_or(0, |failure| failure.error.weight())
            }
        }
    }
}

/// Adds clauses to a sentence.
fn push_notes<'a>(sentence: &mut String, notes: impl IntoIterator<Item = &'a String>) {
    for note in notes {
        sentence.push_str("; ");
        sentence.push_str(note);
    }
}

/// Returns one sentence about the closed ports of an address, with all notes. A single port has the
/// sentence of [`port_closed`].
fn closed_ports(failures: &[ProtocolFailure], ip: IpAddr) -> String {
    let closed = failures.iter().filter_map(|failure| match &failure.error {
        Error::PortClosed { transcript } if transcript.address.ip() == ip => {
            Some((failure.protocol, transcript))
        }
        _ => None,
    });
    let closed: Vec<_> = closed.collect();
    let ports = |is_connected: bool| {
        let of_transport = closed
            .iter()
            .filter(|(_, transcript)| transcript.protocol.transport.is_connected() == is_connected);
        let mut ports: Vec<u16> = of_transport
            .map(|(_, transcript)| transcript.address.port())
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    };
    let titles: Vec<&str> = closed.iter().map(|(protocol, _)| protocol.title).collect();
    let (udp, tcp) = (ports(false), ports(true));
    let number = udp.len() + tcp.len();
    let list = |name: &str, ports: &[u16]| {
        let plural = if ports.len() == 1 { "" } else { "s" };
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        format!("{name} port{plural} {}", ports.join(", "))
    };
    let lists: Vec<String> = [("UDP", udp), ("TCP", tcp)]
        .iter()
        .filter(|(_, ports)| !ports.is_empty())
        .map(|(name, ports)| list(name, ports))
        .collect();
    let mut sentence = match closed[..] {
        [(_, first), ..] if number == 1 => {
            let address = first.address;
            format!("{} at {address}: {}", titles.join(", "), port_closed(first))
        }
        _ => {
            let note = closed
                .iter()
                .find_map(|(_, transcript)| relay_note(transcript));
            format!(
                "{ip}: nothing listens on {}: {}",
                lists.join(" and "),
                note.unwrap_or(
                    "the server is down, its query is disabled, or it is on another port"
                ),
            )
        }
    };
    let notes = closed.iter().flat_map(|(_, transcript)| &transcript.notes);
    let notes: BTreeSet<&String> = notes.collect();
    push_notes(&mut sentence, notes);
    sentence
}

/// Describes an HTTP response that is no reply of a protocol. Offsets count from the start of the
/// body, since people do not see the headers.
fn malformed_body(protocol: &str, fault: &Fault, response: &[u8]) -> String {
    const END: &[u8] = b"\r\n\r\n";
    let end = response.windows(END.len()).position(|four| four == END);
    let start = end.map_or(0, |end| end + END.len());
    let body = response.get(start..).unwrap_or_default();
    if let Some(title) = web_page(body) {
        let title = if title.is_empty() {
            String::new()
        } else {
            format!(" with the title {title:?}")
        };
        return format!(
            "sent a web page{title} in place of a reply of {protocol}: the port belongs to a web server"
        );
    }
    match fault {
        Fault::Malformed(error) if error.at >= start => {
            let mut in_body = *error;
            in_body.at -= start;
            format!("malformed {protocol} reply: {in_body} (in the body)")
        }
        fault => format!("malformed {protocol} reply: {fault}"),
    }
}

/// Returns the title of a web page, at most 100 characters, or an empty text if it has none. `None` if
/// the bytes are no web page.
fn web_page(body: &[u8]) -> Option<String> {
    let start = body
        .get(..body.len().min(MAX_PAGE_START))
        .unwrap_or_default();
    let text = String::from_utf8_lossy(start);
    let text = text.trim_start_matches(['\u{FEFF}', ' ', '\t', '\r', '\n']);
    let lower = text.to_ascii_lowercase();
    let is_page =
        text.starts_with('<') && (lower.contains("<html") || lower.contains("<!doctype html"));
    let title = || {
        let (_, rest) = lower.split_once("<title")?;
        let at = lower.len() - rest.len() + rest.find('>')? + 1;
        let title = text.get(at..)?.split('<').next()?;
        let words: Vec<&str> = title.split_whitespace().collect();
        Some(printable(&words.join(" ")).chars().take(100).collect())
    };
    is_page.then(|| title().unwrap_or_default())
}

fn port_closed(transcript: &Transcript) -> String {
    let cause = relay_note(transcript).unwrap_or(match transcript.protocol.transport {
        Transport::Datagram => "the query is disabled or on another port",
        Transport::Stream => "the server is down or on another port",
        Transport::Http => "the server is down or on another port, or its HTTP interface is off",
    });
    format!(
        "nothing listens on this {} port: {cause}",
        match transcript.protocol.transport {
            Transport::Datagram => "UDP",
            Transport::Stream | Transport::Http => "TCP",
        }
    )
}

/// Returns the explanation of an address of Steam's relay, which games show for servers that hide
/// theirs (spec/a2s.md#1).
fn relay_note(transcript: &Transcript) -> Option<&'static str> {
    let is_relay = match transcript.address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(_) => false,
    };
    is_relay.then_some(
        "addresses in 169.254.0.0/16 are link-local; Steam shows them for servers behind its relay, which \
         cannot be queried",
    )
}

fn silence(transcript: &Transcript, after: Duration) -> String {
    let Transcript { sent, received, .. } = *transcript;
    let after = after.as_secs_f64();
    if let (0, Some(note)) = (received, relay_note(transcript)) {
        let requests = match transcript.protocol.transport {
            Transport::Datagram => format!(" to {}", counted(sent, "datagram")),
            Transport::Stream | Transport::Http => String::new(),
        };
        return format!("no answer in {after:.1} s{requests}: {note}");
    }
    if transcript.protocol.transport == Transport::Http {
        return format!(
            "no HTTP response in {after:.1} s: the port is filtered or belongs to another service, or the server hangs"
        );
    }
    if transcript.protocol.transport == Transport::Stream {
        return if sent == 0 {
            format!("no connection in {after:.1} s: the port is filtered, or the server is down")
        } else {
            format!(
                "connected, but no answer in {after:.1} s: the port belongs to another service, or the server hangs \
                 or needs a longer timeout"
            )
        };
    }
    let datagrams = counted(sent, "datagram");
    if received == 0 {
        format!(
            "no answer in {after:.1} s to {datagrams}: the query is disabled, filtered or on another port, or \
             the server is down"
        )
    } else {
        format!(
            "no complete answer in {after:.1} s: {received} received for {datagrams} sent, none complete"
        )
    }
}

impl From<TargetError> for Error {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}

/// Converting a target to a target cannot fail.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::registry;

    fn transcript(protocol: &str, address: &str) -> Box<Transcript> {
        let info = registry::find(protocol).unwrap().info();
        Box::new(Transcript {
            sent: 2,
            ..Transcript::new(info, address.parse().unwrap())
        })
    }

    #[test]
    fn addresses_of_the_relay_of_steam_are_explained() {
        const NOTE: &str = "Steam shows them for servers behind its relay, which cannot be queried";
        let after = Duration::from_secs(4);
        for protocol in ["a2s", "minecraft-status", "fivem-http"] {
            for (address, expected) in [
                ("169.254.0.1:27015", true),
                ("169.254.255.255:1", true),
                ("[::ffff:169.254.1.2]:27015", true),
                ("169.253.255.255:27015", false),
                ("192.0.2.7:27015", false),
                ("[fe80::1]:27015", false),
            ] {
                let transcript = || transcript(protocol, address);
                let failure = |error| ProtocolFailure {
                    protocol: registry::find(protocol).unwrap().info(),
                    error,
                };
                let closed = || Error::PortClosed {
                    transcript: transcript(),
                };
                for error in [
                    Error::Silence {
                        transcript: transcript(),
                        after,
                    },
                    Error::Unreachable {
                        transcript: transcript(),
                        cause: io::ErrorKind::NetworkUnreachable.into(),
                    },
                    closed(),
                    Error::NoProtocol {
                        failures: vec![failure(closed())],
                    },
                    Error::NoProtocol {
                        failures: vec![
                            failure(Error::Silence {
                                transcript: transcript(),
                                after,
                            }),
                            failure(closed()),
                        ],
                    },
                ] {
                    let text = error.to_string();
                    assert_eq!(text.contains(NOTE), expected, "{text}");
                    assert_eq!(error.is_at_relay(), expected);
                }
            }
        }
        // A server at such an address that replies is none of Steam's relay.
        let mut partial = transcript("a2s", "169.254.0.1:27015");
        partial.received = 1;
        let error = Error::Silence {
            transcript: partial,
            after,
        };
        assert!(!error.to_string().contains(NOTE), "{error}");
    }
}
