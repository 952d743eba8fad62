//! Address of a game by name: when it is looked up again, and which of its addresses is used.
//!
//! In: the results of lookups, and failures to reach the game. Out: its address.
//!
//! | limit | value |
//! | --- | --- |
//! | age of a result | 30 s |
//! | time between lookups after failures | 1 s, doubled up to 30 s |
//!
//! May import: `crate`, `crate::door`, `crate::names`, `crate::target`.

use super::{Entrance, State, View};
use crate::names::NameResolver;
use crate::target::Host;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Age of a result at which the name is looked up again.
const REFRESH: Duration = Duration::from_secs(30);
/// Shortest time between two lookups.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Host and port of a game: a name, or an IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GameAddress {
    host: Host,
    port: u16,
}

/// Error of a text that is no [`GameAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a host and a port, such as 127.0.0.1:25566 or mc:25566")]
pub struct GameAddressError;

impl FromStr for GameAddress {
    type Err = GameAddressError;

    fn from_str(text: &str) -> Result<Self, GameAddressError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let (name, port) = text.rsplit_once(':').ok_or(GameAddressError)?;
        let port = port.parse::<u16>().ok().filter(|port| *port > 0);
        let port = port.ok_or(GameAddressError)?;
        // Underscores are common in names of containers.
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let bare = name.strip_suffix('.').unwrap_or(name);
        // Digits and dots are an address with a mistake.
        let is_address = bare
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        if bare.len() > 253 || is_address || !bare.split('.').all(is_label) {
            return Err(GameAddressError);
        }
        Ok(Self {
            host: Host::Name(name.to_ascii_lowercase()),
            port,
        })
    }
}

impl From<SocketAddr> for GameAddress {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: Host::Address(address.ip()),
            port: address.port(),
        }
    }
}

impl fmt::Display for GameAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(ip) => SocketAddr::new(*ip, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl GameAddress {
    /// Returns the address, if the host is one. It is never looked up.
    pub fn literal(&self) -> Option<SocketAddr> {
        match self.host {
            Host::Address(ip) => Some(SocketAddr::new(ip, self.port)),
            Host::Name(_) => None,
        }
    }

    /// Returns the IP address of the host, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.literal().map(|address| address.ip())
    }

    /// Returns the same host with another port.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Self {
        Self {
            port,
            ..self.clone()
        }
    }

    /// Looks up the addresses, at least one, within 5 s.
    ///
    /// # Errors
    /// The name does not exist, or cannot be looked up.
    pub async fn lookup(&self) -> Result<Vec<SocketAddr>, crate::Error> {
        let resolver = NameResolver::default();
        let resolved = resolver.resolve(&self.host, Some(self.port), self.port, None);
        Ok(resolved.await?.addresses)
    }
}

/// Decides when a name is looked up, and which of its addresses is used. Takes the time as an
/// argument.
#[derive(Debug)]
pub struct LookupSchedule {
    /// Address in use.
    current: Option<SocketAddr>,
    /// Whether the address in use did not answer since the last lookup.
    is_unreachable: bool,
    last: Option<Instant>,
    due: Instant,
    /// Failures in a row.
    failures: u32,
}

impl LookupSchedule {
    /// Returns a schedule whose first lookup is due now. `current`: an address that is known
    /// already.
    pub fn new(current: Option<SocketAddr>, now: Instant) -> Self {
        Self {
            current,
            is_unreachable: false,
            last: None,
            due: now,
            failures: 0,
        }
    }

    /// Returns when the next lookup is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Returns the address in use. `None` before the first successful lookup.
    pub fn address(&self) -> Option<SocketAddr> {
        self.current
    }

    /// Records that the game cannot be reached at the address in use.
    pub fn record_unreachable(&mut self, now: Instant) {
        if self.is_unreachable {
            return;
        }
        self.is_unreachable = true;
        self.failures = self.failures.saturating_add(1);
        let after_last = self.last.map_or(now, |last| last + self.pause());
        self.due = self.due.min(after_last.max(now));
    }

