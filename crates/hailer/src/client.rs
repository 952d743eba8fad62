//! Asking one server.

use crate::drive::{Action, ExchangeDriver, ExchangeError, ExchangeOutput, QueryLimits};
use crate::error::Error;
#[cfg(unix)]
use crate::hub::{Hubs, Seat};
use crate::names::NameResolver;
use crate::target::Target;
use futures_util::stream::{self, BoxStream, FuturesUnordered, Stream, StreamExt};
use hailer_proto::{Ask, Cookie, Depth, Direction, Info, Protocol, Status, Transport, registry};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, sleep_until, timeout};

/// The largest datagram there is: a smaller buffer would cut long lists of players.
const MAX_DATAGRAM: usize = 65_535;
/// Room for what comes at once over a stream, whose answers are one small packet.
const STREAM_CHUNK: usize = 2_048;
/// A name with several addresses: how long one may be silent before the next is asked as well (RFC 8305 has 250 ms).
const STAGGER: Duration = Duration::from_millis(250);
/// Once one protocol has answered, the others get this long, or four of its round trips: enough for a server that answers
/// once in a tick of 50 ms, and for a protocol with one request more.
const GRACE: Duration = Duration::from_millis(100);

/// What to ask for and how patiently. The default asks for everything.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClientConfig {
    /// What to ask.
    pub ask: Ask,
    /// How long and how much to bear.
    pub limits: QueryLimits,
    /// Refuse answers that deviate from the protocol, instead of naming the deviations.
    pub strict: bool,
    /// Keep every datagram of the exchange in the answer.
    pub keep_datagrams: bool,
    /// Ask this name server instead of the system's.
    pub name_server: Option<SocketAddr>,
}

/// Asks servers. Keep one for many queries: those of a runtime share a socket.
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
    settings: ClientConfig,
    names: NameResolver,
    #[cfg(unix)]
    hubs: Hubs,
}

/// The ends of many queries: [`Client::query_many`]. A [`Stream`], but for those who need no more than
/// [`next`](QueryStream::next).
pub struct QueryStream<'a, T>(BoxStream<'a, (T, Result<Vec<Answer>, Error>)>);

impl<T> QueryStream<'_, T> {
    /// The next end, with the target as it was given; `None`: all have ended. The answers are never none, and the fastest
    /// comes first.
    pub async fn next(&mut self) -> Option<(T, Result<Vec<Answer>, Error>)> {
        self.0.next().await
    }
}

impl<T> Stream for QueryStream<'_, T> {
    type Item = (T, Result<Vec<Answer>, Error>);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Who was asked, and what went to and fro.
    pub transcript: Transcript,
    /// What it says of itself.
    pub status: Box<Status>,
    /// The shortest time between a request and its reply; of a connection, without the time that it took to set up.
    pub latency: Duration,
}

impl Answer {
    /// The answer, unless it deviates from the protocol and that is to be refused.
    #[inline]
    pub(crate) fn accept(self, strict: bool) -> Result<Self, Error> {
        if !strict || self.status.deviations.is_empty() {
            return Ok(self);
        }
        let names = self
            .status
            .deviations
            .iter()
            .map(|deviation| deviation.name)
            .collect();
        Err(Error::Deviates {
            transcript: self.transcript.into(),
            names,
        })
    }
}

/// One exchange, whatever came of it.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// The protocol.
    pub protocol: &'static Info,
    /// The address.
    pub address: SocketAddr,
    /// Datagrams sent; over a connection, requests.
    pub sent: u32,
    /// Datagrams heard; over a connection, all that came is one.
    pub received: u32,
    /// All of them, if [`ClientConfig::keep_datagrams`].
    pub datagrams: Vec<Datagram>,
}

/// One datagram of an exchange.
#[derive(Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Request or reply.
    pub direction: Direction,
    /// Time since the query began; of what came in pieces, the last one's.
    pub at: Duration,
    /// Its payload. A request may hold an auth token.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Datagram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Datagram({:?} of {} bytes at {:?})",
            self.direction,
            self.bytes.len(),
            self.at
        )
    }
}

