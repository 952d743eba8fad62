//! Time per datagram over loopback, in user and kernel mode, of four implementations: this crate, a
//! bare loop of `sendmmsg` and `recvmmsg` (the lower bound), the safe wrappers of `nix`, and one
//! system call per datagram.
//!
//! Measured in 2026 on a virtual machine with Linux 6.18, where system calls are cheap and loopback
//! is expensive: the crate took 0.95 to 1.08 of the bare loop's time. `nix` took 1.1 for replies
//! from many addresses, because it needs a call for each, and 1.2 for a call that receives one
//! datagram, because it allocates buffers for a whole batch; otherwise the same. Timestamps cost 60
//! to 110 ns per datagram. One call per datagram took 0.7 to 1.0: batches save time only where
//! system calls are expensive.
//!
//! One thread runs the implementations in turns and measures only the system calls. The figures are
//! medians of many short samples, so other load on the machine disturbs few of them. `cargo bench
//! -p hailer-udp`.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("Nothing to compare: this system has no calls for batches.");
}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
// The bare loop needs `unsafe`.
#[allow(unsafe_code)]
mod linux {
    use hailer_udp::{BATCH, Inbox, Outbox, Socket, SocketConfig};
    use libc::{c_int, in_addr, in_pktinfo, iovec, mmsghdr, sockaddr_in};
    use nix::sys::socket::{
        self, ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn, sockopt,
    };
    use std::io::{IoSlice, IoSliceMut};
    use std::mem::{size_of, zeroed};
    use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::time::Instant;

    const ROUNDS: usize = 3_000;
    const LONG: usize = 2_048;

    #[derive(Clone, Copy)]
    struct Out {
        to: SocketAddrV4,
        from: Option<Ipv4Addr>,
        length: usize,
    }

    trait Io {
        /// Prepares these datagrams, if that is not part of sending.
        fn fill(&mut self, _: &[Out]) {}
        /// Sends the prepared datagrams, which all fit.
        fn send(&mut self, out: &[Out]);
        /// Receives once. Returns the number of datagrams, and a sum over every address.
        fn receive(&mut self) -> (usize, u64);
        fn port(&self) -> u16;
    }

    fn plain(has_destination: bool) -> UdpSocket {
        let at = if has_destination {
            Ipv4Addr::UNSPECIFIED
        } else {
            Ipv4Addr::LOCALHOST
        };
        let socket = UdpSocket::bind((at, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        if has_destination {
            socket::setsockopt(&socket, sockopt::Ipv4PacketInfo, &true).unwrap();
        }
        socket::setsockopt(&socket, sockopt::RxqOvfl, &1).unwrap();
        socket
    }

    struct Bare {
        socket: UdpSocket,
        names: Vec<sockaddr_in>,
        controls: Vec<[u64; 12]>,
        iovs: Vec<iovec>,
        headers: Vec<mmsghdr>,
        bytes: Vec<[u8; LONG]>,
    }

    impl Bare {
        fn new(has_destination: bool) -> Self {
            // SAFETY: plain C structures, for which all zeros is a valid value.
            unsafe {
                Self {
                    socket: plain(has_destination),
                    names: vec![zeroed(); BATCH],
                    controls: vec![[0; 12]; BATCH],
                    iovs: vec![zeroed(); BATCH],
                    headers: vec![zeroed(); BATCH],
                    bytes: vec![[7; LONG]; BATCH],
                }
            }
        }

        fn header(&mut self, i: usize, length: usize, control: usize) {
            self.iovs[i] = iovec {
                iov_base: self.bytes[i].as_mut_ptr().cast(),
                iov_len: length,
            };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = (&raw mut self.names[i]).cast();
            header.msg_namelen = size_of::<sockaddr_in>() as u32;
            header.msg_iov = &raw mut self.iovs[i];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.controls[i]).cast();
            header.msg_controllen = control;
        }
    }

    impl Io for Bare {
        fn send(&mut self, out: &[Out]) {
            for (i, out) in out.iter().enumerate() {
                self.names[i].sin_family = libc::AF_INET as u16;
                self.names[i].sin_port = out.to.port().to_be();
                self.names[i].sin_addr.s_addr = u32::from(*out.to.ip()).to_be();
                let room = size_of::<in_pktinfo>() as u32;
                // SAFETY: arithmetic.
                let control = out
                    .from
                    .map_or(0, |_| unsafe { libc::CMSG_SPACE(room) as usize });
                self.header(i, out.length, control);
                if let Some(from) = out.from {
                    let spec = in_addr {
                        s_addr: u32::from(from).to_be(),
                    };
                    let info = in_pktinfo {
                        ipi_ifindex: 0,
                        ipi_spec_dst: spec,
                        ipi_addr: in_addr { s_addr: 0 },
                    };
                    // SAFETY: the header's control buffer is borrowed, aligned, and longer than the
                    // message.
                    unsafe {
                        let message = libc::CMSG_FIRSTHDR(&self.headers[i].msg_hdr);
                        (*message).cmsg_level = libc::IPPROTO_IP;
                        (*message).cmsg_type = libc::IP_PKTINFO;
                        (*message).cmsg_len = libc::CMSG_LEN(room) as usize;
                        libc::CMSG_DATA(message)
                            .cast::<in_pktinfo>()
                            .write_unaligned(info);
                    }
                }
            }
            // SAFETY: the headers used were just set to point to buffers that outlive the call.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    self.headers.as_mut_ptr(),
                    out.len() as u32,
                    0,
                )
            };
            assert_eq!(sent, out.len() as c_int);
        }

