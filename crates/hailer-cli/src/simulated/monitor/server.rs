//! Simulated servers: their names, players and outages. Everything is a function of the time, so
//! that the stored past and the live replies match.

use crate::simulated::population::Population;
use hailer::Status;
use hailer::proto::Protocol;
use hailer::proto::model::{Player, Roster};
use hailer::proto::{Text, registry};
use hailer_monitor::history::NewServer;
use hailer_monitor::sample::Millis;
use hailer_monitor::server::Origin;
use std::net::SocketAddr;

pub(super) const MINUTE: Millis = 60_000;
pub(super) const HOUR: Millis = 60 * MINUTE;
pub(super) const DAY: Millis = 24 * HOUR;
/// Number of minutes in a day.
pub(super) const MINUTES: usize = 1_440;
/// Maximum length of a session. Every session of a day ends by the end of the next day.
const MAX_SESSION_MS: Millis = 6 * HOUR;
/// Members per player online on a busy evening.
const MEMBERS_PER_PLAYER: u32 = 7;
/// Random outages end at least this long before the start of the demo.
const CALM_MS: Millis = 2 * HOUR;
/// Time since the server that is down went down.
const DOWN_MS: Millis = 3 * HOUR + 20 * MINUTE;
/// Time since the flapping server began to flap.
const FLAPPING_MS: Millis = 2 * HOUR;
/// Time between two changes of its state.
const FLAP_INTERVAL_MS: Millis = 7_000;
/// Time between two versions of the development server.
const BUILD_INTERVAL_MS: Millis = HOUR / 2;
/// Versions, from oldest to newest, and the time between two of them.
const RELEASES: [&str; 8] = [
    "1.21.4", "1.21.5", "1.21.6", "1.21.7", "1.21.8", "1.21.9", "1.21.10", "1.21.11",
];
const RELEASE_INTERVAL_MS: Millis = 52 * DAY;

/// A simulated server.
pub(super) struct SimulatedServer {
    pub(super) seed: u64,
    pub(super) name: &'static str,
    group: &'static str,
    pub(super) protocol: &'static dyn Protocol,
    versions: Versions,
    motd: &'static str,
    /// Number of players on a busy evening.
    peak: u32,
    pub(super) max: u32,
    region: Region,
    behavior: Behavior,
    /// Start of the demo.
    started: Millis,
}

/// Region of the players, which determines their evening.
#[derive(Clone, Copy, PartialEq)]
enum Region {
    Europe,
    America,
    Asia,
}

/// Behavior of a server.
#[derive(Clone, Copy, PartialEq)]
enum Behavior {
    Usual,
    /// Restarts every night, down for some minutes.
    Restarts,
    Down,
    Flaps,
    Builds,
    /// Loses one datagram in eight.
    Lossy,
    /// Its status tries to inject code.
    Hostile,
    /// Opened some weeks ago.
    New,
}

/// Scheme by which versions are numbered.
#[derive(Clone, Copy, PartialEq)]
enum Versions {
    /// Like those of Minecraft.
    Releases,
    /// Year and month.
    Calendar,
    Unversioned,
    /// The version of the protocol's sample, which never changes.
    AsSampled,
}

use Region::{America, Asia, Europe};
use Versions::{AsSampled, Calendar, Releases, Unversioned};

type ServerRow = (
    &'static str,
    &'static str,
    &'static str,
    Versions,
    &'static str,
    u32,
    u32,
    Region,
    Behavior,
);

