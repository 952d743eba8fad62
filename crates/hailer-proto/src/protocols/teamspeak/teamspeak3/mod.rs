//! TeamSpeak 3: ServerQuery, as far as guests may use it. TCP.
//!
//! ```text
//!   client                         server
//!                             ◄─  TS3, a line of welcome
//!     use port=9987           ─►
//!                             ◄─  error id=0 msg=ok
//!     serverinfo, clientlist  ─►
//!                             ◄─  a line of data and an error line, for each command
//! ```
//!
//! The port of queries is that of the machine; each virtual server has a port for voice. Servers
//! block addresses that send more than ten commands in 3 s (spec/teamspeak3.md#4).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::teamspeak::command_lines`,
//! `crate::sample`, `crate::wire`.

mod client;
pub mod message;
mod server;

use crate::model::{Address, Extra, Status, Text};
use crate::protocol::{Composed, Doc, Info};
use crate::protocols::teamspeak::command_lines::respond;
use crate::sample;
use crate::wire::deviations;
use alloc::{boxed::Box, vec::Vec};

deviations! {
    OTHER_GREETING "other-greeting" "the first line is another name than `TS3`, as of TeaSpeak; a line of welcome follows it";
    NO_LIST "no-list" "the server refuses to send the list of clients, sends none, or one above the limits";
    BAD_ESCAPE "bad-escape" "a value has a backslash with an unknown character after it";
    INVALID_UTF8 "invalid-utf8" "a value is not valid UTF-8";
    ODD_NUMBER "odd-number" "a number has another form, and is left out";
}

static INFO: Info = Info {
    id: "teamspeak3",
    title: "TeamSpeak 3",
    port: 10_011,
    fields: &[
        Doc::new(
            "query-clients",
            "Number of clients of queries, which do not count as players",
        ),
        Doc::new("channels", "Number of channels"),
        Doc::new(
            "reserved-slots",
            "Number of slots for clients with a permission",
        ),
        Doc::new(
            "uptime",
            "Time since the start of the virtual server in seconds",
        ),
        Doc::new("greeting", "First line of the server, if it is not `TS3`"),
        Doc::new("platform", "Operating system of the server"),
        Doc::new("state", "State of the virtual server, such as `online`"),
        Doc::new(
            "average-ping",
            "Average latency of the clients in milliseconds",
        ),
    ],
    player_fields: &[
        Doc::new("id", "Number of the client"),
        Doc::new("channel", "Number of the client's channel"),
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
    let motd = random.text(&["Welcome | to a/b \\ c", "caf\u{E9}", "\u{2605} two\nlines"]);
    status.motd = Some(Text::unformatted(motd));
    status.version = Some("3.13.7 [Build: 1655727713]".into());
    status.has_password = Some(random.below(8) == 0);
    status.address = Some(Address {
        host: None,
        port: Some(9_987),
    });
    status.extra = Vec::from([
        Extra::new("query-clients", 1 + random.below(2) as i64),
        Extra::new("channels", 1 + random.below(40) as i64),
        Extra::new("reserved-slots", 0_i64),
        Extra::new("uptime", random.below(1 << 24) as i64),
        Extra::new("platform", random.text(&["Linux", "Windows"])),
        Extra::new("state", "online"),
    ]);
    for (id, player) in (1_i64..).zip(&mut server.players) {
        player.uuid = None;
        player.extra.push(Extra::new("id", id));
        let channel = 1 + random.below(40) as i64;
        player.extra.push(Extra::new("channel", channel));
    }
    server.finish()
}
