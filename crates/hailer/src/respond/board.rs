//! The published status of a server, as responders that all threads share.

use crate::door::Entrance;
use crate::support::address_range::AddressRange;
use crate::support::proxy_protocol::Version;
use crate::support::random_secret;
use arc_swap::{ArcSwap, ArcSwapOption};
use hailer_proto::joins::{self, JoinDetector, JoinFamily};
use hailer_proto::model::Extra;
use hailer_proto::protocol::JoinAttempt;
use hailer_proto::{
    ConnectionStep, Epoch, Info, Keys, OptionError, Options, Protocol, Responder, Status, Transport,
};
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// The current status, as responders. Cheap to clone: all clones are one board.
///
/// A board may have datagram and stream protocols. A [`ResponderPool`](super::ResponderPool) answers both, a [`Service`](super::Service)
/// datagrams.
#[derive(Clone)]
pub struct Board(Arc<Inner>);

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board")
            .field("protocols", &self.0.protocols)
            .finish_non_exhaustive()
    }
}

struct Inner {
    protocols: Protocols,
    /// Status and keys of the responders. Only writers lock it.
    source: Mutex<(Status, Keys)>,
    /// Ways to join over UDP. Only writers lock it, after `source`.
    families: Mutex<Vec<&'static JoinFamily>>,
    published: ArcSwap<Published>,
    join_hook: ArcSwapOption<JoinHook>,
    entrance: ArcSwapOption<Entrance>,
    /// Replaces the option `kick`.
    kick: ArcSwapOption<String>,
    /// Text for clients that may not wake the game.
    refusal: ArcSwapOption<String>,
    stream_config: ArcSwap<StreamConfig>,
}

/// How connections reach the server of a board, and its game.
#[derive(Clone, Debug, Default)]
pub struct StreamConfig {
    /// Hosts whose clients belong to this server, if several listeners have the same address: in the
    /// form of [`configured_host`](hailer_proto::minecraft_status::configured_host). Empty: the server
    /// gets all other clients.
    pub hosts: Vec<String>,
    /// Networks of proxies, whose connections start with a header of the PROXY protocol. The client
    /// that it names is the client. The networks of all listeners with the same address count.
    pub trusted_proxies: Vec<AddressRange>,
    /// Version of the header of the PROXY protocol that the game gets first.
    pub proxy_protocol: Option<Version>,
    /// Way to a game without a [door](Board::set_entrance), which is shown as running always. It
    /// gets connections that join, and those of no protocol.
    pub relay: Option<Entrance>,
}

