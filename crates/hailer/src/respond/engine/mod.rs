//! Decisions of responders without sockets: replies, budgets, sessions of relays, joins by traffic. All of it takes the
//! time as an argument.
//!
//! In: datagrams, the time, configured limits. Out: replies, verdicts, counts.
//!
//! May import: `crate::prefix`, `crate::respond`, `crate::respond::board`,
//! `crate::respond::reason`, `hailer_proto`, `hailer_udp`.

mod bucket;
pub(super) mod budget;
mod echo;
pub(super) mod reply;
pub(super) mod sessions;
pub(super) mod traffic;

pub use budget::{
    Budget, FREE_RATIO, HEADER_BYTES, RateLimiter, RemainingBudget, TopTalker, is_free,
};
pub use sessions::RelayVerification;
