//! Samples of 7 Days to Die servers.

use super::client::TICKS_PER_DAY;
use crate::model::{Address, Extra, Rule, Status, Text};
use crate::testing::sample::Server;
use alloc::string::ToString;

const RULES: &[(&str, &[&str])] = &[
    ("Region", &["Europe", "NorthAmericaEast"]),
    ("GameDifficulty", &["1", "2", "3"]),
    ("DayNightLength", &["60", "90"]),
    ("AllowCrossplay", &["True", "False"]),
];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    let motd = random.text(&["survive; together", "caf\u{E9}: open", "\u{2605} season 7"]);
    status.motd = Some(Text::unformatted(motd));
    status.mode = Some("GameModeSurvival".into());
    status.version = Some("V.2.4.7".into());
    status.has_password = Some(random.below(8) == 0);
    status.has_anti_cheat = Some(random.below(2) == 0);
    status.address = Some(Address {
        host: None,
        port: Some(26_900),
    });
    status.players.online = Some(server.players.len() as i64);
    status.players.max = Some(64);
    let ticks = random.below(2_400_000) as i64;
    status
        .extra
        .push(Extra::new("save", random.text(&["World1", "Saturday"])));
    status
        .extra
        .push(Extra::new("day", ticks / TICKS_PER_DAY + 1));
    let rule = |key: &str, value: &str| Rule {
        key: key.into(),
        value: value.into(),
    };
    for (key, values) in random.some(RULES) {
        status.rules.push(rule(key, &random.text(values)));
    }
    status
        .rules
        .push(rule("CurrentServerTime", &ticks.to_string()));
    server.status
}
