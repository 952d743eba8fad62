//! One socket for all exchanges of a client: one for each address family and runtime.
//!
//! ```text
//!   exchange ──► Seat::send ──► socket ──────────────────────► servers
//!   exchange ◄── Seat::hear ◄── inbox ◄── table ◄── listener ◄── servers, and anybody else
//!                               bounded   who waits for this address and port
//! ```
//!
//! A socket of its own costs an exchange about as much as all the rest of it. What a connected socket gives must then be
//! done here. A datagram reaches those only who wait for exactly its sender; each of them knows by its own ids
//! what answers it. An inbox holds about as much as a socket's queue, so that a flood is lost and not kept. A refusal
//! (ICMP) that quotes something that nobody sent is no refusal.
//!
//! The listener ends with the client, with its runtime, and when nobody has asked for a while: a port that stays open
//! is a port that strangers find.

use futures_util::future::poll_fn;
use hailer_udp::{Inbox, Outbox, Refusal, Socket};
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{self, Handle};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// Bytes asked for the receive queue; the system may give less. Some 2,000 replies of a large server.
const RECEIVE_BUFFER: usize = 4 << 20;
/// What an exchange may leave unheard, about as much as in a socket of its own by default. More is lost.
const MAX_UNHEARD: usize = 256;
const MAX_UNHEARD_BYTES: usize = 192 << 10;
/// So many exchanges share an address and port; each hears what comes for any of them. More take sockets of their own.
const MAX_SEATS: usize = 16;
/// Batches heard before others get their turn.
const BATCHES: u64 = 4;
/// How long to wait when the system has no room for a datagram, or fails for a reason that may pass.
const PAUSE: Duration = Duration::from_millis(1);
/// A socket that nobody used for between one and two of these is closed.
const IDLE: Duration = Duration::from_secs(10);

/// The hubs of a client.
#[derive(Default)]
pub(crate) struct Hubs(Mutex<Known>);

#[derive(Default)]
struct Known {
    hubs: Vec<Hub>,
    /// This system tells a socket that is not connected nothing of closed ports.
    is_deaf: bool,
}

/// A socket and its listener, in one runtime.
struct Hub {
    runtime: runtime::Id,
    is_ipv6: bool,
    shared: Arc<Shared>,
    listener: AbortHandle,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

struct Shared {
    socket: Socket,
    outbox: Mutex<Outbox>,
    table: Mutex<Table>,
}

/// Who waits for whom.
#[derive(Default)]
struct Table {
    seats: HashMap<SocketAddr, Vec<Arc<Mutex<Unheard>>>>,
    /// Somebody asked since the listener last looked.
    is_used: bool,
    /// The listener has ended.
    is_over: bool,
}

/// What came for an exchange and was not heard yet.
#[derive(Default)]
struct Unheard {
    datagrams: VecDeque<Heard>,
    bytes: usize,
    refusal: Option<io::Error>,
    /// The last datagram sent: what a refusal must quote.
    sent: Vec<u8>,
    waker: Option<Waker>,
}

/// The listener has ended.
struct Over;

/// A datagram from the address asked.
pub(crate) struct Heard {
    /// When it was read from the socket.
    pub(crate) at: Instant,
    pub(crate) bytes: Vec<u8>,
}

/// An exchange's place at a hub.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    to: SocketAddr,
    unheard: Arc<Mutex<Unheard>>,
}

impl Hubs {
    /// A place from which to ask an address, in the current runtime. `None`: take a socket of your own, since closed
    /// ports would not be heard of, or since too many ask that address already.
    ///
    /// # Panics
    /// Outside of a Tokio runtime with I/O and time.
    pub(crate) fn seat(&self, address: SocketAddr) -> io::Result<Option<Seat>> {
        let to = canonical(address);
        let (runtime, is_ipv6) = (Handle::current().id(), to.is_ipv6());
        let mut known = lock(&self.0);
        if known.is_deaf {
            return Ok(None);
        }
        let found = known
            .hubs
            .iter()
            .find(|hub| (hub.runtime, hub.is_ipv6) == (runtime, is_ipv6));
        if let Some(hub) = found
            // A runtime that has ended took its listeners along, and its id may come again.
            && !hub.listener.is_finished()
            && let Ok(seat) = Seat::take(&hub.shared, to)
        {
            return Ok(seat);
        }
        known
            .hubs
            .retain(|hub| !hub.listener.is_finished() && !lock(&hub.shared.table).is_over);
        let Some(hub) = Hub::open(runtime, is_ipv6)? else {
            known.is_deaf = true;
            return Ok(None);
        };
        let seat = Seat::take(&hub.shared, to);
        known.hubs.push(hub);
        Ok(seat.unwrap_or(None))
    }
}

