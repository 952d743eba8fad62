//! The traits that a protocol implements, and their argument types.
//!
//! - An [`Exchange`] queries one server once. Its inputs are bytes and timeouts, never the time,
//!   and every id derives from its [`Cookie`]: the same cookie and inputs give the same bytes. An
//!   exchange dropped after its first datagram can therefore be rebuilt when a reply arrives.
//! - A [`Responder`] answers for one server. It is immutable; a new status makes a new responder.
//!   Answering takes no lock, allocates nothing beyond the caller's buffer, and reads no clock.
//! - A [stream](Transport::Stream) protocol uses the same exchange. [`Exchange::frame`] cuts the
//!   bytes of the connection into messages, and each message is passed on like a datagram. Its
//!   server side is a [`Connection`], which has a state.
//! - An [HTTP](Transport::Http) protocol uses it too. Its messages are requests and responses in the
//!   form of HTTP/1.1, which [`http`](crate::protocols::http) reads and writes. [`Exchange::route`] has what is
//!   not part of a request, such as encryption.
//! - Timeouts, retries, rate limits and budgets are not here; they belong to the crate `hailer`.

use crate::model::encoding::Charset;
use crate::model::{Codes, Status, Value};
use crate::token::{Epoch, Keys};
use crate::wire::{self, Deviation};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use compact_str::CompactString;
use core::fmt;
use core::net::{SocketAddr, SocketAddrV4};

/// A protocol: one static value per folder, one line in the [registry](crate::registry).
pub trait Protocol: Sync {
    /// Static facts about the protocol.
    fn info(&self) -> &'static Info;

    /// Returns the client role: one query to one server.
    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange>;

    /// Returns the server role, which sends this status until it is replaced.
    ///
    /// # Errors
    ///
    /// Names an option that is unknown or has an invalid value. By default, and if
    /// [`Info::has_responder`] is not set, there is no server role.
    fn responder(&self, _status: &Status, _keys: &Keys, _options: &Options) -> ResponderResult {
        Err(OptionError::no_responder(self.info()))
    }

    /// Returns the status of a simulated server, for demos and tests, as a function of `seed`. A
    /// client that requests everything reads exactly this status.
    fn sample(&self, seed: u64) -> Status {
        crate::sample::status(seed)
    }

    /// Parses one datagram of either direction to collect its notes. Returns `None` if it does not
    /// belong to this protocol.
    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut wire::Notes,
    ) -> Option<Explanation>;
}

/// A protocol as a value: its facts, and a function for each part. Protocols with one request and one
/// reply are [simpler](crate::one_request).
#[derive(Clone, Copy)]
pub struct Composed {
    /// Static facts.
    pub info: &'static Info,
    /// As [`Protocol::exchange`].
    pub exchange: fn(&Ask, Cookie) -> Box<dyn Exchange>,
    /// As [`Protocol::responder`]. `None`: there is no server role.
    pub responder: Option<MakeResponder>,
    /// As [`Protocol::sample`].
    pub sample: fn(u64) -> Status,
    /// As [`Protocol::explain`].
    pub explain: fn(&[u8], DatagramContext<'_>, &mut wire::Notes) -> Option<Explanation>,
}

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Composed")
            .field("id", &self.info.id)
            .finish_non_exhaustive()
    }
}

/// Returns the server role of a protocol, or the error that it has none.
pub(crate) fn respond(
    make: Option<MakeResponder>,
    info: &Info,
    status: &Status,
    keys: &Keys,
    options: &Options,
) -> ResponderResult {
    match make {
        Some(make) => make(status, keys, options),
        None => Err(OptionError::no_responder(info)),
    }
}

/// Returns the server role for a status, with keys and options.
pub type MakeResponder = fn(&Status, &Keys, &Options) -> ResponderResult;

