//! Queries of single servers.
//!
//! ```text
//!   in_every_protocol ─► at_every_address ─► at_address ─► run_exchange ─► socket
//!   one exchange for      one address after   one address,  one exchange
//!   each protocol         the other           one Answer
//! ```
//!
//! Each exchange has its own connected socket. The system then picks a random source port for every
//! query, delivers only datagrams of the server's address, and reports closed ports (ICMP).
//!
//! A target without a protocol is queried in several protocols simultaneously, in waves: see
//! [`Client::detect`]. Every exchange that has received a useful reply runs to its end. Once one protocol has answered, the
//! others have `DETECTION_WINDOW` for their first useful reply, or four times the latency of that
//! answer if this is longer, and repeat their requests within it. Answers are sorted by how
//! complete they are, not by their arrival, so that the result does not depend on timing.

use crate::answer::Answer;
use crate::catalog;
use crate::detection::{self, Detection};
use crate::discover::FoundServer;
use crate::drive::{Action, ExchangeDriver, ExchangeError, ExchangeOutput, QueryLimits};
use crate::error::{Error, ProtocolFailure};
use crate::http::{self, Destination};
use crate::merge;
use crate::names::NameResolver;
use crate::target::{Host, Target};
use crate::transcript::{Datagram, Transcript};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{self, BoxStream, FuturesUnordered, Stream, StreamExt};
use hailer_proto::games::{Game, Quirk};
use hailer_proto::{
    Ask, Cookie, Depth, Direction, Info, Protocol, Route, Tls, Transport, registry,
};
use std::cmp::Reverse;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Largest datagram, in bytes. A smaller buffer would cut long lists of players.
const MAX_DATAGRAM: usize = 65_535;
/// Bytes per read from a stream.
const STREAM_CHUNK_BYTES: usize = 16 * 1_024;
/// Delay before the next address of a name is tried as well (RFC 8305 recommends 250 ms).
const ADDRESS_DELAY: Duration = Duration::from_millis(250);
/// Time for the first useful reply in a protocol once another protocol has answered.
const DETECTION_WINDOW: Duration = Duration::from_secs(1);
/// Port of remote services.
const HTTPS_PORT: u16 = 443;
/// Shortest timeout of one request within `DETECTION_WINDOW`.
const MIN_DETECTION_TIMEOUT: Duration = Duration::from_millis(250);

/// Configuration of a [`Client`]. The default requests everything that needs no auth token.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Depth of the request, players, auth token. If `host` is not empty, servers get it instead of
    /// the host of the target.
    pub ask: Ask,
    /// Timeout, retries, deadline and receive limits.
    pub limits: QueryLimits,
    /// Whether to refuse answers that deviate from the protocol, instead of listing the deviations
    /// in them.
    pub strict: bool,
    /// Whether to store every datagram of an exchange in [`Transcript::datagrams`].
    pub has_datagrams: bool,
    /// Name server to use instead of the system's.
    pub name_server: Option<SocketAddr>,
    /// Encryption of HTTP: for servers behind a proxy, or to verify certificates.
    /// `None`: that of the protocol, which remote services always have.
    pub tls: Option<Tls>,
    /// Where to send requests to the remote service of a protocol, instead of to its own host. For
    /// mirrors and tests.
    pub service: Option<Destination>,
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
    names: NameResolver,
}

/// Results of [`Client::query_many`] as they arrive. Also a [`Stream`].
pub struct QueryStream<'a, T>(BoxStream<'a, (T, Result<Answers, Error>)>);

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

