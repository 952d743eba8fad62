//! Builds a client. Its methods have the names of the flags of `hailer query`.
//!
//! In: one value after the other. Out: a client with them.
//!
//! May import: `crate::client`, `crate::support`, `hailer_proto`.

use super::{Client, ClientConfig};
use crate::support::http::HttpServer;
use crate::support::setters::query_setters;
use hailer_proto::Tls;
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
    query_setters!(retries: 3);

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
