//! Probes of stream protocols: the part of the engine that needs connections.
//!
//! The engine does not open connections. It queues [`ConnectionOrder`]s, and the caller reports what
//! happened on the connection of a probe. A probe takes a connection from its start to its end, so
//! that the caller's limit of open files also limits the probes in flight.

use super::flight::Id;
use super::{MEMORY_PER_BYTE, SweepEngine, copy};
use crate::error::Error;
use crate::support::drive::{Action, ExchangeDriver};
use crate::sweep::{Probe, Sink};
use crate::target::Target;
use crate::transcript::Datagram;
use hailer_proto::{Ask, Destination, Direction, Transport};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Bytes of the packets that set up a connection, without IP and TCP headers. The rate limits count
/// a connection as one datagram.
const CONNECT_BYTES: usize = 0;
/// Largest batch of probes that start together while connections are open. The system's state of a
/// connection takes kilobytes, and larger batches evict it from the CPU caches before the reply:
/// batches of 256 instead of 32 slow down a sweep of status pings by a tenth.
pub(crate) const STREAM_BATCH: usize = 32;
/// Room for a request. Most are shorter.
const REQUEST_BYTES: usize = 64;
/// Largest number of tries to open a connection while the system lacks resources.
const MAX_CONNECT_RETRIES: u8 = 200;
/// Wait of a probe until a connection is free.
const CONNECTION_RETRY: Duration = Duration::from_millis(10);

/// Instruction to the caller about the connection of a probe.
#[derive(Debug, PartialEq, Eq)]
pub enum ConnectionOrder {
    /// Open a connection, then call [`SweepEngine::connected`].
    Connect {
        /// The probe.
        id: u32,
        /// Address of the server.
        address: SocketAddr,
    },
    /// Send these bytes.
    Send {
        /// The probe.
        id: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Close the connection, open a new one, and send these bytes on it.
    Reconnect {
        /// The probe.
        id: u32,
        /// Address of the server.
        address: SocketAddr,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Close the connection. The number of the probe is free for another one.
    Close {
        /// The probe.
        id: u32,
    },
}

/// State of the engine for stream protocols.
pub(crate) struct Connections {
    pub(crate) orders: Vec<ConnectionOrder>,
    /// Probes that have a connection.
    count: usize,
    max: usize,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            orders: Vec::new(),
            count: 0,
            max: usize::MAX,
        }
    }
}

impl Connections {
    pub(crate) fn is_full(&self) -> bool {
        self.count >= self.max
    }
}

impl SweepEngine {
    /// Limits the connections that are open at the same time.
    pub fn set_max_connections(&mut self, max: usize) {
        self.connections.max = max.max(1);
    }

    /// Returns the number of probes that have a connection.
    pub fn open_connections(&self) -> usize {
        self.connections.count
    }

    /// Moves the orders to `orders`, in the order in which they must be followed. Returns whether
    /// `orders` has any.
    pub fn take_orders(&mut self, orders: &mut Vec<ConnectionOrder>) -> bool {
        orders.append(&mut self.connections.orders);
        !orders.is_empty()
    }

    pub(crate) fn is_stream(&self, id: Id) -> bool {
        self.flight.slot(id).is_stream()
    }

    /// Returns whether a probe must wait for a connection.
    pub(crate) fn lacks_connection(&self, probe: &Probe) -> bool {
        self.connections.is_full() && probe.protocol.info().transport == Transport::Stream
    }

    /// Requests a connection for a probe, or wakes the probe later if there is none.
    pub(crate) fn connect(&mut self, now: Duration, id: Id) {
        self.connections.count += 1;
        let address = self.flight.address(id);
        self.rate_limits.spend(address.ip(), CONNECT_BYTES);
        let wait = self.delays.wait().min(self.connect_timeout());
        self.flight.wake_at(id, now + wait);
        self.connections
            .orders
            .push(ConnectionOrder::Connect { id, address });
    }

    /// Postpones the first datagram of a probe if it must wait for a connection. Returns whether it
    /// must.
    pub(crate) fn postpone(&mut self, now: Duration, id: Id) -> bool {
        let must_wait = self.connections.is_full() && self.is_stream(id);
        if must_wait {
            self.flight.wake_at(id, now + CONNECTION_RETRY);
        }
        must_wait
    }