/// Name, group, protocol, versions, MOTD or name, players on a busy evening, maximum players,
/// region and behavior.
#[rustfmt::skip]
const SERVERS: &[ServerRow] = &[
    ("harbour", "Survival", "minecraft-query", Releases, "§6§lHarbour§r §7» §bfish, trade, §ocalm seas§r\n§8since 2011", 64, 100, Europe, Behavior::Usual),
    ("iron-keep", "Survival", "minecraft-query", Releases, "§cIron §4Keep §7| §fhard mode, no mercy", 31, 60, Europe, Behavior::Restarts),
    ("old-mill", "Survival", "minecraft-query", Releases, "§7The §eOld Mill §7- §ffresh bread daily", 12, 24, Europe, Behavior::Usual),
    ("caverns", "Survival", "minecraft-query", Releases, "§5Caverns §d§kxx§r§d deep, dark, damp §kxx", 22, 50, America, Behavior::Usual),
    ("frostford", "Survival", "minecraft-query", Releases, "§b❄ §fFrostford §b❄ §7bring a coat", 17, 40, Asia, Behavior::Usual),
    ("driftwood", "Survival", "minecraft-query", Releases, "§3Drift§6wood §8— §7one island, one life", 9, 20, America, Behavior::Lossy),
    ("meadow", "Creative", "minecraft-query", Releases, "§aMeadow §2❀ §fbuild what you like", 26, 40, Europe, Behavior::Usual),
    ("skyline", "Creative", "minecraft-query", Releases, "§x§f§f§5§5§0§0S§x§f§f§8§0§0§0k§x§f§f§a§a§0§0y§x§a§a§f§f§5§5l§x§5§5§f§f§a§ai§x§5§5§a§a§f§fn§x§a§a§5§5§f§fe§r §7plots of 64 × 64", 38, 80, America, Behavior::Usual),
    ("blueprint", "Creative", "minecraft-query", Releases, "§9§lBLUEPRINT§r §7redstone, and only redstone", 14, 30, Asia, Behavior::Builds),
    ("lobby-eu", "Network", "minecraft-query", Releases, "§e★ §6§lCROSSROADS §e★ §7Europe\n§fsix games, one lobby", 240, 500, Europe, Behavior::Usual),
    ("lobby-us", "Network", "minecraft-query", Releases, "§e★ §6§lCROSSROADS §e★ §7America\n§fsix games, one lobby", 190, 500, America, Behavior::Usual),
    ("lobby-asia", "Network", "minecraft-query", Releases, "§e★ §6§lCROSSROADS §e★ §7Asia\n§fsix games, one lobby", 120, 500, Asia, Behavior::New),
    ("arena-1", "Network", "minecraft-query", Releases, "§c§lARENA §r§fa round every five minutes", 28, 32, Europe, Behavior::Usual),
    ("arena-2", "Network", "minecraft-query", Releases, "§c§lARENA §r§fa round every five minutes", 19, 32, Europe, Behavior::Flaps),
    ("arena-3", "Network", "minecraft-query", Releases, "§c§lARENA §r§ffor two", 8, 16, America, Behavior::Usual),
    ("market", "Network", "minecraft-query", Releases, "§3Market §7- §nopen all night§r §8§mclosed", 15, 50, Europe, Behavior::Down),
    ("lanterns", "Minigames", "minecraft-query", Releases, "§6✦ §eLantern Run §6✦", 21, 48, Asia, Behavior::Usual),
    ("hide-and-seek", "Minigames", "minecraft-query", Releases, "§aHide §7and §cSeek", 24, 48, America, Behavior::Usual),
    ("snowball", "Minigames", "minecraft-query", Releases, "§fSnow§bball §7fights until midnight", 11, 24, Europe, Behavior::Restarts),
    ("parkour", "Minigames", "minecraft-query", Releases, "§2§lPARKOUR §r§7jump, fall, repeat", 16, 32, Asia, Behavior::Usual),
    ("liberty", "Roleplay", "ugp", Unversioned, "[EN] Liberty City Stories • serious roleplay", 42, 64, America, Behavior::Usual),
    ("vice", "Roleplay", "ugp", Unversioned, "[EN] Vice Nights • neon, music, boats", 33, 64, America, Behavior::Restarts),
    ("empire-bay", "Roleplay", "ugp", Unversioned, "[IT] Empire Bay • vita di famiglia", 18, 32, Europe, Behavior::Usual),
    ("neustadt", "Roleplay", "ugp", Unversioned, "[DE] Neustadt • Rollenspiel ab 16", 29, 48, Europe, Behavior::Usual),
    ("freeroam", "Roleplay", "ugp", Unversioned, "[ALL] Freeroam • no rules but one", 23, 100, Asia, Behavior::Usual),
    ("race-club", "Racing", "ugp", Unversioned, "[EN] Race Club • a new track each hour", 13, 24, Europe, Behavior::Usual),
    ("drift-king", "Racing", "ugp", Unversioned, "[JP] 峠の王 • drift only", 20, 32, Asia, Behavior::Usual),
    ("derby", "Racing", "ugp", Unversioned, "[EN] Derby • last one rolling", 10, 24, America, Behavior::Lossy),
    ("orbis", "Adventure", "onequery", Calendar, "Welcome to Orbis", 88, 150, Europe, Behavior::Usual),
    ("grove", "Adventure", "onequery", Calendar, "Kweebecs welcome", 37, 80, America, Behavior::Usual),
    ("howling-sands", "Adventure", "onequery", Calendar, "Howling Sands: bring water", 25, 60, Asia, Behavior::Usual),
    ("borea", "Adventure", "onequery", Calendar, "Borea in winter", 19, 60, Europe, Behavior::New),
    ("zone-3", "Adventure", "onequery", Calendar, "Zone 3 (beta)", 6, 40, America, Behavior::Builds),
    ("mesa", "Steam", "a2s", AsSampled, "Mesa | PvE | weekly wipe", 58, 100, Europe, Behavior::Usual),
    ("dustbowl", "Steam", "a2s", AsSampled, "Dustbowl 24/7 | no respawn times", 26, 32, America, Behavior::Usual),
    ("sandbox", "Steam", "a2s", AsSampled, "Sandbox: build, then break", 14, 24, Europe, Behavior::Lossy),
    ("barrens", "Steam", "a2s", AsSampled, "The Barrens [hardcore]", 31, 64, Asia, Behavior::Restarts),
    ("beacon", "Modern", "minecraft-status", Releases, "§bBeacon §8| §fskyblock, §eone chunk each", 47, 120, Europe, Behavior::Usual),
    ("deepslate", "Modern", "minecraft-status", Releases, "§8Deep§7slate §f» caves and cliffs\n§7a new world every month", 22, 60, America, Behavior::Usual),
    ("cherry-grove", "Modern", "minecraft-status", Releases, "§dCherry Grove §7✿ §fpeaceful, always", 11, 30, Asia, Behavior::New),
    ("museum", "Museum", "minecraft-status", Unversioned, "A museum by the sea", 4, 20, Europe, Behavior::Usual),
    ("snapshot", "Museum", "minecraft-status", Unversioned, "12w27a, as it was", 3, 10, America, Behavior::Usual),
    ("first-night", "Museum", "minecraft-status", Unversioned, "The first night, every night", 2, 8, Asia, Behavior::Restarts),
    ("mallory", "Hostile", "minecraft-query", Releases, "<img src=x onerror=alert('owned')><script>alert('owned')</script>", 5, 20, America, Behavior::Hostile),
    ("mirror", "Hostile", "onequery", Calendar, "\u{202E}sdrawkcab si gnihtyreve ereh\u{202C} <b>bold?</b>", 4, 20, Europe, Behavior::Hostile),
];

