//! Samples of SA-MP servers.

use crate::model::{Extra, Rule, Status, Text};
use crate::sample::Server;

const RULES: &[(&str, &[&str])] = &[
    ("lagcomp", &["On", "Off"]),
    ("weather", &["1", "10", "14"]),
    ("worldtime", &["12:00", "07:30"]),
];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    status.mode = Some(
        random
            .text(&[
                "Freeroam",
                "Roleplay",
                "Race",
                "\u{420}\u{43E}\u{43B}\u{438}",
            ])
            .into(),
    );
    status.version = Some("0.3.7-R2".into());
    status.has_password = Some(random.below(8) == 0);
    let language = random.text(&[
        "English",
        "Deutsch",
        "\u{420}\u{443}\u{441}\u{441}\u{43A}\u{438}\u{439}",
    ]);
    status.extra.push(Extra::new("language", language));
    let rule = |key: &str, value: &str| Rule {
        key: key.into(),
        value: value.into(),
    };
    status.rules = random.rules(RULES);
    for (key, value) in [("mapname", &status.map), ("version", &status.version)] {
        let value = value.as_deref().unwrap_or_default();
        status.rules.push(rule(key, value));
    }
    for (id, player) in (0_i64..).zip(&mut server.players) {
        player.uuid = None;
        player.score = Some(random.below(60) as i64 - 5);
        player.latency_ms = Some(random.below(180) as i32);
        player.extra.push(Extra::new("id", id));
    }
    server.finish()
}
