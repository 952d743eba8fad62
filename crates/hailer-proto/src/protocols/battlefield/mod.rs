//! Battlefield (Frostbite): the commands of the remote administration that need no login. TCP.
//!
//! ```text
//!   client                                    server
//!     version, serverInfo, listPlayers all ─►
//!                                          ◄─  OK and words, for each command
//! ```
//!
//! Little-endian packets of words. A sequence number joins request and reply. The port is also that
//! of the administration: the client never logs in.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod reply;
mod server;

pub use client::BattlefieldExchange;
pub use server::BattlefieldResponder;

use crate::model::{Extra, Status, Text, Value};
use crate::protocol::{Composed, Doc, Info};
use crate::sample;
use alloc::string::ToString;
use alloc::{boxed::Box, sync::Arc, vec::Vec};

static INFO: Info = Info {
    id: "battlefield",
    title: "Battlefield",
    port: 47_200,
    place: 15,
    declares_charset: false,
    fields: &[
        Doc::new("rounds-played", "Number of rounds before this one"),
        Doc::new("rounds", "Number of rounds on this map"),
        Doc::new("scores", "Scores of the teams: tickets or kills"),
        Doc::new("target-score", "Score that ends the round"),
        Doc::new(
            "online-state",
            "State of the connection to the game's service",
        ),
        Doc::new("ranked", "Whether results count for the ranks of players"),
        Doc::new("uptime", "Time since the start of the server in seconds"),
        Doc::new("round-time", "Time since the start of the round in seconds"),
        Doc::new("mod", "Modification: `BC2` or `VIETNAM`"),
        Doc::new("map-pack", "Number of the map pack"),
        Doc::new("punkbuster-version", "Version of PunkBuster"),
        Doc::new("join-queue", "Whether players can wait for a slot"),
        Doc::new("region", "Region, such as `EU` or `NAm`"),
        Doc::new("ping-site", "Site of the game's service that is closest"),
        Doc::new("country", "Country"),
        Doc::new("matchmaking", "Whether the game's service sends players"),
        Doc::new(
            "backend-players",
            "Number of players that the game's service counts, including joining ones",
        ),
        Doc::new("backend-state", "State of the game, as its service sees it"),
        Doc::new(
            "list-error",
            "Error in the list of players, if it cannot be read",
        ),
    ],
    player_fields: &[
        Doc::new("clan", "Clan tag"),
        Doc::new("squad", "Number of the squad, 0 without one"),
        Doc::new("kills", "Kills"),
        Doc::new("deaths", "Deaths"),
        Doc::new("rank", "Rank of the player"),
        Doc::new("type", "0 player, 1 spectator, 2 commander"),
        Doc::new(
            "other",
            "Columns that are not part of the protocol, by their names",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::CONNECTED
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(BattlefieldExchange::new(ask, cookie)),
    responder: Some(|status, _, options| {
        options.check(INFO.options)?;
        Ok(Arc::new(BattlefieldResponder::new(status)))
    }),
    sample: sample_status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};

fn sample_status(seed: u64) -> Status {
    let mut server = sample::Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    status.game = Some("BF3".into());
    status.version = Some("1149977".into());
    status.mode = Some(random.text(&["ConquestLarge0", "RushLarge0"]).into());
    status.map = Some(random.text(&["MP_001", "MP_017", "XP0_Metro"]).into());
    status.has_anti_cheat = Some(random.below(2) == 0);
    status.has_password = Some(random.below(8) == 0);
    let scores = [300, 300 - random.below(300) as i64];
    let uptime = 3_600 + random.below(1 << 20) as i64;
    status.extra = Vec::from([
        Extra::new("rounds-played", random.below(2) as i64),
        Extra::new("rounds", 2_i64),
        Extra::new("scores", Value::List(scores.map(Value::Int).into())),
        Extra::new("target-score", 0_i64),
        Extra::new("ranked", true),
        Extra::new("uptime", uptime),
        Extra::new("round-time", random.below(3_600) as i64),
        Extra::new("join-queue", true),
        Extra::new("region", random.text(&["EU", "NAm"])),
        Extra::new("ping-site", "ams"),
        Extra::new("country", "NL"),
        Extra::new("matchmaking", false),
    ]);
    for (index, player) in server.players.iter_mut().enumerate() {
        player.uuid = None;
        player.team = Some((index % 2 + 1).to_string().into());
        player.score = Some(random.below(5_000) as i64);
        player.latency_ms = Some(random.below(180) as i32);
        player.extra = Vec::from([
            Extra::new("squad", random.below(9) as i64),
            Extra::new("kills", random.below(40) as i64),
            Extra::new("deaths", random.below(40) as i64),
            Extra::new("rank", random.below(145) as i64),
        ]);
    }
    server.finish()
}