impl Hub {
    /// `None`: this system cannot tell of refusals.
    fn open(runtime: runtime::Id, is_ipv6: bool) -> io::Result<Option<Self>> {
        let ip: IpAddr = if is_ipv6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let mut settings = hailer_udp::SocketConfig::default();
        settings.receive_buffer = Some(RECEIVE_BUFFER);
        settings.refusals = true;
        let socket = Socket::bind(SocketAddr::new(ip, 0), &settings)?;
        if !socket.capabilities().refusals {
            return Ok(None);
        }
        let shared = Arc::new(Shared {
            socket,
            outbox: Mutex::default(),
            table: Mutex::default(),
        });
        // No interest in room to send: the system would tell of each datagram that left.
        #[expect(
            deprecated,
            reason = "its successor is unsafe, lest a descriptor change or close; ours lives in the Fd"
        )]
        let ready =
            AsyncFd::with_interest(Fd(shared.clone()), Interest::READABLE | Interest::ERROR)?;
        let listener = tokio::spawn(listen(ready)).abort_handle();
        Ok(Some(Self {
            runtime,
            is_ipv6,
            shared,
            listener,
        }))
    }
}

impl Seat {
    /// `None`: too many ask that address.
    fn take(shared: &Arc<Shared>, to: SocketAddr) -> Result<Option<Self>, Over> {
        let mut table = lock(&shared.table);
        if table.is_over {
            return Err(Over);
        }
        table.is_used = true;
        let seats = table.seats.entry(to).or_default();
        if seats.len() >= MAX_SEATS {
            return Ok(None);
        }
        let unheard = Arc::default();
        seats.push(Arc::clone(&unheard));
        drop(table);
        Ok(Some(Self {
            shared: shared.clone(),
            to,
            unheard,
        }))
    }

    /// Sends a datagram to the address. Errors are those of this one.
    pub(crate) async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        bytes.clone_into(&mut lock(&self.unheard).sent);
        while !self.shared.send(self.to, bytes)? {
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Hears the next datagram, or that none will come. Loses nothing when dropped.
    pub(crate) async fn hear(&mut self) -> io::Result<Heard> {
        poll_fn(|context| self.poll_hear(context)).await
    }

    fn poll_hear(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Heard>> {
        let mut unheard = lock(&self.unheard);
        if let Some(heard) = unheard.datagrams.pop_front() {
            unheard.bytes -= heard.bytes.len();
            return Poll::Ready(Ok(heard));
        }
        if let Some(error) = unheard.refusal.take() {
            return Poll::Ready(Err(error));
        }
        match &mut unheard.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = lock(&self.shared.table);
        if let Entry::Occupied(mut seats) = table.seats.entry(self.to) {
            seats
                .get_mut()
                .retain(|seat| !Arc::ptr_eq(seat, &self.unheard));
            if seats.get().is_empty() {
                seats.remove();
            }
        }
    }
}

impl Shared {
    /// Sends a datagram, unless the system has no room for it now.
    fn send(&self, to: SocketAddr, bytes: &[u8]) -> io::Result<bool> {
        let mut outbox = lock(&self.outbox);
        outbox.push(to, None, |out| out.extend_from_slice(bytes));
        let sent = self.socket.send(&mut outbox);
        let is_sent = outbox.is_empty();
        outbox.clear();
        match (sent, outbox.take_unsent().pop()) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(unsent)) => Err(unsent.error),
            (Ok(_), None) => Ok(is_sent),
        }
    }

    /// Hands a batch out. Wakes only when all of it is in its place: whoever wakes finds all that there is.
    fn deliver(&self, inbox: &Inbox, wake: &mut Vec<Waker>) {
        let at = Instant::now();
        let table = lock(&self.table);
        for received in inbox.iter() {
            for seat in table
                .seats
                .get(&canonical(received.from))
                .into_iter()
                .flatten()
            {
                let mut unheard = lock(seat);
                let bytes = unheard.bytes + received.bytes.len();
                if unheard.datagrams.len() < MAX_UNHEARD && bytes <= MAX_UNHEARD_BYTES {
                    unheard.bytes = bytes;
                    unheard.datagrams.push_back(Heard {
                        at,
                        bytes: received.bytes.to_vec(),
                    });
                    wake.extend(unheard.waker.take());
                }
            }
        }
    }

