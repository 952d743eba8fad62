//! Forwards datagrams that no protocol claims to the game server, and its replies back.
//!
//! ```text
//!   source ──► Relay::forward ──────────────────► the session's socket ──► game server
//!   source ◄── RateLimiter ◄── Relay::receive ◄── the session's socket ◄── game server
//! ```
//!
//! Each source address and port has a session with a separate socket, so that the game server can
//! distinguish players. Sources can be forged. A source is therefore *unverified* until it sends
//! bytes that it can know only from a reply to it: see `echo.rs`. A session is *established* when its
//! source has sent again after a reply, as forged sources can do too.
//!
//! | limit | value |
//! | --- | --- |
//! | replies to an unverified source | three times the bytes that it sent in the session, headers included, within the budget for unverified sources |
//! | replies to a verified source | the budget for verified sources |
//! | sessions of one relay | [`PoolConfig::relay_sessions`](crate::respond::PoolConfig::relay_sessions) |
//! | sessions of one network (/24 or /56) | 1/16 of that, but at least 64 |
//! | attempts of one network to verify by a short echo | 32 per second, with a burst of 128; beyond, only an echo of 8 bytes counts |
//! | silence of an established session | [`PoolConfig::relay_idle`](crate::respond::PoolConfig::relay_idle), or 10 s when another source needs its place |
//! | age of another session | 5 s, or 100 ms when another source needs its place |
//! | length of a datagram | 4,096 bytes |
//!
//! When the relay is full, a new source replaces the oldest unverified session. A flood of forged
//! sources would replace the sessions of players before they can verify themselves. But a random
//! forged source sends once, and a player retries. So a source that retries, even after its session
//! was refused or replaced, gets a session that new sources do not replace.
//!
//! [`PoolConfig::relay_verification`](crate::respond::PoolConfig::relay_verification) selects the ratio for
//! whole sessions, for games whose clients never echo, or no verification.
//!
//! May import: `crate::respond`, `crate::respond::engine`, `crate::respond::reason`, `hailer_udp`.

use crate::respond::Counts;
use crate::respond::engine::budget::RateLimiter;
use crate::respond::engine::sessions::{RelayLimits, Sessions};
use crate::respond::reason::{RELAY_FAILED, RELAY_FULL};
use hailer_udp::Outbox;
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Maximum length of a datagram in bytes. Longer ones travel in fragments, and no game sends them.
const MAX_DATAGRAM_BYTES: usize = 4_096;
/// Maximum number of datagrams of one session received in a row.
const MAX_RECEIVED: usize = 64;

/// Sessions with one game server.
pub(crate) struct Relay {
    server: SocketAddr,
    registry: Registry,
    sessions: Sessions<UdpSocket>,
    /// The token of a session is its slot plus 1, times `tokens.0`, plus `tokens.1`.
    tokens: (usize, usize),
    buffer: Vec<u8>,
}

impl Relay {
    /// Returns a relay without sessions.
    pub(crate) fn new(
        server: SocketAddr,
        limits: RelayLimits,
        registry: &Registry,
    ) -> io::Result<Self> {
        Ok(Self {
            server,
            registry: registry.try_clone()?,
            sessions: Sessions::new(limits),
            tokens: (1, 0),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        })
    }

    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Sets new limits. Sessions above them stay open until they are idle, and open sessions keep
    /// their kind of verification.
    pub(crate) fn set_limits(&mut self, limits: RelayLimits) {
        self.sessions.set_limits(limits);
    }

    /// Returns the number of open sessions.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Sets the tokens of the sessions' events to `number × step + offset`, with numbers from 1 on.
    pub(crate) fn set_tokens(&mut self, step: usize, offset: usize) {
        if self.tokens == (step, offset) {
            return;
        }
        self.tokens = (step, offset);
        for (slot, session) in self.sessions.iter_mut() {
            let token = Token((slot + 1) * step + offset);
            // On failure the session gets no more events, and expires.
            let _ = self
                .registry
                .reregister(&mut session.socket, token, Interest::READABLE);
        }
    }

    fn token(&self, slot: usize) -> Token {
        let (step, offset) = self.tokens;
        Token((slot + 1) * step + offset)
    }

    /// Forwards a datagram from `source` to the game server.
    pub(crate) fn forward(
        &mut self,
        source: SocketAddr,
        local: Option<IpAddr>,
        bytes: &[u8],
        now: Instant,
        counts: &mut Counts,
    ) {
        let found = self.sessions.find(source);
        let slot = match found {
            Some(slot) => slot,
            None => {
                let Some(has_retried) = self.sessions.make_room(source, now) else {
                    return counts.drop(RELAY_FULL.name);
                };
                let slot = self.sessions.next_slot();
                let Ok(socket) = self.open(slot) else {
                    return counts.drop(RELAY_FAILED.name);
                };
                self.sessions
                    .insert(source, local, socket, has_retried, now);
                slot
            }
        };
        self.sessions
            .record_request(slot, bytes, found.is_none(), now);
        let Some(session) = self.sessions.get_mut(slot) else {
            return;
        };
        match session.socket.send(bytes) {
            Ok(_) => counts.relayed += 1,
            // The game server's queue is full, or nothing listens on its port.
            Err(_) => counts.drop(RELAY_FAILED.name),
        }
    }

    /// Opens the socket of a session. When it is closed, the system removes it from the registry.
    fn open(&self, slot: usize) -> io::Result<UdpSocket> {
        let any: IpAddr = if self.server.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let mut socket = UdpSocket::bind((any, 0).into())?;
        socket.connect(self.server)?;
        self.registry
            .register(&mut socket, self.token(slot), Interest::READABLE)?;
        Ok(socket)
    }

    /// Receives what the game server sent in a session and passes it on within the budget.
    /// `number`: the session, counted from 1 as in [`Relay::set_tokens`]. `since` is `now` by the
    /// limiter's clock.
    pub(crate) fn receive(
        &mut self,
        number: usize,
        (now, since): (Instant, Duration),
        limiter: &mut RateLimiter,
        counts: &mut Counts,
        out: &mut Outbox,
    ) {
        let Some(slot) = number.checked_sub(1) else {
            return;
        };
        let token = self.token(slot);
        for _ in 0..MAX_RECEIVED {
            let Some(session) = self.sessions.get_mut(slot) else {
                return;
            };
            let (source, local) = (session.source, session.local);
            let length = match session.socket.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nothing listens on the game server's port at the moment.
                Err(_) => continue,
            };
            let reply = &self.buffer[..length];
            if let Err(reason) = self
                .sessions
                .charge_reply(slot, reply, (now, since), limiter)
            {
                counts.drop(reason);
                continue;
            }
            out.push(source, local, |out| out.extend_from_slice(reply));
            counts.relayed_back += 1;
        }
        // There may be more, and each event is reported only once, so request another.
        if let Some(session) = self.sessions.get_mut(slot) {
            let _ = self
                .registry
                .reregister(&mut session.socket, token, Interest::READABLE);
        }
    }

    /// Closes sessions that are idle or were never verified.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.sessions.expire(now);
    }
}
