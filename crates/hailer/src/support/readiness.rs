//! Readiness of batched datagram sockets in an event queue of `mio`.
//!
//! On Unix the queue watches the socket itself. Elsewhere `mio` watches only its own socket types, so it
//! gets a second handle, and each further event has to be requested once the socket has been read
//! empty. Tests on Unix select the second way, too.
//!
//! In: sockets. Out: registrations.
//!
//! May import: `hailer_udp`.

use hailer_udp::Socket;
use mio::{Interest, Registry, Token};
use std::io;

/// Whether a read that does not fill its buffer shows that a connection has no more bytes. Elsewhere
/// only a failed read requests the next event.
pub(crate) const IS_SHORT_READ_LAST: bool = cfg!(unix);

/// A datagram socket that an event queue watches for datagrams.
pub(crate) struct WatchedSocket {
    handle: Handle,
    token: Token,
    /// Whether an event is still to come, without another request.
    is_armed: bool,
}

enum Handle {
    #[cfg(unix)]
    Descriptor(std::os::fd::RawFd),
    Clone(mio::net::UdpSocket),
}

impl Handle {
    fn new(socket: &Socket, is_portable: bool) -> io::Result<Self> {
        #[cfg(unix)]
        if !is_portable {
            use std::os::fd::AsRawFd;
            return Ok(Self::Descriptor(socket.as_raw_fd()));
        }
        let _ = is_portable;
        socket
            .try_clone()
            .map(mio::net::UdpSocket::from_std)
            .map(Self::Clone)
    }
}

impl WatchedSocket {
    /// Registers a socket. `is_portable`: as systems other than Unix do it.
    ///
    /// # Errors
    /// The system refuses a handle or the registration.
    pub(crate) fn register(
        socket: &Socket,
        is_portable: bool,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        let mut handle = Handle::new(socket, is_portable)?;
        let interest = Interest::READABLE;
        match &mut handle {
            #[cfg(unix)]
            Handle::Descriptor(descriptor) => {
                registry.register(&mut mio::unix::SourceFd(descriptor), token, interest)?;
            }
            Handle::Clone(socket) => registry.register(socket, token, interest)?,
        }
        Ok(Self {
            handle,
            token,
            is_armed: true,
        })
    }

    /// Changes the token of further events.
    ///
    /// # Errors
    /// The system refuses. Then there are no further events.
    pub(crate) fn set_token(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.token = token;
        let interest = Interest::READABLE;
        let result = match &mut self.handle {
            #[cfg(unix)]
            Handle::Descriptor(descriptor) => {
                registry.reregister(&mut mio::unix::SourceFd(descriptor), token, interest)
            }
            Handle::Clone(socket) => registry.reregister(socket, token, interest),
        };
        self.is_armed = result.is_ok();
        result
    }

    /// Returns whether the next datagram causes an event. If not, read the socket at times.
    #[cfg(feature = "respond")]
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// Records an event. The next one follows after [`request_event`](Self::request_event).
    pub(crate) fn record_event(&mut self) {
        #[cfg(unix)]
        if matches!(self.handle, Handle::Descriptor(_)) {
            return;
        }
        self.is_armed = false;
    }

    /// Requests an event for the next datagram, or for one that waits already.
    pub(crate) fn request_event(&mut self, registry: &Registry) {
        if !self.is_armed {
            // On failure, the socket is not armed.
            let _ = self.set_token(registry, self.token);
        }
    }

    /// Ends the registration.
    #[cfg(feature = "respond")]
    pub(crate) fn deregister(mut self, registry: &Registry) {
        let _ = match &mut self.handle {
            #[cfg(unix)]
            Handle::Descriptor(descriptor) => {
                registry.deregister(&mut mio::unix::SourceFd(descriptor))
            }
            Handle::Clone(socket) => registry.deregister(socket),
        };
    }
}
