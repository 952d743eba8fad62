//! Stub resolver: asks name servers, which resolve names recursively. Follows aliases (CNAME).
//!
//! A reply counts if it comes from the server, and repeats the id and the question of the request.
//! Others are ignored. The source port and the id of each request are random.
//!
//! In: a name and a type of record. Out: the records.
//!
//! Limits:
//! - at most [`MAX_TRIES`] requests for one question, each with [`TRY_TIMEOUT`] for its reply;
//! - at most [`MAX_OTHERS`] ignored datagrams for a request;
//! - replies of at most [`MAX_MESSAGE_BYTES`], with aliases that lead to at most
//!   [`MAX_ALIASES`] other names;
//! - at most [`MAX_CACHED`] replies are kept, each for at most [`MAX_AGE`].
//!
//! May import: nothing.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::Instant;

/// How long a request waits for its reply.
const TRY_TIMEOUT: Duration = Duration::from_millis(2_500);
/// The next request is sent if none has a reply after this time.
const TRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum number of requests for one question, at all name servers.
const MAX_TRIES: usize = 6;
/// Maximum number of datagrams that a request ignores.
const MAX_OTHERS: usize = 100;
/// Maximum size of a reply. Larger ones have more records than any name needs.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// Size of the header of each message.
const HEADER_BYTES: usize = 12;
/// Maximum size of a datagram. Requests announce no size, so name servers send at most 512 bytes.
const MAX_DATAGRAM_BYTES: usize = 4096;
/// Maximum number of other names that aliases lead to.
const MAX_ALIASES: usize = 8;
/// Maximum number of cached replies.
const MAX_CACHED: usize = 1024;
/// Longest time that a reply is cached.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Type of the records that a lookup wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Ipv4,
    Ipv6,
    Service,
}

impl Kind {
    fn record_type(self) -> TYPE {
        match self {
            Self::Ipv4 => TYPE::A,
            Self::Ipv6 => TYPE::AAAA,
            Self::Service => TYPE::SRV,
        }
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Address(IpAddr),
    /// Host of a service with a final dot, and its port.
    Service {
        host: String,
        port: u16,
    },
}

/// Why there are no records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LookupFailure {
    /// The name does not exist, or has no records of this type.
    NotFound,
    /// No name server has replied in time.
    NoReply,
    /// A name server failed. The text names it.
    Failed(String),
}

impl fmt::Display for LookupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such record",
            Self::NoReply => "the name server does not reply",
            Self::Failed(cause) => cause,
        })
    }
}

/// Valid reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reply {
    records: Vec<Record>,
    /// Last name that aliases lead to, if it has no records in this reply.
    alias: Option<String>,
    /// How long it may be cached; zero if not at all.
    age: Duration,
}

/// The relation of a message to a request.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Reply(Reply),
    /// The reply needs a connection.
    Truncated,
    /// The server reports this error.
    Error(String),
    /// No reply to this request.
    Other,
}

/// A question and its reply, until it expires.
type Cache = HashMap<(String, Kind), (Instant, Reply)>;

/// Resolver with a cache.
#[derive(Default)]
pub(super) struct StubResolver {
    cache: Mutex<Cache>,
}

impl StubResolver {
    /// Looks up records at name servers, which are tried in this order.
    ///
    /// # Errors
    /// There are none, or the lookup failed.
    pub(super) async fn lookup(
        &self,
        servers: &[SocketAddr],
        name: &str,
        kind: Kind,
    ) -> Result<Vec<Record>, LookupFailure> {
        let mut name = name.trim_end_matches('.').to_ascii_lowercase();
        for _ in 0..=MAX_ALIASES {
            let reply = match self.cached(&name, kind) {
                Some(reply) => reply,
                None => {
                    let reply = ask(servers, &name, kind).await?;
                    self.insert(&name, kind, &reply);
                    reply
                }
            };
            match reply.alias {
                _ if !reply.records.is_empty() => return Ok(reply.records),
                Some(alias) => name = alias,
                None => return Err(LookupFailure::NotFound),
            }
        }
        Err(LookupFailure::Failed(format!(
            "its aliases lead to more than {MAX_ALIASES} names"
        )))
    }

    fn cached(&self, name: &str, kind: Kind) -> Option<Reply> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let (end, reply) = cache.get(&(name.to_owned(), kind))?;
        (Instant::now() < *end).then(|| reply.clone())
    }

    fn insert(&self, name: &str, kind: Kind, reply: &Reply) {
        if reply.age.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED {
            cache.retain(|_, (end, _)| now < *end);
        }
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        let end = now + reply.age.min(MAX_AGE);
        cache.insert((name.to_owned(), kind), (end, reply.clone()));
    }
}

