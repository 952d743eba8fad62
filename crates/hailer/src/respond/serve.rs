//! Responds for one server in one call.
//!
//! In: a status, an address. Out: a running [`ResponderPool`] and its boards.
//!
//! May import: `crate::respond`, `crate::support`, `hailer_proto`.

use super::{Board, ListenError, ListenerConfig, ListenerCounts, PoolConfig, ResponderPool};
use crate::support::catalog;
use crate::support::random_secret;
use hailer_proto::{Keys, OptionError, Options, Protocol, Status, registry};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Responds to queries at an address with this status, until the [`Server`] is dropped.
///
/// | address | responds |
/// | --- | --- |
/// | `127.0.0.1` | in the [default protocols](hailer_proto::registry::DEFAULTS), each at its own port |
/// | `127.0.0.1:25565`, or a [`SocketAddr`] | in these protocols, all at one port |
/// | `ugp://127.0.0.1:22000`, `ugp=127.0.0.1:22000` | in this protocol |
/// | `minecraft://0.0.0.0` | in the protocols of this game, at its query ports |
///
/// Port 0 is any free port, which [`Server::addresses`] returns. Replies have the rate limits of
/// [`PoolConfig::default`], in one thread for each core. For other limits, options of protocols and
/// a relay, use a [`ResponderPool`].
///
/// ```
/// use hailer::proto::{Player, Status, Text};
///
/// let mut status = Status {
///     motd: Some(Text::legacy("Hello")),
///     ..Status::default()
/// };
/// let server = hailer::serve(&status, "minecraft-query://127.0.0.1:0")?;
/// let address = server.addresses()[0];
/// status.players.set_list(vec![Player::named(Text::unformatted("Alice"))]);
/// server.publish(&status)?;
/// let answer = hailer::blocking::query(format!("minecraft-query://{address}"))?;
/// assert_eq!(answer.status.players.list[0].name.plain(), "Alice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The address is invalid or in use, or a protocol has no responder or cannot send this status.
pub fn serve(status: &Status, address: impl fmt::Display) -> Result<Server, ServeError> {
    let places = places(&address.to_string())?;
    // The same keys, so that a client may change the port between two requests.
    let keys = Keys::new(random_secret());
    let mut listeners = Vec::new();
    for (address, protocols) in places {
        let protocols = protocols.into_iter();
        let protocols = protocols.map(|protocol| (protocol, Options::default()));
        listeners.push(ListenerConfig {
            address,
            board: Board::with_options(protocols.collect(), keys.clone(), status)?,
            relay: None,
            inherited: None,
        });
    }
    let boards = listeners.iter().map(|listener| listener.board.clone());
    let boards = boards.collect();
    let pool = ResponderPool::start(listeners, &PoolConfig::default())?;
    Ok(Server { pool, boards })
}

/// A server that [`serve`] has started. It stops when it is dropped.
pub struct Server {
    pool: ResponderPool,
    /// One for each address.
    boards: Vec<Board>,
}

impl Server {
    /// Replaces the status. Replies in progress still use the old one.
    ///
    /// # Errors
    /// A protocol cannot send this status. The old status stays.
    pub fn publish(&self, status: &Status) -> Result<(), ServeError> {
        for board in &self.boards {
            board.publish(status)?;
        }
        Ok(())
    }

    /// Stops answering until the next status is published.
    pub fn silence(&self) {
        self.boards.iter().for_each(Board::silence);
    }

    /// Returns the addresses with their ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.pool.addresses()
    }

    /// Returns the counters of each address, at most 200 ms old.
    pub fn counts(&self) -> Vec<ListenerCounts> {
        self.pool.counts()
    }

    /// Blocks the calling thread forever, for programs that only respond.
    pub fn wait(&self) -> ! {
        loop {
            std::thread::park();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.addresses()).finish()
    }
}

