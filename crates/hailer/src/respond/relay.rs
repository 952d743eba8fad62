//! What no protocol claims goes to the game server behind, and its answers come back.
//!
//! Each asker has a session with a socket of its own, so that the server can tell them apart. Sessions are few and short of
//! life: an open socket each. Past the bound new askers are dropped, since those who play must not make room for a flood.

use super::Counts;
use super::reason::{RELAY_FAILED, RELAY_FULL};
use hailer_udp::Outbox;
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The longest datagram: more than any game sends, since it would travel in fragments.
const LONGEST: usize = 4_096;
/// Datagrams of one session taken in a row.
const MAX_HEARD: usize = 64;
/// A session of which nothing came back is closed after so long at most: a forged sender's never answers.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Sessions with one game server.
pub(super) struct Relay {
    server: SocketAddr,
    most: usize,
    idle: Duration,
    registry: Registry,
    /// By asker: the place of the session.
    places: HashMap<SocketAddr, usize, BuildHasherDefault<SipHasher13>>,
    sessions: Vec<Option<Session>>,
    free: Vec<usize>,
    /// A session's token is its place times this plus that.
    tokens: (usize, usize),
    buffer: Vec<u8>,
}

struct Session {
    asker: SocketAddr,
    /// The address that was asked, if there are several.
    asked: Option<IpAddr>,
    socket: UdpSocket,
    moved: Instant,
    is_answered: bool,
}

impl Relay {
    /// No session yet.
    pub(super) fn new(
        server: SocketAddr,
        most: usize,
        idle: Duration,
        registry: &Registry,
    ) -> io::Result<Self> {
        Ok(Self {
            server,
            most,
            idle,
            registry: registry.try_clone()?,
            places: HashMap::default(),
            sessions: Vec::new(),
            free: Vec::new(),
            tokens: (1, 0),
            buffer: vec![0; LONGEST],
        })
    }

    pub(super) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Other bounds from now on. Sessions past them end when they are idle.
    pub(super) fn set_bounds(&mut self, most: usize, idle: Duration) {
        (self.most, self.idle) = (most, idle);
    }

    /// How many sessions are open.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Sessions announce themselves by `place × step + offset`, places from 1 on.
    pub(super) fn set_tokens(&mut self, step: usize, offset: usize) {
        if self.tokens == (step, offset) {
            return;
        }
        self.tokens = (step, offset);
        for (place, session) in self.sessions.iter_mut().enumerate() {
            if let Some(session) = session {
                let token = Token((place + 1) * step + offset);
                // One that cannot be watched any more is idle, and ends.
                let _ = self
                    .registry
                    .reregister(&mut session.socket, token, Interest::READABLE);
            }
        }
    }

    /// Passes a datagram on to the server.
    pub(super) fn pass(
        &mut self,
        asker: SocketAddr,
        asked: Option<IpAddr>,
        bytes: &[u8],
        now: Instant,
        counts: &mut Counts,
    ) {
        let place = match self.places.get(&asker) {
            Some(place) => *place,
            None if self.places.len() >= self.most => return counts.drop(RELAY_FULL.name),
            None => match self.open(asker, asked, now) {
                Ok(place) => place,
                Err(_) => return counts.drop(RELAY_FAILED.name),
            },
        };
        let Some(session) = self.sessions.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        // A session that nobody answers does not live on what a forged sender sends.
        if session.is_answered {
            session.moved = now;
        }
        match session.socket.send(bytes) {
            Ok(_) => counts.relayed += 1,
            // The server's queue is full, or it is not there: so it is for a datagram.
            Err(_) => counts.drop(RELAY_FAILED.name),
        }
    }

    fn open(
        &mut self,
        asker: SocketAddr,
        asked: Option<IpAddr>,
        now: Instant,
    ) -> io::Result<usize> {
        let any: IpAddr = if self.server.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let mut socket = UdpSocket::bind((any, 0).into())?;
        socket.connect(self.server)?;
        let place = self.free.pop().unwrap_or(self.sessions.len());
        let (step, offset) = self.tokens;
        self.registry.register(
            &mut socket,
            Token((place + 1) * step + offset),
            Interest::READABLE,
        )?;
        let session = Some(Session {
            asker,
            asked,
            socket,
            moved: now,
            is_answered: false,
        });
        match self.sessions.get_mut(place) {
            Some(empty) => *empty = session,
            None => self.sessions.push(session),
        }
        self.places.insert(asker, place);
        Ok(place)
    }

    /// What the server says in a session goes back to the asker. `token`: which session, from 1 on.
    pub(super) fn hear(
        &mut self,
        token: usize,
        now: Instant,
        counts: &mut Counts,
        out: &mut Outbox,
    ) {
        let session = token
            .checked_sub(1)
            .and_then(|place| self.sessions.get_mut(place)?.as_mut());
        let Some(session) = session else { return };
        for _ in 0..MAX_HEARD {
            match session.socket.recv(&mut self.buffer) {
                Ok(length) => {
                    (session.moved, session.is_answered) = (now, true);
                    out.push(session.asker, session.asked, |out| {
                        out.extend_from_slice(&self.buffer[..length]);
                    });
                    counts.relayed_back += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The server is not there at this moment.
                Err(_) => {}
            }
        }
        // There may be more, of which nothing is said again until it is asked for.
        let (step, offset) = self.tokens;
        let _ = self.registry.reregister(
            &mut session.socket,
            Token(token * step + offset),
            Interest::READABLE,
        );
    }

    /// Closes what is idle.
    pub(super) fn expire(&mut self, now: Instant) {
        let Self {
            sessions,
            places,
            free,
            registry,
            idle,
            ..
        } = self;
        for (place, slot) in sessions.iter_mut().enumerate() {
            let is_over = |session: &Session| {
                let limit = if session.is_answered {
                    *idle
                } else {
                    UNANSWERED.min(*idle)
                };
                now.saturating_duration_since(session.moved) >= limit
            };
            if let Some(mut session) = slot.take_if(|session| is_over(session)) {
                let _ = registry.deregister(&mut session.socket);
                places.remove(&session.asker);
                free.push(place);
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for session in self.sessions.iter_mut().flatten() {
            let _ = self.registry.deregister(&mut session.socket);
        }
    }
}