impl Protocol for Composed {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        (self.exchange)(ask, cookie)
    }

    fn responder(&self, status: &Status, keys: &Keys, options: &Options) -> ResponderResult {
        respond(self.responder, self.info, status, keys, options)
    }

    fn sample(&self, seed: u64) -> Status {
        (self.sample)(seed)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut wire::Notes,
    ) -> Option<Explanation> {
        (self.explain)(bytes, seen, notes)
    }
}

impl fmt::Debug for dyn Protocol + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol({})", self.info().id)
    }
}

/// Static facts about a protocol. Tables, help texts and tests are made from them. The
/// [games table](crate::games) names the games of each protocol, and their SRV services.
///
/// An `Info` states what differs from [`DATAGRAM`](Self::DATAGRAM), [`CONNECTED`](Self::CONNECTED)
/// or [`HTTP`](Self::HTTP).
pub struct Info {
    /// Name in kebab case; also the URL scheme and the name of folder, spec page and vectors.
    pub id: &'static str,
    /// Name for people, such as in tables.
    pub title: &'static str,
    /// Transport of its messages.
    pub transport: Transport,
    /// Port that servers use by default.
    pub port: u16,
    /// Other default port of servers on IPv6. `None` if they have [`port`](Self::port) there too.
    pub ipv6_port: Option<u16>,
    /// When a host without a protocol is probed in this one.
    pub wave: Wave,
    /// Place in the order in which such a host is probed: 0 for the protocol with the most servers.
    /// Those with the same place follow in the order of the registry.
    pub place: u8,
    /// How a client verifies its address before it gets more bytes than it sent.
    pub proof: Proof,
    /// Largest reply of Hailer's responder to an unverified address, with default options.
    pub amplification: Amplification,
    /// Id of an earlier protocol in the registry whose requests have the same bytes, if there is
    /// one. A shared port serves only one of both.
    pub dialect_of: Option<&'static str>,
    /// Id of the protocol that servers of the same game usually answer. Those that stay silent may
    /// answer this one instead, so it is queried after that one.
    pub instead_of: Option<&'static str>,
    /// Whether the protocol declares the character set of its texts. Otherwise, clients
    /// [guess](crate::model::encoding) it.
    pub declares_charset: bool,
    /// Returns the formatting codes of the texts of a status, where these do not follow from their
    /// plain form: `§lbold §acolored` is bold to its end in one edition of Minecraft only. Otherwise
    /// [`Codes::None`].
    pub codes: fn(&Status) -> Codes,
    /// Whether some servers reply from another port than the one that they are queried at.
    pub has_replies_from_other_ports: bool,
    /// Ways in which clients find servers on the local network.
    pub discovery: &'static [Discovery],
    /// Host of the remote service that knows the server, if the server itself is not queried. The
    /// host of the target is then a part of the request.
    pub service: Option<&'static str>,
    /// Whether the [service](Self::service) knows servers by their addresses only. A name is then
    /// looked up, and [`Destination::host`] is its address.
    pub has_listed_addresses: bool,
    /// Keys of [`Status::extra`].
    pub fields: &'static [Doc],
    /// Keys of [`Player::extra`](crate::Player).
    pub player_fields: &'static [Doc],
    /// Deviations that the client accepts.
    pub deviations: &'static [&'static Deviation],
    /// Whether there is a [responder](Protocol::responder).
    pub has_responder: bool,
    /// Whether players join through the port of a responder, so that its connections report
    /// [attempts](Connection::join_attempt).
    pub has_join_attempts: bool,
    /// Time in milliseconds that clients wait for the reply to their attempt to join, with a margin
    /// for the way. A server that starts can hold them for as long.
    pub join_wait_ms: u64,
    /// Options of the responder.
    pub options: &'static [Doc],
}