/// Protocols with their options, in the order in which requests are offered to them.
type Protocols = Vec<(&'static dyn Protocol, Options)>;

/// Called for each attempt to join the game.
struct JoinHook(Box<JoinCallback>);

/// Gets the client's address and the attempt.
type JoinCallback = dyn Fn(SocketAddr, &JoinAttempt) + Send + Sync;

/// Responders, with the ids of their protocols.
type Responders = Vec<(&'static str, Arc<dyn Responder>)>;

/// Responders by transport: datagrams, streams.
type ByTransport = (Responders, Responders);

/// Published state, which readers share.
pub(super) struct Published {
    /// Responders of datagram protocols.
    pub(super) responders: Responders,
    /// Responders of stream protocols.
    pub(super) streams: Responders,
    /// Responders of stream protocols for clients that may not wake the game.
    refusals: Responders,
    /// Detectors of joins over UDP.
    pub(super) joins: Vec<Arc<dyn JoinDetector>>,
    /// Whether queries are recognized but not answered.
    pub(super) is_silent: bool,
}

impl Board {
    /// Creates a board for these protocols, with their default options and new random keys.
    ///
    /// # Errors
    /// A protocol cannot build a responder for the status.
    pub fn new(protocols: &[&'static dyn Protocol], status: &Status) -> Result<Self, OptionError> {
        let protocols = protocols
            .iter()
            .map(|&protocol| (protocol, Options::default()))
            .collect();
        Self::with_options(protocols, Keys::new(random_secret()), status)
    }

    /// Creates a board with options for each protocol. Datagrams and connections are offered to
    /// the protocols in this order.
    ///
    /// # Errors
    /// A protocol rejects its options.
    pub fn with_options(
        protocols: Vec<(&'static dyn Protocol, Options)>,
        keys: Keys,
        status: &Status,
    ) -> Result<Self, OptionError> {
        let (responders, streams) = build(&protocols, &keys, status)?;
        let families = families_of(&protocols);
        let published = Published {
            responders,
            streams,
            refusals: Vec::new(),
            joins: detectors(&families, &keys),
            is_silent: false,
        };
        let source = Mutex::new((status.clone(), keys));
        Ok(Self(Arc::new(Inner {
            protocols,
            source,
            families: Mutex::new(families),
            published: ArcSwap::from_pointee(published),
            join_hook: ArcSwapOption::empty(),
            entrance: ArcSwapOption::empty(),
            kick: ArcSwapOption::empty(),
            refusal: ArcSwapOption::empty(),
            stream_config: ArcSwap::default(),
        })))
    }

    /// Replaces the status. Readers never wait: a reply in progress still uses the old status.
    ///
    /// # Errors
    /// A protocol cannot build a responder for the status. The old status stays.
    pub fn publish(&self, status: &Status) -> Result<(), OptionError> {
        self.rebuild(false, |source| source.0 = status.clone())
    }

    /// Replaces the status, and the text that ends an attempt to join: the option `kick` of the
    /// protocols that [report them](hailer_proto::Info::has_join_attempts).
    ///
    /// # Errors
    /// As in [`publish`](Self::publish). The text changes with the next status.
    pub fn publish_with_kick(&self, status: &Status, kick: &str) -> Result<(), OptionError> {
        self.0.kick.store(Some(Arc::new(kick.to_owned())));
        self.publish(status)
    }

    /// Sets the text that clients read on their attempt to join, if they may not wake the game. Without
    /// one, they read that of the status.
    ///
    /// # Errors
    /// As in [`publish`](Self::publish). The text changes with the next status.
    pub fn set_refusal(&self, text: &str) -> Result<(), OptionError> {
        self.0.refusal.store(Some(Arc::new(text.to_owned())));
        self.rebuild(self.0.published.load().is_silent, |_| ())
    }

    /// Returns the reply to an attempt to join of a client that may not wake the game. `bytes` are all
    /// that it sent. `None`: there is no text for it.
    pub(super) fn refused_reply(
        &self,
        from: SocketAddr,
        epoch: Epoch,
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        let published = self.published();
        let mut responders = published.refusals.iter();
        responders.find_map(|(_, responder)| {
            let mut connection = responder.connection(from)?;
            let mut out = Vec::new();
            let mut rest = bytes;
            loop {
                let received = connection.receive(epoch, rest, &mut out);
                match received.step {
                    ConnectionStep::Close => {
                        return connection.join_attempt().is_some().then_some(out);
                    }
                    ConnectionStep::Wait if received.consumed > 0 => {
                        rest = rest.get(received.consumed..)?;
                    }
                    _ => return None,
                }
            }
        })
    }

    /// Stops answering until the next status is published, for example because the last one is too
    /// old.
    pub fn silence(&self) {
        // The responders stay, because they distinguish queries from game traffic. They were built
        // from this status before, so this cannot fail.
        let _ = self.rebuild(true, |_| ());
    }

    /// Returns the description of the current status, or its name if it has none. `None` while the
    /// board is silent.
    pub fn motd(&self) -> Option<String> {
        if self.published().is_silent {
            return None;
        }
        let source = self.lock();
        let text = source.0.motd.as_ref().or(source.0.name.as_ref());
        Some(text.map(|text| text.raw().to_owned()).unwrap_or_default())
    }

    /// Replaces the secret of the challenge tokens. Tokens of the old secret stay valid until the
    /// next rotation.
    ///
    /// # Errors
    /// A protocol cannot build a responder with the new keys.
    pub fn rotate(&self, secret: [u8; 16]) -> Result<(), OptionError> {
        self.rebuild(self.0.published.load().is_silent, |source| {
            source.1 = source.1.rotate(secret);
        })
    }

    /// Calls a function for each attempt to join the game on a connection, for protocols that
    /// [report them](hailer_proto::Connection::join_attempt), also while the board is silent. It
    /// runs on the thread of all connections, so it must not block. Clients choose number and
    /// content of the attempts.
    pub fn on_join(&self, hook: impl Fn(SocketAddr, &JoinAttempt) + Send + Sync + 'static) {
        self.0
            .join_hook
            .store(Some(Arc::new(JoinHook(Box::new(hook)))));
    }

    /// Calls the function of [`on_join`](Self::on_join), if there is one.
    pub(super) fn report_join(&self, from: SocketAddr, attempt: &JoinAttempt) {
        if let Some(hook) = &*self.0.join_hook.load() {
            (hook.0)(from, attempt);
        }
    }

    /// Sets the door of the game: clients that join are passed on while the game runs, and start it
    /// otherwise. `None`: the board only answers.
    pub fn set_entrance(&self, entrance: Option<Entrance>) {
        self.0.entrance.store(entrance.map(Arc::new));
    }

    /// Returns the door of the game, if there is one. Takes no lock.
    pub fn entrance(&self) -> arc_swap::Guard<Option<Arc<Entrance>>> {
        self.0.entrance.load()
    }

    /// Replaces the configuration of connections. Call it before a listener starts or is reloaded.
    pub fn set_stream_config(&self, config: StreamConfig) {
        self.0.stream_config.store(Arc::new(config));
    }

    /// Returns the configuration of connections.
    pub fn stream_config(&self) -> arc_swap::Guard<Arc<StreamConfig>> {
        self.0.stream_config.load()
    }

    /// Returns the way of connections to the game, if there is one.
    pub(super) fn stream_entrance(&self) -> Option<Arc<Entrance>> {
        let relay = || self.stream_config().relay.clone().map(Arc::new);
        self.entrance().clone().or_else(relay)
    }

    /// Returns how long clients of a protocol wait for the reply to their attempt to join.
    pub(super) fn join_wait(&self, id: &str) -> Duration {
        let mut protocols = self.0.protocols.iter();
        let found = protocols.find(|(protocol, _)| protocol.info().id == id);
        let info = found.map_or(&Info::CONNECTED, |(protocol, _)| protocol.info());
        Duration::from_millis(info.join_wait_ms)
    }

    /// Sets by which datagrams clients join the game over UDP, which a [door](Self::set_entrance)
    /// needs to know while the game does not run. By default they are those of the board's
    /// protocols.
    pub fn set_join_families(&self, families: Vec<&'static JoinFamily>) {
        let source = self.lock();
        let old = self.0.published.load();
        let published = Published {
            responders: old.responders.clone(),
            streams: old.streams.clone(),
            refusals: old.refusals.clone(),
            joins: detectors(&families, &source.1),
            is_silent: old.is_silent,
        };
        *self.lock_families() = families;
        self.0.published.store(Arc::new(published));
    }

    fn lock_families(&self) -> std::sync::MutexGuard<'_, Vec<&'static JoinFamily>> {
        // A panicked writer leaves complete data.
        self.0
            .families
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys of the challenge tokens. A board with the same keys accepts the tokens of
    /// this one.
    pub fn keys(&self) -> Keys {
        self.lock().1.clone()
    }

    /// Returns whether the board has a protocol of this transport.
    pub fn has(&self, transport: Transport) -> bool {
        let mut protocols = self.0.protocols.iter();
        protocols.any(|(protocol, _)| protocol.info().transport == transport)
    }

    /// Returns whether it answers connections, or passes them on.
    pub fn has_connections(&self) -> bool {
        let has_game = || {
            let entrance = self.entrance();
            let wakes_on_traffic = entrance
                .as_ref()
                .is_some_and(|door| door.wakes_on_traffic());
            wakes_on_traffic || self.stream_config().relay.is_some()
        };
        self.has(Transport::Stream) || self.has(Transport::Http) || has_game()
    }

    pub(super) fn published(&self) -> arc_swap::Guard<Arc<Published>> {
        self.0.published.load()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Status, Keys)> {
        // A panicked writer leaves complete data.
        self.0.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rebuild(
        &self,
        is_silent: bool,
        change: impl FnOnce(&mut (Status, Keys)),
    ) -> Result<(), OptionError> {
        let mut source = self.lock();
        change(&mut source);
        let protocols = match &*self.0.kick.load() {
            None => Cow::Borrowed(&self.0.protocols),
            Some(kick) => Cow::Owned(with_kick(&self.0.protocols, kick)),
        };
        let (responders, streams) = build(&protocols, &source.1, &source.0)?;
        let refusals = match &*self.0.refusal.load() {
            None => Vec::new(),
            Some(text) => {
                let mut protocols = with_kick(&self.0.protocols, text);
                protocols.retain(|(protocol, _)| protocol.info().has_join_attempts);
                build(&protocols, &source.1, &source.0)?.1
            }
        };
        let joins = detectors(&self.lock_families(), &source.1);
        self.0.published.store(Arc::new(Published {
            responders,
            streams,
            refusals,
            joins,
            is_silent,
        }));
        Ok(())
    }
}

/// Returns the protocols with another option `kick`.
fn with_kick(protocols: &Protocols, kick: &str) -> Protocols {
    let mut protocols = protocols.clone();
    for (protocol, options) in &mut protocols {
        if protocol.info().has_join_attempts {
            options.0.retain(|(key, _)| key != "kick");
            options.0.push(("kick".into(), kick.into()));
        }
    }
    protocols
}

/// Returns the ways to join the games of these protocols over UDP.
fn families_of(protocols: &[(&'static dyn Protocol, Options)]) -> Vec<&'static JoinFamily> {
    let mut families: Vec<&'static JoinFamily> = Vec::new();
    for family in protocols
        .iter()
        .filter_map(|(protocol, _)| joins::of_protocol(protocol.info().id))
    {
        if families.iter().all(|known| known.id != family.id) {
            families.push(family);
        }
    }
    families
}

fn detectors(families: &[&'static JoinFamily], keys: &Keys) -> Vec<Arc<dyn JoinDetector>> {
    let families = families.iter();
    families.map(|family| family.detector(keys)).collect()
}

fn build(
    protocols: &[(&'static dyn Protocol, Options)],
    keys: &Keys,
    status: &Status,
) -> Result<ByTransport, OptionError> {
    let (mut responders, mut streams) = ByTransport::default();
    // Responders read no clock.
    let mut status = Cow::Borrowed(status);
    if status.extra("start").is_none() && protocols.iter().any(|(of, _)| of.info().id == "starmade")
    {
        status
            .to_mut()
            .extra
            .push(Extra::new("start", started_ms()));
    }
    let status = &*status;
    for (protocol, options) in protocols {
        let info = protocol.info();
        let responder = protocol.responder(status, keys, options)?;
        match info.transport {
            Transport::Datagram => responders.push((info.id, responder)),
            Transport::Stream | Transport::Http => streams.push((info.id, responder)),
        }
    }
    Ok((responders, streams))
}

/// Returns the start of the first board of this process, in Unix milliseconds. It is a whole second:
/// node-gamedig takes the last byte for the type of a value, and 1, 3, 4 and 6 for types that it
/// knows. Those of whole seconds are multiples of 8.
fn started_ms() -> i64 {
    static STARTED: OnceLock<i64> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since_1970.map_or(0, |since| {
            i64::try_from(since.as_secs()).map_or(i64::MAX, |seconds| seconds.saturating_mul(1_000))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::wire::{Notes, Reader};
    use hailer_proto::{Epoch, starmade};

    #[test]
    fn the_kick_of_a_status_replaces_the_option() {
        use hailer_proto::minecraft_status;
        let options = Options::default()
            .with("kick", "of the file")
            .with("protocol", 47);
        let protocols: Protocols = vec![(&minecraft_status::PROTOCOL, options)];
        let board = Board::with_options(protocols, Keys::new([7; 16]), &Status::default()).unwrap();
        let kick = || {
            let published = board.published();
            let from = "192.0.2.7:50000".parse().unwrap();
            let mut connection = published.streams[0].1.connection(from).unwrap();
            let mut out = Vec::new();
            let login = b"\x06\x00\x2F\x00\x63\xDD\x02\x07\x00\x05Alice";
            connection.receive(Epoch(1), login, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        assert!(kick().contains("of the file"), "{}", kick());
        board
            .publish_with_kick(&Status::default(), "&eStarting")
            .unwrap();
        assert!(kick().contains("Starting"), "{}", kick());
        // It stays when keys and statuses change.
        board.rotate([8; 16]).unwrap();
        board.publish(&Status::default()).unwrap();
        assert!(kick().contains("Starting"), "{}", kick());
    }

    #[test]
    fn refused_clients_read_their_own_text() {
        use hailer_proto::minecraft_status;
        let protocols: Protocols = vec![(&minecraft_status::PROTOCOL, Options::default())];
        let board = Board::with_options(protocols, Keys::new([7; 16]), &Status::default()).unwrap();
        let login = b"\x06\x00\x2F\x00\x63\xDD\x02\x07\x00\x05Alice";
        let from = "192.0.2.7:50000".parse().unwrap();
        let reply = |bytes: &[u8]| board.refused_reply(from, Epoch(1), bytes);
        assert_eq!(reply(login), None);
        board.set_refusal("&cNot you").unwrap();
        let status = Status::default();
        board.publish_with_kick(&status, "&eStarting").unwrap();
        let text = String::from_utf8(reply(login).unwrap()).unwrap();
        assert!(
            text.contains("Not you") && !text.contains("Starting"),
            "{text}"
        );
        // A status ping, and half a login, are no attempts to join.
        assert_eq!(reply(b"\x06\x00\x2F\x00\x63\xDD\x01\x01\x00"), None);
        assert_eq!(reply(&login[..10]), None);
    }

    #[test]
    fn starmade_has_the_start_of_the_process() {
        let start = |status: &Status| {
            let protocols: [(&'static dyn Protocol, Options); 1] =
                [(&starmade::PROTOCOL, Options::default())];
            let (_, streams) = build(&protocols, &Keys::new([7; 16]), status).unwrap();
            let from = "192.0.2.7:50000".parse().unwrap();
            let mut connection = streams[0].1.connection(from).unwrap();
            let mut out = Vec::new();
            connection.receive(Epoch(1), starmade::REQUEST, &mut out);
            let mut read = Status::default();
            let mut notes = Notes::default();
            (starmade::PROTOCOL.read)(&mut Reader::new(&out, &mut notes), &mut read).unwrap();
            read.extra("start").cloned()
        };
        assert_eq!(start(&Status::default()), Some(started_ms().into()));
        assert!(started_ms() > 1_700_000_000_000);
        assert_eq!(started_ms() % 1_000, 0, "{}", started_ms());
        let configured = Status {
            extra: vec![Extra::new("start", 1_424_912_312_704)],
            ..Status::default()
        };
        assert_eq!(start(&configured), Some(1_424_912_312_704_i64.into()));
    }
}
