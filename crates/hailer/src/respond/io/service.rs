//! Answers datagrams of one thread or socket, with the clock of the system.
//!
//! In: received datagrams, a board. Out: replies in an outbox, counts.
//!
//! May import: `crate::respond`, `crate::respond::board`, `crate::respond::engine`, `crate::respond::reason`,
//! `hailer_proto`, `hailer_udp`.

use crate::respond::board::Published;
use crate::respond::engine::reply::{DatagramVerdict, Moment, continue_reply, judge};
use crate::respond::{Board, Budget, Counts, MAX_REQUEST, RateLimiter, reason};
use hailer_proto::Epoch;
use hailer_udp::{Outbox, Received};
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};
use tokio::net::UdpSocket;

/// Answers datagrams from a board, within a budget. Use one per thread or socket.
pub struct Service {
    board: Board,
    limiter: RateLimiter,
    clock: EpochClock,
    /// Datagrams of the last reply.
    replies: Outbox,
    counts: Counts,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("board", &self.board)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// A datagram that no protocol claims, with the state that its handling needs.
pub(crate) struct UnclaimedDatagram<'a, 'b> {
    pub(crate) datagram: Received<'a>,
    pub(crate) moment: Moment,
    pub(crate) published: &'b Published,
    pub(crate) limiter: &'b mut RateLimiter,
    pub(crate) counts: &'b mut Counts,
    pub(crate) out: &'b mut Outbox,
}

/// Answers a batch, and reads the board and the clock once for it. Passes datagrams that no
/// protocol claims to `unclaimed`.
pub(crate) fn answer_batch<'a>(
    board: &Board,
    limiter: &mut RateLimiter,
    counts: &mut Counts,
    clock: &EpochClock,
    batch: impl Iterator<Item = Received<'a>>,
    out: &mut Outbox,
    mut unclaimed: impl FnMut(UnclaimedDatagram<'a, '_>),
) {
    let published = board.published();
    let moment = clock.moment(clock.since());
    for datagram in batch {
        match judge(&published, limiter, counts, moment, &datagram, out.draft()) {
            DatagramVerdict::Reply(responder) => {
                out.commit(datagram.from, datagram.to);
                if let Some(responder) = responder {
                    continue_reply(responder, limiter, counts, moment, &datagram, out);
                }
            }
            DatagramVerdict::Silence => {}
            DatagramVerdict::Unclaimed => unclaimed(UnclaimedDatagram {
                datagram,
                moment,
                published: &published,
                limiter,
                counts,
                out,
            }),
        }
    }
}

/// Clock of seconds since 1970, advanced by the monotonic clock. If the system clock is set back,
/// expired tokens stay expired; if it jumps ahead, tokens still expire.
#[derive(Clone, Copy)]
pub(crate) struct EpochClock {
    /// Start of the clock. Tests can stop this clock.
    started: tokio::time::Instant,
    started_at: u64,
}

impl EpochClock {
    pub(crate) fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            started: tokio::time::Instant::now(),
            started_at: since_1970.map_or(0, |since| since.as_secs()),
        }
    }

    pub(crate) fn since(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn moment(&self, since: Duration) -> Moment {
        Moment {
            epoch: Epoch::at(self.started_at + since.as_secs()),
            since,
            now: self.started.into_std() + since,
        }
    }
}

impl Service {
    /// Creates a service that answers from `board`.
    pub fn new(board: Board, budget: Budget) -> Self {
        Self {
            board,
            limiter: RateLimiter::new(budget, getrandom::u64().unwrap_or_default()),
            clock: EpochClock::start(),
            replies: Outbox::new(),
            counts: Counts::default(),
        }
    }

    /// Returns the datagrams of the reply to a datagram; none if it gets no reply.
    pub fn answer(&mut self, from: SocketAddr, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.answer_at(from, bytes, self.clock.since())
    }