    /// Returns how long to wait for a connection: the timeout, after which the system has repeated
    /// its first packet (by default both are one second), and then as long as for any other reply.
    fn connect_timeout(&self) -> Duration {
        let repeated = if self.limits.retries == 0 {
            Duration::ZERO
        } else {
            self.delays.wait()
        };
        (self.limits.timeout + repeated).min(self.limits.deadline)
    }

    /// Handles a timeout of a probe that is not connected. Nearly all of these servers are down, and
    /// those that keep the window busy would slow down the others.
    pub(crate) fn connect_timed_out(&mut self, now: Duration, id: Id, sink: &mut dyn Sink) {
        let took = self.took(now, id);
        let left = self.connect_timeout().saturating_sub(took);
        if left.is_zero() {
            return self.end_silent(now, id, took, sink);
        }
        self.flight.set_overdue(id, true);
        self.flight.wake_at(id, now + left);
    }

    /// Starts the exchange of a probe whose connection is open. This and the following methods
    /// ignore probes that have ended, whose [`ConnectionOrder::Close`] is not followed yet.
    pub fn connected(&mut self, now: Duration, id: u32, sink: &mut dyn Sink) {
        if !self.flight.has_started(id) || self.flight.slot(id).has_answered() {
            return;
        }
        let delay = now.saturating_sub(self.last_send(now, id));
        self.window.alive_asked();
        self.window.delay(delay);
        self.delays.add(delay);
        let address = self.flight.address(id);
        let host = match self.names.get(&id) {
            Some(typed) => match typed.parse::<Target>() {
                Ok(target) => target.host.to_string(),
                Err(_) => typed.to_string(),
            },
            None => host(address.ip()),
        };
        let first = self.first_ports.get(&id).copied();
        let first = first.unwrap_or(address.port());
        let ask = Ask {
            to: Destination {
                host: host.into(),
                port: address.port(),
                game_port: self.kind(id).game_port(first),
                address: Some(address),
            },
            ..self.ask(id).clone()
        };
        let exchange = self.protocol(id).exchange(&ask, self.cookie(id));
        let mut limits = self.limits;
        limits.deadline = limits.deadline.saturating_sub(self.took(now, id));
        let mut driver = ExchangeDriver::new(exchange, limits);
        let mut bytes = Vec::with_capacity(REQUEST_BYTES);
        let action = driver.start(now, &mut bytes);
        self.keep(id, driver);
        self.follow_stream(now, id, action, bytes, sink);
    }

    /// Processes bytes received on the connection of a probe.
    pub fn receive_stream(&mut self, now: Duration, id: u32, bytes: &[u8], sink: &mut dyn Sink) {
        self.counts.datagrams_received += 1;
        self.counts.bytes_received += bytes.len() as u64;
        if !self.flight.has_started(id) || !self.flight.slot(id).has_answered() {
            return;
        }
        let slot = self.flight.slot(id);
        let place = slot.sent_or_driver as usize;
        let Some(driver) = &mut self.drivers[place] else {
            return;
        };
        let mut out = Vec::new();
        let action = driver.stream(now, bytes, &mut out);
        self.memory += bytes.len() * MEMORY_PER_BYTE;
        if self.config.has_replies {
            let at = self.took(now, id);
            let replies = self.replies.entry(id).or_default();
            match replies.last_mut() {
                Some(last) => {
                    last.at = at;
                    last.bytes.extend_from_slice(bytes);
                }
                None => replies.push(Datagram {
                    direction: Direction::Reply,
                    at,
                    bytes: bytes.to_vec(),
                }),
            }
        }
        self.follow_stream(now, id, action, out, sink);
        if self.memory > self.config.max_memory {
            self.free_memory(now, sink);
        }
    }