/// Returns all simulated servers.
pub(super) fn all(started: Millis) -> Vec<SimulatedServer> {
    let server = |(seed, row): (u64, &ServerRow)| {
        let (name, group, protocol, versions, motd, peak, max, region, behavior) = *row;
        let protocol = registry::find(protocol).expect("a protocol of the registry");
        SimulatedServer {
            seed,
            name,
            group,
            protocol,
            versions,
            motd,
            peak,
            max,
            region,
            behavior,
            started,
        }
    };
    (1..).zip(SERVERS).map(server).collect()
}

impl SimulatedServer {
    /// Returns the server's configuration for the monitor.
    pub(super) fn server(&self, address: SocketAddr) -> NewServer {
        let region = match self.region {
            Europe => "Europe",
            America => "America",
            Asia => "Asia",
        };
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        NewServer {
            name: self.name.into(),
            target: format!("{}://{address}", self.protocol.info().id),
            group: self.group.into(),
            labels: [label("region", region), label("simulated", "yes")].into(),
            interval: None,
            origin: Origin::Configuration,
        }
    }

    /// Returns the opening time of the server, at most 400 days ago.
    pub(super) fn opened(&self) -> Millis {
        let days = if self.behavior == Behavior::New {
            24
        } else {
            400
        };
        self.started - days * DAY
    }

    /// Returns whether the server replies.
    pub(super) fn is_up(&self, at: Millis) -> bool {
        match self.behavior {
            _ if at < self.opened() => false,
            Behavior::Down if at >= self.started - DOWN_MS => false,
            Behavior::Flaps if at >= self.started => {
                (at - self.started) / FLAP_INTERVAL_MS % 2 == 0
            }
            // Stored samples are one minute apart, so the past needs slower changes.
            Behavior::Flaps if at >= self.started - FLAPPING_MS => at / MINUTE % 12 < 7,
            _ => !self
                .outage(at.div_euclid(DAY))
                .is_some_and(|(from, to)| (from..to).contains(&at)),
        }
    }