    /// Answers like [`Service::answer`], at a time given by the caller, counted from the start of
    /// the service.
    pub fn answer_at(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        since: Duration,
    ) -> impl Iterator<Item = &[u8]> {
        let datagram = Received {
            from,
            to: None,
            waited: None,
            bytes,
        };
        self.replies.clear();
        let published = self.board.published();
        let moment = self.clock.moment(since);
        let limiter = &mut self.limiter;
        let counts = &mut self.counts;
        let draft = self.replies.draft();
        match judge(&published, limiter, counts, moment, &datagram, draft) {
            DatagramVerdict::Reply(responder) => {
                self.replies.commit(from, None);
                if let Some(responder) = responder {
                    let replies = &mut self.replies;
                    continue_reply(responder, limiter, counts, moment, &datagram, replies);
                }
            }
            DatagramVerdict::Silence => {}
            DatagramVerdict::Unclaimed => self.counts.drop(reason::NO_QUERY.name),
        }
        self.replies.pending().map(|(_, _, reply)| reply)
    }

    /// Answers a batch as a worker of a [`ResponderPool`](crate::respond::ResponderPool) does: appends the replies to the outbox.
    pub fn answer_batch<'a>(
        &mut self,
        batch: impl Iterator<Item = Received<'a>>,
        out: &mut Outbox,
    ) {
        answer_batch(
            &self.board,
            &mut self.limiter,
            &mut self.counts,
            &self.clock,
            batch,
            out,
            |unclaimed| unclaimed.counts.drop(reason::NO_QUERY.name),
        );
    }

    /// Returns the counters since the start.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Answers datagrams from a socket until the future is dropped. Errors of the socket do not end
    /// it.
    pub async fn run(&mut self, socket: &UdpSocket) {
        let mut buffer = [0; MAX_REQUEST];
        loop {
            match socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    for reply in self.answer(from, &buffer[..length]) {
                        // A reply that cannot be sent counts as lost; the client retries.
                        let _ = socket.send_to(reply, from).await;
                    }
                }
                // ICMP errors of single datagrams, and temporary resource shortages: pause, to
                // avoid a busy loop.
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::Status;
    use hailer_proto::minecraft_query;

    const HANDSHAKE: &[u8] = b"\xFE\xFD\x09\x01\x02\x03\x04";

    /// Returns whether a token is valid `since` seconds after the start.
    fn is_valid(service: &mut Service, token: &[u8], since: u64) -> bool {
        let number: i32 = std::str::from_utf8(&token[5..token.len() - 1])
            .unwrap()
            .parse()
            .unwrap();
        let request = [b"\xFE\xFD\x00\x01\x02\x03\x04", &number.to_be_bytes()[..]].concat();
        service
            .answer_at(
                "192.0.2.7:50000".parse().unwrap(),
                &request,
                Duration::from_secs(since),
            )
            .next()
            .is_some()
    }

    fn token(service: &mut Service, since: u64) -> Vec<u8> {
        let from = "192.0.2.7:50000".parse().unwrap();
        service
            .answer_at(from, HANDSHAKE, Duration::from_secs(since))
            .next()
            .unwrap()
            .to_vec()
    }

    #[test]
    fn tokens_expire_with_time_and_with_the_second_rotation() {
        let board = Board::new(&[&minecraft_query::PROTOCOL], &Status::default()).unwrap();
        let mut service = Service::new(board.clone(), Budget::default());
        let first = token(&mut service, 0);
        assert!(is_valid(&mut service, &first, 29));
        assert!(!is_valid(&mut service, &first, 60));

        let second = token(&mut service, 600);
        board.rotate([1; 16]).unwrap();
        assert!(is_valid(&mut service, &second, 600));
        board.publish(&Status::default()).unwrap();
        assert!(
            is_valid(&mut service, &second, 600),
            "a new status keeps the keys"
        );
        board.rotate([2; 16]).unwrap();
        assert!(!is_valid(&mut service, &second, 600));
    }
}
