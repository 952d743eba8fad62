//! Each player behind a relay is an open file, and so is all else: whoever can use up the one could stop the other.

use super::serve::listeners;
use crate::config::Plan;
use hailer::respond::PoolConfig;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open beside: listeners, sources, those who look, and what libraries need.
const OTHERS: u64 = 256;

/// Makes room for as many sessions as there may be. Returns what is missing, in words.
pub(super) fn make_room(plans: &[Plan], settings: &PoolConfig) -> Option<String> {
    let relays = listeners(plans)
        .filter(|(plan, _)| plan.relay.is_some())
        .count();
    if relays == 0 {
        return None;
    }
    let (threads, sessions) = (settings.threads(), settings.relay_sessions);
    let needed =
        (relays * threads * sessions) as u64 + (listeners(plans).count() * threads) as u64 + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    let may = |most: Option<u64>| most.unwrap_or(u64::MAX);
    if may(limit.current) >= needed {
        return None;
    }
    let current = needed.min(may(limit.maximum));
    // What cannot be raised is told below.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(current),
            maximum: limit.maximum,
        },
    );
    let got = may(getrlimit(Resource::Nofile).current);
    (got < needed).then(|| {
        format!(
            "{relays} × {threads} × {sessions} sessions of relays need {needed} open files, and the system allows {got}; \
             raise LimitNOFILE= or lower relay.sessions in [engine]"
        )
    })
}
