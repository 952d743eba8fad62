//! Detection of the protocol of a host.
//!
//! A host is probed in waves: first in the protocols that servers at its port, or at a known port just
//! below, usually speak, or else in the most common ones; then, only if nothing has replied within
//! [`WAVE_DELAY`], in others. After [`QUIET_TIME`] without a reply follows the last wave: a protocol
//! whose request makes other servers crash or block the sender. These servers would have replied to
//! the Bedrock ping of an earlier wave.
//!
//! Before the first answer, at most [`MAX_DATAGRAMS`] datagrams are sent and at most
//! [`MAX_CONNECTIONS`] connections opened. A service that has replied in any way gets more.
//!
//! The first answer opens a [`Window`] for the protocols that share a game with it. The others end
//! immediately, unless they have received a valid reply: such exchanges always run to their end.

use crate::support::catalog;
use hailer_proto::games::{Game, QueryPort};
use hailer_proto::{Info, Protocol, Transport, Wave};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time after which the second wave starts if nothing has replied.
const WAVE_DELAY: Duration = Duration::from_millis(100);
/// Time without any reply after which the last wave starts.
const QUIET_TIME: Duration = Duration::from_millis(500);
/// Time after which a first request of the last wave is repeated, maybe in another form. Shorter
/// than a usual timeout, since a host on another continent replies within it.
pub(crate) const LAST_WAVE_TIMEOUT: Duration = Duration::from_millis(400);
/// Shortest and longest time for other protocols after the first answer.
const MIN_WINDOW: Duration = Duration::from_millis(100);
const MAX_WINDOW: Duration = Duration::from_secs(1);
/// Maximum number of datagrams before the first answer.
pub(crate) const MAX_DATAGRAMS: u32 = 12;
/// Maximum number of connections before the first answer.
pub(crate) const MAX_CONNECTIONS: u32 = 2;
/// Maximum number of datagram protocols tried before the last wave. The rest of [`MAX_DATAGRAMS`] is
/// for both forms of the last wave and for retries.
const MAX_DATAGRAM_PROTOCOLS: usize = 8;
/// Maximum number of datagram protocols in the first wave.
const MAX_FIRST: usize = 4;
/// Protocol that the servers answer that the last wave disturbs (spec/minecraft-bedrock.md#2).
const GUARD: &str = "minecraft-bedrock";
/// Further servers on one machine usually have the next ports after a game's port: this many.
const MAX_NEXT_PORTS: u16 = 9;

/// Protocols that are tried together.
pub(crate) struct StartedWave {
    pub(crate) protocols: Vec<&'static dyn Protocol>,
    /// When it starts if nothing has replied.
    pub(crate) at: Duration,
    /// Whether its requests disturb some servers, so that it needs the silence of the others.
    pub(crate) is_last: bool,
}

impl StartedWave {
    /// Returns a wave that starts immediately.
    pub(crate) fn only(protocols: Vec<&'static dyn Protocol>) -> Self {
        Self {
            protocols,
            at: Duration::ZERO,
            is_last: false,
        }
    }
}

/// Returns the waves for a port, which is the one given by the user.
pub(crate) fn schedule(port: Option<u16>) -> Vec<StartedWave> {
    let [first, later, last] = waves(port);
    let later = StartedWave {
        at: WAVE_DELAY,
        ..StartedWave::only(later)
    };
    let last = StartedWave {
        protocols: last,
        at: QUIET_TIME,
        is_last: true,
    };
    let mut waves = vec![StartedWave::only(first), later, last];
    waves.retain(|wave| !wave.protocols.is_empty());
    waves
}

/// Returns the waves for a game: its protocols, then after a silence those that its servers answer
/// [instead of](Info::instead_of) another one of them.
pub(crate) fn schedule_of(game: &Game) -> Vec<StartedWave> {
    let is_original = |protocol: &&'static dyn Protocol| {
        let original = protocol.info().instead_of;
        original.is_none_or(|original| !game.protocols.contains(&original))
    };
    let protocols = catalog::protocols_of(game).into_iter();
    let (originals, alternatives) = protocols.partition(is_original);
    let later = StartedWave {
        at: QUIET_TIME,
        ..StartedWave::only(alternatives)
    };
    let mut waves = vec![StartedWave::only(originals), later];
    waves.retain(|wave| !wave.protocols.is_empty());
    waves
}

