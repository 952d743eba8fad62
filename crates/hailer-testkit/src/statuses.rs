//! Statuses for tests, and a seeded random generator.

use hailer_proto::sample;
use hailer_proto::{Address, Extra, Player, Rule, Status, Text, Value};

/// The generator of the sample statuses (SplitMix64), for tests: the same numbers on every system.
pub struct Random(pub u64);

impl Random {
    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let mut random = sample::Random(self.0);
        let bits = random.next();
        self.0 = random.0;
        bits
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit.max(1)
    }

    /// Returns `true` with a probability in percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Returns a status in which every member has short plain text, with this number of players.
pub fn plain(players: usize) -> Status {
    let mut status = Status {
        name: Some(Text::legacy("Plain name")),
        motd: Some(Text::legacy("Plain motd")),
        game: Some("plaingame".into()),
        mode: Some("plainmode".into()),
        map: Some("plainmap".into()),
        version: Some("1.2.3".into()),
        rules: vec![Rule {
            key: "rule".into(),
            value: "value".into(),
        }],
        address: Some(Address {
            host: Some("192.0.2.9".into()),
            port: Some(2_345),
        }),
        extra: vec![Extra::new("software", Value::from("Software"))],
        ..Status::default()
    };
    status.players.max = Some(players.max(100) as i64);
    status.players.online = Some(players as i64);
    status.players.set_list(
        (0..players)
            .map(|i| Player::named(Text::legacy(format!("player_{i}"))))
            .collect(),
    );
    status
}

/// Returns four statuses: empty, small, full, and one in which all texts are huge.
pub fn several() -> Vec<Status> {
    let mut huge = plain(2_000);
    let long = "x\u{A7}a\u{4E2D}".repeat(20_000);
    huge.name = Some(Text::legacy(long.clone()));
    huge.motd = Some(Text::legacy(long.clone()));
    huge.game = Some(long.as_str().into());
    huge.mode = Some(long.as_str().into());
    huge.map = Some(long.as_str().into());
    huge.version = Some(long.as_str().into());
    huge.address = Some(Address {
        host: Some(long.as_str().into()),
        port: Some(65_535),
    });
    huge.rules = (0..500)
        .map(|i| Rule {
            key: format!("rule{i}").into(),
            value: long[..400].into(),
        })
        .collect();
    vec![Status::default(), plain(3), plain(300), huge]
}