/// Answers of one server: one for each protocol that it answered in, and at least one.
///
/// The most complete answer comes first: the one with the most complete player list, then with the
/// most fields. Equally complete answers are in the order of the [registry].
///
/// Answers in several protocols of one game, from one address, are also merged to one answer.
#[derive(Clone, Debug)]
pub struct Answers {
    /// At least one.
    separate: Vec<Answer>,
    merged: Option<(Box<Answer>, &'static Game)>,
}

impl Answers {
    /// Sorts the answers and merges those in protocols of one game. There must be at least one
    /// answer. Without a `game`, the protocols decide.
    fn new(mut answers: Vec<Answer>, game: Option<&'static Game>) -> Self {
        answers.sort_by_key(|answer| {
            (
                Reverse(answer.completeness()),
                place_in_registry(answer.transcript.protocol),
            )
        });
        let merged = merge::merge(&answers, game);
        Self {
            merged: merged.map(|(answer, game)| (Box::new(answer), game)),
            separate: answers,
        }
    }

    /// Returns the merged answer, or else the most complete one.
    pub fn best(&self) -> &Answer {
        match &self.merged {
            Some((answer, _)) => answer,
            None => &self.separate[0],
        }
    }

    /// Combines the results of several exchanges with one server: in the protocols of its target, at
    /// one or several ports. The answers are merged and get notes as by [`Client::detect`]. If
    /// several answers have the same protocol, the first counts.
    ///
    /// # Errors
    /// There is no answer: the most informative error in the target's main protocol.
    pub fn combine(
        target: &Target,
        results: Vec<Result<Answer, Error>>,
        ask: &Ask,
    ) -> Result<Self, Error> {
        let main = target.protocol.map(|protocol| protocol.info().id);
        let mut answers: Vec<Answer> = Vec::new();
        let mut best_error: Option<Error> = None;
        let rank = |error: &Error| {
            let protocol = error.transcript().map(|transcript| transcript.protocol.id);
            (protocol.is_none_or(|id| Some(id) == main), error.weight())
        };
        for result in results {
            match result {
                Ok(answer) => {
                    let id = answer.transcript.protocol.id;
                    if !answers
                        .iter()
                        .any(|answer| answer.transcript.protocol.id == id)
                    {
                        answers.push(answer);
                    }
                }
                Err(error) => {
                    if best_error
                        .as_ref()
                        .is_none_or(|best| rank(&error) > rank(best))
                    {
                        best_error = Some(error);
                    }
                }
            }
        }
        if answers.is_empty() {
            let none = Error::NoProtocol {
                failures: Vec::new(),
            };
            return Err(best_error.unwrap_or(none));
        }
        let mut answers = Self::new(answers, target.game);
        answers.add_notes(target, ask);
        Ok(answers)
    }

    /// Adds the notes on the game of the target, or of the merged answer, to the best answer. The
    /// notes of the parts of a merged answer come first.
    fn add_notes(&mut self, target: &Target, ask: &Ask) {
        if let Some((merged, _)) = &mut self.merged {
            let notes = self.separate.iter().flat_map(|answer| &answer.notes);
            merged.notes = notes.cloned().collect();
        }
        let merged = self.merged.as_ref().map(|(_, game)| *game);
        if let Some(game) = target.game.or(merged) {
            let notes = self.notes(target, game, ask);
            self.best_mut().notes.extend(notes);
        }
    }

    /// Returns the notes on the best answer of a server of a game.
    fn notes(&self, target: &Target, game: &'static Game, ask: &Ask) -> Vec<String> {
        let has_answered = |info: &&Info| {
            let mut answered = self.iter().map(|answer| answer.transcript.protocol.id);
            answered.any(|id| id == info.id)
        };
        let protocols = catalog::protocols_of(game).into_iter();
        let silent: Vec<&Info> = protocols
            .map(|protocol| protocol.info())
            .filter(|info| !has_answered(info))
            .collect();
        let best = self.best();
        let has_asked = ask.has_players && ask.depth == Depth::Full;
        let mut notes = merge::notes(game, &best.status, &silent, has_asked);
        let port = best.transcript.address.port();
        if let Some(given) = target.port.filter(|given| *given != port) {
            notes.push(format!(
                "The query port {port} answered, not the given port {given}"
            ));
        }
        notes
    }