impl Info {
    /// Facts that most protocols over UDP have in common: nothing verifies the client's address,
    /// there is no responder, and hosts are probed at ports of its games only.
    pub const DATAGRAM: Self = Self {
        id: "",
        title: "",
        transport: Transport::Datagram,
        port: 0,
        ipv6_port: None,
        wave: Wave::OwnPorts,
        place: u8::MAX,
        proof: Proof::Nothing,
        amplification: Amplification {
            request: 1,
            reply: 0,
        },
        dialect_of: None,
        instead_of: None,
        declares_charset: true,
        codes: |_| Codes::None,
        has_replies_from_other_ports: false,
        discovery: &[],
        service: None,
        has_listed_addresses: false,
        fields: &[],
        player_fields: &[],
        deviations: &[],
        has_responder: false,
        has_join_attempts: false,
        join_wait_ms: 10_000,
        options: &[],
    };

    /// The same over TCP, where the connection verifies the address.
    pub const CONNECTED: Self = Self {
        transport: Transport::Stream,
        proof: Proof::Connection,
        ..Self::DATAGRAM
    };

    /// The same over HTTP.
    pub const HTTP: Self = Self {
        transport: Transport::Http,
        ..Self::CONNECTED
    };
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Info({})", self.id)
    }
}

/// Transport of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Each message is a datagram: UDP.
    Datagram,
    /// TCP: one connection per query, or several one after the other.
    Stream,
    /// HTTP: one connection per request.
    Http,
}

impl Transport {
    /// Returns whether a client sets up connections, which prove its address.
    pub fn is_connected(self) -> bool {
        match self {
            Self::Datagram => false,
            Self::Stream | Self::Http => true,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Datagram => "UDP",
            Self::Stream => "TCP",
            Self::Http => "HTTP",
        })
    }
}

/// When a host without a protocol is probed in a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wave {
    /// Immediately.
    First,
    /// If nothing has replied to the first wave.
    Later,
    /// As `Later` at ports of its games. At other ports, its request may reach a server that blocks
    /// the sender or crashes, so it is sent only after 500 ms of silence: RakNet servers block
    /// senders of unknown packets below 80, and JSPrismarine crashes on OneQuery. Both would have
    /// replied to the Bedrock ping (spec/minecraft-bedrock.md).
    Last,
    /// As `Later`, but only at ports of its games: its request disturbs servers that stay silent
    /// until then, or it is too rare elsewhere to be worth a datagram or connection to every silent
    /// host (docs/decisions/0013).
    OwnPorts,
}

/// A way in which clients find servers on the local network.
#[derive(Clone, Copy, Debug)]
pub enum Discovery {
    /// Servers reply to a broadcast of the requests that an exchange begins with.
    Broadcast {
        /// Ports that clients of the protocol send to. The ports of its games come in addition.
        ports: &'static [u16],
    },
    /// Servers reply to the broadcast of a datagram that is not part of an exchange.
    Request {
        /// Ports that clients of the protocol send to.
        ports: &'static [u16],
        /// The datagram.
        request: &'static [u8],
        /// First bytes of every reply.
        reply: &'static [u8],
    },
    /// Servers announce themselves to a multicast group.
    Announcement {
        /// Group and port.
        group: SocketAddrV4,
        /// Returns the port of the server, or `None` if the datagram is not an announcement.
        port_of: fn(&[u8]) -> Option<u16>,
    },
}

/// Where an HTTP request goes, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Added to the port of the server's address.
    pub port_offset: i16,
    /// Encryption of the connection.
    pub tls: Tls,
}

/// Encryption of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// None.
    #[default]
    Off,
    /// TLS with a certificate that the client verifies.
    Verified,
    /// TLS with any certificate, for servers that sign their own.
    AnyCertificate,
    /// The same, or no encryption if the server has no TLS: for requests without secrets.
    Optional,
    /// No encryption, or TLS with any certificate if the server rejects that: for requests without
    /// secrets.
    PlainFirst,
}

/// How a client verifies its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Not verified: a forged source address directs replies at a victim, so budgets are mandatory.
    Nothing,
    /// The client echoes a challenge token sent to its address.
    Token,
    /// The client sets up a connection, which is impossible with a forged address.
    Connection,
}

