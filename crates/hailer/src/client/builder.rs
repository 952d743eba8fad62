//! Builds a client. Its methods have the names of the flags of `hailer query`.
//!
//! In: one value after the other. Out: a client with them.
//!
//! May import: `crate::client`, `crate::support`, `hailer_proto`.

use super::{Client, ClientConfig};
use crate::support::http::HttpServer;
use hailer_proto::{Charset, Depth, Secret, Tls};
use std::net::SocketAddr;
use std::time::Duration;

/// Builder of a [`Client`], from [`Client::builder`]. Its methods have the names of the flags of
/// `hailer query`.
///
/// ```
/// use std::time::Duration;
///
/// let client = hailer::Client::builder()
///     .timeout(Duration::from_millis(500))
///     .retries(1)
///     .players(false)
///     .build();
/// assert_eq!(client.config().limits.retries, 1);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    config: ClientConfig,
    deadline: Option<Duration>,
}

impl ClientBuilder {
    /// Longest time to wait for one reply, before a retry. Default: 1 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.limits.timeout = timeout;
        self
    }

    /// Retries after a timeout, at most 254. Default: 3.
    pub fn retries(mut self, retries: u32) -> Self {
        self.config.limits.retries = retries;
        self
    }

    /// Longest time for one query, including retries, without the name lookup. Default: 10 s, or
    /// `timeout × (retries + 1)` if that is longer.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Whether to request the list of players. Default: yes.
    pub fn players(mut self, has_players: bool) -> Self {
        self.config.ask.has_players = has_players;
        self
    }

    /// Whether to send separate requests for rules, which a2s and ugp have. Default: yes.
    pub fn rules(mut self, has_rules: bool) -> Self {
        self.config.ask.has_rules = has_rules;
        self
    }

    /// Whether to request only the short reply of the protocol. Default: no.
    pub fn basic(mut self, is_basic: bool) -> Self {
        self.config.ask.depth = if is_basic { Depth::Basic } else { Depth::Full };
        self
    }

    /// Auth token, for protocols that use one.
    pub fn auth_token(mut self, token: impl Into<Secret>) -> Self {
        self.config.ask.auth_token = Some(token.into());
        self
    }

    /// Character set of texts that are not UTF-8, in protocols that declare none. Default: a guess
    /// by content.
    pub fn charset(mut self, charset: Charset) -> Self {
        self.config.ask.charset = Some(charset);
        self
    }

    /// Host name to send instead of that of the target, for proxies that choose a server by it.
    pub fn send_host(mut self, host: impl AsRef<str>) -> Self {
        self.config.ask.to.host = host.as_ref().into();
        self
    }

    /// Whether to begin connections over TCP with a PROXY protocol header. Default: no.
    pub fn proxy_header(mut self, has_header: bool) -> Self {
        self.config.has_proxy_header = has_header;
        self
    }

    /// Whether to reject replies that deviate from the protocol. Default: no.
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.config.is_strict = is_strict;
        self
    }

    /// Time for other protocols of the same game, once one has answered. Default: three times the
    /// latency, 100 ms to 1 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.config.wait = Some(wait);
        self
    }

    /// Local address to send from; port 0 is any. Over TCP, the port is always any. Default: the
    /// system's choice.
    pub fn source(mut self, source: SocketAddr) -> Self {
        self.config.source = Some(source);
        self
    }

    /// Encryption of protocols over HTTP. Default: that of the protocol.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.config.tls = Some(tls);
        self
    }

    /// Name server for host names. Default: the system's.
    pub fn name_server(mut self, server: SocketAddr) -> Self {
        self.config.name_server = Some(server);
        self
    }

    /// Whether to keep every datagram, for [`Transcript::datagrams`](crate::client::Transcript::datagrams),
    /// as `hailer query --raw` shows them. Default: no.
    pub fn raw(mut self, has_datagrams: bool) -> Self {
        self.config.has_datagrams = has_datagrams;
        self
    }

    /// Where to send requests to the remote service of a protocol, for mirrors and tests. Default:
    /// its own host.
    pub fn service(mut self, service: HttpServer) -> Self {
        self.config.service = Some(service);
        self
    }

    /// Returns the client.
    #[must_use]
    pub fn build(self) -> Client {
        let mut config = self.config;
        config.limits.leave_time(self.deadline);
        Client::new(config)
    }
}