    fn best_mut(&mut self) -> &mut Answer {
        match &mut self.merged {
            Some((answer, _)) => answer,
            None => &mut self.separate[0],
        }
    }

    /// Returns the [best](Self::best) answer and drops the others.
    pub fn into_best(mut self) -> Answer {
        match self.merged {
            Some((answer, _)) => *answer,
            None => self.separate.swap_remove(0),
        }
    }

    /// Returns the game whose protocols the [best](Self::best) answer merges, or `None` if it is not
    /// merged.
    pub fn game(&self) -> Option<&'static Game> {
        self.merged.as_ref().map(|(_, game)| *game)
    }

    /// Returns the answers that are not part of the [best](Self::best) one.
    pub fn others(&self) -> Vec<&Answer> {
        match &self.merged {
            None => self.separate.iter().skip(1).collect(),
            Some((_, game)) => {
                let is_other =
                    |answer: &&Answer| !game.protocols.contains(&answer.transcript.protocol.id);
                self.separate.iter().filter(is_other).collect()
            }
        }
    }
}

impl std::ops::Deref for Answers {
    type Target = [Answer];

    fn deref(&self) -> &[Answer] {
        &self.separate
    }
}

impl IntoIterator for Answers {
    type Item = Answer;
    type IntoIter = std::vec::IntoIter<Answer>;

    fn into_iter(self) -> Self::IntoIter {
        self.separate.into_iter()
    }
}

impl<'a> IntoIterator for &'a Answers {
    type Item = &'a Answer;
    type IntoIter = std::slice::Iter<'a, Answer>;

    fn into_iter(self) -> Self::IntoIter {
        self.separate.iter()
    }
}

impl Client {
    /// Returns a client with this configuration.
    pub fn new(config: ClientConfig) -> Self {
        let names = NameResolver::new(config.name_server);
        Self { config, names }
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
        self.names
            .addresses(&target.host, target.port_without_srv(), default_port, srv)
            .await
    }

