//! Queries of single servers.
//!
//! ```text
//!   in_waves ─► in_protocols ─► at_every_address ─► at_address ─► run_exchange ─► socket
//!               one exchange     one address after   one address,  one exchange
//!               per protocol     the other           one Answer
//! ```
//!
//! Each exchange has its own connected socket. The system then picks a random source port for every
//! query, delivers only datagrams of the server's address, and reports closed ports (ICMP).
//!
//! A target without a protocol is queried in several protocols simultaneously, in waves: see
//! [`Client::detect`]. Every exchange that has received a useful reply runs to its end. Once one
//! protocol has answered, those that share a game with it have a short time for their first useful
//! reply and repeat their request once within it; the others end immediately. Answers are sorted by how
//! complete they are, not by their arrival, so that the result does not depend on timing.
//!
//! May import: `crate::answer`, `crate::discover`, `crate::error`, `crate::merge`, `crate::names`,
//! `crate::support`, `crate::target`, `crate::transcript`, `hailer_proto`.

mod answers;
mod builder;
mod detection;
mod exchange;
pub mod gamedig;
mod shared;
mod socket;

pub use self::answers::Answers;
pub use self::builder::ClientBuilder;
pub use crate::answer::FieldSource;
pub use crate::error::{ErrorKind, FaultPlace, ProtocolFailure};
pub use crate::support::drive::QueryLimits;
pub use crate::target::{Host, TargetError};
pub use crate::transcript::{Datagram, Transcript};

use self::answers::place_in_registry;
use self::detection::{Detection, StartedWave};
use self::shared::SharedSockets;
use crate::answer::Answer;
#[cfg(feature = "discover")]
use crate::discover::FoundServer;
use crate::error::Error;
use crate::names::{NameResolver, Resolved};
use crate::support::catalog;
use crate::support::http::HttpServer;
use crate::support::local;
use crate::target::Target;
use futures_util::stream::{self, BoxStream, FuturesUnordered, Stream, StreamExt};
use hailer_proto::games::{Game, Quirk};
use hailer_proto::model::encoding;
use hailer_proto::{Ask, Depth, Destination, Protocol, Tls, registry};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Delay before the next address of a name is tried as well (RFC 8305 recommends 250 ms).
const ADDRESS_DELAY: Duration = Duration::from_millis(250);
/// Port of remote services.
const HTTPS_PORT: u16 = 443;

/// Configuration of a [`Client`]. The default requests everything that needs no auth token.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Depth of the request, players, auth token. If `to.host` is not empty, servers get it instead of
    /// the host of the target; `to.game_port` replaces the port of the game, if it is not 0.
    pub ask: Ask,
    /// Timeout, retries, deadline and receive limits.
    pub limits: QueryLimits,
    /// Whether to refuse answers that deviate from the protocol, instead of listing the deviations
    /// in them.
    pub is_strict: bool,
    /// Whether to store every datagram of an exchange in [`Transcript::datagrams`].
    pub has_datagrams: bool,
    /// Whether connections over TCP begin with a PROXY protocol header that has the addresses of the
    /// connection, for servers behind a proxy that require one. Requests over HTTP have none.
    pub has_proxy_header: bool,
    /// Time for the first reply in other protocols of the same game, once one protocol has answered.
    /// Exchanges that have received a valid reply run to their end. `None`: three times the latency,
    /// counted from the request, but at least 100 ms and at most 1 s after the answer.
    pub wait: Option<Duration>,
    /// Local address to send from. With a port, datagrams come from this port, also those to several
    /// servers; connections over TCP have the address only, because a port that has just been used
    /// is not available for a minute. Servers of the other IP version are unreachable.
    pub source: Option<SocketAddr>,
    /// Name server to use instead of the system's.
    pub name_server: Option<SocketAddr>,
    /// Encryption of HTTP: for servers behind a proxy, or to verify certificates.
    /// `None`: that of the protocol, which remote services always have.
    pub tls: Option<Tls>,
    /// Whether the port of a target is the only one to query, even if servers of its game have
    /// another port for queries.
    pub is_port_exact: bool,
    /// Where to send requests to the remote service of a protocol, instead of to its own host. For
    /// mirrors and tests.
    pub service: Option<HttpServer>,
}