    /// Tells all who wait for an address that it cannot be had, if one of them sent what the refusal quotes. Some
    /// systems quote no payload; that has to do.
    fn refuse(&self, refusal: &Refusal<'_>, wake: &mut Vec<Waker>) {
        use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied};
        // Anything else is no final word, as of a datagram too long for a part of the way.
        let kinds = [
            ConnectionRefused,
            HostUnreachable,
            NetworkUnreachable,
            PermissionDenied,
        ];
        if !kinds.contains(&refusal.error.kind()) {
            return;
        }
        let table = lock(&self.table);
        let Some(seats) = table.seats.get(&canonical(refusal.to)) else {
            return;
        };
        if seats
            .iter()
            .any(|seat| lock(seat).sent.starts_with(refusal.quoted))
        {
            for seat in seats {
                let mut unheard = lock(seat);
                unheard.refusal.get_or_insert_with(|| copy(&refusal.error));
                wake.extend(unheard.waker.take());
            }
        }
    }
}

/// Hears until nobody has asked for a while.
async fn listen(ready: AsyncFd<Fd>) {
    let shared = &*ready.get_ref().0;
    let (mut inbox, mut wake) = (Inbox::new(), Vec::new());
    let mut idle = std::pin::pin!(sleep(IDLE));
    'ready: loop {
        let guard = tokio::select! {
            biased;
            () = &mut idle => {
                let mut table = lock(&shared.table);
                table.is_over = table.seats.is_empty() && !std::mem::take(&mut table.is_used);
                if table.is_over {
                    return;
                }
                idle.as_mut().reset(Instant::now() + IDLE);
                continue;
            }
            guard = ready.ready(Interest::READABLE | Interest::ERROR) => guard,
        };
        // The runtime is ending.
        let Ok(mut guard) = guard else { return };
        for batch in 1_u64.. {
            let refused = match guard.ready().is_error() {
                true => shared
                    .socket
                    .refusals(&mut |refusal| shared.refuse(&refusal, &mut wake)),
                false => Ok(0),
            };
            let came = shared.socket.receive(&mut inbox);
            if came.is_ok() {
                shared.deliver(&inbox, &mut wake);
            }
            wake.drain(..).for_each(Waker::wake);
            match (refused, came) {
                // Nothing else says that the socket is empty, and it is told only once that it no longer is.
                (Ok(0), Ok(0)) => break,
                (Ok(_), Ok(_)) if batch % BATCHES == 0 => tokio::task::yield_now().await,
                (Ok(_), Ok(_)) => {}
                // Never a reason to stop, nor to spin.
                _ => {
                    sleep(PAUSE).await;
                    continue 'ready;
                }
            }
        }
        guard.clear_ready();
    }
}

/// What the runtime waits for.
struct Fd(Arc<Shared>);

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.socket.as_raw_fd()
    }
}

/// The address as its replies have it: IPv4 inside of IPv6 is IPv4, only link-local addresses have a scope, and what
/// is sent to "any address" goes to this machine.
fn canonical(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    match (ip, address) {
        (IpAddr::V6(ip), SocketAddr::V6(address)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, address.port(), 0, address.scope_id()).into()
        }
        _ => SocketAddr::new(ip, address.port()),
    }
}

