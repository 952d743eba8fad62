//! Decides on a received datagram: which responder replies, and whether the budget allows it.

use super::budget::{RateLimiter, Trust};
use crate::respond::board::Published;
use crate::respond::{Counts, MAX_REPLY_DATAGRAMS, reason};
use hailer_proto::{Epoch, Responder, Verdict};
use hailer_udp::{Outbox, Received};
use std::time::{Duration, Instant};

/// Decision on a datagram.
pub(crate) enum DatagramVerdict<'a> {
    /// Send the reply, which was appended. With a responder, the reply may have more datagrams. The
    /// flag is true if the request is verified.
    Reply(Option<(&'a dyn Responder, bool)>),
    /// Send nothing; the reason is counted.
    Silence,
    /// No protocol of the board claims it. The caller counts it.
    Unclaimed,
}

/// Time of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) epoch: Epoch,
    /// Time since the start of the clock, for the rate limiter.
    pub(crate) since: Duration,
    pub(crate) now: Instant,
}

/// Appends the further datagrams of a reply, as far as the budget allows.
pub(crate) fn continue_reply(
    (responder, is_verified): (&dyn Responder, bool),
    limiter: &mut RateLimiter,
    counts: &mut Counts,
    moment: Moment,
    datagram: &Received<'_>,
    out: &mut Outbox,
) {
    for index in 1..MAX_REPLY_DATAGRAMS {
        let draft = out.draft();
        let start = draft.len();
        if !responder.continuation(datagram.bytes, is_verified, index, draft) {
            break;
        }
        let length = draft.len() - start;
        let to = datagram.from.ip();
        // Only the first datagram may be exempt from the budget for all unverified sources.
        let trust = Trust::of(is_verified);
        if !limiter.charge::<false>(to, 0, length, trust, moment.since) {
            counts.drop(reason::BUDGET.name);
            break;
        }
        counts.bytes_out += length as u64;
        out.commit(datagram.from, datagram.to);
    }
}

/// Tries each responder of a board in turn, and charges the reply to the budget. A reply that is
/// over the budget is replaced by the protocol's short reply, if it has one.
pub(crate) fn judge<'p>(
    published: &'p Published,
    limiter: &mut RateLimiter,
    counts: &mut Counts,
    moment: Moment,
    datagram: &Received<'_>,
    out: &mut Vec<u8>,
) -> DatagramVerdict<'p> {
    let from = datagram.from;
    let bytes = datagram.bytes;
    let since = moment.since;
    counts.received += 1;
    counts.bytes_in += bytes.len() as u64;
    let start = out.len();
    let mut claimed = None;
    for (index, (id, responder)) in published.responders.iter().enumerate() {
        let verdict = responder.answer(from, moment.epoch, bytes, out);
        debug_assert!((out.len() == start) == !matches!(verdict, Verdict::Reply { .. }));
        if verdict != Verdict::Pass {
            claimed = Some((index, *id, responder, verdict));
            break;
        }
    }
    let Some((index, id, responder, verdict)) = claimed else {
        limiter.record_unanswered(from.ip(), bytes.len(), since);
        return DatagramVerdict::Unclaimed;
    };
    let of = counts.of_protocol(index, id);
    of.requests += 1;
    let reason = match verdict {
        Verdict::Reply { is_verified } if !published.is_silent => {
            let length = out.len() - start;
            let mut is_paid = limiter.try_spend(from.ip(), bytes.len(), length, is_verified, since);
            let is_whole = is_paid;
            if !is_paid && !is_verified {
                out.truncate(start);
                if responder.short_reply(bytes, out) {
                    let length = out.len() - start;
                    let trust = Trust::Unverified;
                    is_paid = limiter.charge::<false>(from.ip(), bytes.len(), length, trust, since);
                }
            }
            if is_paid {
                if is_verified {
                    of.answered += 1;
                    counts.answered += 1;
                } else {
                    of.unverified += 1;
                    counts.unverified += 1;
                }
                counts.bytes_out += (out.len() - start) as u64;
                let more = is_whole.then_some((&**responder, is_verified));
                return DatagramVerdict::Reply(more);
            }
            reason::BUDGET.name
        }
        unanswered => {
            limiter.record_unanswered(from.ip(), bytes.len(), since);
            if let Verdict::Drop(reason) = unanswered {
                reason
            } else {
                reason::STALE.name
            }
        }
    };
    out.truncate(start);
    counts.drop(reason);
    DatagramVerdict::Silence
}
