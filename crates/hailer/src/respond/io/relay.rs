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
//! May import: `crate::door`, `crate::respond`, `crate::respond::engine`, `crate::respond::reason`, `hailer_udp`.

use crate::door::{Entrance, Visit};
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

/// Shortest time between reports of failures.
const FAILURE_INTERVAL: Duration = Duration::from_secs(1);

/// Sessions with one game server.
pub(crate) struct Relay {
    server: SocketAddr,
    registry: Registry,
    sessions: Sessions<Link>,
    /// Counts established sessions. Gets failures to reach the game server.
    entrance: Option<Entrance>,
    /// When the last failure was reported.
    failed_at: Option<Instant>,
    /// The token of a session is its slot plus 1, times `tokens.0`, plus `tokens.1`.
    tokens: (usize, usize),
    buffer: Vec<u8>,
}

/// Link of a session to the game server.
struct Link {
    socket: UdpSocket,
    /// Held by established sessions.
    visit: Option<Visit>,
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
            entrance: None,
            failed_at: None,
            tokens: (1, 0),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        })
    }

    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Sets the entrance that counts established sessions, and gets failures to reach the game
    /// server.
    pub(crate) fn set_entrance(&mut self, entrance: &Entrance) {
        if self.entrance.as_ref().map(Entrance::id) == Some(entrance.id()) {
            return;
        }
        for (_, session) in self.sessions.iter_mut() {
            let counted = session.socket.visit.take();
            session.socket.visit = counted.map(|_| entrance.visit());
        }
        self.entrance = Some(entrance.clone());
    }

    /// Returns whether a source has a session.
    pub(crate) fn has_session(&self, source: SocketAddr) -> bool {
        self.sessions.find(source).is_some()
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
                .reregister(&mut session.socket.socket, token, Interest::READABLE);
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
        if session.is_established() && session.socket.visit.is_none() {
            session.socket.visit = self.entrance.as_ref().map(Entrance::visit);
        }
        match session.socket.socket.send(bytes) {
            Ok(_) => counts.relayed += 1,
            // The game server's queue is full, or nothing listens on its port.
            Err(error) => {
                counts.drop(RELAY_FAILED.name);
                self.record_failure(&error, now);
            }
        }
    }

    /// Reports a failure to reach the game server, at most once per second.
    fn record_failure(&mut self, error: &io::Error, now: Instant) {
        let age = |at| now.saturating_duration_since(at);
        let is_due = self.failed_at.is_none_or(|at| age(at) >= FAILURE_INTERVAL);
        if error.kind() == io::ErrorKind::WouldBlock || !is_due {
            return;
        }
        self.failed_at = Some(now);
        if let Some(entrance) = &self.entrance {
            entrance.report_unreachable(self.server);
        }
    }

    /// Opens the socket of a session. When it is closed, the system removes it from the registry.
    fn open(&self, slot: usize) -> io::Result<Link> {
        let any: IpAddr = if self.server.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let mut socket = UdpSocket::bind((any, 0).into())?;
        socket.connect(self.server)?;
        self.registry
            .register(&mut socket, self.token(slot), Interest::READABLE)?;
        Ok(Link {
            socket,
            visit: None,
        })
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
            let length = match session.socket.socket.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nothing listens on the game server's port at the moment.
                Err(error) => {
                    self.record_failure(&error, now);
                    continue;
                }
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
                .reregister(&mut session.socket.socket, token, Interest::READABLE);
        }
    }

    /// Closes sessions that are idle or were never verified.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.sessions.expire(now);
    }
}