/// The exchange with the largest reply to an unverified address, in bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amplification {
    /// Length of the request.
    pub request: usize,
    /// Length of the longest reply to that request; 0 if there is none.
    pub reply: usize,
}

impl Amplification {
    /// Returns the bytes sent for each byte received.
    pub fn factor(self) -> f64 {
        self.reply as f64 / self.request as f64
    }
}

/// A documented key.
#[derive(Debug)]
pub struct Doc {
    /// Kebab-case key.
    pub key: &'static str,
    /// Meaning of the key: one sentence without a final stop.
    pub help: &'static str,
}

impl Doc {
    /// Documents a key.
    pub const fn new(key: &'static str, help: &'static str) -> Self {
        Self { key, help }
    }
}

/// Options of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which part of the status to request.
    pub depth: Depth,
    /// Whether to request the player list.
    pub has_players: bool,
    /// Whether to request the rules too, if the protocol has a separate request for them.
    pub has_rules: bool,
    /// Whether to measure the latency with a separate request, if the protocol has one. The request
    /// for the status measures it too, but some proxies pass that on to another server.
    pub has_ping: bool,
    /// Auth token, for protocols that have them.
    pub auth_token: Option<Secret>,
    /// Character set of texts whose protocol declares none, and that are not UTF-8. `None` if it is
    /// to be guessed. Callers pass it to [`decode`](crate::model::encoding::decode).
    pub charset: Option<Charset>,
    /// The server.
    pub to: Destination,
}

/// The server of a query, for protocols that send a part of it or depend on its port. The default is
/// unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// Host as typed, without port. Empty if unknown.
    pub host: CompactString,
    /// Port of the server. 0 if unknown.
    pub port: u16,
    /// Port that players connect to, as the user names it, for protocols that are queried at another
    /// port. 0 if unknown.
    pub game_port: u16,
    /// Address of the server. `None` if unknown.
    pub address: Option<SocketAddr>,
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Default for Ask {
    /// Returns an `Ask` for everything that needs no auth token.
    fn default() -> Self {
        Self {
            depth: Depth::Full,
            has_players: true,
            has_rules: true,
            has_ping: true,
            auth_token: None,
            charset: None,
            to: Destination::default(),
        }
    }
}

/// Which part of the status to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Whether the server replies at all: the cheapest request of the protocol. The status stays
    /// empty.
    Ping,
    /// The fields of the protocol's short reply.
    Basic,
    /// Every field.
    Full,
}