    /// Returns the addresses at which a server may reply, at least one, the most likely first. For
    /// a game these are all its query ports, at most 12 addresses in total. Follows an SRV record
    /// if the target's game or protocol has them.
    ///
    /// # Errors
    /// The name does not exist, or cannot be looked up.
    pub async fn candidates(&self, target: &Target) -> Result<Vec<SocketAddr>, Error> {
        match target.protocol {
            Some(protocol) => self.candidates_in(target, protocol).await,
            None => self.addresses(target).await,
        }
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
    /// its port selects. Others follow only if nothing has replied within 250 ms. At most 12
    /// datagrams are sent and two connections opened before the first answer. Datagrams that are
    /// known to crash some servers, or to make them block the sender, are sent only to ports where
    /// such servers are not expected.
    ///
    /// With several protocols this takes up to a second longer than the first answer, if others are
    /// silent.
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
    /// With several protocols this takes up to a second longer than the first answer, if others are
    /// silent.
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
        protocols.retain(|protocol| protocol.service().is_none());
        let waves = [protocols];
        let detection = Detection::unlimited();
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
            host: sent_host(target, &self.config.ask).into(),
            port: target.query_port().unwrap_or(0),
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
    pub async fn query_found(&self, found: &FoundServer) -> Result<Answers, Error> {
        let address = found.address;
        let target = Target {
            game: None,
            protocol: found.protocols.first().copied(),
            host: Host::Address(address.ip()),
            port: Some(address.port()),
        };
        let ask = &Ask {
            host: sent_host(&target, &self.config.ask).into(),
            ..self.config.ask.clone()
        };
        let queries = found.protocols.iter();
        let queries = queries.map(|protocol| self.at_address(address, *protocol, ask, None));
        Answers::combine(&target, join_all(queries).await, ask)
    }

    /// Queries a target in its protocol, in the protocols of its game, or else in waves.
    async fn in_waves(&self, target: &Target, ask: &Ask) -> Result<Answers, Error> {
        let mut answers = match (target.game, target.protocol) {
            (Some(game), _) if game.protocols.len() > 1 => {
                let waves = [catalog::protocols_of(game)];
                let detection = Detection::unlimited();
                self.in_protocols(target, waves, &detection, ask).await?
            }
            (_, Some(protocol)) => {
                let answer = self.at_every_address(target, protocol, ask, None).await?;
                Answers::new(vec![answer], target.game)
            }
            (_, None) => {
                let waves = detection::waves(target.port);
                self.in_protocols(target, waves, &Detection::limited(), ask)
                    .await?
            }
        };
        answers.add_notes(target, ask);
        Ok(answers)
    }

    /// Queries a target in several protocols, in waves. The next wave starts when all exchanges
    /// have failed, or if nothing has replied within [`detection::WAVE_DELAY`].
    async fn in_protocols(
        &self,
        target: &Target,
        waves: impl IntoIterator<Item = Vec<&'static dyn Protocol>>,
        detection: &Detection,
        ask: &Ask,
    ) -> Result<Answers, Error> {
        let query = |protocol: &'static dyn Protocol| async move {
            let result = self
                .at_every_address(target, protocol, ask, Some(detection))
                .await;
            (protocol.info(), result)
        };
        let mut exchanges = FuturesUnordered::new();
        let mut answers = Vec::new();
        let mut failures = Vec::new();
        let mut waves = waves.into_iter().peekable();
        while let Some(wave) = waves.next() {
            exchanges.extend(wave.into_iter().map(query));
            let mut next_wave = pin!(sleep(detection::WAVE_DELAY));
            loop {
                let is_patient = waves.peek().is_none() || detection.has_reply();
                let (protocol, result) = tokio::select! {
                    biased;
                    next = exchanges.next() => match next {
                        Some(result) => result,
                        None => break,
                    },
                    () = &mut next_wave, if !is_patient => break,
                };
                match result {
                    Ok(answer) => {
                        if answers.is_empty() {
                            detection.record_reply();
                            detection.answered(DETECTION_WINDOW.max(answer.latency * 4));
                        }
                        answers.push(answer);
                    }
                    Err(error) => failures.push(ProtocolFailure { protocol, error }),
                }
            }
            if !answers.is_empty() {
                break;
            }
        }
        if answers.is_empty() {
            failures.sort_by_key(|failure| place_in_registry(failure.protocol));
            return Err(Error::of_all_protocols(failures));
        }
        // A server answers a dialect of its protocol too, because the requests are the same.
        let found: Vec<&str> = answers
            .iter()
            .map(|answer: &Answer| answer.transcript.protocol.id)
            .collect();
        answers.retain(|answer| {
            let id = answer.transcript.protocol.id;
            let original = registry::find(id).and_then(|protocol| protocol.dialect_of());
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
        let addresses = self.candidates_in(target, protocol).await?;
        let game = target.game;
        let has_list = game.is_none_or(|game| !game.quirks.contains(&Quirk::NoPlayerList));
        let listed = if protocol.has_listed_addresses() {
            Some(self.listed_address(target, protocol).await?)
        } else {
            None
        };
        let host = listed.map(|address| address.ip().to_string());
        let ask = &Ask {
            host: host.unwrap_or_else(|| sent_host(target, ask)).into(),
            game_port: target.game_port(&addresses, protocol),
            port: listed.map_or(target.query_port().unwrap_or(0), |address| address.port()),
            has_players: ask.has_players && has_list,
            ..ask.clone()
        };
        if let [address] = addresses[..] {
            return self.at_address(address, protocol, ask, detection).await;
        }
        let mut addresses = addresses.into_iter();
        let mut exchanges = FuturesUnordered::new();
        let mut best_error: Option<Error> = None;
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
                Ok(Some(Err(error))) => {
                    if best_error
                        .as_ref()
                        .is_none_or(|best| error.weight() > best.weight())
                    {
                        best_error = Some(error);
                    }
                }
                Ok(None) => return Err(best_error.expect("a name has at least one address")),
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
            .addresses(&target.host, target.port, default_port, srv);
        let found = found.await?;
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
    ) -> Result<Vec<SocketAddr>, Error> {
        let default_port = target.default_port(protocol);
        if let Some(host) = protocol.service() {
            let host = Host::Name(host.into());
            return match &self.config.service {
                Some(service) => Ok(vec![service.address]),
                None => {
                    let port = Some(HTTPS_PORT);
                    self.names.addresses(&host, port, HTTPS_PORT, None).await
                }
            };
        }
        let addresses = self
            .names
            .addresses(
                &target.host,
                target.port,
                default_port,
                target.srv(protocol),
            )
            .await?;
        Ok(target.at_query_ports(addresses, protocol, default_port))
    }

    /// Queries one address.
    async fn at_address(
        &self,
        address: SocketAddr,
        protocol: &'static dyn Protocol,
        ask: &Ask,
        detection: Option<&Detection>,
    ) -> Result<Answer, Error> {
        let mut transcript = Transcript {
            protocol: protocol.info(),
            address,
            sent: 0,
            received: 0,
            datagrams: Vec::new(),
        };
        let mut notes = Vec::new();
        match self
            .run_exchange(&mut transcript, protocol, ask, detection, &mut notes)
            .await
        {
            Ok(Ok(output)) => {
                let mut answer = Answer::new(transcript, output.status, output.latency);
                answer.notes = notes;
                answer.accept(self.config.strict)
            }
            Ok(Err(failure)) => Err(Error::from_failure(transcript, failure)),
            Err(cause) if cause.kind() == ErrorKind::ConnectionRefused => Err(Error::PortClosed {
                transcript: transcript.into(),
            }),
            Err(cause) => Err(Error::Unreachable {
                transcript: transcript.into(),
                cause,
            }),
        }
    }

    /// Runs one exchange on a new socket. The outer error concerns the socket. `notes` explain the
    /// answer.
    async fn run_exchange(
        &self,
        transcript: &mut Transcript,
        protocol: &'static dyn Protocol,
        ask: &Ask,
        detection: Option<&Detection>,
        notes: &mut Vec<String>,
    ) -> io::Result<Result<ExchangeOutput, ExchangeError>> {
        let started = Instant::now();
        let mut window = detection.map(Detection::window);
        // Requests over the limits of a detection.
        let mut withheld = 0;
        let mut limits = self.config.limits;
        let transport = protocol.info().transport;
        let is_stream = transport == Transport::Stream;
        let end = started + limits.deadline;
        // The system repeats the packets that set up a connection: one wait replaces all tries.
        let connect_timeout = limits
            .timeout
            .saturating_mul(limits.retries.saturating_add(1));
        let mut socket = if is_stream {
            if detection.is_some_and(|detection| !detection.may_connect()) {
                let after = started.elapsed();
                return Ok(Err(ExchangeError::Silence { after }));
            }
            let due = end.min(started + connect_timeout);
            let Some(stream) = connect(transcript.address, due, &mut window).await else {
                let after = started.elapsed();
                return Ok(Err(ExchangeError::Silence { after }));
            };
            limits.deadline = limits.deadline.saturating_sub(started.elapsed());
            Socket::Stream(stream?)
        } else if transport == Transport::Http {
            Socket::Http(None)
        } else {
            Socket::Datagram(connected(transcript.address).await?)
        };
        // Sends the repetitions of the first request to a server that may reply from another port.
        let mut open = None;
        let accepts_other_ports = detection.is_none()
            && !transport.is_connected()
            && protocol.has_replies_from_other_ports();

        let cookie = Cookie(getrandom::u64()?);
        let ask = &Ask {
            // A remote service gets the port of the target in its request.
            port: match protocol.service() {
                Some(_) => ask.port,
                None => transcript.address.port(),
            },
            address: Some(transcript.address),
            ..ask.clone()
        };
        let mut driver = ExchangeDriver::new(protocol.exchange(ask, cookie), limits);
        let mut store = |direction, at, bytes: &[u8]| {
            if !self.config.has_datagrams {
                return;
            }
            match transcript.datagrams.last_mut() {
                // The pieces of a stream have no meaning.
                Some(last) if is_stream && last.direction == direction => {
                    last.at = at;
                    last.bytes.extend_from_slice(bytes);
                }
                _ => transcript.datagrams.push(Datagram {
                    direction,
                    at,
                    bytes: bytes.to_vec(),
                }),
            }
        };
        let mut request = Vec::new();
        let mut reply = Vec::new();
        let mut action = driver.start(started.elapsed(), &mut request);
        // Moving one timer costs less than creating one for each wait.
        let mut due = pin!(sleep_until(started + driver.due()));
        let result = loop {
            match action {
                Action::Send if transport == Transport::Http => {
                    let now = started.elapsed();
                    driver.mark_sent(now);
                    if detection.is_some_and(|detection| !detection.may_connect()) {
                        withheld += 1;
                        request.clear();
                        action = driver.give_up(now);
                        continue;
                    }
                    store(Direction::Request, now, &request);
                    let to = self.destination(transcript.address, protocol, ask, driver.route());
                    if matches!(to.tls, Tls::AnyCertificate | Tls::Optional) && notes.is_empty() {
                        notes.push("The certificate of the server was not verified".into());
                    }
                    let bytes = std::mem::take(&mut request);
                    let response = async move { http::send(&to, &bytes).await };
                    socket = Socket::Http(Some(response.boxed()));
                }
                Action::Send | Action::SendMore | Action::Reconnect => {
                    if matches!(action, Action::Reconnect) {
                        if detection.is_some_and(|detection| !detection.may_connect()) {
                            withheld += 1;
                            request.clear();
                            let now = started.elapsed();
                            // A server that has replied is not silent: the exchange has the reason.
                            action = if driver.received() > 0 {
                                driver.closed(now, &mut request)
                            } else {
                                driver.give_up(now)
                            };
                            continue;
                        }
                        let due = end.min(Instant::now() + connect_timeout);
                        match connect(transcript.address, due, &mut window).await {
                            Some(Ok(stream)) => socket = Socket::Stream(stream),
                            Some(Err(error)) => {
                                break driver.take_partial().map(Ok).ok_or(error);
                            }
                            None => {
                                let after = started.elapsed();
                                let silence = ExchangeError::Silence { after };
                                break Ok(driver.take_partial().ok_or(silence));
                            }
                        }
                    }
                    let now = started.elapsed();
                    let is_new = !is_stream && driver.received() == 0;
                    let is_allowed = !is_new || detection.is_none_or(Detection::may_send);
                    driver.mark_sent(now);
                    if !is_allowed {
                        withheld += 1;
                    } else {
                        store(Direction::Request, now, &request);
                    }
                    let is_repeated = driver.sent() > 1 && driver.received() == 0;
                    if accepts_other_ports && is_repeated && open.is_none() {
                        open = Some(Socket::open(transcript.address).await?);
                    }
                    let sender = open.as_mut().unwrap_or(&mut socket);
                    if is_allowed && let Err(error) = sender.send(&request).await {
                        request.clear();
                        match closed_or(error, is_stream) {
                            None => action = driver.closed(started.elapsed(), &mut request),
                            Some(error) => break driver.take_partial().map(Ok).ok_or(error),
                        }
                        continue;
                    }
                    request.clear();
                    if matches!(action, Action::SendMore) {
                        action = driver.resume(now, &mut request);
                        continue;
                    }
                    if is_stream {
                        // More messages may have arrived with the last one.
                        action = driver.stream(now, &[], &mut request);
                        if !matches!(action, Action::Wait) {
                            continue;
                        }
                    }
                }
                Action::Wait | Action::Progress => {}
                Action::End(result) => break Ok(result),
            }
            request.clear();
            if due.deadline() != started + driver.due() {
                due.as_mut().reset(started + driver.due());
            }
            action = tokio::select! {
                biased;
                received = receive_first(&mut socket, &mut open, &mut reply) => match received {
                    Ok(()) => {
                        let at = started.elapsed();
                        if let Some(detection) = detection {
                            detection.record_reply();
                        }
                        store(Direction::Reply, at, &reply);
                        match transport {
                            Transport::Datagram => driver.datagram(at, &reply, &mut request),
                            Transport::Stream => driver.stream(at, &reply, &mut request),
                            Transport::Http => driver.response(at, &reply, &mut request),
                        }
                    }
                    Err(error) => {
                        let now = started.elapsed();
                        let invalid = http::invalid_response(&error);
                        match (invalid, closed_or(error, transport.is_connected())) {
                            (Some(problem), _) => driver.invalid_response(now, problem, &mut request),
                            (None, None) => driver.closed(now, &mut request),
                            (None, Some(error)) => break driver.take_partial().map(Ok).ok_or(error),
                        }
                    }
                },
                () = &mut due => driver.tick(started.elapsed(), &mut request),
                length = opened(&mut window) => {
                    let tries = limits.retries.saturating_add(1);
                    let timeout = (length / tries).max(MIN_DETECTION_TIMEOUT);
                    driver.hurry(started.elapsed(), timeout, length);
                    Action::Wait
                }
            };
        };
        if let Socket::Open { source, .. } = socket
            && source != transcript.address.port()
        {
            notes.push(format!("The server replies from port {source}"));
        }
        transcript.sent = driver.sent() - withheld;
        transcript.received = driver.received();
        result
    }

    /// Returns where a request over HTTP goes.
    fn destination(
        &self,
        mut address: SocketAddr,
        protocol: &'static dyn Protocol,
        ask: &Ask,
        route: Route,
    ) -> Destination {
        let host = match (protocol.service(), &self.config.service) {
            (Some(_), Some(service)) => return service.clone(),
            (Some(host), None) => host.into(),
            (None, _) => ask.host.to_string(),
        };
        if let Some(port) = address.port().checked_add_signed(route.port_offset) {
            address.set_port(port);
        }
        Destination {
            address,
            host,
            tls: match protocol.service() {
                Some(_) => route.tls,
                None => self.config.tls.unwrap_or(route.tls),
            },
        }
    }
}

/// Notifies the exchanges of a detection that another protocol has answered, with their time limit
/// for the first reply.
type DetectionWindow = watch::Receiver<Option<Duration>>;

/// Waits until the detection window opens, and returns its length once. Without a window, waits
/// forever.
async fn opened(window: &mut Option<DetectionWindow>) -> Duration {
    let length = match window {
        Some(window) => match window.wait_for(Option::is_some).await {
            Ok(length) => *length,
            Err(_) => None,
        },
        None => None,
    };
    *window = None;
    match length {
        Some(length) => length,
        None => pending().await,
    }
}

/// Connects a stream before `deadline` and before the detection window ends. Returns `None` if this
/// takes too long. The window then starts again for the reply.
async fn connect(
    address: SocketAddr,
    deadline: Instant,
    window: &mut Option<DetectionWindow>,
) -> Option<io::Result<TcpStream>> {
    let mut window = window.clone();
    let mut stream = pin!(TcpStream::connect(address));
    let mut due = pin!(sleep_until(deadline));
    loop {
        tokio::select! {
            biased;
            stream = &mut stream => return Some(stream),
            () = &mut due => return None,
            length = opened(&mut window) => {
                let end = due.deadline().min(Instant::now() + length);
                due.as_mut().reset(end);
            }
        }
    }
}

/// Returns a datagram socket that is connected to the address, on a random port.
async fn connected(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any_port(address)).await?;
    socket.connect(address).await?;
    Ok(socket)
}

/// Returns a local address from which `address` can be reached, without a port.
fn any_port(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Receives from either socket. The one that receives stays as `socket`. Cancel-safe.
async fn receive_first(
    socket: &mut Socket,
    open: &mut Option<Socket>,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let Some(other) = open else {
        return socket.receive(buffer).await;
    };
    let mut bytes = Vec::new();
    let is_other = tokio::select! {
        biased;
        result = socket.receive(buffer) => result.map(|()| false)?,
        result = other.receive(&mut bytes) => result.map(|()| true)?,
    };
    if let Some(other) = open.take().filter(|_| is_other) {
        *socket = other;
        *buffer = bytes;
    }
    Ok(())
}

/// A connection to one server.
enum Socket {
    Datagram(UdpSocket),
    /// Not connected. Receives from every port of the address.
    Open {
        socket: UdpSocket,
        address: SocketAddr,
        /// Port of the last datagram.
        source: u16,
    },
    Stream(TcpStream),
    /// The response to the last request over HTTP, until it is received.
    Http(Option<BoxFuture<'static, io::Result<Vec<u8>>>>),
}

impl Socket {
    /// Opens a socket that receives from every port of the address.
    async fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::Open {
            socket: UdpSocket::bind(any_port(address)).await?,
            address,
            source: address.port(),
        })
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Datagram(socket) => socket.send(bytes).await.map(drop),
            Self::Open {
                socket, address, ..
            } => socket.send_to(bytes, *address).await.map(drop),
            Self::Stream(stream) => stream.write_all(bytes).await,
            // Requests over HTTP have their own connections.
            Self::Http(_) => Ok(()),
        }
    }