    /// Records the result of a lookup. The address in use stays if the name still has it and it can be
    /// reached. Without a result, it stays in any case.
    pub fn record_lookup(&mut self, found: Option<&[SocketAddr]>, now: Instant) {
        self.last = Some(now);
        let was_unreachable = std::mem::take(&mut self.is_unreachable);
        let Some(found) = found.filter(|found| !found.is_empty()) else {
            self.failures = self.failures.saturating_add(1);
            self.due = now + self.pause();
            return;
        };
        if !was_unreachable {
            self.failures = 0;
        }
        self.due = now + REFRESH;
        let place = found
            .iter()
            .position(|address| Some(*address) == self.current);
        let next = match place {
            Some(place) if was_unreachable => (place + 1) % found.len(),
            Some(place) => place,
            None => 0,
        };
        self.current = found.get(next).copied();
    }

    /// Returns the time between lookups after failures.
    fn pause(&self) -> Duration {
        let doubled = MIN_INTERVAL * 2_u32.pow(self.failures.saturating_sub(1).min(5));
        doubled.min(REFRESH)
    }
}

/// Shows the address of a game at an entrance, as a game that always runs, and looks it up again when
/// it is due. Runs until it is dropped, or returns immediately if the host is an IP address.
/// `report` gets each new address. It also gets the reason of each failed lookup that follows a
/// successful one or is the first.
pub async fn follow_address(
    address: &GameAddress,
    entrance: &Entrance,
    mut report: impl FnMut(Result<SocketAddr, String>),
) {
    if let Some(game) = address.literal() {
        entrance.show(View {
            state: State::Running,
            game: Some(game),
        });
        return;
    }
    let mut schedule = LookupSchedule::new(entrance.view().game, Instant::now());
    let mut has_failed = false;
    loop {
        let result = address.lookup().await;
        let before = schedule.address();
        let found = result.as_ref().ok().map(Vec::as_slice);
        schedule.record_lookup(found, Instant::now());
        let game = schedule.address();
        let is_failed = result.is_err();
        match (result, game) {
            (Err(error), _) if !has_failed => report(Err(error.to_string())),
            (Ok(_), Some(game)) if before != Some(game) || has_failed => report(Ok(game)),
            _ => {}
        }
        has_failed = is_failed;
        if before != game {
            let state = State::Running;
            entrance.show(View { state, game });
        }
        loop {
            let due = tokio::time::Instant::from_std(schedule.due());
            tokio::select! {
                () = tokio::time::sleep_until(due) => break,
                () = entrance.unreachable() => schedule.record_unreachable(Instant::now()),
            }
        }
    }
}

