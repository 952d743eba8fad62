//! Sends and receives batches of UDP datagrams, to and from many peers.
//!
//! ```text
//!   Outbox ──► Socket::send ──► one system call for up to 64 datagrams to different addresses
//!   Inbox  ◄── Socket::receive ◄── one system call for up to 64 datagrams, with metadata for each
//! ```
//!
//! A [`Socket`] is unconnected and never blocks; [`wait`] blocks, for up to 16 sockets. There is an
//! implementation for Linux and a portable one for other systems. Both pass the same tests
//! ([`SocketConfig::is_portable`]). Features that the system lacks are switched off: see
//! [`Capabilities`].
//!
//! ```
//! use hailer_udp::{Inbox, Outbox, SocketConfig, Socket, wait};
//! use std::time::Duration;
//!
//! # fn main() -> std::io::Result<()> {
//! // A responder on all addresses. Its replies come from the address that received the request.
//! let mut config = SocketConfig::default();
//! config.has_destination = true;
//! let responder = Socket::bind(([0, 0, 0, 0], 0).into(), &config)?;
//! let client = Socket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default())?;
//!
//! let (mut inbox, mut outbox) = (Inbox::new(), Outbox::new());
//! for host in 1..=100 {
//!     let to = ([127, 0, 0, host], responder.local_addr().port()).into();
//!     outbox.push(to, None, |out| out.extend(b"ping"));
//! }
//! client.send(&mut outbox)?;
//!
//! let mut answered = 0;
//! while answered < 100 {
//!     wait(&[&responder], false, Duration::from_secs(1))?;
//!     responder.receive(&mut inbox)?;
//!     for request in inbox.iter() {
//!         outbox.push(request.from, request.to, |out| out.extend(request.bytes));
//!     }
//!     answered += responder.send(&mut outbox)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! May import: nothing of this workspace.

#[cfg(target_os = "linux")]
mod envelope;
mod fallback;
mod inbox;
#[cfg(target_os = "linux")]
mod linux;
mod outbox;
#[cfg(target_os = "linux")]
mod sys;

pub use inbox::{Inbox, Received};
pub use outbox::{Outbox, Unsent};

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// Largest number of datagrams in one system call. Larger batches only cost cache.
pub const BATCH: usize = 64;

/// Largest number of sockets that one call of [`wait`] accepts.
pub const MAX_WAIT_SOCKETS: usize = 16;

/// Options of a socket.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SocketConfig {
    /// Requested size of the receive queue in bytes, as the system counts them. The system may give
    /// less. `None`: the system's default.
    pub receive_buffer: Option<usize>,
    /// Requested size of the send queue in bytes, as the system counts them. `None`: the system's
    /// default.
    pub send_buffer: Option<usize>,
    /// Whether several sockets may share the address. The system distributes the peers over them.
    pub is_port_shared: bool,
    /// Number of sockets that will share the address; 0 and 1 have no effect. All datagrams of one
    /// network (/24 or /56) then go to the same socket. Otherwise, and on systems without this
    /// feature, the system chooses the socket by address and port. Set it on the first socket.
    /// Sockets are numbered in the order in which they were bound.
    pub spread: u32,
    /// Whether to report how long each datagram was in the receive queue: [`Received::waited`].
    pub has_timestamps: bool,
    /// Whether to report the local address that each datagram was sent to: [`Received::to`].
    pub has_destination: bool,
    /// Whether to report closed ports and unreachable hosts: [`Socket::refusals`]. On Linux,
    /// sending then also stops while a network interface has a full queue, instead of losing
    /// datagrams there.
    pub has_refusals: bool,
    /// Whether to forbid fragments. A datagram that is too long for its path is [not
    /// sent](Outbox::take_unsent). On Linux this saves a few percent of CPU per datagram. Ignored
    /// on systems without this feature.
    pub is_unfragmented: bool,
    /// Whether to use the portable implementation even on Linux, for tests and comparisons.
    pub is_portable: bool,
}

/// Features of a socket on this system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether one system call handles up to [`BATCH`] datagrams. Otherwise it handles one.
    pub has_batches: bool,
    /// Whether [`Received::waited`] is reported. Otherwise it is `None`.
    pub has_timestamps: bool,
    /// Whether [`Received::to`] is reported. Otherwise it is `None`. Linux always sends from the
    /// address given to [`Outbox::push`]; other systems choose the address themselves.
    pub has_destination: bool,
    /// Whether [`SocketConfig::spread`] is in effect.
    pub has_spread: bool,
    /// Whether [`Socket::overflows`] counts. Otherwise it is 0.
    pub has_overflows: bool,
    /// Whether [`Socket::refusals`] reports refusals. Otherwise a refused datagram looks lost.
    pub has_refusals: bool,
    /// Size of the receive queue in bytes, as the system counts them. Linux includes its
    /// bookkeeping, and gives twice the requested size for it. Without privileges, the limit is set
    /// by the system's administrator.
    pub receive_buffer: usize,
    /// Size of the send queue in bytes, counted in the same way.
    pub send_buffer: usize,
}

/// An ICMP error: a host or router reports that a datagram was not delivered.
#[derive(Debug)]
pub struct Refusal<'a> {
    /// Destination of the datagram.
    pub to: SocketAddr,
    /// The error as the system reports it. [`io::ErrorKind::ConnectionRefused`]: nothing listens on
    /// the port.
    pub error: io::Error,
    /// The part of the datagram's payload that came back with the error; may be empty.
    pub quoted: &'a [u8],
}

/// An unconnected, non-blocking UDP socket. Threads may share it.
#[derive(Debug)]
pub struct Socket {
    system: System,
    local: SocketAddr,
    capabilities: Capabilities,
}

