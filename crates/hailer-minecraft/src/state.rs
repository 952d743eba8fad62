//! States of a connection: which packets the login allows, and where they lead
//! (spec/minecraft-12w.md#6).
//!
//! Clients, servers, proxies and readers of captures use the same table. Both sides send at the
//! same time only in the game, so one state serves both directions.

use crate::build::Build::{self, *};
use crate::packet::PacketDirection::{self, *};
use crate::table::Packet;
use std::fmt;
use std::ops::RangeInclusive;

/// State of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// No packet was sent.
    #[default]
    Start,
    /// The client requested the status.
    Pinged,
    /// The client sent its handshake.
    Named,
    /// The server replied with the id for the account check, or that there is none.
    Answered,
    /// The server sent its key.
    KeySent,
    /// The client sent a secret. Its next byte is encrypted.
    SecretSent,
    /// The server accepted the secret. Its next byte is encrypted.
    Secured,
    /// The client requested the login.
    Entering,
    /// The login is complete.
    Play,
    /// One side disconnected.
    Closed,
}

/// Transition between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// State before the packet; `None` for any.
    pub from: Option<ConnectionState>,
    /// Direction of the packet.
    pub direction: PacketDirection,
    /// First byte of the packet.
    pub id: u8,
    /// First and last build that have the transition.
    pub builds: (Build, Build),
    /// State after the packet; `None` for the same.
    pub to: Option<ConnectionState>,
    /// Whether the following bytes of this direction are encrypted.
    pub is_encrypted_after: bool,
}

const ALL: RangeInclusive<Build> = V1_2_4..=V1_3_2;

const fn on(
    from: ConnectionState,
    direction: PacketDirection,
    id: u8,
    builds: RangeInclusive<Build>,
    to: ConnectionState,
) -> Transition {
    let builds = (*builds.start(), *builds.end());
    Transition {
        from: Some(from),
        direction,
        id,
        builds,
        to: Some(to),
        is_encrypted_after: false,
    }
}

const fn any(direction: PacketDirection, id: u8, to: Option<ConnectionState>) -> Transition {
    Transition {
        from: None,
        direction,
        id,
        builds: (*ALL.start(), *ALL.end()),
        to,
        is_encrypted_after: false,
    }
}

const fn encrypting(transition: Transition) -> Transition {
    Transition {
        is_encrypted_after: true,
        ..transition
    }
}

/// All transitions before the game. In [`ConnectionState::Play`] all packets except those of the
/// login are allowed. A client that has requested the login accepts them too, because the game's
/// client does not check what precedes its 0x01.
pub const TRANSITIONS: &[Transition] = {
    use ConnectionState::*;
    &[
        on(Start, ToServer, 0xFE, ALL, Pinged),
        on(Start, ToServer, 0x02, ALL, Named),
        // Without encryption, until 12w16a.
        on(Named, ToClient, 0x02, V1_2_4..=W16a, Answered),
        on(Answered, ToServer, 0x01, V1_2_4..=W16a, Entering),
        // With encryption.
        on(Named, ToClient, 0xFD, W17a..=V1_3_2, KeySent),
        encrypting(on(KeySent, ToServer, 0xFC, W17a..=V1_3_2, SecretSent)),
        encrypting(on(SecretSent, ToClient, 0xFC, W17a..=V1_3_2, Secured)),
        on(Secured, ToServer, 0x01, W17a..=W23b, Entering),
        on(Secured, ToServer, 0xCD, W24a..=V1_3_2, Entering),
        // If encryption is optional, a client may ignore the key, and a server may skip it.
        on(KeySent, ToServer, 0x01, W17a..=W23b, Entering),
        on(KeySent, ToServer, 0xCD, W24a..=V1_3_2, Entering),
        on(Named, ToClient, 0x01, W17a..=V1_3_2, Play),
        on(Entering, ToClient, 0x01, ALL, Play),
        // At any time.
        any(ToClient, 0xFF, Some(Closed)),
        any(ToServer, 0xFF, Some(Closed)),
        any(ToClient, 0x00, None),
        any(ToServer, 0x00, None),
    ]
};

/// Packets that are not allowed in the game.
const LOGIN_ONLY: &[u8] = &[0x02, 0xFC, 0xFD, 0xFE];

/// Packet that is not allowed in the state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnexpectedPacket {
    /// State of the connection.
    pub state: ConnectionState,
    /// Direction of the packet.
    pub direction: PacketDirection,
    /// Name of the packet.
    pub packet: &'static str,
}

impl fmt::Display for UnexpectedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} is out of place in the state {:?}",
            self.packet, self.direction, self.state
        )
    }
}

impl std::error::Error for UnexpectedPacket {}

impl ConnectionState {
    /// Returns the state after a packet, and whether the following bytes of its direction are
    /// encrypted.
    ///
    /// # Errors
    /// The packet is not allowed in this state.
    pub fn after(
        self,
        packet: &Packet,
        direction: PacketDirection,
        build: Build,
    ) -> Result<(Self, bool), UnexpectedPacket> {
        let id = packet.id();
        let unexpected = UnexpectedPacket {
            state: self,
            direction,
            packet: packet.name(),
        };
        if self == Self::Closed {
            return Err(unexpected);
        }
        let fits = |transition: &&Transition| {
            let (first, last) = transition.builds;
            (transition.from.is_none() || transition.from == Some(self))
                && (transition.direction, transition.id) == (direction, id)
                && (first..=last).contains(&build)
        };
        match TRANSITIONS.iter().find(fits) {
            Some(transition) => Ok((transition.to.unwrap_or(self), transition.is_encrypted_after)),
            None if self.is_welcome(direction) && !LOGIN_ONLY.contains(&id) => Ok((self, false)),
            None => Err(unexpected),
        }
    }

    /// Returns whether packets of the game are allowed.
    fn is_welcome(self, direction: PacketDirection) -> bool {
        self == Self::Play || self == Self::Entering && direction == PacketDirection::ToClient
    }
}