    /// Returns the outage of a day, if there is one.
    pub(super) fn outage(&self, day: i64) -> Option<(Millis, Millis)> {
        let random = |purpose| self.random(day as u64, purpose);
        let outage = match self.behavior {
            Behavior::Restarts => (day * DAY + 4 * HOUR, day * DAY + 4 * HOUR + 6 * MINUTE),
            _ if random(20) % 100 >= 4 => return None,
            _ => {
                let from = day * DAY + (random(21) % 1_300) as Millis * MINUTE;
                let length = 4 + (random(22) % 10).pow(2);
                (from, from + length as Millis * MINUTE)
            }
        };
        (outage.1 < self.started - CALM_MS && outage.0 > self.opened()).then_some(outage)
    }

    /// Returns when the server went down, if it is still down.
    pub(super) fn down_since(&self) -> Option<Millis> {
        (self.behavior == Behavior::Down).then_some(self.started - DOWN_MS)
    }

    /// Returns whether a datagram is lost. `chance` is a random number.
    pub(super) fn loses(&self, chance: u64) -> bool {
        chance.is_multiple_of(if self.behavior == Behavior::Lossy {
            8
        } else {
            400
        })
    }

    /// Returns the latency of a reply in microseconds.
    pub(super) fn latency(&self, at: Millis) -> u32 {
        let base = match self.region {
            Europe => 14_000,
            America => 88_000,
            Asia => 171_000,
        };
        let base = base + self.random(0, 30) % (base / 2);
        // Latency rises in the evening, with occasional peaks.
        let evening = (at.rem_euclid(DAY) as f64 / DAY as f64 * std::f64::consts::TAU - 1.0).sin()
            * 0.06
            + 1.0;
        let minute = self.random((at / MINUTE) as u64, 31);
        let spike = if minute.is_multiple_of(150) {
            minute % 60_000
        } else {
            0
        };
        (base as f64 * evening) as u32 + (minute % 3_000 + spike) as u32
    }

    /// Returns the version at a time.
    pub(super) fn version(&self, at: Millis) -> Option<String> {
        let since = (at - self.opened()).max(0);
        Some(match (self.versions, self.behavior) {
            (_, Behavior::Hostile) => "\"><script>alert('owned')</script>".into(),
            (Releases, Behavior::Builds) => {
                format!("1.22-build.{}", at / BUILD_INTERVAL_MS % 10_000)
            }
            (Releases, _) => {
                // Each server updates with its own delay.
                let late = (self.random(0, 40) % 20) as Millis * DAY;
                RELEASES[((since - late).max(0) / RELEASE_INTERVAL_MS)
                    .clamp(0, RELEASES.len() as i64 - 1) as usize]
                    .into()
            }
            (Calendar, Behavior::Builds) => format!("2026.11.{}", at / BUILD_INTERVAL_MS % 1_000),
            (Calendar, _) => format!("2026.{}", 1 + since / (40 * DAY)),
            (Unversioned | AsSampled, _) => return None,
        })
    }

    /// Returns the status at a time.
    pub(super) fn status(&self, at: Millis) -> Status {
        let population = Population { seed: self.seed };
        let mut status = self.protocol.sample(self.seed);
        status.map = status
            .map
            .map(|_| population.map((at / 1_000) as u64).into());
        if status.name.is_some() {
            status.name = Some(Text::unformatted(self.motd));
            status.motd = None;
        } else {
            status.motd = Some(Text::legacy(self.motd));
        }
        if self.versions != AsSampled {
            status.version = self.version(at).map(Into::into);
        }
        if self.behavior == Behavior::Hostile {
            status.map = Some("</title><script>alert('owned')</script>".into());
        }
        let has_scores = self.protocol.info().id == "a2s";
        let on = self.on(at).take(self.max as usize).map(|(member, since)| {
            let mut player = self.player(member);
            if has_scores {
                player.score = Some((self.random(member.into(), 60) % 90) as i64);
                player.time_s = Some(((at - since) / 1_000) as f32);
            }
            player
        });
        let on: Vec<Player> = on.collect();
        status.players.max = Some(self.max.into());
        status.players.online = Some(on.len() as i64);
        status.players.set_list(on);
        status
    }

    fn player(&self, member: u32) -> Player {
        let player = Population { seed: self.seed }.player(member.into());
        match (self.behavior, member % 3) {
            (Behavior::Hostile, 0) => Player {
                name: Text::unformatted("<b onclick=alert(1)>Mallory</b>"),
                ..player
            },
            (Behavior::Hostile, 1) => Player {
                name: Text::unformatted(format!("\u{202E}{member} evE")),
                ..player
            },
            _ => player,
        }
    }

    /// Returns the name of a member.
    pub(super) fn name_of(&self, member: u32) -> String {
        self.player(member).name.plain()
    }

    fn members(&self) -> u32 {
        self.peak * MEMBERS_PER_PLAYER
    }