    /// Receives one datagram in place of the buffer's content, or appends bytes of a stream.
    /// Cancel-safe: no data is lost on drop.
    async fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Datagram(socket) => {
                // The buffer is allocated only when there is a datagram, since most exchanges are
                // waiting.
                loop {
                    let ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
                    let result = if ready.is_error() {
                        // ICMP errors do not make a socket readable.
                        socket.try_io(Interest::ERROR, || match socket.take_error()? {
                            Some(error) => Err(error),
                            None => Err(ErrorKind::WouldBlock.into()),
                        })
                    } else {
                        buffer.clear();
                        buffer.reserve(MAX_DATAGRAM);
                        socket.try_recv_buf(buffer).map(drop)
                    };
                    match result {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        result => return result,
                    }
                }
            }
            Self::Open {
                socket,
                address,
                source,
            } => loop {
                socket.readable().await?;
                buffer.clear();
                buffer.reserve(MAX_DATAGRAM);
                match socket.try_recv_buf_from(buffer) {
                    Ok((_, from)) if from.ip() == address.ip() => {
                        *source = from.port();
                        return Ok(());
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            },
            Self::Http(None) => pending().await,
            Self::Http(Some(response)) => {
                let result = response.await;
                *self = Self::Http(None);
                *buffer = result?;
                Ok(())
            }
            Self::Stream(stream) => {
                buffer.clear();
                buffer.reserve(STREAM_CHUNK_BYTES);
                if stream.read_buf(buffer).await? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                Ok(())
            }
        }
    }
}

/// Returns `None` if the error is the end of a stream, properly closed or reset.
fn closed_or(error: io::Error, is_stream: bool) -> Option<io::Error> {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let ends_stream = matches!(
        error.kind(),
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe
    );
    if is_stream && ends_stream {
        None
    } else {
        Some(error)
    }
}

/// Returns the position of a protocol in the registry. Other protocols come last.
fn place_in_registry(protocol: &Info) -> usize {
    registry::PROTOCOLS
        .iter()
        .position(|known| known.info().id == protocol.id)
        .unwrap_or(usize::MAX)
}

/// Returns the host to send to a server: the configured one, or else that of the target.
fn sent_host(target: &Target, ask: &Ask) -> String {
    match &*ask.host {
        "" => target.host.to_string(),
        host => host.to_owned(),
    }
}