/// The secret from which an exchange derives its ids, so that forged replies do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Returns a number for one purpose. Numbers for different purposes do not reveal each other
    /// (finalizer of SplitMix64).
    pub fn derive(self, purpose: u64) -> u64 {
        let mut z = self
            .0
            .wrapping_add(purpose.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

/// One query to one server.
pub trait Exchange: Send {
    /// Takes one input. If the step sends something, it was appended to `out`; otherwise `out` is
    /// unchanged.
    ///
    /// The first step is [`Step::Send`], and without a reply so is the step after each
    /// [timeout](Input::Timeout) on datagrams: a server that has not replied gets one datagram at a
    /// time.
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step;

    /// Returns the number of the request that was sent last: 0 for the first, then one more for
    /// each. A repeated request keeps its number, also if an earlier one, such as a handshake, is
    /// repeated before it. Callers limit the datagrams of each stage.
    fn stage(&self) -> usize;

    /// Returns where the first message in the bytes of a [stream](Transport::Stream) ends.
    ///
    /// # Errors
    ///
    /// The bytes cannot start a message, or the message is too long.
    fn frame(&self, bytes: &[u8]) -> Result<Frame, wire::Error> {
        Ok(Frame::Complete(bytes.len()))
    }

    /// Returns where the request that was sent last goes. Callers ask after each request over
    /// [HTTP](Transport::Http).
    fn route(&self) -> Route {
        Route::default()
    }

    /// Returns whether the start of a message is enough, although [`frame`](Self::frame) expects
    /// more bytes. Callers ask on a [stream](Transport::Stream) when the rest does not arrive in
    /// time, and then pass the bytes on as a message.
    fn is_usable_start(&self, _bytes: &[u8]) -> bool {
        false
    }
}

/// Position of the end of the first message in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The message has this many bytes, at least one, and all of them are there.
    Complete(usize),
    /// The message is incomplete. [`Exchange::frame`] is not called again before `total` bytes are
    /// there, so that a message with a length is looked at twice, not once for each packet.
    Incomplete {
        /// Smallest length that the message can have, in bytes. More than there are.
        total: usize,
    },
}

/// An input of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// Start of the exchange. Always the first input, once.
    Start,
    /// A datagram arrived from the server's address. On a stream: one message, as cut by
    /// [`Exchange::frame`]. Over HTTP: a response with its whole body.
    Datagram(&'a [u8]),
    /// The datagram of [`Step::SendMore`] was sent. Follows it directly.
    Continue,
    /// No useful datagram arrived within the timeout.
    Timeout,
    /// The server closed the connection. The bytes belong to an incomplete message; often there are none.
    /// Only on streams, and over HTTP if there is no response. [`Step::Wait`] means that the exchange
    /// has no use for it.
    Closed(&'a [u8]),
    /// The deadline has passed. Last input: an exchange that holds a useful part of the status
    /// returns it as [`Step::Done`]; any other step means that it holds nothing.
    GiveUp,
}

/// The next action of an exchange.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Send the datagram in the buffer and wait.
    Send,
    /// Send the datagram in the buffer and pass [`Input::Continue`] for the next one, so that
    /// several requests are in flight. The exchange repeats all unanswered ones after a timeout.
    SendMore,
    /// Close the connection, open a new one to the same address, and send the bytes in the buffer
    /// there. Begins a new [stage](Exchange::stage). Only on streams.
    Reconnect,
    /// Keep waiting: the datagram was stray, late or forged. On a timeout: send nothing again.
    Wait,
    /// The datagram is a useful part of the reply. Keep waiting for the rest; the timeout starts
    /// again.
    Progress,
    /// The server sent something unreadable. Keep waiting or retry; report this fault if nothing
    /// better arrives. On a stream the fault is final, because nothing is sent again.
    Bad(Fault),
    /// The status is complete.
    Done(Box<Status>),
    /// The server has refused to send a status.
    Fail(Fault),
}

/// Problem of a server's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The bytes do not parse.
    Malformed(wire::Error),
    /// The bytes parse but break a rule of the protocol, which the text describes.
    Misbehaved(&'static str),
    /// The server refused the request.
    Refused {
        /// Reason as a clause about the server: "it requires an auth token".
        reason: &'static str,
        /// Names of the refused endpoints, if the protocol has several.
        endpoints: &'static [&'static str],
    },
    /// The server disconnected the client with a text instead of sending a status.
    Kicked(Excerpt),
}

/// Start of a text of a server: one line of at most 118 bytes, without control characters. Has no
/// allocation, so that faults can be copied, and fits a fault of less than 128 bytes, which results of
/// functions can hold in place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    length: u8,
    bytes: [u8; Self::MAX_BYTES],
}

impl Excerpt {
    const MAX_BYTES: usize = 118;

    /// Copies the start of a text.
    pub fn new(text: &str) -> Self {
        let line = crate::model::printable(text);
        let line = wire::cut(line.trim(), Self::MAX_BYTES);
        let mut bytes = [0; Self::MAX_BYTES];
        for (to, from) in bytes.iter_mut().zip(line.bytes()) {
            *to = from;
        }
        Self {
            length: line.len() as u8,
            bytes,
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length));
        core::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "{error}"),
            Self::Misbehaved(rule) => write!(f, "{rule}"),
            Self::Refused { reason, .. } => f.write_str(reason),
            Self::Kicked(text) if text.as_str().is_empty() => {
                f.write_str("it kicks the client without a reason")
            }
            Self::Kicked(text) => write!(f, "it kicks the client: {}", text.as_str()),
        }
    }
}

