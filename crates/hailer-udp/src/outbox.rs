//! A queue of datagrams to send.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Number of consecutive failures after which an error counts as that of the first datagram. Before
/// that, a call may report the error of an earlier datagram.
pub(crate) const MAX_SEND_TRIES: usize = 16;

/// Datagrams to send, in order, to different addresses. Memory is reused from batch to batch.
#[derive(Debug, Default)]
pub struct Outbox {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// Number of entries that are sent or dropped.
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
    /// Destination of the datagram.
    pub to: SocketAddr,
    /// Error of the system.
    pub error: io::Error,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending<'a> {
    pub(crate) to: SocketAddr,
    pub(crate) from: Option<IpAddr>,
    pub(crate) bytes: &'a [u8],
}

impl Outbox {
    /// Returns an empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a datagram. `from`: the local address to send from, if the system supports it;
    /// `None`: the system chooses. `write` appends the payload. Returns the result of `write`.
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

    /// Returns the buffer after the last datagram, for a payload that may not be sent.
    /// [`Outbox::commit`] makes it a datagram; without that, the next call discards it.
    pub fn draft(&mut self) -> &mut Vec<u8> {
        self.arena.truncate(self.end());
        &mut self.arena
    }

    /// Makes the [draft](Outbox::draft) a datagram. Returns its length in bytes.
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

    /// Returns the number of datagrams to send.
    pub fn len(&self) -> usize {
        self.entries.len() - self.done
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the datagrams to send: destination, local address to send from, payload.
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

    /// Removes the first `count` datagrams, which were sent.
    pub fn sent(&mut self, count: usize) {
        self.done += count;
        if self.done >= self.entries.len() {
            self.clear();
        }
    }

    /// Repeats a call that sends the first few datagrams, until the outbox is empty or the system
    /// has no room. Returns the number of datagrams sent.
    pub(crate) fn send_by(&mut self, mut call: impl FnMut(&Self) -> io::Result<usize>) -> usize {
        let mut sent = 0;
        let mut tries = 0;
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

    /// Drops the first datagram and records the error.
    fn drop_first(&mut self, error: io::Error) {
        let to = self.entries[self.done].to;
        self.unsent.push(Unsent { to, error });
        self.sent(1);
    }

    /// Returns the datagrams that could not be sent since the last call.
    pub fn take_unsent(&mut self) -> Vec<Unsent> {
        std::mem::take(&mut self.unsent)
    }

    /// Drops all datagrams.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.entries.clear();
        self.done = 0;
    }
}

/// Returns whether an error means that the system has no space at the moment.
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

/// Returns whether an error always belongs to an earlier datagram, even if it is reported
/// repeatedly.
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

    /// The system's response to a call.
    #[derive(Clone, Debug)]
    enum Response {
        Takes(usize),
        Full,
        Refused,
        Unreachable,
    }

    fn response() -> impl Strategy<Value = Response> {
        prop_oneof![
            (1..80_usize).prop_map(Response::Takes),
            Just(Response::Full),
            prop::sample::select(vec![Response::Refused; 9]),
            Just(Response::Unreachable),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn sends_or_reports_each_datagram_once(
            bad in prop::collection::vec(prop::bool::weighted(0.1), 0..200),
            responses in prop::collection::vec(response(), 0..60),
        ) {
            let mut outbox = Outbox::new();
            for (port, _) in bad.iter().enumerate() {
                outbox.push(([192, 0, 2, 7], port as u16).into(), None, |_| ());
            }
            let mut sent = Vec::<SocketAddr>::new();
            let mut rounds = 0;
            let mut unreachable = 0;
            let most = responses.len() + 1;
            let mut responses = responses.into_iter();
            let mut call = |outbox: &Outbox| {
                let is_bad = |to: &SocketAddr| bad[usize::from(to.port())];
                let takes = match responses.next().unwrap_or(Response::Takes(64)) {
                    Response::Takes(takes) => takes,
                    Response::Full => return Err(ErrorKind::WouldBlock.into()),
                    Response::Refused => return Err(ErrorKind::ConnectionRefused.into()),
                    // It may be an error of this datagram, so the number of tries is limited.
                    Response::Unreachable if unreachable < MAX_SEND_TRIES => {
                        unreachable += 1;
                        return Err(ErrorKind::HostUnreachable.into());
                    }
                    Response::Unreachable => 1,
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
    fn removes_sent_datagrams_and_keeps_the_order() {
        let mut outbox = Outbox::new();
        let to = |port| SocketAddr::from(([192, 0, 2, 7], port));
        outbox.push(to(1), None, |out| out.extend(b"one"));
        outbox.draft().extend(b"discarded");
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