/// Shows the state of a door at another entrance, with another port of the same game. Runs until it is
/// dropped.
pub async fn follow_port(door: &Entrance, port: u16, entrance: &Entrance) {
    let mut changes = door.changes();
    loop {
        let mut view = changes.borrow_and_update().clone();
        if let Some(game) = &mut view.game {
            game.set_port(port);
        }
        entrance.show(view);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::week::WEEK;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 25_566))
    }

    #[test]
    fn addresses_are_names_or_literals() {
        for text in [
            "127.0.0.1:25566",
            "[2001:db8::7]:1",
            "mc:25566",
            "game_server-1.example.com.:9",
        ] {
            let parsed: GameAddress = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
            assert_eq!(
                parsed.literal().is_some(),
                text.parse::<SocketAddr>().is_ok()
            );
        }
        assert_eq!("MC:1".parse::<GameAddress>().unwrap().to_string(), "mc:1");
        let long = format!("{}:1", "a".repeat(64));
        for text in [
            "",
            "mc",
            "mc:",
            "mc:0",
            "mc:65536",
            ":1",
            "mc:-1",
            "m c:1",
            "a..b:1",
            "1.2.3:4",
            "::1:5",
            "256.0.0.1:1",
            "mc/1:2",
            &long,
        ] {
            assert_eq!(
                text.parse::<GameAddress>(),
                Err(GameAddressError),
                "{text:?}"
            );
        }
    }

    #[tokio::test]
    async fn names_are_looked_up() {
        let address: GameAddress = "localhost:25566".parse().unwrap();
        let found = address.lookup().await.unwrap();
        assert!(
            found
                .iter()
                .all(|found| found.ip().is_loopback() && found.port() == 25_566)
        );
        let missing: GameAddress = "missing.invalid:1".parse().unwrap();
        assert!(missing.lookup().await.is_err());
    }

    #[test]
    fn the_address_in_use_stays_while_it_can_be_reached() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut schedule = LookupSchedule::new(None, start);
        schedule.record_lookup(Some(&[address(1), address(2)]), at(0));
        assert_eq!(schedule.address(), Some(address(1)));
        // Name servers change the order.
        schedule.record_lookup(Some(&[address(2), address(1)]), at(30));
        assert_eq!(schedule.address(), Some(address(1)));
        schedule.record_lookup(None, at(60));
        assert_eq!(schedule.address(), Some(address(1)), "a failed lookup");
        schedule.record_unreachable(at(61));
        schedule.record_lookup(Some(&[address(2), address(1)]), at(61));
        assert_eq!(schedule.address(), Some(address(2)), "the next one");
        schedule.record_lookup(Some(&[address(3)]), at(91));
        assert_eq!(schedule.address(), Some(address(3)), "another one");
    }

    #[test]
    fn failures_bring_the_lookup_forward_and_then_wait_longer() {
        let start = Instant::now();
        let mut now = start;
        let mut schedule = LookupSchedule::new(None, start);
        assert_eq!(schedule.due(), start);
        let mut waits = Vec::new();
        for _ in 0..8 {
            schedule.record_lookup(None, now);
            waits.push((schedule.due() - now).as_secs());
            now = schedule.due();
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        schedule.record_lookup(Some(&[address(1)]), now);
        assert_eq!(schedule.due(), now + REFRESH);
        let later = now + Duration::from_secs(10);
        for _ in 0..3 {
            schedule.record_unreachable(later);
            assert_eq!(schedule.due(), later, "at once");
        }
        schedule.record_lookup(Some(&[address(1)]), later);
        schedule.record_unreachable(later);
        assert_eq!(schedule.due(), later + Duration::from_secs(2));
    }

    /// A container gets another address every 6 h, and name server and machine fail at times.
    #[test]
    fn follows_a_container_for_a_simulated_week() {
        let start = Instant::now();
        let mut schedule = LookupSchedule::new(None, start);
        let mut lookups = 0;
        let mut wrong = Duration::ZERO;
        let step = Duration::from_millis(500);
        let mut since = Duration::ZERO;
        while since < WEEK {
            let now = start + since;
            let hours = since.as_secs() / 3_600;
            let game = address((hours / 6 % 250) as u8 + 1);
            // The name server fails in the first five minutes of every tenth hour.
            let is_down = hours.is_multiple_of(10) && since.as_secs() % 3_600 < 300;
            if schedule.address().is_some_and(|address| address != game) {
                wrong += step;
                // A player sends something each second.
                if since.subsec_millis() == 0 {
                    schedule.record_unreachable(now);
                }
            } else {
                wrong = Duration::ZERO;
            }
            if is_down {
                wrong = Duration::ZERO;
            }
            assert!(wrong < Duration::from_secs(35), "{wrong:?} after {since:?}");
            if now >= schedule.due() {
                lookups += 1;
                schedule.record_lookup(
                    Some(&[game]).filter(|_| !is_down).map(|found| &found[..]),
                    now,
                );
            }
            // The machine is suspended for a night.
            if hours == 50 {
                since += Duration::from_secs(10 * 3_600);
            }
            since += step;
        }
        let most = WEEK.as_secs() / REFRESH.as_secs() + 28 * 12;
        assert!((WEEK.as_secs() / 40..=most).contains(&lookups), "{lookups}");
    }

    #[tokio::test]
    async fn other_ports_follow_the_door() {
        let (door, _requests) = Entrance::new();
        let other = Entrance::always_open(None);
        let views = other.changes();
        let follow = follow_port(&door, 24_454, &other);
        let check = async {
            let mut views = views;
            for state in [State::Running, State::Asleep] {
                door.show(View {
                    state,
                    game: Some(address(1)),
                });
                let game = SocketAddr::from(([10, 0, 0, 1], 24_454));
                let expected = View {
                    state,
                    game: Some(game),
                };
                let wait = views.wait_for(|view| *view == expected);
                let wait = tokio::time::timeout(Duration::from_secs(5), wait).await;
                assert!(wait.unwrap().is_ok());
            }
        };
        tokio::select! {
            () = follow => panic!("the door is open"),
            () = check => {}
        }
    }
}
