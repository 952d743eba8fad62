//! The login as data: who may say what, and what it leads to (spec/minecraft-12w.md#6).
//!
//! This file does not know which role we are. Both sides of a connection, a proxy between them and a reader of captures
//! walk the same table. Traffic crosses only once the game has begun, so one state serves both directions.

use crate::build::Build::{self, *};
use crate::packet::PacketDirection::{self, *};
use crate::table::Packet;
use std::fmt;
use std::ops::RangeInclusive;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Nothing was said.
    #[default]
    Start,
    /// The client asked for the server's status.
    Pinged,
    /// The client said who it is.
    Named,
    /// The server told what an account check would need, or that there is none.
    Answered,
    /// The server sent its key.
    KeySent,
    /// The client sent a secret; it encrypts from its next byte on.
    SecretSent,
    /// The server agreed; it encrypts from its next byte on.
    Secured,
    /// The client asked to enter.
    Entering,
    /// The game.
    Play,
    /// One side said goodbye.
    Closed,
}

/// What a packet leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// ConnectionState before; `None` for any.
    pub from: Option<ConnectionState>,
    /// Direction of the packet.
    pub way: PacketDirection,
    /// First byte of the packet.
    pub id: u8,
    /// First and last build that have the transition.
    pub builds: (Build, Build),
    /// ConnectionState after; `None`: the same.
    pub to: Option<ConnectionState>,
    /// Bytes of this direction that follow the packet are encrypted.
    pub encrypts: bool,
}

const ALL: RangeInclusive<Build> = V1_2_4..=V1_3_2;

const fn on(
    from: ConnectionState,
    way: PacketDirection,
    id: u8,
    builds: RangeInclusive<Build>,
    to: ConnectionState,
) -> Transition {
    let builds = (*builds.start(), *builds.end());
    Transition {
        from: Some(from),
        way,
        id,
        builds,
        to: Some(to),
        encrypts: false,
    }
}

const fn any(way: PacketDirection, id: u8, to: Option<ConnectionState>) -> Transition {
    Transition {
        from: None,
        way,
        id,
        builds: (*ALL.start(), *ALL.end()),
        to,
        encrypts: false,
    }
}

const fn encrypting(transition: Transition) -> Transition {
    Transition {
        encrypts: true,
        ..transition
    }
}

/// Every transition before the game; in [`ConnectionState::Play`] all packets but those of the login are welcome. So they are to a
/// client that has asked to enter, since the game's client never minded what comes before its 0x01.
pub const TRANSITIONS: &[Transition] = &[
    on(
        ConnectionState::Start,
        ToServer,
        0xFE,
        ALL,
        ConnectionState::Pinged,
    ),
    on(
        ConnectionState::Start,
        ToServer,
        0x02,
        ALL,
        ConnectionState::Named,
    ),
    // Without encryption: all there is until 12w16a.
    on(
        ConnectionState::Named,
        ToClient,
        0x02,
        V1_2_4..=W16a,
        ConnectionState::Answered,
    ),
    on(
        ConnectionState::Answered,
        ToServer,
        0x01,
        V1_2_4..=W16a,
        ConnectionState::Entering,
    ),
    // With encryption.
    on(
        ConnectionState::Named,
        ToClient,
        0xFD,
        W17a..=V1_3_2,
        ConnectionState::KeySent,
    ),
    encrypting(on(
        ConnectionState::KeySent,
        ToServer,
        0xFC,
        W17a..=V1_3_2,
        ConnectionState::SecretSent,
    )),
    encrypting(on(
        ConnectionState::SecretSent,
        ToClient,
        0xFC,
        W17a..=V1_3_2,
        ConnectionState::Secured,
    )),
    on(
        ConnectionState::Secured,
        ToServer,
        0x01,
        W17a..=W23b,
        ConnectionState::Entering,
    ),
    on(
        ConnectionState::Secured,
        ToServer,
        0xCD,
        W24a..=V1_3_2,
        ConnectionState::Entering,
    ),
    // A client may leave the key unanswered where nobody insists, and a server may skip it all.
    on(
        ConnectionState::KeySent,
        ToServer,
        0x01,
        W17a..=W23b,
        ConnectionState::Entering,
    ),
    on(
        ConnectionState::KeySent,
        ToServer,
        0xCD,
        W24a..=V1_3_2,
        ConnectionState::Entering,
    ),
    on(
        ConnectionState::Named,
        ToClient,
        0x01,
        W17a..=V1_3_2,
        ConnectionState::Play,
    ),
    on(
        ConnectionState::Entering,
        ToClient,
        0x01,
        ALL,
        ConnectionState::Play,
    ),
    // At any time.
    any(ToClient, 0xFF, Some(ConnectionState::Closed)),
    any(ToServer, 0xFF, Some(ConnectionState::Closed)),
    any(ToClient, 0x00, None),
    any(ToServer, 0x00, None),
];

/// Packets of the login that have no place in the game.
const LOGIN_ONLY: &[u8] = &[0x02, 0xFC, 0xFD, 0xFE];

/// A packet that has no place here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnexpectedPacket {
    /// Where the connection stood.
    pub state: ConnectionState,
    /// Direction of the packet.
    pub way: PacketDirection,
    /// Name of the packet.
    pub packet: &'static str,
}

impl fmt::Display for UnexpectedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} is out of place in the state {:?}",
            self.packet, self.way, self.state
        )
    }
}

impl std::error::Error for UnexpectedPacket {}

impl ConnectionState {
    /// The state after a packet, and whether this direction is encrypted from its next byte on.
    pub fn after(
        self,
        packet: &Packet,
        way: PacketDirection,
        build: Build,
    ) -> Result<(Self, bool), UnexpectedPacket> {
        let id = packet.id();
        let unexpected = UnexpectedPacket {
            state: self,
            way,
            packet: packet.name(),
        };
        if self == Self::Closed {
            return Err(unexpected);
        }
        let fits = |transition: &&Transition| {
            let (first, last) = transition.builds;
            (transition.from.is_none() || transition.from == Some(self))
                && (transition.way, transition.id) == (way, id)
                && (first..=last).contains(&build)
        };
        match TRANSITIONS.iter().find(fits) {
            Some(transition) => Ok((transition.to.unwrap_or(self), transition.encrypts)),
            None if self.is_welcome(way) && !LOGIN_ONLY.contains(&id) => Ok((self, false)),
            None => Err(unexpected),
        }
    }

    /// Whether packets of the game may come.
    fn is_welcome(self, way: PacketDirection) -> bool {
        self == Self::Play || self == Self::Entering && way == PacketDirection::ToClient
    }
}
