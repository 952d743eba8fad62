//! Protocols and games as two-byte numbers, so that targets and probes stay small.
//!
//! The numbers below the length of the [registry] are places in it, without a game. Protocols of
//! callers, and protocols with a game, get the next numbers when they are first used. A process has
//! at most [`MAX_KINDS`] numbers; they are never freed.

use crate::support::catalog::{self, CatalogError};
use crate::sweep::{ListError, MAX_KINDS};
use hailer_proto::games::Quirk;
use hailer_proto::minecraft_query;
use hailer_proto::{Game, Protocol, Transport, registry};
use std::fmt;
use std::sync::OnceLock;

/// Kinds outside of the registry, in the order of their first use.
static ADDED: [OnceLock<TargetKind>; MAX_KINDS] = [const { OnceLock::new() }; MAX_KINDS];

/// Protocol of a probe, and the game whose ports and quirks apply to it.
#[derive(Clone, Copy)]
pub struct TargetKind {
    /// Protocol of the query.
    pub protocol: &'static dyn Protocol,
    /// Game of the server, if the target or the sweep names one.
    pub game: Option<&'static Game>,
}

impl TargetKind {
    /// Returns the port without one from the user or an SRV record.
    pub(crate) fn default_port(self) -> u16 {
        let ports = self.game.map(|game| game.query_ports(None));
        let first = ports.and_then(|ports| ports.first().copied());
        first.unwrap_or(self.protocol.info().port)
    }

    /// Returns the port that players connect to, if the target names a game and a port. `first` is
    /// the port of the first try. Otherwise 0.
    pub(crate) fn game_port(self, first: u16) -> u16 {
        if self.game.is_some() && first != self.default_port() {
            first
        } else {
            0
        }
    }

    /// Returns the SRV service that names the port, if there is one.
    pub(crate) fn srv(self) -> Option<&'static str> {
        match self.game {
            Some(game) => game.srv,
            None => catalog::srv(self.protocol.info().id),
        }
    }

    /// Returns whether servers may reply to a request for players.
    pub(crate) fn has_player_list(self) -> bool {
        self.game
            .is_none_or(|game| !game.quirks.contains(&Quirk::NoPlayerList))
    }

    /// Returns the port to try after `current`, or `None` after the last one. `first` is the port
    /// of the first try.
    pub(crate) fn port_after(self, first: u16, current: u16) -> Option<u16> {
        let game = self.game?;
        let usual = game.query_ports(None);
        let ports = if usual.first() == Some(&first) {
            usual
        } else {
            game.query_ports(Some(first))
        };
        let mut rest = ports.into_iter().skip_while(|port| *port != current);
        rest.nth(1)
    }

    /// Returns whether both have the same protocol and the same game.
    pub(crate) fn is_same(self, other: Self) -> bool {
        let games = (self.game, other.game);
        let has_same_game = match games {
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        has_same_game && std::ptr::eq(self.protocol.info(), other.protocol.info())
    }
}

impl From<&'static dyn Protocol> for TargetKind {
    fn from(protocol: &'static dyn Protocol) -> Self {
        Self {
            protocol,
            game: None,
        }
    }
}

impl fmt::Debug for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let game = self.game.map(|game| game.id);
        write!(f, "TargetKind({}, {game:?})", self.protocol.info().id)
    }
}

/// Number of a [`TargetKind`].
pub(crate) type KindNumber = u16;

/// A protocol, perhaps with a game, and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Service {
    pub(crate) kind: KindNumber,
    pub(crate) port: u16,
}

/// Returns the number of a kind, or `None` if all numbers are in use.
pub(crate) fn number_of(kind: TargetKind) -> Option<KindNumber> {
    let in_registry = registry::PROTOCOLS
        .iter()
        .position(|known| kind.is_same(TargetKind::from(*known)));
    if let Some(number) = in_registry {
        return KindNumber::try_from(number).ok();
    }
    for (place, number) in ADDED.iter().zip(registry::PROTOCOLS.len()..MAX_KINDS) {
        if kind.is_same(*place.get_or_init(|| kind)) {
            return KindNumber::try_from(number).ok();
        }
    }
    None
}

/// Returns the number of a protocol without a game.
pub(crate) fn number_of_protocol(protocol: &'static dyn Protocol) -> Result<KindNumber, ListError> {
    if protocol.info().transport == Transport::Http {
        return Err(ListError::Http(protocol.info().title));
    }
    number_of(protocol.into()).ok_or(ListError::TooManyKinds)
}