impl core::error::Error for Fault {}

impl From<wire::Error> for Fault {
    fn from(error: wire::Error) -> Self {
        Self::Malformed(error)
    }
}

/// A responder, or the first option that is unknown or has an invalid value.
pub type ResponderResult = Result<Arc<dyn Responder>, OptionError>;

/// Responder of one server, with one status.
pub trait Responder: Send + Sync {
    /// Handles one datagram. With [`Verdict::Reply`], the reply was appended to `out`; otherwise
    /// `out` is unchanged. A responder of a stream protocol passes on every datagram.
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict;

    /// Appends datagram number `_index` of a reply, if the reply has several.
    /// [`answer`](Self::answer) returned number 0 and whether the request is verified. Returns
    /// `false` and leaves `_out` unchanged if the reply has no such datagram.
    fn continuation(
        &self,
        _request: &[u8],
        _is_verified: bool,
        _index: usize,
        _out: &mut Vec<u8>,
    ) -> bool {
        false
    }

    /// Returns all datagrams of the reply to a request, or none. For tools and tests: it allocates.
    fn replies(&self, from: SocketAddr, epoch: Epoch, request: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let Verdict::Reply { is_verified } = self.answer(from, epoch, request, &mut out) else {
            return Vec::new();
        };
        let mut replies = vec![core::mem::take(&mut out)];
        while self.continuation(request, is_verified, replies.len(), &mut out) {
            replies.push(core::mem::take(&mut out));
        }
        replies
    }

    /// Appends a shorter reply to `_request`, for use when the reply of [`answer`](Self::answer) is
    /// over the budget for unverified sources. Returns `false` and leaves `_out` unchanged if there
    /// is none.
    ///
    /// With 28 bytes of headers added to both, the reply must be at most 3 times the request.
    fn short_reply(&self, _request: &[u8], _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Returns the server side of a connection from `_from`, for a [stream](Transport::Stream)
    /// protocol. Datagram protocols return `None`.
    fn connection(&self, _from: SocketAddr) -> Option<Box<dyn Connection>> {
        None
    }
}

/// Time without bytes, in milliseconds, after which a client has ended its request. The segments of
/// one request arrive closer together, unless one is lost.
pub const PAUSE_MS: u64 = 100;

/// Server side of one connection.
pub trait Connection: Send {
    /// Appends the first bytes of a protocol whose server sends before the client. Called at most
    /// once, before all other methods: immediately if no other protocol shares the port, otherwise
    /// when the client has sent nothing for [`PAUSE_MS`]. By default, the connection waits for the
    /// client.
    fn open(&mut self, _out: &mut Vec<u8>) -> ConnectionStep {
        ConnectionStep::Wait
    }