/// Returns the protocols to try, in waves. `port` is the one given by the user.
pub(crate) fn waves(port: Option<u16>) -> [Vec<&'static dyn Protocol>; 3] {
    let mut protocols = catalog::protocols();
    protocols.sort_by_key(|protocol| protocol.info().place);
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
        protocol.info().service.is_none() && (!is_http || port.is_some() && is_at_home(protocol))
    };
    protocols.retain(|protocol| is_possible(*protocol));
    let wave_of = |protocol: &dyn Protocol| protocol.info().wave;
    let mut last = protocols.clone();
    last.retain(|protocol| wave_of(*protocol) == Wave::Last && !is_at_home(*protocol));
    protocols.retain(|protocol| wave_of(*protocol) < Wave::Last || is_at_home(*protocol));
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
    let mut waves = [Vec::new(), Vec::new(), Vec::new()];
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
        let is_late = !is_first(protocol)
            || datagrams > MAX_FIRST && !is_stream
            || protocol.info().instead_of.is_some();
        waves[usize::from(is_late)].push(protocol);
    }
    // The servers that it disturbs answer this ping. At their own ports, a lost ping is no proof.
    let pings =
        |wave: &Vec<&'static dyn Protocol>| wave.iter().any(|protocol| protocol.info().id == GUARD);
    let [first, later, _] = &waves;
    let is_expected = has_usual && pings(first);
    if !is_expected && (pings(first) || pings(later)) {
        waves[2] = last;
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

/// Time for other protocols after the first answer.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// When it opened.
    opened: Instant,
    /// Its length.
    length: Duration,
    /// Protocols that are waited for; `None`: all.
    related: Option<Vec<&'static str>>,
}

impl Window {
    /// Returns whether an exchange without a valid reply is waited for.
    pub(crate) fn waits_for(&self, protocol: &Info) -> bool {
        let related = self.related.as_ref();
        related.is_none_or(|related| related.contains(&protocol.id))
    }

    /// Returns when the window ends.
    pub(crate) fn end(&self) -> Instant {
        self.opened + self.length
    }
}

/// State that the exchanges of one detection share.
pub(crate) struct Detection {
    /// Length of the window, if the user has chosen it.
    wait: Option<Duration>,
    /// Whether all protocols are waited for, also those that share no game with an answer.
    waits_for_all: bool,
    /// The ids of the protocols that have answered.
    answered: Mutex<Vec<&'static str>>,
    window: watch::Sender<Option<Window>>,
    has_reply: AtomicBool,
    has_valid_reply: AtomicBool,
    is_last_wave: AtomicBool,
    datagrams: AtomicU32,
    connections: AtomicU32,
}

impl Detection {
    /// Returns a detection with the limits before the first answer. `wait` is the length of the
    /// window; `None`: it follows the latency.
    pub(crate) fn limited(wait: Option<Duration>) -> Self {
        Self::new(wait, false, MAX_DATAGRAMS, MAX_CONNECTIONS)
    }

    /// Returns a detection without limits, that waits for all protocols.
    pub(crate) fn unlimited(wait: Option<Duration>) -> Self {
        Self::new(wait, true, u32::MAX, u32::MAX)
    }

    fn new(wait: Option<Duration>, waits_for_all: bool, datagrams: u32, connections: u32) -> Self {
        let (window, _) = watch::channel(None);
        Self {
            wait,
            waits_for_all,
            answered: Mutex::default(),
            window,
            has_reply: AtomicBool::new(false),
            has_valid_reply: AtomicBool::new(false),
            is_last_wave: AtomicBool::new(false),
            datagrams: AtomicU32::new(datagrams),
            connections: AtomicU32::new(connections),
        }
    }