impl Client {
    /// A client with its own settings.
    pub fn new(settings: ClientConfig) -> Self {
        let names = NameResolver::new(settings.name_server);
        Self {
            settings,
            names,
            #[cfg(unix)]
            hubs: Hubs::default(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &ClientConfig {
        &self.settings
    }

    /// Where a target would be asked, the best first, never empty: its name looked up, by way of an SRV record where the
    /// protocol has them. Without a protocol, at the port of none: an error.
    pub async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Error> {
        let (port, srv) = target.protocol.map_or((0, None), |protocol| {
            (protocol.info().port, protocol.info().srv)
        });
        self.names.addresses(target, port, srv).await
    }

    /// Asks a server: in the target's protocol, or in all of them and takes the first answer. One over a stream tells less
    /// than a query, which therefore gets a moment more.
    pub async fn query<T>(&self, target: T) -> Result<Answer, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        let answers = self
            .ask_all(&target.try_into()?, &self.settings.ask, false)
            .await?;
        Ok(fastest(answers))
    }

    /// Asks a server in the target's protocol, or in every one at once, and returns all that answered, the fastest first;
    /// never empty.
    pub async fn query_all<T>(&self, target: T) -> Result<Vec<Answer>, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        self.ask_all(&target.try_into()?, &self.settings.ask, true)
            .await
    }

    /// Asks only for a sign of life, in the target's protocol or whichever answers first. The status stays empty.
    pub async fn ping<T>(&self, target: T) -> Result<Answer, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        let ask = Ask {
            depth: Depth::Ping,
            ..self.settings.ask.clone()
        };
        Ok(fastest(
            self.ask_all(&target.try_into()?, &ask, false).await?,
        ))
    }

