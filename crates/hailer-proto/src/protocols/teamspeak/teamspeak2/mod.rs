//! TeamSpeak 2: the query of guests. TCP, port 51234.
//!
//! ```text
//!   client                       server
//!                           ◄─  [TS]
//!     sel 8767, si, pl      ─►
//!                           ◄─  lines of data and OK, for each command
//! ```
//!
//! The port of queries is that of the machine; each virtual server has a port for voice.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::teamspeak::command_lines`,
//! `crate::sample`, `crate::wire`.

mod client;
pub mod message;
mod server;

use crate::model::{Extra, Status, Text};
use crate::protocol::{Composed, Doc, Info};
use crate::protocols::teamspeak::command_lines::respond;
use crate::sample;
use crate::wire::deviations;
use alloc::{boxed::Box, vec::Vec};

deviations! {
    NO_LIST "no-list" "the server refuses to send the list of players, or sends none";
    ODD_NUMBER "odd-number" "a number has another form, and is left out";
}

static INFO: Info = Info {
    id: "teamspeak2",
    title: "TeamSpeak 2",
    port: 51_234,
    declares_charset: false,
    fields: &[
        Doc::new("platform", "Operating system of the server"),
        Doc::new("channels", "Number of channels"),
        Doc::new(
            "uptime",
            "Time since the start of the virtual server in seconds",
        ),
    ],
    player_fields: &[
        Doc::new("id", "Number of the player"),
        Doc::new("channel", "Number of the player's channel"),
        Doc::new("time", "Time since the player joined in seconds"),
        Doc::new("idle-time", "Time since the player spoke in seconds"),
    ],
    deviations: ALL,
    has_responder: true,
    ..Info::CONNECTED
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(client::Query::new(ask)),
    responder: Some(|status, _, options| respond(options, server::Server::new(status))),
    sample: sample_status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};

fn sample_status(seed: u64) -> Status {
    let mut server = sample::Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.map = None;
    status.name = Some(Text::unformatted(server.name.clone()));
    let motd = random.text(&["Welcome", "caf\u{E9}", "\u{2605} season 7"]);
    status.motd = Some(Text::unformatted(motd));
    status.has_password = Some(random.below(8) == 0);
    status.extra = Vec::from([
        Extra::new("platform", random.text(&["Linux", "Win32"])),
        Extra::new("channels", 1 + random.below(40) as i64),
        Extra::new("uptime", random.below(1 << 24) as i64),
    ]);
    for (id, player) in (1_i64..).zip(&mut server.players) {
        player.uuid = None;
        player.latency_ms = Some(random.below(180) as i32);
        player.extra = Vec::from([
            Extra::new("id", id),
            Extra::new("channel", 1 + random.below(40) as i64),
            Extra::new("time", random.below(10_000) as i64),
            Extra::new("idle-time", random.below(1_000) as i64),
        ]);
    }
    server.finish()
}