/// Returns the numbers of a game, one for each of its protocols other than those over HTTP.
pub(crate) fn numbers_of_game(game: &'static Game) -> Result<Vec<KindNumber>, ListError> {
    let mut protocols = catalog::protocols_of(game);
    protocols.retain(|protocol| protocol.info().transport != Transport::Http);
    if protocols.is_empty() {
        return Err(ListError::Http(game.name));
    }
    let kinds = protocols.into_iter().map(|protocol| TargetKind {
        protocol,
        game: Some(game),
    });
    kinds
        .map(|kind| number_of(kind).ok_or(ListError::TooManyKinds))
        .collect()
}

/// Returns the kind with a number that [`number_of`] returned.
pub(crate) fn kind(number: KindNumber) -> TargetKind {
    let number = usize::from(number);
    let known = registry::PROTOCOLS.get(number).copied();
    let added = || {
        ADDED
            .get(number.checked_sub(registry::PROTOCOLS.len())?)?
            .get()
    };
    // Only numbers from `number_of` get here, so there is always a kind.
    match known {
        Some(protocol) => protocol.into(),
        None => added().copied().unwrap_or(TargetKind {
            protocol: &minecraft_query::PROTOCOL,
            game: None,
        }),
    }
}

/// Returns whether the protocol of the kind with this number uses streams.
pub(crate) fn is_stream(number: KindNumber) -> bool {
    kind(number).protocol.info().transport == Transport::Stream
}

/// Protocols and game of targets that name neither.
#[derive(Clone, Debug)]
pub struct DefaultKinds {
    pub(crate) numbers: Vec<KindNumber>,
    pub(crate) game: Option<&'static Game>,
}

impl DefaultKinds {
    /// Queries them in each of these protocols or, if there are none, in the
    /// [default ones](registry::DEFAULTS).
    ///
    /// # Errors
    ///
    /// Returns an error if the process has used too many protocols and games.
    pub fn new(protocols: &[&'static dyn Protocol]) -> Result<Self, ListError> {
        let chosen = match protocols {
            [] => registry::defaults().collect(),
            some => some.to_vec(),
        };
        let numbers = chosen.into_iter().map(number_of_protocol);
        let mut numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self {
            numbers,
            game: None,
        })
    }

    /// Queries them as servers of a game.
    ///
    /// # Errors
    ///
    /// Returns an error if servers of the game cannot be queried, or if the process has used too
    /// many protocols and games.
    pub fn of_game(game: &'static Game) -> Result<Self, ListError> {
        if let Some(problem) = catalog::obstacle(game) {
            let id = game.id.into();
            return Err(ListError::Game(CatalogError { id, problem }));
        }
        Ok(Self {
            numbers: numbers_of_game(game)?,
            game: Some(game),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::games::QueryPort;

    #[test]
    fn every_number_leads_back_to_its_kind() {
        let protocol = registry::find("a2s").unwrap();
        for game in [
            None,
            hailer_proto::games::find("rust"),
            hailer_proto::games::find("7dtd"),
        ] {
            let wanted = TargetKind { protocol, game };
            let number = number_of(wanted).unwrap();
            assert!(kind(number).is_same(wanted), "{wanted:?}");
            assert_eq!(number_of(wanted), Some(number));
        }
    }

    #[test]
    fn ports_follow_each_other_once() {
        use QueryPort::{FirstOf, Fixed, Offset, Same};
        let kind = |query| TargetKind {
            protocol: registry::find("a2s").unwrap(),
            game: Some(Box::leak(Box::new(Game {
                id: "ports-test",
                name: "Ports Test",
                protocols: &["a2s"],
                port: Some(100),
                query,
                srv: None,
                quirks: &[],
                sources: "",
                aliases: &[],
            }))),
        };
        let ports = |query, first| {
            let kind = kind(query);
            let next = |current: &u16| kind.port_after(first, *current);
            std::iter::successors(Some(first), next).collect::<Vec<u16>>()
        };
        assert_eq!(ports(Same, 100), [100]);
        assert_eq!(ports(Same, 7), [7]);
        assert_eq!(ports(Fixed(200), 200), [200]);
        assert_eq!(ports(Fixed(200), 7), [7, 200]);
        assert_eq!(ports(Offset(1), 101), [101]);
        assert_eq!(ports(Offset(1), 7), [7, 8]);
        assert_eq!(ports(FirstOf(&[Same, Offset(1)]), 100), [100, 101]);
        assert_eq!(ports(FirstOf(&[Same, Offset(1)]), 7), [7, 8]);
        assert_eq!(
            TargetKind {
                game: None,
                ..kind(Same)
            }
            .port_after(1, 1),
            None
        );
    }
}
