//! Stateless challenge tokens: proof that a client receives datagrams sent to its address.
//!
//! A token is a keyed hash (SipHash-2-4, 128 bits) of purpose, address, port and [`Epoch`]. The port
//! is 0 unless the option `bind-port` is set. Nothing
//! is stored per client, so a flood of forged addresses takes no memory. Keys rotate; tokens of the
//! previous key stay valid until the next rotation.

use crate::protocol::Doc;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use siphasher::sip128::{Hasher128, SipHasher24};

/// Number of the current 30-second period. Responders get it as an argument; they read no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Length of an epoch in seconds.
    pub const SECONDS: u64 = 30;

    /// Returns the epoch of a Unix time in seconds.
    pub fn at(unix_seconds: u64) -> Self {
        Self((unix_seconds / Self::SECONDS) as u32)
    }

    /// Returns the epoch `periods` periods earlier.
    pub fn before(self, periods: u32) -> Self {
        Self(self.0.wrapping_sub(periods))
    }
}

/// The secrets of tokens: the current one, and the previous one until its tokens have expired.
///
/// Nodes that share a secret accept each other's tokens.
#[derive(Clone)]
pub struct Keys {
    current: [u8; 16],
    previous: Option<[u8; 16]>,
}

impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Keys(secret)")
    }
}

impl Keys {
    /// Creates keys from 16 secret random bytes.
    pub fn new(secret: [u8; 16]) -> Self {
        Self {
            current: secret,
            previous: None,
        }
    }

    /// Rotates to a new secret. Tokens of the old one stay valid until the next rotation.
    #[must_use]
    pub fn rotate(&self, secret: [u8; 16]) -> Self {
        Self {
            current: secret,
            previous: Some(self.current),
        }
    }

    /// Returns these keys if `secret` is the current one, else [rotates](Self::rotate) to it: for
    /// secrets that are read repeatedly.
    #[must_use]
    pub fn renew(&self, secret: [u8; 16]) -> Self {
        if self.current == secret {
            self.clone()
        } else {
            self.rotate(secret)
        }
    }

    /// Returns the tag of tokens sent now.
    pub fn mint(&self, purpose: u8, from: SocketAddr, epoch: Epoch) -> u128 {
        tag(&self.current, purpose, from, epoch)
    }

    /// Returns the tags that a token of that epoch may have: with the current secret and with the
    /// previous one.
    pub fn accepted(
        &self,
        purpose: u8,
        from: SocketAddr,
        epoch: Epoch,
    ) -> impl Iterator<Item = u128> + '_ {
        let secrets = core::iter::once(&self.current).chain(&self.previous);
        secrets.map(move |secret| tag(secret, purpose, from, epoch))
    }
}

/// The option of responders that binds tokens to ports.
pub(crate) const BIND_PORT: Doc = Doc::new(
    "bind-port",
    "Whether a challenge token is valid only for the port that requested it, not for every port of the address; \
           default false: some clients, such as node-gamedig, send each request from another port",
);

/// Returns the address that a token is bound to.
pub(crate) fn owner(from: SocketAddr, is_port_bound: bool) -> SocketAddr {
    let port = if is_port_bound { from.port() } else { 0 };
    SocketAddr::new(from.ip(), port)
}

fn tag(secret: &[u8; 16], purpose: u8, from: SocketAddr, epoch: Epoch) -> u128 {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write_u8(purpose);
    hasher.write_u32(epoch.0);
    // An IPv4 client must get the same token on a dual-stack socket.
    match from.ip().to_canonical() {
        IpAddr::V4(ip) => hasher.write(&ip.octets()),
        IpAddr::V6(ip) => hasher.write(&ip.octets()),
    }
    hasher.write_u16(from.port());
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_tag_is_bound_to_all_it_is_made_of() {
        let keys = Keys::new([1; 16]);
        let tag = keys.mint(0, from("192.0.2.7:5000"), Epoch(9));
        assert_eq!(tag, keys.mint(0, from("[::ffff:192.0.2.7]:5000"), Epoch(9)));
        assert_ne!(tag, keys.mint(1, from("192.0.2.7:5000"), Epoch(9)));
        assert_ne!(tag, keys.mint(0, from("192.0.2.8:5000"), Epoch(9)));
        assert_ne!(tag, keys.mint(0, from("192.0.2.7:5001"), Epoch(9)));
        assert_ne!(tag, keys.mint(0, from("192.0.2.7:5000"), Epoch(10)));
        assert_ne!(
            tag,
            Keys::new([2; 16]).mint(0, from("192.0.2.7:5000"), Epoch(9))
        );
    }

    #[test]
    fn rotation_keeps_one_generation() {
        let client_address = from("192.0.2.7:5000");
        let epoch = Epoch(9);
        let first = Keys::new([1; 16]);
        let tag = first.mint(0, client_address, epoch);
        let second = first.rotate([2; 16]);
        assert!(second.accepted(0, client_address, epoch).any(|t| t == tag));
        assert!(
            !second
                .rotate([3; 16])
                .accepted(0, client_address, epoch)
                .any(|t| t == tag)
        );
        assert!(
            second
                .renew([2; 16])
                .accepted(0, client_address, epoch)
                .any(|t| t == tag),
            "the same again is no rotation"
        );
        assert!(
            !second
                .renew([3; 16])
                .accepted(0, client_address, epoch)
                .any(|t| t == tag)
        );
    }
}
