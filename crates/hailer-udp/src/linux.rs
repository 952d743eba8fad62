//! Linux implementation: one system call for up to [`BATCH`] datagrams, with their metadata.
//!
//! In: an outbox, a socket. Out: an inbox with metadata, refusals.
//!
//! May import: `crate`, `crate::envelope`, `crate::fallback`, `crate::inbox`, `crate::outbox`,
//! `crate::sys`.

use crate::envelope::{DATAGRAM_CONTROL, Envelope, NO_CONTROL, Note, REFUSAL_CONTROL};
use crate::fallback::MAX_BUFFER_BYTES;
use crate::inbox::Meta;
use crate::outbox::{MAX_SEND_TRIES, Pending, is_of_others};
use crate::{
    BATCH, Capabilities, Inbox, MAX_WAIT_SOCKETS, Outbox, Refusal, SocketConfig, fallback, sys,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::sockopt::{
    AttachReusePortCbpf, Ipv4PacketInfo, Ipv4RecvErr, Ipv6RecvErr, Ipv6RecvPacketInfo, RcvBufForce,
    ReceiveTimestampns, SndBufForce,
};
use nix::sys::socket::{SetSockOpt, setsockopt};
use nix::sys::time::TimeSpec;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Slots of the first system call. Usually few datagrams wait, and the slots of a whole batch add a
/// sixth to the cost of receiving one. If the last batch was larger, the call has slots for a whole
/// batch.
const FIRST_SLOTS: usize = 8;
/// Maximum number of refusals per system call.
const REFUSALS: usize = 16;
/// Maximum number of system calls for refusals in a row.
const CALLS: usize = 32;
/// Maximum number of payload bytes kept of a refused datagram. Routers rarely return more.
const QUOTED: usize = 576;

#[derive(Debug)]
pub(crate) struct Socket {
    socket: UdpSocket,
    overflows: AtomicU64,
    /// Whether datagrams come with control messages.
    has_control: bool,
}

impl Socket {
    pub(crate) fn bind(
        address: SocketAddr,
        config: &SocketConfig,
    ) -> io::Result<(Self, Capabilities)> {
        let raw = fallback::open(address, config)?;
        let mut capabilities = Self::set(&raw, address.is_ipv4(), config)?;
        // Bind last, so that no datagram arrives before the options are set.
        fallback::bind(&raw, address, config)?;
        let v4 = address.is_ipv4();
        capabilities.has_spread =
            config.is_port_shared && config.spread > 1 && spread(&raw, v4, config.spread);
        Ok((Self::new(raw, &capabilities), capabilities))
    }

    pub(crate) fn adopt(
        socket: UdpSocket,
        config: &SocketConfig,
    ) -> io::Result<(Self, Capabilities)> {
        let v4 = socket.local_addr()?.is_ipv4();
        let raw = fallback::take(socket, config)?;
        let mut capabilities = Self::set(&raw, v4, config)?;
        capabilities.has_spread = config.spread > 1 && spread(&raw, v4, config.spread);
        Ok((Self::new(raw, &capabilities), capabilities))
    }

    fn new(raw: socket2::Socket, capabilities: &Capabilities) -> Self {
        Self {
            socket: raw.into(),
            overflows: AtomicU64::new(0),
            has_control: capabilities.has_timestamps || capabilities.has_destination,
        }
    }

    fn set(raw: &socket2::Socket, v4: bool, config: &SocketConfig) -> io::Result<Capabilities> {
        // With privileges, the sizes may exceed the system's limit.
        if let Some(size) = config.receive_buffer {
            can(raw, RcvBufForce, &size.min(MAX_BUFFER_BYTES));
        }
        if let Some(size) = config.send_buffer {
            can(raw, SndBufForce, &size.min(MAX_BUFFER_BYTES));
        }
        let refusals = |raw| {
            if v4 {
                can(raw, Ipv4RecvErr, &true)
            } else {
                can(raw, Ipv6RecvErr, &true)
            }
        };
        let destination = |raw| {
            if v4 {
                can(raw, Ipv4PacketInfo, &true)
            } else {
                can(raw, Ipv6RecvPacketInfo, &true)
            }
        };
        if config.is_unfragmented {
            // Without this option, fragments do no harm.
            let _ = if v4 {
                sockopt::set_ip_mtu_discover(raw, Ipv4PathMtuDiscovery::DO)
            } else {
                sockopt::set_ipv6_mtu_discover(raw, Ipv6PathMtuDiscovery::DO)
            };
        }
        Ok(Capabilities {
            has_batches: true,
            has_timestamps: config.has_timestamps && can(raw, ReceiveTimestampns, &true),
            has_destination: config.has_destination && destination(raw),
            has_spread: false,
            has_overflows: sys::drops(raw.as_fd()).is_ok(),
            has_refusals: config.has_refusals && refusals(raw),
            receive_buffer: raw.recv_buffer_size()?,
            send_buffer: raw.send_buffer_size()?,
        })
    }

    pub(crate) fn try_clone(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(crate) fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        if self.has_control {
            self.receive_with::<DATAGRAM_CONTROL>(inbox)
        } else {
            self.receive_with::<NO_CONTROL>(inbox)
        }
    }

    fn receive_with<const CONTROL: usize>(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let mut tries = 0;
        loop {
            let room = if inbox.metas.len() < FIRST_SLOTS {
                FIRST_SLOTS
            } else {
                BATCH
            };
            let (mut slots, metas) = inbox.slots();
            let mut now = None;
            let mut describe = |length, envelope: &Envelope<CONTROL>| {
                // The system always reports the sender; every slot needs its metadata.
                let from = envelope
                    .address()
                    .unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
                let mut meta = Meta {
                    length,
                    from,
                    to: None,
                    waited: None,
                };
                for note in envelope.notes() {
                    match note {
                        Note::To(to) => meta.to = Some(to),
                        Note::Received(at) => {
                            meta.waited =
                                Some(now.get_or_insert_with(since_1970).saturating_sub(at));
                        }
                        Note::Refused { .. } => {}
                    }
                }
                metas.push(meta);
            };
            let received =
                match sys::receive(self.as_fd(), 0, slots.by_ref().take(room), &mut describe) {
                    // An error of the second call belongs to an earlier datagram, or is reported
                    // again.
                    Ok(FIRST_SLOTS) if room == FIRST_SLOTS => {
                        Ok(FIRST_SLOTS
                            + sys::receive(self.as_fd(), 0, slots, describe).unwrap_or(0))
                    }
                    received => received,
                };
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(_) if tries < MAX_SEND_TRIES => tries += 1,
                Err(error) if is_of_others(&error) => return Ok(0),
                received => return received,
            }
        }
    }

    /// Adds up the system's count, which wraps around. Two threads may read it out of order.
    fn record_overflows(&self, count: u32) {
        let later = |before: u64| {
            let more = count.wrapping_sub(before as u32);
            (1..1 << 31)
                .contains(&more)
                .then(|| before + u64::from(more))
        };
        let _ = self
            .overflows
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    pub(crate) fn send(&self, outbox: &mut Outbox) -> io::Result<usize> {
        let sent = outbox.send_by(|outbox| {
            let mut batch = outbox.waiting().take(BATCH);
            if batch.any(|pending| pending.from.is_some()) {
                self.send_with::<DATAGRAM_CONTROL>(outbox)
            } else {
                self.send_with::<NO_CONTROL>(outbox)
            }
        });
        Ok(sent)
    }

    fn send_with<const CONTROL: usize>(&self, outbox: &Outbox) -> io::Result<usize> {
        let envelope = |pending: &Pending<'_>| Envelope::<CONTROL>::new(pending.to, pending.from);
        let batch = outbox.waiting();
        sys::send(
            self.as_fd(),
            batch.map(|pending| (envelope(&pending), pending.bytes)),
        )
    }

    pub(crate) fn refusals(&self, receive: &mut dyn FnMut(Refusal<'_>)) -> io::Result<usize> {
        const { assert!(REFUSALS <= BATCH) }
        let mut reported = 0;
        for _ in 0..CALLS {
            let mut slots = [[0; QUOTED]; REFUSALS];
            let mut found = [const { None }; REFUSALS];
            let mut next = found.iter_mut();
            let slices = slots.iter_mut().map(|slot| &mut slot[..]);
            let received = sys::receive(
                self.as_fd(),
                libc::MSG_ERRQUEUE,
                slices,
                |length, envelope: &Envelope<REFUSAL_CONTROL>| {
                    let errno = envelope.notes().find_map(|note| match note {
                        Note::Refused { errno } => Some(errno),
                        _ => None,
                    });
                    if let Some(place) = next.next() {
                        *place = errno
                            .zip(envelope.address())
                            .map(|(errno, to)| (length, to, errno));
                    }
                },
            );
            let received = match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received?,
            };
            for (slot, found) in slots.iter().zip(found) {
                if let Some((length, to, errno)) = found {
                    receive(Refusal {
                        to,
                        error: io::Error::from_raw_os_error(errno),
                        quoted: &slot[..length],
                    });
                    reported += 1;
                }
            }
            if received < REFUSALS {
                break;
            }
        }
        Ok(reported)
    }

    /// Reads the system's count. The system can also report it with each datagram, but that costs
    /// up to 3 % of the CPU time of a sweep.
    pub(crate) fn overflows(&self) -> u64 {
        if let Ok(count) = sys::drops(self.as_fd()) {
            self.record_overflows(count);
        }
        self.overflows.load(Ordering::Relaxed)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn can<O: SetSockOpt>(socket: &socket2::Socket, option: O, value: &O::Val) -> bool {
    setsockopt(socket, option, value).is_ok()
}

/// Makes the system choose among sockets that share an address by a hash of the sender's network,
/// with a BPF program that it runs for each datagram.
fn spread(socket: &socket2::Socket, v4: bool, sockets: u32) -> bool {
    /// Base of offsets that count from the first byte of the IP header.
    const NET: u32 = libc::SKF_NET_OFF as u32;
    /// Knuth's multiplier: separates neighboring networks.
    const MIX: u32 = 0x9E37_79B1;
    let step = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let load = |at| {
        step(
            libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
            NET.wrapping_add(at),
        )
    };
    let with = |operation, k| step(libc::BPF_ALU | operation | libc::BPF_K, k);
    let mut program = if v4 {
        vec![load(12), with(libc::BPF_RSH, 8)]
    } else {
        vec![
            load(12),
            with(libc::BPF_RSH, 8),
            step(libc::BPF_MISC | libc::BPF_TAX, 0),
            load(8),
            step(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0),
        ]
    };
    program.extend([
        with(libc::BPF_MUL, MIX),
        with(libc::BPF_RSH, 16),
        with(libc::BPF_MOD, sockets),
    ]);
    program.push(step(libc::BPF_RET | libc::BPF_A, 0));
    can(
        socket,
        AttachReusePortCbpf,
        &libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        },
    )
}

fn since_1970() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Implements [`crate::wait`]. A refusal shows as an error of the socket, which always ends the
/// wait.
pub(crate) fn wait(sockets: &[impl AsFd], writable: bool, timeout: Duration) -> io::Result<()> {
    let wanted = if writable {
        PollFlags::POLLIN | PollFlags::POLLOUT
    } else {
        PollFlags::POLLIN
    };
    let Some(last) = sockets.last() else {
        return Ok(());
    };
    // The array is longer than its used part.
    let polled = |i| PollFd::new(sockets.get(i).unwrap_or(last).as_fd(), wanted);
    let mut polled: [_; MAX_WAIT_SOCKETS] = std::array::from_fn(polled);
    match ppoll(
        &mut polled[..sockets.len()],
        Some(TimeSpec::from_duration(timeout)),
        None,
    ) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_count_wraps_around_and_never_falls() {
        let (socket, _) =
            Socket::bind((Ipv4Addr::LOCALHOST, 0).into(), &SocketConfig::default()).unwrap();
        let counts = [
            (5, 5),
            (3, 5),
            (5, 5),
            (1 << 31, 1 << 31),
            (u32::MAX, 0xffff_ffff),
            (7, 0x1_0000_0007),
        ];
        for (count, sum) in counts.into_iter().chain([(u32::MAX, 0x1_0000_0007)]) {
            socket.record_overflows(count);
            assert_eq!(socket.overflows.load(Ordering::Relaxed), sum);
        }
    }
}
