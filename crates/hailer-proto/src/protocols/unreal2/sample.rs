//! Samples of Unreal 2 servers.

use crate::model::{Address, Extra, Rule, Status, Text, Value};
use crate::sample::Server;
use alloc::{format, vec};

const RULES: &[(&str, &[&str])] = &[
    ("ServerMode", &["dedicated"]),
    ("AdminName", &["", "The harbour master"]),
    ("MinPlayers", &["0", "2"]),
    ("Translocator", &["True", "False"]),
];
const COLORS: &[&str] = &["", "\u{1B}\u{F8}@@", "\u{1B}@\u{20AC}@"];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    let color = random.pick(COLORS);
    status.name = Some(Text::unreal(format!("{color}{}", server.name)));
    status.mode = Some(
        random
            .text(&["xDeathMatch", "ONSOnslaughtGame", "xCTFGame"])
            .into(),
    );
    status.version = Some("3369".into());
    status.has_password = Some(random.below(8) == 0);
    status.address = Some(Address {
        host: None,
        port: Some(7777),
    });
    let skill = random.text(&["0", "2", "4"]);
    status.extra.push(Extra::new("skill", skill));
    let rule = |key: &str, value: &str| Rule {
        key: key.into(),
        value: value.into(),
    };
    status.rules = random.rules(RULES);
    if random.below(2) == 0 {
        status.rules.push(rule("Mutator", "MutInstaGib"));
        status.extra.push(Extra::new(
            "mutators",
            Value::List(vec![Value::from("MutInstaGib")]),
        ));
    }
    status.rules.push(rule("ServerVersion", "3369"));
    let password = if status.has_password == Some(true) {
        "True"
    } else {
        "False"
    };
    status.rules.push(rule("GamePassword", password));
    let mut bots = 0;
    for (id, player) in (1_i64..).zip(&mut server.players) {
        player.uuid = None;
        player.score = Some(random.below(60) as i64 - 5);
        player.latency_ms = Some(random.below(180) as i32);
        bots += i64::from(player.latency_ms == Some(0));
        player.team = match random.below(3) {
            0 => Some("red".into()),
            1 => Some("blue".into()),
            _ => None,
        };
        player.extra.push(Extra::new("id", id));
    }
    let mut status = server.finish();
    status.players.bots = Some(bots);
    status
}
