//! Batches of UDP datagrams in and out, for many peers at once.
//!
//! ```text
//!   Outbox ──► Socket::send ──► one system call for up to 64 datagrams, each to an address of its own
//!   Inbox  ◄── Socket::receive ◄── the same the other way, with what the system knows of each datagram
//! ```
//!
//! A [`Socket`] is not connected and never blocks; [`wait`] does, for several sockets at once. Where there is one way to
//! do it on every system and a better one on Linux, both are here ([`SocketConfig::portable`]), with the same tests. What the
//! system cannot do is left out, and [`Capabilities`] say so, and what that means; everything else is the same.
//!
//! ```
//! use hailer_udp::{Inbox, Outbox, SocketConfig, Socket, wait};
//! use std::time::Duration;
//!
//! # fn main() -> std::io::Result<()> {
//! // A responder on all addresses, that answers from the one that was asked.
//! let mut settings = SocketConfig::default();
//! settings.destination = true;
//! let responder = Socket::bind(([0, 0, 0, 0], 0).into(), &settings)?;
//! let client = Socket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default())?;
//!
//! let (mut inbox, mut outbox) = (Inbox::new(), Outbox::new());
//! for host in 1..=100 {
//!     let to = ([127, 0, 0, host], responder.local_addr().port()).into();
//!     outbox.push(to, None, |out| out.extend(b"anybody there?"));
//! }
//! client.send(&mut outbox)?;
//!
//! let mut answered = 0;
//! while answered < 100 {
//!     wait(&[&responder], false, Duration::from_secs(1))?;
//!     responder.receive(&mut inbox)?;
//!     for question in inbox.iter() {
//!         outbox.push(question.from, question.to, |out| out.extend(question.bytes));
//!     }
//!     answered += responder.send(&mut outbox)?;
//! }
//! # Ok(())
//! # }
//! ```

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

/// The most datagrams in one system call: more only costs cache.
pub const BATCH: usize = 64;

/// The most sockets to [`wait`] for at once.
pub const MAX_WAIT_SOCKETS: usize = 16;

/// What a socket should be able to do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SocketConfig {
    /// Bytes wanted for the receive queue, as the system counts them; it may give less. `None`: the system's default.
    pub receive_buffer: Option<usize>,
    /// The same for what waits to be sent.
    pub send_buffer: Option<usize>,
    /// Several sockets may share the address; the system spreads the peers over them.
    pub reuse_port: bool,
    /// So many sockets will share the address: the system gives all that comes from one network (/24, /56) to one of them,
    /// so that each knows all about its networks. Else, and where the system cannot, it chooses by address and port. To be
    /// said of the first socket; the number of a socket is the order in which they were bound.
    pub spread: u32,
    /// Tell when the system received a datagram: [`Received::waited`].
    pub timestamps: bool,
    /// Tell which of this machine's addresses was asked: [`Received::to`].
    pub destination: bool,
    /// Hear of ports that are closed and hosts that cannot be reached: [`Socket::refusals`]. On Linux, sending then also
    /// stops when a network interface has no room, where it else loses datagrams.
    pub refusals: bool,
    /// Never cut a datagram into fragments; one that is too long for its way is [not sent](Outbox::take_unsent). Whoever
    /// only sends short ones saves a few percent of each on Linux, which numbers datagrams that may be cut. Ignored where
    /// the system cannot.
    pub unfragmented: bool,
    /// Do what any system can do, even where more is possible: for tests and comparisons.
    pub portable: bool,
}

/// What a socket can do on this system, and what if it cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Up to [`BATCH`] datagrams go through one system call. Else: one each.
    pub batches: bool,
    /// [`Received::waited`] is told. Else, or if not wanted: `None`.
    pub timestamps: bool,
    /// [`Received::to`] is told. Else, or if not wanted: `None`. Linux sends from the address that [`Outbox::push`] was
    /// given in any case; elsewhere the system chooses.
    pub destination: bool,
    /// [`SocketConfig::spread`] is in force.
    pub spread: bool,
    /// [`Socket::overflows`] counts. Else: 0.
    pub overflows: bool,
    /// [`Socket::refusals`] hears. Else, or if not wanted: a refusal is silence.
    pub refusals: bool,
    /// Size of the receive queue in bytes, as the system counts them: Linux with its own bookkeeping, for which it gives
    /// twice what was wished for. Without the privilege to have more, at most what the system's administrator allows.
    pub receive_buffer: usize,
    /// The same of the send queue.
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

