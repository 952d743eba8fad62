//! Reasons for dropping a datagram, or closing a connection without a reply.

/// A reason for dropping a datagram or closing a connection, a key of [`Counts::dropped`](super::Counts::dropped).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// Key of the counter: words separated by spaces.
    pub name: &'static str,
    /// Description that completes a sentence after the number of datagrams or connections.
    pub words: &'static str,
}

pub(super) const ASLEEP: Reason = reason("asleep", "for a game that does not run");
pub(super) const BUDGET: Reason = reason("budget", "over the limit for replies");
pub(super) const EVICTED: Reason = reason("evicted", "closed for newer connections");
pub(super) const MALFORMED: Reason = reason("malformed", "malformed");
pub(super) const NO_QUERY: Reason = reason("no query", "in no protocol served here");
pub(super) const OVERSIZED: Reason = reason("oversized", "longer than a request");
pub(super) const RELAY_BUDGET: Reason = reason(
    "relay budget",
    "from the game server, over the limit for replies",
);
pub(super) const RELAY_RATIO: Reason = reason(
    "relay ratio",
    "from the game server, more than three times what the unverified source sent",
);
pub(super) const RELAY_FULL: Reason = reason(
    "relay full",
    "for the game server, with no room for another session",
);
pub(super) const RELAY_FAILED: Reason = reason(
    "relay failed",
    "that could not be forwarded to the game server",
);
pub(super) const SLOW: Reason = reason("slow", "too slow");
pub(super) const STALE: Reason = reason("stale", "while no current status was known");
pub(super) const UNFINISHED: Reason = reason("unfinished", "without a complete request");

/// All reasons of the library and its protocols. Protocols of other crates may have more.
///
/// `unsent` is counted in [`Counts::unsent`](super::Counts::unsent), in addition to the reply.
pub const REASONS: &[Reason] = &[
    ASLEEP,
    BUDGET,
    reason("console", "with a command for the console"),
    reason("empty", "without a request"),
    EVICTED,
    reason("full", "for free slots on a full server"),
    MALFORMED,
    NO_QUERY,
    OVERSIZED,
    reason("no list", "for a list that the status does not have"),
    reason("no players", "for players of an empty server"),
    reason("ping", "in an obsolete form of ping"),
    reason("ping of another address", "in pings with another address"),
    reason("players are hidden", "for players, which are hidden"),
    RELAY_BUDGET,
    RELAY_RATIO,
    RELAY_FULL,
    RELAY_FAILED,
    SLOW,
    STALE,
    reason("token", "with a wrong or old challenge token"),
    reason(
        "too many players",
        "for a list that is too long for its form",
    ),
    reason("too short", "shorter than the protocol requires"),
    UNFINISHED,
    reason("unsupported", "for something unsupported"),
    reason("unsent", "that the system did not send"),
    reason("v1 is off", "in version 1, which is off"),
];

const fn reason(name: &'static str, words: &'static str) -> Reason {
    Reason { name, words }
}

impl Reason {
    /// Returns the reason with this name or [key](Self::key).
    pub fn find(name: &str) -> Option<&'static Self> {
        REASONS
            .iter()
            .find(|reason| reason.name.split(' ').eq(name.split([' ', '-'])))
    }

    /// Returns the name with hyphens, for programs.
    pub fn key(&self) -> String {
        self.name.replace(' ', "-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn lists_every_reason_of_the_protocols() {
        let mut folders = vec![PathBuf::from(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../hailer-proto/src/protocols"
        ))];
        let mut seen = 0;
        while let Some(path) = folders.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(path).unwrap();
                folders.extend(entries.map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            for rest in text.split("Verdict::Drop(\"").skip(1) {
                let name = rest.split('"').next().unwrap();
                assert_eq!(Reason::find(name).map(|reason| reason.name), Some(name));
                seen += 1;
            }
        }
        assert!(seen > 5);
        for reason in REASONS {
            assert_eq!(
                (Reason::find(reason.name), Reason::find(&reason.key())),
                (Some(reason), Some(reason))
            );
        }
        assert_eq!(Reason::find("what?"), None);
    }
}
