//! Datagrams to send.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// A call may report the error of an earlier datagram, once. What it reports so often in a row is the first one's own.
pub(crate) const MAX_SEND_TRIES: usize = 16;

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
    pub fn push<T>(
        &mut self,
        to: SocketAddr,
        from: Option<IpAddr>,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        let start = self.arena.len();
        let written = write(&mut self.arena);
        self.entries.push(Entry {
            to,
            from,
            bytes: start..self.arena.len(),
        });
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
        self.entries.push(Entry {
            to,
            from,
            bytes: start..self.arena.len(),
        });
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
        self.waiting()
            .map(|pending| (pending.to, pending.from, pending.bytes))
    }

    pub(crate) fn waiting(&self) -> impl ExactSizeIterator<Item = Pending<'_>> {
        let pending = |entry: &Entry| Pending {
            to: entry.to,
            from: entry.from,
            bytes: &[],
        };
        self.entries[self.done..].iter().map(move |entry| Pending {
            bytes: &self.arena[entry.bytes.clone()],
            ..pending(entry)
        })
    }

    /// Forgets the first few that wait: they are sent.
    pub fn sent(&mut self, count: usize) {
        self.done += count;
        if self.done >= self.entries.len() {
            self.clear();
        }
    }

    /// Sends by a call that sends the first few, until nothing waits or the system takes no more for now. Returns how many
    /// were sent.
    pub(crate) fn send_by(&mut self, mut call: impl FnMut(&Self) -> io::Result<usize>) -> usize {
        let (mut sent, mut tries) = (0, 0);
        while !self.is_empty() {
            match call(self) {
                Ok(0) => break,
                Ok(count) => {
                    self.sent(count);
                    sent += count;
                    tries = 0;
                }
                Err(error) if is_full(&error) => break,
                Err(_) if tries < MAX_SEND_TRIES => tries += 1,
                Err(error) if is_of_others(&error) => break,
                Err(error) => {
                    self.drop_first(error);
                    tries = 0;
                }
            }
        }
        sent
    }

    /// Drops the first that waits and remembers why.
    fn drop_first(&mut self, error: io::Error) {
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

/// No room for now.
fn is_full(error: &io::Error) -> bool {
    // ENOBUFS has no name in the standard library.
    let no_buffers = if cfg!(windows) {
        10_055
    } else if cfg!(any(target_os = "linux", target_os = "android")) {
        105
    } else {
        55
    };
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory)
        || error.raw_os_error() == Some(no_buffers)
}

/// Never about the datagram at hand, however often it is told.
pub(crate) fn is_of_others(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the system says to a call.
    #[derive(Clone, Debug)]
    enum Say {
        Takes(usize),
        Full,
        Refused,
        Unreachable,
    }

    fn say() -> impl Strategy<Value = Say> {
        prop_oneof![
            (1..80_usize).prop_map(Say::Takes),
            Just(Say::Full),
            prop::sample::select(vec![Say::Refused; 9]),
            Just(Say::Unreachable),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn whatever_the_system_says_each_datagram_is_sent_once_or_told(
            bad in prop::collection::vec(prop::bool::weighted(0.1), 0..200),
            says in prop::collection::vec(say(), 0..60),
        ) {
            let mut outbox = Outbox::new();
            for (port, _) in bad.iter().enumerate() {
                outbox.push(([192, 0, 2, 7], port as u16).into(), None, |_| ());
            }
            let (mut sent, mut rounds, mut unreachable) = (Vec::<SocketAddr>::new(), 0, 0);
            let most = says.len() + 1;
            let mut says = says.into_iter();
            let mut call = |outbox: &Outbox| {
                let is_bad = |to: &SocketAddr| bad[usize::from(to.port())];
                let takes = match says.next().unwrap_or(Say::Takes(64)) {
                    Say::Takes(takes) => takes,
                    Say::Full => return Err(ErrorKind::WouldBlock.into()),
                    Say::Refused => return Err(ErrorKind::ConnectionRefused.into()),
                    // Could be about the datagram; is not told too often.
                    Say::Unreachable if unreachable < MAX_SEND_TRIES => {
                        unreachable += 1;
                        return Err(ErrorKind::HostUnreachable.into());
                    }
                    Say::Unreachable => 1,
                };
                let good: Vec<_> =
                    outbox.pending().map(|(to, ..)| to).take(takes).take_while(|to| !is_bad(to)).collect();
                sent.extend(&good);
                if good.is_empty() { Err(ErrorKind::PermissionDenied.into()) } else { Ok(good.len()) }
            };
            let mut count = 0;
            while !outbox.is_empty() {
                count += outbox.send_by(&mut call);
                rounds += 1;
                prop_assert!(rounds <= most);
            }
            let bad = &bad;
            let ports = |wanted: bool| (0..bad.len()).filter(move |i| bad[*i] == wanted);
            prop_assert_eq!(count, sent.len());
            prop_assert!(sent.iter().map(|to| usize::from(to.port())).eq(ports(false)));
            let unsent = outbox.take_unsent();
            prop_assert!(unsent.iter().map(|unsent| usize::from(unsent.to.port())).eq(ports(true)));
        }
    }

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
        let left: Vec<_> = outbox
            .pending()
            .map(|(to, _, bytes)| (to.port(), bytes.to_vec()))
            .collect();
        assert_eq!(left, [(2, b"two".to_vec()), (3, Vec::new())]);
        outbox.drop_first(io::ErrorKind::PermissionDenied.into());
        outbox.sent(1);
        assert!(outbox.is_empty() && outbox.arena.is_empty());
        assert_eq!(
            outbox
                .take_unsent()
                .iter()
                .map(|unsent| unsent.to.port())
                .collect::<Vec<_>>(),
            [2]
        );
    }
}