    /// Returns whether a reply lists all players, rather than a sample.
    pub(super) fn lists_all_players(&self) -> bool {
        self.protocol.sample(self.seed).players.roster != Roster::Sample
    }

    /// Returns the members who are online at a time, and when each of them joined.
    fn on(&self, at: Millis) -> impl Iterator<Item = (u32, Millis)> {
        let today = at.div_euclid(DAY);
        (0..self.members()).filter_map(move |member| {
            let is_on = |(from, to): &(Millis, Millis)| *from <= at && at < *to;
            let mut sessions = (today - 1..=today + 1).filter_map(|day| self.session(member, day));
            sessions.find(is_on).map(|(from, _)| (member, from))
        })
    }

    /// Returns the session of a member on a day, if there is one. Some are before noon, most in the
    /// local evening; weekends have more, and numbers grow from month to month.
    pub(super) fn session(&self, member: u32, day: i64) -> Option<(Millis, Millis)> {
        let random = self.random((day as u64) << 24 | u64::from(member), 50);
        let part = |bits: u32| ((random >> bits) & 0xFFF) as f64 / 4_096.0;
        // 1 January 1970 was a Thursday.
        let is_weekend = matches!(day.rem_euclid(7), 2 | 3);
        let age = (day * DAY - self.opened()) as f64 / (400.0 * DAY as f64);
        let season = 0.45 + 0.5 * age.min(1.0) + 0.1 * (age * 19.0 + self.seed as f64).sin();
        let share = season * if is_weekend { 0.85 } else { 0.6 };
        if part(0) >= share || day * DAY < self.opened() {
            return None;
        }
        let middle = if random >> 60 < 3 { 10.0 } else { 19.5 };
        let hour = middle + 5.0 * (part(12) + part(24) - 1.0) - self.hours();
        let length = 0.3 + 3.2 * part(36) * part(48);
        let from = day * DAY + (hour * HOUR as f64) as Millis;
        Some((
            from,
            from + ((length * HOUR as f64) as Millis).min(MAX_SESSION_MS),
        ))
    }

    fn hours(&self) -> f64 {
        match self.region {
            Europe => 1.0,
            America => -6.0,
            Asia => 8.0,
        }
    }

    /// Returns the number of players in each minute of a day, in UTC. Only one of `every` members
    /// is computed, and counts for `every` members.
    pub(super) fn minutes(&self, day: i64, every: u32) -> [u32; MINUTES] {
        let mut changes = [0_i32; MINUTES + 1];
        let start = day * DAY;
        // Index of the first minute that begins at or after a time.
        let minute = |at: Millis| ((at - start).clamp(0, DAY) as usize).div_ceil(MINUTE as usize);
        for member in (0..self.members()).step_by(every as usize) {
            for (from, to) in (day - 1..=day + 1).filter_map(|day| self.session(member, day)) {
                let from = minute(from);
                let to = minute(to);
                changes[from] += every as i32;
                changes[to] -= every as i32;
            }
        }
        let mut on = 0_i32;
        std::array::from_fn(|minute| {
            on += changes[minute];
            (on.max(0) as u32).min(self.max)
        })
    }

    /// Returns all sessions of a day: member, start, end.
    pub(super) fn sessions(&self, day: i64) -> impl Iterator<Item = (u32, Millis, Millis)> {
        (0..self.members()).filter_map(move |member| {
            self.session(member, day)
                .map(|(from, to)| (member, from, to))
        })
    }

    pub(super) fn random(&self, index: u64, purpose: u64) -> u64 {
        Population { seed: self.seed }.random(index, purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_monitor::server::check;

    #[test]
    fn the_stored_past_matches_the_live_status() {
        let now = 20_000 * DAY + 18 * HOUR;
        let mut most = 0;
        for server in all(now) {
            assert_eq!(
                check(&server.server(([127, 0, 0, 1], 25_565).into())),
                [],
                "{}",
                server.name
            );
            let day = now.div_euclid(DAY);
            let minutes = server.minutes(day, 1);
            for hour in 0..18 {
                let at = day * DAY + hour * HOUR;
                let status = server.status(at);
                assert_eq!(
                    status.players.online,
                    Some(minutes[hour as usize * 60].into()),
                    "{} at {hour}",
                    server.name
                );
                most = most.max(status.players.count());
            }
            let is_up = server.is_up(now + 1);
            assert_eq!(
                is_up,
                !matches!(server.behavior, Behavior::Down),
                "{}",
                server.name
            );
        }
        assert!(most > 100, "{most}");
    }
}