    /// Records an answer. The first one opens the window; each limits the protocols that are waited
    /// for.
    pub(crate) fn answered(&self, protocol: &Info, latency: Duration) {
        self.record_reply();
        let related = if self.waits_for_all {
            None
        } else {
            let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
            answered.push(protocol.id);
            related(&answered)
        };
        // Three times the latency since the request, of which one has passed.
        let usual = (latency * 2).clamp(MIN_WINDOW, MAX_WINDOW);
        self.window.send_modify(|window| match window {
            Some(window) if related.is_some() => window.related = related,
            Some(_) => {}
            None => {
                *window = Some(Window {
                    opened: Instant::now(),
                    length: self.wait.unwrap_or(usual),
                    related,
                });
            }
        });
    }

    /// Returns a receiver of the window, which also reports a window that is open.
    pub(crate) fn window(&self) -> watch::Receiver<Option<Window>> {
        let mut window = self.window.subscribe();
        if window.borrow().is_some() {
            window.mark_changed();
        }
        window
    }

    /// Returns whether an exchange in this protocol would start too late.
    pub(crate) fn is_over(&self, protocol: &Info) -> bool {
        let window = self.window.borrow();
        let is_over =
            |window: &Window| !window.waits_for(protocol) || window.end() <= Instant::now();
        window.as_ref().is_some_and(is_over)
    }

    /// Records that the exchanges that start from now on belong to the last wave.
    pub(crate) fn start_last_wave(&self) {
        self.is_last_wave.store(true, Ordering::Relaxed);
    }

    /// Returns whether the last wave has started.
    pub(crate) fn is_last_wave(&self) -> bool {
        self.is_last_wave.load(Ordering::Relaxed)
    }

    /// Records that the host has replied.
    pub(crate) fn record_reply(&self) {
        self.has_reply.store(true, Ordering::Relaxed);
    }

    /// Records that an exchange has received a valid reply.
    pub(crate) fn record_valid_reply(&self) {
        self.has_valid_reply.store(true, Ordering::Relaxed);
    }

