//! Datagrams to send.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Datagrams to send, in order, each to an address of its own. Its memory is kept from one batch to the next.
#[derive(Debug, Default)]
pub struct Outbox {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// So many of the entries are sent or dropped.
    done: usize,
    unsent: Vec<Unsent>,
}

#[derive(Clone, Debug)]
struct Entry {
    to: SocketAddr,
    from: Option<IpAddr>,
    bytes: Range<usize>,
}

/// A datagram that the system refused to send.
#[derive(Debug)]
pub struct Unsent {
    /// Where it should have gone.
    pub to: SocketAddr,
    /// Why it did not.
    pub error: io::Error,
}

/// A datagram that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending<'a> {
    pub(crate) to: SocketAddr,
    pub(crate) from: Option<IpAddr>,
    pub(crate) bytes: &'a [u8],
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a datagram. `from`: which address of this machine to send from, where the system can choose; `None`: it does.
    /// `write` appends the payload. Returns what `write` returns.
    pub fn push<T>(&mut self, to: SocketAddr, from: Option<IpAddr>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let start = self.arena.len();
        let written = write(&mut self.arena);
        self.entries.push(Entry { to, from, bytes: start..self.arena.len() });
        written
    }

    /// The buffer behind the last datagram, for whoever does not yet know whether there is something to send:
    /// [`Outbox::commit`] makes a datagram of what was appended.
    pub fn draft(&mut self) -> &mut Vec<u8> {
        self.arena.truncate(self.end());
        &mut self.arena
    }

    /// Adds what was appended to the [draft](Outbox::draft) as a datagram. Returns its length.
    pub fn commit(&mut self, to: SocketAddr, from: Option<IpAddr>) -> usize {
        let start = self.end();
        self.entries.push(Entry { to, from, bytes: start..self.arena.len() });
        self.arena.len() - start
    }

    fn end(&self) -> usize {
        self.entries.last().map_or(0, |last| last.bytes.end)
    }

    /// How many wait to be sent.
    pub fn len(&self) -> usize {
        self.entries.len() - self.done
    }

    /// Whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What waits: where it goes, where it should come from, its payload.
    pub fn pending(&self) -> impl Iterator<Item = (SocketAddr, Option<IpAddr>, &[u8])> {
        self.waiting().map(|pending| (pending.to, pending.from, pending.bytes))
    }

    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = Pending<'_>> {
        let pending = |entry: &Entry| Pending { to: entry.to, from: entry.from, bytes: &[] };
        self.entries[self.done..]
            .iter()
            .map(move |entry| Pending { bytes: &self.arena[entry.bytes.clone()], ..pending(entry) })
    }

    /// Forgets the first few that wait: they are sent.
    pub fn sent(&mut self, count: usize) {
        self.done += count;
        if self.done >= self.entries.len() {
            self.clear();
        }
    }

    /// Drops the first that waits and remembers why.
    pub(crate) fn drop_first(&mut self, error: io::Error) {
        let to = self.entries[self.done].to;
        self.unsent.push(Unsent { to, error });
        self.sent(1);
    }

    /// What could not be sent since this was last asked.
    pub fn take_unsent(&mut self) -> Vec<Unsent> {
        std::mem::take(&mut self.unsent)
    }

    /// Drops everything that waits.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.entries.clear();
        self.done = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_goes_and_the_rest_stays_in_order() {
        let mut outbox = Outbox::new();
        let to = |port| SocketAddr::from(([192, 0, 2, 7], port));
        outbox.push(to(1), None, |out| out.extend(b"one"));
        outbox.draft().extend(b"thrown away");
        outbox.draft().extend(b"two");
        assert_eq!(outbox.commit(to(2), None), 3);
        outbox.push(to(3), None, |_| ());
        outbox.sent(1);
        let left: Vec<_> = outbox.pending().map(|(to, _, bytes)| (to.port(), bytes.to_vec())).collect();
        assert_eq!(left, [(2, b"two".to_vec()), (3, Vec::new())]);
        outbox.drop_first(io::ErrorKind::PermissionDenied.into());
        outbox.sent(1);
        assert!(outbox.is_empty() && outbox.arena.is_empty());
        assert_eq!(outbox.take_unsent().iter().map(|unsent| unsent.to.port()).collect::<Vec<_>>(), [2]);
    }
}