    /// Asks many servers, so many at a time, as [`Client::query_all`] does. Ends come as they are ready, each with its
    /// target: a silent server holds up nobody. Nobody new is asked while ends wait to be taken, and to drop the stream
    /// is to ask no more.
    ///
    /// ```no_run
    /// # async fn example() {
    /// let client = hailer::Client::default();
    /// let mut ends = client.query_many(["play.example.com", "ugp://192.0.2.7"], 100);
    /// while let Some((target, end)) = ends.next().await {
    ///     match end {
    ///         Ok(answers) => println!("{target}: {} players", answers[0].status.players.online.unwrap_or(0)),
    ///         Err(error) => println!("{target}: {error}"),
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// `concurrency` of 0 counts as 1. All datagrams go through one socket; what limits the speed is how soon servers
    /// answer, and one core. To ask at a pace, or more than some ten thousand: [`sweep`](crate::sweep).
    pub fn query_many<'a, I, T>(&'a self, targets: I, concurrency: usize) -> QueryStream<'a, T>
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'a,
        T: TryInto<Target> + Clone + Send + 'a,
        T::Error: Send,
        Error: From<T::Error>,
    {
        let ask = move |target: T| async move {
            let end = match target.clone().try_into() {
                Ok(parsed) => self.ask_all(&parsed, &self.settings.ask, true).await,
                Err(error) => Err(error.into()),
            };
            (target, end)
        };
        QueryStream(
            stream::iter(targets)
                .map(ask)
                .buffer_unordered(concurrency.max(1))
                .boxed(),
        )
    }

    /// In the target's protocol, or in all of them at once.
    async fn ask_all(&self, target: &Target, ask: &Ask, every: bool) -> Result<Vec<Answer>, Error> {
        match target.protocol {
            Some(protocol) => self
                .ask(target, protocol, ask)
                .await
                .map(|answer| vec![answer]),
            None => {
                first(
                    registry::PROTOCOLS
                        .iter()
                        .map(|&protocol| self.ask(target, protocol, ask)),
                    every,
                )
                .await
            }
        }
    }

    /// All addresses of a target, one after the other: the next as soon as one has failed or been silent for a moment.
    async fn ask(
        &self,
        target: &Target,
        protocol: &'static dyn Protocol,
        ask: &Ask,
    ) -> Result<Answer, Error> {
        let info = protocol.info();
        let addresses = self.names.addresses(target, info.port, info.srv).await?;
        if let [address] = addresses[..] {
            return self.ask_address(address, protocol, ask).await;
        }
        let mut addresses = addresses.into_iter();
        let mut tries = FuturesUnordered::new();
        let mut best_error: Option<Error> = None;
        loop {
            let another = addresses.next();
            let last = another.is_none();
            tries.extend(another.map(|address| self.ask_address(address, protocol, ask)));
            let next = if last {
                Ok(tries.next().await)
            } else {
                tokio::time::timeout(STAGGER, tries.next()).await
            };
            match next {
                Ok(Some(Ok(answer))) => return Ok(answer),
                Ok(Some(Err(error))) => keep_best(&mut best_error, error),
                Ok(None) => return Err(best_error.expect("a name has at least one address")),
                Err(_) => {}
            }
        }
    }

    /// One exchange with one address, that hears nobody else.
    async fn ask_address(
        &self,
        address: SocketAddr,
        protocol: &'static dyn Protocol,
        ask: &Ask,
    ) -> Result<Answer, Error> {
        let mut transcript = Transcript {
            protocol: protocol.info(),
            address,
            sent: 0,
            received: 0,
            datagrams: Vec::new(),
        };
        match self.exchange(&mut transcript, protocol, ask).await {
            Ok(Ok(outcome)) => Answer {
                transcript,
                status: outcome.status,
                latency: outcome.latency,
            }
            .accept(self.settings.strict),
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

    async fn exchange(
        &self,
        transcript: &mut Transcript,
        protocol: &'static dyn Protocol,
        ask: &Ask,
    ) -> io::Result<Result<ExchangeOutput, ExchangeError>> {
        let started = Instant::now();
        let mut limits = self.settings.limits;
        let is_stream = protocol.info().transport == Transport::Stream;
        let mut socket = match is_stream {
            false => self.socket(transcript.address).await?,
            true => {
                // Nothing is sent again, so that all tries are one wait: for the connection, then for the reply.
                let limit = limits
                    .timeout
                    .saturating_mul(limits.retries.saturating_add(1))
                    .min(limits.deadline);
                let Ok(stream) = timeout(limit, TcpStream::connect(transcript.address)).await
                else {
                    return Ok(Err(ExchangeError::Silence { after: limit }));
                };
                limits.deadline = limit.saturating_sub(started.elapsed());
                Socket::Stream(stream?)
            }
        };

        let cookie = Cookie(getrandom::u64()?);
        let mut drive = ExchangeDriver::new(protocol.exchange(ask, cookie), limits);
        let mut keep = |direction, at, bytes: &[u8]| {
            if self.settings.keep_datagrams {
                transcript
                    .datagrams
                    .pop_if(|last| is_stream && last.direction == direction);
                transcript.datagrams.push(Datagram {
                    direction,
                    at,
                    bytes: bytes.to_vec(),
                });
            }
        };
        let (mut request, mut heard) = (Vec::new(), Vec::new());
        let mut action = drive.start(started.elapsed(), &mut request);
        // One timer for the whole exchange: to set one anew costs more than to move it.
        let mut due = pin!(sleep_until(started + drive.due()));
        let end = loop {
            let mut sent = Ok(());
            match action {
                Action::Send => {
                    let now = started.elapsed();
                    keep(Direction::Request, now, &request);
                    drive.sending(now);
                    sent = socket.send(&request).await;
                }
                Action::Wait => {}
                Action::End(end) => break Ok(end),
            }
            request.clear();
            if due.deadline() != started + drive.due() {
                due.as_mut().reset(started + drive.due());
            }
            let came = match sent {
                Ok(()) => tokio::select! {
                    biased;
                    came = socket.hear(&mut heard) => Some(came),
                    () = &mut due => None,
                },
                Err(error) => Some(Err(error)),
            };
            action = match came {
                Some(Ok(at)) => {
                    let at = at.saturating_duration_since(started);
                    keep(Direction::Reply, at, &heard);
                    match is_stream {
                        false => drive.datagram(at, &heard, &mut request),
                        true => drive.stream(at, &heard, &mut request),
                    }
                }
                Some(Err(error)) if is_stream && is_end(&error) => drive.closed(started.elapsed()),
                Some(Err(error)) => break drive.part().map(Ok).ok_or(error),
                None => drive.tick(started.elapsed(), &mut request),
            };
        };
        (transcript.sent, transcript.received) = (drive.sent(), drive.received());
        end
    }

    /// The way to an address: the client's socket; where that cannot be, one that hears nobody else.
    async fn socket(&self, address: SocketAddr) -> io::Result<Socket> {
        #[cfg(unix)]
        if let Some(seat) = self.hubs.seat(address)? {
            return Ok(Socket::Shared(seat));
        }
        let local: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(local).await?;
        socket.connect(address).await?;
        Ok(Socket::Own(socket))
    }
}

/// What an exchange goes through.
enum Socket {
    #[cfg(unix)]
    Shared(Seat),
    Own(UdpSocket),
    Stream(TcpStream),
}

impl Socket {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Self::Shared(seat) => seat.send(bytes).await,
            Self::Own(socket) => socket.send(bytes).await.map(drop),
            Self::Stream(stream) => stream.write_all(bytes).await,
        }
    }

    /// Hears one datagram into the buffer, or more of a stream behind what the buffer holds. Returns when it came.
    async fn hear(&mut self, buffer: &mut Vec<u8>) -> io::Result<Instant> {
        match self {
            #[cfg(unix)]
            Self::Shared(seat) => {
                let heard = seat.hear().await?;
                *buffer = heard.bytes;
                return Ok(heard.at);
            }
            Self::Own(socket) => {
                buffer.clear();
                buffer.reserve(MAX_DATAGRAM);
                socket.recv_buf(buffer).await?;
            }
            Self::Stream(stream) => {
                buffer.reserve(STREAM_CHUNK);
                if stream.read_buf(buffer).await? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
        }
        Ok(Instant::now())
    }
}

