//! Runs one exchange with one address: opens its socket, sends the requests of the exchange, and
//! passes received data on to it.

use super::Client;
use super::detection::{self, Detection, Window};
use super::socket::{self, DetectionWindow, Socket};
use crate::support::drive::{Action, ExchangeDriver, ExchangeError, ExchangeOutput, QueryLimits};
use crate::support::http::{self, HttpServer};
use crate::support::local;
use crate::transcript::{Datagram, Transcript};
use futures_util::FutureExt;
use hailer_proto::{Ask, Cookie, Destination, Direction, Protocol, Tls, Transport};
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// An exchange and its socket.
pub(super) struct ExchangeRun<'a> {
    client: &'a Client,
    protocol: &'static dyn Protocol,
    ask: Ask,
    detection: Option<&'a Detection>,
    window: Option<DetectionWindow>,
    started: Instant,
    driver: ExchangeDriver,
    socket: Socket,
    /// Sends the repetitions of the first request to a server that may reply from another port.
    open: Option<Socket>,
    /// The bytes to send.
    request: Vec<u8>,
    /// Number of requests over the limits of the detection.
    withheld: u32,
    transcript: &'a mut Transcript,
    /// Explanations of the answer for users.
    notes: &'a mut Vec<String>,
}

impl Client {
    /// Runs one exchange on a new socket. The outer error concerns the socket. `notes` explain the
    /// answer.
    pub(super) async fn run_exchange(
        &self,
        transcript: &mut Transcript,
        protocol: &'static dyn Protocol,
        ask: &Ask,
        detection: Option<&Detection>,
        notes: &mut Vec<String>,
    ) -> io::Result<Result<ExchangeOutput, ExchangeError>> {
        let started = Instant::now();
        let address = transcript.address;
        let mut limits = self.config.limits;
        let info = protocol.info();
        if detection.is_some_and(|detection| detection.is_over(info)) {
            let after = Duration::ZERO;
            return Ok(Err(ExchangeError::Silence { after }));
        }
        let window = detection.map(Detection::window);
        let source = self.config.source;
        if !local::can_reach(source, address) {
            let problem = "the source address has another IP version";
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        let socket = match info.transport {
            Transport::Datagram => match source.filter(|source| source.port() != 0) {
                Some(source) => Socket::Shared(self.shared.of(address, source)?),
                None => Socket::Datagram(socket::connected(address, source).await?),
            },
            Transport::Http => Socket::Http(None),
            Transport::Stream => {
                let due = connect_due(&limits, started, started);
                let is_allowed = detection.is_none_or(Detection::may_connect);
                let stream = if is_allowed {
                    let has_header = self.config.has_proxy_header;
                    socket::connect(address, source, has_header, due, info, &window).await
                } else {
                    None
                };
                let Some(stream) = stream else {
                    let after = started.elapsed();
                    return Ok(Err(ExchangeError::Silence { after }));
                };
                limits.deadline = limits.deadline.saturating_sub(started.elapsed());
                Socket::Stream(stream?)
            }
        };
        let ask = Ask {
            to: Destination {
                // A remote service gets the port of the target in its request.
                port: match protocol.info().service {
                    Some(_) => ask.to.port,
                    None => address.port(),
                },
                address: Some(address),
                ..ask.to.clone()
            },
            ..ask.clone()
        };
        let cookie = Cookie(getrandom::u64()?);
        let mut driver = ExchangeDriver::new(protocol.exchange(&ask, cookie), limits);
        if info.transport == Transport::Datagram {
            driver = driver.follow_latency();
        }
        let mut run = ExchangeRun {
            client: self,
            protocol,
            driver,
            ask,
            detection,
            window,
            started,
            socket,
            open: None,
            request: Vec::new(),
            withheld: 0,
            transcript,
            notes,
        };
        let result = run.run().await;
        run.finish();
        result
    }
}

/// Returns the time until which a connection may take that is opened now. The system repeats the
/// packets that set it up: one wait replaces all tries.
fn connect_due(limits: &QueryLimits, started: Instant, now: Instant) -> Instant {
    let tries = limits.retries.saturating_add(1);
    let due = now + limits.timeout.saturating_mul(tries);
    due.min(started + limits.deadline)
}

impl ExchangeRun<'_> {
    fn transport(&self) -> Transport {
        self.protocol.info().transport
    }