    /// Handles received bytes: all that the connection has not consumed, with more at the end.
    /// Replies are appended to `out`, and are sent also if the connection ends.
    fn receive(&mut self, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received;

    /// Handles a pause of [`PAUSE_MS`] after the bytes of the last [`receive`](Self::receive), for
    /// requests that are complete only if nothing follows. By default, the connection keeps
    /// waiting. [`ConnectionStep::Pass`] offers an incomplete request to the next protocol.
    fn pause(&mut self, _bytes: &[u8], _out: &mut Vec<u8>) -> Received {
        Received {
            consumed: 0,
            step: ConnectionStep::Wait,
        }
    }

    /// Returns the attempt to join the game that this connection made, once it is complete: with
    /// the step that closes the connection. `None` for protocols of queries only.
    fn join_attempt(&self) -> Option<&JoinAttempt> {
        None
    }
}

/// An attempt to join the game on the port of a responder. All texts are unverified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinAttempt {
    /// Name of the player, at most 64 bytes.
    pub name: CompactString,
    /// UUID of the player, if the client sent it.
    pub uuid: Option<[u8; 16]>,
    /// Host that the client connected to, in lower case, without what proxies append. Empty if the
    /// client did not send it.
    pub host: CompactString,
    /// Port that the client connected to; 0 if it did not send it.
    pub port: u16,
    /// Protocol number of the client; 0 if it did not send it.
    pub protocol: i32,
}

/// Result of [`Connection::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Number of bytes that are not needed again, from the first one.
    pub consumed: usize,
    /// Next step of the caller.
    pub step: ConnectionStep,
}

/// Next step on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStep {
    /// Wait for more bytes.
    Wait,
    /// Close the connection.
    Close,
    /// The bytes do not belong to this protocol: offer the connection to the next one. Possible
    /// only before anything was consumed or sent.
    Pass,
    /// The bytes are invalid: close the connection. The error is for counters and logs.
    Bad(wire::Error),
}

/// Decision of a responder about a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send the reply.
    Reply {
        /// Whether the client verified its address and did not send a wrong secret.
        is_verified: bool,
    },
    /// The datagram belongs to this protocol and gets no reply. The text is the reason, for
    /// counters.
    Drop(&'static str),
    /// The datagram does not belong to this protocol: offer it to the next one, or to the relay.
    Pass,
}

/// Direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From client to server.
    Request,
    /// From server to client.
    Reply,
}

/// Context of a datagram to be explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DatagramContext<'a> {
    /// The direction is unknown.
    #[default]
    Unknown,
    /// The datagram went from client to server.
    Request,
    /// The datagram went from server to client.
    Reply,
    /// From server to client, as the reply to this request. Some deviations show only in comparison
    /// with the request.
    ReplyTo(&'a [u8]),
}

impl<'a> DatagramContext<'a> {
    /// Returns the direction, if known.
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::Unknown => None,
            Self::Request => Some(Direction::Request),
            Self::Reply | Self::ReplyTo(_) => Some(Direction::Reply),
        }
    }

    /// Returns the request that the datagram answers, if known.
    pub fn request(self) -> Option<&'a [u8]> {
        match self {
            Self::ReplyTo(request) => Some(request),
            _ => None,
        }
    }
}

impl From<Direction> for DatagramContext<'_> {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Request => Self::Request,
            Direction::Reply => Self::Reply,
        }
    }
}

/// Result of explaining a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Name of the message, as on the spec page.
    pub message: &'static str,
    /// Direction of the datagram.
    pub direction: Direction,
    /// Whether a magic number identifies the protocol; otherwise it is a guess by shape.
    pub is_certain: bool,
    /// First error in the datagram.
    pub error: Option<wire::Error>,
}

impl Explanation {
    /// Explains a message that a magic number identifies.
    pub fn certain(
        message: &'static str,
        direction: Direction,
        error: Option<wire::Error>,
    ) -> Self {
        Self {
            message,
            direction,
            is_certain: true,
            error,
        }
    }

    /// Explains a message whose protocol is a guess by shape.
    pub fn guess(message: &'static str, direction: Direction, error: Option<wire::Error>) -> Self {
        Self {
            is_certain: false,
            ..Self::certain(message, direction, error)
        }
    }
}

/// Options of a responder by documented key, as read from configuration files and command lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(pub Vec<(String, Value)>);

impl Options {
    /// Returns the options with one more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }

