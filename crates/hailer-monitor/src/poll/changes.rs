//! Which changes of a server are reported: those of version, map, MOTD, address and protocol, within a
//! limit.

use crate::sample::{EventKind, Millis, ValueChange};
use crate::state::LastStatus;
use compact_str::CompactString;

/// Changes of version, map and MOTD that are reported in a burst, per server. Another one is
/// allowed every 15 minutes, because some servers change their MOTD with each reply.
const CHANGE_BURST: f32 = 6.0;
const CHANGE_REFILL_MS: f32 = 15.0 * 60_000.0;
/// Answers in a row in another protocol after which the change is reported.
const ANSWERS_UNTIL_CHANGE: u8 = 3;

/// Limit for reports of changes of version, map, MOTD or address of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChangeLimit {
    /// Recent changes that count against the limit.
    pub recent: f32,
    /// When `recent` was last updated, in Unix milliseconds.
    pub at: Millis,
}

impl ChangeLimit {
    /// Returns the limit without a time in the future, until which it would not refill.
    pub(super) fn not_after(mut self, now: Millis) -> Self {
        self.at = self.at.min(now);
        self
    }

    /// Returns whether another change may be reported now, and counts it.
    pub(super) fn take(&mut self, at: Millis) -> bool {
        let refilled = (at - self.at).max(0) as f32 / CHANGE_REFILL_MS;
        let changes = (self.recent - refilled).max(0.0);
        if changes > CHANGE_BURST - 1.0 {
            return false;
        }
        self.recent = changes + 1.0;
        self.at = at;
        true
    }
}

/// Protocol in which a server answers. A game is polled in several, and one of them can fail now and
/// then, so another one is a change only after some answers in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpokenProtocol {
    pub(super) known: Option<&'static str>,
    /// Answers in a row in another one.
    pub(super) others: u8,
}

impl SpokenProtocol {
    /// Records the protocol of an answer. Returns a change.
    pub(super) fn record(&mut self, protocol: Option<&'static str>) -> Option<ValueChange> {
        let (Some(known), Some(new)) = (self.known, protocol) else {
            self.known = self.known.or(protocol);
            return None;
        };
        if known == new {
            self.others = 0;
            return None;
        }
        self.others += 1;
        if self.others < ANSWERS_UNTIL_CHANGE {
            return None;
        }
        (self.known, self.others) = (Some(new), 0);
        Some(ValueChange {
            from: Some(known.into()),
            to: Some(new.into()),
        })
    }
}

/// Returns the changes from one status to the next. A value that a reply leaves out is no change:
/// short replies omit some. Answers in different protocols describe a server in different words, so
/// they are not compared.
pub(super) fn differences(before: &LastStatus, now: &LastStatus) -> Vec<EventKind> {
    if let (Some(old), Some(new)) = (before.protocol, now.protocol)
        && old != new
    {
        return Vec::new();
    }
    let differ = |from: &Option<CompactString>, to: &Option<CompactString>| {
        let is_other = to.is_some() && from.is_some() && from != to;
        let text = |text: &Option<CompactString>| text.as_deref().map(str::to_owned);
        is_other.then(|| ValueChange {
            from: text(from),
            to: text(to),
        })
    };
    let plain = |new_status: &LastStatus| new_status.motd.as_ref().map(|motd| motd.plain().into());
    let address =
        |new_status: &LastStatus| new_status.address.map(|address| address.to_string().into());
    let all = [
        differ(&before.version, &now.version).map(EventKind::Version),
        differ(&before.map, &now.map).map(EventKind::Map),
        differ(&plain(before), &plain(now)).map(EventKind::Motd),
        differ(&address(before), &address(now)).map(EventKind::Address),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_protocol_is_a_change_after_three_answers() {
        let mut spoken = SpokenProtocol::default();
        let mut record = |protocol| {
            let change = spoken.record(Some(protocol))?;
            Some((change.from?, change.to?))
        };
        let (query, status) = ("minecraft-query", "minecraft-status");
        for protocol in [query, status, status, query, status, status] {
            assert_eq!(record(protocol), None, "one of them fails now and then");
        }
        assert_eq!(record(status), Some((query.into(), status.into())));
        assert_eq!(record(status), None);
        assert_eq!(spoken.record(None), None);
    }
}
