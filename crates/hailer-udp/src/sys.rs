//! The two system calls for batches, and all the `unsafe` of the workspace.
//!
//! `nix` wraps both calls safely, but allocates its headers anew for each, and has one source address for all datagrams
//! of a call. `benches/batch.rs` shows what that costs: a fifth of a receive that finds one datagram, a tenth of answers
//! from many addresses. Addresses and control messages are plain bytes here, which safe code reads and writes
//! ([`Envelope`]); what is left to argue is that each pointer points to what outlives the call, with its true length.
#![allow(unsafe_code)]

use crate::BATCH;
use crate::envelope::Envelope;
use libc::{c_int, c_uint, iovec, mmsghdr};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// What the header of a datagram points to.
struct Parcel {
    envelope: Envelope,
    payload: iovec,
}

/// Sends the first [`BATCH`] of these by one call, which does not wait. Returns how many were sent; an error is the
/// first one's, or an earlier datagram's.
pub(crate) fn send<'a>(
    socket: BorrowedFd<'_>,
    datagrams: impl Iterator<Item = (Envelope, &'a [u8])>,
) -> io::Result<usize> {
    let mut parcels = [const { MaybeUninit::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::uninit() }; BATCH];
    let mut count = 0;
    for ((parcel, header), (envelope, bytes)) in parcels.iter_mut().zip(&mut headers).zip(datagrams)
    {
        let payload = iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        header.write(address(parcel.write(Parcel { envelope, payload })));
        count += 1;
    }
    // SAFETY: the first `count` headers are initialized. They point into `parcels`, which stays where it is until the
    // end of this function, and from there to payloads that are borrowed for 'a, which the call only reads.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives into these slots, at most [`BATCH`], by one call, which does not wait. Tells of each datagram, in order of the
/// slots, its length and its envelope. Returns how many came. `flags`: [`libc::MSG_ERRQUEUE`] or 0.
pub(crate) fn receive<'a>(
    socket: BorrowedFd<'_>,
    flags: c_int,
    slots: impl Iterator<Item = &'a mut [u8]>,
    mut hear: impl FnMut(usize, &Envelope),
) -> io::Result<usize> {
    let mut parcels = [const { MaybeUninit::<Parcel>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    for ((parcel, header), slot) in parcels.iter_mut().zip(&mut headers).zip(slots) {
        let payload = iovec {
            iov_base: slot.as_mut_ptr().cast(),
            iov_len: slot.len(),
        };
        header.write(address(parcel.write(Parcel {
            envelope: Envelope::room(),
            payload,
        })));
        count += 1;
    }
    // SAFETY: the first `count` headers are initialized. They point into `parcels`, which stays where it is until the
    // end of this function, and from there to slots that are borrowed mutably, and apart from each other, for 'a. All
    // of it is bytes, for which whatever the call writes is a value.
    let received = unsafe {
        let flags = flags | libc::MSG_DONTWAIT;
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as c_uint,
            flags as _,
            ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (parcel, header) in parcels.iter_mut().zip(&headers).take(received.min(count)) {
        // SAFETY: the first `count` of both are initialized, and no pointer to them is used any more.
        let (parcel, header) = unsafe { (parcel.assume_init_mut(), header.assume_init_ref()) };
        parcel.envelope.filled(
            header.msg_hdr.msg_namelen as _,
            header.msg_hdr.msg_controllen as _,
        );
        hear(
            (header.msg_len as usize).min(parcel.payload.iov_len),
            &parcel.envelope,
        );
    }
    Ok(received)
}

/// A header that points to all parts of the parcel.
fn address(parcel: &mut Parcel) -> mmsghdr {
    // SAFETY: a plain C structure, for which all zeros is a value. (Some systems have padding in it that has no name.)
    let mut header: mmsghdr = unsafe { zeroed() };
    let outside = &mut header.msg_hdr;
    let (name, control) = parcel.envelope.parts();
    (outside.msg_name, outside.msg_namelen) = (name.as_mut_ptr().cast(), name.len() as _);
    (outside.msg_control, outside.msg_controllen) =
        (control.as_mut_ptr().cast(), control.len() as _);
    (outside.msg_iov, outside.msg_iovlen) = (&raw mut parcel.payload, 1);
    header
}
