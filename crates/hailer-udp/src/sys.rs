//! The two system calls for batches, a socket option, and all the `unsafe` code of the workspace.
//!
//! `nix` has safe wrappers of both calls, but they allocate their headers for each call, and have
//! one source address for all datagrams of a call. `benches/batch.rs` shows the cost: a fifth of a
//! call that receives one datagram, a tenth of replies from many addresses. Here, addresses and
//! control messages are plain bytes, which safe code reads and writes ([`Envelope`]). The safety
//! arguments are therefore only that each pointer outlives the call, and that lengths are right.
#![allow(unsafe_code)]

use crate::BATCH;
use crate::envelope::Envelope;
use libc::{c_int, c_uint, iovec, mmsghdr, socklen_t};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The data that a datagram's header points to.
struct DatagramData<const CONTROL: usize> {
    envelope: Envelope<CONTROL>,
    payload: iovec,
}

/// Sends the first [`BATCH`] of these datagrams by one non-blocking call. Returns the number sent.
/// An error belongs to the first datagram, or to one of an earlier call.
pub(crate) fn send<'a, const CONTROL: usize>(
    socket: BorrowedFd<'_>,
    datagrams: impl Iterator<Item = (Envelope<CONTROL>, &'a [u8])>,
) -> io::Result<usize> {
    let mut messages = [const { MaybeUninit::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::uninit() }; BATCH];
    let mut count = 0;
    for ((message, header), (envelope, bytes)) in
        messages.iter_mut().zip(&mut headers).zip(datagrams)
    {
        let payload = iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        header.write(address(message.write(DatagramData { envelope, payload })));
        count += 1;
    }
    // SAFETY: the first `count` headers are initialized. They point into `messages`, which does not
    // move until the end of this function, and from there to payloads that are borrowed for 'a,
    // which the call only reads.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as c_uint,
            // The type is unsigned in musl.
            libc::MSG_DONTWAIT as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives into the first [`BATCH`] of these slots by one non-blocking call. Calls `received` for
/// each datagram, in the order of the slots, with its length and its envelope. Returns the number
/// of datagrams. `flags`: [`libc::MSG_ERRQUEUE`] or 0.
pub(crate) fn receive<'a, const CONTROL: usize>(
    socket: BorrowedFd<'_>,
    flags: c_int,
    slots: impl Iterator<Item = &'a mut [u8]>,
    mut received: impl FnMut(usize, &Envelope<CONTROL>),
) -> io::Result<usize> {
    let mut messages = [const { MaybeUninit::<DatagramData<CONTROL>>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    for ((message, header), slot) in messages.iter_mut().zip(&mut headers).zip(slots) {
        let payload = iovec {
            iov_base: slot.as_mut_ptr().cast(),
            iov_len: slot.len(),
        };
        header.write(address(message.write(DatagramData {
            envelope: Envelope::room(),
            payload,
        })));
        count += 1;
    }
    // SAFETY: the first `count` headers are initialized. They point into `messages`, which does not
    // move until the end of this function, and from there to slots that are borrowed mutably and
    // separately for 'a. All of it is bytes, for which every value is valid.
    let result = unsafe {
        let flags = flags | libc::MSG_DONTWAIT;
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as c_uint,
            flags as _,
            ptr::null_mut(),
        )
    };
    let count_received = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
    for (message, header) in messages
        .iter_mut()
        .zip(&headers)
        .take(count_received.min(count))
    {
        // SAFETY: the first `count` of both are initialized, and no pointer to them is used after
        // the call.
        let (message, header) = unsafe { (message.assume_init_mut(), header.assume_init_ref()) };
        message.envelope.filled(
            header.msg_hdr.msg_namelen as _,
            header.msg_hdr.msg_controllen as _,
        );
        received(
            (header.msg_len as usize).min(message.payload.iov_len),
            &message.envelope,
        );
    }
    Ok(count_received)
}

/// Returns a header that points to all parts of the message.
fn address<const CONTROL: usize>(message: &mut DatagramData<CONTROL>) -> mmsghdr {
    // SAFETY: a plain C structure, for which all zeros is a valid value. (On some systems it has
    // unnamed padding.)
    let mut header: mmsghdr = unsafe { zeroed() };
    let outside = &mut header.msg_hdr;
    let (name, control) = message.envelope.parts();
    outside.msg_name = name.as_mut_ptr().cast();
    outside.msg_namelen = name.len() as _;
    outside.msg_control = control.as_mut_ptr().cast();
    outside.msg_controllen = control.len() as _;
    outside.msg_iov = &raw mut message.payload;
    outside.msg_iovlen = 1;
    header
}

/// Returns how many datagrams the receive queue of a socket has lost. Wraps around.
pub(crate) fn drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;
    let mut values = [0_u32; DROPS + 1];
    let mut length = size_of_val(&values) as socklen_t;
    // SAFETY: the pointers are to local values, and the call writes at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    match result {
        0 if length as usize == size_of_val(&values) => Ok(values[DROPS]),
        0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}
