//! Detects players who join a game over UDP, without a state for each client (spec/joins.md).
//!
//! ```text
//!   datagram ─► JoinDetector::detect ─► Challenge   a reply with a token, which the client returns
//!                                   ├─► Join        the token came back, so the source is real
//!                                   └─► Drop, Pass  invalid, or of another protocol
//! ```
//!
//! A detector answers the first steps of a game's handshake in place of the game, up to the
//! datagram that only a client sends that received the token. Then a game can be started for it.
//!
//! May import: `crate::protocol`, `crate::protocols`, `crate::token`, `crate::wire`.

mod enet;
mod quic;
mod raknet;
mod source;

use crate::protocol::{Amplification, JoinAttempt};
use crate::token::{Epoch, Keys};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use subtle::ConstantTimeEq;

/// All ways to join over UDP that Hailer knows.
pub static FAMILIES: &[&JoinFamily] = &[
    &raknet::FAMILY,
    &quic::FAMILY,
    &source::FAMILY,
    &enet::FAMILY,
];

/// Epochs in which a token is accepted: its own and the next two, so 60 to 90 s.
const GENERATIONS: u32 = 3;
/// Longest name of a player in bytes.
const MAX_NAME: usize = 64;

/// Returns the family with this id.
pub fn find(id: &str) -> Option<&'static JoinFamily> {
    FAMILIES.iter().copied().find(|family| family.id == id)
}

/// Returns the family by which clients join the games of a protocol, if Hailer knows it.
pub fn of_protocol(id: &str) -> Option<&'static JoinFamily> {
    let mut families = FAMILIES.iter().copied();
    families.find(|family| family.protocols.contains(&id))
}

/// Games whose clients join in the same way.
pub struct JoinFamily {
    /// Name in kebab case, for configurations.
    pub id: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Ids of the query protocols whose games join this way.
    pub protocols: &'static [&'static str],
    /// Largest challenge, in relation to its request.
    pub amplification: Amplification,
    detector: fn(&Keys) -> Arc<dyn JoinDetector>,
}

impl JoinFamily {
    /// Returns the detector of this family. Its tokens are valid for detectors with the same keys.
    pub fn detector(&self, keys: &Keys) -> Arc<dyn JoinDetector> {
        (self.detector)(keys)
    }
}

impl fmt::Debug for JoinFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinFamily({})", self.id)
    }
}

/// Detects joins of one family. It is immutable, takes no lock and reads no clock. It allocates
/// nothing beyond the caller's buffer, except for a long name of a verified client.
pub trait JoinDetector: Send + Sync {
    /// Handles one datagram. With [`JoinVerdict::Challenge`], a reply was appended to `out`;
    /// otherwise `out` is unchanged.
    fn detect(
        &self,
        from: SocketAddr,
        epoch: Epoch,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> JoinVerdict;

    /// Appends what ends the attempt of a client that sent `_join`, a datagram with
    /// [`JoinVerdict::Join`]. `_reason` is for the player. `_may_wait`: the client may
    /// wait for the game, so it is ended only if it cannot continue with the game after our challenge.
    /// Returns `false` and leaves `_out` unchanged if nothing is to be sent.
    fn dismiss(&self, _join: &[u8], _reason: &str, _may_wait: bool, _out: &mut Vec<u8>) -> bool {
        false
    }
}

/// Decision of a detector about a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinVerdict {
    /// Send the challenge. The source is not verified.
    Challenge,
    /// The client joins, and its source is verified.
    Join(JoinAttempt),
    /// The datagram belongs to this family and gets no reply. The text is the reason, for counters.
    Drop(&'static str),
    /// The datagram does not belong to this family.
    Pass,
}

/// Tokens of one purpose, bound to address and port.
#[derive(Clone, Debug)]
struct Tokens {
    keys: Keys,
    /// Makes the tokens differ from others with the same keys.
    purpose: u8,
}

impl Tokens {
    fn new(keys: &Keys, purpose: u8) -> Self {
        Self {
            keys: keys.clone(),
            purpose,
        }
    }

    /// Returns the token for a source.
    fn mint(&self, from: SocketAddr, epoch: Epoch) -> u128 {
        self.keys.mint(self.purpose, from, epoch)
    }

    /// Returns all tokens that a source may have now.
    fn accepted(&self, from: SocketAddr, epoch: Epoch) -> impl Iterator<Item = u128> + '_ {
        (0..GENERATIONS)
            .flat_map(move |age| self.keys.accepted(self.purpose, from, epoch.before(age)))
    }

    /// Returns whether a client has returned the low 32 bits of its token.
    fn is_low(&self, from: SocketAddr, epoch: Epoch, low: u32, mask: u32) -> bool {
        let mut accepted = self.accepted(from, epoch);
        accepted.any(|token| bool::from((token as u32 & mask).ct_eq(&low)))
    }
}

/// Returns `N` bytes from an offset on.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Returns the name of a player from unverified bytes: UTF-8 or ISO-8859-1, cut to 64 bytes.
fn player_name(bytes: &[u8]) -> compact_str::CompactString {
    let text =
        crate::wire::utf8_or_latin1(bytes.get(..bytes.len().min(MAX_NAME)).unwrap_or(bytes)).0;
    crate::wire::cut(&text, MAX_NAME).into()
}
