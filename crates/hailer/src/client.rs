//! Asking one server.

use crate::drive::{Action, Drive, Patience, Report};
use crate::error::Error;
use crate::names::Names;
use crate::target::Target;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hailer_proto::{Ask, Cookie, Depth, Info, Protocol, Status, Way, registry};
use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::Instant;

/// The largest datagram there is: a smaller buffer would cut long lists of players.
const MAX_DATAGRAM: usize = 65_535;
/// A name with several addresses: how long one may be silent before the next is asked as well (RFC 8305 has 250 ms).
const STAGGER: Duration = Duration::from_millis(250);
/// Once one protocol has answered, the others get this long, or four of its round trips: enough for a server that answers
/// once in a tick of 50 ms, and for a protocol with one request more.
const GRACE: Duration = Duration::from_millis(100);

/// What to ask for and how patiently. The default asks for everything.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// What to ask.
    pub ask: Ask,
    /// How long and how much to bear.
    pub patience: Patience,
    /// Refuse answers that deviate from the protocol, instead of naming the deviations.
    pub strict: bool,
    /// Keep every datagram of the exchange in the answer.
    pub keep_datagrams: bool,
    /// Ask this name server instead of the system's.
    pub name_server: Option<SocketAddr>,
}

/// Asks servers.
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
    settings: Settings,
    names: Names,
}

impl Default for Names {
    fn default() -> Self {
        Self::new(None)
    }
}

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The protocol it answered in.
    pub protocol: &'static Info,
    /// Where it was asked.
    pub address: SocketAddr,
    /// What it says of itself.
    pub status: Status,
    /// The shortest time between a request and its reply.
    pub round_trip: Duration,
    /// Datagrams sent.
    pub sent: u32,
    /// Datagrams heard.
    pub heard: u32,
    /// The exchange, if [`Settings::keep_datagrams`].
    pub datagrams: Vec<Datagram>,
}

/// One datagram of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Request or reply.
    pub way: Way,
    /// Time since the query began.
    pub at: Duration,
    /// Its payload.
    pub bytes: Vec<u8>,
}

impl Client {
    /// A client with its own settings.
    pub fn new(settings: Settings) -> Self {
        let names = Names::new(settings.name_server);
        Self { settings, names }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks a server: in the target's protocol, or in all of them and takes the first answer.
    pub async fn query<T>(&self, target: T) -> Result<Answer, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        let answers = self.ask_all(&target.try_into()?, &self.settings.ask, Duration::ZERO).await?;
        Ok(fastest(answers))
    }

