//! Simulated servers with changing players.

use hailer::Status;
use hailer::proto::sample::uuid;
use hailer::proto::{Cookie, Protocol};
use hailer::proto::{Player, Text};

/// Number of players who visit a server.
const MEMBERS: u64 = 40;
/// Maximum number of players of a server.
pub(crate) const MAX_PLAYERS: i64 = 32;
/// Time between two changes of the map, in seconds.
const MAP_SECONDS: u64 = 600;

/// The players of a simulated server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    pub(crate) seed: u64,
}

impl Population {
    /// Returns the status at a time, in seconds: a sample of the protocol with the present players.
    pub(crate) fn status(self, protocol: &dyn Protocol, seconds: u64) -> Status {
        let mut status = protocol.sample(self.seed);
        // A listener may have several protocols: all of them need a name and a MOTD.
        status.motd = Some(if status.name.is_some() {
            Text::unformatted("A simulated server: come and go as you like")
        } else {
            Text::legacy(
                "\u{A7}6Hailer \u{A7}ldemo\u{A7}r \u{A7}7a simulated server\n\u{A7}bcome and go as you like",
            )
        });
        status.name = Some(Text::unformatted("Hailer demo server"));
        status.map = status.map.map(|_| self.map(seconds).into());
        let players = self.players(seconds);
        status.players.max = Some(MAX_PLAYERS);
        status.players.online = i64::try_from(players.len()).ok();
        status.players.set_list(players);
        status
    }

    /// Returns the map, which changes every 10 minutes.
    pub(crate) fn map(self, seconds: u64) -> &'static str {
        let maps = ["harbour", "old_mill", "lighthouse", "high_pass"];
        self.pick(seconds / MAP_SECONDS, &maps)
    }

    /// Returns the players who are online, with their scores, times and latencies.
    pub(crate) fn players(self, seconds: u64) -> Vec<Player> {
        let members = (0..MEMBERS).filter_map(|member| {
            let present = self.present(member, seconds)?;
            // A point every 2 to 20 s.
            let per_point = 2 + self.random(member, 5) % 18;
            Some(Player {
                score: i64::try_from(present / per_point).ok(),
                time_s: Some(present as f32),
                latency_ms: i32::try_from(15 + self.random(member, 6) % 100).ok(),
                ..self.player(member)
            })
        });
        members.take(MAX_PLAYERS as usize).collect()
    }

    /// Returns for how many seconds a player has been online; `None` if the player is not. Each
    /// player has a period of 2 to 10 minutes, and is online for 20 to 60 % of it.
    fn present(self, member: u64, seconds: u64) -> Option<u64> {
        let day = 120 + self.random(member, 1) % 480;
        let share = 20 + self.random(member, 2) % 40;
        let present = (seconds + self.random(member, 3)) % day;
        (present < day * share / 100).then_some(present)
    }

    /// Returns name and UUID of a player.
    pub(crate) fn player(self, member: u64) -> Player {
        let first = self.pick(
            member * 2,
            &[
                "Ar", "Bel", "Cor", "Dun", "El", "Fin", "Gar", "Hal", "Is", "Jor", "Kel", "Lu",
            ],
        );
        let last = self.pick(
            member * 2 + 1,
            &[
                "wen", "mar", "dis", "thas", "la", "nor", "rik", "via", "ston", "o",
            ],
        );
        let bits = [10, 11].map(|purpose| self.random(member, purpose));
        Player {
            uuid: Some(uuid(bits)),
            ..Player::named(Text::unformatted(format!("{first}{last}{member}")))
        }
    }

    fn pick(self, index: u64, from: &[&'static str]) -> &'static str {
        from[self.random(index, 4) as usize % from.len()]
    }

    /// Returns a pseudorandom number, always the same for the same arguments.
    pub(crate) fn random(self, index: u64, purpose: u64) -> u64 {
        Cookie(self.seed).derive(index << 8 | purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer::proto::registry;

    #[test]
    fn status_depends_on_seed_and_time_only() {
        let protocol = registry::PROTOCOLS[0];
        let at = |seed, seconds| Population { seed }.status(protocol, seconds);
        assert_eq!(at(1, 1000), at(1, 1000));
        assert_ne!(at(1, 1000).players, at(2, 1000).players);
        let counts: std::collections::HashSet<_> =
            (0..3600).map(|s| at(1, s).players.online).collect();
        assert!(counts.len() > 5, "players come and go: {counts:?}");
        assert!((0..3600).all(|s| {
            at(1, s)
                .players
                .online
                .is_some_and(|online| (1..=MAX_PLAYERS).contains(&online))
        }));
    }
}