/// An error again, for the next who has to hear it.
fn copy(error: &io::Error) -> io::Error {
    error
        .raw_os_error()
        .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// Nothing in here panics halfway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(100);
    const LATE: Duration = Duration::from_secs(5);

    fn server(ip: [u8; 4], port: u16) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::from(ip), port)).unwrap();
        socket.set_read_timeout(Some(LATE)).unwrap();
        socket
    }

    fn seat(hubs: &Hubs, server: &UdpSocket) -> Seat {
        hubs.seat(server.local_addr().unwrap())
            .unwrap()
            .expect("this system hears refusals")
    }

    /// How many wait, in all hubs.
    fn seats(hubs: &Hubs) -> usize {
        let known = lock(&hubs.0);
        known
            .hubs
            .iter()
            .map(|hub| {
                lock(&hub.shared.table)
                    .seats
                    .values()
                    .map(Vec::len)
                    .sum::<usize>()
            })
            .sum()
    }

    fn port(seat: &Seat) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, seat.shared.socket.local_addr().port()).into()
    }

    async fn hear(seat: &mut Seat) -> Vec<u8> {
        timeout(LATE, seat.hear())
            .await
            .expect("something comes")
            .unwrap()
            .bytes
    }

    async fn hears_nothing(seat: &mut Seat) -> bool {
        timeout(SOON, seat.hear()).await.is_err()
    }

    #[tokio::test]
    async fn only_the_address_and_port_asked_are_heard() {
        let hubs = Hubs::default();
        let (asked, other) = (server([127, 0, 0, 1], 0), server([127, 0, 0, 1], 0));
        let namesake = server([127, 0, 0, 2], asked.local_addr().unwrap().port());
        let (mut one, mut two, mut stranger) = (
            seat(&hubs, &asked),
            seat(&hubs, &asked),
            seat(&hubs, &other),
        );
        assert!(
            Arc::ptr_eq(&one.shared, &stranger.shared),
            "one socket for all"
        );
        one.send(b"who?").await.unwrap();
        let hub = asked.recv_from(&mut [0; 9]).unwrap().1;
        namesake.send_to(b"me", hub).unwrap();
        asked.send_to(b"I", hub).unwrap();
        other.send_to(b"no, I", hub).unwrap();
        for seat in [&mut one, &mut two] {
            assert_eq!(hear(seat).await, b"I");
            assert!(hears_nothing(seat).await);
        }
        assert_eq!(hear(&mut stranger).await, b"no, I");
    }

    #[tokio::test]
    async fn a_flood_is_lost_and_holds_nobody_up() {
        let hubs = Hubs::default();
        let (loud, calm) = (server([127, 0, 0, 1], 0), server([127, 0, 0, 1], 0));
        let (flooded, mut other) = (seat(&hubs, &loud), seat(&hubs, &calm));
        for length in [0, 1_400] {
            for _ in 0..20 {
                for _ in 0..50 {
                    loud.send_to(&vec![7; length], port(&flooded)).unwrap();
                }
                calm.send_to(b"x", port(&other)).unwrap();
                assert_eq!(hear(&mut other).await, b"x");
            }
        }
        let unheard = lock(&flooded.unheard);
        assert!(unheard.datagrams.len() <= MAX_UNHEARD && unheard.bytes <= MAX_UNHEARD_BYTES);
        assert!(
            unheard.datagrams.len() > MAX_UNHEARD / 2,
            "{}",
            unheard.datagrams.len()
        );
    }

    #[tokio::test]
    async fn who_no_longer_waits_has_no_seat_and_a_crowd_takes_other_sockets() {
        let hubs = Hubs::default();
        let asked = server([127, 0, 0, 1], 0);
        let address = asked.local_addr().unwrap();
        let crowd: Vec<Seat> = (0..MAX_SEATS).map(|_| seat(&hubs, &asked)).collect();
        assert!(hubs.seat(address).unwrap().is_none());
        assert_eq!(seats(&hubs), MAX_SEATS);
        drop(crowd);
        assert_eq!(seats(&hubs), 0);
        let mut seat = seat(&hubs, &asked);
        let hub = port(&seat);
        let waiting = tokio::spawn(async move { seat.hear().await.map(|heard| heard.bytes) });
        tokio::task::yield_now().await;
        assert_eq!(seats(&hubs), 1);
        waiting.abort();
        assert!(waiting.await.is_err());
        assert_eq!(seats(&hubs), 0);
        // What comes for nobody is dropped.
        asked.send_to(b"late", hub).unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(seats(&hubs), 0);
    }

    #[tokio::test]
    async fn a_closed_port_is_told_to_all_who_ask_there_and_to_nobody_else() {
        let hubs = Hubs::default();
        let open = server([127, 0, 0, 1], 0);
        let closed = server([127, 97, 0, 1], 0);
        let (mut one, mut two, mut third) = (
            seat(&hubs, &closed),
            seat(&hubs, &closed),
            seat(&hubs, &open),
        );
        drop(closed);
        one.send(b"hello?").await.unwrap();
        for seat in [&mut one, &mut two] {
            let error = timeout(LATE, seat.hear()).await.unwrap().err().unwrap();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
        third.send(b"still there?").await.unwrap();
        open.send_to(b"yes", open.recv_from(&mut [0; 99]).unwrap().1)
            .unwrap();
        assert_eq!(hear(&mut third).await, b"yes");
    }

    #[tokio::test]
    async fn bursts_are_heard_to_their_end() {
        let hubs = Hubs::default();
        let asked = server([127, 0, 0, 1], 0);
        let mut open = seat(&hubs, &asked);
        let mut closed: Vec<Seat> = (0..200)
            .map(|_| server([127, 97, 0, 2], 0))
            .map(|server| seat(&hubs, &server))
            .collect();
        for seat in &closed {
            seat.send(b"?").await.unwrap();
        }
        for number in 0..200_u8 {
            asked.send_to(&[number], port(&open)).unwrap();
        }
        for number in 0..200 {
            assert_eq!(hear(&mut open).await, [number]);
        }
        for seat in &mut closed {
            let error = timeout(LATE, seat.hear())
                .await
                .expect("all are told")
                .err()
                .unwrap();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
    }

    #[tokio::test]
    async fn a_refusal_that_quotes_what_nobody_sent_is_not_believed() {
        let hubs = Hubs::default();
        let asked = server([127, 0, 0, 1], 0);
        let seat = seat(&hubs, &asked);
        seat.send(b"a secret cookie").await.unwrap();
        let refuse = |quoted: &[u8], kind: ErrorKind| {
            let refusal = Refusal {
                to: asked.local_addr().unwrap(),
                error: kind.into(),
                quoted,
            };
            seat.shared.refuse(&refusal, &mut Vec::new());
            lock(&seat.unheard).refusal.take().map(|error| error.kind())
        };
        assert_eq!(refuse(b"a guess", ErrorKind::ConnectionRefused), None);
        assert_eq!(
            refuse(b"a secret cookie and more", ErrorKind::ConnectionRefused),
            None
        );
        assert_eq!(
            refuse(b"a secret", ErrorKind::TimedOut),
            None,
            "no final word"
        );
        assert_eq!(
            refuse(b"a secret", ErrorKind::HostUnreachable),
            Some(ErrorKind::HostUnreachable)
        );
        assert_eq!(
            refuse(b"", ErrorKind::ConnectionRefused),
            Some(ErrorKind::ConnectionRefused)
        );
    }

    #[test]
    fn each_runtime_has_its_own_and_the_listener_ends_with_it_with_the_hubs_and_when_idle() {
        let hubs = Hubs::default();
        let asked = server([127, 0, 0, 1], 0);
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
        };
        let ask = async |hubs: &Hubs| {
            let mut seat = seat(hubs, &asked);
            seat.send(b"?").await.unwrap();
            asked
                .send_to(b"!", asked.recv_from(&mut [0; 9]).unwrap().1)
                .unwrap();
            assert_eq!(hear(&mut seat).await, b"!");
            Arc::downgrade(&seat.shared)
        };
        let (first, second) = (runtime(), runtime());
        let one = first.block_on(ask(&hubs));
        assert!(one.ptr_eq(&first.block_on(ask(&hubs))), "the same again");
        let two = second.block_on(ask(&hubs));
        assert!(
            !one.ptr_eq(&two) && one.ptr_eq(&first.block_on(ask(&hubs))),
            "both at once"
        );
        drop(first);
        let third = runtime();
        let three = third.block_on(ask(&hubs));
        assert!(one.upgrade().is_none(), "gone with its runtime");

        // Time flies while nobody does anything.
        third.block_on(async {
            tokio::time::pause();
            tokio::time::sleep(IDLE * 3).await;
            tokio::time::resume();
        });
        let four = third.block_on(ask(&hubs));
        assert!(
            !three.ptr_eq(&four) && three.upgrade().is_none(),
            "closed after a while"
        );
        drop(hubs);
        third.block_on(tokio::task::yield_now());
        assert!(four.upgrade().is_none(), "gone with the client");
        drop(second);
        assert!(two.upgrade().is_none());
    }

    #[test]
    fn addresses_are_as_their_replies_have_them() {
        for (typed, heard) in [
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("[::ffff:192.0.2.7]:1", "192.0.2.7:1"),
            ("[fe80::1%3]:1", "[fe80::1%3]:1"),
            ("[2001:db8::1%3]:1", "[2001:db8::1]:1"),
        ] {
            assert_eq!(
                canonical(typed.parse().unwrap()),
                heard.parse().unwrap(),
                "{typed}"
            );
        }
    }
}