/// Asks name servers in turn until one has a reply. A server that failed is not asked again.
async fn ask(servers: &[SocketAddr], name: &str, kind: Kind) -> Result<Reply, LookupFailure> {
    let mut waiting = servers.iter().cycle().take(match servers.len() {
        0 => 0,
        _ => MAX_TRIES,
    });
    let mut failed = HashSet::new();
    let mut running = FuturesUnordered::new();
    let mut failure = LookupFailure::NoReply;
    if servers.is_empty() {
        failure = LookupFailure::Failed("there is no name server".into());
    }
    loop {
        let next = waiting.find(|server| !failed.contains(*server));
        running.extend(next.map(|server| async move {
            let exchange = exchange(*server, name, kind);
            let reply = tokio::time::timeout(TRY_TIMEOUT, exchange).await;
            (*server, reply.unwrap_or(Err(LookupFailure::NoReply)))
        }));
        let result = if next.is_some() {
            tokio::time::timeout(TRY_DELAY, running.next()).await
        } else {
            Ok(running.next().await)
        };
        match result {
            Ok(None) => return Err(failure),
            Ok(Some((_, Ok(reply)))) => return Ok(reply),
            Ok(Some((server, Err(error)))) => {
                if error != LookupFailure::NoReply {
                    failed.insert(server);
                    failure = error;
                }
            }
            Err(_) => {}
        }
    }
}

/// Sends a question to one server, over UDP, and over TCP if the reply is too large for that.
async fn exchange(server: SocketAddr, name: &str, kind: Kind) -> Result<Reply, LookupFailure> {
    let failed = |cause: &str| LookupFailure::Failed(format!("the name server {server} {cause}"));
    let io_error = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            LookupFailure::Failed(format!("nothing listens at the name server {server}"))
        }
        _ => LookupFailure::Failed(format!("the name server {server}: {error}")),
    };
    let id = getrandom::u32().map_err(|error| failed(&error.to_string()))? as u16;
    let question = Name::new(name).map_err(|_| LookupFailure::NotFound)?;
    let request = request(id, question.clone(), kind)
        .ok_or_else(|| failed("cannot be asked for this name"))?;
    let over_udp = datagrams(server, &request, id, &question, kind);
    let message = match over_udp.await.map_err(io_error)? {
        Message::Truncated => {
            let bytes = over_tcp(server, &request).await.map_err(io_error)?;
            parse(&bytes, id, &question, kind)
        }
        message => message,
    };
    match message {
        Message::Reply(reply) => Ok(reply),
        Message::Error(code) => Err(failed(&format!("reports an error: {code}"))),
        Message::Truncated | Message::Other => Err(failed("sends invalid replies")),
    }
}

/// Sends a request as a datagram and waits for the reply.
async fn datagrams(
    server: SocketAddr,
    request: &[u8],
    id: u16,
    question: &Name<'_>,
    kind: Kind,
) -> io::Result<Message> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // A connected socket receives datagrams of this address only.
    socket.connect(server).await?;
    socket.send(request).await?;
    let mut buffer = [0; MAX_DATAGRAM_BYTES];
    for _ in 0..MAX_OTHERS {
        let length = socket.recv(&mut buffer).await?;
        match parse(&buffer[..length], id, question, kind) {
            Message::Other => {}
            message => return Ok(message),
        }
    }
    Ok(Message::Other)
}

/// Sends a request over a connection and returns what the server sends.
async fn over_tcp(server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let mut message = (request.len() as u16).to_be_bytes().to_vec();
    message.extend_from_slice(request);
    stream.write_all(&message).await?;
    let length = usize::from(stream.read_u16().await?);
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::other("its reply is too long"));
    }
    let mut reply = vec![0; length];
    stream.read_exact(&mut reply).await?;
    Ok(reply)
}

/// Returns the message that asks for records of a name.
fn request(id: u16, name: Name<'_>, kind: Kind) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let record_type = QTYPE::TYPE(kind.record_type());
    let question = Question::new(name, record_type, QCLASS::CLASS(CLASS::IN), false);
    packet.questions.push(question);
    packet.build_bytes_vec().ok()
}

