//! Any system: one call for each datagram.

use crate::inbox::Meta;
use crate::{BATCH, Capabilities, Inbox, Outbox, Refusal, Settings};
use socket2::{Domain, Protocol, Socket as Raw, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Where there is no way to wait for several sockets, they are looked at so often.
const LOOK: Duration = Duration::from_micros(500);
/// Systems take the size of a queue as a C `int`.
pub(crate) const LARGEST: usize = i32::MAX as usize;

/// A socket with what all systems can set, not bound yet.
pub(crate) fn open(address: SocketAddr, settings: &Settings) -> io::Result<Raw> {
    let raw = Raw::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    raw.set_nonblocking(true)?;
    if address.is_ipv6() {
        raw.set_only_v6(true)?;
    }
    #[cfg(unix)]
    if settings.reuse_port {
        raw.set_reuse_port(true)?;
    }
    if let Some(size) = settings.receive_buffer {
        raw.set_recv_buffer_size(size.min(LARGEST))?;
    }
    if let Some(size) = settings.send_buffer {
        raw.set_send_buffer_size(size.min(LARGEST))?;
    }
    Ok(raw)
}

#[derive(Debug)]
pub(crate) struct Socket {
    socket: UdpSocket,
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr, settings: &Settings) -> io::Result<(Self, Capabilities)> {
        let raw = open(address, settings)?;
        raw.bind(&address.into())?;
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

    pub(crate) fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let (slots, metas) = inbox.slots();
        for slot in slots.take(BATCH) {
            loop {
                match self.socket.recv_from(slot) {
                    Ok((length, from)) => metas.push(Meta { length, from, to: None, waited: None }),
                    // What an earlier datagram of ours met with.
                    Err(error) if is_passing(&error) => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(metas.len()),
                    Err(error) => return Err(error),
                }
                break;
            }
        }
        Ok(metas.len())
    }

    pub(crate) fn send(&self, outbox: &mut Outbox) -> io::Result<usize> {
        let mut sent = 0;
        loop {
            let first = outbox.waiting().next().map(|first| self.socket.send_to(first.bytes, first.to));
            match first.transpose() {
                Ok(None) => break,
                Ok(Some(_)) => {
                    outbox.sent(1);
                    sent += 1;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) if is_full(&error) => break,
                Err(error) => outbox.drop_first(error),
            }
        }
        Ok(sent)
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

/// An error of an earlier datagram, or a signal: the same call again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

/// No room for now.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory) || error.raw_os_error() == Some(105)
}

/// As [`crate::wait`].
pub(crate) fn wait(is_over: impl Fn() -> bool, timeout: Duration) {
    let end = Instant::now() + timeout;
    while !is_over() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(LOOK));
    }
}