#[derive(Debug)]
enum System {
    #[cfg(target_os = "linux")]
    Linux(linux::Socket),
    Any(fallback::Socket),
}

impl System {
    fn bind(address: SocketAddr, config: &SocketConfig) -> io::Result<(Self, Capabilities)> {
        #[cfg(target_os = "linux")]
        if !config.is_portable {
            let (socket, can) = linux::Socket::bind(address, config)?;
            return Ok((Self::Linux(socket), can));
        }
        let (socket, can) = fallback::Socket::bind(address, config)?;
        Ok((Self::Any(socket), can))
    }

    fn adopt(
        socket: std::net::UdpSocket,
        config: &SocketConfig,
    ) -> io::Result<(Self, Capabilities)> {
        #[cfg(target_os = "linux")]
        if !config.is_portable {
            let (socket, can) = linux::Socket::adopt(socket, config)?;
            return Ok((Self::Linux(socket), can));
        }
        let (socket, can) = fallback::Socket::adopt(socket, config)?;
        Ok((Self::Any(socket), can))
    }
}

/// Dispatches to the active socket implementation.
macro_rules! system {
    ($socket:expr, $system:ident => $what:expr) => {
        match &$socket.system {
            #[cfg(target_os = "linux")]
            System::Linux($system) => $what,
            System::Any($system) => $what,
        }
    };
}

impl Socket {
    /// Binds a socket. A socket on an IPv6 address does not receive IPv4.
    ///
    /// # Errors
    /// If the address is in use or not available, or the system refuses a socket.
    pub fn bind(address: SocketAddr, config: &SocketConfig) -> io::Result<Self> {
        let (system, capabilities) = System::bind(address, config)?;
        let mut socket = Self {
            system,
            local: address,
            capabilities,
        };
        socket.local = system!(socket, system => system.local_addr())?;
        Ok(socket)
    }

    /// Takes over a bound socket, for example from a service manager. [`SocketConfig::is_port_shared`]
    /// has no effect, since it must be set before binding. [`SocketConfig::spread`] can be set on
    /// any of the sockets that share an address.
    ///
    /// # Errors
    /// If the system refuses to change the socket.
    pub fn adopt(socket: std::net::UdpSocket, config: &SocketConfig) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let (system, capabilities) = System::adopt(socket, config)?;
        Ok(Self {
            system,
            local,
            capabilities,
        })
    }

    /// Returns the address that the socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns another handle of the socket, for event loops other than [`wait`].
    ///
    /// # Errors
    /// If the system refuses a handle.
    pub fn try_clone(&self) -> io::Result<std::net::UdpSocket> {
        system!(self, system => system.try_clone())
    }

    /// Returns the features of the socket.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Replaces the contents of the inbox with up to [`BATCH`] waiting datagrams. Returns their
    /// number, 0 if none waits.
    ///
    /// # Errors
    /// If the system cannot receive. Pending refusals are no errors: see [`Socket::refusals`].
    pub fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        system!(self, system => system.receive(inbox))
    }

    /// Sends the datagrams of the outbox until it is empty or the system has no room. Returns the
    /// number sent; the rest stays in the outbox, in order. Datagrams that can never be sent are
    /// dropped and reported by [`Outbox::take_unsent`].
    ///
    /// If the socket's queue is full, [`wait`] returns when it has room. If the queue of a network
    /// interface is full, [`wait`] cannot know, so pause for a moment after a call that sent
    /// nothing.
    ///
    /// # Errors
    /// None on the present systems: errors of datagrams are reported by [`Outbox::take_unsent`].
    pub fn send(&self, outbox: &mut Outbox) -> io::Result<usize> {
        system!(self, system => system.send(outbox))
    }

    /// Passes up to 512 waiting refusals to `receive`, if [`SocketConfig::has_refusals`] is set.
    /// Returns their number. Call it often: waiting refusals take up room in the receive queue, and
    /// end each [`wait`].
    ///
    /// # Errors
    /// If the system cannot report them.
    pub fn refusals(&self, receive: &mut dyn FnMut(Refusal<'_>)) -> io::Result<usize> {
        system!(self, system => system.refusals(receive))
    }

    /// Returns the number of datagrams lost because the receive queue was full. On Linux, this is a
    /// system call.
    pub fn overflows(&self) -> u64 {
        system!(self, system => system.overflows())
    }
}

/// For event loops other than [`wait`].
#[cfg(unix)]
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        system!(self, system => system.as_fd())
    }
}

/// For event loops other than [`wait`].
#[cfg(unix)]
impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Waits until one of the sockets has a datagram or a refusal, or, if `writable`, room to send, or
/// until the timeout. May return earlier.
///
/// # Errors
/// If there are more than [`MAX_WAIT_SOCKETS`] sockets, or the system cannot wait.
pub fn wait(sockets: &[&Socket], writable: bool, timeout: Duration) -> io::Result<()> {
    if sockets.len() > MAX_WAIT_SOCKETS {
        let message = format!(
            "cannot wait for {} sockets: the limit is {MAX_WAIT_SOCKETS}",
            sockets.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    // Longer timeouts overflow on some systems.
    let timeout = timeout.min(Duration::from_secs(86_400));
    #[cfg(target_os = "linux")]
    if sockets
        .iter()
        .any(|socket| matches!(socket.system, System::Linux(_)))
    {
        return linux::wait(sockets, writable, timeout);
    }
    let has_something = |socket: &&Socket| match &socket.system {
        System::Any(system) => system.has_something(),
        #[cfg(target_os = "linux")]
        System::Linux(_) => false,
    };
    fallback::wait(|| sockets.iter().any(has_something), writable, timeout);
    Ok(())
}

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