        fn receive(&mut self) -> (usize, u64) {
            for i in 0..BATCH {
                self.header(i, LONG, size_of::<[u64; 12]>());
            }
            // SAFETY: all headers were just set to point to buffers that outlive the call.
            let count = unsafe {
                let headers = self.headers.as_mut_ptr();
                libc::recvmmsg(
                    self.socket.as_raw_fd(),
                    headers,
                    BATCH as u32,
                    0,
                    std::ptr::null_mut(),
                )
            };
            let count = count.max(0) as usize;
            let mut sum = 0;
            for i in 0..count {
                sum += u64::from(self.headers[i].msg_len)
                    + u64::from(u32::from_be(self.names[i].sin_addr.s_addr));
                let header = &self.headers[i].msg_hdr;
                // SAFETY: the system has filled this header's control buffer.
                unsafe {
                    let mut message = libc::CMSG_FIRSTHDR(header);
                    while let Some(some) = message.as_ref() {
                        if (some.cmsg_level, some.cmsg_type) == (libc::IPPROTO_IP, libc::IP_PKTINFO)
                        {
                            let info = libc::CMSG_DATA(message)
                                .cast::<in_pktinfo>()
                                .read_unaligned();
                            sum += u64::from(u32::from_be(info.ipi_spec_dst.s_addr));
                        }
                        message = libc::CMSG_NXTHDR(header, message);
                    }
                }
            }
            (count, sum)
        }