/// Parses what may be the reply to a request.
fn parse(bytes: &[u8], id: u16, name: &Name<'_>, kind: Kind) -> Message {
    if bytes.len() < HEADER_BYTES {
        return Message::Other;
    }
    let mut bytes = bytes.to_vec();
    // No additional records are needed, and one that is unknown would make the reply invalid.
    bytes[10..HEADER_BYTES].fill(0);
    // The last records of a truncated reply may be incomplete, so the question is parsed alone.
    let mut start = bytes.clone();
    start[6..HEADER_BYTES].fill(0);
    let record_type = QTYPE::TYPE(kind.record_type());
    let start = Packet::parse(&start).ok().filter(|packet| {
        let is_asked = |question: &Question<'_>| {
            question.qname == *name
                && question.qtype == record_type
                && question.qclass == QCLASS::CLASS(CLASS::IN)
        };
        packet.id() == id
            && packet.has_flags(PacketFlag::RESPONSE)
            && packet.opcode() == OPCODE::StandardQuery
            && packet.questions.len() == 1
            && packet.questions.iter().all(is_asked)
    });
    let Some(start) = start else {
        return Message::Other;
    };
    let error = |code: &str| Message::Error(code.into());
    match start.rcode() {
        RCODE::NoError if start.has_flags(PacketFlag::TRUNCATION) => return Message::Truncated,
        RCODE::NoError | RCODE::NameError => {}
        RCODE::FormatError => return error("FORMERR"),
        RCODE::ServerFailure => return error("SERVFAIL"),
        RCODE::NotImplemented => return error("NOTIMP"),
        RCODE::Refused => return error("REFUSED"),
        code => return error(&format!("{code:?}")),
    }
    match Packet::parse(&bytes) {
        Ok(packet) if packet.rcode() == RCODE::NameError => Message::Reply(Reply {
            age: negative_age(&packet),
            ..Reply::default()
        }),
        Ok(packet) => Message::Reply(records(&packet, name, kind)),
        Err(_) => Message::Other,
    }
}

/// Returns the records of a name, or the name that its aliases lead to.
fn records(packet: &Packet<'_>, name: &Name<'_>, kind: Kind) -> Reply {
    let mut owner = name.clone();
    let mut ttl = u32::MAX;
    for _ in 0..=MAX_ALIASES {
        let of_owner = || {
            let answers = packet.answers.iter();
            answers.filter(|record| record.class == CLASS::IN && record.name == owner)
        };
        let mut records = Vec::new();
        for answer in of_owner() {
            let record = record(&answer.rdata, kind);
            if record.is_some() {
                ttl = ttl.min(answer.ttl);
            }
            records.extend(record);
        }
        if !records.is_empty() {
            return Reply {
                records,
                alias: None,
                age: Duration::from_secs(ttl.into()),
            };
        }
        let alias = of_owner().find_map(|answer| match &answer.rdata {
            RData::CNAME(alias) => Some((alias.0.clone(), answer.ttl)),
            _ => None,
        });
        let Some((alias, age)) = alias else { break };
        ttl = ttl.min(age);
        owner = alias;
    }
    if owner == *name {
        return Reply {
            age: negative_age(packet),
            ..Reply::default()
        };
    }
    Reply {
        records: Vec::new(),
        alias: host_name(&owner),
        age: Duration::from_secs(ttl.into()),
    }
}

/// Returns a record of this type. Services without a host or a port do not exist.
fn record(data: &RData<'_>, kind: Kind) -> Option<Record> {
    match (kind, data) {
        (Kind::Ipv4, RData::A(a)) => Some(Record::Address(Ipv4Addr::from(a.address).into())),
        (Kind::Ipv6, RData::AAAA(aaaa)) => {
            Some(Record::Address(Ipv6Addr::from(aaaa.address).into()))
        }
        (Kind::Service, RData::SRV(service)) if service.port > 0 => Some(Record::Service {
            host: format!("{}.", host_name(&service.target)?),
            port: service.port,
        }),
        _ => None,
    }
}

/// Returns a name as text, without a final dot. `None` for the root, and for a label that no host
/// has.
fn host_name(name: &Name<'_>) -> Option<String> {
    let is_host = |label: &[u8]| {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        label.iter().all(is_part)
    };
    let is_valid = !name.get_labels().is_empty() && name.as_bytes().all(is_host);
    is_valid.then(|| name.to_string().to_ascii_lowercase())
}

/// Returns how long the absence of records may be cached (RFC 2308).
fn negative_age(packet: &Packet<'_>) -> Duration {
    let seconds = packet.name_servers.iter().find_map(|record| {
        let RData::SOA(start) = &record.rdata else {
            return None;
        };
        Some(record.ttl.min(start.minimum))
    });
    Duration::from_secs(seconds.unwrap_or(0).into())
}

/// Returns whether a message is a valid reply to a question for addresses.
#[cfg(test)]
pub(super) fn is_reply(bytes: &[u8], id: u16, name: &str) -> bool {
    let name = Name::new(name).expect("a valid name");
    matches!(parse(bytes, id, &name, Kind::Ipv4), Message::Reply(_))
}
