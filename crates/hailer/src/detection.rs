//! Detection of the protocol of a host.
//!
//! A host is probed in waves: first in the protocols that servers at its port, or at a known port just
//! below, usually speak, or else in the most common ones; then, only if nothing has replied within
//! [`WAVE_DELAY`], in others.
//! Before the first answer, at most [`MAX_DATAGRAMS`] datagrams are sent and at most
//! [`MAX_CONNECTIONS`] connections opened. A service that has replied in any way gets more.

use crate::catalog;
use hailer_proto::games::Game;
use hailer_proto::registry::{self, Wave};
use hailer_proto::{Protocol, Transport};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Time after which the second wave starts if nothing has replied.
pub(crate) const WAVE_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of datagrams before the first answer.
pub(crate) const MAX_DATAGRAMS: u32 = 12;
/// Maximum number of connections before the first answer.
pub(crate) const MAX_CONNECTIONS: u32 = 2;
/// Maximum number of datagram protocols tried. The rest of [`MAX_DATAGRAMS`] is for retries.
const MAX_DATAGRAM_PROTOCOLS: usize = 8;
/// Maximum number of datagram protocols in the first wave.
const MAX_FIRST: usize = 4;
/// Further servers on one machine usually have the next ports after a game's port: this many.
const MAX_NEXT_PORTS: u16 = 9;

/// Returns the protocols to try, in waves. `port` is the one given by the user.
pub(crate) fn waves(port: Option<u16>) -> [Vec<&'static dyn Protocol>; 2] {
    let mut protocols = catalog::protocols();
    protocols.sort_by_key(|protocol| registry::detection(protocol.info().id).0);
    let port = port.map(known_port);
    let usual = port.map(usual_protocols);
    let is_at_home = |protocol: &dyn Protocol| match (&usual, port) {
        (Some(usual), Some(port)) => {
            protocol.info().port == port || usual.contains(&protocol.info().id)
        }
        _ => true,
    };
    // A remote service has no information about the host. HTTP needs a port at which it is likely.
    let is_possible = |protocol: &dyn Protocol| {
        let is_http = protocol.info().transport == Transport::Http;
        protocol.service().is_none() && (!is_http || port.is_some() && is_at_home(protocol))
    };
    protocols.retain(|protocol| is_possible(*protocol));
    let wave_of = |protocol: &dyn Protocol| registry::detection(protocol.info().id).1;
    protocols.retain(|protocol| wave_of(*protocol) != Wave::OwnPorts || is_at_home(*protocol));
    let has_usual = port.is_some() && protocols.iter().any(|protocol| is_at_home(*protocol));
    let is_first = |protocol: &dyn Protocol| {
        if has_usual {
            is_at_home(protocol)
        } else {
            wave_of(protocol) == Wave::First
        }
    };
    // A stable sort keeps the order of the table within each wave.
    protocols.sort_by_key(|protocol| !is_first(*protocol));
    let mut waves = [Vec::new(), Vec::new()];
    let mut streams = 0;
    let mut datagrams = 0;
    for protocol in protocols {
        let is_stream = protocol.info().transport.is_connected();
        let count = if is_stream {
            &mut streams
        } else {
            &mut datagrams
        };
        *count += 1;
        if streams > MAX_CONNECTIONS as usize && is_stream
            || datagrams > MAX_DATAGRAM_PROTOCOLS && !is_stream
        {
            continue;
        }
        let is_late = !is_first(protocol) || datagrams > MAX_FIRST && !is_stream;
        waves[usize::from(is_late)].push(protocol);
    }
    waves
}

/// Returns the port, or if no protocol or game uses it the closest known one among those below.
fn known_port(port: u16) -> u16 {
    let protocols = catalog::protocols();
    let is_known = |port: &u16| {
        let is_default = protocols
            .iter()
            .any(|protocol| protocol.info().port == *port);
        is_default || !usual_protocols(*port).is_empty()
    };
    let below = (port.saturating_sub(MAX_NEXT_PORTS)..=port).rev();
    below.into_iter().find(is_known).unwrap_or(port)
}

/// Returns the main protocols of the games whose query port this is, or else of those whose game
/// port it is: their query ports are unknown or set by hand.
fn usual_protocols(port: u16) -> Vec<&'static str> {
    let main = |is_usual: &dyn Fn(&Game) -> bool| -> Vec<&'static str> {
        let games = catalog::games().into_iter().filter(|game| is_usual(game));
        games
            .filter_map(|game| game.protocols.first().copied())
            .collect()
    };
    let at_query_port = main(&|game| game.query_ports(None).contains(&port));
    if at_query_port.is_empty() {
        main(&|game| game.port == Some(port))
    } else {
        at_query_port
    }
}

/// State that the exchanges of one detection share.
pub(crate) struct Detection {
    /// Time limit for the first reply in the other protocols, once one has answered.
    window: watch::Sender<Option<Duration>>,
    has_reply: AtomicBool,
    datagrams: AtomicU32,
    connections: AtomicU32,
}

impl Detection {
    /// Returns a detection with the limits before the first answer.
    pub(crate) fn limited() -> Self {
        Self::new(MAX_DATAGRAMS, MAX_CONNECTIONS)
    }