    /// Runs the exchange to its end.
    async fn run(&mut self) -> io::Result<Result<ExchangeOutput, ExchangeError>> {
        let mut reply = Vec::new();
        let now = self.started.elapsed();
        let mut action = self.driver.start(now, &mut self.request);
        if self.detection.is_some_and(Detection::is_last_wave) {
            self.driver
                .hurry(now, detection::LAST_WAVE_TIMEOUT, Duration::MAX);
        }
        // Moving one timer costs less than creating one for each wait.
        let mut due = pin!(sleep_until(self.started + self.driver.due()));
        loop {
            action = match action {
                Action::End(result) => return Ok(result),
                Action::Send if self.transport() == Transport::Http => self.send_over_http(),
                Action::Send => self.send(false).await?,
                Action::SendMore => self.send(true).await?,
                Action::Reconnect => self.reconnect().await?,
                Action::Wait | Action::Progress => {
                    self.request.clear();
                    let end = self.started + self.driver.due();
                    if due.deadline() != end {
                        due.as_mut().reset(end);
                    }
                    // The timer comes first. A server that always has more to read would use up the
                    // time slice of the task, and tokio then reports no timer as over.
                    tokio::select! {
                        biased;
                        () = &mut due => self.time_out(&mut reply)?,
                        window = socket::opened(&mut self.window) => self.hurry(&window, &mut reply)?,
                        received = socket::receive_first(&mut self.socket, &mut self.open, &mut reply) => {
                            self.take(received, &reply)?
                        }
                    }
                }
            };
        }
    }

    /// Completes the transcript and the notes.
    fn finish(self) {
        if let Socket::Open { source, .. } = self.socket
            && source != self.transcript.address.port()
        {
            let note = format!("The server replies from port {source}");
            self.notes.push(note);
        }
        self.transcript.sent = self.driver.sent() - self.withheld;
        self.transcript.received = self.driver.received();
    }

    fn send_over_http(&mut self) -> Action {
        let now = self.started.elapsed();
        self.driver.mark_sent(now);
        if self.exceeds_connections() {
            return self.driver.give_up(now);
        }
        self.store(Direction::Request, now);
        let to = self.destination();
        if matches!(to.tls, Tls::AnyCertificate | Tls::Optional) && self.notes.is_empty() {
            let note = "The certificate of the server was not verified";
            self.notes.push(note.into());
        }
        let bytes = std::mem::take(&mut self.request);
        let source = self.client.config.source;
        let response = async move { http::send(&to, source, &bytes).await };
        self.socket = Socket::Http(Some(response.boxed()));
        Action::Wait
    }

    /// Sends the request. With `has_more`, the exchange has another one.
    async fn send(&mut self, has_more: bool) -> io::Result<Action> {
        let now = self.started.elapsed();
        let is_stream = self.transport() == Transport::Stream;
        let is_new = !is_stream && self.driver.received() == 0;
        let is_repeated = self.driver.sent() > 1;
        let may_send = |it: &Detection| (!is_repeated || it.may_repeat()) && it.may_send();
        let is_allowed = !is_new || self.detection.is_none_or(may_send);
        self.driver.mark_sent(now);
        if self.accepts_other_ports() && self.open.is_none() {
            let source = self.client.config.source;
            self.open = Some(Socket::open(self.transcript.address, source).await?);
        }
        if is_allowed {
            self.store(Direction::Request, now);
            let sender = self.open.as_mut().unwrap_or(&mut self.socket);
            if let Err(error) = sender.send(&self.request).await {
                return self.fail(error);
            }
        } else {
            self.withheld += 1;
        }
        self.request.clear();
        Ok(if has_more {
            self.driver.resume(now, &mut self.request)
        } else if is_stream {
            // More messages may have arrived with the last one.
            self.driver.stream(now, &[], &mut self.request)
        } else {
            Action::Wait
        })
    }

    /// Opens another connection and sends the request there.
    async fn reconnect(&mut self) -> io::Result<Action> {
        // A server that has replied, such as with a kick, is known: the limits do not apply to it.
        if self.driver.received() == 0 && self.exceeds_connections() {
            return Ok(self.driver.give_up(self.started.elapsed()));
        }
        let config = &self.client.config;
        let due = connect_due(&config.limits, self.started, Instant::now());
        let address = self.transcript.address;
        let has_header = config.has_proxy_header;
        let source = config.source;
        let info = self.protocol.info();
        match socket::connect(address, source, has_header, due, info, &self.window).await {
            Some(Ok(stream)) => {
                self.socket = Socket::Stream(stream);
                self.send(false).await
            }
            Some(Err(error)) => self.end_with(error),
            None => {
                let after = self.started.elapsed();
                let silence = ExchangeError::Silence { after };
                Ok(Action::End(self.driver.take_partial().ok_or(silence)))
            }
        }
    }

    /// Handles a timeout. A reply that has arrived before, while the program was busy, counts.
    fn time_out(&mut self, reply: &mut Vec<u8>) -> io::Result<Action> {
        let waiting = socket::receive_first(&mut self.socket, &mut self.open, reply).now_or_never();
        if let Some(received) = waiting {
            let action = self.take(received, reply)?;
            if !matches!(action, Action::Wait) {
                return Ok(action);
            }
        }
        Ok(self.driver.tick(self.started.elapsed(), &mut self.request))
    }

    /// Handles what a socket has received: `reply`, or an error.
    fn take(&mut self, received: io::Result<()>, reply: &[u8]) -> io::Result<Action> {
        match received {
            Ok(()) => Ok(self.pass_on(reply)),
            Err(error) => self.fail(error),
        }
    }