    /// Checks that all keys are documented.
    ///
    /// # Errors
    ///
    /// Names the first key that is not documented.
    pub fn check(&self, documented: &[Doc]) -> Result<(), OptionError> {
        for (key, _) in &self.0 {
            if !documented.iter().any(|doc| doc.key == key) {
                let known: Vec<&str> = documented.iter().map(|doc| doc.key).collect();
                let fix = if known.is_empty() {
                    "this protocol has no options; remove it".into()
                } else {
                    alloc::format!("unknown; known are {}", known.join(", "))
                };
                return Err(OptionError {
                    key: key.clone(),
                    problem: fix.into(),
                });
            }
        }
        Ok(())
    }

    /// Returns the last value of a key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// Returns the value of a Boolean option.
    ///
    /// # Errors
    ///
    /// Fails if the value is not `true` or `false`.
    pub fn bool(&self, key: &str, default: bool) -> Result<bool, OptionError> {
        match self.value(key) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(OptionError::new(key, "must be true or false")),
        }
    }

    /// Returns the value of an integer option within a range.
    ///
    /// # Errors
    ///
    /// Fails if the value is not a whole number within `range`.
    pub fn int(
        &self,
        key: &str,
        default: i64,
        range: core::ops::RangeInclusive<i64>,
    ) -> Result<i64, OptionError> {
        match self.value(key) {
            None => Ok(default),
            Some(Value::Int(value)) if range.contains(value) => Ok(*value),
            Some(_) => Err(OptionError {
                key: key.into(),
                problem: alloc::format!(
                    "must be a whole number from {} to {}",
                    range.start(),
                    range.end()
                )
                .into(),
            }),
        }
    }

    /// Returns the value of an option that has one of several keywords.
    ///
    /// # Errors
    ///
    /// Fails if the value is not in `words`.
    pub fn word<'a>(
        &'a self,
        key: &str,
        words: &[&'a str],
    ) -> Result<Option<&'a str>, OptionError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Str(value)) if words.contains(&value.as_str()) => Ok(Some(value)),
            Some(_) => Err(OptionError {
                key: key.into(),
                problem: alloc::format!("must be one of \"{}\"", words.join("\", \"")).into(),
            }),
        }
    }
}

/// Value of the option `max-reply` of a responder over UDP: the longest reply in bytes, from `MIN` to
/// [`LARGEST`](MaxReply::LARGEST), by default `DEFAULT`. The rest is left out. Amplification
/// grows with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxReply<const MIN: usize, const DEFAULT: usize>(usize);

impl<const MIN: usize, const DEFAULT: usize> MaxReply<MIN, DEFAULT> {
    /// Least value in bytes.
    pub const LEAST: usize = MIN;
    /// Default value in bytes.
    pub const DEFAULT: usize = DEFAULT;
    /// Largest value in bytes: the payload of a UDP datagram over IPv4.
    pub const LARGEST: usize = 65_507;

    /// Returns the permitted value that is nearest to this number of bytes.
    pub fn new(bytes: usize) -> Self {
        Self(bytes.clamp(MIN, Self::LARGEST))
    }

    /// Reads the option.
    ///
    /// # Errors
    ///
    /// Fails if the value is not a whole number of the range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        let range = MIN as i64..=Self::LARGEST as i64;
        let bytes = options.int("max-reply", DEFAULT as i64, range)?;
        Ok(Self(bytes as usize))
    }

    /// Returns the length in bytes.
    pub fn bytes(self) -> usize {
        self.0
    }
}

impl<const MIN: usize, const DEFAULT: usize> Default for MaxReply<MIN, DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

/// An invalid option of a responder, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// Key of the option.
    pub key: String,
    /// The problem and how to fix it.
    pub problem: Cow<'static, str>,
}

impl OptionError {
    /// Creates the error of a protocol without a server role.
    pub fn no_responder(info: &Info) -> Self {
        Self::new(
            info.id,
            "Hailer has no responder for this protocol; it only queries servers",
        )
    }

    /// Creates an error for a key.
    pub fn new(key: &str, problem: &'static str) -> Self {
        Self {
            key: key.into(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl core::error::Error for OptionError {}