    /// Processes the end of the connection of a probe. `error`: why the connection could not be
    /// opened or continued, or `None` if the server closed it.
    pub fn stream_ended(
        &mut self,
        now: Duration,
        id: u32,
        error: Option<&io::Error>,
        sink: &mut dyn Sink,
    ) {
        if !self.flight.has_started(id) {
            return;
        }
        let slot = self.flight.slot(id);
        if slot.has_answered() {
            let place = slot.sent_or_driver as usize;
            let Some(driver) = &mut self.drivers[place] else {
                return;
            };
            let mut out = Vec::new();
            let action = driver.closed(now, &mut out);
            return self.follow_stream(now, id, action, out, sink);
        }
        let transcript = Box::new(self.transcript(id, None));
        let closed = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = error.unwrap_or(&closed);
        let error = match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                Error::PortClosed { transcript }
            }
            io::ErrorKind::TimedOut => Error::Silence {
                after: self.took(now, id),
                transcript,
            },
            _ => Error::Unreachable {
                transcript,
                cause: copy(error),
            },
        };
        self.finish(now, id, Err(error), sink);
    }

    /// Tries again later to open the connection of a probe: the system had no resources for it.
    pub fn connect_later(&mut self, now: Duration, id: u32, sink: &mut dyn Sink) {
        let slot = self.flight.slot_mut(id);
        if slot.resends >= MAX_CONNECT_RETRIES {
            let error = io::Error::from(io::ErrorKind::OutOfMemory);
            return self.stream_ended(now, id, Some(&error), sink);
        }
        slot.resends += 1;
        self.connections.count = self.connections.count.saturating_sub(1);
        self.counts.probes -= u64::from(self.is_at_first_port(id));
        self.flight.set_waiting(id);
        self.flight.wake_at(id, now + CONNECTION_RETRY);
    }

    /// Handles a timeout of a probe that is connected.
    pub(crate) fn remind_stream(&mut self, now: Duration, id: Id, sink: &mut dyn Sink) {
        let place = self.flight.slot(id).sent_or_driver as usize;
        let Some(driver) = &mut self.drivers[place] else {
            return;
        };
        if now < driver.due() {
            return self.flight.wake_at(id, driver.due());
        }
        let mut bytes = Vec::new();
        let action = driver.tick(now, &mut bytes);
        self.follow_stream(now, id, action, bytes, sink);
    }

    /// Queues what an action requests. `bytes`: what the driver has written.
    fn follow_stream(
        &mut self,
        now: Duration,
        id: Id,
        mut action: Action,
        mut bytes: Vec<u8>,
        sink: &mut dyn Sink,
    ) {
        let address = self.flight.address(id);
        loop {
            let place = self.flight.slot(id).sent_or_driver as usize;
            let Some(driver) = &mut self.drivers[place] else {
                return;
            };
            action = match action {
                Action::SendMore => driver.resume(now, &mut bytes),
                // More messages may have arrived with the last one.
                Action::Send => driver.stream(now, &[], &mut bytes),
                Action::Wait | Action::Progress => {
                    let due = driver.due();
                    self.flight.wake_at(id, due);
                    break;
                }
                Action::Reconnect => {
                    let due = driver.due();
                    self.flight.wake_at(id, due);
                    self.sent(address.ip(), bytes.len());
                    self.connections
                        .orders
                        .push(ConnectionOrder::Reconnect { id, address, bytes });
                    return;
                }
                Action::End(end) => {
                    if !bytes.is_empty() {
                        let order = ConnectionOrder::Send { id, bytes };
                        self.connections.orders.push(order);
                    }
                    return self.end(now, id, None, end, sink);
                }
            };
        }
        if !bytes.is_empty() {
            self.sent(address.ip(), bytes.len());
            let order = ConnectionOrder::Send { id, bytes };
            self.connections.orders.push(order);
        }
    }

    /// Queues the end of a probe's connection.
    pub(crate) fn close_connection(&mut self, id: Id) {
        self.connections.count = self.connections.count.saturating_sub(1);
        self.connections.orders.push(ConnectionOrder::Close { id });
    }
}

/// Formats an address. For IPv4, the formatting of `core` would take more time than the rest of the
/// request.
fn host(ip: IpAddr) -> String {
    let IpAddr::V4(ip) = ip else {
        return ip.to_string();
    };
    let mut text = String::with_capacity("255.255.255.255".len());
    for (i, octet) in ip.octets().into_iter().enumerate() {
        if i > 0 {
            text.push('.');
        }
        text.push_str(itoa::Buffer::new().format(octet));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_as_text() {
        for text in ["127.0.0.1", "255.254.1.20", "0.0.0.0", "::1", "2001:db8::7"] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(host(ip), text);
        }
    }
}