/// The other side ended the connection, in good manners or bad.
fn is_end(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe
    )
}

/// Of several errors the one that tells most.
fn keep_best(best: &mut Option<Error>, error: Error) {
    if best
        .as_ref()
        .is_none_or(|best| error.weight() > best.weight())
    {
        *best = Some(error);
    }
}

fn is_stream(answer: &Answer) -> bool {
    answer.transcript.protocol.transport == Transport::Stream
}

/// The first of the answers, of which there is at least one; one over a stream only if there is no other.
fn fastest(answers: Vec<Answer>) -> Answer {
    answers
        .into_iter()
        .min_by_key(is_stream)
        .expect("at least one answer")
}

/// The answers among several tries at once: ends when all have ended, or a while after the first answer; unless `every`
/// one is wanted, at once with the first that came as a datagram. Without any answer, the error that tells most.
async fn first<F>(tries: impl Iterator<Item = F>, every: bool) -> Result<Vec<Answer>, Error>
where
    F: Future<Output = Result<Answer, Error>>,
{
    let mut tries: FuturesUnordered<F> = tries.collect();
    let mut answers: Vec<Answer> = Vec::new();
    let mut best_error: Option<Error> = None;
    let mut end: Option<Instant> = None;
    loop {
        let next = match end {
            None => tries.next().await,
            Some(end) => tokio::time::timeout_at(end, tries.next())
                .await
                .ok()
                .flatten(),
        };
        match next {
            Some(Ok(answer)) => {
                let enough = !every && !is_stream(&answer);
                end.get_or_insert(Instant::now() + GRACE.max(answer.latency * 4));
                answers.push(answer);
                if enough {
                    break;
                }
            }
            Some(Err(error)) => keep_best(&mut best_error, error),
            None => break,
        }
    }
    match (answers.is_empty(), best_error) {
        (true, Some(error)) => Err(error),
        _ => Ok(answers),
    }
}