        fn port(&self) -> u16 {
            self.socket.local_addr().unwrap().port()
        }
    }

    /// The wrappers of `nix` 0.31. Its headers serve one call, because it does not reset the
    /// lengths that the system wrote. One set of control messages holds for all datagrams of a
    /// call.
    struct Nix {
        socket: UdpSocket,
        bytes: Vec<[u8; LONG]>,
    }

    impl Io for Nix {
        fn send(&mut self, out: &[Out]) {
            for run in out.chunk_by(|one, other| one.from == other.from) {
                let addresses: [_; BATCH] =
                    std::array::from_fn(|i| run.get(i).map(|out| SockaddrIn::from(out.to)));
                let slices: [_; BATCH] = std::array::from_fn(|i| {
                    [IoSlice::new(
                        &self.bytes[i][..run.get(i).map_or(0, |out| out.length)],
                    )]
                });
                let info = run[0].from.map(|from| in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: in_addr {
                        s_addr: u32::from(from).to_be(),
                    },
                    ipi_addr: in_addr { s_addr: 0 },
                });
                let room = info.map(|_| nix::cmsg_space!(in_pktinfo));
                let control = info
                    .as_ref()
                    .map(|info| [ControlMessage::Ipv4PacketInfo(info)]);
                let control = control.as_ref().map_or(&[][..], |control| &control[..]);
                let fd = self.socket.as_raw_fd();
                let sent = if let [one] = run {
                    let to = SockaddrIn::from(one.to);
                    socket::sendmsg(fd, &slices[0], control, MsgFlags::empty(), Some(&to)).unwrap();
                    1
                } else {
                    let mut headers = MultiHeaders::preallocate(run.len(), room);
                    let slices = &slices[..run.len()];
                    let empty = MsgFlags::empty();
                    socket::sendmmsg(
                        fd,
                        &mut headers,
                        slices,
                        &addresses[..run.len()],
                        control,
                        empty,
                    )
                    .unwrap()
                    .count()
                };
                assert_eq!(sent, run.len());
            }
        }

        fn receive(&mut self) -> (usize, u64) {
            let mut headers = MultiHeaders::<SockaddrIn>::preallocate(
                BATCH,
                Some(nix::cmsg_space!([u64; 2], libc::in6_pktinfo, u32)),
            );
            let mut bytes = self.bytes.iter_mut();
            let mut slices: [_; BATCH] =
                std::array::from_fn(|_| [IoSliceMut::new(bytes.next().unwrap())]);
            let fd = self.socket.as_raw_fd();
            let mut count = 0;
            let mut sum = 0;
            let Ok(all) = socket::recvmmsg(fd, &mut headers, &mut slices, MsgFlags::empty(), None)
            else {
                return (0, 0);
            };
            for message in all {
                count += 1;
                sum += message.bytes as u64 + u64::from(u32::from(message.address.unwrap().ip()));
                for control in message.cmsgs().unwrap() {
                    if let ControlMessageOwned::Ipv4PacketInfo(info) = control {
                        sum += u64::from(u32::from_be(info.ipi_spec_dst.s_addr));
                    }
                }
            }
            (count, sum)
        }

        fn port(&self) -> u16 {
            self.socket.local_addr().unwrap().port()
        }
    }

    struct Hailer {
        socket: Socket,
        inbox: Inbox,
        outbox: Outbox,
    }

    impl Hailer {
        fn new(has_destination: bool, change: impl FnOnce(&mut SocketConfig)) -> Self {
            let at = if has_destination {
                Ipv4Addr::UNSPECIFIED
            } else {
                Ipv4Addr::LOCALHOST
            };
            let mut config = SocketConfig::default();
            config.has_destination = has_destination;
            change(&mut config);
            let socket = Socket::bind((at, 0).into(), &config).unwrap();
            Self {
                socket,
                inbox: Inbox::with_max_length(LONG),
                outbox: Outbox::new(),
            }
        }
    }

    impl Io for Hailer {
        fn fill(&mut self, out: &[Out]) {
            for out in out {
                self.outbox
                    .push(out.to.into(), out.from.map(IpAddr::from), |bytes| {
                        bytes.extend(&[7; LONG][..out.length]);
                    });
            }
        }

        fn send(&mut self, out: &[Out]) {
            assert_eq!(self.socket.send(&mut self.outbox).unwrap(), out.len());
        }

        fn receive(&mut self) -> (usize, u64) {
            let count = self.socket.receive(&mut self.inbox).unwrap();
            let number = |address| {
                if let IpAddr::V4(address) = address {
                    u64::from(u32::from(address))
                } else {
                    0
                }
            };
            let one = |received: hailer_udp::Received<'_>| {
                received.bytes.len() as u64
                    + number(received.from.ip())
                    + received.to.map_or(0, number)
                    + received
                        .waited
                        .map_or(0, |waited| u64::from(waited.subsec_nanos()))
            };
            (count, self.inbox.iter().map(one).sum())
        }

        fn port(&self) -> u16 {
            self.socket.local_addr().port()
        }
    }

    struct Work {
        name: &'static str,
        /// The socket of a responder: on all addresses, with destination addresses.
        has_destination: bool,
        receive: bool,
        length: usize,
    }

    const WORKS: [Work; 4] = [
        Work {
            name: "send to many peers, 20 bytes",
            has_destination: false,
            receive: false,
            length: 20,
        },
        Work {
            name: "receive replies, 300 bytes",
            has_destination: false,
            receive: true,
            length: 300,
        },
        Work {
            name: "receive on any address, 20 bytes",
            has_destination: true,
            receive: true,
            length: 20,
        },
        Work {
            name: "reply from the queried address, 300 bytes",
            has_destination: true,
            receive: false,
            length: 300,
        },
    ];

    fn sample(work: &Work, io: &mut dyn Io, far: &UdpSocket, batch: usize) -> u64 {
        let loopback = |i: usize| Ipv4Addr::new(127, 0, i as u8, 7);
        let mut buffer = [0; LONG];
        let took = if work.receive {
            for i in 0..batch {
                let to = if work.has_destination {
                    loopback(i)
                } else {
                    Ipv4Addr::LOCALHOST
                };
                far.send_to(&buffer[..work.length], (to, io.port()))
                    .unwrap();
            }
            let start = Instant::now();
            let (count, sum) = io.receive();
            let took = start.elapsed();
            assert!(count == batch && sum > 0);
            took
        } else {
            let port = far.local_addr().unwrap().port();
            let out: Vec<_> = (0..batch)
                .map(|i| Out {
                    to: SocketAddrV4::new(
                        if work.has_destination {
                            Ipv4Addr::LOCALHOST
                        } else {
                            loopback(i)
                        },
                        port,
                    ),
                    from: work.has_destination.then(|| loopback(i)),
                    length: work.length,
                })
                .collect();
            io.fill(&out);
            let start = Instant::now();
            io.send(&out);
            start.elapsed()
        };
        while far.recv_from(&mut buffer).is_ok() {}
        took.as_nanos() as u64
    }

    pub(crate) fn main() {
        println!("Medians in ns per datagram, and ratios to the bare loop.");
        for work in &WORKS {
            let far = UdpSocket::bind("0.0.0.0:0").unwrap();
            far.set_nonblocking(true).unwrap();
            let mut loops: Vec<(&str, Box<dyn Io>)> = vec![
                ("bare", Box::new(Bare::new(work.has_destination))),
                (
                    "nix",
                    Box::new(Nix {
                        socket: plain(work.has_destination),
                        bytes: vec![[7; LONG]; BATCH],
                    }),
                ),
                (
                    "hailer-udp",
                    Box::new(Hailer::new(work.has_destination, |_| ())),
                ),
                (
                    "timestamps",
                    Box::new(Hailer::new(work.has_destination, |config| {
                        config.has_timestamps = true;
                    })),
                ),
                (
                    "portable",
                    Box::new(Hailer::new(work.has_destination, |config| {
                        config.is_portable = true;
                    })),
                ),
            ];
            for batch in [1, 8, BATCH] {
                let mut samples = vec![Vec::with_capacity(ROUNDS); loops.len()];
                for _ in 0..ROUNDS {
                    for ((_, io), samples) in loops.iter_mut().zip(&mut samples) {
                        samples.push(sample(work, io.as_mut(), &far, batch));
                    }
                }
                let medians: Vec<_> = samples
                    .iter_mut()
                    .map(|samples| {
                        samples.sort_unstable();
                        samples[ROUNDS / 2] as f64 / batch as f64
                    })
                    .collect();
                print!("{:42} {batch:5}", work.name);
                for ((name, _), median) in loops.iter().zip(&medians) {
                    print!(" {name} {median:7.0} ({:4.2})", median / medians[0]);
                }
                println!();
            }
        }
    }
}
