//! Why a datagram is left unanswered: the one list of it, for whoever counts, shows or explains.

/// A reason for silence, a key of [`Counts::dropped`](super::Counts::dropped).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// As it is counted: words with spaces between.
    pub name: &'static str,
    /// For people, after a number of datagrams.
    pub words: &'static str,
}

pub(super) const BUDGET: Reason = reason("budget", "over the limit for replies");
pub(super) const NO_QUERY: Reason = reason("no query", "in no protocol served here");
pub(super) const RELAY_BUDGET: Reason = reason(
    "relay budget",
    "from the game server, over the limit for replies",
);
pub(super) const RELAY_FULL: Reason = reason(
    "relay full",
    "for the game server, with no room for another session",
);
pub(super) const RELAY_FAILED: Reason = reason(
    "relay failed",
    "that the game server's machine would not take",
);
pub(super) const STALE: Reason = reason("stale", "while silent, since the truth is too old");

/// Every reason that the library and its protocols give. A protocol of somebody else may give others.
///
/// `unsent` is counted as [`Counts::unsent`](super::Counts::unsent): of such a datagram the reply was counted too.
pub const REASONS: &[Reason] = &[
    BUDGET,
    reason("malformed", "malformed"),
    NO_QUERY,
    reason("oversized", "longer than a request"),
    RELAY_BUDGET,
    RELAY_FULL,
    RELAY_FAILED,
    STALE,
    reason("token", "with a wrong or old challenge token"),
    reason("unsent", "that the system would not send"),
    reason("v1 is off", "in version 1, which is off"),
];

const fn reason(name: &'static str, words: &'static str) -> Reason {
    Reason { name, words }
}

impl Reason {
    /// The reason that is counted by this name, or by its [key](Self::key).
    pub fn find(name: &str) -> Option<&'static Self> {
        REASONS
            .iter()
            .find(|reason| reason.name.split(' ').eq(name.split([' ', '-'])))
    }

    /// The name for programs: with hyphens.
    pub fn key(&self) -> String {
        self.name.replace(' ', "-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_that_a_protocol_gives_is_listed() {
        let protocols =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../hailer-proto/src")).unwrap();
        let mut seen = 0;
        for folder in protocols {
            let Ok(text) = std::fs::read_to_string(folder.unwrap().path().join("server.rs")) else {
                continue;
            };
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
