//! The portable implementation: one system call per datagram.
//!
//! In: an outbox, a socket. Out: an inbox, refusals.
//!
//! May import: `crate`, `crate::inbox`, `crate::outbox`.

use crate::inbox::Meta;
use crate::outbox::{MAX_SEND_TRIES, Pending, is_of_others};
use crate::{Capabilities, Inbox, Outbox, Refusal, SocketConfig};
use socket2::{Domain, Protocol, Socket as Raw, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Interval between checks of the sockets. There is no portable way to wait for several.
const POLL_INTERVAL: Duration = Duration::from_micros(500);
/// Maximum size of a queue in bytes: systems take it as a C `int`.
pub(crate) const MAX_BUFFER_BYTES: usize = i32::MAX as usize;

/// Returns an unbound socket with the options that all systems have.
pub(crate) fn open(address: SocketAddr, config: &SocketConfig) -> io::Result<Raw> {
    let raw = Raw::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    raw.set_nonblocking(true)?;
    if address.is_ipv6() {
        raw.set_only_v6(true)?;
    }
    #[cfg(unix)]
    if config.is_port_shared {
        raw.set_reuse_port(true)?;
    }
    set_queues(&raw, config)?;
    Ok(raw)
}

/// Binds a socket that may share its port. Port 0 is a port that no other socket has: an unshared
/// socket chooses it, since the system would give a shared socket the port of another shared one.
pub(crate) fn bind(raw: &Raw, address: SocketAddr, config: &SocketConfig) -> io::Result<()> {
    #[cfg(unix)]
    if config.is_port_shared && address.port() == 0 {
        let reserved = open(address, &SocketConfig::default())?;
        reserved.bind(&address.into())?;
        reserved.set_reuse_port(true)?;
        return raw.bind(&reserved.local_addr()?);
    }
    // Elsewhere, sockets cannot share a port.
    let _ = config;
    raw.bind(&address.into())
}

fn set_queues(raw: &Raw, config: &SocketConfig) -> io::Result<()> {
    if let Some(size) = config.receive_buffer {
        raw.set_recv_buffer_size(size.min(MAX_BUFFER_BYTES))?;
    }
    if let Some(size) = config.send_buffer {
        raw.set_send_buffer_size(size.min(MAX_BUFFER_BYTES))?;
    }
    Ok(())
}

/// Sets the options that a bound socket can have.
pub(crate) fn take(socket: UdpSocket, config: &SocketConfig) -> io::Result<Raw> {
    let raw = Raw::from(socket);
    raw.set_nonblocking(true)?;
    set_queues(&raw, config)?;
    Ok(raw)
}

#[derive(Debug)]
pub(crate) struct Socket {
    socket: UdpSocket,
}

impl Socket {
    pub(crate) fn bind(
        address: SocketAddr,
        config: &SocketConfig,
    ) -> io::Result<(Self, Capabilities)> {
        let raw = open(address, config)?;
        bind(&raw, address, config)?;
        Self::of(raw)
    }

    pub(crate) fn adopt(
        socket: UdpSocket,
        config: &SocketConfig,
    ) -> io::Result<(Self, Capabilities)> {
        Self::of(take(socket, config)?)
    }

    fn of(raw: Raw) -> io::Result<(Self, Capabilities)> {
        let capabilities = Capabilities {
            receive_buffer: raw.recv_buffer_size()?,
            send_buffer: raw.send_buffer_size()?,
            ..Capabilities::default()
        };
        Ok((Self { socket: raw.into() }, capabilities))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(crate) fn try_clone(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    pub(crate) fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let (slots, metas) = inbox.slots();
        let mut tries = 0;
        for slot in slots {
            let (length, from) = loop {
                match self.socket.recv_from(slot) {
                    Ok(received) => break received,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(metas.len()),
                    Err(_) if tries < MAX_SEND_TRIES => tries += 1,
                    Err(error) if is_of_others(&error) => return Ok(metas.len()),
                    Err(error) => return Err(error),
                }
            };
            metas.push(Meta {
                length,
                from,
                to: None,
                waited: None,
            });
        }
        Ok(metas.len())
    }

    pub(crate) fn send(&self, outbox: &mut Outbox) -> io::Result<usize> {
        let one = |first: Pending<'_>| self.socket.send_to(first.bytes, first.to).map(|_| 1);
        Ok(outbox.send_by(|outbox| outbox.waiting().next().map_or(Ok(0), one)))
    }

    pub(crate) fn refusals(&self, _: &mut dyn FnMut(Refusal<'_>)) -> io::Result<usize> {
        Ok(0)
    }

    pub(crate) fn overflows(&self) -> u64 {
        0
    }

    pub(crate) fn has_something(&self) -> bool {
        !matches!(self.socket.peek_from(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Implements [`crate::wait`]. It cannot detect space to send, so it waits for it only a short
/// time.
pub(crate) fn wait(has_something: impl Fn() -> bool, writable: bool, timeout: Duration) {
    let end = Instant::now()
        + if writable {
            timeout.min(POLL_INTERVAL)
        } else {
            timeout
        };
    while !has_something() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
}
