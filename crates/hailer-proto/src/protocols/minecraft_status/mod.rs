//! Minecraft server list ping of all eras: Beta 1.8 to today, on the port of the game. TCP.
//!
//! ```text
//!   client                                server
//!     handshake, status request    ─►              1.7 and later
//!                                  ◄─  status      JSON
//!     ping                         ─►
//!                                  ◄─  pong        the server closes the connection
//!
//!     FE, FE 01 or FE 01 FA …      ─►              before 1.7
//!                                  ◄─  FF text     a kick with the status as text
//! ```
//!
//! The client tries the forms one after the other, each on its own connection
//! (spec/minecraft-status.md#8). [`Depth::Ping`](crate::Depth::Ping) ends with any status reply and
//! does not parse it. `Basic` parses version, description and counts. `Full` adds players, icon,
//! mods and other fields, and a ping, whose round trip shows the latency.
//!
//! Limits: packets of 2 MiB, 128 levels of JSON, 64 of chat components.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod component;
pub mod deviation;
mod english;
mod explain;
mod host;
pub mod lan;
pub mod message;
mod mods;
pub mod reply;
mod server;

pub use client::{PORT, StatusExchange};
pub use host::{RequestedHost, configured_host, requested_host};
pub use server::{MAX_SAMPLE, NEWEST, StatusResponder};

use crate::model::{Extra, Status, Text};
use crate::protocol::{Composed, Discovery, Doc, Info, Wave};
use alloc::{boxed::Box, sync::Arc};

static INFO: Info = Info {
    id: "minecraft-status",
    title: "Minecraft Status",
    port: PORT,
    wave: Wave::First,
    place: 0,
    discovery: &[Discovery::Announcement {
        group: lan::GROUP,
        port_of: lan::port_of,
    }],
    fields: &[
        Doc::new("protocol", "Protocol number of the game"),
        Doc::new("legacy-form", "Form of a reply before 1.7: `beta` or `1.4`"),
        Doc::new(
            "enforces-secure-chat",
            "Whether chat messages must be signed",
        ),
        Doc::new(
            "previews-chat",
            "Whether the server previews chat messages, in 1.19 to 1.19.2",
        ),
        Doc::new(
            "prevents-chat-reports",
            "Whether a mod prevents reports of chat messages",
        ),
        Doc::new(
            "is-modded",
            "Whether the server has mods, without their list",
        ),
        Doc::new(
            "mod-loader",
            "Form of the mod list: `FML`, `FML2` or `FML3`",
        ),
        Doc::new(
            "mods",
            "Mods with id and version; `side` is `server` if clients do not need the mod",
        ),
        Doc::new(
            "channels",
            "Network channels of mods with name, version and whether clients need them",
        ),
        Doc::new(
            "mods-truncated",
            "Whether the server left out mods or channels",
        ),
        Doc::new(
            "modpack",
            "Modpack, as sent by the mod Better Compatibility Checker",
        ),
        Doc::new(
            "other",
            "Fields that are not part of the protocol, by their names",
        ),
    ],
    player_fields: &[
        Doc::new(
            "text",
            "True if the entry is a text of the owner instead of a player",
        ),
        Doc::new("id", "Id that is not a UUID"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    has_join_attempts: true,
    // Clients of all versions close a connection that is silent for 30 s (spec/minecraft-status.md#10).
    join_wait_ms: 25_000,
    options: &[
        Doc::new(
            "icon",
            "Icon as a data: URI with a PNG image of 64 x 64 pixels, in place of that of the status",
        ),
        Doc::new(
            "kick",
            "Text for players who try to join; color codes with & or the section sign; by default \"This server only shows its status.\"",
        ),
        Doc::new(
            "protocol",
            "Protocol number to report, or \"echo\" for that of the client, so that each version shows as compatible; by default that of the status, or else \"echo\"",
        ),
    ],
    ..Info::CONNECTED
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, cookie| Box::new(StatusExchange::new(ask, cookie)),
    responder: Some(|status, _, options| {
        options.check(INFO.options)?;
        Ok(Arc::new(StatusResponder::new(status, options)?))
    }),
    sample: sample_status,
    explain: |bytes, seen, notes| explain::explain(bytes, seen.direction(), notes),
};

fn sample_status(seed: u64) -> Status {
    let sample = crate::sample::status(seed);
    let mut status = Status {
        // JSON has no ISO-8859-1.
        motd: sample.motd.map(|motd| Text::legacy(motd.raw())),
        version: Some("1.21.8".into()),
        ..Status::default()
    };
    status.extra.push(Extra::new("protocol", i64::from(NEWEST)));
    status.players.online = sample.players.online;
    status.players.max = sample.players.max;
    let mut list = sample.players.list;
    list.truncate(MAX_SAMPLE);
    if !list.is_empty() {
        status.players.set_sample(list);
    }
    status
}