/// Queries servers.
///
/// ```no_run
/// # async fn example() -> Result<(), hailer::Error> {
/// let client = hailer::Client::default();
/// let answer = client.query("play.example.com").await?;
/// println!("{}", answer.status.title().unwrap_or_default());
/// # Ok(()) }
/// ```
#[derive(Default)]
pub struct Client {
    config: ClientConfig,
    names: Arc<NameResolver>,
    shared: Arc<SharedSockets>,
}

/// Addresses at which a server may reply, from [`Client::candidates`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidates {
    /// At least one address, the most likely first.
    pub addresses: Vec<SocketAddr>,
    /// The SRV record that led there, as a clause for errors. `None` if none did.
    pub srv: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut client = f.debug_struct("Client");
        client.field("config", &self.config).finish_non_exhaustive()
    }
}

/// Results of [`Client::query_many`] as they arrive. Also a [`Stream`].
pub struct QueryStream<'a, T>(BoxStream<'a, (T, Result<Answers, Error>)>);

impl<T> fmt::Debug for QueryStream<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryStream").finish_non_exhaustive()
    }
}

impl<T> QueryStream<'_, T> {
    /// Waits for the next result and returns it with its target; `None` after the last.
    pub async fn next(&mut self) -> Option<(T, Result<Answers, Error>)> {
        self.0.next().await
    }
}