    /// Asks a server in the target's protocol, or in every one at once, and returns all that answered, the fastest first; never empty.
    pub async fn query_all<T>(&self, target: T) -> Result<Vec<Answer>, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        self.ask_all(&target.try_into()?, &self.settings.ask, GRACE).await
    }

    /// Asks only for a sign of life, in the target's protocol or whichever answers first. The status stays empty.
    pub async fn ping<T>(&self, target: T) -> Result<Answer, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        let ask = Ask { depth: Depth::Ping, ..self.settings.ask.clone() };
        Ok(fastest(self.ask_all(&target.try_into()?, &ask, Duration::ZERO).await?))
    }

    /// In the target's protocol, or in all of them at once.
    async fn ask_all(&self, target: &Target, ask: &Ask, grace: Duration) -> Result<Vec<Answer>, Error> {
        let all = || registry::PROTOCOLS.iter().copied();
        let asks = target.protocol.into_iter().chain(all().filter(|_| target.protocol.is_none()));
        first(asks.map(|protocol| self.ask(target, protocol, ask)), grace).await
    }

    async fn ask(&self, target: &Target, protocol: &'static dyn Protocol, ask: &Ask) -> Result<Answer, Error> {
        let addresses = self.names.addresses(target, protocol.info()).await?;
        let asks = addresses.into_iter().enumerate().map(|(i, address)| async move {
            tokio::time::sleep(STAGGER * i as u32).await;
            self.ask_address(address, protocol, ask).await
        });
        first(asks, Duration::ZERO).await.map(fastest)
    }

    /// One exchange with one address, on a socket of its own that hears nobody else.
    async fn ask_address(
        &self,
        address: SocketAddr,
        protocol: &'static dyn Protocol,
        ask: &Ask,
    ) -> Result<Answer, Error> {
        let info = protocol.info();
        let unreachable = |cause: std::io::Error| match cause.kind() {
            std::io::ErrorKind::ConnectionRefused => Error::PortClosed { address },
            _ => Error::Unreachable { address, cause },
        };
        let local: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(local).await.map_err(unreachable)?;
        socket.connect(address).await.map_err(unreachable)?;

        let cookie = Cookie(getrandom::u64().map_err(|error| unreachable(std::io::Error::other(error)))?);
        let mut drive = Drive::new(protocol.exchange(ask, cookie), self.settings.patience);
        let started = Instant::now();
        let mut kept = Vec::new();
        let mut keep = |way, bytes: &[u8]| {
            if self.settings.keep_datagrams {
                kept.push(Datagram { way, at: started.elapsed(), bytes: bytes.to_vec() });
            }
        };
        let (mut request, mut buffer) = (Vec::new(), vec![0; MAX_DATAGRAM]);
        let mut action = drive.start(started.elapsed(), &mut request);
        let report = loop {
            match action {
                Action::Send => {
                    keep(Way::Request, &request);
                    socket.send(&request).await.map_err(unreachable)?;
                }
                Action::Wait => {}
                Action::End(end) => break end,
            }
            request.clear();
            action = match tokio::time::timeout_at(started + drive.due(), socket.recv(&mut buffer)).await {
                Ok(Ok(length)) => {
                    let bytes = &buffer[..length];
                    keep(Way::Reply, bytes);
                    drive.datagram(started.elapsed(), bytes, &mut request)
                }
                Ok(Err(error)) => return Err(unreachable(error)),
                Err(_) => drive.tick(started.elapsed(), &mut request),
            };
        };
        let report: Report = *report.map_err(|failure| Error::from_failure(failure, address, info))?;
        if self.settings.strict && !report.status.deviations.is_empty() {
            let names = report.status.deviations.iter().map(|deviation| deviation.name).collect();
            return Err(Error::Deviates { address, protocol: info, names });
        }
        Ok(Answer {
            protocol: info,
            address,
            status: report.status,
            round_trip: report.round_trip,
            sent: report.sent,
            heard: report.heard,
            datagrams: kept,
        })
    }
}

/// The first of the answers, of which there is at least one.
fn fastest(mut answers: Vec<Answer>) -> Answer {
    answers.swap_remove(0)
}

/// The answers among several tries at once: ends when all have ended, or a while after the first answer. Without any
/// answer, the error that tells most.
async fn first<F>(tries: impl Iterator<Item = F>, grace: Duration) -> Result<Vec<Answer>, Error>
where
    F: Future<Output = Result<Answer, Error>>,
{
    let mut tries: FuturesUnordered<F> = tries.collect();
    let mut answers: Vec<Answer> = Vec::new();
    let mut worst: Option<Error> = None;
    let mut end: Option<Instant> = None;
    loop {
        let next = match end {
            None => tries.next().await,
            Some(end) => tokio::time::timeout_at(end, tries.next()).await.ok().flatten(),
        };
        match next {
            Some(Ok(answer)) => {
                let wait = if grace.is_zero() { grace } else { grace.max(answer.round_trip * 4) };
                end.get_or_insert(Instant::now() + wait);
                answers.push(answer);
                if grace.is_zero() {
                    break;
                }
            }
            Some(Err(error)) => {
                if worst.as_ref().is_none_or(|worst| error.weight() > worst.weight()) {
                    worst = Some(error);
                }
            }
            None => break,
        }
    }
    match (answers.is_empty(), worst) {
        (true, Some(error)) => Err(error),
        _ => Ok(answers),
    }
}

impl TryFrom<&str> for Target {
    type Error = crate::target::TargetError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl TryFrom<&Target> for Target {
    type Error = crate::target::TargetError;

    fn try_from(target: &Target) -> Result<Self, Self::Error> {
        Ok(target.clone())
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