    /// Returns a detection without limits.
    pub(crate) fn unlimited() -> Self {
        Self::new(u32::MAX, u32::MAX)
    }

    fn new(datagrams: u32, connections: u32) -> Self {
        let (window, _) = watch::channel(None);
        Self {
            window,
            has_reply: AtomicBool::new(false),
            datagrams: AtomicU32::new(datagrams),
            connections: AtomicU32::new(connections),
        }
    }

    /// Records the first answer, and limits the time of the other protocols.
    pub(crate) fn answered(&self, window: Duration) {
        self.window.send_replace(Some(window));
    }

    /// Returns a receiver of the time limit.
    pub(crate) fn window(&self) -> watch::Receiver<Option<Duration>> {
        self.window.subscribe()
    }

    /// Records that the host has replied.
    pub(crate) fn record_reply(&self) {
        self.has_reply.store(true, Ordering::Relaxed);
    }

    /// Returns whether the host has replied.
    pub(crate) fn has_reply(&self) -> bool {
        self.has_reply.load(Ordering::Relaxed)
    }

    /// Returns whether another datagram may be sent to a service that has not replied, and counts
    /// it.
    pub(crate) fn may_send(&self) -> bool {
        self.take(&self.datagrams)
    }

    /// Returns whether another connection may be opened, and counts it.
    pub(crate) fn may_connect(&self) -> bool {
        self.take(&self.connections)
    }

    fn take(&self, left: &AtomicU32) -> bool {
        let has_answer = self.window.borrow().is_some();
        let less = |left: u32| left.checked_sub(1);
        has_answer
            || left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(wave: &[&'static dyn Protocol]) -> Vec<&'static str> {
        wave.iter().map(|protocol| protocol.info().id).collect()
    }

    #[test]
    fn common_protocols_come_first() {
        let [first, later] = waves(None);
        assert!(ids(&first).contains(&"minecraft-query"));
        assert!(ids(&later).contains(&"ugp"));
        assert!(!ids(&first).contains(&"ugp"));
    }

    #[test]
    fn the_port_selects_the_first_wave() {
        let [first, later] = waves(Some(22_000));
        assert_eq!(ids(&first), ["ugp"]);
        assert!(ids(&later).contains(&"minecraft-query"));
        // OneQuery is sent only to its own port.
        let [first, _] = waves(Some(5_520));
        assert!(ids(&first).contains(&"onequery"));
        for port in [19_132, 25_565, 40_000] {
            let [first, later] = waves(Some(port));
            let all = [first, later].concat();
            assert!(!ids(&all).contains(&"onequery"), "{port}");
        }
    }

    #[test]
    fn further_servers_of_a_machine_are_recognized() {
        for (port, id) in [
            (8_304, "teeworlds"),
            (27_962, "quake3"),
            (25_570, "minecraft-status"),
        ] {
            assert!(ids(&waves(Some(port))[0]).contains(&id), "{port}");
        }
        let first = ids(&waves(Some(40_000))[0]);
        assert_eq!(first, ids(&waves(None)[0]), "no game uses this port");
    }

    #[test]
    fn a_game_port_with_another_query_port_counts_only_if_no_game_is_queried_there() {
        // Chrome and Mafia II Online have this game port, and are queried at other ones.
        assert_eq!(ids(&waves(Some(27_015))[0]), ["a2s"]);
        // DayZ is queried at 27016.
        let first = ids(&waves(Some(2_302))[0]);
        assert!(first.contains(&"gamespy2"), "{first:?}");
        assert!(!first.contains(&"a2s"), "{first:?}");
    }

    #[test]
    fn limits_hold_for_every_port() {
        let ports = [
            None,
            Some(1),
            Some(7_777),
            Some(19_132),
            Some(25_565),
            Some(27_015),
        ];
        for port in ports {
            let waves = waves(port);
            let is_datagram = |protocol: &&&'static dyn Protocol| {
                protocol.info().transport == Transport::Datagram
            };
            let datagrams =
                |wave: &[&'static dyn Protocol]| wave.iter().filter(is_datagram).count();
            let all = waves.concat();
            assert!(datagrams(&waves[0]) <= MAX_FIRST, "{port:?}");
            assert!(datagrams(&all) <= MAX_DATAGRAM_PROTOCOLS, "{port:?}");
            assert!(
                all.len() - datagrams(&all) <= MAX_CONNECTIONS as usize,
                "{port:?}"
            );
        }
    }

    #[test]
    fn datagrams_are_limited_until_the_first_answer() {
        let detection = Detection::limited();
        let sent = (0..100).filter(|_| detection.may_send()).count();
        assert_eq!(sent, MAX_DATAGRAMS as usize);
        let opened = (0..100).filter(|_| detection.may_connect()).count();
        assert_eq!(opened, MAX_CONNECTIONS as usize);
        assert!(!detection.has_reply());
        detection.record_reply();
        assert!(detection.has_reply() && !detection.may_send());
        detection.answered(Duration::from_secs(1));
        assert!(detection.may_send() && detection.may_connect());
        let unlimited = Detection::unlimited();
        assert_eq!((0..100).filter(|_| unlimited.may_send()).count(), 100);
    }
}
