//! Statuses for tests, and a seeded random generator.

use hailer_proto::{Address, Extra, Player, Rule, Status, Text, Value};

/// SplitMix64: good enough for tests, and the same on every system.
pub struct Random(pub u64);

impl Random {
    #[expect(
        clippy::should_implement_trait,
        reason = "an endless generator is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
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
        extra: vec![Extra {
            key: "software",
            value: Value::from("Software"),
        }],
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
