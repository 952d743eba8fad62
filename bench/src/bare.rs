//! Batches of datagrams with bare system calls, for the loops that the sweep is compared with. Does
//! not use `hailer-udp`.
//!
//! In: datagrams to send. Out: received datagrams, their addresses.
//!
//! May import: nothing of this workspace.
#![allow(unsafe_code)]

use libc::{
    AF_INET, IP_PKTINFO, IPPROTO_IP, MSG_DONTWAIT, SO_RCVBUFFORCE, SO_SNDBUFFORCE, SOL_SOCKET,
    c_int, c_void, cmsghdr, in_pktinfo, iovec, mmsghdr, sockaddr_in,
};
use std::io;
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

/// Maximum number of datagrams per call.
pub(crate) const BATCH: usize = 64;
/// Size of a slot in bytes. Longer than any datagram of these benchmarks, and not a multiple of a
/// page, so that slots do not compete for the same cache lines.
pub(crate) const SLOT: usize = 4_096 + 64;
/// Size of a socket's queues in bytes.
const BUFFER: c_int = 32 << 20;
/// Size of an `IP_PKTINFO` message, which needs no padding.
const CONTROL: usize = size_of::<Control>();

/// IPv4 address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Peer {
    /// Address as a number.
    pub(crate) ip: u32,
    /// UDP port of the socket.
    pub(crate) port: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    head: cmsghdr,
    info: in_pktinfo,
    padding: [u8; 4],
}

const _: () = assert!(size_of::<cmsghdr>().is_multiple_of(align_of::<in_pktinfo>()));

/// Returns a blocking socket on a port of all addresses, with long queues. With `destination`, it
/// reports the local address of each datagram.
pub(crate) fn bind(port: u16, destination: bool) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, port))?;
    let set = |level: c_int, name: c_int, value: c_int| {
        let length = size_of::<c_int>() as u32;
        // SAFETY: the value is read for its true length during the call, and the socket is open.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                name,
                (&raw const value).cast::<c_void>(),
                length,
            )
        }
    };
    // Only root may exceed the system's limit.
    let _ = set(SOL_SOCKET, SO_RCVBUFFORCE, BUFFER) == 0
        || set(SOL_SOCKET, libc::SO_RCVBUF, BUFFER) == 0;
    let _ = set(SOL_SOCKET, SO_SNDBUFFORCE, BUFFER) == 0
        || set(SOL_SOCKET, libc::SO_SNDBUF, BUFFER) == 0;
    if destination && set(IPPROTO_IP, IP_PKTINFO, 1) != 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(socket)
    }
}

/// Waits for a datagram for at most `millis` milliseconds.
pub(crate) fn wait(socket: &UdpSocket, millis: i32) {
    let mut polled = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, which lives until the call returns.
    unsafe { libc::poll(&raw mut polled, 1, millis) };
}

/// Buffers for a batch of datagrams to receive or send.
pub(crate) struct Batch {
    payloads: Box<[[u8; SLOT]]>,
    lengths: [usize; BATCH],
    peers: Box<[sockaddr_in; BATCH]>,
    controls: Box<[Control; BATCH]>,
    vectors: Box<[iovec; BATCH]>,
    headers: Box<[mmsghdr; BATCH]>,
    with_control: bool,
    len: usize,
}

impl Batch {
    /// Returns an empty batch. `with_control`: whether it includes the local address of each
    /// datagram.
    pub(crate) fn new(with_control: bool) -> Self {
        // SAFETY: plain C structures, for which all zeros is a value.
        let (peer, control, vector, header) = unsafe { (zeroed(), zeroed(), zeroed(), zeroed()) };
        Self {
            payloads: vec![[0; SLOT]; BATCH].into(),
            lengths: [0; BATCH],
            peers: Box::new([peer; BATCH]),
            controls: Box::new([control; BATCH]),
            vectors: Box::new([vector; BATCH]),
            headers: Box::new([header; BATCH]),
            with_control,
            len: 0,
        }
    }

    /// Returns the number of datagrams.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns a datagram: source, local address, payload.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> (Peer, u32, &[u8]) {
        let name = &self.peers[i];
        let from = Peer {
            ip: u32::from_be(name.sin_addr.s_addr),
            port: u16::from_be(name.sin_port),
        };
        (
            from,
            u32::from_be(self.controls[i].info.ipi_addr.s_addr),
            &self.payloads[i][..self.lengths[i]],
        )
    }

    /// Adds a datagram. `write` writes the payload and returns its length. There must be space.
    /// `from` is only used with control messages.
    #[inline]
    pub(crate) fn push(
        &mut self,
        to: Peer,
        from: u32,
        write: impl FnOnce(&mut [u8; SLOT]) -> usize,
    ) {
        let i = self.len;
        self.lengths[i] = write(&mut self.payloads[i]).min(SLOT);
        let name = &mut self.peers[i];
        name.sin_family = AF_INET as u16;
        name.sin_addr.s_addr = to.ip.to_be();
        name.sin_port = to.port.to_be();
        if self.with_control {
            let control = &mut self.controls[i];
            control.head.cmsg_level = IPPROTO_IP;
            control.head.cmsg_type = IP_PKTINFO;
            control.head.cmsg_len = (size_of::<cmsghdr>() + size_of::<in_pktinfo>()) as _;
            control.info.ipi_spec_dst.s_addr = from.to_be();
            control.info.ipi_ifindex = 0;
        }
        self.len += 1;
    }

    /// Points the headers to the first `count` parts, with their lengths, or with their full
    /// capacity if `full`.
    fn point(&mut self, count: usize, full: bool) {
        for i in 0..count {
            let length = if full { SLOT } else { self.lengths[i] };
            self.vectors[i] = iovec {
                iov_base: self.payloads[i].as_mut_ptr().cast(),
                iov_len: length,
            };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = (&raw mut self.peers[i]).cast();
            header.msg_namelen = size_of::<sockaddr_in>() as u32;
            header.msg_iov = &raw mut self.vectors[i];
            header.msg_iovlen = 1;
            if self.with_control {
                header.msg_control = (&raw mut self.controls[i]).cast();
                header.msg_controllen = CONTROL as _;
            }
        }
    }

    /// Replaces the content with up to a batch of waiting datagrams.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.point(BATCH, true);
        // SAFETY: the headers were just made to point into boxes of this batch, with their true
        // lengths, and nothing else accesses those before the call returns. All of it is plain
        // data, for which every value is valid.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as u32,
                MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        self.len = match usize::try_from(count) {
            Ok(count) => count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => 0,
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        for i in 0..self.len {
            self.lengths[i] = (self.headers[i].msg_len as usize).min(SLOT);
        }
        Ok(self.len)
    }

    /// Sends all datagrams, waiting for space if necessary. The batch is empty afterwards.
    pub(crate) fn send(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let count = std::mem::take(&mut self.len);
        self.point(count, false);
        let mut sent = 0;
        while sent < count {
            // SAFETY: as in `receive`; the rest of the headers starts inside the box.
            let more = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    self.headers[sent..].as_mut_ptr(),
                    (count - sent) as u32,
                    0,
                )
            };
            match usize::try_from(more) {
                Ok(more) => sent += more,
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }
}
