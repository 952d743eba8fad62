//! Protocols as one-byte numbers, so that targets and probes stay small.
//!
//! The numbers below the length of the [registry] are places in it. Protocols of callers get the
//! next numbers when they are first used. A process has at most 256 numbers; they are never freed.

use hailer_proto::minecraft_query::MinecraftQuery;
use hailer_proto::{Protocol, Transport, registry};
use std::sync::OnceLock;

/// How many protocols one process can use in sweeps.
pub(super) const MAX_PROTOCOLS: usize = 1 << u8::BITS;

/// Protocols outside of the registry, in the order of their first use.
static ADDED: [OnceLock<&'static dyn Protocol>; MAX_PROTOCOLS] =
    [const { OnceLock::new() }; MAX_PROTOCOLS];

/// A protocol and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Service {
    /// Number of the protocol.
    pub(super) protocol: u8,
    pub(super) port: u16,
}

/// Returns the number of a protocol, or `None` if all numbers are in use.
pub(super) fn number_of(protocol: &'static dyn Protocol) -> Option<u8> {
    let is_same = |known: &dyn Protocol| std::ptr::eq(known.info(), protocol.info());
    for (number, known) in registry::PROTOCOLS.iter().enumerate() {
        if is_same(*known) {
            return u8::try_from(number).ok();
        }
    }
    for (place, number) in ADDED.iter().zip(registry::PROTOCOLS.len()..MAX_PROTOCOLS) {
        if is_same(*place.get_or_init(|| protocol)) {
            return u8::try_from(number).ok();
        }
    }
    None
}

/// Returns the protocol with a number that [`number_of`] returned.
pub(super) fn protocol(number: u8) -> &'static dyn Protocol {
    let number = usize::from(number);
    let known = registry::PROTOCOLS.get(number).copied();
    let added = || {
        ADDED
            .get(number.checked_sub(registry::PROTOCOLS.len())?)?
            .get()
    };
    // Only numbers from `number_of` get here, so there is always a protocol.
    known
        .or_else(|| added().copied())
        .unwrap_or(&MinecraftQuery)
}

/// Returns whether the protocol with this number uses streams.
pub(super) fn is_stream(number: u8) -> bool {
    protocol(number).info().transport == Transport::Stream
}
