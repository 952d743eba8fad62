//! Discord: the widget of a guild. HTTPS to the service, not to a server of the owner.
//!
//! ```text
//!   client                                   discord.com
//!     GET /api/guilds/ID/widget.json   ─►
//!          ◄─  JSON: name, members, channels
//! ```
//!
//! The target is the id of the guild: `discord://ID`. The owner enables the widget (spec/discord.md#1).

mod client;

pub use client::DiscordFiles;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Discord;

static INFO: Info = Info {
    id: "discord",
    title: "Discord",
    port: 443,
    service: Some(client::HOST),
    fields: &[
        Doc::new("guild", "Id of the guild"),
        Doc::new("invite", "Address of an invitation"),
        Doc::new("channels", "Names of the public voice channels"),
        Doc::new("service", "The remote service that reports the status"),
    ],
    player_fields: &[
        Doc::new("status", "`online`, `idle` or `dnd`"),
        Doc::new("game", "Activity of the member"),
    ],
    ..Info::HTTP
};

impl Protocol for Discord {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<DiscordFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<DiscordFiles>(&INFO).explain(bytes, seen, notes)
    }
}
