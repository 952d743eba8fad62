//! Invented servers whose players come and go: a pure function of seed and time, so a demo can be shown twice.

use hailer::proto::minecraft_query;
use hailer::proto::model::{Extra, Rule};
use hailer::proto::{Cookie, Info};
use hailer::{Player, Status, Text};

/// People who are on now and then.
const MEMBERS: u64 = 40;
const MAX_PLAYERS: i64 = 32;
/// Maps change so often, seconds.
const ROUND: u64 = 600;

/// A population.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    pub(crate) seed: u64,
}

impl Population {
    /// What the server says at a time, in seconds from any start, in the manner of a protocol's games.
    pub(crate) fn status(self, info: &Info, seconds: u64) -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Hailer demo server")),
            motd: Some(Text::legacy(
                "\u{A7}6Hailer \u{A7}ldemo\u{A7}r \u{A7}7an invented server\n\u{A7}bcome and go as you like",
            )),
            map: Some(
                self.pick(
                    seconds / ROUND,
                    &["harbour", "old_mill", "lighthouse", "high_pass"],
                )
                .into(),
            ),
            mode: Some("SMP".into()),
            ..Status::default()
        };
        match info.id {
            "minecraft-query" => {
                status.version = Some("1.21.8".into());
                status.extra.push(Extra::new("software", "Hailer"));
                let plugins = [("Tides", "2.1"), ("Seagulls", "0.9.4")];
                status.extra.extend(minecraft_query::plugins(plugins));
            }
            "ugp" => {
                status.mode = Some("Roleplay".into());
                status.game = Some("Grand Theft Auto: Connected".into());
                status.extra.push(Extra::new("game-id", 3));
                let rule = |key: &str, value: &str| Rule {
                    key: key.into(),
                    value: value.into(),
                };
                status.rules = vec![rule("Owner", "The harbour master"), rule("Language", "any")];
            }
            "onequery" => {
                status.motd = Some(Text::unformatted(
                    "An invented server: come and go as you like",
                ));
                status.version = Some("2026.11".into());
            }
            _ => {}
        }
        status.players.max = Some(MAX_PLAYERS);
        let players: Vec<Player> = self
            .online(seconds)
            .map(|member| self.player(member))
            .collect();
        status.players.online = i64::try_from(players.len()).ok();
        status.players.set_list(players);
        status
    }

    /// Everybody has hours of their own: on for a part of each of their days, which are minutes long.
    fn online(self, seconds: u64) -> impl Iterator<Item = u64> {
        let on = move |member: &u64| {
            let day = 120 + self.random(*member, 1) % 480;
            let share = 20 + self.random(*member, 2) % 40;
            (seconds + self.random(*member, 3)) % day < day * share / 100
        };
        (0..MEMBERS).filter(on).take(MAX_PLAYERS as usize)
    }

    /// Somebody.
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
        let mut uuid = [0; 16];
        for (half, bytes) in uuid.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.random(member, 10 + half as u64).to_be_bytes());
        }
        // Version 4, variant 1, as random UUIDs are marked.
        uuid[6] = uuid[6] & 0x0F | 0x40;
        uuid[8] = uuid[8] & 0x3F | 0x80;
        Player {
            uuid: Some(uuid),
            ..Player::named(Text::unformatted(format!("{first}{last}{member}")))
        }
    }

    fn pick(self, index: u64, from: &[&'static str]) -> &'static str {
        from[self.random(index, 4) as usize % from.len()]
    }

    /// A number that looks random, the same each time.
    pub(crate) fn random(self, index: u64, purpose: u64) -> u64 {
        Cookie(self.seed).derive(index << 8 | purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer::registry;

    #[test]
    fn the_same_seed_and_time_tell_the_same_story_and_others_another() {
        let info = registry::PROTOCOLS[0].info();
        let at = |seed, seconds| Population { seed }.status(info, seconds);
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
