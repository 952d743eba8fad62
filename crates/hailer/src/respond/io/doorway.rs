//! Handles datagrams that no protocol claims: passes them on to the game while it runs, and looks
//! for joins while it does not.
//!
//! ```text
//!   running    unclaimed ─► Relay ─► game
//!   stopping   unclaimed ─► Relay, for clients that it knows; joins of others
//!   starting   unclaimed ─► dropped; clients repeat what they sent until the game replies
//!   otherwise  unclaimed ─► JoinDetector ─► challenge ─► client
//!                                       └─► Entrance::enter
//! ```
//!
//! May import: `crate::door`, `crate::respond`, `crate::respond::engine`,
//! `crate::respond::io::relay`, `crate::respond::io::service`, `crate::respond::reason`,
//! `hailer_proto`.

use super::relay::Relay;
use super::service::UnclaimedDatagram;
use crate::door::{Entrance, Entry, State};
use crate::respond::Board;
use crate::respond::engine::budget::Trust;
use crate::respond::engine::sessions::RelayLimits;
use crate::respond::engine::traffic::TrafficTable;
use crate::respond::reason::{ASLEEP, BUDGET, NO_QUERY, RELAY_FAILED};
use hailer_proto::joins::{JoinDetector, JoinVerdict};
use hailer_proto::protocol::JoinAttempt;
use mio::Registry;
use std::net::SocketAddr;
use std::sync::Arc;

/// Way of datagrams to the game of one listener, on one worker.
#[derive(Default)]
pub(crate) struct Doorway {
    /// Sessions with the game. `None` while it does not run.
    relay: Option<Relay>,
    /// Whether new clients are passed on.
    is_open: bool,
    /// Whether there is a game at all, running or not.
    has_game: bool,
    door: Option<Arc<Entrance>>,
    /// Allocated with the first datagram.
    traffic: TrafficTable,
}

impl Doorway {
    /// Follows the state of the door and the address of the game. `relay`: the way to the game by
    /// configuration, if there is a separate one. `tokens`: as in [`Relay::set_tokens`].
    pub(crate) fn follow(
        &mut self,
        board: &Board,
        relay: Option<&Entrance>,
        limits: RelayLimits,
        registry: &Registry,
        tokens: (usize, usize),
    ) {
        let door = board.entrance();
        let Some(way) = door.as_deref().or(relay) else {
            if self.has_game {
                *self = Self::default();
            }
            return;
        };
        let is_same = self.door.as_deref().map(Entrance::id) == door.as_deref().map(Entrance::id);
        if !is_same {
            self.door.clone_from(&door);
        }
        self.has_game = true;
        let view = way.view();
        self.is_open = view.state == State::Running;
        let has_sessions = matches!(view.state, State::Running | State::Stopping);
        let game = match relay {
            Some(relay) => relay.view().game,
            None => view.game,
        };
        let game = game.filter(|_| has_sessions);
        if self.relay.as_ref().map(Relay::server) != game {
            // Clients of another address or an earlier start have no session with this game.
            let make = |game| Relay::new(game, limits, registry).ok();
            self.relay = game.and_then(make);
        }
        if let Some(relay) = &mut self.relay {
            relay.set_entrance(way);
            relay.set_tokens(tokens.0, tokens.1);
        }
    }

    pub(crate) fn relay_mut(&mut self) -> Option<&mut Relay> {
        self.relay.as_mut()
    }

    /// Handles a datagram that no protocol claims.
    pub(crate) fn receive(&mut self, board: &Board, unclaimed: UnclaimedDatagram<'_, '_>) {
        let from = unclaimed.datagram.from;
        if let Some(relay) = &mut self.relay
            && (self.is_open || relay.has_session(from))
        {
            let UnclaimedDatagram {
                datagram,
                moment,
                counts,
                ..
            } = unclaimed;
            return relay.forward(from, datagram.to, datagram.bytes, moment.now, counts);
        }
        let Some(door) = self.door.clone() else {
            let reason = if self.has_game {
                RELAY_FAILED
            } else {
                NO_QUERY
            };
            return unclaimed.counts.drop(reason.name);
        };
        // A client that gets a challenge may not be able to continue with the game, so that it would
        // miss the start that it waits for.
        if matches!(door.view().state, State::Starting | State::Running) {
            return unclaimed.counts.drop(ASLEEP.name);
        }
        self.detect(board, &door, unclaimed);
    }

    fn detect(&mut self, board: &Board, door: &Entrance, unclaimed: UnclaimedDatagram<'_, '_>) {
        let UnclaimedDatagram {
            datagram,
            moment,
            published,
            limiter,
            counts,
            out,
        } = unclaimed;
        let (from, bytes) = (datagram.from, datagram.bytes);
        for detector in &published.joins {
            let draft = out.draft();
            let start = draft.len();
            let verdict = detector.detect(from, moment.epoch, bytes, draft);
            let length = draft.len() - start;
            match verdict {
                JoinVerdict::Pass => {}
                JoinVerdict::Drop(reason) => return counts.drop(reason),
                JoinVerdict::Challenge => {
                    let (trust, since) = (Trust::Unverified, moment.since);
                    if !limiter.charge::<false>(from.ip(), bytes.len(), length, trust, since) {
                        return counts.drop(BUDGET.name);
                    }
                    counts.unverified += 1;
                    counts.bytes_out += length as u64;
                    out.commit(from, datagram.to);
                    return;
                }
                JoinVerdict::Join(attempt) => {
                    counts.join_attempts += 1;
                    board.report_join(from, &attempt);
                    let may_wait = door.enter(from, &attempt) != Entry::Refused;
                    let length = dismiss(&**detector, board, bytes, may_wait, out.draft());
                    let (trust, since) = (Trust::Verified, moment.since);
                    if length > 0
                        && limiter.charge::<false>(from.ip(), bytes.len(), length, trust, since)
                    {
                        counts.bytes_out += length as u64;
                        out.commit(from, datagram.to);
                    }
                    return;
                }
            }
        }
        if door.wakes_on_traffic() && self.traffic.record(from, moment.now) {
            counts.join_attempts += 1;
            enter_by_traffic(board, door, from);
        }
        counts.drop(ASLEEP.name);
    }
}

fn enter_by_traffic(board: &Board, door: &Entrance, from: SocketAddr) {
    let attempt = JoinAttempt::default();
    board.report_join(from, &attempt);
    door.enter(from, &attempt);
}

/// Appends the bytes that end the attempt of a client, with the text of the board. Returns their
/// length.
fn dismiss(
    detector: &dyn JoinDetector,
    board: &Board,
    join: &[u8],
    may_wait: bool,
    out: &mut Vec<u8>,
) -> usize {
    let start = out.len();
    let text = board.motd();
    detector.dismiss(join, text.as_deref().unwrap_or_default(), may_wait, out);
    out.len() - start
}