    /// Returns whether an exchange without a reply may repeat its request: not while another one,
    /// with a valid reply, has not ended.
    pub(crate) fn may_repeat(&self) -> bool {
        self.waits_for_all
            || !self.has_valid_reply.load(Ordering::Relaxed)
            || self.window.borrow().is_some()
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

/// Returns the protocols of the games that have all these protocols. Without such a game, `None` for
/// several protocols, and none for one. Leaves out games with a port for each protocol.
fn related(answered: &[&'static str]) -> Option<Vec<&'static str>> {
    let has_all = |game: &&'static Game| {
        let shares_ports = !matches!(game.query, QueryPort::Each(_));
        shares_ports && answered.iter().all(|id| game.protocols.contains(id))
    };
    let games = catalog::games().into_iter().filter(has_all);
    let related: Vec<&str> = games.flat_map(|game| game.protocols).copied().collect();
    (answered.len() == 1 || !related.is_empty()).then_some(related)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::registry;

    fn ids(wave: &[&'static dyn Protocol]) -> Vec<&'static str> {
        wave.iter().map(|protocol| protocol.info().id).collect()
    }

    #[test]
    fn common_protocols_come_first() {
        let [first, later, last] = waves(None);
        assert!(last.is_empty(), "every protocol is at its own port");
        assert!(ids(&first).contains(&"minecraft-query"));
        assert!(ids(&later).contains(&"ugp"));
        assert!(!ids(&first).contains(&"ugp"));
    }

    #[test]
    fn the_port_selects_the_first_wave() {
        let [first, later, _] = waves(Some(22_000));
        assert_eq!(ids(&first), ["ugp"]);
        assert!(ids(&later).contains(&"minecraft-query"));
        // OneQuery is sent first only to its own port, and last to others.
        let [first, _, last] = waves(Some(5_520));
        assert!(ids(&first).contains(&"onequery") && last.is_empty());
        for port in [19_132, 25_565, 40_000] {
            let [first, later, last] = waves(Some(port));
            let all = [first, later].concat();
            assert!(!ids(&all).contains(&"onequery"), "{port}");
            assert!(ids(&all).contains(&GUARD), "{port}");
            // At a port of Bedrock servers, a lost ping is more likely than another game.
            let expected: &[&str] = if port == 19_132 { &[] } else { &["onequery"] };
            assert_eq!(ids(&last), expected, "{port}");
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
    fn what_servers_answer_instead_of_a_protocol_is_tried_after_it() {
        let game = catalog::game("minecraft-bedrock").unwrap();
        let waves = schedule_of(game);
        let found: Vec<_> = waves
            .iter()
            .map(|wave| (ids(&wave.protocols), wave.at))
            .collect();
        let expected = [
            (vec!["minecraft-bedrock"], Duration::ZERO),
            (vec!["minecraft-nethernet"], QUIET_TIME),
        ];
        assert_eq!(found, expected);
        let [first, later, _] = super::waves(Some(19_132));
        assert!(ids(&first).contains(&"minecraft-bedrock"));
        assert!(!ids(&first).contains(&"minecraft-nethernet"));
        assert!(ids(&later).contains(&"minecraft-nethernet"));
        // Without one of these, all protocols of a game are tried at the same time.
        assert_eq!(schedule_of(catalog::game("minecraft").unwrap()).len(), 1);
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
            let all = waves[..2].concat();
            assert!(waves[2].len() <= 1, "{port:?}");
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
        let detection = Detection::limited(None);
        let sent = (0..100).filter(|_| detection.may_send()).count();
        assert_eq!(sent, MAX_DATAGRAMS as usize);
        let opened = (0..100).filter(|_| detection.may_connect()).count();
        assert_eq!(opened, MAX_CONNECTIONS as usize);
        assert!(!detection.has_reply());
        detection.record_reply();
        assert!(detection.has_reply() && !detection.may_send());
        detection.answered(info("ugp"), Duration::ZERO);
        assert!(detection.may_send() && detection.may_connect());
        let unlimited = Detection::unlimited(None);
        assert_eq!((0..100).filter(|_| unlimited.may_send()).count(), 100);
    }

    fn info(id: &str) -> &'static Info {
        registry::find(id).unwrap().info()
    }

    #[test]
    fn only_protocols_of_the_same_game_are_waited_for() {
        let waited = |answered: &[&str]| -> Vec<&str> {
            let detection = Detection::limited(None);
            for id in answered {
                detection.answered(info(id), Duration::ZERO);
            }
            let window = detection.window().borrow().clone().unwrap();
            let ids = registry::PROTOCOLS.iter().map(|protocol| protocol.info());
            let ids = ids.filter(|info| window.waits_for(info));
            ids.map(|info| info.id).collect()
        };
        let minecraft = ["minecraft-query", "minecraft-status"];
        assert_eq!(waited(&["minecraft-query"]), minecraft);
        assert_eq!(waited(&["minecraft-query", "minecraft-status"]), minecraft);
        assert!(waited(&["ugp"]).len() <= 1);
        // No game has both: nothing more is learned from the second.
        assert_eq!(waited(&["minecraft-status", "ugp"]), minecraft);
        let all = Detection::unlimited(None);
        all.answered(info("ugp"), Duration::ZERO);
        let window = all.window().borrow().clone().unwrap();
        assert!(window.waits_for(info("a2s")));
    }

    #[test]
    fn the_window_follows_the_latency() {
        let ms = Duration::from_millis;
        for (latency, wait, length) in [
            (0, None, 100),
            (80, None, 160),
            (3_000, None, 1_000),
            (80, Some(ms(7)), 7),
        ] {
            let detection = Detection::limited(wait);
            assert!(!detection.is_over(info("ugp")));
            detection.answered(info("minecraft-query"), ms(latency));
            let window = detection.window().borrow().clone().unwrap();
            assert_eq!(window.end() - window.opened, ms(length));
            assert!(detection.is_over(info("ugp")));
            assert!(!detection.is_over(info("minecraft-status")));
        }
    }
}