    /// Passes a reply on to the exchange.
    fn pass_on(&mut self, reply: &[u8]) -> Action {
        let now = self.started.elapsed();
        if let Some(detection) = self.detection {
            detection.record_reply();
        }
        self.store_bytes(Direction::Reply, now, reply);
        let request = &mut self.request;
        let action = match self.protocol.info().transport {
            Transport::Datagram => match &self.socket {
                Socket::Shared(socket) if socket.is_shared() => {
                    self.driver.shared_datagram(now, reply, request)
                }
                _ => self.driver.datagram(now, reply, request),
            },
            Transport::Stream => self.driver.stream(now, reply, request),
            Transport::Http => self.driver.response(now, reply, request),
        };
        if let Some(detection) = self.detection
            && self.driver.has_useful_reply()
        {
            detection.record_valid_reply();
        }
        action
    }

    /// Continues after an error of the socket, which may be the proper end of a stream.
    fn fail(&mut self, error: io::Error) -> io::Result<Action> {
        let now = self.started.elapsed();
        self.request.clear();
        if let Some(problem) = http::invalid_response(&error) {
            return Ok(self
                .driver
                .invalid_response(now, problem, &mut self.request));
        }
        match socket::closed_or(error, self.transport().is_connected()) {
            None => Ok(self.driver.closed(now, &mut self.request)),
            Some(error) => self.end_with(error),
        }
    }

    /// Ends with the partial status, or with the error if there is none.
    fn end_with(&mut self, error: io::Error) -> io::Result<Action> {
        let partial = self.driver.take_partial().ok_or(error)?;
        Ok(Action::End(Ok(partial)))
    }

    /// Ends after another protocol has answered, or limits the time until the first useful reply and
    /// repeats the request once within it. A reply that has arrived before, while the program was
    /// busy, counts.
    fn hurry(&mut self, window: &Window, reply: &mut Vec<u8>) -> io::Result<Action> {
        if self.driver.has_useful_reply() {
            return Ok(Action::Wait);
        }
        let waiting = socket::receive_first(&mut self.socket, &mut self.open, reply).now_or_never();
        let action = match waiting {
            Some(received) => self.take(received, reply)?,
            None => Action::Wait,
        };
        if self.driver.has_useful_reply() || matches!(action, Action::End(_)) {
            return Ok(action);
        }
        let now = self.started.elapsed();
        if !window.waits_for(self.protocol.info()) {
            return Ok(self.driver.give_up(now));
        }
        let length = window.end().saturating_duration_since(self.started + now);
        // A third leaves time for the reply, since the window is at least twice the latency.
        self.driver.hurry(now, length / 3, length);
        Ok(action)
    }

    /// Returns whether another connection would exceed the limit of the detection. If so, drops the
    /// request.
    fn exceeds_connections(&mut self) -> bool {
        if self.detection.is_none_or(Detection::may_connect) {
            return false;
        }
        self.withheld += 1;
        self.request.clear();
        true
    }

    /// Returns whether the last request repeats one that got no reply, and the reply may come from
    /// another port.
    fn accepts_other_ports(&self) -> bool {
        self.detection.is_none()
            && matches!(self.socket, Socket::Datagram(_))
            && self.protocol.info().has_replies_from_other_ports
            && self.driver.sent() > 1
            && self.driver.received() == 0
    }

    fn store(&mut self, direction: Direction, at: Duration) {
        let bytes = std::mem::take(&mut self.request);
        self.store_bytes(direction, at, &bytes);
        self.request = bytes;
    }

    /// Adds bytes to the transcript, if it has datagrams.
    fn store_bytes(&mut self, direction: Direction, at: Duration, bytes: &[u8]) {
        if !self.client.config.has_datagrams {
            return;
        }
        let is_stream = self.transport() == Transport::Stream;
        let datagrams = &mut self.transcript.datagrams;
        match datagrams.last_mut() {
            // The pieces of a stream have no meaning.
            Some(last) if is_stream && last.direction == direction => {
                last.at = at;
                last.bytes.extend_from_slice(bytes);
            }
            _ => datagrams.push(Datagram {
                direction,
                at,
                bytes: bytes.to_vec(),
            }),
        }
    }

    /// Returns where a request over HTTP goes.
    fn destination(&self) -> HttpServer {
        let config = &self.client.config;
        let host = match (self.protocol.info().service, &config.service) {
            (Some(_), Some(service)) => return service.clone(),
            (Some(host), None) => host.into(),
            (None, _) => self.ask.to.host.to_string(),
        };
        let route = self.driver.route();
        let mut address = self.transcript.address;
        if let Some(port) = address.port().checked_add_signed(route.port_offset) {
            address.set_port(port);
        }
        HttpServer {
            address,
            host,
            tls: match self.protocol.info().service {
                Some(_) => route.tls,
                None => config.tls.unwrap_or(route.tls),
            },
        }
    }
}
