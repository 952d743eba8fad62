//! Batches of UDP datagrams in and out, for many peers at once.
//!
//! ```text
//!   Outbox ──► Socket::send ──► one system call for up to 64 datagrams, each to an address of its own
//!   Inbox  ◄── Socket::receive ◄── the same the other way, with what the system knows of each datagram
//! ```
//!
//! A [`Socket`] is not connected and never blocks; [`wait`] does, for several sockets at once. What the system cannot do
//! is said by [`Capabilities`] and left out; nothing but speed depends on it, unless a field's documentation says so.

mod fallback;
mod inbox;
mod outbox;

pub use inbox::{Inbox, Received};
pub use outbox::{Outbox, Unsent};

use fallback as imp;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The most datagrams in one system call: more only costs cache.
pub const BATCH: usize = 64;

/// What a socket should be able to do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Bytes wanted for the receive queue, as the system counts them; it may give less. `None`: the system's default.
    pub receive_buffer: Option<usize>,
    /// The same for what waits to be sent.
    pub send_buffer: Option<usize>,
    /// Several sockets may share the address; the system spreads the peers over them.
    pub reuse_port: bool,
    /// Tell when the system received a datagram: [`Received::waited`].
    pub timestamps: bool,
    /// Tell which of this machine's addresses was asked: [`Received::to`].
    pub destination: bool,
    /// Hear of ports that are closed and hosts that cannot be reached: [`Socket::refusals`].
    pub refusals: bool,
}

/// What a socket can do on this system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Several datagrams go through one system call.
    pub batches: bool,
    /// [`Received::waited`] is told.
    pub timestamps: bool,
    /// [`Received::to`] is told, and [`Outbox::push`] honours the address to send from.
    pub destination: bool,
    /// [`Socket::overflows`] counts.
    pub overflows: bool,
    /// [`Socket::refusals`] hears.
    pub refusals: bool,
    /// Size of the receive queue in bytes, as the system counts them.
    pub receive_buffer: usize,
    /// Size of the send queue.
    pub send_buffer: usize,
}

/// A host or a network on the way said that a datagram did not arrive (ICMP).
#[derive(Debug)]
pub struct Refusal<'a> {
    /// Where the datagram went.
    pub to: SocketAddr,
    /// What the system makes of it; [`io::ErrorKind::ConnectionRefused`]: nothing listens on the port.
    pub error: io::Error,
    /// As much of the datagram's payload as came back with the refusal; may be empty.
    pub quoted: &'a [u8],
}

/// A UDP socket that is not connected and does not block.
#[derive(Debug)]
pub struct Socket {
    imp: imp::Socket,
    local: SocketAddr,
    capabilities: Capabilities,
}

impl Socket {
    /// Binds a socket. One on an IPv6 address does not hear IPv4.
    pub fn bind(address: SocketAddr, settings: &Settings) -> io::Result<Self> {
        let (imp, capabilities) = imp::Socket::bind(address, settings)?;
        let local = imp.local_addr()?;
        Ok(Self { imp, local, capabilities })
    }

    /// The address that it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What it can do.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Receives up to a batch of what waits, in place of what the inbox held. Returns how many came; 0 if none waits.
    /// A pending refusal is no error here: see [`Socket::refusals`].
    pub fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        self.imp.receive(inbox)
    }

    /// Sends what the outbox holds until all is sent, or the system takes no more for now; the rest stays in the outbox,
    /// in order. Datagrams that can never be sent are dropped from it and reported by [`Outbox::take_unsent`]. Returns how
    /// many were sent.
    pub fn send(&self, outbox: &mut Outbox) -> io::Result<usize> {
        self.imp.send(outbox)
    }

    /// Hears the refusals that wait, if [`Settings::refusals`]: at most a few hundred in one call. Returns how many.
    pub fn refusals(&self, hear: &mut dyn FnMut(Refusal<'_>)) -> io::Result<usize> {
        self.imp.refusals(hear)
    }

    /// Datagrams lost so far because the receive queue was full, as far as the datagrams received since have told.
    pub fn overflows(&self) -> u64 {
        self.imp.overflows()
    }
}

/// Waits until a socket has something to receive or a refusal to hear, or, if `writable`, room to send; at most so long.
pub fn wait(sockets: &[&Socket], writable: bool, timeout: Duration) -> io::Result<()> {
    let inner: Vec<&imp::Socket> = sockets.iter().map(|socket| &socket.imp).collect();
    imp::wait(&inner, writable, timeout)
}