/// A UDP socket that is not connected and does not block. Threads may share it.
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

/// The same of whichever socket it is.
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
    /// Binds a socket. One on an IPv6 address does not hear IPv4.
    pub fn bind(address: SocketAddr, settings: &SocketConfig) -> io::Result<Self> {
        let (system, capabilities) = match settings.portable {
            #[cfg(target_os = "linux")]
            false => linux::Socket::bind(address, settings)
                .map(|(socket, can)| (System::Linux(socket), can))?,
            _ => fallback::Socket::bind(address, settings)
                .map(|(socket, can)| (System::Any(socket), can))?,
        };
        let mut socket = Self {
            system,
            local: address,
            capabilities,
        };
        socket.local = system!(socket, system => system.local_addr())?;
        Ok(socket)
    }

    /// Takes over a socket that is bound already, such as one that a service manager hands over. What must be set before
    /// binding stays as it is: [`SocketConfig::reuse_port`]. Of sockets that share their address by it, any one can be told of
    /// [`SocketConfig::spread`], and so can all.
    pub fn adopt(socket: std::net::UdpSocket, settings: &SocketConfig) -> io::Result<Self> {
        let local = socket.local_addr()?;
        let (system, capabilities) = match settings.portable {
            #[cfg(target_os = "linux")]
            false => linux::Socket::adopt(socket, settings)
                .map(|(socket, can)| (System::Linux(socket), can))?,
            _ => fallback::Socket::adopt(socket, settings)
                .map(|(socket, can)| (System::Any(socket), can))?,
        };
        Ok(Self {
            system,
            local,
            capabilities,
        })
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
        system!(self, system => system.receive(inbox))
    }

    /// Sends what the outbox holds until all is sent, or the system takes no more for now; the rest stays in the outbox,
    /// in order. (It is mostly the socket's queue that is full, and [`wait`] tells when it is not. It cannot tell that of a
    /// network interface, so whoever comes back to no avail should pause for a moment.) Datagrams that can never be sent are dropped from it and reported by [`Outbox::take_unsent`]. Returns how
    /// many were sent.
    pub fn send(&self, outbox: &mut Outbox) -> io::Result<usize> {
        system!(self, system => system.send(outbox))
    }

    /// Hears the refusals that wait, if [`SocketConfig::refusals`]: at most a few hundred in one call. Returns how many.
    /// Whoever wants them must hear them in time: those that wait take room in the receive queue, and end each [`wait`].
    pub fn refusals(&self, hear: &mut dyn FnMut(Refusal<'_>)) -> io::Result<usize> {
        system!(self, system => system.refusals(hear))
    }

    /// Datagrams lost so far because the receive queue was full, as far as the datagrams received since have told.
    pub fn overflows(&self) -> u64 {
        system!(self, system => system.overflows())
    }
}

/// For an event loop that is not [`wait`].
#[cfg(unix)]
impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        system!(self, system => system.as_fd())
    }
}

/// For an event loop that is not [`wait`].
#[cfg(unix)]
impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Waits until one of at most [`MAX_WAIT_SOCKETS`] sockets has something to receive or a refusal to hear, or, if `writable`,
/// room to send; at most so long. It may return earlier.
pub fn wait(sockets: &[&Socket], writable: bool, timeout: Duration) -> io::Result<()> {
    if sockets.len() > MAX_WAIT_SOCKETS {
        let message = format!(
            "cannot wait for {} sockets at once, only for {MAX_WAIT_SOCKETS}",
            sockets.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    // Some clocks cannot count further than a life.
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