/// Reason why [`serve`] did not start, or why a status was not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is invalid, or names an unknown protocol or game.
    #[error("{address:?}: {problem}")]
    Address {
        /// The address, as given.
        address: String,
        /// The problem and how to fix it.
        problem: String,
    },
    /// A protocol cannot send the status.
    #[error("the status cannot be sent: {0}")]
    Status(#[from] OptionError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Addresses, and the protocols at each.
type Places = Vec<(SocketAddr, Vec<&'static dyn Protocol>)>;

/// Parses an address, with the protocols that it names.
fn places(text: &str) -> Result<Places, ServeError> {
    let wrong = |problem: String| ServeError::Address {
        address: text.chars().take(300).collect(),
        problem,
    };
    let (word, place) = match text.split_once("://").or_else(|| text.split_once('=')) {
        Some((word, place)) => (Some(word), place.strip_suffix('/').unwrap_or(place)),
        None => (None, text),
    };
    let protocols = match word {
        None => registry::defaults()
            .map(|protocol| (protocol, protocol.info().port))
            .collect(),
        Some(word) => named(word).map_err(wrong)?,
    };
    if let Ok(address) = place.parse::<SocketAddr>() {
        let protocols = protocols.into_iter().map(|(protocol, _)| protocol);
        return Ok(vec![(address, protocols.collect())]);
    }
    let ip = place.trim_start_matches('[').trim_end_matches(']');
    let ip: IpAddr = ip.parse().map_err(|_| {
        wrong(
            "expected ADDRESS, ADDRESS:PORT or PROTOCOL://ADDRESS:PORT, such as 127.0.0.1:25565"
                .into(),
        )
    })?;
    let mut places = Places::new();
    for (protocol, port) in protocols {
        let address = SocketAddr::new(ip, port);
        match places.iter_mut().find(|(known, _)| *known == address) {
            Some((_, protocols)) => protocols.push(protocol),
            None => places.push((address, vec![protocol])),
        }
    }
    Ok(places)
}

/// Returns the responders of a protocol or a game, at least one, with their ports.
fn named(word: &str) -> Result<Vec<(&'static dyn Protocol, u16)>, String> {
    let word = word.to_ascii_lowercase();
    if let Some(protocol) = catalog::protocol(&word) {
        let info = protocol.info();
        return match info.has_responder {
            true => Ok(vec![(protocol, info.port)]),
            false => Err(format!("{} has no responder", info.title)),
        };
    }
    let Some(game) = catalog::game(&word) else {
        return Err(match catalog::suggestion(&word) {
            Some(id) => format!("unknown protocol or game; did you mean `{id}`?"),
            None => "unknown protocol or game".into(),
        });
    };
    let protocols = catalog::protocols_of(game).into_iter();
    let protocols = protocols.filter(|protocol| protocol.info().has_responder);
    let with_port = |protocol: &'static dyn Protocol| {
        let info = protocol.info();
        let ports = game.query_ports_in(info.id, None);
        (protocol, ports.first().copied().unwrap_or(info.port))
    };
    let protocols: Vec<_> = protocols.map(with_port).collect();
    if protocols.is_empty() {
        return Err(format!("no protocol of {} has a responder", game.name));
    }
    Ok(protocols)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the places of an address as `ADDRESS: PROTOCOLS` each.
    fn shown(text: &str) -> Result<Vec<String>, String> {
        let shown = |(address, protocols): &(SocketAddr, Vec<&'static dyn Protocol>)| {
            let ids: Vec<&str> = protocols
                .iter()
                .map(|protocol| protocol.info().id)
                .collect();
            format!("{address}: {}", ids.join(" "))
        };
        let places = places(text).map_err(|error| error.to_string())?;
        Ok(places.iter().map(shown).collect())
    }

    #[test]
    fn addresses_name_protocols_and_ports() {
        for (text, expected) in [
            (
                "127.0.0.1",
                &[
                    "127.0.0.1:25565: minecraft-query",
                    "127.0.0.1:22000: ugp",
                    "127.0.0.1:5520: onequery",
                ][..],
            ),
            ("[::1]:7", &["[::1]:7: minecraft-query ugp onequery"]),
            ("ugp://[::1]", &["[::1]:22000: ugp"]),
            ("UGP=127.0.0.1:0", &["127.0.0.1:0: ugp"]),
            ("valheim://127.0.0.1", &["127.0.0.1:2457: a2s"]),
        ] {
            assert_eq!(shown(text).unwrap(), expected, "{text}");
        }
        for (text, problem) in [
            ("example.com", "expected ADDRESS"),
            ("127.0.0.1:65536", "expected ADDRESS"),
            ("ugq://127.0.0.1", "did you mean `ugp`?"),
            ("savage2://127.0.0.1", "Savage 2 has no responder"),
            ("squad://127.0.0.1", "no protocol of Squad has a responder"),
        ] {
            let error = shown(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