impl<T> Stream for QueryStream<'_, T> {
    type Item = (T, Result<Answers, Error>);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl Client {
    /// Returns a builder, whose methods have the names of the flags of `hailer query`.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns a client with this configuration.
    pub fn new(config: ClientConfig) -> Self {
        let names = NameResolver::new(config.name_server);
        Self {
            config,
            names: Arc::new(names),
            shared: Arc::default(),
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Returns the addresses at which a target would be queried, at least one, the best first.
    /// Follows an SRV record if the target's game or protocol has them. Without a protocol and a
    /// port, the port is 0.
    ///
    /// # Errors
    /// The name does not exist, or cannot be looked up.
    pub async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Error> {
        let srv = target.protocol.and_then(|protocol| target.srv(protocol));
        let default_port = target.query_port().unwrap_or(0);
        let port = target.port_without_srv();
        let names = self.names.resolve(&target.host, port, default_port, srv);
        Ok(names.await?.addresses)
    }

    /// Returns the addresses at which a server may reply, at least one, the most likely first. For
    /// a game these are all its query ports, at most 12 addresses in total. Follows an SRV record
    /// if the target's game or protocol has them.
    ///
    /// # Errors
    /// The name does not exist, or cannot be looked up.
    pub async fn candidates(&self, target: &Target) -> Result<Candidates, Error> {
        let (addresses, srv) = match target.protocol {
            Some(protocol) => {
                let Resolved { addresses, srv } = self.candidates_in(target, protocol).await?;
                (addresses, srv)
            }
            None => (self.addresses(target).await?, None),
        };
        Ok(Candidates { addresses, srv })
    }

    /// Queries a server and returns its best answer: the merged one of several protocols of its
    /// game, or else the most complete one. A target without a protocol is probed as by
    /// [`Client::detect`].
    ///
    /// # Errors
    /// The target is invalid, its name cannot be resolved, or there is no valid answer.
    pub async fn query<T>(&self, target: T) -> Result<Answer, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        let answers = self.detect(target).await?;
        Ok(answers.into_best())
    }

    /// Queries a server in the protocols of the target's game, in the target's protocol, or else in
    /// the most common protocols, and returns every answer.
    ///
    /// A target without a protocol is probed in waves: first in at most six protocols, which
    /// its port selects. Others follow only if nothing has replied within 100 ms. Requests that are
    /// known to crash some servers, or to make them block the sender, follow after 500 ms of silence:
    /// these servers would have replied to the ping of Minecraft Bedrock. At most 12 datagrams are
    /// sent and two connections opened before the first answer.
    ///
    /// Once a protocol has answered, only those that share a game with it are waited for, as
    /// [`ClientConfig::wait`] says. The others end immediately, unless they have received a valid reply.
    ///
    /// # Errors
    /// As of [`Client::query`]. If no protocol got an answer, [`Error::NoProtocol`] has the
    /// reasons.
    pub async fn detect<T>(&self, target: T) -> Result<Answers, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        self.in_waves(&target.try_into()?, &self.config.ask).await
    }

    /// Queries a server in the target's game or protocol, or else in all protocols simultaneously,
    /// and returns every answer. Prefer [`Client::detect`] for unknown servers: some
    /// protocols disturb servers of other games.
    ///
    /// After the first answer, all others are waited for as [`ClientConfig::wait`] says.
    ///
    /// # Errors
    /// As of [`Client::detect`].
    pub async fn query_all<T>(&self, target: T) -> Result<Answers, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        let target = target.try_into()?;
        if target.protocol.is_some() {
            return self.in_waves(&target, &self.config.ask).await;
        }
        let mut protocols = catalog::protocols();
        protocols.retain(|protocol| protocol.info().service.is_none());
        let waves = vec![StartedWave::only(protocols)];
        let detection = Detection::unlimited(self.config.wait);
        self.in_protocols(&target, waves, &detection, &self.config.ask)
            .await
    }

    /// Queries one address of a target in one protocol.
    ///
    /// # Errors
    /// There is no valid answer.
    pub async fn query_at(
        &self,
        target: &Target,
        protocol: &'static dyn Protocol,
        address: SocketAddr,
    ) -> Result<Answer, Error> {
        let ask = Ask {
            to: Destination {
                host: sent_host(target, &self.config.ask).into(),
                port: target.query_port().unwrap_or(0),
                ..Destination::default()
            },
            ..self.config.ask.clone()
        };
        self.at_address(address, protocol, &ask, None).await
    }

    /// Measures the latency of a server, with the cheapest request of the target's protocol or of
    /// those that [`Client::detect`] tries. The status stays empty.
    ///
    /// # Errors
    /// As of [`Client::query`].
    pub async fn ping<T>(&self, target: T) -> Result<Answer, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        let ask = Ask {
            depth: Depth::Ping,
            ..self.config.ask.clone()
        };
        let answers = self.in_waves(&target.try_into()?, &ask).await?;
        Ok(answers.into_best())
    }

    /// Queries many servers as [`Client::detect`] does, `concurrency` at a time (0 counts as 1).
    /// Results arrive in the order in which the queries end. No new query starts while finished
    /// results are waiting to be taken, nor after the stream was dropped.
    ///
    /// ```no_run
    /// # async fn example() {
    /// let client = hailer::Client::default();
    /// let mut results = client.query_many(["play.example.com", "ugp://192.0.2.7"], 100);
    /// while let Some((target, result)) = results.next().await {
    ///     match result {
    ///         Ok(answers) => println!("{target}: {} players", answers.best().status.players.count()),
    ///         Err(error) => println!("{target}: {error}"),
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// Each query opens its own socket. With a rate limit, or for more than about ten thousand
    /// servers, use [`sweep`](crate::sweep).
    pub fn query_many<'a, I, T>(&'a self, targets: I, concurrency: usize) -> QueryStream<'a, T>
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'a,
        T: TryInto<Target> + Clone + Send + 'a,
        T::Error: Send,
        Error: From<T::Error>,
    {
        let query = move |target: T| async move {
            let result = match target.clone().try_into() {
                Ok(parsed) => self.in_waves(&parsed, &self.config.ask).await,
                Err(error) => Err(error.into()),
            };
            (target, result)
        };
        QueryStream(
            stream::iter(targets)
                .map(query)
                .buffer_unordered(concurrency.max(1))
                .boxed(),
        )
    }

    /// Queries a server that a [search](crate::discover) has found, in every protocol that it was
    /// seen in.
    ///
    /// # Errors
    /// As of [`Client::query`], for the first protocol.
    #[cfg(feature = "discover")]
    pub async fn query_found(&self, found: &FoundServer) -> Result<Answers, Error> {
        let address = found.address;
        let target = Target {
            game: None,
            protocol: found.protocols.first().copied(),
            host: Host::Address(address.ip()),
            port: Some(address.port()),
        };
        let ask = &Ask {
            to: Destination {
                host: sent_host(&target, &self.config.ask).into(),
                ..Destination::default()
            },
            ..self.config.ask.clone()
        };
        let queries = found.protocols.iter();
        let queries = queries.map(|protocol| self.at_address(address, *protocol, ask, None));
        Answers::combine(&target, futures_util::future::join_all(queries).await, ask)
    }

    /// Queries a target in its protocol, in the protocols of its game, or else in waves.
    async fn in_waves(&self, target: &Target, ask: &Ask) -> Result<Answers, Error> {
        let mut answers = match (target.game, target.protocol) {
            (Some(game), _) if game.protocols.len() > 1 => {
                let waves = detection::schedule_of(game);
                let detection = Detection::unlimited(self.config.wait);
                self.in_protocols(target, waves, &detection, ask).await?
            }
            (_, Some(protocol)) => {
                let answer = self.at_every_address(target, protocol, ask, None).await?;
                Answers::new(vec![answer], target.game)
            }
            (_, None) => {
                let waves = detection::schedule(target.port);
                let detection = Detection::limited(self.config.wait);
                self.in_protocols(target, waves, &detection, ask).await?
            }
        };
        answers.add_notes(target, ask);
        Ok(answers)
    }

    /// Queries a target in several protocols, in waves. The next wave starts at its time if nothing
    /// has replied, or when all exchanges have failed. The last one needs servers that are silent.
    async fn in_protocols(
        &self,
        target: &Target,
        waves: Vec<StartedWave>,
        detection: &Detection,
        ask: &Ask,
    ) -> Result<Answers, Error> {
        let query = |protocol: &'static dyn Protocol| async move {
            let result = self
                .at_every_address(target, protocol, ask, Some(detection))
                .await;
            (protocol.info(), result)
        };
        let started = Instant::now();
        let mut exchanges = FuturesUnordered::new();
        let mut answers = Vec::new();
        let mut failures = Vec::new();
        let mut waves = VecDeque::from(waves);
        loop {
            let next_at = waves.front().map(|wave| started + wave.at);
            let can_continue = next_at.is_some() && !detection.has_reply();
            let next_wave = sleep_until(next_at.unwrap_or(started));
            let result = tokio::select! {
                biased;
                // First: an exchange with a server that always has more to read must not delay it.
                () = next_wave, if can_continue => None,
                result = exchanges.next() => match result {
                    Some(result) => Some(result),
                    None if waves.front().is_none_or(|wave| wave.is_last) => break,
                    None if answers.is_empty() => None,
                    None => break,
                },
            };
            let Some((protocol, result)) = result else {
                if let Some(wave) = waves.pop_front() {
                    if wave.is_last {
                        detection.start_last_wave();
                    }
                    exchanges.extend(wave.protocols.into_iter().map(query));
                }
                continue;
            };
            match result {
                Ok(answer) => {
                    detection.answered(protocol, answer.latency);
                    answers.push(answer);
                }
                Err(error) => failures.push(ProtocolFailure { protocol, error }),
            }
        }
        if answers.is_empty() {
            failures.sort_by_key(|failure| place_in_registry(failure.protocol));
            if target.game.is_some() {
                return Err(Error::of_game(failures));
            }
            return Err(Error::of_all_protocols(failures));
        }
        // A server answers a dialect of its protocol too, because the requests are the same.
        let found: Vec<&str> = answers
            .iter()
            .map(|answer: &Answer| answer.transcript.protocol.id)
            .collect();
        answers.retain(|answer| {
            let id = answer.transcript.protocol.id;
            let original = registry::find(id).and_then(|protocol| protocol.info().dialect_of);
            original.is_none_or(|original| !found.contains(&original))
        });
        Ok(Answers::new(answers, target.game))
    }

    /// Queries the addresses of a target in one protocol. The next address is tried as soon as one
    /// has failed, or after [`ADDRESS_DELAY`].
    async fn at_every_address(
        &self,
        target: &Target,
        protocol: &'static dyn Protocol,
        ask: &Ask,
        detection: Option<&Detection>,
    ) -> Result<Answer, Error> {
        let Resolved { addresses, srv } = self.candidates_in(target, protocol).await?;
        let game = target.game;
        let has_list = game.is_none_or(|game| !game.quirks.contains(&Quirk::NoPlayerList));
        let listed = if protocol.info().has_listed_addresses {
            Some(self.listed_address(target, protocol).await?)
        } else {
            None
        };
        let host = listed.map(|address| address.ip().to_string());
        let ask = &Ask {
            has_players: ask.has_players && has_list,
            charset: ask.charset.or(game.and_then(Game::charset)),
            to: Destination {
                host: host.unwrap_or_else(|| sent_host(target, ask)).into(),
                game_port: match ask.to.game_port {
                    0 => target.game_port(&addresses, protocol),
                    port => port,
                },
                port: listed.map_or(target.query_port().unwrap_or(0), |address| address.port()),
                ..Destination::default()
            },
            ..ask.clone()
        };
        if let [address] = addresses[..] {
            let answer = self.at_address(address, protocol, ask, detection).await;
            return answer.map_err(|error| Error::of_addresses(vec![error], srv));
        }
        let mut addresses = addresses.into_iter();
        let mut exchanges = FuturesUnordered::new();
        let mut errors = Vec::new();
        loop {
            let address = addresses.next();
            let was_last = address.is_none();
            exchanges
                .extend(address.map(|address| self.at_address(address, protocol, ask, detection)));
            let next = if was_last {
                Ok(exchanges.next().await)
            } else {
                tokio::time::timeout(ADDRESS_DELAY, exchanges.next()).await
            };
            match next {
                Ok(Some(Ok(answer))) => return Ok(answer),
                Ok(Some(Err(error))) => errors.push(error),
                Ok(None) => return Err(Error::of_addresses(errors, srv)),
                Err(_) => {}
            }
        }
    }

    /// Returns the address of a server in a list. Most lists have IPv4 addresses only.
    async fn listed_address(
        &self,
        target: &Target,
        protocol: &'static dyn Protocol,
    ) -> Result<SocketAddr, Error> {
        let port = target.query_port();
        let default_port = port.unwrap_or(target.default_port(protocol));
        let srv = target.srv(protocol);
        let found = self
            .names
            .resolve(&target.host, target.port, default_port, srv);
        let found = found.await?.addresses;
        let first = found.iter().find(|address| address.is_ipv4());
        Ok(*first
            .or(found.first())
            .expect("a name has at least one address"))
    }

    /// Returns the addresses at which a server may reply in a protocol.
    async fn candidates_in(
        &self,
        target: &Target,
        protocol: &'static dyn Protocol,
    ) -> Result<Resolved, Error> {
        let default_port = target.default_port(protocol);
        if let Some(host) = protocol.info().service {
            let host = Host::Name(host.into());
            return match &self.config.service {
                Some(service) => Ok(Resolved::without_srv(vec![service.address])),
                None => {
                    let port = Some(HTTPS_PORT);
                    self.names.resolve(&host, port, HTTPS_PORT, None).await
                }
            };
        }
        let srv = target.srv(protocol);
        let names = &self.names;
        let found = names.resolve(&target.host, target.port, default_port, srv);
        let Resolved { addresses, srv } = found.await?;
        let is_exact = self.config.is_port_exact && target.port.is_some();
        let mut addresses = match is_exact {
            true => addresses,
            false => target.at_query_ports(addresses, protocol, default_port),
        };
        // If none is left, the error names the addresses.
        if addresses
            .iter()
            .any(|address| local::can_reach(self.config.source, *address))
        {
            addresses.retain(|address| local::can_reach(self.config.source, *address));
        }
        Ok(Resolved { addresses, srv })
    }

    /// Queries one address.
    async fn at_address(
        &self,
        address: SocketAddr,
        protocol: &'static dyn Protocol,
        ask: &Ask,
        detection: Option<&Detection>,
    ) -> Result<Answer, Error> {
        let mut transcript = Transcript::new(protocol.info(), address);
        let mut notes = Vec::new();
        match self
            .run_exchange(&mut transcript, protocol, ask, detection, &mut notes)
            .await
        {
            Ok(Ok(mut output)) => {
                if !protocol.info().declares_charset {
                    encoding::decode(&mut output.status, ask.charset);
                }
                let mut answer = Answer::new(transcript, output.status, output.latency);
                answer.notes = notes;
                answer.accept(self.config.is_strict)
            }
            Ok(Err(failure)) => Err(Error::from_failure(transcript, failure)),
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                Err(Error::PortClosed {
                    transcript: transcript.into(),
                })
            }
            Err(cause) => Err(Error::Unreachable {
                transcript: transcript.into(),
                cause,
            }),
        }
    }
}

/// Returns the host to send to a server: the configured one, or else that of the target.
fn sent_host(target: &Target, ask: &Ask) -> String {
    match &*ask.to.host {
        "" => target.host.to_string(),
        host => host.to_owned(),
    }
}
